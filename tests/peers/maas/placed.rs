//! Disks and interfaces of a design in MAAS: made one by one, left alone if they are right, corrected if they
//! are not.

use serde_json::{Value, json};
use trueup::backend::{ActError, Hardware};
use trueup::step::StepKind;

use super::lab::{Lab, node};
use super::life::VERSIONS;
use super::parts::{Interface, Parts, UNIT};
use super::region::{Region, Version};

/// Three disks, a volume group of two of them, a bond with two VLANs, and a port with an address.
pub(super) const PARTS: &str = "platform: {image: noble}, storage: {physical_devices: \
    {sda: {labels: {bootdrive: 'true'}, partitions: [\
    {name: boot, size: 2g, filesystem: {mountpoint: /boot, fstype: ext4}}, \
    {name: root, size: '>30g', filesystem: {mountpoint: /, fstype: xfs, mount_options: noatime}}, \
    {name: log, size: 20g, filesystem: {mountpoint: /var/log, fstype: ext4}}]}, \
    sdb: {volume_group: data}, sdc: {volume_group: data}}, \
    volume_groups: {data: {logical_volumes: [\
    {name: images, size: 40%, filesystem: {mountpoint: /var/lib/images, fstype: ext4}}, \
    {name: rest, size: '>10g', filesystem: {mountpoint: /srv, fstype: xfs}}]}}}, \
    interfaces: {pxe: {device_link: pxe, slaves: [eth0], networks: [pxe]}, \
    bond0: {device_link: data, slaves: [eth1, eth2], networks: [oam, storage]}}, \
    primary_network: pxe, addressing: [{network: pxe, address: 10.20.0.77}, {network: oam, address: 10.30.0.77}, \
    {network: storage, address: dhcp}]";

pub(super) const NETWORKS: &str = "---\nschema: drydock/NetworkLink/v1\nmetadata: {name: pxe}\ndata: {bonding: {mode: disabled}, mtu: 1500, \
    trunking: {mode: disabled, default_network: pxe}, allowed_networks: [pxe]}\n\
    ---\nschema: drydock/NetworkLink/v1\nmetadata: {name: data}\ndata: {bonding: {mode: 802.3ad, hash: layer3+4, \
    peer_rate: fast, mon_rate: 100}, mtu: 9000, trunking: {mode: 802.1q}, allowed_networks: [oam, storage]}\n\
    ---\nschema: drydock/Network/v1\nmetadata: {name: pxe}\ndata: {cidr: 10.20.0.0/24, mtu: 1500}\n\
    ---\nschema: drydock/Network/v1\nmetadata: {name: oam}\ndata: {cidr: 10.30.0.0/24, vlan: '20', mtu: 9000, \
    routes: [{subnet: 0.0.0.0/0, gateway: 10.30.0.1, metric: 100}]}\n\
    ---\nschema: drydock/Network/v1\nmetadata: {name: storage}\ndata: {cidr: 10.40.0.0/24, vlan: '30'}\n";

fn nothing() -> Value {
    json!({})
}

/// A site of one machine in a status, with a design of its own.
pub(super) async fn site(version: Version, status: u8, data: &str) -> Lab {
    let region = Region::new(version).with("abc001", "n1", status);
    Lab::of(region, "", &[node("n1", "abc001", data)], NETWORKS).await
}

/// What is mounted where, each with its size in units of MAAS's.
fn mounts(parts: &Parts) -> Vec<(String, String, u64)> {
    let disks = parts.disks.iter().flat_map(|disk| &disk.partitions);
    let disks = disks.map(|part| (part.system.clone(), part.size));
    let volumes = parts.groups.iter().flat_map(|group| &group.volumes);
    let volumes = volumes.map(|volume| (volume.system.clone(), volume.size));
    let mount = |(system, size): (Option<super::parts::FileSystem>, u64)| {
        let system = system?;
        Some((system.at?, system.kind, size / UNIT))
    };
    disks.chain(volumes).filter_map(mount).collect()
}

fn interface<'a>(parts: &'a Parts, name: &str) -> &'a Interface {
    let mut all = parts.interfaces.iter();
    all.find(|each| each.name == name).unwrap()
}

/// Mode, subnet and address of each link.
fn links(parts: &Parts, name: &str) -> Vec<(String, u64, Option<String>)> {
    let own = interface(parts, name).links.iter();
    own.map(|link| (link.mode.clone(), link.subnet, link.address.clone()))
        .collect()
}

