//! Checks of this machine: the git program, the repository, its user and its remote.

use super::checks::Checks;
use crate::cli::Failure;
use crate::cli::apply::{actor, named};
use crate::cli::context::Context;
use crate::cli::planning::RemoteArguments;
use crate::report::counted;
use crate::repository::{Remote, Repository};
use crate::run::Connection;

/// The first version of git with all that is asked of it.
const OLDEST_GIT: (u32, u32) = (2, 28);

/// Checks git and the repository, which is returned if it can be used.
pub(super) fn check(
    context: &Context,
    remote: &RemoteArguments,
    checks: &mut Checks,
) -> Option<Repository> {
    let repository = match context.repository() {
        Ok(repository) => repository,
        Err(failure) => {
            checks.failure(
                "repository",
                &failure,
                "run in the checkout of a site, or with `-C DIR`",
            );
            return None;
        }
    };
    git(&repository, checks);
    let root = repository.root().display().to_string();
    match repository.is_shallow() {
        Ok(true) => checks.warn(
            "repository",
            format!("`{root}`, with a history that is cut off"),
            "`git fetch --unshallow`, so that commits between two runs are found",
        ),
        Ok(false) => checks.ok("repository", format!("`{root}`")),
        Err(error) => checks.failure("repository", &Failure::from(error), ""),
    }
    user(&repository, checks);
    match remote.connection(&repository) {
        Ok(Connection::Alone) => checks.warn(
            "remote",
            "none: records and the lock are in this clone alone",
            "`git remote add origin URL`, where others work on the site, too",
        ),
        Ok(Connection::Offline) => checks.skip("remote", "not contacted, with `--offline`"),
        Ok(Connection::Shared { remote, .. }) => reach(&repository, &remote, checks),
        Err(failure) => checks.failure("remote", &failure, "check `git remote -v`"),
    }
    Some(repository)
}

fn git(repository: &Repository, checks: &mut Checks) {
    let version = match repository.git_version() {
        Ok(version) => version,
        Err(error) => {
            checks.failure("git", &Failure::from(error), "install git");
            return;
        }
    };
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match (major, minor) >= OLDEST_GIT {
        true => checks.ok("git", format!("git {version}")),
        false => checks.fail(
            "git",
            format!("git {version} is too old"),
            format!("install git {}.{} or newer", OLDEST_GIT.0, OLDEST_GIT.1),
        ),
    }
}

fn user(repository: &Repository, checks: &mut Checks) {
    match actor(repository) {
        Ok(actor) if matches!(named(repository), Ok((Some(_), _))) => {
            checks.ok("user", format!("{} <{}>", actor.name, actor.email));
        }
        Ok(actor) => checks.warn(
            "user",
            format!("`{}`, by the account of this process", actor.name),
            "`git config user.name NAME` and `git config user.email ADDRESS`: runs and tags carry both",
        ),
        Err(failure) => checks.failure("user", &failure, "check `git config --list`"),
    }
}

/// Checks that a remote can be read, and that it would take a push.
fn reach(repository: &Repository, remote: &Remote<'_>, checks: &mut Checks) {
    let name = remote.name().to_owned();
    let prefix = match repository.ref_prefix() {
        Ok(prefix) => prefix,
        Err(error) => return checks.failure("remote", &Failure::from(error), ""),
    };
    let refs = match remote.ls_remote(&[&format!("{prefix}/*")]) {
        Ok(refs) => refs,
        Err(error) => {
            let next = "check its URL, the network and the credentials with `git ls-remote`";
            return checks.failure("remote", &Failure::from(error), next);
        }
    };
    let known = counted(refs.len(), "ref", "refs");
    if matches!(repository.head(), Ok(None)) {
        return checks.warn(
            "remote",
            format!(
                "`{name}` answers, {known} of trueup; no commit is checked out to try a push with"
            ),
            "`git switch BRANCH` checks one out",
        );
    }
    match remote.would_accept(&format!("{prefix}/doctor")) {
        Ok(()) => checks.ok(
            "remote",
            format!("`{name}` answers, {known} of trueup; `git push --dry-run` passes"),
        ),
        Err(error) => {
            let next = "an apply needs the right to push; plans and `--no-push` do without";
            let failure = Failure::from(error);
            checks.warn(
                "remote",
                format!("`{name}` answers, and takes no push: {}", failure.message),
                next,
            );
        }
    }
}
