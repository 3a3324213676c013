//! Resumes an interrupted run, and carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::carry_out::{Caller, Carried, Execution, carry_out};
use crate::backend;
use crate::journal::Decision;
use crate::run::{self, Interrupted, Process, Resumption, TakeOver};

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