fn link(mode: &str, subnet: u64, address: Option<&str>) -> (String, u64, Option<String>) {
    (mode.to_owned(), subnet, address.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn disks_and_interfaces_are_made_one_by_one_and_a_second_pass_writes_nothing() {
    for version in VERSIONS {
        let lab = site(version, 0, PARTS).await;
        let seen = lab.seen("n1").await;
        assert_eq!(seen.unsupported.len(), 0);
        let left: Vec<&str> = seen.left_out.iter().map(|text| &**text).collect();
        let routes = "routes of networks, which MAAS has with its subnets: oam";
        assert_eq!(left, [routes]);
        lab.run(StepKind::Prepare, "n1", nothing()).await;
        let parts = lab.region.machine("abc001").parts;
        let mounted = mounts(&parts);
        let places: Vec<(&str, &str)> = mounted
            .iter()
            .map(|(at, kind, _)| (&**at, &**kind))
            .collect();
        let expected = [
            ("/boot", "ext4"),
            ("/", "xfs"),
            ("/var/log", "ext4"),
            ("/var/lib/images", "ext4"),
            ("/srv", "xfs"),
        ];
        assert_eq!(places, expected);
        let sizes: Vec<u64> = mounted.iter().map(|(.., size)| *size).collect();
        assert_eq!(
            (sizes[0], sizes[2]),
            (2_000_000_000 / UNIT, 20_000_000_000 / UNIT)
        );
        // The root has what the others leave, and the volume after a share has the rest.
        assert!(
            (226_000_000_000 / UNIT..229_000_000_000 / UNIT).contains(&sizes[1]),
            "{sizes:?}"
        );
        let whole = sizes[3] + sizes[4];
        assert!(
            whole * 40 / 100 - sizes[3] <= 1 && whole > 199_000_000_000 / UNIT,
            "{sizes:?}"
        );
        let root = parts.disks[0].partitions[1].system.clone().unwrap();
        assert_eq!(root.options.as_deref(), Some("noatime"));

        assert_eq!(
            links(&parts, "eth0"),
            [link("static", 1, Some("10.20.0.77"))]
        );
        let bond = interface(&parts, "bond0");
        assert_eq!(
            (bond.kind, bond.parents.as_slice(), bond.vlan),
            ("bond", &[5, 6][..], Some(1))
        );
        for (option, value) in [
            ("bond_mode", "802.3ad"),
            ("bond_xmit_hash_policy", "layer3+4"),
            ("bond_lacp_rate", "fast"),
            ("bond_miimon", "100"),
            ("mtu", "9000"),
        ] {
            assert_eq!(bond.params[option], value, "{option}");
        }
        assert_eq!(
            links(&parts, "bond0.20"),
            [link("static", 2, Some("10.30.0.77"))]
        );
        assert_eq!(links(&parts, "bond0.30"), [link("dhcp", 3, None)]);
        assert_eq!(interface(&parts, "bond0.20").params["mtu"], "9000");

        lab.changes();
        lab.run(StepKind::Prepare, "n1", nothing()).await;
        assert_eq!(lab.changes(), [""; 0]);
        lab.run(StepKind::Deploy, "n1", nothing()).await;
        assert!(lab.changes().iter().all(|line| !line.contains(" nodes/")));
        assert_eq!(lab.region.machine("abc001").parts, parts);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_changed_in_maas_is_corrected_by_the_next_prepare_or_deploy() {
    let disturb: &[fn(&mut Parts)] = &[
        |parts| parts.groups[0].name = "other".to_owned(),
        |parts| parts.groups[0].volumes[1].size = 256 * UNIT,
        |parts| parts.disks[0].partitions[1].system.as_mut().unwrap().kind = "ext4".to_owned(),
        |parts| parts.disks[0].partitions[2].size *= 2,
        |parts| parts.disks[0].partitions[2].system.as_mut().unwrap().at = None,
        |parts| parts.boot = 2,
        |parts| parts.interfaces[0].links[0].address = Some("10.20.0.9".to_owned()),
        |parts| parts.interfaces[0].links[0].mode = "auto".to_owned(),
        |parts| {
            drop(
                parts.interfaces[3]
                    .params
                    .insert("bond_mode".to_owned(), "active-backup".to_owned()),
            )
        },
        |parts| {
            drop(
                parts.interfaces[3]
                    .params
                    .insert("mtu".to_owned(), "1500".to_owned()),
            )
        },
        |parts| parts.interfaces[3].name = "bond7".to_owned(),
        |parts| parts.interfaces[3].parents.truncate(1),
        |parts| drop(parts.interfaces.pop()),
        |parts| drop(parts.interfaces.drain(3..)),
        |parts| parts.interfaces[4].links.clear(),
        |parts| parts.interfaces[4].vlan = Some(3),
    ];
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        let lab = site(Version::V34, 4, PARTS).await;
        lab.run(StepKind::Prepare, "n1", nothing()).await;
        let right = lab.region.machine("abc001").parts;
        for (number, change) in disturb.iter().enumerate() {
            lab.region.change("abc001", |machine| {
                machine.status = 4;
                machine.owner = None;
                machine.locked = false;
                machine.osystem.clear();
                machine.owner_data.clear();
                machine.parts = right.clone();
                change(&mut machine.parts);
            });
            lab.changes();
            lab.run(kind, "n1", nothing()).await;
            assert!(
                lab.changes().iter().any(|line| line.contains("abc001/")),
                "{number}"
            );
            let parts = lab.region.machine("abc001").parts;
            assert_eq!(mounts(&parts).len(), 5, "{number}");
            assert_eq!(parts.boot, 1, "{number}");
            let names = ["eth0", "eth1", "eth2", "bond0", "bond0.20", "bond0.30"];
            let mut found: Vec<&str> = parts.interfaces.iter().map(|each| &*each.name).collect();
            found.sort_unstable();
            let mut expected = names.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "{number}");
            for name in names {
                assert_eq!(links(&parts, name), links(&right, name), "{number} {name}");
                let params = (interface(&parts, name), interface(&right, name));
                assert_eq!(params.0.params, params.1.params, "{number} {name}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_simple_design_is_a_layout_of_maas_s_own_which_is_set_once() {
    let flat = "platform: {image: noble}, storage: {physical_devices: {sdb: {labels: {bootdrive: 'true'}, partitions: [\
        {name: boot, size: 2g, filesystem: {mountpoint: /boot}}, {name: root, size: 40g, filesystem: {mountpoint: /}}]}}}";
    let lvm = "platform: {image: noble}, storage: {physical_devices: {sdb: {labels: {bootdrive: 'true'}, partitions: [\
        {name: boot, size: 2g, filesystem: {mountpoint: /boot}}, {name: pv, size: '>40g', volume_group: vg0}]}}, \
        volume_groups: {vg0: {logical_volumes: [{name: root, size: 40g, filesystem: {mountpoint: /}}]}}}";
    for (data, layout) in [(flat, "flat"), (lvm, "lvm")] {
        for is_uefi in [false, true] {
            let lab = site(Version::V34, 4, data).await;
            lab.region
                .change("abc001", |machine| machine.parts.is_uefi = is_uefi);
            lab.run(StepKind::Prepare, "n1", nothing()).await;
            assert_eq!(
                lab.changes(),
                ["POST machines/abc001/?op=set_storage_layout"],
                "{layout}"
            );
            let machine = lab.region.machine("abc001");
            assert_eq!(machine.layout.as_deref(), Some(layout));
            let mounted = mounts(&machine.parts);
            let at = |place: &str| {
                mounted
                    .iter()
                    .find(|(at, ..)| at == place)
                    .map(|each| each.2)
            };
            assert_eq!(at("/boot"), Some(2_000_000_000 / UNIT), "{layout}");
            assert_eq!(at("/"), Some(40_000_000_000 / UNIT), "{layout}");
            assert_eq!(at("/boot/efi").is_some(), is_uefi, "{layout}");
            assert_eq!(machine.parts.disks[0].partitions.len(), 0, "{layout}");
            if let Some(group) = machine.parts.groups.first() {
                assert_eq!((&*group.name, &*group.volumes[0].name), ("vg0", "root"));
            }
            lab.run(StepKind::Prepare, "n1", nothing()).await;
            assert_eq!(lab.changes(), [""; 0], "{layout}");
            lab.region.change("abc001", |machine| {
                machine.parts.disks[1].partitions.pop();
            });
            lab.run(StepKind::Prepare, "n1", nothing()).await;
            assert_eq!(lab.changes().len(), 1, "{layout}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_uefi_gets_a_partition_to_boot_from_and_cards_are_found_on_their_bus() {
    let hardware = "---\nschema: drydock/HardwareProfile/v1\nmetadata: {name: hw}\ndata: {vendor: x, device_aliases: \
        {nic: {address: '0000:05:00.0', bus_type: pci, dev_type: x}}}\n";
    let data = PARTS
        .replace("slaves: [eth0]", "slaves: [52:54:00:00:ab:cd]")
        .replace("slaves: [eth1, eth2]", "slaves: [eth1, nic]");
    let data = format!("hardware_profile: hw, {data}");
    let region = Region::new(Version::V35).with("abc001", "n1", 4);
    let nodes = [(
        "n1".to_owned(),
        format!("metadata: {{boot_mac: '52:54:00:00:ab:cd'}}, {data}"),
    )];
    let lab = Lab::of(region, "", &nodes, &format!("{NETWORKS}{hardware}")).await;
    lab.region.change("abc001", |machine| {
        machine.parts.is_uefi = true;
        machine.set_macs(vec!["52:54:00:00:AB:CD".to_owned()]);
    });
    lab.run(StepKind::Prepare, "n1", nothing()).await;
    let parts = lab.region.machine("abc001").parts;
    let mounted = mounts(&parts);
    assert_eq!(
        mounted[0],
        ("/boot/efi".to_owned(), "fat32".to_owned(), 128)
    );
    assert_eq!(mounted.len(), 6);
    assert_eq!(interface(&parts, "bond0").parents, [5, 6]);
    assert_eq!(
        links(&parts, "eth0"),
        [link("static", 1, Some("10.20.0.77"))]
    );
}

#[tokio::test(start_paused = true)]
async fn what_maas_cannot_do_is_named_and_what_it_lacks_is_found_before_anything_is_done() {
    for (from, to, expected) in [
        (
            "fstype: xfs, mount_options: noatime",
            "fstype: zfs",
            "MAAS makes no file system `zfs`",
        ),
        (
            "networks: [oam, storage]",
            "networks: [pxe]",
            "network `pxe` is tagged on interface `bond0`, and has no VLAN",
        ),
        (
            "device_link: data, slaves",
            "device_link: pxe, slaves",
            "interface `bond0` has several cards, and its link no bond",
        ),
    ] {
        let lab = site(Version::V34, 4, &PARTS.replace(from, to)).await;
        let unsupported = lab.seen("n1").await.unsupported;
        assert_eq!(unsupported.len(), 1, "{unsupported:?}");
        assert!(unsupported[0].contains(expected), "{unsupported:?}");
        let why = lab.fails(StepKind::Deploy, "n1", nothing()).await;
        assert!(why.contains(expected), "{why}");
    }
    for (from, to, expected) in [
        (
            "sdb: {",
            "sdq: {",
            "MAAS has no disk `sdq` of it; it has: sda, sdb, sdc",
        ),
        (
            "[eth1, eth2]",
            "[eth1, eth9]",
            "MAAS has no network card `eth9` of it; it has: eth0, eth1, eth2",
        ),
        ("size: '>10g'", "size: '>400g'", "`images` needs "),
    ] {
        let lab = site(Version::V34, 4, &PARTS.replace(from, to)).await;
        let why = lab.fails(StepKind::Prepare, "n1", nothing()).await;
        assert!(why.contains(expected), "{why}");
    }
    for (from, to, expected) in [
        (
            "cidr: 10.40.0.0/24",
            "cidr: 10.41.0.0/24",
            "MAAS has no subnet 10.41.0.0/24, which is network `storage`: make it in MAAS",
        ),
        (
            "vlan: '30'",
            "vlan: '31'",
            "network `storage` is VLAN 31, and MAAS has its subnet 10.40.0.0/24 on VLAN 30",
        ),
    ] {
        let region = Region::new(Version::V34).with("abc001", "n1", 4);
        let networks = NETWORKS.replace(from, to);
        let lab = Lab::of(region, "", &[node("n1", "abc001", PARTS)], &networks).await;
        let parameters = json!({"deploys": ["n1"]});
        let (order, _) = lab.order(StepKind::VerifySite, None, parameters);
        let Err(ActError::Permanent(why)) = lab.open().act(&order).await else {
            panic!("{expected}")
        };
        assert_eq!(&*why, format!("node `n1`: {expected}"));
        let why = lab.fails(StepKind::Prepare, "n1", nothing()).await;
        assert!(why.contains(expected), "{why}");
    }
}
