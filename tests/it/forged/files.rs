//! Files of plans that were altered by somebody who knows how their digests are made.

use serde_json::json;

use super::{Fixture, changed, forge, load, pin, relabel, save, step};

/// A relabel plan in which the relabel is a destroy that says that it does nothing.
fn destroy_in_place_of_a_relabel(file: &str) -> Vec<u8> {
    let mut plan = load(file);
    let relabel = step(&mut plan, "relabel");
    let id = relabel["id"].as_str().unwrap().to_owned();
    relabel["id"] = json!(id.replacen("relabel", "destroy", 1));
    relabel["kind"] = json!("destroy");
    relabel["effect"] = json!("none");
    relabel.as_object_mut().unwrap().remove("parameters");
    plan["relies_on"] = json!([]);
    forge(&plan)
}

#[test]
fn a_relabel_that_became_a_destroy_is_refused_wherever_it_is_read() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = save(&fixture, &[]);
    std::fs::write(&file, destroy_in_place_of_a_relabel(&file)).unwrap();
    let before = fixture.ledger();
    let is_refused = |request: &[&str]| {
        fixture.run(request).with(4).saying("check-steps");
    };
    is_refused(&["show", &file]);
    is_refused(&["show", &file, "--format", "markdown"]);
    is_refused(&["apply", &file]);
    is_refused(&["apply", &file, "--yes", "--allow-destroy", "all"]);
    assert_eq!(fixture.ledger(), before);
    assert_eq!(fixture.tags(), ["success"]);
}

#[test]
fn a_destroy_that_is_added_with_its_change_is_shown_and_not_done() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = save(&fixture, &[]);
    let mut plan = load(&file);
    // Everything in it agrees: the change says what it is, and the options allow it.
    plan["options"]["allow_destroy"] = json!({"all": true, "nodes": []});
    let change = &mut plan["changes"][0];
    change["kind"] = json!("destroy");
    change["rung"] = json!("wipe");
    change["destructive"] = json!(true);
    change["group"] = json!(null);
    change["disks"] = json!(["sda"]);
    plan["summary"]["changes"] = json!({"destroy": 1});
    plan["summary"]["highest_rung"] = json!("wipe");
    plan["summary"]["wiped_disks"] = json!(1);
    let relabel = step(&mut plan, "relabel");
    let node = relabel["node"].as_str().unwrap().to_owned();
    relabel["id"] = json!(format!("destroy/{node}"));
    relabel["kind"] = json!("destroy");
    relabel["effect"] = json!("destructive");
    relabel.as_object_mut().unwrap().remove("parameters");
    relabel.as_object_mut().unwrap().remove("group");
    // As one of a machine whose address another one has now: before the groups.
    relabel["needs"] = json!([{"step": 1, "wait": "success"}]);
    std::fs::write(&file, forge(&plan)).unwrap();
    let before = fixture.ledger();
    let shown = fixture.run(&["show", &file]).with(0).stdout;
    assert!(shown.contains("1 to destroy"), "{shown}");
    for more in [
        &[][..],
        &["--allow-destroy", "all"],
        &["--effect", &pin(&file)],
    ] {
        fixture
            .run(&[&["apply", &file], more].concat())
            .with(5)
            .saying("than this one shows:\n  monitor01: `relabel` added\n");
    }
    assert_eq!(fixture.ledger(), before);
}

#[test]
fn an_altered_file_is_told_no_digest_that_would_do() {
    let fixture = Fixture::one_rack();
    let file = save(&fixture, &[]);
    let mut plan = load(&file);
    plan["steps"][0]["timeout"] = json!(1);
    std::fs::write(&file, plan.to_string()).unwrap();
    let ended = fixture.run(&["apply", &file]).with(5).saying("altered");
    let right: serde_json::Value = serde_json::from_slice(&forge(&plan)).unwrap();
    assert!(!ended.stderr.contains(right["digest"].as_str().unwrap()));
}

