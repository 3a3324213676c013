//! The service of machines in use: never a success that a second reading does not show, and a machine that is active after it.

use std::time::Duration;

use super::standin::Service;
use super::*;
use crate::observed::Capability;

const DOCUMENT: &str = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  firmware:\n    \
    bmc: {version: '7.1', image: {url: 'http://images/bmc_7.1.bin'}}\n  bios: {Turbo: Enabled}\n";
const TURBO: (&str, &str) = ("bios.Turbo", "Enabled");
const BMC: (&str, &str) = ("firmware.bmc", "7.1");

async fn machine(service: Service, newest: u32) -> (StandIn, Server) {
    let stand_in = StandIn::new().newest(newest).with("n1", "active");
    stand_in.set("n1", "power_state", json!("power on"));
    stand_in.set("n1", "provision_updated_at", json!("2025-12-31T00:00:00"));
    stand_in.fixture().service = service;
    let server = stand_in.serve().await;
    (stand_in, server)
}

fn serviced(url: &str, settings: &str, document: &str) -> (Ironic, Guarded) {
    let design = site(
        url,
        &format!("driver: fake-hardware{settings}"),
        &["n1".to_owned()],
        document,
    );
    (open(&design, Arc::new(NoSecrets)).unwrap(), design)
}

/// Acts as a run does: an error that can pass, or whose outcome is not known, is retried if the probe allows it.
async fn run(ironic: &Ironic, order: &Order) -> Result<(), ActError> {
    for attempt in 1.. {
        let error = match ironic.act(order).await {
            Ok(()) => return Ok(()),
            Err(error @ (ActError::Permanent(_) | ActError::Refused(_))) => return Err(error),
            Err(error) => error,
        };
        match ironic.probe(order).await {
            Probe::Done => return Ok(()),
            Probe::NotBegun | Probe::UnderWay if attempt < 3 => {}
            Probe::NotBegun | Probe::UnderWay | Probe::Ambiguous(_) => return Err(error),
        }
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn updates_and_settings_are_asked_for_together() {
    let (stand_in, server) = machine(Service::Well, 115).await;
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
    let seen = &seen[&NodeName::from("n1")];
    let drift: Vec<String> = seen.drift.iter().map(ToString::to_string).collect();
    assert_eq!(
        drift,
        [
            "bios.Turbo: Disabled, designed Enabled",
            "firmware.bmc: 7.0, designed 7.1"
        ]
    );
    assert!(seen.capabilities.contains(Capability::Service) && seen.fixed.is_empty());
    let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO, BMC]));
    assert_eq!(ironic.probe(&order).await, Probe::NotBegun);
    run(&ironic, &order).await.unwrap();
    assert_eq!(ironic.probe(&order).await, Probe::Done);
    let update = json!({"component": "bmc", "url": "http://images/bmc_7.1.bin"});
    let setting = json!({"name": "Turbo", "value": "Enabled"});
    let steps = json!([
        {"interface": "firmware", "step": "update", "args": {"settings": [update]}},
        {"interface": "bios", "step": "apply_configuration", "args": {"settings": [setting]}},
    ]);
    assert_eq!(
        stand_in.fixture().serviced,
        [json!({"target": "service", "service_steps": steps})]
    );
    // What is so already is asked for no more.
    ironic.act(&order).await.unwrap();
    assert_eq!(stand_in.fixture().serviced.len(), 1);
}

/// The ways of a service, whether the step may succeed, how often it is asked for, and the state of the machine after it.
const WAYS: [(Service, bool, usize, &str); 10] = [
    (Service::Well, true, 1, "active"),
    (Service::Unchanged, false, 2, "active"),
    (Service::SecondTry, true, 2, "active"),
    (Service::Half, false, 2, "active"),
    (Service::Fails, false, 1, "active"),
    (Service::FailsChanged, false, 1, "active"),
    (Service::NotOffered, false, 1, "active"),
    (Service::FailsForGood, false, 1, "service failed"),
    (Service::Holds, false, 1, "service hold"),
    (Service::LeavesOff, true, 1, "active"),
];

