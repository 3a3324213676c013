//! `trueup plan` and `trueup apply` of one change at a time to a deployed site, and what refuses them.

use super::fixture::Fixture;

/// The example site, deployed.
fn deployed() -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
}

fn kinds<'a>(pairs: &[(&'a str, &'a str)]) -> std::collections::BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(node, kind)| ((*node).to_owned(), (*kind).to_owned()));
    owned.collect()
}

fn add_label(fixture: &Fixture) {
    fixture.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
}

fn edit_monitoring_storage(fixture: &Fixture) {
    fixture.edit(
        "host-profiles.yaml",
        "mountpoint: /var/lib/metrics",
        "mountpoint: /srv/metrics",
    );
}

fn add_node(fixture: &Fixture) {
    let mut nodes = fixture.read("nodes/monitoring.yaml");
    nodes.push_str(
        "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: monitor04}\ndata:\n  \
         host_profile: monitoring\n  metadata: {rack: rack01, tags: [monitoring]}\n  addressing:\n    \
         - {network: oob, address: 10.20.0.70}\n    - {network: pxe, address: 10.20.1.70}\n    \
         - {network: oam, address: 10.20.2.70}\n",
    );
    fixture.checkout.write("nodes/monitoring.yaml", nodes);
}

pub(crate) fn remove_node(fixture: &Fixture) {
    let nodes = fixture.read("nodes/monitoring.yaml");
    let kept: Vec<&str> = nodes
        .split("---\n")
        .filter(|document| !document.contains("monitor02"))
        .collect();
    fixture
        .checkout
        .write("nodes/monitoring.yaml", kept.join("---\n"));
}

#[test]
fn a_label_is_set_and_nothing_else_is_done() {
    let fixture = deployed();
    let before = fixture.ledger();
    add_label(&fixture);
    assert_eq!(fixture.planned(&[]), kinds(&[("monitor01", "relabel")]));
    fixture.commit_and_apply("Gold", &[]).with(0);
    assert_eq!(fixture.tags(), ["success", "success"]);
    let mut after = fixture.ledger();
    assert_eq!(after.remove("monitor01 relabelled"), Some(1));
    assert_eq!(after, before);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_new_node_is_created_and_the_others_are_left_alone() {
    let fixture = deployed();
    let before = fixture.effects("deployed");
    add_node(&fixture);
    assert_eq!(fixture.planned(&[]), kinds(&[("monitor04", "create")]));
    fixture.commit_and_apply("One more", &[]).with(0);
    assert_eq!(fixture.effects("deployed"), before + 1);
    assert_eq!(fixture.ledger()["monitor04 deployed"], 1);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn an_edited_profile_redeploys_its_nodes_once_that_is_allowed() {
    let fixture = deployed();
    edit_monitoring_storage(&fixture);
    let redeploys = kinds(&[
        ("monitor01", "redeploy"),
        ("monitor02", "redeploy"),
        ("monitor03", "redeploy"),
    ]);
    assert_eq!(fixture.planned(&[]), redeploys);
    let shown = fixture.run(&["plan"]).with(0).stdout;
    assert!(shown.contains("--allow-redeploy"), "{shown}");
    assert!(shown.contains("host-profiles.yaml"), "{shown}");

    let ledger = fixture.ledger();
    fixture
        .commit_and_apply("Another place for metrics", &[])
        .with(4)
        .saying("--allow-redeploy");
    assert_eq!(fixture.ledger(), ledger, "a refusal does nothing");
    assert_eq!(fixture.tags(), ["success"]);

    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0);
    assert_eq!(fixture.tags(), ["success", "success"]);
    let ledger = fixture.ledger();
    for node in ["monitor01", "monitor02", "monitor03"] {
        assert_eq!(ledger[&format!("{node} deployed")], 2, "{ledger:?}");
        assert_eq!(ledger[&format!("{node} destroyed")], 1, "{ledger:?}");
    }
    assert_eq!(ledger["control01 deployed"], 1);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn nothing_is_built_again_of_documents_that_name_no_image_any_more() {
    let fixture = super::accepted::example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    let ledger = fixture.ledger();
    let mut known = "image: ubuntu-24.04";
    for none in ["image:", "image: ''", "image: ' '"] {
        fixture.edit("profiles.yaml", known, none);
        known = none;
        fixture.checkout.commit("No image");
        let words = ["apply", "--yes", "--allow-redeploy", "all"];
        fixture
            .run(&words)
            .with(4)
            .saying("it has an image, and its documents name none any more");
    }
    assert_eq!(fixture.ledger(), ledger);
}

#[test]
fn one_node_of_three_is_redeployed_where_only_that_is_allowed() {
    let fixture = deployed();
    edit_monitoring_storage(&fixture);
    fixture.checkout.commit("Another place for metrics");
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "monitor02"])
        .with(4)
        .saying("monitor01")
        .saying("monitor03");
    fixture
        .run(&[
            "apply",
            "--yes",
            "--allow-redeploy",
            "monitor02",
            "--skip-blocked",
        ])
        .with(0);
    assert_eq!(fixture.effects("destroyed"), 1);
    assert_eq!(fixture.ledger()["monitor02 deployed"], 2);
}

