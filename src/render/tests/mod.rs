//! Rendering of sites written as YAML.

mod problems;
mod properties;
mod provenance;
mod rules;

use super::*;
use crate::diagnostic::{Severity, SourceId, Sources};
use crate::document::{Limits, LoadSettings, Value, load, load_values};

/// A document in Deckhand's form. `metadata` is more of it in flow style: fields of the layering definition, `;`, then
/// other fields; `abstract` before and `encrypted` after the `;` mean the same as in Deckhand.
fn document(schema: &str, name: &str, layer: &str, metadata: &str, data: &str) -> String {
    let (definition, metadata) = metadata.split_once(';').unwrap_or(("", metadata));
    let (is_abstract, definition) = match definition.strip_prefix("abstract") {
        Some(definition) => (true, definition),
        None => (false, definition),
    };
    let (policy, metadata) = match metadata.strip_prefix("encrypted") {
        Some(metadata) => ("encrypted", metadata),
        None => ("cleartext", metadata),
    };
    format!(
        "---\nschema: example/{schema}/v1\nmetadata: {{schema: metadata/Document/v1, name: {name}, \
         storagePolicy: {policy}, layeringDefinition: {{layer: {layer}, abstract: {is_abstract}, \
         {definition}}}, {metadata}}}\ndata: {data}\n"
    )
}

const POLICY: &str = "---\nschema: deckhand/LayeringPolicy/v1\nmetadata: {schema: metadata/Control/v1, name: policy}\ndata: {layerOrder: [global, type, site]}\n";

struct Site {
    sources: Sources,
    documents: Vec<Arc<Document>>,
}

impl Site {
    fn of(documents: &[String]) -> Self {
        let text = format!("{POLICY}{}", documents.concat());
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", text.as_str());
        let file = load(id, &text, &LoadSettings::default());
        assert!(
            !file.diagnostics.has_errors(),
            "{:?}\n{text}",
            file.diagnostics
        );
        Self {
            sources,
            documents: file.documents,
        }
    }

    fn render(&self) -> Rendering {
        render(&self.documents, &RenderOptions::default())
    }
}

/// A value as YAML; compared as a value, not as text.
fn value(text: &str) -> Node {
    let (mut values, problems) = load_values(SourceId(0), text, &Limits::default());
    assert!(!problems.has_errors(), "{problems:?}");
    values.remove(0)
}

/// The codes of all problems, warnings with a `?`.
fn codes(rendering: &Rendering) -> Vec<String> {
    let problems = rendering.diagnostics.iter();
    problems
        .map(|problem| match problem.severity {
            Severity::Error => problem.code.to_string(),
            Severity::Warning => format!("{}?", problem.code),
        })
        .collect()
}

fn messages(rendering: &Rendering) -> Vec<String> {
    let problems = rendering.diagnostics.iter();
    problems
        .map(|problem| match &problem.hint {
            Some(hint) => format!("{} ({hint})", problem.message),
            None => problem.message.clone(),
        })
        .collect()
}

/// The data of `example/Kind/v1/name`, or the codes.
fn outcome(rendering: &Rendering, name: &str) -> Result<Node, Vec<String>> {
    match rendering.get("example/Kind/v1", name) {
        Some(rendered) if !rendering.diagnostics.has_errors() => Ok(rendered.data.clone()),
        _ => Err(codes(rendering)),
    }
}

fn expectation(text: &str) -> Result<Node, Vec<String>> {
    if text.starts_with("render-") {
        Err(text.split(' ').map(str::to_owned).collect())
    } else {
        Ok(value(text))
    }
}

fn child(name: &str, layer: &str, selector: &str) -> String {
    let metadata =
        format!("parentSelector: {{{selector}}}, actions: [{{method: merge, path: .}}];");
    document("Kind", name, layer, &metadata, &format!("{{{name}: 1}}"))
}

fn parent(name: &str, layer: &str, labels: &str) -> String {
    let metadata = format!("abstract;labels: {{{labels}}}");
    document("Kind", name, layer, &metadata, &format!("{{{name}: 1}}"))
}

fn link(name: &str, source: &str) -> String {
    let metadata = format!(
        ";substitutions: [{{src: {{schema: example/Kind/v1, name: {source}, path: .}}, dest: {{path: .x}}}}]"
    );
    document("Kind", name, "site", &metadata, "{}")
}

#[test]
fn a_document_that_sites_share_is_rendered_once_unless_it_takes_something_of_its_own_site() {
    let substitute = |schema: &str, source: &str| {
        format!(
            ";substitutions: [{{src: {{schema: example/{schema}/v1, name: {source}, path: .a}}, dest: {{path: .b}}}}]"
        )
    };
    let common = [
        document(
            "Thing",
            "common",
            "global",
            ";labels: {thing: common}",
            "{a: 1}",
        ),
        document(
            "Chart",
            "of-common",
            "global",
            &substitute("Thing", "common"),
            "{c: 2}",
        ),
        document(
            "Chart",
            "of-site",
            "global",
            &substitute("Own", "own"),
            "{c: 3}",
        ),
        document(
            "Chart",
            "of-chart",
            "global",
            &substitute("Chart", "of-common"),
            "{a: 4}",
        ),
    ];
    let common = Site::of(&common);
    let own = |data: &str, more: &str| {
        let text = format!("{}{more}", document("Own", "own", "site", "", data));
        let mut sources = common.sources.clone();
        let source = sources.add("own.yaml", text.as_str());
        let loaded = load(source, &text, &LoadSettings::default());
        [common.documents.clone(), loaded.documents].concat()
    };
    let replacement =
        "parentSelector: {thing: common}, actions: [{method: merge, path: .}];replacement: true";
    let replacement = document("Thing", "common", "site", replacement, "{a: 7}");
    let mut cache = RenderCache::default();
    cache.share(common.documents[0].mark.source);
    let sites = [
        own("{a: 5}", ""),
        own("{a: 6}", ""),
        own("{a: 5}", &replacement),
    ];
    let [one, other, replaced] = sites.map(|documents| {
        let plain = render(&documents, &RenderOptions::default());
        let cached = render_with(&documents, &RenderOptions::default(), Some(&cache));
        assert_eq!(cached.diagnostics, plain.diagnostics);
        let data = |rendering: &Rendering| -> Vec<Node> {
            let documents = rendering.documents.iter();
            documents.map(|each| each.data.clone()).collect()
        };
        assert_eq!(data(&cached), data(&plain));
        cached
    });
    let is_shared = |left: &Rendering, right: &Rendering, schema: &str, name: &str| {
        let map = |rendering: &Rendering| {
            let rendered = rendering.get(schema, name).unwrap();
            match &rendered.data.value {
                Value::Map(map) => map.clone(),
                other => panic!("{other:?}"),
            }
        };
        Arc::ptr_eq(&map(left), &map(right))
    };
    let chart = "example/Chart/v1";
    assert!(is_shared(&one, &other, chart, "of-common"));
    assert!(!is_shared(&one, &other, chart, "of-site"));
    assert!(!is_shared(&one, &replaced, chart, "of-common"));
}
