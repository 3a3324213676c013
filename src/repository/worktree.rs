//! The files of the worktree, as they are, and how they differ from what is committed.
//!
//! Files are listed and read with the standard library alone. What counts is the bytes as git would commit them, but
//! for filters, and of files that git does not look for (a sparse checkout) those of `HEAD`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::entry::{Stamp, is_hidden};
use super::skipped::Skipped;
use super::walk::{self, Child, Folders, Kind, MOST_NODES, Node};
use super::{BlobId, CommitId, Error, Mode, Repository, Selection, Tree};
use crate::threads::{self, lock};

/// How a file of the worktree differs from the commit that is checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorktreeChange {
    /// Not committed.
    Added,
    /// Its bytes or its mode differ.
    Modified,
    /// Committed, and not there any more.
    Deleted,
}

impl std::fmt::Display for WorktreeChange {
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
    pub change: WorktreeChange,
    /// The filter or the encoding that it was read without.
    pub filter: Option<Arc<str>>,
}

/// The largest file of a site that is compared with what is committed, in bytes: more than is loaded.
pub const LARGEST_FILE: u64 = 64 << 20;

impl Repository {
    /// The selected files of the worktree, committed or not, ignored or not.
    ///
    /// # Errors
    ///
    /// A folder cannot be read, or there are too many files.
    pub fn worktree(&self, selection: &Selection) -> Result<Tree, Error> {
        let list = |folders: &dyn Folders| walk::list(folders, selection, None);
        self.with_elsewhere(self.with_folders(None, selection, list)?, selection)
    }

    /// Works with the folders of the worktree, where those of a selection are read ahead, or of a revision.
    pub(super) fn with_folders<T>(
        &self,
        revision: Option<CommitId>,
        selection: &Selection,
        work: impl FnOnce(&dyn Folders) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(revision) = revision else {
            self.need_worktree()?;
            let folders = WorktreeFolders::of(self)?;
            folders.read_ahead(selection);
            return work(&folders);
        };
        self.with(|handle| work(&self.revision_folders(handle, revision)?))
    }

    /// The names of the folders in a folder of the worktree; none if it is no folder.
    ///
    /// # Errors
    ///
    /// A folder cannot be read.
    pub fn worktree_folders(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.need_worktree()?;
        let mut names = walk::folders_in(&WorktreeFolders::of(self)?, folder)?;
        names.sort_unstable();
        Ok(names)
    }

