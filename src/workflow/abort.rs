//! Aborts an interrupted run, after an observation of the machines that it had begun to destroy or to build, or may have.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use super::client::driven;
use super::equip::in_history;
use super::notices::Notices;
use super::{
    AS_APPLIED, Checkout, Client, Equipped, Error, Failure, Purpose, equip, if_recorded, plan_of,
};
use crate::apply;
use crate::backend::{self, Backends, Hardware as _, Notifier, Order, Probe, Reporter};
use crate::design::{Guards, NodeName, RunId};
use crate::journal::Entry;
use crate::lifecycle::ProvisionState;
use crate::observed::Fact;
use crate::plan::Plan;
use crate::record::Phase;
use crate::repository::CommitId;
use crate::run::{
    self, Aborted, Inspection, Interrupted, LeaveCordoned, Look, OpenSteps, Process, Seen,
    TakeOver, find_interrupted,
};
use crate::site::{At, Loader, locate_at};
use crate::step::{StepId, StepKind};

/// Machines that are probed at the same time.
const LOOKS_AT_ONCE: usize = 32;
/// How long one is waited for.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

/// An interrupted run that is to be aborted.
#[derive(Clone, Copy)]
pub struct AbortRequest<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The checkout of the site.
    pub checkout: &'a Checkout<'a>,
    /// The run.
    pub run: &'a RunId,
    /// Take its lock if it is of another machine and has not moved for ten minutes.
    pub take_over_dead: bool,
}

/// Aborts an interrupted run; what its last request may still bring about is waited out, and machines that it had begun to
/// destroy or to build, or may have, are probed: those that are built are recorded so, those of which nothing was asked stay
/// as they were, and of each whose deploy had begun is taken back what that set for its own time.
///
/// # Errors
///
/// Those of [`find_interrupted`] and [`run::abort`]; the documents of its commit cannot be loaded.
pub fn abort(process: Process<'_>, request: AbortRequest<'_>) -> Result<Aborted, Error> {
    let found = find_interrupted(process.site, Some(request.run))?;
    let guards = guards_of(process, &found, request)?;
    let take_over = TakeOver {
        dead: request.take_over_dead,
        longest_request: backend::longest_request(&guards),
    };
    let site = SiteOfRun::new(request, process, &found);
    let look = |open: &OpenSteps| site.look(open);
    let leave = |nodes: &[NodeName]| site.leave_cordoned(nodes);
    let aborted = run::abort(process, request.run, take_over, inspected_by(&look, &leave))?;
    request.notify(process, &found, &guards);
    Ok(aborted)
}

/// Aborts a run that is divided among workers: no worker sends anything more before it is written that it was aborted.
///
/// # Errors
///
/// Those of [`run::abort_run`]; the documents of its commit cannot be loaded.
pub fn abort_run(
    process: Process<'_>,
    interrupted: &Interrupted,
    request: AbortRequest<'_>,
) -> Result<Aborted, Error> {
    let guards = guards_of(process, interrupted, request)?;
    let longest = backend::longest_request(&guards);
    let site = SiteOfRun::new(request, process, interrupted);
    let look = |open: &OpenSteps| site.look(open);
    let leave = |nodes: &[NodeName]| site.leave_cordoned(nodes);
    let aborted = run::abort_run(process, interrupted, longest, inspected_by(&look, &leave))?;
    request.notify(process, interrupted, &guards);
    Ok(aborted)
}

/// Open steps are observed so, and all are summed up as the dispatcher does.
fn inspected_by<'a>(look: &'a Look<'a>, leave: &'a LeaveCordoned<'a>) -> Inspection<'a> {
    let sum_up = &|plan: &Plan, entries: &[Entry]| {
        let summed = apply::sum_up(plan, entries);
        summed
            .inspect_err(|error| log::warn!("the run cannot be summed up: {error}"))
            .ok()
    };
    Inspection {
        look,
        sum_up,
        leave_cordoned: leave,
    }
}

