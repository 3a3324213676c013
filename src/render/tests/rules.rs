//! The effects of parents, actions, substitutions and replacements, one table each.

use super::{POLICY, Site, child, codes, document, expectation, messages, outcome, parent, value};
use crate::render::{RenderOptions, render};

/// The rows of a table: cells between ` | `, the first line being the header, `#` beginning a comment.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().skip(2).filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let cells: Vec<_> = line.split(" | ").map(str::trim).collect();
        cells.try_into().unwrap_or_else(|_| panic!("{line}"))
    })
}

/// Data of the parent, actions of the child and its data.
const ACTIONS: &str = r#"
parent                    | actions                                                 | child                  | result, or codes
{a: 1, b: 2}              | [{method: merge, path: .}]                              | {b: 3, c: 4}           | {a: 1, b: 3, c: 4}
{a: {x: {p: 1}, y: 2}}    | [{method: merge, path: .a}]                             | {a: {x: {q: 2}}, z: 1} | {a: {x: {p: 1, q: 2}, y: 2}}
{a: [1, 2], b: {c: 1}}    | [{method: merge, path: .}]                              | {a: [3], b: {}}        | {a: [3], b: {c: 1}}
{a: {x: 1}}               | [{method: merge, path: .}]                              | {a: null}              | {a: null}
{a: 1}                    | [{method: merge, path: .b.c}]                           | {b: {c: {d: 1}}}       | {a: 1, b: {c: {d: 1}}}
text                      | [{method: merge, path: .}]                              | {a: 1}                 | {a: 1}
{a: 1}                    | [{method: merge, path: .}]                              | null                   | render-action
{a: 1}                    | [{method: merge, path: .b}]                             | {c: 1}                 | render-action
{a: {x: 1}, b: 2}         | [{method: replace, path: .a}]                           | {a: {y: 1}}            | {a: {y: 1}, b: 2}
{a: 1, b: 2}              | [{method: replace, path: .}]                            | {c: 1}                 | {c: 1}
{a: 1}                    | [{method: replace, path: .a}]                           | {a: null}              | render-action
{a: 1}                    | [{method: replace, path: .a}]                           | {}                     | render-action
{a: 1, b: 2}              | [{method: delete, path: .a}]                            | {}                     | {b: 2}
{a: null, b: 2}           | [{method: delete, path: .a}]                            | {}                     | {b: 2}
{a: 1}                    | [{method: delete, path: .}]                             | {b: 1}                 | {}
{a: 1}                    | [{method: delete, path: .b}]                            | {b: 1}                 | render-action
# Removed is what the path names, not the first value that is equal to it.
{first: [1], second: [1]} | [{method: delete, path: .second}]                       | {}                     | {first: [1]}
{a: [x, y, x]}            | [{method: delete, path: '.a[2]'}]                       | {}                     | {a: [x, y]}
{a: [x, y, x]}            | [{method: delete, path: '.a[*]'}]                       | {}                     | {a: []}
# Only a whole first step `data` is left out.
{a: 1, base: 2}           | [{method: replace, path: .data.a}]                      | {a: 3, base: 4}        | {a: 3, base: 2}
{database: 1, base: 2}    | [{method: replace, path: .database}]                    | {database: 3, base: 4} | {database: 3, base: 2}
{a: 1}                    | [{method: replace, path: a}]                            | {a: 2}                 | {a: 2}
{a: 1, b: 1}              | [{method: delete, path: .a}, {method: merge, path: .}]  | {c: 1}                 | {b: 1, c: 1}
{a: 1}                    | [{method: merge, path: .a/b}]                           | {c: 1}                 | render-path
{a: 1}                    | [{method: merge, path: .a.b}]                           | {a: {b: 1}}            | render-path-write
{a: 1}                    | [{method: merge, path: .x}, {method: delete, path: .y}] | {}                     | render-action render-action
"#;

#[test]
fn actions_change_the_data_of_the_parent() {
    for [data, actions, own, expected] in rows(ACTIONS) {
        let metadata = format!("parentSelector: {{is: parent}}, actions: {actions};");
        let site = Site::of(&[
            document(
                "Kind",
                "parent",
                "global",
                "abstract;labels: {is: parent}",
                data,
            ),
            document("Kind", "child", "site", &metadata, own),
        ]);
        let found = outcome(&site.render(), "child");
        assert_eq!(found, expectation(expected), "{data} {actions} {own}");
    }
}

