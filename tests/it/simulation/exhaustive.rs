//! Every kind of step on the simulator, killed at every place where it can make a difference, and gone on with.

use std::collections::BTreeSet;
use std::time::Duration;

use trueup::plan::{Action, Options, Request};
use trueup::step::StepKind;

use super::death::{Death, Places};
use super::ledger::Outcome;
use super::sites::Text;
use super::{End, RunCommand, Stage, allowing_all, request};
use crate::amount::{every, takes_all};

/// Deaths that are tried in each chapter, spread evenly, unless `TRUEUP_TEST_CRASHES=all` asks for every one.
const DEATHS: usize = 10;

/// An action on nodes.
pub(super) type Chapter = (Action, &'static [&'static str]);

/// Actions on machines, one after the other.
pub(super) const ON_MACHINES: [Chapter; 11] = [
    (Action::SetMaintenance, &["w1"]),
    (Action::UnsetMaintenance, &["w1"]),
    (Action::PowerOff, &["w1"]),
    (Action::PowerOn, &["w1"]),
    (Action::Retire, &["w1"]),
    (Action::Unretire, &["w1"]),
    (Action::Teardown, &["w1", "w2"]),
    (Action::Manage, &["w2"]),
    (Action::Clean, &["w2"]),
    (Action::Provide, &["w2"]),
    (Action::Forget, &["w1"]),
];

/// Actions on the cluster, one after the other.
pub(super) const ON_CLUSTER: [Chapter; 10] = [
    (Action::Drain, &["w1", "w2"]),
    (Action::Uncordon, &["w1"]),
    (Action::ClearLabels, &["w2"]),
    (Action::Relabel, &["w1"]),
    (Action::ShutdownKubelet, &["w2"]),
    (Action::RemoveFromCluster, &["w2"]),
    (Action::RemoveEtcd, &["c1"]),
    (Action::CheckEtcd, &[]),
    (Action::Decommission, &["w1"]),
    (Action::Destroy, &["w2"]),
];

/// Where the run of a process that died is gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// By the next process, which has its journal.
    Here,
    /// In another clone, which knows what was pushed and nothing else.
    Elsewhere,
}

/// A stage, and the run that is killed on it.
struct Story {
    stage: Stage,
    request: Request,
    options: Options,
}

impl Story {
    fn of(stage: Stage, action: Action, nodes: &[&str]) -> Self {
        Self {
            stage,
            request: request(action, nodes),
            options: allowing_all(),
        }
    }

    /// One life, and those that go on with its run until that has ended.
    fn with(&self, death: Option<Death>, next: Where) -> (Outcome, Places, BTreeSet<StepKind>) {
        let stage = self.stage.copy();
        let planned = stage.plan(&self.request, self.options.clone()).unwrap();
        let kinds = planned.plan.steps.iter().map(|step| step.id.kind).collect();
        let first = stage.live(&RunCommand::Apply(&planned), death);
        let passed = first.passed;
        let mut life = first;
        for _ in 0..4 {
            match life.end {
                End::Ended(ended) => {
                    let (report, finished) = *ended;
                    assert!(
                        !finished.interrupted,
                        "{death:?} {next:?}: {:?} {:#?}",
                        finished.undecided, life.told
                    );
                    let left = stage.ledger().left_behind(&stage.records().1);
                    let is_built = matches!(
                        self.request.action,
                        Action::Update | Action::Redeploy | Action::Remediate
                    );
                    assert!(left.is_empty() || !is_built, "{death:?}: {left:?}");
                    return (stage.outcome(&report), passed, kinds);
                }
                End::Died => {
                    if next == Where::Elsewhere {
                        stage.move_elsewhere();
                    }
                    life = stage.live(&RunCommand::Resume(Default::default()), None);
                }
                End::Nothing => {
                    let (state, _) = stage.records();
                    if state.site.last_run.is_some()
                        && state.site.last_run != self.stage.records().0.site.last_run
                    {
                        // It had ended, and only said so to nobody.
                        let report = stage.last_report();
                        return (stage.outcome(&report), passed, kinds);
                    }
                    let planned = stage.plan(&self.request, self.options.clone()).unwrap();
                    life = stage.live(&RunCommand::Apply(&planned), None);
                }
                End::Failed(error) => panic!("{death:?}: {error}\n{:#?}", life.told),
            }
        }
        panic!("{death:?}: it does not come to its end");
    }

