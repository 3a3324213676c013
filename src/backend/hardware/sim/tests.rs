//! The simulator under its own clock: each fault, the ledger, death and return, and files that lie.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use tokio::time::Instant;

use super::*;
use crate::backend::{Clock, Context, Error, NoSecrets, Reporter, choose, clock};
use crate::design::{BackendKind, Design, HardwareBackend, RunId, SiteName, build};
use crate::diagnostic::Sources;
use crate::document::{LoadSettings, load};
use crate::lifecycle::PowerState;
use crate::lifecycle::ProvisionState;
use crate::observed::Fact;
use crate::step::{Effect as Harm, Parameters, Step, StepId};

fn design(text: &str) -> (Sources, Design) {
    let mut sources = Sources::new();
    let id = sources.add("site.yaml", text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let documents = load(id, text, &settings).documents;
    let inputs: Vec<_> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let (design, _) = build(SiteName::from("test"), &inputs);
    (sources, design)
}

fn machines(count: usize) -> Vec<Arc<NodeDesign>> {
    let profile = "schema: drydock/HostProfile/v1\nmetadata: {name: host}\ndata:\n  storage:\n    physical_devices:\n      sda: {partitions: [{name: root, size: 30g, bootable: true, filesystem: {mountpoint: /, fstype: ext4}}]}\n      sdb: {volume_group: data}\n  metadata: {owner_data: {plane: enabled}}\n";
    let nodes = (1..=count).map(|number| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{number}}}\ndata: {{host_profile: host}}\n"
        )
    });
    let (_, design) = design(&(profile.to_owned() + &nodes.collect::<String>()));
    assert_eq!(design.nodes.len(), count);
    design.nodes.into_values().map(Arc::new).collect()
}

fn settings(text: &str) -> Settings {
    let (_, design) = design(&backends(&format!("hardware: {{kind: sim, sim: {text}}}")));
    Settings::read(&design.backends.hardware).unwrap()
}

fn backends(data: &str) -> String {
    format!("schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata: {{{data}}}\n")
}

/// A site of its own, in a folder that goes away with it.
struct Site {
    folder: TempDir,
    nodes: Vec<Arc<NodeDesign>>,
}

impl Site {
    fn new(count: usize) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            nodes: machines(count),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("deep/simulated-site.json")
    }

    fn open(&self, text: &str) -> Simulator {
        Simulator::open(&self.path(), settings(text)).unwrap()
    }

    fn order(&self, run: &str, kind: StepKind, node: usize) -> Order {
        self.order_with(run, kind, node, None)
    }

    fn order_with(
        &self,
        run: &str,
        kind: StepKind,
        node: usize,
        parameters: Option<Parameters>,
    ) -> Order {
        let node = &self.nodes[node];
        Order {
            notes: Vec::new(),
            reporter: Reporter::default(),
            run: RunId::from(run),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: Some(node.name.clone()),
                    wave: None,
                },
                timeout: 0,
                effect: Harm::Reversible,
                standby: false,
                parameters: parameters.map(Arc::new),
                needs: Vec::new(),
            }),
            node: Some(node.clone()),
        }
    }

    fn ledger(&self, simulator: &Simulator, node: usize) -> Vec<Effect> {
        let machine = simulator.machine(&self.nodes[node].name).unwrap();
        let entries = machine.map(|machine| machine.ledger).unwrap_or_default();
        entries.into_iter().map(|entry| entry.effect).collect()
    }
}

const LIFE: [StepKind; 3] = [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy];

