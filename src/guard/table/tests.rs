//! Each guard as its documents have it, how two hold together, and which one is weaker.

use super::*;
use crate::design::NodeDesign;
use crate::design::fixture::{document, site};
use crate::guard::merge::merge_guards;
use crate::guard::{GuardFiles, Guarded, MergeFor, OlderRevision, Revisions};

fn documented(documents: &[(&str, &str)]) -> Documented {
    let machines = ["n1", "n2", "n3"].map(|name| document(kind::NODE, name, "{}"));
    let others = documents.iter().enumerate();
    let others = others.map(|(number, (kind, data))| match *kind == kind::STRATEGY {
        true => document(kind, crate::design::DEFAULT_STRATEGY, data),
        false => document(kind, &format!("d{number}"), data),
    });
    // What is expected guards only if it is demanded.
    let demand = documents.iter().any(|(kind, _)| *kind == kind::HARDWARE);
    let demand = demand.then(|| document(kind::POLICY, "demand", "expected_hardware: demand"));
    let text: Vec<String> = machines.into_iter().chain(others).chain(demand).collect();
    let site = site(&text.concat());
    Documented {
        design: Arc::new(site.design),
        guards: Arc::new(site.guards),
    }
}

fn of(site: &Documented) -> BTreeMap<Arc<str>, Value> {
    values(&Subject::of(site, &GuardFiles::default()))
}

/// In how many ways a revision loosens guards of an older one.
fn loosened(old: &Documented, new: &Documented) -> usize {
    let files = GuardFiles::default();
    let old = values(&Subject {
        against: Some(new),
        ..Subject::of(old, &files)
    });
    super::weaker(&old, &values(&Subject::of(new, &files))).len()
}

