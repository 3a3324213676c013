//! Actions: one at a time, controlled, and found again.

use serde_json::{Value, json};

use super::super::{Service, deployed, settings};
use super::{error, state_of};
use crate::fixture::{Fixture, wait_until};

/// The record of the newest run.
fn newest(fixture: &Fixture) -> Value {
    fixture.run(&["log", "--format", "json"]).with(0).json()["runs"][0].clone()
}

/// A site in real time, where draining compute11 takes seconds and all else is fast.
fn slow() -> Fixture {
    let fixture = deployed("");
    let fast = "durations: {change: 0.2, shutdown_kubelet: 0.2, join: 0.2}, pods: [{name: web, nodes: [compute11], ends_after: 4}]";
    settings(&fixture, "clock: real", fast);
    fixture.checkout.commit("In real time");
    fixture
}

/// A redeployment that takes seconds: the node is drained first.
fn redeploy(node: &str) -> Value {
    json!({"target_nodes": [node], "target-revision": "committed"})
}

#[test]
fn a_second_action_has_begun_and_fails_at_its_concurrency_check() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let first = service.begin("redeploy_server", &redeploy("compute11"));
    service.wait_for_step(&first, "drain", "running");
    let second = service.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
    let found = service.wait_for(&second, "Failed");
    assert_eq!(
        state_of(&found, "dag_concurrency_check").as_deref(),
        Some("failed")
    );
    assert_eq!(state_of(&found, "plan").as_deref(), Some("upstream_failed"));
    let note = found["notes"][0]["note_val"].as_str().unwrap();
    assert!(
        note.contains("held by `redeploy` of node `compute11`"),
        "{note}"
    );
    let step = service.shipyard(&format!(
        "/actions/{second}/steps/dag_concurrency_check/logs"
    ));
    assert!(step.body.contains("held by `redeploy`"), "{step:?}");
    let found = service.wait_for(&first, "Complete");
    assert_eq!(state_of(&found, "deploy").as_deref(), Some("success"));
    // The ids of actions are in the order in which they were asked for.
    let list = service.shipyard("/actions").json();
    let list = list.as_array().unwrap();
    let ids = list.iter().map(|each| each["id"].as_str().unwrap());
    let ids: Vec<&str> = ids
        .filter(|id| [&first, &second].contains(&&(*id).to_owned()))
        .collect();
    assert_eq!(ids, [&first, &second]);
    let listed = list.iter().find(|each| each["id"] == *first).unwrap();
    assert_eq!(state_of(listed, "deploy").as_deref(), Some("success"));
}

#[test]
fn a_command_that_holds_the_site_fails_the_concurrency_check() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let command = fixture.start(&["apply", "--yes", "drain", "compute11"]);
    wait_until("the command takes no lock", || {
        service.get("/metrics").body.contains("trueup_lock_held 1")
    });
    let id = service.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
    let found = service.wait_for(&id, "Failed");
    assert_eq!(
        state_of(&found, "dag_concurrency_check").as_deref(),
        Some("failed")
    );
    command.wait_with_output().unwrap();
}

#[test]
fn an_action_is_paused_and_resumed_or_stopped_for_good() {
    let fixture = slow();
    let service = Service::start(&fixture, &["--stop-grace", "1"]);
    let id = service.begin("redeploy_server", &redeploy("compute11"));
    service.wait_for_step(&id, "drain", "running");
    assert_eq!(service.control(&id, "unpause").code, 409);
    assert_eq!(
        error(&service.control(&id, "halt")),
        (404, "Control not supported".to_owned())
    );
    assert_eq!(service.control(&id, "pause").code, 202);
    let found = service.wait_for(&id, "Paused");
    assert_eq!(found["dag_status"], "paused");
    assert_eq!(newest(&fixture)["outcome"], "interrupted");
    assert_eq!(error(&service.control(&id, "pause")).0, 409);
    // The site is the paused action's.
    let other = service.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
    let found = service.wait_for(&other, "Failed");
    assert_eq!(
        state_of(&found, "dag_concurrency_check").as_deref(),
        Some("failed")
    );
    let resumed = service.control(&id, "unpause");
    assert_eq!((resumed.code, resumed.body.as_str()), (202, ""));
    let found = service.wait_for(&id, "Complete");
    assert_eq!(
        state_of(&found, "deploy").as_deref(),
        Some("success"),
        "{found}"
    );
    assert_eq!(newest(&fixture)["outcome"], "succeeded");

    wait_until("the place stays taken", || {
        let id = service.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
        let found = service.described(&id);
        state_of(&found, "dag_concurrency_check").as_deref() != Some("failed")
    });
    wait_until("an action runs on", || {
        let list = service.shipyard("/actions").json();
        list.as_array()
            .unwrap()
            .iter()
            .all(|each| each["action_lifecycle"] != "Processing")
    });
    let id = service.begin("redeploy_server", &redeploy("compute11"));
    service.wait_for_step(&id, "drain", "running");
    assert_eq!(service.control(&id, "stop").code, 202);
    service.wait_for(&id, "Failed");
    assert_eq!(newest(&fixture)["outcome"], "abandoned");
    assert_eq!(
        error(&service.control(&id, "stop")),
        (409, "Unable to stop action".to_owned())
    );
    wait_until("the site is not free", || {
        let id = service.begin("relabel_nodes", &json!({"target_nodes": "compute12"}));
        wait_until("it does not end", || {
            service.described(&id)["action_lifecycle"] != "Processing"
        });
        service.described(&id)["action_lifecycle"] == "Complete"
    });
}

