//! Disks of a deployed machine that are otherwise than its design: file systems by where they are mounted, and volume
//! groups by what they are made of.

use std::collections::BTreeMap;

use super::{Disk, Disks, Piece};
use crate::backend::hardware::maas::machine::Machine;
use crate::backend::hardware::maas::shown::{Block, FileSystem, GroupDevice, drift_of, listed};
use crate::backend::http::plain;
use crate::design::{Section, Size};
use crate::observed::PartDrift;

/// Where MAAS mounts what a machine with UEFI boots from, whatever the design has.
const EFI: &str = "/boot/efi";

/// A file system of a design, and what it is on.
struct Wanted<'a> {
    piece: &'a Piece,
    kind: &'a str,
    on: String,
    /// The size of the disk or volume group that it has a share of.
    whole: u64,
}

/// A file system that MAAS has.
struct Found<'a> {
    kind: &'a str,
    on: String,
    size: u64,
}

impl Disks {
    /// The parts of a machine's disks that differ.
    pub(in super::super) fn drift(&self, machine: &Machine) -> Vec<PartDrift> {
        let mut drift = Vec::new();
        // It was added to MAAS as deployed, and never commissioned: nothing is known of its disks.
        if machine.physicalblockdevice_set.is_empty() {
            return drift;
        }
        let placed = self.known(machine, &mut drift);
        let (wanted, found) = (self.wanted(machine, &placed), found(machine));
        for (at, wanted) in &wanted {
            let of = format!("file system `{at}`");
            match found.get(at) {
                None => drift.push(part(of, "none", described(wanted.kind, &wanted.on))),
                Some(found) => wanted.differs(&of, found, &mut drift),
            }
        }
        let surplus = |at: &&String| !wanted.contains_key(*at) && at.as_str() != EFI;
        for at in found.keys().filter(surplus) {
            let found = &found[at];
            let of = format!("file system `{}`", plain(at, 120));
            drift.push(part(of, described(found.kind, &found.on), "none"));
        }
        self.groups_drift(machine, &placed, &mut drift);
        let boots = placed.iter().find(|(disk, _)| disk.boots);
        if let (Some((_, meant)), Some(is)) = (boots, machine.boot_disk)
            && meant.id != is.id
        {
            let mut blocks = machine.physicalblockdevice_set.iter();
            let is = blocks.find(|block| block.id == is.id);
            drift.push(part(
                "boot disk",
                is.map_or_else(|| "unknown".to_owned(), name_of),
                name_of(meant),
            ));
        }
        if machine.has_arrays() {
            drift.push(part("RAID and bcache", "some", "none"));
        }
        drift
    }

    /// The disks that the machine has; those that it lacks differ.
    fn known<'a>(
        &'a self,
        machine: &'a Machine,
        drift: &mut Vec<PartDrift>,
    ) -> Vec<(&'a Disk, &'a Block)> {
        let boot_disk = machine.boot_disk.map(|disk| disk.id);
        let mut placed = Vec::new();
        for disk in &self.disks {
            let mut blocks = machine.physicalblockdevice_set.iter();
            let is_it = |block: &&Block| match &disk.name {
                Some(name) => block.name == *name,
                None => Some(block.id) == boot_disk,
            };
            match (blocks.find(is_it), &disk.name) {
                (Some(block), _) => placed.push((disk, block)),
                (None, Some(name)) => {
                    drift.push(part(format!("disk `{name}`"), "not found", "in use"));
                }
                (None, None) => drift.push(part("boot disk", "not found", "in use")),
            }
        }
        placed
    }

    /// The file systems of the design, by where they are mounted.
    fn wanted<'a>(
        &'a self,
        machine: &Machine,
        placed: &[(&'a Disk, &'a Block)],
    ) -> BTreeMap<String, Wanted<'a>> {
        let on_disks = placed.iter().flat_map(|(disk, block)| {
            let pieces = disk.partitions.iter();
            pieces.map(|piece| (piece, name_of(block), block.size))
        });
        let in_groups = self.groups.iter().flat_map(|group| {
            let mut shown = machine.volume_groups.iter();
            let whole = shown.find(|shown| shown.name == group.name);
            let whole = whole.map_or(0, |shown| shown.size);
            let of = move |piece: &Piece| format!("volume `{}` of `{}`", piece.name, group.name);
            let pieces = group.volumes.iter();
            pieces.map(move |piece| (piece, of(piece), whole))
        });
        let mounted = on_disks.chain(in_groups).filter_map(|(piece, on, whole)| {
            let system = piece.file_system.as_ref()?;
            let at = key(&system.kind, system.at.as_deref()?);
            let kind = &*system.kind;
            Some((
                at,
                Wanted {
                    piece,
                    kind,
                    on,
                    whole,
                },
            ))
        });
        mounted.collect()
    }

    fn groups_drift(
        &self,
        machine: &Machine,
        placed: &[(&Disk, &Block)],
        drift: &mut Vec<PartDrift>,
    ) {
        for group in &self.groups {
            let wanted = placed.iter().flat_map(|(disk, block)| {
                let whole = (disk.group.as_ref() == Some(&group.name)).then(|| name_of(block));
                let parts = disk.partitions.iter();
                let parts = parts.filter(|piece| piece.group.as_ref() == Some(&group.name));
                whole.into_iter().chain(parts.map(|_| part_of(block)))
            });
            let wanted = listed(wanted.collect());
            let mut shown = machine.volume_groups.iter();
            let found = shown.find(|shown| shown.name == group.name);
            let found = found.map(|found| {
                listed(
                    found
                        .devices
                        .iter()
                        .map(|each| device_of(machine, each))
                        .collect(),
                )
            });
            let of = format!("disks of the volume group `{}`", group.name);
            match found {
                None => drift.push(part(of, "none", wanted)),
                Some(found) if found != wanted => drift.push(part(of, found, wanted)),
                Some(_) => {}
            }
        }
        let is_designed = |name: &str| self.groups.iter().any(|group| *group.name == *name);
        let surplus = machine.volume_groups.iter();
        for group in surplus.filter(|group| !is_designed(&group.name)) {
            let of = format!("disks of the volume group `{}`", plain(&group.name, 120));
            let found = group.devices.iter().map(|each| device_of(machine, each));
            drift.push(part(of, listed(found.collect()), "none"));
        }
    }
}