/// For each guard a stricter and a weaker document.
const PAIRS: [(&str, &str, &str, &str); 35] = [
    (
        "expected_parts",
        kind::HARDWARE,
        "expect: {memory_gib: 512}",
        "expect: {memory_gib: 448}",
    ),
    (
        "expected_parts",
        kind::HARDWARE,
        "expect: {memory_gib: 512}",
        "selectors: [{node_names: [n1]}]\nexpect: {memory_gib: 512}",
    ),
    (
        "expected_hardware",
        kind::POLICY,
        "expected_hardware: demand",
        "{}",
    ),
    (
        "firmware_downgrades",
        kind::HARDWARE,
        "firmware: {bios: {version: '2.10', downgrade: false}}",
        "selectors: [{node_names: [n1]}]\nfirmware: {bios: {version: '2.10', downgrade: true}}",
    ),
    (
        "firmware_live",
        kind::HARDWARE,
        "firmware: {bmc: {version: '2.10', apply: restart}}",
        "selectors: [{node_names: [n1]}]\nfirmware: {bmc: {version: '2.10', apply: live}}",
    ),
    (
        "firmware_from",
        kind::HARDWARE,
        "mode: enforce\nfirmware: {bios: {version: '2.10', from: ['2.9']}}",
        "mode: enforce\nfirmware: {bios: {version: '2.10', from: ['2.9', '2.8']}}",
    ),
    (
        "firmware_from",
        kind::HARDWARE,
        "firmware: {bios: {version: '2.10', from: ['2.9']}}",
        "firmware: {bios: {version: '2.10'}}",
    ),
    (
        "blast_radius",
        kind::POLICY,
        "blast_radius: {restart: {machines: 20, racks: 1}}",
        "blast_radius: {restart: {machines: 20, racks: 2}}",
    ),
    (
        "disruption",
        kind::POLICY,
        "disruption: {default: restart, by_class: {storage: record}}",
        "disruption: {default: restart, by_class: {storage: wipe}}",
    ),
    (
        "clean_steps",
        kind::CLEANING,
        "priorities: {bios.reset_bios: 120}",
        "priorities: {bios.reset_bios: 120}\nselectors: [{node_names: [n1]}]",
    ),
    (
        "break_glass",
        kind::POLICY,
        "break_glass: {machines: 1, by: [a]}",
        "break_glass: {machines: 2, by: [a]}",
    ),
    (
        "protected",
        kind::POLICY,
        "protected: [{node_names: [n1, n2]}]",
        "protected: [{node_names: [n1]}]",
    ),
    (
        "unverified",
        kind::POLICY,
        "unverified: [{node_names: [n1]}]",
        "unverified: [{node_names: [n1, n2]}]",
    ),
    (
        "maintenance_windows",
        kind::POLICY,
        "maintenance_windows: [{from: '22:00', to: '02:00'}]",
        "maintenance_windows: [{from: '21:00', to: '02:00'}]",
    ),
    (
        "max_unavailable",
        kind::POLICY,
        "max_unavailable: {total: 2, per_rack: 1}",
        "max_unavailable: {total: 3}",
    ),
    (
        "max_unavailable",
        kind::POLICY,
        "{}",
        "max_unavailable: {total: 30}",
    ),
    (
        "failure_domains",
        kind::POLICY,
        "failure_domains: [rack, label:feed]",
        "failure_domains: [label:feed]",
    ),
    (
        "failure_domains",
        kind::POLICY,
        "{}",
        "failure_domains: [rack]",
    ),
    (
        "soak",
        kind::POLICY,
        "soak: {time: 30m, namespaces: [web]}",
        "soak: {time: 20m}",
    ),
    (
        "drain_rules",
        kind::POLICY,
        "drain_rules: [{pods: [{namespaces: [batch]}], drain: {behavior: WaitCompleted}}]",
        "{}",
    ),
    (
        "drain_rules",
        kind::POLICY,
        "{}",
        "drain_rules: [{pods: [{selector: {matchLabels: {app: log}}}], drain: {behavior: Skip}}]",
    ),
    (
        "parallelism",
        kind::POLICY,
        "parallelism: 3",
        "parallelism: 20",
    ),
    ("max_failures", kind::POLICY, "max_failures: 1", "{}"),
    (
        "redeploy_on_change",
        kind::POLICY,
        "redeploy_on_change: never",
        "{}",
    ),
    ("wipe", kind::POLICY, "{}", "wipe: skip"),
    (
        "remediation",
        kind::POLICY,
        "remediation: {attempts: 1, backoff: 90}",
        "remediation: {max_at_once: 2}",
    ),
    (
        "remediation",
        kind::POLICY,
        "remediation: {max_unhealthy: 10%}",
        "remediation: {max_unhealthy: 1000}",
    ),
    (
        "remediation",
        kind::POLICY,
        "remediation: {cooldown: 30m}",
        "remediation: {attempts: 1}",
    ),
    ("signed_runs", kind::POLICY, "signed_runs: required", "{}"),
    ("ticket", kind::POLICY, "ticket: required", "{}"),
    (
        "forbidden_flags",
        kind::POLICY,
        "flags: {forbid: [adopt, forget]}",
        "flags: {forbid: [adopt]}",
    ),
    (
        "etcd_clusters",
        kind::ETCD_CLUSTERS,
        "clusters: [{name: c, members: [{node: n1, name: a, peer_url: 'https://10.0.0.1:2380', client_url: 'https://10.0.0.1:2379'}, {node: n2, name: b, peer_url: 'https://10.0.0.2:2380', client_url: 'https://10.0.0.2:2379'}, {node: n3, name: c, peer_url: 'https://10.0.0.3:2380', client_url: 'https://10.0.0.3:2379'}]}]",
        "clusters: [{name: c, members: [{node: n1, name: a, peer_url: 'https://10.0.0.1:2380', client_url: 'https://10.0.0.1:2379'}]}]",
    ),
    (
        "allow_plain_http",
        kind::BACKENDS,
        "hardware: {kind: sim}",
        "hardware: {kind: sim}\nallow_plain_http: true",
    ),
    (
        "uncleaned",
        kind::CLEANING,
        "automated: true",
        "automated: false",
    ),
    (
        "clean_steps_left_out",
        kind::CLEANING,
        "{}",
        "priorities: {deploy.erase_devices: 0}",
    ),
];

