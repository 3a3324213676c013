//! The whole life of a machine, in both versions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trueup::backend::{Hardware, Probe};
use trueup::lifecycle::{PowerState, ProvisionState as S};
use trueup::observed::{Capability, Fact};
use trueup::step::{CleanStep, StepKind};

use super::lab::{Lab, PLATFORM, node, reason};
use super::region::{Region, Version, Wrong};

pub(super) const VERSIONS: [Version; 2] = [Version::V34, Version::V35];

fn nothing() -> Value {
    json!({})
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_commissioned_deployed_locked_switched_and_erased() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 0), "").await;
        let (order, journal) = lab.order(StepKind::VerifySite, None, nothing());
        trueup::backend::Hardware::act(&*lab.open(), &order)
            .await
            .unwrap();
        let said = journal.said.lock().unwrap().concat();
        assert!(
            said.starts_with("MAAS 3.") && said.ends_with("as `admin`"),
            "{said}"
        );
        let seen = lab.seen("n1").await;
        assert_eq!(seen.provision, Fact::Known(S::Enroll));
        assert!(seen.proof.is_proven(), "{:?}", seen.proof);

        lab.run(StepKind::Prepare, "n1", nothing()).await;
        let machine = lab.region.machine("abc001");
        assert_eq!(
            (machine.status, machine.layout.as_deref()),
            (4, Some("flat"))
        );
        let kernel = machine.tags.iter().next().unwrap();
        assert_eq!(
            lab.region.state().tags[kernel].kernel_options,
            "console=ttyS1"
        );
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Available));

        lab.changes();
        lab.run(StepKind::Deploy, "n1", nothing()).await;
        let machine = lab.region.machine("abc001");
        assert_eq!(
            (machine.status, machine.power, machine.locked),
            (6, "on", true)
        );
        assert_eq!((&*machine.series, &*machine.kernel), ("noble", "ga-24.04"));
        assert_eq!(machine.owner_data["role"], "worker");
        assert!(machine.tags.contains("compute"));
        let asked: Vec<String> = lab.changes();
        let expected = [
            "POST machines/?op=allocate",
            "POST machines/abc001/?op=set_owner_data",
            "POST tags/compute/?op=update_nodes",
            "POST tags/",
            "POST tags/compute/?op=update_nodes",
            "POST machines/abc001/?op=deploy",
            "POST machines/abc001/?op=set_owner_data",
            "POST machines/abc001/?op=lock",
        ];
        assert_eq!(asked, expected);
        let seen = lab.seen("n1").await;
        assert_eq!(
            (seen.provision, seen.protected),
            (Fact::Known(S::Active), false)
        );

        // A machine that trueup has locked is unlocked for the time of a switch.
        lab.run(StepKind::PowerOff, "n1", nothing()).await;
        let machine = lab.region.machine("abc001");
        assert_eq!((machine.power, machine.locked), ("off", true));
        lab.run(StepKind::PowerOn, "n1", nothing()).await;
        let machine = lab.region.machine("abc001");
        assert_eq!((machine.power, machine.locked), ("on", true));

        lab.run(StepKind::Destroy, "n1", nothing()).await;
        let machine = lab.region.machine("abc001");
        assert_eq!(
            (machine.status, machine.power, machine.is_dirty),
            (4, "off", false)
        );
        assert!(!machine.locked && machine.owner_data.is_empty());
        assert_eq!(lab.seen("n1").await.power, Fact::Known(PowerState::Off));
        let effects = lab.region.state().effects.clone();
        for once in ["commission", "allocate", "deploy", "erase"] {
            let count = effects
                .iter()
                .filter(|effect| effect.starts_with(&format!("{once} ")))
                .count();
            assert_eq!(count, 1, "{once}: {effects:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_maas_does_not_know_is_created_and_not_commissioned_by_that() {
    let settings = "power_type: redfish, controller: {username: maas, password: {env: BMC_PASSWORD}}, networks: [127.0.0.0/8]";
    let oob =
        "oob: {type: redfish, network: oob}, addressing: [{network: oob, address: 127.0.0.9}]";
    let networks =
        "---\nschema: drydock/Network/v1\nmetadata: {name: oob}\ndata: {cidr: 127.0.0.0/24}\n";
    let nodes = [node("n1", "abc001", oob)];
    let lab = Lab::of(Region::new(Version::V34), settings, &nodes, networks).await;
    assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Enroll));
    lab.run(StepKind::Prepare, "n1", nothing()).await;
    let effects = lab.region.state().effects.clone();
    assert_eq!(effects[..2], ["create new001", "commission new001"]);
    assert_eq!(lab.region.machine("new001").power_type, "redfish");
    // Asked for: it leaves MAAS.
    let forget = json!({"forget": true});
    lab.run(StepKind::Destroy, "n1", forget).await;
    assert!(lab.region.state().machines.is_empty());
}

