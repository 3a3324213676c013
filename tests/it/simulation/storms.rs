//! Storms: three clones of one remote, commands drawn at random, processes killed at random instants, clones lost, the
//! remote away. After each command the claims of every clone are held against what the machines have been through.
//!
//! `TRUEUP_TEST_STORMS=300` lets so many pass, `TRUEUP_TEST_STORM=17` only that one, with all that was said. The
//! commands are those of the number; the instants of kills are parts of a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trueup::backend::hardware::sim::{Answer, Effect};
use trueup::record::NodeRecord;

use super::claims;
use super::processes::Sites;
use super::sites::{DEFINITION, Machine, Text};
use crate::amount::number;
use crate::dice::Dice;
use crate::fixture::{Ended, Fixture};
use crate::git::{Checkout, Origin};

/// Storms that pass unless more are asked for.
const STORMS: u64 = 1;
/// Storms at the same time: their processes wait for the clock half of it.
const AT_ONCE: u64 = 4;
/// Commands in each.
const COMMANDS: usize = 20;
/// How often a site that has been through a storm is gone on with until it is as designed.
const ROUNDS: usize = 10;
const SITE: &str = "stage";
const NODES: [&str; 7] = ["c1", "c2", "c3", "w1", "w2", "w3", "w4"];
const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];

/// All that is designed, on all machines.
const UPDATE: [&str; 5] = [
    "apply",
    "--yes",
    "--allow-intermediate-commits",
    "--allow-redeploy",
    "all",
];

/// A site in three clones.
struct Storm {
    number: u64,
    dice: Dice,
    machines: Sites,
    origin: Origin,
    clones: Vec<Fixture>,
    text: Text,
    /// Of which nodes a run may destroy what they hold, by the command that began it.
    allowed: BTreeMap<String, BTreeSet<String>>,
    /// The newest run that is divided among workers, by the name that the engine gives it.
    divided: Option<String>,
    /// How many processes were killed before they ended.
    killed: usize,
    told: String,
}

/// A command, and the nodes of which it may destroy what they hold.
struct Drawn {
    arguments: Vec<String>,
    wipes: Vec<&'static str>,
}

impl Drawn {
    fn of(arguments: &[&str], wipes: &[&'static str]) -> Self {
        Self {
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            wipes: wipes.to_vec(),
        }
    }
}

fn site() -> Text {
    let mut text = Text::cluster();
    for (name, address) in [("w3", 16), ("w4", 17)] {
        text.machines.push(Machine {
            name: name.to_owned(),
            address,
            profile: "worker",
            rack: "r3".to_owned(),
            tags: vec!["worker".to_owned()],
            label: None,
        });
    }
    text
}

impl Storm {
    fn new(number: u64) -> Self {
        let mut storm = Self {
            number,
            dice: Dice(number),
            machines: Sites::of(NODES.map(String::from).into()),
            origin: Origin::new(),
            clones: Vec::new(),
            text: site(),
            allowed: BTreeMap::new(),
            divided: None,
            killed: 0,
            told: String::new(),
        };
        let first = Checkout::clone_of(&storm.origin.url(), &[]);
        first.write("site-definition.yaml", DEFINITION);
        first.write("site.yaml", storm.text.to_string());
        first.commit("The site");
        first.git(&["push", "--quiet", "origin", "HEAD:main"]);
        storm.clones = (0..3).map(|_| storm.clone_anew()).collect();
        storm
    }

    fn clone_anew(&self) -> Fixture {
        let clone = Fixture::of(Checkout::clone_of(&self.origin.url(), &[]), SITE);
        let machines = self.machines.folder.path().to_str().unwrap();
        clone
            .checkout
            .git(&["config", "trueup.simulatedSites", machines]);
        clone
    }

    fn tell(&mut self, words: std::fmt::Arguments<'_>) {
        writeln!(self.told, "{words}").unwrap();
        if std::env::var_os("TRUEUP_TEST_STORM").is_some() {
            eprintln!("{words}");
        }
    }

