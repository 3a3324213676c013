//! The cases that the tests of CAPM3's remediation have, and which of our tests answers each of them.

use std::path::Path;

use crate::harness::shared;

/// Our table: number, phase, verdict, what it is about, and the tests or the reason.
const CASES: &str = include_str!("../../fixtures/capm3-remediation.csv");

/// The phases as its tests write them.
const PHASES: [(&str, &str); 5] = [
    ("\"\"\"\"\"\"", "none"),
    ("infrav1.PhaseRunning", "running"),
    ("infrav1.PhaseWaiting", "waiting"),
    ("infrav1.PhaseDeleting", "deleting"),
    ("infrav1.PhaseFailed", "failed"),
];

fn read(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_case_of_capm3_is_answered_by_a_test_of_ours_or_does_not_apply() {
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        read(&root.join(folder), &mut sources);
    }
    let ours: Vec<Vec<&str>> = CASES
        .lines()
        .skip(1)
        .map(|line| line.splitn(5, ',').collect())
        .collect();
    for (index, case) in ours.iter().enumerate() {
        let [number, _, verdict, _, answer] = case[..] else {
            panic!("{case:?}");
        };
        assert_eq!(number, (index + 1).to_string());
        match verdict {
            "applies" | "differs" => {
                for test in answer.split(' ') {
                    let written = format!("fn {test}()");
                    assert!(sources.contains(&written), "{case:?}: no test `{test}`");
                }
            }
            "does not apply" => assert!(!answer.is_empty(), "{case:?}"),
            other => panic!("{other}"),
        }
    }
    let Some(path) = shared("data/metal3/capm3_remediation_cases.csv") else {
        return;
    };
    let theirs = std::fs::read_to_string(path).unwrap();
    let theirs: Vec<&str> = theirs.lines().skip(1).collect();
    assert_eq!(theirs.len(), ours.len());
    for (case, line) in ours.iter().zip(theirs) {
        let phase = line.rsplit(',').next().unwrap();
        let known = PHASES.iter().find(|(theirs, _)| *theirs == phase);
        let phase = known.map_or("any", |(_, ours)| ours);
        assert_eq!(case[1], phase, "{line}");
    }
}
