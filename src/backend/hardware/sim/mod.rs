//! The simulator: a whole site in one file, with time, faults and a ledger of all that ever happened.
//!
//! It is the machines ([`Hardware`]) and the cluster that runs on them ([`Cluster`](crate::backend::Cluster)):
//! a machine that is deployed is a node with pods, and where it is designed so a member of etcd.
//!
//! The file (see [`StateError`] and [`Machine`]) is the real world: what it says has happened, also
//! when the process that asked for it is gone. A machine that it does not know is factory-new, as its
//! design describes it, and comes into the file with the first step. Every step leaves a marker, the
//! run and its own name, so that a probe is exact: under way while the operation lasts, done when the
//! ledger holds its effects, else not begun.
//!
//! An operation takes time, by tokio's clock. With `clock: virtual` the runtime is to be started
//! paused, so that time jumps to the next end; several processes have one time ([`SiteClock`]). The world's time is kept
//! in the file and stands still while no process has it open: an operation that was running when a process crashed continues if it
//! was, and a second process that acts on it waits for the rest. What a client does bit by bit, as a
//! drain, is aborted when another step comes: effects until then stay.
//!
//! | fault | what happens |
//! | --- | --- |
//! | `fail` | it takes its time, then fails for good: `inspect-failed`, `deploy-failed` or `error` |
//! | `fail-once` | it is refused before anything begins, in a way that can pass; `times` in all |
//! | `hang` | it begins and does not end, or fails after `seconds`; it ends, failed, when the fault is taken out of the script |
//! | `late` | it takes `seconds` (60) longer |
//! | `lost-answer` | it is done, and the answer is lost |
//! | `unobservable` | the machine (in the cluster's script: its members of etcd, and with all nodes the cluster) cannot be observed; with a `step`, only a probe of that step fails |
//! | `no-etcd` | in the cluster's script: the members of etcd of the machine do not run |
//! | `not-ready` | in the cluster's script: the node is not Ready while the machine was switched on fewer than `times` (1) times since it was deployed |

mod clean;
mod clock;
mod cluster;
mod cluster_settings;
mod course;
mod duration;
mod etcd;
mod faults;
mod held;
mod kill;
mod ledger;
mod life;
mod machine;
mod observed;
mod opened;
mod participants;
mod pods;
mod requests;
mod rules;
mod run;
mod settings;
#[cfg(test)]
mod tests;
mod values;
mod world;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub(in crate::backend) use clock::taking_part;
pub use clock::{SiteClock, arrived};
pub use cluster_settings::{Budget, ClusterDurations, ClusterSettings, PodData, PodKind, Workload};
pub use etcd::Seat;
pub use faults::{Fault, FaultOutcome};
pub use held::{HeldTime, advance_time, site_time};
pub use kill::Kill;
pub use ledger::{
    Deployed, Effect, Ledger, LedgerEntry, MemberAdded, MemberRemoved, NodeRestored, Operation,
    Relabelled, Stage,
};
pub use machine::{Machine, Member, Pods};
pub use observed::{Seed, machines_of, seed};
pub use opened::Simulators;
pub use requests::{Answer, MachineRequest};
pub use settings::{Durations, Settings};
pub use world::StateError;
use world::World;

use crate::backend::{ActError, Hardware, Order, Pending, Probe};
use crate::design::{ClusterName, Guards, NodeDesign, NodeName};
use crate::observed::{LearnedHardware, ListedMachine, ObservedNode, ObservedNodes};
use crate::step::{Actor, StepKind};
use crate::threads::lock;

/// A simulated site.
#[derive(Debug)]
pub struct Simulator {
    settings: Settings,
    world: Arc<Mutex<World>>,
}

