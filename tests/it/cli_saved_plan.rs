//! `trueup plan -o FILE` and `trueup apply FILE`: what was reviewed is what is done, or nothing.

use trueup::backend::hardware::sim::{Settings, Simulator};

use super::accepted::example;
use super::fixture::{Ended, Fixture};

/// Where the plan is saved: beside the checkout.
fn file(fixture: &Fixture) -> String {
    let path = fixture.checkout.outside().join("plan.json");
    path.to_str().unwrap().to_owned()
}

/// Saves a plan and gives its path.
fn save(fixture: &Fixture, more: &[&str]) -> String {
    let file = file(fixture);
    fixture
        .run(&[&["plan", "-o", &file], more].concat())
        .with(0);
    file
}

fn add_label(fixture: &Fixture, node_rack: &str) {
    fixture.edit(
        "nodes/monitoring.yaml",
        &format!("{{rack: {node_rack}, tags: [monitoring]}}"),
        &format!("{{rack: {node_rack}, tags: [monitoring], owner_data: {{tier: gold}}}}"),
    );
}

#[test]
fn a_saved_plan_is_applied_without_a_question() {
    let fixture = Fixture::one_rack();
    let file = save(&fixture, &[]);
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.tags(), ["success"]);
    assert_eq!(fixture.effects("deployed"), 13);
}

#[test]
fn a_saved_plan_is_the_plan_that_was_printed_as_json() {
    let fixture = Fixture::one_rack();
    let file = file(&fixture);
    let printed = fixture
        .run(&["plan", "--format", "json", "-o", &file])
        .with(0);
    let saved = std::fs::read_to_string(&file).unwrap();
    assert_eq!(printed.stdout.trim_end(), saved.trim_end());
    let again = fixture.run(&["show", &file, "--format", "json"]).with(0);
    // Each process says itself how many rules it held the plan to.
    let without_verdict = |text: &str| {
        let mut plan: serde_json::Value = serde_json::from_str(text).unwrap();
        let verdict = plan.as_object_mut().unwrap().remove("checked").unwrap();
        assert_eq!(verdict["findings"], 0);
        plan
    };
    assert_eq!(
        without_verdict(&printed.stdout),
        without_verdict(&again.stdout)
    );
    let text = fixture.run(&["plan"]).with(0).stdout;
    assert_eq!(fixture.run(&["show", &file]).with(0).stdout, text);
    // The same documents give the same bytes.
    fixture.run(&["plan", "-o", &file]).with(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), saved);
}

#[test]
fn a_plan_is_stale_once_a_failed_run_touched_its_nodes() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [monitor01], step: deploy, outcome: fail, times: 1}, \
          {nodes: [ntp01], step: prepare, outcome: fail, times: 1}]",
    );
    let file = save(&fixture, &[]);
    fixture.run(&["apply", "--yes"]).with(7);
    assert_eq!(fixture.tags(), ["failure"]);
    fixture
        .run(&["apply", &file])
        .with(5)
        .saying("the records of nodes that the plan relies on have changed since it was made, last by run ")
        .saying("monitor01");
}

#[test]
fn a_plan_is_stale_once_a_machine_is_not_as_it_was_seen() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    add_label(&fixture, "rack01");
    let edited = "mountpoint: /var/lib/metrics";
    fixture.edit("host-profiles.yaml", edited, "mountpoint: /srv/metrics");
    fixture.checkout.commit("Another place");
    let file = save(&fixture, &["--allow-redeploy", "all"]);
    // Somebody retires a machine in the provisioner itself.
    let simulator = Simulator::open(&fixture.simulated_site(), Settings::default()).unwrap();
    let node = trueup::design::NodeName::from("monitor02");
    let mut machine = simulator.machine(&node).unwrap().unwrap();
    machine.retired = Some(std::sync::Arc::from("sold"));
    simulator.seed(&node, machine).unwrap();
    drop(simulator);
    fixture
        .run(&["apply", &file])
        .with(5)
        .saying("monitor02")
        .saying("was");
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn a_squash_commit_with_the_same_files_is_what_was_planned() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.checkout.git(&["checkout", "--quiet", "-b", "gold"]);
    add_label(&fixture, "rack01");
    fixture.checkout.commit("Gold here");
    add_label(&fixture, "rack02");
    fixture.checkout.commit("Gold there");
    let file = save(&fixture, &[]);
    fixture.checkout.git(&["checkout", "--quiet", "main"]);
    fixture
        .checkout
        .git(&["merge", "--quiet", "--squash", "gold"]);
    let squashed = fixture.checkout.commit("Gold");
    fixture.run(&["apply", &file]).with(0);
    let tag = fixture.tag_names().pop().unwrap();
    let tagged = fixture
        .checkout
        .git(&["rev-parse", &format!("{tag}^{{commit}}")]);
    assert_eq!(tagged, squashed.to_string(), "the commit applied is tagged");
    assert_eq!(fixture.effects("relabelled"), 2);
}

