//! The simulator: a whole site in one file, with time, faults and a ledger of all that ever happened.
//!
//! The file (see [`StateError`] and [`Machine`]) is the real world: what it says has happened, also
//! when the process that asked for it is gone. A machine that it does not know is factory-new, as its
//! design describes it, and comes into the file with the first step. Every step leaves a marker, the
//! run and its own name, so that a probe is exact: under way while the operation lasts, done when the
//! ledger holds its effects, else not begun.
//!
//! An operation takes time, by tokio's clock. With `clock: virtual` the runtime is to be started
//! paused, so that time jumps to the next end. The world's time is kept in the file and stands still
//! while nobody has it open: an operation that was under way when a process died goes on where it
//! was, and a second process that acts on it waits for the rest.
//!
//! | fault | what happens |
//! | --- | --- |
//! | `fail` | it takes its time, then fails for good: `inspect-failed`, `deploy-failed` or `error` |
//! | `fail-once` | it is refused before anything begins, in a way that can pass; `times` in all |
//! | `hang` | it begins and does not end, or fails after `seconds`; it ends, failed, when the fault is taken out of the script |
//! | `late` | it takes `seconds` (60) longer |
//! | `lost-answer` | it is done, and the answer says that this is not known |
//! | `unobservable` | the machine cannot be seen; with a `step`, only a probe of that step cannot tell |

mod machine;
mod settings;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

pub use machine::{Effect, LedgerEntry, Machine, Operation};
pub use settings::{Durations, Fault, Outcome, Settings};
pub use world::StateError;
use world::{Change, View, World};

use crate::backend::{ActError, Hardware, Order, Pending, Probe};
use crate::design::{NodeDesign, NodeName};
use crate::lifecycle::PowerState;
use crate::observed::ObservedNode;
use crate::step::StepKind;

/// A simulated site.
#[derive(Debug)]
pub struct Simulator {
    settings: Settings,
    world: Mutex<World>,
}

/// Where a step stands after a look at it.
enum Standing {
    /// It has ended.
    Ended(Result<(), ActError>),
    /// It is under way; look again at this instant, or never.
    UnderWay(Option<Instant>, Operation),
}

