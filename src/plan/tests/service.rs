//! Firmware and settings that differ: the service of a machine, what holds it back, and what only reports.

use super::leaving::{clustered, with_etcd};
use super::*;
use crate::design::{DisruptionPolicy, Rung, Share};
use crate::lifecycle::PowerState;
use crate::observed::{Capability, FixedValue, LocalData, NodePods, PartDrift};
use crate::step::StepKind;

/// The values that a node is to have by Hardware documents.
pub(super) fn enforce(site: &mut PlanFixture, name: &str, section: Section, values: &str) {
    let fields = Arc::new(crate::design::fixture::value(values));
    site.designed(name).sections.insert(section, fields.clone());
    let old = Arc::make_mut(site.old.nodes.get_mut(name).unwrap());
    old.sections.insert(section, fields);
}

/// Has its controller show another value than the designed one.
pub(super) fn shows(
    site: &mut PlanFixture,
    name: &str,
    section: Section,
    field: &str,
    values: [&str; 2],
) {
    let [observed, designed] = values.map(Arc::from);
    let part = PartDrift {
        section,
        field: Arc::from(field),
        observed,
        designed,
    };
    let seen = site.seen(name);
    seen.drift = seen.drift.iter().cloned().chain([part]).collect();
}

const BIOS: &str = "{firmware: {bios: {version: '2.10'}}, bios: {Turbo: true}}";

fn allowed(site: &mut PlanFixture) {
    site.options.allow_restart = all();
}

/// The steps on a node, in their order.
pub(super) fn steps_of<'p>(plan: &'p Plan, node: &str) -> Vec<&'p Step> {
    let steps = plan.steps.iter();
    let of_node = |step: &&Step| {
        let of = step.id.node.as_ref();
        of.is_some_and(|of| of.as_str() == node)
    };
    steps.filter(of_node).collect()
}

pub(super) fn kinds(plan: &Plan, node: &str) -> String {
    let kinds = steps_of(plan, node);
    let kinds: Vec<&str> = kinds.iter().map(|step| step.id.kind.as_str()).collect();
    kinds.join(" ")
}

pub(super) fn blocked(plan: &Plan) -> Option<&str> {
    let block = plan.changes[0].blocked.as_ref();
    block.map(|block| &*block.reason)
}

/// A site of one node whose machine shows another value than is enforced.
fn differing() -> PlanFixture {
    let mut site = clustered(&["n"]);
    enforce(&mut site, "n", Section::Firmware, BIOS);
    shows(
        &mut site,
        "n",
        Section::Firmware,
        "bios.Turbo",
        ["false", "true"],
    );
    site
}

#[test]
fn a_value_that_differs_is_set_by_a_service_and_no_other() {
    let mut site = differing();
    allowed(&mut site);
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!(
        (
            change.kind,
            change.rung,
            change.destructive,
            change.disks.len()
        ),
        (ChangeKind::Service, Some(Rung::Restart), false, 0)
    );
    assert_eq!(kinds(&plan, "n"), "drain service await-ready uncordon");
    let service = steps_of(&plan, "n")[1].given();
    let settings: Vec<_> = service.settings().iter().collect();
    assert_eq!(settings.len(), 1, "{settings:?}");
    assert_eq!(settings[0].before.as_deref(), Some("false"));
    assert_eq!(*service.runbook(), None);

    // What sets it in the place of its settings is a part of what is reviewed.
    site.seen("n").runbook = Some(Arc::from("CUSTOM_DELL"));
    let with_runbook = site.plan();
    let service = steps_of(&with_runbook, "n")[1].given();
    assert_eq!(service.runbook().as_deref(), Some("CUSTOM_DELL"));
    let mut reasons = with_runbook.changes[0].reasons.iter();
    assert!(reasons.any(|reason| **reason == *"set by runbook `CUSTOM_DELL`"));
    let effect = |plan| crate::plan::PlanEffect::of(plan).digest();
    assert_ne!(effect(&with_runbook), effect(&plan));

    // A machine that is in no cluster is only restarted.
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Firmware, BIOS);
    shows(
        &mut site,
        "n",
        Section::Firmware,
        "firmware.bios",
        ["2.9", "2.10"],
    );
    allowed(&mut site);
    assert_eq!(kinds(&site.plan(), "n"), "service");
}

