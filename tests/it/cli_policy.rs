//! Rules in Rego that judge plans: what they deny is not applied, whatever a change under review says of them.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use super::accepted::example;
use super::fixture::Fixture;

const POLICY: &str =
    "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {rego: policies}\n";
const RULES: &str = "package main\nimport rego.v1\n\
    deny contains sprintf(\"%s is new\", [change.node]) if { some change in input.changes; change.kind == \"create\" }\n\
    warn contains \"on a Monday\" if time.weekday(time.parse_rfc3339_ns(sprintf(\"%sT00:00:00Z\", [input.options.as_of]))) == \"Monday\"\n";

/// The example of three machines, with rules that deny every new one.
fn ruled() -> Fixture {
    let fixture = example("edge");
    fixture.checkout.write("policy.yaml", POLICY);
    fixture.checkout.write("policies/main.rego", RULES);
    fixture.checkout.commit("The site with its rules");
    fixture
}

#[test]
fn what_rules_deny_is_shown_in_the_plan_and_not_applied() {
    let fixture = ruled();
    let monday = ["plan", "--as-of", "2030-06-03"];
    let text = fixture.run(&monday).with(0).stdout;
    assert!(
        text.contains("DENIED\n  edge-1 is new (main.deny)\n"),
        "{text}"
    );
    assert!(text.contains("warning: on a Monday (main.warn)"), "{text}");
    assert!(
        text.contains("DENIED by 1 rule of the site; nothing is applied."),
        "{text}"
    );
    let markdown = fixture
        .run(&[&monday[..], &["--format", "markdown"]].concat())
        .with(0)
        .stdout;
    assert!(markdown.contains("**Denied**"), "{markdown}");
    let json = fixture
        .run(&[&monday[..], &["--format", "json"]].concat())
        .with(0)
        .json();
    assert_eq!(json["policies"]["denied"].as_array().unwrap().len(), 3);
    assert_eq!(json["policies"]["warned"][0]["message"], "on a Monday");
    fixture
        .run(&["apply", "--yes"])
        .with(4)
        .saying("main.deny: edge-1 is new");
    assert_eq!(fixture.tags(), Vec::<String>::new());
    assert!(!fixture.simulated_site().exists());

    fixture.checkout.write(
        "policies/main.rego",
        RULES.replace("== \"create\"", "== \"destroy\""),
    );
    fixture.commit_and_apply("Other rules", &[]).with(0);
}

#[test]
fn a_saved_plan_is_judged_anew_by_the_rules_of_the_protected_revision() {
    let fixture = ruled();
    fixture.checkout.git(&["switch", "--quiet", "-c", "change"]);
    fixture
        .checkout
        .git(&["rm", "--quiet", "-r", "policies", "policy.yaml"]);
    fixture.checkout.commit("No rules any more");
    let file = fixture.checkout.outside().join("plan.json");
    let file = file.to_str().unwrap();
    let plan = fixture.run(&["plan", "-o", file]).with(0).stdout;
    assert!(!plan.contains("DENIED"), "{plan}");
    let protected = ["--backends-from", "refs/heads/main"];
    let plan = fixture
        .run(&[&["plan"], &protected[..]].concat())
        .with(0)
        .stdout;
    assert!(plan.contains("edge-1 is new (main.deny)"), "{plan}");
    fixture
        .run(&[&["apply", file, "--yes"], &protected[..]].concat())
        .with(4)
        .saying("the rules of the site deny the plan");
    fixture.run(&["apply", file, "--yes"]).with(0);
}

