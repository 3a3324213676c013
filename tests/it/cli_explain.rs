//! `trueup explain`: words and things as JSON, the flags of a blocked change, and words that name nothing.

use serde_json::Value;

use super::accepted::example;
use super::fixture::Fixture;
use super::source_files::{source_files, without_tests};

fn explained(fixture: &Fixture, arguments: &[&str]) -> Value {
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/explanation.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let all: Vec<&str> = ["explain", "--format", "json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let found = fixture.run(&all).with(0).json();
    let problems: Vec<String> = validator
        .iter_errors(&found)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(problems, Vec::<String>::new(), "{found:#}");
    found
}

fn texts<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    let list = list.as_array().unwrap().iter();
    list.map(|each| each[field].as_str().unwrap()).collect()
}

#[test]
fn each_kind_of_explanation_is_valid_by_its_schema() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    assert_eq!(explained(&fixture, &["rule-mtu"])["kind"], "code");
    let field = explained(&fixture, &["shipyard/DeploymentStrategy.groups.selectors"]);
    assert_eq!(
        field["field"]["path"],
        serde_json::json!(["groups", "selectors"])
    );
    assert_eq!(explained(&fixture, &["trueup/Policy"])["kind"], "field");
    let planned = explained(&fixture, &["edge-1"]);
    assert_eq!(planned["basis"]["kind"], "plan");
    assert_eq!(texts(&planned["steps"], "standing"), ["planned"; 3]);
    fixture.run(&["plan", "-o", "site.plan"]).with(0);
    let of_file = explained(&fixture, &["group:workers", "site.plan"]);
    assert_eq!(of_file["basis"]["path"], "site.plan");
    assert_eq!(of_file["group"]["name"], "workers");
    fixture.run(&["apply", "--yes"]).with(0);
    let settled = explained(&fixture, &["edge-1"]);
    let why = settled["unchanged"].as_str().unwrap();
    assert!(why.starts_with("it is as designed"), "{why}");
    let step = explained(&fixture, &["deploy/workers/edge-1"]);
    assert_eq!(step["basis"]["outcome"], "succeeded");
    assert_eq!(texts(&step["steps"], "standing"), ["succeeded"]);
    let run = step["basis"]["run"].as_str().unwrap();
    assert_eq!(explained(&fixture, &[&run[..10]])["subject"]["kind"], "run");
}

#[test]
fn a_machine_is_called_as_designed_only_where_that_is_known() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    let settled = explained(&fixture, &["edge-1"]);
    let why = settled["unchanged"].as_str().unwrap();
    assert!(why.starts_with("it is as designed"), "{why}");
    let told = |word: &str, more: &[&str]| {
        let explain = ["explain", word, "--format", "json"];
        let explained = fixture.run(&[&explain, more].concat()).with(0).json();
        explained["unchanged"].as_str().unwrap().to_owned()
    };
    let unseen = told("edge-3", &["--observed", "none"]);
    assert!(unseen.ends_with("the machine was not observed"), "{unseen}");
    fixture.checkout.write(
        "retirement.yaml",
        "schema: trueup/NodeRetirement/v1\nmetadata: {name: old}\n\
         data: {retirements: [{node_names: [edge-3], reason: broken fan}]}\n",
    );
    fixture.commit_and_apply("Retire a machine", &[]).with(0);
    let retired = told("edge-3", &[]);
    assert!(retired.starts_with("it is retired") && retired.ends_with("broken fan"));
    // Without their records the machines are taken as they are.
    let state = format!("refs/trueup/{}/state", fixture.site());
    fixture.checkout.git(&["update-ref", "-d", &state]);
    fixture.run(&["apply", "--yes", "--adopt", "all"]).with(0);
    let assumed = told("edge-2", &[]);
    assert!(
        assumed.starts_with("it is assumed to be as designed"),
        "{assumed}"
    );
}

#[test]
fn the_command_of_a_blocked_change_unblocks_it() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("The image");
    let blocked = explained(&fixture, &["edge-2"]);
    let chain = &blocked["change"]["fields"][0]["chain"];
    assert_eq!(chain[0]["place"]["file"], "profiles.yaml");
    let command = blocked["ways_out"][0]["command"].as_str().unwrap();
    assert_eq!(command, "trueup plan --allow-redeploy edge-2");
    let words: Vec<&str> = command
        .split(' ')
        .skip(1)
        .chain(["--skip-blocked"])
        .collect();
    let allowed = fixture.run(&words).with(0).stdout;
    assert!(allowed.contains("1 to redeploy"), "{allowed}");
    let refusals = texts(&blocked["refusals"], "reason");
    assert_eq!(refusals, ["the changes of `edge-1` and 2 more are blocked"]);
}

