//! Clones that look for the records where they are not, and what they have that the remote does not.

use super::*;
use crate::cli_interrupted::{everything_happened_once, in_real_time, wait_for_effect};

#[test]
fn a_clone_that_is_not_told_of_the_branch_begins_no_second_history() {
    let (first, origin) = applied();
    let old = clone(&first, &origin);
    let new = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "edge");
    assert_eq!(runs(&old).len(), 1);
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    for clone in [&old, &new] {
        let before = clone.checkout.git(&["for-each-ref", "refs/trueup"]);
        for words in [
            &["plan"][..],
            &["log"],
            &["status"],
            &["apply", "--yes"],
            &["apply", "--resume"],
            &["migrate"],
        ] {
            let ended = clone.run(words).with(1);
            if words != ["migrate"] {
                ended
                    .saying("have moved to `refs/heads/trueup/edge/state`")
                    .saying("git config trueup.stateBranch trueup");
            }
        }
        assert_eq!(clone.checkout.git(&["for-each-ref", "refs/trueup"]), before);
    }
    assert_eq!(content(&origin, OWN), BRANCH);
    assert_eq!(origin.git(&["for-each-ref", "refs/trueup/edge/lock"]), "");
    for clone in [&old, &new] {
        look_in_branch(clone);
        assert_eq!(runs(clone), runs(&first));
    }
}

#[test]
fn records_that_an_older_clone_had_not_published_are_not_lost() {
    let (first, origin) = applied();
    let old = clone(&first, &origin);
    redeploy(&old, &["--no-push"]).with(0);
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    look_in_branch(&old);
    let log = old.run(&["log"]).with(0);
    assert!(!log.stderr.contains("count no more"), "{log:?}");
    let both = runs(&old);
    assert_eq!(both.len(), 2);
    redeploy(&old, &[]).with(0);
    let all = runs(&first);
    assert!(all.len() == 3 && both.iter().all(|run| all.contains(run)));
    old.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_run_that_was_interrupted_moves_with_its_records_and_is_resumed_from_the_branch() {
    for elsewhere in [false, true] {
        let (first, origin) = shared(in_real_time("[]"));
        let mut run = first.start(&["apply", "--yes"]);
        wait_for_effect(&first, "control01 prepared");
        let other = clone(&first, &origin);
        look_in_branch(&other);
        // While it is at work, nothing moves.
        other.run(&["migrate"]).with(6).saying("is held by Ada");
        run.kill().unwrap();
        run.wait().unwrap();
        other.run(&["migrate"]).with(0);
        same_machines(&first, &other);
        look_in_branch(&first);
        let resumed = if elsewhere { &other } else { &first };
        resumed.run(&["apply", "--resume"]).with(0);
        everything_happened_once(resumed);
        assert_eq!(runs(&first), runs(&other));
        assert_eq!(runs(&first).len(), 1);
        resumed.run(&["plan", "--detailed-exitcode"]).with(0);
    }
}

#[test]
fn a_tag_that_is_owed_is_still_owed_after_the_move() {
    let (first, origin) = applied();
    let refusing = "case \"$1\" in refs/tags/*) echo protected >&2; exit 1;; esac\n";
    hook(&origin, "update", refusing);
    first.edit("nodes.yaml", "edge-1", "edge-9");
    first.checkout.commit("Another machine");
    let allowed = ["--allow-destroy", "all"];
    let apply = [&["apply", "--yes"][..], &allowed].concat();
    first.run(&apply).with(9).saying("refuses its tag");
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    first.run(&["log"]).with(0).saying("is not published");
    assert_eq!(content(&origin, OWN), BRANCH);
    std::fs::remove_file(origin.path().join("hooks/update")).unwrap();
    first.run(&apply).with(0);
    let log = first.run(&["log"]).with(0);
    assert!(!log.stderr.contains("is not published"), "{log:?}");
    let tags = origin.git(&["for-each-ref", "refs/tags/site-action-success"]);
    assert_eq!(tags.lines().count(), 2, "{tags}");
}

#[test]
fn a_run_whose_end_was_not_published_is_published_before_its_records_move() {
    let (first, origin) = applied();
    let refusing = "case \"$1\" in refs/trueup/edge/state) test ! -e refuse || exit 1;; esac\n";
    hook(&origin, "update", refusing);
    // From the moment on at which its first records are there.
    hook(
        &origin,
        "post-receive",
        "while read old new name; do case $name in */edge/state) touch refuse;; esac; done\n",
    );
    redeploy(&first, &[]).with(9);
    look_in_branch(&first);
    first
        .run(&["migrate"])
        .with(9)
        .saying("its records could not be published");
    for hook in ["update", "post-receive"] {
        std::fs::remove_file(origin.path().join("hooks").join(hook)).unwrap();
    }
    first.run(&["migrate"]).with(0);
    assert_eq!(runs(&first).len(), 2);
    let log = first.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(log["runs"][0]["outcome"], "succeeded");
    let second = clone(&first, &origin);
    look_in_branch(&second);
    assert_eq!(runs(&second), runs(&first));
}

#[test]
fn a_branch_that_was_deleted_is_not_taken_for_a_site_without_records() {
    let (first, origin) = applied();
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    redeploy(&first, &[]).with(0);
    let known = runs(&first);
    origin.git(&["update-ref", "-d", BRANCH]);
    let second = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "edge");
    look_in_branch(&second);
    for words in [
        &["plan"][..],
        &["apply", "--yes"],
        &["migrate"],
        &["migrate", "--back"],
    ] {
        for clone in [&first, &second] {
            clone
                .run(words)
                .with(1)
                .saying("which the remote does not have")
                .saying("git push REMOTE refs/trueup/edge/state:refs/heads/trueup/edge/state");
        }
    }
    let spec = format!("{OWN}:{BRANCH}");
    first.checkout.git(&["push", "--quiet", "origin", &spec]);
    assert_eq!(runs(&second), known);

    // Without the marker a clone that is not told would begin anew: the others stop until it is there again.
    origin.git(&["update-ref", "-d", OWN]);
    second
        .run(&["plan"])
        .with(1)
        .saying("does not refer to them");
    second.run(&["migrate"]).with(0);
    assert_eq!(content(&origin, OWN), BRANCH);
    second.run(&["plan"]).with(0);
    first.run(&["migrate", "--back"]).with(0);
    first
        .checkout
        .git(&["config", "--unset", "trueup.stateBranch"]);
    assert_eq!(runs(&first), known);
}

