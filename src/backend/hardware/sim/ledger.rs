//! What can happen to a simulated machine, one line for each thing that did, and what is happening now.
//!
//! Effects are fixed when an operation begins: those on its way each have their time, the others take
//! place at its end, all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{ClusterName, RunId};
use crate::observed::PodName;
use crate::step::StepKind;

/// What happened to a machine.
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
    Deployed {
        /// The digest of what was deployed.
        image: Arc<str>,
        /// The UID of its node in the cluster.
        uid: Arc<str>,
        /// The labels of its node in the cluster.
        labels: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    },
    /// A disk was erased.
    WipedDisk(Arc<str>),
    /// What a disk has at its beginning and its end, its partition table among it, was erased.
    WipedMetadata(Arc<str>),
    /// It was torn down: available, or manageable where it is retired.
    Destroyed,
    /// What moves it forgot it: it would have to be enrolled again.
    Forgotten,
    /// Labels of its node in the cluster were set and taken off.
    Relabelled {
        /// Set.
        set: BTreeMap<Arc<str>, Arc<str>>,
        /// Taken off.
        remove: Vec<Arc<str>>,
    },
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
    /// A clean step is going to run; recorded before it begins.
    CleanStepBegun(Arc<str>),
    /// Settings of its BIOS were applied.
    BiosSet(BTreeMap<Arc<str>, Arc<str>>),
    /// Its BIOS was set back to its defaults.
    BiosReset,
    /// It was cleaned, and is manageable.
    Cleaned,
    /// Its node was cordoned.
    Cordoned(RunId),
    /// A pod was evicted, and is gone.
    Evicted(PodName),
    /// A pod was deleted without regard to its budgets.
    PodDeleted(PodName),
    /// Its node was drained.
    Drained {
        /// Pods that were left on purpose.
        left: usize,
    },
    /// Pods may be scheduled to its node again.
    Uncordoned,
    /// Labels of its node were cleared.
    LabelsCleared(Vec<Arc<str>>),
    /// A member of an etcd cluster was added.
    MemberAdded {
        /// To which.
        cluster: ClusterName,
        /// Its id, in hexadecimal digits.
        id: Arc<str>,
        /// How it is called, and where it is reached: name, peers, clients.
        at: Box<[Arc<str>; 3]>,
        /// Milliseconds from then on until it votes; a learner until then.
        votes_after: u64,
    },
    /// A member of an etcd cluster was removed.
    MemberRemoved {
        /// From which.
        cluster: ClusterName,
        /// Its id, in hexadecimal digits.
        id: Arc<str>,
    },
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
    NodeRestored {
        /// Labels.
        labels: BTreeMap<Arc<str>, Arc<str>>,
        /// Whether it is cordoned.
        unschedulable: bool,
    },
    /// An operation failed.
    Failed {
        /// Which.
        kind: StepKind,
        /// What was said.
        message: Arc<str>,
    },
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
    /// Whether it took place on the way, and the step went on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_the_way: bool,
    /// What happened.
    pub effect: Effect,
}

/// Something that takes place while an operation goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// When, in milliseconds of the world's time.
    pub at: u64,
    /// What.
    pub effect: Effect,
}

/// What is happening to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The run that asked for it.
    pub run: RunId,
    /// The step that asked for it.
    pub step: Arc<str>,
    /// What kind of step it is.
    pub kind: StepKind,
    /// When it ends, in milliseconds of the world's time; absent: never.
    pub ends: Option<u64>,
    /// Whether the answer at its end is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer_lost: bool,
    /// What takes place on the way, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// What takes place at its end.
    pub effects: Vec<Effect>,
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
