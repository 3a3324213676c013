//! Commits that are made without a worktree or an index, and the files in them.
//!
//! A commit is described by what changes against the tree of another one; only the folders that hold
//! a change are written again. Who and when are values: nothing here reads a clock or a configuration,
//! so the same description gives the same id.

use std::collections::BTreeMap;
use std::fmt;

use super::objects::NewObjects;
use super::{BlobId, CommitId, Deflated, Error, ObjectId, Repository, git, signed};

/// An author or committer, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name; characters that git cannot store are left out.
    pub name: String,
    /// Mail address; likewise.
    pub email: String,
    /// Seconds since 1970.
    pub seconds: i64,
}

impl fmt::Display for Signature {
    /// As git stores it, in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = |text: &str| -> String {
            let text: String = text
                .chars()
                .filter(|each| !each.is_control() && !matches!(each, '<' | '>'))
                .collect();
            text.trim_matches(|edge: char| edge.is_whitespace() || ".,:;\"\\'".contains(edge))
                .to_owned()
        };
        let name = match clean(&self.name) {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        };
        let email = clean(&self.email);
        write!(f, "{name} <{email}> {} +0000", self.seconds.max(0))
    }
}

/// A commit that is to be made.
#[derive(Clone, Debug)]
pub struct NewCommit {
    /// The commit whose tree the changes are made to; `None`: an empty one.
    pub base: Option<CommitId>,
    /// Its parents.
    pub parents: Vec<CommitId>,
    /// Path to new bytes; `None` removes the file (or folder) that is there.
    pub changes: BTreeMap<String, Option<Vec<u8>>>,
    /// Path to more new bytes, deflated already.
    pub deflated: BTreeMap<String, Deflated>,
    /// Author and committer.
    pub author: Signature,
    /// Its message; a missing line break is added at the end.
    pub message: String,
}

/// An entry of a stored tree.
struct TreeEntry {
    mode: i32,
    id: ObjectId,
}

const FOLDER: i32 = 0o040000;
const FILE: i32 = 0o100644;

impl Repository {
    /// Makes a commit, durably; no ref is moved.
    ///
    /// # Errors
    ///
    /// The tree of `base` cannot be read, a path is none, or the disk cannot be written.
    pub fn write_commit(&self, commit: &NewCommit) -> Result<CommitId, Error> {
        self.write_commit_with(commit, &|_| None)
    }

    /// Makes a commit, durably, with the signature that `sign` gives for it; unsigned if it gives none. No ref is moved.
    ///
    /// # Errors
    ///
    /// As [`Repository::write_commit`].
    pub fn write_commit_with(
        &self,
        commit: &NewCommit,
        sign: &dyn Fn(&str) -> Option<String>,
    ) -> Result<CommitId, Error> {
        let mut objects = NewObjects::default();
        let id = self.with(|handle| {
            let base = match commit.base {
                Some(base) => {
                    let found = handle
                        .find_commit(base.git())
                        .map_err(|error| self.reading(&format!("commit {base}"), error))?;
                    Some(found.tree_id())
                }
                None => None,
            };
            let mut changes = Changes::default();
            for (path, bytes) in &commit.changes {
                changes.insert(path, bytes.as_deref().map(File::Plain))?;
            }
            for (path, file) in &commit.deflated {
                changes.insert(path, Some(File::Deflated(file)))?;
            }
            let tree = match write_tree(handle, base, &changes, &mut objects)? {
                Some(tree) => tree,
                None => objects.add(git2::ObjectType::Tree, &b""[..])?,
            };
            let mut text = format!("tree {tree}\n");
            for parent in &commit.parents {
                text.push_str("parent ");
                text.push_str(&parent.to_string());
                text.push('\n');
            }
            let author = commit.author.to_string();
            let message = commit.message.trim_end_matches('\n');
            text.push_str(&["author ", &author, "\ncommitter ", &author, "\n"].concat());
            let headers = text.len();
            text.push_str(&["\n", message, "\n"].concat());
            if let Some(signature) = sign(&text) {
                text.insert_str(headers, &signed::header(&signature));
            }
            objects.add(git2::ObjectType::Commit, text.into_bytes())
        })?;
        self.write_objects(objects)?;
        Ok(CommitId(id))
    }