#[test]
fn a_marker_that_a_fetch_of_all_refs_brought_is_no_record() {
    let (first, origin) = applied();
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    let fetch = ["fetch", "--quiet", "origin", "+refs/trueup/*:refs/trueup/*"];
    first.checkout.git(&fetch);
    for words in [
        &["plan", "--offline"][..],
        &["show"],
        &["nodes", "--phase", "deployed"],
    ] {
        let ended = first.run(words);
        assert!(
            ended.code != 0 && !ended.stderr.contains("panicked"),
            "{ended:?}"
        );
    }
    first.run(&["plan", "--detailed-exitcode"]).with(0);
    assert_eq!(runs(&first).len(), 1);
    // As a pipeline without credentials gets them.
    let branch = "+refs/heads/trueup/*:refs/trueup/*";
    first.checkout.git(&fetch);
    first.checkout.git(&["fetch", "--quiet", "origin", branch]);
    first
        .run(&["plan", "--offline", "--detailed-exitcode"])
        .with(0);
    drop(origin);
}

/// A commit with a `site.json` at a ref of the remote.
fn plant(origin: &Origin, name: &str, text: &str) {
    let scratch = Checkout::new();
    scratch.write("site.json", text);
    scratch.commit("Not by trueup");
    let refspec = format!("+HEAD:{name}");
    origin.git(&["config", "receive.denyNonFastForwards", "false"]);
    scratch.git(&["push", "--quiet", &origin.url(), &refspec]);
}

#[test]
fn a_marker_decides_nothing_by_itself() {
    let (first, origin) = applied();
    let marker = |to: &str| format!("{{\"format_version\": 2, \"moved_to\": \"{to}\"}}");
    let told = |words: &[&str]| first.run(words).with(1).stderr;
    // Commands in the name of a branch get into no command that is proposed.
    for to in [
        "refs/heads/x;reboot/edge/state",
        "refs/heads/$(reboot)/edge/state",
        "refs/heads/-x/edge/state",
        "refs/heads/evil/state",
    ] {
        plant(&origin, OWN, &marker(to));
        let text = told(&["plan"]);
        assert!(text.contains("a person decides"), "{text}");
        assert!(!text.contains("git config"), "{text}");
    }
    for broken in [
        marker("/etc/passwd"),
        marker(""),
        marker("HEAD"),
        "[]".to_owned(),
        "{\"moved_to\": 3}".to_owned(),
    ] {
        plant(&origin, OWN, &broken);
        assert!(told(&["plan"]).contains("is broken"), "{broken}");
    }
    // One that names another branch than the clone looks in is not followed, whatever is there.
    let evil = "refs/heads/evil/edge/state";
    let records = "refs/trueup/edge/state";
    let theirs = format!("{records}:{evil}");
    first.checkout.git(&["push", "--quiet", "origin", &theirs]);
    plant(&origin, OWN, &marker(evil));
    look_in_branch(&first);
    for words in [&["plan"][..], &["apply", "--yes"], &["migrate"]] {
        assert!(told(words).contains("have moved to `refs/heads/evil/edge/state`"));
    }
    assert_eq!(content(&origin, BRANCH), "nothing");
    // Two that name each other.
    plant(&origin, OWN, &marker(BRANCH));
    plant(&origin, BRANCH, &marker(OWN));
    for words in [&["plan"][..], &["migrate"], &["migrate", "--back"]] {
        told(words);
    }
}

#[test]
fn a_remote_that_went_back_is_noticed_by_the_tags_of_its_runs() {
    let (fixture, origin) = applied();
    let before = origin.git(&["rev-parse", OWN]);
    fixture.edit("profiles.yaml", "role: worker}", "role: other}");
    fixture.commit_and_apply("Relabel", &[]).with(0);
    let newest = runs(&fixture).pop().unwrap();
    let fresh = || clone(&fixture, &origin);
    fresh().run(&["plan"]).with(0);
    // The run was at work there, and its tag tells that it has ended.
    let middle = origin.git(&["rev-parse", &format!("{OWN}~1")]);
    for lost in [
        &["update-ref", OWN, &before][..],
        &["update-ref", OWN, &middle],
        &["update-ref", "-d", OWN],
    ] {
        let now = origin.git(&["rev-parse", OWN]);
        origin.git(lost);
        let other = fresh();
        for command in [&["plan"][..], &["apply", "--yes"], &["log"]] {
            let refused = other.run(command);
            assert_ne!(refused.code, 0, "{command:?}: {refused:?}");
            assert!(refused.stderr.contains("went back"), "{refused:?}");
            assert!(refused.stderr.contains(&newest), "{refused:?}");
        }
        // A clone that has them needs no other way out than its next run.
        fixture.run(&["plan"]).with(0);
        let accept = ["config", "trueup.acceptOlderState", &newest];
        other.checkout.git(&accept);
        let accepted = other.run(&["plan"]);
        assert!(!accepted.stderr.contains("went back"), "{accepted:?}");
        origin.git(&["update-ref", OWN, &now]);
    }
}
