//! The course of a pod in a drain: by its label, and by the rules of the site.

use super::object::Pod;
use super::pods::{Fate, fate};
use crate::design::{DrainBehavior, DrainRules};

/// The course of a pod in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It is evicted, once those of lower orders are gone.
    Evicted(i32),
    /// It is not evicted: its end is waited for.
    Awaited,
    /// It stays by its label or by a rule.
    Skipped,
    /// It stays, since every drain leaves such pods.
    Stays,
}

impl Course {
    /// Whether a drain waits until it is gone.
    pub(super) fn leaves(self) -> bool {
        matches!(self, Self::Evicted(_) | Self::Awaited)
    }

    /// Its place: that of pods which are waited for is the one of pods without a rule.
    pub(super) fn order(self) -> i32 {
        match self {
            Self::Evicted(order) => order,
            Self::Awaited | Self::Skipped | Self::Stays => 0,
        }
    }
}

/// Decides what a drain does with a pod.
pub(super) fn course(rules: &DrainRules, pod: &Pod) -> Course {
    let fate = fate(pod);
    match fate {
        Fate::Mirror | Fate::DaemonSet => return Course::Stays,
        Fate::Evicted | Fate::Finished => {}
    }
    let pod = &pod.metadata;
    let has_ended = fate == Fate::Finished;
    match rules.behavior(&pod.namespace, &pod.labels, has_ended) {
        (DrainBehavior::Skip, _) => Course::Skipped,
        (DrainBehavior::WaitCompleted, _) => Course::Awaited,
        (DrainBehavior::Drain, order) => Course::Evicted(order),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_says_by_its_label_what_a_drain_does_with_it() {
        let found = |pod: Value| {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            course(&DrainRules::default(), &pod)
        };
        let labelled = |word: &str, phase: &str, owner: &str| {
            found(
                json!({"metadata": {"labels": {"cluster.x-k8s.io/drain": word},
                "ownerReferences": [{"kind": owner, "name": "x", "controller": true}]},
                "status": {"phase": phase}}),
            )
        };
        assert_eq!(labelled("skip", "Running", "ReplicaSet"), Course::Skipped);
        assert_eq!(
            labelled("wait-completed", "Running", "Job"),
            Course::Awaited
        );
        assert_eq!(
            labelled("wait-completed", "Succeeded", "Job"),
            Course::Evicted(0)
        );
        assert_eq!(labelled("other", "Running", "Job"), Course::Evicted(0));
        assert_eq!(labelled("skip", "Running", "DaemonSet"), Course::Stays);
        assert_eq!(found(json!({})), Course::Evicted(0));
    }
}
