//! The rules and the allowed signers that count for a plan: those of a protected revision.
//!
//! That is the revision that the operator names (`--backends-from`), else the one that was applied last, else, for a site to
//! which nothing was applied yet, the one that is planned. A change under review decides neither who approves it nor
//! whether an approval is needed.

use std::sync::Arc;

use super::signers::{self, Signer};
use crate::design::{ApprovalPolicy, Policy};
use crate::diagnostic::chain;
use crate::record::SiteState;
use crate::repository::{CommitId, Repository};
use crate::run::Connection;
use crate::site::{At, Detail, Loader, Settings, Site};
use crate::workflow::{AS_APPLIED, Checkout, Failure, recorded};

/// The rules that a plan is held to.
#[derive(Clone, Debug)]
pub struct Gate {
    pub(super) rules: Option<Rules>,
    /// Whether the documents of the plan may ask for approvals themselves.
    pub(super) policy_asks: bool,
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
    fn of(
        repository: &Repository,
        policy: &Policy,
        commit: Option<CommitId>,
        from: &str,
        policy_asks: bool,
    ) -> Self {
        let rules = policy.approvals.as_ref().map(|policy| Rules {
            policy: policy.clone(),
            from: Arc::from(from),
            signers: allowed_signers(repository, commit, &policy.allowed_signers),
        });
        Self {
            rules,
            policy_asks,
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

/// The allowed signers in a file of a commit.
fn allowed_signers(
    repository: &Repository,
    commit: Option<CommitId>,
    path: &str,
) -> Result<Vec<Signer>, String> {
    let commit = commit.ok_or("there is no commit to read them from")?;
    let bytes = repository.file_within(commit, path, signers::LARGEST);
    let bytes = bytes.map_err(|error| chain(&error))?;
    let bytes = bytes.ok_or_else(|| format!("commit {} has no such file", commit.short()))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    signers::read(&text)
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
        if let Some(guards) = checkout.guards()? {
            let from = guards.guards.revision();
            // Whether the documents themselves ask is not known here.
            return Ok(Self::of(repository, own, Some(guards.commit), from, true));
        }
        let policy_asks = own.approvals.is_some();
        let applied = state.last_success.as_ref().or(state.last_action.as_ref());
        let Some(applied) = applied else {
            let from = "the planned revision, since nothing was applied yet";
            return Ok(Self::of(repository, own, commit, from, policy_asks));
        };
        if !applied.policy_asks {
            return Ok(Self {
                rules: None,
                policy_asks,
                signers_changed: false,
            });
        }
        let planned = commit;
        let commit = recorded(checkout, connection, &applied.revision)?;
        let from = format!("{}, which was applied last", commit.short());
        if applied.site_digest == site.digest {
            let gate = Self::of(repository, own, Some(commit), &from, policy_asks);
            let path = own.approvals.as_ref().map(|policy| &policy.allowed_signers);
            let signers = |commit| Some(allowed_signers(repository, commit, path?));
            return Ok(Self {
                signers_changed: signers(Some(commit)) != signers(planned),
                ..gate
            });
        }
        let at = At::Commit(commit);
        let location = checkout.location_at(at)?;
        let settings = Settings {
            detail: Detail::Documents,
            ..AS_APPLIED
        };
        let before = Loader::new(repository).load(&location, at, settings)?;
        if before.diagnostics.has_errors() {
            let text = format!(
                "the documents of {from}, have errors: their approval rules cannot be read"
            );
            return Err(Failure::error(text)
                .hint("name the revision to take them from with `--backends-from`"));
        }
        let policy = &before.design.policy;
        Ok(Self::of(
            repository,
            policy,
            Some(commit),
            &from,
            policy_asks,
        ))
    }
}
