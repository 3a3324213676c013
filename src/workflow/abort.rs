//! Aborts an interrupted run.

use std::sync::Arc;

use super::{AS_APPLIED, Error};
use crate::backend;
use crate::design::{Guards, RunId};
use crate::run::{self, Aborted, Interrupted, Process, TakeOver, find_interrupted};
use crate::site::{At, Loader, locate_at};

/// An interrupted run that is to be aborted.
#[derive(Clone, Copy, Debug)]
pub struct AbortRequest<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The folder of the site's definition.
    pub folder: &'a str,
    /// Take its lock where it is of another machine and has not moved for ten minutes.
    pub take_over_dead: bool,
}

/// Aborts an interrupted run; what its last request may still bring about is waited out.
///
/// # Errors
///
/// Those of [`find_interrupted`] and [`run::abort`]; the documents of its commit cannot be loaded.
pub fn abort(process: Process<'_>, request: AbortRequest<'_>) -> Result<Aborted, Error> {
    let found = find_interrupted(process.site, Some(request.run))?;
    let guards = guards_of(process, &found, request.folder)?;
    let take_over = TakeOver {
        dead: request.take_over_dead,
        longest_request: backend::longest_request(&guards),
    };
    Ok(run::abort(process, request.run, take_over)?)
}

/// The guards that the documents of the commit of a run say.
pub(super) fn guards_of(
    process: Process<'_>,
    found: &Interrupted,
    folder: &str,
) -> Result<Arc<Guards>, Error> {
    let site = process.site;
    let at = At::Commit(found.commit);
    let location = locate_at(site.repository, at, folder, &site.name)?;
    Ok(Loader::new(site.repository)
        .load(&location, at, AS_APPLIED)?
        .documented_guards)
}
