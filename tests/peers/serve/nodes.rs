//! The node endpoints before a real kube-apiserver, and the health of a real etcd.

use std::sync::Arc;

use serde_json::json;

use super::client::{Answer, Service};
use super::manifests;
use crate::etcd::Real;
use crate::harness::wait_until;
use crate::kubernetes::{Fixture, until};
use crate::site::Site;

/// The site of two machines that are on.
const MACHINES: &str = "\
---
schema: drydock/Rack/v1
metadata: {name: r1}
data: {}
---
schema: drydock/BaremetalNode/v1
metadata: {name: n1}
data: {metadata: {rack: r1}}
---
schema: drydock/BaremetalNode/v1
metadata: {name: n2}
data: {metadata: {rack: r1}}
";

const DEFINITION: &str =
    "schema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {site_type: lab}\n";

/// Simulated machines in a real Kubernetes cluster, and a service.
struct Cluster {
    fixture: Fixture,
    site: Site,
    service: Arc<Service>,
}

impl Cluster {
    async fn start() -> Option<Self> {
        let clusters = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";
        let fixture = Fixture::start(clusters).await?;
        for node in ["n1", "n2"] {
            fixture.register(node).await;
        }
        // With the rights of the manifests, and no others.
        manifests::apply(&fixture).await;
        let kubeconfig = manifests::kubeconfig(&fixture);
        let backends = |clusters: &str| {
            format!(
                "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {{kind: sim, sim: {{clock: real, \
                 durations: {{prepare: 0.1, deploy: 0.1, destroy: 0.1, relabel: 0.1, power: 0.1}}}}}}\n{clusters}"
            )
        };
        let [alone, backends] = [
            backends(""),
            backends(&format!(
                "  clusters: {{kubernetes: {{kubeconfig: {{file: {}}}, shutdown_image: 'example.org/tools:1'}}}}\n",
                kubeconfig.display()
            )),
        ];
        let (site, service) = tokio::task::spawn_blocking(move || {
            // Machines that are on: they are deployed before the cluster is asked for them.
            let site = Site::new(&[
                ("site-definition.yaml", DEFINITION),
                ("machines.yaml", MACHINES),
                ("backends.yaml", &alone),
            ]);
            site.trueup(&["apply", "--yes"], &[]).with(0);
            site.commit(&[("backends.yaml", &backends)]);
            site.trueup(&["apply", "--yes"], &[]).with(0);
            let service = Service::spawn(&mut site.program(&["serve", "-v"]));
            (site, service)
        })
        .await
        .unwrap();
        Some(Self {
            fixture,
            site,
            service: Arc::new(service),
        })
    }

    async fn post(&self, path: &str) -> Answer {
        let (service, path) = (self.service.clone(), format!("/api/v1.0/nodes/{path}"));
        let answer = tokio::task::spawn_blocking(move || service.post(&path));
        answer.await.unwrap()
    }

    async fn ends(&self, path: &str, code: u16, reason: &str) {
        let answer = self.post(path).await;
        assert_eq!(
            answer.reason(),
            (code, reason.to_owned()),
            "{path}: {answer:?}"
        );
    }

    /// Whether pods may be scheduled on a node.
    async fn is_schedulable(&self, node: &str) -> bool {
        let node = self.fixture.nodes().get(node).await.unwrap();
        node.spec.and_then(|spec| spec.unschedulable) != Some(true)
    }

    /// Shuts a kubelet down and plays its part.
    async fn shut_down(&self, node: &str) -> Answer {
        let path = format!("/api/v1.0/nodes/{node}/shutdown-kubelet");
        let service = self.service.clone();
        let answer = tokio::task::spawn_blocking(move || service.post(&path));
        self.fixture
            .bind("kube-system", "trueup-shutdown-kubelet-", node)
            .await;
        self.fixture.say_ready(node, false).await;
        answer.await.unwrap()
    }
}

