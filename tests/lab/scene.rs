//! Every ending of a deploy, and a power cycle after each: the disk holds what the record says, and no installer ran twice.

use std::thread::scope;

use crate::machines::{Disk, Machines};
use crate::site::Site;

/// Switches machines off and on, and checks that each booted from its disk and was not installed.
#[track_caller]
fn power_cycle(lab: &Machines, site: &Site, nodes: &[&str]) {
    let before: Vec<(Disk, usize)> = nodes
        .iter()
        .map(|node| (lab.disk(node), lab.images.ups(node, "disk")))
        .collect();
    let command = |verb| [&["apply", "power", verb], nodes, &["--yes"]].concat();
    site.run(&command("off"), 0);
    site.run(&command("on"), 0);
    for (node, (before, ups)) in nodes.iter().zip(before) {
        lab.await_up(node, "disk", ups + 1);
        let expected = Disk {
            boots: before.boots + 1,
            ..before
        };
        assert_eq!(
            lab.disk(node),
            expected,
            "{node}: it was installed anew, or did not boot from its disk:\n{}",
            lab.console(node)
        );
    }
}

/// Checks how often a machine was installed, and with which image, and that it will boot from its disk.
#[track_caller]
fn holds(lab: &Machines, node: &str, installs: usize, image: &str) {
    let (disk, console) = (lab.disk(node), lab.console(node));
    let found = (disk.installs, &*disk.image);
    assert_eq!(found, (installs, image), "{node}: {disk:?}\n{console}");
    assert_eq!(lab.boots_from(node), ("Hdd".to_owned(), false), "{node}");
}

/// Checks what is recorded of a node: the phase, and whether it is as designed.
#[track_caller]
fn records(site: &Site, node: &str, phase: &str, is_as_designed: bool) {
    let status = site.status(node);
    let differs = status["differs"].as_array().map(Vec::len);
    let found = (status["record"]["phase"].as_str(), differs == Some(0));
    assert_eq!(found, (Some(phase), is_as_designed), "{status:#}");
}

/// Applies, and is killed behind the change that switches the machine on; what a run is called that was begun.
fn killed_while_installing(lab: &Machines, site: &Site, node: &str) -> String {
    let ups = lab.images.ups(node, "installer");
    let ended = site.killed_at(&["apply", "--yes"], 2, true);
    assert!(ended.ends_with("on"), "{ended}");
    lab.await_up(node, "installer", ups + 1);
    site.unfinished().expect("an unfinished run")
}

fn succeeds_then_fails(lab: &Machines, node: &str, number: usize) {
    let site = Site::new(lab, &[number], "demo-1");
    lab.images.give(node, "demo-1");
    site.run(&["apply", "--yes"], 0);
    records(&site, node, "deployed", true);
    holds(lab, node, 1, "demo-1");
    power_cycle(lab, &site, &[node]);

    // Its controller cannot have the disc of the next image: the old system stays.
    lab.images.give(node, "demo-2");
    lab.images.break_disc(node);
    site.edit("image: demo-1", "image: demo-2");
    site.run(&["apply", "--allow-redeploy", node, "--yes"], 7);
    records(&site, node, "failed", false);
    holds(lab, node, 1, "demo-1");
    power_cycle(lab, &site, &[node]);
}

fn times_out(lab: &Machines, node: &str, number: usize) {
    let site = Site::new(lab, &[number], "demo-1");
    site.edit("deploy_timeout: 400", "deploy_timeout: 40");
    lab.images.give(node, "demo-1");
    lab.images.silence(node, true);
    site.run(&["apply", "--yes"], 7);
    records(&site, node, "unknown", false);
    lab.await_up(node, "installer", 1);
    holds(lab, node, 1, "demo-1");
    power_cycle(lab, &site, &[node]);
}

fn is_killed_and_resumed(lab: &Machines, node: &str, number: usize) {
    let site = Site::new(lab, &[number], "demo-1");
    lab.images.give(node, "demo-1");
    killed_while_installing(lab, &site, node);
    site.run(&["apply", "--resume", "--yes"], 0);
    records(&site, node, "deployed", true);
    holds(lab, node, 1, "demo-1");
    power_cycle(lab, &site, &[node]);
}

fn is_killed_and_decided(lab: &Machines, node: &str, number: usize) {
    let site = Site::new(lab, &[number], "demo-1");
    lab.images.give(node, "demo-1");
    lab.images.silence(node, true);
    killed_while_installing(lab, &site, node);
    let decision = format!("deploy/all/{node}=done");
    site.run(&["apply", "--resume", "--decide", &decision, "--yes"], 0);
    records(&site, node, "deployed", true);
    holds(lab, node, 1, "demo-1");
    power_cycle(lab, &site, &[node]);
}

