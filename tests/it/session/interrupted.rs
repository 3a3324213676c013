//! Runs that were killed, gone on with or given up.

use std::sync::Arc;
use std::time::Duration;

use trueup::design::RunId;
use trueup::journal::{Entry, StepOutcome};
use trueup::record::{Outcome, Phase};
use trueup::repository::{Holder, Repository};
use trueup::run::{
    Error, HalfDone, Kind, Process, Recorder, Resumption, SiteRepository, TakeOver, Timekeeper,
    abort, begin, find_interrupted,
};
use trueup::run::{EventKind, RunEvent};

use super::{
    Hand, Job, MINUTE, SEES_NOTHING, actor, alone, apply, carry_out, go_on, holds, move_elsewhere,
    move_lock, plan, state, tags,
};
use crate::git::Checkout;

/// A run that stops after its group was prepared, as a killed process leaves it.
fn killed(site: &SiteRepository<'_>, time: &Hand, order: &Job) -> RunId {
    use trueup::run::NodeOutcome;
    let actor = actor();
    let mut begun = begin(
        Process::new(site, &actor, time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    for step in ["verify-site", "prepare-site", "start/g", "prepare/g/a"] {
        let ended = Entry::Ended {
            step: step.parse().unwrap(),
            outcome: StepOutcome::Succeeded,
            attempted: true,
            duration_ms: 1,
        };
        begun.journal.append(&ended).unwrap();
    }
    let prepare = order
        .plan
        .steps
        .iter()
        .find(|step| step.id.to_string() == "prepare/g/a");
    let id = &prepare.unwrap().id;
    let outcome = NodeOutcome::of(id, &StepOutcome::Succeeded, true, &[]).unwrap();
    trueup::run::RunListener::node_changed(
        &mut Recorder::new(&begun.session, &mut |_| {}),
        outcome,
    );
    begun
        .journal
        .append(&Entry::Intent {
            step: "prepare/g/b".parse().unwrap(),
        })
        .unwrap();
    begun.journal.commit().unwrap();
    let run = begun.session.run().clone();
    drop(begun);
    die(site, time);
    run
}

/// Gives the site's lock to a process that is gone.
fn die(site: &SiteRepository<'_>, time: &Hand) {
    move_lock(site, time, |holder| Holder {
        pid: 1,
        process_start: Some(u64::MAX),
        ..holder
    });
}

#[test]
fn a_killed_run_is_resumed_with_its_plan_and_commit_and_is_tagged_once() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let run = killed(&site, &time, &order);
    checkout.commit("later");

    let error = apply(&site, &time, &order, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    let found = find_interrupted(&site, None).unwrap();
    assert_eq!((&found.record.run, found.commit), (&run, commit));
    let (actor, take) = (actor(), TakeOver::default());
    let mut begun = go_on(&site, &actor, &time, &found, &order, take);
    assert!(!begun.replay.all_possibly_begun && begun.replay.entries.len() == 5);
    let mut steps = Vec::new();
    let mut sink = |event: &RunEvent| {
        if let EventKind::StepStarted { step, .. } = &event.kind {
            steps.push(step.to_string());
        }
    };
    let report = carry_out(&mut begun, &order, &[], &mut sink).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(!steps.contains(&"prepare/g/a".to_owned()), "{steps:?}");
    assert_eq!(tags(&checkout), [format!("site-action-success/one/{run}")]);
    let (store, now) = state(&repository);
    assert_eq!(
        now.site.last_success.as_ref().unwrap().revision.to_string(),
        commit.to_string()
    );
    assert!(
        store
            .nodes(&now)
            .unwrap()
            .values()
            .all(|node| node.phase == Phase::Deployed)
    );
    let ended = find_interrupted(&site, Some(&run)).unwrap_err();
    assert!(matches!(ended, Error::Ended { .. }), "{ended}");
}

#[test]
fn a_killed_run_that_is_aborted_is_tagged_as_failed_and_lists_what_stays_half_done() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let actor = actor();
    let run = killed(&site, &time, &order);
    let aborted = abort(
        Process::new(&site, &actor, &time),
        &run,
        TakeOver::default(),
        SEES_NOTHING,
    )
    .unwrap();
    let said: Vec<_> = aborted
        .half_done
        .iter()
        .map(|each| match each {
            HalfDone::Node { node, phase, .. } => format!("{node} {phase:?}"),
            HalfDone::Step { step, .. } => step.to_string(),
        })
        .collect();
    assert_eq!(said, ["a Unknown", "b Unknown"]);
    assert_eq!(tags(&checkout), [format!("site-action-failure/one/{run}")]);
    assert!(repository.read_lock("one").unwrap().is_none());

    // No new run begins beside one that was interrupted.
    let second = killed(&site, &time, &order);
    let refused = apply(&site, &time, &order, &[]).unwrap_err();
    assert!(matches!(refused, Error::Unfinished { .. }), "{refused}");
    let process = Process::new(&site, &actor, &time);
    abort(process, &second, TakeOver::default(), SEES_NOTHING).unwrap();
    let (report, _) = apply(&site, &time, &order, &[]).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(tags(&checkout).contains(&format!("site-action-failure/one/{second}")));
    assert!(tags(&checkout).contains(&format!("site-action-success/one/{}", report.run)));
}

#[test]
fn what_checkpoints_told_is_known_in_another_clone_as_far_as_it_fits_together() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let actor = actor();
    let begun = begin(
        Process::new(&site, &actor, &time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    let mut sink = |_: &RunEvent| {};
    let mut recorder = Recorder::new(&begun.session, &mut sink);
    let mut tell = |kind| {
        let (time, elapsed_ms) = (Arc::from("2027-01-15T12:00:00.000Z"), 0);
        let event = RunEvent {
            remaining_ms: None,
            time,
            elapsed_ms,
            kind,
        };
        trueup::run::RunListener::event(&mut recorder, event);
    };
    let failed = StepOutcome::Failed {
        message: "the machine says no".into(),
    };
    // How `prepare/g/b` ended no checkpoint was told; the gate was, by whoever had the journal.
    for (name, outcome) in [
        ("verify-site", Some(StepOutcome::Succeeded)),
        ("prepare-site", Some(StepOutcome::Succeeded)),
        ("start/g", Some(StepOutcome::Succeeded)),
        ("prepare/g/a", Some(failed.clone())),
        ("prepare/g/b", None),
        ("gate-prepared/g", Some(StepOutcome::Succeeded)),
        ("deploy/g/b", None),
    ] {
        let mut steps = order.plan.steps.iter();
        let step = &steps.find(|step| step.id.to_string() == name).unwrap().id;
        let (kind, node) = (step.kind, step.node.clone());
        let step = || step.clone();
        tell(EventKind::StepStarted {
            step: step(),
            kind,
            node: node.clone(),
            attempt: 1,
        });
        if let Some(outcome) = outcome {
            tell(EventKind::StepFinished {
                step: step(),
                kind,
                node,
                outcome,
                duration_ms: 7,
            });
        }
    }
    tell(EventKind::Stopping { running: 1 });
    let run = begun.session.run().clone();
    drop(begun);
    die(&site, &time);
    let files = repository
        .common_dir()
        .join("trueup/one")
        .join(run.as_str());
    std::fs::remove_dir_all(files).unwrap();

    let found = find_interrupted(&site, None).unwrap();
    let begun = go_on(&site, &actor, &time, &found, &order, TakeOver::default());
    assert!(begun.replay.all_possibly_begun);
    let known: Vec<String> = begun
        .replay
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Intent { step } => format!("{step} began"),
            Entry::Ended { step, outcome, .. } if *outcome == failed => format!("{step} failed"),
            Entry::Ended { step, .. } => format!("{step} ended"),
            Entry::Note { step, .. } => format!("{step} noted"),
            Entry::Opened { .. } => "opened".to_owned(),
        })
        .collect();
    let expected = [
        "verify-site began",
        "verify-site ended",
        "prepare-site began",
        "prepare-site ended",
        "start/g began",
        "start/g ended",
        "prepare/g/a began",
        "prepare/g/a failed",
        "prepare/g/b began",
    ];
    assert_eq!(known, expected);
}

