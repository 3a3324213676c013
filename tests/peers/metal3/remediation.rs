//! Remediation of machines that Metal3 moves, on a real API server with the real CRDs: the program as a user
//! runs it, and as a watcher.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::json;

use super::NAMESPACE;
use super::lab::{Lab, QUICK, Watcher, get, terminated, until};
use crate::harness::Ports;
use crate::telemetry::check;
use crate::telemetry::collector::Collector;

#[tokio::test]
async fn a_machine_that_asks_for_it_is_remediated_and_every_annotation_is_gone_after_it() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let nothing = lab
        .trueup(&["plan", "remediate", "--format", "json"])
        .await
        .with(0)
        .json();
    assert_eq!(nothing["changes"], json!([]));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let plan = lab
        .trueup(&["plan", "remediate", "--format", "json"])
        .await
        .with(0)
        .json();
    let reasons = plan["changes"][0]["reasons"].to_string();
    assert!(
        reasons.contains("Machine `metal3/m-n1` asks for it"),
        "{reasons}"
    );
    assert!(
        reasons.contains("has no reboot annotation: Add reboot annotation"),
        "{reasons}"
    );
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(0);
    lab.is_healed("n1", &old).await;
    assert_eq!(lab.cycles("n1").0, 1);
    assert_eq!(lab.cycles("n2").0, 0);
}

