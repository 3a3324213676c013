//! Ends an interrupted run in the records, under a lock that is held: for `abort`, and for the run that supersedes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::ending::{Finished, RunReport, pods_left};
use super::error::{self, Error};
use super::event::RunEvent;
use super::files::RunFiles;
use super::known::{KnownRun, OpenSteps, Seen, elapsed};
use super::part::plan_of;
use super::process::Process;
use super::tag::{self, TagFacts};
use super::time::rfc3339;
use super::untold::{Then, untold};
use super::view::{Completion, Left};
use crate::design::{NodeName, RunId};
use crate::journal::Entry;
use crate::plan::Plan;
use crate::record::{
    Checkpoint, Counts, NodeRecord, Outcome, Packed, Phase, RunRecord, State, Store,
};
use crate::repository::CommitId;
use crate::step::{Step, StepId, StepKind};

/// The result of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The run.
    pub run: RunId,
    /// The half-done parts; nodes sorted by name, then steps.
    pub half_done: Vec<HalfDone>,
    /// Nodes that the run took out of service, and whose machines are what they were; sorted.
    pub left: Vec<(NodeName, Left)>,
    /// The machines that were found deployed when they were observed, sorted.
    pub found_deployed: Vec<NodeName>,
    /// The machines whose service was found done, sorted.
    pub found_serviced: Vec<NodeName>,
    /// Machines that owe the soak of the run, sorted: the next update or redeploy has it first.
    pub owes_soak: Vec<NodeName>,
    /// The tag, if it could have changed something, and its commit is here.
    pub tag: Option<Arc<str>>,
    /// Why its end is not signed, if it should be.
    pub unsigned: Option<String>,
}

/// Something that stays half-done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HalfDone {
    /// A node, how far it came, and what is known of it.
    Node {
        /// Which.
        node: NodeName,
        /// How far.
        phase: Phase,
        /// The failure, or the step that had begun.
        message: Option<Arc<str>>,
    },
    /// A step that had begun, or may have, and is not known to be done.
    Step {
        /// Its id.
        step: StepId,
        /// The knowledge about it.
        trace: Trace,
    },
}

/// The knowledge about a step that has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It had begun.
    Begun,
    /// It may have begun. Of such steps of a node, only the first is told.
    MayHaveBegun,
    /// It had begun, or may have, and what it had set for its own time is taken back.
    TakenBack,
}

/// A run that was aborted.
pub(super) struct Abandoned {
    pub(super) run: RunRecord,
    pub(super) state: State,
    pub(super) files: RunFiles,
    pub(super) aborted: Aborted,
}

/// Tells how open steps ended, by an observation of their machines; those are left out of which that cannot be told.
pub type Look<'a> = dyn Fn(&OpenSteps) -> BTreeMap<StepId, Seen> + 'a;

/// Sums up how a run stands by what is known of its steps; `None`: that is not about its plan.
pub type SumUp<'a> = dyn Fn(&Plan, &[Entry]) -> Option<Finished> + 'a;

/// Leaves nodes to others that the run has drained and that stay cordoned.
pub type LeaveCordoned<'a> = dyn Fn(&[NodeName]) + 'a;

/// How an abort finds out how the run stands, and leaves it.
#[derive(Clone, Copy)]
pub struct Inspection<'a> {
    /// Observes open steps.
    pub look: &'a Look<'a>,
    /// Sums up all steps.
    pub sum_up: &'a SumUp<'a>,
    /// Leaves its nodes to others.
    pub leave_cordoned: &'a LeaveCordoned<'a>,
}

