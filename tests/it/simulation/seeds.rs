//! Whole sites by seed: what is designed, what is asked for, what goes wrong and when a process dies is all
//! drawn from one number, and the same number gives the same run, byte for byte.
//!
//! `TRUEUP_TEST_SEEDS=100000` tries so many, `TRUEUP_TEST_SEED=4711` only that one, and tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use trueup::apply::{Decision, Finished, RunReport, session::Timekeeper as _};
use trueup::design::NodeName;
use trueup::lifecycle::PowerState;
use trueup::plan::{Action, ChangeKind, Options};
use trueup::record::Outcome;
use trueup::step::StepKind;

use super::death::Death;
use super::ledger::Ledger;
use super::model;
use super::sites::{Group, Machine, Text};
use super::{End, Errand, Planned, Stage, allowing_all, request};

/// Seeds that are tried where nobody says how many.
const SEEDS: u64 = 300;

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn some<T: Clone>(&mut self, of: &[T], percent: usize) -> Vec<T> {
        of.iter()
            .filter(|_| self.chance(percent))
            .cloned()
            .collect()
    }
}

const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const HARDWARE_STEPS: [&str; 4] = ["prepare", "deploy", "destroy", "relabel"];
const CLUSTER_STEPS: [&str; 8] = [
    "drain",
    "uncordon",
    "clear-labels",
    "remove-etcd",
    "check-etcd",
    "shutdown-kubelet",
    "remove-from-cluster",
    "await-ready",
];

fn text(dice: &mut Dice) -> Text {
    let has_cluster = dice.chance(75);
    let controls = match has_cluster {
        true => dice.pick(&[0, 1, 3, 3, 3]),
        false => dice.pick(&[0, 1]),
    };
    let workers = 1 + dice.below(4);
    let machine = |dice: &mut Dice, number: usize, profile: &'static str| Machine {
        name: format!("{}{number}", &profile[..1]),
        address: 11 + number + if profile == "worker" { 40 } else { 0 },
        profile,
        rack: dice.pick(&RACKS).to_owned(),
        tags: [
            vec![profile.to_owned()],
            dice.some(&["x".to_owned(), "y".to_owned()], 30),
        ]
        .concat(),
        label: None,
    };
    let mut machines: Vec<Machine> = (0..controls)
        .map(|number| machine(dice, number, "control"))
        .collect();
    machines.extend((0..workers).map(|number| machine(dice, number, "worker")));
    let members = match has_cluster {
        true => (0..controls).map(|number| format!("c{number}")).collect(),
        false => Vec::new(),
    };
    let mut text = Text {
        machines,
        kernels: [("control", 0), ("worker", 0)],
        groups: Vec::new(),
        members,
        has_cluster,
        faults: Vec::new(),
        cluster_faults: Vec::new(),
        more: String::new(),
    };
    regroup(&mut text, dice);
    break_things(&mut text, dice);
    text
}

fn regroup(text: &mut Text, dice: &mut Dice) {
    text.groups.clear();
    let names: Vec<String> = text
        .machines
        .iter()
        .map(|machine| machine.name.clone())
        .collect();
    for number in 0..1 + dice.below(3) {
        let named = dice.some(&names, 50).join(", ");
        let selectors = match dice.below(6) {
            0 => "[{node_tags: [control]}]".to_owned(),
            1 => "[{node_tags: [worker]}]".to_owned(),
            2 => format!("[{{rack_names: [{}]}}]", dice.pick(&RACKS)),
            3 => format!(
                "[{{node_tags: [x]}}, {{rack_names: [{}]}}]",
                dice.pick(&RACKS)
            ),
            4 if !named.is_empty() => format!("[{{node_names: [{named}]}}]"),
            _ => "[]".to_owned(),
        };
        let earlier: Vec<String> = (0..number).map(|number| format!("g{number}")).collect();
        let criteria = [
            format!(
                "percent_successful_nodes: {}",
                dice.pick(&[0, 50, 60, 66, 100])
            ),
            format!("minimum_successful_nodes: {}", dice.below(3)),
            format!("maximum_failed_nodes: {}", dice.below(3)),
        ];
        let criteria = dice.some(&criteria, 35).join(", ");
        text.groups.push(Group {
            name: format!("g{number}"),
            critical: dice.chance(40),
            depends_on: dice.some(&earlier, 40),
            selectors,
            criteria: (!criteria.is_empty()).then(|| format!("{{{criteria}}}")),
        });
    }
}

