//! All that is printed: of the commands of every day, and of the mistakes that are made most often.
//!
//! What differs from run to run (ids, digests, times, folders) is replaced; `INSTA_UPDATE=always` writes the
//! snapshots anew.

use std::fmt::Write as _;

use super::accepted::example;
use super::fixture::{Ended, Fixture};
use super::masks::replaced;

/// An edit of a file: a text of it, and another in the place of the first such.
type Edit = (&'static str, &'static str, &'static str);

struct Mistake {
    what: &'static str,
    edit: Option<Edit>,
    arguments: &'static [&'static str],
}

const fn mistake(
    what: &'static str,
    edit: Option<Edit>,
    arguments: &'static [&'static str],
) -> Mistake {
    Mistake {
        what,
        edit,
        arguments,
    }
}

const VALIDATE: &[&str] = &["validate"];

/// Each on a copy of the small example site that was not applied.
const MISTAKES: [Mistake; 25] = [
    mistake(
        "a misspelt field",
        Some(("nodes.yaml", "host_profile: worker", "host_profle: worker")),
        VALIDATE,
    ),
    mistake(
        "a misspelt kind",
        Some((
            "nodes.yaml",
            "drydock/BaremetalNode/v1",
            "drydock/BareMetalNode/v1",
        )),
        VALIDATE,
    ),
    mistake(
        "an unknown profile",
        Some(("nodes.yaml", "host_profile: worker", "host_profile: wroker")),
        VALIDATE,
    ),
    mistake(
        "an unknown network",
        Some(("nodes.yaml", "network: pxe", "network: pxee")),
        VALIDATE,
    ),
    mistake(
        "a tab for indentation",
        Some((
            "nodes.yaml",
            "  host_profile: worker",
            "\thost_profile: worker",
        )),
        VALIDATE,
    ),
    mistake(
        "a quote that is not closed",
        Some(("nodes.yaml", "rack: closet", "rack: \"closet")),
        VALIDATE,
    ),
    mistake(
        "a key that is there twice",
        Some((
            "nodes.yaml",
            "  host_profile: worker",
            "  host_profile: worker\n  host_profile: worker",
        )),
        VALIDATE,
    ),
    mistake(
        "an address that is there twice",
        Some(("nodes.yaml", "10.40.0.12", "10.40.0.11")),
        VALIDATE,
    ),
    mistake(
        "an address outside of its network",
        Some(("nodes.yaml", "10.40.0.12", "10.41.0.12")),
        VALIDATE,
    ),
    mistake(
        "a name that is there twice",
        Some(("nodes.yaml", "name: edge-2", "name: edge-1")),
        VALIDATE,
    ),
    mistake(
        "a name with letters that Kubernetes refuses",
        Some(("nodes.yaml", "name: edge-2", "name: Edge_2")),
        VALIDATE,
    ),
    mistake(
        "a value of the wrong type",
        Some(("strategy.yaml", "critical: true", "critical: \"yes\"")),
        VALIDATE,
    ),
    mistake(
        "a dependency in a circle",
        Some(("strategy.yaml", "depends_on: []", "depends_on: [workers]")),
        VALIDATE,
    ),
    mistake(
        "a selector that matches nothing",
        Some(("strategy.yaml", "node_tags: [worker]", "node_tags: [wrker]")),
        VALIDATE,
    ),
    mistake(
        "a minimum that cannot be reached",
        Some((
            "strategy.yaml",
            "minimum_successful_nodes: 2",
            "minimum_successful_nodes: 4",
        )),
        VALIDATE,
    ),
    mistake(
        "a backend that is unknown",
        Some(("backends.yaml", "kind: sim", "kind: redfsh")),
        VALIDATE,
    ),
    mistake(
        "a size without a unit",
        Some(("profiles.yaml", "size: 1g", "size: 1")),
        VALIDATE,
    ),
    mistake(
        "documents that are not committed",
        Some(("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04")),
        &["apply", "--yes"],
    ),
    mistake("an approval that is missing", None, &["apply"]),
    mistake("a node that is unknown", None, &["plan", "drain", "edge-9"]),
    mistake(
        "a pattern that matches nothing",
        None,
        &["plan", "--target", "edge9"],
    ),
    mistake(
        "an action that is misspelt",
        None,
        &["plan", "drian", "edge-1"],
    ),
    mistake(
        "a flag that is misspelt",
        None,
        &["plan", "--alow-redeploy", "all"],
    ),
    mistake(
        "a revision that is unknown",
        None,
        &["plan", "--rev", "mian"],
    ),
    mistake("a run that is unknown", None, &["show", "01ZZZZ"]),
];

fn told(out: &mut String, fixture: &Fixture, arguments: &[&str], ended: &Ended) {
    let _ = write!(out, "$ trueup {}\n{}", arguments.join(" "), ended.stdout);
    if !ended.stderr.is_empty() {
        let _ = write!(out, "--- stderr\n{}", ended.stderr);
    }
    let _ = writeln!(out, "--- exit code {}\n", ended.code);
    let folder = fixture.checkout.path().to_str().unwrap();
    *out = replaced(&out.replace(folder, "DIR"), |name, _| name.to_owned());
}

#[test]
fn what_the_commonest_mistakes_are_answered_with() {
    let mut out = String::new();
    for mistake in &MISTAKES {
        let fixture = example("edge");
        fixture.checkout.commit("The site");
        if let Some((path, old, new)) = mistake.edit {
            let text = fixture.read(path);
            assert!(text.contains(old), "{path} has no {old}");
            fixture.checkout.write(path, text.replacen(old, new, 1));
        }
        let _ = writeln!(out, "### {}\n", mistake.what);
        let ended = fixture.run(mistake.arguments);
        told(&mut out, &fixture, mistake.arguments, &ended);
    }
    insta::assert_snapshot!("mistakes", out);
}

#[test]
fn what_the_commands_of_every_day_print() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let mut out = String::new();
    let mut run = |arguments: &[&str]| {
        let ended = fixture.run(arguments);
        told(&mut out, &fixture, arguments, &ended);
    };
    run(&["plan"]);
    run(&["apply", "--yes"]);
    run(&["status"]);
    run(&["log"]);
    run(&["plan"]);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.edit("profiles.yaml", "role: worker", "role: edge");
    fixture.checkout.commit("Take the new image");
    run(&["plan"]);
    run(&["apply", "--yes"]);
    run(&["plan", "--allow-redeploy", "all", "--format", "markdown"]);
    run(&[
        "apply",
        "--yes",
        "--allow-redeploy",
        "edge-1",
        "--skip-blocked",
    ]);
    run(&["show"]);
    run(&["log"]);
    insta::assert_snapshot!("every_day", out);
}
