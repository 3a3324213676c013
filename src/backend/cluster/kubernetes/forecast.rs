//! A forecast of the drain of each node, counted pod by pod while a list is read.
//!
//! Nothing of a pod is kept but what is counted or named, so that memory grows with nodes and with what
//! is worth a warning, not with pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::Exhausted;
use super::course::{Course, course};
use super::object::{PersistentVolume, Pod};
use super::pods::{Fate, claims_of, controller, fate, name, runs_etcd, top_owner};
use crate::design::{DrainRules, NodeName};
use crate::observed::{BlockedBudget, LocalData, NodePods, ObservedPods, PodName, pods_by_node};

/// The claims whose volumes lie on one node, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct LocalClaims(BTreeSet<(Arc<str>, Arc<str>)>);

impl LocalClaims {
    /// Takes a volume in.
    pub(super) fn take(&mut self, volume: PersistentVolume) {
        let spec = volume.spec;
        if spec.local.is_some() || spec.host_path.is_some() {
            self.0
                .insert((spec.claim_ref.namespace, spec.claim_ref.name));
        }
    }

    fn has(&self, pod: &Pod) -> bool {
        claims_of(pod).any(|claim| self.0.contains(&claim))
    }
}

/// The budgets that allow no disruption now, by namespace.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<Arc<str>, Vec<Exhausted>>);

impl FromIterator<Exhausted> for Budgets {
    fn from_iter<I: IntoIterator<Item = Exhausted>>(budgets: I) -> Self {
        let mut all: BTreeMap<Arc<str>, Vec<Exhausted>> = BTreeMap::new();
        for budget in budgets {
            all.entry(budget.namespace.clone())
                .or_default()
                .push(budget);
        }
        Self(all)
    }
}

impl Budgets {
    /// Those that hold a pod back.
    pub(super) fn of(&self, pod: &Pod) -> impl Iterator<Item = &Exhausted> {
        let here = self.0.get(&pod.metadata.namespace);
        here.into_iter()
            .flatten()
            .filter(|budget| budget.holds(pod))
    }
}

/// A budget, and the pods of a node that it holds.
#[derive(Debug)]
struct Blocked<'b> {
    budget: &'b Exhausted,
    pods: Vec<Arc<str>>,
}

/// Counts of a node's pods so far.
#[derive(Debug, Default)]
struct NodeForecast<'b> {
    pods: NodePods,
    blocked: BTreeMap<(&'b str, &'b str), Blocked<'b>>,
    uncontrolled: BTreeSet<PodName>,
    skipped: BTreeSet<PodName>,
    awaited: BTreeSet<PodName>,
    local: BTreeMap<(Arc<str>, &'static str), usize>,
}

/// The terms of a drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'b> {
    pub(super) budgets: &'b Budgets,
    pub(super) claims: &'b LocalClaims,
    pub(super) rules: &'b DrainRules,
}

/// The forecast of many nodes.
#[derive(Debug)]
pub(super) struct Forecast<'b> {
    terms: Terms<'b>,
    nodes: BTreeMap<NodeName, NodeForecast<'b>>,
}

impl<'b> Forecast<'b> {
    /// A forecast of these nodes; none of them has a pod yet.
    pub(super) fn new<'n>(nodes: impl Iterator<Item = &'n NodeName>, terms: Terms<'b>) -> Self {
        Self {
            terms,
            nodes: nodes
                .map(|node| (node.clone(), NodeForecast::default()))
                .collect(),
        }
    }

    /// Takes a pod of a node in; passed over if the node is not asked for.
    pub(super) fn take(&mut self, node: &NodeName, pod: &Pod) {
        let Some(seen) = self.nodes.get_mut(node) else {
            return;
        };
        seen.pods.runs_etcd |= runs_etcd(pod);
        match course(self.terms.rules, pod) {
            Course::Skipped => {
                seen.skipped.insert(name(pod));
                return;
            }
            Course::Awaited => {
                seen.awaited.insert(name(pod));
                return;
            }
            Course::Evicted(_) | Course::Stays => {}
        }
        match fate(pod) {
            Fate::Mirror => seen.pods.mirror += 1,
            Fate::DaemonSet => seen.pods.daemon_set += 1,
            Fate::Finished => seen.pods.finished += 1,
            Fate::Evicted => {
                seen.pods.evicted += 1;
                seen.take(pod, self.terms.budgets, self.terms.claims);
            }
        }
    }

    /// All of it.
    pub(super) fn finish(self) -> ObservedPods {
        let nodes = self.nodes.into_iter();
        pods_by_node(nodes.map(|(node, seen)| (node, seen.finish())))
    }
}

impl<'b> NodeForecast<'b> {
    fn take(&mut self, pod: &Pod, budgets: &'b Budgets, claims: &LocalClaims) {
        for budget in budgets.of(pod) {
            let blocked = self
                .blocked
                .entry((&budget.namespace, &budget.name))
                .or_insert_with(|| Blocked {
                    budget,
                    pods: Vec::new(),
                });
            blocked.pods.push(pod.metadata.name.clone());
        }
        if controller(pod).is_none() {
            self.uncontrolled.insert(name(pod));
        }
        let empty_dir = pod
            .spec
            .volumes
            .iter()
            .any(|volume| volume.empty_dir.is_some());
        let kinds = [
            (empty_dir, "emptyDir"),
            (claims.has(pod), LocalData::VOLUME),
        ];
        for kind in kinds
            .into_iter()
            .filter_map(|(has, kind)| has.then_some(kind))
        {
            *self.local.entry((top_owner(pod), kind)).or_default() += 1;
        }
    }

