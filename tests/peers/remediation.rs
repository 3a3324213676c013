//! Remediation without Metal3: a real controller switches the machine, a real API server has its node, and the
//! annotations are trueup's own.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::Peer;
use crate::kubernetes::{Fixture, until};
use crate::metal3::report;
use crate::site::{Ended, Site, trueup_meanwhile};

const NODE: &str = "n1";

/// What the controllers want.
static PASSWORD: [(&str, &str); 2] = [
    ("BMC_PASSWORD", "test"),
    ("MAAS_API_KEY", crate::maas::KEY_TEXT),
];

const DEFINITION: &str = "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {}\n";

/// What every site here has.
const GENERAL: &str = "\
---
schema: drydock/HardwareProfile/v1
metadata: {name: small}
data: {vendor: Sushy}
---
schema: drydock/Network/v1
metadata: {name: oob}
data: {cidr: 127.0.0.0/8}
---
schema: drydock/NetworkLink/v1
metadata: {name: oob}
data: {trunking: {mode: disabled, default_network: oob}, allowed_networks: [oob]}
---
schema: drydock/HostProfile/v1
metadata: {name: host}
data:
  hardware_profile: small
  primary_network: oob
  platform: {image: ubuntu}
  storage: {physical_devices: {sda: {partitions: [{name: root, size: 30g, filesystem: {mountpoint: /, fstype: ext4}}]}}}
---
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: []}
---
schema: trueup/Policy/v1
metadata: {name: policy}
data:
  wipe: skip
  remediation: {power_settling: 1, power_off_timeout: 60, power_on_timeout: 60, ready_timeout: 60, backoff: 1}
";

/// Tells whether a machine is on, past trueup.
pub(crate) type Power = Arc<dyn Fn() -> bool + Send + Sync>;

