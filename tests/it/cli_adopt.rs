//! `trueup adopt`: the documents of what runs, and the way from there to an empty plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::accepted::example;
use super::amount::number;
use super::dice::Dice;
use super::fixture::{Ended, Fixture};

/// Sites that are adopted if no number is given.
const SEEDS: u64 = 4;

/// The documents of a random simulated site, and the labels of each machine.
fn drawn(dice: &mut Dice) -> (String, BTreeMap<String, BTreeMap<String, String>>) {
    let mut text = "schema: trueup/Backends/v1\nmetadata: {name: backends}\ndata:\n  hardware: {kind: sim, sim: {clock: virtual}}\n"
        .to_owned();
    let mut labels = BTreeMap::new();
    let count = 1 + dice.below(12);
    let members = dice.pick(&[0, 0, 1, 3]).min(count);
    for number in 0..count {
        let mut own = BTreeMap::new();
        for (key, values) in [
            ("zone", &["a", "b", "1.0"][..]),
            ("example.org/role", &["worker", "true"]),
            ("node-role.kubernetes.io/control-plane", &[""]),
        ] {
            if dice.chance(60) {
                own.insert(key.to_owned(), dice.pick(values).to_owned());
            }
        }
        let name = format!("n{number:02}");
        let shown: Vec<String> = own
            .iter()
            .map(|(key, value)| format!("{key}: '{value}'"))
            .collect();
        let _ = write!(
            text,
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {name}}}\ndata:\n  metadata: {{owner_data: {{{}}}}}\n",
            shown.join(", ")
        );
        labels.insert(name, own);
    }
    if members > 0 {
        text.push_str(
            "---\nschema: promenade/EtcdClusters/v1\nmetadata: {name: etcd}\ndata:\n  clusters:\n    - name: main\n      members:\n",
        );
        for number in 0..members {
            let _ = writeln!(
                text,
                "        - {{node: n{number:02}, name: n{number:02}, peer_url: 'https://10.0.0.{number}:2380', client_url: \
                 'https://10.0.0.{number}:2379'}}"
            );
        }
    }
    (text, labels)
}

/// A repository that knows nothing of the site that runs, but if its machines are simulated.
pub(crate) fn next_to(running: &Fixture) -> Fixture {
    let fresh = Fixture::empty(running.site());
    let state = fresh.simulated_site();
    std::fs::create_dir_all(state.parent().unwrap()).unwrap();
    std::fs::copy(running.simulated_site(), &state).unwrap();
    fresh
}

/// The YAML files of a folder, by name.
fn documents(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.path().is_file());
    let files = files.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    });
    files.collect()
}

fn adopt(fixture: &Fixture, more: &[&str]) -> Ended {
    fixture.run(&[&["adopt", "-o", fixture.site()], more].concat())
}

/// The rendered designs of machines, as `nodes` lists them for scripts.
fn designs(fixture: &Fixture) -> Vec<serde_json::Value> {
    let listed = fixture.run(&["nodes", "--format", "json"]).with(0).json();
    match listed {
        serde_json::Value::Array(all) => all,
        other => other["nodes"].as_array().unwrap().clone(),
    }
}

