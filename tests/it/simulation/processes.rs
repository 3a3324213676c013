//! Real processes, in repositories of their own, at one simulated site: they share its machines and its time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use trueup::backend::hardware::sim::{
    Answer, Effect, HeldTime, LedgerEntry, MachineRequest, Settings, Simulator,
};
use trueup::design::NodeName;

use super::sites::{DEFINITION, Group, Machine, Text};
use crate::fixture::{Ended, Fixture, wait_until};
use crate::folder::folder;

/// A folder of simulated sites, and the names of the machines at its site.
pub(super) struct Sites {
    pub(super) folder: TempDir,
    names: Vec<String>,
}

impl Sites {
    fn new() -> Self {
        Self::of((0..12).map(|number| format!("w{number:02}")).collect())
    }

    /// A site that has machines of these names, and that writes down what they are asked for.
    pub(super) fn of(names: Vec<String>) -> Self {
        let sites = Self {
            folder: folder(),
            names,
        };
        std::fs::create_dir(sites.folder.path().join("stage")).unwrap();
        std::fs::write(sites.beside("requests"), "").unwrap();
        sites
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("stage/simulated-site.json")
    }

    pub(super) fn beside(&self, extension: &str) -> PathBuf {
        self.file().with_added_extension(extension)
    }

    /// A repository of its own whose site has some of the machines.
    fn repository(&self, machines: std::ops::Range<usize>) -> Fixture {
        let machine = |number: usize| Machine {
            name: self.names[number].clone(),
            address: 11 + number,
            profile: "worker",
            rack: "r1".to_owned(),
            tags: vec!["worker".to_owned()],
            label: None,
        };
        let text = Text {
            machines: machines.map(machine).collect(),
            groups: vec![Group {
                name: "all".to_owned(),
                critical: true,
                depends_on: Vec::new(),
                selectors: "[]".to_owned(),
                criteria: None,
            }],
            members: Vec::new(),
            has_cluster: false,
            ..Text::cluster()
        };
        let fixture = Fixture::empty("stage");
        fixture.checkout.write("site-definition.yaml", DEFINITION);
        fixture.checkout.write("site.yaml", text.to_string());
        fixture.checkout.commit("The site");
        let folder = self.folder.path().to_str().unwrap();
        fixture
            .checkout
            .git(&["config", "trueup.simulatedSites", folder]);
        fixture
    }

    /// All that happened, in the order in which it was written down.
    pub(super) fn history(&self) -> Vec<(NodeName, LedgerEntry)> {
        let simulator = Simulator::open(&self.file(), Settings::default()).unwrap();
        let mut all = Vec::new();
        for name in self.names.iter().map(|name| NodeName::from(name.as_str())) {
            if let Some(machine) = simulator.machine(&name).unwrap() {
                let entries = machine.ledger.entries();
                all.extend(entries.map(|entry| (name.clone(), entry)));
            }
        }
        all.sort_by_key(|(_, entry)| entry.sequence);
        all
    }

    /// The seconds at which machines were deployed.
    fn deployed(&self) -> BTreeSet<(NodeName, u64)> {
        let history = self.history().into_iter();
        let deployed = history.filter(|(_, entry)| matches!(entry.effect, Effect::Deployed(_)));
        deployed
            .map(|(name, entry)| (name, entry.at / 1000))
            .collect()
    }

    pub(super) fn requests(&self) -> Vec<MachineRequest> {
        let text = std::fs::read_to_string(self.beside("requests")).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Waits until others have come to a later time than the one that is held.
fn await_others(held: &HeldTime, others: usize) {
    wait_until("the others have arrived", || {
        held.waiting().unwrap() == others
    });
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn ended(child: Child) -> Ended {
    child.wait_with_output().unwrap().into()
}

#[test]
fn clones_that_name_one_folder_share_its_machines() {
    let sites = Sites::new();
    let (first, second) = (sites.repository(0..2), sites.repository(0..3));
    first.run(&["apply", "--yes"]).with(0);
    assert!(!first.simulated_site().exists());
    let planned = second.planned(&["--adopt", "all"]);
    assert_eq!(planned["w00"], "adopt");
    assert_eq!(planned["w02"], "create");
    second
        .checkout
        .git(&["config", "trueup.simulatedSites", "sites"]);
    second.run(&["plan"]).with(64).saying(
        "`trueup.simulatedSites` in git's configuration is `sites`, which is no absolute path",
    );
}

#[test]
fn processes_at_one_site_act_in_the_order_of_its_time() {
    let sites = Sites::new();
    let held = HeldTime::of(&sites.file()).unwrap();
    let repositories = [0..3, 3..6, 6..9, 9..12].map(|machines| sites.repository(machines));
    let running = repositories
        .each_ref()
        .map(|each| each.start(&["apply", "--yes"]));
    await_others(&held, 4);
    drop(held);
    for child in running {
        ended(child).with(0);
    }
    let history = sites.history();
    assert!(
        history.is_sorted_by_key(|(_, entry)| entry.at),
        "{history:#?}"
    );
    let deployed = sites.deployed();
    let expected = sites
        .names
        .iter()
        .map(|name| (NodeName::from(name.as_str()), 1020));
    assert_eq!(deployed, expected.collect());
    let requests = sites.requests();
    let processes: BTreeSet<u32> = requests.iter().map(|request| request.process).collect();
    assert_eq!(processes.len(), 4);
    assert!(
        requests
            .iter()
            .all(|request| request.answer == Answer::Begun),
        "{requests:#?}"
    );
    assert_eq!(requests.len(), 24);
}

#[test]
fn a_process_that_is_killed_does_not_stop_the_time_of_another_and_what_it_began_goes_on() {
    let sites = Sites::new();
    let held = HeldTime::of(&sites.file()).unwrap();
    let (first, second) = (sites.repository(0..6), sites.repository(6..12));
    let survives = first.start(&["apply", "--yes"]);
    let mut dies = second.start(&["apply", "--yes"]);
    await_others(&held, 2);
    dies.kill().unwrap();
    dies.wait().unwrap();
    let began = Instant::now();
    drop(held);
    ended(survives).with(0);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    second.run(&["apply", "--resume"]).with(0);
    assert_eq!(sites.deployed().len(), 12);
    let begun: Vec<_> = sites
        .requests()
        .into_iter()
        .filter(|request| request.answer == Answer::Begun)
        .collect();
    let steps: BTreeSet<_> = begun
        .iter()
        .map(|request| (&request.run, &request.step))
        .collect();
    assert_eq!((begun.len(), steps.len()), (24, 24), "{begun:#?}");
}

#[test]
fn a_process_that_is_stopped_is_left_behind_by_the_others() {
    let sites = Sites::new();
    let held = HeldTime::of(&sites.file()).unwrap();
    let (first, second) = (sites.repository(0..6), sites.repository(6..12));
    let runs = first.start(&["apply", "--yes"]);
    let stopped = second.start(&["apply", "--yes"]);
    await_others(&held, 2);
    signal(&stopped, Signal::STOP);
    drop(held);
    let first = ended(runs);
    signal(&stopped, Signal::CONT);
    first.with(0);
    ended(stopped).with(0);
    let deployed = sites.deployed();
    assert_eq!(deployed.len(), 12);
    let at = |name: &str| {
        deployed
            .iter()
            .find(|(node, _)| node.as_str() == name)
            .unwrap()
            .1
    };
    assert_eq!(at("w00"), 1020);
    // It was at the end of its prepare, and begins to deploy when the others have ended.
    assert_eq!(at("w06"), 1020 + 900);
}