/// A machine behind a controller, whose kubelet is played.
pub(crate) struct Lab {
    pub(crate) fixture: Fixture,
    site: Arc<Site>,
    is_on: Power,
    kubelet: tokio::task::JoinHandle<()>,
    /// What switches the machine, for as long as this lives.
    _controller: Box<dyn Send>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

impl Lab {
    /// `hardware`: the settings of the backend; `oob`: how the node names its controller.
    pub(crate) async fn start(
        controller: impl Send + 'static,
        hardware: &str,
        oob: &str,
        is_on: Power,
    ) -> Option<Self> {
        let fixture = Fixture::start("clusters: {kubernetes: {}}").await?;
        let backends = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {hardware}\n  \
             clusters: {{kubernetes: {{kubeconfig: {{file: {}}}}}}}\n",
            fixture.kubeconfig().display()
        );
        let node = format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {NODE}}}\ndata:\n  host_profile: host\n  \
             oob: {oob}\n  addressing: [{{network: oob, address: 127.0.0.1}}]\n"
        );
        let site = Arc::new(Site::new(&[
            ("site-definition.yaml", DEFINITION),
            ("general.yaml", GENERAL),
            ("backends.yaml", &backends),
            ("node.yaml", &node),
        ]));
        let kubelet = play(&fixture, is_on.clone());
        let lab = Self {
            fixture,
            site,
            is_on,
            kubelet,
            _controller: Box::new(controller),
        };
        lab.trueup(&["apply", "--yes"]).await.with(0);
        let patch =
            json!({"metadata": {"labels": {"role": "storage"}, "annotations": {"note": "mine"}}});
        let nodes = lab.fixture.nodes();
        nodes
            .patch(NODE, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        Some(lab)
    }

    /// Runs the program; what the tests play goes on meanwhile.
    pub(crate) async fn trueup(&self, arguments: &[&str]) -> Ended {
        trueup_meanwhile(self.site.clone(), arguments, &PASSWORD).await
    }

    /// Begins to run the program.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Child {
        self.site.start(arguments, &PASSWORD, Stdio::null())
    }

    pub(crate) async fn node(&self) -> Value {
        let node = self.fixture.nodes().get_opt(NODE).await.unwrap();
        node.map_or(Value::Null, |node| serde_json::to_value(node).unwrap())
    }

    /// The machine is on, and its node is another one with what the old one carried.
    pub(crate) async fn is_healed(&self, old: &Value) {
        let now = self.node().await;
        assert_ne!(now["metadata"]["uid"], old["metadata"]["uid"]);
        assert_eq!(now["metadata"]["labels"]["role"], "storage");
        assert_eq!(now["metadata"]["annotations"]["note"], "mine");
        assert!((self.is_on)());
    }

    /// Remediates the machine; once to the end, once with the program killed while the machine is off.
    pub(crate) async fn remediated(&self) {
        let old = self.node().await;
        let plan = self
            .trueup(&["plan", "remediate", NODE, "--format", "json"])
            .await
            .with(0)
            .json();
        let reasons = plan["changes"][0]["reasons"].to_string();
        assert!(
            reasons.contains("has no reboot annotation: Add reboot annotation"),
            "{reasons}"
        );
        self.trueup(&["apply", "remediate", NODE, "--yes"])
            .await
            .with(0);
        self.is_healed(&old).await;

        let old = self.node().await;
        let remediate = ["apply", "remediate", NODE, "--yes"];
        let mut killed = self.site.start(&remediate, &PASSWORD, Stdio::null());
        for _ in 0..1200 {
            if !(self.is_on)() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(
            !(self.is_on)(),
            "it was to be killed while the machine is off"
        );
        self.trueup(&["apply", "--resume", "--yes"]).await.with(0);
        self.is_healed(&old).await;
        let ended = self.trueup(&["plan", "--detailed-exitcode"]).await;
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}

impl Lab {
    async fn patch(&self, patch: Value) {
        let (nodes, parameters) = (self.fixture.nodes(), PatchParams::default());
        let patched = nodes.patch(NODE, &parameters, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    /// The reasons of the one change that an update plans.
    async fn drift(&self) -> String {
        let plan = self.trueup(&["plan", "--format", "json"]).await;
        let plan = plan.with(0).json();
        plan["changes"][0]["reasons"].to_string()
    }

    /// What clear-labels takes is put back by uncordon, and on a node of that name that registers later by
    /// the next apply; taints that went with the node too.
    async fn cleared_and_given_back(&self) {
        let taint = json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"});
        self.patch(json!({"spec": {"taints": [taint]}})).await;
        for action in ["drain", "clear-labels"] {
            self.trueup(&["apply", action, NODE, "--yes"]).await.with(0);
        }
        assert!(self.node().await["metadata"]["labels"]["role"].is_null());
        self.trueup(&["apply", "uncordon", NODE, "--yes"])
            .await
            .with(0);
        let node = self.node().await;
        assert_eq!(node["metadata"]["labels"]["role"], "storage");
        assert!(node["spec"]["unschedulable"].is_null());
        self.trueup(&["plan", "--detailed-exitcode"]).await.with(0);

        for action in ["drain", "clear-labels"] {
            self.trueup(&["apply", action, NODE, "--yes"]).await.with(0);
        }
        let old = self.node().await;
        let nodes = self.fixture.nodes();
        nodes.delete(NODE, &Default::default()).await.unwrap();
        until("its kubelet registers again", || async {
            let node = self.node().await;
            node["metadata"]["uid"].is_string() && node["metadata"]["uid"] != old["metadata"]["uid"]
        })
        .await;
        until("it is Ready", || async { self.is_ready().await }).await;
        let drift = self.drift().await;
        assert!(drift.contains("not back: role"), "{drift}");
        self.trueup(&["apply", "--yes"]).await.with(0);
        let node = self.node().await;
        assert_eq!(node["metadata"]["labels"]["role"], "storage");
        let taints = node["spec"]["taints"].to_string();
        assert!(taints.contains("dedicated"), "{taints}");
        self.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
    }

    async fn is_ready(&self) -> bool {
        let node = self.node().await;
        let conditions = node["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.any(|each| each["type"] == "Ready" && each["status"] == "True")
    }

    /// A node that comes back after its remediation was aborted gets what the one before carried.
    async fn aborted_and_given_back(&self) {
        // Who makes a node anew brings no annotation back.
        self.patch(json!({"metadata": {"annotations": {"note": "mine"}}}))
            .await;
        let old = self.node().await;
        let remediate = ["apply", "remediate", NODE, "--yes"];
        let mut killed = self.site.start(&remediate, &PASSWORD, Stdio::null());
        until("its node is deleted", || async {
            self.node().await.is_null()
        })
        .await;
        killed.kill().unwrap();
        killed.wait().unwrap();
        let log = self.trueup(&["log", "--format", "json"]).await.stdout;
        let resumed = self.trueup(&["apply", "--yes"]).await.with(8);
        let run = resumed
            .stderr
            .split_whitespace()
            .find(|word| word.trim_matches('`').len() == 26);
        let run = run
            .unwrap_or_else(|| panic!("{resumed:?}\n{log}"))
            .trim_matches('`')
            .to_owned();
        self.trueup(&["abort", &run]).await.with(0);
        if !(self.is_on)() {
            self.trueup(&["apply", "power", "on", NODE, "--yes"])
                .await
                .with(0);
        }
        until("its kubelet registers again", || async {
            self.is_ready().await
        })
        .await;
        assert!(self.node().await["metadata"]["labels"]["role"].is_null());
        let drift = self.drift().await;
        assert!(drift.contains("not back: role"), "{drift}");
        self.trueup(&["apply", "--yes"]).await.with(0);
        self.is_healed(&old).await;
    }

    /// A cluster that cannot be read is a failure of the step, in its own words.
    async fn unreadable(&self) {
        self.fixture.kill();
        for (action, reason) in [
            ("drain", "DrainNodeError"),
            ("clear-labels", "ClearLabelsError"),
            ("decommission", "DisassociateStepFailure"),
        ] {
            let apply = ["apply", action, NODE, "--yes", "--format", "json"];
            let status = self.trueup(&apply).await.with(7).json();
            assert_eq!(
                json!([status["reason"], status["code"]]),
                json!([reason, 500])
            );
        }
    }
}

/// A kubelet: it registers when the machine is on and has no node, and is silent when it is off.
fn play(fixture: &Fixture, is_on: Power) -> tokio::task::JoinHandle<()> {
    let nodes = fixture.nodes();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let is_on = is_on.clone();
            let is_on = tokio::task::spawn_blocking(move || is_on()).await.unwrap();
            if let Ok(node) = nodes.get_opt(NODE).await {
                report(&nodes, NODE, node.as_ref(), is_on).await;
            }
        }
    })
}

/// A machine behind a simulated controller.
async fn behind_ipmi() -> Option<Lab> {
    let controller = Peer::start("ipmi-up.sh", |ports| vec![ports.at(0).to_string()])?;
    let hardware = format!(
        "{{kind: ipmi, ipmi: {{networks: [127.0.0.0/8], credentials: {{username: ipmiusr, password: {{env: BMC_PASSWORD}}}}, port: {}, \
         cipher_suite: 3, settling_time: 0.5}}}}",
        controller.ports().at(0)
    );
    let power = controller.path("power");
    let is_on: Power =
        Arc::new(move || std::fs::read_to_string(&power).is_ok_and(|power| power.trim() == "1"));
    let oob = "{type: ipmi, network: oob, uuid: a1234567-89ab-cdef-a123-456789abcdef}";
    Lab::start(controller, &hardware, oob, is_on).await
}

#[tokio::test]
async fn a_machine_behind_ipmi_is_remediated_with_annotations_of_our_own() {
    let Some(lab) = behind_ipmi().await else {
        return;
    };
    lab.remediated().await;
}

#[tokio::test]
async fn what_was_taken_off_a_node_comes_back_also_after_a_remediation_was_aborted() {
    let Some(lab) = behind_ipmi().await else {
        return;
    };
    lab.cleared_and_given_back().await;
    lab.aborted_and_given_back().await;
    lab.unreadable().await;
}

#[tokio::test]
async fn a_machine_behind_redfish_is_remediated_with_annotations_of_our_own() {
    let started = Peer::start("sushy-up.sh", |ports| {
        vec!["1".to_owned(), ports.at(0).to_string(), "plain".to_owned()]
    });
    let Some(controller) = started else { return };
    let port = controller.ports().at(0);
    let uuid = "00000000-0000-4000-8000-000000000001";
    // The emulator shows a change up to 11 seconds late.
    let hardware = format!(
        "{{kind: redfish, redfish: {{networks: [127.0.0.0/8], port: {port}, scheme: http, settling_time: 12, request_timeout: 30, deploy: {{boot_time: 1}}}}}}"
    );
    let system = format!("/redfish/v1/Systems/{uuid}");
    let is_on: Power = Arc::new(move || {
        crate::redfish::ask(port, "GET", &system, &Value::Null)["PowerState"] == "On"
    });
    let oob = format!("{{type: redfish, address: 127.0.0.1, system: {uuid}, uuid: {uuid}}}");
    let Some(lab) = Lab::start(controller, &hardware, &oob, is_on).await else {
        return;
    };
    lab.remediated().await;
}
