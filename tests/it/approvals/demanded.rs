//! Sites that take signed runs only: what somebody who may push every ref can do to their records, and what comes of it.

use std::process::Command;

use super::super::cli_interrupted::{clone, same_machines, wait_for_effect};
use super::super::fixture::Fixture;
use super::signed::STATE;
use super::{POLICY, Team};

/// A command that plans from the records.
const PLAN: [&str; 4] = ["plan", "power", "off", "edge-1"];
const APPLY: [&str; 5] = ["apply", "--yes", "power", "off", "edge-1"];

impl Team {
    /// Puts a commit with the files of the records at the end of them, as an attacker does: with the committer, the message
    /// and the signature of their choice.
    fn forge_records(&self, message: &str, key: Option<&str>) {
        let origin = self.origin.path();
        let mut command = Command::new("git");
        command.arg("-C").arg(origin).args(["-c", "gpg.format=ssh"]);
        command
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org");
        command
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org");
        if let Some(key) = key {
            let key = self.key(key);
            command
                .arg("-c")
                .arg(format!("user.signingkey={}", key.display()));
        }
        command.args(["commit-tree", "-p", STATE, "-m", message]);
        command.args(key.map(|_| "-S"));
        let tree = format!("{STATE}^{{tree}}");
        let made = command.arg(&tree).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let commit = String::from_utf8(made.stdout).unwrap();
        self.origin.git(&["update-ref", STATE, commit.trim()]);
    }

    /// The message of the newest commit of the records.
    fn message(&self) -> String {
        self.origin
            .git(&["log", "-1", "--format=%B", STATE])
            .trim()
            .to_owned()
    }

    #[track_caller]
    fn is_refused(&self, says: &str) {
        let state = self.origin.git(&["rev-parse", STATE]);
        self.site.run(&PLAN).with(4).saying(says);
        self.site.run(&APPLY).with(4).saying(says);
        assert_eq!(self.origin.git(&["rev-parse", STATE]), state, "{says}");
        assert_eq!(self.site.effects("powered-off"), 0);
    }
}

#[test]
fn records_are_planned_from_only_with_the_signature_of_an_allowed_signer() {
    let team = Team::signed();
    let honest = team.origin.git(&["rev-parse", STATE]);
    let message = team.message();
    let here = format!(
        "repository: {}",
        message.rsplit_once("repository: ").unwrap().1
    );
    for (message, key, says) in [
        (message.clone(), None, "they are not signed"),
        (
            message.clone(),
            Some("mallory"),
            "is not one of the allowed signers",
        ),
        (
            message.replace("site: edge", "site: core"),
            Some("bob"),
            "is no record of site `edge`",
        ),
        (
            message.replace(&here, "repository: git.example/other"),
            Some("bob"),
            ", but of `git.example/other` (`git config trueup.repository` names it)",
        ),
        (
            "Merge branch 'x'".to_owned(),
            Some("bob"),
            "what bob@example.org has signed is no record",
        ),
    ] {
        team.forge_records(&message, key);
        team.is_refused(says);
        team.origin.git(&["update-ref", STATE, honest.trim()]);
        team.site
            .checkout
            .git(&["update-ref", STATE, honest.trim()]);
    }
    // The key tells who it was, not the committer.
    team.forge_records(&message, Some("bob"));
    team.site.run(&APPLY).with(0);
    let runs = team.site.run(&["log", "--format", "json"]).with(0).json();
    let signers: Vec<_> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["signature"]["by"])
        .collect();
    assert_eq!(signers[..2], ["ada@example.org", "bob@example.org"]);
}

#[test]
fn records_that_have_to_be_signed_move_to_a_branch_with_a_signature_only() {
    const BRANCH: &str = "refs/heads/trueup/edge/state";
    let team = Team::signed();
    let set = ["config", "trueup.stateBranch", "trueup"];
    team.site.checkout.git(&set);
    let unsigned = clone(&team.site, &team.origin);
    unsigned.checkout.git(&set);
    let message = unsigned.run(&["migrate"]).with(4);
    message.saying("git has no SSH key");
    let refs = |name| team.origin.git(&["for-each-ref", name]);
    assert_eq!(refs(BRANCH), "");
    let locks = refs("refs/trueup/edge/lock");
    assert_eq!(locks, "");
    team.site.run(&["migrate"]).with(0);
    assert!(team.git_verifies(&["verify-commit", BRANCH]));
    // On top of the signed move, and with what keeps pipelines from starting in the message.
    team.site.run(&PLAN).with(0);
    team.site.run(&APPLY).with(0);
    assert!(team.git_verifies(&["verify-commit", BRANCH]));
    let message = team.origin.git(&["log", "-1", "--format=%B", BRANCH]);
    assert!(
        message.contains("\n\n[skip ci]\n\nsite: edge\n"),
        "{message}"
    );
    assert_eq!(team.signature()["by"], "ada@example.org");
    team.site.run(&["migrate", "--back"]).with(0);
    assert!(team.git_verifies(&["verify-commit", STATE]));
}

