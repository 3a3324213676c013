//! The worked examples of airship-deployment-grouping, and each rule of the dispatcher once.

use super::fixture::Act;
use super::*;
use crate::plan::Standing;
use crate::record::{Outcome, Phase};

/// The strategy of the specification's example, in the order of its example processing.
fn example() -> Site {
    Site::of(vec![
        group("ntp-node", true, &[], (None, Some(1), None), &["ntp01"]),
        group(
            "control-nodes",
            true,
            &["ntp-node"],
            (Some(90), Some(3), Some(1)),
            &["c1", "c2", "c3"],
        ),
        group(
            "monitoring-nodes",
            false,
            &[],
            (None, None, None),
            &["m1", "m2"],
        ),
        group(
            "compute-nodes-2",
            false,
            &["control-nodes"],
            (Some(50), None, None),
            &["b1", "b2"],
        ),
        group(
            "compute-nodes-1",
            false,
            &["control-nodes"],
            (Some(50), None, None),
            &["a1", "a2"],
        ),
    ])
}

fn groups(finished: &Finished) -> Vec<(&str, bool)> {
    finished
        .groups
        .iter()
        .map(|group| (group.group.as_str(), group.succeeded))
        .collect()
}

#[test]
fn example_1_all_groups_succeed() {
    let (finished, heard, _) = run(&example().plan(), &Fixture::new([]));
    assert_eq!(finished.outcome, Outcome::Succeeded);
    assert!(finished.groups.iter().all(|group| group.succeeded));
    assert_eq!(finished.counts.succeeded, 10);
    let started = heard.started();
    let position = |step: &str| started.iter().position(|each| each == step).unwrap();
    // One group at a time: prepared and then deployed before the next.
    assert!(position("deploy/control-nodes/c3") < position("prepare/monitoring-nodes/m1"));
    assert!(position("deploy/compute-nodes-2/b2") < position("prepare/compute-nodes-1/a1"));
    assert_eq!(position("verify-site"), 0);
}

#[test]
fn example_2_a_failure_in_preparing_the_ntp_node_fails_what_depends_on_it() {
    let fixture = Fixture::new([("prepare/ntp-node/ntp01", Act::Fail)]);
    let (finished, heard, _) = run(&example().plan(), &fixture);
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.critical_failed && !finished.interrupted);
    assert_eq!(
        groups(&finished),
        [
            ("ntp-node", false),
            ("control-nodes", false),
            ("monitoring-nodes", true),
            ("compute-nodes-2", false),
            ("compute-nodes-1", false),
        ]
    );
    let ends = heard.ends();
    let gate = "failed: prepared: 0 of 1 nodes succeeded, at least 1 wanted";
    assert_eq!(ends["gate-prepared/ntp-node"], gate);
    let expected = [
        (
            "deploy/ntp-node/ntp01",
            "skipped: `prepare/ntp-node/ntp01` failed",
        ),
        ("start/control-nodes", "failed: group `ntp-node` failed"),
        (
            "prepare/control-nodes/c1",
            "skipped: group `ntp-node` failed",
        ),
        (
            "deploy/control-nodes/c1",
            "skipped: group `ntp-node` failed",
        ),
        (
            "start/compute-nodes-1",
            "failed: group `control-nodes` failed",
        ),
        (
            "critical-check",
            "failed: critical groups `ntp-node`, `control-nodes` failed",
        ),
    ];
    for (step, end) in expected {
        assert_eq!(ends[step], end, "{step}");
    }
    assert_eq!(finished.standings["a1"], Standing::NotStarted);
    assert_eq!(finished.standings["m1"], Standing::Deployed);
    assert_eq!(finished.counts.not_started, 7);
}

#[test]
fn example_3_a_failure_in_deploying_compute_nodes_2_is_a_success_with_failures() {
    let fixture = Fixture::new([
        ("deploy/compute-nodes-2/b1", Act::Fail),
        ("deploy/compute-nodes-2/b2", Act::Fail),
    ]);
    let (finished, heard, _) = run(&example().plan(), &fixture);
    assert_eq!(finished.outcome, Outcome::SucceededWithFailures);
    let failed: Vec<_> = groups(&finished)
        .into_iter()
        .filter(|group| !group.1)
        .collect();
    assert_eq!(failed, [("compute-nodes-2", false)]);
    assert_eq!(heard.ends()["critical-check"], "ok");
    assert_eq!(
        finished.nodes[2].failed_step.as_deref(),
        Some("deploy/compute-nodes-2/b1")
    );
}

