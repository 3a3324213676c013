//! Carries a step out: begins its operation, waits for its end, and tells from the file how far it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::course::{course_of, is_at_level, is_gone, taken};
use super::pods::Course;
use super::rules::permanent;
use super::world::{Change, World};
use super::{
    Answer, Effect, Fault, FaultOutcome, Kill, LedgerEntry, Machine, Operation, Simulator,
    StateError, etcd, is_simulated, pods, values, with_source,
};
use crate::backend::hardware::service::{next_rung, unchanged};
use crate::backend::{ActError, Order, Probe, fence};
use crate::design::{HardwareSetting, NodeDesign};
use crate::remediation::Note;
use crate::step::{Actor, LeftPods, StepKind};

/// How often a cluster is asked how it is.
const POLL: Duration = Duration::from_secs(30);
/// How long is waited if the step has no bound.
const UNBOUNDED: Duration = Duration::from_secs(600);
/// The margin before the step's timeout at which it ends, so that it can report why.
const SPARE: Duration = Duration::from_secs(1);

/// How often an update is tried that reports success and changes nothing: some need two.
const UPDATE_TRIES: usize = 2;

/// A running operation.
#[derive(Clone, Copy)]
struct Awaited {
    answer_lost: bool,
}

/// The observed progress of a step.
enum StepState {
    /// It has ended.
    Ended(Result<(), ActError>),
    /// It is under way; look again at this instant, or never.
    UnderWay(Option<Instant>, Awaited),
}

/// The message of a failed step, after the reason that the specification gives it
/// (airship-node-teardown, "Responses").
fn with_reason(kind: StepKind, message: Arc<str>) -> Arc<str> {
    match kind.facts().failure {
        Some(reason) => reason.message(message),
        None => message,
    }
}

/// Lets a course fail: what announces it stays, and nothing that it was asked for takes place.
/// `of_cleaning`: the cleaning fails, not the step that it is part of.
fn fail(course: &mut Course, kind: StepKind, of_cleaning: bool, why: Arc<str>) {
    let announces = |effect: &Effect| match effect {
        Effect::Cordoned(_) => true,
        Effect::CleanStepBegun(_) => of_cleaning,
        _ => false,
    };
    let first = course.stages.first();
    let announced = usize::from(first.is_some_and(|stage| announces(&stage.effect)));
    course.stages.truncate(announced);
    let message = with_reason(kind, why);
    course.effects = vec![Effect::Failed { kind, message }];
}

/// Whether a step puts back what a node is owed.
fn puts_back(order: &Order) -> bool {
    let kind = order.step.id.kind;
    matches!(
        kind,
        StepKind::Uncordon | StepKind::Relabel | StepKind::AwaitReady
    ) && order.step.given().backup().is_some()
}

impl Simulator {
    /// How far a step is, from outside.
    pub(super) fn tell_of(&self, order: &Order) -> Probe {
        let told = match (order.step.id.kind, &order.node) {
            (StepKind::AwaitReady | StepKind::CheckEtcd, node) => match self.missing(order) {
                Ok(None) => match node.as_deref().filter(|_| puts_back(order)) {
                    // What it carried is put back by acting.
                    Some(node) => self.tell(order, node),
                    None => Ok(Probe::Done),
                },
                Ok(Some(_)) => Ok(Probe::NotBegun),
                Err(error) => Err(error),
            },
            // What is asked of the whole site leaves nothing behind, and can be asked again.
            (_, None) => Ok(Probe::NotBegun),
            (_, Some(node)) => self.tell(order, node),
        };
        told.unwrap_or_else(|error| Probe::Ambiguous(Arc::from(with_source(&error))))
    }

    fn tell(&self, order: &Order, node: &NodeDesign) -> Result<Probe, StateError> {
        let kind = order.step.id.kind;
        let unobservable = self.faults().find(|fault| {
            fault.outcome == FaultOutcome::Unobservable && fault.is_about(&node.name, Some(kind))
        });
        if let Some(fault) = unobservable {
            let message = fault.said("the machine does not answer");
            return Ok(Probe::Ambiguous(message));
        }
        let step = order.step.id.to_string();
        let mut world = self.world();
        self.keep_end(&mut world, order, node, &step)?;
        let view = world.view()?;
        let Some(machine) = view.machine(&node.name) else {
            return Ok(Probe::NotBegun);
        };
        let machine = self.as_of(&node.name, machine, view.now, view.sequence());
        let under_way = machine.operation.as_ref();
        Ok(
            if under_way.is_some_and(|each| each.is(&order.run, &step)) {
                Probe::UnderWay
            } else if is_at_level(&self.settings, &machine, order, node)
                || !kind.sets_hardware() && machine.ended(&order.run, &step) == Some(Ok(()))
                || is_gone(order, &machine)
            {
                Probe::Done
            } else {
                Probe::NotBegun
            },
        )
    }

