//! How a node leaves its cluster and comes back, and which removals etcd refuses.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::backend::{BackendContext, Cluster, Look, NoSecrets, choose, clock};
use crate::backend::{Clock, Sight};
use crate::design::ClusterName;
use crate::lifecycle::PowerState;
use crate::observed::{EtcdSeen, Fact};
use crate::remediation::Backup;
use crate::step::OnDrainTimeout;

/// The steps that tear a node down and bring it back, in order.
const ROUND: [StepKind; 10] = [
    StepKind::Drain,
    StepKind::ClearLabels,
    StepKind::RemoveEtcd,
    StepKind::CheckEtcd,
    StepKind::ShutdownKubelet,
    StepKind::Destroy,
    StepKind::RemoveFromCluster,
    StepKind::Prepare,
    StepKind::Deploy,
    StepKind::AwaitReady,
];

async fn look(simulator: &Simulator) -> Sight {
    Cluster::observe(simulator, &BTreeSet::new(), Look::ALL).await
}

fn main() -> ClusterName {
    ClusterName::from("main")
}

/// How many of the designed members vote, by what the members say.
fn voting(seen: &EtcdSeen) -> usize {
    let answers = seen.answers.values().filter_map(Fact::known);
    answers.filter(|answer| answer.decides).count()
}

