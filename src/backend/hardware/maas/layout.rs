//! A layout of disks that MAAS makes by itself: the root on a partition (`flat`) or on a logical volume (`lvm`).
//!
//! MAAS adds what the machine boots from, as its firmware needs it.

use std::sync::Arc;

use super::change::{Area, Change, field};
use super::machine::Machine;
use super::shown::{Block, FileSystem, GroupDevice};

/// How much a size may differ by rounding.
const ROUNDED: u64 = 8 << 20;

/// How the disks of a machine are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The volume group and the logical volume of the root file system, if it is on one.
    pub(super) volume: Option<(Arc<str>, Arc<str>)>,
    /// Sizes in bytes, if they are given exactly.
    pub(super) root_size: Option<u64>,
    pub(super) boot_size: Option<u64>,
    /// The disk of the operating system, by its name; `None`: the one that MAAS boots from.
    pub(super) disk: Option<Arc<str>>,
}

impl Layout {
    /// The request that sets it on a machine; `None`: it has it.
    ///
    /// # Errors
    ///
    /// The machine has no such disk.
    pub(super) fn next(&self, machine: &Machine) -> Result<Option<Change>, String> {
        let disk = self.disk(machine)?;
        if self.is_on(machine, disk) {
            return Ok(None);
        }
        let (layout, root) = match self.volume {
            Some(_) => ("lvm", "lv_size"),
            None => ("flat", "root_size"),
        };
        let mut fields = vec![field("storage_layout", layout)];
        if let Some((group, volume)) = &self.volume {
            fields.push(field("vg_name", group.to_string()));
            fields.push(field("lv_name", volume.to_string()));
        }
        for (name, size) in [(root, self.root_size), ("boot_size", self.boot_size)] {
            if let Some(size) = size {
                fields.push(field(name, size.to_string()));
            }
        }
        if let Some(disk) = disk {
            fields.push(field("root_device", disk.id.to_string()));
        }
        let rest = "?op=set_storage_layout";
        let said = "laying out its disks";
        Ok(Some(Change::post(said, Area::Machine, rest, fields)))
    }

    fn disk<'a>(&self, machine: &'a Machine) -> Result<Option<&'a Block>, String> {
        let Some(disk) = &self.disk else {
            return Ok(None);
        };
        let blocks = &machine.physicalblockdevice_set;
        let found = blocks.iter().find(|block| block.name == *disk);
        found.map(Some).ok_or_else(|| {
            let names: Vec<&str> = blocks.iter().map(|block| &*block.name).collect();
            format!(
                "MAAS has no disk `{disk}` of it; it has: {}",
                names.join(", ")
            )
        })
    }

    /// Whether a machine has this layout, and nothing besides.
    fn is_on(&self, machine: &Machine, disk: Option<&Block>) -> bool {
        let own = |system: &&FileSystem| !system.mount_point.is_empty();
        let mounts = machine.file_systems().filter(own);
        let mut mounts: Vec<&str> = mounts.map(|system| &*system.mount_point).collect();
        mounts.retain(|at| *at != "/boot/efi");
        mounts.sort_unstable();
        let expected: &[&str] = match self.boot_size {
            Some(_) => &["/", "/boot"],
            None => &["/"],
        };
        let boot_disk = machine.boot_disk.map(|disk| disk.id);
        let blocks = machine.physicalblockdevice_set.iter();
        let (used, others): (Vec<&Block>, Vec<&Block>) = blocks.partition(|block| {
            let id = disk.map(|disk| disk.id).or(boot_disk);
            id.is_none() || id == Some(block.id)
        });
        let is_free = |block: &&Block| block.partitions.is_empty() && block.filesystem.is_none();
        let is_at = |system: Option<&FileSystem>, at: &str| {
            system.is_some_and(|system| &*system.mount_point == at && &*system.fstype == "ext4")
        };
        let part_at = |at: &str| {
            let mut parts = used.iter().flat_map(|block| &block.partitions);
            let part = parts.find(|part| is_at(part.filesystem.as_ref(), at));
            part.map(|part| part.size)
        };
        let is_part = |device: &GroupDevice| {
            let mut parts = used.iter().flat_map(|block| &block.partitions);
            &*device.kind == "partition" && parts.any(|part| part.id == device.id)
        };
        let root = match &self.volume {
            None if machine.volume_groups.is_empty() => part_at("/"),
            Some((group, volume)) => match &machine.volume_groups[..] {
                [only] if only.name == *group && only.devices.iter().all(is_part) => {
                    let found = only.volume(volume);
                    let found = found.filter(|found| is_at(found.filesystem.as_ref(), "/"));
                    found.map(|found| found.size)
                }
                _ => None,
            },
            None => None,
        };
        let has = |size: Option<u64>, wanted: Option<u64>| {
            size.is_some_and(|size| wanted.is_none_or(|wanted| size.abs_diff(wanted) <= ROUNDED))
        };
        !machine.has_arrays()
            && mounts == expected
            && others.iter().all(is_free)
            && has(root, self.root_size)
            && (self.boot_size.is_none() || has(part_at("/boot"), self.boot_size))
    }
}
