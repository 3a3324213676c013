//! Guards that were tightened after a plan was made.

use super::*;
use crate::identity::Proof;
use crate::plan::{Action, GuardBasis, GuardsNow, PlanGuards, Tightened};
use crate::step::StepKind;

/// Judges a plan that was made before by the guards of the fixture as they are by now.
fn judged(fixture: &PlanFixture, plan: &Plan) -> Tightened {
    let design = fixture.guarded();
    let guards = PlanGuards::of(
        Action::Update,
        &plan.options,
        &design,
        &GuardBasis::default(),
        &plan.steps,
    );
    Tightened::of(
        plan,
        &GuardsNow {
            design: &design,
            applied: &BTreeMap::new(),
            guards: &guards,
            today: "2026-11-25",
        },
    )
}

fn two_bare_machines() -> PlanFixture {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.bare("n1");
    fixture.bare("n2");
    fixture
}

#[test]
fn a_run_goes_on_with_the_smaller_limits_of_now() {
    let mut fixture = two_bare_machines();
    let plan = fixture.plan();
    assert_eq!(judged(&fixture, &plan).options, plan.options);
    fixture.guards.policy.max_failures = Some(1);
    fixture.guards.policy.parallelism = Some(1);
    let tightened = judged(&fixture, &plan);
    assert_eq!(
        (
            tightened.options.max_failures,
            tightened.options.parallelism
        ),
        (Some(1), 1)
    );
    assert!(tightened.refusals.is_empty() && tightened.steps.is_empty());
    // Limits that are larger by now loosen nothing for a run that has begun.
    let plan = fixture.plan();
    fixture.guards.policy.max_failures = None;
    fixture.guards.policy.parallelism = Some(9);
    assert_eq!(judged(&fixture, &plan).options, plan.options);
}

#[test]
fn a_machine_is_not_taken_further_than_the_policy_of_now_allows() {
    use crate::design::{DisruptionPolicy, Rung};
    let mut fixture = PlanFixture::settled(&["n1"]);
    fixture.edit("n1", Section::OperatingSystem);
    fixture.shown = vec![Section::OperatingSystem];
    let most = |fixture: &mut PlanFixture, rung| {
        fixture.guards.policy.disruption = DisruptionPolicy {
            default: rung,
            ..DisruptionPolicy::default()
        };
    };
    most(&mut fixture, Rung::Wipe);
    let plan = fixture.plan();
    assert!(judged(&fixture, &plan).steps.is_empty());
    most(&mut fixture, Rung::Reinstall);
    let tightened = judged(&fixture, &plan);
    let refused = tightened.steps.keys().map(|at| plan.steps[*at].id.kind);
    let refused: Vec<StepKind> = refused.collect();
    assert!(refused.contains(&StepKind::Destroy), "{refused:?}");
    // One that was taken away is built again.
    assert!(!refused.contains(&StepKind::Deploy), "{refused:?}");
}

#[test]
fn a_machine_whose_identity_nothing_proves_is_left_alone_once_the_policy_does_not_allow_it() {
    let mut fixture = two_bare_machines();
    fixture.seen("n1").proof = Proof::Unverified(Arc::from("nothing names it"));
    fixture.guards.policy.unverified = named(&["n1"]);
    let plan = fixture.plan();
    assert!(judged(&fixture, &plan).steps.is_empty());
    fixture.guards.policy.unverified.clear();
    let tightened = judged(&fixture, &plan);
    let of_n1: BTreeSet<usize> = (0..plan.steps.len())
        .filter(|position| plan.steps[*position].id.node == Some(NodeName::from("n1")))
        .collect();
    assert!(!of_n1.is_empty());
    let refused: BTreeSet<usize> = tightened.steps.keys().copied().collect();
    assert_eq!(refused, of_n1);
    // A flag that the plan was made with still names it.
    let mut plan = plan;
    plan.options.allow_unverified.nodes.insert(Arc::from("n1"));
    assert!(judged(&fixture, &plan).steps.is_empty());
}

#[test]
fn a_machine_that_was_protected_or_retired_since_is_left_alone() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.edit("n1", Section::OperatingSystem);
    fixture.options.allow_redeploy = all();
    let plan = fixture.plan();
    let refused = |fixture: &PlanFixture| {
        let tightened = judged(fixture, &plan);
        let steps = tightened.steps.keys().map(|at| plan.steps[*at].id.kind);
        steps.collect::<Vec<StepKind>>()
    };
    assert_eq!(refused(&fixture), []);
    let mut protected = fixture.clone();
    protected.guards.policy.protected = named(&["n1"]);
    assert_eq!(refused(&protected), [StepKind::Destroy]);
    let mut kept = fixture.clone();
    kept.guards.policy.redeploy_on_change = crate::design::RedeployPolicy::Never;
    assert_eq!(refused(&kept), [StepKind::Destroy]);
    let mut retired = fixture.clone();
    retired.guards.retirements = vec![crate::design::Retirement {
        selector: named(&["n1"]).remove(0),
        reason: Arc::from("old"),
        from: None,
        mark: mark(),
    }];
    // Nothing is taken down for a step that must fail.
    let expected = [StepKind::Destroy, StepKind::Prepare, StepKind::Deploy];
    assert_eq!(refused(&retired), expected);
}

#[test]
fn a_machine_that_was_retired_since_is_neither_drained_nor_serviced() {
    let mut fixture = super::leaving::clustered(&["n1", "n2", "n3"]);
    fixture.edit("n1", Section::OperatingSystem);
    fixture.options.allow_redeploy = all();
    let mut plan = fixture.plan();
    fixture.guards.retirements = vec![crate::design::Retirement {
        selector: named(&["n1"]).remove(0),
        reason: Arc::from("old"),
        from: None,
        mark: mark(),
    }];
    let refused = |plan: &crate::plan::Plan| -> BTreeSet<StepKind> {
        let steps = judged(&fixture, plan).steps.into_keys();
        steps.map(|at| plan.steps[at].id.kind).collect()
    };
    let taken_out = [
        StepKind::Drain,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
    ];
    assert!(refused(&plan).is_superset(&taken_out.into()));
    for step in &mut plan.steps {
        if step.id.kind == StepKind::Destroy {
            step.id.kind = StepKind::Service;
        }
    }
    assert!(refused(&plan).is_superset(&[StepKind::Drain, StepKind::Service].into()));
}

#[test]
fn a_run_that_reaches_more_than_the_policy_of_now_allows_is_not_carried_out() {
    use crate::design::{BlastRadius, Rung};
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    for name in ["n1", "n2"] {
        fixture.edit(name, Section::OperatingSystem);
    }
    fixture.options.allow_redeploy = all();
    let plan = fixture.plan();
    let most = |machines| BlastRadius {
        machines: Some(machines),
        ..BlastRadius::default()
    };
    fixture.guards.policy.blast_radius = [(Rung::Wipe, most(2))].into();
    assert!(judged(&fixture, &plan).refusals.is_empty());
    fixture.guards.policy.blast_radius = [(Rung::Wipe, most(1))].into();
    assert_eq!(
        judged(&fixture, &plan).refusals,
        ["it reaches 2 machines on rung `wipe` or above, and at most 1 (`blast_radius`)"]
    );
}
