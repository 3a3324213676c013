//! Plans cut into parts.

use proptest::prelude::*;

use super::asked::asked;
use super::leaving::{clustered, with_etcd};
use super::properties::fixtures;
use super::*;
use crate::design::{ClusterName, Share};
use crate::plan::{Action, Part, PartKind, Parts};
use crate::step::{EtcdRemoval, Need, StepKind};

/// One line a part: its id, its steps, and the ids of those that it comes after.
fn lines(plan: &Plan, parts: &Parts) -> Vec<String> {
    let line = |part: &Part| {
        let steps = part.steps.iter();
        let steps: Vec<_> = steps
            .map(|step| plan.steps[step.0 as usize].id.to_string())
            .collect();
        let after: Vec<_> = part.after.iter().map(|at| &*parts.parts[*at].id).collect();
        format!("{}: {} <- {}", part.id, steps.join(" "), after.join(" "))
    };
    parts.parts.iter().map(line).collect()
}

/// For each part, which parts have ended when it starts.
fn ended_before(parts: &Parts) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for part in &parts.parts {
        let mut before = BTreeSet::new();
        for at in &part.after {
            before.insert(*at);
            before.extend(all[*at].iter().copied());
        }
        all.push(before);
    }
    all
}

/// Holds all rules of a cut.
fn hold(plan: &Plan, parts: &Parts) -> Result<(), TestCaseError> {
    let mut part_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (position, part) in parts.parts.iter().enumerate() {
        prop_assert!(!part.steps.is_empty(), "{}", part.id);
        prop_assert!(part.steps.is_sorted());
        prop_assert_eq!(parts.find(&part.id), Some(position));
        prop_assert!(part.after.iter().all(|at| *at < position));
        let kept = |char| matches!(char, 'a'..='z' | '0'..='9' | '_' | '.' | '-');
        prop_assert!(
            part.id.len() < 200 && part.id.chars().all(kept),
            "{}",
            part.id
        );
        for step in &part.steps {
            let before = part_of.insert(step.0 as usize, position);
            prop_assert_eq!(before, None, "in two parts");
            let id = &plan.steps[step.0 as usize].id;
            prop_assert!(part.group.is_none() || part.group == id.group);
        }
    }
    let ended = ended_before(parts);
    for (position, part) in parts.parts.iter().enumerate() {
        for at in &part.after {
            let others = part.after.iter().filter(|other| *other != at);
            let mut others = others.filter(|other| ended[**other].contains(at));
            prop_assert_eq!(
                others.next(),
                None,
                "{} after {}",
                parts.parts[position].id,
                at
            );
        }
    }
    let check = plan
        .steps
        .iter()
        .position(|step| step.id.kind == StepKind::CriticalCheck);
    let behind = check.is_some_and(|check| check + 2 < plan.steps.len());
    let is_in_one = |kind| kind != StepKind::Tag && (kind != StepKind::CriticalCheck || behind);
    for (position, step) in plan.steps.iter().enumerate() {
        prop_assert_eq!(
            part_of.contains_key(&position),
            is_in_one(step.id.kind),
            "{}",
            step.id
        );
    }
    covers_needs(plan, &part_of, &ended)?;
    excludes(plan, &part_of, &ended)
}

fn covers_needs(
    plan: &Plan,
    part_of: &BTreeMap<usize, usize>,
    ended: &[BTreeSet<usize>],
) -> Result<(), TestCaseError> {
    for (position, part) in part_of {
        for need in &plan.steps[*position].needs {
            let other = part_of.get(&(need.step.0 as usize));
            let is_covered =
                other.is_some_and(|other| other == part || ended[*part].contains(other));
            prop_assert!(is_covered, "{}", plan.steps[*position].id);
        }
    }
    Ok(())
}

