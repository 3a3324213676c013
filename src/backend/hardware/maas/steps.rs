//! The steps: what each kind asks of MAAS, in which order, and when it is done.
//!
//! Each can be begun anew at any point: it observes the machine, what earlier attempts noted and what MAAS has
//! logged since, and continues from there.

use std::sync::Arc;
use std::time::Duration;

use super::Maas;
use super::api::field;
use super::event::{Once, Trace};
use super::machine::{Machine, key, no_power, power_of, status};
use super::tag::{self, Tag};
use crate::backend::hardware::driver::{Result, StepTarget};
use crate::backend::hardware::level::{Pace, bring};
use crate::backend::hardware::proof::Evidence;
use crate::backend::hardware::provisioner::Task;
use crate::backend::{ActError, Order, Probe};
use crate::design::NodeDesign;
use crate::lifecycle::{PowerState, ProvisionState as S, Verb};
use crate::step::StepKind;

/// The note of a teardown before it takes the machine out of MAAS.
pub(super) const LEAVING: &str = "leaves MAAS";
/// How long power may take to show in MAAS.
const SETTLING: Duration = Duration::from_secs(5);
/// The bound of a switch if the step has none.
const SWITCH: Duration = Duration::from_secs(600);

/// The steps on one machine.
pub(super) struct MachineSteps<'a> {
    pub(super) task: Task<'a, Maas>,
}

impl<'a> MachineSteps<'a> {
    pub(super) fn new(maas: &'a Maas, order: &'a Order, node: &'a NodeDesign) -> Self {
        let subject = |name: &str| match *name == *node.name.as_str() {
            true => format!("node `{name}`"),
            false => format!("node `{}` (in MAAS `{name}`)", node.name),
        };
        Self {
            task: Task::new(maas, order, node, subject),
        }
    }

