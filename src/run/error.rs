//! The errors that keep a run from beginning, continuing or ending, and the kind of failure of each.
//!
//! The kind decides the exit code (product, "Exit codes"); that table is the command line's.

use std::path::PathBuf;
use std::sync::Arc;

use crate::design::{NodeName, RunId, SiteName};
use crate::diagnostic::short_id;
use crate::journal;
use crate::plan::{Cause, IntermediateCommit};
use crate::record::{self, Outcome};
use crate::repository::{self, Holder};

/// The kind of a failure for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something is broken, or does not answer: exit code 1.
    Error,
    /// A guard refused it: exit code 4.
    Guard,
    /// The plan is stale: exit code 5.
    Stale,
    /// The lock is held: exit code 6.
    LockHeld,
    /// An interrupted run is in the way: exit code 8.
    Interrupted,
    /// A run is done, and its end is not published: exit code 9.
    Unpublished,
}

/// A failure of a run as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lock of the site is held by a run that may still be running.
    #[error("the lock of site `{site}` is held by {} on {} (run {}, since {})", holder.who, holder.host, holder.run, holder.since)]
    LockHeld {
        /// The site.
        site: SiteName,
        /// By whom.
        holder: Box<Holder>,
    },
    /// The plan does not hold any more.
    #[error("the plan for site `{site}` is stale: {}", reasons.join("; "))]
    Stale {
        /// The site.
        site: SiteName,
        /// The facts that do not hold, one entry each.
        reasons: Vec<String>,
    },
    /// Commits lie between the last site action and the one to be applied.
    #[error("{} between the last site action and the commit to be applied: {}", counted(commits.len()), listed(commits))]
    IntermediateCommits {
        /// The commits, the newest first.
        commits: Vec<IntermediateCommit>,
    },
    /// The last site action is not on the line of the commit to be applied.
    #[error("the last site action applied {base}, which is not on the line of {target}")]
    Diverged {
        /// The commit of the last site action.
        base: String,
        /// The commit to be applied.
        target: String,
    },
    /// The commit of the last site action no longer exists.
    #[error(
        "the last applied commit {base} is neither here nor at the remote: it was never pushed, or the history was rewritten; \
         what it said of the nodes is in their records"
    )]
    Gone {
        /// The commit of the last site action.
        base: String,
    },
    /// The commit to be applied is older than the last site action.
    #[error("this is a rollback, which undoes {}: {}", counted(undone.len()), listed(undone))]
    Rollback {
        /// The commits that it undoes, the newest first.
        undone: Vec<IntermediateCommit>,
    },
    /// The plan has changes that need a flag.
    #[error("the plan has blocked changes: {}", blocked.join("; "))]
    Blocked {
        /// Each reason with its nodes, and the flag that allows them.
        blocked: Vec<String>,
        /// The kind of refusal: a rule, if any of them is one.
        cause: Cause,
        /// Whether a flag allows any of them.
        has_flag: bool,
        /// Whether other changes are not blocked.
        has_rest: bool,
    },
    /// Another run has begun with an approval since the plan was made.
    #[error("the approval of {by} was spent by run {run}")]
    Spent {
        /// The principal.
        by: Arc<str>,
        /// The run.
        run: RunId,
    },
    /// The records of the run cannot be signed.
    #[error("the run cannot be signed: {why}")]
    NotSigned {
        /// Why.
        why: String,
    },
    /// The site demands signed runs, and refuses this one or the records that it builds on.
    #[error("site `{site}` takes signed runs only: {why}")]
    Untrusted {
        /// The site.
        site: SiteName,
        /// Why it is refused.
        why: String,
    },
    /// The site's files are not committed as they were planned.
    #[error("the documents of site `{site}` are not committed: {}", paths.join(", "))]
    Dirty {
        /// The site.
        site: SiteName,
        /// The files that differ from the commit, each with the filter that it was read without.
        paths: Vec<String>,
        /// Whether all of them have one.
        is_filtered: bool,
    },
    /// There is a remote, and it was not to be asked.
    #[error("site `{site}` has a remote, and a plan cannot be applied offline")]
    Offline {
        /// The site.
        site: SiteName,
    },
    /// The run before was interrupted, and the operator has not decided about it.
    #[error("run {run} of site `{site}` was interrupted")]
    Unfinished {
        /// The site.
        site: SiteName,
        /// The run.
        run: RunId,
    },
    /// The run before has not ended, and its workers carry it out: no process has the lock alone.
    #[error("run {run} of site `{site}` is divided among workers, and has not ended")]
    OfWorkers {
        /// The site.
        site: SiteName,
        /// The run.
        run: RunId,
    },
    /// There is nothing to resume or to abort.
    #[error("no run of site `{site}` was interrupted")]
    NothingInterrupted {
        /// The site.
        site: SiteName,
    },
    /// The run has ended, so that it can be neither resumed nor aborted.
    #[error("run {run} has ended: {}", outcome.words())]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
    },
    /// There is no such run.
    #[error("site `{site}` has no run {run}")]
    NoSuchRun {
        /// The site.
        site: SiteName,
        /// The requested run.
        run: RunId,
    },
    /// The site is not locked.
    #[error("site `{site}` is not locked")]
    NotLocked {
        /// The site.
        site: SiteName,
    },
    /// Another run took the lock or wrote the records while the run held the lock.
    #[error(
        "run {run} is fenced: the lock or the records of its site are another process's now, and this one has stopped"
    )]
    Fenced {
        /// The run.
        run: RunId,
    },
    /// The run is not divided among workers.
    #[error("run {run} is not divided among workers")]
    NotOfWorkers {
        /// The run.
        run: RunId,
    },
    /// A worker is carrying a part out.
    #[error("part `{part}` of run {run} is carried out by {} on {}", holder.who, holder.host)]
    PartHeld {
        /// The run.
        run: RunId,
        /// The part.
        part: Arc<str>,
        /// The worker.
        holder: Box<Holder>,
    },
    /// No worker begins a part while a process ends or aborts the run, or if one was interrupted that did.
    #[error("part `{part}` of run {run} cannot begin: {} on {} {} the run{}", holder.who, holder.host,
        if *is_gone { "was to end or to abort" } else { "ends or aborts" }, if *is_gone { ", and was interrupted" } else { "" })]
    BeingEnded {
        /// The run.
        run: RunId,
        /// The part.
        part: Arc<str>,
        /// The process.
        holder: Box<Holder>,
        /// Whether that process is gone.
        is_gone: bool,
    },
    /// Another worker has the part, or the run has ended.
    #[error(
        "another worker has taken part `{part}` of run {run}, the run has ended, or its lock was made anew: this worker has stopped"
    )]
    PartLost {
        /// The run.
        run: RunId,
        /// The part.
        part: Arc<str>,
    },
    /// The end of a run of this clone could still not be published.
    #[error("run {run} has ended in this clone, and its records could not be published: {why}")]
    Unpublished {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// A run has ended in another clone, which alone has its records.
    #[error("run {} of site `{site}` has ended in a clone on {}, where its records wait to be published", holder.run, holder.host)]
    EndedElsewhere {
        /// The site.
        site: SiteName,
        /// The holder of the lock.
        holder: Box<Holder>,
    },
    /// A run has come to its end, and nodes that it built have no record.
    #[error("run {run} is complete, and {} not recorded as deployed: {}", counted_nodes(nodes.len()), shown_nodes(nodes))]
    Unrecorded {
        /// The run.
        run: RunId,
        /// The nodes, sorted.
        nodes: Vec<NodeName>,
    },
    /// Nothing is shared whose place could change.
    #[error("site `{site}` shares no records with a remote")]
    NotShared {
        /// The site.
        site: SiteName,
    },
    /// Another process moved a ref while records were being moved.
    #[error(
        "`{name}` of the remote has changed while the records of site `{site}` were being moved"
    )]
    Moving {
        /// The site.
        site: SiteName,
        /// The ref.
        name: String,
    },
    /// The process was asked to stop while it waited for the lock.
    #[error("stopped while waiting for the lock of site `{site}`")]
    Stopped {
        /// The site.
        site: SiteName,
    },
    /// The repository failed.
    #[error("failed to {attempt}")]
    Repository {
        /// The attempt, as a verb phrase.
        attempt: &'static str,
        /// Why it failed.
        #[source]
        source: repository::Error,
    },
    /// The records failed.
    #[error("failed to {attempt}")]
    Records {
        /// The attempt, as a verb phrase.
        attempt: &'static str,
        /// Why it failed.
        #[source]
        source: record::Error,
    },
    /// The journal failed.
    #[error("failed to open the journal of the run")]
    Journal(#[from] journal::Error),
    /// A file of the run could not be read or written.
    #[error("failed to read or write `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Whether persons work on its machines is not known, so that it is not begun.
    #[error("which machines are reserved could not be read: {reason}")]
    Reservations {
        /// Why.
        reason: String,
    },
    /// The ref of a part is not as trueup writes it.
    #[error("the status of part `{part}` of run {run} is broken: {reason}")]
    BrokenPart {
        /// The run.
        run: RunId,
        /// The part.
        part: Arc<str>,
        /// The command that deletes its ref.
        deletes: String,
        /// The problem.
        reason: String,
    },
    /// Something that a run left is not as trueup writes it.
    #[error("{what} is broken: {reason}")]
    Broken {
        /// The item.
        what: String,
        /// The problem.
        reason: String,
    },
}

