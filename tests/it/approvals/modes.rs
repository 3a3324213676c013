//! Modes of a site in pairs, each with a process that is killed and succeeded in another clone: records on a branch, a run in
//! parts, signed runs, approvals, several sites in one repository, and a remote that takes refs one by one.

use std::path::Path;
use std::process::{Command, Stdio};

use super::super::cli_interrupted::shared;
use super::super::fixture::{Ended, Fixture, copy_folder, wait_until};
use super::super::git::{Checkout, Origin};
use super::{PEOPLE, Team};
use crate::amount::every;
use crate::folder::folder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Branch,
    Parts,
    Signed,
    Approvals,
    Several,
    OneByOne,
}

use Mode::{Approvals, Branch, OneByOne, Parts, Several, Signed};

/// Pairs that each test tries, unless all are.
const TRIED: usize = 2;

const RUN: &str = "nightly";

const OFF: [&str; 6] = [
    "power",
    "off",
    "edge-1",
    "edge-2",
    "edge-3",
    "--parallelism=1",
];

/// A site in two modes.
struct Pair {
    modes: [Mode; 2],
    team: Team,
}

impl Pair {
    /// The site, applied once.
    fn new(modes: [Mode; 2]) -> Self {
        let team = Team {
            site: Fixture::of(Checkout::new(), "edge"),
            origin: Origin::new(),
            keys: folder(),
        };
        let mut pair = Self { modes, team };
        pair.write_documents();
        let site = std::mem::replace(&mut pair.team.site, Fixture::of(Checkout::new(), "none"));
        (pair.team.site, pair.team.origin) = shared(site);
        if pair.has(OneByOne) {
            let origin = &pair.team.origin;
            origin.git(&["config", "receive.advertiseAtomic", "false"]);
        }
        pair.set(&pair.team.site, "ada");
        let plan = pair.approved(&[]);
        pair.run(&pair.team.site, &["apply", &plan]).with(0);
        pair
    }

    fn has(&self, mode: Mode) -> bool {
        self.modes.contains(&mode)
    }

