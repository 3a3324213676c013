//! Disks and interfaces of a machine of the stand-in as MAAS shows them.

use serde_json::{Value, json};

use super::parts::{
    BASE, Disk, FileSystem, Group, Interface, Link, Partition, Parts, SUBNETS, Volume, fabric_of,
    vid_of,
};

/// A VLAN as MAAS shows it.
fn shown_vlan(vlan: u64) -> Value {
    let fabric = fabric_of(vlan);
    json!({"id": vlan, "vid": vid_of(vlan), "mtu": 1500, "dhcp_on": vlan == 1, "external_dhcp": null, "relay_vlan": null,
        "primary_rack": "ddkygf", "space": "undefined", "name": "untagged", "fabric": format!("fabric-{fabric}"),
        "secondary_rack": null, "fabric_id": fabric, "resource_uri": format!("{BASE}vlans/{vlan}/")})
}

/// A subnet as MAAS shows it.
pub(super) fn shown_subnet(id: u64) -> Value {
    let (_, cidr, vlan, _, gateway) = SUBNETS.iter().find(|each| each.0 == id).unwrap();
    json!({"id": id, "name": cidr, "description": "", "vlan": shown_vlan(*vlan), "cidr": cidr, "rdns_mode": 2,
        "gateway_ip": gateway, "dns_servers": [], "allow_dns": true, "allow_proxy": true, "active_discovery": false,
        "managed": true, "disabled_boot_architectures": [], "space": "undefined",
        "resource_uri": format!("{BASE}subnets/{id}/")})
}

/// The fabrics as MAAS shows them.
pub(super) fn shown_fabrics() -> Value {
    let fabric = |id: u64| {
        let vlans = SUBNETS.iter().filter(|each| fabric_of(each.2) == id);
        let vlans: Vec<Value> = vlans.map(|each| shown_vlan(each.2)).collect();
        json!({"id": id, "name": format!("fabric-{id}"), "class_type": null, "vlans": vlans,
            "resource_uri": format!("{BASE}fabrics/{id}/")})
    };
    json!([fabric(0), fabric(1)])
}

fn shown_system(system: Option<&FileSystem>) -> Value {
    system.map_or(Value::Null, |system| {
        json!({"fstype": system.kind, "label": "", "uuid": "b715da7f-1a15-4aaf-ad45-bd51953438a5",
            "mount_point": system.at, "mount_options": system.options})
    })
}

fn used_for(system: Option<&FileSystem>) -> String {
    match system {
        None => "Unused".to_owned(),
        Some(FileSystem {
            kind, at: Some(at), ..
        }) => {
            format!("{kind} formatted filesystem mounted at {at}")
        }
        Some(system) => format!("Unmounted {} formatted filesystem", system.kind),
    }
}

impl Parts {
    /// The fields of a machine that show its parts.
    pub(super) fn shown(&self, id: &str, is_known: bool) -> Vec<(&'static str, Value)> {
        let disks: Vec<Value> = match is_known {
            true => self.disks.iter().map(|disk| disk.shown(id)).collect(),
            false => Vec::new(),
        };
        let volumes = self.groups.iter().flat_map(|group| {
            let of = move |volume: &Volume| group.shown_volume(id, volume);
            group.volumes.iter().map(of)
        });
        let volumes: Vec<Value> = volumes.collect();
        let boot = disks.iter().find(|disk| disk["id"] == json!(self.boot));
        let groups = self.groups.iter().map(|group| self.shown_group(id, group));
        let interfaces = self.interfaces.iter();
        let interfaces = interfaces.map(|each| self.shown_interface(id, each));
        let interfaces: Vec<Value> = interfaces.collect();
        vec![
            ("boot_disk", boot.cloned().unwrap_or(Value::Null)),
            ("boot_interface", interfaces[0].clone()),
            ("interface_set", json!(interfaces)),
            (
                "blockdevice_set",
                json!([disks.clone(), volumes.clone()].concat()),
            ),
            ("physicalblockdevice_set", json!(disks)),
            ("virtualblockdevice_set", json!(volumes)),
            ("volume_groups", json!(groups.collect::<Vec<_>>())),
            (
                "bios_boot_method",
                match self.is_uefi {
                    true => json!("uefi"),
                    false => Value::Null,
                },
            ),
            (
                "default_gateways",
                json!({"ipv4": {"gateway_ip": "10.20.0.1", "link_id": self.gateway},
                "ipv6": {"gateway_ip": null, "link_id": null}}),
            ),
        ]
    }