    /// The files of one folder of a commit, by name; empty if there is no such folder. Folders in
    /// it are left out.
    ///
    /// # Errors
    ///
    /// An object cannot be read.
    pub fn files_in(
        &self,
        commit: CommitId,
        folder: &str,
    ) -> Result<BTreeMap<String, BlobId>, Error> {
        self.list(commit, folder, git2::ObjectType::Blob, BlobId)
    }

    /// The names of the folders in one folder of a commit (`""`: its top), sorted.
    ///
    /// # Errors
    ///
    /// An object cannot be read.
    pub fn folders_in(&self, commit: CommitId, folder: &str) -> Result<Vec<String>, Error> {
        let folders = self.list(commit, folder, git2::ObjectType::Tree, |_| ())?;
        Ok(folders.into_keys().collect())
    }

    fn list<T>(
        &self,
        commit: CommitId,
        folder: &str,
        kind: git2::ObjectType,
        value: impl Fn(ObjectId) -> T,
    ) -> Result<BTreeMap<String, T>, Error> {
        self.with(|handle| {
            let what = match folder {
                "" => format!("the top folder of commit {commit}"),
                folder => format!("folder `{folder}` of commit {commit}"),
            };
            let mut tree = handle
                .find_commit(commit.git())
                .and_then(|found| found.tree())
                .map_err(|error| self.reading(&what, error))?;
            for component in folder.split('/').filter(|each| !each.is_empty()) {
                let Some(id) = tree
                    .get_name(component)
                    .filter(|entry| entry.kind() == Some(git2::ObjectType::Tree))
                    .map(|entry| entry.id())
                else {
                    return Ok(BTreeMap::new());
                };
                tree = handle
                    .find_tree(id)
                    .map_err(|error| self.reading(&what, error))?;
            }
            Ok(tree
                .iter()
                .filter(|entry| entry.kind() == Some(kind))
                .filter_map(|entry| Some((entry.name().ok()?.to_owned(), value(entry.id().into()))))
                .collect())
        })
    }

    /// The id of a file or folder of a commit; `None` if there is no such thing.
    ///
    /// # Errors
    ///
    /// An object cannot be read.
    pub fn entry_at(&self, commit: CommitId, path: &str) -> Result<Option<ObjectId>, Error> {
        self.with(|handle| {
            let found = handle
                .find_commit(commit.git())
                .and_then(|found| found.tree())
                .and_then(|tree| tree.get_path(std::path::Path::new(path)));
            match found {
                Ok(entry) => Ok(Some(entry.id().into())),
                Err(error) if error.class() == git2::ErrorClass::Tree => Ok(None),
                Err(error) => Err(self.reading(&format!("`{path}` of {commit}"), error)),
            }
        })
    }

    /// The bytes of one file of a commit; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// An object cannot be read.
    pub fn file_at(&self, commit: CommitId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.files_in(commit, folder)?.get(name) {
            Some(blob) => self.read_blob(*blob).map(Some),
            None => Ok(None),
        }
    }

    /// The bytes of one file of a commit that trueup did not write; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if it has more than `limit` bytes, found out before it is read; an object cannot be read.
    pub fn file_within(
        &self,
        commit: CommitId,
        path: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.files_in(commit, folder)?.get(name) {
            Some(blob) => self.read_blob_within(*blob, limit, path).map(Some),
            None => Ok(None),
        }
    }

    /// The bytes with an id; may be called from several threads at once. For what trueup wrote: files
    /// of a site go through [`Repository::read`], which has a limit.
    ///
    /// # Errors
    ///
    /// There is no such object.
    pub fn read_blob(&self, blob: BlobId) -> Result<Vec<u8>, Error> {
        self.with(|handle| match handle.find_blob(blob.git()) {
            Ok(found) => Ok(found.content().to_vec()),
            Err(error) => Err(self.reading(&format!("object {blob}"), error)),
        })
    }
}