impl Simulator {
    /// Opens the site that a file holds; where there is no file, it is made with the first step.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no simulated site.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, StateError> {
        Ok(Self {
            settings,
            world: Mutex::new(World::open(path)?),
        })
    }

    /// A machine as it is now; `None` where nothing has ever happened to it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn machine(&self, node: &NodeName) -> Result<Option<Machine>, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let machine = view.machine(node);
        Ok(machine.map(|machine| self.as_of(node, machine, &view)))
    }

    /// Makes a machine what is given, whatever it was.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn seed(&self, node: &NodeName, machine: Machine) -> Result<(), StateError> {
        let mut world = self.world();
        let mut change = world.change()?;
        change.seed(node, machine)?;
        change.commit()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A panic elsewhere leaves the world as the file has it: nothing is half-done in memory.
        self.world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// When the operation of a machine ended, if it has.
    fn end_of(&self, node: &NodeName, operation: &Operation, now: u64) -> Option<u64> {
        match operation.ends {
            Some(ends) => (ends <= now).then_some(ends),
            None => {
                let kind = Some(operation.kind);
                let mut faults = self.settings.faults.iter();
                let hangs = faults
                    .any(|fault| fault.outcome == Outcome::Hang && fault.is_about(node, kind));
                (!hangs).then_some(now)
            }
        }
    }

    /// A machine with what has come to an end by now.
    fn as_of(&self, node: &NodeName, machine: &Machine, view: &View<'_>) -> Machine {
        let mut machine = machine.clone();
        let end = machine.operation.as_ref();
        if let Some(at) = end.and_then(|operation| self.end_of(node, operation, view.now)) {
            machine.finish(node, at, view.sequence());
        }
        machine
    }

    fn fault(&self, machine: &Machine, node: &NodeName, kind: Option<StepKind>) -> Option<&Fault> {
        self.settings.faults.iter().find(|fault| {
            let is_about_seeing = fault.outcome == Outcome::Unobservable;
            let happened = machine.faults.get(&fault.key).copied().unwrap_or_default();
            is_about_seeing == kind.is_none()
                && fault.is_about(node, kind)
                && fault.times.is_none_or(|times| happened < times)
        })
    }

    fn see(
        &self,
        nodes: &[Arc<NodeDesign>],
    ) -> Result<BTreeMap<NodeName, ObservedNode>, StateError> {
        let mut world = self.world();
        let mut unseen = Vec::new();
        let mut seen = BTreeMap::new();
        let view = world.view()?;
        for node in nodes {
            let machine = match view.machine(&node.name) {
                Some(machine) => self.as_of(&node.name, machine, &view),
                None => Machine::factory_new(node),
            };
            let observed = match self.fault(&machine, &node.name, None) {
                Some(fault) => {
                    if fault.times.is_some() {
                        unseen.push((node, &fault.key));
                    }
                    ObservedNode::unknown(&said(fault, "the machine does not answer"))
                }
                None => machine.observed(),
            };
            seen.insert(node.name.clone(), observed);
        }
        if !unseen.is_empty() {
            let mut change = world.change()?;
            for (node, key) in unseen {
                change.machine(node)?;
                change.count_fault(&node.name, key)?;
            }
            change.commit()?;
        }
        Ok(seen)
    }

    fn tell(&self, order: &Order, node: &NodeDesign) -> Result<Probe, StateError> {
        let kind = order.step.id.kind;
        let unobservable = self.settings.faults.iter().find(|fault| {
            fault.outcome == Outcome::Unobservable && fault.is_about(&node.name, Some(kind))
        });
        if let Some(fault) = unobservable {
            let message = said(fault, "the machine does not answer");
            return Ok(Probe::Ambiguous(message));
        }
        let mut world = self.world();
        let view = world.view()?;
        let Some(machine) = view.machine(&node.name) else {
            return Ok(Probe::NotBegun);
        };
        let machine = self.as_of(&node.name, machine, &view);
        let step = order.step.id.to_string();
        let under_way = machine.operation.as_ref();
        Ok(
            if under_way.is_some_and(|each| each.is(&order.run, &step)) {
                Probe::UnderWay
            } else if is_at_level(&machine, order)
                || machine.ended(&order.run, &step) == Some(Ok(()))
            {
                Probe::Done
            } else {
                Probe::NotBegun
            },
        )
    }

    /// Looks where a step stands, and begins it where it has not begun. `awaited` is the operation
    /// that the caller has seen under way before.
    fn advance(
        &self,
        order: &Order,
        node: &NodeDesign,
        awaited: Option<&Operation>,
    ) -> Result<Standing, StateError> {
        let step = order.step.id.to_string();
        let mut world = self.world();
        let mut change = world.change()?;
        let now = change.now;
        let machine = change.machine(node)?;
        let mut waited = awaited.is_some();
        let mut answer_lost = awaited.is_some_and(|operation| operation.answer_lost);
        if let Some(operation) = &machine.operation {
            let is_ours = operation.is(&order.run, &step);
            match self.end_of(&node.name, operation, now) {
                Some(at) => {
                    waited |= is_ours;
                    answer_lost |= is_ours && operation.answer_lost;
                    change.end(&node.name, at)?;
                }
                None if is_ours => {
                    let operation = operation.clone();
                    let until = operation.ends.map(|ends| change.instant(ends));
                    return Ok(Standing::UnderWay(until, operation));
                }
                None => {
                    let message = format!(
                        "`{}` is busy with `{}` of run {}",
                        node.name, operation.step, operation.run
                    );
                    return Ok(Standing::Ended(Err(ActError::Passing(Arc::from(message)))));
                }
            }
        }
        let machine = change.machine(node)?;
        let ended = match machine.ended(&order.run, &step) {
            Some(Ok(())) if answer_lost => {
                let message = format!("the answer to `{step}` was lost");
                Some(Err(ActError::Ambiguous(Arc::from(message))))
            }
            Some(Ok(())) => Some(Ok(())),
            Some(Err(message)) if waited => Some(Err(ActError::Permanent(message))),
            _ if is_at_level(machine, order) => Some(Ok(())),
            _ => None,
        };
        let standing = match ended {
            Some(result) => Standing::Ended(result),
            None => self.begin(&mut change, order, node, step)?,
        };
        change.commit()?;
        Ok(standing)
    }

    /// Begins a step, unless a rule or a fault is against it.
    fn begin(
        &self,
        change: &mut Change<'_>,
        order: &Order,
        node: &NodeDesign,
        step: String,
    ) -> Result<Standing, StateError> {
        let kind = order.step.id.kind;
        let name = &node.name;
        let now = change.now;
        let machine = change.machine(node)?;
        let refuse =
            |message: String| Ok(Standing::Ended(Err(ActError::Permanent(message.into()))));
        if let Some(message) = machine.refusal(name, kind) {
            return refuse(message);
        }
        let mut effects = match effects_of(machine, order, node, &step) {
            Ok(effects) => effects,
            Err(message) => return refuse(message),
        };
        let fault = self.fault(machine, name, Some(kind));
        if let Some(fault) = fault.filter(|fault| fault.times.is_some()) {
            change.count_fault(name, &fault.key)?;
        }
        let outcome = fault.map(|fault| (fault, fault.outcome));
        let mut lasts = Some(self.settings.durations.of(kind));
        let failed = |fault: &Fault, otherwise: &str| {
            vec![Effect::Failed {
                kind,
                message: said(fault, otherwise),
            }]
        };
        match outcome {
            Some((fault, Outcome::FailOnce)) => {
                let message = said(fault, "the machine did not answer this time");
                return Ok(Standing::Ended(Err(ActError::Passing(message))));
            }
            Some((fault, Outcome::Fail)) => {
                effects = failed(fault, &format!("`{kind}` failed, as the fault script says"));
            }
            Some((fault, Outcome::Hang)) => {
                lasts = fault.delay;
                effects = failed(fault, &format!("`{kind}` hung and was given up"));
            }
            Some((fault, Outcome::Late)) => lasts = lasts.map(|lasts| lasts + fault.lateness()),
            Some((_, Outcome::LostAnswer | Outcome::Unobservable)) | None => {}
        }
        let operation = Operation {
            run: order.run.clone(),
            step: Arc::from(step),
            kind,
            ends: lasts.map(|lasts| {
                now.saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX))
            }),
            answer_lost: matches!(outcome, Some((_, Outcome::LostAnswer))),
            effects,
        };
        change.begin(name, operation.clone())?;
        let until = operation.ends.map(|ends| change.instant(ends));
        Ok(Standing::UnderWay(until, operation))
    }

    async fn carry_out(&self, order: &Order) -> Result<(), ActError> {
        let broken = |error: StateError| ActError::Permanent(Arc::from(with_source(&error)));
        let kind = order.step.id.kind;
        let node = match (kind, &order.node) {
            (StepKind::VerifySite | StepKind::PrepareSite, _) => {
                return self.world().view().map(drop).map_err(broken);
            }
            (_, Some(node)) if is_simulated(kind) => node,
            _ => {
                let message = format!("a simulated machine cannot do `{}`", order.step.id);
                return Err(ActError::Permanent(Arc::from(message)));
            }
        };
        let mut awaited = None;
        loop {
            match self
                .advance(order, node, awaited.as_ref())
                .map_err(broken)?
            {
                Standing::Ended(result) => return result,
                Standing::UnderWay(Some(until), operation) => {
                    tokio::time::sleep_until(until).await;
                    awaited = Some(operation);
                }
                Standing::UnderWay(None, _) => std::future::pending().await,
            }
        }
    }
}