#[test]
fn a_step_that_has_begun_shows_how_long_such_steps_take() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    // Five deploys are enough to know how long one takes.
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
        .run(&["apply", "redeploy", "edge-1", "edge-2", "--yes"])
        .with(0);
    let stopped = ["--stop-after", "8m", "--stop-grace", "1s", "--yes"];
    let stopped: Vec<&str> = ["apply", "redeploy", "edge-3"]
        .into_iter()
        .chain(stopped)
        .collect();
    fixture.run(&stopped).with(8);
    let step = explained(&fixture, &["deploy/workers/edge-3"]);
    let timing = &step["steps"][0]["timing"];
    assert_eq!(step["steps"][0]["standing"], "begun", "{step:#}");
    assert_eq!(timing["recorded"], 5, "{step:#}");
    assert_eq!(timing["usual_most"], 900);
    assert_eq!(timing["overdue"], false);
    assert!(timing["running"].is_u64(), "{step:#}");
    let commands = step["ways_out"].as_array().unwrap().iter();
    let commands: Vec<&str> = commands
        .map(|way| way["command"].as_str().unwrap())
        .collect();
    assert_eq!(commands[0], "trueup apply --resume");
    fixture.run(&["apply", "--resume", "--yes"]).with(0);
}

#[test]
fn a_word_that_names_nothing_is_an_error_that_is_shown_harmlessly() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let ended = fixture.run(&["explain", "edg-1"]).with(1);
    ended.saying("did you mean `edge-1`?");
    let hostile = fixture.run(&["explain", "\u{1b}[31mnone"]).with(1);
    assert!(!hostile.stderr.contains('\u{1b}'), "{}", hostile.stderr);
    fixture
        .run(&["explain", "edge-1", "no.plan"])
        .with(1)
        .saying("neither a file nor a run");
    fixture.checkout.write("bad.plan", "{}");
    fixture
        .run(&["explain", "edge-1", "bad.plan"])
        .with(1)
        .saying("the plan `bad.plan` cannot be read: ");
}

#[test]
fn a_machine_that_an_operator_has_set_aside_is_told_how_that_ends() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-26.04",
    );
    fixture.checkout.commit("Another image");
    for (action, unset) in [
        ("maintenance", "trueup apply maintenance edge-2 --unset"),
        ("retire", "trueup apply retire edge-2 --unset"),
    ] {
        fixture
            .run(&["apply", action, "edge-2", "--yes", "--reason", "fan"])
            .with(0);
        let found = explained(&fixture, &["edge-2"]);
        let commands = found["ways_out"].as_array().unwrap().iter();
        let commands: Vec<&str> = commands.filter_map(|way| way["command"].as_str()).collect();
        // That others are blocked is nothing to it.
        assert_eq!(commands, [unset]);
        let words: Vec<&str> = unset.split(' ').skip(1).chain(["--yes"]).collect();
        fixture.run(&words).with(0);
    }
}

#[test]
fn a_word_of_a_plan_is_explained_without_a_site() {
    let fixture = Fixture::of(super::git::Checkout::new(), "none");
    for (word, section) in [
        ("BLOCKED", "Changes of a plan"),
        ("gate-prepared", "Steps of a site and its groups"),
        ("exit 4", "Exit codes"),
    ] {
        assert_eq!(explained(&fixture, &[word])["section"], section);
        let text = fixture.run(&["explain", word]).with(0).stdout;
        assert!(text.contains(section), "{text}");
    }
}

