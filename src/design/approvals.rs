//! The signatures that a site's Policy asks for before a plan is applied.

use std::fmt;
use std::sync::Arc;

use super::Policy;
use super::read::{number, text, texts};
use crate::document::{Map, Node};

/// The allowed signers of a site, if its Policy names no other file.
const ALLOWED_SIGNERS: &str = "allowed_signers";

/// The signatures that plans of a site need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// The file of the repository with the keys of those who may approve.
    pub allowed_signers: Arc<str>,
    /// Which plans need how many signatures.
    pub rules: Vec<ApprovalRule>,
    /// Whether the signature of the person who applies counts.
    pub applier_counts: bool,
    /// Whose signatures put a loosening in force if those who are asked first cannot sign any more.
    pub recovery: Option<RecoveryRule>,
}

/// The people who may begin a run without the approvals that are missing, and how much it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakGlassPolicy {
    /// The most machines.
    pub machines: u64,
    /// Whose key has to sign the run.
    pub by: Vec<Arc<str>>,
}

impl BreakGlassPolicy {
    pub(super) fn read(data: &Node) -> Self {
        Self {
            machines: number(data, "machines").unwrap_or_default(),
            by: texts(data, "by").collect(),
        }
    }

    /// The narrower of two.
    #[must_use]
    pub fn within(mut self, other: &Self) -> Self {
        self.machines = self.machines.min(other.machines);
        self.by.retain(|name| other.by.contains(name));
        self
    }
}

/// Signatures by keys that are kept for the day when others are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryRule {
    /// Signatures of how many different principals.
    pub count: u64,
    /// Whose.
    pub of: Vec<Arc<str>>,
}

/// A kind of plan that needs signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// Which plans.
    pub scope: ApprovalScope,
    /// Signatures of how many different principals.
    pub count: u64,
    /// Whose signatures count; empty: those of all allowed signers.
    pub of: Vec<Arc<str>>,
}

impl ApprovalRule {
    /// How many people can meet it; `usize::MAX`: all allowed signers.
    #[must_use]
    pub fn people(&self) -> usize {
        match self.of.len() {
            0 => usize::MAX,
            people => people,
        }
    }
}

/// The plans that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApprovalScope {
    /// Plans that do anything to a node.
    Any,
    /// Plans that erase a machine and build it again.
    Redeploy,
    /// Plans that take a machine, its data or its etcd member away.
    Destroy,
    /// Plans that do something to more nodes than this.
    MoreNodesThan(u64),
}

impl fmt::Display for ApprovalScope {
    /// As in the Policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Redeploy => f.write_str("redeploy"),
            Self::Destroy => f.write_str("destroy"),
            Self::MoreNodesThan(nodes) => write!(f, "nodes>{nodes}"),
        }
    }
}

impl ApprovalScope {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "redeploy" => Self::Redeploy,
            "destroy" => Self::Destroy,
            _ => Self::MoreNodesThan(name.strip_prefix("nodes>")?.parse().ok()?),
        })
    }
}

impl Policy {
    /// The file of the repository with the keys of the allowed signers.
    #[must_use]
    pub fn allowed_signers(&self) -> &str {
        let named = self.approvals.as_ref();
        named.map_or(ALLOWED_SIGNERS, |approvals| &approvals.allowed_signers)
    }

    /// Whether it asks for signatures of people, on plans or on runs.
    #[must_use]
    pub fn asks_for_signatures(&self) -> bool {
        self.approvals.is_some() || self.signed_runs
    }
}

impl ApprovalPolicy {
    /// Reads what the schema admits.
    pub(super) fn read(data: &Node) -> Self {
        let fields = data.as_map().into_iter().flat_map(Map::iter);
        let mut rules: Vec<ApprovalRule> = fields
            .filter_map(|(key, field)| {
                let rule = &field.node;
                let own = rule.whole_number().and_then(|count| count.try_into().ok());
                Some(ApprovalRule {
                    scope: ApprovalScope::named(&key.text)?,
                    // A number that cannot be read asks for more than there can be.
                    count: own.or_else(|| number(rule, "count")).unwrap_or(u64::MAX),
                    of: texts(rule, "of").collect(),
                })
            })
            .collect();
        rules.sort_by_key(|rule| rule.scope);
        Self {
            allowed_signers: text(data, "allowed_signers")
                .unwrap_or_else(|| Arc::from(ALLOWED_SIGNERS)),
            rules,
            applier_counts: data.get("applier_counts").and_then(Node::as_bool) == Some(true),
            recovery: data.get("recovery").map(|rule| RecoveryRule {
                count: number(rule, "count").unwrap_or(u64::MAX),
                of: texts(rule, "of").collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site};
    use crate::design::kind;

    #[test]
    fn a_policy_says_which_plans_need_how_many_signatures_of_whom() {
        let read = |data: &str| {
            site(&document(kind::POLICY, "p", data))
                .guards
                .policy
                .approvals
        };
        assert_eq!(read("wipe: skip"), None);
        let policy = read(
            "approvals: {destroy: {count: 2, of: [a@x, b@x]}, redeploy: 1, 'nodes>20': 2, applier_counts: true}",
        );
        let rule = |scope, count, of: &[&str]| ApprovalRule {
            scope,
            count,
            of: of.iter().map(|name| Arc::from(*name)).collect(),
        };
        assert_eq!(
            *policy.unwrap(),
            ApprovalPolicy {
                allowed_signers: Arc::from("allowed_signers"),
                rules: vec![
                    rule(ApprovalScope::Redeploy, 1, &[]),
                    rule(ApprovalScope::Destroy, 2, &["a@x", "b@x"]),
                    rule(ApprovalScope::MoreNodesThan(20), 2, &[]),
                ],
                applier_counts: true,
                recovery: None,
            }
        );
        let elsewhere = read("approvals: {any: 1, allowed_signers: keys/site}").unwrap();
        assert_eq!(&*elsewhere.allowed_signers, "keys/site");
        assert!(!elsewhere.applier_counts);
    }

    #[test]
    fn a_number_that_cannot_be_read_asks_for_more_than_there_can_be() {
        for data in [
            "approvals: {any: many}",
            "approvals: {any: {of: [a@x]}}",
            "approvals: {any: -1}",
        ] {
            let policy = site(&document(kind::POLICY, "p", data)).guards.policy;
            assert_eq!(policy.approvals.unwrap().rules[0].count, u64::MAX, "{data}");
        }
    }
}
