//! How far each change goes with its machine, and how far it may.

use super::*;
use crate::design::{BlastRadius, DisruptionPolicy, Placement, Rung};
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
fn a_disk_that_the_design_lays_out_anew_is_not_kept_as_it_was() {
    let kept = "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}, sdb: {}}}}";
    for (design, changed) in [
        (kept, None),
        (
            "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}, sdb: {labels: {data: true}}}}}",
            Some("sdb"),
        ),
        (
            "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}, sdb: {}, sdc: {}}}}",
            Some("sdc"),
        ),
        // That of the system is written in any case.
        (
            "{storage: {physical_devices: {sda: {labels: {bootdrive: true, fast: true}}, sdb: {}}}}",
            None,
        ),
    ] {
        let mut site = PlanFixture::settled(&["n"]);
        site.edit("n", Section::OperatingSystem);
        site.options.allow_redeploy = all();
        site.options.leaving.preserve_local_storage = true;
        let disks = |text| Arc::new(crate::design::fixture::value(text));
        site.designed("n")
            .sections
            .insert(Section::Storage, disks(design));
        let old = Arc::make_mut(site.old.nodes.get_mut("n").unwrap());
        old.sections.insert(Section::Storage, disks(kept));
        let blocked = site.plan().changes[0].blocked.clone();
        let reason = changed.map(|disk| {
            format!(
                "its design lays out {disk} anew, which `--preserve-local-storage` would leave as it is"
            )
        });
        assert_eq!(
            blocked.map(|block| block.reason.to_string()),
            reason,
            "{design}"
        );
    }
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

/// A site with a node that differs in some sections, under a policy.
fn held_to(default: Rung, by_class: &[(Section, Rung)], differs: &[Section]) -> PlanFixture {
    let mut site = PlanFixture::settled(&["n"]);
    for section in differs {
        site.edit("n", *section);
    }
    site.shown = Section::ALL.to_vec();
    site.guards.policy.disruption = DisruptionPolicy {
        default,
        by_class: by_class.iter().copied().collect(),
    };
    site.old_guards = site.guards.clone();
    site
}

/// The flag that a change waits for; `None`: it is carried out.
fn flag(plan: &Plan) -> Option<&str> {
    let block = plan.changes[0].blocked.as_ref();
    block.map(|block| block.flag.as_deref().unwrap_or_default())
}

#[test]
fn a_change_that_goes_further_than_its_policy_waits_for_the_flag_of_its_rung() {
    use Rung as R;
    use Section as S;
    type Row = (
        Rung,
        &'static [(Section, Rung)],
        &'static [Section],
        Option<&'static str>,
    );
    let table: [Row; 9] = [
        (
            R::Live,
            &[],
            &[S::OperatingSystem],
            Some("--allow-redeploy n"),
        ),
        (
            R::Live,
            &[(S::OperatingSystem, R::Wipe)],
            &[S::OperatingSystem],
            None,
        ),
        (
            R::Live,
            &[(S::OperatingSystem, R::Reinstall)],
            &[S::OperatingSystem],
            Some("--allow-redeploy n"),
        ),
        (R::Wipe, &[], &[S::Storage], None),
        (
            R::Wipe,
            &[(S::Storage, R::Live)],
            &[S::Storage],
            Some("--allow-redeploy n"),
        ),
        // The lowest of what differs counts.
        (
            R::Live,
            &[(S::OperatingSystem, R::Wipe)],
            &[S::OperatingSystem, S::Storage],
            Some("--allow-redeploy n"),
        ),
        (
            R::Live,
            &[(S::OperatingSystem, R::Wipe)],
            &[S::OperatingSystem, S::Inventory],
            None,
        ),
        (R::Record, &[], &[S::Labels], Some("--allow-restart n")),
        (R::Record, &[], &[S::Inventory], None),
    ];
    for (default, by_class, differs, expected) in table {
        let plan = held_to(default, by_class, differs).plan();
        assert_eq!(flag(&plan), expected, "{default} {by_class:?} {differs:?}");
    }
    let plan = held_to(R::Live, &[(S::Storage, R::Restart)], &[S::Storage]).plan();
    let block = plan.changes[0].blocked.as_ref().unwrap();
    assert_eq!(
        &*block.reason,
        "it would be torn down and built again, and Policy `disruption` allows `restart`"
    );
}

#[test]
fn a_difference_that_cannot_be_shown_is_held_to_the_lowest_rung() {
    let allowed = [(Section::OperatingSystem, Rung::Wipe)];
    let mut site = held_to(Rung::Live, &allowed, &[Section::OperatingSystem]);
    assert_eq!(flag(&site.plan()), None);
    site.shown.clear();
    assert_eq!(flag(&site.plan()), Some("--allow-redeploy n"));
}

#[test]
fn a_flag_allows_its_rung_and_those_below_and_none_above() {
    type OfOptions = fn(&mut Options) -> &mut Allowance;
    let differs = [Section::OperatingSystem];
    let flags: [(OfOptions, Rung); 3] = [
        (|options| &mut options.allow_restart, Rung::Restart),
        (|options| &mut options.allow_reinstall, Rung::Reinstall),
        (|options| &mut options.allow_redeploy, Rung::Wipe),
    ];
    for (allowance, most) in flags {
        for (keeps, rung) in [(true, Rung::Reinstall), (false, Rung::Wipe)] {
            let mut site = held_to(Rung::Live, &[], &differs);
            let disks = "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}}}}";
            let disks = Arc::new(crate::design::fixture::value(disks));
            let old = Arc::make_mut(site.old.nodes.get_mut("n").unwrap());
            old.sections.insert(Section::Storage, disks);
            site.options.leaving.preserve_local_storage = keeps;
            *allowance(&mut site.options) = all();
            let plan = site.plan();
            assert_eq!(plan.changes[0].rung, Some(rung));
            assert_eq!(
                plan.changes[0].blocked.is_none(),
                rung <= most,
                "{rung} {most}"
            );
        }
        let mut site = held_to(Rung::Record, &[], &[Section::Labels]);
        *allowance(&mut site.options) = all();
        assert_eq!(flag(&site.plan()), None);
    }
}

#[test]
fn a_policy_that_allows_a_rung_tears_nothing_down_that_has_left_the_design() {
    let mut site = held_to(Rung::Wipe, &[], &[]);
    site.leave("n");
    assert_eq!(flag(&site.plan()), Some("--allow-destroy n"));
}

#[test]
fn a_commit_that_reaches_more_than_it_may_is_refused() {
    let mut site = PlanFixture::settled(&["a", "b", "c", "d"]);
    for (name, rack) in [("a", "r1"), ("b", "r1"), ("c", "r2")] {
        site.edit(name, Section::OperatingSystem);
        site.designed(name).rack = Some(Arc::from(rack));
    }
    site.edit("d", Section::Labels);
    site.options.allow_redeploy = all();
    let reached = |site: &mut PlanFixture, rung, machines, racks| {
        let most = BlastRadius {
            machines,
            racks,
            etcd_members: None,
        };
        site.guards.policy.blast_radius = [(rung, most)].into();
        let plan = site.plan();
        assert_eq!(
            plan.is_refused_for_reach(),
            !plan.guards.exceeded.is_empty()
        );
        let exceeded = plan.guards.exceeded.iter().map(ToString::to_string);
        exceeded.collect::<Vec<String>>()
    };
    assert_eq!(reached(&mut site, Rung::Wipe, Some(3), Some(2)), [""; 0]);
    assert_eq!(
        reached(&mut site, Rung::Restart, Some(2), Some(1)),
        [
            "3 machines on rung `restart` or above, and at most 2",
            "2 racks on rung `restart` or above, and at most 1"
        ]
    );
    assert_eq!(
        reached(&mut site, Rung::Live, Some(3), None),
        ["4 machines on rung `live` or above, and at most 3"]
    );
    // What is left out is not reached.
    site.options.excludes = these(&["d"]);
    assert_eq!(reached(&mut site, Rung::Live, Some(3), None), [""; 0]);
}

#[test]
fn machines_that_a_commit_moves_to_one_rack_are_counted_if_they_stand() {
    let names = ["a", "b", "c"];
    let mut site = PlanFixture::settled(&names);
    for (name, rack) in names.into_iter().zip(["r1", "r2", "r3"]) {
        site.edit(name, Section::OperatingSystem);
        site.designed(name).rack = Some(Arc::from("r9"));
        let racks = [Arc::from(rack)].into();
        let place = Placement {
            racks,
            ..Placement::default()
        };
        site.guards.policy.elsewhere.insert(name.into(), place);
    }
    let most = BlastRadius {
        racks: Some(2),
        ..BlastRadius::default()
    };
    site.guards.policy.blast_radius = [(Rung::Wipe, most)].into();
    site.options.allow_redeploy = all();
    let plan = site.plan();
    let exceeded = plan.guards.exceeded.iter().map(ToString::to_string);
    assert_eq!(
        exceeded.collect::<Vec<String>>(),
        ["3 racks on rung `wipe` or above, and at most 2"]
    );
}