/// The ways out of a run that is divided among workers.
fn ways_of_workers(run: &str) -> String {
    format!(
        "its workers carry it out, and `trueup run end {run}` ends it; `trueup run status {run}` shows how far they are, `trueup run abort {run}` aborts it"
    )
}

impl Error {
    /// The kind of this failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Stale { .. } => Kind::Stale,
            Self::LockHeld { .. }
            | Self::OfWorkers { .. }
            | Self::EndedElsewhere { .. }
            | Self::PartHeld { .. }
            | Self::PartLost { .. }
            | Self::BeingEnded { .. } => Kind::LockHeld,
            Self::Unpublished { .. } => Kind::Unpublished,
            Self::IntermediateCommits { .. }
            | Self::Diverged { .. }
            | Self::Gone { .. }
            | Self::Rollback { .. }
            | Self::Blocked { .. }
            | Self::Spent { .. }
            | Self::Untrusted { .. }
            | Self::Dirty { .. } => Kind::Guard,
            Self::Unfinished { .. } | Self::Stopped { .. } => Kind::Interrupted,
            Self::Repository { .. }
            | Self::Records { .. }
            | Self::Offline { .. }
            | Self::NotSigned { .. }
            | Self::NothingInterrupted { .. }
            | Self::Ended { .. }
            | Self::NoSuchRun { .. }
            | Self::NotLocked { .. }
            | Self::NotOfWorkers { .. }
            | Self::NotShared { .. }
            | Self::Moving { .. }
            | Self::Fenced { .. }
            | Self::Unrecorded { .. }
            | Self::Journal(_)
            | Self::File { .. }
            | Self::Reservations { .. }
            | Self::BrokenPart { .. }
            | Self::Broken { .. } => Kind::Error,
        }
    }

    /// Whether a ref had another value than the one that was observed: another process was faster.
    #[must_use]
    pub(super) fn is_lost_race(&self) -> bool {
        matches!(
            self,
            Self::Repository {
                source: repository::Error::RefMoved { .. },
                ..
            }
        )
    }

    /// The way out, if there is one: a sentence without a trailing period, commands in backticks.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::LockHeld { holder, .. } if holder.of_workers => ways_of_workers(&holder.run),
            Self::OfWorkers { run, .. } => ways_of_workers(run.as_str()),
            Self::BeingEnded { run, is_gone: true, .. } => format!(
                "`trueup run abort {run}` or `trueup run end {run}` does it now; `trueup run begin` with its plan and name leaves it to its workers again"
            ),
            Self::PartLost { run, .. } => {
                format!("`trueup run status {run}` shows which; `trueup run part` carries on a part that has not ended")
            }
            Self::PartHeld { run, .. }
            | Self::BeingEnded { run, .. } => {
                format!("`trueup run status {run}` shows who has it; try again")
            }
            Self::NotOfWorkers { run } => {
                format!("`trueup apply --resume` resumes run {run} where it was interrupted")
            }
            Self::LockHeld { holder, .. } => format!(
                "wait for it to end; if it is dead, as on a host that is gone: `trueup apply --resume --take-over-dead`, or `trueup unlock {} \
                 --take-over-dead`",
                holder.run
            ),
            Self::Stale { .. } => "plan again, and review the differences".to_owned(),
            Self::Gone { .. } => {
                "`trueup plan` compares the documents with the records".to_owned()
            }
            Self::IntermediateCommits { .. } | Self::Diverged { .. } | Self::Rollback { .. } => {
                "review them with `trueup diff --base last-site-action --diff committed`".to_owned()
            }
            Self::Spent { .. } => {
                "an approval is for one run: plan again, and have it approved with `trueup approve`".to_owned()
            }
            Self::NotShared { .. } => {
                "it needs a remote, without `--offline` and `--no-push`: in a clone the records are always below trueup's own refs".to_owned()
            }
            Self::BrokenPart { run, deletes, .. } => format!(
                "`{deletes}` deletes its ref; then end the run in the clone that carried the part out, whose journal tells what it has done: `trueup run abort {run}`"
            ),
            Self::Moving { .. } => "nothing is lost: run the command again".to_owned(),
            Self::NotSigned { .. } => {
                "give the key to an agent (`ssh-add`), or have git sign with one that asks for no passphrase; `git config trueup.signRuns false` leaves the signature away".to_owned()
            }
            Self::Untrusted { .. } => UNTRUSTED_HINT.to_owned(),
            Self::Dirty { is_filtered: true, .. } => {
                "documents are read as they are committed, without the filters of git: take them out of `.gitattributes`, and commit the text itself".to_owned()
            }
            Self::Dirty { .. } => "commit them, then apply; what `.gitignore` names is added by `git add -f`".to_owned(),
            Self::Offline { .. } => "leave `--offline` away".to_owned(),
            Self::Unfinished { run, .. } => format!(
                "resume it with `trueup apply --resume`, with the flags that it was given where another clone began it, or abort it with \
                 `trueup abort {run}`"
            ),
            Self::NothingInterrupted { .. } | Self::NoSuchRun { .. } | Self::Ended { .. } => {
                "`trueup log` lists the runs".to_owned()
            }
            Self::Fenced { .. } => {
                "its journal holds the steps that had begun; `trueup log` shows whether the run continues elsewhere or has ended".to_owned()
            }
            Self::Unpublished { .. } => {
                "nothing is lost: every command in this clone that asks the remote publishes them first; repair the remote or the credential, then `trueup log`".to_owned()
            }
            Self::EndedElsewhere { holder, .. } => format!(
                "run `trueup log` in that clone, which publishes them; if it is gone for good, `trueup apply --resume --take-over-dead` resumes run {} here",
                holder.run
            ),
            Self::Unrecorded { .. } => {
                "nothing is tagged; `trueup apply --resume` observes these nodes again".to_owned()
            }
            Self::Repository { source, .. } => return source.hint(),
            Self::Records { source, .. } => return source.hint(),
            // Which flags help depends on the Policy and on where the plan is from.
            Self::Blocked { .. } | Self::NotLocked { .. } | Self::Stopped { .. } | Self::Journal(_) | Self::File { .. } | Self::Reservations { .. }
            | Self::Broken { .. } => {
                return None;
            }
        })
    }
}

