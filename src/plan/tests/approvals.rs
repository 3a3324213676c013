//! Which rules about approvals a plan is under, and whose signatures meet them.

use std::sync::Arc;

use super::{PlanFixture, all};
use crate::design::{ApprovalPolicy, ApprovalRule, ApprovalScope, RecoveryRule, Section};
use crate::plan::{Action, GivenApproval, Loosened, NeededApproval};

fn people(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn policy(rules: &[(ApprovalScope, u64, &[&str])]) -> ApprovalPolicy {
    let rules = rules.iter().map(|(scope, count, of)| ApprovalRule {
        scope: *scope,
        count: *count,
        of: people(of),
    });
    ApprovalPolicy {
        allowed_signers: Arc::from("allowed_signers"),
        rules: rules.collect(),
        applier_counts: false,
        recovery: Some(RecoveryRule {
            count: 1,
            of: people(&["vault"]),
        }),
    }
}

/// How many signatures are missing if some people have signed.
fn missing(needed: &NeededApproval, by: &[&str]) -> u64 {
    let given = people(by).into_iter().map(|by| GivenApproval {
        by,
        expires: Arc::from("2030-07-01T00:00:00Z"),
    });
    let given: Vec<GivenApproval> = given.collect();
    needed.clone().with(&given).missing
}

#[test]
fn one_person_counts_once_and_only_where_they_are_asked() {
    let mut needed = NeededApproval {
        rule: Arc::from("any"),
        count: 2,
        of: people(&["ada", "Bob"]),
        recovery: None,
        missing: 2,
    };
    assert_eq!(missing(&needed, &["ada", "bob"]), 0);
    assert_eq!(missing(&needed, &["ada", "Ada"]), 1);
    assert_eq!(missing(&needed, &["ada", "eve"]), 1);
    // Without names all allowed signers are asked.
    needed.of.clear();
    assert_eq!(missing(&needed, &["ada", "eve"]), 0);
    assert_eq!(missing(&needed, &["eve", "EVE"]), 1);
}

#[test]
fn each_rule_is_about_the_plans_of_its_scope() {
    let policy = policy(&[
        (ApprovalScope::Any, 1, &[]),
        (ApprovalScope::Redeploy, 1, &[]),
        (ApprovalScope::Destroy, 1, &[]),
        (ApprovalScope::MoreNodesThan(1), 1, &[]),
    ]);
    let rules = |fixture: &PlanFixture| {
        let needed = NeededApproval::by(&policy, &fixture.plan());
        let rules: Vec<&str> = needed.iter().map(|each| &*each.rule).collect();
        rules.join(" ")
    };
    let settled = PlanFixture::settled(&["n1", "n2", "n3"]);
    assert_eq!(rules(&settled), "");
    let mut fixture = settled.clone();
    fixture.edit("n1", Section::Labels);
    assert_eq!(rules(&fixture), "any");
    fixture.edit("n2", Section::Labels);
    assert_eq!(rules(&fixture), "any nodes>1");
    let mut fixture = settled.clone();
    fixture.edit("n1", Section::OperatingSystem);
    fixture.options.allow_redeploy = all();
    assert_eq!(rules(&fixture), "any redeploy");
    let mut fixture = settled;
    fixture.leave("n1");
    fixture.options.allow_destroy = all();
    assert_eq!(rules(&fixture), "any destroy");
}

#[test]
fn what_loosens_a_guard_needs_the_most_of_all_rules_and_keys_for_recovery_count_for_guards_alone() {
    let policy = policy(&[
        (ApprovalScope::Any, 2, &["ada", "bob"]),
        (ApprovalScope::Destroy, 1, &["ada", "bob"]),
        (ApprovalScope::Redeploy, 1, &["cy"]),
    ]);
    let mut plan = PlanFixture::settled(&["n1"]).plan();
    plan.guards.loosened.push(Loosened {
        guard: Arc::from("protected"),
        flag: None,
        how: Arc::from("no longer n1"),
    });
    let needed = NeededApproval::by(&policy, &plan);
    let counts: Vec<u64> = needed.iter().map(|each| each.count).collect();
    assert_eq!(counts, [2, 1]);
    assert_eq!(missing(&needed[0], &["vault"]), 2);
    assert_eq!(missing(&needed[1], &["vault"]), 1);
    plan.request.action = Action::Guards;
    let needed = NeededApproval::by(&policy, &plan);
    assert_eq!(missing(&needed[0], &["vault"]), 0);
}
