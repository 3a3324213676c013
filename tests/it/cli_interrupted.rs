//! Runs that are in each other's way, that are killed or asked to stop, and that go on elsewhere.

use std::process::Child;
use std::time::Duration;

use super::fixture::{Ended, Fixture, signal, wait_until};
use super::git::{Checkout, Origin};

/// The example site with machines that take as long as they take: a site in three seconds or so.
pub(crate) fn in_real_time(faults: &str) -> Fixture {
    let fixture = Fixture::one_rack();
    real_time(&fixture, faults);
    fixture.checkout.git(&["add", "--all"]);
    fixture
        .checkout
        .git(&["commit", "--quiet", "--amend", "-m", "In real time"]);
    fixture
}

fn real_time(fixture: &Fixture, faults: &str) {
    fixture.simulator(&format!(
        "{{clock: real, durations: {{prepare: 0.3, deploy: 0.3, destroy: 0.3, relabel: 1, power: 1}}, faults: {faults}}}"
    ));
}

fn wait(child: Child) -> Ended {
    child.wait_with_output().unwrap().into()
}

/// Waits until something has happened to a node.
#[track_caller]
pub(crate) fn wait_for_effect(fixture: &Fixture, effect: &str) {
    wait_until(&format!("`{effect}` does not happen"), || {
        fixture.simulated_site().exists() && fixture.ledger().contains_key(effect)
    });
}

/// The journals of the runs of a site.
fn journals(fixture: &Fixture) -> String {
    let folder = fixture.checkout.path().join(".git/trueup/one-rack");
    let runs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let journals = runs.map(|run| std::fs::read(run.path().join("journal")).unwrap_or_default());
    journals
        .map(|journal| String::from_utf8_lossy(&journal).into_owned())
        .collect()
}

#[track_caller]
pub(crate) fn everything_happened_once(fixture: &Fixture) {
    let ledger = fixture.ledger();
    for (what, times) in &ledger {
        assert_eq!(*times, 1, "{what}: {ledger:?}");
    }
    assert_eq!(fixture.effects("prepared"), 13);
    assert_eq!(fixture.effects("deployed"), 13);
}