#[tokio::test(start_paused = true)]
async fn a_machine_goes_through_its_life_and_the_ledger_has_each_effect_once() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let began = Instant::now();
    for kind in LIFE {
        let order = site.order("R1", kind, 0);
        assert_eq!(simulator.probe(&order).await, Probe::NotBegun);
        simulator.act(&order).await.unwrap();
        assert_eq!(simulator.probe(&order).await, Probe::Done);
        simulator.act(&order).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::from_secs(120 + 900 + 180));
    let ledger = site.ledger(&simulator, 0);
    let disk = |name: &str| Arc::from(name);
    let Effect::Deployed { labels, uid, image } = &ledger[4] else {
        panic!("{ledger:#?}");
    };
    assert_eq!(labels.get("plane").map(|value| &**value), Some("enabled"));
    assert_eq!((uid.len(), image.len()), (36, 64));
    let expected = [
        Effect::PoweredOn,
        Effect::Prepared,
        Effect::WroteDisk(disk("sda")),
        Effect::WroteDisk(disk("sdb")),
        ledger[4].clone(),
        Effect::WipedDisk(disk("sda")),
        Effect::WipedDisk(disk("sdb")),
        Effect::PoweredOff,
        Effect::Destroyed,
    ];
    assert_eq!(ledger, expected);
    let machine = simulator.machine(&site.nodes[0].name).unwrap().unwrap();
    let numbers: Vec<u64> = machine.ledger.iter().map(|entry| entry.sequence).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    let factory_new = Machine::factory_new(&site.nodes[0]);
    // Its node stays until it is removed from the cluster.
    assert!(!machine.cluster.unwrap().ready);
    assert_eq!(
        Machine {
            ledger: Vec::new(),
            cluster: None,
            ..machine
        },
        factory_new
    );
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_new_site_writes_nothing() {
    let site = Site::new(3);
    let simulator = site.open("{}");
    let seen = simulator.observe(&site.nodes).await;
    assert_eq!(seen.len(), 3);
    let node = &seen["n1"];
    assert_eq!(node.provision, Fact::Known(ProvisionState::Available));
    assert_eq!(node.power, Fact::Known(PowerState::Off));
    assert_eq!(node.cluster, Fact::Known(None));
    let serials: BTreeSet<_> = seen
        .values()
        .flat_map(|node| node.disks.known().unwrap())
        .map(|disk| disk.serial.clone())
        .collect();
    assert_eq!(serials.len(), 6);
    assert!(!site.path().parent().unwrap().exists());
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_says() {
    struct Row {
        fault: &'static str,
        /// What the first and the second attempt answer, and after how many seconds each.
        answers: [(&'static str, u64); 2],
        probe_between: Probe,
        deployed: usize,
    }
    let row = |fault, answers, probe_between, deployed| Row {
        fault,
        answers,
        probe_between,
        deployed,
    };
    let table = [
        row(
            "outcome: fail, message: no image",
            [("permanent: no image", 900); 2],
            Probe::NotBegun,
            0,
        ),
        row(
            "outcome: fail, times: 1",
            [
                ("permanent: `deploy` failed, as the fault script says", 900),
                ("ok", 900),
            ],
            Probe::NotBegun,
            1,
        ),
        row(
            "outcome: fail-once, message: busy",
            [("passing: busy", 0), ("ok", 900)],
            Probe::NotBegun,
            1,
        ),
        row(
            "outcome: fail-once, times: 2",
            [("passing: the machine did not answer this time", 0); 2],
            Probe::NotBegun,
            0,
        ),
        row("outcome: late", [("ok", 960), ("ok", 0)], Probe::Done, 1),
        row(
            "outcome: late, seconds: 5000",
            [("no answer", 3600), ("ok", 2300)],
            Probe::UnderWay,
            1,
        ),
        row(
            "outcome: lost-answer",
            [
                ("ambiguous: the answer to `deploy/n1` was lost", 900),
                ("ok", 0),
            ],
            Probe::Done,
            1,
        ),
        row(
            "outcome: hang",
            [("no answer", 3600); 2],
            Probe::UnderWay,
            0,
        ),
        row(
            "outcome: hang, seconds: 4000",
            [
                ("no answer", 3600),
                ("permanent: `deploy` hung and was given up", 400),
            ],
            Probe::UnderWay,
            0,
        ),
        row(
            "outcome: unobservable",
            [("ok", 900), ("ok", 0)],
            Probe::Ambiguous("the machine does not answer".into()),
            1,
        ),
        row(
            "nodes: [x*], outcome: fail",
            [("ok", 900), ("ok", 0)],
            Probe::Done,
            1,
        ),
        row(
            "nodes: [x, 'n?'], outcome: fail",
            [("permanent: `deploy` failed, as the fault script says", 900); 2],
            Probe::NotBegun,
            0,
        ),
    ];
    for Row {
        fault,
        answers,
        probe_between,
        deployed,
    } in table
    {
        let site = Site::new(1);
        let simulator = site.open(&format!("{{faults: [{{step: deploy, {fault}}}]}}"));
        simulator
            .act(&site.order("R1", StepKind::Prepare, 0))
            .await
            .unwrap();
        let order = site.order("R1", StepKind::Deploy, 0);
        for (attempt, expected) in answers.into_iter().enumerate() {
            let began = Instant::now();
            let answer =
                tokio::time::timeout(Duration::from_secs(3600), simulator.act(&order)).await;
            let answer = match answer {
                Ok(Ok(())) => "ok".to_owned(),
                Ok(Err(ActError::Passing(message))) => format!("passing: {message}"),
                Ok(Err(ActError::Permanent(message))) => format!("permanent: {message}"),
                Ok(Err(ActError::Ambiguous(message))) => format!("ambiguous: {message}"),
                Err(_) => "no answer".to_owned(),
            };
            assert_eq!(
                (&*answer, began.elapsed().as_secs()),
                expected,
                "{fault}, attempt {attempt}"
            );
            if attempt == 0 {
                assert_eq!(simulator.probe(&order).await, probe_between, "{fault}");
            }
        }
        let ledger = site.ledger(&simulator, 0);
        let times = ledger
            .iter()
            .filter(|effect| matches!(effect, Effect::Deployed { .. }));
        assert_eq!(times.count(), deployed, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_seen_is_unknown_and_its_neighbour_is_not() {
    let site = Site::new(2);
    let text = "{faults: [{nodes: [n1], outcome: unobservable, message: dead, times: 1}]}";
    let first = site.open(text).observe(&site.nodes).await;
    assert_eq!(first["n1"], ObservedNode::unknown("dead"));
    assert!(first["n2"].provision.known().is_some());
    // The count is kept in the file.
    let second = site.open(text).observe(&site.nodes).await;
    assert!(second["n1"].provision.known().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_state_does_not_allow_is_refused_with_state_and_verb() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let name = &site.nodes[0].name;
    let new = Machine::factory_new(&site.nodes[0]);
    let active = Machine {
        provision: ProvisionState::Active,
        prepared: true,
        ..new.clone()
    };
    let reason = || Some(Arc::from("old"));
    let table = [
        (
            active.clone(),
            StepKind::Deploy,
            "`n1` is active, and `deploy` can begin only where it is available, deploy-failed",
        ),
        (
            active.clone(),
            StepKind::Prepare,
            "`n1` is active, and `prepare` can begin only where it is enroll, manageable, inspect-failed, available, deploy-failed",
        ),
        (
            new.clone(),
            StepKind::Deploy,
            "`n1` is available but was not prepared, and `deploy` is refused there",
        ),
        (
            new.clone(),
            StepKind::Relabel,
            "`n1` is available, and `relabel` can begin only where it is active",
        ),
        (
            Machine {
                retired: reason(),
                ..new.clone()
            },
            StepKind::Prepare,
            "`n1` is available and retired (old), and `prepare` is refused there",
        ),
        (
            Machine {
                maintenance: reason(),
                ..active.clone()
            },
            StepKind::Destroy,
            "`n1` is in maintenance (old), and `destroy` is refused there",
        ),
        (
            Machine {
                protected: true,
                ..active
            },
            StepKind::Destroy,
            "`n1` is active and protected, and `destroy` is refused there",
        ),
        (
            Machine {
                provision: ProvisionState::CleanFailed,
                ..new.clone()
            },
            StepKind::Destroy,
            "`n1` is clean-failed, and `destroy` can begin only where it is active, deploy-failed, error, manageable, inspect-failed, available",
        ),
        (
            new,
            StepKind::Record,
            "a simulated machine cannot do `record/n1`",
        ),
    ];
    for (machine, kind, expected) in table {
        simulator.seed(name, machine.clone()).unwrap();
        let answer = simulator.act(&site.order("R1", kind, 0)).await;
        assert_eq!(answer, Err(ActError::Permanent(Arc::from(expected))));
        assert_eq!(simulator.machine(name).unwrap().unwrap(), machine);
    }
}

#[tokio::test(start_paused = true)]
async fn flags_power_and_labels_are_set_to_a_level_once() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    let name = &site.nodes[0].name;
    let retire = Parameters {
        reason: Some(Arc::from("old")),
        ..Parameters::default()
    };
    let retire = site.order_with("R1", StepKind::SetRetired, 0, Some(retire));
    simulator.act(&retire).await.unwrap();
    simulator.act(&retire).await.unwrap();
    let machine = simulator.machine(name).unwrap().unwrap();
    assert_eq!(machine.provision, ProvisionState::Manageable);
    simulator
        .act(&site.order("R2", StepKind::UnsetRetired, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R2", StepKind::PowerOn, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R3", StepKind::PowerOn, 0))
        .await
        .unwrap();
    assert_eq!(
        simulator
            .probe(&site.order("R9", StepKind::PowerOn, 0))
            .await,
        Probe::Done
    );
    simulator
        .act(&site.order("R3", StepKind::Prepare, 0))
        .await
        .unwrap();
    simulator
        .act(&site.order("R3", StepKind::Deploy, 0))
        .await
        .unwrap();
    let labels = Parameters {
        set_labels: vec![(Arc::from("rack"), Arc::from("r1"))],
        remove_labels: vec![Arc::from("plane")],
        ..Parameters::default()
    };
    simulator
        .act(&site.order_with("R3", StepKind::Relabel, 0, Some(labels)))
        .await
        .unwrap();
    let cluster = simulator.machine(name).unwrap().unwrap().cluster.unwrap();
    assert!(cluster.ready);
    let labels: Vec<_> = cluster.labels.keys().map(|key| &**key).collect();
    assert_eq!(labels, ["kubernetes.io/hostname", "rack"]);
    let kinds: Vec<_> = site.ledger(&simulator, 0).into_iter().take(4).collect();
    let expected = [
        Effect::Retired(Arc::from("old")),
        Effect::Unretired,
        Effect::PoweredOn,
        Effect::Prepared,
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn only_the_disks_that_are_named_are_erased_and_a_disk_that_is_not_there_is_an_error() {
    let site = Site::new(1);
    let simulator = site.open("{}");
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        simulator.act(&site.order("R1", kind, 0)).await.unwrap();
    }
    let disks = |name: &str| {
        let parameters = Parameters {
            disks: vec![Arc::from(name)],
            ..Parameters::default()
        };
        site.order_with("R2", StepKind::Destroy, 0, Some(parameters))
    };
    let answer = simulator.act(&disks("sdx")).await;
    assert_eq!(
        answer,
        Err(ActError::Permanent(Arc::from(
            "`n1` has no disk `sdx` to erase"
        )))
    );
    simulator.act(&disks("sda")).await.unwrap();
    let machine = simulator.machine(&site.nodes[0].name).unwrap().unwrap();
    let partitioned: Vec<bool> = machine.disks.iter().map(|disk| disk.partitioned).collect();
    assert_eq!(partitioned, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_was_under_way_at_a_death_goes_on_and_happens_once() {
    let site = Site::new(2);
    let order = site.order("R1", StepKind::Prepare, 0);
    {
        let simulator = site.open("{}");
        simulator
            .act(&site.order("R1", StepKind::Prepare, 1))
            .await
            .unwrap();
        let acting = simulator.act(&order);
        assert!(
            tokio::time::timeout(Duration::from_secs(50), acting)
                .await
                .is_err()
        );
    }
    let simulator = site.open("{}");
    assert_eq!(simulator.probe(&order).await, Probe::UnderWay);
    let seen = simulator.observe(&site.nodes[..1]).await;
    assert_eq!(
        seen["n1"].provision,
        Fact::Known(ProvisionState::Inspecting)
    );
    let other = simulator.act(&site.order("R2", StepKind::Prepare, 0)).await;
    let busy = "`n1` is busy with `prepare/n1` of run R1";
    assert_eq!(other, Err(ActError::Passing(Arc::from(busy))));
    let (first, second) = tokio::join!(simulator.act(&order), simulator.act(&order));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(
        site.ledger(&simulator, 0),
        [Effect::PoweredOn, Effect::Prepared]
    );
    // And once more, from the file alone.
    let simulator = site.open("{}");
    assert_eq!(simulator.probe(&order).await, Probe::Done);
    assert_eq!(
        site.ledger(&simulator, 0),
        [Effect::PoweredOn, Effect::Prepared]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_in_failure_when_its_fault_leaves_the_script() {
    let site = Site::new(1);
    let order = site.order("R1", StepKind::Prepare, 0);
    let hanging = site.open("{faults: [{outcome: hang, message: stuck}]}");
    assert!(
        tokio::time::timeout(Duration::from_secs(9), hanging.act(&order))
            .await
            .is_err()
    );
    let mended = site.open("{}");
    let seen = mended.observe(&site.nodes).await;
    assert_eq!(
        seen["n1"].provision,
        Fact::Known(ProvisionState::InspectFailed)
    );
    assert_eq!(seen["n1"].last_error.as_deref(), Some("stuck"));
    assert_eq!(mended.probe(&order).await, Probe::NotBegun);
    mended
        .act(&site.order("R2", StepKind::Prepare, 0))
        .await
        .unwrap();
    let failed = Effect::Failed {
        kind: StepKind::Prepare,
        message: Arc::from("stuck"),
    };
    assert_eq!(
        site.ledger(&mended, 0),
        [failed, Effect::PoweredOn, Effect::Prepared]
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_machines_are_worked_on_at_the_same_time_through_two_simulators() {
    let site = Site::new(1000);
    let here = Arc::new(site.open("{}"));
    let there = Arc::new(site.open("{}"));
    let began = Instant::now();
    let mut acts = tokio::task::JoinSet::new();
    for node in 0..1000 {
        let orders = [StepKind::Prepare, StepKind::Deploy].map(|kind| site.order("R1", kind, node));
        let simulator = if node % 2 == 0 { &here } else { &there }.clone();
        acts.spawn(async move {
            for order in orders {
                simulator.act(&order).await.unwrap();
            }
        });
    }
    while let Some(act) = acts.join_next().await {
        act.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::from_secs(120 + 900));
    let again = site.open("{}");
    let mut numbers = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for (node, design) in site.nodes.iter().enumerate() {
        let machine = again.machine(&design.name).unwrap().unwrap();
        assert_eq!(machine.ledger.len(), 5, "{}", site.nodes[node].name);
        numbers.extend(machine.ledger.iter().map(|entry| entry.sequence));
        uids.insert(machine.cluster.unwrap().uid);
    }
    assert_eq!(numbers, (1..=5000).collect());
    assert_eq!(uids.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_anew_holds_the_same_machines() {
    let site = Site::new(2);
    let name = &site.nodes[0].name;
    {
        let simulator = site.open("{}");
        let machine = Machine::factory_new(&site.nodes[0]);
        for _ in 0..5000 {
            simulator.seed(name, machine.clone()).unwrap();
        }
        simulator
            .act(&site.order("R1", StepKind::Prepare, 0))
            .await
            .unwrap();
    }
    let before = fs::metadata(site.path()).unwrap().len();
    let held_open = site.open("{}");
    let machine = held_open.machine(name).unwrap();
    let after = fs::metadata(site.path()).unwrap().len();
    assert!(after < before / 1000, "{before} {after}");
    assert_eq!(machine.as_ref().unwrap().ledger.len(), 2);
    // Nobody writes it anew under the feet of one who has it open.
    for _ in 0..5000 {
        held_open.seed(name, machine.clone().unwrap()).unwrap();
    }
    let before = fs::metadata(site.path()).unwrap().len();
    let other = site.open("{}");
    assert_eq!(fs::metadata(site.path()).unwrap().len(), before);
    other
        .act(&site.order("R1", StepKind::Deploy, 0))
        .await
        .unwrap();
    assert_eq!(
        held_open.machine(name).unwrap(),
        other.machine(name).unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_cut_at_any_byte_is_read_up_to_its_last_whole_line_and_goes_on() {
    let site = Site::new(1);
    let order = site.order("R1", StepKind::Prepare, 0);
    site.open("{}").act(&order).await.unwrap();
    let whole = fs::read(site.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(site.path(), &whole[..length]).unwrap();
        let simulator = site.open("{}");
        simulator.act(&order).await.unwrap();
        assert_eq!(
            site.ledger(&simulator, 0),
            [Effect::PoweredOn, Effect::Prepared],
            "{length}"
        );
        let ledger = site.ledger(&site.open("{}"), 0);
        assert_eq!(ledger, [Effect::PoweredOn, Effect::Prepared], "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_lies_is_refused_and_left_alone() {
    let site = Site::new(1);
    site.open("{}")
        .act(&site.order("R1", StepKind::Prepare, 0))
        .await
        .unwrap();
    let good = fs::read_to_string(site.path()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(lines.len(), 4, "{good}");
    let [first, born, begun, ended] = [lines[0], lines[1], lines[2], lines[3]];
    let foreign = "this file is no simulated site; nothing was written to it";
    let table: &[(String, &str)] = &[
        ("-----BEGIN KEY-----\nx\n".to_owned(), foreign),
        ("no line end".to_owned(), foreign),
        ("{}\n".to_owned(), foreign),
        (
            first.replace("\"format_version\":1", "\"format_version\":7") + "\n",
            "the file has format version 7, and this is a trueup for version 1",
        ),
        (
            format!("{first}\n{begun}\n"),
            "line 2 is no entry of a simulated site: there is no machine `n1` yet",
        ),
        (
            format!("{first}\n{born}\n{ended}\n"),
            "line 3 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{born}\n{begun}\n{begun}\n"),
            "line 4 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{born}\n{{\"at\":0,\"node\":\"n1\"}}\n"),
            "line 3 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{}\n", born.replace("n1", "../n1")),
            "line 2 is no entry of a simulated site: the name of its node does not begin with a letter or a digit",
        ),
        (
            format!(
                "{first}\n{}\n",
                born.replace("\"at\":0", "\"at\":18446744073709551615")
            ),
            "line 2 is no entry of a simulated site: its time is too far away",
        ),
        (
            format!("{first}\n{}\n", "[".repeat(100_000)),
            "line 2 is no entry of a simulated site: ",
        ),
        (
            format!("{first}\n\0\n"),
            "line 2 is no entry of a simulated site: ",
        ),
    ];
    for (text, expected) in table {
        fs::write(site.path(), text).unwrap();
        let error = Simulator::open(&site.path(), Settings::default()).unwrap_err();
        assert!(
            error.to_string().starts_with(expected),
            "{error}\n{expected}"
        );
        assert_eq!(fs::read_to_string(site.path()).unwrap(), *text);
    }
    // A file that begins to lie while it is open makes nothing known and nothing done.
    fs::write(site.path(), &good).unwrap();
    let simulator = site.open("{}");
    fs::write(site.path(), format!("{good}nonsense\n")).unwrap();
    let seen = simulator.observe(&site.nodes).await;
    assert!(matches!(seen["n1"].provision, Fact::Unknown(_)));
    let order = site.order("R1", StepKind::Deploy, 0);
    assert!(matches!(simulator.probe(&order).await, Probe::Ambiguous(_)));
    assert!(matches!(
        simulator.act(&order).await,
        Err(ActError::Permanent(_))
    ));
}

#[test]
fn settings_that_do_not_fit_are_named_with_their_place() {
    let table = [
        (
            "hardware: {kind: sim, sim: {clok: real}}",
            Some("schema-sim clok"),
        ),
        (
            "hardware: {kind: sim, sim: {state: ../x}}",
            Some("schema-sim ../x"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: -1}}}",
            Some("schema-sim -1"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: .nan}}}",
            Some("schema-sim .nan"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: 1e99}}}",
            Some("schema-sim 1e99"),
        ),
        (
            "hardware: {kind: sim, sim: {faults: [{nodes: ['['], outcome: fail}]}}",
            Some("schema-sim '['"),
        ),
        (
            "hardware: {kind: sim, sim: {faults: [{outcome: explode}]}}",
            Some("schema-sim explode"),
        ),
        (
            "hardware: {kind: redfish}",
            Some("rule-backend-kind redfish}"),
        ),
        (
            "hardware: {kind: sim}, overrides: [{selector: {}, hardware: {kind: maas}}]",
            Some("rule-backend-kind maas"),
        ),
        ("hardware: {kind: sim}", None),
        (
            "hardware: {kind: sim, sim: {clock: real, durations: {deploy: 1.5}}}",
            None,
        ),
    ];
    for (data, expected) in table {
        let (sources, design) = design(&backends(data));
        let folder = TempDir::new().unwrap();
        let context = Context {
            simulated_state: folder.path().join("simulated-site.json"),
            secrets: Arc::new(NoSecrets),
        };
        let found = choose(&design, &context).err().map(|error| {
            let diagnostic = error.diagnostic().unwrap();
            let place = sources.place(diagnostic.mark.unwrap());
            let text = &data[place.column as usize - "data: {".len() - 1..];
            (place.line, diagnostic.code.to_string(), text.to_owned())
        });
        match (&found, expected) {
            (Some((3, code, text)), Some(expected)) => {
                let (expected_code, place) = expected.split_once(' ').unwrap();
                assert_eq!(code, expected_code, "{data}");
                assert!(text.starts_with(place), "{data}: {text}");
            }
            (found, expected) => assert!(found.is_none() && expected.is_none(), "{data}"),
        }
    }
}

#[test]
fn a_site_that_names_no_backend_is_told_how_to_name_one() {
    let (_, design) = design("");
    let context = Context {
        simulated_state: "nowhere".into(),
        secrets: Arc::new(NoSecrets),
    };
    let error = choose(&design, &context).err().unwrap();
    assert!(matches!(error, Error::NoBackends));
    assert!(error.hint().unwrap().contains("trueup/Backends/v1"));
    assert_eq!(clock(&design), Clock::Real);
    assert_eq!(HardwareBackend::default().kind, BackendKind::None);
}

#[tokio::test(start_paused = true)]
async fn each_node_goes_to_the_backend_that_selects_it_and_time_jumps_only_where_all_allow_it() {
    let site = Site::new(2);
    let data = "hardware: {kind: sim}, overrides: [{selector: {node_names: [n2]}, hardware: {kind: sim, sim: {state: other.json, faults: [{outcome: fail, message: here}]}}}]";
    let (_, design) = design(&backends(data));
    assert_eq!(clock(&design), Clock::Virtual);
    let context = Context {
        simulated_state: site.path(),
        secrets: Arc::new(NoSecrets),
    };
    let hardware = choose(&design, &context).unwrap();
    assert_eq!(hardware.observe(&site.nodes).await.len(), 2);
    hardware
        .act(&site.order("R1", StepKind::Prepare, 0))
        .await
        .unwrap();
    let answer = hardware.act(&site.order("R1", StepKind::Prepare, 1)).await;
    assert_eq!(answer, Err(ActError::Permanent(Arc::from("here"))));
    assert!(site.path().with_file_name("other.json").exists());
    let (_, real) = self::design(&backends(&data.replace("{state", "{clock: real, state")));
    assert_eq!(clock(&real), Clock::Real);
}
