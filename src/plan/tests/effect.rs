//! The effect of a plan covers everything about a node with steps, except what the tables of exceptions name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::asked::asked;
use super::{PlanFixture, all, these};
use crate::design::{
    AcceptedDesign, BackendKind, ClusterName, Digests, HardwareSetting, NodeName, OutOfBand,
    Section, SectionDigest, fixture,
};
use crate::identity::Identity;
use crate::plan::effect::parameters::EXCEPTIONS;
use crate::plan::{Action, Difference, Plan, PlanEffect};
use crate::remediation::RemediationLimits;
use crate::step::{CleanStep, DeployStep, EtcdRemoval, OnDrainTimeout, Parameters, StepKind};

/// A site of which `n1` is built again.
fn redeployed() -> PlanFixture {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.edit("n1", Section::OperatingSystem);
    fixture.options.allow_redeploy = all();
    fixture
}

/// The differences by which a plan does more than one that was reviewed.
fn added(now: &Plan, reviewed: &Plan) -> Vec<String> {
    let added = PlanEffect::of(now).adds_to(&PlanEffect::of(reviewed));
    added.iter().map(Difference::to_string).collect()
}

/// The parameters of the deploy of a plan.
fn of_deploy(plan: &mut Plan) -> &mut Parameters {
    let mut steps = plan.steps.iter_mut();
    let step = steps.find(|step| step.id.kind == StepKind::Deploy);
    let parameters = &mut step.unwrap().parameters;
    Arc::make_mut(parameters.get_or_insert_default())
}

#[test]
fn each_section_of_the_design_of_a_node_with_steps_is_covered() {
    let reviewed = redeployed().plan();
    for section in Section::ALL {
        let mut fixture = redeployed();
        let digest = SectionDigest([3; 32]);
        fixture.designed("n1").digests.insert(section, digest);
        let now = fixture.plan();
        let expected = match section {
            Section::Inventory => vec![],
            section => vec![format!(
                "n1: the section `{section}` of its design is another"
            )],
        };
        assert_eq!(added(&now, &reviewed), expected);
        let is_same = PlanEffect::of(&now).digest() == PlanEffect::of(&reviewed).digest();
        assert_eq!(is_same, section == Section::Inventory);
    }
}

#[test]
fn how_a_machine_is_reached_and_which_one_it_is_are_covered() {
    type Edit = fn(&mut PlanFixture);
    let table: [(Edit, &str); 7] = [
        (
            |fixture| fixture.designed("n1").out_of_band.address = Some("10.0.0.66".into()),
            "n1: the address of its controller is `10.0.0.66`, not `10.0.0.1`",
        ),
        (
            |fixture| fixture.designed("n1").out_of_band.account = Some("root".into()),
            "n1: the account of its controller is `root`, not `admin`",
        ),
        (
            |fixture| fixture.designed("n1").out_of_band.kind = Some("ipmi".into()),
            "n1: the kind of its controller is `ipmi`, not `redfish`",
        ),
        (
            |fixture| fixture.guards.backends.hardware.kind = BackendKind::Sim,
            "n1: it is reached by `sim`, not no backend",
        ),
        (
            |fixture| {
                let settings = fixture::value("{image: evil.iso}");
                fixture.guards.backends.hardware.settings = Some(settings);
            },
            "n1: the settings of the backend that reaches it (no backend) are others",
        ),
        (
            |fixture| {
                let names = &mut fixture.guards.backends.names;
                let other = [(Arc::from("ironic"), Arc::from("n2"))];
                names.insert(NodeName::from("n1"), other.into());
            },
            "n1: it is called `n2` in `ironic`",
        ),
        (
            |fixture| {
                let identity = Identity::of(None, Some("OTHER"));
                fixture.record("n1").identity = Some(Box::new(identity));
            },
            "n1: its serial number is OTHER",
        ),
    ];
    let known = || {
        let mut fixture = redeployed();
        fixture.designed("n1").out_of_band = OutOfBand {
            kind: Some("redfish".into()),
            address: Some("10.0.0.1".into()),
            account: Some("admin".into()),
        };
        let identity = Identity::of(None, Some("SN-1"));
        fixture.record("n1").identity = Some(Box::new(identity));
        fixture
    };
    let reviewed = known().plan();
    assert_eq!(added(&reviewed, &reviewed), Vec::<String>::new());
    for (edit, expected) in table {
        let mut fixture = known();
        edit(&mut fixture);
        assert_eq!(added(&fixture.plan(), &reviewed), [expected]);
    }
}

#[test]
fn a_node_without_steps_is_not_covered() {
    let reviewed = redeployed().plan();
    let mut fixture = redeployed();
    fixture.designed("n2").out_of_band.address = Some("10.0.0.66".into());
    let digest = SectionDigest([3; 32]);
    fixture
        .designed("n2")
        .digests
        .insert(Section::OutOfBand, digest);
    fixture.options.targets = these(&["n1"]);
    let mut now = fixture.plan();
    now.options.targets.clear();
    assert_eq!(
        PlanEffect::of(&now).digest(),
        PlanEffect::of(&reviewed).digest()
    );
}

