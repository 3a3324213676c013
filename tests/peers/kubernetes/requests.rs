//! Eviction requests on a real API server that has them as a custom resource, of the shape that Kubernetes 1.37 gives them, and
//! whose controller and responders are played here.

use std::time::Duration;

use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use trueup::step::StepKind;

use super::fixture::{permanent, until};
use super::{Fixture, parameters};
use crate::metal3::mended;

const CLUSTERS: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";

/// A cluster whose server can be written objects of a custom resource.
async fn start() -> Option<Fixture> {
    let assets = mended::assets()?;
    Fixture::start_of(CLUSTERS, Some(assets)).await
}

fn requests(fixture: &Fixture) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("lifecycle.k8s.io", "v1alpha1", "EvictionRequest");
    let resource = ApiResource::from_gvk(&kind);
    Api::namespaced_with(fixture.client.clone(), "default", &resource)
}

/// Has the server serve eviction requests.
async fn serve_requests(fixture: &Fixture) {
    let text = || json!({"type": "string"});
    let reference = json!({"type": "object", "required": ["name", "uid"], "properties": {
        "name": text(),
        "uid": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    }});
    let spec = json!({"type": "object", "required": ["intent", "requester", "target"], "properties": {
        "intent": {"type": "string", "enum": ["Eviction", "Withdrawn"]},
        "requester": {"type": "string", "pattern": "^[a-z0-9.-]+/[A-Za-z0-9._-]+$"},
        "target": {"type": "object", "properties": {"pod": reference}},
    }});
    let condition = json!({"type": "object", "properties": {
        "type": text(), "status": text(), "reason": text(), "message": text()}});
    let status = json!({"type": "object", "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 1},
        "conditions": {"type": "array", "items": condition},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": spec, "status": status}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "evictionrequests.lifecycle.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "lifecycle.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "evictionrequests", "kind": "EvictionRequest"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": schema}],
        },
    });
    fixture.create(&definition).await;
    until("eviction requests are served", || async {
        requests(fixture).list(&ListParams::default()).await.is_ok()
    })
    .await;
}

/// Plays the controller and the responders: what becomes of a request is told by the name of its pod.
fn play_controller(fixture: &Fixture) -> tokio::task::JoinHandle<()> {
    let (requests, pods) = (requests(fixture), fixture.pods());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Ok(all) = requests.list(&ListParams::default()).await else {
                continue;
            };
            for request in all {
                let name = request.metadata.name.as_deref().unwrap();
                let pod = request.data["spec"]["target"]["pod"]["name"]
                    .as_str()
                    .unwrap();
                let status = match pod.split('-').next().unwrap() {
                    "moved" => json!({"observedGeneration": 1}),
                    "slow" => json!({"observedGeneration": 1}),
                    "failed" => json!({"observedGeneration": 1, "conditions": [{"type": "Failed",
                        "status": "True", "reason": "NoResponder", "message": "none could"}]}),
                    _ => continue,
                };
                let status = Patch::Merge(json!({"status": status}));
                let _ = requests
                    .patch_status(name, &PatchParams::default(), &status)
                    .await;
                if pod.starts_with("moved") {
                    let _ = pods.delete(pod, &DeleteParams::default()).await;
                }
            }
        }
    })
}

async fn names(fixture: &Fixture) -> Vec<String> {
    let all = requests(fixture)
        .list(&ListParams::default())
        .await
        .unwrap();
    all.into_iter()
        .map(|request| {
            request.data["spec"]["target"]["pod"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn quick() -> Value {
    json!({"grace_period": 1})
}

#[tokio::test]
async fn pods_are_let_go_by_their_responders_and_by_the_eviction_api_where_those_do_not() {
    let Some(fixture) = start().await else {
        return;
    };
    fixture.register("n1").await;
    let kubelets = fixture.play_kubelets();
    serve_requests(&fixture).await;
    // Requests may not be created: the drain evicts as without them.
    fixture.run("moved-1", "n1", json!({})).await;
    let drain = |timeout| fixture.act(StepKind::Drain, "n1", timeout, quick());
    drain(30).await.unwrap();
    assert!(fixture.pod_names().await.is_empty());

    fixture.grant_requests().await;
    let controller = play_controller(&fixture);
    // No eviction is allowed: what goes is let go by its responder.
    let app = json!({"metadata": {"labels": {"app": "front"}}});
    fixture.run("moved-1", "n1", app.clone()).await;
    fixture.run("moved-2", "n1", app).await;
    let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "front", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "front"}}}});
    fixture.create(&budget).await;
    fixture.until_budget("front", 2).await;
    drain(30).await.unwrap();
    assert!(fixture.pod_names().await.is_empty());
    assert_eq!(fixture.refused_evictions().await, 0);
    assert!(names(&fixture).await.is_empty(), "they go with their pods");

    // One that fails, and one that nothing observes, are evicted.
    fixture.run("failed-1", "n1", json!({})).await;
    fixture.run("unseen-1", "n1", json!({})).await;
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 120, quick());
    fixture.backend.act(&order).await.unwrap();
    assert!(fixture.pod_names().await.is_empty());
    assert!(names(&fixture).await.is_empty());
    assert!(heard.has("default/unseen-1 (held by its eviction request)"));
    controller.abort();
    kubelets.abort();
}

#[tokio::test]
async fn requests_are_withdrawn_when_their_drain_ends_without_them() {
    let Some(fixture) = start().await else {
        return;
    };
    fixture.register("n1").await;
    fixture.register("n2").await;
    let kubelets = fixture.play_kubelets();
    serve_requests(&fixture).await;
    fixture.grant_requests().await;
    let controller = play_controller(&fixture);
    fixture.run("slow-1", "n1", json!({})).await;
    // Its time is over.
    let failed = permanent(fixture.act(StepKind::Drain, "n1", 4, quick()).await);
    assert!(
        failed.contains("default/slow-1 (held by its eviction request)"),
        "{failed}"
    );
    assert!(names(&fixture).await.is_empty());
    // Its process dies: a second one finds the request of the first, and whoever ends the run withdraws those of its node.
    let (order, _) = fixture.order(StepKind::Drain, "n1", 60, quick());
    for _ in 0..2 {
        let backend = fixture.backend.clone();
        let order = order.clone();
        let dies = tokio::spawn(async move { backend.act(&order).await });
        until("it is asked for", || async {
            names(&fixture).await == ["slow-1"]
        })
        .await;
        dies.abort();
    }
    let (other, _) = fixture.order(StepKind::Drain, "n2", 60, quick());
    fixture.backend.leave_cordoned(&other).await;
    assert_eq!(names(&fixture).await, ["slow-1"]);
    fixture.backend.leave_cordoned(&order).await;
    assert!(names(&fixture).await.is_empty());
    let pod = fixture.pods().get("slow-1").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_none());
    // The next drain asks anew, also if the request of this pod was deleted under it.
    let backend = fixture.backend.clone();
    let drain = tokio::spawn(async move { backend.act(&order).await });
    until("it is asked for", || async {
        names(&fixture).await == ["slow-1"]
    })
    .await;
    let all = requests(&fixture)
        .list(&ListParams::default())
        .await
        .unwrap();
    let name = all.items[0].metadata.name.clone().unwrap();
    let now = DeleteParams::default();
    requests(&fixture).delete(&name, &now).await.unwrap();
    drain.await.unwrap().unwrap();
    assert!(fixture.pod_names().await.is_empty());
    assert_eq!(
        fixture.probe(StepKind::Drain, "n2", parameters()).await,
        trueup::backend::Probe::NotBegun
    );
    controller.abort();
    kubelets.abort();
}
