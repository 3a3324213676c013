//! Approvals that look like some, made by somebody who may push every ref.

use std::process::{Command, Stdio};

use super::{PEOPLE, POLICY, REDEPLOY, Team};

/// An approval as an attacker makes it.
pub(super) struct Forgery {
    pub(super) statement: String,
    pub(super) signature: String,
}

impl Team {
    /// The statement of the approval that is at the remote.
    pub(super) fn statement(&self) -> (String, String) {
        let name = self.refs().pop().unwrap();
        let text = self.origin.git(&["show", &format!("{name}:approval")]);
        (name, text + "\n")
    }

    fn sign(&self, key: &str, namespace: &str, text: &str) -> String {
        let file = self.keys.path().join("message");
        std::fs::write(&file, text).unwrap();
        let signed = Command::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", namespace, "-f"])
            .arg(self.key(key))
            .arg(&file)
            .stderr(Stdio::null())
            .status();
        assert!(signed.unwrap().success());
        let signature = self.keys.path().join("message.sig");
        let text = std::fs::read_to_string(&signature).unwrap();
        std::fs::remove_file(signature).unwrap();
        text
    }

    /// Puts an approval in the place of another at the remote.
    pub(super) fn forge(&self, name: &str, forgery: &Forgery) {
        let folder = self.keys.path();
        std::fs::write(folder.join("a"), &forgery.statement).unwrap();
        std::fs::write(folder.join("b"), &forgery.signature).unwrap();
        let blob = |file: &str| {
            let path = folder.join(file);
            self.origin
                .git(&["hash-object", "-w", path.to_str().unwrap()])
        };
        let list = format!(
            "100644 blob {}\tapproval\n100644 blob {}\tapproval.sig\n",
            blob("a").trim(),
            blob("b").trim()
        );
        std::fs::write(folder.join("tree"), list).unwrap();
        let mut command = Command::new("git");
        command.arg("-C").arg(self.origin.path()).arg("mktree");
        command.stdin(std::fs::File::open(folder.join("tree")).unwrap());
        let tree = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let commit = self
            .origin
            .git(&["commit-tree", "-m", "approval", tree.trim()]);
        self.origin.git(&["update-ref", name, commit.trim()]);
    }
}

/// A plan with an honest approval, to be replaced by others.
struct Attack {
    team: Team,
    plan: String,
    name: String,
    honest: String,
}

impl Attack {
    fn new() -> Self {
        let team = Team::new();
        let plan = team.plan(&REDEPLOY);
        team.approve(&plan, "bob", &[]).with(0);
        let (name, honest) = team.statement();
        Self {
            team,
            plan,
            name,
            honest,
        }
    }

    /// The honest statement with another value of a field.
    fn with(&self, field: &str, value: &str) -> String {
        let mut lines = self.honest.lines();
        let line = lines.find(|line| line.starts_with(&format!("{field}: ")));
        self.honest
            .replace(line.unwrap(), &format!("{field}: {value}"))
    }

    /// A statement that Bob signs as an approval.
    fn signed(&self, statement: String) -> Forgery {
        let signature = self.team.sign("bob", "trueup-approval@v1", &statement);
        Forgery {
            statement,
            signature,
        }
    }

    /// Plan and apply refuse a forgery, and say why.
    #[track_caller]
    fn is_refused(&self, forgery: &Forgery, says: &str) {
        self.team.forge(&self.name, forgery);
        let refused = self.team.refused(&REDEPLOY);
        assert!(
            refused.len() == 1 && refused[0].contains(says),
            "{says}: {refused:?}"
        );
        let apply = ["apply", &self.plan];
        self.team.site.run(&apply).with(4).saying(says);
    }
}

