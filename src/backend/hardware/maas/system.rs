//! Requests of the design of a machine to MAAS, and the parts that MAAS cannot do: values only.

use std::sync::Arc;

use data_encoding::BASE64;

use super::api::{Fields, field};
use super::machine::Machine;
use super::tag::Tag;
use crate::backend::hardware::payload::{self, RootDevice, root_device};
use crate::design::{NodeDesign, Section, exact_size};
use crate::document::Node;

/// The system that a machine is deployed with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct System {
    /// The release, such as `jammy` or `ubuntu/jammy`; absent: MAAS's default.
    pub(super) series: Option<Arc<str>>,
    /// The kernel, such as `ga-22.04`; absent: MAAS's default.
    pub(super) kernel: Option<Arc<str>>,
    /// Kernel parameters.
    pub(super) parameters: Option<Arc<str>>,
    /// How its disks are laid out; absent: as MAAS has them.
    pub(super) layout: Option<Layout>,
    /// Parts of the design that MAAS cannot do.
    pub(super) unsupported: Arc<[Arc<str>]>,
    /// Parts of the design that are left to MAAS.
    pub(super) left_out: Arc<[Arc<str>]>,
}

impl System {
    /// The system of a node's design.
    pub(super) fn of(node: &NodeDesign) -> Self {
        let platform = |name: &str| {
            let value = payload::field(node, Section::OperatingSystem, &["platform", name]);
            let text = value.and_then(Node::scalar_text)?;
            let text = text.trim();
            (!text.is_empty()).then(|| Arc::from(text))
        };
        let mut system = Self {
            series: platform("image"),
            kernel: platform("kernel"),
            parameters: parameters(node),
            ..Self::default()
        };
        let (mut unsupported, mut left_out): (Vec<String>, Vec<String>) = Default::default();
        // MAAS takes any kernel whose name has another form, and fails when it deploys.
        if let Some(kernel) = system.kernel.as_deref().filter(|name| !is_kernel(name)) {
            unsupported.push(format!(
                "the kernel `{kernel}` has no name of MAAS's: `platform.kernel` is such as `ga-22.04` or `hwe-22.04`"
            ));
        }
        system.layout = Layout::of(node, &mut left_out);
        let interfaces = payload::field(node, Section::Network, &["interfaces"]);
        if interfaces
            .and_then(Node::as_map)
            .is_some_and(|all| all.iter().next().is_some())
        {
            let text = "interfaces, bonds and addresses stay as MAAS has them for the machine";
            left_out.push(text.to_owned());
        }
        let actions = payload::not_carried(node).join(", ");
        if !actions.is_empty() {
            left_out.push(format!(
                "the user data does not carry all of these boot actions: {actions}"
            ));
        }
        let shared = |texts: Vec<String>| texts.into_iter().map(Arc::from).collect();
        system.unsupported = shared(unsupported);
        system.left_out = shared(left_out);
        system
    }

    /// The tag that carries the kernel parameters.
    pub(super) fn kernel_tag(&self) -> Option<Tag> {
        self.parameters.as_deref().map(Tag::kernel)
    }

    /// The form of a deploy.
    pub(super) fn form(&self, node: &NodeDesign, comment: &str) -> Fields<'static> {
        let user_data = BASE64.encode(payload::cloud_config(node).as_bytes());
        let mut fields = vec![
            field("user_data", user_data),
            field("comment", comment.to_owned()),
        ];
        if let Some(series) = &self.series {
            fields.push(field("distro_series", series.to_string()));
        }
        if let Some(kernel) = &self.kernel {
            fields.push(field("hwe_kernel", kernel.to_string()));
        }
        fields
    }

    /// Whether an image of MAAS's is the one that it is deployed from.
    pub(super) fn is_image(&self, image: &str) -> bool {
        match self.series.as_deref() {
            None => true,
            Some(series) => image == series || image.rsplit('/').next() == Some(series),
        }
    }
}

/// Whether a text names a kernel as MAAS does: `ga-22.04`, `hwe-22.04-edge`.
fn is_kernel(name: &str) -> bool {
    let mut parts = name.split('-');
    let is_release = |text: &str| {
        let is_number =
            |part: &str| part.len() == 2 && part.bytes().all(|each| each.is_ascii_digit());
        text.split_once('.')
            .is_some_and(|(year, month)| is_number(year) && is_number(month))
    };
    let is_kind = matches!(parts.next(), Some("ga" | "hwe"));
    let is_flavour =
        |part: &str| !part.is_empty() && part.bytes().all(|each| each.is_ascii_alphanumeric());
    is_kind && parts.next().is_some_and(is_release) && parts.all(is_flavour)
}

/// The kernel parameters of a machine; one whose value is `true` stands by itself, as Drydock has it.
fn parameters(node: &NodeDesign) -> Option<Arc<str>> {
    let written = payload::field(
        node,
        Section::OperatingSystem,
        &["platform", "kernel_params"],
    );
    let pair = |(name, value): (&str, String)| match value.as_str() {
        "true" | "True" | "" => name.to_owned(),
        value => format!("{name}={value}"),
    };
    let pairs = written?.as_map()?.iter();
    let pairs = pairs.map(|(name, value)| {
        let value = value.node.scalar_text().unwrap_or_default().into_owned();
        pair((&name.text, value))
    });
    let text = pairs.collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| Arc::from(text))
}

