//! Attributes of the BIOS: the types and the limits that the registry of a controller has for them, as the controller or a
//! provisioner shows it, and values in the form in which they are set.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::http::plain;
use crate::diagnostic::nearest;
use crate::observed::HardwareSeen;

/// Most attributes that are read from a registry.
const MOST: usize = 10_000;

/// The terms of the attributes that a registry lists, by their names.
#[derive(Debug, Default)]
pub(super) struct Terms {
    by_name: HashMap<Arc<str>, AttributeTerms>,
    /// A provisioner shows them, which writes truths in Python's words.
    is_provisioner: bool,
}

/// The terms of one attribute.
#[derive(Debug, Default)]
struct AttributeTerms {
    kind: Option<Kind>,
    is_read_only: bool,
    /// A password, or a value of this machine alone.
    is_own: bool,
    /// The values that it may have; empty: not listed.
    values: Vec<Arc<str>>,
    lowest: Option<i64>,
    highest: Option<i64>,
}

/// The types of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Truth,
    Number,
    Text,
}

impl Kind {
    fn of(word: &Value) -> Option<Self> {
        match word.as_str() {
            Some("Boolean") => Some(Self::Truth),
            Some("Integer") => Some(Self::Number),
            Some("String" | "Enumeration" | "Password") => Some(Self::Text),
            _ => None,
        }
    }
}

impl Terms {
    /// Reads a registry of Redfish.
    pub(super) fn of_registry(registry: &Value) -> Self {
        let entries = registry.pointer("/RegistryEntries/Attributes");
        let entries = entries.and_then(Value::as_array).into_iter().flatten();
        let entries = entries.filter_map(|entry| {
            let name = entry.get("AttributeName")?.as_str()?;
            Some((Arc::from(name), AttributeTerms::of(entry)))
        });
        Self {
            by_name: entries.take(MOST).collect(),
            is_provisioner: false,
        }
    }

