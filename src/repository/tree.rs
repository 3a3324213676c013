//! The files of a site, in the worktree or at a revision: one type for both.
//!
//! A [`Tree`] lists what a [`Selection`] selects: `.yaml` and `.yml` files below some folders, hidden
//! files and folders left out. Nothing is read before it is asked for, and never more than the caller
//! allows. Symbolic links are followed inside the repository; one that leads out of it, nowhere, in a
//! circle or to a file that git does not track is a [`Problem`], not a failure, so that all problems are
//! reported at once.
//!
//! The worktree is the files as they are: what `.gitignore` names counts too. A link is what a commit can
//! bring, and what it leads to need not be the author's: a pipeline's credentials may lie beside the site.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::read::{Links, ReadError, read_file};
use super::stamps::Stamp;
use super::walk::{self, Child, Folders, Kind, Node};
use super::{BlobId, CommitId, Error, Repository};

/// Which files are listed: YAML files below some folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Sorted, without trailing slashes, none inside another; `""` is the whole tree.
    prefixes: Vec<Arc<str>>,
}

impl Selection {
    /// The YAML files of the whole repository.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            prefixes: vec![Arc::from("")],
        }
    }

    /// The YAML files below these folders (paths in the repository; a file's path selects that file).
    pub fn below<S: AsRef<str>>(folders: impl IntoIterator<Item = S>) -> Self {
        let mut sorted: Vec<Arc<str>> = folders
            .into_iter()
            .map(|folder| Arc::from(folder.as_ref().trim_matches('/')))
            .collect();
        sorted.sort_unstable();
        let mut prefixes: Vec<Arc<str>> = Vec::new();
        for prefix in sorted {
            if !prefixes.iter().any(|outer| is_below(outer, &prefix)) {
                prefixes.push(prefix);
            }
        }
        Self { prefixes }
    }

    /// The folders, sorted, none inside another.
    #[must_use]
    pub fn prefixes(&self) -> &[Arc<str>] {
        &self.prefixes
    }

    /// Whether a path is selected: below one of the folders, a YAML file, nothing of it hidden.
    #[must_use]
    pub fn selects(&self, path: &str) -> bool {
        is_document_name(path)
            && !path.split('/').any(is_hidden)
            && self.prefixes.iter().any(|prefix| is_below(prefix, path))
    }

    /// Whether a selected path can be in a folder or below it.
    pub(super) fn reaches(&self, folder: &str) -> bool {
        self.prefixes
            .iter()
            .any(|prefix| is_below(prefix, folder) || is_below(folder, prefix))
    }
}

fn is_below(folder: &str, path: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

pub(super) fn is_document_name(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// What kind of file git takes an entry for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// `100644`.
    Regular,
    /// `100755`.
    Executable,
    /// `120000`, followed: the bytes are those of the file that it leads to.
    Link,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        })
    }
}

/// One file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path in the repository, with forward slashes, as it was found (links not resolved).
    pub path: Arc<str>,
    /// What git takes it for.
    pub mode: Mode,
    /// The id of its bytes; `None` in the worktree until they are read.
    pub blob: Option<BlobId>,
    /// By what a change of it is seen, in the worktree.
    pub(super) stamp: Option<Stamp>,
    /// Where the bytes are, where that is not its path.
    pub(super) leads_to: Option<Arc<str>>,
}

impl Entry {
    /// Where its bytes are in the repository: its path, with links resolved.
    #[must_use]
    pub fn place(&self) -> &str {
        self.leads_to.as_deref().unwrap_or(&self.path)
    }
}

/// The bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Their id.
    pub blob: BlobId,
    /// As git would commit them (line ends changed where `core.autocrlf` says so).
    pub bytes: Vec<u8>,
}

/// A file or folder that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Its path in the repository; bytes that are not UTF-8 are shown as `\u{fffd}`.
    pub path: Arc<str>,
    /// Why.
    pub reason: Reason,
}

/// Why a file or folder cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A link out of the repository, or into its `.git`.
    LeavesRepository {
        /// What the link says.
        target: String,
    },
    /// A link to nothing.
    Dangling {
        /// What the link says.
        target: String,
    },
    /// A link to a file that git does not track.
    Untracked {
        /// Where it leads.
        target: String,
    },
    /// A link to itself, or to a folder that it is in.
    Loop {
        /// What the link says.
        target: String,
    },
    /// A name that is not UTF-8.
    NotUtf8,
    /// A pipe, a socket or a device.
    NotAFile,
    /// Another repository inside this one: its files are not part of this one's revisions.
    Submodule,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeavesRepository { target } => {
                write!(f, "is a link out of the repository, to `{target}`")
            }
            Self::Dangling { target } => write!(f, "is a link to `{target}`, which is not there"),
            Self::Untracked { target } => {
                write!(f, "is a link to `{target}`, which git does not track")
            }
            Self::Loop { target } => write!(f, "is a link in a circle, to `{target}`"),
            Self::NotUtf8 => f.write_str("has a name that is not UTF-8"),
            Self::NotAFile => f.write_str("is a pipe, a socket or a device"),
            Self::Submodule => {
                f.write_str("is another repository, whose files are not part of this one")
            }
        }
    }
}