    pub(super) fn shown_interface(&self, machine: &str, interface: &Interface) -> Value {
        let name = |id: &u64| {
            let own = self.interfaces.iter().find(|each| each.id == *id);
            own.map(|own| own.name.clone())
        };
        let parents: Vec<_> = interface.parents.iter().filter_map(name).collect();
        let children = self.interfaces.iter();
        let children = children.filter(|each| each.parents.contains(&interface.id));
        let children: Vec<&str> = children.map(|each| &*each.name).collect();
        let link = |link: &Link| {
            let mut shown =
                json!({"id": link.id, "mode": link.mode, "subnet": shown_subnet(link.subnet)});
            if let Some(address) = &link.address {
                shown["ip_address"] = json!(address);
            }
            shown
        };
        let params = interface.params.iter();
        let params = params.map(|(name, value)| {
            let number = value.parse::<u64>().map(|number| json!(number));
            (name.clone(), number.unwrap_or_else(|_| json!(value)))
        });
        let params: serde_json::Map<String, Value> = params.collect();
        let mtu = params.get("mtu").cloned().unwrap_or(json!(1500));
        let id = interface.id;
        json!({"id": id, "name": interface.name, "type": interface.kind, "mac_address": interface.mac,
            "system_id": machine, "parents": parents, "children": children,
            "vlan": interface.vlan.map(shown_vlan), "links": interface.links.iter().map(link).collect::<Vec<_>>(),
            "params": params, "effective_mtu": mtu, "enabled": true, "tags": [], "discovered": [],
            "link_connected": true, "interface_speed": 10000, "link_speed": 10000, "numa_node": 0,
            "vendor": "My Corporation", "product": "My Gigabit Network Connection", "firmware_version": "1.63",
            "sriov_max_vf": 0, "resource_uri": format!("{BASE}nodes/{machine}/interfaces/{id}/")})
    }

    /// The part with this id; no two have one.
    pub(super) fn shown_part(&self, machine: &str, id: u64) -> Option<Value> {
        if let Some(own) = self.interfaces.iter().find(|each| each.id == id) {
            return Some(self.shown_interface(machine, own));
        }
        for disk in &self.disks {
            let shown = disk.shown(machine);
            let parts = shown["partitions"].as_array().into_iter().flatten();
            let mut all = std::iter::once(&shown).chain(parts);
            if let Some(found) = all.find(|each| each["id"] == json!(id)) {
                return Some(found.clone());
            }
        }
        for group in &self.groups {
            if group.id == id {
                return Some(self.shown_group(machine, group));
            }
            if let Some(volume) = group.volumes.iter().find(|each| each.id == id) {
                return Some(group.shown_volume(machine, volume));
            }
        }
        None
    }

    pub(super) fn shown_group(&self, machine: &str, group: &Group) -> Value {
        let device = |(kind, id): &(&str, u64)| json!({"type": kind, "id": id});
        let volumes = group.volumes.iter();
        let volumes: Vec<Value> = volumes
            .map(|each| group.shown_volume(machine, each))
            .collect();
        json!({"id": group.id, "name": group.name, "system_id": machine, "size": group.size,
            "available_size": group.free(), "used_size": group.size - group.free(),
            "devices": group.devices.iter().map(device).collect::<Vec<_>>(), "logical_volumes": volumes,
            "resource_uri": format!("{BASE}nodes/{machine}/volume-group/{}/", group.id)})
    }
}

impl Disk {
    pub(super) fn shown(&self, machine: &str) -> Value {
        let id = self.id;
        let part = |(position, part): (usize, &Partition)| {
            json!({"id": part.id, "device_id": id, "system_id": machine, "type": "partition", "size": part.size,
                "bootable": false, "tags": [], "uuid": "d5be0122-678b-4f78-afe5-17a3d6bb13cd",
                "filesystem": shown_system(part.system.as_ref()), "used_for": used_for(part.system.as_ref()),
                "path": format!("/dev/disk/by-dname/{}-part{}", self.name, position + 1),
                "resource_uri": format!("{BASE}nodes/{machine}/blockdevices/{id}/partition/{}", part.id)})
        };
        let parts: Vec<Value> = self.partitions.iter().enumerate().map(part).collect();
        json!({"id": id, "name": self.name, "serial": format!("disk-{machine}-{}", self.name), "size": self.size,
            "available_size": self.free(), "used_size": self.size - self.free(), "partitions": parts,
            "filesystem": shown_system(self.system.as_ref()), "used_for": used_for(self.system.as_ref()),
            "type": "physical", "model": "", "block_size": 512, "numa_node": 0, "system_id": machine,
            "partition_table_type": (!self.partitions.is_empty()).then_some("GPT"), "tags": ["ssd", "sata"],
            "uuid": null, "firmware_version": null, "storage_pool": null, "id_path": format!("/dev/{}", self.name),
            "path": format!("/dev/disk/by-dname/{}", self.name),
            "resource_uri": format!("{BASE}nodes/{machine}/blockdevices/{id}/")})
    }
}

impl Group {
    pub(super) fn shown_volume(&self, machine: &str, volume: &Volume) -> Value {
        let (id, name) = (volume.id, format!("{}-{}", self.name, volume.name));
        json!({"id": id, "name": name, "size": volume.size, "available_size": 0, "type": "virtual", "partitions": [],
            "system_id": machine, "filesystem": shown_system(volume.system.as_ref()),
            "resource_uri": format!("{BASE}nodes/{machine}/blockdevices/{id}/")})
    }
}
