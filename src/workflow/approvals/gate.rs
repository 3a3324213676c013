//! The rules and the allowed signers that count for a plan: those of a protected revision.
//!
//! That is the revision that the operator names (`--backends-from`), else the one that was applied last, else, for a site to
//! which nothing was applied yet, the one that is planned. A change under review decides neither who approves it nor
//! whether an approval is needed.

use std::sync::Arc;

use super::protected::{Counting, allowed_signers, applied_last, applied_policy, last};
use super::runs::SigningRules;
use super::signers::{self, Signer};
use super::statement::NAMESPACE;
use crate::design::{ApprovalPolicy, Policy};
use crate::record::SiteState;
use crate::repository::{CommitId, Repository};
use crate::run::Connection;
use crate::site::Site;
use crate::workflow::{Checkout, Failure, recorded};

/// The rules that a plan is held to.
#[derive(Clone, Debug)]
pub struct Gate {
    pub(super) rules: Option<Rules>,
    /// Whether the documents of the plan may ask for signatures themselves.
    pub(super) policy_asks: bool,
    /// Whether they demand signed runs.
    pub(super) demands_signed: bool,
    /// The demands on the signatures of runs.
    pub(in crate::workflow) signing: SigningRules,
    /// Whether the allowed signers at the planned commit differ from those that were applied last.
    pub(in crate::workflow) signers_changed: bool,
}

/// Rules and allowed signers.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) policy: Arc<ApprovalPolicy>,
    /// The revision that they are from.
    pub(super) from: Arc<str>,
    /// Why they cannot be taken, where they cannot.
    pub(super) signers: Result<Vec<Signer>, String>,
}

impl Gate {
    fn of(repository: &Repository, counting: &Counting<'_>, own: &Policy) -> Self {
        let Counting {
            policy,
            commit,
            from,
        } = counting;
        let rules = policy.approvals.as_ref().map(|approvals| Rules {
            policy: approvals.clone(),
            from: Arc::from(*from),
            signers: allowed_signers(repository, *commit, policy.allowed_signers(), NAMESPACE),
        });
        Self {
            rules,
            policy_asks: own.asks_for_signatures(),
            demands_signed: own.signed_runs,
            signing: SigningRules::of(counting),
            signers_changed: false,
        }
    }

    /// The allowed signer of a key; `None` where it may not approve.
    #[must_use]
    pub fn signer(&self, key: &crate::repository::PublicKey) -> Option<&Signer> {
        let signers = self.rules.as_ref()?.signers.as_ref().ok()?;
        signers.iter().find(|signer| signer.key == *key)
    }

    /// The revision whose rules count; `None`: no plan needs approvals.
    #[must_use]
    pub fn from(&self) -> Option<&str> {
        self.rules.as_ref().map(|rules| &*rules.from)
    }
}

impl Gate {
    /// The rules that plans of a site are held to. `site` is as it is planned, at `commit` (of the worktree: the one that is
    /// checked out).
    ///
    /// # Errors
    ///
    /// The documents at the protected revision cannot be loaded, or have errors.
    pub fn open(
        checkout: &Checkout<'_>,
        connection: &Connection<'_>,
        site: &Site,
        state: &SiteState,
        commit: Option<CommitId>,
    ) -> Result<Self, Failure> {
        let repository = checkout.repository;
        let own = &site.design.policy;
        let gate = |policy: &Policy, commit, from: &str| {
            let counting = Counting {
                policy,
                commit,
                from,
            };
            Self::of(repository, &counting, own)
        };
        if let Some(guards) = checkout.guards()? {
            // Whether the documents themselves ask is not known here.
            return Ok(Self {
                policy_asks: true,
                ..gate(own, Some(guards.commit), guards.guards.revision())
            });
        }
        let Some(applied) = last(state) else {
            return Ok(gate(own, commit, NOTHING_APPLIED));
        };
        if !applied.policy_asks {
            let none = Policy::default();
            let applied = applied.revision.parse().ok();
            return Ok(gate(&none, applied, &applied_last(applied)));
        }
        let planned = commit;
        let commit = recorded(checkout, connection, &applied.revision)?;
        let from = applied_last(Some(commit));
        if applied.site_digest == site.digest {
            let signers = |commit| {
                let path = own.asks_for_signatures().then(|| own.allowed_signers())?;
                Some(repository.file_within(commit?, path, signers::LARGEST).ok())
            };
            return Ok(Self {
                signers_changed: signers(Some(commit)) != signers(planned),
                ..gate(own, Some(commit), &from)
            });
        }
        let before = applied_policy(checkout, commit)?;
        Ok(gate(&before, Some(commit), &from))
    }
}

const NOTHING_APPLIED: &str = "the planned revision, since nothing was applied yet";