#[test]
fn a_node_of_two_groups_is_sent_once_and_counts_in_both() {
    let both = |criteria| {
        Site::of(vec![
            group("one", false, &[], (None, None, None), &["a", "b"]),
            group("two", false, &[], criteria, &["a", "b", "c"]),
        ])
    };
    let fixture = Fixture::new([("deploy/one/a", Act::Fail)]);
    let (finished, heard, _) = run(&both((Some(66), None, None)).plan(), &fixture);
    assert_eq!(groups(&finished), [("one", true), ("two", true)]);
    let ends = heard.ends();
    for step in [
        "prepare/two/a",
        "deploy/two/a",
        "prepare/two/b",
        "deploy/two/b",
    ] {
        assert_eq!(ends[step], "not needed", "{step}");
    }
    let fixture = Fixture::new([("deploy/one/a", Act::Fail)]);
    let (finished, _, _) = run(&both((Some(67), None, None)).plan(), &fixture);
    assert_eq!(groups(&finished), [("one", true), ("two", false)]);
}

#[test]
fn a_node_that_an_earlier_group_never_sent_or_left_prepared_is_sent_by_a_later_one() {
    let plan = Site::of(vec![
        group("base", false, &[], (None, Some(1), None), &["x"]),
        group("child", false, &["base"], (None, None, None), &["a"]),
        group("gated", false, &[], (None, None, Some(0)), &["b", "bad"]),
        group("last", false, &[], (None, None, None), &["a", "b"]),
    ])
    .plan();
    let fixture = Fixture::new([
        ("prepare/base/x", Act::Fail),
        ("prepare/gated/bad", Act::Fail),
    ]);
    let (finished, heard, _) = run(&plan, &fixture);
    let ends = heard.ends();
    assert_eq!(ends["prepare/last/a"], "ok");
    assert_eq!(ends["prepare/gated/b"], "ok");
    assert_eq!(ends["prepare/last/b"], "not needed");
    assert_eq!(ends["deploy/last/b"], "ok");
    assert_eq!(finished.standings["b"], Standing::Deployed);
}

#[test]
fn at_most_so_many_steps_run_at_the_same_time() {
    let nodes: Vec<String> = (0..20).map(|node| format!("n{node:02}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut site = Site::of(vec![group("g", false, &[], (None, None, None), &nodes)]);
    site.options.parallelism = 3;
    let fixture = Fixture::new([]);
    run(&site.plan(), &fixture);
    assert_eq!(fixture.most_running(), 3);
}

#[test]
fn what_can_pass_is_tried_again_a_bounded_number_of_times() {
    let site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, None),
        &["a", "b", "c", "d"],
    )]);
    let fixture = Fixture::new([
        ("deploy/g/a", Act::Busy(2)),
        ("deploy/g/b", Act::Busy(3)),
        ("deploy/g/c", Act::LoseAnswer),
        ("deploy/g/d", Act::Ambiguous),
    ]);
    let (_, heard, _) = run(&site.plan(), &fixture);
    let ends = heard.ends();
    assert_eq!(ends["deploy/g/a"], "ok");
    assert_eq!(ends["deploy/g/b"], "failed: busy");
    assert_eq!(ends["deploy/g/c"], "ok");
    assert_eq!(
        ends["deploy/g/d"],
        "unknown: the answer was lost; check the machine"
    );
    let effects = fixture.effects();
    assert_eq!(effects["deploy/g/a"], 1);
    assert_eq!(effects.get("deploy/g/b"), None);
    assert_eq!(
        effects["deploy/g/c"], 1,
        "a running operation is waited for, not begun again"
    );
    let retries = heard.events.iter().filter_map(|event| match &event.kind {
        EventKind::StepRetried { delay_ms, .. } => Some(*delay_ms),
        _ => None,
    });
    assert!(
        retries.clone().count() == 5 && retries.clone().all(|delay| (500..2000).contains(&delay))
    );
}

