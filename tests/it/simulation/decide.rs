//! What nobody can tell from outside waits for a person, and what the person says is what counts; and a process
//! that was taken over and wakes up again writes nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup::journal::Decision;
use trueup::plan::Action;
use trueup::step::StepKind;

use super::death::Death;
use super::exhaustive::{deployed, text};
use super::{End, RunCommand, Stage, allowing_all, disturbance, request};

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
        stage.live(&RunCommand::Apply(&planned), death)
    };
    let unbroken = stage.copy();
    let whole = begin(&unbroken, None);
    let End::Ended(ended) = whole.end else {
        panic!("{:?}", whole.end)
    };
    let expected = unbroken.outcome(&ended.0);
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
                        let ledger = stage.ledger();
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
                        let outcome = stage.outcome(&ended.0);
                        assert!(
                            outcome == expected,
                            "{action} {death:?}:\n{}",
                            outcome.difference(&expected)
                        );
                        break;
                    }
                    End::Nothing | End::Failed(_) => panic!("{death:?}: {:?}", life.end),
                }
                life = stage.live(&RunCommand::Resume(std::mem::take(&mut decisions)), None);
            }
        }
    }
    kinds
}

#[test]
fn an_undecidable_step_of_any_kind_is_decided_by_a_person() {
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
        next.live(&RunCommand::Apply(&planned), None);
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
        stage.live(&RunCommand::Apply(&planned), None)
    };
    for event in (0..whole.told.len()).step_by(17) {
        let first = stage.copy();
        let taken = disturbance::taken_over(&first, event, None);
        let planned = first.plan(&asked, allowing_all()).unwrap();
        let slept = first.live(&RunCommand::Apply(&planned), None);
        let second = first.alias();
        let End::Ended(ended) = taken.try_recv().unwrap().end else {
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
        let ledger = second.ledger();
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

#[test]
fn what_a_run_did_elsewhere_is_not_done_again_however_often_it_dies_here() {
    let stage = deployed(&text());
    let asked = request(Action::Redeploy, &["w1"]);
    let begin = |stage: &Stage, death| {
        let planned = stage.plan(&asked, allowing_all()).unwrap();
        stage.live(&RunCommand::Apply(&planned), death)
    };
    let resume = |stage: &Stage, death| stage.live(&RunCommand::Resume(BTreeMap::new()), death);
    let calls = begin(&stage.copy(), None).passed.calls;
    for call in 0..calls {
        for commit in [0, 2] {
            let stage = stage.copy();
            let mut life = begin(&stage, Some(Death::Behind(call)));
            if let Some(run) = stage.interrupted_run() {
                // Whoever goes on has no journal of it, and dies, too, before it has looked at everything.
                std::fs::remove_dir_all(stage.run_files(&run)).unwrap();
                life = resume(&stage, Some(Death::Written(commit)));
                if matches!(life.end, End::Died) {
                    life = resume(&stage, None);
                }
            }
            let End::Ended(ended) = life.end else {
                panic!("{call} {commit}: {:?}", life.end)
            };
            let ledger = stage.ledger();
            ledger.check();
            if ended.0.outcome != trueup::record::Outcome::Succeeded {
                // It was too far for some steps to tell, and is brought back by the next run.
                let update = request(Action::Update, &[]);
                let planned = stage.plan(&update, allowing_all()).unwrap();
                let life = stage.live(&RunCommand::Apply(&planned), None);
                assert!(matches!(life.end, End::Ended(_)), "{:?}", life.end);
            }
            let left = stage.ledger().left_behind(&stage.records().1);
            assert!(left.is_empty(), "{call} {commit}: {left:?}");
        }
    }
}

#[test]
fn a_tag_of_the_same_run_by_another_process_does_not_block() {
    let stage = deployed(&text());
    let tags = stage.tags();
    let (state, _) = stage.records();
    let run = state.site.last_run.unwrap();
    // Its process slept when it was about to make the tag, and woke up when the run had ended.
    let target = stage.repository.head().unwrap().unwrap();
    let made = stage.repository.read_ref(&tags[0]).unwrap();
    stage
        .repository
        .update_ref(&tags[0], made, target.0)
        .unwrap();
    let files = stage.run_files(&run);
    std::fs::create_dir_all(&files).unwrap();
    let value = stage.repository.read_ref(&tags[0]).unwrap();

    let end = stage.live(&RunCommand::Resume(BTreeMap::new()), None).end;
    assert!(matches!(end, End::Nothing), "{end:?}");
    assert_eq!(stage.repository.read_ref(&tags[0]).unwrap(), value);
    assert!(!files.exists(), "nobody tries that again");
}
