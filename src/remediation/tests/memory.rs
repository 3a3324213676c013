//! The memory across a crash, and the labels that a Node gets back.

use std::sync::Arc;

use crate::remediation::{Backup, Memory, Note, Taint};

fn taint(key: &str, effect: &str) -> Taint {
    Taint {
        key: Arc::from(key),
        value: Arc::from(""),
        effect: Arc::from(effect),
    }
}

fn backup(labels: &[(&str, &str)], annotations: &[(&str, &str)], taints: &[Taint]) -> Backup {
    let map = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| (Arc::from(*key), Arc::from(*value)))
            .collect()
    };
    Backup::of(
        map(labels),
        map(annotations),
        taints.iter().cloned().collect(),
        false,
    )
}

#[test]
fn what_the_cluster_sets_by_itself_is_not_given_back() {
    let kept = backup(
        &[("role", "storage")],
        &[
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ("note", "mine"),
        ],
        &[
            taint("node.kubernetes.io/unreachable", "NoExecute"),
            taint("node.kubernetes.io/out-of-service", "NoExecute"),
            taint("dedicated", "NoSchedule"),
        ],
    );
    assert_eq!(
        kept.taints.iter().collect::<Vec<_>>(),
        [&taint("dedicated", "NoSchedule")]
    );
    assert_eq!(
        kept.annotations
            .keys()
            .map(|key| &**key)
            .collect::<Vec<_>>(),
        ["note"]
    );
}

#[test]
fn existing_keys_win_when_a_node_gets_back_what_the_one_before_carried() {
    let before = backup(
        &[
            ("role", "storage"),
            ("zone", "a"),
            ("kubernetes.io/hostname", "n1"),
        ],
        &[("note", "mine")],
        &[taint("dedicated", "NoSchedule"), taint("slow", "NoExecute")],
    );
    let now = backup(
        &[("zone", "b"), ("kubernetes.io/hostname", "n1")],
        &[("note", "theirs"), ("other", "x")],
        &[
            taint("dedicated", "NoSchedule"),
            taint("slow", "NoSchedule"),
        ],
    );
    let missing = before.missing_on(&now);
    assert_eq!(
        missing,
        backup(&[("role", "storage")], &[], &[taint("slow", "NoExecute")])
    );
    assert!(!missing.is_empty());
    // Written once, nothing is missing any more: doing it again changes nothing.
    assert!(before.missing_on(&now.clone().with(&missing)).is_empty());
}

#[test]
fn a_second_attempt_loses_nothing_that_the_first_could_not_give_back() {
    let notes = [
        Note::Attempt { number: 1 },
        Note::Hold,
        Note::BackedUp {
            uid: Arc::from("u1"),
            backup: backup(&[("role", "storage"), ("zone", "a")], &[], &[]),
        },
        Note::Releasing {
            uid: Arc::from("u1"),
        },
        Note::Unmarked,
        Note::LetGo,
        Note::AttemptFailed {
            reason: Arc::from("not Ready"),
        },
        Note::Attempt { number: 2 },
        Note::Hold,
        Note::BackedUp {
            uid: Arc::from("u2"),
            backup: backup(&[("zone", "b")], &[], &[]),
        },
    ];
    let texts: Vec<_> = notes.iter().map(Note::to_text).collect();
    let memory = Memory::default().with(
        texts
            .iter()
            .map(|text| &**text)
            .chain(["something else", ""]),
    );
    assert_eq!(memory.attempt, 2);
    assert!(memory.needs_remediation && memory.held && !memory.let_go && memory.failed.is_none());
    assert_eq!(
        memory.backup,
        Some(backup(&[("role", "storage"), ("zone", "b")], &[], &[]))
    );
    assert_eq!(memory.backed_up.len(), 2);
    let text = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
}
