//! How much one plan reaches, counted again.

use std::collections::BTreeSet;

use super::rule::Found;
use super::view::View;
use crate::plan::Action;

/// A plan of the documents that reaches more than the policy lets one plan reach is shown with that.
pub(super) fn radius(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let plan = view.plan;
    let mut expected: BTreeSet<(&str, &str, u64, u64)> = BTreeSet::new();
    for (rung, most) in &guards.policy.blast_radius {
        if plan.request.action != Action::Update {
            continue;
        }
        let (mut machines, mut racks) = (BTreeSet::new(), BTreeSet::new());
        // As another revision whose limits hold has them.
        let mut racks_elsewhere: BTreeSet<&str> = BTreeSet::new();
        for (change, _) in view.worked_on() {
            if change.rung.is_some_and(|own| own >= *rung) {
                machines.insert(change.node.as_str());
                racks.extend(change.rack.as_deref());
                match guards.policy.elsewhere.get(change.node.as_str()) {
                    None => racks_elsewhere.extend(change.rack.as_deref()),
                    Some(moved) => racks_elsewhere.extend(moved.racks.iter().map(|rack| &**rack)),
                }
            }
        }
        let mut members = 0;
        for cluster in &guards.etcd_clusters {
            let of_plan = |node: &str| machines.contains(node);
            members += cluster
                .members
                .iter()
                .filter(|each| of_plan(each.node.as_str()))
                .count();
        }
        let limits = [
            ("machines", machines.len(), most.machines),
            ("racks", racks.len().max(racks_elsewhere.len()), most.racks),
            ("etcd_members", members, most.etcd_members),
        ];
        for (name, reached, most) in limits {
            let reached = reached as u64;
            if let Some(most) = most.filter(|most| reached > *most) {
                expected.insert((rung.as_str(), name, reached, most));
            }
        }
    }
    let exceeded = plan.guards.exceeded.iter();
    let shown = exceeded.map(|each| (each.rung.as_str(), &*each.limit, each.reached, each.most));
    let shown: BTreeSet<_> = shown.collect();
    for (rung, limit, reached, most) in expected.symmetric_difference(&shown) {
        let what = format!(
            "it is shown wrong that {reached} {limit} on rung `{rung}` are more than {most}"
        );
        found.add([], what);
    }
}