/// The way out if records are not signed as the site demands.
const UNTRUSTED_HINT: &str = "check the records with `trueup log` and `trueup status`; where they are right, an allowed signer signs them with `trueup log --sign`";

fn counted_nodes(number: usize) -> String {
    match number {
        1 => "one node is".to_owned(),
        _ => format!("{number} nodes are"),
    }
}

fn shown_nodes(nodes: &[NodeName]) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<&str> = nodes.iter().take(SHOWN).map(NodeName::as_str).collect();
    if nodes.len() > SHOWN {
        names.push("…");
    }
    names.join(", ")
}

fn counted(number: usize) -> String {
    match number {
        1 => "one commit".to_owned(),
        _ => format!("{number} commits"),
    }
}

fn listed(commits: &[IntermediateCommit]) -> String {
    const SHOWN: usize = 10;
    let mut list: Vec<String> = commits
        .iter()
        .take(SHOWN)
        .map(|commit| format!("{} {}", short_id(&commit.commit), commit.subject))
        .collect();
    if commits.len() > SHOWN {
        list.push(format!("… and {} more", commits.len() - SHOWN));
    }
    list.join("; ")
}

/// Turns a failure of the repository into an error that names the attempt; a held lock stays one.
pub(super) fn repository(
    site: &SiteName,
    attempt: &'static str,
) -> impl FnOnce(repository::Error) -> Error {
    move |source| match source {
        repository::Error::Locked { holder, .. } => Error::LockHeld {
            site: site.clone(),
            holder,
        },
        source => Error::Repository { attempt, source },
    }
}

/// Turns a failure of the records into an error that names the attempt.
pub(super) fn records(attempt: &'static str) -> impl FnOnce(record::Error) -> Error {
    move |source| Error::Records { attempt, source }
}
