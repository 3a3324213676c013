//! `trueup try`: nothing real is reached from a sandbox, and what is done in it does not reach the site.

use std::path::Path;

use super::accepted::example;
use super::fixture::Fixture;

/// A command in the sandbox beside the site.
fn inside<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let folder = ["-C", "../box"];
    folder.into_iter().chain(words.iter().copied()).collect()
}

/// A site that was applied, with a change that is committed since, and a sandbox of it.
fn with_sandbox() -> Fixture {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("The image");
    fixture.run(&["try", "new", "../box"]).with(0);
    fixture
}

fn sandbox(fixture: &Fixture) -> std::path::PathBuf {
    fixture.checkout.path().join("../box")
}

fn digest(fixture: &Fixture, folder: &[&str]) -> String {
    let words: Vec<&str> = folder
        .iter()
        .copied()
        .chain(["plan", "--format", "json"])
        .collect();
    fixture.run(&words).with(0).json()["effect"].to_string()
}

#[test]
fn a_sandbox_has_the_plan_of_its_site_and_leaves_it_alone() {
    let fixture = with_sandbox();
    let before = (fixture.ledger(), fixture.tags(), digest(&fixture, &[]));
    assert_eq!(digest(&fixture, &["-C", "../box"]), before.2);
    let apply = inside(&["apply", "--yes", "--allow-redeploy", "all"]);
    fixture.run(&apply).with(0);
    let after = (fixture.ledger(), fixture.tags(), digest(&fixture, &[]));
    assert_eq!(after, before);
    fixture
        .run(&inside(&["plan", "--detailed-exitcode"]))
        .with(0);
    // All of it, and nothing else, is taken back; and again.
    fixture.run(&inside(&["try", "undo"])).with(0);
    assert_eq!(digest(&fixture, &["-C", "../box"]), before.2);
    fixture.run(&inside(&["try", "undo"])).with(0);
    fixture
        .run(&inside(&["plan", "--detailed-exitcode"]))
        .with(0);
}

#[test]
fn real_backends_of_the_documents_at_any_revision_are_the_simulator() {
    let fixture = example("redfish");
    fixture.checkout.commit("The site");
    // A real one is not trusted.
    fixture.run(&["plan"]).with(4);
    fixture
        .run(&["try", "new", "../box", "--observed", "none"])
        .with(0);
    let flags = ["apply", "--yes", "--outside-windows"];
    fixture.run(&inside(&flags)).with(0);
    fixture
        .run(&inside(&["plan", "--detailed-exitcode", "--rev", "HEAD"]))
        .with(0);
    // Without its settings it is no clone of a real site: nothing is loaded.
    let folder = sandbox(&fixture).join(".git/trueup-sandbox");
    std::fs::remove_dir_all(&folder).unwrap();
    fixture
        .run(&inside(&["plan"]))
        .with(1)
        .saying("`trueup.sandbox` in git's configuration marks it");
    std::fs::create_dir(&folder).unwrap();
    fixture
        .run(&inside(&["plan"]))
        .with(1)
        .saying("it was not made of site");
}

#[test]
fn records_of_a_sandbox_are_published_nowhere() {
    let fixture = with_sandbox();
    let bare = sandbox(&fixture).join("../bare");
    fixture
        .checkout
        .git(&["init", "-q", "--bare", &bare.to_string_lossy()]);
    let add = ["-C", "../box", "remote", "add", "origin"];
    let add: Vec<&str> = add.into_iter().chain([bare.to_str().unwrap()]).collect();
    fixture.checkout.git(&add);
    fixture
        .run(&inside(&["apply", "--yes", "--allow-redeploy", "all"]))
        .with(0);
    let refs = |folder: &Path| {
        std::fs::read_dir(folder.join("refs/heads"))
            .unwrap()
            .count()
    };
    assert_eq!(refs(&bare), 0);
    assert!(!bare.join("refs/trueup").exists());
    fixture
        .run(&inside(&["plan", "--remote", "origin"]))
        .with(64)
        .saying("it has no remote");
}

#[test]
fn the_machines_of_a_bundle_are_those_that_were_observed() {
    let fixture = with_sandbox();
    fixture.run(&["bundle", "-o", "site.bundle"]).with(0);
    let before = digest(&fixture, &[]);
    // The site moves on.
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0);
    fixture
        .run(&["replay", "site.bundle", "--try", "../again"])
        .with(0)
        .saying("3 machines as observed");
    assert_eq!(digest(&fixture, &["-C", "../again"]), before);
    fixture
        .run(&["replay", "site.bundle", "--try", "../again"])
        .with(64)
        .saying("is not empty");
}

