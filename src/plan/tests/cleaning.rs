//! How machines are cleaned on their way to available.

use super::*;
use crate::design::CleaningPolicy;
use crate::lifecycle::{OWN_STEPS, OfferedStep};
use crate::observed::Capability;
use crate::plan::Action;

/// Two machines that offer trueup's own steps, on whose disks there is data.
fn offering() -> PlanFixture {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    for name in ["n1", "n2"] {
        let seen = fixture.seen(name);
        seen.clean_steps = OWN_STEPS.map(OfferedStep::from).into();
        seen.capabilities = [
            Capability::Power,
            Capability::Prepare,
            Capability::Deploy,
            Capability::Wipe,
            Capability::WipeOperatingSystemDisk,
            Capability::Clean,
            Capability::Retire,
            Capability::Relabel,
        ]
        .into();
        if let Fact::Known(disks) = &mut seen.disks {
            disks[0].partitioned = true;
        }
    }
    fixture
}

fn policy(name: &str, automated: bool, priorities: &[(&str, u32)]) -> CleaningPolicy {
    CleaningPolicy {
        name: Arc::from(name),
        selectors: Vec::new(),
        automated,
        priorities: priorities
            .iter()
            .map(|(step, priority)| (Arc::from(*step), *priority))
            .collect(),
        mark: mark(),
    }
}

fn ask(fixture: &mut PlanFixture, action: Action) -> Plan {
    fixture.request = Request {
        action,
        nodes: these(&["n1"]),
        ..Request::default()
    };
    fixture.plan()
}

/// The clean steps of a step, and which disks they may erase.
fn cleans(plan: &Plan, id: &str) -> String {
    let step = step(plan, id);
    if step.parameters.is_none() {
        return "nothing".to_owned();
    }
    let steps: Vec<String> = step
        .given()
        .clean_steps()
        .iter()
        .map(|each| each.name())
        .collect();
    format!("{} on {}", steps.join(" "), step.given().disks().join(" "))
}

/// Why, as the change says it.
fn because(plan: &Plan) -> &str {
    plan.changes[0]
        .cleaning
        .as_ref()
        .map_or("", |cleaning| &cleaning.because)
}

const DEFAULT: &str = "management.verify_properties firmware.verify_firmware \
                       deploy.erase_devices_metadata deploy.erase_devices on sda";

#[test]
fn a_teardown_cleans_by_the_policy_and_erases_whatever_the_policy_says() {
    let mut fixture = offering();
    let plan = ask(&mut fixture, Action::Teardown);
    assert_eq!(cleans(&plan, "destroy/n1"), DEFAULT);
    assert_eq!(because(&plan), "automated cleaning");
    let table = [
        (
            policy(
                "reset",
                true,
                &[
                    ("bios.reset_bios", 120),
                    ("deploy.erase_devices_metadata", 0),
                ],
            ),
            "bios.reset_bios management.verify_properties firmware.verify_firmware deploy.erase_devices on sda",
            "automated cleaning (policy `reset`)",
        ),
        (
            policy("lab", false, &[]),
            "deploy.erase_devices on sda",
            "automated cleaning is off (policy `lab`); a teardown erases all the same",
        ),
        (
            policy(
                "keep",
                true,
                &[
                    ("deploy.erase_devices", 0),
                    ("deploy.erase_devices_metadata", 0),
                ],
            ),
            "management.verify_properties firmware.verify_firmware deploy.erase_devices on sda",
            "automated cleaning (policy `keep`); a teardown erases all the same",
        ),
    ];
    for (policy, steps, why) in table {
        fixture.guards.cleaning = vec![policy];
        let plan = ask(&mut fixture, Action::Destroy);
        assert_eq!(cleans(&plan, "destroy/n1"), steps);
        assert_eq!(because(&plan), why);
    }
}

#[test]
fn a_machine_is_cleaned_and_erased_once_in_a_redeploy_and_not_again_before_its_deploy() {
    let mut fixture = offering();
    let plan = ask(&mut fixture, Action::Redeploy);
    assert_eq!(cleans(&plan, "destroy/all/n1"), DEFAULT);
    assert_eq!(cleans(&plan, "prepare/all/n1"), "nothing");
}

