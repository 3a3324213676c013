//! A run whose process was killed in another clone, seen from here: nothing that it may have begun is taken for not begun, or for
//! the machine of somebody else.

use super::accepted::example;
use super::cli_apply_changes::remove_node;
use super::cli_interrupted::{clone, everything_happened_once, same_machines, shared};
use super::fixture::Fixture;
use super::git::{Checkout, Origin};
use super::in_the_way::run_of;

/// A first apply that is killed as it begins the deploy of a machine, in a clone, and another clone.
fn killed_elsewhere() -> (Fixture, Fixture, Origin) {
    killed_with_faults("[]", "compute11")
}

fn killed_with_faults(faults: &str, node: &str) -> (Fixture, Fixture, Origin) {
    let (first, origin) = shared(Fixture::one_rack_with_faults(faults));
    first.kill_at(node, "deploy");
    let ended = first.run(&["apply", "--yes"]);
    assert_eq!(ended.code, 137, "{ended:?}");
    let second = clone(&first, &origin);
    (first, second, origin)
}

#[test]
fn what_a_run_may_have_begun_in_another_clone_is_told_as_that_everywhere() {
    let (first, second, _origin) = killed_elsewhere();
    let here = first.run(&["log"]).with(0).stdout;
    assert!(!here.contains("not known to have begun"), "{here}");
    let log = second.run(&["log"]).with(0).stdout;
    assert!(log.contains("not known to have begun"), "{log}");
    assert!(!log.contains("not started"), "{log}");
    let shown = second.run(&["show"]).with(0).stdout;
    assert!(!shown.contains("not started"), "{shown}");
    assert!(
        shown.contains(
            "it may have begun: the process of the run has not published all that it did"
        ),
        "{shown}"
    );
    let status = second.run(&["status"]).with(0).stdout;
    assert!(
        status.contains("/compute11 may have begun in run"),
        "{status}"
    );
    let plan = second.run(&["plan"]).with(0).stdout;
    assert!(!plan.contains("--adopt"), "{plan}");
    let explained = second.run(&["explain", "compute11"]).with(0).stdout;
    assert!(
        explained.contains("What is planned here may have begun"),
        "{explained}"
    );
    let ended = second.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(ended["runs"][0]["counts"]["not_started"], 0, "{ended}");
}

