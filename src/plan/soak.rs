//! The soaks that earlier runs owe: machines that came back in a wave whose soak has not succeeded since.
//!
//! What was not found healthy is watched again before the next wave begins, and no run succeeds without it.

use rustc_hash::FxHashSet;

use super::action::Action;
use super::input::Input;
use super::item::Item;
use super::work::NodeWork;
use crate::design::{NodeDesign, NodeName};
use crate::record::{Join, NodeRecord, Phase};

/// A machine whose soak is owed.
pub(super) struct OwedSoak<'a> {
    pub(super) node: &'a NodeDesign,
    /// It had joined its cluster, so that its node is watched.
    pub(super) is_joined: bool,
    /// This plan brings it back first, so that it is watched behind that.
    pub(super) is_repaired: bool,
}

/// The machines whose soak is owed, if the guards have one and the action takes machines out of service in waves. Those that
/// this plan takes out of service or builds have the soak of their new wave, and those that are set aside have none until they are
/// back in service.
pub(super) fn owed<'a>(
    input: &Input<'a>,
    left_out: &FxHashSet<&NodeName>,
    item: impl Fn(&NodeName) -> Option<&'a Item<'a>>,
) -> Vec<OwedSoak<'a>> {
    let has_waves = matches!(input.request.action, Action::Update | Action::Redeploy);
    if !has_waves || input.after.guards().policy.soak.seconds == 0 {
        return Vec::new();
    }
    let one = |record: &'a NodeRecord| {
        record.soaking.as_ref()?;
        let node = input.after.nodes.get(&record.node)?;
        let is_reserved = input.reservations.of(record.node.as_str()).is_some();
        let is_aside = is_reserved || record.retired.is_some() || record.maintenance.is_some();
        if is_aside || left_out.contains(&record.node) {
            return None;
        }
        let item = item(&record.node);
        let work = item.map(|item| &item.work);
        let is_rebuilt =
            |work: &NodeWork| work.tears_down() || work.prepare || work.deploy || work.destroy;
        if work.is_some_and(is_rebuilt) {
            return None;
        }
        let group = item.and_then(|item| item.change.group.as_ref());
        let rejoins = work.is_some_and(|work| work.rejoins.is_some());
        let is_repaired = group.is_some() && (rejoins || work.is_some_and(|work| work.power_on));
        (is_repaired || record.phase == Phase::Deployed).then(|| OwedSoak {
            node,
            // A wait shows of what it waits for whether it is back.
            is_joined: record.join == Some(Join::Joined) && !(is_repaired && rejoins),
            is_repaired,
        })
    };
    input.records.values().filter_map(one).collect()
}
