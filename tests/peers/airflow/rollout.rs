//! The DAG of a rollout on an Airflow that schedules: every site once, also if the scheduler dies in the middle.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Lab;
use super::all_sites::{commit, lab, name};
use super::scheduler::Scheduler;

/// How long an Airflow beside others takes at most until its first task has ended.
const FIRST_SITE: Duration = Duration::from_secs(600);

/// The sites; more with all of the slow tests of Airflow.
fn count() -> usize {
    match std::env::var_os("TRUEUP_TEST_AIRFLOW") {
        Some(_) => 40,
        None => 6,
    }
}

/// The rollout as it stands at the remote.
fn status(lab: &Lab) -> Value {
    let words = ["rollout", "status", "fleet", "--format", "json"];
    let mut command = lab.command(env!("CARGO_BIN_EXE_trueup"), "all");
    let told = command.args(words).output().unwrap();
    serde_json::from_slice(&told.stdout).unwrap_or_default()
}

fn done(status: &Value) -> usize {
    let sites = status["sites"].as_array().into_iter().flatten();
    sites.filter(|site| site["result"] == "succeeded").count()
}

/// The tags of successes, by site.
fn successes(lab: &Lab) -> Vec<String> {
    let tags = ["for-each-ref", "--format=%(refname)", "refs/tags/"];
    let tags = String::from_utf8(lab.git("origin.git", &tags).stdout).unwrap();
    let of_site = tags
        .lines()
        .filter_map(|tag| tag.strip_prefix("refs/tags/site-action-success/"));
    of_site
        .filter_map(|tag| Some(tag.split_once('/')?.0.to_owned()))
        .collect()
}

#[test]
fn the_dag_of_a_rollout_brings_a_revision_to_every_site_once() {
    let sites = count();
    let Some(mut lab) = lab(sites) else { return };
    lab.write(
        "all/rollouts/fleet.yaml",
        &format!(
            "schema: trueup/Rollout/v1\nmetadata: {{name: fleet}}\ndata:\n  phases:\n    - {{sites: [{}]}}\n    \
             - {{percent: 10}}\n    - {{percent: 50, max_sites: 20}}\n    - {{rest: true}}\n  soak: 1s\n",
            name(1)
        ),
    );
    commit(&lab, "The rollout");
    lab.git("all", &["push", "--quiet", "origin", "HEAD:main"]);
    let dags = lab.path("dags");
    let export = ["export", "airflow", "--rollout", "fleet", "-o"];
    lab.trueup("all", &[&export[..], &[dags.to_str().unwrap()]].concat());
    for (name, value) in [
        ("TRUEUP_REVISION", "origin/main"),
        ("TRUEUP_ROLLOUT_INTERVAL", "1"),
        ("TRUEUP_RETRY_DELAY", "1"),
    ] {
        lab.environment.insert(name.to_owned(), value.to_owned());
    }
    let ports = lab.for_scheduler(2);
    lab.find_losses_soon();
    let scheduler = Scheduler::start(&lab, ports);
    let dag = "trueup.rollout.fleet";
    scheduler.trigger(dag, "first");
    // The machine of the scheduler is lost while sites are on their way.
    let triggered = Instant::now();
    while done(&status(&lab)) == 0 {
        let is_soon = triggered.elapsed() < FIRST_SITE;
        assert!(is_soon, "no site succeeds:\n{}", scheduler.logs(dag));
        std::thread::sleep(Duration::from_millis(200));
    }
    scheduler.kill_scheduler(true);
    assert!(scheduler.await_end(dag, "first"), "{}", scheduler.logs(dag));
    let told = status(&lab);
    assert_eq!((done(&told), &told["next"]), (sites, &Value::from("done")));
    let each: BTreeSet<String> = (1..=sites).map(name).collect();
    let first = successes(&lab);
    assert_eq!(first.len(), sites, "each site has one success: {first:?}");
    assert_eq!(first.iter().cloned().collect::<BTreeSet<_>>(), each);
    // A run of the same revision finds it complete.
    scheduler.trigger(dag, "second");
    assert!(
        scheduler.await_end(dag, "second"),
        "{}",
        scheduler.logs(dag)
    );
    assert_eq!(successes(&lab), first);
}
