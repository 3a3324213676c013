//! RAID volumes over Ironic: a step of the deploy makes them, before the system is written.
//!
//! `raid.apply_configuration` deletes the volumes of the machine and makes those of the design. Ironic shows in `raid_config` what
//! it has made, or read of the controller after that: some of its interfaces show neither drives nor sizes.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::node::Node;
use crate::backend::http::plain;
use crate::design::{
    HOT_SPARES, NodeDesign, Raid, RaidDrives, RaidLevel, RaidVolume, Section, ShownVolume, VOLUMES,
};
use crate::observed::{FixedValue, HardwareSeen};

/// The name of the step.
pub(super) const STEP: &str = "raid.apply_configuration";

/// After `deploy.deploy` (100), whose agent carries out steps in band, and before the image is written (80).
const PRIORITY: u32 = 95;

/// Its configuration of RAID has no word for them.
pub(super) const NO_SPARES: &str = "Ironic makes no hot spares";

/// Most volumes of a node that are read.
const MOST: usize = 256;

/// The deploy step that makes volumes, as Ironic takes it.
pub(super) fn step(raid: &Raid) -> Value {
    let disks: Vec<Value> = raid.volumes.iter().map(logical_disk).collect();
    json!({
        "interface": "raid",
        "step": "apply_configuration",
        "priority": PRIORITY,
        "args": {
            "raid_config": {"logical_disks": disks},
            // Some interfaces make only the volume of the system unless they are told.
            "create_root_volume": true,
            "create_nonroot_volumes": true,
            "delete_existing": true,
        },
    })
}

fn logical_disk(volume: &RaidVolume) -> Value {
    let mut disk = Map::new();
    disk.insert("volume_name".to_owned(), json!(volume.name));
    disk.insert("raid_level".to_owned(), json!(volume.level.of_ironic()));
    let size = volume.size_gib.map_or(json!("MAX"), |size| json!(size));
    disk.insert("size_gb".to_owned(), size);
    match &volume.drives {
        RaidDrives::Count(count) => {
            disk.insert("number_of_physical_disks".to_owned(), json!(count));
        }
        RaidDrives::Named(names) => {
            disk.insert("physical_disks".to_owned(), json!(**names));
        }
    }
    if let Some(controller) = &volume.controller {
        disk.insert("controller".to_owned(), json!(controller));
    }
    Value::Object(disk)
}

/// The volumes that Ironic shows of a node; `None`: it has neither made nor read any.
fn shown(node: &Node) -> Option<Vec<ShownVolume>> {
    let disks = node.raid_config.get("logical_disks")?.as_array()?;
    Some(disks.iter().take(MOST).map(shown_volume).collect())
}

fn shown_volume(disk: &Value) -> ShownVolume {
    let text = |name: &str| {
        let value = disk.get(name)?;
        let text = value.as_str().map(ToOwned::to_owned);
        text.or_else(|| value.as_u64().map(|number| number.to_string()))
    };
    let names = disk.get("physical_disks").and_then(Value::as_array);
    let names = names.filter(|names| names.iter().all(Value::is_string));
    let names = names.map(|names| {
        let names = names.iter().filter_map(Value::as_str);
        RaidDrives::Named(names.map(|name| Arc::from(plain(name, 100))).collect())
    });
    let count = disk.get("number_of_physical_disks").and_then(Value::as_u64);
    ShownVolume {
        level: text("raid_level").map(|level| match RaidLevel::named(&level) {
            Some(level) => Arc::from(level.as_str()),
            None => Arc::from(plain(&level, 40)),
        }),
        drives: names.or(count.map(RaidDrives::Count)),
        // `MAX` where it has not read what that came to.
        size_gib: disk.get("size_gb").and_then(Value::as_u64),
        controller: text("controller").map(|controller| Arc::from(plain(&controller, 100))),
    }
}

/// Adds the volumes that Ironic shows, as far as a Hardware document has any.
pub(super) fn add_shown(seen: &mut HardwareSeen, design: &NodeDesign, node: &Node) {
    let Some(raid) = design.raid().filter(|raid| !raid.volumes.is_empty()) else {
        return;
    };
    if let Some(volumes) = shown(node).and_then(|shown| raid.compared(&shown)) {
        seen.insert(Arc::from(VOLUMES), volumes);
    }
}

/// The values of RAID that are enforced, and that Ironic cannot make.
pub(super) fn not_made(design: &NodeDesign, node: &Node) -> Vec<FixedValue> {
    let has_none = node.raid_interface.as_deref() == Some("no-raid");
    let enforced = design.hardware(Section::Raid).into_iter();
    let fixed = enforced.filter_map(|value| {
        let reason = match &*value.name {
            HOT_SPARES => NO_SPARES,
            _ if has_none => "its `raid_interface` in Ironic is `no-raid`",
            _ => return None,
        };
        Some(FixedValue {
            name: value.name,
            reason: Arc::from(reason),
        })
    });
    fixed.collect()
}

