//! Records that came from, or go to, a remote.
//!
//! That a clone has no records does not mean that nothing was applied: a pipeline's clone has neither
//! records nor tags. So the remote is asked, its state is kept in
//! `refs/trueup-remotes/<remote>/<site>/state`, and ours follows it: it is a cache of the remote's, with
//! checkpoints on top that are not published yet. If both have newer runs, the remote's count and ours are
//! kept under a ref of their own.
//!
//! If the remote has its records elsewhere than this clone looks for them, they are not followed: that the
//! records are not found is then no sign that there are none ([`Place`](super::Place)).

use std::collections::BTreeMap;

use super::error::{ACCEPTED_STATE, Error, failed};
use super::place::{Place, program, write_marker};
use super::store::{State, Store};
use crate::design::RunId;
use crate::repository::{CommitId, NewCommit, ObjectId, RefUpdate, Remote, Wanted};

/// Where records are if nothing is configured.
const USUAL: &str = "refs/trueup/";

/// The tags of runs, each below the name of its site.
const TAGS: [&str; 2] = [
    "refs/tags/site-action-success/",
    "refs/tags/site-action-failure/",
];

/// Refs that hold copies of others, and count for nothing.
const COPIES: [&str; 7] = [
    "refs/remotes/",
    "refs/trueup-remotes/",
    "refs/trueup-kept/",
    "refs/tags/",
    "refs/pull/",
    "refs/merge-requests/",
    "refs/changes/",
];

/// How the records here and at the remote stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// The remote has none.
    NotThere,
    /// Both are the same.
    Same,
    /// Ours were behind, and follow the remote's now.
    Followed,
    /// Ours have checkpoints that the remote has not.
    Ahead,
    /// Ours had a run that the remote does not know, and the remote has newer ones. Ours follow
    /// the remote's now.
    SetAside {
        /// The newest run that ours had.
        run: RunId,
        /// The ref that keeps them.
        kept: String,
    },
}

/// The refs of the remote when it was asked, which a push of the state must expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// How ours stand to it.
    pub standing: ExchangeOutcome,
    /// The tip of the remote's state.
    pub remote_tip: Option<CommitId>,
}

