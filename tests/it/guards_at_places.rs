//! The guards that hold now hold wherever work goes on: if a run is resumed, if a part of one is carried out, and where a
//! service acts. The rows are those of `guards_of_now`, at these places.

use super::accepted::example;
use super::cli_interrupted::wait_for_effect;
use super::fixture::{Ended, Fixture};
use super::git::Checkout;

/// What a tightening of a guard does to a run that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The run is refused as a whole.
    Refused,
    /// The steps on the node that are not begun yet fail, and all others are carried out.
    NodeStays,
}

/// A guard that is tightened at HEAD while a run is under way, and which then says this.
pub(crate) struct Row {
    /// The fields of the policy, or of the retirements.
    pub(crate) strict: &'static str,
    pub(crate) ends: Ends,
    pub(crate) says: &'static str,
    /// Whether it holds for a redeploy that is asked for by name.
    pub(crate) for_actions: bool,
}

pub(crate) const ROWS: [Row; 11] = [
    Row {
        strict: "maintenance_windows: [{days: [monday], from: \"00:00\", to: \"00:01\"}]",
        ends: Ends::Refused,
        says: "maintenance window",
        for_actions: true,
    },
    Row {
        strict: "protected: [{node_names: [edge-3]}]",
        ends: Ends::NodeStays,
        says: "the policy protects it",
        for_actions: true,
    },
    Row {
        strict: "redeploy_on_change: never",
        ends: Ends::NodeStays,
        says: "redeploy_on_change: never",
        for_actions: false,
    },
    Row {
        strict: "max_unavailable: {total: 1}",
        ends: Ends::Refused,
        says: "can be away at the same time",
        for_actions: false,
    },
    Row {
        strict: "rego: strict",
        ends: Ends::Refused,
        says: "not edge-3",
        for_actions: true,
    },
    Row {
        strict: "flags: {forbid: [allow-redeploy]}",
        ends: Ends::Refused,
        says: "forbids `--allow-redeploy`",
        for_actions: false,
    },
    Row {
        strict: "approvals: {any: 1, allowed_signers: signers}",
        ends: Ends::Refused,
        says: "lacks approvals",
        for_actions: true,
    },
    Row {
        strict: "signed_runs: required, approvals: {allowed_signers: signers}",
        ends: Ends::Refused,
        says: "demands signed runs",
        for_actions: true,
    },
    Row {
        strict: "retirements: [{node_names: [edge-3], reason: a dead fan}]",
        ends: Ends::NodeStays,
        says: "retired: a dead fan",
        for_actions: false,
    },
    Row {
        strict: "wipe: require",
        ends: Ends::NodeStays,
        says: "wipe: require",
        for_actions: false,
    },
    Row {
        strict: "expected_hardware: demand",
        ends: Ends::NodeStays,
        says: "the policy demands the parts that are expected of it: expect.memory_gib: 448, designed 512",
        for_actions: true,
    },
];

/// A machine that lacks a part.
const PARTS: &str = "      hardware: [{nodes: [edge-3], values: {expect.memory_gib: \"448\"}}]\n";
const EXPECTED: &str = "\
schema: trueup/Hardware/v1
metadata: {name: all}
data: {mode: report, expect: {memory_gib: 512}}
";

