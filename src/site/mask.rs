//! Masks secrets in the texts of diagnostics, wherever they come from.
//!
//! A rule names the value that it checks (`there is no network …`), and that value may have been
//! substituted from an encrypted document. Each rule could take care of that, and one day one would not;
//! so what leaves the loader is gone through once, if there is anything to go through.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{Document, Node, Value};
use crate::render::Rendering;

/// Secrets shorter than this, in bytes, are words that appear everywhere: they are masked only if they
/// are all that is quoted.
const SHORT: usize = 4;

/// The text shown in place of a secret.
const MASK: &str = "…";

/// The same diagnostics without any of the site's secrets in their words; `documents` are those that may have some.
pub(super) fn mask<'a>(
    diagnostics: Diagnostics,
    documents: impl Iterator<Item = &'a Document>,
    rendering: &Rendering,
) -> Diagnostics {
    if diagnostics.is_empty() {
        return diagnostics;
    }
    let mut secrets = BTreeSet::new();
    let data = documents.map(|document| &document.data);
    let rendered = rendering.documents.iter().filter(|each| !each.is_plain);
    for node in data.chain(rendered.map(|each| &each.data)) {
        collect(node, &mut secrets);
    }
    let (patterns, masks): (Vec<String>, Vec<String>) = secrets
        .into_iter()
        .map(|secret| {
            if secret.len() < SHORT {
                (format!("`{secret}`"), format!("`{MASK}`"))
            } else {
                (secret, MASK.to_owned())
            }
        })
        .unzip();
    let finder = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(&patterns);
    // More secrets than an automaton can hold: then no word is let through.
    let masked = |text: &str| match &finder {
        Ok(finder) => finder.replace_all(text, &masks),
        Err(_) => MASK.to_owned(),
    };
    diagnostics
        .into_iter()
        .map(|mut diagnostic: Diagnostic| {
            diagnostic.message = masked(&diagnostic.message);
            diagnostic.hint = diagnostic.hint.as_deref().map(masked);
            for related in &mut diagnostic.related {
                related.message = masked(&related.message);
            }
            diagnostic
        })
        .collect()
}

/// The texts of all secret scalars below a node.
fn collect(node: &Node, secrets: &mut BTreeSet<String>) {
    match &node.value {
        Value::List(list) => list.iter().for_each(|item| collect(item, secrets)),
        Value::Map(map) => map
            .iter()
            .for_each(|(_, field)| collect(&field.node, secrets)),
        Value::Null | Value::Bool(_) => {}
        _ if !node.is_secret() => {}
        value => {
            let text = value.scalar_text().unwrap_or_default();
            // Messages show long texts line by line.
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            secrets.extend(lines.map(str::to_owned));
        }
    }
}
