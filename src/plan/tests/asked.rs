//! The effects of actions on the nodes that are named for them.

use super::leaving::clustered;
use super::*;
use crate::design::{BackendKind, HardwareBackend};
use crate::observed::{Capability, NodePods, RemediationSeen};
use crate::plan::Action;
use crate::step::{CleanStep, StepKind};

pub(super) fn asked(fixture: &mut PlanFixture, action: Action, nodes: &[&str]) -> Plan {
    fixture.request = Request {
        action,
        nodes: these(nodes),
        ..Request::default()
    };
    fixture.plan()
}

#[test]
fn a_flag_that_was_set_by_hand_is_not_taken_off_by_an_update() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    let reason = Some(Arc::from("old fans"));
    fixture.request = Request {
        action: Action::Retire,
        nodes: these(&["n1"]),
        reason,
        ..Request::default()
    };
    let plan = fixture.plan();
    assert_eq!(work(&plan), "set-retired/n1");
    let reason = step(&plan, "set-retired/n1").given().reason();
    assert_eq!(reason.as_deref(), Some("by hand: old fans"));
    fixture.record("n1").retired = reason.clone();
    fixture.seen("n1").retired = reason.clone();
    fixture.request = Request::default();
    assert_eq!(work(&fixture.plan()), "");
    assert_eq!(
        work(&asked(&mut fixture, Action::Unretire, &["n1"])),
        "unset-retired/n1"
    );
}

#[test]
fn a_node_is_deleted_only_when_it_is_cordoned_and_has_no_labels() {
    let mut fixture = clustered(&["n1"]);
    let reason = |plan: &Plan| {
        let blocked = plan.changes[0].blocked.as_ref();
        blocked.map(|block| block.reason.to_string())
    };
    let plan = asked(&mut fixture, Action::RemoveFromCluster, &["n1"]);
    assert_eq!(
        reason(&plan).as_deref(),
        Some("it is not cordoned: drain it first")
    );
    if let Fact::Known(Some(node)) = &mut fixture.seen("n1").cluster {
        node.unschedulable = true;
    }
    let plan = fixture.plan();
    assert_eq!(reason(&plan).as_deref(), Some("it still has labels: role"));
    if let Fact::Known(Some(node)) = &mut fixture.seen("n1").cluster {
        node.labels = [(Arc::from("promenade-decomission"), Arc::from("enabled"))].into();
    }
    assert_eq!(work(&fixture.plan()), "remove-from-cluster/n1");
}

#[test]
fn a_node_that_no_group_selects_is_built_again_by_itself_behind_the_groups() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    fixture.guards.groups = vec![group("all", &[], named(&["n1"]))];
    let plan = asked(&mut fixture, Action::Redeploy, &["n*"]);
    assert!(plan.blocked().next().is_none());
    assert_eq!(
        work(&plan),
        "destroy/all/n1 prepare/all/n1 deploy/all/n1 destroy/n2 prepare/n2 deploy/n2 destroy/n3 prepare/n3 deploy/n3"
    );
    assert_eq!(needs(&plan, "deploy/n2"), "prepare/n2");
    assert_eq!(needs(&plan, "prepare/n2"), "wave/1 destroy/n2");
    assert!(
        needs(&plan, "wave/1").contains("gate-deployed/all?"),
        "{}",
        needs(&plan, "wave/1")
    );
}

/// A record that owes its node a label and a taint.
fn owe(fixture: &mut PlanFixture, name: &str) {
    let taint = crate::remediation::Taint {
        key: Arc::from("dedicated"),
        value: Arc::from("gpu"),
        effect: Arc::from("NoSchedule"),
    };
    fixture.record(name).owed = Some(Box::new(crate::remediation::Backup {
        labels: [(Arc::from("team"), Arc::from("blue"))].into(),
        taints: [taint].into(),
        ..Default::default()
    }));
}

