//! Random orders of steps, and deaths in between: nothing happens twice, and etcd keeps its majority
//! if the guard's rule is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::backend::Cluster;
use crate::design::{ClusterName, quorum};
use crate::lifecycle::PowerState;

const KINDS: [StepKind; 13] = [
    StepKind::Drain,
    StepKind::Uncordon,
    StepKind::ClearLabels,
    StepKind::RemoveEtcd,
    StepKind::CheckEtcd,
    StepKind::ShutdownKubelet,
    StepKind::Destroy,
    StepKind::RemoveFromCluster,
    StepKind::Prepare,
    StepKind::Deploy,
    StepKind::AwaitReady,
    StepKind::PowerOn,
    StepKind::PowerOff,
];

const SETTINGS: &str = "{pods: [{name: web, count: 2, ends_after: 20}, {name: db, ends_after: 400}], budgets: [{name: web, pods: [web], yields_after: 100}]}";

/// When a member votes, how long it is a learner, and whether its data is lost.
struct Vote {
    from: u64,
    after: u64,
    lost: bool,
}

/// Whether taking a machine away leaves its etcd cluster a majority: what is being taken away already
/// counts as gone.
fn may_take(simulator: &Simulator, site: &Site, node: usize) -> bool {
    let seats = simulator.etcd(&ClusterName::from("main")).unwrap();
    let voters = seats.iter().filter(|seat| seat.votes);
    let left = voters.clone().filter(|seat| {
        seat.runs && seat.node != site.nodes[node].name && !is_taken(simulator, &seat.node)
    });
    left.count() >= quorum(voters.count())
}

/// Whether a member may leave: the others that stay are a majority of those that are left.
fn may_remove(simulator: &Simulator, site: &Site, node: usize) -> bool {
    let seats = simulator.etcd(&ClusterName::from("main")).unwrap();
    let others = seats
        .iter()
        .filter(|seat| seat.votes && seat.node != site.nodes[node].name);
    let left = others
        .clone()
        .filter(|seat| seat.runs && !is_taken(simulator, &seat.node));
    left.count() >= quorum(others.count())
}

/// Whether a machine is being taken away.
fn is_taken(simulator: &Simulator, name: &NodeName) -> bool {
    let machine = simulator.machine(name).unwrap().unwrap();
    machine
        .operation
        .is_some_and(|operation| matches!(operation.kind, StepKind::Destroy | StepKind::PowerOff))
}

/// Checks what ever happened.
fn check(simulator: &Simulator, site: &Site) {
    let mut all = Vec::new();
    for node in &site.nodes {
        let machine = simulator.machine(&node.name).unwrap().unwrap();
        all.extend(
            machine
                .ledger
                .entries()
                .map(|entry| (node.name.clone(), entry)),
        );
    }
    // An effect without an observer is stored at the next observation.
    all.sort_by_key(|(_, entry)| (entry.at, entry.sequence));
    let mut once = BTreeSet::new();
    // By node: whether it runs, and its member.
    let mut runs: BTreeMap<NodeName, bool> = BTreeMap::new();
    let mut members: BTreeMap<NodeName, Vote> = BTreeMap::new();
    for (position, (node, entry)) in all.iter().enumerate() {
        let first = |what: &str, id: &str| format!("{what} {id}");
        let said = match &entry.effect {
            Effect::Evicted(pod) | Effect::PodDeleted(pod) => Some(first("pod", &pod.uid)),
            Effect::NodeDeleted { uid } => Some(first("node", uid)),
            Effect::MemberRemoved(removed) => {
                members.remove(node);
                Some(first("removed", &removed.id))
            }
            Effect::MemberAdded(added) => {
                let (id, votes_after) = (&added.id, &added.votes_after);
                let vote = Vote {
                    from: entry.at + votes_after,
                    after: *votes_after,
                    lost: false,
                };
                members.insert(node.clone(), vote);
                Some(first("added", id))
            }
            Effect::PoweredOn => {
                runs.insert(node.clone(), true);
                if let Some(vote) = members.get_mut(node).filter(|vote| vote.from == u64::MAX) {
                    vote.from = if vote.lost {
                        u64::MAX
                    } else {
                        entry.at + vote.after
                    };
                }
                None
            }
            Effect::PoweredOff | Effect::Destroyed => {
                runs.insert(node.clone(), false);
                if let Some(vote) = members.get_mut(node) {
                    vote.lost |= entry.effect == Effect::Destroyed;
                    if vote.from > entry.at {
                        vote.from = u64::MAX;
                    }
                }
                None
            }
            _ => None,
        };
        if let Some(said) = said {
            assert!(once.insert(said.clone()), "{said} happened twice: {all:#?}");
        }
        // Between two effects of one operation nothing is observed.
        let is_last = all
            .get(position + 1)
            .is_none_or(|(_, next)| next.at != entry.at || next.step != entry.step);
        let voters = members.iter().filter(|(_, vote)| vote.from <= entry.at);
        let running = voters
            .clone()
            .filter(|(node, vote)| !vote.lost && runs.get(*node) == Some(&true));
        if is_last && voters.clone().count() > 0 {
            let (running, all_voters) = (running.count(), voters.count());
            assert!(
                running >= quorum(all_voters),
                "{running} of {all_voters} at {}: {all:#?}",
                entry.at
            );
        }
    }
}

fn play(actions: &[(usize, usize, u8, u16)]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let site = Site::new(3);
        let mut simulator = site.open_cluster("{}", SETTINGS);
        site.deployed(&simulator).await;
        for (kind, node, run, seconds) in actions {
            let kind = KINDS[*kind];
            let takes = matches!(kind, StepKind::Destroy | StepKind::PowerOff);
            let order = site.order_in_time((&format!("R{run}"), 900), kind, *node, json!({}));
            let breaks = takes && !may_take(&simulator, &site, *node)
                || kind == StepKind::RemoveEtcd && !may_remove(&simulator, &site, *node);
            if breaks {
                continue;
            }
            // Whatever it answers; and it may be cut short by a death.
            let acting = Cluster::act(&simulator, &order);
            let time = Duration::from_secs(u64::from(*seconds));
            let lived = tokio::time::timeout(time, acting).await.is_ok();
            let _ = Cluster::probe(&simulator, &order).await;
            if !lived {
                simulator = site.open_cluster("{}", SETTINGS);
            }
        }
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        check(&simulator, &site);
        let again = site.open_cluster("{}", SETTINGS);
        for (node, design) in site.nodes.iter().enumerate() {
            let machine = again.machine(&design.name).unwrap().unwrap();
            let power = machine.power == PowerState::On;
            let ready = machine.cluster.is_some_and(|cluster| cluster.ready);
            assert!(power || !ready, "n{node} is off and Ready");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_steps_and_deaths_does_anything_twice_or_costs_the_majority(
        actions in prop::collection::vec((0..KINDS.len(), 0..3_usize, 0..4_u8, 0..2000_u16), 1..40)
    ) {
        play(&actions);
    }
}

#[test]
fn a_member_leaves_once_another_machine_is_on_again_unobserved() {
    let (power_on, power_off, drain, check, remove) = (11, 12, 0, 4, 3);
    play(&[
        (power_off, 0, 0, 0),
        (drain, 1, 0, 120),
        (power_on, 0, 0, 0),
        (check, 1, 0, 30),
        (remove, 1, 0, 0),
    ]);
}
