//! Firmware, settings, volumes and parts of simulated machines: those that they come with, and what goes wrong if one is changed.
//!
//! | outcome | what happens if the value is changed |
//! | --- | --- |
//! | `unchanged` | the update reports success, and changes nothing |
//! | `second-try` | the first update reports success and changes nothing; the next one does |
//! | `task-vanishes` | the value changes, and the task that would report that is gone |
//! | `controller-restarts` | the value changes; its controller restarts on the way, which takes `seconds` (60) longer |
//! | `refused` | the controller refuses the value in place |
//! | `part-lost` | the value changes, and the machine comes back with `lost` (`{expect.memory_gib: "192"}`) |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::duration::duration;
use super::faults::Patterns;
use super::machine::Machine;
use crate::backend::Order;
use crate::backend::hardware::service::unmet;
use crate::backend::hardware::terms::Terms;
use crate::design::{HardwareSetting, NodeDesign, NodeName};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds};
use crate::lifecycle::ProvisionState;
use crate::observed::{HardwareSeen, ObservedNode};

/// How much longer it takes if the controller restarts.
const RESTART: Duration = Duration::from_secs(60);

/// The values of some machines.
#[derive(Clone, Debug)]
pub(super) struct HardwareRow {
    nodes: Patterns,
    /// Whether it counts only for machines that were prepared, as a provisioner inspects them then.
    once_prepared: bool,
    values: HardwareSeen,
    updates: Vec<Update>,
}

/// The outcome of changing a value.
#[derive(Clone, Debug)]
struct Update {
    name: Arc<str>,
    outcome: UpdateOutcome,
    delay: Duration,
    /// The values that the machine has otherwise afterwards.
    lost: HardwareSeen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UpdateOutcome {
    Unchanged,
    SecondTry,
    TaskVanishes,
    ControllerRestarts,
    Refused,
    PartLost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenHardware {
    #[serde(default)]
    nodes: Vec<Marked<Arc<str>>>,
    #[serde(default)]
    once_prepared: bool,
    #[serde(default)]
    values: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    updates: Vec<WrittenUpdate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUpdate {
    name: Arc<str>,
    outcome: UpdateOutcome,
    seconds: Option<Marked<Seconds>>,
    #[serde(default)]
    lost: BTreeMap<Arc<str>, Arc<str>>,
}

/// Reads the rows.
pub(super) fn read(written: Vec<WrittenHardware>) -> Result<Vec<HardwareRow>, Box<Diagnostic>> {
    let row = |written: WrittenHardware| {
        let updates = written.updates.into_iter().map(|update| {
            Ok(Update {
                name: update.name,
                outcome: update.outcome,
                delay: duration(update.seconds)?.unwrap_or(RESTART),
                lost: update.lost,
            })
        });
        Ok(HardwareRow {
            nodes: Patterns::read(&written.nodes)?,
            once_prepared: written.once_prepared,
            values: written.values,
            updates: updates.collect::<Result<_, Box<Diagnostic>>>()?,
        })
    };
    written.into_iter().map(row).collect()
}

/// The values of a machine: those that it came with, and those that were set since.
pub(super) fn of_machine(rows: &[HardwareRow], node: &NodeName, machine: &Machine) -> HardwareSeen {
    let mut values = HardwareSeen::new();
    let was_prepared = machine.prepared || machine.provision == ProvisionState::Active;
    let shows = |row: &&HardwareRow| row.nodes.fit(node) && (was_prepared || !row.once_prepared);
    for row in rows.iter().filter(shows) {
        for (name, value) in &row.values {
            values.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    let bios = machine.bios.iter();
    let bios = bios.map(|(name, value)| (format!("bios.{name}").into(), value.clone()));
    values.extend(bios);
    let set = machine.hardware.iter();
    values.extend(set.map(|(name, value)| (name.clone(), value.clone())));
    values
}

/// All values of a machine that others can have, too.
pub(super) fn learned(rows: &[HardwareRow], node: &NodeDesign, machine: &Machine) -> HardwareSeen {
    Terms::default().learned(of_machine(rows, &node.name, machine))
}

/// Adds to an observed machine how its values stand to its design.
pub(super) fn compare(
    observed: &mut ObservedNode,
    rows: &[HardwareRow],
    node: &NodeDesign,
    machine: &Machine,
) {
    if node.hardware_sections().next().is_some() {
        observed.compare_hardware(node, &of_machine(rows, &node.name, machine), None);
    }
}

/// The values that a step is to set.
pub(super) fn wanted(order: &Order) -> &[HardwareSetting] {
    order.step.given().settings()
}

/// The value that a step is to set and that the machine does not show, with the value that it shows.
pub(super) fn missing<'o>(
    rows: &[HardwareRow],
    order: &'o Order,
    node: &NodeName,
    machine: &Machine,
) -> Option<(&'o HardwareSetting, Option<Arc<str>>)> {
    let values = of_machine(rows, node, machine);
    let setting = *unmet(order, &values).first()?;
    Some((setting, values.get(&setting.name).cloned()))
}

/// The course of an update: what it changes, and how.
#[derive(Debug, Default)]
pub(super) struct UpdateCourse {
    /// The values that change while it runs, and those that change at the restart.
    pub(super) firmware: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) settings: BTreeMap<Arc<str>, Arc<str>>,
    /// The name of a value that the controller refuses.
    pub(super) refused: Option<Arc<str>>,
    /// How much longer it takes.
    pub(super) later: Duration,
    /// The task is gone before its end is known.
    pub(super) vanishes: bool,
}

/// The course of an update of a machine; `is_first`: the step tries it for the first time.
pub(super) fn course(
    rows: &[HardwareRow],
    order: &Order,
    node: &NodeName,
    is_first: bool,
) -> UpdateCourse {
    let mut course = UpdateCourse::default();
    for HardwareSetting { name, value, .. } in wanted(order) {
        let mut of_node = rows.iter().filter(|row| row.nodes.fit(node));
        let update = of_node.find_map(|row| row.updates.iter().find(|each| each.name == *name));
        let mut takes = true;
        match update.map(|update| (update.outcome, update)) {
            Some((UpdateOutcome::Unchanged, _)) => takes = false,
            Some((UpdateOutcome::SecondTry, _)) => takes = !is_first,
            Some((UpdateOutcome::TaskVanishes, _)) => course.vanishes = true,
            Some((UpdateOutcome::ControllerRestarts, update)) => course.later += update.delay,
            Some((UpdateOutcome::Refused, _)) => course.refused = Some(name.clone()),
            Some((UpdateOutcome::PartLost, update)) => course.settings.extend(update.lost.clone()),
            None => {}
        }
        if takes {
            let map = match name.starts_with("firmware.") {
                true => &mut course.firmware,
                false => &mut course.settings,
            };
            map.insert(name.clone(), value.clone());
        }
    }
    course
}
