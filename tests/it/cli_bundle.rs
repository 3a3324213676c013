//! `trueup bundle` and `trueup replay`: the same plan again, the differences of another one, and hostile bundles.

use serde_json::Value;

use super::accepted::example;
use super::fixture::{Ended, Fixture};

/// A site that was applied, and has a change that is committed since.
fn changed() -> Fixture {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("The image");
    fixture
}

fn edited(fixture: &Fixture, edit: impl FnOnce(&mut Value)) {
    let mut bundle: Value = serde_json::from_str(&fixture.read("site.bundle")).unwrap();
    edit(&mut bundle);
    fixture.checkout.write("edited.bundle", bundle.to_string());
}

#[test]
fn a_plan_is_made_again_byte_for_byte_after_the_site_has_moved_on() {
    let fixture = changed();
    let flags = ["--allow-redeploy", "group:workers", "--skip-blocked"];
    let bundle = ["bundle", "-o", "site.bundle"];
    let all: Vec<&str> = bundle.into_iter().chain(flags).collect();
    fixture
        .run(&all)
        .with(0)
        .saying("trueup replay site.bundle");
    let replay = |file: &str| fixture.run(&["replay", file]);
    let same = replay("site.bundle").with(0).stdout;
    assert!(same.contains("byte for byte"), "{same}");
    // Records, documents, machines and what is checked out are others now.
    let apply = ["apply", "--yes"];
    let all: Vec<&str> = apply.into_iter().chain(flags).collect();
    fixture.run(&all).with(0);
    fixture.edit("profiles.yaml", "ubuntu-26.04", "ubuntu-28.04");
    fixture.checkout.commit("Another image");
    let (before, tags) = (fixture.ledger(), fixture.tags());
    replay("site.bundle").with(0);
    assert_eq!((fixture.ledger(), fixture.tags()), (before, tags));
    // An action on nodes, and a site that was not observed.
    fixture
        .run(&["bundle", "drain", "edge-1", "-o", "drain.bundle"])
        .with(0);
    replay("drain.bundle").with(0);
    fixture
        .run(&["bundle", "--observed", "none", "-o", "none.bundle"])
        .with(0);
    replay("none.bundle").with(0);
    // A machine that a person works on, and that is free by then.
    let reserve = ["reserve", "edge-1", "--until", "1h", "--reason", "fan swap"];
    fixture.run(&reserve).with(0);
    fixture.run(&["bundle", "-o", "reserved.bundle"]).with(0);
    fixture.run(&["release", "edge-1"]).with(0);
    replay("reserved.bundle").with(0);
    // One that builds of another commit than the one whose guards count.
    fixture
        .run(&["bundle", "redeploy", "edge-1", "-o", "older.bundle"])
        .with(0);
    assert!(fixture.read("older.bundle").contains("\"head\":"));
    replay("older.bundle").with(0);
}

#[test]
fn a_plan_that_differs_is_an_error_that_names_where() {
    let fixture = changed();
    fixture.run(&["bundle", "-o", "site.bundle"]).with(0);
    fixture
        .run(&["bundle", "--observed", "none", "-o", "none.bundle"])
        .with(0);
    let none: Value = serde_json::from_str(&fixture.read("none.bundle")).unwrap();
    edited(&fixture, |bundle| {
        bundle.as_object_mut().unwrap().remove("observed");
        bundle["trueup"] = "0.0.9".into();
    });
    let ended = fixture.run(&["replay", "edited.bundle"]).with(1);
    ended.saying("another one than that of trueup 0.0.9");
    // It is that of the records alone.
    edited(&fixture, |bundle| {
        bundle.as_object_mut().unwrap().remove("observed");
        bundle["plan"] = none["plan"].clone();
    });
    fixture.run(&["replay", "edited.bundle"]).with(0);
}

#[test]
fn a_bundle_is_taken_as_hostile() {
    let fixture = changed();
    fixture.run(&["bundle", "-o", "site.bundle"]).with(0);
    let refused = |words: &str, edit: &dyn Fn(&mut Value)| {
        edited(&fixture, edit);
        let ended = fixture
            .run(&["replay", "edited.bundle"])
            .with(1)
            .saying(words);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    };
    refused("its form has version 2", &|bundle| {
        bundle["format_version"] = 2.into()
    });
    refused("is no commit", &|bundle| {
        bundle["commit"] = "--upload-pack=\u{1b}x".into()
    });
    refused("is no commit", &|bundle| bundle["records"] = "HEAD".into());
    refused("does not have the commit", &|bundle| {
        bundle["commit"] = "1".repeat(40).into()
    });
    refused("cannot be used", &|bundle| bundle["more"] = true.into());
    refused("cannot be used", &|bundle| bundle["plan"] = "{}".into());
    refused("of another site", &|bundle| {
        bundle["site"] = "../../other".into()
    });
    refused("snapshot", &|bundle| {
        bundle["observed"] = "no snapshot".into()
    });
    fixture.checkout.write("edited.bundle", "[".repeat(100_000));
    fixture
        .run(&["replay", "edited.bundle"])
        .with(1)
        .saying("cannot be used");
    fixture
        .run(&["replay", "none.bundle"])
        .with(1)
        .saying("cannot be used");
}

fn inside(fixture: &Fixture, words: &[&str]) -> Ended {
    let all: Vec<&str> = ["-C", "../box"].iter().chain(words).copied().collect();
    fixture.run(&all)
}

