//! The table of changes, kind by kind.

use super::*;
use crate::design::{Guards, Retirement, SectionDigest, WipePolicy, fixture};
use crate::observed::{Capability, PartDrift};
use crate::plan::Standing;
use crate::record::Join;

/// One edit of a fixture of the settled node `n`.
type Edit = fn(&mut PlanFixture);

fn unseen(fixture: &mut PlanFixture) {
    fixture.seen("n").provision = Fact::Unknown(Arc::from("the controller is dead"));
}

/// The machine is moved by its controller alone, which knows nothing but whether it is on.
fn plain(fixture: &mut PlanFixture, power: PowerState) {
    let node = fixture.seen("n");
    node.provision = Fact::Unknown(Arc::from("kept by records"));
    node.power = Fact::Known(power);
    node.kept_by_records = true;
}

fn failed(fixture: &mut PlanFixture) {
    let record = fixture.record("n");
    record.phase = Phase::Failed;
    record.digests.clear();
    record.last_error = Some(Arc::from("no boot"));
}

fn prepared(fixture: &mut PlanFixture) {
    fixture.record("n").phase = Phase::Prepared;
    fixture.see("n", ProvisionState::Available);
}

fn larger_disk() -> Arc<[PartDrift]> {
    Arc::from([PartDrift {
        section: Section::Storage,
        field: Arc::from("size of the file system `/var`"),
        observed: Arc::from("10 GiB"),
        designed: Arc::from("20 GiB"),
    }])
}

/// Nodes that share their labels are compared once; what is otherwise on one is found all the same.
#[test]
fn of_many_nodes_that_are_alike_those_that_lost_a_label_are_found() {
    let names: Vec<String> = (10..50).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fixture = PlanFixture::settled(&names);
    let labels = node("n").labels;
    for name in &names {
        fixture.designed(name).labels = labels.clone();
        fixture.seen(name).cluster = in_cluster("old");
    }
    for name in ["n11", "n37"] {
        fixture.seen(name).cluster = in_cluster("other");
    }
    let more = [("role", "old"), ("rack", "r1")];
    let more = more.map(|(key, value)| (Arc::from(key), Arc::from(value)));
    fixture.designed("n40").labels = Arc::new(more.into());
    let both = fixture.after.nodes["n40"].clone();
    fixture.old.nodes.insert(NodeName::from("n40"), both);
    let plan = fixture.plan();
    let changed: Vec<&str> = plan
        .changes
        .iter()
        .map(|change| change.node.as_str())
        .collect();
    assert_eq!(changed, ["n11", "n37", "n40"]);
    for change in &plan.changes {
        assert!(
            change
                .reasons
                .iter()
                .any(|reason| reason.starts_with("labels are not as applied"))
        );
    }
}

/// Drift of disks is told with both values if the design has not changed since.
#[test]
fn disks_that_drifted_are_named_with_both_values_unless_their_design_was_changed() {
    let reasons = |is_edited: bool| {
        let mut fixture = PlanFixture::settled(&["n"]);
        fixture.seen("n").drift = larger_disk();
        if is_edited {
            fixture.edit("n", Section::Storage);
        }
        fixture.plan().changes[0].reasons.join("; ")
    };
    let shown = reasons(false);
    let expected = "size of the file system `/var`: 10 GiB, designed 20 GiB; \
                    disks and interfaces of a deployed machine are only repaired by a redeploy: `trueup apply redeploy n`";
    assert_eq!(shown, expected);
    assert!(!reasons(true).contains("10 GiB"));
}

fn retire(fixture: &mut PlanFixture) {
    fixture.guards.retirements.push(Retirement {
        selector: named(&["n"]).remove(0),
        reason: Arc::from("old"),
        from: None,
        mark: mark(),
    });
}

fn protect(guards: &mut Guards) {
    guards.policy.protected = named(&["n"]);
}

