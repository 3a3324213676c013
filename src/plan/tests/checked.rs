//! A plan that is broken in one way for each rule of the independent checker, which finds it.

use super::leaving::{clustered, with_etcd};
use super::*;
use crate::check::RULES;
use crate::design::{ApprovalPolicy, ApprovalRule, ApprovalScope, Retirement, Rung, Share};
use crate::document::{SecretOrigin, node_from_json};
use crate::identity::Proof;
use crate::plan::{Action, Block, Cause, FactSubject, GivenApproval, NeededApproval};
use crate::step::{Effect, OnDrainTimeout, StepKind};

/// A site of a control plane of three and of workers, on which every kind of change is due.
fn site() -> PlanFixture {
    let names = [
        "a1", "c1", "c2", "c3", "old", "r1", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8",
    ];
    let mut site = clustered(&names);
    with_etcd(&mut site, &["c1", "c2", "c3"], &[]);
    for name in ["c1", "c2", "w1", "w2"] {
        site.edit(name, Section::OperatingSystem);
    }
    site.edit("w3", Section::Labels);
    site.bare("w4");
    site.edit("w5", Section::Inventory);
    site.bare("w6");
    site.seen("w6").provision = Fact::Unknown(Arc::from("dead"));
    site.seen("w2").cluster = Fact::Known(None);
    site.records.remove("a1");
    site.leave("old");
    site.guards.retirements = vec![retirement("r1")];
    site.guards.groups = vec![
        group("control", &[], named(&["c1", "c2", "c3"])),
        group(
            "workers",
            &["control"],
            named(&["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"]),
        ),
    ];
    site.options.allow_redeploy = all();
    site.options.allow_destroy = all();
    site.options.adopt = all();
    site
}

fn retirement(name: &str) -> Retirement {
    Retirement {
        selector: named(&[name]).remove(0),
        reason: Arc::from("old"),
        from: None,
        mark: mark(),
    }
}

fn at(plan: &Plan, id: &str) -> usize {
    let found = plan.steps.iter().position(|step| step.id.to_string() == id);
    found.unwrap_or_else(|| panic!("there is no step {id} in {:#?}", ids(plan)))
}

fn of<'p>(plan: &'p mut Plan, id: &str) -> &'p mut Step {
    let at = at(plan, id);
    &mut plan.steps[at]
}

fn change<'p>(plan: &'p mut Plan, node: &str) -> &'p mut super::super::Change {
    let found = plan
        .changes
        .iter_mut()
        .find(|change| change.node.as_str() == node);
    found.unwrap()
}

/// Has a step wait for the success of some others, and for nothing else.
fn waits_for(plan: &mut Plan, id: &str, others: &[&str]) {
    let needs = others.iter().map(|other| crate::step::Need {
        step: StepIndex::from_position(at(plan, other)),
        wait: Wait::Success,
    });
    let mut needs: Vec<_> = needs.collect();
    needs.sort_unstable();
    of(plan, id).needs = needs;
}

/// The change of a plan, or to the site behind it, before it is held to a rule.
type Breaks = fn(&mut PlanFixture, &mut Plan);