fn cluster_node<'w>(fixture: &'w mut PlanFixture, name: &str) -> &'w mut ClusterNode {
    match &mut fixture.seen(name).cluster {
        Fact::Known(Some(node)) => node,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_taken_off_a_node_is_put_back_by_the_next_update_by_relabel_and_by_uncordon() {
    let mut fixture = clustered(&["n1"]);
    owe(&mut fixture, "n1");
    assert_eq!(told(&fixture), "drift; ; relabel/all/n1");
    let plan = fixture.plan();
    let reasons = plan.changes[0].reasons.join("; ");
    assert!(reasons.contains("labels that were taken off its node are not back: team"));
    let given = step(&plan, "relabel/all/n1").given();
    assert_eq!(*given.backup(), fixture.record("n1").owed);
    let plan = asked(&mut fixture, Action::Relabel, &["n1"]);
    let given = step(&plan, "relabel/n1").given();
    assert_eq!(*given.backup(), fixture.record("n1").owed);
    // It is not cordoned any more, and still lacks them.
    let plan = asked(&mut fixture, Action::Uncordon, &["n1"]);
    let given = step(&plan, "uncordon/n1").given();
    assert_eq!(*given.backup(), fixture.record("n1").owed);

    // One that trueup has out of service is left so, and not called as designed for ever.
    let node = cluster_node(&mut fixture, "n1");
    node.unschedulable = true;
    node.cordoned_by = Some(Arc::from("01M"));
    node.labels = Default::default();
    fixture.request = Request::default();
    let plan = asked(&mut fixture, Action::Uncordon, &["n1"]);
    let given = step(&plan, "uncordon/n1").given();
    assert_eq!(*given.set_labels(), [(Arc::from("role"), Arc::from("old"))]);
    assert_eq!(*given.backup(), fixture.record("n1").owed);
    // What a remediation left behind counts too.
    fixture.request = Request::default();
    *cluster_node(&mut fixture, "n1") = ClusterNode {
        uid: Arc::from("new"),
        ready: true,
        labels: [(Arc::from("role"), Arc::from("old"))].into(),
        ..ClusterNode::default()
    };
    let backup = fixture.record("n1").owed.take().map(|owed| *owed);
    fixture.record("n1").remediation = Some(Box::new(crate::remediation::Memory {
        attempt: 1,
        backup,
        given_up: Some(Arc::from("it never came back")),
        ..Default::default()
    }));
    assert_eq!(told(&fixture), "drift; ; relabel/all/n1");
    // Its node is Ready: it has come back, whatever its remediation came to.
    let is_told = |fixture: &PlanFixture| {
        let plan = fixture.plan();
        let mut reasons = plan.changes.iter().flat_map(|change| &change.reasons);
        reasons.any(|reason| reason.starts_with("its remediation failed: it never came back;"))
    };
    assert!(!is_told(&fixture));
    cluster_node(&mut fixture, "n1").ready = false;
    assert!(is_told(&fixture));
}

#[test]
fn a_node_on_which_another_maintainer_is_at_work_is_not_taken_away() {
    let mut fixture = clustered(&["n1", "n2"]);
    cluster_node(&mut fixture, "n1").maintenance =
        Some(Arc::from("condition `MaintenanceInProgress`"));
    for action in [Action::Drain, Action::Redeploy, Action::Decommission] {
        fixture.request = Request::default();
        let plan = asked(&mut fixture, action, &["n1", "n2"]);
        let blocked = |node: &str| {
            let mut changes = plan.changes.iter();
            let change = changes.find(|change| change.node.as_str() == node).unwrap();
            change
                .blocked
                .as_ref()
                .map(|blocked| blocked.reason.to_string())
        };
        let why = blocked("n1").unwrap();
        assert!(
            why.contains("condition `MaintenanceInProgress`"),
            "{action}: {why}"
        );
        assert_eq!(blocked("n2"), None, "{action}");
    }
}

#[test]
fn a_node_that_another_actor_cordoned_is_not_uncordoned() {
    let mut fixture = clustered(&["n1"]);
    cluster_node(&mut fixture, "n1").unschedulable = true;
    let plan = asked(&mut fixture, Action::Uncordon, &["n1"]);
    let block = plan.changes[0].blocked.as_ref().unwrap();
    assert!(
        block.reason.contains("was not cordoned by trueup"),
        "{block:?}"
    );
}

#[test]
fn conditions_that_outlived_a_cordon_are_ended_by_an_uncordon() {
    for (is_left, steps) in [(false, 0), (true, 1)] {
        let mut fixture = clustered(&["n1"]);
        cluster_node(&mut fixture, "n1").has_own_conditions = is_left;
        let plan = asked(&mut fixture, Action::Uncordon, &["n1"]);
        assert!(plan.changes[0].blocked.is_none());
        let uncordons = plan.steps.iter();
        let uncordons = uncordons.filter(|step| step.id.kind == StepKind::Uncordon);
        assert_eq!(uncordons.count(), steps);
    }
}

#[test]
fn a_cluster_that_cannot_be_read_is_no_rule() {
    let mut fixture = clustered(&["n1"]);
    fixture.seen("n1").cluster = Fact::Unknown(Arc::from("no route"));
    for action in [Action::Drain, Action::Decommission, Action::Uncordon] {
        let plan = asked(&mut fixture, action, &["n1"]);
        let block = plan.changes[0].blocked.as_ref().unwrap();
        assert_eq!(block.cause, crate::plan::Cause::Unreadable, "{block:?}");
    }
}

#[test]
fn what_the_cluster_does_not_know_is_not_found() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    super::leaving::with_etcd(&mut fixture, &["n2", "n3", "n4"], &[]);
    for name in ["n1", "n2"] {
        fixture.seen(name).cluster = Fact::Known(None);
    }
    for action in [
        Action::Drain,
        Action::Decommission,
        Action::RemoveEtcd,
        Action::ShutdownKubelet,
    ] {
        fixture.request = Request {
            action,
            nodes: these(&["n1"]),
            ..Request::default()
        };
        let error = fixture.try_plan().unwrap_err();
        assert!(matches!(error, Error::NotInCluster { .. }), "{error:?}");
    }
    // Its member of etcd is still there to be taken out.
    assert_eq!(
        work(&asked(&mut fixture, Action::RemoveEtcd, &["n2"])),
        "remove-etcd/n2"
    );
    assert_eq!(
        work(&asked(&mut fixture, Action::Decommission, &["n2"])),
        "remove-etcd/n2 check-etcd/n2"
    );
}

