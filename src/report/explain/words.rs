//! The words of explanations, as text and pages have them.

use crate::plan::{CausesNeeded, ExplanationBasis, StepExplanation, StepStanding};
use crate::report::Role;

/// Causes that are listed for one step.
pub(in crate::report) const MOST_CAUSES: usize = 8;

/// How a step stands.
pub(in crate::report) fn standing(standing: StepStanding) -> (&'static str, Role) {
    match standing {
        StepStanding::Planned => ("planned", Role::Faint),
        StepStanding::Waiting => ("waits", Role::Warning),
        StepStanding::Ready => ("begins next", Role::Strong),
        StepStanding::Begun => ("has begun", Role::Strong),
        StepStanding::Succeeded => ("succeeded", Role::Success),
        StepStanding::NotNeeded => ("not needed: another group has sent its node", Role::Faint),
        StepStanding::Failed => ("failed", Role::Error),
        StepStanding::Unknown => ("not answered", Role::Error),
        StepStanding::Skipped => ("skipped", Role::Warning),
        StepStanding::NotReached => ("not reached before the run ended", Role::Faint),
    }
}

/// The words before the causes of a step.
pub(in crate::report) fn intro(step: &StepExplanation) -> &'static str {
    let (count, is_decision) = (step.causes.len(), step.step.node.is_none());
    match (step.standing, step.needed) {
        (StepStanding::Failed | StepStanding::Skipped, _) => match (count, is_decision) {
            (1, true) => "it would have succeeded without this failure:",
            (1, false) => "it would have run without this failure:",
            (_, true) => "it would have succeeded without these failures, all of them:",
            (_, false) => "it would have run without these failures, all of them:",
        },
        (_, CausesNeeded::AnyOne) => "until any one of these ends:",
        (_, CausesNeeded::All) if count > 1 => "until these have ended, all of them:",
        (_, CausesNeeded::All) => "until this has ended:",
    }
}

/// The command that explains one step on the basis of an explanation.
pub(in crate::report) fn explain_step(basis: &ExplanationBasis) -> String {
    match basis {
        ExplanationBasis::Plan => "trueup explain STEP".to_owned(),
        ExplanationBasis::ServicePlan { path } => format!("GET {path}/explanation?of=STEP"),
        ExplanationBasis::File { path } => format!("trueup explain STEP {path}"),
        ExplanationBasis::Run { run, .. } => format!("trueup explain STEP {run}"),
    }
}
