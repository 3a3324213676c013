//! The history of a simulated machine, one line for each effect, and its running operation.
//!
//! Effects are fixed when an operation begins: those on its way each have their time, the others take
//! place at its end, all at once. Every machine holds its own for good, so that they are kept small.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{ClusterName, RunId};
use crate::observed::{Labels, PodName};
use crate::step::StepKind;

/// An effect on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// It was switched on.
    PoweredOn,
    /// It was switched off.
    PoweredOff,
    /// It was identified and inspected, and is available.
    Prepared,
    /// A disk was partitioned and written.
    WroteDisk(Arc<str>),
    /// A system was installed and booted, and joined the cluster.
    Deployed(Box<Deployed>),
    /// A disk was erased.
    WipedDisk(Arc<str>),
    /// The beginning and the end of a disk, its partition table among it, were erased.
    WipedMetadata(Arc<str>),
    /// It was torn down: available, or manageable if it is retired.
    Destroyed,
    /// Its provisioner lost it: it would have to be enrolled again.
    Forgotten,
    /// Labels of its node in the cluster were set and taken off.
    Relabelled(Box<Relabelled>),
    /// It was retired, with a reason.
    Retired(Arc<str>),
    /// Its retired flag was taken off.
    Unretired,
    /// It was put into maintenance, with a reason.
    MaintenanceBegan(Arc<str>),
    /// It was taken out of maintenance.
    MaintenanceEnded,
    /// It was brought under management.
    Managed,
    /// It was made available.
    Provided,
    /// The account of its controller was given a new password.
    PasswordChanged,
    /// A clean step is going to run; recorded before it begins.
    CleanStepBegun(Arc<str>),
    /// Settings of its BIOS were applied.
    BiosSet(Box<BTreeMap<Arc<str>, Arc<str>>>),
    /// Its BIOS was set back to its defaults.
    BiosReset,
    /// Firmware or settings were changed.
    HardwareSet(Box<BTreeMap<Arc<str>, Arc<str>>>),
    /// An update of its firmware and settings reported its success.
    Serviced,
    /// It was cleaned, and is manageable.
    Cleaned,
    /// Its node was cordoned.
    Cordoned(RunId),
    /// A pod was evicted, and is gone.
    Evicted(Box<PodName>),
    /// A pod was deleted without regard to its budgets.
    PodDeleted(Box<PodName>),
    /// Its node was drained.
    Drained {
        /// Pods that were left on purpose.
        left: usize,
    },
    /// Pods may be scheduled to its node again.
    Uncordoned,
    /// Labels of its node were cleared.
    LabelsCleared(Box<[Arc<str>]>),
    /// A member of an etcd cluster was added.
    MemberAdded(Box<MemberAdded>),
    /// A member of an etcd cluster was removed.
    MemberRemoved(Box<MemberRemoved>),
    /// It has no members of etcd clusters any more.
    LeftEtcd,
    /// Its kubelet was stopped and disabled.
    KubeletStopped,
    /// Its node in the cluster was deleted: this one and no other.
    NodeDeleted {
        /// The node's UID.
        uid: Arc<str>,
    },
    /// Its kubelet made a node in the cluster, since there was none.
    NodeJoined {
        /// The node's UID.
        uid: Arc<str>,
    },
    /// Its node was marked as out of service, and what ran there is gone.
    OutOfService,
    /// Its node is in service again.
    InService,
    /// Its node was given back what the one before carried.
    NodeRestored(Box<NodeRestored>),
    /// An operation failed.
    Failed {
        /// Which.
        kind: StepKind,
        /// The message.
        message: Arc<str>,
    },
}

/// A system that was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployed {
    /// The digest of what was deployed.
    pub image: Arc<str>,
    /// The UID of its node in the cluster.
    pub uid: Arc<str>,
    /// The labels of its node in the cluster.
    #[serde(deserialize_with = "Labels::deserialize_repeated")]
    pub labels: Labels,
}

/// Labels that were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relabelled {
    /// Set.
    pub set: BTreeMap<Arc<str>, Arc<str>>,
    /// Taken off.
    pub remove: Vec<Arc<str>>,
}

/// A member of an etcd cluster that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberAdded {
    /// To which.
    pub cluster: ClusterName,
    /// Its id, in hexadecimal digits.
    pub id: Arc<str>,
    /// How it is called, and where it is reached: name, peers, clients.
    pub at: [Arc<str>; 3],
    /// Milliseconds from then on until it votes; a learner until then.
    pub votes_after: u64,
}

/// A member of an etcd cluster that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberRemoved {
    /// From which.
    pub cluster: ClusterName,
    /// Its id, in hexadecimal digits.
    pub id: Arc<str>,
}

/// Labels, taints and annotations restored on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRestored {
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// One thing that happened, by whom and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// Its number among all effects of the site, from 1 on.
    pub sequence: u64,
    /// When, in milliseconds of the simulated world's own time.
    pub at: u64,
    /// The run that asked for it.
    pub run: RunId,
    /// The step that asked for it.
    pub step: Arc<str>,
    /// Whether it took place while the step continued to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_the_way: bool,
    /// The effect.
    pub effect: Effect,
}