    /// Reads what Ironic and Metal3 show of a registry: an entry for each name.
    pub(super) fn of_provisioner<'e>(entries: impl Iterator<Item = (&'e str, &'e Value)>) -> Self {
        let entries = entries.map(|(name, entry)| (Arc::from(name), AttributeTerms::shown(entry)));
        Self {
            by_name: entries.take(MOST).collect(),
            is_provisioner: true,
        }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.by_name.get(name).and_then(|terms| terms.kind)
    }

    /// Whether a text is a truth in Python's words, if no type says more.
    fn is_python_truth(&self, text: &str) -> bool {
        self.is_provisioner && matches!(text, "True" | "False")
    }

    /// The values of a machine that others can have, too: all but those of attributes that are its own. Every backend asks this.
    pub(super) fn learned(&self, mut seen: HardwareSeen) -> HardwareSeen {
        seen.retain(|name, _| {
            let attribute = name.strip_prefix("bios.");
            // Volumes in words are no document, and whether others are to have them is not seen.
            !name.starts_with("raid.")
                && attribute.is_none_or(|attribute| self.is_common(attribute))
        });
        seen
    }

    /// Whether an attribute can be the same on other machines: it can be set, and is neither a password nor named like what
    /// a machine has for itself alone.
    fn is_common(&self, name: &str) -> bool {
        const OWN: [&str; 15] = [
            "asset",
            "credential",
            "guid",
            "hostname",
            "host_name",
            "macaddr",
            "passphrase",
            "passwd",
            "password",
            "pwd",
            "secret",
            "serial",
            "servicetag",
            "service_tag",
            "uuid",
        ];
        let word = name.to_ascii_lowercase();
        let terms = self.by_name.get(name);
        // Within another word it means nothing (`MachineCheck`).
        let is_mac = name.contains("MAC") || word.starts_with("mac_") || word.ends_with("mac");
        !is_mac
            && !OWN.iter().any(|own| word.contains(own))
            && terms.is_none_or(|terms| !terms.is_read_only && !terms.is_own)
    }

    /// The value of an attribute in the form in which documents have it. A provisioner that writes truths in Python's words
    /// has the same.
    pub(super) fn display_value(&self, name: &str, value: &Value) -> Option<String> {
        let is_truth = |text: &str| match self.kind(name) {
            Some(kind) => kind == Kind::Truth,
            None => self.is_python_truth(text),
        };
        match value {
            Value::String(text) if is_truth(text) => Some(text.to_ascii_lowercase()),
            Value::String(text) => Some(text.clone()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl AttributeTerms {
    fn shown(entry: &Value) -> Self {
        let values = entry.get("allowable_values").and_then(Value::as_array);
        let values = values.into_iter().flatten().take(MOST);
        Self {
            kind: entry.get("attribute_type").and_then(Kind::of),
            is_read_only: entry.get("read_only").and_then(Value::as_bool) == Some(true),
            is_own: is_password(entry.get("attribute_type"))
                || entry.get("unique").and_then(Value::as_bool) == Some(true),
            values: values.filter_map(Value::as_str).map(Arc::from).collect(),
            lowest: entry.get("lower_bound").and_then(Value::as_i64),
            highest: entry.get("upper_bound").and_then(Value::as_i64),
        }
    }

    fn of(entry: &Value) -> Self {
        let values = entry.get("Value").and_then(Value::as_array);
        let names = values.into_iter().flatten().take(MOST);
        let names = names.filter_map(|value| value.get("ValueName")?.as_str());
        Self {
            kind: entry.get("Type").and_then(Kind::of),
            is_read_only: entry.get("ReadOnly").and_then(Value::as_bool) == Some(true),
            is_own: is_password(entry.get("Type"))
                || entry.get("IsSystemUniqueProperty").and_then(Value::as_bool) == Some(true),
            values: names.map(Arc::from).collect(),
            lowest: entry.get("LowerBound").and_then(Value::as_i64),
            highest: entry.get("UpperBound").and_then(Value::as_i64),
        }
    }

    /// The value as JSON, or why the attribute cannot have it; `now`: its value now.
    fn value(&self, name: &str, wanted: &str, now: &Value) -> Result<Value, String> {
        let kind = self.kind.unwrap_or(match now {
            Value::Bool(_) => Kind::Truth,
            Value::Number(_) => Kind::Number,
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => Kind::Text,
        });
        if self.is_read_only {
            return Err(format!("its BIOS has `{name}` as read-only"));
        }
        match kind {
            Kind::Truth => match wanted {
                "true" | "false" => Ok(Value::Bool(wanted == "true")),
                _ => Err(format!("`{name}` of its BIOS is true or false")),
            },
            Kind::Number => {
                let number = wanted.parse::<i64>();
                let number =
                    number.map_err(|_| format!("`{name}` of its BIOS is a whole number"))?;
                let too_low = self.lowest.filter(|lowest| number < *lowest);
                let too_high = self.highest.filter(|highest| number > *highest);
                match (too_low, too_high) {
                    (Some(bound), _) => {
                        Err(format!("`{name}` of its BIOS is not less than {bound}"))
                    }
                    (_, Some(bound)) => {
                        Err(format!("`{name}` of its BIOS is not more than {bound}"))
                    }
                    (None, None) => Ok(Value::from(number)),
                }
            }
            Kind::Text if self.values.is_empty() || self.values.iter().any(|v| **v == *wanted) => {
                Ok(Value::from(wanted))
            }
            Kind::Text => {
                const MOST_TOLD: usize = 12;
                let values = self.values.iter().take(MOST_TOLD);
                let values: Vec<String> = values.map(|value| plain(value, 40)).collect();
                let more = match self.values.len() > MOST_TOLD {
                    true => ", …",
                    false => "",
                };
                Err(format!(
                    "its BIOS has no value `{wanted}` for `{name}`, but: {}{more}",
                    values.join(", ")
                ))
            }
        }
    }
}

fn is_password(kind: Option<&Value>) -> bool {
    kind.and_then(Value::as_str) == Some("Password")
}

/// The value of an attribute as it is to be set, or why it cannot be: by the attributes of the BIOS, and the terms of their
/// registry if those were read.
pub(super) fn value_of(
    attributes: Option<&Map<String, Value>>,
    terms: Option<&Terms>,
    name: &str,
    wanted: &str,
) -> Result<Value, String> {
    let Some(now) = attributes.and_then(|attributes| attributes.get(name)) else {
        let names = attributes.into_iter().flatten().map(|(name, _)| &**name);
        let meant = nearest(name, names).map_or_else(String::new, |meant| {
            format!("; did you mean `{}`?", plain(meant, 80))
        });
        return Err(format!("its BIOS has no attribute `{name}`{meant}"));
    };
    let truth = Value::Bool(true);
    let now = match (terms, now) {
        (Some(terms), Value::String(text)) if terms.is_python_truth(text) => &truth,
        _ => now,
    };
    let none = AttributeTerms::default();
    let terms = terms.and_then(|terms| terms.by_name.get(name));
    terms.unwrap_or(&none).value(name, wanted, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_set_in_the_type_of_its_attribute_and_refused_where_its_registry_refuses_it() {
        let bios = json!({
            "Turbo": "Disabled", "NumLock": true, "Cores": 4, "Serial": "X", "Mode": "Uefi", "Empty": null,
        });
        let bios = bios.as_object();
        let registry = json!({"RegistryEntries": {"Attributes": [
            {"AttributeName": "Turbo", "Type": "Enumeration", "Value": [{"ValueName": "Enabled"}, {"ValueName": "Disabled"}]},
            {"AttributeName": "Cores", "Type": "Integer", "LowerBound": 2, "UpperBound": 8},
            {"AttributeName": "Serial", "Type": "String", "ReadOnly": true},
            {"AttributeName": "Empty", "Type": "Boolean"},
            {"Type": "Integer"},
        ]}});
        let terms = Terms::of_registry(&registry);
        let no_enum = "its BIOS has no value `On` for `Turbo`, but: Enabled, Disabled";
        let table: [(&str, &str, Result<Value, &str>); 12] = [
            ("Turbo", "Enabled", Ok(json!("Enabled"))),
            ("Turbo", "On", Err(no_enum)),
            ("NumLock", "false", Ok(json!(false))),
            (
                "NumLock",
                "off",
                Err("`NumLock` of its BIOS is true or false"),
            ),
            ("Cores", "8", Ok(json!(8))),
            ("Cores", "9", Err("`Cores` of its BIOS is not more than 8")),
            ("Cores", "1", Err("`Cores` of its BIOS is not less than 2")),
            ("Cores", "all", Err("`Cores` of its BIOS is a whole number")),
            ("Serial", "Y", Err("its BIOS has `Serial` as read-only")),
            ("Mode", "Bios", Ok(json!("Bios"))),
            ("Empty", "true", Ok(json!(true))),
            (
                "Tubro",
                "Enabled",
                Err("its BIOS has no attribute `Tubro`; did you mean `Turbo`?"),
            ),
        ];
        for (name, wanted, expected) in table {
            let value = value_of(bios, Some(&terms), name, wanted);
            assert_eq!(value, expected.map_err(str::to_owned), "{name} {wanted}");
        }
        // Without a registry the value of now tells the type.
        assert_eq!(value_of(bios, None, "Cores", "9"), Ok(json!(9)));
        assert_eq!(value_of(bios, None, "Turbo", "On"), Ok(json!("On")));
    }

    #[test]
    fn what_is_learned_has_nothing_of_the_machine_alone_whether_there_is_a_registry_or_not() {
        let own = [
            "AdminPwd",
            "AssetTag",
            "HostName",
            "IscsiSecret",
            "NIC1_MAC",
            "NicMac",
            "SystemSerialNumber",
            "SystemUUID",
            "TpmPassphrase",
        ];
        let common = ["MachineCheck", "Turbo"];
        let seen = own.iter().chain(&common).map(|name| format!("bios.{name}"));
        let seen = seen.chain(["firmware.mac".to_owned()]);
        let seen: HardwareSeen = seen.map(|name| (Arc::from(name), Arc::from("x"))).collect();
        let registry = json!({"RegistryEntries": {"Attributes": [{"AttributeName": "Turbo"}]}});
        for terms in [Terms::default(), Terms::of_registry(&registry)] {
            let learned = terms.learned(seen.clone());
            let names: Vec<&str> = learned.keys().map(|name| &**name).collect();
            assert_eq!(names, ["bios.MachineCheck", "bios.Turbo", "firmware.mac"]);
        }
    }

    #[test]
    fn a_registry_that_a_provisioner_shows_has_the_same_terms() {
        let bios = json!({"Turbo": "Disabled", "NumLock": "True", "Cores": "4", "Serial": "X"});
        let entries = json!({
            "Turbo": {"attribute_type": "Enumeration", "allowable_values": ["Enabled", "Disabled"]},
            "NumLock": {"attribute_type": "Boolean", "lower_bound": null},
            "Cores": {"attribute_type": "Integer", "lower_bound": 2, "upper_bound": 8},
            "Serial": {"attribute_type": "String", "read_only": true},
        });
        let entries = entries.as_object().unwrap();
        let terms = Terms::of_provisioner(entries.iter().map(|(name, entry)| (&**name, entry)));
        let of = |name: &str, wanted: &str| value_of(bios.as_object(), Some(&terms), name, wanted);
        assert_eq!(of("Turbo", "Enabled"), Ok(json!("Enabled")));
        assert!(of("Turbo", "On").is_err() && of("Cores", "9").is_err());
        assert_eq!(of("Cores", "8"), Ok(json!(8)));
        assert_eq!(of("NumLock", "false"), Ok(json!(false)));
        assert!(of("Serial", "Y").unwrap_err().contains("read-only"));
        assert_eq!(
            terms.display_value("NumLock", &json!("True")).as_deref(),
            Some("true")
        );
        assert_eq!(
            terms.display_value("Turbo", &json!("Disabled")).as_deref(),
            Some("Disabled")
        );
        assert_eq!(terms.display_value("Turbo", &json!(null)), None);
        // Without the terms of an attribute its value of now tells that it is a truth; one of a registry stays as it is.
        let bios = json!({"Boot": "False", "Word": "Truely"});
        let set = |terms: &Terms, name: &str, wanted: &str| {
            value_of(bios.as_object(), Some(terms), name, wanted)
        };
        let shown = |terms: &Terms, name: &str| terms.display_value(name, &bios[name]);
        assert_eq!(shown(&terms, "Boot").as_deref(), Some("false"));
        assert_eq!(shown(&terms, "Word").as_deref(), Some("Truely"));
        assert_eq!(set(&terms, "Boot", "true"), Ok(json!(true)));
        let registry = Terms::of_registry(&json!({}));
        assert_eq!(shown(&registry, "Boot").as_deref(), Some("False"));
        assert_eq!(set(&registry, "Boot", "True"), Ok(json!("True")));
    }
}
