//! A saved plan: read, made again, compared with the new one, and that one carried out.

use super::operator::CommandOperator;
use super::{ApplyCommand, Task, nothing, start};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::observed;
use crate::plan::{Plan, PlanEffect, saved};
use crate::report::Visible;
use crate::repository::{CommitId, Links, read_file};
use crate::run;
use crate::site::At;
use crate::workflow::{self, Checkout, Consent, admitted, in_history, listed};

/// Makes a saved plan again, and carries the new one out where it does nothing that the saved one does not show.
///
/// The file is a request and an expectation: none of its steps is ever carried out.
pub(super) fn apply_saved(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    path: &std::path::Path,
) -> Result<u8, Failure> {
    let reviewed = read(context, path)?;
    command.note(&reviewed);
    if reviewed.site != site.name {
        let (planned, name) = (&reviewed.site, &site.name);
        let text = format!("the plan is for site `{planned}`, not for `{name}`");
        return Err(Failure::new(FailureKind::Usage, text));
    }
    not_before_its_day(context, &reviewed)?;
    let consent = Consent {
        client: context,
        operator: &CommandOperator { context, command },
        checkout,
        site,
        again: &format!("trueup apply {}", path.display()),
        reviewed: &reviewed,
        at: At::Commit(commit_of(checkout, site, &reviewed)?),
    };
    let Some((planned, commit)) = consent.plan()? else {
        return Ok(0);
    };
    admitted(site, &planned, &planned.plan, commit)?;
    tell_left_out(context, &planned.plan, &reviewed);
    if planned.plan.steps.is_empty() {
        return nothing(context, command, &planned.plan);
    }
    drop(reviewed);
    let (plan, design, equipped) = planned.equipped()?;
    let task = Task {
        plan: &plan,
        design: &design,
        equipped: &equipped,
    };
    start(context, command, site, commit, &task)
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

/// Reads a saved plan.
fn read(context: &Context, path: &std::path::Path) -> Result<Plan, Failure> {
    let path = context.directory().join(path);
    let unreadable = |kind, error: &dyn std::fmt::Display| {
        Failure::new(
            kind,
            format!("the plan `{}` cannot be applied: {error}", path.display()),
        )
    };
    let bytes = read_file(&path, observed::LARGEST, Links::Followed);
    let bytes = bytes.map_err(|error| unreadable(FailureKind::Error, &error))?;
    saved::read(&bytes).map_err(|error| unreadable(kind_of(&error), &error))
}

/// A plan that was made for a day to come is not applied before that day.
pub(super) fn not_before_its_day(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let (day, today) = (&plan.options.as_of, context.today());
    if **day <= *today {
        return Ok(());
    }
    let text = format!("the plan is made as of {day}, and today is {today}");
    Err(Failure::new(FailureKind::Guard, text).hint("plan again without `--as-of`"))
}

/// The commit whose documents are applied. A plan for the site is for whatever commit has its files, and that is the
/// one that is checked out; a plan for some nodes is for its own, which must be in that one's history.
fn commit_of(
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    plan: &Plan,
) -> Result<CommitId, Failure> {
    let head = checkout.head()?;
    let revision = plan.target.revision.as_ref();
    let Some(revision) = revision.filter(|_| plan.request.action.is_targeted()) else {
        return Ok(head);
    };
    let commit = workflow::recorded(checkout, &site.connection, revision)?;
    in_history(checkout, commit)?;
    Ok(commit)
}

/// What it means for an apply that a plan is not as this program writes it.
pub(super) fn kind_of(error: &saved::SavedError) -> FailureKind {
    use saved::SavedError as E;
    match error {
        E::Altered { .. } | E::AnotherEffect { .. } | E::Contradiction(_) => FailureKind::Stale,
        _ => FailureKind::Error,
    }
}