/// All that ever happened to a machine, oldest first; in the file, a list of [`LedgerEntry`].
///
/// The effects of one step at one time are held together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<LedgerEntry>", into = "Vec<LedgerEntry>")]
pub struct Ledger(Vec<EffectGroup>);

/// The effects of one step at one time, as [`LedgerEntry`] has them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EffectGroup {
    /// The number of its first effect; the others follow.
    sequence: u64,
    at: u64,
    run: RunId,
    step: Arc<str>,
    on_the_way: bool,
    effects: Vec<Effect>,
}

impl EffectGroup {
    /// The number of the effect after its last.
    fn next(&self) -> u64 {
        self.sequence.saturating_add(self.effects.len() as u64)
    }

    fn is_continued_by(&self, later: &Self) -> bool {
        (self.next(), self.at, self.on_the_way) == (later.sequence, later.at, later.on_the_way)
            && (&self.run, &self.step) == (&later.run, &later.step)
    }
}

impl Ledger {
    /// Whether nothing has ever happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = LedgerEntry> {
        self.0.iter().flat_map(|group| {
            let numbered = (group.sequence..).zip(&group.effects);
            numbered.map(|(sequence, effect)| LedgerEntry {
                sequence,
                at: group.at,
                run: group.run.clone(),
                step: group.step.clone(),
                on_the_way: group.on_the_way,
                effect: effect.clone(),
            })
        })
    }

    /// The effects.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &Effect> {
        self.0.iter().flat_map(|group| &group.effects)
    }

    /// The last effect at the end of a step; `None` if it never ended.
    #[must_use]
    pub fn end_of(&self, run: &RunId, step: &str) -> Option<&Effect> {
        let mut latest = self.0.iter().rev();
        let is_end =
            |group: &&EffectGroup| !group.on_the_way && group.run == *run && *group.step == *step;
        latest.find(is_end)?.effects.last()
    }

    /// The highest number of an effect; 0 without effects.
    pub(super) fn last(&self) -> u64 {
        let last = |group: &EffectGroup| group.next().saturating_sub(1);
        self.0.iter().map(last).max().unwrap_or_default()
    }

    /// Adds what a step did at one time, numbered from `sequence` on; gives the number after.
    pub(super) fn add(
        &mut self,
        sequence: u64,
        at: u64,
        by: &Operation,
        on_the_way: bool,
        effects: Vec<Effect>,
    ) -> u64 {
        let group = EffectGroup {
            sequence,
            at,
            run: by.run.clone(),
            step: by.step.clone(),
            on_the_way,
            effects,
        };
        let next = group.next();
        self.push(group);
        next
    }

    fn push(&mut self, mut group: EffectGroup) {
        if group.effects.is_empty() {
            return;
        }
        if let Some(last) = self
            .0
            .last_mut()
            .filter(|last| last.is_continued_by(&group))
        {
            last.effects.reserve_exact(group.effects.len());
            last.effects.append(&mut group.effects);
            return;
        }
        group.effects.shrink_to_fit();
        self.0.reserve_exact(1);
        self.0.push(group);
    }
}

impl From<Vec<LedgerEntry>> for Ledger {
    fn from(entries: Vec<LedgerEntry>) -> Self {
        let mut ledger = Self::default();
        for entry in entries {
            ledger.push(EffectGroup {
                sequence: entry.sequence,
                at: entry.at,
                run: entry.run,
                step: entry.step,
                on_the_way: entry.on_the_way,
                effects: vec![entry.effect],
            });
        }
        ledger
    }
}

impl From<Ledger> for Vec<LedgerEntry> {
    fn from(ledger: Ledger) -> Self {
        ledger.entries().collect()
    }
}

/// An effect that takes place while an operation runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// When, in milliseconds of the world's time.
    pub at: u64,
    /// The effect.
    pub effect: Effect,
}

/// The running operation of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The run that asked for it.
    pub run: RunId,
    /// The step that asked for it.
    pub step: Arc<str>,
    /// The kind of its step.
    pub kind: StepKind,
    /// When it ends, in milliseconds of the world's time; absent: never.
    pub ends: Option<u64>,
    /// Whether the answer at its end is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer_lost: bool,
    /// Effects while it runs, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Effects at its end.
    pub effects: Vec<Effect>,
    /// Whether it was observed since no process waits for it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

impl Operation {
    /// Whether it was asked for by this step of this run.
    #[must_use]
    pub fn is(&self, run: &RunId, step: &str) -> bool {
        self.run == *run && *self.step == *step
    }

    /// When something next takes place, its end included; `None`: never.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        match self.stages.first() {
            Some(stage) => Some(self.ends.map_or(stage.at, |ends| ends.min(stage.at))),
            None => self.ends,
        }
    }
}