/// Parts that must not run at the same time are in order.
fn excludes(
    plan: &Plan,
    part_of: &BTreeMap<usize, usize>,
    ended: &[BTreeSet<usize>],
) -> Result<(), TestCaseError> {
    let mut holders: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (position, part) in part_of {
        let step = &plan.steps[*position];
        let mut held: Vec<String> = step
            .id
            .node
            .iter()
            .map(|node| format!("node {node}"))
            .collect();
        if step.id.kind == StepKind::RemoveEtcd {
            let members = step.given().etcd_members();
            held.extend(
                members
                    .iter()
                    .map(|member| format!("etcd {}", member.cluster)),
            );
        }
        if step.id.kind == StepKind::Remediate {
            held.push("remediation".to_owned());
        }
        for held in held {
            holders.entry(held).or_default().insert(*part);
        }
    }
    for (held, parts) in holders {
        let parts: Vec<_> = parts.into_iter().collect();
        for two in parts.windows(2) {
            let is_ordered = ended[two[1]].contains(&two[0]) || ended[two[0]].contains(&two[1]);
            prop_assert!(is_ordered, "{held}");
        }
    }
    Ok(())
}

/// The nodes of each stage of a wave: no gate or start between, the same kind of part.
fn most_of_a_stage(plan: &Plan, parts: &Parts) -> usize {
    let nodes = |part: &Part| {
        let nodes = part
            .steps
            .iter()
            .filter_map(|step| plan.steps[step.0 as usize].id.node.as_ref());
        nodes.collect::<BTreeSet<_>>().len()
    };
    parts.parts.iter().map(nodes).max().unwrap_or_default()
}

