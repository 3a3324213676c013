//! How far each change goes with its machine.

use super::*;
use crate::design::Rung;
use crate::plan::{Action, PlanEffect};

/// A node for each kind of change of a site, with its rung.
fn site() -> (PlanFixture, [(&'static str, Option<Rung>); 7]) {
    let mut site = PlanFixture::settled(&["image", "labels", "off", "old", "rack", "raid", "same"]);
    site.edit("image", Section::OperatingSystem);
    site.edit("labels", Section::Labels);
    site.seen("off").power = Fact::Known(PowerState::Off);
    site.leave("old");
    site.edit("rack", Section::Inventory);
    site.edit("raid", Section::Storage);
    site.after
        .nodes
        .insert(NodeName::from("new"), Arc::new(node("new")));
    site.see("new", ProvisionState::Available);
    site.options.allow_redeploy = all();
    site.options.allow_destroy = all();
    let rungs = [
        ("image", Some(Rung::Wipe)),
        ("labels", Some(Rung::Live)),
        ("new", None),
        ("off", Some(Rung::Live)),
        ("old", Some(Rung::Wipe)),
        ("rack", Some(Rung::Record)),
        ("raid", Some(Rung::Wipe)),
    ];
    (site, rungs)
}

fn rungs(plan: &Plan) -> Vec<(&str, Option<Rung>)> {
    let changes = plan.changes.iter();
    changes
        .map(|change| (change.node.as_str(), change.rung))
        .collect()
}

#[test]
fn each_change_has_the_rung_of_what_is_done() {
    let (mut site, expected) = site();
    let plan = site.plan();
    assert_eq!(rungs(&plan), expected);
    assert_eq!(plan.summary.highest_rung, Some(Rung::Wipe));

    // Blocked changes keep theirs, and count for nothing.
    site.options.allow_redeploy = Allowance::default();
    site.options.allow_destroy = Allowance::default();
    site.options.skip_blocked = true;
    let plan = site.plan();
    assert_eq!(rungs(&plan), expected);
    assert_eq!(plan.summary.highest_rung, Some(Rung::Live));
}

#[test]
fn a_system_that_is_installed_again_beside_other_disks_is_a_rung_below_a_wipe() {
    let mut site = PlanFixture::settled(&["n"]);
    site.edit("n", Section::OperatingSystem);
    site.options.allow_redeploy = all();
    let wipe = site.plan();
    site.options.leaving.preserve_local_storage = true;
    let disks = "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}, sdb: {}}}}";
    let disks = Arc::new(crate::design::fixture::value(disks));
    site.designed("n")
        .sections
        .insert(Section::Storage, disks.clone());
    let old = Arc::make_mut(site.old.nodes.get_mut("n").unwrap());
    old.sections.insert(Section::Storage, disks);
    let keep = site.plan();
    let rung = |plan: &Plan| plan.changes[0].rung;
    assert_eq!(
        (rung(&wipe), rung(&keep)),
        (Some(Rung::Wipe), Some(Rung::Reinstall))
    );

    // An approval of the lower rung covers no higher one.
    let adds = |plan: &Plan, reviewed: &Plan| {
        let adds = PlanEffect::of(plan).adds_to(&PlanEffect::of(reviewed));
        let mut adds = adds.iter().map(ToString::to_string);
        adds.any(|line| line == "n: it goes as far as `wipe`, not `reinstall`")
    };
    assert!(adds(&wipe, &keep));
    assert!(!adds(&keep, &wipe));
}

#[test]
fn an_action_has_the_rung_of_its_step() {
    let table = [
        (Action::PowerOff, Some(Rung::Restart)),
        (Action::PowerOn, Some(Rung::Live)),
        (Action::SetMaintenance, Some(Rung::Live)),
        (Action::Forget, Some(Rung::Record)),
        (Action::Redeploy, Some(Rung::Wipe)),
        (Action::Teardown, Some(Rung::Wipe)),
    ];
    for (action, rung) in table {
        let mut site = PlanFixture::settled(&["n"]);
        site.request = Request {
            action,
            nodes: these(&["n"]),
            ..Request::default()
        };
        let plan = site.plan();
        assert_eq!(rungs(&plan), [("n", rung)], "{action}");
    }
}
