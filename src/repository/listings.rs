//! The files below the folders of several selections, each folder listed once.
//!
//! Sites of one repository share most of their folders. A tree that is put together of what was listed is the one that
//! [`Repository::worktree`] and [`Repository::tree_at`] give for its selection, at the time of the listing.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::walk::{self, Listed};
use super::{CommitId, Error, Repository, Selection, Tree};

/// The files below some folders of the worktree or of a revision.
#[derive(Debug)]
pub struct Listings {
    revision: Option<CommitId>,
    /// Without the folders that cannot be listed.
    below: FxHashMap<Arc<str>, Listed>,
}

impl Repository {
    /// Lists what is below the folders of some selections; `None`: in the worktree.
    ///
    /// # Errors
    ///
    /// The revision cannot be read. A folder that cannot be listed fails with the tree that it is a part of.
    pub fn listings<'s>(
        &self,
        revision: Option<CommitId>,
        selections: impl Iterator<Item = &'s Selection>,
    ) -> Result<Listings, Error> {
        let prefixes: FxHashSet<&Arc<str>> = selections.flat_map(|each| each.prefixes()).collect();
        let mut below = FxHashMap::default();
        self.with_folders(revision, &Selection::below(&prefixes), |folders| {
            for prefix in prefixes {
                if let Ok(listed) = walk::below(folders, prefix) {
                    below.insert(prefix.clone(), listed);
                }
            }
            Ok(())
        })?;
        Ok(Listings { revision, below })
    }

    /// The selected files, by what was listed.
    ///
    /// # Errors
    ///
    /// As [`Repository::worktree`] and [`Repository::tree_at`].
    pub fn tree_of(&self, listings: &Listings, selection: &Selection) -> Result<Tree, Error> {
        let prefixes = selection.prefixes().iter();
        let listed = prefixes.map(|prefix| listings.below.get(prefix).map(Cow::Borrowed));
        let listed: Option<Vec<_>> = listed.collect();
        let Some(listed) = listed else {
            return match listings.revision {
                None => self.worktree(selection),
                Some(revision) => self.tree_at(revision, selection),
            };
        };
        let tree = walk::together(listed, listings.revision)?;
        self.with_elsewhere(tree, selection)
    }
}
