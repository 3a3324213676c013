//! Each version of the API takes what is sent to it, and what it cannot take is refused before anything is changed.

use super::*;

/// Parameters of requests and resources that are new in a version, as Ironic's history of versions has them: where they are, their names,
/// and the minor version.
const NEW: [(&str, &str, u32); 7] = [
    ("/v1/nodes", "firmware_interface", 86),
    ("/states/provision", "deploy_steps", 69),
    ("/states/provision", "service_steps", 87),
    ("/states/provision", "runbook", 92),
    ("/bios?", "detail", 74),
    ("/inventory", "", 81),
    ("/firmware", "", 86),
];

/// Versions before and after each change, and the newest.
const VERSIONS: [u32; 12] = [61, 68, 69, 72, 74, 77, 81, 85, 86, 87, 92, 115];

/// A machine with steps of its own, and one without.
const MACHINES: &str = "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: stepped}\ndata:\n  \
    platform: {deploy_steps: [{interface: bios, step: apply_configuration, priority: 150}]}\n";

/// The refusal of what a version does not have, by a server that has this one.
fn newer(received: &Received, newest: u32) -> Option<Reply> {
    let path = &received.path;
    let is_sent = |(place, name, _): &&(&str, &str, u32)| match place.ends_with("nodes") {
        true => path == place && received.body.get(name).is_some(),
        false if received.method == "PUT" => {
            path.ends_with(place) && received.body.get(name).is_some()
        }
        false => received.method == "GET" && path.contains(place) && path.contains(name),
    };
    let found = NEW.iter().find(|row| row.2 > newest && is_sent(row))?;
    let words = format!("The minimal required API version should be 1.{}", found.2);
    let inner = json!({"faultcode": "Client", "faultstring": words}).to_string();
    Some(Reply::json(406, json!({ "error_message": inner })))
}

async fn served(newest: u32) -> Server {
    let stand_in = StandIn::new().newest(newest);
    stand_in
        .serve_but(move |received| newer(received, newest))
        .await
}

#[tokio::test(start_paused = true)]
async fn each_version_takes_what_is_sent_and_what_it_cannot_take_is_refused_in_the_plan() {
    let settings = "driver: fake-hardware, interfaces: {firmware_interface: redfish}";
    for newest in VERSIONS {
        let server = served(newest).await;
        let design = site(&server.url, settings, &["plain".to_owned()], MACHINES);
        let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
        let nodes = ["plain", "stepped"].map(|name| design.nodes[&NodeName::from(name)].clone());
        let seen = ironic.observe(&nodes).await;
        let told = |name: &str| seen[&NodeName::from(name)].unsupported.join("\n");
        let says = |text: &str, what: &str, since: u32| {
            let expected = format!("speaks version 1.{newest} of its API, and {what} 1.{since}");
            assert_eq!(text.contains(&expected), newest < since, "{newest}: {text}");
        };
        for name in ["plain", "stepped"] {
            says(&told(name), "`interfaces.firmware_interface` needs", 86);
        }
        says(
            &told("stepped"),
            "deploy steps (`platform.deploy_steps`) need",
            69,
        );
        assert!(!told("plain").contains("deploy_steps"));
        assert!(changes(&server).is_empty(), "{newest}");

        // What is not refused is taken.
        for name in ["plain", "stepped"] {
            if !told(name).is_empty() {
                continue;
            }
            let steps = match name {
                "stepped" => vec![DeployStep {
                    interface: Arc::from("bios"),
                    step: Arc::from("apply_configuration"),
                    priority: 150,
                    arguments: None,
                }],
                _ => Vec::new(),
            };
            act(&ironic, &design, StepKind::Prepare, name)
                .await
                .unwrap();
            let parameters = json!({"deploy_steps": steps});
            let order = order(&design, StepKind::Deploy, name, parameters);
            ironic
                .act(&order)
                .await
                .unwrap_or_else(|error| panic!("{newest}, {name}: {error}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_steps_needs_no_version() {
    let server = served(68).await;
    let machines = "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: empty}\ndata: {platform: {deploy_steps: []}}\n";
    let design = site(&server.url, "", &[], machines);
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    let seen = ironic.observe(&[design.nodes["empty"].clone()]).await;
    assert!(seen[&NodeName::from("empty")].unsupported.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_anything_special_is_deployed_and_torn_down_with_each_version() {
    for newest in VERSIONS {
        let server = served(newest).await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        let kinds = [
            StepKind::VerifySite,
            StepKind::Prepare,
            StepKind::Deploy,
            StepKind::Destroy,
        ];
        for kind in kinds {
            let acted = act(&ironic, &design, kind, "n1").await;
            assert_eq!(acted, Ok(()), "{newest}: {kind:?}");
        }
        let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
        assert!(seen[&NodeName::from("n1")].unsupported.is_empty());
    }
}