#[test]
fn a_field_and_a_group_are_explained_by_their_names_alone() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let field = explained(&fixture, &["per_rack"]);
    assert_eq!(field["field"]["kind"], "trueup/Policy/v1");
    assert_eq!(
        field["field"]["path"],
        serde_json::json!(["max_unavailable", "per_rack"])
    );
    let group = explained(&fixture, &["workers"]);
    assert_eq!(group["group"]["name"], "workers");
    let several = fixture.run(&["explain", "labels"]).with(1);
    let words = "`labels` is a field of several maps";
    assert!(several.stderr.contains(words), "{}", several.stderr);
    // Those of a word are named behind it.
    let word = fixture.run(&["explain", "tags"]).with(0).stdout;
    assert!(
        word.contains("Fields of this name: `trueup explain "),
        "{word}"
    );
    // Each that is named can be typed.
    let named = several.stderr.split('`');
    let commands: Vec<&str> = named
        .filter_map(|part| part.strip_prefix("trueup explain "))
        .collect();
    assert!(commands.len() > 1, "{}", several.stderr);
    for field in commands {
        explained(&fixture, &[field]);
    }
    // Also where there is no site.
    let nowhere = Fixture::empty("none");
    explained(&nowhere, &["per_rack"]);
}

/// Commits another image for all machines.
fn build_anew(fixture: &Fixture) {
    let profiles = fixture.read("profiles.yaml");
    let profiles = profiles.replace("ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.write("profiles.yaml", profiles);
    fixture.checkout.commit("Another image");
}

#[test]
fn who_ends_a_refusal_is_named_with_its_command() {
    let fixture = example("control-plane");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
        .run(&["apply", "power", "off", "control-2", "--yes"])
        .with(0);
    build_anew(&fixture);
    let found = explained(&fixture, &["control-3", "--allow-redeploy", "control-3"]);
    let commands: Vec<&str> = found["ways_out"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|way| way["command"].as_str())
        .collect();
    assert_eq!(found["change"]["blocked"]["cause"], "etcd", "{found:#}");
    assert!(
        commands.contains(&"trueup apply power on control-2"),
        "{commands:?}"
    );
    fixture
        .run(&["apply", "power", "on", "control-2", "--yes"])
        .with(0);
    let found = explained(&fixture, &["control-3", "--allow-redeploy", "control-3"]);
    assert_eq!(found["change"]["blocked"], Value::Null, "{found:#}");

    let fixture = example("edge");
    let policy = "schema: trueup/Policy/v1\nmetadata: {name: policy}\n\
                  data: {protected: [{node_names: [edge-2]}]}\n";
    fixture.checkout.write("policy.yaml", policy);
    fixture.checkout.commit("A protected node");
    fixture.run(&["apply", "--yes"]).with(0);
    build_anew(&fixture);
    let found = explained(&fixture, &["edge-2", "--allow-redeploy", "all"]);
    assert_eq!(
        found["change"]["blocked"]["cause"], "protected",
        "{found:#}"
    );
    let ways = found["ways_out"].to_string();
    assert!(ways.contains("`protected` of the Policy"), "{ways}");
    // What it names ends the refusal.
    fixture
        .checkout
        .write("policy.yaml", policy.replace("edge-2", "edge-3"));
    fixture.checkout.commit("Another one");
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    let found = explained(&fixture, &["edge-2", "--allow-redeploy", "all"]);
    assert_eq!(found["change"]["blocked"], Value::Null, "{found:#}");
}

#[test]
fn each_column_of_a_table_is_a_word() {
    let head = regex::Regex::new("\"([A-Z][A-Z ]*[A-Z])\"").unwrap();
    let mut heads = 0;
    for path in source_files("src/report", "rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        let text = without_tests(&text);
        if !text.contains("Table::new(") && !text.contains("Columns::new(") {
            continue;
        }
        for found in head.captures_iter(text) {
            let found = &found[1];
            heads += 1;
            let word = trueup::report::explain::word(found);
            assert!(word.is_some(), "{}: {found}", path.display());
        }
    }
    assert!(heads > 50, "{heads}");
}

#[test]
fn what_the_last_run_left_is_explained_by_that_run_too() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [compute11], step: deploy, outcome: fail, message: no answer from PXE}]",
    );
    fixture.run(&["apply", "--yes"]).with(7);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let run = log["runs"][0]["run"].as_str().unwrap();
    let ways = |thing: &str| explained(&fixture, &[thing])["ways_out"].clone();
    let command = format!("trueup explain compute11 {run}");
    let found = ways("compute11");
    assert!(
        found
            .as_array()
            .unwrap()
            .iter()
            .any(|way| way["command"] == *command),
        "{found:#}"
    );
    // It holds, and names nothing that the run did as planned.
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    let told = explained(&fixture, &words);
    assert!(told.to_string().contains("no answer from PXE"), "{told:#}");
    assert!(!ways("compute12").to_string().contains("trueup explain"));
}
