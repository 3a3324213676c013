//! The order of groups, gates, waves, and the end.

use super::*;
use crate::design::{Group, Share, SuccessCriteria};
use crate::guard::{WaveReason, WaveSize};
use crate::plan::graph;
use crate::step::StepKind;

#[test]
fn the_five_groups_of_the_specification_run_in_the_order_of_the_document_where_they_may() {
    let mut fixture = PlanFixture::settled(&["c1", "k1", "k2", "m1", "ntp01"]);
    for name in ["c1", "k1", "k2", "m1", "ntp01"] {
        fixture.bare(name);
    }
    fixture.guards.groups = vec![
        group("control-nodes", &["ntp-node"], named(&["c1"])),
        group("compute-nodes-1", &["control-nodes"], named(&["k1"])),
        group("compute-nodes-2", &["control-nodes"], named(&["k2"])),
        group("monitoring-nodes", &[], named(&["m1", "k2"])),
        group("ntp-node", &[], named(&["ntp01"])),
    ];
    let plan = fixture.plan();
    let order: Vec<_> = plan
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(
        order,
        [
            "monitoring-nodes",
            "ntp-node",
            "control-nodes",
            "compute-nodes-1",
            "compute-nodes-2"
        ]
    );
    let table = [
        ("prepare-site", "verify-site"),
        ("start/monitoring-nodes", "prepare-site"),
        (
            "start/ntp-node",
            "prepare-site gate-deployed/monitoring-nodes?",
        ),
        ("start/control-nodes", "prepare-site gate-deployed/ntp-node"),
        (
            "start/compute-nodes-2",
            "prepare-site gate-deployed/control-nodes gate-deployed/compute-nodes-1?",
        ),
        ("prepare/compute-nodes-1/k1", "start/compute-nodes-1"),
        (
            "gate-prepared/compute-nodes-1",
            "start/compute-nodes-1 prepare/compute-nodes-1/k1?",
        ),
        (
            "deploy/compute-nodes-1/k1",
            "prepare/compute-nodes-1/k1 gate-prepared/compute-nodes-1",
        ),
        (
            "gate-deployed/compute-nodes-1",
            "start/compute-nodes-1 gate-prepared/compute-nodes-1? deploy/compute-nodes-1/k1?",
        ),
        ("tag", "critical-check?"),
    ];
    for (id, expected) in table {
        assert_eq!(needs(&plan, id), expected, "{id}");
    }
    assert!(!step(&plan, "prepare/monitoring-nodes/k2").standby);
    assert!(step(&plan, "prepare/compute-nodes-2/k2").standby);
    assert!(step(&plan, "deploy/compute-nodes-2/k2").standby);
    fixture.options.parallel_groups = 2;
    let plan = fixture.plan();
    assert_eq!(needs(&plan, "start/ntp-node"), "prepare-site");
    assert_eq!(
        needs(&plan, "start/compute-nodes-2"),
        "prepare-site gate-deployed/control-nodes"
    );
}

