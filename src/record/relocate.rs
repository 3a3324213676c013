//! Moving the records of a site at a remote to a branch, or back.
//!
//! The new place gets the records first, and the old one a marker, in one push if the remote can do that. Killed
//! or refused in between, both have records: then a clone that looks in the branch refuses both, and moving again
//! completes it. A branch only ever moves forward, so that a forge may deny all else.
//!
//! Accounts that may not push the branch may push to trueup's own refs. Once the branch has records, nothing that was
//! written there since comes into it unless a person names the very commit.

use std::collections::BTreeMap;

use super::error::{Error, failed};
use super::message::message_in;
use super::place::write_marker;
use super::signing::NotReady;
use super::store::Store;
use crate::repository::{CommitId, NewCommit, ObjectId, RefUpdate, Remote, Signature};

/// The direction of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the branch.
    ToBranch,
    /// From the branch, back below trueup's own refs.
    Back,
}

/// The content of a ref that may hold records.
enum Content {
    Absent,
    Records(CommitId),
    Marker(CommitId, String),
}

/// How records are moved.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Where to.
    pub direction: Direction,
    /// The newest commit of records that may come into a branch which has records already.
    pub take: Option<CommitId>,
}

/// A ref at the remote, and its content.
struct End<'a> {
    name: &'a str,
    content: Content,
}

/// The updates that move the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The ref that holds the records then.
    pub to: String,
    /// In this order, if the remote does not take them as a whole; none: they are there already.
    pub updates: Vec<RefUpdate>,
}

impl End<'_> {
    fn tip(&self) -> Option<CommitId> {
        match self.content {
            Content::Absent => None,
            Content::Records(tip) | Content::Marker(tip, _) => Some(tip),
        }
    }

    fn update(&self, new: CommitId) -> RefUpdate {
        RefUpdate {
            name: self.name.to_owned(),
            old: self.tip().map(|tip| tip.0),
            new: Some(new.0),
        }
    }
}

