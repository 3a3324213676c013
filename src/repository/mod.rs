//! git: trees at a revision and in the worktree, refs by compare-and-swap, tags, the lock, the remote.
//!
//! Bytes only: nothing here depends on documents, plans or records. This module is the only user
//! of libgit2 and of the `git` program. Local objects go through libgit2 (its handles are pooled, so
//! that a [`Repository`] can be shared between threads); the network goes through the program, which
//! has the user's credential helpers, proxies and job tokens.
//!
//! Objects are durable before a ref names them, and a ref moves only from the value that its
//! writer has seen: killed at any instant, the repository is either as before or as after.

mod answers;
mod attributes;
mod commit;
mod complete;
mod configuration;
mod conversion;
mod elsewhere;
mod entry;
mod error;
mod folder;
mod forward;
mod history;
mod identity;
mod layout;
mod listings;
mod lock;
mod lock_file;
mod machine;
mod new;
mod object_id;
mod objects;
mod pack;
mod program;
mod range;
mod read;
mod ref_list;
mod refs;
mod refusal;
mod remote;
mod signed;
mod skipped;
mod ssh;
mod stamps;
mod tag;
mod tree;
mod walk;
mod worktree;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::cache::Cache;
use crate::threads::lock;
use answers::Answers;
use configuration::Configuration;
use conversion::LineEnds;
use layout::Layout;
use program::Environment;

pub use commit::{NewCommit, Signature};
pub use elsewhere::OtherRepository;
pub use entry::{Elsewhere, Entry, Mode, Problem, Reason, Selection, Tree};
pub use error::{Error, Format};
pub use history::CommitSummary;
pub use layout::{common_dir_around, setting_in};
pub use listings::Listings;
pub use lock::{Lock, NewLock};
pub use machine::Holder;
pub use object_id::{BlobId, CommitId, NoObjectId, ObjectId};
pub use pack::Deflated;
pub use program::ProgramTimeout;
pub use range::TouchedFile;
pub use read::{Links, ReadError, open_file, read_file, replace_file};
pub use refs::{is_plain_name, is_ref_name};
pub use remote::{BRANCHES, PushOutcome, REMOTE_COPIES, RefUpdate, Remote, Transport, Wanted};
pub use signed::SignedCommit;
pub use ssh::{PublicKey, Signed, SigningKey, claimed_key};
pub use stamps::Moment;
pub use tag::{NewTag, Tag};
pub use tree::{Content, blob_id, site_digest};
pub use worktree::{Dirty, LARGEST_FILE, WorktreeChange};

/// A git repository.
pub struct Repository {
    root: PathBuf,
    git_dir: PathBuf,
    is_bare: bool,
    common_dir: PathBuf,
    /// The configuration of git.
    configuration: Mutex<Arc<Configuration>>,
    /// Which line ends git commits as LF without attributes (`core.autocrlf`).
    line_ends: LineEnds,
    /// Whether the executable bit of the worktree's files counts (`core.fileMode`).
    trusts_file_mode: bool,
    /// The environment of the git program; absent: the environment of this process.
    environment: Environment,
    /// The cache.
    cache: Cache,
    /// Other repositories that hold documents of its sites.
    others: Vec<OtherRepository>,
    /// Idle handles.
    idle: Mutex<Vec<git2::Repository>>,
    /// Answers of remotes that are a moment old.
    answers: Answers,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Repository {
    /// The repository that holds a folder, looked for from there upward.
    ///
    /// # Errors
    ///
    /// No repository, one of another user, or one in a format that libgit2 cannot read;
    /// each with a hint.
    pub fn discover(start: &Path) -> Result<Self, Error> {
        Self::found(start, &|_| None)
    }

    /// The repository that holds a folder, if the git program gets these variables and no others; they may depend
    /// on the top of its worktree.
    ///
    /// # Errors
    ///
    /// As [`Repository::discover`].
    pub fn discover_with(
        start: &Path,
        variables: &dyn Fn(&Path) -> Vec<(OsString, OsString)>,
    ) -> Result<Self, Error> {
        Self::found(start, &|top| Some(variables(top)))
    }

    fn found(start: &Path, variables: &dyn Fn(&Path) -> Environment) -> Result<Self, Error> {
        let (layout, handle) = Layout::find(start, variables)?;
        let configuration = layout.configuration;
        let autocrlf = configuration.value("core.autocrlf").unwrap_or_default();
        Ok(Self {
            line_ends: match autocrlf.eq_ignore_ascii_case("input")
                || configuration.truth("core.autocrlf").unwrap_or(false)
            {
                true => LineEnds::Guessed,
                false => LineEnds::Unchanged,
            },
            trusts_file_mode: configuration.truth("core.filemode").unwrap_or(true),
            configuration: Mutex::new(Arc::new(configuration)),
            environment: variables(&layout.root),
            root: layout.root,
            git_dir: layout.git_dir,
            is_bare: layout.is_bare,
            common_dir: handle.commondir().to_owned(),
            cache: Cache::none(),
            others: Vec::new(),
            idle: Mutex::new(vec![handle]),
            answers: Answers::default(),
        })
    }

    /// The same repository with a cache in the folder that all its worktrees share. `program`: which
    /// build of which program reads and writes it.
    #[must_use]
    pub fn with_cache(mut self, program: &[u8]) -> Self {
        // No site can have this name.
        self.cache = Cache::new(&self.common_dir.join("trueup").join(".cache"), program);
        self
    }

    /// The same repository for one command: what its remotes answered counts for a moment.
    #[must_use]
    pub fn with_answers(mut self) -> Self {
        self.answers = Answers::kept();
        self
    }

    /// The same repository, whose git program gets these variables and no others.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(OsString, OsString)>) -> Self {
        self.environment = Some(variables);
        self
    }

