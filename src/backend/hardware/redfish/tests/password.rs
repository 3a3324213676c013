//! New passwords of controllers: whatever a controller answers and wherever a process is killed, one of the two slots has the
//! password, and no controller is sent more than two wrong ones.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;

use super::bmc::{Opening, State, link, refusal};
use super::*;
use crate::backend::http::tests::server::Received;

/// How a controller changes the password of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    Well,
    /// It refuses the password, or every change.
    Refuses,
    Forbids,
    /// It changes it, and reports a refusal.
    RefusesAfterwards,
    /// It changes it to something that nothing knows, and reports a refusal.
    RefusesAndCuts,
    /// It changes it and ends all sessions, and reports that it is busy.
    IsBusyAfterwards,
    /// A request is lost, then an answer, and then it refuses the password that it has.
    LosesBoth,
    LosesAnswerOnce,
    /// It has no space for a password of a length that is set.
    IsShort,
    /// It changes it, and the answer is lost; or it does not, and no answer comes.
    LosesAnswer,
    LosesRequest,
    /// Success is reported, and nothing changes.
    Ignores,
    /// It is changed to something that nothing knows.
    Cuts,
    /// It locks accounts after one wrong password.
    Locks,
    /// It has an account of another name.
    OtherName,
}

impl State {
    pub(super) fn answer_of_account(
        &mut self,
        received: &Received,
        parts: &[&str],
    ) -> Option<Reply> {
        let changes = self.account?;
        let own = "/redfish/v1/AccountService/Accounts/2";
        Some(match (received.method.as_str(), parts) {
            ("GET", ["AccountService"]) => {
                let threshold = usize::from(changes == Changes::Locks);
                let longest = match changes {
                    Changes::IsShort => 7,
                    _ => 16,
                };
                let accounts = link("/redfish/v1/AccountService/Accounts");
                Reply::json(
                    200,
                    json!({"Accounts": accounts, "MaxPasswordLength": longest, "AccountLockoutThreshold": threshold}),
                )
            }
            ("GET", ["AccountService", "Accounts"]) => {
                let other = link("/redfish/v1/AccountService/Accounts/1");
                Reply::json(200, json!({"Members": [other, link(own)]}))
            }
            ("GET", ["AccountService", "Accounts", id]) => {
                let name = match *id == "2" && changes != Changes::OtherName {
                    true => "admin",
                    false => "guest",
                };
                let account = json!({"Id": id, "UserName": name, "@odata.id": format!("/redfish/v1/AccountService/Accounts/{id}")});
                Reply::Json(200, vec![("etag", "\"a\"".to_owned())], account)
            }
            ("PATCH", ["AccountService", "Accounts", "2"]) => {
                assert_eq!(
                    received.headers.get("if-match").map(String::as_str),
                    Some("\"a\"")
                );
                let new = received.body["Password"].as_str().map(str::to_owned);
                let is_lost = matches!(changes, Changes::LosesRequest | Changes::LosesBoth);
                match changes {
                    Changes::Refuses | Changes::Forbids | Changes::Ignores => {}
                    Changes::LosesRequest => self.account = Some(Changes::Well),
                    Changes::LosesBoth => self.account = Some(Changes::LosesAnswerOnce),
                    Changes::Cuts | Changes::RefusesAndCuts => {
                        self.password = Some("cut".to_owned());
                    }
                    _ => self.password = new,
                }
                match changes {
                    Changes::LosesAnswerOnce => self.account = Some(Changes::Refuses),
                    Changes::IsBusyAfterwards => self.end_sessions(),
                    _ => {}
                }
                match changes {
                    _ if is_lost => Reply::Raw(Vec::new()),
                    Changes::LosesAnswer | Changes::LosesAnswerOnce => Reply::Raw(Vec::new()),
                    Changes::Refuses | Changes::RefusesAfterwards | Changes::RefusesAndCuts => {
                        refusal(400, "It is one of the last five.")
                    }
                    Changes::Forbids => refusal(403, "The account may not do that."),
                    Changes::IsBusyAfterwards => Reply::json(503, json!({})),
                    _ => Reply::json(204, Value::Null),
                }
            }
            _ => return None,
        })
    }
}

