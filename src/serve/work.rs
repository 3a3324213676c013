//! An action on a node as the service carries it out: the command's workflow, from the lock to the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::actions::{Entry, Order};
use super::host::{Host, ServiceClock};
use super::metrics::Metrics;
use super::resume::abort;
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
    let ended = match entry.order.only_tests {
        true => test(host, entry),
        false => carry(host, entry, metrics),
    };
    let status = ended.unwrap_or_else(|failure| {
        let now = host.clock(None).events().now();
        entry.ends_without_run(Some(&failure), &now);
        refused(entry.order.action, &failure)
    });
    if let Some(run) = entry.progress().run.filter(|_| entry.is_aborted()) {
        // A run that has ended all the same cannot be aborted.
        if let Err(failure) = abort(host, &run) {
            log::info!("run {run} was not aborted: {failure}");
        }
    }
    status
}

/// Tests whether the site is as it is designed: all of it is observed, and nothing is to be done.
fn test(host: &dyn Host, entry: &Entry) -> Result<Status, Failure> {
    let client = host.client();
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    let order = &entry.order;
    let plan_request = PlanRequest {
        only_looks: true,
        ..plan_request(host, order)
    };
    let planner = Planner {
        client,
        checkout: &checkout,
        at: order.design.resolve(host, &checkout, &connection)?,
        connection: &connection,
        request: &request(order),
        plan_request: &plan_request,
    };
    let plan = planner.plan()?.into_plan();
    let differing = plan.changes.iter();
    let differing = differing.filter(|change| change.kind != ChangeKind::None);
    let details: Vec<String> = differing
        .map(|change| {
            let reasons: Vec<&str> = change.reasons.iter().map(|reason| &**reason).collect();
            format!("{}: {}", change.node, reasons.join("; "))
        })
        .collect();
    if details.is_empty() {
        entry.ends_without_run(None, &host.clock(None).events().now());
        return Ok(of_nothing(order.action, &plan));
    }
    let nodes = crate::report::counted(details.len(), "node is", "nodes are");
    let text = format!("{nodes} not as designed");
    Err(Failure::new(FailureKind::Failed, text).details(details))
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
    } = planner.ready(&site, &today, |plan| is_about(plan, &order.nodes))?;
    if planned.plan.steps.is_empty() {
        entry.ends_without_run(None, &clock.events().now());
        return Ok(of_nothing(order.action, &planned.plan));
    }
    time_left(clock.timekeeper(), &planned.site.design, &planned.plan)?;
    let equipped = planned.equipped()?;
    entry.with_steps(|steps| steps.expect(&equipped.plan));
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
    entry.hear(event);
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

/// The request of a plan: the nodes by their names.
fn request(order: &Order) -> Request {
    Request {
        action: order.action,
        nodes: order.nodes.clone(),
        ..Request::default()
    }
}

fn plan_request(host: &dyn Host, order: &Order) -> PlanRequest {
    let base = host.plan_request();
    PlanRequest {
        options: Options {
            leaving: order.leaving.clone(),
            allow_intermediate_commits: order.allow_intermediate_commits,
            skip_blocked: order.skip_blocked,
            ..base.options
        },
        gives_times: order.gives_times,
        ..base
    }
}

/// Refuses a plan that is about anything but the nodes themselves: the id of one may be the name of a group, a rack or a
/// tag, which would select others.
fn is_about(plan: &Plan, nodes: &BTreeSet<Arc<str>>) -> Result<(), Failure> {
    if nodes.is_empty() {
        return Ok(());
    }
    let is_other = |name: &NodeName| !nodes.contains(name.as_str());
    let changes = || plan.changes.iter();
    let has_other =
        changes().any(|change| change.kind != ChangeKind::None && is_other(&change.node));
    let mut steps = plan.steps.iter();
    let has_steps_elsewhere = steps.any(|step| step.id.node.as_ref().is_some_and(is_other));
    let is_missing = |node: &&Arc<str>| !changes().any(|change| *change.node.as_str() == ***node);
    let missing = nodes.iter().find(is_missing);
    let unknown = match (missing, has_other || has_steps_elsewhere) {
        (Some(node), _) => Some(node),
        (None, true) => nodes.first(),
        (None, false) => None,
    };
    match unknown {
        None => Ok(()),
        Some(node) => Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no node `{node}`"),
        )),
    }
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
