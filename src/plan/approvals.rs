//! The signatures that a plan needs and has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Action, Plan, PlanEffect};
use crate::design::{ApprovalPolicy, ApprovalScope};

/// The signatures that a plan needs by the Policy of its site, and those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// The signatures that it needs.
    pub needed: Vec<NeededApproval>,
    /// The approvals that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<GivenApproval>,
    /// Those that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedApproval>,
    /// The revision whose rules and allowed signers count.
    pub rules_from: Arc<str>,
    /// An account that may push the records can take the rules away: nothing that it cannot rewrite holds them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advisory: bool,
    /// Whether it may begin without those that are missing, if it asks to (`--break-glass`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<BreakGlassOutlook>,
    /// Why nothing could be approved any more once its documents are in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub void: Vec<Arc<str>>,
}

/// Whether a plan may begin without the approvals that are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakGlassOutlook {
    /// One of whom has to sign its run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Arc<str>>,
    /// Why it may not, with any signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Arc<str>>,
}

/// Signatures that a rule asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededApproval {
    /// The rule, as in the Policy.
    pub rule: Arc<str>,
    /// Signatures of how many different principals.
    pub count: u64,
    /// Whose signatures count; empty: those of all allowed signers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<Arc<str>>,
    /// The signatures that count in their place, if those who are asked first cannot sign any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryApproval>,
    /// How many are missing.
    pub missing: u64,
}

/// Signatures by keys that are kept for recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryApproval {
    /// Signatures of how many different principals.
    pub count: u64,
    /// Whose.
    pub of: Vec<Arc<str>>,
}

/// An approval that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenApproval {
    /// The principal.
    pub by: Arc<str>,
    /// Until when.
    pub expires: Arc<str>,
}

/// An approval that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedApproval {
    /// The principal that it is said to be of, or the allowed signers themselves.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

impl NeededApproval {
    /// The rules that are about a plan, with all their signatures missing.
    #[must_use]
    pub fn by(policy: &ApprovalPolicy, plan: &Plan) -> Vec<Self> {
        let scale = PlanEffect::of(plan).scale();
        let is_about = |scope| match scope {
            ApprovalScope::Any => scale.nodes > 0,
            ApprovalScope::Redeploy => scale.redeployed > 0,
            ApprovalScope::Destroy => scale.taken_away > 0,
            ApprovalScope::MoreNodesThan(limit) => scale.nodes as u64 > limit,
        };
        let rules = policy.rules.iter().filter(|rule| is_about(rule.scope));
        let needed = rules.map(|rule| Self {
            rule: Arc::from(rule.scope.to_string()),
            count: rule.count,
            of: rule.of.clone(),
            recovery: None,
            missing: rule.count,
        });
        let needed = needed.chain(Self::of_loosening(policy, plan));
        let reach = match plan.guards.exceeded.is_empty() {
            true => Vec::new(),
            false => Self::of_all(policy, "blast-radius", false),
        };
        needed.chain(reach).collect()
    }

    /// Every rule, whatever it is about, if the plan makes a guard weaker: no rule that was added takes their say from
    /// those of another one. Of rules that ask the same people, the one that asks for most of them.
    fn of_loosening(policy: &ApprovalPolicy, plan: &Plan) -> Vec<Self> {
        if plan.guards.loosened.is_empty() {
            return Vec::new();
        }
        let recovers = plan.request.action == Action::Guards;
        Self::of_all(policy, "loosening", recovers)
    }

    /// The most that the rules ask of the same people, for what is under no rule of its own. `recovers`: the keys for
    /// recovery count in their place.
    fn of_all(policy: &ApprovalPolicy, rule: &str, recovers: bool) -> Vec<Self> {
        let mut most: BTreeMap<&[Arc<str>], u64> = BTreeMap::new();
        for rule in &policy.rules {
            let count = most.entry(&rule.of).or_default();
            *count = rule.count.max(*count);
        }
        let recovery = policy.recovery.as_ref();
        let recovery = recovery.filter(|_| recovers);
        let needed = most.into_iter().map(|(of, count)| Self {
            rule: Arc::from(rule),
            count,
            of: of.to_vec(),
            recovery: recovery.map(|rule| RecoveryApproval {
                count: rule.count,
                of: rule.of.clone(),
            }),
            missing: count,
        });
        needed.collect()
    }

    /// This rule, with the approvals of some principals.
    #[must_use]
    pub fn with(mut self, given: &[GivenApproval]) -> Self {
        let people: BTreeSet<String> = given.iter().map(|each| folded(&each.by)).collect();
        let missing = |count: u64, of: &[Arc<str>]| {
            let of: BTreeSet<String> = of.iter().map(|name| folded(name)).collect();
            let counted = people.iter();
            let counted = counted.filter(|name| of.is_empty() || of.contains(*name));
            count.saturating_sub(counted.count() as u64)
        };
        self.missing = missing(self.count, &self.of);
        if let Some(recovery) = &self.recovery {
            self.missing = self.missing.min(missing(recovery.count, &recovery.of));
        }
        self
    }

    /// Whether the signature of a principal counts.
    #[must_use]
    pub fn counts(&self, by: &str) -> bool {
        let is_named = |of: &[Arc<str>]| of.iter().any(|name| folded(name) == folded(by));
        let recovery = self.recovery.as_ref();
        self.of.is_empty() || is_named(&self.of) || recovery.is_some_and(|it| is_named(&it.of))
    }
}

/// A principal without the difference of capital letters: one person is not two.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

impl Approvals {
    /// Whether the plan needs none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.needed.is_empty() && self.void.is_empty()
    }

    /// Whether a signature is missing.
    #[must_use]
    pub fn is_missing_any(&self) -> bool {
        self.needed.iter().any(|rule| rule.missing > 0)
    }
}
