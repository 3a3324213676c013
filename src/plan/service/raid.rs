//! RAID volumes and hot spares of a machine: a deploy makes them before it writes the system, and nothing else does.

use super::{HardwareStanding, as_field, fixed};
use crate::design::{HardwareSetting, NodeDesign, Section};
use crate::plan::item::Item;
use crate::plan::subject::Subject;

/// How the volumes of a deployed machine stand to its design, whose sections `edited` differ from what was applied last.
///
/// If the design is the same and the machine another, it is drift, which only a redeploy repairs that is asked for.
pub(in crate::plan) fn standing(
    subject: Subject<'_>,
    after: &NodeDesign,
    edited: &[Section],
) -> HardwareStanding {
    match edited.contains(&Section::Raid) {
        true => HardwareStanding::of(subject, after, Section::Raid, true),
        false => HardwareStanding::AsRecorded,
    }
}

/// Why a plan shows its volumes though none is made.
pub(in crate::plan) fn reason(standing: &HardwareStanding) -> Option<&'static str> {
    match standing {
        HardwareStanding::AsDesigned => {
            Some("its RAID volumes are as designed, which its record does not have yet")
        }
        HardwareStanding::NotEnforced => {
            Some("its RAID volumes are not enforced any more, and stay as they are")
        }
        HardwareStanding::NotShown => Some(
            "its backend does not show all of the RAID that is enforced: what is not shown is not compared, and stays as it is \
             until the machine is deployed again",
        ),
        HardwareStanding::AsRecorded | HardwareStanding::Differs(_) => None,
    }
}

/// Shows what is made anew by a redeploy, with the values before.
pub(in crate::plan) fn show(item: &mut Item<'_>, standing: &HardwareStanding) {
    let HardwareStanding::Differs(settings) = standing else {
        return;
    };
    if !item.change.open_sections().contains(&Section::Raid) {
        let fields = settings.iter().map(|each| as_field(Section::Raid, each));
        item.change.fields.extend(fields);
    }
}

/// Has the deploy of a machine make the volumes that its design enforces, or tells why it does not.
pub(in crate::plan) fn take(mut item: Item<'_>) -> Item<'_> {
    let subject = item.subject;
    let Some(after) = subject.after.filter(|_| item.work.deploy) else {
        return item;
    };
    let settings = settings(subject, after);
    if settings.is_empty() {
        return item;
    }
    if item.keeps_disks {
        return keep(item, &settings);
    }
    for setting in &settings {
        let HardwareSetting {
            name,
            before,
            value,
        } = setting;
        let reason = match before {
            Some(before) => format!("{name}: {before}, designed {value}"),
            None => format!("is deployed with {name}: {value}"),
        };
        // That of its drift tells it as well.
        if !item.change.reasons.iter().any(|each| **each == *reason) {
            item.because(reason);
        }
        if let Some(why) = fixed(subject, name) {
            item.block(&why, None);
        }
    }
    let steps = item.work.deploy_steps.as_deref().unwrap_or_default();
    if steps.iter().any(|step| &*step.interface == "raid") {
        item.block(
            "its `platform.deploy_steps` has a step of the interface `raid`, and its Hardware documents enforce `raid`: one of \
             the two makes the volumes",
            None,
        );
    }
    item.work.raid = Some(settings.into());
    item
}

/// The volumes and hot spares that its design enforces, each with what was observed in its place.
fn settings(subject: Subject<'_>, after: &NodeDesign) -> Vec<HardwareSetting> {
    let drift = subject.seen.node().map_or(&[][..], |node| &node.drift);
    let designed = after.hardware(Section::Raid).into_iter();
    let settings = designed.map(|designed| {
        let mut of_raid = drift.iter().filter(|part| part.section == Section::Raid);
        let part = of_raid.find(|part| part.field == designed.name);
        HardwareSetting {
            name: designed.name,
            before: part.map(|part| part.observed.clone()),
            value: designed.value,
        }
    });
    settings.collect()
}

/// A machine whose other disks are kept keeps all its volumes, also that of its system. Another design of them that it was not
/// observed to meet blocks it; what differs without one is only told.
fn keep<'a>(mut item: Item<'a>, settings: &[HardwareSetting]) -> Item<'a> {
    let differs = settings.iter().filter(|setting| setting.before.is_some());
    let names: Vec<&str> = differs.map(|setting| &*setting.name).collect();
    let edited = item.subject.differing().unwrap_or_default();
    let is_edited = edited.contains(&Section::Raid);
    let is_unseen = item.subject.seen.node().is_none();
    if names.is_empty() && !(is_edited && is_unseen) {
        item.because("its RAID volumes stay as they are, since its other disks are kept");
        return item;
    }
    let what = match names.is_empty() {
        true => "its RAID".to_owned(),
        false => names.join(", "),
    };
    match item.work.destroy && is_edited {
        true => item.block(
            &format!(
                "{what} is not as designed, and making volumes erases all disks, which `--preserve-local-storage` keeps"
            ),
            None,
        ),
        false => item.because(format!(
            "{what} is not as designed, and stays as it is, since its other disks are kept"
        )),
    }
    item
}
