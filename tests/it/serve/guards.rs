//! The service acts under the guards that hold when it acts, by each of its interfaces.

use serde_json::{Value, json};

use super::{Answer, Service};
use crate::fixture::Fixture;
use crate::guards_at_places::{LOOSE, NODE, ROWS, before, destroyed, tighten, write_policy};

/// What a redeploy ends with over Shipyard's interface, as all of its texts.
fn as_action(service: &Service) -> String {
    let parameters = json!({"target_nodes": [NODE], "target-revision": "committed"});
    let id = service.begin("redeploy_server", &parameters);
    let found = service.wait_for(&id, "Failed");
    let steps = found["steps"].as_array().unwrap().iter();
    let logs = steps.map(|step| {
        let step = step["id"].as_str().unwrap();
        let path = format!("/api/v1.0/actions/{id}/steps/{step}/logs");
        service.get(&path).body
    });
    logs.collect::<String>() + &found.to_string()
}

fn post(service: &Service, path: &str, body: &Value) -> Answer {
    let headers = [("Content-Type", "application/json")];
    service.request("POST", path, &headers, &body.to_string())
}

/// A plan over the interface of the service itself.
fn planned(service: &Service) -> Answer {
    let order = json!({"action": "redeploy", "nodes": [NODE], "revision": "committed"});
    post(service, "/api/v1/plans", &order)
}

/// What a plan ends with that was made before.
fn applied(service: &Service, plan: &Value) -> Answer {
    let path = format!("{}/apply", plan["url"].as_str().unwrap());
    post(service, &path, &json!({"effect": plan["effect"]}))
}

fn in_force(fixture: &Fixture) {
    let apply = ["apply", "guards", "--yes", "--allow-loosening"];
    fixture.run(&apply).with(0);
}

#[test]
fn each_action_is_under_the_guards_of_its_moment() {
    let fixture = before();
    fixture.checkout.commit("A new image");
    let service = Service::start(&fixture, &[]);
    for row in ROWS.iter().filter(|row| row.for_actions) {
        // At HEAD alone: a plan of the moment before is not applied.
        let plan = planned(&service);
        assert_eq!(plan.code, 201, "{}: {plan:?}", row.strict);
        tighten(&fixture, row);
        let answer = applied(&service, &plan.json());
        let what = format!("{} at HEAD: {answer:?}", row.strict);
        assert!(
            answer.code >= 400 && answer.body.contains(row.says),
            "{what}"
        );
        let text = as_action(&service);
        assert!(text.contains(row.says), "{} at HEAD: {text}", row.strict);
        // In force alone.
        let needs_approval = row.strict.contains("approvals");
        if !needs_approval {
            in_force(&fixture);
            write_policy(&fixture, LOOSE);
            let text = as_action(&service);
            assert!(text.contains(row.says), "{} in force: {text}", row.strict);
            in_force(&fixture);
        } else {
            write_policy(&fixture, LOOSE);
        }
        assert_eq!(destroyed(&fixture, NODE), 0, "{}", row.strict);
    }
    let answer = applied(&service, &planned(&service).json());
    assert_eq!(answer.code, 202, "{answer:?}");
}