fn break_things(text: &mut Text, dice: &mut Dice) {
    let fault = |dice: &mut Dice, steps: &[&str], machines: &[Machine]| {
        let node = dice.pick(machines).name;
        let step = dice.pick(steps);
        let outcome = match dice.below(8) {
            0 => "fail, times: 1".to_owned(),
            1 => "fail".to_owned(),
            2 => format!("fail-once, times: {}", 1 + dice.below(4)),
            3 => format!("late, seconds: {}", dice.pick(&[5, 90, 7200])),
            4 => "hang".to_owned(),
            5 => format!("hang, seconds: {}", dice.pick(&[50, 4000])),
            6 => "unobservable, times: 1".to_owned(),
            _ => "lost-answer".to_owned(),
        };
        format!("{{nodes: [{node}], step: {step}, outcome: {outcome}}}")
    };
    let machines = text.machines.clone();
    text.faults = (0..dice.pick(&[0, 0, 1, 1, 2, 3]))
        .map(|_| fault(dice, &HARDWARE_STEPS, &machines))
        .collect();
    text.cluster_faults = match text.has_cluster {
        true => (0..dice.pick(&[0, 0, 0, 1, 2]))
            .map(|_| fault(dice, &CLUSTER_STEPS, &machines))
            .collect(),
        false => Vec::new(),
    };
}

/// Somebody edits the documents.
fn edit(text: &mut Text, dice: &mut Dice) {
    let machine = dice.below(text.machines.len());
    match dice.below(9) {
        0 | 1 => text.kernels[dice.below(2)].1 += 1,
        2 => text.machines[machine].label = Some(format!("v{}", dice.below(3))),
        3 => text.machines[machine].rack = dice.pick(&RACKS).to_owned(),
        4 => {
            let workers = text
                .machines
                .iter()
                .filter(|machine| machine.profile == "worker")
                .count();
            let number = 10 + text.machines.len();
            let name = format!("w{number}");
            if workers < 6 && text.machines.iter().all(|machine| machine.name != name) {
                text.machines.push(Machine {
                    name,
                    address: 60 + number,
                    profile: "worker",
                    rack: dice.pick(&RACKS).to_owned(),
                    tags: vec!["worker".to_owned()],
                    label: None,
                });
            }
        }
        5 => {
            let is_named = |text: &Text, name: &str| {
                text.groups
                    .iter()
                    .any(|group| group.selectors.contains(name))
            };
            let name = text.machines[machine].name.clone();
            if text.machines.len() > 1 && !text.members.contains(&name) && !is_named(text, &name) {
                text.machines.remove(machine);
            }
        }
        6 => regroup(text, dice),
        7 => {
            let name = &text.machines[machine].name;
            if !text.members.contains(name) {
                text.more = format!(
                    "---\nschema: trueup/NodeRetirement/v1\nmetadata: {{name: retired}}\ndata:\n  \
                     retirements: [{{node_names: [{name}], reason: old}}]\n"
                );
            }
        }
        _ => text.more.clear(),
    }
    if dice.chance(60) {
        break_things(text, dice);
    }
    // Whom a document names must be there.
    let machines = &text.machines;
    if !machines
        .iter()
        .any(|machine| text.more.contains(&format!("[{}]", machine.name)))
    {
        text.more.clear();
    }
}

