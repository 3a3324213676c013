//! Errors of the repository, with hints.
//!
//! Messages are fragments in lower case; [`Error::hint`] is the sentence that names the next step.

use std::fmt;
use std::path::PathBuf;

use super::refusal::Refusal;
use super::{CommitId, ObjectId};

/// A failure of git, the worktree or the remote.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No git repository holds the folder.
    #[error("no git repository at `{}` or above it", start.display())]
    NoRepository {
        /// Where the search began.
        start: PathBuf,
    },
    /// No remote is named, and which of several has the records is not known.
    #[error(
        "several remotes could have the records, and none of them is `origin` or tracked by the branch: {}",
        names.join(", ")
    )]
    SeveralRemotes {
        /// Their names.
        names: Vec<String>,
    },
    /// The repository belongs to another user, and git's `safe.directory` does not name it.
    #[error("the repository at `{}` belongs to another user", path.display())]
    ForeignOwner {
        /// The folder that would have to be named.
        path: PathBuf,
    },
    /// The repository has no worktree.
    #[error("the repository at `{}` is bare: it has no worktree", path.display())]
    Bare {
        /// The repository.
        path: PathBuf,
    },
    /// The repository has no worktree, and its `HEAD` leads to a branch that has no commits.
    #[error("`HEAD` of the bare repository at `{}` leads to no commit, and that is where its sites are looked for", path.display())]
    Unborn {
        /// The repository.
        path: PathBuf,
    },
    /// The repository's format has an extension that cannot be read here.
    #[error("the repository at `{}` uses {format}, which trueup cannot read", path.display())]
    Format {
        /// The repository.
        path: PathBuf,
        /// The extension.
        format: Format,
    },
    /// The git program refused a question about this repository.
    #[error("failed to {attempt}: {message}")]
    Program {
        /// The attempt, as a verb phrase.
        attempt: String,
        /// Git's message.
        message: String,
    },
    /// An object is missing, and the clone is a partial one.
    #[error("{object} was left out of this partial clone")]
    PartialClone {
        /// The missing object, or the words of libgit2 about it.
        object: String,
        /// The remote that promised it.
        remote: String,
    },
    /// The history ends before the commit that was looked for.
    #[error("this clone is shallow: its history does not reach {wanted}")]
    Shallow {
        /// The wanted revision.
        wanted: String,
    },
    /// A commit that was applied, and that the remote does not have any more: its history was rewritten.
    #[error("commit {} no longer exists at the remote `{remote}`", commit.short())]
    Gone {
        /// The commit.
        commit: CommitId,
        /// The remote.
        remote: String,
    },
    /// A revision that git cannot resolve to a commit.
    #[error("`{revision}` names no commit")]
    UnknownRevision {
        /// As it was given.
        revision: String,
        /// Git's message.
        reason: String,
        /// Whether the history of the clone was cut off, so that it may be behind that.
        is_shallow: bool,
    },
    /// A name of a tag and of a branch that are different commits.
    #[error("`{name}` is ambiguous: a tag and a branch with that name are different commits")]
    AmbiguousRevision {
        /// The name.
        name: String,
    },
    /// The older commit is not on the first-parent line of the newer one.
    #[error("commit {} is not on the first-parent line of {}", from.short(), to.short())]
    Diverged {
        /// The older commit.
        from: CommitId,
        /// The newer commit.
        to: CommitId,
    },
    /// More files than any site has.
    #[error("more than {limit} files and folders under the selected folders")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A file that is larger than the caller reads.
    #[error("`{path}` has {size} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Path in the repository.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of a site that cannot be used.
    #[error("`{path}` {reason}")]
    Unusable {
        /// Path in the repository.
        path: String,
        /// Why not.
        reason: super::Reason,
    },
    /// A file of the worktree could not be read.
    #[error("failed to read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file below `.git` could not be written.
    #[error("failed to write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The ref has another value than the one that was expected: another process was faster.
    #[error("`{name}` moved: expected {}, found {}", shown(*expected), shown(*found))]
    RefMoved {
        /// The ref.
        name: String,
        /// The value that it should have had; `None`: should not exist.
        expected: Option<ObjectId>,
        /// The value that it has.
        found: Option<ObjectId>,
    },
    /// Another process holds git's lock file of the ref, and does not release it.
    #[error("`{name}` is locked by `{}`", path.display())]
    RefLocked {
        /// The ref.
        name: String,
        /// The lock file.
        path: PathBuf,
    },
    /// A name that git does not take for a ref, or that another ref stands in the way of.
    #[error("`{name}` cannot be a ref: {reason}")]
    BadRef {
        /// The name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The name of a remote that is not configured, or that would be taken for a flag.
    #[error("there is no remote `{name}`")]
    UnknownRemote {
        /// The name.
        name: String,
    },
    /// The `git` program could not be run.
    #[error("failed to run the `git` program")]
    NoGitProgram {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The `ssh-keygen` program could not be run.
    #[error("failed to run the `ssh-keygen` program")]
    NoSshKeygen {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A message could not be signed.
    #[error("`ssh-keygen` did not sign: {message}")]
    NotSigned {
        /// Its message.
        message: String,
    },
    /// The `git` program took longer than is left of the time for the remote, and was ended.
    #[error("`git {command}` did not end within the {seconds} s that the remote has")]
    GitTimeout {
        /// Its subcommand.
        command: String,
        /// The time that all calls have.
        seconds: u64,
    },
    /// The remote could not be asked.
    #[error("the remote `{remote}` could not be reached: {message}")]
    Unreachable {
        /// The remote.
        remote: String,
        /// Git's message, without credentials.
        message: String,
    },
    /// The remote refused to take a ref.
    #[error("the remote `{remote}` refused `{name}`: {message}")]
    Refused {
        /// The remote.
        remote: String,
        /// The ref.
        name: String,
        /// The remote's message, without credentials.
        message: String,
        /// Whether the remote has others below the same prefix, so that it takes such names.
        takes_such: bool,
    },
    /// The lock of the site is held.
    #[error("the lock of site `{site}` is held by {} on {} (run {}, since {})", holder.who, holder.host, holder.run, holder.since)]
    Locked {
        /// The site.
        site: String,
        /// By whom.
        holder: Box<super::Holder>,
    },
    /// A lock tells nothing of its holder.
    #[error("lock {id} is broken: {reason}")]
    BrokenLock {
        /// Its commit.
        id: super::CommitId,
        /// The problem.
        reason: String,
    },
    /// Something in the repository is not as trueup writes it.
    #[error("{what} is broken: {reason}")]
    Broken {
        /// The ref, path or object.
        what: String,
        /// The problem.
        reason: String,
    },
    /// No branch is checked out that could be moved.
    #[error("no branch is checked out")]
    Detached,
    /// Files of the worktree would be overwritten.
    #[error("the worktree has changes that are not committed, in files that commit {} changes", to.short())]
    WorktreeInTheWay {
        /// The commit that was to be checked out.
        to: CommitId,
    },
    /// Any other failure of git.
    #[error("failed to {attempt}")]
    Git {
        /// The attempt, as a verb phrase.
        attempt: String,
        /// The error of libgit2.
        #[source]
        source: git2::Error,
    },
}

/// A format of repositories that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Refs in reftables.
    Reftable,
    /// Objects with ids by SHA-256.
    Sha256,
    /// Another extension.
    Extension(String),
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reftable => f.write_str("`reftable`"),
            Self::Sha256 => f.write_str("SHA-256 object ids"),
            Self::Extension(name) => write!(f, "the extension `{name}`"),
        }
    }
}