#[test]
fn the_checker_finds_a_service_by_another_runbook_than_was_observed() {
    let mut site = differing();
    allowed(&mut site);
    site.seen("n").runbook = Some(Arc::from("CUSTOM_DELL"));
    let mut plan = site.plan();
    assert_eq!(site.checked(&plan), Vec::<String>::new());
    for runbook in [Some("CUSTOM_OTHER"), None] {
        let mut steps = plan.steps.iter_mut();
        let service = steps
            .find(|step| step.id.kind == StepKind::Service)
            .unwrap();
        service.give("runbook", runbook);
        let found = site.checked(&plan);
        let says = "is not done by the runbook that its provisioner has for it";
        assert!(
            found.iter().any(|each| each.contains(says)),
            "{runbook:?}: {found:?}"
        );
    }
}

/// That a value which is not shown is told, and that nothing is done for it.
#[track_caller]
fn is_told_and_not_set(plan: &Plan) {
    let change = &plan.changes[0];
    assert_eq!((change.kind, change.shown_only), (ChangeKind::Drift, true));
    assert!(change.reasons[0].contains("is neither compared nor set"));
    assert!(plan.steps.is_empty(), "{plan:#?}");
}

#[test]
fn an_edited_document_sets_what_differs_and_records_what_is_as_designed() {
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Firmware, BIOS);
    site.edit("n", Section::Firmware);
    site.shown = vec![Section::Firmware];
    allowed(&mut site);
    // A value that is not shown is told, and nothing is restarted for it.
    is_told_and_not_set(&site.plan());

    let mut one = PlanFixture::settled(&["n"]);
    enforce(&mut one, "n", Section::Firmware, BIOS);
    one.edit("n", Section::Firmware);
    one.shown = vec![Section::Firmware];
    shows(
        &mut one,
        "n",
        Section::Firmware,
        "bios.Turbo",
        ["false", "true"],
    );
    allowed(&mut one);
    let plan = one.plan();
    let settings = steps_of(&plan, "n")[0].given().settings();
    let names: Vec<&str> = settings.iter().map(|each| &*each.name).collect();
    assert_eq!(names, ["bios.Turbo"]);

    site.seen("n").compared = Arc::new([Section::Firmware]);
    let plan = site.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Record);
    let record = steps_of(&plan, "n")[0];
    assert_eq!(record.id.kind, StepKind::Record);
    assert_eq!(*record.given().verified(), [Section::Firmware]);
}

#[test]
fn what_is_enforced_and_not_shown_is_told_however_often_the_rest_was_applied() {
    let mut site = PlanFixture::settled(&["n"]);
    enforce(&mut site, "n", Section::Firmware, BIOS);
    site.shown = vec![Section::Firmware];
    allowed(&mut site);
    is_told_and_not_set(&site.plan());
    site.seen("n").fixed = Arc::new([FixedValue {
        name: "bios.Turbo".into(),
        reason: "its BIOS has no attribute `Turbo`".into(),
    }]);
    // What can never be set, such as a misspelt attribute, is refused.
    let plan = site.plan();
    assert_eq!(
        blocked(&plan),
        Some("`bios.Turbo` cannot be changed: its BIOS has no attribute `Turbo`")
    );
    assert_eq!(kinds(&plan, "n"), "");
    site.seen("n").fixed = Arc::default();
    // It is told as well where another value is set.
    let values = ["false", "true"];
    shows(&mut site, "n", Section::Firmware, "bios.Turbo", values);
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!(change.kind, ChangeKind::Service);
    let mut reasons = change.reasons.iter();
    assert!(reasons.any(|reason| reason.contains("is neither compared nor set")));
    site.seen("n").compared = Arc::new([Section::Firmware]);
    let plan = site.plan();
    let mut reasons = plan.changes[0].reasons.iter();
    assert!(!reasons.any(|reason| reason.contains("is neither compared nor set")));
}

