//! Files that git takes for unchanged without looking for them: what a sparse checkout leaves out (skip-worktree), and
//! what a user told it to take for unchanged (assume-unchanged). Submodules, too: one that is not checked out is an empty
//! folder, and as little a part of the repository as one that is.
//!
//! Their files are those of `HEAD`, whatever is or is not in the worktree: then the worktree is clean if git calls it
//! clean. The index has a bit for each; most have none, which a glance at its entries shows. If there are some, or the
//! index is in a form that is not read here, git lists them.

use std::path::Path;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::entry::{Mode, is_document_name};
use super::program::{LOCAL, ProgramTimeout};
use super::read::{Links, read_file};
use super::walk::{self, Child, Kind, Node};
use super::{Error, Repository};

/// A larger index is left to git.
const LARGEST_INDEX: u64 = 1 << 30;

/// Bits of an index entry.
const ASSUME_UNCHANGED: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const NAME: u16 = 0x0fff;

/// Where the mode of an index entry is, and the part of it that tells the kind.
const MODE: usize = 24;
const KIND: u32 = 0o170000;
const SUBMODULE: u32 = 0o160000;

/// The files of `HEAD` that stand in the place of those of the worktree.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// By folder, the files and folders in it.
    folders: FxHashMap<String, FxHashMap<String, Node>>,
}

impl Skipped {
    /// The node at a path, unless it is a folder.
    pub(super) fn file(&self, path: &str) -> Option<Node> {
        self.node(path).filter(|node| node.kind != Kind::Folder)
    }

    /// The node at a path.
    pub(super) fn node(&self, path: &str) -> Option<Node> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.folders.get(folder)?.get(name).copied()
    }

    /// Whether a folder has any of them.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.folders.contains_key(folder)
    }

    /// The paths of the files and submodules.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        self.folders.iter().flat_map(|(folder, nodes)| {
            let files = nodes.iter().filter(|(_, node)| node.kind != Kind::Folder);
            files.map(|(name, _)| walk::join(folder, name))
        })
    }

    /// Puts those of a folder in the place of what is there.
    pub(super) fn put_into(&self, folder: &str, children: &mut Vec<Child>) {
        let Some(nodes) = self.folders.get(folder) else {
            return;
        };
        let is_kept = |child: &Child| {
            let name = std::str::from_utf8(&child.name).ok();
            let node = name.and_then(|name| nodes.get(name));
            node.is_none_or(|node| node.kind == Kind::Folder && child.node.kind == Kind::Folder)
        };
        children.retain(is_kept);
        let here: FxHashSet<Vec<u8>> = children.iter().map(|child| child.name.clone()).collect();
        let missing = nodes
            .iter()
            .filter(|(name, _)| !here.contains(name.as_bytes()));
        children.extend(missing.map(|(name, node)| Child {
            name: name.clone().into_bytes(),
            node: *node,
        }));
    }

    fn insert(&mut self, path: &str, node: Node) {
        let (mut path, mut node) = (path, node);
        loop {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let nodes = self.folders.entry(folder.to_owned()).or_default();
            let is_new = nodes.insert(name.to_owned(), node).is_none();
            if folder.is_empty() || !is_new {
                return;
            }
            path = folder;
            node = Node {
                kind: Kind::Folder,
                blob: None,
                stamp: None,
            };
        }
    }
}

impl Repository {
    /// The files that git takes for unchanged without looking for them.
    ///
    /// # Errors
    ///
    /// Git cannot list them, or `HEAD` not be read.
    pub(super) fn skipped(&self) -> Result<Arc<Skipped>, Error> {
        let index = self.git_dir.join("index");
        let has_none = match read_file(&index, LARGEST_INDEX, Links::Followed) {
            Ok(bytes) => has_no_flags(&bytes) == Some(true),
            Err(_) => !index.exists(),
        };
        if has_none {
            return Ok(Arc::default());
        }
        let arguments = ["ls-files", "-v", "-s", "-z"];
        let timeout = ProgramTimeout::Unattended(LOCAL);
        let output = self.run_program(&arguments, timeout, LOCAL)?;
        if !output.success {
            return Err(Error::Program {
                attempt: "list the files of the index".to_owned(),
                message: output.stderr,
            });
        }
        let mut skipped = Skipped::default();
        self.with(|handle| {
            let Some(head) = handle.head().ok().and_then(|head| head.peel_to_tree().ok()) else {
                return Ok(());
            };
            for line in output.stdout.split_terminator('\0') {
                let Some((flags, path)) = line.split_once('\t') else {
                    continue;
                };
                let has_mode = |mode| flags.get(2..).is_some_and(|rest| rest.starts_with(mode));
                if has_mode("160000") {
                    let node = Node {
                        kind: Kind::Submodule,
                        blob: None,
                        stamp: None,
                    };
                    skipped.insert(path, node);
                    continue;
                }
                let is_link = has_mode("120000");
                let is_skipped = flags.starts_with(|tag: char| tag == 'S' || tag.is_lowercase());
                if !is_skipped || !(is_link || is_document_name(path) || path.ends_with(".rego")) {
                    continue;
                }
                // One that was never committed is what it is in the worktree.
                if let Ok(entry) = head.get_path(Path::new(path)) {
                    let kind = match entry.filemode() {
                        0o120000 => Kind::Link,
                        0o100755 => Kind::File(Mode::Executable),
                        0o100644 => Kind::File(Mode::Regular),
                        _ => continue,
                    };
                    let node = Node {
                        kind,
                        blob: Some(entry.id().into()),
                        stamp: None,
                    };
                    skipped.insert(path, node);
                }
            }
            Ok(())
        })?;
        Ok(Arc::new(skipped))
    }
}

