//! `trueup reserve` and `trueup release`: a machine that a person works on, between clones, runs and hostile hands.

use serde_json::Value;

use super::accepted::example;
use super::cli_interrupted::{shared, write_hook};
use super::fixture::{Ended, Fixture, wait_until};
use super::git::{Checkout, Origin};
#[cfg(unix)]
use super::serve::Service;

const REF: &str = "refs/trueup/edge/reservations";

/// Two clones of the small site that move the same machines, and their remote.
struct Two {
    one: Fixture,
    other: Fixture,
    origin: Origin,
}

impl Two {
    fn new(settings: &str) -> Self {
        let site = example("edge");
        site.edit("backends.yaml", "clock: virtual\n", settings);
        site.checkout.commit("The site");
        let (one, origin) = shared(site);
        let other = Fixture::of(Checkout::clone_of(&origin.url(), &[]), one.site());
        let machines = one.checkout.path().join(".git/trueup");
        let machines = machines.to_str().unwrap();
        other
            .checkout
            .git(&["config", "trueup.simulatedSites", machines]);
        Self { one, other, origin }
    }

    fn simulated() -> Self {
        Self::new("clock: virtual\n")
    }

    fn reserve(&self, node: &str) -> Ended {
        let words = ["reserve", node, "--until", "4h", "--reason", "fan swap"];
        self.one.run(&words)
    }

    /// Runs a command in the other clone, for another person.
    fn as_grace(&self, words: &[&str]) -> Ended {
        let mut command = self.other.command(words);
        command.env("GIT_COMMITTER_NAME", "Grace");
        command.env("GIT_COMMITTER_EMAIL", "grace@example.org");
        command.output().unwrap().into()
    }

    fn at_origin(&self, name: &str) -> String {
        let found = self
            .origin
            .git(&["for-each-ref", "--format=%(objectname)", name]);
        found.trim().to_owned()
    }

    /// Has the remote run a script behind each push that it took, with the names of its refs on standard input.
    fn behind_each_push(&self, script: &str) {
        let hook = self.origin.path().join("hooks/post-receive");
        write_hook(&hook, &format!("#!/bin/sh\n{script}\n"));
    }

    /// How much was done to machines whose names begin so.
    fn effects(&self, node: &str) -> usize {
        if !self.one.simulated_site().exists() {
            return 0;
        }
        let ledger = self.one.ledger().into_iter();
        let own = ledger.filter(|(what, _)| what.starts_with(node));
        own.map(|(_, times)| times).sum()
    }
}

/// Checks that what a command printed is valid by its schema.
#[track_caller]
fn valid(shown: &Value, schema: &str) {
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let found = validator.iter_errors(shown);
    let found: Vec<String> = found
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(found, Vec::<String>::new(), "{shown:#}");
}

#[test]
fn every_clone_leaves_the_machine_alone_until_it_is_released() {
    let two = Two::simulated();
    let told = two.reserve("edge-1").with(0);
    told.saying("Reserved `edge-1` for Ada until ")
        .saying("`trueup release edge-1`");
    let plan = two.as_grace(&["plan"]).with(0).stdout;
    for words in [
        "is reserved by Ada until ",
        "fan swap",
        "`trueup release edge-1` ends that",
    ] {
        assert!(plan.contains(words), "{plan}");
    }
    two.as_grace(&["apply", "--yes"]);
    assert_eq!(two.effects("edge-1"), 0);
    assert!(two.effects("edge-2") > 0);

    let status = two.as_grace(&["status"]).with(0).stdout;
    assert!(status.contains("reserved by Ada until "), "{status}");
    let status = two.as_grace(&["status", "--format", "json"]).with(0).json();
    valid(&status, include_str!("../../schemas/status.json"));
    assert_eq!(status["nodes"][0]["reservation"]["reason"], "fan swap");
    assert_eq!(status["nodes"][1].get("reservation"), None);
    let nodes = two.as_grace(&["nodes", "--format", "json"]).with(0).json();
    valid(&nodes, include_str!("../../schemas/nodes.json"));
    assert_eq!(nodes["nodes"][0]["reservation"]["by"], "Ada");
    let nodes = two.as_grace(&["nodes"]).with(0).stdout;
    assert!(nodes.contains("reserved by Ada until "), "{nodes}");
    let explained = two.as_grace(&["explain", "edge-1"]).with(0).stdout;
    assert!(explained.contains("reserved by Ada until "), "{explained}");
    assert!(explained.contains("trueup release edge-1"), "{explained}");
    let blocked = two
        .as_grace(&["apply", "redeploy", "edge-1", "--yes"])
        .with(4);
    blocked.saying("is reserved by Ada until ");

    // Of another person it is refused, and names them; the own one is prolonged.
    let again = [
        "reserve", "edge-1", "edge-2", "--until", "1h", "--reason", "mine",
    ];
    two.as_grace(&again)
        .with(6)
        .saying("`edge-1` is reserved by Ada until ");
    assert_eq!(
        two.as_grace(&["status", "--format", "json"]).json()["nodes"][1].get("reservation"),
        None
    );
    two.reserve("edge-1").with(0);
    let released = two.as_grace(&["release", "edge-1"]).with(0);
    released.saying("Released `edge-1`, which was reserved by Ada until ");
    two.as_grace(&["release", "edge-1"])
        .with(0)
        .saying("`edge-1` is not reserved");
    two.as_grace(&["release", "edge-7"])
        .with(1)
        .saying("unknown node `edge-7`");
    two.one.run(&["apply", "--yes"]).with(0);
    assert!(two.effects("edge-1") > 0);
}

