//! Thirty-two machines in three racks, with three members of etcd and budgets of pods, that are all built again: one rack is out
//! at a time, and all of it together.
//!
//! `TRUEUP_TEST_DOMAINS=10000` tries so many seeds.

use std::collections::{BTreeMap, BTreeSet};

use trueup::backend::hardware::sim::Effect;
use trueup::design::Share;
use trueup::plan::{Action, Options};
use trueup::record::Outcome;
use trueup::step::StepKind;

use super::sites::{Group, Machine, Text};
use super::{End, RunCommand, Stage, allowing_all, request};
use crate::amount::number;
use crate::dice::Dice;

/// Seeds that are tried where nobody says how many.
const SEEDS: u64 = 12;
const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const MACHINES: usize = 32;

/// The site of a seed.
fn site(seed: u64) -> Text {
    let mut dice = Dice(seed);
    let mut text = Text::cluster();
    // Members of etcd are in a rack each, or wherever.
    let apart = dice.chance(70);
    let mut machines = Vec::new();
    for number in 0..MACHINES {
        let (name, profile) = match number {
            0..3 => (format!("c{}", number + 1), "control"),
            _ => (format!("w{number:02}"), "worker"),
        };
        let rack = match apart && number < 3 {
            true => RACKS[number],
            false => RACKS[(number + dice.below(2) * dice.below(3)) % 3],
        };
        machines.push(Machine {
            name,
            address: 11 + number,
            profile,
            rack: rack.to_owned(),
            tags: vec![profile.to_owned()],
            label: None,
        });
    }
    text.machines = machines;
    text.groups = vec![Group {
        name: "all".to_owned(),
        critical: true,
        depends_on: Vec::new(),
        selectors: "[]".to_owned(),
        criteria: Some("{minimum_successful_nodes: 4}".to_owned()),
    }];
    let step = ["prepare", "deploy", "destroy"];
    for _ in 0..dice.below(4) {
        let (node, step) = (3 + dice.below(MACHINES - 3), dice.pick(&step));
        text.faults.push(format!(
            "{{nodes: [w{node:02}], step: {step}, outcome: late, seconds: {}}}",
            60 * (1 + dice.below(10))
        ));
    }
    text.more = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata:\n  failure_domains: [rack]\n  \
                 parallelism: 32\n"
        .to_owned();
    text
}

/// What building all machines of a site again came to.
struct Rebuilt {
    /// In milliseconds of the simulator's clock.
    took: u64,
    /// How often a rack was out, for each.
    outages: BTreeMap<String, usize>,
    /// The most of the control plane that were away at once.
    control_plane: usize,
    /// How often machines of several racks were away at once.
    violations: usize,
}

/// Builds all machines of a site, and then all again.
fn rebuilt(mut text: Text, options: &Options) -> Rebuilt {
    let stage = Stage::new();
    stage.commit(&text.to_string());
    carry_out(&stage, options);
    text.kernels.iter_mut().for_each(|kernel| kernel.1 += 1);
    stage.commit(&text.to_string());
    let before = stage
        .ledger()
        .entries()
        .map(|(_, entry)| entry.sequence)
        .max();
    carry_out(&stage, options);
    let ledger = stage.ledger();
    ledger.check();

    let rack_of = |node: &str| {
        let machine = text.machines.iter().find(|machine| machine.name == node);
        machine.unwrap().rack.clone()
    };
    let mut result = Rebuilt {
        took: 0,
        outages: BTreeMap::new(),
        control_plane: 0,
        violations: 0,
    };
    let (mut away, mut first): (BTreeSet<String>, Option<u64>) = (BTreeSet::new(), None);
    let mut built = BTreeSet::new();
    for (node, entry) in ledger
        .entries()
        .filter(|(_, entry)| Some(entry.sequence) > before)
    {
        match entry.effect {
            Effect::Cordoned(_) | Effect::PoweredOff | Effect::Destroyed => {
                first.get_or_insert(entry.at);
                let rack = rack_of(node.as_str());
                let is_out = away.iter().any(|other| rack_of(other) == rack);
                if !is_out {
                    *result.outages.entry(rack.clone()).or_default() += 1;
                }
                result.violations += usize::from(away.iter().any(|other| rack_of(other) != rack));
                away.insert(node.to_string());
                let of_control_plane = away.iter().filter(|node| node.starts_with('c'));
                result.control_plane = result.control_plane.max(of_control_plane.count());
            }
            Effect::Deployed(_) => {
                away.remove(node.as_str());
                built.insert(node.clone());
                result.took = entry.at - first.unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(built.len(), MACHINES);
    result
}

/// Plans what is committed, which the checker has nothing against, and applies it.
fn carry_out(stage: &Stage, options: &Options) {
    let request = request(Action::Update, &[]);
    let planned = stage.plan(&request, options.clone()).unwrap();
    assert_eq!(
        planned.plan.checked.map(|checked| checked.findings),
        Some(0)
    );
    let life = stage.live(&RunCommand::Apply(&planned), None);
    let End::Ended(ended) = life.end else {
        panic!("{:?}", life.end)
    };
    assert_eq!(ended.1.outcome, Outcome::Succeeded, "{:?}", ended.0);
    assert!(
        planned
            .plan
            .steps
            .iter()
            .any(|step| step.id.kind == StepKind::Deploy)
    );
}

#[test]
fn a_rack_is_out_once_and_no_two_are_at_the_same_time() {
    let one_at_a_time = Options {
        max_unavailable: Some(Share::Machines(1)),
        ..allowing_all()
    };
    let seeds = number("TRUEUP_TEST_DOMAINS").unwrap_or(SEEDS);
    let slow = rebuilt(site(0), &one_at_a_time);
    for seed in 0..seeds {
        let text = site(seed);
        let members: [(&str, usize); 3] = RACKS.map(|rack| {
            let machines = text.machines.iter();
            let of_rack = machines.filter(|machine| machine.rack == rack);
            (
                rack,
                of_rack
                    .filter(|machine| machine.profile == "control")
                    .count(),
            )
        });
        let fast = rebuilt(text, &allowing_all());
        assert_eq!(fast.violations, 0, "seed {seed}");
        assert_eq!(fast.control_plane, 1, "seed {seed}");
        for (rack, members) in members {
            // One of the control plane at a time.
            assert!(fast.outages[rack] <= members.max(1), "seed {seed}: {rack}");
        }
        // One member of etcd in each rack: each is out once. Else a rack is out as often as it has members.
        let most = if members.iter().all(|(_, members)| *members == 1) {
            6
        } else {
            5
        };
        let is_fast = |slow: &Rebuilt| fast.took * most <= slow.took;
        // What is late in this site is late, too, where one goes at a time.
        assert!(
            is_fast(&slow) || is_fast(&rebuilt(site(seed), &one_at_a_time)),
            "seed {seed}: {} s, and one at a time {} s",
            fast.took / 1000,
            slow.took / 1000
        );
    }
}