#[test]
fn a_deploy_tells_that_it_leaves_firmware_to_the_next_plan() {
    let plan = |differs: bool| {
        let mut site = differing();
        if !differs {
            site.seen("n").drift = Arc::default();
        }
        site.edit("n", Section::OperatingSystem);
        site.options.allow_redeploy = all();
        site.plan()
    };
    for differs in [true, false] {
        let plan = plan(differs);
        assert_eq!(plan.changes[0].kind, ChangeKind::Redeploy);
        let mut reasons = plan.changes[0].reasons.iter();
        let told = "the next plan sets bios.Turbo, by a service";
        assert_eq!(reasons.any(|each| each.contains(told)), differs);
        // The run that carries it out tells what it left.
        assert_eq!(plan.left_differing().len(), usize::from(differs));
    }
}

#[test]
fn a_machine_that_is_off_is_switched_on_and_told_to_need_its_service() {
    let mut site = differing();
    allowed(&mut site);
    site.seen("n").power = Fact::Known(PowerState::Off);
    let plan = site.plan();
    assert_eq!(
        (plan.changes[0].kind, kinds(&plan, "n").contains("service")),
        (ChangeKind::Drift, false)
    );
    let mut reasons = plan.changes[0].reasons.iter();
    assert!(reasons.any(|each| each.contains("the next plan sets bios.Turbo, by a service")));
    assert_eq!(plan.left_differing().len(), 1);
}

#[test]
fn parts_that_are_not_as_expected_block_a_deploy_where_the_policy_demands_them() {
    let site = |demands: bool, deployed: bool| {
        let mut site = PlanFixture::settled(&["n"]);
        if !deployed {
            site.records.clear();
            site.seen("n").provision = Fact::Known(ProvisionState::Available);
        }
        site.guards.policy.demands_expected_hardware = demands;
        enforce(
            &mut site,
            "n",
            Section::Expected,
            "{expect: {memory_gib: 512}, bios: {Turbo: true}}",
        );
        let values = [
            ("expect.memory_gib", ["448", "512"]),
            ("bios.Turbo", ["false", "true"]),
        ];
        for (name, values) in values {
            shows(&mut site, "n", Section::Expected, name, values);
        }
        site
    };
    let why = "the policy demands the parts that are expected of it: expect.memory_gib: 448, designed 512";
    let created = site(true, false);
    let plan = created.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::Create);
    assert_eq!(blocked(&plan), Some(why));
    assert!(steps_of(&plan, "n").is_empty());
    assert_eq!(blocked(&site(false, false).plan()), None);
    // What could not be read is not taken for right.
    for demands in [true, false] {
        let mut unread = site(demands, false);
        unread.seen("n").drift = Arc::default();
        unread.seen("n").unread_parts = Some(Arc::from("no answer"));
        let why = "the policy demands the parts that are expected of it, and not all could be read: no answer";
        assert_eq!(blocked(&unread.plan()), demands.then_some(why));
    }

    // A machine that is built again is a deploy, too, and nothing is erased before.
    let mut edited = site(true, true);
    edited.edit("n", Section::OperatingSystem);
    edited.options.allow_redeploy = all();
    let plan = edited.plan();
    assert_eq!(
        (plan.changes[0].kind, blocked(&plan)),
        (ChangeKind::Redeploy, Some(why))
    );
    assert!(steps_of(&plan, "n").is_empty());
    // What runs is only reported.
    let running = site(true, true);
    let plan = running.plan();
    assert!(plan.steps.is_empty() && plan.changes.iter().all(|change| change.blocked.is_none()));
}

