//! Nodes that leave their clusters before they are torn down, and come back.

use super::fixture::Act;
use super::*;
use crate::record::{Outcome, Phase};
use crate::run::Left;
use crate::step::{Need, StepIndex, Wait};

/// Three nodes of one cluster, each redeployed in a wave of its own.
fn site() -> Site {
    let names = ["a", "b", "c"];
    let mut site = Site::of(vec![group("g", true, &[], (Some(60), None, None), &names)]);
    for (wave, name) in (1..).zip(names) {
        site.redeploys.insert(name.into(), wave);
        site.in_cluster.insert(name.into());
    }
    site
}

fn record_of<'h>(heard: &'h Heard, step: &str) -> &'h NodeOutcome {
    let mut outcomes = heard.nodes.iter();
    outcomes
        .find(|outcome| outcome.step.to_string() == step)
        .unwrap()
}

#[test]
fn a_node_leaves_in_order_and_the_next_goes_when_it_is_back() {
    let fixture = Fixture::new([]);
    let (finished, heard, _) = run(&site().plan(), &fixture);
    assert!(fixture.left_cordoned().is_empty());
    assert_eq!(finished.outcome, Outcome::Succeeded);
    assert!(finished.left.is_empty());
    let of_nodes: Vec<String> = heard
        .started()
        .into_iter()
        .filter(|step| step.matches('/').count() == 2)
        .collect();
    let kinds = [
        "drain",
        "clear-labels",
        "remove-etcd",
        "check-etcd",
        "shutdown-kubelet",
        "destroy",
        "remove-from-cluster",
        "prepare",
        "deploy",
        "await-ready",
    ];
    let expected: Vec<String> = ["a", "b", "c"]
        .iter()
        .flat_map(|node| kinds.map(|kind| format!("{kind}/g/{node}")))
        .collect();
    assert_eq!(of_nodes, expected);
}

#[test]
fn what_fails_on_the_way_out_stops_that_node_before_its_machine_is_destroyed() {
    for kind in ["drain", "clear-labels", "remove-etcd", "check-etcd"] {
        let step = format!("{kind}/g/a");
        let fixture = Fixture::new([(step.as_str(), Act::Fail)]);
        let (finished, heard, _) = run(&site().plan(), &fixture);
        let effects = fixture.effects();
        assert!(!effects.contains_key("destroy/g/a"), "{kind}");
        assert!(!effects.contains_key("drain/g/b"), "{kind}");
        // Nothing tells any more that the node is worked on.
        assert_eq!(fixture.left_cordoned(), ["drain/g/a"], "{kind}");
        let left = match kind {
            "check-etcd" => Left::OutOfEtcd,
            _ => Left::Cordoned,
        };
        assert_eq!(finished.left, [("a".into(), left)], "{kind}");
        assert_eq!(finished.outcome, Outcome::Failed, "{kind}");
        assert_eq!(record_of(&heard, &step).phase, Some(Phase::Failed));
        let wave = &heard.ends()["wave/g/2"];
        assert!(wave.contains("did not come back"), "{wave}");
    }
}

#[test]
fn a_kubelet_that_does_not_stop_holds_nothing_up() {
    for act in [Act::Fail, Act::Ambiguous] {
        let fixture = Fixture::new([("shutdown-kubelet/g/a", act)]);
        let (finished, heard, _) = run(&site().plan(), &fixture);
        assert_eq!(finished.outcome, Outcome::Succeeded);
        assert_eq!(finished.counts.succeeded, 3);
        assert_eq!(record_of(&heard, "shutdown-kubelet/g/a").phase, None);
        let warned = heard.events.iter().any(|event| {
            matches!(&event.kind, EventKind::Warning { message }
                if message.starts_with("`shutdown-kubelet/g/a` failed"))
        });
        assert!(warned);
    }
}

#[test]
fn a_node_that_does_not_come_back_ends_the_waves() {
    let fixture = Fixture::new([("await-ready/g/a", Act::Fail)]);
    let (finished, heard, _) = run(&site().plan(), &fixture);
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(!fixture.effects().contains_key("drain/g/b"));
    assert!(finished.left.is_empty());
    let outcome = record_of(&heard, "await-ready/g/a");
    assert_eq!(outcome.phase, Some(Phase::Failed));
}

#[test]
fn a_node_that_another_group_took_out_ends_the_waves_of_its_other_groups_too() {
    let mut site = site();
    let mut again = site.groups[0].clone();
    again.name = "h".into();
    site.groups.push(again);
    for kind in ["destroy", "await-ready"] {
        let fixture = Fixture::new([(format!("{kind}/g/b").as_str(), Act::Fail)]);
        let (_, heard, _) = run(&site.plan(), &fixture);
        assert!(fixture.effects().contains_key("drain/g/b"));
        for step in ["drain/g/c", "drain/h/b", "drain/h/c"] {
            assert!(!fixture.effects().contains_key(step), "{kind}: {step}");
        }
        let wave = &heard.ends()["wave/h/3"];
        assert!(wave.contains("did not come back"), "{wave}");
    }
    // What came back in one group is back in the other.
    let fixture = Fixture::new([]);
    let (finished, _, _) = run(&site.plan(), &fixture);
    assert_eq!(finished.outcome, Outcome::Succeeded);
    assert!(!fixture.effects().contains_key("drain/h/a"));
}