/// Data of the source, source and destinations of the substitution, data of the document that has it.
const SUBSTITUTIONS: &str = r#"
source          | src                                              | dest                                         | data                   | result, or codes
{a: 1}          | path: .a                                         | {path: .x}                                   | {}                     | {x: 1}
{a: {b: 1}}     | path: .                                          | {path: .x}                                   | {x: 1, y: 2}           | {x: {a: {b: 1}}, y: 2}
text            | path: .                                          | {path: .x}                                   | {}                     | {x: text}
text            | path: .any.thing                                 | {path: .x}                                   | {}                     | {x: text}
{a: [1, 2]}     | path: '.a[*]'                                    | {path: .x}                                   | {}                     | {x: 1}
{a: 1}          | path: .a                                         | [{path: .x}, {path: '.y[1].z'}]              | {}                     | {x: 1, y: [{}, {z: 1}]}
{a: 1}          | path: .a                                         | {path: '.x[*].y'}                            | {x: [{y: 0}, {y: 0}]}  | {x: [{y: 1}, {y: 1}]}
{a: {b: 1}}     | path: .a                                         | {path: .}                                    | {b: 0, c: 2}           | {b: 1, c: 2}
{a: false}      | path: .a                                         | {path: .}                                    | text                   | false
{a: 1}          | path: .a                                         | {path: .x.y}                                 | {x: text}              | render-path-write
{a: 1}          | path: .a                                         | {path: .x.y}                                 | {x: null}              | render-path-write
{a: 1}          | path: .a                                         | {path: .x}                                   | {x: null}              | {x: 1}
{a: 1}          | path: .a                                         | {path: '.x[0][1]'}                           | {}                     | render-path-write
{a: 1}          | path: .a                                         | {path: '.x[*]'}                              | {}                     | render-path-write
{a: 1}          | path: .a                                         | {path: x}                                    | {}                     | render-path-write
{a: 1}          | path: .b                                         | {path: .x}                                   | {}                     | render-source-missing
{a: null}       | path: .a                                         | {path: .x}                                   | {}                     | render-source-missing
{a: 1}          | path: .a                                         | {path: .x, pattern: P}                       | {x: a P b P}           | {x: a 1 b 1}
{a: true}       | path: .a                                         | {path: .x, pattern: P}                       | {x: P}                 | {x: 'True'}
{a: {k: 1}}     | path: .a                                         | {path: .x, pattern: P}                       | {x: P}                 | {x: "{'k': 1}"}
{a: '<\1>'}     | path: .a                                         | {path: .x, pattern: '(P+)'}                  | {x: aPPb}              | {x: a<PP>b}
{a: '\d'}       | path: .a                                         | {path: .x, pattern: P}                       | {x: P}                 | render-pattern
{a: 1}          | path: .a                                         | {path: .x, pattern: P}                       | {x: none}              | {x: none}
{a: 1}          | path: .a                                         | {path: .x, pattern: P}                       | {x: 1}                 | render-pattern-target
{a: 1}          | path: .a                                         | {path: .x, pattern: P}                       | {}                     | render-pattern-target
{a: 1}          | path: .a                                         | {path: .x, pattern: '(?=P)'}                 | {x: P}                 | render-pattern
{a: 1}          | path: .a                                         | {path: '.x[*]', pattern: P}                  | {x: [aP, Pb]}          | {x: [a1, 1b]}
{a: 1}          | path: .a                                         | {path: ., pattern: P, recurse: {depth: -1}}  | {x: [P, {y: P}], z: 1} | {x: ['1', {y: '1'}], z: 1}
{a: 1}          | path: .a                                         | {path: ., pattern: P, recurse: {depth: 1}}   | {x: P, y: [P]}         | {x: '1', y: [P]}
{a: 1}          | path: .a                                         | {path: ., pattern: P, recurse: {depth: 0}}   | {x: P}                 | {x: P}
{a: 1}          | path: .a                                         | {path: .x, pattern: P, recurse: {depth: 0}}  | {x: P}                 | {x: '1'}
# With `recurse` a string is touched only if it holds the pattern as it is written.
{a: 1}          | path: .a                                         | {path: ., pattern: P+, recurse: {depth: -1}} | {x: PP, y: PP+}        | {x: PP, y: 1+}
{a: 'image:v1'} | path: .a, pattern: '^(.*):(.*)$', match_group: 2 | {path: .x}                                   | {}                     | {x: v1}
{a: 'image:v1'} | path: .a, pattern: 'v\d'                         | {path: .x}                                   | {}                     | {x: v1}
{a: image}      | path: .a, pattern: 'v\d'                         | {path: .x}                                   | {}                     | {x: image}
{a: image}      | path: .a, pattern: '(i)(x)?', match_group: 2     | {path: .x}                                   | {}                     | render-pattern
{a: image}      | path: .a, pattern: i, match_group: 1             | {path: .x}                                   | {}                     | render-pattern
{a: 1}          | path: .a, pattern: i                             | {path: .x}                                   | {}                     | render-pattern-target
{a: 1}          | path: .a/b                                       | {path: .x}                                   | {}                     | render-path
{a: 1}          | path: .a                                         | [{path: .x.}, {path: .y.z}]                  | {y: 1}                 | render-path render-path-write
"#;