#[test]
fn what_goes_from_manageable_to_available_is_cleaned_and_what_is_available_is_not() {
    let mut fixture = offering();
    fixture.records.remove(&NodeName::from("n1"));
    for (state, steps) in [
        (ProvisionState::Available, "nothing"),
        (ProvisionState::DeployFailed, "nothing"),
        (ProvisionState::Manageable, DEFAULT),
        (ProvisionState::Enroll, DEFAULT),
    ] {
        fixture.seen("n1").provision = Fact::Known(state);
        let plan = fixture.plan();
        assert_eq!(cleans(&plan, "prepare/all/n1"), steps, "{state}");
        let is_harmful = step(&plan, "prepare/all/n1").effect == crate::step::Effect::Destructive;
        assert_eq!(is_harmful, steps == DEFAULT, "{state}");
    }
    fixture.guards.cleaning = vec![policy("lab", false, &[])];
    assert_eq!(cleans(&fixture.plan(), "prepare/all/n1"), "nothing");
    assert_eq!(
        because(&fixture.plan()),
        "automated cleaning is off (policy `lab`)"
    );
    fixture.guards.cleaning.clear();
    fixture.seen("n1").provision = Fact::Known(ProvisionState::Manageable);
    let plan = ask(&mut fixture, Action::Provide);
    assert_eq!(cleans(&plan, "provide/n1"), DEFAULT);
    assert!(plan.changes[0].destructive);
    // Out of clean failed it is made available on purpose, with nothing run.
    fixture.seen("n1").provision = Fact::Known(ProvisionState::CleanFailed);
    assert_eq!(
        cleans(&ask(&mut fixture, Action::Provide), "provide/n1"),
        "nothing"
    );
}

#[test]
fn two_steps_of_one_interface_with_one_priority_are_refused_when_it_is_planned() {
    let mut fixture = offering();
    fixture.guards.cleaning = vec![policy("tie", true, &[("deploy.erase_devices", 99)])];
    let plan = ask(&mut fixture, Action::Teardown);
    let block = plan.changes[0].blocked.clone().unwrap();
    assert_eq!(
        (&*block.reason, block.flag),
        (
            "clean steps `deploy.erase_devices` and `deploy.erase_devices_metadata` have the same priority 99 inside one interface",
            None
        )
    );
    assert!(plan.steps.is_empty());
}

#[test]
fn a_provisioner_that_chooses_its_steps_itself_is_told_none_and_its_own_are_shown() {
    let mut fixture = offering();
    let seen = fixture.seen("n1");
    seen.cleans_itself = true;
    seen.clean_steps = seen.clean_steps.iter().rev().cloned().collect();
    let shown = |plan: &Plan| -> Vec<String> {
        let cleaning = plan.changes[0].cleaning.as_ref().unwrap();
        cleaning.steps.iter().map(|step| step.name()).collect()
    };
    let plan = ask(&mut fixture, Action::Teardown);
    assert_eq!(cleans(&plan, "destroy/n1"), " on sda");
    assert_eq!(shown(&plan)[0], "bios.apply_bios_settings");
    assert!(because(&plan).starts_with("by its provisioner's own steps, in its order"));
    fixture.seen("n1").clean_steps = Arc::default();
    let plan = fixture.plan();
    assert_eq!(
        because(&plan),
        "by steps of its provisioner's own, which it names only while it cleans"
    );
    fixture.seen("n1").capabilities.remove(Capability::Wipe);
    let plan = fixture.plan();
    assert_eq!(
        because(&plan),
        "automated cleaning is off in its provisioner"
    );
    assert!(plan.changes[0].blocked.is_some());
}

