//! `trueup plan remediate` and `trueup apply remediate`, as far as a simulated site goes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fixture::{Ended, Fixture, wait_until};

const NODE: &str = "compute11";

/// The example site, deployed, with a policy for remediation and a fault script that holds from then on.
fn deployed(remediation: &str, faults: &str) -> Fixture {
    let fixture = Fixture::one_rack();
    etcd(&fixture);
    policy(&fixture, remediation);
    fixture.checkout.commit("An etcd cluster and a policy");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    if faults != "[]" {
        go_wrong(&fixture, faults);
    }
    fixture
}

fn etcd(fixture: &Fixture) {
    let members: Vec<String> = (1..=3)
        .map(|number| {
            let host = format!("10.20.2.{}", 11 + number);
            format!(
                "{{node: control0{number}, name: control0{number}, \
                 peer_url: 'https://{host}:2380', client_url: 'https://{host}:2379'}}"
            )
        })
        .collect();
    fixture.checkout.write(
        "etcd.yaml",
        format!(
            "schema: promenade/EtcdClusters/v1\nmetadata: {{name: etcd-clusters}}\ndata:\n  clusters:\n  \
             - name: kubernetes\n    credentials: {{ca: {{file: ca.pem}}, cert: {{file: cert.pem}}, key: {{file: key.pem}}}}\n    \
             members: [{}]\n",
            members.join(", ")
        ),
    );
}

fn policy(fixture: &Fixture, remediation: &str) {
    fixture.checkout.write(
        "policy.yaml",
        format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata:\n  remediation: {remediation}\n"
        ),
    );
}

fn go_wrong(fixture: &Fixture, faults: &str) {
    fixture.faults(faults);
    fixture.checkout.commit("What goes wrong");
}

fn planned(fixture: &Fixture, more: &[&str]) -> Ended {
    fixture.run(&[&["plan", "remediate", "--format", "json"], more].concat())
}

fn apply(fixture: &Fixture, more: &[&str]) -> Ended {
    fixture.run(&[&["apply", "remediate", "--yes"], more].concat())
}

/// The blocks of a plan that was printed as JSON, by node.
fn blocks(ended: &Ended) -> BTreeMap<String, String> {
    let plan = ended.json();
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .filter_map(|change| {
            let reason = change["blocked"]["reason"].as_str()?;
            Some((
                change["node"].as_str().unwrap().to_owned(),
                reason.to_owned(),
            ))
        })
        .collect()
}

/// What happened to a node since: by effect, how often.
fn since(
    fixture: &Fixture,
    node: &str,
    before: &BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    let mine = format!("{node} ");
    let ledger = fixture.ledger().into_iter();
    ledger
        .filter_map(|(key, count)| {
            let count = count - before.get(&key).copied().unwrap_or_default();
            let effect = key.strip_prefix(&mine)?;
            (count > 0).then(|| (effect.to_owned(), count))
        })
        .collect()
}

fn once(effects: &[&str]) -> BTreeMap<String, usize> {
    effects
        .iter()
        .map(|effect| ((*effect).to_owned(), 1))
        .collect()
}

/// What the Kubernetes node of a machine is.
fn node(fixture: &Fixture, name: &str) -> Value {
    let seen = fixture.run(&["nodes", name, "--format", "json"]).with(0);
    seen.json()
}

const HEALED: [&str; 5] = [
    "node-deleted",
    "node-joined",
    "node-restored",
    "powered-off",
    "powered-on",
];

#[test]
fn a_machine_that_is_named_goes_the_whole_way_and_has_its_labels_again() {
    let fixture = deployed("{}", "[]");
    let planned = planned(&fixture, &[NODE]).with(0);
    let plan = planned.json();
    let change = &plan["changes"][0];
    assert_eq!(change["does"], "remediate");
    assert_eq!(change["destructive"], true);
    let reasons: Vec<&str> = change["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason.as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "named in the request",
            "the machine is on",
            "its node is Ready",
            "it has a node, needs remediation, is on, and has no reboot annotation: Add reboot annotation",
            "tasks: fence it (power off) → wait until it is off → back up labels, annotations and taints of its node → delete its node → \
             remove the request for remediation → unfence it (power on) → wait until it is on → wait for its node → \
             restore labels, annotations and taints of the node → wait until its node is Ready",
        ]
    );
    assert_eq!(plan["steps"].as_array().unwrap().len(), 1);
    let before = fixture.ledger();
    apply(&fixture, &[NODE]).with(0);
    assert_eq!(since(&fixture, NODE, &before), once(&HEALED));
    // As designed, its labels among it; and nothing more asks for anything.
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    assert_eq!(planned_nodes(&fixture), [""; 0]);
    // An action on nodes makes no tag.
    assert_eq!(fixture.tags(), ["success"]);
    assert!(!node(&fixture, NODE).to_string().contains("given_up"));
}

