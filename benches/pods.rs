//! Sites shaped like those of public repositories: a pod of OPNFV, and an edge site of Akraino.
//!
//! They are written anew after the fields that such sites use, not copied: open maps, profiles that no machine uses,
//! packages as a map, trusted virtual functions, keys that are twice in a map, repositories that are elsewhere. All of it
//! is accepted by Deckhand and Drydock.

use std::fmt::Write as _;

/// One file: its path below the top of the repository, and its text.
pub(crate) type File = (String, String);

/// The kind of repository that a site is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A lab of few machines with a network for each purpose.
    Opnfv,
    /// A telecom site with virtual functions, huge pages and bonds.
    Akraino,
}

impl Shape {
    /// The name of the site.
    #[must_use]
    pub(crate) const fn site(self) -> &'static str {
        match self {
            Self::Opnfv => "pod10",
            Self::Akraino => "edge-rc",
        }
    }

    const fn site_type(self) -> &'static str {
        match self {
            Self::Opnfv => "cntt",
            Self::Akraino => "ucp-rc",
        }
    }

    const fn profiles(self) -> [&'static str; 2] {
        match self {
            Self::Opnfv => ["cp-pod10", "dp-pod10"],
            Self::Akraino => ["genesis-like", "dell-sriov"],
        }
    }
}

/// The files of a site of so many machines, at most 200.
#[must_use]
pub(crate) fn pod(shape: Shape, machines: usize) -> Vec<File> {
    let site = format!("site/{}", shape.site());
    let of_site = |path: &str, text: String| (format!("{site}/{path}"), text);
    let profile = match shape {
        Shape::Opnfv => OPNFV_PROFILES,
        Shape::Akraino => AKRAINO_PROFILES,
    };
    let hardware = match shape {
        Shape::Opnfv => OPNFV_HARDWARE,
        Shape::Akraino => AKRAINO_HARDWARE,
    };
    vec![
        of_site("site-definition.yaml", definition(shape)),
        of_site("networks/physical/networks.yaml", written(NETWORKS, "site")),
        of_site("profiles/hardware.yaml", written(hardware, "site")),
        of_site("profiles/host.yaml", written(profile, "site")),
        of_site("profiles/region.yaml", written(REGION, "site")),
        of_site("baremetal/rack.yaml", written(RACK, "site")),
        of_site("baremetal/nodes.yaml", nodes(shape, machines)),
        of_site("baremetal/bootactions.yaml", written(BOOT_ACTIONS, "site")),
        of_site("secrets/ipmi.yaml", secret()),
        of_site("deployment/strategy.yaml", strategy(shape)),
        of_site("trueup.yaml", written(OWN, "site")),
        ("global/layering-policy.yaml".to_owned(), LAYERS.to_owned()),
        (
            format!("type/{}/software.yaml", shape.site_type()),
            written(SOFTWARE, "type"),
        ),
    ]
}

/// Documents from their short form: a line `=== SCHEMA NAME` begins each, and its data follow.
fn written(short: &str, layer: &str) -> String {
    let mut text = String::new();
    for document in short.split("=== ").skip(1) {
        let (head, data) = document.split_once('\n').unwrap_or((document, ""));
        let (schema, name) = head.split_once(' ').unwrap_or((head, ""));
        let _ = write!(
            text,
            "---\nschema: '{schema}'\nmetadata:\n  schema: 'metadata/Document/v1'\n  name: {name}\n  \
             layeringDefinition:\n    abstract: false\n    layer: {layer}\n  storagePolicy: cleartext\ndata:\n{data}"
        );
    }
    text.push_str("...\n");
    text
}

fn definition(shape: Shape) -> String {
    format!(
        "---\nschema: pegleg/SiteDefinition/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: {}\n  \
         layeringDefinition:\n    abstract: false\n    layer: site\n  storagePolicy: cleartext\ndata:\n  \
         repositories:\n    global:\n      revision: v1.8\n      url: https://opendev.example.org/treasuremap.git\n  \
         site_type: {}\n...\n",
        shape.site(),
        shape.site_type()
    )
}

fn secret() -> String {
    "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: ipmi_admin_password\n  \
     layeringDefinition:\n    abstract: false\n    layer: site\n  storagePolicy: encrypted\ndata: not-a-password\n...\n"
        .to_owned()
}

fn strategy(shape: Shape) -> String {
    let [control, data] = shape.profiles();
    let group = |name: &str, before: &str, profile: &str, criteria: &str| {
        format!(
            "    - name: {name}\n      critical: true\n      depends_on: [{before}]\n      selectors:\n        \
             - node_names: []\n          node_labels: []\n          node_tags: ['{profile}']\n          rack_names: []\n      \
             success_criteria:\n        {criteria}\n"
        )
    };
    let groups = group("masters", "", control, "percent_successful_nodes: 100");
    let workers = group("workers", "masters", data, "percent_successful_nodes: 60");
    written(
        &format!(
            "=== shipyard/DeploymentStrategy/v1 deployment-strategy\n  groups:\n{groups}{workers}"
        ),
        "site",
    )
}

