//! Rules about approvals that take the consent away from those who had it: by a rule that is added, and by one that nobody
//! can meet.

use super::Team;

fn with_policy(team: &Team, approvals: &str, message: &str) {
    let text = format!(
        "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{approvals: {{{approvals}}}}}\n"
    );
    team.site.checkout.write("policy.yaml", text);
    team.site.checkout.commit(message);
}

/// A site under a rule by whose people alone a plan is approved.
fn ruled(approvals: &str) -> Team {
    let team = Team::new();
    let policy = format!(
        "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{approvals: {{{approvals}}}}}\n"
    );
    team.site.checkout.write("policy.yaml", policy);
    team.agree("Who approves");
    team
}

const GUARDS: [&str; 3] = ["apply", "guards", "--yes"];

#[test]
fn a_rule_that_is_added_needs_the_consent_of_those_who_are_asked_already() {
    const RULE: &str = "any: {count: 1, of: [bob@example.org]}";
    let team = ruled("destroy: 2, any: {count: 1, of: [bob@example.org]}");
    let more = "\"nodes>900000\": {count: 1, of: [carol@example.org]}";
    with_policy(&team, &format!("destroy: 2, {RULE}, {more}"), "One more");
    team.site
        .run(&GUARDS)
        .with(4)
        .saying("`loosening` needs 1 (of bob@example.org): 1 missing");
    // With consent it comes in force, and has no say alone.
    let plan = team.plan(&["guards"]);
    team.approve(&plan, "bob", &[]).with(0);
    team.approve(&plan, "carol", &[]).with(0);
    team.site.run(&["apply", &plan]).with(0);
    with_policy(&team, "any: 1", "None of them");
    let plan = team.plan(&["guards"]);
    team.approve(&plan, "carol", &[]).with(0);
    let refused = team.site.run(&["apply", &plan]).with(4);
    assert!(
        refused.stderr.contains("(of bob@example.org): 1 missing"),
        "{refused:?}"
    );
}

#[test]
fn rules_that_their_signers_cannot_meet_never_come_in_force() {
    let team = ruled("any: {count: 2, of: [bob@example.org, carol@example.org]}");
    let lines = ["ada", "carol"].map(|name| team.signer(name, name));
    team.site.checkout.write("allowed_signers", lines.concat());
    team.site.checkout.commit("Without Bob");
    for words in [&GUARDS[..], &["apply", "--yes"]] {
        team.site
            .run(words)
            .with(4)
            .saying("`any` asks for 2 of bob@example.org, carol@example.org, and 1 of them have a key there");
    }
    // Nor does a number that is larger than that of all signers.
    let lines = super::PEOPLE.map(|name| team.signer(name, name));
    team.site.checkout.write("allowed_signers", lines.concat());
    let rule = "any: {count: 100, of: [bob@example.org, carol@example.org]}";
    with_policy(&team, rule, "A hundred");
    team.site.run(&GUARDS).with(4).saying("`any` asks for 100");
}
