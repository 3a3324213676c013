//! Parts in clones of their own come to what one process comes to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Site;
use crate::fixture::Fixture;

/// The records of the nodes, the outcome of the run and its tag, without times and ids.
fn outcome(fixture: &Fixture) -> Value {
    let status = fixture.run(&["status", "--format", "json"]).with(0).json();
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    let run = runs["runs"][0].clone();
    let id = run["run"].as_str().unwrap().to_owned();
    let report = fixture
        .run(&["show", &id, "--format", "json"])
        .with(0)
        .json();
    let mut nodes: Vec<Value> = status["nodes"].as_array().unwrap().clone();
    for node in &mut nodes {
        without_times(node);
    }
    let groups = &report["report"]["groups"];
    let text = serde_json::json!({
        "nodes": nodes,
        "outcome": run["outcome"],
        "counts": run["counts"],
        "tag": run["tag"],
        "groups": groups,
    })
    .to_string();
    serde_json::from_str(&text.replace(&id, "RUN")).unwrap()
}

/// Takes away what differs from run to run.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| {
                ![
                    "updated", "since", "observed", "time", "at", "age", "changed",
                ]
                .contains(&key.as_str())
            });
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// What one process comes to, and what workers come to; with the exit codes of the ends.
fn compared(faults: &str) -> (Site, BTreeMap<String, i32>) {
    let alone = Fixture::one_rack_with_faults(faults);
    let code = alone.run(&["apply", "--yes"]).code;
    let site = Site::begun(Fixture::one_rack_with_faults(faults), 3);
    let codes = site.carry_out_all();
    site.end().with(code);
    assert_eq!(outcome(&site.clones[0]), outcome(&alone), "{codes:?}");
    assert_eq!(site.first.ledger(), alone.ledger());
    assert!(
        site.refs().iter().all(|name| !name.contains("/run/")),
        "{:?}",
        site.refs()
    );
    (site, codes.into_iter().collect())
}

#[test]
fn a_run_without_faults() {
    let (site, codes) = compared("[]");
    assert!(codes.values().all(|code| *code == 0), "{codes:?}");
    let tags = site.origin.git(&["tag", "--list"]);
    assert!(tags.starts_with("site-action-success/"), "{tags}");
    // The clones see the same, and have nothing left to do.
    site.clones[1].run(&["plan", "--detailed-exitcode"]).with(0);
    assert!(
        site.clones[1]
            .checkout
            .git(&["for-each-ref", "refs/trueup"])
            .lines()
            .count()
            <= 1
    );
}

#[test]
fn a_group_that_fails_for_good() {
    let (_, codes) = compared(
        "[{nodes: [\"compute*\"], step: prepare, outcome: fail}, {nodes: [monitoring], step: deploy, outcome: fail}]",
    );
    assert_eq!(codes["compute-nodes-1.prepare-1"], 7, "{codes:?}");
    assert_eq!(codes["compute-nodes-1.gate-prepared"], 7, "{codes:?}");
    assert_eq!(codes["compute-nodes-1.deploy-1"], 99, "{codes:?}");
}

#[test]
fn a_critical_group_that_fails_stops_what_depends_on_it() {
    let (_, codes) = compared("[{nodes: [\"control0?\"], step: deploy, outcome: fail}]");
    assert_eq!(codes["compute-nodes-1.prepare-1"], 99, "{codes:?}");
}

#[test]
fn a_limit_of_failures_counts_those_of_all_parts() {
    let faults = "[{nodes: [\"compute*\"], step: prepare, outcome: fail}]";
    let fixture = Fixture::one_rack_with_faults(faults);
    let mut site = Site::planned(fixture, 2);
    let path = site.plan.to_str().unwrap();
    let planned = site
        .first
        .run(&["plan", "--max-failures", "1", "-o", path])
        .with(0);
    assert!(planned.stderr.contains("Saved"), "{planned:?}");
    let shown = site.first.run(&["show", path, "--format", "json"]).with(0);
    shown.json()["effect"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.effect);
    let begun = site.begin(&[]).with(0).json();
    begun["plan_digest"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.digest);
    site.carry_out_all();
    site.end().with(7);
    // Two of the first part, and none of the parts after it.
    let ledger = site.first.ledger();
    let prepared = ledger
        .keys()
        .filter(|effect| effect.contains("compute"))
        .count();
    let failed = site.clones[0]
        .run(&["status", "--format", "json"])
        .with(0)
        .stdout;
    assert!(prepared <= 4, "{ledger:?}\n{failed}");
}
