//! `trueup validate` as a user runs it: all mistakes at once, each on its line, in every format.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::accepted::example;
use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;

/// One of the sites in `fixtures`, in a repository of its own.
pub(crate) fn fixture(site: &str) -> Fixture {
    let fixture = Fixture::of(Checkout::new(), site);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(site);
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture
}

/// File, line and code.
type Found = (String, u64, String);

/// What the files say is wrong with them: lines that end with `expect:` and a code.
fn expected(fixture: &Fixture) -> BTreeSet<Found> {
    let mut expected = BTreeSet::new();
    for entry in std::fs::read_dir(fixture.checkout.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".yaml") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            if let Some((_, code)) = line.split_once("# expect: ") {
                expected.insert((name.clone(), number as u64 + 1, code.to_owned()));
            }
        }
    }
    assert_eq!(expected.len(), 8);
    expected
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

#[test]
fn eight_mistakes_are_reported_at_once_each_on_its_line() {
    let fixture = fixture("eight-errors");
    let ended = fixture.run(&["validate", "--format", "json"]).with(1);
    let report = ended.json();
    let problems = report["diagnostics"].as_array().unwrap();
    let found: BTreeSet<Found> = problems
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .map(|problem| {
            (
                text(&problem["file"]),
                problem["line"].as_u64().unwrap(),
                text(&problem["code"]),
            )
        })
        .collect();
    assert_eq!(found, expected(&fixture), "{}", ended.stdout);
    let hint = |code: &str| {
        let problem = problems.iter().find(|problem| problem["code"] == code);
        text(&problem.unwrap()["hint"])
    };
    assert_eq!(hint("reference-host-profile"), "did you mean `worker`?");
    assert!(hint("yaml-tab").contains("spaces"));
    assert_eq!(hint("yaml-syntax"), "close it with `}`");
}

#[test]
fn people_are_shown_the_lines_and_what_belongs_to_them() {
    let fixture = fixture("eight-errors");
    let ended = fixture.run(&["validate"]).with(1);
    for (file, line, code) in expected(&fixture) {
        assert!(ended.stdout.contains(&format!("error[{code}]: ")), "{code}");
        assert!(
            ended.stdout.contains(&format!("--> {file}:{line}:")),
            "{file}:{line}"
        );
    }
    for shown in [
        "hint: did you mean `worker`?",
        "a map in braces that begins here is not closed",
        "first written here",
        "the network is here",
        "first → second → first",
        "8 errors",
    ] {
        assert!(ended.stdout.contains(shown), "`{shown}`\n{}", ended.stdout);
    }
    assert_eq!(ended.stderr, "");
}

#[test]
fn every_format_for_machines_has_every_mistake() {
    let fixture = fixture("eight-errors");
    for format in ["github", "sarif", "junit", "codequality"] {
        let ended = fixture.run(&["validate", "--format", format]).with(1);
        for (file, line, code) in expected(&fixture) {
            let told = match format {
                "github" => vec![format!("file={file},line={line}"), code],
                "sarif" | "codequality" => vec![file, code],
                _ => vec![file, format!("{line}:")],
            };
            for each in told {
                assert!(ended.stdout.contains(&each), "{format}: {each}");
            }
        }
    }
    let sarif = fixture.run(&["validate", "--format", "sarif"]).json();
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 8);
}

#[test]
fn a_site_with_mistakes_goes_nowhere_and_a_sound_one_is_valid() {
    let fixture = fixture("eight-errors");
    for command in ["render", "plan", "nodes", "diff"] {
        fixture.run(&[command]).with(1).saying("error[yaml-tab]");
    }
    fixture.run(&["apply", "--yes"]).with(1);
    assert!(fixture.tags().is_empty());

    let sound = Fixture::one_rack();
    let ended = sound.run(&["validate"]).with(0);
    assert!(
        ended.stdout.contains("site `one-rack` is valid"),
        "{}",
        ended.stdout
    );
    sound.run(&["validate", "--format", "yaml"]).with(64);
    sound
        .run(&["validate", "--rev", "no-such-revision"])
        .with(1)
        .saying("no-such-revision");
    // What is committed counts if it is asked for, and the worktree otherwise.
    sound.checkout.write("nodes/extra.yaml", "a: [\n");
    sound.run(&["validate"]).with(1);
    sound.run(&["validate", "--rev", "committed"]).with(0);
}

