//! Approvals of other effects: of a plan that was approved, and then did something else.
//!
//! They count for nothing here. Where approvals are missing, they distinguish a plan without any approval from one that has changed since.

use std::sync::Arc;

use data_encoding::HEXLOWER;

use super::signers::Signer;
use super::{Candidate, Judge};
use crate::design::Digest;
use crate::plan::{RefusedApproval, effect};
use crate::repository::CommitId;
use crate::run::Connection;
use crate::workflow::Failure;

/// Approvals of other effects that are read: any number may have been pushed.
const MOST: usize = 8;

impl Judge<'_> {
    /// The approvals that would count, but are of other effects.
    pub(super) fn of_other_effects(
        &self,
        signers: &[Signer],
    ) -> Result<Vec<RefusedApproval>, Failure> {
        let approving = self.approving;
        let prefix = approving.repository.ref_prefix()?;
        let folder = format!("{prefix}/{}/approvals", approving.site);
        let refs = match approving.connection {
            Connection::Alone | Connection::Offline => approving.repository.refs(&folder)?,
            Connection::Shared { remote, .. } => remote.ls_remote(&[&format!("{folder}/*")])?,
        };
        let others = refs.iter().filter_map(|(name, id)| {
            let (of, key) = name
                .strip_prefix(&folder)?
                .strip_prefix('/')?
                .split_once('/')?;
            let is_of = |signer: &&Signer| HEXLOWER.encode(&signer.key.digest()[..16]) == key;
            let signer = signers.iter().find(is_of)?;
            (*of != **self.effect).then(|| (name, CommitId(*id), Digest::from(of), signer))
        });
        let mut found = Vec::new();
        for (name, commit, of, signer) in others.take(MOST) {
            if let Connection::Shared { remote, .. } = approving.connection
                && approving.repository.read_ref(name)? != Some(commit.0)
            {
                remote.fetch(&[(name, name)])?;
            }
            let candidate = Candidate {
                signer,
                approval: approving.read(commit, signer),
            };
            if let Ok((_, expires)) = self.for_effect(&of).verdict(&candidate)? {
                let of = effect::short(&of);
                found.push(RefusedApproval {
                    by: Arc::from(signer.principal.as_str()),
                    reason: Arc::from(format!(
                        "it is of another effect, {of} (until {expires}): the plan has changed since, or another one was approved"
                    )),
                });
            }
        }
        Ok(found)
    }

    /// The same, for approvals of another effect.
    fn for_effect<'e>(&'e self, effect: &'e Digest) -> Judge<'e> {
        Judge {
            approving: self.approving,
            effect,
            repository: self.repository.clone(),
            now: self.now,
            spent: self.spent.clone(),
            own: self.own,
            appliers: self.appliers.clone(),
        }
    }
}