/// Writes that a run was aborted, and tags it. The lock is held.
pub(super) fn abandon(
    process: Process<'_>,
    (store, state): (&Store<'_>, &State),
    mut record: RunRecord,
    inspection: Inspection<'_>,
) -> Result<Abandoned, Error> {
    let site = process.site;
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    // One that cannot be read tells nothing.
    let plan = plan_of(store, state, &record).ok();
    let mut known = KnownRun::gather(site, (store, state), &record, &files)?;
    if let Some(plan) = &plan {
        known.suspect(plan);
    }
    let open = known.open_to_see();
    let seen = match open.is_empty() {
        true => BTreeMap::new(),
        false => (inspection.look)(&open),
    };
    known.settle(&seen);
    let mut nodes = store
        .nodes(state)
        .map_err(error::records("read the records of the nodes"))?;
    let seconds = process.time.seconds();
    let changed = known.take_in(&mut nodes, &record, plan.as_ref(), seconds);
    let left = left_behind((&known, &seen), &nodes, &record, plan.as_ref());
    if !left.cordoned.is_empty() {
        (inspection.leave_cordoned)(&left.cordoned);
    }
    let plan = plan.as_ref();
    let summed = plan.and_then(|plan| Some((plan, (inspection.sum_up)(plan, known.all())?)));
    let summed = summed.map(|(plan, finished)| (plan, without_suspicion((&known, plan), finished)));
    record.counts = match &summed {
        Some((_, finished)) => finished.counts,
        None => counts_of(nodes.values().filter(|node| node.run == record.run)),
    };
    record.halted = summed
        .as_ref()
        .and_then(|(_, finished)| finished.halted.clone());
    record.outcome = Outcome::Abandoned;
    record.ended = Some(Arc::from(rfc3339(process.time.seconds())));
    let facts = TagFacts {
        past_verification: known.is_past_verification(),
        is_no_op: false,
    };
    record.tag = tag::name(&record, &state.site, facts).map(Arc::from);
    record.annotation = tag::annotation(&record, [], process.signature());
    let mut unsigned = tag::sign(&mut record, site.signing.as_deref());
    let written = changed.iter().filter_map(|node| nodes.get(node));
    let forgotten = changed.iter().filter(|node| !nodes.contains_key(*node));
    let forgotten: Vec<NodeName> = forgotten.cloned().collect();
    let recording = "record that the run was aborted";
    let (events, elapsed_ms) = late_events((store, state), &known, &record, seconds)?;
    let report = summed.map(|(plan, finished)| {
        let report = RunReport::new(&record, plan, &finished, &pods_left(known.all()));
        RunReport {
            duration_ms: elapsed_ms,
            ..report
        }
        .packed()
    });
    let report = report.transpose()?;
    let written = Checkpoint {
        nodes: written.collect(),
        forgotten: &forgotten,
        events: events.as_slice(),
        report: report.as_ref(),
        ..Checkpoint::of_run(&record, process.signature())
    };
    let draft = store
        .draft(state, &written)
        .map_err(error::records(recording))?;
    unsigned = unsigned.or(draft.unsigned.clone());
    let state = store.advance(draft).map_err(error::records(recording))?;
    let commit = record.revision.parse::<CommitId>().ok();
    let is_here = commit.is_none_or(|commit| matches!(site.repository.has(commit.0), Ok(true)));
    let found = |is_service: bool| {
        let done = seen.iter().filter(|(step, seen)| {
            **seen == Seen::Done
                && step.kind.facts().reaches == Some(Phase::Deployed)
                && (step.kind == StepKind::Service) == is_service
        });
        done.filter_map(|(step, _)| step.node.clone()).collect()
    };
    Ok(Abandoned {
        state,
        files,
        aborted: Aborted {
            run: record.run.clone(),
            half_done: left.half_done,
            left: left.left,
            owes_soak: owing_soak(plan, &nodes),
            found_deployed: found(false),
            found_serviced: found(true),
            tag: record.tag.clone().filter(|_| is_here),
            unsigned,
        },
        run: record,
    })
}

/// The machines that a plan has a soak for and that owe it, sorted.
fn owing_soak(plan: Option<&Plan>, nodes: &BTreeMap<NodeName, NodeRecord>) -> Vec<NodeName> {
    let soaked = plan.into_iter().flat_map(|plan| &plan.steps);
    let soaked = soaked.flat_map(Step::soaked);
    let owes = |node: &&NodeName| nodes.get(*node).is_some_and(|node| node.soaking.is_some());
    let owing: BTreeSet<&NodeName> = soaked.filter(owes).collect();
    owing.into_iter().cloned().collect()
}

/// The traces of a run that is aborted.
struct LeftBehind {
    half_done: Vec<HalfDone>,
    left: Vec<(NodeName, Left)>,
    /// The nodes that it drained and that stay cordoned.
    cordoned: Vec<NodeName>,
}

/// The traces of a run, by all that is known of its steps, and by the records of machines of which none is known.
fn left_behind(
    (known, seen): (&KnownRun, &BTreeMap<StepId, Seen>),
    nodes: &BTreeMap<NodeName, NodeRecord>,
    record: &RunRecord,
    plan: Option<&Plan>,
) -> LeftBehind {
    let view = known.view();
    let mine = || nodes.values().filter(|node| node.run == record.run);
    let planned = plan.map_or_else(BTreeMap::new, |plan| view.nodes(plan));
    let is_complete = |node: &NodeName| {
        let view = planned.get(node);
        view.is_some_and(|view| view.completion() == Completion::Complete)
    };
    let is_torn_down = |node: &NodeName| {
        let view = planned.get(node);
        view.is_some_and(|view| view.achieved.has(StepKind::Destroy))
    };
    let left_of = |node: &NodeRecord| {
        let message = match node.phase {
            Phase::Unknown | Phase::Prepared | Phase::Failed => node.last_error.clone(),
            Phase::NotStarted if is_complete(&node.node) => return None,
            Phase::NotStarted if is_torn_down(&node.node) => {
                Some(Arc::from("torn down, and not built again"))
            }
            Phase::NotStarted => node.last_error.clone(),
            Phase::Deployed => return None,
        };
        Some(HalfDone::Node {
            node: node.node.clone(),
            phase: node.phase,
            message,
        })
    };
    let mut half_done: Vec<HalfDone> = mine().filter_map(left_of).collect();
    // A node tells of its step by itself.
    let is_told = |node: &NodeName| {
        let record = nodes.get(node).filter(|node| node.run == record.run);
        record.is_some_and(|node| node.phase == Phase::Unknown)
    };
    let open = view.open().map(|(step, _)| step);
    let open = open.filter(|step| !step.node.as_ref().is_some_and(is_told));
    let mut suspected = FxHashSet::default();
    half_done.extend(open.filter_map(|step| {
        let trace = match seen.get(step) {
            Some(Seen::TakenBack) => Trace::TakenBack,
            _ if known.is_suspected(step) => Trace::MayHaveBegun,
            _ => Trace::Begun,
        };
        let is_told = trace != Trace::MayHaveBegun || suspected.insert(&step.node);
        is_told.then(|| HalfDone::Step {
            step: step.clone(),
            trace,
        })
    }));
    let left = planned.iter();
    let left = left.filter_map(|(node, view)| Some(((*node).clone(), view.left()?)));
    let left = left.collect();
    let cordoned = planned.iter().filter(|(_, view)| view.stays_cordoned());
    let cordoned = cordoned.map(|(node, _)| (*node).clone()).collect();
    LeftBehind {
        half_done,
        left,
        cordoned,
    }
}

/// The same, with the step of each node that its record tells as what may have begun, in place of the last one that counts as begun
/// since nothing is known of it.
fn without_suspicion((known, plan): (&KnownRun, &Plan), mut finished: Finished) -> Finished {
    let mut told: BTreeMap<&NodeName, &StepId> = BTreeMap::new();
    for step in plan.steps.iter().map(|step| &step.id) {
        if let Some(node) = step.node.as_ref().filter(|_| known.is_suspected(step)) {
            let place = told.entry(node).or_insert(step);
            if step.kind.rebuilds() {
                *place = step;
            }
        }
    }
    for node in finished
        .nodes
        .iter_mut()
        .filter(|node| node.unended_step.is_some())
    {
        if let Some(step) = told.get(&node.node) {
            node.unended_step = Some(Arc::from(step.to_string()));
            node.may_be_begun = true;
        }
    }
    finished
}

/// How many machines came how far, by their records alone: of a run whose plan cannot be read.
fn counts_of<'n>(nodes: impl Iterator<Item = &'n NodeRecord>) -> Counts {
    let mut counts = Counts::default();
    for node in nodes {
        counts.add(match node.phase {
            Phase::Deployed => Completion::Complete,
            Phase::Failed => Completion::Failed,
            Phase::NotStarted | Phase::Prepared | Phase::Unknown => Completion::HalfDone,
        });
    }
    counts
}

