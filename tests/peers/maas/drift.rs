//! Disks and interfaces of a deployed machine that are otherwise than its design: each named with both values.

use serde_json::json;
use trueup::design::Section;
use trueup::step::StepKind;

use super::lab::{Lab, PLATFORM};
use super::life::VERSIONS;
use super::parts::{FileSystem, Link, Parts, UNIT};
use super::placed::{PARTS, site};
use super::region::Version;

/// A change of the parts of a machine, and what differs then.
type Case = (Box<dyn FnOnce(&mut Parts)>, &'static [&'static str]);

async fn deployed(version: Version, data: &str) -> Lab {
    let lab = site(version, 4, data).await;
    lab.run(StepKind::Prepare, "n1", json!({})).await;
    lab.run(StepKind::Deploy, "n1", json!({})).await;
    lab
}

/// What differs after a change of the parts: each with its observed and its designed value.
async fn drift(lab: &Lab, change: impl FnOnce(&mut Parts)) -> Vec<(Section, String)> {
    let before = lab.region.machine("abc001").parts;
    lab.region
        .change("abc001", |machine| change(&mut machine.parts));
    let seen = lab.seen("n1").await;
    lab.region
        .change("abc001", |machine| machine.parts = before);
    let drift = seen.drift.iter();
    drift
        .map(|part| {
            let text = format!(
                "{}: {}, designed {}",
                part.field, part.observed, part.designed
            );
            (part.section, text)
        })
        .collect()
}

fn mounted(kind: &str, at: &str) -> FileSystem {
    FileSystem {
        kind: kind.to_owned(),
        at: Some(at.to_owned()),
        options: None,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deployed_as_designed_does_not_differ() {
    for version in VERSIONS {
        for data in [PARTS, PLATFORM] {
            let lab = deployed(version, data).await;
            assert_eq!(drift(&lab, |_| {}).await, [], "{data}");
            // MAAS makes what a machine with UEFI boots from.
            let with_efi = |parts: &mut Parts| {
                parts.is_uefi = true;
                let mut part = parts.disks[0].partitions[0].clone();
                part.size = 128 * UNIT;
                part.system = Some(mounted("fat32", "/boot/efi"));
                parts.disks[0].partitions.insert(0, part);
            };
            assert_eq!(drift(&lab, with_efi).await, [], "{data}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn file_systems_and_volume_groups_that_differ_are_named_with_both_values() {
    let lab = deployed(Version::V35, PARTS).await;
    let cases: [Case; 8] = [
        (
            Box::new(|parts| parts.disks[0].partitions[2].size = 2560 * UNIT),
            &["size of the file system `/var/log`: 10.0 GiB, designed 18.6 GiB"],
        ),
        (
            Box::new(|parts| parts.disks[0].partitions[1].system = Some(mounted("ext4", "/"))),
            &["kind of the file system `/`: ext4, designed xfs"],
        ),
        (
            Box::new(|parts| parts.disks[0].partitions[2].system = None),
            &["file system `/var/log`: none, designed ext4 on `sda`"],
        ),
        (
            Box::new(|parts| parts.disks[0].partitions[2].system = Some(mounted("ext4", "/data"))),
            &[
                "file system `/var/log`: none, designed ext4 on `sda`",
                "file system `/data`: ext4 on `sda`, designed none",
            ],
        ),
        (
            Box::new(|parts| parts.groups[0].volumes[1].name = "other".to_owned()),
            &[
                "place of the file system `/srv`: volume `other` of `data`, designed volume `rest` of `data`",
            ],
        ),
        (
            Box::new(|parts| parts.groups[0].devices.truncate(1)),
            &["disks of the volume group `data`: `sdb`, designed `sdb`, `sdc`"],
        ),
        (
            Box::new(|parts| parts.boot = 2),
            &["boot disk: `sdb`, designed `sda`"],
        ),
        (
            Box::new(|parts| drop(parts.disks.remove(2))),
            &[
                "disk `sdc`: not found, designed in use",
                "disks of the volume group `data`: `sdb`, another device, designed `sdb`",
            ],
        ),
    ];
    for (change, expected) in cases {
        let found = drift(&lab, change).await;
        let expected: Vec<_> = expected
            .iter()
            .map(|text| (Section::Storage, (*text).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn bonds_vlans_and_addresses_that_differ_are_named_with_both_values() {
    let lab = deployed(Version::V34, PARTS).await;
    let at = |parts: &Parts, name: &str| {
        parts
            .interfaces
            .iter()
            .position(|each| each.name == name)
            .unwrap()
    };
    let param = |name: &'static str, value: &'static str| {
        move |parts: &mut Parts| {
            let bond = at(parts, "bond0");
            parts.interfaces[bond]
                .params
                .insert(name.to_owned(), value.to_owned());
        }
    };
    let cases: [Case; 7] = [
        (
            Box::new(param("bond_mode", "active-backup")),
            &["`bond_mode` of the bond `bond0`: active-backup, designed 802.3ad"],
        ),
        (
            Box::new(param("mtu", "1500")),
            &["MTU of `bond0`: 1500, designed 9000"],
        ),
        (
            Box::new(move |parts: &mut Parts| {
                let bond = at(parts, "bond0");
                parts.interfaces[bond].parents.pop();
            }),
            &["cards of the bond `bond0`: eth1, designed eth1, eth2"],
        ),
        (
            Box::new(move |parts: &mut Parts| {
                let port = at(parts, "eth0");
                parts.interfaces[port].links[0].address = Some("10.20.0.9".to_owned());
            }),
            &["address of `eth0` in 10.20.0.0/24: 10.20.0.9, designed 10.20.0.77"],
        ),
        (
            Box::new(move |parts: &mut Parts| {
                let port = at(parts, "eth0");
                parts.interfaces[port].links.push(Link {
                    id: 900,
                    mode: "auto".to_owned(),
                    subnet: 4,
                    address: Some("10.50.0.9".to_owned()),
                });
            }),
            &["address of `eth0` in 10.50.0.0/24: auto, designed none"],
        ),
        (
            Box::new(move |parts: &mut Parts| {
                let vlan = at(parts, "bond0.20");
                parts.interfaces.remove(vlan);
            }),
            &["VLAN 20 on `bond0`: none, designed network `oam`"],
        ),
        (
            Box::new(move |parts: &mut Parts| {
                let bond = at(parts, "bond0");
                parts.interfaces[bond].name = "bond7".to_owned();
            }),
            &[
                "bond `bond0`: none, designed eth1, eth2",
                "bond `bond7`: eth1, eth2, designed none",
            ],
        ),
    ];
    for (change, expected) in cases {
        let found = drift(&lab, change).await;
        let expected: Vec<_> = expected
            .iter()
            .map(|text| (Section::Network, (*text).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_deployed_and_known_differs() {
    let lab = site(Version::V34, 4, PARTS).await;
    assert_eq!(drift(&lab, |_| {}).await, []);
    let lab = deployed(Version::V34, PARTS).await;
    // Added to MAAS as it was deployed: never commissioned.
    lab.region
        .change("abc001", |machine| machine.is_known = false);
    let found = drift(&lab, |parts| parts.groups.clear()).await;
    assert!(
        found
            .iter()
            .all(|(section, _)| *section == Section::Network),
        "{found:?}"
    );
}