/// The machines and clusters of a run that is aborted, which are reached when they are needed.
struct SiteOfRun<'a> {
    request: AbortRequest<'a>,
    process: Process<'a>,
    found: &'a Interrupted,
    equipped: OnceCell<Result<Equipped, Failure>>,
}

impl<'a> SiteOfRun<'a> {
    fn new(request: AbortRequest<'a>, process: Process<'a>, found: &'a Interrupted) -> Self {
        Self {
            request,
            process,
            found,
            equipped: OnceCell::new(),
        }
    }

    fn equipped(&self) -> Result<&Equipped, &Failure> {
        let (found, client, checkout) = (self.found, self.request.client, self.request.checkout);
        let equipped = self.equipped.get_or_init(|| {
            let site = self.process.site;
            in_history(checkout, &site.connection, found.commit)?;
            equip(client, checkout, site, found, plan_of(found)?, Purpose::End)
        });
        equipped.as_ref()
    }

    /// How steps that had begun, or may have, ended, as the machines show. If none can be asked, that is told, and of none
    /// is known.
    fn look(&self, open: &OpenSteps) -> BTreeMap<StepId, Seen> {
        match self.equipped() {
            Ok(equipped) => self.request.seen(equipped, self.found, open),
            Err(why) => {
                let machines: BTreeSet<_> =
                    open.keys().filter_map(|step| step.node.as_ref()).collect();
                let machines = crate::diagnostic::counted(machines.len(), "machine", "machines");
                self.request.client.tell(&format!(
                    "warning: {machines} that the run had begun to change, or may have, could not be observed, and count as half-done: {why}"
                ));
                BTreeMap::new()
            }
        }
    }

    /// Leaves nodes to others that the run has drained and that stay cordoned. If the site cannot be reached, nothing is told
    /// beside what their looks told: conditions and leases hold nothing for long.
    fn leave_cordoned(&self, nodes: &[NodeName]) {
        let Ok(equipped) = self.equipped() else {
            return;
        };
        let nodes: BTreeSet<&NodeName> = nodes.iter().collect();
        let run = &self.found.record.run;
        let orders = apply::orders_to_leave(&equipped.plan, run, &nodes);
        let hardware = &equipped.hardware;
        let leaves = orders.iter().map(|order| hardware.leave_cordoned(order));
        let leaves = futures_util::stream::iter(leaves).buffer_unordered(LOOKS_AT_ONCE);
        let leaves = async {
            let leaves = tokio::time::timeout(LONGEST_LOOK, leaves.collect::<()>());
            hardware.in_time(leaves).await.unwrap_or_default()
        };
        driven(self.request.client, &equipped.runtime, leaves);
    }
}

