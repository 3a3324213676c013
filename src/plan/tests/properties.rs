//! Properties of every plan.

use crate::design::Share;
use proptest::prelude::*;

use super::*;
use crate::check;
use crate::guard::Guarded;
use crate::plan::saved::{read, write};
use crate::step::{Effect, Need, StepKind};

/// The history of a node since it was settled.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Same,
    Bare,
    NoRecord,
    Unseen,
    Off,
    Unlocked,
    Gone,
    Failed,
    Prepared,
    Left,
    Labels,
    Rack,
    Image,
    Maintenance,
    Unretired,
}

const FATES: [Fate; 15] = [
    Fate::Same,
    Fate::Bare,
    Fate::NoRecord,
    Fate::Unseen,
    Fate::Off,
    Fate::Gone,
    Fate::Failed,
    Fate::Prepared,
    Fate::Left,
    Fate::Labels,
    Fate::Rack,
    Fate::Image,
    Fate::Maintenance,
    Fate::Unretired,
    Fate::Unlocked,
];

fn fixture(fates: &[usize], allow: bool, parallel: usize, limit: Option<usize>) -> PlanFixture {
    let names: Vec<String> = (0..fates.len()).map(|n| format!("n{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fixture = PlanFixture::settled(&names);
    for (position, (name, fate)) in names.iter().zip(fates).enumerate() {
        fixture.designed(name).rack = Some(Arc::from(format!("r{}", position % 3)));
        match FATES[*fate] {
            Fate::Same => {}
            Fate::Bare => fixture.bare(name),
            Fate::NoRecord => drop(fixture.records.remove(*name)),
            Fate::Unseen => {
                fixture.records.remove(*name);
                fixture.seen(name).provision = Fact::Unknown(Arc::from("dead"));
            }
            Fate::Unlocked => fixture.seen(name).unlocked = true,
            Fate::Off => fixture.seen(name).power = Fact::Known(PowerState::Off),
            Fate::Gone => drop(fixture.see(name, ProvisionState::Available)),
            Fate::Failed => {
                fixture.record(name).phase = Phase::Failed;
                fixture.record(name).digests.clear();
                fixture.see(name, ProvisionState::DeployFailed);
            }
            Fate::Prepared => {
                fixture.record(name).phase = Phase::Prepared;
                fixture.see(name, ProvisionState::Available);
            }
            Fate::Left => fixture.leave(name),
            Fate::Labels => fixture.edit(name, Section::Labels),
            Fate::Rack => fixture.edit(name, Section::Inventory),
            Fate::Image => fixture.edit(name, Section::OperatingSystem),
            Fate::Maintenance => {
                fixture.edit(name, Section::OperatingSystem);
                fixture.seen(name).maintenance = Some(Arc::from("fan"));
            }
            Fate::Unretired => {
                fixture.bare(name);
                let node = node(name);
                let record = fixture.records.entry(node.name.clone());
                let record = record.or_insert_with(|| deployed(&node));
                record.phase = Phase::NotStarted;
                record.digests.clear();
                record.retired = Some(Arc::from("old"));
                fixture.seen(name).retired = Some(Arc::from("old"));
            }
        }
    }
    let rack = |rack: &str| {
        vec![Selector {
            rack_names: these(&[rack]),
            ..Selector::default()
        }]
    };
    fixture.guards.groups = vec![
        group("second", &["first"], rack("r1")),
        group("rest", &[], Vec::new()),
        group("first", &[], rack("r0")),
    ];
    if allow {
        fixture.options.allow_redeploy = all();
        fixture.options.allow_destroy = all();
        fixture.options.adopt = all();
    }
    if fates.len() % 2 == 1 {
        fixture.guards.policy.failure_domains.by = ["rack".parse().unwrap()].into();
    }
    fixture.options.parallel_groups = parallel;
    fixture.options.max_unavailable = limit.map(Share::Machines);
    fixture
}

pub(super) fn fixtures() -> impl Strategy<Value = PlanFixture> {
    let fates = prop::collection::vec(0..FATES.len(), 0..24);
    let limit = prop::option::of(1..4_usize);
    (fates, any::<bool>(), 0..3_usize, limit)
        .prop_map(|(fates, allow, parallel, limit)| fixture(&fates, allow, parallel, limit))
}

/// The same fixture with everything in it put together the other way round.
fn shuffled(fixture: &PlanFixture) -> PlanFixture {
    let mut other = fixture.clone();
    other.after = Design::empty(fixture.after.site.clone());
    for (name, node) in fixture.after.nodes.iter().rev() {
        other.after.nodes.insert(name.clone(), node.clone());
    }
    other.records = fixture.records.clone().into_iter().rev().collect();
    other
}

/// The site after all steps of a plan succeeded, as a run records it.
fn applied(fixture: &PlanFixture, plan: &Plan) -> PlanFixture {
    let mut done = fixture.clone();
    done.old = fixture.after.clone();
    for step in plan.steps.iter().filter(|step| step.id.node.is_some()) {
        let name = step.id.node.clone().unwrap();
        let refused = step.given().refused().is_some();
        let designed = done.after.nodes.get(&name).cloned();
        match step.id.kind {
            StepKind::Destroy if designed.is_none() => drop(done.records.remove(&name)),
            _ if refused => {}
            StepKind::Deploy | StepKind::Record | StepKind::Adopt => {
                done.records
                    .insert(name.clone(), deployed(&designed.unwrap()));
                if step.id.kind == StepKind::Deploy {
                    done.see(name.as_str(), ProvisionState::Active);
                }
            }
            StepKind::Relabel => {
                let designed = designed.unwrap();
                let labels = *designed.digests.get(&Section::Labels).unwrap();
                let record = done.records.get_mut(&name).unwrap();
                record.digests.insert(Section::Labels, labels);
            }
            StepKind::Lock => done.seen(name.as_str()).unlocked = false,
            StepKind::PowerOn => {
                done.seen(name.as_str()).power = Fact::Known(PowerState::On);
            }
            StepKind::UnsetRetired => {
                done.record(name.as_str()).retired = None;
                done.seen(name.as_str()).retired = None;
            }
            _ => {}
        }
    }
    done
}

/// Whether a step waits for another one, however many steps are between them; for its success, if each is waited for
/// with that.
fn is_behind(plan: &Plan, step: usize, other: usize, wait: Wait) -> bool {
    let mut open = vec![step];
    let mut seen = BTreeSet::new();
    while let Some(step) = open.pop() {
        let needs = plan.steps[step].needs.iter();
        let needs = needs.filter(|need| wait == Wait::Done || need.wait == wait);
        for need in needs.map(|need| need.step.0 as usize) {
            if need == other {
                return true;
            }
            if seen.insert(need) {
                open.push(need);
            }
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_need_points_backwards_and_a_change_has_steps_unless_it_is_held_back(fixture in fixtures()) {
        let plan = fixture.plan();
        for (position, step) in plan.steps.iter().enumerate() {
            prop_assert!(step.needs.iter().all(|need| (need.step.0 as usize) < position));
        }
        let with_steps: BTreeSet<_> =
            plan.steps.iter().filter_map(|step| step.id.node.clone()).collect();
        for change in &plan.changes {
            let held = change.blocked.is_some() || change.excluded || change.shown_only;
            prop_assert_eq!(with_steps.contains(&change.node), !held, "{:?}", change);
        }
        let changed: BTreeSet<_> = plan.changes.iter().map(|change| change.node.clone()).collect();
        prop_assert!(with_steps.is_subset(&changed));
        for precondition in &plan.relies_on {
            for step in precondition.steps.iter() {
                prop_assert!(plan.steps[step.0 as usize].effect != Effect::None);
            }
        }
        let edges: usize = plan.steps.iter().map(|step| step.needs.len()).sum();
        prop_assert!(edges <= 5 * plan.steps.len() + 8);
    }

    #[test]
    fn the_order_of_the_input_changes_no_byte(fixture in fixtures()) {
        prop_assert_eq!(write(&fixture.plan()), write(&shuffled(&fixture).plan()));
    }

    #[test]
    fn a_plan_comes_back_from_its_file(fixture in fixtures()) {
        let plan = fixture.plan();
        prop_assert_eq!(read(&write(&plan)).unwrap(), plan);
    }

    #[test]
    fn after_everything_was_applied_only_what_was_held_back_or_refused_is_left(fixture in fixtures()) {
        let plan = fixture.plan();
        let again = applied(&fixture, &plan).plan();
        for change in &again.changes {
            // What had no place beside a machine that was off may have one now.
            let was_blocked = plan.blocked().any(|blocked| blocked.node == change.node);
            let held = change.blocked.is_some() || change.shown_only || was_blocked;
            prop_assert!(held || change.kind == ChangeKind::Unknown, "{:?}", change);
        }
    }

    #[test]
    fn no_more_machines_than_the_limit_are_torn_down_in_one_wave(fixture in fixtures()) {
        let plan = fixture.plan();
        let mut waves: BTreeMap<StepIndex, usize> = BTreeMap::new();
        for step in &plan.steps {
            if step.id.kind == StepKind::Destroy && step.id.group.is_some() {
                let wave = step.needs.iter().find(|need| {
                    plan.steps[need.step.0 as usize].id.kind == StepKind::StartWave
                });
                *waves.entry(wave.unwrap().step).or_default() += 1;
            }
        }
        let limit = fixture.options.max_unavailable.and_then(Share::as_number).unwrap_or(10);
        prop_assert!(waves.values().all(|count| *count <= limit));
    }

    /// Only the end of a wave before may be left out, if the limits hold without it: `check-limits` judges that.
    #[test]
    fn the_checker_finds_steps_that_wait_for_less(fixture in fixtures()) {
        let (plan, after) = (fixture.plan(), fixture.guarded());
        for position in 0..plan.steps.len() {
            let id = &plan.steps[position].id;
            for need in 0..plan.steps[position].needs.len() {
                let mut forged = plan.clone();
                let dropped = forged.steps[position].needs.remove(need);
                let before = dropped.step.0 as usize;
                let is_of_waves = id.kind == StepKind::StartWave && dropped.wait == Wait::Done;
                prop_assert!(
                    is_of_waves || is_found(&forged, &after) || is_behind(&forged, position, before, Wait::Done),
                    "{id} without {}", plan.steps[before].id
                );
                if dropped.wait == Wait::Success {
                    forged.steps[position].needs.insert(need, Need { wait: Wait::Done, ..dropped });
                    prop_assert!(
                        is_found(&forged, &after) || is_behind(&forged, position, before, Wait::Success),
                        "{id} after the end of {}", plan.steps[before].id
                    );
                }
            }
        }
    }
}

/// Whether the checker finds something in a plan of this design.
fn is_found(plan: &Plan, design: &Guarded) -> bool {
    let inputs = check::Inputs {
        site: Some(design),
        world: None,
        has_begun: false,
    };
    !check::plan(plan, &inputs).is_empty()
}

#[test]
fn ten_thousand_nodes_in_a_thousand_groups_are_planned() {
    let fates: Vec<usize> = (0..10_000).map(|n| [1, 9, 11, 4][n % 4]).collect();
    let mut fixture = fixture(&fates, true, 1, Some(1));
    let names: Vec<_> = fixture.after.nodes.keys().cloned().collect();
    let groups = names.chunks(10).enumerate().map(|(number, names)| {
        let names: Vec<_> = names.iter().map(NodeName::as_str).collect();
        group(&format!("g{number}"), &[], named(&names))
    });
    fixture.guards.groups = groups.collect();
    let plan = fixture.plan();
    assert_eq!((plan.changes.len(), plan.groups.len()), (10_000, 1_000));
}