#[test]
fn without_its_rung_a_service_is_blocked_and_climbs_no_higher() {
    let differs = || {
        let mut site = clustered(&["n"]);
        enforce(&mut site, "n", Section::Firmware, BIOS);
        shows(
            &mut site,
            "n",
            Section::Firmware,
            "bios.Turbo",
            ["false", "true"],
        );
        site
    };
    let plan = differs().plan();
    assert_eq!(blocked(&plan), Some("it would be restarted"));
    let flag = plan.changes[0].blocked.as_ref().unwrap().flag.as_deref();
    assert_eq!(flag, Some("--allow-restart n"));
    assert_eq!(plan.changes[0].rung, Some(Rung::Restart));

    // A policy for its class allows it, and one for others does not.
    for (class, is_allowed) in [(Section::Firmware, true), (Section::OperatingSystem, false)] {
        let mut site = differs();
        site.guards.policy.disruption = DisruptionPolicy {
            default: Rung::Live,
            by_class: [(class, Rung::Restart)].into(),
        };
        site.old_guards = site.guards.clone();
        assert_eq!(blocked(&site.plan()).is_none(), is_allowed, "{class}");
    }

    // What its backend cannot do in place is blocked, and not done by a redeploy.
    let mut site = differs();
    site.seen("n").capabilities = [Capability::Deploy, Capability::Wipe].into();
    site.options.allow_redeploy = all();
    let plan = site.plan();
    assert_eq!(
        blocked(&plan),
        Some("its backend cannot change its firmware and settings")
    );
    assert_eq!(plan.changes[0].kind, ChangeKind::Service);
}

#[test]
fn what_is_only_reported_is_no_work() {
    let mut site = clustered(&["n"]);
    enforce(&mut site, "n", Section::Expected, "{expect: {cpus: 2}}");
    shows(&mut site, "n", Section::Expected, "expect.cpus", ["1", "2"]);
    allowed(&mut site);
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!((change.kind, change.shown_only), (ChangeKind::Drift, true));
    assert_eq!(change.reasons.len(), 1, "{:?}", change.reasons);
    assert_eq!(&*change.reasons[0], "expect.cpus: 1, designed 2");
    assert!(steps_of(&plan, "n").is_empty());
}

#[test]
fn firmware_goes_only_from_where_and_to_where_its_document_says() {
    let terms = |more: &str| format!("{{firmware: {{bios: {{version: '2.10'{more}}}}}}}");
    let table = [
        ("", "2.9", None),
        (
            "",
            "2.11",
            Some(
                "`firmware.bios` is at 2.11, which is newer than 2.10: its Hardware document has no `downgrade: true`",
            ),
        ),
        (", downgrade: true", "2.11", None),
        (", from: ['2.8', '2.9']", "2.9", None),
        (
            ", from: ['2.8', '2.9']",
            "2.7",
            Some("`firmware.bios` is at 2.7, and goes to 2.10 only from 2.8, 2.9"),
        ),
    ];
    for (more, observed, expected) in table {
        let mut site = PlanFixture::settled(&["n"]);
        enforce(&mut site, "n", Section::Firmware, &terms(more));
        shows(
            &mut site,
            "n",
            Section::Firmware,
            "firmware.bios",
            [observed, "2.10"],
        );
        allowed(&mut site);
        assert_eq!(blocked(&site.plan()), expected, "{more} {observed}");
    }
}

#[test]
fn members_of_etcd_are_serviced_one_after_the_other_and_never_below_their_quorum() {
    let names = ["n1", "n2", "n3"];
    let site = |dead: &[&str]| {
        let mut site = clustered(&names);
        with_etcd(&mut site, &names, dead);
        for name in names {
            enforce(&mut site, name, Section::Firmware, BIOS);
            shows(
                &mut site,
                name,
                Section::Firmware,
                "bios.Turbo",
                ["false", "true"],
            );
        }
        allowed(&mut site);
        site.options.max_unavailable = Some(Share::Machines(3));
        site
    };
    let plan = site(&[]).plan();
    let waves = plan.steps.iter();
    let waves = waves.filter(|step| step.id.kind == StepKind::StartWave);
    assert_eq!(waves.count(), 3);
    let etcd = &plan.forecast.etcd[0];
    assert_eq!((etcd.now, etcd.meanwhile, etcd.after), (3, 2, 3));
    let removes = |step: &Step| {
        step.id.kind == StepKind::RemoveEtcd || !step.given().etcd_members().is_empty()
    };
    assert!(!plan.steps.iter().any(removes), "its members stay");

    let plan = site(&["n3"]).plan();
    let held = plan.changes.iter().filter(|change| {
        let block = change.blocked.as_ref();
        block.is_some_and(|block| block.flag.is_none())
    });
    let held: Vec<&str> = held.map(|change| change.node.as_str()).collect();
    assert_eq!(held, ["n1", "n2"], "{:#?}", plan.changes);
}

