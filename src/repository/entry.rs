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

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::conversion::Conversion;
use super::{BlobId, CommitId};

/// Which files are listed: YAML files below some folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Sorted, without trailing slashes, none inside another; `""` is the whole tree.
    prefixes: Vec<Arc<str>>,
    /// Files of other repositories.
    elsewhere: Vec<Elsewhere>,
}

/// The selected files of another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its name.
    pub name: Arc<str>,
    /// Its commit.
    pub commit: CommitId,
    /// Its files.
    pub selection: Selection,
}

impl Selection {
    /// The YAML files of the whole repository.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            prefixes: vec![Arc::from("")],
            elsewhere: Vec::new(),
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
        Self {
            prefixes,
            elsewhere: Vec::new(),
        }
    }

    /// The same, and files of other repositories.
    #[must_use]
    pub fn beside(mut self, elsewhere: Vec<Elsewhere>) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// The same at other commits of the other repositories, by name.
    ///
    /// # Errors
    ///
    /// The repositories of these names that it has nothing of.
    pub fn pinned(mut self, commits: &BTreeMap<Arc<str>, CommitId>) -> Result<Self, Vec<Arc<str>>> {
        self.elsewhere.retain_mut(|other| {
            let commit = commits.get(&other.name);
            other.commit = commit.copied().unwrap_or(other.commit);
            commit.is_some()
        });
        let has = |name: &Arc<str>| self.elsewhere.iter().any(|other| other.name == *name);
        let missing: Vec<_> = commits.keys().filter(|name| !has(name)).cloned().collect();
        match missing.is_empty() {
            true => Ok(self),
            false => Err(missing),
        }
    }

    /// The files of other repositories.
    #[must_use]
    pub fn elsewhere(&self) -> &[Elsewhere] {
        &self.elsewhere
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

    /// Whether a change at a path, which may be one of a link, is one of the selected files.
    #[must_use]
    pub fn is_touched(&self, path: &str, is_link: bool) -> bool {
        self.selects(path) || (is_link && self.reaches(path))
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

/// Whether a name would be that of a document in lower case, or without the `.txt` that an editor has added.
pub(super) fn is_nearly_document_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let lower = lower.strip_suffix(".txt").unwrap_or(&lower);
    !is_document_name(name) && is_document_name(lower)
}

/// The kind of file that git takes an entry for.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its path in the repository, with forward slashes, as it was found (links not resolved).
    pub path: Arc<str>,
    /// The kind that git takes it for.
    pub mode: Mode,
    /// The id of its bytes; `None` in the worktree until they are read.
    pub blob: Option<BlobId>,
    /// The evidence of a change, in the worktree.
    pub(super) stamp: Option<Stamp>,
    /// Where the bytes are, if that is not its path.
    pub(super) leads_to: Option<Arc<str>>,
    /// How git changes its bytes when they are committed, if that is not by the configuration alone.
    pub(super) conversion: Option<Arc<Conversion>>,
    /// Which of the other repositories has it, if it is not in this one.
    pub(super) elsewhere: Option<u32>,
}

impl Entry {
    /// The filter or the encoding that git would have changed its bytes by, and that they are read without.
    #[must_use]
    pub fn filter(&self) -> Option<&Arc<str>> {
        self.conversion.as_ref()?.filter.as_ref()
    }

    /// Where its bytes are in the repository: its path, with links resolved.
    #[must_use]
    pub fn place(&self) -> &str {
        self.leads_to.as_deref().unwrap_or(&self.path)
    }
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
        /// The target of the link.
        target: String,
    },
    /// A link to nothing.
    Dangling {
        /// The target of the link.
        target: String,
    },
    /// A link to a file that git does not track.
    Untracked {
        /// Where it leads.
        target: String,
    },
    /// A link to itself, or to a folder that it is in.
    Loop {
        /// The target of the link.
        target: String,
    },
    /// A name that ends in `.yaml` or `.yml` but for its case, or for the `.txt` that an editor has added, so that it is passed over.
    OtherEnding,
    /// Its name differs from that of another file or folder beside it in case alone.
    CaseAlone {
        /// The other.
        other: String,
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
            Self::Dangling { target } => write!(f, "is a link to `{target}`, which was not found"),
            Self::Untracked { target } => {
                write!(f, "is a link to `{target}`, which git does not track")
            }
            Self::Loop { target } => write!(f, "is a link in a circle, to `{target}`"),
            Self::OtherEnding => f.write_str(
                "is not read: the name of a document ends in `.yaml` or `.yml`, in lower case",
            ),
            Self::CaseAlone { other } => write!(
                f,
                "differs from `{other}` in case alone: a checkout on a system that does not tell them apart, such as macOS, has one of them"
            ),
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
    /// Unusable entries, sorted by path.
    pub problems: Vec<Problem>,
}

/// The evidence of a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    /// Seconds, and nanoseconds after them.
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    device: u64,
}

impl Stamp {
    /// The evidence by which a file is known to be unchanged; `None` if the system has none.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Some(Self {
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                inode: metadata.ino(),
                device: metadata.dev(),
            })
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            None
        }
    }

    pub(super) fn is_before(&self, time: (i64, i64)) -> bool {
        self.modified < time && self.changed < time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_that_of_a_document_is_known_as_such() {
        for name in ["nodes.YAML", "nodes.yaml.txt", "Nodes.Yml.TXT"] {
            assert!(is_nearly_document_name(name), "{name}");
        }
        for name in ["nodes.yaml", "nodes.txt", "nodes.yaml.bak", "yaml", ".txt"] {
            assert!(!is_nearly_document_name(name), "{name}");
        }
    }

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
}