#[test]
fn a_first_deploy_that_was_killed_is_superseded_in_another_clone() {
    let (_, second, _origin) = killed_elsewhere();
    // Its last deploy ends by itself.
    second.run(&["status"]).with(0);
    second.run(&["apply", "--yes", "--supersede"]).with(0);
    everything_happened_once(&second);
    assert_eq!(second.tags(), ["failure", "success"]);
    second.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_run_that_may_have_begun_is_aborted_in_another_clone_with_a_tag() {
    let (_, second, _origin) = killed_elsewhere();
    let run = run_of(&second);
    second.run(&["abort", &run]).with(0);
    assert_eq!(second.tag_names().len(), 1);
    // What it leaves is told by the same words as the step that its machine may be at.
    let show = second.run(&["show"]).with(0).stdout;
    assert!(show.contains("deploy/"), "{show}");
    assert!(!show.contains("it has begun"), "{show}");
    assert!(show.contains("it may have begun"), "{show}");
}

#[test]
fn a_deploy_that_failed_after_its_process_was_gone_is_recorded_by_an_abort() {
    let faults = "[{nodes: [control01], step: deploy, outcome: fail, times: 1}]";
    for is_here in [true, false] {
        let (first, second, _origin) = killed_with_faults(faults, "control02");
        let site = if is_here { first } else { second };
        let run = run_of(&site);
        // Its deploys end by themselves.
        site.run(&["status"]).with(0);
        let aborted = site.run(&["abort", &run]).with(0);
        assert!(
            aborted
                .stdout
                .contains("control01: failed: it failed after the process of its run was gone"),
            "{aborted:?}"
        );
        let status = site.run(&["status"]).with(0).stdout;
        let row = status.lines().find(|line| line.starts_with("control01"));
        assert!(row.unwrap().contains("failed in run"), "{status}");
        let show = site.run(&["show"]).with(0).stdout;
        assert!(show.contains("1 failed"), "{show}");
        // The next run deploys it, and all else.
        site.run(&["apply", "--yes", "--allow-redeploy", "all"])
            .with(0);
    }
}

/// A run of a commit that was pushed, which was killed, and a clone that does not have that commit yet.
fn killed_ahead() -> (Fixture, Fixture, Origin) {
    let (first, origin) = shared(Fixture::one_rack());
    let behind = Fixture::of(Checkout::clone_of(&origin.url(), &[]), first.site());
    first.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
    first
        .checkout
        .commit("A commit that the other clone does not have");
    first.checkout.git(&["push", "--quiet"]);
    first.kill_at("compute11", "deploy");
    first.run(&["apply", "--yes"]).with(137);
    same_machines(&first, &behind);
    (first, behind, origin)
}

#[test]
fn a_clone_that_is_behind_fetches_the_commit_of_the_run_that_it_aborts_and_publishes_its_tag() {
    let (_, behind, _origin) = killed_ahead();
    let run = run_of(&behind);
    let aborted = behind.run(&["abort", &run]).with(0);
    for wrong in ["is not here", "could not be observed"] {
        assert!(!aborted.stderr.contains(wrong), "{aborted:?}");
    }
    let status = behind.run(&["status"]).with(0);
    assert!(!status.stderr.contains("not published"), "{status:?}");
    let tags = behind.checkout.git(&["ls-remote", "--tags", "origin"]);
    assert!(tags.contains("site-action-failure/"), "{tags}");
}

#[test]
fn a_clone_that_is_behind_resumes_a_run_of_the_branch_that_it_follows() {
    let (first, behind, _origin) = killed_ahead();
    behind.run(&["apply", "--resume"]).with(0);
    everything_happened_once(&behind);
    assert_eq!(behind.tags(), ["success"]);
    same_machines(&behind, &first);
    first.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_run_whose_commit_was_never_pushed_is_aborted_in_another_clone() {
    let (first, origin) = shared(Fixture::one_rack());
    first.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
    first.checkout.commit("A commit that stays here");
    first.kill_at("compute11", "deploy");
    first.run(&["apply", "--yes"]).with(137);
    let second = clone(&first, &origin);
    let resumed = second.run(&["apply", "--resume"]).with(1);
    resumed
        .saying("is not in this clone")
        .saying("push it from the clone that has it");
    let run = run_of(&second);
    second
        .run(&["abort", &run])
        .with(0)
        .saying("is not here: its documents cannot be read");
    // A tag of a commit that is not here would break this clone for git.
    assert_eq!(second.tag_names(), Vec::<String>::new());
    second.checkout.git(&["fsck", "--no-dangling"]);
    let gone = "is neither here nor at the remote: it was never pushed";
    let status = second.run(&["status"]).with(0);
    assert!(!status.stderr.contains("not published"), "{status:?}");
    second.run(&["plan"]).with(0).saying(gone);
    let refused = second.run(&["apply", "--yes", "--skip-blocked"]).with(4);
    let refused = refused.saying(gone);
    refused.saying("push the commit from the clone that applied it");
    // Once that clone is back and has pushed it, nothing is missing.
    first.checkout.git(&["push", "--quiet"]);
    second.checkout.git(&["pull", "--quiet"]);
    let plan = second.run(&["plan"]).with(0);
    assert!(!plan.stderr.contains(gone), "{plan:?}");
}

#[test]
fn a_shallow_clone_fetches_the_history_that_an_abort_needs() {
    let (first, _, origin) = killed_ahead();
    first.checkout.write("README", "more\n");
    first.checkout.commit("A commit after that of the run");
    first.checkout.git(&["push", "--quiet"]);
    let shallow = Checkout::clone_of(&origin.url(), &["--depth=1"]);
    let shallow = Fixture::of(shallow, first.site());
    same_machines(&first, &shallow);
    let run = run_of(&shallow);
    let aborted = shallow.run(&["abort", &run]).with(0);
    assert!(
        !aborted.stderr.contains("could not be observed"),
        "{aborted:?}"
    );
}

#[test]
fn a_machine_that_has_left_the_design_is_torn_down_once() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    remove_node(&fixture);
    fixture.checkout.commit("One machine less");
    fixture.kill_at("monitor02", "destroy");
    let destroys = ["apply", "--yes", "--allow-destroy", "monitor02"];
    fixture.run(&destroys).with(137);
    let run = run_of(&fixture);
    fixture.run(&["status"]).with(0);
    fixture.run(&["abort", &run]).with(0);
    let plan = fixture.run(&["plan", "--allow-destroy", "all"]).with(0);
    assert!(!plan.stdout.contains("wipes"), "{plan:?}");
}

#[test]
fn a_redeploy_of_the_control_plane_is_resumed_in_another_clone_wherever_it_was_killed() {
    for step in ["remove-etcd", "shutdown-kubelet", "destroy", "deploy"] {
        let site = example("control-plane");
        site.checkout.commit("The site");
        let (first, origin) = shared(site);
        first.run(&["apply", "--yes"]).with(0);
        let profiles = first.read("profiles.yaml");
        let profiles = profiles.replace("ubuntu-24.04", "ubuntu-26.04");
        first.checkout.write("profiles.yaml", profiles);
        first.checkout.commit("Another image");
        first.checkout.git(&["push", "--quiet"]);
        first.kill_at("control-1", step);
        let ended = first.run(&["apply", "--yes", "--allow-redeploy", "all"]);
        assert_eq!(ended.code, 137, "{step}: {ended:?}");
        let second = clone(&first, &origin);
        // The way out names the flags that have to be given again.
        let told = second.run(&["status"]).with(0).stderr;
        assert!(told.contains("`--allow-redeploy all`"), "{step}: {told}");
        second
            .run(&["apply", "--resume", "--allow-redeploy", "all"])
            .with(0);
        second.run(&["plan", "--detailed-exitcode"]).with(0);
    }
}
