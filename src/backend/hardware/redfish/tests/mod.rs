//! Plain Redfish against controllers of the tests' own, good ones and others.

mod bmc;
mod console;
mod endings;
mod erase;
mod habits;
mod identity;
mod many;
mod models;
mod password;
mod quirks;
mod service;
mod session;
mod updates;
mod values;
mod volumes;

use std::sync::PoisonError;

use serde_json::{Value, json};

use super::notes::{Before, Note, erase_of};
use super::*;
use crate::backend::http::tests::server::{Reply, Server};
use crate::backend::{Hardware, Listener, Reporter, Secret, SecretError, choose};
use crate::design::{RunId, SiteName, build};
use crate::diagnostic::Sources;
use crate::document::{LoadSettings, load};
use crate::guard::Guarded;
use crate::lifecycle::PowerState;
use crate::observed::{Capability, Fact};
use crate::step::{CleanStep, Effect, Parameters, Step, StepId, of_settings};
use bmc::{Bmc, CONSOLE, Erase, SYSTEM};

/// Knows one password, and a reference that cannot be had.
#[derive(Debug)]
struct OnePassword;

impl Secrets for OnePassword {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        match reference {
            Reference::Env(name) if &**name == "PASSWORD" => Ok(Secret::new("s3cret".to_owned())),
            other => Err(SecretError(format!("{other:?} is not set"))),
        }
    }
}

/// A site of machines behind controllers.
struct Site {
    hardware: Arc<dyn Hardware>,
    identities: Arc<Registry>,
    nodes: Vec<Arc<NodeDesign>>,
}

const ACCOUNT: &str = "credentials: {username: admin, password: {env: PASSWORD}}";

/// A site with a node for each port; `more`: further settings, `own`: further fields of each node's `oob`.
fn site(ports: &[u16], more: &str, own: &str) -> Site {
    opened(&text(ports, more, own))
}

/// The proof of a machine has tests of its own: here each may be changed.
fn opened(text: &str) -> Site {
    let site = strict(text);
    let nodes = site.nodes.iter().map(|node| node.name.as_str());
    site.identities.allow_unverified(nodes);
    site
}

/// A site whose machines are changed only if they are proven to be the ones that are meant.
fn strict(text: &str) -> Site {
    strict_with(text, Arc::new(OnePassword))
}

fn strict_with(text: &str, secrets: Arc<dyn Secrets>) -> Site {
    let design = design(text);
    let context = BackendContext::trusting("simulated-site.json".into(), secrets);
    let backends = choose(&design, &context).unwrap_or_else(|error| panic!("{error}"));
    let nodes = design.nodes.values().cloned().collect();
    Site {
        hardware: backends,
        identities: context.identities,
        nodes,
    }
}

fn text(ports: &[u16], more: &str, own: &str) -> String {
    let settings = format!(
        "{{scheme: http, settling_time: 0.3, request_timeout: 1, shutdown_time: 2, {ACCOUNT}, {more}}}"
    );
    let mut text = format!(
        "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata: {{hardware: {{kind: redfish, redfish: {settings}}}}}\n\
         ---\nschema: drydock/HardwareProfile/v1\nmetadata: {{name: hw}}\ndata: {{vendor: Example, bios_version: '2.4'}}\n"
    );
    for (at, port) in ports.iter().enumerate() {
        let node = format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{at}}}\ndata:\n  hardware_profile: hw\n  \
             primary_network: oam\n  oob: {{type: redfish, network: oob, port: {port}, {own}}}\n  \
             addressing: [{{network: oob, address: 127.0.0.1}}, {{network: oam, address: 127.0.0.1}}]\n"
        );
        text += &node;
    }
    text
}

