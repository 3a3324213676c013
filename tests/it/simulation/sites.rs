//! The documents of simulated sites.

use std::fmt;

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    /// The last part of its address.
    pub(super) address: usize,
    pub(super) profile: &'static str,
    pub(super) rack: String,
    pub(super) tags: Vec<String>,
    /// A label of its Kubernetes node.
    pub(super) label: Option<String>,
}

/// A deployment group; criteria as they are written.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) critical: bool,
    pub(super) depends_on: Vec<String>,
    pub(super) selectors: String,
    pub(super) criteria: Option<String>,
}

/// The documents of a site, as far as they differ.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) machines: Vec<Machine>,
    /// By profile, a parameter of the kernel: what is deployed.
    pub(super) kernels: [(&'static str, u64); 2],
    pub(super) groups: Vec<Group>,
    /// The machines that are members of etcd.
    pub(super) members: Vec<String>,
    /// Whether there is a cluster of Kubernetes.
    pub(super) has_cluster: bool,
    pub(super) faults: Vec<String>,
    pub(super) cluster_faults: Vec<String>,
    /// Further documents.
    pub(super) more: String,
}

impl Text {
    /// Three members of etcd, and two workers.
    pub(super) fn cluster() -> Self {
        let machine = |name: &str, address: usize, profile: &'static str, rack: &str| Machine {
            name: name.to_owned(),
            address,
            profile,
            rack: rack.to_owned(),
            tags: vec![profile.to_owned()],
            label: None,
        };
        let group = |name: &str, tag: &str, depends_on: &[&str], criteria: &str| Group {
            name: name.to_owned(),
            critical: depends_on.is_empty(),
            depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
            selectors: format!("[{{node_tags: [{tag}]}}]"),
            criteria: Some(criteria.to_owned()),
        };
        Self {
            machines: vec![
                machine("c1", 11, "control", "r1"),
                machine("c2", 12, "control", "r2"),
                machine("c3", 13, "control", "r3"),
                machine("w1", 14, "worker", "r1"),
                machine("w2", 15, "worker", "r2"),
            ],
            kernels: [("control", 0), ("worker", 0)],
            groups: vec![
                group("control", "control", &[], "{percent_successful_nodes: 100}"),
                group(
                    "workers",
                    "worker",
                    &["control"],
                    "{minimum_successful_nodes: 1}",
                ),
            ],
            members: ["c1", "c2", "c3"].map(String::from).into(),
            has_cluster: true,
            faults: Vec::new(),
            cluster_faults: Vec::new(),
            more: String::new(),
        }
    }
}

/// The document that makes a folder a site.
pub(super) const DEFINITION: &str =
    "schema: pegleg/SiteDefinition/v1\nmetadata: {name: stage}\ndata: {}\n";

const NETWORKS: &str = "---
schema: drydock/NetworkLink/v1
metadata: {name: uplink}
data:
  mtu: 1500
  linkspeed: auto
  trunking: {mode: 802.1q, default_network: pxe}
  allowed_networks: [pxe]
---
schema: drydock/Network/v1
metadata: {name: pxe}
data:
  cidr: 10.60.0.0/24
  mtu: 1500
  ranges:
    - {type: static, start: 10.60.0.11, end: 10.60.0.99}
    - {type: dhcp, start: 10.60.0.100, end: 10.60.0.199}
---
schema: drydock/HardwareProfile/v1
metadata: {name: server}
data:
  vendor: Example
  generation: \"3\"
  hw_version: \"1\"
  bios_version: 1.8.2
  boot_mode: uefi
  bootstrap_protocol: pxe
  pxe_interface: 0
";

/// The values that machines show of their firmware and settings.
const HARDWARE: &str = "{nodes: ['*'], values: {firmware.bios: 2.17.2, bios.ProcVirtualization: Disabled, bmc.ntp: none}}";

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NETWORKS)?;
        for (profile, kernel) in &self.kernels {
            write!(
                f,
                "---\nschema: drydock/HostProfile/v1\nmetadata: {{name: {profile}}}\ndata:\n  \
                 hardware_profile: server\n  primary_network: pxe\n  \
                 platform: {{image: ubuntu-24.04, kernel: generic, kernel_params: {{console: 'ttyS{kernel}'}}}}\n  \
                 interfaces: {{eno1: {{device_link: uplink, slaves: [eno1], networks: [pxe]}}}}\n  storage:\n    \
                 physical_devices:\n      sda:\n        labels: {{bootdrive: 'true'}}\n        partitions:\n          \
                 - {{name: root, size: '>40g', bootable: true, filesystem: {{mountpoint: /, fstype: ext4}}}}\n"
            )?;
        }
        for machine in &self.machines {
            let Machine {
                name,
                address,
                profile,
                rack,
                tags,
                label,
            } = machine;
            let tags = tags.join(", ");
            let label = label.as_ref().map_or_else(String::new, |label| {
                format!(", owner_data: {{stage.example.org/label: {label}}}")
            });
            write!(
                f,
                "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {name}}}\ndata:\n  host_profile: {profile}\n  \
                 metadata: {{rack: {rack}, tags: [{tags}]{label}}}\n  \
                 addressing: [{{network: pxe, address: 10.60.0.{address}}}]\n"
            )?;
        }
        write!(
            f,
            "---\nschema: shipyard/DeploymentStrategy/v1\nmetadata: {{name: deployment-strategy}}\ndata:\n  groups:\n"
        )?;
        for group in &self.groups {
            writeln!(
                f,
                "    - name: {}\n      critical: {}\n      depends_on: [{}]\n      selectors: {}",
                group.name,
                group.critical,
                group.depends_on.join(", "),
                group.selectors
            )?;
            if let Some(criteria) = &group.criteria {
                writeln!(f, "      success_criteria: {criteria}")?;
            }
        }
        if !self.members.is_empty() {
            let member = |name: &String| {
                let machine = self.machines.iter().find(|machine| machine.name == *name);
                let at = format!("10.60.0.{}", machine.map_or(99, |machine| machine.address));
                format!(
                    "{{node: {name}, name: {name}, peer_url: 'https://{at}:2380', client_url: 'https://{at}:2379'}}"
                )
            };
            let members: Vec<String> = self.members.iter().map(member).collect();
            write!(
                f,
                "---\nschema: promenade/EtcdClusters/v1\nmetadata: {{name: etcd-clusters}}\ndata:\n  clusters:\n    \
                 - name: main\n      members: [{}]\n      \
                 credentials: {{ca: {{file: ca.pem}}, cert: {{file: cert.pem}}, key: {{file: key.pem}}}}\n",
                members.join(", ")
            )?;
        }
        write!(
            f,
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  \
             hardware: {{kind: sim, sim: {{clock: virtual, hardware: [{HARDWARE}], faults: [{}]}}}}\n",
            self.faults.join(", ")
        )?;
        if self.has_cluster {
            write!(
                f,
                "  clusters:\n    kubernetes:\n      kind: sim\n      sim:\n        pods:\n          \
                 - {{name: logs, kind: daemon-set}}\n          - {{name: web, count: 2}}\n          \
                 - {{name: orders, kind: stateful-set, data: local-volume, ends_after: 60}}\n        \
                 budgets: [{{name: web, pods: [web], yields_after: 90}}]\n        api_servers: [\"c*\"]\n        faults: [{}]\n",
                self.cluster_faults.join(", ")
            )?;
        }
        f.write_str(&self.more)
    }
}