/// Machines that take a while to be deployed, and nothing else does.
const IN_REAL_TIME: &str = "\
schema: trueup/Backends/v1
metadata: {name: backends}
data:
  hardware: {kind: sim, sim: {clock: real, hardware: [{nodes: [edge-3], values: {expect.memory_gib: \"448\"}}], durations: {destroy: 0.1, prepare: 0.1, deploy: 1}}}
  clusters: {kubernetes: {kind: sim, sim: {durations: {change: 0.1, shutdown_kubelet: 0.1, join: 0.1}}}}
";

pub(crate) const NODE: &str = "edge-3";

/// The policy that the run begins under: two machines at a time, of three.
pub(crate) const LOOSE: &str = "max_unavailable: {total: 2}, wipe: skip";

const SIGNER: &str = "ada@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n";

pub(crate) fn write_policy(fixture: &Fixture, data: &str) {
    let text = format!("schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{{data}}}\n");
    fixture.checkout.write("policy.yaml", text);
    fixture.checkout.commit("Edit the policy");
}

/// Tightens a guard at HEAD.
pub(crate) fn tighten(fixture: &Fixture, row: &Row) {
    if row.strict.starts_with("retirements:") {
        let text = format!(
            "schema: trueup/NodeRetirement/v1\nmetadata: {{name: retired}}\ndata: {{{}}}\n",
            row.strict
        );
        fixture.checkout.write("retired.yaml", text);
        fixture.checkout.commit("Retire a machine");
        return;
    }
    let own = row.strict.split(':').next().unwrap();
    let kept: Vec<&str> = ["max_unavailable: {total: 2}", "wipe: skip"]
        .into_iter()
        .filter(|field| !field.starts_with(own))
        .collect();
    write_policy(fixture, &format!("{}, {}", kept.join(", "), row.strict));
}

/// The site as it was applied, and a new image for all machines.
pub(crate) fn before() -> Fixture {
    let rules = |body: &str| format!("package trueup\nimport rego.v1\n{body}\n");
    let deny = "deny contains \"not edge-3\" if { input.base; some c in input.changes; c.node == \"edge-3\"; c.destructive }";
    let fixture = example("edge");
    fixture.checkout.write("strict/deny.rego", rules(deny));
    fixture.checkout.write("signers", SIGNER);
    let backends = fixture.read("backends.yaml") + PARTS;
    fixture.checkout.write("backends.yaml", backends);
    fixture.checkout.write("hardware.yaml", EXPECTED);
    write_policy(&fixture, LOOSE);
    let apply = ["apply", "--yes", "--allow-intermediate-commits"];
    fixture.run(&apply).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture
}

/// The same site in another folder, as it is.
fn copy_of(fixture: &Fixture) -> Fixture {
    let copy = Checkout::new();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(format!("{}/.", fixture.checkout.path().display()))
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    Fixture::of(copy, fixture.site())
}

pub(crate) fn destroyed(fixture: &Fixture, node: &str) -> usize {
    let key = format!("{node} destroyed");
    fixture.ledger().get(&key).copied().unwrap_or_default()
}

fn text(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn a_run_is_resumed_under_the_guards_that_hold_then() {
    let begun = before();
    begun.checkout.write("backends.yaml", IN_REAL_TIME);
    begun.checkout.commit("A new image, in real time");
    let mut run = begun.start(&["apply", "--yes", "--allow-redeploy", "all"]);
    wait_for_effect(&begun, "edge-1 destroyed");
    wait_for_effect(&begun, "edge-2 destroyed");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(destroyed(&begun, NODE), 0, "it is in the next wave");
    // No guard can be put in force meanwhile.
    begun.run(&["apply", "guards", "--yes"]).with(8);
    for row in &ROWS {
        let fixture = copy_of(&begun);
        tighten(&fixture, row);
        let ended = fixture.run(&["apply", "--resume"]);
        judge(row, &fixture, &ended);
        if row.ends == Ends::Refused {
            ended.with(4);
        }
    }
    begun.run(&["apply", "--resume"]).with(0);
    assert_eq!(destroyed(&begun, NODE), 1);
}

fn judge(row: &Row, fixture: &Fixture, ended: &Ended) {
    let (what, text) = (row.strict, text(ended));
    assert!(text.contains(row.says), "{what}: {text}");
    assert_eq!(destroyed(fixture, NODE), 0, "{what}: {text}");
    // What was taken away before the guard was tightened is not left half done for the sake of another machine.
    let deployed = fixture.ledger().get("edge-1 deployed").copied();
    let expected = match row.ends {
        Ends::Refused => 1,
        Ends::NodeStays => 2,
    };
    assert_eq!(deployed, Some(expected), "{what}: {text}");
}

#[test]
fn a_part_is_carried_out_under_the_guards_that_hold_then() {
    let begun = before();
    begun.checkout.commit("A new image");
    let file = begun.checkout.outside().join("site.plan");
    let file = file.to_str().unwrap();
    let plan = ["plan", "-o", file, "--allow-redeploy", "all"];
    begun.run(&plan).with(0);
    let shown = begun.run(&["show", file, "--format", "json"]).with(0);
    let shown = shown.json();
    let effect = shown["effect"].as_str().unwrap();
    let begin = [
        "run",
        "begin",
        file,
        "--run",
        "nightly",
        "--nodes-per-part",
        "1",
        "--effect",
        effect,
        "--format",
        "json",
    ];
    begun.run(&begin).with(0);
    let status = ["run", "status", "nightly", "--format", "json"];
    let status = begun.run(&status).with(0).json();
    let parts = status["parts"].as_array().unwrap().iter();
    let parts: Vec<&str> = parts.map(|part| part["part"].as_str().unwrap()).collect();
    let carry_out = |fixture: &Fixture| -> Ended {
        let mut all = Ended {
            code: 0,
            stdout: String::new(),
            stderr: String::new(),
        };
        for part in &parts {
            let ended = fixture.run(&["run", "part", "nightly", part]);
            all.stderr += &text(&ended);
            all.code = all.code.max(ended.code % 99);
            if ended.code == 4 {
                break;
            }
        }
        all
    };
    begun.run(&["apply", "guards", "--yes"]).with(6);
    // The machines of the first wave are torn down before.
    let is_teardown = |part: &&str| part.contains("wave-1.teardown");
    let last = parts.iter().rposition(is_teardown).unwrap();
    for part in &parts[..=last] {
        begun.run(&["run", "part", "nightly", part]).with(0);
    }
    for row in &ROWS {
        let fixture = copy_of(&begun);
        tighten(&fixture, row);
        let ended = carry_out(&fixture);
        judge(row, &fixture, &ended);
        if row.ends == Ends::Refused {
            ended.with(4);
            // It can be aborted all the same.
            fixture.run(&["run", "abort", "nightly"]).with(0);
        }
    }
    carry_out(&begun).with(0);
    assert_eq!(destroyed(&begun, NODE), 1);
    begun.run(&["run", "end", "nightly"]).with(0);
}

#[test]
fn a_threshold_of_etcd_that_head_raises_holds_for_a_run_that_has_begun() {
    let fixture = example("control-plane");
    fixture.commit_and_apply("A site", &[]).with(0);
    let file = fixture.checkout.outside().join("site.plan");
    let file = file.to_str().unwrap();
    let plan = ["plan", "redeploy", "control-1", "-o", file];
    fixture.run(&plan).with(0);
    let shown = fixture.run(&["show", file, "--format", "json"]).with(0);
    let shown = shown.json();
    let effect = shown["effect"].as_str().unwrap();
    let begin = [
        "run",
        "begin",
        file,
        "--run",
        "nightly",
        "--nodes-per-part",
        "1",
        "--effect",
        effect,
    ];
    fixture.run(&begin).with(0);
    fixture.edit("etcd.yaml", "minimum_healthy: 2", "minimum_healthy: 3");
    fixture.checkout.commit("Ask for three members");
    let status = ["run", "status", "nightly", "--format", "json"];
    let status = fixture.run(&status).with(0).json();
    let parts = status["parts"].as_array().unwrap().iter();
    let ended = parts.map(|part| {
        let part = part["part"].as_str().unwrap();
        text(&fixture.run(&["run", "part", "nightly", part]))
    });
    let ended: String = ended.collect();
    let why = "would be left with 2 healthy voters without control-1, and its document requires 3";
    assert!(ended.contains(why), "{ended}");
    let mut lines = ended.lines();
    assert!(
        !lines.any(|line| line.contains("destroy/") && line.ends_with("starts")),
        "{ended}"
    );
}
