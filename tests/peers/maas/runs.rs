//! Runs of the program over several machines of MAAS: killed at any request, adopting, drifting, cleaning.

use std::process::Stdio;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::program::{ENVIRONMENT, Lab};
use super::region::{Machine, Version};
use crate::amount::every;

const IDS: [&str; 3] = ["abc001", "abc002", "abc003"];
/// Kills that are tried, spread evenly, unless all are asked for.
const KILLS: usize = 5;
const KILLED_AT_ONCE: usize = 6;

/// A machine without what names the run that made it.
fn without_run(mut machine: Machine) -> Machine {
    machine.tags.retain(|tag| !tag.starts_with("trueup-run-"));
    machine
        .owner_data
        .retain(|name, _| !name.starts_with("trueup-"));
    machine
}

fn machines(lab: &Lab) -> Vec<Machine> {
    IDS.map(|id| without_run(lab.region.machine(id))).into()
}

fn requests(lab: &Lab) -> usize {
    lab.region.state().requests.len()
}

/// What changed something in MAAS since the last time.
fn changes(lab: &Lab) -> Vec<String> {
    let requests = std::mem::take(&mut lab.region.state().requests);
    let changes = requests
        .into_iter()
        .filter(|line| !line.starts_with("GET "));
    changes.collect()
}

