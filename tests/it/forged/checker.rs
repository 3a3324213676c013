//! Every forgery that some defence refuses, shown to the checker alone: it finds each by itself, and nothing in what is
//! honest.

use std::sync::Arc;

use trueup::check::{self, Inputs};
use trueup::guard::Guarded;
use trueup::plan::saved::read;
use trueup::plan::{Change, ChangeKind, Plan};
use trueup::site::{Accept, At, Depth, Detail, Loader, Settings, locate};
use trueup::step::{Effect, StepKind};

use super::order::without;
use super::{Fixture, another_image, changed, control_plane, give, relabel, save};

/// The design and the guards of what is checked out.
fn guarded(fixture: &Fixture) -> Guarded {
    let repository = fixture.checkout.open();
    let location = locate(&repository, "", Some(fixture.site())).unwrap();
    let settings = Settings {
        depth: Depth::Checked,
        detail: Detail::Documents,
        accept: Accept::default(),
    };
    let mut loader = Loader::new(&repository);
    let site = loader.load(&location, At::Worktree, settings).unwrap();
    Guarded::under_one(&site.documented())
}

fn planned(fixture: &Fixture, request: &[&str]) -> Plan {
    read(&std::fs::read(save(fixture, request)).unwrap()).unwrap()
}

/// The codes of what is found in a plan: by itself, and as the plan of a run that begins.
fn found(plan: &Plan, site: &Guarded) -> Vec<&'static str> {
    let alone = check::plan(plan, &Inputs::default());
    let begun = Inputs {
        site: Some(site),
        world: None,
        has_begun: true,
    };
    let begun = check::plan(plan, &begun);
    let made = Inputs {
        has_begun: false,
        site: Some(site),
        world: None,
    };
    let made = check::plan(plan, &made);
    let all = alone.into_iter().chain(begun).chain(made);
    all.map(|finding| finding.code).collect()
}

#[track_caller]
fn finds(plan: &Plan, site: &Guarded, code: &str) {
    let codes = found(plan, site);
    assert!(codes.contains(&code), "{code} is not among {codes:?}");
}

fn of(plan: &mut Plan, kind: StepKind) -> &mut trueup::step::Step {
    plan.steps
        .iter_mut()
        .find(|step| step.id.kind == kind)
        .unwrap()
}

fn change(plan: &mut Plan, kind: ChangeKind) -> &mut Change {
    plan.changes
        .iter_mut()
        .find(|change| change.kind == kind)
        .unwrap()
}

#[test]
fn a_step_in_the_place_of_another_one_is_found() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let (site, honest) = (guarded(&fixture), planned(&fixture, &[]));
    assert_eq!(found(&honest, &site), [""; 0]);
    // A relabel that became a destroy that says that it does nothing.
    let mut forged = honest.clone();
    let step = of(&mut forged, StepKind::Relabel);
    (step.id.kind, step.effect, step.parameters) = (StepKind::Destroy, Effect::None, None);
    for code in ["check-steps", "check-effect", "check-destructive"] {
        finds(&forged, &site, code);
    }
    // A destroy that is added with its change, its allowance and its counts: everything in the plan agrees.
    let mut forged = honest.clone();
    forged.options.allow_destroy.all = true;
    let changed = change(&mut forged, ChangeKind::Relabel);
    (changed.kind, changed.destructive, changed.group) = (ChangeKind::Destroy, true, None);
    changed.disks = vec![Arc::from("sda")];
    forged.summary.changes = [(ChangeKind::Destroy, 1)].into();
    forged.summary.wiped_disks = 1;
    let step = of(&mut forged, StepKind::Relabel);
    (step.id.kind, step.effect, step.id.group) = (StepKind::Destroy, Effect::Destructive, None);
    finds(&forged, &site, "check-change");
}

