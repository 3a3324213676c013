//! Rules of a site, and their verdicts on plans.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::evaluate::{Part, Problem, evaluate};
use super::*;
use crate::plan::Verdict;

fn rules(texts: &[&str]) -> Vec<RuleFile> {
    let files = (1..).zip(texts);
    let file = |(number, text): (usize, &&str)| RuleFile {
        path: format!("policies/{number}.rego").into(),
        text: (*text).into(),
    };
    files.map(file).collect()
}

fn told(texts: &[&str], input: &str) -> Result<Vec<String>, String> {
    let verdicts =
        evaluate(&rules(texts), input, &mut |_| {}).map_err(|error| error.to_string())?;
    let line =
        |head: &'static str| move |each: &Verdict| format!("{head} {} {}", each.rule, each.message);
    let denied = verdicts.denied.iter().map(line("deny"));
    Ok(denied
        .chain(verdicts.warned.iter().map(line("warn")))
        .collect())
}

#[test]
fn rules_of_all_packages_deny_and_warn_by_their_names() {
    let one = "package main\nimport rego.v1\n\
               deny contains msg if { some change in input.changes; change.kind == \"destroy\"; msg := sprintf(\"destroys %s\", [change.node]) }\n\
               violation contains {\"msg\": \"an object\", \"more\": 1} if input.bad\n\
               deny_fridays if input.bad\n\
               denying contains \"no rule\" if input.bad\n\
               helper(x) := x + 1\n";
    let two = "package site.limits\nimport rego.v1\nwarn contains \"many\" if count(input.changes) > 1\nwarn contains 7 if input.bad\n";
    let input = "{\"changes\": [{\"kind\": \"destroy\", \"node\": \"n1\"}, {\"kind\": \"create\", \"node\": \"n2\"}], \"bad\": true}";
    assert_eq!(
        told(&[one, two], input).unwrap(),
        [
            "deny main.deny destroys n1",
            "deny main.deny_fridays holds",
            "deny main.violation an object",
            "warn site.limits.warn 7",
            "warn site.limits.warn many",
        ]
    );
    assert_eq!(
        told(&[one, two], "{\"changes\": []}").unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn an_error_names_the_package_that_it_is_in() {
    let sound = "package a\nimport rego.v1\nwarn contains \"w\" if true\n";
    let unsound = "package b\nimport rego.v1\ndeny contains \"b\" if input.foo == nope\n";
    let error = told(&[sound, unsound], "{}").unwrap_err();
    assert!(
        error.starts_with("the rules of package `b` cannot be evaluated: --> policies/2.rego:3:"),
        "{error}"
    );
}

#[test]
fn a_rule_that_fails_or_cannot_be_read_is_an_error_and_never_silent() {
    for (text, says) in [
        (
            "package main\ndeny contains msg if {",
            "`policies/1.rego` cannot be read",
        ),
        (
            "package main\nimport rego.v1\ndeny contains 1 / input.zero",
            "package `main`",
        ),
        (
            "package main\nimport rego.v1\ndeny contains x if { x := http.send({\"url\": \"http://x\"}) }",
            "http.send",
        ),
        (
            "package main\nimport rego.v1\ndeny contains x if { x := opa.runtime() }",
            "opa.runtime",
        ),
        ("package main\nimport rego.v1\nx := y if y := x", "`main`"),
        (
            "package main\nimport rego.v1\nwarn contains concat(\"\", [\"x\" | some y in numbers.range(1, 9); y > 0])",
            "a comprehension in the head of a rule belongs into its body",
        ),
    ] {
        let problem = told(&[text], "{\"zero\": 0}").unwrap_err();
        assert!(
            problem.contains(says) && !problem.contains('\n'),
            "{text}: {problem}"
        );
    }
}

#[test]
fn what_a_rule_says_is_bounded() {
    let text = "package main\nimport rego.v1\n\
                deny contains sprintf(\"%d\", [x]) if { some x in numbers.range(1, 5000) }\n\
                warn contains concat(\"\", long) if { long := [\"x\" | some y in numbers.range(1, 9000); y > 0] }\n";
    let verdicts = evaluate(&rules(&[text]), "{}", &mut |_| {}).unwrap();
    assert_eq!(verdicts.denied.len(), MOST_MESSAGES + 1);
    assert_eq!(&*verdicts.denied[MOST_MESSAGES].message, "… and 4900 more");
    assert_eq!(verdicts.warned.len(), 1);
    assert!(verdicts.warned[0].message.chars().count() <= LONGEST_MESSAGE + 1);
}

#[test]
fn each_part_is_told_before_it_is_read_or_evaluated() {
    let mut begun = Vec::new();
    let texts = ["package b\n", "package a.c\ndeny contains"];
    let ended = evaluate(&rules(&texts), "{}", &mut |part| begun.push(part));
    assert!(matches!(ended, Err(Problem::Invalid { .. })));
    let file = |number: u32| Part::File(format!("policies/{number}.rego").into());
    assert_eq!(begun, [file(1), file(2)]);
    begun.clear();
    let texts = ["package b\n", "package a.c\n"];
    evaluate(&rules(&texts), "{}", &mut |part| begun.push(part)).unwrap();
    let package = |name: &str| Part::Package(name.to_owned());
    assert_eq!(begun, [file(1), file(2), package("a.c"), package("b")]);
}

#[test]
fn rules_for_another_version_of_the_input_are_refused() {
    let judged = |statement: &str| {
        let text = format!("package main\nimport rego.v1\n{statement}\nwarn contains \"x\"\n");
        told(&[&text], "{}")
    };
    let own = format!("input_version := {VERSION}");
    for statement in ["", &own] {
        assert_eq!(
            judged(statement).unwrap(),
            ["warn main.warn x"],
            "{statement}"
        );
    }
    for (statement, version) in [
        ("input_version := 2", "2"),
        ("input_version := \"1\"", "\"1\""),
        ("input_version contains 1", "[1]"),
    ] {
        let problem = judged(statement).unwrap_err();
        let expected = format!("of package `main` are written for version {version} of the input");
        assert!(problem.contains(&expected), "{statement}: {problem}");
    }
}

/// The schema of the input: what it has in common with a saved plan, and its version.
fn schema() -> Value {
    let mut schema: Value = serde_json::from_str(include_str!("../../schemas/plan.json")).unwrap();
    let properties = schema["properties"].as_object_mut().unwrap();
    for of_file in [
        "format_version",
        "policies",
        "records_digest",
        "digest",
        "applicability",
        "checked",
        "rehearsal",
    ] {
        properties.remove(of_file).unwrap();
    }
    let version = json!({"const": VERSION, "description": "The version of this input."});
    properties.insert("version".to_owned(), version);
    let required: Vec<&String> = properties
        .keys()
        .filter(|name| !matches!(name.as_str(), "unfinished_run" | "way_back"))
        .collect();
    schema["required"] = json!(required);
    schema["$id"] = "policy-input.json".into();
    schema["title"] = "Input of rules".into();
    schema["description"] = "The input of the rules in Rego of a site: a plan.".into();
    let all = schema["$defs"].take();
    let mut used = Map::new();
    let mut open = vec![schema["properties"].clone()];
    while let Some(value) = open.pop() {
        if let Some(name) = value["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").unwrap();
            if used.insert(name.to_owned(), all[name].clone()).is_none() {
                open.push(all[name].clone());
            }
        }
        match value {
            Value::Object(fields) => open.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
    schema["$defs"] = used.into();
    schema
}

/// The promises of a schema, a line each: texts for people left out, lists as sets.
fn promises(schema: &Value, path: &str, lines: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                if !(name == "description" && value.is_string()) {
                    promises(value, &format!("{path}/{name}"), lines);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|each| promises(each, path, lines)),
        value => {
            lines.insert(format!("{path}: {value}"));
        }
    }
}

#[test]
fn the_input_loses_nothing_without_another_version() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/policy-input.json");
    let old: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let new = schema();
    let mut lost = BTreeSet::new();
    let mut kept = BTreeSet::new();
    promises(&old, "", &mut lost);
    promises(&new, "", &mut kept);
    lost.retain(|line| !kept.contains(line));
    assert!(
        lost.is_empty() || old["properties"]["version"]["const"] != VERSION,
        "rules that were written for version {VERSION} of the input may be silently false; raise `VERSION` in \
         src/rego/input.rs, or keep these in `write` there: {lost:#?}"
    );
    if old != new && std::env::var_os("TRUEUP_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&new).unwrap();
        std::fs::write(path, text + "\n").unwrap();
        return;
    }
    assert!(
        old == new,
        "fields were added to the input of rules; `TRUEUP_BLESS=1` writes schemas/policy-input.json anew"
    );
}

#[test]
fn the_input_is_valid_by_its_schema_and_the_schema_says_nothing_else() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let plan = crate::plan::tests::saved::full();
    let input: Value = serde_json::from_str(&write(&plan)).unwrap();
    let problems: Vec<_> = validator
        .iter_errors(&input)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&schema["properties"]), keys(&input));
    assert_eq!(input["version"], VERSION);
}
