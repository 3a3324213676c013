//! How long a plan says that its run takes, and what a run says is left of it.

use serde_json::Value;

use super::fixture::{Ended, Fixture};

/// What a run may take longer than its steps: polls of the simulated cluster.
const SLACK: u64 = 60;

fn time(planned: &Ended, field: &str) -> u64 {
    planned.json()["forecast"]["time"][field].as_u64().unwrap()
}

fn planned(fixture: &Fixture, arguments: &[&str]) -> Ended {
    let plan = ["plan", "--format", "json"];
    fixture.run(&[&plan, arguments].concat()).with(0)
}

/// The events of an apply.
fn applied(fixture: &Fixture, arguments: &[&str]) -> Vec<Value> {
    let apply = ["apply", "--yes", "--format", "json"];
    let ended = fixture.run(&[&apply, arguments].concat()).with(0);
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// How many seconds a run took.
fn took(events: &[Value]) -> u64 {
    let report = &events.last().unwrap()["report"];
    report["duration_ms"].as_u64().unwrap() / 1000
}

#[test]
fn a_plan_says_how_long_its_run_takes_and_the_run_what_is_left() {
    let fixture = Fixture::one_rack();
    let plan = planned(&fixture, &[]);
    let median = time(&plan, "median");
    // Nothing was recorded, and the documents say how long a simulated step takes.
    assert_eq!(median, time(&plan, "percentile_90"));
    assert!(time(&planned(&fixture, &["--parallelism", "1"]), "median") > 2 * median);
    let text = fixture.run(&["plan"]).with(0).stdout;
    assert!(
        text.contains("\nTakes about 2 h (timeouts allow "),
        "{text}"
    );
    let again = planned(&fixture, &[]);
    assert_eq!(plan.json()["forecast"], again.json()["forecast"]);

    let events = applied(&fixture, &[]);
    let took = took(&events);
    assert!((median..median + SLACK).contains(&took), "{median} {took}");
    let ends = events.iter().filter_map(|event| {
        let left = event["remaining_ms"].as_u64()?;
        Some((event["elapsed_ms"].as_u64().unwrap() + left) / 1000)
    });
    let ends: Vec<u64> = ends.collect();
    assert!(ends.len() > 5, "{ends:?}");
    let is_right = |end: &u64| (median..=took).contains(end);
    assert!(ends.iter().all(is_right), "{took}: {ends:?}");
}

#[test]
fn what_runs_took_counts_more_than_what_documents_say() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let state = "refs/trueup/one-rack/state:durations.jsonl";
    let recorded = fixture.checkout.git(&["cat-file", "-p", state]);
    let deploys = recorded.lines().find(|line| line.contains("\"deploy\""));
    assert!(deploys.unwrap().contains("1200000,1200000"), "{recorded}");

    fixture.simulator("{clock: virtual, durations: {prepare: 1, deploy: 1, destroy: 1}}");
    fixture.edit("host-profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture
        .checkout
        .commit("Another image, and a faster simulator");
    let options = ["--allow-redeploy", "all", "--skip-blocked"];
    let plan = planned(&fixture, &options);
    // Prepares and deploys are recorded, and no destroy is.
    let least = 240 + 1200 + 1;
    assert!(time(&plan, "percentile_5") >= least, "{plan:?}");
    applied(&fixture, &options);
    let recorded = fixture.checkout.git(&["cat-file", "-p", state]);
    let deploys = recorded.lines().find(|line| line.contains("\"deploy\""));
    assert!(deploys.unwrap().ends_with(",1000,1000]}"), "{recorded}");
}

#[test]
fn an_estimate_is_no_part_of_what_is_approved() {
    let fixture = Fixture::one_rack();
    let path = fixture.checkout.outside().join("plan.json");
    let file = path.to_str().unwrap();
    fixture.run(&["plan", "-o", file]).with(0);
    let saved = std::fs::read_to_string(&path).unwrap();
    let mut forged: Value = serde_json::from_str(&saved).unwrap();
    assert!(forged["forecast"]["time"]["median"].as_u64().unwrap() > 0);
    forged["forecast"]["time"]["median"] = 1.into();
    std::fs::write(&path, forged.to_string()).unwrap();
    fixture.run(&["apply", file, "--yes"]).with(0);
    let nothing = planned(&fixture, &[]);
    assert_eq!(nothing.json()["forecast"]["time"], Value::Null);
}

#[test]
fn a_redeploy_in_waves_takes_as_long_as_its_plan_says() {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("host-profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("Another image");
    let options = ["--allow-redeploy", "all", "--skip-blocked"];
    let plan = planned(&fixture, &options);
    let (least, most) = (time(&plan, "percentile_5"), time(&plan, "percentile_95"));
    let took = took(&applied(&fixture, &options));
    assert!(
        (least..=most + SLACK).contains(&took),
        "{took}: {least} to {most}"
    );
    assert!(most < 2 * least, "{least} to {most}");
}
