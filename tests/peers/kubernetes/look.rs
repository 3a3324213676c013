//! What the backend sees of a cluster.

use std::sync::Arc;

use serde_json::json;
use trueup::backend::Look;
use trueup::design::NodeName;
use trueup::observed::Fact;

use super::World;
use super::world::{open, secret, until};

const CLUSTERS: &str =
    "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\nnames: {n1: {kubernetes: worker-a}}\n";

#[tokio::test]
async fn nodes_are_seen_by_the_names_of_the_design_with_what_a_drain_would_meet() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    let uid = world.register("worker-a").await;
    world.register("n3").await;
    world.nodes().cordon("n3").await.unwrap();
    world.say_ready("n3", false).await;
    let front = json!({"metadata": {"labels": {"app": "front"}}, "spec": {"volumes": [
        {"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let pod_uid = world.run("front-1", "worker-a", front).await;
    world
        .run(
            "etcd-a",
            "worker-a",
            json!({"spec": {"containers": [{"name": "etcd", "image": "etcd:3"}]}}),
        )
        .await;
    world.run("elsewhere", "n3", json!({})).await;
    let created = [
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "front", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "front"}}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "data"}, "local": {"path": "/d"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker-a"]}]}]}}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a1"},
            "spec": {"attacher": "csi.example.org", "nodeName": "worker-a",
                "source": {"persistentVolumeName": "pv-1"}}}),
    ];
    for object in &created {
        world.create(object).await;
    }
    let names = ["n1", "n2"].map(NodeName::from);
    let asked = names.iter().cloned().collect();
    let sight = || world.backend.observe(&asked, Look::ALL);
    until("the budget is reckoned", || async {
        sight().await.pods.get(&names[0]).is_some_and(|pods| {
            pods.blocked
                .first()
                .is_some_and(|budget| (budget.healthy, budget.wanted) == (1, 1))
        })
    })
    .await;
    let seen = sight().await;
    let facts = seen.facts.unwrap();
    assert!(facts.version.starts_with("v1."), "{facts:?}");
    assert!(!facts.shutdown_daemon_set);
    let Fact::Known(nodes) = seen.nodes else {
        panic!("{:?}", seen.nodes)
    };
    assert_eq!(
        nodes.keys().map(NodeName::as_str).collect::<Vec<_>>(),
        ["n1", "n3"]
    );
    let node = &nodes[&names[0]];
    assert_eq!(
        (&node.uid, node.ready, node.unschedulable),
        (&uid, true, false)
    );
    assert_eq!(node.attachments.len(), 1);
    assert_eq!(&*node.attachments[0].volume, "pv-1");
    let kept: Vec<_> = node.kept_labels.iter().map(|key| &**key).collect();
    assert_eq!(kept, ["kubernetes.io/hostname", "kubernetes.io/os", "rack"]);
    let other = &nodes[&NodeName::from("n3")];
    assert_eq!(
        (other.ready, other.unschedulable, &other.cordoned_by),
        (false, true, &None)
    );
    assert_eq!(seen.pods.len(), 2);
    let pods = &seen.pods[&names[0]];
    assert_eq!((pods.evicted, pods.runs_etcd), (2, true));
    assert_eq!(pods.blocked[0].pods, [Arc::from("front-1")]);
    let lone: Vec<_> = pods.uncontrolled.iter().map(|pod| &*pod.name).collect();
    assert_eq!(lone, ["etcd-a", "front-1"]);
    let lost: Vec<_> = pods
        .local_data
        .iter()
        .map(|data| (&*data.owner, &*data.kind))
        .collect();
    assert_eq!(lost, [(&*pod_uid, "emptyDir"), (&*pod_uid, "local volume")]);
    assert_eq!(seen.pods[&names[1]].evicted, 0);

    // Where nobody answers, all that is known is that.
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap();
    world.kill();
    let backend = open(CLUSTERS, secret(kubeconfig));
    let seen = backend.observe(&asked, Look::ALL).await;
    assert!(seen.facts.is_none());
    let Fact::Unknown(reason) = seen.nodes else {
        panic!("{:?}", seen.nodes)
    };
    assert!(
        reason.starts_with("cluster `kubernetes`: the API server does not answer"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_list_longer_than_a_page_is_read_to_its_end() {
    let Some(world) = World::start(CLUSTERS).await else {
        return;
    };
    for number in 0..1001 {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("w{number}")}});
        world.create(&node).await;
    }
    let seen = world
        .backend
        .observe(&Default::default(), Look::default())
        .await;
    assert_eq!(seen.nodes.known().unwrap().len(), 1001);
}