fn design(text: &str) -> Guarded {
    let mut sources = Sources::new();
    let id = sources.add("site.yaml", text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let documents = load(id, text, &settings).documents;
    let inputs: Vec<_> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    Guarded::under_one(&build(SiteName::from("test"), &inputs).0)
}

/// Remembers what a step tells.
#[derive(Default)]
struct RecordingListener {
    notes: Mutex<Vec<Arc<str>>>,
    progress: Mutex<Vec<Arc<str>>>,
}

impl Listener for RecordingListener {
    fn progress(&self, text: Arc<str>) {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.notes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
        Box::pin(async { Ok(()) })
    }
}

impl Site {
    fn order(&self, kind: StepKind) -> Order {
        self.order_with(kind, None, Vec::new()).0
    }

    fn order_with(
        &self,
        kind: StepKind,
        parameters: Option<Value>,
        notes: Vec<Arc<str>>,
    ) -> (Order, Arc<RecordingListener>) {
        self.order_of(0, kind, parameters, notes)
    }

    fn order_for(&self, at: usize, kind: StepKind) -> Order {
        self.order_of(at, kind, None, Vec::new()).0
    }

    fn order_of(
        &self,
        at: usize,
        kind: StepKind,
        parameters: Option<Value>,
        notes: Vec<Arc<str>>,
    ) -> (Order, Arc<RecordingListener>) {
        let node = self.nodes[at].clone();
        let listener = Arc::new(RecordingListener::default());
        let order = Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from("run"),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: Some(node.name.clone()),
                    wave: None,
                },
                timeout: 20,
                effect: Effect::Destructive,
                standby: false,
                parameters: parameters.and_then(|given| Parameters::of(kind, &given)),
                needs: Vec::new(),
            }),
            node: Some(node),
            notes,
            reporter: Reporter::new(listener.clone()),
        };
        (order, listener)
    }

    /// Carries a step out as a run of it alone.
    async fn act(&self, kind: StepKind) -> Result<(), ActError> {
        let ended = self.hardware.act(&self.order(kind)).await;
        self.hardware.leave().await;
        ended
    }

    /// Acts as a run does: an error that can pass, or whose outcome is not known, is retried if the probe allows it.
    async fn carried_out(
        &self,
        kind: StepKind,
        parameters: Option<Value>,
        notes: Vec<Arc<str>>,
    ) -> Result<(), ActError> {
        let mut notes = notes;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (order, listener) = self.order_with(kind, parameters.clone(), notes.clone());
            let error = match self.hardware.act(&order).await {
                Ok(()) => return Ok(()),
                Err(error @ (ActError::Permanent(_) | ActError::Refused(_))) => return Err(error),
                Err(error) => error,
            };
            notes.extend(notes_of(&listener));
            let (order, _) = self.order_with(kind, parameters.clone(), notes.clone());
            match self.hardware.probe(&order).await {
                Probe::Done => return Ok(()),
                Probe::NotBegun | Probe::UnderWay if attempts < 3 => {}
                Probe::NotBegun | Probe::UnderWay | Probe::Ambiguous(_) => return Err(error),
            }
        }
    }

    async fn see(&self) -> Vec<ObservedNode> {
        self.hardware
            .observe(&self.nodes)
            .await
            .into_values()
            .map(|node| *node)
            .collect()
    }
}