fn cordon(site: &mut PlanFixture, by: Option<&str>) {
    let Fact::Known(Some(node)) = &mut site.seen("n").cluster else {
        panic!("no node");
    };
    node.unschedulable = true;
    node.cordoned_by = by.map(Arc::from);
}

#[test]
fn a_node_that_its_service_left_cordoned_takes_pods_again() {
    let mut site = clustered(&["n"]);
    // Whatever else ran on it since.
    site.record("n").cordoned = Some(RunId::from("run-0"));
    cordon(&mut site, Some("run-0"));
    let plan = site.plan();
    assert_eq!(kinds(&plan, "n"), "uncordon");
    assert_eq!(plan.changes[0].kind, ChangeKind::Drift);
    // One that another run drained stays so.
    cordon(&mut site, Some("run-2"));
    assert!(site.plan().changes.is_empty());
}

#[test]
fn a_node_that_was_cordoned_before_its_service_stays_so() {
    let own = Some(RunId::from("run-1"));
    let uncordoned = "drain service await-ready uncordon";
    let table = [
        (None, Some("run-1"), "drain service await-ready"),
        (None, None, "drain service await-ready"),
        (own.clone(), Some("run-2"), "drain service await-ready"),
        (own, Some("run-1"), uncordoned),
    ];
    for (record, by, expected) in table {
        let mut site = differing();
        allowed(&mut site);
        site.record("n").cordoned = record.clone();
        cordon(&mut site, by);
        let plan = site.plan();
        assert_eq!(kinds(&plan, "n"), expected, "{record:?} {by:?}");
        let mut reasons = plan.changes[0].reasons.iter();
        let is_told = reasons.any(|reason| reason.contains("its node was cordoned before"));
        assert_eq!(is_told, expected != uncordoned, "{record:?} {by:?}");
    }
}

#[test]
fn a_machine_that_stays_cordoned_after_its_service_keeps_its_place() {
    let mut site = clustered(&["n", "n2"]);
    for name in ["n", "n2"] {
        enforce(&mut site, name, Section::Firmware, BIOS);
        shows(
            &mut site,
            name,
            Section::Firmware,
            "bios.Turbo",
            ["false", "true"],
        );
    }
    allowed(&mut site);
    site.options.max_unavailable = Some(crate::design::Share::Machines(1));
    cordon(&mut site, Some("run-1"));
    let plan = site.plan();
    let reason = "at most 1 machine may be unavailable, and n is cordoned [--max-unavailable 2]";
    assert_eq!(
        super::leaving::blocked(&plan),
        [format!("n2: {reason}")],
        "it would be out beside the other"
    );
    // One that its own service left cordoned takes pods again.
    site.record("n").cordoned = Some(RunId::from("run-1"));
    assert_eq!(super::leaving::blocked(&site.plan()), [""; 0]);
}