/// Nothing that must not be repeated was.
fn happened_once(lab: &Lab) {
    for id in IDS {
        assert_eq!(lab.count(&format!("deploy {id}")), 1, "{id}");
        assert_eq!(lab.count(&format!("release {id}")), 0, "{id}");
        assert_eq!(lab.count(&format!("erase {id}")), 0, "{id}");
    }
    assert_eq!(lab.count("commission abc001"), 1);
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_request_is_resumed_and_ends_as_one_that_was_not() {
    let versions: &[Version] = match super::takes_all() {
        true => &super::life::VERSIONS,
        false => &[Version::V35],
    };
    for version in versions {
        let lab = Lab::start(*version).await;
        lab.trueup(&["apply", "--yes"]).await.with(0);
        let (whole, expected) = (requests(&lab), machines(&lab));
        // Each waits for its own machines most of the time.
        stream::iter((1..whole).step_by(every(KILLS, whole)))
            .map(|at| killed_at(*version, at, &expected))
            .buffer_unordered(KILLED_AT_ONCE)
            .collect::<()>()
            .await;
    }
}

/// A run that is killed as soon as it made a number of requests is resumed, and ends with the machines of one that was not.
async fn killed_at(version: Version, at: usize, expected: &[Machine]) {
    let lab = Lab::start(version).await;
    let mut run = lab
        .site
        .start(&["apply", "--yes"], &ENVIRONMENT, Stdio::null());
    while requests(&lab) < at && run.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let resumed = lab.trueup(&["apply", "--resume", "--yes"]).await;
    // It had ended, or had not begun: the second request may be the last of it or the first.
    if resumed.code != 0 {
        lab.trueup(&["apply", "--yes"]).await.with(0);
    }
    happened_once(&lab);
    assert_eq!(
        machines(&lab),
        expected,
        "{version:?}, killed at request {at}"
    );
    lab.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
}

#[tokio::test]
async fn adopting_writes_nothing_in_maas_and_the_lock_is_offered_as_a_change() {
    let lab = Lab::start(Version::V34).await;
    lab.trueup(&["apply", "--yes"]).await.with(0);
    // Deployed by another, and not locked.
    lab.trueup(&["apply", "forget", "n2", "--yes"])
        .await
        .with(0);
    lab.region.change("abc002", |machine| {
        machine.locked = false;
        machine.owner = Some("bob".to_owned());
        machine.owner_data.clear();
    });
    changes(&lab);
    let plan = lab.trueup(&["plan"]).await.with(0).stdout;
    assert!(plan.contains("n2: adopt BLOCKED"), "{plan}");
    lab.trueup(&["apply", "--adopt", "n2", "--yes"])
        .await
        .with(0);
    assert_eq!(changes(&lab), [""; 0]);
    assert!(!lab.region.machine("abc002").locked);

    let plan = lab.trueup(&["plan"]).await.with(0).stdout;
    let offer = "is not locked in its provisioner: any user of it can delete the machine";
    assert!(plan.contains("n2: drift") && plan.contains(offer), "{plan}");
    let status = lab.trueup(&["status"]).await.with(0).stdout;
    assert!(
        status.contains("is not locked in its provisioner"),
        "{status}"
    );
    lab.trueup(&["apply", "--yes"]).await.with(0);
    let asked = changes(&lab);
    let expected = [
        "POST machines/abc002/?op=set_owner_data",
        "POST machines/abc002/?op=lock",
    ];
    assert_eq!(asked, expected);
    assert!(lab.region.machine("abc002").locked);
    lab.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
}

#[tokio::test]
async fn disks_and_interfaces_that_differ_are_shown_and_only_a_redeploy_repairs_them() {
    let lab = Lab::start(Version::V35).await;
    lab.trueup(&["apply", "--yes"]).await.with(0);
    lab.region.change("abc002", |machine| {
        machine.parts.groups.clear();
        for disk in &mut machine.parts.disks {
            disk.system = None;
        }
        machine.parts.interfaces[0].links[0].address = Some("10.20.0.9".to_owned());
    });
    changes(&lab);
    let plan = lab.trueup(&["plan"]).await.with(0).stdout;
    for expected in [
        "n2: drift",
        "disks of the volume group `data`: none, designed `sdb`, `sdc`",
        "file system `/srv`: none, designed xfs on volume `rest` of `data`",
        "address of `eth0` in 10.20.0.0/24: 10.20.0.9, designed 10.20.0.72",
        "only repaired by a redeploy: `trueup apply redeploy n2`",
    ] {
        assert!(plan.contains(expected), "{expected}:\n{plan}");
    }
    assert!(!plan.contains("n1: ") && !plan.contains("n3: "), "{plan}");
    let status = lab
        .trueup(&["status", "--format", "json"])
        .await
        .with(0)
        .stdout;
    assert!(
        status.contains("10.20.0.9, designed 10.20.0.72"),
        "{status}"
    );
    lab.trueup(&["apply", "--yes"]).await;
    assert_eq!(changes(&lab), [""; 0]);
    lab.trueup(&["apply", "redeploy", "n2", "--yes"])
        .await
        .with(0);
    let plan = lab.trueup(&["plan", "--detailed-exitcode"]).await;
    assert_eq!(plan.code, 0, "{plan:?}");
    assert_eq!(lab.count("deploy abc002"), 2);
}

/// What was done to a machine, in order.
fn done_to(lab: &Lab, id: &str) -> Vec<String> {
    let mut state = lab.region.state();
    let of = |effect: &String| {
        effect
            .ends_with(id)
            .then(|| effect.replace(&format!(" {id}"), ""))
    };
    let ours =
        |effect: &String| ["erase", "release", "deploy", "allocate"].contains(&effect.as_str());
    state.settle();
    state.effects.iter().filter_map(of).filter(ours).collect()
}

#[tokio::test]
async fn machines_are_cleaned_in_the_order_and_by_the_policy_of_each_over_one_run() {
    let policies = "---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: all}\n\
        data: {automated: true, priorities: {deploy.erase_devices: 0}}\n\
        ---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: laboratory}\n\
        data: {automated: false, selectors: [{node_names: [n3]}]}\n";
    let lab = Lab::start(Version::V35).await;
    lab.trueup(&["apply", "--yes"]).await.with(0);
    lab.site.commit(&[("cleaning.yaml", policies)]);
    lab.design("jammy");
    let redeploy = [
        "apply",
        "--yes",
        "--allow-redeploy",
        "all",
        "--allow-intermediate-commits",
    ];
    // What is never erased is torn down only if the site's policy allows it.
    let plan = lab
        .trueup(&["plan", "--allow-redeploy", "all"])
        .await
        .with(0)
        .stdout;
    assert!(
        plan.contains("its backend cannot erase its disks"),
        "{plan}"
    );
    let skip = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\n\
        data: {max_unavailable: {total: 3}, max_failures: 1, wipe: skip}\n";
    let general = super::program::GENERAL;
    let (before, _) = general.split_once("---\nschema: trueup/Policy/v1").unwrap();
    let general = format!("{before}{skip}");
    lab.site.commit(&[("site-definition.yaml", &general)]);
    for id in IDS {
        lab.region
            .state()
            .effects
            .retain(|effect| !effect.ends_with(id));
    }
    lab.region.state().releases.clear();
    // What one commit loosens, it does not use before it is in force.
    lab.trueup(&redeploy).await.with(4);
    lab.trueup(&["apply", "guards", "--yes", "--allow-loosening"])
        .await
        .with(0);
    lab.trueup(&redeploy).await.with(0);
    for id in ["abc001", "abc002"] {
        // Erased once, before it is deployed again.
        assert_eq!(done_to(&lab, id), ["erase", "allocate", "deploy"], "{id}");
    }
    assert_eq!(done_to(&lab, "abc003"), ["release", "allocate", "deploy"]);
    // All flags are sent with each, by the mode of the settings (`quick`).
    let releases = lab.region.state().releases.clone();
    let mut flags: Vec<Vec<String>> = releases
        .iter()
        .map(|form| {
            let read = |name: &str| {
                form.iter()
                    .find(|(field, _)| field == name)
                    .unwrap()
                    .1
                    .clone()
            };
            ["erase", "secure_erase", "quick_erase"].map(read).into()
        })
        .collect();
    flags.sort_unstable();
    let [no, yes] = ["false", "true"].map(str::to_owned);
    let quick = vec![yes.clone(), no.clone(), yes];
    assert_eq!(
        flags,
        [vec![no.clone(), no.clone(), no], quick.clone(), quick]
    );
    lab.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
}