#[test]
fn a_second_run_is_told_who_holds_the_lock() {
    let fixture = in_real_time("[{nodes: [control02], step: deploy, outcome: hang}]");
    let mut first = fixture.start(&["apply", "--yes"]);
    for node in ["control01", "control03"] {
        wait_for_effect(&fixture, &format!("{node} deployed"));
    }
    let ledger = fixture.ledger();
    fixture
        .run(&["apply", "--yes"])
        .with(6)
        .saying("held by Ada")
        .saying("trueup unlock");
    fixture.run(&["apply", "--resume"]).with(6);
    // A plan disturbs nobody, and nobody disturbs a plan.
    fixture.run(&["plan"]).with(0);
    assert_eq!(fixture.ledger(), ledger);
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_killed_run_is_found_and_resumed() {
    let fixture = in_real_time("[]");
    let mut run = fixture.start(&["apply", "--yes"]);
    wait_for_effect(&fixture, "control01 prepared");
    let log = || fixture.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(log()["runs"][0]["outcome"], "running");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(log()["runs"][0]["outcome"], "interrupted");
    fixture
        .run(&["apply", "--yes"])
        .with(8)
        .saying("was interrupted")
        .saying("trueup apply --resume");
    assert!(fixture.tags().is_empty());
    fixture.run(&["apply", "--resume"]).with(0);
    everything_happened_once(&fixture);
    assert_eq!(fixture.tags(), ["success"]);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    fixture
        .run(&["apply", "--resume"])
        .with(1)
        .saying("no run of site `one-rack` was interrupted");
}

#[test]
fn a_run_that_is_killed_over_and_over_does_nothing_twice() {
    let fixture = in_real_time("[]");
    let mut next = vec!["apply", "--yes"];
    let mut deaths = 0;
    // By what has happened, not by time: each life gets a little further than the one before.
    for (lines, more) in [2, 5, 1, 7, 3, 4, 9]
        .iter()
        .cycle()
        .zip([0, 7, 23, 61, 127].iter().cycle())
    {
        let entries = || {
            let text = std::fs::read(fixture.simulated_site()).unwrap_or_default();
            text.iter().filter(|byte| **byte == b'\n').count()
        };
        let before = entries();
        let mut run = fixture.start(&next);
        wait_until("the run neither goes on nor ends", || {
            run.try_wait().unwrap().is_some() || entries() >= before + lines
        });
        std::thread::sleep(Duration::from_millis(*more));
        if run.try_wait().unwrap().is_none() {
            run.kill().unwrap();
            deaths += 1;
        }
        let ended = wait(run);
        eprintln!("{next:?}: {ended:?}");
        match ended.code {
            0 => break,
            // Killed before it held the lock: there is nothing to go on with.
            1 if ended.stderr.contains("no run of site") => next = vec!["apply", "--yes"],
            -1 => next = vec!["apply", "--resume"],
            _ => panic!("{ended:?}"),
        }
        assert!(deaths < 60, "it does not come to an end");
    }
    assert!(deaths > 2, "it was hardly killed at all: {deaths}");
    everything_happened_once(&fixture);
    assert_eq!(fixture.tags(), ["success"]);
}

#[test]
fn a_killed_run_is_aborted_for_a_new_one() {
    // Its group does not end before it is killed, however slow the machine is that this runs on.
    let fixture = in_real_time("[{nodes: [control02], step: deploy, outcome: hang}]");
    let mut run = fixture.start(&["apply", "--yes"]);
    // The ends of both deploys are in the journal.
    wait_until("the others of its group are awaited", || {
        let journals = journals(&fixture);
        let is_awaited = |node| journals.contains(&format!("await-ready/control-nodes/{node}"));
        is_awaited("control01") && is_awaited("control03")
    });
    run.kill().unwrap();
    run.wait().unwrap();
    real_time(&fixture, "[]");
    fixture.checkout.commit("Let it not hang");
    // What it has deployed stays so: nothing has to be allowed, and no machine is built again.
    let superseded = fixture.run(&["apply", "--yes", "--supersede"]);
    let superseded = superseded.with(0).saying("is aborted");
    for node in ["control01", "control03"] {
        assert!(
            !superseded.stderr.contains(&format!("{node}: unknown")),
            "{superseded:?}"
        );
    }
    assert_eq!(fixture.tags(), ["failure", "success"]);
    assert_eq!(fixture.effects("deployed"), 13, "{:?}", fixture.ledger());
}

#[test]
fn a_lock_file_that_is_not_ours_is_respected_and_named() {
    let fixture = Fixture::one_rack();
    let lock = fixture
        .checkout
        .path()
        .join(".git/refs/trueup/one-rack/state.lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(&lock, "").unwrap();
    fixture
        .run(&["apply", "--yes"])
        .with(1)
        .saying("refs/trueup/one-rack/state.lock");
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    fixture.run(&["apply", "--yes"]).with(0);
}

#[test]
fn a_run_that_is_asked_to_stop_can_be_resumed() {
    for name in ["INT", "TERM"] {
        let fixture = in_real_time("[]");
        let run = fixture.start(&["apply", "--yes"]);
        wait_for_effect(&fixture, "control01 prepared");
        signal(&run, name);
        wait(run).with(8);
        assert!(fixture.tags().is_empty(), "{name}");
        let done = fixture.effects("deployed");
        assert!(done < 13, "{name}: it went on");
        fixture
            .run(&["apply", "--yes"])
            .with(8)
            .saying("trueup apply --resume");
        fixture.run(&["apply", "--resume"]).with(0);
        everything_happened_once(&fixture);
        assert_eq!(fixture.tags(), ["success"], "{name}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_what_hangs() {
    let fixture = in_real_time("[{nodes: [control02], step: deploy, outcome: hang}]");
    let run = fixture.start(&["apply", "--yes", "--stop-grace", "600"]);
    wait_for_effect(&fixture, "control01 deployed");
    signal(&run, "INT");
    std::thread::sleep(Duration::from_millis(300));
    signal(&run, "INT");
    let begun = std::time::Instant::now();
    wait(run).with(8);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_run_stops_by_itself_after_the_time_that_it_was_given() {
    let fixture = in_real_time("[]");
    fixture
        .run(&["apply", "--yes", "--stop-after", "1"])
        .with(8);
    assert!(fixture.effects("deployed") < 13);
    let resumed = fixture.run(&["apply", "--resume"]).with(0);
    assert!(!resumed.stderr.contains("at HEAD"), "{}", resumed.stderr);
    everything_happened_once(&fixture);
}

#[test]
fn who_resumes_a_run_is_told_that_head_has_left_its_revision() {
    let fixture = in_real_time("[]");
    fixture
        .run(&["apply", "--yes", "--stop-after", "1"])
        .with(8);
    let begun = fixture.checkout.git(&["rev-parse", "--short=12", "HEAD"]);
    fixture.edit("host-profiles.yaml", "ubuntu-24.04", "ubuntu-24.10");
    fixture.checkout.commit("Leave what was begun");
    let told = format!("differ from those of {}, which the run", begun.trim());
    fixture
        .run(&["apply", "--resume"])
        .with(0)
        .saying(&told)
        .saying("ends it without the steps that are left");
}

#[test]
fn what_an_aborted_run_left_under_way_ends_by_itself() {
    let fixture = in_real_time("[{nodes: [control02], step: deploy, outcome: late, seconds: 600}]");
    let run = fixture.start(&["apply", "--yes"]);
    wait_for_effect(&fixture, "control01 deployed");
    signal(&run, "INT");
    let report = wait(run).with(8).stdout;
    let line = |name: &str| {
        let line = report.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{report}")).to_owned()
    };
    assert!(line("control-nodes").contains("not ended"), "{report}");
    assert!(!report.contains("FAILED"), "{report}");
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    fixture
        .run(&["abort", runs["runs"][0]["run"].as_str().unwrap()])
        .with(0);
    let status = || {
        let all = fixture.run(&["status"]).with(0).stdout;
        let line = all.lines().find(|line| line.starts_with("control02 "));
        line.unwrap_or_else(|| panic!("{all}")).to_owned()
    };
    assert!(status().contains("deploying"), "{}", status());
    assert!(status().contains("active"), "{}", status());
    let left = fixture.planned(&["--adopt", "all"]);
    assert_ne!(left["control02"], "create", "{left:?}");
}

#[test]
fn an_abort_looks_at_the_machines_whose_deploys_had_begun() {
    let fixture = in_real_time("[{nodes: [control02], step: deploy, outcome: late, seconds: 3}]");
    let mut run = fixture.start(&["apply", "--yes"]);
    // In the machine's own record: the journal has the step before the machine is asked.
    wait_until("the machine takes the deploy", || {
        let machines = std::fs::read_to_string(fixture.simulated_site()).unwrap_or_default();
        machines.contains("deploy/control-nodes/control02")
    });
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the machine is installed", || {
        let all = fixture.run(&["status"]).with(0).stdout;
        let mut lines = all.lines();
        lines.any(|line| line.starts_with("control02 ") && line.contains("active"))
    });
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    let run = runs["runs"][0]["run"].as_str().unwrap();
    let aborted = fixture.run(&["abort", run]).with(0).stdout;
    assert!(
        aborted.contains("Found deployed, and recorded so:\n"),
        "{aborted}"
    );
    assert!(aborted.contains("  control02\n"), "{aborted}");
    // It is as designed, and no plan builds it again.
    let left = fixture.planned(&[]);
    let is_left = left
        .get("control02")
        .is_none_or(|kind| kind == "await-ready");
    assert!(is_left, "{left:?}");
}

/// A site in a clone whose branch follows an origin, and the origin.
pub(crate) fn shared(fixture: Fixture) -> (Fixture, Origin) {
    let origin = Origin::new();
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    git(&["remote", "add", "origin", &origin.url()]);
    git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    (fixture, origin)
}

/// Another clone, with the same simulated machines.
pub(crate) fn clone(of: &Fixture, origin: &Origin) -> Fixture {
    let clone = Fixture::of(Checkout::clone_of(&origin.url(), &[]), of.site());
    same_machines(of, &clone);
    clone
}

/// The machines as one clone left them, for another: the fixture does not come twice.
pub(crate) fn same_machines(from: &Fixture, to: &Fixture) {
    let target = to.simulated_site();
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(from.simulated_site(), target).unwrap();
}

#[test]
fn a_branch_that_tracks_a_fork_does_not_begin_the_site_anew_there() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    let second = clone(&first, &origin);
    let fork = Origin::new();
    for fixture in [&first, &second] {
        let git = |arguments: &[&str]| fixture.checkout.git(arguments);
        git(&["remote", "add", "fork", &fork.url()]);
        git(&["push", "--quiet", "--set-upstream", "fork", "main"]);
        for command in [&["plan"][..], &["apply", "--yes"], &["status"]] {
            fixture
                .run(command)
                .with(1)
                .saying(
                    "remote `fork` has no records of site `one-rack`, and remote `origin` has some",
                )
                .saying("`--remote origin`")
                .saying("`git push fork refs/trueup/one-rack/state:refs/trueup/one-rack/state`");
        }
        assert_eq!(fork.git(&["for-each-ref", "refs/trueup", "refs/tags"]), "");
        fixture.run(&["plan", "--remote", "origin"]).with(0);
    }
    // As the hint says, the site moves.
    second.run(&["log", "--remote", "origin"]).with(0);
    let state = "refs/trueup/one-rack/state:refs/trueup/one-rack/state";
    second.checkout.git(&["push", "--quiet", "fork", state]);
    for fixture in [&first, &second] {
        let plan = fixture.run(&["plan"]).with(0).stdout;
        assert!(plan.contains("No changes"), "{plan}");
    }
    // A remote that does not answer is passed over.
    let (third, _origin) = shared(Fixture::one_rack());
    third.checkout.git(&["remote", "add", "gone", "/nowhere"]);
    third.run(&["plan"]).with(0);
}

#[test]
fn the_revision_of_a_site_action_is_the_newest_that_the_remote_has() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    let second = clone(&first, &origin);
    let of_all = |clone: &Fixture| {
        let plan = [
            "plan",
            "--all-sites",
            "--rev",
            "successful-site-action",
            "--format",
            "json",
        ];
        let plans = clone.run(&plan).with(0).json();
        assert_eq!(plans["sites"][0]["state"], "no-changes", "{plans:#}");
    };
    of_all(&second);
    let planned = || {
        let plan = [
            "plan",
            "--rev",
            "successful-site-action",
            "--format",
            "json",
        ];
        let plan = second.run(&plan).with(0).json();
        plan["target"]["revision"].as_str().unwrap().to_owned()
    };
    assert_eq!(planned(), first.checkout.git(&["rev-parse", "HEAD"]));
    let tags = "{rack: rack01, tags: [monitoring]}";
    let more = "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}";
    first.edit("nodes/monitoring.yaml", tags, more);
    first.checkout.commit("A tier");
    first.checkout.git(&["push", "--quiet"]);
    first.run(&["apply", "--yes"]).with(0);
    same_machines(&first, &second);
    second.checkout.git(&["fetch", "--quiet"]);
    assert_eq!(planned(), first.checkout.git(&["rev-parse", "HEAD"]));
    let offline = ["plan", "--rev", "last-site-action", "--offline"];
    second.run(&offline).with(0);
}

#[test]
fn records_and_tags_travel_through_the_remote() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    let tags = origin.git(&["tag", "--list"]);
    assert_eq!(tags, first.tag_names()[0]);
    let refs = origin.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/trueup/one-rack/state"), "{refs}");
    assert!(!refs.contains("lock"), "the lock is left: {refs}");

    // A fresh clone has neither records nor tags, and plans with them all the same.
    let second = clone(&first, &origin);
    second.run(&["plan", "--detailed-exitcode"]).with(0);
    second.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
    let planned = second.planned(&[]);
    assert_eq!(planned.len(), 1);
    assert_eq!(planned["monitor01"], "relabel");
    second.commit_and_apply("Gold", &[]).with(0);
    second.checkout.git(&["push", "--quiet"]);

    same_machines(&second, &first);
    first.checkout.git(&["pull", "--quiet", "--ff-only"]);
    first.run(&["plan", "--detailed-exitcode"]).with(0);
    first
        .run(&["apply", "--yes"])
        .with(0)
        .saying("Nothing to do");
    let runs = first.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_shallow_clone_plans_and_applies() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    first.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
    first.checkout.commit("Gold");
    first.checkout.git(&["push", "--quiet"]);
    let second = Fixture::of(
        Checkout::clone_of(&origin.url(), &["--depth=1"]),
        "one-rack",
    );
    same_machines(&first, &second);
    let planned = second.planned(&[]);
    assert_eq!(planned.len(), 1, "{planned:?}");
    assert_eq!(planned["monitor01"], "relabel");
    second.run(&["apply", "--yes"]).with(0);
}

