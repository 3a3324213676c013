//! Runs that begin without approvals that are missing, as the Policy lets a few people begin them for a few machines: what
//! has to hold for one, and those that have not been approved since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Approving, Gate, Judge, now, runs};
use crate::design::{BreakGlassPolicy, NodeName, RunId};
use crate::plan::{Approvals, BreakGlassOutlook, GivenApproval, NeededApproval, Plan, PlanEffect};
use crate::record::{BreakGlass, MissingApproval, Store};
use crate::run::time_of_id;
use crate::workflow::{Failure, FailureKind};

/// A run that began without approvals, and that has not been approved since.
#[derive(Clone, Debug)]
pub struct UnapprovedRun {
    /// The run.
    pub run: RunId,
    /// How it began.
    pub broken: BreakGlass,
}

/// Why a plan does not begin without the approvals that are missing, with any signature of its run.
type Refusal = String;

impl Gate {
    /// The outlook of a plan that is to do without the approvals that are missing.
    pub(super) fn break_glass_outlook(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
    ) -> Result<BreakGlassOutlook, Failure> {
        Ok(match self.permission(approving, plan)? {
            Ok(policy) => BreakGlassOutlook {
                by: policy.by.clone(),
                refused: None,
            },
            Err(why) => BreakGlassOutlook {
                by: Vec::new(),
                refused: Some(Arc::from(why)),
            },
        })
    }

    /// The policy by which a plan may begin without approvals, if one of the people whom it names signs the run. Its number of
    /// machines is that of all runs together that have not been approved since.
    fn permission(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
    ) -> Result<Result<&BreakGlassPolicy, Refusal>, Failure> {
        let Some(policy) = &self.break_glass else {
            let why = "the Policy, in force and of the documents, has no `break_glass`";
            return Ok(Err(why.to_owned()));
        };
        let effect = PlanEffect::of(plan);
        let mut machines: BTreeSet<NodeName> = effect.machines().cloned().collect();
        let (own, most) = (machines.len(), policy.machines);
        if own as u64 > most {
            let why = format!("the plan is about {own} machines, and at most {most} may be");
            return Ok(Err(why));
        }
        if !plan.guards.loosened.is_empty() {
            return Ok(Err("the plan makes guards weaker".to_owned()));
        }
        if !plan.guards.exceeded.is_empty() {
            let why = "the plan reaches more than Policy `blast_radius` lets one plan reach";
            return Ok(Err(why.to_owned()));
        }
        let unapproved = self.unapproved_runs(approving)?;
        for run in &unapproved {
            machines.extend(run.broken.nodes.iter().cloned());
        }
        let all = machines.len();
        match unapproved.last() {
            Some(last) if all as u64 > most => Ok(Err(format!(
                "with the runs that began so, and were not approved since, it is about {all} machines, and at most {most} may be; \
                 `trueup approve {}` approves the last one",
                last.run
            ))),
            Some(_) | None => Ok(Ok(policy)),
        }
    }

    /// Lets a plan begin without approvals that are missing, as the Policy lets who signs the run do it.
    pub(super) fn break_glass(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
        shown: &Approvals,
        reason: &Arc<str>,
    ) -> Result<BreakGlass, Failure> {
        let refused = |why: String| {
            let text =
                format!("`--break-glass` cannot do without the approvals that are missing: {why}");
            Failure::new(FailureKind::Guard, text)
        };
        let policy = self.permission(approving, plan)?.map_err(refused)?;
        let key = approving.repository.run_signing_key()?.ok_or_else(|| {
            runs::no_key("`--break-glass` needs a signature of the person who begins")
        })?;
        let public = key.public();
        let signer = public.as_ref().and_then(|key| self.signer(key));
        let signer = signer.filter(|signer| {
            let name = signer.principal.to_lowercase();
            policy.by.iter().any(|each| each.to_lowercase() == name)
        });
        let Some(signer) = signer else {
            let names = policy.by.join(", ");
            return Err(refused(format!(
                "the key that git signs with is of none of {names}"
            )));
        };
        let effect = PlanEffect::of(plan);
        let open = shown.needed.iter().filter(|rule| rule.missing > 0);
        Ok(BreakGlass {
            by: Arc::from(signer.principal.as_str()),
            reason: reason.clone(),
            effect: effect.digest(),
            nodes: effect.machines().cloned().collect(),
            missing: open
                .map(|rule| MissingApproval {
                    rule: rule.rule.clone(),
                    count: rule.count,
                    of: rule.of.clone(),
                })
                .collect(),
        })
    }

    /// The runs that began without approvals that they needed, and have none since, oldest first.
    ///
    /// # Errors
    ///
    /// The records cannot be read, the remote cannot be asked, or `ssh-keygen` cannot be run.
    pub fn unapproved_runs(&self, approving: Approving<'_>) -> Result<Vec<UnapprovedRun>, Failure> {
        let store = Store::open(approving.repository, approving.site)?;
        let state = store.read()?;
        let mut found = Vec::new();
        for run in &state.site.break_glass {
            let record = store.run(&state, run)?;
            let Some(broken) = record.and_then(|record| record.break_glass) else {
                continue;
            };
            if self.lacks_approvals(approving, run, &broken)? {
                found.push(UnapprovedRun {
                    run: run.clone(),
                    broken: *broken,
                });
            }
        }
        Ok(found)
    }

    /// Whether a run still lacks approvals that began without them. A signature of its effect counts, but for that of the
    /// person who began it.
    fn lacks_approvals(
        &self,
        approving: Approving<'_>,
        run: &RunId,
        broken: &BreakGlass,
    ) -> Result<bool, Failure> {
        let none = Vec::new();
        let signers = self.signers.as_ref().unwrap_or(&none);
        let judge = Judge {
            approving,
            effect: &broken.effect,
            repository: approving.repository.signed_name()?,
            now: now(approving.client),
            // What was approved since stays so.
            needed: time_of_id(run.as_str()),
            spent: BTreeMap::new(),
            own: Some(run),
            ticket: None,
            appliers: BTreeSet::from([broken.by.to_lowercase()]),
        };
        let mut given = Vec::new();
        for candidate in approving.candidates(signers, &broken.effect, None)? {
            if let Ok((_, expires)) = judge.verdict_on(&candidate)? {
                let by = Arc::from(candidate.signer.principal.as_str());
                given.push(GivenApproval { by, expires });
            }
        }
        Ok(broken.missing.iter().any(|rule| {
            let needed = NeededApproval {
                rule: rule.rule.clone(),
                count: rule.count,
                of: rule.of.clone(),
                recovery: None,
                missing: rule.count,
            };
            needed.with(&given).missing > 0
        }))
    }
}
