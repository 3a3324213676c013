//! Workers that are killed, stopped or late, ends that are killed, and runs that are aborted.

use std::process::{Child, Command};

use super::{NAME, Site};
use crate::cli_interrupted::{everything_happened_once, in_real_time};
use crate::fixture::{Fixture, wait_until};

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// Carries out the parts before one.
fn up_to(site: &Site, wanted: &str) {
    for part in site.parts().iter().take_while(|part| *part != wanted) {
        site.carry_out(0, part).with(0);
    }
}

const PART: &str = "control-nodes.deploy-1";

fn hanging() -> Fixture {
    in_real_time("[{nodes: [control01], step: deploy, outcome: late, seconds: 3}]")
}

#[test]
fn a_worker_that_is_killed_is_succeeded_in_another_clone_and_nothing_happens_twice() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    site.end().with(8);
    worker.kill().unwrap();
    worker.wait().unwrap();
    site.end().with(8).saying(PART);
    site.carry_out(1, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn a_worker_that_is_killed_is_succeeded_in_its_own_clone_by_its_journal() {
    let site = Site::begun(hanging(), 1);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    site.carry_out(0, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn a_task_that_is_delivered_twice_is_carried_out_once() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    // The other one waits for the first to be silent, and finds that it is not.
    let second = site.clones[1].start(&site.part(PART));
    assert!(worker.wait_with_output().unwrap().status.success());
    let ended = crate::fixture::Ended::from(second.wait_with_output().unwrap());
    ended.with(6).saying("is carried out by");
    site.carry_out(1, PART).with(0).saying("had ended before");
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn an_interrupted_worker_leaves_the_part_in_good_order() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut part = site.part(PART);
    part.extend(["--stop-grace", "0"]);
    let worker = site.clones[0].start(&part);
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    signal(&worker, "TERM");
    let ended = crate::fixture::Ended::from(worker.wait_with_output().unwrap());
    ended.with(8).saying("is unfinished");
    assert_eq!(site.state(PART), "interrupted");
    site.carry_out(1, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn an_aborted_run_fences_its_workers_and_names_what_may_be_half_done() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    let aborted = site.clones[1].run(&["run", "abort", NAME]).with(0);
    assert!(aborted.stdout.contains("is aborted"), "{aborted:?}");
    assert!(aborted.stdout.contains("control01: unknown"), "{aborted:?}");
    site.carry_out(0, PART).with(99).saying("has ended");
    site.end().with(7);
    assert!(
        site.refs()
            .iter()
            .all(|name| !name.contains("/run/") && !name.ends_with("/lock"))
    );
    // A plan finds out how the machines are, and the rest is done.
    wait_until("the machine is deployed", || {
        site.first.run(&["status"]).with(0);
        site.first.ledger().contains_key("control01 deployed")
    });
    site.first
        .run(&[
            "apply",
            "--yes",
            "--adopt",
            "all",
            "--allow-redeploy",
            "all",
        ])
        .with(0);
}

#[test]
fn an_end_that_is_killed_anywhere_is_repeated() {
    let site = Site::begun(Fixture::one_rack(), 1);
    site.carry_out_all();
    for delay in [20, 80, 140, 200, 260, 320, 400, 500] {
        let mut end = site.clones[0].start(&["run", "end", NAME]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        end.kill().unwrap();
        end.wait().unwrap();
    }
    site.end().with(0);
    everything_happened_once(&site.first);
    assert!(
        site.refs()
            .iter()
            .all(|name| !name.contains("/run/") && !name.ends_with("/lock"))
    );
    assert_eq!(site.origin.git(&["tag", "--list"]).lines().count(), 1);
}

#[test]
fn a_worker_in_a_clone_that_is_behind_fetches_what_it_needs() {
    let fixture = Fixture::one_rack();
    let site = Site::planned(fixture, 1);
    site.first.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring, late]}",
    );
    site.first.checkout.commit("Label it");
    site.first.checkout.git(&["push", "--quiet"]);
    let mut site = site;
    let path = site.plan.to_str().unwrap();
    site.first.run(&["plan", "-o", path]).with(0);
    let shown = site
        .first
        .run(&["show", path, "--format", "json"])
        .with(0)
        .json();
    shown["effect"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.effect);
    let begun = site.begin(&[]).with(0).json();
    begun["plan_digest"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.digest);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

/// A program `git` that has a part of the site published anew, once, before it fetches parts.
const MOVING_GIT: &str = r#"#!/bin/sh
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org PATH=${PATH#*:}
case "$*" in *fetch*/run/*) if mkdir "$0.moved" 2>/dev/null; then
    for ref in $(git -C ORIGIN for-each-ref --format='%(refname)' refs/trueup/one-rack/run); do
        git -C ORIGIN update-ref "$ref" "$(git -C ORIGIN commit-tree -m again "$ref^{tree}")"
    done
fi ;; esac
exec git "$@"
"#;

#[test]
fn a_part_that_is_published_while_it_is_fetched_is_asked_for_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::begun(Fixture::one_rack(), 2);
    let parts = site.parts();
    site.carry_out(0, &parts[0]).with(0);
    let folder = site.first.checkout.outside().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let git = folder.join("git");
    std::fs::write(
        &git,
        MOVING_GIT.replace("ORIGIN", site.origin.url().trim_start_matches("file://")),
    )
    .unwrap();
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = site.clones[1].command(&site.part(&parts[1]));
    command.env("PATH", format!("{}:{path}", folder.display()));
    crate::fixture::Ended::from(command.output().unwrap()).with(0);
    assert!(folder.join("git.moved").exists());
}