#[test]
fn a_decommission_ends_with_healthy_clusters_of_etcd_also_where_the_node_has_no_member() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    let checks = |fixture: &mut PlanFixture, action| {
        let work = work(&asked(fixture, action, &["n1"]));
        work.contains("check-etcd/n1")
    };
    // There is none to be checked.
    assert!(!checks(&mut fixture, Action::Decommission));
    super::leaving::with_etcd(&mut fixture, &["n2", "n3", "n4"], &[]);
    assert!(checks(&mut fixture, Action::Decommission));
    assert!(!checks(&mut fixture, Action::Teardown));
}

#[test]
fn the_last_api_server_that_is_ready_is_not_taken_away() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    let label = || {
        [(
            Arc::from("node-role.kubernetes.io/control-plane"),
            Arc::from(""),
        )]
        .into()
    };
    for (name, servers) in [("n1", 1), ("n2", 1)] {
        let node = cluster_node(&mut fixture, name);
        node.api_servers = servers;
        node.labels = label();
    }
    let ready = |fixture: &mut PlanFixture, count| {
        let seen = fixture.observations.as_mut().unwrap();
        seen.cluster.as_mut().unwrap().api_servers = Some(count);
    };
    fixture.options.leaving.no_etcd_here = these(&["n1", "n2"]);
    let reason = |plan: &Plan| {
        plan.changes[0]
            .blocked
            .as_ref()
            .map(|block| block.reason.to_string())
    };
    ready(&mut fixture, Fact::Known(1));
    for action in [Action::Drain, Action::ShutdownKubelet, Action::Teardown] {
        let plan = asked(&mut fixture, action, &["n1"]);
        let reason = reason(&plan).unwrap();
        assert!(
            reason.contains("no other API server of its cluster is ready"),
            "{reason}"
        );
        assert_eq!(
            reason,
            "no other API server of its cluster is ready (EndpointSlices of service `kubernetes` in \
             namespace `default`): the node could not be brought back"
        );
    }
    assert_eq!(reason(&asked(&mut fixture, Action::Drain, &["n3"])), None);
    ready(&mut fixture, Fact::Known(2));
    assert_eq!(
        reason(&asked(&mut fixture, Action::Teardown, &["n1"])),
        None
    );
    // Two that do not come back are not taken together.
    let plan = asked(&mut fixture, Action::Teardown, &["n1", "n2"]);
    assert_eq!(plan.blocked().count(), 1);
    ready(&mut fixture, Fact::Unknown(Arc::from("403 Forbidden")));
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(
        plan.changes[0].blocked.as_ref().unwrap().cause,
        crate::plan::Cause::Unreadable
    );
    assert_eq!(reason(&asked(&mut fixture, Action::Drain, &["n3"])), None);
}