#[test]
fn a_named_step_is_one_that_the_machine_has() {
    let mut fixture = offering();
    fixture.seen("n1").provision = Fact::Known(ProvisionState::Manageable);
    let clean = |fixture: &mut PlanFixture, names: &[(&str, &str)]| {
        fixture.request = Request {
            action: Action::Clean,
            nodes: these(&["n1"]),
            reason: None,
            fields: std::collections::BTreeSet::new(),
            undo: false,
            as_is: false,
            clean_steps: names
                .iter()
                .map(|(interface, step)| crate::step::CleanStep::new(interface, step))
                .collect(),
        };
        fixture.plan()
    };
    let plan = clean(
        &mut fixture,
        &[("deploy", "erase_devices"), ("bios", "reset_bios")],
    );
    assert_eq!(
        cleans(&plan, "clean/n1"),
        "deploy.erase_devices bios.reset_bios on sda"
    );
    assert_eq!(cleans(&clean(&mut fixture, &[]), "clean/n1"), DEFAULT);
    let plan = clean(&mut fixture, &[("raid", "polish")]);
    let reason = plan.changes[0].blocked.clone().unwrap().reason;
    assert!(
        reason.starts_with(
            "it has no clean step `raid.polish`; it has management.verify_properties, "
        )
    );
}

#[test]
fn a_machine_of_which_only_records_know_the_states_is_fenced_and_managed_by_them() {
    let mut fixture = offering();
    for name in ["n1", "n2"] {
        let seen = fixture.seen(name);
        seen.kept_by_records = true;
        seen.provision = Fact::Unknown(Arc::from("no provisioner"));
        seen.power = Fact::Known(PowerState::Off);
    }
    let record = fixture.record("n1");
    record.phase = Phase::Failed;
    record.clean_step = Some(Arc::from("deploy.erase_devices"));
    fixture.designed("n1");
    let plan = ask(&mut fixture, Action::Redeploy);
    assert_eq!(
        plan.changes[0].blocked.as_ref().map(|block| &*block.reason),
        Some("failed to be cleaned, is fenced, and needs manual intervention")
    );
    // Cleaned again, it is manageable, and is cleaned on its way to available.
    let record = fixture.record("n1");
    (record.clean_step, record.manageable) = (None, true);
    let plan = ask(&mut fixture, Action::Provide);
    assert_eq!(cleans(&plan, "provide/n1"), DEFAULT);
}

/// A retired machine in some state, as Ironic or the simulator shows it.
fn retired(state: ProvisionState, cleans_itself: bool) -> PlanFixture {
    let mut fixture = offering();
    let seen = fixture.seen("n1");
    seen.provision = Fact::Known(state);
    seen.retired = Some(Arc::from("by hand: old"));
    seen.cleans_itself = cleans_itself;
    fixture.record("n1").retired = Some(Arc::from("by hand: old"));
    fixture
}

fn reason(plan: &Plan) -> String {
    let block = plan.changes[0].blocked.as_ref();
    block.map_or_else(String::new, |block| block.reason.to_string())
}

#[test]
fn a_retired_machine_is_torn_down_and_cleaned_and_is_forgotten_only_when_that_is_asked_for() {
    let mut fixture = retired(ProvisionState::Active, false);
    let plan = ask(&mut fixture, Action::Teardown);
    assert_eq!(cleans(&plan, "destroy/n1"), DEFAULT);
    assert!(
        plan.changes[0]
            .reasons
            .iter()
            .any(|why| why.contains("ends manageable"))
    );
    assert!(!step(&plan, "destroy/n1").given().forget());
    fixture.options.leaving.forget = true;
    let plan = ask(&mut fixture, Action::Teardown);
    assert!(step(&plan, "destroy/n1").given().forget());
    // What is not retired is not forgotten.
    fixture.seen("n1").retired = None;
    fixture.record("n1").retired = None;
    let plan = ask(&mut fixture, Action::Teardown);
    assert_eq!(
        reason(&plan),
        "`--forget` is for retired machines, and it is not retired"
    );
    // One that was forgotten keeps its retirement in its record, and is left alone.
    let mut fixture = retired(ProvisionState::Enroll, false);
    fixture.seen("n1").retired = None;
    let why: Arc<str> = Arc::from("end of warranty");
    fixture.guards.retirements = vec![crate::design::Retirement {
        selector: Selector {
            node_names: these(&["n1"]),
            ..Selector::default()
        },
        reason: why.clone(),
        from: None,
        mark: mark(),
    }];
    let record = fixture.record("n1");
    (record.phase, record.retired) = (Phase::NotStarted, Some(why));
    assert_eq!(work(&fixture.plan()), "");
}

