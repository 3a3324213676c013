//! Runs by the beginning of their ids.

use super::{Failure, FailureKind};
use crate::design::{RunId, SiteName};
use crate::run::{Connection, unfinished_run};
use crate::workflow::{Checkout, Client, follow};

/// Returns the only run whose id begins so; `None` if there is none.
///
/// # Errors
///
/// There are several.
pub(super) fn by_beginning(
    runs: &[RunId],
    beginning: &str,
    site: &SiteName,
) -> Result<Option<RunId>, Failure> {
    let upper = beginning.to_ascii_uppercase();
    let begins = |run: &&RunId| {
        let id = run.as_str();
        id.starts_with(beginning) || id.starts_with(&upper)
    };
    if let Some(run) = runs.iter().find(|run| run.as_str() == beginning) {
        return Ok(Some(run.clone()));
    }
    let mut meant = runs.iter().filter(begins);
    match (meant.next(), meant.next()) {
        (Some(_), Some(_)) => {
            let message = format!("several runs of site `{site}` begin with `{beginning}`");
            Err(Failure::new(FailureKind::Usage, message).hint("give more of the id"))
        }
        (found, _) => Ok(found.cloned()),
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
    let site = &checkout.location.site;
    let here = checkout.site(connection.clone())?;
    let store = follow(client, checkout, connection)?;
    let mut runs = store.runs(&store.read()?)?;
    let unfinished = unfinished_run(&here)?;
    runs.extend(unfinished.map(|run| run.run));
    runs.sort_unstable();
    runs.dedup();
    let found = by_beginning(&runs, text, site)?;
    Ok(found.unwrap_or_else(|| RunId::from(text)))
}