#[tokio::test]
async fn a_node_leaves_its_cluster_by_the_endpoints_of_the_specification() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let kubelets = cluster.fixture.play_kubelets();
    cluster.fixture.run("front", "n1", json!({})).await;
    cluster.ends("nothing/drain", 404, "NotFound").await;
    cluster
        .ends("n1/remove-from-cluster", 409, "Conflict")
        .await;
    cluster
        .ends("n1/drain?timeout=60&grace-period=61", 400, "BadRequest")
        .await;
    assert!(cluster.is_schedulable("n1").await);
    cluster
        .ends("n1/drain?timeout=60&grace-period=1", 200, "Success")
        .await;
    assert!(!cluster.is_schedulable("n1").await);
    assert!(cluster.fixture.pod_names().await.is_empty());
    cluster
        .ends("n1/clear-labels?timeout=60", 200, "Success")
        .await;
    let answer = cluster.shut_down("n1").await;
    assert_eq!(answer.reason(), (200, "Success".to_owned()), "{answer:?}");
    cluster.ends("n1/remove-from-cluster", 200, "Success").await;
    assert!(
        cluster
            .fixture
            .nodes()
            .get_opt("n1")
            .await
            .unwrap()
            .is_none()
    );
    for operation in [
        "remove-from-cluster",
        "drain",
        "clear-labels",
        "shutdown-kubelet",
        "decommission",
    ] {
        cluster
            .ends(&format!("n1/{operation}"), 404, "NotFound")
            .await;
    }
    kubelets.abort();
}

#[tokio::test]
async fn what_a_cluster_refuses_has_the_reason_of_its_operation() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let kubelets = cluster.fixture.play_kubelets();
    // A pod that never ends, and a budget that lets it never be evicted.
    cluster.fixture.run_stubborn("stuck", "n2").await;
    let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "stuck"}}}});
    cluster.fixture.create(&budget).await;
    cluster.fixture.until_budget("all", 0).await;
    let answer = cluster.post("n2/drain?timeout=6&grace-period=1").await;
    assert_eq!(
        answer.reason(),
        (500, "DrainNodeError".to_owned()),
        "{answer:?}"
    );
    assert!(answer.body.contains("stuck"), "{answer:?}");
    let answer = cluster
        .post("n2/decommission?drain-node-timeout=6&drain-node-grace-period=1")
        .await;
    assert_eq!(
        answer.reason(),
        (500, "DisassociateStepFailure".to_owned()),
        "{answer:?}"
    );
    kubelets.abort();
    cluster.fixture.kill();
    for (operation, reason) in [
        ("drain", "DrainNodeError"),
        ("clear-labels", "ClearLabelsError"),
        ("shutdown-kubelet", "ShutdownKubeletError"),
        ("remove-from-cluster", "DeleteNodeError"),
        ("decommission", "DisassociateStepFailure"),
    ] {
        cluster.ends(&format!("n2/{operation}"), 500, reason).await;
    }
    cluster.fixture.revive().await;
    until("the cluster answers again", || async {
        cluster.fixture.nodes().get("n2").await.is_ok()
    })
    .await;
    cluster.ends("n2/clear-labels", 200, "Success").await;
    let site = cluster.site;
    let log = tokio::task::spawn_blocking(move || site.trueup(&["log", "--format", "json"], &[]));
    let log = log.await.unwrap().with(0).json();
    assert!(log["runs"][0]["requested"]["id"].is_string(), "{log}");
}

/// The code, the reason and the messages of the health of etcd.
fn health(service: &Service) -> (u16, String, serde_json::Value) {
    let path = "/api/v1.0/etcd-cluster-health-statuses?design_ref=git%3AHEAD";
    let answer = service.get(path);
    let (code, reason) = answer.reason();
    (
        code,
        reason,
        answer.json()["details"]["messageList"].clone(),
    )
}

#[test]
fn the_health_of_etcd_is_asked_of_its_members() {
    let Some(real) = Real::three() else { return };
    let site = real.site(false);
    let service = Service::spawn(&mut site.program(&["serve", "-v"]));
    let expected = |text: &str, error: bool| {
        let message =
            json!({"message": text, "error": error, "kind": "HealthMessage", "name": "main"});
        (200, "Success".to_owned(), json!([message]))
    };
    assert_eq!(health(&service), expected("Healthy", false));
    real.kill(1);
    real.kill(2);
    wait_until("the cluster is unhealthy", || {
        health(&service) == expected("Unhealthy", false)
    });
    real.kill(3);
    wait_until("nothing answers", || {
        health(&service) == expected("Unable to access Etcd", true)
    });
}

#[test]
fn an_etcd_that_answers_as_something_else_is_not_accessible() {
    let Some(real) = Real::three() else { return };
    let site = real.site(true);
    let service = Service::spawn(&mut site.program(&["serve", "-v"]));
    let (code, reason, _) = health(&service);
    assert_eq!((code, &*reason), (500, "EtcdNotAccessible"));
}
