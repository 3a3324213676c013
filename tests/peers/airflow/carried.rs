//! DAGs carried out by `airflow dags test`: by trueup itself, and by a stand-in that ends as it is told.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::{Lab, said};

/// Ends each part as the lines `PART CODE…` of the file `codes` say: one code a call, the last for all others.
const STAND_IN: &str = r#"#!/bin/sh
echo "$*" >> "$LAB/calls"
case "$4" in part) task="$6";; *) task="$4";; esac
[ "$task" = begin ] && echo '{"plan_digest": "0"}'
number=$(cat "$LAB/count-$task" 2>/dev/null || echo 0)
echo $((number + 1)) > "$LAB/count-$task"
set -- $(grep "^$task " "$LAB/codes") 0
[ "$1" = "$task" ] && shift
while [ "$number" -gt 0 ] && [ $# -gt 2 ]; do shift; number=$((number - 1)); done
exit "${1:-0}"
"#;

/// How each task ended, as the tasks themselves tell, and whether the run did well.
fn dags_test(lab: &Lab, dag: &std::path::Path) -> (bool, String) {
    let mut command = lab.command(lab.airflow.join("airflow"), ".");
    let output = command
        .args(["dags", "test", &super::dag_id(dag)])
        .output()
        .unwrap();
    (output.status.success(), said(&output))
}

/// A lab whose workers run the stand-in.
fn told(codes: &str) -> Option<(Lab, std::path::PathBuf)> {
    let mut lab = Lab::new(3)?;
    lab.migrate();
    lab.write("stand-in", STAND_IN);
    lab.write("codes", codes);
    let program = lab.path("stand-in");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let checkout = lab.clone("worker");
    let folder = lab.folder.path().to_owned();
    for (name, path) in [
        ("LAB", folder),
        ("TRUEUP_PROGRAM", program),
        ("TRUEUP_CHECKOUT", checkout),
    ] {
        lab.environment
            .insert(name.to_owned(), path.to_str().unwrap().to_owned());
    }
    lab.environment
        .insert("TRUEUP_RETRY_DELAY".to_owned(), "1".to_owned());
    let dag = lab.export("dags", &[]);
    Some((lab, dag))
}

fn calls(lab: &Lab) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(lab.path("calls")).unwrap();
    let mut calls = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ').skip(3);
        let task = match words.next().unwrap() {
            "part" => words.nth(1).unwrap(),
            word => word,
        };
        *calls.entry(task.to_owned()).or_default() += 1;
    }
    calls
}

#[test]
fn a_part_that_failed_is_not_tried_again_and_one_that_was_interrupted_is() {
    let codes = "workers.prepare-1 7\nworkers.prepare-2 8 6 0\nworkers.gate-prepared 99\nworkers.deploy-1 4\n";
    let Some((lab, dag)) = told(codes) else {
        return;
    };
    let (is_well, text) = dags_test(&lab, &dag);
    let calls = calls(&lab);
    assert!(is_well, "what parts end with is for `end` to judge: {text}");
    let of = |task: &str| calls[task];
    assert_eq!(
        (of("workers.prepare-1"), of("workers.prepare-2")),
        (1, 3),
        "{text}"
    );
    assert_eq!(
        (of("workers.gate-prepared"), of("workers.deploy-1")),
        (1, 1)
    );
    assert_eq!((of("begin"), of("end"), calls.len()), (1, 1, 12));
    assert!(text.contains("Skipping task."), "{text}");
}

#[test]
fn the_run_fails_with_its_end_and_an_end_behind_no_begin_has_the_code_of_the_begin() {
    let Some((lab, dag)) = told("end 7\n") else {
        return;
    };
    let (is_well, text) = dags_test(&lab, &dag);
    assert!(!is_well && text.contains("` ended with code 7"), "{text}");
    assert_eq!(calls(&lab)["end"], 1);

    let Some((lab, dag)) = told("begin 5\n") else {
        return;
    };
    let (is_well, text) = dags_test(&lab, &dag);
    assert!(!is_well, "{text}");
    let both = text.matches("`trueup run begin` ended with code 5").count();
    assert!(both > 0 && !calls(&lab).contains_key("end"), "{text}");
}

#[test]
fn a_run_on_airflow_ends_as_an_apply_of_the_same_plan() {
    let Some(mut lab) = Lab::new(3) else { return };
    lab.migrate();
    let checkout = lab.clone("worker");
    // The same site at its beginning, for the apply.
    lab.git(
        ".",
        &["clone", "--quiet", "--mirror", "origin.git", "alone.git"],
    );
    lab.git(".", &["clone", "--quiet", "alone.git", "alone"]);
    let program = env!("CARGO_BIN_EXE_trueup").to_owned();
    let checkout = checkout.to_str().unwrap().to_owned();
    lab.environment.insert("TRUEUP_PROGRAM".to_owned(), program);
    lab.environment
        .insert("TRUEUP_CHECKOUT".to_owned(), checkout);
    let dag = lab.export("dags", &["--pushes-per-minute", "0"]);
    let (is_well, text) = dags_test(&lab, &dag);
    assert!(is_well, "{text}");
    let plan = lab.path("site.plan");
    lab.trueup("alone", &["apply", plan.to_str().unwrap(), "--yes"]);
    let ended = |folder: &str| {
        let log = lab.trueup(folder, &["log", "--format", "json"]);
        let log: Value = serde_json::from_slice(&log.stdout).unwrap();
        let run = &log["runs"][0];
        let status = lab.trueup(folder, &["status", "--format", "json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        (
            run["outcome"].clone(),
            run["revision"].clone(),
            without_times(status),
        )
    };
    let (one, other) = (ended("worker"), ended("alone"));
    assert_eq!(one, other);
    assert_eq!(one.0, "succeeded");
    assert_eq!(one.2["nodes"].as_array().map(Vec::len), Some(3));
    for folder in ["worker", "alone"] {
        let tags = lab.git(folder, &["tag", "--list", "site-action-success/*"]);
        assert_eq!(said(&tags).lines().count(), 1);
    }
}

/// A value without ids of runs and times, which differ from run to run.
fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.retain(|key, _| !["run", "time", "at", "since", "uid"].contains(&key.as_str()));
            map.values_mut()
                .for_each(|each| *each = without_times(each.take()));
        }
        Value::Array(list) => list
            .iter_mut()
            .for_each(|each| *each = without_times(each.take())),
        _ => {}
    }
    value
}
