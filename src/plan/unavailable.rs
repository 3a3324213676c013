//! Machines that are out of service already take places of the limits on those that a plan takes out.

use rustc_hash::FxHashSet;

use super::item::Item;
use crate::design::{NodeDesign, NodeName};
use crate::guard::WaveLimits;

/// Counts the machines that are down and that this plan does not tear down, and blocks those that find
/// no place beside them. A machine that is down itself takes no place that it does not have already.
pub(super) fn judge<'i, 'l>(
    mut items: Vec<Item<'i>>,
    mut limits: WaveLimits<'l>,
    down: &[(&NodeDesign, &'static str)],
) -> (Vec<Item<'i>>, WaveLimits<'l>) {
    let tears_down = |item: &&Item<'_>| item.work.tears_down() && item.change.blocked.is_none();
    let leaving: FxHashSet<&NodeName> = items
        .iter()
        .filter(tears_down)
        .map(|item| item.subject.name)
        .collect();
    for (node, why) in down {
        if !leaving.contains(&node.name) {
            limits.hold(node, why);
        }
    }
    for item in items.iter_mut().filter(|item| item.work.tears_down()) {
        let Some(node) = item.subject.after.or(item.subject.before) else {
            continue;
        };
        if item.subject.down().is_none()
            && let Some(refusal) = limits.refusal(node)
        {
            item.block_as(&refusal.reason, refusal.flag.as_deref());
        }
    }
    (items, limits)
}
