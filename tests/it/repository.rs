//! The repository room against repositories that the `git` program made, and checks.

use std::collections::BTreeMap;
use std::sync::Barrier;

use trueup::repository::{
    Change, CommitId, Entry, Error, Mode, NewCommit, NewTag, ObjectId, Reason, Repository,
    Selection, Signature, Tree, blob_id, site_digest,
};

use crate::git::Checkout;

const LIMIT: u64 = 1 << 20;

fn ada() -> Signature {
    Signature {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        seconds: 1_700_000_000,
    }
}

fn paths(tree: &Tree) -> Vec<&str> {
    tree.entries.iter().map(|entry| &*entry.path).collect()
}

fn digest(repository: &Repository, tree: &Tree) -> String {
    let blob = |entry: &Entry| repository.read(entry, LIMIT).unwrap().blob;
    site_digest(
        tree.entries
            .iter()
            .map(|entry| (&*entry.path, entry.mode, blob(entry))),
    )
    .to_string()
}

fn new_commit(
    parent: Option<CommitId>,
    changes: impl IntoIterator<Item = (String, Option<Vec<u8>>)>,
) -> NewCommit {
    NewCommit {
        base: parent,
        parents: parent.into_iter().collect(),
        changes: changes.into_iter().collect(),
        author: ada(),
        message: "records".to_owned(),
    }
}

