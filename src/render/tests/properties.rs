//! Properties of every site: nothing is changed, the order does not count, only dependencies do.

use proptest::prelude::*;
use proptest::sample::select;

use super::{Site, document};
use crate::document::Node;
use crate::render::path::Path;
use crate::render::pattern::Effort;
use crate::render::{RenderOptions, Rendering, render};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const PATHS: [&str; 7] = [".", ".x", ".y", ".x.z", ".y[0]", ".x.z.w", ".y[*]"];

fn data() -> impl Strategy<Value = String> {
    let scalar = select(vec!["1", "two", "P", "null", "P and P"]).prop_map(str::to_owned);
    scalar.prop_recursive(3, 12, 3, |below| {
        prop_oneof![
            prop::collection::vec(below.clone(), 0..3)
                .prop_map(|list| format!("[{}]", list.join(", "))),
            prop::collection::btree_map(select(vec!["x", "y", "z", "w"]), below, 0..4).prop_map(
                |map| {
                    let fields: Vec<_> = map
                        .iter()
                        .map(|(key, value)| format!("{key}: {value}"))
                        .collect();
                    format!("{{{}}}", fields.join(", "))
                }
            ),
        ]
    })
}

/// Takes from a document that comes earlier, mostly, so that few sites are one circle.
fn substitution(at: usize) -> impl Strategy<Value = String> {
    let pattern = select(vec![
        "",
        "",
        ", pattern: P",
        ", pattern: '(P) a', recurse: {depth: -1}",
        ", pattern: P, recurse: {depth: -1}",
    ]);
    let source = prop_oneof![
        6 => select(&NAMES[..at.max(1)]),
        1 => select(&NAMES[..]),
    ];
    let paths = select(vec![".", ".x", ".y", ".x.z"]);
    let destinations = select(vec![".new", ".new.v", ".", ".x", ".x.z", ".y[*]"]);
    (source, paths, destinations, pattern).prop_map(|(name, source, path, pattern)| {
        let path = if pattern.contains("recurse") {
            "."
        } else {
            path
        };
        format!(
            "{{src: {{schema: example/Kind/v1, name: {name}, path: '{source}'}}, \
             dest: {{path: '{path}'{pattern}}}}}"
        )
    })
}

/// The document at a position: its name and layer follow from it, and so do the labels of those that can be parents.
fn site_document(at: usize) -> impl Strategy<Value = String> {
    let layer = ["global", "type", "site"][at / 2];
    let labels = ["labels: {is: p}, ", "", "labels: {is: q}, ", "", "", ""][at];
    let action = prop_oneof![
        3 => Just("{method: merge, path: .}".to_owned()),
        1 => (select(vec!["merge", "replace", "delete"]), select(&PATHS[..]))
            .prop_map(|(method, path)| format!("{{method: {method}, path: '{path}'}}")),
    ];
    let parent = match at / 2 {
        0 => Just(None).boxed(),
        layer => {
            let label = select(&["p", "q"][..layer]);
            let actions = prop::collection::vec(action, 1..3);
            prop::option::of((label, actions, prop::bool::weighted(0.3))).boxed()
        }
    };
    (
        prop::bool::weighted(0.2),
        parent,
        prop::collection::vec(substitution(at), 0..3),
        data(),
        data(),
    )
        .prop_map(move |(is_abstract, parent, substitutions, x, y)| {
            let mut name = NAMES[at];
            let mut definition = String::new();
            let mut replacement = "";
            if let Some((label, actions, replaces)) = parent {
                let actions = actions.join(", ");
                definition = format!("parentSelector: {{is: {label}}}, actions: [{actions}]");
                if replaces {
                    name = if label == "p" { NAMES[0] } else { NAMES[2] };
                    replacement = "replacement: true, ";
                }
            }
            let is_abstract = if is_abstract { "abstract" } else { "" };
            let metadata = format!(
                "{is_abstract}{definition};{labels}{replacement}substitutions: [{}]",
                substitutions.join(", ")
            );
            let data = format!("{{{}: 1, x: {x}, y: {y}}}", NAMES[at]);
            document("Kind", name, layer, &metadata, &data)
        })
}

