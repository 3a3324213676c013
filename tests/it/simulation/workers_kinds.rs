//! Every kind of step carried out by disturbed workers: as an apply of the same plan, and nothing twice. Maintenance windows that close
//! while a worker is at work.
//!
//! `TRUEUP_TEST_WORKERS=1000` tries each chapter forty times.

use std::collections::BTreeSet;
use std::time::Duration;

use trueup::plan::{Action, Options};
use trueup::record::Outcome;
use trueup::step::StepKind;
use trueup::workflow::{Error, PartEnd};

use super::exhaustive::{
    Chapter, ON_CLUSTER, ON_MACHINES, deployed_on, done, text, to_be_mixed, to_be_serviced,
};
use super::workers::{Trial, is_as_applied};
use super::{RunCommand, Stage, allowing_all, request};
use crate::amount::number;
use crate::dice::Dice;

/// Trials of each chapter for each that is asked for in all.
const SHARE: u64 = 25;

/// Carries chapters out that follow one another on one stage; adds the kinds of their steps.
fn tell(mut stage: Stage, chapters: &[Chapter], kinds: &mut BTreeSet<StepKind>) {
    let trials = number("TRUEUP_TEST_WORKERS").unwrap_or(SHARE) / SHARE;
    for (action, nodes) in chapters {
        let planned = stage
            .plan(&request(*action, nodes), allowing_all())
            .unwrap();
        kinds.extend(planned.plan.steps.iter().map(|step| step.id.kind));
        let mut compared = 0;
        for trial in 0..trials {
            let name = format!("{action} {nodes:?}, trial {trial}");
            compared += u64::from(is_as_applied(&name, Dice(trial), stage.copy(), &planned));
        }
        eprintln!("{action} {nodes:?}: {compared} of {trials} compared");
        assert_eq!(compared, trials, "{action} {nodes:?}");
        done(&stage, *action, nodes);
        stage = stage.copy();
    }
}

#[test]
fn disturbed_workers_carry_every_kind_of_step_out_once() {
    let mut kinds = BTreeSet::new();
    let deployed = || deployed_on(Stage::shared(), &text());
    let first = Stage::shared();
    first.commit(&text().to_string());
    tell(first, &[(Action::Update, &[])], &mut kinds);
    tell(
        to_be_mixed(Stage::shared()),
        &[(Action::Update, &[])],
        &mut kinds,
    );
    tell(
        to_be_serviced(Stage::shared()),
        &[(Action::Update, &[])],
        &mut kinds,
    );
    let mut soaked = text();
    soaked.more.push_str(
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {soak: {time: 5m}}\n",
    );
    tell(
        deployed_on(Stage::shared(), &soaked),
        &[(Action::Redeploy, &["c1"]), (Action::Remediate, &["w1"])],
        &mut kinds,
    );
    tell(deployed(), &ON_MACHINES, &mut kinds);
    tell(deployed(), &ON_CLUSTER, &mut kinds);
    let missing: Vec<StepKind> = StepKind::ALL
        .into_iter()
        .filter(|kind| !kinds.contains(kind))
        .collect();
    // Of MAAS alone; records alone are changed; what a remediation does in its one step; and what needs the file of a
    // password, which this site does not have: it is killed at each request if it is tested.
    use StepKind::{
        AcceptDifferences, AcceptIdentity, Lock, Rename, RestoreNode, RotateBmcPassword,
        SetOutOfService, UnsetOutOfService,
    };
    let elsewhere = [
        Rename,
        Lock,
        AcceptIdentity,
        AcceptDifferences,
        SetOutOfService,
        UnsetOutOfService,
        RestoreNode,
        RotateBmcPassword,
    ];
    assert_eq!(missing, elsewhere);
}

/// Two workers at a site whose maintenance window closes ten minutes from the beginning of all time, at eight in the morning.
fn in_a_window() -> Stage {
    let mut site = text();
    site.machines.retain(|machine| machine.profile == "worker");
    site.groups.remove(0);
    site.groups[0].depends_on.clear();
    site.members.clear();
    site.has_cluster = false;
    site.more = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\n\
                 data: {maintenance_windows: [{from: '06:00', to: '08:10'}]}\n"
        .to_owned();
    let stage = Stage::shared();
    stage.commit(&site.to_string());
    stage
}

#[test]
fn a_window_that_closes_stops_a_part_and_the_next_one_sees_its_end() {
    let stage = in_a_window();
    let one_by_one = Options {
        parallelism: 1,
        ..allowing_all()
    };
    let planned = stage
        .plan(&request(Action::Update, &[]), one_by_one)
        .unwrap();
    let deployed = |stage: &Stage| {
        let counts = stage.ledger().counts();
        let deployed = counts
            .into_iter()
            .filter(|(what, _)| what.ends_with(" deployed"));
        deployed.map(|(_, count)| count).sum::<usize>()
    };
    // So does an apply: one machine after the other, and the second of them is not begun.
    let alone = stage.copy();
    alone.live(&RunCommand::Apply(&planned), None);
    assert_eq!(deployed(&alone), 1);

    let mut trial = Trial::of(Dice(0), stage, &planned, 2);
    let mut interrupted = Vec::new();
    for part in 0..trial.parts.parts.len() {
        let PartEnd::CarriedOut(summary) = trial.stage.worked(&trial.parts, part).unwrap() else {
            continue;
        };
        if summary.unfinished > 0 {
            interrupted.push(trial.parts.parts[part].id.to_string());
            assert_eq!(deployed(&trial.stage), 1);
            // The window is closed.
            let refused = trial.stage.worked(&trial.parts, part);
            assert!(
                matches!(refused, Err(Error::WindowClosed { .. })),
                "{refused:?}"
            );
            assert_eq!(deployed(&trial.stage), 1);
            trial.stage.passes(Duration::from_secs(23 * 3600));
            let end = trial.stage.worked(&trial.parts, part).unwrap();
            assert!(matches!(end, PartEnd::CarriedOut(summary) if summary.unfinished == 0));
        }
    }
    assert_eq!(interrupted, ["workers.deploy-1"]);
    assert_eq!(trial.end().outcome, Outcome::Succeeded);
    assert_eq!(deployed(&trial.stage), 2);
}