/// A way to break a plan for each rule.
const BROKEN: &[(&str, Breaks)] = &[
    ("check-ids", |_, plan| {
        plan.steps[3].id = plan.steps[2].id.clone()
    }),
    ("check-needs", |_, plan| {
        let own = plan.steps[2].needs[0];
        plan.steps[2].needs.push(own);
    }),
    ("check-belongs", |_, plan| {
        plan.changes.retain(|change| change.node.as_str() != "w3")
    }),
    ("check-once", |_, plan| plan.changes.swap(0, 1)),
    ("check-steps", |_, plan| {
        change(plan, "w3").kind = ChangeKind::Create
    }),
    ("check-carried-out", |_, plan| {
        change(plan, "w3").blocked = Some(Block {
            reason: Arc::from("held"),
            flag: None,
            cause: Cause::Rule,
        });
    }),
    ("check-effect", |_, plan| {
        of(plan, "destroy/control/c1").effect = Effect::None
    }),
    ("check-destructive", |_, plan| {
        change(plan, "c1").destructive = false
    }),
    ("check-allowed", |_, plan| {
        plan.options.allow_destroy = Allowance::default()
    }),
    ("check-disruption", |_, plan| {
        plan.options.allow_redeploy = Allowance::default()
    }),
    ("check-targets", |_, plan| {
        plan.options.excludes = these(&["w3"])
    }),
    ("check-node-order", |_, plan| {
        waits_for(plan, "destroy/control/c1", &["wave/control/1"]);
    }),
    ("check-teardown", |_, plan| {
        of(plan, "drain/control/c1").id.kind = StepKind::PowerOn
    }),
    ("check-site-order", |_, plan| {
        of(plan, "start/control").needs.clear()
    }),
    ("check-group-order", |_, plan| {
        waits_for(plan, "start/workers", &["prepare-site"])
    }),
    ("check-gates", |_, plan| {
        waits_for(plan, "deploy/workers/w4", &["prepare/workers/w4"])
    }),
    ("check-critical", |_, plan| {
        waits_for(plan, "drain/old", &["prepare-site"])
    }),
    ("check-tag", |_, plan| of(plan, "tag").needs.clear()),
    ("check-grace", |_, plan| {
        of(plan, "drain/control/c1").give("grace_period", 3600)
    }),
    ("check-disks", |_, plan| {
        of(plan, "deploy/workers/w4").give("disks", ["sda", "sdz"]);
    }),
    ("check-wave-start", |_, plan| {
        waits_for(plan, "drain/control/c1", &["start/control"])
    }),
    ("check-summary", |_, plan| plan.summary.wiped_disks += 1),
    ("check-rung", |_, plan| {
        change(plan, "c1").rung = Some(Rung::Restart);
        plan.summary.highest_rung = Some(Rung::Restart);
    }),
    ("check-longest-path", |_, plan| {
        plan.summary.longest_path += 1
    }),
    ("check-wave-size", |_, plan| {
        plan.groups[1].waves.as_mut().unwrap().most = 1;
    }),
    ("check-quorum", |_, plan| {
        waits_for(plan, "wave/control/2", &["start/control"])
    }),
    ("check-control-plane", |_, plan| {
        waits_for(plan, "wave/control/2", &["start/control"])
    }),
    ("check-limits", |_, plan| {
        plan.options.max_unavailable = Some(Share::Machines(1))
    }),
    ("check-failure-domains", |site, plan| {
        site.guards.policy.failure_domains.by = ["rack".parse().unwrap()].into();
        waits_for(plan, "wave/control/2", &["start/control"])
    }),
    ("check-back-before", |_, plan| {
        let needs = of(plan, "wave/control/2").needs.iter_mut();
        needs.for_each(|need| need.wait = Wait::Done);
    }),
    ("check-soak", |site, _| site.guards.policy.soak.seconds = 60),
    ("check-protected", |site, _| {
        site.guards.policy.protected = named(&["w1"])
    }),
    ("check-retired", |site, _| {
        site.guards.retirements.push(retirement("w1"))
    }),
    ("check-blast-radius", |site, _| {
        let most = crate::design::BlastRadius {
            machines: Some(1),
            ..Default::default()
        };
        site.guards.policy.blast_radius = [(Rung::Wipe, most)].into();
    }),
    ("check-forbidden-flags", |site, _| {
        site.guards.policy.forbidden_flags = these(&["allow-redeploy"]);
    }),
    ("check-loosened", |_, plan| {
        plan.options.max_unavailable = Some(Share::Machines(9))
    }),
    ("check-guards", |site, _| {
        site.guards.policy.max_failures = Some(3)
    }),
    ("check-approvals", |_, plan| {
        plan.approvals.given.push(GivenApproval {
            by: Arc::from("ada"),
            expires: Arc::from("2030-06-02"),
        });
        plan.approvals.needed.push(NeededApproval {
            rule: Arc::from("any"),
            count: 2,
            of: Vec::new(),
            recovery: None,
            missing: 0,
        });
    }),
    ("check-change", |site, _| {
        let kept = site.old.nodes["old"].clone();
        site.after.nodes.insert(kept.name.clone(), kept);
    }),
    ("check-times", |_, plan| {
        of(plan, "drain/control/c1").give("grace_period", 0);
    }),
    ("check-groups", |_, plan| plan.groups[0].critical = false),
    ("check-parameters", |_, plan| {
        of(plan, "deploy/workers/w4").give("image", "another");
    }),
    ("check-machine", |_, plan| {
        let machine = change(plan, "w4").machine.as_mut().unwrap();
        machine.controller.address = Some(Arc::from("10.9.9.9"));
    }),
    ("check-secrets", |site, plan| {
        let fields = serde_json::json!({"oob": {"account": "hidden"}});
        let mut section = node_from_json(&fields, mark());
        section.hide(&SecretOrigin::in_file(None));
        site.designed("w4")
            .sections
            .insert(Section::OutOfBand, Arc::new(section));
        let machine = change(plan, "w4").machine.as_mut().unwrap();
        machine.controller.account = Some(Arc::from("hidden"));
    }),
    ("check-counted", |_, plan| plan.unchanged += 1),
    ("check-identity", |site, _| {
        site.seen("w1").proof = Proof::Refused(Arc::from("another machine"));
    }),
    ("check-unknown", |_, plan| {
        of(plan, "prepare/workers/w6").parameters = None
    }),
    ("check-held", |site, _| {
        site.seen("w1").maintenance = Some(Arc::from("fan"))
    }),
    ("check-reserved", |site, _| {
        site.reserve("w3");
    }),
    ("check-expected", |site, _| {
        site.guards.policy.demands_expected_hardware = true;
        site.seen("w4").unread_parts = Some(Arc::from("no answer"));
    }),
    ("check-addresses", |site, _| {
        let own = |address: &str| vec![(Arc::from("oam"), Arc::from(address))].into();
        site.designed("w4").addresses = own("10.0.0.7");
        let holder = Arc::make_mut(site.old.nodes.get_mut("w7").unwrap());
        holder.addresses = own("10.0.0.7/24");
    }),
    ("check-leaves", |site, _| {
        site.seen("w2").cluster = in_cluster("old")
    }),
    ("check-relies-on", |_, plan| plan.relies_on.clear()),
    ("check-observed-ids", |site, _| {
        site.seen("c1").cluster = in_cluster("old")
    }),
    ("check-soak-owed", |site, _| {
        site.guards.policy.soak.seconds = 60;
        site.record("w8").soaking = Some(RunId::from("run-0"));
    }),
    ("check-renamed", |_, plan| {
        of(plan, "record/w5").id.kind = StepKind::Rename
    }),
    ("check-unchanged", |site, _| {
        site.record("w7").digests.clear()
    }),
];

