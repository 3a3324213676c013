//! The failure of a plan that lacks approvals, and the approvals that were given and do not count.

use std::sync::Arc;

use super::{Gate, Judge, Signer};
use crate::design::Digest;
use crate::plan::{Approvals, Plan, RefusedApproval, effect};
use crate::record::RunRecord;
use crate::workflow::{Failure, FailureKind};

impl Gate {
    /// The approvals of people whose key not all revisions that count have: of one who has left the signers, or is new there.
    pub(super) fn departed(
        &self,
        judge: &Judge<'_>,
        reviewed: &Plan,
        own: Option<&RunRecord>,
    ) -> Result<Vec<RefusedApproval>, Failure> {
        let Ok(common) = &self.signers else {
            return Ok(Vec::new());
        };
        let mut departed: Vec<Signer> = Vec::new();
        for signer in self
            .lists
            .iter()
            .flat_map(|list| list.signers.iter().flatten())
        {
            let is_known = |known: &Signer| known.key == signer.key;
            if !common.iter().chain(&departed).any(is_known) {
                departed.push(signer.clone());
            }
        }
        let mut theirs: Vec<&Signer> = Vec::new();
        for candidate in judge.approving.candidates(&departed, judge.effect, own)? {
            if judge.verdict_on(&candidate)?.is_ok() {
                theirs.push(candidate.signer);
            }
        }
        let others = judge.of_other_effects(&departed, reviewed)?.into_iter();
        theirs.extend(others.filter_map(|(signer, verdict)| verdict.is_ok().then_some(signer)));
        theirs.dedup_by_key(|signer| &signer.key);
        let refused = theirs.into_iter().map(|signer| {
            let without = self.without(&signer.key).join(", and ");
            RefusedApproval {
                by: Arc::from(signer.principal.as_str()),
                reason: Arc::from(format!(
                    "its key is not one of the allowed signers of {without}"
                )),
            }
        });
        Ok(refused.collect())
    }
}

/// The failure that lists the missing approvals, and why those that were found do not count; `run`: it has begun.
pub(super) fn missing(
    plan: &Plan,
    approvals: &Approvals,
    digest: &Digest,
    run: Option<&RunRecord>,
) -> Failure {
    let rules = approvals.needed.iter().filter(|rule| rule.missing > 0);
    let rules = rules.map(|rule| {
        let of = match rule.of.is_empty() {
            true => String::new(),
            false => format!(" (of {})", rule.of.join(", ")),
        };
        let or = rule
            .recovery
            .as_ref()
            .map(|other| format!(", or {} (of {})", other.count, other.of.join(", ")));
        let or = or.unwrap_or_default();
        let (rule, count, missing) = (&rule.rule, rule.count, rule.missing);
        format!("`{rule}` needs {count}{of}{or}: {missing} missing")
    });
    let refused = approvals.refused.iter();
    let refused = refused.map(|each| format!("{} does not count: {}", each.by, each.reason));
    let text = format!(
        "the plan lacks approvals of its effect {}, by the rules of {}:",
        effect::short(digest),
        approvals.rules_from
    );
    let failure = Failure::new(FailureKind::Guard, text).details(rules.chain(refused));
    match run {
        Some(record) => {
            let run = &record.run;
            failure.hint(format!(
                "have the run approved by others (`trueup approve {run}`), and resume it; or abort it with `trueup abort {run}`"
            ))
        }
        None => failure.hint(format!(
            "save the plan (`{} -o FILE`), have it approved by others (`trueup approve FILE`), and apply that (`trueup apply FILE`)",
            plan.again_with(None)
        )),
    }
}
