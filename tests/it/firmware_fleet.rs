//! A thousand machines that get an attribute of their BIOS: restarted in waves within the limits of the site, none wiped, and none
//! without permission.

use std::collections::BTreeMap;

use trueup::backend::hardware::sim::{Effect, Settings, Simulator};
use trueup::design::NodeName;

use super::accepted::example;
use super::fixture::Fixture;

const MACHINES: usize = 1000;
const RACKS: usize = 20;
const TOTAL: usize = 60;
const PER_RACK: usize = 4;

fn site() -> Fixture {
    let fixture = Fixture::empty("fleet");
    let definition =
        "schema: pegleg/SiteDefinition/v1\nmetadata: {name: fleet}\ndata: {site_type: lab}\n";
    let backends = "schema: trueup/Backends/v1\nmetadata: {name: backends}\ndata:\n  hardware:\n    kind: sim\n    sim:\n      \
        clock: virtual\n      hardware: [{values: {bios.Turbo: Disabled}}]\n";
    let policy = format!(
        "schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata:\n  max_unavailable: {{total: {TOTAL}, per_rack: {PER_RACK}}}\n  \
         parallelism: 200\n"
    );
    let racks = (0..RACKS).map(|rack| {
        format!("---\nschema: drydock/Rack/v1\nmetadata: {{name: r{rack:02}}}\ndata: {{}}\n")
    });
    let machines = (0..MACHINES).map(|number| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {}}}\ndata: {{metadata: {{rack: r{:02}}}}}\n",
            name(number),
            number % RACKS
        )
    });
    fixture.checkout.write("site-definition.yaml", definition);
    fixture.checkout.write("backends.yaml", backends);
    fixture.checkout.write("policy.yaml", &policy);
    let documents: String = racks.chain(machines).collect();
    fixture.checkout.write("machines.yaml", &documents);
    fixture.checkout.commit("A fleet");
    fixture
}

fn name(number: usize) -> String {
    format!("n{number:04}")
}

/// What happened to all machines, in order: the time, the number of the machine, and the effect.
fn effects(fixture: &Fixture) -> Vec<(u64, usize, Effect)> {
    let path = fixture.simulated_site();
    let simulator = Simulator::open(&path, Settings::default()).unwrap();
    let mut all = Vec::new();
    for number in 0..MACHINES {
        let node = NodeName::from(name(number).as_str());
        let machine = simulator.machine(&node).unwrap().unwrap();
        let entries = machine.ledger.entries();
        all.extend(entries.map(|entry| (entry.sequence, (entry.at, number, entry.effect.clone()))));
    }
    all.sort_by_key(|(sequence, (at, ..))| (*at, *sequence));
    all.into_iter().map(|(_, effect)| effect).collect()
}

#[test]
fn a_thousand_machines_take_an_attribute_in_waves_and_never_too_many_at_once() {
    let fixture = site();
    fixture
        .run(&["apply", "--yes", "--max-unavailable", "1000"])
        .with(0);
    let before = effects(&fixture).len();
    let document = "schema: trueup/Hardware/v1\nmetadata: {name: all}\ndata: {mode: enforce, bios: {Turbo: Enabled}}\n";
    fixture.checkout.write("hardware.yaml", document);
    fixture.checkout.commit("Enforce an attribute");

    // Without permission nothing is done, and nothing becomes a redeploy; the plan says restart, and not wipe.
    let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
    let changes = plan["changes"].as_array().unwrap();
    assert_eq!(changes.len(), MACHINES);
    for change in changes {
        assert_eq!(
            (&change["kind"], &change["rung"]),
            (&"service".into(), &"restart".into())
        );
        assert_eq!(change["blocked"]["reason"], "it would be restarted");
        assert!(change["destructive"].as_bool() != Some(true), "{change}");
    }
    fixture.run(&["apply", "--yes"]).with(4);
    assert_eq!(effects(&fixture).len(), before);

    // A flag that would let them be built again makes no more of it than a restart.
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0);
    let mut away: BTreeMap<usize, usize> = BTreeMap::new();
    let (mut most, mut most_of_rack, mut restarts) = (0, 0, 0);
    for (_, number, effect) in effects(&fixture).split_off(before) {
        match effect {
            Effect::PoweredOff => {
                *away.entry(number % RACKS).or_default() += 1;
                restarts += 1;
            }
            Effect::PoweredOn => *away.get_mut(&(number % RACKS)).unwrap() -= 1,
            Effect::WroteDisk(_)
            | Effect::WipedDisk(_)
            | Effect::Destroyed
            | Effect::Deployed(_) => {
                panic!("{} was built again", name(number));
            }
            _ => {}
        }
        most = most.max(away.values().sum());
        most_of_rack = most_of_rack.max(away.values().copied().max().unwrap_or(0));
    }
    assert_eq!(restarts, MACHINES, "one restart each");
    assert!(
        most <= TOTAL && most_of_rack <= PER_RACK,
        "{most} away, {most_of_rack} of a rack"
    );
    assert!(most > 1, "one after the other is no wave");
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_service_that_fails_is_not_done_to_more_machines_than_criteria_and_canary_allow() {
    let table = [
        ("percent_successful_nodes: 100", &[][..], 1),
        ("minimum_successful_nodes: 2", &[], 2),
        ("minimum_successful_nodes: 0", &[], 3),
        ("minimum_successful_nodes: 0", &["--canary"], 1),
    ];
    for (criterion, flags, drained) in table {
        let fixture = example("edge");
        fixture.simulator_at(
            "backends.yaml",
            "{clock: virtual, hardware: [{nodes: ['edge-*'], values: {firmware.bios: 2.17.2}, \
             updates: [{name: firmware.bios, outcome: refused}]}]}",
        );
        fixture.edit("strategy.yaml", "minimum_successful_nodes: 2", criterion);
        fixture.checkout.commit("The site");
        fixture.run(&["apply", "--yes"]).with(0);
        let document = "schema: trueup/Hardware/v1\nmetadata: {name: all}\n\
            data: {mode: enforce, firmware: {bios: {version: 2.19.1, from: [2.17.2]}}}\n";
        fixture.checkout.write("hardware.yaml", document);
        fixture.checkout.commit("Enforce a version");
        let apply = ["apply", "--yes", "--allow", "restart"];
        let ended = fixture.run(&[&apply[..], flags].concat());
        let taken = (1..=3).filter(|number| {
            let line = format!("drain/workers/edge-{number} succeeded");
            ended.stdout.contains(&line) || ended.stderr.contains(&line)
        });
        assert_eq!(
            taken.count(),
            drained,
            "{criterion} {flags:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
}
