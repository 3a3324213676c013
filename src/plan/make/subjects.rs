//! All that is known of each node, put together from design, records and observed state.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::design::{Design, MergeJoin, NodeDesign, NodeName};
use crate::observed::{Fact, NodePods, ObservedNode};
use crate::plan::asked::BY_HAND;
use crate::plan::input::Input;
use crate::plan::rules::Retired;
use crate::plan::subject::{Membership, Observation, Subject};
use crate::record::NodeRecord;

/// Goes through all nodes, in the order of their names, with all that is known of each.
pub(super) struct Subjects<'a> {
    input: &'a Input<'a>,
    after: MergeJoin<'a, Arc<NodeDesign>>,
    records: MergeJoin<'a, NodeRecord>,
    seen: Option<MergeJoin<'a, Box<ObservedNode>>>,
    pods: Option<MergeJoin<'a, Arc<NodePods>>>,
    /// The nodes of the designs that were applied, by revision.
    applied: BTreeMap<&'a str, (&'a Design, MergeJoin<'a, Arc<NodeDesign>>)>,
    labelled: Labelled,
    has_cluster: bool,
}

/// Which Kubernetes nodes have the labels of their design.
#[derive(Default)]
struct Labelled {
    /// Where labels that nodes have in common, and labels of designs, are in memory, of which all of the latter are
    /// among the former: nearly all nodes of a site are such, and have dozens of labels.
    known: FxHashSet<(usize, usize)>,
}

impl Labelled {
    fn is_so(&mut self, after: Option<&NodeDesign>, machine: Option<&ObservedNode>) -> bool {
        let (Some(after), Some(machine)) = (after, machine) else {
            return false;
        };
        let Fact::Known(Some(node)) = &machine.cluster else {
            return false;
        };
        let places = (node.labels.place(), Arc::as_ptr(&after.labels).addr());
        if self.known.contains(&places) {
            return true;
        }
        if node.labels.to_common().has_all(&after.labels) {
            return self.known.insert(places);
        }
        node.labels.has_all(&after.labels)
    }
}

impl<'a> Subjects<'a> {
    pub(super) fn of(input: &'a Input<'a>) -> Self {
        let applied = input.designs.iter().map(|(revision, design)| {
            let nodes = MergeJoin::of(&design.nodes);
            (&**revision, (&**design, nodes))
        });
        Self {
            applied: applied.collect(),
            input,
            after: MergeJoin::of(&input.after.nodes),
            records: MergeJoin::of(input.records),
            seen: input.observations.map(|seen| MergeJoin::of(&seen.nodes)),
            pods: input.observations.map(|seen| MergeJoin::of(&seen.pods)),
            labelled: Labelled::default(),
            has_cluster: has_cluster(input),
        }
    }

    pub(super) fn get(&mut self, name: &'a NodeName) -> Subject<'a> {
        let input = self.input;
        let record = self.records.get(name.as_str());
        let revision = record.and_then(|record| record.revision.as_deref());
        let old = revision.and_then(|revision| self.applied.get_mut(revision));
        let before = old.and_then(|(_, nodes)| nodes.get(name.as_str()));
        let accepted = record.and_then(|record| record.accepted.as_ref());
        let installed = match accepted {
            None => before,
            Some(accepted) => {
                let design = input.designs.get(&accepted.revision);
                design.and_then(|design| design.nodes.get(name))
            }
        };
        let seen = self.seen.as_mut();
        let seen = seen.map(|seen| seen.get(name.as_str()).map(|node| &**node));
        let after = self.after.get(name.as_str()).map(|node| &**node);
        let machine = seen.flatten();
        let pods = self.pods.as_mut();
        let pods = pods.map(|pods| pods.get(name.as_str()));
        let observations = input.observations;
        Subject {
            name,
            after,
            before: before.map(|node| &**node),
            installed: installed.map(|node| &**node),
            record,
            machine,
            seen: match seen {
                None => Observation::NotAsked,
                Some(node) => Observation::of(node, record),
            },
            membership: match seen {
                None => Membership::NotAsked,
                Some(node) => membership(self.has_cluster, node),
            },
            is_labelled: self.labelled.is_so(after, machine),
            pods: pods.flatten().map(|pods| &**pods),
            remediation: observations.and_then(|observations| observations.remediation.get(name)),
        }
    }
}

/// Whether the site has a Kubernetes cluster that can be observed.
pub(super) fn has_cluster(input: &Input<'_>) -> bool {
    let named = || {
        let backends = input.after.guards().backends.data.as_ref();
        backends.is_some_and(|data| data.at(&["clusters", "kubernetes"]).is_some())
    };
    let seen = input.observations;
    seen.is_some_and(|seen| seen.cluster.is_some()) || named()
}

/// How a node that was asked for stands to the cluster.
pub(super) fn membership(has_cluster: bool, seen: Option<&ObservedNode>) -> Membership<'_> {
    if !has_cluster {
        return Membership::NoCluster;
    }
    match seen.map(|node| &node.cluster) {
        None => Membership::Unseen("it was not observed"),
        Some(Fact::Unknown(reason)) => Membership::Unseen(reason),
        Some(Fact::Known(None)) => Membership::Out,
        Some(Fact::Known(Some(node))) => Membership::In(node),
    }
}

/// How each node stands to retirement; those that have nothing to do with it are not in it.
pub(super) fn retirements<'a>(input: &Input<'a>) -> FxHashMap<&'a NodeName, Retired<'a>> {
    let mut result = FxHashMap::default();
    let entries = input.after.retired(&input.options.as_of);
    let mut records = MergeJoin::of(input.records);
    let mut seen = input.observations.map(|seen| MergeJoin::of(&seen.nodes));
    for name in input.after.nodes.keys() {
        if let Some(entry) = entries.get(name) {
            result.insert(name, Retired::By(entry));
            continue;
        }
        let record = records.get(name.as_str());
        let seen = seen.as_mut().and_then(|seen| seen.get(name.as_str()));
        let flagged = seen.is_some_and(|node| node.retired.is_some());
        let recorded = record.and_then(|record| record.retired.as_deref());
        let by_hand = recorded.is_some_and(|reason| reason.starts_with(BY_HAND));
        if recorded.is_some() && !by_hand {
            result.insert(name, Retired::NoLonger);
        } else if flagged || by_hand {
            result.insert(name, Retired::ByHand);
        }
    }
    result
}
