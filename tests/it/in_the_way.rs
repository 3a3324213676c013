//! What is in the way of a run, and what it claims: guards of a part of a site, documents with errors, flags beside a plan that
//! is made, runs that are superseded or aborted, and machines that stay as they are.

use crate::accepted::example;
use crate::cli_interrupted::{clone, shared};
use crate::fixture::Fixture;
use crate::git::Origin;

const PROTECTED: &str = "schema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {protected: [{node_names: [edge-1]}]}\n";

/// A site, in virtual time.
fn site() -> Fixture {
    let site = example("edge");
    site.simulator(
        "{clock: virtual, durations: {prepare: 60, deploy: 300, destroy: 60}, faults: []}",
    );
    site.checkout.commit("A site");
    site
}

fn applied() -> Fixture {
    let site = site();
    site.run(&["apply", "--yes"]).with(0);
    site
}

/// The same, with a remote.
fn published() -> (Fixture, Origin) {
    let (site, origin) = shared(site());
    site.run(&["apply", "--yes"]).with(0);
    (site, origin)
}

fn new_image(site: &Fixture) {
    let text = site.read("profiles.yaml");
    let text = text.replace("ubuntu-24.04", "ubuntu-26.04");
    site.checkout.write("profiles.yaml", text);
    site.checkout.commit("Another image");
}

/// Applies it, and is killed as soon as a machine is asked to be deployed.
fn dies_in_the_deploy_of(site: &Fixture, node: &str) {
    dies_in("deploy", site, node);
}

/// The same, in another step.
fn dies_in(step: &str, site: &Fixture, node: &str) {
    site.kill_at(node, step);
    let allowed = ["--allow-redeploy", "all", "--allow-restart", "all"];
    let run = site.start(&[&["apply", "--yes"], &allowed[..]].concat());
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(137), "{ended:?}");
}

/// The newest run.
pub(crate) fn run_of(site: &Fixture) -> String {
    let log = site.run(&["log", "--format", "json", "-n", "1"]);
    let log = log.with(0).json();
    log["runs"][0]["run"].as_str().unwrap().to_owned()
}

/// A saved plan that builds all machines anew.
fn saved(site: &Fixture, more: &[&str]) -> String {
    let file = site.checkout.outside().join("site.plan");
    let file = file.to_str().unwrap().to_owned();
    let plan = ["plan", "--allow-redeploy", "all", "-o", &file];
    site.run(&[&plan, more].concat()).with(0);
    file
}

#[test]
fn flags_that_would_shape_a_plan_are_refused_beside_one_that_is_made() {
    let site = applied();
    new_image(&site);
    let file = saved(&site, &[]);
    let apply = ["apply", &file, "--yes", "--allow-redeploy", "all"];
    for flags in [
        &["--exclude", "edge-1"][..],
        &["--target", "edge-1"],
        &["--preserve-local-storage"],
        &["--max-unavailable", "1"],
        &["--max-failures", "0"],
        &["--skip-blocked"],
        &["--observed", "none"],
        &["--field", "platform.image"],
    ] {
        let told = format!("`{}` shapes a plan, and this one is made already", flags[0]);
        site.run(&[&apply, flags].concat()).with(64).saying(&told);
    }
    assert_eq!(site.effects("deployed"), 3);
    let file = saved(&site, &["--target", "edge-1"]);
    let apply = ["apply", &file, "--yes", "--allow-redeploy", "all"];
    site.run(&[&apply[..], &["--target", "edge-1"]].concat())
        .with(0);
    assert_eq!(site.effects("deployed"), 4);
    dies_in_the_deploy_of(&site, "edge-2");
    site.run(&["apply", "--resume", "--target", "edge-2"])
        .with(64)
        .saying("`--target` shapes a plan");
    site.run(&["apply", "--resume"]).with(0);
}

#[test]
fn the_guards_of_runs_on_a_part_of_a_site_are_in_force() {
    let site = example("edge");
    site.checkout.write("policy.yaml", PROTECTED);
    site.checkout.commit("A site");
    site.run(&["apply", "--yes", "--target", "edge-1,edge-2"])
        .with(0);
    std::fs::remove_file(site.checkout.path().join("policy.yaml")).unwrap();
    new_image(&site);
    let redeploy = [
        "apply",
        "--yes",
        "--allow-redeploy",
        "edge-1",
        "--target",
        "edge-1",
    ];
    site.run(&redeploy).with(4).saying("protected");
    assert_eq!(site.effects("deployed"), 2);
    // What is allowed to become weaker counts for the next run.
    site.run(&[&redeploy[..], &["--allow-loosening"]].concat())
        .with(4)
        .saying("protected");
}

