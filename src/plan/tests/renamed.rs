//! Machines that have another name in the design than in their records.

use super::*;
use crate::design::{BackendKind, HardwareBackend};
use crate::identity::{Identity, Proof};
use crate::plan::{Action, Standing};

/// A machine that was `old`, and is `new` in the design, by the address of its controller.
fn renamed() -> PlanFixture {
    let mut fixture = PlanFixture::settled(&["n1", "old"]);
    fixture.guards.backends.hardware = HardwareBackend {
        kind: BackendKind::Redfish,
        settings: None,
    };
    let address = Some(Arc::from("10.1.0.7"));
    let old = Arc::make_mut(fixture.old.nodes.get_mut("old").unwrap());
    old.out_of_band.address = address;
    let mut new = old.clone();
    new.name = NodeName::from("new");
    fixture.leave("old");
    fixture.after.nodes.insert(new.name.clone(), Arc::new(new));
    fixture.see("new", ProvisionState::Active);
    fixture.record("old").identity = Some(Box::new(Identity::of(Some("uuid-1"), None)));
    fixture.seen("new").identity = Some(Box::new(Identity::of(Some("uuid-1"), None)));
    fixture
}

fn only(plan: &Plan) -> &crate::plan::Change {
    assert_eq!(plan.changes.len(), 1, "{:#?}", plan.changes);
    &plan.changes[0]
}

#[test]
fn a_machine_under_a_new_name_is_one_change_that_touches_no_machine() {
    let fixture = renamed();
    let plan = fixture.plan();
    let change = only(&plan);
    assert_eq!(
        (change.node.as_str(), change.kind, change.counts_as),
        ("new", ChangeKind::Rename, Standing::Deployed)
    );
    assert_eq!(work(&plan), "rename/new");
    let before = step(&plan, "rename/new").given().renamed_from();
    assert_eq!(*before, Some(NodeName::from("old")));
    // Nothing that is allowed tears it down under its old name.
    let mut fixture = renamed();
    fixture.options.allow_destroy = all();
    fixture.options.allow_redeploy = all();
    fixture.options.adopt = all();
    assert_eq!(work(&fixture.plan()), "rename/new");
}

#[test]
fn what_else_differs_is_told_and_waits_until_it_has_its_name() {
    let mut fixture = renamed();
    fixture.edit("new", Section::Network);
    let plan = fixture.plan();
    assert_eq!(work(&plan), "rename/new");
    let told = only(&plan).reasons.join("\n");
    assert!(told.contains("differs in network"), "{told}");
}

#[test]
fn a_machine_that_nothing_proves_to_be_the_same_is_left_alone_under_both_names() {
    type Change = fn(&mut PlanFixture);
    let cases: [(&str, Change); 4] = [
        ("it is another machine", |fixture| {
            fixture.seen("new").proof = Proof::Refused(Arc::from("it is another machine"));
        }),
        ("nothing names it", |fixture| {
            fixture.seen("new").proof = Proof::Unverified(Arc::from("nothing names it"));
        }),
        ("it shows nothing", |fixture| {
            fixture.seen("new").identity = None;
        }),
        ("it was not observed", |fixture| {
            fixture.observations = None;
        }),
    ];
    for (why, change) in cases {
        let mut fixture = renamed();
        change(&mut fixture);
        fixture.options.allow_destroy = all();
        fixture.options.adopt = all();
        fixture.options.allow_unverified = all();
        let plan = fixture.plan();
        assert!(plan.steps.is_empty(), "{why}: {}", work(&plan));
        let block = only(&plan).blocked.clone().unwrap();
        assert!(block.reason.contains(why), "{block:?}");
        assert!(
            block.reason.contains("trueup apply forget old"),
            "{block:?}"
        );
        assert_eq!(block.flag, None);
    }
}

#[test]
fn actions_on_either_name_wait_for_the_rename() {
    for (action, name) in [
        (Action::Teardown, "old"),
        (Action::Destroy, "old"),
        (Action::Redeploy, "new"),
        (Action::PowerOff, "new"),
    ] {
        let mut fixture = renamed();
        fixture.see("old", ProvisionState::Active);
        fixture.request = Request {
            action,
            nodes: these(&[name]),
            ..Request::default()
        };
        let plan = fixture.plan();
        let block = only(&plan).blocked.clone().unwrap();
        assert!(
            block.reason.contains("an update gives"),
            "{action} {block:?}"
        );
    }
    let mut fixture = renamed();
    fixture.request = Request {
        action: Action::Forget,
        nodes: these(&["old"]),
        ..Request::default()
    };
    assert_eq!(work(&fixture.plan()), "forget/old");
}

#[test]
fn a_machine_whose_record_knows_nothing_of_it_or_that_has_left_is_torn_down_as_before() {
    let mut fixture = renamed();
    fixture.record("old").identity = None;
    let plan = fixture.plan();
    let kinds: Vec<ChangeKind> = plan.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Adopt, ChangeKind::Destroy]);
    let mut fixture = renamed();
    fixture.designed("new").out_of_band.address = Some(Arc::from("10.1.0.8"));
    assert_eq!(fixture.plan().changes.len(), 2);
}

fn is_rename(fixture: &PlanFixture) -> bool {
    let plan = fixture.unchecked().unwrap();
    let mut changes = plan.changes.iter();
    changes.any(|change| change.kind == ChangeKind::Rename)
}

#[test]
fn of_two_names_that_a_machine_could_have_now_none_is_taken() {
    let mut fixture = renamed();
    assert!(is_rename(&fixture));
    let mut other = NodeDesign::clone(&fixture.after.nodes["new"]);
    other.name = NodeName::from("other");
    fixture
        .after
        .nodes
        .insert(other.name.clone(), Arc::new(other));
    assert!(!is_rename(&fixture));
}

#[test]
fn a_machine_whose_recorded_identity_was_never_proven_gets_no_other_name() {
    let mut fixture = renamed();
    let identity = fixture.record("old").identity.as_mut().unwrap();
    identity.unverified = true;
    assert!(!is_rename(&fixture));
}