    /// Changes the design, and pushes that from a clone.
    fn edit(&mut self, clone: usize) {
        match self.dice.below(4) {
            0 => {
                let profile = self.dice.below(2);
                self.text.kernels[profile].1 += 1;
            }
            1 => {
                let machine = self.dice.below(NODES.len());
                self.text.machines[machine].rack = format!("r{}", self.dice.below(9));
            }
            _ => {
                let machine = self.dice.below(NODES.len());
                self.text.machines[machine].label = Some(format!("v{}", self.dice.below(9)));
            }
        }
        let text = self.text.to_string();
        let checkout = &self.clones[clone].checkout;
        checkout.write("site.yaml", text);
        checkout.commit("Change the site");
        checkout.git(&["push", "--quiet", "origin", "HEAD:main"]);
        self.tell(format_args!("{clone}: edit"));
    }

    fn follow(&self, clone: usize) {
        let checkout = &self.clones[clone].checkout;
        checkout.git(&["fetch", "--quiet", "origin"]);
        checkout.git(&["reset", "--quiet", "--hard", "origin/main"]);
    }

    /// The run that is not over, if any, as a clone sees it.
    fn unfinished(&self, clone: usize) -> Option<String> {
        let log = self.clones[clone].run(&["log", "--format", "json"]).with(0);
        let runs = log.json()["runs"].as_array().unwrap().clone();
        let open = |run: &&Value| run["outcome"] == "running" || run["outcome"] == "interrupted";
        let found = runs.iter().find(open)?;
        Some(found["run"].as_str().unwrap().to_owned())
    }

    fn draw(&mut self, clone: usize) -> Drawn {
        let node = self.dice.pick(&NODES);
        let worker = self.dice.pick(&WORKERS);
        if self.divided.is_some() && self.dice.chance(75) {
            return self.draw_part(clone);
        }
        match self.dice.below(20) {
            0..4 => Drawn::of(&UPDATE, &NODES),
            4..6 => Drawn::of(&UPDATE[..3], &[]),
            6..8 => Drawn::of(&["apply", "redeploy", node, "--yes"], &[node]),
            8 => Drawn::of(&["apply", "teardown", worker, "--yes"], &[worker]),
            9 => Drawn::of(&["apply", "drain", worker, "--yes"], &[]),
            10 => Drawn::of(&["apply", "uncordon", worker, "--yes"], &[]),
            11 => Drawn::of(&["apply", "power", "off", worker, "--yes"], &[]),
            12 => Drawn::of(&["apply", "power", "on", worker, "--yes"], &[]),
            13 => Drawn::of(&["apply", "decommission", worker, "--yes"], &[worker]),
            14 | 15 => match self.unfinished(clone) {
                Some(run) => Drawn::of(&["abort", &run], &[]),
                None => Drawn::of(&["plan"], &[]),
            },
            16..18 => Drawn::of(&["apply", "--resume"], &[]),
            _ => self.draw_begin(clone),
        }
    }

    /// The begin of a run that is divided among workers.
    fn draw_begin(&mut self, clone: usize) -> Drawn {
        let fixture = &self.clones[clone];
        let path = fixture.checkout.outside().join("site.plan");
        let path = path.to_str().unwrap();
        let plan = ["plan", "-o", path, "--allow-redeploy", "all"];
        fixture.run(&[&plan[..], &UPDATE[2..3]].concat());
        let shown = fixture.run(&["show", path, "--format", "json"]);
        if shown.code != 0 {
            return Drawn::of(&["plan"], &[]);
        }
        let name = format!("storm-{}", self.told.len());
        let plan = shown.json();
        let effect = plan["effect"].as_str().unwrap();
        let begin = ["run", "begin", path, "--run", &name, "--effect", effect];
        let sizes = ["--nodes-per-part", "2", "--pushes-per-minute", "0"];
        let drawn = Drawn::of(&[&begin[..], &sizes].concat(), &NODES);
        self.divided = Some(name);
        drawn
    }

    /// The digest of the plan that a run began with, as its engine hands it to workers.
    fn plan_digest(&self, clone: usize, run: &str) -> String {
        let log = self.clones[clone].run(&["log", "--format", "json"]).with(0);
        let log = log.json();
        let mut runs = log["runs"].as_array().unwrap().iter();
        let found = runs.find(|record| record["run"] == run).unwrap();
        found["plan_digest"].as_str().unwrap().to_owned()
    }