#[tokio::test(start_paused = true)]
async fn no_report_of_ironic_makes_a_success_and_the_machine_is_active_after_a_failure() {
    for (way, succeeds, times, state) in WAYS {
        let (stand_in, server) = machine(way, 115).await;
        let (ironic, design) = serviced(&server.url, "", DOCUMENT);
        let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO, BMC]));
        let ended = run(&ironic, &order).await;
        assert_eq!(ended.is_ok(), succeeds, "{way:?}: {ended:?}");
        assert_eq!(stand_in.fixture().serviced.len(), times, "{way:?}");
        assert_eq!(stand_in.state("n1"), state, "{way:?}");
        let is_on = stand_in.node("n1")["power_state"] == "power on";
        assert!(is_on, "{way:?}");
        if way == Service::Fails {
            let text = permanent(ended);
            let reason = "node `n1`: `service` ended in service failed: Node failed step bios.apply_configuration: it is locked; \
                          it was brought back to active";
            assert_eq!(text, reason);
            assert_eq!(stand_in.node("n1")["maintenance"], false);
        }
    }
    let (_, server) = machine(Service::Half, 115).await;
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO, BMC]));
    let text = permanent(run(&ironic, &order).await);
    assert!(
        text.ends_with("not changed: `firmware.bmc` shows 7.0, designed 7.1"),
        "{text}"
    );
    // What Ironic accepts and leaves alone is no success either.
    let (_, server) = machine(Service::Ignored, 115).await;
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let order = super::order(&design, StepKind::Service, "n1", of_settings(&[TURBO]));
    assert!(matches!(
        run(&ironic, &order).await,
        Err(ActError::Passing(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn an_ironic_that_is_too_old_is_told_before_anything_is_changed() {
    let old = "speaks version 1.86 of its API, and a service needs 1.87";
    let runbooks = "speaks version 1.87 of its API, and runbooks need 1.92";
    let runbook = ", runbook: CUSTOM_ALL";
    for (newest, more, reason) in [(86, "", old), (87, runbook, runbooks)] {
        let (stand_in, server) = machine(Service::Well, newest).await;
        let (ironic, design) = serviced(&server.url, more, DOCUMENT);
        let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
        let fixed = &seen[&NodeName::from("n1")].fixed;
        assert_eq!(fixed.len(), 2, "{fixed:?}");
        assert!(
            fixed.iter().all(|value| value.reason.ends_with(reason)),
            "{fixed:?}"
        );
        let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO]));
        let text = permanent(ironic.act(&order).await);
        assert!(text.ends_with(reason), "{text}");
        assert!(changes(&server).is_empty(), "{:?}", changes(&server));
        assert_eq!(stand_in.state("n1"), "active");
    }
    // Before versions of firmware are shown, those of the BIOS are.
    let (_stand_in, server) = machine(Service::Well, 72).await;
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
    let drift = &seen[&NodeName::from("n1")].drift;
    assert_eq!(drift.len(), 1, "{drift:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runbook_takes_the_place_of_the_steps() {
    let (stand_in, server) = machine(Service::Well, 92).await;
    let profile = "---\nschema: drydock/HardwareProfile/v1\nmetadata: {name: DELL}\ndata: {vendor: Dell}\n\
        ---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: n2}\ndata: {hardware_profile: DELL}\n";
    let (ironic, design) = serviced(
        &server.url,
        ", runbook: 'CUSTOM_{profile}'",
        &format!("{DOCUMENT}{profile}"),
    );
    let stand_in = stand_in.with("n2", "active");
    // What is not shown cannot be confirmed afterwards.
    stand_in.fixture().values.remove("firmware.bmc");
    let seen = ironic.observe(&[design.nodes["n2"].clone()]).await;
    let fixed = &seen[&NodeName::from("n2")].fixed;
    assert_eq!(
        (fixed.len(), &*fixed[0].reason),
        (1, "Ironic does not show it")
    );
    let runbook = seen[&NodeName::from("n2")].runbook.as_deref();
    assert_eq!(runbook, Some("CUSTOM_DELL"));
    // The one of the plan counts, and no other.
    let without = of_settings(&[TURBO]);
    let order = |parameters| super::order(&design, StepKind::Service, "n2", parameters);
    let text = permanent(ironic.act(&order(without.clone())).await);
    assert!(text.ends_with("plan again"), "{text}");
    let (another, _) = serviced(
        &server.url,
        ", runbook: CUSTOM_OTHER",
        &format!("{DOCUMENT}{profile}"),
    );
    assert!(stand_in.fixture().serviced.is_empty());
    let mut planned = without;
    planned["runbook"] = json!("CUSTOM_DELL");
    another.act(&order(planned)).await.unwrap();
    assert_eq!(
        stand_in.fixture().serviced,
        [json!({"target": "service", "runbook": "CUSTOM_DELL"})]
    );
}

#[tokio::test(start_paused = true)]
async fn what_ironic_does_not_show_or_its_registry_refuses_is_told_when_it_is_observed() {
    let (stand_in, server) = machine(Service::Well, 115).await;
    let document = DOCUMENT
        .replace("Turbo: Enabled", "Tubro: Enabled, Turbo: 'On'")
        .replace(
            "bmc: {version: '7.1', image: {url: 'http://images/bmc_7.1.bin'}}",
            "bmc: {version: '7.1'}, bios: {version: '1'}",
        )
        + "  boot: {secure_boot: true}\n  expect: {cpus: 4, memory_gib: 64, drives: 2}\n";
    let document = document.replace(
        "firmware:\n    bmc: {version: '7.1'}, bios: {version: '1'}",
        "firmware: {bmc: {version: '7.1'}, bios: {version: '1'}}",
    );
    let (ironic, design) = serviced(&server.url, "", &document);
    let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
    let seen = &seen[&NodeName::from("n1")];
    let fixed: Vec<String> = seen
        .fixed
        .iter()
        .map(|each| format!("{}: {}", each.name, each.reason))
        .collect();
    assert_eq!(
        fixed,
        [
            "bios.Tubro: its BIOS has no attribute `Tubro`; did you mean `Turbo`?",
            "bios.Turbo: its BIOS has no value `On` for `Turbo`, but: Enabled, Disabled",
            "boot.secure_boot: trueup does not set it over Ironic",
            "firmware.bios: Ironic does not show that component",
            "firmware.bmc: its Hardware document names no `image`",
        ]
    );
    let expected = seen
        .drift
        .iter()
        .filter(|part| part.field.starts_with("expect."));
    let expected: Vec<String> = expected.map(ToString::to_string).collect();
    assert_eq!(
        expected,
        ["expect.cpus: 2, designed 4", "expect.drives: 1, designed 2"]
    );
    let order = order(
        &design,
        StepKind::Service,
        "n1",
        of_settings(&[("bios.Tubro", "Enabled")]),
    );
    permanent(ironic.act(&order).await);
    assert!(changes(&server).is_empty() && stand_in.fixture().serviced.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_can_be_read_counts_where_something_else_cannot() {
    let document = DOCUMENT.to_owned() + "  expect: {drives: 2}\n";
    for (denied, drift, is_known) in [
        ("bios", ["expect.drives", "firmware.bmc"].as_slice(), true),
        ("inventory", &["bios.Turbo", "firmware.bmc"], false),
    ] {
        let (stand_in, server) = machine(Service::Well, 115).await;
        stand_in.fixture().denied = Some(denied);
        let (ironic, design) = serviced(&server.url, "", &document);
        let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
        let seen = &seen[&NodeName::from("n1")];
        let mut fields: Vec<&str> = seen.drift.iter().map(|part| &*part.field).collect();
        fields.sort_unstable();
        assert_eq!(fields, drift, "{denied}");
        assert_eq!(seen.unread_parts.is_none(), is_known, "{denied}");
        if denied == "bios" {
            let reason = &seen.fixed[0].reason;
            assert!(reason.contains("could not be read"), "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_service_of_another_is_left_alone() {
    let (stand_in, server) = machine(Service::Well, 115).await;
    stand_in.set("n1", "provision_state", json!("service failed"));
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO]));
    let text = permanent(ironic.act(&order).await);
    assert!(
        text.contains("this step did not begin that service"),
        "{text}"
    );
    assert!(changes(&server).is_empty(), "{:?}", changes(&server));
}

#[tokio::test(start_paused = true)]
async fn a_runbook_whose_name_needs_a_profile_is_refused_where_there_is_none() {
    let (_stand_in, server) = machine(Service::Well, 115).await;
    let runbook = ", runbook: 'CUSTOM_{profile}'";
    let (ironic, design) = serviced(&server.url, runbook, DOCUMENT);
    let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
    let reason =
        "the name of its runbook, `CUSTOM_{profile}`, needs a hardware profile, and it has none";
    let fixed = &seen[&NodeName::from("n1")].fixed;
    assert_eq!((fixed.len(), &*fixed[0].reason), (2, reason));
    let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO]));
    let text = permanent(ironic.act(&order).await);
    assert!(text.ends_with(reason), "{text}");
    assert!(changes(&server).is_empty(), "{:?}", changes(&server));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_killed_at_any_request_is_ended_by_the_next_process() {
    for way in [Service::Well, Service::SecondTry, Service::Fails] {
        let (_, server) = machine(way, 115).await;
        let (ironic, design) = serviced(&server.url, "", DOCUMENT);
        let _ = run(
            &ironic,
            &order(&design, StepKind::Service, "n1", of_settings(&[TURBO, BMC])),
        )
        .await;
        let requests = server.lines().len();
        for killed_at in 1..=requests {
            let (stand_in, server) = machine(way, 115).await;
            let (ironic, design) = serviced(&server.url, "", DOCUMENT);
            let order = order(&design, StepKind::Service, "n1", of_settings(&[TURBO, BMC]));
            tokio::select! {
                _ = run(&ironic, &order) => {}
                () = async { while server.lines().len() < killed_at { tokio::time::sleep(Duration::from_millis(1)).await; } } => {}
            }
            // The process that is gone keeps nothing.
            let (ironic, _) = serviced(&server.url, "", DOCUMENT);
            let ended = match ironic.probe(&order).await {
                Probe::Done => Ok(()),
                _ => run(&ironic, &order).await,
            };
            let is_true = stand_in.fixture().values["firmware.bmc"] == "7.1";
            assert_eq!(ended.is_ok(), is_true, "{way:?} {killed_at}: {ended:?}");
            assert_eq!(
                is_true,
                way != Service::Fails,
                "{way:?} {killed_at}: {ended:?}"
            );
            assert_eq!(stand_in.state("n1"), "active", "{way:?} {killed_at}");
            assert!(
                stand_in.fixture().serviced.len() <= 3,
                "{way:?} {killed_at}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_leaves_a_service_that_runs_to_ironic_and_brings_a_failed_one_back() {
    for way in [Service::Well, Service::Fails] {
        let (stand_in, server) = machine(way, 115).await;
        let (ironic, design) = serviced(&server.url, "", DOCUMENT);
        let parameters = of_settings(&[TURBO, BMC]);
        let order = order(&design, StepKind::Service, "n1", parameters);
        stand_in.slow("n1");
        let asked = async {
            while stand_in.state("n1") != "servicing" {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = ironic.act(&order) => {}
            () = asked => {}
        }
        let (ironic, _) = serviced(&server.url, "", DOCUMENT);
        let text = permanent(ironic.take_back(&order).await.map(drop));
        assert!(text.contains("continues in Ironic"), "{text}");
        stand_in.end("n1");
        let ended = match way {
            Service::Well => Probe::Done,
            _ => Probe::NotBegun,
        };
        assert_eq!(ironic.take_back(&order).await, Ok(ended), "{way:?}");
        assert_eq!(stand_in.state("n1"), "active", "{way:?}");
        assert_eq!(stand_in.node("n1")["maintenance"], false, "{way:?}");
    }
    // One of another client's is left alone.
    let (stand_in, server) = machine(Service::Well, 115).await;
    stand_in.set("n1", "provision_state", json!("service failed"));
    let (ironic, design) = serviced(&server.url, "", DOCUMENT);
    let parameters = of_settings(&[TURBO]);
    let order = order(&design, StepKind::Service, "n1", parameters);
    ironic.take_back(&order).await.unwrap();
    assert!(changes(&server).is_empty(), "{:?}", changes(&server));
}
