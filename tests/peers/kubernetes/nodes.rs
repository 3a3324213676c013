//! Steps on the Node itself: labels, the kubelet's shutdown, its removal, and its coming back.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trueup::backend::Probe;
use trueup::step::{Parameters, StepKind};

use super::world::{permanent, until};
use super::{World, parameters};

const CLUSTERS: &str =
    "clusters: {kubernetes: {kubeconfig: {env: SITE}, shutdown_image: 'example.org/tools:1'}}\n";

async fn labels(world: &World, node: &str) -> BTreeMap<String, String> {
    world
        .nodes()
        .get(node)
        .await
        .unwrap()
        .metadata
        .labels
        .unwrap()
}

fn relabel(set: &[(&str, &str)], remove: &[&str]) -> Parameters {
    let set = set
        .iter()
        .map(|(key, value)| (Arc::from(*key), Arc::from(*value)));
    Parameters {
        set_labels: set.collect(),
        remove_labels: remove.iter().map(|key| Arc::from(*key)).collect(),
        ..parameters()
    }
}

async fn label_as(world: &World, manager: &str, key: &str, value: &str) {
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
    world
        .nodes()
        .patch("n1", &parameters, &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn relabel_sets_and_takes_off_its_own_labels_and_no_others() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    world.register("n1").await;
    label_as(&world, "kubectl-label", "tier", "gold").await;
    label_as(&world, "kubectl-label", "role", "storage").await;
    let wanted = relabel(&[("role", "compute"), ("zone", "a")], &[]);
    assert_eq!(
        world.probe(StepKind::Relabel, "n1", wanted.clone()).await,
        Probe::NotBegun
    );
    world
        .act(StepKind::Relabel, "n1", 30, wanted.clone())
        .await
        .unwrap();
    assert_eq!(
        world.probe(StepKind::Relabel, "n1", wanted).await,
        Probe::Done
    );
    let found = labels(&world, "n1").await;
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
    world
        .act(StepKind::Relabel, "n1", 30, wanted.clone())
        .await
        .unwrap();
    assert_eq!(
        world.probe(StepKind::Relabel, "n1", wanted).await,
        Probe::Done
    );
    let found = labels(&world, "n1").await;
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
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    let kubelets = world.play_kubelets();
    let uid = world.register("n1").await;
    let meant = Parameters {
        node_uid: Some(uid.clone()),
        grace_period: Some(1),
        ..parameters()
    };
    label_as(&world, "kubectl-label", "role", "compute").await;
    world.run("front", "n1", json!({})).await;

    let refused = permanent(
        world
            .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
            .await,
    );
    let expected = "Conflict: node `n1` cannot be removed: it is not cordoned; it has the labels role; \
                    it is not drained: 1 pod is left";
    assert_eq!(refused, expected);
    assert_eq!(
        world
            .probe(StepKind::RemoveFromCluster, "n1", meant.clone())
            .await,
        Probe::NotBegun
    );

    world
        .act(StepKind::Drain, "n1", 60, meant.clone())
        .await
        .unwrap();
    let refused = permanent(
        world
            .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
            .await,
    );
    assert_eq!(
        refused,
        "Conflict: node `n1` cannot be removed: it has the labels role"
    );

    assert_eq!(
        world
            .probe(StepKind::ClearLabels, "n1", meant.clone())
            .await,
        Probe::NotBegun
    );
    world
        .act(StepKind::ClearLabels, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        world
            .probe(StepKind::ClearLabels, "n1", meant.clone())
            .await,
        Probe::Done
    );
    let left: Vec<String> = labels(&world, "n1").await.into_keys().collect();
    assert_eq!(left, ["kubernetes.io/hostname", "kubernetes.io/os", "rack"]);

    let sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), "kube-system");
    let failed = permanent(
        world
            .act(StepKind::ShutdownKubelet, "n1", 4, meant.clone())
            .await,
    );
    assert!(
        failed.starts_with("ShutdownKubeletError: the node is still Ready after 4 s"),
        "{failed}"
    );
    assert_eq!(
        world
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::UnderWay
    );
    assert_eq!(
        labels(&world, "n1").await["promenade-decomission"],
        "enabled"
    );
    until("the controller makes a pod of it", || async {
        let set = sets.get("trueup-shutdown-kubelet").await.unwrap();
        set.status
            .is_some_and(|status| status.desired_number_scheduled == 1)
    })
    .await;
    world
        .bind("kube-system", "trueup-shutdown-kubelet-", "n1")
        .await;
    world.say_ready("n1", false).await;
    assert_eq!(
        world
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::UnderWay
    );
    world
        .act(StepKind::ShutdownKubelet, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        world
            .probe(StepKind::ShutdownKubelet, "n1", meant.clone())
            .await,
        Probe::Done
    );
    // Nothing is left that would stop the kubelet of the next node of that name.
    assert!(
        !labels(&world, "n1")
            .await
            .contains_key("promenade-decomission")
    );
    assert_eq!(world.pods_on("n1").await, Vec::<String>::new());
    assert!(
        sets.get_opt("trueup-shutdown-kubelet")
            .await
            .unwrap()
            .is_none()
    );

    world
        .act(StepKind::RemoveFromCluster, "n1", 60, meant.clone())
        .await
        .unwrap();
    assert_eq!(
        world
            .probe(StepKind::RemoveFromCluster, "n1", meant.clone())
            .await,
        Probe::Done
    );
    assert!(world.nodes().get_opt("n1").await.unwrap().is_none());
    // Whoever goes on elsewhere, and was not told of these, finds them done.
    for kind in [
        StepKind::Drain,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
    ] {
        assert_eq!(world.probe(kind, "n1", meant.clone()).await, Probe::Done);
        let unknown = world.probe(kind, "n1", parameters()).await;
        assert_eq!(unknown, Probe::NotBegun);
    }

    let failed = permanent(
        world
            .act(StepKind::AwaitReady, "n1", 2, meant.clone())
            .await,
    );
    assert!(
        failed.contains("node `n1` is not in the cluster after 2 s"),
        "{failed}"
    );
    world.register("n1").await;
    world
        .act(StepKind::AwaitReady, "n1", 30, meant.clone())
        .await
        .unwrap();
    // What is meant is gone: the new one is not touched.
    world
        .act(StepKind::RemoveFromCluster, "n1", 30, meant.clone())
        .await
        .unwrap();
    assert!(world.nodes().get_opt("n1").await.unwrap().is_some());
    let probe = world.probe(StepKind::Drain, "n1", meant.clone()).await;
    assert_eq!(probe, Probe::NotBegun);
    let refused = permanent(world.act(StepKind::Drain, "n1", 30, meant).await);
    assert!(
        refused.starts_with("Conflict: node `n1` was made anew"),
        "{refused}"
    );
    kubelets.abort();
}