fn death(dice: &mut Dice) -> Option<Death> {
    Some(match dice.below(10) {
        0 => Death::Torn(dice.below(30), dice.below(120)),
        1 => Death::Written(dice.below(30)),
        2 => Death::Before(dice.below(30)),
        3 => Death::Behind(dice.below(30)),
        4 => Death::Looking(dice.below(60)),
        5 | 6 => Death::After(Duration::from_millis(dice.next() % 3_000_000)),
        _ => return None,
    })
}

fn options(dice: &mut Dice) -> Options {
    Options {
        parallelism: 1 + dice.below(4),
        parallel_groups: 1 + dice.below(2),
        overlap: dice.chance(30),
        max_unavailable: dice.pick(&[None, Some(1), Some(2)]),
        canary: dice.chance(15),
        ..allowing_all()
    }
}

const ACTIONS: [Action; 18] = [
    Action::Redeploy,
    Action::Redeploy,
    Action::Teardown,
    Action::Decommission,
    Action::Drain,
    Action::Uncordon,
    Action::PowerOff,
    Action::PowerOn,
    Action::Remediate,
    Action::Remediate,
    Action::Relabel,
    Action::Clean,
    Action::Manage,
    Action::Provide,
    Action::SetMaintenance,
    Action::UnsetMaintenance,
    Action::Retire,
    Action::Unretire,
];

/// One seed's story.
struct Tale {
    seed: u64,
    dice: Dice,
    stage: Stage,
    text: Text,
    /// All that was said and done.
    trace: String,
    runs: usize,
    deaths: usize,
    /// Whether all is said at once, for whoever looks for a fault.
    is_loud: bool,
}

impl Tale {
    fn new(seed: u64, is_loud: bool) -> Self {
        let mut dice = Dice(seed);
        let text = text(&mut dice);
        let tale = Self {
            seed,
            dice,
            stage: Stage::new(),
            text,
            trace: String::new(),
            runs: 0,
            deaths: 0,
            is_loud,
        };
        tale.stage.commit(&tale.text.to_string());
        tale
    }

    fn tell(&mut self, line: &str) {
        if self.is_loud {
            eprintln!("{line}");
        }
        self.trace.push_str(line);
        self.trace.push('\n');
    }

    fn whole(&mut self) {
        self.act(Action::Update, &[]);
        for _ in 0..1 + self.dice.below(3) {
            if self.dice.chance(60) {
                edit(&mut self.text, &mut self.dice);
                self.stage.commit(&self.text.to_string());
                self.act(Action::Update, &[]);
            } else {
                let names: Vec<String> = self
                    .text
                    .machines
                    .iter()
                    .map(|machine| machine.name.clone())
                    .collect();
                let mut nodes = self.dice.some(&names, 25);
                if nodes.is_empty() {
                    nodes.push(self.dice.pick(&names));
                }
                let action = self.dice.pick(&ACTIONS);
                let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
                self.act(action, &nodes);
            }
        }
        let lines = Ledger::of(&self.stage).lines();
        for line in lines {
            self.tell(&line);
        }
        let tags = self.stage.tags().join(" ");
        self.tell(&tags);
    }

