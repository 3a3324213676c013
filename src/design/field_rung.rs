//! How far a difference in a field of a document goes with a machine that is in service.

use super::boot_action::EFFECT_FIELDS;
use super::inherit::FIELDS;
use super::network::{LINK_FIELDS, NETWORK_FIELDS};
use super::{Rung, Section, kind};

/// The lowest rung that brings a difference in a field true; `path`: where the field stands in `data`. `None`: nothing of it is
/// on a machine, or it is not about machines.
#[must_use]
pub fn rung_of_field(kind: &str, path: &[String]) -> Option<Rung> {
    let first = path.first()?.as_str();
    let of_effect = |effect: &[&str], section: Section| {
        let is_on_machine = effect.contains(&first);
        is_on_machine.then(|| section.lowest_rung())
    };
    match kind {
        kind::NODE | kind::HOST_PROFILE => {
            let stands = |names: &[&str]| {
                path.len() >= names.len() && names.iter().zip(path).all(|(name, own)| name == own)
            };
            let field = FIELDS.iter().find(|field| stands(field.path));
            field.map(|field| field.section.lowest_rung())
        }
        kind::HARDWARE_PROFILE => Some(Section::Hardware.lowest_rung()),
        kind::NETWORK => of_effect(&NETWORK_FIELDS, Section::Network),
        kind::NETWORK_LINK => of_effect(&LINK_FIELDS, Section::Network),
        kind::BOOT_ACTION => of_effect(&EFFECT_FIELDS, Section::BootActions),
        kind::HARDWARE => match (first, path.get(2).map(String::as_str)) {
            // Terms of a change, and not a value of the machine.
            ("firmware", Some(term)) if term != "version" => None,
            ("firmware" | "bios" | "boot", _) => Some(Section::Firmware.lowest_rung()),
            ("bmc", _) => Some(Rung::Live),
            ("raid", _) => Some(Section::Raid.lowest_rung()),
            ("expect", _) => Some(Section::Expected.lowest_rung()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_the_rung_of_its_section() {
        let table: [(&str, &str, Option<Rung>); 14] = [
            (kind::NODE, "platform.image", Some(Rung::Reinstall)),
            (
                kind::HOST_PROFILE,
                "storage.physical_devices",
                Some(Rung::Wipe),
            ),
            (kind::NODE, "metadata.owner_data", Some(Rung::Live)),
            (kind::NODE, "metadata.rack", Some(Rung::Record)),
            (kind::NODE, "metadata", None),
            (kind::NETWORK, "mtu", Some(Rung::Reinstall)),
            (kind::NETWORK, "ranges", None),
            (kind::HARDWARE, "firmware.bios.version", Some(Rung::Restart)),
            (kind::HARDWARE, "firmware.bios.from", None),
            (kind::HARDWARE, "bios.Turbo", Some(Rung::Restart)),
            (kind::HARDWARE, "bmc.ntp", Some(Rung::Live)),
            (kind::HARDWARE, "raid.volumes", Some(Rung::Wipe)),
            (kind::HARDWARE, "mode", None),
            (kind::POLICY, "disruption", None),
        ];
        for (kind, path, rung) in table {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            assert_eq!(rung_of_field(kind, &path), rung, "{kind} {path:?}");
        }
    }
}