#[test]
fn redeploys_run_in_waves_and_creates_belong_to_the_first() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3", "new"]);
    fixture.bare("new");
    for name in ["n1", "n2", "n3"] {
        fixture.edit(name, Section::Storage);
    }
    fixture.options.allow_redeploy = all();
    fixture.options.max_unavailable = Some(Share::Machines(2));
    let plan = fixture.plan();
    let table = [
        ("wave/all/1", "start/all"),
        ("destroy/all/n1", "wave/all/1"),
        ("prepare/all/n1", "destroy/all/n1"),
        ("prepare/all/new", "start/all"),
        (
            "gate-prepared/all/1",
            "start/all prepare/all/n1? prepare/all/n2? prepare/all/new?",
        ),
        ("deploy/all/n1", "prepare/all/n1 gate-prepared/all/1"),
        ("wave/all/2", "start/all deploy/all/n1? deploy/all/n2?"),
        ("gate-prepared/all/2", "wave/all/2 prepare/all/n3?"),
        (
            "gate-deployed/all",
            "start/all gate-prepared/all/1? deploy/all/n1? deploy/all/n2? deploy/all/new? \
             gate-prepared/all/2? deploy/all/n3?",
        ),
    ];
    for (id, expected) in table {
        assert_eq!(needs(&plan, id), expected, "{id}");
    }
    fixture.options.max_unavailable = Some(Share::Machines(3));
    let plan = fixture.plan();
    assert_eq!(
        needs(&plan, "deploy/all/n3"),
        "prepare/all/n3 gate-prepared/all"
    );
    fixture.options.canary = true;
    let plan = fixture.plan();
    // What the first, alone, does not survive is not done to the others.
    assert_eq!(needs(&plan, "wave/all/2"), "start/all deploy/all/n1");
    assert_eq!(needs(&plan, "destroy/all/n3"), "wave/all/2");
    // And no later wave goes round it.
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    for name in ["n1", "n2", "n3"] {
        fixture.edit(name, Section::OperatingSystem);
    }
    fixture.options.allow_redeploy = all();
    fixture.options.canary = true;
    fixture.options.max_unavailable = Some(Share::Machines(1));
    let plan = fixture.plan();
    for wave in ["wave/all/2", "wave/all/3"] {
        assert!(needs(&plan, wave).contains("deploy/all/n1"), "{wave}");
    }
}

#[test]
fn waves_of_groups_that_run_side_by_side_do_not_meet() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.guards.groups = vec![
        group("a", &[], named(&["n1"])),
        group("b", &[], named(&["n2"])),
    ];
    for name in ["n1", "n2"] {
        fixture.edit(name, Section::Storage);
    }
    fixture.options.allow_redeploy = all();
    fixture.options.parallel_groups = 2;
    assert_eq!(
        needs(&fixture.plan(), "wave/b/1"),
        "gate-deployed/a? start/b"
    );
}

#[test]
fn a_machine_that_left_goes_at_the_end_or_before_the_group_that_takes_its_address() {
    let mut fixture = PlanFixture::settled(&["gone", "n1", "n2"]);
    fixture.leave("gone");
    fixture.bare("n1");
    fixture.guards.groups = vec![
        group("a", &[], named(&["n1"])),
        group("b", &[], named(&["n2"])),
    ];
    fixture.options.allow_destroy = all();
    assert_eq!(needs(&fixture.plan(), "destroy/gone"), "critical-check");
    let address = |node: &mut NodeDesign, address: &str| {
        node.out_of_band.address = Some(Arc::from(address));
    };
    address(
        Arc::make_mut(fixture.old.nodes.get_mut("gone").unwrap()),
        "10.0.0.7",
    );
    address(fixture.designed("n2"), "10.0.0.7");
    let plan = fixture.plan();
    assert_eq!(needs(&plan, "destroy/gone"), "prepare-site");
    assert_eq!(needs(&plan, "start/a"), "prepare-site");
    assert_eq!(
        needs(&plan, "start/b"),
        "prepare-site destroy/gone? gate-deployed/a?"
    );
}

#[test]
fn a_group_without_work_still_has_its_gates_and_a_site_as_designed_has_no_steps() {
    let mut fixture = PlanFixture::settled(&["n"]);
    assert!(fixture.plan().is_empty());
    fixture.site_digest = Arc::from("another comment");
    assert_eq!(
        ids(&fixture.plan()),
        [
            "verify-site",
            "prepare-site",
            "start/all",
            "gate-prepared/all",
            "gate-deployed/all",
            "critical-check",
            "tag"
        ]
    );
}

#[test]
fn a_refused_prepare_says_why_and_does_nothing() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.bare("n");
    fixture.seen("n").provision = Fact::Unknown(Arc::from("the controller is dead"));
    let plan = fixture.plan();
    let step = step(&plan, "prepare/all/n");
    let refused = step.given().refused();
    assert_eq!(
        refused.as_deref(),
        Some("it could not be observed: the controller is dead")
    );
    assert_eq!(step.effect, crate::step::Effect::None);
    assert!(plan.relies_on.is_empty());
    let warning = plan.warnings.iter().map(|each| &**each);
    let warning: Vec<&str> = warning
        .filter(|each| each.contains("to be built"))
        .collect();
    assert!(warning[0].ends_with("builds them: n"), "{warning:?}");
}

