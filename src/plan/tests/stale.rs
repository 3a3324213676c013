//! When a plan may not be applied any more.

use super::*;
use crate::design::Retirement;
use crate::plan::{Current, Recorded, hold_to, stale};

fn reasons(plan: &Plan, fixture: &PlanFixture, today: &str) -> Vec<String> {
    let base = fixture.base.as_ref().map(|base| &base.run);
    let now = Current {
        site_digest: &fixture.site_digest,
        guards: &fixture.guards,
        recorded: Recorded {
            base_run: base,
            records: &fixture.records,
            reservations: &fixture.reservations,
        },
        today,
        observations: fixture.observations.as_ref(),
    };
    stale(plan, &now).iter().map(ToString::to_string).collect()
}

#[test]
fn each_reason_to_refuse_a_plan_is_told_by_itself() {
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    fixture.bare("n");
    let plan = fixture.plan();
    let facts: Vec<_> = plan
        .relies_on
        .iter()
        .map(|each| {
            let what = &each.what;
            format!("{} {} {}", each.subject, what.fact, what.expected)
        })
        .collect();
    assert_eq!(
        facts,
        [
            "node/n disks [\"serial-n\"]",
            "node/n kubernetes-node null",
            "node/n maintenance null",
            "node/n protected false",
            "node/n provision \"available\"",
            "node/n retired null",
        ]
    );
    let day = "2030-06-02";
    assert_eq!(reasons(&plan, &fixture, day), Vec::<String>::new());
    type Edit = fn(&mut PlanFixture);
    let table: &[(Edit, &str)] = &[
        (
            |w| w.site_digest = Arc::from("x"),
            "the site's documents differ",
        ),
        (
            |w| w.base = None,
            "the plan starts from run run-1, and the last success is nothing now",
        ),
        (
            |w| {
                let record = deployed(&node("n"));
                w.records.insert(NodeName::from("n"), record);
            },
            "the records of nodes that the plan relies on have changed since it was made, last by run run-1: n",
        ),
        (
            |w| {
                w.guards.retirements.push(Retirement {
                    selector: named(&["m"]).remove(0),
                    reason: Arc::from("old"),
                    from: Some(Arc::from("2030-06-02")),
                    mark: mark(),
                });
            },
            "a retirement (old) holds from 2030-06-02 on",
        ),
        (
            |w| w.seen("n").provision = Fact::Known(ProvisionState::Active),
            "`provision` of `node/n` was \"available\" when the plan was made, and is \"active\" now",
        ),
        (
            |w| w.seen("n").provision = Fact::Unknown(Arc::from("no answer")),
            "`provision` of `node/n` was \"available\" when the plan was made, and cannot be observed now: no answer",
        ),
        (
            |w| w.seen("n").maintenance = Some(Arc::from("fan")),
            "`maintenance` of `node/n` was null when the plan was made, and is \"fan\" now",
        ),
    ];
    for (edit, expected) in table {
        let mut later = fixture.clone();
        edit(&mut later);
        let found = reasons(&plan, &later, day);
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{found:#?}"
        );
    }
    fixture.record("m").run = RunId::from("run-2");
    fixture.seen("m").power = Fact::Known(PowerState::Off);
    assert_eq!(
        reasons(&plan, &fixture, day),
        Vec::<String>::new(),
        "another node"
    );
}

#[test]
fn a_plan_of_which_nothing_was_observed_still_never_deploys_over_a_machine() {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.bare("n");
    let observations = fixture.observations.take();
    let plan = fixture.plan();
    assert!(plan.warnings[0].starts_with("nothing was observed"));
    fixture.observations = observations;
    assert_eq!(reasons(&plan, &fixture, "2030-06-01"), Vec::<String>::new());
    fixture.see("n", ProvisionState::Active);
    assert_eq!(reasons(&plan, &fixture, "2030-06-01").len(), 1);
}

#[test]
fn a_plan_that_is_made_now_is_held_to_what_the_reviewed_one_relied_on() {
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    fixture.bare("n");
    let reviewed = fixture.plan();
    let found = |fixture: &PlanFixture| -> Vec<String> {
        let mut plan = fixture.plan();
        let observations = fixture.observations.as_ref().unwrap();
        let found = hold_to(&reviewed, &mut plan, observations, &[]);
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(found(&fixture), Vec::<String>::new());
    let mut replaced = fixture.clone();
    if let Fact::Known(disks) = &mut replaced.seen("n").disks {
        disks[0].serial = Arc::from("another");
    }
    let reasons = found(&replaced);
    assert!(
        reasons.len() == 1 && reasons[0].starts_with("`disks` of `node/n` was"),
        "{reasons:#?}"
    );
    // Where nothing is done to the machine any more, only a flag that was set since speaks against the rest.
    let mut done = fixture.clone();
    let record = deployed(&node("n"));
    done.records.insert(NodeName::from("n"), record);
    done.see("n", ProvisionState::Active);
    assert_eq!(found(&done), Vec::<String>::new());
    done.seen("n").maintenance = Some(Arc::from("fan"));
    let reasons = found(&done);
    assert!(
        reasons.len() == 1 && reasons[0].starts_with("`maintenance` of `node/n` was null"),
        "{reasons:#?}"
    );
}

#[test]
fn a_soak_that_is_owed_since_names_its_machine_and_its_run() {
    let mut fixture = PlanFixture::settled(&["m", "n"]);
    fixture.edit("n", Section::Labels);
    let plan = fixture.plan();
    let record = fixture.record("m");
    record.run = RunId::from("run-2");
    record.soaking = Some(RunId::from("run-2"));
    assert_eq!(
        reasons(&plan, &fixture, "2030-06-01"),
        [
            "the records of nodes that the plan relies on have changed since it was made, last by run run-2: m"
        ]
    );
}
