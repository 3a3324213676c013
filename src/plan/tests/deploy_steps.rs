//! The steps of a deploy besides its own.

use std::sync::Arc;

use super::*;
use crate::design::fixture;
use crate::observed::Capability;
use crate::plan::effect::PlanEffect;

const BIOS: &str = "{interface: bios, step: apply_configuration, priority: 150, args: {settings: [{name: Turbo, value: 'off'}]}}";

/// A machine that is to be built, and whose profile and document have these deploy steps.
fn designed(profile: &str, own: &str) -> PlanFixture {
    let text = format!(
        "---\nschema: drydock/HostProfile/v1\nmetadata: {{name: p}}\ndata: {{platform: {{image: noble, deploy_steps: {profile}}}}}\n\
         ---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n1}}\ndata: {{host_profile: p, platform: {{deploy_steps: {own}}}}}\n"
    );
    let site = fixture::site(&text);
    let mut fixture = PlanFixture::settled(&["n1"]);
    fixture.designed("n1").sections = site.design.nodes[&NodeName::from("n1")].sections.clone();
    fixture.bare("n1");
    fixture
}

fn steps(fixture: &PlanFixture) -> String {
    let plan = fixture.plan();
    let steps = step(&plan, "deploy/all/n1").given().deploy_steps();
    serde_json::to_string(steps).unwrap()
}

#[test]
fn deploy_steps_of_the_design_stand_in_the_plan_with_their_arguments() {
    let bios = r#"[{"interface":"bios","step":"apply_configuration","priority":150,"arguments":"{\"settings\":[{\"name\":\"Turbo\",\"value\":\"off\"}]}"}]"#;
    let inherited = designed(&format!("[{BIOS}]"), "null");
    assert_eq!(steps(&inherited), bios);
    let reasons = &inherited.plan().changes[0].reasons;
    let said = "deploy step bios.apply_configuration {\"settings\":[{\"name\":\"Turbo\",\"value\":\"off\"}]} (priority 150)";
    assert!(
        reasons.iter().any(|reason| **reason == *said),
        "{reasons:?}"
    );

    let own = "[{interface: raid, step: delete_configuration, priority: 0}]";
    let off = r#"[{"interface":"raid","step":"delete_configuration","priority":0}]"#;
    assert_eq!(steps(&designed(&format!("[{BIOS}]"), own)), off);
    assert_eq!(steps(&designed(&format!("[{BIOS}]"), "'!'")), "[]");
    assert_eq!(steps(&designed("null", "null")), "[]");
}

#[test]
fn other_deploy_steps_are_another_effect() {
    let plan_of = |steps: &str| designed(steps, "null").plan();
    let (reviewed, without) = (plan_of(&format!("[{BIOS}]")), plan_of("null"));
    let other = plan_of(&format!("[{}]", BIOS.replace("'off'", "'on'")));
    let reviewed = PlanEffect::of(&reviewed);
    for now in [&other, &without] {
        let now = PlanEffect::of(now);
        assert_ne!(now.digest(), reviewed.digest());
        let added = format!("{:?}", now.adds_to(&reviewed));
        assert!(added.contains("other deploy steps are run"), "{added}");
    }
}

#[test]
fn what_cannot_run_deploy_steps_is_not_asked_to() {
    let blocked = |fixture: &PlanFixture| {
        let plan = fixture.plan();
        let block = plan.changes[0].blocked.as_ref();
        block.map(|block| block.reason.to_string())
    };
    let mut fixture = designed(&format!("[{BIOS}]"), "null");
    let able = [Capability::Prepare, Capability::Deploy, Capability::Wipe];
    fixture.seen("n1").capabilities = able.into();
    let why = "its backend cannot run deploy steps of the design";
    assert_eq!(blocked(&fixture).as_deref(), Some(why));
    fixture
        .seen("n1")
        .capabilities
        .insert(Capability::DeploySteps);
    assert_eq!(blocked(&fixture), None);
    let odd = blocked(&designed("2", "null")).unwrap();
    assert!(
        odd.contains("its `platform.deploy_steps` make no sense"),
        "{odd}"
    );
}

#[test]
fn a_part_of_a_design_that_its_backend_does_not_support_blocks_the_deploy_and_one_left_out_is_named()
 {
    let mut fixture = designed("null", "null");
    let seen = fixture.seen("n1");
    seen.left_out = Arc::from([Arc::from("bonds stay as they are")]);
    let plan = fixture.plan();
    assert!(plan.changes[0].blocked.is_none());
    let reasons: Vec<&str> = plan.changes[0].reasons.iter().map(|each| &**each).collect();
    assert!(
        reasons.contains(&"left out: bonds stay as they are"),
        "{reasons:?}"
    );
    fixture.seen("n1").unsupported = Arc::from([Arc::from("the kernel `generic`")]);
    let plan = fixture.plan();
    let block = plan.changes[0].blocked.as_ref().unwrap();
    let why = "its backend does not support a part of its design: the kernel `generic`";
    assert_eq!(&*block.reason, why);
}
