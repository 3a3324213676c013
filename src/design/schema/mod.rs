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
//! | `schema-unused` | a DataSchema that is not a map, and checks nothing (warning) |
//! | `schema-reference` | a DataSchema that refers to something outside itself, or not in it (warning) |
//! | `schema-too-large` | a DataSchema that is larger than is allowed with its references written out, or has no end |
//! | `schema-too-costly` | a document, or a site, whose check against DataSchemas takes more steps than are allowed |

mod cache;
mod cost;
mod explain;
mod field;
mod instance;
mod order;
mod own;
mod purse;
mod references;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use rustc_hash::FxHashMap;

pub use self::cache::SchemaCache;
use self::cost::Patterns;
pub use self::field::{
    ENVELOPE, FieldReference, FieldSummary, NoField, field, fields_named, is_of_kind, kinds, short,
};
use self::instance::{Budget, Documents, Look, Visited, to_json, value_count};
pub use self::order::key_order;
use self::purse::{Checked, Purse, in_turns};
use super::catalog::Input;
use super::kind;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{Document, Node, Value};

/// Most problems that are listed for one document and schema.
const MOST_PROBLEMS: usize = 50;

/// How often a pattern that is no plain regular expression may go back.
const MOST_BACKTRACKS: usize = 20_000;

/// How many bytes a compiled pattern may have, and the memory of its search.
const LARGEST_PATTERN: usize = 512 << 10;

/// The most parts of all DataSchemas of a site with their references written out.
const MOST_PARTS: u64 = 500_000;

/// How often the values of a document may be visited: for each value, and for any.
const VISITS_PER_VALUE: u64 = 500;
const FEWEST_VISITS: u64 = 4 * cost::MOST_PARTS;

/// The fewest visits where texts are searched for patterns.
const FEWEST_WITH_PATTERNS: u64 = 4 * FEWEST_VISITS;

/// The cost of a check of a text or a key, and the fewest visits, where a pattern may go back.
const TEXT_WITH_WAYS_BACK: u64 = 2_000;
const FEWEST_WITH_WAYS_BACK: u64 = 4_000 * TEXT_WITH_WAYS_BACK;

/// The cost of a visit while problems are explained, which makes more of each.
const VISIT_TO_EXPLAIN: u64 = 5;

/// The most visits while it is told what is wrong: what is found there is kept.
const MOST_VISITS_TO_EXPLAIN: u64 = 200_000;

/// The stack of a thread that validates: schemas and documents are as deep as each other allow.
const STACK: usize = 64 << 20;

/// A schema, ready to be used.
struct Schema {
    check: Check,
    /// The author of the schema, in messages.
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
    /// Everything else.
    Compiled(Box<Compiled>),
}

/// The largest integer that each reader of JSON has as it is.
const LARGEST_INTEGER: i64 = (1 << 53) - 1;

/// A schema that is compiled.
struct Compiled {
    validator: Validator<Documents>,
    /// The text, for what it can tell a person.
    json: serde_json::Value,
    /// Whether its patterns are searched by an engine that may go back.
    goes_back: bool,
    /// The patterns that it searches texts and keys for.
    patterns: Patterns,
}

/// The schema files for editors and other programs: name and text. Among them are `document.json`, which refers to those of the
/// kinds, `plan.json`, `policy-input.json`, `parts.json`, `explanation.json`, and one for what each of some commands prints.
pub fn files() -> impl Iterator<Item = (String, &'static str)> {
    own::OWN
        .iter()
        .map(|(kind, text)| (format!("{}.json", kind.replace('/', ".")), *text))
        .chain([
            ("document.json".to_owned(), own::DOCUMENT),
            ("plan.json".to_owned(), own::PLAN),
            ("policy-input.json".to_owned(), own::POLICY_INPUT),
            ("parts.json".to_owned(), own::PARTS),
            ("explanation.json".to_owned(), own::EXPLANATION),
        ])
        .chain(own::OUTPUTS.map(|(name, text)| (name.to_owned(), text)))
}