/// The events that the records of a run lack, packed, if there are any; and how long it was carried out, as far as events
/// tell, in milliseconds.
fn late_events(
    (store, state): (&Store<'_>, &State),
    known: &KnownRun,
    record: &RunRecord,
    now: i64,
) -> Result<(Option<Packed>, u64), Error> {
    let mut told = store
        .events(state, &record.run)
        .map_err(error::records("read the events of the run"))?;
    // A process that was killed while it ended the run has written those of the parts.
    let mut late = match told.is_empty() {
        true => lines(&known.events),
        false => Vec::new(),
    };
    told.extend(&late);
    let entries = known.without_suspected();
    late.extend(lines(&untold((&entries, &told), record, Then::Ended, now)));
    let elapsed_ms = elapsed(&told);
    if late.is_empty() {
        return Ok((None, elapsed_ms));
    }
    let packed = Packed::new(|out| out.write_all(&late));
    let (packed, ()) = packed.map_err(|error| Error::Broken {
        what: "the events of the run".to_owned(),
        reason: error.to_string(),
    })?;
    Ok((Some(packed), elapsed_ms))
}

/// Events as lines; each can be written as JSON.
fn lines(events: &[RunEvent]) -> Vec<u8> {
    let lines = events
        .iter()
        .map(|event| serde_json::to_vec(event).unwrap_or_default());
    lines
        .flat_map(|line| [line, b"\n".to_vec()].concat())
        .collect()
}
