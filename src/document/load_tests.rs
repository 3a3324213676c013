//! Reading files: what a person writes, and what an attacker does.

use std::fmt::Write as _;

use super::*;
use crate::diagnostic::{Diagnostics, Sources};

/// Each problem as `line:column code`.
fn problems(text: &str, settings: &LoadSettings) -> Vec<String> {
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", text);
    places(&sources, load(id, text, settings).diagnostics)
}

fn places(sources: &Sources, diagnostics: Diagnostics) -> Vec<String> {
    let mut list = diagnostics;
    list.sort(sources);
    list.iter()
        .map(|problem| {
            let place = sources.place(problem.mark.unwrap());
            format!("{}:{} {}", place.line, place.column, problem.code)
        })
        .collect()
}

/// Problems and values of a text without envelopes.
fn values(text: &str) -> (Vec<Node>, Vec<String>) {
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", text);
    let (values, diagnostics) = load_values(id, text, &Limits::default());
    (values, places(&sources, diagnostics))
}

/// A document in Deckhand's form.
fn envelope(name: &str, policy: &str, data: &str) -> String {
    format!(
        "---\nschema: example/Kind/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: {name}\n  \
         storagePolicy: {policy}\n  layeringDefinition:\n    layer: site\n    abstract: false\n\
         data:\n{data}"
    )
}

fn flat() -> LoadSettings {
    LoadSettings {
        flat: true,
        ..LoadSettings::default()
    }
}

#[test]
fn every_value_knows_where_it_was_written() {
    let text = "ä: &x\r\n  b: [1, ü, yes]\r\n  c: |\r\n    text\r\nd: *x\r\n";
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", text);
    let (values, _) = load_values(id, text, &Limits::default());
    let place = |node: &Node| {
        let place = sources.place(node.mark);
        (place.line, place.column)
    };
    let list = values[0].at(&["ä", "b"]).unwrap();
    assert_eq!(place(list), (2, 6));
    assert_eq!(place(&list.as_list().unwrap()[2]), (2, 13));
    assert_eq!(place(values[0].at(&["d", "c"]).unwrap()), (4, 5));
    assert_eq!(values[0].at(&["d", "c"]).unwrap().as_str(), Some("text\n"));
    let key = values[0].as_map().unwrap().field("d").unwrap().key_mark;
    assert_eq!(sources.place(key).to_string(), "a.yaml:5:1");
}

#[test]
fn an_alias_shares_what_its_anchor_built() {
    let (values, _) = values("a: &a {x: [1]}\nb: *a\n");
    let (Value::Map(a), Value::Map(b)) = (
        &values[0].get("a").unwrap().value,
        &values[0].get("b").unwrap().value,
    ) else {
        panic!("both are maps");
    };
    assert!(std::sync::Arc::ptr_eq(a, b));
}

#[test]
fn a_text_block_at_the_end_of_a_file_has_the_breaks_that_are_written() {
    let table = [
        ("a: |\n  x", "x"),
        ("a: |\n  x\n", "x\n"),
        ("a: |\n  x\n  ", "x\n"),
        ("a: |\n  x\n ", "x\n"),
        ("a: |-\n  x", "x"),
        ("a: |+\n  x", "x"),
        ("a: |+\n  x\n\n", "x\n\n"),
        ("a: |+\n  x\n\n  ", "x\n\n"),
        ("a: >\n  x\n  y", "x y"),
        ("- &b >\n  x", "x"),
        ("a: |\n  ü", "ü"),
        ("a: |\n  x\n# end", "x\n"),
        ("b: |\n  x\na: |\n  x\nc: x", "x\n"),
    ];
    for (text, expected) in table {
        let node = values(text).0.remove(0);
        let value = node.get("a").or_else(|| node.as_list()?.first()).unwrap();
        assert_eq!(value.as_str(), Some(expected), "{text:?}");
    }
}

#[test]
fn a_text_block_may_stand_right_behind_a_byte_order_mark() {
    let (blocks, found) = values("\u{feff}>\n\n\r");
    assert_eq!((blocks.len(), found), (1, vec![]));
    let text = "\u{feff}|\ntext\n---\nb: 1\n";
    assert_eq!(values(text).1, ["2:1 yaml-syntax"]);
}

