//! What nobody can tell from outside waits for a person, and what the person says is what counts; and a process
//! that was taken over and wakes up again writes nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trueup::apply::{Decision, session::Timekeeper as _};
use trueup::plan::Action;
use trueup::step::StepKind;

use super::death::Death;
use super::exhaustive::{deployed, text};
use super::ledger::{Ledger, Outcome};
use super::{End, Errand, Stage, allowing_all, request};

/// Kinds of steps of which the simulator can be made to tell nothing: the machines', and the cluster's.
const HARDWARE: [StepKind; 12] = [
    StepKind::Prepare,
    StepKind::Deploy,
    StepKind::Destroy,
    StepKind::PowerOff,
    StepKind::PowerOn,
    StepKind::Clean,
    StepKind::Manage,
    StepKind::Provide,
    StepKind::SetMaintenance,
    StepKind::UnsetMaintenance,
    StepKind::SetRetired,
    StepKind::UnsetRetired,
];
const CLUSTER: [StepKind; 7] = [
    StepKind::Drain,
    StepKind::Uncordon,
    StepKind::ClearLabels,
    StepKind::Relabel,
    StepKind::RemoveEtcd,
    StepKind::ShutdownKubelet,
    StepKind::RemoveFromCluster,
];

/// A deployed stage on which no look at a step that was begun tells anything.
fn blind() -> Stage {
    let mut text = text();
    for machine in &mut text.machines {
        machine.label = Some("one".to_owned());
    }
    let stage = deployed(&text);
    let unobservable = |kind: &StepKind| format!("{{step: {kind}, outcome: unobservable}}");
    text.faults = HARDWARE.iter().map(unobservable).collect();
    text.cluster_faults = CLUSTER.iter().map(unobservable).collect();
    stage.commit(&text.to_string());
    stage
}

/// Dies before and behind every call of an action, and decides as the machines know it. Gives the kinds of
/// steps that were decided, as done and as not begun.
fn decided(stage: &Stage, action: Action, nodes: &[&str]) -> BTreeSet<(String, bool)> {
    let begin = |stage: &Stage, death| {
        let planned = stage.plan(&request(action, nodes), allowing_all()).unwrap();
        stage.live(&Errand::Apply(&planned, false), death)
    };
    let unbroken = stage.copy();
    let whole = begin(&unbroken, None);
    let End::Ended(ended) = whole.end else {
        panic!("{:?}", whole.end)
    };
    let expected = Outcome::of(&unbroken, &ended.0);
    let mut kinds = BTreeSet::new();
    for call in 0..whole.passed.calls {
        for death in [Death::Before(call), Death::Behind(call)] {
            let stage = stage.copy();
            let mut life = begin(&stage, Some(death));
            let mut decisions: BTreeMap<Arc<str>, Decision> = BTreeMap::new();
            for _ in 0..6 {
                match life.end {
                    End::Died => {}
                    End::Ended(ended) if !ended.1.undecided.is_empty() => {
                        assert!(ended.1.interrupted, "{death:?}: it is guessed");
                        let ledger = Ledger::of(&stage);
                        for (step, evidence) in &ended.1.undecided {
                            assert!(!evidence.is_empty());
                            let is_done = ledger.has(&ended.0.run, &step.to_string());
                            let decision = match is_done {
                                true => Decision::Done,
                                false => Decision::NotBegun,
                            };
                            kinds.insert((step.kind.to_string(), is_done));
                            decisions.insert(step.to_string().into(), decision);
                        }
                    }
                    End::Ended(ended) => {
                        let outcome = Outcome::of(&stage, &ended.0);
                        assert!(
                            outcome == expected,
                            "{action} {death:?}:\n{}",
                            outcome.difference(&expected)
                        );
                        break;
                    }
                    End::Nothing | End::Failed(_) => panic!("{death:?}: {:?}", life.end),
                }
                life = stage.live(&Errand::Resume(std::mem::take(&mut decisions)), None);
            }
        }
    }
    kinds
}

#[test]
fn a_step_of_any_kind_that_nobody_can_tell_of_is_decided_by_a_person() {
    let mut stage = blind();
    let mut all = BTreeSet::new();
    let chapters: [(Action, &[&str]); 16] = [
        (Action::Redeploy, &["c1"]),
        (Action::SetMaintenance, &["w1"]),
        (Action::UnsetMaintenance, &["w1"]),
        (Action::PowerOff, &["w1"]),
        (Action::PowerOn, &["w1"]),
        (Action::Retire, &["w1"]),
        (Action::Unretire, &["w1"]),
        (Action::Drain, &["w2"]),
        (Action::Uncordon, &["w2"]),
        (Action::ClearLabels, &["w2"]),
        (Action::Relabel, &["w2"]),
        (Action::Teardown, &["w2"]),
        (Action::Manage, &["w2"]),
        (Action::Clean, &["w2"]),
        (Action::Provide, &["w2"]),
        (Action::RemoveEtcd, &["c2"]),
    ];
    for (action, nodes) in chapters {
        let next = stage.copy();
        all.extend(decided(&stage, action, nodes));
        let planned = next.plan(&request(action, nodes), allowing_all()).unwrap();
        next.live(&Errand::Apply(&planned, false), None);
        stage = next;
    }
    let missing: Vec<_> = HARDWARE
        .iter()
        .chain(&CLUSTER)
        .flat_map(|kind| [(kind.to_string(), true), (kind.to_string(), false)])
        .filter(|wanted| !all.contains(wanted))
        .collect();
    assert!(missing.is_empty(), "never decided: {missing:?}");
}

#[test]
fn a_process_that_was_taken_over_and_wakes_up_again_writes_nothing_more() {
    let stage = deployed(&text());
    let asked = request(Action::Redeploy, &["c1"]);
    let whole = {
        let stage = stage.copy();
        let planned = stage.plan(&asked, allowing_all()).unwrap();
        stage.live(&Errand::Apply(&planned, false), None)
    };
    for event in (0..whole.told.len()).step_by(17) {
        let mut first = stage.copy();
        let second = first.alias();
        let (sender, receiver) = std::sync::mpsc::channel();
        let second = std::sync::Mutex::new(Some(second));
        first.at_event = Some((
            event,
            Box::new(move |clock| {
                // It sleeps for longer than a lock may stand still, and somebody goes on with its run.
                clock.pause(Duration::from_secs(11 * 60));
                let second = second.lock().unwrap().take().unwrap();
                let taken = std::thread::spawn(move || {
                    second.bury();
                    let life = second.live(&Errand::Resume(BTreeMap::new()), None);
                    (second, life.end)
                });
                let _ = sender.send(taken.join().unwrap());
            }),
        ));
        let planned = first.plan(&asked, allowing_all()).unwrap();
        let slept = first.live(&Errand::Apply(&planned, false), None);
        let (second, taken) = receiver.recv().unwrap();
        let End::Ended(ended) = taken else {
            // It had ended before it fell asleep.
            assert!(matches!(slept.end, End::Ended(_)), "{event}: {slept:?}");
            continue;
        };
        assert!(!ended.1.interrupted);
        assert!(
            matches!(slept.end, End::Failed(_)),
            "{event}: {:?}",
            slept.end
        );
        let ledger = Ledger::of(&second);
        ledger.check();
        let (state, _) = second.records();
        assert_eq!(
            state.site.last_run.as_ref(),
            Some(&ended.0.run),
            "{event}: the records are the second's"
        );
        assert_eq!(second.last_report().outcome, ended.0.outcome);
        assert!(second.lock().is_none(), "{event}: no lock is left");
    }
}
