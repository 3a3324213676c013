//! A field of a kind of document, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;

use super::{FORMAT_VERSION, wrapped};
use crate::design::schema::{ENVELOPE, FieldReference};
use crate::report::{Palette, Role, Visible, json};

/// An excerpt of an example site in which a field stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldExample {
    /// The file and the line.
    pub place: String,
    /// The lines.
    pub text: String,
}

/// Writes a field for people.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_field(
    out: &mut dyn Write,
    field: &FieldReference,
    example: Option<&FieldExample>,
    palette: Palette,
) -> fmt::Result {
    let strong = |text: &'static str| palette.paint(Role::Strong, text);
    write!(out, "{}", palette.paint(Role::Strong, &*field.kind))?;
    if !field.path.is_empty() {
        let path = field.path.join(".");
        let below = if field.kind == ENVELOPE {
            "."
        } else {
            " data."
        };
        write!(
            out,
            "{below}{}",
            palette.paint(Role::Strong, Visible(&path))
        )?;
    }
    writeln!(out)?;
    wrapped(out, &field.description, "  ")?;
    writeln!(out, "\n{}      {}", strong("Type"), field.type_name)?;
    if !field.path.is_empty() {
        let required = if field.required { "yes" } else { "no" };
        writeln!(out, "{}  {required}", strong("Required"))?;
    }
    if let Some(default) = &field.default {
        writeln!(out, "{}   {default}", strong("Default"))?;
    }
    for allowed in &field.allowed {
        writeln!(out, "{}   {}", strong("Allowed"), Visible(allowed))?;
    }
    if let Some(rung) = field.rung {
        writeln!(out, "{}      {rung}", strong("Rung"))?;
    }
    if let Some(example) = example {
        writeln!(out, "\n{} ({})", strong("Example"), Visible(&example.place))?;
        for line in example.text.lines() {
            writeln!(out, "  {}", Visible(line))?;
        }
    } else if !field.examples.is_empty() {
        writeln!(out, "\n{}", strong("Examples"))?;
        for value in &field.examples {
            let lines = match field.path.last() {
                Some(name) => serde_yaml::to_string(&BTreeMap::from([(name, value)])),
                None => serde_yaml::to_string(value),
            };
            for line in lines.map_err(|_| fmt::Error)?.lines() {
                writeln!(out, "  {}", Visible(line))?;
            }
        }
    }
    if field.fields.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", strong("Fields"))?;
    for below in &field.fields {
        let required = if below.required { ", required" } else { "" };
        writeln!(
            out,
            "  {} ({}{required})",
            palette.paint(Role::Strong, Visible(&below.name)),
            below.type_name
        )?;
        if !below.description.is_empty() {
            wrapped(out, &below.description, "      ")?;
        }
    }
    Ok(())
}

/// A field for programs.
#[derive(Serialize)]
struct WrittenField<'a> {
    format_version: u32,
    kind: &'static str,
    field: &'a FieldReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'a FieldExample>,
}

/// Writes a field for programs.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_field_json(
    out: &mut dyn Write,
    field: &FieldReference,
    example: Option<&FieldExample>,
) -> fmt::Result {
    let written = WrittenField {
        format_version: FORMAT_VERSION,
        kind: "field",
        field,
        example,
    };
    json::pretty(out, &written)
}
