//! The questions that every kind of step answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{
    AcceptedDesign, DIGEST_VERSION, Digests, HardwareSetting, OpenField, RunId, Rung, Section,
};
use crate::identity::Identity;
use crate::record::{NodeRecord, Phase};
use crate::step::FailureReason;

/// All that is known of a kind of step, whatever the backend and the node. None has a default: a new kind answers each.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name in step ids and in output.
    pub name: &'static str,
    /// How much harm it can do.
    pub effect: Effect,
    /// How far it goes with a machine that is in service, at most.
    pub rung: Rung,
    /// Attempts in all, when the failure can pass and the probe shows that nothing was begun.
    pub attempts: u32,
    /// Its executor.
    pub actor: Actor,
    /// How many seconds it typically takes, for estimates if no run has shown it.
    pub typical: u64,
    /// Its subject.
    pub subject: KindSubject,
    /// The stretch of a machine's way that it belongs to: the parts of a divided run and the lanes of a timeline.
    pub stage: KindStage,
    /// How far its machine is once it has succeeded; `None`: where it was.
    pub reaches: Option<Phase>,
    /// If it fails, its machine has to be checked. Else it sets something to a level, and the machine is what it was.
    pub leaves_doubt: bool,
    /// Its loss, for good.
    pub loss: Loss,
    /// Its place where a machine leaves its clusters.
    pub leaving: LeavingRole,
    /// Those of its notes that stand in the record of its node.
    pub notes: Notes,
    /// The reason of a failure, where airship-node-teardown has one.
    pub failure: Option<FailureReason>,
    /// The record of its node once it has succeeded; `None`: it is dropped.
    pub record: fn(NodeRecord, &RecordContext<'_>) -> Option<NodeRecord>,
}

impl Facts {
    /// Whether a machine, a provisioner or a cluster is asked for something.
    #[must_use]
    pub const fn touches_world(&self) -> bool {
        !matches!(self.actor, Actor::Dispatcher)
    }

    /// Whether a machine is destroyed or built by the step itself.
    #[must_use]
    pub const fn changes_machine(&self) -> bool {
        matches!(self.actor, Actor::Hardware) && matches!(self.effect, Effect::Destructive)
    }
}

/// The executor of a kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The dispatcher itself: a barrier, a check, a record.
    Dispatcher,
    /// The backend of the machine.
    Hardware,
    /// The backend of the cluster.
    Cluster,
    /// Both, by turns.
    Both,
}

/// How much harm a step can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Touches nothing but trueup's own records.
    None,
    /// Can be undone.
    Reversible,
    /// Destroys data or takes a machine away.
    Destructive,
}

/// The subject of a kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindSubject {
    /// The site.
    Site,
    /// A group, or the nodes outside the groups.
    Group,
    /// One node.
    Node,
    /// One node, or the site.
    NodeOrSite,
}

/// The stretches of a machine's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindStage {
    /// Before all machines: the site.
    Site,
    /// Out of its clusters, and torn down.
    TearDown,
    /// Out of service, without more.
    TakeOff,
    /// Cleaned, managed, made available.
    Provision,
    /// Inspected before it is built.
    Prepare,
    /// Built, and awaited in its clusters.
    Deploy,
    /// All else that is done to a machine or its record.
    Other,
    /// Between machines: what only orders other steps.
    Barrier,
    /// Behind all: the revision's tag.
    Tag,
}

/// The losses by a step, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing.
    Nothing,
    /// Data of the machine, or its place in a cluster.
    Machine,
    /// The record of the machine.
    Record,
    /// A doubt: a difference, or another identity, is accepted.
    Doubt,
    /// That a machine is not yet known by a name: it is taken for a node.
    Claim,
}

/// The place of a step where a machine leaves its clusters and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingRole {
    /// None.
    No,
    /// It guards what the machine holds up, before it is taken away or after it is back.
    Guards,
    /// It takes the machine away.
    Takes,
}

/// The notes of a step that outlast it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// Nothing.
    None,
    /// In the record of its node: how far a remediation came.
    Remediation,
    /// In the record of its node: the labels and taints that the node carried, until it has them back.
    Carried,
    /// In the report of the run: the pods that a drain left on its node.
    LeftPods,
}

/// The facts of a run about a node whose step has succeeded, beside its record.
#[derive(Clone, Copy, Debug)]
pub struct RecordContext<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The commit that it applies.
    pub revision: &'a Arc<str>,
    /// The digests of the design to be reached; `None` if the node left it.
    pub design: Option<&'a Digests>,
    /// Nothing but labels of the node differs, and its change is to relabel it.
    pub only_relabels: bool,
    /// The node was named by an action.
    pub is_operation: bool,
    /// The reason of a retirement.
    pub reason: Option<&'a Arc<str>>,
    /// Whether the plan still has to take its node out of the cluster once the machine is torn down.
    pub leaves_cluster: bool,
    /// Whether the machine is gone for good.
    pub is_gone: bool,
    /// The identity of an adopted machine.
    pub identity: Option<&'a Identity>,
    /// The differences that are accepted, for a step that does that; and by whom.
    pub accepted: Option<(&'a AcceptedDesign, &'a Arc<str>)>,
    /// Whether another step of the plan accepts differences of the node.
    pub is_accepting: bool,
    /// The sections of an adopted machine that were compared and are equal.
    pub verified: &'a [Section],
    /// The fields of an adopted machine that no document fills.
    pub open: &'a [OpenField],
    /// The values of firmware and settings that the step sets.
    pub settings: &'a [HardwareSetting],
    /// The time, in seconds since 1970, if the step builds a machine that is to join its clusters.
    pub joins_after: Option<i64>,
    /// The disks beside that of the system are kept where the step tears its machine down.
    pub keeps_disks: bool,
    /// The plan lets pods be scheduled on its node again, once its machine is serviced.
    pub lifts_cordon: bool,
    /// A soak of the plan watches the node.
    pub soaks: bool,
    /// An operator decided that the step is done.
    pub decided: bool,
}

impl RecordContext<'_> {
    /// The record has the design of now.
    pub(super) fn take_digests(&self, record: &mut NodeRecord) {
        if let Some(design) = self.design {
            put_digests(record, design, self.revision);
        }
    }
}

/// The sections that a record has only once a step has set them, or they were observed to be as designed.
const PROVEN: [Section; 2] = [Section::Firmware, Section::Raid];

/// The record has the digests of a design, but those of its firmware and its volumes: only what sets them brings these true.
pub(super) fn put_digests(record: &mut NodeRecord, digests: &Digests, revision: &Arc<str>) {
    let proven = PROVEN.map(|section| (section, record.digests.get(&section).copied()));
    record.digests.clone_from(digests);
    for (section, before) in proven {
        if digests.get(&section).is_some() {
            match before {
                Some(before) => record.digests.insert(section, before),
                None => record.digests.remove(section),
            }
        }
    }
    record.digest_version = DIGEST_VERSION;
    record.revision = Some(revision.clone());
    record.accepted = None;
}

/// For a step whose success changes nothing that a record holds.
pub(super) fn unchanged(record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    Some(record)
}

/// The record has the design of now, its firmware and its volumes included if they were observed to be as designed.
pub(super) fn as_designed(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    of.take_digests(&mut record);
    for section in PROVEN {
        let digest = of.design.and_then(|design| design.get(&section));
        if let Some(digest) = digest.filter(|_| of.verified.contains(&section)) {
            record.digests.insert(section, *digest);
        }
    }
    Some(record)
}

/// The machine is manageable, and no clean step holds it any more.
pub(super) fn manageable(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    record.clean_step = None;
    record.manageable = true;
    Some(record)
}
