//! Findings of a validator, in words and at the place where they were written.
//!
//! The path of a problem is walked in the document itself, so a field that is not known is shown at
//! its key, a missing one at the map that lacks it, everything else at the value. Values are never
//! part of a message, so no secret can be; what helps a person comes from the schema.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value as Json, json};

use super::cost::{MOST_PARTS, TooMuch};
use super::{LARGEST_INTEGER, Source};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Document, Node, Value};

/// Most values of an enumeration that are listed.
const MOST_VALUES: usize = 12;

/// The keyword of maps that are open in the system that reads them: an unknown field is kept, and is probably a slip.
const OPEN: &str = "x-unknown-fields";

/// Where a problem is: the value, and how a person calls it.
struct Place<'a> {
    node: &'a Node,
    name: String,
}

/// Adds one problem of a document, or those that it consists of.
pub(super) fn explain(
    error: &ValidationError<'_>,
    data: &Node,
    schema: &Json,
    source: Source,
    found: &mut Vec<Diagnostic>,
) {
    let place = walk(data, error.instance_path());
    let within = parent(schema, error.schema_path());
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for field in unexpected {
                found.push(unknown_field(&place, field, within));
            }
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            match likeliest(context, error.instance_path()) {
                Some(branch) => {
                    for each in branch {
                        explain(each, data, schema, source, found);
                    }
                }
                None => found.push(no_form(context, error, &place, within)),
            }
        }
        Kind::Required { property } => {
            let field = property.as_str().unwrap_or_default();
            let message = format!("`{}` has no field `{field}`", place.name);
            let description = within
                .and_then(|schema| schema.get("properties")?.get(field)?.get("description"))
                .and_then(Json::as_str);
            let diagnostic = Diagnostic::error("schema-missing-field", place.node.mark, message);
            found.push(match description {
                Some(text) => diagnostic.hint(format!("`{field}`: {text}")),
                None => diagnostic,
            });
        }
        Kind::BacktrackLimitExceeded { .. } => {
            let pattern = schema.pointer(error.schema_path().as_str());
            let sentence = match pattern.and_then(Json::as_str) {
                Some(pattern) => format!("takes too long to match `{pattern}`"),
                None => sentence(error.kind(), source),
            };
            found.push(finish("schema-value", &place, sentence, within));
        }
        // That it is none of the values says it as well.
        Kind::Type { .. } if within.is_some_and(|schema| schema.get("enum").is_some()) => {}
        Kind::Type { kind } => {
            let types: Vec<&str> = match kind {
                TypeKind::Single(one) => vec![type_name(*one)],
                TypeKind::Multiple(set) => set.iter().map(type_name).collect(),
            };
            let mut diagnostic = wrong_type(place.node, &place.name, &types);
            // An empty map is refused, too.
            let needs_field = within.is_some_and(|schema| schema.get("minProperties").is_some());
            if needs_field && matches!(place.node.value, Value::Null) {
                diagnostic.hint = None;
            }
            let example = within
                .filter(|_| diagnostic.hint.is_none())
                .and_then(example_of_map);
            found.push(match example {
                Some(example) => diagnostic.hint(format!("for example `{example}`")),
                None => diagnostic,
            });
        }
        Kind::Enum { options } => found.push(wrong_value(&place, options)),
        kind => found.push(finish(
            "schema-value",
            &place,
            sentence(kind, source),
            within,
        )),
    }
}