#[tokio::test]
async fn hosts_that_would_not_be_switched_off_and_on_again_are_refused_each_with_its_reason() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    lab.ask("n1").await;
    let cases = [
        (
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": "x"}}}),
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": null}}}),
            "paused",
        ),
        (
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": "x"}}}),
            json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": null}}}),
            "detached",
        ),
        (
            json!({"spec": {"disablePowerOff": true}}),
            json!({"spec": {"disablePowerOff": false}}),
            "disablePowerOff",
        ),
        (
            json!({"spec": {"online": false}}),
            json!({"spec": {"online": true}}),
            "online: false",
        ),
        (
            json!({"spec": {"consumerRef": null}}),
            json!({"spec": {"consumerRef": {"kind": "Metal3Machine", "name": "i-n1", "namespace": "elsewhere",
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2"}}}),
            "consumer",
        ),
    ];
    for (change, undo, words) in cases {
        lab.management.patch("n1", change).await;
        let plan = lab
            .trueup(&["plan", "remediate", "n1", "--format", "json"])
            .await
            .with(0)
            .json();
        let reason = plan["changes"][0]["blocked"]["reason"].to_string();
        assert!(reason.contains(words), "{words}: {reason}");
        lab.trueup(&["apply", "remediate", "n1", "--yes"])
            .await
            .with(4);
        lab.management.patch("n1", undo).await;
    }
    // The last one left the host to a consumer elsewhere.
    let plan = lab
        .trueup(&["plan", "remediate", "n1", "--format", "json"])
        .await
        .with(0)
        .json();
    let reason = plan["changes"][0]["blocked"]["reason"].to_string();
    assert!(reason.contains("another namespace"), "{reason}");
    let annotations = lab.annotations("n1").await;
    assert_eq!(annotations, json!([true, false, false]), "it was touched");

    // A host that goes away in the middle ends its remediation.
    let operator = &lab.management.operator;
    operator.tell(|it| it.asleep = true);
    let run = lab.trueup(&["apply", "remediate", "n2", "--yes"]);
    let goes = async {
        until("n2 is not held", async || {
            lab.annotations("n2").await[1] == json!(true)
        })
        .await;
        let rid = json!({"metadata": {"finalizers": null}});
        lab.management.patch("n2", rid).await;
        let now = kube::api::DeleteParams::default();
        lab.management.hosts().delete("n2", &now).await.unwrap();
    };
    let (ended, ()) = tokio::join!(run, goes);
    let ended = ended.with(7);
    assert!(
        ended.stderr.contains("host `n2` is gone"),
        "{}",
        ended.stderr
    );
    assert!(lab.node("n2").await.is_some());
}

#[tokio::test]
async fn a_host_that_never_goes_off_keeps_its_node_and_is_unfenced() {
    let policy =
        "{power_settling: 1, power_off_timeout: 3, ready_timeout: 20, attempts: 2, backoff: 1}";
    let Some(lab) = Lab::start(3, policy).await else {
        return;
    };
    lab.management.operator.tell(|behaviour| {
        behaviour.never_off.insert("n1".to_owned());
    });
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let ended = lab.trueup(&["apply", "remediate", "--yes"]).await.with(7);
    assert!(
        ended.stderr.contains("remediation failed after 2 attempts"),
        "{}",
        ended.stderr
    );
    assert_eq!(lab.uid("n1").await, old);
    assert_eq!(lab.annotations("n1").await, json!([false, false, false]));
    // Nobody but a person tries again, also when a health check asks.
    lab.ask("n1").await;
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(4);
}

#[tokio::test]
async fn a_node_that_never_comes_back_ends_in_a_final_state_and_not_in_another_reboot() {
    let policy = "{power_settling: 1, ready_timeout: 4, attempts: 2, backoff: 1}";
    let Some(lab) = Lab::start(3, policy).await else {
        return;
    };
    lab.dead.lock().unwrap().insert("n1".to_owned());
    lab.ask("n1").await;
    lab.trueup(&["apply", "remediate", "--yes"]).await.with(7);
    assert_eq!(lab.cycles("n1").0, 2);
    assert!(lab.management.operator.is_on("n1"));
    let host = lab.management.host("n1").await;
    assert!(host["metadata"]["annotations"]["trueup.dev/remediation-given-up"].is_string());
    // What the node carried is still there, for whoever tries again.
    lab.dead.lock().unwrap().clear();
    let is_there = async || {
        let node = lab.management.fixture.nodes().get_opt("n1").await.unwrap();
        node.is_some()
    };
    until("its kubelet does not come up", is_there).await;
    lab.trueup(&["apply", "remediate", "n1", "--yes"])
        .await
        .with(0);
    lab.is_healed("n1", "").await;
}

#[tokio::test]
async fn a_watcher_that_is_killed_again_and_again_leaves_no_host_off() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let is_done = async |lab: &Lab| {
        let node = lab.management.fixture.nodes().get_opt("n1").await.unwrap();
        let is_new = node.is_some_and(|node| {
            node.metadata.uid.as_deref() != Some(&*old)
                && node
                    .metadata
                    .labels
                    .is_some_and(|labels| labels.contains_key("role"))
        });
        is_new && lab.annotations("n1").await == json!([false, false, false])
    };
    let mut lives = 0;
    while !is_done(&lab).await {
        let before = (
            lab.annotations("n1").await,
            lab.management
                .fixture
                .nodes()
                .get_opt("n1")
                .await
                .unwrap()
                .map(|node| node.metadata.uid),
        );
        let mut watcher = lab.watcher(22901);
        until("the watcher does nothing", async || {
            let now = (
                lab.annotations("n1").await,
                lab.management
                    .fixture
                    .nodes()
                    .get_opt("n1")
                    .await
                    .unwrap()
                    .map(|node| node.metadata.uid),
            );
            now != before || is_done(&lab).await
        })
        .await;
        watcher.kill().unwrap();
        watcher.wait().unwrap();
        lives += 1;
        assert!(lives < 30, "it never ends");
    }
    assert!(lives > 1, "{lives}");
    lab.is_healed("n1", &old).await;
    let (off, _) = lab.cycles("n1");
    assert_eq!(off, 1, "{:?}", lab.management.operator.events("n1"));
}

#[tokio::test]
async fn of_two_watchers_one_is_active_and_the_other_takes_over() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let (mut first, mut second) = (lab.watcher(22911), lab.watcher(22912));
    let leads = |port| get(port, "/metrics").contains("\ntrueup_leader 1");
    until("none is active", async || leads(22911) || leads(22912)).await;
    assert!(!(leads(22911) && leads(22912)));
    // The one that waits has read the cluster, too, sooner or later.
    let answers = |port, path| get(port, path).starts_with("HTTP/1.1 200");
    until("one is not ready", async || {
        [22911, 22912]
            .iter()
            .all(|port| answers(*port, "/healthz") && answers(*port, "/readyz"))
    })
    .await;
    assert!(get(22912, "/other").starts_with("HTTP/1.1 404"));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    until("nobody remediates", async || {
        lab.annotations("n1").await == json!([false, false, false]) && lab.uid("n1").await != old
    })
    .await;
    let (active, waiting) = if leads(22911) {
        (&mut first, 22912)
    } else {
        (&mut second, 22911)
    };
    active.kill().unwrap();
    active.wait().unwrap();
    until("the other does not take over", async || leads(waiting)).await;
    let old = lab.uid("n2").await;
    lab.ask("n2").await;
    let is_healed = async || {
        let node = lab.management.fixture.nodes().get_opt("n2").await.unwrap();
        node.is_some_and(|node| node.metadata.uid.as_deref() != Some(&*old))
            && lab.annotations("n2").await == json!([false, false, false])
    };
    until("the other does not remediate", is_healed).await;
    // A node that is no longer Ready is heard of, though nothing asks.
    lab.dead.lock().unwrap().insert("n3".to_owned());
    let hears = async || get(waiting, "/metrics").contains("\ntrueup_nodes_not_ready 1\n");
    until("it does not hear of the node", hears).await;
    // Whoever is asked to end gives the Lease back first.
    let left = if waiting == 22911 { first } else { second };
    assert_eq!(terminated(left), Some(0));
    let lease: Api<Lease> = Api::namespaced(lab.management.fixture.client.clone(), NAMESPACE);
    let lease = lease.get("trueup-remediation").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, None);
    assert_eq!((lab.cycles("n1").0, lab.cycles("n2").0), (1, 1));
}