    /// Returns the variables that the configured credential helpers name (`$NAME`, `${NAME}`), and those
    /// that `trueup.gitEnvironment` lists.
    #[must_use]
    pub fn helper_variables(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (key, value) in self.configuration().values() {
            if key == "trueup.gitenvironment" {
                names.extend(value.split([',', ' ']).map(str::to_owned));
            } else if key.starts_with("credential.") && key.ends_with(".helper") {
                names.extend(variables_in(value));
            }
        }
        names
    }

    fn configuration(&self) -> Arc<Configuration> {
        lock(&self.configuration).clone()
    }

    /// The cache of recomputable data; empty without [`Repository::with_cache`].
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether it has no worktree: then its own folder is its root.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Checks that there is a worktree.
    ///
    /// # Errors
    ///
    /// It is bare.
    pub fn need_worktree(&self) -> Result<(), Error> {
        match self.is_bare {
            false => Ok(()),
            true => Err(Error::Bare {
                path: self.root.clone(),
            }),
        }
    }

    /// The top folder of the worktree, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that all worktrees of the repository share (`.git`), absolute.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The commit that is checked out; `None` before the first commit.
    ///
    /// # Errors
    ///
    /// `HEAD` cannot be read.
    pub fn head(&self) -> Result<Option<CommitId>, Error> {
        self.with(|handle| match handle.head() {
            Ok(head) => head
                .peel_to_commit()
                .map(|commit| Some(commit.id().into()))
                .map_err(git("read `HEAD`")),
            Err(error)
                if matches!(
                    error.code(),
                    git2::ErrorCode::UnbornBranch | git2::ErrorCode::NotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(git("read `HEAD`")(error)),
        })
    }

    /// The branch that is checked out, without `refs/heads/`; `None` if `HEAD` is detached.
    ///
    /// # Errors
    ///
    /// `HEAD` cannot be read.
    pub fn branch(&self) -> Result<Option<String>, Error> {
        self.with(|handle| {
            let head = handle.find_reference("HEAD").map_err(git("read `HEAD`"))?;
            let target = head.symbolic_target().ok().flatten();
            Ok(target
                .and_then(|target| target.strip_prefix("refs/heads/"))
                .map(str::to_owned))
        })
    }

    /// The upstream of the branch that is checked out, such as `origin/main`, if it does not hold a commit.
    ///
    /// # Errors
    ///
    /// A branch or a commit cannot be read.
    pub fn upstream_without(&self, commit: CommitId) -> Result<Option<String>, Error> {
        let Some(branch) = self.branch()? else {
            return Ok(None);
        };
        let upstream = self.with(|handle| {
            let branch = handle.find_branch(&branch, git2::BranchType::Local);
            let Ok(upstream) = branch.and_then(|branch| branch.upstream()) else {
                return Ok(None);
            };
            let name = upstream.name().ok().flatten().map(str::to_owned);
            Ok(name.zip(upstream.get().target()))
        })?;
        match upstream {
            Some((name, tip)) if !self.is_ancestor(commit, tip.into())? => Ok(Some(name)),
            _ => Ok(None),
        }
    }

    /// The commit that a revision names: anything that git resolves.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownRevision`], naming it; [`Error::AmbiguousRevision`].
    pub fn resolve(&self, revision: &str) -> Result<CommitId, Error> {
        self.not_ambiguous(revision)?;
        let found = self.with(|handle| {
            Ok(handle
                .revparse_single(revision)
                .and_then(|object| object.peel_to_commit())
                .map(|commit| commit.id().into()))
        })?;
        found.or_else(
            |error: git2::Error| match self.resolve_by_program(revision) {
                Some(commit) => Ok(commit),
                None => Err(Error::UnknownRevision {
                    revision: revision.to_owned(),
                    reason: error.message().to_owned(),
                    is_shallow: self.is_shallow()?,
                }),
            },
        )
    }

    /// That a name is not that of a tag and of a branch with another commit: git takes the tag, and most who type it mean the
    /// branch.
    fn not_ambiguous(&self, name: &str) -> Result<(), Error> {
        let commit = |folder: &str| {
            let name = format!("refs/{folder}/{name}");
            self.with(|handle| {
                let found = handle.find_reference(&name).ok();
                Ok(found
                    .and_then(|found| found.peel_to_commit().ok())
                    .map(|commit| commit.id()))
            })
        };
        match (commit("tags")?, commit("heads")?) {
            (Some(tag), Some(branch)) if tag != branch => Err(Error::AmbiguousRevision {
                name: name.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// A value of the configuration of git, the repository's own before the user's.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read; a key that is not set is `None`.
    pub fn config(&self, key: &str) -> Result<Option<String>, Error> {
        Ok(self.configuration().value(key).map(str::to_owned))
    }

    /// Where trueup's refs are: `trueup.refPrefix`, or `refs/trueup`; without a slash at the end.
    ///
    /// # Errors
    ///
    /// [`Error::BadRef`] if the configured prefix cannot be the beginning of a ref.
    pub fn ref_prefix(&self) -> Result<String, Error> {
        let Some(prefix) = self.config("trueup.refPrefix")? else {
            return Ok("refs/trueup".to_owned());
        };
        let prefix = prefix.trim_end_matches('/');
        let usable = prefix.starts_with("refs/")
            && !prefix.starts_with("refs/tags")
            && git2::Reference::is_valid_name(&format!("{prefix}/site/state"));
        if usable {
            Ok(prefix.to_owned())
        } else {
            Err(Error::BadRef {
                name: prefix.to_owned(),
                reason: "`trueup.refPrefix` must begin with `refs/`, and not be below `refs/tags`"
                    .to_owned(),
            })
        }
    }

    /// The branches at a remote below which the records of sites are: `trueup.stateBranch`, without `refs/heads/`;
    /// `None` if it is not set.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn state_branch(&self) -> Result<Option<String>, Error> {
        self.config("trueup.stateBranch")
    }

    /// The remote that is worked with if none is named.
    ///
    /// The one that the current branch tracks, else the only one there is, else `origin` if that
    /// is configured (as git itself chooses): a pipeline's checkout is on no branch. `None`: there is none.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read, or it leaves open which of several: a run that took its lock in this clone alone would meet none
    /// of those that are locked at a remote.
    pub fn default_remote(&self) -> Result<Option<String>, Error> {
        if let Some(branch) = self.branch()?
            && let Some(remote) = self.config(&format!("branch.{branch}.remote"))?
            && remote != "."
        {
            return Ok(Some(remote));
        }
        let mut remotes = self.remotes()?;
        if remotes.len() == 1 {
            return Ok(remotes.pop());
        }
        match remotes.iter().any(|remote| remote == "origin") {
            true => Ok(Some("origin".to_owned())),
            false if remotes.is_empty() => Ok(None),
            false => Err(Error::SeveralRemotes { names: remotes }),
        }
    }

    /// The names of the configured remotes, sorted.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn remotes(&self) -> Result<Vec<String>, Error> {
        let configuration = self.configuration();
        let names: BTreeSet<&str> = configuration
            .values()
            .filter_map(|(key, _)| {
                let (name, what) = key.strip_prefix("remote.")?.rsplit_once('.')?;
                matches!(what, "url" | "pushurl").then_some(name)
            })
            .collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// Whether the history of this clone was cut off.
    ///
    /// # Errors
    ///
    /// The repository cannot be opened again.
    pub fn is_shallow(&self) -> Result<bool, Error> {
        self.with(|handle| Ok(handle.is_shallow()))
    }

    /// Runs `work` with a handle of its own, from the pool.
    fn with<T>(
        &self,
        work: impl FnOnce(&git2::Repository) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let handle = match idle {
            Some(handle) => handle,
            None => self.open()?,
        };
        let result = work(&handle);
        lock(&self.idle).push(handle);
        result
    }

    /// A new handle.
    fn open(&self) -> Result<git2::Repository, Error> {
        layout::open(&self.git_dir, &self.root)
    }

    /// Drops the handles, so that changes by the `git` program (packs, the ends of a shallow
    /// history) become visible.
    fn forget_handles(&self) {
        lock(&self.idle).clear();
    }

    /// The remote that promised the objects which this clone was made without, if it is a partial one.
    fn promisor(&self) -> Option<String> {
        let configuration = self.configuration();
        let mut remotes = self.remotes().unwrap_or_default().into_iter();
        let named = configuration.value("extensions.partialclone");
        remotes.find(|remote| {
            let key = format!("remote.{remote}.promisor");
            configuration.truth(&key).unwrap_or(false) || named == Some(remote)
        })
    }

    /// Classifies a failure to read an object: in a partial clone it was left out.
    fn reading(&self, what: &str, error: git2::Error) -> Error {
        if error.code() == git2::ErrorCode::NotFound
            && let Some(remote) = self.promisor()
        {
            return Error::PartialClone {
                object: what.to_owned(),
                remote,
            };
        }
        git(format!("read {what}"))(error)
    }
}

/// Turns a failure of libgit2 into an [`Error::Git`] that names the attempt.
fn git(attempt: impl Into<String>) -> impl FnOnce(git2::Error) -> Error {
    let attempt = attempt.into();
    move |source| Error::Git { attempt, source }
}

/// The variables that a line for a shell names.
fn variables_in(line: &str) -> Vec<String> {
    let named = line.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|each: char| !(each.is_ascii_alphanumeric() || each == '_'));
        rest[..end.unwrap_or(rest.len())].to_owned()
    });
    named.filter(|name| !name.is_empty()).collect()
}
