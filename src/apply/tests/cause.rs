//! The causes of waits, skips and failed gates: enough to change the answer, and no part of them is.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::{Act, Fixture};
use super::model::{Case, case};
use super::*;
use crate::apply::cause::RunProgress;
use crate::plan::{StepExplanation, StepStanding};

/// The steps of a plan that fail for good when these do.
fn fixture(case: &Case, plan: &Plan, failing: &BTreeSet<String>) -> Arc<Fixture> {
    let takes = case.fixture();
    let script: Vec<(String, Act)> = plan
        .steps
        .iter()
        .map(|step| {
            let id = step.id.to_string();
            let act = match failing.contains(&id) {
                true => Act::Fail,
                false => Act::Take(takes.takes(&id)),
            };
            (id, act)
        })
        .collect();
    Fixture::new(
        script
            .iter()
            .map(|(step, act)| (step.as_str(), act.clone())),
    )
}

/// Whether a step is begun, or ends well, in a run in which these steps fail.
fn ran(case: &Case, plan: &Plan, failing: &BTreeSet<String>, step: &str) -> bool {
    let fixture = fixture(case, plan, failing);
    let (_, heard, _) = run(plan, &fixture);
    let ends = heard.ends();
    let is_well = matches!(
        ends.get(step).map(String::as_str),
        Some("ok" | "not needed")
    );
    is_well || fixture.effects().contains_key(step)
}

/// The steps that failed by themselves, by what a run has written down.
fn failures(plan: &Plan, entries: &[Entry]) -> BTreeSet<String> {
    let failed = entries.iter().filter_map(|entry| match entry {
        Entry::Ended {
            step,
            outcome: StepOutcome::Failed { .. } | StepOutcome::Unknown { .. },
            ..
        } => Some(step.to_string()),
        _ => None,
    });
    let failed: BTreeSet<String> = failed.collect();
    let own = plan.steps.iter();
    let own = own.filter(|step| step.id.kind.facts().touches_world());
    let own: BTreeSet<String> = own.map(|step| step.id.to_string()).collect();
    failed.intersection(&own).cloned().collect()
}

fn names(step: &StepExplanation) -> Vec<String> {
    step.causes
        .iter()
        .map(|cause| cause.step.to_string())
        .collect()
}

