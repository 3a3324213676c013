//! The repository room against repositories that the `git` program made, and checks.

mod files;
mod history;
mod layout;
mod refs;

use std::collections::BTreeMap;

use trueup::repository::{
    CommitId, Entry, Error, NewCommit, Repository, Selection, Signature, Tree, site_digest,
};

use crate::git::Checkout;
use crate::skipped::skipped;

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
        deflated: BTreeMap::new(),
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
    let repository = Repository::discover(&bare).unwrap();
    assert!(repository.is_bare());
    let error = repository.worktree(&Selection::everything()).unwrap_err();
    assert!(matches!(error, Error::Bare { .. }), "{error:?}");
}

#[test]
fn formats_that_cannot_be_read_say_what_to_do() {
    let checkout = Checkout::new();
    checkout.git(&["config", "core.repositoryFormatVersion", "1"]);
    for (key, value, hint) in [
        ("extensions.refStorage", "reftable", "git refs migrate"),
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
        skipped("this git cannot make a reftable");
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
            skipped("only root can give a folder away");
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
    let remote = || checkout.open().default_remote().unwrap();
    checkout.commit("one");
    assert_eq!(remote(), None);
    checkout.git(&["remote", "add", "upstream", "/nowhere"]);
    assert_eq!(remote().as_deref(), Some("upstream"));
    checkout.git(&["remote", "add", "other", "/nowhere"]);
    // No run takes its lock in this clone alone where others could have taken theirs elsewhere.
    let error = checkout.open().default_remote().unwrap_err().to_string();
    assert!(
        error.ends_with("tracked by the branch: other, upstream"),
        "{error}"
    );
    checkout.git(&["remote", "add", "origin", "/nowhere"]);
    assert_eq!(remote().as_deref(), Some("origin"));
    checkout.git(&["config", "branch.main.remote", "other"]);
    assert_eq!(remote().as_deref(), Some("other"));
    checkout.git(&["checkout", "--quiet", "--detach"]);
    assert_eq!(checkout.open().branch().unwrap(), None);
    assert_eq!(remote().as_deref(), Some("origin"));
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
