//! The state of the objects of a host's firmware before a service, as a note of its run keeps it.
//!
//! Only what the step itself changes is noted, and no address that may hold credentials: notes last.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::firmware::{Firmware, FirmwareSpec, Update};
use crate::design::HardwareSetting;

/// Most bytes of a value that is noted.
const LONGEST: usize = 2000;

/// The state of the objects of a host before a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Before {
    /// The fields of its policy; `None`: it had none, or one that the step made.
    pub(super) policy: Option<Policy>,
    /// The settings of the step, by name; null: they were not wanted.
    pub(super) settings: Map<String, Value>,
    /// The components of the step, each with the address of its update; `None`: none was wanted.
    pub(super) updates: Vec<(String, Option<String>)>,
}

/// When a policy has settings and updates applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policy(Option<String>, Option<String>);

impl Policy {
    pub(super) fn of(policy: &Firmware) -> Self {
        let spec = &policy.spec;
        Self(
            spec.firmware_settings.clone(),
            spec.firmware_updates.clone(),
        )
    }

    /// Whether it has one of both applied so.
    pub(super) fn has(&self, word: &str) -> bool {
        [&self.0, &self.1]
            .into_iter()
            .any(|when| when.as_deref() == Some(word))
    }

    /// The fields that set a policy back, of those that are still as the step has set them (`own`); `None`: there are none.
    pub(super) fn back(&self, seen: &Firmware, own: &str) -> Option<Value> {
        let mut spec = Map::new();
        let now = Self::of(seen);
        for (name, now, before) in [
            ("firmwareSettings", now.0, &self.0),
            ("firmwareUpdates", now.1, &self.1),
        ] {
            if now.as_deref() == Some(own) && now != *before {
                spec.insert(name.to_owned(), json!(before));
            }
        }
        (!spec.is_empty()).then_some(Value::Object(spec))
    }
}

impl Before {
    /// The note of a step, and the components of which it cannot: their addresses hold credentials or a query, or are too
    /// long. `policy`: that of another client.
    pub(super) fn of(
        settings: &[HardwareSetting],
        firmware: &FirmwareSpec,
        components: &FirmwareSpec,
        policy: Option<&Firmware>,
    ) -> (Self, Vec<String>) {
        let mut before = Self {
            policy: policy.map(Policy::of),
            ..Self::default()
        };
        let mut lost = Vec::new();
        for setting in settings {
            if let Some(name) = setting.name.strip_prefix("bios.") {
                let value = firmware.settings.get(name);
                let value = value.filter(|value| value.to_string().len() <= LONGEST);
                let value = value.cloned().unwrap_or_default();
                before.settings.insert(name.to_owned(), value);
            }
            if let Some(name) = setting.name.strip_prefix("firmware.") {
                let update = components.updates.iter();
                let mut update = update.filter(|update| update.component == name);
                let url = update.next().map(|update| &update.url);
                let noted = url.filter(|url| can_be_noted(url)).cloned();
                if url.is_some() && noted.is_none() {
                    lost.push(name.to_owned());
                }
                before.updates.push((name.to_owned(), noted));
            }
        }
        (before, lost)
    }

    /// The content of the note of a step, if it has one.
    ///
    /// # Errors
    ///
    /// It cannot be read; why.
    pub(super) fn read(note: Option<&str>) -> Result<Option<Self>, String> {
        let read = note.map(serde_json::from_str).transpose();
        read.map_err(|error: serde_json::Error| error.to_string())
    }
}

/// Whether an address holds nothing that is secret, and is not too long.
fn can_be_noted(url: &str) -> bool {
    let parsed = reqwest::Url::parse(url);
    url.len() <= LONGEST
        && parsed.is_ok_and(|url| {
            url.username().is_empty() && url.password().is_none() && url.query().is_none()
        })
}

/// The updates of an object, with those of the components of a step as these are; what else is wanted stays.
pub(super) fn updates_with(seen: &[Update], own: &[(String, Option<String>)]) -> Value {
    let is_own = |component: &str| own.iter().any(|(name, _)| name == component);
    let kept = seen.iter().filter(|each| !is_own(&each.component));
    let kept = kept.map(|each| (&each.component, &each.url));
    let own = own
        .iter()
        .filter_map(|(name, url)| Some((name, url.as_ref()?)));
    let updates = kept.chain(own);
    let updates = updates.map(|(component, url)| json!({"component": component, "url": url}));
    Value::Array(updates.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn object(spec: Value) -> Firmware {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn setting(name: &str) -> HardwareSetting {
        HardwareSetting {
            name: Arc::from(name),
            before: None,
            value: Arc::from("x"),
        }
    }

    #[test]
    fn all_that_a_step_names_is_noted_and_nothing_else_and_no_credentials() {
        let names = [
            "bios.Turbo",
            "bios.Cores",
            "firmware.bmc",
            "firmware.bios",
            "firmware.nic:1",
            "firmware.nic:2",
        ];
        let settings = names.map(setting);
        let firmware = object(json!({"settings": {"Cores": 4, "Other": "a"}}));
        let components = object(json!({"updates": [
            {"component": "bmc", "url": "http://images/bmc_7"},
            {"component": "bios", "url": "https://user:pass@images/bios"},
            {"component": "nic:1", "url": "https://images/nic?signature=x"},
            {"component": "other", "url": "https://user:pass@images/other"},
        ]}));
        let (before, lost) = Before::of(&settings, &firmware.spec, &components.spec, None);
        assert_eq!(lost, ["bios", "nic:1"]);
        assert_eq!(
            json!(before),
            json!({
                "policy": null,
                "settings": {"Turbo": null, "Cores": 4},
                "updates": [["bmc", "http://images/bmc_7"], ["bios", null], ["nic:1", null], ["nic:2", null]],
            })
        );
        assert_eq!(
            Before::read(Some(&json!(before).to_string())),
            Ok(Some(before))
        );
    }

    #[test]
    fn a_note_that_cannot_be_read_is_not_taken_for_none() {
        assert_eq!(Before::read(None), Ok(None));
        assert!(Before::read(Some("{\"policy\": 1")).is_err());
        assert!(Before::read(Some("{\"settings\": []}")).is_err());
    }

    #[test]
    fn the_updates_of_other_clients_stay_also_those_that_were_added_meanwhile() {
        let seen = object(json!({"updates": [
            {"component": "nic", "url": "n"}, {"component": "bmc", "url": "own"}, {"component": "new", "url": "w"},
        ]}));
        let own = [
            ("bmc".to_owned(), None),
            ("bios".to_owned(), Some("b".to_owned())),
        ];
        assert_eq!(
            updates_with(&seen.spec.updates, &own),
            json!([
                {"component": "nic", "url": "n"}, {"component": "new", "url": "w"}, {"component": "bios", "url": "b"},
            ])
        );
    }

    #[test]
    fn only_the_fields_of_a_policy_that_the_step_has_set_are_set_back() {
        let seen =
            object(json!({"firmwareSettings": "onReboot", "firmwareUpdates": "onPreparing"}));
        let before = Policy(None, Some("onReboot".to_owned()));
        assert_eq!(
            before.back(&seen, "onReboot"),
            Some(json!({"firmwareSettings": null}))
        );
        assert_eq!(Policy::of(&seen).back(&seen, "onReboot"), None);
    }
}