#[test]
fn every_rule_finds_a_plan_that_is_broken_for_it() {
    let sound = site();
    let plan = sound.plan();
    let mut problems = Vec::new();
    for (code, breaks) in BROKEN {
        let (mut site, mut broken) = (sound.clone(), plan.clone());
        breaks(&mut site, &mut broken);
        let found = site.checked(&broken);
        if !found
            .iter()
            .any(|finding| finding.starts_with(&format!("{code}: ")))
        {
            problems.push(format!("{code} finds nothing; found: {found:#?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let codes: Vec<&str> = RULES.iter().map(|rule| rule.code).collect();
    let broken: Vec<&str> = BROKEN.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, broken, "a rule without a plan that is broken for it");
}

#[test]
fn a_plan_without_a_step_is_held_to_what_it_claims_alone() {
    let mut site = PlanFixture::settled(&["n1", "n2"]);
    let plan = site.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(site.checked(&plan), Vec::<String>::new());
    site.record("n2").digests.clear();
    let found = site.checked(&plan);
    assert_eq!(
        found,
        ["check-unchanged: `n2` is said to be unchanged, and differs from its record"]
    );
}

/// Further ways to break a plan for a rule that has several conditions, with what it finds.
const ALSO_BROKEN: &[(&str, &str, Breaks)] = &[
    (
        "check-protected",
        "`w1` is protected, and is taken away",
        |site, _| site.seen("w1").protected = true,
    ),
    (
        "check-protected",
        "`old` is protected, and is taken away",
        |site, _| site.guards.policy.protected = named(&["old"]),
    ),
    ("check-retired", "`w1` is retired", |site, _| {
        site.seen("w1").retired = Some(Arc::from("by hand"));
    }),
    (
        "check-held",
        "`w4` carries a system, and is deployed over",
        |site, _| site.seen("w4").provision = Fact::Known(ProvisionState::Active),
    ),
    (
        "check-identity",
        "`w1` is unverified: nothing names it",
        |site, _| site.seen("w1").proof = Proof::Unverified(Arc::from("nothing names it")),
    ),
    (
        "check-addresses",
        "`w4` is built with 10.0.0.8, which `w1` has",
        |site, _| {
            // It is built again, but nothing has this one wait for it.
            let own = |address: &str| vec![(Arc::from("oam"), Arc::from(address))].into();
            site.designed("w4").addresses = own("10.0.0.8");
            let holder = Arc::make_mut(site.old.nodes.get_mut("w1").unwrap());
            holder.addresses = own("10.0.0.8");
        },
    ),
    (
        "check-unknown",
        "`w4` could not be observed, and is acted on",
        |site, _| site.seen("w4").provision = Fact::Unknown(Arc::from("dead")),
    ),
    (
        "check-allowed",
        "`w1` is unverified, and nothing allows that",
        |_, plan| change(plan, "w1").unverified = true,
    ),
    (
        "check-allowed",
        "`a1` is not among those of `--adopt`",
        |_, plan| plan.options.adopt = Allowance::default(),
    ),
    ("check-allowed", "needs `--on-drain-timeout`", |_, plan| {
        of(plan, "drain/control/c1").give("on_drain_timeout", OnDrainTimeout::ForceDelete);
    }),
    ("check-allowed", "needs `--node-is-gone`", |_, plan| {
        of(plan, "drain/control/c1").give("node_is_gone", true);
    }),
    ("check-allowed", "needs `--forget`", |_, plan| {
        of(plan, "destroy/control/c1").give("forget", true);
    }),
    ("check-targets", "`w3` is left out", |_, plan| {
        plan.options.targets = these(&["w1"]);
    }),
    (
        "check-targets",
        "`a1` is none of the nodes that the action names",
        |_, plan| {
            plan.request.action = Action::Teardown;
            plan.request.nodes = these(&["w1"]);
        },
    ),
    (
        "check-approvals",
        "rule `destroy` asks for approvals, and the plan does not",
        |site, plan| {
            let rule = ApprovalRule {
                scope: ApprovalScope::Destroy,
                count: 1,
                of: Vec::new(),
            };
            site.guards.policy.approvals = Some(Arc::new(ApprovalPolicy {
                allowed_signers: Arc::from("allowed_signers"),
                rules: vec![rule],
                applier_counts: false,
                recovery: None,
            }));
            plan.approvals.rules_from = Arc::from("r2");
        },
    ),
    (
        "check-approvals",
        "rule `any` lacks 1 approvals, and the plan says 0",
        |_, plan| {
            plan.approvals.given.push(GivenApproval {
                by: Arc::from("ada"),
                expires: Arc::from("2030-06-02"),
            });
            plan.approvals.needed.push(NeededApproval {
                rule: Arc::from("any"),
                count: 1,
                of: vec![Arc::from("bob")],
                recovery: None,
                missing: 0,
            });
        },
    ),
    (
        "check-observed-ids",
        "means member another of etcd cluster `main`",
        |_, plan| {
            let removal = of(plan, "remove-etcd/control/c1");
            let mut members = removal.given().etcd_members().clone();
            members[0].member_id = Arc::from("another");
            removal.give("etcd_members", members);
        },
    ),
    (
        "check-relies-on",
        "of etcd cluster `main`, which the plan does not hold",
        |_, plan| {
            let facts = &mut plan.relies_on;
            facts.retain(|each| !matches!(each.subject, FactSubject::Etcd(_)));
        },
    ),
];

#[test]
fn a_rule_of_several_conditions_finds_a_plan_that_is_broken_for_each() {
    let sound = site();
    let plan = sound.plan();
    let mut problems = Vec::new();
    for (code, what, breaks) in ALSO_BROKEN {
        let (mut site, mut broken) = (sound.clone(), plan.clone());
        breaks(&mut site, &mut broken);
        let found = site.checked(&broken);
        let is_found =
            |finding: &String| finding.starts_with(&format!("{code}: ")) && finding.contains(*what);
        if !found.iter().any(is_found) {
            problems.push(format!("{code} does not find `{what}`, but: {found:#?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_plan_that_deploys_a_machine_without_the_parts_that_are_demanded_is_found_by_one_rule() {
    type Case = (fn(&mut PlanFixture), &'static str);
    let table: [Case; 2] = [
        (
            |site| {
                site.seen("w4").drift = Arc::from([crate::observed::PartDrift {
                    section: Section::Expected,
                    field: Arc::from("expect.memory_gib"),
                    observed: Arc::from("448"),
                    designed: Arc::from("512"),
                }]);
            },
            "expect.memory_gib: 448, designed 512",
        ),
        (
            |site| {
                let drives = crate::design::HardwareValue {
                    name: Arc::from("expect.drives"),
                    value: Arc::from("4"),
                };
                let name = NodeName::from("w4");
                site.guards.expected_elsewhere.insert(name, vec![drives]);
            },
            "expect.drives is demanded, and not expected",
        ),
    ];
    for (differs, why) in table {
        let mut site = site();
        let mut plan = site.plan();
        differs(&mut site);
        assert_eq!(site.checked(&plan), Vec::<String>::new());
        site.guards.policy.demands_expected_hardware = true;
        // Everything else in the forged plan agrees with the policy.
        let demanded = (Arc::from("expected_hardware"), serde_json::json!(true));
        plan.guards.values.extend([demanded]);
        let found = site.checked(&plan);
        let says = format!("`w4` is deployed without the parts that the policy demands: {why}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&says), "{found:?}");
    }
}
