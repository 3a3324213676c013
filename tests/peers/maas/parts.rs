//! Disks and interfaces of a machine of the stand-in, and the requests that change them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answers::{json_of, text};
use super::region::{State, Wrong, mac_of};
use super::rules;
use super::serve::{Answer, Received};

pub(super) const BASE: &str = "/MAAS/api/2.0/";
/// Everything is a multiple of it.
pub(super) const UNIT: u64 = 4 << 20;
/// The subnets of the region: id, address range, VLAN, its number, gateway.
pub(super) const SUBNETS: &[(u64, &str, u64, u16, Option<&str>)] = &[
    (1, "10.20.0.0/24", 1, 0, Some("10.20.0.1")),
    (2, "10.30.0.0/24", 2, 20, None),
    (3, "10.40.0.0/24", 3, 30, None),
    (4, "10.50.0.0/24", 4, 0, None),
];
const SYSTEMS: &[&str] = &["ext4", "ext2", "xfs", "btrfs", "fat32", "swap"];

/// A file system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileSystem {
    pub(super) kind: String,
    pub(super) at: Option<String>,
    pub(super) options: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Partition {
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) system: Option<FileSystem>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Disk {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) system: Option<FileSystem>,
    pub(super) partitions: Vec<Partition>,
}

impl Disk {
    pub(super) fn free(&self) -> u64 {
        let used: u64 = self.partitions.iter().map(|part| part.size).sum();
        (self.size / UNIT * UNIT).saturating_sub(used + 2 * UNIT)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Volume {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) system: Option<FileSystem>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) devices: Vec<(&'static str, u64)>,
    pub(super) size: u64,
    pub(super) volumes: Vec<Volume>,
}

impl Group {
    pub(super) fn free(&self) -> u64 {
        let used: u64 = self.volumes.iter().map(|volume| volume.size).sum();
        self.size.saturating_sub(used)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) mode: String,
    pub(super) subnet: u64,
    pub(super) address: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) mac: String,
    pub(super) parents: Vec<u64>,
    pub(super) vlan: Option<u64>,
    pub(super) links: Vec<Link>,
    pub(super) params: BTreeMap<String, String>,
}

/// The disks and interfaces of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) disks: Vec<Disk>,
    pub(super) groups: Vec<Group>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) boot: u64,
    pub(super) is_uefi: bool,
    pub(super) gateway: Option<u64>,
    last: u64,
}

fn vlan_of(subnet: u64) -> u64 {
    SUBNETS.iter().find(|each| each.0 == subnet).unwrap().2
}

pub(super) fn fabric_of(vlan: u64) -> u64 {
    u64::from(vlan == 4)
}

pub(super) fn vid_of(vlan: u64) -> u16 {
    SUBNETS.iter().find(|each| each.2 == vlan).unwrap().3
}

fn refused(name: &str, why: &str) -> Answer {
    json_of(400, &json!({name: [why]}))
}

impl Parts {
    pub(super) fn new(id: &str) -> Self {
        let disk = |(number, name, size): (u64, &str, u64)| Disk {
            id: number,
            name: name.to_owned(),
            size,
            system: None,
            partitions: Vec::new(),
        };
        let disks = [
            (1, "sda", 250_000_000_000),
            (2, "sdb", 100_000_000_000),
            (3, "sdc", 100_000_000_000),
        ];
        let end = mac_of(id);
        let interface = |number: u64| Interface {
            id: number,
            name: format!("eth{}", number - 4),
            kind: "physical",
            mac: match number {
                4 => format!("52:54:00:00:{end}"),
                _ => format!("52:54:00:{number:02x}:{end}"),
            },
            parents: Vec::new(),
            vlan: (number == 4).then_some(1),
            links: Vec::new(),
            params: BTreeMap::new(),
        };
        let mut parts = Self {
            disks: disks.map(disk).into(),
            groups: Vec::new(),
            interfaces: (4..7).map(interface).collect(),
            boot: 1,
            is_uefi: false,
            gateway: None,
            last: 10,
        };
        parts.commissioned();
        parts
    }

