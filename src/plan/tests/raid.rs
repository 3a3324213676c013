//! RAID volumes that differ: the redeploy that makes them, what holds it back, and what only reports.

use super::service::{blocked, enforce, kinds, shows, steps_of};
use super::*;
use crate::design::{DisruptionPolicy, HOT_SPARES, Rung, VOLUMES};
use crate::observed::{Capability, FixedValue};
use crate::plan::Action;
use crate::step::StepKind;

const RAID: &str = "{raid: {volumes: [{name: root, level: RAID1, drives: 2}], hot_spares: 1}}";
const DESIGNED: &str = "RAID1 of 2 drives";

/// A machine whose document newly enforces volumes.
fn enforced() -> PlanFixture {
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Raid, RAID);
    site.edit("n", Section::Raid);
    site.shown = vec![Section::Raid];
    site
}

/// The same, and it shows another volume.
fn differing() -> PlanFixture {
    let mut site = enforced();
    shows_other(&mut site);
    site
}

fn shows_other(site: &mut PlanFixture) {
    let values = ["RAID0 of 2 drives", DESIGNED];
    shows(site, "n", Section::Raid, VOLUMES, values);
}

fn reasons(plan: &Plan) -> String {
    let reasons = &plan.changes[0].reasons;
    reasons.join("\n")
}

/// The values that the deploy of a plan makes.
fn made(plan: &Plan) -> Vec<(String, Option<String>, String)> {
    let steps = steps_of(plan, "n");
    let deploy = steps.iter().find(|step| step.id.kind == StepKind::Deploy);
    let settings = deploy.unwrap().given().settings().iter();
    let text = |text: &Arc<str>| text.to_string();
    settings
        .map(|each| {
            (
                text(&each.name),
                each.before.as_ref().map(text),
                text(&each.value),
            )
        })
        .collect()
}

#[test]
fn volumes_that_differ_are_made_by_a_redeploy_on_rung_wipe_once_it_is_allowed() {
    let mut site = differing();
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!(
        (change.kind, change.rung),
        (ChangeKind::Redeploy, Some(Rung::Wipe))
    );
    let why = "it would be torn down and built again";
    assert_eq!(blocked(&plan), Some(why));
    let flag = change.blocked.as_ref().unwrap().flag.as_deref();
    assert_eq!(flag, Some("--allow-redeploy n"));
    assert!(plan.steps.is_empty());
    assert!(reasons(&plan).contains("raid.volumes: RAID0 of 2 drives, designed RAID1 of 2 drives"));

    // No lower rung is enough, also if the policy has one for the section.
    for rung in Rung::ALL {
        let mut site = differing();
        site.options.allow_reinstall = all();
        site.options.allow_restart = all();
        site.guards.policy.disruption = DisruptionPolicy {
            default: Rung::Live,
            by_class: [(Section::Raid, rung)].into(),
        };
        site.old_guards = site.guards.clone();
        assert_eq!(
            blocked(&site.plan()).is_none(),
            rung == Rung::Wipe,
            "{rung}"
        );
    }

    site.options.allow_redeploy = all();
    let plan = site.plan();
    assert!(kinds(&plan, "n").ends_with("destroy prepare deploy"));
    let before = Some("RAID0 of 2 drives".to_owned());
    assert_eq!(
        made(&plan),
        [
            (HOT_SPARES.to_owned(), None, "1".to_owned()),
            (VOLUMES.to_owned(), before, DESIGNED.to_owned())
        ]
    );
}

#[test]
fn volumes_that_are_as_designed_or_not_enforced_any_more_are_only_recorded() {
    let mut site = enforced();
    site.seen("n").compared = Arc::new([Section::Raid]);
    let plan = site.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Record);
    assert_eq!(kinds(&plan, "n"), "record");
    let record = steps_of(&plan, "n")[0];
    assert_eq!(*record.given().verified(), [Section::Raid]);
    assert!(reasons(&plan).contains("its RAID volumes are as designed"));

    let mut site = PlanFixture::settled(&["n"]);
    site.edit("n", Section::Raid);
    site.shown = vec![Section::Raid];
    let plan = site.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Record);
    assert!(reasons(&plan).contains("not enforced any more, and stay as they are"));
}

#[test]
fn volumes_that_are_not_shown_are_told_and_nothing_is_wiped_for_them() {
    let mut site = enforced();
    site.options.allow_redeploy = all();
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!((change.kind, change.shown_only), (ChangeKind::Drift, true));
    assert!(plan.steps.is_empty());
    assert!(reasons(&plan).contains("what is not shown is not compared"));
}

#[test]
fn volumes_that_changed_by_themselves_are_shown_and_left_to_a_redeploy_that_is_asked_for() {
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Raid, RAID);
    shows_other(&mut site);
    site.options.allow_redeploy = all();
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!((change.kind, change.shown_only), (ChangeKind::Drift, true));
    assert!(plan.steps.is_empty());
    assert!(reasons(&plan).contains("RAID volumes of a deployed machine are only repaired by a redeploy: `trueup apply redeploy n`"));

    site.request = Request {
        action: Action::Redeploy,
        nodes: these(&["n"]),
        ..Request::default()
    };
    assert_eq!(made(&site.plan()).len(), 2);

    // What is only reported is shown, and made by nothing.
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Expected, RAID);
    let values = ["RAID0 of 2 drives", DESIGNED];
    shows(&mut site, "n", Section::Expected, VOLUMES, values);
    assert!(site.plan().changes[0].shown_only);
    site.edit("n", Section::OperatingSystem);
    site.options.allow_redeploy = all();
    let plan = site.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Redeploy);
    assert!(made(&plan).is_empty());
}

