//! The corpora and thousands of mutations of them, without a fuzzer.

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// How many mutations of its corpus each target is given; `TRUEUP_FUZZ_CASES` says otherwise.
const CASES: u32 = 2_000;

/// Tokens of the syntax, so that mutations are not only noise.
const WORDS: &[&str] = &[
    "---\n",
    "\n",
    " ",
    "  ",
    "- ",
    ": ",
    "? ",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "#",
    "{",
    "}",
    "[",
    "]",
    ",",
    "null",
    "0x1f",
    "1e999",
    ".inf",
    "~",
    "..",
    "$",
    "[*]",
    "[-1]",
    "[65536]",
    "|",
    "@",
    "\u{feff}",
    "\r\n",
    "\u{85}",
    "\u{0}",
    "\u{202e}",
    "\\u0000",
    "schema: ",
    "metadata: ",
    "layeringDefinition: ",
    "substitutions: ",
    "storagePolicy: encrypted",
    "},\n",
    "\"pods\":{\n",
    "18446744073709551616",
    "-0.0",
    "2026-11-21",
    "é",
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// One change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Cut(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Flip(prop::sample::Index, u8),
    Word(prop::sample::Index, &'static str),
    Repeat(prop::sample::Index, usize, usize),
    /// The end of another case behind the beginning of this one.
    Splice(
        prop::sample::Index,
        prop::sample::Index,
        prop::sample::Index,
    ),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        1 => at().prop_map(Change::Cut),
        3 => (at(), 1..40usize).prop_map(|(at, count)| Change::Remove(at, count)),
        3 => (at(), 1..=255u8).prop_map(|(at, mask)| Change::Flip(at, mask)),
        5 => (at(), prop::sample::select(WORDS)).prop_map(|(at, word)| Change::Word(at, word)),
        2 => (at(), 1..60usize, 1..30usize).prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        1 => (at(), at(), at()).prop_map(|(at, which, from)| Change::Splice(at, which, from)),
    ]
}

fn apply_change(bytes: &mut Vec<u8>, change: &Change, corpus: &[Vec<u8>]) {
    let place = |at: &prop::sample::Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match change {
        Change::Cut(at) => bytes.truncate(place(at, bytes)),
        Change::Remove(at, count) => {
            let start = place(at, bytes);
            let end = (start + count).min(bytes.len());
            bytes.drain(start..end);
        }
        Change::Flip(at, mask) => {
            let at = place(at, bytes);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
        }
        Change::Word(at, word) => {
            let at = place(at, bytes);
            bytes.splice(at..at, word.bytes());
        }
        Change::Repeat(at, length, times) => {
            let start = place(at, bytes);
            let end = (start + length).min(bytes.len());
            let again = bytes[start..end].repeat(*times);
            bytes.splice(end..end, again);
        }
        Change::Splice(at, which, from) => {
            let at = place(at, bytes);
            let other = which.get(corpus);
            let from = place(from, other);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}

fn check(name: &str, target: fn(&[u8])) {
    let corpus = corpus(name);
    for case in &corpus {
        target(case);
    }
    let cases = std::env::var("TRUEUP_FUZZ_CASES").map_or(CASES, |text| text.parse().unwrap());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    // The same cases in every run: what is found here is found again.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let mutations = (
        prop::sample::select(corpus.clone()),
        prop::collection::vec(change(), 1..6),
    );
    let mutated = |(mut bytes, changes): (Vec<u8>, Vec<Change>)| {
        for change in &changes {
            apply_change(&mut bytes, change, &corpus);
        }
        bytes.truncate(16 << 10);
        bytes
    };
    let outcome = runner.run(&mutations.prop_map(mutated).prop_map(Shown), |case| {
        target(&case.0);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{name}: {failure}");
    }
}

/// Bytes that a failure shows as text.
struct Shown(Vec<u8>);

impl std::fmt::Debug for Shown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "b\"{}\"", self.0.escape_ascii())
    }
}

#[test]
fn any_yaml_is_read_or_refused_and_written_as_it_was_read() {
    check("document", document);
}

#[test]
fn any_path_finds_what_it_writes() {
    check("path", path);
}

#[test]
fn any_documents_render_to_the_same_in_any_order() {
    check("render", render);
}

#[test]
fn any_saved_plan_is_refused_or_is_a_plan() {
    check("saved_plan", saved_plan);
}

#[test]
fn any_journal_is_refused_or_keeps_what_is_whole() {
    check("journal", journal);
}

#[test]
fn any_file_of_what_was_seen_is_refused_or_is_written_again_as_it_is() {
    for case in corpus("observations") {
        assert!(observed::read(&*case).is_ok());
    }
    check("observations", observations);
}

#[test]
fn any_answer_of_redfish_is_read_or_left_alone() {
    check("redfish", redfish);
}

#[test]
fn any_answer_of_ironic_is_read_or_left_alone() {
    check("ironic", ironic);
}

#[test]
fn any_answer_of_maas_is_read_or_left_alone() {
    check("maas", maas);
}

/// A corpus that is refused at its first byte lets a fuzzer find nothing.
#[test]
fn the_corpora_are_read() {
    let read = |path: &str| {
        let corpora = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        std::fs::read(corpora.join(path)).unwrap()
    };
    for name in ["update.json", "redeploy.json"] {
        if std::env::var_os("TRUEUP_BLESS").is_some() {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/saved_plan");
            let text = String::from_utf8(read(&format!("saved_plan/{name}"))).unwrap();
            let text = plan::tests::saved::forge(&text);
            std::fs::write(path.join(name), text).unwrap();
        }
        let plan = plan::saved::read(&read(&format!("saved_plan/{name}"))).unwrap();
        assert!(!plan.steps.is_empty(), "{name}");
    }
    let frames = read("journal/frames");
    let frames: Vec<&[u8]> = frames.split(|byte| *byte == 0).collect();
    let (entries, _) = journal::entries::<journal::Entry>(&journal::sealed(&frames)).unwrap();
    assert_eq!((frames.len(), entries.len()), (3, 7));
}
