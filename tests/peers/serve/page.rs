//! The page of a service in Chromium: it is read in every look and without scripts, follows a run, and asks nobody else.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::client::Service;
use super::keystone::deployed;
use crate::browser::browser;
use crate::harness::wait_until;
use crate::site::Site;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/serve/page.mjs");

/// The message of a step that fails, which a page must show as text.
const HOSTILE: &str = "<img src=https://example.org/x onerror=alert(1)>";

/// A site whose redeploy of a machine fails, in real time, and its service.
fn start() -> (Site, Service, tempfile::TempDir) {
    let site = deployed();
    let backends = format!(
        "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: sim\n    \
         sim: {{clock: real, durations: {{prepare: 12, deploy: 12, destroy: 12, relabel: 1, power: 1}}, \
         faults: [{{nodes: [compute12], step: deploy, outcome: fail, message: '{HOSTILE}'}}]}}\n  \
         clusters:\n    kubernetes:\n      kind: sim\n      sim: {{durations: {{change: 1, shutdown_kubelet: 1, join: 1}}}}\n"
    );
    site.commit(&[("backends.yaml", &backends)]);
    let outside = tempfile::tempdir().unwrap();
    let config = outside.path().join("serve.yaml");
    std::fs::write(
        &config,
        "loopback: admin\nlimits: {requests_per_second: 1000}\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", config];
    let service = Service::spawn(&mut site.program(&arguments));
    (site, service, outside)
}

/// Begins the run; its id.
fn redeploy(service: &Service) -> String {
    let post = |path: &str, body: Value| {
        let headers = [("Content-Type", "application/json")];
        service
            .request("POST", path, &headers, &body.to_string())
            .json()
    };
    let order =
        json!({"action": "redeploy", "nodes": ["compute11", "compute12"], "revision": "committed"});
    let plan = post("/api/v1/plans", order);
    let path = format!("{}/apply", plan["url"].as_str().unwrap());
    let action = post(&path, json!({"effect": plan["effect"]}));
    action["run"]
        .as_str()
        .unwrap_or_else(|| panic!("{action}"))
        .to_owned()
}

#[test]
fn a_run_is_followed_on_the_page() {
    let Some((modules, chromium)) = browser() else {
        return;
    };
    let (_site, service, _outside) = start();
    let run = redeploy(&service);
    let path = format!("/api/v1/runs/{run}/progress");
    wait_until("nothing is in work", || {
        service.get(&path).json()["in_work"] != json!([])
    });
    let origin = format!("http://{}", service.address());
    let home = tempfile::tempdir().unwrap();
    let ended = Command::new("node")
        .args([Path::new(SCRIPT), &modules, &chromium])
        .args([&origin, &run])
        .env("HOME", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let seen: Value = serde_json::from_slice(&ended.stdout).unwrap();
    for nothing in ["elsewhere", "errors", "violations"] {
        assert_eq!(seen[nothing], json!([]), "{nothing}");
    }
    let looks = seen["axe"].as_object().unwrap();
    assert_eq!(looks.len(), 10);
    for (look, violations) in looks {
        assert_eq!(*violations, json!([]), "{look}");
        assert_eq!(seen["wide"][look], false, "{look}: it scrolls sideways");
    }
    assert_eq!(seen["plain"]["title"], "redeploy is running");
    assert_eq!(seen["plain"]["groups"], 1);
    assert_ne!(seen["plain"]["lines"], 0);
    assert_eq!(seen["begins"], "redeploy is running");
    assert!(
        seen["works"][0].as_str().unwrap().starts_with("compute1"),
        "{seen}"
    );
    assert_eq!(seen["grew"], true);
    assert_eq!(seen["doubled"], json!([]), "lines that are shown twice");
    assert!(
        seen["failed"][0].as_str().unwrap().contains(HOSTILE),
        "{seen}"
    );
    assert_ne!(seen["ends"], seen["begins"]);
    assert_eq!(seen["report"], true);
    assert_eq!(seen["skip"], "#main");
    let reached = seen["reached"].as_array().unwrap();
    assert!(reached.contains(&json!("log")), "{reached:?}");
}