#[test]
fn a_signature_over_other_files_does_not_hold() {
    let team = Team::signed();
    let object = team.origin.git(&["cat-file", "commit", STATE]);
    let tree = team
        .origin
        .git(&["rev-parse", &format!("{STATE}^{{tree}}")]);
    let files = team.origin.git(&["ls-tree", STATE]) + "\n";
    let list = team.keys.path().join("list");
    std::fs::write(&list, files.replace("\tdurations.jsonl", "\tdurations")).unwrap();
    let mut command = Command::new("git");
    command.arg("-C").arg(team.origin.path()).arg("mktree");
    let other = command.stdin(std::fs::File::open(&list).unwrap()).output();
    let other = String::from_utf8(other.unwrap().stdout).unwrap();
    let forged = object.replace(tree.trim(), other.trim());
    assert_ne!(object, forged);
    let file = team.keys.path().join("forged");
    std::fs::write(&file, forged + "\n").unwrap();
    let words = ["hash-object", "-t", "commit", "-w", file.to_str().unwrap()];
    let commit = team.origin.git(&words);
    team.origin.git(&["update-ref", STATE, commit.trim()]);
    team.is_refused("its signature, said to be of ada@example.org, does not hold");
    let signature = team.signature();
    assert_eq!(signature["verdict"], "bad", "{signature}");
    let text = team.site.run(&["log"]).with(0).stdout;
    assert!(text.contains("BAD"), "{text}");
    let shown = team.site.run(&["show"]).with(0).stdout;
    assert!(shown.contains("signed    BAD: its signature"), "{shown}");
}

#[test]
fn a_run_begins_only_with_a_key_that_will_count() {
    let team = Team::signed();
    let state = team.origin.git(&["rev-parse", STATE]);
    team.sign_as(&team.site, "mallory");
    team.site
        .run(&APPLY)
        .with(4)
        .saying("a signature of this run would not count");
    team.site
        .checkout
        .git(&["config", "--unset", "user.signingkey"]);
    team.site
        .run(&APPLY)
        .with(4)
        .saying("git has no SSH key to sign with");
    assert_eq!(team.origin.git(&["rev-parse", STATE]), state);
    assert_eq!(team.site.effects("powered-off"), 0);
}

#[test]
fn the_rule_is_not_applied_by_a_run_that_it_would_refuse() {
    let team = Team::new();
    let policy = POLICY.replace("\ndata: {", "\ndata: {signed_runs: required, ");
    team.site.checkout.write("policy.yaml", policy);
    team.site
        .commit_and_apply("Signed runs", &[])
        .with(4)
        .saying("the Policy demands signed runs: git has no SSH key to sign with");
    // A key that its signers do not have would lock the site.
    team.sign_as(&team.site, "mallory");
    let state = team.origin.git(&["rev-parse", STATE]);
    team.site
        .run(&["apply", "--yes"])
        .with(4)
        .saying("a signature of this run would not count: its key");
    assert_eq!(team.origin.git(&["rev-parse", STATE]), state);
    team.sign_as(&team.site, "ada");
    team.site.run(&["apply", "--yes"]).with(0);
    team.site.run(&APPLY).with(0);
}

#[test]
fn the_first_run_of_a_site_begins_only_with_a_key_that_will_count() {
    let team = Team::unapplied();
    let policy = POLICY.replace("\ndata: {", "\ndata: {signed_runs: required, ");
    team.site.checkout.write("policy.yaml", policy);
    team.sign_as(&team.site, "mallory");
    team.site
        .commit_and_apply("Signed runs", &[])
        .with(4)
        .saying("a signature of this run would not count: its key");
    assert_eq!(team.origin.git(&["for-each-ref", STATE]), "");
    team.sign_as(&team.site, "ada");
    team.site.run(&["apply", "--yes"]).with(0);
    team.site.run(&PLAN).with(0);
}