    /// The paths of the files of a name, sorted; hidden folders, links and other repositories are left out, and so is a
    /// folder that cannot be read. No file is read, so that it costs little beside a listing.
    #[must_use]
    pub fn worktree_files_called(&self, name: &str) -> Vec<String> {
        if self.is_bare {
            return Vec::new();
        }
        let skipped = self.skipped().unwrap_or_default();
        let is_meant = |path: &String| {
            let mut parts = path.rsplit('/');
            parts.next() == Some(name) && !parts.any(is_hidden)
        };
        let mut found: Vec<String> = skipped.paths().filter(is_meant).collect();
        let mut waiting = vec![String::new()];
        while let Some(folder) = waiting.pop() {
            let place = self.root.join(&folder);
            if !folder.is_empty() && place.join(".git").exists() {
                continue;
            }
            let Ok(children) = std::fs::read_dir(place) else {
                continue;
            };
            for child in children.flatten() {
                let (Ok(own), Ok(kind)) = (child.file_name().into_string(), child.file_type())
                else {
                    continue;
                };
                if kind.is_dir() && !is_hidden(&own) {
                    waiting.push(walk::join(&folder, &own));
                } else if kind.is_file() && own == name {
                    found.push(walk::join(&folder, &own));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether git tracks the file at a path of the worktree: whether it is in `HEAD` or in the index.
    ///
    /// # Errors
    ///
    /// The index cannot be read.
    pub fn is_tracked(&self, path: &str) -> Result<bool, Error> {
        // What is no path of a tree is not looked for.
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(false);
        }
        let path = Path::new(path);
        self.with(|handle| {
            // The index is read whole, which takes a while if there are many files.
            let head = handle.head().and_then(|head| head.peel_to_tree());
            let entry = head.and_then(|tree| tree.get_path(path));
            if entry.is_ok_and(|entry| entry.kind() == Some(git2::ObjectType::Blob)) {
                return Ok(true);
            }
            let index = handle.index().map_err(super::git("read the index"))?;
            Ok(index.get_path(path, 0).is_some())
        })
    }

    /// The selected files that are not as `HEAD` has them, sorted by path.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has more than `limit` bytes.
    pub fn dirty(&self, selection: &Selection, limit: u64) -> Result<Vec<Dirty>, Error> {
        let entries = self.worktree(selection)?.entries;
        let mut files = Vec::with_capacity(entries.len());
        let known = self.known(&entries);
        for (entry, known) in entries.iter().zip(known) {
            let blob = match known {
                Some(blob) => blob,
                None => self.read(entry, limit)?.blob,
            };
            files.push((&entry.path, entry.mode, blob));
        }
        match self.head()? {
            Some(head) => {
                let mut dirty = self.differing(head, selection, files)?;
                for file in &mut dirty {
                    let found = entries.binary_search_by(|entry| entry.path.cmp(&file.path));
                    file.filter = found.ok().and_then(|at| entries[at].filter().cloned());
                }
                Ok(dirty)
            }
            None => {
                let added = files.into_iter().map(|(path, ..)| Dirty {
                    path: path.clone(),
                    change: WorktreeChange::Added,
                    filter: None,
                });
                Ok(added.collect())
            }
        }
    }

    /// Of some files, which are all that is selected and sorted by path, those that are not as a commit has them,
    /// and those that it has beside them.
    ///
    /// # Errors
    ///
    /// The commit cannot be read.
    pub fn differing<'a>(
        &self,
        commit: CommitId,
        selection: &Selection,
        files: impl IntoIterator<Item = (&'a Arc<str>, Mode, BlobId)>,
    ) -> Result<Vec<Dirty>, Error> {
        let mut dirty = Vec::new();
        let committed = self.tree_at(commit, selection)?.entries;
        let mut committed = committed.iter().peekable();
        let differs = |path: &Arc<str>, change| Dirty {
            path: path.clone(),
            change,
            filter: None,
        };
        for (path, mode, blob) in files {
            while let Some(gone) = committed.next_if(|before| before.path < *path) {
                dirty.push(differs(&gone.path, WorktreeChange::Deleted));
            }
            let Some(before) = committed.next_if(|before| before.path == *path) else {
                dirty.push(differs(path, WorktreeChange::Added));
                continue;
            };
            let link_differs = (before.mode == Mode::Link) != (mode == Mode::Link);
            let mode_differs = self.trusts_file_mode && before.mode != mode;
            if link_differs || mode_differs || before.blob != Some(blob) {
                dirty.push(differs(path, WorktreeChange::Modified));
            }
        }
        dirty.extend(committed.map(|gone| differs(&gone.path, WorktreeChange::Deleted)));
        Ok(dirty)
    }
}

struct WorktreeFolders<'a> {
    repository: &'a Repository,
    /// Files that `HEAD` has in the place of those of the worktree.
    skipped: Arc<Skipped>,
    /// Folders that were read ahead; each is asked for once.
    read: Mutex<FxHashMap<String, Vec<Child>>>,
}

/// Folders that wait to be read ahead.
#[derive(Default)]
struct Ahead {
    waiting: Vec<String>,
    /// Threads that are reading, and may find more.
    busy: usize,
    /// Names that were found so far.
    found: usize,
}

impl<'a> WorktreeFolders<'a> {
    fn of(repository: &'a Repository) -> Result<Self, Error> {
        Ok(Self {
            repository,
            skipped: repository.skipped()?,
            read: Mutex::default(),
        })
    }

    /// Reads all folders below those of a selection, on two threads: most of the time of a walk is
    /// the system's. What fails here is left for the walk to fail with, which goes by its own order.
    fn read_ahead(&self, selection: &Selection) {
        let prefixes = selection.prefixes().iter();
        let waiting = prefixes
            .filter(|prefix| !prefix.split('/').any(is_hidden))
            .map(|prefix| prefix.to_string());
        let ahead = Mutex::new(Ahead {
            waiting: waiting.collect(),
            ..Ahead::default()
        });
        let is_more = Condvar::new();
        let read = || {
            let mut state = lock(&ahead);
            loop {
                while state.waiting.is_empty() && state.busy > 0 {
                    state = is_more.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                let Some(folder) = state.waiting.pop().filter(|_| state.found <= MOST_NODES) else {
                    is_more.notify_all();
                    return;
                };
                state.busy += 1;
                drop(state);
                let children = self.look(&folder);
                state = lock(&ahead);
                state.busy -= 1;
                let Ok(children) = children else {
                    is_more.notify_all();
                    continue;
                };
                state.found += children.len();
                state.waiting.extend(folders_below(&folder, &children));
                is_more.notify_all();
                let mut read = lock(&self.read);
                read.insert(folder, children);
            }
        };
        threads::both(read, read);
    }

    /// The mode of a document in git, and the evidence of a change.
    fn file(&self, metadata: std::io::Result<std::fs::Metadata>) -> (Mode, Option<Stamp>) {
        // A file that is gone by now fails when it is read.
        let Ok(metadata) = metadata else {
            return (Mode::Regular, None);
        };
        #[cfg(unix)]
        let is_executable = {
            use std::os::unix::fs::PermissionsExt;
            self.repository.trusts_file_mode && metadata.permissions().mode() & 0o100 != 0
        };
        #[cfg(not(unix))]
        let is_executable = false;
        let mode = match is_executable {
            true => Mode::Executable,
            false => Mode::Regular,
        };
        (mode, Stamp::of(&metadata))
    }

    fn place(&self, path: &str) -> PathBuf {
        if path.is_empty() {
            self.repository.root.clone()
        } else {
            self.repository.root.join(path)
        }
    }
}

impl WorktreeFolders<'_> {
    fn look(&self, folder: &str) -> Result<Vec<Child>, Error> {
        let place = self.place(folder);
        let failed = |source| Error::Read {
            path: place.clone(),
            source,
        };
        let mut children = Vec::new();
        let listed = match std::fs::read_dir(&place) {
            Ok(listed) => Some(listed),
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && self.skipped.has_folder(folder) =>
            {
                None
            }
            Err(error) => return Err(failed(error)),
        };
        for child in listed.into_iter().flatten() {
            let child = child.map_err(failed)?;
            let name = child.file_name().into_encoded_bytes();
            let kind = child.file_type().map_err(failed)?;
            let mut stamp = None;
            let kind = if kind.is_dir() {
                Kind::Folder
            } else if kind.is_symlink() {
                Kind::Link
            } else if !kind.is_file() {
                Kind::Other
            } else if name.ends_with(b".yaml") || name.ends_with(b".yml") {
                let mode;
                (mode, stamp) = self.file(child.metadata());
                Kind::File(mode)
            } else {
                Kind::File(Mode::Regular)
            };
            let blob = None;
            let node = Node { kind, blob, stamp };
            children.push(Child { name, node });
        }
        self.skipped.put_into(folder, &mut children);
        walk::sort(&mut children);
        Ok(children)
    }
}

impl Folders for WorktreeFolders<'_> {
    fn is_tracked(&self, path: &str) -> Result<bool, Error> {
        self.repository.is_tracked(path)
    }

    fn children(&self, folder: &str) -> Result<Vec<Child>, Error> {
        let mut read = lock(&self.read);
        let known = read.remove(folder);
        drop(read);
        known.map_or_else(|| self.look(folder), Ok)
    }

    fn node(&self, path: &str) -> Result<Option<Node>, Error> {
        if let Some(node) = self.skipped.file(path) {
            return Ok(Some(node));
        }
        let place = self.place(path);
        let metadata = match std::fs::symlink_metadata(&place) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(self.skipped.node(path));
            }
            Err(source) => {
                return Err(Error::Read {
                    path: place,
                    source,
                });
            }
        };
        let kind = metadata.file_type();
        let mut stamp = None;
        let kind = if kind.is_dir() && place.join(".git").symlink_metadata().is_ok() {
            Kind::Submodule
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_symlink() {
            Kind::Link
        } else if kind.is_file() {
            let mode;
            (mode, stamp) = self.file(Ok(metadata));
            Kind::File(mode)
        } else {
            Kind::Other
        };
        let blob = None;
        Ok(Some(Node { kind, blob, stamp }))
    }

    fn link_target(&self, path: &str) -> Result<Vec<u8>, Error> {
        if let Some(blob) = self.skipped.file(path).and_then(|node| node.blob) {
            let holder = self.repository;
            return holder.read_blob_within(blob, walk::LONGEST_LINK, path);
        }
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

/// The folders in a folder that a walk goes into: none that are hidden, and none of another repository.
fn folders_below(folder: &str, children: &[Child]) -> impl Iterator<Item = String> {
    let is_repository = children.iter().any(|child| child.name == b".git");
    let goes_in = !is_repository || folder.is_empty();
    let folders = children.iter().filter(move |child| {
        goes_in && child.node.kind == Kind::Folder && child.name.first() != Some(&b'.')
    });
    let names = folders.filter_map(|child| std::str::from_utf8(&child.name).ok());
    names.map(move |name| walk::join(folder, name))
}
