//! Controllers with habits of their own: they refuse or demand parts of a request, answer badly for a while, or have
//! no sessions.

use super::bmc::{Between, Opening, State, Versions};
use super::*;

/// Gives a controller a habit.
type Habit = fn(&mut State);

/// Settings of a deploy from an image, proven by a port that answers already.
async fn proven() -> (tokio::net::TcpListener, String) {
    let system = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = system.local_addr().unwrap().port();
    let more = format!("image: 'http://images/{{node}}.iso', deploy: {{port: {port}}}");
    (system, more)
}

/// How often an image was to be inserted.
fn inserts(bmc: &Bmc) -> usize {
    let changes = bmc.changes();
    changes
        .iter()
        .filter(|line| line.ends_with("/Insert"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_request_that_a_controller_refuses_or_demands_are_left_out_or_added() {
    let (_system, more) = proven().await;
    for (refuses, demands) in [
        (vec!["Inserted", "WriteProtected"], vec![]),
        (vec![], vec!["TransferProtocolType"]),
        (
            vec!["Inserted", "WriteProtected"],
            vec!["TransferMethod", "TransferProtocolType"],
        ),
    ] {
        let bmc = Bmc::start().await;
        let case = format!("{refuses:?} {demands:?}");
        bmc.state().refuses = refuses;
        bmc.state().demands = demands;
        let site = site(&[bmc.port()], &more, "");
        let acted = site.act(StepKind::Deploy).await;
        assert_eq!(acted, Ok(()), "{case}");
        let tried = inserts(&bmc);
        assert!(tried > 1, "{case}");
        // What was accepted is remembered.
        site.act(StepKind::Deploy).await.unwrap();
        assert_eq!(inserts(&bmc), tried + 1, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_boot_override_is_set_in_the_shape_and_at_the_place_that_a_controller_takes() {
    let (_system, more) = proven().await;
    let habits: [(&str, Habit); 6] = [
        ("no once", |state| state.refuses = vec!["Once"]),
        ("settings", |state| state.refuses = vec!["System"]),
        ("weak", |state| state.versions = Versions::Weak),
        ("mode", |state| {
            state.demands = vec!["BootSourceOverrideMode"]
        }),
        ("any", |state| state.versions = Versions::Any),
        ("no target that is none", |state| {
            (state.refuses, state.keeps) = (vec!["None"], "Continuous");
        }),
    ];
    for (name, habit) in habits {
        let bmc = Bmc::start().await;
        habit(&mut bmc.state());
        let site = site(&[bmc.port()], &more, "");
        assert_eq!(site.act(StepKind::Deploy).await, Ok(()), "{name}");
        assert!(bmc.state().is_on, "{name}");
        let (enabled, target) = bmc.state().boot.clone();
        assert!(
            enabled == "Disabled" || target == "Hdd",
            "{name}: {enabled} {target}"
        );
        assert_eq!(bmc.state().image, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_about_no_part_is_the_end() {
    let (_system, more) = proven().await;
    let bmc = Bmc::start().await;
    bmc.state().stays_off = true;
    let site = site(&[bmc.port()], &more, "");
    let error = site.act(StepKind::Deploy).await.unwrap_err();
    assert!(
        error.to_string().contains("The power supply is missing."),
        "{error}"
    );
    // A failed deploy leaves nothing from which the machine would be installed later.
    let state = bmc.state();
    assert_eq!(
        (&state.image, &*state.boot.0),
        (&None, "Disabled"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_answer_while_something_is_waited_for_is_no_verdict() {
    let all = [
        Between::Null,
        Between::Word,
        Between::NotFound,
        Between::Error,
        Between::Page,
    ];
    for between in all {
        let bmc = Bmc::start().await;
        bmc.state().between = Some(between);
        bmc.state().delay = Duration::from_millis(700);
        let site = site(&[bmc.port()], "", "");
        assert_eq!(site.act(StepKind::Deploy).await, Ok(()), "{between:?}");
        assert!(bmc.state().is_on);
    }
    // If nothing is waited for, it is one.
    let bmc = Bmc::start().await;
    bmc.state().between = Some(Between::Null);
    bmc.state().pending = Some((true, tokio::time::Instant::now() + Duration::from_secs(60)));
    let site = site(&[bmc.port()], "", "");
    let seen = site.see().await.remove(0);
    assert!(
        matches!(&seen.power, Fact::Unknown(why) if why.contains("PowerState")),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_read_has_three_tries_also_of_a_collection() {
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], "", "");
    for (busy, is_seen) in [(2, true), (3, false)] {
        bmc.state().busy = busy;
        let seen = site.see().await.remove(0);
        assert_eq!(seen.power.known().is_some(), is_seen, "{busy}: {seen:?}");
        bmc.state().busy = 0;
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_are_ended_wherever_they_are_and_the_account_serves_where_there_are_none() {
    for (opening, more, with_account) in [
        (Opening::WithoutLocation, "", false),
        (Opening::Refused(401), "", true),
        (Opening::Refused(403), "", true),
        (Opening::Refused(503), "", true),
        (Opening::Full, "session: never", true),
    ] {
        let bmc = Bmc::start().await;
        bmc.state().opening = opening;
        let site = site(&[bmc.port()], more, "");
        assert_eq!(site.act(StepKind::PowerOn).await, Ok(()), "{opening:?}");
        assert_eq!(bmc.sessions(), 0, "{opening:?}");
        let received = bmc.server.received.lock().unwrap();
        let by_account = received
            .iter()
            .any(|each| each.headers.contains_key("authorization"));
        assert_eq!(by_account, with_account, "{opening:?}");
    }
    // A session is ended also if nothing is reached by it.
    let bmc = Bmc::start().await;
    bmc.state().others = vec!["7"];
    let site = site(&[bmc.port()], "", "");
    assert!(site.act(StepKind::PowerOn).await.is_err());
    assert_eq!(bmc.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_cancelled_steps_session_is_waited_for() {
    let bmc = Bmc::start().await;
    bmc.state().delay = Duration::from_secs(3600);
    let site = site(&[bmc.port()], "", "");
    let order = site.order(StepKind::PowerOn);
    let cancelled =
        tokio::time::timeout(Duration::from_millis(400), site.hardware.act(&order)).await;
    assert!(cancelled.is_err());
    site.hardware.leave().await;
    assert_eq!(bmc.sessions(), 0);
}

/// Also where the controller had opened it and its answer was on the way.
#[tokio::test(start_paused = true)]
async fn a_step_that_is_cancelled_at_any_request_leaves_no_session() {
    let mut opened = 0;
    for cancelled_at in 1..=6 {
        let bmc = Bmc::start().await;
        bmc.state().delay = Duration::from_secs(3600);
        let site = site(&[bmc.port()], "", "");
        let order = site.order(StepKind::PowerOn);
        tokio::select! {
            ended = site.hardware.act(&order) => panic!("{cancelled_at}: {ended:?}"),
            () = bmc.server.has_received(cancelled_at) => {}
        }
        site.hardware.leave().await;
        assert_eq!(
            bmc.sessions(),
            0,
            "{cancelled_at}: {:?}",
            bmc.server.lines()
        );
        let lines = bmc.server.lines();
        opened += lines.iter().filter(|line| line.starts_with("POST")).count();
    }
    assert!(opened >= 3, "{opened}");
}

#[tokio::test(start_paused = true)]
async fn a_prepare_asks_for_what_the_deploy_and_a_later_teardown_need() {
    let refused = async |habit: Habit, profile: &str, more: &str| {
        let bmc = Bmc::start().await;
        habit(&mut bmc.state());
        let text = text(&[bmc.port()], more, "").replace("vendor: Example", profile);
        let prepared = opened(&text).act(StepKind::Prepare).await;
        let changes = bmc.changes();
        let mut others = changes.iter().filter(|line| !line.contains("Session"));
        // What can be taken back is tried last.
        assert!(others.all(|line| prepared.is_ok() && line == "PATCH ~"));
        prepared
            .err()
            .map_or(String::new(), |error| error.to_string())
    };
    let image = "image: 'http://images/{node}.iso'";
    assert_eq!(refused(|_| {}, "vendor: Example", image).await, "");
    let expected = "it was made by Example Inc., its hardware profile says Other";
    let error = refused(|_| {}, "vendor: Other", "").await;
    assert!(error.contains(expected), "{error}");
    let error = refused(|state| state.lacks = vec!["Boot"], "vendor: Example", "").await;
    assert!(error.contains("no boot override"), "{error}");
    let error = refused(
        |state| state.lacks = vec!["VirtualMedia"],
        "vendor: Example",
        image,
    )
    .await;
    assert!(error.contains("no virtual drive"), "{error}");
    let error = refused(|state| state.lacks = vec!["Actions"], "vendor: Example", "").await;
    assert!(error.contains("ComputerSystem.Reset"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_takes_no_boot_override_is_refused_before_an_image_is_inserted() {
    let (_system, more) = proven().await;
    let habits: [(&str, Habit, &str); 2] = [
        (
            "ignored",
            |state| state.ignores_boot = true,
            "does not show it",
        ),
        (
            "refused",
            |state| state.refuses = vec!["Once", "Continuous"],
            "is not known",
        ),
    ];
    for (name, habit, expected) in habits {
        let bmc = Bmc::start().await;
        habit(&mut bmc.state());
        let site = site(&[bmc.port()], &more, "");
        let error = site.act(StepKind::Prepare).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        let changes = bmc.changes();
        let mut others = changes.iter().filter(|line| !line.contains("Session"));
        assert!(others.all(|line| line == "PATCH ~"), "{name}: {changes:?}");
    }
    // If a controller of the make took one, nothing is tried.
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], &more, "");
    let patches = || {
        let changes = bmc.changes();
        changes.iter().filter(|line| *line == "PATCH ~").count()
    };
    site.act(StepKind::Prepare).await.unwrap();
    let tried = patches();
    assert!(tried > 0);
    site.act(StepKind::Prepare).await.unwrap();
    assert_eq!(patches(), tried);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_always_called_turning_on_is_on_once_it_has_had_the_time_to_boot() {
    let bmc = Bmc::start().await;
    bmc.state().is_never_on = true;
    let site = site(&[bmc.port()], "deploy: {boot_time: 1}", "");
    assert_eq!(site.act(StepKind::Deploy).await, Ok(()));
    // It is on its way: it is not asked again.
    let changes = bmc.changes();
    assert_eq!(changes.iter().filter(|line| *line == "On").count(), 1);
    // A teardown switches it off, and erases it.
    assert_eq!(site.act(StepKind::Destroy).await, Ok(()));
    assert!(!bmc.state().is_on);
}

#[tokio::test(start_paused = true)]
async fn a_system_that_is_not_shown_once_it_is_off_is_off_for_a_teardown_alone() {
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    bmc.state().hides_off = true;
    let site = site(&[bmc.port()], "", "");
    assert_eq!(site.act(StepKind::Destroy).await, Ok(()));
    assert!(!bmc.state().is_on);
    assert_eq!(bmc.sessions(), 0);
    // Elsewhere it is not known.
    let seen = site.see().await.remove(0);
    assert!(matches!(seen.power, Fact::Unknown(_)), "{seen:?}");
}
