//! Cleaning, step by step.

use std::time::Duration;

use super::*;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::step::CleanStep;

fn steps(names: &[&str]) -> Value {
    let steps = names.iter().map(|name| {
        let (interface, step) = name.split_once('.').unwrap();
        CleanStep::new(interface, step)
    });
    json!({"clean_steps": steps.collect::<Vec<_>>()})
}

async fn managed(site: &Site, simulator: &Simulator) {
    for kind in [StepKind::Prepare, StepKind::Manage] {
        let order = site.order("R0", kind, 0);
        simulator.act(&order).await.unwrap();
    }
}

fn begun(ledger: &[Effect]) -> Vec<String> {
    let steps = ledger.iter().filter_map(|effect| match effect {
        Effect::CleanStepBegun(step) => Some(step.to_string()),
        _ => None,
    });
    steps.collect()
}

#[tokio::test(start_paused = true)]
async fn automated_steps_run_in_the_order_of_their_priorities() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    managed(&site, &simulator).await;
    let order = site.order("R1", StepKind::Clean, 0);
    let acting = simulator.act(&order);
    let halfway = Duration::from_secs(450);
    assert!(tokio::time::timeout(halfway, acting).await.is_err());
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Cleaning);
    assert_eq!(
        machine.clean_step.as_deref(),
        Some("firmware.verify_firmware")
    );
    simulator.act(&order).await.unwrap();
    let ledger = site.ledger(&simulator, 0);
    let expected = [
        "management.verify_properties",
        "firmware.verify_firmware",
        "deploy.erase_devices_metadata",
        "deploy.erase_devices",
    ];
    assert_eq!(begun(&ledger), expected);
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Manageable);
    assert_eq!((machine.clean_step, machine.last_error), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_begun_at_a_death_is_not_begun_again() {
    let site = Site::new(1);
    managed(&site, &site.open("{}")).await;
    let names = [
        "bios.reset_bios",
        "deploy.erase_devices",
        "bios.apply_bios_settings",
    ];
    let order = site.order_with("R1", StepKind::Clean, 0, Some(steps(&names)));
    for seconds in [10, 290, 300, 10] {
        let simulator = site.open("{}");
        let acting = simulator.act(&order);
        let _ = tokio::time::timeout(Duration::from_secs(seconds), acting).await;
    }
    let simulator = site.open("{}");
    assert_eq!(simulator.probe(&order).await, Probe::UnderWay);
    simulator.act(&order).await.unwrap();
    assert_eq!(begun(&site.ledger(&simulator, 0)), names);
}

#[tokio::test(start_paused = true)]
async fn a_cleaning_that_fails_fences_the_machine_and_leaves_its_power_alone() {
    let site = Site::new(1);
    let simulator =
        site.open("{faults: [{step: clean, outcome: fail, message: disk is dead, times: 1}]}");
    managed(&site, &simulator).await;
    let power = site.machine(&simulator, 0).power;
    let order = site.order_with(
        "R1",
        StepKind::Clean,
        0,
        Some(steps(&["deploy.erase_devices"])),
    );
    let answer = simulator.act(&order).await;
    assert_eq!(answer, Err(ActError::Permanent(Arc::from("disk is dead"))));
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::CleanFailed);
    assert_eq!(machine.maintenance.as_deref(), Some("disk is dead"));
    assert_eq!(machine.last_error.as_deref(), Some("disk is dead"));
    assert_eq!(machine.clean_step.as_deref(), Some("deploy.erase_devices"));
    assert_eq!(machine.power, power);
    for kind in [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy] {
        let answer = simulator.act(&site.order("R2", kind, 0)).await;
        assert!(matches!(answer, Err(ActError::Permanent(_))), "{kind}");
    }
    // Power, cleaning again, and continuing without it are the operator's.
    for kind in [StepKind::PowerOff, StepKind::PowerOn, StepKind::Clean] {
        simulator.act(&site.order("R3", kind, 0)).await.unwrap();
    }
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Manageable);
    for kind in [StepKind::UnsetMaintenance, StepKind::Provide] {
        simulator.act(&site.order("R3", kind, 0)).await.unwrap();
    }
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Available);
}

