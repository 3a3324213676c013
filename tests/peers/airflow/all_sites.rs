//! One DAG for all sites: each is planned, and what differs is told, whatever becomes of the others.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Lab, said};

/// A repository of sites, all of which are deployed but the last, in a worker's checkout. One has machines
/// that are off, one has documents that cannot be read, and one has changed.
pub(super) fn lab(sites: usize) -> Option<Lab> {
    let mut lab = Lab::empty()?;
    lab.migrate();
    lab.trueup(".", &["init", "edge"]);
    lab.git(".", &["clone", "--quiet", "origin.git", "all"]);
    for number in 1..=sites {
        let site = format!("all/sites/{}", name(number));
        for file in std::fs::read_dir(lab.path("edge")).unwrap() {
            let path = file.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let file = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace(
                "metadata: {name: edge}",
                &format!("metadata: {{name: {}}}", name(number)),
            );
            lab.write(&format!("{site}/{file}"), &text);
        }
    }
    commit(&lab, "The sites");
    lab.git(
        "all",
        &["push", "--quiet", "--set-upstream", "origin", "HEAD:main"],
    );
    let checkout = lab.clone("worker");
    let checkout = checkout.to_str().unwrap().to_owned();
    for (name, value) in [
        ("TRUEUP_PROGRAM", env!("CARGO_BIN_EXE_trueup")),
        ("TRUEUP_CHECKOUT", &checkout),
    ] {
        lab.environment.insert(name.to_owned(), value.to_owned());
    }
    Some(lab)
}

pub(super) fn name(number: usize) -> String {
    format!("site-{number:04}")
}

pub(super) fn commit(lab: &Lab, message: &str) {
    lab.git("all", &["add", "--all"]);
    lab.git("all", &["commit", "--quiet", "-m", message]);
}

/// Runs the DAG; whether it did well, the report, and all that it said.
fn run(lab: &Lab) -> (bool, Value, String) {
    let mut command = lab.command(lab.airflow.join("airflow"), ".");
    let output = command
        .args(["dags", "test", "trueup.sites"])
        .output()
        .unwrap();
    let text = said(&output);
    let script = "import json, sqlite3, sys\n\
        rows = sqlite3.connect(sys.argv[1]).execute(\"select value from xcom where key = 'report' order by timestamp\")\n\
        value = json.loads(rows.fetchall()[-1][0])\n\
        print(value if isinstance(value, str) else json.dumps(value))";
    let mut reader = lab.command("python3", ".");
    let database = lab.path("airflow/airflow.db");
    let read = Lab::ran(reader.args(["-c", script]).arg(database));
    let report = serde_json::from_slice(&read.stdout).unwrap();
    (output.status.success(), report, text)
}

#[test]
fn all_sites_are_planned_and_one_that_fails_keeps_none_back() {
    let Some(mut lab) = lab(7) else { return };
    let dags = lab.path("dags");
    let export = [
        "export",
        "airflow",
        "--all-sites",
        "--max-tasks",
        "5",
        "-o",
        dags.to_str().unwrap(),
    ];
    lab.trueup("all", &export);
    for number in 1..=5 {
        lab.trueup("worker", &["--site", &name(number), "apply", "--yes"]);
    }
    let (is_well, report, text) = run(&lab);
    assert!(is_well, "{text}");
    let found = |what: &str| report[what].clone();
    let names = |numbers: &[usize]| {
        Value::from(
            numbers
                .iter()
                .map(|number| name(*number))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(found("failed"), names(&[]));
    assert_eq!(found("drift"), names(&[]));
    assert_eq!(found("changes"), names(&[6, 7]), "{text}");

    lab.trueup(
        "worker",
        &[
            "--site",
            &name(2),
            "apply",
            "power",
            "off",
            "edge-1",
            "--yes",
        ],
    );
    let mut broken = std::fs::read_to_string(lab.path("all/sites/site-0003/nodes.yaml")).unwrap();
    writeln!(broken, "---\n{{").unwrap();
    lab.write("all/sites/site-0003/nodes.yaml", &broken);
    commit(&lab, "Break a site");
    lab.git("all", &["push", "--quiet", "origin", "HEAD:main"]);
    let (is_well, report, text) = run(&lab);
    let found = |what: &str| report[what].clone();
    assert_eq!(found("failed"), names(&[3]), "{text}");
    assert_eq!(found("drift"), names(&[2]), "{text}");
    assert_eq!(found("changes"), names(&[6, 7]), "{text}");
    assert!(
        !is_well && text.contains("1 without a plan: site-0003"),
        "{text}"
    );

    lab.git("all", &["revert", "--no-edit", "HEAD"]);
    lab.git("all", &["push", "--quiet", "origin", "HEAD:main"]);
    assert!(run(&lab).0);
    lab.environment
        .insert("TRUEUP_FAIL_ON".to_owned(), "drift".to_owned());
    let (is_well, _, text) = run(&lab);
    assert!(
        !is_well && text.contains("1 with drift: site-0002"),
        "{text}"
    );
}
