//! Checks of the records at the remote, and of what a run pushes to it.

use super::checks::Checks;
use crate::cli::Failure;
use crate::cli::apply::actor;
use crate::cli::context::Context;
use crate::cli::planning::RemoteArguments;
use crate::plan::{RunState, UnfinishedRun};
use crate::run::{self, Connection, Trial, TrialPush, WaysOut};
use crate::workflow::{Checkout, owed_words};

/// Checks that the records are at the remote where this clone looks for them, and that it has those of this clone; whether
/// this clone has those of the remote. `None`: it does not answer.
pub(super) fn records(
    remote: &RemoteArguments,
    checkout: &Checkout<'_>,
    checks: &mut Checks,
) -> Option<bool> {
    // A remote that is missing or does not answer is reported by its own check.
    let Ok(connection @ Connection::Shared { .. }) = remote.connection(checkout.repository) else {
        return None;
    };
    let asked = || -> Result<(String, Option<String>, bool), Failure> {
        let site = checkout.site(connection)?;
        let store = site.store()?;
        let Connection::Shared { remote, .. } = &site.connection else {
            return Ok((String::new(), None, true));
        };
        let found = store.ask(remote)?;
        let name = store.place().at_remote();
        let place = match found {
            Some(_) => format!("at `{name}` of the remote"),
            None => format!("none yet; they come to `{name}`"),
        };
        // What the remote has beyond this clone is not fetched by a check.
        let is_known = match found {
            Some(tip) => checkout.repository.has(tip.0)?,
            None => true,
        };
        let owed = match is_known {
            true => run::owed_runs(&store, &store.read()?, found)?,
            false => None,
        };
        let owed = owed.map(|owed| {
            let owed = owed_words(&owed, remote.name());
            format!("{owed}, which come to `{name}`")
        });
        Ok((place, owed, is_known))
    };
    let asked = asked();
    let is_known = asked.as_ref().ok().map(|(.., is_known)| *is_known);
    match asked {
        Ok((place, None, _)) => checks.ok("records", place),
        Ok((_, Some(owed), _)) => checks.warn(
            "records",
            owed,
            "`trueup apply` publishes them before all else, also where it has nothing to do",
        ),
        Err(failure) => checks.failure("records", &failure, "`trueup log` shows the last runs"),
    }
    is_known
}

/// Checks that the lock, and the parts of a run that is divided, can be read, and tells of a run that has not ended.
pub(super) fn lock(
    remote: &RemoteArguments,
    checkout: &Checkout<'_>,
    has_records: bool,
    checks: &mut Checks,
) {
    let asked = || -> Result<Option<UnfinishedRun>, Failure> {
        let site = checkout.site(remote.connection(checkout.repository)?)?;
        let found = run::unfinished_run(&site)?;
        if let Some(unfinished) = &found {
            WaysOut::of_unfinished(&site, &unfinished.run, Some(unfinished))?;
        }
        Ok(found)
    };
    match asked() {
        Ok(None) if !has_records => checks.skip(
            "lock",
            "whether a run was interrupted is in records that this clone does not have yet: `trueup log` fetches them",
        ),
        Ok(None) => checks.ok("lock", "no run of the site has begun that has not ended"),
        Ok(Some(unfinished)) if unfinished.state == RunState::Running => {
            checks.ok("lock", format!("run {} is at work", unfinished.run));
        }
        Ok(Some(unfinished)) => checks.warn(
            "lock",
            format!("run {} {}", unfinished.run, unfinished.state.words()),
            "`trueup status` names its ways out",
        ),
        Err(failure) => checks.failure("lock", &failure, "`trueup status` reads it, too"),
    }
}

/// Tries what a run pushes: a remote may take records, and refuse a tag or the release of the lock.
pub(super) fn trial(
    context: &Context,
    remote: &RemoteArguments,
    checkout: &Checkout<'_>,
    checks: &mut Checks,
) {
    let Ok(connection @ Connection::Shared { .. }) = remote.connection(checkout.repository) else {
        return;
    };
    if matches!(connection, Connection::Shared { publish: false, .. }) {
        return checks.skip("push", "not tried, with `--no-push`");
    }
    let tried = || -> Result<Option<Trial>, Failure> {
        let site = checkout.site(connection)?;
        let actor = actor(checkout.repository)?;
        Ok(run::try_pushes(&site, actor.at(context.now().as_second()))?)
    };
    let trial = match tried() {
        Ok(trial) => trial.unwrap_or_default(),
        Err(failure) => {
            let next = "check its URL, the network and the credentials with `git ls-remote`";
            return checks.failure("push", &failure, next);
        }
    };
    let kept = trial.left.iter();
    let kept: String = kept
        .map(|name| format!("; `{name}` of the trial stays there"))
        .collect();
    if trial.refused.is_empty() {
        checks.ok(
            "push",
            format!(
                "a trial lock, trial records and a trial tag are taken, and deleted again{kept}"
            ),
        );
    }
    for (push, error) in &trial.refused {
        let failure = Failure::from(error);
        let next = match failure.hints.is_empty() {
            true => "let its rules take what an apply pushes: refs below `refs/trueup/`, their deletion, and tags below `site-action-…`".to_owned(),
            false => failure.hints.join("; "),
        };
        let refuses = |what: &str| format!("the remote refuses {what}: {}{kept}", failure.message);
        match push {
            TrialPush::Lock => {
                checks.fail(
                    "push",
                    refuses("a lock, so that nothing can be applied"),
                    next,
                );
            }
            TrialPush::Records => {
                checks.fail(
                    "push",
                    refuses("records, so that no run can be published"),
                    next,
                );
            }
            TrialPush::Release => checks.warn("push", refuses("the release of a lock"), next),
            // A run that has ended is published without its tag.
            TrialPush::Tag => checks.warn("push", refuses("the tag of a site action"), next),
        }
    }
}