#[test]
fn a_time_that_is_past_far_or_none_is_refused_and_so_is_what_needs_the_remote() {
    let two = Two::simulated();
    let reserve = |until: &str, more: &[&str]| {
        let words = ["reserve", "edge-1", "--reason", "fan", "--until", until];
        two.one.run(&[&words, more].concat())
    };
    reserve("2020-01-01T00:00:00Z", &[])
        .with(64)
        .saying("is in the past");
    reserve("0s", &[]).with(64).saying("is in the past");
    reserve("15d", &[])
        .with(64)
        .saying("more than 14 days from now");
    for wrong in ["soon", "4"] {
        reserve(wrong, &[]).with(64).saying("2026-11-30T18:00:00Z");
    }
    reserve("1h", &["--offline"]).with(64).saying("--offline");
    two.one
        .run(&["reserve", "edge-7", "--until", "1h", "--reason", "fan"])
        .with(1)
        .saying("unknown node `edge-7`");
    assert_eq!(two.at_origin(REF), "");
    reserve("13d", &[]).with(0);
    // One that has ended is no obstacle.
    two.one.run(&["release", "edge-1"]).with(0);
    reserve("1s", &[]).with(0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    two.other.run(&["apply", "--yes"]).with(0);
    assert!(two.effects("edge-1") > 0);
}

#[test]
fn a_plan_of_before_touches_nothing_and_names_the_machine() {
    let two = Two::simulated();
    let plan = two.other.checkout.outside().join("site.plan");
    let plan = plan.to_str().unwrap();
    two.other.run(&["plan", "-o", plan]).with(0);
    let shown = two
        .other
        .run(&["show", plan, "--format", "json"])
        .with(0)
        .json();
    let effect = shown["effect"].as_str().unwrap();
    two.reserve("edge-2").with(0);
    for words in [
        &["apply", plan, "--effect", effect][..],
        &["run", "begin", plan, "--run", "r1", "--effect", effect],
    ] {
        let refused = two.other.run(words).with(5);
        refused
            .saying("`edge-2` is reserved by Ada until ")
            .saying("`trueup release edge-2` ends that");
    }
    for node in ["edge-1", "edge-2", "edge-3"] {
        assert_eq!(two.effects(node), 0, "{node}");
    }
    two.one.run(&["release", "edge-2"]).with(0);
    two.other.run(&["apply", plan, "--effect", effect]).with(0);
}

#[test]
fn a_reservation_between_plan_and_lock_is_known_before_the_first_step() {
    let two = Two::simulated();
    two.reserve("edge-2").with(0);
    let reserved = two.at_origin(REF);
    two.origin
        .git(&["update-ref", "refs/heads/kept", &reserved]);
    two.origin.git(&["update-ref", "-d", REF]);
    two.behind_each_push(&format!("grep -q /lock && git update-ref {REF} {reserved}"));
    let stale = two.other.run(&["apply", "--yes"]).with(5);
    stale.saying("`edge-2` is reserved by Ada until ");
    assert_eq!(two.effects("edge-"), 0);
    assert_eq!(two.at_origin("refs/trueup/edge/lock"), "");
}

#[test]
fn a_run_that_has_the_machine_is_named_until_it_has_ended() {
    let two = Two::new(
        "clock: real\n      durations: {prepare: 0.2, deploy: 0.2, destroy: 0.2, power: 30}\n",
    );
    two.other.run(&["apply", "--yes"]).with(0);
    let before = two.at_origin("refs/trueup/edge/state");
    let mut run = two
        .other
        .start(&["apply", "power", "off", "edge-1", "--yes"]);
    wait_until("the run holds no lock", || {
        !two.at_origin("refs/trueup/edge/lock").is_empty()
    });
    wait_until("the run has no records", || {
        two.at_origin("refs/trueup/edge/state") != before
    });
    let id = || {
        let log = two.one.run(&["log", "--format", "json"]).with(0).json();
        log["runs"][0]["run"].as_str().unwrap().to_owned()
    };
    let id = id();
    let refused = two.reserve("edge-1").with(6);
    refused.saying(&format!("`edge-1` is in the plan of run {id}"));
    assert_eq!(two.at_origin(REF), "");
    // Its other machines are free.
    two.reserve("edge-2").with(0);
    two.one.run(&["release", "edge-2"]).with(0);
    run.kill().unwrap();
    run.wait().unwrap();
    let refused = two.reserve("edge-1").with(8);
    refused.saying(&id).saying(&format!("trueup abort {id}"));
    two.other.run(&["abort", &id]).with(0);
    two.reserve("edge-1").with(0);
}

#[test]
fn a_resumed_run_begins_nothing_on_a_machine_that_was_reserved_since() {
    let two = Two::new("clock: real\n      durations: {prepare: 3, deploy: 0.2}\n");
    two.reserve("edge-2").with(0);
    let reserved = two.at_origin(REF);
    two.origin
        .git(&["update-ref", "refs/heads/kept", &reserved]);
    two.origin.git(&["update-ref", "-d", REF]);
    let mut run = two.other.start(&["apply", "--yes", "--parallelism", "1"]);
    wait_until("the run has no records", || {
        !two.at_origin("refs/trueup/edge/state").is_empty()
    });
    run.kill().unwrap();
    run.wait().unwrap();
    // `reserve` refuses the machine of such a run: another hand writes the ref.
    two.origin.git(&["update-ref", REF, &reserved]);
    let resumed = two.other.run(&["apply", "--resume"]).with(7);
    let told = format!("{}{}", resumed.stdout, resumed.stderr);
    assert!(told.contains("edge-2 is reserved by Ada until "), "{told}");
    assert_eq!(two.effects("edge-2"), 0);
    assert!(two.effects("edge-1") > 0);
}

#[test]
fn a_run_that_begins_at_the_same_instant_wins_and_the_reservation_is_taken_back() {
    let two = Two::simulated();
    // The push of its lock does not return, so that its records are not there yet.
    two.behind_each_push("grep -q /lock && exec sleep 60");
    let mut run = two.other.start(&["apply", "--yes"]);
    let lock = || two.at_origin("refs/trueup/edge/lock");
    wait_until("the run holds no lock", || !lock().is_empty());
    let held = lock();
    two.origin.git(&["update-ref", "refs/heads/kept", &held]);
    two.origin
        .git(&["update-ref", "-d", "refs/trueup/edge/lock"]);
    // It is there only once the reservation is.
    let script = format!("grep -q /reservations && git update-ref refs/trueup/edge/lock {held}");
    two.behind_each_push(&script);
    let refused = two.reserve("edge-1").with(6);
    refused.saying("`edge-1` is in the plan of run ");
    let shown = two
        .origin
        .git(&["show", &format!("{REF}:reservations.json")]);
    let written: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(written["nodes"], serde_json::json!({}));
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn what_is_no_reservation_leaves_no_machine_free() {
    let two = Two::simulated();
    two.reserve("edge-1").with(0);
    let good = two.at_origin(REF);
    two.origin.git(&["update-ref", "refs/heads/kept", &good]);
    let text = two
        .origin
        .git(&["show", &format!("{REF}:reservations.json")]);
    let git = |words: &[&str]| two.one.checkout.git(words).trim().to_owned();
    let hostile = |file: &str, text: &str| {
        let path = two.one.checkout.outside().join("hostile");
        std::fs::write(&path, text).unwrap();
        let blob = git(&["hash-object", "-w", path.to_str().unwrap()]);
        git(&["read-tree", "--empty"]);
        git(&[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{blob},{file}"),
        ]);
        let tree = git(&["write-tree"]);
        git(&["read-tree", "HEAD"]);
        let commit = git(&["commit-tree", &tree, "-m", "Hostile"]);
        git(&[
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("{commit}:{REF}"),
        ]);
    };
    let of_other_site = text.replace("\"edge\"", "\"east\"");
    let escape = text.replace("fan swap", "\\u001b[2J");
    for (file, text, why) in [
        (
            "reservations.json",
            "no json",
            "the reservations of site `edge` cannot be used",
        ),
        (
            "reservations.json",
            of_other_site.as_str(),
            "those of site `east`",
        ),
        ("reservations.json", escape.as_str(), "control characters"),
        ("else.json", "{}", "has no file `reservations.json`"),
    ] {
        hostile(file, text);
        two.other.run(&["plan"]).with(1).saying(why).saying(REF);
        two.other.run(&["apply", "--yes"]).with(1).saying(why);
        two.other.run(&["release", "edge-1"]).with(1).saying(why);
        two.reserve("edge-2").with(1).saying(why);
        two.other.run(&["status"]).with(0).saying(why);
        assert_eq!(two.effects("edge-"), 0);
    }
    // An earlier commit is pushed back, as the hint has it.
    two.origin.git(&["update-ref", REF, &good]);
    two.other
        .run(&["release", "edge-1"])
        .with(0)
        .saying("Released `edge-1`");
    two.other.run(&["apply", "--yes"]).with(0);
}

#[test]
fn a_bundle_without_names_does_not_have_that_of_the_person() {
    let site = example("edge");
    site.checkout.commit("The site");
    let reserve = [
        "reserve",
        "edge-1",
        "--until",
        "1h",
        "--reason",
        "grace asks",
    ];
    let mut command = site.command(&reserve);
    command.env("GIT_COMMITTER_NAME", "grace");
    Ended::from(command.output().unwrap()).with(0);
    site.run(&["bundle", "--anonymise", "-o", "site.bundle"])
        .with(0);
    let bundle = site.read("site.bundle");
    assert!(bundle.contains("is reserved by person-"), "{bundle}");
    assert!(!bundle.contains("grace"), "{bundle}");
}

#[cfg(unix)]
#[test]
fn the_service_of_another_clone_tells_a_reservation_until_it_ends() {
    let two = Two::simulated();
    let service = Service::start(&two.other, &[]);
    let reserved = || {
        let status = service.get("/api/v1/status").json();
        let nodes = status["nodes"].as_array().unwrap().iter();
        let own = nodes.filter(|node| !node["reserved"].is_null());
        let told = own.map(|node| format!("{}: {}", node["node"], node["reserved"]));
        told.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(reserved(), "");
    two.reserve("edge-1").with(0);
    wait_until("the reservation is not told", || !reserved().is_empty());
    let told = reserved();
    assert!(
        told.contains("edge-1") && told.contains("fan swap"),
        "{told}"
    );
    assert!(service.get("/nodes").body.contains("fan swap"));
    two.one.run(&["release", "edge-1"]).with(0);
    wait_until("the release is not told", || reserved().is_empty());
}

#[test]
fn a_sandbox_has_the_reservations_of_its_site() {
    let two = Two::simulated();
    two.reserve("edge-1").with(0);
    let folder = two.one.checkout.outside().join("sandbox");
    let folder = folder.to_str().unwrap();
    two.one.run(&["try", "new", folder]).with(0);
    let nodes = two.one.run(&["-C", folder, "nodes"]).with(0);
    assert!(nodes.stdout.contains("fan swap"), "{nodes:?}");
    let plan = two.one.run(&["-C", folder, "plan"]).with(0);
    assert!(plan.stdout.contains("reserved by"), "{plan:?}");
    two.one.run(&["-C", folder, "release", "edge-1"]).with(0);
    // What is done in it is none of the site's.
    let kept = two.one.run(&["nodes"]).with(0);
    assert!(kept.stdout.contains("fan swap"), "{kept:?}");
}