fn site() -> impl Strategy<Value = Vec<String>> {
    let documents: Vec<_> = (0..NAMES.len())
        .map(|at| site_document(at).boxed())
        .collect();
    documents
}

/// All that a rendering says, without sharing anything with it.
fn summary(rendering: &Rendering) -> String {
    let documents: Vec<_> = rendering
        .documents
        .iter()
        .map(|rendered| {
            (
                rendered.id().to_string(),
                rendered.encrypted,
                format!("{:?}", rendered.data),
            )
        })
        .collect();
    format!("{documents:#?}{:#?}", rendering.diagnostics)
}

fn inputs(site: &Site) -> String {
    let documents: Vec<&Node> = site
        .documents
        .iter()
        .map(|document| &document.data)
        .collect();
    format!("{documents:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_order_of_the_documents_does_not_count_and_none_is_changed(
        texts in site(),
        seed in any::<prop::sample::Index>(),
    ) {
        let site = Site::of(&texts);
        let before = inputs(&site);
        let options = RenderOptions { allow_missing_sources: true, ..RenderOptions::default() };
        let expected = summary(&render(&site.documents, &options));
        prop_assert_eq!(inputs(&site), before);
        let mut shuffled = site.documents.clone();
        shuffled.rotate_left(seed.index(site.documents.len()));
        prop_assert_eq!(summary(&render(&shuffled, &options)), expected.clone());
        shuffled.reverse();
        prop_assert_eq!(summary(&render(&shuffled, &options)), expected);
    }

    #[test]
    fn a_document_is_the_same_without_those_that_it_does_not_depend_on(texts in site()) {
        let site = Site::of(&texts);
        let options = RenderOptions { allow_missing_sources: true, ..RenderOptions::default() };
        let whole = render(&site.documents, &options);
        for rendered in &whole.documents {
            let needed = whole.dependencies.all_of(rendered.index);
            let some: Vec<_> = needed
                .iter()
                .chain([&rendered.index])
                .filter_map(|index| whole.input(*index).cloned())
                .chain(site.documents.first().cloned())
                .collect();
            let part = render(&some, &options);
            let id = rendered.id();
            let alone = part.get(&id.schema, &id.name);
            prop_assert_eq!(alone.map(|alone| &alone.data), Some(&rendered.data));
        }
    }

    #[test]
    fn what_is_written_at_a_path_is_read_there_and_shared_trees_stay_as_they_are(
        tree in data(),
        written in data(),
        path in select(&PATHS[..]),
    ) {
        let before = super::value(&tree);
        let snapshot = format!("{before:?}");
        let mut after = before.clone();
        let value = super::value(&written);
        let path = Path::parse(path).unwrap();
        let mark = value.mark;
        if path.set(&mut after, value.clone(), mark).is_ok() {
            for found in path.all(&after) {
                prop_assert_eq!(found.node, &value);
            }
            prop_assert!(path.first(&after).is_some());
        } else {
            prop_assert_eq!(&after, &before);
        }
        path.remove(&mut after);
        prop_assert_eq!(format!("{before:?}"), snapshot);
    }

    #[test]
    fn no_text_makes_the_path_parser_panic(text in any::<String>(), dotted in "[.$\\[\\]'a0*:|-]{0,12}") {
        let _ = Path::parse(&text);
        let _ = Path::parse(&dotted);
    }

    #[test]
    fn no_text_makes_the_pattern_translator_panic(
        pattern in "[a(){}\\[\\]|^$*+?\\\\d0-9,:P<>=!#-]{0,16}",
        value in "[a\\\\g<>0-9]{0,8}",
        text in "[a\nd0]{0,8}",
    ) {
        if let Ok(pattern) = crate::render::pattern::Pattern::new(&pattern.into())
            && let Ok(template) = crate::render::pattern::Template::parse(&value, &pattern)
        {
            let _ = pattern.substitute(&template, &text, |effort| match effort {
                Effort::Written(bytes) if bytes > 1000 => Err(()),
                _ => Ok(()),
            });
        }
    }
}
