//! Saved plans: the file, or what the records of a run keep of it, and the commit whose documents it is for.

use std::collections::BTreeMap;
use std::path::Path;

use super::checking::checked_as_read;
use super::reservations::ReservationRef;
use super::{Checkout, Client, Failure, FailureKind, follow, in_history, recorded};
use crate::design::{NodeName, RunId};
use crate::observed;
use crate::plan::{self, Options, Plan, saved};
use crate::record::{NodeRecord, RunFile, State, Store};
use crate::repository::{CommitId, Links, read_file};
use crate::reservation::Reservations;
use crate::run::{Interrupted, SiteRepository};

/// How a site stands now that a saved plan is about.
pub struct SavedNow {
    /// The records of its nodes.
    pub records: BTreeMap<NodeName, NodeRecord>,
    /// The machines that persons work on.
    pub reservations: Reservations,
    /// The reasons against the plan by now, as far as they are known without observing the site.
    pub outdated: Vec<String>,
}

impl SavedNow {
    /// Reads what is known now.
    ///
    /// # Errors
    ///
    /// The plan is for another site, or records or reservations cannot be read.
    pub fn read(
        client: &dyn Client,
        checkout: &Checkout<'_>,
        site: &SiteRepository<'_>,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        is_for_site(plan, site)?;
        let store = follow(client, checkout, &site.connection)?;
        let state = store.read()?;
        let records = store.nodes(&state)?;
        let reservations = ReservationRef::of(site).holding_at(client.clock().seconds())?;
        let success = state.site.last_success.as_ref();
        let now = plan::Recorded {
            base_run: success.map(|action| &action.run),
            records: &records,
            reservations: &reservations,
        };
        let outdated = plan::outdated(plan, now);
        let outdated = outdated.iter().map(ToString::to_string).collect();
        Ok(Self {
            records,
            reservations,
            outdated,
        })
    }
}

/// Reads a saved plan; its path counts from a folder.
///
/// # Errors
///
/// The file cannot be read, or is no plan as this program writes it, or breaks a rule of the checker.
pub fn saved_plan(folder: &Path, given: &Path) -> Result<Plan, Failure> {
    Ok(saved_plan_with_file(folder, given)?.0)
}

/// A saved plan, with its file as it is.
///
/// # Errors
///
/// Those of [`saved_plan`].
pub fn saved_plan_with_file(folder: &Path, given: &Path) -> Result<(Plan, Vec<u8>), Failure> {
    let path = folder.join(given);
    let unreadable = |kind, error: &dyn std::fmt::Display| {
        Failure::new(
            kind,
            format!("the plan `{}` cannot be read: {error}", given.display()),
        )
    };
    let bytes = read_file(&path, observed::LARGEST, Links::Followed);
    let bytes = bytes.map_err(|error| {
        let failure = unreadable(FailureKind::Error, &error);
        match path.exists() {
            true => failure,
            false => failure.hint(
                "`trueup plan -o FILE` saves a plan; `--target NODE` names a node, as in `trueup apply --target NODE`",
            ),
        }
    })?;
    let mut plan = saved::read(&bytes).map_err(|error| {
        let failure = unreadable(kind_of(&error), &error);
        match error {
            saved::SavedError::Bundle => failure.hint(format!(
                "`trueup replay {}` makes its plan again, and shows it",
                given.display()
            )),
            saved::SavedError::NotJson { .. } | saved::SavedError::NotAPlan => failure.hint(
                "`trueup plan -o FILE` saves a plan; documents are no plan, and are applied as they are committed",
            ),
            _ => failure,
        }
    })?;
    checked_as_read(&mut plan)?;
    Ok((plan, bytes))
}

/// The plan of an interrupted run, as its records have it.
///
/// # Errors
///
/// It is no plan as this program writes it.
pub fn plan_of(interrupted: &Interrupted) -> Result<Plan, Failure> {
    let run = &interrupted.record.run;
    saved::read(&interrupted.plan.unpack("plan")?).map_err(|error| {
        let text = format!("the plan of run {run} is broken: {error}");
        Failure::new(kind_of(&error), text).hint(format!(
            "`trueup abort {run}` aborts it, and a new plan does the rest"
        ))
    })
}

/// The plan of a run that has begun, as the records have it.
///
/// # Errors
///
/// There is no such run, or its plan is none that this program writes, or breaks a rule.
pub fn plan_of_run(store: &Store<'_>, state: &State, run: &RunId) -> Result<Plan, Failure> {
    let bytes = store.run_file(state, run, RunFile::Plan)?;
    let bytes = bytes.ok_or_else(|| Failure::error(format!("run {run} has no plan")))?;
    let broken = |error| Failure::error(format!("the plan of run {run} is broken: {error}"));
    let mut plan = saved::read(&bytes).map_err(broken)?;
    checked_as_read(&mut plan)?;
    Ok(plan)
}

/// Refuses the plan of another site.
///
/// # Errors
///
/// It is one.
pub fn is_for_site(plan: &Plan, site: &SiteRepository<'_>) -> Result<(), Failure> {
    if plan.site == site.name {
        return Ok(());
    }
    let (planned, name) = (&plan.site, &site.name);
    let text = format!("the plan is for site `{planned}`, not for `{name}`");
    Err(Failure::new(FailureKind::Usage, text))
}

/// The commit whose documents a saved plan applies. A plan for the site is for whatever commit has its files, and that
/// is the one that is checked out; a plan for some nodes is for its own, which must be in that one's history.
///
/// # Errors
///
/// The plan is for another site or for a day that was named, or its commit is not in the history.
pub fn commit_of_saved(
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    plan: &Plan,
) -> Result<CommitId, Failure> {
    is_for_site(plan, site)?;
    not_of_a_day(&plan.options)?;
    let head = checkout.head()?;
    let revision = plan.target.revision.as_ref();
    let Some(revision) = revision.filter(|_| plan.request.action.is_targeted()) else {
        return Ok(head);
    };
    let commit = recorded(checkout, &site.connection, revision)?;
    in_history(checkout, &site.connection, commit)?;
    Ok(commit)
}

/// Refuses to apply what was judged by a day that `--as-of` named. What was saved on an earlier day may be applied: it is
/// made again, and judged by today.
///
/// # Errors
///
/// It was.
pub fn not_of_a_day(options: &Options) -> Result<(), Failure> {
    if !options.as_of_given {
        return Ok(());
    }
    let text = format!(
        "the plan is made with `--as-of {}`: it is only reviewed, and only what is judged by the day of the apply is applied",
        options.as_of
    );
    Err(Failure::new(FailureKind::Guard, text).hint("plan again without `--as-of`"))
}

/// The kind of failure of an apply for a plan that this program did not write.
fn kind_of(error: &saved::SavedError) -> FailureKind {
    use saved::SavedError as E;
    match error {
        E::Altered { .. } | E::AnotherEffect { .. } => FailureKind::Stale,
        _ => FailureKind::Error,
    }
}