#[test]
fn a_thousand_machines_take_an_attribute_in_waves() {
    let names: Vec<String> = (0..1000).map(|number| format!("n{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut site = clustered(&names);
    for name in &names {
        enforce(&mut site, name, Section::Firmware, BIOS);
        shows(
            &mut site,
            name,
            Section::Firmware,
            "bios.Turbo",
            ["false", "true"],
        );
    }
    site.options.max_unavailable = Some(Share::Machines(50));
    let plan = site.plan();
    assert_eq!(plan.blocked().count(), 1000);
    allowed(&mut site);
    // The fixture holds every plan to the rules of the checker.
    let plan = site.plan();
    assert_eq!(plan.count(ChangeKind::Service), 1000);
    assert_eq!(plan.summary.highest_rung, Some(Rung::Restart));
    assert_eq!(plan.summary.wiped_disks, 0);
    let of_kind = |kind| plan.steps.iter().filter(move |step| step.id.kind == kind);
    assert_eq!(of_kind(StepKind::Service).count(), 1000);
    assert_eq!(of_kind(StepKind::StartWave).count(), 20);
    assert_eq!(of_kind(StepKind::Destroy).count(), 0);
}

#[test]
fn the_checker_finds_a_service_that_is_not_what_was_planned() {
    let mut site = differing();
    allowed(&mut site);
    let plan = site.plan();
    let at = |kind| {
        let found = plan.steps.iter().position(|step| step.id.kind == kind);
        found.unwrap()
    };
    type Breaks = fn(&mut Step);
    let table: [(&str, StepKind, Breaks); 4] = [
        ("check-parameters", StepKind::Service, |step| {
            let mut settings = step.given().settings().clone();
            settings[0].value = Arc::from("never");
            step.give("settings", settings);
        }),
        ("check-node-order", StepKind::Service, |step| {
            step.needs.clear();
        }),
        ("check-teardown", StepKind::Uncordon, |step| {
            step.id.kind = StepKind::Relabel;
        }),
        ("check-times", StepKind::Service, |step| step.timeout += 1),
    ];
    for (code, kind, breaks) in table {
        let mut broken = plan.clone();
        breaks(&mut broken.steps[at(kind)]);
        let found = site.checked(&broken);
        assert!(
            found.iter().any(|line| line.contains(code)),
            "{code}: {found:#?}"
        );
    }
}

#[test]
fn a_value_that_its_controller_cannot_change_is_blocked_with_the_reason() {
    let mut site = differing();
    allowed(&mut site);
    let fixed = |name: &str, reason: &str| FixedValue {
        name: Arc::from(name),
        reason: Arc::from(reason),
    };
    // That of another value blocks nothing, if that is shown and as designed.
    site.seen("n").compared = Arc::new([Section::Firmware]);
    site.seen("n").fixed = Arc::from([fixed("firmware.bios", "its UpdateService is switched off")]);
    assert_eq!(blocked(&site.plan()), None);
    site.seen("n").fixed = Arc::from([fixed("bios.Turbo", "its BIOS has `Turbo` as read-only")]);
    let plan = site.plan();
    assert_eq!(
        blocked(&plan),
        Some("`bios.Turbo` cannot be changed: its BIOS has `Turbo` as read-only")
    );
    assert_eq!(kinds(&plan, "n"), "");
}

#[test]
fn a_protected_machine_is_not_serviced() {
    let mut site = differing();
    allowed(&mut site);
    site.guards.policy.protected = named(&["n"]);
    let plan = site.plan();
    assert_eq!(blocked(&plan), Some("the policy protects it"));
    assert_eq!(kinds(&plan, "n"), "");
}

#[test]
fn a_service_ends_no_etcd_cluster_whatever_a_flag_allows() {
    let mut site = differing();
    with_etcd(&mut site, &["n"], &[]);
    allowed(&mut site);
    site.options.leaving.destroy_etcd = these(&["main"]);
    let plan = site.plan();
    let why = blocked(&plan).unwrap_or_default();
    assert!(why.contains("has no other member"), "{why}");
    assert_eq!(kinds(&plan, "n"), "");
}

#[test]
fn volumes_on_disks_that_stay_are_not_forecast_as_lost() {
    let lost = |redeploys: bool| {
        let mut site = differing();
        allowed(&mut site);
        if redeploys {
            site.edit("n", Section::OperatingSystem);
            site.options.allow_redeploy = all();
        }
        let data = ["emptyDir", "local volume"].map(|kind| LocalData {
            owner: Arc::from("StatefulSet db/main"),
            kind: Arc::from(kind),
            pods: 1,
        });
        let pods = NodePods {
            evicted: 2,
            local_data: data.into(),
            ..NodePods::default()
        };
        let seen = site.observations.as_mut().unwrap();
        seen.pods.insert(NodeName::from("n"), Arc::new(pods));
        let plan = site.plan();
        let lost = plan.forecast.nodes[0].local_data.iter();
        lost.map(|data| data.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lost(false), ["emptyDir"]);
    assert_eq!(lost(true), ["emptyDir", "local volume"]);
}

/// A site of one node in a cluster, whose controller shows other time servers than are enforced.
fn other_time_servers() -> PlanFixture {
    let mut site = clustered(&["n"]);
    let values = "{bmc: {ntp: [10.0.0.1]}, firmware: {bmc: {version: '7.0', apply: live}, bios: {version: '2.10'}}}";
    enforce(&mut site, "n", Section::Firmware, values);
    let field = ["none", "10.0.0.1"];
    shows(&mut site, "n", Section::Firmware, "bmc.ntp", field);
    site.seen("n").capabilities = [
        Capability::Service,
        Capability::ServiceLive,
        Capability::Relabel,
    ]
    .into();
    site
}

#[test]
fn what_applies_while_the_machine_runs_is_set_without_a_drain_a_restart_and_a_permission() {
    let mut site = other_time_servers();
    let versions = ["6.0", "7.0"];
    shows(&mut site, "n", Section::Firmware, "firmware.bmc", versions);
    let plan = site.plan();
    let change = &plan.changes[0];
    assert_eq!(
        (change.kind, change.rung, blocked(&plan)),
        (ChangeKind::Service, Some(Rung::Live), None)
    );
    assert_eq!(kinds(&plan, "n"), "service-live");
    let settings = steps_of(&plan, "n")[0].given().settings();
    let names: Vec<&str> = settings.iter().map(|each| &*each.name).collect();
    assert_eq!(names, ["bmc.ntp", "firmware.bmc"]);
    assert!(
        plan.steps.iter().all(|step| step.id.wave.is_none()),
        "no wave"
    );

    // A policy that allows less holds it.
    let policy = |site: &mut PlanFixture, most| {
        site.guards.policy.disruption = DisruptionPolicy {
            default: most,
            by_class: BTreeMap::new(),
        };
    };
    policy(&mut site, Rung::Record);
    assert!(blocked(&site.plan()).is_some());
    policy(&mut site, Rung::Live);

    // With one value that needs a restart all of it is set by that.
    let versions = ["2.9", "2.10"];
    shows(&mut site, "n", Section::Firmware, "firmware.bios", versions);
    let plan = site.plan();
    assert_eq!(plan.changes[0].rung, Some(Rung::Restart));
    assert!(blocked(&plan).is_some());
    allowed(&mut site);
    assert_eq!(
        kinds(&site.plan(), "n"),
        "drain service await-ready uncordon"
    );
}

#[test]
fn a_backend_that_sets_nothing_while_a_machine_runs_has_the_next_rung() {
    let mut site = other_time_servers();
    site.seen("n").capabilities = [Capability::Service].into();
    let plan = site.plan();
    assert_eq!(plan.changes[0].rung, Some(Rung::Restart));
    assert!(blocked(&plan).is_some());
}

#[test]
fn a_machine_comes_back_with_the_parts_that_it_has_and_the_checker_holds_both() {
    let mut site = differing();
    allowed(&mut site);
    let parts = "{expect: {cpus: 2, memory_gib: 512}}";
    enforce(&mut site, "n", Section::Expected, parts);
    let memory = ["448", "512"];
    shows(
        &mut site,
        "n",
        Section::Expected,
        "expect.memory_gib",
        memory,
    );
    let mut plan = site.plan();
    let service = |plan: &mut Plan| -> usize {
        let mut steps = plan.steps.iter();
        let kind = |step: &Step| step.id.kind.sets_hardware();
        steps.position(kind).unwrap()
    };
    let at = service(&mut plan);
    let kept = plan.steps[at].given().kept_parts();
    let kept: Vec<&str> = kept.iter().map(|each| &*each.name).collect();
    assert_eq!(kept, ["expect.cpus"], "what it lacks already is drift");
    assert_eq!(site.checked(&plan), Vec::<String>::new());
    plan.steps[at].give("kept_parts", serde_json::json!([]));
    let found = site.checked(&plan);
    let says = "does not have its machine come back with the parts that it has as expected";
    assert!(found.iter().any(|each| each.contains(says)), "{found:?}");

    // What needs a restart is not changed while the machine runs, whatever a plan says.
    let site = other_time_servers();
    let mut plan = site.plan();
    let at = service(&mut plan);
    assert_eq!(site.checked(&plan), Vec::<String>::new());
    let bios = serde_json::json!([{"name": "firmware.bios", "value": "2.10"}]);
    plan.steps[at].give("settings", bios);
    let found = site.checked(&plan);
    let says = "changes what needs a restart while its machine runs";
    assert!(found.iter().any(|each| each.contains(says)), "{found:?}");
}
