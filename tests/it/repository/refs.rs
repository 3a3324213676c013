//! Refs that several writers move, git among them.

use std::collections::BTreeMap;
use std::sync::Barrier;

use trueup::repository::{Error, ObjectId};

use crate::git::Checkout;

#[test]
fn a_ref_moves_only_from_the_value_that_was_seen() {
    let checkout = Checkout::new();
    let one = checkout.commit("one").0;
    let two = checkout.commit("two").0;
    let repository = checkout.open();
    let name = "refs/trueup/site/state";
    repository.update_ref(name, None, one).unwrap();
    assert_eq!(checkout.git(&["rev-parse", name]), one.to_string());
    let moved = |result: Result<(), Error>| match result {
        Err(Error::RefMoved { found, .. }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(moved(repository.update_ref(name, None, two)), Some(one));
    assert_eq!(
        moved(repository.update_ref(name, Some(two), two)),
        Some(one)
    );
    assert_eq!(moved(repository.delete_ref(name, two)), Some(one));
    repository.update_ref(name, Some(one), two).unwrap();
    // A packed ref is the same ref.
    checkout.git(&["pack-refs", "--all"]);
    assert_eq!(repository.read_ref(name).unwrap(), Some(two));
    assert_eq!(
        moved(repository.update_ref(name, Some(one), one)),
        Some(two)
    );
    repository.update_ref(name, Some(two), one).unwrap();
    assert_eq!(
        repository.refs("refs/trueup").unwrap(),
        BTreeMap::from([(name.to_owned(), one)])
    );
    // Another ref is in the way, from above or from below.
    for wrong in ["refs/trueup/site", "refs/trueup/site/state/x"] {
        let error = repository.update_ref(wrong, None, one).unwrap_err();
        assert!(matches!(error, Error::BadRef { .. }), "{error:?}");
    }
    checkout.git(&["pack-refs", "--all"]);
    for wrong in ["refs/trueup/site", "refs/trueup/site/state/x"] {
        let error = repository.update_ref(wrong, None, one).unwrap_err();
        assert!(matches!(error, Error::BadRef { .. }), "{error:?}");
    }
    repository.delete_ref(name, one).unwrap();
    assert_eq!(repository.read_ref(name).unwrap(), None);
    assert_eq!(moved(repository.delete_ref(name, one)), None);
    for wrong in ["HEAD", "refs/x..y/z", "state", "refs/x/y.lock", "refs/a b"] {
        assert!(matches!(
            repository.update_ref(wrong, None, one),
            Err(Error::BadRef { .. })
        ));
    }
    checkout.git(&["fsck", "--strict"]);
}

#[test]
fn of_two_racing_writers_exactly_one_moves_the_ref() {
    let checkout = Checkout::new();
    let ids: Vec<ObjectId> = (0..3)
        .map(|number| checkout.commit(&number.to_string()).0)
        .collect();
    let handles = [checkout.open(), checkout.open()];
    let name = "refs/trueup/site/lock";
    for round in 0..100 {
        // Every third race is for the creation of the ref, whose folder is swept in between.
        let expected = (round % 3 != 0).then_some(ids[0]);
        if let Some(expected) = expected {
            handles[0].update_ref(name, None, expected).unwrap();
        }
        let barrier = Barrier::new(2);
        let wins: Vec<bool> = std::thread::scope(|scope| {
            let racers: Vec<_> = handles
                .iter()
                .zip(&ids[1..])
                .map(|(handle, id)| {
                    scope.spawn(|| {
                        barrier.wait();
                        match handle.update_ref(name, expected, *id) {
                            Ok(()) => true,
                            Err(Error::RefMoved { .. }) => false,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        assert_eq!(wins.iter().filter(|won| **won).count(), 1, "round {round}");
        let winner = ids[1 + wins.iter().position(|won| *won).unwrap()];
        assert_eq!(handles[0].read_ref(name).unwrap(), Some(winner));
        handles[1].delete_ref(name, winner).unwrap();
    }
}

#[test]
fn a_lock_file_that_stays_is_named() {
    let checkout = Checkout::new();
    let one = checkout.commit("one").0;
    checkout.write(".git/refs/trueup/site/state.lock", "");
    let error = checkout
        .open()
        .update_ref("refs/trueup/site/state", None, one)
        .unwrap_err();
    assert!(matches!(error, Error::RefLocked { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("state.lock"));
}

/// Sets `REF.lock` down as a process leaves it that is killed while it has the ref locked: a copy of the
/// lock file of a living one, without its lock.
#[cfg(target_os = "linux")]
fn leave_lock_files(checkout: &Checkout, names: &[&str]) {
    let repository = checkout.open();
    let first = checkout.git(&["rev-parse", "HEAD"]).parse().unwrap();
    let (locked, lock) = (
        "refs/trueup/other/state",
        ".git/refs/trueup/other/state.lock",
    );
    let mut text = String::new();
    while text.is_empty() {
        std::thread::scope(|scope| {
            let moves = scope.spawn(|| {
                let before = repository.read_ref(locked).unwrap();
                repository.update_ref(locked, before, first).unwrap();
            });
            while text.is_empty() && !moves.is_finished() {
                text = std::fs::read_to_string(checkout.path().join(lock)).unwrap_or_default();
            }
        });
    }
    for name in names {
        checkout.write(&format!(".git/{name}.lock"), &text);
        checkout.write(&format!(".git/{name}..lock"), "half a val");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn lock_files_of_a_killed_process_do_not_block() {
    let checkout = Checkout::new();
    let one = checkout.commit("one").0;
    let two = checkout.commit("two").0;
    let repository = checkout.open();
    let name = "refs/trueup/site/state";
    leave_lock_files(&checkout, &[name, "packed-refs"]);
    repository.update_ref(name, None, one).unwrap();
    repository.update_ref(name, Some(one), two).unwrap();
    leave_lock_files(&checkout, &[name]);
    checkout.git(&["rev-parse", "--verify", name]);
    repository.delete_ref(name, two).unwrap();
    for left in ["refs/trueup/site", "trueup/.locks"] {
        let folder = checkout.path().join(".git").join(left);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "{left}");
    }
    assert!(!checkout.path().join(".git/packed-refs.lock").exists());
}

#[test]
fn a_ref_that_git_has_packed_is_deleted_and_the_others_stay() {
    let checkout = Checkout::new();
    let one = checkout.commit("one").0;
    let repository = checkout.open();
    checkout.git(&["tag", "--annotate", "--message=x", "before"]);
    checkout.git(&["tag", "--annotate", "--message=x", "site"]);
    let tag: trueup::repository::ObjectId = checkout
        .git(&["rev-parse", "refs/tags/site"])
        .parse()
        .unwrap();
    repository
        .update_ref("refs/trueup/site/state", None, one)
        .unwrap();
    let others = |all: &str| {
        let kept = all.lines().filter(|line| !line.ends_with("refs/tags/site"));
        kept.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = checkout.git(&["show-ref", "--dereference"]);
    checkout.git(&["pack-refs", "--all"]);
    repository.delete_ref("refs/tags/site", tag).unwrap();
    let left = checkout.git(&["show-ref", "--dereference"]);
    let expected = others(&before);
    let expected: Vec<_> = expected
        .iter()
        .filter(|line| !line.ends_with("tags/site^{}"))
        .collect();
    assert_eq!(left.lines().collect::<Vec<_>>(), expected);
    assert_eq!(repository.read_ref("refs/tags/site").unwrap(), None);
    checkout.git(&["fsck", "--strict"]);
    checkout.git(&["pack-refs", "--all"]);
}

#[test]
fn many_refs_are_deleted_together_or_none_of_them_where_one_has_moved() {
    let checkout = Checkout::new();
    let one = checkout.commit("one").0;
    let two = checkout.commit("two").0;
    let names: Vec<String> = (0..1100).map(|at| format!("refs/tags/t{at:04}")).collect();
    let lines = names.iter().map(|name| format!("{one} {name}\n"));
    let packed: String = lines.collect();
    checkout.write(".git/packed-refs", &packed);
    let repository = checkout.open();
    // One is loose, and another than it was.
    repository.update_ref(&names[3], Some(one), two).unwrap();
    let all = |id| names.iter().map(move |name| (name.as_str(), id));
    let first: Vec<_> = all(one).take(5).collect();
    assert!(matches!(
        repository.delete_refs(&first),
        Err(trueup::repository::Error::RefMoved { found, .. }) if found == Some(two)
    ));
    assert_eq!(repository.refs("refs/tags").unwrap().len(), names.len());
    assert!(!checkout.path().join(".git/refs/tags/t0000.lock").exists());

    let kept = 2;
    let mut others: Vec<_> = all(one).skip(kept).collect();
    others[3 - kept].1 = two;
    repository.delete_refs(&others).unwrap();
    let left: Vec<String> = repository.refs("refs/tags").unwrap().into_keys().collect();
    assert_eq!(left, names[..kept]);
    checkout.git(&["fsck", "--strict"]);
}
