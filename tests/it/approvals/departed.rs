//! Approvals of people who leave the allowed signers: named, with why they count no more, and no dead end for a run that began
//! with them.

use super::{REDEPLOY, Team};

impl Team {
    /// Carol leaves; nothing is applied of it.
    fn carol_leaves(&self) {
        let lines: String = ["ada", "bob"].map(|name| self.signer(name, name)).concat();
        self.site.checkout.write("allowed_signers", lines);
        self.site.checkout.commit("Carol has left");
        self.site.checkout.git(&["push", "--quiet"]);
    }
}

#[test]
fn the_approval_of_a_signer_who_has_left_is_named_with_why_it_does_not_count() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "carol", &[]).with(0);
    team.carol_leaves();
    let why = "its key is not one of the allowed signers of ";
    team.site
        .run(&["apply", &plan])
        .with(4)
        .saying(&format!("carol@example.org does not count: {why}"));
    let refused = team.refused(&REDEPLOY);
    assert!(
        refused.iter().any(|each| each.starts_with(why)),
        "{refused:?}"
    );
}

#[test]
fn a_run_whose_approver_has_left_is_approved_anew_and_resumed() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "carol", &[]).with(0);
    let kill = team.site.simulated_site().with_added_extension("kill");
    std::fs::write(kill, "{\"step\": \"deploy\"}").unwrap();
    team.site.run(&["apply", &plan]).with(137);
    team.carol_leaves();
    let log = team.site.run(&["log", "--format", "json", "-n", "1"]);
    let run = log.with(0).json()["runs"][0]["run"].clone();
    let run = run.as_str().unwrap();
    let resume = ["apply", "--resume"];
    team.site
        .run(&resume)
        .with(4)
        .saying("carol@example.org does not count: its key is not one of the allowed signers of ")
        .saying(&format!("`trueup approve {run}`"));
    team.approve(run, "bob", &[]).with(0);
    team.site.run(&resume).with(0);
}
