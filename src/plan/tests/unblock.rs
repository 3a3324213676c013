//! The flags that a blocked change needs, and the reasons for which a plan as a whole is refused.

use proptest::prelude::*;

use super::properties::fixtures;
use super::*;
use crate::identity::{Identity, Proof};
use crate::plan::{Exceeded, Lineage, Loosened, NeededApproval, Unblocking, Verdict, unblocking};

/// The plan of a fixture in which some flags are given besides.
fn with_flags(fixture: &PlanFixture, flags: &[&str]) -> Plan {
    let mut fixture = fixture.clone();
    for flag in flags {
        assert!(fixture.options.allow(flag), "{flag}");
    }
    fixture.unchecked().unwrap()
}

/// Nothing proves any more that a machine is the one that is meant.
fn unproven(fixture: &mut PlanFixture, name: &str) {
    let node = fixture.seen(name);
    node.identity = Some(Box::new(Identity::of(Some(name), None)));
    node.proof = Proof::Unverified(Arc::from("nothing names it"));
}

fn is_blocked(plan: &Plan, node: &NodeName) -> bool {
    plan.blocked().any(|change| change.node == *node)
}

fn found(fixture: &PlanFixture, plan: &Plan, node: &NodeName) -> Option<Unblocking> {
    fixture
        .with_input(|input| unblocking(input, plan, node))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_named_flags_unblock_a_change_and_no_part_of_them_does(fixture in fixtures(), proven in any::<bool>()) {
        let mut fixture = fixture;
        if !proven {
            let names: Vec<String> = fixture.after.nodes.keys().map(ToString::to_string).collect();
            names.iter().for_each(|name| unproven(&mut fixture, name));
        }
        let plan = fixture.unchecked().unwrap();
        for change in &plan.changes {
            let node = &change.node;
            let Some(found) = found(&fixture, &plan, node) else {
                prop_assert!(change.blocked.is_none());
                continue;
            };
            prop_assert!(change.blocked.is_some());
            let flags: Vec<&str> =
                found.flags.iter().map(|block| block.flag.as_deref().unwrap()).collect();
            let whole = with_flags(&fixture, &flags);
            prop_assert_eq!(is_blocked(&whole, node), found.remaining.is_some(), "{:?}", found);
            if found.remaining.is_some() {
                continue;
            }
            prop_assert!(!flags.is_empty());
            for chosen in 0..(1u32 << flags.len()) - 1 {
                let some = flags.iter().enumerate();
                let some = some.filter(|(bit, _)| chosen & (1 << bit) != 0);
                let some: Vec<&str> = some.map(|(_, flag)| *flag).collect();
                prop_assert!(is_blocked(&with_flags(&fixture, &some), node), "{:?} of {:?}", some, flags);
            }
        }
    }
}

#[test]
fn a_flag_that_another_block_hid_is_named_and_what_no_flag_changes_is_too() {
    let mut fixture = PlanFixture::settled(&["n1"]);
    fixture.edit("n1", Section::OperatingSystem);
    unproven(&mut fixture, "n1");
    let plan = fixture.plan();
    let n1 = NodeName::from("n1");
    let both = found(&fixture, &plan, &n1).unwrap();
    let mut flags: Vec<&str> = both
        .flags
        .iter()
        .map(|block| block.flag.as_deref().unwrap())
        .collect();
    flags.sort_unstable();
    assert_eq!(flags, ["--allow-redeploy n1", "--allow-unverified n1"]);
    assert_eq!(both.command, flags);
    assert_eq!(both.remaining, None);
    fixture.guards.policy.redeploy_on_change = crate::design::RedeployPolicy::Never;
    let never = found(&fixture, &fixture.plan(), &n1).unwrap();
    assert!(never.flags.is_empty(), "{never:?}");
    assert_eq!(never.remaining.unwrap().flag, None);
    let settled = PlanFixture::settled(&["n1"]);
    assert_eq!(found(&settled, &settled.plan(), &n1), None);
}

#[test]
fn every_reason_of_a_refused_plan_is_named_and_each_counts() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.edit("n1", Section::OperatingSystem);
    let mut plan = fixture.plan();
    plan.history.lineage = Lineage::Rollback;
    plan.policies.denied.push(Verdict {
        rule: "site.fridays".into(),
        message: "not on Fridays".into(),
    });
    let reasons = |plan: &Plan| -> Vec<String> {
        plan.refusals()
            .into_iter()
            .map(|refusal| refusal.reason)
            .collect()
    };
    assert_eq!(
        reasons(&plan),
        [
            "the change of `n1` is blocked",
            "it is a rollback",
            "rules of the site deny it: not on Fridays (site.fridays)",
        ]
    );
    // Each of them refuses by itself, and without them nothing does.
    plan.options.skip_blocked = true;
    assert!(plan.is_refused());
    plan.options.allow_intermediate_commits = true;
    assert!(plan.is_refused());
    assert_eq!(reasons(&plan).len(), 1);
    plan.policies.denied.clear();
    assert!(!plan.is_refused());
    assert_eq!(reasons(&plan), Vec::<String>::new());
    plan.target.dirty = vec!["nodes.yaml".into(), "racks.yaml".into()];
    assert_eq!(
        reasons(&plan),
        ["`nodes.yaml` and 1 more file are not committed"]
    );
}

#[test]
fn a_plan_that_leaves_a_blocked_change_out_does_not_reach_its_revision() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.edit("n1", Section::Labels);
    assert!(!fixture.plan().is_partial());
    fixture.edit("n2", Section::OperatingSystem);
    fixture.options.skip_blocked = true;
    let plan = fixture.plan();
    assert_eq!(work(&plan), "relabel/all/n1");
    assert!(plan.is_partial() && !plan.is_refused());
}

#[test]
fn what_loosens_a_guard_or_reaches_too_far_is_refused_without_approvals() {
    let mut plan = PlanFixture::settled(&["n1"]).plan();
    assert!(!plan.is_refused());
    plan.guards.loosened.push(Loosened {
        guard: "protected".into(),
        flag: None,
        how: "no longer n1".into(),
    });
    assert!(plan.is_refused());
    plan.options.allow_loosening = true;
    assert!(!plan.is_refused());
    // That flag is about nothing else.
    plan.guards.exceeded.push(Exceeded {
        rung: crate::design::Rung::Wipe,
        limit: "machines".into(),
        reached: 2,
        most: 1,
    });
    assert!(plan.is_refused());
    // Approvals are asked for in place of both.
    plan.options.allow_loosening = false;
    plan.approvals.needed.push(NeededApproval {
        rule: "any".into(),
        count: 1,
        of: Vec::new(),
        recovery: None,
        missing: 1,
    });
    assert!(!plan.is_refused());
}

#[test]
fn a_flag_that_the_policy_forbids_is_not_offered() {
    let mut fixture = PlanFixture::settled(&["n1"]);
    fixture.edit("n1", Section::OperatingSystem);
    let forbidden = &mut fixture.guards.policy.forbidden_flags;
    forbidden.insert("allow-redeploy".into());
    let plan = fixture.plan();
    let block = plan.changes[0].blocked.as_ref().unwrap();
    assert_eq!(block.flag, None);
    let reason = &block.reason;
    assert!(
        reason.ends_with("; the policy forbids `--allow-redeploy`"),
        "{reason}"
    );
}
