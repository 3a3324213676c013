//! The effect of a plan covers everything about a node with steps, except what the tables of exceptions name.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::asked::asked;
use super::{PlanFixture, all, these};
use crate::design::{
    AcceptedDesign, BackendKind, ClusterName, Digests, NodeName, OpenField, OutOfBand, Section,
    SectionDigest, fixture,
};
use crate::identity::Identity;
use crate::plan::effect::parameters::EXCEPTIONS;
use crate::plan::{Action, Difference, Plan, PlanEffect};
use crate::remediation::{Backup, Memory, RemediationLimits};
use crate::step::{
    CleanStep, DeployStep, EtcdRemoval, KindSubject, OnDrainTimeout, Parameters, StepKind,
    of_settings,
};

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

/// A plan whose deploy of `n1` has become a step of another kind with these parameters.
fn with(kind: StepKind, given: &Value) -> Plan {
    let mut plan = redeployed().plan();
    let mut steps = plan.steps.iter_mut();
    let step = steps.find(|step| step.id.kind == StepKind::Deploy).unwrap();
    step.id.kind = kind;
    step.parameters = Parameters::of(kind, given);
    plan
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
fn everything() -> Map<String, Value> {
    let differences = AcceptedDesign {
        revision: Arc::from("r1"),
        digests: Digests::default(),
        differences: Vec::new(),
    };
    let member = EtcdRemoval {
        cluster: ClusterName::from("etcd"),
        cluster_id: Arc::from("c"),
        member_id: Arc::from("1"),
        name: Arc::from("n1"),
    };
    let step = DeployStep {
        interface: Arc::from("bios"),
        step: Arc::from("apply_configuration"),
        priority: 150,
        arguments: None,
    };
    let settings = &of_settings(&[("bios.Turbo", "Enabled")])["settings"];
    let all = json!({
        "soak": {"seconds": 60},
        "settings": settings,
        "runbook": "CUSTOM_DELL",
        "kept_parts": [{"name": "expect.memory_gib", "value": "512"}],
        "set_labels": [["a", "b"]],
        "remove_labels": ["c"],
        "disks": ["sda"],
        "reason": "it is old",
        "identity": Identity::of(None, Some("SN-1")),
        "accepted": differences,
        "verified": [Section::Labels],
        "open": [OpenField::Storage],
        "renamed_from": "n9",
        "joins": true,
        "deployed_at": 1,
        "refused": "it is unknown",
        "grace_period": 60,
        "on_drain_timeout": OnDrainTimeout::Continue,
        "etcd_members": [member],
        "members_only": true,
        "etcd_given_up": ["etcd"],
        "node_uid": "uid",
        "node_is_gone": true,
        "machine_is_off": true,
        "backup": Backup { unschedulable: true, ..Backup::default() },
        "remediation": RemediationLimits::default(),
        "remembered": Memory::default(),
        "in_service": true,
        "preserve_local_storage": true,
        "image": "ubuntu-24.04",
        "deploys": ["n1"],
        "forget": true,
        "clean_steps": [CleanStep::new("deploy", "erase_devices")],
        "deploy_steps": [step],
    });
    all.as_object().unwrap().clone()
}

/// Those of a kind, each with a value.
fn of_kind(kind: StepKind) -> Map<String, Value> {
    let mut all = everything();
    all.retain(|name, value| Parameters::read(kind, &json!({ name: value }).to_string()).is_ok());
    all
}

#[test]
fn every_parameter_of_a_step_is_covered_or_an_exception() {
    let schema: Value = serde_json::from_str(include_str!("../../../schemas/plan.json")).unwrap();
    let schema = schema["$defs"]["parameters"]["properties"].as_object();
    let mut named: BTreeSet<&str> = schema.unwrap().keys().map(String::as_str).collect();
    let kinds = StepKind::ALL.into_iter();
    for kind in kinds.filter(|kind| kind.facts().subject == KindSubject::Node) {
        let mut whole = of_kind(kind);
        // What is refused does not count at all.
        named.remove("refused");
        whole.remove("refused");
        let reviewed = with(kind, &Value::Object(whole.clone()));
        for name in whole.keys().map(String::as_str) {
            named.remove(name);
            let mut without = whole.clone();
            without.remove(name);
            let without = with(kind, &Value::Object(without));
            let digest = |plan| PlanEffect::of(plan).digest();
            let mut exceptions = EXCEPTIONS.iter();
            let is_exception = exceptions
                .any(|each| each.name == name && each.kind.is_none_or(|other| other == kind));
            let is_same = digest(&without) == digest(&reviewed);
            assert_eq!(is_same, is_exception, "{kind}: {name}");
            let (more, less) = match name {
                // It holds something back.
                "preserve_local_storage" => (&without, &reviewed),
                _ => (&reviewed, &without),
            };
            let is_added = !added(more, less).is_empty();
            let counts = !is_exception && name != "grace_period";
            assert_eq!(is_added, counts, "{kind}: {name}");
            // A deploy or a service by other steps than those that were reviewed is another one in either direction.
            let is_less = added(less, more).is_empty();
            let is_another = ["deploy_steps", "runbook"].contains(&name);
            assert_eq!(is_less, !is_another, "{kind}: {name}");
        }
    }
    // Those of the site and of groups are no part of a node's.
    assert_eq!(named, BTreeSet::from(["deploys", "soak"]));
    assert!(EXCEPTIONS.iter().all(|each| !each.reason.is_empty()));
}

#[test]
fn a_parameter_of_another_kind_is_refused() {
    for kind in StepKind::ALL {
        let own = of_kind(kind);
        let others = everything().into_iter();
        for (name, value) in others.filter(|(name, _)| !own.contains_key(name)) {
            let error = Parameters::read(kind, &json!({ &*name: value }).to_string());
            let error = error.unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("unknown field `{name}`")),
                "{kind}: {error}"
            );
        }
        // What has its empty value is as good as absent.
        assert_eq!(Parameters::read(kind, "{}").unwrap(), None);
    }
}

#[test]
fn less_than_what_was_reviewed_is_covered() {
    let table: [(StepKind, &str, Value, &[&str]); 6] = [
        (StepKind::Drain, "grace_period", json!(90), &[]),
        (
            StepKind::Drain,
            "grace_period",
            json!(59),
            &["n1: its pods are given 59 s to end"],
        ),
        (StepKind::Drain, "on_drain_timeout", json!("fail"), &[]),
        (
            StepKind::Drain,
            "on_drain_timeout",
            json!("force-delete"),
            &["n1: `--on-drain-timeout` takes effect: `force-delete`"],
        ),
        (
            StepKind::Relabel,
            "set_labels",
            json!([["a", "b"], ["x", "y"]]),
            &["n1: label `x=y` is set"],
        ),
        (
            StepKind::Deploy,
            "image",
            json!("evil"),
            &["n1: image `evil` is deployed"],
        ),
    ];
    for (kind, name, value, expected) in table {
        let mut given = Value::Object(of_kind(kind));
        let reviewed = with(kind, &given);
        given[name] = value;
        assert_eq!(added(&with(kind, &given), &reviewed), expected);
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