#[tokio::test]
async fn each_round_of_a_watcher_is_under_the_guards_of_its_moment() {
    let Some(lab) = Lab::start(2, QUICK).await else {
        return;
    };
    lab.site.git(&["branch", "protected"]);
    let listen = "127.0.0.1:22941";
    let arguments = [
        "apply",
        "remediate",
        "--watch",
        "--lease-duration",
        "3",
        "--listen",
        listen,
        "--backends-from",
        "refs/heads/protected",
    ];
    let _watcher = Watcher::of(lab.site.start(&arguments, &[], Stdio::inherit()));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    until("it does not remediate", async || {
        lab.annotations("n1").await == json!([false, false, false])
            && lab.node("n1").await.is_some()
            && lab.uid("n1").await != old
    })
    .await;
    // What is merged meanwhile counts in the next round: a watcher leaves out what is blocked.
    let policy = format!(
        "schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{unverified: [{{node_names: []}}], remediation: {QUICK}, flags: {{forbid: [skip-blocked]}}}}\n"
    );
    lab.site.commit(&[("policy.yaml", &policy)]);
    lab.site.git(&["branch", "--force", "protected"]);
    lab.ask("n2").await;
    until("the round does not fail", async || {
        let metrics = get(22941, "/metrics");
        let mut lines = metrics.lines();
        lines.any(|line| line == "trueup_rounds_failed_total 1")
    })
    .await;
    assert_eq!(lab.cycles("n2"), (0, 0));
}

#[tokio::test]
async fn a_watcher_that_was_stopped_changes_nothing_when_it_wakes_after_a_takeover() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let (first, mut second) = (lab.watcher(22921), lab.watcher(22922));
    let leads = |port| get(port, "/metrics").contains("\ntrueup_leader 1");
    until("none is active", async || leads(22921) || leads(22922)).await;
    let (mut active, waiting) = match leads(22921) {
        true => (first, 22922),
        false => (std::mem::replace(&mut second, first), 22921),
    };
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let is_begun = async || lab.annotations("n1").await != json!([false, false, false]);
    until("the host is not powered off for remediation", is_begun).await;
    let signal = |name: &str| {
        let pid = active.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([name, &pid])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    until("the other does not take the Lease over", async || {
        leads(waiting)
    })
    .await;
    let is_healed = async || {
        let node = lab.management.fixture.nodes().get_opt("n1").await.unwrap();
        node.is_some_and(|node| node.metadata.uid.as_deref() != Some(&*old))
            && lab.annotations("n1").await == json!([false, false, false])
    };
    // It waits until the stopped process cannot act any more.
    for _ in 0..120 {
        if is_healed().await {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(
        is_healed().await,
        "the other does not finish the remediation"
    );
    let (done, registered) = (lab.management.operator.events("n1"), lab.registered("n1"));
    signal("-CONT");
    // Long enough for a process that does not know yet what it has lost.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        lab.management.operator.events("n1"),
        done,
        "the fenced process acted"
    );
    assert_eq!(lab.registered("n1"), registered);
    assert_eq!(lab.cycles("n1"), (1, 1));
    assert!(leads(waiting), "the Lease stays with who has it");
    let ended = active.try_wait().unwrap();
    assert!(ended.is_none_or(|status| !status.success()), "{ended:?}");
    let _ = active.kill();
    active.wait().unwrap();
    assert_eq!(terminated(second), Some(0));
}

#[tokio::test]
async fn each_round_of_a_watcher_is_a_trace_and_its_metrics_are_those_that_prometheus_reads() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let (collector, ports) = (Collector::start(), Ports::claim());
    let endpoint = collector.endpoint();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    let mut watcher = lab.watcher_with(ports.at(0), &variables);
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    until("nobody remediates", async || {
        let metrics = get(ports.at(0), "/metrics");
        metrics.contains("trueup_remediations_total{outcome=\"succeeded\"} 1")
    })
    .await;
    lab.is_healed("n1", &old).await;
    let metrics = get(ports.at(0), "/metrics");
    let (_, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    check(metrics);
    // The round that has remediated is over, and the watcher stays.
    let is_told = || {
        let rounds = collector.named("remediation round");
        let mut runs = collector.named("apply").into_iter();
        runs.any(|run| rounds.iter().any(|round| round.id == run.parent))
    };
    until("the round is not told", async || is_told()).await;
    let step = collector.one("remediate");
    assert_eq!(step.attribute("trueup.node"), "n1");
    assert_eq!(step.attribute("trueup.outcome"), "succeeded");
    let round = collector.named("remediation round").into_iter();
    let mut round = round.filter(|round| round.trace == step.trace);
    assert_eq!(round.next().unwrap().parent, "");
    assert!(watcher.try_wait().unwrap().is_none());
}
