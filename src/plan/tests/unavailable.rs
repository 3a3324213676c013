//! Which machines take places of the limits on machines out of service.

use super::asked::asked;
use super::leaving::{blocked, clustered, redeploy};
use super::*;
use crate::design::Share;
use crate::lifecycle::PowerState;
use crate::plan::Action;

fn at_most(fixture: &mut PlanFixture, machines: usize) {
    fixture.options.max_unavailable = Some(Share::Machines(machines));
}

/// A run began to build a machine, and did not build it to the end.
fn half_done(fixture: &mut PlanFixture, name: &str) {
    let record = fixture.record(name);
    record.phase = Phase::Failed;
    record.digests.clear();
    fixture.see(name, ProvisionState::Available);
    fixture.seen(name).cluster = Fact::Known(None);
}

fn ready(fixture: &mut PlanFixture, name: &str, is_ready: bool) {
    if let Fact::Known(Some(node)) = &mut fixture.seen(name).cluster {
        node.ready = is_ready;
    }
}

/// The limits that the run holds.
fn held(plan: &Plan) -> String {
    let names = |nodes: &[NodeName]| {
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        names.join(",")
    };
    let limits = plan.guards.places.iter().map(|limit| {
        let (nodes, down) = (names(&limit.nodes), names(&limit.down));
        format!(
            "{} {}/{}: {nodes} ({down})",
            limit.of, limit.places, limit.most
        )
    });
    limits.collect::<Vec<_>>().join("; ")
}

#[test]
fn machines_that_are_down_take_places() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    redeploy(&mut fixture, &["n1", "n2"]);
    ready(&mut fixture, "n3", false);
    let reason = "at most 1 machine may be unavailable, and n3 is not Ready [--max-unavailable 2]";
    assert_eq!(
        blocked(&fixture.plan()),
        [format!("n1: {reason}"), format!("n2: {reason}")]
    );
    // A member that is down itself is repaired by its redeploy, and goes first.
    redeploy(&mut fixture, &["n3"]);
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(needs(&plan, "drain/all/n3"), "wave/all/1");
}

#[test]
fn machines_that_a_command_leaves_down_take_places_together() {
    for action in [Action::Drain, Action::PowerOff, Action::ShutdownKubelet] {
        let mut fixture = clustered(&["n1", "n2", "n3"]);
        at_most(&mut fixture, 1);
        let plan = asked(&mut fixture, action, &["n*"]);
        let reason = "at most 1 machine may be unavailable, and n1 is going down before it [--max-unavailable 3]";
        assert_eq!(
            blocked(&plan),
            [format!("n2: {reason}"), format!("n3: {reason}")],
            "{action}"
        );
        at_most(&mut fixture, 3);
        let plan = asked(&mut fixture, action, &["n*"]);
        assert_eq!(blocked(&plan), [""; 0], "{action}");
        assert_eq!(held(&plan), "", "{action}");
        // What is down already has its place.
        ready(&mut fixture, "n1", false);
        at_most(&mut fixture, 2);
        let plan = asked(&mut fixture, action, &["n1", "n2"]);
        assert_eq!(blocked(&plan), [""; 0], "{action}");
        // What was never deployed is not missed.
        for name in ["n2", "n3"] {
            fixture.bare(name);
        }
        if action == Action::PowerOff {
            at_most(&mut fixture, 1);
            ready(&mut fixture, "n1", true);
            let plan = asked(&mut fixture, action, &["n*"]);
            assert_eq!(blocked(&plan), [""; 0]);
        }
    }
}

#[test]
fn machines_that_are_taken_out_one_after_the_other_go_in_waves() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    let plan = asked(&mut fixture, Action::Teardown, &["n1", "n2"]);
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(needs(&plan, "drain/n1"), "wave/1");
    assert_eq!(needs(&plan, "drain/n2"), "wave/2");
    assert_eq!(held(&plan), "of the site 1/1: n1,n2 ()");
    at_most(&mut fixture, 3);
    fixture.options.canary = true;
    let plan = asked(&mut fixture, Action::Drain, &["n*"]);
    assert_eq!(
        ids(&plan),
        ["wave/1", "drain/n1", "wave/2", "drain/n2", "drain/n3"]
    );
    assert_eq!(needs(&plan, "wave/2"), "drain/n1");
}