#[test]
fn a_commit_on_top_of_a_shallow_clone_is_planned_and_what_is_before_it_is_told() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    let second = Fixture::of(
        Checkout::clone_of(&origin.url(), &["--depth=1"]),
        "one-rack",
    );
    same_machines(&first, &second);
    second.checkout.write("note.txt", "nothing of the site");
    second.checkout.commit("A note");
    let planned = second.planned(&[]);
    assert_eq!(planned.len(), 0, "{planned:?}");
    second
        .run(&["diff", "0123456789abcdef0123456789abcdef01234567", "HEAD"])
        .with(1)
        .saying("`git fetch --unshallow`");
}

#[test]
fn the_lock_holds_across_clones() {
    let (first, origin) = shared(in_real_time(
        "[{nodes: [control02], step: deploy, outcome: hang}]",
    ));
    let mut run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 deployed");
    let second = clone(&first, &origin);
    second
        .run(&["apply", "--yes"])
        .with(6)
        .saying("held by Ada");
    let planned = second.run(&["plan"]).with(0).stdout;
    assert!(
        planned.contains("(update) is running, by Ada on "),
        "{planned}"
    );
    assert!(!planned.contains("No changes"), "{planned}");
    second
        .run(&["log"])
        .with(0)
        .saying("is running, by Ada on ");
    run.kill().unwrap();
    run.wait().unwrap();
    // The process is gone, and this machine can tell.
    let ended = second.run(&["apply", "--yes"]);
    assert!([6, 8].contains(&ended.code), "{ended:?}");
}

