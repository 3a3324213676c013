//! The verdicts of rules in Rego, beside those of another engine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use trueup::plan::{Block, ChangeKind, Plan, Verdict, Verdicts};
use trueup::rego::{RuleFile, evaluate, write};
use trueup::step::DeployParameters;

use super::browser;
use super::dice::Dice;
use super::harness::{shared, skip, turn};

/// Plans that both engines judge.
const PLANS: u64 = 200;

/// Prints the value of each package for each plan of a folder, in the order of their names.
const JUDGE: &str = r#"
import json, pathlib, sys
from regopy import Interpreter
rules, plans, *packages = sys.argv[1:]
every = []
for plan in sorted(pathlib.Path(plans).iterdir()):
    engine = Interpreter()
    engine.strict_built_in_errors = True
    for file in sorted(pathlib.Path(rules).iterdir()):
        engine.add_module(file.name, file.read_text())
    engine.set_input(json.loads(plan.read_text()))
    query = lambda package: json.loads(str(engine.query("data." + package)))["expressions"][0]
    every.append({package: query(package) for package in packages})
print(json.dumps(every))
"#;

/// Rules of every shape that a verdict may have.
const SHAPES: &str = r#"package shapes

import rego.v1

torn_down := [change.node | some change in input.changes; change.destructive; change.blocked == null]

deny_many := sprintf("%d machines are torn down", [count(torn_down)]) if count(torn_down) > 3

violation contains {"msg": sprintf("group %s is named twice", [name])} if {
	some number, group in input.groups
	name := group.name
	some other, again in input.groups
	other > number
	again.name == name
}

warn contains message if {
	some node in torn_down
	regex.match("^node-0*[0-9]*[02468]$", node)
	message := concat(": ", [node, "an even machine"])
}

warn_half if count(torn_down) * 2 > count(input.changes)
"#;

/// The Python of an environment that holds the other engine; `None`, said loudly, if it cannot be had.
fn python() -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-rego");
    let ended = Command::new(script)
        .args(["rego", "regopy==1.5.2"])
        .output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let folder = String::from_utf8(ended.stdout).unwrap();
            Some(Path::new(folder.trim()).join("bin/python"))
        }
        _ => {
            skip("regopy cannot be got from PyPI");
            None
        }
    }
}

/// The examples of rules, and those of every shape.
fn rules() -> Vec<RuleFile> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/policies");
    let mut rules: Vec<RuleFile> = std::fs::read_dir(examples)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            RuleFile {
                path: path.file_name().unwrap().to_str().unwrap().into(),
                text: std::fs::read_to_string(&path).unwrap().into(),
            }
        })
        .collect();
    rules.push(RuleFile {
        path: "shapes.rego".into(),
        text: SHAPES.into(),
    });
    rules
}

/// A plan as chance has it.
fn plan(dice: &mut Dice) -> Plan {
    let machines = 1 + dice.below(9);
    let mut plan = browser::plan(machines, 1 + dice.below(4), &str::to_owned);
    plan.policies = Verdicts::default();
    plan.options.as_of = format!("2026-11-{:02}", 1 + dice.below(30)).into();
    let twice = dice.some(&plan.groups, 10);
    plan.groups.extend(twice);
    for change in &mut plan.changes {
        change.kind = dice.pick(&[
            ChangeKind::Create,
            ChangeKind::Redeploy,
            ChangeKind::Destroy,
            ChangeKind::Relabel,
        ]);
        change.destructive = matches!(change.kind, ChangeKind::Redeploy | ChangeKind::Destroy);
        change.rack = dice.chance(80).then(|| dice.pick(&["r1", "r2"]).into());
        change.excluded = dice.chance(10);
        change.shown_only = dice.chance(10);
        change.blocked = dice.chance(20).then(|| Block {
            reason: "it would be torn down".into(),
            flag: None,
            cause: Default::default(),
        });
    }
    for step in &mut plan.steps {
        let image = dice.pick(&["ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04"]);
        let image = Some(image.into());
        let is_given = dice.chance(30);
        let deploy = is_given.then(|| DeployParameters {
            image,
            ..DeployParameters::default()
        });
        step.parameters = deploy.map(|deploy| Arc::new(deploy.into()));
    }
    plan
}

/// Verdicts as pairs of rule and message.
fn pairs(verdicts: &[Verdict]) -> BTreeSet<(String, String)> {
    let pairs = verdicts.iter();
    pairs
        .map(|verdict| (verdict.rule.to_string(), verdict.message.to_string()))
        .collect()
}

/// What the values of packages deny and warn of.
fn of_values(values: &Value) -> [BTreeSet<(String, String)>; 2] {
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    for (package, rules) in values.as_object().unwrap() {
        for (rule, value) in rules.as_object().unwrap() {
            let kind = match rule.split('_').next() {
                Some("deny" | "violation") => 0,
                Some("warn") => 1,
                _ => continue,
            };
            let messages = match value {
                Value::Array(list) => list.clone(),
                other => vec![other.clone()],
            };
            for message in messages {
                let message = match &message {
                    Value::String(text) => text.clone(),
                    Value::Bool(true) => "holds".to_owned(),
                    other => other["msg"].as_str().unwrap().to_owned(),
                };
                found[kind].insert((format!("{package}.{rule}"), message));
            }
        }
    }
    found
}

#[test]
fn two_hundred_plans_have_the_verdicts_of_another_engine() {
    let Some(python) = python() else {
        return;
    };
    let (folder, rules) = (TempDir::new().unwrap(), rules());
    let [texts, plans] = ["rules", "plans"].map(|name| folder.path().join(name));
    for path in [&texts, &plans] {
        std::fs::create_dir(path).unwrap();
    }
    for rule in &rules {
        std::fs::write(texts.join(&*rule.path), &*rule.text).unwrap();
    }
    let all: Vec<Plan> = (0..PLANS).map(|seed| plan(&mut Dice(seed))).collect();
    for (number, plan) in all.iter().enumerate() {
        std::fs::write(plans.join(format!("{number:03}")), write(plan)).unwrap();
    }
    let packages = rules.iter().map(|rule| {
        let line = rule.text.lines().find(|line| line.starts_with("package "));
        line.unwrap().trim_start_matches("package ").to_owned()
    });
    let ended = Command::new(python)
        .args(["-c", JUDGE])
        .args([&texts, &plans])
        .args(packages)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let values: Vec<Value> = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(values.len(), all.len());
    let mut rules_that_spoke = BTreeSet::new();
    for (number, (plan, values)) in all.iter().zip(&values).enumerate() {
        let own = evaluate(&rules, &write(plan), &mut |_| {}).unwrap();
        let own = [pairs(&own.denied), pairs(&own.warned)];
        assert_eq!(own, of_values(values), "plan {number}");
        let spoke = own.into_iter().flatten().map(|(rule, _)| rule);
        rules_that_spoke.extend(spoke);
    }
    let expected = [
        "shapes.deny_many",
        "shapes.violation",
        "shapes.warn",
        "shapes.warn_half",
        "trueup.fridays.deny",
        "trueup.images.deny",
        "trueup.racks.deny",
        "trueup.racks.warn",
    ];
    assert_eq!(
        rules_that_spoke
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        expected
    );
}
