//! The files of the worktree, as they are, and how they differ from what is committed.
//!
//! Files are listed and read with the standard library alone. The index is not asked: what counts is
//! the bytes. `git status` of a whole repository would cost more than everything else in a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::walk::{self, Child, Folders, Kind, Node};
use super::{BlobId, Entry, Error, Mode, Repository, Selection, Tree};

/// How a file of the worktree differs from the commit that is checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Not committed.
    Added,
    /// Its bytes or its mode differ.
    Modified,
    /// Committed, and not there any more.
    Deleted,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        })
    }
}

/// A file that is not as it is committed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dirty {
    /// Path in the repository.
    pub path: Arc<str>,
    /// How it differs.
    pub change: Change,
}

impl Repository {
    /// The selected files of the worktree, committed or not, ignored or not.
    ///
    /// # Errors
    ///
    /// A folder cannot be read, or there are too many files.
    pub fn worktree(&self, selection: &Selection) -> Result<Tree, Error> {
        let folders = WorktreeFolders {
            root: &self.root,
            trusts_file_mode: self.trusts_file_mode,
        };
        walk::list(&folders, selection, None)
    }

    /// The selected files that are not as `HEAD` has them, sorted by path.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has more than `limit` bytes.
    pub fn dirty(&self, selection: &Selection, limit: u64) -> Result<Vec<Dirty>, Error> {
        let committed = match self.head()? {
            Some(head) => self.tree_at(head, selection)?.entries,
            None => Vec::new(),
        };
        let worktree = self.worktree(selection)?.entries;
        let mut dirty = Vec::new();
        let mut committed = committed.into_iter().peekable();
        let differs = |path, change| Dirty { path, change };
        for entry in worktree {
            while let Some(gone) = committed.next_if(|before| before.path < entry.path) {
                dirty.push(differs(gone.path, Change::Deleted));
            }
            let Some(before) = committed.next_if(|before| before.path == entry.path) else {
                dirty.push(differs(entry.path, Change::Added));
                continue;
            };
            if !self.is_as(&entry, before.mode, before.blob, limit)? {
                dirty.push(differs(entry.path, Change::Modified));
            }
        }
        dirty.extend(committed.map(|gone| differs(gone.path, Change::Deleted)));
        Ok(dirty)
    }

    fn is_as(
        &self,
        entry: &Entry,
        mode: Mode,
        blob: Option<BlobId>,
        limit: u64,
    ) -> Result<bool, Error> {
        let link_differs = (entry.mode == Mode::Link) != (mode == Mode::Link);
        if link_differs || (self.trusts_file_mode && entry.mode != mode) {
            return Ok(false);
        }
        Ok(Some(self.read(entry, limit)?.blob) == blob)
    }
}

struct WorktreeFolders<'a> {
    root: &'a Path,
    trusts_file_mode: bool,
}

impl WorktreeFolders<'_> {
    fn mode(&self, metadata: impl FnOnce() -> std::io::Result<std::fs::Metadata>) -> Mode {
        #[cfg(unix)]
        if self.trusts_file_mode {
            use std::os::unix::fs::PermissionsExt;
            // A file that is gone by now fails when it is read.
            if metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0) {
                return Mode::Executable;
            }
        }
        #[cfg(not(unix))]
        let _ = (metadata, self.trusts_file_mode);
        Mode::Regular
    }

    fn place(&self, path: &str) -> PathBuf {
        if path.is_empty() {
            self.root.to_owned()
        } else {
            self.root.join(path)
        }
    }
}

impl Folders for WorktreeFolders<'_> {
    fn children(&self, folder: &str) -> Result<Vec<Child>, Error> {
        let place = self.place(folder);
        let failed = |source| Error::Read {
            path: place.clone(),
            source,
        };
        let mut children = Vec::new();
        for child in std::fs::read_dir(&place).map_err(failed)? {
            let child = child.map_err(failed)?;
            let name = child.file_name().into_encoded_bytes();
            let kind = child.file_type().map_err(failed)?;
            let kind = if kind.is_dir() {
                Kind::Folder
            } else if kind.is_symlink() {
                Kind::Link
            } else if !kind.is_file() {
                Kind::Other
            } else if name.ends_with(b".yaml") || name.ends_with(b".yml") {
                Kind::File(self.mode(|| child.metadata()))
            } else {
                Kind::File(Mode::Regular)
            };
            let node = Node { kind, blob: None };
            children.push(Child { name, node });
        }
        Ok(children)
    }

    fn node(&self, path: &str) -> Result<Option<Node>, Error> {
        let place = self.place(path);
        let metadata = match std::fs::symlink_metadata(&place) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(source) => {
                return Err(Error::Read {
                    path: place,
                    source,
                });
            }
        };
        let kind = metadata.file_type();
        let kind = if kind.is_dir() && place.join(".git").symlink_metadata().is_ok() {
            Kind::Submodule
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_symlink() {
            Kind::Link
        } else if kind.is_file() {
            Kind::File(self.mode(|| Ok(metadata)))
        } else {
            Kind::Other
        };
        Ok(Some(Node { kind, blob: None }))
    }

    fn link_target(&self, path: &str) -> Result<Vec<u8>, Error> {
        let place = self.place(path);
        match std::fs::read_link(&place) {
            Ok(target) => Ok(target.into_os_string().into_encoded_bytes()),
            Err(source) => Err(Error::Read {
                path: place,
                source,
            }),
        }
    }
}