#[test]
fn what_could_not_be_observed_is_told_once_for_each_reason() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    for (node, why) in [("n1", "refused"), ("n2", "timed out"), ("n3", "refused")] {
        fixture.seen(node).provision = Fact::Unknown(Arc::from(why));
    }
    let said = "could not be observed, and are planned on their records";
    assert_eq!(
        fixture.plan().warnings,
        [
            Arc::from(format!("{said} (refused): n1, n3")),
            Arc::from(format!("{said} (timed out): n2")),
        ]
    );
}

#[test]
fn groups_that_cannot_be_ordered_are_errors_that_show_the_circle_whole() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.guards.groups = vec![
        group("a", &["b"], Vec::new()),
        group("b", &["c"], Vec::new()),
        group("c", &["b"], Vec::new()),
    ];
    let error = fixture.try_plan().unwrap_err().to_string();
    assert_eq!(
        error,
        "deployment groups depend on each other in a circle: b → c → b"
    );
    fixture.guards.groups = vec![group("a", &["b"], Vec::new())];
    let error = fixture.try_plan().unwrap_err().to_string();
    assert_eq!(
        error,
        "deployment group `a` depends on group `b`, which was not found in the deployment strategy"
    );
    fixture.guards.groups = vec![group("a", &[], Vec::new()), group("a", &[], Vec::new())];
    let error = fixture.try_plan().unwrap_err().to_string();
    assert_eq!(error, "there is more than one deployment group `a`");
}

#[test]
fn the_graph_is_that_of_the_steps_and_the_longest_path_is_their_timeouts() {
    let mut fixture = PlanFixture::settled(&["n1", "n2"]);
    fixture.bare("n1");
    fixture.bare("n2");
    let plan = fixture.plan();
    let graph = graph(&plan);
    assert!(!petgraph::algo::is_cyclic_directed(&graph));
    let edges: usize = plan.steps.iter().map(|step| step.needs.len()).sum();
    assert_eq!(
        (graph.node_count(), graph.edge_count()),
        (plan.steps.len(), edges)
    );
    assert_eq!(plan.summary.longest_path, 60 + 300 + 1800 + 3600);
}

/// A group of so many nodes, all of which are redeployed.
fn redeployed(
    nodes: usize,
    success_criteria: SuccessCriteria,
    flag: Option<Share>,
    policy: Option<Share>,
) -> PlanFixture {
    let names: Vec<String> = (0..nodes).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fixture = PlanFixture::settled(&names);
    fixture.guards.groups = vec![Group {
        success_criteria,
        ..group("all", &[], named(&names))
    }];
    for name in &names {
        fixture.edit(name, Section::Storage);
    }
    fixture.options.allow_redeploy = all();
    fixture.options.max_unavailable = flag;
    let limits = &mut fixture.guards.policy.max_unavailable;
    limits.total = policy.and_then(Share::as_number);
    limits.percent = policy.and_then(Share::as_percent);
    fixture
}

/// The machines of each wave of a plan.
fn waves_of(plan: &Plan) -> Vec<String> {
    let waves = crate::plan::waves_of_steps(&plan.steps);
    let mut found: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (step, wave) in plan.steps.iter().zip(waves) {
        if let Some(wave) = wave.filter(|_| step.id.kind == StepKind::Destroy) {
            let node = step.id.node.as_ref().unwrap();
            found.entry(wave).or_default().push(node.as_str());
        }
    }
    found.into_values().map(|nodes| nodes.join(" ")).collect()
}

