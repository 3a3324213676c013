//! IPMI: a machine behind a real controller (OpenIPMI's `ipmi_sim`) from power off to deployed and back.

use serde_json::Value;

use super::harness::Peer;
use super::site::{Ended, Site};

const DEFINITION: &str = "\
---
schema: pegleg/SiteDefinition/v1
metadata: {name: lab}
data: {}
";

const SITE: &str = "\
---
schema: drydock/NetworkLink/v1
metadata: {name: oob}
data: {mtu: 1500, linkspeed: auto, trunking: {mode: disabled, default_network: oob}, allowed_networks: [oob]}
---
schema: drydock/Network/v1
metadata: {name: oob}
data: {cidr: 127.0.0.0/8, ranges: [{type: static, start: 127.0.0.1, end: 127.0.0.9}]}
---
schema: drydock/HardwareProfile/v1
metadata: {name: small}
data: {vendor: x, generation: '1', hw_version: '1', bios_version: '1', boot_mode: bios, bootstrap_protocol: pxe, pxe_interface: 0}
---
schema: drydock/HostProfile/v1
metadata: {name: host}
data:
  hardware_profile: small
  primary_network: oob
  oob: {type: ipmi, network: oob}
  platform: {image: ubuntu-24.04, kernel: generic}
  storage:
    physical_devices:
      sda:
        partitions: [{name: root, size: '>40g', filesystem: {mountpoint: /, fstype: ext4}}]
---
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: []}
";

const NODE: &str = "\
---
schema: drydock/BaremetalNode/v1
metadata: {name: n1}
data:
  host_profile: host
  oob: {uuid: a1234567-89ab-cdef-a123-456789abcdef}
  addressing: [{network: oob, address: 127.0.0.1}]
";

struct Lab {
    controller: Peer,
    site: Site,
}

impl Lab {
    fn new() -> Option<Self> {
        let controller = Peer::start("ipmi-up.sh", |ports| vec![ports.at(0).to_string()])?;
        let backends = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: ipmi\n    \
             ipmi: {{networks: [127.0.0.0/8], credentials: {{username: ipmiusr, password: {{env: BMC_PASSWORD}}}}, port: {}, cipher_suite: 3, settling_time: 0.5}}\n",
            controller.ports().at(0)
        );
        let site = Site::new(&[
            ("site-definition.yaml", DEFINITION),
            ("site.yaml", SITE),
            ("node.yaml", NODE),
            ("backends.yaml", &backends),
        ]);
        Some(Self { controller, site })
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.site.trueup(arguments, &[("BMC_PASSWORD", "test")])
    }

    fn read(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.controller.path(name)).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Kind of the change of the node, and whether it is blocked.
    fn planned(&self) -> (String, Value) {
        let plan = self.run(&["plan", "--format", "json"]).with(0).json();
        let change = plan["changes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|change| change["node"] == "n1")
            .unwrap_or_else(|| panic!("{plan}"));
        let kind = change["kind"].as_str().unwrap().to_owned();
        (kind, change["blocked"].clone())
    }
}

#[test]
fn a_machine_is_deployed_observed_off_switched_on_and_taken_away() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(lab.planned().0, "create");
    lab.run(&["apply", "--yes"]).with(0);
    assert_eq!(
        (lab.read("power"), lab.read("boot")),
        ("1".to_owned(), "pxe".to_owned())
    );
    lab.run(&["plan", "--detailed-exitcode"]).with(0);

    std::fs::write(lab.controller.path("power"), "0\n").unwrap();
    assert_eq!(lab.planned().0, "drift");
    lab.run(&["apply", "--yes"]).with(0);
    assert_eq!(lab.read("power"), "1");

    // What cannot be erased is not taken away, unless the policy says so.
    lab.site.commit(&[("node.yaml", "---\n")]);
    let (kind, blocked) = lab.planned();
    assert_eq!(kind, "destroy");
    assert!(blocked.to_string().contains("erase"), "{blocked}");
    lab.run(&["apply", "--yes", "--allow-destroy", "n1"])
        .with(4);
    assert_eq!(lab.read("power"), "1");
    lab.site.commit(&[(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {wipe: skip}\n",
    )]);
    lab.run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    lab.run(&[
        "apply",
        "--yes",
        "--allow-destroy",
        "n1",
        "--allow-intermediate-commits",
    ])
    .with(0);
    assert_eq!(lab.read("power"), "0");
}

#[test]
fn a_controller_of_another_machine_is_asked_for_nothing_and_a_replaced_board_is_accepted() {
    let Some(lab) = Lab::new() else { return };
    // The power is on, and stays so: nothing that was planned for `n1` reaches this machine.
    let other = NODE.replace("a1234567", "a1234568");
    lab.site.commit(&[("node.yaml", &other)]);
    let plan = lab.run(&["plan", "--format", "json"]);
    let blocked = plan.json()["changes"][0]["blocked"]["reason"].to_string();
    assert!(blocked.contains("its UUID is a1234567"), "{blocked}");
    lab.run(&["apply", "--yes"]).with(4);
    lab.run(&["apply", "--yes", "--allow-unverified", "all"])
        .with(4);
    lab.run(&["accept", "n1", "--identity", "--yes"]).with(4);
    assert_eq!(lab.read("boot"), "");

    // A document that names nothing proves nothing.
    let unnamed = NODE.replace("  oob: {uuid: a1234567-89ab-cdef-a123-456789abcdef}\n", "");
    lab.site.commit(&[("node.yaml", &unnamed)]);
    lab.run(&["apply", "--yes"]).with(4);
    assert_eq!(lab.read("boot"), "");
    let applied = lab
        .run(&[
            "apply",
            "--yes",
            "--allow-unverified",
            "n1",
            "--allow-intermediate-commits",
        ])
        .with(0);
    assert!(applied.stderr.contains("unverified"), "{applied:?}");
    assert_eq!(lab.read("power"), "1");
    let planned = lab.run(&["plan", "power", "off", "n1"]);
    assert!(
        planned.stdout.contains("--allow-unverified n1"),
        "{planned:?}"
    );

    // Somebody looked at the machine, and says that it is the one.
    let accepted = lab.run(&["accept", "n1", "--identity", "--yes"]).with(0);
    assert!(
        accepted.stderr.contains("observed now: UUID a1234567"),
        "{accepted:?}"
    );
    lab.run(&["apply", "--yes", "power", "off", "n1"]).with(0);
    assert_eq!(lab.read("power"), "0");
}

#[test]
fn a_wrong_password_and_a_controller_that_is_gone_are_told_apart_and_deploy_nothing() {
    let Some(lab) = Lab::new() else { return };
    let wrong = lab.site.trueup(&["plan"], &[("BMC_PASSWORD", "wrong")]);
    assert!(
        wrong
            .stdout
            .contains("refuses the password of account `ipmiusr`"),
        "{wrong:?}"
    );
    let unset = lab.site.trueup(&["plan"], &[]);
    assert!(unset.stdout.contains("BMC_PASSWORD"), "{unset:?}");
    lab.controller.kill("pid");
    let gone = lab.run(&["plan"]);
    assert!(gone.stdout.contains("does not answer"), "{gone:?}");
    assert_eq!(lab.read("boot"), "");
}