/// A plan of one of the actions on nodes in a cluster of which some are members of etcd.
fn of_an_action() -> impl Strategy<Value = Plan> {
    let actions = [
        Action::Update,
        Action::Redeploy,
        Action::Teardown,
        Action::RemoveEtcd,
        Action::Drain,
        Action::PowerOff,
        Action::Remediate,
    ];
    (
        0..actions.len(),
        1..9_usize,
        1..4_usize,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(move |(action, count, limit, canary, grouped)| {
            let names: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut fixture = clustered(&names);
            with_etcd(&mut fixture, &names, &[]);
            fixture.options.max_unavailable = Some(Share::Machines(limit));
            fixture.options.canary = canary;
            fixture.options.allow_redeploy = all();
            if !grouped {
                fixture.guards.groups.clear();
            }
            if actions[action] == Action::Update {
                for name in &names {
                    fixture.edit(name, Section::OperatingSystem);
                }
                return fixture.plan();
            }
            asked(&mut fixture, actions[action], &["n*"])
        })
}

/// Adds needs that no plan of this program has: each points to an earlier step.
fn with_more_needs(mut plan: Plan, more: &[(usize, usize)]) -> Plan {
    for (from, to) in more {
        let (from, to) = (from % plan.steps.len(), to % plan.steps.len());
        let (first, last) = (from.min(to), from.max(to));
        let tags = [StepKind::Tag, StepKind::CriticalCheck];
        if first == last || tags.contains(&plan.steps[first].id.kind) {
            continue;
        }
        let step = StepIndex::from_position(first);
        let needs = &mut plan.steps[last].needs;
        if let Err(at) = needs.binary_search_by_key(&step, |need| need.step) {
            needs.insert(
                at,
                Need {
                    step,
                    wait: Wait::Done,
                },
            );
        }
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_step_is_in_one_part_that_waits_for_what_its_steps_need(
        fixture in fixtures(),
        nodes in 1..6_usize,
        tasks in 3..40_usize,
    ) {
        let plan = fixture.plan();
        let parts = Parts::of(&plan, nodes);
        hold(&plan, &parts)?;
        prop_assert!(most_of_a_stage(&plan, &parts) <= nodes);
        let fitting = Parts::fitting(&plan, tasks);
        hold(&plan, &fitting)?;
        prop_assert!(fitting.tasks() <= tasks, "{} of {tasks}", fitting.tasks());
        prop_assert_eq!(&fitting, &Parts::of(&plan, fitting.nodes_per_part));
        if fitting.nodes_per_part > 1 {
            prop_assert!(Parts::of(&plan, fitting.nodes_per_part - 1).tasks() > tasks);
        }
    }

    #[test]
    fn the_cut_of_an_action_keeps_the_rules(
        plan in of_an_action(),
        nodes in 1..6_usize,
        tasks in 3..40_usize,
    ) {
        hold(&plan, &Parts::of(&plan, nodes))?;
        let fitting = Parts::fitting(&plan, tasks);
        hold(&plan, &fitting)?;
        prop_assert!(fitting.tasks() <= tasks);
    }

    #[test]
    fn steps_that_wait_for_more_are_cut_without_circles(
        fixture in fixtures(),
        more in prop::collection::vec((0..500_usize, 0..500_usize), 0..12),
        nodes in 1..6_usize,
    ) {
        let plan = fixture.plan();
        prop_assume!(!plan.steps.is_empty());
        let plan = with_more_needs(plan, &more);
        hold(&plan, &Parts::of(&plan, nodes))?;
    }

    #[test]
    fn names_of_groups_are_told_apart_and_harmless(names in prop::collection::btree_set("\\PC{1,90}|(wave|site|nodes)(-[0-9])?|[a-zA-Z.]{1,3}", 1..6)) {
        let mut fixture = PlanFixture::settled(&["n1", "n2"]);
        fixture.bare("n1");
        fixture.bare("n2");
        fixture.guards.groups = names.iter().map(|name| group(name, &[], Vec::new())).collect();
        // Of names that no document has, too.
        let plan = fixture.unchecked().unwrap();
        hold(&plan, &Parts::of(&plan, 1))?;
    }
}

#[test]
fn groups_and_waves_are_cut_into_teardowns_prepares_and_deploys() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    for name in ["n1", "n2"] {
        fixture.edit(name, Section::OperatingSystem);
        fixture.seen(name).cluster = Fact::Known(None);
    }
    fixture.bare("n3");
    fixture.options.allow_redeploy = all();
    fixture.options.max_unavailable = Some(Share::Machines(1));
    let plan = fixture.plan();
    assert_eq!(
        lines(&plan, &Parts::of(&plan, 2)),
        [
            "site: verify-site prepare-site <- ",
            "all.start: start/all <- site",
            "all.wave-1.start: wave/all/1 <- all.start",
            "all.wave-1.teardown-1: destroy/all/n1 <- all.wave-1.start",
            "all.wave-1.prepare-1: prepare/all/n1 prepare/all/n3 <- all.wave-1.teardown-1",
            "all.wave-1.gate-prepared: gate-prepared/all/1 <- all.wave-1.prepare-1",
            "all.wave-1.deploy-1: deploy/all/n1 await-ready/all/n1 deploy/all/n3 await-ready/all/n3 <- all.wave-1.gate-prepared",
            "all.wave-2.start: wave/all/2 <- all.wave-1.deploy-1",
            "all.wave-2.teardown-1: destroy/all/n2 <- all.wave-2.start",
            "all.wave-2.prepare-1: prepare/all/n2 <- all.wave-2.teardown-1",
            "all.wave-2.gate-prepared: gate-prepared/all/2 <- all.wave-2.prepare-1",
            "all.wave-2.deploy-1: deploy/all/n2 await-ready/all/n2 <- all.wave-2.gate-prepared",
            "all.gate-deployed: gate-deployed/all <- all.wave-2.deploy-1",
        ]
    );
    // Of no more than five tasks, waves are put together; of no more than three, all of it.
    let five = Parts::fitting(&plan, 6);
    assert_eq!(
        lines(&plan, &five)[2..],
        [
            "all.waves-1-2: wave/all/1 destroy/all/n1 prepare/all/n1 prepare/all/n3 gate-prepared/all/1 \
             deploy/all/n1 await-ready/all/n1 deploy/all/n3 await-ready/all/n3 wave/all/2 destroy/all/n2 prepare/all/n2 gate-prepared/all/2 \
             deploy/all/n2 await-ready/all/n2 <- all.start",
            "all.gate-deployed: gate-deployed/all <- all.waves-1-2"
        ]
    );
    // What spans several is in none of them.
    assert!(five.parts.iter().all(|part| part.wave.is_none()));
    let one = Parts::fitting(&plan, 3);
    assert_eq!((one.parts.len(), one.parts[0].kind), (1, PartKind::Several));
    assert_eq!(one.parts[0].steps.len(), plan.steps.len() - 2);
}

#[test]
fn a_node_of_two_groups_that_run_in_parallel_is_in_the_hands_of_one_part() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.bare("n1");
    fixture.bare("n2");
    fixture.guards.groups = vec![group("one", &[], Vec::new()), group("two", &[], Vec::new())];
    fixture.options.parallel_groups = 2;
    let plan = fixture.plan();
    let parts = Parts::of(&plan, 1);
    let after = |id: &str| {
        let part = &parts.parts[parts.find(id).unwrap()];
        let after = part.after.iter().map(|at| &*parts.parts[*at].id);
        after.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(after("two.start"), "site");
    assert_eq!(after("two.prepare-1"), "one.deploy-1 two.start");
    assert_eq!(after("two.prepare-2"), "one.deploy-2 two.start");
}

#[test]
fn members_of_one_etcd_cluster_and_remediations_are_taken_by_one_part_after_the_other() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    fixture.options.max_unavailable = Some(Share::Machines(3));
    let mut plan = asked(&mut fixture, Action::PowerOff, &["n*"]);
    let after = |plan: &Plan| {
        let parts = Parts::of(plan, 1);
        let after = parts.parts.iter().map(|part| part.after.clone());
        after.collect::<Vec<_>>()
    };
    assert_eq!(after(&plan), vec![Vec::<usize>::new(); 3]);
    for step in &mut plan.steps {
        step.id.kind = StepKind::Remediate;
    }
    assert_eq!(after(&plan), vec![vec![], vec![0], vec![1]]);
    for (step, cluster) in plan.steps.iter_mut().zip(["main", "other", "main"]) {
        step.id.kind = StepKind::RemoveEtcd;
        let member = EtcdRemoval {
            cluster: ClusterName::from(cluster),
            cluster_id: Arc::from("c1"),
            member_id: Arc::from("m1"),
            name: Arc::from("m1"),
        };
        step.give("etcd_members", [member]);
    }
    assert_eq!(after(&plan), vec![vec![], vec![], vec![0]]);
}

