//! Nodes that leave their clusters, and the guard of etcd over all of a plan.

use super::*;
use crate::design::Share;
use crate::design::{ClusterName, EtcdCluster, EtcdMember, fixture};
use crate::lifecycle::ProvisionState;
use crate::observed::{
    ClusterFacts, EtcdAnswer, EtcdMemberSeen, EtcdSeen, LocalData, NodePods, PodName,
};
use crate::plan::{Action, FactName};
use crate::step::{OnDrainTimeout, StepKind};
use proptest::prelude::*;

/// A site whose nodes are all in one Kubernetes cluster.
pub(super) fn clustered(names: &[&str]) -> PlanFixture {
    let mut fixture = PlanFixture::settled(names);
    let seen = fixture.observations.as_mut().unwrap();
    seen.cluster = Some(ClusterFacts {
        version: Arc::from("v1.33.0"),
        shutdown_daemon_set: true,
        api_servers: None,
        missing_rights: Vec::new(),
    });
    for name in names {
        fixture.seen(name).cluster = Fact::Known(Some(ClusterNode {
            uid: Arc::from(format!("uid-{name}")),
            ready: true,
            labels: [(Arc::from("role"), Arc::from("old"))].into(),
            ..ClusterNode::default()
        }));
    }
    fixture
}

/// Makes nodes members of an etcd cluster; those in `dead` do not answer.
pub(super) fn with_etcd(fixture: &mut PlanFixture, members: &[&str], dead: &[&str]) {
    let name = ClusterName::from("main");
    let cluster = EtcdCluster {
        name: name.clone(),
        minimum_healthy: members.len() / 2 + 1,
        members: members
            .iter()
            .map(|node| EtcdMember {
                node: NodeName::from(*node),
                name: Arc::from(*node),
                peer_url: Arc::from(format!("https://{node}:2380")),
                client_url: Arc::from(format!("https://{node}:2379")),
            })
            .collect(),
        credentials: BTreeMap::new(),
        username: None,
        mark: mark(),
    };
    let live: Vec<EtcdMemberSeen> = members
        .iter()
        .map(|node| EtcdMemberSeen {
            id: Arc::from(format!("id-{node}")),
            name: Arc::from(*node),
            peer_urls: vec![Arc::from(format!("https://{node}:2380"))],
            client_urls: Vec::new(),
            learner: false,
        })
        .collect();
    let leader = members.iter().find(|node| !dead.contains(node));
    let answer = |node: &&&str| EtcdAnswer {
        cluster_id: Arc::from("c1"),
        member_id: Arc::from(format!("id-{node}")),
        members: live.clone(),
        leader: leader.map(|node| Arc::from(format!("id-{node}"))),
        learner: false,
        decides: true,
        alarms: Vec::new(),
        errors: Vec::new(),
        version: Arc::from("3.5.0"),
        db_size: 1,
        raft_index: 9,
        raft_applied: 9,
        raft_term: 2,
    };
    let answers = members.iter().map(|node| {
        let fact = match dead.contains(node) {
            true => Fact::Unknown(Arc::from("connection refused")),
            false => Fact::Known(answer(&node)),
        };
        (Arc::from(*node), fact)
    });
    let seen = EtcdSeen {
        answers: answers.collect(),
        ..EtcdSeen::default()
    };
    fixture.guards.etcd_clusters = vec![cluster.clone()];
    fixture.old_guards.etcd_clusters = vec![cluster];
    let observations = fixture.observations.as_mut().unwrap();
    observations.etcd.insert(name, seen);
}

pub(super) fn redeploy(fixture: &mut PlanFixture, names: &[&str]) {
    for name in names {
        fixture.edit(name, Section::OperatingSystem);
    }
    fixture.options.allow_redeploy = all();
}

pub(super) fn blocked(plan: &Plan) -> Vec<String> {
    let blocked = plan.changes.iter().filter_map(|change| {
        let block = change.blocked.as_ref()?;
        let flag = block.flag.as_deref().unwrap_or("never");
        Some(format!("{}: {} [{flag}]", change.node, block.reason))
    });
    blocked.collect()
}