#[test]
fn a_name_that_a_broken_file_may_hold_is_not_reported_and_any_other_is() {
    let fixture = fixture("eight-errors");
    fixture.checkout.write(
        "profiles.yaml",
        "---\nschema: drydock/HostProfile/v1\nmetadata: {name: worker}\ndata: [\n",
    );
    let ended = fixture.run(&["validate", "--format", "json"]).with(1);
    let report = ended.json();
    let missing: Vec<u64> = report["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["code"] == "reference-host-profile")
        .map(|problem| problem["line"].as_u64().unwrap())
        .collect();
    assert_eq!(missing, [5], "{}", ended.stdout);
}

#[test]
fn a_site_whose_definition_has_another_name_is_told_so() {
    let fixture = example("multi-site");
    fixture.checkout.commit("Sites");
    fixture.run(&["validate", "--site", "south"]).with(0);
    fixture.checkout.git(&["mv", "site/south", "site/west"]);
    let told = fixture.run(&["validate", "--site", "west"]).with(0);
    let warning = "[reference-site-name]: the definition of site `west` has the name `south`";
    assert!(told.stdout.contains(warning), "{}", told.stdout);
}

#[test]
fn documents_beside_the_definition_of_a_site_count_too() {
    let fixture = Fixture::one_rack();
    let definition = fixture.read("site-definition.yaml");
    let node = "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: beside}\ndata: {host_profile: nobody}\n";
    fixture
        .checkout
        .write("site-definition.yaml", definition + node);
    let ended = fixture.run(&["validate"]).with(1);
    let said = "there is no host profile `nobody`";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
}

#[test]
fn a_policy_silences_warnings_by_their_codes_and_never_errors() {
    let fixture = super::accepted::example("edge");
    fixture.edit(
        "profiles.yaml",
        "    eno1:\n",
        "    eno1:\n      colour: red\n      shape: round\n",
    );
    let policy = |silence: &str| {
        let head = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: ";
        fixture
            .checkout
            .write("policy.yaml", format!("{head}{silence}\n"));
        fixture.run(&["validate", "--format", "json"])
    };
    let codes = |ended: super::fixture::Ended| -> Vec<String> {
        let report = ended.json();
        let list = report["diagnostics"].as_array().unwrap();
        list.iter().map(|each| text(&each["code"])).collect()
    };
    let loud = codes(policy("{}").with(0));
    assert_eq!(loud, ["schema-unknown-field"; 2]);
    let quiet = codes(policy("{silence: [schema-unknown-field]}").with(0));
    assert_eq!(quiet, Vec::<String>::new());
    let plan = fixture.run(&["plan"]);
    assert!(!plan.stderr.contains("warning"), "{}", plan.stderr);
    // Where it is no warning it is reported all the same.
    let data = "metadata: {name: edge-1}\ndata:\n";
    fixture.edit("nodes.yaml", data, &format!("{data}  colour: red\n"));
    let error = codes(policy("{silence: [schema-unknown-field]}").with(1));
    assert_eq!(error, ["schema-unknown-field"]);
    for unknown in ["schema-unknown-feld", "rule-tls-unverified", "yaml-syntax"] {
        let refused = codes(policy(&format!("{{silence: [{unknown}]}}")).with(1));
        assert!(refused.contains(&"schema-value".to_owned()), "{unknown}");
    }
}

#[test]
fn a_timeout_in_which_nothing_can_be_done_is_refused() {
    let fixture = Fixture::one_rack();
    fixture.edit("strategy.yaml", "deploy_timeout: 3600", "deploy_timeout: 0");
    let ended = fixture.run(&["validate"]).with(1);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        said.contains("`data.physical_provisioner.deploy_timeout`"),
        "{said}"
    );
    assert!(said.contains("strategy.yaml:56"), "{said}");
    // No wait at all is one that can be kept.
    fixture.edit(
        "strategy.yaml",
        "deploy_timeout: 0",
        "deploy_timeout: 3600\n    join_wait: 0",
    );
    fixture.run(&["validate"]).with(0);
}

#[test]
fn of_a_new_file_the_line_of_a_field_is_quoted_and_no_other() {
    let fixture = fixture_of_edge();
    let machine = "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: edge-4}\ndata:\n  host_profile: wrker\n  description: hunter2-beside\n  oob: {type: manual}\n  secrte: hunter2-unknown\n  metadata: {rack: closet, tags: hunter2-tags, boot_mac: hunter2-mac}  # password\n";
    fixture.checkout.write("new.yaml", machine);
    let ended = fixture.run(&["validate"]).with(1);
    let said = &format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("5 |   host_profile: wrker"), "{said}");
    assert!(said.contains("did you mean `worker`?"), "{said}");
    assert!(!said.contains("hunter2-beside"), "{said}");
    assert!(!said.contains("hunter2-unknown"), "{said}");
    fixture.checkout.write(
        "new.yaml",
        machine
            .replace("wrker", "worker")
            .replace("tags: hunter2-tags", "tags: []"),
    );
    fixture.checkout.write(
        "odd.yaml",
        "---\nschema: a/b/v1\nmetadata: {name: x, name: hunter2-twice}\ndata: {}\n",
    );
    let ended = fixture.run(&["validate"]).with(1);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!said.contains("hunter2-twice"), "{said}");
    assert!(said.contains("`git add` it"), "{said}");
}