#[test]
fn a_plan_of_the_worktree_is_applied_once_it_is_committed() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    add_label(&fixture, "rack01");
    let file = save(&fixture, &[]);
    fixture
        .run(&["apply", &file])
        .with(4)
        .saying("not committed");
    fixture.checkout.commit("Gold");
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_plan_of_another_site_is_wrong_usage() {
    let fixture = Fixture::one_rack();
    let file = save(&fixture, &[]);
    let other = Fixture::one_rack();
    other.edit("site-definition.yaml", "name: one-rack", "name: elsewhere");
    other.checkout.commit("Another name");
    other.run(&["apply", &file]).with(64).saying("elsewhere");
}

#[test]
fn a_plan_is_shown_as_a_comment_and_as_a_graph() {
    let fixture = Fixture::one_rack();
    let shown = fixture
        .run(&["plan", "--format", "markdown"])
        .with(0)
        .stdout;
    assert!(shown.starts_with("<!--"), "{shown}");
    for format in ["dot", "mermaid"] {
        let graph = fixture.run(&["plan", "--format", format]).with(0).stdout;
        assert!(graph.contains("ntp01"), "{graph}");
    }
}

/// The program in a shell in which no file can be written beyond a block, as on a full disk.
fn limited(fixture: &Fixture, arguments: &[&str]) -> Ended {
    let plain = fixture.command(arguments);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]);
    command.arg(plain.get_program()).args(arguments);
    command
        .current_dir(plain.get_current_dir().unwrap())
        .env_clear();
    let set = plain
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    command.envs(set).stdin(std::process::Stdio::null());
    command.output().unwrap().into()
}

#[test]
fn a_file_that_cannot_be_written_whole_stays_as_it_was_and_that_is_told() {
    let fixture = Fixture::one_rack();
    let file = file(&fixture);
    for flags in [
        &["plan", "-o", &file][..],
        &["plan", "--save-observed", &file],
        &["bundle", "-o", &file],
    ] {
        std::fs::write(&file, "what was before").unwrap();
        let ended = limited(&fixture, flags);
        assert!(
            ended.code == 1
                && ended
                    .stderr
                    .contains("; the file that is there stays as it was"),
            "{flags:?}: {} {}",
            ended.code,
            ended.stderr
        );
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "what was before",
            "{flags:?}"
        );
        let beside = std::fs::read_dir(fixture.checkout.outside()).unwrap();
        let names = beside.map(|entry| entry.unwrap().file_name());
        assert!(
            names
                .into_iter()
                .all(|name| !name.to_string_lossy().starts_with(".trueup-"))
        );
    }
}

/// A policy, and an image that no machine has.
fn with_another_image(policy: &str) -> Fixture {
    let fixture = super::accepted::example("edge");
    let policy =
        format!("---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{{policy}}}\n");
    fixture.checkout.write("policy.yaml", policy);
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("Image");
    fixture
}

#[test]
fn the_ways_out_of_a_saved_plan_that_is_blocked_are_those_of_another_plan() {
    let fixture = with_another_image("");
    let file = file(&fixture);
    let words = ["plan", "--allow-redeploy", "edge-1", "-o", &file];
    let saved = fixture.run(&words).with(0);
    saved.saying("refuses it as it stands: the changes of `edge-2` and 1 more are blocked.");
    let hint =
        "hint: plan again with the flags that are named, or plan the rest with `--skip-blocked`";
    fixture.run(&["apply", &file, "--yes"]).with(4).saying(hint);
    fixture
        .run(&["apply", "--yes"])
        .with(4)
        .saying("hint: give the flags that are named");
    fixture
        .run(&[
            "plan",
            "--skip-blocked",
            "--allow-redeploy",
            "edge-1",
            "-o",
            &file,
        ])
        .with(0)
        .saying("applies it.");
}

