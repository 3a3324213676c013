//! Differences of machines from their design that are accepted: by the policy, or by hand.

use super::cli_interrupted::{clone, same_machines, shared};
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::Checkout;

const POLICY: &str = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata:\n  ignore_changes:\n  \
                      - {paths: [\"networks.*.dns\"], reason: name servers are set by DHCP}\n";

/// The example of a control plane, applied.
fn applied() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "control-plane");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    copy_folder(
        &root.join("site-examples/control-plane"),
        fixture.checkout.path(),
    );
    fixture
        .commit_and_apply("The site as it begins", &[])
        .with(0);
    fixture
}

fn servers(fixture: &Fixture, from: &str, to: &str) {
    fixture.edit(
        "networks.yaml",
        &format!("servers: {from}}}"),
        &format!("servers: {to}}}"),
    );
}

/// The nodes of a plan that is only to list what was accepted.
#[track_caller]
fn accepted(fixture: &Fixture) -> usize {
    let plan = fixture
        .run(&["plan", "--format", "json", "--detailed-exitcode"])
        .with(0)
        .json();
    let steps = plan["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["node"].is_null()), "{plan}");
    let changes = plan["changes"].as_array().unwrap();
    for change in changes {
        assert_eq!(change["kind"], "accept", "{change}");
        let fields = change["fields"].as_array().unwrap();
        assert!(!fields.is_empty());
        for field in fields {
            let by = field["accepted"].as_str().unwrap();
            assert!(by.starts_with("by Ada in run "), "{by}");
        }
    }
    changes.len()
}

fn all_of(fixture: &Fixture, kind: &str) -> bool {
    let planned = fixture.planned(&[]);
    planned.len() == 5 && planned.values().all(|each| each == kind)
}

#[test]
fn what_a_policy_ignores_is_recorded_and_redeploys_nothing_when_the_rule_is_gone() {
    let fixture = applied();
    let begun = fixture.ledger();
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    assert!(all_of(&fixture, "redeploy"));
    fixture.checkout.write("policy.yaml", POLICY);
    assert!(all_of(&fixture, "accept"));
    let plan = fixture.run(&["plan"]).with(0).stdout;
    assert!(plan.contains("5 to accept"), "{plan}");
    assert!(
        plan.contains("accepted by the policy (`networks.*.dns`): name servers are set by DHCP"),
        "{plan}"
    );
    fixture.commit_and_apply("Another name server", &[]).with(0);
    assert_eq!(fixture.tags(), ["success", "success"]);
    assert_eq!(accepted(&fixture), 5);
    let status = fixture.run(&["status"]).with(0).stdout;
    assert!(
        status.contains("networks.oam.dns.servers differs, as accepted"),
        "{status}"
    );

    std::fs::remove_file(fixture.checkout.path().join("policy.yaml")).unwrap();
    fixture.commit_and_apply("No rule any more", &[]).with(0);
    assert_eq!(accepted(&fixture), 5);

    // Another value is another difference.
    servers(&fixture, "10.60.1.2", "10.60.1.3");
    assert!(all_of(&fixture, "redeploy"));
    fixture.commit_and_apply("A third one", &[]).with(4);
    // What is on the machines is no difference, and what was accepted comes back with its value.
    servers(&fixture, "10.60.1.3", "10.60.1.1");
    assert_eq!(fixture.planned(&[]), [].into());
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    assert!(all_of(&fixture, "accept"));
    assert_eq!(fixture.ledger(), begun);
}

#[test]
fn only_the_fields_and_nodes_of_a_rule_are_ignored() {
    let fixture = applied();
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    let selectors = "  - {paths: [networks.*.dns.domain, platform], reason: r}\n  \
                     - {paths: [\"**.servers\"], reason: r, selectors: [{node_tags: [worker]}]}\n";
    let (head, _) = POLICY.split_once("  - {").unwrap();
    fixture
        .checkout
        .write("policy.yaml", format!("{head}{selectors}"));
    let planned = fixture.planned(&[]);
    for (node, kind) in &planned {
        let expected = if node.starts_with("worker") {
            "accept"
        } else {
            "redeploy"
        };
        assert_eq!(kind, expected, "{node}");
    }
    assert_eq!(planned.len(), 5);
    // One field that is not ignored redeploys the machine, and the ignored one is marked.
    fixture.edit("networks.yaml", "vlan: \"601\"", "vlan: \"602\"");
    assert!(all_of(&fixture, "redeploy"));
    let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
    let worker = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["node"] == "worker-1");
    let marked: Vec<bool> = worker.unwrap()["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["accepted"].is_string())
        .collect();
    assert_eq!(marked, [true, false]);
}

#[test]
fn a_rule_of_the_policy_that_is_none_is_an_error_with_its_place() {
    let fixture = applied();
    for (rule, says) in [
        ("{paths: [\".dns\"], reason: r}", "policy.yaml:6"),
        ("{paths: [a.***.b], reason: r}", "policy.yaml:6"),
        ("{paths: [], reason: r}", "policy.yaml:6"),
        ("{paths: [dns]}", "reason"),
    ] {
        let (head, _) = POLICY.split_once("{paths").unwrap();
        fixture
            .checkout
            .write("policy.yaml", format!("{head}{rule}\n"));
        let ended = fixture.run(&["validate"]).with(1);
        assert!(
            format!("{}{}", ended.stdout, ended.stderr).contains(says),
            "{rule}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
}

fn accept(fixture: &Fixture, more: &[&str]) -> Ended {
    fixture.run(&[&["accept", "--yes"], more].concat())
}

#[test]
fn a_difference_is_accepted_by_hand_with_its_reason_and_that_is_undone_by_hand() {
    let (first, origin) = shared(applied());
    servers(&first, "10.60.1.1", "10.60.1.2");
    first.checkout.commit("Another name server");
    first.checkout.git(&["push", "--quiet"]);
    accept(&first, &["worker-1", "--field", "networks.*.dns"])
        .with(64)
        .saying("--reason");
    accept(&first, &["worker-1", "--identity", "--reason", "r"]).with(64);
    accept(&first, &["worker-1", "--reason", "r"])
        .with(64)
        .saying("--field");
    accept(&first, &["worker-1", "--field", ".a", "--reason", "r"])
        .with(64)
        .saying("`--field .a` is not a pattern");
    let nothing = accept(&first, &["worker-1", "--field", "storage", "--reason", "r"]).with(4);
    nothing.saying("they differ in `networks.oam.dns.servers`");
    accept(
        &first,
        &[
            "worker-*",
            "--field",
            "networks.oam",
            "--reason",
            "by hand on them",
        ],
    )
    .with(0);

    // Another clone knows it, too, and it outlives a change of labels there.
    let second = clone(&first, &origin);
    let expected = |fixture: &Fixture| {
        let planned = fixture.planned(&[]);
        let of = |node: &str| planned.get(node).cloned().unwrap_or_default();
        [of("control-1"), of("worker-1"), of("worker-2")]
    };
    assert_eq!(expected(&second), ["redeploy", "accept", "accept"]);
    second.edit(
        "profiles.yaml",
        "{plane.example.org/role: worker}",
        "{plane.example.org/tier: gold}",
    );
    assert_eq!(expected(&second), ["redeploy", "relabel", "relabel"]);
    second
        .commit_and_apply("Gold", &["--skip-blocked", "--allow-intermediate-commits"])
        .with(0);
    second.checkout.git(&["push", "--quiet"]);
    assert_eq!(expected(&second), ["redeploy", "accept", "accept"]);
    let status = second.run(&["status", "--format", "json"]).with(0).stdout;
    assert!(
        status.contains("plane.example.org/tier") && !status.contains("plane.example.org/role"),
        "{status}"
    );
    second.edit("profiles.yaml", "{plane.example.org/tier: gold}", "{}");
    assert_eq!(expected(&second), ["redeploy", "relabel", "relabel"]);
    second.edit("profiles.yaml", "{}", "{plane.example.org/tier: gold}");

    same_machines(&second, &first);
    first.checkout.git(&["pull", "--quiet", "--ff-only"]);
    accept(&first, &["worker-2", "--field", "networks", "--unset"]).with(0);
    assert_eq!(expected(&first), ["redeploy", "accept", "redeploy"]);
    accept(&first, &["worker-2", "--field", "networks", "--unset"])
        .with(0)
        .saying("has no such difference that was accepted");
}

#[test]
fn a_machine_that_is_built_again_has_its_whole_design_and_no_acceptance_is_left() {
    let fixture = applied();
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    fixture.checkout.commit("Another name server");
    accept(&fixture, &["*", "--field", "networks", "--reason", "r"]).with(0);
    assert_eq!(accepted(&fixture), 5);
    fixture
        .run(&[
            "apply",
            "redeploy",
            "worker-1",
            "--target-revision",
            "committed",
            "--yes",
        ])
        .with(0);
    assert_eq!(accepted(&fixture), 4);
    // On the machine that was built again the old value is a difference now, and on the others it is none.
    servers(&fixture, "10.60.1.2", "10.60.1.1");
    assert_eq!(
        fixture.planned(&[]),
        [("worker-1".to_owned(), "redeploy".to_owned())].into()
    );
}

#[test]
fn a_secret_is_never_accepted_since_its_digest_would_be_recorded() {
    let fixture = applied();
    let secret = |name: &str| {
        format!(
            "---\nschema: deckhand/Passphrase/v1\nmetadata: {{name: {name}, storagePolicy: encrypted}}\ndata: {name}-value\n"
        )
    };
    let secrets = secret("token") + &secret("other");
    fixture.checkout.write("secret.yaml", secrets);
    fixture.edit(
        "nodes.yaml",
        "metadata: {name: worker-1}",
        "metadata:\n  name: worker-1\n  substitutions:\n  - {src: {schema: deckhand/Passphrase/v1, name: token, path: .}, \
         dest: {path: .platform.kernel_params.token}}",
    );
    fixture
        .commit_and_apply("A token", &["--allow-redeploy", "worker-1"])
        .with(0);
    fixture.edit("nodes.yaml", "name: token, path", "name: other, path");
    let (head, _) = POLICY.split_once("  - {").unwrap();
    fixture.checkout.write(
        "policy.yaml",
        format!("{head}  - {{paths: [\"**\"], reason: r}}\n"),
    );
    let planned = fixture.planned(&[]);
    assert_eq!(
        planned,
        [("worker-1".to_owned(), "redeploy".to_owned())].into()
    );
    fixture.checkout.commit("Another token");
    let refused = accept(
        &fixture,
        &["worker-1", "--field", "platform", "--reason", "r"],
    )
    .with(4);
    let said = refused.stdout + &refused.stderr;
    assert!(said.contains("is secret, or holds a secret"), "{said}");
}

#[test]
fn a_saved_plan_accepts_what_it_shows_and_another_value_makes_it_stale() {
    let fixture = applied();
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    fixture.checkout.write("policy.yaml", POLICY);
    fixture.checkout.commit("Another name server");
    fixture.run(&["plan", "-o", "plan.json"]).with(0);
    std::fs::rename(
        fixture.checkout.path().join("plan.json"),
        fixture.checkout.outside().join("plan.json"),
    )
    .unwrap();
    let plan = fixture.checkout.outside().join("plan.json");
    let plan = plan.to_str().unwrap();
    servers(&fixture, "10.60.1.2", "10.60.1.3");
    fixture.checkout.commit("A third one");
    fixture.run(&["apply", plan]).with(5);
    fixture
        .checkout
        .git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    fixture.run(&["apply", plan]).with(0);
    assert_eq!(accepted(&fixture), 5);
    fixture.run(&["apply", plan]).with(5);
}

#[test]
fn a_field_in_which_nothing_differs_is_refused_with_those_that_do() {
    let fixture = applied();
    servers(&fixture, "10.60.1.1", "10.60.1.2");
    fixture.checkout.commit("Another name server");
    for (field, told) in [
        (
            "networks.oam.dns.server",
            "did you mean `networks.oam.dns.servers`?",
        ),
        (
            "storage",
            "none of the nodes differs in `storage`; they differ in `networks",
        ),
    ] {
        accept(&fixture, &["*", "--field", field, "--reason", "r"])
            .with(4)
            .saying(told);
        fixture
            .run(&["accept", "*", "--field", field, "--write"])
            .with(64)
            .saying(told);
    }
    // What is there is accepted once, and a second time nothing is left to accept.
    for _ in 0..2 {
        accept(&fixture, &["*", "--field", "networks", "--reason", "r"]).with(0);
    }
}

#[test]
fn a_path_that_no_machine_has_is_told_with_the_one_that_is_meant() {
    let fixture = applied();
    fixture.checkout.write("policy.yaml", POLICY);
    let valid = fixture.run(&["validate"]).with(0);
    assert!(!valid.stderr.contains("rule-ignored-path"), "{valid:?}");
    let misspelt = POLICY.replace("networks.*", "network.*");
    fixture.checkout.write("policy.yaml", misspelt);
    let told = fixture.run(&["validate"]).with(0);
    let all = format!("{}{}", told.stdout, told.stderr);
    assert!(all.contains("no machine has a field `network`"), "{all}");
    assert!(all.contains("did you mean `networks`?"), "{all}");
}