/// The slots of one secret, in memory: what outlives a process.
#[derive(Debug)]
struct Slots {
    current: Mutex<String>,
    pending: Mutex<Option<String>>,
    lengths: Mutex<Vec<usize>>,
    /// How often it was read whether one is pending.
    reads: AtomicUsize,
    /// The process is killed as soon as the pending password is dropped.
    is_killed: AtomicBool,
}

impl Slots {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            current: Mutex::new("s3cret".to_owned()),
            pending: Mutex::default(),
            lengths: Mutex::default(),
            reads: AtomicUsize::new(0),
            is_killed: AtomicBool::new(false),
        })
    }

    /// The password that both would be if the replacement is complete.
    fn settled(&self) -> Option<String> {
        let pending = self.pending.lock().unwrap();
        pending
            .is_none()
            .then(|| self.current.lock().unwrap().clone())
    }
}

impl Secrets for Slots {
    fn reveal(&self, _: &Reference) -> Result<Secret, SecretError> {
        Ok(Secret::new(self.current.lock().unwrap().clone()))
    }

    fn cannot_be_replaced(&self, _: &Reference) -> Option<String> {
        None
    }

    fn pending(&self, _: &Reference) -> Result<Option<Secret>, SecretError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.pending.lock().unwrap().clone().map(Secret::new))
    }

    fn stage(&self, _: &Reference, length: usize) -> Result<Secret, SecretError> {
        let mut lengths = self.lengths.lock().unwrap();
        lengths.push(length);
        let new = format!("new-password-{:03}", lengths.len());
        *self.pending.lock().unwrap() = Some(new.clone());
        Ok(Secret::new(new))
    }

    fn promote(&self, _: &Reference) -> Result<(), SecretError> {
        let pending = self.pending.lock().unwrap().take();
        *self.current.lock().unwrap() = pending.unwrap();
        Ok(())
    }

    fn drop_pending(&self, _: &Reference) -> Result<(), SecretError> {
        *self.pending.lock().unwrap() = None;
        match self.is_killed.load(Ordering::Relaxed) {
            true => Err(SecretError("killed".to_owned())),
            false => Ok(()),
        }
    }
}

/// The site of one process.
fn process(bmc: &Bmc, slots: &Arc<Slots>) -> Site {
    process_with(bmc, slots, "{file: '/secrets/{node}'}")
}

/// The same, whose passwords are kept elsewhere.
fn process_with(bmc: &Bmc, slots: &Arc<Slots>, reference: &str) -> Site {
    let text = text(&[bmc.port()], "", "")
        .replace("settling_time: 0.3", "settling_time: 0.02")
        .replace("{env: PASSWORD}", reference);
    let site = strict_with(&text, slots.clone());
    site.identities
        .allow_unverified(site.nodes.iter().map(|node| node.name.as_str()));
    site
}

/// How many wrong passwords a controller was sent, and the one that it has.
fn state_of(bmc: &Bmc) -> (usize, Option<String>) {
    let state = bmc.state();
    (state.wrong, state.password.clone())
}

/// Acts as a run does.
async fn rotate(site: &Site) -> Result<(), ActError> {
    let mut notes = Vec::new();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (order, listener) = site.order_with(StepKind::RotateBmcPassword, None, notes.clone());
        let error = match site.hardware.act(&order).await {
            Ok(()) => return Ok(()),
            Err(error @ (ActError::Permanent(_) | ActError::Refused(_))) => return Err(error),
            Err(error) => error,
        };
        notes.extend(notes_of(&listener));
        let (order, _) = site.order_with(StepKind::RotateBmcPassword, None, notes.clone());
        match site.hardware.probe(&order).await {
            Probe::Done => return Ok(()),
            Probe::NotBegun | Probe::UnderWay if attempts < 3 => {}
            Probe::NotBegun | Probe::UnderWay | Probe::Ambiguous(_) => return Err(error),
        }
    }
}

