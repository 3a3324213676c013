//! The steps: what each kind asks of Ironic, in which order, and when it is done.
//!
//! Each can be begun anew at any point: it observes the state of the node and continues from there.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::mark::{self, Marker};
use super::node::{
    CLEAN_FAILURE, DISKS, INSPECTED, Node, disks_of_inventory, identity_of_inventory,
};
use super::versions::Feature;
use super::{Ironic, enrol, own_steps, raid as own_raid};
use crate::backend::hardware::driver::{Result, StepTarget};
use crate::backend::hardware::payload;
use crate::backend::hardware::proof::Evidence;
use crate::backend::hardware::provisioner::Task;
use crate::backend::hardware::raid;
use crate::backend::{ActError, Order, Probe};
use crate::design::{NodeDesign, Raid};
use crate::identity;
use crate::lifecycle::{PowerState, ProvisionState, Verb};
use crate::step::{CleanStep, StepKind};

/// NodeSteps that Ironic accepts in a manual cleaning and leaves out without a word.
const LEFT_OUT: [&str; 5] = ["power_on", "power_off", "reboot", "hold", "wait"];

/// Most verbs that bring one node from anywhere to available.
const WAY: usize = 8;

/// The steps on one node.
pub(super) struct NodeSteps<'a> {
    pub(super) task: Task<'a, Ironic>,
    /// How automated cleaning was before this step switched it for its own time.
    switched: OnceLock<Option<bool>>,
}

