//! Runs that are asked to stop.

use std::time::Duration;

use super::fixture::Act;
use super::*;
use crate::record::{Outcome, Phase};

fn site() -> Site {
    Site::of(vec![group(
        "g",
        false,
        &[],
        (None, None, None),
        &["a", "b"],
    )])
}

fn fixture() -> Arc<Fixture> {
    Fixture::new([
        ("prepare/g/a", Act::Take(100)),
        ("prepare/g/b", Act::Take(30)),
    ])
}

/// Runs, asks to stop at these seconds, and returns the outcome and how long it took.
fn stopped(
    fixture: &Arc<Fixture>,
    grace: Option<u64>,
    at: &[u64],
) -> (Finished, Heard, Vec<Entry>) {
    let plan = site().plan();
    in_virtual_time(async {
        let mut run = Run::new(&plan, fixture);
        run.stop_grace = grace.map(Duration::from_secs);
        let handle = run.stop.handle();
        let asking = async {
            let began = tokio::time::Instant::now();
            for second in at {
                tokio::time::sleep_until(began + Duration::from_secs(*second)).await;
                handle.stop();
            }
        };
        let (finished, ()) = tokio::join!(run.execute(), asking);
        (finished.unwrap(), run.heard, run.log.durable)
    })
}

#[test]
fn the_first_request_waits_for_what_runs_and_starts_nothing_new() {
    let (finished, heard, _) = stopped(&fixture(), None, &[40]);
    assert_eq!(finished.outcome, Outcome::Interrupted);
    assert_eq!(heard.ends()["prepare/g/a"], "ok");
    assert!(
        !heard
            .started()
            .iter()
            .any(|step| step.starts_with("deploy/"))
    );
    assert!(finished.under_way.is_empty());
    assert!(
        heard
            .events
            .iter()
            .any(|event| { matches!(event.kind, EventKind::Stopping { running: 1 }) })
    );
}

#[test]
fn steps_that_run_after_the_grace_are_recorded_under_way_and_resumed_later() {
    let fixture = fixture();
    let (finished, heard, entries) = stopped(&fixture, Some(5), &[40]);
    assert_eq!(finished.under_way[0].to_string(), "prepare/g/a");
    let last = heard.nodes.last().unwrap();
    assert_eq!(
        (last.node.as_str(), last.phase),
        ("a", Some(Phase::Unknown))
    );
    let plan = site().plan();
    let finished = in_virtual_time(async {
        let mut again = Run::new(&plan, &fixture);
        again.replay.entries = entries;
        again.execute().await.unwrap()
    });
    assert_eq!(finished.outcome, Outcome::Succeeded);
    assert_eq!(fixture.effects()["prepare/g/a"], 1);
}

#[test]
fn what_runs_when_a_window_closes_is_waited_for_whatever_the_grace() {
    let plan = site().plan();
    let fixture = fixture();
    let finished = in_virtual_time(async {
        let mut run = Run::new(&plan, &fixture);
        run.stop_grace = Some(Duration::from_secs(5));
        run.closes_after = Some(Duration::from_secs(40));
        run.execute().await.unwrap()
    });
    assert_eq!(finished.outcome, Outcome::Interrupted);
    assert!(finished.under_way.is_empty());
}

#[test]
fn the_second_request_stops_at_once() {
    let fixture = fixture();
    let (finished, _, _) = stopped(&fixture, None, &[40, 50]);
    assert_eq!(finished.under_way.len(), 1);
    // What a step has opened is closed by the time that the run returns.
    assert_eq!(fixture.acting(), 0);
    assert_eq!(finished.duration_ms, 50_000);
}

#[test]
fn a_run_that_is_asked_when_all_is_done_is_not_interrupted() {
    let (finished, _, _) = stopped(&Fixture::new([]), None, &[1_000_000]);
    assert_eq!(finished.outcome, Outcome::Succeeded);
}

#[test]
fn nothing_starts_while_the_lock_is_not_fresh() {
    let plan = site().plan();
    let fixture = Fixture::new([]);
    let finished = in_virtual_time(async {
        let mut run = Run::new(&plan, &fixture);
        run.may_start.set(false);
        let waiting = tokio::time::timeout(Duration::from_secs(100), run.execute()).await;
        assert!(waiting.is_err());
        assert!(fixture.effects().is_empty());
        run.may_start.set(true);
        run.execute().await.unwrap()
    });
    assert_eq!(finished.outcome, Outcome::Succeeded);
}
