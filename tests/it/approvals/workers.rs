//! Runs that are divided among workers: with the approvals that their plan needs, and at sites that take signed runs only.

use super::super::cli_interrupted::clone;
use super::super::fixture::Fixture;
use super::{REDEPLOY, Team};

const RUN: &str = "nightly";

impl Team {
    /// A clone for a worker with a key, or without one.
    fn worker(&self, key: Option<&str>) -> Fixture {
        let worker = clone(&self.site, &self.origin);
        let machines = self.site.checkout.path().join(".git/trueup");
        worker.checkout.git(&[
            "config",
            "trueup.simulatedSites",
            machines.to_str().unwrap(),
        ]);
        if let Some(key) = key {
            self.sign_as(&worker, key);
        }
        worker
    }
}

#[test]
fn the_signatures_of_allowed_workers_vouch_for_the_plan_and_for_their_parts() {
    let team = Team::signed();
    let plan = team.plan(&["power", "off", "edge-*"]);
    let begin = ["run", "begin", &plan, "--run", RUN, "--nodes-per-part", "2"];
    team.site
        .run(&[&begin[..], &["--pushes-per-minute", "0"]].concat())
        .with(0);
    let status = ["run", "status", RUN, "--format", "json"];
    let parts = team.site.run(&status).with(0).json()["parts"].clone();
    let parts: Vec<String> = parts
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["part"].as_str().unwrap().to_owned())
        .collect();
    let part = |worker: &Fixture, part: &str| worker.run(&["run", "part", RUN, part]);
    let (mallory, unsigned) = (team.worker(Some("mallory")), team.worker(None));
    part(&mallory, &parts[0])
        .with(4)
        .saying("is not one of the allowed signers");
    part(&unsigned, &parts[0])
        .with(4)
        .saying("no SSH key to sign with");
    let (bob, carol) = (team.worker(Some("bob")), team.worker(Some("carol")));
    // No digest is handed on: the signature of the records vouches for the plan.
    part(&bob, &parts[0]).with(0);
    // Who may push refs can say that a part has ended: then without a signature.
    let refs = team.origin.git(&["for-each-ref", "--format=%(refname)"]);
    let name = refs.lines().find(|name| name.contains("/run/")).unwrap();
    let honest = team.origin.git(&["rev-parse", name]);
    let tree = format!("{name}^{{tree}}");
    let identity = ["-c", "user.name=Mallory", "-c", "user.email=m@example.org"];
    let forge = ["commit-tree", "-m", "part", &tree];
    let forged = team.origin.git(&[&identity[..], &forge].concat());
    team.origin.git(&["update-ref", name, forged.trim()]);
    part(&carol, &parts[1])
        .with(4)
        .saying("takes signed runs only");
    carol
        .run(&["run", "end", RUN])
        .with(4)
        .saying("takes signed runs only");
    assert_eq!(team.site.effects("powered-off"), 0);
    team.origin.git(&["update-ref", name, honest.trim()]);
    for (number, id) in parts.iter().enumerate().skip(1) {
        part(if number % 2 == 0 { &bob } else { &carol }, id).with(0);
    }
    mallory.run(&["run", "end", RUN]).with(4);
    carol.run(&["run", "end", RUN]).with(0);
    assert_eq!(team.site.effects("powered-off"), 3);
    assert_eq!(team.signature()["by"], "carol@example.org");
}

#[test]
fn a_run_begins_with_the_approvals_that_its_plan_needs_and_not_without() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    let begin = [
        "run",
        "begin",
        &plan,
        "--run",
        RUN,
        "--pushes-per-minute",
        "0",
    ];
    let shown = team.site.run(&["show", &plan, "--format", "json"]).with(0);
    let effect = shown.json()["effect"].as_str().unwrap().to_owned();
    // Nor does the effect that an engine pins replace another person.
    for pinned in [&[][..], &["--effect", &effect]] {
        team.site
            .run(&[&begin[..], pinned].concat())
            .with(4)
            .saying("`redeploy` needs 1: 1 missing");
    }
    let refs = team.origin.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(!refs.contains("/lock") && !refs.contains("/run/"), "{refs}");
    team.site.run(&["run", "part", RUN, "site"]).with(99);
    team.approve(&plan, "ada", &[]).with(0);
    team.site.run(&begin).with(4);
    team.approve(&plan, "bob", &[]).with(0);
    team.site.run(&begin).with(0);
    let status = ["run", "status", RUN, "--format", "json"];
    let status = team.site.run(&status).with(0).json();
    for part in status["parts"].as_array().unwrap() {
        let part = part["part"].as_str().unwrap();
        team.site.run(&["run", "part", RUN, part]).with(0);
    }
    team.site.run(&["run", "end", RUN]).with(0);
    assert_eq!(team.site.effects("deployed"), 4);
    let runs = team.site.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(runs["runs"][0]["approvals"][0]["by"], "bob@example.org");
}

#[test]
fn a_part_is_not_carried_out_by_the_approval_of_somebody_who_has_left_since() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let begin = ["run", "begin", &plan, "--run", RUN];
    team.site
        .run(&[&begin[..], &["--pushes-per-minute", "0"]].concat())
        .with(0);
    let lines = ["ada", "carol"].map(|name| team.signer(name, name));
    team.site.checkout.write("allowed_signers", lines.concat());
    team.site.checkout.commit("Bob has left");
    team.site
        .run(&["run", "part", RUN, "site"])
        .with(4)
        .saying("`redeploy` needs 1: 1 missing");
    team.approve(&plan, "carol", &[]).with(0);
    team.site.run(&["run", "part", RUN, "site"]).with(0);
}
