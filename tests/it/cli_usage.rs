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

#[test]
fn a_run_is_shown_by_the_beginning_of_its_id_or_as_the_last_one() {
    let world = example("edge");
    world.checkout.commit("The site");
    world
        .run(&["show"])
        .with(1)
        .saying("nothing was applied to site `edge` yet");
    world.run(&["apply", "--yes"]).with(0);
    world.edit("profiles.yaml", "role: worker", "role: other");
    world.commit_and_apply("Another label", &[]).with(0);
    let log = world.run(&["log", "--format", "json"]).with(0).json();
    let runs = log["runs"].as_array().unwrap();
    let id = |position: usize| runs[position]["run"].as_str().unwrap();
    let (newest, oldest) = (id(0), id(1));
    let shown = |arguments: &[&str]| world.run(arguments).with(0).stdout;
    assert_eq!(shown(&["show"]), shown(&["show", newest]));
    let unique = (1..=oldest.len()).map(|end| &oldest[..end]);
    let unique = unique
        .filter(|start| !newest.starts_with(start))
        .next()
        .unwrap();
    assert_eq!(shown(&["show", unique]), shown(&["show", oldest]));
    world
        .run(&["show", &oldest[..1]])
        .with(64)
        .saying("give more of the id");
    world
        .run(&["show", "--format", "markdown"])
        .with(64)
        .saying("--plan");
    let plan = shown(&["show", "--plan", "--format", "markdown"]);
    assert!(plan.starts_with("<!-- trueup"), "{plan}");
}

#[test]
fn init_writes_the_example_that_is_asked_for() {
    let world = World::empty("control-plane");
    let folder = world.checkout.outside().join("new");
    let folder = folder.to_str().unwrap();
    let told = world
        .run(&["init", "--example", "control-plane", folder])
        .with(0);
    assert!(
        told.stderr.contains("Wrote the site `control-plane`"),
        "{told:?}"
    );
    let told = world.run(&["-C", folder, "validate"]).with(0).stdout;
    assert!(told.contains("5 nodes"), "{told}");
    world.run(&["init", "--example", "none", folder]).with(64);
}
