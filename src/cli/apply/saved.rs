//! A saved plan: read, made again, compared with the new one, and that one carried out.

use super::conclude::Ready;
use super::operator::CommandOperator;
use super::{ApplyCommand, nothing, start};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::plan::{Plan, PlanEffect};
use crate::report::Visible;
use crate::run;
use crate::site::At;
use crate::workflow::{Checkout, Consent, admitted, commit_of_saved, listed, saved_plan};

/// Makes a saved plan again, and carries the new one out where it does nothing that the saved one does not show.
///
/// The file is a request and an expectation: none of its steps is ever carried out.
pub(in crate::cli) fn apply_saved(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    path: &std::path::Path,
) -> Result<u8, Failure> {
    let reviewed = saved_plan(&context.directory().join(path))?;
    command.note(&reviewed);
    let commit = commit_of_saved(checkout, site, &reviewed)?;
    let consent = Consent {
        client: context,
        operator: &CommandOperator { context, command },
        checkout,
        site,
        again: &format!("trueup apply {}", path.display()),
        reviewed: &reviewed,
        at: At::Commit(commit),
    };
    let Some((planned, commit, clearance)) = consent.plan()? else {
        return Ok(0);
    };
    admitted(site, &planned, &planned.plan, commit)?;
    tell_left_out(context, &planned.plan, &reviewed);
    if planned.plan.is_empty() {
        return nothing(context, command, &planned.plan);
    }
    drop(reviewed);
    let ready = Ready {
        commit,
        equipped: &planned.equipped()?,
        clearance: &clearance,
    };
    start(context, command, site, &ready)
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
