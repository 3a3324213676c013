//! Harm that is done to a real scheduler and its workers while they carry plans out: each run comes to its end, with the records and
//! the machines of an undisturbed apply, and no machine was asked for anything twice.
//!
//! `TRUEUP_TEST_AIRFLOW=50` tries so many, with workers that sleep past their leases, which takes minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::drawn;
use super::many::{ALLOWED, SHARED, SitePlan, Sites};
use super::processes::{ProcessEntry, processes, signal};
use super::scheduler::Scheduler;
use super::sites::Text;
use crate::amount::number;
use crate::dice::Dice;

/// Trials if nothing else is asked for.
const TRIALS: u64 = 10;
/// Trials whose workers sleep past their leases, if more than those are asked for.
const DELAYED: u64 = 6;
/// Trials at the same time.
const AT_ONCE: usize = 4;
/// The run of each DAG.
const RUN: &str = "harmed";
/// How long a lease is without a limit of pushes, and some more.
const PAST_LEASE: Duration = Duration::from_secs(420);
/// How often an operator has failed tasks carried out again.
const CLEARED: usize = 3;

/// The harm that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    /// SIGKILL of trueup.
    WorkerKilled,
    /// SIGKILL of the process of Airflow that called it.
    TaskKilled,
    /// SIGKILL of the process of Airflow that watches the task.
    SupervisorKilled,
    /// SIGKILL of the scheduler, and another is started.
    SchedulerKilled,
    /// SIGKILL of the scheduler and all that it has started, and another is started.
    MachineLost,
    /// The part is carried out by hand, too, in another clone.
    DeliveredTwice,
    /// The part is carried out by hand, too, in a clone that has never fetched since.
    StaleClone,
    /// The remote refuses all pushes of the site for a while.
    Refused,
    /// SIGSTOP of trueup for some seconds.
    Slept,
    /// SIGSTOP of trueup until the part was taken over in another clone.
    Delayed,
    /// SIGSTOP of trueup and the processes of Airflow above it, until Airflow has given the part to another worker.
    ZombieTask,
}

const ORDINARY: [Harm; 10] = [
    Harm::WorkerKilled,
    Harm::TaskKilled,
    Harm::DeliveredTwice,
    Harm::SchedulerKilled,
    Harm::Refused,
    Harm::StaleClone,
    Harm::Slept,
    Harm::SupervisorKilled,
    Harm::WorkerKilled,
    Harm::MachineLost,
];

/// The harm of a trial of so many.
fn harm(number: u64, of: u64) -> Harm {
    match number {
        _ if of <= TRIALS || number >= DELAYED => ORDINARY[number as usize % ORDINARY.len()],
        number if number % 3 == 2 => Harm::ZombieTask,
        _ => Harm::Delayed,
    }
}

struct Trial<'a> {
    sites: &'a Sites,
    scheduler: &'a Scheduler<'a>,
    plan: &'a SitePlan,
    harm: Harm,
    dice: Dice,
    log: Vec<String>,
    /// Commands that were given by hand.
    by_hand: Vec<Child>,
}

/// The site of a trial.
fn site(number: u64) -> String {
    format!("harmed-{number}")
}

/// The documents of a site without faults, whose machines take some real time: before, and as they are deployed; the largest
/// size of its parts.
fn documents(number: u64) -> ([String; 2], usize) {
    let mut dice = Dice(7_000 + number);
    let mut text = drawn::fair(&mut dice);
    while text.machines.len() < 2 {
        text = drawn::fair(&mut dice);
    }
    text.faults.clear();
    text.cluster_faults.clear();
    text.has_cluster = false;
    text.members.clear();
    let clock =
        "clock: real, durations: {prepare: 1, deploy: 1.5, destroy: 0.5, relabel: 0.5, power: 0.5}";
    let written = |text: &Text| text.to_string().replace("clock: virtual", clock);
    let before = written(&text);
    for kernel in &mut text.kernels {
        kernel.1 += 1;
    }
    ([before, written(&text)], 1 + dice.below(3))
}

