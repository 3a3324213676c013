//! `trueup status`: each node as the design, the records, its machine and the cluster see it, and what differs.
//!
//! The differences are the changes of a plan of this moment, so that status and plan never disagree.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::design::{MergeJoin, NodeName};
use crate::plan::{Change, ChangeKind, Request, UnfinishedRun};
use crate::record::{NodeRecord, Phase};
use crate::report::run::{StatusRow, differences};
use crate::report::{self, Visible};

use super::Failure;
use super::context::Context;
use super::interrupted;
use super::planning::{self, PlanArguments, RemoteArguments};
use super::revision::RevisionArguments;
use super::selection::SelectionArguments;
use crate::run::Connection;
use crate::workflow::{Approving, Checkout, PlanRequest, Planned, Planner, UnapprovedRun};

#[derive(Debug, Args)]
pub(super) struct StatusCommand {
    #[command(flatten)]
    selection: SelectionArguments,
    /// Only those that differ from the design
    #[arg(long)]
    differing: bool,
    #[command(flatten)]
    revision: RevisionArguments,
    /// Read the observed state from a file, or `none`: by records alone
    #[arg(long, value_name = "FILE|none")]
    observed: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = StatusFormat::Text)]
    format: StatusFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// A table.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn run(context: &mut Context, command: &StatusCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let (at, _) = planning::find_revision(context, &checkout, &command.remote, &command.revision)?;
    let connection = command.remote.connection(&repository)?;
    let plan_request = PlanRequest {
        observed: planning::observed(context, command.observed.as_ref()),
        accept: command.revision.read.accept(),
        without_forecast: true,
        by_checkpoints: false,
        only_looks: true,
        ..PlanArguments::default().plan_request(context)
    };
    let planner = Planner {
        client: &*context,
        checkout: &checkout,
        at,
        connection: &connection,
        request: &Request::default(),
        plan_request: &plan_request,
    };
    // Taking it apart piece by piece at the end would only cost time.
    let planned = ManuallyDrop::new(planner.plan()?);
    let (site, records) = (&planned.guarded, &planned.records);
    let today = &planned.plan.options.as_of;
    let selected = command.selection.select(site, records, today)?;
    let designed = selected.rows.iter().map(|row| (&row.design.name, true));
    let left = selected.left.into_iter().map(|name| (name, false));
    let mut names: Vec<(&NodeName, bool)> = designed.chain(left).collect();
    names.sort_unstable();
    let unfinished = interrupted::unfinished(&checkout, &connection)?;
    let mut rows = rows(&planned, names, unfinished.as_ref());
    if command.differing {
        rows.retain(|row| !row.designed || !row.differs.is_empty());
    }
    let unapproved = unapproved(context, &checkout, &connection, &planned)?;
    let (printer, unfinished) = (&context.printer, unfinished.as_ref());
    match command.format {
        StatusFormat::Text => printer.stream_text(|out| {
            report::run::status(out, &rows, unfinished, printer.out)?;
            report::plan::approvals(out, &planned.plan, printer.out)
        })?,
        StatusFormat::Json => {
            let approvals = &planned.plan.approvals;
            printer.stream(|out| report::run::status_json(out, &rows, approvals, unfinished))?
        }
    }
    for text in unapproved {
        context.printer.tell(&text);
    }
    interrupted::tell_unfinished(context, &checkout, &connection, unfinished)?;
    Ok(0)
}

/// The runs that began without approvals that they needed, and have none since.
fn unapproved(
    context: &Context,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    planned: &Planned,
) -> Result<Vec<String>, Failure> {
    if planned.state.break_glass.is_empty() {
        return Ok(Vec::new());
    }
    let approving = Approving {
        client: context,
        repository: checkout.repository,
        site: &checkout.location.site,
        connection,
    };
    let runs = planned.gate.unapproved_runs(approving)?;
    let texts = runs.iter().map(|UnapprovedRun { run, broken }| {
        let text = format!(
            "run {run} began without approvals (break-glass by {}: {}), and was not approved since; `trueup approve {run}` approves it",
            broken.by, broken.reason
        );
        format!("warning: {}", Visible(&text))
    });
    Ok(texts.collect())
}

/// One row for each node; whether it is designed stands beside its name.
fn rows<'p>(
    planned: &'p Planned,
    names: Vec<(&'p NodeName, bool)>,
    unfinished: Option<&UnfinishedRun>,
) -> Vec<StatusRow<'p>> {
    let changes: BTreeMap<&NodeName, &Change> = planned
        .plan
        .changes
        .iter()
        .filter(|change| change.kind != ChangeKind::None)
        .map(|change| (&change.node, change))
        .collect();
    let mut records = MergeJoin::of(&planned.records);
    let mut seen = planned
        .observations
        .as_ref()
        .map(|seen| MergeJoin::of(&seen.nodes));
    // What a plan would do about it waits for the end of that run.
    let begun = |record: &NodeRecord| {
        let run = unfinished.filter(|run| run.run == record.run)?;
        let is_open = record.phase == Phase::Unknown;
        let step = record.last_error.as_deref().filter(|_| is_open)?;
        Some(format!("{step} in run {}, which has not ended", run.run))
    };
    let owing: BTreeSet<&NodeName> = planned.plan.owing_soak().collect();
    let row = |(node, designed): (&'p NodeName, bool)| StatusRow {
        owes_soak: owing.contains(node),
        node,
        designed,
        reservation: planned.reservations.of(node.as_str()),
        record: records.get(node.as_str()),
        observed: seen
            .as_mut()
            .and_then(|seen| seen.get(node.as_str()))
            .map(|node| &**node),
        differs: match planned.records.get(node).and_then(begun) {
            Some(text) => vec![text.into()],
            None => changes
                .get(node)
                .map_or_else(Vec::new, |change| differences(change)),
        },
    };
    names.into_iter().map(row).collect()
}
