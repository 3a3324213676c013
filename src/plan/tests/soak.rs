//! The soak that an earlier run owes: who has it again, where it stands, and what it keeps from beginning.

use super::leaving::clustered;
use super::*;
use crate::plan::Action;
use crate::record::Join;
use crate::step::StepKind;

/// Machines of one cluster, of which those that are named owe the soak of an earlier run.
fn owing(names: &[&str], owing: &[&str]) -> PlanFixture {
    let mut site = clustered(names);
    site.guards.policy.soak.seconds = 600;
    site.options.allow_redeploy = all();
    for name in names {
        site.record(name).join = Some(Join::Joined);
    }
    for name in owing {
        site.record(name).soaking = Some(RunId::from("run-0"));
    }
    site
}

/// The soaks, each with its nodes and those that have joined before.
fn soaks(plan: &Plan) -> String {
    let soaks = plan.steps.iter();
    let soaks = soaks.filter(|step| step.id.kind == StepKind::Soak);
    let told = soaks.map(|step| {
        let terms = step.given().soak().as_ref().unwrap();
        let names = |nodes: &[NodeName]| {
            nodes
                .iter()
                .map(NodeName::as_str)
                .collect::<Vec<_>>()
                .join(",")
        };
        format!(
            "{}: {} ({})",
            step.id,
            names(&terms.nodes),
            names(&terms.joined)
        )
    });
    told.collect::<Vec<_>>().join("; ")
}

#[test]
fn what_owes_a_soak_has_it_before_the_next_wave_and_though_nothing_else_is_to_do() {
    let mut site = owing(&["a", "b"], &["a"]);
    let plan = site.plan();
    assert_eq!(soaks(&plan), "soak/0: a (a)");
    assert_eq!(needs(&plan, "soak/0"), "prepare-site");
    assert!(needs(&plan, "critical-check").contains("soak/0?"));
    assert!(plan.repeats_soak() && !plan.is_empty());
    assert!(
        plan.warnings
            .iter()
            .any(|text| text.ends_with("is tagged: a"))
    );
    site.edit("b", Section::OperatingSystem);
    let plan = site.plan();
    assert_eq!(soaks(&plan), "soak/0: a (a); soak/all/1: b ()");
    assert_eq!(needs(&plan, "wave/all/1"), "soak/0 start/all");
    // Also if the rest is excluded, and where one machine is built again by name.
    site.options.excludes = these(&["a"]);
    assert_eq!(soaks(&site.plan()), "soak/0: a (a); soak/all/1: b ()");
    site.options.excludes = BTreeSet::new();
    site.request = Request {
        action: Action::Redeploy,
        nodes: these(&["b"]),
        ..Request::default()
    };
    assert_eq!(soaks(&site.plan()), "soak/0: a (a); soak/all/1: b ()");
}

#[test]
fn a_soak_is_owed_by_machines_that_are_in_service_under_guards_that_have_one() {
    type Does = fn(&mut PlanFixture);
    let table: [(&str, Does, &str); 10] = [
        (
            "the guards have none",
            |site| site.guards.policy.soak.seconds = 0,
            "",
        ),
        (
            "it left the design",
            |site| {
                site.leave("a");
                site.options.allow_destroy = all();
            },
            "",
        ),
        (
            "it is built again",
            |site| site.edit("a", Section::OperatingSystem),
            "soak/all/1: a ()",
        ),
        (
            "it is retired",
            |site| site.record("a").retired = Some(Arc::from("old")),
            "",
        ),
        (
            "it is in maintenance",
            |site| site.record("a").maintenance = Some(Arc::from("disk")),
            "",
        ),
        ("it is reserved", |site| site.reserve("a"), ""),
        (
            "it failed",
            |site| {
                let record = site.record("a");
                record.phase = Phase::Failed;
                record.digests.clear();
            },
            "soak/all/1: a ()",
        ),
        (
            "it is off, and is switched on",
            |site| {
                site.seen("a").power = Fact::Known(crate::lifecycle::PowerState::Off);
            },
            "soak/all/1: a (a)",
        ),
        (
            "it has not joined yet",
            |site| {
                site.record("a").join = Some(Join::Awaited { since: 0 });
                if let Fact::Known(Some(node)) = &mut site.seen("a").cluster {
                    node.ready = false;
                }
            },
            "soak/all/1: a ()",
        ),
        (
            "it joins none",
            |site| site.record("a").join = None,
            "soak/0: a ()",
        ),
    ];
    for (what, does, expected) in table {
        let mut site = owing(&["a", "b"], &["a"]);
        does(&mut site);
        let plan = site.plan();
        assert_eq!(soaks(&plan), expected, "{what}: {:#?}", ids(&plan));
    }
}

#[test]
fn a_plan_that_was_made_before_a_soak_failed_is_stale() {
    let mut site = owing(&["a", "b"], &[]);
    site.edit("b", Section::OperatingSystem);
    let before = site.plan().records_digest;
    site.record("a").soaking = Some(RunId::from("run-0"));
    let now = crate::plan::records_digest(&[], &site.records);
    assert_ne!(now, crate::plan::records_digest(&[], &BTreeMap::new()));
    assert_ne!(site.plan().records_digest, before);
}
