//! One node in a plan: its design, its record, its observed state, and how they relate.

use std::sync::Arc;

use super::Standing;
use crate::design::{Class, DIGEST_VERSION, Guards, NodeDesign, NodeName, Section};
use crate::document::{Map, Node};
use crate::lifecycle::{self, Flags, PowerState, ProvisionState, Verb};
use crate::observed::{ClusterNode, Fact, NodePods, ObservedNode, RemediationSeen};
use crate::record::{NodeRecord, Phase};

/// Why a machine is not torn down that the policy protects.
pub(crate) const PROTECTED: &str = "the policy protects it";

/// Why no difference leads to a redeploy.
pub(super) const NO_REDEPLOYS: &str = "the policy forbids redeploys (`redeploy_on_change: never`)";

/// The observed state of a machine.
#[derive(Clone, Copy)]
pub(super) enum Observation<'a> {
    /// Not observed (`--observed none`).
    NotAsked,
    /// It could not be observed; why.
    Unknown(&'a str),
    /// Its observed state.
    Known(&'a ObservedNode, ProvisionState),
}

impl<'a> Observation<'a> {
    /// Reads an observation; `None` if the site was observed without the node.
    pub(super) fn of(node: Option<&'a ObservedNode>, record: Option<&NodeRecord>) -> Self {
        match node.map(|node| (node, &node.provision)) {
            None => Self::Unknown("it was not observed"),
            Some((node, Fact::Known(state))) => Self::Known(node, *state),
            Some((node, Fact::Unknown(_))) if node.kept_by_records => {
                Self::Known(node, state_by_record(node, record))
            }
            Some((_, Fact::Unknown(reason))) => Self::Unknown(reason),
        }
    }

    pub(super) fn node(self) -> Option<&'a ObservedNode> {
        match self {
            Self::Known(node, _) => Some(node),
            _ => None,
        }
    }

    /// The state, if it was observed and carries no system.
    pub(super) fn not_deployed(self) -> Option<ProvisionState> {
        match self {
            Self::Known(_, state) if !state.is_deployed() => Some(state),
            _ => None,
        }
    }

    pub(super) fn is_deployed(self) -> bool {
        matches!(self, Self::Known(_, state) if state.is_deployed())
    }

    /// Why nothing may be done to the machine now, whatever the plan wants.
    fn held(self, record: Option<&NodeRecord>) -> Option<String> {
        let Self::Known(node, state) = self else {
            return None;
        };
        let recorded = record.filter(|_| node.kept_by_records);
        let recorded = recorded.and_then(|record| record.maintenance.as_ref());
        if let Some(reason) = node.maintenance.as_ref().or(recorded) {
            return Some(format!("is in maintenance ({reason})"));
        }
        match state {
            ProvisionState::CleanFailed => {
                Some("failed to be cleaned, is fenced, and needs manual intervention".to_owned())
            }
            ProvisionState::CleanHold => Some("is held in the middle of its cleaning".to_owned()),
            ProvisionState::DeployHold => Some("is held in the middle of its deploy".to_owned()),
            state if !state.is_driven() => {
                let name = state_name(state);
                let way_out = node.way_out.iter().map(|way_out| format!(": {way_out}"));
                let way_out: String = way_out.collect();
                Some(format!(
                    "is {name}, a state that is not driven from here{way_out}"
                ))
            }
            state if state.is_transient() => Some(format!(
                "is {} now; plan again when that has ended",
                state_name(state)
            )),
            _ => None,
        }
    }

    pub(super) fn is_off(self) -> bool {
        let power = self.node().map(|node| &node.power);
        matches!(power, Some(Fact::Known(PowerState::Off)))
    }
}

