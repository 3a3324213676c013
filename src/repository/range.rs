//! The files that the commits of a range touch.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{CommitId, Error, OtherRepository, Repository, git, history, walk};

/// A document, or a link, that commits of a range touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedFile {
    /// Its path.
    pub path: Arc<str>,
    /// Whether it is a link, or was one: what is below it is touched too.
    pub is_link: bool,
    /// The newest commit that touches it.
    pub commit: CommitId,
}

impl Repository {
    /// The documents and links that are touched by a commit which can be reached from `to` and not from `from`, each
    /// compared with its first parent; sorted by path.
    ///
    /// # Errors
    ///
    /// [`Error::Shallow`] if the history was cut off within the range; a commit or tree cannot be read.
    pub fn touched_between(&self, from: CommitId, to: CommitId) -> Result<Vec<TouchedFile>, Error> {
        let ends = self.shallow_ends();
        let mut touched: BTreeMap<String, (bool, CommitId)> = BTreeMap::new();
        self.with(|handle| {
            self.find(handle, from.git())?;
            let walking = |error| git(format!("list the commits from {from} to {to}"))(error);
            let mut commits = handle.revwalk().map_err(walking)?;
            let sorted = git2::Sort::TOPOLOGICAL | git2::Sort::TIME;
            commits.set_sorting(sorted).map_err(walking)?;
            commits.push(to.git()).map_err(walking)?;
            commits.hide(from.git()).map_err(walking)?;
            for id in commits {
                let id = id.map_err(walking)?;
                if ends.contains(&id) {
                    let wanted = format!("commit {}", from.short());
                    return Err(Error::Shallow { wanted });
                }
                let commit = self.find(handle, id)?;
                let parent = self.first_parent(handle, &commit)?;
                let before = parent.as_ref().map(git2::Commit::tree_id);
                let trees = [before, Some(commit.tree_id())];
                // As a walk over the files of a site has it: trees can stand for any number of folders.
                let folders = Cell::new(0);
                let goes_in = |folder: &str| {
                    folders.set(folders.get() + 1);
                    folders.get() <= walk::MOST_NODES && folder.split('/').count() <= walk::DEEPEST
                };
                let _ = history::differing(handle, trees, "", &goes_in, &mut |found| {
                    let known = touched.get_mut(found.path);
                    match known {
                        Some((is_link, _)) => *is_link |= found.is_link,
                        None => {
                            let newest = (found.is_link, CommitId::from(id));
                            touched.insert(found.path.to_owned(), newest);
                        }
                    }
                    ControlFlow::Continue(())
                })?;
                if folders.get() > walk::MOST_NODES {
                    let limit = walk::MOST_NODES;
                    return Err(Error::TooManyFiles { limit });
                }
            }
            Ok(())
        })?;
        let files = touched
            .into_iter()
            .map(|(path, (is_link, commit))| TouchedFile {
                path: Arc::from(path),
                is_link,
                commit,
            });
        Ok(files.collect())
    }
}

impl OtherRepository {
    /// The same of another repository.
    ///
    /// # Errors
    ///
    /// As [`Repository::touched_between`].
    pub fn touched_between(&self, from: CommitId, to: CommitId) -> Result<Vec<TouchedFile>, Error> {
        self.repository.touched_between(from, to)
    }
}