#[test]
fn an_action_of_a_service_that_was_killed_is_found_again_and_resumed_or_stopped() {
    let fixture = slow();
    let mut service = Service::start(&fixture, &[]);
    let id = service.begin("redeploy_server", &redeploy("compute11"));
    service.wait_for_step(&id, "drain", "running");
    service.signal("KILL");
    service.wait();
    let mut service = Service::start(&fixture, &["--stop-grace", "1"]);
    let found = service.described(&id);
    assert_eq!(found["action_lifecycle"], "Paused", "{found}");
    assert_eq!(
        (&found["name"], &found["parameters"]),
        (&json!("redeploy_server"), &redeploy("compute11"))
    );
    assert_eq!(service.control(&id, "unpause").code, 202);
    wait_until("it is not resumed", || {
        service.described(&id)["action_lifecycle"] == "Processing"
    });
    // The resumed run is paused, too, and stopped by another service.
    wait_until("it is not paused", || {
        let paused = service.control(&id, "pause").code;
        assert!(paused == 202 || paused == 409);
        newest(&fixture)["outcome"] == "interrupted"
            && service.described(&id)["action_lifecycle"] == "Paused"
    });
    service.signal("TERM");
    service.wait();
    let service = Service::start(&fixture, &[]);
    assert_eq!(service.control(&id, "stop").code, 202);
    service.wait_for(&id, "Failed");
    assert_eq!(newest(&fixture)["outcome"], "abandoned");
}

#[test]
fn what_shipyard_checks_before_an_action_is_checked() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let none = json!({});
    for (name, parameters, title) in [
        (
            "redeploy_server",
            json!({"target_nodes": "compute*"}),
            "Invalid target_nodes parameter",
        ),
        (
            "redeploy_server",
            json!({"target_nodes": ""}),
            "Invalid target_nodes parameter",
        ),
        (
            "relabel_nodes",
            none.clone(),
            "Invalid target_nodes parameter",
        ),
        (
            "redeploy_server",
            json!({"target_nodes": "compute11", "target-revision": "git:HEAD"}),
            "Unable to start action",
        ),
        (
            "update_site",
            json!({"continue-on-fail": "perhaps"}),
            "Unable to start action",
        ),
        ("update_software", none.clone(), "Unable to start action"),
    ] {
        assert_eq!(
            error(&service.ask_for(name, &parameters)),
            (400, title.to_owned()),
            "{name}"
        );
    }
    let wrong = service.request("POST", "/api/v1.0/actions", &[], "[1]");
    assert_eq!(error(&wrong), (400, "Invalid JSON body".to_owned()));
    // The name of a rack is no node.
    let unknown = service.ask_for(
        "redeploy_server",
        &json!({"target_nodes": "rack01", "target-revision": "committed"}),
    );
    assert_eq!(
        error(&unknown),
        (400, "Invalid target_nodes parameter".to_owned())
    );
    assert_eq!(unknown.json()["reason"], "there is no node `rack01`");
    // Commits between the last action and this one.
    fixture.checkout.write("motd.yaml", super::document("motd"));
    fixture.checkout.commit("One");
    fixture.checkout.write(
        "motd.yaml",
        super::document("motd").replace("hello", "there"),
    );
    fixture.checkout.commit("Two");
    let answer = service.ask_for("update_site", &none);
    assert_eq!(
        error(&answer),
        (409, "Intermediate commit detected".to_owned())
    );
    assert!(answer.body.contains(" One"), "{answer:?}");
    // The default of a redeployment is what succeeded last, which is another commit: its guards would not be protected.
    let answer = service.ask_for("redeploy_server", &json!({"target_nodes": "compute11"}));
    assert_eq!(error(&answer), (400, "Unable to start action".to_owned()));
    assert!(answer.body.contains("--backends-from"), "{answer:?}");
    let allowed = service.ask_with(
        "update_site",
        &none,
        "allow-intermediate-commits=True&verbosity=1",
    );
    assert_eq!(allowed.code, 201, "{allowed:?}");
    let id = allowed.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        service.wait_for(&id, "Complete")["allow_intermediate_commits"],
        true
    );
    // By a parameter, too.
    fixture
        .checkout
        .write("motd.yaml", super::document("motd").replace("hello", "x"));
    fixture.checkout.commit("Three");
    fixture.checkout.write(
        "motd.yaml",
        "---\nschema: drydock/BootAction/v1\nmetadata: {name: 7}\n",
    );
    fixture.checkout.commit("Four");
    let allow = json!({"allow-intermediate-commits": "true"});
    let answer = service.ask_for("update_site", &allow);
    assert_eq!(
        error(&answer),
        (400, "Document validation failed".to_owned())
    );
    assert!(answer.json()["details"]["errorCount"].as_u64().unwrap() > 0);
}