fn round_trip(seed: u64) {
    let mut dice = Dice(seed);
    let (text, labels) = drawn(&mut dice);
    let running = Fixture::empty("drawn");
    running.checkout.write(
        "site-definition.yaml",
        "schema: pegleg/SiteDefinition/v1\nmetadata: {name: drawn}\ndata: {}\n",
    );
    running.checkout.write("site.yaml", text.clone());
    running.commit_and_apply("The site as it runs", &[]).with(0);

    let fresh = next_to(&running);
    adopt(&fresh, &["--from", "sim"]).with(0);
    let folder = fresh.checkout.path().join("drawn");
    let first = documents(&folder);
    fresh.checkout.commit("Adopt what runs");
    // The designs are those of the site that runs, as far as a machine shows them.
    let rows = designs(&fresh);
    assert_eq!(rows.len(), labels.len(), "seed {seed}: {rows:#?}");
    let rendered = fresh.run(&["render", "--format", "json"]).with(0).stdout;
    for (name, labels) in &labels {
        assert!(
            rendered.contains(&format!("\"{name}\"")),
            "seed {seed}: {name}"
        );
        for key in labels.keys() {
            assert!(
                rendered.contains(&format!("\"{key}\"")),
                "seed {seed}: {key}"
            );
        }
    }
    // All of it is an adoption, which asks the machines for nothing.
    let before = fresh.ledger();
    let planned = fresh.planned(&[]);
    assert_eq!(planned.len(), labels.len(), "seed {seed}");
    assert!(
        planned.values().all(|kind| kind == "adopt"),
        "seed {seed}: {planned:?}"
    );
    fresh.run(&["apply", "--yes", "--adopt", "all"]).with(0);
    assert_eq!(fresh.ledger(), before, "seed {seed}");
    assert_eq!(fresh.planned(&[]), BTreeMap::new(), "seed {seed}");
    // The labels are all that is to be kept: without one of them the plan relabels.
    if let Some((_, labels)) = labels.iter().find(|(_, labels)| !labels.is_empty()) {
        let key = labels.keys().next().unwrap();
        let is_designed = first.values().any(|text| text.contains(key));
        assert!(is_designed, "seed {seed}: {key}");
    }
    adopt(&fresh, &[]).with(0).saying("no machine was added");
    assert_eq!(documents(&folder), first, "seed {seed}");
    // The machines and their profiles, against what was written by hand for the same.
    let length = |name: &str| first.get(name).map_or(0, String::len);
    let written = length("nodes.yaml") + length("profiles.yaml");
    let by_hand: usize = text
        .split("---\n")
        .filter(|document| document.contains("BaremetalNode"))
        .map(|document| document.len() + 4)
        .sum();
    // Each machine gets the tag by which its group selects it, which those written by hand do without.
    let by_hand = by_hand + labels.len() * "    tags: [control-plane]\n".len();
    assert!(
        written <= by_hand + by_hand / 5 + 400,
        "seed {seed}: {written} for {by_hand}"
    );
}

#[test]
fn a_site_that_runs_is_adopted_and_its_plan_is_then_empty() {
    match number("TRUEUP_TEST_SEED") {
        Some(seed) => round_trip(seed),
        None => (0..number("TRUEUP_TEST_SEEDS").unwrap_or(SEEDS).min(1000)).for_each(round_trip),
    }
}

#[test]
fn documents_of_a_person_stay_and_only_new_machines_come_in_files_of_their_own() {
    let running = Fixture::one_rack();
    running.commit_and_apply("Build it", &[]).with(0);
    let before = documents(running.checkout.path());
    running
        .run(&["adopt"])
        .with(0)
        .saying("no machine was added");
    // One machine is taken out of the documents, and its record is lost.
    let nodes = "nodes/time.yaml";
    let text = running.read(nodes);
    std::fs::remove_file(running.checkout.path().join(nodes)).unwrap();
    running
        .run(&["adopt"])
        .with(0)
        .saying("it has a record, and no document")
        .saying("no machine was added");
    running
        .checkout
        .git(&["update-ref", "-d", "refs/trueup/one-rack/state"]);
    running.run(&["adopt"]).with(0).saying("Wrote ");
    let after = documents(running.checkout.path());
    for (name, text) in &before {
        assert_eq!(after.get(name), Some(text), "{name}");
    }
    let new: Vec<&str> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .map(String::as_str)
        .collect();
    assert!(
        new.contains(&"nodes.yaml") && new.contains(&"ADOPTED.md"),
        "{new:?}"
    );
    assert!(!new.contains(&"strategy.yaml"), "{new:?}");
    assert!(
        text.contains(
            after["nodes.yaml"]
                .split("metadata: {name: ")
                .nth(1)
                .unwrap()
                .split('}')
                .next()
                .unwrap()
        )
    );
}