/// The notes of a step besides the identity of its machine.
fn notes_of(listener: &RecordingListener) -> Vec<Arc<str>> {
    let notes = listener
        .notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let is_other = |note: &&Arc<str>| crate::identity::noted(&[(*note).clone()]).is_none();
    notes.iter().filter(is_other).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_switched_on_and_off_and_its_sessions_are_ended() {
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], "", "");
    site.act(StepKind::PowerOn).await.unwrap();
    assert!(bmc.state().is_on);
    assert_eq!(
        site.hardware.probe(&site.order(StepKind::PowerOn)).await,
        Probe::Done
    );
    assert_eq!(
        site.hardware.probe(&site.order(StepKind::PowerOff)).await,
        Probe::NotBegun
    );
    site.act(StepKind::PowerOn).await.unwrap();
    site.act(StepKind::PowerOff).await.unwrap();
    assert!(!bmc.state().is_on);
    let changes = bmc.changes();
    let asked: Vec<_> = changes
        .iter()
        .filter(|line| !line.contains("Session"))
        .collect();
    assert_eq!(asked, ["On", "GracefulShutdown"]);
    assert_eq!(bmc.sessions(), 0);
    let received = bmc.server.received.lock().unwrap();
    assert!(
        received
            .iter()
            .all(|each| !each.headers.contains_key("authorization"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_keeps_one_session_and_ends_it_and_an_observation_keeps_none() {
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], "", "");
    let opened = || {
        let changes = bmc.changes();
        changes
            .iter()
            .filter(|line| line.starts_with("POST") && line.ends_with("/Sessions"))
            .count()
    };
    site.see().await;
    assert_eq!((opened(), bmc.sessions()), (1, 0));
    for kind in [StepKind::Prepare, StepKind::PowerOn, StepKind::PowerOff] {
        site.hardware.act(&site.order(kind)).await.unwrap();
        site.see().await;
    }
    assert_eq!((opened(), bmc.sessions()), (2, 1));
    // One that the controller has ended is opened anew.
    bmc.state().end_sessions();
    site.hardware
        .act(&site.order(StepKind::PowerOn))
        .await
        .unwrap();
    assert_eq!((opened(), bmc.sessions()), (3, 1));
    site.hardware.leave().await;
    assert_eq!(bmc.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_ended_also_where_the_caller_was_cancelled() {
    let bmc = Bmc::start().await;
    bmc.state().delay = Duration::from_secs(3600);
    let site = site(&[bmc.port()], "", "");
    let order = site.order(StepKind::PowerOn);
    let given_up =
        tokio::time::timeout(Duration::from_millis(400), site.hardware.act(&order)).await;
    assert!(given_up.is_err());
    while bmc.sessions() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_there_are_no_sessions_each_request_carries_the_account() {
    let bmc = Bmc::start().await;
    bmc.state().has_sessions = false;
    let site = site(&[bmc.port()], "", "");
    site.act(StepKind::PowerOn).await.unwrap();
    assert!(bmc.state().is_on);
    assert_eq!(bmc.changes(), ["On"]);
}

#[tokio::test(start_paused = true)]
async fn a_system_that_does_not_shut_down_is_switched_off_and_a_late_on_does_not_win() {
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    bmc.state().ignores_shutdown = true;
    let site = site(&[bmc.port()], "", "");
    site.act(StepKind::PowerOff).await.unwrap();
    let asked: Vec<_> = bmc.changes();
    assert!(asked.ends_with(&[
        "GracefulShutdown".into(),
        "ForceOff".into(),
        asked[asked.len() - 1].clone()
    ]));
    // On was asked for and is still to come; off is answered, does nothing, and must be asked for again.
    bmc.state().pending = Some((
        true,
        tokio::time::Instant::now() + Duration::from_millis(150),
    ));
    bmc.state().ignores_shutdown = false;
    site.act(StepKind::PowerOff).await.unwrap();
    let pending = bmc.state().pending;
    assert!(pending.is_none() && !bmc.state().is_on);
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_is_power_drives_and_what_can_be_done() {
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], "operating_system_drive: serial-d1", "");
    let seen = &site.see().await[0];
    assert_eq!(seen.power, Fact::Known(PowerState::Off));
    assert!(seen.kept_by_records && seen.provision.known().is_none());
    let disks = seen.disks.known().unwrap();
    let told: Vec<_> = disks
        .iter()
        .map(|disk| (&*disk.name, &*disk.serial, disk.size))
        .collect();
    assert_eq!(
        told,
        [
            ("D1", "serial-D1", 480_103_981_056),
            ("D2", "serial-D2", 480_103_981_056)
        ]
    );
    for capability in [
        Capability::Wipe,
        Capability::WipeOperatingSystemDisk,
        Capability::Power,
        Capability::Retire,
    ] {
        assert!(seen.capabilities.contains(capability), "{capability:?}");
    }
    let steps: Vec<_> = seen.clean_steps.iter().map(|step| step.name()).collect();
    assert_eq!(
        steps,
        [
            "management.verify_properties",
            "firmware.verify_firmware",
            "deploy.erase_devices"
        ]
    );
    bmc.state().drives[1].1 = Erase::No;
    let seen = &site.see().await[0];
    assert!(!seen.capabilities.contains(Capability::Wipe));
    assert!(
        seen.capabilities
            .contains(Capability::WipeOperatingSystemDisk)
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_fails_is_an_error_of_its_own_node_and_of_no_other() {
    let good = Bmc::start().await;
    let wrong = Bmc::start().await;
    wrong.state().password = Some("other".to_owned());
    let basic = Bmc::start().await;
    basic.state().password = Some("other".to_owned());
    basic.state().has_sessions = false;
    let raw = |text: &'static str| move |_: &_| Reply::Raw(text.as_bytes().to_vec());
    let html = Server::plain(raw(
        "HTTP/1.1 200 OK\r\n\r\n<html><title>Please log in</title></html>",
    ))
    .await;
    let half = Server::plain(raw(
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"Systems\"",
    ))
    .await;
    let broken = Server::plain(|_| Reply::json(500, json!({}))).await;
    let endless = Server::plain(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n ".to_vec())).await;
    let elsewhere = Server::plain(|_| {
        Reply::Json(
            301,
            vec![("location", "http://evil.example/".into())],
            Value::Null,
        )
    })
    .await;
    let slow = Server::plain(|_| Reply::Silent).await;
    let lured = Server::plain(|_| {
        Reply::json(
            200,
            json!({"Systems": {"@odata.id": "http://evil.example/redfish"}}),
        )
    })
    .await;
    let empty = Server::plain(|_| {
        Reply::json(
            200,
            json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}}),
        )
    })
    .await;
    let port = |server: &Server| server.url.rsplit_once(':').unwrap().1.parse().unwrap();
    let ports = [
        good.port(),
        wrong.port(),
        basic.port(),
        port(&html),
        port(&half),
        port(&broken),
        port(&endless),
        port(&elsewhere),
        port(&slow),
        port(&lured),
        port(&empty),
        1,
    ];
    let expected = [
        "POST /redfish/v1/SessionService/Sessions: 401 Unauthorized: The password … of admin is wrong.",
        "GET /redfish/v1/Systems: 401 Unauthorized: There is no valid session.",
        "GET /redfish/v1/: no JSON but a page `Please log in`",
        "GET /redfish/v1/: the answer broke off after 10 bytes",
        "GET /redfish/v1/: 500 Internal Server Error: `{}`",
        "GET /redfish/v1/: an answer of more than 16777216 bytes",
        "GET /redfish/v1/: a redirect to another host (http://evil.example), which is not followed",
        "GET /redfish/v1/: no complete answer within 1 s",
        "GET http://evil.example/redfish: `http://evil.example/redfish` leads away from 127.0.0.1:PORT",
        "its controller has no system",
        "GET /redfish/v1/: cannot be connected to: connection refused",
    ];
    let site = site(&ports, "", "");
    let seen = site.hardware.observe(&site.nodes).await;
    assert_eq!(seen["n0"].power, Fact::Known(PowerState::Off));
    for (at, expected) in expected.iter().enumerate() {
        let node = format!("n{}", at + 1);
        let Fact::Unknown(reason) = &seen[node.as_str()].power else {
            panic!("{node} was observed");
        };
        let port = format!(":{}", ports[at + 1]);
        let reason = reason.replace(&port, ":PORT");
        let named = reason.strip_prefix(&format!("node `{node}`: "));
        let rest = named.unwrap_or_else(|| panic!("{reason}"));
        let rest = rest.strip_prefix("127.0.0.1:PORT: ").unwrap_or(rest);
        assert_eq!(rest, *expected);
        assert!(!seen[node.as_str()].kept_by_records);
    }
    assert!(!format!("{seen:?}").contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn the_system_is_found_by_path_id_uuid_or_name_and_never_guessed() {
    for (more, own, expected) in [
        (
            "",
            "",
            Err(
                "its controller has 3 systems, and none has the id, UUID or name `n0`: name it in `oob.system`",
            ),
        ),
        ("", "system: UUID-1", Ok(())),
        ("", "system: System 1", Ok(())),
        ("system: '1'", "", Ok(())),
        ("system: '{node}'", "system: /redfish/v1/Systems/1", Ok(())),
    ] {
        let bmc = Bmc::start().await;
        bmc.state().others = vec!["7", "8"];
        let site = site(&[bmc.port()], more, own);
        let seen = site.see().await.remove(0);
        match (expected, seen.power) {
            (Ok(()), Fact::Known(_)) => {}
            (Err(text), Fact::Unknown(reason)) => assert!(reason.ends_with(text), "{reason}"),
            (expected, found) => panic!("{more} {own}: {found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_another_one_is_refused() {
    let bmc = Bmc::start().await;
    for (own, expected) in [
        ("uuid: UUID-1, serial: s-1", None),
        (
            "uuid: uuid-2",
            Some(
                "it is another machine than its document names: its UUID is uuid-1, expected uuid-2; nothing was changed",
            ),
        ),
        (
            "serial: X-2",
            Some(
                "it is another machine than its document names: its serial number is S-1, expected X-2; nothing was changed",
            ),
        ),
    ] {
        let site = site(&[bmc.port()], "", own);
        match (site.act(StepKind::Prepare).await, expected) {
            (Ok(()), None) => {}
            (Err(ActError::Refused(text)), Some(expected)) => {
                assert!(text.contains(expected), "{text}")
            }
            (found, _) => panic!("{own}: {found:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deploy_is_off_override_on_and_is_ambiguous_once_it_was_to_be_switched_on() {
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    // What was read is old by the time it is changed, once.
    bmc.state().moved = 1;
    let site = site(&[bmc.port()], "", "");
    let (order, listener) = site.order_with(StepKind::Deploy, None, Vec::new());
    assert_eq!(site.hardware.probe(&order).await, Probe::NotBegun);
    site.hardware.act(&order).await.unwrap();
    let changes = bmc.changes();
    let asked: Vec<_> = changes
        .iter()
        .filter(|line| !line.contains("Session"))
        .collect();
    assert_eq!(asked, ["ForceOff", "PATCH ~", "PATCH ~", "On"]);
    assert_eq!(bmc.state().boot, ("Disabled".to_owned(), "Pxe".to_owned()));
    let notes = notes_of(&listener);
    assert_eq!(notes.len(), 1);
    let (again, _) = site.order_with(StepKind::Deploy, None, notes);
    assert!(matches!(
        site.hardware.probe(&again).await,
        Probe::Ambiguous(_)
    ));
    let told = listener.progress.lock().unwrap().join("; ");
    assert!(told.contains("(unverified)"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_image_is_inserted_and_taken_out_when_the_new_system_answers_and_a_lasting_override_is_taken_back()
 {
    let bmc = Bmc::start().await;
    bmc.state().keeps = "Continuous";
    let system = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = system.local_addr().unwrap().port();
    let more = format!("image: 'http://images/{{node}}.iso', deploy: {{port: {port}}}");
    let site = site(&[bmc.port()], &more, "");
    site.act(StepKind::Deploy).await.unwrap();
    let changes = bmc.changes();
    let asked: Vec<_> = changes
        .iter()
        .filter(|line| !line.contains("Session"))
        .collect();
    let expected = [
        "POST ~/VirtualMedia/EXT1/Actions/Insert",
        "PATCH ~",
        "On",
        "PATCH ~",
        "POST ~/VirtualMedia/EXT1/Actions/Eject",
    ];
    assert_eq!(asked, expected);
    let received = bmc.server.received.lock().unwrap();
    let inserted = received
        .iter()
        .find(|each| each.path.ends_with("Insert"))
        .unwrap();
    assert_eq!(inserted.body["Image"], "http://images/n0.iso");
    drop(received);
    assert_eq!(bmc.state().boot.0, "Disabled");
}

#[tokio::test(start_paused = true)]
async fn a_deploy_is_proven_by_a_report_that_was_not_there_before() {
    let reports = Arc::new(Mutex::new(false));
    let seen = reports.clone();
    let server = Server::plain(move |received| {
        assert!(!received.headers.contains_key("authorization"));
        assert_eq!(received.path, "/up/n0");
        match *seen.lock().unwrap() {
            true => Reply::json(200, json!({})),
            false => Reply::json(404, json!({})),
        }
    })
    .await;
    let bmc = Bmc::start().await;
    let more = format!("deploy: {{url: '{}/up/{{node}}'}}", server.url);
    let site = site(&[bmc.port()], &more, "");
    assert!(!site.see().await[0].deploys_unverified);
    let installs = async {
        while !bmc.state().is_on {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        *reports.lock().unwrap() = true;
    };
    let order = site.order(StepKind::Deploy);
    let (acted, ()) = tokio::join!(site.hardware.act(&order), installs);
    acted.unwrap();
    assert!(bmc.state().is_on);
    // What reports already proves nothing about this deploy.
    let error = site.act(StepKind::Deploy).await.unwrap_err().to_string();
    assert!(error.contains("before it was installed"), "{error}");
    assert!(!bmc.state().is_on);
    let plain = self::site(&[bmc.port()], "", "");
    assert!(plain.see().await[0].deploys_unverified);
}

#[tokio::test(start_paused = true)]
async fn drives_are_seen_in_fewer_requests_where_a_controller_writes_out_what_it_links() {
    let mut requests = Vec::new();
    let mut seen = Vec::new();
    for levels in [0, 1, 2] {
        let bmc = Bmc::start().await;
        bmc.state().expands = levels;
        let site = site(&[bmc.port()], "", "");
        let mut all = site.hardware.observe(&site.nodes).await;
        let node = all.remove(&site.nodes[0].name).unwrap();
        seen.push((node.disks, node.clean_steps, node.capabilities));
        requests.push(bmc.server.received.lock().unwrap().len());
    }
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:#?}");
    assert_eq!(seen[0].0.known().map(Vec::len), Some(2));
    // Without: the collection, its member, and two drives.
    assert_eq!(requests, [requests[0], requests[0] - 1, requests[0] - 3]);
    // One that says it can and then does not is read one by one.
    let bmc = Bmc::start().await;
    bmc.state().expands = 2;
    let site = site(&[bmc.port()], "", "");
    site.hardware.observe(&site.nodes).await;
    bmc.state().expands = 0;
    let again = site.hardware.observe(&site.nodes).await;
    let node = &again[&site.nodes[0].name];
    assert_eq!(node.disks.known().map(Vec::len), Some(2));
}

#[tokio::test(start_paused = true)]
async fn what_no_controller_is_needed_for_is_said_without_asking_one() {
    let site_of = |more: &str| site(&[1], more, "");
    site_of("").act(StepKind::VerifySite).await.unwrap();
    for kind in [
        StepKind::PrepareSite,
        StepKind::SetRetired,
        StepKind::UnsetMaintenance,
        StepKind::Provide,
    ] {
        site_of("").act(kind).await.unwrap();
    }
    let error = site_of("deploy: {from: virtual-media}")
        .act(StepKind::VerifySite)
        .await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("`hardware.redfish.image` is not set")
    );
    let text = text(&[1], "", "").replace("env: PASSWORD", "env: NOTHING");
    let site = opened(&text);
    let error = site.act(StepKind::VerifySite).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the password of the controllers cannot be had")
    );
    let mut node = (*site.nodes[0]).clone();
    node.out_of_band.address = None;
    let seen = site.hardware.observe(&[Arc::new(node)]).await;
    let reason = format!("{:?}", seen["n0"].power);
    assert!(
        reason.contains("node `n0`: it has no address of a management controller"),
        "{reason}"
    );
}

#[test]
fn settings_that_do_not_fit_are_pointed_at_and_the_longest_request_is_theirs() {
    let read = |settings: &str| {
        let text = format!(
            "schema: trueup/Backends/v1\nmetadata: {{name: b}}\ndata: {{hardware: {{kind: redfish, redfish: {settings}}}}}\n"
        );
        Settings::read(&design(&text).guards().backends.hardware)
    };
    for (settings, problem) in [
        (
            "{settling_time: -1}",
            "a duration is from 0 to 3000000 seconds",
        ),
        (
            "{fingerprints: [ab]}",
            "a fingerprint is the SHA-256 of a certificate: 64 hexadecimal digits",
        ),
        ("{deploy: {form: pxe}}", "`form` is not known here"),
    ] {
        let error = read(settings).unwrap_err();
        assert!(error.message.contains(problem), "{}", error.message);
    }
    let settings = read("{request_timeout: 30, settling_time: 12}").unwrap();
    assert_eq!(settings.longest_request(), Duration::from_secs(42));
    assert_eq!(read("{}").unwrap().deploy.from, Source::Pxe);
    assert_eq!(
        read("{image: 'http://x'}").unwrap().deploy.from,
        Source::VirtualMedia
    );
}
