//! Records in a branch of the remote: moved there and back, and clones that look for them elsewhere.

mod broken_off;
mod elsewhere;
mod runs_under_way;

use std::path::Path;

use super::cli_interrupted::{clone, same_machines, shared};
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::{Checkout, Origin};

const OWN: &str = "refs/trueup/edge/state";
const BRANCH: &str = "refs/heads/trueup/edge/state";

/// A site with three machines, applied once, and its remote.
fn applied() -> (Fixture, Origin) {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    let (fixture, origin) = shared(fixture);
    // As a forge does it that lets branches move forward only.
    origin.git(&["config", "receive.denyNonFastForwards", "true"]);
    fixture.run(&["apply", "--yes"]).with(0);
    (fixture, origin)
}

/// Lets a clone look for the records in the branch.
fn look_in_branch(fixture: &Fixture) {
    let set = ["config", "trueup.stateBranch", "trueup"];
    fixture.checkout.git(&set);
}

/// A run that writes records.
fn redeploy(fixture: &Fixture, more: &[&str]) -> Ended {
    let words = ["apply", "redeploy", "edge-1", "--yes"];
    fixture.run(&[&words, more].concat())
}

/// The runs that a clone lists, the oldest first.
#[track_caller]
fn runs(fixture: &Fixture) -> Vec<String> {
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let runs = log["runs"].as_array().unwrap().iter();
    let mut runs: Vec<String> = runs
        .map(|run| run["run"].as_str().unwrap().to_owned())
        .collect();
    runs.sort();
    runs
}

/// What a ref of the remote is: nothing, records, or a marker that names another ref.
fn content(origin: &Origin, name: &str) -> String {
    let found = origin.git(&["for-each-ref", "--format=%(refname)", name]);
    if found.is_empty() {
        return "nothing".to_owned();
    }
    let site = origin.git(&["show", &format!("{name}:site.json")]);
    let site: serde_json::Value = serde_json::from_str(&site).unwrap();
    match site["moved_to"].as_str() {
        Some(to) => {
            // The version that a program without branches refuses.
            assert_eq!(site["format_version"], 2);
            to.to_owned()
        }
        None => "records".to_owned(),
    }
}

