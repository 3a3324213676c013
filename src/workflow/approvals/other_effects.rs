//! Approvals of other effects: of a plan that does more, which cover one that does less, and of plans that have changed
//! since.
//!
//! The plan that was approved lies beside the approval. That is the plan that was signed if its effect has the digest
//! that was signed, whatever account has written it there.

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::HEXLOWER;

use super::signers::Signer;
use super::{Candidate, Judge, LARGEST_PLAN, PLAN, Statement, Verdict};
use crate::design::Digest;
use crate::plan::{Plan, PlanEffect, effect, saved};
use crate::record::Approval;
use crate::repository::CommitId;
use crate::run::Connection;
use crate::workflow::Failure;

/// Approvals of other effects that are read: any number may have been pushed.
const MOST: usize = 64;

/// Differences that a reason names.
const NAMED: usize = 3;

impl Judge<'_> {
    /// The verdict on an approval of a plan: it counts if that plan's effect was approved, or one that covers it.
    pub(super) fn verdict(
        &self,
        candidate: &Candidate<'_>,
        reviewed: &Plan,
    ) -> Result<Verdict, Failure> {
        match self.signed(candidate)? {
            Ok(sound) => self.of_effect(candidate.signer, sound, reviewed),
            Err(why) => Ok(Err(why)),
        }
    }

    /// The verdict on a sound approval, by its effect.
    fn of_effect(
        &self,
        signer: &Signer,
        (approval, end, effect): (Approval, Arc<str>, Digest),
        reviewed: &Plan,
    ) -> Result<Verdict, Failure> {
        if effect == *self.effect {
            return Ok(Ok((approval, end)));
        }
        let name = self.approving.ref_name(&effect, &signer.key)?;
        let found = self
            .approving
            .fetched(&effect, std::slice::from_ref(&name))?;
        let plan = found.get(&name).map(|commit| self.plan(*commit, &effect));
        let why = plan.unwrap_or_else(|| Err(format!("`{name}`, where its plan was, is gone")));
        let why = why.and_then(|approved| covers(&approved, reviewed));
        let of = effect::short(&effect);
        Ok(match why {
            Ok(()) => Ok((approval, end)),
            Err(why) => Err(format!(
                "it is of another effect, {of} (until {end}): {why}"
            )),
        })
    }

    /// The approvals of other effects that were made by the signers for this site and are open, and what is to be said of
    /// each.
    pub(super) fn of_other_effects<'s>(
        &self,
        signers: &'s [Signer],
        reviewed: &Plan,
    ) -> Result<Vec<(&'s Signer, Verdict)>, Failure> {
        let approving = self.approving;
        let prefix = approving.repository.ref_prefix()?;
        let folder = format!("{prefix}/{}/approvals", approving.site);
        let refs = match approving.connection {
            Connection::Alone | Connection::Offline => approving.repository.refs(&folder)?,
            Connection::Shared { remote, .. } => remote.ls_remote(&[&format!("{folder}/*")])?,
        };
        let spent = self.spent.keys().filter_map(|text| Statement::read(text));
        let spent: BTreeSet<String> = spent.map(|statement| statement.effect).collect();
        let mut others: Vec<_> = refs
            .iter()
            .filter_map(|(name, id)| {
                let path = name.strip_prefix(&folder)?.strip_prefix('/')?;
                let (of, key) = path.split_once('/')?;
                let is_of = |signer: &&Signer| HEXLOWER.encode(&signer.key.digest()[..16]) == key;
                let signer = signers.iter().find(is_of)?;
                (*of != **self.effect).then_some((spent.contains(of), name, *id, signer))
            })
            .collect();
        others.sort_unstable_by_key(|(is_spent, name, ..)| (*is_spent, *name));
        others.truncate(MOST);
        if let Connection::Shared { remote, .. } = approving.connection {
            let mut unknown: Vec<(&str, &str)> = Vec::new();
            for (_, name, id, _) in &others {
                if approving.repository.read_ref(name)? != Some(*id) {
                    unknown.push((name, name));
                }
            }
            if !unknown.is_empty() {
                remote.fetch(&unknown)?;
            }
        }
        let mut found = Vec::new();
        for (_, _, id, signer) in others {
            let approval = approving.read(CommitId(id), signer);
            let is_open = approval.as_ref().is_ok_and(|approval| {
                let statement = Statement::read(&approval.statement);
                statement.is_some_and(|statement| self.unfit(&statement).is_none())
                    && !self.spent.contains_key(&approval.statement)
            });
            // Those that count for no plan of this person are not told of.
            if is_open && let Ok(sound) = self.signed(&Candidate { signer, approval })? {
                found.push((signer, self.of_effect(signer, sound, reviewed)?));
            }
        }
        Ok(found)
    }

    /// The plan of an approval at a commit, which has the effect that was signed.
    fn plan(&self, commit: CommitId, effect: &Digest) -> Result<Plan, String> {
        let repository = self.approving.repository;
        let bytes = repository.file_within(commit, PLAN, LARGEST_PLAN);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or(CHANGED)?;
        let plan = saved::read(&bytes);
        let plan = plan.map_err(|error| format!("its plan cannot be read: {error}"))?;
        match PlanEffect::of(&plan).digest() == *effect {
            true => Ok(plan),
            false => Err("the plan beside it is not the one that was signed".to_owned()),
        }
    }
}

const CHANGED: &str = "the plan has changed since, or another one was approved";

/// Whether an approval of a plan covers another one; else why not.
fn covers(approved: &Plan, reviewed: &Plan) -> Result<(), String> {
    let more = PlanEffect::of(reviewed).exceeds(&PlanEffect::of(approved));
    if more.is_empty() {
        return Ok(());
    }
    let named: Vec<_> = more.iter().take(NAMED).map(ToString::to_string).collect();
    let rest = match more.len().saturating_sub(NAMED) {
        0 => String::new(),
        rest => format!("; and {rest} more"),
    };
    Err(format!("{CHANGED} ({}{rest})", named.join("; ")))
}
