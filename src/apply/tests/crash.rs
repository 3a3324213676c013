//! Runs that are broken off at every point of their journal, and resumed.

use super::fixture::Act;
use super::*;
use crate::journal::Journal;
use crate::step::StepKind;

fn site() -> Site {
    let mut site = Site::of(vec![
        group("g", true, &[], (Some(50), None, None), &["a", "b", "c"]),
        group("h", false, &["g"], (None, None, Some(1)), &["c", "d", "e"]),
        group("i", false, &["h"], (None, None, None), &["f"]),
    ]);
    site.redeploys.insert("b".into(), 1);
    site.redeploys.insert("c".into(), 2);
    site.in_cluster = ["b", "c", "old"].map(String::from).into();
    site.removed.insert("old".into());
    site.options.parallelism = 2;
    site
}

fn fixture() -> Arc<Fixture> {
    Fixture::new([
        ("prepare/g/a", Act::Fail),
        ("deploy/h/d", Act::Fail),
        ("deploy/g/b", Act::Busy(1)),
        ("destroy/g/c", Act::LoseAnswer),
        ("remove-etcd/g/b", Act::LoseAnswer),
        ("shutdown-kubelet/g/c", Act::Fail),
    ])
}

/// The parts that have to be the same however often a run was broken off.
fn essence(finished: &Finished) -> impl PartialEq + std::fmt::Debug + use<> {
    let nodes: Vec<_> = finished
        .nodes
        .iter()
        .map(|node| {
            (
                node.node.clone(),
                node.standing,
                node.failed_step.clone(),
                node.message.clone(),
            )
        })
        .collect();
    (
        finished.outcome,
        finished.groups.clone(),
        nodes,
        finished.counts,
        finished.standings.clone(),
    )
}

#[test]
#[expect(clippy::excessive_nesting, reason = "every crash of every run")]
fn a_run_broken_off_at_any_point_of_its_journal_ends_as_if_it_had_not_been() {
    for overlap in [false, true] {
        let mut site = site();
        site.options.overlap = overlap;
        let plan = site.plan();
        let (whole, _, log) = run(&plan, &fixture());
        let expected = essence(&whole);
        for appends in 0..=log.durable.len() {
            for torn in [false, true] {
                for later in [0, 7] {
                    let fixture = fixture();
                    let finished = in_virtual_time(async {
                        let mut first = Run::new(&plan, &fixture);
                        first.log.appends_left = Some(appends);
                        let ended = first.execute().await;
                        if appends < log.durable.len() {
                            assert!(matches!(ended, Err(Error::Journal(_))));
                        }
                        let mut entries = first.log.durable;
                        if !torn {
                            // The write went through, though no answer came.
                            entries.extend(first.log.pending);
                        }
                        tokio::time::advance(std::time::Duration::from_secs(later)).await;
                        let mut second = Run::new(&plan, &fixture);
                        second.replay.entries = entries;
                        second.execute().await.unwrap()
                    });
                    assert_eq!(essence(&finished), expected, "after {appends} appends");
                    assert!(fixture.effects().values().all(|times| *times == 1));
                }
            }
        }
    }
}

#[test]
fn a_run_is_resumed_from_its_journal_on_disk() {
    let plan = site().plan();
    let (whole, _, _) = run(&plan, &fixture());
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("run");
    let fixture = fixture();
    let finished = in_virtual_time(async {
        let mut first = Run::new(&plan, &fixture);
        first.journal = Some(Journal::create(&directory).unwrap());
        first.stop_grace = Some(std::time::Duration::ZERO);
        first.stop_after = Some(std::time::Duration::from_secs(12));
        let stopped = first.execute().await.unwrap();
        assert!(stopped.interrupted && !stopped.under_way.is_empty());
        drop(first);
        let (journal, entries) = Journal::open::<Entry>(&directory).unwrap();
        let mut second = Run::new(&plan, &fixture);
        second.journal = Some(journal);
        second.replay.entries = entries;
        second.execute().await.unwrap()
    });
    assert_eq!(essence(&finished), essence(&whole));
    let (_, entries) = Journal::open::<Entry>(&directory).unwrap();
    let replay = Replay {
        entries,
        ..Replay::default()
    };
    let outcomes = NodeOutcome::all_of(&replay, &plan);
    let last = outcomes
        .iter()
        .rfind(|each| each.node.as_str() == "b" && each.phase.is_some())
        .unwrap();
    assert_eq!(last.phase, Some(crate::record::Phase::Deployed));
    assert!(fixture.effects().values().all(|times| *times == 1));
}