async fn controller(changes: Changes) -> (Bmc, Arc<Slots>) {
    let bmc = Bmc::start().await;
    bmc.state().account = Some(changes);
    (bmc, Slots::new())
}

#[tokio::test(start_paused = true)]
async fn a_new_password_is_set_and_tried_and_then_takes_the_place_of_the_old_one() {
    let (bmc, slots) = controller(Changes::Well).await;
    let site = process(&bmc, &slots);
    let seen = &site.see().await[0];
    assert!(seen.capabilities.contains(Capability::RotatePassword));
    rotate(&site).await.unwrap();
    assert_eq!(slots.settled().as_deref(), Some("new-password-001"));
    assert_eq!(bmc.state().password.as_deref(), Some("new-password-001"));
    assert_eq!(
        (bmc.state().wrong, slots.lengths.lock().unwrap().clone()),
        (0, vec![16])
    );
    // The same process uses the new one, and so does the next.
    site.act(StepKind::PowerOn).await.unwrap();
    rotate(&process(&bmc, &slots)).await.unwrap();
    assert_eq!(slots.settled().as_deref(), Some("new-password-002"));
    assert_eq!(state_of(&bmc), (0, slots.settled()));
}

const CONFIRMED: &str = "confirmed the new password, and does not accept it";

#[tokio::test(start_paused = true)]
async fn whatever_a_controller_answers_a_slot_has_its_password() {
    let table = [
        (Changes::Refuses, Err("It is one of the last five."), 1),
        (Changes::RefusesAfterwards, Ok(()), 0),
        (Changes::LosesAnswer, Ok(()), 0),
        (Changes::LosesRequest, Ok(()), 1),
        (Changes::LosesBoth, Ok(()), 1),
        // The old one was sent for a session and with the request.
        (Changes::IsBusyAfterwards, Ok(()), 2),
        (Changes::Ignores, Err(CONFIRMED), 1),
        (Changes::Cuts, Err(CONFIRMED), 1),
        (
            Changes::IsShort,
            Err("accepts passwords of at most 7 letters (`MaxPasswordLength`)"),
            0,
        ),
        (
            Changes::Locks,
            Err("locks accounts after 1 wrong passwords"),
            0,
        ),
        (Changes::OtherName, Err("has no account `admin`"), 0),
    ];
    for (changes, expected, wrong) in table {
        let (bmc, slots) = controller(changes).await;
        let ended = rotate(&process(&bmc, &slots)).await;
        match (&ended, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{changes:?}: {error}");
            }
            _ => panic!("{changes:?}: {ended:?}"),
        }
        assert_eq!(bmc.state().wrong, wrong, "{changes:?}");
        let password = bmc.state().password.clone();
        match changes {
            Changes::LosesBoth => {
                // What it accepts is found out anew before it is asked again.
                let sent = bmc.changes();
                let sent = sent.iter().filter(|line| line.starts_with("PATCH"));
                assert_eq!((sent.count(), slots.settled()), (2, password));
            }
            Changes::Ignores => {
                // The next process tries each once, and ends it if the controller does by then.
                bmc.state().account = Some(Changes::Well);
                rotate(&process(&bmc, &slots)).await.unwrap();
                assert_eq!(state_of(&bmc), (2, slots.settled()));
            }
            Changes::Cuts => {
                // Neither is tried twice, also if several things are asked for.
                let site = process(&bmc, &slots);
                let error = rotate(&site).await.unwrap_err().to_string();
                assert!(
                    error.contains("neither the pending password nor the current one"),
                    "{error}"
                );
                assert!(error.contains("`/secrets/n0.pending`"), "{error}");
                site.see().await;
                assert_eq!(bmc.state().wrong, wrong + 2);
            }
            _ => assert_eq!(slots.settled(), password, "{changes:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_which_the_password_is_not_known_leaves_both() {
    let table = [
        (Changes::Forbids, "The account may not do that.", 1),
        (Changes::RefusesAndCuts, "It is one of the last five.", 2),
    ];
    for (changes, expected, wrong) in table {
        let (bmc, slots) = controller(changes).await;
        let site = process(&bmc, &slots);
        let error = rotate(&site).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("both are kept"), "{error}");
        assert_eq!(bmc.state().wrong, wrong, "{changes:?}");
        let current = slots.current.lock().unwrap().clone();
        let pending = slots.pending.lock().unwrap().clone();
        assert_eq!(
            (current.as_str(), pending.as_deref()),
            ("s3cret", Some("new-password-001"))
        );
        if changes == Changes::RefusesAndCuts {
            // Both were observed to be wrong: this process sends neither again.
            site.see().await;
            assert_eq!(bmc.state().wrong, wrong);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_noted_before_the_pending_password_is_dropped() {
    let (bmc, slots) = controller(Changes::Refuses).await;
    slots.is_killed.store(true, Ordering::Relaxed);
    let site = process(&bmc, &slots);
    let (order, listener) = site.order_with(StepKind::RotateBmcPassword, None, Vec::new());
    site.hardware.act(&order).await.unwrap_err();
    assert_eq!(slots.settled().as_deref(), Some("s3cret"));
    let notes = notes_of(&listener);
    let (order, _) = site.order_with(StepKind::RotateBmcPassword, None, notes);
    assert_eq!(site.hardware.probe(&order).await, Probe::NotBegun);
}

#[tokio::test(start_paused = true)]
async fn a_refused_session_tells_of_a_wrong_password_only_where_it_is_unauthorized() {
    for status in [400, 404, 405, 410, 501] {
        for own in ["s3cret", "pending"] {
            let (bmc, slots) = controller(Changes::Well).await;
            bmc.state().opening = Opening::Refused(status);
            bmc.state().password = Some(own.to_owned());
            *slots.pending.lock().unwrap() = Some("pending".to_owned());
            let site = process(&bmc, &slots);
            let seen = site.see().await;
            let power = &seen[0].power;
            assert!(matches!(power, Fact::Known(_)), "{status} {own}: {power:?}");
            assert_eq!(
                bmc.state().wrong,
                usize::from(own == "s3cret"),
                "{status} {own}"
            );
            rotate(&site).await.unwrap();
            assert_eq!(slots.settled(), bmc.state().password.clone());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_request_leaves_at_most_two_wrong_passwords() {
    let (bmc, slots) = controller(Changes::Well).await;
    rotate(&process(&bmc, &slots)).await.unwrap();
    let requests = bmc.server.received.lock().unwrap().len();
    let case = async |killed_at: usize| {
        let (bmc, slots) = controller(Changes::Well).await;
        let site = process(&bmc, &slots);
        let (order, _) = site.order_with(StepKind::RotateBmcPassword, None, Vec::new());
        tokio::select! {
            _ = site.hardware.act(&order) => {}
            () = bmc.server.has_received(killed_at) => {}
        }
        let site = process(&bmc, &slots);
        let seen = site.see().await;
        assert!(
            matches!(seen[0].power, Fact::Known(_)),
            "{killed_at}: {:?}",
            seen[0].power
        );
        rotate(&site)
            .await
            .unwrap_or_else(|error| panic!("{killed_at}: {error}"));
        assert_eq!(slots.settled(), bmc.state().password.clone(), "{killed_at}");
        let wrong = bmc.state().wrong;
        assert!(wrong <= 2, "{killed_at}: {wrong}");
    };
    join_all((1..=requests).map(case)).await;
}

#[tokio::test(start_paused = true)]
async fn a_password_that_is_wrong_is_sent_twice_at_most() {
    // By a session and with a request, or with requests alone, several at once.
    for opening in [Opening::Full, Opening::Refused(404)] {
        let (bmc, slots) = controller(Changes::Well).await;
        bmc.state().opening = opening;
        bmc.state().password = Some("other".to_owned());
        let site = process(&bmc, &slots);
        let seen = site.see().await;
        assert!(matches!(seen[0].power, Fact::Unknown(_)), "{opening:?}");
        let wrong = bmc.state().wrong;
        assert!((1..=2).contains(&wrong), "{opening:?}: {wrong}");
    }
    // Neither of two is right.
    let (bmc, slots) = controller(Changes::Well).await;
    bmc.state().password = Some("other".to_owned());
    *slots.pending.lock().unwrap() = Some("pending".to_owned());
    let site = process(&bmc, &slots);
    rotate(&site).await.unwrap_err();
    site.see().await;
    let wrong = bmc.state().wrong;
    assert!(wrong <= 2, "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn a_password_that_is_one_for_all_or_is_only_read_is_not_replaced() {
    let (bmc, slots) = controller(Changes::Well).await;
    let all = text(&[bmc.port()], "", "").replace("{env: PASSWORD}", "{file: /secrets/all}");
    let site = strict_with(&all, slots);
    site.identities.allow_unverified(["n0"]);
    assert!(
        !site.see().await[0]
            .capabilities
            .contains(Capability::RotatePassword)
    );
    let error = rotate(&site).await.unwrap_err().to_string();
    assert!(
        error.contains("is one for all nodes: it needs `{node}`"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn that_no_password_is_pending_is_read_once_until_one_is_staged() {
    let (bmc, slots) = controller(Changes::Well).await;
    let site = process_with(&bmc, &slots, "{store: [passwords, '{node}']}");
    for _ in 0..3 {
        site.see().await;
    }
    assert_eq!(slots.reads.load(Ordering::Relaxed), 1);
    rotate(&site).await.unwrap();
    assert_eq!(slots.settled(), bmc.state().password.clone());
    // Another process has staged one, and was killed once its controller had it.
    *slots.pending.lock().unwrap() = Some("staged".to_owned());
    bmc.state().password = Some("staged".to_owned());
    rotate(&process_with(
        &bmc,
        &slots,
        "{store: [passwords, '{node}']}",
    ))
    .await
    .unwrap();
    assert_eq!(slots.settled().as_deref(), Some("staged"));
}

#[tokio::test(start_paused = true)]
async fn a_password_that_a_program_keeps_is_replaced_like_one_in_a_file() {
    let (bmc, slots) = controller(Changes::Well).await;
    let site = process_with(&bmc, &slots, "{store: [passwords, '{node}']}");
    rotate(&site).await.unwrap();
    assert_eq!(slots.settled().as_deref(), Some("new-password-001"));
    assert_eq!(state_of(&bmc), (0, slots.settled()));
    // What to do by hand is named in its own words.
    *slots.current.lock().unwrap() = "wrong".to_owned();
    *slots.pending.lock().unwrap() = Some("wrong-too".to_owned());
    let site = process_with(&bmc, &slots, "{store: [passwords, 'of {node}']}");
    let error = rotate(&site).await.unwrap_err().to_string();
    let hand = "set the password of its account by hand to that of `passwords 'of n0' current`, and run `passwords 'of n0' drop`";
    assert!(error.ends_with(hand), "{error}");
    // One program for all nodes would have the passwords of others.
    (
        *slots.current.lock().unwrap(),
        *slots.pending.lock().unwrap(),
    ) = (bmc.state().password.clone().unwrap(), None);
    let site = process_with(&bmc, &slots, "{store: [passwords]}");
    let error = rotate(&site).await.unwrap_err().to_string();
    assert!(error.contains("it needs `{node}`"), "{error}");
}