#[test]
fn a_node_of_the_cluster_leaves_it_before_its_machine_is_destroyed_and_is_waited_for() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    redeploy(&mut fixture, &["n1"]);
    let plan = fixture.plan();
    assert_eq!(
        work(&plan),
        "drain/all/n1 clear-labels/all/n1 remove-etcd/all/n1 check-etcd/all/n1 shutdown-kubelet/all/n1 \
         destroy/all/n1 remove-from-cluster/all/n1 prepare/all/n1 deploy/all/n1 await-ready/all/n1"
    );
    let table = [
        ("drain/all/n1", "wave/all/1"),
        ("clear-labels/all/n1", "drain/all/n1"),
        ("remove-etcd/all/n1", "clear-labels/all/n1"),
        ("check-etcd/all/n1", "remove-etcd/all/n1"),
        ("shutdown-kubelet/all/n1", "check-etcd/all/n1"),
        (
            "destroy/all/n1",
            "check-etcd/all/n1 shutdown-kubelet/all/n1?",
        ),
        ("remove-from-cluster/all/n1", "destroy/all/n1"),
        ("prepare/all/n1", "remove-from-cluster/all/n1"),
        ("await-ready/all/n1", "deploy/all/n1"),
    ];
    for (step, expected) in table {
        assert_eq!(needs(&plan, step), expected, "{step}");
    }
    let given = |id: &str| step(&plan, id).given();
    assert_eq!(*given("drain/all/n1").grace_period(), Some(1800));
    assert_eq!(given("drain/all/n1").node_uid().as_deref(), Some("uid-n1"));
    let removal = &given("remove-etcd/all/n1").etcd_members()[0];
    assert_eq!(&*removal.member_id, "id-n1");
    assert_eq!(step(&plan, "drain/all/n1").timeout, 3600);
    assert_eq!(step(&plan, "check-etcd/all/n1").timeout, 600);
    assert_eq!(step(&plan, "await-ready/all/n1").timeout, 1800 + 600);
}

#[test]
fn members_go_one_wave_after_the_other_and_each_wave_waits_for_those_before_to_vote_again() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    redeploy(&mut fixture, &["n1", "n2", "n4"]);
    fixture.options.max_unavailable = Some(Share::Machines(4));
    let plan = fixture.plan();
    assert_eq!(needs(&plan, "drain/all/n1"), "wave/all/1");
    assert_eq!(needs(&plan, "drain/all/n4"), "wave/all/1");
    assert_eq!(needs(&plan, "drain/all/n2"), "wave/all/2");
    assert_eq!(
        needs(&plan, "wave/all/2"),
        "start/all await-ready/all/n1 await-ready/all/n4?"
    );
    let of_etcd: Vec<String> = plan
        .relies_on
        .iter()
        .filter(|each| each.subject.node().is_none())
        .map(|each| {
            let steps = each
                .steps
                .iter()
                .map(|step| &plan.steps[step.0 as usize].id);
            let steps: Vec<_> = steps.map(ToString::to_string).collect();
            format!(
                "{} {:?} {} {}",
                each.what.fact,
                each.what.relation,
                each.what.expected,
                steps.join(" ")
            )
        })
        .collect();
    assert_eq!(
        of_etcd,
        [
            "alarms Equal [] remove-etcd/all/n1",
            "cluster-id Equal \"c1\" remove-etcd/all/n1",
            "healthy AtLeast 3 remove-etcd/all/n1",
            "learners Equal [] remove-etcd/all/n1",
            "voters Equal [\"id-n1\",\"id-n2\",\"id-n3\"] remove-etcd/all/n1",
        ]
    );
}

