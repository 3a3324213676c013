//! An action as the service carries it out: the command's workflow, from the lock to the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::actions::{Entry, NodesTask, Order, PlanTask, Task};
use super::answer::Refusal;
use super::host::{Host, ServiceClock};
use super::own::{self, Feed};
use super::resume::abort;
use super::rights::Permit;
use super::shared::Shared;
use crate::apply::{self, EventClock};
use crate::backend::Notifier;
use crate::design::NodeName;
use crate::plan::{Action, ChangeKind, Loosened, Options, Plan, Request};
use crate::report::airship::{Heard, Message, MessageKind, Status, of_nothing, of_refusal};
use crate::run::{EventKind, Finished, LeaseHolder, Process, RunEvent, SiteRepository, StopHandle};
use crate::site::At;
use crate::step::FailureReason;
use crate::workflow::{
    self, AS_APPLIED, Acting, ApplyRequest, Caller, Carried, Checkout, Client, Consent, Equipped,
    Execution, Failure, FailureKind, Observed, Operator, Origin, PlanFile, PlanRequest, Planner,
    ReadyPlan, RunHost, RunLimits, Steps, commit_of_saved, drive_on, ensure_admitted, signing_site,
    time_left, unpublished,
};

/// Carries an action out; its status.
pub(super) fn act(shared: &Shared, entry: &Entry) -> Status {
    let host = &*shared.host;
    let Order { action, task, .. } = &entry.order;
    let ended = match task {
        Task::Nodes(task) if task.only_tests => test(host, entry, task),
        _ => carry(shared, entry),
    };
    let status = ended.unwrap_or_else(|failure| {
        let now = host.clock(None).events().now();
        entry.ends_without_run(Some(&failure), &now);
        match task {
            Task::Nodes(_) => refused(*action, &failure),
            Task::Plan(_) => Refusal::from(failure).into_status(),
        }
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
fn test(host: &dyn Host, entry: &Entry, task: &NodesTask) -> Result<Status, Failure> {
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    let order = &entry.order;
    let client = &client(host, &checkout, order)?;
    let plan_request = PlanRequest {
        only_looks: true,
        ..plan_request(host, task)
    };
    let planner = Planner {
        client,
        checkout: &checkout,
        at: task.design.resolve(host, &checkout, &connection)?,
        connection: &connection,
        request: &request(order.action, task),
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

/// The client of an action, on behalf of its caller and of who asked for its plan.
fn client<'a>(
    host: &'a dyn Host,
    checkout: &Checkout<'_>,
    order: &Order,
) -> Result<Acting<'a>, Failure> {
    let acting = Acting::of(host.client(), &order.principals);
    Ok(match &order.task {
        Task::Nodes(_) => acting,
        Task::Plan(task) => acting.and(own::plan_folder(checkout)?.principals(&task.id)?),
    })
}

fn carry(shared: &Shared, entry: &Entry) -> Result<Status, Failure> {
    let host = &*shared.host;
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let order = &entry.order;
    let client = &client(host, &checkout, order)?;
    let site = signing_site(&checkout, host.connection(&repository)?)?;
    let actor = client.actor(&repository)?;
    let clock = host.clock(Some(entry.stop.clone()));
    let process = Process::new(&site, &actor, clock.timekeeper()).requested(&order.requested);
    workflow::ensure_site_is_free(client, process)?;
    let place = Place {
        host,
        client,
        checkout: &checkout,
        site: &site,
    };
    let ready = match &order.task {
        Task::Nodes(task) => place.nodes(order.action, task)?,
        Task::Plan(task) => place.plan(task)?,
    };
    let ReadyPlan {
        planned,
        commit,
        clearance,
    } = ready;
    if planned.plan.is_empty() {
        entry.ends_without_run(None, &clock.events().now());
        return Ok(of_nothing(order.action, &planned.plan));
    }
    if let Err(refusal) = permits(shared, &order.permit, &planned.plan) {
        let failure = Failure::new(FailureKind::Guard, refusal.status().message.as_str());
        entry.ends_without_run(Some(&failure), &clock.events().now());
        return Ok(refusal.into_status());
    }
    time_left(clock.timekeeper(), planned.guarded.guards(), &planned.plan)?;
    let equipped = planned.equipped()?;
    entry.with_steps(|steps| steps.expect(&equipped.plan));
    let file = PlanFile::of(&equipped.plan)?;
    let backends = || equipped.hardware.clone();
    let apply_request = ApplyRequest {
        execution: Execution {
            plan: &equipped.plan,
            guarded: &equipped.guarded,
            applied: &equipped.applied,
            backends: &backends,
            refused: &equipped.refused,
            renewed: &equipped.renewed,
            limits: RunLimits {
                stop_grace: host.stop_grace(),
                ..RunLimits::default()
            },
        },
        file: &file,
        commit,
        clearance: &clearance,
    };
    let run_host = ServiceRun {
        entry,
        clock: &*clock,
        equipped: &equipped,
    };
    let mut listening = Listening {
        shared,
        entry,
        plan: &equipped.plan,
        heard: Heard::default(),
        feed: None,
    };
    let caller = Caller {
        host: &run_host,
        events: &mut |_, event| listening.on_event(event),
    };
    let carried = workflow::apply(process, &apply_request, caller)?;
    Ok(listening.concluded(&carried))
}

/// The flags that lift limits of the whole site, and not those of single machines.
const LIMITS_OF_SITE: [&str; 7] = [
    "allow-loosening",
    "max-failures",
    "max-remediations",
    "max-unavailable",
    "max-unhealthy",
    "outside-windows",
    "parallelism",
];

/// Refuses a plan that changes machines for which a caller has no permission.
pub(super) fn permits(shared: &Shared, permit: &Permit, plan: &Plan) -> Result<(), Refusal> {
    // It moves the success tag of the site, puts guards in force for all of it, or lifts a limit that others count on.
    let is_update = plan.request.action == Action::Update;
    let lifts = |each: &Loosened| {
        let flag = each.flag.as_deref();
        flag.is_some_and(|flag| LIMITS_OF_SITE.contains(&flag))
    };
    let is_of_site = plan.guards.changes || plan.guards.loosened.iter().any(lifts);
    if is_of_site || (is_update && !plan.is_partial()) {
        let bounded = "an update with `targets` (`POST /api/v1/plans`) is one of machines, and marks no revision of the site";
        permit.covers_all().map_err(|refusal| match is_update {
            true => refusal.and(bounded.to_owned()),
            false => refusal,
        })?;
    }
    let changed = plan.changes.iter();
    let changed = changed.filter(|change| change.kind != ChangeKind::None && !change.is_left_out());
    let changed = changed.map(|change| change.node.as_str());
    let of_steps = plan.steps.iter();
    let of_steps = of_steps.filter_map(|step| Some(step.id.node.as_ref()?.as_str()));
    let nodes: BTreeSet<&str> = changed.chain(of_steps).collect();
    permit.covers(nodes, || shared.view_of_site())
}

/// The listener of a run, for its action, for metrics and for those who follow it.
struct Listening<'a> {
    shared: &'a Shared,
    entry: &'a Entry,
    plan: &'a Plan,
    heard: Heard,
    feed: Option<Arc<Feed>>,
}

impl Listening<'_> {
    fn on_event(&mut self, event: &RunEvent) {
        if let EventKind::RunStarted { run, .. } = &event.kind {
            self.feed = Some(self.shared.feeds.begin(run, self.plan));
            self.entry.run_is(run);
        }
        self.entry.on_event(event);
        if let Some(feed) = &self.feed {
            feed.on_event(event);
        }
        self.heard.on_event(event);
        self.shared.metrics.on_event(event);
    }

    /// The status of a run that has ended.
    fn concluded(mut self, carried: &Carried<'_>) -> Status {
        let Order { action, task, .. } = &self.entry.order;
        let report = &carried.report;
        let mut status = std::mem::take(&mut self.heard).into_status(*action, report);
        if let (Task::Plan(_), 400..) = (task, status.reason.code) {
            status.reason = own::RUN_FAILED;
        }
        let undelivered = report.undelivered.iter().map(|line| Message {
            message: line.to_string(),
            error: false,
            kind: MessageKind::SimpleMessage,
            name: None,
        });
        status.messages.extend(undelivered);
        let publication = carried.session.publication();
        let owed = carried.session.tag_owed();
        let (run, outcome) = (&report.run, report.outcome);
        if let Some(failure) = unpublished(publication, owed.as_ref(), run, outcome) {
            status.messages.push(Message {
                message: failure.message,
                error: true,
                kind: MessageKind::SimpleMessage,
                name: None,
            });
        }
        status
    }
}

impl Drop for Listening<'_> {
    /// Those who follow the run learn of its end, however it ended.
    fn drop(&mut self) {
        if let Some(feed) = &self.feed {
            self.shared.feeds.end(feed);
        }
    }
}

