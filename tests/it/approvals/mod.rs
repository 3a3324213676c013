//! Approvals: plans that need signatures, by whose keys they have them, and what becomes of everything that only looks like one.

mod advisory;
mod audit;
mod break_glass;
mod covering;
mod demanded;
mod departed;
mod hardware_keys;
mod http;
mod modes;
mod refused;
mod signed;
mod spent;
mod takeover;
mod ticket;
mod workers;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::accepted::example;
use super::cli_interrupted::{clone, shared};
use super::fixture::{Ended, Fixture};
use super::git::Origin;

use crate::folder::folder;

/// The people whose keys are allowed, and one whose key is not. Ada is who applies.
const PEOPLE: [&str; 3] = ["ada", "bob", "carol"];

/// Teardowns need two approvals, redeploys one.
const POLICY: &str = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {approvals: {redeploy: 1, destroy: 2}}\n";

/// A site of three machines whose Policy asks for approvals, applied once, and the keys of its people.
struct Team {
    site: Fixture,
    origin: Origin,
    keys: tempfile::TempDir,
}

impl Team {
    /// Applies a policy under which every plan needs an approval.
    fn demands_an_approval_of_all(&self) {
        let policy = POLICY.replace("redeploy: 1", "any: 1");
        self.site.checkout.write("policy.yaml", policy);
        self.site
            .commit_and_apply("All needs an approval", &[])
            .with(0);
    }

    fn new() -> Self {
        let team = Self::unapplied();
        team.site.run(&["apply", "--yes"]).with(0);
        team
    }

    /// The same, before its first run.
    fn unapplied() -> Self {
        let keys = folder();
        let site = example("edge");
        let mut team = Self {
            site,
            origin: Origin::new(),
            keys,
        };
        let lines: String = PEOPLE.map(|name| team.signer(name, name)).concat();
        team.key("mallory");
        team.site.checkout.write("policy.yaml", POLICY);
        team.site.checkout.write("allowed_signers", lines);
        team.site.checkout.commit("The site with its rules");
        let (site, origin) = shared(team.site);
        team.site = site;
        team.origin = origin;
        team
    }

    /// The private key of a person, made if there is none yet.
    fn key(&self, name: &str) -> PathBuf {
        let path = self.keys.path().join(name);
        if !path.exists() {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
                .arg(&path)
                .status();
            assert!(made.unwrap().success());
        }
        path
    }

    /// The line of a person in the allowed signers, with a key of theirs.
    fn signer(&self, name: &str, key: &str) -> String {
        let public = self.key(key).with_extension("pub");
        let public = std::fs::read_to_string(public).unwrap();
        format!("{name}@example.org {public}")
    }

    /// Plans an action, and saves the plan; gives the file.
    fn plan(&self, words: &[&str]) -> String {
        self.plan_of(&self.site, words)
    }

    fn plan_of(&self, site: &Fixture, words: &[&str]) -> String {
        let file = self.keys.path().join("site.plan");
        let file = file.to_str().unwrap().to_owned();
        site.run(&[&["plan"], words, &["-o", &file]].concat())
            .with(0);
        file
    }

    /// Commits documents that loosen a guard, and applies them as all but Ada agree.
    fn agree(&self, message: &str) {
        self.site.checkout.commit(message);
        let plan = self.plan(&[]);
        self.approve(&plan, "bob", &[]).with(0);
        self.site
            .run(&["apply", &plan])
            .with(4)
            .saying("`loosening` needs 2: 1 missing");
        self.approve(&plan, "carol", &[]).with(0);
        self.site.run(&["apply", &plan]).with(0);
        // They are spent, and in the way of tests that look for others.
        for name in self.refs() {
            self.origin.git(&["update-ref", "-d", &name]);
        }
    }

    fn approve(&self, plan: &str, key: &str, more: &[&str]) -> Ended {
        let key = self.key(key);
        let own = ["approve", plan, "--yes", "--key", key.to_str().unwrap()];
        self.site.run(&[&own, more].concat())
    }

    /// The approvals of a plan of some words, as JSON.
    fn approvals(&self, words: &[&str]) -> Value {
        let plan = [&["plan", "--format", "json"], words].concat();
        self.site.run(&plan).with(0).json()["approvals"].clone()
    }

    /// Why approvals of a plan are refused, as the plan says.
    fn refused(&self, words: &[&str]) -> Vec<String> {
        let approvals = self.approvals(words);
        let all = approvals["refused"].as_array().cloned().unwrap_or_default();
        let reason = |each: &Value| each["reason"].as_str().unwrap().to_owned();
        all.iter().map(reason).collect()
    }

    /// The refs of approvals at the remote.
    fn refs(&self) -> Vec<String> {
        let all = self.origin.git(&[
            "for-each-ref",
            "--format=%(refname)",
            "refs/trueup/edge/approvals",
        ]);
        all.lines().map(str::to_owned).collect()
    }
}