#[test]
fn machines_of_a_failure_domain_go_together_and_no_two_domains_at_once() {
    let with = |domains: &[&str], flag: Option<Share>, canary: bool| {
        let none = SuccessCriteria::default();
        let mut fixture = redeployed(8, none, flag, None);
        for number in 0..8 {
            let node = fixture.designed(&format!("n{number:02}"));
            node.rack = Some(Arc::from(["r1", "r2"][number % 2]));
            let feed = ["a", "b"][usize::from(number >= 4)];
            Arc::make_mut(&mut node.labels).insert("feed".into(), feed.into());
        }
        let domains = domains.iter().map(|domain| domain.parse().unwrap());
        fixture.guards.policy.failure_domains.by = domains.collect();
        fixture.options.canary = canary;
        let plan = fixture.plan();
        (waves_of(&plan).join(" | "), plan, fixture)
    };
    let flag = Some(Share::Machines(3));
    let table = [
        (
            &["rack"][..],
            None,
            false,
            "n00 n02 n04 n06 | n01 n03 n05 n07",
        ),
        (&["rack"], None, true, "n00 | n02 n04 n06 | n01 n03 n05 n07"),
        // A number that was given holds beside them.
        (
            &["rack"],
            flag,
            false,
            "n00 n02 n04 | n06 | n01 n03 n05 | n07",
        ),
        (
            &["rack", "label:feed"],
            None,
            false,
            "n00 n02 | n01 n03 | n04 n06 | n05 n07",
        ),
        // A machine without the label is in a domain of its own.
        (
            &["label:row"],
            None,
            false,
            "n00 | n01 | n02 | n03 | n04 | n05 | n06 | n07",
        ),
    ];
    for (domains, flag, canary, expected) in table {
        let (waves, ..) = with(domains, flag, canary);
        assert_eq!(waves, expected, "{domains:?}");
    }
    let (_, plan, fixture) = with(&["rack"], None, false);
    let reason = WaveReason::FailureDomain;
    assert_eq!(plan.summary.waves, Some(WaveSize { most: 4, reason }));
    // The second rack before the first one is back: the checker alone finds it.
    let mut forged = plan;
    let waves: Vec<usize> = (0..forged.steps.len())
        .filter(|index| forged.steps[*index].id.kind == StepKind::StartWave)
        .collect();
    let first = forged.steps[waves[0]].needs.clone();
    forged.steps[waves[1]].needs = first;
    let found = fixture.checked(&forged).join(" ");
    assert!(found.contains("check-failure-domains"), "{found}");
}

#[test]
fn a_group_in_one_failure_domain_never_goes_as_a_whole() {
    let mut fixture = redeployed(8, SuccessCriteria::default(), None, None);
    for number in 0..8 {
        fixture.designed(&format!("n{number:02}")).rack = Some(Arc::from("r1"));
    }
    fixture.guards.policy.failure_domains.by = ["rack".parse().unwrap()].into();
    let reason = WaveReason::Quarter;
    assert_eq!(
        fixture.plan().summary.waves,
        Some(WaveSize { most: 2, reason })
    );
}

#[test]
fn a_plan_that_no_machine_can_make_succeed_says_so() {
    let wanted = |minimum| SuccessCriteria {
        minimum_successful_nodes: Some(minimum),
        ..SuccessCriteria::default()
    };
    let warnings = |minimum, critical| {
        let mut fixture = redeployed(2, wanted(minimum), None, None);
        fixture.guards.groups[0].critical = critical;
        fixture.plan().warnings
    };
    let told = |minimum, critical| {
        let warnings = warnings(minimum, critical);
        let mut about = warnings
            .iter()
            .filter(|each| each.contains("whatever its machines do"));
        about.next().map(ToString::to_string)
    };
    assert_eq!(
        told(3, true).as_deref(),
        Some(
            "a run of this plan fails whatever its machines do: critical group `all` ends, at best, with \
             2 of 2 nodes succeeded, at least 3 wanted"
        )
    );
    assert_eq!((told(3, false), told(2, true)), (None, None));
}