#[test]
fn a_signer_who_was_removed_or_whose_time_is_over_signs_nothing_any_more() {
    let team = Team::signed();
    // One signer is enough for its rules.
    let policy = team.site.read("policy.yaml");
    team.site
        .checkout
        .write("policy.yaml", policy.replace("destroy: 2", "destroy: 1"));
    team.agree("One is enough");
    let lines = super::PEOPLE.map(|name| team.signer(name, name));
    let write = |lines: &[&str]| team.site.checkout.write("allowed_signers", lines.concat());
    // Bob applies that Ada has left, so that his signature is the newest.
    team.sign_as(&team.site, "bob");
    write(&[&lines[1], &lines[2]]);
    team.site.commit_and_apply("Ada has left", &[]).with(0);
    team.sign_as(&team.site, "ada");
    team.site.run(&APPLY).with(4).saying("would not count");
    // Who leaves does not apply that: the records could not be planned from any more.
    let message = team.message();
    team.sign_as(&team.site, "bob");
    write(&[&lines[2]]);
    team.site
        .commit_and_apply("Bob has left", &[])
        .with(4)
        .saying("would not count");
    team.sign_as(&team.site, "carol");
    team.site.run(&["apply", "--yes"]).with(0);
    // What Bob has signed afterwards is refused until Carol has looked at it.
    team.forge_records(&message, Some("bob"));
    team.is_refused("is not one of the allowed signers");
    team.site.run(&["log", "--sign"]).with(0);
    team.site.run(&PLAN).with(0);
    let over = lines[2].replace("ssh-ed25519", "valid-before=\"20250101Z\" ssh-ed25519");
    write(&[&over]);
    team.site
        .commit_and_apply("Carol's key is over", &[])
        .with(4)
        .saying("whose time is over");
}

#[test]
fn the_change_under_review_does_not_decide_whose_runs_count() {
    let team = Team::signed();
    let mallory = team.signer("mallory", "mallory");
    let honest = team.message();
    team.site.checkout.write("policy.yaml", POLICY);
    team.site.checkout.write("allowed_signers", &mallory);
    team.site.checkout.commit("Rules of our own");
    team.forge_records(&honest, Some("mallory"));
    team.is_refused("is not one of the allowed signers");
    let protected = ["--backends-from", "origin/main"];
    team.site
        .run(&[&PLAN[..], &protected].concat())
        .with(4)
        .saying("by the rules of origin/main");
}

#[test]
fn what_ends_a_run_does_not_vouch_for_records_that_were_forged() {
    let team = Team::signed();
    team.slowly_signed();
    team.is_killed_in_mid_run();
    team.site.run(&["log"]).with(0);
    let message = team.message();
    team.forge_records(&message, None);
    let ids = team.site.run(&["log", "--format", "json"]).with(0).json();
    let id = ids["runs"][0]["run"].as_str().unwrap().to_owned();
    team.site
        .run(&["apply", "--resume"])
        .with(4)
        .saying("they are not signed");
    let lock = team.origin.git(&["rev-parse", "refs/trueup/edge/lock"]);
    let second = second(&team);
    second
        .run(&["apply", "--resume", "--take-over-dead"])
        .with(4)
        .saying("they are not signed");
    assert_eq!(
        team.origin.git(&["rev-parse", "refs/trueup/edge/lock"]),
        lock,
        "its lock was taken"
    );
    team.site
        .run(&["abort", &id])
        .with(0)
        .saying("its end is not signed");
    team.site.run(&PLAN).with(4).saying("they are not signed");
}

#[test]
fn a_bad_signature_of_a_run_that_is_resumed_is_a_warning_where_none_is_demanded() {
    let team = Team::new();
    team.sign_as(&team.site, "ada");
    team.slowly_signed();
    team.is_killed_in_mid_run();
    team.forge_records(&team.message(), Some("mallory"));
    team.site
        .run(&["apply", "--resume"])
        .with(0)
        .saying("is bad: its key SHA256:")
        .saying("is not one of the allowed signers");
}

#[test]
fn a_signed_run_is_resumed_in_another_clone() {
    let team = Team::signed();
    team.slowly_signed();
    team.is_killed_in_mid_run();
    let second = second(&team);
    second
        .checkout
        .git(&["config", "--unset", "user.signingkey"]);
    second
        .run(&["apply", "--resume", "--yes"])
        .with(4)
        .saying("git has no SSH key");
    team.sign_as(&second, "bob");
    let plan = second.run(&["show", "--plan"]).with(0).stdout;
    let effect = plan
        .split("Effect: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let effect = effect
        .unwrap_or_default()
        .trim_matches(|each: char| !each.is_ascii_hexdigit());
    second
        .run(&["apply", "--resume", "--effect", effect])
        .with(0);
    same_machines(&second, &team.site);
    assert_eq!(team.site.effects("powered-off"), 2);
    assert_eq!(team.signature()["by"], "bob@example.org");
}

impl Team {
    /// Begins to switch two machines off, and dies when one is off.
    fn is_killed_in_mid_run(&self) {
        let words = ["apply", "--yes", "power", "off", "edge-1", "edge-2"];
        let run = self
            .site
            .start(&[&words[..], &["--parallelism=1"]].concat());
        wait_for_effect(&self.site, "edge-1 powered-off");
        kill(run);
    }

    fn slowly_signed(&self) {
        self.site
            .simulator("{clock: real, durations: {power: 2}, faults: []}");
        self.site.commit_and_apply("In real time", &[]).with(0);
        self.site.checkout.git(&["push", "--quiet"]);
    }
}

fn second(team: &Team) -> Fixture {
    let second = clone(&team.site, &team.origin);
    team.sign_as(&second, "bob");
    second
}

fn kill(mut child: std::process::Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