#[tokio::test(start_paused = true)]
async fn adopting_writes_nothing_and_one_list_observes_all() {
    let region = Region::new(Version::V34);
    let nodes: Vec<_> = (0..20).map(|number| format!("abc{number:03}")).collect();
    let region = nodes
        .iter()
        .fold(region, |region, id| region.with(id, &format!("n-{id}"), 6));
    let documents: Vec<_> = nodes
        .iter()
        .map(|id| node(&format!("n-{id}"), id, PLATFORM))
        .collect();
    let lab = Lab::of(region, "", &documents, "").await;
    let designs: Vec<_> = lab.design.nodes.values().cloned().collect();
    let seen = trueup::backend::Hardware::observe(&*lab.open(), &designs).await;
    assert!(
        seen.values()
            .all(|node| node.provision == Fact::Known(S::Active) && node.proof.is_proven())
    );
    let requests = lab.region.state().requests.clone();
    let expected = [
        "GET version/",
        "GET users/?op=whoami",
        "GET maas/?op=get_config",
        "GET machines/",
    ];
    assert_eq!(requests, expected);
}

#[tokio::test(start_paused = true)]
async fn retirement_holds_by_a_tag_with_its_reason_and_by_a_lock() {
    for version in VERSIONS {
        let region = Region::new(version)
            .with("abc001", "n1", 6)
            .with("abc002", "n2", 4);
        let nodes = [
            node("n1", "abc001", PLATFORM),
            node("n2", "abc002", PLATFORM),
        ];
        let lab = Lab::of(region, "", &nodes, "").await;
        for node in ["n1", "n2"] {
            lab.run(StepKind::SetRetired, node, reason("old disks"))
                .await;
            let seen = lab.seen(node).await;
            assert_eq!(seen.retired.as_deref(), Some("old disks"));
        }
        assert!(lab.region.machine("abc001").locked);
        assert_eq!(lab.seen("n2").await.provision, Fact::Known(S::Manageable));
        lab.changes();
        let why = lab.fails(StepKind::Deploy, "n2", nothing()).await;
        assert!(
            why.contains("`deploy` is refused while the machine is manageable"),
            "{why}"
        );
        let why = lab.fails(StepKind::Prepare, "n2", nothing()).await;
        assert!(
            why.contains("is retired (old disks), and is never deployed to"),
            "{why}"
        );
        assert_eq!(lab.changes(), [""; 0]);
        // It ends ready in MAAS, and not available.
        lab.run(StepKind::Destroy, "n1", nothing()).await;
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Manageable));
        lab.run(StepKind::UnsetRetired, "n1", nothing()).await;
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Available));
    }
}

