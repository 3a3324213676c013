//! Reads the files of a site at a revision, and the bytes of a file there or in the worktree.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::entry::{Entry, Mode, Reason, Selection, Tree};
use super::read::{Links, ReadError, read_file};
use super::walk::{self, Child, Folders, Kind, Node};
use super::{BlobId, CommitId, Error, Repository};

/// The files of a tree whose digest is kept: that of a smaller one is soon made.
const LARGE: usize = 1000;

/// The bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Their id.
    pub blob: BlobId,
    /// As git would commit them, but for filters.
    pub bytes: Vec<u8>,
}

impl Repository {
    /// The selected files of a revision.
    ///
    /// # Errors
    ///
    /// An object cannot be read, or there are too many files.
    pub fn tree_at(&self, revision: CommitId, selection: &Selection) -> Result<Tree, Error> {
        let list = |folders: &dyn Folders| walk::list(folders, selection, Some(revision));
        let tree = self.with_folders(Some(revision), selection, list)?;
        self.with_elsewhere(tree, selection)
    }

    /// The digest of the selected files of a revision. That of a large tree is kept, since a revision never changes.
    ///
    /// # Errors
    ///
    /// As [`Repository::tree_at`].
    pub fn digest_at(&self, revision: CommitId, selection: &Selection) -> Result<Arc<str>, Error> {
        // Which other repositories there are is the caller's, and may change.
        let is_own = selection.elsewhere().is_empty();
        let prefixes = selection.prefixes().iter().map(|prefix| prefix.as_bytes());
        let id = revision.git();
        let parts = std::iter::once(id.as_bytes()).chain(prefixes);
        let key = self.cache().key("digest", parts);
        let kept = is_own.then(|| self.cache().read(&key)).flatten();
        if let Some(digest) = kept.and_then(|segment| segment.decode::<String>()) {
            return Ok(digest.into());
        }
        let tree = self.tree_at(revision, selection)?;
        let digest = tree.digest();
        if is_own && tree.entries.len() >= LARGE {
            self.cache().write(&key, &*digest);
        }
        Ok(digest)
    }

    /// The folders of a revision.
    pub(super) fn revision_folders<'a>(
        &'a self,
        handle: &'a git2::Repository,
        revision: CommitId,
    ) -> Result<impl Folders + 'a, Error> {
        let root = handle
            .find_commit(revision.git())
            .and_then(|commit| commit.tree())
            .map_err(|error| self.reading(&format!("commit {revision}"), error))?;
        Ok(RevisionFolders {
            repository: self,
            handle,
            root,
            met: RefCell::default(),
            read: RefCell::default(),
        })
    }

    /// The bytes of a file; may be called from several threads at once.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if it has more than `limit` bytes (found out before it is read), or it
    /// cannot be read.
    pub fn read(&self, entry: &Entry, limit: u64) -> Result<Content, Error> {
        let too_large = |size| Error::TooLarge {
            path: entry.path.to_string(),
            size,
            limit,
        };
        if let Some(blob) = entry.blob {
            let holder = self.holder(entry);
            let bytes = holder.read_blob_within(blob, limit, &entry.path)?;
            return Ok(Content { blob, bytes });
        }
        let path = self.root.join(entry.place());
        let bytes = read_file(&path, limit, Links::Refused).map_err(|error| match error {
            ReadError::TooLarge(size) => too_large(size),
            ReadError::NotAFile => Error::Unusable {
                path: entry.path.to_string(),
                reason: Reason::NotAFile,
            },
            ReadError::Io(source) => Error::Read { path, source },
        })?;
        let bytes = self.as_committed(entry, bytes);
        Ok(Content {
            blob: blob_id(&bytes),
            bytes,
        })
    }

    pub(super) fn read_blob_within(
        &self,
        blob: BlobId,
        limit: u64,
        path: &str,
    ) -> Result<Vec<u8>, Error> {
        self.with(|handle| {
            let missing = |error| self.reading(&format!("object {blob} (`{path}`)"), error);
            let odb = handle.odb().map_err(missing)?;
            let (size, kind) = odb.read_header(blob.git()).map_err(missing)?;
            if size as u64 > limit {
                return Err(Error::TooLarge {
                    path: path.to_owned(),
                    size: size as u64,
                    limit,
                });
            }
            if kind != git2::ObjectType::Blob {
                return Err(Error::Broken {
                    what: path.to_owned(),
                    reason: format!("{blob} is no file"),
                });
            }
            let object = odb.read(blob.git()).map_err(missing)?;
            Ok(object.data().to_vec())
        })
    }
}

/// The id that git gives to a file with these bytes.
#[must_use]
pub fn blob_id(bytes: &[u8]) -> BlobId {
    // Hashing cannot fail: the only error is memory, which aborts.
    git2::Oid::hash_object(git2::ObjectType::Blob, bytes)
        .unwrap_or(git2::Oid::ZERO_SHA1)
        .into()
}

