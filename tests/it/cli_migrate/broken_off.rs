//! Moves that were killed, refused in the middle, or begun twice, with clones that continue meanwhile.

use std::process::Command;

use super::*;
use crate::amount::every;

/// So many of the calls of git in a move are tried, unless all are, of about so many.
const CALLS_TRIED: usize = 8;
const CALLS: usize = 24;

/// Ends the program that called git.
const KILL: &str = "kill -9 $PPID; exit 1";
/// Lets git fail, whatever it has done.
const FAIL: &str = "echo the remote end hung up >&2; exit 128";

/// Puts a `git` before the real one that does something else after a call.
fn broken_git(fixture: &Fixture, call: usize, does: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = fixture.checkout.outside().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = std::env::var("PATH").unwrap();
    let count = folder.join("calls");
    let _ = std::fs::remove_file(&count);
    let script = format!(
        "#!/bin/sh\nPATH='{path}'\necho >> '{count}'\nthis=$(wc -l < '{count}')\n\
         if [ $this = {call} ]; then git \"$@\"; {does}; fi\nexec git \"$@\"\n",
        count = count.display(),
    );
    let program = folder.join("git");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", folder.display())
}

/// A copy of a clone and of its remote.
fn copied(fixture: &Fixture, origin: &Origin) -> (Fixture, Origin) {
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp")
            .arg("-a")
            .arg(from.join("."))
            .arg(to)
            .status();
        assert!(copied.unwrap().success());
    };
    let (there, here) = (Origin::new(), Checkout::new());
    copy(origin.path(), there.path());
    copy(fixture.checkout.path(), here.path());
    here.git(&["remote", "set-url", "origin", &there.url()]);
    (Fixture::of(here, fixture.site()), there)
}

/// Kills a move at each call of git, lets a clone that is not told continue, and moves again.
fn killed_everywhere(direction: &[&str], is_atomic: bool) {
    let (before, remote) = applied();
    remote.git(&["config", "receive.advertiseAtomic", &is_atomic.to_string()]);
    look_in_branch(&before);
    let is_back = direction.len() > 1;
    if is_back {
        before.run(&["migrate"]).with(0);
    }
    let (mut killed, mut went_on) = (0, 0);
    let every = every(CALLS_TRIED, CALLS);
    for call in (1..).step_by(every) {
        let (first, origin) = copied(&before, &remote);
        let path = broken_git(&first, call, KILL);
        let ended: Ended = first
            .command(direction)
            .env("PATH", path)
            .output()
            .unwrap()
            .into();
        if ended.code == 0 {
            break;
        }
        killed += 1;
        // A clone that looks if the records were: it continues them, or is refused.
        let old = clone(&first, &origin);
        if is_back {
            look_in_branch(&old);
        }
        let meanwhile = redeploy(&old, &[]);
        let more = usize::from(meanwhile.code == 0);
        went_on += more;
        if more == 0 {
            assert!(
                meanwhile.code == 1 && meanwhile.stderr.contains("moved"),
                "{call}: {meanwhile:?}"
            );
        }
        same_machines(&old, &first);
        complete(&first, direction);
        if is_back {
            first
                .checkout
                .git(&["config", "--unset", "trueup.stateBranch"]);
        }
        let (from, to) = if is_back {
            (BRANCH, OWN)
        } else {
            (OWN, BRANCH)
        };
        assert_eq!(content(&origin, to), "records", "{call}");
        assert_eq!(content(&origin, from), to, "{call}");
        assert_eq!(runs(&first).len(), 1 + more, "{call}");
        redeploy(&first, &[]).with(0);
        assert_eq!(runs(&first).len(), 2 + more, "{call}");
    }
    assert!(
        killed * every >= 6 && went_on * every >= 2,
        "{killed} {went_on}"
    );
}

/// Moves again, and takes what an older clone has written meanwhile if the branch has records already.
fn complete(fixture: &Fixture, direction: &[&str]) {
    let again = fixture.run(direction);
    let text = again.stderr.clone();
    let Some((_, rest)) = text.split_once("migrate --take ") else {
        again.with(0);
        return;
    };
    again
        .with(1)
        .saying("has records that `refs/heads/trueup/edge/state` does not have: run 01")
        .saying("every account that may push `refs/trueup/edge/state` can have written them");
    let commit = &rest[..40];
    let another = fixture.checkout.git(&["rev-parse", "HEAD"]);
    fixture.run(&["migrate", "--take", &another]).with(1);
    fixture.run(&["migrate", "--take", commit]).with(0);
}

#[test]
fn a_move_that_is_killed_anywhere_is_completed() {
    killed_everywhere(&["migrate"], true);
}