#[tokio::test(start_paused = true)]
async fn the_last_api_server_that_is_ready_is_neither_drained_nor_shut_down() {
    let site = Site::new(3);
    let simulator = site.open_cluster("{}", "{api_servers: [n1, n2]}");
    site.deployed(&simulator).await;
    let seen = look(&simulator).await;
    assert_eq!(seen.facts.unwrap().api_servers, Some(Fact::Known(2)));
    let nodes = seen.nodes.known().unwrap();
    let servers = ["n1", "n2", "n3"].map(|name| nodes[name].api_servers);
    assert_eq!(servers, [1, 1, 0]);
    let act = async |kind, node| Cluster::act(&simulator, &site.order("R1", kind, node)).await;
    act(StepKind::ShutdownKubelet, 0).await.unwrap();
    for kind in [StepKind::Drain, StepKind::ShutdownKubelet] {
        let refused = format!("{:?}", act(kind, 1).await.unwrap_err());
        assert!(refused.contains("no other API server"), "{refused}");
    }
    act(StepKind::Drain, 2).await.unwrap();
    // Of a machine that is gone nothing is kept.
    let gone = json!({"node_is_gone": true});
    let order = site.order_with("R1", StepKind::Drain, 1, Some(gone));
    Cluster::act(&simulator, &order).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_again_gets_what_it_is_owed() {
    let site = Site::new(1);
    let simulator = site.open_cluster("{}", "{}");
    site.deployed(&simulator).await;
    let owed = json!({"backup": Box::new(Backup {
        labels: [(Arc::from("team"), Arc::from("blue"))].into(),
        ..Backup::default()
    })});
    let order = site.order_with("R1", StepKind::AwaitReady, 0, Some(owed));
    let label = async || {
        let nodes = look(&simulator).await.nodes;
        nodes.known().unwrap()["n1"].labels.get("team").cloned()
    };
    assert_eq!(label().await, None);
    assert_eq!(Cluster::probe(&simulator, &order).await, Probe::NotBegun);
    Cluster::act(&simulator, &order).await.unwrap();
    assert_eq!(label().await.as_deref(), Some("blue"));
    assert_eq!(Cluster::probe(&simulator, &order).await, Probe::Done);
    let entries = site.ledger(&simulator, 0).len();
    Cluster::act(&simulator, &order).await.unwrap();
    assert_eq!(site.ledger(&simulator, 0).len(), entries);
}

#[tokio::test(start_paused = true)]
async fn a_node_leaves_its_cluster_and_comes_back_as_another_one() {
    let site = Site::new(4);
    let simulator = site.open_cluster("{}", "{pods: [{name: web, count: 3}]}");
    site.deployed(&simulator).await;
    let before = look(&simulator).await;
    assert_eq!(voting(&before.etcd["main"]), 3);
    assert!(!before.facts.unwrap().shutdown_daemon_set);
    let node = before.nodes.known().unwrap()["n1"].clone();
    assert!(node.ready && node.labels.contains_key("plane"));
    let old = simulator.etcd(&main()).unwrap();
    let began = Instant::now();
    for kind in ROUND {
        let order = site.order("R1", kind, 0);
        if kind != StepKind::CheckEtcd {
            assert_eq!(
                Cluster::probe(&simulator, &order).await,
                Probe::NotBegun,
                "{kind}"
            );
        }
        Cluster::act(&simulator, &order).await.unwrap();
        assert_eq!(
            Cluster::probe(&simulator, &order).await,
            Probe::Done,
            "{kind}"
        );
        let entries = site.ledger(&simulator, 0).len();
        Cluster::act(&simulator, &order).await.unwrap();
        assert_eq!(site.ledger(&simulator, 0).len(), entries, "{kind}");
    }
    // Pods, labels, etcd, kubelet, destroy, removal, prepare, deploy; and a poll's time until it votes.
    let seconds = 10 + 5 + 5 + 30 + 180 + 5 + 120 + 900 + 60;
    assert_eq!(began.elapsed(), Duration::from_secs(seconds));
    // Who opens the site next sees what was waited for.
    drop(simulator);
    let simulator = site.open_cluster("{}", "{pods: [{name: web, count: 3}]}");
    let after = look(&simulator).await;
    assert_eq!(voting(&after.etcd["main"]), 3);
    assert!(after.facts.unwrap().shutdown_daemon_set);
    let new = after.nodes.known().unwrap()["n1"].clone();
    assert!(new.ready && !new.unschedulable && new.uid != node.uid);
    assert_eq!(new.labels, node.labels);
    let ids = |seats: &[Seat]| -> BTreeSet<Arc<str>> {
        seats.iter().map(|seat| seat.member.id.clone()).collect()
    };
    let members = simulator.etcd(&main()).unwrap();
    assert_eq!(ids(&old).intersection(&ids(&members)).count(), 2);
    let ledger = site.ledger(&simulator, 0);
    let evicted = ledger
        .iter()
        .filter(|effect| matches!(effect, Effect::Evicted(_)));
    assert_eq!(evicted.count(), 3);
    assert!(ledger.contains(&Effect::NodeDeleted { uid: node.uid }));
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_machine_is_off_or_wiped_stays_in_its_cluster_and_does_not_answer() {
    let site = Site::new(3);
    let simulator = site.open_cluster("{}", "{}");
    site.deployed(&simulator).await;
    let off = site.order("R1", StepKind::PowerOff, 0);
    Hardware::act(&simulator, &off).await.unwrap();
    let seen = look(&simulator).await;
    assert!(!seen.nodes.known().unwrap()["n1"].ready);
    let etcd = &seen.etcd["main"];
    assert!(matches!(&etcd.answers["m1"], Fact::Unknown(why) if why.contains("refused")));
    let other = etcd.answers["m2"].known().unwrap();
    assert_eq!((other.members.len(), voting(etcd)), (3, 2));
    // On again, it is as it was; wiped, it is lost.
    let on = site.order("R1", StepKind::PowerOn, 0);
    Hardware::act(&simulator, &on).await.unwrap();
    assert_eq!(voting(&look(&simulator).await.etcd["main"]), 3);
    for kind in [StepKind::Destroy, StepKind::PowerOn] {
        let order = site.order("R2", kind, 0);
        Hardware::act(&simulator, &order).await.unwrap();
    }
    let seen = look(&simulator).await;
    assert!(!seen.nodes.known().unwrap()["n1"].ready);
    assert_eq!(voting(&seen.etcd["main"]), 2);
    assert_eq!(simulator.etcd(&main()).unwrap().len(), 3);
    // A second one: the quorum is lost, and each member that answers reports it.
    let off = site.order("R1", StepKind::PowerOff, 1);
    Hardware::act(&simulator, &off).await.unwrap();
    let etcd = &look(&simulator).await.etcd["main"];
    let last = etcd.answers["m3"].known().unwrap();
    assert!(!last.decides && last.leader.is_none());
    assert_eq!(&*last.errors[0], "etcdserver: no leader");
}

#[tokio::test(start_paused = true)]
async fn etcd_lets_a_member_go_only_while_the_others_are_a_quorum() {
    const UNHEALTHY: &str = "RemoveEtcdError: cluster `main`: etcdserver: unhealthy cluster";
    const SILENT: &str = "RemoveEtcdError: cluster `main` does not answer: etcdserver: no leader";
    /// Machines that are off, those whose members leave, and what the last of them meets.
    type Row = (&'static [usize], &'static [usize], Result<(), &'static str>);
    let table: [Row; 6] = [
        (&[], &[0], Ok(())),
        (&[1], &[1], Ok(())),
        (&[1], &[0], Err(UNHEALTHY)),
        (&[], &[0, 1], Ok(())),
        (&[], &[0, 1, 2], Err(UNHEALTHY)),
        (&[0, 1], &[0], Err(SILENT)),
    ];
    for (off, leaving, expected) in table {
        let site = Site::new(3);
        let simulator = site.open_cluster("{}", "{}");
        site.deployed(&simulator).await;
        for node in off {
            let order = site.order("R1", StepKind::PowerOff, *node);
            Hardware::act(&simulator, &order).await.unwrap();
        }
        let mut last = Ok(());
        for node in leaving {
            let order = site.order("R1", StepKind::RemoveEtcd, *node);
            last = Cluster::act(&simulator, &order).await;
        }
        let last = last.map_err(|error| error.to_string());
        assert_eq!(last, expected.map_err(str::to_owned), "{off:?} {leaving:?}");
        let left = simulator.etcd(&main()).unwrap().len();
        let gone = leaving.len() - usize::from(expected.is_err());
        assert_eq!(left, 3 - gone, "{off:?} {leaving:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_waits_for_the_threshold_without_the_node_that_leaves() {
    let site = Site::new(3);
    let simulator = site.open_cluster("{}", "{}");
    site.deployed(&simulator).await;
    let off = site.order("R1", StepKind::PowerOff, 1);
    Hardware::act(&simulator, &off).await.unwrap();
    let check = |parameters| site.order_in_time(("R1", 601), StepKind::CheckEtcd, 0, parameters);
    let began = Instant::now();
    let answer = Cluster::act(&simulator, &check(json!({}))).await;
    let message = "DisassociateStepFailure: etcd cluster `main` has 1 healthy members, and 2 are wanted, after 600 s";
    assert_eq!(answer, Err(ActError::Permanent(Arc::from(message))));
    assert_eq!(began.elapsed(), Duration::from_secs(600));
    let given_up = json!({"etcd_given_up": [main()]});
    assert_eq!(Cluster::act(&simulator, &check(given_up)).await, Ok(()));
    // It waits until the cluster is repaired.
    let repair = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        let on = site.order("R1", StepKind::PowerOn, 1);
        Hardware::act(&simulator, &on).await
    };
    let order = check(json!({}));
    let (checked, repaired) = tokio::join!(Cluster::act(&simulator, &order), repair);
    assert_eq!((checked, repaired), (Ok(()), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_removed_only_when_nothing_of_it_is_left() {
    const PODS: &str = "it is not drained: 1 pods are left";
    const READY: &str = "it is Ready: its kubelet reports, so that its machine is not off";
    let forced = json!({"on_drain_timeout": OnDrainTimeout::Continue});
    let gone = json!({"node_is_gone": true});
    let none = || json!({});
    let table: [(&[StepKind], Value, &str); 8] = [
        (
            &[],
            none(),
            "it is not cordoned; it has the labels plane; it is not drained: 1 pods are left",
        ),
        (
            &[StepKind::ClearLabels],
            none(),
            "it is not cordoned; it is not drained: 1 pods are left",
        ),
        (&[StepKind::Drain], none(), "it has the labels plane"),
        (&[StepKind::Drain, StepKind::ClearLabels], none(), ""),
        (&[], gone.clone(), READY),
        (&[StepKind::PowerOff], gone, ""),
        (
            &[StepKind::ClearLabels],
            forced.clone(),
            "it is not cordoned",
        ),
        (
            &[StepKind::ClearLabels, StepKind::PowerOff, StepKind::Drain],
            none(),
            PODS,
        ),
    ];
    for (before, parameters, expected) in table {
        let site = Site::new(1);
        let simulator = site.open_cluster("{}", "{pods: [{name: web}]}");
        site.deployed(&simulator).await;
        for kind in before {
            // A drain of a machine that is off does not succeed.
            let order = site.order_in_time(("R1", 100), *kind, 0, none());
            let _ = Cluster::act(&simulator, &order).await;
        }
        let order = site.order_with("R1", StepKind::RemoveFromCluster, 0, Some(parameters));
        let answer = Cluster::act(&simulator, &order).await;
        let expected = match expected {
            "" => Ok(()),
            why => {
                let text = format!("Conflict: node `n1` cannot be removed: {why}");
                Err(ActError::Permanent(Arc::from(text)))
            }
        };
        assert_eq!(answer, expected, "{before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_left_on_purpose_is_deleted_when_the_machine_is_off() {
    let site = Site::new(1);
    let simulator = site.open_cluster("{}", "{pods: [{name: web, never_ends: true}]}");
    site.deployed(&simulator).await;
    let parameters = json!({"on_drain_timeout": OnDrainTimeout::Continue});
    let order = |kind| match kind {
        StepKind::Drain | StepKind::RemoveFromCluster => {
            site.order_in_time(("R1", 100), kind, 0, parameters.clone())
        }
        _ => site.order_in_time(("R1", 100), kind, 0, json!({})),
    };
    for kind in [StepKind::Drain, StepKind::ClearLabels] {
        Cluster::act(&simulator, &order(kind)).await.unwrap();
    }
    let remove = order(StepKind::RemoveFromCluster);
    let early = Cluster::act(&simulator, &remove).await;
    assert!(matches!(early, Err(ActError::Permanent(why)) if why.contains("is Ready")));
    for kind in [StepKind::Destroy, StepKind::RemoveFromCluster] {
        Cluster::act(&simulator, &order(kind)).await.unwrap();
    }
    let machine = site.machine(&simulator, 0);
    assert!(machine.cluster.is_none() && machine.power == PowerState::Off);
    let deleted = machine
        .ledger
        .effects()
        .filter(|effect| matches!(effect, Effect::PodDeleted(_)));
    assert_eq!(deleted.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_or_another_one_is_not_touched() {
    let site = Site::new(1);
    let simulator = site.open_cluster("{}", "{}");
    let other = || json!({"node_uid": "another"});
    let kinds = [
        StepKind::Drain,
        StepKind::Uncordon,
        StepKind::ClearLabels,
        StepKind::ShutdownKubelet,
    ];
    for kind in kinds {
        let answer = Cluster::act(&simulator, &site.order("R1", kind, 0)).await;
        let message = "NotFound: the cluster has no node `n1`";
        assert_eq!(answer, Err(ActError::Permanent(Arc::from(message))));
        // One that was there and is gone is no more to be emptied, changed or stopped.
        let order = |parameters| site.order_with("R2", kind, 0, parameters);
        let probe = Cluster::probe(&simulator, &order(Some(other()))).await;
        let is_over = kind != StepKind::Uncordon;
        assert_eq!(probe == Probe::Done, is_over, "{kind}: {probe:?}");
        let probe = Cluster::probe(&simulator, &order(None)).await;
        assert_eq!(probe, Probe::NotBegun, "{kind}");
    }
    site.deployed(&simulator).await;
    for kind in kinds {
        let order = site.order_with("R1", kind, 0, Some(other()));
        let Err(ActError::Permanent(message)) = Cluster::act(&simulator, &order).await else {
            panic!("{kind}");
        };
        assert!(message.starts_with("Conflict: node `n1` was made anew"));
        assert_eq!(Cluster::probe(&simulator, &order).await, Probe::NotBegun);
    }
    // The one that is meant is gone already.
    let order = site.order_with("R1", StepKind::RemoveFromCluster, 0, Some(other()));
    assert_eq!(Cluster::act(&simulator, &order).await, Ok(()));
    assert!(site.machine(&simulator, 0).cluster.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_or_a_member_that_cannot_be_seen_is_unknown() {
    let site = Site::new(3);
    let simulator = site.open_cluster("{}", "{faults: [{outcome: unobservable, message: gone}]}");
    site.deployed(&simulator).await;
    let seen = look(&simulator).await;
    assert!(seen.facts.is_none());
    assert!(matches!(seen.nodes, Fact::Unknown(why) if &*why == "gone"));
    let faults = "{faults: [{nodes: [n2], outcome: unobservable}]}";
    let seen = look(&site.open_cluster("{}", faults)).await;
    assert_eq!(seen.nodes.known().unwrap().len(), 3);
    let answers = &seen.etcd["main"].answers;
    let known: Vec<bool> = answers
        .values()
        .map(|answer| answer.known().is_some())
        .collect();
    assert_eq!(known, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_simulated_site_has_a_simulated_cluster_unless_it_names_a_real_one() {
    let site = Site::new(1);
    let table = [
        ("hardware: {kind: sim}", Clock::Virtual, 1),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kind: sim}}",
            Clock::Virtual,
            1,
        ),
        (
            "hardware: {kind: sim}, clusters: {management: {context: m}}",
            Clock::Virtual,
            1,
        ),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kubeconfig: {file: /nowhere}}}",
            Clock::Real,
            0,
        ),
    ];
    for (data, time, nodes) in table {
        let (_, design) = design(&backends(data));
        assert_eq!(clock(design.guards()), time, "{data}");
        let folder = TempDir::new().unwrap();
        let context = BackendContext::trusting(
            folder.path().join("simulated-site.json"),
            Arc::new(NoSecrets),
        );
        let hardware = choose(&design, &context).unwrap();
        for kind in [StepKind::Prepare, StepKind::Deploy] {
            hardware.act(&site.order("R1", kind, 0)).await.unwrap();
        }
        let seen = hardware.see(&site.nodes, Look::default(), None).await;
        assert_eq!(usize::from(seen.cluster.is_some()), nodes, "{data}");
    }
}