#[test]
fn a_repository_is_found_from_a_folder_in_it_and_its_absence_has_a_way_out() {
    let checkout = Checkout::new();
    checkout.write("site/one/a.yaml", "a: 1\n");
    let repository = Repository::discover(&checkout.path().join("site/one")).unwrap();
    assert_eq!(repository.root().canonicalize().unwrap(), checkout.path());
    assert_eq!(repository.head().unwrap(), None, "nothing committed yet");
    assert_eq!(repository.branch().unwrap().as_deref(), Some("main"));
    let head = checkout.commit("first");
    assert_eq!(repository.head().unwrap(), Some(head));
    for revision in ["HEAD", "main", &head.to_string(), &head.short(), ":/first"] {
        assert_eq!(repository.resolve(revision).unwrap(), head, "{revision}");
    }
    for wrong in ["nothing", "", "HEAD:site", "--help", "HEAD~9"] {
        let error = repository.resolve(wrong).unwrap_err();
        assert!(
            error.to_string().contains(wrong) && error.hint().is_some(),
            "{error}"
        );
    }

    let error = Repository::discover(checkout.outside()).unwrap_err();
    assert!(matches!(error, Error::NoRepository { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("git init"));

    let bare = checkout.outside().join("bare.git");
    checkout.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let error = Repository::discover(&bare).unwrap_err();
    assert!(matches!(error, Error::Bare { .. }), "{error:?}");
}

#[test]
fn formats_that_cannot_be_read_say_what_to_do() {
    let checkout = Checkout::new();
    checkout.git(&["config", "core.repositoryFormatVersion", "1"]);
    for (key, value, hint) in [
        ("extensions.refStorage", "reftable", "git refs migrate"),
        ("extensions.objectFormat", "sha256", "plain clone"),
        ("extensions.partialClone", "origin", "--refetch origin"),
        ("extensions.somethingNew", "true", "plain clone"),
    ] {
        // By hand: git itself checks these.
        let config = checkout.path().join(".git/config");
        let before = std::fs::read_to_string(&config).unwrap();
        let (section, name) = key.split_once('.').unwrap();
        std::fs::write(
            &config,
            format!("{before}[{section}]\n\t{name} = {value}\n"),
        )
        .unwrap();
        let error = Repository::discover(checkout.path()).unwrap_err();
        std::fs::write(&config, before).unwrap();
        assert!(
            error.hint().is_some_and(|text| text.contains(hint)),
            "{key}: {error}: {:?}",
            error.hint()
        );
    }
    Repository::discover(checkout.path()).unwrap();
}

#[test]
fn a_repository_with_reftable_is_named_and_the_way_out_works() {
    let checkout = Checkout::new();
    // Not every git can migrate reflogs.
    checkout.git(&["config", "core.logAllRefUpdates", "false"]);
    let head = checkout.commit("first");
    let migrate = ["refs", "migrate", "--ref-format=reftable"];
    let tried = std::process::Command::new("git")
        .args(migrate)
        .current_dir(checkout.path())
        .output()
        .unwrap();
    if !tried.status.success() {
        eprintln!("SKIPPED: this git cannot make a reftable");
        return;
    }
    let error = Repository::discover(checkout.path()).unwrap_err();
    assert!(error.to_string().contains("reftable"), "{error}");
    let hint = error.hint().unwrap();
    let command = hint.split('`').nth(1).unwrap();
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    checkout.git(&arguments);
    assert_eq!(checkout.open().head().unwrap(), Some(head));
}

#[cfg(unix)]
#[test]
fn a_repository_of_another_user_is_named_with_the_command_that_trusts_it() {
    let checkout = Checkout::new();
    for path in [checkout.path().to_owned(), checkout.path().join(".git")] {
        if std::os::unix::fs::lchown(&path, Some(12_345), None).is_err() {
            eprintln!("SKIPPED: only root can give a folder away");
            return;
        }
    }
    match Repository::discover(checkout.path()) {
        Err(error) => {
            assert!(matches!(error, Error::ForeignOwner { .. }), "{error:?}");
            let hint = error.hint().unwrap();
            let expected = format!("safe.directory {}", checkout.path().display());
            assert!(hint.contains(&expected), "{hint}");
        }
        // Whoever trusts every folder is not asked.
        Ok(repository) => assert!(repository.config("safe.directory").unwrap().is_some()),
    }
}

#[test]
fn the_worktree_and_its_commit_have_the_same_files_and_the_same_digest() {
    let checkout = Checkout::new();
    for path in [
        "site/one/a.yaml",
        "site/one/deep/b.yml",
        "site/one/note.txt",
        "site/one/.hidden.yaml",
        "site/one/.hidden/c.yaml",
        "site/two/d.yaml",
        "global/e.yaml",
    ] {
        checkout.write(path, format!("path: {path}\n"));
    }
    let head = checkout.commit("first");
    let repository = checkout.open();
    let selection = Selection::below(["site/one", "global", "missing"]);
    let worktree = repository.worktree(&selection).unwrap();
    let committed = repository.tree_at(head, &selection).unwrap();
    let expected = ["global/e.yaml", "site/one/a.yaml", "site/one/deep/b.yml"];
    assert_eq!(paths(&worktree), expected);
    assert_eq!(paths(&committed), expected);
    assert!(worktree.problems.is_empty() && committed.problems.is_empty());
    assert_eq!(
        digest(&repository, &worktree),
        digest(&repository, &committed)
    );
    assert_eq!(repository.dirty(&selection, LIMIT).unwrap(), []);
    assert_eq!(
        repository.read(&committed.entries[1], LIMIT).unwrap().bytes,
        b"path: site/one/a.yaml\n"
    );

    checkout.write("site/one/a.yaml", "path: other\n");
    checkout.write("site/one/new.yaml", "new: 1\n");
    checkout.write("site/two/d.yaml", "another site\n");
    std::fs::remove_file(checkout.path().join("global/e.yaml")).unwrap();
    let dirty: Vec<_> = repository
        .dirty(&selection, LIMIT)
        .unwrap()
        .into_iter()
        .map(|dirty| (dirty.path.to_string(), dirty.change))
        .collect();
    assert_eq!(
        dirty,
        [
            ("global/e.yaml".to_owned(), Change::Deleted),
            ("site/one/a.yaml".to_owned(), Change::Modified),
            ("site/one/new.yaml".to_owned(), Change::Added),
        ]
    );
    let planned = digest(&repository, &repository.worktree(&selection).unwrap());
    assert_ne!(planned, digest(&repository, &committed));
    let head = checkout.commit("second");
    let committed = repository.tree_at(head, &selection).unwrap();
    assert_eq!(
        planned,
        digest(&repository, &committed),
        "the same files, now committed"
    );
}

#[test]
fn a_file_larger_than_the_limit_is_not_read() {
    let checkout = Checkout::new();
    checkout.write("big.yaml", "x".repeat(101));
    let head = checkout.commit("first");
    let repository = checkout.open();
    let everything = Selection::everything();
    for tree in [
        repository.worktree(&everything).unwrap(),
        repository.tree_at(head, &everything).unwrap(),
    ] {
        assert_eq!(
            repository.read(&tree.entries[0], 101).unwrap().bytes.len(),
            101
        );
        let error = repository.read(&tree.entries[0], 100).unwrap_err();
        let is_expected = matches!(
            &error,
            Error::TooLarge { size: 101, limit: 100, path } if path == "big.yaml"
        );
        assert!(is_expected, "{error:?}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_inside_the_repository_and_reported_where_they_leave_it() {
    let checkout = Checkout::new();
    checkout.write("global/real.yaml", "real: 1\n");
    checkout.write("global/more/x.yaml", "x: 1\n");
    checkout.write("kept/text.txt", "no document by its name");
    checkout.link("site/file.yaml", "../global/real.yaml");
    checkout.link("site/folder", "../global/more");
    checkout.link("site/chain.yaml", "./folder/../real.yaml");
    checkout.link("site/text.yaml", "../kept/text.txt");
    checkout.link("site/plain.txt", "../global/real.yaml");
    checkout.link("site/absolute.yaml", "/etc/passwd");
    checkout.link("site/climbs.yaml", "../../../x.yaml");
    checkout.link("site/git.yaml", "../.git/config");
    checkout.link("site/dangling.yaml", "nowhere.yaml");
    checkout.link("site/self.yaml", "self.yaml");
    checkout.link("site/inner/up", "..");
    checkout.link("other", "site");
    checkout.link("outer", "/etc");
    let head = checkout.commit("first");
    let repository = checkout.open();
    for prefix in ["site", "other"] {
        let selection = Selection::below([prefix]);
        let committed = repository.tree_at(head, &selection).unwrap();
        let worktree = repository.worktree(&selection).unwrap();
        let at = |name: &str| format!("{prefix}/{name}");
        let expected = ["chain.yaml", "file.yaml", "folder/x.yaml", "text.yaml"].map(at);
        for tree in [&committed, &worktree] {
            assert_eq!(paths(tree), expected);
            let modes: Vec<Mode> = tree.entries.iter().map(|entry| entry.mode).collect();
            // Below a linked folder the files are as they are.
            assert_eq!(modes, [Mode::Link, Mode::Link, Mode::Regular, Mode::Link]);
            let bytes = repository.read(&tree.entries[0], LIMIT).unwrap().bytes;
            assert_eq!(bytes, b"real: 1\n");
            let bytes = repository.read(&tree.entries[2], LIMIT).unwrap().bytes;
            assert_eq!(bytes, b"x: 1\n");
            let problems: Vec<_> = tree
                .problems
                .iter()
                .map(|problem| (problem.path.to_string(), problem.reason.clone()))
                .collect();
            let leaves = |target: &str| Reason::LeavesRepository {
                target: target.to_owned(),
            };
            let circle = |target: &str| Reason::Loop {
                target: target.to_owned(),
            };
            let nowhere = Reason::Dangling {
                target: "nowhere.yaml".to_owned(),
            };
            assert_eq!(
                problems,
                [
                    (at("absolute.yaml"), leaves("/etc/passwd")),
                    (at("climbs.yaml"), leaves("../../../x.yaml")),
                    (at("dangling.yaml"), nowhere),
                    (at("git.yaml"), leaves("../.git/config")),
                    (at("inner/up"), circle("..")),
                    (at("self.yaml"), circle("self.yaml")),
                ]
            );
        }
        assert_eq!(
            digest(&repository, &worktree),
            digest(&repository, &committed)
        );
        assert_eq!(repository.dirty(&selection, LIMIT).unwrap(), []);
    }
    let outer = repository.worktree(&Selection::below(["outer"])).unwrap();
    assert!(
        outer.entries.is_empty() && outer.problems.len() == 1,
        "{outer:?}"
    );
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_pipes_and_other_repositories_are_problems() {
    use std::os::unix::ffi::OsStrExt;
    let checkout = Checkout::new();
    let name = std::ffi::OsStr::from_bytes(b"b\xffd.yaml");
    std::fs::write(checkout.path().join(name), "x: 1\n").unwrap();
    checkout.write("good.yaml", "x: 1\n");
    let head = checkout.commit("first");
    let repository = checkout.open();
    let everything = Selection::everything();
    for tree in [
        repository.worktree(&everything).unwrap(),
        repository.tree_at(head, &everything).unwrap(),
    ] {
        assert_eq!(paths(&tree), ["good.yaml"]);
        assert_eq!(tree.problems.len(), 1);
        assert_eq!(tree.problems[0].reason, Reason::NotUtf8);
        assert_eq!(&*tree.problems[0].path, "b\u{fffd}d.yaml");
    }
    checkout.write("inner/x.yaml", "x: 1\n");
    let inner = checkout.path().join("inner");
    checkout.git(&["init", "--quiet", inner.to_str().unwrap()]);
    let pipe = checkout.path().join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    let tree = repository.worktree(&everything).unwrap();
    let reason = |path: &str| {
        let problem = tree.problems.iter().find(|each| &*each.path == path);
        problem.map(|problem| problem.reason.clone())
    };
    assert_eq!(reason("inner"), Some(Reason::Submodule));
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(reason("pipe.yaml"), Some(Reason::NotAFile));
    }
}

#[cfg(unix)]
#[test]
fn links_that_multiply_files_without_end_are_an_error_and_not_a_hang() {
    let checkout = Checkout::new();
    checkout.write("bomb/20/x.yaml", "x: 1\n");
    for level in 0..20 {
        for name in ["a", "b"] {
            checkout.link(
                &format!("bomb/{level}/{name}"),
                &format!("../{}", level + 1),
            );
        }
    }
    let repository = checkout.open();
    let error = repository
        .worktree(&Selection::below(["bomb/0"]))
        .unwrap_err();
    assert!(matches!(error, Error::TooManyFiles { .. }), "{error:?}");
}

#[test]
fn line_ends_count_as_git_would_commit_them() {
    let checkout = Checkout::new();
    checkout.write("a.yaml", "a: 1\nb: 2\n");
    checkout.commit("first");
    checkout.write("a.yaml", "a: 1\r\nb: 2\r\n");
    let everything = Selection::everything();
    let dirty = |checkout: &Checkout| checkout.open().dirty(&everything, LIMIT).unwrap().len();
    assert_eq!(
        dirty(&checkout),
        1,
        "without core.autocrlf the bytes differ"
    );
    for setting in ["true", "input"] {
        checkout.git(&["config", "core.autocrlf", setting]);
        assert_eq!(dirty(&checkout), 0, "core.autocrlf={setting}");
    }
}

#[test]
fn intermediate_commits_are_those_on_the_first_parent_line_that_touch_the_site() {
    let checkout = Checkout::new();
    let edit = |path: &str, message: &str| {
        checkout.write(path, message);
        checkout.commit(message)
    };
    let first = edit("site/one/a.yaml", "first");
    let second = edit("site/one/a.yaml", "second");
    edit("README.md", "not a document");
    edit("site/one/notes.txt", "not a document either");
    edit("site/two/a.yaml", "another site");
    checkout.git(&["checkout", "--quiet", "-b", "topic"]);
    let branch = edit("site/one/b.yaml", "on a branch");
    edit("site/one/c.yaml", "more on it");
    checkout.git(&["checkout", "--quiet", "main"]);
    checkout.git(&["merge", "--quiet", "--no-ff", "-m", "merged", "topic"]);
    let merged = checkout.open().head().unwrap().unwrap();
    std::fs::remove_file(checkout.path().join("site/one/a.yaml")).unwrap();
    let removed = checkout.commit("removed");
    let last = edit("site/one/a.yaml", "last");
    let repository = checkout.open();
    let selection = Selection::below(["site/one"]);
    let touching = |from, to| {
        let list = repository.commits_touching(from, to, &selection).unwrap();
        list.into_iter().map(|each| each.id).collect::<Vec<_>>()
    };
    assert_eq!(touching(Some(first), last), [removed, merged, second]);
    assert_eq!(touching(None, last), [removed, merged, second, first]);
    assert_eq!(touching(Some(removed), last), []);
    assert_eq!(touching(Some(last), last), []);
    assert_eq!(touching(None, first), []);
    let error = repository
        .commits_touching(Some(branch), last, &selection)
        .unwrap_err();
    assert!(matches!(error, Error::Diverged { .. }), "{error:?}");
    assert!(repository.is_ancestor(branch, last).unwrap());
    assert!(!repository.is_ancestor(last, branch).unwrap());
    assert!(!repository.is_on_first_parent_line(branch, last).unwrap());
    assert!(repository.is_on_first_parent_line(second, last).unwrap());
    let summary = repository.summary(merged).unwrap();
    assert_eq!((&*summary.subject, &*summary.author), ("merged", "Ada"));
    assert_eq!(summary.seconds, 1_700_000_000);
    assert!(repository.touches(first, &selection).unwrap());
}

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
fn a_lock_file_that_nobody_removes_is_named() {
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
fn lock_files_that_a_killed_process_left_are_in_nobodys_way() {
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
fn commits_without_a_worktree_change_only_what_they_say_and_pass_gits_check() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let file = |path: &str, text: &str| (path.to_owned(), Some(text.as_bytes().to_vec()));
    let first = new_commit(
        None,
        [
            file("nodes/00", "zero\n"),
            file("nodes/ff", "last\n"),
            file("nodes-x", "sorts between\n"),
            file("nodes.x", "sorts between\n"),
            file("runs/1/run.json", "{}\n"),
            file("site.json", "{}\n"),
        ],
    );
    let one = repository.write_commit(&first).unwrap();
    assert_eq!(
        one,
        repository.write_commit(&first).unwrap(),
        "the same in, the same out"
    );
    let two = repository
        .write_commit(&new_commit(
            Some(one),
            [
                file("nodes/00", "changed\n"),
                file("runs/2/run.json", "{}\n"),
                ("runs/1".to_owned(), None),
                ("nodes.x".to_owned(), None),
            ],
        ))
        .unwrap();
    repository
        .update_ref("refs/trueup/site/state", None, two.0)
        .unwrap();
    checkout.git(&["fsck", "--strict", "--full"]);
    assert_eq!(
        checkout.git(&["ls-tree", "-r", "--name-only", &two.to_string()]),
        "nodes-x\nnodes/00\nnodes/ff\nruns/2/run.json\nsite.json"
    );
    assert_eq!(
        checkout.git(&["log", "--format=%an <%ae> %at %s", &two.to_string()]),
        "Ada <ada@example.org> 1700000000 records\nAda <ada@example.org> 1700000000 records"
    );
    assert_eq!(
        repository.file_at(two, "nodes/00").unwrap().unwrap(),
        b"changed\n"
    );
    assert_eq!(
        repository.file_at(one, "nodes/00").unwrap().unwrap(),
        b"zero\n"
    );
    assert_eq!(repository.file_at(two, "runs/1/run.json").unwrap(), None);
    assert_eq!(repository.folders_in(two, "runs").unwrap(), ["2"]);
    assert_eq!(repository.folders_in(two, "").unwrap(), ["nodes", "runs"]);
    let shards = repository.files_in(two, "nodes").unwrap();
    assert_eq!(shards["ff"], blob_id(b"last\n"));
    for wrong in ["", "a//b", "../x", "a/.git/x", "a/"] {
        let commit = new_commit(None, [file(wrong, "x")]);
        assert!(repository.write_commit(&commit).is_err(), "{wrong}");
    }
    let commit = new_commit(None, [file("a", "x"), file("a/b", "x")]);
    assert!(
        repository.write_commit(&commit).is_err(),
        "a file and a folder"
    );
    let empty = repository.write_commit(&new_commit(None, [])).unwrap();
    checkout.git(&["ls-tree", &empty.to_string()]);
}

#[test]
fn a_commit_of_many_files_is_one_pack_and_nothing_is_left_behind() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let changes = (0..256).map(|shard| {
        let text = format!("{{\"node\":\"n{shard}\"}}\n").repeat(20);
        (format!("nodes/{shard:02x}"), Some(text.into_bytes()))
    });
    let commit = repository.write_commit(&new_commit(None, changes)).unwrap();
    repository
        .update_ref("refs/trueup/site/state", None, commit.0)
        .unwrap();
    let count = checkout.git(&["count-objects", "-v"]);
    assert!(
        count.contains("count: 0\n") && count.contains("packs: 1\n"),
        "{count}"
    );
    assert!(count.contains("garbage: 0\n"), "{count}");
    let left: Vec<_> = std::fs::read_dir(checkout.path().join(".git/objects"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with("tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    checkout.git(&["fsck", "--strict", "--full"]);
    assert_eq!(
        checkout.open().files_in(commit, "nodes").unwrap().len(),
        256
    );
}

#[test]
fn a_tag_has_its_id_before_it_is_made_and_is_made_once() {
    let checkout = Checkout::new();
    let head = checkout.commit("one");
    let other = checkout.commit("two");
    let repository = checkout.open();
    let tag = NewTag {
        name: "site-action-success/one/01J".to_owned(),
        target: head,
        tagger: ada(),
        message: "dag_id: 01J\n".to_owned(),
    };
    let id = tag.id().unwrap();
    assert_eq!(repository.create_tag(&tag).unwrap(), id);
    assert_eq!(repository.create_tag(&tag).unwrap(), id);
    let different = NewTag {
        target: other,
        ..tag.clone()
    };
    let error = repository.create_tag(&different).unwrap_err();
    assert!(matches!(error, Error::RefMoved { .. }), "{error:?}");
    checkout.git(&["fsck", "--strict"]);
    assert_eq!(
        checkout.git(&[
            "for-each-ref",
            "--format=%(objecttype) %(*objectname) %(contents)",
            "refs/tags"
        ]),
        format!("tag {head} dag_id: 01J")
    );
    checkout.git(&["tag", "site-action-success/one/light", "HEAD"]);
    let tags = repository.tags("site-action-success/one").unwrap();
    assert_eq!(tags.len(), 2);
    assert_eq!(
        (tags[0].id, tags[0].target, &*tags[0].message),
        (id, head, "dag_id: 01J\n")
    );
    assert_eq!((tags[1].target, &*tags[1].message), (other, ""));
    repository.delete_ref(&tag.ref_name(), id).unwrap();
    assert_eq!(repository.tags("site-action-success").unwrap().len(), 1);
}

#[test]
fn the_prefix_of_refs_can_be_moved_and_a_wrong_one_is_refused() {
    let checkout = Checkout::new();
    assert_eq!(checkout.open().ref_prefix().unwrap(), "refs/trueup");
    for (prefix, is_good) in [
        ("refs/heads/trueup/", true),
        ("refs/tags/x", false),
        ("heads", false),
        ("refs/a b", false),
    ] {
        checkout.git(&["config", "trueup.refPrefix", prefix]);
        let found = checkout.open().ref_prefix();
        assert_eq!(found.is_ok(), is_good, "{prefix}: {found:?}");
    }
}

#[test]
fn the_default_remote_is_chosen_as_git_chooses_it() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    checkout.commit("one");
    assert_eq!(repository.default_remote().unwrap(), None);
    checkout.git(&["remote", "add", "upstream", "/nowhere"]);
    assert_eq!(
        repository.default_remote().unwrap().as_deref(),
        Some("upstream")
    );
    checkout.git(&["remote", "add", "other", "/nowhere"]);
    assert_eq!(repository.default_remote().unwrap(), None);
    checkout.git(&["remote", "add", "origin", "/nowhere"]);
    assert_eq!(
        repository.default_remote().unwrap().as_deref(),
        Some("origin")
    );
    checkout.git(&["config", "branch.main.remote", "other"]);
    assert_eq!(
        repository.default_remote().unwrap().as_deref(),
        Some("other")
    );
    checkout.git(&["checkout", "--quiet", "--detach"]);
    assert_eq!(repository.branch().unwrap(), None);
    assert_eq!(
        repository.default_remote().unwrap().as_deref(),
        Some("origin")
    );
}

#[test]
fn a_linked_worktree_shares_refs_and_has_its_own_head() {
    let checkout = Checkout::new();
    checkout.write("a.yaml", "a: 1\n");
    let head = checkout.commit("one");
    let linked = checkout.outside().join("linked");
    checkout.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let repository = Repository::discover(&linked).unwrap();
    assert_eq!(repository.head().unwrap(), Some(head));
    repository
        .update_ref("refs/trueup/site/state", None, head.0)
        .unwrap();
    assert_eq!(
        checkout.open().read_ref("refs/trueup/site/state").unwrap(),
        Some(head.0)
    );
    assert_eq!(
        repository.common_dir().canonicalize().unwrap(),
        checkout.path().join(".git")
    );
    assert_eq!(
        paths(&repository.worktree(&Selection::everything()).unwrap()),
        ["a.yaml"]
    );
}