    /// What a worker of the divided run does next, or its engine.
    fn draw_part(&mut self, clone: usize) -> Drawn {
        let name = self.divided.clone().unwrap_or_default();
        let status = ["run", "status", &name, "--format", "json"];
        let status = self.clones[clone].run(&status);
        if status.code != 0 {
            self.divided = None;
            return Drawn::of(&["plan"], &[]);
        }
        let status = status.json();
        let digest = self.plan_digest(clone, status["run"].as_str().unwrap());
        let parts = status["parts"].as_array().unwrap().iter();
        let open = parts.filter(|part| part["state"] != "ended");
        let open: Vec<&str> = open.map(|part| part["part"].as_str().unwrap()).collect();
        let part = |part: &str| {
            Drawn::of(
                &["run", "part", &name, part, "--plan-digest", &digest],
                &NODES,
            )
        };
        match open.first() {
            _ if self.dice.chance(5) => Drawn::of(&["run", "abort", &name], &NODES),
            // Most often one that is ready; a task may also come twice, or too early.
            Some(first) if self.dice.chance(80) => part(first),
            Some(_) if self.dice.chance(60) => part(self.dice.pick(&open)),
            _ => Drawn::of(&["run", "end", &name], &NODES),
        }
    }

    /// Lets a command run in a clone, perhaps not to its end.
    fn carry_out(&mut self, clone: usize, drawn: &Drawn) {
        let words: Vec<&str> = drawn.arguments.iter().map(String::as_str).collect();
        let before = self.asked();
        let mut child = self.clones[clone].start(&words);
        let signal = match self.dice.below(10) {
            0..4 => Some(Signal::KILL),
            4 => Some(Signal::TERM),
            5 => Some(Signal::INT),
            _ => None,
        };
        if let Some(signal) = signal {
            self.await_instant(&mut child, before);
            if matches!(child.try_wait(), Ok(None)) {
                kill_process(Pid::from_child(&child), signal).unwrap();
            }
        }
        let ended: Ended = child.wait_with_output().unwrap().into();
        self.tell(format_args!(
            "{clone}: {} -> {} {signal:?}\n{}{}",
            words.join(" "),
            ended.code,
            ended.stdout,
            ended.stderr
        ));
        assert!(
            ended.code != 101 && !ended.stderr.contains("panicked"),
            "{}",
            self.told
        );
        self.killed += usize::from(ended.code == -1);
    }

    /// How much was asked of machines, in bytes.
    fn asked(&self) -> u64 {
        std::fs::metadata(self.machines.beside("requests"))
            .unwrap()
            .len()
    }

    /// Waits for an instant of a process: at some request to a machine, a little later, or at any time.
    fn await_instant(&mut self, child: &mut Child, before: u64) {
        let delay = Duration::from_millis(self.dice.below(300) as u64);
        if self.dice.chance(40) {
            return std::thread::sleep(delay);
        }
        // A request is about so long.
        let wanted = before + 200 * self.dice.below(8) as u64;
        while self.asked() <= wanted && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(delay / 20);
    }

