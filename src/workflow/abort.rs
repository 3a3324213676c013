//! Aborts an interrupted run.

use super::{AS_APPLIED, Error};
use crate::backend;
use crate::design::RunId;
use crate::run::{self, Aborted, Process, TakeOver, find_interrupted};
use crate::site::{At, Loader, locate};

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
    let site = process.site;
    let found = find_interrupted(site, Some(request.run))?;
    let at = At::Commit(found.commit);
    let name = Some(site.name.as_str());
    let location = locate(site.repository, at, request.folder, name)?;
    let loaded = Loader::new(site.repository).load(&location, at, AS_APPLIED)?;
    let take_over = TakeOver {
        dead: request.take_over_dead,
        longest_request: backend::longest_request(&loaded.design),
    };
    Ok(run::abort(process, request.run, take_over)?)
}
