//! RAID volumes: as a controller shows them, and how a deploy makes them before the system is written.
//!
//! Drives that are passed through show as volumes of some controllers: without a RAID level they are none. What a controller does
//! not have is not shown, and differs from nothing.
//!
//! Nothing is noted of the making: it is begun anew at any point, by what the storages show. Volumes that are as designed are left;
//! else all are deleted, and those of the design made. What a task reports is told, and only what is read afterwards counts.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::layout::{Placed, Unit, layout};
use super::machine::Machine;
use super::resource::{Part, Resource, last};
use super::service::{Tried, best_time};
use super::task::Accepted;
use crate::backend::hardware::level::{Level, Twice};
use crate::backend::http::plain;
use crate::backend::{ActError, Order};
use crate::design::{
    HOT_SPARES, NodeDesign, Raid, RaidDrives, RaidLevel, Section, ShownVolume, VOLUMES,
};
use crate::diagnostic::counted;
use crate::observed::{FixedValue, HardwareSeen};

const GIB: u64 = 1 << 30;

/// The times at which a storage can make volumes, the best first.
const TIMES: [&str; 2] = ["Immediate", "OnReset"];

impl Unit {
    /// Its volumes, without drives that are passed through.
    fn real_volumes(&self) -> impl Iterator<Item = (&Resource, ShownVolume)> {
        let volumes = self.volumes.iter();
        volumes.filter_map(|volume| Some((volume, shown_volume(&self.resource, volume)?)))
    }
}

/// The volumes and hot spares that storages show, as they are compared with a design.
fn shown_values(raid: &Raid, units: &[Unit]) -> HardwareSeen {
    let mut seen = HardwareSeen::new();
    if !raid.volumes.is_empty()
        && let Some(shown) = shown_volumes(units)
        && let Some(volumes) = raid.compared(&shown)
    {
        seen.insert(Arc::from(VOLUMES), volumes);
    }
    if raid.hot_spares.is_some()
        && let Some(spares) = spares(units)
    {
        seen.insert(Arc::from(HOT_SPARES), Arc::from(spares.to_string()));
    }
    seen
}

/// The drives of all storages that stand by; `None`: no drive shows whether it does.
fn spares(units: &[Unit]) -> Option<usize> {
    let shown = units.iter().filter_map(Unit::spares);
    shown.reduce(|one, other| one + other)
}

/// The volumes of all storages; `None`: none of them has a collection.
fn shown_volumes(units: &[Unit]) -> Option<Vec<ShownVolume>> {
    let mut units = units
        .iter()
        .filter(|unit| unit.collection.is_some())
        .peekable();
    units.peek()?;
    let volumes = units.flat_map(|unit| unit.real_volumes().map(|(_, shown)| shown));
    Some(volumes.collect())
}

/// Whether storages show what was to be made, and nothing of it otherwise.
fn is_made(raid: &Raid, units: &[Unit]) -> bool {
    let spares = spares(units).unwrap_or(0);
    let has_spares = raid.hot_spares.is_none_or(|wanted| spares as u64 == wanted);
    let shown = shown_volumes(units);
    let has_volumes =
        raid.volumes.is_empty() || shown.is_some_and(|shown| raid.differs(&shown).is_none());
    has_spares && has_volumes
}

