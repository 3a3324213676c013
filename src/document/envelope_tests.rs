//! Envelopes that are not as Deckhand wants them.

use super::*;
use crate::diagnostic::Sources;

const SOUND: &str = "schema: example/Kind/v1
metadata:
  schema: metadata/Document/v1
  name: n
  storagePolicy: cleartext
  layeringDefinition:
    layer: site
    abstract: false
    parentSelector: {a: b}
    actions:
      - {method: merge, path: .}
  labels: {c: d}
  replacement: true
  substitutions:
    - src: {schema: example/Kind/v1, name: m, path: .a, pattern: x, match_group: 1}
      dest: {path: .b, pattern: y, recurse: {depth: -1}}
    - src: {schema: example/Kind/v1, name: m, path: .a}
      dest: [{path: .b}, {path: .c}]
data: 1
";

/// Each problem as `line:column code`, its message and its hint.
fn problems(text: &str) -> (Option<Document>, Vec<[String; 3]>) {
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", text);
    let node = load_values(id, text, &Limits::default()).0.remove(0);
    let (document, problems) = from_envelope(node, &LoadSettings::default());
    let show = |problem: crate::diagnostic::Diagnostic| {
        let place = sources.place(problem.mark.unwrap());
        let place = format!("{}:{} {}", place.line, place.column, problem.code);
        [place, problem.message, problem.hint.unwrap_or_default()]
    };
    (document, problems.into_iter().map(show).collect())
}

