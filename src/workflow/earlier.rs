//! The revisions of earlier site actions, by the records.

use super::{Failure, FailureKind};
use crate::record::{Outcome, RunRecord, State, Store};

/// Runs that are read: what lies further back is not known by its number.
const MOST_RUNS: usize = 256;

/// The word of a site action whose revision is counted back from, and how far: `successful-site-action~1`.
pub(super) fn counted_back(word: &str) -> Option<(&str, &str)> {
    let (kind, number) = word.split_once('~')?;
    matches!(kind, "successful-site-action" | "last-site-action").then_some((kind, number))
}

/// The run of a word that counts back; `None`: it is no such word.
///
/// # Errors
///
/// It has no number, or the records do not have so many revisions.
pub(super) fn earlier<'r>(
    runs: &'r [RunRecord],
    word: &str,
) -> Result<Option<&'r RunRecord>, Failure> {
    let Some((kind, number)) = counted_back(word) else {
        return Ok(None);
    };
    let Ok(number) = number.parse::<usize>() else {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("`{word}` has no number behind `~`"),
        ));
    };
    let is_success = kind == "successful-site-action";
    let tagged = runs
        .iter()
        .rev()
        .filter(|run| run.tag.is_some() && (!is_success || is_successful(run)));
    let mut tagged: Vec<&RunRecord> = tagged.collect();
    tagged.dedup_by_key(|run| &run.revision);
    match tagged.get(number) {
        Some(run) => Ok(Some(run)),
        None => Err(Failure::new(
            FailureKind::NotFound,
            format!(
                "`{word}`: of such revisions the records have {}",
                tagged.len()
            ),
        )
        .hint("`trueup log` lists the runs")),
    }
}

/// Whether a run was a success of the whole site.
pub(super) fn is_successful(run: &RunRecord) -> bool {
    matches!(
        run.outcome,
        Outcome::Succeeded | Outcome::SucceededWithFailures
    ) && !run.partial
}

/// The newest runs, the oldest first.
///
/// # Errors
///
/// The records cannot be read.
pub(super) fn newest_runs(store: &Store<'_>, state: &State) -> Result<Vec<RunRecord>, Failure> {
    let mut ids = store.runs(state)?;
    ids.sort_unstable();
    let first = ids.len().saturating_sub(MOST_RUNS);
    let mut runs = Vec::with_capacity(ids.len() - first);
    for id in &ids[first..] {
        runs.extend(store.run(state, id)?);
    }
    Ok(runs)
}
