//! The exit codes of the commands, and what they refuse.

use super::{NAME, Site};
use crate::fixture::Fixture;
use crate::unavailable::{FAULT, NO_PLACE, destroyed, edge, with_new_image};

#[test]
fn a_run_begins_once_and_another_plan_is_refused_under_its_name() {
    let site = Site::planned(Fixture::one_rack(), 1);
    let first = site.begin(&[]).with(0).json();
    let again = site.begin(&[]).with(0).json();
    assert_eq!(first, again);
    let other = site.first.checkout.outside().join("other.plan");
    let other = other.to_str().unwrap();
    // A plan that skips something is another one.
    site.first
        .run(&["plan", "--target", "ntp01", "-o", other])
        .with(0);
    site.first
        .run(&["run", "begin", other, "--run", NAME])
        .with(4)
        .saying("with another plan");
    site.first
        .run(&["apply", "--yes"])
        .with(6)
        .saying("its workers carry it out");
    site.clones[0]
        .run(&["apply", "--resume", "--take-over-dead"])
        .with(6);
    let run = first["run"].as_str().unwrap();
    site.clones[0]
        .run(&["unlock", run, "--take-over-dead"])
        .with(6);
    site.first.run(&["abort", run]).with(6);
    assert_eq!(
        site.begin(&[]).with(0).json(),
        first,
        "nothing was released"
    );
}

#[test]
fn a_part_is_carried_out_once_and_not_before_those_that_it_waits_for() {
    let site = Site::begun(Fixture::one_rack(), 2);
    let parts = site.parts();
    let (first, last) = (&parts[0], &parts[parts.len() - 1]);
    site.carry_out(0, last).with(99).saying("waits for");
    assert!(
        !site.first.simulated_site().exists(),
        "nothing was asked for"
    );
    site.carry_out(0, first).with(0);
    site.carry_out(1, first).with(0).saying("had ended before");
    site.carry_out(1, "nosuch")
        .with(1)
        .saying("has no part `nosuch`");
    site.clones[0]
        .run(&["run", "part", "other", first])
        .with(99)
        .saying("has begun");
    site.end().with(8).saying("nothing is tagged");
    site.end().with(8);
    assert!(site.origin.git(&["tag", "--list"]).is_empty());
    site.carry_out_all();
    site.end().with(0);
    site.end().with(0).saying("has ended");
    site.carry_out(0, last).with(0).saying("has ended");
    site.begin(&[]).with(4).saying("has ended (succeeded)");
}

#[test]
fn an_end_of_a_run_that_never_began_is_an_error_alone() {
    let site = Site::planned(Fixture::one_rack(), 1);
    site.end().with(1).saying("has no run");
    assert!(
        site.refs()
            .iter()
            .all(|name| !name.starts_with("refs/trueup"))
    );
}

#[test]
fn in_another_clone_the_plan_has_to_be_vouched_for() {
    let site = Site::begun(Fixture::one_rack(), 1);
    let parts = site.parts();
    let unvouched = ["run", "part", NAME, &parts[0]];
    site.clones[0]
        .run(&unvouched)
        .with(4)
        .saying("--plan-digest");
    let mut wrong = site.part(&parts[0]);
    let other = "0".repeat(64);
    wrong[5] = &other;
    let refused = site.clones[0].run(&wrong).with(4);
    refused
        .saying("is not the one")
        .saying("`trueup run abort 01");
    wrong[5] = &site.digest[..16];
    site.clones[0]
        .run(&wrong)
        .with(64)
        .saying("64 hexadecimal digits");
    // The clone that began it knows its plan.
    site.first.run(&unvouched).with(0);
}

#[test]
fn without_a_remote_workers_share_a_checkout() {
    let fixture = Fixture::one_rack();
    let plan = fixture.checkout.outside().join("site.plan");
    let plan = plan.to_str().unwrap();
    fixture.run(&["plan", "-o", plan]).with(0);
    let shown = fixture
        .run(&["show", plan, "--format", "json"])
        .with(0)
        .json();
    let effect = shown["effect"].as_str().unwrap();
    let begin = [
        "run",
        "begin",
        plan,
        "--run",
        "r1",
        "--effect",
        effect,
        "--pushes-per-minute",
        "0",
    ];
    fixture.run(&begin).with(0);
    let status = fixture
        .run(&["run", "status", "r1", "--format", "json"])
        .with(0)
        .json();
    for part in status["parts"].as_array().unwrap() {
        fixture
            .run(&["run", "part", "r1", part["part"].as_str().unwrap()])
            .with(0);
    }
    fixture.run(&["run", "end", "r1"]).with(0);
    assert_eq!(fixture.effects("deployed"), 13);
    assert_eq!(
        fixture.checkout.git(&["for-each-ref", "refs/trueup/*/run"]),
        ""
    );
    assert_eq!(fixture.tags().len(), 1);
}

