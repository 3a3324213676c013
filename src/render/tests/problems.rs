//! Problems are reported: all of them, once, at their place, with the way out.

use super::{Site, child, codes, document, link, messages, outcome, value};
use crate::render::{RenderOptions, render};

#[test]
fn a_circle_is_reported_as_a_whole_and_once() {
    let site = Site::of(&[
        link("b", "c"),
        link("c", "a"),
        link("a", "b"),
        link("user", "a"),
        link("self", "self"),
    ]);
    let rendering = site.render();
    assert_eq!(
        messages(&rendering),
        [
            "documents depend on each other in a circle: `example/Kind/v1/a` → `example/Kind/v1/b` → `example/Kind/v1/c` → `example/Kind/v1/a`",
            "`example/Kind/v1/self` takes a value from itself",
        ]
    );
    let circle = rendering.diagnostics.iter().next().unwrap();
    let lines: Vec<_> = circle
        .related
        .iter()
        .map(|related| {
            (
                site.sources.place(related.mark).line,
                related.message.as_str(),
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            (
                7,
                "`example/Kind/v1/b` takes a value from `example/Kind/v1/c`"
            ),
            (
                11,
                "`example/Kind/v1/c` takes a value from `example/Kind/v1/a`"
            ),
        ]
    );
    assert_eq!(rendering.documents.len(), 1, "only the policy is sound");

    let selector = "labels: {k: v}, ";
    let through_parent = [
        link("p", "c")
            .replace("substitutions", &format!("{selector}substitutions"))
            .replace("layer: site", "layer: global"),
        child("c", "site", "k: v"),
    ];
    assert_eq!(codes(&Site::of(&through_parent).render()), ["render-cycle"]);
}

#[test]
fn a_second_document_with_the_same_schema_layer_and_name_is_an_error() {
    let site = Site::of(&[
        document("Kind", "a", "site", "", "{x: 1}"),
        document("Kind", "a", "site", "", "{x: 2}"),
    ]);
    let rendering = site.render();
    assert_eq!(
        messages(&rendering),
        ["`example/Kind/v1/a` is already defined in layer `site`"]
    );
    let problem = rendering.diagnostics.iter().next().unwrap();
    let line = |mark| site.sources.place(mark).line;
    assert_eq!(
        (problem.mark.map(line), line(problem.related[0].mark)),
        (Some(11), 7)
    );
}

#[test]
fn what_depends_on_a_wrong_document_fails_without_a_word_and_the_rest_is_rendered() {
    let site = Site::of(&[
        link("a", "missing"),
        link("b", "a"),
        link("c", "b"),
        link("d", "gone"),
        link("e", "sound"),
        document("Kind", "sound", "site", "", "{y: 1}"),
    ]);
    let rendering = site.render();
    assert_eq!(
        codes(&rendering),
        ["render-source-missing", "render-source-missing"]
    );
    let names: Vec<_> = rendering
        .of_schema("example/Kind/v1")
        .iter()
        .map(|rendered| &*rendered.id().name)
        .collect();
    assert_eq!(names, ["e", "sound"]);
}

#[test]
fn missing_sources_may_be_allowed_and_leave_the_destination_as_it_was() {
    let missing_value = link("b", "source").replace("path: .}", "path: .none}");
    let site = Site::of(&[
        link("a", "missing").replace("data: {}", "data: {x: old}"),
        missing_value,
        document("Kind", "source", "site", "", "{y: 1}"),
    ]);
    let options = RenderOptions {
        allow_missing_sources: true,
        ..RenderOptions::default()
    };
    let rendering = render(&site.documents, &options);
    assert_eq!(
        codes(&rendering),
        ["render-source-missing?", "render-source-missing?"]
    );
    assert_eq!(outcome(&rendering, "a"), Ok(value("{x: old}")));
    assert_eq!(outcome(&rendering, "b"), Ok(value("{}")));
}

#[test]
fn hints_say_what_was_meant() {
    let site = Site::of(&[
        document("Kind", "endpoints", "site", "", "{database: {host: h}}"),
        document("Kind", "shape", "global", "abstract;", "{}"),
        link("a", "endpoint"),
        link("b", "shape"),
        link("c", "endpoints").replace("path: .}", "path: .database.hots}"),
        link("d", "endpoints").replace(
            "example/Kind/v1, name: endpoints",
            "example/Kin/v1, name: endpoints",
        ),
        link("e", "endpoints").replace("path: .x", "path: .x/y"),
    ]);
    assert_eq!(
        messages(&site.render()),
        [
            "there is no document `example/Kind/v1/endpoint` to take a value from (did you mean `example/Kind/v1/endpoints`?)",
            "there is no document `example/Kind/v1/shape` to take a value from (it is abstract, and only concrete documents are sources)",
            "`example/Kind/v1/endpoints` has no value at `.database.hots` (did you mean `host`?)",
            "there is no document `example/Kin/v1/endpoints` to take a value from (did you mean `example/Kind/v1/endpoints`?)",
            "`.x/y` is no path: unexpected `/` at character 3 (a key with such characters is written in quotes, as in `.'a/b'.c`)",
        ]
    );
}

#[test]
fn documents_that_double_or_nest_without_end_are_stopped() {
    let step = |at: usize, dest: &str, data: &str| {
        let metadata = format!(
            ";substitutions: [{{src: {{schema: example/Kind/v1, name: s{at}, path: .v}}, dest: [{dest}]}}]"
        );
        document("Kind", &format!("s{}", at + 1), "site", &metadata, data)
    };
    for (start, dest, data) in [
        ("{v: {x: 1}}", "{path: .v.x}, {path: .v.y}", "{}"),
        ("{v: {x: 1}}", "{path: .v.x}", "{}"),
        ("{v: XXXXXXXX}", "{path: .v, pattern: P}", "{v: PPPPPPPP}"),
    ] {
        let mut documents = vec![document("Kind", "s0", "site", "", start)];
        documents.extend((0..400).map(|at| step(at, dest, data)));
        let rendering = Site::of(&documents).render();
        assert_eq!(codes(&rendering), ["render-too-large"], "{dest}");
    }
}

#[test]
fn a_thousand_children_of_a_large_parent_are_paid_for_and_the_first_too_many_is_named() {
    let large: String = (0..20_000).map(|at| format!("k{at}: 1, ")).collect();
    let metadata = "abstract;labels: {x: p}";
    let parent = document(
        "Kind",
        "p",
        "global",
        metadata,
        &format!("{{z: {{}}, large: {{{large}}}}}"),
    );
    let child = |at: usize| {
        let metadata = "parentSelector: {x: p}, actions: [{method: merge, path: .z}];";
        document(
            "Kind",
            &format!("c{at:04}"),
            "site",
            metadata,
            "{z: {own: 1}}",
        )
    };
    let site = |children: usize| {
        let documents: Vec<_> = std::iter::once(parent.clone())
            .chain((0..children).map(child))
            .collect();
        Site::of(&documents).render()
    };
    assert_eq!(codes(&site(100)), Vec::<String>::new());
    let rendering = site(700);
    assert_eq!(codes(&rendering), ["render-too-large"]);
    let problem = rendering.diagnostics.iter().next().unwrap();
    let named = rendering.origin(problem.mark.unwrap()).unwrap();
    let named = &rendering.input(named).unwrap().id.name;
    // The next one of those that could be paid for.
    let paid = rendering.of_schema("example/Kind/v1").len();
    assert!((230..300).contains(&paid), "{paid}");
    assert_eq!(**named, *format!("c{paid:04}"));
    assert!(messages(&rendering)[0].contains("let fewer documents inherit"));
}

#[test]
fn a_hundred_thousand_machines_of_two_hundred_values_may_be_rendered() {
    let budget = super::super::budget::Budget::of(100_000);
    // Each inherits most of its values and changes a quarter of them.
    assert!(budget.whole() >= 100_000 * (200 + 50));
    let treasuremap = super::super::budget::Budget::of(422);
    assert!(treasuremap.whole() >= 50 * 53_287);
}

#[test]
fn texts_that_are_taken_often_and_patterns_that_are_slow_are_paid_for() {
    let long = "v".repeat(1 << 20);
    let source = document("Kind", "source", "site", "", &long);
    let taking = |dest: &str, data: &str| {
        let metadata = format!(
            ";substitutions: [{{src: {{schema: example/Kind/v1, name: source, path: .}}, dest: [{dest}]}}]"
        );
        document("Kind", "taking", "site", &metadata, data)
    };
    let often: String = (0..1_000).map(|at| format!("{{path: .a{at}}}, ")).collect();
    let slow = format!("{{a: {}}}", "ab".repeat(100_000));
    let through = |count: usize| {
        let fields: String = (0..4_000).map(|at| format!("k{at}: 1, ")).collect();
        let paths: String = (0..count)
            .map(|at| format!("{{path: $..k{at}}}, "))
            .collect();
        (paths, format!("{{{fields}}}"))
    };
    let (few, fields) = through(10);
    let (many, _) = through(4_000);
    let short = document("Kind", "source", "site", "", "v");
    for (source, dest, data, expected) in [
        (&source, "{path: .a}, {path: .b}", "{}", vec![]),
        (&source, &*often, "{}", vec!["render-too-large"]),
        (
            &short,
            "{path: .a, pattern: 'b{3}$'}",
            &*slow,
            vec!["render-pattern?"],
        ),
        (
            &short,
            "{path: .a, pattern: '[ab]*a[ab]{6000}c'}",
            &*slow,
            vec!["render-too-large"],
        ),
        // Each of the matches visits the rest of the text.
        (
            &short,
            "{path: .a, pattern: 'a(.*c)?'}",
            &*slow,
            vec!["render-too-large"],
        ),
        (&short, &*few, &*fields, vec![]),
        (&short, &*many, &*fields, vec!["render-too-large"]),
    ] {
        let rendering = Site::of(&[source.clone(), taking(dest, data)]).render();
        assert_eq!(
            codes(&rendering),
            expected,
            "{}",
            &dest[..dest.len().min(60)]
        );
    }
}
