//! `trueup plan -o FILE` and `trueup apply FILE`: what was reviewed is what is done, or nothing.

use trueup::backend::hardware::sim::{Settings, Simulator};

use super::world::World;

/// Where the plan is saved: beside the checkout.
fn file(world: &World) -> String {
    let path = world.checkout.outside().join("plan.json");
    path.to_str().unwrap().to_owned()
}

/// Saves a plan and gives its path.
fn save(world: &World, more: &[&str]) -> String {
    let file = file(world);
    world.run(&[&["plan", "-o", &file], more].concat()).with(0);
    file
}

fn add_label(world: &World, node_rack: &str) {
    world.edit(
        "nodes/monitoring.yaml",
        &format!("{{rack: {node_rack}, tags: [monitoring]}}"),
        &format!("{{rack: {node_rack}, tags: [monitoring], owner_data: {{tier: gold}}}}"),
    );
}

#[test]
fn a_saved_plan_is_applied_without_a_question() {
    let world = World::one_rack();
    let file = save(&world, &[]);
    world.run(&["apply", &file]).with(0);
    assert_eq!(world.tags(), ["success"]);
    assert_eq!(world.effects("deployed"), 13);
}

#[test]
fn a_saved_plan_is_the_plan_that_was_printed_as_json() {
    let world = World::one_rack();
    let file = file(&world);
    let printed = world
        .run(&["plan", "--format", "json", "-o", &file])
        .with(0);
    let saved = std::fs::read_to_string(&file).unwrap();
    assert_eq!(printed.stdout.trim_end(), saved.trim_end());
    let again = world.run(&["show", &file, "--format", "json"]).with(0);
    assert_eq!(printed.stdout, again.stdout);
    let text = world.run(&["plan"]).with(0).stdout;
    assert_eq!(world.run(&["show", &file]).with(0).stdout, text);
    // The same documents give the same bytes.
    world.run(&["plan", "-o", &file]).with(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), saved);
}

#[test]
fn a_plan_is_stale_once_it_was_applied() {
    let world = World::one_rack();
    let file = save(&world, &[]);
    world.run(&["apply", &file]).with(0);
    let ledger = world.ledger();
    world
        .run(&["apply", &file])
        .with(5)
        .saying("the last success is run ");
    assert_eq!(world.ledger(), ledger);
    assert_eq!(world.tags(), ["success"]);
}

#[test]
fn a_plan_is_stale_once_the_documents_are_others() {
    let world = World::one_rack();
    let file = save(&world, &[]);
    add_label(&world, "rack01");
    world.checkout.commit("Gold");
    world
        .run(&["apply", &file])
        .with(5)
        .saying("does not have the files that were planned");
    assert!(world.tags().is_empty());
    assert!(!world.simulated_site().exists() || world.ledger().is_empty());
}

#[test]
fn a_plan_is_stale_once_a_failed_run_touched_its_nodes() {
    let world = World::one_rack_with_faults(
        "[{nodes: [monitor01], step: deploy, outcome: fail, times: 1}, \
          {nodes: [ntp01], step: prepare, outcome: fail, times: 1}]",
    );
    let file = save(&world, &[]);
    world.run(&["apply", "--yes"]).with(7);
    assert_eq!(world.tags(), ["failure"]);
    world
        .run(&["apply", &file])
        .with(5)
        .saying("the records of the nodes that the plan touches changed");
}

#[test]
fn a_plan_is_stale_once_a_machine_is_not_as_it_was_seen() {
    let world = World::one_rack();
    world.run(&["apply", "--yes"]).with(0);
    add_label(&world, "rack01");
    let edited = "mountpoint: /var/lib/metrics";
    world.edit("host-profiles.yaml", edited, "mountpoint: /srv/metrics");
    world.checkout.commit("Another place");
    let file = save(&world, &["--allow-redeploy", "all"]);
    // Somebody retires a machine in the provisioner itself.
    let simulator = Simulator::open(&world.simulated_site(), Settings::default()).unwrap();
    let node = trueup::design::NodeName::from("monitor02");
    let mut machine = simulator.machine(&node).unwrap().unwrap();
    machine.retired = Some(std::sync::Arc::from("sold"));
    simulator.seed(&node, machine).unwrap();
    drop(simulator);
    world
        .run(&["apply", &file])
        .with(5)
        .saying("monitor02")
        .saying("was");
    assert_eq!(world.effects("destroyed"), 0);
}

#[test]
fn a_file_that_was_altered_is_not_applied() {
    let world = World::one_rack();
    let file = save(&world, &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    let altered = text.replacen("monitor03", "monitor0x", 1);
    assert_ne!(text, altered);
    std::fs::write(&file, altered).unwrap();
    world.run(&["apply", &file]).with(5).saying("altered");
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    world.run(&["apply", &file]).with(1).saying("plan.json");
    std::fs::write(&file, "{}").unwrap();
    world.run(&["apply", &file]).with(1).saying("plan.json");
    world
        .run(&["apply", "no-such-file"])
        .with(1)
        .saying("no-such-file");
    assert!(world.tags().is_empty());
}

#[test]
fn a_squash_commit_with_the_same_files_is_what_was_planned() {
    let world = World::one_rack();
    world.run(&["apply", "--yes"]).with(0);
    world.checkout.git(&["checkout", "--quiet", "-b", "gold"]);
    add_label(&world, "rack01");
    world.checkout.commit("Gold here");
    add_label(&world, "rack02");
    world.checkout.commit("Gold there");
    let file = save(&world, &[]);
    world.checkout.git(&["checkout", "--quiet", "main"]);
    world
        .checkout
        .git(&["merge", "--quiet", "--squash", "gold"]);
    let squashed = world.checkout.commit("Gold");
    world.run(&["apply", &file]).with(0);
    let tag = world.tag_names().pop().unwrap();
    let tagged = world
        .checkout
        .git(&["rev-parse", &format!("{tag}^{{commit}}")]);
    assert_eq!(tagged, squashed.to_string(), "the commit applied is tagged");
    assert_eq!(world.effects("relabelled"), 2);
}

#[test]
fn a_plan_of_the_worktree_is_applied_once_it_is_committed() {
    let world = World::one_rack();
    world.run(&["apply", "--yes"]).with(0);
    add_label(&world, "rack01");
    let file = save(&world, &[]);
    world.run(&["apply", &file]).with(4).saying("not committed");
    world.checkout.commit("Gold");
    world.run(&["apply", &file]).with(0);
    assert_eq!(world.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_plan_of_another_site_is_wrong_usage() {
    let world = World::one_rack();
    let file = save(&world, &[]);
    let other = World::one_rack();
    other.edit("site-definition.yaml", "name: one-rack", "name: elsewhere");
    other.checkout.commit("Another name");
    other.run(&["apply", &file]).with(64).saying("elsewhere");
}

#[test]
fn a_plan_is_shown_as_a_comment_and_as_a_graph() {
    let world = World::one_rack();
    let shown = world.run(&["plan", "--format", "markdown"]).with(0).stdout;
    assert!(shown.starts_with("<!--"), "{shown}");
    for format in ["dot", "mermaid"] {
        let graph = world.run(&["plan", "--format", format]).with(0).stdout;
        assert!(graph.contains("ntp01"), "{graph}");
    }
}