#[test]
fn a_node_that_left_the_design_is_torn_down_once_that_is_allowed() {
    let fixture = deployed();
    remove_node(&fixture);
    assert_eq!(fixture.planned(&[]), kinds(&[("monitor02", "destroy")]));
    let ledger = fixture.ledger();
    fixture
        .commit_and_apply("One fewer", &[])
        .with(4)
        .saying("--allow-destroy");
    assert_eq!(fixture.ledger(), ledger, "a refusal does nothing");
    fixture
        .run(&["apply", "--yes", "--allow-destroy", "monitor02"])
        .with(0);
    assert_eq!(fixture.ledger()["monitor02 destroyed"], 1);
    assert_eq!(fixture.effects("destroyed"), 1);
    assert_eq!(fixture.tags(), ["success", "success"]);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_run_that_skipped_a_change_makes_no_success_tag() {
    let fixture = deployed();
    edit_monitoring_storage(&fixture);
    add_label(&fixture);
    add_node(&fixture);
    fixture
        .commit_and_apply("Much", &["--skip-blocked"])
        .with(0);
    assert_eq!(fixture.ledger()["monitor04 deployed"], 1);
    assert_eq!(fixture.effects("destroyed"), 0);
    assert_eq!(fixture.tags(), ["success"], "the site is not as designed");
    // Its records count all the same.
    let left = fixture.planned(&[]);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.values().all(|kind| kind == "redeploy"), "{left:?}");
}

#[test]
fn a_narrowed_run_makes_no_success_tag() {
    for (narrowed, done) in [
        (["--target", "monitor01"], 1),
        (["--exclude", "rack:rack01,rack:rack02"], 5),
        (["--target", "group:monitoring-nodes"], 3),
    ] {
        let fixture = Fixture::one_rack();
        let ended = fixture.run(&[&["apply", "--yes"][..], &narrowed].concat());
        // What a group needs and was left out may fail it; that is for the plan to say.
        assert!([0, 7].contains(&ended.code), "{narrowed:?}: {ended:?}");
        assert!(
            !fixture.tags().contains(&"success".to_owned()),
            "{narrowed:?}"
        );
        assert!(fixture.effects("deployed") <= done, "{narrowed:?}");
        assert_eq!(fixture.planned(&[]).len(), 13 - fixture.effects("deployed"));
    }
}

#[test]
fn files_that_are_no_documents_of_the_site_are_not_dirt() {
    let fixture = deployed();
    add_label(&fixture);
    fixture.checkout.commit("Gold");
    fixture.checkout.write("NOTES.txt", "to do");
    fixture.run(&["apply", "--yes"]).with(0);
}