/// How a machine stands to the Kubernetes cluster.
#[derive(Clone, Copy)]
pub(super) enum Membership<'a> {
    /// Not observed (`--observed none`).
    NotAsked,
    /// The site has no cluster that can be observed.
    NoCluster,
    /// It could not be observed; why.
    Unseen(&'a str),
    /// It is none of its nodes.
    Out,
    /// It is one of its nodes.
    In(&'a ClusterNode),
}

/// The state of a machine that keeps none itself. What runs is never taken for free: only what is off
/// and not recorded as deployed is.
fn state_by_record(node: &ObservedNode, record: Option<&NodeRecord>) -> ProvisionState {
    let is_recorded = record.is_some_and(|record| record.phase == Phase::Deployed);
    if record.is_some_and(|record| record.clean_step.is_some()) {
        ProvisionState::CleanFailed
    } else if is_recorded || node.power != Fact::Known(PowerState::Off) {
        ProvisionState::Active
    } else if record.is_some_and(|record| record.manageable || record.retired.is_some()) {
        ProvisionState::Manageable
    } else {
        ProvisionState::Available
    }
}

/// A provision state as people read it (`clean-wait`).
pub(super) fn state_name(state: ProvisionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

impl Standing {
    /// How a node stands by its record alone.
    pub(super) fn of(record: Option<&NodeRecord>) -> Self {
        match record.map(|record| record.phase) {
            None | Some(Phase::NotStarted) => Self::NotStarted,
            Some(Phase::Prepared) => Self::Prepared,
            Some(Phase::Deployed) => Self::Deployed,
            Some(Phase::Failed | Phase::Unknown) => Self::Failed,
        }
    }
}

/// One node.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) name: &'a NodeName,
    /// As designed; `None`: it left the design.
    pub(super) after: Option<&'a NodeDesign>,
    /// The node in the design at its recorded revision, if that is at hand.
    pub(super) before: Option<&'a NodeDesign>,
    /// The node in the design that is on its machine: the same, unless differences were accepted since.
    pub(super) installed: Option<&'a NodeDesign>,
    pub(super) record: Option<&'a NodeRecord>,
    /// Its machine as it was observed, proven or not.
    pub(super) machine: Option<&'a ObservedNode>,
    pub(super) seen: Observation<'a>,
    pub(super) membership: Membership<'a>,
    /// Whether its Kubernetes node has the labels that it is designed with.
    pub(super) is_labelled: bool,
    /// The pods of its Kubernetes node, if they were observed.
    pub(super) pods: Option<&'a NodePods>,
    /// The requests for its remediation, or the marks of a running one, beside its record.
    pub(super) remediation: Option<&'a RemediationSeen>,
}

impl<'a> Subject<'a> {
    /// Its design, or the one that was applied last if it has left the design since.
    pub(super) fn design(&self) -> Option<&'a NodeDesign> {
        self.after.or(self.before)
    }

    /// The design by which limits count it while it is out of service. A commit that deletes its document does not bring it back;
    /// what was torn down before is not missed then.
    pub(super) fn missed_as(&self) -> Option<&'a NodeDesign> {
        match self.is_torn_down() {
            true => self.after,
            false => self.design(),
        }
    }

    /// Why nothing may be done to the machine now, whatever the plan wants.
    pub(super) fn held(&self) -> Option<String> {
        self.seen.held(self.record)
    }

    /// Its state, if it carries its system and is in a state that is not that of a working machine.
    pub(super) fn not_working(&self) -> Option<String> {
        match self.seen {
            Observation::Known(_, state)
                if state.is_deployed() && state != ProvisionState::Active =>
            {
                self.held()
            }
            _ => None,
        }
    }

    /// Whether it was torn down, and what moves it knows it no more.
    pub(super) fn was_forgotten(&self) -> bool {
        let is_unknown = matches!(self.seen, Observation::Known(_, ProvisionState::Enroll));
        let phase = self.record.map(|record| record.phase);
        is_unknown && phase == Some(Phase::NotStarted)
    }

    /// Why its life does not have that it is torn down now; what carries no system is only cleaned.
    pub(super) fn not_to_be_torn_down(&self) -> Option<String> {
        let Observation::Known(node, state) = self.seen else {
            return None;
        };
        let carries_nothing = matches!(
            state,
            ProvisionState::Enroll
                | ProvisionState::Manageable
                | ProvisionState::InspectFailed
                | ProvisionState::Available
        );
        let flags = Flags {
            retired: self.is_flagged(),
            maintenance: node.maintenance.is_some(),
            protected: node.protected,
        };
        let refusal = lifecycle::step(state, Verb::Delete, flags).err();
        let refusal = refusal.filter(|_| !carries_nothing);
        refusal.map(|refusal| refusal.to_string())
    }

    /// Whether it carries the retired flag, wherever that is kept.
    pub(super) fn is_flagged(&self) -> bool {
        let recorded = || self.record.is_some_and(|record| record.retired.is_some());
        match self.seen {
            Observation::Known(node, _) if node.kept_by_records => recorded(),
            Observation::Known(node, _) => node.retired.is_some(),
            _ => recorded(),
        }
    }

    /// Whether its record holds an applied design, and no observation shows that it is gone
    /// or never got there.
    pub(super) fn is_recorded_deployed(&self) -> bool {
        let phase = self.record.map(|record| record.phase);
        // If a step on a deployed machine failed, it is still what it was.
        self.was_in_service() && (phase == Some(Phase::Deployed) || self.seen.is_deployed())
    }

    /// Whether its record holds an applied design, whatever its backend calls it now.
    fn was_in_service(&self) -> bool {
        self.record.is_some_and(NodeRecord::has_system)
    }

    /// The sections of its design that it was observed to be equal to: those that its backend compares, and its labels.
    pub(super) fn compared(&self) -> Vec<Section> {
        let machine = self.seen.node();
        let differs = |section: &Section| {
            let drift = machine.map_or(&[][..], |node| &node.drift);
            drift.iter().any(|part| part.section == *section)
        };
        let compared = machine.map_or(&[][..], |node| &node.compared);
        let labels = self.is_labelled.then_some(Section::Labels);
        let all = compared.iter().copied().chain(labels);
        all.filter(|section| !differs(section)).collect()
    }

    /// Its record, where a run had begun to change the machine and has not ended that: whether its old or its new system is
    /// on it is not known.
    pub(super) fn left_half_done(&self) -> Option<&NodeRecord> {
        self.record.filter(|record| {
            let was_begun = matches!(record.phase, Phase::Failed | Phase::Unknown);
            was_begun && record.digests.is_empty()
        })
    }

    /// Whether a run has taken its system off it, and none has put one on it since.
    pub(super) fn is_torn_down(&self) -> bool {
        self.record.is_some_and(NodeRecord::is_torn_down)
    }

    /// Whether the run that took its system off it has kept its other disks.
    pub(super) fn has_kept_disks(&self) -> bool {
        self.record.is_some_and(|record| record.kept_disks)
    }

    /// Whether it has joined its clusters, or is to join them, by its record.
    fn is_to_be_in_cluster(&self) -> bool {
        self.record.is_some_and(|record| record.join.is_some())
    }

    /// Whether it was built, and its record does not say yet that it has joined its clusters.
    pub(super) fn is_awaited(&self) -> bool {
        self.record
            .is_some_and(|record| record.awaited_since().is_some())
    }

    /// The sections that differ from what was applied; `None` if that cannot be told, because the
    /// record is of other rules and its revision is not at hand.
    pub(super) fn differing(&self) -> Option<Vec<Section>> {
        let (after, differing) = (self.after?, self.differing_digests()?);
        let differs = |section: &Section| {
            let before = self.applied(*section);
            before.is_none_or(|before| after.differs_in(*section, before))
        };
        Some(differing.into_iter().filter(differs).collect())
    }

    /// Whether its record is of older digests of the same design: a file was edited that holds a secret of it.
    pub(super) fn is_outdated(&self) -> bool {
        let is_comparable = |record: &NodeRecord| record.digest_version == DIGEST_VERSION;
        self.record.is_some_and(is_comparable) && self.differing_digests() != self.differing()
    }

    /// The sections with another digest than the one that was applied.
    fn differing_digests(&self) -> Option<Vec<Section>> {
        let (after, record) = (self.after?, self.record?);
        let (old, installed) = match record.digest_version {
            DIGEST_VERSION => (&record.digests, &record.digests),
            _ => (&self.before?.digests, &self.installed?.digests),
        };
        if *old == after.digests && *installed == after.digests {
            return Some(Vec::new());
        }
        let differs = |section: &Section| {
            let old = match section.class() {
                Class::Redeploy => installed,
                Class::Service | Class::Relabel | Class::Record => old,
            };
            old.get(section) != after.digests.get(section)
        };
        Some(Section::ALL.into_iter().filter(differs).collect())
    }

    /// The design that was applied in a section, if it is at hand and the record has its digest.
    fn applied(&self, section: Section) -> Option<&NodeDesign> {
        let record = self.record?;
        let design = match section.class() {
            Class::Redeploy => self.installed,
            Class::Service | Class::Relabel | Class::Record => self.before,
        }?;
        let is_recorded = record.digest_version != DIGEST_VERSION
            || record.digests.get(&section) == design.digests.get(&section);
        is_recorded.then_some(design)
    }

    /// Its rack, as designed now or before it left the design.
    pub(super) fn rack(&self) -> Option<&Arc<str>> {
        self.design()?.rack.as_ref()
    }

    /// Its standing by its record alone.
    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.record)
    }

    /// Why the policy protects it, if it does.
    pub(super) fn protection_by_policy(&self, guards: &Guards) -> Option<&'static str> {
        let mut designs = self.after.into_iter().chain(self.before);
        designs
            .any(|node| guards.is_protected(node))
            .then_some(PROTECTED)
    }

    /// Why it may never be torn down, if so: by the policy, or by the provisioner.
    pub(super) fn protection(&self, guards: &Guards) -> Option<&'static str> {
        if let Some(why) = self.protection_by_policy(guards) {
            return Some(why);
        }
        let protected = self.seen.node().is_some_and(|node| node.protected);
        protected.then_some("the provisioner protects it")
    }

    /// The disk that carries its operating system, by the design: the one with the root file system, or
    /// the one that it boots from.
    pub(super) fn system_disk(&self) -> Option<Arc<str>> {
        let devices = disks_of(self.installed.or(self.after)?)?;
        let has_root = |device: &Node| {
            let partitions = device.get("partitions").and_then(Node::as_list);
            partitions.into_iter().flatten().any(|partition| {
                let mount = partition.at(&["filesystem", "mountpoint"]);
                mount.and_then(Node::as_str) == Some("/")
            })
        };
        let boots = |device: &Node| {
            let label = device.at(&["labels", "bootdrive"]);
            label.is_some_and(|label| label.as_bool() != Some(false))
        };
        let find = |wanted: &dyn Fn(&Node) -> bool| {
            let mut devices = devices.iter();
            let found = devices.find(|(_, field)| wanted(&field.node));
            found.map(|(key, _)| key.text.clone())
        };
        find(&has_root).or_else(|| find(&boots))
    }

    /// The disks, but for that of the operating system, that the design lays out otherwise than they are.
    pub(super) fn other_disks_that_change(&self) -> Vec<&'a str> {
        let (Some(installed), Some(after)) = (self.installed, self.after) else {
            return Vec::new();
        };
        let (system, before) = (self.system_disk(), disks_of(installed));
        let disks = disks_of(after).into_iter().flat_map(Map::iter);
        let changed = disks.filter(|(key, field)| {
            let before = before.and_then(|disks| disks.get(&key.text));
            system.as_deref() != Some(&*key.text) && before != Some(&field.node)
        });
        changed.map(|(key, _)| &*key.text).collect()
    }

    /// Why it is out of service already, if so: a machine that is recorded as deployed, or that a run began to build and has
    /// not built to the end.
    pub(super) fn down(&self) -> Option<&'static str> {
        if self.left_half_done().is_some() {
            return Some("left half-done");
        }
        if self.is_torn_down() {
            return Some("torn down");
        }
        if !self.was_in_service() {
            return None;
        }
        if self.seen.is_off() {
            return Some("off");
        }
        match self.membership {
            Membership::Out if self.is_awaited() => Some("not back in its cluster"),
            Membership::Out if self.is_to_be_in_cluster() => Some("not in its cluster"),
            Membership::In(node) if !node.ready => Some("not Ready"),
            Membership::In(node) if node.unschedulable => Some("cordoned"),
            _ => None,
        }
    }

    /// Names of the disks that a teardown erases: those that the inventory has, or those designed.
    pub(super) fn all_disks(&self) -> Vec<Arc<str>> {
        if let Some(Fact::Known(disks)) = self.seen.node().map(|node| &node.disks)
            && !disks.is_empty()
        {
            return disks.iter().map(|disk| disk.name.clone()).collect();
        }
        let designed = self.installed.or(self.after);
        designed.map_or_else(Vec::new, |node| node.disks.to_vec())
    }
}

/// The disks that a design lays out, by name.
fn disks_of(node: &NodeDesign) -> Option<&Map> {
    let storage = node.sections.get(&Section::Storage)?;
    let devices = storage.at(&["storage", "physical_devices"]);
    let devices = devices.or_else(|| storage.get("physical_devices"));
    devices.and_then(Node::as_map)
}
