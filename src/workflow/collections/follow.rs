//! Follows the branch that is checked out, as other clones have committed to it.

use super::{CollectionError, Collections};
use crate::repository::{CommitId, ObjectId};
use crate::run::Connection;
use crate::site::{At, Depth, Detail, GuardDocuments, Loader, Settings};
use crate::workflow::AS_APPLIED;

/// The branch that is checked out, as it is at the remote.
#[derive(Clone, Debug)]
pub(super) struct BranchThere {
    /// Its full name there.
    pub(super) name: String,
    /// Its commit.
    pub(super) tip: Option<ObjectId>,
}

impl Collections<'_> {
    /// Moves the checkout to where its branch is at the remote, if that follows it; the guards of the site must be the
    /// same there, or come from a protected revision. A checkout that is ahead, or on no branch, stays.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Behind`]: it cannot follow, and what is committed is not known here.
    pub fn follow_branch(&self) -> Result<(), CollectionError> {
        self.catch_up().map(|_| ())
    }

    pub(super) fn catch_up(&self) -> Result<Option<BranchThere>, CollectionError> {
        let repository = self.checkout.repository;
        let head = self.checkout.head()?;
        let (committed, there) = self.look()?;
        if let Some(found) = there.as_ref().filter(|_| committed != head) {
            let behind = |why: &str| self.behind(found, why);
            if let Some(changed) = self.changed_guards(head, committed)? {
                return Err(behind(&format!(
                    "{changed} changed; the operator of the service checks that out"
                )));
            }
            let forwarded = repository.forward(head, committed);
            forwarded.map_err(|error| behind(&error.to_string()))?;
        }
        Ok(there)
    }

    /// The commit that is committed, here or at the remote; nothing is moved.
    pub(super) fn committed(&self) -> Result<CommitId, CollectionError> {
        Ok(self.look()?.0)
    }

    /// The commit that is committed, and the branch at the remote, if there is one.
    fn look(&self) -> Result<(CommitId, Option<BranchThere>), CollectionError> {
        let repository = self.checkout.repository;
        let head = self.checkout.head()?;
        let Connection::Shared { remote, .. } = self.connection else {
            return Ok((head, None));
        };
        let Some(name) = repository.branch_there()? else {
            return Ok((head, None));
        };
        let tip = remote.ls_remote(&[&name])?.remove(&name);
        let found = BranchThere { name, tip };
        let Some(there) = tip.map(CommitId).filter(|tip| *tip != head) else {
            return Ok((head, Some(found)));
        };
        if repository.has(there.0)? && repository.is_ancestor(there, head)? {
            return Ok((head, Some(found)));
        }
        let short = found.name.trim_start_matches("refs/heads/");
        let tracking = format!("refs/remotes/{}/{short}", remote.name());
        remote.fetch(&[(&found.name, &tracking)])?;
        match repository.is_ancestor(head, there)? {
            true => Ok((there, Some(found))),
            false => Err(self.behind(&found, "it does not follow what is checked out here")),
        }
    }

    fn behind(&self, there: &BranchThere, why: &str) -> CollectionError {
        let short = there.name.trim_start_matches("refs/heads/");
        let tip = there.tip.map(|tip| tip.short()).unwrap_or_default();
        CollectionError::Behind(format!("`{short}` of the remote is at {tip}: {why}"))
    }

    /// The guards that differ between two commits, if none are taken from a protected revision.
    fn changed_guards(
        &self,
        from: CommitId,
        to: CommitId,
    ) -> Result<Option<String>, CollectionError> {
        if self.checkout.guards()?.is_some() {
            return Ok(None);
        }
        let load = |commit| {
            let at = At::Commit(commit);
            let location = self.checkout.location_at(at)?;
            let settings = Settings {
                depth: Depth::Typed,
                detail: Detail::Documents,
                ..AS_APPLIED
            };
            let mut loader = Loader::new(self.checkout.repository);
            Ok::<_, CollectionError>(loader.load(&location, at, settings)?)
        };
        let (before, after) = (load(from)?, load(to)?);
        if let Some(folder) = &before.documented_guards.policy.rego {
            let repository = self.checkout.repository;
            if repository.entry_at(from, folder)? != repository.entry_at(to, folder)? {
                return Ok(Some(format!("the rules in `{folder}`")));
            }
        }
        let changed = GuardDocuments::of(&before).changed(&GuardDocuments::of(&after));
        Ok((!changed.is_empty()).then(|| changed.join(", ")))
    }
}
