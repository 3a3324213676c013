//! `trueup accept --write`: the values of machines in the documents that had others, at the places where they come from.

use std::collections::BTreeMap;
use std::path::Path;

use super::amount::number;
use super::dice::Dice;
use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;

/// The example `edge`, applied.
fn applied() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy_folder(&root.join("site-examples/edge"), fixture.checkout.path());
    fixture
        .commit_and_apply("The site as it begins", &[])
        .with(0);
    fixture
}

fn texts(fixture: &Fixture) -> BTreeMap<&'static str, String> {
    let names = ["profiles.yaml", "nodes.yaml", "networks.yaml"];
    names.map(|name| (name, fixture.read(name))).into()
}

fn image(fixture: &Fixture) {
    fixture.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-24.10 # newer",
    );
}

#[test]
fn what_all_machines_have_is_written_where_it_comes_from() {
    let fixture = applied();
    let before = texts(&fixture);
    fixture.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-24.10",
    );
    assert_eq!(fixture.planned(&[]).len(), 3);
    let ended = fixture.run(&["accept", "edge-*", "--write"]).with(0);
    assert_eq!(texts(&fixture), before);
    let line = "platform.image of edge-1 and 2 more: ubuntu-24.10 → ubuntu-24.04";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    assert_eq!(fixture.planned(&[]), BTreeMap::new());
    fixture
        .run(&["accept", "edge-*", "--write"])
        .with(0)
        .saying("differ from their documents in nothing");
}

#[test]
fn what_one_machine_has_becomes_its_own_and_the_others_stay_as_they_are_designed() {
    let fixture = applied();
    image(&fixture);
    let before = texts(&fixture);
    fixture
        .run(&["accept", "edge-2", "--write"])
        .with(0)
        .saying("for this machine alone");
    let after = texts(&fixture);
    assert_eq!(after["profiles.yaml"], before["profiles.yaml"]);
    let added: Vec<&str> = after["nodes.yaml"]
        .lines()
        .filter(|line| !before["nodes.yaml"].contains(line))
        .collect();
    assert_eq!(added, ["  platform: {image: ubuntu-24.04}"]);
    let planned = fixture.planned(&[]);
    let nodes: Vec<&str> = planned.keys().map(String::as_str).collect();
    assert_eq!(nodes, ["edge-1", "edge-3"]);
}

#[test]
fn a_label_that_was_changed_in_the_cluster_or_is_gone_there_is_written() {
    let fixture = applied();
    // The documents get another value, and a label that no node has.
    let old = "owner_data: {edge.example.org/role: worker}";
    fixture.edit(
        "profiles.yaml",
        old,
        "owner_data: {edge.example.org/role: other, extra: yes-it-is}",
    );
    fixture
        .run(&[
            "accept",
            "edge-1",
            "edge-2",
            "edge-3",
            "--write",
            "--field",
            "metadata.owner_data.**",
        ])
        .with(0);
    let profiles = fixture.read("profiles.yaml");
    assert!(
        profiles.contains("edge.example.org/role: worker"),
        "{profiles}"
    );
    // Each machine removes the label for itself: the profile may be of others, too.
    assert_eq!(
        fixture.read("nodes.yaml").matches("'!extra': ''").count(),
        3
    );
    assert_eq!(fixture.planned(&[]), BTreeMap::new());
}

#[test]
fn what_cannot_be_a_machines_own_is_left_and_nothing_is_changed() {
    let fixture = applied();
    let text = fixture.read("profiles.yaml");
    let line = text
        .lines()
        .find(|line| line.contains("bios_version"))
        .unwrap()
        .to_owned();
    fixture.edit("profiles.yaml", &line, "  bios_version: 9.9.9");
    let before = texts(&fixture);
    let ended = fixture.run(&["accept", "edge-1", "--write"]).with(4);
    assert!(
        ended
            .stderr
            .contains("hardware_profile.bios_version of edge-1"),
        "{}",
        ended.stderr
    );
    assert_eq!(texts(&fixture), before);
    fixture.run(&["accept", "edge-*", "--write"]).with(0);
    assert_eq!(fixture.planned(&[]), BTreeMap::new());
    fixture.run(&["accept", "edge-7", "--write"]).with(64);
}

/// Edits of the documents that each change a value of some machines.
const EDITS: [(&str, &str, &str); 6] = [
    (
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: 'ubuntu-26.04'",
    ),
    ("profiles.yaml", "kernel: generic", "kernel: \"hwe\""),
    ("profiles.yaml", "console: ttyS0", "console: ttyS1"),
    (
        "profiles.yaml",
        "edge.example.org/role: worker",
        "edge.example.org/role: idle",
    ),
    (
        "nodes.yaml",
        "metadata: {name: edge-3}\ndata:\n",
        "metadata: {name: edge-3}\ndata:\n  platform: {kernel: own}\n",
    ),
    (
        "nodes.yaml",
        "metadata: {name: edge-1}\ndata:\n",
        "metadata: {name: edge-1}\ndata:\n  platform:\n    image: own # mine\n",
    ),
];

