//! The first act of every command that contacts the remote or begins a run: it publishes the records that an earlier
//! command of this clone could not, and follows the remote's records.

use std::collections::BTreeMap;

use super::approvals::site_signed_if_needed;
use super::{Checkout, Client, Failure};
use crate::design::NodeName;
use crate::diagnostic::chain;
use crate::record::{ExchangeOutcome, NodeRecord, Outcome, RunRecord, SiteState, State, Store};
use crate::repository::{self, CommitId};
use crate::run::{self, Arrears, CaughtUp, Connection, Outlook, OwedRuns, Process, SetAside};

/// Publishes what an earlier command of this clone could not, and follows the remote's records into ours, which are
/// returned.
///
/// # Errors
///
/// The remote cannot be asked, or the records cannot be read.
pub fn follow<'s>(
    client: &dyn Client,
    checkout: &'s Checkout<'s>,
    connection: &Connection<'s>,
) -> Result<Store<'s>, Failure> {
    let site = site_signed_if_needed(checkout, connection.clone())?;
    let store = site.store()?;
    let actor = client.actor(site.repository)?;
    let clock = client.clock();
    let process = Process::new(&site, &actor, &*clock);
    match &site.connection {
        Connection::Alone => {}
        Connection::Offline => {
            client.tell("warning: the remote was not asked (--offline): its records may be newer");
            if let Ok(Some(left)) = run::unpublished(process) {
                client.tell(&format!(
                    "warning: run {} has ended here ({}), and its end is not published",
                    left.run,
                    left.outcome.words()
                ));
            }
        }
        Connection::Shared { remote, .. } => {
            let is_told = match run::catch_up(process) {
                Ok(None) => false,
                Ok(Some(caught_up)) => {
                    tell_of_end(client, &caught_up);
                    false
                }
                Err(error @ run::Error::Unpublished { .. }) => {
                    client.tell(&format!("warning: {error}"));
                    true
                }
                Err(error) => return Err(error.into()),
            };
            let exchange = store.follow(remote)?;
            if let ExchangeOutcome::SetAside { run, kept } = exchange.standing {
                tell_of_set_aside(client, &SetAside { run, kept });
            }
            let owed = run::owed_runs(&store, &store.read()?, exchange.remote_tip)?;
            if let Some(owed) = owed.filter(|_| !is_told) {
                client.tell(&format!(
                    "warning: {}; the next `trueup apply` publishes them",
                    owed_words(&owed, remote.name())
                ));
            }
        }
    }
    let state = store.read()?;
    if let Some(warning) = lost(checkout, &store)? {
        client.tell(&warning);
    }
    for run in state.site.tags_owed {
        client.tell(&format!(
            "warning: the tag of run {run} is not published: the remote has not taken it; the next `trueup apply` retries"
        ));
    }
    Ok(store)
}

/// A warning if the tags of the site tell of site actions that no record does: without their records all machines are
/// strangers.
fn lost(checkout: &Checkout<'_>, store: &Store<'_>) -> Result<Option<String>, Failure> {
    if checkout.repository.read_ref(store.place().own())?.is_some() {
        return Ok(None);
    }
    let site = &checkout.location.site;
    let folder = format!("refs/tags/site-action-success/{site}");
    let newest = checkout.repository.refs(&folder)?.into_keys().next_back();
    Ok(newest.map(|tag| {
        format!(
            "warning: `{}` is here, and no record of its run: the records of site `{site}` (`{}`) are not in this \
             repository; get them from a clone that has them, or take the machines as they are with `--adopt`",
            tag.trim_start_matches("refs/tags/"),
            store.place().own()
        )
    }))
}

