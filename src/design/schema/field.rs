//! One field of a kind of document, as the schemas describe it: the reference that `trueup explain` prints.
//!
//! A path leads through maps by name, through maps of names to values by any name, and into the entries of lists by
//! itself or by `[]`. If a schema has alternatives, all of them are searched.

use serde::Serialize;
use serde_json::Value as Json;

use super::own;
use crate::design::{Rung, rung_of_field};
use crate::diagnostic::nearest;

/// References that are followed one after the other: the schemas have far fewer.
pub(super) const MOST_REFERENCES: usize = 16;
/// Maps within maps that are searched for a field: the documents have fewer.
const MOST_LEVELS: usize = 6;
/// The word for the envelope of every document.
pub const ENVELOPE: &str = "document";
/// The map of a document that holds the fields of its kind.
const DATA: &str = "data";
/// The place of an entry in a map whose keys are names.
const ANY_NAME: &str = "NAME";

/// A field, or a kind as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldReference {
    /// The kind of document (`drydock/HostProfile/v1`), or `document`.
    pub kind: String,
    /// The path in its data; empty for the kind.
    pub path: Vec<String>,
    /// The type, in words.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether what it stands in must have it.
    pub required: bool,
    /// The value if it is absent, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// The meaning, with the unit if it has one.
    pub description: String,
    /// The bounds of a value, in words.
    pub allowed: Vec<String>,
    /// How far a difference in it goes with a machine that is in service, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// Values as an example, as JSON.
    pub examples: Vec<Json>,
    /// The fields below it.
    pub fields: Vec<FieldSummary>,
}

/// A field below another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldSummary {
    /// Its name; `NAME` for any name.
    pub name: String,
    /// The type, in words.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it must be given.
    pub required: bool,
    /// The meaning.
    pub description: String,
}

/// Why a word names no field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoField {
    /// It does not begin with a kind.
    #[error("`{word}` is no kind of document")]
    Kind {
        /// The word.
        word: String,
        /// A kind that may be meant.
        near: Option<String>,
    },
    /// The kind has no such field.
    #[error("`{parent}` has no field `{name}`")]
    Field {
        /// The kind and the path that exists.
        parent: String,
        /// The first name that does not.
        name: String,
        /// A field that may be meant.
        near: Option<String>,
    },
}

/// The kinds that have a schema, in the order of their files, and the envelope.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    own::OWN.iter().map(|(kind, _)| *kind).chain([ENVELOPE])
}

/// Whether a word begins with a kind, so that it can only name a field.
#[must_use]
pub fn is_of_kind(word: &str) -> bool {
    kind_of(word).is_some()
}

/// Returns the field that a word names: a kind (`drydock/HostProfile/v1`, `drydock/HostProfile` or `HostProfile`), and
/// behind a `.` the path in its data, which may begin with `data.` as it stands in a document.
///
/// # Errors
///
/// It names none.
pub fn field(word: &str) -> Result<FieldReference, NoField> {
    let Some((kind, rest)) = kind_of(word) else {
        let wrong = word.split('.').next().unwrap_or(word);
        let shorts = kinds().map(short);
        return Err(NoField::Kind {
            word: wrong.to_owned(),
            near: nearest(wrong, shorts.chain(kinds().filter_map(name))).map(str::to_owned),
        });
    };
    let root = schema(kind);
    let mut place = Place::of(&root);
    let mut path: Vec<String> = Vec::new();
    let mut names = rest.split('.').filter(|name| !name.is_empty()).peekable();
    if place.child(DATA).is_none() {
        names.next_if_eq(&DATA);
    }
    for name in names {
        let name = name.trim_end_matches("[]");
        let Some(next) = place.child(name).filter(|_| !name.is_empty()) else {
            let fields = place.fields();
            let known = fields.iter().map(|field| field.name.as_str());
            let parent = std::iter::once(short(kind)).chain(path.iter().map(String::as_str));
            return Err(NoField::Field {
                parent: parent.collect::<Vec<_>>().join("."),
                name: name.to_owned(),
                near: nearest(name, known).map(str::to_owned),
            });
        };
        path.push(name.to_owned());
        place = next;
    }
    Ok(place.reference(kind, path))
}

/// The fields of all kinds that have a name, each as [`field`] takes it: `Policy.max_unavailable.per_rack`.
#[must_use]
pub fn fields_named(wanted: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in kinds() {
        let root = schema(kind);
        let place = Place::of(&root);
        // The data is left out of a path.
        let place = place.child(DATA).unwrap_or(place);
        let kind = name(kind).unwrap_or(kind);
        place.gather_named(wanted, kind, 0, &mut found);
    }
    found.sort_by_key(|path| path.matches('.').count());
    found
}