#[test]
fn a_right_that_is_missing_blocks_what_needs_it_and_nothing_else() {
    let mut fixture = clustered(&["n1"]);
    let right = |right: &str, steps: &[StepKind], forced| crate::observed::MissingRight {
        right: Arc::from(right),
        steps: steps.iter().map(|step| Arc::from(step.as_str())).collect(),
        forced,
    };
    fixture
        .observations
        .as_mut()
        .unwrap()
        .cluster
        .as_mut()
        .unwrap()
        .missing_rights = vec![
        right("create pods/eviction", &[StepKind::Drain], false),
        right("delete pods", &[StepKind::Drain], true),
    ];
    let reason = |plan: &Plan| {
        plan.changes[0]
            .blocked
            .as_ref()
            .map(|block| block.reason.to_string())
    };
    for action in [
        Action::Drain,
        Action::Decommission,
        Action::Teardown,
        Action::Redeploy,
    ] {
        let reason = reason(&asked(&mut fixture, action, &["n1"])).unwrap();
        assert!(
            reason.contains("`create pods/eviction` for drain"),
            "{reason}"
        );
        assert!(!reason.contains("`delete pods`"), "{reason}");
    }
    for action in [Action::ClearLabels, Action::ShutdownKubelet] {
        assert_eq!(
            reason(&asked(&mut fixture, action, &["n1"])),
            None,
            "{action}"
        );
    }
    fixture.options.leaving.on_drain_timeout = Some(crate::step::OnDrainTimeout::ForceDelete);
    let reason = reason(&asked(&mut fixture, Action::Drain, &["n1"])).unwrap();
    assert!(reason.contains("`delete pods` for drain"), "{reason}");
}

#[test]
fn a_machine_that_is_to_be_a_node_of_the_cluster_is_waited_for_when_it_is_first_deployed() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    for name in ["n1", "n2"] {
        fixture.bare(name);
    }
    fixture.designed("n2").labels = Arc::default();
    let cluster = fixture.observations.as_mut().unwrap().cluster.take();
    assert_eq!(
        work(&fixture.plan()),
        "prepare/all/n1 prepare/all/n2 deploy/all/n1 deploy/all/n2"
    );
    fixture.observations.as_mut().unwrap().cluster = cluster;
    // The second has no labels: it is not known that it is to be one.
    let plan = fixture.plan();
    assert_eq!(
        work(&plan),
        "prepare/all/n1 prepare/all/n2 deploy/all/n1 await-ready/all/n1 deploy/all/n2"
    );
    assert!(!step(&plan, "await-ready/all/n1").given().members_only());
    // What does not answer yet may be what is deployed.
    fixture.observations.as_mut().unwrap().cluster = None;
    fixture.seen("n1").cluster = Fact::Unknown(Arc::from("no route"));
    assert!(!work(&fixture.plan()).contains("await-ready"));
}

#[test]
fn an_available_machine_is_retired_by_way_of_manageable() {
    let mut fixture = PlanFixture::settled(&["n1"]);
    fixture.bare("n1");
    let plan = asked(&mut fixture, Action::Retire, &["n1"]);
    assert_eq!(work(&plan), "set-retired/n1");
    let reasons = &plan.changes[0].reasons;
    assert!(
        reasons.iter().any(|text| text.contains("manageable first")),
        "{reasons:?}"
    );
}