#[test]
fn of_two_revisions_each_guard_holds_as_the_stricter_has_it_whichever_is_the_newest() {
    for (name, kind, stricter, weaker) in PAIRS {
        let (stricter, weaker) = (
            documented(&[(kind, stricter)]),
            documented(&[(kind, weaker)]),
        );
        let found = super::weaker(&of(&stricter), &of(&weaker));
        assert!(
            found.iter().all(|(guard, _)| *guard == name) && !found.is_empty(),
            "{name}: {found:?}"
        );
        assert_eq!(super::weaker(&of(&weaker), &of(&weaker)), [], "{name}");
        let guard = TABLE.iter().find(|guard| guard.name == name).unwrap();
        if matches!(guard.join, Join::Newest | Join::AtOnce(_)) {
            continue;
        }
        for (newest, other) in [(&stricter, &weaker), (&weaker, &stricter)] {
            let mut both = newest.clone();
            merge_guards(
                Arc::make_mut(&mut both.guards),
                newest,
                other,
                MergeFor::Action,
            );
            let policy = &both.guards.policy.max_unavailable;
            let has_defaults = policy.has_default() && policy.has_control_plane_default();
            match name == "max_unavailable"
                && stricter.guards.policy.max_unavailable.total.is_none()
            {
                // A default has no number, and holds beside one.
                true => assert!(has_defaults, "{name}"),
                false => assert_eq!(super::weaker(&of(&stricter), &of(&both)), [], "{name}"),
            }
        }
    }
    // Of all others both revisions have to hold.
    let newest_alone = TABLE
        .iter()
        .filter(|guard| matches!(guard.join, Join::Newest | Join::AtOnce(_)))
        .map(|guard| guard.name);
    assert_eq!(
        newest_alone.collect::<BTreeSet<_>>(),
        BTreeSet::from([
            "allowed_signers",
            "approvals",
            "break_glass",
            "clean_steps",
            "clean_steps_left_out",
            "firmware_downgrades",
            "firmware_from",
            "firmware_live",
            "groups",
            "ignore_changes",
            "reach",
            "rego",
            "times",
            "trusting_backends",
            "uncleaned"
        ])
    );
    let tested: BTreeSet<&str> = PAIRS.iter().map(|(name, ..)| *name).collect();
    // What is read of other files, and guards of no order, have tests of its own.
    let elsewhere = [
        "allowed_signers",
        "approvals",
        "groups",
        "rego",
        "trusting_backends",
    ];
    for guard in &TABLE {
        let is_free = matches!(guard.order, Order::Free);
        assert!(
            is_free || tested.contains(guard.name) || elsewhere.contains(&guard.name),
            "{} has no pair",
            guard.name
        );
    }
}

#[test]
fn a_retirement_counts_in_either_revision_but_for_what_sets_it() {
    let retired = documented(&[(
        kind::RETIREMENT,
        "retirements: [{node_names: [n1], reason: old}]",
    )]);
    let plain = documented(&[]);
    for (kind, expected) in [(MergeFor::Action, 1), (MergeFor::Update, 0)] {
        let mut both = plain.clone();
        merge_guards(Arc::make_mut(&mut both.guards), &plain, &retired, kind);
        assert_eq!(both.guards.retired(&both, "2030-01-01").len(), expected);
    }
    // The machines that a tag meant there.
    let mut tagged = documented(&[(
        kind::RETIREMENT,
        "retirements: [{node_tags: [old], reason: old}]",
    )]);
    Arc::make_mut(&mut machine(&mut tagged, "n2").tags).insert(Arc::from("old"));
    let mut both = plain.clone();
    let guards = Arc::make_mut(&mut both.guards);
    merge_guards(guards, &plain, &tagged, MergeFor::Action);
    let retired = both.guards.retired(&both, "2030-01-01");
    assert!(retired.into_keys().eq(["n2"].map(NodeName::from).iter()));
}

#[test]
fn groups_whose_machines_are_watched_otherwise_or_gone_loosen_nothing() {
    let groups = |groups: &str| documented(&[(kind::STRATEGY, groups)]);
    let one = "groups: [{name: a, critical: true, depends_on: [], selectors: [{node_names: [n1]}], success_criteria: {percent_successful_nodes: 100}}]";
    let old = groups(one);
    let ways = |new: &Documented| loosened(&old, new);
    assert_eq!(ways(&groups(one)), 0);
    assert_eq!(
        ways(&groups(&one.replace("name: a", "name: b"))),
        0,
        "renamed"
    );
    assert_eq!(
        ways(&groups(&one.replace("critical: true", "critical: false"))),
        1
    );
    assert_eq!(ways(&groups(&one.replace(": 100", ": 90"))), 1);
    let renamed = one.replace("name: a", "name: b");
    assert_eq!(
        ways(&groups(&renamed.replace(": 100", ": 10"))),
        1,
        "renamed and loosened"
    );
    assert_eq!(
        ways(&groups(
            &one.replace("[n1]", "[n9]").replace("name: a", "name: b")
        )),
        1
    );
}