/// The open steps that a step waits for, with those that these wait for, from the edges of the plan alone.
fn closure(plan: &Plan, ended: &BTreeSet<usize>, step: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::from([step]);
    let mut next = vec![step];
    while let Some(step) = next.pop() {
        for need in &plan.steps[step].needs {
            let need = need.step.0 as usize;
            if !ended.contains(&need) && all.insert(need) {
                next.push(need);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn without_the_causes_of_a_step_it_runs_and_with_any_of_them_left_it_does_not(case in case()) {
        let plan = case.site.plan();
        let (_, _, log) = run(&plan, &case.fixture());
        let failing = failures(&plan, &log.durable);
        let progress = RunProgress::new(&plan, &log.durable).unwrap();
        for index in 0..plan.steps.len() {
            let explained = progress.explain(index);
            let id = explained.step.to_string();
            let is_kept_back =
                matches!(explained.standing, StepStanding::Skipped | StepStanding::Failed);
            if !is_kept_back || failing.contains(&id) {
                prop_assert!(explained.causes.is_empty(), "{}: {:?}", id, explained);
                continue;
            }
            prop_assert!(explained.minimal, "{}", id);
            let causes = names(&explained);
            let without = |repaired: &[&String]| {
                let mut failing = failing.clone();
                failing.retain(|failure| !repaired.contains(&failure));
                ran(&case, &plan, &failing, &id)
            };
            // A group may ask for what its plan cannot do: then no failure is a cause, but the group is.
            if causes.iter().all(|cause| !failing.contains(cause)) {
                prop_assert!(causes.len() <= 1);
                let all: Vec<&String> = failing.iter().collect();
                prop_assert!(!without(&all), "{} has no cause", id);
                continue;
            }
            prop_assert!(causes.iter().all(|cause| failing.contains(cause)));
            // Every subset of the causes, the whole of them last.
            for chosen in 0..1u32 << causes.len() {
                let some = causes.iter().enumerate();
                let some = some.filter(|(bit, _)| chosen & (1 << bit) != 0);
                let some: Vec<&String> = some.map(|(_, cause)| cause).collect();
                let is_whole = some.len() == causes.len();
                prop_assert_eq!(without(&some), is_whole, "{}: {:?} of {:?}", id, some, causes);
            }
        }
    }

    #[test]
    fn once_what_a_step_waits_for_has_ended_it_has_all_its_needs_and_not_before(
        mut case in case(),
        appends in 0usize..60,
    ) {
        // If a deploy may overtake its gate, the gate is no need.
        case.site.options.overlap = false;
        let plan = case.site.plan();
        let fixture = case.fixture();
        let entries = in_virtual_time(async {
            let mut run = Run::new(&plan, &fixture);
            run.log.appends_left = Some(appends);
            let _ = run.execute().await;
            run.log.durable
        });
        let progress = RunProgress::new(&plan, &entries).unwrap();
        let ended: BTreeSet<usize> = (0..plan.steps.len())
            .filter(|index| {
                !matches!(
                    progress.standing(*index),
                    StepStanding::Planned
                        | StepStanding::Waiting
                        | StepStanding::Ready
                        | StepStanding::Begun
                )
            })
            .collect();
        for index in (0..plan.steps.len()).filter(|index| !ended.contains(index)) {
            let waits = progress.waits_for(index);
            let has_all = |causes: &[usize]| {
                let mut done = ended.clone();
                for cause in causes {
                    done.extend(closure(&plan, &ended, *cause));
                }
                plan.steps[index].needs.iter().all(|need| done.contains(&(need.step.0 as usize)))
            };
            prop_assert!(has_all(&waits));
            for left in 0..waits.len() {
                let mut fewer = waits.clone();
                fewer.remove(left);
                prop_assert!(!has_all(&fewer), "{} does not need {}", index, waits[left]);
            }
        }
    }
}

#[test]
fn a_step_without_a_place_waits_for_any_one_of_those_that_have_one() {
    let nodes = ["a", "b", "c"];
    let mut site = Site::of(vec![group("g", true, &[], (None, None, None), &nodes)]);
    site.options.parallelism = 2;
    let plan = site.plan();
    let position = |id: &str| {
        let found = plan.steps.iter().position(|step| step.id.to_string() == id);
        found.unwrap()
    };
    let ended = |id: &str| Entry::Ended {
        step: plan.steps[position(id)].id.clone(),
        outcome: StepOutcome::Succeeded,
        attempted: true,
        duration_ms: 1,
    };
    let begun = |id: &str| Entry::Intent {
        step: plan.steps[position(id)].id.clone(),
    };
    let entries = [
        ended("verify-site"),
        ended("prepare-site"),
        ended("start/g"),
        begun("prepare/g/a"),
        begun("prepare/g/b"),
    ];
    let progress = RunProgress::new(&plan, &entries).unwrap();
    let third = progress.explain(position("prepare/g/c"));
    assert_eq!(third.standing, StepStanding::Waiting);
    assert_eq!(third.needed, crate::plan::CausesNeeded::AnyOne);
    assert_eq!(names(&third), ["prepare/g/a", "prepare/g/b"]);
    let gate = progress.explain(position("gate-prepared/g"));
    assert_eq!(names(&gate), ["prepare/g/a", "prepare/g/b", "prepare/g/c"]);
    let deploy = progress.explain(position("deploy/g/a"));
    // Its own prepare is a need as well, and its gate waits for that.
    assert_eq!(names(&deploy), ["gate-prepared/g"]);
    let now: Vec<String> = deploy
        .now
        .iter()
        .map(|cause| cause.step.to_string())
        .collect();
    assert_eq!(now, ["prepare/g/a", "prepare/g/b", "prepare/g/c"]);
    assert_eq!(
        progress.standing(position("prepare/g/a")),
        StepStanding::Begun
    );
    // Of a run that has ended nothing begins next.
    let ended = progress.ended();
    for step in ["prepare/g/c", "gate-prepared/g", "deploy/g/a"] {
        let explained = ended.explain(position(step));
        assert_eq!(explained.standing, StepStanding::NotReached, "{step}");
        assert!(explained.causes.is_empty() && explained.now.is_empty());
    }
    assert_eq!(ended.standing(position("prepare/g/a")), StepStanding::Begun);
}

#[test]
fn a_halt_is_explained_by_the_failures_that_caused_it() {
    let nodes = ["a", "b", "c", "d"];
    let mut site = Site::of(vec![group("g", false, &[], (Some(0), None, None), &nodes)]);
    site.options.parallelism = 1;
    site.options.max_failures = Some(1);
    let plan = site.plan();
    let fixture = Fixture::new(["a", "b"].map(|node| match node {
        "a" => ("prepare/g/a", Act::Fail),
        _ => ("prepare/g/b", Act::Fail),
    }));
    let (_, heard, log) = run(&plan, &fixture);
    let progress = RunProgress::new(&plan, &log.durable).unwrap();
    let position = plan
        .steps
        .iter()
        .position(|step| step.id.to_string() == "prepare/g/c");
    let skipped = progress.explain(position.unwrap());
    assert_eq!(
        skipped.standing,
        StepStanding::Skipped,
        "{:?}",
        heard.ends()
    );
    // One failure is within the limit: it is enough that either had not been.
    assert_eq!(names(&skipped).len(), 1, "{skipped:?}");
    assert!(skipped.minimal);
}