/// Brings records of nodes up to date with what a run that has not ended has done since its last checkpoint, and gives those that
/// its process may have made out of date beyond that; what cannot be read of it is a warning.
///
/// # Errors
///
/// The policy on signatures cannot be read.
pub(super) fn bring_up_to_date(
    client: &dyn Client,
    (checkout, connection): (&Checkout<'_>, &Connection<'_>),
    known: (&Store<'_>, &State),
    nodes: &mut BTreeMap<NodeName, NodeRecord>,
) -> Result<BTreeMap<NodeName, NodeRecord>, Failure> {
    let site = site_signed_if_needed(checkout, connection.clone())?;
    let now = client.clock().seconds();
    let possible = run::bring_up_to_date(&site, known, nodes, now);
    Ok(possible.unwrap_or_else(|error| {
        client.tell(&format!(
            "warning: what the run that has not ended did since its last checkpoint is not known: {}",
            chain(&error)
        ));
        BTreeMap::new()
    }))
}

/// Fetches more of a shallow history, until it reaches the last site action.
///
/// # Errors
///
/// The remote cannot be asked.
pub(super) fn deepen(
    connection: &Connection<'_>,
    state: &SiteState,
    target: CommitId,
) -> Result<(), Failure> {
    if let (Connection::Shared { remote, .. }, Some(action)) = (connection, &state.last_action)
        && let Ok(base) = action.revision.parse()
    {
        return match remote.fetch_commit(base) {
            // All of the history does not lead to it.
            Err(repository::Error::Gone { .. }) => Ok(remote.unshallow()?),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(remote.deepen(base, target)?),
        };
    }
    Ok(())
}

/// Ensures that no other run is in the way before anything is planned: the effects of a running or interrupted run
/// are not in the records yet, so that a plan would misread it. Gives a run whose end was published for that.
///
/// # Errors
///
/// Those of [`run::ensure_site_is_free`].
pub fn ensure_site_is_free(
    client: &dyn Client,
    process: Process<'_>,
) -> Result<Option<RunRecord>, run::Error> {
    let Outlook {
        ended,
        owed,
        refused,
        set_aside,
    } = run::ensure_site_is_free(process)?;
    if let Some(aside) = &set_aside {
        tell_of_set_aside(client, aside);
    }
    if let Some(caught_up) = &ended {
        tell_of_end(client, caught_up);
    }
    if let Some(owed) = &owed {
        client.tell(&published_words(owed));
    }
    for run in refused {
        client.tell(&format!(
            "warning: the remote has refused the tag of run {run} once more"
        ));
    }
    Ok(ended.map(|caught_up| caught_up.run))
}

/// Tells what was done that an earlier process had left undone.
fn tell_of_end(client: &dyn Client, caught_up: &CaughtUp) {
    let CaughtUp { run, what } = caught_up;
    let ended = match run.outcome {
        Outcome::Interrupted => "was interrupted",
        Outcome::Running
        | Outcome::Succeeded
        | Outcome::SucceededWithFailures
        | Outcome::Failed
        | Outcome::Abandoned => "had ended",
    };
    let undone = match what {
        Arrears::End => "that was not published",
        Arrears::Lock => "its lock was not released",
        Arrears::Tag => "its tag was missing",
    };
    client.tell(&format!(
        "Run {} {ended}, and {undone}: that is done now.",
        run.run
    ));
}

/// The words about runs of this clone that the remote lacked.
#[must_use]
pub fn published_words(owed: &OwedRuns) -> String {
    match owed.count {
        1 => format!(
            "Run {} had ended, and the remote did not have its records: it has them now.",
            owed.last
        ),
        count => format!(
            "{count} runs had ended, the last of them {}, and the remote did not have their records: it has them now.",
            owed.last
        ),
    }
}

/// The words about runs of this clone that the remote lacks.
#[must_use]
pub fn owed_words(owed: &OwedRuns, remote: &str) -> String {
    let runs = match owed.count {
        1 => format!("run {} has", owed.last),
        count => format!("{count} runs, the last of them {}, have", owed.last),
    };
    format!("{runs} ended in this clone, and remote `{remote}` does not have the records")
}

/// Reports records of this clone that the remote's have superseded.
fn tell_of_set_aside(client: &dyn Client, aside: &SetAside) {
    client.tell(&format!(
        "warning: run {} of this clone is not in the remote's records, which have newer runs: its records are kept as `{}` and count no more; plan again, which observes its machines",
        aside.run, aside.kept
    ));
}
