//! References of a site's schema that lead nowhere.
//!
//! Python's validator, for which these schemas were written, looks a reference up when it comes to
//! it, so real sites have schemas with references to definitions that were never written. Such a
//! reference allows everything here, and is a warning. One that leaves the schema is an error: it is
//! never followed. A reference is a place in the schema and nothing else, so that what a schema costs can be
//! told before it is compiled: names that a part gives itself (`id`) are left out.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::diagnostic::Diagnostic;
use crate::document::Node;

/// Keywords whose values are data, in which nothing is a reference.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// Takes names of parts and references that lead nowhere out of a schema, and tells of the latter.
pub(super) fn repair(data: &Node, schema: &mut Json) -> Vec<Diagnostic> {
    let whole = schema.clone();
    let mut found = Vec::new();
    visit(Some(data), schema, &whole, &mut found);
    found
}

fn visit(node: Option<&Node>, schema: &mut Json, whole: &Json, found: &mut Vec<Diagnostic>) {
    match schema {
        Json::Object(fields) => {
            let target = fields.get("$ref").and_then(Json::as_str);
            if let Some(target) = target.filter(|target| !leads_somewhere(target, whole)) {
                let mark = node.map(|node| node.get("$ref").unwrap_or(node).mark);
                found.extend(mark.map(|mark| problem(target, mark)));
                fields.clear();
                return;
            }
            for name in ["id", "$id"] {
                if fields.get(name).is_some_and(Json::is_string) {
                    fields.remove(name);
                }
            }
            for (key, inner) in fields.iter_mut() {
                if DATA.contains(&key.as_str()) {
                    continue;
                }
                visit(node.and_then(|node| node.get(key)), inner, whole, found);
            }
        }
        Json::Array(items) => {
            let nodes = node.and_then(Node::as_list).unwrap_or_default();
            for (at, inner) in items.iter_mut().enumerate() {
                visit(nodes.get(at), inner, whole, found);
            }
        }
        _ => {}
    }
}

fn problem(target: &str, mark: crate::diagnostic::Mark) -> Diagnostic {
    const CODE: &str = "schema-reference";
    if target.starts_with('#') {
        let message = format!("`{target}` is not in this schema");
        return Diagnostic::warning(CODE, mark, message)
            .hint("values behind this reference are not checked");
    }
    let message = format!("`{target}` is outside this schema");
    Diagnostic::error(CODE, mark, message)
        .hint("references to other files and to the network are not followed")
}

fn leads_somewhere(reference: &str, whole: &Json) -> bool {
    is_meta_schema(reference) || target(reference, whole).is_some()
}

/// The target of a reference in a schema.
pub(super) fn target<'a>(reference: &str, whole: &'a Json) -> Option<&'a Json> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    whole.pointer(&pointer)
}

/// A text of an URI as it is meant; `None` if that is none.
fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The drafts' own schemas are at hand.
pub(super) fn is_meta_schema(target: &str) -> bool {
    let target = target.trim_end_matches('#');
    target.starts_with("http://json-schema.org/draft-0") && target.ends_with("/schema")
}
