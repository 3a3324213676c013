//! The expected effects of a plan on workloads of its nodes, in lines.

use std::fmt::Write;

use crate::plan::{EtcdForecast, NodeForecast, Plan};
use crate::report::counted;
use crate::report::escape::visible;

/// Names that a line has before it only counts.
const MOST: usize = 4;

/// Nodes that have a line where not everything is shown.
const MOST_NODES: usize = 20;

/// One line a node, and one for what is created. If there are many nodes and not all is asked for, those whose
/// drain waits or loses something come first, and the others are counted.
pub(super) fn lines(plan: &Plan, full: bool) -> Vec<String> {
    let nodes = &plan.forecast.nodes;
    let (busy, idle): (Vec<_>, Vec<_>) = nodes
        .iter()
        .partition(|node| is_grave(node) || node.evicted > 0);
    let mut lines: Vec<String> = if full || nodes.len() <= MOST_NODES + 1 {
        busy.iter().copied().map(node).collect()
    } else {
        let (grave, light): (Vec<_>, Vec<_>) = busy.iter().partition(|node| is_grave(node));
        let all = [grave, light].concat();
        let shown = all.len().min(MOST_NODES);
        let mut lines: Vec<String> = all[..shown].iter().copied().map(node).collect();
        if shown < all.len() {
            lines.push(others(&all[shown..]));
        }
        lines
    };
    match idle[..] {
        [] => {}
        [one] => lines.push(format!("{}: no pods to evict", visible(one.node.as_str()))),
        [..] => lines.push(format!(
            "{}: no pods to evict",
            counted(idle.len(), "node", "nodes")
        )),
    }
    if plan.forecast.creates_daemon_set {
        lines.push("the DaemonSet that stops kubelets is missing, and is created".to_owned());
    }
    lines
}

/// Whether a drain waits for a budget, or loses something for good.
fn is_grave(node: &NodeForecast) -> bool {
    let is_light = node.blocked.is_empty() && node.uncontrolled.is_empty();
    let is_by_rule = !(node.skipped.is_empty() && node.awaited.is_empty());
    !is_light || is_by_rule || !node.local_data.is_empty()
}

/// The line for nodes without a line of their own.
fn others(rest: &[&NodeForecast]) -> String {
    let nodes = counted(rest.len(), "more node", "more nodes");
    let pods = rest.iter().map(|node| node.evicted).sum();
    let mut text = format!("… and {nodes}: evict {}", counted(pods, "pod", "pods"));
    let waiting = rest.iter().filter(|node| !node.blocked.is_empty()).count();
    if waiting > 0 {
        let _ = write!(
            text,
            "; budgets allow no disruption on {waiting} of them now"
        );
    }
    let loses =
        |node: &&&NodeForecast| !(node.uncontrolled.is_empty() && node.local_data.is_empty());
    let losing = rest.iter().filter(loses).count();
    if losing > 0 {
        let _ = write!(text, "; {losing} of them lose data or pods for good");
    }
    text.push_str("; --full shows all");
    text
}

/// The part of the summary about etcd: `touches etcd "kubernetes" (3 → 2 members meanwhile)`.
pub(super) fn etcd(plan: &Plan) -> Option<String> {
    let clusters: Vec<String> = plan.forecast.etcd.iter().map(cluster).collect();
    (!clusters.is_empty()).then(|| format!("touches etcd {}", clusters.join(", ")))
}

fn cluster(cluster: &EtcdForecast) -> String {
    let name = visible(cluster.cluster.as_str());
    let (now, meanwhile, after) = (cluster.now, cluster.meanwhile, cluster.after);
    match (meanwhile == after, after == now) {
        (true, _) => format!("\"{name}\" ({now} → {after} members)"),
        (false, true) => format!("\"{name}\" ({now} → {meanwhile} members meanwhile)"),
        (false, false) => {
            format!("\"{name}\" ({now} → {after} members, {meanwhile} meanwhile)")
        }
    }
}

fn node(node: &NodeForecast) -> String {
    let mut text = format!(
        "{}: evicts {}",
        visible(node.node.as_str()),
        counted(node.evicted, "pod", "pods")
    );
    for budget in &node.blocked {
        let _ = write!(
            text,
            "; budget {}/{} allows no disruption now ({} of {} wanted healthy): {}",
            visible(&budget.namespace),
            visible(&budget.name),
            budget.healthy,
            budget.wanted,
            listed(budget.pods.iter().map(|pod| visible(pod)))
        );
    }
    let rows = [
        ("waited for until they complete", &node.awaited),
        ("left where they are", &node.skipped),
        ("not started again", &node.uncontrolled),
    ];
    for (what, pods) in rows.into_iter().filter(|(_, pods)| !pods.is_empty()) {
        let pods = pods.iter();
        let pods = pods.map(|pod| format!("{}/{}", visible(&pod.namespace), visible(&pod.name)));
        let _ = write!(text, "; {what}: {}", listed(pods));
    }
    for data in &node.local_data {
        let _ = write!(
            text,
            "; loses {} of {} ({})",
            visible(&data.kind),
            visible(&data.owner),
            counted(data.pods, "pod", "pods")
        );
    }
    text
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let total = names.len();
    let shown: Vec<String> = names.take(MOST).collect();
    match total - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
