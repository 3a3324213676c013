//! The drives of the RAID volumes of a machine: which ones each is made of, before anything is changed.
//!
//! Drives that a document names come first. The others are chosen in the order of the document: from the first storage that has
//! as many free drives of one kind, the smallest that do. Hot spares are of the storage of the first volume.

use std::collections::{BTreeMap, BTreeSet};

use super::resource::Resource;
use crate::backend::http::plain;
use crate::design::{Raid, RaidDrives, RaidVolume};

/// A storage, with what it is asked about.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) resource: Resource,
    /// The collection of its volumes, if it has one.
    pub(super) collection: Option<Resource>,
    pub(super) volumes: Vec<Resource>,
    /// Its drives that are there.
    pub(super) drives: Vec<Resource>,
}

impl Unit {
    /// The drives that stand by; `None`: no drive shows whether it does.
    pub(super) fn spares(&self) -> Option<usize> {
        let kinds = self.drives.iter();
        let mut kinds = kinds
            .filter_map(|drive| drive.text("/HotspareType"))
            .peekable();
        kinds.peek()?;
        Some(kinds.filter(|kind| *kind != "None").count())
    }

    /// The RAID levels that it lists; `None`: it lists none.
    pub(super) fn levels(&self) -> Option<Vec<&str>> {
        let levels = self
            .resource
            .texts("/StorageControllers/0/SupportedRAIDTypes");
        (!levels.is_empty()).then_some(levels)
    }
}

/// A volume to be made.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) volume: &'a RaidVolume,
    pub(super) unit: &'a Unit,
    pub(super) drives: Vec<&'a Resource>,
    /// The drives that stand by for it.
    pub(super) spares: Vec<&'a Resource>,
}

/// The volumes of a design on the storages of a machine, in the order of the document.
///
/// # Errors
///
/// A storage or a drive is not found, or too few drives are free.
pub(super) fn layout<'a>(raid: &'a Raid, units: &'a [Unit]) -> Result<Vec<Placed<'a>>, String> {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut placed: BTreeMap<usize, Placed<'a>> = BTreeMap::new();
    let is_named = |volume: &RaidVolume| matches!(volume.drives, RaidDrives::Named(_));
    for named in [true, false] {
        let volumes = raid.volumes.iter().enumerate();
        for (at, volume) in volumes.filter(|(_, volume)| is_named(volume) == named) {
            let (unit, drives) = place(volume, units, &used)?;
            used.extend(drives.iter().map(|drive| &*drive.path));
            let spares = Vec::new();
            placed.insert(
                at,
                Placed {
                    volume,
                    unit,
                    drives,
                    spares,
                },
            );
        }
    }
    let mut placed: Vec<Placed<'a>> = placed.into_values().collect();
    let spares = usize::try_from(raid.hot_spares.unwrap_or(0)).unwrap_or(usize::MAX);
    match placed.first_mut() {
        Some(first) if spares > 0 => {
            if first.unit.spares().is_none() {
                return Err(format!(
                    "no drive of storage `{}` shows whether it stands by as a hot spare",
                    plain(first.unit.resource.id(), 60)
                ));
            }
            let size = first.drives.iter().map(|drive| capacity(drive)).max();
            let fits = |drive: &&Resource| Some(capacity(drive)) >= size;
            let mut free: Vec<&Resource> = free(first.unit, &used).filter(fits).collect();
            if free.len() < spares {
                return Err(format!(
                    "storage `{}` has {} free drives of the size of those of volume `{}` for {spares} hot spares",
                    plain(first.unit.resource.id(), 60),
                    free.len(),
                    first.volume.name
                ));
            }
            free.sort_by_key(|drive| capacity(drive));
            first.spares = free.into_iter().take(spares).collect();
        }
        Some(_) => {}
        None if spares > 0 => return Err("hot spares are made with a volume only".to_owned()),
        None => {}
    }
    Ok(placed)
}

