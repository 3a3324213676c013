//! `trueup schemas`, and the identity of the schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fixture::Fixture;

#[test]
fn schemas_are_written_and_refreshed() {
    let fixture = Fixture::empty("none");
    let told = fixture.run(&["schemas", "deep/.schemas"]).with(0).stderr;
    assert!(
        told.contains("$schema=deep/.schemas/document.json"),
        "{told}"
    );
    let folder = fixture.checkout.path().join("deep/.schemas");
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let names = |folder: &std::path::Path| -> BTreeSet<std::ffi::OsString> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(&folder), names(&own));
    for name in names(&own) {
        let read = |folder: &std::path::Path| std::fs::read(folder.join(&name)).unwrap();
        assert!(read(&folder) == read(&own), "{name:?}");
    }
    std::fs::write(folder.join("document.json"), "{}").unwrap();
    let told = fixture.run(&["schemas", "deep/.schemas"]).with(0).stderr;
    assert!(told.starts_with("Wrote 1 schema "), "{told}");
    assert_ne!(std::fs::read(folder.join("document.json")).unwrap(), b"{}");
}

#[test]
fn schemas_are_not_written_through_links_of_the_checkout() {
    let fixture = Fixture::empty("none");
    let victim = fixture.checkout.outside().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::fs::create_dir(fixture.checkout.path().join("s")).unwrap();
    fixture
        .checkout
        .link("s/document.json", victim.to_str().unwrap());
    fixture
        .run(&["schemas", "s"])
        .with(1)
        .saying("is a link in the checkout");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn every_schema_has_an_id_by_which_the_others_find_it() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut ids = BTreeSet::new();
    let mut references = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let id = schema["$id"].as_str().unwrap();
        assert_eq!(Some(id), path.file_name().unwrap().to_str());
        ids.insert(id.to_owned());
        let found = text.split("\"$ref\": \"").skip(1);
        let found = found.filter_map(|rest| rest.split(['"', '#']).next());
        references.extend(found.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    assert!(references.is_subset(&ids), "{references:?}");
}

/// The problems of what a command prints as JSON, by a schema.
fn problems(fixture: &Fixture, schema: &str, arguments: &[&str]) -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let text = std::fs::read_to_string(folder.join(format!("{schema}.json"))).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let words: Vec<&str> = arguments
        .iter()
        .chain(&["--format", "json"])
        .copied()
        .collect();
    let shown = fixture.run(&words).with(0).json();
    let found = validator.iter_errors(&shown);
    found
        .map(|error| format!("{arguments:?}: {error} at {}", error.instance_path()))
        .collect()
}

#[test]
fn the_outputs_of_commands_are_valid_by_their_schemas() {
    let fixture = super::accepted::example("edge");
    fixture.checkout.commit("The site");
    let mut found = Vec::new();
    let mut look = |schema, arguments: &[&str]| {
        found.extend(problems(&fixture, schema, arguments));
    };
    // Before anything was done, and when a run has left a machine failed.
    look("status", &["status"]);
    look("log", &["log"]);
    look("nodes", &["nodes"]);
    look("plan", &["plan"]);
    let backends = fixture.read("backends.yaml");
    let backends = backends.replace("      # faults:", "      faults:");
    let backends = backends.replace("      #   - {nodes:", "        - {nodes:");
    let backends = backends.replace("fail-once", "fail");
    std::fs::write(fixture.checkout.path().join("backends.yaml"), backends).unwrap();
    fixture.checkout.commit("Fail");
    fixture.run(&["apply", "--yes"]).with(7);
    fixture.edit("nodes.yaml", "edge-3", "edge-4");
    let mut look = |schema, arguments: &[&str]| {
        found.extend(problems(&fixture, schema, arguments));
    };
    look("status", &["status"]);
    look("log", &["log"]);
    look("log", &["log", "edge-2"]);
    look("show", &["show"]);
    look("diff", &["diff", "HEAD", "worktree"]);
    look("plan", &["plan"]);
    look("plan", &["plan", "--rehearse", "20"]);
    look("plan", &["show", "--plan"]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_plan_tells_whether_it_can_be_applied_in_one_field() {
    let fixture = super::accepted::example("edge");
    fixture.checkout.commit("The site");
    let asked = |fixture: &Fixture| {
        let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
        let answer = &plan["applicability"];
        let refusals = answer["refusals"].as_array().unwrap().iter();
        let reasons = refusals.map(|each| each["reason"].as_str().unwrap().to_owned());
        (
            answer["can_be_applied"].as_bool().unwrap(),
            reasons.collect::<Vec<_>>(),
        )
    };
    assert_eq!(asked(&fixture), (true, Vec::new()));
    let text = fixture.run(&["plan"]).with(0).stdout;
    assert!(!text.contains("Cannot be applied"), "{text}");
    let file = fixture.read("nodes.yaml");
    std::fs::write(
        fixture.checkout.path().join("nodes.yaml"),
        format!("{file}# more\n"),
    )
    .unwrap();
    let reason = "`nodes.yaml` is not committed";
    assert_eq!(asked(&fixture), (false, vec![reason.to_owned()]));
    for format in ["text", "markdown", "html"] {
        let shown = fixture.run(&["plan", "--format", format]).with(0).stdout;
        let shown = shown.replace('\\', "");
        assert!(
            shown.contains("Cannot be applied as it stands"),
            "{format}: {shown}"
        );
        assert!(shown.contains("nodes.yaml"), "{format}: {shown}");
    }
    // The file is a request: the answer in it counts for nothing.
    fixture.run(&["plan", "-o", "site.plan"]).with(0);
    let plan = fixture.read("site.plan");
    let forged = plan.replace("\"can_be_applied\":false", "\"can_be_applied\":true");
    assert_ne!(plan, forged);
    std::fs::write(fixture.checkout.path().join("site.plan"), forged).unwrap();
    let shown = fixture.run(&["show", "site.plan"]).with(0).stdout;
    assert!(shown.contains("Cannot be applied as it stands"), "{shown}");
    fixture.run(&["apply", "site.plan", "--yes"]).with(4);
}
