//! Other maintainers of the same nodes: conditions, leases and cordons of theirs and of trueup.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trueup::backend::{ActError, Look, Probe};
use trueup::design::NodeName;
use trueup::observed::{ClusterNode, Fact};
use trueup::step::StepKind;

use super::fixture::{RUN, permanent};
use super::{Fixture, parameters};

const CLUSTERS: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";
const LEASE: &str = "node-n1";

fn quick() -> Value {
    json!({"grace_period": 1})
}

/// The conditions that trueup has set on a node and that hold.
async fn holding(fixture: &Fixture) -> Vec<String> {
    let node = fixture.nodes().get("n1").await.unwrap();
    let conditions = node.status.and_then(|status| status.conditions);
    let ours = conditions.unwrap_or_default().into_iter();
    let ours =
        ours.filter(|each| each.reason.as_deref() == Some("TrueupRun") && each.status == "True");
    ours.map(|each| each.type_).collect()
}

async fn is_cordoned(fixture: &Fixture) -> bool {
    let spec = fixture.nodes().get("n1").await.unwrap().spec.unwrap();
    spec.unschedulable == Some(true)
}

/// The node as a plan sees it.
async fn seen(fixture: &Fixture) -> ClusterNode {
    let name = NodeName::from("n1");
    let nobody = BTreeSet::new();
    let seen = fixture.backend.observe(&nobody, Look::default());
    let Fact::Known(mut nodes) = seen.await.nodes else {
        panic!("the nodes are not known");
    };
    nodes.remove(&name).unwrap()
}

async fn drain(fixture: &Fixture, timeout: u64) -> Result<(), ActError> {
    fixture.act(StepKind::Drain, "n1", timeout, quick()).await
}

async fn uncordon(fixture: &Fixture) -> Result<(), ActError> {
    let ended = fixture.act(StepKind::Uncordon, "n1", 30, parameters());
    ended.await
}

#[tokio::test]
async fn a_node_is_handed_over_with_its_conditions_and_its_lease() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    let kubelets = fixture.play_kubelets();
    // Neither conditions nor leases may be written: the drain goes on as without.
    drain(&fixture, 20).await.unwrap();
    assert!(holding(&fixture).await.is_empty());
    uncordon(&fixture).await.unwrap();

    fixture.grant_leases().await;
    fixture.run("lone", "n1", json!({})).await;
    drain(&fixture, 20).await.unwrap();
    assert_eq!(
        holding(&fixture).await,
        ["Drained", "MaintenanceInProgress"]
    );
    let lease = fixture.lease(LEASE).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], format!("trueup/{RUN}"));
    assert_eq!(lease["metadata"]["ownerReferences"][0]["name"], "n1");

    // Its run ends, and the node stays cordoned.
    let (order, _) = fixture.order(StepKind::Drain, "n1", 20, quick());
    fixture.backend.leave_cordoned(&order).await;
    assert_eq!(holding(&fixture).await, ["Drained"]);
    assert!(fixture.lease(LEASE).await.is_none() && is_cordoned(&fixture).await);

    uncordon(&fixture).await.unwrap();
    assert!(holding(&fixture).await.is_empty() && !is_cordoned(&fixture).await);

    // A drain that fails is at work no more.
    fixture.run_stubborn("stuck", "n1").await;
    permanent(drain(&fixture, 4).await);
    assert!(holding(&fixture).await.is_empty() && is_cordoned(&fixture).await);
    assert!(fixture.lease(LEASE).await.is_none());
    kubelets.abort();
}

#[tokio::test]
async fn the_cordon_and_the_lease_of_another_maintainer_are_left_alone() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    fixture.grant_leases().await;
    drain(&fixture, 20).await.unwrap();
    // Another one lifts the cordon of trueup, whose conditions stay, and which says so.
    fixture.nodes().uncordon("n1").await.unwrap();
    let probe = fixture.probe(StepKind::Uncordon, "n1", parameters()).await;
    assert_eq!(probe, Probe::NotBegun);
    // And cordons it for itself: the annotation of the run is still there.
    fixture.nodes().cordon("n1").await.unwrap();
    let refused = permanent(uncordon(&fixture).await);
    assert!(refused.contains("was not cordoned by trueup"), "{refused}");
    assert!(is_cordoned(&fixture).await);
    assert_eq!(seen(&fixture).await.cordoned_by, None);
    fixture.nodes().uncordon("n1").await.unwrap();
    uncordon(&fixture).await.unwrap();
    assert!(holding(&fixture).await.is_empty());

    let now = jiff::Timestamp::now();
    let theirs: Value = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": "medik8s-leases"},
        "spec": {"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600,
            "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}")}});
    fixture.create(&theirs).await;
    let Err(ActError::Refused(refused)) = drain(&fixture, 20).await else {
        panic!("the drain was not refused");
    };
    assert!(
        refused.starts_with("Conflict: node `n1` cannot be drained: another maintainer is at work on it (lease of `node-maintenance` in `medik8s-leases` until "),
        "{refused}"
    );
    assert!(!is_cordoned(&fixture).await);
    assert_eq!(
        fixture.lease(LEASE).await.unwrap()["spec"]["holderIdentity"],
        "node-maintenance"
    );
    let told = seen(&fixture).await.maintenance.unwrap_or_default();
    assert!(told.starts_with("lease of `node-maintenance`"), "{told}");
}
