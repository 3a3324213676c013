//! Draining: budgets that refuse, pods that never end, many pods, a server that goes away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trueup::backend::{ActError, Probe};
use trueup::step::{OnDrainTimeout, StepKind};

use super::fixture::{RUN, permanent, until};
use super::{Fixture, parameters};

const CLUSTERS: &str = "clusters: {kubernetes: {kubeconfig: {env: SITE}}}\n";

fn grace(seconds: u64) -> Value {
    json!({"grace_period": seconds})
}

/// Pods on `n1` of all kinds: two behind a budget (one of them on `n2`), one without a controller, a mirror, and one of a
/// DaemonSet.
async fn arrange(fixture: &Fixture, front: &serde_json::Value) {
    fixture.run("front-1", "n1", front.clone()).await;
    fixture.run("front-2", "n2", front.clone()).await;
    fixture.run("lone", "n1", json!({})).await;
    fixture
        .run(
            "api",
            "n1",
            json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}),
        )
        .await;
    let set = fixture
        .create(&json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "net", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "net"}}, "template": {
                "metadata": {"labels": {"app": "net"}},
                "spec": {"tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "net", "image": "example.org/net:1"}]}}}}))
        .await;
    assert!(set.metadata.uid.is_some());
    fixture.bind("default", "net-", "n1").await;
    fixture
        .create(
            &json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "front", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "front"}}}}),
        )
        .await;
}

/// Uncordon undoes what trueup cordoned, and refuses what another actor did.
async fn uncordons_its_own(fixture: &Fixture) {
    fixture
        .act(StepKind::Uncordon, "n1", 30, parameters())
        .await
        .unwrap();
    assert_eq!(
        fixture.probe(StepKind::Uncordon, "n1", parameters()).await,
        Probe::Done
    );
    let node = fixture.nodes().get("n1").await.unwrap();
    let annotations = node.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("trueup.dev/cordoned-by"));
    fixture.nodes().cordon("n2").await.unwrap();
    let refused = permanent(
        fixture
            .act(StepKind::Uncordon, "n2", 30, parameters())
            .await,
    );
    assert!(
        refused.starts_with("Conflict: node `n2` was not cordoned by trueup"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_budget_holds_a_drain_until_it_yields_and_what_is_not_drained_stays() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    fixture.register("n2").await;
    let kubelets = fixture.play_kubelets();
    let front = json!({"metadata": {"labels": {"app": "front"}}});
    arrange(&fixture, &front).await;
    assert_eq!(
        fixture.probe(StepKind::Drain, "n1", grace(1)).await,
        Probe::NotBegun
    );
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 120, grace(1));
    let backend = fixture.backend.clone();
    let drain = tokio::spawn({
        let order = order.clone();
        async move { backend.act(&order).await }
    });
    until("the budget refuses", || async {
        heard.has("default/front-1 (held by budget `front`, which needs 2 and has 2)")
    })
    .await;
    until("the other pod is gone", || async {
        !fixture.pod_names().await.contains(&"lone".to_owned())
    })
    .await;
    let held = fixture.pods().get("front-1").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_none());
    assert_eq!(
        fixture.probe(StepKind::Drain, "n1", grace(1)).await,
        Probe::UnderWay
    );
    let node = fixture.nodes().get("n1").await.unwrap();
    assert_eq!(
        node.metadata.annotations.unwrap()["trueup.dev/cordoned-by"],
        RUN
    );

    // One who dies meanwhile is followed by one who goes on.
    drain.abort();
    assert!(drain.await.unwrap_err().is_cancelled());
    let backend = fixture.backend.clone();
    let drain = tokio::spawn(async move { backend.act(&order).await });
    fixture.run("front-3", "n2", front).await;
    drain.await.unwrap().unwrap();
    let names = fixture.pod_names().await;
    assert!(!names.contains(&"front-1".to_owned()), "{names:?}");
    for stays in ["front-2", "front-3", "api"] {
        assert!(names.contains(&stays.to_owned()), "{stays}: {names:?}");
    }
    assert!(
        names.iter().any(|name| name.starts_with("net-")),
        "{names:?}"
    );
    assert_eq!(
        fixture.probe(StepKind::Drain, "n1", grace(1)).await,
        Probe::Done
    );

    uncordons_its_own(&fixture).await;
    kubelets.abort();
}

