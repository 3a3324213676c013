//! Estimates of how long a run takes, against runs of the dispatcher in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::fixture::{Act, Fixture};
use super::model::case;
use super::*;
use crate::apply::estimate::{Random, rest, runs};
use crate::apply::schedule::Schedule;
use crate::plan::TimeForecast;
use crate::run::Durations;
use crate::step::StepKind;

/// The durations that the steps of a plan have in a fixture.
fn exactly(plan: &Plan, fixture: &Fixture) -> ExpectedDurations {
    let steps = plan.steps.iter();
    let values = steps.map(|step| match step.id.kind.facts().touches_world() {
        true => [fixture.takes(&step.id.to_string()) * 1000].into(),
        false => [0].into(),
    });
    ExpectedDurations {
        of_step: (0..plan.steps.len() as u32).collect(),
        values: values.collect(),
    }
}

fn estimated(plan: &Plan, recorded: &Durations) -> TimeForecast {
    let expected = ExpectedDurations::of(plan, &BTreeMap::new(), recorded, &|_| None);
    estimate(plan, &expected, "seed").unwrap().unwrap().time
}

/// Groups of machines that are created, and of others that are redeployed in two waves.
fn two_groups(parallelism: usize) -> Plan {
    let created = ["a", "b", "c", "d", "e"];
    let redeployed = ["v", "w", "x"];
    let mut site = Site::of(vec![
        group("one", true, &[], (None, None, None), &created),
        group("two", true, &["one"], (None, None, None), &redeployed),
    ]);
    for (node, wave) in [("v", 1), ("w", 2), ("x", 2)] {
        site.redeploys.insert(node.to_owned(), wave);
    }
    site.options.parallelism = parallelism;
    site.plan()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_estimate_with_exact_durations_is_the_run_and_stays_so_while_it_runs(
        mut case in case(),
        groups in 1usize..3,
    ) {
        case.fails.clear();
        case.site.options.parallel_groups = groups;
        let (plan, fixture) = (case.site.plan(), case.fixture());
        let expected = exactly(&plan, &fixture);
        let whole = rest(&Schedule::new(&plan).unwrap(), &[], &expected);
        let (finished, events) = in_virtual_time(async {
            let mut run = Run::new(&plan, &fixture);
            run.expected = Some(&expected);
            let finished = run.execute().await.unwrap();
            (finished, run.heard.events)
        });
        prop_assert_eq!(finished.duration_ms, whole);
        let estimates = events.iter().filter_map(|event| {
            event.remaining_ms.map(|left| event.elapsed_ms + left)
        });
        let estimates: Vec<u64> = estimates.collect();
        prop_assert!(!estimates.is_empty());
        prop_assert!(estimates.iter().all(|end| *end == whole), "{:?} {}", estimates, whole);
    }
}

#[test]
fn a_step_that_takes_longer_than_any_before_is_expected_to_end_now() {
    let plan = two_groups(3);
    let fixture = Fixture::new([("deploy/one/a", Act::Take(10_000))]);
    let mut expected = exactly(&plan, &fixture);
    let slow: crate::step::StepId = "deploy/one/a".parse().unwrap();
    let late = plan.positions()[&slow];
    expected.values[late] = [5_000].into();
    let (finished, events) = in_virtual_time(async {
        let mut run = Run::new(&plan, &fixture);
        run.expected = Some(&expected);
        let finished = run.execute().await.unwrap();
        (finished, run.heard.events)
    });
    let estimates = events.iter().filter_map(|event| {
        let left = event.remaining_ms?;
        Some((event.elapsed_ms, event.elapsed_ms + left))
    });
    let estimates: Vec<(u64, u64)> = estimates.collect();
    // While it alone runs, nothing is estimated: the time that is left counts down.
    let before = estimates.iter().filter(|(at, _)| *at < 10_000_000);
    assert!(
        before.clone().all(|(_, end)| *end < 100_000),
        "{estimates:?}"
    );
    let last = estimates.last().unwrap();
    assert_eq!(last.1, finished.duration_ms, "{estimates:?}");
}