#[test]
fn a_machine_that_was_left_half_done_takes_a_place_until_it_is_built() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.options.allow_redeploy = all();
    half_done(&mut fixture, "n3");
    let plan = asked(&mut fixture, Action::Redeploy, &["n1"]);
    let reason = "at most 1 machine may be unavailable, and n3 is left half-done";
    assert_eq!(
        blocked(&plan),
        [format!("n1: {reason} [--max-unavailable 2]")]
    );
    // An update builds it before the others have their turn.
    fixture.request = Request::default();
    fixture.edit("n1", Section::OperatingSystem);
    fixture.edit("n2", Section::OperatingSystem);
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert!(needs(&plan, "wave/all/1").contains("await-ready/all/n3?"));
    assert_eq!(held(&plan), "of the site 1/1: n1,n2,n3 (n3)");
    // So long as it is excluded it keeps its place.
    fixture.options.excludes = these(&["n3"]);
    assert_eq!(blocked(&fixture.plan()).len(), 2);
}

#[test]
fn the_gate_of_a_wave_waits_for_what_was_sent_before_it() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3", "n4"]);
    at_most(&mut fixture, 1);
    fixture.options.allow_redeploy = all();
    half_done(&mut fixture, "n3");
    fixture.bare("n4");
    fixture.edit("n1", Section::OperatingSystem);
    let plan = fixture.plan();
    // A deploy that another group has done ends before its own gate, and so the wave may begin before that.
    assert_eq!(needs(&plan, "wave/all/1"), "start/all deploy/all/n3?");
    assert_eq!(
        needs(&plan, "gate-prepared/all/1"),
        "gate-prepared/all? wave/all/1 prepare/all/n1?"
    );
}

#[test]
fn what_a_later_group_builds_takes_its_place_in_the_groups_before() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.options.allow_redeploy = all();
    half_done(&mut fixture, "n3");
    fixture.edit("n1", Section::OperatingSystem);
    fixture.guards.groups = vec![
        group("first", &[], named(&["n1", "n2"])),
        group("second", &["first"], named(&["n3"])),
    ];
    assert_eq!(
        blocked(&fixture.plan()),
        [
            "n1: at most 1 machine may be unavailable, and n3 is left half-done [--max-unavailable 2]"
        ]
    );
    at_most(&mut fixture, 2);
    fixture.edit("n2", Section::OperatingSystem);
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(needs(&plan, "drain/first/n2"), "wave/first/2");
    fixture.guards.groups = vec![
        group("second", &[], named(&["n3"])),
        group("first", &[], named(&["n1", "n2"])),
    ];
    at_most(&mut fixture, 1);
    fixture.options.parallel_groups = 2;
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert!(needs(&plan, "wave/first/1").contains("gate-deployed/second?"));
}

#[test]
fn what_is_down_goes_first_where_it_is_taken_away_and_what_is_retired_is_not_missed() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    ready(&mut fixture, "n2", false);
    let plan = asked(&mut fixture, Action::Teardown, &["n*"]);
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(needs(&plan, "drain/n2"), "wave/1");
    assert_eq!(needs(&plan, "drain/n1"), "wave/2");
    assert_eq!(held(&plan), "of the site 1/1: n1,n2,n3 (n2)");
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(blocked(&plan).len(), 1);
    fixture.record("n2").retired = Some(Arc::from("by hand: old"));
    fixture.seen("n2").retired = Some(Arc::from("by hand: old"));
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(blocked(&plan), [""; 0]);
}

#[test]
fn a_machine_that_failed_and_is_off_takes_a_place_whatever_its_backend_calls_it() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.record("n2").phase = Phase::Failed;
    fixture.see("n2", ProvisionState::Error).power = Fact::Known(PowerState::Off);
    let plan = asked(&mut fixture, Action::Teardown, &["n1"]);
    let reason = "at most 1 machine may be unavailable, and n2 is off [--max-unavailable 2]";
    assert_eq!(blocked(&plan), [format!("n1: {reason}")]);
}

#[test]
fn a_machine_that_has_not_joined_its_cluster_takes_a_place() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.record("n2").join = Some(crate::record::Join::Awaited { since: 0 });
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(blocked(&plan), [""; 0]);
    fixture.seen("n2").cluster = Fact::Known(None);
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    let reason = "at most 1 machine may be unavailable, and n2 is not back in its cluster";
    assert_eq!(
        blocked(&plan),
        [format!("n1: {reason} [--max-unavailable 2]")]
    );
}

#[test]
fn a_machine_that_was_torn_down_takes_a_place_until_it_is_built() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.options.allow_redeploy = all();
    let record = fixture.record("n3");
    record.phase = Phase::NotStarted;
    record.digests.clear();
    fixture.see("n3", ProvisionState::Available);
    fixture.seen("n3").cluster = Fact::Known(None);
    // One that never had a system is not missed.
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(blocked(&plan), [""; 0]);
    fixture.record("n3").torn_down = Some(RunId::from("run-0"));
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    let reason = "at most 1 machine may be unavailable, and n3 is torn down";
    assert_eq!(
        blocked(&plan),
        [format!("n1: {reason} [--max-unavailable 2]")]
    );
    // What is torn down on purpose is not held against what was, whether that came to its end or not.
    for phase in [Phase::NotStarted, Phase::Failed] {
        fixture.record("n3").phase = phase;
        let plan = asked(&mut fixture, Action::Teardown, &["n1"]);
        assert_eq!(blocked(&plan), [""; 0]);
        assert_eq!(fixture.checked(&plan), [""; 0]);
    }
    fixture.record("n3").phase = Phase::NotStarted;
    // An update builds it before the others have their turn.
    fixture.request = Request::default();
    redeploy(&mut fixture, &["n1", "n2"]);
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert!(needs(&plan, "wave/all/1").contains("await-ready/all/n3?"));
    assert_eq!(held(&plan), "of the site 1/1: n1,n2,n3 (n3)");
}

