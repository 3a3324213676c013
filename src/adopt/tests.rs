//! Inventories to documents, which the readers of documents take.

use proptest::prelude::*;

use super::*;
use crate::design::fixture::{Site, checked};
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{Built, ClusterNode, Disk, Labels, ListedMachine, ObservedNode};

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// A machine in use, with a node that has these labels.
fn found(name: &str, labels: &[(&str, &str)], disks: &[&str]) -> InventoryMachine {
    let labels = labels.iter().map(|(key, value)| (text(key), text(value)));
    let node = ClusterNode {
        uid: text("uid"),
        ready: true,
        labels: labels.collect::<Labels>(),
        ..ClusterNode::default()
    };
    let disks = disks.iter().map(|name| Disk {
        name: text(name),
        serial: text("S"),
        size: 1,
        partitioned: true,
    });
    InventoryMachine {
        listed: ListedMachine {
            name: text(name),
            ..ListedMachine::default()
        },
        observed: Box::new(ObservedNode {
            provision: Fact::Known(ProvisionState::Active),
            power: Fact::Known(PowerState::On),
            disks: Fact::Known(disks.collect()),
            cluster: Fact::Known(Some(node)),
            ..ObservedNode::unknown("")
        }),
    }
}

fn adopted_with(inventory: &Inventory, known: &Known, notes: &Notes) -> Adopted {
    adopt(&AdoptInput {
        site: "test",
        backend: "sim",
        inventory,
        known,
        notes,
        credentials: &BTreeMap::new(),
    })
}

fn adopted(inventory: &Inventory) -> Adopted {
    adopted_with(inventory, &Known::default(), &Notes::default())
}

/// The documents of an adoption as a site without problems.
fn site(adopted: &Adopted) -> Site {
    let files = adopted.files.iter();
    let documents = files.filter(|(name, _)| name.ends_with(".yaml"));
    let text: String = documents.map(|(_, text)| text.as_str()).collect();
    let site = checked(&text);
    let is_open = |problem: &String| problem.starts_with("rule-open-field ");
    let (open, others): (Vec<String>, Vec<String>) =
        site.problems.iter().cloned().partition(is_open);
    assert_eq!(others, Vec::<String>::new(), "{text}");
    assert_eq!(open.is_empty(), adopted.nodes.is_empty(), "{text}");
    site
}

fn of(machines: Vec<InventoryMachine>) -> Inventory {
    Inventory {
        machines,
        ..Inventory::default()
    }
}

fn file<'a>(adopted: &'a Adopted, name: &str) -> &'a str {
    let mut files = adopted.files.iter();
    let found = files.find(|(file, _)| *file == name);
    found.map_or("", |(_, text)| text)
}

#[test]
fn roles_become_profiles_and_groups_and_an_exception_stays_with_its_machine() {
    let control = [("node-role.kubernetes.io/control-plane", ""), ("zone", "a")];
    let worker = [("example.org/role", "worker"), ("zone", "a")];
    let odd = [worker[0], worker[1], ("example.org/gpu", "yes")];
    let mut machines = vec![
        found("c1", &control, &["sda"]),
        found("c2", &control, &["sda"]),
    ];
    for number in 1..5 {
        machines.push(found(&format!("w{number}"), &worker, &["sda", "sdb"]));
    }
    machines.push(found("w5", &odd, &["sda", "sdb"]));
    let adopted = adopted(&of(machines));
    let profiles = file(&adopted, "profiles.yaml");
    assert_eq!(
        profiles,
        "# What machines have in common. What could not be observed is not in it: ADOPTED.md lists that.\n---\nschema: \
         drydock/HostProfile/v1\nmetadata: {name: worker}\ndata:\n  \
         metadata:\n    tags: [worker]\n    owner_data: {example.org/role: worker, zone: a}\n---\nschema: \
         drydock/HostProfile/v1\nmetadata: {name: control-plane}\ndata:\n  \
         metadata:\n    tags: [control-plane]\n    owner_data: {node-role.kubernetes.io/control-plane: '', zone: a}\n"
    );
    let nodes = file(&adopted, "nodes.yaml");
    assert!(nodes.ends_with(
        "metadata: {name: w5}\ndata:\n  host_profile: worker\n  metadata:\n    owner_data: {example.org/gpu: yes}\n"
    ) || nodes.ends_with(
        "metadata: {name: w5}\ndata:\n  host_profile: worker\n  metadata:\n    owner_data: {example.org/gpu: 'yes'}\n"
    ), "{nodes}");
    let site = site(&adopted);
    let groups: Vec<_> = site
        .guards
        .groups
        .iter()
        .map(|group| group.name.to_string())
        .collect();
    assert_eq!(groups, ["control-plane", "workers"]);
}