#[test]
fn rules_that_cannot_be_read_or_evaluated_let_no_plan_pass() {
    let fixture = ruled();
    for (rules, says) in [
        (
            "package main\ndeny contains",
            "the rules in `policies/main.rego` cannot be read",
        ),
        (
            "package main\nimport rego.v1\ndeny contains 1 / count([])",
            "the rules of package `main` cannot be evaluated",
        ),
    ] {
        fixture.checkout.write("policies/main.rego", rules);
        fixture.run(&["plan"]).with(1).saying(says);
        fixture.checkout.commit("Broken rules");
        fixture
            .run(&["apply", "--yes", "--allow-intermediate-commits"])
            .with(1)
            .saying(says);
    }
    fixture.checkout.git(&["rm", "--quiet", "-r", "policies"]);
    fixture
        .run(&["plan"])
        .with(1)
        .saying("there are no rules in `policies`");
    // What a link leads to is not read.
    let outside = fixture.checkout.outside().join("rules");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.rego"), "package main\n").unwrap();
    std::os::unix::fs::symlink(&outside, fixture.checkout.path().join("policies")).unwrap();
    fixture.run(&["plan"]).with(1).saying("policies");
    fixture.checkout.commit("A link");
    fixture.run(&["plan"]).with(1).saying("policies");
    for folder in ["../rules", "/etc", "a//b", ".git"] {
        fixture
            .checkout
            .write("policy.yaml", POLICY.replace("policies", folder));
        let ended = fixture.run(&["validate"]).with(1);
        assert!(
            ended.stdout.contains("schema-value"),
            "{folder}: {}",
            ended.stdout
        );
    }
}

/// The rules of package `main`, with the rule `warn` of a body that binds its message `m`.
fn with_body(body: &str) -> String {
    format!("package main\nimport rego.v1\nwarn contains m if {{ {body} }}\n")
}

#[test]
fn rules_that_take_too_much_are_a_refusal_of_every_command() {
    let fixture = ruled();
    let file = fixture.checkout.outside().join("plan.json");
    let file = file.to_str().unwrap();
    fixture.run(&["plan", "-o", file]).with(0);
    let memory = "the rules of package `main` take more than 256 MiB of memory";
    let deep = "are nested too deeply";
    // One call of a function takes all memory, and no limit inside of the engine comes to it.
    let text = "a := concat(\"\", [s | some i in numbers.range(1, 100000); s := \"aaaaaaaaaaaaaaaaaaaaaaaaa\"]); \
                m := concat(\"\", [a | some i in numbers.range(1, 2000)])";
    // As many rules with as many messages as there may be.
    let messages: String = (0..600)
        .map(|number| {
            format!("warn_{number} contains sprintf(\"%0400d\", [x]) if {{ some x in numbers.range(1, 90) }}\n")
        })
        .collect();
    for (rules, says) in [
        (with_body(text), memory),
        (with_body("m := sprintf(\"%2000000000d\", [1])"), memory),
        (
            with_body("m := count([1 | some a in numbers.range(1, 9000000)])"),
            memory,
        ),
        (
            format!(
                "{}f(x) := y if {{ y := f(x + 1) }}\n",
                with_body("m := f(1)")
            ),
            deep,
        ),
        (
            format!("package main\nimport rego.v1\n{messages}"),
            "the rules of package `main` give more than 16 MiB of messages",
        ),
    ] {
        fixture.checkout.write("policies/main.rego", rules);
        fixture.run(&["plan"]).with(4).saying(says);
        fixture.run(&["policy", "test", file]).with(4).saying(says);
    }
    fixture.checkout.write(
        "policies/main.rego",
        with_body("m := sprintf(\"%2000000000d\", [1])"),
    );
    fixture.checkout.commit("Rules that take all memory");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(4)
        .saying(memory);
    assert_eq!(fixture.tags(), Vec::<String>::new());
    assert!(!fixture.simulated_site().exists());
}

#[test]
fn rules_that_take_too_long_are_ended_by_the_system() {
    let fixture = Fixture::empty("none");
    let mut command = Command::new(fixture.command(&[]).get_program());
    let mut child = command
        .args(["evaluate-rules", "500000000", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let body = "m := count([1 | some a in numbers.range(1, 99999); some b in numbers.range(1, 99999); a == b])";
    let files = serde_json::json!([{"path": "a.rego", "text": with_body(body)}]);
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "{files}\n{{}}").unwrap();
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(24), "SIGXCPU: {ended:?}");
    assert_eq!(
        String::from_utf8_lossy(&ended.stdout),
        "{\"begun\":{\"file\":\"a.rego\"}}\n{\"begun\":{\"package\":\"main\"}}\n"
    );
}