#[test]
fn merge_keys_yield_to_explicit_keys_and_the_first_of_a_list_wins() {
    let text = "- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {<<: *a, y: 9}\n- {z: 9, <<: [*b, *a]}\n\
                - {'<<': 1}\n- <<\n";
    let (values, problems) = values(text);
    let list = values[0].as_list().unwrap();
    let show = |node: &Node| {
        let fields = node.as_map().unwrap().iter();
        let fields =
            fields.map(|(key, f)| format!("{}={}", key.text, f.node.scalar_text().unwrap()));
        fields.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(show(&list[2]), "x=1 y=9");
    assert_eq!(show(&list[3]), "x=1 y=2 z=9");
    assert_eq!(show(&list[4]), "<<=1");
    assert_eq!(list[5].as_str(), Some("<<"));
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn keys_may_be_any_scalar() {
    let (values, _) = values("1: a\n'1': b\nno: c\n~: d\n1.5: e\n2001-01-01: f\n0x10: g\n");
    let keys: Vec<_> = values[0].as_map().unwrap().keys().cloned().collect();
    let expected = [
        ("1", KeyKind::Integer),
        ("1", KeyKind::String),
        ("false", KeyKind::Bool),
        ("null", KeyKind::Null),
        ("1.5", KeyKind::Float),
        ("2001-01-01", KeyKind::Timestamp),
        ("16", KeyKind::Integer),
    ];
    let found: Vec<_> = keys.iter().map(|key| (&*key.text, key.kind)).collect();
    assert_eq!(found, expected);
}

#[test]
fn problems_of_values_are_found_where_they_are() {
    let table: &[(&str, &[&str])] = &[
        ("a: 1\nb: 2\na: 3\n", &["3:1 yaml-duplicate-key"]),
        (
            "a: !!python/object:os.system x\n",
            &["1:4 yaml-unknown-tag"],
        ),
        (
            "a: !Ref x\nb: !<tag:yaml.org,2002:binary> eA==\n",
            &["1:4 yaml-unknown-tag", "2:4 yaml-unknown-tag"],
        ),
        ("a: !!int x\n", &["1:4 yaml-invalid-scalar"]),
        ("a: !!map []\n", &["1:4 yaml-wrong-tag"]),
        ("a: 2001-02-30\n", &["1:4 yaml-invalid-scalar"]),
        ("? [a, b]\n: c\nd: 1\n", &["1:3 yaml-complex-key"]),
        ("{[a]: c}\n", &["1:2 yaml-complex-key"]),
        ("a: &a [*a]\n", &["1:8 yaml-recursive-alias"]),
        ("a: &a 1\n---\nb: *a\n", &["3:4 yaml-unknown-alias"]),
        ("b: *a\n", &["1:4 yaml-unknown-alias"]),
        ("<<: 1\n", &["1:5 yaml-merge-not-a-map"]),
        ("<<: {a: 1}\n<<: {b: 1}\n", &["2:1 yaml-duplicate-key"]),
        (
            "a: yes\n08: 0o7\n",
            &[
                "1:4 yaml-1.2-differs",
                "2:1 yaml-1.2-differs",
                "2:5 yaml-1.2-differs",
            ],
        ),
        ("a: 'yes'\nb: 2001-01-01\nc: !!str 0755\n", &[]),
        ("a: x\u{7}\n", &["1:5 yaml-control-character"]),
        ("a: \"x\u{2028}y\"\n", &["1:6 yaml-1.2-differs"]),
        ("a:\n\tb: 1\n", &["2:1 yaml-tab"]),
        ("a:\n  b: 1\n\tc: 2\n", &["3:1 yaml-tab"]),
        ("a:\n  - b\n  \t- c: 1\n", &["3:3 yaml-tab"]),
        ("a: |\n\tb\n", &["2:1 yaml-tab"]),
        ("--- |\n\n---\na: 1\n", &["3:1 yaml-syntax"]),
        ("a: 'x\n", &["1:4 yaml-syntax"]),
        ("a: [1, 2\nb: 3\n", &["1:4 yaml-syntax"]),
        ("a: b: c\n", &["1:5 yaml-syntax"]),
        ("a: {{ x }}\n", &["1:5 yaml-complex-key"]),
        ("a: 1\n b: 2\n", &["2:3 yaml-syntax"]),
        ("a: @x\n", &["1:4 yaml-syntax"]),
        (
            "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n",
            &["2:1 yaml-syntax"],
        ),
    ];
    for (text, expected) in table {
        assert_eq!(&values(text).1, expected, "{text}");
    }
}

#[test]
fn a_syntax_error_is_told_where_the_mistake_is() {
    let found = |text: &str| {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", text);
        let (_, diagnostics) = load_values(id, text, &Limits::default());
        let found = diagnostics.into_iter().next().unwrap();
        let marks = found.mark.into_iter();
        let places: Vec<String> = marks
            .chain(found.related.iter().map(|related| related.mark))
            .map(|mark| {
                let place = sources.place(mark);
                format!("{}:{}", place.line, place.column)
            })
            .collect();
        format!("{} {}", places.join(" "), found.message)
    };
    let [list, map] = ["a list in brackets", "a map in braces"]
        .map(|what| format!("{what} that begins here is not closed"));
    let quote = "a quoted text that begins here does not end";
    let key = "a key without `:` after it";
    let colon = "`:` stands where no key can be";
    let table = [
        ("a:\n  b: [1, 2,\n  c: 3\nd: 4\n", "2:6", &*list),
        ("a:\n  b: [1, 2\n  c: 3\nd: 4\n", "2:6", &list),
        ("a:\n  b: [1, 2\n---\nd: [4]\n", "2:6", &list),
        ("x: {a: [1, 2], b: 3\nd: 4\n", "1:4", &map),
        ("x: {a: '}' # }\nd: {e: 4}\n", "1:4", &map),
        ("---\nx: 1\n---\nä: [é, {a: 1}\nd: 4\n", "4:4", &list),
        (
            "x: {\n a: b\n c: d\n }\n",
            "3:3 1:4",
            "a map in braces is not continued or closed",
        ),
        (
            "x: [a, {b: c]\n",
            "1:13 1:8",
            "a map in braces is not continued or closed",
        ),
        ("a: \"x\nb: \"y\nc: 1\n", "1:4", quote),
        ("a: 'x\nb: 'y'\n", "1:4", quote),
        ("a:\n  b: 'x\n  c: y\n", "2:6", quote),
        (
            "a: 'it's'\n",
            "1:8",
            "a quoted text ends before this, and more follows",
        ),
        ("a: [1]\nb: c: d\n", "2:5", colon),
        ("a:\n  b c\n  d: e\n", "2:3", key),
        ("a:\n  d: e\n  b c\nf: 1\n", "3:3", key),
        ("a b\nc: d\n", "1:1", key),
        ("a\n  c: d\n", "1:1", key),
        (
            "a:b\nc: d\n",
            "1:1",
            "a `:` without a space after it makes no key",
        ),
        ("a: b\n  c: d\n", "2:4", colon),
        (
            "a:\n - b\nc:\n  - d\n - e\n",
            "5:2",
            "an entry of a list stands where no list is",
        ),
    ];
    let mut other = Vec::new();
    for (text, place, message) in table {
        let (found, expected) = (found(text), format!("{place} {message}"));
        if found != expected {
            other.push((text, found, expected));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}

#[test]
fn a_syntax_error_costs_one_document_only() {
    let text = "--- {a: 1}\n--- [\n---\nb: 'x\n---\nc: 1\n...\n---\n- d: [\n--- # end\ne: 1\n";
    let (values, problems) = values(text);
    let keys: Vec<_> = values
        .iter()
        .map(|value| {
            value
                .as_map()
                .unwrap()
                .keys()
                .next()
                .unwrap()
                .text
                .to_string()
        })
        .collect();
    assert_eq!(keys, ["a", "c", "e"]);
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn nesting_is_limited_in_every_form() {
    let deep = 10_000;
    let mut block = String::new();
    for level in 0..deep {
        block.push_str(&" ".repeat(level.min(2_000)));
        block.push_str("a:\n");
    }
    for text in [
        "[".repeat(deep),
        "[".repeat(deep) + &"]".repeat(deep),
        "{a: ".repeat(deep),
        "- ".repeat(deep),
        "? ".repeat(deep),
        block,
    ] {
        let (values, problems) = values(&text);
        assert!(values.is_empty());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].ends_with("yaml-too-deep"), "{problems:?}");
    }
    let (sound, problems) = values(&("[".repeat(100) + &"]".repeat(100)));
    assert_eq!((sound.len(), problems.len()), (1, 0));
}

#[test]
fn an_alias_bomb_is_defused() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{},", level - 1).repeat(10);
        writeln!(text, "a{level}: &a{level} [{alias}]").unwrap();
    }
    assert!(values(&text).1[0].ends_with("yaml-too-many-aliases"));
    let mut chain = "- &a0 [x]\n".to_owned();
    for level in 1..150 {
        writeln!(chain, "- &a{level} [*a{}]", level - 1).unwrap();
    }
    assert_eq!(values(&chain).1, ["100:9 yaml-too-deep"]);
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        "*a,".repeat(100)
    );
    assert!(values(&long).1[0].ends_with("yaml-too-many-aliases"));
}

