//! Plans and runs that chance alters, with digests that fit: whatever is carried out is on machines for which the
//! operator allowed it, or what the documents ask for and no flag is needed for.
//!
//! `TRUEUP_FORGED_PLANS` says how many are drawn, `TRUEUP_FORGED_SEED` from which seed on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use trueup::plan::saved::read;

use super::super::dice::Dice;
use super::super::fixture::{Ended, copy_folder};
use super::{Fixture, changed, forge, load, plant, save};

use crate::amount::number;
use crate::folder::folder;

/// How many are drawn where nobody says.
const FEW: u64 = 24;

/// A place in a JSON value.
type Place = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

fn places(value: &Value, at: &mut Place, found: &mut Vec<Place>) {
    found.push(at.clone());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                at.push(Step::Key(key.clone()));
                places(value, at, found);
                at.pop();
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                at.push(Step::Index(index));
                places(value, at, found);
                at.pop();
            }
        }
        _ => {}
    }
}

fn at<'v>(value: &'v mut Value, place: &[Step]) -> Option<&'v mut Value> {
    let mut value = value;
    for step in place {
        value = match step {
            Step::Key(key) => value.get_mut(key)?,
            Step::Index(index) => value.get_mut(index)?,
        };
    }
    Some(value)
}

fn is_alike(one: &Value, other: &Value) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// What is forged by hand: kinds of steps and changes, options, nodes.
const KINDS: [&str; 12] = [
    "destroy",
    "deploy",
    "prepare",
    "adopt",
    "forget",
    "power-off",
    "clean",
    "relabel",
    "remove-from-cluster",
    "remove-etcd",
    "set-retired",
    "remediate",
];
const ACTIONS: [&str; 8] = [
    "destroy",
    "teardown",
    "redeploy",
    "power off",
    "clean",
    "forget",
    "remediate",
    "retire",
];
const CHANGES: [&str; 6] = [
    "destroy",
    "redeploy",
    "create",
    "adopt",
    "operation",
    "relabel",
];

/// Changes one thing of a plan.
fn mutate(dice: &mut Dice, plan: &mut Value, nodes: &[String]) {
    match dice.below(10) {
        0 => {
            let count = plan["steps"].as_array().unwrap().len();
            if count == 0 {
                return;
            }
            let step = &mut plan["steps"][dice.below(count)];
            let old = step["kind"].as_str().unwrap().to_owned();
            let new = dice.pick(&KINDS);
            let id = step["id"].as_str().unwrap().replacen(&old, new, 1);
            step["id"] = json!(id);
            step["kind"] = json!(new);
            step["effect"] = json!(dice.pick(&["none", "reversible", "destructive"]));
        }
        1 => plan["relies_on"] = json!([]),
        2 => plan["action"] = json!(dice.pick(&ACTIONS)),
        3 => {
            let all = json!({"all": true, "nodes": []});
            let flag = dice.pick(&["allow_destroy", "allow_redeploy", "adopt"]);
            plan["options"][flag] = all;
        }
        4 => {
            let flag = dice.pick(&["skip_blocked", "allow_intermediate_commits"]);
            plan["options"][flag] = json!(true);
            plan["options"]["max_unavailable"] = json!(1000);
        }
        5 => {
            let count = plan["changes"].as_array().unwrap().len();
            if count == 0 {
                return;
            }
            let change = &mut plan["changes"][dice.below(count)];
            change["kind"] = json!(dice.pick(&CHANGES));
            change["destructive"] = json!(dice.chance(50));
            change["blocked"] = Value::Null;
        }
        6 => {
            // One machine in the place of another, wherever it is named.
            let (old, new) = (dice.pick(nodes), dice.pick(nodes));
            let text = plan.to_string().replace(&old, &new);
            *plan = serde_json::from_str(&text).unwrap();
        }
        7 => plan["request"] = json!({"nodes": [dice.pick(nodes)]}),
        _ => {
            let (mut found, mut place) = (Vec::new(), Vec::new());
            places(plan, &mut place, &mut found);
            let target = dice.pick(&found);
            let source = dice.pick(&found);
            let replacement = at(plan, &source).cloned().unwrap_or_default();
            let last = target.len().saturating_sub(1);
            match at(plan, &target[..last]) {
                Some(Value::Array(list)) if !list.is_empty() && dice.chance(40) => {
                    let index = dice.below(list.len());
                    let element = list[index].clone();
                    if dice.chance(50) {
                        list.remove(index);
                    } else {
                        list.push(element);
                    }
                }
                _ => {
                    if let Some(value) = at(plan, &target)
                        && !target.is_empty()
                        && is_alike(value, &replacement)
                    {
                        *value = match replacement {
                            Value::Bool(value) => Value::Bool(!value),
                            other => other,
                        };
                    }
                }
            }
        }
    }
}

/// What an operator gives: flags, and the machines that they are for.
struct Operator {
    flags: Vec<&'static str>,
    may_lose: BTreeSet<&'static str>,
}

fn operators() -> Vec<Operator> {
    let of = |flags: &[&'static str], may_lose: &[&'static str]| Operator {
        flags: flags.to_vec(),
        may_lose: may_lose.iter().copied().collect(),
    };
    vec![
        of(&[], &[]),
        of(&["--yes"], &[]),
        of(&["--skip-blocked"], &[]),
        of(&["--allow-redeploy", "compute11"], &["compute11"]),
        of(&["--allow-destroy", "all"], &["monitor02"]),
        of(
            &["--allow-destroy", "all", "--allow-redeploy", "all"],
            &["compute11", "monitor02"],
        ),
    ]
}

