//! Sites written in a test, and what is found in them as lines of text.

use std::sync::Arc;

use super::{Design, Documented, Guards, Input, SiteName, build, check};
use crate::diagnostic::{Diagnostics, Sources};
use crate::document::{Document, LoadSettings, Node, load, load_values};

/// A site of one file.
pub(crate) struct Site {
    pub(crate) design: Design,
    pub(crate) guards: Guards,
    /// `code line:column message (hint)`, sorted by place.
    pub(crate) problems: Vec<String>,
    pub(crate) sources: Sources,
}

/// Loads documents in the short form of a flat site.
pub(super) fn documents(text: &str) -> (Sources, Vec<Arc<Document>>) {
    let mut sources = Sources::new();
    let id = sources.add("site.yaml", text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(id, text, &settings);
    assert!(!file.diagnostics.has_errors(), "{:#?}", file.diagnostics);
    (sources, file.documents)
}

/// Builds the design of a text; nothing in it is rendered, and only references are checked.
pub(crate) fn site(text: &str) -> Site {
    with(text, build)
}

/// A checked site: its documents against schemas and rules.
pub(crate) fn checked(text: &str) -> Site {
    with(text, |site, documents| check(site, documents, 1))
}

fn with(text: &str, make: fn(SiteName, &[Input<'_>]) -> (Documented, Diagnostics)) -> Site {
    let (sources, documents) = documents(text);
    let inputs: Vec<_> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let (Documented { design, guards }, problems) = make(SiteName::from("test"), &inputs);
    Site {
        design: Arc::unwrap_or_clone(design),
        guards: Arc::unwrap_or_clone(guards),
        problems: lines(problems, &sources),
        sources,
    }
}

/// Diagnostics as lines, sorted by place.
pub(super) fn lines(mut diagnostics: Diagnostics, sources: &Sources) -> Vec<String> {
    diagnostics.sort(sources);
    diagnostics
        .iter()
        .map(|diagnostic| {
            let place = diagnostic.mark.map_or_else(String::new, |mark| {
                let place = sources.place(mark);
                format!("{}:{} ", place.line, place.column)
            });
            let hint = diagnostic
                .hint
                .as_ref()
                .map_or_else(String::new, |hint| format!(" ({hint})"));
            format!("{} {place}{}{hint}", diagnostic.code, diagnostic.message)
        })
        .collect()
}

/// A document in the short form.
pub(crate) fn document(schema: &str, name: &str, data: &str) -> String {
    let data = data.trim().replace('\n', "\n  ");
    format!("---\nschema: {schema}\nmetadata: {{name: {name}}}\ndata:\n  {data}\n")
}

/// One YAML value.
pub(crate) fn value(text: &str) -> Node {
    let mut sources = Sources::new();
    let id = sources.add("value.yaml", text);
    let (mut values, diagnostics) = load_values(id, text, &crate::document::Limits::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:#?}");
    values.remove(0)
}