#[test]
fn parallelism_counts_and_the_same_seed_gives_the_same() {
    let (one, three) = (two_groups(1), two_groups(3));
    let nothing = Durations::default();
    let slow = estimated(&one, &nothing);
    assert_eq!(slow, estimated(&one, &nothing));
    let fast = estimated(&three, &nothing);
    assert!(fast.median < slow.median * 2 / 3, "{fast:?} {slow:?}");
    for found in [slow, fast] {
        let TimeForecast {
            median,
            percentile_5,
            percentile_90,
            percentile_95,
            ..
        } = found;
        assert!(percentile_5 < median && median < percentile_90, "{found:?}");
        assert!(percentile_90 <= percentile_95, "{found:?}");
        assert!(percentile_95 <= found.timeouts, "{found:?}");
    }
    let plan = two_groups(3);
    let expected = ExpectedDurations::of(&plan, &BTreeMap::new(), &nothing, &|_| None);
    let other = estimate(&plan, &expected, "another seed")
        .unwrap()
        .unwrap()
        .time;
    assert_ne!(other, fast);
}

#[test]
fn what_is_declared_counts_in_the_place_of_what_is_typical_and_what_is_recorded_before_both() {
    let plan = two_groups(1);
    let declared = |kind: StepKind| Some(Duration::from_secs(u64::from(kind == StepKind::Deploy)));
    let of =
        |recorded: &Durations| ExpectedDurations::of(&plan, &BTreeMap::new(), recorded, &declared);
    let time = estimate(&plan, &of(&Durations::default()), "").unwrap();
    let time = time.map(|estimate| estimate.time);
    let deploys = 8;
    let exact = TimeForecast {
        median: deploys,
        percentile_5: deploys,
        percentile_90: deploys,
        percentile_95: deploys,
        timeouts: deploys,
        runs: 99,
    };
    assert_eq!(time, Some(exact));
    let mut recorded = Durations::default();
    for _ in 0..5 {
        recorded.add(StepKind::Deploy, &"".into(), 2_000);
    }
    let time = estimate(&plan, &of(&recorded), "").unwrap().unwrap().time;
    assert_eq!(time.median, 2 * deploys);
    // Nothing takes time.
    let none = ExpectedDurations::of(&plan, &BTreeMap::new(), &recorded, &|_| {
        Some(Duration::ZERO)
    });
    recorded = Durations::default();
    let all = estimate(&plan, &none, "").unwrap();
    assert!(all.is_some());
    let zero = |_| Some(Duration::ZERO);
    let none = ExpectedDurations::of(&plan, &BTreeMap::new(), &recorded, &zero);
    assert_eq!(estimate(&plan, &none, "").unwrap(), None);
}

#[test]
fn timeouts_bound_what_a_step_is_expected_to_take() {
    let mut site = Site::of(vec![group("one", true, &[], (None, None, None), &["a"])]);
    site.timeout = 7;
    let plan = site.plan();
    let long = |kind: StepKind| {
        Some(Duration::from_secs(
            100 * u64::from(kind == StepKind::Deploy),
        ))
    };
    let expected = ExpectedDurations::of(&plan, &BTreeMap::new(), &Durations::default(), &long);
    let time = estimate(&plan, &expected, "").unwrap().unwrap().time;
    // The prepare that is expected to take no time may take as long as its timeout.
    assert_eq!((time.median, time.timeouts), (7, 14));
}

