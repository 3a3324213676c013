//! Several processes at one site: one time, and one cluster. Each is a thread with a runtime of its own here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::super::participants::{Participants, Place, Turn};
use super::*;
use crate::backend::Cluster;
use crate::design::ClusterName;
use crate::lifecycle::ProvisionState;
use crate::observed::Fact;

/// Longer than any of these tests waits.
const FOR_EVER: Duration = Duration::from_secs(10);

fn folder(site: &Site) -> PathBuf {
    site.path().with_added_extension("clock")
}

/// A process that has the site open.
struct Process {
    simulator: Simulator,
    time: Arc<SiteClock>,
}

impl Process {
    fn new(site: &Site, settings: Settings, longest_wait: Duration) -> Self {
        let time = SiteClock::new(Some(folder(site)), longest_wait);
        let world = World::open(&site.path(), time.clone()).unwrap();
        let world = Arc::new(Mutex::new(world));
        Self {
            simulator: Simulator { settings, world },
            time,
        }
    }

    /// Carries steps out in the common time.
    fn live<T>(&self, steps: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_unpark(arrived)
            .build()
            .unwrap();
        runtime.block_on(taking_part(&self.time, steps))
    }
}

/// A participant that the test moves.
struct Brake {
    participants: Participants,
    place: Place,
}

impl Brake {
    fn new(site: &Site) -> Self {
        let participants = Participants::create(&folder(site)).unwrap();
        let (place, at) = participants.join(0).unwrap();
        assert_eq!(at, 0);
        Self {
            participants,
            place,
        }
    }

    /// Lets time pass up to some second, and waits until all others have come so far.
    fn release(&mut self, second: u64) {
        let Self {
            participants,
            place,
        } = self;
        let mut turn = participants.arrive(place, second * 1000).unwrap();
        while turn != Turn::Its {
            assert_ne!(turn, Turn::LeftBehind);
            thread::yield_now();
            turn = participants.turn(place).unwrap();
        }
    }
}

/// All that happened, by its numbers: when, and to whom.
fn history(site: &Site) -> Vec<(u64, u64, String)> {
    let simulator = site.open("{}");
    let mut all = Vec::new();
    for node in &site.nodes {
        if let Some(machine) = simulator.machine(&node.name).unwrap() {
            let entries = machine.ledger.entries();
            all.extend(entries.map(|each| (each.sequence, each.at, node.name.to_string())));
        }
    }
    all.sort();
    all
}

#[test]
fn the_steps_of_several_processes_take_place_in_the_order_of_their_time_and_when_they_are_due() {
    let site = Site::new(3);
    let together = Barrier::new(3);
    thread::scope(|scope| {
        for (node, seconds) in [7, 11, 30].into_iter().enumerate() {
            let (site, together) = (&site, &together);
            scope.spawn(move || {
                let settings = settings(&format!("{{durations: {{power: {seconds}}}}}"));
                let process = Process::new(site, settings, FOR_EVER);
                process.live(async {
                    together.wait();
                    for round in 0..40 {
                        let kind = [StepKind::PowerOn, StepKind::PowerOff][round % 2];
                        let order = site.order(&format!("R{round}"), kind, node);
                        Hardware::act(&process.simulator, &order).await.unwrap();
                    }
                });
            });
        }
    });
    let history = history(&site);
    assert_eq!(history.len(), 120);
    assert!(history.is_sorted_by_key(|(_, at, _)| *at), "{history:?}");
    for (node, seconds) in [("n1", 7), ("n2", 11), ("n3", 30)] {
        let its = history.iter().filter(|(.., name)| name == node);
        let its: Vec<u64> = its.map(|(_, at, _)| *at).collect();
        let due: Vec<u64> = (1..=40).map(|round| round * seconds * 1000).collect();
        assert_eq!(its, due, "{node}");
    }
}

#[test]
fn who_comes_later_begins_at_the_time_of_the_slowest_and_who_only_looks_sees_the_site_as_of_it() {
    let site = Site::new(2);
    let mut brake = Brake::new(&site);
    let deploy = |node: usize| {
        let process = Process::new(&site, settings("{}"), FOR_EVER);
        process.live(async {
            for kind in [StepKind::Prepare, StepKind::Deploy] {
                let order = site.order("R1", kind, node);
                Hardware::act(&process.simulator, &order).await.unwrap();
            }
        });
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| deploy(0));
        let places = || fs::read(folder(&site).join("times")).unwrap().len() / 16;
        while places() < 2 {
            thread::yield_now();
        }
        brake.release(500);
        // The first one is at the end of its deploy already, and waits there.
        let observer = Process::new(&site, settings("{}"), FOR_EVER);
        assert_eq!(observer.time.now(), 500_000);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let seen = runtime.block_on(Hardware::observe(&observer.simulator, &site.nodes));
        let deploying = Fact::Known(ProvisionState::Deploying);
        assert_eq!(seen["n1"].provision, deploying);
        let second = scope.spawn(|| deploy(1));
        while places() < 3 {
            thread::yield_now();
        }
        brake.release(600);
        assert!(!first.is_finished());
        brake.release(5000);
        first.join().unwrap();
        second.join().unwrap();
    });
    let ends = |node: &str| -> Vec<u64> {
        let history = history(&site).into_iter();
        let its = history.filter(|(.., name)| name == node);
        its.map(|(_, at, _)| at / 1000).collect()
    };
    let (first, second) = (ends("n1"), ends("n2"));
    assert_eq!(first.last(), Some(&1020));
    assert_eq!(second.last(), Some(&1520));
}

