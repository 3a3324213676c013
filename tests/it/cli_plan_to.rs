//! `trueup plan --to`: the way back to a revision of the past, and what does not return with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::accepted::example;
use super::amount::number;
use super::dice::Dice;
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::Checkout;

const NODES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];

/// The example `edge`, applied.
fn applied() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy_folder(&root.join("site-examples/edge"), fixture.checkout.path());
    fixture
        .commit_and_apply("The site as it begins", &[])
        .with(0);
    fixture
}

/// Another image, on all machines.
fn image(fixture: &Fixture, from: &str, to: &str) {
    fixture.edit(
        "profiles.yaml",
        &format!("image: {from}"),
        &format!("image: {to}"),
    );
    fixture
        .commit_and_apply(&format!("Image {to}"), &["--allow-redeploy", "all"])
        .with(0);
}

fn head(fixture: &Fixture) -> String {
    fixture
        .checkout
        .git(&["rev-parse", "HEAD"])
        .trim()
        .to_owned()
}

/// The machines of a list that `plan --to` prints.
fn listed(text: &str, title: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with(title))
        .skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines
        .map(|line| line.trim().split(':').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_preview_that_takes_guards_back_is_the_plan_of_its_commit() {
    let fixture = applied();
    let retired = "schema: trueup/NodeRetirement/v1\nmetadata: {name: retired}\ndata:\n  retirements: [{node_names: [edge-3], reason: fan}]\n";
    fixture.checkout.write("retired.yaml", retired);
    fixture.commit_and_apply("Retire a machine", &[]).with(0);
    fixture
        .run(&["apply", "teardown", "edge-3", "--yes"])
        .with(0);
    let back = |more: &[&str]| {
        let own = ["plan", "--to", "successful-site-action~1", "--with-guards"];
        let plan = fixture.run(&[&own, more].concat()).with(0).json();
        (plan["changes"].clone(), plan["steps"].clone())
    };
    let previewed = back(&["--format", "json"]);
    assert!(previewed.1.to_string().contains("edge-3"));
    assert_eq!(previewed, back(&["--format", "json", "--write"]));
}

#[test]
fn the_way_back_names_what_is_gone_and_what_goes_and_changes_nothing() {
    let fixture = applied();
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let before = (
        head(&fixture),
        fixture.ledger(),
        fixture.read("profiles.yaml"),
    );
    let ended = fixture
        .run(&["plan", "--to", "successful-site-action~1"])
        .with(0);
    let told = &ended.stderr;
    assert!(told.contains("undoes 1 run: "), "{told}");
    let all: BTreeSet<String> = NODES.map(str::to_owned).into();
    assert_eq!(listed(told, "Gone already"), all, "{told}");
    assert_eq!(listed(told, "Lost by going back"), all, "{told}");
    assert!(
        told.contains("edge-1: the data of sda, sdb, with all local data of pods"),
        "{told}"
    );
    assert!(
        told.contains("`trueup plan --to successful-site-action~1 --write`"),
        "{told}"
    );
    assert!(
        ended.stdout.contains("ubuntu-24.10 → ubuntu-24.04"),
        "{}",
        ended.stdout
    );
    assert_eq!(
        (
            head(&fixture),
            fixture.ledger(),
            fixture.read("profiles.yaml")
        ),
        before
    );
    // By the run, and by its tag, it is the same way.
    let tags = fixture.tag_names();
    let run = tags[0].rsplit('/').next().unwrap();
    for word in [run, tags[0].as_str()] {
        fixture
            .run(&["plan", "--to", word])
            .with(0)
            .saying("undoes 1 run: ");
    }
}

#[test]
fn the_losses_are_part_of_the_plan_for_whoever_reviews_it() {
    let fixture = applied();
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let back = [
        "plan",
        "--to",
        "successful-site-action~1",
        "--write",
        "-o",
        "back.plan",
        "--allow-redeploy",
        "all",
    ];
    fixture.run(&back).with(0);
    let shown = |format: &str| {
        fixture
            .run(&["show", "back.plan", "--format", format])
            .with(0)
    };
    let plan = shown("json").json();
    let way = &plan["way_back"];
    assert_eq!(way["undone"].as_array().unwrap().len(), 1);
    let losses = way["losses"].as_array().unwrap();
    let of_runs = losses.iter().filter(|loss| loss["run"] == way["undone"][0]);
    assert_eq!((losses.len(), of_runs.count()), (6, 3), "{losses:?}");
    for format in ["text", "markdown", "html"] {
        let text = shown(format).stdout;
        assert!(text.contains("Lost by going back:"), "{format}: {text}");
        assert!(
            text.contains("edge-1: the data of sda, sdb"),
            "{format}: {text}"
        );
    }
    fixture
        .run(&["apply", "back.plan", "--allow-redeploy", "all"])
        .with(0);
    assert!(
        fixture
            .run(&["plan", "--format", "json"])
            .with(0)
            .json()
            .get("way_back")
            .is_none()
    );
}

#[test]
fn the_commit_has_the_files_of_then_and_the_guards_of_now() {
    let fixture = applied();
    let first = fixture.read("profiles.yaml");
    let old_guards = fixture.read("backends.yaml");
    let guards = format!("{old_guards}# a remark of now\n");
    fixture.checkout.write("backends.yaml", &guards);
    fixture.checkout.write("new.yaml", "# a file of now\n");
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let base = head(&fixture);
    // A file of somebody else's, which is no document of the site.
    fixture.checkout.write(".scratch/notes.txt", "mine");
    let back = ["plan", "--to", "successful-site-action~1", "--write"];
    fixture.run(&back).with(0).saying("Committed ");
    assert_eq!(fixture.checkout.git(&["rev-parse", "HEAD~1"]).trim(), base);
    assert_eq!(fixture.read("profiles.yaml"), first);
    assert_eq!(fixture.read("backends.yaml"), guards);
    assert!(!fixture.checkout.path().join("new.yaml").exists());
    let status = fixture.checkout.git(&["status", "--short"]);
    assert_eq!(status.trim(), "?? .scratch/");
    let message = fixture.checkout.git(&["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("Go back to ") && message.contains("Lost by going back:"),
        "{message}"
    );
    // Going back once more to the same has nothing to commit.
    fixture.run(&back).with(0).saying("nothing was committed");
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0);
    assert_eq!(fixture.planned(&[]), BTreeMap::new());
    // With the guards, it is all as it was.
    let first = fixture
        .checkout
        .git(&["rev-list", "--max-parents=0", "HEAD"]);
    fixture
        .run(&["plan", "--to", first.trim(), "--write", "--with-guards"])
        .with(0);
    assert_eq!(fixture.read("backends.yaml"), old_guards);
}

#[test]
fn what_returns_in_place_loses_nothing() {
    let fixture = applied();
    fixture.edit("profiles.yaml", "role: worker}", "role: other}");
    fixture.commit_and_apply("Another label", &[]).with(0);
    let ended = fixture
        .run(&["plan", "--to", "successful-site-action~1"])
        .with(0);
    assert!(ended.stderr.contains("Nothing is lost"), "{}", ended.stderr);
}

#[test]
fn values_that_a_service_set_and_no_document_takes_back_are_told() {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy_folder(&root.join("site-examples/edge"), fixture.checkout.path());
    fixture.simulator("{clock: virtual, hardware: [{values: {bios.Turbo: Disabled}}]}");
    fixture.commit_and_apply("A site", &[]).with(0);
    let enforce = |turbo: &str| {
        let document = format!(
            "schema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata: {{mode: enforce, bios: {{Turbo: {turbo}}}}}\n"
        );
        fixture.checkout.write("hardware.yaml", document);
        let allow = ["--allow-restart", "all"];
        fixture.commit_and_apply("Enforce", &allow).with(0);
    };
    enforce("Enabled");
    let back = |to: &str| fixture.run(&["plan", "--to", to]).with(0);
    let ended = back("successful-site-action~1");
    let told =
        "edge-1: bios.Turbo stays Enabled (before: Disabled): that revision enforces no value";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(!ended.stderr.contains("Nothing is lost"));
    let stays = "its firmware and settings are not enforced any more, and stay as they are";
    assert!(ended.stdout.contains(stays), "{}", ended.stdout);
    // What a document of then enforces returns by a service.
    enforce("Disabled");
    back("successful-site-action~1").saying("Nothing is lost");
}

#[test]
fn what_is_shown_is_the_plan_of_the_commit_that_is_written() {
    let fixture = applied();
    fixture.checkout.write(
        "policy.yaml",
        "schema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {protected: [{node_names: [edge-1]}]}\n",
    );
    fixture.edit("profiles.yaml", "role: worker}", "role: other}");
    fixture.commit_and_apply("Labels and a guard", &[]).with(0);
    let loosening = "`protected`: no longer edge-1";
    let plan = |more: &[&str]| {
        let to = [
            "plan",
            "--to",
            "successful-site-action~1",
            "--format",
            "json",
        ];
        fixture.run(&[&to, more].concat()).with(0)
    };
    let steps = |ended: &Ended| ended.json()["steps"].clone();
    let shown = plan(&[]);
    assert!(!shown.stdout.contains(loosening), "{}", shown.stdout);
    assert_eq!(shown.json()["history"]["rollback"], Value::Null);
    assert!(plan(&["--with-guards"]).stdout.contains("no longer edge-1"));
    let before = head(&fixture);
    let written = plan(&["--write"]);
    assert_ne!(head(&fixture), before);
    assert_eq!(steps(&shown), steps(&written));
}

#[test]
fn a_file_with_guards_beside_designs_is_not_left_behind_in_silence() {
    let fixture = applied();
    let policy =
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {parallelism: 4}\n";
    let profiles = fixture.read("profiles.yaml");
    fixture
        .checkout
        .write("profiles.yaml", format!("{profiles}{policy}"));
    fixture.commit_and_apply("A policy", &[]).with(0);
    let mixed = fixture.read("profiles.yaml");
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let base = head(&fixture);
    let back = |more: &[&str]| {
        let own = ["plan", "--to", "successful-site-action~1"];
        fixture.run(&[&own, more].concat())
    };
    for more in [&[][..], &["--write"]] {
        back(more)
            .with(4)
            .saying("these files hold other documents beside them that differ")
            .saying("profiles.yaml");
    }
    assert_eq!(head(&fixture), base);
    // A plan of a commit that no branch has could never be applied.
    let saved = fixture.checkout.path().join(".git/back.plan");
    let saved = saved.to_str().unwrap();
    back(&["--with-guards", "-o", saved])
        .with(64)
        .saying("add `--write`");
    back(&["--with-guards"])
        .with(0)
        .saying("`trueup plan --to successful-site-action~1 --write --with-guards` commits it");
    back(&["--with-guards", "--write"]).with(0);
    assert_eq!(fixture.read("profiles.yaml"), mixed);
    // What stays is named.
    fixture.edit("profiles.yaml", "parallelism: 4", "parallelism: 3");
    fixture.checkout.commit("Less at once");
    let told = fixture.run(&["plan", "--to", "HEAD~1"]).with(0);
    told.saying("Guards stay as they are (`--with-guards` takes them back, too): profiles.yaml.")
        .saying("Only files that guard the site differ; `--write` would commit nothing.");
}

#[test]
fn other_sites_whose_files_go_back_are_named() {
    let fixture = example("multi-site");
    fixture.checkout.commit("Sites");
    let profiles = fixture.read("global/profiles.yaml");
    let edited = profiles.replace("ubuntu-24.04", "ubuntu-26.04");
    assert_ne!(edited, profiles);
    fixture.checkout.write("global/profiles.yaml", edited);
    fixture.checkout.commit("An image");
    fixture
        .run(&["plan", "--to", "HEAD~1", "--site", "south"])
        .with(0)
        .saying("Files that go back are of 1 other site, too: `north`.");
}

#[test]
fn what_later_runs_at_the_same_revision_destroyed_is_told() {
    let fixture = applied();
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    let first = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    fixture
        .run(&["apply", "teardown", "edge-3", "--yes"])
        .with(0);
    fixture.run(&["apply", "--yes"]).with(0);
    let told = fixture.run(&["plan", "--to", &first]).with(0).stderr;
    let gone = "Gone already, and not brought back by any of it:";
    assert!(listed(&told, gone).contains("edge-3"), "{told}");
}

#[test]
fn what_cannot_be_committed_safely_is_refused_and_changes_nothing() {
    let fixture = applied();
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let base = head(&fixture);
    let back = ["plan", "--to", "successful-site-action~1", "--write"];
    let profiles = fixture.read("profiles.yaml");
    fixture
        .checkout
        .write("profiles.yaml", format!("{profiles}# edited\n"));
    fixture.run(&back).with(4).saying("not committed");
    fixture.checkout.write("profiles.yaml", &profiles);
    fixture.checkout.write("README.txt", "staged");
    fixture.checkout.git(&["add", "README.txt"]);
    fixture.run(&back).with(4).saying("is staged");
    assert_eq!(
        (head(&fixture), fixture.read("profiles.yaml")),
        (base, profiles)
    );
    for (word, code) in [
        ("successful-site-action~7", 1),
        ("successful-site-action~x", 64),
        ("worktree", 64),
        ("no-such", 1),
    ] {
        let ended = fixture.run(&["plan", "--to", word]);
        assert_eq!(ended.code, code, "{word}: {}", ended.stderr);
    }
    fixture
        .run(&["plan", "drain", "edge-1", "--to", "HEAD~1"])
        .with(64);
}

/// Edits of the documents; the second of two values needs a redeploy or not.
const EDITS: [(&str, &[&str]); 3] = [
    ("image: ", &["ubuntu-24.04", "ubuntu-24.10", "ubuntu-26.04"]),
    ("kernel: ", &["generic", "hwe"]),
    ("edge.example.org/role: ", &["worker", "idle", "other"]),
];

/// Sets one value of the profile.
fn set(text: &str, name: &str, value: &str) -> String {
    let at = text.find(name).unwrap() + name.len();
    let end = at + text[at..].find(['\n', '}']).unwrap();
    format!("{}{value}{}", &text[..at], &text[end..])
}

#[test]
fn a_way_back_that_is_applied_leaves_all_as_it_was_but_for_what_was_listed() {
    for seed in 0..number("TRUEUP_TEST_SEEDS").unwrap_or(3).min(1000) {
        let mut dice = Dice(seed);
        let fixture = applied();
        let mut texts = vec![fixture.read("profiles.yaml")];
        for step in 0..1 + dice.below(3) {
            let (name, values) = dice.pick(&EDITS);
            let text = set(texts.last().unwrap(), name, dice.pick(values));
            fixture.checkout.write("profiles.yaml", &text);
            fixture.checkout.git(&[
                "commit",
                "-q",
                "--allow-empty",
                "-am",
                &format!("Edit {step}"),
            ]);
            fixture
                .run(&["apply", "--yes", "--allow-redeploy", "all"])
                .with(0);
            texts.push(text);
        }
        let back = dice.below(texts.len());
        let commit = fixture
            .checkout
            .git(&["rev-parse", &format!("HEAD~{back}")]);
        let before = fixture.ledger();
        let told = fixture
            .run(&["plan", "--to", commit.trim(), "--write"])
            .with(0)
            .stderr;
        assert_eq!(fixture.ledger(), before, "seed {seed}");
        let wanted = &texts[texts.len() - 1 - back];
        assert_eq!(&fixture.read("profiles.yaml"), wanted, "seed {seed}");
        fixture
            .run(&["apply", "--yes", "--allow-redeploy", "all"])
            .with(0);
        assert_eq!(fixture.planned(&[]), BTreeMap::new(), "seed {seed}");
        // The machines that were wiped are those that were listed, and no others.
        let wiped = |node: &str| {
            let count = |ledger: &BTreeMap<String, usize>| {
                let key = format!("{node} deployed");
                ledger.get(&key).copied().unwrap_or_default()
            };
            count(&fixture.ledger()) > count(&before)
        };
        let lost: BTreeSet<String> = NODES
            .iter()
            .filter(|node| wiped(node))
            .map(|node| (*node).to_owned())
            .collect();
        assert_eq!(
            listed(&told, "Lost by going back"),
            lost,
            "seed {seed}: {told}"
        );
    }
}

#[test]
fn a_day_means_the_last_success_until_its_end_and_a_reflog_is_not_asked() {
    let fixture = applied();
    let first = head(&fixture);
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    let until = runs["runs"][0]["ended"].as_str().unwrap().to_owned();
    // Runs are told apart by whole seconds.
    while jiff::Timestamp::now().as_second()
        <= until.parse::<jiff::Timestamp>().unwrap().as_second()
    {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    image(&fixture, "ubuntu-24.04", "ubuntu-24.10");
    let back = |word: &str| {
        let plan = fixture
            .run(&["plan", "--to", word, "--format", "json"])
            .with(0);
        plan.json()["way_back"]["target"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(back(&until), first);
    let today = jiff::Timestamp::now().to_string();
    assert_eq!(back(&today[..10]), head(&fixture));
    fixture
        .run(&["plan", "--to", "2999-12-31"])
        .with(64)
        .saying("is in the future");
    fixture
        .run(&["plan", "--to", "2020-01-01"])
        .with(1)
        .saying("had succeeded by 2020-01-02T00:00:00Z");
    // What counts back is a revision for all that take one.
    let diff = fixture
        .run(&["diff", "successful-site-action~1", "HEAD"])
        .with(0);
    assert!(diff.stdout.contains("ubuntu-24.10"), "{}", diff.stdout);
    for word in ["2026-11-22T01:00", "2026-11-22 01:00", "20261122"] {
        fixture
            .run(&["plan", "--to", word])
            .with(1)
            .saying("a day is written `2026-11-22`, a time with its zone");
    }
    for word in ["HEAD@{1 week ago}", "HEAD@{yesterday}", "@{2026-01-01}"] {
        fixture
            .run(&["plan", "--to", word])
            .with(64)
            .saying("asks the reflog of this clone");
    }
}