impl Simulator {
    /// Opens the site that a file holds; if there is no file, it is made with the first step.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no simulated site.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, StateError> {
        Ok(Self {
            settings,
            world: Arc::new(Mutex::new(World::open(path, SiteClock::alone())?)),
        })
    }

    /// A machine as it is now; `None` if nothing has ever happened to it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn machine(&self, node: &NodeName) -> Result<Option<Machine>, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let machine = view.machine(node);
        Ok(machine.map(|machine| {
            self.as_of(node, machine, view.now, view.sequence())
                .into_owned()
        }))
    }

    /// The members of an etcd cluster as they are now, by id.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn etcd(&self, cluster: &ClusterName) -> Result<Vec<Seat>, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        Ok(self.seats(cluster, view.machines(), view.now))
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
        lock(&self.world)
    }

    /// All faults, the machines' before the cluster's.
    fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.settings
            .faults
            .iter()
            .chain(&self.settings.cluster.faults)
    }

    /// When the operation of a machine ended, if it has.
    fn end_of(&self, node: &NodeName, operation: &Operation, now: u64) -> Option<u64> {
        match operation.ends {
            Some(ends) => (ends <= now).then_some(ends),
            None => {
                let kind = Some(operation.kind);
                let is_about = |fault: &Fault| {
                    fault.is_about(node, kind) || fault.is_about(node, Some(StepKind::Clean))
                };
                let mut faults = self.faults();
                let hangs =
                    faults.any(|fault| fault.outcome == FaultOutcome::Hang && is_about(fault));
                (!hangs).then_some(now)
            }
        }
    }

    /// A machine as it is now.
    fn as_of<'a>(
        &self,
        node: &NodeName,
        machine: &'a Machine,
        now: u64,
        sequence: u64,
    ) -> Cow<'a, Machine> {
        let mut machine = self.gone_on(node, machine, now, sequence);
        if machine.cluster.as_ref().is_some_and(|node| node.ready)
            && self.is_silent(node, &machine)
            && let Some(cluster) = &mut machine.to_mut().cluster
        {
            cluster.ready = false;
        }
        machine
    }

    /// Whether the kubelet on a machine does not answer, as the cluster's script says.
    fn is_silent(&self, node: &NodeName, machine: &Machine) -> bool {
        let mut faults = self.faults().filter(|fault| {
            fault.of == Actor::Cluster
                && fault.outcome == FaultOutcome::NotReady
                && fault.is_about(node, None)
        });
        faults.any(|fault| {
            let latest = machine.ledger.effects().rev();
            let since = latest.take_while(|effect| !matches!(effect, Effect::Deployed(_)));
            let started = since.filter(|effect| **effect == Effect::PoweredOn).count();
            fault
                .times
                .is_some_and(|times| u64::try_from(started).is_ok_and(|started| started < times))
        })
    }

    /// A machine with what has taken place and come to an end by now.
    fn gone_on<'a>(
        &self,
        node: &NodeName,
        machine: &'a Machine,
        now: u64,
        sequence: u64,
    ) -> Cow<'a, Machine> {
        let Some(operation) = &machine.operation else {
            return Cow::Borrowed(machine);
        };
        let end = self.end_of(node, operation, now);
        if end.is_none() && operation.stages.first().is_none_or(|stage| stage.at > now) {
            return Cow::Borrowed(machine);
        }
        let mut machine = machine.clone();
        match end {
            Some(at) => machine.finish(node, at, sequence),
            None => machine.pass(node, now, sequence),
        };
        Cow::Owned(machine)
    }

    /// The members of an etcd cluster, by id.
    fn seats<'a>(
        &self,
        cluster: &ClusterName,
        machines: impl Iterator<Item = (&'a NodeName, &'a Machine)>,
        now: u64,
    ) -> Vec<Seat> {
        // Only what has a member, or may just be getting one.
        let some = machines
            .filter(|(_, machine)| !machine.members.is_empty() || machine.operation.is_some());
        let seen: Vec<_> = some
            .map(|(node, machine)| (node, self.as_of(node, machine, now, 0)))
            .collect();
        let mut seats = etcd::seats(
            cluster,
            seen.iter().map(|(node, each)| (*node, &**each)),
            now,
        );
        for seat in &mut seats {
            let mut faults = self.faults();
            seat.runs &= !faults.any(|fault| {
                fault.of == Actor::Cluster
                    && fault.outcome == FaultOutcome::NoEtcd
                    && fault.is_about(&seat.node, None)
            });
        }
        seats
    }

    fn fault(&self, machine: &Machine, node: &NodeName, kind: Option<StepKind>) -> Option<&Fault> {
        self.faults().find(|fault| {
            let is_about_seeing = fault.outcome.is_about_seeing();
            let happened = machine.faults.get(&fault.key).copied().unwrap_or_default();
            is_about_seeing == kind.is_none()
                && (kind.is_some() || fault.of == Actor::Hardware)
                && fault.is_about(node, kind)
                && fault.times.is_none_or(|times| happened < times)
        })
    }

    /// The machines in the file.
    fn listed(&self) -> Result<Vec<ListedMachine>, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let listed = view.machines().map(|(node, machine)| ListedMachine {
            name: node.shared().clone(),
            members: etcd::listed(&machine.members, view.now),
            ..ListedMachine::default()
        });
        Ok(listed.collect())
    }

    fn learned(&self, node: &NodeDesign) -> Result<LearnedHardware, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let machine = match view.machine(&node.name) {
            Some(machine) => self.as_of(&node.name, machine, view.now, view.sequence()),
            None => Cow::Owned(Machine::factory_new(node)),
        };
        Ok(LearnedHardware {
            seen: values::learned(&self.settings.hardware, node, &machine),
            unread: Vec::new(),
        })
    }

    fn see(&self, nodes: &[Arc<NodeDesign>]) -> Result<ObservedNodes, StateError> {
        let mut world = self.world();
        let mut unseen = Vec::new();
        let mut seen = Vec::with_capacity(nodes.len());
        let mut left = Vec::new();
        let view = world.view()?;
        for node in nodes {
            if view.is_of_another(&node.name) {
                left.push(node.name.clone());
            }
            let machine = match view.machine(&node.name) {
                Some(machine) => self.as_of(&node.name, machine, view.now, view.sequence()),
                None => Cow::Owned(Machine::factory_new(node)),
            };
            let observed = match self.fault(&machine, &node.name, None) {
                Some(fault) => {
                    if fault.times.is_some() {
                        unseen.push((node, &fault.key));
                    }
                    ObservedNode::unknown(&fault.said("the machine does not answer"))
                }
                None => {
                    let mut observed = machine.observed();
                    values::compare(&mut observed, &self.settings.hardware, node, &machine);
                    observed
                }
            };
            seen.push((node.name.clone(), Box::new(observed)));
        }
        if !unseen.is_empty() {
            let mut change = world.change()?;
            for (node, key) in unseen {
                change.machine(node)?;
                change.count_fault(&node.name, key)?;
            }
            change.commit()?;
        }
        world.leave(&left)?;
        Ok(seen.into_iter().collect())
    }
}

