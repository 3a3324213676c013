//! Guards that an action is held to whichever way it takes: across runs, by its name, and by what it leaves down.

use super::accepted::example;
use super::fixture::Fixture;

/// The control plane of the examples under a policy, applied.
fn applied(policy: &str) -> Fixture {
    let fixture = example("control-plane");
    let text = format!("schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {policy}\n");
    fixture.checkout.write("policy.yaml", text);
    fixture.checkout.commit("The site");
    fixture
        .run(&["apply", "--yes", "--outside-windows"])
        .with(0);
    fixture
}

/// Gives the workers a new image, and lets deploys fail once.
fn image(fixture: &Fixture) {
    let profiles = fixture.read("profiles.yaml");
    let (others, worker) = profiles.split_once("name: worker}").unwrap();
    let worker = worker.replace("ubuntu-24.04", "ubuntu-26.04");
    fixture
        .checkout
        .write("profiles.yaml", format!("{others}name: worker}}{worker}"));
    let faults = "clock: virtual\n      faults: [{nodes: [worker-1], step: deploy, outcome: fail, times: 1}]";
    let backends = fixture
        .read("backends.yaml")
        .replacen("clock: virtual", faults, 1);
    fixture.checkout.write("backends.yaml", backends);
    fixture.checkout.commit("A new image");
}

#[test]
fn disks_that_a_teardown_has_kept_are_kept_by_each_later_run_until_they_may_be_erased() {
    let first: [(&[&str], i32); 2] = [
        (&["--preserve-local-storage", "--target", "worker-1"], 7),
        (&["teardown", "worker-1", "--preserve-local-storage"], 0),
    ];
    for (words, code) in first {
        let fixture = applied("{disruption: {by_class: {operating-system: reinstall}}}");
        image(&fixture);
        let written = fixture.ledger().into_iter();
        let written =
            written.filter(|(what, _)| what.starts_with("worker-1 ") && what.ends_with("sdb"));
        let written: Vec<_> = written.collect();
        let words = [&["apply", "--yes"], words].concat();
        fixture.run(&words).with(code);
        let plan = ["plan", "--target", "worker-1"];
        let shown = fixture.run(&plan).with(0).stdout;
        assert!(shown.contains("deploy, wipes sda: worker-1"), "{shown}");
        assert!(
            shown.contains("its other disks were kept by run"),
            "{shown}"
        );
        assert!(shown.contains("+ worker-1: deploy, wipes sda\n"), "{shown}");
        // Who lets it be rebuilt lets all of it be erased.
        let allowed = [&plan[..], &["--allow-redeploy", "worker-1"]].concat();
        let shown = fixture.run(&allowed).with(0).stdout;
        assert!(
            shown.contains("deploy, wipes sda, sdb: worker-1"),
            "{shown}"
        );
        let again = ["apply", "--yes", "--target", "worker-1"];
        if code == 0 {
            // The deploy fails once.
            fixture.run(&again).with(7);
        }
        fixture.run(&again).with(0);
        let others = fixture.ledger().into_iter();
        let others =
            others.filter(|(what, _)| what.starts_with("worker-1 ") && what.ends_with("sdb"));
        assert_eq!(others.collect::<Vec<_>>(), written);
    }
}

#[test]
fn the_remediation_of_a_machine_that_serves_is_held_like_any_other_action() {
    let fixture = applied("{protected: [{node_names: [worker-1]}], max_unavailable: {total: 1}}");
    let remediate = |node: &str| fixture.run(&["apply", "remediate", node, "--yes"]);
    remediate("worker-1")
        .with(4)
        .saying("the policy protects it");
    fixture
        .run(&["apply", "power", "off", "worker-2", "--yes"])
        .with(0);
    remediate("control-1")
        .with(4)
        .saying("at most 1 machine may be unavailable, and worker-2 is off");
    assert_eq!(fixture.effects("powered-off"), 1);

    let closed = applied(
        "{maintenance_windows: [{from: '00:00', to: '00:01'}, {from: '00:02', to: '00:03'}]}",
    );
    let plan = closed
        .run(&["plan", "remediate", "worker-2"])
        .with(0)
        .stdout;
    assert!(plan.contains("00:00 to 00:01"), "{plan}");
}