/// Validates rendered documents on up to `threads` threads. The result is in the order of the
/// documents, whatever the number of threads.
#[must_use]
pub fn validate(documents: &[Input<'_>], threads: usize) -> Diagnostics {
    validate_with(documents, threads, None)
}

/// The same, with what was found right in documents that other sites have as well.
#[must_use]
pub fn validate_with(
    documents: &[Input<'_>],
    threads: usize,
    cache: Option<&SchemaCache>,
) -> Diagnostics {
    validate_within(documents, threads, Purse::OF_SITE, cache)
}

fn validate_within(
    documents: &[Input<'_>],
    threads: usize,
    purse: Purse,
    cache: Option<&SchemaCache>,
) -> Diagnostics {
    let (schemas, mut diagnostics) = compile(documents, threads, cache);
    let checked = in_turns(documents, threads, purse, |&(document, data)| {
        let mut checked = Checked::default();
        let schemas = schemas.get(&document.id.schema);
        let schemas = schemas.map(Vec::as_slice).unwrap_or_default();
        let known = cache.and_then(|cache| cache.taken(document, data, schemas));
        if let Some(taken) = known {
            checked.add(taken);
            return checked;
        }
        for schema in schemas {
            let mut more = Vec::new();
            checked.add(schema.check(data, &mut more));
            // What two schemas say of one place is told once.
            let found = &mut checked.found;
            more.retain(|new: &Diagnostic| {
                let same = |old: &Diagnostic| (old.code, old.mark) == (new.code, new.mark);
                new.mark.is_none() || !found.iter().any(same)
            });
            let more = more.into_iter();
            found.extend(more.map(|each| explain::with_document(each, document)));
        }
        if let Some(cache) = cache.filter(|_| checked.found.is_empty()) {
            cache.keep(document, data, schemas, checked.taken());
        }
        checked
    });
    let unchecked = purse::too_costly(documents, &checked, purse);
    diagnostics.extend(checked.into_iter().flat_map(|each| each.found));
    diagnostics.extend(unchecked);
    diagnostics
}

/// The kinds of documents that trueup has a schema for.
pub(super) fn own_kinds() -> impl Iterator<Item = &'static str> {
    own::OWN.iter().map(|(kind, _)| *kind).chain(own::TEXTS)
}

/// Maps each item by a function, in their order, on up to `threads` threads.
fn in_parts<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    make: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    /// Below this a thread costs more than it brings.
    const FEWEST: usize = 8;
    let threads = match items.len() {
        0 => return Vec::new(),
        few if few < FEWEST => 1,
        _ => threads.max(1),
    };
    let all = |part: &[T]| part.iter().map(&make).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(items.len().div_ceil(threads))
            .map(|part| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                (part, thread.spawn_scoped(scope, || all(part)))
            })
            .collect();
        let mut result = Vec::with_capacity(items.len());
        for (part, thread) in parts {
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(made)) => result.extend(made),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system has no thread to give.
                Err(_) => result.extend(all(part)),
            }
        }
        result
    })
}

/// The schemas of all kinds that occur, and what is wrong with those of the site.
fn compile(
    documents: &[Input<'_>],
    threads: usize,
    cache: Option<&SchemaCache>,
) -> (FxHashMap<Arc<str>, Vec<Arc<Schema>>>, Diagnostics) {
    let mut schemas: FxHashMap<Arc<str>, Vec<Arc<Schema>>> = FxHashMap::default();
    let mut kinds: Vec<&Arc<str>> = Vec::new();
    for (document, _) in documents {
        if !schemas.contains_key(&document.id.schema) {
            schemas.insert(document.id.schema.clone(), Vec::new());
            kinds.push(&document.id.schema);
        }
    }
    // trueup's own schemas go first.
    let own = in_parts(&kinds, threads, |name| own_schema(name));
    for (name, schema) in kinds.into_iter().zip(own) {
        if let Some(list) = schemas.get_mut(name) {
            list.extend(schema);
        }
    }
    let is_used = |document: &Document| {
        let name = &document.id.name;
        schemas.contains_key(name) && !own::TEXTS.contains(&&**name)
    };
    let of_site = documents
        .iter()
        .filter(|(document, _)| *document.id.schema == *kind::DATA_SCHEMA);
    let (of_site, unusable): (Vec<_>, Vec<_>) =
        of_site.partition(|(_, data)| data.as_map().is_some());
    let of_site: Vec<_> = of_site
        .into_iter()
        .filter(|(document, _)| is_used(document))
        .collect();
    let known = |document, data| cache.and_then(|cache| cache.schema(document, data));
    let drafts = in_parts(&of_site, threads, |&(document, data)| {
        match known(document, data) {
            Some((schema, parts)) => (Some(SiteSchema::Known(schema, parts)), Vec::new()),
            None => draft(data),
        }
    });
    let mut diagnostics = Diagnostics::new();
    diagnostics.extend(
        unusable
            .into_iter()
            .map(|(_, data)| explain::not_a_map(data)),
    );
    let mut jobs = Vec::with_capacity(of_site.len());
    let mut parts = 0;
    for (input, (draft, found)) in of_site.into_iter().zip(drafts) {
        let has_remarks = !found.is_empty();
        diagnostics.extend(found);
        let Some(draft) = draft else {
            continue;
        };
        parts += draft.parts();
        match parts {
            0..=MOST_PARTS => jobs.push((input, draft, has_remarks)),
            _ => diagnostics.push(explain::too_many_schemas(input.1, MOST_PARTS)),
        }
    }
    let compiled = in_parts(&jobs, threads, |((document, data), draft, has_remarks)| {
        let (schema, parts) = (draft.compile(data)?, draft.parts());
        Ok::<_, Box<Diagnostic>>(match cache.filter(|_| !has_remarks) {
            Some(cache) => cache.keep_schema(document, data, (schema, parts)),
            None => schema,
        })
    });
    for (((document, _), ..), schema) in jobs.iter().zip(compiled) {
        match (schema, schemas.get_mut(&document.id.name)) {
            (Ok(schema), Some(list)) => list.push(schema),
            (Err(problem), _) => diagnostics.push(*problem),
            (Ok(_), None) => {}
        }
    }
    (schemas, diagnostics)
}

/// The schema that trueup itself, or Deckhand, has for a kind; compiled once.
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

/// Bounds each integer that a schema leaves open to those that are read: a larger one would be no number to its reader, and a
/// limit that is none.
fn bound_integers(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Array(items) => items.iter_mut().for_each(bound_integers),
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(bound_integers);
            let is_integer = match fields.get("type") {
                Some(serde_json::Value::String(kind)) => kind == "integer",
                Some(serde_json::Value::Array(kinds)) => kinds.iter().any(|kind| kind == "integer"),
                _ => false,
            };
            if is_integer {
                fields
                    .entry("maximum")
                    .or_insert_with(|| LARGEST_INTEGER.into());
                fields
                    .entry("minimum")
                    .or_insert_with(|| (-LARGEST_INTEGER).into());
            }
        }
        _ => {}
    }
}