#[test]
fn what_a_plan_allows_itself_is_found_where_nothing_gave_it() {
    let fixture = changed();
    let all = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let (site, honest) = (guarded(&fixture), planned(&fixture, &all));
    assert_eq!(found(&honest, &site), [""; 0]);
    let mut forged = honest.clone();
    forged.options.allow_redeploy = Default::default();
    finds(&forged, &site, "check-disruption");
    let mut forged = honest.clone();
    change(&mut forged, ChangeKind::Redeploy).destructive = false;
    finds(&forged, &site, "check-destructive");
    finds(&forged, &site, "check-summary");
    // A machine that the documents keep is not torn down for good.
    let mut forged = honest.clone();
    change(&mut forged, ChangeKind::Redeploy).kind = ChangeKind::Destroy;
    finds(&forged, &site, "check-change");
    let mut forged = honest.clone();
    give(of(&mut forged, StepKind::Deploy), "image", "mine".into());
    finds(&forged, &site, "check-parameters");
    let mut forged = honest.clone();
    forged.request.action = trueup::plan::Action::Clean;
    finds(&forged, &site, "check-once");
    for group in 0..honest.groups.len() {
        let mut forged = honest.clone();
        forged.groups[group].critical = !forged.groups[group].critical;
        finds(&forged, &site, "check-groups");
        let mut forged = honest.clone();
        forged.groups[group].nodes.clear();
        finds(&forged, &site, "check-groups");
    }
}

#[test]
fn steps_that_wait_for_less_are_found() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    for node in ["compute11", "compute12"] {
        another_image(&fixture, node);
    }
    fixture.checkout.commit("Another image");
    let one = ["--allow-redeploy", "all", "--max-unavailable", "1"];
    let two = ["--allow-redeploy", "all", "--max-unavailable", "2"];
    let (site, honest) = (guarded(&fixture), planned(&fixture, &one));
    assert_eq!(found(&honest, &site), [""; 0]);
    for (position, step) in honest.steps.iter().enumerate() {
        if step.id.kind == StepKind::VerifySite {
            continue;
        }
        let mut forged = honest.clone();
        forged.steps[position].needs.clear();
        forged.summary.longest_path = 0;
        let codes = found(&forged, &site);
        let of_order = [
            "check-site-order",
            "check-gates",
            "check-critical",
            "check-tag",
        ];
        assert!(
            of_order.iter().any(|code| codes.contains(code)),
            "{}: {codes:?}",
            step.id
        );
    }
    // More machines together than the limit of the plan.
    let mut forged = planned(&fixture, &two);
    forged.options = honest.options.clone();
    finds(&forged, &site, "check-limits");
    // The waves that it names count for nothing.
    let mut forged = honest.clone();
    let waves: Vec<usize> = forged
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.id.kind == StepKind::StartWave)
        .map(|(position, _)| position)
        .collect();
    let first = forged.steps[waves[0]].needs.clone();
    forged.steps[waves[1]].needs = first;
    finds(&forged, &site, "check-limits");
    let mut forged = honest.clone();
    forged
        .steps
        .iter_mut()
        .for_each(|step| step.timeout = step.timeout.min(1));
    finds(&forged, &site, "check-times");
}

#[test]
fn a_teardown_without_one_of_its_steps_is_found() {
    let fixture = control_plane();
    let (site, honest) = (
        guarded(&fixture),
        planned(&fixture, &["redeploy", "control-1"]),
    );
    assert_eq!(found(&honest, &site), [""; 0]);
    for kind in [
        StepKind::Drain,
        StepKind::ClearLabels,
        StepKind::RemoveEtcd,
        StepKind::CheckEtcd,
        StepKind::ShutdownKubelet,
        StepKind::RemoveFromCluster,
        StepKind::AwaitReady,
    ] {
        finds(&without(&honest, kind), &site, "check-teardown");
    }
    for kind in [StepKind::Destroy, StepKind::Prepare, StepKind::Deploy] {
        finds(&without(&honest, kind), &site, "check-steps");
    }
    let mut hasty = honest.clone();
    give(of(&mut hasty, StepKind::Drain), "grace_period", 0.into());
    finds(&hasty, &site, "check-times");
    // Two members of three at once.
    let both = ["redeploy", "control-1", "control-2"];
    let honest = planned(&fixture, &both);
    assert_eq!(found(&honest, &site), [""; 0]);
    let mut forged = honest.clone();
    let mut waves = forged.steps.iter().enumerate();
    let is_wave = |(_, step): &(usize, &trueup::step::Step)| step.id.kind == StepKind::StartWave;
    let (first, second) = (
        waves.find(is_wave).unwrap().0,
        waves.find(is_wave).unwrap().0,
    );
    forged.steps[second].needs = forged.steps[first].needs.clone();
    for code in ["check-quorum", "check-control-plane", "check-back-before"] {
        finds(&forged, &site, code);
    }
}