impl AbortRequest<'_> {
    /// Tells the destinations that the run's documents name that it was aborted, if they are trusted.
    fn notify(&self, process: Process<'_>, found: &Interrupted, guards: &Guards) {
        if !Notifier::is_named(guards) {
            return;
        }
        let context = self.client.backends(self.checkout, &self.checkout.location);
        let opened = context.and_then(|context| {
            let opened = Notifier::open(guards, &context);
            opened.map_err(|error| Failure::error(error.to_string()))
        });
        let told = opened.and_then(|notifier| {
            let plan = plan_of(found)?;
            let run = found.record.run.as_str();
            let notices = Notices::of(notifier.as_ref(), &plan, found.commit, run);
            Ok(notices.aborted(process.time.seconds()))
        });
        match told {
            Ok(lines) => {
                for line in lines {
                    self.client.tell(&format!("warning: {line}"));
                }
            }
            Err(why) => {
                let text = format!("warning: notifications of the end were not sent: {why}");
                self.client.tell(&text);
            }
        }
    }

    fn seen(
        &self,
        equipped: &Equipped,
        found: &Interrupted,
        open: &OpenSteps,
    ) -> BTreeMap<StepId, Seen> {
        let (plan, hardware) = (&equipped.plan, &equipped.hardware);
        // Each machine's in the order of the plan.
        let mut orders: BTreeMap<&NodeName, Vec<Order>> = BTreeMap::new();
        for step in &plan.steps {
            let (Some(notes), Some(node)) = (open.get(&step.id), &step.id.node) else {
                continue;
            };
            let designed = equipped.guarded.nodes.get(node);
            orders.entry(node).or_default().push(Order {
                leaving: Arc::default(),
                soaked: Arc::default(),
                run: found.record.run.clone(),
                step: Arc::new(step.clone()),
                node: designed.or(equipped.applied.get(node)).cloned(),
                notes: notes.clone(),
                reporter: Reporter::default(),
            });
        }
        let looks = orders
            .into_values()
            .map(|orders| probe_machine(hardware, orders));
        let asks = async {
            let looks = futures_util::stream::iter(looks).buffer_unordered(LOOKS_AT_ONCE);
            let found: Vec<ProbedMachine> = hardware.in_time(looks.collect()).await;
            found
        };
        let mut seen = BTreeMap::new();
        for look in driven(self.client, &equipped.runtime, asks) {
            if let Some((id, left)) = look.not_taken_back {
                self.client.tell(&match id.kind {
                    StepKind::Service => format!(
                        "warning: what was set for `{id}` cannot be taken back, and may still be applied, at the latest at the \
                         next restart of its machine: {left}"
                    ),
                    StepKind::ServiceLive => format!(
                        "warning: what was set for `{id}` cannot be taken back, and may still be applied: {left}"
                    ),
                    _ => format!(
                        "warning: boot override or image of `{id}` cannot be taken back, so that its machine may be installed \
                         anew at its next start; `trueup apply power on` takes them back first: {left}"
                    ),
                });
            }
            seen.extend(look.seen);
        }
        seen
    }
}

/// The ends of steps that a machine shows.
#[derive(Default)]
struct ProbedMachine {
    seen: Vec<(StepId, Seen)>,
    /// The deploy or service of which something stays that was set for its own time, and why.
    not_taken_back: Option<(StepId, String)>,
}

impl ProbedMachine {
    /// Takes back what a step has set for its own time: how far it is then; `None`: something of it stays.
    async fn take_back(&mut self, hardware: &Backends, order: &Order) -> Option<Probe> {
        let taken = tokio::time::timeout(LONGEST_LOOK, hardware.take_back(order)).await;
        let left = match taken {
            Ok(Ok(probe)) => return Some(probe),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {} s", LONGEST_LOOK.as_secs()),
        };
        self.not_taken_back = Some((order.step.id.clone(), left));
        None
    }

    /// How a service ended that had begun, once nothing stays of what it had set for its own time.
    async fn end_service(&mut self, hardware: &Backends, order: &Order) -> Option<Seen> {
        match seen_of(hardware, order).await {
            Some(seen) => Some(seen),
            None => {
                let left = match self.take_back(hardware, order).await? {
                    Probe::Done => return Some(Seen::Done),
                    Probe::NotBegun => return Some(Seen::TakenBack),
                    Probe::UnderWay => Arc::from("it is under way"),
                    Probe::Ambiguous(why) => why,
                };
                self.not_taken_back = Some((order.step.id.clone(), left.to_string()));
                None
            }
        }
    }
}

