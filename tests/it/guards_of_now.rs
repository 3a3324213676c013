//! What may be done to a machine is decided by the newest documents, whatever revision it is built of; and a word means
//! the machine that has it as its name.

use super::accepted::example;
use super::fixture::Fixture;

const WINDOW: &str =
    "data: {maintenance_windows: [{days: [monday], from: \"00:00\", to: \"00:01\"}]}";

fn applied(name: &str) -> Fixture {
    let fixture = example(name);
    fixture.checkout.commit("A site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
}

/// A small site that was applied, and an edit that was committed behind it.
fn edited(name: &str, policy: &str) -> Fixture {
    let fixture = applied(name);
    write_policy(&fixture, policy);
    fixture
}

fn write_policy(fixture: &Fixture, data: &str) {
    let text = format!("schema: trueup/Policy/v1\nmetadata: {{name: policy}}\n{data}\n");
    fixture.checkout.write("policy.yaml", text);
    fixture.checkout.commit("Edit the policy");
}

fn read(fixture: &Fixture, path: &str) -> String {
    std::fs::read_to_string(fixture.checkout.path().join(path)).unwrap()
}

/// The number of waves of a redeploy of the whole site.
fn waves(fixture: &Fixture, more: &[&str]) -> usize {
    let plan = [&["plan", "redeploy", "--all", "--format", "json"], more].concat();
    let plan = fixture.run(&plan).with(0).json();
    let steps = plan["steps"].as_array().unwrap().iter();
    let is_wave = |step: &&serde_json::Value| step["id"].as_str().unwrap().starts_with("wave/");
    steps.filter(is_wave).count()
}

#[test]
fn a_window_that_head_shuts_holds_for_what_is_built_of_the_last_success() {
    let fixture = edited("edge", WINDOW);
    for action in [&["power", "off"][..], &["redeploy"], &["teardown"]] {
        let arguments = [&["apply"], action, &["edge-1", "--yes"]].concat();
        fixture.run(&arguments).with(4).saying("maintenance window");
    }
    let file = fixture.checkout.path().join("redeploy.plan");
    let file = file.to_str().unwrap();
    fixture
        .run(&["plan", "redeploy", "edge-1", "-o", file])
        .with(0);
    fixture
        .run(&["apply", file, "--yes", "--allow-redeploy", "all"])
        .with(4)
        .saying("maintenance window");
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn a_limit_that_one_revision_leaves_out_is_the_default_there() {
    let fixture = example("edge");
    write_policy(&fixture, "data: {max_unavailable: {total: 3}}");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    assert_eq!(waves(&fixture, &[]), 1);
    std::fs::remove_file(fixture.checkout.path().join("policy.yaml")).unwrap();
    fixture.checkout.commit("Remove the limit");
    let by_default = waves(&fixture, &["--target-revision", "committed"]);
    assert!(by_default > 1);
    assert_eq!(waves(&fixture, &[]), by_default);
}

#[test]
fn a_rule_of_head_judges_what_is_built_of_the_last_success() {
    let fixture = applied("edge");
    fixture.checkout.write(
        "policies/no.rego",
        "package trueup\nimport rego.v1\ndeny contains \"no redeploys\" if { some c in input.changes; c.kind == \"redeploy\" }\n",
    );
    write_policy(&fixture, "data: {rego: policies}");
    for revision in ["committed", "successful-site-action"] {
        let arguments = [
            "apply",
            "redeploy",
            "edge-1",
            "--yes",
            "--target-revision",
            revision,
        ];
        fixture.run(&arguments).with(4).saying("no redeploys");
    }
}

#[test]
fn a_threshold_of_etcd_that_head_raises_holds_for_every_action() {
    let fixture = applied("control-plane");
    let text = read(&fixture, "etcd.yaml");
    let stricter = text.replace("minimum_healthy: 2", "minimum_healthy: 3");
    fixture.checkout.write("etcd.yaml", stricter);
    fixture.checkout.commit("Ask for three members");
    for action in ["decommission", "remove-etcd", "redeploy", "teardown"] {
        let plan = fixture.run(&["plan", action, "control-1"]).with(0);
        assert!(plan.stdout.contains("BLOCKED"), "{action}: {}", plan.stdout);
    }
    let moved = text.replace(
        "node: control-3, name: control-3",
        "node: worker-1, name: control-3",
    );
    assert_ne!(moved, text);
    let moved = moved.replace("10.60.1.13", "10.60.1.21");
    fixture.checkout.write("etcd.yaml", moved);
    fixture.checkout.commit("Move a member");
    for (node, why) in [
        ("control-3", "at an address of it, which no document lists"),
        ("worker-1", "and by its peer URL on no machine"),
    ] {
        let plan = fixture.run(&["plan", "teardown", node]).with(0);
        assert!(plan.stdout.contains(why), "{node}: {}", plan.stdout);
    }
}

#[test]
fn a_redeploy_of_the_last_success_names_what_head_changes() {
    let fixture = applied("edge");
    let text = read(&fixture, "profiles.yaml");
    fixture.checkout.write(
        "profiles.yaml",
        text.replace("ubuntu-24.04", "ubuntu-26.04"),
    );
    fixture.checkout.commit("Take the new image");
    let plan = fixture.run(&["plan", "redeploy", "edge-1"]).with(0);
    assert!(
        plan.stdout
            .contains("`--target-revision committed` takes that one"),
        "{}",
        plan.stdout
    );
    let plan = fixture.run(&[
        "plan",
        "redeploy",
        "edge-1",
        "--target-revision",
        "committed",
    ]);
    assert!(!plan.with(0).stdout.contains("takes that one"));
}

#[test]
fn an_action_on_a_node_takes_no_machine_with_a_tag_rack_or_group_of_that_name() {
    let fixture = example("edge");
    let text = read(&fixture, "nodes.yaml");
    let text = text
        .replace("edge-1", "worker")
        .replace("rack: closet", "rack: worker");
    fixture.checkout.write("nodes.yaml", text);
    fixture
        .checkout
        .commit("A node that is called as a tag and a rack");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let names = |words: &[&str]| {
        let listed = [&["nodes", "--format", "names"], words].concat();
        fixture.run(&listed).with(0).stdout.lines().count()
    };
    let taken = |words: &[&str]| {
        let plan = [&["plan", "redeploy", "--format", "json"], words].concat();
        let plan = fixture.run(&plan).with(0);
        plan.changes().len()
    };
    for (words, expected) in [
        (&["worker"][..], 1),
        (&["tag:worker"], 3),
        (&["rack:worker", "worker"], 3),
        (&["group:workers"], 3),
    ] {
        assert_eq!(
            (names(words), taken(words)),
            (expected, expected),
            "{words:?}"
        );
    }
    fixture
        .run(&["plan", "redeploy", "workers"])
        .with(1)
        .saying("unknown node `workers`; for more than a node, pass `group:workers`");
    fixture
        .run(&["apply", "redeploy", "worker", "--all", "--yes"])
        .with(64);
    fixture
        .run(&["apply", "redeploy", "worker", "--yes"])
        .with(0);
    assert_eq!(fixture.effects("destroyed"), 1);
}

/// A guard, its policy if it is strict and where it is not, and the actions that it holds for.
struct Row {
    strict: &'static str,
    loose: &'static str,
    holds_for: &'static [&'static [&'static str]],
    says: &'static str,
}

const UPDATE: &[&str] = &["apply", "--yes", "--allow-redeploy", "edge-1"];
const SAVED: &[&str] = &["saved"];
const REDEPLOY: &[&str] = &["apply", "redeploy", "edge-1", "--yes"];
const TEARDOWN: &[&str] = &["apply", "teardown", "edge-1", "--yes"];
const POWER: &[&str] = &["apply", "power", "off", "edge-2", "--yes"];

const ROWS: [Row; 5] = [
    Row {
        strict: "maintenance_windows: [{days: [monday], from: \"00:00\", to: \"00:01\"}]",
        loose: "{}",
        holds_for: &[UPDATE, SAVED, REDEPLOY, TEARDOWN, POWER],
        says: "maintenance window",
    },
    Row {
        strict: "protected: [{node_names: [edge-1]}]",
        loose: "{}",
        holds_for: &[UPDATE, SAVED, REDEPLOY, TEARDOWN],
        says: "the policy protects it",
    },
    Row {
        strict: "redeploy_on_change: never",
        loose: "{}",
        holds_for: &[UPDATE, SAVED],
        says: "redeploy_on_change",
    },
    Row {
        strict: "rego: strict",
        loose: "rego: loose",
        holds_for: &[UPDATE, SAVED, REDEPLOY, TEARDOWN],
        says: "not edge-1",
    },
    Row {
        strict: "flags: {forbid: [parallelism, outside-windows, allow-redeploy]}",
        loose: "{}",
        holds_for: &[UPDATE, SAVED],
        says: "forbids",
    },
];

/// A site that was applied under one policy, where HEAD has another one and a new image.
fn between(in_force: &str, newest: &str) -> Fixture {
    let rules = |body: &str| format!("package trueup\nimport rego.v1\n{body}\n");
    let fixture = example("edge");
    let deny = "deny contains \"not edge-1\" if { input.base; some c in input.changes; c.node == \"edge-1\"; c.destructive }";
    fixture.checkout.write("strict/deny.rego", rules(deny));
    fixture
        .checkout
        .write("loose/none.rego", rules("none := 1"));
    let policy = |data: &str| {
        let data = if data.starts_with('{') {
            data.to_owned()
        } else {
            format!("{{{data}}}")
        };
        write_policy(&fixture, &format!("data: {data}"));
    };
    policy(in_force);
    fixture
        .run(&[
            "apply",
            "--yes",
            "--allow-intermediate-commits",
            "--outside-windows",
        ])
        .with(0);
    let text = read(&fixture, "profiles.yaml");
    let text = text.replace("ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.write("profiles.yaml", text);
    policy(newest);
    fixture
}

/// What an action ends with; `saved`: the update by a saved plan.
fn ends(fixture: &Fixture, action: &[&str]) -> crate::fixture::Ended {
    let more: &[&str] = match action.contains(&"redeploy") || action.contains(&"teardown") {
        true => &["--target-revision", "committed"],
        false => &[],
    };
    if action != SAVED {
        let update: &[&str] = match action == UPDATE {
            true => &["--allow-loosening", "--skip-blocked"],
            false => &[],
        };
        return fixture.run(&[action, more, update].concat());
    }
    let file = fixture.checkout.outside().join("saved.plan");
    let file = file.to_str().unwrap();
    let flags = [
        "--allow-redeploy",
        "edge-1",
        "--allow-loosening",
        "--target",
        "edge-1",
    ];
    let planned = fixture.run(&[&["plan", "-o", file][..], &flags].concat());
    if planned.code != 0 {
        return planned;
    }
    fixture.run(&[&["apply", file, "--yes"][..], &flags[..3]].concat())
}

#[test]
fn a_guard_holds_for_every_action_if_it_is_strict_at_head_or_in_force() {
    for row in &ROWS {
        for (in_force, newest) in [
            (row.loose, row.strict),
            (row.strict, row.loose),
            (row.strict, row.strict),
        ] {
            let fixture = between(in_force, newest);
            for action in row.holds_for {
                // An update that leaves out what is blocked has nothing of it left.
                let ended = ends(&fixture, action);
                let what = format!("{in_force} in force, {newest} at HEAD: {action:?}");
                let text = format!("{}{}", ended.stdout, ended.stderr);
                assert!(text.contains(row.says), "{what}: {text}");
                assert_eq!(fixture.effects("destroyed"), 0, "{what}");
                assert_eq!(fixture.effects("powered-off"), 0, "{what}");
                if newest == row.loose && ended.code == 4 && *action != SAVED {
                    assert!(text.contains("trueup apply guards"), "{what}: {text}");
                }
            }
            if newest == row.loose {
                fixture
                    .run(&["apply", "guards", "--yes"])
                    .with(4)
                    .saying("--allow-loosening");
                let tags = fixture.checkout.git(&["tag"]);
                fixture
                    .run(&["apply", "guards", "--yes", "--allow-loosening"])
                    .with(0);
                assert_eq!(fixture.checkout.git(&["tag"]), tags, "no site action");
                ends(&fixture, row.holds_for[0]).with(0);
                assert_eq!(fixture.effects("destroyed"), 1, "{newest} is used now");
            }
        }
        let fixture = between(row.loose, row.loose);
        for action in row.holds_for.iter().filter(|action| **action != SAVED) {
            ends(&fixture, action).with(0);
        }
    }
}

#[test]
fn a_protected_revision_keeps_no_loosening_of_the_documents_from_being_seen() {
    let fixture = example("edge");
    write_policy(&fixture, "data: {max_failures: 1}");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let protected = fixture.checkout.git(&["rev-parse", "HEAD"]);
    write_policy(&fixture, "data: {max_failures: 5}");
    let apply = ["apply", "--yes", "--backends-from", protected.trim()];
    fixture
        .run(&apply)
        .with(4)
        .saying("`max_failures`: 5 instead of 1");
    fixture
        .run(&[&apply[..], &["--allow-loosening"]].concat())
        .with(0);
}

#[test]
fn a_protected_machine_is_the_same_under_another_name() {
    let fixture = example("one-rack");
    write_policy(&fixture, "data: {protected: [{node_names: [compute11]}]}");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let text = read(&fixture, "nodes/compute.yaml");
    let renamed = text.replace("name: compute11}", "name: renamed}");
    assert_ne!(renamed, text);
    fixture.checkout.write("nodes/compute.yaml", renamed);
    fixture.checkout.commit("Rename a machine");
    let redeploy = [
        "apply",
        "redeploy",
        "renamed",
        "--yes",
        "--target-revision",
        "committed",
    ];
    fixture
        .run(&redeploy)
        .with(4)
        .saying("the policy protects it");
}

#[test]
fn a_limit_holds_over_the_machines_that_had_the_tag_when_it_came_into_force() {
    let fixture = example("control-plane");
    let nodes = read(&fixture, "nodes.yaml");
    let tagged = nodes.replace("tags: [worker]", "tags: [worker, slow]");
    assert_ne!(nodes, tagged);
    fixture.checkout.write("nodes.yaml", tagged);
    write_policy(
        &fixture,
        "data: {max_unavailable: {total: 3, by_tag: {slow: 1}}}",
    );
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let waves = || {
        let words = [
            "plan", "redeploy", "worker-1", "worker-2", "--format", "json",
        ];
        let plan = fixture.run(&[&words[..], &["--target-revision", "committed"]].concat());
        let plan = plan.with(0).json();
        let steps = plan["steps"].as_array().unwrap().iter();
        let is_wave = |step: &&serde_json::Value| step["id"].as_str().unwrap().starts_with("wave/");
        steps.filter(is_wave).count()
    };
    assert_eq!(waves(), 2);
    fixture.checkout.write("nodes.yaml", nodes);
    fixture.checkout.commit("Take the tags off");
    assert_eq!(waves(), 2);
    let plan = fixture.run(&["plan", "guards"]).with(0).stdout;
    assert!(
        plan.contains("tagged.slow: no longer worker-1, worker-2"),
        "{plan}"
    );
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    assert_eq!(waves(), 1);
}

#[test]
fn the_guards_of_a_revision_that_machines_are_only_built_of_do_not_hold() {
    let fixture = applied("edge");
    write_policy(&fixture, "data: {protected: [{node_names: [edge-1]}]}");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    write_policy(&fixture, "data: {}");
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    // The last success still protects it, and is only what it is built of.
    fixture
        .run(&["apply", "redeploy", "edge-1", "--yes"])
        .with(0);
}

#[test]
fn a_flag_does_not_take_back_that_a_cluster_lists_a_member_on_a_node() {
    let fixture = applied("control-plane");
    let text = read(&fixture, "etcd.yaml");
    let kept = text.lines().filter(|line| {
        let dropped = [
            "node: control-2",
            "node: control-3",
            "thresholds",
            "minimum_healthy",
        ];
        !dropped.iter().any(|word| line.contains(word))
    });
    let kept: Vec<&str> = kept.collect();
    fixture.checkout.write("etcd.yaml", kept.join("\n") + "\n");
    fixture.checkout.commit("One member");
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    let words = [
        "apply",
        "teardown",
        "control-3",
        "--yes",
        "--target-revision",
        "committed",
        "--no-etcd-here",
        "control-3",
    ];
    fixture
        .run(&words)
        .with(4)
        .saying("at an address of it, which no document lists");
}

/// Writes that machines are to have so much memory, and that one of them shows so much.
fn write_memory(fixture: &Fixture, expected: u32, shown: u32) {
    let backends = read(fixture, "backends.yaml");
    let kept = backends.split("      hardware: [").next().unwrap();
    let values = format!(
        "      hardware: [{{nodes: [edge-1], values: {{expect.memory_gib: \"{shown}\"}}}}]\n"
    );
    fixture
        .checkout
        .write("backends.yaml", kept.to_owned() + &values);
    let document = format!(
        "schema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata: {{expect: {{memory_gib: {expected}}}}}\n"
    );
    fixture.checkout.write("hardware.yaml", document);
}

#[test]
fn one_commit_cannot_expect_less_of_a_machine_and_deploy_it() {
    for lowered in ["lower", "drop"] {
        let fixture = example("edge");
        write_memory(&fixture, 512, 512);
        write_policy(&fixture, "data: {expected_hardware: demand}");
        let apply = ["apply", "--yes", "--allow-intermediate-commits"];
        fixture.run(&apply).with(0);
        write_memory(&fixture, 448, 448);
        if lowered == "drop" {
            std::fs::remove_file(fixture.checkout.path().join("hardware.yaml")).unwrap();
        }
        let profiles = read(&fixture, "profiles.yaml").replace("ubuntu-24.04", "ubuntu-26.04");
        fixture.checkout.write("profiles.yaml", profiles);
        fixture.checkout.commit("Expect less, and a new image");
        let why = "the guards in force demand that it has expect.memory_gib: 512";
        for action in [UPDATE, SAVED, REDEPLOY] {
            let ended = ends(&fixture, action);
            let text = format!("{}{}", ended.stdout, ended.stderr);
            assert!(text.contains(why), "{lowered} {action:?}: {text}");
            assert_eq!(fixture.effects("destroyed"), 0, "{lowered} {action:?}");
        }
        let guards = ["apply", "guards", "--yes"];
        let refused = fixture.run(&guards).with(4);
        refused.saying("--allow-loosening").saying("expected_parts");
        fixture
            .run(&[&guards[..], &["--allow-loosening"]].concat())
            .with(0);
        ends(&fixture, UPDATE).with(0);
        assert_eq!(fixture.effects("destroyed"), 1, "{lowered}");
    }
}

#[test]
fn what_is_expected_of_a_machine_that_is_built_of_an_older_revision_is_of_now() {
    let fixture = example("edge");
    write_memory(&fixture, 448, 448);
    write_policy(&fixture, "data: {expected_hardware: demand}");
    let apply = ["apply", "--yes", "--allow-intermediate-commits"];
    fixture.run(&apply).with(0);
    write_memory(&fixture, 512, 448);
    fixture.checkout.commit("Expect more");
    let why = "the policy demands the parts that are expected of it: expect.memory_gib: 448, designed 512";
    for more in [&[][..], &["--target-revision", "successful-site-action"]] {
        let redeploy = [REDEPLOY, more].concat();
        let ended = fixture.run(&redeploy);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(text.contains(why), "{more:?}: {text}");
        assert_eq!(fixture.effects("destroyed"), 0, "{more:?}");
    }
}

#[test]
fn a_new_machine_is_held_to_what_is_expected_once_it_is_prepared() {
    let fixture = example("edge");
    write_memory(&fixture, 512, 448);
    let backends = read(&fixture, "backends.yaml");
    let shows = "{nodes: [edge-1], values:";
    assert!(backends.contains(shows), "{backends}");
    let inspected = backends.replace(shows, "{nodes: [edge-1], once_prepared: true, values:");
    fixture.checkout.write("backends.yaml", inspected);
    write_policy(&fixture, "data: {expected_hardware: demand}");
    // Nothing is known of it when it is planned.
    let plan = fixture.run(&["plan", "--detailed-exitcode"]).with(2);
    assert!(!plan.stdout.contains("expect."), "{}", plan.stdout);
    let ended = fixture.run(&["apply", "--yes"]).with(7);
    let why = "the policy demands the parts that are expected of it: expect.memory_gib: 448, designed 512";
    ended.saying(&format!("deploy/workers/edge-1 FAILED after 0.0 s: {why}"));
    assert_eq!(
        (fixture.effects("prepared"), fixture.effects("deployed")),
        (3, 2)
    );
    // From then on it is known before anything is begun.
    let blocked = fixture.run(&["apply", "--yes"]).with(4);
    blocked.saying(why);
    assert_eq!(fixture.effects("deployed"), 2);
}

#[test]
fn a_proposal_cannot_expect_less_than_the_protected_revision() {
    for lowered in ["lower", "drop", "report"] {
        let fixture = example("edge");
        write_memory(&fixture, 512, 448);
        write_policy(&fixture, "data: {expected_hardware: demand}");
        fixture.checkout.git(&["branch", "protected"]);
        match lowered {
            "lower" => write_memory(&fixture, 448, 448),
            "drop" => std::fs::remove_file(fixture.checkout.path().join("hardware.yaml")).unwrap(),
            _ => write_policy(&fixture, "data: {expected_hardware: report}"),
        }
        fixture.checkout.commit("Expect less");
        let protected = ["--backends-from", "refs/heads/protected"];
        let why = "expect.memory_gib: 512";
        let file = fixture.checkout.outside().join("saved.plan");
        let file = file.to_str().unwrap();
        let plan = fixture.run(&[&["plan", "-o", file], &protected[..]].concat());
        let text = format!("{}{}", plan.stdout, plan.stderr);
        let says = match lowered {
            "report" => "expect.memory_gib: 448, designed 512",
            _ => why,
        };
        assert!(text.contains(says), "{lowered}: {text}");
        for apply in [&["apply", "--yes"][..], &["apply", "--yes", file]] {
            let ended = fixture.run(&[apply, &protected].concat());
            let text = format!("{}{}", ended.stdout, ended.stderr);
            assert!(text.contains(says), "{lowered}: {text}");
            assert_ne!(ended.code, 0, "{lowered}: {text}");
        }
        assert!(!fixture.simulated_site().exists(), "{lowered}");
        // Also once the plan is one of an older commit, and was made without the protected revision.
        fixture.run(&["plan", "-o", file]).with(0);
        fixture.checkout.write("notes.txt", "of another change");
        fixture.checkout.commit("Another change");
        let ended = fixture.run(&[&["apply", "--yes", file], &protected[..]].concat());
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(text.contains(says), "{lowered}: {text}");
        assert_ne!(ended.code, 0, "{lowered}: {text}");
        assert!(!fixture.simulated_site().exists(), "{lowered}");
    }
}
