//! Machines that Metal3 moves and that are nodes, on a real API server with the real CRDs, and a site of them.
//!
//! The operator plays the hosts, a task of the tests' own the kubelets; the program is run as a user does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::{Management, NAMESPACE};
use crate::site::{Ended, Site, trueup_meanwhile};

pub(super) const NEEDS: &str = "host.metal3.io/external-remediation";
pub(super) const HOLD: &str = "reboot.metal3.io/machine-remediation";
pub(super) const STATE: &str = "trueup.dev/remediation";

/// A site whose machines Metal3 moves, in a cluster that is the management cluster too.
pub(super) struct Lab {
    pub(super) management: Management,
    pub(super) site: Arc<Site>,
    kubelets: tokio::task::JoinHandle<()>,
    /// Machines whose kubelet does not come up.
    pub(super) dead: Arc<Mutex<BTreeSet<String>>>,
    /// Whose kubelet has registered, in order.
    registered: Registered,
}

type Registered = Arc<Mutex<Vec<String>>>;

impl Drop for Lab {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

fn documents(kubeconfig: &Path, nodes: usize, policy: &str) -> Vec<(String, String)> {
    let kubeconfig = format!("{{kubeconfig: {{file: {}}}}}", kubeconfig.display());
    let backends = format!(
        "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {{kind: metal3, metal3: {{cluster: management, networks: [10.0.0.0/8], settling_time: 0.2}}}}\n  \
         clusters: {{management: {kubeconfig}, kubernetes: {kubeconfig}}}\n"
    );
    let machines: String = (1..=nodes)
        .map(|number| {
            format!("---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{number}}}\ndata: {{metadata: {{rack: r1}}}}\n")
        })
        .collect();
    [
        ("backends.yaml", backends),
        (
            "site-definition.yaml",
            "schema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {site_type: lab}\n".to_owned(),
        ),
        (
            "machines.yaml",
            machines + "---\nschema: drydock/Rack/v1\nmetadata: {name: r1}\ndata: {}\n",
        ),
        (
            "policy.yaml",
            format!("schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{unverified: [{{node_names: []}}], remediation: {policy}}}\n"),
        ),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into()
}

pub(super) fn machines(management: &Management) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
    Api::namespaced_with(
        management.fixture.client.clone(),
        NAMESPACE,
        &ApiResource::from_gvk(&kind),
    )
}

/// A machine in use: a provisioned host, its Metal3Machine, its Machine, its node.
pub(super) async fn machine(management: &Management, name: &str) {
    let create = async |object: Value| management.fixture.create(&object).await;
    create(json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-bmc"), "namespace": NAMESPACE},
        "stringData": {"username": "a", "password": "b"}}))
    .await;
    let machine = create(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": format!("m-{name}"), "namespace": NAMESPACE},
        "spec": {"clusterName": "lab", "bootstrap": {"dataSecretName": "none"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": format!("i-{name}")}}}))
    .await;
    create(
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
        "metadata": {"name": format!("i-{name}"), "namespace": NAMESPACE,
            "annotations": {"metal3.io/BareMetalHost": format!("{NAMESPACE}/{name}")},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "name": format!("m-{name}"), "uid": machine.metadata.uid}]},
        "spec": {"image": {"url": "http://one", "checksum": "http://one.sum"}}}),
    )
    .await;
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name}, "spec": {"online": true, "image": {"url": "http://one"},
            "consumerRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "name": format!("i-{name}"), "namespace": NAMESPACE},
            "bmc": {"address": "redfish://10.0.0.1/x", "credentialsName": format!("{name}-bmc")}}});
    let host = serde_json::from_value(host).unwrap();
    management
        .hosts()
        .create(&PostParams::default(), &host)
        .await
        .unwrap();
    // As its operator would leave it, which is asleep.
    let status = json!({"poweredOn": true, "operationalStatus": "OK", "errorCount": 0, "errorMessage": " ",
        "provisioningFailCount": 0,
        "provisioning": {"state": "provisioned", "ID": format!("id-{name}"), "image": {"url": "http://one"}}});
    let status = Patch::Merge(json!({ "status": status }));
    let hosts = management.hosts();
    hosts
        .patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
    management.fixture.register(name).await;
    let labels =
        json!({"metadata": {"labels": {"role": "storage"}, "annotations": {"note": "mine"}}});
    let nodes = management.fixture.nodes();
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
}

