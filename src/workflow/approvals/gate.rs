//! The rules and the allowed signers that count for a plan: those of all revisions whose guards hold.
//!
//! Each rule of the guards that are in force and of the newest documents has to be met, by signers that both have. So a
//! change under review decides neither who approves it nor whether an approval is needed; it can only ask for more.

use std::sync::Arc;

use jiff::Timestamp;

use super::protected::{Counting, allowed_signers};
use super::runs::SigningRules;
use super::signers::{self, Signer, people};
use super::statement::NAMESPACE;
use crate::design::{ApprovalPolicy, BreakGlassPolicy, Policy};
use crate::repository::{PublicKey, Repository};
use crate::workflow::Failure;
use crate::workflow::guard_source::{GuardSource, GuardSources};

/// The rules that a plan is held to.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Those of each revision that has any; the first are those in force, if they have.
    pub(super) rules: Vec<Rules>,
    /// The signers that all of these have, or why there are none.
    pub(super) signers: Result<Vec<Signer>, VoidSigners>,
    /// Those of each revision that has rules.
    pub(super) lists: Vec<SignerList>,
    /// Why the signers of the newest documents are none, if they are.
    pub(super) void: Option<VoidSigners>,
    /// The rules and the signers of the newest documents, if these would come in force.
    pub(super) of_documents: Option<(Arc<ApprovalPolicy>, Vec<Signer>)>,
    /// The people who may do without approvals that are missing, by all revisions.
    pub(super) break_glass: Option<BreakGlassPolicy>,
    /// Whether the documents of the plan may ask for signatures themselves.
    pub(super) policy_asks: bool,
    /// The rules by each of which the run has to be signed; none: it need not be.
    pub(super) signing: Vec<SigningRules>,
    /// Whether nothing holds the rules that an account with the right to push the records could not rewrite.
    pub(super) is_advisory: bool,
    /// Whether the allowed signers of the documents differ from those that are in force.
    pub(in crate::workflow) signers_changed: bool,
}

/// The signers of one revision.
#[derive(Clone, Debug)]
pub(super) struct SignerList {
    from: Arc<str>,
    pub(super) signers: Result<Vec<Signer>, VoidSigners>,
}

/// The rules of one revision.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) policy: Arc<ApprovalPolicy>,
    /// The revision that they are from.
    pub(super) from: Arc<str>,
}

/// Why no signature counts.
#[derive(Clone, Debug)]
pub(super) struct VoidSigners {
    /// The file.
    pub(super) path: Arc<str>,
    pub(super) why: String,
}

/// The signers that all lists have.
fn in_all(lists: &[SignerList]) -> Result<Vec<Signer>, VoidSigners> {
    let mut lists = lists.iter().map(|list| list.signers.clone());
    let first = lists.next().unwrap_or_else(|| Ok(Vec::new()));
    lists.fold(first, |common, list| {
        let (common, list) = (common?, list?);
        let both = common
            .into_iter()
            .filter_map(|signer| signer.also_in(&list));
        Ok(both.collect())
    })
}

