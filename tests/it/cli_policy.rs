//! Rules in Rego that judge plans: what they deny is not applied, whatever a change under review says of them.

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