#[test]
fn substitutions_take_values_from_other_documents() {
    for [source, src, dest, data, expected] in rows(SUBSTITUTIONS) {
        let metadata = format!(
            ";substitutions: [{{src: {{schema: example/Source/v1, name: source, {src}}}, dest: {dest}}}]"
        );
        let site = Site::of(&[
            document("Source", "source", "global", "", source),
            document("Kind", "target", "site", &metadata, data),
        ]);
        let found = outcome(&site.render(), "target");
        assert_eq!(found, expectation(expected), "{source} {src} {dest} {data}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_in_its_destination_is_a_warning() {
    let codes = |pattern: &str| {
        let metadata = format!(
            ";substitutions: [{{src: {{schema: example/Source/v1, name: source, path: .a}}, dest: {{path: .x, pattern: '{pattern}'}}}}]"
        );
        let site = Site::of(&[
            document("Source", "source", "global", "", "{a: 1}"),
            document("Kind", "target", "site", &metadata, "{x: port HERE}"),
        ]);
        codes(&site.render())
    };
    assert_eq!(codes("HERE"), Vec::<String>::new());
    assert_eq!(codes("THERE"), ["render-pattern?"]);
}

#[test]
fn the_parent_is_the_nearest_document_that_carries_all_labels() {
    let other_schema = document("Other", "o", "global", "abstract;labels: {k: v}", "{}");
    for (parents, child, expected) in [
        (
            vec![parent("a", "global", "k: v")],
            child("c", "site", "k: v"),
            "{a: 1, c: 1}",
        ),
        (
            vec![parent("a", "global", "k: v"), parent("b", "type", "k: v")],
            child("c", "site", "k: v"),
            "{b: 1, c: 1}",
        ),
        (
            vec![
                parent("a", "global", "k: v, l: w"),
                parent("b", "type", "k: v"),
            ],
            child("c", "site", "k: v, l: w"),
            "{a: 1, c: 1}",
        ),
        (
            vec![parent("a", "global", "k: 1")],
            child("c", "site", "k: 1"),
            "{a: 1, c: 1}",
        ),
        (
            vec![
                parent("a", "global", "k: v"),
                parent("b", "global", "k: v"),
                parent("d", "type", "k: v"),
            ],
            child("c", "site", "k: v"),
            "{c: 1, d: 1}",
        ),
        (
            vec![parent("a", "global", "k: v"), parent("b", "global", "k: v")],
            child("c", "site", "k: v"),
            "render-parent-ambiguous",
        ),
        (
            vec![parent("a", "global", "k: v"), other_schema],
            child("c", "site", "k: v"),
            "render-parent-schema",
        ),
        (
            vec![parent("a", "site", "k: v")],
            child("c", "site", "k: v"),
            "render-parent-layer",
        ),
        (
            vec![parent("a", "site", "k: v")],
            child("c", "type", "k: v"),
            "render-parent-layer",
        ),
        // Nothing matches: the document keeps its own data.
        (
            vec![parent("a", "global", "k: w")],
            child("c", "site", "k: v"),
            "{c: 1}",
        ),
        (
            vec![parent("a", "global", "k: '1'")],
            child("c", "site", "k: 1"),
            "{c: 1}",
        ),
    ] {
        let mut documents = parents.clone();
        documents.push(child.clone());
        let found = outcome(&Site::of(&documents).render(), "c");
        assert_eq!(found, expectation(expected), "{parents:?} {child}");
    }
    let alone = Site::of(&[child("c", "site", "k: v")]).render();
    assert_eq!(codes(&alone), ["render-parent-missing?"]);
    // A document that carries the labels that it asks for is not its own parent.
    let metadata = "parentSelector: {k: v}, actions: [{method: merge, path: .}];labels: {k: v}";
    let own = document("Kind", "c", "site", metadata, "{}");
    assert_eq!(
        codes(&Site::of(&[own]).render()),
        ["render-parent-missing?"]
    );
}

#[test]
fn a_replacement_takes_the_place_of_its_parent_everywhere() {
    let base = |name: &str, metadata: &str| document("Kind", name, "global", metadata, "{base: 1}");
    let replacement = |name: &str, layer: &str, selector: &str| {
        let metadata = format!(
            "parentSelector: {{{selector}}}, actions: [{{method: merge, path: .}}];replacement: true"
        );
        document("Kind", name, layer, &metadata, &format!("{{{layer}: 1}}"))
    };
    let labelled = |text: String, labels: &str| {
        text.replace(
            "replacement: true",
            &format!("replacement: true, labels: {{{labels}}}"),
        )
    };
    let user = document(
        "Kind",
        "user",
        "global",
        ";substitutions: [{src: {schema: example/Kind/v1, name: a, path: .}, dest: {path: .x}}]",
        "{}",
    );

    let site = Site::of(&[
        base("a", ";labels: {k: v}"),
        replacement("a", "site", "k: v"),
        child("c", "site", "k: v"),
        user,
    ]);
    let rendering = site.render();
    assert_eq!(codes(&rendering), Vec::<String>::new());
    for (name, expected) in [
        ("a", "{base: 1, site: 1}"),
        ("c", "{base: 1, site: 1, c: 1}"),
        ("user", "{x: {base: 1, site: 1}}"),
    ] {
        assert_eq!(outcome(&rendering, name), Ok(value(expected)), "{name}");
    }
    assert_eq!(rendering.of_schema("example/Kind/v1").len(), 3);

    let chain = |middle: String| {
        let documents = [
            base("a", "abstract;labels: {k: v}"),
            labelled(middle, "l: w"),
            replacement("a", "site", "l: w"),
        ];
        outcome(&Site::of(&documents).render(), "a")
    };
    assert_eq!(
        chain(replacement("a", "type", "k: v")),
        expectation("render-replacement-chain")
    );
    let middle = replacement("a", "type", "k: v").replace("abstract: false", "abstract: true");
    assert_eq!(chain(middle), expectation("{base: 1, type: 1, site: 1}"));

    for (documents, expected) in [
        (
            vec![replacement("a", "site", "k: v")],
            "render-parent-missing? render-replacement-parent",
        ),
        (
            vec![
                base("b", ";labels: {k: v}"),
                replacement("a", "site", "k: v"),
            ],
            "render-replacement-parent",
        ),
        (
            vec![base("a", ";labels: {k: v}"), child("a", "site", "k: v")],
            "render-replacement-undeclared",
        ),
        (
            vec![base("a", ""), document("Kind", "a", "site", "", "{}")],
            "render-name",
        ),
        (
            vec![
                base("a", ";labels: {k: v}"),
                replacement("a", "type", "k: v"),
                replacement("a", "site", "k: v"),
            ],
            "render-replacement-chain",
        ),
    ] {
        let found = outcome(&Site::of(&documents).render(), "none");
        assert_eq!(found, expectation(expected), "{documents:?}");
    }
}

#[test]
fn layers_and_policies_are_checked() {
    let document = document("Kind", "a", "sites", "", "{}");
    let site = Site::of(std::slice::from_ref(&document));
    assert_eq!(
        messages(&site.render()),
        ["the layering policy has no layer `sites` (did you mean `site`?)"]
    );

    let without = render(&site.documents[1..], &RenderOptions::default());
    assert_eq!(codes(&without), ["render-layering-policy"]);
    let options = RenderOptions {
        default_layers: Some(vec!["sites".into()]),
        ..RenderOptions::default()
    };
    assert_eq!(
        codes(&render(&site.documents[1..], &options)),
        Vec::<String>::new()
    );

    let second = |order: &str| {
        POLICY
            .replace("name: policy", "name: second")
            .replace("[global, type, site]", order)
    };
    for (order, expected) in [
        ("[global, type, site]", "render-layering-policy?"),
        ("[site]", "render-layering-policy"),
        ("null", "render-layering-policy"),
    ] {
        assert_eq!(
            codes(&Site::of(&[second(order)]).render()),
            [expected],
            "{order}"
        );
    }
    for order in ["null", "site", "[1]", "[site, site]"] {
        let site = Site::of(&[second(order)]);
        let rendering = render(&site.documents[1..], &RenderOptions::default());
        assert_eq!(codes(&rendering), ["render-layering-policy"], "{order}");
    }
}
