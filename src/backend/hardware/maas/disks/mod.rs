//! Disks as a design lays them out, one request at a time.
//!
//! What MAAS has is compared with the design first: what is right stays, what is missing is made, and if anything is
//! otherwise all disks are laid out anew. So a step can be begun again at any point, and a second one asks for nothing.

mod drift;

use std::sync::Arc;

use super::change::{Area, Change, Fields, field};
use super::machine::Machine;
use super::shown::{self, Block, GroupDevice, VolumeGroup};
use crate::backend::hardware::payload::{self, RootDevice, root_device, text};
use crate::design::{NodeDesign, Section, Size};
use crate::document::{Map, Node};

/// The unit to which MAAS rounds what it makes.
const UNIT: u64 = 4 << 20;
/// How much a size may differ by rounding: the unit at both ends.
const ROUNDED: u64 = 2 * UNIT;
/// The partition that a machine with UEFI boots from, as MAAS makes it.
const EFI: u64 = 512 << 20;
/// The kind of file system of a part of a volume group.
const PART_OF_GROUP: &str = "lvm-pv";

/// Disks, partitions and volume groups of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disks {
    disks: Vec<Disk>,
    groups: Vec<Group>,
}

/// A disk of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Disk {
    /// Its name; `None`: the one that MAAS boots from.
    name: Option<Arc<str>>,
    /// Whether the machine boots from it.
    boots: bool,
    /// The volume group that it is in, whole.
    group: Option<Arc<str>>,
    partitions: Vec<Piece>,
}

/// A volume group of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: Arc<str>,
    volumes: Vec<Piece>,
}

/// A partition or logical volume of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    name: Arc<str>,
    size: Size,
    /// The volume group that it is in.
    group: Option<Arc<str>>,
    file_system: Option<Wanted>,
}

/// A file system of a design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    kind: Arc<str>,
    at: Option<Arc<str>>,
    options: Option<Arc<str>>,
    label: Option<Arc<str>>,
    uuid: Option<Arc<str>>,
}

impl Disks {
    /// The disks of a node's design.
    ///
    /// # Errors
    ///
    /// Why MAAS cannot lay them out.
    pub(super) fn of(node: &NodeDesign) -> Result<Option<Self>, String> {
        let Some(storage) = payload::field(node, Section::Storage, &["storage"]) else {
            return Ok(None);
        };
        let mut disks = Vec::new();
        for (name, device) in entries(storage, "physical_devices") {
            disks.push(Disk::read(node, name, device)?);
        }
        let mut groups = Vec::new();
        for (name, group) in entries(storage, "volume_groups") {
            groups.push(Group {
                name: name.clone(),
                volumes: pieces(group, "logical_volumes")?,
            });
        }
        Ok((!disks.is_empty()).then_some(Self { disks, groups }))
    }

