//! Machines that do not come back keep their places of the limits on machines out of service: while the run goes, in the next
//! run, and of a command that leaves them down.

use crate::accepted::example;
use crate::fixture::Fixture;

/// Three workers, of which one at a time may be out of service.
pub(crate) fn edge() -> Fixture {
    let site = example("edge");
    let policy =
        "schema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {max_unavailable: {total: 1}}\n";
    std::fs::write(site.checkout.path().join("policy.yaml"), policy).unwrap();
    site.commit_and_apply("Begin", &[]).with(0);
    site
}

pub(crate) fn with_new_image(site: &Fixture, faults: &str) {
    site.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    let faults = format!("clock: virtual\n      faults: {faults}");
    site.edit("backends.yaml", "clock: virtual", &faults);
    site.checkout.commit("Another image");
}

pub(crate) const FAULT: &str = "[{nodes: [edge-1], step: deploy, outcome: fail}]";
pub(crate) const NO_PLACE: &str =
    "`edge-1` did not come back, and at most 1 machine of the site may be unavailable";

#[test]
fn a_machine_that_does_not_come_back_ends_the_waves_and_is_built_first_by_the_next_run() {
    let site = edge();
    with_new_image(&site, FAULT);
    let failed = site.run(&["apply", "--yes", "--allow-redeploy", "all"]);
    assert_eq!(failed.code, 7, "{failed:?}");
    assert!(failed.stdout.contains(NO_PLACE), "{failed:?}");
    assert_eq!(destroyed(&site), ["edge-1"]);
    assert_eq!(site.tags(), ["success", "failure"]);
    // An action on the others finds its place taken.
    let refused = site.run(&["apply", "redeploy", "edge-2", "--yes"]).with(4);
    refused.saying("at most 1 machine may be unavailable, and edge-1 is left half-done");
    site.edit("backends.yaml", FAULT, "[]");
    site.commit_and_apply("Mend it", &["--allow-redeploy", "all"])
        .with(0);
    assert_eq!(site.tags(), ["success", "failure", "success"]);
    let all = site.ledger();
    let wiped = all.iter().filter(|(what, _)| what.ends_with(" destroyed"));
    assert!(wiped.clone().all(|(_, times)| *times == 1), "{all:?}");
    assert_eq!(wiped.count(), 3, "{all:?}");
}

#[test]
fn a_machine_that_fails_again_still_takes_its_place() {
    let site = edge();
    with_new_image(&site, FAULT);
    for _ in 0..2 {
        let failed = site.run(&["apply", "--yes", "--allow-redeploy", "all"]);
        assert_eq!(failed.code, 7, "{failed:?}");
        assert!(failed.stdout.contains(NO_PLACE), "{failed:?}");
    }
    assert_eq!(destroyed(&site), ["edge-1"]);
    // With two places one of the others has a turn.
    let flags = [
        "apply",
        "--yes",
        "--allow-redeploy",
        "all",
        "--max-unavailable",
        "2",
    ];
    site.run(&flags).with(7);
    assert_eq!(destroyed(&site), ["edge-1", "edge-2"]);
}

#[test]
fn a_command_that_leaves_machines_down_takes_no_more_of_them_than_one_after_the_other_would() {
    let site = edge();
    for action in [&["power", "off"][..], &["drain"], &["shutdown-kubelet"]] {
        let all = [&["apply", "--yes"], action, &["edge-1", "edge-2"]].concat();
        let refused = site.run(&all).with(4);
        refused.saying("at most 1 machine may be unavailable, and edge-1 is going down before it");
    }
    site.run(&["apply", "--yes", "drain", "edge-1"]).with(0);
    let refused = site.run(&["apply", "--yes", "drain", "edge-2"]).with(4);
    refused.saying("at most 1 machine may be unavailable, and edge-1 is cordoned");
}

/// The machines that were destroyed.
pub(crate) fn destroyed(site: &Fixture) -> Vec<String> {
    let effects = site.ledger().into_keys();
    let destroyed = effects.filter_map(|what| what.strip_suffix(" destroyed").map(str::to_owned));
    destroyed.collect()
}
