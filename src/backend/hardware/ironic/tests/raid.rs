//! RAID volumes: what is shown of them, what a deploy makes, and what is refused before anything is changed.

use super::*;
use crate::design::{HOT_SPARES, Section, VOLUMES};
use crate::observed::PartDrift;

const DESIGNED: &str = "RAID1 of 2 drives, 480 GiB";

fn hardware(mode: &str, more: &str) -> String {
    format!(
        "---\nschema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata:\n  mode: {mode}\n  \
         raid: {{volumes: [{{name: root, level: RAID1, drives: 2, size_gib: 480}}]{more}}}\n"
    )
}

fn opened_with(url: &str, hardware: &str) -> (Ironic, Guarded) {
    let design = site(url, "driver: fake-hardware", &["n1".to_owned()], hardware);
    (open(&design, Arc::new(NoSecrets)).unwrap(), design)
}

async fn observed(ironic: &Ironic, design: &Guarded) -> ObservedNode {
    let seen = ironic.observe(&[design.nodes["n1"].clone()]).await;
    (*seen[&NodeName::from("n1")]).clone()
}

fn shown(level: &str) -> Value {
    json!({"logical_disks": [{"raid_level": level, "size_gb": 480, "number_of_physical_disks": 2}]})
}

#[tokio::test(start_paused = true)]
async fn volumes_that_ironic_shows_are_compared_without_a_request_more() {
    let stand_in = StandIn::new().with("n1", "active");
    let server = stand_in.serve().await;
    for (mode, section) in [("enforce", Section::Raid), ("report", Section::Expected)] {
        let (ironic, design) = opened_with(&server.url, &hardware(mode, ""));
        stand_in.set("n1", "raid_config", json!({}));
        let seen = observed(&ironic, &design).await;
        assert!(seen.drift.is_empty() && seen.compared.is_empty());
        stand_in.set("n1", "raid_config", shown("0"));
        let seen = observed(&ironic, &design).await;
        let drift: Vec<String> = seen.drift.iter().map(PartDrift::to_string).collect();
        assert_eq!(
            drift,
            ["raid.volumes: RAID0 of 2 drives, 480 GiB, designed RAID1 of 2 drives, 480 GiB"]
        );
        assert_eq!(seen.drift[0].section, section);
        stand_in.set("n1", "raid_config", shown("1"));
        let seen = observed(&ironic, &design).await;
        assert!(seen.drift.is_empty());
        assert_eq!(seen.compared.contains(&Section::Raid), mode == "enforce");
    }
    let of_node = |line: &String| line.contains("/nodes/");
    assert!(!server.lines().iter().any(of_node), "{:?}", server.lines());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_made_is_told_in_the_plan() {
    let stand_in = StandIn::new().with("n1", "active");
    stand_in.set("n1", "raid_interface", json!("no-raid"));
    let server = stand_in.newest(68).serve().await;
    let (ironic, design) = opened_with(&server.url, &hardware("enforce", ", hot_spares: 1"));
    let seen = observed(&ironic, &design).await;
    let fixed: Vec<&str> = seen.fixed.iter().map(|each| &*each.name).collect();
    assert_eq!(fixed, [HOT_SPARES, VOLUMES]);
    let why = seen.unsupported.join("\n");
    assert!(
        why.contains("RAID volumes (`raid` of Hardware documents) need 1.69"),
        "{why}"
    );

    // Also of a machine that Ironic does not know yet.
    let server = StandIn::new().serve().await;
    let (ironic, design) = opened_with(&server.url, &hardware("enforce", ", hot_spares: 1"));
    let seen = observed(&ironic, &design).await;
    assert_eq!(seen.fixed[0].name, Arc::from(HOT_SPARES));
}

#[tokio::test(start_paused = true)]
async fn a_deploy_makes_volumes_and_ends_well_only_if_ironic_shows_them() {
    let settings = |value: &str| of_settings(&[(VOLUMES, value)]);
    let table = [
        (Makes::Volumes, None),
        (Makes::Nothing, Some("shows no volumes of it")),
        (
            Makes::Others,
            Some("shows other volumes than designed: RAID5, 480 GiB"),
        ),
    ];
    for (makes, failure) in table {
        let stand_in = StandIn::new().with("n1", "available");
        stand_in.fixture().makes = makes;
        let server = stand_in.serve().await;
        let (ironic, design) = opened_with(&server.url, &hardware("enforce", ""));
        let deploy = order(&design, StepKind::Deploy, "n1", settings(DESIGNED));
        let ended = ironic.act(&deploy).await;
        match failure {
            None => assert_eq!(ended, Ok(())),
            Some(failure) => {
                let text = permanent(ended);
                assert!(text.contains(failure), "{text}");
                // It is no success of the next process either.
                let text = permanent(ironic.act(&deploy).await);
                assert!(text.contains(failure), "{text}");
            }
        }
        let received = server.received.lock().unwrap();
        let mut asked = received
            .iter()
            .filter(|each| each.body["target"] == "active");
        let steps = &asked.next().unwrap().body["deploy_steps"];
        assert_eq!(steps.as_array().map(Vec::len), Some(1));
        assert_eq!(steps[0]["step"], "apply_configuration");
        assert!(asked.next().is_none());
    }

    // Without them in the plan nothing is made, and other ones than those of the design are refused.
    let stand_in = StandIn::new().with("n1", "available");
    let server = stand_in.serve().await;
    let (ironic, design) = opened_with(&server.url, &hardware("enforce", ""));
    let other = settings("RAID0 of 2 drives");
    let other = order(&design, StepKind::Deploy, "n1", other);
    let text = permanent(ironic.act(&other).await);
    assert!(text.contains("the plan makes other volumes"), "{text}");
    assert!(changes(&server).is_empty());
    act(&ironic, &design, StepKind::Deploy, "n1").await.unwrap();
    assert_eq!(stand_in.node("n1")["raid_config"], Value::Null);
}