#[test]
fn the_schedule_of_an_estimate_keeps_the_order_of_the_steps_and_ends_with_its_median() {
    for parallelism in [1, 2, 10] {
        let plan = two_groups(parallelism);
        let nothing = Durations::default();
        let expected = ExpectedDurations::of(&plan, &BTreeMap::new(), &nothing, &|_| None);
        let Estimate { time, schedule } = estimate(&plan, &expected, "seed").unwrap().unwrap();
        assert_eq!(schedule.len(), plan.steps.len());
        let last = schedule.iter().map(|times| times.1).max().unwrap();
        assert_eq!(u64::from(last), time.median);
        for (step, times) in plan.steps.iter().zip(&schedule) {
            assert!(times.0 <= times.1, "{}", step.id);
            for need in &step.needs {
                let before = schedule[need.step.0 as usize];
                assert!(before.1 <= times.0, "{}", step.id);
            }
        }
        let at_once = |second: u32| {
            let works = plan.steps.iter().zip(&schedule);
            let works = works.filter(|(step, times)| {
                step.id.kind.facts().touches_world() && times.0 <= second && second < times.1
            });
            works.count()
        };
        assert!(
            (0..last)
                .step_by(30)
                .all(|second| at_once(second) <= parallelism)
        );
    }
}

#[test]
fn the_more_steps_the_fewer_runs_are_simulated() {
    let most = [100, 10_000, 10_001, 50_000, 50_001, 1_000_000].map(runs);
    assert_eq!(most, [99, 99, 39, 39, 19, 19]);
}

/// A duration that a step really has, in seconds: most are short, some are long.
fn drawn(kind: StepKind, random: &mut Random) -> u64 {
    let (least, spread) = match kind {
        StepKind::Prepare => (200, 900),
        StepKind::Deploy => (600, 2400),
        StepKind::Destroy => (120, 1200),
        _ => (2, 10),
    };
    let (one, other) = (random.below(1000), random.below(1000));
    least + spread * (one * other) as u64 / 1_000_000
}

/// Whether a run of a plan took as long as the interval of nine of ten runs says, and less than nine of ten.
fn holds(plan: &Plan, trial: usize) -> (bool, bool) {
    let mut random = Random::seeded(&format!("trial {trial}"));
    let mut recorded = Durations::default();
    let kinds: BTreeSet<StepKind> = plan.steps.iter().map(|step| step.id.kind).collect();
    for kind in kinds {
        for _ in 0..5 + random.below(60) {
            let duration = drawn(kind, &mut random) * 1000;
            recorded.add(kind, &"".into(), duration);
        }
    }
    let expected = ExpectedDurations::of(plan, &BTreeMap::new(), &recorded, &|_| None);
    let seed = format!("plan {trial}");
    let time = estimate(plan, &expected, &seed).unwrap().unwrap().time;
    let steps = plan.steps.iter().map(|step| {
        let takes = drawn(step.id.kind, &mut random);
        (step.id.to_string(), Act::Take(takes))
    });
    let steps: Vec<(String, Act)> = steps.collect();
    let script = steps.iter().map(|(id, act)| (id.as_str(), act.clone()));
    let (finished, ..) = run(plan, &Fixture::new(script));
    let took = finished.duration_ms.div_ceil(1000);
    (
        (time.percentile_5..=time.percentile_95).contains(&took),
        took <= time.percentile_90,
    )
}

#[test]
fn nine_of_ten_runs_with_random_durations_take_as_long_as_was_estimated() {
    let trials = 1000;
    let plan = Arc::new(two_groups(3));
    let workers = [0, 1].map(|first| {
        let plan = plan.clone();
        thread::spawn(move || {
            let trials = (first..trials).step_by(2);
            trials.map(|trial| holds(&plan, trial)).collect::<Vec<_>>()
        })
    });
    let all: Vec<(bool, bool)> = workers
        .into_iter()
        .flat_map(|worker| worker.join().unwrap())
        .collect();
    let inside = all.iter().filter(|(inside, _)| *inside).count();
    let below = all.iter().filter(|(_, below)| *below).count();
    assert!(
        (870..=930).contains(&inside),
        "{inside} inside, {below} below"
    );
    assert!(
        (870..=930).contains(&below),
        "{inside} inside, {below} below"
    );
}
