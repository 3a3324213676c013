//! The steps as a graph, and how long the longest way through it takes.

use petgraph::graph::{DiGraph, NodeIndex};

use super::Plan;
use crate::step::{Step, StepIndex, StepKind, Wait};

/// The graph of a plan: an edge goes from a step to each that waits for it, and says for what. Node `i`
/// of the graph is step `i` of the plan.
#[must_use]
pub fn graph(plan: &Plan) -> DiGraph<StepIndex, Wait> {
    let edges = plan.steps.iter().map(|step| step.needs.len()).sum();
    let mut graph = DiGraph::with_capacity(plan.steps.len(), edges);
    for index in 0..plan.steps.len() {
        graph.add_node(StepIndex(index as u32));
    }
    for (index, step) in plan.steps.iter().enumerate() {
        for need in &step.needs {
            let (from, to) = (NodeIndex::new(need.step.0 as usize), NodeIndex::new(index));
            graph.add_edge(from, to, need.wait);
        }
    }
    graph
}

/// For each step that a wave begins with, and those of the same node after it, that wave.
#[must_use]
pub fn waves_of_steps(steps: &[Step]) -> Vec<Option<u32>> {
    let mut waves: Vec<Option<u32>> = Vec::with_capacity(steps.len());
    for step in steps {
        let wave = step.needs.iter().find_map(|need| {
            let index = need.step.0 as usize;
            let other = &steps.get(index)?.id;
            if other.kind == StepKind::StartWave && step.id.node.is_some() {
                return Some(need.step.0);
            }
            let is_own = other.node.is_some() && other.node == step.id.node;
            waves.get(index).copied().flatten().filter(|_| is_own)
        });
        waves.push(wave);
    }
    waves
}

/// The longest way through the steps by their timeouts, in seconds. A step that stands by takes the
/// time of the one that it stands in for, so it counts for nothing.
pub(super) fn longest_path(steps: &[Step]) -> u64 {
    let mut ends: Vec<u64> = Vec::with_capacity(steps.len());
    for step in steps {
        let needs = step.needs.iter();
        let begin = needs
            .filter_map(|need| ends.get(need.step.0 as usize))
            .max();
        let own = if step.standby { 0 } else { step.timeout };
        ends.push(begin.copied().unwrap_or_default().saturating_add(own));
    }
    ends.into_iter().max().unwrap_or_default()
}
