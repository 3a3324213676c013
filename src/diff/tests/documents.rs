//! Which fields are told as different, and which texts are shown of them.

use proptest::prelude::*;

use super::{document, documents_of};
use crate::diagnostic::Sources;
use crate::diff::{LineKind, documents, lines};

/// The differences between two texts, a line each.
fn told(before: &str, after: &str) -> Vec<String> {
    let mut sources = Sources::new();
    let before = documents_of(&mut sources, "before.yaml", before);
    let after = documents_of(&mut sources, "after.yaml", after);
    let found = documents(&before, &after);
    let total = found.unchanged + found.changed.len();
    assert_eq!(total + found.added.len(), after.len());
    assert_eq!(total + found.removed.len(), before.len());
    let mut told: Vec<String> = Vec::new();
    told.extend(
        found
            .removed
            .iter()
            .map(|one| format!("- {}", one.document.id)),
    );
    told.extend(
        found
            .added
            .iter()
            .map(|one| format!("+ {}", one.document.id)),
    );
    for changed in &found.changed {
        for field in &changed.fields {
            let [before, after] = field.shown();
            let text = |side: Option<std::sync::Arc<str>>| {
                side.map_or("∅".to_owned(), |side| side.to_string())
            };
            let moved = field
                .moved_from
                .as_ref()
                .map_or_else(String::new, |from| format!(" (from {from})"));
            told.push(format!(
                "{}{moved}: {} → {}",
                field.path,
                text(before),
                text(after)
            ));
        }
    }
    told
}

fn one(data: &str) -> String {
    document("example/Kind/v1", "one", "", data)
}

#[test]
fn only_values_count() {
    let before = "---\nschema: e/A/v1\nmetadata: {name: a}\ndata: {x: 1, y: [1, 2]}\n---\nschema: e/B/v1\nmetadata: {name: b}\ndata: text\n";
    let after = "---\nschema: e/B/v1\nmetadata:\n  name: b\ndata: 'text'\n---\n# moved\nschema: e/A/v1\nmetadata: {name: a}\ndata:\n  y:\n  - 0x1\n  - 2\n  x: 1\n";
    assert_eq!(told(before, after), Vec::<String>::new());
}

#[test]
fn fields_are_told_with_their_path_and_both_sides() {
    let table: &[(&str, &str, &[&str])] = &[
        ("{a: 1}", "{a: 2}", &[".data.a: 1 → 2"]),
        ("{a: 1}", "{a: '1'}", &[".data.a: 1 → '1'"]),
        (
            "{a: 1}",
            "{a: 1, b: {c: [x]}}",
            &[".data.b: ∅ → {\"c\":[\"x\"]}"],
        ),
        ("{a: 1, b: ~}", "{a: 1}", &[".data.b: null → ∅"]),
        (
            "{a/b: {'x.y': 1}}",
            "{a/b: {'x.y': 2}}",
            &[".data['a/b']['x.y']: 1 → 2"],
        ),
        ("{1: x}", "{1: z}", &[".data[1]: x → z"]),
        ("[a, b, c]", "[x, a, b, c]", &[".data[0]: ∅ → x"]),
        ("[a, b, c]", "[a, c]", &[".data[1]: b → ∅"]),
        ("[a, b, c]", "[a, x, c]", &[".data[1]: b → x"]),
        (
            "[a, b, c]",
            "[c, a, b]",
            &[".data[0] (from .data[2]): c → c"],
        ),
        (
            "[{x: 1, y: 1}, {x: 2}]",
            "[{x: 1, y: 2}, {x: 2}]",
            &[".data[0].y: 1 → 2"],
        ),
        (
            "[{name: a, v: 1}, {name: b, v: 1}]",
            "[{name: c, v: 0}, {name: a, v: 1}, {name: b, v: 2}]",
            &[
                ".data[0]: ∅ → {\"name\":\"c\",\"v\":0}",
                ".data[2].v: 1 → 2",
            ],
        ),
        (
            "[{name: a, v: 1}, {name: b, v: 1}]",
            "[{name: b, v: 1}, {name: a, v: 2}]",
            &[
                ".data[0] (from .data[1]): {\"name\":\"b\",\"v\":1} → {\"name\":\"b\",\"v\":1}",
                ".data[1].v: 1 → 2",
            ],
        ),
        ("{a: [1]}", "{a: {b: 1}}", &[".data.a: [1] → {\"b\":1}"]),
        ("x", "z", &[".data: x → z"]),
    ];
    for (before, after, expected) in table {
        assert_eq!(
            told(&one(before), &one(after)),
            *expected,
            "{before} {after}"
        );
    }
}