/// The digest of a site's files: SHA-256 over (mode, blob id, path) in the order of paths, as
/// lower-case hexadecimal digits.
///
/// Equal digests mean equal files, whatever commit holds them.
pub fn site_digest<'a>(files: impl IntoIterator<Item = (&'a str, Mode, BlobId)>) -> Arc<str> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_unstable();
    files.dedup();
    let mut hash = Sha256::new();
    let mut line = String::new();
    for (path, mode, blob) in files {
        line.clear();
        // Writing to a text cannot fail.
        let _ = write!(line, "{mode} ");
        HEXLOWER.encode_append(blob.0.as_bytes(), &mut line);
        line.push('\t');
        line.push_str(path);
        line.push('\0');
        hash.update(&line);
    }
    Arc::from(HEXLOWER.encode(&hash.finalize()))
}

impl Tree {
    /// The digest of its files, as far as the ids of their bytes are known.
    #[must_use]
    pub fn digest(&self) -> Arc<str> {
        let entries = self.entries.iter();
        site_digest(entries.filter_map(|entry| Some((&*entry.path, entry.mode, entry.blob?))))
    }
}

/// The folders of a revision, read from git's objects.
struct RevisionFolders<'a> {
    repository: &'a Repository,
    handle: &'a git2::Repository,
    root: git2::Tree<'a>,
    /// The folders that were met on the way, so that none is looked for from the top again.
    met: RefCell<FxHashMap<String, git2::Oid>>,
    /// The entries of folders in which one was looked for: a large folder is read once.
    read: RefCell<FxHashMap<String, Names>>,
}

/// The entries of a folder, by name.
type Names = FxHashMap<Vec<u8>, (git2::Oid, Kind)>;

impl RevisionFolders<'_> {
    fn failed(&self, path: &str, error: git2::Error) -> Error {
        self.repository.reading(&format!("`{path}`"), error)
    }

    fn kind(mode: i32) -> Kind {
        match mode {
            0o040000 => Kind::Folder,
            0o120000 => Kind::Link,
            0o160000 => Kind::Submodule,
            0o100755 => Kind::File(Mode::Executable),
            _ => Kind::File(Mode::Regular),
        }
    }

    fn entry(&self, path: &str) -> Result<Option<(git2::Oid, Kind)>, Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let find = |names: &Names| names.get(name.as_bytes()).copied();
        if let Some(names) = self.read.borrow().get(folder) {
            return Ok(find(names));
        }
        let id = match folder {
            "" => self.root.id(),
            folder => match self.entry(folder)? {
                Some((id, Kind::Folder)) => id,
                _ => return Ok(None),
            },
        };
        let tree = self.handle.find_tree(id);
        let tree = tree.map_err(|error| self.failed(folder, error))?;
        let names = tree.iter().map(|entry| {
            let kind = Self::kind(entry.filemode());
            (entry.name_bytes().to_vec(), (entry.id(), kind))
        });
        let names: Names = names.collect();
        let found = find(&names);
        self.read.borrow_mut().insert(folder.to_owned(), names);
        Ok(found)
    }
}

impl Folders for RevisionFolders<'_> {
    fn is_tracked(&self, _path: &str) -> Result<bool, Error> {
        Ok(true)
    }

    fn children(&self, folder: &str) -> Result<Vec<Child>, Error> {
        let found;
        let tree = if folder.is_empty() {
            &self.root
        } else {
            let met = self.met.borrow().get(folder).copied();
            let id = match met {
                Some(id) => id,
                None => match self.entry(folder)? {
                    Some((id, Kind::Folder)) => id,
                    _ => return Ok(Vec::new()),
                },
            };
            found = self
                .handle
                .find_tree(id)
                .map_err(|error| self.failed(folder, error))?;
            &found
        };
        let mut met = self.met.borrow_mut();
        Ok(tree
            .iter()
            .inspect(|entry| {
                if Self::kind(entry.filemode()) == Kind::Folder
                    && let Ok(name) = entry.name()
                {
                    met.insert(walk::join(folder, name), entry.id());
                }
            })
            .map(|entry| Child {
                name: entry.name_bytes().to_vec(),
                node: Node {
                    kind: Self::kind(entry.filemode()),
                    blob: Some(entry.id().into()),
                    stamp: None,
                },
            })
            .collect())
    }

    fn node(&self, path: &str) -> Result<Option<Node>, Error> {
        Ok(self.entry(path)?.map(|(id, kind)| Node {
            kind,
            blob: Some(id.into()),
            stamp: None,
        }))
    }

    fn link_target(&self, path: &str) -> Result<Vec<u8>, Error> {
        let Some((id, _)) = self.entry(path)? else {
            return Ok(Vec::new());
        };
        self.repository
            .read_blob_within(id.into(), walk::LONGEST_LINK, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_id_that_git_gives_them() {
        assert_eq!(
            blob_id(b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn the_digest_of_a_site_depends_on_paths_modes_and_bytes_and_not_on_order() {
        let (one, two) = (blob_id(b"1"), blob_id(b"2"));
        let digest = site_digest([("a", Mode::Regular, one), ("b", Mode::Regular, two)]);
        assert_eq!(digest.len(), 64);
        assert_eq!(
            digest,
            site_digest([("b", Mode::Regular, two), ("a", Mode::Regular, one)])
        );
        for other in [
            [("a", Mode::Regular, two), ("b", Mode::Regular, two)],
            [("a", Mode::Executable, one), ("b", Mode::Regular, two)],
            [("a", Mode::Regular, one), ("c", Mode::Regular, two)],
        ] {
            assert_ne!(digest, site_digest(other));
        }
    }
}
