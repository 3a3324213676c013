//! Remediation of machines that Metal3 moves, on a real API server with the real CRDs: the program as a user
//! runs it, and as a watcher.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::{Management, NAMESPACE};
use crate::site::{Ended, Site};

const NEEDS: &str = "host.metal3.io/external-remediation";
const HOLD: &str = "reboot.metal3.io/machine-remediation";
const STATE: &str = "trueup.dev/remediation";

/// A site whose machines Metal3 moves, in a cluster that is the management cluster too.
struct Lab {
    management: Management,
    site: Arc<Site>,
    kubelets: tokio::task::JoinHandle<()>,
    /// Machines whose kubelet does not come up.
    dead: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

fn documents(management: &Management, nodes: usize, policy: &str) -> Vec<(String, String)> {
    let kubeconfig = management.world.kubeconfig();
    let kubeconfig = format!("{{kubeconfig: {{file: {}}}}}", kubeconfig.display());
    let backends = format!(
        "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {{kind: metal3, metal3: {{cluster: management, settling_time: 0.2}}}}\n  \
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
            format!("schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{remediation: {policy}}}\n"),
        ),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into()
}

fn machines(management: &Management) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
    Api::namespaced_with(
        management.world.client.clone(),
        NAMESPACE,
        &ApiResource::from_gvk(&kind),
    )
}

/// A machine in use: a provisioned host, its Metal3Machine, its Machine, its node.
async fn machine(management: &Management, name: &str) {
    let create = async |object: Value| management.world.create(&object).await;
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
    management.world.register(name).await;
    let labels =
        json!({"metadata": {"labels": {"role": "storage"}, "annotations": {"note": "mine"}}});
    let nodes = management.world.nodes();
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
}

impl Lab {
    async fn start(nodes: usize, policy: &str) -> Option<Self> {
        let management = Management::start().await?;
        management
            .operator
            .tell(|behaviour| behaviour.delay = Duration::from_millis(50));
        for number in 1..=nodes {
            machine(&management, &format!("n{number}")).await;
        }
        for number in 1..=nodes {
            let is_provisioned = |host: &Value| {
                host["status"]["provisioning"]["state"] == "provisioned"
                    && host["status"]["poweredOn"] == true
            };
            management
                .until(&format!("n{number}"), "provisioned and on", is_provisioned)
                .await;
        }
        let files = documents(&management, nodes, policy);
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let site = Arc::new(Site::new(&files));
        let dead: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let kubelets = play(&management, nodes, dead.clone());
        Some(Self {
            management,
            site,
            kubelets,
            dead,
        })
    }

    async fn ask(&self, node: &str) {
        let patch = json!({"metadata": {"annotations": {NEEDS: "x"}}});
        let parameters = PatchParams::default();
        machines(&self.management)
            .patch(&format!("m-{node}"), &parameters, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn annotations(&self, node: &str) -> Value {
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
    async fn is_healed(&self, node: &str, old: &str) {
        let now = self.management.world.nodes().get(node).await.unwrap();
        assert_ne!(now.metadata.uid.as_deref(), Some(old));
        assert_eq!(now.metadata.labels.unwrap()["role"], "storage");
        assert_eq!(now.metadata.annotations.unwrap()["note"], "mine");
        assert_eq!(self.annotations(node).await, json!([false, false, false]));
        assert!(self.management.operator.is_on(node));
    }

    async fn uid(&self, node: &str) -> String {
        self.management
            .world
            .nodes()
            .get(node)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap()
    }

    /// How often the machine of a host was switched off and on.
    fn cycles(&self, node: &str) -> (usize, usize) {
        let events = self.management.operator.events(node);
        let count = |what: &str| events.iter().filter(|event| *event == what).count();
        (count("power off"), count("power on"))
    }

    /// Runs the program; what the tests play goes on meanwhile.
    async fn trueup(&self, arguments: &[&str]) -> Ended {
        let arguments: Vec<String> = arguments.iter().map(|each| (*each).to_owned()).collect();
        let site = self.site.clone();
        let ended = tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            site.trueup(&arguments, &[])
        });
        ended.await.unwrap()
    }

    fn watcher(&self, port: u16) -> Child {
        Command::new(env!("CARGO_BIN_EXE_trueup"))
            .args([
                "apply",
                "remediate",
                "--watch",
                "--listen",
                &format!("127.0.0.1:{port}"),
            ])
            .current_dir(self.site.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.site.path())
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    }
}

/// A kubelet on every machine: it registers when the machine is on and has no node, and is silent when it is off.
fn play(
    management: &Management,
    nodes: usize,
    dead: Arc<Mutex<BTreeSet<String>>>,
) -> tokio::task::JoinHandle<()> {
    let api = management.world.nodes();
    let hosts = management.hosts();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            for number in 1..=nodes {
                let name = format!("n{number}");
                let Ok(Some(host)) = hosts.get_opt(&name).await else {
                    continue;
                };
                let is_on = host.data["status"]["poweredOn"] == true
                    && !dead.lock().unwrap().contains(&name);
                let found = api.get_opt(&name).await;
                let ready = json!({"status": {"conditions": [{"type": "Ready", "status": if is_on { "True" } else { "Unknown" },
                    "reason": "Kubelet", "message": "", "lastTransitionTime": null, "lastHeartbeatTime": null}]}});
                if let (Ok(None), true) = (&found, is_on) {
                    let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
                    let node = serde_json::from_value(node).unwrap();
                    let _ = api.create(&PostParams::default(), &node).await;
                }
                let _ = api
                    .patch_status(&name, &PatchParams::default(), &Patch::Merge(ready))
                    .await;
            }
        }
    })
}

fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return String::new();
    };
    let mut text = String::new();
    let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let _ = stream.read_to_string(&mut text);
    text
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}");
}

const QUICK: &str = "{power_settling: 1, power_off_timeout: 20, power_on_timeout: 20, ready_timeout: 30, backoff: 1}";

#[tokio::test]
async fn a_machine_that_asks_for_it_is_remediated_and_every_annotation_is_gone_after_it() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let nothing = lab
        .trueup(&["plan", "remediate", "--format", "json"])
        .await
        .with(0)
        .json();
    assert_eq!(nothing["changes"], json!([]));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let plan = lab
        .trueup(&["plan", "remediate", "--format", "json"])
        .await
        .with(0)
        .json();
    let reasons = plan["changes"][0]["reasons"].to_string();
    assert!(
        reasons.contains("Machine `metal3/m-n1` asks for it"),
        "{reasons}"
    );
    assert!(reasons.contains("row 1110 of the table"), "{reasons}");
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(0);
    lab.is_healed("n1", &old).await;
    assert_eq!(lab.cycles("n1").0, 1);
    assert_eq!(lab.cycles("n2").0, 0);
}

#[tokio::test]
async fn hosts_that_would_not_be_switched_off_and_on_again_are_refused_each_with_its_reason() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    lab.ask("n1").await;
    let cases = [
        (
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": "x"}}}),
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": null}}}),
            "paused",
        ),
        (
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": "x"}}}),
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": null}}}),
            "detached",
        ),
        (
            json!({"spec": {"disablePowerOff": true}}),
            json!({"spec": {"disablePowerOff": false}}),
            "disablePowerOff",
        ),
        (
            json!({"spec": {"consumerRef": null}}),
            json!({"spec": {"consumerRef": {"kind": "Metal3Machine", "name": "i-n1", "namespace": "elsewhere",
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2"}}}),
            "consumer",
        ),
    ];
    for (change, undo, words) in cases {
        lab.management.patch("n1", change).await;
        let plan = lab
            .trueup(&["plan", "remediate", "n1", "--format", "json"])
            .await
            .with(0)
            .json();
        let reason = plan["changes"][0]["blocked"]["reason"].to_string();
        assert!(reason.contains(words), "{words}: {reason}");
        lab.trueup(&["apply", "remediate", "n1", "--yes"])
            .await
            .with(4);
        lab.management.patch("n1", undo).await;
    }
    // The last one left the host to a consumer elsewhere.
    let plan = lab
        .trueup(&["plan", "remediate", "n1", "--format", "json"])
        .await
        .with(0)
        .json();
    let reason = plan["changes"][0]["blocked"]["reason"].to_string();
    assert!(reason.contains("another namespace"), "{reason}");
    assert_eq!(lab.cycles("n1").0, 0);
}

#[tokio::test]
async fn a_host_that_never_goes_off_keeps_its_node_and_is_let_go() {
    let policy =
        "{power_settling: 1, power_off_timeout: 3, ready_timeout: 20, attempts: 2, backoff: 1}";
    let Some(lab) = Lab::start(3, policy).await else {
        return;
    };
    lab.management.operator.tell(|behaviour| {
        behaviour.never_off.insert("n1".to_owned());
    });
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let ended = lab.trueup(&["apply", "remediate", "--yes"]).await.with(7);
    assert!(
        ended.stderr.contains("given up after 2 attempts"),
        "{}",
        ended.stderr
    );
    assert_eq!(lab.uid("n1").await, old);
    assert_eq!(lab.annotations("n1").await, json!([false, false, false]));
    // Nobody but a person tries again, also when a health check asks.
    lab.ask("n1").await;
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(4);
}

#[tokio::test]
async fn a_node_that_never_comes_back_ends_in_a_final_state_and_not_in_another_reboot() {
    let policy = "{power_settling: 1, ready_timeout: 4, attempts: 2, backoff: 1}";
    let Some(lab) = Lab::start(3, policy).await else {
        return;
    };
    lab.dead.lock().unwrap().insert("n1".to_owned());
    lab.ask("n1").await;
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(7);
    assert_eq!(lab.cycles("n1").0, 2);
    assert!(lab.management.operator.is_on("n1"));
    let host = lab.management.host("n1").await;
    assert!(host["metadata"]["annotations"]["trueup.dev/remediation-given-up"].is_string());
    // What the node carried is still there, for whoever tries again.
    lab.dead.lock().unwrap().clear();
    let is_there = async || {
        let node = lab.management.world.nodes().get_opt("n1").await.unwrap();
        node.is_some()
    };
    until("its kubelet does not come up", is_there).await;
    lab.trueup(&["apply", "remediate", "n1", "--yes"])
        .await
        .with(0);
    lab.is_healed("n1", "").await;
}

#[tokio::test]
async fn a_watcher_that_is_killed_again_and_again_leaves_no_host_off() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let is_done = async |lab: &Lab| {
        let node = lab.management.world.nodes().get_opt("n1").await.unwrap();
        let is_new = node.is_some_and(|node| {
            node.metadata.uid.as_deref() != Some(&*old)
                && node
                    .metadata
                    .labels
                    .is_some_and(|labels| labels.contains_key("role"))
        });
        is_new && lab.annotations("n1").await == json!([false, false, false])
    };
    let mut lives = 0;
    while !is_done(&lab).await {
        let before = (
            lab.annotations("n1").await,
            lab.management
                .world
                .nodes()
                .get_opt("n1")
                .await
                .unwrap()
                .map(|node| node.metadata.uid),
        );
        let mut watcher = lab.watcher(22901);
        until("the watcher does nothing", async || {
            let now = (
                lab.annotations("n1").await,
                lab.management
                    .world
                    .nodes()
                    .get_opt("n1")
                    .await
                    .unwrap()
                    .map(|node| node.metadata.uid),
            );
            now != before || is_done(&lab).await
        })
        .await;
        watcher.kill().unwrap();
        watcher.wait().unwrap();
        lives += 1;
        assert!(lives < 30, "it never ends");
    }
    assert!(lives > 1, "{lives}");
    lab.is_healed("n1", &old).await;
    let (off, _) = lab.cycles("n1");
    assert_eq!(off, 1, "{:?}", lab.management.operator.events("n1"));
}

#[tokio::test]
async fn of_two_watchers_one_is_active_and_the_other_takes_over() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let (mut first, mut second) = (lab.watcher(22911), lab.watcher(22912));
    let leads = |port| get(port, "/metrics").contains("\ntrueup_leader 1");
    until("none is active", async || leads(22911) || leads(22912)).await;
    assert!(!(leads(22911) && leads(22912)));
    assert!(get(22911, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(22912, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(22912, "/other").starts_with("HTTP/1.1 404"));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    until("nobody remediates", async || {
        lab.annotations("n1").await == json!([false, false, false]) && lab.uid("n1").await != old
    })
    .await;
    let (active, waiting) = if leads(22911) {
        (&mut first, 22912)
    } else {
        (&mut second, 22911)
    };
    active.kill().unwrap();
    active.wait().unwrap();
    until("the other does not take over", async || leads(waiting)).await;
    let old = lab.uid("n2").await;
    lab.ask("n2").await;
    let is_healed = async || {
        let node = lab.management.world.nodes().get_opt("n2").await.unwrap();
        node.is_some_and(|node| node.metadata.uid.as_deref() != Some(&*old))
            && lab.annotations("n2").await == json!([false, false, false])
    };
    until("the other does not remediate", is_healed).await;
    for watcher in [&mut first, &mut second] {
        let _ = watcher.kill();
        let _ = watcher.wait();
    }
    assert_eq!((lab.cycles("n1").0, lab.cycles("n2").0), (1, 1));
}