fn shown(id: Option<ObjectId>) -> String {
    id.map_or_else(|| "nothing".to_owned(), |id| id.short())
}

impl Error {
    /// The way out, if there is one: a sentence without a trailing period, commands in backticks.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Detached => "check out a branch: `git switch BRANCH`".to_owned(),
            Self::WorktreeInTheWay { .. } => {
                "`git status` lists them: commit them, or put them aside".to_owned()
            }
            Self::NoRepository { .. } => {
                "trueup keeps its records in git: run it inside the site's repository; `trueup init DIR` makes one with a small site, `git init` an empty one"
                    .to_owned()
            }
            Self::BrokenLock { .. } => "who holds it is not known: where no run of the site is at work, delete it at the remote (`git push REMOTE :refs/trueup/SITE/lock`) and here (`git update-ref -d refs/trueup/SITE/lock`); a run that was interrupted is found by its records then".to_owned(),
            Self::SeveralRemotes { names } => format!(
                "name it with `--remote NAME`, or have the branch track it: `git branch --set-upstream-to {}/BRANCH`",
                names.first().map_or("REMOTE", String::as_str)
            ),
            Self::ForeignOwner { path } => format!(
                "if you trust it, run `git config --global --add safe.directory {}`",
                path.display()
            ),
            Self::Bare { path } => format!(
                "`--rev REV` names what `validate`, `render` and `plan` read of it; else run trueup in a checkout: `git clone {}`, or `git worktree add`",
                path.display()
            ),
            Self::Unborn { .. } => {
                "`git symbolic-ref HEAD refs/heads/BRANCH` has it lead to a branch that has commits".to_owned()
            }
            Self::Format { format, .. } => match format {
                Format::Reftable => "run `git refs migrate --ref-format=files`, or clone it again with `--ref-format=files`",
                Format::Sha256 => "every clone of it has them, too: a new repository with SHA-1 ids takes its history, by `git init --object-format=sha1 NEW` and `git fast-export --all | git -C NEW fast-import`",
                Format::Extension(_) => "make a plain clone of the repository and run trueup there",
            }
            .to_owned(),
            Self::PartialClone { remote, .. } => format!(
                "`git config --unset remote.{remote}.partialclonefilter; git fetch --refetch {remote}` fetches what branches lead to; a command that asks the remote, such as `trueup log`, fetches the records"
            ),
            Self::Shallow { .. } => "fetch the rest of the history: `git fetch --unshallow`".to_owned(),
            Self::Gone { commit, remote } => format!(
                "a clone or a backup that still has it can push it: `git push {remote} {commit}:refs/heads/NAME`"
            ),
            Self::UnknownRevision { is_shallow: true, .. } => {
                "this clone is shallow: `git fetch --unshallow` fetches the rest of its history, which may have it".to_owned()
            }
            Self::UnknownRevision { .. } => {
                "`git log --oneline` lists commits, `trueup log` lists site actions; a branch or tag may have to be fetched first".to_owned()
            }
            Self::AmbiguousRevision { name } => {
                format!("write `refs/heads/{name}` for the branch, or `refs/tags/{name}` for the tag")
            }
            Self::RefMoved { .. } => {
                "another run was faster; nothing was lost, plan again".to_owned()
            }
            Self::RefLocked { path, .. } => format!(
                "if no git command is running, one was killed: remove `{}`",
                path.display()
            ),
            Self::UnknownRemote { .. } => "`git remote -v` lists the remotes".to_owned(),
            Self::NoGitProgram { .. } => "trueup uses the `git` program for remotes: install it, or work with `--offline`".to_owned(),
            Self::NoSshKeygen { .. } => "install OpenSSH, or name the program with `git config gpg.ssh.program`".to_owned(),
            Self::NotSigned { .. } => "`ssh-add -l` lists the keys of the agent; a security key may have to be touched".to_owned(),
            Self::Unreachable { .. } | Self::GitTimeout { .. } => {
                "with `--offline` a plan can be made without the remote; nothing is applied, reserved or released without it".to_owned()
            }
            Self::Refused {
                remote,
                name,
                message,
                takes_such,
            } => Refusal::of(message).hint(remote, name, *takes_such),
            Self::Write { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                "the disk is full: free space on it, and run the command again".to_owned()
            }
            _ => return None,
        })
    }
}