/// The effects on machines that nothing but a flag allows.
fn takes_something(effect: &str) -> bool {
    let harms = [
        "destroyed",
        "deployed",
        "prepared",
        "wiped",
        "wrote",
        "began",
    ];
    harms.iter().any(|harm| effect.starts_with(harm))
}

/// What happened between two ledgers is what this operator's plan does; `requested`: the machines that the plan's own
/// request names.
fn judge(
    before: &BTreeMap<String, usize>,
    after: &BTreeMap<String, usize>,
    operator: &Operator,
    requested: &BTreeSet<String>,
    told: &dyn Fn() -> String,
) {
    for (what, count) in after {
        if before.get(what) == Some(count) {
            continue;
        }
        let (node, effect) = what.split_once(' ').unwrap();
        if takes_something(effect) {
            assert!(operator.may_lose.contains(node), "{what}: {}", told());
        } else {
            // `monitor01` is relabelled by the documents; a plan for nodes that it names does what it says.
            let is_asked = node == "monitor01" || requested.contains(node);
            let is_on_the_way = operator.may_lose.contains(node);
            assert!(is_asked || is_on_the_way, "{what}: {}", told());
        }
    }
}

/// A site that is put back as it was after each draw that changed it.
struct Stage {
    fixture: Fixture,
    kept: tempfile::TempDir,
    ledger: BTreeMap<String, usize>,
}

impl Stage {
    fn new() -> Self {
        let fixture = changed();
        let kept = folder();
        copy_git(&fixture.checkout.path().join(".git"), kept.path());
        let ledger = fixture.ledger();
        Self {
            fixture,
            kept,
            ledger,
        }
    }

    fn restore(&self) {
        let git = self.fixture.checkout.path().join(".git");
        std::fs::remove_dir_all(&git).unwrap();
        copy_git(self.kept.path(), &git);
    }
}

fn copy_git(from: &Path, to: &Path) {
    copy_folder(from, to);
}

fn bases(fixture: &Fixture) -> Vec<Value> {
    let requests: [&[&str]; 7] = [
        &["--skip-blocked"],
        &["--allow-redeploy", "all", "--skip-blocked"],
        &["--allow-redeploy", "all", "--allow-destroy", "all"],
        &["teardown", "monitor03"],
        &["redeploy", "compute12"],
        &["power", "off", "compute21"],
        &["relabel", "monitor01"],
    ];
    let plan = |request: &&[&str]| load(&save(fixture, request));
    requests.iter().map(plan).collect()
}

fn requested(plan: &Value) -> BTreeSet<String> {
    let nodes = plan["request"]["nodes"].as_array();
    let nodes = nodes.into_iter().flatten().filter_map(Value::as_str);
    nodes.map(str::to_owned).collect()
}

#[test]
fn no_altered_plan_or_run_does_what_the_operators_own_plan_would_not() {
    let count = number("TRUEUP_FORGED_PLANS").unwrap_or(FEW);
    let first = number("TRUEUP_FORGED_SEED").unwrap_or(1);
    let stage = Stage::new();
    let fixture = &stage.fixture;
    let bases = bases(fixture);
    let honest = read(&forge(&bases[0])).unwrap();
    let nodes: Vec<String> = [
        "control01",
        "compute11",
        "compute12",
        "monitor01",
        "monitor02",
        "ntp01",
    ]
    .map(str::to_owned)
    .to_vec();
    let path = fixture.checkout.outside().join("drawn.plan");
    let file = path.to_str().unwrap();
    let mut codes: BTreeMap<(bool, i32), usize> = BTreeMap::new();
    for seed in first..first + count {
        let mut dice = Dice(seed);
        let mut plan = dice.pick(&bases);
        for _ in 0..=dice.below(4) {
            mutate(&mut dice, &mut plan, &nodes);
        }
        let bytes = forge(&plan);
        let operators = operators();
        let operator = &operators[dice.below(operators.len())];
        let is_run = dice.chance(50);
        let ended: Ended = if is_run {
            plant(fixture, &honest, &bytes);
            fixture.run(&[&["apply", "--resume"][..], &operator.flags].concat())
        } else {
            std::fs::write(&path, &bytes).unwrap();
            fixture.run(&[&["apply", file][..], &operator.flags].concat())
        };
        *codes.entry((is_run, ended.code)).or_default() += 1;
        let told = || format!("seed {seed}, {:?}: {ended:?}\n{plan}", operator.flags);
        assert!(
            (0..=8).contains(&ended.code) || ended.code == 64,
            "{}",
            told()
        );
        let after = fixture.ledger();
        judge(&stage.ledger, &after, operator, &requested(&plan), &told);
        if is_run || after != stage.ledger || ended.code == 0 {
            stage.restore();
        }
    }
    eprintln!(
        "{count} plans from seed {first}, by whether they were runs, and exit code: {codes:?}"
    );
    if count >= FEW {
        let carried_out = codes.get(&(false, 0)).copied().unwrap_or_default();
        let refused: usize = codes
            .iter()
            .filter(|((_, code), _)| [4, 5].contains(code))
            .map(|(_, count)| count)
            .sum();
        assert!(carried_out > 0 && refused > 0, "{codes:?}");
    }
}
