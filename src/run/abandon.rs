//! Ends an interrupted run in the records, under a lock that is held: for `abort`, and for the run that supersedes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::error::{self, Error};
use super::files::RunFiles;
use super::known::{KnownRun, OpenSteps, Seen, is_past_verification};
use super::part::plan_of;
use super::process::Process;
use super::tag::{self, TagFacts};
use super::time::rfc3339;
use super::view::{Completion, Left};
use crate::design::{NodeName, RunId};
use crate::plan::Plan;
use crate::record::{Checkpoint, Counts, NodeRecord, Outcome, Phase, RunRecord, State, Store};
use crate::step::{StepId, StepKind};

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
    /// The tag, where it could have changed something.
    pub tag: Option<Arc<str>>,
    /// Why its end is not signed, where it should be.
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

/// Writes that a run was aborted, and tags it. The lock is held.
pub(super) fn abandon(
    process: Process<'_>,
    (store, state): (&Store<'_>, &State),
    mut record: RunRecord,
    look: &Look<'_>,
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
        false => look(&open),
    };
    known.settle(&seen);
    let mut nodes = store
        .nodes(state)
        .map_err(error::records("read the records of the nodes"))?;
    let seconds = process.time.seconds();
    let changed = known.take_in(&mut nodes, &record, plan.as_ref(), seconds);
    let left = left_behind((&known, &seen), &nodes, &record, plan.as_ref());
    record.counts = left.counts;
    record.outcome = Outcome::Abandoned;
    record.ended = Some(Arc::from(rfc3339(process.time.seconds())));
    let facts = TagFacts {
        past_verification: is_past_verification(known.all()),
        is_no_op: false,
    };
    record.tag = tag::name(&record, &state.site, facts).map(Arc::from);
    record.annotation = tag::annotation(&record, [], process.signature());
    let mut unsigned = tag::sign(&mut record, site.signing.as_deref());
    let written = changed.iter().filter_map(|node| nodes.get(node));
    let forgotten = changed.iter().filter(|node| !nodes.contains_key(*node));
    let forgotten: Vec<NodeName> = forgotten.cloned().collect();
    let recording = "record that the run was aborted";
    let written = Checkpoint {
        nodes: written.collect(),
        forgotten: &forgotten,
        ..Checkpoint::of_run(&record, process.signature())
    };
    let draft = store
        .draft(state, &written)
        .map_err(error::records(recording))?;
    unsigned = unsigned.or(draft.unsigned.clone());
    let state = store.advance(draft).map_err(error::records(recording))?;
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
            found_deployed: found(false),
            found_serviced: found(true),
            tag: record.tag.clone(),
            unsigned,
        },
        run: record,
    })
}

/// The traces of a run that is aborted.
struct LeftBehind {
    half_done: Vec<HalfDone>,
    left: Vec<(NodeName, Left)>,
    counts: Counts,
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
    let mut completion: BTreeMap<&NodeName, Completion> = planned
        .into_iter()
        .map(|(node, view)| (node, view.completion()))
        .collect();
    for node in mine() {
        let completion = completion
            .entry(&node.node)
            .or_insert(Completion::NotStarted);
        if *completion == Completion::NotStarted {
            *completion = match node.phase {
                Phase::Deployed => Completion::Complete,
                Phase::Failed => Completion::Failed,
                Phase::NotStarted | Phase::Prepared | Phase::Unknown => Completion::HalfDone,
            };
        }
    }
    let mut counts = Counts::default();
    for completion in completion.into_values() {
        counts.add(completion);
    }
    LeftBehind {
        half_done,
        left,
        counts,
    }
}
