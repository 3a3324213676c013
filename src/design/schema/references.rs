//! References of a site's schema that lead nowhere.
//!
//! Python's validator, for which these schemas were written, looks a reference up when it comes to
//! it, so real sites have schemas with references to definitions that were never written. Such a
//! reference allows everything here, and is a warning. One that leaves the schema is an error: it is
//! never followed.

use serde_json::Value as Json;

use crate::diagnostic::Diagnostic;
use crate::document::Node;

/// Takes references that lead nowhere out of a schema, and tells of them.
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
            for (key, inner) in fields.iter_mut() {
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
        return Diagnostic::warning(CODE, mark, message).hint("what refers to it is not checked");
    }
    let message = format!("`{target}` is outside this schema");
    Diagnostic::error(CODE, mark, message)
        .hint("references to other files and to the network are not followed")
}

fn leads_somewhere(target: &str, whole: &Json) -> bool {
    match target.strip_prefix('#') {
        Some("") => true,
        Some(pointer) => whole.pointer(pointer).is_some(),
        None => is_meta_schema(target),
    }
}

/// The drafts' own schemas are at hand.
fn is_meta_schema(target: &str) -> bool {
    let target = target.trim_end_matches('#');
    target.starts_with("http://json-schema.org/draft-0") && target.ends_with("/schema")
}