const FIELDS: &str = "hardware_profile, platform.image, platform.kernel, storage, interfaces, primary_network, addressing, boot_actions";
const IMAGE: &str = "  platform: {image: ubuntu-24.04}\n";
const STORAGE: &str =
    "  storage: {physical_devices: {sda: {partitions: [{name: root, size: 30g}]}}}\n";
const REDEPLOY: [&str; 4] = ["apply", "redeploy", "edge-1", "--yes"];
const ANY: [&str; 2] = ["--allow-redeploy", "all"];

/// A site that was adopted with all that runs.
fn adopted() -> Fixture {
    let running = example("edge");
    running.commit_and_apply("Build it", &[]).with(0);
    let fixture = next_to(&running);
    adopt(&fixture, &["--from", "sim"]).with(0);
    fixture
        .commit_and_apply("Adopt it", &["--adopt", "all"])
        .with(0);
    fixture
}

/// Adds fields to the profile of all machines, and commits that.
fn fill(fixture: &Fixture, fields: &str) {
    let profiles = format!("{}/profiles.yaml", fixture.site());
    let text = fixture.read(&profiles) + fields;
    fixture.checkout.write(&profiles, text);
    fixture.checkout.commit("Tell what is on them");
}

fn kinds(fixture: &Fixture, flags: &[&str]) -> String {
    let changes: std::collections::BTreeSet<String> =
        fixture.planned(flags).into_values().collect();
    changes.into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_machine_of_which_a_field_is_open_is_not_built_and_an_answer_changes_none() {
    let fixture = adopted();
    let before = fixture.ledger();
    fixture
        .run(&REDEPLOY)
        .with(4)
        .saying("`hardware_profile`, `platform.image`, `platform.kernel`, `storage`");
    // One fact that is seen, and one that is not.
    fill(&fixture, &format!("{IMAGE}{STORAGE}"));
    assert_eq!(kinds(&fixture, &ANY), "adopt");
    let shown = fixture.run(&["plan"]).with(0).stdout;
    assert!(
        shown.contains("platform: {\"image\":\"ubuntu-24.04\"}"),
        "{shown}"
    );
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(4)
        .saying("--adopt");
    fixture.run(&["apply", "--yes", "--adopt", "all"]).with(0);
    assert_eq!(kinds(&fixture, &[]), "");
    fixture
        .run(&REDEPLOY)
        .with(4)
        .saying("`hardware_profile`, `platform.kernel`, `interfaces`");
    // What is adopted later is an answer, too, and a value in the place of another is none.
    fixture.edit(
        "edge/profiles.yaml",
        "{image: ubuntu-24.04}",
        "{image: ubuntu-24.04, kernel: generic}",
    );
    fixture.checkout.commit("Tell the kernel");
    assert_eq!(kinds(&fixture, &ANY), "adopt");
    fixture.edit("edge/profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("Take the next image, too");
    assert_eq!(kinds(&fixture, &ANY), "redeploy");
    fixture
        .run(&[
            "apply",
            "--yes",
            "--allow-redeploy",
            "all",
            "--allow-intermediate-commits",
        ])
        .with(4);
    fixture.edit(
        "edge/profiles.yaml",
        "ubuntu-26.04, kernel: generic",
        "ubuntu-24.04",
    );
    fixture.edit(
        "edge/adoption.yaml",
        &format!("open: [{FIELDS}]"),
        "open: []",
    );
    fixture.edit(
        "edge/adoption.yaml",
        "assumed: []",
        &format!("assumed: [{FIELDS}]"),
    );
    fixture
        .commit_and_apply(
            "Nothing else is on them",
            &["--adopt", "all", "--allow-intermediate-commits"],
        )
        .with(0);
    assert_eq!(fixture.ledger(), before);
    assert_eq!(kinds(&fixture, &[]), "");
    // From now on another value is a change.
    fixture.edit(
        "edge/profiles.yaml",
        "{image: ubuntu-24.04}",
        "{image: ubuntu-24.04, kernel: generic}",
    );
    fixture.checkout.commit("Take another kernel");
    assert_eq!(kinds(&fixture, &ANY), "redeploy");
    fixture.run(&REDEPLOY).with(0);
}

#[test]
fn what_was_open_stays_so_whatever_becomes_of_the_documents() {
    let fixture = adopted();
    let before = fixture.ledger();
    std::fs::remove_file(fixture.checkout.path().join("edge/adoption.yaml")).unwrap();
    fill(&fixture, IMAGE);
    fixture.run(&REDEPLOY).with(4).saying("`storage`");
    assert_eq!(kinds(&fixture, &ANY), "adopt");
    fixture.run(&["apply", "--yes", "--adopt", "all"]).with(0);
    fill(&fixture, STORAGE);
    assert_eq!(kinds(&fixture, &ANY), "adopt");
    // Another change of the same commit is carried out, and takes no answer into the record.
    fixture.edit(
        "edge/profiles.yaml",
        "example.org/role: worker",
        "example.org/role: wrk",
    );
    fixture.checkout.commit("Label them anew, too");
    assert_eq!(kinds(&fixture, &ANY), "relabel");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    assert_eq!(kinds(&fixture, &ANY), "adopt");
    // A machine that is off is switched on before; one that cannot be observed waits.
    fixture
        .run(&["apply", "power", "off", "edge-1", "--yes"])
        .with(0);
    let changes = fixture.planned(&["--adopt", "all"]);
    assert_eq!(
        (&*changes["edge-1"], &*changes["edge-2"]),
        ("drift", "adopt")
    );
    let unseen = fixture.run(&[
        "plan",
        "--observed",
        "none",
        "--adopt",
        "all",
        "--format",
        "json",
    ]);
    let unseen = unseen.with(0).json();
    for change in unseen["changes"].as_array().unwrap() {
        assert_eq!(change["kind"], "adopt", "{change}");
        assert!(change["blocked"].is_object(), "{change}");
    }
    assert_eq!(fixture.effects("began wipe"), 0);
    let wiped = |ledger: &BTreeMap<String, usize>| {
        ledger.keys().filter(|each| each.contains("wiped")).count()
    };
    assert_eq!(wiped(&fixture.ledger()), wiped(&before));
}

#[test]
fn what_no_document_has_is_open_though_the_adoption_document_went_before() {
    let running = example("edge");
    running.commit_and_apply("Build it", &[]).with(0);
    let fixture = next_to(&running);
    adopt(&fixture, &["--from", "sim"]).with(0);
    std::fs::remove_file(fixture.checkout.path().join("edge/adoption.yaml")).unwrap();
    fixture
        .commit_and_apply("Adopt it", &["--adopt", "all"])
        .with(0);
    fixture
        .run(&REDEPLOY)
        .with(4)
        .saying("`platform.image`, `storage`, `interfaces`");
    assert_eq!(fixture.effects("began wipe"), 0);
}

#[test]
fn flags_that_do_not_fit_are_refused_before_anything_is_written() {
    let fixture = Fixture::empty("new");
    for (rest, said) in [
        ("", "--from KIND"),
        ("--from ironic", "needs `--url URL`"),
        ("--from redfish", "needs `--range CIDR`"),
        (
            "--from redfish --range 10.0.0.0/24",
            "needs `--username NAME --credentials REF`",
        ),
        (
            "--from maas --url https://maas.example.org",
            "needs `--credentials REF`",
        ),
        (
            "--from sim --range 10.0.0.0/24",
            "`--from sim` takes no `--range`",
        ),
        (
            "--from redfish --range 300.0.0.0/24",
            "not an address range, such as `10.23.0.0/16`",
        ),
        ("--from metal3", "needs `--kubeconfig REF`"),
        ("-o a,b --from sim", "becomes the name of the site"),
        (
            "--from maas --url https://m --credentials hunter2",
            "by reference",
        ),
        ("--from sim --etcd x", "NAME=URL"),
    ] {
        let into = ["-o", "new"].into_iter();
        let into = into.filter(|_| !rest.contains("-o "));
        let words = ["adopt"].into_iter().chain(into);
        let arguments: Vec<&str> = words.chain(rest.split_whitespace()).collect();
        let ended = fixture.run(&arguments).with(64);
        assert!(ended.stderr.contains(said), "{rest}: {}", ended.stderr);
        assert!(!fixture.checkout.path().join("new").exists(), "{rest}");
    }
    fixture
        .checkout
        .write("machines.csv", "name,rack\na b,r1\n,r2\n");
    fixture
        .run(&[
            "adopt",
            "-o",
            "new",
            "--from",
            "sim",
            "--machines",
            "machines.csv",
        ])
        .with(1)
        .saying("line 2: ")
        .saying("line 3: ");
    assert!(!fixture.checkout.path().join("new").exists());
}

#[test]
fn devices_of_netbox_say_where_machines_stand() {
    let running = super::accepted::example("edge");
    running.commit_and_apply("The site", &[]).with(0);
    let fresh = next_to(&running);
    fresh.checkout.write(
        "netbox.json",
        r#"{"count": 3, "results": [
            {"id": 7, "name": "edge-1", "rack": {"name": "r9"}, "role": {"slug": "worker"}},
            {"id": 8, "name": "edge-7", "serial": "S-77", "rack": {"name": "r9"}},
            {"id": 9, "name": "top of\u001b[31m rack", "rack": {"name": "r9"}}]}"#,
    );
    let list = fresh.checkout.path().join("netbox.json");
    let ended = adopt(
        &fresh,
        &["--from", "sim", "--machines", list.to_str().unwrap()],
    )
    .with(0);
    ended
        .saying("row edge-7 of the table: it is about no machine that was found")
        .saying("device `top of\\u{1b}[31m rack`: its name cannot be that of a node");
    let nodes = documents(&fresh.checkout.path().join("edge"))["nodes.yaml"].clone();
    assert!(nodes.contains("r9") && nodes.contains("worker"), "{nodes}");
}