#[test]
fn another_version_says_anew_from_which_it_may_be_set() {
    let firmware = |version: &str, from: &str| {
        let text = format!("firmware: {{bios: {{version: '{version}', from: [{from}]}}}}");
        documented(&[(kind::HARDWARE, &text)])
    };
    let old = firmware("2.10", "'2.9'");
    let ways = |new: &Documented| loosened(&old, new);
    assert_eq!(ways(&firmware("2.11", "'2.10'")), 0);
    assert_eq!(ways(&firmware("2.10", "'2.9'")), 0);
    assert_eq!(ways(&firmware("2.10", "'2.8', '2.9'")), 3);
    assert_eq!(ways(&firmware("2.10", "")), 3);
}

/// The leaves of a schema, as paths.
fn leaves(schema: &Value, of: &Value, path: &str, found: &mut Vec<String>) {
    let defs = &schema["$defs"];
    let of = match of["$ref"].as_str() {
        Some(name) => &defs[name.rsplit('/').next().unwrap()],
        None => of,
    };
    let before = found.len();
    let dot = if path.is_empty() { "" } else { "." };
    for (name, below) in of["properties"].as_object().into_iter().flatten() {
        leaves(schema, below, &format!("{path}{dot}{name}"), found);
    }
    for (_, below) in of["patternProperties"].as_object().into_iter().flatten() {
        leaves(schema, below, &format!("{path}{dot}*"), found);
    }
    if of["items"].is_object() {
        leaves(schema, &of["items"], &format!("{path}[]"), found);
    }
    if of["additionalProperties"].is_object() {
        leaves(
            schema,
            &of["additionalProperties"],
            &format!("{path}{dot}*"),
            found,
        );
    }
    if found.len() == before {
        found.push(path.to_owned());
    }
}

#[test]
fn every_field_of_the_documents_that_guard_a_site_has_a_row() {
    let kinds = [
        kind::BACKENDS,
        kind::CLEANING,
        kind::CONFIGURATION,
        kind::ETCD_CLUSTERS,
        kind::HARDWARE,
        kind::POLICY,
        kind::RETIREMENT,
        kind::STRATEGY,
    ];
    for kind in kinds {
        let file = format!(
            "{}/schemas/{}.json",
            env!("CARGO_MANIFEST_DIR"),
            kind.replace('/', ".")
        );
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let mut found = Vec::new();
        leaves(&schema, &schema, "", &mut found);
        assert!(found.len() > 2, "{kind}");
        let rows = || {
            TABLE
                .iter()
                .flat_map(|guard| guard.fields)
                .filter(|(of, _)| *of == kind)
        };
        // What machines are made of guards nothing, but for the terms on which it is changed.
        let is_made_of = |leaf: &&String| {
            let part = leaf.split(['.', '[']).next().unwrap_or_default();
            kind == kind::HARDWARE
                && ["mode", "firmware", "bios", "boot", "bmc", "raid"].contains(&part)
        };
        for leaf in found.iter().filter(|leaf| !is_made_of(leaf)) {
            let has_row = rows().any(|(_, field)| {
                let rest = leaf.strip_prefix(field);
                rest.is_some_and(|rest| {
                    field.is_empty() || rest.is_empty() || rest.starts_with(['.', '['])
                })
            });
            assert!(has_row, "{kind}: {leaf}");
        }
        for (_, field) in rows() {
            let parts: Vec<&str> = field.split('*').collect();
            let is_there =
                |leaf: &String| leaf.starts_with(parts[0]) && leaf.contains(parts[parts.len() - 1]);
            assert!(found.iter().any(is_there), "{kind} has no {field}");
        }
    }
}

