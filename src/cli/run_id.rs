//! Runs by the beginning of their ids.

use super::{Failure, FailureKind};
use crate::design::{RunId, SiteName};
use crate::record::{State, Store};
use crate::run::{self, Connection, unfinished_run};
use crate::workflow::{Checkout, Client, follow};

/// Whether the id of a run begins so.
pub(super) fn begins(run: &RunId, beginning: &str) -> bool {
    let start = run.as_str().get(..beginning.len());
    !beginning.is_empty() && start.is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

/// Returns the only run whose id begins so; `None` if there is none.
///
/// # Errors
///
/// There are several.
fn by_beginning(
    runs: &[RunId],
    beginning: &str,
    site: &SiteName,
) -> Result<Option<RunId>, Failure> {
    if let Some(run) = runs.iter().find(|run| run.as_str() == beginning) {
        return Ok(Some(run.clone()));
    }
    let mut meant = runs.iter().filter(|run| begins(run, beginning));
    match (meant.next(), meant.next()) {
        (Some(_), Some(_)) => {
            let message = format!("several runs of site `{site}` begin with `{beginning}`");
            Err(Failure::new(FailureKind::Usage, message).hint("give more of the id"))
        }
        (found, _) => Ok(found.cloned()),
    }
}

/// Returns the run of the records that a word means: by the beginning of its id, or by the name that it began with among its
/// workers.
///
/// # Errors
///
/// There are several; the records cannot be read.
pub(super) fn by_word(
    store: &Store<'_>,
    state: &State,
    word: &str,
) -> Result<Option<RunId>, Failure> {
    match by_beginning(&store.runs(state)?, word, store.site())? {
        Some(run) => Ok(Some(run)),
        None => Ok(run::find_named(store, state, word)?.map(|record| record.run)),
    }
}

/// Returns the run that an operator means: one of the records, or that of the lock. A text that no id begins with stays
/// as it is.
///
/// # Errors
///
/// There are several; the records or the lock cannot be read.
pub(super) fn meant(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    text: &str,
) -> Result<RunId, Failure> {
    let here = checkout.site(connection.clone())?;
    let store = follow(client, checkout, connection)?;
    let found = match by_word(&store, &store.read()?, text)? {
        Some(run) => Some(run),
        None => unfinished_run(&here)?
            .map(|run| run.run)
            .filter(|run| begins(run, text)),
    };
    Ok(found.unwrap_or_else(|| RunId::from(text)))
}
