//! The life of a machine, its flags and its disks.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::Fact;

const LIFE: [StepKind; 3] = [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy];

#[tokio::test(start_paused = true)]
async fn a_machine_goes_through_its_life_and_the_ledger_has_each_effect_once() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let began = Instant::now();
    for kind in LIFE {
        let order = site.order("R1", kind, 0);
        assert_eq!(simulator.probe(&order).await, Probe::NotBegun);
        simulator.act(&order).await.unwrap();
        assert_eq!(simulator.probe(&order).await, Probe::Done);
        simulator.act(&order).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::from_secs(120 + 900 + 180));
    let ledger = site.ledger(&simulator, 0);
    let disk = |name: &str| Arc::from(name);
    let Effect::Deployed(deployed) = &ledger[4] else {
        panic!("{ledger:#?}");
    };
    let plane = deployed.labels.get("plane");
    assert_eq!(plane.map(|value| &**value), Some("enabled"));
    assert_eq!((deployed.uid.len(), deployed.image.len()), (36, 64));
    let expected = [
        Effect::PoweredOn,
        Effect::Prepared,
        Effect::WroteDisk(disk("sda")),
        Effect::WroteDisk(disk("sdb")),
        ledger[4].clone(),
        Effect::WipedDisk(disk("sda")),
        Effect::WipedDisk(disk("sdb")),
        Effect::PoweredOff,
        Effect::Destroyed,
    ];
    assert_eq!(ledger, expected);
    let machine = simulator.machine(&site.nodes[0].name).unwrap().unwrap();
    let numbers: Vec<u64> = machine
        .ledger
        .entries()
        .map(|entry| entry.sequence)
        .collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    let factory_new = Machine::factory_new(&site.nodes[0]);
    // Its node stays until it is removed from the cluster.
    assert!(!machine.cluster.unwrap().ready);
    assert_eq!(
        Machine {
            ledger: Ledger::default(),
            cluster: None,
            has_fallen: false,
            ..machine
        },
        factory_new
    );
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_new_site_writes_nothing() {
    let site = Site::new(3);
    let simulator = site.open("{}");
    let seen = simulator.observe(&site.nodes).await;
    assert_eq!(seen.len(), 3);
    let node = &seen["n1"];
    assert_eq!(node.provision, Fact::Known(ProvisionState::Available));
    assert_eq!(node.power, Fact::Known(PowerState::Off));
    assert_eq!(node.cluster, Fact::Known(None));
    let serials: BTreeSet<_> = seen
        .values()
        .flat_map(|node| node.disks.known().unwrap())
        .map(|disk| disk.serial.clone())
        .collect();
    assert_eq!(serials.len(), 6);
    assert!(!site.path().parent().unwrap().exists());
}

#[tokio::test(start_paused = true)]
async fn what_a_state_does_not_allow_is_refused_with_state_and_verb() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let name = &site.nodes[0].name;
    let new = Machine::factory_new(&site.nodes[0]);
    let active = Machine {
        provision: ProvisionState::Active,
        prepared: true,
        ..new.clone()
    };
    let reason = || Some(Arc::from("old"));
    let table = [
        (
            active.clone(),
            StepKind::Deploy,
            "`n1` is active, and `deploy` can begin only where it is available, deploy failed",
        ),
        (
            active.clone(),
            StepKind::Prepare,
            "`n1` is active, and `prepare` can begin only where it is enroll, manageable, inspect failed, available, deploy failed, error",
        ),
        (
            new.clone(),
            StepKind::Deploy,
            "`n1` is available but was not prepared, and `deploy` is refused there",
        ),
        (
            new.clone(),
            StepKind::Relabel,
            "`n1` is available, and `relabel` can begin only where it is active",
        ),
        (
            Machine {
                retired: reason(),
                ..new.clone()
            },
            StepKind::Prepare,
            "`n1` is available and retired (old), and `prepare` is refused there",
        ),
        (
            Machine {
                maintenance: reason(),
                ..active.clone()
            },
            StepKind::Destroy,
            "`n1` is in maintenance (old), and `destroy` is refused there",
        ),
        (
            Machine {
                protected: true,
                ..active
            },
            StepKind::Destroy,
            "`n1` is active and protected, and `destroy` is refused there",
        ),
        (
            Machine {
                provision: ProvisionState::CleanFailed,
                ..new.clone()
            },
            StepKind::Destroy,
            "`n1` is clean failed, and `destroy` can begin only where it is active, deploy failed, error, manageable, inspect failed, available",
        ),
        (
            new,
            StepKind::Record,
            "a simulated machine cannot do `record/n1`",
        ),
    ];
    for (machine, kind, expected) in table {
        simulator.seed(name, machine.clone()).unwrap();
        let answer = simulator.act(&site.order("R1", kind, 0)).await;
        assert_eq!(answer, Err(ActError::Permanent(Arc::from(expected))));
        assert_eq!(simulator.machine(name).unwrap().unwrap(), machine);
    }
}

#[tokio::test(start_paused = true)]
async fn flags_power_and_labels_are_set_to_a_level_once() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let name = &site.nodes[0].name;
    let retire = json!({"reason": "old"});
    let retire = site.order_with("R1", StepKind::SetRetired, 0, Some(retire));
    simulator.act(&retire).await.unwrap();
    simulator.act(&retire).await.unwrap();
    let machine = simulator.machine(name).unwrap().unwrap();
    assert_eq!(machine.provision, ProvisionState::Manageable);
    simulator
        .act(&site.order("R2", StepKind::UnsetRetired, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R2", StepKind::PowerOn, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R3", StepKind::PowerOn, 0))
        .await
        .unwrap();
    assert_eq!(
        simulator
            .probe(&site.order("R9", StepKind::PowerOn, 0))
            .await,
        Probe::Done
    );
    simulator
        .act(&site.order("R3", StepKind::Prepare, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R3", StepKind::Deploy, 0))
        .await
        .unwrap();
    let labels = json!({"set_labels": [("rack", "r1")], "remove_labels": ["plane"]});
    simulator
        .act(&site.order_with("R3", StepKind::Relabel, 0, Some(labels)))
        .await
        .unwrap();
    let cluster = simulator.machine(name).unwrap().unwrap().cluster.unwrap();
    assert!(cluster.ready);
    let labels: Vec<_> = cluster.labels.keys().map(|key| &**key).collect();
    assert_eq!(labels, ["kubernetes.io/hostname", "rack"]);
    let kinds: Vec<_> = site.ledger(&simulator, 0).into_iter().take(4).collect();
    let expected = [
        Effect::Retired(Arc::from("old")),
        Effect::Unretired,
        Effect::PoweredOn,
        Effect::Prepared,
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn only_the_disks_that_are_named_are_erased_and_a_disk_that_is_not_there_is_an_error() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        simulator.act(&site.order("R1", kind, 0)).await.unwrap();
    }
    let disks = |name: &str| {
        let parameters = json!({"disks": [name]});
        site.order_with("R2", StepKind::Destroy, 0, Some(parameters))
    };
    let answer = simulator.act(&disks("sdx")).await;
    assert_eq!(
        answer,
        Err(ActError::Permanent(Arc::from(
            "`n1` has no disk `sdx` to erase"
        )))
    );
    simulator.act(&disks("sda")).await.unwrap();
    let machine = simulator.machine(&site.nodes[0].name).unwrap().unwrap();
    let partitioned: Vec<bool> = machine.disks.iter().map(|disk| disk.partitioned).collect();
    assert_eq!(partitioned, [false, true]);
}
