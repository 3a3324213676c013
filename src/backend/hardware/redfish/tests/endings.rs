//! The endings of a deploy: what it set for its own time is taken back in each of them.

use super::bmc::OtherDrive;
use super::*;

const IMAGE: &str = "image: 'http://images/{node}.iso'";

fn left_by_a_deploy(bmc: &Bmc) {
    let mut state = bmc.state();
    state.boot = ("Continuous".to_owned(), "Cd".to_owned());
    state.image = Some("http://images/n0.iso".to_owned());
}

fn is_clear(bmc: &Bmc) -> bool {
    let state = bmc.state();
    state.image.is_none() && (state.boot.0 == "Disabled" || state.boot.1 == "Hdd")
}

#[tokio::test(start_paused = true)]
async fn a_power_on_takes_back_what_a_deploy_left_and_refuses_what_another_set() {
    let bmc = Bmc::start().await;
    left_by_a_deploy(&bmc);
    let site = site(&[bmc.port()], IMAGE, "");
    let seen = site.see().await.remove(0);
    assert_eq!(seen.boots_from.as_deref(), Some("Cd (Continuous)"));
    assert_eq!(site.act(StepKind::PowerOn).await, Ok(()));
    assert_eq!(site.see().await.remove(0).boots_from, None);
    assert!(is_clear(&bmc) && bmc.state().is_on);
    // A machine that is on may still be read from what is in.
    left_by_a_deploy(&bmc);
    assert_eq!(site.act(StepKind::PowerOn).await, Ok(()));
    assert!(!is_clear(&bmc));

    let bmc = Bmc::start().await;
    bmc.state().boot = ("Once".to_owned(), "Pxe".to_owned());
    let site = self::site(&[bmc.port()], IMAGE, "");
    let error = site.act(StepKind::PowerOn).await.unwrap_err().to_string();
    assert!(error.contains("it will boot from Pxe (Once)"), "{error}");
    assert!(!bmc.state().is_on);
}

#[tokio::test(start_paused = true)]
async fn a_teardown_and_a_decided_deploy_take_back_what_was_set() {
    let bmc = Bmc::start().await;
    left_by_a_deploy(&bmc);
    let site = site(&[bmc.port()], IMAGE, "");
    site.act(StepKind::Destroy).await.unwrap();
    assert!(is_clear(&bmc));
    left_by_a_deploy(&bmc);
    let order = site.order(StepKind::Deploy);
    site.hardware.take_back(&order).await.unwrap();
    assert!(is_clear(&bmc));
}