    /// As a commissioning leaves them: one partition, an address that MAAS chooses.
    pub(super) fn commissioned(&mut self) {
        self.lay_out("flat", &Received::default()).unwrap();
        self.interfaces.retain(|each| each.kind == "physical");
        for interface in &mut self.interfaces {
            interface.links.clear();
            interface.params.clear();
            interface.vlan = (interface.id == 4).then_some(1);
        }
        let id = self.next();
        self.interfaces[0].links.push(Link {
            id,
            mode: "auto".to_owned(),
            subnet: 1,
            address: None,
        });
        self.gateway = None;
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Sets a layout.
    pub(super) fn lay_out(&mut self, layout: &str, received: &Received) -> Result<(), Answer> {
        let number = |name: &str| received.field(name).and_then(|text| text.parse().ok());
        for disk in &mut self.disks {
            disk.partitions.clear();
            disk.system = None;
        }
        self.groups.clear();
        let is_flat = match layout {
            "blank" => return Ok(()),
            "flat" => true,
            "lvm" => false,
            other => {
                let why = format!("'{other}' is not a valid storage_layout.");
                return Err(refused("storage_layout", &why));
            }
        };
        let on = number("root_device").unwrap_or(self.boot);
        if !self.disks.iter().any(|disk| disk.id == on) {
            return Err(refused("root_device", "Select a valid choice."));
        }
        self.boot = on;
        if self.is_uefi {
            self.partition(on, Some(512 << 20), Some(("fat32", "/boot/efi")))?;
        }
        if let Some(size) = number("boot_size") {
            self.partition(on, Some(size), Some(("ext4", "/boot")))?;
        }
        if is_flat {
            self.partition(on, number("root_size"), Some(("ext4", "/")))?;
            return Ok(());
        }
        let part = self.partition(on, None, None)?;
        let name = received.field("vg_name").unwrap_or("vgroot").to_owned();
        let group = self.group(&name, &[("partition", part)])?;
        let name = received.field("lv_name").unwrap_or("lvroot");
        let size = number("lv_size").unwrap_or(self.groups[0].free());
        self.volume(group, name, size)?;
        self.groups[0].volumes[0].system = Some(system("ext4", Some("/")));
        Ok(())
    }

    fn partition(
        &mut self,
        disk: u64,
        size: Option<u64>,
        wanted: Option<(&str, &str)>,
    ) -> Result<u64, Answer> {
        let id = self.next();
        let disk = self.disks.iter_mut().find(|each| each.id == disk);
        let disk = disk.ok_or_else(|| text(404, "No BlockDevice matches the given query."))?;
        let free = disk.free();
        let size = size.unwrap_or(free) / UNIT * UNIT;
        if size == 0 || size > free || disk.system.is_some() {
            return Err(refused("size", "is greater than what is available"));
        }
        disk.partitions.push(Partition {
            id,
            size,
            system: wanted.map(|(kind, at)| system(kind, Some(at))),
        });
        Ok(id)
    }

    fn group(&mut self, name: &str, devices: &[(&'static str, u64)]) -> Result<u64, Answer> {
        if self.groups.iter().any(|group| group.name == name) || devices.is_empty() {
            return Err(refused(
                "name",
                "Volume group with this name already exists.",
            ));
        }
        let mut size = 0;
        for (kind, id) in devices {
            let (free, is_used) = match *kind {
                "physical" => {
                    let disk = self.disks.iter().find(|disk| disk.id == *id);
                    let disk = disk.ok_or_else(|| refused("block_devices", "not one of them"))?;
                    (
                        disk.free(),
                        disk.system.is_some() || !disk.partitions.is_empty(),
                    )
                }
                _ => {
                    let mut parts = self.disks.iter().flat_map(|disk| &disk.partitions);
                    let part = parts.find(|part| part.id == *id);
                    let part = part.ok_or_else(|| refused("partitions", "not one of them"))?;
                    (part.size, part.system.is_some())
                }
            };
            if is_used {
                return Err(refused("block_devices", "it is used already"));
            }
            size += free;
        }
        for (kind, id) in devices {
            let part = Some(system("lvm-pv", None));
            match *kind {
                "physical" => {
                    let disk = self.disks.iter_mut().find(|disk| disk.id == *id);
                    disk.unwrap().system = part;
                }
                _ => {
                    let mut parts = self.disks.iter_mut().flat_map(|disk| &mut disk.partitions);
                    parts.find(|part| part.id == *id).unwrap().system = part;
                }
            }
        }
        let id = self.next();
        self.groups.push(Group {
            id,
            name: name.to_owned(),
            devices: devices.to_vec(),
            size: size / UNIT * UNIT,
            volumes: Vec::new(),
        });
        Ok(id)
    }

    fn volume(&mut self, group: u64, name: &str, size: u64) -> Result<u64, Answer> {
        let id = self.next();
        let group = self.groups.iter_mut().find(|each| each.id == group);
        let group = group.ok_or_else(|| text(404, "Not Found"))?;
        let size = size / UNIT * UNIT;
        if group.volumes.iter().any(|volume| volume.name == name) {
            return Err(refused("name", "it is taken"));
        }
        if size == 0 || size > group.free() {
            return Err(refused("size", "is greater than what is available"));
        }
        group.volumes.push(Volume {
            id,
            name: name.to_owned(),
            size,
            system: None,
        });
        Ok(id)
    }

    /// The file system of a disk, a partition or a volume.
    fn system_of(&mut self, id: u64, is_partition: bool) -> Option<&mut Option<FileSystem>> {
        if is_partition {
            let mut parts = self.disks.iter_mut().flat_map(|disk| &mut disk.partitions);
            return Some(&mut parts.find(|part| part.id == id)?.system);
        }
        if let Some(position) = self.disks.iter().position(|disk| disk.id == id) {
            return Some(&mut self.disks[position].system);
        }
        let mut volumes = self.groups.iter_mut().flat_map(|group| &mut group.volumes);
        Some(&mut volumes.find(|volume| volume.id == id)?.system)
    }

    fn mounts(&self) -> Vec<&str> {
        let parts = self.disks.iter().flat_map(|disk| &disk.partitions);
        let parts = parts.map(|part| &part.system);
        let volumes = self.groups.iter().flat_map(|group| &group.volumes);
        let all = parts.chain(volumes.map(|volume| &volume.system)).flatten();
        all.filter_map(|system| system.at.as_deref()).collect()
    }

    fn on_system(
        &mut self,
        operation: &str,
        id: u64,
        is_partition: bool,
        received: &Received,
    ) -> Result<(), Answer> {
        let at = received.field("mount_point").map(str::to_owned);
        let is_taken = at.as_deref().is_some_and(|at| self.mounts().contains(&at));
        let missing = || text(404, "No BlockDevice matches the given query.");
        let own = self.system_of(id, is_partition).ok_or_else(missing)?;
        match operation {
            "format" => {
                let kind = received.field("fstype").unwrap_or_default();
                if !SYSTEMS.contains(&kind) {
                    return Err(refused("fstype", "Select a valid choice."));
                }
                let is_used = own
                    .as_ref()
                    .is_some_and(|own| own.at.is_some() || own.kind == "lvm-pv");
                if is_used {
                    return Err(refused("__all__", "it is in use"));
                }
                *own = Some(system(kind, None));
            }
            "mount" => {
                let Some(own) = own.as_mut() else {
                    return Err(refused("__all__", "it is not formatted"));
                };
                let is_swap = own.kind == "swap";
                if is_taken || own.at.is_some() || (at.is_none() && !is_swap) {
                    return Err(refused("mount_point", "it is taken"));
                }
                own.at = at.or_else(|| Some("none".to_owned()));
                own.options = received.field("mount_options").map(str::to_owned);
            }
            _ => return Err(text(400, "Unrecognised signature")),
        }
        Ok(())
    }

    fn interface(&mut self, id: u64) -> Result<&mut Interface, Answer> {
        let mut all = self.interfaces.iter_mut();
        let found = all.find(|each| each.id == id);
        found.ok_or_else(|| text(404, "No Interface matches the given query."))
    }

    fn has_children(&self, id: u64) -> bool {
        self.interfaces
            .iter()
            .any(|each| each.parents.contains(&id))
    }

    fn bond(&mut self, received: &Received) -> Result<u64, Answer> {
        let parents = received.fields("parents");
        let parents: Vec<u64> = parents.iter().map(|id| id.parse().unwrap()).collect();
        let name = received.field("name").unwrap_or_default().to_owned();
        if parents.is_empty() || parents.iter().any(|id| self.has_children(*id)) {
            return Err(refused("parents", "Interfaces already in-use"));
        }
        if name.is_empty() || self.interfaces.iter().any(|each| each.name == name) {
            return Err(refused("name", "it is taken"));
        }
        let asked = received.field("vlan").and_then(|text| text.parse().ok());
        let mut vlan = asked;
        let mut mac = String::new();
        for id in &parents {
            let parent = self.interface(*id)?;
            vlan = vlan.or(parent.vlan);
            if mac.is_empty() {
                mac.clone_from(&parent.mac);
            }
        }
        for id in &parents {
            let parent = self.interface(*id)?;
            parent.links.clear();
            parent.vlan = vlan;
        }
        let id = self.next();
        let mut bond = Interface {
            id,
            name,
            kind: "bond",
            mac,
            parents,
            vlan,
            links: Vec::new(),
            params: BTreeMap::from([("bond_mode".to_owned(), "active-backup".to_owned())]),
        };
        bond.set(received);
        self.interfaces.push(bond);
        Ok(id)
    }

    fn tagged(&mut self, received: &Received) -> Result<u64, Answer> {
        let number = |name: &str| received.field(name).and_then(|text| text.parse().ok());
        let (parent, vlan) = (number("parent").unwrap_or(0), number("vlan").unwrap_or(0));
        let own = self.interface(parent)?.clone();
        let is_tagged = SUBNETS.iter().any(|each| each.2 == vlan && each.3 != 0);
        if !is_tagged || own.kind == "vlan" {
            return Err(refused("vlan", "it has to be a tagged VLAN"));
        }
        // The real one breaks if the parent has none.
        if own.vlan.map(fabric_of) != Some(fabric_of(vlan)) {
            return Err(refused(
                "vlan",
                "on the same fabric as its parent interface",
            ));
        }
        let name = format!("{}.{}", own.name, vid_of(vlan));
        if self.interfaces.iter().any(|each| each.name == name) {
            return Err(refused("name", "it is taken"));
        }
        let id = self.next();
        let mut tagged = Interface {
            id,
            name,
            kind: "vlan",
            mac: own.mac,
            parents: vec![parent],
            vlan: Some(vlan),
            links: Vec::new(),
            params: BTreeMap::new(),
        };
        tagged.set(received);
        self.interfaces.push(tagged);
        Ok(id)
    }

    fn link(&mut self, interface: u64, received: &Received) -> Result<(), Answer> {
        let subnet = received.field("subnet").and_then(|text| text.parse().ok());
        let subnet = subnet.unwrap_or(0);
        let known = SUBNETS.iter().find(|each| each.0 == subnet);
        let Some((_, cidr, vlan, ..)) = known else {
            return Err(refused("subnet", "Select a valid choice."));
        };
        let mode = received.field("mode").unwrap_or_default().to_lowercase();
        let address = received.field("ip_address").map(str::to_owned);
        let prefix = cidr.rsplit_once('.').unwrap().0;
        if address
            .as_ref()
            .is_some_and(|each| !each.starts_with(prefix))
        {
            return Err(refused("ip_address", "IP address is not in the subnet"));
        }
        let is_taken = self.interfaces.iter().any(|each| {
            let mut links = each.links.iter();
            links.any(|link| address.is_some() && link.address == address)
        });
        let id = self.next();
        let own = self.interface(interface)?;
        let is_forced = received.field("force").is_some();
        if own.vlan != Some(*vlan) && !is_forced {
            return Err(refused("subnet", "it is not on the VLAN of the interface"));
        }
        if is_taken {
            return Err(refused("ip_address", "IP address is already in use."));
        }
        match is_forced {
            true => own.links.clear(),
            false => own.links.retain(|link| link.mode != "link_up"),
        }
        own.links.push(Link {
            id,
            mode,
            subnet,
            address,
        });
        Ok(())
    }
}

impl Interface {
    /// Sets what a form has of it.
    fn set(&mut self, received: &Received) {
        for (name, value) in &received.form {
            if name.starts_with("bond_") || name == "mtu" {
                self.params.insert(name.clone(), value.clone());
            }
        }
        if let Some(vlan) = received.field("vlan") {
            self.vlan = vlan.parse().ok();
        }
        let vlan = self.vlan;
        self.links.retain(|link| Some(vlan_of(link.subnet)) == vlan);
        self.rise();
    }

    /// Is up without an address, if it has none.
    fn rise(&mut self) {
        let on = SUBNETS.iter().find(|each| Some(each.2) == self.vlan);
        if let (true, Some(subnet)) = (self.links.is_empty(), on) {
            self.links.push(Link {
                id: self.id + 1000,
                mode: "link_up".to_owned(),
                subnet: subnet.0,
                address: None,
            });
        }
    }
}

fn system(kind: &str, at: Option<&str>) -> FileSystem {
    FileSystem {
        kind: kind.to_owned(),
        at: at.map(str::to_owned),
        options: None,
    }
}

impl State {
    /// Answers a request about disks or interfaces of a machine.
    pub(super) fn on_parts(&mut self, received: &Received, id: &str, rest: &[&str]) -> Answer {
        let Some(machine) = self.machines.get(id) else {
            return text(404, "No Machine matches the given query.");
        };
        if received.method == "GET" {
            return self.read_parts(id, rest);
        }
        if self.asks != "admin" || machine.locked {
            return text(403, "");
        }
        // Interfaces and file systems also if it is allocated; all else in ready only.
        let is_made = matches!(
            rest,
            ["blockdevices", _, "partitions"] | ["volume-groups"] | ["volume-group", ..]
        ) || received.operation() == Some("set_boot_disk");
        let is_taken = machine.status == 4 || (machine.status == 10 && !is_made);
        if !is_taken {
            let name = rules::name(machine.status);
            return text(
                409,
                &format!("Cannot change it because the machine is {name}."),
            );
        }
        let forgets = self.wrong == Some(Wrong::ForgetsParts);
        let machine = self.machines.get_mut(id).unwrap();
        let before = machine.parts.clone();
        let changed = machine.parts.change(received, rest);
        if forgets || changed.is_err() {
            machine.parts = before;
        }
        let own = match changed {
            Ok(_) if received.method == "DELETE" => return text(204, ""),
            Ok(own) => own,
            Err(answer) => return answer,
        };
        let shown = self.machines[id].parts.shown_part(id, own);
        json_of(200, &shown.unwrap_or(Value::Null))
    }

    fn read_parts(&self, id: &str, rest: &[&str]) -> Answer {
        let parts = &self.machines[id].parts;
        let interfaces = || parts.interfaces.iter();
        match rest {
            ["interfaces"] => {
                let all = interfaces().map(|each| parts.shown_interface(id, each));
                json_of(200, &all.collect())
            }
            ["interfaces", own] => match interfaces().find(|each| each.id.to_string() == **own) {
                Some(own) => json_of(200, &parts.shown_interface(id, own)),
                None => text(404, "No Interface matches the given query."),
            },
            ["blockdevices", own] => {
                match own.parse().ok().and_then(|own| parts.shown_part(id, own)) {
                    Some(own) => json_of(200, &own),
                    None => text(404, "No BlockDevice matches the given query."),
                }
            }
            ["blockdevices", ..] => {
                let all = parts.disks.iter().map(|disk| disk.shown(id));
                json_of(200, &all.collect())
            }
            ["volume-groups"] | ["volume-group", ..] => {
                let all = parts.groups.iter().map(|each| parts.shown_group(id, each));
                json_of(200, &all.collect())
            }
            ["devices"] => {
                let device = |each: &Interface| {
                    json!({"bus": 1, "bus_name": "PCIE", "hardware_type_name": "Network",
                        "pci_address": format!("0000:0{}:00.0", each.id - 1),
                        "physical_interface": parts.shown_interface(id, each)})
                };
                let physical = interfaces().filter(|each| each.kind == "physical");
                json_of(200, &physical.map(device).collect())
            }
            ["results"] => json_of(200, &json!([])),
            _ => text(404, "Unknown API endpoint"),
        }
    }
}

impl Parts {
    /// Does what a request asks for; gives the id of the part that it is about.
    fn change(&mut self, received: &Received, rest: &[&str]) -> Result<u64, Answer> {
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let asked = |name: &str| received.field(name).and_then(|text| text.parse().ok());
        match (received.method.as_str(), rest, received.operation()) {
            ("POST", ["blockdevices", disk, "partitions"], None) => {
                self.partition(number(disk), asked("size"), None)
            }
            ("POST", ["blockdevices", _, "partition", part], Some(operation)) => {
                self.on_system(operation, number(part), true, received)?;
                Ok(number(part))
            }
            ("POST", ["blockdevices", disk], Some("set_boot_disk")) => {
                self.boot = number(disk);
                Ok(self.boot)
            }
            ("POST", ["blockdevices", disk], Some(operation)) => {
                self.on_system(operation, number(disk), false, received)?;
                Ok(number(disk))
            }
            ("POST", ["volume-groups"], None) => {
                let of = |name: &str, kind: &'static str| -> Vec<(&'static str, u64)> {
                    let ids = received.fields(name).into_iter();
                    ids.map(|id| (kind, number(id))).collect()
                };
                let devices = [
                    of("block_devices", "physical"),
                    of("partitions", "partition"),
                ];
                let name = received.field("name").unwrap_or_default();
                self.group(name, &devices.concat())
            }
            ("POST", ["volume-group", group], Some("create_logical_volume")) => {
                let name = received.field("name").unwrap_or_default();
                let size = asked("size").unwrap_or(0);
                self.volume(number(group), name, size)
            }
            ("POST", ["interfaces"], Some("create_bond")) => self.bond(received),
            ("POST", ["interfaces"], Some("create_vlan")) => self.tagged(received),
            ("POST", ["interfaces", own], Some("link_subnet")) => {
                self.link(number(own), received)?;
                Ok(number(own))
            }
            ("POST", ["interfaces", own], Some("unlink_subnet")) => {
                let link = asked("id");
                let own = self.interface(number(own))?;
                own.links.retain(|each| Some(each.id) != link);
                own.rise();
                Ok(own.id)
            }
            ("POST", ["interfaces", own], Some("set_default_gateway")) => {
                self.gateway = asked("link_id");
                Ok(number(own))
            }
            ("PUT", ["interfaces", own], None) => {
                self.interface(number(own))?.set(received);
                Ok(number(own))
            }
            ("DELETE", ["interfaces", own], None) => {
                let id = number(own);
                self.interface(id)?;
                self.interfaces
                    .retain(|each| each.id != id && !each.parents.contains(&id));
                Ok(id)
            }
            _ => Err(text(400, "Unrecognised signature")),
        }
    }
}
