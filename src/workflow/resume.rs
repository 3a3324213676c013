//! Resumes an interrupted run, and carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::carry_out::{Caller, Carried, Execution, carry_out};
use super::equip::ensure_commit_is_here;
use super::{Checkout, Error, Failure};
use crate::backend;
use crate::journal::Decision;
use crate::run::{self, Connection, Interrupted, Process, Resumption, TakeOver};
use crate::site::At;

/// An interrupted run that is to be resumed.
pub struct ResumeRequest<'a> {
    /// The run.
    pub interrupted: &'a Interrupted,
    /// Its plan, read, and what it is carried out with.
    pub execution: Execution<'a>,
    /// By step id, what an operator found out about steps that cannot be told from outside.
    pub decisions: BTreeMap<Arc<str>, Decision>,
    /// Take the lock of a run elsewhere that has not moved for ten minutes.
    pub take_over_dead: bool,
}

/// Resumes an interrupted run and carries it out.
///
/// # Errors
///
/// [`Error::WindowClosed`]; those of [`run::resume`]; [`Error::Steps`]; those of the end of the run.
pub fn resume<'a>(
    process: Process<'a>,
    request: &ResumeRequest<'a>,
    caller: Caller<'_>,
) -> Result<Carried<'a>, Error> {
    let execution = &request.execution;
    execution.time_left(process.time)?;
    let how = Resumption {
        decisions: request.decisions.clone(),
        take_over: TakeOver {
            dead: request.take_over_dead,
            longest_request: backend::longest_request(execution.guarded.guards()),
        },
    };
    let nodes = &execution.guarded.nodes;
    let begun = run::resume(process, request.interrupted, execution.plan, nodes, how)?;
    carry_out(process, begun, execution, caller, true)
}

/// Tells people that `HEAD` has other files of the site than an interrupted run carries out.
///
/// # Errors
///
/// A commit cannot be read.
pub fn left_by_head(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    interrupted: &Interrupted,
) -> Result<Option<String>, Failure> {
    let Some(head) = checkout.head_if_any()? else {
        return Ok(None);
    };
    let digest = |commit| -> Result<_, Failure> {
        let location = checkout.location_at(At::Commit(commit))?;
        Ok(checkout.repository.digest_at(commit, &location.selection)?)
    };
    let begun = interrupted.commit;
    ensure_commit_is_here(checkout, connection, begun)?;
    let is_same = head == begun || digest(head)? == digest(begun)?;
    let (run, begun, head) = (&interrupted.record.run, begun.short(), head.short());
    Ok((!is_same).then(|| {
        format!(
            "the files of the site at HEAD ({head}) differ from those of {begun}, which the run carries out; \
             `trueup abort {run}` ends it without the steps that are left"
        )
    }))
}