#[test]
fn what_a_target_leaves_out_is_missed_by_the_criteria_and_told() {
    let mut fixture = PlanFixture::settled(&["n1", "n2", "n3"]);
    for name in ["n1", "n2", "n3"] {
        fixture.bare(name);
    }
    let criteria = SuccessCriteria {
        minimum_successful_nodes: Some(2),
        ..SuccessCriteria::default()
    };
    fixture.guards.groups = vec![Group {
        success_criteria: criteria,
        critical: true,
        ..group("all", &[], named(&["n1", "n2", "n3"]))
    }];
    let hopeless = |fixture: &PlanFixture| {
        let plan = fixture.plan();
        let warnings = plan.warnings.iter();
        let mut found = warnings.filter(|each| each.contains("whatever its machines do"));
        found.next().map(ToString::to_string)
    };
    assert_eq!(hopeless(&fixture), None);
    fixture.options.targets = these(&["n1"]);
    assert_eq!(
        hopeless(&fixture).as_deref(),
        Some(
            "a run of this plan fails whatever its machines do: critical group `all` ends, at best, with \
             1 of 3 nodes succeeded, at least 2 wanted; what the plan leaves out counts as not deployed"
        )
    );
    fixture.options.targets = these(&["n1", "n2"]);
    assert_eq!(hopeless(&fixture), None);
}

#[test]
fn waves_are_never_a_whole_group_unless_asked() {
    let criteria = |percent, minimum, maximum| SuccessCriteria {
        percent_successful_nodes: percent,
        minimum_successful_nodes: minimum,
        maximum_failed_nodes: maximum,
    };
    let none = || criteria(None, None, None);
    // Nodes, criteria, flag, policy; the widest wave, why no wider, and how many waves.
    let table: [(usize, _, Option<&str>, Option<&str>, _, _, _); 15] = [
        (3, none(), None, None, 1, WaveReason::Quarter, 3),
        (5, none(), None, None, 2, WaveReason::Quarter, 3),
        (36, none(), None, None, 9, WaveReason::Quarter, 4),
        (44, none(), None, None, 10, WaveReason::Ten, 5),
        (
            12,
            criteria(Some(90), None, None),
            None,
            None,
            1,
            WaveReason::Criteria,
            12,
        ),
        (
            12,
            criteria(Some(100), None, None),
            None,
            None,
            1,
            WaveReason::Criteria,
            12,
        ),
        (
            12,
            criteria(None, Some(10), None),
            None,
            None,
            2,
            WaveReason::Criteria,
            6,
        ),
        (
            12,
            criteria(None, None, Some(2)),
            None,
            None,
            2,
            WaveReason::Criteria,
            6,
        ),
        (
            12,
            criteria(Some(50), None, None),
            None,
            None,
            3,
            WaveReason::Quarter,
            4,
        ),
        (
            12,
            criteria(Some(100), None, None),
            Some("6"),
            None,
            6,
            WaveReason::Flag,
            2,
        ),
        (12, none(), Some("50%"), None, 6, WaveReason::Flag, 2),
        (3, none(), Some("20%"), None, 1, WaveReason::Flag, 3),
        (12, none(), None, Some("4"), 4, WaveReason::Policy, 3),
        (12, none(), None, Some("33%"), 3, WaveReason::Policy, 4),
        (12, none(), Some("12"), Some("1"), 12, WaveReason::Flag, 1),
    ];
    for (nodes, criteria, flag, policy, most, reason, waves) in table {
        let what = format!("{nodes} nodes, {criteria:?}, {flag:?}, {policy:?}");
        let share = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let plan = redeployed(nodes, criteria, share(flag), share(policy)).plan();
        assert_eq!(
            plan.groups[0].waves,
            Some(WaveSize { most, reason }),
            "{what}"
        );
        assert_eq!(plan.summary.waves, plan.groups[0].waves, "{what}");
        let begun = plan.steps.iter();
        let begun = begun.filter(|step| step.id.kind == StepKind::StartWave);
        assert_eq!(begun.count(), waves, "{what}");
        // A plan that tells of smaller waves than it has is not one of ours.
        let mut lying = plan;
        if most > 1 {
            lying.summary.waves = Some(WaveSize { most: 1, reason });
            let found = crate::check::plan(&lying, &crate::check::Inputs::default());
            assert!(!found.is_empty(), "{what}");
        }
    }
}