#[test]
fn a_move_of_one_ref_at_a_time_that_is_killed_anywhere_is_completed() {
    killed_everywhere(&["migrate"], false);
}

#[test]
fn a_move_back_of_one_ref_at_a_time_that_is_killed_anywhere_is_completed() {
    killed_everywhere(&["migrate", "--back"], false);
}

#[test]
fn where_the_last_push_is_refused_the_old_place_counts_until_the_move_is_completed() {
    for is_atomic in [true, false] {
        let (first, origin) = applied();
        let old = clone(&first, &origin);
        origin.git(&["config", "receive.advertiseAtomic", &is_atomic.to_string()]);
        let refusing = format!("case \"$1\" in {OWN}) echo protected >&2; exit 1;; esac\n");
        hook(&origin, "update", &refusing);
        look_in_branch(&first);
        first.run(&["migrate"]).with(1).saying("protected");
        let half = if is_atomic { "nothing" } else { "records" };
        assert_eq!(content(&origin, BRANCH), half);
        assert_eq!(content(&origin, OWN), "records");
        std::fs::remove_file(origin.path().join("hooks/update")).unwrap();
        redeploy(&first, &[])
            .with(1)
            .saying("`trueup migrate` moves them");
        redeploy(&old, &[]).with(0);
        same_machines(&old, &first);
        complete(&first, &["migrate"]);
        assert_eq!(content(&origin, OWN), BRANCH);
        redeploy(&first, &[]).with(0);
        assert_eq!(runs(&first).len(), 3);
        old.run(&["plan"]).with(1).saying("have moved to");
    }
}

#[test]
fn a_move_whose_first_push_is_refused_changes_nothing() {
    let (first, origin) = applied();
    let refusing = "case \"$1\" in refs/heads/trueup/*) echo protected >&2; exit 1;; esac\n";
    hook(&origin, "update", refusing);
    for is_atomic in ["true", "false"] {
        origin.git(&["config", "receive.advertiseAtomic", is_atomic]);
        look_in_branch(&first);
        first.run(&["migrate"]).with(1).saying("protected");
        assert_eq!(content(&origin, BRANCH), "nothing");
        first
            .checkout
            .git(&["config", "--unset", "trueup.stateBranch"]);
        redeploy(&first, &[]).with(0);
    }
    assert_eq!(runs(&first).len(), 3);
}

#[test]
fn two_moves_at_once_end_as_one() {
    let (first, origin) = applied();
    let second = clone(&first, &origin);
    for clone in [&first, &second] {
        look_in_branch(clone);
    }
    let both = [first.start(&["migrate"]), second.start(&["migrate"])];
    for one in both {
        let ended: Ended = one.wait_with_output().unwrap().into();
        assert!(matches!(ended.code, 0 | 6), "{ended:?}");
    }
    assert_eq!(content(&origin, BRANCH), "records");
    assert_eq!(content(&origin, OWN), BRANCH);
    let moves = origin.git(&["log", "--format=%s", BRANCH]);
    assert_eq!(moves.matches("records moved to").count(), 1, "{moves}");
    assert_eq!(runs(&first), runs(&second));
}

#[test]
fn records_that_both_places_have_are_for_a_person_to_decide() {
    let (first, origin) = applied();
    let second = clone(&first, &origin);
    let old = origin.git(&["rev-parse", OWN]);
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    redeploy(&first, &[]).with(0);
    // Somebody gives the old place its records back, and a clone continues them.
    origin.git(&["update-ref", OWN, &old]);
    redeploy(&second, &[]).with(0);
    let refs = || origin.git(&["for-each-ref", OWN, BRANCH]);
    let were = refs();
    for words in [&["migrate"][..], &["migrate", "--back"]] {
        first
            .run(words)
            .with(1)
            .saying("have different records of site `edge`");
    }
    redeploy(&first, &[]).with(1);
    assert_eq!(refs(), were);
}