impl Gate {
    /// The rules of some revisions; the signers of the newest are known to be the same if nothing was applied yet.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub(in crate::workflow) fn of(
        repository: &Repository,
        sources: &GuardSources,
        is_protected: bool,
    ) -> Result<Self, Failure> {
        let newest = &sources.newest;
        // Those in force first: they are the ones that ask for the approval of a loosening.
        let all = || {
            let own = [Some(newest), sources.planned.as_ref()];
            sources.in_force.iter().chain(own.into_iter().flatten())
        };
        let mut rules: Vec<Rules> = Vec::new();
        let mut lists: Vec<SignerList> = Vec::new();
        let (mut void, mut of_documents) = (None, None);
        for source in all() {
            let policy = &source.site.guards.policy;
            let Some(approvals) = &policy.approvals else {
                continue;
            };
            let path = policy.allowed_signers();
            let list = allowed_signers(repository, source.commit, path, NAMESPACE);
            let list = list.map_err(|why| VoidSigners {
                path: Arc::from(path),
                why,
            });
            if std::ptr::eq(source, newest) {
                void = list.as_ref().err().cloned();
                let list = list.as_ref().ok();
                of_documents = list.map(|list| (approvals.clone(), list.clone()));
            }
            lists.push(SignerList {
                from: source.name.clone(),
                signers: list,
            });
            if rules.iter().all(|known| known.policy != *approvals) {
                let is_first = sources.in_force.is_none() && !is_protected;
                rules.push(Rules {
                    policy: approvals.clone(),
                    from: match is_first {
                        true => Arc::from(NOTHING_APPLIED),
                        false => source.name.clone(),
                    },
                });
            }
        }
        let mut policies = all().map(|source| source.site.guards.policy.break_glass.as_deref());
        let first = policies.next().flatten().cloned();
        let break_glass = policies.fold(first, |all, other| Some(all?.within(other?)));
        let signers = in_all(&lists);
        let asks = |source: &GuardSource| source.site.guards.policy.asks_for_signatures();
        let signers_changed = sources.in_force.as_ref().is_some_and(|in_force| {
            let file = |source: &GuardSource| {
                let path = asks(source).then(|| source.site.guards.policy.allowed_signers())?;
                Some(
                    repository
                        .file_within(source.commit?, path, signers::LARGEST)
                        .ok(),
                )
            };
            file(in_force) != file(newest)
        });
        let is_in_force = sources.in_force.as_ref().is_some_and(|in_force| {
            let rules = |source: &GuardSource| source.site.guards.policy.approvals.clone();
            rules(in_force) == rules(newest) && !signers_changed
        });
        Ok(Self {
            rules,
            signers,
            lists,
            void,
            of_documents: of_documents.filter(|_| !is_in_force),
            break_glass,
            // Whether the documents themselves ask is not known at a protected revision.
            policy_asks: is_protected || asks(sources.planned.as_ref().unwrap_or(newest)),
            signing: all()
                .filter(|source| source.site.guards.policy.signed_runs)
                .map(|source| {
                    SigningRules::of(&Counting {
                        policy: &source.site.guards.policy,
                        commit: source.commit,
                        from: &source.name,
                    })
                })
                .collect(),
            is_advisory: !(is_protected
                || repository.state_branch()?.is_some()
                || sources
                    .in_force
                    .as_ref()
                    .unwrap_or(newest)
                    .site
                    .guards
                    .policy
                    .signed_runs),
            signers_changed,
        })
    }

    /// The allowed signer of a key; `None` if it may not approve.
    #[must_use]
    pub fn signer(&self, key: &PublicKey) -> Option<&Signer> {
        let signers = self.signers.as_ref().ok()?;
        signers.iter().find(|signer| signer.key == *key)
    }

    /// Why a key may not approve: the revisions whose signers lack it, or are void.
    #[must_use]
    pub fn lacks(&self, key: &PublicKey) -> Vec<String> {
        let lacking = self.lists.iter().filter_map(|list| {
            let from = &list.from;
            match &list.signers {
                Err(void) => Some(format!(
                    "the allowed signers (`{}`) of {from} are void: {}",
                    void.path, void.why
                )),
                Ok(signers) => {
                    let lacks = signers.iter().all(|signer| signer.key != *key);
                    lacks.then(|| format!("it is not one of the allowed signers of {from}"))
                }
            }
        });
        lacking.collect()
    }

    /// The revisions whose signers lack a key.
    pub(super) fn without(&self, key: &PublicKey) -> Vec<&str> {
        let lacks = |list: &&SignerList| {
            let signers = list.signers.as_ref();
            signers.is_ok_and(|signers| signers.iter().all(|signer| signer.key != *key))
        };
        let lacking = self.lists.iter().filter(lacks);
        let mut names: Vec<&str> = lacking.map(|list| &*list.from).collect();
        names.dedup();
        names
    }

    /// The revisions whose rules count; `None`: no plan needs approvals.
    #[must_use]
    pub fn from(&self) -> Option<Arc<str>> {
        let mut names: Vec<&str> = self.rules.iter().map(|rules| &*rules.from).collect();
        names.dedup();
        (!names.is_empty()).then(|| Arc::from(names.join(", and ")))
    }
}

/// How many of the people whose keys are kept for recovery have one among the allowed signers at HEAD that counts at a time;
/// `None`: none are named.
///
/// # Errors
///
/// The file cannot be read.
pub fn recovery_keys(
    repository: &Repository,
    policy: &Policy,
    now: Timestamp,
) -> Result<Option<usize>, Failure> {
    let approvals = policy.approvals.as_ref();
    let Some(recovery) = approvals.and_then(|approvals| approvals.recovery.as_ref()) else {
        return Ok(None);
    };
    let (path, head) = (policy.allowed_signers(), repository.head()?);
    let signers = allowed_signers(repository, head, path, NAMESPACE).unwrap_or_default();
    Ok(Some(people(&signers, &recovery.of, now)))
}

const NOTHING_APPLIED: &str = "the planned revision, since nothing was applied yet";
