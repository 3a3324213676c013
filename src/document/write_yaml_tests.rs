//! Every text that is written reads back as the same value.

use proptest::prelude::*;

use super::*;
use crate::diagnostic::SourceId;

fn mark() -> Mark {
    Mark::new(SourceId(0), 0)
}

fn written(node: &Node) -> String {
    let mut out = String::new();
    write_yaml(node, false, &mut out);
    out
}

/// The meaning of a text, and its problems.
fn read(text: &str) -> (Vec<Node>, Vec<String>) {
    let (values, problems) = load_values(SourceId(0), text, &Limits::default());
    let problems = problems.iter().map(|problem| format!("{problem:?}"));
    (values, problems.collect())
}

fn string(text: &str) -> Node {
    Node::new(Value::string(text), mark())
}

#[test]
fn strings_take_the_plainest_form_that_reads_back() {
    let table = [
        ("plain text", "plain text"),
        ("http://a.b:80/c?d=e#f", "http://a.b:80/c?d=e#f"),
        ("10.0.0.1/24", "10.0.0.1/24"),
        ("--flag=x", "--flag=x"),
        ("-", "'-'"),
        ("- x", "'- x'"),
        ("---", "'---'"),
        ("...", "'...'"),
        ("", "''"),
        (" x", "' x'"),
        ("x ", "'x '"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("#a", "'#a'"),
        ("yes", "'yes'"),
        ("y", "'y'"),
        ("null", "'null'"),
        ("~", "'~'"),
        ("12", "'12'"),
        ("0o7", "'0o7'"),
        ("1e3", "'1e3'"),
        ("12:30", "'12:30'"),
        ("2001-01-01", "'2001-01-01'"),
        ("2001-02-31", "'2001-02-31'"),
        ("1.2.3", "1.2.3"),
        ("=", "'='"),
        ("<<", "'<<'"),
        ("it's", "it's"),
        ("'it's", "\"'it's\""),
        ("'\"", "'''\"'"),
        ("{{ x }}", "'{{ x }}'"),
        ("a\tb", "\"a\\tb\""),
        (
            "a\u{7}\u{1b}\u{85}\u{2028}\u{feff}b",
            "\"a\\x07\\e\\N\\L\\uFEFFb\"",
        ),
        ("\u{a0}x", "'\u{a0}x'"),
        ("a\u{202e}b", "\"a\\u202Eb\""),
        ("grün", "grün"),
        ("a\u{ad}b\u{3164}c", "\"a\\xADb\\u3164c\""),
        ("\u{e0001}x", "\"\\U000E0001x\""),
        ("##[set-output name=a]b", "\"#\\x23[set-output name=a]b\""),
        ("a##vso[b]", "\"a#\\x23vso[b]\""),
        ("a\n  ::error::b\n", "\"a\\n  ::error::b\\n\""),
        ("a\n##[group]\n", "\"a\\n#\\x23[group]\\n\""),
        ("a\n## b\n::1\n", "|\n  a\n  ## b\n  ::1"),
        ("\n", "\"\\n\""),
        ("a\r\nb", "\"a\\r\\nb\""),
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\n\nb\n\n\n", "|+\n  a\n\n  b\n\n"),
        ("  a\nb\n", "|2\n    a\n  b"),
        ("\na\n", "|2\n\n  a"),
        ("a \n\tb\n", "|\n  a \n  \tb"),
    ];
    for (text, expected) in table {
        assert_eq!(written(&string(text)), format!("{expected}\n"), "{text:?}");
        let (values, problems) = read(&written(&string(text)));
        assert_eq!(values, [string(text)]);
        assert_eq!(problems, Vec::<String>::new());
    }
}

#[test]
fn collections_are_written_in_block_style() {
    let text = "a:\n  b: 1\n  c:\n    - x\n    - d: 2\n      e:\n        - - 3\n          - {}\n        - []\n    \
                - |\n      text\n      more\nf: null\n1.5: 1.0e+16\n2001-01-01: -.inf\nnull: .nan\nfalse: '1'\n";
    assert_eq!(written(&read(text).0[0]), text);
}

#[test]
fn a_long_key_is_written_explicitly() {
    let mut map = Map::new();
    map.set(&"k".repeat(2000), read("{a: [1]}").0.remove(0));
    map.set(&"ü\n".repeat(2000), string("x\ny"));
    let node = Node::new(Value::Map(std::sync::Arc::new(map)), mark());
    assert_eq!(read(&written(&node)), (vec![node], vec![]));
}

#[test]
fn secrets_are_left_out_unless_asked_for() {
    let mut node = read("{a: hunter2, b: 1}").0.remove(0);
    if let Value::Map(map) = &mut node.value {
        let map = std::sync::Arc::make_mut(map);
        map.get_str_mut("a")
            .unwrap()
            .hide(&crate::document::SecretOrigin::in_file(None));
    }
    assert_eq!(written(&node), "a: (secret)\nb: 1\n");
    let mut shown = String::new();
    write_yaml(&node, true, &mut shown);
    assert_eq!(shown, "a: hunter2\nb: 1\n");
}

/// Texts that are likely to go wrong: words, numbers, indicators, blanks and line breaks.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z]{1,4}",
        2 => "[ \n\t]{1,3}",
        2 => "[-?:,\\[\\]{}#&*!|>'\"%@`=<~.+_0-9exob\\\\]{1,3}",
        1 => Just("---".to_owned()),
        1 => Just("\n...\n".to_owned()),
        1 => "(##(vso)?\\[|\n *::[a-z]|[\u{ad}\u{3164}\u{fe0f}\u{e0100}])",
        1 => "yes|No|null|0755|1e3|12:30|2001-01-01|<<|0x1F|\\.inf",
        1 => any::<char>().prop_map(String::from),
        1 => "[\u{0}-\u{1f}\u{7f}\u{85}\u{a0}\u{2028}\u{2029}\u{feff}\u{fffe}\r]",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => any_text().prop_map(Value::string),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<i64>().prop_map(Value::Integer),
        1 => "-?[1-9][0-9]{19,30}".prop_map(|digits| Value::BigInteger(digits.into())),
        1 => any::<f64>().prop_map(Value::Float),
        1 => (1..10_000_u32, 1..13_u32, 1..29_u32)
            .prop_map(|(y, m, d)| Value::Timestamp(format!("{y:04}-{m:02}-{d:02}").into())),
        1 => (0..24_u32, 0..60_u32, 0..1_000_000_u32).prop_map(|(h, m, f)| {
            let fraction = if f == 0 { String::new() } else { format!(".{f:06}") };
            Value::Timestamp(format!("2001-12-14 {h:02}:{m:02}:09{fraction}+05:30").into())
        }),
    ]
}