    /// Asks for something, and sees it through.
    fn act(&mut self, action: Action, nodes: &[&str]) {
        self.stage.clock.off.store(
            i64::try_from(self.dice.below(200_000)).unwrap() - 100_000,
            Ordering::SeqCst,
        );
        let options = options(&mut self.dice);
        let asked = request(action, nodes);
        self.tell(&format!("{action} {nodes:?}"));
        let Ok(mut planned) = self.stage.plan(&asked, options.clone()) else {
            return;
        };
        if planned.plan.steps.is_empty() {
            return;
        }
        self.runs += 1;
        if self.is_loud {
            eprintln!("{}\n{:#?}", self.text, planned.plan.changes);
            for step in &planned.plan.steps {
                eprintln!("{} {:?}", step.id, step.needs);
            }
        }
        let before = self.stage.records().0.site.last_run;
        let mut fails = Fails::default();
        let mut resumes = false;
        let mut decisions = BTreeMap::new();
        for life in 0..12 {
            let death = if life < 4 {
                death(&mut self.dice)
            } else {
                None
            };
            let errand = match resumes {
                true => Errand::Resume(std::mem::take(&mut decisions)),
                false => Errand::Apply(&planned, false),
            };
            let lived = self.stage.live(&errand, death);
            for line in &lived.told {
                fails.hear(line);
                self.tell(line);
            }
            Ledger::of(&self.stage).check();
            match lived.end {
                End::Died => {
                    self.deaths += 1;
                    self.tell("died");
                    resumes = true;
                    self.stage
                        .clock
                        .pause(Duration::from_secs(self.dice.next() % 1000));
                }
                End::Nothing => {
                    if self.stage.records().0.site.last_run != before {
                        // It had ended, and died before anybody heard of it.
                        return;
                    }
                    resumes = false;
                    fails = Fails::default();
                    match self.stage.plan(&asked, options.clone()) {
                        Ok(again) if !again.plan.steps.is_empty() => planned = again,
                        _ => return,
                    }
                }
                End::Failed(error) => panic!("seed {}: {error}", self.seed),
                End::Ended(ended) => {
                    let (report, finished) = *ended;
                    if !finished.interrupted {
                        self.judge(action, &planned, &fails, &report, &finished);
                        return;
                    }
                    resumes = true;
                    // Who is asked looks at the machine, and says what is true.
                    for (step, _) in &finished.undecided {
                        let done = self.dice.chance(50);
                        let decision = if done {
                            Decision::Done
                        } else {
                            Decision::NotBegun
                        };
                        fails.is_beyond = true;
                        decisions.insert(step.to_string().into(), decision);
                    }
                }
            }
        }
        panic!("seed {}: it does not come to its end", self.seed);
    }

    fn judge(
        &mut self,
        action: Action,
        planned: &Planned,
        fails: &Fails,
        report: &RunReport,
        finished: &Finished,
    ) {
        let plan = &planned.plan;
        // Groups that share nodes and run side by side are free to send them in any order.
        let has_order = plan.options.parallel_groups < 2 || fails.on_nodes.is_empty();
        if action == Action::Update && !fails.is_beyond && has_order {
            model::check(plan, &fails.on_nodes, fails.site, report, finished);
        }
        let is_success = matches!(
            report.outcome,
            Outcome::Succeeded | Outcome::SucceededWithFailures
        );
        let is_partial = plan
            .changes
            .iter()
            .any(|change| change.blocked.is_some() || change.excluded);
        let is_no_op = plan
            .changes
            .iter()
            .all(|change| change.kind == ChangeKind::None);
        let tag = report.tag.as_deref().unwrap_or_default();
        if action != Action::Update || (is_success && is_partial) {
            assert_eq!(report.tag, None, "{report:#?}");
        } else if is_success && !is_no_op {
            assert!(tag.starts_with("site-action-success/"), "{report:#?}");
        } else if !is_success {
            assert!(
                fails.site || tag.starts_with("site-action-failure/"),
                "{report:#?}"
            );
        }
        if let Some(tag) = &report.tag {
            assert!(
                self.stage.tags().contains(&format!("refs/tags/{tag}")),
                "{tag}"
            );
        }
        if report.outcome == Outcome::Succeeded
            && matches!(
                action,
                Action::Update | Action::Redeploy | Action::Remediate
            )
        {
            let ledger = Ledger::of(&self.stage);
            for change in &plan.changes {
                let is_done = change.blocked.is_none() && !change.shown_only && !change.excluded;
                let is_built = matches!(change.kind, ChangeKind::Create | ChangeKind::Redeploy)
                    || (action == Action::Remediate && change.kind == ChangeKind::Operation);
                if is_done && is_built {
                    let machine = &ledger.machines[&change.node];
                    let node = machine.cluster.as_ref();
                    assert_eq!(machine.power, PowerState::On, "{} is left off", change.node);
                    assert!(
                        node.is_none_or(|node| node.ready),
                        "{} is not Ready",
                        change.node
                    );
                    let is_cordoned = node.is_some_and(|node| node.unschedulable);
                    assert!(
                        action == Action::Remediate || !is_cordoned,
                        "{} is left cordoned",
                        change.node
                    );
                }
            }
        }
    }
}