/// Probes the open steps of a machine, in the order of the plan: first those that build or destroy it, then the others.
async fn probe_machine(hardware: &Backends, orders: Vec<Order>) -> ProbedMachine {
    let mut look = ProbedMachine::default();
    let is_of_machine = |order: &&Order| order.step.id.kind.facts().changes_machine();
    // One is only asked for if the one before is done: of a machine that still runs what was built before, no probe could
    // tell that from what would have been built. If it had not begun, none behind it had.
    let mut is_untouched = false;
    for order in orders.iter().filter(is_of_machine) {
        let id = &order.step.id;
        let seen = match is_untouched {
            true => Some(Seen::NotBegun),
            false => match seen_of(hardware, order).await {
                Some(Seen::NotBegun) if has_failed(hardware, order).await => Some(Seen::Failed),
                seen => seen,
            },
        };
        if !is_untouched
            && seen != Some(Seen::NotBegun)
            && id.kind.facts().reaches == Some(Phase::Deployed)
        {
            look.take_back(hardware, order).await;
        }
        is_untouched = matches!(seen, Some(Seen::NotBegun | Seen::Failed));
        let Some(seen) = seen else {
            return look;
        };
        look.seen.push((id.clone(), seen));
    }
    let is_done = |order: &Order| look.seen.contains(&(order.step.id.clone(), Seen::Done));
    let is_not_begun = |order: &Order| {
        let mut seen = look.seen.iter().filter(|(id, _)| *id == order.step.id);
        seen.any(|(_, seen)| matches!(seen, Seen::NotBegun | Seen::Failed))
    };
    let done = orders.iter().rposition(is_done);
    let not_begun = orders.iter().position(is_not_begun);
    let is_service = |order: &Order| order.step.id.kind.sets_hardware();
    let mut others = Vec::new();
    let mut is_untouched = false;
    for (position, order) in orders.iter().enumerate() {
        if is_of_machine(&order) {
            continue;
        }
        let seen = match () {
            () if done.is_some_and(|done| position < done) => Some(Seen::Done),
            // What it has set is taken back whatever is known of the steps before it.
            () if is_service(order) => look.end_service(hardware, order).await,
            () if is_untouched || not_begun.is_some_and(|first| first < position) => {
                Some(Seen::NotBegun)
            }
            () => seen_of(hardware, order).await,
        };
        is_untouched |= seen == Some(Seen::NotBegun);
        let Some(seen) = seen else {
            for service in orders[position + 1..]
                .iter()
                .filter(|order| is_service(order))
            {
                let seen = look.end_service(hardware, service).await;
                others.extend(seen.map(|seen| (service.step.id.clone(), seen)));
            }
            // What comes behind a step that had not begun had not, either, whatever became of this one.
            let behind = orders.iter().enumerate().skip(position + 1);
            let behind = behind.filter(|(at, order)| {
                !is_of_machine(order)
                    && !is_service(order)
                    && not_begun.is_some_and(|first| first < *at)
            });
            others.extend(behind.map(|(_, order)| (order.step.id.clone(), Seen::NotBegun)));
            break;
        };
        others.push((order.step.id.clone(), seen));
    }
    look.seen.extend(others);
    look
}

/// How a step ended that had begun, or may have; `None`: that cannot be told.
async fn seen_of(hardware: &Backends, order: &Order) -> Option<Seen> {
    match tokio::time::timeout(LONGEST_LOOK, hardware.probe(order)).await {
        Ok(Probe::Done) => Some(Seen::Done),
        Ok(Probe::NotBegun) => Some(Seen::NotBegun),
        Ok(Probe::UnderWay | Probe::Ambiguous(_)) | Err(_) => None,
    }
}

/// Whether the machine of a step that can be done anew is in the state that its failure leaves.
async fn has_failed(hardware: &Backends, order: &Order) -> bool {
    let Some(node) = &order.node else {
        return false;
    };
    let is_failure = |state: ProvisionState| match order.step.id.kind {
        StepKind::Prepare => state == ProvisionState::InspectFailed,
        StepKind::Deploy => state == ProvisionState::DeployFailed,
        StepKind::Destroy => matches!(state, ProvisionState::Error | ProvisionState::CleanFailed),
        StepKind::Clean => state == ProvisionState::CleanFailed,
        _ => false,
    };
    let look = hardware.see_only(std::slice::from_ref(node), true, None);
    let Ok(seen) = tokio::time::timeout(LONGEST_LOOK, look).await else {
        return false;
    };
    let machine = seen.nodes.get(&node.name);
    machine
        .is_some_and(|machine| matches!(machine.provision, Fact::Known(state) if is_failure(state)))
}