#[test]
fn a_machine_whose_node_has_left_its_cluster_takes_a_place() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    fixture.seen("n2").cluster = Fact::Known(None);
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    assert_eq!(blocked(&plan), [""; 0]);
    fixture.record("n2").join = Some(crate::record::Join::Joined);
    let plan = asked(&mut fixture, Action::Drain, &["n1"]);
    let reason = "at most 1 machine may be unavailable, and n2 is not in its cluster";
    assert_eq!(
        blocked(&plan),
        [format!("n1: {reason} [--max-unavailable 2]")]
    );
}

#[test]
fn a_plan_of_a_run_that_is_resumed_leaves_what_the_run_has_taken_out_to_the_run() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    redeploy(&mut fixture, &["n1", "n2"]);
    half_done(&mut fixture, "n3");
    // As long as its deploy may still be at work, it is not begun again.
    fixture.see("n3", ProvisionState::Deploying);
    assert_eq!(blocked(&fixture.plan()).len(), 3);
    fixture.resumes = [NodeName::from("n3")].into();
    let plan = fixture.plan();
    let others = blocked(&plan);
    assert!(
        others.iter().all(|line| line.starts_with("n3: ")),
        "{others:?}"
    );
    fixture.resumes = [NodeName::from("n1")].into();
    assert_eq!(blocked(&fixture.plan()).len(), 3);
}

#[test]
fn a_default_for_a_group_lets_one_go_beside_those_that_are_down() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    fixture.options.allow_redeploy = all();
    fixture.seen("n1").power = Fact::Known(PowerState::Off);
    half_done(&mut fixture, "n2");
    redeploy(&mut fixture, &["n3", "n4"]);
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(held(&plan), "");
    assert_eq!(needs(&plan, "drain/all/n4"), "wave/all/2");
}

#[test]
fn a_plan_whose_run_would_hold_a_limit_less_is_refused() {
    let mut fixture = clustered(&["n1", "n2", "n3"]);
    at_most(&mut fixture, 1);
    redeploy(&mut fixture, &["n1", "n2"]);
    let plan = fixture.plan();
    assert_eq!(held(&plan), "of the site 1/1: n1,n2 ()");
    type Alters = fn(&mut Plan);
    let altered: [Alters; 4] = [
        |plan| plan.guards.places.clear(),
        |plan| plan.guards.places[0].places = 2,
        |plan| plan.guards.places[0].is_given = false,
        |plan| plan.guards.places[0].nodes.truncate(1),
    ];
    for alters in altered {
        let mut plan = plan.clone();
        alters(&mut plan);
        let found = fixture.checked(&plan).join("; ");
        assert!(
            found.contains("a machine of the site that does not come back keeps no place"),
            "{found}"
        );
    }
}

#[test]
fn what_is_down_already_takes_no_other_place_however_many_are() {
    for action in [Action::Decommission, Action::Drain, Action::PowerOff] {
        let mut fixture = clustered(&["n1", "n2", "n3"]);
        at_most(&mut fixture, 1);
        ready(&mut fixture, "n1", false);
        ready(&mut fixture, "n2", false);
        let plan = asked(&mut fixture, action, &["n2"]);
        assert_eq!(blocked(&plan), [""; 0], "{action}");
        let plan = asked(&mut fixture, action, &["n2", "n3"]);
        assert_eq!(blocked(&plan).len(), 1, "{action}");
    }
}

#[test]
fn one_goes_beside_what_a_later_group_builds_where_no_document_gives_the_number() {
    let mut fixture = clustered(&["n1", "n2", "n3", "n4"]);
    fixture.options.allow_redeploy = all();
    half_done(&mut fixture, "n4");
    for name in ["n1", "n2"] {
        fixture.edit(name, Section::OperatingSystem);
    }
    fixture.guards.groups = vec![
        group("first", &[], named(&["n1", "n2"])),
        group("every", &["first"], Vec::new()),
    ];
    let plan = fixture.plan();
    assert_eq!(blocked(&plan), [""; 0]);
    assert_eq!(needs(&plan, "drain/first/n2"), "wave/first/2");
}