#[tokio::test]
async fn what_stopped_a_kubelet_stays_as_long_as_another_node_needs_it_and_no_longer() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    let sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), "kube-system");
    let name = "trueup-shutdown-kubelet";
    let mut shut_down = Vec::new();
    for node in ["n1", "n2"] {
        world.register(node).await;
        let (order, _) = world.order(StepKind::ShutdownKubelet, node, 120, parameters());
        let backend = world.backend.clone();
        shut_down.push(tokio::spawn(async move { backend.act(&order).await }));
        world.bind("kube-system", &format!("{name}-"), node).await;
    }
    world.say_ready("n1", false).await;
    shut_down.remove(0).await.unwrap().unwrap();
    assert_eq!(world.pods_on("n1").await, Vec::<String>::new());
    assert_eq!(world.pods_on("n2").await.len(), 1);
    assert!(sets.get_opt(name).await.unwrap().is_some());

    // A node that comes back with its name is left alone.
    world.say_ready("n1", true).await;
    world.say_ready("n2", false).await;
    shut_down.remove(0).await.unwrap().unwrap();
    until("the DaemonSet is gone", || async {
        sets.get_opt(name).await.unwrap().is_none()
    })
    .await;
    for node in ["n1", "n2"] {
        assert_eq!(world.pods_on(node).await, Vec::<String>::new());
    }
    // One whose step was not seen through is cleared by what deletes its node.
    label_as(&world, "trueup", "promenade-decomission", "enabled").await;
    world.nodes().cordon("n1").await.unwrap();
    let (order, _) = world.order(StepKind::ShutdownKubelet, "n1", 3, parameters());
    permanent(world.backend.act(&order).await);
    world.bind("kube-system", &format!("{name}-"), "n1").await;
    world
        .act(StepKind::RemoveFromCluster, "n1", 60, parameters())
        .await
        .unwrap();
    assert_eq!(world.pods_on("n1").await, Vec::<String>::new());
    assert!(sets.get_opt(name).await.unwrap().is_none());
}

#[tokio::test]
async fn a_machine_that_is_gone_is_removed_with_its_pods_but_only_when_it_is_silent() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    let uid = world.register("n1").await;
    label_as(&world, "kubectl-label", "role", "compute").await;
    world.run_stubborn("front", "n1").await;
    let gone = Parameters {
        node_uid: Some(uid),
        node_is_gone: true,
        ..parameters()
    };
    let refused = permanent(
        world
            .act(StepKind::RemoveFromCluster, "n1", 3, gone.clone())
            .await,
    );
    assert!(
        refused.starts_with("Conflict: ") && refused.contains("it is Ready"),
        "{refused}"
    );
    assert_eq!(world.pod_names().await, ["front"]);
    world.say_ready("n1", false).await;
    world
        .act(StepKind::RemoveFromCluster, "n1", 60, gone)
        .await
        .unwrap();
    assert!(world.pod_names().await.is_empty());
    assert!(world.nodes().get_opt("n1").await.unwrap().is_none());
}

#[tokio::test]
async fn a_node_that_is_not_there_is_not_found_by_any_step_that_needs_it() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    for kind in [
        StepKind::Drain,
        StepKind::Uncordon,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
        StepKind::Relabel,
    ] {
        let wanted = Parameters {
            grace_period: Some(1),
            ..relabel(&[("a", "b")], &[])
        };
        let text = permanent(world.act(kind, "n9", 30, wanted.clone()).await);
        assert_eq!(text, "NotFound: the cluster has no node `n9`", "{kind}");
        assert_eq!(
            world.probe(kind, "n9", wanted).await,
            Probe::NotBegun,
            "{kind}"
        );
    }
    assert!(world.nodes().get_opt("n9").await.unwrap().is_none());
    world
        .act(StepKind::RemoveFromCluster, "n9", 30, parameters())
        .await
        .unwrap();
}
