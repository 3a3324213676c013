//! Other repositories that hold documents of a site: their files stand beside its own, at one commit each.
//!
//! The operator says where they are; nothing of the site can. A file of another repository has the name of that and a
//! colon before its path, and is told from a file of the same name by [`Entry::is_elsewhere`].

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::entry::{Elsewhere, Entry, Selection, Tree};
use super::{CommitId, Error, Repository};

/// Another repository that holds documents of a site.
#[derive(Debug)]
pub struct OtherRepository {
    /// Its name in the site's definition.
    pub name: Arc<str>,
    /// The revision to read, if the operator named one; else the definition does.
    pub revision: Option<String>,
    pub(super) repository: Repository,
}

impl OtherRepository {
    /// Opens the repository whose top is a folder; `variables`: those that the git program gets there.
    ///
    /// # Errors
    ///
    /// Those of [`Repository::discover`]; the folder is inside a repository.
    pub fn open(
        name: Arc<str>,
        path: &Path,
        revision: Option<String>,
        variables: &dyn Fn(&Path) -> Vec<(OsString, OsString)>,
    ) -> Result<Self, Error> {
        let repository = Repository::discover_with(path, variables)?;
        let real = |path: &Path| path.canonicalize().ok();
        if real(repository.root()) != real(path) {
            return Err(Error::NoRepository {
                start: path.to_owned(),
            });
        }
        Ok(Self {
            name,
            revision,
            repository,
        })
    }

    /// The commit of a revision of it.
    ///
    /// # Errors
    ///
    /// It names none.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, Error> {
        self.repository.resolve(revision)
    }

    /// Selects files at a commit; `None` if it has none of them.
    ///
    /// # Errors
    ///
    /// An object cannot be read, or there are too many files.
    pub fn select(
        &self,
        commit: CommitId,
        selection: Selection,
    ) -> Result<Option<Elsewhere>, Error> {
        let tree = self.repository.tree_at(commit, &selection)?;
        Ok((!tree.entries.is_empty()).then(|| Elsewhere {
            name: self.name.clone(),
            commit,
            selection,
        }))
    }
}

impl Repository {
    /// The same repository, beside others that hold documents of its sites.
    #[must_use]
    pub fn with_others(mut self, others: Vec<OtherRepository>) -> Self {
        self.others = others;
        self
    }

    /// The other repositories that hold documents of its sites.
    #[must_use]
    pub fn others(&self) -> &[OtherRepository] {
        &self.others
    }

    /// Adds the selected files of other repositories to those of this one, whose files of the worktree are read as git
    /// would commit them.
    pub(super) fn with_elsewhere(
        &self,
        mut tree: Tree,
        selection: &Selection,
    ) -> Result<Tree, Error> {
        if tree.revision.is_none() {
            self.note_conversions(&mut tree.entries)?;
        }
        for each in selection.elsewhere() {
            let others = (0u32..).zip(&self.others);
            let Some((position, other)) = others.into_iter().find(|(_, one)| one.name == each.name)
            else {
                continue;
            };
            let found = other.repository.tree_at(each.commit, &each.selection)?;
            let named = |path: &str| Arc::from(format!("{}:{path}", each.name));
            for mut entry in found.entries {
                entry.path = named(&entry.path);
                entry.leads_to = None;
                entry.elsewhere = Some(position);
                tree.entries.push(entry);
            }
            for mut problem in found.problems {
                problem.path = named(&problem.path);
                tree.problems.push(problem);
            }
        }
        if !selection.elsewhere().is_empty() {
            tree.entries.sort_by(|one, other| one.path.cmp(&other.path));
            tree.problems.sort();
        }
        Ok(tree)
    }

    /// The repository that holds the bytes of a file.
    pub(super) fn holder(&self, entry: &Entry) -> &Self {
        let other = entry.elsewhere.and_then(|at| self.others.get(at as usize));
        other.map_or(self, |other| &other.repository)
    }
}

impl Entry {
    /// Whether it is a file of another repository.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }
}