    /// Dies everywhere. Gives the kinds of steps that were in it, and the number of deaths.
    fn everywhere(&self) -> (BTreeSet<StepKind>, usize) {
        let (expected, places, kinds) = self.with(None, Where::Here);
        let mut deaths = Vec::new();
        for commit in 0..places.commits {
            // Nothing of a frame, half its head, its head, a part of what is in it, all but its last byte.
            deaths.extend([0, 7, 12, 40, usize::MAX].map(|left| Death::Torn(commit, left)));
            deaths.push(Death::Written(commit));
        }
        for call in 0..places.calls {
            deaths.extend([Death::Before(call), Death::Behind(call)]);
        }
        deaths.extend((0..places.looks).map(Death::Looking));
        deaths.extend(
            [1, 3, 17, 61, 131, 307, 611, 1103, 2411]
                .map(|time| Death::After(Duration::from_secs(time))),
        );
        let all = takes_all();
        let deaths: Vec<&Death> = deaths.iter().step_by(every(DEATHS, deaths.len())).collect();
        for (number, death) in deaths.iter().enumerate() {
            // Of some deaths every other one is followed by a life in another clone.
            let next = [Where::Here, Where::Elsewhere];
            let next = if all {
                &next[..]
            } else {
                &next[number % 2..][..1]
            };
            for next in next {
                let (outcome, _, _) = self.with(Some(**death), *next);
                assert!(
                    outcome == expected,
                    "{death:?} {next:?}:\n{}",
                    outcome.difference(&expected)
                );
            }
        }
        (kinds, deaths.len())
    }
}

/// A site of three members of etcd and two workers, as it was designed first.
pub(super) fn text() -> Text {
    Text::cluster()
}

/// The same, deployed.
pub(super) fn deployed(text: &Text) -> Stage {
    deployed_on(Stage::new(), text)
}

/// The same on a stage that is empty.
pub(super) fn deployed_on(stage: Stage, text: &Text) -> Stage {
    stage.commit(&text.to_string());
    done(&stage, Action::Update, &[]);
    stage
}

/// A stage whose next update has many kinds of changes.
pub(super) fn to_be_mixed(stage: Stage) -> Stage {
    let mut text = text();
    let mut fourth = text.machines[4].clone();
    fourth.name = "w3".to_owned();
    fourth.address = 17;
    text.machines.push(fourth.clone());
    let stage = deployed_on(stage, &text);
    // One is relabelled, one is retired, one leaves, one comes, one has moved, one was switched off, and one was
    // deployed by somebody else.
    done(&stage, Action::PowerOff, &["w1"]);
    done(&stage, Action::Forget, &["c3"]);
    text.machines[0].label = Some("new".to_owned());
    text.machines[1].rack = "r9".to_owned();
    text.machines[5].name = "w4".to_owned();
    text.machines[5].address = 18;
    text.more = "---\nschema: trueup/NodeRetirement/v1\nmetadata: {name: old}\ndata:\n  \
                 retirements: [{node_names: [w2], reason: old}]\n"
        .to_owned();
    stage.commit(&text.to_string());
    stage
}

/// A stage whose next update changes the firmware and a setting of all machines but one, which needs no restart.
pub(super) fn to_be_serviced(stage: Stage) -> Stage {
    let mut text = text();
    let stage = deployed_on(stage, &text);
    text.more =
        "---\nschema: trueup/Hardware/v1\nmetadata: {name: most}\ndata:\n  mode: enforce\n  \
                 selectors: [{node_names: [c1, c2, c3, w1]}]\n  firmware: {bios: {version: 2.19.1}}\n  \
                 bios: {ProcVirtualization: Enabled}\n\
                 ---\nschema: trueup/Hardware/v1\nmetadata: {name: one}\ndata:\n  mode: enforce\n  \
                 selectors: [{node_names: [w2]}]\n  bmc: {ntp: [10.0.0.1]}\n"
            .to_owned();
    stage.commit(&text.to_string());
    stage
}

/// Does something on a stage that has to go well.
pub(super) fn done(stage: &Stage, action: Action, nodes: &[&str]) {
    let planned = stage.plan(&request(action, nodes), allowing_all()).unwrap();
    let life = stage.live(&RunCommand::Apply(&planned), None);
    let End::Ended(ended) = life.end else {
        panic!("{:?} {:#?}", life.end, life.told);
    };
    assert_eq!(
        ended.0.outcome,
        trueup::record::Outcome::Succeeded,
        "{:#?}",
        life.told
    );
}