    /// Notes what the runs may destroy that have begun since.
    fn note_allowed(&mut self, wipes: &[&'static str]) {
        let mut runs: BTreeSet<String> = self
            .machines
            .requests()
            .iter()
            .map(|request| request.run.to_string())
            .collect();
        // One that was killed before its first request is resumed by a later command.
        for clone in &self.clones {
            let folder = clone.checkout.path().join(".git/trueup").join(SITE);
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            runs.extend(files.map(|file| file.file_name().to_string_lossy().into_owned()));
        }
        for run in runs {
            self.allowed
                .entry(run)
                .or_insert_with(|| wipes.iter().map(|node| (*node).to_owned()).collect());
        }
    }

    /// Nothing twice, nothing that was not allowed, nothing unseen, nothing claimed that is not so.
    fn check(&mut self) {
        let mut begun = BTreeMap::new();
        for request in self.machines.requests() {
            if request.answer == Answer::Begun {
                let step = (request.run.to_string(), request.step.to_string());
                *begun.entry(step).or_insert(0) += 1;
            }
        }
        let twice: Vec<_> = begun.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "twice: {twice:#?}\n{}", self.told);

        let mut built = BTreeSet::new();
        for (node, entry) in self.machines.history() {
            let run = entry.run.to_string();
            match &entry.effect {
                Effect::Destroyed => {
                    let may = self
                        .allowed
                        .get(&run)
                        .is_some_and(|of| of.contains(node.as_str()));
                    assert!(may, "{node} destroyed by {run}\n{}", self.told);
                    built.remove(&node);
                }
                Effect::Deployed(_) => {
                    assert!(
                        built.insert(node.clone()),
                        "{node} built twice\n{}",
                        self.told
                    );
                }
                _ => {}
            }
        }

        let runs: BTreeSet<&String> = begun.keys().map(|(run, _)| run).collect();
        let mut claimed = Vec::new();
        for (number, clone) in self.clones.iter().enumerate() {
            let log = clone.run(&["log", "--format", "json"]);
            assert_eq!(log.code, 0, "{number}: {log:?}\n{}", self.told);
            let log = log.json();
            let listed = log["runs"].as_array().unwrap().iter();
            let listed: BTreeSet<&str> = listed.map(|run| run["run"].as_str().unwrap()).collect();
            for run in &runs {
                assert!(
                    listed.contains(run.as_str()),
                    "clone {number} does not list {run}\n{}",
                    self.told
                );
            }
            let status = clone.run(&["status", "--format", "json"]);
            assert!(
                matches!(status.code, 0),
                "{number}: {status:?}\n{}",
                self.told
            );
            let status = status.json();
            let records = status["nodes"].as_array().unwrap().iter();
            let records = records.map(|node| node["record"].clone());
            let records = records.filter(|record| !record.is_null());
            let records: Vec<NodeRecord> = records
                .map(|record| serde_json::from_value(record).unwrap())
                .collect();
            claimed.push(records);
        }
        for (number, records) in claimed.iter().enumerate() {
            let told = &self.told;
            let check =
                std::panic::AssertUnwindSafe(|| claims::check(&self.machines.file(), records));
            if let Err(panic) = std::panic::catch_unwind(check) {
                eprintln!("a claim in clone {number} of storm {}\n{told}", self.number);
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Follows what the program says until the site is as designed.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let clone = self.dice.below(self.clones.len());
            self.follow(clone);
            if let Some(run) = self.unfinished(clone) {
                self.end_run(clone, &run);
            } else {
                let on = [&["apply", "power", "on", "--yes"], &WORKERS[..]].concat();
                let ended = self.clones[clone].run(&on);
                self.tell(format_args!("settle {clone}: {on:?} -> {ended:?}"));
                let update = [&UPDATE[..], &["--adopt", "all"]].concat();
                let mut ended = self.clones[clone].run(&update);
                self.tell(format_args!("settle {clone}: {update:?} -> {ended:?}"));
                // What is blocked now is not by another round, when the rest is as designed.
                let skips = ended.code == 4 && ended.stderr.contains("`--skip-blocked`");
                if skips {
                    let rest = [&update[..], &["--skip-blocked"]].concat();
                    ended = self.clones[clone].run(&rest);
                    self.tell(format_args!("settle {clone}: {rest:?} -> {ended:?}"));
                }
                self.note_allowed(&NODES);
                // Of what only a redeploy repairs the plan names that.
                let shown = self.clones[clone].run(&["plan"]).stdout;
                let redeploys: BTreeSet<&str> = shown
                    .split("`trueup apply redeploy ")
                    .skip(1)
                    .filter_map(|rest| rest.split('`').next())
                    .collect();
                for node in &redeploys {
                    let redeploy = [&UPDATE[..1], &["redeploy", node, "--yes"]].concat();
                    let ended = self.clones[clone].run(&redeploy);
                    self.tell(format_args!("settle {clone}: {redeploy:?} -> {ended:?}"));
                }
                if ended.code == 0 && !skips && redeploys.is_empty() {
                    let plan = self.clones[clone].run(&["plan", "--format", "json"]);
                    assert_eq!(plan.code, 0, "{plan:?}\n{}", self.told);
                    let changes = plan.changes();
                    let shown = self.clones[clone].run(&["plan"]).stdout;
                    assert!(changes.is_empty(), "{shown}\n{}", self.told);
                    self.check();
                    return;
                }
            }
            self.note_allowed(&NODES);
            self.check();
        }
        panic!("storm {} does not settle\n{}", self.number, self.told);
    }

    /// Brings a run to its end, as its operator may.
    fn end_run(&mut self, clone: usize, run: &str) {
        let resume = self.dice.chance(60);
        let parts = self.clones[clone].run(&["run", "status", run, "--format", "json"]);
        if parts.code != 0 {
            let resumed: &[&str] = &["apply", "--resume"];
            let words = if resume { resumed } else { &["abort", run] };
            let mut ended = self.clones[clone].run(words);
            self.tell(format_args!("settle {clone}: {words:?} -> {ended:?}"));
            if matches!(ended.code, 4 | 5) {
                // It names the command that a person who has seen the plan gives.
                let said = std::mem::take(&mut ended.stderr);
                let hint = said.split("hint: ").last().unwrap_or_default();
                let command = hint.split('`').nth(1).unwrap_or_default();
                let words: Vec<&str> = command.split_whitespace().skip(1).collect();
                ended = self.clones[clone].run(&words);
                self.tell(format_args!("settle {clone}: {words:?} -> {ended:?}"));
            }
            let may = [0, 7 * i32::from(resume)];
            assert!(may.contains(&ended.code), "{ended:?}\n{}", self.told);
            return;
        }
        if !resume {
            let ended = self.clones[clone].run(&["run", "abort", run]);
            self.tell(format_args!("settle {clone}: run abort -> {ended:?}"));
            assert_eq!(ended.code, 0, "{ended:?}\n{}", self.told);
            return;
        }
        let parts = parts.json();
        let digest = self.plan_digest(clone, run);
        for part in parts["parts"].as_array().unwrap() {
            let part = part["part"].as_str().unwrap();
            let words = ["run", "part", run, part, "--plan-digest", &digest];
            let ended = self.clones[clone].run(&words);
            self.tell(format_args!("settle {clone}: {part} -> {ended:?}"));
            if ended.code == 6 && ended.stderr.contains("was to end or to abort the run") {
                // A process was killed that ended it, or aborted it.
                let ended = self.clones[clone].run(&["run", "abort", run]);
                assert_eq!(ended.code, 0, "{ended:?}\n{}", self.told);
                return;
            }
            assert!(matches!(ended.code, 0 | 7 | 99), "{ended:?}\n{}", self.told);
        }
        let ended = self.clones[clone].run(&["run", "end", run]);
        self.tell(format_args!("settle {clone}: run end -> {ended:?}"));
        assert!(matches!(ended.code, 0 | 7), "{ended:?}\n{}", self.told);
    }

    fn pass(&mut self) {
        for _ in 0..COMMANDS {
            let clone = self.dice.below(self.clones.len());
            if self.dice.chance(8) {
                self.tell(format_args!("{clone}: lost, and cloned anew"));
                self.clones[clone] = self.clone_anew();
            }
            self.follow(clone);
            if self.dice.chance(25) {
                self.edit(clone);
            }
            let drawn = self.draw(clone);
            let away = self.dice.chance(8);
            let (here, there) = (
                self.origin.path().to_owned(),
                self.machines.folder.path().join("away"),
            );
            if away {
                self.tell(format_args!("the remote is away"));
                std::fs::rename(&here, &there).unwrap();
            }
            self.carry_out(clone, &drawn);
            if away {
                std::fs::rename(&there, &here).unwrap();
            }
            self.note_allowed(&drawn.wipes);
            self.check();
        }
        self.settle();
    }
}

#[test]
fn nothing_is_done_twice_or_unseen_or_claimed_wrongly_in_a_storm() {
    let storms = match number("TRUEUP_TEST_STORM") {
        Some(storm) => storm..storm + 1,
        None => 0..number("TRUEUP_TEST_STORMS").unwrap_or(STORMS),
    };
    let count = storms.end - storms.start;
    let (next, killed) = (AtomicU64::new(storms.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..count.min(AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= storms.end {
                        break;
                    }
                    let mut storm = Storm::new(number);
                    storm.pass();
                    killed.fetch_add(storm.killed as u64, Relaxed);
                }
            });
        }
    });
    let killed = killed.into_inner();
    eprintln!("{killed} processes killed in {count} storms");
    assert!(
        count == 1 || killed > 0,
        "no process was killed in {count} storms"
    );
}
