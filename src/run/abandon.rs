//! Ends an interrupted run in the records, under a lock that is held: for `abort`, and for the run that supersedes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::error::{self, Error};
use super::files::RunFiles;
use super::known::{KnownRun, is_past_verification};
use super::node;
use super::process::Process;
use super::tag::{self, TagFacts};
use super::time::rfc3339;
use crate::design::{Digests, NodeName, RunId};
use crate::plan::{Plan, saved};
use crate::record::{
    Checkpoint, Counts, NodeRecord, Outcome, Phase, RunFile, RunRecord, State, Store,
};
use crate::repository::RefUpdate;
use crate::step::StepId;

/// The result of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The run.
    pub run: RunId,
    /// The half-done parts; nodes sorted by name, then steps.
    pub half_done: Vec<HalfDone>,
    /// The machines that were found deployed when they were observed, sorted.
    pub found_deployed: Vec<NodeName>,
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
    /// A step that had begun and whose end is unknown.
    Step {
        /// Its id.
        step: StepId,
    },
}

/// A run that was aborted.
pub(super) struct Abandoned {
    pub(super) run: RunRecord,
    pub(super) state: State,
    pub(super) tag: Option<RefUpdate>,
    pub(super) files: RunFiles,
    pub(super) aborted: Aborted,
}

/// Tells which of the deploys that had begun are done, by an observation of their machines; each is given with its notes.
pub type LookAtDeploys<'a> = dyn Fn(&BTreeMap<StepId, Vec<Arc<str>>>) -> BTreeSet<StepId> + 'a;

/// Writes that a run was aborted, and tags it. The lock is held.
pub(super) fn abandon(
    process: Process<'_>,
    (store, state): (&Store<'_>, &State),
    mut record: RunRecord,
    look: &LookAtDeploys<'_>,
) -> Result<Abandoned, Error> {
    let site = process.site;
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    let mut known = KnownRun::gather(site, (store, state), &record, &files)?;
    let begun = known.begun_deploys();
    let done = match begun.is_empty() {
        true => BTreeSet::new(),
        false => look(&begun),
    };
    known.prove(&done);
    let mut nodes = store
        .nodes(state)
        .map_err(error::records("read the records of the nodes"))?;
    let plan = plan_of(store, state, &record.run);
    let seconds = process.time.seconds();
    let changed = take_in(&known, &mut nodes, &record, plan.as_ref(), seconds);
    let (half_done, counts) = left_behind(&known, &nodes, &record, plan.as_ref());
    record.counts = counts;
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
    let recording = "record that the run was aborted";
    let written = Checkpoint {
        nodes: written.collect(),
        ..Checkpoint::of_run(&record, process.signature())
    };
    let draft = store
        .draft(state, &written)
        .map_err(error::records(recording))?;
    unsigned = unsigned.or(draft.unsigned.clone());
    let state = store.advance(draft).map_err(error::records(recording))?;
    Ok(Abandoned {
        state,
        tag: site.make_tag(&record)?,
        files,
        aborted: Aborted {
            run: record.run.clone(),
            half_done,
            found_deployed: done.into_iter().filter_map(|step| step.node).collect(),
            tag: record.tag.clone(),
            unsigned,
        },
        run: record,
    })
}

/// The plan of a run; one that cannot be read tells nothing.
fn plan_of(store: &Store<'_>, state: &State, run: &RunId) -> Option<Plan> {
    let packed = store.packed_file(state, run, RunFile::Plan).ok()??;
    saved::read(&packed.unpack("plan").ok()?).ok()
}

/// Brings the records up to date with what the journal knows and no checkpoint has; returns the nodes that
/// changed. A machine whose deploy has ended is as the plan says, and stays so; all else that was done to one counts as
/// unknown, and is observed before anything else.
fn take_in(
    known: &KnownRun,
    nodes: &mut BTreeMap<NodeName, NodeRecord>,
    record: &RunRecord,
    plan: Option<&Plan>,
    seconds: i64,
) -> BTreeSet<NodeName> {
    let run = &record.run;
    let unrecorded = known.unrecorded(nodes, run);
    let built: FxHashMap<&NodeName, &Digests> = plan
        .iter()
        .flat_map(|plan| &plan.changes)
        .filter_map(|change| Some((&change.node, &change.machine.as_ref()?.sections)))
        .collect();
    let joining: FxHashSet<&NodeName> = plan
        .iter()
        .flat_map(|plan| &plan.steps)
        .filter(|step| step.parameters.as_ref().is_some_and(|all| all.joins))
        .filter_map(|step| step.id.node.as_ref())
        .collect();
    let decided = known.decided();
    let mut changed = BTreeSet::new();
    for (node, (phase, message)) in unrecorded {
        let node = NodeName::from(node);
        let found = nodes
            .entry(node.clone())
            .or_insert_with(|| NodeRecord::blank(node.clone(), run.clone()));
        match built.get(&node).filter(|_| phase == Phase::Deployed) {
            Some(digests) => {
                let joins_after = joining.contains(&node).then_some(seconds);
                node::build(found, digests, &record.revision, joins_after);
                found.run = run.clone();
                found.phase = Phase::Deployed;
                (found.last_error, found.clean_step) = (None, None);
                found.manageable = false;
                if decided.contains(&node) {
                    *found = node::as_decided(found.clone());
                }
            }
            None => unsettle(found, run, phase, message),
        }
        changed.insert(node);
    }
    changed
}

/// The half-done parts of a run, and the counts of its nodes.
fn left_behind(
    known: &KnownRun,
    nodes: &BTreeMap<NodeName, NodeRecord>,
    record: &RunRecord,
    plan: Option<&Plan>,
) -> (Vec<HalfDone>, Counts) {
    let mine = || nodes.values().filter(|node| node.run == record.run);
    let mut half_done: Vec<HalfDone> = mine()
        .filter(|node| matches!(node.phase, Phase::Unknown | Phase::Prepared | Phase::Failed))
        .map(|node| HalfDone::Node {
            node: node.node.clone(),
            phase: node.phase,
            message: node.last_error.clone(),
        })
        .collect();
    half_done.extend(
        known
            .begun()
            .into_iter()
            .map(|step| HalfDone::Step { step }),
    );
    let deployed = mine().filter(|node| node.phase == Phase::Deployed);
    let deployed: BTreeSet<&NodeName> = deployed.map(|node| &node.node).collect();
    // Whatever a step has begun on is not as it was, and not as it was to be.
    let mut begun = known.begun_on();
    begun.extend(mine().map(|node| &node.node));
    let planned = plan.iter().flat_map(|plan| &plan.steps);
    let planned: BTreeSet<&NodeName> = planned.filter_map(|step| step.id.node.as_ref()).collect();
    let counts = Counts {
        succeeded: deployed.len(),
        failed: begun.difference(&deployed).count(),
        not_started: planned.difference(&begun).count(),
    };
    (half_done, counts)
}

fn unsettle(record: &mut NodeRecord, run: &RunId, phase: Phase, message: Option<Arc<str>>) {
    record.run = run.clone();
    record.phase = match phase {
        // Of what design it is cannot be told.
        Phase::Deployed => Phase::Unknown,
        phase => phase,
    };
    record.join = None;
    record.digests.clear();
    record.last_error = message.or_else(|| Some(Arc::from(format!("run {run} was aborted"))));
}
