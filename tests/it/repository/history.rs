//! Commits and tags: looked for and made.

use trueup::repository::{Deflated, Error, NewCommit, NewTag, Selection, blob_id};

use super::{ada, new_commit};
use crate::git::Checkout;

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
fn files_that_were_deflated_before_make_the_same_commit_alone_and_in_a_pack() {
    for count in [1, 64] {
        let texts = (0..count).map(|shard| {
            let text = format!("{{\"node\":\"n{shard}\"}}\n").repeat(50 * shard);
            (format!("nodes/{shard:02x}"), text.into_bytes())
        });
        let texts: Vec<(String, Vec<u8>)> = texts.collect();
        let checkout = Checkout::new();
        let deflate =
            |(path, text): &(String, Vec<u8>)| (path.clone(), Deflated::new(text).unwrap());
        let commit = NewCommit {
            deflated: texts.iter().map(deflate).collect(),
            ..new_commit(None, [])
        };
        let id = checkout.open().write_commit(&commit).unwrap();
        checkout.git(&["fsck", "--strict", "--full"]);
        for (path, text) in &texts {
            let found = checkout.open().file_at(id, path).unwrap();
            assert_eq!(found.as_ref(), Some(text), "{path}");
        }
        let plain = texts.into_iter().map(|(path, text)| (path, Some(text)));
        let elsewhere = Checkout::new();
        let plain = elsewhere.open().write_commit(&new_commit(None, plain));
        assert_eq!(plain.unwrap(), id);
    }
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
        signature: None,
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
fn a_name_of_a_tag_and_of_a_branch_with_another_commit_is_ambiguous() {
    let checkout = Checkout::new();
    checkout.write("a.yaml", "a: 1\n");
    let tagged = checkout.commit("first");
    checkout.git(&["tag", "x"]);
    checkout.git(&["branch", "x"]);
    let resolve = |name: &str| checkout.open().resolve(name);
    assert_eq!(resolve("x").unwrap(), tagged, "both are the same commit");
    checkout.write("a.yaml", "a: 2\n");
    let on_branch = checkout.commit("second");
    checkout.git(&["branch", "--force", "x"]);
    let error = resolve("x").unwrap_err();
    assert!(
        matches!(&error, Error::AmbiguousRevision { name } if name == "x"),
        "{error:?}"
    );
    assert_eq!(resolve("refs/heads/x").unwrap(), on_branch);
    assert_eq!(resolve("refs/tags/x").unwrap(), tagged);
}