#[tokio::test]
async fn a_budget_is_asked_when_its_status_changes_and_not_again_and_again() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    fixture.register("n2").await;
    let kubelets = fixture.play_kubelets();
    let front = json!({"metadata": {"labels": {"app": "front"}}});
    let back = json!({"metadata": {"labels": {"app": "back"}}});
    for number in 0..12 {
        fixture
            .run(&format!("front-{number}"), "n1", front.clone())
            .await;
        fixture
            .run(&format!("back-{number}"), "n1", back.clone())
            .await;
    }
    for (name, minimum) in [("front", 12), ("back", 10)] {
        let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": name}}}});
        fixture.create(&budget).await;
        fixture.until_budget(name, minimum).await;
    }
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 300, grace(1));
    let backend = fixture.backend.clone();
    let drain = tokio::spawn(async move { backend.act(&order).await });
    until("the budget holds", || async {
        heard.has("22 pods left, 22 of them held back")
    })
    .await;
    let before = fixture.refused_evictions().await;
    assert!(before <= 4, "{before} refusals");
    let mut started = 0;
    until("what is started elsewhere lets all pods go", || {
        started += 1;
        let (fixture, front, back) = (&fixture, &front, &back);
        let is_over = drain.is_finished();
        async move {
            for (name, more) in [("front", front), ("back", back)] {
                let name = format!("{name}-new-{started}");
                fixture.run(&name, "n2", more.clone()).await;
            }
            is_over
        }
    })
    .await;
    drain.await.unwrap().unwrap();
    let refusals = fixture.refused_evictions().await;
    assert!(refusals <= 12, "{refusals} refusals of 24 evictions");
    kubelets.abort();
}

#[tokio::test]
async fn a_pod_that_never_ends_is_named_and_deleted_only_where_that_was_chosen() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let uid = fixture.register("n1").await;
    let kubelets = fixture.play_kubelets();
    let refused = permanent(fixture.act(StepKind::Drain, "n1", 60, grace(60)).await);
    assert!(
        refused.starts_with("BadRequest: pods have 60 s to end"),
        "{refused}"
    );
    assert!(
        fixture
            .nodes()
            .get("n1")
            .await
            .unwrap()
            .spec
            .unwrap()
            .unschedulable
            .is_none()
    );

    fixture.run_stubborn("stuck", "n1").await;
    fixture.run("lone", "n1", json!({})).await;
    let failed = permanent(fixture.act(StepKind::Drain, "n1", 4, grace(1)).await);
    assert_eq!(
        failed,
        "DrainNodeError: 1 pod is left after 4 s: default/stuck (is ending)"
    );

    let left = |on_drain_timeout| json!({"on_drain_timeout": on_drain_timeout, "node_uid": uid});
    let chosen = |on_drain_timeout| {
        let mut given = left(on_drain_timeout);
        given["grace_period"] = json!(1);
        given
    };
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 4, chosen(OnDrainTimeout::Continue));
    fixture.backend.act(&order).await.unwrap();
    assert!(heard.has("pods left: {\"count\":1,\"names\":[\"default/stuck\"]}"));
    assert_eq!(fixture.pod_names().await, ["stuck"]);
    // The kubelet still reports, so that the machine is not off, and nothing is forced.
    let removal = fixture.act(
        StepKind::RemoveFromCluster,
        "n1",
        3,
        left(OnDrainTimeout::Continue),
    );
    let refused = permanent(removal.await);
    assert!(
        refused.contains("it is Ready: its kubelet reports"),
        "{refused}"
    );
    assert_eq!(fixture.pod_names().await, ["stuck"]);

    fixture
        .act(
            StepKind::Drain,
            "n1",
            4,
            chosen(OnDrainTimeout::ForceDelete),
        )
        .await
        .unwrap();
    assert!(fixture.pod_names().await.is_empty());

    fixture.run_stubborn("stuck", "n1").await;
    fixture.say_ready("n1", false).await;
    fixture
        .act(
            StepKind::RemoveFromCluster,
            "n1",
            30,
            left(OnDrainTimeout::Continue),
        )
        .await
        .unwrap();
    assert!(fixture.pod_names().await.is_empty());
    assert!(fixture.nodes().get_opt("n1").await.unwrap().is_none());
    kubelets.abort();
}

#[tokio::test]
async fn a_drain_that_only_a_silent_kubelet_could_end_ends_before_its_time() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    let kubelets = fixture.play_kubelets();
    fixture.run_stubborn("stuck", "n1").await;
    fixture.say_ready("n1", false).await;
    let began = Instant::now();
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 40, grace(1));
    let failed = permanent(fixture.backend.act(&order).await);
    assert_eq!(
        failed,
        "DrainNodeError: 1 pod is left that would not end, since the kubelet of `n1` is silent: default/stuck (is ending); \
         `--on-drain-timeout force-delete` deletes them, and so does `--node-is-gone n1` when the machine is off"
    );
    assert!(
        (10..25).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    assert!(heard.has("the kubelet that would end them is silent"));
    kubelets.abort();
}

