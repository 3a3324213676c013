//! The DAG that plans all sites of a repository on a schedule.

use std::fmt::{self, Write};

use super::python::text;
use super::{argument, assemble};

/// The program.
const PROGRAM: &str = include_str!("sites.py");

/// When, where and in how many tasks all sites are planned.
#[derive(Clone, Debug)]
pub struct SitesOptions {
    /// A cron expression or a word of Airflow.
    pub schedule: String,
    /// The most tasks that plan.
    pub shares: usize,
    /// How many tasks run at the same time.
    pub workers: usize,
    /// The pool of the tasks that plan.
    pub pool: Option<String>,
    /// The queue of all tasks.
    pub queue: Option<String>,
}

/// Writes the DAG of all sites; it names none of them.
///
/// # Errors
///
/// Those of `out`.
pub fn sites_dag(out: &mut dyn Write, options: &SitesOptions) -> fmt::Result {
    assemble(out, PROGRAM, &mut |out| {
        writeln!(out, "DAG_ID = {}", text("trueup.sites"))?;
        writeln!(out, "SCHEDULE = {}", text(&options.schedule))?;
        writeln!(out, "MOST_SHARES = {}", options.shares.max(1))?;
        writeln!(out, "WORKERS = {}", options.workers.max(1))?;
        writeln!(out, "POOL = {}", argument("pool", &options.pool))?;
        writeln!(out, "QUEUE = {}", argument("queue", &options.queue))
    })
}
