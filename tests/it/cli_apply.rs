//! `trueup apply` of a whole site: the specification's example strategy, as it should go and as it fails.

use super::fixture::Fixture;

const EVERY_NODE: usize = 13;

/// No effect that can be had once only took place twice on a node.
#[track_caller]
fn nothing_happened_twice(fixture: &Fixture) {
    for (what, times) in fixture.ledger() {
        if !what.ends_with(" failed") {
            assert_eq!(times, 1, "{what}");
        }
    }
}

#[test]
fn a_site_is_deployed_and_its_commit_is_tagged() {
    let fixture = Fixture::one_rack();
    let planned = fixture.planned(&[]);
    assert_eq!(planned.len(), EVERY_NODE);
    assert!(planned.values().all(|kind| kind == "create"));
    assert_eq!(
        fixture.tags(),
        Vec::<String>::new(),
        "a plan changes nothing"
    );

    let ended = fixture.run(&["apply", "--yes"]).with(0);
    assert!(
        ended
            .stdout
            .contains("succeeded: 13 succeeded, 0 failed, in 2 h"),
        "{}",
        ended.stdout
    );
    let tag = fixture.tag_names().remove(0);
    let run = tag.strip_prefix("site-action-success/one-rack/").unwrap();
    let message = fixture
        .checkout
        .git(&["cat-file", "-p", &format!("refs/tags/{tag}")]);
    assert!(message.contains(&format!("\ndag_id: {run}\n")), "{message}");
    assert!(
        message.contains("\ntagger Ada <ada@example.org> "),
        "{message}"
    );
    let tagged = fixture
        .checkout
        .git(&["rev-parse", &format!("{tag}^{{commit}}")]);
    assert_eq!(tagged, fixture.checkout.git(&["rev-parse", "HEAD"]));
    assert_eq!(fixture.effects("deployed"), EVERY_NODE);
    nothing_happened_twice(&fixture);
}

#[test]
fn a_site_that_is_as_designed_is_left_alone() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let ledger = fixture.ledger();
    let ended = fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    assert!(ended.stdout.contains("No changes: "), "{}", ended.stdout);
    fixture
        .run(&["apply", "--yes"])
        .with(0)
        .saying("Nothing to do");
    // Nobody has to approve nothing.
    fixture.run(&["apply"]).with(0).saying("Nothing to do");
    assert_eq!(fixture.tags(), ["success"]);
    assert_eq!(fixture.ledger(), ledger);
}

#[test]
fn a_plan_says_by_its_exit_code_whether_there_are_changes() {
    let fixture = Fixture::one_rack();
    fixture.run(&["plan"]).with(0);
    // The example's machines come with nothing on their disks, so that deploying them destroys nothing.
    fixture.run(&["plan", "--detailed-exitcode"]).with(2);
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    fixture.edit("host-profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.run(&["plan", "--detailed-exitcode"]).with(3);
}

#[test]
fn a_critical_group_that_fails_in_prepare_fails_what_depends_on_it_and_nothing_else() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [ntp01], step: prepare, outcome: fail, message: no power}]",
    );
    let ended = fixture.run(&["apply", "--yes"]).with(7);
    assert_eq!(fixture.tags(), ["failure"]);
    for (group, result) in [
        ("ntp-node", "FAILED"),
        ("control-nodes", "FAILED"),
        ("compute-nodes-1", "FAILED"),
        ("compute-nodes-2", "FAILED"),
        ("monitoring-nodes", "succeeded"),
    ] {
        let line = ended.stdout.lines().find(|line| line.starts_with(group));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words[1], result, "{}", ended.stdout);
    }
    assert!(ended.stdout.contains("no power"), "{}", ended.stdout);
    let ledger = fixture.ledger();
    assert_eq!(fixture.effects("deployed"), 3, "{ledger:?}");
    assert_eq!(ledger["ntp01 failed"], 1, "{ledger:?}");
    for node in ["control01", "compute11", "compute23"] {
        let began = ledger.keys().any(|key| key.starts_with(node));
        assert!(!began, "{node} was attempted: {ledger:?}");
    }
}