impl Wanted<'_> {
    fn differs(&self, of: &str, found: &Found<'_>, drift: &mut Vec<PartDrift>) {
        if self.kind != found.kind {
            drift.push(part(
                format!("kind of the {of}"),
                plain(found.kind, 40),
                self.kind,
            ));
        }
        if self.on != found.on {
            drift.push(part(format!("place of the {of}"), &*found.on, &*self.on));
        }
        if !self.piece.has_size(found.size, self.whole) {
            drift.push(part(
                format!("size of the {of}"),
                in_units(found.size),
                self.size(),
            ));
        }
    }

    fn size(&self) -> String {
        match self.piece.size {
            Size::Bytes(bytes) => in_units(bytes),
            Size::AtLeast(bytes) => format!("at least {}", in_units(bytes)),
            Size::Percent(percent) => format!("{percent}% of {}", in_units(self.whole)),
        }
    }
}

/// The mounted file systems that MAAS has, by where.
fn found(machine: &Machine) -> BTreeMap<String, Found<'_>> {
    let disks = machine.physicalblockdevice_set.iter().flat_map(|block| {
        let parts = block.partitions.iter();
        let parts = parts.map(|part| (part.filesystem.as_ref(), name_of(block), part.size));
        let whole = (block.filesystem.as_ref(), name_of(block), block.size);
        std::iter::once(whole).chain(parts)
    });
    let groups = machine.volume_groups.iter().flat_map(|group| {
        group.logical_volumes.iter().map(|volume| {
            let short = volume.name.strip_prefix(&*format!("{}-", group.name));
            let short = plain(short.unwrap_or(&volume.name), 120);
            let on = format!("volume `{short}` of `{}`", plain(&group.name, 120));
            (volume.filesystem.as_ref(), on, volume.size)
        })
    });
    let mounted = disks.chain(groups).filter_map(|(system, on, size)| {
        let FileSystem {
            fstype,
            mount_point,
        } = system?;
        let is_mounted = !mount_point.is_empty() || &**fstype == "swap";
        let kind = &**fstype;
        is_mounted.then(|| (key(fstype, mount_point), Found { kind, on, size }))
    });
    mounted.collect()
}

/// By what a file system is known: if it is mounted, or that it is for swapping.
fn key(kind: &str, at: &str) -> String {
    match kind {
        "swap" => "swap".to_owned(),
        _ => at.to_owned(),
    }
}

fn name_of(block: &Block) -> String {
    format!("`{}`", plain(&block.name, 120))
}

fn part_of(block: &Block) -> String {
    format!("a partition of {}", name_of(block))
}

/// A disk or partition that a volume group is made of.
fn device_of(machine: &Machine, device: &GroupDevice) -> String {
    let mut blocks = machine.physicalblockdevice_set.iter();
    let found = match &*device.kind {
        "partition" => {
            let has = |block: &&Block| block.partitions.iter().any(|part| part.id == device.id);
            blocks.find(has).map(part_of)
        }
        _ => blocks.find(|block| block.id == device.id).map(name_of),
    };
    found.unwrap_or_else(|| "another device".to_owned())
}

fn described(kind: &str, on: &str) -> String {
    format!("{} on {on}", plain(kind, 40))
}

fn part(
    field: impl Into<String>,
    observed: impl Into<String>,
    designed: impl Into<String>,
) -> PartDrift {
    drift_of(Section::Storage, field, observed, designed)
}

/// A size in the largest unit that keeps a digit behind the point.
fn in_units(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)];
    let unit = UNITS.into_iter().find(|(_, unit)| bytes >= *unit);
    match unit {
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}
