//! Requests of the design of a machine to MAAS, and the parts that MAAS cannot do: values only.

use std::sync::Arc;

use data_encoding::BASE64;

use super::api::{Fields, field};
use super::change::Change;
use super::disks::Disks;
use super::layout::Layout;
use super::machine::Machine;
use super::ports::Ports;
use super::tag::Tag;
use crate::backend::hardware::payload;
use crate::design::{NodeDesign, Section};
use crate::document::Node;
use crate::observed::PartDrift;

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
    pub(super) storage: Option<Storage>,
    /// Its interfaces.
    pub(super) ports: Ports,
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
        system.storage = Storage::of(node, &mut unsupported, &mut left_out);
        system.ports = Ports::of(node, &mut unsupported, &mut left_out);
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

    /// The disks and interfaces of a deployed machine that are otherwise.
    pub(super) fn drift(&self, machine: &Machine) -> Arc<[PartDrift]> {
        let disks = self.storage.as_ref();
        let mut drift = disks.map_or_else(Vec::new, |storage| storage.disks.drift(machine));
        drift.append(&mut self.ports.drift(machine));
        drift.into()
    }

    /// The sections in which a deployed machine is compared.
    pub(super) fn compared(&self) -> Arc<[Section]> {
        let storage = self.storage.as_ref().map(|_| Section::Storage);
        storage.into_iter().chain([Section::Network]).collect()
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

/// How the disks of a machine are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    disks: Disks,
    /// The layout of MAAS's own that is all of them; absent: they are laid out one by one.
    layout: Option<Layout>,
}

impl Storage {
    /// The storage of a node's design; parts that MAAS cannot do go to `unsupported`, parts that are left to it to
    /// `left_out`.
    fn of(
        node: &NodeDesign,
        unsupported: &mut Vec<String>,
        left_out: &mut Vec<String>,
    ) -> Option<Self> {
        let disks = match Disks::of(node) {
            Ok(disks) => disks?,
            Err(why) => {
                left_out.push(why);
                return None;
            }
        };
        if !disks.has_root() {
            let text =
                "no file system of the design is the root: the disks stay as MAAS lays them out";
            left_out.push(text.to_owned());
            return None;
        }
        if disks.boots_from_any() {
            let text = "the disk of the operating system, which MAAS does not know by its address on a bus: its own \
                        boot disk is taken";
            left_out.push(text.to_owned());
        }
        let kinds = disks.unsupported().join("`, `");
        if !kinds.is_empty() {
            unsupported.push(format!("MAAS makes no file system `{kinds}`"));
        }
        Some(Self {
            layout: disks.as_layout(),
            disks,
        })
    }

    /// The next request that brings a machine's disks to the design; `None`: they are as it has them.
    ///
    /// # Errors
    ///
    /// The machine has no such disk, or not so much space.
    pub(super) fn next(&self, machine: &Machine) -> Result<Option<Change>, String> {
        match &self.layout {
            Some(layout) => layout.next(machine),
            None => self.disks.next(machine),
        }
    }
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
