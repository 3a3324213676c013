//! Reports for pipelines, read by the parsers that others wrote for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use trueup::diagnostic::{Diagnostic, Diagnostics, Mark, Sources};
use trueup::plan::Standing;
use trueup::record::{Counts, Outcome, Unproven};
use trueup::report::diagnostics::{junit, sarif};
use trueup::report::run::report_junit;
use trueup::run::{GroupResult, NodeResult, RunReport};

use super::harness::{shared, skip, turn};

/// Reads a SARIF log as its object model and JUnit files as suites of cases.
const READ: &str = r#"
import json, sys
from junitparser import JUnitXml
from sarif_pydantic import Sarif
log = Sarif.model_validate_json(open(sys.argv[1]).read())
result = log.runs[0].results[0]
suites = lambda path: [[s.tests, s.failures, s.skipped, [c.name for c in s]] for s in JUnitXml.fromfile(path)]
print(json.dumps({
    "version": log.version,
    "rules": [rule.id for rule in log.runs[0].tool.driver.rules],
    "results": len(log.runs[0].results),
    "line": result.locations[0].physical_location.region.start_line,
    "validate": suites(sys.argv[2]),
    "apply": suites(sys.argv[3]),
}))
"#;

/// The Python of an environment that holds the parsers; `None`, said loudly, if it cannot be had.
fn python() -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-reports");
    let ended = Command::new(script)
        .args(["reports", "junitparser==5.0.3", "sarif-pydantic==0.6.2"])
        .output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let folder = String::from_utf8(ended.stdout).unwrap();
            Some(Path::new(folder.trim()).join("bin/python"))
        }
        _ => {
            skip("junitparser and sarif-pydantic cannot be got from PyPI");
            None
        }
    }
}

fn problems() -> (Diagnostics, Sources) {
    let mut sources = Sources::new();
    let nodes = sources.add("site/<x>/nodes.yaml", "a: 1\nb: 2\nc: \"]]>\"\n");
    let mut list = Diagnostics::new();
    list.push(
        Diagnostic::error(
            "a-code",
            Mark::new(nodes, 5),
            "a <message> & \u{1b}[31m ]]>",
        )
        .related(Mark::new(nodes, 0), "first defined here"),
    );
    list.push(Diagnostic::warning(
        "b-code",
        Mark::new(nodes, 10),
        "another",
    ));
    list.push(Diagnostic::error_in(
        "c-code",
        None,
        "a problem of the site",
    ));
    (list, sources)
}

fn report() -> RunReport {
    let node = |name: &str, standing| {
        let failed = standing == Standing::Failed;
        NodeResult {
            node: name.into(),
            standing,
            failed_step: failed.then(|| format!("deploy/g/{name}").into()),
            message: failed.then(|| "no <image> ]]> \u{7}".into()),
            unended_step: None,
            complete: standing == Standing::Deployed,
            begun: standing != Standing::NotStarted,
            may_be_begun: false,
            duration_ms: 1_234,
        }
    };
    RunReport {
        run: "01RUN".into(),
        outcome: Outcome::Failed,
        groups: vec![GroupResult {
            group: "g".into(),
            critical: true,
            succeeded: false,
            stopped: false,
            reason: Some("1 of 3".into()),
            standings: Default::default(),
        }],
        nodes: vec![
            node("n1", Standing::Deployed),
            node("n2", Standing::Failed),
            node("n3", Standing::NotStarted),
        ],
        counts: Counts::default(),
        unverified: Vec::new(),
        drifted: Vec::new(),
        left_out: Vec::new(),
        undrained: Vec::new(),
        unproven: Unproven::default(),
        tag: None,
        halted: None,
        undecided: Vec::new(),
        undelivered: Vec::new(),
        next: Vec::new(),
        duration_ms: 5_000,
    }
}

#[test]
fn sarif_and_junit_are_read_by_parsers_of_others() {
    let Some(python) = python() else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let paths = ["log.sarif", "validate.xml", "apply.xml"].map(|name| folder.path().join(name));
    let (list, sources) = problems();
    let mut texts = [String::new(), String::new(), String::new()];
    sarif(&mut texts[0], &list, &sources).unwrap();
    junit(&mut texts[1], &list, &sources).unwrap();
    report_junit(&mut texts[2], &report()).unwrap();
    for (path, text) in paths.iter().zip(&texts) {
        std::fs::write(path, text).unwrap();
    }
    let ended = Command::new(python)
        .args(["-c", READ])
        .args(&paths)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let read: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let wanted = serde_json::json!({
        "version": "2.1.0",
        "rules": ["a-code", "b-code", "c-code"],
        "results": 3,
        "line": 2,
        "validate": [[2, 2, 0, ["site", "site/<x>/nodes.yaml"]]],
        "apply": [[1, 1, 0, ["g"]], [3, 1, 1, ["n1", "n2", "n3"]]],
    });
    assert_eq!(read, wanted);
}