#[test]
fn the_clock_of_a_sandbox_moves_days_and_machines() {
    let fixture = with_sandbox();
    let day = |fixture: &Fixture| {
        let plan = fixture.run(&inside(&["plan", "--format", "json"])).with(0);
        plan.json()["options"]["as_of"].to_string()
    };
    let before = day(&fixture);
    fixture.run(&inside(&["try", "clock", "+3d"])).with(0);
    assert_ne!(day(&fixture), before);
    fixture.run(&inside(&["try", "undo"])).with(0);
    assert_eq!(day(&fixture), before);
}

#[test]
fn what_is_outside_of_a_sandbox_is_refused() {
    let fixture = with_sandbox();
    let settings = sandbox(&fixture).join("../serve.yaml");
    let keystone = "keystone: {url: 'https://127.0.0.1:9/v3', project: p}\n";
    std::fs::write(&settings, keystone).unwrap();
    let settings = settings.to_str().unwrap();
    for (words, refusal) in [
        (
            vec!["comment", "plan.md", "--on", "github", "--change", "1"],
            "nothing is published on a forge",
        ),
        (vec!["serve", "--config", settings], "no service is asked"),
        (
            vec![
                "adopt",
                "--from",
                "redfish",
                "--range",
                "127.0.0.1/32",
                "-o",
                "new/site",
            ],
            "no backend is reached",
        ),
        (
            vec!["adopt", "--etcd", "kubernetes=https://127.0.0.1:9"],
            "no backend is reached",
        ),
        (vec!["log", "--remote", "origin"], "it has no remote"),
    ] {
        let run = fixture.run(&inside(&words)).with(64);
        run.saying("this clone is a sandbox").saying(refusal);
        assert!(!sandbox(&fixture).join("new").exists(), "{words:?}");
    }
}

#[test]
fn only_commands_that_changed_something_are_operations() {
    let fixture = with_sandbox();
    let log = || fixture.run(&inside(&["try", "log"])).with(0).stdout;
    fixture.run(&inside(&["try", "fail", "edge-2"])).with(0);
    let before = log();
    assert_eq!(before.lines().count(), 1, "{before}");
    fixture.run(&inside(&["apply", "--target", "edge-9"]));
    fixture.run(&inside(&["apply", "--yes"]));
    fixture.run(&inside(&["try", "undo", "7"]));
    assert_eq!(log(), before);
    // The oldest of as many as are kept is there for the undo that is one more.
    let operations = sandbox(&fixture).join(".git/trueup-sandbox/operations");
    for number in 2..=100 {
        let folder = operations.join(number.to_string());
        std::fs::create_dir_all(folder.join("settings")).unwrap();
        std::fs::copy(
            operations.join("1/operation.json"),
            folder.join("operation.json"),
        )
        .unwrap();
    }
    fixture
        .run(&inside(&["try", "undo", "1"]))
        .with(0)
        .saying("before operation 1,");
    assert_eq!(log().lines().count(), 100);
}

#[test]
fn a_linked_worktree_is_the_sandbox_and_a_clone_inside_is_none() {
    let fixture = with_sandbox();
    let at = |folder: &str, words: &[&str]| {
        let all: Vec<&str> = ["-C", folder].iter().chain(words).copied().collect();
        fixture.run(&all)
    };
    let git = |words: &[&str]| fixture.checkout.git(words);
    git(&["-C", "../box", "worktree", "add", "-q", "../linked"]);
    git(&["clone", "-q", ".", "../box/.git/clone"]);
    let day = |folder: &str| {
        let plan = at(
            folder,
            &[
                "plan",
                "--format",
                "json",
                "--observed",
                "none",
                "--offline",
            ],
        );
        plan.with(0).json()["options"]["as_of"].to_string()
    };
    let today = day(".");
    at("../linked", &["try", "clock", "+3d"]).with(0);
    let in_the_sandbox = day("../box");
    assert_ne!(in_the_sandbox, today);
    assert_eq!(day("../linked"), in_the_sandbox);
    assert_eq!(day("../box/.git/clone"), today);
    at("../box", &["try", "undo"]).with(0);
    assert_eq!(day("../linked"), today);
}

