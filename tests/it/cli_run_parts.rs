//! `trueup run parts`: how a saved plan is cut for many workers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::accepted::example;
use super::fixture::Fixture;

/// An example of sites, committed, with its plan saved as `site.plan`.
fn planned(name: &str) -> Fixture {
    let fixture = example(name);
    fixture.checkout.commit("The site");
    fixture.run(&["plan", "-o", "site.plan"]).with(0);
    fixture
}

#[test]
fn parts_are_shown_with_their_order() {
    let fixture = planned("edge");
    let shown = fixture.run(&["run", "parts", "site.plan", "--nodes-per-part", "2"]);
    insta::assert_snapshot!(shown.with(0).stdout, @r"
    Plan of site edge: 8 parts, of at most 2 nodes each; 10 tasks with the begin and the end of the run

    PART                   KIND     STEPS  NODES           AFTER
    site                   site     2      -               -
    workers.start          start    1      -               site
    workers.prepare-1      prepare  2      edge-1, edge-2  workers.start
    workers.prepare-2      prepare  1      edge-3          workers.start
    workers.gate-prepared  gate     1      -               workers.prepare-1, workers.prepare-2
    workers.deploy-1       deploy   4      edge-1, edge-2  workers.gate-prepared
    workers.deploy-2       deploy   2      edge-3          workers.gate-prepared
    workers.gate-deployed  gate     1      -               workers.deploy-1, workers.deploy-2
    ");
    let shown = fixture.run(&["run", "parts", "site.plan", "--max-tasks", "4"]);
    insta::assert_snapshot!(shown.with(0).stdout, @r"
    Plan of site edge: 1 part, of at most 1004 nodes each; 3 tasks with the begin and the end of the run

    PART   KIND     STEPS  NODES                   AFTER
    parts  several  14     edge-1, edge-2, edge-3  -
    ");
}

#[test]
fn parts_as_json_are_valid_by_their_schema_and_name_each_step_once() {
    let schema: Value = serde_json::from_str(include_str!("../../schemas/parts.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in ["edge", "control-plane"] {
        let fixture = planned(name);
        let plan: Value = serde_json::from_str(&fixture.read("site.plan")).unwrap();
        let parts = fixture.run(&["run", "parts", "site.plan", "--format", "json"]);
        let parts = parts.with(0).json();
        let problems: Vec<_> = validator
            .iter_errors(&parts)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(parts["plan"], plan["digest"]);
        let all = parts["parts"].as_array().unwrap();
        assert_eq!(parts["tasks"], all.len() + 2);
        let steps = all
            .iter()
            .flat_map(|part| part["steps"].as_array().unwrap());
        let steps: Vec<&str> = steps.map(|step| step.as_str().unwrap()).collect();
        let each: BTreeSet<&str> = steps.iter().copied().collect();
        let planned = plan["steps"].as_array().unwrap().iter();
        let planned = planned.map(|step| step["id"].as_str().unwrap());
        let ends = ["critical-check", "tag"];
        let planned: BTreeSet<&str> = planned.filter(|step| !ends.contains(step)).collect();
        assert_eq!((steps.len(), &each), (each.len(), &planned));
    }
}

#[test]
fn a_file_that_is_no_plan_and_a_number_that_is_none_are_refused() {
    let fixture = planned("edge");
    let text = fixture.read("site.plan");
    fixture
        .checkout
        .write("altered.plan", text.replacen("edge-1", "edge-9", 1));
    fixture.checkout.write("half.plan", &text[..text.len() / 2]);
    let parts = |more: &[&str]| fixture.run(&[&["run", "parts"], more].concat());
    parts(&["altered.plan"])
        .with(5)
        .saying("altered after it was written");
    parts(&["half.plan"])
        .with(1)
        .saying("is not JSON, or cut off");
    parts(&["missing.plan"]).with(1).saying("`");
    parts(&["site.plan", "--max-tasks", "2"])
        .with(64)
        .saying("it is from 3 to");
    parts(&["site.plan", "--nodes-per-part", "0"])
        .with(64)
        .saying("the least is 1");
}