#[test]
fn a_check_of_etcd_relies_on_the_voters_only_where_the_machine_is_one_of_their_nodes() {
    for (name, expected) in [("n3", 1), ("n4", 0)] {
        let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
        with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
        // Its member has left, and is awaited no more.
        let seen = fixture.observations.as_mut().unwrap();
        let seen = seen.etcd.values_mut().next().unwrap();
        seen.answers.remove("n3");
        for answer in seen.answers.values_mut() {
            if let Fact::Known(answer) = answer {
                answer.members.retain(|member| &*member.name != "n3");
            }
        }
        fixture.request = Request {
            action: Action::Decommission,
            nodes: these(&[name]),
            ..Request::default()
        };
        let plan = fixture.plan();
        let checks = format!("check-etcd/{name}");
        let of_check = plan.relies_on.iter().filter(|each| {
            let mut steps = each.steps.iter();
            let is_check = |step: &crate::step::StepIndex| {
                plan.steps[step.0 as usize].id.to_string() == checks
            };
            each.subject.node().is_none() && steps.any(is_check)
        });
        let facts: Vec<_> = of_check.map(|each| each.what.fact).collect();
        assert!(work(&plan).contains(&checks), "{}", work(&plan));
        assert_eq!(facts, vec![FactName::Voters; expected], "{name}");
    }
}

#[test]
fn what_is_expected_is_told_beside_the_digest() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    redeploy(&mut fixture, &["n1", "n2"]);
    let seen = fixture.observations.as_mut().unwrap();
    let pods = |evicted| NodePods {
        evicted,
        ..NodePods::default()
    };
    seen.pods.insert(NodeName::from("n2"), Arc::new(pods(7)));
    seen.cluster.as_mut().unwrap().shutdown_daemon_set = false;
    let plan = fixture.plan();
    let digest = crate::plan::digest(&plan);
    let etcd = &plan.forecast.etcd[0];
    assert_eq!((etcd.now, etcd.meanwhile, etcd.after), (3, 2, 3));
    assert_eq!(plan.forecast.nodes[0].evicted, 7);
    assert!(plan.forecast.creates_daemon_set);
    let seen = fixture.observations.as_mut().unwrap();
    seen.pods.insert(NodeName::from("n2"), Arc::new(pods(8)));
    let again = fixture.plan();
    assert_ne!(again.forecast, plan.forecast);
    assert_eq!(crate::plan::digest(&again), digest);
    let text = crate::plan::saved::write(&plan);
    assert_eq!(crate::plan::saved::read(&text).unwrap(), plan);
}

#[test]
fn waves_of_different_groups_wait_for_members_too() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    redeploy(&mut fixture, &["n1", "n2"]);
    fixture.guards.groups = vec![
        group("one", &[], named(&["n1"])),
        group("two", &[], named(&["n2", "n3"])),
    ];
    fixture.options.parallel_groups = 2;
    let plan = fixture.plan();
    assert_eq!(
        needs(&plan, "wave/two/1"),
        "await-ready/one/n1 gate-deployed/one? start/two"
    );
}

#[test]
fn what_the_etcd_clusters_would_not_bear_is_blocked_over_all_nodes_of_the_plan() {
    let names = ["n1", "n2", "n3", "n4", "n5"];
    // dead, leaves the design, redeployed, blocked
    type Names = &'static [&'static str];
    let table: &[(Names, Names, Names, Names)] = &[
        (&[], &[], &["n1", "n2", "n3"], &[]),
        (&["n5"], &[], &["n1"], &[]),
        (&["n4", "n5"], &[], &["n1"], &["n1"]),
        (&["n4", "n5"], &[], &["n4"], &[]),
        (&[], &["n1", "n2"], &[], &[]),
        (&[], &["n1", "n2", "n3"], &[], &["n3"]),
        (&[], &["n1", "n2"], &["n3"], &["n3"]),
        (&["n3", "n4", "n5"], &[], &["n5"], &["n5"]),
    ];
    for (dead, leave, again, expected) in table {
        let mut fixture = clustered(&names);
        with_etcd(&mut fixture, &names, dead);
        redeploy(&mut fixture, again);
        fixture.options.allow_destroy = all();
        fixture.options.max_unavailable = Some(Share::Machines(9));
        for name in *leave {
            fixture.leave(name);
            let members = &mut fixture.guards.etcd_clusters[0].members;
            members.retain(|member| member.node.as_str() != *name);
        }
        let plan = fixture.plan();
        let found: Vec<&str> = plan.blocked().map(|change| change.node.as_str()).collect();
        assert_eq!(
            found,
            *expected,
            "{dead:?} {leave:?} {again:?}: {:?}",
            blocked(&plan)
        );
    }
}

