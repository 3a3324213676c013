//! Differences that are accepted: whatever the version of the digests, and never more than was reviewed.

use super::*;
use crate::design::{Acceptance, AcceptedDesign, DesignDifference, FieldPattern, IgnoredChanges};
use crate::plan::{Action, PlanEffect};
use crate::record::{Accepted, AcceptedDifference};
use crate::step::StepKind;

fn difference(path: &str, value: u8) -> DesignDifference {
    DesignDifference {
        section: Section::Network,
        path: path.into(),
        value: Some(SectionDigest([value; 32])),
    }
}

/// A site whose network section differs in these fields, with a rule for `dns`.
fn differing(paths: &[&str]) -> PlanFixture {
    let mut fixture = PlanFixture::settled(&["n"]);
    fixture.edit("n", Section::Network);
    fixture.values = paths
        .iter()
        .map(|path| ValueDifference {
            difference: difference(path, 7),
            is_secret: false,
        })
        .collect();
    let pattern: FieldPattern = "dns".parse().unwrap();
    fixture.guards.policy.ignored = vec![IgnoredChanges {
        selectors: Vec::new(),
        paths: vec![pattern],
        reason: "DHCP".into(),
    }];
    fixture
}

fn recorded(path: &str, value: u8) -> Box<Accepted> {
    Box::new(Accepted {
        revision: REVISION.into(),
        differences: vec![AcceptedDifference {
            acceptance: Acceptance {
                difference: difference(path, value),
                reason: "DHCP".into(),
            },
            by: "Ada".into(),
            run: RunId::from("run-1"),
        }],
    })
}

fn kind(fixture: &PlanFixture) -> Option<ChangeKind> {
    fixture.plan().changes.first().map(|change| change.kind)
}

/// The contents of the record after the plan.
fn accepts(plan: &Plan) -> Option<AcceptedDesign> {
    let mut steps = plan.steps.iter();
    let step = steps.find(|step| step.id.kind == StepKind::AcceptDifferences)?;
    step.given().accepted().as_deref().cloned()
}

#[test]
fn a_section_stays_as_it_is_where_all_that_differs_in_it_is_accepted() {
    let accept = Some(ChangeKind::Accept);
    let redeploy = Some(ChangeKind::Redeploy);
    assert_eq!(kind(&differing(&["dns"])), accept);
    assert_eq!(kind(&differing(&["dns", "mtu"])), redeploy);
    // Digests differ, and no field is known to.
    assert_eq!(kind(&differing(&[])), redeploy);
    let mut other = differing(&["dns"]);
    other.edit("n", Section::Storage);
    assert_eq!(kind(&other), redeploy);
    let mut secret = differing(&["dns"]);
    secret.values[0].is_secret = true;
    assert_eq!(kind(&secret), redeploy);
    // Without the design that is on the machine nothing is known of its fields.
    let mut unknown = differing(&["dns"]);
    unknown.old.nodes.clear();
    assert_eq!(kind(&unknown), redeploy);
    let mut gone = differing(&["dns"]);
    gone.see("n", ProvisionState::Available);
    assert_eq!(kind(&gone), redeploy);
}

#[test]
fn what_a_record_accepts_is_one_value_of_one_field() {
    for (path, value, expected) in [
        ("dns", 7, ChangeKind::Accept),
        ("dns", 8, ChangeKind::Redeploy),
        ("mtu", 7, ChangeKind::Redeploy),
    ] {
        let mut fixture = differing(&["dns"]);
        fixture.guards.policy.ignored.clear();
        fixture.record("n").accepted = Some(recorded(path, value));
        let plan = fixture.plan();
        assert_eq!(plan.changes[0].kind, expected, "{path} {value}");
        assert_eq!(accepts(&plan), None);
    }
}

#[test]
fn a_record_of_another_version_of_digests_keeps_what_is_on_the_machine() {
    let mut fixture = differing(&["dns"]);
    let record = fixture.record("n");
    record.digest_version += 1;
    for section in Section::ALL {
        record.digests.insert(section, SectionDigest([9; 32]));
    }
    fixture.edit("n", Section::Inventory);
    let accepted = accepts(&fixture.plan()).unwrap();
    // By the rules of today: the old design's if a redeploy is needed, the new one's elsewhere.
    let digest = |section: Section| accepted.digests.get(&section).unwrap().0[0];
    assert_eq!(digest(Section::Network), 1);
    assert_eq!(digest(Section::Inventory), 2);
    assert_eq!(&*accepted.revision, REVISION);
    assert_eq!(accepted.differences[0].difference, difference("dns", 7));
}

#[test]
fn by_hand_only_what_is_accepted_changes_in_a_record() {
    let mut fixture = differing(&["dns", "mtu"]);
    fixture.edit("n", Section::Labels);
    fixture.record("n").accepted = Some(recorded("dns", 7));
    fixture.request.action = Action::Accept;
    fixture.request.nodes = these(&["n"]);
    fixture.request.fields = [Arc::from("mtu")].into();
    fixture.request.reason = Some("by hand".into());
    let accepted = accepts(&fixture.plan()).unwrap();
    let paths = |accepted: &AcceptedDesign| -> Vec<String> {
        let all = accepted.differences.iter();
        all.map(|each| each.difference.path.to_string()).collect()
    };
    assert_eq!(paths(&accepted), ["dns", "mtu"]);
    // Its labels were not set.
    assert_eq!(accepted.digests.get(&Section::Labels).unwrap().0[0], 1);
    fixture.request.undo = true;
    fixture.request.fields = [Arc::from("dns")].into();
    assert_eq!(
        paths(&accepts(&fixture.plan()).unwrap()),
        Vec::<String>::new()
    );
}

#[test]
fn a_plan_that_accepts_more_than_was_reviewed_does_more() {
    let reviewed = differing(&["dns"]).plan();
    let mut forged = reviewed.clone();
    let mut steps = forged.steps.iter_mut();
    let step = steps.find(|step| step.id.kind == StepKind::AcceptDifferences);
    let step = step.unwrap();
    let mut accepted = step.given().accepted().clone().unwrap();
    accepted.differences[0].difference = difference("dns", 8);
    step.give("accepted", accepted);
    let (forged, reviewed) = (PlanEffect::of(&forged), PlanEffect::of(&reviewed));
    assert_ne!(forged.digest(), reviewed.digest());
    let added = format!("{:?}", forged.adds_to(&reviewed));
    assert!(
        added.contains("other differences from its design are accepted"),
        "{added}"
    );
    assert!(reviewed.adds_to(&reviewed).is_empty());
}
