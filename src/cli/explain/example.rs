//! The example of a field: the lines of an example site in which it stands.

use crate::cli::init;
use crate::design::schema::FieldReference;
use crate::diagnostic::{Mark, Sources};
use crate::document::{self, LoadSettings, Node, Value};
use crate::report::explain::FieldExample;

/// Lines of an example.
const MOST_LINES: usize = 12;
/// The place of any name in a path.
const ANY_NAME: &str = "NAME";

/// The first place in the example sites if a field is given.
pub(super) fn of_field(field: &FieldReference) -> Option<FieldExample> {
    let files = init::ALL.iter().flat_map(|example| {
        let files = example.files.iter();
        files.map(|(path, text)| (format!("site-examples/{}/{path}", example.name), *text))
    });
    let mut files = files.filter(|(path, _)| path.ends_with(".yaml"));
    files.find_map(|(path, text)| in_file(field, &path, text))
}

fn in_file(field: &FieldReference, path: &str, text: &str) -> Option<FieldExample> {
    let mut sources = Sources::new();
    let source = sources.add(path, text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let loaded = document::load(source, text, &settings);
    let mut of_kind = loaded.documents.iter();
    let mark = of_kind.find_map(|document| {
        let schema = document.id.schema.to_string();
        match field.path.is_empty() {
            _ if schema != field.kind => None,
            true => Some(document.mark),
            false => key_of(&document.data, &field.path),
        }
    })?;
    let place = sources.place(mark);
    let lines: Vec<&str> = text.lines().skip(place.line as usize - 1).collect();
    let text = match field.path.is_empty() {
        true => whole(&lines),
        false => below(&lines)?,
    };
    Some(FieldExample {
        place: format!("{}:{}", place.path, place.line),
        text,
    })
}

/// The place of the key of a field in some data.
fn key_of(node: &Node, path: &[String]) -> Option<Mark> {
    let (name, rest) = path.split_first()?;
    match &node.value {
        Value::Map(map) => {
            let field = match name.as_str() {
                ANY_NAME => map.iter().next().map(|(_, field)| field),
                name => map.field(name),
            }?;
            match rest.is_empty() {
                true => Some(field.key_mark),
                false => key_of(&field.node, rest),
            }
        }
        Value::List(entries) => entries.iter().find_map(|entry| key_of(entry, path)),
        _ => None,
    }
}

/// The lines of a document.
fn whole(lines: &[&str]) -> String {
    let end = lines.iter().position(|line| *line == "---");
    shown(&lines[..end.unwrap_or(lines.len())], 0)
}

/// The first line, and those that are indented more.
fn below(lines: &[&str]) -> Option<String> {
    let first = lines.first()?;
    let depth = indentation(first);
    let more = lines[1..]
        .iter()
        .take_while(|line| line.trim().is_empty() || indentation(line) > depth)
        .count();
    Some(shown(&lines[..=more], depth))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The first of some lines, as far as they are shown, without what all are indented by.
fn shown(lines: &[&str], depth: usize) -> String {
    let mut text: String = lines
        .iter()
        .take(MOST_LINES)
        .map(|line| format!("{}\n", line.get(depth..).unwrap_or_default().trim_end()))
        .collect();
    text.truncate(text.trim_end().len());
    if lines.len() > MOST_LINES {
        text.push_str("\n…");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::schema;

    fn example(word: &str) -> Option<FieldExample> {
        of_field(&schema::field(word).unwrap())
    }

    #[test]
    fn an_example_is_what_an_example_site_has_at_that_field() {
        let group = example("DeploymentStrategy.groups.name").unwrap();
        assert!(group.place.starts_with("site-examples/"), "{group:?}");
        assert!(group.text.contains("name:"), "{group:?}");
        let disk = example("HostProfile.storage.physical_devices").unwrap();
        assert!(disk.text.starts_with("physical_devices:"), "{disk:?}");
        assert!(disk.text.lines().count() <= MOST_LINES + 1);
        let kind = example("BaremetalNode").unwrap();
        assert!(kind.text.contains("drydock/BaremetalNode/v1"), "{kind:?}");
        assert_eq!(example("HostProfile.oob.libvirt_uri"), None);
    }

    #[test]
    fn most_kinds_have_an_example() {
        let with = schema::kinds()
            .filter(|kind| example(kind).is_some())
            .count();
        assert!(with >= 12, "only {with}");
    }
}
