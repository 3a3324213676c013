//! Documents against the schemas of their kinds.
//!
//! Three sources of schemas, and all that exist for a kind apply: trueup's own (`schemas/*.json`,
//! JSON Schema 2020-12), the site's `deckhand/DataSchema/v1` documents (draft 4, as Deckhand reads
//! them), and Deckhand's own for its kinds that hold one text. A schema is compiled only if there is a
//! document of its kind: trueup's own once in a process, which often loads a site as it was and as it is. References outside a schema are never followed.
//!
//! | code | what |
//! | --- | --- |
//! | `schema-unknown-field` | a field that the schema does not know |
//! | `schema-missing-field` | a field that the schema requires |
//! | `schema-type` | a value of another type |
//! | `schema-value` | a value that the schema does not allow |
//! | `schema-too-many` | more problems in one document than are listed |
//! | `schema-invalid` | a DataSchema that is no JSON Schema |
//! | `schema-reference` | a DataSchema that refers to something outside itself, or not in it (warning) |

mod explain;
mod instance;
mod own;
mod references;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use rustc_hash::FxHashMap;

use self::instance::{Documents, to_json};
use super::catalog::Input;
use super::kind;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{Node, Value};

/// Most problems that are listed for one document and schema.
const MOST_PROBLEMS: usize = 50;

/// How often a pattern that is no plain regular expression may go back.
const MOST_BACKTRACKS: usize = 100_000;

/// A schema, ready to be used.
struct Schema {
    check: Check,
    /// Who says so, in messages.
    source: Source,
}

/// Where a schema comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Own,
    Site,
}

