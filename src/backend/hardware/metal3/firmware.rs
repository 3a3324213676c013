//! The objects in which the operator has firmware and settings of a host: HostFirmwareSettings with their FirmwareSchema,
//! HostFirmwareComponents, and the HostUpdatePolicy that has both applied to a machine in use. Each is called like its host.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Metal3;
use super::resource::{Hardware, Host, Metadata, ObjectReference};
use crate::backend::api_server::{ApiError, or_empty};
use crate::backend::hardware::provided::Provided;
use crate::backend::hardware::terms::Terms;

/// The resource of HostFirmwareSettings.
pub(super) const SETTINGS: &str = "hostfirmwaresettings";
/// The resource of HostFirmwareComponents.
pub(super) const COMPONENTS: &str = "hostfirmwarecomponents";
/// The resource of HostUpdatePolicies.
pub(super) const POLICIES: &str = "hostupdatepolicies";
const SCHEMAS: &str = "firmwareschemas";

/// One of these objects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Firmware {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: FirmwareSpec,
    #[serde(deserialize_with = "or_empty")]
    pub(super) status: FirmwareStatus,
}

/// The spec of all of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FirmwareSpec {
    /// The settings that are wanted.
    #[serde(deserialize_with = "or_empty")]
    pub(super) settings: BTreeMap<String, Value>,
    /// The updates that are wanted.
    #[serde(deserialize_with = "or_empty")]
    pub(super) updates: Vec<Update>,
    /// When settings are applied.
    pub(super) firmware_settings: Option<String>,
    /// When updates are applied.
    pub(super) firmware_updates: Option<String>,
    /// The terms of settings, by their names.
    #[serde(deserialize_with = "or_empty")]
    schema: BTreeMap<String, Value>,
}

/// An update of a component.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Update {
    #[serde(deserialize_with = "or_empty")]
    pub(super) component: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) url: String,
}

/// The status of all of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FirmwareStatus {
    /// The settings as the machine has them.
    #[serde(deserialize_with = "or_empty")]
    settings: Map<String, Value>,
    /// The components of the machine.
    #[serde(deserialize_with = "or_empty")]
    components: Vec<Component>,
    /// Where the terms of settings are.
    schema: Option<ObjectReference>,
    #[serde(deserialize_with = "or_empty")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Component {
    #[serde(deserialize_with = "or_empty")]
    component: String,
    #[serde(deserialize_with = "or_empty")]
    current_version: String,
    #[serde(deserialize_with = "or_empty")]
    initial_version: String,
}

/// A finding of the operator about the spec of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type", deserialize_with = "or_empty")]
    kind: String,
    #[serde(deserialize_with = "or_empty")]
    status: String,
    #[serde(deserialize_with = "or_empty")]
    message: String,
    #[serde(deserialize_with = "or_empty")]
    observed_generation: i64,
}

/// The operator's finding about a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Nothing yet.
    None,
    /// It will be applied at the next restart, or is so already.
    Taken,
    /// It is refused; why.
    Refused(String),
}

impl Firmware {
    /// The operator's finding about the spec that the object has now.
    pub(super) fn finding(&self) -> Finding {
        let generation = self.metadata.generation;
        let of = |kind: &str| {
            let mut conditions = self.status.conditions.iter();
            conditions.find(|each| each.kind == kind && each.observed_generation >= generation)
        };
        match of("Valid") {
            Some(valid) if valid.status == "False" => Finding::Refused(valid.message.clone()),
            Some(_) => Finding::Taken,
            None => Finding::None,
        }
    }
}

impl Metal3 {
    /// The values of a host, of those that are named by `wanted`. What has no object is not shown.
    pub(super) async fn values(
        &self,
        host: &Host,
        wanted: &[Arc<str>],
    ) -> Result<Provided, ApiError> {
        let mut values = Provided::default();
        self.read_values(&mut values, host, wanted).await?;
        Ok(values)
    }

