//! Deckhand's own unit tests, recorded as vectors: rendering of documents, and the path language.
//!
//! Every row is run. A row that differs on purpose is named in [`DIFFERENCES`] with the reason, and the test fails
//! as soon as it no longer differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use trueup::diagnostic::{Diagnostic, Mark, Severity, SourceId, Sources};
use trueup::document::{
    Document, DocumentId, Limits, LoadSettings, Map, Node, Value, decode, from_envelope, load,
    load_values,
};
use trueup::render::path::Path;
use trueup::render::{RenderOptions, Rendering, render};

use crate::shared::{shared, yaml_files};

/// Rows that differ on purpose: the name of the test that they were recorded from, and why.
const DIFFERENCES: &[(&str, &str)] = &[(
    "test_multiple_layering_policy_logs_warning",
    "two documents with the same schema, layer and name are always an error; Deckhand takes the first when told not to validate",
)];

fn mark() -> Mark {
    Mark::new(SourceId(0), 0)
}

/// JSON is YAML enough to be read by the loader.
fn node(json: &Json) -> Node {
    let (mut nodes, diagnostics) = load_values(SourceId(0), &json.to_string(), &Limits::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    nodes.remove(0)
}

fn rows(path: &str) -> Option<Vec<Json>> {
    let text = std::fs::read_to_string(shared(path)?).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(rows.collect())
}

/// Deckhand's exception, and the codes that stand for it here.
fn codes(exception: &str) -> &'static [&'static str] {
    match exception {
        "InvalidDocumentReplacement" => &[
            "render-replacement-parent",
            "render-replacement-undeclared",
            "render-replacement-chain",
            "render-name",
        ],
        "InvalidDocumentFormat" => &["envelope-missing-field", "envelope-bad-value"],
        "MissingDocumentKey" => &["render-action"],
        "InvalidDocumentParent" => &["render-parent-schema", "render-parent-layer"],
        "SubstitutionDependencyCycle" => &["render-cycle"],
        "InvalidDocumentLayer" => &["render-layer"],
        "IndeterminateDocumentParent" => &["render-parent-ambiguous"],
        "SubstitutionSourceNotFound" => &["render-source-missing"],
        "LayeringPolicyNotFound" => &["render-layering-policy"],
        "MissingDocumentPattern" => &["render-pattern-target"],
        other => panic!("no codes for {other}"),
    }
}

fn check_rendering(row: &Json) -> Result<(), String> {
    let settings = LoadSettings::default();
    let mut errors = Vec::new();
    let mut documents = Vec::new();
    for json in row["documents"].as_array().unwrap() {
        let (document, problems) = from_envelope(node(json), &settings);
        if row["kwargs"]["validate"] == Json::Bool(true) {
            errors.extend(problems);
        }
        documents.push(Arc::new(document.ok_or("a document has no name")?));
    }
    let lenient = row["kwargs"]["fail_on_missing_sub_src"] == Json::Bool(false);
    let options = RenderOptions {
        allow_missing_sources: lenient,
        ..RenderOptions::default()
    };
    if !errors.is_empty() {
        return expect(row, &errors, None);
    }
    let before = documents.clone();
    let rendering = render(&documents, &options);
    for (before, after) in before.iter().zip(&documents) {
        assert_eq!(before.data, after.data, "the input was changed");
    }
    let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
    let errors: Vec<_> = rendering
        .diagnostics
        .iter()
        .filter(is_error)
        .cloned()
        .collect();
    documents.reverse();
    let reversed = render(&documents, &options);
    assert_eq!(
        data_by_id(&reversed),
        data_by_id(&rendering),
        "the order of the input counts"
    );
    expect(row, &errors, Some(&rendering))
}

fn data_by_id(rendering: &Rendering) -> BTreeMap<DocumentId, Node> {
    let documents = rendering.documents.iter();
    documents
        .map(|rendered| (rendered.id().clone(), rendered.data.clone()))
        .collect()
}

fn expect(row: &Json, errors: &[Diagnostic], rendering: Option<&Rendering>) -> Result<(), String> {
    if let Some(exception) = row.get("error").and_then(Json::as_str) {
        let codes = codes(exception);
        let found: Vec<_> = errors.iter().map(|error| error.code.0).collect();
        return if !found.is_empty() && found.iter().all(|code| codes.contains(code)) {
            Ok(())
        } else {
            Err(format!(
                "{exception} is expected, these are found: {errors:?}"
            ))
        };
    }
    if !errors.is_empty() {
        return Err(format!("unexpected errors: {errors:?}"));
    }
    let expected: BTreeMap<DocumentId, Node> = row["rendered"]
        .as_array()
        .unwrap()
        .iter()
        .map(|json| {
            let id = DocumentId {
                schema: json["schema"].as_str().unwrap().into(),
                name: json["metadata"]["name"].as_str().unwrap().into(),
            };
            (id, node(&json["data"]))
        })
        .collect();
    let found = data_by_id(rendering.unwrap());
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:#?}\nfound {found:#?}"))
    }
}