const REDEPLOY: [&str; 2] = ["redeploy", "edge-1"];

#[test]
fn a_plan_is_applied_with_the_approvals_that_it_needs_and_not_without() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    let text = team
        .site
        .run(&[&["plan"][..], &REDEPLOY].concat())
        .with(0)
        .stdout;
    assert!(text.contains("redeploy: 1 approval, 1 missing"), "{text}");
    assert!(text.contains("UNAPPROVED: 1 approval is missing"), "{text}");
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("`redeploy` needs 1: 1 missing")
        .saying("trueup approve FILE");
    // What was given at a terminal or by a flag is no approval of another person.
    team.site
        .run(&[&["apply", "--yes"][..], &REDEPLOY].concat())
        .with(4);
    assert_eq!(team.site.effects("deployed"), 3);

    let told = team.approve(&plan, "bob", &[]).with(0).stderr;
    assert!(told.contains("as bob@example.org until 20"), "{told}");
    let approvals = team.approvals(&REDEPLOY);
    assert_eq!(approvals["given"][0]["by"], "bob@example.org");
    assert_eq!(approvals["needed"][0]["missing"], 0);
    for format in ["text", "markdown", "html"] {
        let arguments = [&["plan", "--format", format][..], &REDEPLOY].concat();
        let shown = team.site.run(&arguments).with(0).stdout;
        assert!(shown.contains("approved by bob"), "{format}: {shown}");
    }
    // So does the saved plan, which was approved after it was saved.
    let shown = team.site.run(&["show", &plan]).with(0).stdout;
    assert!(
        shown.contains("approved by bob") && !shown.contains("UNAPPROVED"),
        "{shown}"
    );
    let explained = team.site.run(&["explain", "edge-1", &plan]).with(0).stdout;
    assert!(!explained.contains("approvals are missing"), "{explained}");
    // The approval covers what the plan allows: no flag repeats it.
    team.site.run(&["apply", &plan]).with(0);
    assert_eq!(team.site.effects("deployed"), 4);
    let shown = team.site.run(&["show"]).with(0).stdout;
    assert!(shown.contains("approved  bob@example.org"), "{shown}");
    let runs = team.site.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(runs["runs"][0]["approvals"][0]["by"], "bob@example.org");
}

#[test]
fn an_approval_holds_for_the_effect_and_not_for_another() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    // A commit that changes nothing of it keeps it, another machine is another effect.
    team.site.checkout.write("README", "More words");
    team.site.checkout.commit("Words");
    let other = ["redeploy", "edge-2"];
    assert_eq!(team.approvals(&other)["needed"][0]["missing"], 1);
    // It is told that there is one, and of which effect.
    let refused = team.refused(&other);
    let approved = team.site.run(&["show", &plan, "--format", "json"]).with(0);
    let approved = approved.json()["effect"].as_str().unwrap()[..16].to_owned();
    let reason = format!("it is of another effect, {approved} (until ");
    assert!(
        refused.len() == 1 && refused[0].starts_with(&reason),
        "{refused:?}"
    );
    let both = ["redeploy", "edge-1", "edge-2"];
    let plan = team.plan(&both);
    team.site.run(&["apply", &plan]).with(4);
    let second = clone(&team.site, &team.origin);
    second.checkout.git(&["pull", "--quiet"]);
    let plan = team.plan_of(&second, &REDEPLOY);
    second.run(&["apply", &plan]).with(0);
}

#[test]
fn two_approvals_are_those_of_two_people_and_none_is_of_the_person_who_applies() {
    let team = Team::new();
    let lines = PEOPLE.map(|name| team.signer(name, name)).concat() + &team.signer("bob", "bob-2");
    team.site.checkout.write("allowed_signers", lines);
    team.agree("Another key");
    let words = ["teardown", "edge-1"];
    let plan = team.plan(&words);
    team.approve(&plan, "bob", &[]).with(0);
    team.approve(&plan, "bob-2", &[]).with(0);
    team.approve(&plan, "ada", &[]).with(0);
    let approvals = team.approvals(&words);
    let needed = approvals["needed"].as_array().unwrap();
    let destroy = needed.iter().find(|rule| rule["rule"] == "destroy");
    assert_eq!(destroy.unwrap()["missing"], 1, "{approvals}");
    assert_eq!(approvals["given"].as_array().unwrap().len(), 2);
    assert_eq!(team.refused(&words), ["it is of the person who applies"]);
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("`destroy` needs 2: 1 missing")
        .saying("ada@example.org does not count: it is of the person who applies");
    // Carol applies: then Ada's approval is another person's.
    let by_carol = |arguments: &[&str]| -> Ended {
        let mut command = team.site.command(arguments);
        command.env("GIT_COMMITTER_NAME", "Carol");
        command.env("GIT_COMMITTER_EMAIL", "Carol@example.org");
        command.stdin(Stdio::null()).output().unwrap().into()
    };
    by_carol(&["apply", &plan]).with(0);
}