/// A sandbox after an apply that ends with an exit code by an injected fault, and its run.
fn with_run(fault: &[&str], code: i32) -> (Fixture, String) {
    let fixture = changed();
    fixture.run(&["try", "new", "../box"]).with(0);
    inside(&fixture, fault).with(0);
    let apply = ["apply", "--yes", "--allow-redeploy", "all"];
    inside(&fixture, &apply).with(code);
    let log = inside(&fixture, &["log", "--format", "json"])
        .with(0)
        .json();
    let run = log["runs"][0]["run"].as_str().unwrap().to_owned();
    (fixture, run)
}

const FAIL: &[&str] = &["try", "fail", "edge-2", "at", "deploy"];

#[test]
fn a_run_in_one_file_is_shown_as_it_was() {
    let (fixture, run) = with_run(FAIL, 7);
    inside(&fixture, &["bundle", &run, "-o", "run.bundle"])
        .with(0)
        .saying("trueup replay run.bundle");
    let shown = inside(&fixture, &["show", &run, "--full"]).with(0).stdout;
    let replayed = inside(&fixture, &["replay", "run.bundle"]).with(0).stdout;
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("signature"));
        lines.map(str::to_owned).collect()
    };
    let (shown, replayed) = (lines(&shown), lines(&replayed));
    let missing: Vec<_> = shown
        .iter()
        .filter(|line| !replayed.contains(line))
        .collect();
    assert!(missing.is_empty(), "{missing:#?} in {replayed:#?}");
    let failed = replayed
        .iter()
        .any(|line| line.contains("deploy/workers/edge-2") && line.contains("failed"));
    assert!(failed, "{replayed:#?}");
    // What a sandbox is made of is not in it.
    inside(&fixture, &["replay", "run.bundle", "--try", "../again"])
        .with(64)
        .saying("the bundle of a run");
    // One that is known elsewhere.
    inside(&fixture, &["bundle", "7ZZZ", "-o", "other.bundle"])
        .with(1)
        .saying("run `7ZZZ` of site `edge` is not in the records here");
}

#[test]
fn flags_that_choose_a_plan_are_refused_beside_a_run() {
    let (fixture, run) = with_run(FAIL, 7);
    let file = fixture.checkout.outside().join("refused.bundle");
    for flag in [
        &["--target", "edge-1"][..],
        &["--observed=none"],
        &["--allow-redeploy", "all"],
    ] {
        let words = [&["bundle", &run, "-o", file.to_str().unwrap()], flag].concat();
        let name = flag[0].split('=').next().unwrap();
        inside(&fixture, &words)
            .with(64)
            .saying(&format!("`{name}` is for the bundle of a plan"));
        assert!(!file.exists());
    }
    let words = [
        "bundle",
        &run,
        "-o",
        file.to_str().unwrap(),
        "--anonymise",
        "--color",
        "never",
    ];
    inside(&fixture, &words).with(0);
}

#[test]
fn an_anonymised_plan_names_nothing_and_is_shown() {
    let fixture = changed();
    fixture
        .run(&["bundle", "-o", "plan.bundle", "--anonymise"])
        .with(0);
    let bundle = fixture.read("plan.bundle");
    for name in [
        "edge-1",
        "edge-2",
        "workers",
        "10.40.0",
        "Ada",
        "example.org",
    ] {
        assert!(!bundle.contains(name), "{name}: {bundle}");
    }
    let shown = fixture.run(&["replay", "plan.bundle"]).with(0).stdout;
    assert!(shown.contains(": redeploy, blocked: "), "{shown}");
    assert!(shown.contains("with its names replaced"), "{shown}");
    fixture
        .run(&["replay", "plan.bundle", "--try", "../of-names"])
        .with(64)
        .saying("its commits, which have them");
    let whole = bundle.replacen("\"format_version\":1", "\"format_version\":9", 1);
    fixture.checkout.write("plan.bundle", whole);
    fixture
        .run(&["replay", "plan.bundle"])
        .with(1)
        .saying("its form has version 9");
}

#[test]
fn an_anonymised_run_names_nothing_and_is_shown() {
    let (fixture, run) = with_run(FAIL, 7);
    inside(
        &fixture,
        &["bundle", &run, "-o", "run.bundle", "--anonymise"],
    )
    .with(0);
    let text = fixture.read("../box/run.bundle");
    for name in [
        "edge",
        "workers",
        "ubuntu",
        "profiles.yaml",
        "example.org",
        "sda",
    ] {
        assert!(!text.contains(name), "`{name}` is left in {text}");
    }
    let shown = inside(&fixture, &["replay", "run.bundle"]).with(0).stdout;
    assert!(shown.contains("deploy/group-1/node-2"), "{shown}");
    assert!(shown.contains("with its names replaced"), "{shown}");
}

#[test]
fn the_journal_of_an_interrupted_run_is_in_its_bundle() {
    let kill = ["try", "kill", "edge-1", "at", "deploy"];
    let (fixture, run) = with_run(&kill, 137);
    inside(&fixture, &["bundle", &run, "-o", "run.bundle"]).with(0);
    let shown = inside(&fixture, &["replay", "run.bundle"]).with(0).stdout;
    assert!(shown.contains("was begun, and has no end"), "{shown}");
    // Hostile: another version, a field that is unknown, no JSON.
    let path = fixture.checkout.path().join("../box/run.bundle");
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.replacen("\"format_version\":1", "\"format_version\":9", 1);
    let field = text.replacen("\"anonymised\"", "\"x\":1,\"anonymised\"", 1);
    for (text, refusal) in [
        (other.as_str(), "its form has version 9"),
        (field.as_str(), "unknown field `x`"),
        (&text[..text.len() / 2], "cannot be used"),
    ] {
        std::fs::write(&path, text).unwrap();
        inside(&fixture, &["replay", "run.bundle"])
            .with(1)
            .saying(refusal);
    }
}
