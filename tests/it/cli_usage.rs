//! Mistakes on the command line, each with an error that names the way out, and nothing done.

use super::accepted::example;
use super::world::World;

#[test]
fn a_long_flag_with_one_dash_is_not_a_short_one_with_a_value() {
    let world = example("edge");
    world.checkout.commit("The site");
    for (arguments, long) in [
        (&["plan", "-out=x"][..], "--out"),
        (&["plan", "-out", "x"], "--out"),
        (&["apply", "-yes"], "--yes"),
        (&["-site", "edge", "plan"], "--site"),
    ] {
        let ended = world.run(arguments).with(64);
        let hint = format!("did you mean `{long}`?");
        assert!(ended.stderr.contains(&hint), "{ended:?}");
        assert!(!world.checkout.path().join("ut=x").exists());
    }
    world.run(&["plan", "-oplan.json"]).with(0);
    world.run(&["-vv", "validate"]).with(0);
}

#[test]
fn numbers_of_which_none_makes_no_sense_are_at_least_one() {
    let world = example("edge");
    world.checkout.commit("The site");
    for arguments in [
        ["plan", "--parallelism", "0"],
        ["plan", "--parallel-groups", "0"],
        ["plan", "--max-unavailable", "0"],
        ["log", "-n", "0"],
    ] {
        world.run(&arguments).with(64).saying("the least is 1");
    }
    world
        .run(&["log", "-n", "many"])
        .with(64)
        .saying("this is not a whole number");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let world = example("edge");
    world
        .run(&["-C", "gone", "plan"])
        .with(64)
        .saying("there is no folder `");
}

#[test]
fn the_first_apply_of_a_site_is_not_refused_for_the_commits_before_it() {
    let world = example("edge");
    world.checkout.commit("The site");
    world.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    world.checkout.commit("Another image");
    world.run(&["apply", "--yes"]).with(0);
}

#[test]
fn no_changes_among_the_selected_nodes_is_not_said_of_the_site() {
    let world = example("edge");
    world.commit_and_apply("The site", &[]).with(0);
    let planned = world.run(&["plan"]).with(0).stdout;
    assert!(
        planned.contains("No changes: the site is as designed"),
        "{planned}"
    );
    for arguments in [
        &["plan", "--target", "edge-1"][..],
        &["plan", "--exclude", "edge-1"],
        &["plan", "--target", "edge-1", "--exclude", "edge-1"],
    ] {
        let planned = world.run(arguments).with(0).stdout;
        assert!(planned.contains("No changes among the nodes"), "{planned}");
        assert!(!planned.contains("as designed"), "{planned}");
    }
}

#[test]
fn init_inside_a_repository_makes_no_other_one() {
    let world = World::empty("edge");
    world.checkout.write("README", "Sites\n");
    world.checkout.commit("Sites");
    let told = world.run(&["init", "sites/edge"]).with(0).stderr;
    assert!(told.contains("git add . && git commit"), "{told}");
    let folder = world.checkout.path().join("sites/edge");
    assert!(folder.join("nodes.yaml").exists() && !folder.join(".git").exists());
    world.checkout.commit("A site");
    world.run(&["-C", "sites/edge", "apply", "--yes"]).with(0);
}