#[tokio::test(start_paused = true)]
async fn a_deploy_begins_by_ejecting_also_the_same_image() {
    let bmc = Bmc::start().await;
    bmc.state().image = Some("http://images/n0.iso".to_owned());
    let site = site(&[bmc.port()], IMAGE, "");
    site.act(StepKind::Deploy).await.unwrap();
    let changes = bmc.changes();
    let media: Vec<_> = changes
        .iter()
        .filter(|line| line.contains("VirtualMedia"))
        .collect();
    let of = |what: &str| format!("POST ~/VirtualMedia/EXT1/Actions/{what}");
    assert_eq!(media, [&of("Eject"), &of("Insert")]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_deploy_asks_for_its_report_before_a_person_and_starts_nothing_anew() {
    let is_there = Arc::new(Mutex::new(false));
    let told = is_there.clone();
    let server = Server::plain(move |_| match *told.lock().unwrap() {
        true => Reply::json(200, json!({})),
        false => Reply::json(404, json!({})),
    })
    .await;
    let bmc = Bmc::start().await;
    left_by_a_deploy(&bmc);
    let more = format!("{IMAGE}, deploy: {{url: '{}/up/{{node}}'}}", server.url);
    let site = site(&[bmc.port()], &more, "");
    let asked = Note::Asked {
        what: "boot".into(),
        before: Before::default(),
    };
    let asked: Arc<str> = Arc::from(serde_json::to_string(&asked).unwrap());
    let order = |notes: &[Arc<str>]| site.order_with(StepKind::Deploy, None, notes.to_vec()).0;
    let begun = order(std::slice::from_ref(&asked));
    // Off, and no report: only a person can tell.
    assert!(matches!(
        site.hardware.probe(&begun).await,
        Probe::Ambiguous(_)
    ));
    bmc.state().is_on = true;
    assert_eq!(site.hardware.probe(&begun).await, Probe::UnderWay);
    *is_there.lock().unwrap() = true;
    bmc.state().is_on = false;
    assert_eq!(site.hardware.probe(&begun).await, Probe::Done);
    bmc.state().is_on = true;
    site.hardware.act(&begun).await.unwrap();
    assert!(is_clear(&bmc));
    assert!(
        !bmc.changes()
            .iter()
            .any(|line| line.contains("Insert") || line == "ForceOff")
    );
    // Decided as not begun, what was noted before counts no more.
    let anew = order(&[asked, crate::backend::NOT_BEGUN.into()]);
    assert_eq!(site.hardware.probe(&anew).await, Probe::NotBegun);
}

#[tokio::test(start_paused = true)]
async fn a_report_of_an_earlier_deploy_is_found_before_anything_is_done() {
    let server = Server::plain(|_| Reply::json(200, json!({}))).await;
    // An address of the node itself is asked once it is off.
    let url = server.url.replace("127.0.0.1", "localhost");
    let verify = async |url: String| {
        let site = site(&[1, 2], &format!("deploy: {{url: '{url}'}}"), "");
        let parameters = json!({"deploys": ["n0"]});
        let (mut order, _) = site.order_with(StepKind::VerifySite, Some(parameters), Vec::new());
        let mut step = (*order.step).clone();
        step.id.node = None;
        (order.step, order.node) = (Arc::new(step), None);
        site.hardware.act(&order).await
    };
    let error = verify(format!("{url}/up/{{node}}"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains(&format!("`n0` at {url}/up/n0")), "{error}");
    assert!(!error.contains("n1"), "{error}");
    let nothing = Server::plain(|_| Reply::json(404, json!({}))).await;
    assert_eq!(verify(format!("{}/up/{{node}}", nothing.url)).await, Ok(()));
}

fn other(name: &'static str, image: &'static str) -> OtherDrive {
    OtherDrive {
        name,
        image: Some(image),
        keeps: false,
        is_broken: false,
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_that_stays_in_any_virtual_drive_is_told_and_ends_a_deploy_unless_another_is_known_to_be_used()
 {
    let bmc = Bmc::start().await;
    bmc.state().other = Some(OtherDrive {
        keeps: true,
        ..other("EXT2", "http://images/n0.iso")
    });
    let site = site(&[bmc.port()], IMAGE, "");
    // Which drive a deploy has used is not known: it may be this one.
    let order = site.order(StepKind::Deploy);
    let error = site.hardware.take_back(&order).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("cannot be carried out by this drive"),
        "{error}"
    );
    assert!(site.act(StepKind::Deploy).await.is_err());
    // After a deploy it is known, and the disc of an operator may stay.
    let image = bmc
        .state()
        .other
        .as_mut()
        .and_then(|other| other.image.take());
    site.act(StepKind::Deploy).await.unwrap();
    bmc.state().other.as_mut().unwrap().image = image;
    site.hardware.take_back(&order).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_power_on_finds_the_image_of_a_deploy_behind_the_disc_of_an_operator() {
    let bmc = Bmc::start().await;
    {
        let mut state = bmc.state();
        state.image = Some("http://images/n0.iso".to_owned());
        state.other = Some(other("CD1", "http://images/rescue.iso"));
    }
    let site = site(&[bmc.port()], IMAGE, "");
    site.act(StepKind::PowerOn).await.unwrap();
    assert!(is_clear(&bmc) && bmc.state().is_on);
}

#[tokio::test(start_paused = true)]
async fn a_broken_virtual_drive_beside_the_one_that_is_used_ends_nothing() {
    let bmc = Bmc::start().await;
    bmc.state().other = Some(OtherDrive {
        is_broken: true,
        ..other("EXT2", "")
    });
    let site = site(&[bmc.port()], IMAGE, "");
    site.act(StepKind::Deploy).await.unwrap();
    site.act(StepKind::Destroy).await.unwrap();
}
