//! The volumes of a deploy, whatever makes them: those of the plan, which are those of the design.

use crate::backend::Order;
use crate::design::{HardwareSetting, HardwareValue, NodeDesign, Raid, Section};

/// The volumes and hot spares that a deploy makes; `None`: none.
///
/// # Errors
///
/// The plan names others than the design enforces: nothing is made then.
pub(super) fn wanted(order: &Order, node: &NodeDesign) -> Result<Option<Raid>, String> {
    let settings = order.step.given().settings();
    if settings.is_empty() {
        return Ok(None);
    }
    let enforced = node.hardware(Section::Raid);
    let is_same = |(setting, value): (&HardwareSetting, &HardwareValue)| {
        setting.name == value.name && setting.value == value.value
    };
    let is_all = settings.len() == enforced.len() && settings.iter().zip(&enforced).all(is_same);
    match node.enforced_raid().filter(|_| is_all) {
        Some(raid) => Ok(Some(raid)),
        None => Err("the plan makes other volumes than its Hardware documents enforce".to_owned()),
    }
}