#[tokio::test]
async fn three_hundred_pods_go_though_the_server_goes_away_in_the_middle() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    for number in 0..300 {
        fixture.run(&format!("p{number}"), "n1", json!({})).await;
    }
    let kubelets = fixture.play_kubelets();
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 300, grace(1));
    let backend = fixture.backend.clone();
    let drain = tokio::spawn(async move { backend.act(&order).await });
    until("some pods are gone", || async {
        let left = fixture.pod_names().await.len();
        assert!(left > 0, "too fast to be disturbed");
        left < 250
    })
    .await;
    // One that comes late is evicted too.
    fixture.run("late", "n1", json!({})).await;
    assert!(!drain.is_finished());
    fixture.kill();
    until("the drain notices", || async {
        heard.has("does not answer")
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!drain.is_finished());
    fixture.revive().await;
    drain.await.unwrap().unwrap();
    assert_eq!(fixture.pod_names().await, Vec::<String>::new());
    kubelets.abort();
}

#[tokio::test]
async fn volumes_are_waited_for_before_the_machine_may_go_off() {
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    fixture.register("n1").await;
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "a1"}, "spec": {"attacher": "csi.example.org", "nodeName": "n1",
            "source": {"persistentVolumeName": "pv-1"}}});
    fixture.create(&attachment).await;
    let failed = permanent(fixture.act(StepKind::Drain, "n1", 4, grace(1)).await);
    assert_eq!(
        failed,
        "DrainNodeError: 1 volume is still attached after 4 s: pv-1"
    );
    let (order, heard) = fixture.order(StepKind::Drain, "n1", 60, grace(1));
    let backend = fixture.backend.clone();
    let drain = tokio::spawn(async move { backend.act(&order).await });
    until("it waits", || async {
        heard.has("1 volume is still attached")
    })
    .await;
    let attachments: kube::Api<k8s_openapi::api::storage::v1::VolumeAttachment> =
        kube::Api::all(fixture.client.clone());
    attachments.delete("a1", &Default::default()).await.unwrap();
    drain.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_may_come_back() {
    let nowhere = "clusters: {kubernetes: {kubeconfig: {env: SITE}, context: other}}\n";
    let Some(fixture) = Fixture::start(CLUSTERS).await else {
        return;
    };
    let kubeconfig = std::fs::read_to_string(fixture.kubeconfig()).unwrap();
    fixture.kill();
    let (order, _) = fixture.order(StepKind::Drain, "n1", 60, grace(1));
    match fixture.backend.act(&order).await {
        Err(ActError::Passing(text)) => {
            assert!(
                text.starts_with("DrainNodeError: the API server does not answer"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.backend.probe(&order).await, Probe::UnderWay);

    let secrets = super::fixture::secret(kubeconfig);
    let backend = super::fixture::open(nowhere, secrets);
    let text = permanent(backend.act(&order).await);
    assert!(
        text.contains("the kubeconfig cannot be used: it has no context `other`"),
        "{text}"
    );
    assert!(
        text.contains("`clusters.kubernetes` of the site's Backends document"),
        "{text}"
    );
    let backend = super::fixture::open(CLUSTERS, super::fixture::no_secrets());
    let text = permanent(backend.act(&order).await);
    assert!(text.contains("the kubeconfig cannot be read"), "{text}");
}

/// Rules for pods of the namespace `default`.
const RULES: &str = "drain_rules:\n\
    - {pods: [{selector: {matchLabels: {app: log}}}], drain: {behavior: Skip}}\n\
    - {pods: [{selector: {matchExpressions: [{key: app, operator: In, values: [osd]}]}}], drain: {behavior: Drain, order: 9}}\n";

#[tokio::test]
async fn pods_go_in_the_order_of_the_rules_and_some_stay_or_are_waited_for() {
    let Some(fixture) = Fixture::start(&format!("{CLUSTERS}{RULES}")).await else {
        return;
    };
    fixture.register("n1").await;
    let kubelets = fixture.play_kubelets();
    let labelled = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    let word = "cluster.x-k8s.io/drain";
    for (name, key, value) in [
        ("osd", "app", "osd"),
        ("log", "app", "log"),
        ("kept", word, "skip"),
        ("job", word, "wait-completed"),
        ("front", "app", "front"),
    ] {
        fixture.run(name, "n1", labelled(key, value)).await;
    }
    let failed = permanent(fixture.act(StepKind::Drain, "n1", 5, grace(1)).await);
    assert_eq!(
        failed,
        "DrainNodeError: 2 pods are left after 5 s: default/job (is waited for until it completes), default/osd; \
         skipped: default/kept, default/log"
    );
    assert_eq!(fixture.pod_names().await, ["job", "kept", "log", "osd"]);
    let drain = fixture.act(StepKind::Drain, "n1", 30, grace(1));
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.end_pod("job").await;
    };
    let (ended, ()) = tokio::join!(drain, ends);
    ended.unwrap();
    assert_eq!(fixture.pod_names().await, ["kept", "log"]);
    let probe = fixture.probe(StepKind::Drain, "n1", parameters()).await;
    assert_eq!(probe, Probe::Done);
    kubelets.abort();
}