#[test]
fn the_key_that_git_signs_with_tells_who_applies_whatever_name_they_give() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let key = team.key("bob");
    let git = |arguments: &[&str]| team.site.checkout.git(arguments);
    git(&["config", "gpg.format", "ssh"]);
    git(&["config", "user.signingkey", key.to_str().unwrap()]);
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("it is of the person who applies");
    // Also the one that `approve` signs with.
    git(&[
        "config",
        "user.signingkey",
        team.key("carol").to_str().unwrap(),
    ]);
    team.site
        .run(&["approve", &plan, "--yes"])
        .with(0)
        .saying("as carol@example.org");
    git(&["config", "--unset", "gpg.format"]);
    team.site.run(&["apply", &plan]).with(0);
}

#[test]
fn a_rule_may_name_whose_approvals_count_and_let_the_applier_be_one_of_them() {
    let policy = POLICY.replace(
        "redeploy: 1, destroy: 2",
        "'nodes>0': {count: 1, of: [carol@example.org]}, any: 2, applier_counts: true",
    );
    let team = Team::new();
    team.site.checkout.write("policy.yaml", policy);
    team.agree("Other rules");
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "ada", &[]).with(0);
    team.approve(&plan, "bob", &[]).with(0);
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("`nodes>0` needs 1 (of carol@example.org): 1 missing");
    team.approve(&plan, "carol", &[]).with(0);
    team.site.run(&["apply", &plan]).with(0);
}

#[test]
fn whoever_may_not_approve_is_told_so_before_anything_is_signed() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "mallory", &[])
        .with(4)
        .saying("is not one of the allowed signers");
    team.site
        .run(&["approve", &plan, "--yes"])
        .with(1)
        .saying("there is no key to sign with");
    team.approve(&plan, "bob", &["--expires", "721h"])
        .with(64)
        .saying("30 days at most");
    team.approve(&plan, "bob", &["--offline"]).with(64);
    let key = team.key("bob");
    team.site
        .run(&["approve", &plan, "--key", key.to_str().unwrap()])
        .with(64)
        .saying("stdin is not a terminal");
    let lone = team.keys.path().join("lone");
    std::fs::copy(&key, &lone).unwrap();
    team.site
        .run(&["approve", &plan, "--yes", "--key", lone.to_str().unwrap()])
        .with(1)
        .saying("the public key of the key to sign with is not found");
    assert!(team.refs().is_empty());
    let free = example("edge");
    free.checkout.commit("No rules");
    free.run(&["plan", "-o", &plan]).with(0);
    free.run(&["approve", &plan, "--yes", "--key", key.to_str().unwrap()])
        .with(1)
        .saying("asks for no approvals");
}

#[test]
fn status_and_log_show_approvals_to_people_and_to_scripts() {
    let team = Team::new();
    let status = |more: &[&str]| {
        let words = [&["status"][..], more].concat();
        team.site.run(&words).with(0)
    };
    let json = || status(&["--format", "json"]).json();
    assert!(!status(&[]).stdout.contains("Approvals"));
    assert_eq!(json()["approvals"], Value::Null);
    let log = team.site.run(&["log"]).with(0).stdout;
    assert!(!log.contains("APPROVED BY"), "{log}");
    team.demands_an_approval_of_all();
    let nodes = team.site.checkout.path().join("nodes.yaml");
    let nodes = std::fs::read_to_string(nodes).unwrap();
    let last = nodes.rsplit_once("---\n").unwrap().1;
    let fourth = last.replace("edge-3", "edge-4").replace(".13", ".14");
    let nodes = format!("{nodes}---\n{fourth}");
    team.site.checkout.write("nodes.yaml", nodes);
    team.site.checkout.commit("One more");
    let text = status(&[]).stdout;
    assert!(text.contains("any: 1 approval, 1 missing"), "{text}");
    assert_eq!(json()["approvals"]["needed"][0]["missing"], 1);
    let plan = team.plan(&[]);
    team.approve(&plan, "bob", &[]).with(0);
    let text = status(&[]).stdout;
    assert!(text.contains("approved by bob@example.org"), "{text}");
    assert_eq!(json()["approvals"]["given"][0]["by"], "bob@example.org");
    team.site.run(&["apply", &plan]).with(0);
    let log = team.site.run(&["log"]).with(0).stdout;
    assert!(log.contains("APPROVED BY"), "{log}");
    assert!(log.contains("bob@example.org"), "{log}");
    let html = team.site.run(&["show", "--format", "html"]).with(0).stdout;
    assert!(html.contains("approved by bob@example.org"), "{html}");
}
