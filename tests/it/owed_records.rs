//! Runs whose records and tags the remote lacks, since they were made without it: told, and published by the next command that
//! publishes.

use crate::accepted::example;
use crate::cli_interrupted::{clone, refuse, shared};
use crate::fixture::Fixture;
use crate::git::Origin;

/// A site with two runs of a time without a remote, which it has got since.
fn grown_up() -> (Fixture, Origin) {
    let site = example("edge");
    site.simulator("{clock: virtual, faults: []}");
    site.checkout.commit("A site");
    site.run(&["apply", "--yes"]).with(0);
    site.edit("profiles.yaml", "role: worker", "role: edge");
    site.commit_and_apply("Other labels", &[]).with(0);
    shared(site)
}

fn refs_at(origin: &Origin, pattern: &str) -> usize {
    let refs = origin.git(&["for-each-ref", "--format=%(refname)", pattern]);
    refs.lines().count()
}

#[test]
fn runs_of_a_time_without_a_remote_are_told_and_published_with_their_tags() {
    let (site, origin) = grown_up();
    let told = "2 runs, the last of them ";
    let log = site.run(&["log"]).with(0).saying(told);
    log.saying("have ended in this clone, and remote `origin` does not have the records; the next `trueup apply` publishes them");
    site.run(&["status"]).with(0).saying(told);
    let doctor = site.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("does not have the records"),
        "{doctor:?}"
    );
    assert_eq!(refs_at(&origin, "refs/trueup"), 0);
    // `--no-push` publishes nothing.
    site.run(&["apply", "--yes", "--no-push"]).with(0);
    assert_eq!(refs_at(&origin, "refs/trueup"), 0);
    site.run(&["apply", "--yes"])
        .with(0)
        .saying("and the remote did not have their records: it has them now")
        .saying("Nothing to do.");
    assert_eq!(refs_at(&origin, "refs/tags/site-action-success"), 2);
    assert_eq!(refs_at(&origin, "refs/trueup/edge/lock"), 0);
    let log = site.run(&["log"]).with(0);
    assert!(!log.stderr.contains("does not have"), "{log:?}");
    let other = clone(&site, &origin);
    let log = other.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(log["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_move_to_a_branch_brings_the_records_that_the_remote_lacks() {
    let (site, origin) = grown_up();
    site.checkout
        .git(&["config", "trueup.stateBranch", "trueup"]);
    site.run(&["migrate"])
        .with(0)
        .saying("it has them now")
        .saying("are at `refs/heads/trueup/edge/state` of the remote now");
    assert_eq!(refs_at(&origin, "refs/tags/site-action-success"), 2);
    assert_eq!(refs_at(&origin, "refs/heads/trueup"), 1);
}

#[test]
#[cfg(unix)]
fn tags_that_the_remote_refuses_are_owed_from_then_on() {
    let (site, origin) = grown_up();
    refuse(&origin, "refs/tags/");
    site.run(&["apply", "--yes"])
        .with(9)
        .saying("which it refused");
    assert_eq!(refs_at(&origin, "refs/trueup/edge/state"), 1);
    std::fs::remove_file(origin.path().join("hooks/update")).unwrap();
    site.run(&["apply", "--yes"]).with(0);
    assert_eq!(refs_at(&origin, "refs/tags/site-action-success"), 2);
}

#[test]
fn a_resume_publishes_the_runs_before_its_own() {
    let site = example("edge");
    site.simulator("{clock: virtual, faults: []}");
    site.checkout.commit("A site");
    site.run(&["apply", "--yes"]).with(0);
    site.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    site.checkout.commit("Another image");
    let kill = site.simulated_site().with_added_extension("kill");
    std::fs::write(kill, "{\"step\": \"deploy\"}").unwrap();
    site.run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(137);
    let (site, origin) = shared(site);
    site.run(&["apply", "--resume"]).with(0);
    assert_eq!(refs_at(&origin, "refs/tags/site-action-success"), 2);
}
