//! The steps: what each kind asks of Ironic, in which order, and when it is done.
//!
//! Each can be begun anew at any point: it looks where the node is and goes on from there.

use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use super::mark::{self, Marker};
use super::node::{
    CLEAN_FAILURE, DISKS, INSPECTED, Node, disks_of_inventory, identity_of_inventory,
};
use super::settings::Enrolment;
use super::steps::{self, OwnSteps};
use super::verbs::Mover;
use super::{Ironic, enrol};
use crate::backend::hardware::payload;
use crate::backend::hardware::proof::admit;
use crate::backend::{ActError, Order, Probe};
use crate::design::NodeDesign;
use crate::identity;
use crate::lifecycle::{PowerState, ProvisionState, Verb};
use crate::step::{CleanStep, Parameters, StepKind};

type Result<T> = std::result::Result<T, ActError>;

/// Steps that Ironic accepts in a manual cleaning and leaves out without a word.
const LEFT_OUT: [&str; 5] = ["power_on", "power_off", "reboot", "hold", "wait"];

/// Most verbs that bring one node from anywhere to available.
const WAY: usize = 8;

/// The version since which Ironic shows what an inspection found.
const INVENTORY: u32 = 81;

/// Carries steps out for one node.
pub(super) struct Carrier<'a> {
    mover: Mover<'a>,
    node: &'a NodeDesign,
    /// How automated cleaning was before this step switched it for its own time.
    switched: OnceLock<Option<bool>>,
}

/// A step of the whole site.
pub(super) async fn for_site(ironic: &Ironic, order: &Order) -> Result<()> {
    if order.step.id.kind != StepKind::VerifySite {
        return Ok(());
    }
    let api = &ironic.api;
    let version = api.version().await?;
    api.knock().await?;
    let mut said = format!(
        "Ironic at {}, version {version} of its API",
        api.authority()
    );
    if !ironic.settings.verify {
        said.push_str("; its certificate is not verified");
    }
    order.reporter.progress(said);
    if let Some(Enrolment { driver, .. }) = &ironic.settings.enrolment {
        let drivers = api.drivers().await?;
        if !drivers.iter().any(|known| *known == **driver) {
            let known = drivers.join(", ");
            let text = format!("Ironic has no driver `{driver}`; it has: {known}");
            return Err(ActError::Permanent(Arc::from(text)));
        }
    }
    ironic.images.verify(api.client(), order).await
}

impl<'a> Carrier<'a> {
    pub(super) fn new(ironic: &'a Ironic, order: &'a Order, node: &'a NodeDesign) -> Self {
        let name = ironic.name_of(&node.name);
        let subject = if *name == *node.name.as_str() {
            format!("node `{name}`")
        } else {
            format!("node `{}` (in Ironic `{name}`)", node.name)
        };
        Self {
            mover: Mover {
                backend: ironic,
                order,
                name,
                subject,
                own_steps: OwnSteps::default(),
                first: Mutex::default(),
            },
            node,
            switched: order
                .notes
                .iter()
                .find_map(|note| cleaning_noted(note))
                .map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    fn ironic(&self) -> &'a Ironic {
        self.mover.backend
    }

    fn order(&self) -> &'a Order {
        self.mover.order
    }

