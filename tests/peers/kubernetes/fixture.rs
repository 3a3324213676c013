//! A cluster of its own for each test, who plays its kubelets, and orders for the backend.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use trueup::backend::cluster;
use trueup::backend::hardware::sim::Simulators;
use trueup::backend::{
    ActError, BackendContext, Cluster, Listener, NoSecrets, Order, Pending, Probe, Reporter,
    Secret, SecretError, Secrets,
};
use trueup::design::{DrainRules, Guards, NodeName, Reference, RunId};
use trueup::diagnostic::SourceId;
use trueup::document::{Limits, load_values};
use trueup::step::{Step, StepId, StepKind};

use crate::harness::{Peer, given, shared};

/// The rights that the documentation lists.
const RIGHTS: &str = include_str!("../../../docs/kubernetes.md");

/// The run in whose name orders are given.
pub(crate) const RUN: &str = "01JB0000000000000000000000";

/// A cluster, and the backend before it.
pub(crate) struct Fixture {
    peer: Peer,
    port: String,
    /// Where its servers are, if that is not for its script to find.
    assets: Option<PathBuf>,
    pub(crate) client: Client,
    pub(crate) backend: Arc<dyn Cluster>,
    /// Names of pods that never end by themselves.
    stubborn: Arc<Mutex<BTreeSet<String>>>,
}

/// Knows one kubeconfig.
#[derive(Debug)]
struct OneSecret(String);

impl Secrets for OneSecret {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        // Files that the kubeconfig names.
        if let Reference::File(path) = reference
            && Path::new(&**path).is_absolute()
        {
            let text = std::fs::read_to_string(&**path);
            return text
                .map(Secret::new)
                .map_err(|error| SecretError(error.to_string()));
        }
        Ok(Secret::new(self.0.clone()))
    }
}

/// Remembers what a step said.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<Arc<str>>>);

impl Heard {
    /// Whether anything that was said holds this.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|said| said.contains(text))
    }
}

impl Listener for Heard {
    fn progress(&self, text: Arc<str>) {
        self.0.lock().unwrap().push(text);
    }

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.0.lock().unwrap().push(text);
        Box::pin(async { Ok(()) })
    }
}

/// Nothing but defaults.
pub(crate) fn parameters() -> Value {
    json!({})
}

/// Guards whose Backends document has this `clusters`, and whose Policy these `drain_rules`.
pub(crate) fn guards(data: &str) -> Guards {
    let (mut values, problems) = load_values(SourceId(0), data, &Limits::default());
    assert!(problems.is_empty(), "{problems:?}");
    let mut guards = Guards::default();
    let data = values.remove(0);
    for node in ["n1", "n2"] {
        let name = data
            .at(&["names", node, "kubernetes"])
            .and_then(|name| name.as_str());
        if let Some(name) = name {
            let names = [(Arc::from("kubernetes"), Arc::from(name))];
            guards
                .backends
                .names
                .insert(NodeName::from(node), names.into_iter().collect());
        }
    }
    guards.policy.drain_rules = DrainRules::read(&data);
    guards.backends.data = Some(data);
    guards
}

/// Opens the cluster that guards name.
pub(crate) fn open(data: &str, secrets: Arc<dyn Secrets>) -> Arc<dyn Cluster> {
    let context = BackendContext::trusting("unused".into(), secrets);
    let guards = guards(data);
    let mut simulators = Simulators::new(&guards, &context).unwrap();
    cluster::choose(&guards, &context, &mut simulators)
        .unwrap()
        .unwrap()
}

impl Fixture {
    /// Starts a cluster; `None`, said loudly, if that cannot be.
    pub(crate) async fn start(data: &str) -> Option<Self> {
        Self::start_of(data, None).await
    }