    /// Persists the end of a step, if only the passing of time shows it: a step reported as done
    /// must find it done again, also when the world was closed in between and its time stood still.
    fn keep_end(
        &self,
        world: &mut World,
        order: &Order,
        node: &NodeDesign,
        step: &str,
    ) -> Result<(), StateError> {
        let over = |machine: &Machine, now| {
            let operation = machine.operation.as_ref()?;
            let ours = operation.is(&order.run, step).then_some(operation)?;
            self.end_of(&node.name, ours, now)
        };
        let view = world.view()?;
        let is_over = view
            .machine(&node.name)
            .and_then(|machine| over(machine, view.now));
        if is_over.is_none() {
            return Ok(());
        }
        let mut change = world.change()?;
        let now = change.now;
        // Another process may have written it by now.
        let Some(at) = over(change.machine(node)?, now) else {
            return Ok(());
        };
        change.end(&node.name, at)?;
        change.commit()
    }

    /// Looks where a step stands, and begins it if it has not begun. `awaited` is the operation
    /// that the caller has seen under way before.
    fn advance(
        &self,
        order: &Order,
        node: &NodeDesign,
        awaited: Option<Awaited>,
    ) -> Result<StepState, StateError> {
        let step = order.step.id.to_string();
        let mut world = self.world();
        let mut change = world.change()?;
        let now = change.now;
        let machine = change.machine(node)?;
        let mut waited = awaited.is_some();
        let mut answer_lost = awaited.is_some_and(|awaited| awaited.answer_lost);
        if let Some(operation) = &machine.operation {
            let is_ours = operation.is(&order.run, &step);
            match self.end_of(&node.name, operation, now) {
                Some(at) => {
                    waited |= is_ours;
                    answer_lost |= is_ours && operation.answer_lost;
                    change.end(&node.name, at)?;
                }
                None if is_ours => {
                    let is_due = operation.stages.first().is_some_and(|each| each.at <= now);
                    if is_due {
                        change.pass(&node.name)?;
                    }
                    if awaited.is_none() {
                        change.note_request(&node.name, (&order.run, &step), Answer::UnderWay)?;
                    }
                    return self.under_way(change, order, node);
                }
                // A client's drain ends with its process.
                None if operation.kind.facts().actor == Actor::Cluster => {
                    change.stop(&node.name)?;
                }
                None => {
                    let message = format!(
                        "`{}` is busy with `{}` of run {}",
                        node.name, operation.step, operation.run
                    );
                    change.note_request(&node.name, (&order.run, &step), Answer::Refused)?;
                    return Ok(StepState::Ended(Err(ActError::Passing(Arc::from(message)))));
                }
            }
        }
        let machine = change.machine(node)?;
        let kind = order.step.id.kind;
        let ended = match machine.ended(&order.run, &step) {
            Some(Ok(())) if kind.sets_hardware() => self.second_reading(order, node, machine),
            Some(Ok(())) if answer_lost => {
                let message = format!("the answer to `{step}` was lost");
                Some(Err(ActError::Ambiguous(Arc::from(message))))
            }
            Some(Ok(())) => Some(Ok(())),
            Some(Err(message)) if waited => Some(permanent(message)),
            _ if is_at_level(&self.settings, machine, order, node) => Some(Ok(())),
            _ => None,
        };
        if let Some(result) = ended {
            if !waited {
                let is_repeated = machine.ended(&order.run, &step) == Some(Ok(()));
                let answer = match is_repeated {
                    true => Answer::Repeated,
                    false => Answer::AtLevel,
                };
                change.note_request(&node.name, (&order.run, &step), answer)?;
            }
            change.commit()?;
            return Ok(StepState::Ended(result));
        }
        match self.begin(&mut change, order, node, &step)? {
            Ok(()) => {
                change.note_request(&node.name, (&order.run, &step), Answer::Begun)?;
                let state = self.under_way(change, order, node)?;
                Kill::strike(&world.path, [&node.name], order.step.id.kind);
                Ok(state)
            }
            Err(error) => {
                change.note_request(&node.name, (&order.run, &step), Answer::Refused)?;
                change.commit()?;
                Ok(StepState::Ended(Err(error)))
            }
        }
    }