#[test]
fn commits_in_between_are_refused_unless_they_are_allowed() {
    let fixture = deployed();
    add_label(&fixture);
    fixture.checkout.commit("Gold it is");
    add_node(&fixture);
    fixture.checkout.commit("One more");
    for format in ["text", "markdown"] {
        let told = fixture.run(&["plan", "--format", format]).with(0).stdout;
        for part in [
            "1 commit since the last site action was never applied as a whole",
            "Gold it is",
            "BLOCKED: commits since the last site action",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let allowed = ["plan", "--format", format, "--allow-intermediate-commits"];
        let told = fixture.run(&allowed).with(0).stdout;
        assert!(!told.contains("BLOCKED"), "{told}");
        assert!(told.contains("In force: "), "{told}");
    }
    let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
    assert_eq!(plan["history"]["lineage"], "intermediate-commits");
    assert_eq!(plan["intermediate_commits"][0]["subject"], "Gold it is");
    let since = plan["history"]["since_base"].as_array().unwrap().iter();
    let since: Vec<_> = since.map(|commit| commit["subject"].as_str()).collect();
    assert_eq!(since, [Some("One more"), Some("Gold it is")]);
    fixture.run(&["plan", "-o", "plan.json"]).with(0);
    fixture.run(&["apply", "plan.json", "--yes"]).with(4);
    let ledger = fixture.ledger();
    fixture
        .run(&["apply", "--yes"])
        .with(4)
        .saying("Gold it is")
        .saying("--allow-intermediate-commits");
    assert_eq!(fixture.ledger(), ledger);
    assert_eq!(fixture.tags(), ["success"]);
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    assert_eq!(fixture.tags(), ["success", "success"]);
}

#[test]
fn commits_in_between_that_touch_no_document_of_the_site_are_nothing() {
    let fixture = deployed();
    fixture.checkout.write("README.md", "A site.\n");
    fixture.checkout.commit("Describe it");
    add_label(&fixture);
    fixture.commit_and_apply("Gold", &[]).with(0);
}

#[test]
fn going_back_is_refused_and_says_what_it_undoes() {
    let fixture = deployed();
    add_label(&fixture);
    fixture.commit_and_apply("Gold it is", &[]).with(0);
    fixture.checkout.git(&["checkout", "--quiet", "HEAD~1"]);
    let told = fixture.run(&["plan"]).with(0).stdout;
    for part in [
        "This is a rollback, which undoes 1 commit",
        "Gold it is",
        "BLOCKED: a rollback",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    fixture
        .run(&["apply", "--yes"])
        .with(4)
        .saying("rollback")
        .saying("Gold it is");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 2);
}

#[test]
fn a_plan_says_which_commits_led_to_it_and_that_they_are_not_published() {
    let fixture = deployed();
    let origin = fixture.checkout.outside().join("origin.git");
    let origin = origin.to_str().unwrap();
    fixture
        .checkout
        .git(&["clone", "--quiet", "--bare", ".", origin]);
    fixture.checkout.git(&["remote", "add", "origin", origin]);
    fixture.checkout.git(&["fetch", "--quiet", "origin"]);
    fixture
        .checkout
        .git(&["branch", "--quiet", "-u", "origin/main"]);
    let plan = || fixture.run(&["plan"]).with(0).stdout;
    assert!(!plan().contains("not on `origin/main`"), "{}", plan());
    add_label(&fixture);
    fixture.checkout.commit("Gold it is");
    for told in [
        "1 commit since the last success:",
        "Gold it is",
        "The commit is not on `origin/main` yet",
    ] {
        assert!(plan().contains(told), "{told}: {}", plan());
    }
    fixture.checkout.git(&["push", "--quiet", "origin", "main"]);
    assert!(!plan().contains("not on `origin/main`"), "{}", plan());
}

#[test]
fn invalid_documents_are_neither_planned_nor_applied_nor_tagged() {
    let fixture = Fixture::one_rack();
    fixture.edit(
        "strategy.yaml",
        "depends_on: [ntp-node]",
        "depends_on: [ntp]",
    );
    fixture.run(&["plan"]).with(1).saying("strategy.yaml:");
    fixture
        .commit_and_apply("A wrong name", &[])
        .with(1)
        .saying("ntp");
    assert_eq!(fixture.tags(), Vec::<String>::new());
}

#[test]
fn a_machine_that_was_torn_down_and_deployed_by_other_means_is_adopted() {
    use trueup::backend::hardware::sim::{Settings, Simulator};
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let simulator = Simulator::open(&fixture.simulated_site(), Settings::default()).unwrap();
    let node = trueup::design::NodeName::from("monitor03");
    let deployed = simulator.machine(&node).unwrap().unwrap();
    fixture
        .run(&["apply", "teardown", "monitor03", "--yes"])
        .with(0);
    let simulator = Simulator::open(&fixture.simulated_site(), Settings::default()).unwrap();
    simulator.seed(&node, deployed).unwrap();
    assert_eq!(fixture.planned(&[])["monitor03"], "adopt");
    fixture
        .run(&["apply", "--yes", "--adopt", "monitor03"])
        .with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_change_and_its_revert_leave_nothing_to_do_and_nothing_to_allow() {
    let fixture = deployed();
    add_label(&fixture);
    fixture.checkout.commit("A label");
    fixture.checkout.git(&["revert", "--no-edit", "HEAD"]);
    let plan = fixture.run(&["plan"]).with(0).stdout;
    assert!(!plan.contains("BLOCKED"), "{plan}");
    for _ in 0..2 {
        let ended = fixture.run(&["apply", "--yes"]).with(0);
        assert!(ended.stderr.contains("Nothing to do"), "{ended:?}");
    }
}

#[test]
fn a_plan_that_skipped_no_commits_is_made_again_where_some_have_come() {
    let fixture = deployed();
    add_label(&fixture);
    fixture.checkout.commit("A label");
    add_node(&fixture);
    fixture.checkout.commit("A node");
    let path = fixture.checkout.outside().join("two.plan");
    let path = path.to_str().unwrap();
    fixture.run(&["plan", "-o", path]).with(0);
    let ended = fixture.run(&["apply", path]).with(4);
    ended.saying("plan again with `--allow-intermediate-commits`");
}
