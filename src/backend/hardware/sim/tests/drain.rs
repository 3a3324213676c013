//! Drains: what holds them up, what is lost, and what a forecast says of it.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::backend::{Cluster, Look};
use crate::observed::{BlockedBudget, LocalData, NodePods, PodName};
use crate::step::OnDrainTimeout;

const WEB: &str = "{name: web, count: 2, kind: deployment}";

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn a_drain_takes_as_long_as_its_pods_and_budgets_let_it() {
    struct Row {
        settings: String,
        parameters: Value,
        answer: &'static str,
        seconds: u64,
        evicted: usize,
        deleted: usize,
        left: usize,
    }
    let row = |settings: &str, answer, seconds, [evicted, deleted, left]: [usize; 3]| Row {
        settings: settings.to_owned(),
        parameters: json!({}),
        answer,
        seconds,
        evicted,
        deleted,
        left,
    };
    let held = format!("{{pods: [{WEB}], budgets: [{{name: front}}]}}");
    let on = |policy, row: Row| Row {
        parameters: json!({"on_drain_timeout": policy}),
        ..row
    };
    let grace = |seconds, row: Row| Row {
        parameters: json!({"grace_period": seconds}),
        ..row
    };
    let table = [
        row("{}", "ok", 0, [0, 0, 0]),
        row(&format!("{{pods: [{WEB}]}}"), "ok", 10, [2, 0, 0]),
        row(
            "{pods: [{name: a, kind: daemon-set}, {name: b, kind: static}, {name: c, kind: finished}, {name: d, kind: uncontrolled, ends_after: 30}]}",
            "ok",
            30,
            [2, 0, 0],
        ),
        row(
            &held,
            "permanent: DrainNodeError: 2 pods are left after 3599 s (default/web-n1-1, default/web-n1-2): budget `default/front` allows no disruption",
            3599,
            [0, 0, 2],
        ),
        row(
            &held.replace("front}", "front, yields_after: 600}"),
            "ok",
            610,
            [2, 0, 0],
        ),
        // Two machines with two pods each: one pod may go.
        row(
            &held.replace("front}", "front, min_available: 3}"),
            "permanent: DrainNodeError: 1 pod is left after 3599 s (default/web-n1-2): budget `default/front` allows no disruption",
            3599,
            [1, 0, 1],
        ),
        row(
            &held.replace("front}", "front, min_available: 2}"),
            "ok",
            10,
            [2, 0, 0],
        ),
        row(
            &held.replace("front}", "front, namespace: other}"),
            "ok",
            10,
            [2, 0, 0],
        ),
        row(
            &held.replace("front}", "front, pods: ['db*']}"),
            "ok",
            10,
            [2, 0, 0],
        ),
        row(
            "{pods: [{name: stuck, never_ends: true}]}",
            "permanent: DrainNodeError: 1 pod is left after 3599 s (default/stuck-n1-1): they do not end",
            3599,
            [0, 0, 1],
        ),
        grace(
            30,
            row(
                "{pods: [{name: slow, ends_after: 1000}]}",
                "ok",
                30,
                [1, 0, 0],
            ),
        ),
        on(
            OnDrainTimeout::ForceDelete,
            row(&held, "ok", 3599, [0, 2, 0]),
        ),
        on(OnDrainTimeout::Continue, row(&held, "ok", 3599, [0, 0, 2])),
        on(
            OnDrainTimeout::Fail,
            row(&format!("{{pods: [{WEB}]}}"), "ok", 10, [2, 0, 0]),
        ),
        row(
            "{faults: [{step: drain, outcome: fail, message: no way}]}",
            "permanent: DrainNodeError: no way",
            5,
            [0, 0, 0],
        ),
        row(
            "{faults: [{step: drain, outcome: fail-once, message: busy}]}",
            "passing: busy",
            0,
            [0, 0, 0],
        ),
        row(
            "{faults: [{step: drain, outcome: lost-answer}]}",
            "ambiguous: the answer to `drain/n1` was lost",
            0,
            [0, 0, 0],
        ),
    ];
    for Row {
        settings,
        parameters,
        answer,
        seconds,
        evicted,
        deleted,
        left,
    } in table
    {
        let site = Site::new(2);
        let simulator = site.open_cluster("{}", &settings);
        site.deployed(&simulator).await;
        let order = site.order_in_time(("R1", 3600), StepKind::Drain, 0, parameters);
        let began = Instant::now();
        let got = match Hardware::act(&simulator, &order).await {
            Ok(()) => "ok".to_owned(),
            Err(ActError::Passing(message)) => format!("passing: {message}"),
            Err(ActError::Permanent(message)) => format!("permanent: {message}"),
            Err(ActError::Ambiguous(message)) => format!("ambiguous: {message}"),
            Err(ActError::Refused(message)) => format!("refused: {message}"),
        };
        let machine = site.machine(&simulator, 0);
        let count = |which: fn(&Effect) -> bool| {
            let effects = machine.ledger.effects();
            effects.filter(|effect| which(effect)).count()
        };
        let counts = [
            count(|effect| matches!(effect, Effect::Evicted(_))),
            count(|effect| matches!(effect, Effect::PodDeleted(_))),
            pods::left(&simulator.settings.cluster, &site.nodes[0].name, &machine).len(),
        ];
        assert_eq!(
            (&*got, began.elapsed().as_secs(), counts),
            (answer, seconds, [evicted, deleted, left]),
            "{settings}"
        );
        let cluster = machine.cluster.unwrap();
        assert_eq!(
            cluster.unschedulable,
            !got.starts_with("passing"),
            "{settings}"
        );
        if cluster.unschedulable {
            assert_eq!(cluster.cordoned_by.as_deref(), Some("R1"), "{settings}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_forecast_says_what_a_drain_would_meet() {
    let site = Site::new(2);
    let settings = "{pods: [{name: web, count: 2, data: empty-dir}, {name: db, kind: stateful-set, namespace: data, data: local-volume}, {name: log, kind: daemon-set, data: empty-dir}, {name: job, kind: finished}, {name: bare, kind: uncontrolled, nodes: [n1], data: attached-volume}], budgets: [{name: front, pods: [web]}, {name: data, namespace: data, min_available: 1}]}";
    let simulator = site.open_cluster("{}", settings);
    site.deployed(&simulator).await;
    let all = site.nodes.iter().map(|node| node.name.clone()).collect();
    let seen = Cluster::observe(&simulator, &all, Look::ALL).await;
    let uncontrolled = seen.pods["n1"].uncontrolled.clone();
    assert_eq!(uncontrolled.len(), 1);
    assert_eq!(&*uncontrolled[0].name, "bare-n1-1");
    let data = |owner: &str, kind: &str, pods| LocalData {
        owner: Arc::from(owner),
        kind: Arc::from(kind),
        pods,
    };
    let expected = NodePods {
        evicted: 4,
        daemon_set: 1,
        skipped: Vec::new(),
        awaited: Vec::new(),
        mirror: 1,
        finished: 1,
        blocked: vec![BlockedBudget {
            namespace: Arc::from("default"),
            name: Arc::from("front"),
            pods: vec![Arc::from("web-n1-1"), Arc::from("web-n1-2")],
            healthy: 4,
            wanted: 4,
        }],
        uncontrolled,
        local_data: vec![
            data("Deployment default/web", "emptyDir", 2),
            data("StatefulSet data/db", "local volume", 1),
        ],
        runs_etcd: true,
    };
    assert_eq!(*seen.pods["n1"], expected);
    let nodes = seen.nodes.known().unwrap();
    let attached = &nodes["n1"].attachments;
    assert_eq!((attached.len(), nodes["n2"].attachments.len()), (1, 0));
    assert_eq!(&*attached[0].volume, "pv-bare-n1-1");
    // A look that asks for less gets less.
    let less = Cluster::observe(&simulator, &all, Look::default()).await;
    assert!(less.pods.is_empty() && less.etcd.is_empty());
    assert_eq!(less.nodes.known().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_not_resumed_is_aborted_and_evicted_pods_stay_evicted() {
    let site = Site::new(1);
    let settings =
        "{pods: [{name: quick, ends_after: 5}, {name: slow, ends_after: 500}, {name: web}]}";
    let uids = {
        let simulator = site.open_cluster("{}", settings);
        site.deployed(&simulator).await;
        let order = site.order("R1", StepKind::Drain, 0);
        let acting = Hardware::act(&simulator, &order);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), acting)
                .await
                .is_err()
        );
        let machine = site.machine(&simulator, 0);
        machine.pods.gone
    };
    assert_eq!(uids.len(), 2);
    let simulator = site.open_cluster("{}", settings);
    let mine = site.order("R1", StepKind::Drain, 0);
    assert_eq!(Cluster::probe(&simulator, &mine).await, Probe::UnderWay);
    assert_eq!(site.machine(&simulator, 0).pods.gone, uids);
    // Another run takes over, and lets what is there be scheduled again.
    let undo = site.order("R2", StepKind::Uncordon, 0);
    Cluster::act(&simulator, &undo).await.unwrap();
    assert_eq!(Cluster::probe(&simulator, &mine).await, Probe::NotBegun);
    let machine = site.machine(&simulator, 0);
    assert!(!machine.cluster.as_ref().unwrap().unschedulable);
    let left = pods::left(&simulator.settings.cluster, &site.nodes[0].name, &machine);
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|pod| !uids.contains(&pod.uid)));
    // A cordon of another actor is left alone.
    let mut theirs = machine;
    if let Some(node) = &mut theirs.cluster {
        node.unschedulable = true;
    }
    simulator.seed(&site.nodes[0].name, theirs).unwrap();
    let undo = site.order("R3", StepKind::Uncordon, 0);
    let Err(ActError::Permanent(message)) = Cluster::act(&simulator, &undo).await else {
        panic!("it was undone");
    };
    assert!(message.starts_with("Conflict: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_follows_the_rules_of_the_policy_and_the_labels_of_pods() {
    let site = Site::new(1);
    let pods = "{pods: [{name: web}, {name: kept, namespace: stuck, never_ends: true}, \
        {name: last, labels: {tier: db}, ends_after: 30}, \
        {name: job, labels: {cluster.x-k8s.io/drain: wait-completed}, ends_after: 100}]}";
    let policy = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata:\n  drain_rules:\n  \
        - {name: a, pods: [{namespaces: [stuck]}], drain: {behavior: Skip}}\n  \
        - {name: b, pods: [{selector: {matchLabels: {tier: db}}}], drain: {behavior: Drain, order: 5}}\n";
    let cluster = format!("clusters: {{kubernetes: {{kind: sim, sim: {pods}}}}}");
    let (_, guarded) = design(&(backends(&cluster) + policy));
    let mut settings = cluster_settings("{}", "{}");
    settings.cluster = Arc::new(ClusterSettings::read(guarded.guards()).unwrap());
    assert_eq!(
        settings.cluster.longest_drain(),
        Some(Duration::from_secs(130))
    );
    let simulator = Simulator::open(&site.path(), settings).unwrap();
    site.deployed(&simulator).await;
    let all = site.nodes.iter().map(|node| node.name.clone()).collect();
    let seen = Cluster::observe(&simulator, &all, Look::ALL).await;
    let forecast = &seen.pods["n1"];
    let name = |pods: &[PodName]| pods.iter().map(|pod| pod.name.to_string()).next();
    assert_eq!(forecast.evicted, 2);
    assert_eq!(name(&forecast.skipped).as_deref(), Some("kept-n1-1"));
    assert_eq!(name(&forecast.awaited).as_deref(), Some("job-n1-1"));
    let began = Instant::now();
    let order = site.order_in_time(("R1", 3600), StepKind::Drain, 0, json!({}));
    Hardware::act(&simulator, &order).await.unwrap();
    // The pods of order 5 go once the job has ended.
    assert_eq!(began.elapsed().as_secs(), 130);
    assert_eq!(Cluster::probe(&simulator, &order).await, Probe::Done);
}
