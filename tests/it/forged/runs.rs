//! Runs that somebody wrote into the records, and the honest ones of another clone.

use serde_json::json;
use trueup::plan::saved::read;

use super::{Fixture, changed, forge, load, pin, plant, relabel, save, step};

fn interrupted_runs(fixture: &Fixture) -> String {
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    log["runs"][0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_planted_run_that_contradicts_itself_is_not_resumed() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = save(&fixture, &[]);
    let honest = read(&std::fs::read(&file).unwrap()).unwrap();
    let mut plan = load(&file);
    let relabel = step(&mut plan, "relabel");
    let id = relabel["id"].as_str().unwrap().to_owned();
    relabel["id"] = json!(id.replacen("relabel", "destroy", 1));
    relabel["kind"] = json!("destroy");
    relabel["effect"] = json!("none");
    plan["relies_on"] = json!([]);
    let before = fixture.ledger();
    plant(&fixture, &honest, &forge(&plan));
    fixture
        .run(&["apply", "--resume"])
        .with(1)
        .saying("are not those of its kind: unknown field `set_labels`");
    let relabel = step(&mut plan, "destroy");
    relabel.as_object_mut().unwrap().remove("parameters");
    plant(&fixture, &honest, &forge(&plan));
    fixture
        .run(&["apply", "--resume"])
        .with(5)
        .saying("`destroy` added")
        .saying("trueup abort");
    assert_eq!(fixture.ledger(), before);
    let run = interrupted_runs(&fixture);
    fixture.run(&["show", &run, "--plan"]).with(4);
    fixture.run(&["abort", &run]).with(0);
    fixture.run(&["apply", "--yes"]).with(0);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_planted_run_does_not_destroy_what_the_documents_keep() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    // An honest plan of documents without a machine, for documents that have it.
    let side = changed();
    let file = save(
        &side,
        &["--allow-redeploy", "all", "--allow-destroy", "all"],
    );
    let mut plan = load(&file);
    let own = load(&save(&fixture, &[]));
    for field in ["target", "base", "records_digest"] {
        plan[field] = own[field].clone();
    }
    plan["relies_on"] = json!([]);
    let bytes = forge(&plan);
    plant(&fixture, &read(&bytes).unwrap(), &bytes);
    let path = fixture.checkout.outside().join("forged.plan");
    std::fs::write(&path, &bytes).unwrap();
    let before = fixture.ledger();
    let pin = pin(path.to_str().unwrap());
    for more in [
        &["--allow-redeploy", "all", "--allow-destroy", "all"][..],
        &["--effect", &pin],
    ] {
        fixture
            .run(&[&["apply", "--resume"], more].concat())
            .with(5)
            .saying("monitor02: ");
    }
    let ended = fixture.run(&["apply", "--resume"]);
    assert!([4, 5].contains(&ended.code), "{ended:?}");
    assert_eq!(fixture.ledger(), before);
}

#[test]
fn what_a_run_of_another_clone_allows_is_allowed_again_or_pinned() {
    let fixture = changed();
    let allowed = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let file = save(&fixture, &allowed);
    let bytes = std::fs::read(&file).unwrap();
    plant(&fixture, &read(&bytes).unwrap(), &bytes);
    let before = fixture.ledger();
    fixture
        .run(&["apply", "--resume"])
        .with(4)
        .saying("trueup apply --resume --effect ");
    assert_eq!(fixture.ledger(), before);
    let pin = pin(&file);
    fixture
        .run(&["apply", "--resume", "--effect", &pin])
        .with(0);
    assert_eq!(fixture.ledger()["monitor02 destroyed"], 1);
    assert_eq!(fixture.ledger()["compute11 destroyed"], 1);
    assert_eq!(fixture.tags(), ["success", "success"]);
}

#[test]
fn documents_that_are_not_those_of_the_plan_are_not_resumed() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = save(&fixture, &[]);
    let bytes = std::fs::read(&file).unwrap();
    let honest = read(&bytes).unwrap();
    fixture.edit("nodes/monitoring.yaml", "tier: gold", "tier: lead");
    fixture
        .checkout
        .commit("Other documents than those that were planned");
    plant(&fixture, &honest, &bytes);
    fixture.run(&["apply", "--resume"]).with(5);
    assert_eq!(fixture.effects("relabelled"), 0);
}

#[test]
fn a_plan_over_an_interrupted_run_says_so() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let file = save(&fixture, &["power", "off", "compute12"]);
    let bytes = std::fs::read(&file).unwrap();
    plant(&fixture, &read(&bytes).unwrap(), &bytes);
    let run = interrupted_runs(&fixture);
    let planned = fixture.run(&["plan", "--detailed-exitcode"]).with(2).stdout;
    assert!(!planned.contains("No changes"), "{planned}");
    assert!(
        planned.contains(&format!("run {run} (power off) was interrupted")),
        "{planned}"
    );
    assert!(
        planned.contains(&format!("trueup abort {run}")),
        "{planned}"
    );
    let markdown = fixture
        .run(&["plan", "--format", "markdown"])
        .with(0)
        .stdout;
    assert!(markdown.contains(&run), "{markdown}");
    for command in ["plan", "log", "status"] {
        let told = fixture.run(&[command, "--format", "json"]).with(0).json();
        assert_eq!(told["unfinished_run"]["run"], *run, "{command}");
        assert_eq!(told["unfinished_run"]["state"], "interrupted", "{command}");
    }
    for command in ["log", "status"] {
        fixture.run(&[command]).with(0).saying("was interrupted");
    }
    fixture.run(&["abort", &run]).with(0);
    let planned = fixture.run(&["plan", "--detailed-exitcode"]).with(0).stdout;
    assert!(planned.contains("No changes"), "{planned}");
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    assert!(log.get("unfinished_run").is_none());
}