impl Store<'_> {
    /// Finds the updates that move the records at the remote, and writes the commits for them.
    ///
    /// # Errors
    ///
    /// No branch is named; the remote cannot be asked; [`Error::NewerElsewhere`], [`Error::BothHaveRecords`],
    /// [`Error::BranchMissing`] and [`Error::Moved`] if it is for a person to decide which records count.
    pub fn relocation(
        &self,
        remote: &Remote<'_>,
        how: Move,
        author: &Signature,
    ) -> Result<Relocation, Error> {
        let Some(branch) = self.place.branch() else {
            return Err(Error::NoBranch {
                site: self.site.clone(),
            });
        };
        let own = self.place.own();
        let (from, to) = match how.direction {
            Direction::ToBranch => (own, branch),
            Direction::Back => (branch, own),
        };
        let refs = remote
            .ls_remote(&[from, to])
            .map_err(failed("ask the remote for the records"))?;
        let from = self.end(remote, from, refs.get(from))?;
        let to = self.end(remote, to, refs.get(to))?;
        Ok(Relocation {
            updates: self.updates(&from, &to, how.take, author)?,
            to: to.name.to_owned(),
        })
    }

    fn updates(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        take: Option<CommitId>,
        author: &Signature,
    ) -> Result<Vec<RefUpdate>, Error> {
        let mark = || {
            let marker = self.marker(from, to.name, author);
            marker.map(|marker| from.update(marker))
        };
        match (&from.content, &to.content) {
            (Content::Absent, Content::Absent) => Ok(Vec::new()),
            // Below trueup's own refs no marker is needed if nothing was ever in a branch.
            (Content::Absent, Content::Records(_)) => match self.place.branch() == Some(to.name) {
                true => Ok(vec![mark()?]),
                false => Ok(Vec::new()),
            },
            (Content::Marker(_, named), Content::Records(_)) if named == to.name => Ok(Vec::new()),
            (Content::Marker(_, named), Content::Absent) if named == to.name => {
                Err(self.missing(to.name))
            }
            (Content::Marker(_, named), _) if named != to.name => Err(self.moved(named)),
            (Content::Absent, Content::Marker(_, named)) if named == from.name => {
                Err(self.missing(from.name))
            }
            (_, Content::Marker(_, named)) if named != from.name => Err(self.moved(named)),
            (Content::Records(tip), Content::Absent | Content::Marker(..)) => {
                Ok(vec![self.arrival(*tip, to, author)?, mark()?])
            }
            (Content::Records(tip), Content::Records(there)) => {
                if self.adds_nothing(*tip, *there)? {
                    return Ok(vec![mark()?]);
                }
                if !self.adds_nothing(*there, *tip)? {
                    return Err(Error::BothHaveRecords {
                        site: self.site.clone(),
                        one: from.name.to_owned(),
                        other: to.name.to_owned(),
                    });
                }
                if self.place.branch() == Some(to.name) && take != Some(*tip) {
                    return Err(self.newer(from.name, *tip, to.name, *there)?);
                }
                Ok(vec![self.arrival(*tip, to, author)?, mark()?])
            }
            // Each names the other.
            (Content::Marker(..) | Content::Absent, _) => Err(self.missing(to.name)),
        }
    }

    /// The content of a ref of the remote.
    fn end<'n>(
        &self,
        remote: &Remote<'_>,
        name: &'n str,
        found: Option<&ObjectId>,
    ) -> Result<End<'n>, Error> {
        let content = match found {
            None => Content::Absent,
            Some(id) => {
                let tip = CommitId(*id);
                match self.marker_at(remote, name, tip)? {
                    Some(named) => Content::Marker(tip, named),
                    None => Content::Records(tip),
                }
            }
        };
        Ok(End { name, content })
    }

    /// The commit with which records arrive at a ref: it is on top of what that holds.
    fn arrival(&self, tip: CommitId, to: &End<'_>, author: &Signature) -> Result<RefUpdate, Error> {
        let arriving = || failed("write the records for their new place");
        let mut parents = vec![tip];
        if let Some(there) = to.tip() {
            let is_in = self.repository.is_ancestor(there, tip);
            if !is_in.map_err(arriving())? {
                parents.push(there);
            }
        }
        let commit = NewCommit {
            base: Some(tip),
            parents,
            changes: BTreeMap::new(),
            deflated: BTreeMap::new(),
            author: author.clone(),
            message: message_in(to.name, &format!("records moved to {}", to.name)),
        };
        let unsigned = |why| Error::Unsigned {
            site: self.site.clone(),
            why,
        };
        let signing = self.signing.as_deref();
        if let Some(signing) = signing {
            signing.ready(Some(tip)).map_err(unsigned)?;
        }
        match self.write_commit(commit, signing) {
            (commit, None) => Ok(to.update(commit.map_err(arriving())?)),
            (_, Some(why)) => Err(unsigned(NotReady::NoSignature(why))),
        }
    }

    /// The marker at a ref that the records leave, on top of what that holds.
    fn marker(&self, from: &End<'_>, to: &str, author: &Signature) -> Result<CommitId, Error> {
        let ends = (from.name, to);
        write_marker(self.repository, ends, from.tip(), author.clone())
    }

    /// The error for records below trueup's own refs that the branch does not have.
    fn newer(
        &self,
        own: &str,
        tip: CommitId,
        branch: &str,
        there: CommitId,
    ) -> Result<Error, Error> {
        let mut runs = self.runs(&self.read_at(tip)?)?;
        let known = self.runs(&self.read_at(there)?)?;
        runs.retain(|run| !known.contains(run));
        Ok(Error::NewerElsewhere {
            own: Box::from(own),
            tip,
            branch: Box::from(branch),
            runs: runs.into_boxed_slice(),
        })
    }

    pub(super) fn missing(&self, branch: &str) -> Error {
        Error::BranchMissing {
            site: self.site.clone(),
            branch: branch.to_owned(),
            own: self.place.own().to_owned(),
        }
    }

    pub(super) fn moved(&self, to: &str) -> Error {
        Error::Moved {
            site: self.site.clone(),
            to: to.to_owned(),
        }
    }

    /// Whether a commit of the records has nothing that another one has not.
    pub(super) fn adds_nothing(&self, commit: CommitId, to: CommitId) -> Result<bool, Error> {
        let found = self.repository.adds_nothing_to(commit, to);
        found.map_err(failed("compare the records with the remote's"))
    }
}