/// The error for a value that is none of what it may be.
fn no_form(
    context: &[Vec<ValidationError<'_>>],
    error: &ValidationError<'_>,
    place: &Place<'_>,
    within: Option<&Json>,
) -> Diagnostic {
    match alternatives(context, error.instance_path()) {
        Some(fields) => {
            let message = format!("`{}` needs {}", place.name, listed(&fields));
            Diagnostic::error("schema-missing-field", place.node.mark, message)
        }
        None => {
            let what = sentence(error.kind(), Source::Own);
            finish("schema-value", place, what, within)
        }
    }
}

/// Adds the document where a value ends that was written elsewhere: it is substituted or inherited.
pub(super) fn with_document(problem: Diagnostic, document: &Document) -> Diagnostic {
    match problem.mark {
        Some(mark) if !is_written_in(&document.data, mark) => {
            let message = format!("it ends in `{}`", document.id);
            problem.related(document.name_mark, message)
        }
        _ => problem,
    }
}

fn is_written_in(node: &Node, mark: Mark) -> bool {
    let mut fields = node.as_map().into_iter().flat_map(|map| map.iter());
    let mut items = node.as_list().unwrap_or_default().iter();
    node.mark == mark
        || fields.any(|(_, field)| field.key_mark == mark || is_written_in(&field.node, mark))
        || items.any(|item| is_written_in(item, mark))
}

/// The warning for a DataSchema whose data is not a schema.
pub(super) fn not_a_map(data: &Node) -> Diagnostic {
    let is = article(data.value.type_name());
    let message = format!("this DataSchema is {is}, not a map, and checks nothing");
    Diagnostic::warning("schema-unused", data.mark, message)
}

/// The error for a DataSchema that cannot be used.
pub(super) fn unusable(data: &Node, error: &ValidationError<'_>) -> Diagnostic {
    let place = walk(data, error.instance_path());
    let what = sentence(error.kind(), Source::Site);
    Diagnostic::error(
        "schema-invalid",
        place.node.mark,
        format!("this is no JSON Schema: `{}` {what}", place.name),
    )
}

/// The error for a DataSchema that is larger than is allowed with its references written out.
pub(super) fn too_large(data: &Node, too_much: &TooMuch) -> Diagnostic {
    const CODE: &str = "schema-too-large";
    let (reference, message, hint) = match too_much {
        TooMuch::Parts(None) => (
            None,
            format!("this schema has more than {MOST_PARTS} parts with its references written out"),
            "refer to a definition in fewer places",
        ),
        TooMuch::Parts(Some(reference)) => (
            Some(reference),
            format!(
                "`{reference}` stands for more than {MOST_PARTS} parts with the references in it written out"
            ),
            "refer to a definition in fewer places",
        ),
        TooMuch::Endless(reference) => (
            Some(reference),
            format!("`{reference}` leads back to itself before any field or item is checked"),
            "such a schema has no end; refer to it for a field or an item",
        ),
        TooMuch::Depth(reference) => (
            reference.as_ref(),
            "the references of this schema lead too deep".to_owned(),
            "let fewer definitions consist of nothing but a reference to the next",
        ),
    };
    let mark = reference.and_then(|reference| place_of(data, reference));
    Diagnostic::error(CODE, mark.unwrap_or(data.mark), message).hint(hint)
}

/// The error for the first DataSchema that is too much beside those before it.
pub(super) fn too_many_schemas(data: &Node, most: u64) -> Diagnostic {
    let message = format!(
        "with this one the DataSchemas of the site have more than {most} parts with their references written out"
    );
    Diagnostic::error("schema-too-large", data.mark, message)
}

const COSTLY: &str = "a schema that refers to itself in several places checks a value again and again, and a pattern \
    with many repetitions at each character of a text";

/// The error for a document that cannot be checked against a DataSchema in the steps that it has.
pub(super) fn too_costly(data: &Node) -> Diagnostic {
    let message = "checking this document against the site's DataSchema takes too many steps";
    Diagnostic::error("schema-too-costly", data.mark, message).hint(COSTLY)
}

/// The error for a document that is not valid, where what is wrong cannot be told in the steps that it has.
pub(super) fn too_costly_to_explain(data: &Node) -> Diagnostic {
    let message =
        "this document does not meet the site's DataSchema; to say where takes too many steps";
    Diagnostic::error("schema-too-costly", data.mark, message).hint(COSTLY)
}

/// Where a reference was written.
fn place_of(node: &Node, reference: &str) -> Option<Mark> {
    if let Some(written) = node.get("$ref")
        && written.as_str() == Some(reference)
    {
        return Some(written.mark);
    }
    let fields = node.as_map().into_iter().flat_map(|map| map.iter());
    let items = node.as_list().unwrap_or_default().iter();
    fields
        .map(|(_, field)| &field.node)
        .chain(items)
        .find_map(|below| place_of(below, reference))
}

/// The error for a value of another type.
pub(super) fn wrong_type(node: &Node, name: &str, types: &[&str]) -> Diagnostic {
    let is = node.value.type_name();
    let message = format!(
        "`{name}` must be {}, not {}",
        article(&types.join(" or ")),
        article(is)
    );
    let diagnostic = Diagnostic::error("schema-type", node.mark, message);
    let wants_text = types.contains(&"string");
    match &node.value {
        Value::Null if types == ["list"] => diagnostic.hint("write `[]` for an empty list"),
        Value::Null if types == ["map"] => diagnostic.hint("write `{}` if there is nothing"),
        Value::Bool(_) | Value::Integer(_) | Value::BigInteger(_) | Value::Float(_)
            if wants_text =>
        {
            diagnostic.hint(format!(
                "YAML reads this as {}; put it in quotes",
                article(is)
            ))
        }
        Value::String(text)
            if !node.is_secret() && types == ["integer"] && text.parse::<i64>().is_ok() =>
        {
            diagnostic.hint("leave out the quotes")
        }
        Value::String(text) if !node.is_secret() && types == ["list"] => {
            diagnostic.hint(format!("a list of one is `[{text}]`"))
        }
        _ => diagnostic,
    }
}

fn article(noun: &str) -> String {
    match noun {
        "null" => noun.to_owned(),
        _ if noun.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {noun}"),
        _ => format!("a {noun}"),
    }
}

fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "list",
        JsonType::Boolean => "boolean",
        JsonType::Integer => "integer",
        JsonType::Null => "null",
        JsonType::Number => "number",
        JsonType::Object => "map",
        JsonType::String => "string",
    }
}