#[test]
fn a_cluster_of_one_member_ends_only_where_a_person_chose_it() {
    let mut fixture = clustered(&["n1"]);
    with_etcd(&mut fixture, &["n1"], &[]);
    redeploy(&mut fixture, &["n1"]);
    assert_eq!(
        blocked(&fixture.plan()),
        ["n1: etcd cluster `main` has no other member and would be lost [--destroy-etcd main]"]
    );
    fixture.options.leaving.destroy_etcd = these(&["main"]);
    assert_eq!(
        work(&fixture.plan()),
        "drain/all/n1 clear-labels/all/n1 shutdown-kubelet/all/n1 destroy/all/n1 \
         remove-from-cluster/all/n1 prepare/all/n1 deploy/all/n1 await-ready/all/n1"
    );
}

#[test]
fn an_etcd_that_the_design_does_not_list_blocks_a_teardown() {
    for by_pod in [true, false] {
        let mut fixture = clustered(&["n1"]);
        if by_pod {
            let pods = NodePods {
                runs_etcd: true,
                ..NodePods::default()
            };
            let seen = fixture.observations.as_mut().unwrap();
            seen.pods.insert(NodeName::from("n1"), Arc::new(pods));
        } else if let Fact::Known(Some(node)) = &mut fixture.seen("n1").cluster {
            let label = "node-role.kubernetes.io/control-plane";
            node.labels.insert(Arc::from(label), Arc::from(""));
        }
        redeploy(&mut fixture, &["n1"]);
        let found = blocked(&fixture.plan());
        assert!(found[0].ends_with("[--no-etcd-here n1]"), "{found:?}");
        fixture.options.leaving.no_etcd_here = these(&["n1"]);
        assert_eq!(blocked(&fixture.plan()), [""; 0]);
    }
}

#[test]
fn a_cluster_that_could_not_be_seen_keeps_its_nodes() {
    let mut fixture = clustered(&["n1"]);
    fixture.seen("n1").cluster = Fact::Unknown(Arc::from("connection refused"));
    redeploy(&mut fixture, &["n1"]);
    assert_eq!(
        blocked(&fixture.plan()),
        ["n1: whether it is a node of the cluster could not be read: connection refused [never]"]
    );
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    fixture.observations.as_mut().unwrap().etcd.clear();
    redeploy(&mut fixture, &["n1"]);
    assert_eq!(
        blocked(&fixture.plan()),
        ["n1: it is a member of etcd cluster `main`, which was not observed [never]"]
    );
}

#[test]
fn a_node_that_is_not_in_the_cluster_has_nothing_to_leave_and_the_plan_says_so() {
    let mut fixture = clustered(&["n1"]);
    fixture.seen("n1").cluster = Fact::Known(None);
    redeploy(&mut fixture, &["n1"]);
    let plan = fixture.plan();
    assert_eq!(
        work(&plan),
        "destroy/all/n1 prepare/all/n1 deploy/all/n1 await-ready/all/n1"
    );
    let said = "is no node of the cluster: there is nothing to drain";
    assert!(
        plan.changes[0]
            .reasons
            .iter()
            .any(|reason| &**reason == said)
    );
}

