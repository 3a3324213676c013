//! A new repository, and commits of what is in its worktree: all of it, or some files.
//!
//! For sites that trueup itself writes (`init`, `demo`); the repositories of others are only read, but
//! for trueup's own refs.

use std::path::Path;
use std::sync::Arc;

use super::{CommitId, Error, Repository, Signature, git};
use crate::threads::lock;

impl Repository {
    /// Makes a repository in a folder, on the branch `main`, and opens it.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn init(folder: &Path) -> Result<Self, Error> {
        let mut options = git2::RepositoryInitOptions::new();
        options.initial_head("main").no_reinit(true).mkpath(true);
        git2::Repository::init_opts(folder, &options).map_err(git("make a repository"))?;
        Self::discover(folder)
    }

    /// Clones a repository of this machine into a new folder; `bare`: without a worktree, to be pushed to.
    ///
    /// # Errors
    ///
    /// The folder is not empty, or one of them cannot be read or written.
    pub fn clone_local(from: &Path, folder: &Path, bare: bool) -> Result<(), Error> {
        git2::build::RepoBuilder::new()
            .bare(bare)
            .clone(&from.to_string_lossy(), folder)
            .map_err(git("clone a repository"))?;
        Ok(())
    }

    /// Clones a repository of this machine into a new folder, at a commit and without any remote.
    ///
    /// # Errors
    ///
    /// As [`Self::clone_local`]; the commit is not found in it.
    pub fn clone_apart(from: &Path, folder: &Path, commit: CommitId) -> Result<(), Error> {
        Self::clone_local(from, folder, false)?;
        let handle = git2::Repository::open(folder).map_err(git("open a clone"))?;
        let cutting = || git("take the remotes out of a clone");
        let remotes = handle.remotes().map_err(cutting())?;
        for remote in remotes.iter().flatten().flatten() {
            handle.remote_delete(remote).map_err(cutting())?;
        }
        let checking_out = || git(format!("check {commit} out"));
        let object = handle.find_object(commit.0.git(), None);
        let object = object.map_err(checking_out())?;
        handle
            .reset(&object, git2::ResetType::Hard, None)
            .map_err(checking_out())
    }

    /// Sets a value in the configuration of this repository alone.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn configure(&self, key: &str, value: &str) -> Result<(), Error> {
        self.with(|handle| {
            let config = handle
                .config()
                .and_then(|config| config.open_level(git2::ConfigLevel::Local));
            let set = config.and_then(|mut config| config.set_str(key, value));
            set.map_err(git("write the configuration of git"))
        })?;
        let mut configuration = lock(&self.configuration);
        Arc::make_mut(&mut configuration).set(key, value);
        Ok(())
    }

    /// Commits the worktree as it is, on top of `HEAD`, and moves `HEAD`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or git's data not written.
    pub fn commit_worktree(&self, author: &Signature, message: &str) -> Result<CommitId, Error> {
        self.with(|handle| {
            let committing = || git("commit the worktree");
            let mut index = handle.index().map_err(committing())?;
            index
                .add_all(["*"], git2::IndexAddOption::DEFAULT, None)
                .and_then(|()| index.update_all(["*"], None))
                .and_then(|()| index.write())
                .map_err(committing())?;
            let tree = index
                .write_tree()
                .and_then(|tree| handle.find_tree(tree))
                .map_err(committing())?;
            let parent = handle
                .head()
                .ok()
                .and_then(|head| head.peel_to_commit().ok());
            let time = git2::Time::new(author.seconds, 0);
            let author =
                git2::Signature::new(&author.name, &author.email, &time).map_err(committing())?;
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            handle
                .commit(Some("HEAD"), &author, &author, message, &tree, &parents)
                .map(|commit| CommitId(commit.into()))
                .map_err(committing())
        })
    }

    /// The first file that the index has otherwise than `HEAD`: a commit would hold it, too.
    ///
    /// # Errors
    ///
    /// Git's data cannot be read.
    pub fn staged(&self) -> Result<Option<String>, Error> {
        self.with(|handle| {
            let reading = || git("compare the index with HEAD");
            let head = handle.head().and_then(|head| head.peel_to_tree());
            let head = head.map_err(reading())?;
            let index = handle.index().map_err(reading())?;
            let staged = handle.diff_tree_to_index(Some(&head), Some(&index), None);
            let staged = staged.map_err(reading())?;
            let first = staged.deltas().next();
            Ok(first.map(|delta| {
                let path = delta.new_file().path().or_else(|| delta.old_file().path());
                path.map_or_else(String::new, |path| path.display().to_string())
            }))
        })
    }

    /// Makes a commit on top of `HEAD` in which some files are as in another commit. No reference leads to it.
    ///
    /// # Errors
    ///
    /// An object cannot be read or written.
    pub fn commit_as_of(
        &self,
        author: &Signature,
        message: &str,
        target: CommitId,
        paths: &[Arc<str>],
    ) -> Result<CommitId, Error> {
        self.with(|handle| {
            let made = || -> Result<CommitId, git2::Error> {
                let parent = handle.head()?.peel_to_commit()?;
                let then = handle.find_commit(target.git())?.tree()?;
                let mut changes = git2::build::TreeUpdateBuilder::new();
                for path in paths {
                    match then.get_path(Path::new(&**path)) {
                        Ok(entry) => {
                            let mode = match entry.filemode() {
                                0o100_755 => git2::FileMode::BlobExecutable,
                                0o120_000 => git2::FileMode::Link,
                                _ => git2::FileMode::Blob,
                            };
                            changes.upsert(&**path, entry.id(), mode);
                        }
                        Err(error) if error.class() == git2::ErrorClass::Tree => {
                            changes.remove(&**path);
                        }
                        Err(error) => return Err(error),
                    }
                }
                let tree = changes.create_updated(handle, &parent.tree()?)?;
                let tree = handle.find_tree(tree)?;
                let time = git2::Time::new(author.seconds, 0);
                let author = git2::Signature::new(&author.name, &author.email, &time)?;
                let commit = handle.commit(None, &author, &author, message, &tree, &[&parent])?;
                Ok(CommitId(commit.into()))
            };
            made().map_err(git("make a commit of files of another one"))
        })
    }

    /// Commits some files of the worktree as they are, on top of `HEAD`, with all that the index has, and moves `HEAD`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or git's data not written.
    pub fn commit_paths(
        &self,
        author: &Signature,
        message: &str,
        paths: &[String],
    ) -> Result<CommitId, Error> {
        self.with(|handle| {
            let committing = || git("commit files of the worktree");
            let parent = handle.head().and_then(|head| head.peel_to_commit());
            let parent = parent.map_err(committing())?;
            let mut index = handle.index().map_err(committing())?;
            for path in paths {
                let path = Path::new(path);
                let changed = match self.root().join(path).symlink_metadata() {
                    Ok(_) => index.add_path(path),
                    Err(_) => index.remove_path(path),
                };
                changed.map_err(committing())?;
            }
            let tree = index
                .write()
                .and_then(|()| index.write_tree())
                .and_then(|tree| handle.find_tree(tree))
                .map_err(committing())?;
            let time = git2::Time::new(author.seconds, 0);
            let author =
                git2::Signature::new(&author.name, &author.email, &time).map_err(committing())?;
            handle
                .commit(Some("HEAD"), &author, &author, message, &tree, &[&parent])
                .map(|commit| CommitId(commit.into()))
                .map_err(committing())
        })
    }
}