#[test]
fn what_cannot_be_told_from_outside_waits_for_a_decision() {
    let plan = Site::of(vec![
        group("g", false, &[], (None, None, None), &["a", "b"]),
        group("h", false, &["g"], (None, None, None), &["c"]),
    ])
    .plan();
    let entries = in_virtual_time(async {
        let fixture = Fixture::new([]);
        let mut first = Run::new(&plan, &fixture);
        first.stop_grace = Some(std::time::Duration::ZERO);
        // Breaks off while both nodes are being prepared.
        first.log.appends_left = Some(7);
        assert!(first.execute().await.is_err());
        first.log.durable
    });
    let begun = Entry::Intent {
        step: "prepare/g/a".parse().unwrap(),
    };
    assert!(entries.contains(&begun));
    let fixture = Fixture::new([("prepare/g/a", Act::Ambiguous)]);
    in_virtual_time(async {
        let mut lost = Run::new(&plan, &fixture);
        lost.replay.entries = entries.clone();
        // The first run had begun it.
        let step = plan
            .steps
            .iter()
            .find(|step| step.id.to_string() == "prepare/g/a")
            .unwrap();
        let order = crate::backend::Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            notes: Vec::new(),
            reporter: crate::backend::Reporter::default(),
            run: RunId::from("01RUN"),
            step: Arc::new(step.clone()),
            node: None,
        };
        let _ = crate::backend::Hardware::act(fixture.as_ref(), &order).await;
        let finished = lost.execute().await.unwrap();
        assert!(finished.interrupted);
        assert_eq!(finished.undecided.len(), 1);
        assert_eq!(finished.undecided[0].1.as_ref(), "check the machine");
        assert_eq!(
            lost.heard.ends().get("gate-prepared/g"),
            None,
            "nothing is guessed"
        );
        assert_eq!(
            lost.heard.ends().get("prepare/g/b").map(String::as_str),
            Some("ok")
        );

        let mut entries = entries;
        entries.extend(lost.log.durable);
        let mut decided = Run::new(&plan, &fixture);
        decided.replay.entries = entries.clone();
        decided
            .replay
            .decisions
            .insert("prepare/g/a".into(), Decision::Done);
        let finished = decided.execute().await.unwrap();
        assert_eq!(finished.outcome, crate::record::Outcome::Succeeded);

        let mut wrong = Run::new(&plan, &fixture);
        wrong.replay.entries = entries;
        wrong
            .replay
            .decisions
            .insert("deploy/h/c".into(), Decision::Done);
        assert!(matches!(
            wrong.execute().await,
            Err(Error::NothingToDecide(_))
        ));
    });
    assert_eq!(fixture.effects()["prepare/g/a"], 1);
}

#[test]
fn a_deploy_that_is_decided_or_found_done_is_taken_back_from_or_forgets_what_it_noted() {
    let plan = site().plan();
    let fixture = Fixture::new([]);
    let entries = in_virtual_time(async {
        let mut first = Run::new(&plan, &fixture);
        first.execute().await.unwrap();
        first.log.durable
    });
    let id = "deploy/g/a";
    let begun = Entry::Intent {
        step: id.parse().unwrap(),
    };
    let at = entries.iter().position(|entry| *entry == begun).unwrap();
    let resumed = |decision: Option<Decision>| {
        in_virtual_time(async {
            // What the first run began has ended by now.
            tokio::time::sleep(std::time::Duration::from_secs(1_000_000)).await;
            let mut run = Run::new(&plan, &fixture);
            run.replay.entries = entries[..=at].to_vec();
            let decision = decision.map(|decision| (id.into(), decision));
            run.replay.decisions.extend(decision);
            let finished = run.execute().await.unwrap();
            assert_eq!(finished.outcome, crate::record::Outcome::Succeeded);
            run.log.durable
        })
    };
    let times = || {
        fixture
            .taken_back()
            .iter()
            .filter(|step| **step == id)
            .count()
    };
    assert_eq!(times(), 0);
    resumed(Some(Decision::Done));
    assert_eq!(times(), 1);
    resumed(None);
    assert_eq!(times(), 2);
    let forgotten = Entry::Note {
        step: id.parse().unwrap(),
        text: crate::backend::NOT_BEGUN.into(),
    };
    assert!(resumed(Some(Decision::NotBegun)).contains(&forgotten));
    assert_eq!(times(), 2);
}