#[test]
fn an_approval_of_something_else_or_for_another_time_does_not_count() {
    let attack = Attack::new();
    let zeros = format!("sha256:{}", "0".repeat(64));
    let to_come = attack.with("issued", "2098-12-31T00:00:00Z");
    let end = attack.with("expires", "2099-01-01T00:00:00Z");
    let end = end.lines().find(|line| line.starts_with("expires"));
    let to_come: String = to_come
        .lines()
        .map(|line| match line.starts_with("expires") {
            true => end.unwrap(),
            false => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    for (statement, says) in [
        (
            attack.with("repository", "git.example/other"),
            "it is for repository `git.example/other`",
        ),
        (attack.with("site", "core"), "it is for site `core`"),
        (
            attack.with("effect", &zeros),
            "it is of another effect, 0000",
        ),
        (
            attack.with("expires", "2020-01-01T00:00:00Z"),
            "it has expired at 2020",
        ),
        (
            attack.with("expires", "2099-01-01T00:00:00Z"),
            "longer than 30 days",
        ),
        (to_come, "which is to come"),
        ("Bob approves\n".to_owned(), "what is signed is no approval"),
    ] {
        attack.is_refused(&attack.signed(statement), says);
    }
}

#[test]
fn a_forged_approval_does_not_count() {
    let attack = Attack::new();
    let (honest, team) = (&attack.honest, &attack.team);
    let own = attack.signed(honest.clone()).signature;
    for (statement, signature, says) in [
        (
            attack.with("nonce", "00"),
            own.clone(),
            "its signature does not hold",
        ),
        (
            honest.clone(),
            team.sign("bob", "git", honest),
            "its signature does not hold",
        ),
        (
            honest.clone(),
            team.sign("mallory", "trueup-approval@v1", honest),
            "it is signed by another key",
        ),
        (
            honest.clone(),
            team.sign("carol", "trueup-approval@v1", honest),
            "it is signed by another key",
        ),
        (
            honest.clone(),
            "yes\n".to_owned(),
            "it is signed by another key",
        ),
        (
            format!("{honest}{}", "x".repeat(5000)),
            own.clone(),
            "more than the 4096 that are read",
        ),
        (
            honest.clone(),
            own.clone() + &"\n".repeat(20_000),
            "more than the 16384 that are read",
        ),
    ] {
        let forgery = Forgery {
            statement,
            signature,
        };
        attack.is_refused(&forgery, says);
    }
}

#[test]
fn a_ref_that_is_no_approval_or_of_no_signer_does_not_count() {
    let attack = Attack::new();
    let (name, team) = (&attack.name, &attack.team);
    let git = |arguments: &[&str]| team.origin.git(arguments);
    git(&["update-ref", name, "refs/heads/main"]);
    let refused = team.refused(&REDEPLOY);
    assert!(
        refused[0].contains("it has no file `approval`"),
        "{refused:?}"
    );
    let blob = git(&["rev-parse", "main:policy.yaml"]);
    git(&["update-ref", name, blob.trim()]);
    assert_eq!(team.refused(&REDEPLOY).len(), 1);
    git(&["update-ref", "-d", name]);
    let honest = attack.signed(attack.honest.clone());
    let (folder, _) = name.rsplit_once('/').unwrap();
    for stranger in ["0", "carol", "ffffffffffffffffffffffffffffffff"] {
        team.forge(&format!("{folder}/{stranger}"), &honest);
    }
    team.site.run(&["apply", &attack.plan]).with(4);
    // At its own place the same approval counts.
    team.forge(name, &honest);
    team.site.run(&["apply", &attack.plan]).with(0);
}

#[test]
fn the_change_under_review_decides_neither_who_approves_nor_whether() {
    let team = Team::new();
    let mallory = team.signer("mallory", "mallory");
    let rules = |policy: &str, signers: &str| {
        team.site.checkout.write("policy.yaml", policy);
        team.site.checkout.write("allowed_signers", signers);
        team.site.checkout.commit("Rules of our own");
    };
    rules(POLICY, &mallory);
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "mallory", &[]).with(4);
    team.site.run(&["apply", &plan]).with(4);
    for policy in [
        POLICY.replace("{approvals: {redeploy: 1, destroy: 2}}", "{wipe: skip}"),
        POLICY.replace("redeploy: 1", "redeploy: 1, applier_counts: true"),
        POLICY.replace("destroy: 2", "destroy: 2, allowed_signers: mine"),
    ] {
        rules(&policy, &mallory);
        team.site.checkout.write("mine", &mallory);
        team.site.checkout.commit("More");
        let words = [&REDEPLOY[..], &["--target-revision", "committed"]].concat();
        let plan = team.plan(&words);
        team.site.run(&["apply", &plan]).with(4);
        // Also if the operator names the protected revision, to which the change does not belong.
        let protected = ["--backends-from", "origin/main"];
        team.site
            .run(&[&["apply", &plan], &protected[..]].concat())
            .with(4);
        let shown = team
            .site
            .run(&[&["plan", "--format", "json"], &words[..], &protected].concat());
        let shown = shown.with(0).json();
        let from = shown["approvals"]["rules_from"].as_str().unwrap();
        assert!(from.ends_with("which was applied last"), "{from}");
    }
    // A signer whom the change leaves out signs nothing, and comes back with the rules that are in force.
    team.approve(&plan, "bob", &[]).with(4);
    let honest = PEOPLE.map(|name| team.signer(name, name)).concat();
    rules(POLICY, &honest);
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    team.site.run(&["apply", &plan]).with(0);
}

#[test]
fn a_signer_who_was_removed_approves_nothing_any_more() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let lines = PEOPLE.map(|name| team.signer(name, name));
    team.site
        .checkout
        .write("allowed_signers", [&*lines[0], &*lines[2]].concat());
    team.site.commit_and_apply("Bob has left", &[]).with(0);
    let plan = team.plan(&REDEPLOY);
    team.site.run(&["apply", &plan]).with(4);
    // Nobody is left who could agree that he is back.
    team.site.checkout.write("allowed_signers", lines.concat());
    team.site
        .commit_and_apply("Bob is back", &[])
        .with(4)
        .saying("`loosening` needs 2: 2 missing");

    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let lines = PEOPLE.map(|name| team.signer(name, name));
    let over = lines[1].replace("ssh-ed25519", "valid-before=\"20250101Z\" ssh-ed25519");
    team.site
        .checkout
        .write("allowed_signers", [&*lines[0], &over, &*lines[2]].concat());
    // That he signs no more counts before it is applied.
    team.site.checkout.commit("Bob's key is over");
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("its signature does not hold");
    team.approve(&plan, "bob", &[])
        .with(4)
        .saying("`bob@example.org` counts no more");
}