#[test]
fn a_deployed_machine_that_is_off_is_written_and_named() {
    let mut off = found("off", &[], &[]);
    off.observed.power = Fact::Known(PowerState::Off);
    let adopted = adopted(&of(vec![off, found("on", &[], &[])]));
    assert_eq!(adopted.nodes, [NodeName::from("off"), NodeName::from("on")]);
    let guide = file(&adopted, "ADOPTED.md");
    assert!(
        guide.contains("deployed and powered off: `off`;"),
        "{guide}"
    );
}

#[test]
fn what_is_in_no_use_or_has_no_usable_name_is_left_out_with_its_reason() {
    let mut idle = found("idle", &[], &[]);
    idle.observed.provision = Fact::Known(ProvisionState::Available);
    let mut dark = found("dark", &[], &[]);
    dark.observed.provision = Fact::Unknown(text("no\nanswer `x`"));
    dark.observed.power = Fact::Unknown(text("no answer"));
    let mut inventory = of(vec![dark, idle, found("used", &[], &[])]);
    inventory.unusable.insert(text("a b\u{1b}[2J"));
    inventory.nodes_alone.insert(NodeName::from("alone"));
    let adopted = adopted(&inventory);
    assert_eq!(adopted.nodes, [NodeName::from("used")]);
    assert_eq!(adopted.left_out.len(), 3);
    let guide = file(&adopted, "ADOPTED.md");
    for line in [
        "- machine `idle`: its provision state is available",
        "- machine `a b [2J`: its name ",
        "- Kubernetes node `alone`: no machine has its name",
    ] {
        assert!(guide.contains(line), "{line}\n{guide}");
    }
    assert!(!guide.contains(|letter: char| letter.is_control() && letter != '\n'));
    site(&adopted);
}

#[test]
fn controllers_are_named_by_a_table_else_by_serial_number_and_keep_their_identity() {
    let controller = |address: &str, serial: Option<&str>, uuid: Option<&str>| {
        let mut found = found(address, &[], &[]);
        found.listed.controller = Some((text("redfish"), text(address)));
        found.observed.identity = Some(Box::new(Identity::of(uuid, serial)));
        found.observed.built = Some(Box::new(Built {
            maker: Some(text("Example, Inc.")),
            firmware: Some(text("2.10")),
        }));
        found
    };
    let uuid = "4c4c4544-0051-3510-8050-b4c04f323201";
    let inventory = of(vec![
        controller("10.0.0.1", Some("AB 12/3"), Some(uuid)),
        controller("10.0.0.2", Some("CD45"), None),
        controller("10.0.0.3", None, None),
    ]);
    let notes = Notes::read("name,serial,rack,tags\nn2,CD45,rack 2,\"gpu big\"\n").unwrap();
    let adopted = adopted_with(&inventory, &Known::default(), &notes);
    let names: Vec<&str> = adopted.nodes.iter().map(NodeName::as_str).collect();
    assert_eq!(names, ["10.0.0.3", "ab-12-3", "n2"]);
    let site = site(&adopted);
    let node = &site.design.nodes[&NodeName::from("ab-12-3")];
    assert_eq!(node.identity(), Identity::of(Some(uuid), None));
    let node = &site.design.nodes[&NodeName::from("n2")];
    assert_eq!(node.identity(), Identity::of(None, Some("CD45")));
    assert_eq!(node.rack.as_deref(), Some("rack 2"));
    let tags: Vec<&str> = node.tags.iter().map(|tag| &**tag).collect();
    assert_eq!(tags, ["big", "gpu", "worker"]);
    assert_eq!(node.hardware_profile.as_deref(), Some("example-inc"));
    // Described by the address of its controller, whatever its name is.
    let known = Known {
        controllers: [text("10.0.0.1"), text("10.0.0.2"), text("10.0.0.3")].into(),
        ..Known::default()
    };
    let again = adopted_with(&inventory, &known, &Notes::default());
    assert_eq!((again.known, again.files.len()), (3, 0));
}