/// What did not succeed, as events told it.
#[derive(Default)]
struct Fails {
    on_nodes: BTreeSet<(StepKind, NodeName)>,
    site: bool,
    /// Whether the model knows nothing of it: somebody decided, or what failed is no part of a deployment.
    is_beyond: bool,
}

impl Fails {
    fn hear(&mut self, line: &str) {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] != "step-finished"
            || event["outcome"] == "succeeded"
            || event["outcome"] == "not-needed"
        {
            return;
        }
        let kind = event["kind"].as_str().unwrap();
        let is_attempted = event["outcome"] != "skipped";
        // Skipped for what failed of the same node, and not for its group or its wave.
        let is_own = is_attempted
            || event["node"]
                .as_str()
                .zip(event["reason"].as_str())
                .is_some_and(|(node, reason)| {
                    !reason.starts_with("`wave/") && reason.contains(&format!("/{node}`"))
                });
        let Some(node) = event["node"].as_str() else {
            self.site |= is_attempted && matches!(kind, "verify-site" | "prepare-site");
            return;
        };
        self.is_beyond |= is_attempted && matches!(kind, "relabel" | "power-on");
        let kind = match kind {
            "prepare" if is_attempted => StepKind::Prepare,
            "deploy" if is_attempted => StepKind::Deploy,
            "await-ready" if is_own => StepKind::AwaitReady,
            "destroy" if is_own => StepKind::Destroy,
            _ => return,
        };
        self.on_nodes.insert((kind, node.into()));
    }
}

/// Tells one seed; what breaks says how to tell it again.
fn tell(seed: u64, is_loud: bool) -> Tale {
    let told = catch_unwind(AssertUnwindSafe(|| {
        let mut tale = Tale::new(seed, is_loud);
        tale.whole();
        tale
    }));
    told.unwrap_or_else(|panic| {
        eprintln!(
            "seed {seed} breaks a promise; again with:\n  \
             TRUEUP_TEST_SEED={seed} cargo nextest run --test it simulation::seeds --no-capture"
        );
        resume_unwind(panic)
    })
}

fn wanted() -> (u64, u64) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    match number("TRUEUP_TEST_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("TRUEUP_TEST_SEEDS").unwrap_or(SEEDS)),
    }
}

/// So many threads share the seeds: each test is one process.
fn every_seed(part: u64, parts: u64) {
    let (first, count) = wanted();
    let (mut runs, mut deaths) = (0, 0);
    for seed in (first..first + count).filter(|seed| count == 1 || seed % parts == part) {
        let tale = tell(seed, count == 1);
        runs += tale.runs;
        deaths += tale.deaths;
    }
    eprintln!("{runs} runs, {deaths} deaths");
}

#[test]
fn sites_of_even_seeds_keep_every_promise() {
    every_seed(0, 2);
}

#[test]
fn sites_of_odd_seeds_keep_every_promise() {
    every_seed(1, 2);
}

#[test]
fn the_same_seed_is_the_same_story_byte_for_byte() {
    for seed in 0..20 {
        let (one, other) = (tell(seed, false).trace, tell(seed, false).trace);
        let mut difference = String::new();
        for (one, other) in one
            .lines()
            .zip(other.lines())
            .filter(|(one, other)| one != other)
        {
            let _ = writeln!(difference, "- {one}\n+ {other}");
        }
        assert!(one == other, "seed {seed}:\n{difference}");
    }
}