impl<'a> NodeSteps<'a> {
    pub(super) fn new(ironic: &'a Ironic, order: &'a Order, node: &'a NodeDesign) -> Self {
        let subject = |name: &str| match *name == *node.name.as_str() {
            true => format!("node `{name}`"),
            false => format!("node `{}` (in Ironic `{name}`)", node.name),
        };
        let notes = &mut order.notes.iter();
        Self {
            task: Task::new(ironic, order, node, subject),
            switched: notes
                .find_map(|note| cleaning_noted(note))
                .map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    pub(super) fn ironic(&self) -> &'a Ironic {
        self.task.backend
    }

    /// Whether a teardown ends with the node's removal from Ironic: it left the design and is not retired,
    /// or that was asked for.
    fn leaves(&self, node: &Node) -> bool {
        let has_left = self.task.has_left() && !node.retired;
        has_left || *self.task.given().forget()
    }

    /// How far the step is: done only when what it changed for its own time is as it was.
    pub(super) async fn probe(&self) -> Probe {
        let node = match self.task.look().await {
            Ok(Some(node)) => node,
            Ok(None) if self.task.kind() == StepKind::Destroy && self.task.has_noted(LEAVING) => {
                return Probe::Done;
            }
            Ok(None) => return Probe::NotBegun,
            Err(error) => return Probe::Ambiguous(Arc::from(error.to_string())),
        };
        if self.task.kind() == StepKind::Service {
            return self.probe_service(&node).await;
        }
        match self.probe_node(&node) {
            Probe::Done if self.cleaning_to_restore(&node).is_some() => Probe::UnderWay,
            probe => probe,
        }
    }

    /// How far the step is, by its node alone.
    fn probe_node(&self, node: &Node) -> Probe {
        let at = |is_there: bool| {
            if is_there {
                Probe::Done
            } else {
                Probe::NotBegun
            }
        };
        match self.task.kind() {
            StepKind::PowerOn | StepKind::PowerOff if node.target_power_state.is_some() => {
                Probe::UnderWay
            }
            StepKind::PowerOn => at(node.power() == Some(PowerState::On)),
            StepKind::PowerOff => at(node.power() == Some(PowerState::Off)),
            StepKind::SetRetired => at(self.is_retired_as_wanted(node)),
            StepKind::UnsetRetired => at(!node.retired),
            StepKind::SetMaintenance => at(node.maintenance),
            StepKind::UnsetMaintenance => at(!node.maintenance),
            StepKind::Manage => at(node.is_idle() && node.state() == ProvisionState::Manageable),
            StepKind::Provide => at(node.is_idle() && node.state() == ProvisionState::Available),
            _ => mark::probe(self.task.order, node, self.leaves(node)),
        }
    }

    /// Marks the node as this step's, with more changes to it at the same time.
    pub(super) async fn mark(&self, node: Node, more: Vec<Value>) -> Result<Node> {
        let task = &self.task;
        // The marker must hold the state before the operation, when the node was idle.
        let node = task.settled(node).await?;
        let mut operations = more;
        if !mark::is_ours(self.task.order, &node) {
            operations.push(Marker::new(self.task.order, Some(&node)).operation());
        }
        if operations.is_empty() {
            return Ok(node);
        }
        task.patch(node, None, operations, None).await
    }

    /// Refuses at once, not on its way, what must not become available: a retired machine, one that
    /// with an operation running, one that is fenced, and one that carries a system.
    fn can_be_prepared(&self, node: &Node) -> Result<()> {
        let task = &self.task;
        if let Some(reason) = node.maintenance() {
            return Err(task.permanent(format!("is in maintenance ({reason})")));
        }
        if let Some(reason) = node.retired() {
            return Err(task.permanent(format!("is retired ({reason}), and is never deployed to")));
        }
        match node.state() {
            ProvisionState::Available
            | ProvisionState::Enroll
            | ProvisionState::InspectFailed
            | ProvisionState::DeployFailed
            | ProvisionState::Error
            | ProvisionState::Manageable => Ok(()),
            ProvisionState::CleanFailed => Err(task.permanent(format!(
                "is fenced (clean failed) and needs manual intervention: clean it again, or provide it on purpose ({})",
                node.failed()
            ))),
            _ => Err(self.refused(node, Verb::Provide)),
        }
    }

    /// The refusal of a step in a state where it cannot begin.
    fn refused(&self, node: &Node, verb: Verb) -> ActError {
        self.task.gate(node, verb).err().unwrap_or_else(|| {
            let (state, kind) = (node.state_name(), self.task.kind());
            self.task
                .permanent(format!("is {state}: `{kind}` is refused in that state"))
        })
    }

    /// Enrols the machine.
    async fn enrol(&self) -> Result<Node> {
        let task = &self.task;
        let Some(enrolment) = &self.ironic().settings.enrolment else {
            return Err(task.permanent(self.ironic().not_enrolled(&task.name)));
        };
        let reach = enrol::reach(self.task.node, enrolment, &*self.ironic().secrets)
            .map_err(|why| task.permanent(why))?;
        let automated = self.ironic().roster.automated_clean(self.task.node);
        let marker = Marker::new(self.task.order, None).to_json();
        let body = enrol::enrolled(
            self.task.node,
            &task.name,
            enrolment,
            &reach,
            automated,
            &marker,
        );
        task.report("enrolling");
        // What was taken out of Ironic has left its UUID in the record.
        self.ironic()
            .roster
            .identities
            .enrolled(self.task.node.name.as_str(), None);
        let api = &self.ironic().api;
        let created = api
            .create(&task.subject, &body, reach.password.as_ref())
            .await;
        let node = match created {
            Ok(node) => node,
            // Another client was faster, or an answer was lost before.
            Err(error) if error.status() == Some(409) => match task.look().await? {
                Some(node) => return self.refresh(node).await,
                None => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        self.complete(node).await
    }

    /// Adds what a new node still lacks, as often as it takes; one that was managed before gets its port only.
    async fn complete(&self, mut node: Node) -> Result<Node> {
        let (api, task) = (&self.ironic().api, &self.task);
        let is_new = mark::is_being_enrolled(&node, &task.node.name);
        let enrolment = self.ironic().settings.enrolment.as_ref();
        if let Some(enrolment) = enrolment.filter(|each| is_new && !each.traits.is_empty()) {
            let set = |uuid: Arc<str>| async move {
                api.set_traits(&task.subject, &uuid, &enrolment.traits)
                    .await
            };
            (node, ()) = task.send_with_retry(node, None, set).await?;
        }
        node = self.plug(node).await?;
        if is_new {
            let macs = boot_macs(task.node);
            let (identity, verdict) = self.ironic().judge(task.node, &node, &macs);
            task.admit(identity, verdict.into_proof()).await?;
        }
        Ok(node)
    }

    /// Gives the node its port, by the MAC address that its design has.
    async fn plug(&self, node: Node) -> Result<Node> {
        let Some(address) = payload::boot_address(self.task.node) else {
            return Ok(node);
        };
        let (api, subject, address) = (&self.ironic().api, &self.task.subject, &address);
        match api.owner_of_port(subject, address).await? {
            Some(owner) if *owner == *node.uuid => Ok(node),
            Some(owner) => Err(self.task.permanent(format!(
                "its MAC address {address} belongs to another node of Ironic's ({owner})"
            ))),
            None => {
                let create =
                    |uuid: Arc<str>| async move { api.create_port(subject, &uuid, address).await };
                let (node, ()) = self.task.send_with_retry(node, None, create).await?;
                Ok(node)
            }
        }
    }

    /// Brings what Ironic knows about the machine up to date, and marks it.
    async fn refresh(&self, node: Node) -> Result<Node> {
        let Some(enrolment) = &self.ironic().settings.enrolment else {
            return self.mark(node, Vec::new()).await;
        };
        if mark::is_ours(self.task.order, &node) {
            return self.complete(node).await;
        }
        let task = &self.task;
        let reach = enrol::reach(self.task.node, enrolment, &*self.ironic().secrets)
            .map_err(|why| task.permanent(why))?;
        let set = |(key, value): (&String, &Value)| {
            // A key with a slash or a tilde is written with escapes in a JSON pointer.
            let key = key.replace('~', "~0").replace('/', "~1");
            json!({"op": "add", "path": format!("/driver_info/{key}"), "value": value})
        };
        let mut operations: Vec<Value> = reach.driver_info.iter().map(set).collect();
        let node = task.settled(node).await?;
        operations.push(Marker::new(self.task.order, Some(&node)).operation());
        let node = task
            .patch(node, None, operations, reach.password.as_ref())
            .await?;
        self.complete(node).await
    }

    /// Writes down which disks an inspection found, for lists to show.
    async fn write_disks_down(&self, node: Node) -> Result<Node> {
        let api = &self.ironic().api;
        if !api.has(Feature::Inventory).await? {
            return Ok(node);
        }
        let inventory = api.inventory(&self.task.subject, &node.uuid).await?;
        match disks_of_inventory(&inventory) {
            Value::Null => Ok(node),
            disks => {
                let add = |key: &str, value: Value| json!({"op": "add", "path": format!("/extra/{key}"), "value": value});
                let identity = identity_of_inventory(&inventory);
                let operations = vec![add(DISKS, disks), add(INSPECTED, identity)];
                self.task.patch(node, None, operations, None).await
            }
        }
    }

    /// Brings a machine under management.
    async fn manage(&self, node: Node) -> Result<Node> {
        let node = self.task.settled(node).await?;
        if node.state() == ProvisionState::Manageable {
            return Ok(node);
        }
        self.task.ask(node, Verb::Manage, json!({})).await
    }

    /// Makes a machine available, cleaned as the site's policy says.
    async fn provide(&self, node: Node) -> Result<Node> {
        let task = &self.task;
        let mut node = task.settled(node).await?;
        if node.state() == ProvisionState::Available && !node.retired {
            return Ok(node);
        }
        task.gate(&node, Verb::Provide)?;
        if node.state() == ProvisionState::CleanFailed {
            node = self.out_of_clean_failed(node).await?;
        }
        let node = self.with_policy(node).await?;
        task.ask(node, Verb::Provide, json!({})).await
    }

    /// Automated cleaning as the site's policy has it, if it has one.
    async fn with_policy(&self, node: Node) -> Result<Node> {
        match self.ironic().roster.automated_clean(self.task.node) {
            Some(wanted) if node.automated_clean != Some(wanted) => {
                let operation = automated_clean(Some(wanted));
                self.task.patch(node, None, vec![operation], None).await
            }
            _ => Ok(node),
        }
    }

    /// The only way out of clean failed in Ironic, taken because the operator requested it.
    async fn out_of_clean_failed(&self, node: Node) -> Result<Node> {
        let task = &self.task;
        task.report("Ironic has no way out of clean failed but to manageable");
        // Only the maintenance that the failure itself has set ends with it.
        let node = if node.maintenance && node.fault.as_deref() == Some(CLEAN_FAILURE) {
            task.maintain(node, None).await?
        } else {
            node
        };
        task.ask(node, Verb::Manage, json!({})).await
    }

    /// Asks for a verb that would clean, with cleaning switched off for that time.
    async fn without_cleaning(&self, node: Node, verb: Verb) -> Result<Node> {
        let task = &self.task;
        task.gate(&node, verb)?;
        let node = self.switch_cleaning(node, false).await?;
        let node = task.ask(node, verb, json!({})).await?;
        self.restore_cleaning(node).await
    }

    /// Switches automated cleaning for the time of this step. The previous value is noted first, so that a process that
    /// resumes the run after a crash restores it.
    async fn switch_cleaning(&self, node: Node, wanted: bool) -> Result<Node> {
        if self.switched.get().is_none() {
            let before = node.automated_clean;
            let note = format!("{CLEANING_WAS}{}", cleaning_word(before));
            self.task.order.reporter.note(note).await?;
            let _ = self.switched.set(before);
        }
        if node.automated_clean == Some(wanted) {
            return Ok(node);
        }
        let operation = automated_clean(Some(wanted));
        self.task.patch(node, None, vec![operation], None).await
    }

    /// How automated cleaning has to be set, if this step has switched it and it is not so yet: as the
    /// site's policy has it, else as it was.
    fn cleaning_to_restore(&self, node: &Node) -> Option<Option<bool>> {
        let before = *self.switched.get()?;
        let wanted = self
            .ironic()
            .roster
            .automated_clean(self.task.node)
            .or(before);
        (node.automated_clean != wanted).then_some(wanted)
    }

    async fn restore_cleaning(&self, node: Node) -> Result<Node> {
        match self.cleaning_to_restore(&node) {
            Some(wanted) => {
                let operation = automated_clean(wanted);
                self.task.patch(node, None, vec![operation], None).await
            }
            None => Ok(node),
        }
    }

    /// A machine in use runs: Ironic may call one active that is off.
    pub(super) async fn runs(&self, node: Node) -> Result<()> {
        if node.power() == Some(PowerState::Off) {
            self.task.report("is active, and off: it is switched on");
            self.task.power(node, PowerState::On).await?;
        }
        Ok(())
    }

    /// Takes the node out of Ironic.
    async fn leave(&self, mut node: Node) -> Result<()> {
        let task = &self.task;
        if node.state() == ProvisionState::Available {
            node = task.ask(node, Verb::Manage, json!({})).await?;
        }
        self.task.order.reporter.note(LEAVING).await?;
        task.report("leaves Ironic");
        task.remove(node).await?;
        let (registry, name) = (
            &self.ironic().roster.identities,
            self.task.node.name.as_str(),
        );
        registry.enrolled(name, None);
        if let Some(known) = registry.known(name) {
            self.task
                .order
                .reporter
                .note(identity::note(&known))
                .await?;
        }
        Ok(())
    }

    /// Erases a retired machine that cannot be cleaned on the way to available, since it never goes there,
    /// by the steps that the plan names; a plan that names none was not for erasing it.
    async fn erase(&self, node: Node) -> Result<Node> {
        let steps = self.task.given().clean_steps();
        if steps.is_empty() {
            self.task
                .report("retired, and not erased: nothing was deployed on it since it was cleaned");
            return Ok(node);
        }
        let steps = steps
            .iter()
            .map(|step| self.written(step))
            .collect::<Result<Vec<_>>>()?;
        self.task
            .ask(node, Verb::Clean, json!({ "clean_steps": steps }))
            .await
    }

    /// A clean step as Ironic's API has it.
    fn written(&self, step: &CleanStep) -> Result<Value> {
        let mut written = json!({"interface": step.interface, "step": step.step});
        let arguments = own_steps::arguments(&step.name(), step.arguments.as_deref());
        if let Some(arguments) = arguments.map_err(|why| self.task.permanent(why))? {
            written["args"] = arguments;
        }
        Ok(written)
    }

    fn is_retired_as_wanted(&self, node: &Node) -> bool {
        node.retired
            && node.retired_reason.as_deref() == Some(self.task.reason())
            && node.state() != ProvisionState::Available
    }
}

impl StepTarget for NodeSteps<'_> {
    async fn prove(&mut self, node: &NodeDesign) -> Result<Option<Evidence>> {
        self.task.evidence(&self.ironic().designed(node)).await
    }

    /// Does the step, and leaves automated cleaning as it was before.
    async fn act(&self, _: &Order, _: &NodeDesign) -> Result<()> {
        // What an earlier process had done but for that is not done again.
        let is_done = self.switched.get().is_some()
            && matches!(self.task.look().await?, Some(node) if self.probe_node(&node) == Probe::Done);
        let done = match is_done {
            true => Ok(()),
            false => self.act_by_kind().await,
        };
        // A failure that can pass is retried, and then finds its note.
        if self.switched.get().is_none() || !matches!(done, Ok(()) | Err(ActError::Permanent(_))) {
            return done;
        }
        let restored = match self.task.look().await? {
            Some(node) => self.restore_cleaning(node).await.map(drop),
            None => Ok(()),
        };
        done.and(restored)
    }
}

impl NodeSteps<'_> {
    async fn act_by_kind(&self) -> Result<()> {
        let task = &self.task;
        let power = async |wanted| task.power(task.known().await?, wanted).await.map(drop);
        match task.kind() {
            StepKind::Prepare => self.prepare().await,
            StepKind::Deploy => self.deploy().await,
            StepKind::Destroy => self.destroy().await,
            StepKind::Clean => self.clean().await,
            StepKind::Service => self.service().await,
            StepKind::PowerOn => power(PowerState::On).await,
            StepKind::PowerOff => power(PowerState::Off).await,
            StepKind::Manage => self.manage(task.known().await?).await.map(drop),
            StepKind::Provide => self.provide(task.known().await?).await.map(drop),
            StepKind::SetRetired => self.retire(true).await,
            StepKind::UnsetRetired => self.retire(false).await,
            StepKind::SetMaintenance => {
                let node = task.known().await?;
                task.maintain(node, Some(task.reason())).await.map(drop)
            }
            StepKind::UnsetMaintenance => match task.known().await? {
                node if node.maintenance => task.maintain(node, None).await.map(drop),
                _ => Ok(()),
            },
            other => Err(task.permanent(format!("Ironic cannot do `{other}`"))),
        }
    }

    /// Enrols the machine where Ironic does not know it, and brings it to available.
    async fn prepare(&self) -> Result<()> {
        let task = &self.task;
        let mut node = match task.look().await? {
            Some(node) => {
                let node = task.settled(node).await?;
                self.can_be_prepared(&node)?;
                self.refresh(node).await?
            }
            None => self.enrol().await?,
        };
        let preserve = self.task.preserves();
        let mut inspected = false;
        for _ in 0..WAY {
            node = task.settled(node).await?;
            self.can_be_prepared(&node)?;
            node = match node.state() {
                ProvisionState::Available => return Ok(()),
                ProvisionState::Enroll | ProvisionState::InspectFailed => {
                    task.ask(node, Verb::Manage, json!({})).await?
                }
                ProvisionState::DeployFailed | ProvisionState::Error if preserve => {
                    self.without_cleaning(node, Verb::Delete).await?
                }
                ProvisionState::DeployFailed | ProvisionState::Error => {
                    task.ask(node, Verb::Delete, json!({})).await?
                }
                _ if self.ironic().settings.inspect && !inspected => {
                    inspected = true;
                    let node = task.ask(node, Verb::Inspect, json!({})).await?;
                    self.write_disks_down(node).await?
                }
                _ if preserve => self.without_cleaning(node, Verb::Provide).await?,
                _ => self.provide(node).await?,
            };
        }
        Err(task.permanent(format!("does not become available: {}", node.failed())))
    }

    /// Deploys the system.
    async fn deploy(&self) -> Result<()> {
        let task = &self.task;
        let node = task.known().await?;
        let instance = mark::instance(self.task.order);
        let is_ours = mark::is_ours(self.task.order, &node)
            && node.instance_uuid.as_deref() == Some(&*instance);
        let raid = raid::wanted(task.order, task.node).map_err(|why| task.permanent(why))?;
        let raid = raid.as_ref();
        if is_ours && node.state() == ProvisionState::Active {
            return self.deployed(task.settled(node).await?, raid).await;
        }
        if is_ours && !node.is_idle() {
            let node = task.settled(node).await?;
            return match node.state() {
                ProvisionState::Active => self.deployed(node, raid).await,
                _ => Err(task.permanent(format!("`deploy` ended in {}", node.failed()))),
            };
        }
        let mut node = task.settled(node).await?;
        task.gate(&node, Verb::Deploy)?;
        let of_plan = (self.task.order, raid);
        let steps = own_steps::of_design(&self.ironic().api, &task.subject, of_plan).await?;
        if node.instance_uuid.is_some() && !is_ours {
            // An earlier deploy that failed has left its own.
            let operation = json!({"op": "remove", "path": "/instance_uuid"});
            node = task
                .patch(node, Some(Verb::Deploy), vec![operation], None)
                .await?;
        }
        let image = self.ironic().settings.image.as_ref();
        let info = enrol::instance_info(self.task.node, image);
        let set = |(key, value): (&String, &Value)| json!({"op": "add", "path": format!("/instance_info/{key}"), "value": value});
        let mut operations: Vec<Value> = info.iter().map(set).collect();
        if node.instance_uuid.is_none() {
            operations.push(json!({"op": "add", "path": "/instance_uuid", "value": instance}));
        }
        operations.push(Marker::new(self.task.order, Some(&node)).operation());
        let node = task
            .patch(node, Some(Verb::Deploy), operations, None)
            .await?;
        let mut body = json!({});
        if !steps.is_empty() {
            body["deploy_steps"] = json!(steps);
        }
        if image.is_some() {
            body["configdrive"] = enrol::config_drive(self.task.node);
            let left = payload::not_carried(self.task.node).join(", ");
            if !left.is_empty() {
                task.report(format!(
                    "the config drive does not carry all of these boot actions: {left}"
                ));
            }
        }
        let node = task.ask(node, Verb::Deploy, body).await?;
        self.deployed(node, raid).await
    }

    /// A machine that Ironic has deployed has the volumes that were to be made, and runs.
    async fn deployed(&self, node: Node, raid: Option<&Raid>) -> Result<()> {
        if let Some(raid) = raid {
            own_raid::check(raid, &node).map_err(|why| self.task.permanent(why))?;
        }
        self.runs(node).await
    }

    /// Tears the machine down: wiped once by Ironic's cleaning, then off, then out of Ironic if it has
    /// left the design.
    async fn destroy(&self) -> Result<()> {
        let task = &self.task;
        let Some(node) = task.look().await? else {
            if self.task.has_noted(LEAVING) {
                return Ok(());
            }
            return Err(task.permanent(format!("Ironic has no node `{}`", task.name)));
        };
        let preserve = self.task.preserves();
        let node = self.mark(node, Vec::new()).await?;
        let is_begun = mark::has_moved(self.task.order, &node);
        let mut node = match node.state() {
            ProvisionState::Active | ProvisionState::DeployFailed | ProvisionState::Error => {
                if preserve {
                    self.without_cleaning(node, Verb::Delete).await?
                } else {
                    task.gate(&node, Verb::Delete)?;
                    let node = self.with_policy(node).await?;
                    task.ask(node, Verb::Delete, json!({})).await?
                }
            }
            ProvisionState::Available => node,
            ProvisionState::Manageable | ProvisionState::InspectFailed => {
                let node = self.manage(node).await?;
                match (preserve || is_begun, node.retired) {
                    (true, _) => node,
                    // It is never provided, and so is cleaned by the steps that the plan names.
                    (false, true) => self.erase(node).await?,
                    (false, false) => self.provide(node).await?,
                }
            }
            ProvisionState::Enroll if self.leaves(&node) => node,
            ProvisionState::CleanFailed if is_begun => {
                return Err(task.permanent(format!("was torn down, but {}", node.failed())));
            }
            _ => return Err(self.refused(&node, Verb::Delete)),
        };
        if node.retired && node.state() == ProvisionState::Available {
            // With cleaning off Ironic lets a retired machine become available, and would deploy to it.
            task.report("retired: taken out of available");
            node = task.ask(node, Verb::Manage, json!({})).await?;
        }
        if node.state() != ProvisionState::Enroll {
            node = task.power(node, PowerState::Off).await?;
        }
        match self.leaves(&node) {
            true => self.leave(node).await,
            false => Ok(()),
        }
    }

    /// Runs clean steps.
    async fn clean(&self) -> Result<()> {
        let task = &self.task;
        let steps = self.task.given().clean_steps();
        let left_out = |step: &&CleanStep| LEFT_OUT.contains(&&*step.step);
        if let Some(step) = steps.iter().find(left_out) {
            return Err(task.permanent(format!(
                "Ironic accepts the clean step `{}` and leaves it out without a word: it is not sent",
                step.step
            )));
        }
        let mut node = task.known().await?;
        if mark::is_ours(self.task.order, &node) && !node.is_idle() {
            node = task.settled(node).await?;
            return match node.state() {
                ProvisionState::Manageable => Ok(()),
                _ => Err(task.permanent(format!("`clean` ended in {}", node.failed()))),
            };
        }
        node = task.settled(node).await?;
        task.gate(&node, Verb::Clean)?;
        if steps.is_empty() {
            // The automated steps run on the way to available only.
            task.gate(&node, Verb::Provide)?;
        }
        if node.state() == ProvisionState::CleanFailed {
            node = self.out_of_clean_failed(node).await?;
            task.gate(&node, Verb::Clean)?;
        }
        node = self.mark(node, Vec::new()).await?;
        if steps.is_empty() {
            if node.automated_clean == Some(false) || self.switched.get().is_some() {
                node = self.switch_cleaning(node, true).await?;
            }
            node = task.ask(node, Verb::Provide, json!({})).await?;
            node = task.ask(node, Verb::Manage, json!({})).await?;
            return self.restore_cleaning(node).await.map(drop);
        }
        let written = steps
            .iter()
            .map(|step| self.written(step))
            .collect::<Result<Vec<_>>>()?;
        task.ask(node, Verb::Clean, json!({"clean_steps": written}))
            .await
            .map(drop)
    }

    /// Sets the retired flag, or takes it off; Ironic takes it neither in available nor while an
    /// operation runs.
    async fn retire(&self, wanted: bool) -> Result<()> {
        let task = &self.task;
        if !wanted {
            // Forgotten, it carries no flag.
            let Some(node) = task.look().await?.filter(|node| node.retired) else {
                return Ok(());
            };
            let operation = json!({"op": "add", "path": "/retired", "value": false});
            let verb = Some(Verb::UnsetRetired);
            return task
                .patch(node, verb, vec![operation], None)
                .await
                .map(drop);
        }
        let mut node = task.settled(task.known().await?).await?;
        if self.is_retired_as_wanted(&node) {
            return Ok(());
        }
        if node.state() == ProvisionState::Available {
            node = task.ask(node, Verb::Manage, json!({})).await?;
        }
        let operations = vec![
            json!({"op": "add", "path": "/retired", "value": true}),
            json!({"op": "add", "path": "/retired_reason", "value": self.task.reason()}),
        ];
        task.patch(node, Some(Verb::SetRetired), operations, None)
            .await
            .map(drop)
    }
}

/// The MAC address of the document, which the port of a node that was enrolled has.
fn boot_macs(node: &NodeDesign) -> Vec<Arc<str>> {
    payload::boot_address(node).into_iter().collect()
}

/// The note of a teardown before it takes the node out of Ironic.
const LEAVING: &str = "leaves Ironic";

/// The note of a step before it switches automated cleaning for its own time, followed by the previous value.
const CLEANING_WAS: &str = "automated cleaning was ";

fn cleaning_word(clean: Option<bool>) -> &'static str {
    match clean {
        Some(true) => "on",
        Some(false) => "off",
        None => "as Ironic has it",
    }
}

/// The previous value of automated cleaning, in a note.
fn cleaning_noted(note: &str) -> Option<Option<bool>> {
    let word = note.strip_prefix(CLEANING_WAS)?;
    let known = [Some(true), Some(false), None];
    known
        .into_iter()
        .find(|clean| cleaning_word(*clean) == word)
}

/// The change that switches automated cleaning; absent: as Ironic's own settings have it.
fn automated_clean(wanted: Option<bool>) -> Value {
    json!({"op": "add", "path": "/automated_clean", "value": wanted})
}