#[test]
fn machines_that_one_command_leaves_down_are_of_one_failure_domain() {
    let fixture = applied("{failure_domains: [rack], max_unavailable: {total: 3}}");
    fixture
        .run(&["apply", "power", "off", "worker-1", "worker-2", "--yes"])
        .with(4)
        .saying("worker-1 goes down with it, and is in another failure domain");
    assert_eq!(fixture.effects("powered-off"), 0);
    fixture
        .run(&["apply", "power", "off", "worker-1", "--yes"])
        .with(0);
}

/// Deletes the document of a worker.
fn delete(fixture: &Fixture, node: &str) {
    let nodes = fixture.read("nodes.yaml");
    let documents = nodes.split("---\n");
    let others = documents.filter(|text| !text.contains(&format!("name: {node}}}")));
    let others: Vec<&str> = others.collect();
    fixture.checkout.write("nodes.yaml", others.join("---\n"));
    fixture.checkout.commit("One machine less");
}

#[test]
fn a_commit_that_deletes_a_machine_which_is_down_frees_no_place() {
    let fixture = applied("{max_unavailable: {total: 1}}");
    let redeploy = ["apply", "redeploy", "worker-2", "--yes"];
    fixture
        .run(&["apply", "power", "off", "worker-1", "--yes"])
        .with(0);
    delete(&fixture, "worker-1");
    fixture
        .run(&redeploy)
        .with(4)
        .saying("at most 1 machine may be unavailable, and worker-1 is off");
    // It is missed until it is taken away, which another machine may wait for in the same run.
    image(&fixture);
    let targets = ["plan", "--target", "worker-2"];
    let shown = fixture.run(&targets).with(0).stdout;
    assert!(shown.contains("and worker-1 is off"), "{shown}");
    fixture
        .run(&[
            "apply",
            "--yes",
            "--allow-destroy",
            "worker-1",
            "--node-is-gone",
            "worker-1",
            "--allow-redeploy",
            "worker-2",
            "--allow-intermediate-commits",
        ])
        .with(0);
    fixture.run(&redeploy).with(0);

    // One that was torn down before it left is not.
    let fixture = applied("{max_unavailable: {total: 1}}");
    fixture
        .run(&["apply", "teardown", "worker-1", "--yes"])
        .with(0);
    fixture
        .run(&redeploy)
        .with(4)
        .saying("and worker-1 is torn down");
    delete(&fixture, "worker-1");
    fixture.run(&redeploy).with(0);
}

#[test]
fn a_commit_that_deletes_a_machine_leaves_it_to_the_circuit_breaker() {
    let fixture = applied("{remediation: {max_unhealthy: 1}}");
    for node in ["worker-1", "worker-2"] {
        fixture
            .run(&["apply", "power", "off", node, "--yes"])
            .with(0);
    }
    delete(&fixture, "worker-1");
    fixture
        .run(&["apply", "remediate", "control-1", "--yes"])
        .with(4)
        .saying("2 of 5 machines are unhealthy");
}

#[test]
fn a_commit_that_takes_a_tag_away_takes_no_machine_out_of_the_control_plane_before_it_is_applied() {
    let fixture = example("control-plane");
    fixture.checkout.write(
        "nodes.yaml",
        fixture
            .read("nodes.yaml")
            .replace("tags: [worker]", "tags: [worker, master]"),
    );
    fixture.checkout.commit("The workers are masters, too");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
        .run(&["apply", "power", "off", "worker-1", "--yes"])
        .with(0);
    let redeploy = [
        "apply",
        "redeploy",
        "worker-2",
        "--target-revision",
        "committed",
        "--yes",
    ];
    let held = "of the control plane may be unavailable, and worker-1 is off";
    fixture.run(&redeploy).with(4).saying(held);
    let nodes = fixture.read("nodes.yaml");
    let (before, after) = nodes.split_once("name: worker-1}").unwrap();
    let after = after.replacen("tags: [worker, master]", "tags: [worker]", 1);
    fixture
        .checkout
        .write("nodes.yaml", format!("{before}name: worker-1}}{after}"));
    fixture.checkout.commit("One master less");
    fixture.run(&redeploy).with(4).saying(held);
}

#[test]
fn a_share_of_a_group_counts_a_machine_that_is_down_and_has_left_the_design() {
    let fixture = applied("{max_unavailable: {total: 50%}}");
    fixture
        .run(&["apply", "power", "off", "worker-1", "--yes"])
        .with(0);
    delete(&fixture, "worker-1");
    fixture
        .run(&["apply", "redeploy", "worker-2", "--yes"])
        .with(4)
        .saying("of group `workers` may be unavailable, and worker-1 is off");
}