#[test]
fn a_run_is_not_resumed_under_documents_with_errors() {
    let site = applied();
    new_image(&site);
    dies_in_the_deploy_of(&site, "edge-1");
    let before = site.ledger();
    let policy = PROTECTED.replace("protected", "protectd");
    site.checkout.write("policy.yaml", policy);
    site.checkout.commit("Protect a machine");
    site.run(&["apply", "--resume", "--yes"])
        .with(1)
        .saying("have errors, so the guards that hold now cannot be read");
    assert_eq!(site.ledger(), before);
    std::fs::remove_file(site.checkout.path().join("policy.yaml")).unwrap();
    site.checkout.commit("Without it");
    site.run(&["apply", "--resume", "--yes"]).with(0);
}

#[test]
fn a_run_is_superseded_only_by_one_that_begins() {
    let site = applied();
    new_image(&site);
    dies_in_the_deploy_of(&site, "edge-1");
    site.run(&["apply", "--supersede", "--yes"])
        .with(4)
        .saying("--allow-redeploy");
    site.run(&["apply", "--resume"]).with(0);
    assert_eq!(site.effects("deployed"), 6);
}

#[test]
fn what_an_abort_finds_deployed_is_recorded_so_in_another_clone() {
    let (site, origin) = published();
    new_image(&site);
    site.checkout.git(&["push", "--quiet"]);
    dies_in_the_deploy_of(&site, "edge-3");
    let other = clone(&site, &origin);
    other.run(&["status"]).with(0);
    let aborted = other.run(&["abort", &run_of(&other)]).with(0).stdout;
    assert!(
        aborted.contains("Found deployed, and recorded so:\n  edge-3"),
        "{aborted}"
    );
    assert_eq!(other.planned(&[]), [].into());
}

#[test]
fn an_abort_records_machines_with_all_sections_of_their_design() {
    let site = applied();
    new_image(&site);
    dies_in_the_deploy_of(&site, "edge-3");
    let status = site.run(&["status", "edge-1"]).with(0).stdout;
    assert!(!status.contains("differs"), "{status}");
    site.run(&["abort", &run_of(&site)]).with(0);
    let planned = site.planned(&[]);
    assert_eq!(
        planned,
        [("edge-3".to_owned(), "await-ready".to_owned())].into()
    );
}

/// The numbers of the record and of the report of a run, the standing of its machines, and the number of its steps that are
/// explained as begun.
fn told_of(site: &Fixture, run: &str) -> (String, String, Vec<String>, usize) {
    let shown = site.run(&["show", run, "--format", "json"]).with(0).json();
    let listed = site.run(&["log", "--format", "json"]).with(0).json();
    let listed = listed["runs"].as_array().unwrap();
    let listed = listed.iter().find(|each| each["run"] == run).unwrap();
    assert_eq!(listed["counts"], shown["run"]["counts"]);
    let counts = &shown["report"]["counts"];
    assert_eq!(*counts, shown["run"]["counts"]);
    let numbers = ["succeeded", "failed", "half_done", "not_started"];
    let numbers = numbers.map(|name| counts[name].to_string()).join(" ");
    let nodes = shown["report"]["nodes"].as_array().unwrap();
    let standings = nodes.iter().map(|node| {
        let name = node["node"].as_str().unwrap();
        let history = site.run(&["log", name, "--format", "json", "-n", "1"]);
        let own = &history.with(0).json()["runs"][0];
        assert_eq!((&own["run"], &own["result"]), (&run.into(), node));
        format!("{name} {}", node["standing"].as_str().unwrap())
    });
    let standings = standings.collect();
    let outcome = shown["run"]["outcome"].as_str().unwrap().to_owned();
    let explained = site.run(&["explain", run]).with(0).stdout;
    (
        outcome,
        numbers,
        standings,
        explained.matches("begun").count(),
    )
}