#[tokio::test(start_paused = true)]
async fn what_a_machine_does_not_offer_or_its_state_does_not_allow_is_refused() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let odd = site.order_with("R1", StepKind::Clean, 0, Some(steps(&["raid.polish"])));
    let Err(ActError::Permanent(message)) = simulator.act(&odd).await else {
        panic!("it was begun");
    };
    assert!(message.contains("`clean` is refused while the machine is available"));
    managed(&site, &simulator).await;
    let Err(ActError::Permanent(message)) = simulator.act(&odd).await else {
        panic!("it was begun");
    };
    assert!(message.starts_with("`n1` has no clean step `raid.polish`; it has management."));
    // A retired machine is never available again.
    for (kind, is_ok) in [(StepKind::SetRetired, true), (StepKind::Provide, false)] {
        let answer = simulator.act(&site.order("R1", kind, 0)).await;
        assert_eq!(answer.is_ok(), is_ok, "{kind} {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_local_storage_preserved_no_step_touches_another_disk_than_the_systems() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let preserve = json!({"preserve_local_storage": true});
    site.deployed(&simulator).await;
    let mut first = site.ledger(&simulator, 0).len();
    for kind in [
        StepKind::Destroy,
        StepKind::Manage,
        StepKind::Prepare,
        StepKind::Deploy,
    ] {
        let keeps = kind != StepKind::Manage;
        let order = site.order_with("R1", kind, 0, keeps.then(|| preserve.clone()));
        simulator.act(&order).await.unwrap();
        let ledger = site.ledger(&simulator, 0);
        for effect in &ledger[first..] {
            if let Effect::WipedDisk(disk) | Effect::WroteDisk(disk) = effect {
                assert_eq!(&**disk, "sda", "{kind}");
            }
        }
        first = ledger.len();
    }
    let machine = site.machine(&simulator, 0);
    assert!(machine.disks.iter().all(|disk| disk.partitioned));
}

fn erased(ledger: &[Effect]) -> Vec<&str> {
    let erased = ledger.iter().filter_map(|effect| match effect {
        Effect::WipedDisk(disk) => Some(&**disk),
        _ => None,
    });
    erased.collect()
}

#[tokio::test(start_paused = true)]
async fn a_teardown_runs_the_planned_steps_in_their_order_and_erases_once() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    site.deployed(&simulator).await;
    let before = site.ledger(&simulator, 0).len();
    let names = [
        "firmware.verify_firmware",
        "deploy.erase_devices_metadata",
        "deploy.erase_devices",
        "bios.reset_bios",
    ];
    let order = site.order_with("R1", StepKind::Destroy, 0, Some(steps(&names)));
    // It dies in the middle, and another process resumes.
    let acting = simulator.act(&order);
    let _ = tokio::time::timeout(Duration::from_secs(100), acting).await;
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Cleaning);
    assert_eq!(machine.clean_step.as_deref(), Some(names[2]));
    site.open("{}").act(&order).await.unwrap();
    let ledger = site.ledger(&simulator, 0);
    assert_eq!(begun(&ledger[before..]), names);
    assert_eq!(erased(&ledger[before..]), ["sda", "sdb"]);
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Available);
    assert_eq!((machine.power, machine.clean_step), (PowerState::Off, None));
}