/// The site that an action is for.
struct Place<'a> {
    host: &'a dyn Host,
    client: &'a dyn Client,
    checkout: &'a Checkout<'a>,
    site: &'a SiteRepository<'a>,
}

impl Place<'_> {
    /// The plan of an action on the site or on nodes of it.
    fn nodes(&self, action: Action, task: &NodesTask) -> Result<ReadyPlan, Failure> {
        let connection = &self.site.connection;
        let at = task.design.resolve(self.host, self.checkout, connection)?;
        let (request, plan_request) = (request(action, task), plan_request(self.host, task));
        let planner = Planner {
            client: self.client,
            checkout: self.checkout,
            at,
            connection,
            request: &request,
            plan_request: &plan_request,
        };
        let ready = planner.ready(self.site, |plan| {
            is_about(plan, &task.nodes).map(|()| false)
        })?;
        let nodes = task.nodes.iter();
        task.design
            .agrees_on(nodes, ready.planned.guarded.guards())?;
        Ok(ready)
    }

    /// A plan that is kept, made again: it does nothing that the kept one does not show.
    fn plan(&self, task: &PlanTask) -> Result<ReadyPlan, Failure> {
        let Self {
            host,
            client,
            checkout,
            site,
        } = *self;
        let reviewed = own::plan_folder(checkout)?.read(&task.id)?;
        let commit = commit_of_saved(checkout, site, &reviewed)?;
        let consent = Consent {
            client,
            operator: &Approval { host, task },
            checkout,
            site,
            again: "trueup apply PLAN",
            repeats_flags: true,
            reviewed: &reviewed,
            at: At::Commit(commit),
            has_begun: false,
        };
        let nothing = || Failure::new(FailureKind::Stale, "the plan is of no commit");
        let (planned, commit, clearance) = consent.plan()?.ok_or_else(nothing)?;
        ensure_admitted(site, &planned, &planned.plan, commit, Origin::SavedPlan)?;
        Ok(ReadyPlan {
            planned,
            commit,
            clearance,
        })
    }
}