#[test]
fn a_machine_of_an_older_revision_is_reached_as_the_newest_says() {
    let of = |address: &str, disk: &str| {
        let mut site = documented(&[]);
        let node = machine(&mut site, "n1");
        node.out_of_band.address = Some(Arc::from(address));
        node.disks = Arc::new([Arc::from(disk)]);
        site
    };
    let (newest, older) = (of("10.0.0.2", "sdb"), of("10.0.0.1", "sda"));
    let guarded = Guarded::resolve(&Revisions {
        newest: &newest,
        older: Some(OlderRevision {
            site: &older,
            revision: "r1",
            nodes: Some(&BTreeSet::from([NodeName::from("n1")])),
        }),
        in_force: None,
    });
    let node = &guarded.nodes["n1"];
    assert_eq!(node.out_of_band.address.as_deref(), Some("10.0.0.2"));
    assert_eq!(&*node.disks[0], "sda", "it is made of the older one");
}

/// Changes the design of a machine.
fn machine<'s>(site: &'s mut Documented, name: &str) -> &'s mut NodeDesign {
    let design = Arc::make_mut(&mut site.design);
    Arc::make_mut(design.nodes.get_mut(name).unwrap())
}

/// The guards of a revision, with those of another one.
fn with_those_of(newest: &Documented, other: &Documented) -> Guards {
    let mut guards = Guards::clone(&newest.guards);
    merge_guards(&mut guards, newest, other, MergeFor::Action);
    guards
}

#[test]
fn a_machine_that_another_revision_protects_is_protected_under_another_name() {
    let mut other = documented(&[(kind::POLICY, "protected: [{node_names: [n1]}]")]);
    let mut newest = documented(&[]);
    machine(&mut other, "n1").out_of_band.address = Some(Arc::from("10.0.0.1"));
    machine(&mut newest, "n2").out_of_band.address = Some(Arc::from("10.0.0.1"));
    machine(&mut newest, "n3").out_of_band.address = Some(Arc::from("10.0.0.3"));
    let guards = with_those_of(&newest, &other);
    for (name, expected) in [("n1", true), ("n2", true), ("n3", false)] {
        assert_eq!(guards.is_protected(&newest.nodes[name]), expected, "{name}");
    }
}

#[test]
fn a_limit_of_another_revision_holds_over_the_racks_of_that_revision() {
    let mut other = documented(&[(kind::POLICY, "max_unavailable: {per_rack: 1}")]);
    let mut newest = documented(&[]);
    for name in ["n1", "n2"] {
        machine(&mut other, name).rack = Some(Arc::from("r1"));
        machine(&mut newest, name).rack = Some(Arc::from("r1"));
    }
    machine(&mut newest, "n1").rack = Some(Arc::from("r2"));
    let mut radius = documented(&[(kind::POLICY, "blast_radius: {restart: {racks: 1}}")]);
    radius.design = other.design.clone();
    for other in [other, radius] {
        let elsewhere = with_those_of(&newest, &other).policy.elsewhere;
        assert_eq!(elsewhere.len(), 1, "{elsewhere:?}");
        assert!(elsewhere["n1"].racks.contains("r1"));
    }
}

#[test]
fn the_circuit_breaker_of_remediation_holds_as_the_stricter_revision_has_it() {
    let share = |share: &str| {
        let policy = format!("remediation: {{max_unhealthy: '{share}'}}");
        documented(&[(kind::POLICY, policy.as_str())])
    };
    let (stricter, weaker) = (share("10%"), share("60%"));
    for (newest, other) in [(&stricter, &weaker), (&weaker, &stricter)] {
        let guards = with_those_of(newest, other);
        let found = guards.policy.remediation.max_unhealthy(None);
        assert_eq!(found, Share::Percent(10));
    }
}

#[test]
fn a_machine_that_an_older_revision_does_not_have_is_not_built_of_the_newest() {
    let newest = documented(&[]);
    let mut older = documented(&[]);
    Arc::make_mut(&mut older.design).nodes.remove("n2");
    let guarded = Guarded::resolve(&Revisions {
        newest: &newest,
        older: Some(OlderRevision {
            site: &older,
            revision: "r1",
            nodes: Some(&BTreeSet::from(["n1", "n2"].map(NodeName::from))),
        }),
        in_force: None,
    });
    let names: Vec<&str> = guarded.nodes.keys().map(NodeName::as_str).collect();
    assert_eq!(names, ["n1", "n3"]);
}