    fn finish(self) -> NodePods {
        let blocked = self
            .blocked
            .into_values()
            .map(|Blocked { budget, mut pods }| {
                pods.sort();
                BlockedBudget {
                    namespace: budget.namespace.clone(),
                    name: budget.name.clone(),
                    pods,
                    healthy: budget.healthy,
                    wanted: budget.wanted,
                }
            });
        let local = self.local.into_iter();
        NodePods {
            blocked: blocked.collect(),
            uncontrolled: self.uncontrolled.into_iter().collect(),
            skipped: self.skipped.into_iter().collect(),
            awaited: self.awaited.into_iter().collect(),
            local_data: local
                .map(|((owner, kind), pods)| LocalData {
                    owner,
                    kind: Arc::from(kind),
                    pods,
                })
                .collect(),
            ..self.pods
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::backend::cluster::kubernetes::budget::BudgetVersion;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn owned(name: &str, kind: &str, owner: &str, volumes: Value) -> Pod {
        pod(
            json!({"metadata": {"name": name, "namespace": "web", "uid": format!("uid-{name}"),
            "labels": {"app": "front"},
            "ownerReferences": [{"kind": kind, "name": owner, "controller": true}]},
            "spec": {"volumes": volumes}}),
        )
    }

    #[test]
    fn a_forecast_counts_what_a_drain_moves_and_names_what_it_loses_and_what_blocks_it() {
        let budget = json!({"metadata": {"name": "front", "namespace": "web"},
            "spec": {"selector": {"matchLabels": {"app": "front"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3}});
        let budget = serde_json::from_value(budget).unwrap();
        let budgets: Budgets = Exhausted::new(budget, BudgetVersion::V1)
            .into_iter()
            .collect();
        let mut claims = LocalClaims::default();
        for volume in [
            json!({"spec": {"local": {"path": "/d"}, "claimRef": {"namespace": "web", "name": "data-db-0"}}}),
            json!({"spec": {"hostPath": {}, "claimRef": {"namespace": "web", "name": "db-1-scratch"}}}),
            json!({"spec": {"csi": {}, "claimRef": {"namespace": "web", "name": "far"}}}),
        ] {
            claims.take(serde_json::from_value(volume).unwrap());
        }
        let (n1, n2, n3) = (
            NodeName::from("n1"),
            NodeName::from("n2"),
            NodeName::from("n3"),
        );
        let terms = Terms {
            budgets: &budgets,
            claims: &claims,
            rules: &DrainRules::default(),
        };
        let mut forecast = Forecast::new([&n1, &n2].into_iter(), terms);
        let skips = json!({"cluster.x-k8s.io/drain": "skip"});
        let waits = json!({"cluster.x-k8s.io/drain": "wait-completed"});
        for (name, labels) in [("kept", skips), ("job", waits)] {
            let metadata = json!({"name": name, "namespace": "ops", "labels": labels});
            forecast.take(&n1, &pod(json!({"metadata": metadata})));
        }
        let empty = json!([{"name": "tmp", "emptyDir": {}}, {"name": "tmp2", "emptyDir": {}}]);
        let claim =
            |name: &str| json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        for pod in [
            owned("b", "StatefulSet", "db", claim("data-db-0")),
            owned(
                "db-1",
                "StatefulSet",
                "db",
                json!([{"name": "scratch", "ephemeral": {}}]),
            ),
            owned("a", "StatefulSet", "db", claim("far")),
            owned("c", "ReplicaSet", "x", empty.clone()),
            owned("d", "DaemonSet", "net", empty),
            pod(json!({"metadata": {"name": "lone", "namespace": "dev", "uid": "u-9"}})),
            pod(
                json!({"metadata": {"name": "done", "uid": "u-8"}, "status": {"phase": "Succeeded"}}),
            ),
            pod(
                json!({"metadata": {"name": "api", "annotations": {"kubernetes.io/config.mirror": "x"}},
                "spec": {"containers": [{"name": "etcd"}]}}),
            ),
        ] {
            forecast.take(&n1, &pod);
            forecast.take(&n3, &pod);
        }
        let found = forecast.finish();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&n1, &n2]);
        assert_eq!(*found[&n2], NodePods::default());
        let seen = &found[&n1];
        assert_eq!(
            (seen.evicted, seen.daemon_set, seen.mirror, seen.finished),
            (5, 1, 1, 1)
        );
        assert!(seen.runs_etcd);
        let blocked: Vec<_> = seen
            .blocked
            .iter()
            .map(|each| (&*each.name, each.pods.len()))
            .collect();
        assert_eq!(blocked, [("front", 4)]);
        let names: Vec<_> = seen.blocked[0].pods.iter().map(|name| &**name).collect();
        assert_eq!(names, ["a", "b", "c", "db-1"]);
        assert_eq!((seen.blocked[0].healthy, seen.blocked[0].wanted), (2, 3));
        let lone: Vec<_> = seen.uncontrolled.iter().map(|pod| &*pod.name).collect();
        assert_eq!(lone, ["lone"]);
        let of_rules = [&seen.skipped, &seen.awaited].map(|pods| &*pods[0].name);
        assert_eq!(of_rules, ["kept", "job"]);
        let lost: Vec<_> = seen
            .local_data
            .iter()
            .map(|data| (&*data.owner, &*data.kind, data.pods))
            .collect();
        let expected = [
            ("ReplicaSet web/x", "emptyDir", 1),
            ("StatefulSet web/db", "local volume", 2),
        ];
        assert_eq!(lost, expected);
    }
}