/// A hook of the remote.
fn hook(origin: &Origin, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = origin.path().join("hooks").join(name);
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn records_move_to_a_branch_and_back_and_runs_continue_where_they_are() {
    let (first, origin) = applied();
    look_in_branch(&first);
    for words in [&["plan"][..], &["log"], &["apply", "--yes"]] {
        first
            .run(words)
            .with(1)
            .saying("are at `refs/trueup/edge/state` of the remote, and not moved")
            .saying("`trueup migrate` moves them");
    }
    first
        .run(&["migrate"])
        .with(0)
        .saying("of site `edge` are at `refs/heads/trueup/edge/state` of the remote now");
    assert_eq!(content(&origin, BRANCH), "records");
    assert_eq!(content(&origin, OWN), BRANCH);
    let mut expected = runs(&first);
    assert_eq!(expected.len(), 1);

    // In turns, with another clone, forth and back.
    let second = clone(&first, &origin);
    look_in_branch(&second);
    for round in 0..2 {
        redeploy(&second, &[]).with(0);
        same_machines(&second, &first);
        redeploy(&first, &[]).with(0);
        same_machines(&first, &second);
        assert_eq!(runs(&first).len(), expected.len() + 2);
        expected = runs(&first);
        assert_eq!(runs(&second), expected);
        second
            .run(&["migrate"])
            .with(0)
            .saying("of the remote already");

        second.run(&["migrate", "--back"]).with(0);
        assert_eq!(content(&origin, OWN), "records", "round {round}");
        assert_eq!(content(&origin, BRANCH), OWN);
        second
            .run(&["migrate", "--back"])
            .with(0)
            .saying("of the remote already");
        // A clone that looks in the branch still finds nothing to begin with.
        redeploy(&first, &[])
            .with(1)
            .saying("unset `trueup.stateBranch`");
        for clone in [&first, &second] {
            clone
                .checkout
                .git(&["config", "--unset", "trueup.stateBranch"]);
            assert_eq!(runs(clone), expected);
        }
        redeploy(&first, &[]).with(0);
        same_machines(&first, &second);
        expected = runs(&second);
        for clone in [&first, &second] {
            look_in_branch(clone);
        }
        first.run(&["migrate"]).with(0);
        assert_eq!(runs(&second), expected);
    }
    assert_eq!(content(&origin, BRANCH), "records");
    first.run(&["plan", "--detailed-exitcode"]).with(0);
    let locks = origin.git(&["for-each-ref", "refs/trueup/edge/lock"]);
    assert_eq!(locks, "");
}

#[test]
fn pushes_of_the_branch_start_no_pipelines() {
    let (first, origin) = applied();
    hook(
        &origin,
        "pre-receive",
        "while read old new name; do echo \"$name ${GIT_PUSH_OPTION_COUNT:-none} $GIT_PUSH_OPTION_0\" >> pushes; done\n",
    );
    let pushes = || {
        let text = std::fs::read_to_string(origin.path().join("pushes")).unwrap();
        std::fs::remove_file(origin.path().join("pushes")).unwrap();
        text
    };
    // Below other refs nothing asks for that.
    origin.git(&["config", "receive.advertisePushOptions", "true"]);
    redeploy(&first, &[]).with(0);
    assert!(!pushes().contains("ci.skip"));
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    redeploy(&first, &[]).with(0);
    let all = pushes();
    let of_branch: Vec<&str> = all
        .lines()
        .filter(|line| line.starts_with(BRANCH))
        .collect();
    assert!(of_branch.len() >= 3, "{all}");
    let skipping = format!("{BRANCH} 1 ci.skip");
    assert!(of_branch.iter().all(|line| *line == skipping), "{all}");
    let messages = origin.git(&["log", "-3", "--format=%B", BRANCH]);
    assert_eq!(messages.matches("[skip ci]").count(), 3, "{messages}");

    // A remote that takes no options is pushed to all the same.
    origin.git(&["config", "receive.advertisePushOptions", "false"]);
    redeploy(&first, &[]).with(0);
    let all = pushes();
    assert!(all.contains(&format!("{BRANCH} 0")), "{all}");
    assert_eq!(runs(&first).len(), 4);
    let messages = origin.git(&["log", "--first-parent", "-1", "--format=%B", OWN]);
    assert!(!messages.contains("[skip ci]"), "{messages}");
}

#[test]
fn the_branch_is_named_by_the_protected_revision_and_not_by_the_change_under_review() {
    let (first, origin) = applied();
    let policy =
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {state_branch: BRANCHES}\n";
    let name_branches = |name: &str| {
        let text = policy.replace("BRANCHES", name);
        first.checkout.write("policy.yaml", text);
        first.checkout.commit("Name the branches of records");
    };
    let protected = ["--backends-from", "origin/main"];
    let with = |words: &[&str]| first.run(&[words, &protected].concat());
    name_branches("trueup");
    // Here it is a change like any other.
    let unfollowed =
        "`state_branch: trueup` of the Policy counts at the revision of `--backends-from`";
    first.run(&["plan"]).with(0).saying(unfollowed);
    let planned = with(&["plan"]).with(0);
    assert!(!planned.stderr.contains("state_branch"), "{planned:?}");
    with(&["migrate"]).with(1).saying("no branch is named");
    assert_eq!(content(&origin, BRANCH), "nothing");

    first.checkout.git(&["push", "--quiet", "origin", "main"]);
    with(&["plan"])
        .with(1)
        .saying("`trueup migrate` moves them");
    with(&["migrate"]).with(0);
    with(&["plan"]).with(0);
    assert_eq!(content(&origin, BRANCH), "records");
    // Without the revision nothing names it.
    first
        .run(&["plan"])
        .with(1)
        .saying("have moved to `refs/heads/trueup/edge/state`");

    // A change that names other branches is not followed before it is merged.
    name_branches("elsewhere");
    with(&["plan"]).with(0);
    assert_eq!(runs(&first_with(&first)).len(), 1);
    for wrong in ["refs/heads/trueup", "a b", "-x", "a..b"] {
        let set = ["config", "trueup.stateBranch", wrong];
        first.checkout.git(&set);
        first
            .run(&["log"])
            .with(1)
            .saying("`trueup.stateBranch` is the beginning of a branch");
    }
}

/// The same clone, with the branch in its configuration.
fn first_with(fixture: &Fixture) -> Fixture {
    let copy = Fixture::of(
        Checkout::clone_of(
            &format!("file://{}", fixture.checkout.path().display()),
            &[],
        ),
        fixture.site(),
    );
    let url = fixture.checkout.git(&["remote", "get-url", "origin"]);
    copy.checkout.git(&["remote", "set-url", "origin", &url]);
    look_in_branch(&copy);
    copy
}

#[test]
fn there_is_nothing_to_move_without_a_branch_or_a_remote() {
    let (first, _origin) = applied();
    first
        .run(&["migrate"])
        .with(1)
        .saying("no branch is named for the records of site `edge`")
        .saying("git config trueup.stateBranch trueup");
    look_in_branch(&first);
    for flag in ["--offline", "--no-push"] {
        first
            .run(&["migrate", flag])
            .with(1)
            .saying("shares no records with a remote");
    }
    first.checkout.git(&["remote", "remove", "origin"]);
    let gone = "shared through the remote `origin`, which this clone does not have any more";
    for command in ["apply", "plan", "migrate"] {
        first.run(&[command]).with(64).saying(gone);
    }
    first.run(&["status", "--offline"]).with(0);
    let alone = ["config", "trueup.withoutRemote", "true"];
    first.checkout.git(&alone);
    first.run(&["migrate"]).with(1).saying("it needs a remote");
    // A clone alone has its records if they always are.
    redeploy(&first, &[]).with(0);
    assert_eq!(runs(&first).len(), 2);
}

#[test]
fn a_clone_knows_the_remote_that_it_had_however_its_records_came_there() {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    // What was recorded before there was a remote is published by the next command.
    let (fixture, _origin) = shared(fixture);
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.checkout.git(&["remote", "remove", "origin"]);
    let gone = "which this clone does not have any more";
    redeploy(&fixture, &[]).with(64).saying(gone);
    fixture.run(&["plan", "--offline"]).with(0);
}

#[test]
fn a_site_whose_first_run_writes_to_the_branch_is_not_taken_for_a_new_one() {
    let (first, origin) = applied();
    for name in [OWN, "refs/tags/site-action-success/edge"] {
        let refs = origin.git(&["for-each-ref", "--format=%(refname)", name]);
        for name in refs.lines() {
            origin.git(&["update-ref", "-d", name]);
        }
    }
    let second = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "edge");
    look_in_branch(&second);
    second
        .run(&["migrate"])
        .with(0)
        .saying("has no records yet; its first run puts them at");
    let checks = |fixture: &Fixture, code| fixture.run(&["doctor"]).with(code).stdout;
    let none = "none yet; they come to `refs/heads/trueup/edge/state`";
    assert!(checks(&second, 0).contains(none));
    second.run(&["apply", "--yes"]).with(0);
    assert_eq!(content(&origin, BRANCH), "records");
    assert_eq!(content(&origin, OWN), BRANCH);
    let third = clone(&second, &origin);
    third.run(&["plan"]).with(1).saying("have moved to");
    // The cause is told once, also in a clone that has the marker, and takes nothing there for unpublished.
    second
        .checkout
        .git(&["config", "--unset", "trueup.stateBranch"]);
    for fixture in [&second, &third] {
        let told = checks(fixture, 1);
        let moved = told.matches("have moved to `refs/heads/trueup/edge/state`");
        assert_eq!(moved.count(), 1, "{told}");
        assert!(told.contains("skip  backends"), "{told}");
        assert!(!told.contains("ended in this clone"), "{told}");
    }
    look_in_branch(&second);
    look_in_branch(&third);
    third.run(&["plan", "--detailed-exitcode"]).with(0);
    let there = "at `refs/heads/trueup/edge/state` of the remote";
    assert!(checks(&third, 0).contains(there));
    assert_eq!(runs(&third), runs(&second));
    drop(first);
}