#[test]
fn a_journal_of_another_plan_is_refused() {
    let plan = site().plan();
    in_virtual_time(async {
        let fixture = fixture();
        let mut run = Run::new(&plan, &fixture);
        run.replay.entries = vec![Entry::Intent {
            step: "deploy/x/y".parse().unwrap(),
        }];
        assert!(matches!(run.execute().await, Err(Error::OtherPlan(_))));
    });
}

/// Two groups in parallel that share a node, and nothing less than all of them will do.
fn sharing() -> Plan {
    let mut site = Site::of(vec![
        group("g", true, &[], (Some(100), None, None), &["a", "b"]),
        group("h", true, &[], (Some(100), None, None), &["a", "c"]),
    ]);
    site.options.parallel_groups = 2;
    site.plan()
}

#[test]
fn a_group_waits_for_a_shared_node_that_an_earlier_life_of_the_run_began() {
    let plan = sharing();
    let (whole, _, log) = run(&plan, &Fixture::new([]));
    let expected = essence(&whole);
    for appends in 0..=log.durable.len() {
        let fixture = Fixture::new([]);
        let finished = in_virtual_time(async {
            let mut first = Run::new(&plan, &fixture);
            first.log.appends_left = Some(appends);
            let _ = first.execute().await;
            let mut second = Run::new(&plan, &fixture);
            second.replay.entries = first.log.durable;
            second.execute().await.unwrap()
        });
        assert_eq!(essence(&finished), expected, "after {appends} appends");
        assert!(fixture.effects().values().all(|times| *times == 1));
    }
}

#[test]
fn a_run_that_was_halted_begins_nothing_more_where_every_step_may_have_begun() {
    let mut site = Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, None),
        &["a", "b"],
    )]);
    site.options.max_failures = Some(0);
    let plan = site.plan();
    let fixture = Fixture::new([("prepare/g/a", Act::Fail)]);
    let finished = in_virtual_time(async {
        let mut first = Run::new(&plan, &fixture);
        first.execute().await.unwrap();
        let is_told = |entry: &Entry| match entry {
            Entry::Ended { step, .. } => step.kind == StepKind::Prepare,
            _ => true,
        };
        // The other process had not written how the rest went.
        let known = first.log.durable.into_iter().filter(is_told);
        let mut elsewhere = Run::new(&plan, &fixture);
        elsewhere.replay.entries = known.collect();
        elsewhere.replay.all_possibly_begun = true;
        elsewhere.execute().await.unwrap()
    });
    assert_eq!(finished.outcome, crate::record::Outcome::Failed);
    let effects = fixture.effects();
    assert_eq!(effects["prepare/g/b"], 1);
    assert!(!effects.contains_key("deploy/g/b"), "{effects:?}");
}

#[test]
fn a_shared_node_is_sent_once_where_every_step_may_have_begun() {
    let plan = sharing();
    let fixture = Fixture::new([]);
    let finished = in_virtual_time(async {
        let mut elsewhere = Run::new(&plan, &fixture);
        elsewhere.replay.all_possibly_begun = true;
        elsewhere.execute().await.unwrap()
    });
    assert_eq!(finished.outcome, crate::record::Outcome::Succeeded);
    let sent = fixture.effects();
    let deploys = sent
        .keys()
        .filter(|step| step.starts_with("deploy/") && step.ends_with("/a"));
    assert_eq!(deploys.count(), 1, "{sent:?}");
}
