//! Secrets, which digests know by the file that they are written in.

use super::*;
use crate::document::{SecretOrigin, node_from_json};

#[test]
fn a_secret_whose_file_was_edited_elsewhere_is_recorded_and_changes_no_machine() {
    let mut fixture = PlanFixture::settled(&["n"]);
    let section = |value: &str| {
        let fields = serde_json::json!({"password": value});
        let mut section = node_from_json(&fields, mark());
        section.hide(&SecretOrigin::in_file(None));
        Arc::new(section)
    };
    let old = Arc::make_mut(fixture.old.nodes.get_mut("n").unwrap());
    old.sections
        .insert(Section::OperatingSystem, section("same"));
    let node = fixture.designed("n");
    node.sections
        .insert(Section::OperatingSystem, section("same"));
    fixture.edit("n", Section::OperatingSystem);
    assert_eq!(work(&fixture.plan()), "record/n");
    // Without the design that was applied it cannot be told from another secret.
    fixture.record("n").revision = Some(Arc::from("gone"));
    let blocked = super::leaving::blocked(&fixture.plan());
    assert!(blocked[0].ends_with("[--allow-redeploy n]"), "{blocked:?}");
}