/// Whether no entry of an index has one of the bits, or is a submodule; `None` if it is in a form that is not read here.
fn has_no_flags(index: &[u8]) -> Option<bool> {
    const FIXED: usize = 62;
    let word = |at: usize| -> Option<u32> {
        let bytes = index.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    if index.get(..4)? != b"DIRC" || !matches!(word(4)?, 2 | 3) {
        return None;
    }
    let mut at = 12;
    for _ in 0..word(8)? {
        let bytes = index.get(at + FIXED - 2..at + FIXED)?;
        let flags = u16::from_be_bytes(bytes.try_into().ok()?);
        let is_submodule = word(at + MODE)? & KIND == SUBMODULE;
        if is_submodule || flags & (ASSUME_UNCHANGED | EXTENDED) != 0 {
            return Some(false);
        }
        let name = match flags & NAME {
            NAME => index
                .get(at + FIXED..)?
                .iter()
                .position(|byte| *byte == 0)?,
            length => usize::from(length),
        };
        // A name ends with one zero at least, and entries are of whole words of eight bytes.
        at += (FIXED + name + 8) / 8 * 8;
    }
    // Behind all is a checksum.
    if at + 20 > index.len() {
        return None;
    }
    // An extension whose name begins in lower case changes the meaning of what is before it.
    while at + 8 + 20 <= index.len() {
        if index[at].is_ascii_lowercase() {
            return None;
        }
        at += 8 + word(at + 4)? as usize;
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of one entry.
    fn index(version: u32, flags: u16, extension: &[u8]) -> Vec<u8> {
        let mut index = b"DIRC".to_vec();
        index.extend(version.to_be_bytes());
        index.extend(1u32.to_be_bytes());
        index.extend([0; 60]);
        index.extend((flags | 6).to_be_bytes());
        index.extend(b"a.yaml\0\0\0\0");
        index.extend(extension);
        index.extend([0; 20]);
        index
    }

    #[test]
    fn only_an_index_without_bits_is_taken_for_one() {
        assert_eq!(has_no_flags(&index(2, 0, b"")), Some(true));
        assert_eq!(has_no_flags(&index(2, 0, b"TREE\0\0\0\x02ab")), Some(true));
        assert_eq!(has_no_flags(&index(2, ASSUME_UNCHANGED, b"")), Some(false));
        assert_eq!(has_no_flags(&index(3, EXTENDED, b"")), Some(false));
        let mut submodule = index(2, 0, b"");
        submodule[12 + MODE..12 + MODE + 4].copy_from_slice(&SUBMODULE.to_be_bytes());
        assert_eq!(has_no_flags(&submodule), Some(false));
        assert_eq!(
            has_no_flags(&index(4, 0, b"")),
            None,
            "names are compressed"
        );
        assert_eq!(
            has_no_flags(&index(2, 0, b"sdir\0\0\0\0")),
            None,
            "a sparse index"
        );
        assert_eq!(has_no_flags(&index(2, 0, b"")[..80]), None, "cut off");
    }

    #[test]
    fn what_is_not_checked_out_stands_beside_what_is() {
        let file = |digit| Node {
            kind: Kind::File(Mode::Regular),
            blob: Some(super::super::blob_id(digit)),
            stamp: None,
        };
        let mut skipped = Skipped::default();
        skipped.insert("site/a.yaml", file(b"1"));
        skipped.insert("site/deep/b.yaml", file(b"2"));
        let mut children = vec![Child {
            name: b"a.yaml".to_vec(),
            node: file(b"changed"),
        }];
        skipped.put_into("site", &mut children);
        children.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<_> = children.iter().map(|child| child.name.clone()).collect();
        assert_eq!(names, [b"a.yaml".to_vec(), b"deep".to_vec()]);
        assert_eq!(children[0].node.blob, file(b"1").blob);
        assert!(skipped.has_folder("site/deep") && skipped.file("site").is_none());
    }
}