enum Check {
    /// Anything of one type, called as diagnostics call it.
    Type(&'static str),
    /// Everything else; the text is kept for what it can tell a person.
    Compiled(Box<Validator<Documents>>, serde_json::Value),
}

/// The schema files for editors: name and text, `document.json` among them, which refers to the others.
pub fn files() -> impl Iterator<Item = (String, &'static str)> {
    own::OWN
        .iter()
        .map(|(kind, text)| (format!("{}.json", kind.replace('/', ".")), *text))
        .chain([("document.json".to_owned(), own::DOCUMENT)])
}

/// Validates rendered documents on up to `threads` threads. The result is in the order of the
/// documents, whatever the number of threads.
#[must_use]
pub fn validate(documents: &[Input<'_>], threads: usize) -> Diagnostics {
    let (schemas, mut diagnostics) = compile(documents, threads);
    let found = in_parts(documents, threads, |&(document, data)| {
        let mut found: Vec<Diagnostic> = Vec::new();
        for schema in schemas.get(&document.id.schema).into_iter().flatten() {
            let mut more = Vec::new();
            schema.check(data, &mut more);
            // What two schemas say of one place is told once.
            more.retain(|new: &Diagnostic| {
                let same = |old: &Diagnostic| (old.code, old.mark) == (new.code, new.mark);
                new.mark.is_none() || !found.iter().any(same)
            });
            found.extend(more);
        }
        found
    });
    diagnostics.extend(found.into_iter().flatten());
    diagnostics
}

/// The kinds of documents that trueup has a schema for.
#[cfg(test)]
pub(super) fn own_kinds() -> impl Iterator<Item = &'static str> {
    own::OWN.iter().map(|(kind, _)| *kind)
}

/// What a function makes of each item, in their order, on up to `threads` threads.
fn in_parts<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    make: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    /// Below this a thread costs more than it brings.
    const FEWEST: usize = 8;
    if threads < 2 || items.len() < FEWEST {
        return items.iter().map(make).collect();
    }
    let make = &make;
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(items.len().div_ceil(threads))
            .map(|part| scope.spawn(move || part.iter().map(make).collect::<Vec<R>>()))
            .collect();
        let mut result = Vec::with_capacity(items.len());
        for part in parts {
            match part.join() {
                Ok(made) => result.extend(made),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

/// The schemas of all kinds that occur, and what is wrong with those of the site.
fn compile(
    documents: &[Input<'_>],
    threads: usize,
) -> (FxHashMap<Arc<str>, Vec<Arc<Schema>>>, Diagnostics) {
    let mut schemas: FxHashMap<Arc<str>, Vec<Arc<Schema>>> = FxHashMap::default();
    // trueup's own schemas go first, in this list and so in those of the kinds.
    let mut jobs: Vec<(&Arc<str>, Option<&Node>)> = Vec::new();
    for (document, _) in documents {
        if !schemas.contains_key(&document.id.schema) {
            schemas.insert(document.id.schema.clone(), Vec::new());
            jobs.push((&document.id.schema, None));
        }
    }
    for (document, data) in documents {
        let name = &document.id.name;
        let is_schema = &*document.id.schema == kind::DATA_SCHEMA;
        if is_schema && schemas.contains_key(name) && !own::TEXTS.contains(&&**name) {
            jobs.push((name, Some(data)));
        }
    }
    let compiled = in_parts(&jobs, threads, |&(name, data)| {
        let mut found = Vec::new();
        let schema = match data {
            None => own_schema(name),
            Some(data) => site_schema(data, &mut found).map(Arc::new),
        };
        (schema, found)
    });
    let mut diagnostics = Diagnostics::new();
    for ((name, _), (schema, found)) in jobs.into_iter().zip(compiled) {
        if let Some(list) = schemas.get_mut(name) {
            list.extend(schema);
        }
        diagnostics.extend(found);
    }
    (schemas, diagnostics)
}

/// What trueup itself, or Deckhand, asks of a kind; compiled once.
fn own_schema(name: &str) -> Option<Arc<Schema>> {
    static TEXT: OnceLock<Arc<Schema>> = OnceLock::new();
    static COMPILED: [OnceLock<Option<Arc<Schema>>>; own::OWN.len()] =
        [const { OnceLock::new() }; own::OWN.len()];
    let of_text = || {
        Arc::new(Schema {
            check: Check::Type("string"),
            source: Source::Own,
        })
    };
    if own::TEXTS.contains(&name) {
        return Some(TEXT.get_or_init(of_text).clone());
    }
    let position = own::OWN.iter().position(|(schema, _)| *schema == name)?;
    let compiled = COMPILED[position].get_or_init(|| compile_own(own::OWN[position].1));
    compiled.clone()
}

fn compile_own(text: &str) -> Option<Arc<Schema>> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let validator = jsonschema::options_for::<Documents>()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(false)
        .offline()
        .build(&json)
        .ok()?;
    Some(Arc::new(Schema {
        check: Check::Compiled(Box::new(validator), json),
        source: Source::Own,
    }))
}

/// A schema of the site; `None` where it allows everything or cannot be used.
fn site_schema(data: &Node, found: &mut Vec<Diagnostic>) -> Option<Schema> {
    if let Some(check) = plain_type(data) {
        return check.map(|check| Schema {
            check,
            source: Source::Site,
        });
    }
    let mut json = to_json(data);
    if let Some(fields) = json.as_object_mut() {
        // Deckhand reads every DataSchema as draft 4, whatever it says.
        fields.remove("$schema");
    }
    let validator = build(&json).or_else(|error| {
        let problems = references::repair(data, &mut json);
        let is_usable = problems
            .iter()
            .all(|each| each.severity == Severity::Warning);
        let repaired = !problems.is_empty();
        found.extend(problems);
        match is_usable {
            true if repaired => build(&json).map_err(Some),
            true => Err(Some(error)),
            false => Err(None),
        }
    });
    match validator {
        Ok(validator) => Some(Schema {
            check: Check::Compiled(Box::new(validator), json),
            source: Source::Site,
        }),
        Err(error) => {
            found.extend(error.map(|error| explain::unusable(data, &error)));
            None
        }
    }
}

/// Compiles a schema of draft 4.
fn build(json: &serde_json::Value) -> Result<Validator<Documents>, ValidationError<'static>> {
    let options = || {
        jsonschema::options_for::<Documents>()
            .with_draft(Draft::Draft4)
            .should_validate_formats(false)
            .offline()
    };
    let linear = options()
        .with_pattern_options(PatternOptions::regex())
        .build(json);
    linear.or_else(|error| match error.kind() {
        // Look-around and back references need an engine that can go back; it may only so often.
        ValidationErrorKind::Format { .. } | ValidationErrorKind::Pattern { .. } => {
            let bounded = PatternOptions::fancy_regex().backtrack_limit(MOST_BACKTRACKS);
            options().with_pattern_options(bounded).build(json)
        }
        _ => Err(error),
    })
}

/// What a schema checks that does not look at anything but the type of the whole: `Some(None)` is
/// nothing, and `None` a schema that looks further.
fn plain_type(data: &Node) -> Option<Option<Check>> {
    const TYPES: [(&str, &str); 5] = [
        ("object", "map"),
        ("array", "list"),
        ("string", "string"),
        ("boolean", "boolean"),
        ("null", "null"),
    ];
    let mut check = None;
    for (key, field) in data.as_map()?.iter() {
        match (&*key.text, &field.node.value) {
            ("$schema" | "title" | "description", Value::String(_))
            | ("additionalProperties" | "additionalItems", Value::Bool(true)) => {}
            ("type", Value::String(name)) => {
                let (_, ours) = TYPES.into_iter().find(|(theirs, _)| *theirs == &**name)?;
                check = Some(Check::Type(ours));
            }
            _ => return None,
        }
    }
    Some(check)
}

impl Schema {
    /// Adds what is wrong with the data of a document.
    fn check(&self, data: &Node, found: &mut Vec<Diagnostic>) {
        match &self.check {
            Check::Type(name) if is_of_type(data, name) => {}
            Check::Type(name) => found.push(explain::wrong_type(data, "data", &[name])),
            Check::Compiled(validator, _) if validator.is_valid(data) => {}
            Check::Compiled(validator, json) => {
                let mut errors = validator.iter_errors(data);
                for error in errors.by_ref().take(MOST_PROBLEMS) {
                    explain::explain(&error, data, json, self.source, found);
                }
                let more = errors.count();
                if more > 0 {
                    let message = format!("{more} more problems are not listed");
                    found.push(Diagnostic::error("schema-too-many", data.mark, message));
                }
            }
        }
    }
}

fn is_of_type(node: &Node, name: &str) -> bool {
    match name {
        "map" => node.as_map().is_some(),
        "list" => node.as_list().is_some(),
        "string" => matches!(node.value, Value::String(_) | Value::Timestamp(_)),
        "boolean" => node.as_bool().is_some(),
        "null" => node.is_null(),
        _ => true,
    }
}
