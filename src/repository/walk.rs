//! Walks the folders of a worktree or of a revision by the same rules.
//!
//! Both sides bring [`Folders`]: what is in a folder, and what a link says. Everything else, that is,
//! what is hidden, which links are followed and where a circle closes, is decided here, so that a
//! site has the same files whether they are committed or not.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::entry::{
    Entry, Mode, Problem, Reason, Selection, Stamp, Tree, is_document_name, is_hidden,
    is_nearly_document_name,
};
use super::{BlobId, CommitId, Error};

/// Files and folders visited in one walk; links can make more of them than a disk holds.
pub(super) const MOST_NODES: usize = 250_000;
/// Of these, those below links to folders: a few links to each other stand for any number of paths.
const MOST_LINKED: usize = 25_000;
/// Links that are followed to resolve one path, as the kernel counts them.
const MOST_HOPS: usize = 40;
/// Folders inside each other, which bounds the recursion.
pub(super) const DEEPEST: usize = 256;
/// Bytes of a link's target.
pub(super) const LONGEST_LINK: u64 = 4096;

/// The node at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File(Mode),
    Link,
    Submodule,
    /// A pipe, a socket or a device.
    Other,
}

/// The node at a path, and the id of its bytes if that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) blob: Option<BlobId>,
    /// Of a document in the worktree: the evidence of a change.
    pub(super) stamp: Option<Stamp>,
}

/// An entry of a folder.
pub(super) struct Child {
    pub(super) name: Vec<u8>,
    pub(super) node: Node,
}

/// Sorts the entries of a folder so that the paths of all files below it are sorted: as git does, a
/// folder as if its name ended with a slash.
pub(super) fn sort(children: &mut [Child]) {
    fn path(child: &Child) -> impl Iterator<Item = u8> {
        let slash = (child.node.kind == Kind::Folder).then_some(b'/');
        child.name.iter().copied().chain(slash)
    }
    children.sort_unstable_by(|one, other| {
        if one.node.kind == other.node.kind && one.node.kind != Kind::Folder {
            return one.name.cmp(&other.name);
        }
        path(one).cmp(path(other))
    });
}

/// Access to folders; paths are real ones (no link in them), `""` is the top.
pub(super) trait Folders {
    /// The entries of a folder, in any order; as [`sort`] has them, little is left to be sorted.
    fn children(&self, folder: &str) -> Result<Vec<Child>, Error>;
    /// The node at a path; `None` if not found.
    fn node(&self, path: &str) -> Result<Option<Node>, Error>;
    /// The target of the link at a path.
    fn link_target(&self, path: &str) -> Result<Vec<u8>, Error>;
    /// Whether the file at a path is one of git's.
    fn is_tracked(&self, path: &str) -> Result<bool, Error>;
}

/// Lists the selected files.
pub(super) fn list(
    folders: &dyn Folders,
    selection: &Selection,
    revision: Option<CommitId>,
) -> Result<Tree, Error> {
    let prefixes = selection.prefixes().iter();
    let listed: Vec<Listed> = prefixes
        .map(|prefix| below(folders, prefix))
        .collect::<Result<_, _>>()?;
    together(listed.into_iter().map(Cow::Owned).collect(), revision)
}

/// The files below one folder of a selection.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    nodes: usize,
    linked: usize,
}

/// Lists the files below one folder of a selection.
pub(super) fn below(folders: &dyn Folders, prefix: &str) -> Result<Listed, Error> {
    let mut walk = Walk {
        folders,
        entries: Vec::new(),
        problems: Vec::new(),
        nodes: 0,
        linked: 0,
    };
    walk.prefix(prefix)?;
    Ok(Listed {
        entries: walk.entries,
        problems: walk.problems,
        nodes: walk.nodes,
        linked: walk.linked,
    })
}

