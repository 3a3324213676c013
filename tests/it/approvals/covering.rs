//! An approval covers what was approved, or less: another plan that does no more needs no other one.

use super::{POLICY, REDEPLOY, Team};
use crate::cli_interrupted::{clone, same_machines, wait_for_effect};

const BOTH: [&str; 3] = ["redeploy", "edge-1", "edge-2"];

/// Bob approves a redeploy of two machines.
fn approved() -> Team {
    let team = Team::new();
    let plan = team.plan(&BOTH);
    team.approve(&plan, "bob", &[]).with(0);
    team
}

#[test]
fn an_approval_of_two_machines_covers_one_of_them_once() {
    let team = approved();
    let approvals = team.approvals(&REDEPLOY);
    assert_eq!(approvals["needed"][0]["missing"], 0, "{approvals}");
    let plan = team.plan(&REDEPLOY);
    team.site.run(&["apply", &plan]).with(0);
    let rest = team.plan(&["redeploy", "edge-2"]);
    team.site
        .run(&["apply", &rest])
        .with(4)
        .saying("`redeploy` needs 1: 1 missing");
}

#[test]
fn guards_that_were_tightened_since_void_no_approval() {
    let team = approved();
    let tighter = POLICY.replace("\ndata: {", "\ndata: {max_unavailable: {total: 1}, ");
    team.site.checkout.write("policy.yaml", tighter);
    team.site.checkout.commit("One at a time");
    let plan = team.plan(&BOTH);
    team.site.run(&["apply", &plan]).with(0);
    assert_eq!(team.site.effects("deployed"), 5);
}

#[test]
fn what_is_more_than_was_approved_is_told_and_not_covered() {
    let team = approved();
    let more = ["redeploy", "edge-1", "edge-2", "edge-3"];
    let refused = team.refused(&more);
    assert!(refused[0].contains("edge-3: "), "{refused:?}");
    let plan = team.plan(&more);
    team.site.run(&["apply", &plan]).with(4);
    // Less of one machine is no consent to another image on it.
    let profiles = team.site.checkout.path().join("profiles.yaml");
    let profiles = std::fs::read_to_string(profiles).unwrap();
    let other = profiles.replace("kernel: generic", "kernel: other");
    assert_ne!(other, profiles);
    team.site.checkout.write("profiles.yaml", other);
    team.site.checkout.commit("Another kernel");
    let newest = [&REDEPLOY[..], &["--target-revision", "committed"]].concat();
    let refused = team.refused(&newest);
    let section = "edge-1: the section `operating-system` of its design is another";
    assert!(refused[0].contains(section), "{refused:?}");
    let plan = team.plan(&newest);
    team.site.run(&["apply", &plan]).with(4);
    assert_eq!(team.site.effects("deployed"), 3);
}

#[test]
fn a_plan_that_is_put_beside_a_signature_that_is_not_of_it_covers_nothing() {
    let team = Team::new();
    let plan = team.plan(&["redeploy", "edge-2"]);
    team.approve(&plan, "bob", &[]).with(0);
    let name = team.refs().remove(0);
    let larger = team.plan(&BOTH);
    let git = |arguments: &[&str]| team.site.checkout.git(arguments).trim().to_owned();
    git(&["fetch", "--quiet", "origin", &name]);
    git(&["read-tree", "FETCH_HEAD"]);
    let blob = git(&["hash-object", "-w", &larger]);
    git(&[
        "update-index",
        "--cacheinfo",
        &format!("100644,{blob},plan.json"),
    ]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", &tree, "-m", "forged"]);
    git(&["read-tree", "HEAD"]);
    git(&[
        "push",
        "--quiet",
        "--force",
        "origin",
        &format!("{commit}:{name}"),
    ]);
    let refused = team.refused(&REDEPLOY);
    let why = "the plan beside it is not the one that was signed";
    assert!(refused[0].contains(why), "{refused:?}");
    let plan = team.plan(&REDEPLOY);
    team.site.run(&["apply", &plan]).with(4);
}

#[test]
fn a_run_that_began_under_an_approval_of_more_is_ended_elsewhere_under_it() {
    let team = Team::new();
    team.slowly();
    let plan = team.plan(&[
        "power",
        "off",
        "edge-1",
        "edge-2",
        "edge-3",
        "--parallelism=1",
    ]);
    team.approve(&plan, "bob", &[]).with(0);
    let less = team.plan(&["power", "off", "edge-1", "edge-2", "--parallelism=1"]);
    let mut run = team.site.start(&["apply", &less]);
    wait_for_effect(&team.site, "edge-1 powered-off");
    run.kill().unwrap();
    run.wait().unwrap();
    let second = clone(&team.site, &team.origin);
    same_machines(&team.site, &second);
    second.run(&["apply", "--resume"]).with(0);
    assert_eq!(second.effects("powered-off"), 2);
}