#[test]
fn an_etcd_cluster_is_written_whole_or_not_at_all() {
    let member = |name: &str, host: &str| EtcdMemberSeen {
        id: text("1"),
        name: text(name),
        peer_urls: vec![text(&format!("https://{host}:2380"))],
        client_urls: vec![text(&format!("https://{host}:2379"))],
        learner: false,
    };
    let answer = |members: Vec<EtcdMemberSeen>| EtcdSeen {
        answers: [(
            text("seed"),
            Fact::Known(crate::observed::EtcdAnswer {
                cluster_id: text("1"),
                member_id: text("1"),
                members,
                leader: None,
                learner: false,
                decides: true,
                alarms: Vec::new(),
                errors: Vec::new(),
                version: text("3.5"),
                db_size: 0,
                raft_index: 0,
                raft_applied: 0,
                raft_term: 0,
            }),
        )]
        .into(),
        invalid: BTreeMap::new(),
    };
    let mut inventory = of(["n1", "n2", "n3"].map(|name| found(name, &[], &[])).into());
    let all = vec![
        member("n1", "10.0.0.1"),
        member("n2", "10.0.0.2"),
        member("n3", "[fd00::3]"),
    ];
    inventory
        .etcd
        .insert(ClusterName::from("whole"), answer(all));
    let strange = vec![member("n1", "10.0.0.1"), member("other", "10.0.0.9")];
    inventory
        .etcd
        .insert(ClusterName::from("strange"), answer(strange));
    let silent = EtcdSeen {
        answers: [(text("seed"), Fact::Unknown(text("refused")))].into(),
        invalid: BTreeMap::new(),
    };
    inventory.etcd.insert(ClusterName::from("silent"), silent);
    let adopted = adopted(&inventory);
    let site = site(&adopted);
    let cluster = &site.guards.etcd_clusters;
    assert_eq!(cluster.len(), 1);
    assert_eq!(&*cluster[0].members[2].peer_url, "https://[fd00::3]:2380");
    let reasons: Vec<&str> = adopted
        .etcd_left_out
        .iter()
        .map(|(_, why)| why.as_str())
        .collect();
    assert_eq!(reasons[0], "refused");
    assert!(reasons[1].contains("https://10.0.0.9:2380"), "{reasons:?}");
    // Members of etcd are the control plane, whatever their labels are.
    assert!(
        site.design
            .nodes
            .values()
            .all(|node| node.tags.contains("control-plane"))
    );
}

