//! What holds for every site: nothing is changed, the order does not count, only dependencies do.

use proptest::prelude::*;
use proptest::sample::select;

use super::{Site, document};
use crate::document::Node;
use crate::render::path::Path;
use crate::render::{Options, Rendering, render};

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

fn substitution() -> impl Strategy<Value = String> {
    let pattern = select(vec![
        "",
        ", pattern: P",
        ", pattern: '(P) a', recurse: {depth: -1}",
        ", pattern: P, recurse: {depth: -1}",
    ]);
    (select(&NAMES[..]), select(&PATHS[..]), select(&PATHS[..]), pattern).prop_map(|(name, source, path, pattern)| {
        format!("{{src: {{schema: example/Kind/v1, name: {name}, path: '{source}'}}, dest: {{path: '{path}'{pattern}}}}}")
    })
}

fn site_document() -> impl Strategy<Value = String> {
    let action = (
        select(vec!["merge", "replace", "delete"]),
        select(&PATHS[..]),
    )
        .prop_map(|(method, path)| format!("{{method: {method}, path: '{path}'}}"));
    (
        select(&NAMES[..]),
        select(vec!["global", "type", "site"]),
        select(vec!["", "", "abstract"]),
        prop::option::of((select(vec!["p", "q"]), prop::collection::vec(action, 1..3))),
        select(vec!["", "", "labels: {is: p}, ", "labels: {is: q}, "]),
        select(vec!["", "", "replacement: true, "]),
        prop::collection::vec(substitution(), 0..3),
        data(),
    )
        .prop_map(
            |(name, layer, is_abstract, parent, labels, replacement, substitutions, data)| {
                let parent = parent.map(|(label, actions)| {
                    format!(
                        "parentSelector: {{is: {label}}}, actions: [{}]",
                        actions.join(", ")
                    )
                });
                let metadata = format!(
                    "{is_abstract}{};{labels}{replacement}substitutions: [{}]",
                    parent.unwrap_or_default(),
                    substitutions.join(", ")
                );
                document("Kind", name, layer, &metadata, &data)
            },
        )
}

fn site() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(site_document(), 1..7)
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
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_order_of_the_documents_does_not_count_and_none_is_changed(
        texts in site(),
        seed in any::<prop::sample::Index>(),
    ) {
        let site = Site::of(&texts);
        let before = inputs(&site);
        let options = Options { allow_missing_sources: true, ..Options::default() };
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
        let whole = site.render();
        for rendered in &whole.documents {
            let needed = whole.dependencies.all_of(rendered.index);
            let some: Vec<_> = needed
                .iter()
                .chain([&rendered.index])
                .filter_map(|index| whole.input(*index).cloned())
                .chain(site.documents.first().cloned())
                .collect();
            let options = Options::default();
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
            let _ = pattern.substitute(&template, &text, 1000);
        }
    }
}