/// A policy whose only maintenance window is far from now.
fn closed_window() -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let hour = since.as_secs() / 3600;
    let (from, to) = ((hour + 6) % 24, (hour + 8) % 24);
    format!(
        "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{maintenance_windows: [{{from: '{from:02}:00', to: '{to:02}:00'}}]}}\n"
    )
}

#[test]
fn outside_of_maintenance_windows_no_run_begins_and_no_part_but_on_purpose() {
    let fixture = Fixture::one_rack();
    fixture.checkout.write("policy.yaml", closed_window());
    fixture.checkout.git(&["add", "--all"]);
    let amend = ["commit", "--quiet", "--amend", "-m", "Change at night only"];
    fixture.checkout.git(&amend);
    let mut site = Site::planned(fixture, 1);
    let closed = "no maintenance window is open now";
    site.begin(&[]).with(4).saying(closed);
    // What a plan does not ask for, no flag beside it allows.
    let plan = site.plan.to_str().unwrap();
    let flags = ["--outside-windows", "--yes"];
    let applied = [&["apply", plan, "--effect", &site.effect][..], &flags].concat();
    site.first.run(&applied).with(4).saying(closed);
    assert!(
        site.refs().iter().all(|name| !name.ends_with("/lock")),
        "nothing has begun"
    );
    site.plan(&["--outside-windows"]);
    let begun = site.begin(&[]).with(0).json();
    let digest = begun["plan_digest"].as_str().unwrap();
    digest.clone_into(&mut site.digest);
    assert!(!site.first.simulated_site().exists());
    for part in &site.parts() {
        site.carry_out(0, part).with(0);
    }
    // Nothing is left that acts.
    site.end().with(0);
    assert_eq!(site.first.effects("deployed"), 13);
}

#[test]
fn a_machine_that_does_not_come_back_in_another_part_keeps_its_place() {
    let fixture = edge();
    with_new_image(&fixture, FAULT);
    let mut site = Site::planned(fixture, 2);
    site.plan(&["--allow-redeploy", "all"]);
    let begun = site.begin(&["--nodes-per-part", "1"]).with(0).json();
    begun["plan_digest"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.digest);
    site.carry_out_all();
    let ended = site.end().with(7);
    assert!(ended.stdout.contains(NO_PLACE), "{ended:?}");
    assert_eq!(destroyed(&site.first), ["edge-1"]);
}

/// Deletes the lock at the remote.
fn lose_lock(site: &Site) {
    let lock = site.refs().into_iter().find(|name| name.ends_with("/lock"));
    site.origin.git(&["update-ref", "-d", &lock.unwrap()]);
}

#[test]
fn a_run_whose_lock_was_deleted_is_still_its_workers() {
    let site = Site::begun(Fixture::one_rack(), 2);
    let run = site.status()["run"].as_str().unwrap().to_owned();
    lose_lock(&site);
    // Nothing that is for runs of one process takes it.
    let others: [&[&str]; 4] = [
        &["apply", "--resume"],
        &["apply", "--yes", "--supersede"],
        &["apply", "--yes"],
        &["abort", &run],
    ];
    for words in others {
        let refused = site.clones[0].run(words).with(6);
        let refused = refused.saying("is divided among workers, and has not ended");
        assert!(
            refused.stderr.contains(&format!("trueup run end {run}")),
            "{refused:?}"
        );
        assert_eq!(site.refs().len(), 2, "{words:?} took the lock");
    }
    let told = site.clones[0].run(&["status"]).with(0);
    assert!(!told.stderr.contains("apply --resume"), "{told:?}");
    // Its parts are beside the records, which are not moved from under it.
    let branch = ["config", "trueup.stateBranch", "trueup"];
    site.clones[1].checkout.git(&branch);
    site.clones[1]
        .run(&["migrate"])
        .with(6)
        .saying("is divided among workers, and has not ended");
    site.clones[1]
        .checkout
        .git(&["config", "--unset", "trueup.stateBranch"]);

    // Each of its parts gives the workers the lock again, and they carry on.
    let ended = site.carry_out_all();
    assert!(ended.iter().all(|(_, code)| *code == 0), "{ended:?}");
    lose_lock(&site);
    site.end().with(0);
    assert_eq!(site.clones[0].tags(), ["success"]);
    // Not for a run that has ended.
    site.carry_out(0, "site").saying("has ended");
    assert!(!site.refs().iter().any(|name| name.ends_with("/lock")));
}