impl Machine<'_> {
    /// The storages of a machine, with their volumes; `with_drives`: also with their drives.
    async fn units(&self, system: &Resource, with_drives: bool) -> Result<Vec<Unit>, ActError> {
        let Some(storage) = system.link("/Storage") else {
            return Ok(Vec::new());
        };
        let members = self.controller.parts(storage, self.expands.min(1)).await?;
        let mut units = Vec::new();
        for resource in self.read_parts(members).await? {
            let collection = match resource.link("/Volumes") {
                Some(path) => self.controller.get_if_there(path).await?,
                None => None,
            };
            let volumes = match &collection {
                Some(page) if page.text("/Members@odata.nextLink").is_some() => {
                    let members = self.controller.members(&page.path).await?;
                    members.into_iter().map(Part::Link).collect()
                }
                Some(page) => page.parts("/Members"),
                None => Vec::new(),
            };
            let volumes = self.read_parts(volumes).await?;
            let drives = match with_drives {
                true => self.read_parts(resource.parts("/Drives")).await?,
                false => Vec::new(),
            };
            let is_there = |drive: &Resource| drive.text("/Status/State") != Some("Absent");
            units.push(Unit {
                collection,
                volumes,
                drives: drives.into_iter().filter(is_there).collect(),
                resource,
            });
        }
        Ok(units)
    }

    /// The volumes and hot spares of a machine, as far as Hardware documents have any, and those that are enforced, not as
    /// designed, and cannot be made.
    pub(super) async fn raid_values(
        &self,
        node: &NodeDesign,
        raid: &Raid,
        system: &Resource,
    ) -> Result<(HardwareSeen, Vec<FixedValue>), ActError> {
        let enforced = node.enforced_raid();
        let with_drives = enforced.is_some() || raid.hot_spares.is_some();
        let units = self.units(system, with_drives).await?;
        let seen = shown_values(raid, &units);
        let Some(why) = enforced.and_then(|raid| layout(&raid, &units).err()) else {
            return Ok((seen, Vec::new()));
        };
        let differs = node.hardware(Section::Raid).into_iter();
        let differs = differs.filter(|each| seen.get(&each.name) != Some(&each.value));
        let fixed = differs.map(|each| FixedValue {
            name: each.name,
            reason: Arc::from(&*why),
        });
        let fixed = fixed.collect();
        Ok((seen, fixed))
    }

    /// Makes the volumes of a design, unless the machine has them: refused before anything is changed where it cannot.
    ///
    /// The machine is on meanwhile: most storages take volumes only then.
    pub(super) async fn make_volumes(
        &self,
        order: &Order,
        node: &NodeDesign,
        raid: &Raid,
        until: Instant,
    ) -> Result<(), ActError> {
        let units = self.units(&self.read_system().await?, true).await?;
        if is_made(raid, &units) {
            order.reporter.progress("it has its RAID volumes already");
            return Ok(());
        }
        let wanted = layout(raid, &units).map_err(|why| self.permanent(&why))?;
        let mut waits_for_restart = false;
        for placed in &wanted {
            let times = placed.unit.collection.as_ref();
            let times = times.map(apply_times).unwrap_or_default();
            let time = best_time(&times, &TIMES).map_err(|times| {
                self.permanent(&format!("its storage makes volumes only at: {times}"))
            })?;
            waits_for_restart |= time == Some("OnReset");
        }
        self.keep_from_installing(order, node).await?;
        self.switch_on(order, None).await?;
        let mut tried = Tried::default();
        for (volume, shown) in units.iter().flat_map(Unit::real_volumes) {
            let words = format!("deleting RAID volume {} ({shown})", plain(volume.id(), 60));
            order.reporter.progress(words.clone());
            self.changes();
            match self.controller.delete(&volume.path).await? {
                Accepted::Done => {}
                Accepted::Task(task) => {
                    self.follow_update(order, (&words, &task), until, &mut tried)
                        .await?;
                }
            }
        }
        let is_gone = |units: &[Unit]| {
            units
                .iter()
                .all(|unit| unit.real_volumes().next().is_none())
        };
        self.await_volumes(order, (until, waits_for_restart), &tried, is_gone)
            .await?;
        for placed in &wanted {
            self.make_one(order, placed, until, &mut tried).await?;
        }
        let is_as_designed = |units: &[Unit]| is_made(raid, units);
        self.await_volumes(order, (until, waits_for_restart), &tried, is_as_designed)
            .await?;
        order.reporter.progress("its RAID volumes are as designed");
        Ok(())
    }

    async fn make_one(
        &self,
        order: &Order,
        placed: &Placed<'_>,
        until: Instant,
        tried: &mut Tried,
    ) -> Result<(), ActError> {
        let Some(collection) = &placed.unit.collection else {
            return self.refuse("its storage has no collection of volumes");
        };
        let words = format!("making RAID volume {}", placed.volume.name);
        order.reporter.progress(words.clone());
        self.changes();
        let accepted = self
            .controller
            .post(&collection.path, &body(placed, collection))
            .await?;
        if let Accepted::Task(task) = accepted {
            self.follow_update(order, (&words, &task), until, tried)
                .await?;
        }
        Ok(())
    }

    /// Reads the storages until they are as they should be; where they are not by then, and something waits for it, it is
    /// restarted once.
    async fn await_volumes(
        &self,
        order: &Order,
        (until, waits_for_restart): (Instant, bool),
        tried: &Tried,
        is_so: impl Fn(&[Unit]) -> bool,
    ) -> Result<(), ActError> {
        let settling = self.backend.settings.settling;
        if waits_for_restart && !is_so(&self.units(&self.sample().await?, true).await?) {
            self.switch_off(order, Duration::ZERO).await?;
            self.switch_on(order, None).await?;
        }
        let until = until.min(Instant::now() + self.backend.settings.deploy.boot_time);
        let mut level = Twice::default();
        loop {
            let is_over = Instant::now() >= until;
            let read = async { self.units(&self.sample().await?, true).await };
            match read.await {
                Ok(units) => match level.look(is_so(&units)) {
                    Level::Holds => return Ok(()),
                    Level::NotSeen | Level::Left if is_over => {
                        let shown = units.iter().flat_map(Unit::real_volumes);
                        let shown: Vec<String> =
                            shown.map(|(_, shown)| shown.to_string()).collect();
                        let mut shown = match shown.is_empty() {
                            true => "no RAID volume".to_owned(),
                            false => shown.join("; "),
                        };
                        if let Some(spares) = spares(&units) {
                            let _ = write!(
                                shown,
                                ", and {}",
                                counted(spares, "hot spare", "hot spares")
                            );
                        }
                        let reports = match tried.reports.is_empty() {
                            true => String::new(),
                            false => format!(" ({})", tried.reports.join("; ")),
                        };
                        return self.refuse(&format!(
                            "its storage shows {shown} after its volumes were to be made, and no system was written{reports}"
                        ));
                    }
                    Level::NotSeen | Level::SeenOnce | Level::Left => {}
                },
                Err(ActError::Passing(text) | ActError::Ambiguous(text)) if !is_over => {
                    order.reporter.progress(text.to_string());
                }
                Err(error) => return Err(error),
            }
            sleep(settling.clamp(Duration::from_millis(100), Duration::from_secs(10))).await;
        }
    }
}