#[test]
fn what_is_written_below_other_refs_does_not_come_into_the_branch_unasked() {
    let (first, origin) = applied();
    let mallory = clone(&first, &origin);
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    redeploy(&first, &[]).with(0);
    let before = origin.git(&["rev-parse", BRANCH]);
    // An account that may not push the branch puts records on top of it elsewhere.
    let fetch = format!("+{BRANCH}:{OWN}");
    mallory
        .checkout
        .git(&["fetch", "--quiet", "origin", &fetch]);
    mallory
        .checkout
        .git(&["remote", "rename", "origin", "there"]);
    let url = mallory.checkout.git(&["remote", "get-url", "there"]);
    mallory.checkout.git(&["remote", "remove", "there"]);
    let alone = ["config", "trueup.withoutRemote", "true"];
    mallory.checkout.git(&alone);
    redeploy(&mallory, &[]).with(0);
    let push = format!("+{OWN}:{OWN}");
    mallory.checkout.git(&["push", "--quiet", &url, &push]);

    redeploy(&first, &[]).with(1);
    first
        .run(&["migrate"])
        .with(1)
        .saying("that `refs/heads/trueup/edge/state` does not have: run 01")
        .saying("can have written them");
    assert_eq!(origin.git(&["rev-parse", BRANCH]), before);
    assert_eq!(origin.git(&["for-each-ref", "refs/trueup/edge/lock"]), "");
}

#[test]
fn the_lock_of_a_move_that_was_killed_is_released_where_the_records_are_not_found() {
    let (first, origin) = applied();
    look_in_branch(&first);
    let lock = "refs/trueup/edge/lock";
    for call in 1.. {
        let path = broken_git(&first, call, KILL);
        let killed = first.command(&["migrate"]).env("PATH", path).output();
        assert!(!killed.unwrap().status.success());
        if !origin.git(&["for-each-ref", lock]).is_empty() {
            break;
        }
    }
    first.run(&["log"]).with(1).saying("not moved");
    let holder = origin.git(&["show", &format!("{lock}:holder.json")]);
    let holder: serde_json::Value = serde_json::from_str(&holder).unwrap();
    let run = holder["run"].as_str().unwrap();
    first.run(&["unlock", "7ZZ"]).with(6);
    first.run(&["unlock", &run[..12]]).with(0);
    assert_eq!(origin.git(&["for-each-ref", lock]), "");
    first.run(&["migrate"]).with(0);
    assert_eq!(content(&origin, BRANCH), "records");
}

#[test]
fn an_answer_of_the_remote_that_is_lost_is_asked_for_again() {
    let (before, remote) = applied();
    look_in_branch(&before);
    let mut lost = 0;
    let every = every(CALLS_TRIED, CALLS);
    for call in (1..).step_by(every) {
        let (first, origin) = copied(&before, &remote);
        let path = broken_git(&first, call, FAIL);
        let mut migrate = first.command(&["migrate"]);
        let ended: Ended = migrate.env("PATH", path).output().unwrap().into();
        assert!(matches!(ended.code, 0 | 1), "{call}: {ended:?}");
        let calls = first.checkout.outside().join("bin/calls");
        let is_over = std::fs::read_to_string(calls).unwrap().len() < call;
        lost += usize::from(ended.code != 0);
        first.run(&["migrate"]).with(0);
        assert_eq!(content(&origin, BRANCH), "records", "{call}");
        assert_eq!(content(&origin, OWN), BRANCH, "{call}");
        assert_eq!(origin.git(&["for-each-ref", "refs/trueup/edge/lock"]), "");
        assert_eq!(runs(&another_clone(&first)).len(), 1);
        if is_over {
            break;
        }
    }
    assert!(lost * every >= 3, "{lost}");
}

/// Another clone that looks in the branch.
fn another_clone(fixture: &Fixture) -> Fixture {
    let url = fixture.checkout.git(&["remote", "get-url", "origin"]);
    let clone = Fixture::of(Checkout::clone_of(&url, &[]), fixture.site());
    look_in_branch(&clone);
    clone
}

#[test]
fn where_the_branch_refuses_the_marker_of_a_move_back_the_move_is_completed_with_what_was_recorded_since()
 {
    let (first, origin) = applied();
    look_in_branch(&first);
    first.run(&["migrate"]).with(0);
    origin.git(&["config", "receive.advertiseAtomic", "false"]);
    let refusing = format!("case \"$1\" in {BRANCH}) echo protected >&2; exit 1;; esac\n");
    hook(&origin, "update", &refusing);
    first
        .run(&["migrate", "--back"])
        .with(1)
        .saying("protected");
    assert_eq!(content(&origin, BRANCH), "records");
    assert_eq!(content(&origin, OWN), "records");
    redeploy(&first, &[]).with(1);
    let other = clone(&first, &origin);
    redeploy(&other, &[]).with(0);
    std::fs::remove_file(origin.path().join("hooks/update")).unwrap();
    first.run(&["migrate", "--back"]).with(0);
    assert_eq!(content(&origin, BRANCH), OWN);
    assert_eq!(content(&origin, OWN), "records");
    first
        .checkout
        .git(&["config", "--unset", "trueup.stateBranch"]);
    assert_eq!(runs(&first), runs(&other));
    assert_eq!(runs(&first).len(), 2);
}