impl Hardware for Simulator {
    fn observe<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, ObservedNode>> {
        Box::pin(async move {
            self.see(nodes).unwrap_or_else(|error| {
                let unknown = ObservedNode::unknown(&with_source(&error));
                let each = nodes
                    .iter()
                    .map(|node| (node.name.clone(), unknown.clone()));
                each.collect()
            })
        })
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move {
            // What is asked of the whole site leaves nothing behind, and can be asked again.
            let Some(node) = &order.node else {
                return Probe::NotBegun;
            };
            self.tell(order, node)
                .unwrap_or_else(|error| Probe::Ambiguous(Arc::from(with_source(&error))))
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.carry_out(order))
    }
}

fn is_simulated(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::Prepare
            | StepKind::Deploy
            | StepKind::Destroy
            | StepKind::Relabel
            | StepKind::PowerOn
            | StepKind::SetRetired
            | StepKind::UnsetRetired
    )
}

/// Whether a step that sets something to a level would change nothing.
fn is_at_level(machine: &Machine, order: &Order) -> bool {
    match order.step.id.kind {
        StepKind::PowerOn => machine.power == PowerState::On,
        StepKind::SetRetired => machine.retired.as_ref() == Some(&reason_of(order)),
        StepKind::UnsetRetired => machine.retired.is_none(),
        _ => false,
    }
}

