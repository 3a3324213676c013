//! The drift of a node since it was applied, and its labels that differ from the design.

use std::sync::Arc;

use super::item::Item;
use super::service::left_cordoned;
use super::subject::{Membership, Subject, state_name};
use crate::design::{Class, NodeDesign, Section};
use crate::observed::{Fact, PartDrift};
use crate::remediation::Backup;
use crate::step::RelabelParameters;

/// How the world differs from what was last applied.
pub(super) struct Drift {
    /// It is not deployed any more, and what it is instead.
    pub(super) gone: Option<String>,
    pub(super) off: bool,
    /// Its node is still cordoned by a service that did not end.
    pub(super) cordoned: bool,
    /// Labels that were applied and are not as they were.
    labels: Vec<Arc<str>>,
    /// Labels and taints to restore on its node, by the names of the labels if they are known.
    owed: Option<Vec<Arc<str>>>,
    /// Its provisioner could lock it, and has not.
    pub(super) unlocked: bool,
    /// It carries its system, and is in a state that is not that of a working machine.
    state: Option<String>,
    /// Why its remediation failed, as long as it is not back.
    given_up: Option<String>,
    /// Parts that are otherwise than the design that was installed.
    parts: Vec<PartDrift>,
}

/// The labels and taints to restore on a machine's node, by its record; `None` if it is in no cluster.
pub(super) fn owed(subject: Subject<'_>) -> Option<Backup> {
    let Membership::In(_) = subject.membership else {
        return None;
    };
    subject.record?.owed()
}

/// The labels and taints to restore if the node is in service: it is Ready, and trueup has not
/// cordoned it.
fn owed_in_service(subject: Subject<'_>) -> Option<Vec<Arc<str>>> {
    let Membership::In(node) = subject.membership else {
        return None;
    };
    if !node.ready || node.unschedulable && node.cordoned_by.is_some() {
        return None;
    }
    let owed = owed(subject)?;
    let missing = owed
        .labels
        .keys()
        .filter(|key| !node.labels.contains_key(key));
    let missing: Vec<Arc<str>> = missing.cloned().collect();
    let has_more = !owed.taints.is_empty() || !owed.annotations.is_empty() || owed.unschedulable;
    (has_more || !missing.is_empty()).then_some(missing)
}

/// Why its remediation failed, where its node has not come back since.
fn given_up(subject: &Subject<'_>) -> Option<String> {
    let is_back = matches!(subject.membership, Membership::In(node) if node.ready);
    let record = subject.record.filter(|_| !is_back)?;
    let why = record.remediation.as_ref()?.given_up.as_ref()?;
    let error = record.last_error.as_deref();
    let failed = match error.filter(|error| error.ends_with(&**why)) {
        Some(error) => error.to_owned(),
        None => format!("its remediation failed: {why}"),
    };
    let name = subject.name;
    Some(format!(
        "{failed}; `trueup apply remediate {name}` tries again"
    ))
}

impl Drift {
    pub(super) fn of(subject: Subject<'_>, after: &NodeDesign) -> Self {
        let gone = subject.seen.not_deployed().map(state_name);
        let applied = subject.before.unwrap_or(after);
        let labels = match subject.seen.node().map(|node| &node.cluster) {
            Some(Fact::Known(Some(node))) if gone.is_none() && !subject.is_labelled => {
                let changed = applied.labels.iter().filter(|(key, value)| {
                    after.labels.get(*key) == Some(value) && node.labels.get(key) != Some(value)
                });
                changed.map(|(key, _)| key.clone()).collect()
            }
            _ => Vec::new(),
        };
        let deployed = subject.seen.node().filter(|_| gone.is_none());
        // If the design itself was changed, that change is shown.
        let parts = deployed.map_or(&[][..], |node| &node.drift);
        let edited = match parts.is_empty() {
            true => Vec::new(),
            false => subject.differing().unwrap_or_default(),
        };
        // That of firmware and settings is work of its own.
        let parts = parts.iter().filter(|part| {
            !edited.contains(&part.section) && part.section.class() != Class::Service
        });
        Self {
            parts: parts.cloned().collect(),
            unlocked: deployed.is_some_and(|node| node.unlocked),
            state: match gone {
                None => subject.not_working(),
                Some(_) => None,
            },
            given_up: given_up(&subject),
            off: gone.is_none() && subject.seen.is_off(),
            cordoned: gone.is_none() && left_cordoned(&subject),
            owed: match gone {
                None => owed_in_service(subject),
                Some(_) => None,
            },
            gone,
            labels,
        }
    }