#[test]
fn local_storage_is_preserved_where_that_is_asked_for() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let mut parameters =
        json!({"target_nodes": "compute11,compute12", "preserve-local-storage": "true"});
    parameters["target-revision"] = json!("last-site-action");
    let id = service.begin("redeploy_server", &parameters);
    let found = service.wait_for(&id, "Complete");
    assert_eq!(found["parameters"], parameters);
    let run = newest(&fixture)["run"].as_str().unwrap().to_owned();
    let plan = fixture
        .run(&["show", &run, "--plan", "--format", "json"])
        .with(0)
        .json();
    assert_eq!(
        plan["options"]["leaving"]["preserve_local_storage"], true,
        "{}",
        plan["options"]
    );
    let nodes: Vec<&str> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["kind"] == "redeploy")
        .map(|change| change["node"].as_str().unwrap())
        .collect();
    assert_eq!(nodes, ["compute11", "compute12"]);
}

#[test]
fn a_site_is_tested_and_nothing_is_changed() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let before = newest(&fixture)["run"].clone();
    let id = service.begin("test_site", &json!({"release": "any"}));
    service.wait_for(&id, "Complete");
    fixture
        .checkout
        .write("motd.yaml", super::boot_action("motd"));
    fixture.checkout.commit("Another boot action");
    let id = service.begin("test_site", &json!({}));
    let found = service.wait_for(&id, "Failed");
    assert!(
        found["notes"][0]["note_val"]
            .as_str()
            .unwrap()
            .contains("not as designed"),
        "{found}"
    );
    let id = found["notes"][0]["note_id"].as_str().unwrap();
    let details = service.shipyard(&format!("/notedetails/{id}"));
    assert_eq!(details.code, 200);
    assert!(details.body.contains("compute11: "), "{details:?}");
    assert_eq!(newest(&fixture)["run"], before);
}

#[test]
fn steps_that_fail_are_failed_with_their_words() {
    let faults = "faults: [{nodes: [compute11], step: drain, outcome: fail, message: broken}]";
    let fixture = deployed(faults);
    let service = Service::start(&fixture, &[]);
    let id = service.begin("redeploy_server", &redeploy("compute11"));
    let found = service.wait_for(&id, "Failed");
    assert_eq!(state_of(&found, "drain").as_deref(), Some("failed"));
    assert_eq!(
        state_of(&found, "deploy").as_deref(),
        Some("upstream_failed")
    );
    let step = service
        .shipyard(&format!("/actions/{id}/steps/drain?verbosity=1"))
        .json();
    assert!(
        step["notes"][0]["note_val"]
            .as_str()
            .unwrap()
            .contains("broken"),
        "{step}"
    );
    let quiet = service
        .shipyard(&format!("/actions/{id}/steps/drain?verbosity=0"))
        .json();
    assert_eq!(quiet["notes"], json!([]));
    let log = service.shipyard(&format!("/actions/{id}/steps/drain/logs?try=1"));
    assert!(log.body.contains("broken"), "{log:?}");
    for (parameter, code) in [("try=x", 400), ("try=0", 400), ("try=99", 404)] {
        let answer = service.shipyard(&format!("/actions/{id}/steps/drain/logs?{parameter}"));
        assert_eq!(answer.code, code, "{answer:?}");
    }
    assert_eq!(service.shipyard("/actions/x/steps/drain/logs").code, 400);
    // Another process tells the same.
    let again = Service::start(
        &fixture,
        &[
            "--listen",
            &format!("unix:{}", fixture.checkout.outside().join("t").display()),
        ],
    );
    assert_eq!(again.described(&id), service.described(&id));
}
