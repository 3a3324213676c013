//! Rights in parts of a site: a caller acts on its own machines, and on no other by any way.

use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use super::{Answer, Service, deployed, on, settings};
use crate::fixture::{Fixture, wait_until};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A service whose caller, the user of the tests, has these rights.
fn start(fixture: &Fixture, rights: &str) -> Service {
    let uid = std::fs::metadata(fixture.checkout.path()).unwrap().uid();
    let config = fixture.checkout.outside().join("rights.yaml");
    std::fs::write(&config, format!("peers: {{{uid}: {rights}}}\n")).unwrap();
    Service::start(fixture, &["--config", config.to_str().unwrap()])
}

fn post(service: &Service, path: &str, body: &Value) -> Answer {
    service.request("POST", path, &[JSON], &body.to_string())
}

/// Makes a plan and applies it.
fn apply(service: &Service, order: &Value) -> Answer {
    let plan = post(service, "/api/v1/plans", order);
    assert_eq!(plan.code, 201, "{plan:?}");
    let plan = plan.json();
    let path = format!("{}/apply", plan["url"].as_str().unwrap());
    post(service, &path, &json!({"effect": plan["effect"]}))
}

#[track_caller]
fn refused(answer: &Answer, says: &str) {
    assert_eq!(answer.reason(), (403, "Forbidden".to_owned()), "{answer:?}");
    assert!(answer.body.contains(says), "{says}: {answer:?}");
}

fn runs(fixture: &Fixture) -> usize {
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    log["runs"].as_array().unwrap().len()
}

#[test]
fn a_role_in_parts_of_the_site_acts_on_their_machines_alone() {
    let fixture = deployed("");
    let service = start(
        &fixture,
        "{operator: ['rack:rack01'], admin: ['compute1[12]', 'group:none']}",
    );
    let before = runs(&fixture);
    // Reads, plans and observes all of it.
    assert_eq!(service.get("/api/v1/status").code, 200);
    assert_eq!(service.get("/api/v1/drift?observed=now").code, 200);
    // Operations on nodes.
    for (node, operation, says) in [
        (
            "control02",
            "drain",
            "`kubernetes_provisioner:drain_node` on control02 needs the role `operator` there, and the caller has it for \
             `compute1[12]`, `group:none`, `rack:rack01` alone",
        ),
        (
            "control02",
            "decommission",
            "control02 needs the role `admin` there, and the caller has it for `compute1[12]`, `group:none` alone",
        ),
        ("nothing", "drain", "on nothing needs the role"),
    ] {
        refused(&service.post(&on(node, operation)), says);
        let headers = [("Prefer", "respond-async")];
        let path = on(node, operation);
        refused(&service.request("POST", &path, &headers, ""), says);
    }
    // Plans: one machine among others is enough.
    for nodes in [json!(["control02"]), json!(["compute11", "control02"])] {
        let order = json!({"action": "redeploy", "nodes": nodes, "revision": "committed"});
        refused(&apply(&service, &order), "on control02 needs the role");
    }
    // A limit of the whole site.
    let order = json!({
        "action": "redeploy", "nodes": ["compute11", "compute12"], "revision": "committed", "max_unavailable": "100%",
    });
    refused(&apply(&service, &order), "on the site needs the role");
    // Shipyard's actions.
    let parameters =
        json!({"target_nodes": ["compute11", "control02"], "target-revision": "committed"});
    let action = json!({"name": "redeploy_server", "parameters": parameters});
    let path = "/api/v1.0/actions?allow-intermediate-commits=true";
    let answer = post(&service, path, &action);
    assert_eq!(answer.code, 403, "{answer:?}");
    // What is no machine's.
    let documents = service.request(
        "POST",
        "/api/v1.0/configdocs/site",
        &[("Content-Type", "application/x-yaml")],
        "",
    );
    assert_eq!(documents.code, 403, "{documents:?}");
    let secrets = service.get("/api/v1.0/configdocs/site?version=committed&cleartext-secrets=true");
    assert_eq!(secrets.code, 403, "{secrets:?}");
    assert_eq!(runs(&fixture), before, "no run has begun");
    let told = service.log();
    let warning = "bound to `group:none`, which means no machine of the committed design";
    assert!(told.contains(warning), "{told}");
    assert!(!told.contains("bound to `rack:rack01`"), "{told}");
    assert!(told.contains(": 403 Forbidden, request "), "{told}");
    assert!(
        told.contains(" at user id ") && !told.contains("Some("),
        "{told}"
    );

    let drained = service.post(&on("compute11", "drain"));
    assert_eq!(drained.reason(), (200, "Success".to_owned()), "{drained:?}");
    let order = json!({"action": "redeploy", "nodes": ["compute11"], "revision": "committed"});
    let applied = apply(&service, &order);
    assert_eq!(applied.code, 202, "{applied:?}");
    let url = format!("/api/v1/runs/{}", applied.json()["run"].as_str().unwrap());
    wait_until("the run does not end", || {
        service.get(&url).json()["run"]["outcome"] == "succeeded"
    });
}

