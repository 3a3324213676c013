//! The service of a machine: its firmware and settings are brought true, with one restart, and without touching a disk.

pub(super) mod raid;

use std::sync::Arc;

use super::ChangeKind;
use super::item::Item;
use super::leave::Leave;
use super::rules::Rules;
use super::subject::{Membership, Subject};
use super::work::ServiceWork;
use crate::design::{HardwareSetting, NodeDesign, NodeName, Rung, Section};
use crate::diff::FieldChange;
use crate::observed::{Capability, ClusterNode};

/// How the firmware and the settings of a deployed machine, or its volumes, stand to those that its design enforces.
pub(super) enum HardwareStanding {
    /// Nothing shows that they are otherwise than the record has them.
    AsRecorded,
    /// They were observed to be as designed; the record says otherwise.
    AsDesigned,
    /// They are not designed any more; the record says otherwise.
    NotEnforced,
    /// Nothing that is shown differs, and not all of it is shown; the record says otherwise.
    NotShown,
    /// These values are to be set.
    Differs(Vec<HardwareSetting>),
}

impl HardwareStanding {
    /// Compares a machine in [`Section::Firmware`] or [`Section::Raid`]; `is_edited`: its design differs from what was applied
    /// last.
    pub(super) fn of(
        subject: Subject<'_>,
        after: &NodeDesign,
        section: Section,
        is_edited: bool,
    ) -> Self {
        let designed = after.hardware(section);
        let machine = subject.seen.node();
        let drift = machine.map_or(&[][..], |machine| &machine.drift);
        let drift = || drift.iter().filter(|part| part.section == section);
        let is_compared = machine.is_some_and(|machine| machine.compared.contains(&section));
        let is_designed = !designed.is_empty();
        let settings = designed.into_iter().filter_map(|designed| {
            let part = drift().find(|part| part.field == designed.name);
            // What is equal stays as it is, and a value that a machine does not show differs from nothing.
            if part.is_none() && (machine.is_some() || !is_edited) {
                return None;
            }
            Some(HardwareSetting {
                name: designed.name,
                before: part.map(|part| part.observed.clone()),
                value: designed.value,
            })
        });
        let settings: Vec<HardwareSetting> = settings.collect();
        let is_hidden = is_designed && machine.is_some() && !is_compared;
        match (settings.is_empty(), is_edited) {
            (false, _) => Self::Differs(settings),
            // However often it was applied, what is not shown is not known to be as designed.
            (true, _) if is_hidden => Self::NotShown,
            (true, true) if !is_designed => Self::NotEnforced,
            (true, true) if !is_compared => Self::NotShown,
            (true, true) => Self::AsDesigned,
            (true, false) => Self::AsRecorded,
        }
    }

    /// Whether the record is to say that they are as designed.
    pub(super) fn is_to_be_recorded(&self) -> bool {
        matches!(self, Self::AsDesigned | Self::NotEnforced)
    }

    /// Whether it is not known if they are as designed, and nothing is to be set.
    pub(super) fn is_hidden(&self) -> bool {
        matches!(self, Self::NotShown)
    }

    /// Why a plan shows them though nothing is set.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::AsDesigned => Some(
                "its firmware and settings are as designed, which its record does not have yet",
            ),
            Self::NotEnforced => {
                Some("its firmware and settings are not enforced any more, and stay as they are")
            }
            // Told with what of it can never be set.
            Self::NotShown | Self::AsRecorded | Self::Differs(_) => None,
        }
    }

    /// Whether values are to be set.
    pub(super) fn differs(&self) -> bool {
        matches!(self, Self::Differs(_))
    }
}

/// Why a machine is not known to be as designed.
const NOT_SHOWN: &str = "its controller does not show all firmware and settings that are enforced: what is not shown is neither \
    compared nor set, and `mode: report` in its Hardware document asks for no more";