    fn parameters(&self) -> Option<&'a Parameters> {
        self.order().step.parameters.as_deref()
    }

    fn reason(&self) -> &'a str {
        let reason = self.parameters().and_then(|each| each.reason.as_deref());
        reason.unwrap_or("set by trueup")
    }

    /// Whether a teardown ends with the node's removal from Ironic: it left the design and is not retired,
    /// or that was asked for.
    fn leaves(&self, node: &Node) -> bool {
        let has_left = !self.ironic().designed.contains(&self.node.name) && !node.retired;
        has_left || self.parameters().is_some_and(|each| each.forget)
    }

    /// How far the step is: done only when what it changed for its own time is as it was.
    pub(super) async fn probe(&self) -> Probe {
        let node = match self.mover.look().await {
            Ok(Some(node)) => node,
            Ok(None) if self.order().step.id.kind == StepKind::Destroy && self.was_leaving() => {
                return Probe::Done;
            }
            Ok(None) => return Probe::NotBegun,
            Err(error) => return Probe::Ambiguous(Arc::from(error.to_string())),
        };
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
        match self.order().step.id.kind {
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
            _ => mark::probe(self.order(), node, self.leaves(node)),
        }
    }

    /// Carries the step out, and leaves automated cleaning as it was before.
    pub(super) async fn carry_out(&self) -> Result<()> {
        self.mover.admit(self.node).await?;
        // What an earlier process had done but for that is not done again.
        let is_done = self.switched.get().is_some()
            && matches!(self.mover.look().await?, Some(node) if self.probe_node(&node) == Probe::Done);
        let done = match is_done {
            true => Ok(()),
            false => self.carry_kind_out().await,
        };
        // What can pass is tried again, and then finds what it noted.
        if self.switched.get().is_none() || !matches!(done, Ok(()) | Err(ActError::Permanent(_))) {
            return done;
        }
        let restored = match self.mover.look().await? {
            Some(node) => self.restore_cleaning(node).await.map(drop),
            None => Ok(()),
        };
        done.and(restored)
    }

    async fn carry_kind_out(&self) -> Result<()> {
        let mover = &self.mover;
        match self.order().step.id.kind {
            StepKind::Prepare => self.prepare().await,
            StepKind::Deploy => self.deploy().await,
            StepKind::Destroy => self.destroy().await,
            StepKind::Clean => self.clean().await,
            StepKind::PowerOn => mover
                .power(mover.known().await?, PowerState::On)
                .await
                .map(drop),
            StepKind::PowerOff => mover
                .power(mover.known().await?, PowerState::Off)
                .await
                .map(drop),
            StepKind::Manage => self.manage(mover.known().await?).await.map(drop),
            StepKind::Provide => self.provide(mover.known().await?).await.map(drop),
            StepKind::SetRetired => self.set_retired().await,
            StepKind::UnsetRetired => {
                let Some(node) = mover.look().await? else {
                    // It was forgotten, and so carries no flag.
                    return Ok(());
                };
                if node.retired {
                    let operation = json!({"op": "add", "path": "/retired", "value": false});
                    let verb = Some(Verb::UnsetRetired);
                    mover.patch(node, verb, vec![operation], None).await?;
                }
                Ok(())
            }
            StepKind::SetMaintenance => {
                let node = mover.known().await?;
                mover.maintain(node, Some(self.reason())).await.map(drop)
            }
            StepKind::UnsetMaintenance => {
                let node = mover.known().await?;
                if node.maintenance {
                    mover.maintain(node, None).await?;
                }
                Ok(())
            }
            other => Err(mover.permanent(format!("Ironic cannot do `{other}`"))),
        }
    }

    /// Marks the node as this step's, with more changes to it at the same time.
    async fn mark(&self, node: Node, more: Vec<Value>) -> Result<Node> {
        let mover = &self.mover;
        // What the marker remembers must be as it was when nothing went on any more.
        let node = mover.settled(node).await?;
        let mut operations = more;
        if !mark::is_ours(self.order(), &node) {
            operations.push(Marker::new(self.order(), Some(&node)).operation());
        }
        if operations.is_empty() {
            return Ok(node);
        }
        mover.patch(node, None, operations, None).await
    }

    /// Enrols the machine where Ironic does not know it, and brings it to available.
    async fn prepare(&self) -> Result<()> {
        let mover = &self.mover;
        let mut node = match mover.look().await? {
            Some(node) => {
                let node = mover.settled(node).await?;
                self.can_be_prepared(&node)?;
                self.refresh(node).await?
            }
            None => self.enrol().await?,
        };
        let preserve = self.preserves();
        let mut inspected = false;
        for _ in 0..WAY {
            node = mover.settled(node).await?;
            self.can_be_prepared(&node)?;
            node = match node.state() {
                ProvisionState::Available => return Ok(()),
                ProvisionState::Enroll | ProvisionState::InspectFailed => {
                    mover.ask(node, Verb::Manage, json!({})).await?
                }
                ProvisionState::DeployFailed | ProvisionState::Error if preserve => {
                    self.without_cleaning(node, Verb::Delete).await?
                }
                ProvisionState::DeployFailed | ProvisionState::Error => {
                    mover.ask(node, Verb::Delete, json!({})).await?
                }
                _ if self.ironic().settings.inspect && !inspected => {
                    inspected = true;
                    let node = mover.ask(node, Verb::Inspect, json!({})).await?;
                    self.write_disks_down(node).await?
                }
                _ if preserve => self.without_cleaning(node, Verb::Provide).await?,
                _ => self.provide(node).await?,
            };
        }
        Err(mover.permanent(format!("does not become available: {}", node.failed())))
    }

    /// Refuses at once, not on its way, what must not become available: a retired machine, one that
    /// somebody works on, one that is fenced, and one that carries a system.
    fn can_be_prepared(&self, node: &Node) -> Result<()> {
        let mover = &self.mover;
        if let Some(reason) = node.maintenance() {
            return Err(mover.permanent(format!("is in maintenance ({reason})")));
        }
        if let Some(reason) = node.retired() {
            return Err(mover.permanent(format!("is retired ({reason}), and is never deployed to")));
        }
        match node.state() {
            ProvisionState::Available
            | ProvisionState::Enroll
            | ProvisionState::InspectFailed
            | ProvisionState::DeployFailed
            | ProvisionState::Error
            | ProvisionState::Manageable => Ok(()),
            ProvisionState::CleanFailed => Err(mover.permanent(format!(
                "is fenced until somebody acts: clean it again, or provide it on purpose ({})",
                node.failed()
            ))),
            _ => Err(self.refused(node, Verb::Provide)),
        }
    }

    fn preserves(&self) -> bool {
        self.parameters()
            .is_some_and(|each| each.preserve_local_storage)
    }

    /// What is said where a state is none from which the step can begin.
    fn refused(&self, node: &Node, verb: Verb) -> ActError {
        self.mover.gate(node, verb).err().unwrap_or_else(|| {
            let (state, kind) = (node.state_name(), self.order().step.id.kind);
            self.mover
                .permanent(format!("is {state}, and `{kind}` does not begin there"))
        })
    }

    /// Enrols the machine.
    async fn enrol(&self) -> Result<Node> {
        let mover = &self.mover;
        let Some(enrolment) = &self.ironic().settings.enrolment else {
            return Err(mover.permanent(format!(
                "Ironic has no node `{}`, and the settings name no `driver` to enrol it with",
                mover.name
            )));
        };
        let reach = enrol::reach(self.node, enrolment, &*self.ironic().secrets)
            .map_err(|why| mover.permanent(why))?;
        let automated = self.ironic().automated_clean(self.node);
        let marker = Marker::new(self.order(), None).to_json();
        let body = enrol::enrolled(
            self.node,
            &mover.name,
            enrolment,
            &reach,
            automated,
            &marker,
        );
        mover.say("enrolling");
        // What was taken out of Ironic has left its UUID in the record.
        self.ironic()
            .identities
            .enrolled(self.node.name.as_str(), None);
        let api = &self.ironic().api;
        let created = api
            .create(&mover.subject, &body, reach.password.as_ref())
            .await;
        let node = match created {
            Ok(node) => node,
            // Somebody was faster, or an answer was lost before.
            Err(trouble) if trouble.status() == Some(409) => match mover.look().await? {
                Some(node) => return self.refresh(node).await,
                None => return Err(trouble.into()),
            },
            Err(trouble) => return Err(trouble.into()),
        };
        if !enrolment.traits.is_empty() {
            api.set_traits(&mover.subject, &node.uuid, &enrolment.traits)
                .await?;
        }
        self.plug(&node).await?;
        let (identity, verdict) = self.ironic().judge(self.node, &node, &boot_macs(self.node));
        let proof = verdict.into_proof();
        let (registry, seen) = (&self.ironic().identities, (&identity, &proof));
        admit(registry, self.order(), self.node, seen, &mover.subject).await?;
        Ok(node)
    }

    /// Gives the node its port, by the MAC address that its design has.
    async fn plug(&self, node: &Node) -> Result<()> {
        let Some(address) = payload::boot_address(self.node) else {
            return Ok(());
        };
        let (api, subject) = (&self.ironic().api, &self.mover.subject);
        match api.owner_of_port(subject, &address).await? {
            Some(owner) if *owner == *node.uuid => Ok(()),
            Some(owner) => Err(self.mover.permanent(format!(
                "its MAC address {address} belongs to another node of Ironic's ({owner})"
            ))),
            None => Ok(api.create_port(subject, &node.uuid, &address).await?),
        }
    }

    /// Brings what Ironic knows about the machine up to date, and marks it.
    async fn refresh(&self, node: Node) -> Result<Node> {
        let Some(enrolment) = &self.ironic().settings.enrolment else {
            return self.mark(node, Vec::new()).await;
        };
        if mark::is_ours(self.order(), &node) {
            self.plug(&node).await?;
            return Ok(node);
        }
        let mover = &self.mover;
        let reach = enrol::reach(self.node, enrolment, &*self.ironic().secrets)
            .map_err(|why| mover.permanent(why))?;
        let set = |(key, value): (&String, &Value)| {
            // A key with a slash or a tilde is written with escapes in a JSON pointer.
            let key = key.replace('~', "~0").replace('/', "~1");
            json!({"op": "add", "path": format!("/driver_info/{key}"), "value": value})
        };
        let mut operations: Vec<Value> = reach.driver_info.iter().map(set).collect();
        let node = mover.settled(node).await?;
        operations.push(Marker::new(self.order(), Some(&node)).operation());
        let node = mover
            .patch(node, None, operations, reach.password.as_ref())
            .await?;
        self.plug(&node).await?;
        Ok(node)
    }

    /// Writes down which disks an inspection found, for lists to show.
    async fn write_disks_down(&self, node: Node) -> Result<Node> {
        let api = &self.ironic().api;
        if !api.speaks(INVENTORY).await? {
            return Ok(node);
        }
        let inventory = api.inventory(&self.mover.subject, &node.uuid).await?;
        match disks_of_inventory(&inventory) {
            Value::Null => Ok(node),
            disks => {
                let add = |key: &str, value: Value| json!({"op": "add", "path": format!("/extra/{key}"), "value": value});
                let identity = identity_of_inventory(&inventory);
                let operations = vec![add(DISKS, disks), add(INSPECTED, identity)];
                self.mover.patch(node, None, operations, None).await
            }
        }
    }

    /// Brings a machine under management.
    async fn manage(&self, node: Node) -> Result<Node> {
        let node = self.mover.settled(node).await?;
        if node.state() == ProvisionState::Manageable {
            return Ok(node);
        }
        self.mover.ask(node, Verb::Manage, json!({})).await
    }

    /// Makes a machine available, cleaned as the site's policy says.
    async fn provide(&self, node: Node) -> Result<Node> {
        let mover = &self.mover;
        let mut node = mover.settled(node).await?;
        if node.state() == ProvisionState::Available && !node.retired {
            return Ok(node);
        }
        mover.gate(&node, Verb::Provide)?;
        if node.state() == ProvisionState::CleanFailed {
            node = self.out_of_clean_failed(node).await?;
        }
        let node = self.with_policy(node).await?;
        mover.ask(node, Verb::Provide, json!({})).await
    }

    /// Automated cleaning as the site's policy has it, where it has one.
    async fn with_policy(&self, node: Node) -> Result<Node> {
        match self.ironic().automated_clean(self.node) {
            Some(wanted) if node.automated_clean != Some(wanted) => {
                let operation = automated_clean(Some(wanted));
                self.mover.patch(node, None, vec![operation], None).await
            }
            _ => Ok(node),
        }
    }

    /// The only way that Ironic has out of clean failed, taken because somebody asked to go on.
    async fn out_of_clean_failed(&self, node: Node) -> Result<Node> {
        let mover = &self.mover;
        mover.say("Ironic has no way out of clean failed but to manageable");
        // Only the maintenance that the failure itself has set ends with it.
        let node = if node.maintenance && node.fault.as_deref() == Some(CLEAN_FAILURE) {
            mover.maintain(node, None).await?
        } else {
            node
        };
        mover.ask(node, Verb::Manage, json!({})).await
    }

    /// Asks for a verb that would clean, with cleaning switched off for that time.
    async fn without_cleaning(&self, node: Node, verb: Verb) -> Result<Node> {
        let mover = &self.mover;
        mover.gate(&node, verb)?;
        let node = self.switch_cleaning(node, false).await?;
        let node = mover.ask(node, verb, json!({})).await?;
        self.restore_cleaning(node).await
    }

    /// Switches automated cleaning for the time of this step. How it was is noted first, so that whoever
    /// resumes the run after a crash restores it.
    async fn switch_cleaning(&self, node: Node, wanted: bool) -> Result<Node> {
        if self.switched.get().is_none() {
            let before = node.automated_clean;
            let note = format!("{CLEANING_WAS}{}", cleaning_word(before));
            self.order().reporter.note(note).await?;
            let _ = self.switched.set(before);
        }
        if node.automated_clean == Some(wanted) {
            return Ok(node);
        }
        let operation = automated_clean(Some(wanted));
        self.mover.patch(node, None, vec![operation], None).await
    }

    /// How automated cleaning has to be set, where this step has switched it and it is not so yet: as the
    /// site's policy has it, else as it was.
    fn cleaning_to_restore(&self, node: &Node) -> Option<Option<bool>> {
        let before = *self.switched.get()?;
        let wanted = self.ironic().automated_clean(self.node).or(before);
        (node.automated_clean != wanted).then_some(wanted)
    }

    async fn restore_cleaning(&self, node: Node) -> Result<Node> {
        match self.cleaning_to_restore(&node) {
            Some(wanted) => {
                let operation = automated_clean(wanted);
                self.mover.patch(node, None, vec![operation], None).await
            }
            None => Ok(node),
        }
    }

    /// Deploys the system.
    async fn deploy(&self) -> Result<()> {
        let mover = &self.mover;
        let node = mover.known().await?;
        let instance = mark::instance(self.order());
        let is_ours =
            mark::is_ours(self.order(), &node) && node.instance_uuid.as_deref() == Some(&*instance);
        if is_ours && node.state() == ProvisionState::Active {
            return self.runs(mover.settled(node).await?).await;
        }
        if is_ours && !node.is_idle() {
            let node = mover.settled(node).await?;
            return match node.state() {
                ProvisionState::Active => self.runs(node).await,
                _ => Err(mover.permanent(format!("`deploy` ended in {}", node.failed()))),
            };
        }
        let mut node = mover.settled(node).await?;
        mover.gate(&node, Verb::Deploy)?;
        let steps = steps::of_design(&self.ironic().api, &mover.subject, self.order()).await?;
        if node.instance_uuid.is_some() && !is_ours {
            // An earlier deploy that failed has left its own.
            let operation = json!({"op": "remove", "path": "/instance_uuid"});
            node = mover
                .patch(node, Some(Verb::Deploy), vec![operation], None)
                .await?;
        }
        let image = self.ironic().settings.image.as_ref();
        let info = enrol::instance_info(self.node, image);
        let set = |(key, value): (&String, &Value)| json!({"op": "add", "path": format!("/instance_info/{key}"), "value": value});
        let mut operations: Vec<Value> = info.iter().map(set).collect();
        if node.instance_uuid.is_none() {
            operations.push(json!({"op": "add", "path": "/instance_uuid", "value": instance}));
        }
        operations.push(Marker::new(self.order(), Some(&node)).operation());
        let node = mover
            .patch(node, Some(Verb::Deploy), operations, None)
            .await?;
        let mut body = json!({});
        if !steps.is_empty() {
            body["deploy_steps"] = json!(steps);
        }
        if image.is_some() {
            body["configdrive"] = enrol::config_drive(self.node);
            let left = payload::not_carried(self.node).join(", ");
            if !left.is_empty() {
                mover.say(format!(
                    "the config drive does not carry all of these boot actions: {left}"
                ));
            }
        }
        self.runs(mover.ask(node, Verb::Deploy, body).await?).await
    }

    /// A system that was deployed runs: Ironic may call a machine active that is off.
    async fn runs(&self, node: Node) -> Result<()> {
        if node.power() == Some(PowerState::Off) {
            self.mover.say("was deployed, and is off");
            self.mover.power(node, PowerState::On).await?;
        }
        Ok(())
    }

    /// Tears the machine down: wiped once by Ironic's cleaning, then off, then out of Ironic where it has
    /// left the design.
    async fn destroy(&self) -> Result<()> {
        let mover = &self.mover;
        let Some(node) = mover.look().await? else {
            if self.was_leaving() {
                return Ok(());
            }
            return Err(mover.permanent(format!("Ironic has no node `{}`", mover.name)));
        };
        let preserve = self.preserves();
        let node = self.mark(node, Vec::new()).await?;
        let is_begun = mark::has_moved(self.order(), &node);
        let mut node = match node.state() {
            ProvisionState::Active | ProvisionState::DeployFailed | ProvisionState::Error => {
                if preserve {
                    self.without_cleaning(node, Verb::Delete).await?
                } else {
                    mover.gate(&node, Verb::Delete)?;
                    let node = self.with_policy(node).await?;
                    mover.ask(node, Verb::Delete, json!({})).await?
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
                return Err(mover.permanent(format!("was torn down, but {}", node.failed())));
            }
            _ => return Err(self.refused(&node, Verb::Delete)),
        };
        if node.retired && node.state() == ProvisionState::Available {
            // With cleaning off Ironic lets a retired machine become available, and would deploy to it.
            mover.say("retired: taken out of available");
            node = mover.ask(node, Verb::Manage, json!({})).await?;
        }
        if node.state() != ProvisionState::Enroll {
            node = mover.power(node, PowerState::Off).await?;
        }
        if self.leaves(&node) {
            if node.state() == ProvisionState::Available {
                node = mover.ask(node, Verb::Manage, json!({})).await?;
            }
            self.order().reporter.note(LEAVING).await?;
            mover.say("leaves Ironic");
            mover.remove(node).await?;
            let (registry, name) = (&self.ironic().identities, self.node.name.as_str());
            registry.enrolled(name, None);
            if let Some(known) = registry.known(name) {
                self.order().reporter.note(identity::note(&known)).await?;
            }
        }
        Ok(())
    }

    fn was_leaving(&self) -> bool {
        self.order().notes.iter().any(|note| **note == *LEAVING)
    }

    /// Erases a retired machine that cannot be cleaned on the way to available, since it never goes there,
    /// by the steps that the plan names; a plan that names none was not for erasing it.
    async fn erase(&self, node: Node) -> Result<Node> {
        let steps = self.parameters().map_or(&[][..], |each| &each.clean_steps);
        if steps.is_empty() {
            self.mover
                .say("retired, and not erased: nothing was deployed on it since it was cleaned");
            return Ok(node);
        }
        let steps = steps
            .iter()
            .map(|step| self.written(step))
            .collect::<Result<Vec<_>>>()?;
        self.mover
            .ask(node, Verb::Clean, json!({ "clean_steps": steps }))
            .await
    }

    /// Runs clean steps.
    async fn clean(&self) -> Result<()> {
        let mover = &self.mover;
        let steps = self.parameters().map_or(&[][..], |each| &each.clean_steps);
        let left_out = |step: &&CleanStep| LEFT_OUT.contains(&&*step.step);
        if let Some(step) = steps.iter().find(left_out) {
            return Err(mover.permanent(format!(
                "Ironic accepts the clean step `{}` and leaves it out without a word: it is not sent",
                step.step
            )));
        }
        let mut node = mover.known().await?;
        if mark::is_ours(self.order(), &node) && !node.is_idle() {
            node = mover.settled(node).await?;
            return match node.state() {
                ProvisionState::Manageable => Ok(()),
                _ => Err(mover.permanent(format!("`clean` ended in {}", node.failed()))),
            };
        }
        node = mover.settled(node).await?;
        mover.gate(&node, Verb::Clean)?;
        if steps.is_empty() {
            // The automated steps run on the way to available only.
            mover.gate(&node, Verb::Provide)?;
        }
        if node.state() == ProvisionState::CleanFailed {
            node = self.out_of_clean_failed(node).await?;
            mover.gate(&node, Verb::Clean)?;
        }
        node = self.mark(node, Vec::new()).await?;
        if steps.is_empty() {
            if node.automated_clean == Some(false) || self.switched.get().is_some() {
                node = self.switch_cleaning(node, true).await?;
            }
            node = mover.ask(node, Verb::Provide, json!({})).await?;
            node = mover.ask(node, Verb::Manage, json!({})).await?;
            return self.restore_cleaning(node).await.map(drop);
        }
        let written = steps
            .iter()
            .map(|step| self.written(step))
            .collect::<Result<Vec<_>>>()?;
        mover
            .ask(node, Verb::Clean, json!({"clean_steps": written}))
            .await
            .map(drop)
    }

    /// A clean step as Ironic's API has it.
    fn written(&self, step: &CleanStep) -> Result<Value> {
        let mut written = json!({"interface": step.interface, "step": step.step});
        let arguments = steps::arguments(&step.name(), step.arguments.as_deref());
        if let Some(arguments) = arguments.map_err(|why| self.mover.permanent(why))? {
            written["args"] = arguments;
        }
        Ok(written)
    }

    fn is_retired_as_wanted(&self, node: &Node) -> bool {
        node.retired
            && node.retired_reason.as_deref() == Some(self.reason())
            && node.state() != ProvisionState::Available
    }

    /// Sets the retired flag; Ironic takes it neither in available nor while something goes on.
    async fn set_retired(&self) -> Result<()> {
        let mover = &self.mover;
        let mut node = mover.settled(mover.known().await?).await?;
        if self.is_retired_as_wanted(&node) {
            return Ok(());
        }
        if node.state() == ProvisionState::Available {
            node = mover.ask(node, Verb::Manage, json!({})).await?;
        }
        let operations = vec![
            json!({"op": "add", "path": "/retired", "value": true}),
            json!({"op": "add", "path": "/retired_reason", "value": self.reason()}),
        ];
        mover
            .patch(node, Some(Verb::SetRetired), operations, None)
            .await
            .map(drop)
    }
}

/// The MAC address of the document, which the port of a node that was enrolled has.
fn boot_macs(node: &NodeDesign) -> Vec<Arc<str>> {
    payload::boot_address(node).into_iter().collect()
}

/// What a teardown notes before it takes the node out of Ironic.
const LEAVING: &str = "leaves Ironic";

/// What a step notes before it switches automated cleaning for its own time, followed by how that was.
const CLEANING_WAS: &str = "automated cleaning was ";

fn cleaning_word(clean: Option<bool>) -> &'static str {
    match clean {
        Some(true) => "on",
        Some(false) => "off",
        None => "as Ironic has it",
    }
}

/// How automated cleaning was, where a note says so.
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