fn unknown_field(place: &Place<'_>, field: &str, within: Option<&Json>) -> Diagnostic {
    let name = &place.name;
    if place.node.is_secret() {
        let message = format!("`{name}` has a field that is not known");
        return Diagnostic::error("schema-unknown-field", place.node.mark, message);
    }
    let mark = key_mark(place.node, field);
    let message = format!("`{name}` has no field `{field}`");
    let known = within
        .and_then(|schema| schema.get("properties"))
        .and_then(Json::as_object);
    let holder = known.and_then(|fields| find_holder(fields, field));
    let known: Vec<&str> = known
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    let diagnostic = Diagnostic::error(
        "schema-unknown-field",
        mark,
        message.replacen("has no field", "has an unknown field", 1),
    );
    let diagnostic = match holder {
        Some(holder) => diagnostic.hint(format!("`{field}` is a field of `{holder}`")),
        None => diagnostic.did_you_mean(field, known.iter().copied()),
    };
    let diagnostic = match &diagnostic.hint {
        None if !known.is_empty() => diagnostic.hint(format!("known are {}", listed(&known))),
        _ => diagnostic,
    };
    match within.is_some_and(|schema| schema.get(OPEN).is_some()) {
        true => diagnostic.as_warning(),
        false => diagnostic,
    }
}

/// Finds the only one of these fields that has a field of this name: it was written outside of it.
fn find_holder<'s>(fields: &'s Map<String, Json>, name: &str) -> Option<&'s str> {
    let has_it = |field: &Json| {
        let below = field.get("properties");
        below.is_some_and(|below| below.get(name).is_some())
    };
    let mut holders = fields.iter().filter(|(_, field)| has_it(field));
    let (holder, _) = holders.next()?;
    holders.next().is_none().then_some(holder.as_str())
}

fn key_mark(node: &Node, name: &str) -> Mark {
    let fields = node.as_map().into_iter().flat_map(|map| map.iter());
    let mut named = fields.filter(|(key, _)| &*key.text == name);
    named.next().map_or(node.mark, |(_, field)| field.key_mark)
}