#[test]
fn documents_are_known_by_schema_layer_and_name() {
    let before = document("e/A/v1", "a", "", "1") + &document("e/A/v1", "b", "", "1");
    let after = document("e/A/v1", "a", ", labels: {x: y}", "1")
        + &document("e/A/v1", "b", ", layeringDefinition: {layer: type}", "1");
    let expected = [
        "- e/A/v1/b",
        "+ e/A/v1/b",
        ".metadata.labels: ∅ → {\"x\":\"y\"}",
    ];
    assert_eq!(told(&before, &after), expected);
}

#[test]
fn a_secret_is_told_as_changed_and_never_shown() {
    let secret = |data: &str| document("e/A/v1", "a", ", storagePolicy: encrypted", data);
    let clear = |data: &str| document("e/A/v1", "a", "", data);
    let expected = [".data: (secret) → (secret)"];
    assert_eq!(
        told(&secret("{a: hunter2}"), &secret("{a: hunter3}")),
        expected
    );
    assert_eq!(told(&secret("[x, y]"), &secret("[y, x]")), expected);
    let hidden = told(&clear("{a: hunter2}"), &secret("{a: hunter3}"));
    assert_eq!(
        hidden,
        [expected[0], ".metadata.storagePolicy: ∅ → encrypted"]
    );
}

#[test]
fn long_and_many_lined_values_stay_on_one_line_around_what_differs() {
    let long = "x".repeat(300);
    let before = one(&format!("{{a: '{long}b{long}', c: \"one\\ntwo\"}}"));
    let after = one(&format!("{{a: '{long}d{long}', c: \"one\\nthree\"}}"));
    let told = told(&before, &after);
    assert!(
        told[0].starts_with(&format!(".data.a: …{}b", "x".repeat(24))),
        "{}",
        told[0]
    );
    assert!(
        told.iter()
            .all(|line| line.chars().count() < 230 && !line.contains('\n'))
    );
    assert_eq!(told[1], ".data.c: \"one\\ntwo\" → \"one\\nthree\"");
}

#[test]
fn texts_are_compared_line_by_line_and_word_by_word() {
    let before = "a: 1\nb: two words\nc: 3\nd: 4\n";
    let after = "a: 1\nb: three words\nc: 3\nd: 4\n";
    let hunks = lines(before, after, 1);
    assert_eq!(hunks.len(), 1);
    let kinds: Vec<_> = hunks[0].iter().map(|line| line.kind).collect();
    use LineKind::{Added, Removed, Same};
    assert_eq!(kinds, [Same, Removed, Added, Same]);
    let removed = &hunks[0][1];
    assert_eq!((removed.before, removed.after), (Some(2), None));
    let whole: String = removed
        .parts
        .iter()
        .map(|(_, part)| part.as_str())
        .collect();
    assert_eq!(whole, "b: two words");
    assert!(
        removed.parts.contains(&(true, "two".to_owned())),
        "{removed:?}"
    );
}

fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("x".to_owned()),
        Just("~".to_owned())
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::btree_map("[a-c]|name", inner, 0..4).prop_map(|fields| {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn there_is_a_difference_exactly_where_values_differ(before in any_value(), after in any_value()) {
        let mut sources = Sources::new();
        let old = documents_of(&mut sources, "before.yaml", &one(&before));
        let new = documents_of(&mut sources, "after.yaml", &one(&after));
        let forward = documents(&old, &new);
        prop_assert_eq!(forward.is_empty(), old[0].data == new[0].data);
        let backward = documents(&new, &old);
        let paths = |found: &crate::diff::DocumentDiff| found.changed.iter().map(|one| one.fields.len()).sum::<usize>();
        prop_assert_eq!(paths(&forward) == 0, paths(&backward) == 0);
    }
}