    /// How an update of firmware and settings has ended, by what the machine shows; `None`: it is tried once more.
    fn second_reading(
        &self,
        order: &Order,
        node: &NodeDesign,
        machine: &Machine,
    ) -> Option<Result<(), ActError>> {
        let rows = &self.settings.hardware;
        let Some((setting, shown)) = values::missing(rows, order, &node.name, machine) else {
            return Some(Ok(()));
        };
        let step = order.step.id.to_string();
        let last = match order.step.id.kind {
            StepKind::ServiceLive => Effect::Serviced,
            _ => Effect::PoweredOn,
        };
        let is_try = |entry: &LedgerEntry| {
            let is_own = entry.run == order.run && *entry.step == *step;
            is_own && !entry.on_the_way && entry.effect == last
        };
        if !values::wanted(order).contains(setting) {
            return Some(permanent(unchanged(1, &[(setting, shown)], &[])));
        }
        if machine.ledger.entries().filter(is_try).count() < UPDATE_TRIES {
            let HardwareSetting { name, value, .. } = setting;
            let text =
                format!("`{name}` is not {value} after the update, which is tried once more");
            order.reporter.progress(text);
            return None;
        }
        let shown = shown.as_deref().unwrap_or("nothing");
        Some(permanent(format!(
            "the update of `{}` reported no failure, and its second reading shows {shown}, not {}{}",
            setting.name,
            setting.value,
            next_rung(order, [&*setting.name].into_iter())
        )))
    }

    /// Commits a change, after which the machine's operation continues.
    fn under_way(
        &self,
        mut change: Change<'_>,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<StepState, StateError> {
        let machine = change.machine(node)?;
        let Some(operation) = &machine.operation else {
            return Ok(StepState::Ended(Ok(())));
        };
        let next = operation.next();
        let awaited = Awaited {
            answer_lost: operation.answer_lost,
        };
        if operation.kind == StepKind::Drain {
            let left = pods::left(&self.settings.cluster, &node.name, machine);
            let pods = if left.len() == 1 { "pod" } else { "pods" };
            order
                .reporter
                .progress(format!("{} {pods} left", left.len()));
        }
        if let Some(step) = &machine.clean_step {
            order.reporter.progress(format!("clean step {step}"));
        }
        let until = next.map(|at| change.instant(at));
        change.commit()?;
        Ok(StepState::UnderWay(until, awaited))
    }

    /// Begins a step, unless a rule or a fault is against it.
    fn begin(
        &self,
        change: &mut Change<'_>,
        order: &Order,
        node: &NodeDesign,
        step: &str,
    ) -> Result<Result<(), ActError>, StateError> {
        let kind = order.step.id.kind;
        let name = &node.name;
        let now = change.now;
        change.machine(node)?;
        let machine = change.known(name)?;
        if let Some(message) = machine.refusal(name, kind) {
            return Ok(permanent(message));
        }
        let mut course = match course_of(self, change, order, node, machine, step) {
            Ok(course) => course,
            Err(error) => return Ok(Err(error)),
        };
        let cleans = course
            .stages
            .iter()
            .any(|stage| matches!(stage.effect, Effect::CleanStepBegun(_)));
        // What goes wrong with cleaning also does so if it is part of another step.
        let own = self.fault(machine, name, Some(kind));
        let of_cleaning = cleans && (own.is_none() || kind == StepKind::Clean);
        let fault = match own {
            None if cleans => self.fault(machine, name, Some(StepKind::Clean)),
            own => own,
        };
        if let Some(fault) = fault.filter(|fault| fault.times.is_some()) {
            change.count_fault(name, &fault.key)?;
        }
        let after = |wait: Duration| {
            now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
        };
        let mut fails = |fault: &Fault, otherwise: String| {
            fail(&mut course, kind, of_cleaning, fault.said(&otherwise));
        };
        let outcome = fault.map(|fault| (fault, fault.outcome));
        match outcome {
            Some((fault, FaultOutcome::FailOnce)) => {
                let message = fault.said("the machine did not answer this time");
                return Ok(Err(ActError::Passing(message)));
            }
            Some((fault, FaultOutcome::Fail)) => {
                fails(fault, format!("`{kind}` failed, as the fault script says"));
                course.ends = Some(after(self.lasts(kind)));
            }
            Some((fault, FaultOutcome::Hang)) => {
                fails(fault, format!("`{kind}` hung until its timeout"));
                course.ends = fault.delay.map(after);
            }
            Some((fault, FaultOutcome::Late)) => {
                let late = u64::try_from(fault.lateness().as_millis()).unwrap_or(u64::MAX);
                course.ends = course.ends.map(|ends| ends.saturating_add(late));
            }
            Some((
                _,
                FaultOutcome::LostAnswer
                | FaultOutcome::Unobservable
                | FaultOutcome::NotReady
                | FaultOutcome::NoEtcd,
            ))
            | None => {}
        }
        let operation = Operation {
            run: order.run.clone(),
            step: Arc::from(step),
            kind,
            ends: course.ends,
            answer_lost: matches!(outcome, Some((_, FaultOutcome::LostAnswer))),
            stages: course.stages,
            effects: course.effects,
            left: false,
        };
        let is_due = operation.stages.first().is_some_and(|each| each.at <= now);
        change.begin(name, operation)?;
        if is_due {
            change.pass(name)?;
        }
        Ok(Ok(()))
    }

