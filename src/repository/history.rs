//! The first-parent line: what came between two site actions.
//!
//! A merge is one step on that line, whatever it brought in. Whether a commit touches a site is found
//! by comparing the trees of the site's folders with those of its first parent; equal ids end the
//! comparison, so a commit that touches nothing costs a few look-ups.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::entry::{Selection, is_document_name, is_hidden};
use super::{CommitId, Error, Repository, git, walk};

/// A commit as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitSummary {
    /// Its id.
    pub id: CommitId,
    /// Name of its author.
    pub author: Arc<str>,
    /// When it was written, in seconds since 1970.
    pub seconds: i64,
    /// The first line of its message.
    pub subject: Arc<str>,
}

impl CommitSummary {
    /// The beginning of its id, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.id.short()
    }

    fn of(commit: &git2::Commit<'_>) -> Self {
        let author = commit.author();
        let subject = commit.summary_bytes().unwrap_or_default();
        Self {
            id: commit.id().into(),
            author: Arc::from(String::from_utf8_lossy(author.name_bytes())),
            seconds: author.when().seconds(),
            subject: Arc::from(String::from_utf8_lossy(subject)),
        }
    }
}

impl Repository {
    /// The parents of a commit.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn parents(&self, commit: CommitId) -> Result<Vec<CommitId>, Error> {
        self.with(|handle| {
            let commit = self.find(handle, commit.git())?;
            Ok(commit.parent_ids().map(CommitId::from).collect())
        })
    }

    /// A commit as it is listed.
    ///
    /// # Errors
    ///
    /// There is no such commit in this clone.
    pub fn summary(&self, commit: CommitId) -> Result<CommitSummary, Error> {
        self.with(|handle| {
            self.find(handle, commit.git())
                .map(|commit| CommitSummary::of(&commit))
        })
    }

    /// Visits a commit and those before it on its first-parent line, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// A commit cannot be read.
    pub fn first_parents(
        &self,
        tip: CommitId,
        visit: &mut dyn FnMut(CommitSummary) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.with(|handle| {
            let mut next = Some(self.find(handle, tip.git())?);
            while let Some(commit) = next {
                if visit(CommitSummary::of(&commit)).is_break() {
                    break;
                }
                next = self.first_parent(handle, &commit)?;
            }
            Ok(())
        })
    }

    /// Whether `ancestor` is `commit` or can be reached from it through any parents.
    ///
    /// # Errors
    ///
    /// A commit cannot be read; [`Error::Shallow`] if the answer would be no but the history was
    /// cut off.
    pub fn is_ancestor(&self, ancestor: CommitId, commit: CommitId) -> Result<bool, Error> {
        if ancestor == commit {
            return Ok(true);
        }
        self.with(|handle| {
            let known = handle.odb().is_ok_and(|odb| odb.exists(ancestor.git()));
            let reaches = |commit: CommitId, ancestor| {
                handle
                    .graph_descendant_of(commit.git(), ancestor)
                    .map_err(|error| self.reading(&format!("commit {commit}"), error))
            };
            if known && reaches(commit, ancestor.git())? {
                return Ok(true);
            }
            for end in self.shallow_ends() {
                let is_here = handle.odb().is_ok_and(|odb| odb.exists(end));
                // What comes after an end is not before it.
                if known && is_here && reaches(ancestor, end)? {
                    continue;
                }
                if end == commit.git() || (is_here && reaches(commit, end)?) {
                    return Err(Error::Shallow {
                        wanted: format!("commit {}", ancestor.short()),
                    });
                }
            }
            Ok(false)
        })
    }

    /// Whether a commit has the same files as the newest one that it has in common with another commit: all that was
    /// written since then is in that one.
    ///
    /// # Errors
    ///
    /// A commit cannot be read.
    pub fn adds_nothing_to(&self, commit: CommitId, other: CommitId) -> Result<bool, Error> {
        self.with(|handle| {
            let common = match handle.merge_base(commit.git(), other.git()) {
                Ok(common) => common,
                Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(false),
                Err(error) => return Err(git("compare two histories")(error)),
            };
            let tree = |id| -> Result<git2::Oid, Error> { Ok(self.find(handle, id)?.tree_id()) };
            Ok(tree(common)? == tree(commit.git())?)
        })
    }

    /// Whether `earlier` is `later` or on its first-parent line.
    ///
    /// # Errors
    ///
    /// As [`Repository::is_ancestor`].
    pub fn is_on_first_parent_line(
        &self,
        earlier: CommitId,
        later: CommitId,
    ) -> Result<bool, Error> {
        self.with(|handle| {
            let mut commit = self.find(handle, later.git())?;
            loop {
                if commit.id() == earlier.git() {
                    return Ok(true);
                }
                match self.first_parent(handle, &commit)? {
                    Some(parent) => commit = parent,
                    None => {
                        let wanted = format!("commit {}", earlier.short());
                        return self.whole_history(commit.id(), &wanted).map(|()| false);
                    }
                }
            }
        })
    }

    /// The commits on the first-parent line between two commits, both left out, that touch the
    /// selected files; the newest first. `from` of `None`: from the first commit on, which counts.
    ///
    /// # Errors
    ///
    /// [`Error::Diverged`] if `from` is not on the line of `to`, [`Error::Shallow`] if that
    /// cannot be known.
    pub fn commits_touching(
        &self,
        from: Option<CommitId>,
        to: CommitId,
        selection: &Selection,
    ) -> Result<Vec<CommitSummary>, Error> {
        let mut list = Vec::new();
        if from == Some(to) {
            return Ok(list);
        }
        self.with(|handle| {
            let target = self.find(handle, to.git())?;
            let mut last = target.id();
            let mut next = self.first_parent(handle, &target)?;
            while let Some(commit) = next {
                if from.is_some_and(|from| commit.id() == from.git()) {
                    return Ok(list);
                }
                let parent = self.first_parent(handle, &commit)?;
                let before = parent.as_ref().map(git2::Commit::tree_id);
                if touches(handle, before, Some(commit.tree_id()), "", selection)? {
                    list.push(CommitSummary::of(&commit));
                }
                last = commit.id();
                next = parent;
            }
            let wanted = from.map_or_else(
                || "the first commit".to_owned(),
                |from| format!("commit {}", from.short()),
            );
            self.whole_history(last, &wanted)?;
            match from {
                Some(from) => Err(Error::Diverged { from, to }),
                None => Ok(list),
            }
        })
    }

    /// Whether a commit touches the selected files, compared with its first parent.
    ///
    /// # Errors
    ///
    /// A commit or tree cannot be read.
    pub fn touches(&self, commit: CommitId, selection: &Selection) -> Result<bool, Error> {
        self.with(|handle| {
            let commit = self.find(handle, commit.git())?;
            let parent = self.first_parent(handle, &commit)?;
            let before = parent.as_ref().map(git2::Commit::tree_id);
            touches(handle, before, Some(commit.tree_id()), "", selection)
        })
    }

    pub(super) fn find<'a>(
        &self,
        handle: &'a git2::Repository,
        id: git2::Oid,
    ) -> Result<git2::Commit<'a>, Error> {
        handle.find_commit(id).map_err(|error| {
            if error.code() == git2::ErrorCode::NotFound && handle.is_shallow() {
                return Error::Shallow {
                    wanted: format!("commit {id}"),
                };
            }
            self.reading(&format!("commit {id}"), error)
        })
    }

    pub(super) fn first_parent<'a>(
        &self,
        handle: &'a git2::Repository,
        commit: &git2::Commit<'a>,
    ) -> Result<Option<git2::Commit<'a>>, Error> {
        match commit.parent_id(0) {
            Ok(parent) => self.find(handle, parent).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// An error if the history ends at this commit only because the clone has no more of it.
    pub(super) fn whole_history(&self, last: git2::Oid, wanted: &str) -> Result<(), Error> {
        if self.shallow_ends().contains(&last) {
            return Err(Error::Shallow {
                wanted: wanted.to_owned(),
            });
        }
        Ok(())
    }

    /// The commits whose parents were left out of a shallow clone, as git keeps them.
    pub(super) fn shallow_ends(&self) -> Vec<git2::Oid> {
        let text = std::fs::read_to_string(self.common_dir.join("shallow")).unwrap_or_default();
        text.lines()
            .filter_map(|line| git2::Oid::from_str(line.trim()).ok())
            .collect()
    }
}