/// The bytes of a file.
#[derive(Clone, Copy)]
enum File<'a> {
    Plain(&'a [u8]),
    Deflated(&'a Deflated),
}

/// Changes, by component of the path.
#[derive(Default)]
struct Changes<'a> {
    children: BTreeMap<&'a str, Change<'a>>,
}

enum Change<'a> {
    File(File<'a>),
    Removed,
    Folder(Changes<'a>),
}

impl<'a> Changes<'a> {
    fn insert(&mut self, path: &'a str, file: Option<File<'a>>) -> Result<(), Error> {
        let wrong = || Error::Broken {
            what: format!("`{path}`"),
            reason: "it is no path in a commit, or inside a file of the same commit".to_owned(),
        };
        let (name, rest) = match path.split_once('/') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        if matches!(name, "" | "." | "..")
            || name.eq_ignore_ascii_case(".git")
            || name.contains('\0')
        {
            return Err(wrong());
        }
        let Some(rest) = rest else {
            let change = file.map_or(Change::Removed, Change::File);
            return match self.children.insert(name, change) {
                None => Ok(()),
                Some(_) => Err(wrong()),
            };
        };
        let child = self
            .children
            .entry(name)
            .or_insert_with(|| Change::Folder(Changes::default()));
        match child {
            Change::Folder(folder) => folder.insert(rest, file),
            _ => Err(wrong()),
        }
    }
}

/// Adds the tree that `base` becomes by the changes; `None` if it becomes empty.
fn write_tree<'a>(
    handle: &git2::Repository,
    base: Option<git2::Oid>,
    changes: &Changes<'a>,
    objects: &mut NewObjects<'a>,
) -> Result<Option<ObjectId>, Error> {
    // By git's order: a folder sorts as if its name ended in a slash.
    let key = |name: &[u8], mode: i32| {
        let mut key = name.to_vec();
        key.extend((mode == FOLDER).then_some(b'/'));
        key
    };
    let mut entries: BTreeMap<Vec<u8>, TreeEntry> = BTreeMap::new();
    if let Some(base) = base {
        let tree = handle
            .find_tree(base)
            .map_err(git(format!("read tree {base}")))?;
        for entry in &tree {
            let (mode, id) = (entry.filemode_raw(), entry.id().into());
            entries.insert(key(entry.name_bytes(), mode), TreeEntry { mode, id });
        }
    }
    for (name, change) in &changes.children {
        // Whatever it was before, file or folder.
        entries.remove(&key(name.as_bytes(), FILE));
        let folder = entries.remove(&key(name.as_bytes(), FOLDER));
        let (mode, id) = match change {
            Change::Removed => continue,
            Change::File(File::Plain(bytes)) => (FILE, Some(objects.blob(*bytes)?.0)),
            Change::File(File::Deflated(file)) => (FILE, Some(objects.deflated(file).0)),
            Change::Folder(inside) => {
                let base = folder.map(|folder| folder.id.git());
                (FOLDER, write_tree(handle, base, inside, objects)?)
            }
        };
        if let Some(id) = id {
            entries.insert(key(name.as_bytes(), mode), TreeEntry { mode, id });
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    for (key, entry) in entries {
        let name = key.strip_suffix(b"/").unwrap_or(&key);
        bytes.extend_from_slice(format!("{:o} ", entry.mode).as_bytes());
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    objects.add(git2::ObjectType::Tree, bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_never_breaks_the_object_that_holds_it() {
        let signature = |name: &str, email: &str| {
            let (name, email) = (name.to_owned(), email.to_owned());
            Signature {
                name,
                email,
                seconds: 1_700_000_000,
            }
            .to_string()
        };
        assert_eq!(
            signature("Ada Lovelace", "ada@example.org"),
            "Ada Lovelace <ada@example.org> 1700000000 +0000"
        );
        assert_eq!(
            signature("A <b>\nparent x", "\n>"),
            "A bparent x <> 1700000000 +0000"
        );
        assert_eq!(signature(" . ", "x"), "unknown <x> 1700000000 +0000");
    }
}
