//! What the backend sees of a cluster.

use std::sync::Arc;

use serde_json::{Value, json};
use trueup::backend::{Look, Rights};
use trueup::design::NodeName;
use trueup::observed::Fact;
use trueup::step::StepKind;

use super::Fixture;
use super::fixture::{open, permanent, secret, until};

/// A cluster whose nodes are called as in the design.
const ALIKE: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";

const CLUSTERS: &str =
    "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\nnames: {n1: {kubernetes: worker-a}}\n";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn nodes_are_seen_by_the_names_of_the_design_with_what_a_drain_would_meet() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let uid = fixture.register("worker-a").await;
    fixture.register("n3").await;
    fixture.nodes().cordon("n3").await.unwrap();
    fixture.say_ready("n3", false).await;
    let front = json!({"metadata": {"labels": {"app": "front"}}, "spec": {"volumes": [
        {"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    fixture.run("front-1", "worker-a", front).await;
    fixture
        .run(
            "etcd-a",
            "worker-a",
            json!({"spec": {"containers": [{"name": "etcd", "image": "etcd:3"}]}}),
        )
        .await;
    fixture.run("elsewhere", "n3", json!({})).await;
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
        fixture.create(object).await;
    }
    let names = ["n1", "n2"].map(NodeName::from);
    let asked = names.iter().cloned().collect();
    let sight = || fixture.backend.observe(&asked, Look::ALL);
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
    assert_eq!(
        lost,
        [
            ("Pod default/front-1", "emptyDir"),
            ("Pod default/front-1", "local volume")
        ]
    );
    assert_eq!(seen.pods[&names[1]].evicted, 0);

    // If nobody answers, all that is known is that.
    let kubeconfig = std::fs::read_to_string(fixture.kubeconfig()).unwrap();
    fixture.kill();
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
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    for number in 0..1001 {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("w{number}")}});
        fixture.create(&node).await;
    }
    let seen = fixture
        .backend
        .observe(&Default::default(), Look::default())
        .await;
    assert_eq!(seen.nodes.known().unwrap().len(), 1001);
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_before_it_is_needed() {
    let Some(fixture) = Fixture::start(ALIKE).await else {
        return;
    };
    fixture.register("n1").await;
    let asked = [NodeName::from("n1")].into();
    let missing = |kind| {
        let look = Look {
            rights: Rights::Of(kind),
            ..Look::default()
        };
        let (fixture, asked) = (&fixture, &asked);
        async move {
            let facts = fixture.backend.observe(asked, look).await.facts.unwrap();
            let rights = facts.missing_rights.into_iter();
            rights
                .map(|right| right.right.to_string())
                .collect::<Vec<_>>()
        }
    };
    // The rights that the documentation lists suffice for every step.
    for kind in StepKind::ALL {
        assert_eq!(missing(kind).await, Vec::<String>::new(), "{kind}");
    }
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!({"rules": [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["list"]},
    ]});
    let patch = kube::core::Request::new(role);
    let patch = patch.patch(
        "trueup",
        &Default::default(),
        &kube::api::Patch::Merge(rules),
    );
    fixture.client.request_text(patch.unwrap()).await.unwrap();
    // What stops kubelets cannot be read any more: only steps that stop one lack it.
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles";
    let delete = kube::core::Request::new(role);
    let delete = delete.delete("trueup-shutdown-kubelet", &Default::default());
    fixture.client.request_text(delete.unwrap()).await.unwrap();
    until("the server knows of it", || async {
        missing(StepKind::Drain).await == ["patch nodes", "create pods/eviction", "delete pods"]
    })
    .await;
    assert_eq!(missing(StepKind::ClearLabels).await, ["patch nodes"]);
    assert_eq!(missing(StepKind::RemoveEtcd).await, Vec::<String>::new());
    let rights = missing(StepKind::ShutdownKubelet).await;
    let reads = rights
        .iter()
        .any(|right| right.starts_with("get daemonsets"));
    assert!(reads, "{rights:?}");
}

#[tokio::test]
async fn the_last_api_server_that_is_ready_is_not_drained() {
    let Some(fixture) = Fixture::start(ALIKE).await else {
        return;
    };
    let slices = "/apis/discovery.k8s.io/v1beta1/namespaces/default/endpointslices";
    let address = || async {
        let list = kube::core::Request::new(slices).list(&Default::default());
        let found: Value = fixture.client.request(list.unwrap()).await.unwrap();
        found["items"][0]["endpoints"][0]["addresses"][0].clone()
    };
    until("the server says where it is", || async {
        address().await.is_string()
    })
    .await;
    let address = address().await;
    fixture.register("n1").await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
    let patch = kube::api::Patch::Merge(status);
    fixture
        .nodes()
        .patch_status("n1", &Default::default(), &patch)
        .await
        .unwrap();
    let asked = [NodeName::from("n1")].into();
    let seen = fixture.backend.observe(&asked, Look::default()).await;
    assert_eq!(seen.facts.unwrap().api_servers, Some(Fact::Known(1)));
    assert_eq!(seen.nodes.known().unwrap()["n1"].api_servers, 1);
    let grace = json!({"grace_period": 1});
    for (kind, given) in [
        (StepKind::Drain, grace.clone()),
        (StepKind::ShutdownKubelet, json!({})),
    ] {
        let refused = permanent(fixture.act(kind, "n1", 30, given).await);
        assert!(
            refused.starts_with("Conflict: node `n1` cannot be ")
                && refused.contains("no other API server of its cluster is ready"),
            "{refused}"
        );
    }
    let node = fixture.nodes().get("n1").await.unwrap();
    assert!(node.spec.unwrap().unschedulable.is_none());
    // Another one that is not ready does not count, and one that is does.
    let other = |name: &str, address: &str, ready: bool| {
        json!({"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}]})
    };
    fixture.create(&other("second", "192.0.2.2", false)).await;
    permanent(fixture.act(StepKind::Drain, "n1", 30, grace.clone()).await);
    fixture.create(&other("third", "192.0.2.3", true)).await;
    fixture.act(StepKind::Drain, "n1", 30, grace).await.unwrap();
}
