//! Measurements, run by hand: `cargo nextest run --test peers --run-ignored only measure --no-capture`.
//!
//! They print what they find and assert nothing about time. Only with `--release` are the figures those
//! of the program that users have.

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};
use trueup::backend::Look;
use trueup::design::NodeName;
use trueup::step::StepKind;

use super::Fixture;

const CLUSTERS: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";

/// Creates many pods at a time; `node` says where each runs.
async fn run_many(fixture: &Fixture, count: usize, node: impl Fn(usize) -> String, more: &Value) {
    iter(0..count)
        .for_each_concurrent(32, |number| {
            let node = node(number);
            async move {
                let mut pod = json!({"metadata": {"name": format!("{node}-{number}"),
                    "labels": {"app": format!("a{}", number % 97)}},
                    "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.org/main:1"}]}});
                if let Some(env) = more.get("env") {
                    pod["spec"]["containers"][0]["env"] = env.clone();
                }
                let pod: Pod = serde_json::from_value(pod).unwrap();
                fixture.pods().create(&PostParams::default(), &pod).await.unwrap();
            }
        })
        .await;
}

#[tokio::test]
#[ignore = "a measurement, run by hand"]
async fn a_drain_of_three_hundred_pods_beside_that_of_kubectl() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let kubelets = fixture.play_kubelets();
    for round in 0..3 {
        let (ours, theirs) = (format!("ours{round}"), format!("theirs{round}"));
        for node in [&ours, &theirs] {
            fixture.register(node).await;
            run_many(&fixture, 300, |_| node.clone(), &Value::Null).await;
        }
        let kubectl = async {
            let began = Instant::now();
            let mut command = Command::new("kubectl");
            command
                .arg("--kubeconfig")
                .arg(fixture.kubeconfig())
                .args(["drain", &theirs, "--force"]);
            command.args([
                "--ignore-daemonsets",
                "--delete-emptydir-data",
                "--grace-period=1",
            ]);
            let output = tokio::task::spawn_blocking(move || command.output())
                .await
                .unwrap();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            began.elapsed()
        };
        let trueup = async {
            let began = Instant::now();
            let wanted = json!({"grace_period": 1});
            fixture
                .act(StepKind::Drain, &ours, 600, wanted)
                .await
                .unwrap();
            began.elapsed()
        };
        // Each goes first in turn.
        let (trueup, kubectl): (Duration, Duration) = if round % 2 == 0 {
            let trueup = trueup.await;
            (trueup, kubectl.await)
        } else {
            let kubectl = kubectl.await;
            (trueup.await, kubectl)
        };
        eprintln!("round {round}: trueup {trueup:.2?}, kubectl {kubectl:.2?}");
    }
    kubelets.abort();
}

#[tokio::test]
#[ignore = "a measurement, run by hand"]
async fn five_thousand_nodes_and_fifty_thousand_pods_are_seen() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let began = Instant::now();
    iter(0..5000)
        .for_each_concurrent(32, |number| {
            let fixture = &fixture;
            async move {
                let node = json!({"apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": format!("w{number}")}});
                fixture.create(&node).await;
            }
        })
        .await;
    // Some kilobytes each, as real pods have.
    let env: Vec<Value> = (0..40)
        .map(|number| json!({"name": format!("SETTING_{number}"), "value": "x".repeat(60)}))
        .collect();
    run_many(
        &fixture,
        50_000,
        |number| format!("w{}", number % 5000),
        &json!({"env": env}),
    )
    .await;
    eprintln!("made in {:.0?}", began.elapsed());
    let asked = (0..5000)
        .map(|number| NodeName::from(format!("w{number}")))
        .collect();
    for look in [Look::default(), Look::ALL, Look::ALL] {
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let (before, began) = (memory("VmRSS"), Instant::now());
        let seen = fixture.backend.observe(&asked, look).await;
        let (took, peak) = (began.elapsed(), memory("VmHWM"));
        let nodes = seen.nodes.known().unwrap().len();
        let pods: usize = seen.pods.values().map(|pods| pods.evicted).sum();
        eprintln!(
            "{look:?}: {nodes} nodes, {pods} pods in {took:.2?}; {before} kB before, {peak} kB at most"
        );
    }
}

/// A figure of this process, in kB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