#[test]
fn a_machine_that_is_gone_is_not_waited_for() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &["n1"]);
    fixture.leave("n1");
    fixture.options.allow_destroy = all();
    fixture.options.leaving.gone = these(&["n1"]);
    // What was observed stands against what a person says.
    for checked in [false, true] {
        fixture.options.leaving.checked_gone = checked;
        assert_eq!(
            blocked(&fixture.plan()),
            ["n1: it is said to be gone, and it is on: switch it off first [never]"]
        );
    }
    fixture.options.leaving.checked_gone = false;
    fixture.seen("n1").power = Fact::Unknown("no answer".into());
    assert_eq!(
        blocked(&fixture.plan()),
        [
            "n1: `--node-is-gone` names it, and whether it is off could not be observed: no answer [--i-have-checked --node-is-gone n1]"
        ]
    );
    fixture.options.leaving.checked_gone = true;
    assert!(blocked(&fixture.plan()).is_empty());
    fixture.options.leaving.checked_gone = false;
    fixture.seen("n1").power = Fact::Known(PowerState::Off);
    let plan = fixture.plan();
    assert_eq!(
        work(&plan),
        "drain/n1 clear-labels/n1 remove-etcd/n1 check-etcd/n1 destroy/n1 remove-from-cluster/n1"
    );
    assert!(step(&plan, "drain/n1").given().node_is_gone());
}

#[test]
fn a_drain_relies_on_what_its_teardown_does_and_on_whose_data_it_loses() {
    let mut fixture = clustered(&["n1"]);
    let pods = NodePods {
        evicted: 7,
        uncontrolled: vec![PodName {
            namespace: Arc::from("web"),
            name: Arc::from("lonely"),
            uid: Arc::from("pod-1"),
        }],
        local_data: vec![LocalData {
            owner: Arc::from("StatefulSet db/main"),
            kind: Arc::from("emptyDir"),
            pods: 2,
        }],
        ..NodePods::default()
    };
    let seen = fixture.observations.as_mut().unwrap();
    seen.pods.insert(NodeName::from("n1"), Arc::new(pods));
    redeploy(&mut fixture, &["n1"]);
    fixture.options.leaving.on_drain_timeout = Some(OnDrainTimeout::Continue);
    let plan = fixture.plan();
    let facts: Vec<_> = plan
        .relies_on
        .iter()
        .filter(|each| {
            each.steps
                .iter()
                .any(|step| plan.steps[step.0 as usize].id.kind == StepKind::Drain)
        })
        .map(|each| {
            let what = &each.what;
            format!("{} {:?} {}", what.fact, what.relation, what.expected)
        })
        .collect();
    assert_eq!(
        facts,
        [
            "disks Equal [\"serial-n1\"]",
            "kubernetes-node Equal \"uid-n1\"",
            "local-data Subset [\"StatefulSet db/main\",\"pod-1\"]",
            "maintenance Equal null",
            "protected Equal false",
            "provision Equal \"active\"",
            "retired Equal null",
        ]
    );
}

/// A cluster of three by the design, of which one is a member.
fn one_of_three() -> PlanFixture {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1"], &[]);
    let seen = fixture.observations.as_ref().unwrap().etcd.clone();
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    fixture.observations.as_mut().unwrap().etcd = seen;
    fixture.guards.etcd_clusters[0].minimum_healthy = 1;
    fixture
}

#[test]
fn machines_that_were_never_deployed_are_switched_off_though_a_majority_of_the_design_goes() {
    let mut fixture = one_of_three();
    for name in ["n2", "n3"] {
        fixture.see(name, ProvisionState::Available);
        fixture.records.remove(name);
    }
    let plan = super::asked::asked(&mut fixture, Action::PowerOff, &["n2", "n3"]);
    assert!(
        ids(&plan).contains(&"power-off/n3".to_owned()),
        "{:?}",
        ids(&plan)
    );
}

#[test]
fn machines_whose_members_have_left_are_taken_away_though_a_majority_of_the_design_goes() {
    let mut fixture = one_of_three();
    let plan = super::asked::asked(&mut fixture, Action::Teardown, &["n2", "n3"]);
    let relied_on = plan.relies_on.iter().map(|each| each.what.fact);
    assert!(relied_on.into_iter().any(|fact| fact == FactName::Voters));
    assert!(
        ids(&plan).contains(&"check-etcd/n3".to_owned()),
        "{:?}",
        ids(&plan)
    );
}

