//! The maker and the firmware of a machine, as it shows them itself, and the clean steps that only compare them with its design.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{NodeDesign, Section};

/// Its maker and its firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Built {
    /// Its maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maker: Option<Arc<str>>,
    /// The version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Arc<str>>,
}

impl Built {
    /// Why a clean step fails on the machine: its hardware profile says otherwise. A step that does more than compare fails
    /// for nothing that is known before.
    #[must_use]
    pub fn fails(&self, step: &str, node: &NodeDesign) -> Option<String> {
        let wanted = |name: &str| {
            let hardware = node.sections.get(&Section::Hardware)?;
            let text = hardware.at(&["hardware_profile", name])?.scalar_text()?;
            Some(text.into_owned())
        };
        match step {
            "management.verify_properties" => {
                let (found, wanted) = (self.maker.as_deref()?, wanted("vendor")?);
                let is_it = found.to_lowercase().contains(&wanted.to_lowercase());
                (!is_it)
                    .then(|| format!("it was made by {found}, its hardware profile says {wanted}"))
            }
            "firmware.verify_firmware" => {
                let wanted = wanted("bios_version")?;
                let found = self.firmware.as_deref().unwrap_or("none");
                (found != wanted).then(|| {
                    format!(
                        "its firmware has the version {found}, its hardware profile says {wanted}"
                    )
                })
            }
            _ => None,
        }
    }
}