#[test]
fn a_provisioner_that_cleans_on_the_way_to_available_cleans_neither_retired_nor_failed_machines_unnamed()
 {
    for (state, retired) in [
        (ProvisionState::Manageable, true),
        (ProvisionState::CleanFailed, false),
    ] {
        let mut fixture = PlanFixture::settled(&["n1"]);
        let node = fixture.see("n1", state);
        node.cleans_itself = true;
        node.retired = retired.then(|| Arc::from("old"));
        let blocked = |plan: &Plan| plan.changes[0].blocked.clone();
        let plan = asked(&mut fixture, Action::Clean, &["n1"]);
        let reason = blocked(&plan).unwrap().reason;
        assert!(reason.contains("use `clean --step I.S`"), "{reason}");
        fixture.request.clean_steps = vec![CleanStep::new("deploy", "erase_devices")];
        assert_eq!(blocked(&fixture.plan()), None, "{state:?}");
    }
}

#[test]
fn a_protected_machine_is_taken_out_of_no_cluster() {
    for action in [
        Action::Decommission,
        Action::ShutdownKubelet,
        Action::RemoveEtcd,
        Action::RemoveFromCluster,
        Action::PowerOff,
        Action::Teardown,
    ] {
        let mut fixture = super::leaving::clustered(&["n1", "n2"]);
        fixture.guards.policy.protected = named(&["n1"]);
        fixture.request = Request {
            action,
            nodes: these(&["n1"]),
            ..Request::default()
        };
        if action == Action::RemoveEtcd {
            super::leaving::with_etcd(&mut fixture, &["n1", "n2"], &[]);
        }
        let plan = fixture.plan();
        let blocks: Vec<&str> = plan
            .changes
            .iter()
            .filter_map(|change| Some(&*change.blocked.as_ref()?.reason))
            .collect();
        assert!(plan.steps.is_empty(), "{action}: {}", work(&plan));
        // It is still in use, which is said first.
        if action != Action::RemoveFromCluster {
            assert_eq!(blocks, ["the policy protects it"], "{action}");
        }
    }
    // A drain is taken back, and a remediation brings back what has failed.
    for (action, step) in [
        (Action::Drain, "drain/n1"),
        (Action::Remediate, "remediate/n1"),
    ] {
        let mut fixture = super::leaving::clustered(&["n1", "n2"]);
        fixture.guards.policy.protected = named(&["n1"]);
        fixture.request = Request {
            action,
            nodes: these(&["n1"]),
            ..Request::default()
        };
        if let Fact::Known(Some(node)) = &mut fixture.seen("n1").cluster {
            node.ready = action != Action::Remediate;
        }
        let plan = fixture.plan();
        assert_eq!(plan.changes[0].blocked, None, "{action}");
        assert!(work(&plan).contains(step), "{action}: {}", work(&plan));
    }
}

#[test]
fn a_controller_of_two_nodes_gets_no_new_password() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    fixture.guards.backends.hardware = HardwareBackend {
        kind: BackendKind::Redfish,
        settings: None,
    };
    for (name, address) in [("n1", "fd00::7"), ("n2", "FD00:0::7"), ("n3", "fd00::8")] {
        fixture.designed(name).out_of_band.address = Some(Arc::from(address));
        fixture
            .seen(name)
            .capabilities
            .insert(Capability::RotatePassword);
    }
    let plan = asked(&mut fixture, Action::RotateBmcPassword, &["n1", "n2", "n3"]);
    assert_eq!(work(&plan), "rotate-bmc-password/n3");
    let reason = |at: usize| {
        plan.changes[at]
            .blocked
            .as_ref()
            .unwrap()
            .reason
            .to_string()
    };
    assert!(
        reason(0).starts_with("its controller is that of `n2`, too"),
        "{}",
        reason(0)
    );
    assert!(
        reason(1).starts_with("its controller is that of `n1`, too"),
        "{}",
        reason(1)
    );
}