#[test]
fn a_power_cycle_after_each_ending_of_a_deploy_boots_what_is_recorded() {
    let Some(lab) = Machines::start(4, &["demo-1", "demo-2"]) else {
        return;
    };
    let lab = &lab;
    scope(|scope| {
        scope.spawn(|| succeeds_then_fails(lab, "n1", 1));
        scope.spawn(|| times_out(lab, "n2", 2));
        scope.spawn(|| is_killed_and_resumed(lab, "n3", 3));
        scope.spawn(|| is_killed_and_decided(lab, "n4", 4));
    });
}

/// Three machines in one run, adopted by a site that knows nothing of it, and an aborted run.
#[test]
fn machines_of_one_run_that_is_aborted_and_adopted_boot_from_their_disks() {
    let Some(lab) = more_of_it()
        .then(|| Machines::start(3, &["demo-1", "demo-2"]))
        .flatten()
    else {
        return;
    };
    let (lab, nodes) = (&lab, ["n1", "n2", "n3"]);
    let site = Site::new(lab, &[1, 2, 3], "demo-1");
    for node in nodes {
        lab.images.give(node, "demo-1");
    }
    site.run(&["apply", "--yes"], 0);
    for node in nodes {
        holds(lab, node, 1, "demo-1");
    }
    power_cycle(lab, &site, &nodes);

    for node in nodes {
        lab.images.give(node, "demo-2");
    }
    for node in nodes {
        lab.images.silence(node, true);
    }
    site.edit("image: demo-1", "image: demo-2");
    // Each is switched off, gets its disc, is to boot from it, and is switched on; then it is to boot as usual.
    let ended = site.killed_at(&["apply", "--allow-redeploy", "all", "--yes"], 14, true);
    assert!(ended.contains("deploy/all/n1: on"), "{ended}");
    for node in nodes {
        lab.await_up(node, "installer", 2);
    }
    let other = Site::new(lab, &[1, 2, 3], "demo-2");
    other.run(&["apply", "--adopt", "all", "--yes"], 0);
    for node in nodes {
        records(&other, node, "deployed", true);
        // An adoption changes nothing; the next power on does.
        assert!(lab.boots_from(node).1, "{node}: its disc is still in");
    }
    power_cycle(lab, &other, &nodes);
    let run = site.unfinished().expect("an unfinished run");
    site.run(&["abort", &run], 0);
    for node in nodes {
        holds(lab, node, 2, "demo-2");
    }
    power_cycle(lab, &site, &nodes);
}

/// Killed at each change, before and after it was carried out; resumed, the machine is installed once.
#[test]
fn a_deploy_that_is_killed_at_each_change_installs_once() {
    let Some(lab) = more_of_it()
        .then(|| Machines::start(3, &["demo-1"]))
        .flatten()
    else {
        return;
    };
    let lab = &lab;
    let all: Vec<(usize, bool)> = (0..6)
        .flat_map(|change| [(change, false), (change, true)])
        .collect();
    scope(|scope| {
        for number in 1..=3 {
            let own = all.iter().skip(number - 1).step_by(3);
            scope.spawn(move || {
                let node = &*format!("n{number}");
                for (times, (change, is_after)) in own.enumerate() {
                    let installs = times + 1;
                    let site = Site::new(lab, &[number], "demo-1");
                    lab.images.give(node, "demo-1");
                    site.killed_at(&["apply", "--yes"], *change, *is_after);
                    let resumed = site.any(&["apply", "--resume", "--yes"]);
                    if (*change, *is_after) == (2, false) {
                        // Off, and the controller keeps every override: only a person can tell that it was not switched on.
                        assert!(resumed.contains("its progress is unknown"), "{resumed}");
                        let decision = format!("deploy/all/{node}=not-begun");
                        site.run(&["apply", "--resume", "--decide", &decision, "--yes"], 0);
                    }
                    println!("{node}: killed at change {change}, {is_after}");
                    records(&site, node, "deployed", true);
                    holds(lab, node, installs, "demo-1");
                    power_cycle(lab, &site, &[node]);
                    site.run(&["apply", "power", "off", node, "--yes"], 0);
                }
            });
        }
    });
}

/// Whether what takes longer is tried, too.
fn more_of_it() -> bool {
    std::env::var("TRUEUP_TEST_LAB").is_ok_and(|wanted| wanted == "all")
}
