//! `trueup log`: what was done, and tags that are not needed any more.

use super::fixture::Fixture;
use super::git::Origin;

/// A site with three site actions behind it, and the origin that it is shared by.
fn with_three_tags() -> (Fixture, Origin) {
    let fixture = Fixture::one_rack();
    let origin = Origin::new();
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    git(&["remote", "add", "origin", &origin.url()]);
    git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    fixture.run(&["apply", "--yes"]).with(0);
    for (old, new) in [
        (
            "{rack: rack01, tags: [monitoring]}",
            "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
        ),
        ("{tier: gold}", "{tier: iron}"),
    ] {
        fixture.edit("nodes/monitoring.yaml", old, new);
        fixture.commit_and_apply(new, &[]).with(0);
    }
    assert_eq!(fixture.tag_names().len(), 3);
    (fixture, origin)
}

#[test]
fn old_tags_are_deleted_here_and_at_the_remote_but_never_that_of_the_last_success() {
    let (fixture, origin) = with_three_tags();
    let all = fixture.tag_names();
    let there = || origin.git(&["tag", "--list"]).lines().count();
    fixture
        .run(&["log", "--prune-tags", "3"])
        .with(0)
        .saying("0 tags deleted");
    assert_eq!((fixture.tag_names(), there()), (all.clone(), 3));

    // Only here: nothing is pushed.
    fixture
        .run(&["log", "--prune-tags", "2", "--no-push"])
        .with(0)
        .saying(&format!("deleted {}", all[0]))
        .saying("1 tag deleted here\n");
    assert_eq!((fixture.tag_names(), there()), (all[1..].to_vec(), 3));

    // A failure is newer, and the success is kept all the same.
    let failure = "site-action-failure/one-rack/7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
    fixture.checkout.git(&["tag", failure]);
    fixture.run(&["log", "--prune-tags", "1"]).with(0);
    assert_eq!(fixture.tag_names(), [&all[2], failure]);
    let ended = fixture
        .run(&["log", "--prune-tags", "0", "--format", "json"])
        .with(0);
    assert_eq!(fixture.tag_names(), [all[2].clone()]);
    assert_eq!(origin.git(&["tag", "--list"]), all[2]);

    // What counts is in the records.
    let runs = ended.json()["runs"].as_array().unwrap().len();
    assert_eq!(runs, 3);
    // Their records still name the tags that are deleted.
    let named = ended.json()["runs"].clone();
    let named = named.as_array().unwrap().iter();
    let named: Vec<_> = named.filter_map(|run| run["tag"].as_str()).collect();
    assert_eq!(named, [&all[2]]);
    fixture
        .run(&["diff", "--base", "successful-site-action"])
        .with(0);
}

#[test]
fn tags_of_others_and_of_other_sites_stay() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    for tag in [
        "v1",
        "site-action-success/other/01",
        "site-action-success/one-rack/by-hand",
        "site-action-failure-old",
    ] {
        fixture.checkout.git(&["tag", tag]);
    }
    let before = fixture.checkout.git(&["tag", "--list"]);
    fixture.run(&["log", "--prune-tags", "0"]).with(0);
    assert_eq!(fixture.checkout.git(&["tag", "--list"]), before);
}