#[test]
fn where_the_requests_for_remediation_cannot_be_read_nothing_is_said_to_need_it() {
    let mut fixture = clustered(&["n1", "n2"]);
    fixture.request.action = Action::Remediate;
    let observations = fixture.observations.as_mut().unwrap();
    let unseen = RemediationSeen {
        unseen: Some(Arc::from("403")),
        ..RemediationSeen::default()
    };
    observations
        .remediation
        .insert(NodeName::from("n1"), unseen);
    let error = fixture.try_plan().unwrap_err().to_string();
    assert_eq!(error, "the requests for remediation cannot be read: 403");
}

fn why_blocked(plan: &Plan) -> Option<&str> {
    let blocked = plan.changes[0].blocked.as_ref();
    blocked.map(|block| &*block.reason)
}

#[test]
fn a_machine_whose_node_takes_pods_is_not_destroyed_by_itself() {
    let mut fixture = clustered(&["n1", "n2"]);
    let why = "its node in the cluster still takes pods: decommission it first, or tear it down";
    let plan = asked(&mut fixture, Action::Destroy, &["n1"]);
    assert_eq!(why_blocked(&plan), Some(why));
    cluster_node(&mut fixture, "n1").unschedulable = true;
    assert_ne!(why_blocked(&fixture.plan()), Some(why));
}

#[test]
fn a_node_with_pods_that_a_drain_evicts_is_not_deleted() {
    let mut fixture = clustered(&["n1"]);
    let node = cluster_node(&mut fixture, "n1");
    node.unschedulable = true;
    node.labels = Default::default();
    let pods = NodePods {
        evicted: 2,
        ..NodePods::default()
    };
    let seen = fixture.observations.as_mut().unwrap();
    seen.pods.insert(NodeName::from("n1"), Arc::new(pods));
    let plan = asked(&mut fixture, Action::RemoveFromCluster, &["n1"]);
    assert_eq!(
        why_blocked(&plan),
        Some("it is not drained: pods that a drain evicts are left on it (2)")
    );
    fixture.observations.as_mut().unwrap().pods.clear();
    assert_eq!(work(&fixture.plan()), "remove-from-cluster/n1");
}

#[test]
fn a_machine_that_was_retired_by_hand_is_not_built_again() {
    let mut fixture = PlanFixture::settled(&["n1"]);
    let plan = asked(&mut fixture, Action::Redeploy, &["n1"]);
    assert_eq!(why_blocked(&plan), None);
    fixture.seen("n1").retired = Some(Arc::from("old fans"));
    let plan = fixture.plan();
    assert_eq!(why_blocked(&plan), Some("it is retired"));
    assert_eq!(work(&plan), "");
    // Nor is one whose retirement was taken out of the documents, before an update has taken it back.
    fixture.record("n1").retired = Some(Arc::from("eol"));
    let plan = fixture.plan();
    let why = "it is retired, by no document any more: the next update takes that back first";
    assert_eq!(why_blocked(&plan), Some(why));
    assert_eq!(work(&plan), "");
}

#[test]
fn a_machine_that_was_retired_by_hand_takes_no_place_of_its_group_when_the_run_begins_either() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    fixture.seen("n1").retired = Some(Arc::from("old fans"));
    fixture.record("n1").retired = Some(Arc::from("by hand: old fans"));
    let plan = asked(&mut fixture, Action::Teardown, &["n1", "n2"]);
    assert_eq!(needs(&plan, "drain/n1"), needs(&plan, "drain/n2"));
}

#[test]
fn a_machine_that_answers_is_erased_also_where_a_flag_calls_it_gone() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    fixture.options.leaving.gone = these(&["n1"]);
    fixture.seen("n1").power = Fact::Known(PowerState::Off);
    let plan = asked(&mut fixture, Action::Teardown, &["n1"]);
    assert_eq!(why_blocked(&plan), None);
    assert!(work(&plan).contains("destroy/n1"), "{}", work(&plan));
    assert_eq!(plan.changes[0].disks.join(" "), "sda");
}