    pub(super) fn maas(&self) -> &'a Maas {
        self.task.backend
    }

    /// Whether this step has deployed the machine, or begun to.
    fn is_ours(&self, machine: &Machine) -> bool {
        let is = |key: &str, wanted: &str| {
            let value = machine.owner_data.get(key);
            value.is_some_and(|value| **value == *wanted)
        };
        let order = self.task.order;
        is(key::RUN, order.run.as_str()) && is(key::STEP, &order.step.id.to_string())
    }

    /// How far the step is.
    pub(super) async fn probe(&self) -> Probe {
        let machine = match self.task.look().await {
            Ok(Some(machine)) => machine,
            Ok(None) if self.task.kind() == StepKind::Destroy && self.task.has_noted(LEAVING) => {
                return Probe::Done;
            }
            Ok(None) => return Probe::NotBegun,
            Err(error) => return Probe::Ambiguous(Arc::from(error.to_string())),
        };
        let probed = self.probe_machine(&machine).await;
        let is_switch = matches!(self.task.kind(), StepKind::PowerOn | StepKind::PowerOff);
        match probed.unwrap_or_else(|error| Probe::Ambiguous(Arc::from(error.to_string()))) {
            Probe::Done if is_switch && self.is_left_unlocked(&machine) => Probe::UnderWay,
            probe => probe,
        }
    }

    async fn probe_machine(&self, machine: &Machine) -> Result<Probe> {
        let at = |is_there: bool| match is_there {
            true => Probe::Done,
            false => Probe::NotBegun,
        };
        let is_in = |state: S| at(machine.is_idle() && machine.state() == state);
        Ok(match self.task.kind() {
            StepKind::PowerOn => at(self.read_power(machine).await? == PowerState::On),
            StepKind::PowerOff => at(self.read_power(machine).await? == PowerState::Off),
            StepKind::Lock => at(machine.locked),
            StepKind::SetRetired => at(self.is_retired_as_wanted(machine)),
            StepKind::UnsetRetired => at(machine.retired().is_none()),
            StepKind::SetMaintenance => at(machine.has_tag(tag::MAINTENANCE)),
            StepKind::UnsetMaintenance => at(machine.maintenance().is_none()),
            StepKind::Manage => is_in(S::Manageable),
            StepKind::Provide => is_in(S::Available),
            StepKind::Prepare => self.probe_prepare(machine),
            StepKind::Deploy => self.probe_deploy(machine).await?,
            StepKind::Destroy | StepKind::Clean => self.probe_release(machine).await?,
            _ => Probe::NotBegun,
        })
    }

    /// It can be continued from anywhere where it has begun: its notes tell, the tag of its run if another clone had
    /// begun it, and a machine that its run has taken is prepared.
    fn probe_prepare(&self, machine: &Machine) -> Probe {
        let order = self.task.order;
        let operations = [Once::Commission, Once::Test, Once::Release];
        let is_noted = operations
            .iter()
            .any(|each| each.noted(&order.notes).is_some());
        let taken_by = machine.owner_data.get(key::RUN);
        if taken_by.is_some_and(|run| **run == *order.run.as_str()) {
            return Probe::Done;
        }
        match is_noted || machine.tag_names.contains(&Tag::run(&order.run).name) {
            true => Probe::UnderWay,
            false => Probe::NotBegun,
        }
    }

    async fn probe_deploy(&self, machine: &Machine) -> Result<Probe> {
        let is_ours = self.is_ours(machine);
        Ok(match machine.state() {
            S::Active if is_ours && self.is_finished(machine) => Probe::Done,
            S::Active | S::Deploying if is_ours => Probe::UnderWay,
            S::Available | S::DeployFailed => match self.task.trace(Once::Deploy, machine).await? {
                Some(Trace::Accepted) => self.begun_and_failed(machine),
                _ => Probe::NotBegun,
            },
            _ => Probe::NotBegun,
        })
    }

    fn begun_and_failed(&self, machine: &Machine) -> Probe {
        Probe::Ambiguous(format!("it was begun, and the machine is {}", machine.failed()).into())
    }

    async fn probe_release(&self, machine: &Machine) -> Result<Probe> {
        let trace = match self.task.trace(Once::Release, machine).await? {
            Some(trace) => Some(trace),
            // Another clone may have noted it.
            None => self.task.trace_of_step(Once::Release, machine).await?,
        };
        let is_begun = trace == Some(Trace::Accepted);
        Ok(match machine.state() {
            _ if trace.is_none() => Probe::NotBegun,
            _ if !machine.is_idle() => Probe::UnderWay,
            S::Available | S::Manageable | S::Enroll if is_begun => {
                let is_off = !machine.is_switched() || machine.power() == Some(PowerState::Off);
                let leaves = self.task.kind() == StepKind::Destroy && self.leaves(machine);
                match is_off && !leaves && self.is_cleaned(machine) {
                    true => Probe::Done,
                    false => Probe::NotBegun,
                }
            }
            S::Active if is_begun => {
                let text = "it was released by this step, and is deployed again";
                Probe::Ambiguous(Arc::from(text))
            }
            _ if is_begun => self.begun_and_failed(machine),
            _ => Probe::NotBegun,
        })
    }

    /// Whether a cleaning left the machine where it belongs.
    fn is_cleaned(&self, machine: &Machine) -> bool {
        self.task.kind() != StepKind::Clean || machine.state() == S::Manageable
    }

    /// Whether a deployed machine runs, and is locked if that is wanted.
    fn is_finished(&self, machine: &Machine) -> bool {
        let is_locked = machine.locked || !self.maas().settings.lock;
        is_locked && machine.power() != Some(PowerState::Off)
    }

    /// The refusal of a step in a state where it cannot begin.
    pub(super) fn refused(&self, machine: &Machine, verb: Verb) -> ActError {
        self.task.gate(machine, verb).err().unwrap_or_else(|| {
            let (state, kind) = (machine.failed(), self.task.kind());
            let way_out = machine.way_out().map(|text| format!(" ({text})"));
            let way_out = way_out.unwrap_or_default();
            let text = format!("is {state}: `{kind}` is refused in that state{way_out}");
            self.task.permanent(text)
        })
    }

    /// Takes a machine, says in MAAS by whom and what for, and deploys it.
    async fn deploy(&self) -> Result<()> {
        let task = &self.task;
        let machine = task.known().await?;
        if self.is_ours(&machine) {
            match machine.state() {
                S::Active => return self.finish(machine).await,
                S::Deploying => {
                    let machine = task.ended(None, Once::Deploy).await?;
                    return self.finish(machine).await;
                }
                _ => {}
            }
        }
        let mut machine = task.settled(machine).await?;
        if let Some(Trace::Accepted) = task.trace(Once::Deploy, &machine).await? {
            return Err(task.ended_in(Once::Deploy, &machine));
        }
        task.gate(&machine, Verb::Deploy)?;
        let system = self.maas().system(task.node);
        if let Some(why) = system.unsupported.first() {
            return Err(task.permanent(why));
        }
        if !matches!(machine.status, Some(status::READY | status::ALLOCATED)) {
            return Err(task.permanent(format!(
                "is {}: MAAS deploys only what is ready or allocated, and a failed deployment is released first (`prepare` does)",
                machine.failed()
            )));
        }
        if machine.status == Some(status::READY) {
            // It may have been changed since it was prepared.
            machine = self.configure(machine).await?;
            task.report("allocating");
            machine = task.allocate(machine, Some(Verb::Deploy)).await?;
        }
        let machine = self.claim(machine).await?;
        self.put_tags(&machine).await?;
        for left in system.left_out.iter() {
            task.report(left.clone());
        }
        let form = system.form(task.node, &task.comment());
        let machine = task.once(machine, Once::Deploy, &form).await?;
        self.finish(machine).await
    }

    /// Writes on a machine by which step it is deployed, and the labels of its design.
    async fn claim(&self, machine: Machine) -> Result<Machine> {
        let task = &self.task;
        if !machine.is_ours {
            return Err(self.refused(&machine, Verb::Deploy));
        }
        if self.is_ours(&machine) {
            return Ok(machine);
        }
        let step = task.order.step.id.to_string();
        let own = [(key::RUN, task.order.run.as_str()), (key::STEP, &*step)];
        let labels = task
            .node
            .labels
            .iter()
            .map(|(name, value)| (&**name, &**value));
        // MAAS removes a key whose value is empty.
        let labels = labels.filter(|(_, value)| !value.is_empty());
        let fields = own.into_iter().chain(labels);
        let fields = fields.map(|(name, value)| field(name, value)).collect();
        let machine = task.operate(machine, "set_owner_data", &fields).await?;
        match self.is_ours(&machine) {
            true => Ok(machine),
            false => Err(task.passing("MAAS accepted `set_owner_data`, and has not kept it")),
        }
    }

    /// Puts the tags of the design on the machine; others are another's.
    async fn put_tags(&self, machine: &Machine) -> Result<()> {
        for name in self.task.node.tags.iter() {
            let tag = tag::Tag::plain(name);
            if !machine.tag_names.contains(name) {
                self.task.tag(machine, &tag, tag::Change::Add).await?;
            }
        }
        Ok(())
    }

    /// A system that was deployed runs, and cannot be deleted by mistake.
    async fn finish(&self, machine: Machine) -> Result<()> {
        let task = &self.task;
        let machine = task.settled(machine).await?;
        if machine.state() != S::Active {
            return Err(task.ended_in(Once::Deploy, &machine));
        }
        // MAAS skips in silence what it cannot tag.
        self.put_tags(&machine).await?;
        if machine.power() == Some(PowerState::Off) && machine.is_switched() && !machine.locked {
            self.switch(&machine, PowerState::On).await?;
        }
        match self.maas().settings.lock {
            true => self.lock(machine).await.map(drop),
            false => Ok(()),
        }
    }

    /// Locks a deployed machine, and says in MAAS that it was trueup.
    pub(super) async fn lock(&self, machine: Machine) -> Result<Machine> {
        let task = &self.task;
        if machine.locked {
            return Ok(machine);
        }
        let machine = match machine.owner_data.contains_key(key::LOCK) {
            true => machine,
            false => {
                let mark = vec![field(key::LOCK, task.order.run.as_str())];
                task.operate(machine, "set_owner_data", &mark).await?
            }
        };
        let comment = vec![field("comment", task.comment())];
        let locked = task.operate(machine, "lock", &comment).await;
        match locked {
            Ok(machine) if machine.locked => Ok(machine),
            Ok(_) => Err(task.passing("MAAS accepted `lock`, and has not locked it")),
            Err(error) => match task.known().await? {
                machine if machine.locked => Ok(machine),
                _ => Err(error),
            },
        }
    }

    /// Locks a machine that was adopted, or unlocked by another.
    async fn lock_deployed(&self) -> Result<()> {
        let task = &self.task;
        let machine = task.settled(task.known().await?).await?;
        if !machine.locked && !machine.can_be_locked() {
            let status = machine.status_name();
            let text = format!("is {status}: only what is deployed and has an owner is locked");
            return Err(task.permanent(text));
        }
        self.lock(machine).await.map(drop)
    }

    /// Unlocks a machine that trueup has locked.
    pub(super) async fn unlock(&self, machine: Machine) -> Result<Machine> {
        let task = &self.task;
        if !machine.locked {
            return Ok(machine);
        }
        if !machine.is_locked_by_us() {
            return Err(
                task.permanent("is locked in MAAS, and not by trueup: unlock it there first")
            );
        }
        let comment = vec![field("comment", task.comment())];
        let unlocked = task.operate(machine, "unlock", &comment).await;
        match unlocked {
            Ok(machine) if !machine.locked => Ok(machine),
            Ok(_) => Err(task.passing("MAAS accepted `unlock`, and has not unlocked it")),
            Err(error) => match task.known().await? {
                machine if !machine.locked => Ok(machine),
                _ => Err(error),
            },
        }
    }

    /// Whether a machine that trueup has locked is not locked: it was unlocked for the time of a switch. MAAS keeps the
    /// mark of the lock meanwhile, so that a process finds it that has neither notes nor journal of the one before.
    fn is_left_unlocked(&self, machine: &Machine) -> bool {
        let is_marked = machine.owner_data.contains_key(key::LOCK) && self.maas().settings.lock;
        is_marked && !machine.locked && machine.state() == S::Active
    }

    /// Switches a machine, and locks it again if trueup has locked it.
    async fn power(&self, wanted: PowerState) -> Result<()> {
        let task = &self.task;
        let verb = match wanted {
            PowerState::On => Verb::PowerOn,
            PowerState::Off => Verb::PowerOff,
        };
        let machine = task.settled(task.known().await?).await?;
        task.gate(&machine, verb)?;
        if self.read_power(&machine).await? == wanted {
            return self.lock_again(machine).await;
        }
        let machine = self.unlock(machine).await?;
        let switched = self.switch(&machine, wanted).await;
        // A failure that can pass is retried, and then finds the mark.
        if !matches!(switched, Ok(()) | Err(ActError::Permanent(_))) {
            return switched;
        }
        let locked = self.lock_again(task.again(&machine).await?).await;
        switched.and(locked)
    }

    /// Locks a machine that was unlocked for the time of a switch.
    async fn lock_again(&self, machine: Machine) -> Result<()> {
        match self.is_left_unlocked(&machine) {
            true => self.lock(machine).await.map(drop),
            false => Ok(()),
        }
    }

    /// Switches a machine, and sees it stay so.
    pub(super) async fn switch(&self, machine: &Machine, wanted: PowerState) -> Result<()> {
        let task = &self.task;
        if !machine.is_switched() {
            return Err(task.permanent("MAAS cannot switch it: its power type is `manual`"));
        }
        if machine.is_stranded() {
            return Err(task.permanent(
                "has no owner in MAAS, which would not switch it on again: it was marked broken there while it was \
                 deployed; release it, and deploy it anew",
            ));
        }
        let has_owner = machine.owner.is_some();
        if wanted == PowerState::On && (!has_owner || machine.status == Some(status::ALLOCATED)) {
            return Err(task.permanent(format!(
                "is {}: MAAS switches on only what is deployed, and deploys an allocated machine by it",
                machine.status_name()
            )));
        }
        let operation = match wanted {
            PowerState::On => "power_on",
            PowerState::Off => "power_off",
        };
        let api = &self.maas().api;
        let fields = vec![field("comment", task.comment())];
        let (fields, id) = (&fields, &machine.system_id);
        let ask = || async move {
            let asked = api.operate(&task.subject, id, operation, fields).await;
            Ok(asked?)
        };
        let what = format!("{}: power", task.subject);
        let time = task
            .deadline()
            .map_or(SWITCH, |end| end - tokio::time::Instant::now());
        let pace = Pace::within(&what, SETTLING, time);
        task.report(operation);
        bring(wanted, pace, || self.read_power(machine), ask).await
    }

    /// The power of a machine as its management controller reports it.
    async fn read_power(&self, machine: &Machine) -> Result<PowerState> {
        let task = &self.task;
        let told = self
            .maas()
            .api
            .power(&task.subject, &machine.system_id)
            .await?;
        match power_of(&told) {
            Some(power) => Ok(power),
            None if *told == *"error" => Err(task.passing(no_power(&told))),
            None => Err(task.permanent(no_power(&told))),
        }
    }
}

impl StepTarget for MachineSteps<'_> {
    async fn prove(&mut self, node: &NodeDesign) -> Result<Option<Evidence>> {
        self.task.evidence(&self.maas().designed(node, None)).await
    }

    async fn act(&self, _: &Order, _: &NodeDesign) -> Result<()> {
        let task = &self.task;
        match task.kind() {
            StepKind::Prepare => self.prepare().await,
            StepKind::Deploy => self.deploy().await,
            StepKind::Destroy => self.destroy().await,
            StepKind::Clean => self.clean().await,
            StepKind::PowerOn => self.power(PowerState::On).await,
            StepKind::PowerOff => self.power(PowerState::Off).await,
            StepKind::Manage => self.manage().await,
            StepKind::Provide => self.provide().await,
            StepKind::Lock => self.lock_deployed().await,
            StepKind::SetRetired => self.retire(true).await,
            StepKind::UnsetRetired => self.retire(false).await,
            StepKind::SetMaintenance => self.maintain(true).await,
            StepKind::UnsetMaintenance => self.maintain(false).await,
            other => Err(task.permanent(format!("MAAS cannot do `{other}`"))),
        }
    }
}
