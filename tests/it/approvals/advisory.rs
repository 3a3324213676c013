//! Where approvals are advisory: nothing holds the rules that whoever may push the records could not rewrite.

use super::{REDEPLOY, Team};

#[test]
fn a_plan_says_in_every_format_where_its_approvals_are_advisory() {
    let team = Team::new();
    let approvals = team.approvals(&REDEPLOY);
    assert_eq!(approvals["advisory"], true, "{approvals}");
    for format in ["text", "markdown", "html"] {
        let plan = [&["plan", "--format", format][..], &REDEPLOY].concat();
        let shown = team.site.run(&plan).with(0).stdout;
        assert!(shown.contains("advisory: "), "{format}: {shown}");
    }
    let plan = team.plan(&REDEPLOY);
    let told = team.approve(&plan, "bob", &[]).with(0);
    let told = format!("{}{}", told.stdout, told.stderr);
    assert!(told.contains("advisory: "), "{told}");
}

#[test]
fn a_protected_revision_a_branch_of_records_or_signed_runs_hold_the_rules() {
    let team = Team::new();
    let protected = [&REDEPLOY[..], &["--backends-from", "origin/main"]].concat();
    let approvals = team.approvals(&protected);
    assert!(approvals["advisory"].is_null(), "{approvals}");
    let git = |words: &[&str]| team.site.checkout.git(words);
    git(&["config", "trueup.stateBranch", "trueup"]);
    let plan = [&["plan", "--offline", "--format", "json"][..], &REDEPLOY].concat();
    let approvals = team.site.run(&plan).with(0).json()["approvals"].clone();
    assert!(approvals["advisory"].is_null(), "{approvals}");
}

#[test]
fn an_approval_of_a_plan_that_cannot_be_applied_or_does_nothing_is_warned_of() {
    let team = Team::new();
    team.site
        .edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    team.site.checkout.commit("Another image");
    let blocked = team.plan(&[]);
    team.approve(&blocked, "bob", &[])
        .with(0)
        .saying("warning: the plan: with all its approvals, too, it cannot be applied as it stands: the changes of `edge-");
    let allowed = team.plan(&["--allow-redeploy", "all"]);
    let told = team.approve(&allowed, "bob", &[]).with(0);
    assert!(!told.stderr.contains("as it stands"), "{told:?}");
    team.site
        .run(&["apply", &allowed, "--allow-redeploy", "all"])
        .with(0);
    let empty = team.plan(&[]);
    team.approve(&empty, "bob", &[])
        .with(0)
        .saying("warning: the plan: there is nothing to do");
}
