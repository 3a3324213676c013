//! Cleaning: trueup's own clean steps, one after the other.
//!
//! Each step is recorded before it begins, so that a crash repeats at most that one, and each is
//! idempotent (ironic-cleaning).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::OFFERED;
use super::pods::Course;
use super::rules::permanent;
use super::{Effect, Machine, Stage};
use crate::backend::{ActError, Order};
use crate::design::{NodeDesign, Section};
use crate::document::{Map, Node};
use crate::lifecycle::{OfferedStep, in_order};

/// The step that erases disks as a whole.
const ERASE: &str = "erase_devices";

/// The stages of a manual cleaning: the steps that are named, else those that are automated.
/// `lasts`: how long each takes, in milliseconds.
pub(super) fn course(
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    now: u64,
    lasts: u64,
) -> Result<Course, ActError> {
    let mut steps = asked(order, node)?;
    if steps.is_empty() {
        steps = match in_order(&OFFERED, &BTreeMap::new()) {
            Ok(steps) => steps,
            Err(tie) => return permanent(tie.to_string()),
        };
    }
    let (stages, at) = stages(order, node, machine, &steps, now, lasts);
    Ok(Course {
        stages,
        ends: Some(at),
        effects: vec![Effect::Cleaned],
    })
}

/// How a machine is cleaned on its way to available, within the time of the step; nothing if its step
/// names no clean steps.
pub(super) fn on_the_way(
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    now: u64,
    lasts: u64,
) -> Result<Vec<Stage>, ActError> {
    let steps = asked(order, node)?;
    let each = lasts / u64::try_from(steps.len().max(1)).unwrap_or(u64::MAX);
    Ok(stages(order, node, machine, &steps, now, each).0)
}

/// Whether a step erases the disks as one of its clean steps.
pub(super) fn erases(order: &Order) -> bool {
    let steps = order.step.given().clean_steps();
    steps.iter().any(|step| &*step.step == ERASE)
}

/// The steps that are named, each of which the machine has.
fn asked(order: &Order, node: &NodeDesign) -> Result<Vec<OfferedStep>, ActError> {
    let offered = &*OFFERED;
    let asked = order.step.given().clean_steps();
    let mut steps = Vec::with_capacity(asked.len());
    for each in asked {
        let name = each.name();
        match offered.iter().find(|step| step.name() == name) {
            Some(step) => steps.push(step.clone()),
            None => {
                let names: Vec<String> = offered.iter().map(OfferedStep::name).collect();
                return permanent(format!(
                    "`{}` has no clean step `{name}`; it has {}",
                    node.name,
                    names.join(", ")
                ));
            }
        }
    }
    Ok(steps)
}

/// The effects of steps that run one after the other, and when the last of them ends.
fn stages(
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    steps: &[OfferedStep],
    now: u64,
    lasts: u64,
) -> (Vec<Stage>, u64) {
    let erased = disks(order, node, machine);
    let mut stages = Vec::new();
    let mut at = now;
    for step in steps {
        let effect = Effect::CleanStepBegun(Arc::from(step.name()));
        stages.push(Stage { at, effect });
        at = at.saturating_add(lasts);
        let changes = match &*step.step {
            "reset_bios" => Some(Effect::BiosReset),
            "apply_bios_settings" => Some(Effect::BiosSet(Box::new(bios_settings(node)))),
            _ => None,
        };
        stages.extend(changes.map(|effect| Stage { at, effect }));
        if step.erases {
            let erased = erased.iter().cloned().map(match &*step.step {
                ERASE => Effect::WipedDisk,
                _ => Effect::WipedMetadata,
            });
            stages.extend(erased.map(|effect| Stage { at, effect }));
        }
    }
    (stages, at)
}

/// The settings of the BIOS that the node's hardware profile has.
fn bios_settings(node: &NodeDesign) -> BTreeMap<Arc<str>, Arc<str>> {
    let hardware = node.sections.get(&Section::Hardware);
    let settings = hardware.and_then(|node| node.at(&["hardware_profile", "bios_settings"]));
    let settings = settings
        .and_then(Node::as_map)
        .into_iter()
        .flat_map(Map::iter);
    settings
        .filter_map(|(name, field)| {
            let value = match field.node.as_bool() {
                Some(truth) => truth.to_string(),
                None => field.node.scalar_text()?.into_owned(),
            };
            Some((name.text.clone(), Arc::from(value)))
        })
        .collect()
}

/// The disks that a step may erase: those that it names, or all, or that of the operating system alone.
pub(super) fn disks(order: &Order, node: &NodeDesign, machine: &Machine) -> Vec<Arc<str>> {
    let named = order.step.given().disks().as_slice();
    let preserves = *order.step.given().preserve_local_storage();
    let system = system_disk(machine, node);
    let disks = machine.disks.iter().map(|disk| disk.name.clone());
    let disks = disks.filter(|name| match named {
        [] => !preserves || Some(name) == system.as_ref(),
        named => named.contains(name),
    });
    disks.collect()
}

/// The disk that carries the operating system: the one with the root file system, else the one that is
/// marked as the boot drive, else the first.
pub(super) fn system_disk(machine: &Machine, node: &NodeDesign) -> Option<Arc<str>> {
    let storage = node.sections.get(&Section::Storage);
    let devices =
        storage.and_then(|storage| storage.at(&["storage", "physical_devices"])?.as_map());
    let devices = || devices.into_iter().flat_map(Map::iter);
    let has_root = |device: &Node| {
        let partitions = device.get("partitions").and_then(Node::as_list);
        partitions.unwrap_or_default().iter().any(|partition| {
            let mount = partition.at(&["filesystem", "mountpoint"]);
            mount.and_then(Node::as_str) == Some("/")
        })
    };
    let is_boot_drive = |device: &Node| device.at(&["labels", "bootdrive"]).is_some();
    let named = devices()
        .find(|(_, field)| has_root(&field.node))
        .or_else(|| devices().find(|(_, field)| is_boot_drive(&field.node)));
    match named {
        Some((key, _)) => Some(key.text.clone()),
        None => machine.disks.first().map(|disk| disk.name.clone()),
    }
}