    /// The next request that brings a machine's disks to the design; `None`: they are as it has them.
    ///
    /// # Errors
    ///
    /// The machine has no such disk, or not so much space.
    pub(super) fn next(&self, machine: &Machine) -> Result<Option<Change>, String> {
        let placed = self.placed(machine)?;
        if !self.fits(machine, &placed) {
            let fields = vec![field("storage_layout", "blank")];
            let said = "clearing its disks, which are laid out otherwise";
            return Ok(Some(Change::post(
                said,
                Area::Machine,
                "?op=set_storage_layout",
                fields,
            )));
        }
        for (disk, block) in &placed {
            let boots_from = machine.boot_disk.map(|disk| disk.id);
            if disk.boots && boots_from.is_some_and(|id| id != block.id) {
                let rest = format!("blockdevices/{}/?op=set_boot_disk", block.id);
                let said = format!("booting from disk `{}`", block.name);
                return Ok(Some(Change::post(said, Area::Node, rest, Vec::new())));
            }
        }
        for (disk, block) in &placed {
            if let Some(change) = next_partition(disk, block)? {
                return Ok(Some(change));
            }
        }
        for group in &self.groups {
            if let Some(change) = next_of_group(group, machine, &placed)? {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    /// The disks of the machine that are meant, each with its design; a machine with UEFI gets what it boots from.
    fn placed<'a>(&self, machine: &'a Machine) -> Result<Vec<(Disk, &'a Block)>, String> {
        let blocks = &machine.physicalblockdevice_set;
        let boot_disk = machine.boot_disk.map(|disk| disk.id);
        let mut placed = Vec::new();
        for disk in &self.disks {
            let is_it = |block: &&Block| match &disk.name {
                Some(name) => block.name == *name,
                None => Some(block.id) == boot_disk,
            };
            let block = blocks.iter().find(is_it).ok_or_else(|| {
                let names: Vec<&str> = blocks.iter().map(|block| &*block.name).collect();
                let name = disk.name.as_deref().unwrap_or("to boot from");
                format!(
                    "MAAS has no disk `{name}` of it; it has: {}",
                    names.join(", ")
                )
            })?;
            placed.push((disk.clone(), block));
        }
        let has_efi = placed
            .iter()
            .any(|(disk, _)| disk.partitions.iter().any(|part| part.is_at("/boot/efi")));
        if machine.is_uefi() && !has_efi {
            let boots = |(disk, block): &&mut (Disk, &Block)| {
                disk.group.is_none() && (disk.boots || Some(block.id) == boot_disk)
            };
            if let Some((disk, _)) = placed.iter_mut().find(boots) {
                disk.partitions.insert(0, Piece::efi());
            }
        }
        Ok(placed)
    }

    /// Whether everything that MAAS has for the machine's disks is a part of the design.
    fn fits(&self, machine: &Machine, placed: &[(Disk, &Block)]) -> bool {
        let disk_fits = |block: &Block| {
            let found = placed.iter().find(|(_, meant)| meant.id == block.id);
            match found {
                None => block.partitions.is_empty() && block.filesystem.is_none(),
                Some((disk, _)) => disk.fits(block),
            }
        };
        let group_fits = |shown: &VolumeGroup| {
            let mut groups = self.groups.iter();
            let Some(group) = groups.find(|group| group.name == shown.name) else {
                return false;
            };
            let mut devices = shown.devices.clone();
            devices.sort_unstable();
            let volumes = |volume: &Block| {
                let named = |piece: &&Piece| {
                    shown.volume(&piece.name).map(|found| found.id) == Some(volume.id)
                };
                let piece = group.volumes.iter().find(named);
                piece.is_some_and(|piece| {
                    piece.fits(volume.size, volume.filesystem.as_ref(), shown.size)
                })
            };
            devices_of(&group.name, placed) == Some(devices)
                && shown.logical_volumes.iter().all(volumes)
        };
        !machine.has_arrays()
            && machine.physicalblockdevice_set.iter().all(disk_fits)
            && machine.volume_groups.iter().all(group_fits)
    }

    /// The layout of MAAS's own that is all of this design; `None`: it is more.
    pub(super) fn as_layout(&self) -> Option<super::layout::Layout> {
        let [disk] = &self.disks[..] else { return None };
        let plain = |piece: &Piece| {
            let system = piece.file_system.as_ref();
            system.is_some_and(Wanted::is_plain) && !matches!(piece.size, Size::Percent(_))
        };
        let exact = |piece: &Piece| match piece.size {
            Size::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        let (mut boot, mut root, mut part) = (None, None, None);
        for piece in &disk.partitions {
            match () {
                () if piece.is_at("/boot") && plain(piece) && exact(piece).is_some() => {
                    boot = exact(piece);
                }
                () if piece.is_at("/") && plain(piece) => root = Some(piece),
                () if piece.group.is_some() && matches!(piece.size, Size::AtLeast(_)) => {
                    part = piece.group.as_ref();
                }
                () => return None,
            }
        }
        let on = disk.name.clone();
        match (&self.groups[..], root, part.or(disk.group.as_ref())) {
            ([], Some(root), None) => Some(super::layout::Layout {
                volume: None,
                root_size: exact(root),
                boot_size: boot,
                disk: on,
            }),
            ([group], None, Some(name)) if group.name == *name => {
                let [root] = &group.volumes[..] else {
                    return None;
                };
                let is_root = root.is_at("/") && plain(root);
                is_root.then(|| super::layout::Layout {
                    volume: Some((group.name.clone(), root.name.clone())),
                    root_size: exact(root),
                    boot_size: boot,
                    disk: on,
                })
            }
            _ => None,
        }
    }

    /// Whether a file system of it is the root.
    pub(super) fn has_root(&self) -> bool {
        let parts = self.disks.iter().flat_map(|disk| &disk.partitions);
        let volumes = self.groups.iter().flat_map(|group| &group.volumes);
        parts.chain(volumes).any(|piece| piece.is_at("/"))
    }

    /// Whether it is left to MAAS from which disk the machine boots.
    pub(super) fn boots_from_any(&self) -> bool {
        self.disks.iter().any(|disk| disk.name.is_none())
    }

    /// The file systems that MAAS cannot make.
    pub(super) fn unsupported(&self) -> Vec<Arc<str>> {
        let parts = self.disks.iter().flat_map(|disk| &disk.partitions);
        let volumes = self.groups.iter().flat_map(|group| &group.volumes);
        let kinds = parts
            .chain(volumes)
            .filter_map(|piece| Some(piece.file_system.as_ref()?.kind.clone()));
        let mut kinds: Vec<_> = kinds.filter(|kind| !KINDS.contains(&&**kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// The file systems that MAAS makes.
const KINDS: &[&str] = &["ext4", "ext2", "xfs", "btrfs", "fat32", "swap"];

impl Disk {
    fn read(node: &NodeDesign, name: &Arc<str>, device: &Node) -> Result<Self, String> {
        let boots = device.at(&["labels", "bootdrive"]).and_then(Node::as_str) == Some("true");
        let alias = ["hardware_profile", "device_aliases", name];
        let is_alias = payload::field(node, Section::Hardware, &alias).is_some();
        let known = match (boots, root_device(node)) {
            (true, Some(RootDevice::Name(name))) => {
                Some(Arc::from(name.trim_start_matches("/dev/")))
            }
            (true, _) => None,
            (false, _) if is_alias => {
                return Err(format!(
                    "the disk `{name}`, which MAAS does not know by its address on a bus: the disks stay as MAAS lays them out"
                ));
            }
            (false, _) => Some(Arc::from(name.trim_start_matches("/dev/"))),
        };
        Ok(Self {
            name: known,
            boots,
            group: text(device, "volume_group"),
            partitions: pieces(device, "partitions")?,
        })
    }

    /// Whether all that MAAS has on the disk is a part of its design.
    fn fits(&self, block: &Block) -> bool {
        let is_part = |system: &shown::FileSystem| &*system.fstype == PART_OF_GROUP;
        if self.group.is_some() {
            return block.partitions.is_empty() && block.filesystem.iter().all(is_part);
        }
        let wanted = self.partitions.iter();
        let mut pairs = block.partitions.iter().zip(wanted);
        block.filesystem.is_none()
            && block.partitions.len() <= self.partitions.len()
            && pairs
                .all(|(part, piece)| piece.fits(part.size, part.filesystem.as_ref(), block.size))
    }
}

impl Piece {
    fn efi() -> Self {
        Self {
            name: Arc::from("efi"),
            size: Size::Bytes(EFI),
            group: None,
            file_system: Some(Wanted {
                kind: Arc::from("fat32"),
                at: Some(Arc::from("/boot/efi")),
                label: Some(Arc::from("efi")),
                ..Wanted::default()
            }),
        }
    }

    fn is_at(&self, place: &str) -> bool {
        let at = self
            .file_system
            .as_ref()
            .and_then(|each| each.at.as_deref());
        at == Some(place)
    }

    /// Whether what MAAS has is this, or becomes it without being made anew; `whole`: the size of its disk or group.
    fn fits(&self, size: u64, system: Option<&shown::FileSystem>, whole: u64) -> bool {
        let has_system = match (system, &self.file_system, &self.group) {
            (None, ..) => true,
            (Some(system), _, Some(_)) => &*system.fstype == PART_OF_GROUP,
            (Some(system), Some(wanted), None) => {
                let is_unmounted = system.mount_point.is_empty();
                let at = wanted.at.as_deref().unwrap_or_default();
                system.fstype == wanted.kind && (is_unmounted || &*system.mount_point == at)
            }
            (Some(_), None, None) => false,
        };
        self.has_size(size, whole) && has_system
    }

    /// Whether a size is its own; `whole`: the size of its disk or group.
    fn has_size(&self, size: u64, whole: u64) -> bool {
        match self.size {
            Size::Bytes(bytes) => size.abs_diff(bytes) <= ROUNDED,
            Size::AtLeast(bytes) => size.saturating_add(ROUNDED) >= bytes,
            // As much as was left, if that was less.
            Size::Percent(percent) => {
                let wanted = share(whole, percent);
                size <= wanted + ROUNDED && size + whole / 50 + ROUNDED >= wanted
            }
        }
    }

    /// The bytes to ask for; `None`: all that is left, which nothing else needs. `free`: what is left of `whole`, of
    /// which `others` still need some.
    fn bytes(&self, free: u64, whole: u64, others: &[Self]) -> Result<Option<u64>, String> {
        let least = |piece: &Self| match piece.size {
            Size::Bytes(bytes) | Size::AtLeast(bytes) => bytes + UNIT,
            Size::Percent(percent) => share(whole, percent),
        };
        let left = free.saturating_sub(others.iter().map(least).sum());
        let needed = match self.size {
            Size::Bytes(bytes) | Size::AtLeast(bytes) => bytes,
            Size::Percent(percent) => share(whole, percent).saturating_sub(whole / 50),
        };
        if left + ROUNDED < needed {
            return Err(format!(
                "`{}` needs {needed} bytes, and {left} are left for it",
                self.name
            ));
        }
        let bytes = match self.size {
            Size::Bytes(bytes) => Some(bytes),
            Size::AtLeast(_) if others.is_empty() => None,
            Size::AtLeast(_) => Some(left),
            Size::Percent(percent) => Some(share(whole, percent).min(left)),
        };
        Ok(bytes.map(|bytes| bytes / UNIT * UNIT))
    }

    /// The request that makes its file system on what MAAS has, or mounts it.
    fn next(&self, path: &str, system: Option<&shown::FileSystem>) -> Option<Change> {
        let wanted = self.file_system.as_ref()?;
        let name = &self.name;
        if self.group.is_some() {
            return None;
        }
        let put = |fields: &mut Fields<'static>, name: &'static str, value: &Option<Arc<str>>| {
            if let Some(value) = value {
                fields.push(field(name, value.to_string()));
            }
        };
        let Some(system) = system else {
            let mut fields = vec![field("fstype", wanted.kind.to_string())];
            put(&mut fields, "label", &wanted.label);
            put(&mut fields, "uuid", &wanted.uuid);
            let said = format!("making the file system {} on `{name}`", wanted.kind);
            let rest = format!("{path}?op=format");
            return Some(Change::post(said, Area::Node, rest, fields));
        };
        let at = wanted.at.as_deref()?;
        if !system.mount_point.is_empty() {
            return None;
        }
        let mut fields = Vec::new();
        if &*wanted.kind != "swap" {
            fields.push(field("mount_point", at.to_owned()));
        }
        put(&mut fields, "mount_options", &wanted.options);
        let said = format!("mounting `{name}` at {at}");
        let rest = format!("{path}?op=mount");
        Some(Change::post(said, Area::Node, rest, fields))
    }
}

impl Wanted {
    fn read(node: &Node) -> Self {
        let kind = text(node, "fstype").unwrap_or_else(|| Arc::from("ext4"));
        let kind = match &*kind {
            "vfat" | "fat" => Arc::from("fat32"),
            _ => kind,
        };
        let at = match (&*kind, text(node, "mountpoint")) {
            ("swap", _) => Some(Arc::from("none")),
            (_, at) => at,
        };
        let options = text(node, "mount_options").filter(|options| &**options != "defaults");
        Self {
            at,
            options,
            label: text(node, "fs_label"),
            uuid: text(node, "fs_uuid"),
            kind,
        }
    }

    /// Whether it is what MAAS's own layouts make.
    fn is_plain(&self) -> bool {
        let is_bare = self.options.is_none() && self.label.is_none() && self.uuid.is_none();
        &*self.kind == "ext4" && is_bare
    }
}

/// The next request for the partitions of a disk.
fn next_partition(disk: &Disk, block: &Block) -> Result<Option<Change>, String> {
    for (position, piece) in disk.partitions.iter().enumerate() {
        let Some(part) = block.partitions.get(position) else {
            let others = &disk.partitions[position + 1..];
            let bytes = piece.bytes(block.available_size, block.size, others)?;
            let size = bytes.map(|bytes| field("size", bytes.to_string()));
            let said = format!("making partition `{}` of disk `{}`", piece.name, block.name);
            let rest = format!("blockdevices/{}/partitions/", block.id);
            let fields = size.into_iter().collect();
            return Ok(Some(Change::post(said, Area::Node, rest, fields)));
        };
        let path = format!("blockdevices/{}/partition/{}", block.id, part.id);
        let change = piece.next(&path, part.filesystem.as_ref());
        if change.is_some() {
            return Ok(change);
        }
    }
    Ok(None)
}

/// The next request for a volume group, whose disks and partitions are there.
fn next_of_group(
    group: &Group,
    machine: &Machine,
    placed: &[(Disk, &Block)],
) -> Result<Option<Change>, String> {
    let name = &group.name;
    let mut groups = machine.volume_groups.iter();
    let Some(shown) = groups.find(|shown| shown.name == *name) else {
        let devices = devices_of(name, placed).unwrap_or_default();
        let mut fields = vec![field("name", name.to_string())];
        fields.extend(devices.into_iter().map(|device| {
            let kind = match &*device.kind {
                "partition" => "partitions",
                _ => "block_devices",
            };
            field(kind, device.id.to_string())
        }));
        let said = format!("making volume group `{name}`");
        return Ok(Some(Change::post(
            said,
            Area::Node,
            "volume-groups/",
            fields,
        )));
    };
    for (position, piece) in group.volumes.iter().enumerate() {
        let Some(volume) = shown.volume(&piece.name) else {
            let missing = |piece: &&Piece| shown.volume(&piece.name).is_none();
            let others = group.volumes[position + 1..].iter().filter(missing);
            let others: Vec<Piece> = others.cloned().collect();
            let bytes = piece.bytes(shown.available_size, shown.size, &others)?;
            let bytes = bytes.unwrap_or(shown.available_size / UNIT * UNIT);
            let fields = vec![
                field("name", piece.name.to_string()),
                field("size", bytes.to_string()),
            ];
            let said = format!("making volume `{}` of group `{name}`", piece.name);
            let rest = format!("volume-group/{}/?op=create_logical_volume", shown.id);
            return Ok(Some(Change::post(said, Area::Node, rest, fields)));
        };
        let path = format!("blockdevices/{}/", volume.id);
        let change = piece.next(&path, volume.filesystem.as_ref());
        if change.is_some() {
            return Ok(change);
        }
    }
    Ok(None)
}

/// The disks and partitions that a volume group is made of, in order; `None`: a partition is missing.
fn devices_of(group: &Arc<str>, placed: &[(Disk, &Block)]) -> Option<Vec<GroupDevice>> {
    let mut devices = Vec::new();
    for (disk, block) in placed {
        if disk.group.as_ref() == Some(group) {
            devices.push(device("physical", block.id));
        }
        for (position, piece) in disk.partitions.iter().enumerate() {
            if piece.group.as_ref() == Some(group) {
                devices.push(device("partition", block.partitions.get(position)?.id));
            }
        }
    }
    devices.sort_unstable();
    Some(devices)
}

fn device(kind: &str, id: u64) -> GroupDevice {
    GroupDevice {
        kind: Arc::from(kind),
        id,
    }
}

/// The partitions or logical volumes of a disk or group.
fn pieces(node: &Node, list: &str) -> Result<Vec<Piece>, String> {
    let all = node.get(list).and_then(Node::as_list).unwrap_or_default();
    let piece = |node: &Node| {
        let name = text(node, "name").unwrap_or_default();
        let size = node.get("size").and_then(Node::scalar_text);
        let size = size
            .as_deref()
            .and_then(Size::parse)
            .ok_or_else(|| format!("`{name}` has no size: the disks stay as MAAS lays them out"))?;
        let system = node.get("filesystem").filter(|node| !node.is_null());
        Ok(Piece {
            size,
            group: text(node, "volume_group"),
            file_system: system.map(Wanted::read),
            name,
        })
    };
    all.iter().map(piece).collect()
}

fn entries<'a>(
    node: &'a Node,
    name: &str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Node)> + use<'a> {
    let map = node.get(name).and_then(Node::as_map);
    let all = map.into_iter().flat_map(Map::iter);
    all.map(|(name, field)| (&name.text, &field.node))
}

fn share(whole: u64, percent: u64) -> u64 {
    whole / 100 * percent.min(100)
}
