//! Where values come from, and which of them are secret.

use super::{Site, child, document, link, messages, outcome, value};
use crate::document::{KeyKind, Node, Value};
use crate::render::path::Path;
use crate::render::{DependencyKind, DocumentIndex};

#[test]
fn every_value_keeps_the_place_where_it_was_written() {
    let site = Site::of(&[
        document(
            "Kind",
            "parent",
            "global",
            "abstract;labels: {k: v}",
            "{inherited: 1, merged: {p: 1}}",
        ),
        document("Kind", "source", "global", "", "{v: 1}"),
        document(
            "Kind",
            "child",
            "site",
            "parentSelector: {k: v}, actions: [{method: merge, path: .}];substitutions: [{src: {schema: example/Kind/v1, name: source, path: .v}, dest: [{path: .new.v}, {path: .text, pattern: P}]}]",
            "{merged: {c: 1}, text: P}",
        ),
    ]);
    let rendering = site.render();
    let child = rendering.get("example/Kind/v1", "child").unwrap();
    for (path, origin) in [
        (".", "child"),
        (".inherited", "parent"),
        (".merged", "child"),
        (".merged.p", "parent"),
        (".merged.c", "child"),
        (".new", "child"),
        (".new.v", "source"),
        (".text", "source"),
    ] {
        let found = Path::parse(path).unwrap().first(&child.data).unwrap();
        let index = rendering.origin(found.node.mark).unwrap();
        assert_eq!(&*rendering.input(index).unwrap().id.name, origin, "{path}");
    }
}

#[test]
fn dependencies_say_how_one_document_got_into_another() {
    let site = Site::of(&[
        document("Kind", "source", "global", "", "{v: 1}"),
        document(
            "Kind",
            "parent",
            "global",
            "abstract;labels: {k: v}, substitutions: [{src: {schema: example/Kind/v1, name: source, path: .v}, dest: {path: .v}}]",
            "{}",
        ),
        child("child", "site", "k: v"),
        link("user", "child"),
    ]);
    let rendering = site.render();
    let index = |name: &str| {
        let at = rendering
            .inputs
            .iter()
            .position(|document| &*document.id.name == name);
        DocumentIndex::new(at.unwrap())
    };
    let dependencies = &rendering.dependencies;
    let route = dependencies.route(index("user"), index("source")).unwrap();
    let steps: Vec<_> = route
        .iter()
        .map(|step| (step.from, step.dependency.kind))
        .collect();
    assert_eq!(
        steps,
        [
            (index("user"), DependencyKind::Substitution(0)),
            (index("child"), DependencyKind::Parent),
            (index("parent"), DependencyKind::Substitution(0)),
        ]
    );
    assert_eq!(route.last().unwrap().dependency.target, index("source"));
    assert_eq!(dependencies.route(index("source"), index("user")), None);
    assert_eq!(
        dependencies.route(index("user"), index("user")),
        Some(Vec::new())
    );
    assert_eq!(
        dependencies.all_of(index("user")),
        [index("child"), index("parent"), index("source")]
    );
    assert_eq!(
        dependencies.all_on(index("source")),
        [index("child"), index("parent"), index("user")]
    );
    assert_eq!(dependencies.on(index("parent")), [index("child")]);
    let child = rendering.get("example/Kind/v1", "child").unwrap();
    assert_eq!(child.parent, Some(index("parent")));
}

/// Deckhand copies shallowly, so that a substitution into a substituted map writes to the source as well.
#[test]
fn a_substitution_into_a_substituted_map_leaves_the_source_alone() {
    let take = |name: &str, path: &str| {
        format!(
            "{{src: {{schema: example/Kind/v1, name: {name}, path: .}}, dest: {{path: {path}}}}}"
        )
    };
    let site = Site::of(&[
        document("Kind", "catalogue", "site", "", "{account: {name: n}}"),
        document("Kind", "password", "site", "", "secret"),
        document(
            "Kind",
            "a",
            "site",
            &format!(
                ";substitutions: [{}, {}]",
                take("catalogue", ".auth"),
                take("password", ".auth.account.password")
            ),
            "{}",
        ),
        document(
            "Kind",
            "b",
            "site",
            &format!(";substitutions: [{}]", take("catalogue", ".auth")),
            "{}",
        ),
    ]);
    let rendering = site.render();
    for (name, expected) in [
        ("catalogue", "{account: {name: n}}"),
        ("a", "{auth: {account: {name: n, password: secret}}}"),
        ("b", "{auth: {account: {name: n}}}"),
    ] {
        assert_eq!(outcome(&rendering, name), Ok(value(expected)), "{name}");
    }
}