/// The kind that a word begins with, and the path behind it.
fn kind_of(word: &str) -> Option<(&'static str, &str)> {
    kinds().find_map(|kind| {
        let forms = [Some(kind), Some(short(kind)), name(kind)];
        forms.into_iter().flatten().find_map(|form| {
            let rest = word.strip_prefix(form)?;
            (rest.is_empty() || rest.starts_with('.')).then_some((kind, rest))
        })
    })
}

/// A kind without its version.
#[must_use]
pub fn short(kind: &'static str) -> &'static str {
    match kind.rsplit_once("/v") {
        Some((short, _)) => short,
        None => kind,
    }
}

fn name(kind: &'static str) -> Option<&'static str> {
    kind.split('/').nth(1)
}

fn schema(kind: &str) -> Json {
    let own = own::OWN.iter().find(|(own, _)| *own == kind);
    let text = own.map_or(own::DOCUMENT, |(_, text)| text);
    // They are compiled in, and a test reads all of them.
    serde_json::from_str(text).unwrap_or_default()
}

/// A place in a schema.
#[derive(Clone, Copy)]
struct Place<'s> {
    root: &'s Json,
    node: &'s Json,
    required: bool,
}

impl<'s> Place<'s> {
    fn of(root: &'s Json) -> Self {
        Self {
            root,
            node: root,
            required: true,
        }
    }

    fn at(self, node: &'s Json, required: bool) -> Self {
        Self {
            node,
            required,
            ..self
        }
    }

    /// The schemas that hold for this place, alternatives among them, the outermost first.
    fn all(self) -> Vec<&'s Json> {
        let mut found = Vec::new();
        let mut next = vec![(self.node, 0)];
        while let Some((node, depth)) = next.pop() {
            if depth > MOST_REFERENCES {
                continue;
            }
            found.push(node);
            let reference = node.get("$ref").and_then(Json::as_str);
            let local = reference.and_then(|reference| reference.strip_prefix('#'));
            let target = local.and_then(|pointer| self.root.pointer(pointer));
            let lists = ["allOf", "anyOf", "oneOf"].into_iter();
            let lists = lists.filter_map(|key| node.get(key)?.as_array()).flatten();
            let then = ["then", "else"].into_iter().filter_map(|key| node.get(key));
            let mut below: Vec<&Json> = target.into_iter().chain(lists).chain(then).collect();
            below.reverse();
            next.extend(below.into_iter().map(|node| (node, depth + 1)));
        }
        found
    }

    /// The entries of a list, if it is one.
    fn entries(self) -> Option<Self> {
        let mut all = self.all().into_iter();
        all.find_map(|node| node.get("items").filter(|items| items.is_object()))
            .map(|items| self.at(items, false))
    }

    /// The values of a map whose keys are names, if it is one.
    fn values(self) -> Option<Self> {
        let mut all = self.all().into_iter();
        let values = all.find_map(|node| {
            let patterns = node.get("patternProperties").and_then(Json::as_object);
            let pattern = patterns.and_then(|patterns| patterns.values().next());
            let others = node.get("additionalProperties");
            others.filter(|others| others.is_object()).or(pattern)
        });
        values.map(|values| self.at(values, false))
    }

    /// The named fields, the same one of several alternatives once.
    fn named(self) -> Vec<(&'s str, Self)> {
        let all = self.all();
        let mut found: Vec<(&str, Self)> = Vec::new();
        for node in &all {
            let properties = node.get("properties").and_then(Json::as_object);
            for (name, below) in properties.into_iter().flatten() {
                let is_described =
                    below.get("description").is_some() || below.get("$ref").is_some();
                let is_known = found.iter().any(|(known, _)| known == name);
                if is_known || !below.is_object() || (!is_described && below.get("type").is_none())
                {
                    continue;
                }
                let required = node.get("required").and_then(Json::as_array);
                let is_required =
                    required.is_some_and(|names| names.iter().any(|each| each == name.as_str()));
                found.push((name, self.at(below, is_required)));
            }
        }
        found
    }

    fn child(self, name: &str) -> Option<Self> {
        let named = self.named().into_iter().find(|(own, _)| *own == name);
        named
            .map(|(_, place)| place)
            .or_else(|| self.values())
            .or_else(|| self.entries()?.child(name))
    }

    /// Adds the paths of the fields below that have a name.
    fn gather_named(self, wanted: &str, path: &str, depth: usize, found: &mut Vec<String>) {
        if depth > MOST_LEVELS {
            return;
        }
        let inner = self.entries().unwrap_or(self);
        let values = inner.values().map(|values| (ANY_NAME, values));
        for (name, place) in inner.named().into_iter().chain(values) {
            let path = format!("{path}.{name}");
            place.gather_named(wanted, &path, depth + 1, found);
            if name == wanted {
                found.push(path);
            }
        }
    }

    /// The fields below: of a list, those of its entries.
    fn fields(self) -> Vec<FieldSummary> {
        let mut found: Vec<FieldSummary> = self
            .named()
            .into_iter()
            .map(|(name, place)| place.summary(name))
            .collect();
        found.extend(self.values().map(|values| values.summary(ANY_NAME)));
        match self.entries() {
            Some(entries) if found.is_empty() => entries.fields(),
            _ => found,
        }
    }

    fn summary(self, name: &str) -> FieldSummary {
        FieldSummary {
            name: name.to_owned(),
            type_name: self.type_name(),
            required: self.required,
            description: self.description(),
        }
    }

    fn reference(self, kind: &str, path: Vec<String>) -> FieldReference {
        let all = self.all();
        let default = all.iter().find_map(|node| node.get("default"));
        let examples = all.iter().find_map(|node| node.get("examples")?.as_array());
        FieldReference {
            rung: rung_of_field(kind, &path),
            kind: kind.to_owned(),
            path,
            type_name: self.type_name(),
            required: self.required,
            default: default.cloned(),
            description: self.description(),
            allowed: allowed(&all),
            examples: examples.cloned().unwrap_or_default(),
            fields: self.fields(),
        }
    }

    fn description(self) -> String {
        let mut all = self.all().into_iter();
        let text = all.find_map(|node| node.get("description")?.as_str());
        text.unwrap_or_default().to_owned()
    }

    fn type_name(self) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: String| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        for node in self.all() {
            match node.get("type") {
                Some(Json::String(name)) => add(self.phrase(name)),
                Some(Json::Array(list)) => {
                    let list = list.iter().filter_map(Json::as_str);
                    list.for_each(|name| add(self.phrase(name)));
                }
                _ if node.get("enum").is_some() => add("string".to_owned()),
                _ => match node.get("const") {
                    Some(Json::Bool(_)) => add("boolean".to_owned()),
                    Some(Json::Number(_)) => add("number".to_owned()),
                    Some(_) => add("string".to_owned()),
                    None => {}
                },
            }
        }
        match names.is_empty() {
            true => "any".to_owned(),
            false => names.join(" or "),
        }
    }

    /// A type of JSON Schema in the words of YAML.
    fn phrase(self, name: &str) -> String {
        match name {
            "object" if self.values().is_some() && self.named().is_empty() => {
                "map by name".to_owned()
            }
            "object" => "map".to_owned(),
            "array" => match self.entries().map(Self::type_name) {
                Some(of) => format!("list of {of}"),
                None => "list".to_owned(),
            },
            other => other.to_owned(),
        }
    }
}