#[test]
fn a_run_that_was_killed_resumed_or_aborted_is_told_alike_everywhere() {
    for (ends, expected) in [
        (
            "abort",
            ("abandoned", "2 0 1 0", ["deployed", "deployed", "deployed"]),
        ),
        (
            "resume",
            ("succeeded", "3 0 0 0", ["deployed", "deployed", "deployed"]),
        ),
    ] {
        let site = applied();
        new_image(&site);
        dies_in_the_deploy_of(&site, "edge-3");
        let run = run_of(&site);
        let told = |(outcome, numbers, standings): (&str, &str, [&str; 3]), begun| {
            let names = ["edge-1", "edge-2", "edge-3"].iter().zip(standings);
            let standings = names.map(|(name, standing)| format!("{name} {standing}"));
            let texts = (outcome.to_owned(), numbers.to_owned());
            (texts.0, texts.1, standings.collect(), begun)
        };
        let killed = (
            "interrupted",
            "2 0 1 0",
            ["deployed", "deployed", "unknown"],
        );
        assert_eq!(told_of(&site, &run), told(killed, 1));
        // Its machine is built meanwhile.
        site.run(&["status"]).with(0);
        match ends {
            "abort" => site.run(&["abort", &run]).with(0),
            _ => site.run(&["apply", "--resume"]).with(0),
        };
        assert_eq!(told_of(&site, &run), told(expected, 0), "{ends}");
    }
}

#[test]
fn a_machine_that_stays_as_it_is_is_told_where_success_is_claimed() {
    let site = applied();
    new_image(&site);
    let keep = ["apply", "maintenance", "edge-2", "--reason", "fan", "--yes"];
    site.run(&keep).with(0);
    let told = site
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0)
        .stdout;
    assert!(
        told.contains("drift: this run left 1 machine other than designed"),
        "{told}"
    );
    assert!(told.contains(": 1 not as designed, left so"), "{told}");
    let tag = site.tag_names().pop().unwrap();
    let tag = site.checkout.git(&["cat-file", "tag", &tag]);
    assert!(tag.contains("1 not as designed, left so"), "{tag}");
}

#[test]
fn the_hint_of_a_run_of_workers_begins_one() {
    let (site, origin) = published();
    new_image(&site);
    site.checkout.git(&["push", "--quiet"]);
    let file = saved(&site, &[]);
    let again = format!("`trueup run begin {file} --run nightly --effect ");
    let begun = site
        .run(&["run", "begin", &file, "--run", "nightly"])
        .with(4)
        .saying(&again);
    assert!(!begun.stderr.contains("trueup apply"), "{begun:?}");
    let effect = begun.stderr.split("--effect ").nth(1).unwrap();
    let effect: String = effect.chars().take_while(|c| *c != '`').collect();
    let begin = [
        "run", "begin", &file, "--run", "nightly", "--effect", &effect,
    ];
    site.run(&begin).with(0);
    site.run(&begin).with(0);
    let other = [&begin[..], &["--nodes-per-part", "2"]].concat();
    site.run(&other).with(4).saying("with parts of at most");
    // Its name stands for its id.
    let shown = site.run(&["show", "nightly"]).with(0).stdout;
    assert!(shown.contains(&run_of(&site)), "{shown}");
    site.run(&["show", ""]).with(1);
    // In another clone nothing vouches for the plan.
    let elsewhere = clone(&site, &origin);
    let ways = elsewhere.run(&["run", "status", "nightly"]).with(0).stdout;
    assert!(ways.contains(" PART --plan-digest DIGEST` for "), "{ways}");
    let ways = site.run(&["run", "status", "nightly"]).with(0).stdout;
    assert!(!ways.contains("--plan-digest"), "{ways}");
    elsewhere.run(&["abort", "nightly"]).with(6);
    let explained = site.run(&["explain", &run_of(&site)]).with(0).stdout;
    assert!(explained.contains("trueup run abort"), "{explained}");
    assert!(!explained.contains("by itself"), "{explained}");
}

#[test]
fn a_run_that_ended_in_another_clone_is_not_told_to_be_resumed() {
    use std::os::unix::fs::PermissionsExt as _;
    let (site, origin) = published();
    new_image(&site);
    site.checkout.git(&["push", "--quiet"]);
    // The release of the lock is refused, and with it all that goes with it.
    let hook = origin.path().join("hooks/pre-receive");
    let zero = "0000000000000000000000000000000000000000";
    let refuses = format!(
        "#!/bin/sh\nwhile read old new ref; do case $ref in */lock) [ $new = {zero} ] && exit 1;; esac; done\nexit 0\n"
    );
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, refuses).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let apply = ["apply", "--yes", "--allow-redeploy", "all"];
    site.run(&apply).with(9).saying("not published");
    let other = clone(&site, &origin);
    for command in [&["status"][..], &["log"]] {
        let told = other.run(command).with(0);
        let told = told.saying("has ended in another clone");
        assert!(!told.stderr.contains("interrupted"), "{told:?}");
        assert!(!told.stderr.contains("aborts it"), "{told:?}");
    }
    let run = run_of(&other);
    let explained = other.run(&["explain", &run]).with(0).stdout;
    assert!(!explained.contains("apply --resume"), "{explained}");
    std::fs::remove_file(&hook).unwrap();
    site.run(&["log"])
        .with(0)
        .saying("had ended, and that was not published: that is done now");
    let quiet = site.run(&["log"]).with(0).stderr;
    assert!(!quiet.contains("published"), "{quiet}");
}

