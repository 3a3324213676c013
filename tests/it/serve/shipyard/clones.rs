//! Two services on two clones of one remote.

use serde_json::json;

use super::super::{Service, deployed, settings};
use super::{document, error, state_of};
use crate::fixture::Fixture;
use crate::git::{Checkout, Origin};

/// A site whose repository has a remote, and another clone of that.
fn two() -> (Origin, Fixture, Fixture) {
    let origin = Origin::new();
    let seed = deployed("");
    let url = origin.url();
    seed.checkout.git(&[
        "push",
        "--quiet",
        &url,
        "main",
        "refs/trueup/*:refs/trueup/*",
        "--tags",
    ]);
    let clone = || Fixture::of(Checkout::clone_of(&url, &[]), "one-rack");
    let (one, two) = (clone(), clone());
    // The simulated machines are the same.
    for clone in [&one, &two] {
        let target = clone.simulated_site();
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(seed.simulated_site(), target).unwrap();
    }
    (origin, one, two)
}

#[test]
fn what_one_service_takes_in_the_other_deploys() {
    let (origin, one, two) = two();
    let (first, second) = (Service::start(&one, &[]), Service::start(&two, &[]));
    assert_eq!(first.put("design", "append", &document("motd")).code, 201);
    let seen = second.shipyard("/configdocs/design?version=buffer");
    assert!(seen.body.contains("name: motd"), "{seen:?}");
    let occupied = second.put("more", "rejectoncontents", &document("more"));
    assert_eq!(error(&occupied).0, 409);
    assert_eq!(second.put("more", "append", &document("more")).code, 201);
    let committed = first.commit("");
    assert_eq!(committed.code, 200, "{committed:?}");
    let tip = origin.git(&["rev-parse", "main"]);
    assert_eq!(one.checkout.git(&["rev-parse", "main"]), tip);
    assert_eq!(origin.git(&["branch", "--list", "trueup/*"]), "");
    // The other service tells of it, and its checkout stays until it takes something.
    let seen = second.shipyard("/configdocs/design?version=committed");
    assert!(seen.body.contains("name: motd"), "{seen:?}");
    assert_ne!(two.checkout.git(&["rev-parse", "main"]), tip);
    assert_eq!(error(&second.commit("")).0, 409, "it is committed already");
    // It follows, and deploys it.
    let id = second.begin("update_site", &json!({}));
    let done = second.wait_for(&id, "Complete");
    assert_eq!(done["committed_rev_id"], tip.as_str());
    assert_eq!(two.checkout.git(&["rev-parse", "main"]), tip);
    assert_eq!(two.checkout.git(&["status", "--porcelain"]), "");
    let found = first.wait_for(&id, "Complete");
    assert_eq!(found, done);
    assert_eq!(
        state_of(&found, "create_action_tag").as_deref(),
        Some("success")
    );
}

#[test]
fn a_checkout_does_not_follow_to_other_guards_or_away_from_its_own_commits() {
    let (origin, one, two) = two();
    let (first, second) = (Service::start(&one, &[]), Service::start(&two, &[]));
    let head = two.checkout.git(&["rev-parse", "main"]);
    one.edit(
        "policy.yaml",
        "---",
        "---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: c}\ndata: {automated: false}\n---",
    );
    one.checkout.commit("Another guard");
    one.checkout.git(&["push", "--quiet", "origin", "main"]);
    for answer in [
        second.put("design", "append", &document("motd")),
        second.ask_for("update_site", &json!({})),
    ] {
        assert_eq!(answer.code, 409, "{answer:?}");
        assert!(answer.body.contains("CleaningPolicy"), "{answer:?}");
    }
    assert_eq!(two.checkout.git(&["rev-parse", "main"]), head);
    // Diverged.
    two.checkout.write("motd.yaml", document("motd"));
    two.checkout.commit("Of this clone alone");
    let answer = second.put("design", "append", &document("other"));
    assert!(answer.body.contains("does not follow"), "{answer:?}");
    let put = first.put("design", "append", &document("motd"));
    assert_eq!(put.code, 201);
    let committed = first.commit("");
    assert_eq!(committed.code, 200, "{committed:?} {put:?}");
    assert_eq!(
        one.checkout.git(&["rev-parse", "main"]),
        origin.git(&["rev-parse", "main"])
    );
}

#[test]
fn a_branch_that_takes_no_pushes_takes_no_commit() {
    let (origin, one, _two) = two();
    let service = Service::start(&one, &[]);
    assert_eq!(service.put("design", "append", &document("motd")).code, 201);
    let hook = origin.path().join("hooks/update");
    let script = "#!/bin/sh\n[ \"$1\" != refs/heads/main ]\n";
    std::fs::write(&hook, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    let head = one.checkout.git(&["rev-parse", "main"]);
    let answer = service.commit("");
    let title = "Unable to commit configuration documents";
    assert_eq!(error(&answer), (409, title.to_owned()), "{answer:?}");
    assert_eq!(one.checkout.git(&["rev-parse", "main"]), head);
    assert_eq!(one.checkout.git(&["status", "--porcelain"]), "");
    std::fs::remove_file(hook).unwrap();
    assert_eq!(service.commit("").code, 200);
}

#[test]
fn an_action_of_one_service_keeps_the_other_out_even_after_it_was_killed() {
    let (_origin, one, two) = two();
    let fast = "durations: {change: 0.2}, pods: [{name: web, nodes: [compute11], ends_after: 6}]";
    settings(&one, "clock: real", fast);
    one.checkout.commit("In real time");
    one.checkout.git(&["push", "--quiet", "origin", "main"]);
    two.checkout
        .git(&["pull", "--quiet", "--ff-only", "origin", "main"]);
    let (mut first, second) = (Service::start(&one, &[]), Service::start(&two, &[]));
    let redeploy = json!({"target_nodes": "compute11", "target-revision": "committed"});
    let id = first.begin("redeploy_server", &redeploy);
    first.wait_for_step(&id, "drain", "running");
    let is_kept_out = |word: &str| {
        let other = second.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
        let found = second.wait_for(&other, "Failed");
        let state = state_of(&found, "dag_concurrency_check");
        assert_eq!(state.as_deref(), Some("failed"), "{word}: {found}");
        let answer = second.post(&super::super::on("compute12", "drain"));
        assert_eq!(
            answer.reason(),
            (409, "Conflict".to_owned()),
            "{word}: {answer:?}"
        );
    };
    is_kept_out("while it runs");
    first.signal("KILL");
    first.wait();
    is_kept_out("after it was killed");
    let first = Service::start(&one, &["--resume-interrupted"]);
    first.wait_for(&id, "Complete");
    let found = second.wait_for(&id, "Complete");
    assert_eq!(found["parameters"], redeploy);
    let other = second.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
    second.wait_for(&other, "Complete");
    let log = two.run(&["log", "--format", "json"]).with(0).json();
    let runs = log["runs"].as_array().unwrap().iter();
    assert_eq!(
        runs.filter(|run| run["action"] == "redeploy").count(),
        1,
        "{log}"
    );
}