#[test]
fn a_service_sets_no_volumes() {
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Raid, RAID);
    enforce(&mut site, "n", Section::Firmware, "{bios: {Turbo: true}}");
    shows_other(&mut site);
    let values = ["false", "true"];
    shows(&mut site, "n", Section::Firmware, "bios.Turbo", values);
    site.options.allow_restart = all();
    let plan = site.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Service);
    let steps = steps_of(&plan, "n");
    let settings = steps.iter().flat_map(|step| step.given().settings());
    let names: Vec<&str> = settings.map(|setting| &*setting.name).collect();
    assert_eq!(names, ["bios.Turbo"]);
}

#[test]
fn disks_that_are_kept_and_volumes_that_are_made_exclude_each_other() {
    let site = |differs: bool| {
        let mut site = match differs {
            true => differing(),
            false => enforced(),
        };
        site.edit("n", Section::OperatingSystem);
        site.shown = vec![Section::Raid, Section::OperatingSystem];
        site.options.allow_redeploy = all();
        site.options.leaving.preserve_local_storage = true;
        let disks = "{storage: {physical_devices: {sda: {labels: {bootdrive: true}}, sdb: {}}}}";
        let disks = Arc::new(crate::design::fixture::value(disks));
        let old = Arc::make_mut(site.old.nodes.get_mut("n").unwrap());
        old.sections.insert(Section::Storage, disks.clone());
        site.designed("n").sections.insert(Section::Storage, disks);
        site
    };
    let plan = site(true).plan();
    let why = "raid.volumes is not as designed, and making volumes erases all disks, which `--preserve-local-storage` keeps";
    assert_eq!(blocked(&plan), Some(why));

    // What differs without an edit holds no new system back.
    let mut drifted = site(true);
    let recorded = drifted.designed("n").digests.get(&Section::Raid).copied();
    drifted
        .record("n")
        .digests
        .insert(Section::Raid, recorded.unwrap());
    let plan = drifted.plan();
    assert_eq!(blocked(&plan), None);
    assert!(made(&plan).is_empty());
    assert!(reasons(&plan).contains("raid.volumes is not as designed, and stays as it is"));

    // Volumes that are as designed, or of which nothing is shown, are no work: only the disk of the system is erased.
    for compared in [true, false] {
        let mut site = site(false);
        if compared {
            site.seen("n").compared = Arc::new([Section::Raid]);
        }
        let plan = site.plan();
        assert_eq!(blocked(&plan), None);
        assert_eq!(plan.changes[0].rung, Some(Rung::Reinstall));
        assert!(made(&plan).is_empty());
        assert!(reasons(&plan).contains("its RAID volumes stay as they are"));
    }
}

#[test]
fn a_machine_that_is_created_gets_its_volumes_where_its_backend_makes_them() {
    let site = || {
        let mut site = enforced();
        site.bare("n");
        site
    };
    let plan = site().plan();
    let change = &plan.changes[0];
    assert_eq!((change.kind, blocked(&plan)), (ChangeKind::Create, None));
    assert_eq!(made(&plan).len(), 2);
    assert!(reasons(&plan).contains("is deployed with raid.volumes: RAID1 of 2 drives"));

    let mut without = site();
    let able = [Capability::Prepare, Capability::Deploy, Capability::Wipe];
    without.seen("n").capabilities = able.into();
    let why = "its backend cannot make RAID volumes: with `mode: report` their Hardware document asks for none";
    assert_eq!(blocked(&without.plan()), Some(why));

    let mut fixed = site();
    fixed.seen("n").fixed = Arc::from([FixedValue {
        name: Arc::from(HOT_SPARES),
        reason: Arc::from("it makes no hot spares"),
    }]);
    let why = "`raid.hot_spares` cannot be changed: it makes no hot spares";
    assert_eq!(blocked(&fixed.plan()), Some(why));

    let mut twice = site();
    let steps =
        "{platform: {deploy_steps: [{interface: raid, step: apply_configuration, priority: 90}]}}";
    let steps = Arc::new(crate::design::fixture::value(steps));
    let node = twice.designed("n");
    node.sections.insert(Section::OperatingSystem, steps);
    let plan = twice.plan();
    assert!(
        blocked(&plan)
            .unwrap()
            .contains("one of the two makes the volumes")
    );
}

#[test]
fn a_plan_that_makes_other_volumes_or_makes_them_on_disks_that_it_keeps_is_found() {
    let mut site = differing();
    site.options.allow_redeploy = all();
    let plan = site.plan();
    assert_eq!(site.checked(&plan), [""; 0]);
    let settings = |values: &[(&str, &str)]| crate::step::of_settings(values)["settings"].take();
    let other = settings(&[(HOT_SPARES, "1"), (VOLUMES, "RAID0 of 2 drives")]);
    let table = [
        ("settings", other),
        ("settings", settings(&[(VOLUMES, DESIGNED)])),
        ("settings", serde_json::json!([])),
        ("preserve_local_storage", serde_json::json!(true)),
    ];
    for (name, value) in table {
        let mut forged = plan.clone();
        let mut steps = forged.steps.iter_mut();
        let deploy = steps.find(|step| step.id.kind == StepKind::Deploy);
        deploy.unwrap().give(name, value.clone());
        let found = site.checked(&forged).join("\n");
        let says = match name {
            "settings" => "makes other volumes than Hardware documents enforce",
            _ => "makes volumes on disks that it keeps",
        };
        assert!(found.contains(says), "{value}: {found}");
    }
}