fn any_machines() -> impl Strategy<Value = Vec<InventoryMachine>> {
    let label = (
        prop::sample::select(vec![
            "zone",
            "a.example.org/x",
            "node-role.kubernetes.io/control-plane",
            "true",
            "kubernetes.io/os",
        ]),
        prop::sample::select(vec!["", "a", "true", "1.0", "0x1f", "null", "2024-01-01"]),
    );
    let labels = prop::collection::vec(label, 0..4);
    let disks = prop::sample::select(vec![
        vec![],
        vec!["sda"],
        vec!["sda", "sdb"],
        vec!["nvme0n1"],
        vec!["Disk.Bay 0"],
    ]);
    prop::collection::vec((labels, disks, 0u8..10), 0..30).prop_map(|machines| {
        let machines = machines.into_iter().enumerate();
        let machines = machines.map(|(number, (labels, disks, state))| {
            let mut found = found(&format!("n{number:02}"), &labels, &disks);
            if state == 0 {
                found.observed.provision = Fact::Known(ProvisionState::Available);
            }
            found
        });
        machines.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_observed_is_designed_and_is_adopted_once(machines in any_machines()) {
        let inventory = of(machines);
        let first = adopted(&inventory);
        let site = site(&first);
        let in_use = inventory.machines.iter().filter(|found| found.not_in_use().is_none());
        let mut count = 0;
        for found in in_use {
            count += 1;
            let node = &site.design.nodes[&*found.listed.name];
            let observed = found.observed.cluster.known().and_then(Option::as_ref).unwrap();
            let own = observed.labels.iter().filter(|(key, _)| &***key != "kubernetes.io/os");
            let own: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
            prop_assert_eq!(&*node.labels, &own);
            for disk in found.disks() {
                let shown = format!("`{}`", disk.name);
                let is_named = file(&first, "ADOPTED.md").contains(&shown);
                prop_assert!(is_named, "{}", shown);
            }
        }
        prop_assert_eq!(site.design.nodes.len(), count);
        prop_assert_eq!(&adopted(&inventory), &first);
        let known = Known {
            nodes: first.nodes.iter().cloned().collect(),
            has_strategy: true,
            ..Known::default()
        };
        let second = adopted_with(&inventory, &known, &Notes::default());
        prop_assert_eq!(second.files, Vec::new());
        prop_assert_eq!(second.known, count);
    }
}

#[test]
fn a_machine_that_no_document_can_name_is_left_out_with_the_reason() {
    let long = "n".repeat(70);
    let names = ["edge_1", "all", &*long, "n1"];
    let machines = names.map(|name| found(name, &[("zone", "a")], &["sda"]));
    let adopted = adopted(&of(machines.to_vec()));
    site(&adopted);
    let described: Vec<&str> = adopted.nodes.iter().map(NodeName::as_str).collect();
    assert_eq!(described, ["n1"]);
    let left_out: Vec<&str> = adopted.left_out.iter().map(|(name, _)| &**name).collect();
    assert_eq!(left_out, names[..3]);
    for (name, why) in &adopted.left_out {
        assert!(
            why.contains("cannot be the name of a node"),
            "{name}: {why}"
        );
    }
}

#[test]
fn a_row_that_is_about_no_machine_is_named() {
    let notes = Notes::read("name,rack\nn1,r1\nn-2,r1\n").unwrap();
    let inventory = of(vec![found("n1", &[], &[]), found("n2", &[], &[])]);
    let adopted = adopted_with(&inventory, &Known::default(), &notes);
    let (place, why) = &adopted.unused_rows[0];
    assert_eq!(
        format!("{place}: {why}"),
        "row n-2 of the table: it is about no machine that was found"
    );
    assert_eq!(adopted.unused_rows.len(), 1);
    let guide = file(&adopted, "ADOPTED.md");
    assert!(
        guide.contains("- `row n-2 of the table`: it is about no machine"),
        "{guide}"
    );
}

#[test]
fn a_machine_that_has_a_record_and_no_document_is_left_out_with_what_helps() {
    let known = Known {
        recorded: [NodeName::from(text("n2"))].into(),
        ..Known::default()
    };
    let inventory = of(vec![found("n1", &[], &[]), found("n2", &[], &[])]);
    let adopted = adopted_with(&inventory, &known, &Notes::default());
    assert_eq!(adopted.nodes, [NodeName::from(text("n1"))]);
    assert!(adopted.left_out[0].1.contains("apply forget n2"));
}