#[test]
fn documents_and_problems_of_a_file_are_limited() {
    let limits = Limits {
        documents: 3,
        problems: 2,
        ..Limits::default()
    };
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", "");
    let text = "--- {a: 1}\n".repeat(4);
    let (values, problems) = load_values(id, &text, &limits);
    assert_eq!(values.len(), 3);
    assert_eq!(
        problems.iter().next().unwrap().code.0,
        "yaml-too-many-documents"
    );
    let (_, problems) = load_values(id, "[yes, yes, yes, yes, !x y]", &limits);
    let codes: Vec<_> = problems.iter().map(|problem| problem.code.0).collect();
    let warning = "yaml-1.2-differs";
    let unknown = "yaml-unknown-tag";
    assert_eq!(codes, [warning, warning, "yaml-too-many-problems", unknown]);
}

#[test]
fn values_of_a_file_are_limited_and_counted_with_those_behind_aliases() {
    let limits = Limits {
        values: 10,
        ..Limits::default()
    };
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", "");
    let codes = |text: &str| {
        let (_, problems) = load_values(id, text, &limits);
        let codes: Vec<_> = problems.iter().map(|problem| problem.code.0).collect();
        codes
    };
    assert_eq!(codes("[0, 0, 0, 0, 0, 0, 0, 0, 0]"), Vec::<&str>::new());
    let many = "--- [0, 0, 0, 0]\n".repeat(9);
    assert_eq!(codes(&many), ["yaml-too-many-values"]);
    let text = "a: &a [x, x, x]\nb: [*a, *a]\n";
    let size = load(id, text, &LoadSettings::default()).size;
    // The map, two keys, two lists, three scalars, two aliases, and what stands behind those.
    assert_eq!(size, (text.len() as u64, 10 + 2 * 4));
}