/// How the volumes that Ironic shows after a deploy are others than those that it was to make.
///
/// # Errors
///
/// They are, or it shows none.
pub(super) fn check(raid: &Raid, node: &Node) -> Result<(), String> {
    if raid.volumes.is_empty() {
        return Ok(());
    }
    let Some(shown) = shown(node) else {
        return Err(format!(
            "Ironic has run `{STEP}`, and shows no volumes of it: no RAID is known to be made"
        ));
    };
    match raid.differs(&shown) {
        None => Ok(()),
        Some(others) => Err(format!(
            "Ironic has run `{STEP}`, and shows other volumes than designed: {others}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site};

    const VOLUMES_OF: &str = "{name: root, level: RAID1, drives: 2, size_gib: 480}, \
         {name: data, level: RAID10, drives: [a, b, c, d], controller: RAID.1}";

    fn design(more: &str) -> NodeDesign {
        let hardware = format!("mode: enforce\nraid: {{volumes: [{VOLUMES_OF}]{more}}}");
        let text = document("drydock/BaremetalNode/v1", "n1", "{}")
            + &document("trueup/Hardware/v1", "all", &hardware);
        let site = site(&text);
        assert!(site.problems.is_empty(), "{:?}", site.problems);
        (*site.design.nodes["n1"]).clone()
    }

    fn node(raid_config: Value, interface: &str) -> Node {
        let node = json!({"raid_config": raid_config, "raid_interface": interface});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn the_step_has_all_volumes_in_the_form_of_ironic() {
        let raid = design("").enforced_raid().unwrap();
        let expected = json!({
            "interface": "raid", "step": "apply_configuration", "priority": 95,
            "args": {
                "raid_config": {"logical_disks": [
                    {"volume_name": "root", "raid_level": "1", "size_gb": 480, "number_of_physical_disks": 2},
                    {"volume_name": "data", "raid_level": "1+0", "size_gb": "MAX", "physical_disks": ["a", "b", "c", "d"],
                        "controller": "RAID.1"},
                ]},
                "create_root_volume": true, "create_nonroot_volumes": true, "delete_existing": true,
            },
        });
        assert_eq!(step(&raid), expected);
    }

    #[test]
    fn what_ironic_shows_is_compared_and_what_it_does_not_show_is_not() {
        let design = design("");
        let raid = design.enforced_raid().unwrap();
        let designed = &*design.hardware(Section::Raid)[0].value;
        let disk = |level: &str, size: Value| json!({"raid_level": level, "size_gb": size, "controller": "RAID.1"});
        let root = json!({"raid_level": "1", "size_gb": 479, "physical_disks": ["x", "y"]});
        let data = json!({"raid_level": "1+0", "size_gb": "MAX", "number_of_physical_disks": 4,
            "physical_disks": ["d", "c", "b", "a"], "controller": "RAID.1"});
        let table: [(Value, Option<&str>, bool); 7] = [
            (Value::Null, None, false),
            (json!({}), None, false),
            (json!({"logical_disks": [root, data]}), Some(designed), true),
            (
                json!({"logical_disks": [disk("1", json!(480)), disk("1+0", json!(900))]}),
                None,
                true,
            ),
            (
                json!({"logical_disks": [disk("5", json!(480)), disk("1+0", json!(900))]}),
                Some("RAID10, 900 GiB, on RAID.1; RAID5, 480 GiB, on RAID.1"),
                false,
            ),
            (json!({"logical_disks": []}), Some("none"), false),
            (
                json!({"logical_disks": [{"raid_level": "JBOD\u{1b}", "size_gb": -1}, 7]}),
                Some("JBOD\\u{1b}; no RAID level"),
                false,
            ),
        ];
        for (config, expected, is_made) in table {
            let node = node(config, "agent");
            let mut seen = HardwareSeen::new();
            add_shown(&mut seen, &design, &node);
            assert_eq!(seen.get(VOLUMES).map(|value| &**value), expected);
            assert_eq!(check(&raid, &node).is_ok(), is_made, "{expected:?}");
        }
    }

    #[test]
    fn what_ironic_cannot_make_is_told_with_its_reason() {
        let told = |more: &str, interface: &str| {
            let fixed = not_made(&design(more), &node(Value::Null, interface)).into_iter();
            let fixed = fixed.map(|each| format!("{}: {}", each.name, each.reason));
            fixed.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(told("", "redfish"), "");
        assert_eq!(
            told(", hot_spares: 1", "redfish"),
            "raid.hot_spares: Ironic makes no hot spares"
        );
        assert_eq!(
            told("", "no-raid"),
            "raid.volumes: its `raid_interface` in Ironic is `no-raid`"
        );
    }
}