    /// How long a kind of step takes.
    pub(super) fn lasts(&self, kind: StepKind) -> Duration {
        match kind.facts().actor {
            Actor::Cluster => self.settings.cluster.durations.of(kind),
            Actor::Hardware | Actor::Dispatcher | Actor::Both => self.settings.durations.of(kind),
        }
    }

    pub(super) async fn carry_out(&self, order: &Order) -> Result<(), ActError> {
        let broken = |error: StateError| ActError::Permanent(Arc::from(with_source(&error)));
        let kind = order.step.id.kind;
        let node = match (kind, &order.node) {
            (StepKind::VerifySite | StepKind::PrepareSite, _) => {
                return self.world().view().map(drop).map_err(broken);
            }
            (StepKind::AwaitReady | StepKind::CheckEtcd, node) => {
                self.apply_fault(order).await?;
                self.wait_for(order).await?;
                match node {
                    Some(node) if puts_back(order) => node,
                    _ => return Ok(()),
                }
            }
            (_, Some(node)) if is_simulated(kind) => node,
            _ => {
                let message = format!("a simulated machine cannot do `{}`", order.step.id);
                return permanent(message);
            }
        };
        if kind == StepKind::ClearLabels {
            self.save_labels(order, node).await?;
        }
        let mut awaited = None;
        loop {
            // A machine's operation runs by itself; a client's drain is a request each time.
            if awaited.is_none() || kind.facts().actor == Actor::Cluster {
                fence::pass().await;
            }
            match self.advance(order, node, awaited).map_err(broken)? {
                StepState::Ended(Ok(())) if puts_back(order) => {
                    return order.reporter.note(Note::Restored.to_text()).await;
                }
                StepState::Ended(Ok(())) if kind == StepKind::Drain => {
                    return self.note_left_pods(order, node).await;
                }
                StepState::Ended(result) => return result,
                StepState::UnderWay(Some(until), seen) => {
                    tokio::time::sleep_until(until).await;
                    awaited = Some(seen);
                }
                StepState::UnderWay(None, _) => std::future::pending().await,
            }
        }
    }

    /// Notes the pods that a drain has left on its node.
    async fn note_left_pods(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let machine = self.machine(&node.name);
        let machine = machine.map_err(|error| ActError::Permanent(with_source(&error).into()))?;
        let left = machine.map(|machine| pods::left(&self.settings.cluster, &node.name, &machine));
        let left = left.unwrap_or_default();
        let left = left
            .iter()
            .map(|pod| format!("{}/{}", pod.namespace, pod.name));
        let left = LeftPods::new(left);
        match left.count {
            0 => Ok(()),
            _ => order.reporter.note(left.to_note()).await,
        }
    }

    /// Notes what is about to be taken off a node.
    async fn save_labels(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let machine = self.machine(&node.name);
        let machine = machine.map_err(|error| ActError::Permanent(with_source(&error).into()))?;
        let cluster = machine.and_then(|machine| machine.cluster);
        let taken = cluster.and_then(|cluster| {
            let backup = taken(order, &cluster)?;
            let uid = cluster.uid;
            Some(Note::BackedUp { uid, backup })
        });
        match taken {
            Some(note) => order.reporter.note(note.to_text()).await,
            None => Ok(()),
        }
    }