#[tokio::test(start_paused = true)]
async fn maintenance_is_a_tag_and_marks_broken_only_what_carries_nothing() {
    let region = Region::new(Version::V34)
        .with("abc001", "n1", 6)
        .with("abc002", "n2", 4);
    let nodes = [
        node("n1", "abc001", PLATFORM),
        node("n2", "abc002", PLATFORM),
    ];
    let lab = Lab::of(region, "", &nodes, "").await;
    for (node, id, status) in [("n1", "abc001", 6), ("n2", "abc002", 8)] {
        lab.run(StepKind::SetMaintenance, node, reason("new cables"))
            .await;
        assert_eq!(lab.region.machine(id).status, status);
        assert_eq!(
            lab.seen(node).await.maintenance.as_deref(),
            Some("new cables")
        );
        let why = lab.fails(StepKind::Prepare, node, nothing()).await;
        assert!(why.contains("new cables"), "{why}");
        lab.run(StepKind::UnsetMaintenance, node, nothing()).await;
        assert_eq!(lab.seen(node).await.maintenance, None);
    }
    assert_eq!(lab.region.machine("abc002").status, 4);
    // Marked broken by a person: shown as that, and mended by asking for it.
    lab.region.change("abc002", |machine| machine.status = 8);
    let seen = lab.seen("n2").await;
    assert!(
        seen.maintenance
            .unwrap()
            .starts_with("marked broken in MAAS")
    );
    lab.run(StepKind::UnsetMaintenance, "n2", nothing()).await;
    assert_eq!(lab.region.machine("abc002").status, 4);
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_cleaned_when_it_is_asked_for_and_a_failed_erasure_fences_it() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 4), "erase: quick").await;
        lab.run(StepKind::Manage, "n1", nothing()).await;
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Manageable));
        lab.region
            .change("abc001", |machine| machine.is_dirty = true);
        let erase = || json!({"clean_steps": [CleanStep::new("deploy", "erase_devices")]});
        lab.run(StepKind::Clean, "n1", erase()).await;
        assert!(!lab.region.machine("abc001").is_dirty);
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Manageable));
        let other = json!({"clean_steps": [CleanStep::new("bios", "apply_configuration")]});
        let why = lab.fails(StepKind::Clean, "n1", other).await;
        assert!(
            why.contains("MAAS has no clean step `bios.apply_configuration`"),
            "{why}"
        );
        lab.run(StepKind::Provide, "n1", nothing()).await;
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Available));

        lab.region.change("abc001", |machine| {
            machine.status = 15;
            machine.owner = Some("admin".to_owned());
        });
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::CleanFailed));
        for kind in [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy] {
            lab.changes();
            lab.fails(kind, "n1", nothing()).await;
            assert_eq!(lab.changes(), [""; 0], "{kind}");
        }
        lab.run(StepKind::Clean, "n1", erase()).await;
        assert_eq!(lab.seen("n1").await.provision, Fact::Known(S::Manageable));
    }
}

