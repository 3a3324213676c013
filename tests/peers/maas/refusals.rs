//! What is never asked for, what is never shown, and what is said instead.

use serde_json::{Value, json};
use trueup::backend::{ActError, Hardware};
use trueup::observed::{Capability, Fact};
use trueup::step::StepKind;

use super::answers;
use super::lab::{Lab, PLATFORM, design, node};
use super::life::VERSIONS;
use super::region::{KEY, Region, Version, Wrong};
use super::rules::{self, STATUSES};
use super::serve::{Answer, Received, Reply, Server};

fn nothing() -> Value {
    json!({})
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_a_machine_whose_status_belongs_to_another() {
    for (status, kinds) in [
        (
            3,
            &[
                StepKind::Prepare,
                StepKind::Deploy,
                StepKind::Destroy,
                StepKind::PowerOn,
            ][..],
        ),
        (5, &[StepKind::Prepare, StepKind::Deploy, StepKind::Destroy]),
        (
            7,
            &[
                StepKind::Prepare,
                StepKind::Deploy,
                StepKind::Destroy,
                StepKind::Clean,
            ],
        ),
        (16, &[StepKind::Prepare, StepKind::Deploy]),
        (18, &[StepKind::Prepare, StepKind::Deploy]),
        (
            6,
            &[
                StepKind::Prepare,
                StepKind::Deploy,
                StepKind::Provide,
                StepKind::Manage,
            ],
        ),
        (0, &[StepKind::Deploy, StepKind::Clean]),
        (4, &[StepKind::PowerOn]),
        (10, &[StepKind::PowerOn]),
    ] {
        let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", status), "").await;
        for kind in kinds {
            lab.fails(*kind, "n1", nothing()).await;
            assert_eq!(
                lab.changes(),
                [""; 0],
                "{kind} while {}",
                rules::name(status)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_user_or_with_another_s_lock_is_left_alone() {
    let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", 10), "").await;
    lab.region
        .change("abc001", |machine| machine.owner = Some("bob".to_owned()));
    let seen = lab.seen("n1").await;
    assert_eq!(
        seen.maintenance.as_deref(),
        Some("allocated to the user `bob` of MAAS")
    );
    assert!(seen.protected);
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        lab.fails(kind, "n1", nothing()).await;
    }
    lab.region.change("abc001", |machine| {
        machine.status = 6;
        machine.owner = Some("admin".to_owned());
        machine.locked = true;
        machine.power = "on";
    });
    assert!(lab.seen("n1").await.protected);
    let why = lab.fails(StepKind::Destroy, "n1", nothing()).await;
    assert!(
        why.contains("locked in MAAS, and not by trueup: unlock it there first"),
        "{why}"
    );
    lab.fails(StepKind::PowerOff, "n1", nothing()).await;
    assert_eq!(lab.changes(), [""; 0]);
}

/// One that was marked broken and fixed while it was deployed: MAAS switches off what it would not switch on.
#[tokio::test(start_paused = true)]
async fn a_deployed_machine_without_an_owner_is_neither_switched_nor_locked() {
    let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", 6), "").await;
    lab.region.change("abc001", |machine| machine.owner = None);
    let seen = lab.seen("n1").await;
    assert!(!seen.capabilities.contains(Capability::Power) && !seen.unlocked);
    for kind in [StepKind::PowerOff, StepKind::Lock] {
        lab.fails(kind, "n1", nothing()).await;
    }
    let asked = lab.changes();
    assert!(
        !asked.iter().any(|line| line.contains("op=power")),
        "{asked:?}"
    );
    lab.run(StepKind::SetRetired, "n1", super::lab::reason("old"))
        .await;
    assert!(!lab.region.machine("abc001").locked);
}

#[tokio::test(start_paused = true)]
async fn another_power_action_is_waited_for_and_a_missing_rack_controller_is_named() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 6), "").await;
        lab.region.state().is_busy = true;
        let region = lab.region.clone();
        let ends = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            region.state().is_busy = false;
        });
        lab.run(StepKind::PowerOff, "n1", nothing()).await;
        ends.await.unwrap();
        let machine = lab.region.machine("abc001");
        assert_eq!((machine.power, machine.locked), ("off", false));

        // Without one MAAS says 400 if it has no image to commission with.
        let lab = Lab::one(Region::new(version).with("abc001", "n1", 0), "").await;
        lab.region.state().has_rack = false;
        let why = lab
            .acts_within(600, StepKind::Prepare, "n1")
            .await
            .unwrap_err();
        assert!(why.contains("no image is available"), "{why}");
        assert_eq!(lab.region.state().effects, [""; 0]);
        // It is asked for again, and once.
        lab.region.state().has_rack = true;
        lab.run(StepKind::Prepare, "n1", nothing()).await;
        let effects = lab.region.state().effects.clone();
        let commissions = effects.iter().filter(|each| *each == "commission abc001");
        assert_eq!(commissions.count(), 1, "{effects:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_maas_accepts_and_does_not_do_is_no_success() {
    for (wrong, kind, words) in [
        (
            Wrong::LocksNothing,
            StepKind::Lock,
            "MAAS accepted `lock`, and has not locked it",
        ),
        (
            Wrong::ForgetsTags,
            StepKind::SetRetired,
            "MAAS has not kept the tag `trueup-retired`",
        ),
        (
            Wrong::ForgetsTags,
            StepKind::SetMaintenance,
            "MAAS has not kept the tag `trueup-maintenance`",
        ),
        (
            Wrong::SwitchesNothing,
            StepKind::PowerOff,
            "is not Off in time",
        ),
    ] {
        let lab = Lab::one(Region::new(Version::V35).with("abc001", "n1", 6), "").await;
        lab.region.state().wrong = Some(wrong);
        let why = lab.acts_within(120, kind, "n1").await.unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_machine_of_the_same_name_is_not_touched() {
    let nodes = [(
        "n1".to_owned(),
        format!("oob: {{uuid: 4c4c4544-0051-3510-8050-b4c04f323201}}, {PLATFORM}"),
    )];
    let lab = Lab::of(
        Region::new(Version::V34).with("abc001", "n1", 6),
        "",
        &nodes,
        "",
    )
    .await;
    let uuid = "4c4c4544-0051-3510-8050-b4c04f323299".to_owned();
    lab.region
        .change("abc001", |machine| machine.uuid = Some(uuid));
    let why = lab.fails(StepKind::Destroy, "n1", nothing()).await;
    assert!(
        why.contains("its UUID is 4c4c4544-0051-3510-8050-b4c04f323299"),
        "{why}"
    );
    assert_eq!(lab.changes(), [""; 0]);
}

/// A site whose MAAS answers everything the same.
async fn answered(reply: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> (Lab, Server) {
    let server = Server::start(move |received| Reply::Answer(reply(received))).await;
    let nodes = [node("n1", "abc001", PLATFORM)];
    let lab = Lab::of(Region::new(Version::V34), "", &nodes, "").await;
    let lab = lab.designed(design((&server.url, "MAAS_API_KEY"), "", &nodes, ""));
    (lab, server)
}

async fn unknown(lab: &Lab) -> String {
    match lab.seen("n1").await.provision {
        Fact::Unknown(why) => why.to_string(),
        Fact::Known(state) => panic!("{state}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_is_never_shown_nor_what_is_answered_to_it() {
    for (said, expected) in [
        (
            "Invalid signature. Expected: &S3cret0fTheAdministrator",
            "the secret of the API key is wrong",
        ),
        (
            "Expired timestamp: given 1 and now 9",
            "the clock of this machine and that of MAAS differ by more than 300 s",
        ),
        (
            "Invalid access token: Token0",
            "MAAS does not know the token of the API key",
        ),
        ("Nonce already used: x", "the request was sent twice"),
        (
            "S3cret0fTheAdministrator",
            "MAAS does not accept the API key",
        ),
    ] {
        let (lab, _server) = answered(move |received| match received.path.ends_with("version/") {
            true => answers::text(200, "{\"version\": \"3.4.8\"}"),
            false => answers::text(401, said),
        })
        .await;
        let why = unknown(&lab).await;
        assert!(
            why.contains(&format!("401 Unauthorized: {expected}")),
            "{why}"
        );
        assert!(!why.contains(KEY.2) && !why.contains("Expected"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_no_api_is_said_to_be_wrong() {
    for (status, body, expected) in [
        (
            302,
            "",
            "302 Found: a redirect, which is not followed: is the address right?",
        ),
        (410, "gone", "410 Gone: gone"),
        (404, "nothing here", "404 Not Found: nothing here"),
        (200, "{}", "reports no version of MAAS: is it MAAS?"),
        (
            200,
            "{\"version\": \"2.3.1\"}",
            "is 2.3, and trueup needs 2.9 or later",
        ),
    ] {
        let (lab, _server) = answered(move |received| {
            assert!(
                !received.headers.contains_key("authorization"),
                "the key went to what is not MAAS"
            );
            Answer {
                headers: vec![("location", "/MAAS/?next=%2FMAAS%2F".to_owned())],
                ..answers::text(status, body)
            }
        })
        .await;
        let why = unknown(&lab).await;
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_user_and_an_unknown_image_are_found_before_anything_is_done() {
    let nodes = [node("n1", "abc001", "platform: {image: warty}")];
    let lab = Lab::of(Region::new(Version::V34), "", &nodes, "").await;
    let verify = async |lab: &Lab| {
        let parameters = json!({"deploys": ["n1"]});
        let (order, _) = lab.order(StepKind::VerifySite, None, parameters);
        match lab.open().act(&order).await {
            Err(ActError::Permanent(why)) => why.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let why = verify(&lab).await;
    let expected =
        "MAAS has no image `warty`, which node `n1` is deployed from; it has: ubuntu/focal, ";
    assert!(why.starts_with(expected), "{why}");
    let plain = design((lab.url(), "PLAIN_KEY"), "", &nodes, "");
    let why = verify(&lab.designed(plain)).await;
    assert!(
        why.starts_with("the user `user` of the API key is no administrator of MAAS"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_management_controller_that_does_not_answer_fails_the_step_in_both_versions() {
    for version in VERSIONS {
        for (status, kind, kept) in [
            (0, StepKind::Prepare, 0),
            (4, StepKind::Deploy, 10),
            (6, StepKind::Destroy, 6),
        ] {
            let lab = Lab::one(
                Region::new(version).with("abc001", "n1", status),
                "lock: false",
            )
            .await;
            lab.region
                .change("abc001", |machine| machine.is_dark = true);
            lab.fails(kind, "n1", nothing()).await;
            let failed = lab.region.machine("abc001").status;
            let expected = match version {
                Version::V34 => match kind {
                    StepKind::Prepare => 2,
                    StepKind::Deploy => 11,
                    _ => 15,
                },
                Version::V35 => kept,
            };
            assert_eq!(failed, expected, "{version:?} {kind}");
            if version == Version::V34 {
                // Whatever became of it, it was asked for once.
                let name = match kind {
                    StepKind::Prepare => "commission abc001",
                    StepKind::Deploy => "deploy abc001",
                    _ => "erase abc001",
                };
                let effects = lab.region.state().effects.clone();
                assert_eq!(
                    effects.iter().filter(|each| *each == name).count(),
                    1,
                    "{effects:?}"
                );
            }
        }
    }
}

#[test]
fn all_statuses_have_a_name_and_a_number_of_their_own() {
    let numbers: Vec<u8> = STATUSES.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..=22).collect::<Vec<u8>>());
}