/// The caller of a request as the operator of its plan: the effect is approved, and nothing else.
struct Approval<'a> {
    host: &'a dyn Host,
    task: &'a PlanTask,
}

impl Operator for Approval<'_> {
    fn plan_request_of_saved(&self, saved: &Options, is_confirmed: bool) -> PlanRequest {
        let base = self.host.plan_request();
        PlanRequest {
            options: Options {
                as_of_given: false,
                ..saved.clone()
            },
            allowed: (!is_confirmed).then_some(base.options),
            observed: Observed::Now,
            accept: AS_APPLIED.accept,
            without_forecast: false,
            by_checkpoints: false,
            only_looks: false,
            gives_times: false,
            unblock: None,
            resumes: BTreeSet::new(),
            reservations: None,
        }
    }

    fn pinned(&self) -> Option<&str> {
        Some(&self.task.effect)
    }

    fn approve(&self, _: &Plan) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// The request of a plan: the nodes by their names.
fn request(action: Action, task: &NodesTask) -> Request {
    Request {
        action,
        nodes: task.nodes.clone(),
        ..Request::default()
    }
}

fn plan_request(host: &dyn Host, task: &NodesTask) -> PlanRequest {
    let base = host.plan_request();
    PlanRequest {
        options: Options {
            leaving: task.leaving.clone(),
            allow_intermediate_commits: task.allow_intermediate_commits,
            skip_blocked: task.skip_blocked,
            ..base.options
        },
        gives_times: task.gives_times,
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

    fn notifier(&self) -> Option<&Notifier> {
        self.equipped.hardware.notifier()
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