/// Whether two trees of a folder differ in a selected file. `None` is an empty folder.
fn touches(
    handle: &git2::Repository,
    before: Option<git2::Oid>,
    after: Option<git2::Oid>,
    folder: &str,
    selection: &Selection,
) -> Result<bool, Error> {
    let goes_in = |folder: &str| selection.reaches(folder);
    let found = differing(
        handle,
        [before, after],
        folder,
        &goes_in,
        &mut |found| match selection.is_touched(found.path, found.is_link) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        },
    );
    found.map(|flow| flow.is_break())
}

/// A document or a link that two trees have not alike.
pub(super) struct Differing<'p> {
    pub(super) path: &'p str,
    pub(super) is_link: bool,
}

/// Visits the documents and links that two trees of a folder have not alike, in the folders that are to be gone into. One whose
/// kind differs may be visited twice. `None` is an empty folder.
pub(super) fn differing(
    handle: &git2::Repository,
    trees: [Option<git2::Oid>; 2],
    folder: &str,
    goes_in: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(Differing<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    if trees[0] == trees[1] {
        return Ok(ControlFlow::Continue(()));
    }
    let open = |id: Option<git2::Oid>| match id {
        Some(id) => handle
            .find_tree(id)
            .map(Some)
            .map_err(git(format!("read tree {id}"))),
        None => Ok(None),
    };
    let (before, after) = (open(trees[0])?, open(trees[1])?);
    for (is_second, side, other) in [(false, &before, &after), (true, &after, &before)] {
        let Some(side) = side else { continue };
        for entry in side {
            let Ok(name) = entry.name() else { continue };
            let counterpart = other.as_ref().and_then(|other| other.get_name(name));
            let unchanged = counterpart.as_ref().is_some_and(|counterpart| {
                counterpart.id() == entry.id() && counterpart.filemode_raw() == entry.filemode_raw()
            });
            if unchanged || is_hidden(name) {
                continue;
            }
            let path = walk::join(folder, name);
            let is_folder =
                |entry: &git2::TreeEntry<'_>| entry.kind() == Some(git2::ObjectType::Tree);
            let is_link = entry.filemode_raw() == 0o120000;
            let mut flow = ControlFlow::Continue(());
            if is_folder(&entry) {
                let counterpart = counterpart.filter(is_folder);
                // What both have is gone into from the first.
                let is_seen = is_second && counterpart.is_some();
                if !is_seen && goes_in(&path) {
                    let trees = [Some(entry.id()), counterpart.map(|other| other.id())];
                    flow = differing(handle, trees, &path, goes_in, visit)?;
                }
            } else if is_document_name(name) || is_link {
                let path = &path;
                flow = visit(Differing { path, is_link });
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
