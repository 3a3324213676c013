//! PodDisruptionBudgets: whether one allows a disruption now, and whether it holds a pod.

use std::sync::Arc;

use kube::core::{Selector, SelectorExt};

use super::object::{Budget, Pod};
use super::pods::{Fate, fate};

/// In which version of its API a server has budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetVersion {
    /// Since 1.21.
    V1,
    /// Until 1.24.
    V1Beta1,
}

impl BudgetVersion {
    /// The collection of the budgets of a namespace or, if it is empty, of all.
    pub(super) fn collection(self, namespace: &str) -> String {
        let version = match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        };
        let within = match namespace {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        format!("/apis/policy/{version}/{within}poddisruptionbudgets")
    }
}

/// Which pods of its namespace a budget is about; `None`: none at all.
///
/// Without a selector it holds none; an empty one holds every pod of its namespace, but none in `v1beta1`.
pub(super) fn selector(budget: Budget, version: BudgetVersion) -> Option<Selector> {
    let selector = Selector::try_from(budget.spec.selector?).ok()?;
    let is_empty = selector.selects_all() && version == BudgetVersion::V1Beta1;
    (!is_empty).then_some(selector)
}

/// A budget that allows no disruption now.
#[derive(Debug)]
pub(super) struct Exhausted {
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
    /// Healthy pods now.
    pub(super) healthy: u32,
    /// Healthy pods wanted.
    pub(super) wanted: u32,
    selector: Selector,
    /// Pods that are not ready may be evicted all the same.
    spares_unready: bool,
}

impl Exhausted {
    /// The budget, if it allows no disruption now and can hold a pod at all.
    pub(super) fn new(budget: Budget, version: BudgetVersion) -> Option<Self> {
        if budget.status.disruptions_allowed > 0 {
            return None;
        }
        let count = |count: i64| u32::try_from(count).unwrap_or_default();
        Some(Self {
            namespace: budget.metadata.namespace.clone(),
            name: budget.metadata.name.clone(),
            healthy: count(budget.status.current_healthy),
            wanted: count(budget.status.desired_healthy),
            spares_unready: &*budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
            selector: selector(budget, version)?,
        })
    }

    /// Whether the API server evicts pods that are not ready: always, or if enough are healthy without them.
    fn lets_unready_go(&self) -> bool {
        self.spares_unready || (self.wanted > 0 && self.healthy >= self.wanted)
    }

    /// Whether it holds this pod back; `pod` is of its namespace.
    pub(super) fn holds(&self, pod: &Pod) -> bool {
        fate(pod) == Fate::Evicted
            && pod.metadata.deletion_timestamp.is_none()
            // What has not started is evicted without regard to budgets.
            && &*pod.status.phase != "Pending"
            && (pod.status.is_ready() || !self.lets_unready_go())
            && self.selector.matches(&pod.metadata.labels)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn holds(selector: &Value, policy: Option<&str>, version: BudgetVersion, pod: &Value) -> bool {
        let budget = json!({"metadata": {"name": "front", "namespace": "web"},
            "spec": {"selector": selector, "unhealthyPodEvictionPolicy": policy},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2}});
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let budget = serde_json::from_value(budget).unwrap();
        Exhausted::new(budget, version).is_some_and(|budget| budget.holds(&pod))
    }

    #[test]
    fn a_budget_holds_what_its_selector_selects_as_its_version_says() {
        use BudgetVersion::{V1, V1Beta1};
        let front = json!({"metadata": {"labels": {"app": "front"}}});
        let ended =
            json!({"metadata": {"labels": {"app": "front"}}, "status": {"phase": "Failed"}});
        let going = json!({"metadata": {"labels": {"app": "front"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let labels = json!({"matchLabels": {"app": "front"}});
        let expression =
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["back"]}]});
        let table = [
            (&labels, None, V1, &front, true),
            (&labels, None, V1Beta1, &front, true),
            (&labels, None, V1, &ended, false),
            (&labels, None, V1, &going, false),
            (&labels, Some("IfHealthyBudget"), V1, &front, true),
            (&labels, Some("AlwaysAllow"), V1, &front, false),
            (&expression, None, V1, &front, true),
            (&json!({}), None, V1, &front, true),
            (&json!({}), None, V1Beta1, &front, false),
            (&Value::Null, None, V1, &front, false),
        ];
        for (selector, policy, version, pod, expected) in table {
            let found = holds(selector, policy, version, pod);
            assert_eq!(found, expected, "{selector} {policy:?} {version:?} {pod}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_is_held_only_where_too_few_others_are_healthy() {
        let unready = json!({"metadata": {"labels": {"app": "front"}}});
        let pending =
            json!({"metadata": {"labels": {"app": "front"}}, "status": {"phase": "Pending"}});
        let ready = json!({"metadata": {"labels": {"app": "front"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        for (healthy, wanted, pod, expected) in [
            (2, 2, &unready, false),
            (2, 2, &ready, true),
            (1, 2, &unready, true),
            (0, 0, &unready, true),
            (1, 2, &pending, false),
        ] {
            let budget = json!({"spec": {"selector": {}},
                "status": {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": wanted}});
            let budget = serde_json::from_value(budget).unwrap();
            let budget = Exhausted::new(budget, BudgetVersion::V1).unwrap();
            let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(budget.holds(&pod), expected, "{healthy} of {wanted}");
        }
    }

    #[test]
    fn a_budget_that_allows_a_disruption_holds_nothing() {
        let budget = json!({"spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}});
        let budget = serde_json::from_value(budget).unwrap();
        assert!(Exhausted::new(budget, BudgetVersion::V1).is_none());
    }
}
