//! How much a plan of the documents reaches, against the most that the policy lets one plan reach.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Action, Change, ChangeKind};
use crate::design::{Guards, NodeName, Rung};

/// A limit of the policy that a plan exceeds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceeded {
    /// The rung: changes on it and above are counted.
    pub rung: Rung,
    /// The name of the limit: `machines`, `racks` or `etcd_members`.
    pub limit: Arc<str>,
    /// How many the plan reaches.
    pub reached: u64,
    /// The most.
    pub most: u64,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rung,
            limit,
            reached,
            most,
        } = self;
        write!(
            f,
            "{reached} {limit} on rung `{rung}` or above, and at most {most}"
        )
    }
}

/// The limits that the changes of an update exceed. An action is bounded by the nodes that it names.
pub(super) fn exceeded(action: Action, changes: &[Change], guards: &Guards) -> Vec<Exceeded> {
    let mut found = Vec::new();
    if action != Action::Update {
        return found;
    }
    for (rung, radius) in &guards.policy.blast_radius {
        let reached = changes.iter().filter(|change| {
            let is_held = change.blocked.is_some() || change.excluded || change.shown_only;
            !is_held && change.kind != ChangeKind::None && change.rung >= Some(*rung)
        });
        let nodes: BTreeSet<&NodeName> = reached.clone().map(|change| &change.node).collect();
        let racks = racks(reached, guards);
        let clusters = guards.etcd_clusters.iter();
        let members = clusters.flat_map(|cluster| &cluster.members);
        let members = members
            .filter(|member| nodes.contains(&member.node))
            .count();
        let table = [
            ("machines", nodes.len(), radius.machines),
            ("racks", racks, radius.racks),
            ("etcd_members", members, radius.etcd_members),
        ];
        found.extend(table.into_iter().filter_map(|(limit, reached, most)| {
            let (reached, most) = (reached as u64, most?);
            (reached > most).then(|| Exceeded {
                rung: *rung,
                limit: Arc::from(limit),
                reached,
                most,
            })
        }));
    }
    found
}

/// How many racks changes reach, as the documents have the machines, or as another revision whose limits hold has them: the
/// machines that a commit moves to one rack have not moved yet.
fn racks<'p>(changes: impl Iterator<Item = &'p Change> + Clone, guards: &'p Guards) -> usize {
    let now: BTreeSet<&Arc<str>> = changes
        .clone()
        .filter_map(|change| change.rack.as_ref())
        .collect();
    let mut before = BTreeSet::new();
    for change in changes {
        match guards.policy.elsewhere.get(&change.node) {
            Some(place) => before.extend(&place.racks),
            None => before.extend(&change.rack),
        }
    }
    now.len().max(before.len())
}