#[test]
fn keys_whose_time_is_over_meet_no_rule() {
    let team = Team::new();
    let over = PEOPLE.map(|name| {
        let line = team.signer(name, name);
        line.replace("ssh-ed25519", "valid-before=\"20250101Z\" ssh-ed25519")
    });
    team.site.checkout.write("allowed_signers", over.concat());
    team.site
        .commit_and_apply("All keys are over", &[])
        .with(4)
        .saying("nothing could be approved any more")
        .saying("more whose time is over");
    let said = team.site.run(&["validate"]).with(1).stdout;
    assert!(said.contains("rule-allowed-signers"), "{said}");
    assert!(said.contains("the Policy asks for it here"), "{said}");
}

#[test]
fn allowed_signers_that_say_more_than_keys_of_people_let_nothing_pass() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let honest = PEOPLE.map(|name| team.signer(name, name)).concat();
    let mallory = team.signer("mallory", "mallory");
    for (line, says) in [
        (
            mallory.replace("mallory@example.org", "*"),
            "not one principal",
        ),
        (
            mallory.replace("ssh-ed25519", "cert-authority ssh-ed25519"),
            "option `cert-authority`",
        ),
        (
            mallory.replace("ssh-ed25519", "namespaces=\"*\" ssh-ed25519"),
            "patterns in `namespaces`",
        ),
        (
            team.signer("mallory", "bob"),
            "the key stands in line 2, too",
        ),
        ("#".repeat(300_000), "more than the 262144 that are read"),
    ] {
        team.site
            .checkout
            .write("allowed_signers", format!("{honest}{line}\n"));
        team.site
            .commit_and_apply("Signers", &[])
            .with(4)
            .saying("nothing could be approved any more");
        let refused = team.refused(&REDEPLOY);
        assert!(
            refused.len() == 1 && refused[0].contains(says),
            "{refused:?}"
        );
        let plan = team.plan(&REDEPLOY);
        team.site.run(&["apply", &plan]).with(4).saying(says);
        // A plan of the documents has that before.
        let plan = team.site.run(&["plan", "--format", "json"]).with(0).json();
        let applicability = &plan["applicability"];
        assert_eq!(applicability["can_be_applied"], false);
        let void = "nothing could be approved any more";
        assert!(applicability.to_string().contains(void), "{applicability}");
    }
    team.site
        .checkout
        .git(&["rm", "--quiet", "allowed_signers"]);
    team.site.commit_and_apply("None at all", &[]).with(4);
    let plan = team.plan(&REDEPLOY);
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying("has no such file");
    team.site.checkout.write("allowed_signers", honest);
    team.site.commit_and_apply("As before", &[]).with(0);
    let plan = team.plan(&REDEPLOY);
    team.site.run(&["apply", &plan]).with(0);
}