#[test]
fn an_action_on_the_site_is_refused_for_its_first_machine_elsewhere() {
    let fixture = deployed("");
    let service = start(&fixture, "{admin: ['compute*']}");
    let before = runs(&fixture);
    let parameters = json!({});
    // Nothing is to be done, and so nothing is refused.
    let id = service.begin("update_site", &parameters);
    service.wait_for(&id, "Complete");
    for path in ["nodes/compute.yaml", "nodes/control.yaml"] {
        let text = fixture.read(path);
        let labelled = text.replace("{rack: ", "{owner_data: {owner: olga}, rack: ");
        fixture.checkout.write(path, labelled);
    }
    let policy = fixture.read("policy.yaml");
    let policy = policy.replace("per_rack: 2", "per_rack: 1");
    fixture.checkout.write("policy.yaml", policy);
    fixture
        .checkout
        .commit("Other labels, and a stricter guard");
    let id = service.begin("update_site", &parameters);
    let found = service.wait_for(&id, "Failed");
    assert!(
        found.to_string().contains("needs the role `admin` there"),
        "{found}"
    );
    // Guards are those of the whole site, and so is the revision that it has reached.
    for order in [
        json!({"action": "guards", "revision": "committed"}),
        json!({"action": "update", "revision": "committed"}),
    ] {
        refused(&apply(&service, &order), "on the site needs the role");
    }
    assert_eq!(runs(&fixture), before, "no run has begun");
    let update = json!({"action": "update", "revision": "committed"});
    refused(&apply(&service, &update), "an update with `targets`");
    // Its own machines are brought to the revision while others differ.
    let order = json!({"action": "update", "targets": ["compute*"], "revision": "committed"});
    let applied = apply(&service, &order);
    assert_eq!(applied.code, 202, "{applied:?}");
    let url = format!("/api/v1/runs/{}", applied.json()["run"].as_str().unwrap());
    wait_until("the run does not end", || {
        service.get(&url).json()["run"]["outcome"] == "succeeded"
    });
    assert_eq!(service.get(&url).json()["run"]["partial"], true);
}

#[test]
fn the_design_that_a_request_names_gives_no_right() {
    let fixture = deployed("");
    let service = start(&fixture, "{admin: ['tag:spare']}");
    let text = fixture.read("nodes/control.yaml");
    let moved = text.replace("tags: [control]", "tags: [spare, control]");
    assert_ne!(moved, text);
    fixture.checkout.write("nodes/control.yaml", moved);
    fixture.checkout.commit("All of the control plane is spare");
    let spare = fixture.checkout.git(&["rev-parse", "HEAD"]);
    fixture.checkout.write("nodes/control.yaml", text);
    fixture.checkout.commit("It is not");
    let body = json!({"href": format!("git:{}", spare.trim())}).to_string();
    let path = on("control02", "decommission");
    refused(
        &service.request("POST", &path, &[JSON], &body),
        "the caller has it for `tag:spare` alone",
    );
}

#[test]
fn a_run_is_controlled_by_who_may_change_its_machines() {
    let fixture = deployed("");
    let pods = "durations: {change: 0.2}, pods: [{name: web, nodes: [compute11], ends_after: 4}]";
    settings(&fixture, "clock: real", pods);
    fixture.checkout.commit("In real time");
    let boss = Service::start(&fixture, &[]);
    let parameters = json!({"target_nodes": ["compute11"], "target-revision": "committed"});
    let id = boss.begin("redeploy_server", &parameters);
    boss.wait_for_step(&id, "drain", "running");
    assert_eq!(boss.control(&id, "pause").code, 202);
    boss.wait_for(&id, "Paused");
    drop(boss);
    let other = start(&fixture, "{admin: [compute12]}");
    let answer = other.control(&id, "stop");
    assert_eq!(answer.code, 403, "{answer:?}");
    assert!(answer.body.contains("on compute11"), "{answer:?}");
    drop(other);
    let own = start(&fixture, "{admin: [compute11]}");
    assert_eq!(own.control(&id, "stop").code, 202);
    own.wait_for(&id, "Failed");
}
