//! Which parts wait for which: the needs of steps, and what must not happen at the same time.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::design::{ClusterName, NodeName};
use crate::plan::Plan;
use crate::step::{Step, StepKind};

/// A thing that two parts must not work on at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Exclusive<'p> {
    /// A node.
    Node(&'p NodeName),
    /// The members of an etcd cluster.
    Members(&'p ClusterName),
    /// The machines that are being remediated, of which only so many may be away.
    Remediations,
}

/// The parts that held something, and the last of them.
#[derive(Default)]
struct Holders<'p> {
    known: FxHashSet<(Exclusive<'p>, u32)>,
    last: FxHashMap<Exclusive<'p>, u32>,
}

/// All pairs of parts of which the second waits for the first, sorted.
pub(super) fn between(plan: &Plan, part_of: &[Option<u32>]) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    let mut holders = Holders::default();
    for (step, part) in plan.steps.iter().zip(part_of) {
        let Some(part) = *part else {
            continue;
        };
        let needs = step.needs.iter();
        let others = needs.filter_map(|need| part_of.get(need.step.0 as usize).copied().flatten());
        edges.extend(others.map(|other| (other, part)));
        for exclusive in held(step) {
            if holders.known.insert((exclusive, part))
                && let Some(before) = holders.last.insert(exclusive, part)
            {
                edges.push((before, part));
            }
        }
    }
    edges.retain(|(one, other)| one != other);
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn held(step: &Step) -> impl Iterator<Item = Exclusive<'_>> {
    let kind = step.id.kind;
    let members = match kind {
        StepKind::RemoveEtcd => &**step.given().etcd_members(),
        _ => &[],
    };
    let remediations = (kind == StepKind::Remediate).then_some(Exclusive::Remediations);
    let node = step.id.node.as_ref().map(Exclusive::Node);
    node.into_iter()
        .chain(
            members
                .iter()
                .map(|member| Exclusive::Members(&member.cluster)),
        )
        .chain(remediations)
}
