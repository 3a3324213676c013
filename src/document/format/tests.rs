//! The layout of documents: values and comments stay, and a second time changes nothing.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// An order for tests: that of the envelope, and `a b c` everywhere below `data`.
fn order(kind: Option<&str>, path: &[&str]) -> Vec<Arc<str>> {
    let names: &[&str] = match (kind, path) {
        (None, []) => &["schema", "metadata", "data"],
        (None, ["metadata", ..]) => &["schema", "name", "labels"],
        _ => &["a", "b", "c"],
    };
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn formatted(text: &str) -> Result<String, Unformatted> {
    format(text, &Limits::default(), &order)
}

/// A document with data.
fn with(data: &str) -> String {
    format!("schema: x/Y/v1\nmetadata: {{name: n}}\ndata:\n{data}")
}

#[track_caller]
fn check(data: &str, expected: &str) {
    let text = with(data);
    match formatted(&text) {
        Ok(found) => assert_eq!(found, with(expected)),
        Err(error) => panic!("{text}: line {:?}: {error}", error.line),
    }
    assert_eq!(formatted(&with(expected)), Ok(with(expected)));
}

#[test]
fn fields_have_two_blanks_a_level_and_the_order_of_their_kind() {
    check("    c: 1\n    a: 2\n", "  a: 2\n  c: 1\n");
    check(
        "  x:\n      - b: 1\n        a: 2\n",
        "  x:\n    - a: 2\n      b: 1\n",
    );
    check(
        "  x:\n  - 1\n  -   2\n  y: 3\n",
        "  x:\n    - 1\n    - 2\n  y: 3\n",
    );
    check("  x: { b: 1,a : [ 1,2 ] }\n", "  x: {a: [1, 2], b: 1}\n");
    check("  x:   {}\n  y:  [ ]\n", "  x: {}\n  y: []\n");
    check(
        "  - - 1\n    - 2\n  -\n    - 3\n",
        "  - - 1\n    - 2\n  - - 3\n",
    );
    check(
        "  z: 1\n  b: 2\n  y: 3\n  a:\n",
        "  a:\n  b: 2\n  z: 1\n  y: 3\n",
    );
    check("  'b': 1\n  \"a\": 2\n", "  \"a\": 2\n  'b': 1\n");
    let text = "data: {}\nmetadata: {labels: {}, name: n}\nschema: x/Y/v1\n";
    let expected = "schema: x/Y/v1\nmetadata: {name: n, labels: {}}\ndata: {}\n";
    assert_eq!(formatted(text).as_deref(), Ok(expected));
}

#[test]
fn comments_stay_with_the_field_that_they_are_written_for() {
    check(
        "   # of c\n   c: 1 # too\n\n\n   # of a\n   # as well\n   a: 2\n",
        "  # of a\n  # as well\n  a: 2\n  # of c\n  c: 1 # too\n",
    );
    check(
        "    x:\n        y: 1\n        # z: 2\n    # of b\n    b: 1\n",
        "  # of b\n  b: 1\n  x:\n    y: 1\n    # z: 2\n",
    );
    check(
        "  x:\n  - 1\n  # of y\n  y:\n     # none\n  z: 1\n  # last\n",
        "  x:\n    - 1\n  # of y\n  y:\n    # none\n  z: 1\n  # last\n",
    );
    check(
        "  x: # of x\n    # of the entry\n    - b: 1\n      # of a\n      a: 1\n",
        "  x: # of x\n    # of the entry\n    - b: 1\n      # of a\n      a: 1\n",
    );
    let text = "# top\n\n---   \n# of the document\nmetadata: {name: n}\nschema: x/Y/v1\n\n\n\n---\nschema: z\nmetadata:\n   - a\n\n\n";
    let expected = "# top\n\n---\n# of the document\nschema: x/Y/v1\nmetadata: {name: n}\n\n---\nschema: z\nmetadata:\n  - a\n";
    assert_eq!(formatted(text).as_deref(), Ok(expected));
}

#[test]
fn the_texts_of_scalars_stay_as_they_are() {
    check(
        "    x: |\n          one\n            two\n\n          three  \n\n    y: >-\n       a\n       b\n",
        "  x: |\n    one\n      two\n\n    three  \n\n  y: >-\n    a\n    b\n",
    );
    check(
        "    x: one\n          two\n\n          three\n    y: \"a\n      b\"\n    z: 'it''s # no'\n",
        "  x: one\n    two\n\n    three\n  y: \"a\n    b\"\n  z: 'it''s # no'\n",
    );
    check(
        "  x:\n        text\n  y: a#b  # c\n",
        "  x:\n    text\n  y: a#b  # c\n",
    );
    check("  x: |+\n   a\n\n  y: 1\n", "  x: |+\n    a\n\n  y: 1\n");
    check(
        "    x: [1, # one\n        2]\n    y: {\n      a: '}',\n    }\n",
        "  x: [1, # one\n      2]\n  y: {\n    a: '}',\n  }\n",
    );
    check(
        "  x: 0x1F\n  y: '1.0'\n  u: http://a:1/b\n",
        "  x: 0x1F\n  y: '1.0'\n  u: http://a:1/b\n",
    );
}

#[test]
fn what_cannot_be_written_anew_without_a_risk_is_left_alone() {
    for (data, line, word) in [
        ("  x: &a 1\n  y: *a\n", Some(4), "anchor"),
        ("  x: {y: &a 1}\n", Some(4), "brackets"),
        ("  x: !!str 1\n", Some(4), "tag"),
        ("  ? x\n  : 1\n", Some(4), "`?`"),
        ("  x: |2\n     a\n", Some(4), "number"),
        ("  x: 1\n  x: 2\n", None, "errors"),
        ("  x:\n    'a'\n", Some(5), "below its key"),
        ("  x: 1\t2\n", Some(4), "tab"),
        ("  x: 1\r\n", None, "different ways"),
        ("  x: [1\n", None, "errors"),
    ] {
        let found = formatted(&with(data)).expect_err(data);
        assert!(found.why.contains(word), "{data}: {found}");
        assert_eq!(found.line, line, "{data}");
    }
    for (text, word) in [
        ("%YAML 1.1\n---\nschema: 1\nmetadata: 1\n", "YAML reader"),
        ("--- {schema: 1, metadata: 1}\n", "`---`"),
        ("{schema: 1, metadata: 1}\n", "not maps"),
        ("[1, 2]\n", "something else"),
        ("a: 1\n", "something else"),
        ("schema: 1\nmetadata: 1\n...\n", "YAML reader"),
        ("a: x\u{85}y\n", "line breaks"),
    ] {
        let found = formatted(text).expect_err(text);
        assert!(found.why.contains(word), "{text}: {found}");
    }
    let (text, expected) = ("schema:  1\r\nmetadata: 1", "schema: 1\r\nmetadata: 1\r\n");
    assert_eq!(formatted(text).as_deref(), Ok(expected));
    assert_eq!(formatted("").as_deref(), Ok(""));
    assert_eq!(formatted("# only\n").as_deref(), Ok("# only\n"));
}

/// A block of fields or entries with an indentation of its own, and what may stand between them.
fn block() -> impl Strategy<Value = Vec<String>> {
    let scalar = prop_oneof![
        Just("1"),
        Just("text"),
        Just("'it''s'"),
        Just("\"a # b\""),
        Just("{b: 1, a: [x, 'y']}"),
        Just("[ ]"),
        Just("x # why"),
        Just(""),
        Just("# why"),
        Just("a:b"),
        Just("- x"),
        Just("[1, # c\n   2]"),
        Just("one\n   two"),
    ];
    let leaf = prop_oneof![
        4 => ("[a-d]{1,2}", scalar).prop_map(|(key, text)| {
            text.split('\n').enumerate().map(|(number, line)| match number {
                0 => format!("{key}: {line}"),
                _ => line.to_owned(),
            }).collect::<Vec<String>>()
        }),
        1 => ("[a-d]", "[|>][-+]?", prop::collection::vec("( {0,2}[a-z#:]{1,3} {0,2})?", 1..4)).prop_map(|(key, sign, lines)| {
            let lines = lines.into_iter().map(|line| format!("   {line}"));
            std::iter::once(format!("{key}: {sign}")).chain(lines).collect()
        }),
        2 => " {0,4}# [a-z]{1,3}".prop_map(|line| vec![line]),
        1 => Just(vec![String::new()]),
    ];
    let lines = prop::collection::vec(leaf, 1..5).prop_map(|all| all.concat());
    lines.prop_recursive(3, 24, 4, |inner| {
        prop::collection::vec(("[a-d]", 0_usize..4, any::<bool>(), inner), 1..4).prop_map(|all| {
            let nested = |(key, indent, is_list, lines): (String, usize, bool, Vec<String>)| {
                let mut nested = vec![format!("{key}:")];
                nested.extend(lines.into_iter().enumerate().map(|(number, line)| {
                    let blanks = " ".repeat(indent + usize::from(!is_list));
                    match (is_list, number) {
                        (true, 0) => format!("{blanks}- {line}"),
                        (true, _) => format!("{blanks}  {line}"),
                        (false, _) => format!("{blanks}{line}"),
                    }
                }));
                nested
            };
            all.into_iter().map(nested).collect::<Vec<_>>().concat()
        })
    })
}

proptest! {
    #[test]
    fn a_formatted_text_has_the_same_values_and_comments_and_stays_as_it_is(lines in block()) {
        let data: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let text = with(&data);
        let source = SourceId(u32::MAX);
        let (before, problems) = load_values(source, &text, &Limits::default());
        if let Ok(found) = formatted(&text) {
            prop_assert!(!problems.has_errors());
            let (after, _) = load_values(source, &found, &Limits::default());
            prop_assert_eq!(before, after);
            prop_assert_eq!(formatted(&found), Ok(found.clone()));
            prop_assert_eq!(text.matches('#').count(), found.matches('#').count());
        } else if !problems.has_errors() && !data.contains("|") && !data.contains('>') {
            prop_assert!(false, "left alone: {}\n{:?}", text, formatted(&text));
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_left_alone(text in "( {2,3}[a-c:#\\-'\"{}\\[\\]|>&*!?,\\t\\r ]{0,6}\n){0,6}") {
        if let Ok(found) = formatted(&with(&text)) {
            prop_assert_eq!(formatted(&found), Ok(found.clone()));
        }
    }
}
