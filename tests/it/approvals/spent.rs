//! An approval is for one run, whatever happens to that.

use std::process::Child;

use super::{POLICY, REDEPLOY, Team};

const OFF: [&str; 5] = ["power", "off", "edge-1", "edge-2", "--parallelism=1"];
use crate::cli_interrupted::{clone, same_machines, wait_for_effect};
use crate::fixture::{Ended, Fixture};

impl Team {
    /// Everything needs an approval, and the simulator works in real time, so that a run can be caught in the middle.
    pub(super) fn slowly(&self) {
        self.site
            .simulator("{clock: real, durations: {power: 1}, faults: []}");
        let policy = POLICY.replace("redeploy: 1", "any: 1");
        self.site.checkout.write("policy.yaml", policy);
        self.site.commit_and_apply("In real time", &[]).with(0);
        self.site.checkout.git(&["push", "--quiet"]);
    }

    /// Begins a run with an approval of Bob, which is killed when the first of two machines is off; gives its plan.
    fn is_killed_with_an_approval(&self) -> String {
        self.slowly();
        let plan = self.plan(&OFF);
        self.approve(&plan, "bob", &[]).with(0);
        let run = self.site.start(&["apply", &plan]);
        wait_for_effect(&self.site, "edge-1 powered-off");
        kill(run);
        plan
    }

    /// The runs that have begun with an approval, by the records at the remote.
    fn spenders(&self) -> usize {
        let runs = self.site.run(&["log", "--format", "json"]).with(0).json();
        let runs = runs["runs"].as_array().unwrap().clone();
        runs.iter()
            .filter(|run| run["approvals"].is_array())
            .count()
    }
}

fn ended(child: Child) -> Ended {
    child.wait_with_output().unwrap().into()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_approval_is_spent_by_the_first_run_that_begins_with_it() {
    let team = Team::new();
    team.demands_an_approval_of_all();
    let words = ["drain", "edge-1"];
    let plan = team.plan(&words);
    team.approve(&plan, "bob", &[]).with(0);
    team.site.run(&["apply", &plan]).with(0);
    let again = team.plan(&words);
    team.site
        .run(&["apply", &again])
        .with(4)
        .saying("it was spent by run");
    // Another one is another.
    team.approve(&again, "bob", &[]).with(0);
    team.site.run(&["apply", &again]).with(0);
    assert_eq!(team.spenders(), 2);
}

#[test]
fn of_two_applies_with_one_approval_exactly_one_begins() {
    let team = Team::new();
    team.slowly();
    let second = clone(&team.site, &team.origin);
    std::fs::remove_file(second.simulated_site()).unwrap();
    std::os::unix::fs::symlink(team.site.simulated_site(), second.simulated_site()).unwrap();
    for (round, state) in (1..).zip(["off", "on", "off", "on"]) {
        let plan = team.plan(&["power", state, "edge-1"]);
        team.approve(&plan, "bob", &[]).with(0);
        let effect = format!("powered-{state}");
        let before = team.site.effects(&effect);
        let start = |site: &Fixture| site.start(&["apply", &plan]);
        let racers = [start(&team.site), start(&second)].map(ended);
        let won = racers.iter().filter(|ended| ended.code == 0).count();
        assert_eq!(won, 1, "{round}: {racers:?}");
        let lost = racers.iter().find(|ended| ended.code != 0).unwrap();
        assert!([4, 5, 6].contains(&lost.code), "{round}: {lost:?}");
        assert_eq!(team.site.effects(&effect), before + 1, "{round}");
        assert_eq!(team.spenders(), round);
    }
}

#[test]
fn a_run_that_was_killed_keeps_its_approval_and_is_resumed_in_another_clone() {
    let team = Team::new();
    team.is_killed_with_an_approval();
    let second = clone(&team.site, &team.origin);
    let name = team.refs().pop().unwrap();
    team.origin.git(&["update-ref", "-d", &name]);
    // Nobody else begins with it, and who resumes needs no flag.
    second.run(&["apply", "--resume"]).with(0);
    same_machines(&second, &team.site);
    assert_eq!(team.site.effects("powered-off"), 2);
    let again = team.plan(&OFF);
    team.site.run(&["apply", &again]).with(4);
}

#[test]
fn a_run_whose_approval_is_taken_out_of_its_record_is_not_resumed_elsewhere() {
    let team = Team::new();
    team.is_killed_with_an_approval();
    let name = team.refs().pop().unwrap();
    team.origin.git(&["update-ref", "-d", &name]);
    let attacker = clone(&team.site, &team.origin);
    attacker.run(&["log"]).with(0);
    let git = |arguments: &[&str]| attacker.checkout.git(arguments);
    let state = "refs/trueup/edge/state";
    let files = git(&["ls-tree", "-r", "--name-only", state]);
    let records = files.lines().filter(|path| path.ends_with("/run.json"));
    let record = records.max().unwrap();
    let text = git(&["show", &format!("{state}:{record}")]);
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["approvals"].is_array(), "{json}");
    json["approvals"] = serde_json::json!([]);
    git(&["read-tree", "--empty"]);
    git(&["read-tree", state]);
    attacker.checkout.write("forged.json", json.to_string());
    let blob = git(&["hash-object", "-w", "forged.json"]);
    let entry = format!("100644,{},{record}", blob.trim());
    git(&["update-index", "--cacheinfo", &entry]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", tree.trim(), "-p", state, "-m", "forged"]);
    git(&[
        "push",
        "--quiet",
        "origin",
        &format!("{}:{state}", commit.trim()),
    ]);
    let second = clone(&team.site, &team.origin);
    let lock = ["rev-parse", "refs/trueup/edge/lock"];
    let before = team.origin.git(&lock);
    second
        .run(&["apply", "--resume", "--take-over-dead"])
        .with(4)
        .saying("the plan lacks approvals");
    assert_eq!(team.origin.git(&lock), before, "its lock was not taken");
}

#[test]
fn a_run_that_could_not_begin_spends_nothing() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let hook = team.origin.path().join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\ncase \"$1\" in */state) exit 1;; esac\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    team.site.run(&["apply", &plan]).with(1);
    assert_eq!(team.site.effects("deployed"), 3);
    std::fs::remove_file(&hook).unwrap();
    team.site.run(&["apply", &plan]).with(0);
    assert_eq!(team.spenders(), 1);
}

#[test]
fn a_run_is_not_resumed_by_the_approval_of_somebody_who_has_left_since() {
    let team = Team::new();
    let plan = team.is_killed_with_an_approval();
    let lines = ["ada", "carol"].map(|name| team.signer(name, name));
    team.site.checkout.write("allowed_signers", lines.concat());
    team.site.checkout.commit("Bob has left");
    let refused = team.site.run(&["apply", "--resume"]).with(4);
    refused.saying("`any` needs 1: 1 missing");
    assert_eq!(team.site.effects("powered-off"), 1);
    // Somebody who has not left approves the same effect, and the run goes on.
    team.approve(&plan, "carol", &[]).with(0);
    team.site.run(&["apply", "--resume"]).with(0);
    assert_eq!(team.site.effects("powered-off"), 2);
}
