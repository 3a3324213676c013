//! Records that came from, or go to, a remote.
//!
//! That a clone has no records does not mean that nothing was applied: a pipeline's clone has neither
//! records nor tags. So the remote is asked, its state is kept in
//! `refs/trueup-remotes/<remote>/<site>/state`, and ours follows it: it is a cache of the remote's, with
//! checkpoints on top that are not published yet. Where both have newer runs, the remote's count and ours are
//! kept under a ref of their own.

use super::error::{Error, failed};
use super::store::{State, Store};
use crate::design::RunId;
use crate::repository::{CommitId, RefUpdate, Remote};

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
    /// Asks the remote for its records, fetches them, and lets ours follow. Where both have newer runs, ours
    /// are kept aside as `refs/trueup-kept/runs/<site>/<run>`, and the remote's count: either ours only have
    /// more of a run that was resumed elsewhere, or a run that the remote does not know
    /// ([`ExchangeOutcome::SetAside`]).
    ///
    /// # Errors
    ///
    /// The remote cannot be asked; [`Error::LostRace`] where another process moved ours meanwhile.
    pub fn follow(&self, remote: &Remote<'_>) -> Result<Exchange, Error> {
        let asking = "ask the remote for the records";
        let there = remote
            .ls_remote(&[&self.state_ref])
            .map_err(failed(asking))?
            .get(&self.state_ref)
            .map(|id| CommitId(*id));
        let exchange = |standing| Exchange {
            standing,
            remote_tip: there,
        };
        let Some(theirs) = there else {
            return Ok(exchange(ExchangeOutcome::NotThere));
        };
        let ours = self.read()?;
        if ours.tip == Some(theirs) {
            return Ok(exchange(ExchangeOutcome::Same));
        }
        let tracking = format!("refs/trueup-remotes/{}/{}/state", remote.name(), self.site);
        remote
            .fetch(&[(&self.state_ref, &tracking)])
            .map_err(failed("fetch the records"))?;
        // By now the remote may be further than it was when it was asked.
        let theirs = self
            .repository
            .read_ref(&tracking)
            .map_err(failed("read the fetched records"))?
            .map_or(theirs, CommitId);
        let exchange = |standing| Exchange {
            standing,
            remote_tip: Some(theirs),
        };
        let is_ancestor = |ancestor, commit| {
            self.repository
                .is_ancestor(ancestor, commit)
                .map_err(failed("compare the records with the remote's"))
        };
        let Some(tip) = ours.tip else {
            self.move_to(None, theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        };
        if is_ancestor(tip, theirs)? {
            self.move_to(Some(tip), theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        }
        if is_ancestor(theirs, tip)? {
            return Ok(exchange(ExchangeOutcome::Ahead));
        }
        let at_remote = self.read_at(theirs)?;
        let Some(run) = ours.site.last_run else {
            self.move_to(Some(tip), theirs)?;
            return Ok(exchange(ExchangeOutcome::Followed));
        };
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

    /// The ref to push so that the remote has these records; `None` where it has them.
    #[must_use]
    pub fn publication(&self, state: &State, remote_tip: Option<CommitId>) -> Option<RefUpdate> {
        let new = state.tip?;
        (remote_tip != Some(new)).then(|| RefUpdate {
            name: self.state_ref.clone(),
            old: remote_tip.map(|tip| tip.0),
            new: Some(new.0),
        })
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
            .update_ref(&self.state_ref, before, theirs.0)
        {
            Err(crate::repository::Error::RefMoved { .. }) => Err(Error::LostRace {
                site: self.site.clone(),
                by: self.read()?.site.last_run,
            }),
            other => other.map_err(failed("follow the remote's records")),
        }
    }
}