#[test]
fn after_a_failed_run_is_repaired_only_the_rest_is_done() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [ntp01], step: prepare, outcome: fail, message: no power}]",
    );
    fixture.run(&["apply", "--yes"]).with(7);

    fixture.faults("[]");
    let left = fixture.planned(&[]);
    assert_eq!(left.len(), 10, "{left:?}");
    assert!(!left.keys().any(|node| node.starts_with("monitor")));
    fixture.commit_and_apply("Mended", &[]).with(0);
    assert_eq!(fixture.tags(), ["failure", "success"]);
    assert_eq!(fixture.effects("deployed"), EVERY_NODE);
    nothing_happened_twice(&fixture);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_group_that_is_not_critical_fails_in_deploy_and_the_action_succeeds_all_the_same() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [compute2?], step: deploy, outcome: fail, message: no image}]",
    );
    let ended = fixture.run(&["apply", "--yes"]).with(7);
    assert_eq!(fixture.tags(), ["success"]);
    assert!(
        ended.stdout.contains("10 succeeded, 3 failed"),
        "{}",
        ended.stdout
    );
    assert_eq!(fixture.effects("deployed"), 10);
    let tag = &fixture.tag_names()[0];
    let words = fixture
        .checkout
        .git(&["tag", "--list", "--format=%(contents)", tag]);
    assert!(
        words.contains("outcome: succeeded-with-failures"),
        "{words}"
    );
    assert!(
        words.contains("\nfailed: compute21, compute22, compute23"),
        "{words}"
    );

    fixture.faults("[]");
    let left = fixture.planned(&[]);
    let names: Vec<&str> = left.keys().map(String::as_str).collect();
    assert_eq!(names, ["compute21", "compute22", "compute23"]);
}

#[test]
fn nodes_whose_deploy_failed_are_deployed_once_the_fault_is_repaired() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [compute2?], step: deploy, outcome: fail, message: no image}]",
    );
    fixture.run(&["apply", "--yes"]).with(7);
    fixture.faults("[]");
    fixture.commit_and_apply("Mended", &[]).with(0);
    assert_eq!(fixture.effects("deployed"), EVERY_NODE);
    let ledger = fixture.ledger();
    assert_eq!(ledger["compute11 deployed"], 1);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn an_error_that_passes_is_tried_again_and_a_late_answer_is_waited_for() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [compute12], step: deploy, outcome: late, seconds: 600}, \
          {nodes: [compute2?], step: prepare, outcome: fail-once, message: the controller is busy}]",
    );
    let ended = fixture.run(&["apply", "--yes"]).with(0);
    ended.saying("the controller is busy");
    nothing_happened_twice(&fixture);
}

#[test]
fn an_answer_that_never_comes_fails_the_node_and_leaves_it_unknown() {
    let fixture =
        Fixture::one_rack_with_faults("[{nodes: [monitor02], step: deploy, outcome: hang}]");
    let ended = fixture.run(&["apply", "--yes"]).with(7);
    assert!(
        ended.stdout.contains("12 succeeded, 1 failed"),
        "{}",
        ended.stdout
    );
    assert_eq!(fixture.tags(), ["success"]);
}

#[test]
fn every_event_is_a_line_of_json_where_that_is_asked_for() {
    let fixture = Fixture::one_rack();
    let ended = fixture.run(&["apply", "--yes", "--format", "json"]).with(0);
    let mut kinds = std::collections::BTreeSet::new();
    for line in ended.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        kinds.insert(event["event"].as_str().unwrap_or_default().to_owned());
    }
    assert!(kinds.len() > 5, "{kinds:?}");
}

#[test]
fn the_run_can_be_shown_afterwards() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let runs = fixture.run(&["log", "--format", "json"]).with(0).json();
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let run = runs[0]["run"].as_str().unwrap();
    assert!(fixture.tag_names()[0].ends_with(run));
    let shown = fixture.run(&["show", run]).with(0);
    assert!(shown.stdout.contains("succeeded"), "{}", shown.stdout);
    let plan = fixture
        .run(&["show", run, "--plan", "--format", "json"])
        .with(0);
    assert_eq!(plan.changes().len(), EVERY_NODE);
    fixture.run(&["show", "01ABC"]).with(1).saying("trueup log");
    // The words for a revision that only records know.
    let rendered = fixture.run(&["render"]).with(0).stdout;
    for word in ["successful-site-action", "last-site-action", "committed"] {
        let same = fixture.run(&["render", "--rev", word]).with(0).stdout;
        assert_eq!(same, rendered, "{word}");
    }
}

