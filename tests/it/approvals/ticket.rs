//! The ticket of the work: where it stands, what it is refused for, and what an approval for another one is worth.

use serde_json::Value;

use super::super::accepted::example;
use super::{REDEPLOY, Team};

#[test]
fn a_ticket_is_asked_for_and_stands_in_plan_record_and_tag() {
    let site = example("edge");
    site.checkout.commit("A site");
    site.run(&["apply", "--yes"]).with(0);
    let policy =
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {ticket: required}\n";
    site.checkout.write("policy.yaml", policy);
    site.checkout.commit("Work has tickets");
    // The policy of the documents counts already.
    site.run(&["apply", "--yes"])
        .with(4)
        .saying("none is named");
    let text = site.run(&["plan"]).with(0).stdout;
    assert!(text.contains("TICKET: the policy asks for one"), "{text}");
    for wrong in ["", "two words", "OPS-1\nrun: 1"] {
        let refused = site.run(&["apply", "--yes", "--ticket", wrong]);
        refused.with(64).saying("a ticket is 1 to 100");
    }
    site.run(&["apply", "--yes", "--ticket", "OPS-1"]).with(0);
    // What does nothing needs none.
    site.run(&["apply", "--yes"]).with(0);
    site.run(&[&["apply", "--yes"], &REDEPLOY[..]].concat())
        .with(4)
        .saying("hint: `--ticket ID` names it");
    let words = [&["apply", "--yes"], &REDEPLOY[..], &["--ticket", "#7"]].concat();
    site.run(&words).with(0);

    let log = site.run(&["log", "--format", "json"]).with(0).stdout;
    let log: Value = serde_json::from_str(&log).unwrap();
    let run = |number: usize| log["runs"][number].clone();
    assert_eq!(
        (&run(0)["ticket"], &run(1)["ticket"]),
        (&"#7".into(), &"OPS-1".into())
    );
    let shown = site.run(&["show"]).with(0).stdout;
    assert!(shown.contains("ticket    #7"), "{shown}");
    let tag = run(1)["tag"].as_str().unwrap().to_owned();
    let message = site
        .checkout
        .git(&["cat-file", "-p", &format!("refs/tags/{tag}")]);
    assert!(message.contains("\nticket: OPS-1"), "{message}");
}

#[test]
fn an_approval_for_one_ticket_counts_for_no_other() {
    let team = Team::new();
    let ticket = |ticket| [&REDEPLOY[..], &["--ticket", ticket]].concat();
    let plan = team.plan(&ticket("OPS-1"));
    team.approve(&plan, "bob", &[]).with(0);
    let other = team.plan(&ticket("OPS-2"));
    team.site
        .run(&["apply", "--yes", &other])
        .with(4)
        .saying("it is for ticket OPS-1, and the plan has OPS-2");
    assert_eq!(team.site.effects("destroyed"), 0);
    let plan = team.plan(&ticket("OPS-1"));
    team.site.run(&["apply", "--yes", &plan]).with(0);
    assert_eq!(team.site.effects("destroyed"), 1);
}
