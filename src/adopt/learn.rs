//! The Hardware document of what a machine shows, as a person would write it.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::design::{NodeDesign, kind};
use crate::diagnostic::{Mark, SourceId};
use crate::document::{Map, Node, Value, node_from_json, write_yaml};
use crate::observed::HardwareSeen;

/// The parts of a document, in the order in which it has them.
const PARTS: [&str; 5] = ["firmware", "bios", "boot", "bmc", "expect"];

/// The values that a document has as lists.
const LISTS: [(&str, &str); 3] = [("boot", "order"), ("bmc", "ntp"), ("bmc", "services_off")];
/// Words of a controller for a setting that it does not have.
const NOTHING: [&str; 2] = ["none", "off"];

/// Writes the document of a machine's values. It selects the machines of its hardware profile, and only reports.
#[must_use]
pub fn hardware_document(node: &NodeDesign, name: Option<&str>, seen: &HardwareSeen) -> String {
    let profile = node.hardware_profile.as_ref();
    let selector = match profile {
        Some(profile) => json!({ "profiles": [profile] }),
        None => json!({ "node_names": [node.name.as_str()] }),
    };
    let otherwise = profile.map_or(node.name.as_str(), |profile| profile);
    let mut data = Map::new();
    data.set("mode", node_of(&json!("report")));
    data.set("selectors", node_of(&json!([selector])));
    for part in PARTS {
        let values = seen.iter().filter_map(|(name, value)| {
            let (of, name) = name.split_once('.')?;
            let is_nothing = part == "bmc" && NOTHING.contains(&&**value);
            let is_written = of == part && !value.trim().is_empty() && !is_nothing;
            is_written.then(|| (name.to_owned(), written((part, name), value)))
        });
        let values: serde_json::Map<String, Json> = values.collect();
        if !values.is_empty() {
            data.set(part, node_of(&Json::Object(values)));
        }
    }
    let mut document = Map::new();
    document.set("schema", node_of(&json!(kind::HARDWARE)));
    let name = json!({"name": name.unwrap_or(otherwise)});
    document.set("metadata", node_of(&name));
    document.set("data", Node::new(Value::Map(Arc::new(data)), nowhere()));
    let mut text = String::new();
    let document = Node::new(Value::Map(Arc::new(document)), nowhere());
    write_yaml(&document, true, &mut text);
    text
}

/// The place of what is written nowhere.
fn nowhere() -> Mark {
    Mark::new(SourceId(0), 0)
}

fn node_of(value: &Json) -> Node {
    node_from_json(value, nowhere())
}

/// A value in the type that the document has for it. A text that a document would read as something else is quoted where it is
/// written.
fn written((part, name): (&str, &str), value: &Arc<str>) -> Json {
    if LISTS.contains(&(part, name)) {
        return json!(value.split(", ").collect::<Vec<_>>());
    }
    match (part, value.parse::<u64>()) {
        ("firmware", _) => json!({ "version": value }),
        ("expect", Ok(number)) => json!(number),
        (_, Ok(number)) if number.to_string() == **value => json!(number),
        _ => match &**value {
            "true" => json!(true),
            "false" => json!(false),
            text => json!(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Section;
    use crate::design::fixture::{document, site};

    #[test]
    fn what_is_written_is_read_as_what_was_seen() {
        let values = [
            ("bios.Boot", "UEFI: disk"),
            ("bios.Cores", "8"),
            ("bios.Mode", "yes"),
            ("bios.Octal", "010"),
            ("bios.Turbo", "true"),
            ("bios.Empty", ""),
            ("bmc.ntp", "10.0.0.1, 10.0.0.2"),
            ("bmc.services_off", "ipmi, telnet"),
            ("boot.order", "disk, pxe"),
            ("boot.secure_boot", "false"),
            ("expect.cpus", "2"),
            ("expect.memory_gib", "512"),
            ("firmware.bios", "2.10"),
            ("firmware.nic:1", "14.0_a #2"),
        ];
        let seen = values.map(|(name, value)| (Arc::from(name), Arc::from(value)));
        let seen: HardwareSeen = seen.into();
        let machine = document(kind::NODE, "n1", "{}");
        let text = hardware_document(&site(&machine).design.nodes["n1"], Some("all"), &seen);
        let begin = "schema: trueup/Hardware/v1\nmetadata:\n  name: all\ndata:\n  mode: report\n  selectors:\n";
        assert!(text.starts_with(begin), "{text}");
        let read = site(&format!("{machine}---\n{text}"));
        let read = read.design.nodes["n1"].hardware(Section::Expected);
        let read = read.into_iter().map(|each| (each.name, each.value));
        let read: HardwareSeen = read.collect();
        let mut expected = seen;
        expected.remove("bios.Empty");
        assert_eq!(read, expected, "{text}");
    }
}