impl<'a> Rules<'a> {
    /// Adds the service of a machine, or blocks it if its documents or its cluster forbid that.
    pub(super) fn service(
        &self,
        mut item: Item<'a>,
        after: &NodeDesign,
        settings: Vec<HardwareSetting>,
    ) -> Item<'a> {
        let subject = item.subject;
        let shown = item.change.open_sections();
        if shown.contains(&Section::Firmware) {
            for HardwareSetting {
                name,
                before,
                value,
            } in &settings
            {
                if let Some(before) = before {
                    item.because(format!("{name}: {before}, designed {value}"));
                }
            }
        } else {
            item.because("its firmware or settings are not as they were applied");
            let fields = settings
                .iter()
                .map(|each| as_field(Section::Firmware, each));
            item.change.fields.extend(fields);
        }
        let machine = subject.seen.node();
        if machine.is_some_and(|machine| !machine.compared.contains(&Section::Firmware)) {
            tell_hidden(&mut item, after);
        }
        item.block_if_protected(self.guards);
        for setting in &settings {
            if let Some(why) = forbidden(after, setting) {
                item.block(&why, None);
            }
            if let Some(why) = fixed(subject, &setting.name) {
                item.block(&why, None);
            }
        }
        show_observed(&mut item, &settings);
        let of = |each: &HardwareSetting| after.setting_rung(&each.name);
        let able = machine.is_some_and(|each| each.capabilities.contains(Capability::ServiceLive));
        let is_live = able && settings.iter().map(of).all(|rung| rung == Rung::Live);
        if is_live {
            item.work.service = Some(Box::new(ServiceWork {
                settings,
                kept_parts: Vec::new(),
                runbook: None,
                uncordons: false,
                is_live,
            }));
            return item;
        }
        let mut leave = Leave {
            on_drain_timeout: self.leaving.on_drain_timeout,
            serviced: true,
            ..Leave::default()
        };
        let mut uncordons = false;
        match subject.membership {
            Membership::NotAsked | Membership::NoCluster | Membership::Out => {}
            Membership::Unseen(why) => {
                let reason =
                    format!("whether it is a node of the cluster could not be read: {why}");
                item.block_unreadable(&reason, None);
            }
            Membership::In(node) => {
                leave.node_uid = Some(node.uid.clone());
                uncordons = !node.unschedulable || left_cordoned(&subject);
                if !uncordons {
                    item.because(stays_cordoned(subject.name, node));
                }
                self.block_endless_drain(&mut item, &leave);
            }
        }
        item.work.leave = Some(Box::new(leave));
        let runbook = subject.seen.node().and_then(|node| node.runbook.clone());
        if let Some(runbook) = &runbook {
            item.because(format!("set by runbook `{runbook}`"));
        }
        item.work.service = Some(Box::new(ServiceWork {
            settings,
            kept_parts: kept_parts(subject, after),
            runbook,
            uncordons,
            is_live,
        }));
        item
    }
}

/// A machine that is built keeps its firmware and its settings: what differs in them is shown, and is left to the next plan.
pub(super) fn leave_to_next_plan(item: &mut Item<'_>) {
    let subject = item.subject;
    let is_built = matches!(item.change.kind, ChangeKind::Create | ChangeKind::Redeploy);
    let Some(after) = subject.after.filter(|_| is_built) else {
        return;
    };
    let sections = subject.differing().unwrap_or_default();
    let is_firmware = |field: &FieldChange| field.section == Section::Firmware;
    let is_edited = sections.contains(&Section::Firmware);
    let standing = HardwareStanding::of(subject, after, Section::Firmware, is_edited);
    let HardwareStanding::Differs(settings) = standing else {
        item.change.fields.retain(|field| !is_firmware(field));
        return;
    };
    leave(
        item,
        &settings,
        "a deploy leaves firmware and settings as they are",
    );
}

/// A machine that is off is only switched on: what differs in its firmware and settings is shown, and is left to the next plan.
pub(super) fn leave_until_on(item: &mut Item<'_>, is_off: bool, standing: &HardwareStanding) {
    if let (true, HardwareStanding::Differs(settings)) = (is_off, standing) {
        leave(
            item,
            settings,
            "its machine is off, and is switched on first",
        );
    }
}

fn leave(item: &mut Item<'_>, settings: &[HardwareSetting], why: &str) {
    let mut fields = item.change.fields.iter();
    if !fields.any(|field| field.section == Section::Firmware) {
        let fields = settings
            .iter()
            .map(|each| as_field(Section::Firmware, each));
        item.change.fields.extend(fields);
    }
    let names: Vec<&str> = settings.iter().map(|setting| &*setting.name).collect();
    item.because(format!(
        "{why}: the next plan sets {}, by a service",
        names.join(", ")
    ));
}

/// The node that a service left cordoned: the run that cordoned it for that did not end it.
pub(super) fn left_cordoned(subject: &Subject<'_>) -> bool {
    let Membership::In(node) = subject.membership else {
        return false;
    };
    let run = subject.record.and_then(|record| record.cordoned.as_ref());
    let is_ours = run.is_some_and(|run| node.cordoned_by.as_deref() == Some(run.as_str()));
    is_ours && node.unschedulable
}