fn fixture_of_edge() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture
}

#[test]
fn files_that_the_policy_names_are_checked_with_its_documents() {
    let fixture = super::accepted::example("edge");
    let policy = |data: &str| {
        let text = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: ";
        fixture
            .checkout
            .write("policy.yaml", format!("{text}{{{data}}}\n"));
    };
    let finds = |says: &str| {
        let found = fixture.run(&["validate"]).with(1);
        assert!(found.stdout.contains(says), "{says}: {}", found.stdout);
    };
    policy("approvals: {redeploy: 1, allowed_signers: allowed_signers}");
    finds("error[rule-allowed-signers]: the allowed signers of the Policy are void");
    fixture
        .checkout
        .write("allowed_signers", "*@example.org ssh-ed25519 AAAA\n");
    finds("error[rule-allowed-signers]");
    fixture.checkout.write("allowed_signers", "");
    finds("error[rule-allowed-signers]");
    policy("rego: policies");
    finds("error[rule-rego]: there are no rules in `policies`");
    let write = |text: &str| fixture.checkout.write("policies/a.rego", text);
    write("package x\ndeny contains msg if {");
    finds("error[rule-rego]: the rules in `policies/a.rego` cannot be read");
    write("package x\nimport rego.v1\ndeny contains \"b\" if input.foo == nope\n");
    let warned = fixture.run(&["validate"]).with(0).stdout;
    assert!(
        warned.contains("warning[rule-rego]: on an empty plan"),
        "{warned}"
    );
    write("package x\nimport rego.v1\ndeny contains \"b\" if input.foo == 1\n");
    let valid = fixture.run(&["validate"]).with(0).stdout;
    assert!(!valid.contains("rule-rego"), "{valid}");
}

#[test]
fn how_a_controller_is_reached_and_which_machine_it_is_of_is_checked_with_the_documents() {
    let own = "oob: {uuid: 4c4c4544-0051-3510-8050-b4c04f323201}";
    let oob = |fields: &str| {
        let fixture = example("redfish");
        fixture.edit("nodes.yaml", own, &format!("oob: {{{fields}}}"));
        fixture.run(&["validate"])
    };
    for (fields, code, told) in [
        (
            "port: 99999",
            1,
            "`oob.port` is none that a controller is reached at",
        ),
        ("port: 0", 1, "`oob.port` is none"),
        ("port: -5", 1, "`oob.port` is none"),
        (
            "address: 'http://10.60.0.11'",
            1,
            "`oob.address` is none that",
        ),
        (
            "address: 10.60.0.11/redfish",
            1,
            "`oob.address` is none that",
        ),
        ("address: '10.60.0.11:443'", 1, "`oob.address` is none that"),
        ("address: ''", 1, "`oob.address` is none that"),
        ("address: [10.60.0.11]", 1, "must be a null or string"),
        ("adress: 10.60.0.11", 0, "did you mean `address`?"),
        ("uuid: not-a-uuid", 0, "this UUID proves nothing"),
    ] {
        let said = oob(fields).with(code);
        let text = said.stdout + &said.stderr;
        assert!(text.contains(told), "{fields}: {text}");
    }
    for fields in [
        "address: 10.60.0.11, port: 8443, system: 1",
        "address: 'fd00::11', port: '8443', serial: 12345",
        "address: bmc-1.example.org, uuid: 4c4c4544-0051-3510-8050-b4c04f323201",
        "'!address': null",
    ] {
        oob(fields).with(0);
    }
    for (old, new) in [
        ("iso/{node}.iso", "iso/{nod}.iso"),
        (
            "https://images.example.org/iso/{node}.iso",
            "/iso/{node}.iso",
        ),
        ("report/{node}", "report/{name}"),
    ] {
        let fixture = example("redfish");
        fixture.edit("backends.yaml", old, new);
        let said = fixture.run(&["validate"]).with(1);
        let text = said.stdout + &said.stderr;
        assert!(
            text.contains("has not the form that is wanted"),
            "{new}: {text}"
        );
    }
}

#[test]
fn what_is_wrong_in_a_rollout_of_a_site_is_told_once() {
    let fixture = example("edge");
    fixture.checkout.write(
        "rollouts/fleet.yaml",
        "---\nschema: trueup/Rollout/v1\nmetadata: {name: fleet}\ndata: {phasse: [{rest: true}]}\n",
    );
    let said = fixture.run(&["validate"]).with(1);
    let text = said.stdout + &said.stderr;
    assert_eq!(text.matches("unknown field `phasse`").count(), 1, "{text}");
}
