//! A site that runs in Ironic is adopted: documents, an empty plan, and nothing but reads.

use reqwest::Method;
use serde_json::{Value, json};

use crate::ironic::Lab;
use crate::site::Site;

/// Enrols a machine, and brings it into use or leaves it available.
async fn machine(lab: &Lab, name: &str, mac: &str, is_used: bool) {
    let body = json!({
        "name": name, "driver": "fake-hardware", "automated_clean": false, "network_interface": "noop",
    });
    let node = lab.api(Method::POST, "nodes", body).await.unwrap();
    let port = json!({"node_uuid": node["uuid"], "address": mac});
    lab.api(Method::POST, "ports", port).await.unwrap();
    lab.drive(name, json!("manage"), "manageable").await;
    lab.drive(name, json!("provide"), "available").await;
    if is_used {
        lab.drive(name, json!("active"), "active").await;
    }
}

/// All nodes with all that Ironic shows of them.
async fn nodes(lab: &Lab) -> Value {
    let mut nodes = lab
        .api(Method::GET, "nodes/detail", Value::Null)
        .await
        .unwrap();
    for node in nodes["nodes"].as_array_mut().unwrap() {
        // The conductor's own heartbeat, whoever asks or does not.
        node["driver_internal_info"] = Value::Null;
    }
    nodes
}

#[tokio::test]
async fn machines_in_use_are_adopted_from_ironic_and_nothing_is_changed_there() {
    let Some(lab) = Lab::start("0") else { return };
    for (number, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        machine(&lab, name, &format!("52:54:00:00:00:0{number}"), true).await;
    }
    machine(&lab, "idle", "52:54:00:00:00:09", false).await;
    let before = nodes(&lab).await;

    let site = Site::new(&[("README", "")]);
    let url = lab.url();
    let from = [
        "adopt",
        "-o",
        "lab",
        "--from",
        "ironic",
        "--url",
        url.as_str(),
    ];
    let refused = site.trueup(&from, &[]).with(4);
    assert!(
        refused.stderr.contains("trueup trust"),
        "{}",
        refused.stderr
    );
    let adopted = site.trueup(&["adopt", "-o", "lab"], &[]).with(0);
    assert!(
        adopted.stderr.contains("with 3 machines"),
        "{}",
        adopted.stderr
    );
    assert!(
        adopted
            .stderr
            .contains("machine idle: its provision state is available")
    );
    let text = std::fs::read_to_string(site.path().join("lab/nodes.yaml")).unwrap();
    assert!(text.contains("boot_mac: '52:54:00:00:00:01'"), "{text}");
    site.git(&["add", "."]);
    site.git(&["commit", "-qm", "Adopt what runs"]);

    let plan = site
        .trueup(&["plan", "--format", "json"], &[])
        .with(0)
        .json();
    let changes = plan["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 3);
    assert!(
        changes.iter().all(|change| change["kind"] == "adopt"),
        "{plan}"
    );
    site.trueup(&["apply", "--yes", "--adopt", "all"], &[])
        .with(0);
    let plan = ["plan", "--format", "json", "--detailed-exitcode"];
    site.trueup(&plan, &[]).with(0);
    let again = site.trueup(&["adopt", "-o", "lab"], &[]).with(0);
    assert!(
        again.stderr.contains("no file was written"),
        "{}",
        again.stderr
    );
    assert_eq!(nodes(&lab).await, before);
}