#[test]
fn a_retired_machine_that_is_never_provided_is_erased_by_a_step_that_it_has_or_not_at_all() {
    let mut fixture = retired(ProvisionState::Manageable, true);
    let plan = ask(&mut fixture, Action::Destroy);
    assert_eq!(
        cleans(&plan, "destroy/n1"),
        "deploy.erase_devices_metadata deploy.erase_devices on sda"
    );
    fixture.seen("n1").clean_steps = Arc::default();
    let plan = ask(&mut fixture, Action::Destroy);
    assert!(
        reason(&plan).contains("has never shown a step that erases its disks"),
        "{}",
        reason(&plan)
    );
    fixture.guards.policy.wipe = crate::design::WipePolicy::Skip;
    let plan = ask(&mut fixture, Action::Destroy);
    assert_eq!(reason(&plan), "");
    assert!(because(&plan).ends_with("the policy says `wipe: skip`"));
    // What was torn down before was cleaned then.
    fixture.guards.policy.wipe = crate::design::WipePolicy::Require;
    fixture.record("n1").phase = Phase::NotStarted;
    let plan = ask(&mut fixture, Action::Destroy);
    assert_eq!(reason(&plan), "");
    assert!(plan.changes[0].disks.is_empty());
}

#[test]
fn what_the_life_of_a_machine_does_not_have_is_not_torn_down() {
    let mut fixture = offering();
    fixture.seen("n1").provision = Fact::Known(ProvisionState::InspectFailed);
    assert_eq!(reason(&ask(&mut fixture, Action::Destroy)), "");
    fixture.seen("n1").provision = Fact::Known(ProvisionState::AdoptFailed);
    assert!(!reason(&ask(&mut fixture, Action::Destroy)).is_empty());
}

#[test]
fn nothing_is_taken_down_for_a_check_that_must_fail() {
    let designed = |vendor: &str, firmware: &str| {
        let text = format!(
            "---\nschema: drydock/HardwareProfile/v1\nmetadata: {{name: server}}\ndata: {{vendor: {vendor}, bios_version: {firmware}}}\n\
             ---\nschema: drydock/HostProfile/v1\nmetadata: {{name: p}}\ndata: {{hardware_profile: server}}\n\
             ---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n1}}\ndata: {{host_profile: p}}\n"
        );
        let site = crate::design::fixture::site(&text);
        site.design.nodes[&NodeName::from("n1")].sections.clone()
    };
    let with = |applied: Sections, new: Sections| {
        let mut fixture = offering();
        fixture.seen("n1").built = Some(Box::new(crate::observed::Built {
            maker: Some(Arc::from("Example Inc.")),
            firmware: Some(Arc::from("1.8.2")),
        }));
        Arc::make_mut(fixture.old.nodes.get_mut("n1").unwrap()).sections = applied;
        fixture.designed("n1").sections = new;
        fixture
    };
    let said = |mut fixture: PlanFixture| {
        let plan = ask(&mut fixture, Action::Redeploy);
        let block = plan.changes[0].blocked.clone();
        block.map_or(String::new(), |block| block.reason.to_string())
    };
    let (fits, newer) = (designed("example", "1.8.2"), designed("example", "1.9.0"));
    assert_eq!(said(with(fits.clone(), fits.clone())), "");
    assert_eq!(
        said(with(newer.clone(), newer.clone())),
        "its clean step firmware.verify_firmware would fail: its firmware has the version 1.8.2, its hardware profile says 1.9.0"
    );
    // A teardown compares the machine with what the design says now: what was wrong when it was applied, and was corrected
    // since, keeps nothing from being torn down.
    assert_eq!(said(with(newer.clone(), fits.clone())), "");
    assert!(!said(with(fits, newer.clone())).is_empty());
    let other = designed("else", "1.8.2");
    assert_eq!(
        said(with(other.clone(), other)),
        "its clean step management.verify_properties would fail: it was made by Example Inc., its hardware profile says else"
    );
    // A step that the policy leaves out fails nothing.
    let mut fixture = with(newer.clone(), newer);
    fixture.guards.cleaning = vec![policy("old", true, &[("firmware.verify_firmware", 0)])];
    assert_eq!(said(fixture), "");
}
