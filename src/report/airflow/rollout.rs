//! The DAG that brings a revision through the sites of a rollout.

use std::fmt::{self, Write};

use super::python::text;
use super::{argument, assemble};

/// The program.
const PROGRAM: &str = include_str!("rollout.py");

/// The rollout, and when and where it is continued.
#[derive(Clone, Debug)]
pub struct RolloutOptions {
    /// Its name.
    pub name: String,
    /// When a run begins; `None`: when it is triggered.
    pub schedule: Option<String>,
    /// The pool of the task that continues it.
    pub pool: Option<String>,
    /// The queue of its tasks.
    pub queue: Option<String>,
}

/// Writes the DAG of a rollout.
///
/// # Errors
///
/// Those of `out`.
pub fn rollout_dag(out: &mut dyn Write, options: &RolloutOptions) -> fmt::Result {
    let name = &options.name;
    let schedule = options.schedule.as_deref().map(text);
    assemble(out, PROGRAM, &mut |out| {
        writeln!(out, "DAG_ID = {}", text(&format!("trueup.rollout.{name}")))?;
        writeln!(out, "ROLLOUT = {}", text(name))?;
        writeln!(out, "DESCRIPTION = {}", text(&format!("Rollout {name}")))?;
        writeln!(out, "SCHEDULE = {}", schedule.as_deref().unwrap_or("None"))?;
        writeln!(out, "POOL = {}", argument("pool", &options.pool))?;
        writeln!(out, "QUEUE = {}", argument("queue", &options.queue))
    })
}