#[tokio::test(start_paused = true)]
async fn disks_are_kept_only_by_a_script_of_maas_and_where_no_option_erases_them() {
    let keep = || json!({"preserve_local_storage": true});
    for (version, settings, option, is_able) in [
        (Version::V35, "system_disk_script: wipe-root", false, true),
        (Version::V35, "system_disk_script: wipe-root", true, false),
        (Version::V35, "", false, false),
        (Version::V34, "system_disk_script: wipe-root", false, false),
    ] {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 6), settings).await;
        let name = "enable_disk_erasing_on_release".to_owned();
        lab.region.state().options.insert(name, option.into());
        let able = lab.seen("n1").await.capabilities;
        assert_eq!(
            able.contains(Capability::WipeOperatingSystemDisk),
            is_able,
            "{version:?} {settings}"
        );
        assert!(able.contains(Capability::Wipe));
        if is_able {
            lab.run(StepKind::Destroy, "n1", keep()).await;
            assert!(lab.region.machine("abc001").is_dirty);
            let effects = lab.region.state().effects.clone();
            assert!(
                effects.contains(&"wipe-root abc001".to_owned()),
                "{effects:?}"
            );
        } else if settings.is_empty() || option {
            lab.fails(StepKind::Destroy, "n1", keep()).await;
            assert_eq!(lab.region.machine("abc001").status, 6);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_cleaning_erases_nothing_and_promises_no_wipe() {
    let policy =
        "---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: none}\ndata: {automated: false}\n";
    let nodes = [node("n1", "abc001", PLATFORM)];
    let lab = Lab::of(
        Region::new(Version::V34).with("abc001", "n1", 6),
        "",
        &nodes,
        policy,
    )
    .await;
    assert!(!lab.seen("n1").await.capabilities.contains(Capability::Wipe));
    lab.run(StepKind::Destroy, "n1", nothing()).await;
    assert!(lab.region.machine("abc001").is_dirty);
    let effects: BTreeMap<String, usize> =
        lab.region
            .state()
            .effects
            .iter()
            .fold(BTreeMap::new(), |mut counts, effect| {
                *counts.entry(effect.clone()).or_default() += 1;
                counts
            });
    assert_eq!(effects["release abc001"], 1, "{effects:?}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_the_time_of_its_step_is_aborted_and_an_erasure_is_not() {
    let long = std::time::Duration::from_secs(5000);
    for version in VERSIONS {
        for (status, kind, expected) in [
            (0, StepKind::Prepare, 0),
            (22, StepKind::Prepare, 22),
            (4, StepKind::Deploy, 10),
        ] {
            let lab = Lab::one(Region::new(version).with("abc001", "n1", status), "").await;
            {
                let mut state = lab.region.state();
                state.times.commission = long;
                state.times.deploy = long;
            }
            let why = lab.acts_within(60, kind, "n1").await.unwrap_err();
            assert!(
                why.contains("did not end in the time of the step: aborted in MAAS"),
                "{why}"
            );
            assert_eq!(
                lab.region.machine("abc001").status,
                expected,
                "{version:?} {kind}"
            );
        }
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 6), "lock: false").await;
        lab.acts_within(60, StepKind::Destroy, "n1").await.unwrap();
        let effects = lab.region.state().effects.clone();
        assert_eq!(effects, ["erase abc001"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_maas_accepts_and_does_not_begin_is_not_judged_by_an_older_one() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 10), "").await;
        {
            let mut state = lab.region.state();
            state.event("abc001", 10, "User starting deployment", "(admin)");
            state.event("abc001", 20, "Deployed", "");
            state.event("abc001", 20, "Released", "");
            state.wrong = Some(Wrong::DeploysNothing);
        }
        let first = lab.acts_within(600, StepKind::Deploy, "n1").await;
        let why = first.unwrap_err();
        assert!(
            why.contains("MAAS accepted `deploy`, and nothing happens: Allocated"),
            "{why}"
        );
        // It is asked for again, and then it happens.
        lab.region.state().wrong = None;
        lab.run(StepKind::Deploy, "n1", nothing()).await;
        assert_eq!(lab.region.machine("abc001").status, 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_notes_of_another_finds_how_far_its_steps_are() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 0), "").await;
        let probe = async |kind| {
            lab.restart();
            let (order, _) = lab.order(kind, Some("n1"), nothing());
            Hardware::probe(&*lab.backends(), &order).await
        };
        assert!(matches!(probe(StepKind::Prepare).await, Probe::NotBegun));
        lab.run(StepKind::Prepare, "n1", nothing()).await;
        assert!(matches!(probe(StepKind::Prepare).await, Probe::UnderWay));
        assert!(matches!(probe(StepKind::Deploy).await, Probe::NotBegun));
        lab.run(StepKind::Deploy, "n1", nothing()).await;
        assert!(matches!(probe(StepKind::Prepare).await, Probe::Done));
        assert!(matches!(probe(StepKind::Deploy).await, Probe::Done));
        assert!(matches!(probe(StepKind::Destroy).await, Probe::NotBegun));
        lab.run(StepKind::Destroy, "n1", nothing()).await;
        assert!(matches!(probe(StepKind::Destroy).await, Probe::Done));
    }
}