#[test]
fn a_process_that_is_gone_while_others_wait_for_it_stops_their_time_no_longer() {
    let site = Site::new(1);
    let brake = Brake::new(&site);
    let began = std::time::Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let process = Process::new(&site, settings("{}"), FOR_EVER);
            process.live(async {
                let order = site.order("R1", StepKind::Prepare, 0);
                Hardware::act(&process.simulator, &order).await.unwrap();
            });
        });
        thread::sleep(Duration::from_millis(100));
        assert_eq!(history(&site), []);
        // Its lock is free, and its time stands in the file.
        drop(brake);
    });
    assert!(began.elapsed() < FOR_EVER, "{:?}", began.elapsed());
    assert_eq!(history(&site).len(), 2);
}

#[test]
fn a_process_that_is_stopped_is_left_behind_and_finds_the_time_further_on_when_it_comes_back() {
    let site = Site::new(3);
    let wait = Duration::from_millis(300);
    let is_over = AtomicBool::new(false);
    let together = Barrier::new(3);
    // It has its place and does not move; then it reads the time, or waits for a later one.
    let stopped = &|node: usize| {
        let process = Process::new(&site, settings("{}"), FOR_EVER);
        process.live(async {
            assert_eq!(process.time.now(), 0);
            together.wait();
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            if node == 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(process.time.now(), 120_000);
            let order = site.order("R1", StepKind::Prepare, node);
            Hardware::act(&process.simulator, &order).await.unwrap();
        });
    };
    thread::scope(|scope| {
        let both = [1, 2].map(|node| scope.spawn(move || stopped(node)));
        let began = std::time::Instant::now();
        let process = Process::new(&site, settings("{}"), wait);
        process.live(async {
            together.wait();
            let order = site.order("R1", StepKind::Prepare, 0);
            Hardware::act(&process.simulator, &order).await.unwrap();
            assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
            is_over.store(true, Ordering::SeqCst);
            let has_begun = |node: usize| process.simulator.machine(&site.nodes[node].name);
            while [1, 2]
                .into_iter()
                .any(|node| has_begun(node).unwrap().is_none())
            {
                assert!(began.elapsed() < FOR_EVER, "the others did not come back");
                thread::sleep(Duration::from_millis(5));
            }
        });
        for stopped in both {
            stopped.join().unwrap();
        }
    });
    let history = history(&site).into_iter();
    let ends: BTreeSet<_> = history.map(|(_, at, node)| (at / 1000, node)).collect();
    let expected = [(120, "n1"), (240, "n2"), (240, "n3")];
    assert_eq!(
        ends,
        expected.map(|(at, node)| (at, node.to_owned())).into()
    );
}

#[test]
fn a_process_that_is_stopped_while_it_reads_the_times_holds_nothing_that_others_need() {
    let site = Site::new(1);
    let brake = Brake::new(&site);
    let times = fs::File::open(folder(&site).join("times")).unwrap();
    times.lock().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let site = &site;
        scope.spawn(move || {
            let process = Process::new(site, settings("{}"), Duration::from_millis(100));
            process.live(async {
                let order = site.order("R1", StepKind::Prepare, 0);
                Hardware::act(&process.simulator, &order).await.unwrap();
            });
            ended.send(()).unwrap();
        });
        let in_time = end.recv_timeout(FOR_EVER);
        times.unlock().unwrap();
        in_time.unwrap();
    });
    assert!(brake.participants.left_behind(&brake.place).unwrap());
    assert_eq!(history(&site).len(), 2);
}