/// Machines in one file, every third a control-plane node.
fn nodes(shape: Shape, machines: usize) -> String {
    let mut short = String::new();
    for number in 0..machines {
        let [control, data] = shape.profiles();
        let profile = if number % 3 == 0 { control } else { data };
        let host = 10 + number;
        let extra = match shape {
            // Where the machine stands, for people.
            Shape::Opnfv => format!(
                "    - network: public\n      address: 10.60.4.{host}\n      comment: 'port {number}'\n"
            ),
            Shape::Akraino => String::new(),
        };
        let _ = write!(
            short,
            "=== drydock/BaremetalNode/v1 {site}-node{number}\n  host_profile: {profile}\n  addressing:\n    \
             - network: oob\n      address: 10.60.0.{host}\n    - network: pxe\n      address: dhcp\n    \
             - network: oam\n      address: 10.60.1.{host}\n    - network: storage\n      address: 10.60.2.{host}\n    \
             - network: calico\n      address: 10.60.3.{host}\n{extra}  metadata:\n    rack: rack01\n    \
             tags:\n      - '{profile}'\n",
            site = shape.site(),
        );
    }
    written(&short, "site")
}

const LAYERS: &str = "---\nschema: deckhand/LayeringPolicy/v1\nmetadata:\n  schema: metadata/Control/v1\n  name: layering-policy\n\
                      data:\n  layerOrder: [global, type, site]\n...\n";

const SOFTWARE: &str = "=== pegleg/SoftwareVersions/v1 software-versions
  images: {ucp: {drydock: 'registry.example.org/drydock:v1'}}
";

const OWN: &str = "=== trueup/Backends/v1 backends
  hardware: {kind: sim}
=== trueup/Policy/v1 policy
  allow_duplicate_keys: true
";

/// A network for each purpose. The machines boot from one link, and the others share a trunk. A link and a network are
/// spare, and the link names a network that has no document.
const NETWORKS: &str = "=== drydock/NetworkLink/v1 oob
  bonding: {mode: disabled}
  mtu: 1500
  linkspeed: auto
  trunking: {mode: disabled, default_network: oob}
  allowed_networks: [oob]
=== drydock/NetworkLink/v1 pxe
  bonding: {mode: disabled}
  mtu: 1500
  linkspeed: auto
  trunking: {mode: disabled, default_network: pxe}
  allowed_networks: [pxe]
=== drydock/NetworkLink/v1 data
  bonding:
    mode: 802.3ad
    hash: layer3+4
    peer_rate: fast
    mon_rate: 100
    up_delay: 1000
    down_delay: 3000
  mtu: 9100
  linkspeed: auto
  trunking: {mode: 802.1q}
  allowed_networks: [oam, storage, calico, public]
=== drydock/NetworkLink/v1 fabric
  labels: {noconfig: enabled}
  bonding: {mode: disabled}
  mtu: 9214
  linkspeed: auto
  trunking: {mode: disabled}
  allowed_networks: []
=== drydock/NetworkLink/v1 spare
  bonding: {mode: disabled}
  mtu: 1500
  linkspeed: auto
  trunking: {mode: 802.1q}
  allowed_networks: [tenant]
=== drydock/Network/v1 oob
  cidr: 10.60.0.0/24
  ranges: [{type: static, start: 10.60.0.10, end: 10.60.0.250}]
=== drydock/Network/v1 pxe
  cidr: 10.60.9.0/24
  routes: [{subnet: 0.0.0.0/0, gateway: 10.60.9.1, metric: 101}]
  ranges:
    - {type: reserved, start: 10.60.9.1, end: 10.60.9.9}
    - {type: static, start: 10.60.9.10, end: 10.60.9.90}
    - {type: dhcp, start: 10.60.9.100, end: 10.60.9.250}
  dns: {domain: pod.example.org, servers: '10.60.9.2,10.60.9.3'}
=== drydock/Network/v1 oam
  vlan: '41'
  mtu: 9100
  cidr: 10.60.1.0/24
  routes: [{subnet: 0.0.0.0/0, gateway: 10.60.1.1, metric: 100}]
  ranges: [{type: static, start: 10.60.1.10, end: 10.60.1.250}]
  dns: {domain: pod.example.org, servers: 10.60.1.2}