impl Store<'_> {
    /// Asks the remote for its records, fetches them, and lets ours follow. If both have newer runs, ours
    /// are kept aside as `refs/trueup-kept/runs/<site>/<run>`, and the remote's count: either ours only have
    /// more of a run that was resumed elsewhere, or a run that the remote does not know
    /// ([`ExchangeOutcome::SetAside`]).
    ///
    /// # Errors
    ///
    /// The remote cannot be asked; [`Error::LostRace`] if another process moved ours meanwhile;
    /// [`Error::Moved`], [`Error::NotMoved`], [`Error::MarkerMissing`] and [`Error::BranchMissing`] if the records
    /// of the remote are not where this clone looks for them; [`Error::OtherRemote`] if another remote has them.
    pub fn follow(&self, remote: &Remote<'_>) -> Result<Exchange, Error> {
        let (there, tagged) = self.ask_with_tags(remote)?;
        let exchange = |standing| Exchange {
            standing,
            remote_tip: there,
        };
        let ours = self.tip()?;
        let Some(theirs) = there else {
            self.refuse_other_remote(remote)?;
            let newest = match ours {
                Some(tip) => Some(self.read_at(tip)?),
                None => None,
            };
            self.refuse_older(newest.as_ref(), tagged)?;
            return Ok(exchange(ExchangeOutcome::NotThere));
        };
        if ours == Some(theirs) {
            // A fetch of all refs may have left out the files.
            remote
                .complete(theirs, Wanted::Everything)
                .map_err(failed("fetch the records"))?;
            return Ok(exchange(ExchangeOutcome::Same));
        }
        let theirs = self.fetch(remote, theirs)?;
        let exchange = |standing| Exchange {
            standing,
            remote_tip: Some(theirs),
        };
        let at_remote = self.read_at(theirs)?;
        let is_ancestor = |ancestor, commit| {
            self.repository
                .is_ancestor(ancestor, commit)
                .map_err(failed("compare the records with the remote's"))
        };
        if let Some(tip) = ours
            && is_ancestor(theirs, tip)?
        {
            // Also if the remote has lost what it had: the next push gives it back.
            return Ok(exchange(ExchangeOutcome::Ahead));
        }
        self.refuse_older(Some(&at_remote), tagged)?;
        let Some(tip) = ours else {
            self.move_to(None, theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        };
        if is_ancestor(tip, theirs)? {
            self.move_to(Some(tip), theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        }
        let run = match self.read_at(tip) {
            Ok(ours) => ours.site.last_run,
            // A fetch of all refs has brought the marker in the place of ours.
            Err(Error::Moved { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(run) = run else {
            self.move_to(Some(tip), theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        };
        if self.adds_nothing(theirs, tip)? {
            self.put_on_top(&run, tip, theirs)?;
            return Ok(exchange(ExchangeOutcome::Ahead));
        }
        let kept = self.set_aside(&run, tip)?;
        self.move_to(Some(tip), theirs)?;
        // Checkpoints of a run that crashed before it published them, and that was resumed or aborted elsewhere,
        // with a probe of every step that it may have begun, are no loss.
        let is_known = self.run(&at_remote, &run)?.is_some();
        Ok(exchange(match is_known {
            true => ExchangeOutcome::Followed,
            false => ExchangeOutcome::SetAside { run, kept },
        }))
    }

    /// Refuses a remote without records where another one of this clone has them: a branch may track a fork. One that does not answer is passed over.
    fn refuse_other_remote(&self, remote: &Remote<'_>) -> Result<(), Error> {
        let at = self.place.at_remote();
        let others = remote.others().map_err(failed("list the remotes"))?;
        let mut with_records = others.into_iter().filter(|other| {
            let refs = other.ls_remote(&[at]);
            refs.is_ok_and(|refs| refs.contains_key(at))
        });
        with_records.next().map_or(Ok(()), |other| {
            Err(Error::OtherRemote {
                site: self.site.clone(),
                asked: Box::from(remote.name()),
                other: Box::from(other.name()),
                own: Box::from(self.place.own()),
                at: Box::from(at),
            })
        })
    }

    /// Refuses records that are older than the tags beside them: the remote was set back, or has lost records, and what was done
    /// since would be done again. A run has its tag from its end on, so that records in which it has not ended are older, too.
    fn refuse_older(&self, records: Option<&State>, tagged: Option<RunId>) -> Result<(), Error> {
        let newest = records.and_then(|records| records.site.last_run.clone());
        let newer = match (tagged, records) {
            (Some(run), Some(records)) if Some(&run) == newest.as_ref() => {
                let record = self.run(records, &run)?;
                let is_open = record.is_some_and(|record| !record.outcome.has_ended());
                is_open.then_some(run)
            }
            (tagged, _) => tagged.filter(|run| Some(run) > newest.as_ref()),
        };
        let Some(newer) = newer else { return Ok(()) };
        let accepted = self.repository.config(ACCEPTED_STATE);
        let accepted = accepted.map_err(failed("read the configuration"))?;
        if accepted.is_some_and(|accepted| accepted == newer.as_str()) {
            return Ok(());
        }
        Err(Error::WentBack {
            site: self.site.clone(),
            newest,
            newer,
            own: Box::from(self.place.own()),
            at: Box::from(self.place.at_remote()),
        })
    }

    /// The place of the records while a run holds the lock that began before a branch was named: they stay where they are until
    /// it has ended, and are moved then. A branch that has records counts in any case.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked.
    pub fn place_of_run(&self, remote: &Remote<'_>, lock: &str) -> Result<Place, Error> {
        let own = self.place.own();
        let Some(branch) = self.place.branch() else {
            return Ok(self.place.clone());
        };
        let refs = remote
            .ls_remote(&[own, branch, lock])
            .map_err(failed("ask the remote for the records"))?;
        let records = refs.get(own).filter(|_| !refs.contains_key(branch));
        let is_unmoved = match records.filter(|_| refs.contains_key(lock)) {
            Some(tip) => self.marker_at(remote, own, CommitId(*tip))?.is_none(),
            None => false,
        };
        Ok(match is_unmoved {
            true => self.place.without_branch(),
            false => self.place.clone(),
        })
    }

    /// The tip of the records at the remote, where this clone looks for them.
    ///
    /// # Errors
    ///
    /// As [`Store::follow`].
    pub fn ask(&self, remote: &Remote<'_>) -> Result<Option<CommitId>, Error> {
        let (tip, _) = self.ask_with_tags(remote)?;
        // Of a branch that is named it is known; a marker in the place of records names another one.
        let unread = tip.filter(|_| self.place.branch().is_none());
        if let Some(tip) = unread
            && let Some(to) = self.marker_at(remote, self.place.own(), tip)?
        {
            return Err(self.moved(&to));
        }
        Ok(tip)
    }

    /// The tip of the records at the remote, and the newest run that a tag there names.
    fn ask_with_tags(
        &self,
        remote: &Remote<'_>,
    ) -> Result<(Option<CommitId>, Option<RunId>), Error> {
        let own = self.place.own();
        let ending = format!("*/{}/state", self.site);
        let tags = TAGS.map(|folder| format!("{folder}{}/", self.site));
        let asked = tags.each_ref().map(|folder| format!("{folder}*"));
        // The lock, the reservations and the parts of runs are asked for next.
        let beside = own.strip_suffix("state").map(|folder| format!("{folder}*"));
        let branch = self.place.branch();
        let mut names = vec![own, &ending, &asked[0], &asked[1]];
        names.extend(branch);
        names.extend(beside.as_deref());
        let mut refs = remote
            .ls_remote(&names)
            .map_err(failed("ask the remote for the records"))?;
        let mut newest: Option<RunId> = None;
        refs.retain(|name, _| {
            let run = tags
                .iter()
                .find_map(|folder| name.strip_prefix(folder.as_str()));
            let is_run = run.filter(|run| ulid::Ulid::from_string(run).is_ok());
            newest = newest.take().max(is_run.map(RunId::from));
            let has_records = name.ends_with(&ending[1..]) || Some(name.as_str()) == branch;
            run.is_none() && (has_records || name == own)
        });
        self.refuse_other_places(remote, &refs)?;
        Ok((self.tip_among(remote, &refs)?, newest))
    }

    /// The tip of the records among the refs of the remote.
    fn tip_among(
        &self,
        remote: &Remote<'_>,
        refs: &BTreeMap<String, ObjectId>,
    ) -> Result<Option<CommitId>, Error> {
        let own = self.place.own();
        let found = |name: &str| refs.get(name).map(|id| CommitId(*id));
        let Some(branch) = self.place.branch() else {
            return Ok(found(own));
        };
        match (found(own), found(branch)) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Error::MarkerMissing {
                site: self.site.clone(),
                branch: branch.to_owned(),
                own: own.to_owned(),
            }),
            (Some(marker), tip) => match self.marker_at(remote, own, marker)? {
                Some(to) if to != branch => Err(self.moved(&to)),
                Some(_) if tip.is_none() => Err(self.missing(branch)),
                Some(_) => Ok(tip),
                None => Err(self.not_in_branch(remote, branch, tip)?),
            },
        }
    }

    /// Refuses records if another clone, which is configured otherwise, has put them: each place has a lock of its
    /// own, and two runs would act on the same machines.
    fn refuse_other_places(
        &self,
        remote: &Remote<'_>,
        refs: &BTreeMap<String, ObjectId>,
    ) -> Result<(), Error> {
        let own = self.place.own();
        // Of several places this one counts: all others refuse beside it.
        if own.starts_with(USUAL) && refs.contains_key(own) {
            return Ok(());
        }
        let is_known = |name: &str| name == own || self.place.branch() == Some(name);
        let others = refs.iter().filter(|(name, _)| {
            !is_known(name) && !COPIES.iter().any(|copies| name.starts_with(copies))
        });
        let (mut with_records, mut named) = (None, Vec::new());
        for (name, id) in others {
            match self.marker_at(remote, name, CommitId(*id)) {
                Ok(None) => with_records = with_records.or(Some(name)),
                Ok(Some(to)) => named.push(to),
                // It has no records.
                Err(Error::Broken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(other) = with_records else {
            return Ok(());
        };
        // What leads from ours to the other place is told where ours is read.
        if let Some(ours) = refs.get(own)
            && self.marker_at(remote, own, CommitId(*ours))?.as_ref() == Some(other)
        {
            return Ok(());
        }
        if named.contains(other) {
            return Err(self.moved(other));
        }
        Err(Error::ElsewhereToo {
            site: self.site.clone(),
            own: Box::from(self.place.at_remote()),
            other: Box::from(other.as_str()),
            remote: Box::from(remote.name()),
        })
    }

    /// The error for records that are at trueup's own ref, and not in the branch any more, or not yet.
    fn not_in_branch(
        &self,
        remote: &Remote<'_>,
        branch: &str,
        tip: Option<CommitId>,
    ) -> Result<Error, Error> {
        let left = match tip {
            Some(tip) => self.marker_at(remote, branch, tip)?,
            None => None,
        };
        Ok(match left {
            Some(to) => self.moved(&to),
            None => Error::NotMoved {
                site: self.site.clone(),
                branch: branch.to_owned(),
                own: self.place.own().to_owned(),
            },
        })
    }

    /// The ref that a commit at a ref of the remote names, if it is a marker.
    pub(super) fn marker_at(
        &self,
        remote: &Remote<'_>,
        name: &str,
        tip: CommitId,
    ) -> Result<Option<String>, Error> {
        let reading = || failed("read the records of the remote");
        if !self.repository.has(tip.0).map_err(reading())? {
            let here = format!("refs/trueup-remotes/{}/{}/moved", remote.name(), self.site);
            remote.fetch(&[(name, &here)]).map_err(reading())?;
        }
        match self.read_at(tip) {
            Ok(_) => Ok(None),
            Err(Error::Moved { to, .. }) => Ok(Some(to)),
            Err(error) => Err(error),
        }
    }

    /// Fetches the records of the remote. By now it may be further than it was when it was asked.
    fn fetch(&self, remote: &Remote<'_>, asked: CommitId) -> Result<CommitId, Error> {
        let tracking = format!("refs/trueup-remotes/{}/{}/state", remote.name(), self.site);
        remote
            .fetch(&[(self.place.at_remote(), &tracking)])
            .map_err(failed("fetch the records"))?;
        let fetched = self
            .repository
            .read_ref(&tracking)
            .map_err(failed("read the fetched records"))?;
        Ok(fetched.map_or(asked, CommitId))
    }

    /// Puts our records on top of the remote's, which have moved since and have nothing that ours do not have.
    fn put_on_top(&self, run: &RunId, ours: CommitId, theirs: CommitId) -> Result<(), Error> {
        let writing = || failed("put our own records on top of the remote's");
        let tip = self.repository.write_commit(&NewCommit {
            base: Some(ours),
            parents: vec![theirs, ours],
            changes: BTreeMap::new(),
            deflated: BTreeMap::new(),
            author: program(),
            message: self
                .place
                .message(&format!("records of {run} after a move")),
        });
        self.move_to(Some(ours), tip.map_err(writing())?)
    }

    /// The ref to push so that the remote has these records; `None` if it has them.
    #[must_use]
    pub fn publication(&self, state: &State, remote_tip: Option<CommitId>) -> Option<RefUpdate> {
        let new = state.tip?;
        (remote_tip != Some(new)).then(|| self.update(remote_tip, new))
    }

    /// The update by which the remote gets a commit of these records.
    #[must_use]
    pub fn update(&self, remote_tip: Option<CommitId>, new: CommitId) -> RefUpdate {
        RefUpdate {
            name: self.place.at_remote().to_owned(),
            old: remote_tip.map(|tip| tip.0),
            new: Some(new.0),
        }
    }

    /// The marker that goes with the first records of a site in a branch, so that no other clone takes the site for
    /// one that has none.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn marker_beside(&self, updates: &[RefUpdate]) -> Result<Option<RefUpdate>, Error> {
        let Some(branch) = self.place.branch() else {
            return Ok(None);
        };
        let is_first = |update: &RefUpdate| {
            update.name == branch && update.old.is_none() && update.new.is_some()
        };
        if !updates.iter().any(is_first) {
            return Ok(None);
        }
        let own = self.place.own();
        let marker = write_marker(self.repository, (own, branch), None, program())?;
        Ok(Some(RefUpdate {
            name: own.to_owned(),
            old: None,
            new: Some(marker.0),
        }))
    }

    /// Keeps a commit of our records under a ref of its own; gives its name.
    fn set_aside(&self, run: &RunId, tip: CommitId) -> Result<String, Error> {
        let keeping = || failed("set our own records aside");
        let kept = format!("refs/trueup-kept/runs/{}/{run}", self.site);
        let before = self.repository.read_ref(&kept).map_err(keeping())?;
        self.repository
            .update_ref(&kept, before, tip.0)
            .map_err(keeping())?;
        Ok(kept)
    }

    /// Moves our records forward to a commit that was fetched, after a check that it can be read.
    fn move_to(&self, ours: Option<CommitId>, theirs: CommitId) -> Result<(), Error> {
        self.read_at(theirs)?;
        let before = ours.map(|tip| tip.0);
        match self
            .repository
            .update_ref(self.place.own(), before, theirs.0)
        {
            Err(crate::repository::Error::RefMoved { .. }) => Err(Error::LostRace {
                site: self.site.clone(),
                by: self.read()?.site.last_run,
            }),
            other => other.map_err(failed("follow the remote's records")),
        }
    }
}
