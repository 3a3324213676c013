//! DAGs are imported without an error, with work in proportion to their tasks, and as linters want them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{Lab, RUFF, python, said};

/// How many times the work of a small DAG a large one may take, task by task. Work that grew with the square of the tasks
/// would take ten times as much.
const MOST_GROWTH: u64 = 2;

#[test]
fn the_import_of_a_dag_takes_work_in_proportion_to_its_tasks() {
    let Some(lab) = Lab::new(500) else { return };
    lab.migrate();
    let sizes = ["100", "400", "1006"];
    let export = |size: &&str| lab.export(&format!("of-{size}"), &["--max-tasks", size]);
    let dags: Vec<PathBuf> = sizes.iter().map(export).collect();
    let measured = lab.measured(&dags);
    let amount = |dag: &Value, work: &str| dag[work].as_u64().unwrap();
    let small = measured[0].clone();
    for (size, dag) in sizes.iter().zip(measured) {
        let most: u64 = size.parse().unwrap();
        let tasks = dag["tasks"].as_u64().unwrap();
        assert!(tasks <= most && tasks > most / 2, "{tasks} of {most}");
        assert_eq!(dag["errors"], json!([]));
        assert_eq!(dag["dags"], json!([dag["id"]]));
        let of_small = small["tasks"].as_u64().unwrap();
        for work in ["import", "serialize", "bag", "bytes"] {
            let (few, many) = (amount(&small, work), amount(&dag, work));
            println!("{tasks} tasks, {work}: {many}");
            assert!(
                many * of_small <= MOST_GROWTH * few * tasks,
                "{work} of {tasks} tasks: {many}; of {of_small}: {few}"
            );
        }
    }
}

#[test]
fn the_tasks_of_a_dag_are_the_parts_with_their_order_between_a_begin_and_an_end() {
    let Some(lab) = Lab::new(3) else { return };
    lab.migrate();
    let dag = lab.export("dags", &["--workers", "3"]);
    let [measured] = &lab.measured(&[dag])[..] else {
        panic!()
    };
    assert_eq!(
        (&measured["roots"], &measured["leaves"]),
        (&json!(["begin"]), &json!(["end"]))
    );
    assert_eq!(measured["groups"], json!(["workers"]));
    assert_eq!(measured["rules"], json!(["all_done"]));
    assert_eq!(measured["active"], 3);
    let plan = lab.path("site.plan");
    let parts = lab.trueup(
        "edge",
        &["run", "parts", plan.to_str().unwrap(), "--format", "json"],
    );
    let parts: Value = serde_json::from_slice(&parts.stdout).unwrap();
    let mut expected = serde_json::Map::new();
    for part in parts["parts"].as_array().unwrap() {
        let mut after: Vec<_> = part["after"].as_array().unwrap().clone();
        after.sort_by_key(|id| id.as_str().unwrap().to_owned());
        if after.is_empty() {
            after.push("begin".into());
        }
        expected.insert(part["id"].as_str().unwrap().to_owned(), after.into());
    }
    expected.insert("begin".to_owned(), json!([]));
    expected.insert("end".to_owned(), json!(["workers.gate-deployed"]));
    assert_eq!(measured["order"], Value::Object(expected));
}

#[test]
fn ruff_finds_nothing_in_a_dag_and_would_format_nothing() {
    let Some(lab) = Lab::new(3) else { return };
    let Some(programs) = python(RUFF) else { return };
    let places = ["--pool", "bmc", "--queue", "all=x"];
    let dag = lab.export("dags", &places);
    let sites = lab.path("of-sites");
    let all = [
        "export",
        "airflow",
        "--all-sites",
        "-o",
        sites.to_str().unwrap(),
    ];
    lab.trueup("edge", &[&all[..], &places].concat());
    let ruff = |arguments: &[&str]| {
        let mut command = Command::new(programs.join("ruff"));
        let output = command
            .args(arguments)
            .arg("--isolated")
            .args([&dag, &sites])
            .output()
            .unwrap();
        (output.status.success(), said(&output))
    };
    for arguments in [&["check"][..], &["format", "--check"]] {
        let (is_clean, text) = ruff(arguments);
        assert!(is_clean, "{text}");
    }
    let text = std::fs::read_to_string(&dag).unwrap();
    std::fs::write(
        &dag,
        text.replace("import fcntl\n", "import fcntl\nimport getpass\n"),
    )
    .unwrap();
    let (is_clean, text) = ruff(&["check"]);
    assert!(!is_clean && text.contains("F401"), "{text}");
}