#[test]
fn a_machine_that_keeps_no_state_is_what_its_record_says_and_is_free_only_while_it_is_off() {
    use PowerState::{Off, On};
    let table: &[(&str, PowerState, Edit, &str)] = &[
        ("as applied", On, |_| (), "nothing"),
        ("as applied, off", Off, |_| (), "drift; ; power-on/all/n"),
        (
            "no record, off",
            Off,
            |w| w.records.clear(),
            "create; ; prepare/all/n deploy/all/n",
        ),
        (
            "no record, on",
            On,
            |w| w.records.clear(),
            "adopt; --adopt n; ",
        ),
        (
            "failed, off",
            Off,
            failed,
            "create; ; prepare/all/n deploy/all/n",
        ),
        ("failed, on", On, failed, "redeploy; --allow-redeploy n; "),
        (
            "prepared, off",
            Off,
            |w| w.record("n").phase = Phase::Prepared,
            "create; ; deploy/all/n",
        ),
        (
            "retired as recorded",
            On,
            |w| {
                retire(w);
                w.record("n").retired = Some(Arc::from("old"));
            },
            "nothing",
        ),
        (
            "in maintenance, by its record",
            Off,
            |w| w.record("n").maintenance = Some(Arc::from("fan")),
            "drift; shown; ",
        ),
    ];
    for (what, power, edit, expected) in table {
        let mut fixture = PlanFixture::settled(&["n"]);
        plain(&mut fixture, *power);
        edit(&mut fixture);
        assert_eq!(told(&fixture), *expected, "{what}");
        let is_left = expected.contains("; shown");
        let left = fixture.plan().left_differing();
        assert_eq!(!left.is_empty(), is_left, "{what}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_change_has_the_steps_of_its_kind_and_waits_for_its_flag() {
    let table: &[(&str, Edit, &str)] = &[
        ("nothing differs", |_| (), "nothing"),
        (
            "no record, nothing there",
            |w| w.bare("n"),
            "create; ; prepare/all/n deploy/all/n",
        ),
        (
            "no record, active",
            |w| {
                w.records.clear();
            },
            "adopt; --adopt n; ",
        ),
        (
            "no record, but a Kubernetes node",
            |w| {
                w.bare("n");
                w.seen("n").cluster = in_cluster("old");
            },
            "adopt; --adopt n; ",
        ),
        (
            "no record, active, and redeploys allowed",
            |w| {
                w.records.clear();
                w.options.allow_redeploy = all();
            },
            "adopt; --adopt n; ",
        ),
        (
            "adopted",
            |w| {
                w.records.clear();
                w.options.adopt = all();
            },
            "adopt; ; adopt/n",
        ),
        (
            "no record, not seen",
            |w| {
                w.bare("n");
                unseen(w);
            },
            "unknown; ; prepare/all/n",
        ),
        (
            "no record, not looked for",
            |w| {
                w.records.clear();
                w.observations = Some(Observations::default());
            },
            "unknown; ; prepare/all/n",
        ),
        (
            "no record, not observed",
            |w| {
                w.records.clear();
                w.observations = None;
            },
            "create; ; prepare/all/n deploy/all/n",
        ),
        ("recorded, not seen", |w| unseen(w), "nothing"),
        (
            "failed before",
            |w| {
                failed(w);
                w.see("n", ProvisionState::DeployFailed);
            },
            "create; ; prepare/all/n deploy/all/n",
        ),
        (
            "failed, yet active: which system it has is not known",
            |w| {
                failed(w);
                w.options.adopt = all();
            },
            "redeploy; --allow-redeploy n; ",
        ),
        (
            "failed, yet active, and allowed",
            |w| {
                failed(w);
                w.options.allow_redeploy = all();
            },
            "redeploy; ; destroy/all/n prepare/all/n deploy/all/n",
        ),
        (
            "a relabel failed, the rest is as it was",
            |w| w.record("n").phase = Phase::Failed,
            "record; ; record/n",
        ),
        (
            "left unknown, and not observed",
            |w| {
                w.record("n").phase = Phase::Unknown;
                w.observations = None;
            },
            "unknown; ; prepare/all/n",
        ),
        ("prepared before", prepared, "create; ; deploy/all/n"),
        (
            "prepared as something else",
            |w| {
                prepared(w);
                w.edit("n", Section::Network);
            },
            "create; ; prepare/all/n deploy/all/n",
        ),
        (
            "another rack",
            |w| w.edit("n", Section::Inventory),
            "record; ; record/n",
        ),
        (
            "another controller",
            |w| w.edit("n", Section::OutOfBand),
            "record; ; record/n",
        ),
        (
            "labels",
            |w| w.edit("n", Section::Labels),
            "relabel; ; relabel/all/n",
        ),
        (
            "labels and rack",
            |w| {
                w.edit("n", Section::Labels);
                w.edit("n", Section::Inventory);
            },
            "relabel; ; relabel/all/n record/n",
        ),
        (
            "labels and rack, in two groups",
            |w| {
                w.edit("n", Section::Labels);
                w.edit("n", Section::Inventory);
                w.guards.groups.push(group("again", &[], named(&["n"])));
            },
            "relabel; ; relabel/all/n relabel/again/n record/n",
        ),
        (
            "labels that the cluster has already",
            |w| {
                w.edit("n", Section::Labels);
                w.seen("n").cluster = in_cluster("new");
            },
            "record; ; record/n",
        ),
        (
            "another image",
            |w| w.edit("n", Section::OperatingSystem),
            "redeploy; --allow-redeploy n; ",
        ),
        (
            "another image and labels, allowed",
            |w| {
                w.edit("n", Section::OperatingSystem);
                w.edit("n", Section::Labels);
                w.options.allow_redeploy.nodes = these(&["n*"]);
            },
            "redeploy; ; destroy/all/n prepare/all/n deploy/all/n",
        ),
        (
            "another image on a protected node",
            |w| {
                w.edit("n", Section::OperatingSystem);
                w.options.allow_redeploy = all();
                protect(&mut w.guards);
            },
            "redeploy; never; ",
        ),
        (
            "another image on a node that was protected when it was applied, by guards that are over",
            |w| {
                w.edit("n", Section::OperatingSystem);
                w.options.allow_redeploy = all();
                protect(&mut w.old_guards);
            },
            "redeploy; ; destroy/all/n prepare/all/n deploy/all/n",
        ),
        (
            "another image where the policy says never",
            |w| {
                w.edit("n", Section::OperatingSystem);
                w.options.allow_redeploy = all();
                w.guards.policy.redeploy_on_change = crate::design::RedeployPolicy::Never;
            },
            "redeploy; never; ",
        ),
        ("left", |w| w.leave("n"), "destroy; --allow-destroy n; "),
        (
            "left, allowed",
            |w| {
                w.leave("n");
                w.options.allow_destroy = all();
            },
            "destroy; ; destroy/n",
        ),
        (
            "left, allowed, protected at its revision by guards that are over",
            |w| {
                w.leave("n");
                w.options.allow_destroy = all();
                protect(&mut w.old_guards);
            },
            "destroy; ; destroy/n",
        ),
        (
            "left, protected by the provisioner",
            |w| {
                w.leave("n");
                w.options.allow_destroy = all();
                w.seen("n").protected = true;
            },
            "destroy; never; ",
        ),
        (
            "left after it was torn down",
            |w| {
                w.leave("n");
                w.record("n").phase = Phase::NotStarted;
            },
            "nothing",
        ),
        ("retired", retire, "retire; ; set-retired/n"),
        (
            "retired before",
            |w| {
                retire(w);
                w.record("n").retired = Some(Arc::from("old"));
                w.seen("n").retired = Some(Arc::from("old"));
            },
            "nothing",
        ),
        (
            "retired before, and off",
            |w| {
                retire(w);
                w.record("n").retired = Some(Arc::from("old"));
                w.seen("n").retired = Some(Arc::from("old"));
                w.seen("n").power = Fact::Known(PowerState::Off);
            },
            "drift; shown; ",
        ),
        (
            "retired from tomorrow on",
            |w| {
                retire(w);
                w.guards.retirements[0].from = Some(Arc::from("2030-06-02"));
            },
            "nothing",
        ),
        (
            "retired no more",
            |w| {
                w.record("n").retired = Some(Arc::from("old"));
                w.seen("n").retired = Some(Arc::from("old"));
            },
            "unretire; ; unset-retired/n",
        ),
        (
            "retired by hand, and edited",
            |w| {
                w.seen("n").retired = Some(Arc::from("by hand"));
                w.edit("n", Section::OperatingSystem);
            },
            "nothing",
        ),
        (
            "off",
            |w| w.seen("n").power = Fact::Known(PowerState::Off),
            "drift; ; power-on/all/n",
        ),
        (
            "unlocked",
            |w| w.seen("n").unlocked = true,
            "drift; ; lock/n",
        ),
        (
            "with disks of another size",
            |w| w.seen("n").drift = larger_disk(),
            "drift; shown; ",
        ),
        (
            "with disks of another size, and unlocked",
            |w| {
                w.seen("n").drift = larger_disk();
                w.seen("n").unlocked = true;
            },
            "drift; ; lock/n",
        ),
        (
            "with disks of another size, which its design had before",
            |w| {
                w.seen("n").drift = larger_disk();
                w.edit("n", Section::Storage);
            },
            "redeploy; --allow-redeploy n; ",
        ),
        (
            "labels drifted",
            |w| w.seen("n").cluster = in_cluster("tampered"),
            "drift; ; relabel/all/n",
        ),
        (
            "gone",
            |w| {
                w.see("n", ProvisionState::Available);
            },
            "redeploy; --allow-redeploy n; ",
        ),
        (
            "off, in maintenance",
            |w| {
                let node = w.seen("n");
                node.power = Fact::Known(PowerState::Off);
                node.maintenance = Some(Arc::from("fan"));
            },
            "drift; shown; ",
        ),
        (
            "being deployed by another client",
            |w| {
                w.bare("n");
                w.see("n", ProvisionState::Deploying);
            },
            "create; never; ",
        ),
        (
            "being deployed, in maintenance",
            |w| {
                w.bare("n");
                w.see("n", ProvisionState::Deploying);
                w.seen("n").maintenance = Some(Arc::from("fan"));
            },
            "create; shown; ",
        ),
        (
            "being torn down by another client",
            |w| {
                w.see("n", ProvisionState::Deleting);
            },
            "redeploy; never; ",
        ),
        (
            "fenced",
            |w| {
                w.bare("n");
                w.see("n", ProvisionState::CleanFailed);
            },
            "create; shown; ",
        ),
        (
            "excluded",
            |w| {
                w.edit("n", Section::OperatingSystem);
                w.options.excludes = these(&["*"]);
            },
            "redeploy; excluded; ",
        ),
        (
            "a backend that cannot relabel",
            |w| {
                w.edit("n", Section::Labels);
                w.seen("n").capabilities = [Capability::Power].into();
            },
            "relabel; never; ",
        ),
        (
            "a backend that cannot wipe",
            |w| {
                w.leave("n");
                w.options.allow_destroy = all();
                w.seen("n").capabilities = [Capability::Power].into();
            },
            "destroy; never; ",
        ),
        (
            "a backend that cannot wipe, which the policy accepts",
            |w| {
                w.leave("n");
                w.options.allow_destroy = all();
                w.guards.policy.wipe = WipePolicy::Skip;
                w.seen("n").capabilities = [Capability::Power].into();
            },
            "destroy; ; destroy/n",
        ),
        (
            "no limit leaves it a place",
            |w| {
                w.edit("n", Section::Storage);
                w.options.allow_redeploy = all();
                w.guards.policy.max_unavailable.total = Some(0);
            },
            "redeploy; never; ",
        ),
    ];
    for (what, edit, expected) in table {
        let mut fixture = PlanFixture::settled(&["n"]);
        edit(&mut fixture);
        assert_eq!(told(&fixture), *expected, "{what}");
    }
}

#[test]
fn a_machine_whose_cluster_cannot_be_read_is_not_called_as_designed() {
    let unproven = |fixture: &PlanFixture| {
        let plan = fixture.plan();
        let is_told = plan.warnings.iter().any(|text| {
            **text == *"are in clusters that cannot be read, and count as joined (no answer): n"
        });
        (plan.summary.unproven.unobserved, is_told)
    };
    let site = "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\n\
                data: {hardware: {kind: redfish}, clusters: {kubernetes: {}}}\n";
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.guards.backends = fixture::site(site).guards.backends;
    fixture.record("n").join = Some(Join::Joined);
    fixture.seen("n").cluster = in_cluster("compute");
    assert_eq!(unproven(&fixture), (0, false));
    fixture.seen("n").cluster = Fact::Unknown(Arc::from("no answer"));
    assert_eq!(unproven(&fixture), (1, true));
    // One that never joined is told of as such.
    fixture.record("n").join = Some(Join::Awaited { since: 0 });
    assert_eq!(unproven(&fixture), (0, false));
}

#[test]
fn a_machine_that_never_joined_its_cluster_is_awaited_by_every_further_apply() {
    let site = "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\n\
                data: {hardware: {kind: redfish}, clusters: {kubernetes: {}}}\n";
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.guards.backends = fixture::site(site).guards.backends;
    fixture.seen("n").cluster = Fact::Known(None);
    fixture.record("n").join = Some(Join::Awaited { since: 7 });
    let plan = fixture.plan();
    assert_eq!(plan.changes[0].kind, ChangeKind::AwaitReady);
    assert_eq!(work(&plan), "await-ready/all/n");
    // One that had joined is shown as missing, and not waited for.
    fixture.record("n").join = Some(Join::Joined);
    assert_eq!(told(&fixture), "drift; shown; ");
}

#[test]
fn a_protected_machine_is_not_torn_down_by_leaving_the_design() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.leave("n");
    fixture.options.allow_destroy = all();
    assert_eq!(told(&fixture), "destroy; ; destroy/n");
    protect(&mut fixture.guards);
    assert_eq!(told(&fixture), "destroy; never; ");
}

#[test]
fn a_machine_that_differs_from_its_design_is_not_adopted() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.records.clear();
    fixture.options.adopt = all();
    assert_eq!(told(&fixture), "adopt; ; adopt/n");
    fixture.seen("n").drift = larger_disk();
    assert_eq!(told(&fixture), "adopt; never; ");

    // What is off or away from its cluster is no machine that is deployed.
    let mut fixture = super::leaving::clustered(&["n"]);
    fixture.records.clear();
    fixture.options.adopt = all();
    assert_eq!(told(&fixture), "adopt; ; adopt/n");
    fixture.seen("n").power = Fact::Known(PowerState::Off);
    assert_eq!(told(&fixture), "adopt; never; ");
    fixture.seen("n").power = Fact::Known(PowerState::On);
    if let Fact::Known(Some(node)) = &mut fixture.seen("n").cluster {
        node.ready = false;
    }
    assert_eq!(told(&fixture), "adopt; never; ");

    // The labels of its node are a part of it.
    let mut fixture = super::leaving::clustered(&["n"]);
    fixture.records.clear();
    fixture.options.adopt = all();
    assert_eq!(told(&fixture), "adopt; ; adopt/n");
    fixture.designed("n").labels = Arc::new([("role".into(), "other".into())].into());
    assert_eq!(told(&fixture), "adopt; never; ");
    let reasons = &fixture.plan().changes[0].reasons;
    let told = "labels of its node: role: old, designed other";
    assert!(reasons.iter().any(|each| **each == *told), "{reasons:?}");
}