/// The guards that the documents of the commit of a run say. Where that commit is in the clone alone that began the run, those that are
/// checked out tell how long its last request may be on its way, and who hears of its end.
fn guards_of(
    process: Process<'_>,
    found: &Interrupted,
    request: AbortRequest<'_>,
) -> Result<Arc<Guards>, Error> {
    let checkout = request.checkout;
    // A clone that is behind has it from the remote, which takes the tag of no commit that the clone does not have.
    let commit = found.commit.to_string();
    if let Ok(Some(commit)) = if_recorded(checkout, &process.site.connection, &commit) {
        return guards_at(process, commit, checkout);
    }
    request.client.tell(&format!(
        "warning: commit {} of run {} is not here: its documents cannot be read, and its machines not be observed",
        found.commit.short(),
        found.record.run
    ));
    let head = checkout.head_if_any().ok().flatten();
    let guards = head.and_then(|head| guards_at(process, head, checkout).ok());
    Ok(guards.unwrap_or_default())
}

fn guards_at(
    process: Process<'_>,
    commit: CommitId,
    checkout: &Checkout<'_>,
) -> Result<Arc<Guards>, Error> {
    let site = process.site;
    let at = At::Commit(commit);
    let definition = &checkout.location.definition;
    let folder = definition.rsplit_once('/').map_or("", |(folder, _)| folder);
    let location = locate_at(site.repository, at, folder, &site.name)?;
    Ok(Loader::new(site.repository)
        .load(&location, at, AS_APPLIED)?
        .documented_guards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{ActError, Hardware, Pending};
    use crate::design::NodeDesign;
    use crate::observed::ObservedNodes;
    use crate::step::{Effect, Step};

    /// A machine whose service has begun, and of which nothing else has; what it had set is taken back with this end.
    struct Serviced(Probe);

    impl Hardware for Serviced {
        fn observe<'a>(&'a self, _: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
            Box::pin(std::future::ready(ObservedNodes::default()))
        }

        fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
            Box::pin(std::future::ready(match order.step.id.kind {
                StepKind::Service => Probe::UnderWay,
                _ => Probe::NotBegun,
            }))
        }

        fn act<'a>(&'a self, _: &'a Order) -> Pending<'a, Result<(), ActError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn take_back<'a>(&'a self, _: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }

    fn order(id: &str) -> Order {
        Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from("01J00000000000000000000001"),
            step: Arc::new(Step {
                id: id.parse().unwrap(),
                timeout: 60,
                effect: Effect::None,
                standby: false,
                parameters: None,
                needs: Vec::new(),
            }),
            node: None,
            notes: Vec::new(),
            reporter: Reporter::default(),
        }
    }

    #[tokio::test]
    async fn a_service_is_ended_whatever_is_known_of_the_steps_before_it() {
        let service: StepId = "service/g/n".parse().unwrap();
        // Of a drain nothing can be told without the cluster; the other step has not begun.
        for before in ["drain/g/n", "set-maintenance/g/n"] {
            for (end, seen) in [
                (Probe::Done, Some(Seen::Done)),
                (Probe::NotBegun, Some(Seen::TakenBack)),
                (Probe::UnderWay, None),
                (Probe::Ambiguous(Arc::from("no answer")), None),
            ] {
                let hardware = Backends::new(Arc::new(Serviced(end.clone())), None);
                let orders = vec![order(before), order("service/g/n")];
                let found = probe_machine(&hardware, orders).await;
                let own = found.seen.iter().find(|(id, _)| *id == service);
                assert_eq!(own.map(|(_, seen)| *seen), seen, "{before} {end:?}");
                let stays = found.not_taken_back.map(|(id, _)| id);
                let expected = seen.is_none().then(|| service.clone());
                assert_eq!(stays, expected, "{before} {end:?}");
            }
        }
    }
}