/// Dies everywhere in each of these, which follow one another on one stage, and says what was in them.
fn tells(mut stage: Stage, chapters: &[(Action, &[&str])]) -> BTreeSet<StepKind> {
    let mut all = BTreeSet::new();
    for (action, nodes) in chapters {
        let story = Story::of(stage, *action, nodes);
        let (kinds, deaths) = story.everywhere();
        eprintln!("{action} {nodes:?}: {deaths} deaths");
        all.extend(kinds);
        stage = story.stage;
        done(&stage, *action, nodes);
    }
    all
}

#[track_caller]
fn has(kinds: &BTreeSet<StepKind>, wanted: &[StepKind]) {
    for kind in wanted {
        assert!(kinds.contains(kind), "{kind} was in no plan: {kinds:?}");
    }
}

#[test]
fn a_first_apply_that_dies_anywhere_ends_as_if_it_had_not() {
    let stage = Stage::new();
    stage.commit(&text().to_string());
    let kinds = tells(stage, &[(Action::Update, &[])]);
    use StepKind::{
        CriticalCheck, Deploy, GateDeployed, GatePrepared, Prepare, PrepareSite, StartGroup, Tag,
        VerifySite,
    };
    has(
        &kinds,
        &[
            VerifySite,
            PrepareSite,
            StartGroup,
            Prepare,
            GatePrepared,
            Deploy,
            GateDeployed,
            CriticalCheck,
            Tag,
        ],
    );
}

#[test]
fn a_redeploy_of_a_member_of_etcd_that_dies_anywhere_ends_as_if_it_had_not() {
    let kinds = tells(deployed(&text()), &[(Action::Redeploy, &["c1"])]);
    use StepKind::{
        AwaitReady, CheckEtcd, ClearLabels, Destroy, Drain, RemoveEtcd, RemoveFromCluster,
        ShutdownKubelet,
    };
    has(
        &kinds,
        &[
            Drain,
            ClearLabels,
            RemoveEtcd,
            CheckEtcd,
            ShutdownKubelet,
            Destroy,
            RemoveFromCluster,
            AwaitReady,
        ],
    );
}

#[test]
fn an_update_of_many_kinds_that_dies_anywhere_ends_as_if_it_had_not() {
    let stage = to_be_mixed(Stage::new());
    let kinds = tells(stage, &[(Action::Update, &[])]);
    use StepKind::{Adopt, Deploy, Destroy, PowerOn, Record, Relabel, SetRetired};
    has(
        &kinds,
        &[Adopt, Deploy, Destroy, PowerOn, Record, Relabel, SetRetired],
    );
}

#[test]
fn a_service_that_dies_anywhere_ends_as_if_it_had_not() {
    let kinds = tells(to_be_serviced(Stage::new()), &[(Action::Update, &[])]);
    use StepKind::{AwaitReady, Drain, Service, ServiceLive, Uncordon};
    has(&kinds, &[Drain, Service, ServiceLive, AwaitReady, Uncordon]);
    assert!(!kinds.contains(&StepKind::Deploy), "{kinds:?}");
}

#[test]
fn a_remediation_that_dies_anywhere_ends_as_if_it_had_not() {
    let kinds = tells(
        deployed(&text()),
        &[(Action::Remediate, &["w1"]), (Action::Remediate, &["c2"])],
    );
    has(&kinds, &[StepKind::Remediate]);
}

#[test]
fn actions_on_machines_that_die_anywhere_end_as_if_they_had_not() {
    let kinds = tells(deployed(&text()), &ON_MACHINES);
    use StepKind::{
        Clean, Forget, Manage, PowerOff, PowerOn, Provide, SetMaintenance, SetRetired,
        UnsetMaintenance, UnsetRetired,
    };
    has(
        &kinds,
        &[
            SetMaintenance,
            UnsetMaintenance,
            PowerOff,
            PowerOn,
            SetRetired,
            UnsetRetired,
            Manage,
            Clean,
            Provide,
            Forget,
        ],
    );
}

#[test]
fn actions_on_the_cluster_that_die_anywhere_end_as_if_they_had_not() {
    let kinds = tells(deployed(&text()), &ON_CLUSTER);
    use StepKind::{
        CheckEtcd, ClearLabels, Destroy, Drain, RemoveEtcd, RemoveFromCluster, ShutdownKubelet,
        Uncordon,
    };
    has(
        &kinds,
        &[
            Drain,
            Uncordon,
            ClearLabels,
            ShutdownKubelet,
            RemoveFromCluster,
            RemoveEtcd,
            CheckEtcd,
            Destroy,
        ],
    );
}