/// Whether a majority votes, of some members, when steps have removed and brought back members.
fn quorum_holds(members: usize, dead: usize, out: usize) -> bool {
    let (voters, healthy) = (members - out, members - dead - out);
    healthy > voters / 2
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_order_that_the_needs_allow_takes_a_cluster_below_its_quorum(
        members in 3_usize..8,
        dead in 0_usize..3,
        leaving in prop::collection::btree_set(0_usize..8, 0..3),
        again in prop::collection::btree_set(0_usize..8, 0..6),
        limit in 1_usize..9,
        groups in 1_usize..4,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let names: Vec<String> = (0..members).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let dead = dead.min(members);
        let mut fixture = clustered(&names);
        with_etcd(&mut fixture, &names, &names[..dead]);
        let again: Vec<&str> = again.iter().filter(|number| **number < members && !leaving.contains(number))
            .map(|number| names[*number]).collect();
        redeploy(&mut fixture, &again);
        fixture.options.allow_destroy = all();
        fixture.options.max_unavailable = Some(Share::Machines(limit));
        fixture.options.skip_blocked = true;
        fixture.options.parallel_groups = groups;
        for number in leaving.iter().filter(|number| **number < members) {
            fixture.leave(names[*number]);
            let cluster = &mut fixture.guards.etcd_clusters[0];
            cluster.members.retain(|member| member.node.as_str() != names[*number]);
        }
        fixture.guards.groups = (0..groups)
            .map(|group_number| {
                let mine: Vec<&str> = names.iter().enumerate()
                    .filter(|(number, _)| number % groups == group_number)
                    .map(|(_, name)| *name).collect();
                group(&format!("g{group_number}"), &[], named(&mine))
            })
            .collect();
        let plan = fixture.plan();
        // A run in some order: any step whose needs have ended may be next.
        let mut ended = vec![false; plan.steps.len()];
        let mut out: BTreeSet<NodeName> = BTreeSet::new();
        for choice in choices {
            let ready: Vec<usize> = (0..plan.steps.len())
                .filter(|index| !ended[*index])
                .filter(|index| plan.steps[*index].needs.iter().all(|need| ended[need.step.0 as usize]))
                .collect();
            if ready.is_empty() {
                break;
            }
            let next = *choice.get(&ready);
            ended[next] = true;
            let id = &plan.steps[next].id;
            match (id.kind, &id.node) {
                (StepKind::RemoveEtcd, Some(node)) => drop(out.insert(node.clone())),
                (StepKind::AwaitReady, Some(node)) => drop(out.remove(node)),
                _ => {}
            }
            let is_dead = |node: &NodeName| names[..dead].contains(&node.as_str());
            let dead_out = out.iter().filter(|node| is_dead(node)).count();
            let healthy_out = out.len() - dead_out;
            prop_assert!(
                quorum_holds(members - dead_out, dead - dead_out, healthy_out)
                    || quorum_was_lost(members, dead),
                "{out:?} of {members} with {dead} dead"
            );
        }
        prop_assert!(ended.iter().all(|ended| *ended));
    }
}

/// Nothing may be removed then, and nothing is.
fn quorum_was_lost(members: usize, dead: usize) -> bool {
    members - dead <= members / 2
}

#[test]
fn a_member_that_is_no_node_of_kubernetes_is_waited_for_as_a_member_only() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &[]);
    fixture.seen("n1").cluster = Fact::Known(None);
    redeploy(&mut fixture, &["n1", "n2"]);
    let plan = fixture.plan();
    let members_only = |id: &str| *step(&plan, id).given().members_only();
    assert!(members_only("await-ready/all/n1") && !members_only("await-ready/all/n2"));
}

#[test]
fn a_former_member_that_an_update_deploys_again_is_waited_for_until_it_votes() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    with_etcd(&mut fixture, &["n1", "n2", "n3"], &["n1"]);
    fixture.see("n1", ProvisionState::Available);
    let record = fixture.record("n1");
    record.phase = crate::record::Phase::Failed;
    record.digests.clear();
    assert_eq!(
        work(&fixture.plan()),
        "prepare/all/n1 deploy/all/n1 await-ready/all/n1"
    );
    // Where nothing answers there is nothing to come back to: the site is built for the first time.
    fixture.records.clear();
    let seen = fixture.observations.as_mut().unwrap();
    seen.cluster = None;
    seen.etcd.clear();
    for name in ["n2", "n3"] {
        fixture.see(name, ProvisionState::Available);
    }
    assert!(!work(&fixture.plan()).contains("await-ready"));
}

