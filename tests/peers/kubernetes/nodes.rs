//! Steps on the Node itself: labels, the kubelet's shutdown, its removal, and its coming back.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trueup::backend::Probe;
use trueup::step::StepKind;

use super::fixture::{permanent, until};
use super::{Fixture, parameters};

const CLUSTERS: &str =
    "clusters: {kubernetes: {kubeconfig: {env: SITE}, shutdown_image: 'example.org/tools:1'}}\n";

async fn labels(fixture: &Fixture, node: &str) -> BTreeMap<String, String> {
    fixture
        .nodes()
        .get(node)
        .await
        .unwrap()
        .metadata
        .labels
        .unwrap()
}

fn relabel(set: &[(&str, &str)], remove: &[&str]) -> Value {
    json!({"set_labels": set, "remove_labels": remove})
}

async fn label_as(fixture: &Fixture, manager: &str, key: &str, value: &str) {
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
    fixture
        .nodes()
        .patch("n1", &parameters, &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn relabel_sets_and_takes_off_its_own_labels_and_no_others() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    label_as(&fixture, "kubectl-label", "tier", "gold").await;
    label_as(&fixture, "kubectl-label", "role", "storage").await;
    let wanted = relabel(&[("role", "compute"), ("zone", "a")], &[]);
    assert_eq!(
        fixture.probe(StepKind::Relabel, "n1", wanted.clone()).await,
        Probe::NotBegun
    );
    fixture
        .act(StepKind::Relabel, "n1", 30, wanted.clone())
        .await
        .unwrap();
    assert_eq!(
        fixture.probe(StepKind::Relabel, "n1", wanted).await,
        Probe::Done
    );
    let found = labels(&fixture, "n1").await;
    for (key, value) in [
        ("role", "compute"),
        ("zone", "a"),
        ("tier", "gold"),
        ("rack", "r1"),
    ] {
        assert_eq!(found[key], value, "{found:?}");
    }
    // One more, without the others being named again; two off, of which one is somebody else's.
    let wanted = relabel(&[("ssd", "yes")], &["zone", "tier"]);
    fixture
        .act(StepKind::Relabel, "n1", 30, wanted.clone())
        .await
        .unwrap();
    assert_eq!(
        fixture.probe(StepKind::Relabel, "n1", wanted).await,
        Probe::Done
    );
    let found = labels(&fixture, "n1").await;
    assert!(!found.contains_key("zone"), "{found:?}");
    for (key, value) in [
        ("role", "compute"),
        ("ssd", "yes"),
        ("tier", "gold"),
        ("rack", "r1"),
    ] {
        assert_eq!(found[key], value, "{found:?}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_node_is_taken_out_of_its_cluster_step_by_step_and_comes_back_another() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let kubelets = fixture.play_kubelets();
    let uid = fixture.register("n1").await;
    let meant = json!({"node_uid": uid});
    let evicted = json!({"node_uid": uid, "grace_period": 1});
    label_as(&fixture, "kubectl-label", "role", "compute").await;
    fixture.run("front", "n1", json!({})).await;

    let refused = permanent(
        fixture
            .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
            .await,
    );
    let expected = "Conflict: node `n1` cannot be removed: it is not cordoned; it has the labels role; \
                    it is not drained: 1 pod is left";
    assert_eq!(refused, expected);
    assert_eq!(
        fixture
            .probe(StepKind::RemoveFromCluster, "n1", meant.clone())
            .await,
        Probe::NotBegun
    );

    fixture
        .act(StepKind::Drain, "n1", 60, evicted.clone())
        .await
        .unwrap();
    let refused = permanent(
        fixture
            .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
            .await,
    );
    assert_eq!(
        refused,
        "Conflict: node `n1` cannot be removed: it has the labels role"
    );

    assert_eq!(
        fixture
            .probe(StepKind::ClearLabels, "n1", meant.clone())
            .await,
        Probe::NotBegun
    );
    fixture
        .act(StepKind::ClearLabels, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        fixture
            .probe(StepKind::ClearLabels, "n1", meant.clone())
            .await,
        Probe::Done
    );
    let left: Vec<String> = labels(&fixture, "n1").await.into_keys().collect();
    assert_eq!(left, ["kubernetes.io/hostname", "kubernetes.io/os", "rack"]);

    let sets: Api<DaemonSet> = Api::namespaced(fixture.client.clone(), "kube-system");
    let failed = permanent(
        fixture
            .act(StepKind::ShutdownKubelet, "n1", 4, meant.clone())
            .await,
    );
    assert!(
        failed.starts_with("ShutdownKubeletError: the node is still Ready after 4 s"),
        "{failed}"
    );
    assert_eq!(
        fixture
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::UnderWay
    );
    assert_eq!(
        labels(&fixture, "n1").await["promenade-decomission"],
        "enabled"
    );
    until("the controller makes a pod of it", || async {
        let set = sets.get("trueup-shutdown-kubelet").await.unwrap();
        set.status
            .is_some_and(|status| status.desired_number_scheduled == 1)
    })
    .await;
    fixture
        .bind("kube-system", "trueup-shutdown-kubelet-", "n1")
        .await;
    fixture.say_ready("n1", false).await;
    assert_eq!(
        fixture
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::UnderWay
    );
    fixture
        .act(StepKind::ShutdownKubelet, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        fixture
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::Done
    );
    // Nothing is left that would stop the kubelet of the next node of that name.
    assert!(
        !labels(&fixture, "n1")
            .await
            .contains_key("promenade-decomission")
    );
    assert_eq!(fixture.pods_on("n1").await, Vec::<String>::new());
    assert!(
        sets.get_opt("trueup-shutdown-kubelet")
            .await
            .unwrap()
            .is_none()
    );

    fixture
        .act(StepKind::RemoveFromCluster, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        fixture
            .probe(StepKind::RemoveFromCluster, "n1", meant.clone())
            .await,
        Probe::Done
    );
    assert!(fixture.nodes().get_opt("n1").await.unwrap().is_none());
    // Whoever goes on elsewhere, and was not told of these, finds them done.
    for kind in [
        StepKind::Drain,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
    ] {
        assert_eq!(fixture.probe(kind, "n1", meant.clone()).await, Probe::Done);
        let unknown = fixture.probe(kind, "n1", parameters()).await;
        assert_eq!(unknown, Probe::NotBegun);
    }

    let failed = permanent(
        fixture
            .act(StepKind::AwaitReady, "n1", 2, meant.clone())
            .await,
    );
    assert!(
        failed.contains("node `n1` is not in the cluster after 2 s"),
        "{failed}"
    );
    fixture.register("n1").await;
    fixture
        .act(StepKind::AwaitReady, "n1", 30, meant.clone())
        .await
        .unwrap();
    // What is meant is gone: the new one is not touched.
    fixture
        .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
        .await
        .unwrap();
    assert!(fixture.nodes().get_opt("n1").await.unwrap().is_some());
    let probe = fixture.probe(StepKind::Drain, "n1", meant.clone()).await;
    assert_eq!(probe, Probe::NotBegun);
    let refused = permanent(fixture.act(StepKind::Drain, "n1", 30, evicted).await);
    assert!(
        refused.starts_with("Conflict: node `n1` was made anew"),
        "{refused}"
    );
    kubelets.abort();
}

#[tokio::test]
async fn what_stopped_a_kubelet_stays_as_long_as_another_node_needs_it_and_no_longer() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let sets: Api<DaemonSet> = Api::namespaced(fixture.client.clone(), "kube-system");
    let name = "trueup-shutdown-kubelet";
    let mut shut_down = Vec::new();
    for node in ["n1", "n2"] {
        fixture.register(node).await;
        let (order, _) = fixture.order(StepKind::ShutdownKubelet, node, 120, parameters());
        let backend = fixture.backend.clone();
        shut_down.push(tokio::spawn(async move { backend.act(&order).await }));
        fixture.bind("kube-system", &format!("{name}-"), node).await;
    }
    fixture.say_ready("n1", false).await;
    shut_down.remove(0).await.unwrap().unwrap();
    assert_eq!(fixture.pods_on("n1").await, Vec::<String>::new());
    assert_eq!(fixture.pods_on("n2").await.len(), 1);
    assert!(sets.get_opt(name).await.unwrap().is_some());

    // A node that comes back with its name is left alone.
    fixture.say_ready("n1", true).await;
    fixture.say_ready("n2", false).await;
    shut_down.remove(0).await.unwrap().unwrap();
    until("the DaemonSet is gone", || async {
        sets.get_opt(name).await.unwrap().is_none()
    })
    .await;
    for node in ["n1", "n2"] {
        assert_eq!(fixture.pods_on(node).await, Vec::<String>::new());
    }
    // One whose step was not seen through is cleared by what deletes its node.
    label_as(&fixture, "trueup", "promenade-decomission", "enabled").await;
    fixture.nodes().cordon("n1").await.unwrap();
    let (order, _) = fixture.order(StepKind::ShutdownKubelet, "n1", 3, parameters());
    permanent(fixture.backend.act(&order).await);
    fixture.bind("kube-system", &format!("{name}-"), "n1").await;
    fixture
        .act(StepKind::RemoveFromCluster, "n1", 60, parameters())
        .await
        .unwrap();
    assert_eq!(fixture.pods_on("n1").await, Vec::<String>::new());
    assert!(sets.get_opt(name).await.unwrap().is_none());
}

#[tokio::test]
async fn a_machine_that_is_gone_is_removed_with_its_pods_but_only_when_it_is_silent() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let uid = fixture.register("n1").await;
    label_as(&fixture, "kubectl-label", "role", "compute").await;
    fixture.run_stubborn("front", "n1").await;
    let gone = json!({"node_uid": uid, "node_is_gone": true});
    let refused = permanent(
        fixture
            .act(StepKind::RemoveFromCluster, "n1", 3, gone.clone())
            .await,
    );
    assert!(
        refused.starts_with("Conflict: ") && refused.contains("it is Ready"),
        "{refused}"
    );
    assert_eq!(fixture.pod_names().await, ["front"]);
    fixture.say_ready("n1", false).await;
    fixture
        .act(StepKind::RemoveFromCluster, "n1", 60, gone)
        .await
        .unwrap();
    assert!(fixture.pod_names().await.is_empty());
    assert!(fixture.nodes().get_opt("n1").await.unwrap().is_none());
}

#[tokio::test]
async fn a_node_that_is_not_there_is_not_found_by_any_step_that_needs_it() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    for kind in [
        StepKind::Drain,
        StepKind::Uncordon,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
        StepKind::Relabel,
    ] {
        let wanted = match kind {
            StepKind::Drain => json!({"grace_period": 1}),
            StepKind::Relabel => relabel(&[("a", "b")], &[]),
            _ => parameters(),
        };
        let text = permanent(fixture.act(kind, "n9", 30, wanted.clone()).await);
        assert_eq!(text, "NotFound: the cluster has no node `n9`", "{kind}");
        assert_eq!(
            fixture.probe(kind, "n9", wanted).await,
            Probe::NotBegun,
            "{kind}"
        );
    }
    assert!(fixture.nodes().get_opt("n9").await.unwrap().is_none());
    fixture
        .act(StepKind::RemoveFromCluster, "n9", 30, parameters())
        .await
        .unwrap();
}
