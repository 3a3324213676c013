//! Runs of another clone whose steps are those of an honest plan, and are done sooner, later, in another order or more
//! at a time than the documents and the options ask for.

use trueup::plan::Plan;
use trueup::plan::saved::{read, write};
use trueup::step::StepKind;

use super::{Fixture, another_image, changed, control_plane, give, plant, save};

/// A plan for a request, as it is read.
fn planned(fixture: &Fixture, request: &[&str]) -> Plan {
    read(&std::fs::read(save(fixture, request)).unwrap()).unwrap()
}

/// Writes a plan as a run of another clone.
fn planted(fixture: &Fixture, honest: &Plan, mut forged: Plan) {
    forged.summary.longest_path = longest_path(&forged);
    plant(fixture, honest, &write(&forged));
}

fn longest_path(plan: &Plan) -> u64 {
    let mut ends: Vec<u64> = Vec::new();
    for step in &plan.steps {
        let begin = step.needs.iter().map(|need| ends[need.step.0 as usize]);
        let own = if step.standby { 0 } else { step.timeout };
        ends.push(begin.max().unwrap_or_default() + own);
    }
    ends.into_iter().max().unwrap_or_default()
}

/// Two machines that are built again, one after the other.
fn one_at_a_time() -> (Fixture, [&'static str; 6]) {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    for node in ["compute11", "compute12"] {
        another_image(&fixture, node);
    }
    fixture.checkout.commit("Another image");
    let request = [
        "--allow-redeploy",
        "all",
        "--max-unavailable",
        "1",
        "--parallelism",
        "10",
    ];
    (fixture, request)
}

fn resume<'a>(allowed: &[&'a str]) -> Vec<&'a str> {
    [&["apply", "--resume"], allowed].concat()
}

#[test]
fn steps_that_wait_for_less_are_not_resumed() {
    let (fixture, request) = one_at_a_time();
    let honest = planned(&fixture, &request);
    let before = fixture.ledger();
    for kind in [
        StepKind::Deploy,
        StepKind::Prepare,
        StepKind::Destroy,
        StepKind::StartWave,
        StepKind::GatePrepared,
        StepKind::GateDeployed,
        StepKind::CriticalCheck,
        StepKind::Tag,
    ] {
        let mut forged = honest.clone();
        let mut steps = forged.steps.iter_mut();
        steps.rfind(|step| step.id.kind == kind).unwrap().needs = Vec::new();
        planted(&fixture, &honest, forged);
        fixture.run(&resume(&request[..4])).with(4).saying("check-");
        assert_eq!(fixture.ledger(), before);
    }
}

#[test]
fn more_machines_than_the_limits_allow_are_not_taken_out_together() {
    let (fixture, request) = one_at_a_time();
    let honest = planned(&fixture, &request);
    let mut forged = planned(
        &fixture,
        &["--allow-redeploy", "all", "--max-unavailable", "2"],
    );
    forged.options = honest.options.clone();
    let before = fixture.ledger();
    planted(&fixture, &honest, forged);
    fixture
        .run(&resume(&request[..4]))
        .with(4)
        .saying("check-limits");
    assert_eq!(fixture.ledger(), before);
    // The same run in waves is resumed.
    planted(&fixture, &honest, honest.clone());
    fixture.run(&resume(&request[..4])).with(0);
    assert_eq!(fixture.ledger()["compute12 destroyed"], 1);
}

#[test]
fn groups_that_are_judged_otherwise_are_not_resumed() {
    let fixture = changed();
    let honest = planned(&fixture, &["--skip-blocked"]);
    type Forgery = fn(&mut trueup::plan::PlannedGroup);
    let forgeries: [Forgery; 3] = [
        |group| group.critical = !group.critical,
        |group| group.success_criteria.percent_successful_nodes = Some(1),
        |group| drop(group.nodes.pop()),
    ];
    for forgery in forgeries {
        let mut forged = honest.clone();
        forgery(
            forged
                .groups
                .iter_mut()
                .find(|group| group.nodes.len() > 1)
                .unwrap(),
        );
        planted(&fixture, &honest, forged);
        fixture
            .run(&resume(&["--skip-blocked"]))
            .with(5)
            .saying("is judged otherwise");
    }
    assert_eq!(fixture.effects("relabelled"), 0);
}

#[test]
fn steps_get_the_time_that_a_plan_made_now_gives_them() {
    let (fixture, request) = one_at_a_time();
    let honest = planned(&fixture, &request);
    let mut forged = honest.clone();
    for step in &mut forged.steps {
        step.timeout = step.timeout.min(1);
    }
    planted(&fixture, &honest, forged);
    fixture.run(&resume(&request[..4])).with(0);
    assert_eq!(fixture.ledger()["compute11 deployed"], 2);
}

/// Takes a step out; what waited for it waits for what it waited for.
pub(super) fn without(plan: &Plan, kind: StepKind) -> Plan {
    let mut forged = plan.clone();
    let steps = forged.steps.iter();
    let position = steps.clone().position(|step| step.id.kind == kind).unwrap();
    let removed = forged.steps.remove(position);
    let at = u32::try_from(position).unwrap();
    for step in &mut forged.steps {
        if step.needs.iter().any(|need| need.step.0 == at) {
            step.needs.retain(|need| need.step.0 != at);
            step.needs.extend(&removed.needs);
        }
        for need in &mut step.needs {
            need.step.0 -= u32::from(need.step.0 > at);
        }
        step.needs.sort_unstable();
        step.needs.dedup_by_key(|need| need.step);
    }
    forged.relies_on.clear();
    forged
}

#[test]
fn a_machine_is_not_taken_away_without_what_goes_before() {
    let fixture = control_plane();
    let honest = planned(&fixture, &["redeploy", "control-1"]);
    let before = fixture.ledger();
    let pinned = |plan: &Plan| trueup::plan::PlanEffect::of(plan).digest().to_string();
    for kind in [
        StepKind::Drain,
        StepKind::RemoveEtcd,
        StepKind::CheckEtcd,
        StepKind::AwaitReady,
    ] {
        let forged = without(&honest, kind);
        let pin = pinned(&forged);
        planted(&fixture, &honest, forged);
        fixture
            .run(&resume(&["--effect", &pin]))
            .with(5)
            .saying(&format!("control-1: `{kind}` left out"));
        assert_eq!(fixture.ledger(), before);
    }
    let mut hasty = honest.clone();
    for step in &mut hasty.steps {
        if step.given().grace_period().is_some() {
            give(step, "grace_period", 0.into());
        }
    }
    let pin = pinned(&hasty);
    assert_ne!(pin, pinned(&honest));
    planted(&fixture, &honest, hasty);
    fixture
        .run(&resume(&["--effect", &pin]))
        .with(5)
        .saying("control-1: its pods are given 0 s to end");
    assert_eq!(fixture.ledger(), before);
    planted(&fixture, &honest, honest.clone());
    fixture
        .run(&resume(&["--effect", &pinned(&honest)]))
        .with(0);
}