#[test]
fn a_run_that_too_many_failures_halted_says_so_everywhere() {
    let site = applied();
    site.simulator(
        "{clock: virtual, durations: {prepare: 60, deploy: 300, destroy: 60}, faults: [{nodes: [edge-1], step: deploy, outcome: fail}]}",
    );
    new_image(&site);
    let apply = [
        "apply",
        "--yes",
        "--allow-redeploy",
        "all",
        "--max-failures",
        "0",
    ];
    let told = site.run(&apply).with(7).stdout;
    let why = "more than 0 nodes failed";
    assert!(told.contains(&format!("halted: {why}")), "{told}");
    let shown = site.run(&["show"]).with(0).stdout;
    assert!(shown.contains(&format!("halted: {why}")), "{shown}");
    let logged = site.run(&["log", "-n", "1"]).with(0).stdout;
    assert!(logged.contains("failed (halted)"), "{logged}");
    let tag = site.tag_names().pop().unwrap();
    let tag = site.checkout.git(&["cat-file", "tag", &tag]);
    assert!(tag.contains(&format!("halted: {why}\n")), "{tag}");
}

#[test]
fn a_service_lifts_its_own_cordon_after_an_abort_and_leaves_that_of_an_operator() {
    let site = example("edge");
    site.simulator("{clock: virtual, hardware: [{values: {bios.Turbo: Disabled}}]}");
    site.checkout.commit("A site");
    site.run(&["apply", "--yes"]).with(0);
    site.run(&["apply", "drain", "edge-1", "--yes"]).with(0);
    site.checkout.write(
        "hardware.yaml",
        "schema: trueup/Hardware/v1\nmetadata: {name: all}\ndata: {mode: enforce, bios: {Turbo: Enabled}}\n",
    );
    site.checkout.commit("Enforce an attribute");
    let cluster = |node: usize| {
        let status = site.run(&["status", "--format", "json"]).json();
        let node = &status["nodes"][node]["observed"]["cluster"]["known"];
        node["unschedulable"] == true
    };
    assert!(cluster(0), "it was drained");
    dies_in("service", &site, "edge-2");
    site.run(&["abort", &run_of(&site)]).with(0);
    assert!(cluster(1), "its service was interrupted");
    // Also if nothing is to be set any more.
    std::fs::remove_file(site.checkout.path().join("hardware.yaml")).unwrap();
    site.checkout.commit("Enforce nothing");
    site.run(&["apply", "--yes"]).with(0);
    assert_eq!([0, 1, 2].map(cluster), [true, false, false]);
}

#[test]
fn what_a_plan_says_of_its_limits_its_base_and_its_file_is_so() {
    let site = site();
    let limit = "schema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {max_failures: 2}\n";
    site.checkout.write("policy.yaml", limit);
    site.checkout.commit("Limit the failures");
    let plan = |more: &[&str]| site.run(&[&["plan"], more].concat()).with(0);
    let own = plan(&[]).stdout;
    assert!(own.contains("In force: Policy max_failures 2\n"), "{own}");
    let fewer = plan(&["--max-failures", "1"]).stdout;
    assert!(fewer.contains("In force: --max-failures 1\n"), "{fewer}");
    assert!(fewer.contains("update nothing applied →"), "{fewer}");
    // A run on a part of the site is no base, and applied something.
    site.run(&["apply", "--yes", "--target", "edge-1,edge-2"])
        .with(0);
    let part = plan(&[]).stdout;
    assert!(
        part.contains("update no action on the whole site yet →"),
        "{part}"
    );
    let file = site.checkout.outside().join("site.plan");
    let save = ["-o", file.to_str().unwrap()];
    plan(&save).saying("applies it.");
    plan(&[&save[..], &["--observed", "none"]].concat()).saying("Nothing was observed for it");
}
