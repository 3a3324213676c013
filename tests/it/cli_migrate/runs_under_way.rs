//! Records in a branch, and runs that many workers carry out: who may write what they tell, and where a run keeps its
//! records that began before the branch was named.

use std::path::Path;

use super::{BRANCH, OWN, applied, content, hook, look_in_branch};
use crate::cli_interrupted::shared;
use crate::fixture::{Fixture, copy_folder};
use crate::git::{Checkout, Origin};

/// A site with three machines that was never applied, and its remote.
fn fresh() -> (Fixture, Origin) {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    shared(fixture)
}

/// Begins a divided run of the site; the digest of its plan.
fn begin(fixture: &Fixture) -> String {
    fixture.run(&["plan", "-o", "site.plan"]).with(0);
    let begun = fixture.run(&["run", "begin", "site.plan", "--run", "n1"]);
    let said = begun.with(0).stdout;
    let digest = said
        .lines()
        .find_map(|line| line.strip_prefix("Plan digest: "));
    digest.unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn parts(fixture: &Fixture) -> Vec<String> {
    let parts = fixture.run(&["run", "parts", "site.plan", "--format", "json"]);
    let parts = parts.with(0).json();
    let parts = parts["parts"].as_array().unwrap().iter();
    parts
        .map(|part| part["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn who_may_not_write_the_branch_cannot_make_the_run_of_workers_a_success() {
    let (owner, origin) = fresh();
    look_in_branch(&owner);
    let digest = begin(&owner);
    // As a forge does it: this account may write no branch and no tag.
    let refs = "while read old new ref; do case $ref in refs/trueup/*) ;; *) echo \"protected: $ref\" >&2; exit 1;; esac; done";
    let at_work = origin.path().join("mallory");
    let check = format!("[ -e {} ] || exit 0\n{refs}\n", at_work.display());
    hook(&origin, "pre-receive", &check);
    std::fs::write(&at_work, "").unwrap();
    let mallory = Fixture::of(Checkout::clone_of(&origin.url(), &[]), "edge");
    look_in_branch(&mallory);
    let all = parts(&owner);
    for part in &all {
        let part = ["run", "part", "n1", part.as_str(), "--plan-digest", &digest];
        let refused = mallory.run(&part);
        assert_ne!(refused.code, 0, "{refused:?}");
        // The others wait for what was refused.
        if part[3] == all[0] {
            assert!(
                refused.stderr.contains("protected: refs/heads/"),
                "{refused:?}"
            );
        }
    }
    let written = origin.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/trueup",
        "refs/heads/trueup",
    ]);
    assert!(!written.contains("/run/"), "{written}");
    std::fs::remove_file(&at_work).unwrap();
    owner.run(&["run", "end", "n1"]).with(8);
    // Its own workers write beside the records, and their refs go with the end of the run.
    for part in &all {
        owner.run(&["run", "part", "n1", part]).with(0);
        let beside = origin.git(&[
            "for-each-ref",
            "--format=%(refname)",
            "refs/heads/trueup/edge/run",
        ]);
        assert!(beside.contains(part.as_str()), "{beside}");
    }
    owner.run(&["run", "end", "n1"]).with(0);
    let left = origin.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(!left.contains("/run/"), "{left}");
}

#[test]
fn a_run_of_workers_that_began_before_the_branch_was_named_ends_where_it_began() {
    for ending in ["end", "abort"] {
        let (fixture, origin) = applied();
        fixture.edit("profiles.yaml", "role: worker}", "role: other}");
        fixture.checkout.commit("Relabel");
        fixture.run(&["plan", "-o", "site.plan"]).with(0);
        let begin = ["run", "begin", "site.plan", "--run", "n1"];
        fixture.run(&begin).with(0);
        look_in_branch(&fixture);
        let refused = fixture.run(&["migrate"]).with(6);
        assert!(refused.stderr.contains("trueup run abort"), "{refused:?}");
        fixture.run(&["run", "status", "n1"]).with(0);
        if ending == "end" {
            for part in parts(&fixture) {
                fixture.run(&["run", "part", "n1", &part]).with(0);
            }
        }
        fixture.run(&["run", ending, "n1"]).with(0);
        assert_eq!(content(&origin, OWN), "records");
        fixture.run(&["migrate"]).with(0);
        assert_eq!(content(&origin, BRANCH), "records");
        fixture.run(&["plan"]).with(0);
    }
}