#[test]
fn a_sound_envelope_is_understood() {
    let (document, problems) = problems(SOUND);
    assert_eq!(problems, Vec::<[String; 3]>::new());
    let document = document.unwrap();
    assert_eq!(document.id.to_string(), "example/Kind/v1/n");
    assert_eq!(document.layer.as_deref(), Some("site"));
    assert!(document.is_replacement && !document.is_abstract && !document.is_encrypted);
    assert_eq!(document.labels.get("c").and_then(Node::as_str), Some("d"));
    assert_eq!(document.parent_selector.unwrap().len(), 1);
    assert_eq!(document.actions[0].method, ActionMethod::Merge);
    let first = &document.substitutions[0];
    assert_eq!(
        (
            first.source.match_group,
            first.destinations[0].recurse_depth
        ),
        (1, Some(-1))
    );
    assert_eq!(document.substitutions[1].destinations.len(), 2);
    assert_eq!(document.data.as_integer(), Some(1));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_violation_is_named_at_its_place() {
    let quotes = "put it in quotes";
    let schema = "namespace and kind are letters only, the version `v` and digits";
    // What is replaced, by what, place and code, message, hint.
    let table = [
        (
            "data: 1",
            "dta: 1",
            "19:1 envelope-unknown-field",
            "`dta` is no field of a document",
            "did you mean `data`?",
        ),
        (
            "schema: example/Kind/v1\nm",
            "schema: example/Kind/v1.0\nm",
            "1:9 envelope-bad-value",
            "schema `example/Kind/v1.0` is not of the form `namespace/Kind/v1`",
            schema,
        ),
        (
            "schema: example/Kind/v1\nm",
            "schema: 5\nm",
            "1:9 envelope-wrong-type",
            "`schema` must be a string, this is an integer",
            quotes,
        ),
        (
            "metadata/Document/v1",
            "metadata/Documnt/v1",
            "3:11 envelope-bad-value",
            "`metadata.schema` is `metadata/Documnt/v1`, not `metadata/Document/v1` or `metadata/Control/v1`",
            "did you mean `metadata/Document/v1`?",
        ),
        (
            "name: n\n",
            "name: 12\n",
            "4:9 envelope-wrong-type",
            "`metadata.name` must be a string, this is an integer",
            quotes,
        ),
        (
            "name: n\n",
            "name: ''\n",
            "4:9 envelope-bad-value",
            "`metadata.name` is empty",
            "",
        ),
        (
            "name: n\n",
            "name: \"n\\t\"\n",
            "4:9 envelope-bad-value",
            "`metadata.name` holds a control character",
            "",
        ),
        (
            "cleartext",
            "clear",
            "5:18 envelope-bad-value",
            "`metadata.storagePolicy` is neither `cleartext` nor `encrypted`",
            "did you mean `cleartext`?",
        ),
        (
            "  storagePolicy: cleartext\n",
            "",
            "3:3 envelope-missing-field",
            "`metadata.storagePolicy` is missing",
            "",
        ),
        (
            "    layer: site\n",
            "",
            "7:5 envelope-missing-field",
            "`metadata.layeringDefinition.layer` is missing",
            "",
        ),
        (
            "layer: site",
            "layer: [site]",
            "7:12 envelope-wrong-type",
            "`metadata.layeringDefinition.layer` must be a string, this is a list",
            "",
        ),
        (
            "abstract: false",
            "abstract: 'no'",
            "8:15 envelope-wrong-type",
            "`metadata.layeringDefinition.abstract` must be true or false, this is a string",
            "",
        ),
        (
            "    parentSelector: {a: b}\n",
            "",
            "9:5 envelope-missing-field",
            "`actions` needs `parentSelector` beside it in `metadata.layeringDefinition`",
            "",
        ),
        (
            "{a: b}",
            "{}",
            "9:21 envelope-bad-value",
            "`metadata.layeringDefinition.parentSelector` is empty",
            "",
        ),
        (
            "method: merge",
            "method: mrge",
            "11:18 envelope-bad-value",
            "`mrge` is no layering action",
            "did you mean `merge`?",
        ),
        (
            ", path: .}\n  l",
            "}\n  l",
            "11:9 envelope-missing-field",
            "`actions[].path` is missing",
            "",
        ),
        (
            "labels: {c: d}",
            "labels: []",
            "12:11 envelope-wrong-type",
            "`metadata.labels` must be a map, this is a list",
            "",
        ),
        (
            "  labels:",
            "  label:",
            "12:3 envelope-unknown-field",
            "`label` is no field of `metadata`",
            "did you mean `labels`?",
        ),
        (
            "match_group: 1",
            "match_group: -1",
            "15:82 envelope-wrong-type",
            "`substitutions[].src.match_group` must be a number from 0, this is an integer",
            "",
        ),
        (
            "depth: -1",
            "depth: -2",
            "16:53 envelope-wrong-type",
            "`substitutions[].dest.recurse.depth` must be a whole number from -1, this is an integer",
            "",
        ),
        (
            "[{path: .b}, {path: .c}]",
            "[]",
            "18:13 envelope-bad-value",
            "`substitutions[].dest` is empty",
            "",
        ),
        (
            "      dest: [{path: .b}, {path: .c}]\n",
            "",
            "17:7 envelope-missing-field",
            "`substitutions[].dest` is missing",
            "",
        ),
    ];
    for (part, replacement, place, message, hint) in table {
        let text = SOUND.replacen(part, replacement, 1);
        assert_ne!(text, SOUND, "{part}");
        let found = problems(&text).1;
        let expected = [place, message, hint].map(str::to_owned);
        assert!(
            found.contains(&expected),
            "{expected:?} is not in {found:?}"
        );
        assert!(found.len() <= 2, "{found:?}");
    }
}

#[test]
fn what_is_no_envelope_is_no_document() {
    for text in [
        "[1]",
        "x",
        "{schema: a/B/v1, data: 1}",
        "{metadata: {name: n}, data: 1}",
    ] {
        let (document, problems) = problems(text);
        assert!(document.is_none() && !problems.is_empty(), "{text}");
    }
}

#[test]
fn a_pointer_of_git_lfs_is_named_as_one() {
    let text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n";
    let (document, problems) = problems(text);
    assert!(document.is_none());
    assert!(
        problems[0][1].contains("this is a pointer of Git LFS"),
        "{problems:?}"
    );
}

#[test]
fn control_documents_may_have_more_and_need_less() {
    let text = "schema: deckhand/LayeringPolicy/v1\nmetadata: {schema: metadata/Control/v1, name: p, x: 1}\n\
                data: {layerOrder: [site]}\n";
    let (document, problems) = problems(text);
    assert_eq!(problems, Vec::<[String; 3]>::new());
    assert_eq!(document.unwrap().kind, MetadataKind::Control);
}