impl Hardware for Simulator {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(async move {
            self.see(nodes).unwrap_or_else(|error| {
                let unknown = Box::new(ObservedNode::unknown(&with_source(&error)));
                let each = nodes
                    .iter()
                    .map(|node| (node.name.clone(), unknown.clone()));
                each.collect()
            })
        })
    }

    fn list(&self) -> Pending<'_, Result<Vec<ListedMachine>, ActError>> {
        let listed = self.listed();
        let listed = listed.map_err(|error| ActError::Passing(Arc::from(with_source(&error))));
        Box::pin(std::future::ready(listed))
    }

    fn learn<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<LearnedHardware, ActError>> {
        let learned = self.learned(node);
        let learned = learned.map_err(|error| ActError::Passing(Arc::from(with_source(&error))));
        Box::pin(std::future::ready(learned))
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move { self.tell_of(order) })
    }

    /// An update that runs continues without its run.
    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        Box::pin(async move {
            if !order.step.id.kind.sets_hardware() {
                return Ok(Probe::NotBegun);
            }
            match self.tell_of(order) {
                Probe::UnderWay | Probe::Ambiguous(_) => {
                    Err(ActError::Permanent(Arc::from("its update continues")))
                }
                probe @ (Probe::Done | Probe::NotBegun) => Ok(probe),
            }
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.carry_out(order))
    }
}

/// Whether a step of this kind is an operation on a machine or an observation of the cluster.
fn is_simulated(kind: StepKind) -> bool {
    let is_about_site = matches!(kind, StepKind::VerifySite | StepKind::PrepareSite);
    let is_whole = kind.facts().actor == Actor::Both;
    // A simulated machine has no lock.
    let is_possible = !is_about_site && !is_whole && kind != StepKind::Lock;
    kind.facts().touches_world() && is_possible
}

/// The kinds of step that the simulator carries out, or observes.
pub fn simulated_kinds() -> impl Iterator<Item = StepKind> {
    StepKind::ALL.into_iter().filter(|kind| is_simulated(*kind))
}

/// How long a kind of step takes by the settings; `None` if that depends on more than its kind.
pub(super) fn declared_duration(guards: &Guards, kind: StepKind) -> Option<Duration> {
    let settings = ClusterSettings::read(guards).ok()?;
    let cluster = settings.durations;
    match (kind, kind.facts().actor) {
        (StepKind::VerifySite | StepKind::PrepareSite | StepKind::CheckEtcd, _) => {
            Some(Duration::ZERO)
        }
        (StepKind::AwaitReady, _) => Some(match guards.etcd_clusters.is_empty() {
            true => Duration::ZERO,
            false => cluster.join,
        }),
        (StepKind::Drain, _) => settings.longest_drain(),
        _ if !is_simulated(kind) => None,
        (_, Actor::Cluster) => Some(cluster.of(kind)),
        _ => {
            let settings = Settings::read(&guards.backends.hardware).ok()?;
            Some(settings.durations.of(kind))
        }
    }
}

/// An error and what caused it, in one line.
fn with_source(error: &StateError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("the simulated site cannot be used: {error}: {source}"),
        None => format!("the simulated site cannot be used: {error}"),
    }
}