#[test]
fn a_node_that_does_not_answer_in_time_is_unknown_and_counts_as_failed() {
    let mut site = Site::of(vec![group(
        "g",
        true,
        &[],
        (Some(100), None, None),
        &["a", "b", "c"],
    )]);
    site.timeout = 60;
    let fixture = Fixture::new([
        ("deploy/g/a", Act::Take(61)),
        ("deploy/g/b", Act::Take(59)),
        ("deploy/g/c", Act::Tell(61)),
    ]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    let end = "unknown: no end within 60 s; the request may still be running";
    assert_eq!(heard.ends()["deploy/g/a"], end);
    assert_eq!(
        heard.ends()["deploy/g/c"],
        format!("{end}; when it was last heard of: 3 of 7 pods are left")
    );
    assert_eq!(finished.outcome, Outcome::Failed);
    let last = heard
        .nodes
        .iter()
        .rfind(|each| each.node.as_str() == "a")
        .unwrap();
    assert_eq!(last.phase, Some(Phase::Unknown));
}

#[test]
fn a_backend_that_breaks_off_fails_its_step_and_not_the_run() {
    let site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, None),
        &["a", "b"],
    )]);
    let fixture = Fixture::new([("deploy/g/a", Act::Panic)]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    assert!(heard.ends()["deploy/g/a"].starts_with("unknown: the backend broke off"));
    assert_eq!(finished.standings["b"], Standing::Deployed);
}

#[test]
fn a_refused_node_fails_without_an_attempt_and_keeps_its_phase() {
    let mut site = Site::of(vec![group("g", false, &[], (None, None, None), &["a"])]);
    site.refused.insert("a".into());
    let fixture = Fixture::new([]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    assert_eq!(heard.ends()["prepare/g/a"], "failed: could not be observed");
    assert_eq!(fixture.effects().get("prepare/g/a"), None);
    assert_eq!(heard.nodes[0].phase, None);
    assert_eq!(finished.counts.failed, 1);
}

#[test]
fn no_wave_starts_once_the_criteria_can_no_longer_hold() {
    let mut site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, Some(0)),
        &["a", "b", "c"],
    )]);
    for (node, wave) in [("a", 1), ("b", 2), ("c", 3)] {
        site.redeploys.insert(node.into(), wave);
    }
    let fixture = Fixture::new([("deploy/g/b", Act::Fail)]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    let ends = heard.ends();
    assert_eq!(ends["deploy/g/a"], "ok");
    assert_eq!(
        ends["wave/g/3"],
        "failed: the group's criteria can no longer hold"
    );
    assert!(ends["destroy/g/c"].starts_with("skipped: `wave/g/3`"));
    assert_eq!(finished.standings["c"], Standing::Deployed);
    assert_eq!(fixture.effects().get("destroy/g/c"), None);
}

#[test]
fn a_run_halts_when_too_many_nodes_failed_and_what_runs_is_waited_for() {
    let mut site = Site::of(vec![
        group("g", false, &[], (None, None, None), &["a", "b", "c"]),
        group("h", false, &[], (None, None, None), &["d"]),
    ]);
    site.options.max_failures = Some(0);
    site.options.parallelism = 2;
    let fixture = Fixture::new([("prepare/g/a", Act::Fail), ("prepare/g/b", Act::Take(50))]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    let ends = heard.ends();
    assert_eq!(ends["prepare/g/b"], "ok");
    assert_eq!(
        ends["prepare/g/c"],
        "skipped: halted: more than 0 nodes failed"
    );
    assert_eq!(
        ends["prepare/h/d"],
        "skipped: halted: more than 0 nodes failed"
    );
    assert!(finished.halted.is_some() && !finished.interrupted);
    assert_eq!(finished.outcome, Outcome::Failed);
}

#[test]
fn nodes_that_left_the_design_are_torn_down_only_when_no_critical_group_failed() {
    let mut site = Site::of(vec![group("g", true, &[], (Some(100), None, None), &["a"])]);
    site.removed.insert("old".into());
    let (_, heard, _) = run(&site.plan(), &Fixture::new([]));
    assert_eq!(heard.ends()["destroy/old"], "ok");
    let fixture = Fixture::new([("deploy/g/a", Act::Fail)]);
    let (_, heard, _) = run(&site.plan(), &fixture);
    assert!(heard.ends()["destroy/old"].starts_with("skipped"));
}

#[test]
fn a_relabel_that_fails_leaves_the_phase_and_fails_the_node_in_the_criteria() {
    let mut site = Site::of(vec![group(
        "g",
        false,
        &[],
        (Some(100), None, None),
        &["a", "b"],
    )]);
    site.relabels.insert("a".into());
    let fixture = Fixture::new([("relabel/g/a", Act::Fail), ("prepare/g/b", Act::Take(90))]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    let ends = heard.ends();
    assert_eq!(
        ends["gate-prepared/g"], "ok",
        "labels are no matter of preparing"
    );
    assert!(ends["gate-deployed/g"].starts_with("failed"));
    assert_eq!(heard.nodes[0].phase, None);
    assert_eq!(heard.nodes[0].message.as_deref(), Some("broken"));
    assert_eq!(finished.outcome, Outcome::SucceededWithFailures);
}

#[test]
fn with_overlap_a_node_is_deployed_once_its_gate_can_no_longer_fail() {
    let mut site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, Some(1), None),
        &["a", "b"],
    )]);
    site.options.overlap = true;
    let fixture = Fixture::new([("prepare/g/b", Act::Take(500)), ("deploy/g/a", Act::Fail)]);
    let (_, heard, _) = run(&site.plan(), &fixture);
    let order: Vec<_> = heard
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StepFinished { step, .. } => Some(step.to_string()),
            _ => None,
        })
        .collect();
    let position = |step: &str| order.iter().position(|each| each == step).unwrap();
    assert!(position("deploy/g/a") < position("prepare/g/b"));
    let gate = heard.events.iter().find_map(|event| match &event.kind {
        EventKind::GateEvaluated { successful, .. } => Some(*successful),
        _ => None,
    });
    assert_eq!(
        gate,
        Some(2),
        "the gate counts what was prepared, also if it failed since"
    );
}