/// A site of so many machines, whose clusters are all those of this kubeconfig.
pub(super) fn site(kubeconfig: &Path, nodes: usize, policy: &str) -> Arc<Site> {
    let files = documents(kubeconfig, nodes, policy);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Arc::new(Site::new(&files))
}

/// A kubeconfig of somebody who is not an administrator.
pub(super) fn kubeconfig_of(management: &Management, user: &str) -> PathBuf {
    let path = management.fixture.kubeconfig();
    let text = std::fs::read_to_string(&path).unwrap();
    let admin = "{token: admin-token}";
    let text = text.replace(admin, &format!("{{token: admin-token, as: \"{user}\"}}"));
    let path = path.with_file_name(format!("kubeconfig-of-{}", user.replace(':', "-")));
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs the program in a site; what the tests play goes on meanwhile.
pub(super) async fn trueup(site: Arc<Site>, arguments: &[&str]) -> Ended {
    trueup_meanwhile(site, arguments, &[]).await
}

/// Begins to run the program in a site; its standard error is to be read or inherited.
pub(super) fn begin(site: &Site, arguments: &[&str], stderr: Stdio) -> Child {
    site.start(arguments, &[], stderr)
}

impl Lab {
    /// Machines `n1` on, in use, each a node that is Ready; trueup may do everything.
    pub(super) async fn start(nodes: usize, policy: &str) -> Option<Self> {
        let management = Management::start().await?;
        let kubeconfig = management.fixture.kubeconfig();
        Some(Self::of(management, &kubeconfig, nodes, policy).await)
    }

    /// The same in a cluster that is there, with a kubeconfig for the site.
    pub(super) async fn of(
        management: Management,
        kubeconfig: &Path,
        nodes: usize,
        policy: &str,
    ) -> Self {
        management.operator.tell(|behaviour| {
            behaviour.delay = Duration::from_millis(50);
            behaviour.asleep = true;
        });
        let (numbers, there) = (futures_util::stream::iter(1..=nodes), &management);
        let bring_up = |number| async move {
            let name = format!("n{number}");
            machine(there, &name).await;
        };
        numbers.for_each_concurrent(8, bring_up).await;
        management
            .operator
            .tell(|behaviour| behaviour.asleep = false);
        let site = site(kubeconfig, nodes, policy);
        let dead: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let registered = Registered::default();
        let kubelets = play(&management, dead.clone(), registered.clone());
        Self {
            management,
            site,
            kubelets,
            dead,
            registered,
        }
    }

    /// A node now, if there is one.
    pub(super) async fn node(&self, name: &str) -> Option<Node> {
        self.management.fixture.nodes().get_opt(name).await.unwrap()
    }

    pub(super) async fn ask(&self, node: &str) {
        let patch = json!({"metadata": {"annotations": {NEEDS: "x"}}});
        let parameters = PatchParams::default();
        machines(&self.management)
            .patch(&format!("m-{node}"), &parameters, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(super) async fn annotations(&self, node: &str) -> Value {
        let machine = machines(&self.management)
            .get(&format!("m-{node}"))
            .await
            .unwrap();
        let host = self.management.host(node).await;
        json!([
            machine
                .metadata
                .annotations
                .unwrap_or_default()
                .contains_key(NEEDS),
            !host["metadata"]["annotations"][HOLD].is_null(),
            !host["metadata"]["annotations"][STATE].is_null()
        ])
    }

    /// The machine is on, its node another one with what the old one carried, and nothing is left of it all.
    pub(super) async fn is_healed(&self, node: &str, old: &str) {
        let now = self.management.fixture.nodes().get(node).await.unwrap();
        assert_ne!(now.metadata.uid.as_deref(), Some(old));
        assert_eq!(now.metadata.labels.unwrap()["role"], "storage");
        assert_eq!(now.metadata.annotations.unwrap()["note"], "mine");
        assert_eq!(self.annotations(node).await, json!([false, false, false]));
        assert!(self.management.operator.is_on(node));
    }

    pub(super) async fn uid(&self, node: &str) -> String {
        self.management
            .fixture
            .nodes()
            .get(node)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap()
    }

    /// How often the machine of a host was switched off and on.
    pub(super) fn cycles(&self, node: &str) -> (usize, usize) {
        let events = self.management.operator.events(node);
        let count = |what: &str| events.iter().filter(|event| *event == what).count();
        (count("power off"), count("power on"))
    }

    /// How often the kubelet of a machine made a node of it that was not there.
    pub(super) fn registered(&self, node: &str) -> usize {
        let registered = self.registered.lock().unwrap();
        registered.iter().filter(|each| *each == node).count()
    }

    /// Runs the program.
    pub(super) async fn trueup(&self, arguments: &[&str]) -> Ended {
        trueup(self.site.clone(), arguments).await
    }

    pub(super) fn watcher(&self, port: u16) -> Watcher {
        self.watcher_with(port, &[])
    }

    /// The same, with variables.
    pub(super) fn watcher_with(&self, port: u16, variables: &[(&str, &str)]) -> Watcher {
        let listen = format!("127.0.0.1:{port}");
        let arguments = [
            "apply",
            "remediate",
            "--watch",
            "--lease-duration",
            "3",
            "--listen",
            &listen,
        ];
        Watcher(self.site.start(&arguments, variables, Stdio::inherit()))
    }
}

/// A process that watches; it does not outlive its test.
pub(super) struct Watcher(Child);

impl Watcher {
    /// A process that was started.
    pub(super) fn of(process: Child) -> Self {
        Self(process)
    }
}

impl std::ops::Deref for Watcher {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Watcher {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A kubelet on every machine: it registers when the machine is on and has no node, and is silent when it is off.
fn play(
    management: &Management,
    dead: Arc<Mutex<BTreeSet<String>>>,
    registered: Registered,
) -> tokio::task::JoinHandle<()> {
    let nodes = management.fixture.nodes();
    let hosts = management.hosts();
    tokio::spawn(async move {
        let all = ListParams::default();
        let mut known = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(100 + known * 2)).await;
            // The server may be away.
            let (Ok(hosts), Ok(there)) = tokio::join!(hosts.list(&all), nodes.list(&all)) else {
                continue;
            };
            known = there.items.len() as u64;
            let there: BTreeMap<String, Node> = there
                .items
                .into_iter()
                .filter_map(|node| Some((node.metadata.name.clone()?, node)))
                .collect();
            let (nodes, there, dead) = (&nodes, &there, &dead.lock().unwrap().clone());
            let registered = &registered;
            futures_util::stream::iter(hosts.items)
                .for_each_concurrent(8, |host| async move {
                    let name = host.metadata.name.unwrap();
                    let is_on = host.data["status"]["poweredOn"] == true && !dead.contains(&name);
                    if report(nodes, &name, there.get(&name), is_on).await {
                        registered.lock().unwrap().push(name);
                    }
                })
                .await;
        }
    })
}

/// What a kubelet does, or what is noticed of its silence; whether it has registered.
pub(crate) async fn report(
    nodes: &Api<Node>,
    name: &str,
    node: Option<&Node>,
    is_on: bool,
) -> bool {
    let wanted = if is_on { "True" } else { "Unknown" };
    let status = |node: &Node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|each| each.type_ == "Ready")?;
        Some(ready.status.clone())
    };
    match node {
        None if is_on => {
            let node =
                json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
            let node = serde_json::from_value(node).unwrap();
            let created = nodes.create(&PostParams::default(), &node).await;
            return created.is_ok();
        }
        Some(node) if status(node).as_deref() != Some(wanted) => {
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": wanted,
                "reason": "Kubelet", "message": "", "lastTransitionTime": null, "lastHeartbeatTime": null}]}});
            let patch = Patch::Merge(ready);
            let _ = nodes
                .patch_status(name, &PatchParams::default(), &patch)
                .await;
        }
        _ => {}
    }
    false
}

/// Asks a process to end, and says with what it did.
pub(super) fn terminated(mut process: Watcher) -> Option<i32> {
    let pid = process.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(asked.unwrap().success());
    process.wait().unwrap().code()
}

pub(super) fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return String::new();
    };
    let mut text = String::new();
    let _ = stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    let _ = stream.read_to_string(&mut text);
    text
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}");
}

pub(super) const QUICK: &str = "{power_settling: 1, power_off_timeout: 20, power_on_timeout: 20, ready_timeout: 30, backoff: 1}";
