//! The memory of a remediation: notes that are durable before their effect.
//!
//! Everything observable is observed instead. The memory holds the rest: how often
//! it was tried, what the Node carried that was deleted, and, if no Metal3 holds them, the two
//! annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A taint of a Node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value; empty: none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub value: Arc<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Arc<str>,
}

/// The parts of a Node that its successor lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Its taints.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub taints: BTreeSet<Taint>,
    /// Whether it was cordoned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
}

/// The prefix of the taints that the cluster itself sets and takes off.
const OF_THE_CLUSTER: &str = "node.kubernetes.io/";

/// The annotation with which `kubectl apply` compares: wrong as soon as the Node is another one.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Backup {
    /// The parts of a Node to back up: not those that the cluster sets and takes off by itself, since they would never be taken
    /// it off again.
    #[must_use]
    pub fn of(
        labels: BTreeMap<Arc<str>, Arc<str>>,
        mut annotations: BTreeMap<Arc<str>, Arc<str>>,
        mut taints: BTreeSet<Taint>,
        unschedulable: bool,
    ) -> Self {
        annotations.remove(LAST_APPLIED);
        taints.retain(|taint| !taint.key.starts_with(OF_THE_CLUSTER));
        Self {
            labels,
            annotations,
            taints,
            unschedulable,
        }
    }

    /// Adds the parts of the Node of a later attempt: it wins if both have a key, and parts that only the
    /// earlier one had, since they were not restored yet, stay.
    #[must_use]
    pub fn with(mut self, later: &Self) -> Self {
        let pairs = |map: &BTreeMap<Arc<str>, Arc<str>>| map.clone().into_iter();
        self.labels.extend(pairs(&later.labels));
        self.annotations.extend(pairs(&later.annotations));
        self.taints.extend(later.taints.iter().cloned());
        self.unschedulable |= later.unschedulable;
        self
    }

    /// The parts of it that a Node lacks: existing keys win.
    #[must_use]
    pub fn missing_on(&self, now: &Self) -> Self {
        let missing = |all: &BTreeMap<Arc<str>, Arc<str>>, there: &BTreeMap<Arc<str>, Arc<str>>| {
            let all = all.iter().filter(|(key, _)| !there.contains_key(*key));
            all.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let has = |taint: &&Taint| {
            let mut there = now.taints.iter();
            there.any(|each| each.key == taint.key && each.effect == taint.effect)
        };
        Self {
            labels: missing(&self.labels, &now.labels),
            annotations: missing(&self.annotations, &now.annotations),
            taints: self
                .taints
                .iter()
                .filter(|taint| !has(taint))
                .cloned()
                .collect(),
            unschedulable: self.unschedulable && !now.unschedulable,
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A note of a remediation, durable before it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "remediation", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Note {
    /// The memory in the records, for a process without a journal.
    Recalled(Box<Memory>),
    /// An attempt begins: the machine needs remediation.
    Attempt {
        /// Which, from 1 on.
        number: u32,
    },
    /// The machine is going to be fenced.
    Hold,
    /// The parts of its Node, before it is released.
    BackedUp {
        /// The UID of the Node.
        uid: Arc<str>,
        /// The backup.
        backup: Backup,
    },
    /// The Node with this UID is going to be released.
    Releasing {
        /// The UID of the Node.
        uid: Arc<str>,
    },
    /// Nothing of the Node with this UID is waited for any more.
    Released {
        /// The UID of the Node.
        uid: Arc<str>,
    },
    /// It needs no remediation any more.
    Unmarked,
    /// It is going to be unfenced: switched on.
    LetGo,
    /// The backup was written to the new Node, and read back.
    Restored,
    /// The attempt failed.
    AttemptFailed {
        /// Why.
        reason: Arc<str>,
    },
    /// No attempt is left: it is only unfenced, and then it has failed for good.
    GivenUp {
        /// Why.
        reason: Arc<str>,
    },
}

impl Note {
    /// As it is written.
    #[must_use]
    pub fn to_text(&self) -> Arc<str> {
        // These values have a text always.
        Arc::from(serde_json::to_string(self).unwrap_or_default())
    }

    /// Whether a machine would be left off, or switched off once more after it was unfenced, or the backup of its Node
    /// carried be lost, if only this process knew it.
    #[must_use]
    pub fn binds_others(text: &str) -> bool {
        let note = serde_json::from_str(text);
        matches!(note, Ok(Self::Hold | Self::BackedUp { .. } | Self::LetGo))
    }
}

/// The result of the notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// The running attempt, from 1 on; 0: none was begun.
    pub attempt: u32,
    /// Where no Metal3 holds it: it needs remediation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_remediation: bool,
    /// Where no Metal3 holds it: it is fenced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The backup of its Nodes, until it was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// The UIDs of the Nodes whose content is in the backup.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub backed_up: BTreeSet<Arc<str>>,
    /// The UIDs of the Nodes that were to be released.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub releasing: BTreeSet<Arc<str>>,
    /// The UIDs of the Nodes of which nothing is waited for any more.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub released: BTreeSet<Arc<str>>,
    /// It was unfenced in this attempt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub let_go: bool,
    /// Why the attempt failed, if it did and no other was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Arc<str>>,
    /// Why it was aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Arc<str>>,
}

impl Memory {
    /// Takes a note in.
    pub fn take(&mut self, note: &Note) {
        match note {
            Note::Recalled(memory) => self.clone_from(memory),
            Note::Attempt { number } => {
                self.attempt = *number;
                self.needs_remediation = true;
                self.let_go = false;
                self.failed = None;
                self.given_up = None;
            }
            Note::Hold => self.held = true,
            Note::BackedUp { uid, backup } => {
                let before = self.backup.take().unwrap_or_default();
                self.backup = Some(before.with(backup));
                self.backed_up.insert(uid.clone());
            }
            Note::Releasing { uid } => {
                self.releasing.insert(uid.clone());
            }
            Note::Released { uid } => {
                self.released.insert(uid.clone());
            }
            Note::Unmarked => self.needs_remediation = false,
            Note::LetGo => {
                self.held = false;
                self.let_go = true;
            }
            Note::Restored => self.backup = None,
            Note::AttemptFailed { reason } => self.failed = Some(reason.clone()),
            Note::GivenUp { reason } => {
                self.given_up = Some(reason.clone());
                self.needs_remediation = false;
            }
        }
    }

    /// Takes the texts of notes in, in their order; a text that is no note of a remediation is passed over.
    #[must_use]
    pub fn with<'t>(mut self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        for note in texts
            .into_iter()
            .filter_map(|text| serde_json::from_str(text).ok())
        {
            self.take(&note);
        }
        self
    }
}
