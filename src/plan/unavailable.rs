//! Which machines take places of the limits on machines out of service: those that are down already, those that this plan takes
//! out for good, and those that it takes out and builds again.

use rustc_hash::FxHashSet;

use super::ChangeKind;
use super::action::Action;
use super::item::Item;
use crate::design::{NodeDesign, NodeName};
use crate::guard::{PlaceLimit, WaveLimits};

/// Blocks what finds no place. A machine that is down itself takes no place that it does not have already, and leaves it
/// if the plan builds it or takes it away; one that the plan leaves down keeps its own. `position`: when the group of a machine has
/// its turn; `is_missed`: whether a machine is missed while it is out of service.
pub(super) fn judge<'i, 'l>(
    mut items: Vec<Item<'i>>,
    mut limits: WaveLimits<'l>,
    down: &[(&NodeDesign, &'static str)],
    (position, is_missed): (impl Fn(&NodeName) -> usize, impl Fn(&NodeName) -> bool),
) -> (Vec<Item<'i>>, WaveLimits<'l>) {
    let leaving = leaving(&items);
    for (node, why) in down
        .iter()
        .filter(|(node, _)| !leaving.contains(&node.name))
    {
        limits.hold(node, why);
    }
    let left_down = leave_down(&mut items, &mut limits, is_missed);
    let order = items.iter().enumerate();
    let order = order.filter(|(_, item)| takes_part(item) && !item.stays_down());
    let mut order: Vec<(usize, usize)> = order
        .map(|(at, item)| (position(item.subject.name), at))
        .collect();
    order.sort_unstable();
    for group in order.chunk_by(|(one, _), (other, _)| one == other) {
        let items_of = group.iter().map(|(_, at)| &items[*at]);
        let down = items_of.filter(|item| item.is_carried() && item.ends_being_down());
        for node in down.filter_map(|item| item.subject.design()) {
            limits.release(node);
        }
        for (_, at) in group {
            block(&mut items[*at], &limits, 1);
        }
    }
    for node in left_down {
        limits.release(node);
    }
    (items, limits)
}

/// Blocks the remediation of machines that serve and find no place under the numbers of the policy, `at_once` of which go down
/// together. What has failed takes no other place than it has.
pub(super) fn restart<'i>(
    mut items: Vec<Item<'i>>,
    mut limits: WaveLimits<'_>,
    down: &[(&NodeDesign, &'static str)],
    (at_once, is_missed): (usize, impl Fn(&NodeName) -> bool),
) -> Vec<Item<'i>> {
    for (node, why) in down {
        limits.hold(node, why);
    }
    let mut together = 0;
    let serves = |item: &&mut Item<'_>| {
        item.is_remediated_in_service() && item.is_carried() && is_missed(item.subject.name)
    };
    for item in items.iter_mut().filter(serves) {
        let Some(node) = item.subject.after else {
            continue;
        };
        // The defaults are those of changes: what a person holds for failed is brought back beside others that are down.
        match limits
            .refusal(node, 1)
            .filter(|refusal| refusal.flag.is_none())
        {
            Some(refusal) => item.block_as(&refusal.reason, None),
            None if together + 1 < at_once => {
                limits.hold(node, "going down before it");
                together += 1;
            }
            None => {}
        }
    }
    items
}

/// The limits that a run of what is carried out holds, so that a machine that does not come back keeps its place. What stays down has
/// its own as long as the plan is carried out, and what leaves the design is not missed.
pub(super) fn of_run<'i>(
    carried: impl Iterator<Item = &'i Item<'i>>,
    limits: &WaveLimits<'_>,
    action: Action,
) -> Vec<PlaceLimit> {
    if action == Action::Remediate {
        return Vec::new();
    }
    let machines = carried.filter(|item| takes_part(item) && !item.stays_down());
    limits.of_run(machines.filter_map(|item| {
        let before = item.subject.before.filter(|_| action != Action::Update);
        let node = item.subject.after.or(before)?;
        Some((node, item.subject.down().is_some()))
    }))
}

/// The machines that have left the design, and that the plan takes away with what they carry: they are missed no more.
fn leaving<'i>(items: &[Item<'i>]) -> FxHashSet<&'i NodeName> {
    let leaves = |item: &&Item<'_>| {
        item.change.kind == ChangeKind::Destroy && item.subject.after.is_none() && item.is_carried()
    };
    let leaving = items.iter().filter(leaves);
    leaving.map(|item| item.subject.name).collect()
}

/// Whether it is out of service for a time.
fn takes_part(item: &Item<'_>) -> bool {
    item.work.tears_down() || item.is_brought_back()
}

/// Gives places to machines that are taken out and stay down, one after the other; those that have one.
fn leave_down<'i>(
    items: &mut [Item<'i>],
    limits: &mut WaveLimits<'_>,
    is_missed: impl Fn(&NodeName) -> bool,
) -> Vec<&'i NodeDesign> {
    let is_new = |item: &Item<'_>| {
        let subject = &item.subject;
        let is_in_service = subject.is_recorded_deployed() && subject.down().is_none();
        item.is_carried() && is_in_service && item.stays_down() && is_missed(subject.name)
    };
    let mut more = items.iter().filter(|item| is_new(item)).count();
    let mut left_down: Vec<&NodeDesign> = Vec::new();
    for item in items.iter_mut().filter(|item| is_new(item)) {
        block(item, limits, more);
        if let (Some(node), Some(first)) = (item.subject.design(), left_down.first())
            && limits.is_in_another_domain(node, first)
        {
            let first = &first.name;
            let reason = format!("{first} goes down with it, and is in another failure domain");
            item.block_as(&reason, None);
        }
        let node = item.subject.design();
        if let Some(node) = node.filter(|_| item.change.blocked.is_none()) {
            limits.hold(node, "going down before it");
            left_down.push(node);
            more -= 1;
        }
    }
    left_down
}

/// Blocks a machine that is in service and finds no place.
fn block(item: &mut Item<'_>, limits: &WaveLimits<'_>, more: usize) {
    let Some(node) = item.subject.design() else {
        return;
    };
    if item.subject.down().is_none()
        && let Some(refusal) = limits.refusal(node, more)
    {
        item.block_as(&refusal.reason, refusal.flag.as_deref());
    }
}
