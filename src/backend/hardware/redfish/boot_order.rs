//! The order in which a machine boots, by the kinds of its boot options, as Hardware documents name them.
//!
//! A controller shows it by aliases, or as a list of its boot options, each with its alias or its UEFI device path. What is of
//! no kind that documents have, such as a shell, is left out; of a kind the first place counts.

use std::collections::HashMap;
use std::sync::Arc;

use super::machine::Machine;
use super::resource::Resource;
use crate::backend::ActError;

/// Most boot options of a machine that count.
const MOST: usize = 1000;

impl Machine<'_> {
    /// The order in which a machine boots; `None`: its controller does not show it.
    pub(super) async fn boot_order(&self, system: &Resource) -> Result<Option<String>, ActError> {
        if system.text("/Boot/BootOrderPropertySelection") == Some("AliasBootOrder") {
            let aliases = system.texts("/Boot/AliasBootOrder").into_iter();
            return Ok(in_one_line(aliases.filter_map(of_alias)));
        }
        let references = system.texts("/Boot/BootOrder");
        let Some(options) = system
            .link("/Boot/BootOptions")
            .filter(|_| !references.is_empty())
        else {
            return Ok(None);
        };
        let members = self.controller.parts(options, self.expands).await?;
        let options = self.read_parts(members).await?;
        let mut by_reference: HashMap<&str, &Resource> = HashMap::new();
        for option in options.iter().take(MOST) {
            by_reference.entry(option.id()).or_insert(option);
        }
        // If one has the id of another as its reference, the reference counts.
        for option in options.iter().take(MOST).rev() {
            if let Some(reference) = option.text("/BootOptionReference") {
                by_reference.insert(reference, option);
            }
        }
        let kinds = references.into_iter().take(MOST).filter_map(|reference| {
            let option = by_reference.get(reference)?;
            match option.boolean("/BootOptionEnabled") {
                Some(false) => None,
                _ => kind_of(option),
            }
        });
        Ok(in_one_line(kinds))
    }
}

/// The kinds in the form in which a list of a document is compared.
fn in_one_line(kinds: impl Iterator<Item = &'static str>) -> Option<String> {
    let mut order: Vec<&str> = Vec::new();
    for kind in kinds {
        if !order.contains(&kind) {
            order.push(kind);
        }
    }
    (!order.is_empty()).then(|| order.join(", "))
}

fn kind_of(option: &Resource) -> Option<&'static str> {
    let by_alias = option.text("/Alias").and_then(of_alias);
    by_alias.or_else(|| of_path(option.text("/UefiDevicePath")?))
}

/// The kind of one of Redfish's names of boot sources.
fn of_alias(alias: &str) -> Option<&'static str> {
    match alias {
        "Hdd" => Some("disk"),
        "Pxe" => Some("pxe"),
        "UefiHttp" => Some("http"),
        "Usb" => Some("usb"),
        "Cd" => Some("cd"),
        _ => None,
    }
}

/// The kind of a UEFI device path: by the last of its nodes that tells one. A partition (`HD`) is on whatever it is on.
fn of_path(path: &str) -> Option<&'static str> {
    let mut has_partition = false;
    let nodes = path.rsplit('/').map(|node| {
        let end = node.find('(').unwrap_or(node.len());
        node[..end].to_ascii_lowercase()
    });
    let mut kinds = nodes.filter_map(|node| match &*node {
        "uri" => Some("http"),
        "ipv4" | "ipv6" | "mac" => Some("pxe"),
        "cdrom" => Some("cd"),
        "usb" | "usbclass" | "usbwwid" => Some("usb"),
        "nvme" | "sata" | "scsi" | "sas" | "sasex" | "ata" | "fibre" | "emmc" | "sd" => {
            Some("disk")
        }
        "hd" => {
            has_partition = true;
            None
        }
        _ => None,
    });
    let kind = kinds.next();
    kind.or_else(|| has_partition.then_some("disk"))
}

/// Whether a name of a value is that of the order.
pub(super) fn is_named(wanted: &[Arc<str>]) -> bool {
    wanted.iter().any(|name| &**name == NAME)
}

/// The name of the order among the values of a machine.
pub(super) const NAME: &str = "boot.order";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_path_tells_the_kind_of_what_is_booted() {
        let network = "PciRoot(0x0)/Pci(0x1C,0x0)/MAC(525400123456,0x1)";
        let table = [
            (format!("{network}/IPv4(0.0.0.0)"), Some("pxe")),
            (format!("{network}/IPv6(::)/Uri()"), Some("http")),
            (
                "PciRoot(0x0)/Pci(0x1,0x0)/NVMe(0x1,00-00)/HD(1,GPT,0,0x800,0x1000)".to_owned(),
                Some("disk"),
            ),
            (
                "PciRoot(0x0)/Pci(0x14,0x0)/USB(0x2,0x0)".to_owned(),
                Some("usb"),
            ),
            (
                "PciRoot(0x0)/Pci(0x14,0x0)/USB(0x2,0x0)/CDROM(0x1)".to_owned(),
                Some("cd"),
            ),
            (
                "PciRoot(0x0)/Pci(0x14,0x0)/USB(0x2,0x0)/HD(1,GPT,0,0x800,0x1000)".to_owned(),
                Some("usb"),
            ),
            ("HD(1,GPT,0,0x800,0x1000)".to_owned(), Some("disk")),
            ("Fv(7CB8BDC9)/FvFile(7C04A583)".to_owned(), None),
            (String::new(), None),
        ];
        for (path, kind) in table {
            assert_eq!(of_path(&path), kind, "{path}");
        }
    }
}
