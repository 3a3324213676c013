//! Each rule broken once, and the words that come of it.

use crate::design::fixture::{checked, document};
use crate::design::kind;

/// Some documents and what is found in them.
type Row = (
    &'static str,
    Vec<(&'static str, &'static str, &'static str)>,
    &'static [&'static str],
);

fn run(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (what, documents, expected) in rows {
        let text: String = documents
            .iter()
            .map(|(schema, name, data)| document(schema, name, data))
            .collect();
        let found = checked(&text).problems;
        if found != *expected {
            wrong.push(format!("@@{what}\n{}", found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const NODE: (&str, &str, &str) = (kind::NODE, "n1", "metadata: {rack: r1, tags: [compute]}");
const OTHER: (&str, &str, &str) = (kind::NODE, "n2", "metadata: {rack: r1, tags: [compute]}");

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn groups() {
    let strategy = |data| (kind::STRATEGY, "deployment-strategy", data);
    run(&[
        (
            "a sound strategy",
            vec![
                NODE,
                strategy(
                    "groups:\n- {name: a, critical: true, depends_on: [b], selectors: [{node_tags: [compute]}]}\n- {name: b, critical: true, depends_on: [], selectors: [{node_names: [n1]}]}",
                ),
            ],
            &[],
        ),
        (
            "names of groups",
            vec![strategy(
                "groups:\n- {name: a/b, critical: true, depends_on: [], selectors: []}\n- {name: c, critical: true, depends_on: [d, c], selectors: []}\n- {name: c, critical: true, depends_on: [], selectors: []}",
            )],
            &[
                "rule-group-name 6:12 the name of a group has a character other than letters, digits, `.`, `-` and `_`",
                "rule-group-unknown 7:44 there is no group `d`",
                "rule-group-self 7:47 group `c` depends on itself",
                "rule-group-repeated 8:12 there are two groups `c`",
            ],
        ),
        (
            "a near name",
            vec![strategy(
                "groups:\n- {name: control-nodes, critical: true, depends_on: [], selectors: []}\n- {name: compute, critical: true, depends_on: [control-node], selectors: []}",
            )],
            &[
                "rule-group-unknown 7:50 there is no group `control-node` (did you mean `control-nodes`?)",
            ],
        ),
        (
            "circles",
            vec![strategy(
                "groups:\n- {name: z, critical: true, depends_on: [a], selectors: []}\n- {name: a, critical: true, depends_on: [b], selectors: []}\n- {name: b, critical: true, depends_on: [z, c], selectors: []}\n- {name: c, critical: true, depends_on: [a], selectors: []}\n- {name: x, critical: true, depends_on: [y], selectors: []}\n- {name: y, critical: true, depends_on: [x], selectors: []}",
            )],
            &[
                "rule-group-cycle 6:44 groups depend on each other in a circle: z → a → b → z",
                "rule-group-cycle 10:44 groups depend on each other in a circle: x → y → x",
            ],
        ),
        (
            "selectors",
            vec![
                NODE,
                OTHER,
                strategy(
                    "groups:\n- {name: a, critical: true, depends_on: [], selectors: [{node_names: [n3]}, {node_tags: [control]}, {rack_names: [r1], node_names: [n2]}]}",
                ),
            ],
            &[
                "rule-node-without-group 16:5 no group selects `n1`: nodes outside of groups are not deployed",
                "rule-selector-unknown-node 16:73 there is no node `n3`",
                "rule-selector-unknown 16:92 no node has the tag `control`",
            ],
        ),
        (
            "minima",
            vec![
                NODE,
                OTHER,
                (
                    kind::RETIREMENT,
                    "r",
                    "retirements: [{node_names: [n1], reason: old, from: 2030-01-01}]",
                ),
                strategy(
                    "groups:\n- {name: a, critical: true, depends_on: [], selectors: [], success_criteria: {minimum_successful_nodes: 2.0}}\n- {name: b, critical: true, depends_on: [], selectors: [{node_names: [n2]}], success_criteria: {minimum_successful_nodes: 2}}\n- {name: c, critical: true, depends_on: [], selectors: [], success_criteria: {minimum_successful_nodes: 1}}",
                ),
            ],
            &[
                "rule-minimum-unreachable 21:107 group `a` wants 2 successful nodes, and has 2, of which 1 retire",
                "rule-minimum-unreachable 22:125 group `b` wants 2 successful nodes, and has 1",
            ],
        ),
        (
            "grace",
            vec![(
                kind::CONFIGURATION,
                "c",
                "kubernetes_provisioner: {drain_timeout: 600}",
            )],
            &[
                "rule-drain-grace 5:43 the grace period of a drain (1800 s) must be less than its timeout (600 s)",
            ],
        ),
        (
            "grace of zero",
            vec![(
                kind::CONFIGURATION,
                "c",
                "kubernetes_provisioner: {drain_timeout: 600, drain_grace_period: 0}",
            )],
            &[],
        ),
        (
            "grace equal",
            vec![(
                kind::CONFIGURATION,
                "c",
                "kubernetes_provisioner: {drain_grace_period: 3600}",
            )],
            &[
                "rule-drain-grace 5:48 the grace period of a drain (3600 s) must be less than its timeout (3600 s)",
            ],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn networks() {
    let link = |data| (kind::NETWORK_LINK, "bond0", data);
    let oam = |data| (kind::NETWORK, "oam", data);
    run(&[
        (
            "ranges and routes",
            vec![oam(
                "cidr: 10.0.0.1/24\nranges: [{type: static, start: 10.0.0.9, end: 10.0.0.2}, {type: dhcp, start: 10.0.1.1, end: ten}]\nroutes: [{subnet: 0.0.0.0/0, gateway: 10.0.1.1}, {subnet: 0.0.0.0/0}]",
            )],
            &[
                "rule-cidr-host-bits 5:9 `10.0.0.1/24` has host bits (the network is `10.0.0.0/24`)",
                "rule-range 6:12 this range ends (`10.0.0.2`) before it begins (`10.0.0.9`)",
                "rule-address-outside 6:80 `10.0.1.1` is not in network `oam`, which is `10.0.0.0/24`",
                "rule-address 6:95 this is no IP address",
                "rule-route-gateway 7:41 the gateway `10.0.1.1` is not in its network, which is `10.0.0.0/24`",
                "rule-route-gateway 7:52 this route has no gateway",
            ],
        ),
        (
            "no range at all",
            vec![oam("cidr: 10.0.0.0/40")],
            &["rule-cidr 5:9 this is no range of addresses (for example `10.23.21.0/24`)"],
        ),
        (
            "addresses",
            vec![
                oam("cidr: 10.0.0.0/24"),
                (
                    kind::NODE,
                    "n1",
                    "addressing:\n- {network: oam, address: 10.0.0.1}\n- {network: oam, address: 10.0.1.1}\n- {network: oam, address: 10.0.0}\n- {network: oam, address: dhcp}",
                ),
                (
                    kind::NODE,
                    "n2",
                    "addressing:\n- {network: oam, address: 10.0.0.1}\n- {network: oan, address: 10.0.0.2}",
                ),
            ],
            &[
                "rule-address-outside 12:29 `10.0.1.1` is not in network `oam`, which is `10.0.0.0/24`",
                "rule-address 13:29 this is no IP address",
                "rule-address-repeated 20:29 `10.0.0.1` is also an address of `n1`",
                "reference-network 21:15 there is no network `oan` (did you mean `oam`?)",
            ],
        ),
        (
            "MTU",
            vec![
                oam("mtu: 9200"),
                (kind::NETWORK, "small", "mtu: 1000"),
                link("mtu: 9100\ntrunking: {mode: 802.1q}\nallowed_networks: [oam, small, gone]"),
            ],
            &[
                "rule-mtu 5:8 the MTU 9200 of network `oam` is above the 9100 of its link",
                "rule-mtu 10:8 an MTU is between 1280 and 65536, not 1000",
                "reference-network 17:34 there is no network `gone`",
            ],
        ),
        (
            "addresses that a machine cannot have to itself",
            vec![
                oam(
                    "cidr: 10.0.0.0/24\nroutes: [{subnet: 0.0.0.0/0, gateway: 10.0.0.1}]\nranges: [{type: reserved, start: 10.0.0.1, end: 10.0.0.9}, {type: static, start: 10.0.0.10, end: 10.0.0.99}, {type: dhcp, start: 10.0.0.100, end: 10.0.0.199}]",
                ),
                (
                    kind::NETWORK,
                    "free",
                    "cidr: 10.1.0.0/24\nranges: [{type: dhcp, start: 10.1.0.100, end: 10.1.0.199}]",
                ),
                (
                    kind::NODE,
                    "n1",
                    "addressing:\n- {network: oam, address: 10.0.0.10}\n- {network: oam, address: 10.0.0.9}\n- {network: oam, address: 10.0.0.1}\n- {network: oam, address: 10.0.0.100}\n- {network: oam, address: 10.0.0.200}\n- {network: free, address: 10.1.0.99}\n- {network: free, address: 10.1.0.199}",
                ),
            ],
            &[
                "rule-address-gateway 21:29 `10.0.0.1` is a gateway of network `oam` (give the machine an address of its own)",
                "rule-address-dhcp 22:29 `10.0.0.100` is in a DHCP range of network `oam` (the DHCP server may give it to another machine: write an address of a static range, or `dhcp`)",
                "rule-address-range 23:29 `10.0.0.200` is in no range of network `oam` (its static and reserved ranges are 10.0.0.1 to 10.0.0.9, 10.0.0.10 to 10.0.0.99)",
                "rule-address-dhcp 25:30 `10.1.0.199` is in a DHCP range of network `free` (the DHCP server may give it to another machine: write an address of a static range, or `dhcp`)",
            ],
        ),
        (
            "VLAN",
            vec![
                oam("vlan: 4095"),
                (kind::NETWORK, "named", "vlan: storage"),
                (kind::NETWORK, "untagged", "vlan: '0'"),
                (kind::NETWORK, "largest", "vlan: 4094"),
            ],
            &[
                "rule-vlan 5:9 a VLAN is a number from 1 to 4094 (leave `vlan` out where the network is untagged)",
                "rule-vlan 10:9 a VLAN is a number from 1 to 4094 (leave `vlan` out where the network is untagged)",
            ],
        ),
        (
            "trunking",
            vec![
                oam("cidr: 10.0.0.0/24"),
                (kind::NETWORK, "tagged", "vlan: '7'"),
                (kind::NETWORK, "third", "{}"),
                link("allowed_networks: [oam, third]"),
                (
                    kind::NETWORK_LINK,
                    "pxe",
                    "allowed_networks: [tagged]\ntrunking: {mode: disabled, default_network: tagged}",
                ),
                (
                    kind::NETWORK_LINK,
                    "raw",
                    "allowed_networks: [oam]\ntrunking: {mode: disabled}",
                ),
            ],
            &[
                "rule-trunking 17:1 2 networks on one link need trunking, which is disabled (write `mode: 802.1q`)",
                "rule-trunking 26:47 network `tagged` has a VLAN, and cannot be the untagged one of this link",
                "rule-network-on-two-links 31:22 network `oam` is also allowed on link `bond0` (a network is on one link only)",
                "rule-trunking 32:20 a link without trunking needs a `default_network`",
            ],
        ),
        (
            "bonding",
            vec![
                link("bonding: {mode: disabled, mon_rate: 100}"),
                (
                    kind::NETWORK_LINK,
                    "b",
                    "bonding: {mode: active-backup, hash: layer2, mon_rate: 100, up_delay: 50, down_delay: 100}",
                ),
                (
                    kind::NETWORK_LINK,
                    "c",
                    "bonding: {mode: 802.3ad, hash: layer3+4, peer_rate: fast, mon_rate: 100, up_delay: 200, down_delay: 50}",
                ),
            ],
            &[
                "rule-bonding 5:29 `mon_rate` has no meaning where the bonding mode is `disabled`",
                "rule-bonding 10:34 `hash` has no meaning where the bonding mode is `active-backup`",
                "rule-bonding 10:73 `up_delay` (50) must be at least `mon_rate` (100)",
                "rule-bonding 15:103 `down_delay` (50) must be at least `mon_rate` (100)",
            ],
        ),
        (
            "interfaces",
            vec![
                oam("cidr: 10.0.0.0/24"),
                (kind::NETWORK, "pxe", "{}"),
                link("allowed_networks: [oam]\ntrunking: {mode: 802.1q}"),
                (
                    kind::HOST_PROFILE,
                    "p",
                    "interfaces: {bond0: {device_link: bond0, networks: [oam, pxe]}}",
                ),
                (kind::NODE, "n1", "host_profile: p"),
                (kind::NODE, "n2", "host_profile: p"),
            ],
            &[
                "rule-network-not-on-link 21:60 interface `bond0` has network `pxe`, which its link `bond0` does not allow",
            ],
        ),
    ]);
}

#[test]
fn storage() {
    let disks = |data| vec![(kind::NODE, "n1", data)];
    run(&[
        (
            "sound",
            disks(
                "storage:\n  physical_devices:\n    sda: {partitions: [{name: root, size: 30g, filesystem: {mountpoint: /}}, {name: boot, size: 1g, filesystem: {mountpoint: /boot}}, {name: rest, size: 99%, volume_group: vg}]}\n    sdb: {volume_group: vg}\n  volume_groups: {vg: {logical_volumes: [{name: a, size: 50%, filesystem: {mountpoint: /a}}, {name: b, size: 49%}]}}",
            ),
            &[],
        ),
        (
            "root on a logical volume",
            disks(
                "storage: {physical_devices: {sda: {volume_group: vg}}, volume_groups: {vg: {logical_volumes: [{name: slash, size: 20g, filesystem: {mountpoint: /}}]}}}",
            ),
            &[],
        ),
        (
            "too small",
            disks(
                "storage: {physical_devices: {sda: {partitions: [{name: root, size: 19g}, {name: boot, size: 999m}, {name: x, size: 1x}]}}}",
            ),
            &[
                "rule-root-size 5:70 the root file system needs at least 20 GB",
                "rule-boot-size 5:95 `/boot` needs at least 1 GB",
                "rule-size 5:118 `1x` is no size (write a number with `m`, `g`, `t` or `%`, and `>` before it for at least so much)",
            ],
        ),
        (
            "no root, no use, two uses",
            disks(
                "storage: {physical_devices: {sda: {}, sdb: {volume_group: vg, partitions: [{name: a}]}}, volume_groups: {vh: {}}}",
            ),
            &[
                "rule-root-missing 5:31 no partition or logical volume is the root file system",
                "rule-disk-use 5:32 disk `sda` has neither partitions nor a volume group",
                "rule-disk-use 5:41 disk `sdb` has partitions and is in a volume group",
                "reference-volume-group 5:61 there is no volume group `vg`",
                "rule-volume-group-unused 5:108 no disk or partition is in volume group `vh`",
            ],
        ),
        (
            "a partition with two uses",
            disks(
                "storage: {physical_devices: {sda: {partitions: [{name: root, volume_group: vg, filesystem: {mountpoint: /}}]}}, volume_groups: {vg: {}}}",
            ),
            &[
                "rule-partition-use 5:78 a partition in a volume group has no file system of its own",
            ],
        ),
        (
            "percent and mount points",
            disks(
                "storage: {physical_devices: {sda: {partitions: [{name: root, size: 50%, filesystem: {mountpoint: /}}, {name: b, size: 50%, filesystem: {mountpoint: /}}]}}}",
            ),
            &[
                "rule-root-size 5:70 the size of this partition is in percent, and must be in bytes (for example `>20g`)",
                "rule-percent 5:121 together these are 100 %, and at most 99 % is available",
                "rule-mount-point 5:151 `/` is mounted twice",
            ],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn machines() {
    let ipmi = "oob: {type: ipmi, network: oob, account: root, credential: x}\naddressing: [{network: oob, address: 10.0.0.1}]";
    let oob = (kind::NETWORK, "oob", "cidr: 10.0.0.0/24");
    run(&[
        (
            "sound",
            vec![
                oob,
                (kind::NODE, "n1", ipmi),
                (kind::NODE, "n2", "oob: {type: manual}"),
            ],
            &[],
        ),
        (
            "domains of machines",
            vec![
                (kind::NETWORK, "oam", "dns: {domain: my_lab.example.org}"),
                (kind::NODE, "n1", "primary_network: oam"),
            ],
            &[
                "rule-host-name 8:18 `n1` with its domain `my_lab.example.org` is no host name: a part of it is made of more than letters, digits and `-`",
            ],
        ),
        (
            "names of machines",
            vec![
                (kind::NODE, "a_b", "{}"),
                (kind::NODE, "a..b", "{}"),
                (kind::NODE, "ok.example.org", "{}"),
                (kind::NODE, "x-.org", "{}"),
                (kind::NODE, "all", "{}"),
                (kind::NODE, "rack:r1", "{}"),
                (kind::NODE, "all-1", "{}"),
            ],
            &[
                "rule-host-name 3:18 `a_b` is no host name: a part of it is made of more than letters, digits and `-` (letters, digits and `-` make each part of the name of a host)",
                "rule-node-name 8:18 the name of a node ends in `.` or `.lock`, or has `..` (letters, digits, `.` and `-` make a name)",
                "rule-host-name 18:18 `x-.org` is no host name: a part of it is not begun and ended by a letter or a digit (letters, digits and `-` make each part of the name of a host)",
                "rule-node-name 23:18 a node must not be called `all` (in `--allow-redeploy all` and its like the word means every machine)",
                "rule-node-name 28:18 the name of a node has a character other than letters, digits, `.`, `-` and `_` (letters, digits, `.` and `-` make a name)",
            ],
        ),
        (
            "names of machines that differ in case",
            vec![(kind::NODE, "EDGE-1", "{}"), (kind::NODE, "edge-1", "{}")],
            &[
                "rule-node-name 3:18 `EDGE-1` and `edge-1` differ in case only: as host names they are one",
            ],
        ),
        (
            "IPMI",
            vec![
                oob,
                (kind::NODE, "n1", "oob: {type: ipmi}"),
                (
                    kind::NODE,
                    "n2",
                    "oob: {type: ipmi, network: oob, account: a, credential: b}\naddressing: []",
                ),
            ],
            &[
                "rule-ipmi 10:15 IPMI needs `network`, `account`, `credential` in `oob`",
                "rule-ipmi 16:15 `n2` has no address on its out-of-band network `oob`",
            ],
        ),
        (
            "IPMI with a backend that has the account",
            vec![
                oob,
                (
                    kind::NODE,
                    "n1",
                    "oob: {type: ipmi, network: oob}\naddressing: [{network: oob, address: 10.0.0.1}]",
                ),
                (
                    kind::BACKENDS,
                    "b",
                    "hardware: {kind: ipmi, ipmi: {credentials: {username: root, password: {env: P}}}}",
                ),
            ],
            &[],
        ),
        (
            "IPMI in a simulated site",
            vec![
                (kind::NODE, "n1", "oob: {type: ipmi}"),
                (kind::BACKENDS, "b", "hardware: {kind: sim}"),
            ],
            &[],
        ),
        (
            "libvirt",
            vec![
                (
                    kind::NODE,
                    "n1",
                    "oob: {type: libvirt, libvirt_uri: 'qemu+tcp://h/system'}",
                ),
                (
                    kind::NODE,
                    "n2",
                    "oob: {type: libvirt}\nmetadata: {boot_mac: 'aa:bb:cc:dd:ee:ff'}",
                ),
            ],
            &[
                "rule-libvirt 2:1 `n1` is a libvirt machine without a `boot_mac`",
                "rule-libvirt 5:37 libvirt is reached by `qemu+ssh://` only",
                "rule-libvirt 10:15 libvirt needs a `libvirt_uri` in `oob`",
            ],
        ),
        (
            "huge pages",
            vec![
                (
                    kind::HOST_PROFILE,
                    "p",
                    "platform: {kernel_params: {hugepages: '4'}}",
                ),
                (kind::NODE, "n1", "host_profile: p"),
                (kind::NODE, "n2", "host_profile: p"),
                (
                    kind::NODE,
                    "n3",
                    "platform: {kernel_params: {hugepages: '4', hugepagesz: 1G}}",
                ),
            ],
            &["rule-huge-pages 5:30 huge pages need both size and number: `hugepagesz` is missing"],
        ),
        (
            "boot actions",
            vec![
                NODE,
                OTHER,
                (
                    kind::BOOT_ACTION,
                    "b",
                    "node_filter: {filter_set_type: union, filter_set: [{filter_type: union, node_names: [n2]}]}\nassets:\n- {type: pkg_list, data: 'ceph: 10.2-1'}\n- {type: pkg_list}\n- {type: pkg_list, data: '[a]'}\n- {type: pkg_list, data: 'a: x/y'}\n- {type: pkg_list, data: '{{ x }}', data_pipeline: [template]}",
                ),
            ],
            &[
                "rule-boot-action 12:1 no boot action selects `n1`",
                "rule-package-list 18:5 a list of packages needs `data` or a `location`",
                "rule-package-list 19:28 this is no map of packages to versions",
                "rule-package-list 20:28 the version of `a` is no version of a Debian package",
            ],
        ),
    ]);
}

#[test]
fn clusters() {
    const MEMBERS: &str = "clusters:\n- name: k\n  members:\n  - {node: n1, name: a, peer_url: 'https://a:2380', client_url: 'https://a:2379'}\n  - {node: n2, name: b, peer_url: 'https://b:2380', client_url: 'https://b:2379'}\n  - {node: g1, name: c, peer_url: 'https://c:2380', client_url: 'https://c:2379'}";
    const TWICE: &str = "clusters:\n- name: k\n  members:\n  - {node: n1, name: a, peer_url: 'https://a:2380', client_url: 'https://a:2379'}\n  - {node: n1, name: a, peer_url: 'https://b:2380', client_url: 'https://b:2379'}\n  - {node: n9, name: c, peer_url: 'https://c:2380', client_url: 'https://c:2379'}\n  thresholds: {minimum_healthy: 4}\n- {name: k, members: [{node: n2, name: a, peer_url: 'https://a:2380', client_url: 'https://a:2379'}], credentials: {key: hunter2}}";
    let genesis = ("promenade/Genesis/v1", "genesis", "hostname: g1");
    run(&[
        (
            "sound",
            vec![NODE, OTHER, genesis, (kind::ETCD_CLUSTERS, "e", MEMBERS)],
            &[],
        ),
        (
            "broken",
            vec![NODE, OTHER, (kind::ETCD_CLUSTERS, "e", TWICE)],
            &[
                "rule-etcd-repeated 19:14 node `n1` is there twice",
                "rule-etcd-repeated 19:24 member `a` is there twice",
                "reference-etcd-node 20:14 there is no node `n9`",
                "rule-etcd-threshold 21:35 4 healthy members are wanted, and the cluster has 3",
                "rule-etcd-repeated 22:12 etcd cluster `k` is there twice",
                "rule-etcd-repeated 22:55 the URL `https://a:2380` is there twice",
                "rule-etcd-repeated 22:85 the URL `https://a:2379` is there twice",
                "rule-etcd-credentials 22:124 `cert` and `key` go together, and there is no `cert`",
                "schema-type 22:124 `data.clusters[1].credentials.key` must be a map, not a string (for example `{\"env\":\"BMC_PASSWORD\"}`)",
            ],
        ),
        (
            "on other machines",
            vec![
                (
                    kind::NODE,
                    "n1",
                    "metadata: {rack: r1, tags: [compute]}\naddressing: [{network: oam, address: 10.0.0.1}]",
                ),
                (
                    kind::NODE,
                    "n2",
                    "metadata: {rack: r1, tags: [compute]}\naddressing: [{network: oam, address: 10.0.0.2}, {network: six, address: 'fd00::2'}]",
                ),
                (kind::NETWORK, "oam", "cidr: 10.0.0.0/24"),
                (kind::NETWORK, "six", "cidr: 'fd00::/64'"),
                (
                    kind::ETCD_CLUSTERS,
                    "e",
                    "clusters:\n- name: k\n  members:\n  - {node: n1, name: a, peer_url: 'https://10.0.0.2:2380', client_url: 'https://10.0.0.1:2379'}\n  - {node: n2, name: b, peer_url: 'https://n1.example.org:2380', client_url: 'https://[fd00:0::2]:2379'}\n- name: l\n  members:\n  - {node: n1, name: a, peer_url: 'https://10.0.0.9:2380', client_url: 'https://[FD00::2]:2378'}",
                ),
            ],
            &[
                "rule-etcd-place 30:37 `10.0.0.2` is an address of `n2`, and this member is on `n1`",
                "rule-etcd-place 31:37 `n1.example.org` is the name of `n1`, and this member is on `n2`",
                "rule-etcd-place 34:74 `fd00::2` is an address of `n2`, and this member is on `n1`",
            ],
        ),
        (
            "one of three retires",
            vec![
                NODE,
                OTHER,
                genesis,
                (kind::ETCD_CLUSTERS, "e", MEMBERS),
                (
                    kind::RETIREMENT,
                    "r",
                    "retirements: [{node_names: [n1], reason: old}]",
                ),
            ],
            &[],
        ),
        (
            "two of three retire",
            vec![
                NODE,
                OTHER,
                genesis,
                (kind::ETCD_CLUSTERS, "e", MEMBERS),
                (
                    kind::RETIREMENT,
                    "r",
                    "retirements: [{node_tags: [compute], reason: old, from: 2030-01-01}]",
                ),
            ],
            &[
                "rule-etcd-retired 23:7 `n1`, `n2` retire, which leaves etcd cluster `k` with 1 of 3 members, and it needs 2",
            ],
        ),
    ]);
}

#[test]
fn adoptions() {
    run(&[(
        "what adopted machines lack",
        vec![
            NODE,
            OTHER,
            (
                kind::ADOPTION,
                "a",
                "machines:\n- {node_tags: [compute], open: [platform.image, storage, interfaces], assumed: [storage]}\n- {node_names: [gone], open: [storage]}",
            ),
        ],
        &[
            "rule-open-field 16:35 `n1` and 1 more have no `platform.image`, which was not observed at the adoption: no plan deploys such a machine (give it in their documents, or move it to `assumed`)",
            "rule-open-field 16:51 `storage` is open and assumed",
            "rule-open-field 16:60 `n1` and 1 more have no `interfaces`, which was not observed at the adoption: no plan deploys such a machine (give it in their documents, or move it to `assumed`)",
            "rule-selector-unknown-node 17:19 there is no node `gone`",
        ],
    )]);
}

#[test]
fn policies() {
    run(&[
        (
            "retirement",
            vec![
                NODE,
                (
                    kind::RETIREMENT,
                    "r",
                    "retirements:\n- {node_names: [n3], reason: old}\n- {rack_names: [r9], reason: old}\n- {node_names: [n1], reason: old, from: '2026-02-31'}",
                ),
            ],
            &[
                "reference-retired-node 11:19 there is no node `n3` that could retire",
                "rule-selector-unknown 12:19 no node is in rack `r9`",
                "rule-retirement-date 13:43 there is no day `2026-02-31`",
            ],
        ),
        (
            "cleaning",
            vec![
                NODE,
                (
                    kind::CLEANING,
                    "c",
                    "priorities: {deploy.erase_devices: 10, deploy.erase_devices_metadata: 10, bios.reset: 10, deploy.a: 0, deploy.b: 0}\nselectors: [{node_tags: [gone]}]",
                ),
            ],
            &[
                "rule-cleaning-tie 10:73 `deploy.erase_devices` and `deploy.erase_devices_metadata` have the same priority 10 (inside one interface the order must be clear)",
                "rule-selector-unknown 11:28 no node has the tag `gone`",
            ],
        ),
        (
            "policy",
            vec![
                NODE,
                (
                    kind::POLICY,
                    "p",
                    "protected: [{node_names: [n11]}]\nmax_unavailable: {by_tag: {ceph: 1, compute: 2}}\nmaintenance_windows: [{from: '22:00', to: '22:00'}]\ntime_zone: Europe/Berln",
                ),
            ],
            &[
                "rule-selector-unknown-node 10:29 there is no node `n11` (did you mean `n1`?)",
                "rule-selector-empty 11:30 no node has the tag `ceph`",
                "rule-window-empty 12:25 this window ends when it begins",
                "rule-time-zone 13:14 there is no time zone `Europe/Berln` (did you mean `Europe/Berlin`?)",
            ],
        ),
        (
            "backends",
            vec![
                NODE,
                OTHER,
                (
                    kind::BACKENDS,
                    "b",
                    "hardware: {kind: metal3, metal3: {cluster: mangement}, sim: {}}\noverrides: [{selector: {node_tags: [virtual]}, hardware: {kind: redfish, redfish: {verify: false}}}]\nclusters: {management: {context: m}}\nnames: {n1: {ironic: x}, n2: {ironic: x, kubernetes: x}, n3: {ironic: y}}",
                ),
            ],
            &[
                "reference-cluster 15:46 `clusters` has no `mangement` (did you mean `management`?)",
                "rule-backend-settings 15:58 these are settings of `sim`, and the backend is `metal3`",
                "rule-selector-unknown 16:39 no node has the tag `virtual`",
                "rule-tls-unverified 16:94 certificates are not verified: an attacker on the network can be the other end (give the certificate that signed them as `ca`)",
                "rule-backend-name 18:41 two nodes are called `x` in ironic",
                "reference-backend-node 18:60 there is no node `n3`",
            ],
        ),
        (
            "settings of a simulator for unknown nodes",
            vec![
                NODE,
                OTHER,
                (
                    kind::BACKENDS,
                    "b",
                    "hardware: {kind: sim, sim: {faults: [{nodes: [n1, 'n?', n11], outcome: fail}]}}\nclusters: {kubernetes: {kind: sim, sim: {pods: [{name: web, nodes: ['web*']}], faults: [{nodes: [n2], outcome: fail}]}}}",
                ),
            ],
            &[
                "rule-simulated-nobody 15:59 no node is called `n11` (did you mean `n1`?)",
                "rule-simulated-nobody 16:71 no node is called `web*`",
            ],
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_distinguishes_machines_is_named_once() {
    const BACKENDS: (&str, &str, &str) = (kind::BACKENDS, "b", "hardware: {kind: redfish}");
    const IPMI: &str = "oob: {type: ipmi, network: oob, account: a, credential: b}\naddressing: [{network: oob, address: 10.0.0.1}]";
    const IPMI_AT_PORT: &str = "oob: {type: ipmi, network: oob, account: a, credential: b, port: 6231}\naddressing: [{network: oob, address: 10.0.0.1}]";
    run(&[
        (
            "identities",
            vec![
                (
                    kind::NODE,
                    "n1",
                    "oob: {type: redfish, uuid: 4C4C4544-0051-3510-8052-B4C04F4A3732, serial: S-1}\nmetadata: {boot_mac: '02:00:00:00:00:01'}",
                ),
                (
                    kind::NODE,
                    "n2",
                    "oob: {type: redfish, uuid: 4c4c4544-0051-3510-8052-b4c04f4a3732, serial: s-1}\nmetadata: {boot_mac: 02-00-00-00-00-01}",
                ),
                (
                    kind::NODE,
                    "n3",
                    "oob: {type: redfish, uuid: 00000000-0000-0000-0000-000000000000, serial: Default string}",
                ),
            ],
            &[
                "rule-identity-repeated 11:30 `n1` and `n2` have the same UUID",
                "rule-identity-repeated 11:76 `n1` and `n2` have the same serial number",
                "rule-identity-repeated 12:24 `n1` and `n2` have the same boot MAC address",
                "rule-identity-placeholder 17:30 this UUID proves nothing: many boards carry it, or it is none (leave it out, or write the value that the board shows)",
                "rule-identity-placeholder 17:76 this serial number proves nothing: many boards carry it, or it is none (leave it out, or write the value that the board shows)",
            ],
        ),
        (
            "controllers",
            vec![
                BACKENDS,
                (
                    kind::NODE,
                    "n1",
                    "oob: {type: redfish, address: 192.0.2.1, system: /redfish/v1/Systems/A}",
                ),
                (
                    kind::NODE,
                    "n2",
                    "oob: {type: redfish, address: 192.0.2.1, system: b}",
                ),
                (
                    kind::NODE,
                    "n3",
                    "oob: {type: redfish, address: 192.0.2.1, system: a}",
                ),
                (kind::NODE, "n4", "oob: {type: redfish, address: 192.0.2.1}"),
                (
                    kind::NODE,
                    "n5",
                    "oob: {type: redfish, address: 192.0.2.1, port: 8443}",
                ),
                (
                    kind::NODE,
                    "n6",
                    "oob: {type: redfish, address: 192.0.2.1, port: 443, system: b}",
                ),
            ],
            &[
                "rule-controller-shared 20:52 `n1` and `n3` are on one controller, and are not two systems of it (name the system of each in `oob.system`)",
                "rule-controller-shared 25:33 `n1` and `n4` are on one controller, and are not two systems of it (name the system of each in `oob.system`)",
                "rule-controller-shared 35:63 `n2` and `n6` are on one controller, and are not two systems of it (name the system of each in `oob.system`)",
            ],
        ),
        (
            "controllers over IPMI at one address",
            vec![
                (kind::BACKENDS, "b", "hardware: {kind: ipmi}"),
                (kind::NETWORK, "oob", "cidr: 10.0.0.0/24"),
                (kind::NODE, "n1", IPMI),
                (kind::NODE, "n2", IPMI_AT_PORT),
                (kind::NODE, "n3", IPMI),
            ],
            &[
                "rule-address-repeated 22:40 `10.0.0.1` is also an address of `n1`",
                "rule-controller-shared 27:8 `n1` and `n3` are reached by one controller",
                "rule-address-repeated 28:40 `10.0.0.1` is also an address of `n1`",
            ],
        ),
        (
            "names elsewhere",
            vec![
                NODE,
                OTHER,
                (
                    kind::BACKENDS,
                    "b",
                    "hardware: {kind: sim}\nnames: {n1: {kubernetes: n2}}",
                ),
            ],
            &["rule-backend-name 16:28 `n1` and `n2` are both called `n2` in kubernetes"],
        ),
        (
            "names that are swapped",
            vec![
                NODE,
                OTHER,
                (
                    kind::BACKENDS,
                    "b",
                    "hardware: {kind: sim}\nnames: {n1: {kubernetes: n2}, n2: {kubernetes: n1}}",
                ),
            ],
            &[],
        ),
        (
            "labels",
            vec![
                (
                    kind::HOST_PROFILE,
                    "host",
                    "metadata: {owner_data: {promenade-decomission: enabled, kubernetes.io/hostname: x, 'bad key!': y, good: bad value}}",
                ),
                (kind::NODE, "n1", "host_profile: host"),
                (kind::NODE, "n2", "host_profile: host"),
            ],
            &[
                "rule-label-reserved 5:27 the label `promenade-decomission` is reserved (the kubelet sets it, or is stopped by it: leave it out of `owner_data`)",
                "rule-label-reserved 5:59 the label `kubernetes.io/hostname` is reserved (the kubelet sets it, or is stopped by it: leave it out of `owner_data`)",
                "rule-label-key 5:86 `bad key!` cannot be the key of a label: it does not begin and end with a letter or a digit",
                "rule-label-value 5:107 `bad value` cannot be the value of a label: it has a character other than letters, digits, `-`, `_` and `.`",
            ],
        ),
    ]);
}