/// All parameters that there are, each with a value.
fn everything() -> Parameters {
    let text = |text: &str| Some(Arc::from(text));
    Parameters {
        soak: Some(Box::new(crate::step::SoakTerms {
            seconds: 60,
            namespaces: Vec::new(),
            nodes: Vec::new(),
            joined: Vec::new(),
            etcd: BTreeMap::new(),
        })),
        settings: vec![HardwareSetting {
            name: Arc::from("bios.Turbo"),
            before: text("Disabled"),
            value: Arc::from("Enabled"),
        }],
        runbook: text("CUSTOM_DELL"),
        set_labels: vec![(Arc::from("a"), Arc::from("b"))],
        remove_labels: vec![Arc::from("c")],
        disks: vec![Arc::from("sda")],
        reason: text("it is old"),
        identity: Some(Box::new(Identity::of(None, Some("SN-1")))),
        accepted: Some(Box::new(AcceptedDesign {
            revision: Arc::from("r1"),
            digests: Digests::default(),
            differences: Vec::new(),
        })),
        verified: vec![Section::Labels],
        open: vec![crate::design::OpenField::Storage],
        renamed_from: Some(NodeName::from("n9")),
        joins: true,
        deployed_at: Some(1),
        refused: None,
        grace_period: Some(60),
        on_drain_timeout: Some(OnDrainTimeout::Continue),
        etcd_members: vec![EtcdRemoval {
            cluster: ClusterName::from("etcd"),
            cluster_id: Arc::from("c"),
            member_id: Arc::from("1"),
            name: Arc::from("n1"),
        }],
        members_only: true,
        etcd_given_up: vec![ClusterName::from("etcd")],
        node_uid: text("uid"),
        node_is_gone: true,
        machine_is_off: true,
        backup: Some(Box::default()),
        remediation: Some(RemediationLimits::default()),
        remembered: Some(Box::default()),
        preserve_local_storage: true,
        image: text("ubuntu-24.04"),
        deploys: vec![NodeName::from("n1")],
        forget: true,
        clean_steps: vec![CleanStep::new("deploy", "erase_devices")],
        deploy_steps: vec![DeployStep {
            interface: Arc::from("bios"),
            step: Arc::from("apply_configuration"),
            priority: 150,
            arguments: None,
        }],
    }
}

#[test]
fn every_parameter_of_a_step_is_covered_or_an_exception() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../schemas/plan.json")).unwrap();
    let schema = schema["$defs"]["parameters"]["properties"].as_object();
    let names: BTreeSet<&str> = schema.unwrap().keys().map(String::as_str).collect();
    let whole = serde_json::to_value(everything()).unwrap();
    let with = |parameters: Parameters| {
        let mut plan = redeployed().plan();
        *of_deploy(&mut plan) = parameters;
        plan
    };
    let reviewed = with(everything());
    for name in names.into_iter().filter(|name| *name != "refused") {
        let mut without = whole.clone();
        let removed = without.as_object_mut().unwrap().remove(name);
        assert!(removed.is_some(), "{name} has no value in this test");
        let without = with(serde_json::from_value(without).unwrap());
        let digest = |plan| PlanEffect::of(plan).digest();
        let mut exceptions = EXCEPTIONS.iter();
        let is_exception = exceptions.any(|each| each.name == name && each.kind.is_none());
        assert_eq!(
            digest(&without) == digest(&reviewed),
            is_exception,
            "{name}"
        );
        let (more, less) = match name {
            // It holds something back.
            "preserve_local_storage" => (&without, &reviewed),
            _ => (&reviewed, &without),
        };
        let is_added = !added(more, less).is_empty();
        assert_eq!(is_added, !is_exception && name != "grace_period", "{name}");
        // A deploy or a service by other steps than those that were reviewed is another one in either direction.
        let is_less = added(less, more).is_empty();
        let is_another = ["deploy_steps", "runbook"].contains(&name);
        assert_eq!(is_less, !is_another, "{name}");
    }
    assert!(EXCEPTIONS.iter().all(|each| !each.reason.is_empty()));
}

#[test]
fn less_than_what_was_reviewed_is_covered() {
    let with = |edit: fn(&mut Parameters)| {
        let mut plan = redeployed().plan();
        let parameters = of_deploy(&mut plan);
        *parameters = everything();
        edit(parameters);
        plan
    };
    let reviewed = with(|_| {});
    type Case = (fn(&mut Parameters), &'static [&'static str]);
    let table: [Case; 6] = [
        (|all| all.grace_period = Some(90), &[]),
        (
            |all| all.grace_period = Some(59),
            &["n1: its pods are given 59 s to end"],
        ),
        (|all| all.on_drain_timeout = Some(OnDrainTimeout::Fail), &[]),
        (
            |all| all.on_drain_timeout = Some(OnDrainTimeout::ForceDelete),
            &["n1: `--on-drain-timeout` takes effect: `force-delete`"],
        ),
        (
            |all| all.set_labels.push((Arc::from("x"), Arc::from("y"))),
            &["n1: label `x=y` is set"],
        ),
        (
            |all| all.image = Some(Arc::from("evil")),
            &["n1: image `evil` is deployed"],
        ),
    ];
    for (edit, expected) in table {
        assert_eq!(added(&with(edit), &reviewed), expected);
    }
}

#[test]
fn what_an_action_takes_away_is_told_from_what_stays() {
    let takes_away = |action| {
        let mut fixture = PlanFixture::settled(&["n1", "n2"]);
        let plan = asked(&mut fixture, action, &["n1"]);
        PlanEffect::of(&plan).takes_away()
    };
    for action in [Action::Teardown, Action::Redeploy, Action::Forget] {
        assert!(takes_away(action), "{action}");
    }
    for action in [Action::PowerOff, Action::Retire] {
        assert!(!takes_away(action), "{action}");
    }
}
