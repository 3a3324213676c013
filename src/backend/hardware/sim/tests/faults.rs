//! The fault script.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::lifecycle::ProvisionState;
use crate::observed::Fact;

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn each_fault_does_what_it_says() {
    struct Row {
        fault: &'static str,
        /// The answers of the first and the second attempt, and after how many seconds each.
        answers: [(&'static str, u64); 2],
        probe_between: Probe,
        deployed: usize,
    }
    let row = |fault, answers, probe_between, deployed| Row {
        fault,
        answers,
        probe_between,
        deployed,
    };
    let table = [
        row(
            "outcome: fail, message: no image",
            [("permanent: no image", 900); 2],
            Probe::NotBegun,
            0,
        ),
        row(
            "outcome: fail, times: 1",
            [
                ("permanent: `deploy` failed, as the fault script says", 900),
                ("ok", 900),
            ],
            Probe::NotBegun,
            1,
        ),
        row(
            "outcome: fail-once, message: busy",
            [("passing: busy", 0), ("ok", 900)],
            Probe::NotBegun,
            1,
        ),
        row(
            "outcome: fail-once, times: 2",
            [("passing: the machine did not answer this time", 0); 2],
            Probe::NotBegun,
            0,
        ),
        row("outcome: late", [("ok", 960), ("ok", 0)], Probe::Done, 1),
        row(
            "outcome: late, seconds: 5000",
            [("no answer", 3600), ("ok", 2300)],
            Probe::UnderWay,
            1,
        ),
        row(
            "outcome: lost-answer",
            [
                ("ambiguous: the answer to `deploy/n1` was lost", 900),
                ("ok", 0),
            ],
            Probe::Done,
            1,
        ),
        row(
            "outcome: hang",
            [("no answer", 3600); 2],
            Probe::UnderWay,
            0,
        ),
        row(
            "outcome: hang, seconds: 4000",
            [
                ("no answer", 3600),
                ("permanent: `deploy` hung until its timeout", 400),
            ],
            Probe::UnderWay,
            0,
        ),
        row(
            "outcome: unobservable",
            [("ok", 900), ("ok", 0)],
            Probe::Ambiguous("the machine does not answer".into()),
            1,
        ),
        row(
            "nodes: [x*], outcome: fail",
            [("ok", 900), ("ok", 0)],
            Probe::Done,
            1,
        ),
        row(
            "nodes: [x, 'n?'], outcome: fail",
            [("permanent: `deploy` failed, as the fault script says", 900); 2],
            Probe::NotBegun,
            0,
        ),
    ];
    for Row {
        fault,
        answers,
        probe_between,
        deployed,
    } in table
    {
        let site = Site::new(1);
        let simulator = site.open(&format!("{{faults: [{{step: deploy, {fault}}}]}}"));
        simulator
            .act(&site.order("R1", StepKind::Prepare, 0))
            .await
            .unwrap();
        let order = site.order("R1", StepKind::Deploy, 0);
        for (attempt, expected) in answers.into_iter().enumerate() {
            let began = Instant::now();
            let answer =
                tokio::time::timeout(Duration::from_secs(3600), simulator.act(&order)).await;
            let answer = match answer {
                Ok(Ok(())) => "ok".to_owned(),
                Ok(Err(ActError::Passing(message))) => format!("passing: {message}"),
                Ok(Err(ActError::Permanent(message))) => format!("permanent: {message}"),
                Ok(Err(ActError::Ambiguous(message))) => format!("ambiguous: {message}"),
                Ok(Err(ActError::Refused(message))) => format!("refused: {message}"),
                Err(_) => "no answer".to_owned(),
            };
            assert_eq!(
                (&*answer, began.elapsed().as_secs()),
                expected,
                "{fault}, attempt {attempt}"
            );
            if attempt == 0 {
                assert_eq!(simulator.probe(&order).await, probe_between, "{fault}");
            }
        }
        let ledger = site.ledger(&simulator, 0);
        let times = ledger
            .iter()
            .filter(|effect| matches!(effect, Effect::Deployed(_)));
        assert_eq!(times.count(), deployed, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_seen_is_unknown_and_its_neighbour_is_not() {
    let site = Site::new(2);
    let text = "{faults: [{nodes: [n1], outcome: unobservable, message: dead, times: 1}]}";
    let first = site.open(text).observe(&site.nodes).await;
    assert_eq!(*first["n1"], ObservedNode::unknown("dead"));
    assert!(first["n2"].provision.known().is_some());
    // The count is kept in the file.
    let second = site.open(text).observe(&site.nodes).await;
    assert!(second["n1"].provision.known().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_in_failure_when_its_fault_leaves_the_script() {
    let site = Site::new(1);
    let order = site.order("R1", StepKind::Prepare, 0);
    let hanging = site.open("{faults: [{outcome: hang, message: stuck}]}");
    assert!(
        tokio::time::timeout(Duration::from_secs(9), hanging.act(&order))
            .await
            .is_err()
    );
    let repaired = site.open("{}");
    let seen = repaired.observe(&site.nodes).await;
    assert_eq!(
        seen["n1"].provision,
        Fact::Known(ProvisionState::InspectFailed)
    );
    assert_eq!(seen["n1"].last_error.as_deref(), Some("stuck"));
    assert_eq!(repaired.probe(&order).await, Probe::NotBegun);
    repaired
        .act(&site.order("R2", StepKind::Prepare, 0))
        .await
        .unwrap();
    let failed = Effect::Failed {
        kind: StepKind::Prepare,
        message: Arc::from("stuck"),
    };
    assert_eq!(
        site.ledger(&repaired, 0),
        [failed, Effect::PoweredOn, Effect::Prepared]
    );
}