#[test]
fn a_killed_run_is_resumed_in_another_clone() {
    let (first, origin) = shared(in_real_time("[]"));
    let mut run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 prepared");
    run.kill().unwrap();
    run.wait().unwrap();
    let second = clone(&first, &origin);
    second.run(&["apply", "--resume"]).with(0);
    everything_happened_once(&second);
    assert_eq!(origin.git(&["tag", "--list"]).lines().count(), 1);
    // What the dead one wrote down and could not publish is in nobody's way.
    same_machines(&second, &first);
    first.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_killed_remediation_is_resumed_in_another_clone_and_leaves_no_machine_off() {
    let (first, origin) = shared(in_real_time("[]"));
    first.run(&["apply", "--yes"]).with(0);
    let before = first.ledger();
    let mut run = first.start(&["apply", "remediate", "compute11", "--yes"]);
    wait_for_effect(&first, "compute11 powered-off");
    run.kill().unwrap();
    run.wait().unwrap();
    let second = clone(&first, &origin);
    second.run(&["apply", "--resume"]).with(0);
    let ledger = second.ledger();
    for effect in ["powered-off", "node-deleted", "powered-on", "node-restored"] {
        let effect = format!("compute11 {effect}");
        let earlier = before.get(&effect).copied().unwrap_or_default();
        assert_eq!(ledger[&effect] - earlier, 1, "{effect}");
    }
    same_machines(&second, &first);
    first.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_remote_that_does_not_answer_is_an_error_and_offline_only_plans() {
    let (fixture, origin) = shared(Fixture::one_rack());
    fixture
        .run(&["plan", "--offline"])
        .with(0)
        .saying("the remote was not asked");
    fixture
        .run(&["apply", "--yes", "--offline"])
        .with(1)
        .saying("offline");
    fixture.checkout.git(&[
        "remote",
        "set-url",
        "origin",
        &format!("{}-is-gone", origin.url()),
    ]);
    fixture.run(&["plan"]).with(1);
    fixture.run(&["apply", "--yes"]).with(1);
    assert!(fixture.tags().is_empty());
}

#[test]
fn of_two_applies_in_two_clones_started_at_once_exactly_one_wins() {
    let (first, origin) = shared(Fixture::one_rack());
    first.run(&["apply", "--yes"]).with(0);
    real_time(&first, "[]");
    let mut refused = 0;
    let mut tier = "{rack: rack01, tags: [monitoring]}".to_owned();
    for round in 0..10 {
        let next = format!("{{rack: rack01, tags: [monitoring], owner_data: {{tier: t{round}}}}}");
        first.edit("nodes/monitoring.yaml", &tier, &next);
        tier = next;
        first.checkout.commit("Another tier");
        first.checkout.git(&["push", "--quiet"]);
        let second = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "one-rack");
        // The machines are the same ones, seen from both clones.
        let machines = second.simulated_site();
        std::fs::create_dir_all(machines.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(first.simulated_site(), &machines).unwrap();
        let tags = origin.git(&["tag", "--list"]).lines().count();
        let before = first.effects("relabelled");
        let racers = [
            first.start(&["apply", "--yes"]),
            second.start(&["apply", "--yes"]),
        ];
        let ended = racers.map(wait);
        let did = |ended: &&Ended| ended.code == 0 && ended.stdout.contains("Tagged");
        assert_eq!(ended.iter().filter(did).count(), 1, "{round}: {ended:?}");
        let loser = ended.iter().find(|ended| !did(ended)).unwrap();
        match loser.code {
            // Says who holds it, and what to do.
            6 => {
                refused += 1;
                assert!(loser.stderr.contains("held by Ada"), "{loser:?}");
            }
            // It came when the other had ended: nothing is left to do, or its plan is stale.
            0 | 5 => {}
            _ => panic!("{round}: {loser:?}"),
        }
        assert_eq!(origin.git(&["tag", "--list"]).lines().count(), tags + 1);
        assert_eq!(first.effects("relabelled"), before + 1, "{round}");
        assert!(!origin.git(&["for-each-ref"]).contains("/lock"));
        first.run(&["plan", "--detailed-exitcode"]).with(0);
    }
    assert!(refused > 0, "they never met");
}

#[test]
fn git_may_tidy_up_and_others_may_push_in_the_middle_of_a_run() {
    let (first, origin) = shared(in_real_time("[]"));
    let second = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "one-rack");
    let run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 prepared");
    // `--prune=now` takes away what is being written, as git's manual warns; a lone `gc` does not.
    first.checkout.git(&["gc", "--quiet"]);
    first.checkout.git(&["pack-refs", "--all"]);
    second.checkout.write("notes.txt", "from elsewhere");
    second.checkout.commit("From elsewhere");
    second.checkout.git(&["push", "--quiet"]);
    first
        .checkout
        .git(&["fetch", "--quiet", "--prune", "--prune-tags", "--tags"]);
    origin.git(&["gc", "--quiet"]);
    first.checkout.git(&["gc", "--quiet"]);
    wait(run).with(0);
    everything_happened_once(&first);
    first.checkout.git(&["fsck", "--strict"]);
    origin.git(&["fsck", "--strict"]);
    assert_eq!(origin.git(&["tag", "--list"]), first.tag_names()[0]);
    assert!(!origin.git(&["for-each-ref"]).contains("/lock"));
    first.run(&["plan", "--detailed-exitcode"]).with(0);
    let third = clone(&first, &origin);
    third.run(&["log"]).with(0);
    let runs = third.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
}

/// Lets the origin refuse refs that begin so.
#[cfg(unix)]
pub(crate) fn refuse(origin: &Origin, prefix: &str) {
    let script =
        format!("#!/bin/sh\ncase \"$1\" in {prefix}*) echo protected >&2; exit 1;; esac\nexit 0\n");
    write_hook(&origin.path().join("hooks/update"), &script);
}

/// Writes a program that git runs at the origin.
#[cfg(unix)]
pub(crate) fn write_hook(hook: &std::path::Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(hook, script).unwrap();
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_run_whose_end_is_refused_ends_with_nine_and_the_next_command_publishes_it() {
    let (first, origin) = shared(in_real_time("[]"));
    let run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 prepared");
    // The token has expired in the middle of the run.
    refuse(&origin, "refs/trueup/one-rack/state");
    wait(run)
        .with(9)
        .saying("is done (succeeded), and not published");
    assert!(origin.git(&["tag", "--list"]).is_empty());
    let second = clone(&first, &origin);
    let before = second.ledger();
    for command in [
        &["apply", "--yes"][..],
        &["apply", "--resume"],
        &["apply", "--yes", "--supersede"],
    ] {
        second
            .run(command)
            .with(6)
            .saying("records wait to be published");
    }
    assert_eq!(second.ledger(), before, "nothing is done a second time");
    // Here a plan can be made, and says so; an apply begins nothing.
    first
        .run(&["plan", "--detailed-exitcode"])
        .with(0)
        .saying("could not be published");
    first.run(&["apply", "--yes"]).with(9);
    refuse(&origin, "no-ref");
    first.run(&["log"]).with(0).saying("that is done now");
    assert_eq!(origin.git(&["tag", "--list"]), first.tag_names()[0]);
    assert!(!origin.git(&["for-each-ref"]).contains("/lock"));
    second.run(&["plan", "--detailed-exitcode"]).with(0);
    second
        .run(&["apply", "--yes"])
        .with(0)
        .saying("Nothing to do");
    everything_happened_once(&first);
}

#[cfg(unix)]
#[test]
fn a_tag_that_is_refused_is_owed_until_the_next_apply() {
    let (first, origin) = shared(Fixture::one_rack());
    refuse(&origin, "refs/tags/site-action");
    first
        .run(&["apply", "--yes"])
        .with(9)
        .saying("refuses its tag");
    let second = clone(&first, &origin);
    second
        .run(&["plan", "--detailed-exitcode"])
        .with(0)
        .saying("is not published");
    refuse(&origin, "no-ref");
    second.run(&["apply", "--yes"]).with(0);
    assert_eq!(origin.git(&["tag", "--list"]), first.tag_names()[0]);
}

#[test]
fn a_run_goes_from_clone_to_clone_and_back() {
    let (first, origin) = shared(in_real_time("[]"));
    let mut run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 prepared");
    run.kill().unwrap();
    run.wait().unwrap();
    let second = clone(&first, &origin);
    let mut run = second.start(&["apply", "--resume"]);
    wait_for_effect(&second, "control01 deployed");
    run.kill().unwrap();
    run.wait().unwrap();
    same_machines(&second, &first);
    first.run(&["apply", "--resume"]).with(0);
    everything_happened_once(&first);
    assert_eq!(origin.git(&["tag", "--list"]).lines().count(), 1);
    same_machines(&first, &second);
    second.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_lock_of_a_suspended_run_is_not_released_without_a_word() {
    let (first, origin) = shared(in_real_time("[]"));
    let run = first.start(&["apply", "--yes"]);
    wait_for_effect(&first, "control01 prepared");
    first.suspend(&run);
    let second = clone(&first, &origin);
    second.run(&["apply", "--resume"]).with(6);
    let lock = origin.git(&["rev-parse", "refs/trueup/one-rack/lock"]);
    let holder = origin.git(&["show", &format!("{lock}:holder.json")]);
    let holder: serde_json::Value = serde_json::from_str(&holder).unwrap();
    let id = holder["run"].as_str().unwrap();
    second.run(&["unlock", id]).with(6);
    second
        .run(&["unlock", id, "--force"])
        .with(64)
        .saying("not a terminal");
    signal(&run, "CONT");
    wait(run).with(0);
    everything_happened_once(&first);
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code() {
    let fixture = Fixture::one_rack();
    let mut run = fixture.start(&["apply", "--yes", "--format", "json"]);
    drop(run.stdout.take());
    wait(run).with(0);
    assert_eq!(fixture.tags(), ["success"]);
    for command in [
        &["log"][..],
        &["plan"],
        &["plan", "--format", "json"],
        &["render"],
        &["apply", "--yes"],
    ] {
        let mut run = fixture.start(command);
        drop(run.stdout.take());
        wait(run).with(0);
    }
}