#[test]
fn a_group_whose_machines_others_have_sent_is_judged_by_its_criteria() {
    let of = |name| group(name, true, &[], (Some(0), None, None), &["a"]);
    let mut site = Site::of(vec![of("g"), of("h")]);
    site.redeploys.insert("a".into(), 1);
    site.in_cluster.insert("a".into());
    let mut plan = site.plan();
    let find = |id: &str| {
        let mut steps = plan.steps.iter();
        steps.position(|step| step.id.to_string() == id).unwrap()
    };
    let (back, wave) = (find("await-ready/g/a"), find("wave/h/1"));
    plan.steps[wave].needs.push(Need {
        step: StepIndex::from_position(back),
        wait: Wait::Success,
    });
    let (finished, heard, _) = run(&plan, &Fixture::new([("destroy/g/a", Act::Fail)]));
    assert_eq!(heard.ends()["wave/h/1"], "ok");
    assert!(!finished.critical_failed);
    // Its criteria hold, and no node has succeeded.
    assert_eq!(finished.outcome, Outcome::Failed);
}

#[test]
fn a_machine_stays_destroyed_where_its_node_cannot_be_deleted() {
    let mut site = Site::of(vec![group("g", true, &[], (None, None, None), &["a"])]);
    site.removed.insert("old".into());
    site.in_cluster.insert("old".into());
    let fixture = Fixture::new([("remove-from-cluster/old", Act::Fail)]);
    let (finished, heard, _) = run(&site.plan(), &fixture);
    assert_eq!(finished.outcome, Outcome::SucceededWithFailures);
    assert_eq!(
        record_of(&heard, "destroy/old").phase,
        Some(Phase::NotStarted)
    );
    assert!(finished.left.is_empty());
}

#[test]
fn a_step_finds_its_notes_again_in_the_next_attempt_and_after_a_crash() {
    let mut site = Site::of(vec![group("g", true, &[], (None, None, None), &["a"])]);
    site.redeploys.insert("a".into(), 1);
    let plan = site.plan();
    let script = || Fixture::new([("destroy/g/a", Act::Note)]);
    let (finished, heard, log) = run(&plan, &script());
    assert_eq!(finished.outcome, Outcome::Succeeded);
    let told: Vec<_> = heard
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StepProgress { step, message } => Some(format!("{step}: {message}")),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["destroy/g/a: task 1", "destroy/g/a: found task 1"]);
    let noted = Entry::Note {
        step: "destroy/g/a".parse().unwrap(),
        text: "task 1".into(),
    };
    let position = log.durable.iter().position(|entry| *entry == noted);
    for appends in 0..log.durable.len() {
        let fixture = script();
        let finished = in_virtual_time(async {
            let mut first = Run::new(&plan, &fixture);
            first.log.appends_left = Some(appends);
            assert!(first.execute().await.is_err());
            let mut second = Run::new(&plan, &fixture);
            second.replay.entries = first.log.durable;
            second.execute().await.unwrap()
        });
        assert_eq!(finished.outcome, Outcome::Succeeded, "after {appends}");
        let begun = fixture.effects().get("destroy/g/a").copied();
        // Nothing was asked for before its note was durable.
        assert_eq!(begun, Some(1), "after {appends} of {position:?}");
    }
}

#[test]
fn a_group_whose_machines_another_group_has_sent_needs_no_places() {
    let nodes = ["a", "b"];
    let mut site = Site::of(vec![
        group("g", false, &[], (Some(0), None, None), &nodes),
        group("h", false, &["g"], (Some(0), None, None), &nodes),
    ]);
    site.redeploys = [("a".into(), 1), ("b".into(), 2)].into();
    let mut plan = site.plan();
    plan.guards.places = vec![crate::guard::PlaceLimit {
        of: "of the site".into(),
        most: 1,
        places: 1,
        is_given: true,
        nodes: nodes.map(crate::design::NodeName::from).into(),
        down: Vec::new(),
    }];
    let (finished, _, _) = run(&plan, &Fixture::new([("destroy/g/b", Act::Fail)]));
    let reasons: Vec<_> = finished.groups.iter().map(|group| &group.reason).collect();
    assert_eq!(reasons, [&None, &None]);
    // One that does not come back keeps its place, and the wave behind it does not begin.
    let (finished, _, _) = run(&plan, &Fixture::new([("deploy/g/a", Act::Fail)]));
    let reason = finished.groups[0].reason.clone().unwrap_or_default();
    assert_eq!(
        &*reason,
        "`a` did not come back, and at most 1 machine of the site may be unavailable"
    );
}