#[test]
fn nothing_is_asked_of_an_address_that_is_not_trusted() {
    let fixture = Fixture::empty("far");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let arguments = [
        "adopt",
        "-o",
        "far",
        "--from",
        "ironic",
        "--url",
        &url,
        "--credentials",
        "env:TOKEN",
    ];
    let ended = fixture.run(&arguments).with(4);
    assert!(ended.stderr.contains("trueup trust"), "{}", ended.stderr);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was contacted");
    // What it would ask stands in documents now, which `trust` shows and the next call takes.
    let trust = fixture.run(&["trust", "-C", "far"]);
    assert!(trust.stdout.contains(&url), "{}", trust.stdout);
    adopt(&fixture, &["--from", "ironic", "--url", &url])
        .with(64)
        .saying("leave `--from` out");
}

#[test]
fn a_range_in_which_no_controller_could_be_observed_is_no_success() {
    let fixture = example("redfish");
    let settings = "schema: trueup/Backends/v1\nmetadata: {name: backends}\ndata:\n  hardware:\n    kind: redfish\n    \
                    redfish: {port: 9, scheme: http, networks: [127.0.0.8/30], request_timeout: 1}\n";
    let definition = fixture.read("site-definition.yaml");
    fixture
        .checkout
        .git(&["rm", "-rqf", "--ignore-unmatch", "."]);
    for entry in std::fs::read_dir(fixture.checkout.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "yaml") {
            std::fs::remove_file(path).unwrap();
        }
    }
    fixture.checkout.write("site-definition.yaml", definition);
    fixture.checkout.write("backends.yaml", settings);
    fixture.checkout.commit("A range");
    fixture.run(&["trust", "--yes"]);
    fixture
        .run(&["adopt"])
        .with(1)
        .saying("machine 127.0.0.9: it could not be observed");
}