/// The bounds of a value, in words.
fn allowed(all: &[&Json]) -> Vec<String> {
    let text = |value: &Json| match value {
        Json::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let mut found = Vec::new();
    for node in all {
        let one_of = node.get("enum").and_then(Json::as_array);
        found.extend(one_of.map(|values| {
            let values: Vec<String> = values.iter().map(text).collect();
            format!("one of {}", values.join(", "))
        }));
        found.extend(
            node.get("const")
                .map(|value| format!("only {}", text(value))),
        );
        let entries = node.get("items").and_then(|items| items.get("enum"));
        found.extend(entries.and_then(Json::as_array).map(|values| {
            let values: Vec<String> = values.iter().map(text).collect();
            format!("each one of {}", values.join(", "))
        }));
        for (key, words) in [
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "less than"),
            ("minLength", "characters, at least"),
            ("maxLength", "characters, at most"),
            ("minItems", "entries, at least"),
            ("maxItems", "entries, at most"),
            ("pattern", "of the form"),
        ] {
            found.extend(
                node.get(key)
                    .map(|value| format!("{words} {}", text(value))),
            );
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_the_entries_of_a_list_are_named() {
        let open = field("trueup/Adoption/v1.machines.open").unwrap();
        let values = open.allowed.join("; ");
        assert!(
            values.contains("each one of `hardware_profile`, "),
            "{values}"
        );
    }

    /// Every field of every kind, by its path.
    fn everywhere(check: &mut dyn FnMut(&FieldReference)) -> usize {
        let mut next: Vec<String> = kinds().map(str::to_owned).collect();
        let mut count = 0;
        while let Some(word) = next.pop() {
            let found = field(&word).unwrap_or_else(|error| panic!("{word}: {error}"));
            check(&found);
            count += 1;
            assert!(count < 5_000, "the fields have no end: {word}");
            // Deeper than any document needs: a schema may contain itself.
            if found.path.len() < 12 {
                next.extend(
                    found
                        .fields
                        .iter()
                        .map(|below| format!("{word}.{}", below.name)),
                );
            }
        }
        count
    }

    #[test]
    fn every_field_of_every_kind_is_found_by_its_path_and_has_a_type_and_a_meaning() {
        let mut bare = Vec::new();
        let count = everywhere(&mut |found| {
            let is_value_of_map = found.path.last().is_some_and(|name| name == ANY_NAME);
            if (found.description.is_empty() && !is_value_of_map) || found.type_name.is_empty() {
                bare.push(format!("{}.{}", found.kind, found.path.join(".")));
            }
        });
        assert!(bare.is_empty(), "without type or meaning: {bare:#?}");
        assert!(count > 400, "only {count} fields");
    }

    #[test]
    fn a_time_names_its_unit() {
        let mut bare = Vec::new();
        everywhere(&mut |found| {
            let is_time = found.path.last().is_some_and(|name| {
                ["timeout", "interval", "_time", "seconds", "_after"]
                    .iter()
                    .any(|end| name.ends_with(end))
            });
            let is_number =
                found.type_name.contains("integer") || found.type_name.contains("number");
            let has_unit = found.description.contains("econds");
            if is_time && is_number && !has_unit {
                bare.push(format!("{}.{}", found.kind, found.path.join(".")));
            }
        });
        assert!(bare.is_empty(), "times without a unit: {bare:#?}");
    }

    #[test]
    fn a_default_and_the_examples_of_a_field_are_valid_by_its_own_schema() {
        let mut checked = 0;
        everywhere(&mut |found| {
            // Its schema refers to those of the kinds, which are files of their own.
            if found.kind == ENVELOPE {
                return;
            }
            let root = schema(&found.kind);
            let mut place = Place::of(&root);
            for name in &found.path {
                place = place.child(name).unwrap();
            }
            let mut own = place.node.clone();
            if let (Some(own), Some(definitions)) = (own.as_object_mut(), root.get("$defs")) {
                own.insert("$defs".to_owned(), definitions.clone());
            }
            let validator = jsonschema::draft202012::new(&own).unwrap();
            for value in found.examples.iter().chain(&found.default) {
                checked += 1;
                assert!(
                    validator.is_valid(value),
                    "{}.{}: {value}",
                    found.kind,
                    found.path.join(".")
                );
            }
        });
        assert!(checked > 100, "only {checked} values");
    }

    #[test]
    fn a_field_is_described_whole_and_a_wrong_one_has_a_near_one() {
        let zone = field("trueup/Policy.time_zone").unwrap();
        assert_eq!(zone.type_name, "string");
        assert_eq!(zone.default, Some(Json::from("UTC")));
        assert_eq!(zone.examples, [Json::from("Europe/Berlin")]);
        assert!(!zone.required);
        for word in [
            "Policy.time_zone",
            "trueup/Policy/v1.time_zone",
            "Policy.data.time_zone",
        ] {
            assert_eq!(field(word).unwrap(), zone);
        }
        let from = field("Policy.maintenance_windows[].from").unwrap();
        assert_eq!(from, {
            let mut from = field("Policy.maintenance_windows.from").unwrap();
            from.path = from.path.clone();
            from
        });
        assert!(from.required);
        let disk = field("HostProfile.storage.physical_devices.sda.partitions").unwrap();
        assert_eq!(disk.type_name, "list of map");
        assert!(disk.fields.iter().any(|each| each.name == "size"));
        let near = |word: &str| match field(word) {
            Err(NoField::Kind { near, .. } | NoField::Field { near, .. }) => near,
            Ok(found) => panic!("{found:?}"),
        };
        assert_eq!(near("Policy.timezone").as_deref(), Some("time_zone"));
        assert_eq!(
            near("drydock/HostProfil.oob").as_deref(),
            Some("drydock/HostProfile")
        );
        assert_eq!(near("Policy.time_zone.of"), None);
        assert_eq!(near("Policy.data.data.time_zone"), None);
        assert_eq!(field("Policy.data").unwrap().path, [""; 0]);
        assert!(is_of_kind("Policy") && !is_of_kind("Policyholder") && !is_of_kind("n07"));
    }
}