#[test]
fn digests_of_other_rules_are_never_compared() {
    let mut fixture = PlanFixture::settled(&["n"]);
    let record = fixture.record("n");
    record.digest_version += 1;
    for section in Section::ALL {
        record.digests.insert(section, SectionDigest([9; 32]));
    }
    assert!(fixture.plan().changes.is_empty() && fixture.plan().is_empty());
    fixture.edit("n", Section::Network);
    assert_eq!(told(&fixture), "redeploy; --allow-redeploy n; ");
    fixture.old.nodes.clear();
    let plan = fixture.plan();
    assert!(plan.changes.is_empty());
    assert!(
        plan.warnings[0].contains("not at hand"),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn a_create_over_a_partition_table_is_destructive_and_one_over_empty_disks_is_not() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.bare("n");
    let plan = fixture.plan();
    assert!(!plan.changes[0].destructive);
    assert_eq!(
        step(&plan, "deploy/all/n").effect,
        crate::step::Effect::Reversible
    );
    if let Fact::Known(disks) = &mut fixture.seen("n").disks {
        disks[0].partitioned = true;
    }
    let plan = fixture.plan();
    assert!(plan.changes[0].destructive);
    assert_eq!(plan.summary.wiped_disks, 1);
    assert_eq!(
        step(&plan, "deploy/all/n").effect,
        crate::step::Effect::Destructive
    );
}

#[test]
fn retired_nodes_are_left_out_of_every_group_and_counted() {
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    retire(&mut fixture);
    let plan = fixture.plan();
    assert_eq!(plan.groups[0].nodes, [NodeName::from("m")]);
    let counts = |plan: &Plan| (plan.changes.len(), plan.summary.retired, plan.unchanged);
    assert_eq!(plan.groups[0].retired, 1);
    // Each node counts once: the one that is retired now is a change.
    assert_eq!(counts(&plan), (1, 0, 1));
    fixture.record("n").retired = Some(Arc::from("old"));
    fixture.seen("n").retired = Some(Arc::from("old"));
    let plan = fixture.plan();
    assert_eq!(plan.groups[0].retired, 1);
    assert_eq!(counts(&plan), (0, 1, 1));
}

#[test]
fn nodes_that_no_group_selects_are_named_and_left_alone_but_for_labels_and_power() {
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    fixture.guards.groups = vec![group("g", &[], named(&["m"]))];
    fixture.bare("n");
    assert_eq!(told(&fixture), "create; shown; ");
    let warnings = fixture.plan().warnings;
    assert_eq!(
        *warnings[0],
        *"are selected by no deployment group, and are neither built nor torn down: n"
    );
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    fixture.guards.groups = vec![group("g", &[], named(&["m"]))];
    fixture.edit("n", Section::Labels);
    assert_eq!(told(&fixture), "relabel; ; relabel/n");
}

#[test]
fn what_is_adopted_counts_as_deployed_and_else_as_its_record_says() {
    let table: &[(&str, Edit, Standing)] = &[
        ("allowed", |w| w.options.adopt = all(), Standing::Deployed),
        ("blocked", |_| (), Standing::NotStarted),
        (
            "left out",
            |w| {
                w.options.adopt = all();
                w.options.excludes = these(&["n"]);
            },
            Standing::NotStarted,
        ),
    ];
    for (name, edit, expected) in table {
        let mut fixture = PlanFixture::settled(&["n"]);
        fixture.records.clear();
        edit(&mut fixture);
        let plan = fixture.plan();
        let change = plan
            .changes
            .iter()
            .find(|change| change.node.as_str() == "n")
            .unwrap();
        assert_eq!(change.kind, ChangeKind::Adopt, "{name}");
        assert_eq!(change.counts_as, *expected, "{name}");
    }
}

#[test]
fn a_retired_machine_that_differs_from_its_design_is_told_of() {
    let told = |edited: bool, retired: bool| {
        let mut site = PlanFixture::settled(&["n", "m"]);
        if edited {
            site.edit("n", Section::OperatingSystem);
        }
        if retired {
            site.record("n").retired = Some(Arc::from("by hand: old"));
            site.seen("n").retired = Some(Arc::from("by hand: old"));
        }
        let plan = site.plan();
        let mut warnings = plan.warnings.iter();
        warnings.any(|text| text.ends_with("though they differ from their design: n"))
    };
    assert!(told(true, true));
    assert!(!told(false, true) && !told(true, false));
}