impl Trial<'_> {
    /// The processes of trueup that are at work on the site, by Airflow's orders.
    fn workers(&self) -> Vec<ProcessEntry> {
        let mut workers = processes(self.sites.lab.folder.path());
        let own: BTreeSet<i32> = self
            .by_hand
            .iter()
            .map(|child| child.id().cast_signed())
            .collect();
        workers.retain(|each| each.is_worker(&self.plan.site) && !own.contains(&each.pid));
        workers
    }

    /// Waits until some more workers have begun, and then some time; `None`: the run ends before.
    fn await_worker(&mut self) -> Option<ProcessEntry> {
        let only_parts = !matches!(
            self.harm,
            Harm::WorkerKilled | Harm::SchedulerKilled | Harm::MachineLost
        );
        let mut left = self.dice.below(6);
        let mut met = BTreeSet::new();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(240) {
            for worker in self.workers() {
                let order = worker.order();
                let is_wanted = !only_parts || order.get(1).is_some_and(|word| word == "part");
                if !is_wanted || !met.insert(worker.pid) {
                    continue;
                }
                if left > 0 && order.get(1).is_some_and(|word| word != "end") {
                    left -= 1;
                    continue;
                }
                std::thread::sleep(Duration::from_millis(self.dice.next() % 900));
                // It may have ended meanwhile: then the next one is met.
                if ProcessEntry::read(worker.pid).is_some_and(|now| now.order() == order) {
                    return Some(worker);
                }
            }
            std::thread::sleep(Duration::from_millis(15));
        }
        None
    }

    /// Does the harm; whether there was something to do it to.
    fn hurt(&mut self) -> bool {
        let Some(worker) = self.await_worker() else {
            return false;
        };
        self.log
            .push(format!("{:?} at {:?}", self.harm, worker.order()));
        let above = ProcessEntry::read(worker.parent);
        match self.harm {
            Harm::WorkerKilled => signal(worker.pid, Signal::KILL),
            Harm::TaskKilled => signal(worker.parent, Signal::KILL),
            Harm::SupervisorKilled => {
                let Some(above) = above else { return false };
                signal(above.parent, Signal::KILL);
            }
            Harm::SchedulerKilled => self.scheduler.kill_scheduler(false),
            Harm::MachineLost => self.scheduler.kill_scheduler(true),
            Harm::DeliveredTwice => {
                let clone = format!("by-hand-{}", self.plan.site);
                self.sites.clone(&clone, SHARED);
                self.give_by_hand(&clone, &worker);
            }
            Harm::StaleClone => self.give_by_hand(&format!("stale-{}", self.plan.site), &worker),
            Harm::Refused => {
                let path = self.sites.lab.path("refusing").join(&self.plan.site);
                std::fs::write(&path, "").unwrap();
                std::thread::sleep(Duration::from_secs(self.dice.pick(&[3, 12, 25])));
                std::fs::remove_file(&path).unwrap();
            }
            Harm::Slept => {
                signal(worker.pid, Signal::STOP);
                std::thread::sleep(Duration::from_secs(self.dice.pick(&[2, 8, 20])));
                signal(worker.pid, Signal::CONT);
            }
            Harm::Delayed => {
                signal(worker.pid, Signal::STOP);
                let clone = format!("by-hand-{}", self.plan.site);
                self.sites.clone(&clone, SHARED);
                self.give_by_hand(&clone, &worker);
                let code = self.by_hand[0].wait().unwrap();
                self.log.push(format!("taken over: {code}"));
                signal(worker.pid, Signal::CONT);
            }
            Harm::ZombieTask => {
                let Some(above) = above else { return false };
                let all = [worker.pid, above.pid, above.parent];
                all.iter().for_each(|pid| signal(*pid, Signal::STOP));
                self.await_successor(&worker);
                all.iter().for_each(|pid| signal(*pid, Signal::CONT));
            }
        }
        true
    }

    /// Gives the order of a worker to another process, too.
    fn give_by_hand(&mut self, clone: &str, worker: &ProcessEntry) {
        let mut command = self.sites.trueup(clone, &self.plan.site);
        let log = self
            .sites
            .lab
            .path(&format!("by-hand-{}.log", self.plan.site));
        let log = std::fs::File::create(log).unwrap();
        command
            .args(worker.order())
            .stdin(std::process::Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.by_hand.push(command.spawn().unwrap());
    }

    /// Waits until another worker has had the same order, and has ended.
    fn await_successor(&mut self, worker: &ProcessEntry) {
        let began = Instant::now();
        let mut was_there = false;
        while began.elapsed() < PAST_LEASE {
            let mut others = self.workers().into_iter();
            let is_there =
                others.any(|each| each.pid != worker.pid && each.order() == worker.order());
            if was_there && !is_there && began.elapsed() > Duration::from_secs(305) {
                break;
            }
            was_there |= is_there;
            std::thread::sleep(Duration::from_millis(500));
        }
        let waited = began.elapsed().as_secs();
        self.log.push(format!(
            "a successor was there: {was_there}, after {waited} s"
        ));
        assert!(was_there, "{:#?}", self.log);
    }

    /// The whole trial; whether harm was done.
    fn run(&mut self) -> bool {
        let (dag, site) = (&self.plan.dag, &self.plan.site);
        self.scheduler.trigger(dag, RUN);
        let is_harmed = self.hurt();
        for mut child in std::mem::take(&mut self.by_hand) {
            let code = child.wait().unwrap();
            let text = std::fs::read_to_string(self.sites.lab.path(&format!("by-hand-{site}.log")));
            self.log.push(format!("by hand: {code}: {}", text.unwrap()));
        }
        let mut is_well = self.scheduler.await_end(dag, RUN);
        for _ in 0..CLEARED {
            if self.sites.is_over(self.plan) {
                break;
            }
            self.log
                .push(format!("cleared: {:?}", self.scheduler.tasks(dag, RUN)));
            self.scheduler.clear_failed(dag, RUN);
            is_well = self.scheduler.await_end(dag, RUN);
        }
        let logs = self.scheduler.logs(dag);
        let (did_well, expected) = self.sites.applied(self.plan).unwrap();
        assert_eq!(is_well, did_well, "{site}: {:#?} {logs}", self.log);
        let tries = self.scheduler.tasks(dag, RUN).into_iter();
        let tried = tries
            .filter(|task| task.tries > 1)
            .map(|task| (task.task, task.tries));
        self.log.push(format!(
            "tried again: {:?}",
            tried.collect::<BTreeMap<_, _>>()
        ));
        let ledger = self.sites.ledger(self.plan, SHARED);
        ledger.check_requests(&self.sites.requests(self.plan), &self.log);
        let difference = self.sites.outcome(self.plan, SHARED).difference(&expected);
        assert_eq!(difference, "", "{site}: {:#?} {logs}", self.log);
        is_harmed
    }
}

