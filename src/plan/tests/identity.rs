//! Machines that are not proven to be those of the documents.

use super::*;
use crate::identity::{Identity, Proof};
use crate::plan::Action;
use crate::step::StepKind;

fn seen_as<'w>(
    fixture: &'w mut PlanFixture,
    name: &str,
    uuid: &str,
    proof: Proof,
) -> &'w mut PlanFixture {
    let node = fixture.seen(name);
    node.identity = Some(Box::new(Identity::of(Some(uuid), None)));
    node.proof = proof;
    fixture
}

fn unverified() -> Proof {
    Proof::Unverified(Arc::from("nothing names it"))
}

#[test]
fn what_would_change_an_unverified_machine_waits_for_its_flag_and_is_marked_with_it() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.bare("n1");
    seen_as(&mut fixture, "n1", "uuid-1", unverified());
    let block = |plan: &Plan| plan.changes[0].blocked.clone().unwrap();
    let blocked = block(&fixture.plan());
    assert_eq!(blocked.flag.as_deref(), Some("--allow-unverified n1"));
    assert!(blocked.reason.contains("unverified: nothing names it"));
    fixture
        .options
        .allow_unverified
        .nodes
        .insert(Arc::from("n1"));
    let plan = fixture.plan();
    assert_eq!(plan.changes[0].blocked, None);
    assert_eq!(
        plan.unverified().map(NodeName::as_str).collect::<Vec<_>>(),
        ["n1"]
    );
    assert!(
        plan.warnings
            .iter()
            .any(|text| text.contains("(unverified): n1"))
    );
    // The same by the policy of the site.
    fixture.options.allow_unverified = Allowance::default();
    fixture.guards.policy.unverified = named(&["n1"]);
    assert_eq!(fixture.plan().unverified().count(), 1);
    // Nothing is done to the others, and so nothing has to be proven.
    seen_as(&mut fixture, "n2", "uuid-2", unverified());
    assert_eq!(fixture.plan().changes.len(), 1);
}

#[test]
fn no_flag_lets_another_machine_be_changed() {
    for action in [
        Action::Update,
        Action::PowerOff,
        Action::Teardown,
        Action::Remediate,
    ] {
        let mut fixture = PlanFixture::settled(&["n1"]);
        if action == Action::Update {
            fixture.bare("n1");
        } else {
            fixture.request = Request {
                action,
                nodes: [Arc::from("n1")].into(),
                ..Request::default()
            };
        }
        let why = Proof::Refused(Arc::from("its UUID is b, expected a"));
        seen_as(&mut fixture, "n1", "b-1", why);
        fixture.options.allow_unverified.all = true;
        let plan = fixture.plan();
        let block = plan.changes[0].blocked.as_ref().unwrap();
        assert_eq!(block.flag, None, "{action}: {block:?}");
        assert!(plan.steps.is_empty(), "{action}");
    }
}

#[test]
fn what_an_adopted_machine_shows_is_kept_and_a_replaced_board_is_accepted() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.records.remove("n1");
    seen_as(&mut fixture, "n1", "uuid-1", Proof::Proven);
    fixture.options.adopt.all = true;
    let identity_of = |plan: &Plan, kind: StepKind| {
        let step = plan.steps.iter().find(|step| step.id.kind == kind)?;
        step.given().identity().clone()
    };
    let kept = identity_of(&fixture.plan(), StepKind::Adopt).unwrap();
    assert_eq!(
        (kept.uuid.as_deref(), kept.unverified),
        (Some("uuid-1"), false)
    );

    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.record("n1").identity = Some(Box::new(Identity::of(Some("uuid-1"), None)));
    fixture.request = Request {
        action: Action::Accept,
        nodes: [Arc::from("n1")].into(),
        ..Request::default()
    };
    let refused = Proof::Refused(Arc::from("its UUID is uuid-9, expected uuid-1"));
    seen_as(&mut fixture, "n1", "uuid-9", refused);
    let plan = fixture.plan();
    let reasons: Vec<&str> = plan.changes[0].reasons.iter().map(|text| &**text).collect();
    assert_eq!(
        reasons,
        ["recorded: UUID uuid-1", "observed now: UUID uuid-9"]
    );
    let accepted = identity_of(&plan, StepKind::AcceptIdentity).unwrap();
    assert_eq!(accepted.uuid.as_deref(), Some("uuid-9"));
    // Never the machine of another node.
    fixture.record("n2").identity = Some(Box::new(Identity::of(Some("uuid-9"), None)));
    let plan = fixture.plan();
    let block = plan.changes[0].blocked.as_ref().unwrap();
    assert!(block.reason.contains("recorded for `n2`"), "{block:?}");
    assert_eq!(identity_of(&plan, StepKind::AcceptIdentity), None);
    // Known already: nothing to do.
    seen_as(&mut fixture, "n1", "uuid-1", Proof::Proven);
    assert!(fixture.plan().steps.is_empty());
}

#[test]
fn a_plan_says_which_deploys_nothing_proves() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.bare("n1");
    let says = |plan: &Plan| {
        plan.warnings
            .iter()
            .any(|text| text.starts_with("are deployed unverified"))
    };
    assert!(!says(&fixture.plan()));
    fixture.seen("n1").deploys_unverified = true;
    fixture.seen("n2").deploys_unverified = true;
    let plan = fixture.plan();
    assert!(says(&plan) && plan.warnings.iter().any(|text| text.ends_with(": n1")));
}

#[test]
fn a_plan_warns_of_what_a_machine_that_is_switched_on_would_boot_from() {
    let says_of = |power: PowerState, source: Option<&str>, adopts: bool| {
        let mut fixture = PlanFixture::settled(&["n1"]);
        fixture.seen("n1").power = Fact::Known(power);
        fixture.seen("n1").boots_from = source.map(Arc::from);
        if adopts {
            fixture.records.clear();
            fixture.options.adopt.nodes = ["n1".into()].into();
        }
        let plan = fixture.plan();
        let text = "are set to boot from a source that may install them";
        plan.warnings
            .iter()
            .any(|warning| warning.starts_with(text))
    };
    let says = |power, source| says_of(power, source, false);
    assert!(says(PowerState::Off, Some("Cd (Continuous)")));
    // One that is adopted is not touched.
    assert!(says_of(PowerState::On, Some("Cd (Continuous)"), true));
    assert!(!says_of(PowerState::On, None, true));
    assert!(!says(PowerState::Off, None));
    // It is on: nothing of the plan switches it.
    assert!(!says(PowerState::On, Some("Cd (Continuous)")));
}

#[test]
fn only_a_machine_that_carries_a_system_is_taken_as_it_is() {
    let mut fixture = PlanFixture::settled(&["n1"]);
    let record = fixture.record("n1");
    record.phase = Phase::Failed;
    record.digests.clear();
    fixture.request = Request {
        action: Action::Accept,
        nodes: these(&["n1"]),
        reason: Some(Arc::from("booted by hand")),
        as_is: true,
        ..Request::default()
    };
    assert_eq!(work(&fixture.plan()), "adopt/n1");
    fixture.see("n1", ProvisionState::Available);
    let plan = fixture.plan();
    let block = plan.changes[0].blocked.as_ref().unwrap();
    assert_eq!(&*block.reason, "it was not observed to carry a system");
    assert_eq!(work(&plan), "");
}

#[test]
fn what_no_document_fills_at_an_adoption_is_named_as_open() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.records.clear();
    fixture.options.adopt = all();
    let reasons = fixture.plan().changes[0].reasons.join("; ");
    let expected = "it is not built again before its documents have or assume: ";
    assert!(reasons.contains(expected), "{reasons}");
}
