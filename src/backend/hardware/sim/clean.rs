//! Cleaning: trueup's own clean steps, one after the other.
//!
//! Each step is recorded before it begins, so that a crash repeats at most that one, and each is
//! idempotent (ironic-cleaning).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::course::system_disk;
use super::pods::Course;
use super::run::permanent;
use super::{Effect, Machine, Stage};
use crate::backend::{ActError, Order};
use crate::design::NodeDesign;
use crate::lifecycle::{OWN_STEPS, OfferedStep, in_order};

/// How a cleaning goes: the steps that were asked for, else those that are automated. `lasts`: how long
/// each takes, in milliseconds.
pub(super) fn course(
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    now: u64,
    lasts: u64,
) -> Result<Course, ActError> {
    let parameters = order.step.parameters.as_deref();
    let offered = OWN_STEPS.map(OfferedStep::from);
    let asked = parameters.map_or(&[][..], |parameters| &parameters.clean_steps);
    let mut steps = Vec::new();
    for each in asked {
        let name = format!("{}.{}", each.interface, each.step);
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
    if asked.is_empty() {
        steps = match in_order(&offered, &BTreeMap::new()) {
            Ok(steps) => steps,
            Err(tie) => return permanent(tie.to_string()),
        };
    }
    let preserves = parameters.is_some_and(|parameters| parameters.preserve_local_storage);
    let system = system_disk(machine, node);
    let disks = machine.disks.iter().map(|disk| &disk.name);
    let erased: Vec<&Arc<str>> = disks
        .filter(|name| !preserves || Some(*name) == system.as_ref())
        .collect();
    let mut stages = Vec::new();
    let mut at = now;
    for step in &steps {
        let effect = Effect::CleanStepBegun(Arc::from(step.name()));
        stages.push(Stage { at, effect });
        at = at.saturating_add(lasts);
        if step.erases {
            let wiped = erased.iter().map(|name| Effect::WipedDisk((*name).clone()));
            stages.extend(wiped.map(|effect| Stage { at, effect }));
        }
    }
    Ok(Course {
        stages,
        ends: Some(at),
        effects: vec![Effect::Cleaned],
    })
}