=== drydock/Network/v1 storage
  vlan: '42'
  mtu: 9100
  cidr: 10.60.2.0/24
  ranges: [{type: static, start: 10.60.2.10, end: 10.60.2.250}]
=== drydock/Network/v1 calico
  vlan: '43'
  mtu: 9100
  cidr: 10.60.3.0/24
  ranges: [{type: static, start: 10.60.3.10, end: 10.60.3.250}]
=== drydock/Network/v1 public
  vlan: '44'
  mtu: 1500
  cidr: 10.60.4.0/24
  ranges: [{type: static, start: 10.60.4.10, end: 10.60.4.250}]
";

const RACK: &str = "=== drydock/Rack/v1 rack01
  tor_switches:
    switch01: {mgmt_ip: 10.60.0.2, sdn_api_uri: 'https://sdn.example.org/switch?ip=10.60.0.2'}
  location: {clli: PODNXA, grid: EG12, room: lab 3}
  local_networks: [pxe]
";

const REGION: &str = "=== drydock/Region/v1 region
  tag_definitions: [{tag: test, definition_type: lshw_xpath, definition: \"//node[@id='display']\"}]
  authorized_keys: ['ssh-rsa AAAAB3NzaC1yc2E ubuntu@example.org']
  repositories:
    remove_unlisted: true
    main_archive: {repo_type: apt, url: 'http://archive.example.org/ubuntu', subrepos: [universe], components: [main]}
";

/// Files, a unit, and packages as a map, one of them in any version.
const BOOT_ACTIONS: &str = "=== drydock/BootAction/v1 i40e
  signaling: false
  assets:
    - path: /etc/systemd/system/i40e.service
      type: unit
      permissions: '444'
      data: |
        [Service]
        Type=oneshot
        ExecStart=/bin/true
      data_pipeline: [utf8_decode]
  node_filter:
    filter_set_type: union
    filter_set: [{filter_type: union, node_names: [], node_tags: [dp-pod10, dell-sriov], node_labels: {}, rack_names: [], rack_labels: {}}]
=== drydock/BootAction/v1 packages
  signaling: true
  assets:
    - type: pkg_list
      data: {2ping: null, docker-ce: '17.03.2~ce', lldpd: '1.0-1'}
    - path: /opt/report.json
      type: file
      permissions: '555'
      location_pipeline: [template]
      data: '{}'
      data_pipeline: [utf8_decode]
";

const OPNFV_HARDWARE: &str = "=== drydock/HardwareProfile/v1 intel-s2600
  vendor: Intel
  generation: '3'
  hw_version: '3'
  bios_version: SE5C610.86B.01.01.0019
  boot_mode: bios
  bootstrap_protocol: pxe
  pxe_interface: 0
  device_aliases:
    ctrl_nic1: {address: '0000:04:00.0', dev_type: I350 Gigabit Network Connection, bus_type: pci}
    data_nic1: {address: '0000:05:00.0', dev_type: 82599ES 10-Gigabit, bus_type: pci}
    data_nic2: {address: '0000:05:00.1', dev_type: 82599ES 10-Gigabit, bus_type: pci}
    bootdisk: {address: '0:2.0.0', dev_type: INTEL SSDSC2BB48, bus_type: scsi}
  cpu_sets: {kvm: '4-43,48-87'}
  hugepages: {dpdk: {size: 1G, count: 32}}
";

/// The profile that no machine uses names hardware and networks that have no documents.
const OPNFV_PROFILES: &str = "=== drydock/HostProfile/v1 defaults-pod10
  hardware_profile: intel-s2600
  primary_network: oam
  oob: {type: ipmi, network: oob, account: root, credential: not-used}
  storage:
    physical_devices:
      bootdisk:
        labels: {bootdrive: 'true'}
        model: INTEL SSDSC2BB48
        partitions:
          - {name: root, size: 30g, bootable: true, filesystem: {mountpoint: /, fstype: ext4, mount_options: defaults}}
          - {name: boot, size: 1g, filesystem: {mountpoint: /boot, fstype: ext4, mount_options: defaults}}
          - {name: var, size: '>300g', filesystem: {mountpoint: /var, fstype: ext4, mount_options: defaults}}
  interfaces:
    pxe0: {device_link: pxe, slaves: [ctrl_nic1], networks: [pxe]}
    bond0:
      device_link: data
      slaves: [data_nic1, data_nic2]
      networks: [oam, storage, calico, public]
      labels: {purpose: everything}
  platform:
    image: xenial
    kernel: hwe-16.04
    kernel_params: {console: 'ttyS0,115200n8', intel_iommu: 'on', iommu: pt, amd_iommu: 'off', cgroup_disable: hugetlb}
  metadata: {owner_data: {kubernetes-apiserver: enabled}, tags: [pod10]}
=== drydock/HostProfile/v1 cp-pod10
  host_profile: defaults-pod10
  platform:
    kernel_params: {isolcpus: 'hardwareprofile:cpuset.kvm', isolcpus: 'hardwareprofile:cpuset.kvm'}
  metadata:
    owner_data: {control-plane: enabled, ucp-control-plane: enabled, ceph-mon: enabled, ceph-mon: enabled}
=== drydock/HostProfile/v1 dp-pod10
  host_profile: defaults-pod10
  interfaces:
    dpdk0: {device_link: fabric, slaves: ['!data_nic9'], networks: [], ovs_dpdk: {cores: 2}, pci_whitelist: ['0000:05:00.1']}
  platform:
    kernel_params: {hugepagesz: 'hardwareprofile:hugepages.dpdk.size', hugepages: 'hardwareprofile:hugepages.dpdk.count'}
  metadata: {owner_data: {openstack-nova-compute: enabled, openvswitch: enabled}}
=== drydock/HostProfile/v1 nvme-pod11
  host_profile: defaults-pod11
  hardware_profile: intel-pod11
  primary_network: dmz
  interfaces: {dmz0: {device_link: dmz, slaves: [ctrl_nic2], networks: [dmz]}}
";

const AKRAINO_HARDWARE: &str = "=== drydock/HardwareProfile/v1 dell-r740
  vendor: DELL
  generation: '14'
  hw_version: '5'
  bios_version: 1.3.7
  boot_mode: uefi
  bootstrap_protocol: pxe
  pxe_interface: 0
  device_aliases:
    bootdisk: {address: '0:2.0.0', dev_type: PERC H740P Mini, bus_type: scsi}
    datadisk: {address: '0:2.1.0', dev_type: PERC H740P Mini, bus_type: scsi}
    sriov_nic01: {address: '0000:af:00.0', dev_type: Ethernet 10G 2P X710, bus_type: pci}
  cpu_sets: {kvm: '4-43,48-87', sriov: '2,3'}
  hugepages:
    sriov: {size: 1G, count: 300, numa: both}
    dpdk: {size: 1G, count: 10}
";

/// Addresses of devices as names, virtual functions that are trusted, and volume groups with more than Drydock reads.
const AKRAINO_PROFILES: &str = "=== drydock/HostProfile/v1 defaults
  hardware_profile: dell-r740
  primary_network: oam
  oob: {type: ipmi, network: oob, account: root, credential: not-used}
  storage:
    physical_devices:
      bootdisk:
        labels: {bootdrive: 'true'}
        partitions:
          - {name: root, size: 30g, bootable: true, filesystem: {mountpoint: /, fstype: ext4, mount_options: defaults}}
          - {name: boot, size: 2g, filesystem: {mountpoint: /boot, fstype: ext4, mount_options: defaults}}
      datadisk: {volume_group: data, raid_level: 0}
    volume_groups:
      data:
        comment: what is left
        logical_volumes:
          - {name: var, size: 80%, stripes: 1, filesystem: {mountpoint: /var, fstype: ext4, mount_options: defaults, reserved: 1%}}
  interfaces:
    pxe0: {device_link: pxe, slaves: [eno3], networks: [pxe]}
    bond0: {device_link: data, slaves: [enp94s0f0, enp94s0f1], networks: [oam, storage, calico]}
  platform:
    image: xenial
    kernel: hwe-16.04
    kernel_params: {console: 'tty1', transparent_hugepage: never, default_hugepagesz: 1G}
  metadata: {owner_data: {maas_labels: none}}
=== drydock/HostProfile/v1 genesis-like
  host_profile: defaults
  metadata:
    owner_data: {control-plane: enabled, utility: enabled}
    owner_data: {control-plane: enabled, ucp-control-plane: enabled}
=== drydock/HostProfile/v1 dell-sriov
  host_profile: defaults
  interfaces:
    p1p1: {device_link: fabric, slaves: [sriov_nic01], networks: [], sriov: {vf_count: 32, trustedmode: true}}
    p3p1: {device_link: fabric, slaves: [enp135s0f0], networks: [], sriov: {vf_count: 32, trustedmode: false, numa: 1}}
  platform:
    kernel_params:
      hugepagesz: 'hardwareprofile:hugepages.sriov.size'
      hugepages: 'hardwareprofile:hugepages.sriov.count'
      isolcpus: 'hardwareprofile:cpuset.kvm'
  metadata: {owner_data: {openstack-nova-compute: enabled, sriov: enabled}}
=== drydock/HostProfile/v1 hp-gen10
  hardware_profile: hp-dl380
  primary_network: oam
  interfaces: {p9: {device_link: absent, slaves: [eno9], networks: [tenant]}}
";
