//! Conditions of a node that tell of maintenance (KEP-5683): set for others, and honoured if others have set them.
//!
//! They tell, and hold nothing: a server or an account that does not take them is no reason to stop. A node that is made anew
//! has none.

use std::sync::Arc;

use serde_json::{Value, json};

use super::node_step::NodeStep;
use super::object::{Node, Status};

/// The reason of conditions that trueup has set.
pub(super) const OURS: &str = "TrueupRun";

/// Work on the node is planned.
const PLANNED: &str = "MaintenancePlanned";
/// Its pods are being evicted.
const DRAINING: &str = "DrainInProgress";
/// It is empty.
const DRAINED: &str = "Drained";
/// It is worked on.
const IN_PROGRESS: &str = "MaintenanceInProgress";

/// How far the work on a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maintenance {
    /// Its pods are being evicted.
    Draining,
    /// It is empty, and worked on.
    Drained,
    /// It is cordoned, and not worked on any more.
    Left,
    /// It is in service again.
    Over,
}

impl Maintenance {
    /// The conditions, each with whether it holds; one that is not named stays as it is.
    fn conditions(self) -> impl Iterator<Item = (&'static str, bool)> {
        let (draining, drained, worked_on) = match self {
            Self::Draining => (true, Some(false), true),
            Self::Drained => (false, Some(true), true),
            // No pods come to a node that is cordoned.
            Self::Left => (false, None, false),
            Self::Over => (false, Some(false), false),
        };
        let drained = drained.map(|drained| (DRAINED, drained));
        let others = [(PLANNED, false), (DRAINING, draining)];
        let others = others.into_iter().chain(drained);
        others.chain([(IN_PROGRESS, worked_on)])
    }
}

/// The condition, in words, by which another maintainer tells that it is at work on a node. One that is only planned, or a node that
/// was left empty, is no obstacle.
pub(super) fn of_others(status: &Status) -> Option<Arc<str>> {
    let kinds = [IN_PROGRESS, DRAINING];
    let mut found = kinds.iter().filter_map(|kind| {
        let mut all = status.conditions.iter();
        all.find(|each| &*each.kind == *kind && &*each.status == "True" && &*each.reason != OURS)
    });
    let condition = found.next()?;
    Some(format!("condition `{}`", condition.kind).into())
}

/// Whether a condition of trueup holds.
pub(super) fn are_left(status: &Status) -> bool {
    let kinds = [PLANNED, DRAINING, DRAINED, IN_PROGRESS];
    let mut ours = status
        .conditions
        .iter()
        .filter(|each| &*each.reason == OURS);
    ours.any(|each| &*each.status == "True" && kinds.contains(&&*each.kind))
}

/// Sets the conditions of a node. What others have set stays, and where all are unknown and none is to hold, nothing is written.
pub(super) async fn set(step: &NodeStep<'_>, node: &Node, maintenance: Maintenance) {
    let Some(patch) = patch(node, maintenance, step.order.run.as_str()) else {
        return;
    };
    // A server that does not take them, or an account that may not write them, loses the word and nothing else.
    let _ = step.patch_status(&patch).await;
}

fn patch(node: &Node, maintenance: Maintenance, run: &str) -> Option<Value> {
    let known = |kind: &str| {
        let mut all = node.status.conditions.iter();
        all.find(|each| &*each.kind == kind)
    };
    let changed = maintenance
        .conditions()
        .filter(|(kind, holds)| match known(kind) {
            Some(other) if &*other.reason != OURS => false,
            Some(ours) => (&*ours.status == "True") != *holds,
            None => *holds,
        });
    let changed: Vec<Value> = changed
        .map(|(kind, holds)| {
            json!({
                "type": kind,
                "status": if holds { "True" } else { "False" },
                "reason": OURS,
                "message": format!("run {run} of trueup"),
            })
        })
        .collect();
    (!changed.is_empty()).then(|| json!({"status": {"conditions": changed}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(conditions: &str) -> Node {
        serde_json::from_str(&format!(r#"{{"status": {{"conditions": {conditions}}}}}"#)).unwrap()
    }

    fn set_to(node: &Node, maintenance: Maintenance) -> Vec<String> {
        let patch = patch(node, maintenance, "R1").unwrap_or_default();
        let all = patch["status"]["conditions"].as_array().cloned();
        let all = all.unwrap_or_default().into_iter();
        all.map(|each| format!("{} {}", each["type"], each["status"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn conditions_follow_the_work_and_those_of_others_stay() {
        let none = node("[]");
        assert_eq!(
            set_to(&none, Maintenance::Draining),
            ["DrainInProgress True", "MaintenanceInProgress True"]
        );
        assert!(set_to(&none, Maintenance::Over).is_empty());
        let ours = |kind: &str| {
            format!(r#"{{"type": "{kind}", "status": "True", "reason": "TrueupRun"}}"#)
        };
        let draining = format!(
            "[{}, {}]",
            ours("DrainInProgress"),
            ours("MaintenanceInProgress")
        );
        let draining = node(&draining);
        assert_eq!(
            set_to(&draining, Maintenance::Drained),
            ["DrainInProgress False", "Drained True"]
        );
        assert_eq!(
            set_to(&draining, Maintenance::Over),
            ["DrainInProgress False", "MaintenanceInProgress False"]
        );
        assert_eq!(
            set_to(&draining, Maintenance::Left),
            ["DrainInProgress False", "MaintenanceInProgress False"]
        );
        let drained = format!("[{}, {}]", ours("Drained"), ours("MaintenanceInProgress"));
        let drained = node(&drained);
        assert_eq!(
            set_to(&drained, Maintenance::Left),
            ["MaintenanceInProgress False"]
        );
        assert!(are_left(&drained.status) && !are_left(&none.status));
        assert_eq!(of_others(&draining.status), None);
        let theirs = |kind: &str, status: &str| {
            node(&format!(
                r#"[{{"type": "{kind}", "status": "{status}", "reason": "NodeUpgrade"}}]"#
            ))
        };
        let upgrade = theirs("MaintenanceInProgress", "True");
        assert!(!are_left(&upgrade.status));
        assert!(set_to(&upgrade, Maintenance::Left).is_empty());
        assert_eq!(
            of_others(&upgrade.status).as_deref(),
            Some("condition `MaintenanceInProgress`")
        );
        assert_eq!(
            set_to(&upgrade, Maintenance::Draining),
            ["DrainInProgress True"]
        );
        assert_eq!(of_others(&theirs("DrainInProgress", "False").status), None);
        assert_eq!(
            of_others(&theirs("MaintenancePlanned", "True").status),
            None
        );
        assert_eq!(of_others(&theirs("Drained", "True").status), None);
    }
}