fn reason_of(order: &Order) -> Arc<str> {
    let parameters = order.step.parameters.as_ref();
    parameters
        .and_then(|parameters| parameters.reason.clone())
        .unwrap_or_else(|| Arc::from("retired"))
}

/// What a step does to a machine, in order; or why it cannot.
fn effects_of(
    machine: &Machine,
    order: &Order,
    node: &NodeDesign,
    step: &str,
) -> Result<Vec<Effect>, String> {
    let parameters = order.step.parameters.as_deref();
    let switched_on = (machine.power == PowerState::Off).then_some(Effect::PoweredOn);
    let mut effects = Vec::new();
    match order.step.id.kind {
        StepKind::Prepare => {
            effects.extend(switched_on);
            effects.push(Effect::Prepared);
        }
        StepKind::Deploy => {
            let first = machine.disks.first().map(|disk| disk.name.clone());
            let written = match &*node.disks {
                [] => first.as_slice(),
                named => named,
            };
            effects.extend(written.iter().cloned().map(Effect::WroteDisk));
            effects.extend(switched_on);
            effects.push(Effect::Deployed {
                image: machine::image_of(node),
                uid: machine::uid_of(&node.name, &order.run, step),
                labels: (*node.labels).clone(),
            });
        }
        StepKind::Destroy => {
            if machine.cluster.is_some() {
                effects.push(Effect::LeftCluster);
            }
            let named = parameters.map_or(&[][..], |parameters| &parameters.disks);
            for name in named {
                if !machine.disks.iter().any(|disk| disk.name == *name) {
                    return Err(format!("`{}` has no disk `{name}` to erase", node.name));
                }
            }
            let wiped = machine.disks.iter().map(|disk| disk.name.clone());
            let wiped = wiped.filter(|name| named.is_empty() || named.contains(name));
            effects.extend(wiped.map(Effect::WipedDisk));
            if machine.power == PowerState::On {
                effects.push(Effect::PoweredOff);
            }
            effects.push(Effect::Destroyed);
        }
        StepKind::Relabel => effects.push(Effect::Relabelled {
            set: match parameters {
                Some(parameters) => parameters.set_labels.iter().cloned().collect(),
                None => (*node.labels).clone(),
            },
            remove: parameters.map_or_else(Vec::new, |each| each.remove_labels.clone()),
        }),
        StepKind::PowerOn => effects.extend(switched_on),
        StepKind::SetRetired => effects.push(Effect::Retired(reason_of(order))),
        StepKind::UnsetRetired => effects.push(Effect::Unretired),
        _ => {}
    }
    Ok(effects)
}

fn said(fault: &Fault, otherwise: &str) -> Arc<str> {
    fault
        .message
        .clone()
        .unwrap_or_else(|| Arc::from(otherwise))
}

/// An error and what caused it, in one line.
fn with_source(error: &StateError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("the simulated site cannot be used: {error}: {source}"),
        None => format!("the simulated site cannot be used: {error}"),
    }
}