fn compile_own(text: &str) -> Option<Arc<Schema>> {
    let mut json: serde_json::Value = serde_json::from_str(text).ok()?;
    bound_integers(&mut json);
    let validator = jsonschema::options_for::<Documents>()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(false)
        .offline()
        .build(&json)
        .ok()?;
    Some(Arc::new(Schema {
        check: Check::Compiled(Box::new(Compiled {
            validator,
            json,
            goes_back: false,
            patterns: Patterns::default(),
        })),
        source: Source::Own,
    }))
}

/// A schema of the site that is not compiled yet, or was for another site.
enum SiteSchema {
    Known(Arc<Schema>, u64),
    Type(&'static str),
    Schema { json: serde_json::Value, parts: u64 },
}

/// A schema of the site as it will be compiled, and what is wrong with it; none if it allows everything
/// or cannot be used.
fn draft(data: &Node) -> (Option<SiteSchema>, Vec<Diagnostic>) {
    if let Some(name) = plain_type(data) {
        return (name.map(SiteSchema::Type), Vec::new());
    }
    let mut json = to_json(data);
    if let Some(fields) = json.as_object_mut() {
        // Deckhand reads every DataSchema as draft 4, whatever it says.
        fields.remove("$schema");
    }
    let mut found = references::repair(data, &mut json);
    if found.iter().any(|each| each.severity == Severity::Error) {
        return (None, found);
    }
    match cost::parts(&json) {
        Ok(parts) => (Some(SiteSchema::Schema { json, parts }), found),
        Err(too_much) => {
            found.push(explain::too_large(data, &too_much));
            (None, found)
        }
    }
}

impl SiteSchema {
    fn parts(&self) -> u64 {
        match self {
            Self::Type(_) => 1,
            Self::Known(_, parts) | Self::Schema { parts, .. } => *parts,
        }
    }