#[test]
fn a_machine_that_nothing_would_switch_on_again_is_not_remediated() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    assert_eq!(
        why_blocked(&asked(&mut fixture, Action::Remediate, &["n1"])),
        None
    );
    fixture.seen("n1").power = Fact::Known(PowerState::Off);
    let plan = fixture.plan();
    let why = why_blocked(&plan).unwrap();
    assert!(
        why.starts_with("it is off, and not by a remediation"),
        "{why}"
    );
    assert_eq!(work(&plan), "");
}

#[test]
fn a_record_that_alone_knows_how_a_machine_was_left_is_not_dropped() {
    type Edit = fn(&mut PlanFixture);
    let table: [(Edit, &str); 5] = [
        (|_| {}, ""),
        (
            |site| site.seen("n1").power = Fact::Known(PowerState::Off),
            "it is off, and takes its place among the machines out of service by its record",
        ),
        (
            |site| cluster_node(site, "n1").ready = false,
            "it is not Ready, and takes its place among the machines out of service by its record",
        ),
        (
            |site| site.record("n1").soaking = Some("01R".into()),
            "only its record knows that the soak of its wave is owed, which the next `trueup apply` holds",
        ),
        (
            |site| {
                let record = site.record("n1");
                record.phase = crate::record::Phase::Failed;
                record.digests.clear();
            },
            "only its record knows that run ",
        ),
    ];
    for (edit, expected) in table {
        let mut fixture = clustered(&["n1", "n2", "n3"]);
        edit(&mut fixture);
        let plan = asked(&mut fixture, Action::Forget, &["n1"]);
        let why = why_blocked(&plan).unwrap_or_default();
        assert!(
            why.starts_with(expected) && why.is_empty() == expected.is_empty(),
            "{why}"
        );
        // What has left the design is forgotten whatever its record knows.
        fixture.after.nodes.remove("n1");
        let plan = asked(&mut fixture, Action::Forget, &["n1"]);
        assert_eq!(why_blocked(&plan), None, "{expected}");
    }
}

#[test]
fn a_machine_that_is_switched_on_is_seen_back_in_its_clusters() {
    let mut fixture = clustered(&["n1", "n2"]);
    fixture.record("n1").join = Some(crate::record::Join::Joined);
    fixture.seen("n1").power = Fact::Known(PowerState::Off);
    cluster_node(&mut fixture, "n1").ready = false;
    let plan = fixture.plan();
    assert_eq!(work(&plan), "power-on/all/n1 await-ready/all/n1");
    assert!(super::needs(&plan, "await-ready/all/n1").contains("power-on/all/n1"));
}

#[test]
fn a_remediation_that_failed_is_retried_only_where_its_node_is_named() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    let seen = RemediationSeen {
        needs_remediation: true,
        given_up: Some(Arc::from("it never came back")),
        ..RemediationSeen::default()
    };
    let observations = fixture.observations.as_mut().unwrap();
    observations.remediation.insert(NodeName::from("n1"), seen);
    let plan = asked(&mut fixture, Action::Remediate, &[]);
    assert_eq!(
        why_blocked(&plan),
        Some("its remediation failed before (it never came back): name the node to retry")
    );
    let plan = asked(&mut fixture, Action::Remediate, &["n1"]);
    assert_eq!(why_blocked(&plan), None);
}

#[test]
fn a_drift_that_no_plan_would_end_tells_who_works_on_the_machine() {
    let mut site = clustered(&["m", "n"]);
    cluster_node(&mut site, "n").ready = false;
    let own = |site: &PlanFixture| {
        let plan = site.plan();
        let mut changes = plan.changes.iter();
        changes
            .find(|change| change.node.as_str() == "n")
            .cloned()
            .unwrap()
    };
    let free = own(&site);
    assert!(free.shown_only, "{free:?}");
    site.reserve("n");
    let reserved = own(&site);
    assert_eq!(reserved.kind, free.kind);
    let tells = |change: &crate::plan::Change| {
        let mut reasons = change.reasons.iter();
        reasons.any(|why| why.starts_with("is reserved by Ada"))
    };
    assert!(!tells(&free) && tells(&reserved), "{reserved:?}");
}