fn planned_nodes(fixture: &Fixture) -> Vec<String> {
    let plan = planned(fixture, &[]).with(0).json();
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .map(|change| change["node"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn machines_go_one_after_the_other_unless_more_are_allowed() {
    let fixture = deployed("{}", "[]");
    let steps = |more: &[&str]| -> Vec<String> {
        let nodes = [NODE, "compute12", "compute13"];
        let plan = planned(&fixture, &[&nodes[..], more].concat())
            .with(0)
            .json();
        let steps = plan["steps"].as_array().unwrap().iter();
        steps
            .map(|step| step["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        steps(&[]),
        [
            "wave/1",
            "remediate/compute11",
            "wave/2",
            "remediate/compute12",
            "wave/3",
            "remediate/compute13"
        ]
    );
    assert_eq!(
        steps(&["--max-remediations", "2"]),
        [
            "wave/1",
            "remediate/compute11",
            "remediate/compute12",
            "wave/2",
            "remediate/compute13"
        ]
    );
    policy(&fixture, "{max_at_once: 3}");
    fixture.checkout.commit("Three at once");
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    assert_eq!(steps(&[]).len(), 3);
    fixture
        .run(&["plan", "remediate", NODE, "--max-remediations", "0"])
        .with(64);
}

#[test]
fn a_machine_that_does_not_come_back_is_tried_again_after_a_while_and_then_let_be() {
    let fixture = deployed(
        "{attempts: 2, backoff: 300}",
        "[{nodes: [compute11], step: await-ready, outcome: fail, times: 1}]",
    );
    let before = fixture.ledger();
    apply(&fixture, &[NODE])
        .with(0)
        .saying("attempt 1 of 2 failed")
        .saying("the next begins in 300 s");
    let twice = since(&fixture, NODE, &before);
    assert_eq!(twice["node-deleted"], 2);
    assert_eq!(twice["powered-on"], 2);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);

    go_wrong(
        &fixture,
        "[{nodes: [compute11], step: await-ready, outcome: fail, message: no kubelet}]",
    );
    let before = fixture.ledger();
    apply(&fixture, &[NODE])
        .with(7)
        .saying("remediation failed after 2 attempts: no kubelet");
    let twice = since(&fixture, NODE, &before);
    assert_eq!(twice["powered-off"], 2);
    // It is on, nobody holds it, and nobody tries it again but a person.
    assert_eq!(twice["powered-on"], 2);
    assert_eq!(planned_nodes(&fixture), [""; 0]);
    fixture.run(&["log"]).with(0);
    go_wrong(&fixture, "[]");
    apply(&fixture, &[NODE]).with(0);
    assert_eq!(planned_nodes(&fixture), [""; 0]);
}

/// Lets kubelets be silent from now on.
fn silence(fixture: &Fixture, faults: &str) {
    fixture.checkout.write(
        "backends.yaml",
        format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {{kind: sim}}\n  \
             clusters: {{kubernetes: {{kind: sim, sim: {{faults: {faults}}}}}}}\n"
        ),
    );
    fixture.checkout.commit("Kubelets that do not answer");
}

#[test]
fn a_kubelet_that_hangs_answers_again_once_its_machine_was_switched_off_and_on() {
    let fixture = deployed("{attempts: 2, backoff: 300}", "[]");
    silence(
        &fixture,
        "[{nodes: [compute11], outcome: not-ready}, {nodes: [compute12], outcome: not-ready, times: 2}]",
    );
    let standing = |fixture: &Fixture, name: &str| {
        let status = fixture.run(&["status", name]).with(0).stdout;
        let line = status.lines().find(|line| line.starts_with(name));
        line.unwrap().to_owned()
    };
    for name in [NODE, "compute12"] {
        assert!(standing(&fixture, name).contains("not ready"), "{name}");
    }
    apply(&fixture, &[NODE]).with(0);
    let second = apply(&fixture, &["compute12"])
        .with(0)
        .saying("attempt 1 of 2 failed: `compute12` is not Ready");
    // However often it is looked at, it is told once.
    let told = second
        .stderr
        .matches("remediate/compute12: `compute12` is not Ready");
    assert_eq!(told.count(), 1, "{}", second.stderr);
    for name in [NODE, "compute12"] {
        assert!(!standing(&fixture, name).contains("not ready"), "{name}");
    }
}

#[test]
fn the_node_of_a_machine_that_never_goes_off_is_left_alone() {
    let fixture = deployed(
        "{attempts: 2, backoff: 10, power_off_timeout: 60}",
        "[{nodes: [compute11], step: power-off, outcome: hang}]",
    );
    let before = fixture.ledger();
    apply(&fixture, &[NODE])
        .with(7)
        .saying("remediation failed after 2 attempts");
    let happened = since(&fixture, NODE, &before);
    assert!(!happened.contains_key("node-deleted"), "{happened:?}");
    assert!(!happened.contains_key("powered-off"), "{happened:?}");
}

#[test]
fn from_a_cluster_that_knows_it_on_a_node_can_be_put_out_of_service_instead() {
    let fixture = deployed("{release_node: out-of-service}", "[]");
    let before = fixture.ledger();
    apply(&fixture, &[NODE]).with(0);
    assert_eq!(
        since(&fixture, NODE, &before),
        once(&["in-service", "out-of-service", "powered-off", "powered-on"])
    );
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    apply(&fixture, &[NODE, "--release-node", "delete-node"]).with(0);
    assert_eq!(fixture.effects("node-deleted"), 1);
}

#[test]
fn a_machine_that_is_off_for_a_reason_of_its_own_is_not_switched_on() {
    let fixture = deployed("{}", "[]");
    fixture
        .run(&["apply", "power", "off", NODE, "--yes"])
        .with(0);
    let blocked = blocks(&planned(&fixture, &[NODE]).with(0));
    assert!(
        blocked[NODE].starts_with("it is off, and not by a remediation"),
        "{blocked:?}"
    );
    apply(&fixture, &[NODE]).with(4);
    fixture
        .run(&["apply", "power", "on", NODE, "--yes"])
        .with(0);
    fixture
        .run(&["apply", "maintenance", NODE, "--yes"])
        .with(0);
    let blocked = blocks(&planned(&fixture, &[NODE]).with(0));
    assert!(blocked[NODE].contains("maintenance"), "{blocked:?}");
}

#[test]
fn with_too_many_unhealthy_machines_none_is_remediated() {
    let fixture = deployed("{max_unhealthy: '2'}", "[]");
    let down = ["compute12", "compute13", "compute21"];
    for node in down {
        fixture
            .run(&["apply", "power", "off", node, "--yes"])
            .with(0);
    }
    let blocked = blocks(&planned(&fixture, &[NODE]).with(0));
    assert_eq!(
        blocked[NODE],
        "3 of 13 machines are unhealthy, and with more than 2 (2) none is remediated: look for a common cause"
    );
    apply(&fixture, &[NODE]).with(4).saying("--max-unhealthy 3");
    apply(&fixture, &[NODE, "--max-unhealthy", "3"]).with(0);
    apply(&fixture, &[NODE, "--max-unhealthy", "30%"])
        .with(4)
        .saying("machines of rack");
    apply(&fixture, &[NODE, "--max-unhealthy", "60%"]).with(0);
    apply(&fixture, &[NODE, "--max-unhealthy", "x"]).with(64);
}

#[test]
fn after_many_machines_came_back_none_is_remediated_for_a_while() {
    let fixture = deployed("{max_unhealthy: '2'}", "[]");
    for (power, nodes) in [
        ("off", ["compute12", "compute13", "compute21"]),
        ("on", ["compute12", "compute13", "compute21"]),
    ] {
        for node in nodes {
            fixture
                .run(&["apply", "power", power, node, "--yes"])
                .with(0);
        }
    }
    let blocked = blocks(&planned(&fixture, &[NODE]).with(0));
    assert_eq!(
        blocked[NODE],
        "of 13 machines, 0 are unhealthy and 3 came back in the last 600 s: after more than 2 (2) at once, none is remediated before that is over"
    );
    apply(&fixture, &[NODE]).with(4).saying("--max-unhealthy 3");
    policy(&fixture, "{max_unhealthy: '2', cooldown: 0}");
    fixture
        .checkout
        .commit("Machines that are back count as healthy");
    // The stricter of two revisions counts until one of them is applied.
    let blocked = blocks(&planned(&fixture, &[NODE]).with(0));
    assert!(blocked.contains_key(NODE), "{blocked:?}");
    apply(&fixture, &[NODE, "--max-unhealthy", "3"]).with(0);
}

#[test]
fn a_machine_that_has_failed_does_not_wait_for_a_maintenance_window() {
    let fixture = deployed("{}", "[]");
    silence(&fixture, "[{nodes: [compute11], outcome: not-ready}]");
    let now = std::time::SystemTime::now();
    let seconds = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let hour = |more: u64| (seconds.as_secs() / 3600 + more) % 24;
    fixture.checkout.write(
        "policy.yaml",
        format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{maintenance_windows: [{{from: '{:02}:00', to: '{:02}:00'}}]}}\n",
            hour(6),
            hour(8)
        ),
    );
    fixture.checkout.commit("Change at night only");
    let before = fixture.ledger();
    fixture
        .run(&["apply", "power", "off", NODE, "--yes"])
        .with(4)
        .saying("no maintenance window is open now");
    // One that serves does.
    apply(&fixture, &["compute12"])
        .with(4)
        .saying("no maintenance window is open now");
    apply(&fixture, &[NODE]).with(0);
    assert_eq!(since(&fixture, NODE, &before), once(&HEALED));
}

#[test]
fn a_member_of_etcd_goes_only_where_its_cluster_keeps_its_quorum() {
    let fixture = deployed("{}", "[]");
    let before = fixture.ledger();
    let shown = fixture
        .run(&["plan", "remediate", "control01"])
        .with(0)
        .stdout;
    let away = "member `control01` of etcd cluster `kubernetes` is away meanwhile";
    assert!(shown.contains(away), "{shown}");
    apply(&fixture, &["control01"]).with(0);
    assert_eq!(since(&fixture, "control01", &before), once(&HEALED));
    fixture
        .run(&["apply", "power", "off", "control02", "--yes"])
        .with(0);
    let blocked = blocks(&planned(&fixture, &["control01"]).with(0));
    assert!(
        blocked["control01"].contains("etcd cluster `kubernetes`"),
        "{blocked:?}"
    );
    apply(&fixture, &["control01"]).with(4);
}

#[test]
fn flags_of_other_actions_do_not_belong_to_it_nor_its_own_to_them() {
    let fixture = deployed("{}", "[]");
    apply(&fixture, &[NODE, "--canary"]);
    fixture
        .run(&["plan", "remediate", NODE, "--drain-node-timeout", "5"])
        .with(64)
        .saying("does not belong to `remediate`");
    for flag in [
        ["--max-unhealthy", "1"],
        ["--attempts", "3"],
        ["--release-node", "delete-node"],
    ] {
        fixture
            .run(&["plan", "drain", NODE, flag[0], flag[1]])
            .with(64)
            .saying("does not belong to `drain`");
    }
}

/// The bytes of all journals of the site.
fn journals(fixture: &Fixture) -> u64 {
    let folder = fixture.checkout.path().join(".git/trueup/one-rack");
    let runs = std::fs::read_dir(folder).unwrap().flatten();
    let files = runs
        .filter(|entry| entry.path().is_dir())
        .flat_map(|entry| {
            let files = std::fs::read_dir(entry.path())
                .into_iter()
                .flatten()
                .flatten();
            files
                .filter_map(|file| file.metadata().ok())
                .map(|file| file.len())
                .collect::<Vec<_>>()
        });
    files.sum()
}

#[test]
fn a_remediation_that_is_killed_after_every_note_does_nothing_twice() {
    let fixture = deployed("{power_settling: 0}", "[]");
    fixture.simulator("{clock: real, durations: {power: 0.2}}");
    fixture.checkout.commit("In real time");
    let before = fixture.ledger();
    let mut arguments = vec!["apply", "remediate", NODE, "--yes"];
    let mut lives = 0_usize;
    loop {
        // Each life gets a little further than the one before; what a new one writes first is no progress.
        let written = journals(&fixture) + [1, 300, 600, 1200, 2400][lives % 5];
        let mut run = fixture.start(&arguments);
        wait_until("the run neither goes on nor ends", || {
            run.try_wait().unwrap().is_some() || journals(&fixture) > written
        });
        if run.try_wait().unwrap().is_none() {
            run.kill().unwrap();
        }
        let ended: Ended = run.wait_with_output().unwrap().into();
        lives += 1;
        if ended.code == 0 {
            break;
        }
        arguments = match ended.code {
            -1 | 8 => vec!["apply", "--resume"],
            // It died before there was a run, or after it had ended.
            1 if ended.stderr.contains("was interrupted") => {
                if since(&fixture, NODE, &before) == once(&HEALED) {
                    break;
                }
                vec!["apply", "remediate", NODE, "--yes"]
            }
            _ => panic!("{ended:?}"),
        };
        assert!(lives < 60, "it never ends");
    }
    assert!(lives > 2, "{lives} lives");
    assert_eq!(since(&fixture, NODE, &before), once(&HEALED));
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_node_that_does_not_come_back_is_named_as_such_until_its_machine_is_built_anew() {
    let fixture = deployed("{attempts: 1}", "[]");
    // A kubelet that is disabled does not start with its machine.
    fixture
        .run(&["apply", "shutdown-kubelet", NODE, "--yes"])
        .with(0);
    apply(&fixture, &[NODE])
        .with(7)
        .saying("the cluster has no node of it");
    let status = fixture.run(&["status", NODE]).with(0).stdout;
    let why = "the cluster has no node of it, 1200 s after the host was off";
    let told = format!(
        "remediation failed after 1 attempt: {why}; `trueup apply remediate {NODE}` tries again"
    );
    assert!(
        status.contains(&told) && status.matches(why).count() == 1,
        "{status}"
    );
    fixture.run(&["apply", "redeploy", NODE, "--yes"]).with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}
