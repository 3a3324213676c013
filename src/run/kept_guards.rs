//! The ref that keeps the commit whose guards are in force.
//!
//! A run that put them in force makes no tag. After a history was rewritten, nothing else at the remote may lead to its
//! commit any more, and no new clone could read the guards, or apply anything.

use super::error::{self, Error};
use super::site_repository::SiteRepository;
use crate::record::RunRecord;
use crate::repository::{CommitId, RefUpdate};

impl SiteRepository<'_> {
    /// Makes the ref of a run that put guards in force, and returns how it is published.
    pub(super) fn keep_guards(&self, run: &RunRecord) -> Result<Option<RefUpdate>, Error> {
        let commit = run.revision.parse::<CommitId>();
        let (true, Ok(commit)) = (run.has_put_guards_in_force(), commit) else {
            return Ok(None);
        };
        let making = |attempt| error::repository(&self.name, attempt);
        let making = || making("keep the commit of the guards");
        let prefix = self.repository.ref_prefix().map_err(making())?;
        let name = format!("{prefix}/{}/guards/{}", self.name, run.run);
        let here = self.repository.read_ref(&name).map_err(making())?;
        self.repository
            .update_ref(&name, here, commit.0)
            .map_err(making())?;
        Ok(Some(RefUpdate {
            name,
            old: None,
            new: Some(commit.0),
        }))
    }
}
