//! The independent checker of plans: a second program that checks each finished plan, and tells whether it may be shown,
//! approved, begun, resumed and handed to workers.
//!
//! It is written from the specifications, and uses no function of the planner: of `plan` and `guard` only data types
//! (`tests/it/architecture.rs` holds that). With the planner it shares the documents, their rendering, the design with its
//! digests and selectors, the table of kinds of step, and the resolution of guards: an error in these is not found here.
//!
//! Each rule is a function with a code, the sentence that it holds, and a test that breaks one plan for it. A finding is a
//! bug of this program or an altered plan: nothing is done with such a plan.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod antichain;
mod away;
mod blast;
mod claims;
mod design;
mod failures;
mod groups;
mod guards;
mod interleaving;
mod interval;
mod kinds;
mod limits;
mod node_order;
mod quorum;
mod rule;
mod shape;
mod site_order;
mod table;
mod teardown;
mod view;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::design::{Documented, NodeName};
use crate::guard::Guarded;
use crate::observed::Observations;
use crate::plan::{CheckSummary, Plan};
use crate::record::NodeRecord;
use crate::reservation::Reservations;

pub use rule::{Family, Finding, Rule, Sees};
pub use table::RULES;
use view::View;

/// The version of the rules: another one may find what this one does not.
pub const VERSION: u32 = 1;

/// The last of the rules without which no other one can read a plan.
const LAST_OF_FORM: &str = "check-needs";

/// All that a plan is held against, beside itself. What is absent is not judged: [`Rule::sees`] tells which rule needs what.
#[derive(Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// The design to be reached, with the guards that hold.
    pub site: Option<&'a Guarded>,
    /// The records and the observed state that the plan was made from, if it was just made.
    pub world: Option<World<'a>>,
    /// It is the plan of a run that has begun, which the guards of now judge by themselves.
    pub has_begun: bool,
}

/// The records and the observed state that a plan was just made from.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The documents that were applied, by the revisions that records name.
    pub applied: &'a BTreeMap<Arc<str>, Documented>,
    /// The record of each node.
    pub records: &'a BTreeMap<NodeName, NodeRecord>,
    /// The machines that persons work on.
    pub reservations: &'a Reservations,
    /// The observed state; `None`: planned on records alone.
    pub observations: Option<&'a Observations>,
    /// The machines that a run takes out of service with whose plan this one is compared.
    pub resumes: &'a BTreeSet<NodeName>,
}

/// Holds a plan to every rule that its inputs let judge it: what is wrong with it.
#[must_use]
pub fn plan(plan: &Plan, inputs: &Inputs<'_>) -> Vec<Finding> {
    let view = View::of(plan, inputs);
    let mut findings = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.is_held(inputs)) {
        let mut found = rule::Found::of(rule, &view, &mut findings);
        (rule.judge)(&view, &mut found);
        if rule.code == LAST_OF_FORM && !findings.is_empty() {
            break;
        }
    }
    findings
}

/// The verdict on a plan for its readers: how many rules it was held to, and what they found.
#[must_use]
pub fn summary(inputs: &Inputs<'_>, findings: &[Finding]) -> CheckSummary {
    let held = RULES.iter().filter(|rule| rule.is_held(inputs));
    CheckSummary {
        rules: held.count(),
        findings: findings.len(),
        version: VERSION,
    }
}
