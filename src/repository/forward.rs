//! Moves the branch that is checked out to a later commit, and the worktree with it.

use super::{CommitId, Error, Repository, git};

impl Repository {
    /// The full name of the branch that the branch which is checked out is pulled from, at its remote; a branch without
    /// one is taken to have the same name there. `None` if `HEAD` is detached.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn branch_there(&self) -> Result<Option<String>, Error> {
        let Some(branch) = self.branch()? else {
            return Ok(None);
        };
        let merge = self.config(&format!("branch.{branch}.merge"))?;
        let merge = merge.filter(|name| name.starts_with("refs/heads/"));
        Ok(Some(
            merge.unwrap_or_else(|| format!("refs/heads/{branch}")),
        ))
    }

    /// Moves the branch that is checked out from one commit to another that follows it, after the files of the worktree.
    /// Changes there that are not committed are never overwritten; interrupted, it can be repeated.
    ///
    /// # Errors
    ///
    /// [`Error::Detached`]; [`Error::WorktreeInTheWay`]: nothing was changed; [`Error::RefMoved`].
    pub fn forward(&self, from: CommitId, to: CommitId) -> Result<(), Error> {
        let branch = self.branch()?.ok_or(Error::Detached)?;
        self.with(|handle| {
            let target = handle
                .find_object(to.git(), None)
                .map_err(git("read a commit"))?;
            let mut checkout = git2::build::CheckoutBuilder::new();
            checkout.safe().recreate_missing(true);
            handle
                .checkout_tree(&target, Some(&mut checkout))
                .map_err(|error| match error.code() {
                    git2::ErrorCode::Conflict => Error::WorktreeInTheWay { to },
                    _ => git("check a commit out")(error),
                })
        })?;
        self.update_ref(&format!("refs/heads/{branch}"), Some(from.0), to.0)
    }
}
