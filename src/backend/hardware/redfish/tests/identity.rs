//! No step reaches a machine that is not the document's, whatever a controller shows and links.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::backend::http::tests::server::Received;
use crate::identity::{Identity, Proof};

/// Every kind of step that a controller is asked for.
const KINDS: [StepKind; 6] = [
    StepKind::PowerOn,
    StepKind::PowerOff,
    StepKind::Prepare,
    StepKind::Deploy,
    StepKind::Destroy,
    StepKind::Clean,
];

/// One system of a controller.
#[derive(Clone, Debug, Default)]
struct System {
    uuid: Option<String>,
    serial: Option<String>,
    mac: Option<String>,
    is_on: bool,
    /// Its boot override, enabled and target.
    boot: Option<(String, String)>,
    /// Which system its own link, and those to its actions, lead to, if not to itself.
    leads_to: Option<usize>,
    acts_on: Option<usize>,
}

/// A controller of several systems; which of them were changed.
struct Chassis {
    server: Server,
    state: Arc<Mutex<(Vec<System>, BTreeSet<usize>)>>,
}

fn path(at: usize) -> String {
    format!("/redfish/v1/Systems/{}", at + 1)
}

fn answer(systems: &mut [System], changed: &mut BTreeSet<usize>, received: &Received) -> Reply {
    let path_only = received.path.split('?').next().unwrap();
    let parts: Vec<&str> = path_only
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let [_, _, rest @ ..] = &parts[..] else {
        return Reply::json(404, json!({}));
    };
    let link = |path: String| json!({"@odata.id": path});
    let of = |id: &str| {
        id.parse::<usize>()
            .ok()?
            .checked_sub(1)
            .filter(|at| *at < systems.len())
    };
    let count = systems.len();
    match (received.method.as_str(), rest) {
        ("GET", []) => Reply::json(
            200,
            json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}, "ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": true}}}),
        ),
        ("GET", ["Systems"]) => {
            let members: Vec<Value> = (0..count).map(|at| link(path(at))).collect();
            Reply::json(200, json!({ "Members": members }))
        }
        ("GET", ["Systems", id]) => {
            let Some(at) = of(id) else {
                return Reply::json(404, json!({}));
            };
            let system = &systems[at];
            let acts_on = path(system.acts_on.unwrap_or(at));
            Reply::json(
                200,
                json!({
                    "@odata.id": path(system.leads_to.unwrap_or(at)), "Id": id,
                    "UUID": system.uuid, "SerialNumber": system.serial,
                    "PowerState": if system.is_on { "On" } else { "Off" },
                    "Boot": {
                        "BootSourceOverrideEnabled": system.boot.as_ref().map_or("Disabled", |boot| &*boot.0),
                        "BootSourceOverrideTarget": system.boot.as_ref().map_or("None", |boot| &*boot.1),
                    },
                    "EthernetInterfaces": link(format!("{}/EthernetInterfaces", path(at))),
                    "Actions": {"#ComputerSystem.Reset": {
                        "target": format!("{acts_on}/Actions/ComputerSystem.Reset"),
                        "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
                    }},
                }),
            )
        }
        ("GET", ["Systems", id, "EthernetInterfaces"]) => {
            let mac = of(id).and_then(|at| systems[at].mac.clone());
            let members = mac.map(|mac| json!({"@odata.id": format!("{}/E/1", path(0)), "Id": "1", "MACAddress": mac}));
            Reply::json(
                200,
                json!({"Members": members.into_iter().collect::<Vec<_>>()}),
            )
        }
        ("GET", _) => Reply::json(404, json!({})),
        (_, ["Systems", id, ..]) => {
            if let Some(at) = of(id) {
                changed.insert(at);
                let boot = &received.body["Boot"];
                let text = |name: &str| boot[name].as_str().unwrap_or_default().to_owned();
                if boot.is_object() {
                    systems[at].boot = Some((
                        text("BootSourceOverrideEnabled"),
                        text("BootSourceOverrideTarget"),
                    ));
                }
                match received.body["ResetType"].as_str() {
                    Some("On") => {
                        systems[at].is_on = true;
                        systems[at].boot = None;
                    }
                    Some(_) => systems[at].is_on = false,
                    None => {}
                }
            }
            Reply::json(204, Value::Null)
        }
        _ => Reply::json(404, json!({})),
    }
}

impl Chassis {
    async fn start(systems: Vec<System>) -> Self {
        let state = Arc::new(Mutex::new((systems, BTreeSet::new())));
        let handled = state.clone();
        let server = Server::plain(move |received| {
            let mut state = handled.lock().unwrap();
            let (systems, changed) = &mut *state;
            answer(systems, changed, received)
        })
        .await;
        Self { server, state }
    }