#[test]
fn one_commit_carries_many_outcomes_and_intents() {
    let nodes: Vec<String> = (0..1000).map(|node| format!("n{node:03}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut site = Site::of(vec![group("g", false, &[], (None, None, None), &nodes)]);
    site.options.parallelism = 100;
    let (finished, _, log) = run(&site.plan(), &Fixture::new([]));
    assert_eq!(finished.counts.succeeded, 1000);
    assert!(log.commits < 30, "{} commits", log.commits);
}

#[test]
fn independent_groups_run_side_by_side_and_never_send_a_node_twice() {
    let mut site = Site::of(vec![
        group("one", false, &[], (None, None, None), &["a", "b"]),
        group("two", false, &[], (None, None, None), &["b", "c"]),
        group("three", false, &["one"], (None, None, None), &["c", "d"]),
    ]);
    site.options.parallel_groups = 2;
    for overlap in [false, true] {
        site.options.overlap = overlap;
        let fixture = Fixture::new([
            ("prepare/one/b", Act::Take(70)),
            ("deploy/two/c", Act::Fail),
        ]);
        let (finished, heard, _) = run(&site.plan(), &fixture);
        let gate = heard.events.iter().find_map(|event| match &event.kind {
            EventKind::GateEvaluated {
                group, successful, ..
            } => (group.as_str() == "two").then_some(*successful),
            _ => None,
        });
        assert_eq!(
            gate,
            Some(2),
            "the gate waits for what another group prepares"
        );
        assert_eq!(finished.standings["c"], Standing::Failed);
        assert_eq!(finished.standings["d"], Standing::Deployed);
        let effects = fixture.effects();
        assert!(!effects.contains_key("prepare/two/b") && !effects.contains_key("prepare/three/c"));
    }
}

#[test]
fn a_gate_counts_a_machine_that_a_group_beside_it_is_building_for_a_later_gate_of_its_own() {
    let of = |name, nodes: &[&str]| group(name, true, &[], (Some(100), None, None), nodes);
    let mut site = Site::of(vec![of("one", &["b"]), of("two", &["a", "b"])]);
    site.redeploys = [("a".into(), 1), ("b".into(), 2)].into();
    site.options.parallel_groups = 2;
    let fixture = Fixture::new([("prepare/one/b", Act::Take(7000))]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    let judged: Vec<_> = heard
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::GateEvaluated {
                group, successful, ..
            } => Some((group.as_str(), *successful)),
            _ => None,
        })
        .collect();
    // The first gate of `two` is judged while `b` is torn down, and before `one` has prepared it.
    assert_eq!(judged[0], ("two", 2), "{judged:?}");
    assert_eq!(finished.outcome, Outcome::Succeeded);
}

#[test]
fn a_run_of_which_no_node_succeeds_has_failed_whatever_the_criteria() {
    let site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, None),
        &["a", "b"],
    )]);
    let fail = |nodes: &[&'static str]| {
        let faults = nodes.iter().map(|node| (*node, Act::Fail));
        run(&site.plan(), &Fixture::new(faults)).0.outcome
    };
    assert_eq!(fail(&["deploy/g/a"]), Outcome::SucceededWithFailures);
    assert_eq!(fail(&["deploy/g/a", "prepare/g/b"]), Outcome::Failed);
}