    fn compile(&self, data: &Node) -> Result<Arc<Schema>, Box<Diagnostic>> {
        let check = match self {
            Self::Known(schema, _) => return Ok(schema.clone()),
            Self::Type(name) => Check::Type(name),
            Self::Schema { json, .. } => {
                let built = build(json);
                let (validator, goes_back) =
                    built.map_err(|error| Box::new(explain::unusable(data, &error)))?;
                Check::Compiled(Box::new(Compiled {
                    validator,
                    json: json.clone(),
                    goes_back,
                    patterns: Patterns::of(json),
                }))
            }
        };
        Ok(Arc::new(Schema {
            check,
            source: Source::Site,
        }))
    }
}

/// Compiles a schema of draft 4; whether its patterns may go back.
fn build(
    json: &serde_json::Value,
) -> Result<(Validator<Documents>, bool), ValidationError<'static>> {
    let options = || {
        jsonschema::options_for::<Documents>()
            .with_draft(Draft::Draft4)
            .should_validate_formats(false)
            .offline()
    };
    let linear = options()
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(LARGEST_PATTERN)
                .dfa_size_limit(LARGEST_PATTERN),
        )
        .build(json);
    let linear = linear.map(|validator| (validator, false));
    linear.or_else(|error| match error.kind() {
        // Look-around and back references need an engine that can go back; it may only so often.
        ValidationErrorKind::Format { .. } | ValidationErrorKind::Pattern { .. } => {
            let bounded = PatternOptions::fancy_regex()
                .backtrack_limit(MOST_BACKTRACKS)
                .size_limit(LARGEST_PATTERN)
                .dfa_size_limit(LARGEST_PATTERN);
            let built = options().with_pattern_options(bounded).build(json);
            built.map(|validator| (validator, true))
        }
        _ => Err(error),
    })
}

/// The type that a schema checks which checks only the type of the whole: `Some(None)`
/// is none, and `None` a schema that looks further.
fn plain_type(data: &Node) -> Option<Option<&'static str>> {
    const TYPES: [(&str, &str); 5] = [
        ("object", "map"),
        ("array", "list"),
        ("string", "string"),
        ("boolean", "boolean"),
        ("null", "null"),
    ];
    let mut name = None;
    for (key, field) in data.as_map()?.iter() {
        match (&*key.text, &field.node.value) {
            ("$schema" | "title" | "description", Value::String(_))
            | ("additionalProperties" | "additionalItems", Value::Bool(true)) => {}
            ("type", Value::String(wanted)) => {
                let (_, ours) = TYPES.into_iter().find(|(theirs, _)| *theirs == &**wanted)?;
                name = Some(ours);
            }
            _ => return None,
        }
    }
    Some(name)
}

impl Compiled {
    /// How many visits a check of so many values has.
    fn visits(&self, values: u64) -> u64 {
        let fewest = match self.goes_back {
            true => FEWEST_WITH_WAYS_BACK,
            false if self.patterns == Patterns::default() => FEWEST_VISITS,
            false => FEWEST_WITH_PATTERNS,
        };
        fewest.max(VISITS_PER_VALUE * values)
    }

    fn budget(&self, data: &Node, visits: u64) -> Budget {
        let back = match self.goes_back {
            true => TEXT_WITH_WAYS_BACK,
            false => 0,
        };
        let text = Look {
            any: back.max(1),
            pattern: self.patterns.text,
        };
        let key = Look {
            any: back * self.patterns.keys,
            pattern: self.patterns.key,
        };
        Budget::new(visits, data, text, key)
    }
}

/// The cost of a check of a document.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Visits.
    visits: u64,
    /// The values of the document, where visits are counted.
    values: u64,
}

impl Schema {
    /// Adds what is wrong with the data of a document.
    fn check(&self, data: &Node, found: &mut Vec<Diagnostic>) -> Taken {
        let compiled = match &self.check {
            Check::Type(name) => {
                if !is_of_type(data, name) {
                    found.push(explain::wrong_type(data, "data", &[name]));
                }
                return Taken::default();
            }
            Check::Compiled(compiled) => compiled,
        };
        if self.source == Source::Own {
            if !compiled.validator.is_valid(Visited::new(data, None)) {
                self.explain(compiled, (data, None), found);
            }
            return Taken::default();
        }
        let values = value_count(data);
        let visits = compiled.visits(values);
        let budget = compiled.budget(data, visits);
        let is_valid = compiled
            .validator
            .is_valid(Visited::new(data, Some(&budget)));
        let mut taken = Taken {
            visits: budget.spent(),
            values,
        };
        if budget.is_spent() {
            found.push(explain::too_costly(data));
        } else if !is_valid {
            let budget = compiled.budget(data, MOST_VISITS_TO_EXPLAIN.max(visits / 10));
            self.explain(compiled, (data, Some(&budget)), found);
            taken.visits += VISIT_TO_EXPLAIN * budget.spent();
        }
        taken
    }

    /// Adds what is wrong with the data of a document that is not valid.
    fn explain(
        &self,
        compiled: &Compiled,
        (data, budget): (&Node, Option<&Budget>),
        found: &mut Vec<Diagnostic>,
    ) {
        let Compiled {
            validator, json, ..
        } = compiled;
        let mut errors = validator.iter_errors(Visited::new(data, budget));
        if budget.is_some_and(Budget::is_spent) {
            found.push(explain::too_costly_to_explain(data));
            return;
        }
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
