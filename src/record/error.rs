//! Errors of the records.

use super::signing::NotReady;
use crate::design::{RunId, SiteName};
use crate::repository::{self, CommitId, is_plain_name};

/// The configuration that takes records for the newest though the tag of a run, which it names, tells of newer ones.
pub(super) const ACCEPTED_STATE: &str = "trueup.acceptOlderState";

/// A failure to read or write the records of a site.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository failed.
    #[error("failed to {attempt}")]
    Repository {
        /// The attempt, as a verb phrase.
        attempt: &'static str,
        /// Why it failed.
        #[source]
        source: repository::Error,
    },
    /// A name that cannot be a part of a ref.
    #[error("`{name}` cannot be the name of a site or a run: it {problem}")]
    BadName {
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// Two sites whose names differ in case only: on some disks they are one.
    #[error("site `{site}` and the recorded site `{other}` differ in case only")]
    SameIgnoringCase {
        /// The site that was asked for.
        site: SiteName,
        /// The site that has records.
        other: String,
    },
    /// Another process wrote records since these were read. Nothing was changed.
    #[error("the records of site `{site}` have moved{}", by.as_ref().map(|run| format!(": run {run} wrote them")).unwrap_or_default())]
    LostRace {
        /// The site.
        site: SiteName,
        /// The newest run by now.
        by: Option<RunId>,
    },
    /// The records get no signature for their new place, which they should have.
    #[error("the records of site `{site}` are not moved without a signature")]
    Unsigned {
        /// The site.
        site: SiteName,
        /// Why there is none.
        why: NotReady,
    },
    /// The records were written by a newer trueup.
    #[error("the records of site `{site}` have format {found}, and this trueup knows {known}")]
    NewerFormat {
        /// The site.
        site: SiteName,
        /// The format of the records.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The records are at another ref of the remote.
    #[error(
        "the records of site `{site}` have moved to `{to}`, where this clone does not look for them"
    )]
    Moved {
        /// The site.
        site: SiteName,
        /// The ref that the marker in their place names.
        to: String,
    },
    /// Another clone, which is configured otherwise, has its records at another ref.
    #[error(
        "the remote has records of site `{site}` at `{other}`, and this clone is configured for `{own}`: each has a lock of its own"
    )]
    ElsewhereToo {
        /// The site.
        site: SiteName,
        /// The ref of this clone's records.
        own: Box<str>,
        /// The ref that has records, too.
        other: Box<str>,
        /// The remote.
        remote: Box<str>,
    },
    /// The remote has no records, and another one of this clone has some: each has a lock of its own.
    #[error(
        "remote `{asked}` has no records of site `{site}`, and remote `{other}` has some: a run here would meet none of its locks"
    )]
    OtherRemote {
        /// The site.
        site: SiteName,
        /// The remote that was asked.
        asked: Box<str>,
        /// The remote that has records.
        other: Box<str>,
        /// The ref that holds the records in a clone.
        own: Box<str>,
        /// The ref that holds them at a remote.
        at: Box<str>,
    },
    /// The remote tells of a run by its tag, and has older records.
    #[error(
        "`{at}` of the remote went back: a tag tells of run {newer} of site `{site}`, and {}",
        match newest {
            Some(run) if run == newer => "the records there have it from before its end".to_owned(),
            Some(run) => format!("the newest run in the records there is {run}"),
            None => "the newest run in the records there is none".to_owned(),
        }
    )]
    WentBack {
        /// The site.
        site: SiteName,
        /// The newest run in the records of the remote.
        newest: Option<RunId>,
        /// The newest run by its tag.
        newer: RunId,
        /// The ref that holds the records in a clone.
        own: Box<str>,
        /// The ref that holds them at the remote.
        at: Box<str>,
    },
    /// The records are not in the branch that is named yet, or not in it alone.
    #[error(
        "the records of site `{site}` are at `{own}` of the remote, and not moved to `{branch}`"
    )]
    NotMoved {
        /// The site.
        site: SiteName,
        /// The branch.
        branch: String,
        /// The ref that has records.
        own: String,
    },
    /// The records are in the branch, and nothing keeps other clones from beginning new ones elsewhere.
    #[error(
        "the records of site `{site}` are at `{branch}` of the remote, and `{own}` does not refer to them"
    )]
    MarkerMissing {
        /// The site.
        site: SiteName,
        /// The branch.
        branch: String,
        /// The ref without a marker.
        own: String,
    },
    /// The marker names a ref that the remote does not have.
    #[error(
        "the records of site `{site}` have moved to `{branch}`, which the remote does not have"
    )]
    BranchMissing {
        /// The site.
        site: SiteName,
        /// The ref that is missing.
        branch: String,
        /// The ref that holds the records in a clone.
        own: String,
    },
    /// Records were written if the branch does not have them from, after it had some.
    #[error(
        "`{own}` of the remote has records that `{branch}` does not have: {}",
        listed(runs)
    )]
    NewerElsewhere {
        /// The ref that has them.
        own: Box<str>,
        /// Its commit.
        tip: CommitId,
        /// The branch.
        branch: Box<str>,
        /// The runs that the branch does not have.
        runs: Box<[RunId]>,
    },
    /// Two refs of the remote have records, and neither has all of them.
    #[error("`{one}` and `{other}` of the remote have different records of site `{site}`")]
    BothHaveRecords {
        /// The site.
        site: SiteName,
        /// The first ref.
        one: String,
        /// The second ref.
        other: String,
    },
    /// Nothing names the branch for the records.
    #[error("no branch is named for the records of site `{site}`")]
    NoBranch {
        /// The site.
        site: SiteName,
    },
    /// A file of the records is not as trueup writes it.
    #[error("`{path}` in the records is broken: {reason}")]
    Broken {
        /// The path in the tree of the state.
        path: String,
        /// The problem.
        reason: String,
    },
}