#[test]
fn what_is_torn_down_behind_the_critical_check_is_in_parts_behind_it() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.leave("n2");
    fixture.options.allow_destroy = all();
    let plan = fixture.plan();
    let lines = lines(&plan, &Parts::of(&plan, 4));
    let behind = lines
        .iter()
        .skip_while(|line| !line.starts_with("critical-check"));
    assert_eq!(
        behind.collect::<Vec<_>>(),
        [
            "critical-check: critical-check <- all.gate-deployed",
            "teardown-1: destroy/n2 <- critical-check"
        ]
    );
}

#[test]
fn parts_of_many_nodes_wait_for_few_others_also_one_by_one() {
    let names: Vec<String> = (0..4_000).map(|n| format!("n{n:06}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fixture = PlanFixture::settled(&names);
    for (number, name) in names.iter().enumerate() {
        match number % 2 {
            0 => fixture.bare(name),
            _ => fixture.edit(name, Section::OperatingSystem),
        }
    }
    fixture.options.allow_redeploy = all();
    fixture.options.max_unavailable = Some(Share::Machines(5));
    let plan = fixture.plan();
    let one = Parts::of(&plan, 1);
    let fitting = Parts::fitting(&plan, 400);
    assert!(one.parts.len() > 10_000 && fitting.tasks() <= 400);
    let edges: usize = one.parts.iter().map(|part| part.after.len()).sum();
    assert!(edges < 3 * one.parts.len(), "{edges}");
}
