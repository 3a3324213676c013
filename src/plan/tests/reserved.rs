//! Machines that persons work on are left alone, whatever a plan wants.

use super::*;
use crate::plan::{Action, Current, Recorded, stale};

const WHO: &str =
    "is reserved by Ada until 1970-01-01T01:00:00Z: fan; `trueup release n` ends that";

fn acts_on(plan: &Plan, node: &str) -> bool {
    plan.acting_steps().contains_key(&NodeName::from(node))
}

type Due = fn(&mut PlanFixture);

/// Every way in which something is to be done to a machine by an update.
const DUE: &[(&str, Due)] = &[
    ("built", |site| site.bare("n")),
    ("rebuilt", |site| site.edit("n", Section::OperatingSystem)),
    ("serviced", |site| site.edit("n", Section::Firmware)),
    ("relabelled", |site| site.edit("n", Section::Labels)),
    ("recorded", |site| site.edit("n", Section::Inventory)),
    ("switched on", |site| {
        site.seen("n").power = Fact::Known(PowerState::Off);
    }),
    ("destroyed", |site| site.leave("n")),
    ("adopted", |site| {
        site.records.remove("n");
    }),
    ("retired", |site| {
        let entry = crate::design::Retirement {
            selector: named(&["n"]).remove(0),
            reason: Arc::from("old"),
            from: None,
            mark: mark(),
        };
        site.guards.retirements = vec![entry];
    }),
];

#[test]
fn an_update_leaves_a_reserved_machine_alone_and_does_the_rest() {
    for (what, due) in DUE {
        let mut site = PlanFixture::settled(&["m", "n"]);
        site.bare("m");
        site.options.allow_redeploy = all();
        site.options.allow_destroy = all();
        site.options.adopt = all();
        due(&mut site);
        let free = site.plan();
        let is_own = |plan: &Plan| {
            let mut steps = plan.steps.iter();
            steps.any(|step| {
                step.id
                    .node
                    .as_ref()
                    .is_some_and(|node| node.as_str() == "n")
            })
        };
        assert!(is_own(&free), "{what}: nothing was due");
        site.reserve("n");
        let plan = site.plan();
        assert!(!is_own(&plan), "{what}: {:?}", ids(&plan));
        assert!(acts_on(&plan, "m"), "{what}");
        assert!(!plan.is_blocked(), "{what}");
        let mut changes = plan.changes.iter();
        let change = changes.find(|change| change.node.as_str() == "n").unwrap();
        assert!(change.shown_only, "{what}: {change:?}");
        assert!(
            change.reasons.iter().any(|why| **why == *WHO),
            "{what}: {change:?}"
        );
    }
}

#[test]
fn an_action_that_names_a_reserved_machine_is_blocked_and_one_that_only_looks_is_not() {
    let mut site = PlanFixture::settled(&["m", "n"]);
    site.reserve("n");
    for action in [
        Action::Redeploy,
        Action::Teardown,
        Action::PowerOff,
        Action::SetMaintenance,
        Action::Forget,
        Action::Retire,
    ] {
        site.request = Request {
            action,
            nodes: [Arc::from("n")].into(),
            ..Request::default()
        };
        let plan = site.plan();
        let block = plan.changes[0].blocked.as_ref();
        let block = block.unwrap_or_else(|| panic!("{action} is not blocked"));
        assert_eq!((&*block.reason, &block.flag), (WHO, &None), "{action}");
        assert!(!acts_on(&plan, "n"), "{action}");
    }
}

#[test]
fn a_machine_that_is_left_alone_counts_in_its_group_as_one_in_maintenance_does() {
    let mut maintained = PlanFixture::settled(&["m", "n"]);
    maintained.bare("m");
    maintained.edit("n", Section::OperatingSystem);
    maintained.options.allow_redeploy = all();
    let mut reserved = maintained.clone();
    maintained.seen("n").maintenance = Some(Arc::from("fan"));
    reserved.reserve("n");
    let judged = |site: &PlanFixture| {
        let plan = site.plan();
        let counts = plan
            .changes
            .iter()
            .map(|change| (change.node.clone(), change.counts_as));
        (counts.collect::<Vec<_>>(), plan.groups.clone(), ids(&plan))
    };
    assert_eq!(judged(&reserved), judged(&maintained));
}

#[test]
fn a_plan_of_before_is_stale_and_names_the_machine() {
    let mut site = PlanFixture::settled(&["m", "n"]);
    site.bare("n");
    let plan = site.plan();
    let reasons = |site: &PlanFixture| -> Vec<String> {
        let now = Current {
            site_digest: &site.site_digest,
            guards: &site.guards,
            recorded: Recorded {
                base_run: site.base.as_ref().map(|base| &base.run),
                records: &site.records,
                reservations: &site.reservations,
            },
            today: "2030-06-01",
            observations: site.observations.as_ref(),
        };
        stale(&plan, &now).iter().map(ToString::to_string).collect()
    };
    site.reserve("m");
    assert_eq!(reasons(&site), [""; 0]);
    site.reserve("n");
    assert_eq!(reasons(&site), [format!("`n` {WHO}")]);
}
