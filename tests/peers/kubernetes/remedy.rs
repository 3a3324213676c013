//! What a remediation does to a node of a real cluster: deleted as it is, given back what it carried, put out
//! of service and into it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trueup::backend::ActError;
use trueup::design::NodeName;
use trueup::step::StepKind;

use super::Fixture;

const CLUSTERS: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";

async fn patch(fixture: &Fixture, node: &str, patch: Value) {
    let parameters = PatchParams::default();
    let nodes = fixture.nodes();
    nodes
        .patch(node, &parameters, &Patch::Merge(patch))
        .await
        .unwrap();
}

/// A node that carries something of everything; its UID.
async fn laden(fixture: &Fixture, node: &str) -> Arc<str> {
    let uid = fixture.register(node).await;
    patch(fixture, node, json!({
        "metadata": {"labels": {"role": "storage", "zone": "a"}, "annotations": {"note": "mine"}},
        "spec": {"unschedulable": true, "taints": [
            {"key": "dedicated", "value": "storage", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
    }))
    .await;
    uid
}

fn of(uid: &Arc<str>) -> Value {
    json!({"node_uid": uid.clone(), "machine_is_off": true})
}

async fn whole(fixture: &Fixture, node: &str) -> Value {
    serde_json::to_value(fixture.nodes().get(node).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_node_made_anew_gets_what_the_one_before_carried_and_keeps_what_it_has() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let uid = laden(&fixture, "n1").await;
    fixture.run("web-1", "n1", json!({})).await;
    let name = NodeName::from("n1");
    let live = fixture.backend.node(&name).await.unwrap().unwrap();
    assert_eq!(live.uid, uid);
    assert!(live.ready && !live.out_of_service);
    let taints: Vec<&str> = live.backup.taints.iter().map(|taint| &*taint.key).collect();
    assert_eq!(
        taints,
        ["dedicated"],
        "what the cluster sets itself is not kept"
    );

    // Deleted as it is, pods and all, and only this one.
    let other = Arc::from("00000000-0000-0000-0000-000000000000");
    fixture
        .act(StepKind::RemoveFromCluster, "n1", 30, of(&other))
        .await
        .unwrap();
    assert!(fixture.backend.node(&name).await.unwrap().is_some());
    fixture
        .act(StepKind::RemoveFromCluster, "n1", 30, of(&uid))
        .await
        .unwrap();
    assert_eq!(fixture.backend.node(&name).await.unwrap(), None);

    let new = fixture.register("n1").await;
    patch(
        &fixture,
        "n1",
        json!({"metadata": {"labels": {"zone": "b"}}}),
    )
    .await;
    let parameters = json!({"node_uid": new, "backup": live.backup});
    for _ in 0..2 {
        fixture
            .act(StepKind::RestoreNode, "n1", 30, parameters.clone())
            .await
            .unwrap();
    }
    let node = whole(&fixture, "n1").await;
    let labels: BTreeMap<String, String> =
        serde_json::from_value(node["metadata"]["labels"].clone()).unwrap();
    assert_eq!(labels["role"], "storage");
    assert_eq!(labels["zone"], "b", "existing keys win");
    assert_eq!(node["metadata"]["annotations"]["note"], "mine");
    assert_eq!(node["spec"]["unschedulable"], true);
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|taint| taint["key"] == "dedicated"));
    assert!(
        !taints
            .iter()
            .any(|taint| taint["key"] == "node.kubernetes.io/unreachable")
    );
    // A node that was made anew once more is not the one that is meant.
    let parameters = json!({"node_uid": uid, "backup": live.backup});
    let refused = fixture
        .act(StepKind::RestoreNode, "n1", 30, parameters)
        .await;
    assert!(matches!(refused, Err(ActError::Passing(_))), "{refused:?}");
}

#[tokio::test]
async fn a_node_is_put_out_of_service_until_it_is_ready() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let kubelets = fixture.play_kubelets();
    let uid = laden(&fixture, "n1").await;
    fixture.say_ready("n1", false).await;
    let name = NodeName::from("n1");
    fixture
        .act(StepKind::SetOutOfService, "n1", 60, of(&uid))
        .await
        .unwrap();
    let live = fixture.backend.node(&name).await.unwrap().unwrap();
    assert!(live.out_of_service && live.uid == uid);
    let refused = fixture
        .act(
            StepKind::UnsetOutOfService,
            "n1",
            60,
            json!({"node_uid": uid}),
        )
        .await;
    assert!(
        matches!(&refused, Err(ActError::Permanent(why)) if why.contains("not Ready")),
        "{refused:?}"
    );
    fixture.say_ready("n1", true).await;
    fixture
        .act(
            StepKind::UnsetOutOfService,
            "n1",
            60,
            json!({"node_uid": uid}),
        )
        .await
        .unwrap();
    assert!(
        !fixture
            .backend
            .node(&name)
            .await
            .unwrap()
            .unwrap()
            .out_of_service
    );
    let node = whole(&fixture, "n1").await;
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|taint| taint["key"] == "dedicated"));
    kubelets.abort();
}

#[tokio::test]
async fn a_node_that_is_out_of_service_is_waited_for_until_its_pods_are_gone() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let uid = laden(&fixture, "n1").await;
    fixture.say_ready("n1", false).await;
    fixture.run("web-1", "n1", json!({})).await;
    let late = fixture
        .act(StepKind::SetOutOfService, "n1", 3, of(&uid))
        .await;
    let said = format!("{late:?}");
    assert!(late.is_err() && said.contains("still there"), "{said}");
    let now = kube::api::DeleteParams::default().grace_period(0);
    fixture.pods().delete("web-1", &now).await.unwrap();
    fixture
        .act(StepKind::SetOutOfService, "n1", 30, of(&uid))
        .await
        .unwrap();
}