#[test]
fn after_all_is_written_the_plan_is_empty_and_no_other_machine_has_changed() {
    let count = number("TRUEUP_TEST_SEEDS").unwrap_or(6).min(1000);
    let fixture = applied();
    let clean = texts(&fixture);
    for seed in 0..count {
        let mut dice = Dice(seed);
        for (name, text) in &clean {
            fixture.checkout.write(name, text);
        }
        for (file, old, new) in dice.some(&EDITS, 50) {
            fixture.edit(file, old, new);
        }
        let before = fixture.run(&["plan", "--format", "json"]).with(0).json();
        let chosen = dice.some(&["edge-1", "edge-2", "edge-3"], 60);
        if !chosen.is_empty() {
            let arguments = [&["accept", "--write"][..], &chosen].concat();
            fixture.run(&arguments).with(0);
        }
        let after = fixture.run(&["plan", "--format", "json"]).with(0).json();
        let of = |plan: &serde_json::Value, node: &str| {
            let changes = plan["changes"].as_array().unwrap().clone();
            let change = changes.into_iter().find(|change| change["node"] == node);
            change.map(|change| {
                (
                    change["kind"].clone(),
                    change["fields"].as_array().map(|fields| {
                        let field = |field: &serde_json::Value| {
                            (field["path"].clone(), field["after"].clone())
                        };
                        fields.iter().map(field).collect::<Vec<_>>()
                    }),
                )
            })
        };
        for node in ["edge-1", "edge-2", "edge-3"] {
            match chosen.contains(&node) {
                true => {
                    let kind = of(&after, node).map(|change| change.0);
                    assert!(
                        kind.is_none_or(|kind| kind == "none"),
                        "seed {seed}: {node}\n{after}"
                    );
                }
                false => assert_eq!(of(&after, node), of(&before, node), "seed {seed}: {node}"),
            }
        }
        fixture.run(&["accept", "--write", "edge-*"]).with(0);
        assert_eq!(fixture.planned(&[]), BTreeMap::new(), "seed {seed}");
    }
}

#[test]
fn a_layer_that_other_sites_share_is_edited_only_where_none_of_their_machines_changes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/multi-site");
    let fixture = Fixture::of(Checkout::new(), "none");
    copy_folder(&root, fixture.checkout.path());
    fixture.checkout.commit("The sites");
    fixture.run(&["--site", "north", "apply", "--yes"]).with(0);
    let newer = fixture
        .read("global/profiles.yaml")
        .replace("ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.write("global/profiles.yaml", newer);
    fixture.checkout.commit("Another image");
    fixture.run(&["--site", "south", "apply", "--yes"]).with(0);
    let before = fixture.read("global/profiles.yaml");
    fixture
        .run(&["--site", "north", "accept", "--write", "*"])
        .with(0)
        .saying("for this machine alone");
    assert_eq!(fixture.read("global/profiles.yaml"), before);
    for site in ["north", "south"] {
        fixture
            .run(&["--site", site, "plan", "--detailed-exitcode"])
            .with(0);
    }
    // What a site makes of it whose documents have errors is not known.
    let own = fixture.read("site/north/nodes.yaml");
    fixture.checkout.write(
        "site/north/nodes.yaml",
        own.replace("ubuntu-24.04", "ubuntu-25.04"),
    );
    fixture.checkout.write("site/south/broken.yaml", "a: [b\n");
    fixture
        .run(&["--site", "north", "accept", "--write", "*"])
        .with(0);
    assert_eq!(fixture.read("global/profiles.yaml"), before);
}

#[test]
fn a_field_whose_name_has_dots_is_named_as_plans_print_it_or_with_dots_alone() {
    for field in [
        "metadata.owner_data['edge.example.org/role']",
        "metadata.owner_data.edge.example.org/role",
    ] {
        let fixture = applied();
        fixture.edit("profiles.yaml", "role: worker}", "role: other}");
        let planned = fixture.run(&["plan"]).with(0).stdout;
        let shown = "metadata.owner_data['edge.example.org/role']";
        assert!(planned.contains(shown), "{planned}");
        fixture
            .run(&["accept", "edge-*", "--write", "--field", field])
            .with(0)
            .saying(shown);
        assert_eq!(fixture.planned(&[]), BTreeMap::new());
    }
}
