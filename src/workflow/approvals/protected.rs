//! The revision whose Policy and allowed signers count, if that is the one that was applied last.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use jiff::Timestamp;

use super::signers::{self, Signer, unmet_by};
use super::statement::{GIT, NAMESPACE};
use crate::design::Policy;
use crate::diagnostic::chain;
use crate::guard::SignerTime;
use crate::repository::{CommitId, Links, Repository, read_file};
use crate::site::{At, Detail, Loader, Settings};
use crate::workflow::{AS_APPLIED, Checkout, Failure};

/// A Policy, and the commit and the name of the revision that it counts at.
pub(super) struct Counting<'a> {
    pub(super) policy: &'a Policy,
    pub(super) commit: Option<CommitId>,
    pub(super) from: &'a str,
}

/// The signers for a purpose in a file of a commit.
pub(super) fn allowed_signers(
    repository: &Repository,
    commit: Option<CommitId>,
    path: &str,
    namespace: &'static str,
) -> Result<Vec<Signer>, String> {
    let commit = commit.ok_or("there is no commit to read them from")?;
    let bytes = repository.file_within(commit, path, signers::LARGEST);
    let bytes = bytes.map_err(|error| chain(&error))?;
    let bytes = bytes.ok_or_else(|| format!("commit {} has no such file", commit.short()))?;
    signers_in(bytes, namespace)
}

fn signers_in(bytes: Vec<u8>, namespace: &'static str) -> Result<Vec<Signer>, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    signers::read(&text, namespace)
}

/// Why the allowed signers that a Policy names cannot sign at a time what it asks for, at a commit or in the worktree
/// (`None`), each with what helps.
#[must_use]
pub fn signers_problems(
    repository: &Repository,
    commit: Option<CommitId>,
    policy: &Policy,
    now: Timestamp,
) -> Vec<(String, &'static str)> {
    let path = policy.allowed_signers();
    let list = |namespace| match commit {
        Some(_) => allowed_signers(repository, commit, path, namespace),
        None => {
            let bytes = read_file(
                &repository.root().join(path),
                signers::LARGEST,
                Links::Refused,
            );
            signers_in(bytes.map_err(|error| chain(&error))?, namespace)
        }
    };
    let void = |why: String| {
        let text = format!("the allowed signers of the Policy are void: {why}");
        (
            text,
            "correct the file, or name another one: `approvals: {allowed_signers: FILE}`",
        )
    };
    let approvals = policy
        .approvals
        .as_ref()
        .map(|rules| (rules, list(NAMESPACE)));
    let mut found: Vec<(String, &'static str)> = match approvals {
        None => Vec::new(),
        Some((_, Err(why))) => vec![void(why)],
        Some((rules, Ok(signers))) => unmet_by(rules, &signers, now)
            .into_iter()
            .map(|why| {
                let text = format!("the allowed signers cannot meet a rule about approvals: {why}");
                let hint = "add the keys of these people to the allowed signers, or ask for fewer";
                (text, hint)
            })
            .collect(),
    };
    if policy.signed_runs && found.is_empty() {
        let none = || "no key may sign runs".to_owned();
        let signers =
            list(GIT).and_then(
                |signers| match signers.iter().all(|signer| signer.is_over(now)) {
                    true => Err(none()),
                    false => Ok(()),
                },
            );
        found.extend(signers.err().map(void));
    }
    found
}

/// The people and purposes whose keys at a commit count no more at a time, or do not yet; empty if the Policy
/// asks for no signatures.
#[must_use]
pub fn signers_out_of_time(
    repository: &Repository,
    commit: Option<CommitId>,
    policy: &Policy,
    now: Timestamp,
) -> Vec<String> {
    if !policy.asks_for_signatures() {
        return Vec::new();
    }
    let times = signer_times(repository, commit, policy.allowed_signers());
    let out = times.into_iter().filter_map(|(name, time)| {
        let day = |digits: u64| {
            let (year, month, day) = (
                digits / 10_000_000_000,
                digits / 100_000_000,
                digits / 1_000_000,
            );
            format!("{year}-{:02}-{:02}", month % 100, day % 100)
        };
        let over = time.before.filter(|_| time.is_over(now));
        let to_come = time.after.filter(|after| *after > SignerTime::digits(now));
        match (over, to_come) {
            (Some(before), _) => Some(format!("{name} counts no more since {}", day(before))),
            (None, Some(after)) => Some(format!("{name} counts from {} on", day(after))),
            (None, None) => None,
        }
    });
    out.collect()
}

/// The name of the revision that was applied last.
pub(super) fn applied_last(commit: Option<CommitId>) -> String {
    let commit = commit.map_or_else(|| "the revision".to_owned(), |commit| commit.short());
    format!("{commit}, which was applied last")
}

/// The Policy at the revision that was applied last.
pub(super) fn applied_policy(checkout: &Checkout<'_>, commit: CommitId) -> Result<Policy, Failure> {
    let at = At::Commit(commit);
    let location = checkout.location_at(at)?;
    let settings = Settings {
        detail: Detail::Documents,
        ..AS_APPLIED
    };
    let before = Loader::new(checkout.repository).load(&location, at, settings)?;
    if before.diagnostics.has_errors() {
        let from = applied_last(Some(commit));
        let text = format!("the documents of {from}, have errors: their Policy cannot be read");
        return Err(
            Failure::error(text).hint("name the revision to take it from with `--backends-from`")
        );
    }
    Ok(before.documented_guards.policy.clone())
}

/// The commit whose guards are in force and its Policy, if that may ask for signatures and this clone has the commit.
///
/// # Errors
///
/// The records or the documents of that commit cannot be read.
pub fn policy_in_force(checkout: &Checkout<'_>) -> Result<Option<(CommitId, Policy)>, Failure> {
    let state = checkout.site_here()?.store()?.read()?.site;
    let action = state.guards_in_force().filter(|action| action.policy_asks);
    let commit = action.and_then(|action| action.revision.parse::<CommitId>().ok());
    match commit {
        Some(commit) if checkout.repository.has(commit.0)? => {
            Ok(Some((commit, applied_policy(checkout, commit)?)))
        }
        _ => Ok(None),
    }
}

/// The time in which each of the allowed signers of a commit counts, by who they are and for which purpose. A file that is
/// void has none.
pub(in crate::workflow) fn signer_times(
    repository: &Repository,
    commit: Option<CommitId>,
    path: &str,
) -> BTreeMap<Arc<str>, SignerTime> {
    let mut times = BTreeMap::new();
    for (namespace, purpose) in [(NAMESPACE, "approvals"), (GIT, "runs")] {
        let signers = allowed_signers(repository, commit, path, namespace);
        times.extend(signers.iter().flatten().map(|signer| {
            let key = HEXLOWER.encode(&signer.key.digest()[..16]);
            let name = format!("{} for {purpose} (key {key})", signer.principal);
            (Arc::from(name), signer.time())
        }));
    }
    times
}