    /// Adds these values. An error of one object does not keep the others from being read.
    pub(super) async fn read_values(
        &self,
        values: &mut Provided,
        host: &Host,
        wanted: &[Arc<str>],
    ) -> Result<(), ApiError> {
        let name = &host.metadata.name;
        let has = |part: &str| wanted.iter().any(|name| name.starts_with(part));
        if let Some(hardware) = host.status.hardware.as_ref().filter(|_| has("expect.")) {
            add_parts(values, hardware);
        }
        let settings = match has("bios.") {
            true => self.read_settings(values, name).await,
            false => Ok(()),
        };
        let components = match has("firmware.") {
            true => self.read_components(values, name).await,
            false => Ok(()),
        };
        settings.and(components)
    }

    async fn read_settings(&self, values: &mut Provided, name: &str) -> Result<(), ApiError> {
        let management = &self.management;
        if let Some(settings) = management.beside::<Firmware>(SETTINGS, name).await? {
            let schema = match &settings.status.schema {
                Some(schema) => management.beside::<Firmware>(SCHEMAS, &schema.name).await?,
                None => None,
            };
            let schema = schema.map(|schema| schema.spec.schema).unwrap_or_default();
            let terms = schema
                .into_iter()
                .map(|(name, entry)| (name, as_ironic(&entry)));
            let terms: Vec<(String, Value)> = terms.collect();
            let terms = terms.iter().map(|(name, entry)| (&**name, entry));
            values.has_bios(settings.status.settings, Terms::of_provisioner(terms));
        }
        Ok(())
    }

    async fn read_components(&self, values: &mut Provided, name: &str) -> Result<(), ApiError> {
        let management = &self.management;
        if let Some(components) = management.beside::<Firmware>(COMPONENTS, name).await? {
            for each in components.status.components {
                let version = match each.current_version.is_empty() {
                    true => each.initial_version,
                    false => each.current_version,
                };
                values.has_component(&each.component, &version);
            }
        }
        Ok(())
    }
}

/// The parts that an inspection found. The operator leaves out a list that is empty, so that one that is missing counts nothing.
fn add_parts(values: &mut Provided, hardware: &Hardware) {
    if hardware.ram_mebibytes > 0 {
        values.has_part("expect.memory_gib", hardware.ram_mebibytes / 1024);
    }
    let lists = [
        ("expect.drives", hardware.storage.len()),
        ("expect.nics", hardware.nics.len()),
    ];
    for (name, count) in lists.into_iter().filter(|(_, count)| *count > 0) {
        values.has_part(name, count);
    }
}

/// The terms of a setting under the names that Ironic has for them: the operator renames them only.
fn as_ironic(entry: &Value) -> Value {
    json!({
        "attribute_type": entry.get("attributeType"),
        "allowable_values": entry.get("allowableValues"),
        "lower_bound": entry.get("lowerBound"),
        "upper_bound": entry.get("upperBound"),
        "read_only": entry.get("readOnly"),
        "unique": entry.get("unique"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_inspection_does_not_list_is_not_counted_as_none() {
        let parts = |hardware: Value| {
            let mut values = Provided::default();
            add_parts(&mut values, &serde_json::from_value(hardware).unwrap());
            let parts = values.seen.into_iter();
            let parts = parts.map(|(name, value)| format!("{name}: {value}"));
            parts.collect::<Vec<_>>()
        };
        assert!(parts(json!({})).is_empty());
        let nics = json!([{"mac": "52:54:00:00:00:01"}, {"mac": "52:54:00:00:00:02"}]);
        let hardware = json!({"ramMebibytes": 2048, "nics": nics, "storage": null});
        assert_eq!(parts(hardware), ["expect.memory_gib: 2", "expect.nics: 2"]);
    }

    #[test]
    fn what_is_unique_to_a_machine_is_not_learned_from_a_schema() {
        let schema = json!({
            "Turbo": {"attribute_type": "Enumeration"},
            "Own": {"attributeType": "String", "unique": true},
        });
        let schema = schema.as_object().unwrap().iter();
        let terms = schema.map(|(name, entry)| (name.clone(), as_ironic(entry)));
        let terms: Vec<(String, Value)> = terms.collect();
        let terms = Terms::of_provisioner(terms.iter().map(|(name, entry)| (&**name, entry)));
        let settings = json!({"Turbo": "Enabled", "Own": "X1"});
        let mut values = Provided::default();
        values.has_bios(settings.as_object().unwrap().clone(), terms);
        let learned: Vec<_> = values.learned().seen.into_keys().collect();
        assert_eq!(learned, [Arc::from("bios.Turbo")]);
    }
}
