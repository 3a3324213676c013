//! Runs that begin without approvals, by whom the Policy lets do that, and what is left to do afterwards.

use super::{POLICY, REDEPLOY, Team};

const REASON: [&str; 2] = ["--break-glass", "the site is down"];

#[test]
fn a_run_without_approvals_is_begun_by_few_for_few_machines_and_shown_until_it_was_approved() {
    let team = Team::new();
    let apply = |words: &[&str]| {
        let words = [&["apply"], words, &["--yes"], &REASON[..]].concat();
        team.site.run(&words)
    };
    team.sign_as(&team.site, "ada");
    apply(&REDEPLOY)
        .with(4)
        .saying("the Policy, in force and of the documents, has no `break_glass`");
    let glass = "\ndata: {break_glass: {machines: 1, by: [ada@example.org]}, ";
    let policy = POLICY.replace("\ndata: {", glass);
    assert_ne!(policy, POLICY);
    team.site.checkout.write("policy.yaml", policy);
    team.site
        .commit_and_apply("Ada may", &REASON)
        .with(4)
        .saying("has no `break_glass`");
    team.site
        .checkout
        .git(&["reset", "--quiet", "--soft", "HEAD~1"]);
    team.agree("Ada may, as others agree");
    for name in ["gpg.format", "user.signingkey"] {
        team.site.checkout.git(&["config", "--unset", name]);
    }
    apply(&REDEPLOY)
        .with(4)
        .saying("error: `--break-glass` needs a signature of the person who begins: git has");
    team.sign_as(&team.site, "carol");
    apply(&REDEPLOY)
        .with(4)
        .saying("is of none of ada@example.org");
    team.sign_as(&team.site, "ada");
    apply(&["redeploy", "edge-1", "edge-2"])
        .with(4)
        .saying("at most 1 may be");
    assert_eq!(team.site.effects("destroyed"), 0);
    let plan = team.site.run(&[&["plan"], &REDEPLOY[..], &REASON].concat());
    let line = "BREAK-GLASS: 1 approval is missing, and done without if ada@example.org signs the run: the site is down.";
    assert!(plan.with(0).stdout.contains(line));
    let two = [&["plan", "redeploy", "edge-1", "edge-2"], &REASON[..]];
    let plan = team.site.run(&two.concat()).with(0);
    let line = "UNAPPROVED: 1 approval is missing; `--break-glass` cannot do without: the plan is about 2 machines, and at most 1";
    assert!(plan.stdout.contains(line), "{}", plan.stdout);
    apply(&REDEPLOY).with(0);
    assert_eq!(team.site.effects("destroyed"), 1);
    // One machine after another is no way around the number.
    let other = ["redeploy", "edge-2"];
    apply(&other)
        .with(4)
        .saying("with the runs that began so, and were not approved since, it is about 2 machines, and at most 1 may be");
    assert_eq!(team.site.effects("destroyed"), 1);

    let status = team.site.run(&["status"]).with(0);
    let warning = "began without approvals (break-glass by ada@example.org: the site is down)";
    assert!(status.stderr.contains(warning), "{}", status.stderr);
    let named = status.stderr.split("`trueup approve ").nth(1).unwrap();
    let run = named.split('`').next().unwrap();
    let shown = team.site.run(&["show", run]).with(0);
    assert!(
        shown
            .stdout
            .contains("break-glass by ada@example.org: the site is down")
    );
    // The person who began it does not approve it.
    team.approve(run, "ada", &[]).with(0);
    assert!(team.site.run(&["status"]).with(0).stderr.contains(warning));
    team.approve(run, "bob", &["--expires", "0s"])
        .with(64)
        .saying("an approval that counts for no time");
    // What was approved stays so, also when a plan would need another approval.
    team.approve(run, "bob", &["--expires", "1s"]).with(0);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let status = team.site.run(&["status"]).with(0);
    assert!(!status.stderr.contains(warning), "{}", status.stderr);
    apply(&other).with(0);
}

#[test]
fn what_was_signed_of_a_run_begins_no_other_one() {
    let team = Team::new();
    let glass = "\ndata: {break_glass: {machines: 1, by: [ada@example.org]}, ";
    let policy = POLICY.replace("\ndata: {", glass);
    let policy = policy.replace("redeploy: 1", "any: 1");
    team.site.checkout.write("policy.yaml", policy);
    team.agree("Ada may, as others agree");
    team.sign_as(&team.site, "ada");
    let power = |state: &str, more: &[&str]| {
        let words = ["apply", "power", state, "edge-1", "--yes"];
        team.site.run(&[&words[..], more].concat())
    };
    power("off", &REASON).with(0);
    let log = team.site.run(&["log", "--format", "json"]).with(0).json();
    let run = log["runs"][0]["run"].as_str().unwrap().to_owned();
    power("on", &REASON).with(0);
    team.approve(&run, "bob", &[]).with(0);
    power("off", &[])
        .with(4)
        .saying(&format!("it is for run {run}, which had begun without"));
    assert_eq!(team.site.effects("powered-off"), 1);
}

#[test]
fn where_records_count_a_run_publishes_them() {
    let team = Team::new();
    team.demands_an_approval_of_all();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    team.site
        .run(&["apply", &plan, "--no-push"])
        .with(4)
        .saying("count on its records, which `--no-push` does not publish");
    assert_eq!(team.site.effects("destroyed"), 0);
    team.site.run(&["apply", &plan]).with(0);
}