/// The files below all folders of a selection.
pub(super) fn together(
    listed: Vec<Cow<'_, Listed>>,
    revision: Option<CommitId>,
) -> Result<Tree, Error> {
    let sum = |count: fn(&Listed) -> usize| listed.iter().map(|each| count(each)).sum::<usize>();
    for (count, limit) in [
        (sum(|each| each.linked), MOST_LINKED),
        (sum(|each| each.nodes), MOST_NODES),
    ] {
        if count > limit {
            return Err(Error::TooManyFiles { limit });
        }
    }
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for listed in listed {
        let (of_folder, found) = match listed {
            Cow::Owned(listed) => (listed.entries, listed.problems),
            Cow::Borrowed(listed) => (listed.entries.clone(), listed.problems.clone()),
        };
        problems.extend(found);
        match entries.is_empty() {
            true => entries = of_folder,
            false => entries.extend(of_folder),
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    read_once(&mut entries);
    problems.sort();
    Ok(Tree {
        revision,
        entries,
        problems,
    })
}

/// Leaves out the files that a link to a folder leads to, and that are selected by another path as well.
fn read_once(entries: &mut Vec<Entry>) {
    if entries.iter().all(|entry| entry.leads_to.is_none()) {
        return;
    }
    let real = entries.iter().filter(|entry| entry.leads_to.is_none());
    let mut read: FxHashSet<Arc<str>> = real.map(|entry| entry.path.clone()).collect();
    entries.retain(|entry| match &entry.leads_to {
        Some(real) if entry.mode != Mode::Link => read.insert(real.clone()),
        _ => true,
    });
}

/// The names of the folders in a folder, links to folders of the repository among them, in any order;
/// hidden ones are left out.
pub(super) fn folders_in(folders: &dyn Folders, folder: &str) -> Result<Vec<String>, Error> {
    let walk = Walk {
        folders,
        entries: Vec::new(),
        problems: Vec::new(),
        nodes: 0,
        linked: 0,
    };
    let is_folder =
        |located: &Located| matches!(located, Located::At(_, node) if node.kind == Kind::Folder);
    let real = match walk.locate("", folder)? {
        Located::At(real, node) if node.kind == Kind::Folder => real,
        _ => return Ok(Vec::new()),
    };
    let mut names = Vec::new();
    for child in folders.children(&real)? {
        let Ok(name) = String::from_utf8(child.name) else {
            continue;
        };
        let is_one = match child.node.kind {
            _ if is_hidden(&name) => false,
            Kind::Folder => true,
            Kind::Link => is_folder(&walk.locate(&real, &name)?),
            _ => false,
        };
        if is_one {
            names.push(name);
        }
    }
    Ok(names)
}

struct Walk<'a> {
    folders: &'a dyn Folders,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    nodes: usize,
    /// Of the nodes, those that a link to a folder led to.
    linked: usize,
}

impl Walk<'_> {
    /// Lists what is below one folder of the selection.
    fn prefix(&mut self, prefix: &str) -> Result<(), Error> {
        if prefix.split('/').any(is_hidden) {
            return Ok(());
        }
        match self.locate("", prefix)? {
            Located::At(real, node) => match node.kind {
                Kind::Folder => self.folder(prefix, &real, &mut Vec::new()),
                _ => self.file(prefix, &real, real != prefix, node),
            },
            // A missing folder of the selection holds no files.
            Located::Nowhere => Ok(()),
            Located::Outside => {
                let target = prefix.to_owned();
                self.problem(prefix, Reason::LeavesRepository { target });
                Ok(())
            }
            Located::Circle => {
                let target = prefix.to_owned();
                self.problem(prefix, Reason::Loop { target });
                Ok(())
            }
        }
    }

    /// Lists a folder. `path` is how it was come to, `real` where it is, `open` the real folders that
    /// it is in.
    fn folder(&mut self, path: &str, real: &str, open: &mut Vec<String>) -> Result<(), Error> {
        let children = self.folders.children(real)?;
        let is_repository = children.iter().any(|child| child.name == b".git");
        if is_repository && !real.is_empty() {
            self.problem(path, Reason::Submodule);
            return Ok(());
        }
        open.push(real.to_owned());
        // Two names that differ in case alone are one with a capital letter, at least.
        let has_capital = |child: &Child| child.name.iter().any(u8::is_ascii_uppercase);
        let may_collide = children.iter().any(has_capital);
        let mut in_lower_case: FxHashMap<String, String> = FxHashMap::default();
        for child in children {
            self.nodes += 1;
            self.linked += usize::from(path != real);
            if self.linked > MOST_LINKED {
                return Err(Error::TooManyFiles { limit: MOST_LINKED });
            }
            if self.nodes > MOST_NODES || open.len() > DEEPEST {
                return Err(Error::TooManyFiles { limit: MOST_NODES });
            }
            if child.name.first() == Some(&b'.') {
                continue;
            }
            let Ok(name) = std::str::from_utf8(&child.name) else {
                let name = String::from_utf8_lossy(&child.name);
                if is_document_name(&name) || child.node.kind == Kind::Folder {
                    self.problem(&join(path, &name), Reason::NotUtf8);
                }
                continue;
            };
            let is_read = child.node.kind == Kind::Folder || is_document_name(name);
            if may_collide && is_read {
                let other = in_lower_case.insert(name.to_ascii_lowercase(), name.to_owned());
                if let Some(other) = other {
                    self.problem(&join(path, name), Reason::CaseAlone { other });
                }
            }
            match child.node.kind {
                // Most files of a repository may be no documents: no path is made for them.
                Kind::File(_) if is_nearly_document_name(name) => {
                    self.problem(&join(path, name), Reason::OtherEnding);
                }
                Kind::File(_) if !is_document_name(name) => {}
                Kind::Folder => self.folder(&join(path, name), &join(real, name), open)?,
                Kind::Link => self.link(&join(path, name), real, &join(real, name), open)?,
                _ => self.file(&join(path, name), &join(real, name), false, child.node)?,
            }
        }
        open.pop();
        Ok(())
    }

    /// Lists a file; `real` is where it is, and `is_link` whether it is a link that led there, not one of
    /// the folders that it is in.
    fn file(&mut self, path: &str, real: &str, is_link: bool, node: Node) -> Result<(), Error> {
        let mode = match node.kind {
            Kind::File(_) if is_link => Mode::Link,
            Kind::File(mode) => mode,
            Kind::Submodule => {
                self.problem(path, Reason::Submodule);
                return Ok(());
            }
            _ => {
                if is_document_name(path) {
                    self.problem(path, Reason::NotAFile);
                }
                return Ok(());
            }
        };
        if !is_document_name(path) {
            return Ok(());
        }
        if path != real && !self.folders.is_tracked(real)? {
            let target = real.to_owned();
            self.problem(path, Reason::Untracked { target });
            return Ok(());
        }
        self.entries.push(Entry {
            path: Arc::from(path),
            mode,
            blob: node.blob,
            stamp: node.stamp.filter(|_| !is_link),
            leads_to: (path != real).then(|| Arc::from(real)),
            conversion: None,
            elsewhere: None,
        });
        Ok(())
    }

    /// Follows the link at `real`, in the real folder `folder`.
    fn link(
        &mut self,
        path: &str,
        folder: &str,
        real: &str,
        open: &mut Vec<String>,
    ) -> Result<(), Error> {
        let target = self.folders.link_target(real)?;
        let target = String::from_utf8_lossy(&target).into_owned();
        match self.locate(folder, &target)? {
            Located::At(place, node) if node.kind == Kind::Folder => {
                if open.contains(&place) {
                    self.problem(path, Reason::Loop { target });
                    return Ok(());
                }
                self.folder(path, &place, open)?;
            }
            Located::At(place, node) => self.file(path, &place, true, node)?,
            Located::Nowhere => self.problem(path, Reason::Dangling { target }),
            Located::Circle => self.problem(path, Reason::Loop { target }),
            Located::Outside => self.problem(path, Reason::LeavesRepository { target }),
        }
        Ok(())
    }

    /// Resolves a path that begins in the real folder `start`, component by component.
    fn locate(&self, start: &str, target: &str) -> Result<Located, Error> {
        let mut place = start.to_owned();
        let mut node = Node {
            kind: Kind::Folder,
            blob: None,
            stamp: None,
        };
        let mut todo: Vec<String> = components(target);
        if target.starts_with('/') {
            return Ok(Located::Outside);
        }
        let mut hops = 0;
        while let Some(component) = todo.pop() {
            if component == ".." {
                if place.is_empty() {
                    return Ok(Located::Outside);
                }
                place.truncate(place.rfind('/').unwrap_or(0));
                node.kind = Kind::Folder;
                continue;
            }
            if component.eq_ignore_ascii_case(".git") {
                return Ok(Located::Outside);
            }
            if node.kind != Kind::Folder {
                return Ok(Located::Nowhere);
            }
            let next = join(&place, &component);
            match self.folders.node(&next)? {
                None => return Ok(Located::Nowhere),
                Some(found) if found.kind == Kind::Link => {
                    hops += 1;
                    if hops > MOST_HOPS {
                        return Ok(Located::Circle);
                    }
                    let target = self.folders.link_target(&next)?;
                    let target = String::from_utf8_lossy(&target);
                    if target.starts_with('/') {
                        return Ok(Located::Outside);
                    }
                    todo.extend(components(&target));
                }
                Some(found) => {
                    node = found;
                    place = next;
                }
            }
        }
        Ok(Located::At(place, node))
    }

    fn problem(&mut self, path: &str, reason: Reason) {
        self.problems.push(Problem {
            path: Arc::from(path),
            reason,
        });
    }
}

/// Where a path leads.
enum Located {
    /// To this real path.
    At(String, Node),
    Nowhere,
    Outside,
    Circle,
}

/// The components of a path, the last one first.
fn components(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|component| !component.is_empty() && *component != ".")
        .rev()
        .map(str::to_owned)
        .collect()
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
