//! The plan as a page that is read in a browser, without trueup and without a network.
//!
//! The page is written as it is gone through. First come the verdict and everything destructive, in full; then what is
//! blocked, warnings and the flags in force; then the graph, the time axis, the machines and the other changes. Changes
//! that are alike are written once with the names of their machines. All of it is read without the script, which only adds
//! search, filters, zoom and a view of one machine out of the table in `data`.

mod chart;
mod classes;
mod critical;
mod data;
mod head;
mod layout;
mod machines;
mod model;
#[cfg(test)]
mod tests;
mod timeline;
mod why;

use std::fmt::{self, Write};

use crate::plan::{Explanation, Plan};
use crate::record::{RunRecord, RunSignature};
use crate::report::html;
use crate::run::RunReport;
use model::Model;

/// A run of a plan, as its page shows it.
#[derive(Clone, Copy, Debug)]
pub struct RunPage<'a> {
    /// Its record.
    pub record: &'a RunRecord,
    /// How its signature was found, if that was looked for.
    pub signature: Option<&'a RunSignature>,
    /// Its report, if it has one.
    pub report: Option<&'a RunReport>,
    /// The ways out that it has now, if it was interrupted.
    pub ways_out: &'a [String],
    /// Why it is as it is, with the smallest causes of what failed, waits or was skipped.
    pub explanation: Option<&'a Explanation>,
}

/// Writes the page of a plan, or of a run of it.
///
/// # Errors
///
/// Only if `out` fails.
pub fn html(out: &mut dyn Write, plan: &Plan, run: Option<RunPage<'_>>) -> fmt::Result {
    let model = Model::new(plan, run);
    let site = plan.site.as_str();
    let title = match run {
        Some(run) => format!("Run {} of site {site}", run.record.run),
        None => format!("Plan for site {site}: {}", plan.request.action),
    };
    html::page(out, html::OFFLINE, &title, |out| {
        head::write(out, &model)?;
        if let Some(explanation) = run.and_then(|run| run.explanation) {
            why::write(out, explanation)?;
        }
        classes::destructive(out, &model)?;
        head::cautions(out, &model)?;
        chart::write(out, &model)?;
        timeline::write(out, &model)?;
        machines::write(out, &model)?;
        classes::others(out, &model)?;
        head::foot(out, &model)?;
        data::write(out, &model)
    })
}
