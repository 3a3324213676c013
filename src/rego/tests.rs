//! Rules of a site, and their verdicts on plans.

use super::*;

fn rules(texts: &[&str]) -> Vec<RuleFile> {
    let files = (1..).zip(texts);
    let file = |(number, text): (usize, &&str)| RuleFile {
        path: format!("policies/{number}.rego").into(),
        text: (*text).into(),
    };
    files.map(file).collect()
}

fn told(texts: &[&str], input: &str) -> Result<Vec<String>, String> {
    let verdicts = evaluate(&rules(texts), input).map_err(|error| error.to_string())?;
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
    let verdicts = evaluate(&rules(&[text]), "{}").unwrap();
    assert_eq!(verdicts.denied.len(), MOST_MESSAGES + 1);
    assert_eq!(&*verdicts.denied[MOST_MESSAGES].message, "… and 4900 more");
    assert_eq!(verdicts.warned.len(), 1);
    assert!(verdicts.warned[0].message.chars().count() <= LONGEST_MESSAGE + 1);
}