    fn write_documents(&self) {
        let checkout = &self.team.site.checkout;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples");
        let mut beside = "";
        if self.has(Several) {
            beside = "edge/";
            copy_folder(&root.join("one-rack"), &checkout.path().join("one-rack"));
        }
        copy_folder(&root.join("edge"), &checkout.path().join(beside));
        let settings =
            "{clock: real, durations: {prepare: 0.1, deploy: 0.1, power: 1}, faults: []}";
        self.team
            .site
            .simulator_at(&format!("{beside}backends.yaml"), settings);
        let lines = PEOPLE.map(|name| self.team.signer(name, name)).concat();
        checkout.write("allowed_signers", lines);
        let rules = [
            (Signed, "signed_runs: required"),
            (Approvals, "approvals: {any: 1}"),
        ];
        let rules = rules.iter().filter(|(mode, _)| self.has(*mode));
        let rules: Vec<&str> = rules.map(|(_, rule)| *rule).collect();
        let policy = format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{{}}}\n",
            rules.join(", ")
        );
        checkout.write(&format!("{beside}policy.yaml"), policy);
        checkout.commit("The site");
    }

    /// What a clone sets for itself.
    fn set(&self, clone: &Fixture, name: &str) {
        if self.has(Branch) {
            let set = ["config", "trueup.stateBranch", "trueup"];
            clone.checkout.git(&set);
        }
        if self.has(Signed) {
            self.team.sign_as(clone, name);
        }
    }

    /// Another clone, at the same machines.
    fn clone(&self) -> Fixture {
        let clone = Fixture::of(Checkout::clone_of(&self.team.origin.url(), &[]), "edge");
        let machines = self.team.site.checkout.path().join(".git/trueup");
        let machines = machines.to_str().unwrap();
        clone
            .checkout
            .git(&["config", "trueup.simulatedSites", machines]);
        self.set(&clone, "carol");
        clone
    }

    fn command(&self, clone: &Fixture, arguments: &[&str]) -> Command {
        let mut command = clone.command(arguments);
        if self.has(Several) {
            command.env("TRUEUP_SITE", "edge");
        }
        command
    }

    #[track_caller]
    fn run(&self, clone: &Fixture, arguments: &[&str]) -> Ended {
        self.command(clone, arguments).output().unwrap().into()
    }

    /// The file of a plan, with the approval that it needs.
    fn approved(&self, words: &[&str]) -> String {
        let site = &self.team.site;
        let file = self.team.keys.path().join("site.plan");
        let file = file.to_str().unwrap().to_owned();
        self.run(site, &[&["plan"], words, &["-o", &file]].concat())
            .with(0);
        if self.has(Approvals) {
            let key = self.team.key("bob");
            let key = key.to_str().unwrap();
            self.run(site, &["approve", &file, "--yes", "--key", key])
                .with(0);
        }
        file
    }

    /// Starts a process that is killed once something holds.
    fn is_killed(&self, arguments: &[&str], holds: impl FnMut() -> bool) {
        let mut command = self.command(&self.team.site, arguments);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_until("it has begun", holds);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "{arguments:?} had ended");
    }

    /// A run that is killed, and resumed in another clone.
    fn at_once(&self, plan: &str, second: &Fixture) {
        let site = &self.team.site;
        self.is_killed(&["apply", plan], || {
            site.ledger().contains_key("edge-1 powered-off")
        });
        self.other_site(second);
        self.run(second, &["apply", "--resume"]).with(0);
    }

    /// A run in parts, whose worker is killed and succeeded in another clone.
    fn in_parts(&self, plan: &str, second: &Fixture) {
        let begin = ["run", "begin", plan, "--run", RUN, "--nodes-per-part", "3"];
        let begin = [
            &begin[..],
            &["--pushes-per-minute", "0", "--format", "json"],
        ]
        .concat();
        let begun = self.run(&self.team.site, &begin).with(0).json();
        let digest = begun["plan_digest"].as_str().unwrap();
        let status = || {
            let status = self.run(second, &["run", "status", RUN, "--format", "json"]);
            status.with(0).json()
        };
        let parts = status()["parts"].as_array().unwrap().clone();
        let mut is_killed = false;
        for (number, part) in parts.iter().enumerate() {
            let name = part["part"].as_str().unwrap();
            let part = ["run", "part", RUN, name, "--plan-digest", digest];
            if name.contains("nodes") && !is_killed {
                is_killed = true;
                self.is_killed(&part, || status()["parts"][number]["state"] == "running");
                self.other_site(second);
                self.run(second, &["run", "end", RUN]).with(8);
            }
            self.run(second, &part).with(0);
        }
        assert!(is_killed, "{parts:?}");
        self.run(second, &["run", "end", RUN]).with(0);
    }

    /// The run of one site is in nobody's way at another.
    fn other_site(&self, clone: &Fixture) {
        if self.has(Several) {
            let mut command = clone.command(&["apply", "--yes"]);
            let ended: Ended = command
                .env("TRUEUP_SITE", "one-rack")
                .output()
                .unwrap()
                .into();
            ended.with(0);
        }
    }

    /// Everything happened once, and every clone is told the same.
    fn is_proven(&self) {
        let ledger = self.team.site.ledger();
        for machine in ["edge-1", "edge-2", "edge-3"] {
            for effect in ["deployed", "powered-off"] {
                let count = ledger.get(&format!("{machine} {effect}"));
                assert_eq!(count, Some(&1), "{machine} {effect} in {:?}", self.modes);
            }
        }
        let fresh = self.clone();
        let log = self.run(&fresh, &["log", "--format", "json", "-n", "1"]);
        let run = log.with(0).json()["runs"][0].clone();
        assert_eq!(run["outcome"], "succeeded", "{:?}: {run}", self.modes);
        let refs = self
            .team
            .origin
            .git(&["for-each-ref", "--format=%(refname)"]);
        let is_open = |name: &&str| name.ends_with("/lock") || name.contains("/run/");
        assert_eq!(refs.lines().find(is_open), None, "{:?}", self.modes);
        assert_eq!(
            refs.contains("refs/heads/trueup"),
            self.has(Branch),
            "{refs}"
        );
    }
}

#[track_caller]
fn hold(pairs: &[[Mode; 2]]) {
    for modes in pairs.iter().step_by(every(TRIED, pairs.len())) {
        eprintln!("{modes:?}");
        let pair = Pair::new(*modes);
        let second = pair.clone();
        let plan = pair.approved(&OFF);
        match pair.has(Parts) {
            true => pair.in_parts(&plan, &second),
            false => pair.at_once(&plan, &second),
        }
        pair.is_proven();
    }
}

#[test]
fn records_on_a_branch_work_together_with_every_other_mode() {
    let others = [Parts, Signed, Approvals, Several, OneByOne];
    hold(&others.map(|other| [Branch, other]));
}

#[test]
fn runs_in_parts_work_together_with_every_other_mode() {
    let others = [Signed, Approvals, Several, OneByOne];
    hold(&others.map(|other| [Parts, other]));
}

#[test]
fn signed_runs_and_approvals_work_together_with_the_modes_of_repositories() {
    hold(&[
        [Signed, Approvals],
        [Signed, Several],
        [Signed, OneByOne],
        [Approvals, Several],
        [Approvals, OneByOne],
        [Several, OneByOne],
    ]);
}