/// Shows what is set with the value that the machine has, whatever its documents had before.
fn show_observed(item: &mut Item<'_>, settings: &[HardwareSetting]) {
    let fields = item.change.fields.iter_mut();
    for field in fields.filter(|field| field.section == Section::Firmware) {
        let name = field.path.strip_suffix(".version").unwrap_or(&field.path);
        if let Some(setting) = settings.iter().find(|each| *each.name == *name) {
            field.before.clone_from(&setting.before);
            field.after = Some(setting.value.clone());
        }
    }
}

/// The parts that a machine is expected to have, and is not known to lack: it is to come back with them.
fn kept_parts(subject: Subject<'_>, after: &NodeDesign) -> Vec<HardwareSetting> {
    let lacks = |name: &str| {
        let seen = subject.seen.node();
        seen.is_some_and(|seen| seen.unexpected_parts().any(|part| *part.field == *name))
    };
    let expected = after.expected_parts().into_iter();
    let expected = expected.filter(|each| !lacks(&each.name));
    let kept = expected.map(|each| HardwareSetting {
        name: each.name,
        before: None,
        value: each.value,
    });
    kept.collect()
}

/// Why pods are not scheduled on a node again after the service of its machine.
fn stays_cordoned(name: &NodeName, node: &ClusterNode) -> String {
    match &node.cordoned_by {
        Some(run) => format!(
            "its node was cordoned before, by run {run}, and stays so: `trueup apply uncordon {name}` ends that"
        ),
        None => "its node was cordoned before, not by trueup, and stays so".to_owned(),
    }
}

/// A value that was observed to differ, as a field of the change.
pub(super) fn as_field(section: Section, setting: &HardwareSetting) -> FieldChange {
    FieldChange {
        section,
        path: setting.name.clone(),
        before: setting.before.clone(),
        after: Some(setting.value.clone()),
        chain: Vec::new(),
        accepted: None,
    }
}

/// Why a component may not go from its version to the one that is designed.
fn forbidden(after: &NodeDesign, setting: &HardwareSetting) -> Option<String> {
    let HardwareSetting {
        name,
        before,
        value,
    } = setting;
    let (terms, before) = (after.firmware_terms(name)?, before.as_ref()?);
    if !terms.downgrade && is_newer(before, value) {
        return Some(format!(
            "`{name}` is at {before}, which is newer than {value}: its Hardware document has no `downgrade: true`"
        ));
    }
    if terms.from.is_empty() || terms.from.contains(before) {
        return None;
    }
    let from: Vec<&str> = terms.from.iter().map(|version| &**version).collect();
    Some(format!(
        "`{name}` is at {before}, and goes to {value} only from {}",
        from.join(", ")
    ))
}

/// Tells that a machine does not show all firmware and settings that are enforced, and blocks it for those of which it is known
/// that they cannot be set, such as a misspelt attribute.
pub(super) fn tell_hidden(item: &mut Item<'_>, after: &NodeDesign) {
    let subject = item.subject;
    item.because(NOT_SHOWN);
    let drift = subject.seen.node().map_or(&[][..], |node| &node.drift);
    let mut enforced = after.hardware(Section::Firmware);
    enforced.retain(|each| drift.iter().all(|part| part.field != each.name));
    for each in &enforced {
        if let Some(why) = fixed(subject, &each.name) {
            item.block(&why, None);
        }
    }
}

/// Why the controller of a machine cannot change a value.
pub(super) fn fixed(subject: Subject<'_>, name: &str) -> Option<String> {
    let fixed = subject.seen.node()?.fixed.iter();
    let value = fixed.clone().find(|value| *value.name == *name)?;
    Some(format!("`{name}` cannot be changed: {}", value.reason))
}

/// Whether a version is newer than another one: by its numbers, then by the texts between them.
fn is_newer(one: &str, other: &str) -> bool {
    parts(one) > parts(other)
}

/// The parts of a version; a number counts by its value, and before a text.
fn parts(version: &str) -> Vec<(Option<u64>, Arc<str>)> {
    let parts = version.split(|each: char| !each.is_ascii_alphanumeric());
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .map(|part| match part.parse() {
            Ok(number) => (Some(number), Arc::from("")),
            Err(_) => (None, part.to_ascii_lowercase().into()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let table = [
            ("2.10.0", "2.9.1", true),
            ("2.9.1", "2.10.0", false),
            ("2.9", "2.9.0", false),
            ("2.9.1", "2.9", true),
            ("U46 v2.70", "U46 v2.68", true),
            ("7.00.30.00", "7.00.30.00", false),
            ("99999999999999999999", "1", false),
        ];
        for (one, other, expected) in table {
            assert_eq!(is_newer(one, other), expected, "{one} {other}");
        }
    }
}