fn wrong_value(place: &Place<'_>, options: &Json) -> Diagnostic {
    let options: Vec<String> = options
        .as_array()
        .into_iter()
        .flatten()
        .map(|option| match option {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let texts: Vec<&str> = options.iter().map(String::as_str).collect();
    let message = format!("`{}` must be {}", place.name, listed(&texts));
    let diagnostic = Diagnostic::error("schema-value", place.node.mark, message);
    match place.node.as_str() {
        Some(text) if !place.node.is_secret() => diagnostic.did_you_mean(text, texts),
        Some(_) => diagnostic,
        None => {
            let is = article(place.node.value.type_name());
            diagnostic.hint(format!("this is {is}"))
        }
    }
}

/// `a`, `b` or `c`.
fn listed(texts: &[&str]) -> String {
    let shown = &texts[..texts.len().min(MOST_VALUES)];
    let mut result = String::new();
    for (at, text) in shown.iter().enumerate() {
        let before = match at {
            0 => "",
            _ if at + 1 == texts.len() => " or ",
            _ => ", ",
        };
        let _ = write!(result, "{before}`{text}`");
    }
    if shown.len() < texts.len() {
        let _ = write!(result, " or {} others", texts.len() - shown.len());
    }
    result
}

/// A map as a schema wants it: its own example, or a field with the least value.
fn example_of_map(schema: &Json) -> Option<Json> {
    if let Some(example) = schema.get("examples").and_then(|all| all.get(0)) {
        return Some(example.clone()).filter(Json::is_object);
    }
    let fields = schema.get("properties")?.as_object()?;
    fields.iter().find_map(|(name, field)| {
        let field = field.pointer("/anyOf/0").unwrap_or(field);
        let value = match field.get("examples").and_then(|all| all.get(0)) {
            Some(example) => example.clone(),
            None if field.get("type")? == "integer" => {
                let least = field.get("minimum").and_then(Json::as_i64);
                Json::from(least.unwrap_or(1).max(1))
            }
            None => return None,
        };
        Some(json!({ name: value }))
    })
}

/// A problem with the schema's own example as a hint.
fn finish(
    code: &'static str,
    place: &Place<'_>,
    sentence: String,
    within: Option<&Json>,
) -> Diagnostic {
    let message = format!("`{}` {sentence}", place.name);
    let diagnostic = Diagnostic::error(code, place.node.mark, message);
    let example = within
        .and_then(|schema| schema.get("examples")?.get(0))
        .and_then(|example| match example {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        });
    match example {
        Some(example) => diagnostic.hint(format!("for example `{example}`")),
        None => diagnostic,
    }
}

/// The problem, as the rest of a sentence that begins with the field.
fn sentence(kind: &Kind, source: Source) -> String {
    let items = |number: u64| if number == 1 { "item" } else { "items" };
    match kind {
        Kind::Minimum { limit } | Kind::Maximum { limit }
            if limit
                .as_i64()
                .is_some_and(|limit| limit.abs() == LARGEST_INTEGER) =>
        {
            "has more digits than a number that is read".to_owned()
        }
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MinItems { limit: 1 }
        | Kind::MinProperties { limit: 1 }
        | Kind::MinLength { limit: 1 } => "must not be empty".to_owned(),
        Kind::MinItems { limit } => format!("must have at least {limit} {}", items(*limit)),
        Kind::MaxItems { limit } => format!("must have at most {limit} {}", items(*limit)),
        Kind::MinProperties { limit } => format!("must have at least {limit} fields"),
        Kind::MaxProperties { limit: 1 } => "must have one field only".to_owned(),
        Kind::MaxProperties { limit } => format!("must have at most {limit} fields"),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::UniqueItems => "has an item twice".to_owned(),
        Kind::Constant { expected_value } => format!("must be `{expected_value}`"),
        Kind::Pattern { .. } if source == Source::Own => {
            "has not the form that is wanted here".to_owned()
        }
        Kind::Pattern { pattern } => format!("does not match `{pattern}`"),
        Kind::BacktrackLimitExceeded { .. } => "takes too long to match its pattern".to_owned(),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::OneOfMultipleValid { .. } => {
            "has more than one of the forms of which one is allowed".to_owned()
        }
        Kind::Type { kind } => match kind {
            TypeKind::Single(one) => format!("must be {}", article(type_name(*one))),
            TypeKind::Multiple(_) => "is of another type".to_owned(),
        },
        Kind::Enum { .. } => "has a value that is not allowed".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            "has none of the forms that are allowed here".to_owned()
        }
        other => format!("does not meet `{}`", other.keyword()),
    }
}

/// The form that was most likely meant: the one that was followed deepest, or the only one of a
/// fitting type.
fn likeliest<'a, 'b>(
    context: &'a [Vec<ValidationError<'b>>],
    here: &Location,
) -> Option<&'a [ValidationError<'b>]> {
    let depth = |branch: &Vec<ValidationError<'_>>| {
        let depths = branch.iter().map(|error| match error.kind() {
            // A wrong type here means that another form was meant.
            Kind::Type { .. } if error.instance_path() == here => 0,
            _ => error.instance_path().segments().count() + 1,
        });
        depths.min().unwrap_or(0)
    };
    let mut fitting = context.iter().filter(|branch| depth(branch) > 0);
    let best = fitting.clone().max_by_key(|branch| depth(branch))?;
    let only = fitting.next().is_some() && fitting.next().is_none();
    (only || depth(best) > here.segments().count() + 1).then_some(best)
}

/// Where every form lacks one field of its own: the fields, of which any would do.
fn alternatives<'a>(
    context: &'a [Vec<ValidationError<'_>>],
    here: &Location,
) -> Option<Vec<&'a str>> {
    let lacks = |branch: &'a Vec<ValidationError<'_>>| match branch.first()?.kind() {
        Kind::Required { property } if branch[0].instance_path() == here => property.as_str(),
        _ => None,
    };
    context.iter().map(lacks).collect()
}

/// The part of the schema that holds the keyword of a problem.
fn parent<'a>(schema: &'a Json, path: &Location) -> Option<&'a Json> {
    let path = path.as_str();
    schema.pointer(&path[..path.rfind('/')?])
}

/// The value at a path, or the last one on the way to it that is there.
fn walk<'a>(data: &'a Node, path: &Location) -> Place<'a> {
    let mut place = Place {
        node: data,
        name: "data".to_owned(),
    };
    for segment in path.segments() {
        let next = match &segment {
            LocationSegment::Index(index) => place.node.as_list().and_then(|list| list.get(*index)),
            LocationSegment::Property(name) => {
                let fields = place.node.as_map().into_iter().flat_map(|map| map.iter());
                let mut named = fields.filter(|(key, _)| *key.text == **name);
                named.next().map(|(_, field)| &field.node)
            }
        };
        let Some(next) = next else {
            return place;
        };
        match segment {
            LocationSegment::Index(index) => {
                let _ = write!(place.name, "[{index}]");
            }
            LocationSegment::Property(_) if place.node.is_secret() => place.name.push_str(".…"),
            LocationSegment::Property(name) => {
                let _ = write!(place.name, ".{name}");
            }
        }
        place.node = next;
    }
    place
}