#[test]
fn of_two_processes_that_ask_a_machine_at_the_same_instant_one_is_served() {
    let site = Site::new(1);
    fs::create_dir_all(site.path().parent().unwrap()).unwrap();
    let requests = site.path().with_added_extension("requests");
    fs::write(&requests, "").unwrap();
    let together = Barrier::new(3);
    let ask = |run: &str| {
        let process = Process::new(&site, settings("{}"), FOR_EVER);
        process.live(async {
            together.wait();
            let order = site.order(run, StepKind::Prepare, 0);
            Hardware::act(&process.simulator, &order).await
        })
    };
    let answers: Vec<_> = thread::scope(|scope| {
        // A second run, and the successor of a process of the first that still lives.
        let asked = ["R1", "R1", "R2"].map(|run| scope.spawn(move || ask(run)));
        asked.map(|asked| asked.join().unwrap()).into()
    });
    let served =
        |answers: &[Result<(), ActError>]| answers.iter().filter(|each| each.is_ok()).count();
    assert_eq!(answers[0].is_ok(), answers[1].is_ok());
    assert!(matches!(served(&answers), 1 | 2), "{answers:?}");
    assert_eq!(history(&site).len(), 2);
    let lines = fs::read_to_string(&requests).unwrap();
    let asked: Vec<MachineRequest> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |answer| asked.iter().filter(|each| each.answer == answer).count();
    assert_eq!(count(Answer::Begun), 1, "{lines}");
    assert_eq!(count(Answer::UnderWay), served(&answers) - 1, "{lines}");
    assert_eq!(count(Answer::Refused), 3 - served(&answers), "{lines}");
    let mut numbers: Vec<_> = asked.iter().map(|each| each.participant.unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(
        asked
            .iter()
            .all(|each| each.process == std::process::id() && each.at == 0)
    );
}

/// Lets each machine be asked for a step, by a process of its own and all at the same instant.
fn at_once(
    site: &Site,
    cluster: &str,
    kind: StepKind,
    nodes: usize,
) -> Vec<(Result<(), ActError>, u64)> {
    let together = Barrier::new(nodes);
    thread::scope(|scope| {
        let asked: Vec<_> = (0..nodes)
            .map(|node| {
                let together = &together;
                scope.spawn(move || {
                    let settings = cluster_settings("{}", cluster);
                    let process = Process::new(site, settings, FOR_EVER);
                    process.live(async {
                        together.wait();
                        let began = tokio::time::Instant::now();
                        let order = site.order("R1", kind, node);
                        let answer = Cluster::act(&process.simulator, &order).await;
                        (answer, began.elapsed().as_secs())
                    })
                })
            })
            .collect();
        asked.into_iter().map(|each| each.join().unwrap()).collect()
    })
}

async fn deployed(site: &Site, cluster: &str) {
    let simulator = site.open_cluster("{}", cluster);
    site.deployed(&simulator).await;
}

#[tokio::test(start_paused = true)]
async fn drains_by_several_processes_share_what_a_budget_allows() {
    let site = Site::new(3);
    let cluster = "{pods: [{name: web}], budgets: [{name: web, min_available: 2}]}";
    deployed(&site, cluster).await;
    let ended = at_once(&site, cluster, StepKind::Drain, 3);
    assert!(ended.iter().all(|(answer, _)| answer.is_ok()), "{ended:?}");
    // One pod may be away at a time, and takes ten seconds.
    let mut seconds: Vec<u64> = ended.iter().map(|(_, seconds)| *seconds).collect();
    seconds.sort_unstable();
    assert_eq!(seconds, [10, 20, 30]);
}

#[tokio::test(start_paused = true)]
async fn of_removals_from_etcd_by_several_processes_none_takes_the_quorum_away() {
    let site = Site::new(3);
    deployed(&site, "{}").await;
    let main = ClusterName::from("main");
    let simulator = site.open_cluster("{}", "{}");
    assert_eq!(simulator.etcd(&main).unwrap().len(), 3);
    // A fourth and a fifth member, which do not run.
    let mut off = site.machine(&simulator, 0);
    let member = off.members[&main].clone();
    for number in 4..=5 {
        off.power = crate::lifecycle::PowerState::Off;
        off.members.insert(
            main.clone(),
            Member {
                id: Arc::from(format!("{number}")),
                ..member.clone()
            },
        );
        let name = NodeName::from(&*format!("m{number}"));
        simulator.seed(&name, off.clone()).unwrap();
    }
    drop(simulator);
    // Of five members three run: none of them may go.
    let ended = at_once(&site, "{}", StepKind::RemoveEtcd, 3);
    assert!(ended.iter().all(|(answer, _)| answer.is_err()), "{ended:?}");
    // Of four three run: one of them may, and two are a quorum of the three that are left.
    let simulator = site.open_cluster("{}", "{}");
    let gone = Machine {
        members: BTreeMap::new(),
        ..off
    };
    simulator.seed(&NodeName::from("m5"), gone).unwrap();
    drop(simulator);
    let ended = at_once(&site, "{}", StepKind::RemoveEtcd, 3);
    let removed = ended.iter().filter(|(answer, _)| answer.is_ok()).count();
    assert_eq!(removed, 1, "{ended:?}");
}