#[test]
fn no_way_out_is_by_a_flag_that_the_policy_forbids() {
    let fixture = with_another_image("flags: {forbid: [skip-blocked, outside-windows]}");
    let words = ["apply", "--yes", "--allow-redeploy", "edge-1"];
    let refused = fixture.run(&words).with(4);
    assert!(
        !refused.stderr.contains("skip-blocked"),
        "{}",
        refused.stderr
    );
    let explained = fixture.run(&["explain", "edge-1"]).with(0);
    let offer = "trueup plan --skip-blocked";
    assert!(!explained.stdout.contains(offer), "{}", explained.stdout);
}

#[test]
fn a_plan_that_rules_deny_is_saved_and_not_said_to_be_applicable() {
    let fixture = super::accepted::example("edge");
    let rules = "package x\nimport rego.v1\ndeny contains \"no\" if count(input.changes) > 0\n";
    fixture.checkout.write("policies/a.rego", rules);
    let policy =
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {rego: policies}\n";
    fixture.checkout.write("policy.yaml", policy);
    fixture.checkout.commit("The site");
    let file = file(&fixture);
    let saved = fixture.run(&["plan", "-o", &file]).with(0);
    saved.saying("refuses it as it stands: rules of the site deny it: no (x.deny).");
    fixture.run(&["apply", &file, "--yes"]).with(4);
}

#[test]
fn a_plan_that_was_applied_or_whose_machine_is_reserved_is_called_stale_wherever_it_is_shown() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "image: ubuntu-24.04", "image: noble-2");
    fixture.checkout.commit("An image");
    let save = ["plan", "--allow-redeploy", "all", "-o", "s.plan"];
    fixture.run(&save).with(0);
    let ways = |fixture: &Fixture| {
        let explain = ["explain", "edge-1", "s.plan", "--format", "json"];
        let explained = fixture.run(&explain).with(0).json();
        explained["ways_out"].to_string()
    };
    assert!(ways(&fixture).contains("trueup apply s.plan --effect"));
    let fresh = fixture.run(&["show", "s.plan"]).with(0);
    assert!(!fresh.stderr.contains("stale"), "{fresh:?}");

    let reserve = ["reserve", "edge-1", "--until", "4h", "--reason", "a fan"];
    fixture.run(&reserve).with(0);
    let reserved = ways(&fixture);
    assert!(
        reserved.contains("the plan is stale: `edge-1` is reserved")
            && reserved.contains("trueup release edge-1")
            && !reserved.contains("trueup apply"),
        "{reserved}"
    );
    fixture.run(&["release", "edge-1"]).with(0);
    assert!(ways(&fixture).contains("trueup apply s.plan"));

    let pin = fixture.run(&["show", "s.plan", "--format", "json"]).json();
    let pin = &pin["effect"].as_str().unwrap()[..16];
    fixture.run(&["apply", "s.plan", "--effect", pin]).with(0);
    let again = "trueup plan --allow-redeploy all -o s.plan";
    let applied = ways(&fixture);
    assert!(
        applied.contains("the plan is stale: the plan starts from run")
            && applied.contains(again)
            && !applied.contains("trueup apply"),
        "{applied}"
    );
    let told = "warning: the plan is stale, and `trueup apply` refuses it";
    fixture.run(&["show", "s.plan"]).with(0).saying(told);
    // Outside of its repository nothing is known of that, and nothing is told.
    let elsewhere = fixture.checkout.outside().join("s.plan");
    std::fs::copy(fixture.checkout.path().join("s.plan"), &elsewhere).unwrap();
    let folder = fixture.checkout.outside();
    let shown = fixture
        .run(&["-C", folder.to_str().unwrap(), "show", "s.plan"])
        .with(0);
    assert!(!shown.stderr.contains("warning"), "{shown:?}");
}

#[test]
fn a_bundle_and_a_document_are_no_plan_and_are_told_with_what_takes_them() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["bundle", "-o", "e.bundle"]).with(0);
    for command in ["show", "apply"] {
        fixture
            .run(&[command, "e.bundle"])
            .with(1)
            .saying("the file is a bundle")
            .saying("`trueup replay e.bundle`");
    }
    fixture
        .run(&["apply", "nodes.yaml"])
        .with(1)
        .saying("documents are no plan");
    // A path that a shell would take apart is typed as one word.
    fixture
        .run(&["plan", "-o", "my site.plan"])
        .with(0)
        .saying("`trueup apply 'my site.plan'` applies it");
}