#[test]
fn empty_documents_are_skipped() {
    for text in [
        "",
        "---\n",
        "# only a comment\n",
        "---\n---\n...\n",
        "--- ~\n",
    ] {
        assert_eq!(
            problems(text, &LoadSettings::default()),
            Vec::<String>::new()
        );
    }
}

#[test]
fn an_encrypted_document_is_secret_and_its_bytes_are_hidden() {
    let text = envelope("a", "encrypted", "  hunter2: 0755\n")
        + &envelope("b", "cleartext", "  open: 1\n");
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", &*text);
    let file = load(id, &text, &LoadSettings::default());
    assert!(file.documents[0].data.is_secret() && !file.documents[1].data.is_secret());
    let (start, end) = file.secret[0];
    assert_eq!(&text[start as usize..end as usize], "hunter2: 0755\n");
    let problem = file.diagnostics.iter().next().unwrap();
    assert!(!format!("{problem:?}").contains("755"), "{problem:?}");
}

#[test]
fn a_broken_file_that_may_hold_secrets_is_hidden_as_a_whole() {
    let broken_yaml = envelope("a", "encrypted", "  a: 'hunter2\n");
    let broken_envelope = envelope("a", "encrypted", "  a: hunter2\n").replace("data:", "dta:");
    let misspelt = envelope("a", "encryptd", "  a: hunter2\n");
    let key = envelope("a", "encrypted", "  a: hunter2\n").replace("storagePolicy", "storagePolcy");
    for text in [broken_yaml, broken_envelope, misspelt, key] {
        let file = load(
            crate::diagnostic::SourceId(0),
            &text,
            &LoadSettings::default(),
        );
        assert!(file.diagnostics.has_errors());
        assert_eq!(file.secret, [(0, text.len() as u32)], "{text}");
        assert!(!format!("{:?}", file.diagnostics).contains("hunter2"));
    }
}

#[test]
fn a_flat_site_may_leave_out_what_deckhand_wants() {
    let text = "schema: deckhand/DataSchema/v1\nmetadata: {name: a/b/v1}\ndata: {}\n---\n\
                schema: example/Kind/v1\nmetadata: {name: b}\ndata: null\n";
    let file = load(crate::diagnostic::SourceId(0), text, &flat());
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    assert_eq!(file.documents[0].kind, MetadataKind::Control);
    assert_eq!(file.documents[1].layer.as_deref(), Some("site"));
    let strict = problems(text, &LoadSettings::default());
    let missing = "envelope-missing-field";
    let expected = ["2:11", "6:11", "6:11", "6:11"].map(|place| format!("{place} {missing}"));
    assert_eq!(strict, expected);
}

#[test]
fn a_managed_document_is_unwrapped() {
    let inner = envelope("inner", "cleartext", "  a: 1\n");
    let inner = inner.trim_start_matches("---\n").replace('\n', "\n    ");
    let text = format!(
        "schema: pegleg/PeglegManagedDocument/v1\nmetadata: {{name: x}}\ndata:\n  generated: {{}}\n  \
         managedDocument:\n    {inner}\n"
    );
    let file = load(
        crate::diagnostic::SourceId(0),
        &text,
        &LoadSettings::default(),
    );
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    assert_eq!(&*file.documents[0].id.name, "inner");
}