fn any_key() -> impl Strategy<Value = Key> {
    any_leaf().prop_map(|value| super::build::key_of(&Node::new(value, mark())).unwrap())
}

fn any_node() -> impl Strategy<Value = Node> {
    let leaf = any_leaf().prop_map(|value| Node::new(value, mark()));
    leaf.prop_recursive(6, 60, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6)
            .prop_map(|list| Value::List(std::sync::Arc::new(list)));
        let map = prop::collection::vec((any_key(), inner), 0..6).prop_map(|fields| {
            let mut map = Map::new();
            for (key, node) in fields {
                let key_mark = node.mark;
                map.insert(key, Field { key_mark, node });
            }
            Value::Map(std::sync::Arc::new(map))
        });
        prop_oneof![list, map].prop_map(|value| Node::new(value, mark()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_value_reads_back_as_it_was(node in any_node()) {
        let text = written(&node);
        let (values, problems) = read(&text);
        prop_assert_eq!(problems, Vec::<String>::new(), "{}", text);
        prop_assert_eq!(values.len(), 1);
        prop_assert_eq!(&values[0], &node, "{}", text);
        let order = |node: &Node| format!("{:?}", node.as_map().map(|map| map.keys().cloned().collect::<Vec<_>>()));
        prop_assert_eq!(order(&values[0]), order(&node));
    }

    #[test]
    fn a_text_on_one_line_is_a_key_and_an_item_that_read_back(text in prop_oneof![
        any_text(), "[a-z]{1,3}[,:\\[{}\\]' ][a-z/]{0,3}", Just("http://a:1/b".to_owned()), Just("52:54:00:00:00:01".to_owned())
    ]) {
        let inline = inline_text(&text);
        prop_assert!(!inline.contains('\n'));
        let (values, problems) = read(&format!("a: {{{inline}: [{inline}, {inline}]}}\n"));
        prop_assert_eq!(problems, Vec::<String>::new(), "{}", inline);
        let inner = values[0].get("a").and_then(Node::as_map).unwrap();
        let (key, field) = inner.iter().next().unwrap();
        prop_assert_eq!(&*key.text, &*text);
        let items = field.node.as_list().unwrap();
        prop_assert!(items.iter().all(|item| item.as_str() == Some(&*text)));
    }

    #[test]
    fn any_text_is_read_without_a_panic(pieces in prop::collection::vec(any_text(), 0..20)) {
        let text = pieces.concat();
        let _ = load(SourceId(0), &text, &LoadSettings::default());
    }
}
