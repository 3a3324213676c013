//! What a plan is expected to do to what runs on its nodes, in lines.

use std::fmt::Write;

use crate::plan::{EtcdForecast, NodeForecast, Plan};
use crate::report::counted;
use crate::report::escape::visible;

/// Names that a line has before it only counts.
const MOST: usize = 4;

/// One line a node, and one for what is created.
pub(super) fn lines(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.forecast.nodes.iter().map(node).collect();
    if plan.forecast.creates_daemon_set {
        lines.push("the DaemonSet that stops kubelets is not there, and is created".to_owned());
    }
    lines
}

/// What the summary says of etcd: `touches etcd "kubernetes" (3 → 2 members meanwhile)`.
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
    if !node.uncontrolled.is_empty() {
        let pods = node.uncontrolled.iter();
        let pods = pods.map(|pod| format!("{}/{}", visible(&pod.namespace), visible(&pod.name)));
        let _ = write!(text, "; nobody starts again {}", listed(pods));
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
