//! An action on a node as the service carries it out: the command's workflow, from the lock to the records.

use std::collections::BTreeMap;

use super::actions::{Entry, Order};
use super::host::{Host, ServiceClock};
use super::metrics::Metrics;
use crate::apply::{self, EventClock};
use crate::design::NodeName;
use crate::plan::{Action, ChangeKind, Options, Plan, Request};
use crate::report::airship::{Heard, Message, MessageKind, Status, of_nothing, of_refusal};
use crate::run::{EventKind, Finished, LeaseHolder, Process, RunEvent, StopHandle};
use crate::step::FailureReason;
use crate::workflow::{
    self, ApplyRequest, Caller, Carried, Equipped, Execution, Failure, FailureKind, PlanFile,
    PlanRequest, Planner, ReadyPlan, RunHost, RunLimits, Steps, drive_on, signing_site, time_left,
    unpublished,
};

/// Carries an action out; its status.
pub(super) fn act(host: &dyn Host, entry: &Entry, metrics: &Metrics) -> Status {
    carry(host, entry, metrics).unwrap_or_else(|failure| refused(entry.order.action, &failure))
}

/// The status of an action that did not come to a run. What would be wrong usage of a step is, in a composite, a step that
/// fails; and what is broken here is no mistake of the caller's.
pub(super) fn refused(action: Action, failure: &Failure) -> Status {
    let reason = match failure.kind {
        FailureKind::Error => action.failure_reason(),
        FailureKind::Usage if action == Action::Decommission => action.failure_reason(),
        // A run before it has not ended: its resumption, or its end, comes first.
        FailureKind::Interrupted => FailureReason::Conflict,
        _ => failure.reason(Some(action)),
    };
    let message = match failure.message.as_str() {
        "" => "the documents of the site have errors; `trueup validate` shows them",
        message => message,
    };
    let notes = [&failure.details[..], &failure.hints].concat();
    of_refusal(reason, message, &notes)
}

fn carry(host: &dyn Host, entry: &Entry, metrics: &Metrics) -> Result<Status, Failure> {
    let client = host.client();
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let site = signing_site(&checkout, host.connection(&repository)?)?;
    let actor = client.actor(&repository)?;
    let clock = host.clock(Some(entry.stop.clone()));
    let order = &entry.order;
    let process = Process::new(&site, &actor, clock.timekeeper()).requested(&order.requested);
    workflow::look_out(client, process)?;
    let at = order.design.resolve(host, &checkout, &site.connection)?;
    let (request, plan_request) = (request(order), plan_request(host, order));
    let planner = Planner {
        client,
        checkout: &checkout,
        at,
        connection: &site.connection,
        request: &request,
        plan_request: &plan_request,
    };
    let today = host.today();
    let ReadyPlan {
        planned,
        commit,
        clearance,
    } = planner.ready(&site, &today, |plan| is_about(plan, &order.node))?;
    if planned.plan.steps.is_empty() {
        return Ok(of_nothing(order.action, &planned.plan));
    }
    time_left(clock.timekeeper(), &planned.site.design, &planned.plan)?;
    let equipped = planned.equipped()?;
    let file = PlanFile::of(&equipped.plan)?;
    let (backends, refused) = (|| equipped.hardware.clone(), BTreeMap::new());
    let apply_request = ApplyRequest {
        execution: Execution {
            plan: &equipped.plan,
            design: &equipped.design,
            applied: &equipped.applied,
            backends: &backends,
            refused: &refused,
            limits: RunLimits {
                stop_grace: host.stop_grace(),
                ..RunLimits::default()
            },
        },
        file: &file,
        commit,
        clearance: &clearance,
        supersede: false,
        today: &today,
    };
    let run_host = ServiceRun {
        entry,
        clock: &*clock,
        equipped: &equipped,
    };
    let mut heard = Heard::default();
    let caller = Caller {
        host: &run_host,
        events: &mut |_, event| hear(entry, metrics, &mut heard, event),
    };
    let carried = workflow::apply(process, &apply_request, caller)?;
    Ok(concluded(order.action, heard, &carried))
}

fn hear(entry: &Entry, metrics: &Metrics, heard: &mut Heard, event: &RunEvent) {
    if let EventKind::RunStarted { run, .. } = &event.kind {
        entry.run_is(run);
    }
    heard.hear(event);
    metrics.hear(event);
}

/// The status of a run that has ended.
fn concluded(action: Action, heard: Heard, carried: &Carried<'_>) -> Status {
    let report = &carried.report;
    let mut status = heard.into_status(action, report);
    let publication = carried.session.publication();
    if let Some(failure) = unpublished(publication, &report.run, report.outcome) {
        status.messages.push(Message {
            message: failure.message,
            error: true,
            kind: MessageKind::SimpleMessage,
            name: None,
        });
    }
    status
}

/// The request of a plan: one node, by its name.
fn request(order: &Order) -> Request {
    Request {
        action: order.action,
        nodes: [order.node.clone()].into(),
        ..Request::default()
    }
}

fn plan_request(host: &dyn Host, order: &Order) -> PlanRequest {
    let base = host.plan_request();
    PlanRequest {
        options: Options {
            leaving: order.leaving.clone(),
            ..base.options
        },
        gives_times: order.gives_times,
        ..base
    }
}

/// Refuses a plan that is about anything but the node itself: its id may be the name of a group, a rack or a tag, which
/// would select others.
fn is_about(plan: &Plan, node: &str) -> Result<(), Failure> {
    let mut changes = plan.changes.iter();
    let is_other = |name: &NodeName| name.as_str() != node;
    let has_other = plan
        .changes
        .iter()
        .any(|change| change.kind != ChangeKind::None && is_other(&change.node));
    let has_steps_elsewhere = plan
        .steps
        .iter()
        .any(|step| step.id.node.as_ref().is_some_and(is_other));
    if has_other || has_steps_elsewhere || !changes.any(|change| !is_other(&change.node)) {
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no node `{node}`"),
        ));
    }
    Ok(())
}

/// The service, as a run lives in it.
struct ServiceRun<'a> {
    entry: &'a Entry,
    clock: &'a dyn ServiceClock,
    equipped: &'a Equipped,
}

impl RunHost for ServiceRun<'_> {
    fn clock(&self) -> &dyn EventClock {
        self.clock.events()
    }

    fn begins(&self, stop: StopHandle) {
        self.entry.run_begins(stop);
    }

    fn drive(&self, holder: &dyn LeaseHolder, steps: Steps<'_>) -> Result<Finished, apply::Error> {
        drive_on(
            &self.equipped.runtime,
            &self.equipped.hardware,
            holder,
            steps,
        )
    }
}
