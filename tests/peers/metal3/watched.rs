//! What it takes to watch many hosts: 200, or as many as `TRUEUP_TEST_WATCHED_HOSTS` says where it is set.

use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::lab::{begin, get, machines, site, until};
use super::{Management, NAMESPACE};
use crate::amount::number;
use crate::harness::Ports;

/// A host that nobody moves, and its Machine.
async fn create(management: &Management, number: usize) {
    let parameters = PostParams::default();
    let host: Value = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": format!("n{number}"), "annotations": {"baremetalhost.metal3.io/paused": "test"}},
        "spec": {"online": true, "image": {"url": "http://one"}, "description": "a host of some rack ".repeat(20)}});
    let host = serde_json::from_value(host).unwrap();
    management.hosts().create(&parameters, &host).await.unwrap();
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": format!("m-n{number}"), "namespace": NAMESPACE},
        "spec": {"clusterName": "lab", "bootstrap": {"dataSecretName": "none"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": format!("i-n{number}")}}});
    let machine = serde_json::from_value(machine).unwrap();
    let all = machines(management);
    all.create(&parameters, &machine).await.unwrap();
}

/// A figure of a process in KiB (`VmRSS`).
fn memory(process: u32, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with(figure))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn watching_many_hosts_takes_little_memory() {
    let hosts: usize = number("TRUEUP_TEST_WATCHED_HOSTS").unwrap_or(200);
    let Some(management) = Management::start().await else {
        return;
    };
    management.operator.tell(|it| it.asleep = true);
    let numbers = futures_util::stream::iter(1..=hosts);
    numbers
        .for_each_concurrent(8, |number| create(&management, number))
        .await;
    let policy = "{max_unhealthy: '100%'}";
    let site = site(&management.fixture.kubeconfig(), hosts, policy);
    let ports = Ports::claim();
    let listen = format!("127.0.0.1:{}", ports.at(0));
    let watch = ["apply", "remediate", "--watch", "--listen", &listen];
    let mut watcher = begin(&site, &watch, Stdio::inherit());
    let says = async |line: &str| {
        get(ports.at(0), "/metrics")
            .lines()
            .any(|each| each == line)
    };
    until("it does not lead", async || says("trueup_leader 1").await).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let idle = memory(watcher.id(), "VmRSS");
    let asks = json!({"metadata": {"annotations": {super::lab::NEEDS: "x"}}});
    let patch = kube::api::Patch::Merge(asks);
    let machines = machines(&management);
    machines
        .patch("m-n1", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    until("it does not hear", async || {
        says("trueup_asking{kind=\"machine\"} 1").await
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let most = memory(watcher.id(), "VmHWM");
    let _ = watcher.kill();
    let _ = watcher.wait();
    eprintln!(
        "{hosts} hosts are watched with {} MiB, {} MiB at the most",
        idle >> 10,
        most >> 10
    );
    // What is kept of each is nothing; a page of them is 500.
    assert!(idle < 256 << 10, "{idle} KiB");
}