/// All values of a tree as `path=text`, secret ones with a `!`.
fn secrets(node: &Node, path: &str, above: bool, out: &mut Vec<String>) {
    let secret = above || node.is_secret();
    match &node.value {
        Value::Map(map) => map.iter().for_each(|(key, field)| {
            assert_eq!(key.kind, KeyKind::String);
            secrets(&field.node, &format!("{path}.{}", key.text), secret, out);
        }),
        Value::List(list) => list
            .iter()
            .for_each(|node| secrets(node, path, secret, out)),
        value => out.push(format!(
            "{path}={}{}",
            value.scalar_text().unwrap_or_default(),
            if secret { "!" } else { "" }
        )),
    }
}

#[test]
fn secrets_stay_secret_wherever_they_go_and_make_nothing_else_secret() {
    let take = |path: &str, dest: &str| {
        format!("{{src: {{schema: example/Kind/v1, name: vault, path: {path}}}, dest: {dest}}}")
    };
    let site = Site::of(&[
        document(
            "Kind",
            "vault",
            "global",
            ";encrypted labels: {is: vault}",
            "{key: k, deep: {key: d}}",
        ),
        document(
            "Kind",
            "a",
            "site",
            &format!(
                ";substitutions: [{}, {}, {}]",
                take(".key", "{path: .x.y}"),
                take(".deep", "{path: .}"),
                take(".key", "{path: .url, pattern: P}")
            ),
            "{x: {z: 1}, url: 'u:P', open: o}",
        ),
        document(
            "Kind",
            "b",
            "site",
            ";substitutions: [{src: {schema: example/Kind/v1, name: a, path: .url}, dest: {path: .copy}}, {src: {schema: example/Kind/v1, name: a, path: .x}, dest: {path: .text, pattern: P}}]",
            "{open: o, text: P}",
        ),
        document(
            "Kind",
            "c",
            "site",
            "parentSelector: {is: vault}, actions: [{method: merge, path: .}];",
            "{own: 1}",
        ),
        document(
            "Kind",
            "d",
            "site",
            "parentSelector: {is: vault}, actions: [{method: replace, path: .}];",
            "{own: 1}",
        ),
    ]);
    let rendering = site.render();
    assert_eq!(messages(&rendering), Vec::<String>::new());
    let found = |name: &str| {
        let rendered = rendering.get("example/Kind/v1", name).unwrap();
        let mut out = Vec::new();
        secrets(&rendered.data, "", false, &mut out);
        (rendered.encrypted, out.join(" "))
    };
    assert_eq!(found("vault"), (true, ".key=k! .deep.key=d!".to_owned()));
    assert_eq!(
        found("a"),
        (true, ".x.z=1 .x.y=k! .url=u:k! .open=o .key=d!".to_owned())
    );
    assert_eq!(
        found("b"),
        (
            true,
            ".open=o .text={'z': 1, 'y': 'k'}! .copy=u:k!".to_owned()
        )
    );
    assert_eq!(
        found("c"),
        (true, ".key=k! .deep.key=d! .own=1!".to_owned())
    );
    assert_eq!(found("d"), (true, ".own=1".to_owned()));
}

#[test]
fn no_message_holds_a_secret() {
    let take = |more: &str, dest: &str| {
        format!("{{src: {{schema: example/Kind/v1, name: vault, {more}}}, dest: {dest}}}")
    };
    let substitutions = [
        take("path: .key, pattern: x+", "{path: .a}"),
        take("path: .key, pattern: x, match_group: 7", "{path: .a}"),
        take("path: .hunter", "{path: .a}"),
        take("path: .key", "{path: .text, pattern: P}"),
        take("path: .", "{path: .text.below}"),
    ];
    let site = Site::of(&[
        document(
            "Kind",
            "vault",
            "global",
            ";encrypted",
            "{key: 'hunter2\\d', hunter2: 1}",
        ),
        document(
            "Kind",
            "a",
            "site",
            &format!(";substitutions: [{}]", substitutions.join(", ")),
            "{text: P}",
        ),
    ]);
    let rendering = site.render();
    assert_eq!(rendering.diagnostics.counts(), (3, 2));
    assert!(!format!("{:?}", rendering.diagnostics).contains("hunter2"));
}