#[test]
fn a_plan_of_a_sandbox_is_replayed_in_it() {
    let fixture = with_sandbox();
    let bundle = ["bundle", "--allow-redeploy", "all", "-o", "a.bundle"];
    fixture.run(&inside(&bundle)).with(0);
    let again = fixture.run(&inside(&["replay", "a.bundle"])).with(0);
    assert!(again.stdout.contains("byte for byte"), "{}", again.stdout);
}

#[test]
fn a_lost_machine_is_explained_with_the_ways_on_and_each_of_them_works() {
    let fixture = with_sandbox();
    fixture.run(&inside(&["try", "lose", "edge-3"])).with(0);
    let explain = inside(&["explain", "edge-3"]);
    let text = fixture.run(&explain).with(0).stdout;
    assert!(
        text.contains("Its machine could not be observed: the machine does not answer"),
        "{text}"
    );
    let explain = inside(&["explain", "edge-3", "--format", "json"]);
    let found = fixture.run(&explain).with(0).json();
    let ways = found["ways_out"].as_array().unwrap().iter();
    let commands: Vec<&str> = ways.filter_map(|way| way["command"].as_str()).collect();
    let typed = |begin: &str| {
        let found = commands.iter().find(|each| each.starts_with(begin));
        let words: Vec<&str> = found.expect(begin).split(' ').skip(1).collect();
        fixture.run(&inside(&words)).with(0).stdout
    };
    typed("trueup status edge-3");
    typed("trueup reserve edge-3");
    fixture.run(&inside(&["release", "edge-3"])).with(0);
    let plan = typed("trueup plan teardown edge-3");
    let gone = commands.iter().find(|each| each.contains("teardown"));
    let gone = gone.unwrap();
    assert!(
        plan.contains("1 to destroy") && !plan.contains("BLOCKED"),
        "{plan}"
    );
    // It is taken down without the machine, by the API server.
    let mut apply = gone.replace("trueup plan", "apply");
    apply.push_str(" --yes");
    fixture
        .run(&inside(&apply.split(' ').collect::<Vec<_>>()))
        .with(0);
    fixture.run(&inside(&["try", "undo"])).with(0);
    // What is not known of it is not claimed.
    let remediate = inside(&["plan", "remediate", "edge-3"]);
    let plan = fixture.run(&remediate).with(0).stdout;
    assert!(
        plan.contains("whether the machine is on is unknown"),
        "{plan}"
    );
    assert!(
        !plan.contains("is on, and has") && !plan.contains("tasks:"),
        "{plan}"
    );
}

#[test]
fn a_plan_without_a_run_has_no_rehearsal_and_says_why() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
        .run(&["plan", "--rehearse", "5"])
        .with(0)
        .saying("There is nothing to rehearse: the plan has no steps");
    fixture.edit("profiles.yaml", "image: ubuntu-24.04", "image: noble-2");
    fixture.checkout.commit("An image");
    fixture
        .run(&["plan", "--rehearse", "5"])
        .with(0)
        .saying("the changes of the plan are blocked");
}

#[test]
fn members_of_etcd_on_lost_machines_do_not_answer_and_count_for_its_quorum() {
    let fixture = example("control-plane");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.run(&["try", "new", "../box"]).with(0);
    fixture.run(&inside(&["try", "lose", "control-1"])).with(0);
    let etcd = fixture.run(&inside(&["etcd"]));
    assert!(
        etcd.stdout.contains("connection refused"),
        "{}",
        etcd.stdout
    );
    // With two of three no other one may go, whatever is allowed.
    let words = [
        "plan",
        "redeploy",
        "control-3",
        "--max-unavailable",
        "4",
        "--format",
        "json",
    ];
    let plan = fixture.run(&inside(&words)).with(0).json();
    let change = &plan["changes"][0];
    assert_eq!(change["blocked"]["cause"], "etcd", "{change:#}");
    fixture
        .run(&inside(&["apply", "remove-etcd", "control-2", "--yes"]))
        .with(7);
    fixture
        .run(&inside(&["try", "repair", "control-1"]))
        .with(0);
    let etcd = fixture.run(&inside(&["etcd"])).with(0).stdout;
    assert!(etcd.contains("it can lose 1 member"), "{etcd}");
}
