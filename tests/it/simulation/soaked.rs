//! The soak behind each wave: it lasts, it ends a run at what is not healthy, and no death lets a run skip it.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup::backend::hardware::sim::Effect;
use trueup::plan::Action;
use trueup::record::Outcome;
use trueup::run::{Finished, RunReport};

use super::death::Death;
use super::sites::Text;
use super::{End, Life, RunCommand, Stage, allowing_all, request};

const SOAK: &str = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata:\n  \
                    soak: {time: 10m, namespaces: [default]}\n";
/// In milliseconds.
const TIME: u64 = 600_000;

fn ended(life: Life) -> (RunReport, Finished) {
    match life.end {
        End::Ended(ended) => *ended,
        other => panic!("{other:?}"),
    }
}

/// A site that is as designed, and then gets another kernel for its members of etcd, one wave each.
fn story(faults: &[&str]) -> (Stage, super::Planned) {
    let (stage, _, planned) = story_of(faults);
    (stage, planned)
}

/// The same, with the text of its documents.
fn story_of(faults: &[&str]) -> (Stage, Text, super::Planned) {
    let stage = Stage::new();
    let mut text = Text::cluster();
    text.more = SOAK.to_owned();
    text.cluster_faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
    stage.commit(&text.to_string());
    let update = request(Action::Update, &[]);
    let first = stage.plan(&update, allowing_all()).unwrap();
    // What is built for the first time is in no wave.
    let (_, finished) = ended(stage.live(&RunCommand::Apply(&first), None));
    assert_eq!(finished.outcome, Outcome::Succeeded);
    text.kernels[0].1 += 1;
    stage.commit(&text.to_string());
    let planned = stage.plan(&update, allowing_all()).unwrap();
    (stage, text, planned)
}

/// The soaks of a plan.
fn soaks(planned: &super::Planned) -> Vec<String> {
    let soaks = planned.plan.steps.iter().map(|step| step.id.to_string());
    soaks.filter(|id| id.starts_with("soak/")).collect()
}

/// The machines whose records owe a soak.
fn owing(stage: &Stage) -> Vec<String> {
    let (_, records) = stage.records();
    let owing = records.values().filter(|record| record.soaking.is_some());
    owing.map(|record| record.node.to_string()).collect()
}

/// When each machine was last built, and when it was last taken away.
fn times(stage: &Stage) -> BTreeMap<String, (u64, u64)> {
    let mut times: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (node, entry) in stage.ledger().entries() {
        let own = times.entry(node.to_string()).or_default();
        match entry.effect {
            Effect::Deployed(_) => own.0 = entry.at,
            Effect::Cordoned(_) => own.1 = entry.at,
            _ => {}
        }
    }
    times
}

#[test]
fn a_wave_begins_when_the_one_before_it_was_healthy_for_its_soak() {
    let (stage, planned) = story(&[]);
    assert_eq!(
        soaks(&planned),
        ["soak/control/1", "soak/control/2", "soak/control/3"]
    );
    let (_, finished) = ended(stage.live(&RunCommand::Apply(&planned), None));
    assert_eq!(finished.outcome, Outcome::Succeeded, "{finished:?}");
    let times = times(&stage);
    for (before, next) in [("c1", "c2"), ("c2", "c3")] {
        assert!(times[before].0 + TIME <= times[next].1, "{times:?}");
    }
}

#[test]
fn what_is_not_healthy_in_a_soak_stops_the_run() {
    let (stage, planned) = story(&["{nodes: [c1], step: soak, outcome: fail}"]);
    let (report, finished) = ended(stage.live(&RunCommand::Apply(&planned), None));
    assert_eq!(finished.outcome, Outcome::Failed, "{finished:?}");
    let halted = finished.halted.unwrap();
    assert!(
        halted.contains("`soak/control/1`: not healthy in its soak: a pod of `c1` crashes"),
        "{halted}"
    );
    assert_eq!(report.halted.as_deref(), Some(&*halted));
    let times = times(&stage);
    assert_eq!((times["c2"].1, times["c3"].1), (0, 0), "{times:?}");
    // Nothing is unfinished: the next plan holds what is left.
    assert!(stage.interrupted_run().is_none());
}

#[test]
fn a_run_that_dies_in_a_soak_has_the_whole_of_it_when_it_is_resumed() {
    let (stage, planned) = story(&[]);
    let begins = stage.copy();
    ended(begins.live(&RunCommand::Apply(&planned), None));
    let whole = times(&begins);
    // In the middle of the first soak.
    let start = whole["c1"].1;
    let built = Duration::from_millis(whole["c1"].0 - start);
    let mut died = 0;
    for part in [1_u32, 3, 5] {
        let stage = stage.copy();
        let death = built + Duration::from_millis(TIME) * part / 6;
        let life = stage.live(&RunCommand::Apply(&planned), Some(Death::After(death)));
        if !matches!(life.end, End::Died) {
            continue;
        }
        let before = times(&stage);
        assert_eq!(before["c2"].1, 0, "it died in the soak");
        died += 1;
        let (_, finished) = ended(stage.live(&RunCommand::Resume(BTreeMap::new()), None));
        assert_eq!(finished.outcome, Outcome::Succeeded, "{finished:?}");
        // The time of the machines stands still while no process is at work.
        let after = times(&stage);
        assert!(after["c1"].0 + TIME <= after["c2"].1, "{after:?}");
    }
    assert!(died > 0);
}

#[test]
fn a_soak_that_failed_is_had_again_before_the_next_wave_until_it_succeeds() {
    let (stage, mut text, planned) = story_of(&["{nodes: [c1], step: soak, outcome: fail}"]);
    ended(stage.live(&RunCommand::Apply(&planned), None));
    assert_eq!(owing(&stage), ["c1"]);
    let update = request(Action::Update, &[]);
    for _ in 0..2 {
        let again = stage.plan(&update, allowing_all()).unwrap();
        assert_eq!(
            soaks(&again),
            ["soak/0", "soak/control/1", "soak/control/2"]
        );
        let (_, finished) = ended(stage.live(&RunCommand::Apply(&again), None));
        assert_eq!(finished.outcome, Outcome::Failed, "{finished:?}");
        let halted = finished.halted.unwrap();
        assert!(halted.starts_with("`soak/0`: not healthy"), "{halted}");
        let times = times(&stage);
        assert_eq!((times["c2"].1, times["c3"].1), (0, 0), "{times:?}");
    }
    text.cluster_faults.clear();
    stage.commit(&text.to_string());
    let again = stage.plan(&update, allowing_all()).unwrap();
    let before = times(&stage)["c1"].0;
    let (_, finished) = ended(stage.live(&RunCommand::Apply(&again), None));
    assert_eq!(finished.outcome, Outcome::Succeeded, "{finished:?}");
    let times = times(&stage);
    assert!(
        times["c1"].0 == before && before + TIME <= times["c2"].1,
        "{times:?}"
    );
    assert_eq!(owing(&stage), Vec::<String>::new());
    assert!(stage.plan(&update, allowing_all()).unwrap().plan.is_empty());
}