/// The times at which a collection makes what is added.
fn apply_times(collection: &Resource) -> Vec<&str> {
    collection.texts("/@Redfish.OperationApplyTimeSupport/SupportedValues")
}

/// The request for a volume.
fn body(placed: &Placed<'_>, collection: &Resource) -> Value {
    let links = |drives: &[&Resource]| {
        let links = drives
            .iter()
            .map(|drive| json!({"@odata.id": &*drive.path}));
        Value::Array(links.collect())
    };
    let volume = placed.volume;
    let mut body = Map::new();
    body.insert("Name".to_owned(), json!(volume.name));
    body.insert("RAIDType".to_owned(), json!(volume.level.as_str()));
    if let Some(size) = volume.size_gib {
        body.insert("CapacityBytes".to_owned(), json!(size.saturating_mul(GIB)));
    }
    let mut own = Map::new();
    own.insert("Drives".to_owned(), links(&placed.drives));
    if !placed.spares.is_empty() {
        own.insert("DedicatedSpareDrives".to_owned(), links(&placed.spares));
    }
    body.insert("Links".to_owned(), Value::Object(own));
    if let Ok(Some(time)) = best_time(&apply_times(collection), &TIMES) {
        body.insert("@Redfish.OperationApplyTime".to_owned(), json!(time));
    }
    Value::Object(body)
}

/// A volume as it is compared; `None`: it is a drive that is passed through.
fn shown_volume(unit: &Resource, volume: &Resource) -> Option<ShownVolume> {
    let level = match (volume.text("/RAIDType"), volume.text("/VolumeType")) {
        (Some("None"), _) | (None, None | Some("RawDevice")) => return None,
        (Some(level), _) => level,
        // Controllers of before `RAIDType`.
        (None, Some(kind)) => match kind {
            "NonRedundant" => RaidLevel::Raid0.as_str(),
            "Mirrored" => RaidLevel::Raid1.as_str(),
            "StripedWithParity" => RaidLevel::Raid5.as_str(),
            "SpannedMirrors" => RaidLevel::Raid10.as_str(),
            "SpannedStripesWithParity" => RaidLevel::Raid50.as_str(),
            other => other,
        },
    };
    let drives = volume.links("/Links/Drives");
    let drives = drives.iter().map(|path| Arc::from(plain(last(path), 100)));
    let drives: Arc<[Arc<str>]> = drives.collect();
    let size = volume.number("/CapacityBytes");
    Some(ShownVolume {
        level: Some(Arc::from(plain(level, 40))),
        drives: (!drives.is_empty()).then_some(RaidDrives::Named(drives)),
        size_gib: size.map(|bytes| (bytes.saturating_add(GIB / 2)) / GIB),
        controller: Some(Arc::from(plain(unit.id(), 100))),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(path: &str, value: Value) -> Resource {
        Resource {
            value,
            path: Arc::from(path),
            etag: None,
        }
    }

    #[test]
    fn a_volume_is_read_from_its_level_and_a_drive_that_is_passed_through_is_none() {
        let drives = |names: &[&str]| {
            let links = names
                .iter()
                .map(|name| json!({"@odata.id": format!("/redfish/v1/Drives/{name}")}));
            json!({"Drives": links.collect::<Vec<_>>()})
        };
        let table = [
            (
                json!({"RAIDType": "RAID1", "CapacityBytes": 479_559_942_144_u64, "Links": drives(&["A", "B"])}),
                Some("RAID1 of A + B, 447 GiB, on R0"),
            ),
            (
                json!({"VolumeType": "StripedWithParity"}),
                Some("RAID5, on R0"),
            ),
            (
                json!({"RAIDType": null, "VolumeType": "Mirrored", "Links": {"Drives": "x"}}),
                Some("RAID1, on R0"),
            ),
            (
                json!({"RAIDType": "RAID1E", "VolumeType": "Mirrored"}),
                Some("RAID1E, on R0"),
            ),
            (json!({"VolumeType": "RawDevice"}), None),
            (json!({"RAIDType": "None", "Links": drives(&["A"])}), None),
            (json!({"RAIDType": 7}), None),
        ];
        let unit = resource("/redfish/v1/Systems/1/Storage/R0", json!({"Id": "R0"}));
        for (value, expected) in table {
            let shown = shown_volume(&unit, &resource("/v", value));
            let shown = shown.map(|volume| volume.to_string());
            assert_eq!(shown.as_deref(), expected);
        }
    }
}