/// The storage and the drives of a volume.
fn place<'a>(
    volume: &RaidVolume,
    units: &'a [Unit],
    used: &BTreeSet<&str>,
) -> Result<(&'a Unit, Vec<&'a Resource>), String> {
    let name = &volume.name;
    let unit = match &volume.controller {
        None => None,
        Some(controller) => {
            let unit = units
                .iter()
                .find(|unit| unit.resource.id() == &**controller);
            Some(unit.ok_or_else(|| no_such(controller, units))?)
        }
    };
    let candidates = || {
        units
            .iter()
            .filter(|each| unit.is_none_or(|unit| std::ptr::eq(*each, unit)))
    };
    if !candidates().any(|unit| unit.collection.is_some()) {
        return Err(match unit {
            Some(unit) => format!(
                "storage `{}` has no collection of volumes",
                plain(unit.resource.id(), 60)
            ),
            None => "none of its storages has a collection of volumes".to_owned(),
        });
    }
    let able = candidates().filter(|unit| unit.collection.is_some());
    let mut refused = None;
    for unit in able {
        if let Some(levels) = unit.levels()
            && !levels.contains(&volume.level.as_str())
        {
            refused = Some(format!(
                "storage `{}` makes no {}",
                plain(unit.resource.id(), 60),
                volume.level.as_str()
            ));
            continue;
        }
        let drives = match &volume.drives {
            RaidDrives::Named(names) => Some(named(unit, names, used)?),
            RaidDrives::Count(count) => chosen(unit, *count, used),
        };
        if let Some(drives) = drives {
            return Ok((unit, drives));
        }
    }
    let count = volume.drives.count();
    Err(refused.unwrap_or_else(|| {
        format!("no storage has {count} free drives of one kind for volume `{name}`")
    }))
}

fn no_such(controller: &str, units: &[Unit]) -> String {
    let known = units.iter().take(8);
    let known: Vec<String> = known.map(|unit| plain(unit.resource.id(), 60)).collect();
    match known.is_empty() {
        true => format!("it has no storage `{controller}`"),
        false => format!(
            "it has no storage `{controller}`, and has {}",
            known.join(", ")
        ),
    }
}

/// The drives of these names.
fn named<'a>(
    unit: &'a Unit,
    names: &[std::sync::Arc<str>],
    used: &BTreeSet<&str>,
) -> Result<Vec<&'a Resource>, String> {
    let drives = names.iter().map(|name| {
        let is_it = |drive: &&Resource| {
            let own = [
                Some(drive.id()),
                drive.text("/Name"),
                drive.text("/SerialNumber"),
            ];
            own.into_iter()
                .flatten()
                .any(|own| own.eq_ignore_ascii_case(name))
        };
        let found = unit.drives.iter().find(is_it);
        let storage = || plain(unit.resource.id(), 60);
        let found =
            found.ok_or_else(|| format!("storage `{}` has no drive `{name}`", storage()))?;
        match used.contains(&*found.path) {
            true => Err(format!(
                "drive `{name}` of storage `{}` is in another volume",
                storage()
            )),
            false => Ok(found),
        }
    });
    drives.collect()
}

/// So many free drives of one kind.
fn chosen<'a>(unit: &'a Unit, count: u64, used: &BTreeSet<&str>) -> Option<Vec<&'a Resource>> {
    let count = usize::try_from(count).ok()?;
    let mut kinds: BTreeMap<(u64, &str, &str), Vec<&Resource>> = BTreeMap::new();
    for drive in free(unit, used) {
        let media = drive.text("/MediaType").unwrap_or_default();
        let protocol = drive.text("/Protocol").unwrap_or_default();
        let kind = (capacity(drive), media, protocol);
        kinds.entry(kind).or_default().push(drive);
    }
    let mut kinds = kinds.into_values();
    let drives = kinds.find(|drives| drives.len() >= count)?;
    Some(drives.into_iter().take(count).collect())
}

fn free<'a>(unit: &'a Unit, used: &BTreeSet<&str>) -> impl Iterator<Item = &'a Resource> {
    unit.drives
        .iter()
        .filter(move |drive| !used.contains(&*drive.path))
}

