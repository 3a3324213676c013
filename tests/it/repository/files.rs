//! The files of a site: in the worktree, in a commit, behind links, and what cannot be read.

use std::collections::BTreeSet;

use trueup::repository::{Error, Mode, Reason, Selection, WorktreeChange};

use super::{LIMIT, digest, paths};
use crate::git::Checkout;

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
            ("global/e.yaml".to_owned(), WorktreeChange::Deleted),
            ("site/one/a.yaml".to_owned(), WorktreeChange::Modified),
            ("site/one/new.yaml".to_owned(), WorktreeChange::Added),
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
fn the_digest_of_a_large_revision_is_kept_for_it_and_its_selection_alone() {
    let checkout = Checkout::new();
    for number in 0..1200 {
        checkout.write(
            &format!("site/{number}.yaml"),
            format!("number: {number}\n"),
        );
    }
    checkout.write("other/a.yaml", "a: 1\n");
    let first = checkout.commit("first");
    checkout.write("site/7.yaml", "number: seven\n");
    let second = checkout.commit("second");
    let open = || checkout.open().with_cache(b"test");
    let kept = || {
        let entries = std::fs::read_dir(checkout.path().join(".git/trueup/.cache"));
        entries.into_iter().flatten().count()
    };
    let selections = [["site"], ["other"], [""]].map(Selection::below);
    let asked = |repository: &trueup::repository::Repository| {
        let mut digests = Vec::new();
        for revision in [first, second] {
            for selection in &selections {
                let made = repository.tree_at(revision, selection).unwrap().digest();
                let digest = repository.digest_at(revision, selection).unwrap();
                assert_eq!(digest, made);
                digests.push(digest);
            }
        }
        digests
    };
    let made = asked(&open());
    // The folder `other` is small, and the same in both.
    assert_eq!(kept(), 4);
    assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(asked(&open()), made);

    // What is kept is what is told: it tells of a revision even if its files are gone.
    let objects = checkout.path().join(".git/objects");
    let gone = checkout.path().join(".git/gone");
    std::fs::rename(&objects, gone).unwrap();
    std::fs::create_dir(&objects).unwrap();
    let digest = open().digest_at(second, &selections[0]).unwrap();
    assert_eq!(digest, made[3]);
    assert!(open().digest_at(second, &selections[1]).is_err());
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
    // Listed together, each selection has what it has alone.
    let selections = [
        &["site"][..],
        &["other", "global"],
        &["global", "site"],
        &["site/folder"],
        &["site/dangling.yaml", "none"],
    ];
    let selections = selections.map(Selection::below);
    for revision in [None, Some(head)] {
        let listings = repository.listings(revision, selections.iter()).unwrap();
        for selection in &selections {
            let alone = match revision {
                None => repository.worktree(selection).unwrap(),
                Some(head) => repository.tree_at(head, selection).unwrap(),
            };
            assert_eq!(repository.tree_of(&listings, selection).unwrap(), alone);
        }
    }
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
    checkout.write("Same.yaml", "x: 1\n");
    checkout.write("same.yaml", "x: 1\n");
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
    assert_eq!(
        reason("same.yaml"),
        Some(Reason::CaseAlone {
            other: "Same.yaml".to_owned()
        })
    );
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