/// The holder of the site's lock.
fn holder(repository: &Repository) -> Option<String> {
    let lock = repository.read_lock("one").unwrap();
    lock.map(|lock| lock.holder.run)
}

#[test]
fn who_waits_to_take_a_run_over_hears_a_stop_and_leaves_everything_as_it_was() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    // A process on another host, of which nobody can tell whether it is gone.
    let actor = actor();
    let begun = begin(
        Process::new(&site, &actor, &time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    let run = begun.session.run().clone();
    drop(begun);
    move_elsewhere(&site, &time);
    let before = repository.read_lock("one").unwrap().unwrap().id;
    let found = find_interrupted(&site, None).unwrap();
    let resume = |time: &Hand, take_over: TakeOver| {
        let (nodes, decisions) = (Default::default(), Default::default());
        let resumed = trueup::run::resume(
            Process::new(&site, &actor, time),
            &found,
            &order.plan,
            &nodes,
            Resumption {
                decisions,
                take_over,
            },
        );
        let stopped = resumed.err().unwrap();
        assert!(matches!(stopped, Error::Stopped { .. }), "{stopped}");
        assert_eq!(stopped.kind(), Kind::Interrupted);
        time.monotonic()
    };
    let take_over = TakeOver {
        dead: true,
        longest_request: MINUTE,
    };
    // In the ten minutes in which the lock must not move.
    let stopping = Hand {
        stopped_at: Some(MINUTE),
        ..Hand::new()
    };
    assert_eq!(resume(&stopping, take_over), MINUTE);
    assert_eq!(repository.read_lock("one").unwrap().unwrap().id, before);
    // In the minute in which the last request may still be answered: the lock is released again.
    let stopping = Hand {
        stopped_at: Some(10 * MINUTE + Duration::from_secs(1)),
        ..Hand::new()
    };
    assert_eq!(resume(&stopping, take_over), 11 * MINUTE);
    assert_eq!(holder(&repository), None);
    // Whoever comes next goes on with it.
    let mut begun = go_on(&site, &actor, &time, &found, &order, TakeOver::default());
    assert_eq!(begun.session.run(), &run);
    let report = carry_out(&mut begun, &order, &[], &mut |_| {}).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
}
