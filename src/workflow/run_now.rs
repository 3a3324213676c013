//! How a run ended, or stands now, for those that read: its record and its report.

use super::{Failure, plan_of_run};
use crate::apply;
use crate::plan::UnfinishedRun;
use crate::record::{Outcome, RunRecord, State, Store};
use crate::run::{KnownSteps, RunReport, SiteRepository, known_steps, outcome_now, pods_left};

/// Returns the report of a run, and brings its record up to date: of one that has not ended, both are what is known of its
/// steps, by the journal of this clone and by what is published. `unfinished`: the run of its site that has not ended.
///
/// # Errors
///
/// The records cannot be read.
pub fn report_now(
    site: &SiteRepository<'_>,
    (store, state): (&Store<'_>, &State),
    record: &mut RunRecord,
    unfinished: Option<&UnfinishedRun>,
) -> Result<Option<RunReport>, Failure> {
    let recorded = RunReport::of(store, state, record)?;
    // The process that was interrupted has written it, and none has resumed the run since.
    let is_whole = record.outcome == Outcome::Interrupted
        && recorded
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Interrupted);
    if record.outcome.has_ended() {
        return Ok(recorded);
    }
    let steps = match is_whole {
        true => None,
        false => Some(known_steps(site, (store, state), record)),
    };
    record.outcome = outcome_now(record, unfinished);
    let Some(steps) = steps else {
        return Ok(recorded);
    };
    let steps = steps.map_err(Failure::from);
    match steps.and_then(|steps| summed_up((store, state), record, &steps)) {
        Ok(report) => {
            record.counts = report.counts;
            Ok(Some(report))
        }
        Err(failure) => {
            log::warn!("how far run {} is cannot be told: {failure}", record.run);
            Ok(None)
        }
    }
}

/// Brings the record of a run up to date, as [`report_now`] does.
///
/// # Errors
///
/// As [`report_now`].
pub fn record_now(
    site: &SiteRepository<'_>,
    known: (&Store<'_>, &State),
    record: &mut RunRecord,
    unfinished: Option<&UnfinishedRun>,
) -> Result<(), Failure> {
    match record.outcome.has_ended() {
        true => Ok(()),
        false => report_now(site, known, record, unfinished).map(drop),
    }
}

/// The report of a run that has not ended. Its ways out are told beside it.
fn summed_up(
    (store, state): (&Store<'_>, &State),
    record: &RunRecord,
    steps: &KnownSteps,
) -> Result<RunReport, Failure> {
    let plan = plan_of_run(store, state, &record.run)?;
    let finished = apply::sum_up(&plan, &steps.entries);
    let finished = finished.map_err(|error| Failure::error(error.to_string()))?;
    let report = RunReport::new(record, &plan, &finished, &pods_left(&steps.entries));
    let report = RunReport {
        next: Vec::new(),
        duration_ms: steps.elapsed_ms,
        ..report
    };
    Ok(match steps.may_be_begun {
        true => report.in_doubt(),
        false => report,
    })
}