#[test]
fn every_rendering_of_deckhand_is_repeated() {
    let Some(rows) = rows("data/deckhand/rendering.jsonl") else {
        return;
    };
    assert_eq!(rows.len(), 264);
    let mut wrong = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let test = row["test"].as_str().unwrap();
        let difference = DIFFERENCES.iter().find(|(name, _)| test.ends_with(name));
        match (check_rendering(row), difference) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some((_, why))) => {
                wrong.push(format!("row {at}: {test} agrees now, though: {why}"))
            }
            (Err(problem), None) => wrong.push(format!("row {at}: {test}: {problem}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Puts a value into data by way of a substitution between two documents.
fn substitute(row: &Json) -> Result<Node, Vec<Diagnostic>> {
    let mut source =
        serde_json::json!({"schema": "a/Source/v1", "name": "source", "path": ".value"});
    let mut destination = serde_json::json!({"path": row["path"]});
    for (from, to) in [
        ("src_pattern", "pattern"),
        ("src_match_group", "match_group"),
    ] {
        if let Some(value) = row["kwargs"].get(from) {
            source[to] = value.clone();
        }
    }
    for key in ["pattern", "recurse"] {
        if let Some(value) = row["kwargs"].get(key) {
            destination[key] = value.clone();
        }
    }
    let document = |schema: &str, name: &str, data: Json, substitutions: Json| {
        let envelope = serde_json::json!({
            "schema": schema,
            "metadata": {
                "schema": "metadata/Document/v1",
                "name": name,
                "storagePolicy": "cleartext",
                "layeringDefinition": {"abstract": false, "layer": "site"},
                "substitutions": substitutions,
            },
            "data": data,
        });
        let (document, problems) = from_envelope(node(&envelope), &LoadSettings::default());
        assert!(problems.is_empty(), "{problems:?}");
        Arc::new(document.unwrap())
    };
    let documents = [
        document(
            "a/Source/v1",
            "source",
            serde_json::json!({"value": row["value"]}),
            serde_json::json!([]),
        ),
        document(
            "a/Target/v1",
            "target",
            row["data"].clone(),
            serde_json::json!([{"src": source, "dest": destination}]),
        ),
    ];
    let options = RenderOptions {
        default_layers: Some(vec!["site".into()]),
        ..RenderOptions::default()
    };
    let rendering = render(&documents, &options);
    match rendering.get("a/Target/v1", "target") {
        Some(rendered) => Ok(rendered.data.clone()),
        None => Err(rendering.diagnostics.into_iter().collect()),
    }
}

fn check_path(row: &Json) -> Result<(), String> {
    let path = Path::parse(row["path"].as_str().unwrap()).map_err(|error| error.to_string())?;
    let data = node(&row["data"]);
    let is_plain = row["kwargs"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    let found = match row["fn"].as_str().unwrap() {
        "parse" => match path.first(&data) {
            Some(found) => found.to_node(),
            None => Node::new(Value::Null, mark()),
        },
        _ if is_plain => {
            let mut changed = data.clone();
            path.set(&mut changed, node(&row["value"]), mark())
                .map_err(|error| error.to_string())?;
            assert_eq!(data, node(&row["data"]), "the input was changed");
            changed
        }
        _ => match (substitute(row), row.get("error").and_then(Json::as_str)) {
            (Ok(found), _) => found,
            (Err(errors), Some(exception)) => return expect_codes(&errors, exception),
            (Err(errors), None) => return Err(format!("{errors:?}")),
        },
    };
    match row.get("error") {
        Some(exception) => Err(format!("{exception} is expected, found {found:?}")),
        None if found == node(&row["result"]) => Ok(()),
        None => Err(format!("expected {}, found {found:?}", row["result"])),
    }
}

fn expect_codes(errors: &[Diagnostic], exception: &str) -> Result<(), String> {
    let codes = codes(exception);
    match errors.iter().all(|error| codes.contains(&error.code.0)) {
        true => Ok(()),
        false => Err(format!(
            "{exception} is expected, these are found: {errors:?}"
        )),
    }
}

#[test]
fn every_path_of_deckhand_is_repeated() {
    let Some(rows) = rows("data/deckhand/jsonpath.jsonl") else {
        return;
    };
    assert_eq!(rows.len(), 286);
    let wrong: Vec<_> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some(format!("row {at}: {row}: {}", check_path(row).err()?)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} rows: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The documents of a site in Pegleg's layout, as they come from the loader.
fn site(root: &std::path::Path, kind: &str, name: &str) -> (Vec<Arc<Document>>, Sources) {
    let settings = LoadSettings::default();
    let mut sources = Sources::new();
    let mut documents = Vec::new();
    for folder in [
        "global".to_owned(),
        format!("type/{kind}"),
        format!("site/{name}"),
    ] {
        for file in yaml_files(&root.join(folder)) {
            let path = file
                .strip_prefix(root)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            if path.ends_with("/site-definition.yaml")
                || path.split('/').any(|part| part == "tools")
            {
                continue;
            }
            let text = decode(&path, &std::fs::read(&file).unwrap(), &settings.limits).unwrap();
            let id = sources.add(path.as_str(), text.clone());
            let loaded = load(id, &text, &settings);
            assert!(!loaded.diagnostics.has_errors(), "{path}");
            documents.extend(loaded.documents);
        }
    }
    (documents, sources)
}

#[test]
fn a_real_site_renders_as_deckhand_renders_it_with_value_semantics() {
    let (Some(root), Some(expected)) = (
        shared("data/treasuremap-v1.9"),
        shared("data/expected/seaworthy.rendered.yaml"),
    ) else {
        return;
    };
    let (documents, sources) = site(&root, "foundry", "seaworthy");
    assert_eq!(documents.len(), 422);
    let rendering = render(&documents, &RenderOptions::default());
    let problems: Vec<_> = rendering
        .diagnostics
        .iter()
        .map(|problem| {
            let place = problem.mark.map(|mark| sources.place(mark).to_string());
            format!(
                "{} {} {} {}",
                place.unwrap_or_default(),
                problem.severity,
                problem.code,
                problem.message
            )
        })
        .collect();
    assert_eq!(problems, Vec::<String>::new());

    let text = std::fs::read_to_string(expected).unwrap();
    let (expected, _) = load_values(SourceId(0), &text, &Limits::default());
    let expected: BTreeMap<(String, String), Node> = expected
        .iter()
        .filter(|node| !node.is_null())
        .map(|node| {
            let text = |keys: &[&str]| node.at(keys).and_then(Node::as_str).unwrap().to_owned();
            let id = (text(&["schema"]), text(&["metadata", "name"]));
            (id, node.get("data").unwrap().clone())
        })
        .collect();
    assert_eq!(expected.len(), 403);
    assert_eq!(rendering.documents.len(), 403);
    let mut differing = Vec::new();
    for ((schema, name), data) in &expected {
        let problem = match rendering.get(schema, name) {
            Some(rendered) => difference(&rendered.data, data),
            None => Some(" is not there".to_owned()),
        };
        differing.extend(problem.map(|problem| format!("{schema}/{name}{problem}")));
    }
    assert_eq!(differing, Vec::<String>::new());
    for rendered in &rendering.documents {
        check_marks(&rendered.data, &rendering);
    }
}

/// Where two values differ first, and how.
fn difference(found: &Node, expected: &Node) -> Option<String> {
    match (&found.value, &expected.value) {
        (Value::Map(ours), Value::Map(theirs)) if ours.keys().count() == theirs.keys().count() => {
            ours.iter().find_map(|(key, field)| {
                // The recording went through JSON, where every key is a string.
                let below = match theirs.get(&key.text) {
                    Some(their) => difference(&field.node, their)?,
                    None => " is not expected".to_owned(),
                };
                Some(format!(".{}{below}", key.text))
            })
        }
        (Value::List(ours), Value::List(theirs)) if ours.len() == theirs.len() => ours
            .iter()
            .zip(theirs.iter())
            .enumerate()
            .find_map(|(at, (ours, theirs))| Some(format!("[{at}]{}", difference(ours, theirs)?))),
        (ours, theirs) if ours == theirs => None,
        (Value::String(ours), Value::String(theirs)) => {
            let at = ours
                .bytes()
                .zip(theirs.bytes())
                .take_while(|(a, b)| a == b)
                .count();
            let from = |text: &str| {
                format!(
                    "{:?}",
                    text.get(at..)
                        .unwrap_or_default()
                        .chars()
                        .take(40)
                        .collect::<String>()
                )
            };
            Some(format!(
                " at byte {at}: {} instead of {}",
                from(ours),
                from(theirs)
            ))
        }
        (ours, theirs) => Some(format!(
            ": a {} instead of a {}",
            ours.type_name(),
            theirs.type_name()
        )),
    }
}

/// Every value of the result belongs to some document.
fn check_marks(node: &Node, rendering: &Rendering) {
    assert!(rendering.origin(node.mark).is_some());
    match &node.value {
        Value::Map(map) => {
            Map::iter(map).for_each(|(_, field)| check_marks(&field.node, rendering))
        }
        Value::List(list) => list.iter().for_each(|node| check_marks(node, rendering)),
        _ => {}
    }
}