impl Error {
    /// The way out, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Repository { source, .. } => source.hint(),
            Self::LostRace { .. } => Some(
                "nothing was lost: plan again, and the plan begins with the new records".to_owned(),
            ),
            Self::NewerFormat { .. } => Some("use the newer trueup".to_owned()),
            Self::Moved { site, to } => Some(moved_hint(site, to)),
            Self::ElsewhereToo {
                site,
                other,
                remote,
                ..
            } => Some(elsewhere_hint(site, other, remote)),
            Self::OtherRemote {
                asked, other, own, at, ..
            } => Some(format!(
                "`--remote {other}` works with them; where the site moves to `{asked}`, `trueup log --remote {other}` fetches them and `git push {asked} {own}:{at}` publishes them there first"
            )),
            Self::WentBack { newer, own, at, .. } => Some(format!(
                "restore it at the remote, or from the clone with the newest `trueup log --offline`: `git push REMOTE {own}:{at}`; where what was done since is lost for good, `git config {ACCEPTED_STATE} {newer}` here, and the next plan observes all machines anew"
            )),
            Self::NotMoved { .. } | Self::MarkerMissing { .. } => Some(
                "`trueup migrate` moves them (with the same `--backends-from` where the Policy names the branch), and completes a move that was interrupted".to_owned(),
            ),
            Self::BranchMissing { branch, own, .. } => Some(format!(
                "nothing is applied without it: restore it at the remote, or from the clone with the newest `trueup log --offline`: `git push REMOTE {own}:{branch}`"
            )),
            Self::NewerElsewhere { own, tip, .. } => Some(format!(
                "every account that may push `{own}` can have written them: where they are from a clone that did not look in the branch, `trueup migrate --take {tip}`"
            )),
            Self::BothHaveRecords { .. } => Some(
                "nothing was changed: `git log` of both shows which runs are missing where; keep the right ones at the first, delete the other, and run the command again".to_owned(),
            ),
            Self::NoBranch { .. } => Some(
                "`git config trueup.stateBranch trueup`, or `state_branch` in the Policy at `--backends-from`".to_owned(),
            ),
            Self::Broken { .. } => Some(
                "find out which are broken, those of the remote or those of this clone: `git ls-remote REMOTE 'refs/trueup/*'` and `git for-each-ref refs/trueup`, then `git show COMMIT:site.json`. Broken ones at the remote are replaced from a clone that has them whole: `git push --force REMOTE refs/trueup/SITE/state`; broken ones here alone are deleted (`git update-ref -d refs/trueup/SITE/state`), and the next command takes those of the remote".to_owned(),
            ),
            _ => None,
        }
    }
}

fn listed(runs: &[RunId]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<&str> = runs.iter().take(SHOWN).map(RunId::as_str).collect();
    match runs.len() {
        0 => "no other runs".to_owned(),
        1 => format!("run {}", shown[0]),
        many if many > SHOWN => format!("runs {} and {} more", shown.join(", "), many - SHOWN),
        _ => format!("runs {}", shown.join(", ")),
    }
}

/// The way out if two refs of a remote have records of one site.
fn elsewhere_hint(site: &SiteName, other: &str, remote: &str) -> String {
    let prefix = other.strip_suffix(&format!("/{site}/state"));
    let plain = prefix.filter(|prefix| repository::is_plain_name(prefix));
    let configure = match plain {
        Some("refs/trueup") => {
            "where those count, `git config --unset trueup.refPrefix` (`git config --show-origin trueup.refPrefix` shows where it is set)".to_owned()
        }
        Some(prefix) => format!("where those count, `git config trueup.refPrefix {prefix}`"),
        None => "all clones must be configured for one place".to_owned(),
    };
    match repository::is_plain_name(other) {
        true => format!(
            "{configure}; where they do not, `git push {remote} --delete {other}` takes them away"
        ),
        false => configure,
    }
}

/// How a clone finds records that have moved. Every account with the right to push may have written the marker that names the ref.
fn moved_hint(site: &SiteName, to: &str) -> String {
    let branches = to.strip_prefix("refs/heads/");
    let branches = branches.and_then(|rest| rest.strip_suffix(&format!("/{site}/state")));
    match branches {
        Some(branches) if is_plain_name(branches) => format!(
            "if it is known that they were moved there: `git config trueup.stateBranch {branches}`, or `--backends-from` with a revision whose Policy names it; then a command that asks the remote, such as `trueup log`, fetches them"
        ),
        _ if to.starts_with("refs/heads/") => "a person decides whether that is where they are".to_owned(),
        _ => "if it is known that they were moved back: take `state_branch` out of the Policy, and unset `trueup.stateBranch` and `trueup.refPrefix`, where `git config --show-origin --get-regexp trueup` shows them".to_owned(),
    }
}

/// Turns a failure of the repository into an [`Error::Repository`].
pub(super) fn failed(attempt: &'static str) -> impl FnOnce(repository::Error) -> Error {
    move |source| Error::Repository { attempt, source }
}