#[tokio::test(start_paused = true)]
async fn a_cleaning_that_fails_in_a_teardown_fences_the_machine_and_leaves_it_on() {
    let site = Site::new(1);
    let simulator =
        site.open("{faults: [{step: clean, outcome: fail, message: broken, times: 1}]}");
    site.deployed(&simulator).await;
    let names = steps(&["management.verify_properties", "deploy.erase_devices"]);
    let order = site.order_with("R1", StepKind::Destroy, 0, Some(names.clone()));
    assert!(simulator.act(&order).await.is_err());
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::CleanFailed);
    assert_eq!(machine.maintenance.as_deref(), Some("broken"));
    assert_eq!(
        machine.clean_step.as_deref(),
        Some("management.verify_properties")
    );
    assert_eq!(machine.power, PowerState::On);
    assert_eq!(erased(&site.ledger(&simulator, 0)), [""; 0]);
    // A teardown that fails before it cleans leaves it as any failed teardown does.
    let site = Site::new(1);
    let simulator = site.open("{faults: [{step: destroy, outcome: fail}]}");
    site.deployed(&simulator).await;
    let order = site.order_with("R1", StepKind::Destroy, 0, Some(names));
    assert!(simulator.act(&order).await.is_err());
    assert_eq!(site.machine(&simulator, 0).provision, ProvisionState::Error);
}

#[tokio::test(start_paused = true)]
async fn what_is_provided_or_prepared_from_manageable_is_cleaned_as_planned() {
    for kind in [StepKind::Provide, StepKind::Prepare] {
        let site = Site::new(1);
        let simulator = site.open("{}");
        managed(&site, &simulator).await;
        let before = site.ledger(&simulator, 0).len();
        let names = ["management.verify_properties", "deploy.erase_devices"];
        let order = site.order_with("R1", kind, 0, Some(steps(&names)));
        simulator.act(&order).await.unwrap();
        let ledger = site.ledger(&simulator, 0);
        assert_eq!(begun(&ledger[before..]), names);
        assert_eq!(erased(&ledger[before..]), ["sda", "sdb"]);
        let machine = site.machine(&simulator, 0);
        assert_eq!(machine.provision, ProvisionState::Available);
        assert_eq!(machine.clean_step, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retired_machine_is_cleaned_off_and_manageable_and_unknown_once_it_is_forgotten() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    site.deployed(&simulator).await;
    let retire = site.order("R1", StepKind::SetRetired, 0);
    simulator.act(&retire).await.unwrap();
    let mut parameters = steps(&["deploy.erase_devices"]);
    let order = site.order_with("R2", StepKind::Destroy, 0, Some(parameters.clone()));
    simulator.act(&order).await.unwrap();
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Manageable);
    assert!(machine.power == PowerState::Off && machine.retired.is_some());
    parameters["forget"] = json!(true);
    let order = site.order_with("R3", StepKind::Destroy, 0, Some(parameters));
    simulator.act(&order).await.unwrap();
    let machine = site.machine(&simulator, 0);
    assert_eq!(machine.provision, ProvisionState::Enroll);
    assert_eq!(machine.retired, None);
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_the_hardware_profile_are_applied_to_the_bios_and_reset() {
    let text = "schema: drydock/HardwareProfile/v1\nmetadata: {name: hw}\ndata: {vendor: X, bios_settings: {ProcTurboMode: Disabled, Cores: 12, Sriov: true}}\n---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: n1}\ndata: {hardware_profile: hw}\n";
    let (_, design) = design(text);
    let mut site = Site::new(1);
    site.nodes = design.nodes.values().cloned().collect();
    let simulator = site.open("{}");
    managed(&site, &simulator).await;
    let clean =
        |run: &str, names: &[&str]| site.order_with(run, StepKind::Clean, 0, Some(steps(names)));
    let order = clean("R1", &["bios.apply_bios_settings"]);
    simulator.act(&order).await.unwrap();
    let bios = site.machine(&simulator, 0).bios;
    let told: Vec<String> = bios
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(told, ["Cores=12", "ProcTurboMode=Disabled", "Sriov=true"]);
    simulator
        .act(&clean("R2", &["bios.reset_bios"]))
        .await
        .unwrap();
    assert!(site.machine(&simulator, 0).bios.is_empty());
}