#[test]
fn a_first_deploy_awaits_its_node_or_says_that_nothing_does() {
    let site = "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\n\
                data: {hardware: {kind: redfish}, clusters: {kubernetes: {}}}\n";
    let mut fixture = clustered(&["n1"]);
    fixture.bare("n1");
    fixture.guards.backends = fixture::site(site).guards.backends;
    let facts = |fixture: &mut PlanFixture, servers| {
        let seen = fixture.observations.as_mut().unwrap();
        seen.cluster.as_mut().unwrap().api_servers = servers;
    };
    facts(&mut fixture, Some(Fact::Known(1)));
    fixture.seen("n1").cluster = Fact::Known(None);
    let reasons = |fixture: &PlanFixture| fixture.plan().changes[0].reasons.join("; ");
    assert!(ids(&fixture.plan()).contains(&"await-ready/all/n1".to_owned()));
    assert!(!reasons(&fixture).contains("without waiting"));

    // Its control plane does not exist yet.
    fixture.observations.as_mut().unwrap().cluster = None;
    fixture.seen("n1").cluster = Fact::Unknown(Arc::from("connection refused"));
    assert!(!ids(&fixture.plan()).contains(&"await-ready/all/n1".to_owned()));
    let said = reasons(&fixture);
    let why = "its clusters cannot be read (connection refused): the deploy ends without waiting";
    assert!(said.contains(why), "{said}");

    // What is to be no node of a cluster does not wait for one.
    fixture.designed("n1").labels = Arc::default();
    assert!(!reasons(&fixture).contains("without waiting"));
}

#[test]
fn a_drain_that_could_not_end_is_blocked_and_not_begun() {
    let off = || {
        let mut fixture = clustered(&["n1", "n2"]);
        redeploy(&mut fixture, &["n1"]);
        let pods = NodePods {
            evicted: 3,
            ..NodePods::default()
        };
        let seen = fixture.observations.as_mut().unwrap();
        seen.pods.insert(NodeName::from("n1"), Arc::new(pods));
        let seen = fixture.seen("n1");
        seen.power = Fact::Known(PowerState::Off);
        if let Fact::Known(Some(node)) = &mut seen.cluster {
            node.ready = false;
        }
        fixture
    };
    let why = "n1: it is off, and its kubelet with it: its 3 pods would not end, and its drain would fail; `trueup apply power on n1` starts it first [--node-is-gone n1]";
    assert_eq!(blocked(&off().plan()), [why]);
    let mut drained = off();
    drained.request = Request {
        action: crate::plan::Action::Drain,
        nodes: these(&["n1"]),
        ..Request::default()
    };
    assert_eq!(blocked(&drained.plan()), [why]);
    // One that is on and not Ready may come back: the drain is tried, and what becomes of it is said before.
    let mut silent = off();
    silent.seen("n1").power = Fact::Known(PowerState::On);
    let plan = silent.plan();
    assert!(blocked(&plan).is_empty());
    let change = plan
        .changes
        .iter()
        .find(|change| change.node.as_str() == "n1");
    let reasons = change.unwrap().reasons.join("; ");
    let said =
        "if its kubelet stays silent, its 3 pods do not end, and its drain fails after 5 minutes";
    assert!(reasons.contains(said), "{reasons}");
    // Its pods are deleted if a flag names it, and if none are left nothing is waited for.
    let mut gone = off();
    gone.options.leaving.gone = these(&["n1"]);
    assert!(blocked(&gone.plan()).is_empty());
    let mut forced = off();
    forced.options.leaving.on_drain_timeout = Some(OnDrainTimeout::ForceDelete);
    assert!(blocked(&forced.plan()).is_empty());
    let mut empty = off();
    empty.observations.as_mut().unwrap().pods.clear();
    assert!(blocked(&empty.plan()).is_empty());
}