/// Sites for so many trials, planned.
fn planned(sites: &Sites, count: u64) -> Vec<SitePlan> {
    let drawn: Vec<([String; 2], usize)> = (0..count).map(documents).collect();
    let write = |version: usize| {
        for (number, (texts, _)) in (0..).zip(&drawn) {
            sites.write(&site(number), &texts[version]);
        }
        sites.commit();
    };
    write(0);
    // The worktrees of the workers have the documents of before, and so have all clones that are stale.
    sites.clones();
    for number in (0..count).filter(|number| harm(*number, count) == Harm::StaleClone) {
        sites.clone(&format!("stale-{}", site(number)), SHARED);
    }
    write(1);
    let plan = |(number, (_, size)): (u64, &([String; 2], usize))| {
        let plan = sites.plan(&site(number), &ALLOWED, *size);
        plan.unwrap_or_else(|| panic!("site {number} has no plan"))
    };
    (0..).zip(&drawn).map(plan).collect()
}

/// A remote that refuses pushes to the refs of sites whose names are in a folder.
fn refuse_on_demand(sites: &Sites) {
    let folder = sites.lab.path("refusing");
    std::fs::create_dir(&folder).unwrap();
    let hook = format!(
        "#!/bin/sh\nsite=${{1#refs/trueup/}}\n[ ! -e \"{}/${{site%%/*}}\" ]\n",
        folder.display()
    );
    sites.lab.write("origin.git/hooks/update", &hook);
    let path = sites.lab.path("origin.git/hooks/update");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn runs_on_a_scheduler_that_is_harmed_end_and_nothing_is_done_twice() {
    let count = number("TRUEUP_TEST_AIRFLOW").unwrap_or(TRIALS);
    let Some(mut sites) = Sites::new() else {
        return;
    };
    let plans = planned(&sites, count);
    sites.fork(&plans);
    refuse_on_demand(&sites);
    let ports = sites.lab.for_scheduler(4);
    sites.lab.find_losses_soon();
    let scheduler = Scheduler::start(&sites.lab, ports);
    let left = Mutex::new((0..).zip(&plans).collect::<Vec<(u64, &SitePlan)>>());
    left.lock().unwrap().reverse();
    let harmed = Mutex::new(BTreeMap::<Harm, usize>::new());
    let next = || left.lock().unwrap().pop();
    let work = || {
        while let Some((number, plan)) = next() {
            let harm = harm(number, count);
            let mut trial = Trial {
                sites: &sites,
                scheduler: &scheduler,
                plan,
                harm,
                dice: Dice(number),
                log: Vec::new(),
                by_hand: Vec::new(),
            };
            let began = Instant::now();
            if trial.run() {
                *harmed.lock().unwrap().entry(harm).or_default() += 1;
            }
            eprintln!("{} in {:?}: {:#?}", plan.site, began.elapsed(), trial.log);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let harmed = harmed.into_inner().unwrap();
    let done: usize = harmed.values().sum();
    eprintln!("{done} of {count} were harmed: {harmed:?}");
    assert!(done as u64 * 5 >= count * 4, "{harmed:?}");
}
