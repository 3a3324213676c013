//! Whether a run that another clone began may be resumed here.
//!
//! Its plan comes from a ref that everybody with push rights can write, and is held to the plan that this clone makes
//! now of the same request: of the run's documents, the records, and what is observed. The run is half done, so that
//! some of its steps are not in the new plan any more. Those are never begun here: where an earlier process began them,
//! their end is found out, and otherwise they fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::consent::{Consent, is_pinned};
use super::saved::{in_history, listed};
use crate::apply::session::{Interrupted, unfinished_run};
use crate::cli::planning::Planned;
use crate::cli::{Failure, FailureKind};
use crate::design::{NodeName, RunId};
use crate::plan::{Change, Plan, PlanEffect, Reliance, RunState};
use crate::report;
use crate::step::{Effect, StepIndex, StepKind};

/// Why a step is not begun.
const NOT_COVERED: &str =
    "the run was begun in another clone, and a plan made now does not have this step";

/// What a resume of a run from another clone is held to.
#[derive(Default)]
pub(super) struct Rechecked {
    /// Facts that steps rely on, beside those of the run's plan.
    pub(super) relies_on: Vec<Reliance>,
    /// Steps that are not begun, by their positions, and why.
    pub(super) refused: BTreeMap<usize, Arc<str>>,
}

/// Makes the plan of a run again and compares; `consent.reviewed` is the run's plan.
///
/// # Errors
///
/// The run goes on; its documents are not in the history of this clone; its allowances were not given; it destroys what
/// a plan made now would not touch.
pub(super) fn recheck(
    consent: &Consent<'_>,
    interrupted: &Interrupted,
) -> Result<Rechecked, Failure> {
    let run = &interrupted.record.run;
    is_not_running(consent)?;
    in_history(consent.checkout, interrupted.commit)?;
    let is_pinned = is_pinned(consent.command, consent.reviewed)?;
    let planned = match consent.make(is_pinned) {
        Ok(planned) => planned,
        // A node that it names is gone, and no plan for it can be made any more.
        Err(failure) if matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage) => {
            return Ok(nothing_covered(consent.reviewed));
        }
        Err(failure) => return Err(failure),
    };
    let planned = match is_pinned {
        true => planned,
        false => {
            let (planned, missing) = consent.agreed(planned)?;
            if let Some(missing) = missing {
                consent.ask(consent.reviewed, &missing)?;
            }
            planned
        }
    };
    covered(consent.reviewed, &planned, run)
}

/// A run whose process may be at work is somebody else's.
fn is_not_running(consent: &Consent<'_>) -> Result<(), Failure> {
    let unfinished =
        unfinished_run(consent.site).map_err(|error| super::session_failure(&error))?;
    match unfinished {
        Some(run) if run.state == RunState::Running && !consent.command.take_over_dead => {
            let way_out = format!(
                "where its process is dead, `--take-over-dead` takes its lock, and `trueup unlock {}` releases it",
                run.run
            );
            Err(Failure::new(FailureKind::Locked, report::unfinished(&run)).hint(way_out))
        }
        _ => Ok(()),
    }
}

/// Every step may only be found out about.
fn nothing_covered(plan: &Plan) -> Rechecked {
    let touching = plan.steps.iter().enumerate();
    let touching = touching.filter(|(_, step)| step.effect != Effect::None);
    Rechecked {
        refused: touching
            .map(|(position, _)| (position, Arc::from(NOT_COVERED)))
            .collect(),
        ..Rechecked::default()
    }
}

fn covered(plan: &Plan, planned: &Planned, run: &RunId) -> Result<Rechecked, Failure> {
    let now = PlanEffect::of(&planned.plan);
    let changes: FxHashMap<&NodeName, &Change> = planned
        .plan
        .changes
        .iter()
        .map(|change| (&change.node, change))
        .collect();
    let (mut refusals, mut adds) = (Vec::new(), FxHashMap::default());
    for difference in PlanEffect::of(plan).adds_to(&now) {
        match &difference.node {
            Some(node) => adds
                .entry(node.clone())
                .or_insert_with(Vec::new)
                .push(difference),
            None if difference.is_step => {}
            None => refusals.push(difference),
        }
    }
    let mut refused = BTreeMap::new();
    let mut is_harmful = FxHashMap::default();
    for (position, step) in plan.steps.iter().enumerate() {
        let Some(node) = step
            .id
            .node
            .as_ref()
            .filter(|node| adds.contains_key(*node))
        else {
            continue;
        };
        let harms = step.id.kind.facts().effect == Effect::Destructive
            || matches!(step.id.kind, StepKind::Adopt | StepKind::Forget);
        *is_harmful.entry(node).or_insert(false) |= harms;
        refused.insert(position, Arc::from(NOT_COVERED));
    }
    for (node, differences) in &mut adds {
        let record = planned.records.get(node);
        let is_of_run = record.is_some_and(|record| record.run == *run);
        // A machine in the middle of something is held, and one that ended it is there without a record.
        let is_held = changes.get(node).is_some_and(|change| {
            change.shown_only
                || change
                    .blocked
                    .as_ref()
                    .is_some_and(|block| block.flag.is_none())
        });
        let is_done = changes.get(node).is_some_and(|change| is_there(change));
        if is_harmful.get(node) == Some(&true) && !is_of_run && !is_held && !is_done {
            refusals.append(differences);
        }
    }
    if !refusals.is_empty() {
        refusals.sort_unstable();
        let text = format!("a plan made now does not hold what run {run} would do:");
        return Err(
            Failure::new(FailureKind::Stale, listed(&text, &refusals)).hint(format!(
                "`trueup abort {run}` aborts it, and a new plan does what is left"
            )),
        );
    }
    Ok(Rechecked {
        relies_on: relied_on(plan, &planned.plan),
        refused,
    })
}

/// Whether a machine is deployed, or could not be observed.
fn is_there(change: &Change) -> bool {
    use crate::plan::ChangeKind as K;
    matches!(change.kind, K::Adopt | K::Unknown)
}

/// What the steps of a plan made now rely on, for the same steps of the run's plan.
fn relied_on(plan: &Plan, now: &Plan) -> Vec<Reliance> {
    let mut positions: FxHashMap<(StepKind, &NodeName), Vec<StepIndex>> = FxHashMap::default();
    for (position, step) in plan.steps.iter().enumerate() {
        if let Some(node) = &step.id.node {
            let of_kind = positions.entry((step.id.kind, node)).or_default();
            of_kind.push(StepIndex::from_position(position));
        }
    }
    let same = |index: &StepIndex| {
        let id = &now.steps[index.0 as usize].id;
        let found = positions.get(&(id.kind, id.node.as_ref()?))?;
        Some(found.iter().copied())
    };
    let reliances = now.relies_on.iter().filter_map(|reliance| {
        let steps: Vec<StepIndex> = reliance.steps.iter().filter_map(same).flatten().collect();
        (!steps.is_empty()).then(|| Reliance {
            steps: steps.into(),
            ..reliance.clone()
        })
    });
    reliances.collect()
}

/// Adds what a run is held to to its plan.
pub(super) fn hold(plan: &mut Plan, rechecked: &mut Rechecked) {
    plan.relies_on.append(&mut rechecked.relies_on);
    plan.relies_on.sort_unstable();
    plan.relies_on.dedup();
}