    fn port(&self) -> u16 {
        self.server.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    fn changed(&self) -> BTreeSet<usize> {
        self.state.lock().unwrap().1.clone()
    }
}

/// A site with one node for each list of `oob` fields, all on one controller.
fn nodes_on(port: u16, own: &[String], macs: &[Option<String>]) -> Site {
    let mut text = text(&[], "", "")
        .replace("settling_time: 0.3", "settling_time: 0")
        .replace(ACCOUNT, "deploy: {boot_time: 0}");
    for (at, own) in own.iter().enumerate() {
        let mac = macs.get(at).cloned().flatten();
        let metadata = mac.map_or_else(String::new, |mac| {
            format!("  metadata: {{boot_mac: '{mac}'}}\n")
        });
        let node = format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{at}}}\ndata:\n  hardware_profile: hw\n{metadata}  \
             oob: {{type: redfish, network: oob, port: {port}, {own}}}\n  \
             addressing: [{{network: oob, address: 127.0.0.1}}]\n"
        );
        text += &node;
    }
    strict(&text)
}

fn system(uuid: &str) -> System {
    System {
        uuid: Some(uuid.to_owned()),
        ..System::default()
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_and_each_look_ask_whether_the_system_is_the_one_of_the_document() {
    let chassis = Chassis::start(vec![system("uuid-1"), system("uuid-2")]).await;
    let own = ["system: '2', uuid: uuid-1".to_owned()];
    let site = nodes_on(chassis.port(), &own, &[]);
    for kind in KINDS {
        let error = site.act(kind).await.unwrap_err();
        let text = "its UUID is uuid-2, expected uuid-1";
        assert!(error.to_string().contains(text), "{kind}: {error}");
    }
    assert_ne!(
        site.hardware.probe(&site.order(StepKind::PowerOff)).await,
        Probe::Done
    );
    let seen = site.see().await.remove(0);
    assert!(matches!(seen.proof, Proof::Refused(_)), "{seen:?}");
    assert_eq!(seen.power.known(), None);
    assert_eq!(chassis.changed(), BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_links_lead_to_another_system_is_refused() {
    for (leads_to, acts_on) in [(Some(1), None), (None, Some(1))] {
        let mut first = system("uuid-1");
        (first.leads_to, first.acts_on) = (leads_to, acts_on);
        let chassis = Chassis::start(vec![first, system("uuid-2")]).await;
        let own = ["system: '1', uuid: uuid-1".to_owned()];
        let site = nodes_on(chassis.port(), &own, &[]);
        let error = site.act(StepKind::PowerOn).await.unwrap_err().to_string();
        assert!(error.contains("another system"), "{error}");
        assert_eq!(chassis.changed(), BTreeSet::new());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_one_system_are_refused_and_what_was_learned_is_compared_ever_after() {
    let chassis = Chassis::start(vec![system("uuid-1")]).await;
    let site = nodes_on(chassis.port(), &["".to_owned(), "".to_owned()], &[]);
    let seen = site.see().await;
    let unverified = |node: &ObservedNode| matches!(&node.proof, Proof::Unverified(_));
    assert_eq!(
        seen.iter().filter(|node| unverified(node)).count(),
        1,
        "{seen:?}"
    );
    site.identities.allow_unverified(["n0", "n1"]);
    let mut answers = Vec::new();
    for at in [0, 1] {
        answers.push(
            site.hardware
                .act(&site.order_for(at, StepKind::PowerOn))
                .await,
        );
    }
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    assert!(
        matches!(refused[..], [ActError::Permanent(text)] if text.contains("`oob.system`")),
        "{answers:?}"
    );
    let one = nodes_on(chassis.port(), &["".to_owned()], &[]);
    one.identities
        .record([("n0", Identity::of(Some("uuid-0"), None))]);
    let error = one.act(StepKind::PowerOff).await.unwrap_err().to_string();
    assert!(error.contains("than its record names"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_mac_address_proves_a_board_without_uuid_by_one_request_more() {
    let mut board = system("00000000-0000-0000-0000-000000000000");
    board.mac = Some("02:00:00:00:00:01".to_owned());
    let mut requests = Vec::new();
    for (own, mac) in [
        ("uuid: uuid-9", None),
        ("", Some("02-00-00-00-00-01".to_owned())),
    ] {
        let chassis = Chassis::start(vec![board.clone()]).await;
        let site = nodes_on(
            chassis.port(),
            &[own.to_owned()],
            std::slice::from_ref(&mac),
        );
        let seen = site.see().await.remove(0);
        assert_eq!(seen.proof.is_proven(), mac.is_some(), "{seen:?}");
        requests.push(chassis.server.received.lock().unwrap().len());
        let acted = site.act(StepKind::PowerOn).await;
        assert_eq!(acted.is_ok(), mac.is_some(), "{acted:?}");
    }
    assert_eq!(requests[1], requests[0] + 1);
}

#[tokio::test(start_paused = true)]
async fn a_mac_address_that_contradicts_the_document_is_of_another_machine_though_the_uuid_fits() {
    for (shown, is_refused) in [
        (Some("02:00:00:00:00:01"), false),
        (Some("02:00:00:00:00:02"), true),
        // What is not shown contradicts nothing.
        (None, false),
    ] {
        let mut board = system("uuid-1");
        board.mac = shown.map(str::to_owned);
        let chassis = Chassis::start(vec![board]).await;
        let mac = Some("02:00:00:00:00:01".to_owned());
        let site = nodes_on(chassis.port(), &["uuid: uuid-1".to_owned()], &[mac]);
        let seen = site.see().await.remove(0);
        assert_eq!(
            matches!(seen.proof, Proof::Refused(_)),
            is_refused,
            "{seen:?}"
        );
        assert_eq!(site.act(StepKind::PowerOn).await.is_err(), is_refused);
        assert_eq!(chassis.changed().is_empty(), is_refused);
    }
}

/// A value of a board: one of its own, one that others share, a placeholder, or nothing.
fn value(own: String) -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        3 => Just(Some(own)),
        1 => Just(Some("shared".to_owned())),
        1 => Just(Some("Default string".to_owned())),
        1 => Just(None),
    ]
}

fn board(at: usize) -> impl Strategy<Value = System> {
    let mac = prop_oneof![2 => Just(Some(format!("02:00:00:00:00:{at:02x}"))), 1 => Just(None)];
    (
        value(format!("uuid-{at}")),
        value(format!("serial-{at}")),
        mac,
    )
        .prop_map(|(uuid, serial, mac)| System {
            uuid,
            serial,
            mac,
            ..System::default()
        })
}

/// Boards, which of them stands if its node's document points, and which fields the documents name.
type Case = (Vec<System>, Vec<usize>, Vec<(bool, bool, bool)>, usize);

async fn holds((boards, places, named, kind): Case) -> Result<(), TestCaseError> {
    let standing: Vec<System> = places.iter().map(|at| boards[*at].clone()).collect();
    let chassis = Chassis::start(standing).await;
    let field = |wanted: bool, name: &str, value: &Option<String>| match value {
        Some(value) if wanted => format!(", {name}: '{value}'"),
        _ => String::new(),
    };
    let own: Vec<String> = (0..boards.len())
        .map(|at| {
            let (uuid, serial, _) = named[at];
            let (uuid, serial) = (
                field(uuid, "uuid", &boards[at].uuid),
                field(serial, "serial", &boards[at].serial),
            );
            format!("system: '{}'{uuid}{serial}", at + 1)
        })
        .collect();
    let macs: Vec<_> = (0..boards.len())
        .map(|at| boards[at].mac.clone().filter(|_| named[at].2))
        .collect();
    let site = nodes_on(chassis.port(), &own, &macs);
    site.see().await;
    for at in 0..boards.len() {
        let acted = site.hardware.act(&site.order_for(at, KINDS[kind])).await;
        let is_same = |one: &System, other: &System| {
            (&one.uuid, &one.serial, &one.mac) == (&other.uuid, &other.serial, &other.mac)
        };
        let found = &boards[places[at]];
        let is_own = places[at] == at || is_same(found, &boards[at]);
        let changed = chassis.changed();
        prop_assert!(
            is_own || (acted.is_err() && !changed.contains(&at)),
            "node {at} has changed {found:?} in the place of {:?}",
            boards[at]
        );
        let (uuid, serial, mac) = named[at];
        let names_anything = (uuid && boards[at].uuid.is_some())
            || (serial && boards[at].serial.is_some())
            || (mac && boards[at].mac.is_some());
        prop_assert!(
            names_anything || !changed.contains(&at),
            "nothing proves {found:?}"
        );
        chassis.state.lock().unwrap().1.remove(&at);
    }
    Ok(())
}

#[test]
fn no_request_that_changes_anything_reaches_a_machine_that_is_not_the_documents() {
    const BOARDS: usize = 3;
    let cases = (
        (0..BOARDS).map(board).collect::<Vec<_>>(),
        Just((0..BOARDS).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), BOARDS),
        0..KINDS.len(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        cases: 24,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    runner
        .run(&cases, |case| runtime.block_on(holds(case)))
        .unwrap();
}
