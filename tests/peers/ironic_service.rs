//! The service of machines in use on Ironic itself: steps of the design, a runbook whose effect the test plays as the controller
//! of a machine would, and one that fails.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use trueup::backend::{ActError, Hardware as _, NoSecrets, Order, Probe};
use trueup::design::HardwareSetting;
use trueup::lifecycle::ProvisionState;
use trueup::step::StepKind;

use crate::ironic::{Hands, Lab};

const RUNBOOK: &str = "CUSTOM_SERVICE";

/// A machine that is in use, and whose BIOS has a value that is not the designed one.
async fn in_use(lab: &Lab, more: &str) -> Hands {
    let step = json!({"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1});
    let runbook = json!({"name": RUNBOOK, "steps": [step], "disable_ramdisk": false});
    lab.api(Method::POST, "runbooks", runbook).await.unwrap();
    // Its settings are no list, so that the step fails.
    let step = json!({"interface": "bios", "step": "apply_configuration", "args": {"settings": "none"}, "order": 1});
    let broken = json!({"name": "CUSTOM_BROKEN", "steps": [step], "disable_ramdisk": false});
    lab.api(Method::POST, "runbooks", broken).await.unwrap();
    let hands = hands(lab, more);
    hands.act(StepKind::Prepare, "n1").await.unwrap();
    lab.drive("n1", json!("manage"), "manageable").await;
    let settings = json!({"settings": [{"name": "Turbo", "value": "Disabled"}]});
    let step = json!({"interface": "bios", "step": "apply_configuration", "args": settings});
    lab.drive(
        "n1",
        json!({"target": "clean", "clean_steps": [step]}),
        "manageable",
    )
    .await;
    lab.drive("n1", json!("provide"), "available").await;
    hands.act(StepKind::Deploy, "n1").await.unwrap();
    hands
}

fn hands(lab: &Lab, more: &str) -> Hands {
    let document = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata: {mode: enforce, bios: {Turbo: Enabled}}\n";
    let settings = format!(
        "endpoint: {}\n      traits: [{RUNBOOK}, CUSTOM_BROKEN]\n      {more}\n{document}",
        lab.url()
    );
    Hands::of(&["n1"], &settings, Arc::new(NoSecrets))
}

fn service(hands: &Hands, runbook: Option<&str>) -> Order {
    let setting = HardwareSetting {
        name: "bios.Turbo".into(),
        before: None,
        value: "Enabled".into(),
    };
    let parameters = json!({"settings": [setting], "runbook": runbook});
    hands.order(StepKind::Service, Some("n1"), parameters).0
}

/// Waits until a service runs.
async fn serviced(lab: &Lab) {
    for _ in 0..600 {
        let node = lab.api(Method::GET, "nodes/n1", Value::Null).await.unwrap();
        if node["provision_state"] == "servicing" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no service runs");
}

#[tokio::test]
async fn steps_of_the_design_bring_values_true_on_a_machine_in_use() {
    let Some(lab) = Lab::start("1") else { return };
    let hands = in_use(&lab, "").await;
    let seen = hands.seen("n1").await;
    let drift: Vec<String> = seen.drift.iter().map(ToString::to_string).collect();
    assert_eq!(drift, ["bios.Turbo: Disabled, designed Enabled"]);
    assert!(seen.fixed.is_empty(), "{:?}", seen.fixed);
    let order = service(&hands, None);
    assert_eq!(hands.backends.probe(&order).await, Probe::NotBegun);
    hands.backends.act(&order).await.unwrap();
    assert_eq!(hands.backends.probe(&order).await, Probe::Done);
    assert!(hands.seen("n1").await.drift.is_empty());
    let node = lab.api(Method::GET, "nodes/n1", Value::Null).await.unwrap();
    assert_eq!(node["provision_state"], "active");
}

#[tokio::test]
async fn a_step_that_fails_fails_the_service_and_the_machine_is_active_again() {
    let Some(lab) = Lab::start("1") else { return };
    let hands = in_use(&lab, "runbook: CUSTOM_BROKEN").await;
    // The plan has the name that is observed.
    let runbook = hands.seen("n1").await.runbook.clone();
    assert_eq!(runbook.as_deref(), Some("CUSTOM_BROKEN"));
    let order = service(&hands, runbook.as_deref());
    let Err(ActError::Permanent(text)) = hands.backends.act(&order).await else {
        panic!("a service that fails is no success");
    };
    assert!(
        text.contains("`service` ended in service failed")
            && text.ends_with("brought back to active"),
        "{text}"
    );
    let node = lab.api(Method::GET, "nodes/n1", Value::Null).await.unwrap();
    assert_eq!(node["provision_state"], "active");
    assert_eq!(node["maintenance"], false);
    assert_ne!(node["power_state"], "power off");
}

#[tokio::test]
async fn a_runbook_counts_only_by_the_values_after_it_and_is_waited_for_by_the_next_process() {
    let Some(lab) = Lab::start("2") else { return };
    let hands = in_use(&lab, &format!("runbook: {RUNBOOK}")).await;
    let order = service(&hands, Some(RUNBOOK));
    let Err(ActError::Permanent(text)) = hands.backends.act(&order).await else {
        panic!("a service that changes nothing is no success");
    };
    let left = "tried 2 times, and not changed: `bios.Turbo` shows Disabled, designed Enabled";
    assert!(text.ends_with(left), "{text}");
    assert_eq!(hands.state("n1").await, ProvisionState::Active);

    // The process is gone in the middle of the service, and its controller does what it should.
    let again = || {
        let more = format!("runbook: {RUNBOOK}");
        self::hands(&lab, &more).of_run("01J00000000000000000000002")
    };
    let other = again();
    let order = service(&other, Some(RUNBOOK));
    tokio::select! {
        ended = other.backends.act(&order) => panic!("{ended:?}"),
        () = serviced(&lab) => {}
    }
    lab.sql("UPDATE bios_settings SET value = ?", &["Enabled"]);
    let later = again();
    let order = service(&later, Some(RUNBOOK));
    assert_eq!(later.backends.probe(&order).await, Probe::UnderWay);
    later.backends.act(&order).await.unwrap();
    assert_eq!(later.backends.probe(&order).await, Probe::Done);
    assert!(later.seen("n1").await.drift.is_empty());
}