#[test]
fn the_process_of_rules_is_no_command() {
    let fixture = Fixture::empty("none");
    for words in [
        &["evaluate-rules"][..],
        &["evaluate-rules", "1"],
        &["evaluate-rules", "x", "y"],
    ] {
        fixture
            .run(words)
            .with(64)
            .saying("unrecognized subcommand");
    }
}

#[test]
fn rules_for_another_version_of_the_input_let_no_plan_pass() {
    let fixture = ruled();
    let rules = |version: u32| {
        RULES.replace(
            "import rego.v1\n",
            &format!("import rego.v1\ninput_version := {version}\n"),
        )
    };
    fixture.checkout.write("policies/main.rego", rules(1));
    let plan = fixture.run(&["plan"]).with(0).stdout;
    assert!(plan.contains("edge-1 is new (main.deny)"), "{plan}");
    fixture.checkout.write("policies/main.rego", rules(2));
    fixture
        .run(&["plan"])
        .with(1)
        .saying("are written for version 2 of the input (`input_version`), and this program gives version 1")
        .saying("`trueup schemas` writes `policy-input.json`");
}

#[test]
fn rules_are_tried_on_a_saved_plan() {
    let fixture = ruled();
    let file = fixture.checkout.outside().join("plan.json");
    let file = file.to_str().unwrap();
    fixture
        .run(&["plan", "--as-of", "2030-06-04", "-o", file])
        .with(0);
    let test = ["policy", "test", file];
    let denied = fixture.run(&test).with(4).stdout;
    assert!(
        denied.starts_with("denied: edge-1 is new (main.deny)\n"),
        "{denied}"
    );
    assert!(denied.ends_with("3 denied, 0 warnings\n"), "{denied}");
    fixture.checkout.write("rules/other.rego", "package other\nimport rego.v1\nwarn contains {\"msg\": \"three\"} if count(input.changes) == 3\n");
    let warned = fixture
        .run(&[&test[..], &["--rules", "rules", "--format", "json"]].concat())
        .with(0)
        .json();
    assert_eq!(warned["policies"]["warned"][0]["message"], "three");
    assert!(warned["policies"]["denied"].is_null());
    fixture
        .run(&[&test[..], &["--rules", "none"]].concat())
        .with(1);
    fixture.run(&["policy", "test", "missing.json"]).with(1);
}

#[test]
fn the_examples_of_rules_judge_a_plan() {
    let fixture = Fixture::one_rack();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    super::fixture::copy_folder(
        &root.join("site-examples/policies"),
        &fixture.checkout.path().join("policies"),
    );
    fixture.run(&["apply", "--yes"]).with(0);
    let images = fixture
        .read("host-profiles.yaml")
        .replace("image: ", "image: x");
    fixture.checkout.write("host-profiles.yaml", images);
    let judged = |day: &str| {
        let file = fixture.checkout.outside().join("plan.json");
        let file = file.to_str().unwrap();
        fixture
            .run(&[
                "plan",
                "--allow-redeploy",
                "all",
                "--as-of",
                day,
                "-o",
                file,
            ])
            .with(0);
        fixture.run(&["policy", "test", file]).with(4).stdout
    };
    let friday = judged("2030-06-07");
    assert!(
        friday.contains("would be torn down on a Friday (trueup.fridays.deny)"),
        "{friday}"
    );
    assert!(
        friday.contains("which is not approved (trueup.images.deny)"),
        "{friday}"
    );
    assert!(
        friday.contains("racks are torn down: rack01, rack02"),
        "{friday}"
    );
    assert!(!judged("2030-06-06").contains("Friday"));
}
