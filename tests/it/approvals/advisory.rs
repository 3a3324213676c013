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