/// How the disks of a machine are laid out, as far as MAAS's layouts have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The volume group and the logical volume of the root file system, where it is on one.
    volume: Option<(Arc<str>, Arc<str>)>,
    /// Sizes in bytes, where they are given exactly.
    root_size: Option<u64>,
    boot_size: Option<u64>,
    /// The disk of the operating system, by its name.
    disk: Option<Arc<str>>,
}

/// A file system of the design.
struct Mounted<'a> {
    at: &'a str,
    size: Option<u64>,
    /// Disk and partition, or volume group and logical volume.
    place: (&'a str, &'a str),
    is_volume: bool,
}

impl Layout {
    /// The layout of a node's design; what it does not have goes to `left_out`.
    fn of(node: &NodeDesign, left_out: &mut Vec<String>) -> Option<Self> {
        let storage = payload::field(node, Section::Storage, &["storage"])?;
        let mounted = mounted(storage);
        let root = mounted.iter().find(|each| each.at == "/");
        let Some(root) = root else {
            if !mounted.is_empty() {
                left_out.push("no file system of the design is the root: the disks stay as MAAS lays them out".to_owned());
            }
            return None;
        };
        let boot = mounted
            .iter()
            .find(|each| each.at == "/boot" && !each.is_volume);
        let others = mounted
            .iter()
            .filter(|each| each.at != "/" && !boot.is_some_and(|boot| std::ptr::eq(boot, *each)));
        let others: Vec<&str> = others.map(|each| each.at).collect();
        if !others.is_empty() {
            left_out.push(format!(
                "file systems beside the root and `/boot`, which MAAS's layouts do not have: {}",
                others.join(", ")
            ));
        }
        let disk = match root_device(node) {
            Some(RootDevice::Name(name)) => Some(Arc::from(name.trim_start_matches("/dev/"))),
            Some(RootDevice::Hctl(_)) | None => {
                let text = "the disk of the operating system, which MAAS does not know by its address on a bus: its \
                            own boot disk is taken";
                left_out.push(text.to_owned());
                None
            }
        };
        Some(Self {
            volume: root
                .is_volume
                .then(|| (Arc::from(root.place.0), Arc::from(root.place.1))),
            root_size: root.size,
            boot_size: boot.and_then(|boot| boot.size),
            disk,
        })
    }

    /// The form that sets it on a machine.
    ///
    /// # Errors
    ///
    /// The machine has no such disk.
    pub(super) fn form(&self, machine: &Machine) -> Result<Fields<'static>, String> {
        let mut fields = vec![field(
            "storage_layout",
            if self.volume.is_some() { "lvm" } else { "flat" },
        )];
        if let Some((group, volume)) = &self.volume {
            fields.push(field("vg_name", group.to_string()));
            fields.push(field("lv_name", volume.to_string()));
        }
        let root = if self.volume.is_some() {
            "lv_size"
        } else {
            "root_size"
        };
        for (name, size) in [(root, self.root_size), ("boot_size", self.boot_size)] {
            if let Some(size) = size {
                fields.push(field(name, size.to_string()));
            }
        }
        if let Some(disk) = &self.disk {
            let blocks = &machine.physicalblockdevice_set;
            let found = blocks
                .iter()
                .find(|block| block.name == *disk)
                .ok_or_else(|| {
                    let names: Vec<&str> = blocks.iter().map(|block| &*block.name).collect();
                    format!(
                        "MAAS has no disk `{disk}` of it; it has: {}",
                        names.join(", ")
                    )
                })?;
            fields.push(field("root_device", found.id.to_string()));
        }
        Ok(fields)
    }
}

/// All file systems of a design that are mounted.
fn mounted(storage: &Node) -> Vec<Mounted<'_>> {
    let mut all = Vec::new();
    for (kind, list, is_volume) in [
        ("physical_devices", "partitions", false),
        ("volume_groups", "logical_volumes", true),
    ] {
        let places = storage.get(kind).and_then(Node::as_map);
        for (place, field) in places.into_iter().flat_map(|places| places.iter()) {
            let parts = field.node.get(list).and_then(Node::as_list);
            for part in parts.unwrap_or_default() {
                let at = part
                    .at(&["filesystem", "mountpoint"])
                    .and_then(Node::as_str);
                let Some(at) = at else { continue };
                let name = part.get("name").and_then(Node::as_str).unwrap_or_default();
                let size = part.get("size").and_then(Node::scalar_text);
                all.push(Mounted {
                    at,
                    size: size.and_then(|size| exact_size(&size)),
                    place: (&place.text, name),
                    is_volume,
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_a_name_of_maas_s() {
        for name in [
            "ga-22.04",
            "hwe-20.04",
            "hwe-22.04-edge",
            "ga-22.04-lowlatency",
        ] {
            assert!(is_kernel(name), "{name}");
        }
        for name in [
            "generic",
            "nonsense",
            "",
            "ga",
            "ga-22",
            "ga-2204",
            "hwe-22.04-",
            "ga-22.04-a b",
        ] {
            assert!(!is_kernel(name), "{name}");
        }
    }
}
