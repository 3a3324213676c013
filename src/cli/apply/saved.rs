//! A saved plan: read, made again, compared with the new one, and that one carried out.

use std::path::Path;

use super::conclude::Ready;
use super::operator::CommandOperator;
use super::{ApplyCommand, nothing, start};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::plan::{Plan, PlanEffect};
use crate::report::Visible;
use crate::repository::CommitId;
use crate::run;
use crate::site::At;
use crate::workflow::{
    Checkout, Clearance, Consent, Origin, Planned, commit_of_saved, ensure_admitted, listed,
    saved_plan,
};

/// Makes a saved plan again, and carries the new one out if it does nothing that the saved one does not show.
///
/// The file is a request and an expectation: none of its steps is ever carried out.
pub(in crate::cli) fn apply_saved(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    path: &Path,
) -> Result<u8, Failure> {
    let reviewed = saved_plan(context.directory(), path)?;
    command.note(&reviewed);
    command.arguments.shape_nothing_of(&reviewed.options)?;
    let operator = CommandOperator {
        context,
        command,
        is_rehearsed: false,
    };
    let Some((planned, commit, clearance)) = consented(&operator, checkout, site, path, &reviewed)?
    else {
        return Ok(0);
    };
    tell_left_out(context, &planned.plan, &reviewed);
    if planned.plan.is_empty() {
        return nothing(context, command, site, &planned.plan);
    }
    drop(reviewed);
    let ready = Ready {
        commit,
        equipped: &planned.equipped()?,
        clearance: &clearance,
    };
    start(context, command, site, &ready)
}

/// Finds out whether a saved plan would be refused.
///
/// # Errors
///
/// It would.
pub(super) fn would_begin(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    path: &Path,
) -> Result<(), Failure> {
    let reviewed = saved_plan(context.directory(), path)?;
    command.arguments.shape_nothing_of(&reviewed.options)?;
    let operator = CommandOperator {
        context,
        command,
        is_rehearsed: true,
    };
    consented(&operator, checkout, site, path, &reviewed).map(drop)
}

/// The plan of a saved request today, if it does nothing that the saved one does not show, and its operator consents.
fn consented(
    operator: &CommandOperator<'_>,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    path: &Path,
    reviewed: &Plan,
) -> Result<Option<(Planned, CommitId, Clearance)>, Failure> {
    let commit = commit_of_saved(checkout, site, reviewed)?;
    let file = path.display();
    let (again, repeats_flags) = match &operator.command.workers {
        Some(workers) => (
            format!("trueup run begin {file} --run {}", workers.name),
            false,
        ),
        None => (format!("trueup apply {file}"), true),
    };
    let consent = Consent {
        client: operator.context,
        operator,
        checkout,
        site,
        again: &again,
        repeats_flags,
        reviewed,
        at: At::Commit(commit),
        has_begun: false,
    };
    let consented = consent.plan()?;
    if let Some((planned, commit, _)) = &consented {
        ensure_admitted(site, planned, &planned.plan, *commit, Origin::SavedPlan)?;
    }
    Ok(consented)
}

/// Tells what the plan that was reviewed shows and a plan made now does not do.
fn tell_left_out(context: &Context, plan: &Plan, reviewed: &Plan) {
    let left_out = PlanEffect::of(plan).leaves_out(&PlanEffect::of(reviewed));
    if left_out.is_empty() {
        return;
    }
    let mut text =
        "Less is done than the plan shows, since the site or its machines have changed:".to_owned();
    for line in listed(&left_out) {
        text.push_str("\n  ");
        text.push_str(&Visible(&line).to_string());
    }
    context.printer.tell(&text);
}