    /// The condition that an order waits for, for messages; `None` if it holds.
    fn missing(&self, order: &Order) -> Result<Option<String>, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let node = order.node.as_deref();
        let is_check = order.step.id.kind == StepKind::CheckEtcd;
        let given = order.step.given();
        let waits_for_node = !is_check && !given.members_only();
        if waits_for_node && let Some(node) = node {
            let machine = view.machine(&node.name);
            let machine =
                machine.map(|machine| self.as_of(&node.name, machine, view.now, view.sequence()));
            match machine.as_ref().and_then(|each| each.cluster.as_ref()) {
                None => return Ok(Some(format!("`{}` is not in the cluster", node.name))),
                Some(cluster) if !cluster.ready => {
                    return Ok(Some(format!("`{}` is not Ready", node.name)));
                }
                Some(_) => {}
            }
        }
        let given_up = given.etcd_given_up();
        for cluster in &self.settings.cluster.etcd {
            let name = &cluster.name;
            if is_check && given_up.contains(name) {
                continue;
            }
            let is_here =
                |each: &&crate::design::EtcdMember| node.is_some_and(|node| node.name == each.node);
            let here = cluster.members.iter().find(is_here);
            if !is_check && here.is_none() {
                continue;
            }
            let seats = self.seats(name, view.machines(), view.now);
            if is_check {
                let healthy = seats.iter().filter(|seat| {
                    seat.votes && seat.runs && node.is_none_or(|node| node.name != seat.node)
                });
                let (healthy, wanted) = (healthy.count(), cluster.minimum_healthy);
                if healthy < wanted || !etcd::decides(&seats) {
                    return Ok(Some(format!(
                        "etcd cluster `{name}` has {healthy} healthy members, and {wanted} are wanted"
                    )));
                }
            } else if let Some(member) = here {
                let votes =
                    |seat: &&etcd::Seat| seat.node == member.node && seat.votes && seat.runs;
                if !seats.iter().any(|seat| votes(&seat)) {
                    return Ok(Some(format!(
                        "member `{}` does not vote in etcd cluster `{name}`",
                        member.name
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Waits until what an order waits for is there, or its time is over.
    async fn wait_for(&self, order: &Order) -> Result<(), ActError> {
        let began = Instant::now();
        let bound = match order.step.timeout {
            0 => UNBOUNDED,
            seconds => Duration::from_secs(seconds).saturating_sub(SPARE),
        };
        let broken = |error: StateError| ActError::Permanent(Arc::from(with_source(&error)));
        loop {
            let Some(missing) = self.missing(order).map_err(broken)? else {
                return self.saw(order).map_err(broken);
            };
            let left = bound.saturating_sub(began.elapsed());
            if left.is_zero() {
                let reason = match order.step.id.kind {
                    StepKind::CheckEtcd => "DisassociateStepFailure: ",
                    _ => "",
                };
                return permanent(format!(
                    "{reason}{missing}, after {} s",
                    began.elapsed().as_secs()
                ));
            }
            order.reporter.progress(missing);
            tokio::time::sleep(left.min(POLL)).await;
        }
    }

    /// Holds on to what was waited for, so that who comes next sees it too.
    fn saw(&self, order: &Order) -> Result<(), StateError> {
        let Some(node) = order.node.as_deref() else {
            return Ok(());
        };
        let mut world = self.world();
        let mut change = world.change()?;
        change.machine(node)?;
        change.see(&node.name)?;
        change.commit()
    }

    /// Lets a fault happen to an order that only looks.
    async fn apply_fault(&self, order: &Order) -> Result<(), ActError> {
        let Some(node) = order.node.as_deref() else {
            return Ok(());
        };
        let kind = order.step.id.kind;
        let found = {
            let mut world = self.world();
            let counted = (|| {
                let mut change = world.change()?;
                let machine = change.machine(node)?.clone();
                let fault = self.fault(&machine, &node.name, Some(kind));
                if let Some(fault) = fault.filter(|fault| fault.times.is_some()) {
                    change.count_fault(&node.name, &fault.key)?;
                }
                change.commit()?;
                Ok::<_, StateError>(fault)
            })();
            counted.map_err(|error| ActError::Permanent(Arc::from(with_source(&error))))?
        };
        let Some(fault) = found else {
            return Ok(());
        };
        let failed = || fault.said(&format!("`{kind}` failed, as the fault script says"));
        match (fault.outcome, fault.delay) {
            (FaultOutcome::Fail, _) => permanent(failed()),
            (FaultOutcome::FailOnce, _) => {
                Err(ActError::Passing(fault.said("no answer this time")))
            }
            (FaultOutcome::Hang, None) => std::future::pending().await,
            (FaultOutcome::Hang, Some(delay)) => {
                tokio::time::sleep(delay).await;
                permanent(fault.said(&format!("`{kind}` hung until its timeout")))
            }
            (FaultOutcome::Late, _) => {
                tokio::time::sleep(fault.lateness()).await;
                Ok(())
            }
            (FaultOutcome::LostAnswer, _) => {
                let message = format!("the answer to `{}` was lost", order.step.id);
                Err(ActError::Ambiguous(Arc::from(message)))
            }
            (FaultOutcome::Unobservable | FaultOutcome::NotReady | FaultOutcome::NoEtcd, _) => {
                Ok(())
            }
        }
    }
}