    pub(super) fn is_some(&self) -> bool {
        let is_shown = self.state.is_some() || self.given_up.is_some();
        self.is_repaired() || is_shown || !self.parts.is_empty()
    }

    /// Whether a plan repairs some of it: what only a redeploy repairs is asked for by itself.
    pub(super) fn is_repaired(&self) -> bool {
        let is_state = self.gone.is_some() || self.off || self.cordoned || self.unlocked;
        is_state || !self.labels.is_empty() || self.owed.is_some()
    }

    pub(super) fn tell(&self, item: &mut Item<'_>) {
        if let Some(state) = &self.gone {
            item.because(format!("recorded as deployed, is {state}"));
        }
        if self.off {
            item.because("is off");
        }
        if self.cordoned {
            item.because("its node is still cordoned since its machine was serviced");
        }
        for text in [&self.state, &self.given_up].into_iter().flatten() {
            item.because(text.clone());
        }
        if !self.labels.is_empty() {
            item.because(format!(
                "labels are not as applied: {}",
                self.labels.join(", ")
            ));
        }
        if self.unlocked {
            item.because("is not locked in its provisioner: any user of it can delete the machine");
        }
        for part in &self.parts {
            item.because(part.to_string());
        }
        let is_volumes = |part: &PartDrift| part.section == Section::Raid;
        let is_rebuilt =
            |part: &PartDrift| part.section.class() == Class::Redeploy && !is_volumes(part);
        let kinds = [
            (self.parts.iter().any(is_rebuilt), "disks and interfaces"),
            (self.parts.iter().any(is_volumes), "RAID volumes"),
        ];
        for (_, what) in kinds.into_iter().filter(|(is_some, _)| *is_some) {
            item.because(format!(
                "{what} of a deployed machine are only repaired by a redeploy: `trueup apply redeploy {}`",
                item.subject.name
            ));
        }
        match self.owed.as_deref() {
            None => {}
            Some([]) => item.because("taints that were taken off its node are not back"),
            Some(labels) => item.because(format!(
                "labels that were taken off its node are not back: {}",
                labels.join(", ")
            )),
        }
    }
}

/// The labels to set and to take off: against the cluster if it was observed, else against the
/// last applied design; `None` without any. Only labels that the design has or had are touched.
pub(super) fn labels_to_set(
    subject: Subject<'_>,
    after: &NodeDesign,
    changed: bool,
) -> Option<Box<RelabelParameters>> {
    let cluster = match subject.seen.node().map(|node| &node.cluster) {
        Some(Fact::Known(Some(node))) => Some(&node.labels),
        _ => None,
    };
    if cluster.is_none() && !changed {
        return None;
    }
    let before = subject.before.map(|before| &*before.labels);
    let is_set = |key: &Arc<str>, value: &Arc<str>| {
        let is = match cluster {
            Some(labels) => labels.get(key),
            None => before.and_then(|labels| labels.get(key)),
        };
        is == Some(value)
    };
    let is_there = |key: &Arc<str>| cluster.is_none_or(|labels| labels.contains_key(key));
    let set = after
        .labels
        .iter()
        .filter(|(key, value)| !is_set(key, value));
    let gone = before.into_iter().flatten().map(|(key, _)| key);
    let gone = gone.filter(|key| !after.labels.contains_key(*key) && is_there(key));
    let parameters = RelabelParameters {
        set_labels: set
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        remove_labels: gone.cloned().collect(),
        backup: match cluster {
            Some(_) => owed(subject).map(Box::new),
            None => None,
        },
    };
    (parameters != RelabelParameters::default()).then(|| Box::new(parameters))
}
