//! What is designed, drawn from a seed, and what is edited later.

use super::sites::{Group, Machine, Text};
use crate::dice::Dice;

const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const HARDWARE_STEPS: [&str; 4] = ["prepare", "deploy", "destroy", "relabel"];
const CLUSTER_STEPS: [&str; 8] = [
    "drain",
    "uncordon",
    "clear-labels",
    "remove-etcd",
    "check-etcd",
    "shutdown-kubelet",
    "remove-from-cluster",
    "await-ready",
];

/// A site, and what goes wrong on it.
pub(super) fn text(dice: &mut Dice) -> Text {
    let has_cluster = dice.chance(75);
    let controls = match has_cluster {
        true => dice.pick(&[0, 1, 3, 3, 3]),
        false => dice.pick(&[0, 1]),
    };
    let workers = 1 + dice.below(4);
    let machine = |dice: &mut Dice, number: usize, profile: &'static str| Machine {
        name: format!("{}{number}", &profile[..1]),
        address: 11 + number + if profile == "worker" { 40 } else { 0 },
        profile,
        rack: dice.pick(&RACKS).to_owned(),
        tags: [
            vec![profile.to_owned()],
            dice.some(&["x".to_owned(), "y".to_owned()], 30),
        ]
        .concat(),
        label: None,
    };
    let mut machines: Vec<Machine> = (0..controls)
        .map(|number| machine(dice, number, "control"))
        .collect();
    machines.extend((0..workers).map(|number| machine(dice, number, "worker")));
    let members = match has_cluster {
        true => (0..controls).map(|number| format!("c{number}")).collect(),
        false => Vec::new(),
    };
    let mut text = Text {
        machines,
        kernels: [("control", 0), ("worker", 0)],
        groups: Vec::new(),
        members,
        has_cluster,
        faults: Vec::new(),
        cluster_faults: Vec::new(),
        more: String::new(),
    };
    regroup(&mut text, dice);
    break_things(&mut text, dice);
    text
}

/// A site with faults that decide the same whoever carries a step out, and when.
pub(super) fn fair(dice: &mut Dice) -> Text {
    let mut text = text(dice);
    let is_fair = |fault: &String| {
        let outcome = [
            "outcome: fail}",
            "outcome: late, seconds: 5}",
            "outcome: late, seconds: 90}",
            "outcome: lost-answer}",
        ];
        outcome.iter().any(|outcome| fault.ends_with(outcome))
    };
    text.faults.retain(is_fair);
    text.cluster_faults.retain(is_fair);
    text
}

fn regroup(text: &mut Text, dice: &mut Dice) {
    text.groups.clear();
    let names: Vec<String> = text
        .machines
        .iter()
        .map(|machine| machine.name.clone())
        .collect();
    for number in 0..1 + dice.below(3) {
        let named = dice.some(&names, 50).join(", ");
        let selectors = match dice.below(6) {
            0 => "[{node_tags: [control]}]".to_owned(),
            1 => "[{node_tags: [worker]}]".to_owned(),
            2 => format!("[{{rack_names: [{}]}}]", dice.pick(&RACKS)),
            3 => format!(
                "[{{node_tags: [x]}}, {{rack_names: [{}]}}]",
                dice.pick(&RACKS)
            ),
            4 if !named.is_empty() => format!("[{{node_names: [{named}]}}]"),
            _ => "[]".to_owned(),
        };
        let earlier: Vec<String> = (0..number).map(|number| format!("g{number}")).collect();
        let criteria = [
            format!(
                "percent_successful_nodes: {}",
                dice.pick(&[0, 50, 60, 66, 100])
            ),
            format!("minimum_successful_nodes: {}", dice.below(3)),
            format!("maximum_failed_nodes: {}", dice.below(3)),
        ];
        let criteria = dice.some(&criteria, 35).join(", ");
        text.groups.push(Group {
            name: format!("g{number}"),
            critical: dice.chance(40),
            depends_on: dice.some(&earlier, 40),
            selectors,
            criteria: (!criteria.is_empty()).then(|| format!("{{{criteria}}}")),
        });
    }
}

fn break_things(text: &mut Text, dice: &mut Dice) {
    let fault = |dice: &mut Dice, steps: &[&str], machines: &[Machine]| {
        let node = dice.pick(machines).name;
        let step = dice.pick(steps);
        let outcome = match dice.below(8) {
            0 => "fail, times: 1".to_owned(),
            1 => "fail".to_owned(),
            2 => format!("fail-once, times: {}", 1 + dice.below(4)),
            3 => format!("late, seconds: {}", dice.pick(&[5, 90, 7200])),
            4 => "hang".to_owned(),
            5 => format!("hang, seconds: {}", dice.pick(&[50, 4000])),
            6 => "unobservable, times: 1".to_owned(),
            _ => "lost-answer".to_owned(),
        };
        format!("{{nodes: [{node}], step: {step}, outcome: {outcome}}}")
    };
    let machines = text.machines.clone();
    text.faults = (0..dice.pick(&[0, 0, 1, 1, 2, 3]))
        .map(|_| fault(dice, &HARDWARE_STEPS, &machines))
        .collect();
    text.cluster_faults = match text.has_cluster {
        true => (0..dice.pick(&[0, 0, 0, 1, 2]))
            .map(|_| fault(dice, &CLUSTER_STEPS, &machines))
            .collect(),
        false => Vec::new(),
    };
}

/// Somebody edits the documents.
pub(super) fn edit(text: &mut Text, dice: &mut Dice) {
    let machine = dice.below(text.machines.len());
    match dice.below(9) {
        0 | 1 => text.kernels[dice.below(2)].1 += 1,
        2 => text.machines[machine].label = Some(format!("v{}", dice.below(3))),
        3 => text.machines[machine].rack = dice.pick(&RACKS).to_owned(),
        4 => {
            let workers = text
                .machines
                .iter()
                .filter(|machine| machine.profile == "worker")
                .count();
            let number = 10 + text.machines.len();
            let name = format!("w{number}");
            if workers < 6 && text.machines.iter().all(|machine| machine.name != name) {
                text.machines.push(Machine {
                    name,
                    address: 60 + number,
                    profile: "worker",
                    rack: dice.pick(&RACKS).to_owned(),
                    tags: vec!["worker".to_owned()],
                    label: None,
                });
            }
        }
        5 => {
            let is_named = |text: &Text, name: &str| {
                text.groups
                    .iter()
                    .any(|group| group.selectors.contains(name))
            };
            let name = text.machines[machine].name.clone();
            if text.machines.len() > 1 && !text.members.contains(&name) && !is_named(text, &name) {
                text.machines.remove(machine);
            }
        }
        6 => regroup(text, dice),
        7 => {
            let name = &text.machines[machine].name;
            if !text.members.contains(name) {
                text.more = format!(
                    "---\nschema: trueup/NodeRetirement/v1\nmetadata: {{name: retired}}\ndata:\n  \
                     retirements: [{{node_names: [{name}], reason: old}}]\n"
                );
            }
        }
        _ => text.more.clear(),
    }
    if dice.chance(60) {
        break_things(text, dice);
    }
    // Whom a document names must be there.
    let machines = &text.machines;
    if !machines
        .iter()
        .any(|machine| text.more.contains(&format!("[{}]", machine.name)))
    {
        text.more.clear();
    }
}