#[test]
fn outside_of_all_maintenance_windows_nothing_is_begun_but_on_purpose() {
    let fixture = Fixture::one_rack();
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let hour = since.as_secs() / 3600;
    let window = |zone: &str, first: u64, hours: u64| {
        let (from, to) = ((hour + first) % 24, (hour + first + hours) % 24);
        let policy = format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{time_zone: {zone}, maintenance_windows: [{{from: '{from:02}:00', to: '{to:02}:00'}}]}}\n"
        );
        fixture.checkout.write("policy.yaml", &policy);
    };
    // Far from now, so that no hour that passes meanwhile opens it.
    window("UTC", 6, 2);
    let refused = fixture
        .commit_and_apply("Change at night only", &["--allow-intermediate-commits"])
        .with(4);
    assert!(
        refused
            .stderr
            .contains("error: no maintenance window is open now: "),
        "{}",
        refused.stderr
    );
    assert!(
        refused
            .stderr
            .contains("this plan is carried out in maintenance windows only: "),
        "{}",
        refused.stderr
    );
    assert_eq!(fixture.tags(), Vec::<String>::new());
    // The plan says so before, and not once that is lifted.
    let closed = "warning: no maintenance window is open now: ";
    fixture.run(&["plan"]).with(0).saying(closed);
    let flags = ["--allow-intermediate-commits", "--outside-windows"];
    let lifted = fixture.run(&["plan", "--outside-windows"]).with(0);
    assert!(!lifted.stderr.contains(closed), "{lifted:?}");
    fixture
        .run(&[&["apply", "--yes"][..], &flags].concat())
        .with(0);
    assert_eq!(fixture.effects("deployed"), EVERY_NODE);
    // A commit that changes no machine is tagged, and waits for no window.
    window("UTC", 5, 3);
    let tags = fixture.tags().len();
    fixture
        .commit_and_apply("Change earlier", &["--allow-loosening"])
        .with(0);
    assert_eq!(fixture.tags().len(), tags + 1);
    // The clock of the zone is 14 hours before UTC's: one of these is shut now, and one is open.
    let off = ["apply", "power", "off", "control01", "--yes"];
    window("Pacific/Kiritimati", 23, 2);
    fixture.checkout.commit("Change at our night");
    fixture.run(&off).with(4).saying("(Pacific/Kiritimati)");
    window("Pacific/Kiritimati", 13, 3);
    fixture.checkout.commit("Change at our day");
    fixture.run(&off).with(4).saying("trueup apply guards");
    fixture
        .run(&["apply", "guards", "--yes", "--allow-loosening"])
        .with(0);
    fixture.run(&off).with(0);
}

#[test]
fn the_day_of_a_plan_is_that_of_the_time_zone_of_its_site() {
    let fixture = Fixture::one_rack();
    let day = |zone: &str| {
        let policy = format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{time_zone: {zone}}}\n"
        );
        fixture.checkout.write("policy.yaml", policy);
        let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
        let day = plan["options"]["as_of"].as_str().unwrap().to_owned();
        (plan["options"]["as_of_given"].is_null(), day)
    };
    // They are 26 hours apart: it is never the same day in both.
    let (first, last) = (day("Etc/GMT+12"), day("Pacific/Kiritimati"));
    assert!(first.0 && last.0 && first.1 < last.1, "{first:?} {last:?}");
    fixture.checkout.write(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {time_zone: Europe/Berln}\n",
    );
    let ended = fixture.run(&["validate"]).with(1);
    let problem = "there is no time zone `Europe/Berln`";
    assert!(ended.stdout.contains(problem), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("did you mean `Europe/Berlin`?"),
        "{}",
        ended.stdout
    );
}