fn capacity(drive: &Resource) -> u64 {
    drive.number("/CapacityBytes").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::design::fixture::{document, site};

    fn resource(path: &str, value: Value) -> Resource {
        Resource {
            value,
            path: Arc::from(path),
            etag: None,
        }
    }

    /// A storage with drives of these names and sizes.
    fn unit(id: &str, has_volumes: bool, drives: &[(&str, u64)]) -> Unit {
        let drive = |(name, size): &(&str, u64)| {
            resource(
                &format!("/{id}/{name}"),
                json!({"Id": name, "CapacityBytes": size, "HotspareType": (id == "R0").then_some("None")}),
            )
        };
        Unit {
            resource: resource(&format!("/{id}"), json!({"Id": id})),
            collection: has_volumes.then(|| resource(&format!("/{id}/Volumes"), json!({}))),
            volumes: Vec::new(),
            drives: drives.iter().map(drive).collect(),
        }
    }

    fn laid_out(raid: &str, units: &[Unit]) -> String {
        let text = document("drydock/BaremetalNode/v1", "n1", "{}")
            + &document(
                "trueup/Hardware/v1",
                "all",
                &format!("mode: enforce\nraid: {raid}"),
            );
        let raid = site(&text).design.nodes["n1"].enforced_raid().unwrap();
        match layout(&raid, units) {
            Err(why) => why,
            Ok(placed) => {
                let ids = |drives: &[&Resource]| {
                    let ids: Vec<&str> = drives.iter().map(|drive| drive.id()).collect();
                    ids.join("+")
                };
                let placed = placed.iter().map(|each| {
                    let spares = match each.spares.is_empty() {
                        true => String::new(),
                        false => format!(" spare {}", ids(&each.spares)),
                    };
                    format!(
                        "{} on {}: {}{spares}",
                        each.volume.name,
                        each.unit.resource.id(),
                        ids(&each.drives)
                    )
                });
                placed.collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn volumes_take_free_drives_of_one_kind_and_named_ones_first() {
        let units = [
            unit("NVMe", false, &[("x", 9), ("y", 9)]),
            unit(
                "R0",
                true,
                &[("a", 2), ("b", 1), ("c", 2), ("d", 1), ("e", 2)],
            ),
        ];
        let table = [
            (
                "{volumes: [{name: v, level: RAID1, drives: 2}]}",
                "v on R0: b+d",
            ),
            (
                "{volumes: [{name: v, level: RAID5, drives: 3}]}",
                "v on R0: a+c+e",
            ),
            (
                "{volumes: [{name: v, level: RAID1, drives: 2}, {name: w, level: RAID1, drives: [b, D], controller: R0}]}",
                "v on R0: a+c; w on R0: b+D",
            ),
            (
                "{volumes: [{name: v, level: RAID1, drives: 2}], hot_spares: 1}",
                "v on R0: b+d spare a",
            ),
            (
                "{volumes: [{name: v, level: RAID5, drives: 3}], hot_spares: 1}",
                "storage `R0` has 0 free drives of the size of those of volume `v` for 1 hot spares",
            ),
            (
                "{volumes: [{name: v, level: RAID6, drives: 4}]}",
                "no storage has 4 free drives of one kind for volume `v`",
            ),
            (
                "{volumes: [{name: v, level: RAID1, drives: 2, controller: R1}]}",
                "it has no storage `R1`, and has NVMe, R0",
            ),
            (
                "{volumes: [{name: v, level: RAID1, drives: [x, y], controller: NVMe}]}",
                "storage `NVMe` has no collection of volumes",
            ),
            (
                "{volumes: [{name: v, level: RAID1, drives: [a, z], controller: R0}]}",
                "storage `R0` has no drive `z`",
            ),
        ];
        for (raid, expected) in table {
            assert_eq!(
                laid_out(raid, &units).replace("b+D", "b+d"),
                expected.replace("b+D", "b+d"),
                "{raid}"
            );
        }
        let mut limited = unit("R0", true, &[("a", 1), ("b", 1)]);
        limited.resource.value["StorageControllers"] = json!([{"SupportedRAIDTypes": ["RAID0"]}]);
        let raid = "{volumes: [{name: v, level: RAID1, drives: 2}]}";
        assert_eq!(laid_out(raid, &[limited]), "storage `R0` makes no RAID1");
        assert_eq!(
            laid_out(raid, &units[..1]),
            "none of its storages has a collection of volumes"
        );
    }
}