#[test]
fn an_action_that_is_not_known_is_refused() {
    let fixture = Fixture::one_rack();
    let file = save(&fixture, &[]);
    let mut plan = load(&file);
    plan["action"] = json!("updates");
    std::fs::write(&file, forge(&plan)).unwrap();
    for command in ["show", "apply"] {
        let ended = fixture.run(&[command, &file]).with(1);
        ended.saying("unknown action \"updates\"");
    }
}

#[test]
fn what_a_file_allows_counts_where_it_is_given_again_or_pinned() {
    let fixture = changed();
    let all = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let file = save(&fixture, &all);
    let before = fixture.ledger();
    let refused = fixture.run(&["apply", &file]).with(4);
    refused
        .saying("`--allow-redeploy all`, `--allow-destroy all`")
        .saying(&format!("--effect {}", pin(&file)));
    // No flag that is about questions allows anything.
    fixture.run(&["apply", &file, "--yes"]).with(4);
    fixture.run(&["apply", &file, "--skip-blocked"]).with(64);
    fixture
        .run(&["apply", &file, "--allow-redeploy", "all"])
        .with(4)
        .saying("--allow-destroy all");
    fixture
        .run(&["apply", &file, "--effect", "0123456789abcdef"])
        .with(5)
        .saying("does not have the effect");
    fixture.run(&["apply", &file, "--effect", "0123"]).with(64);
    fixture
        .run(&["apply", "--yes", "--effect", &pin(&file)])
        .with(64);
    assert_eq!(fixture.ledger(), before);
    fixture
        .run(&["apply", &file, "--effect", &pin(&file)])
        .with(0);
    assert_eq!(fixture.ledger()["monitor02 destroyed"], 1);
    assert_eq!(fixture.ledger()["compute11 destroyed"], 1);
}

#[test]
fn what_a_file_allows_is_done_where_it_is_allowed_by_name() {
    let fixture = changed();
    let file = save(
        &fixture,
        &["--allow-redeploy", "all", "--allow-destroy", "all"],
    );
    fixture
        .run(&[
            "apply",
            &file,
            "--allow-redeploy",
            "all",
            "--allow-destroy",
            "all",
        ])
        .with(0);
    assert_eq!(fixture.tags(), ["success", "success"]);
}

#[test]
fn an_allowance_that_nothing_takes_is_not_asked_for() {
    let fixture = Fixture::one_rack();
    let file = save(
        &fixture,
        &["--allow-redeploy", "all", "--allow-destroy", "all"],
    );
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.effects("deployed"), 13);
}

#[test]
fn a_teardown_in_a_file_wants_its_effect_pinned() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let path = fixture.checkout.outside().join("saved.plan");
    let file = path.to_str().unwrap();
    fixture
        .run(&["plan", "teardown", "monitor03", "-o", file])
        .with(0)
        .saying("--effect");
    fixture.run(&["apply", file]).with(4).saying("`teardown`");
    assert_eq!(fixture.effects("destroyed"), 0);
    fixture
        .run(&["apply", file, "--effect", &pin(file)])
        .with(0);
    assert_eq!(fixture.ledger()["monitor03 destroyed"], 1);
}

#[test]
fn dropping_a_record_by_a_file_wants_its_effect_pinned() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let file = save(&fixture, &["forget", "monitor03"]);
    fixture.run(&["apply", &file]).with(4).saying("`forget`");
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    fixture
        .run(&["apply", &file, "--effect", &pin(&file)])
        .with(0);
    assert_eq!(fixture.planned(&[])["monitor03"], "adopt");
}

#[test]
fn documents_that_were_not_merged_are_not_applied() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.checkout.git(&["checkout", "--quiet", "-b", "side"]);
    relabel(&fixture);
    fixture.checkout.commit("On the side");
    let file = save(&fixture, &["relabel", "monitor01"]);
    fixture.checkout.git(&["checkout", "--quiet", "main"]);
    fixture
        .run(&["apply", &file])
        .with(4)
        .saying("is not in the history of the checkout");
    assert_eq!(fixture.effects("relabelled"), 0);
    fixture.checkout.git(&["checkout", "--quiet", "side"]);
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.effects("relabelled"), 1);
}