    /// Starts a cluster of the servers in a folder; `None`: of those that its script finds.
    pub(crate) async fn start_of(data: &str, assets: Option<PathBuf>) -> Option<Self> {
        let environment = environment(assets.as_deref());
        let peer = Peer::start_with("kube-up.sh", &environment, |ports| {
            vec![ports.at(0).to_string()]
        })?;
        let port = peer.ports().at(0).to_string();
        let kubeconfig = std::fs::read_to_string(peer.path("kubeconfig")).unwrap();
        let config = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let limited =
            kubeconfig.replace("{token: admin-token}", "{token: admin-token, as: trueup}");
        assert_ne!(limited, kubeconfig);
        let backend = open(data, Arc::new(OneSecret(limited)));
        let fixture = Self {
            peer,
            port,
            assets,
            client,
            backend,
            stubborn: Arc::default(),
        };
        fixture.grant().await;
        Some(fixture)
    }

    /// Gives the backend's user the rights that the documentation lists.
    async fn grant(&self) {
        self.grant_block("name: trueup-shutdown-kubelet").await;
    }

    /// Gives it those for conditions and leases, too.
    pub(crate) async fn grant_leases(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "medik8s-leases"}});
        self.create(&namespace).await;
        self.grant_block("namespace: medik8s-leases").await;
    }

    /// Gives it those for eviction requests, too.
    pub(crate) async fn grant_requests(&self) {
        self.grant_block("name: trueup-eviction-requests").await;
    }

    /// A lease on a node.
    pub(crate) async fn lease(&self, name: &str) -> Option<Value> {
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
            Api::namespaced(self.client.clone(), "medik8s-leases");
        let found = leases.get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(found).unwrap())
    }

    /// Creates the objects of the block of the documentation that holds a text.
    async fn grant_block(&self, text: &str) {
        let manifest = RIGHTS.split("```yaml\n").find(|block| block.contains(text));
        let manifest = manifest.unwrap().split("```").next().unwrap();
        for document in manifest
            .split("---\n")
            .filter(|text| !text.trim().is_empty())
        {
            let object: Value = serde_yaml::from_str(document).unwrap();
            self.create(&object).await;
        }
    }

    /// Where the kubeconfig of somebody who may do everything lies.
    pub(crate) fn kubeconfig(&self) -> std::path::PathBuf {
        self.peer.path("kubeconfig")
    }

    /// Kills all of the cluster's servers.
    pub(crate) fn kill(&self) {
        for name in ["kube-controller-manager", "kube-apiserver", "etcd"] {
            self.peer.kill(&format!("{name}.pid"));
        }
    }

    /// Sends one of the cluster's servers a signal (`STOP`).
    pub(crate) fn signal(&self, server: &str, signal: &str) {
        let pid = std::fs::read_to_string(self.peer.path(&format!("{server}.pid"))).unwrap();
        let kill = Command::new("kill")
            .args([&format!("-{signal}"), pid.trim()])
            .status();
        assert!(kill.unwrap().success());
    }

    /// Starts them again with what they had.
    pub(crate) async fn revive(&self) {
        let script = shared("peers").unwrap().join("kube-up.sh");
        let (folder, port) = (self.peer.folder().to_owned(), self.port.clone());
        let assets = self.assets.clone();
        let status = tokio::task::spawn_blocking(move || {
            Command::new(script)
                .arg(folder)
                .arg(port)
                .envs(environment(assets.as_deref()))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
        });
        assert!(status.await.unwrap().unwrap().success());
    }

    /// Creates an object of whatever kind.
    pub(crate) async fn create(&self, object: &Value) -> DynamicObject {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object["apiVersion"].as_str().unwrap()),
        };
        let kind = text(&object["kind"]);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// A node as its kubelet registers it, Ready; gives its UID.
    pub(crate) async fn register(&self, name: &str) -> Arc<str> {
        let node = json!({"metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "rack": "r1"}}});
        let parameters = PostParams {
            field_manager: Some("kubelet".to_owned()),
            ..PostParams::default()
        };
        let node = serde_json::from_value(node).unwrap();
        let node = self.nodes().create(&parameters, &node).await.unwrap();
        self.say_ready(name, true).await;
        node.metadata.uid.unwrap().into()
    }

    /// Has a kubelet report, or its silence noticed.
    pub(crate) async fn say_ready(&self, node: &str, ready: bool) {
        let (status, message) = match ready {
            true => ("True", "kubelet is posting ready status"),
            false => ("Unknown", "Kubelet stopped posting node status."),
        };
        let condition = json!({"type": "Ready", "status": status, "message": message,
            "reason": "Kubelet", "lastTransitionTime": null, "lastHeartbeatTime": null});
        let patch = json!({"status": {"conditions": [condition]}});
        let (nodes, parameters) = (self.nodes(), PatchParams::default());
        let patch = Patch::Merge(patch);
        nodes.patch_status(node, &parameters, &patch).await.unwrap();
    }

    /// Lets a pod end by itself.
    pub(crate) async fn end_pod(&self, name: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        let (pods, parameters) = (self.pods(), PatchParams::default());
        pods.patch_status(name, &parameters, &patch).await.unwrap();
    }

    /// A pod on a node, running and ready; gives its UID.
    pub(crate) async fn run(&self, name: &str, node: &str, more: Value) -> String {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node,
            "containers": [{"name": "main", "image": "example.org/main:1"}]}});
        merge(&mut pod, more);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pod = self
            .pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": null}]}});
        let parameters = PatchParams::default();
        self.pods()
            .patch_status(name, &parameters, &Patch::Merge(status))
            .await
            .unwrap();
        pod.metadata.uid.unwrap()
    }

    /// A pod that never ends by itself.
    pub(crate) async fn run_stubborn(&self, name: &str, node: &str) {
        self.stubborn.lock().unwrap().insert(name.to_owned());
        self.run(name, node, json!({"metadata": {"labels": {"app": name}}}))
            .await;
    }

    /// The names of all pods.
    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let list = self.pods().list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .map(|pod| pod.metadata.name.unwrap())
            .collect()
    }

    /// The names of the pods that are bound to a node, of all namespaces.
    pub(crate) async fn pods_on(&self, node: &str) -> Vec<String> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let list = pods.list(&of_node).await.unwrap();
        let names = list.items.into_iter().map(|pod| pod.metadata.name.unwrap());
        names.collect()
    }

    /// Plays the scheduler for the pod that the controller makes of a DaemonSet for a node.
    pub(crate) async fn bind(&self, namespace: &str, prefix: &str, node: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        until("a pod of the DaemonSet is bound", || async {
            let mut is_bound = false;
            for pod in pods.list(&ListParams::default()).await.unwrap().items {
                let name = pod.metadata.name.clone().unwrap();
                let of_node = serde_json::to_value(&pod).unwrap()["spec"]["affinity"]["nodeAffinity"]
                    ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchFields"]
                    [0]["values"][0]
                    .clone();
                if name.starts_with(prefix) && of_node == node {
                    let binding = json!({"apiVersion": "v1", "kind": "Binding",
                        "metadata": {"name": name},
                        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
                    let request = kube::core::Request::new(&path);
                    let body = serde_json::to_vec(&binding).unwrap();
                    let parameters = PostParams::default();
                    let request = request.create_subresource("binding", &name, &parameters, body);
                    is_bound = self.client.request_text(request.unwrap()).await.is_ok();
                }
            }
            is_bound
        })
        .await;
    }

    /// Waits until a budget counts the pods that it needs.
    pub(crate) async fn until_budget(&self, name: &str, wanted: i64) {
        let path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets";
        until("the budget counts its pods", || async {
            let request = kube::core::Request::new(path).get(name, &Default::default());
            let budget: Value = self.client.request(request.unwrap()).await.unwrap();
            budget["status"]["currentHealthy"].as_i64().unwrap_or(-1) >= wanted
                && budget["status"]["desiredHealthy"] == json!(wanted)
        })
        .await;
    }

    /// How many evictions the server has refused for now.
    pub(crate) async fn refused_evictions(&self) -> u64 {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let metrics = self.client.request_text(request).await.unwrap();
        let refused = metrics.lines().filter(|line| {
            line.starts_with("apiserver_request_total{")
                && line.contains("code=\"429\"")
                && line.contains("subresource=\"eviction\"")
        });
        let counts = refused.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        counts.sum::<f64>() as u64
    }

    /// Plays the kubelets until the test ends: pods that shall end, end.
    pub(crate) fn play_kubelets(&self) -> tokio::task::JoinHandle<()> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let (client, stubborn) = (self.client.clone(), self.stubborn.clone());
        tokio::spawn(async move {
            let now = DeleteParams::default().grace_period(0);
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let Ok(list) = pods.list(&ListParams::default()).await else {
                    continue;
                };
                let ending = list
                    .items
                    .into_iter()
                    .map(|pod| pod.metadata)
                    .filter(|pod| {
                        let name = pod.name.as_deref().unwrap();
                        pod.deletion_timestamp.is_some() && !stubborn.lock().unwrap().contains(name)
                    });
                iter(ending)
                    .for_each_concurrent(8, |pod| {
                        let api: Api<Pod> =
                            Api::namespaced(client.clone(), pod.namespace.as_deref().unwrap());
                        let now = &now;
                        async move {
                            let _ = api.delete(pod.name.as_deref().unwrap(), now).await;
                        }
                    })
                    .await;
            }
        })
    }

    /// An order for a node.
    pub(crate) fn order(
        &self,
        kind: StepKind,
        node: &str,
        timeout: u64,
        parameters: Value,
    ) -> (Order, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        let step = Step {
            id: StepId {
                kind,
                group: None,
                node: Some(NodeName::from(node)),
                wave: None,
            },
            timeout,
            effect: kind.facts().effect,
            standby: false,
            parameters: given(kind, &parameters),
            needs: Vec::new(),
        };
        let order = Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from(RUN),
            step: Arc::new(step),
            node: None,
            notes: Vec::new(),
            reporter: Reporter::new(heard.clone()),
        };
        (order, heard)
    }

    /// Carries a step out.
    pub(crate) async fn act(
        &self,
        kind: StepKind,
        node: &str,
        timeout: u64,
        parameters: Value,
    ) -> Result<(), ActError> {
        let (order, _) = self.order(kind, node, timeout, parameters);
        self.backend.act(&order).await
    }

    /// Looks how far a step is.
    pub(crate) async fn probe(&self, kind: StepKind, node: &str, parameters: Value) -> Probe {
        let (order, _) = self.order(kind, node, 60, parameters);
        self.backend.probe(&order).await
    }
}

/// What tells the script if the servers are.
fn environment(assets: Option<&Path>) -> Vec<(&'static str, &Path)> {
    assets
        .into_iter()
        .map(|folder| ("KUBEBUILDER_ASSETS", folder))
        .collect()
}

/// Waits until something holds that has to be asked for; fails the test when it does not within a minute.
#[track_caller]
pub(crate) fn until<F: Future<Output = bool>>(
    what: &str,
    mut holds: impl FnMut() -> F,
) -> impl Future<Output = ()> {
    let what = what.to_owned();
    async move {
        for _ in 0..1200 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what}");
    }
}

/// What an error says.
#[track_caller]
pub(crate) fn permanent(ended: Result<(), ActError>) -> String {
    match ended {
        Err(ActError::Permanent(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Knows one text.
pub(crate) fn secret(text: String) -> Arc<dyn Secrets> {
    Arc::new(OneSecret(text))
}

/// Knows nothing.
pub(crate) fn no_secrets() -> Arc<dyn Secrets> {
    Arc::new(NoSecrets)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
