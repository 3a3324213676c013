//! What actions do to the nodes that are named for them.

use super::leaving::clustered;
use super::*;
use crate::plan::Action;

fn asked(world: &mut World, action: Action, nodes: &[&str]) -> Plan {
    world.request = Request {
        action,
        nodes: these(nodes),
        ..Request::default()
    };
    world.plan()
}

#[test]
fn a_flag_that_was_set_by_hand_is_not_taken_off_by_an_update() {
    let mut world = World::settled(&["n1", "n2"]);
    let reason = Some(Arc::from("old fans"));
    world.request = Request {
        action: Action::Retire,
        nodes: these(&["n1"]),
        reason,
        ..Request::default()
    };
    let plan = world.plan();
    assert_eq!(work(&plan), "set-retired/n1");
    let set = step(&plan, "set-retired/n1").parameters.clone().unwrap();
    assert_eq!(set.reason.as_deref(), Some("by hand: old fans"));
    world.record("n1").retired = set.reason.clone();
    world.seen("n1").retired = set.reason.clone();
    world.request = Request::default();
    assert_eq!(work(&world.plan()), "");
    assert_eq!(
        work(&asked(&mut world, Action::Unretire, &["n1"])),
        "unset-retired/n1"
    );
}

#[test]
fn machines_are_taken_out_of_service_in_waves_and_only_those_that_are_named() {
    let mut world = clustered(&["n1", "n2", "n3"]);
    world.options.max_unavailable = Some(1);
    let plan = asked(&mut world, Action::Drain, &["n1", "n2"]);
    assert_eq!(ids(&plan), ["wave/1", "drain/n1", "wave/2", "drain/n2"]);
    assert_eq!(needs(&plan, "wave/2"), "drain/n1?");
    world.options.canary = true;
    let plan = asked(&mut world, Action::Drain, &["n*"]);
    assert_eq!(needs(&plan, "wave/2"), "drain/n1");
}

#[test]
fn a_node_is_deleted_only_when_it_is_cordoned_and_has_no_labels() {
    let mut world = clustered(&["n1"]);
    let reason = |plan: &Plan| {
        let blocked = plan.changes[0].blocked.as_ref();
        blocked.map(|block| block.reason.to_string())
    };
    let plan = asked(&mut world, Action::RemoveFromCluster, &["n1"]);
    assert_eq!(
        reason(&plan).as_deref(),
        Some("it is not cordoned: drain it first")
    );
    if let Fact::Known(Some(node)) = &mut world.seen("n1").cluster {
        node.unschedulable = true;
    }
    let plan = world.plan();
    assert_eq!(reason(&plan).as_deref(), Some("it still has labels: role"));
    if let Fact::Known(Some(node)) = &mut world.seen("n1").cluster {
        node.labels = [(Arc::from("promenade-decomission"), Arc::from("enabled"))].into();
    }
    assert_eq!(work(&world.plan()), "remove-from-cluster/n1");
}

#[test]
fn a_node_that_no_group_selects_is_built_again_by_itself_behind_the_groups() {
    let mut world = World::settled(&["n1", "n2", "n3"]);
    world.after.groups = vec![group("all", &[], named(&["n1"]))];
    let plan = asked(&mut world, Action::Redeploy, &["n*"]);
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