/// The selected files of the worktree or of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The revision; `None` for the worktree.
    pub revision: Option<CommitId>,
    /// The files, sorted by path.
    pub entries: Vec<Entry>,
    /// What cannot be used, sorted by path.
    pub problems: Vec<Problem>,
}

impl Repository {
    /// The selected files of a revision.
    ///
    /// # Errors
    ///
    /// An object cannot be read, or there are too many files.
    pub fn tree_at(&self, revision: CommitId, selection: &Selection) -> Result<Tree, Error> {
        self.with(|handle| {
            let tree = handle
                .find_commit(revision.git())
                .and_then(|commit| commit.tree())
                .map_err(|error| self.reading(handle, &format!("commit {revision}"), error))?;
            let folders = RevisionFolders {
                repository: self,
                handle,
                root: tree,
                met: RefCell::default(),
            };
            walk::list(&folders, selection, Some(revision))
        })
    }

    /// The bytes of a file; may be called from several threads at once.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] where it has more than `limit` bytes (found out before it is read), or it
    /// cannot be read.
    pub fn read(&self, entry: &Entry, limit: u64) -> Result<Content, Error> {
        let too_large = |size| Error::TooLarge {
            path: entry.path.to_string(),
            size,
            limit,
        };
        if let Some(blob) = entry.blob {
            let bytes = self.read_blob_within(blob, limit, &entry.path)?;
            return Ok(Content { blob, bytes });
        }
        let path = self.root.join(entry.place());
        let mut bytes = read_file(&path, limit, Links::Refused).map_err(|error| match error {
            ReadError::TooLarge(size) => too_large(size),
            ReadError::NotAFile => Error::Unusable {
                path: entry.path.to_string(),
                reason: Reason::NotAFile,
            },
            ReadError::Io(source) => Error::Read { path, source },
        })?;
        if self.strips_carriage_returns {
            bytes = with_line_feeds(bytes);
        }
        Ok(Content {
            blob: blob_id(&bytes),
            bytes,
        })
    }

    fn read_blob_within(&self, blob: BlobId, limit: u64, path: &str) -> Result<Vec<u8>, Error> {
        self.with(|handle| {
            let missing = |error| self.reading(handle, &format!("{blob} (`{path}`)"), error);
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

/// What git commits under `core.autocrlf`: LF for CRLF, in files that are text.
fn with_line_feeds(bytes: Vec<u8>) -> Vec<u8> {
    let is_text = !bytes.iter().take(8000).any(|byte| *byte == 0);
    if !is_text || !bytes.windows(2).any(|pair| pair == b"\r\n") {
        return bytes;
    }
    let mut changed = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if !(byte == b'\r' && rest.peek() == Some(&b'\n')) {
            changed.push(byte);
        }
    }
    changed
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
        let _ = write!(line, "{mode} {blob}\t{path}\0");
        hash.update(&line);
    }
    Arc::from(HEXLOWER.encode(&hash.finalize()))
}

/// The folders of a revision, read from git's objects.
struct RevisionFolders<'a> {
    repository: &'a Repository,
    handle: &'a git2::Repository,
    root: git2::Tree<'a>,
    /// The folders that were met on the way, so that none is looked for from the top again.
    met: RefCell<FxHashMap<String, git2::Oid>>,
}

impl RevisionFolders<'_> {
    fn failed(&self, path: &str, error: git2::Error) -> Error {
        self.repository
            .reading(self.handle, &format!("`{path}`"), error)
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
        match self.root.get_path(Path::new(path)) {
            Ok(entry) => Ok(Some((entry.id(), Self::kind(entry.filemode())))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => {
                // The path is not there, unless one of its folders is missing from the clone.
                match error.class() {
                    git2::ErrorClass::Odb => Err(self.failed(path, error)),
                    _ => Ok(None),
                }
            }
            Err(error) => Err(self.failed(path, error)),
        }
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
    fn a_selection_takes_yaml_files_below_its_folders_and_nothing_hidden() {
        let selection = Selection::below(["site/one/", "global", "site/one/networks", "a.yaml"]);
        let prefixes: Vec<&str> = selection.prefixes().iter().map(|each| &**each).collect();
        assert_eq!(prefixes, ["a.yaml", "global", "site/one"]);
        for (path, selected) in [
            ("site/one/x.yaml", true),
            ("site/one/deep/x.yml", true),
            ("global/x.yaml", true),
            ("a.yaml", true),
            ("site/one/x.txt", false),
            ("site/one/.x.yaml", false),
            ("site/one/.git/x.yaml", false),
            ("site/onething/x.yaml", false),
            ("site/x.yaml", false),
            ("b.yaml", false),
        ] {
            assert_eq!(selection.selects(path), selected, "{path}");
        }
        assert!(selection.reaches("site") && selection.reaches("site/one/deep"));
        assert!(!selection.reaches("site/two"));
        assert!(Selection::everything().selects("x/y.yaml"));
    }

    #[test]
    fn bytes_have_the_id_that_git_gives_them() {
        assert_eq!(
            blob_id(b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn line_ends_of_text_become_line_feeds_and_binary_files_stay() {
        assert_eq!(
            with_line_feeds(b"a\r\nb\rc\n\r\n".to_vec()),
            b"a\nb\rc\n\n".to_vec()
        );
        assert_eq!(with_line_feeds(b"\0a\r\n".to_vec()), b"\0a\r\n".to_vec());
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
