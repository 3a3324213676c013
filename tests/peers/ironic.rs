//! Ironic itself, API and conductor in one process, with its fake hardware.
//!
//! What is asked behind trueup's back, as an operator would, goes through [`Lab::api`].

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Method, Url};
use serde_json::{Value, json};
use trueup::backend::http::{Client, HttpLimits, Request, Trust};
use trueup::backend::{
    ActError, BackendContext, Backends, Hardware, Listener, NoSecrets, Order, Pending, Probe,
    Reporter, Secrets, choose,
};
use trueup::design::{NodeName, RunId, SiteName, build};
use trueup::diagnostic::Sources;
use trueup::document::{LoadSettings, load};
use trueup::guard::Guarded;
use trueup::lifecycle::{PowerState, ProvisionState};
use trueup::observed::{Fact, ObservedNode};
use trueup::step::{CleanStep, Step, StepId, StepKind};

use crate::amount::number;
use crate::harness::{Peer, given};
use crate::site::Site;

/// No step of a test may take longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running Ironic.
pub(crate) struct Lab {
    peer: Peer,
    client: Client,
}

/// Keeps what a step says.
#[derive(Default)]
pub(crate) struct RecordingListener(Mutex<Vec<String>>);

impl Listener for RecordingListener {
    fn progress(&self, text: Arc<str>) {
        self.0.lock().unwrap().push(text.to_string());
    }

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.0.lock().unwrap().push(format!("noted: {text}"));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Lab {
    /// Starts one whose operations take `delay` seconds; `None`, said loudly, if there is none.
    pub(crate) fn start(delay: &str) -> Option<Self> {
        Self::start_with(delay, &[])
    }

    /// The same, with settings of Ironic's own as variables of its environment (`OS_SECTION__OPTION`).
    pub(crate) fn start_with(delay: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let settings: Vec<_> = settings
            .iter()
            .map(|(name, value)| (*name, Path::new(value)))
            .collect();
        let peer = Peer::start_with("ironic-up.sh", &settings, |ports| {
            vec![ports.at(0).to_string(), delay.to_owned()]
        })?;
        Some(Self {
            peer,
            client: Client::new(&Trust::default(), HttpLimits::default()).unwrap(),
        })
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        self.peer.said().to_owned()
    }

    /// Asks Ironic behind trueup's back.
    pub(crate) async fn api(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, String> {
        let url = Url::parse(&format!("{}/v1/{path}", self.peer.said())).unwrap();
        let mut request =
            Request::new("test", method, url).header("x-openstack-ironic-api-version", "1.92");
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = self
            .client
            .send(&request)
            .await
            .map_err(|error| error.to_string())?;
        Ok(serde_json::from_slice(answer.body()).unwrap_or(Value::Null))
    }

    /// Sends a verb behind trueup's back and waits for a state.
    pub(crate) async fn drive(&self, node: &str, verb: Value, until: &str) {
        let body = if verb.is_string() {
            json!({"target": verb})
        } else {
            verb
        };
        let path = format!("nodes/{node}/states/provision");
        self.api(Method::PUT, &path, body).await.unwrap();
        self.await_state(node, until).await;
    }

    async fn await_state(&self, node: &str, until: &str) {
        for _ in 0..600 {
            let seen = self
                .api(Method::GET, &format!("nodes/{node}"), Value::Null)
                .await
                .unwrap();
            if seen["provision_state"] == until && seen["reservation"].is_null() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("`{node}` does not become {until}");
    }

    async fn field(&self, node: &str, field: &str) -> Value {
        let seen = self
            .api(Method::GET, &format!("nodes/{node}"), Value::Null)
            .await
            .unwrap();
        seen[field].clone()
    }

    /// How many requests by this method it has answered with this status.
    pub(crate) fn answered(&self, method: &str, status: u16) -> usize {
        let log = std::fs::read_to_string(self.peer.path("log")).unwrap();
        let is_so = |line: &&str| {
            line.contains(&format!(" - {method} /v1/nodes/"))
                && line.contains(&format!(" - {status} ("))
        };
        log.lines().filter(is_so).count()
    }

    /// Puts a machine of its into a state in its database, as if an agent were being waited for.
    pub(crate) fn put_state(&self, node: &str, state: &str) {
        self.sql(
            "UPDATE nodes SET provision_state = ? WHERE name = ?",
            &[state, node],
        );
    }

    /// Changes its database.
    pub(crate) fn sql(&self, statement: &str, values: &[&str]) {
        const CHANGE: &str = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1], timeout=30) as db:\n    \
             db.execute(sys.argv[2], sys.argv[3:])";
        let mut python = Command::new("python3");
        python
            .args(["-c", CHANGE])
            .arg(self.peer.path("ironic.sqlite"));
        let status = python.arg(statement).args(values).status().unwrap();
        assert!(status.success());
    }

    /// `hardware` of a Backends document that names it.
    pub(crate) fn hardware(&self) -> String {
        format!(
            "{{kind: ironic, ironic: {{endpoint: \"{}\", driver: fake-hardware, networks: [127.0.0.0/8, 10.0.0.0/8]}}}}",
            self.peer.said()
        )
    }

    /// A site of these nodes, moved by this Ironic.
    fn hands(&self, nodes: &[&str], settings: &str, more: &str) -> Hands {
        let settings = format!("endpoint: {}\n      {settings}\n{more}", self.peer.said());
        Hands::of(nodes, &settings, Arc::new(NoSecrets))
    }
}

/// A backend and the design that it was opened for.
pub(crate) struct Hands {
    pub(crate) backends: Arc<Backends>,
    design: Guarded,
    run: String,
}

impl Hands {
    /// A site of these nodes, moved by an Ironic with these settings.
    pub(crate) fn of(nodes: &[&str], settings: &str, secrets: Arc<dyn Secrets>) -> Self {
        let mut text = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: ironic\n    ironic:\n      networks: [127.0.0.0/8, 10.0.0.0/8]\n      \
             driver: fake-hardware\n      {settings}\n"
        );
        let machine = |node: &&str| {
            format!(
                "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {node}}}\ndata: {{metadata: {{tags: [lab]}}}}\n"
            )
        };
        text.extend(nodes.iter().map(machine));
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", text.as_str());
        let flat = LoadSettings {
            flat: true,
            ..LoadSettings::default()
        };
        let file = load(id, &text, &flat);
        assert!(!file.diagnostics.has_errors(), "{:#?}", file.diagnostics);
        let documents: Vec<_> = file
            .documents
            .iter()
            .map(|each| (&**each, &each.data))
            .collect();
        let (site, problems) = build(SiteName::from("lab"), &documents);
        let design = Guarded::under_one(&site);
        assert!(!problems.has_errors(), "{problems:#?}");
        let context = BackendContext::trusting("unused".into(), secrets);
        let backends = choose(&design, &context).unwrap();
        // What proves a machine has tests of its own.
        let names = design.nodes.keys().map(|name| name.as_str());
        backends.identities().allow_unverified(names);
        Self {
            backends,
            design,
            run: "01J00000000000000000000001".into(),
        }
    }

    /// The same in another run.
    pub(crate) fn of_run(self, run: &str) -> Self {
        Self {
            run: run.to_owned(),
            ..self
        }
    }

    pub(crate) fn order(
        &self,
        kind: StepKind,
        node: Option<&str>,
        parameters: Value,
    ) -> (Order, Arc<RecordingListener>) {
        let listener = Arc::new(RecordingListener::default());
        let order = Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from(self.run.as_str()),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: node.map(NodeName::from),
                    wave: None,
                },
                timeout: 0,
                effect: kind.facts().effect,
                standby: false,
                parameters: given(kind, &parameters),
                needs: Vec::new(),
            }),
            node: node.map(|node| self.design.nodes[&NodeName::from(node)].clone()),
            notes: Vec::new(),
            reporter: Reporter::new(listener.clone()),
        };
        (order, listener)
    }

    async fn act_with(
        &self,
        kind: StepKind,
        node: &str,
        parameters: Value,
    ) -> (Result<(), ActError>, Vec<String>) {
        let (order, listener) = self.order(kind, Some(node), parameters);
        let result = tokio::time::timeout(TIMEOUT, self.backends.act(&order)).await;
        let result = result.unwrap_or_else(|_| panic!("{kind} of `{node}` does not end"));
        let said = listener.0.lock().unwrap().clone();
        (result, said)
    }

    pub(crate) async fn act(&self, kind: StepKind, node: &str) -> Result<(), ActError> {
        self.act_with(kind, node, json!({})).await.0
    }

    /// What a refusal says.
    #[track_caller]
    fn refusal(result: Result<(), ActError>) -> String {
        match result {
            Err(ActError::Permanent(text)) => text.to_string(),
            other => panic!("not refused for good: {other:?}"),
        }
    }

    async fn probe(&self, kind: StepKind, node: &str) -> Probe {
        let (order, _) = self.order(kind, Some(node), json!({}));
        self.backends.probe(&order).await
    }

    pub(crate) async fn seen(&self, node: &str) -> ObservedNode {
        let designs = [self.design.nodes[&NodeName::from(node)].clone()];
        let mut seen = self.backends.observe(&designs).await;
        *seen.remove(&NodeName::from(node)).unwrap()
    }

    pub(crate) async fn state(&self, node: &str) -> ProvisionState {
        *self.seen(node).await.provision.known().unwrap()
    }
}

fn reason(text: &str) -> Value {
    json!({"reason": text})
}

fn clean_step(interface: &str, step: &str, arguments: Option<&str>) -> Value {
    json!({"clean_steps": [CleanStep {
        arguments: arguments.map(Arc::from),
        ..CleanStep::new(interface, step)
    }]})
}

const GOOD_SETTINGS: &str = r#"{"settings":[{"name":"ProcTurboMode","value":"Disabled"}]}"#;
const BAD_SETTINGS: &str = r#"{"settings":"not-a-list"}"#;

#[tokio::test]
async fn a_machine_lives_its_whole_life() {
    let Some(lab) = Lab::start("1") else { return };
    let hands = lab.hands(&["n1", "n2"], "resource_class: baremetal", "");
    let (order, listener) = hands.order(StepKind::VerifySite, None, json!({}));
    hands.backends.act(&order).await.unwrap();
    assert!(
        listener.0.lock().unwrap()[0].contains("version 1.108 of its API"),
        "{:?}",
        listener.0
    );

    // Not there yet: known by name only, and can be prepared.
    assert_eq!(hands.state("n1").await, ProvisionState::Enroll);
    assert_eq!(hands.probe(StepKind::Prepare, "n1").await, Probe::NotBegun);
    hands.act(StepKind::Prepare, "n1").await.unwrap();
    assert_eq!(hands.state("n1").await, ProvisionState::Available);
    assert_eq!(hands.probe(StepKind::Prepare, "n1").await, Probe::Done);
    // Again: nothing is left to do.
    hands.act(StepKind::Prepare, "n1").await.unwrap();

    assert_eq!(hands.probe(StepKind::Deploy, "n1").await, Probe::NotBegun);
    hands.act(StepKind::Deploy, "n1").await.unwrap();
    assert_eq!(hands.state("n1").await, ProvisionState::Active);
    assert_eq!(hands.probe(StepKind::Deploy, "n1").await, Probe::Done);
    // The same step again finds what it has done; another run's finds a machine that is in use.
    hands.act(StepKind::Deploy, "n1").await.unwrap();
    let other = Hands {
        run: "01J00000000000000000000002".into(),
        ..lab.hands(&["n1"], "", "")
    };
    assert_eq!(other.probe(StepKind::Deploy, "n1").await, Probe::NotBegun);
    let text = Hands::refusal(other.act(StepKind::Deploy, "n1").await);
    assert!(
        text.contains("`deploy` is refused while the machine is active; allowed: rebuild, delete"),
        "{text}"
    );
    let text = Hands::refusal(other.act(StepKind::Prepare, "n1").await);
    assert!(
        text.contains("`provide` is refused while the machine is active"),
        "{text}"
    );

    for (kind, power) in [
        (StepKind::PowerOff, PowerState::Off),
        (StepKind::PowerOn, PowerState::On),
    ] {
        hands.act(kind, "n1").await.unwrap();
        assert_eq!(hands.seen("n1").await.power, Fact::Known(power));
        assert_eq!(hands.probe(kind, "n1").await, Probe::Done);
    }

    let (result, _) = hands
        .act_with(StepKind::SetMaintenance, "n1", reason("a fan is loud"))
        .await;
    result.unwrap();
    assert_eq!(
        hands.seen("n1").await.maintenance.as_deref(),
        Some("a fan is loud")
    );
    hands.act(StepKind::UnsetMaintenance, "n1").await.unwrap();
    assert_eq!(hands.seen("n1").await.maintenance, None);

    // Torn down: cleaned, off, available.
    hands.act(StepKind::Destroy, "n1").await.unwrap();
    let seen = hands.seen("n1").await;
    assert_eq!(seen.provision, Fact::Known(ProvisionState::Available));
    assert_eq!(seen.power, Fact::Known(PowerState::Off));
    assert_eq!(hands.probe(StepKind::Destroy, "n1").await, Probe::Done);
    assert_eq!(lab.field("n1", "instance_uuid").await, Value::Null);

    // What has left the design leaves Ironic, too.
    let node = hands.design.nodes[&NodeName::from("n1")].clone();
    let without = lab.hands(&["n2"], "", "");
    without.backends.identities().allow_unverified(["n1"]);
    let (mut order, listener) = hands.order(StepKind::Destroy, Some("n1"), json!({}));
    order.run = RunId::from("01J00000000000000000000003");
    order.node = Some(node);
    without.backends.act(&order).await.unwrap();
    assert!(
        listener
            .0
            .lock()
            .unwrap()
            .contains(&"noted: leaves Ironic".to_owned()),
        "{:?}",
        listener.0
    );
    assert!(lab.api(Method::GET, "nodes/n1", Value::Null).await.is_err());
    order.notes.push(Arc::from("leaves Ironic"));
    assert_eq!(without.backends.probe(&order).await, Probe::Done);
    without.backends.act(&order).await.unwrap();
}

#[tokio::test]
async fn a_cleaning_that_fails_fences_the_machine_until_intervention() {
    let Some(lab) = Lab::start("1") else { return };
    let hands = lab.hands(&["n1"], "", "");
    hands.act(StepKind::Prepare, "n1").await.unwrap();
    // Only from manageable.
    let good = || clean_step("bios", "apply_configuration", Some(GOOD_SETTINGS));
    let bad = || clean_step("bios", "apply_configuration", Some(BAD_SETTINGS));
    let text = Hands::refusal(hands.act_with(StepKind::Clean, "n1", good()).await.0);
    assert!(
        text.contains("`clean` is refused while the machine is available"),
        "{text}"
    );
    hands.act(StepKind::Manage, "n1").await.unwrap();
    assert_eq!(hands.probe(StepKind::Manage, "n1").await, Probe::Done);
    hands
        .act_with(StepKind::Clean, "n1", good())
        .await
        .0
        .unwrap();
    assert_eq!(hands.state("n1").await, ProvisionState::Manageable);
    assert_eq!(hands.probe(StepKind::Clean, "n1").await, Probe::Done);

    let text = Hands::refusal(hands.act_with(StepKind::Clean, "n1", bad()).await.0);
    assert!(
        text.contains("`clean` ended in clean failed") && text.contains("failed step"),
        "{text}"
    );
    let seen = hands.seen("n1").await;
    assert_eq!(seen.provision, Fact::Known(ProvisionState::CleanFailed));
    assert!(seen.maintenance.unwrap().contains("fault: clean failure"));
    assert!(seen.last_error.unwrap().contains("failed step"));
    assert!(matches!(
        hands.probe(StepKind::Clean, "n1").await,
        Probe::Ambiguous(_)
    ));

    // Nothing deploys to it; its power may be switched.
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        let text = Hands::refusal(hands.act(kind, "n1").await);
        assert!(
            text.contains("maintenance") || text.contains("clean failed"),
            "{text}"
        );
    }
    hands.act(StepKind::PowerOff, "n1").await.unwrap();
    hands.act(StepKind::PowerOn, "n1").await.unwrap();

    // Cleaned again, straight from there.
    let (result, said) = hands.act_with(StepKind::Clean, "n1", good()).await;
    result.unwrap();
    assert!(
        said.iter()
            .any(|line| line.contains("no way out of clean failed")),
        "{said:?}"
    );
    let seen = hands.seen("n1").await;
    assert_eq!(
        (seen.provision, seen.maintenance),
        (Fact::Known(ProvisionState::Manageable), None)
    );

    // A step that the machine does not have fails without maintenance; provided on purpose all the same.
    let unknown = clean_step("deploy", "erase_devices", None);
    let text = Hands::refusal(hands.act_with(StepKind::Clean, "n1", unknown).await.0);
    assert!(text.contains("does not support this clean step"), "{text}");
    assert_eq!(hands.seen("n1").await.maintenance, None);
    hands.act(StepKind::Provide, "n1").await.unwrap();
    assert_eq!(hands.state("n1").await, ProvisionState::Available);

    // The automated steps run by name of nothing.
    hands.act(StepKind::Manage, "n1").await.unwrap();
    hands.act(StepKind::Clean, "n1").await.unwrap();
    assert_eq!(hands.state("n1").await, ProvisionState::Manageable);

    // What Ironic would leave out silently is not sent.
    let silent = clean_step("power", "power_off", None);
    let text = Hands::refusal(hands.act_with(StepKind::Clean, "n1", silent).await.0);
    assert!(text.contains("leaves it out without a word"), "{text}");

    // While it is cleaned, neither power nor state changes: both wait until it has ended.
    lab.api(
        Method::PUT,
        "nodes/n1/states/provision",
        json!({"target": "provide"}),
    )
    .await
    .unwrap();
    let (result, said) = hands.act_with(StepKind::PowerOff, "n1", json!({})).await;
    result.unwrap();
    assert!(
        said.iter().any(|line| line.starts_with("cleaning")),
        "{said:?}"
    );
    assert_eq!(hands.seen("n1").await.power, Fact::Known(PowerState::Off));
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_machine_is_retired_in_every_state_and_never_becomes_available() {
    let Some(lab) = Lab::start("1") else { return };
    let names = [
        "enrolled", "managed", "ready", "used", "unclean", "waiting", "careless",
    ];
    let hands = lab.hands(&names, "", "");
    for name in names {
        // `direct` waits for an agent that never calls: a machine to be found in clean wait.
        let mut body = json!({"name": name, "driver": "fake-hardware"});
        if name == "waiting" {
            body["deploy_interface"] = json!("direct");
        }
        if name == "careless" {
            body["automated_clean"] = json!(false);
        }
        lab.api(Method::POST, "nodes", body).await.unwrap();
    }
    for name in &names[1..] {
        lab.drive(name, json!("manage"), "manageable").await;
    }
    for name in ["ready", "used", "careless"] {
        lab.drive(name, json!("provide"), "available").await;
    }
    for name in ["used", "careless"] {
        hands.act(StepKind::Deploy, name).await.unwrap();
    }
    let bad = json!({"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]});
    lab.drive("unclean", bad, "clean failed").await;
    lab.drive("waiting", json!("provide"), "clean wait").await;

    // A later run: to it, what the first has deployed is a machine in use.
    let hands = Hands {
        run: "01J00000000000000000000002".into(),
        ..hands
    };
    let ends = [
        ("enrolled", ProvisionState::Enroll),
        ("managed", ProvisionState::Manageable),
        ("ready", ProvisionState::Manageable),
        ("used", ProvisionState::Active),
        ("unclean", ProvisionState::CleanFailed),
        ("careless", ProvisionState::Active),
    ];
    for (name, state) in ends {
        assert_eq!(
            hands.probe(StepKind::SetRetired, name).await,
            Probe::NotBegun
        );
        hands
            .act_with(StepKind::SetRetired, name, reason("end of its warranty"))
            .await
            .0
            .unwrap();
        let seen = hands.seen(name).await;
        assert_eq!(seen.provision, Fact::Known(state), "{name}");
        assert_eq!(
            seen.retired.as_deref(),
            Some("end of its warranty"),
            "{name}"
        );
        // Idempotent.
        hands
            .act_with(StepKind::SetRetired, name, reason("end of its warranty"))
            .await
            .0
            .unwrap();
        for kind in [StepKind::Prepare, StepKind::Deploy, StepKind::Provide] {
            Hands::refusal(hands.act(kind, name).await);
            assert_ne!(hands.state(name).await, ProvisionState::Available, "{name}");
        }
    }
    let text = Hands::refusal(hands.act(StepKind::Provide, "managed").await);
    assert!(
        text.contains("a retired machine never becomes available"),
        "{text}"
    );
    assert!(text.contains("end of its warranty"), "{text}");

    // What waits is waited for: here until somebody aborts its cleaning.
    let parameters = reason("end of its warranty");
    let retiring = hands.act_with(StepKind::SetRetired, "waiting", parameters);
    let aborting = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let body = json!({"target": "abort"});
        lab.api(Method::PUT, "nodes/waiting/states/provision", body)
            .await
            .unwrap();
    };
    let ((result, said), ()) = tokio::join!(retiring, aborting);
    result.unwrap();
    assert!(
        said.iter().any(|line| line.starts_with("clean wait")),
        "{said:?}"
    );
    assert!(hands.seen("waiting").await.retired.is_some());

    // Torn down, with cleaning on and with cleaning off: manageable and off, still retired.
    for name in ["used", "careless"] {
        hands.act(StepKind::Destroy, name).await.unwrap();
        let seen = hands.seen(name).await;
        assert_eq!(
            seen.provision,
            Fact::Known(ProvisionState::Manageable),
            "{name}"
        );
        assert_eq!(seen.power, Fact::Known(PowerState::Off), "{name}");
        assert!(seen.retired.is_some());
    }
    // Taken back.
    hands.act(StepKind::UnsetRetired, "used").await.unwrap();
    assert_eq!(hands.seen("used").await.retired, None);
    hands.act(StepKind::Provide, "used").await.unwrap();
    assert_eq!(hands.state("used").await, ProvisionState::Available);
}

#[tokio::test]
async fn a_machine_keeps_its_data_where_its_storage_is_preserved() {
    let Some(lab) = Lab::start("0") else { return };
    let hands = lab.hands(&["n1"], "", "");
    hands.act(StepKind::Prepare, "n1").await.unwrap();
    hands.act(StepKind::Deploy, "n1").await.unwrap();
    let preserve = json!({"preserve_local_storage": true});
    let (result, said) = hands.act_with(StepKind::Destroy, "n1", preserve).await;
    result.unwrap();
    assert!(
        !said.iter().any(|line| line.starts_with("cleaning:")),
        "{said:?}"
    );
    assert_eq!(hands.state("n1").await, ProvisionState::Available);
    assert_eq!(lab.field("n1", "automated_clean").await, Value::Null);
}

/// A site whose only difference from a simulated one is who moves the machines.
pub(crate) fn documents(nodes: usize, hardware: &str) -> Vec<(String, String)> {
    let backends = format!(
        "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware: {hardware}\n"
    );
    let definition =
        "schema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {site_type: lab}\n";
    let machines: String = (1..=nodes)
        .map(|number| {
            format!("---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: m{number:03}}}\ndata: {{metadata: {{rack: r1, boot_mac: '52:54:00:00:{:02x}:{:02x}'}}}}\n", number >> 8, number & 255)
        })
        .collect();
    let rack = "---\nschema: drydock/Rack/v1\nmetadata: {name: r1}\ndata: {}\n";
    [
        ("backends.yaml", backends),
        ("site-definition.yaml", definition.to_owned()),
        ("machines.yaml", machines + rack),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into()
}

pub(crate) fn site_of(files: &[(String, String)]) -> Site {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Site::new(&files)
}

pub(crate) fn commit(site: &Site, files: &[(String, String)]) {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    site.commit(&files);
}

fn apply_on_ironic(nodes: usize, parallelism: usize) {
    let Some(lab) = Lab::start("0") else { return };
    let simulated = site_of(&documents(nodes, "{kind: sim}"));
    let planned = |site: &Site| {
        let plan = site.trueup(&["plan", "--format", "json"], &[]);
        let plan = plan.json();
        let count = |field: &str| plan[field].as_array().map_or(0, Vec::len);
        (count("steps"), count("changes"))
    };
    let ironic = lab.hardware();
    let site = site_of(&documents(nodes, &ironic));
    assert_eq!(
        planned(&site),
        planned(&simulated),
        "the plan is that of the simulated site"
    );
    let began = std::time::Instant::now();
    let parallelism = parallelism.to_string();
    let ended = site
        .trueup(&["apply", "--yes", "--parallelism", &parallelism], &[])
        .with(0);
    eprintln!(
        "{nodes} machines deployed on Ironic in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    assert!(
        ended.stdout.contains(&nodes.to_string()) || ended.stderr.contains(&nodes.to_string()),
        "{ended:?}"
    );

    let status = site
        .trueup(&["status", "--format", "json"], &[])
        .with(0)
        .json();
    let states: BTreeMap<&str, usize> =
        status["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .fold(BTreeMap::new(), |mut states, node| {
                let state = node["observed"]["provision"]["known"]
                    .as_str()
                    .unwrap_or("unknown");
                *states.entry(state).or_default() += 1;
                states
            });
    assert_eq!(states, BTreeMap::from([("active", nodes)]), "{status:#}");
    // As designed: nothing is left to do.
    site.trueup(&["plan", "--detailed-exitcode"], &[]).with(0);

    // One machine leaves the design: torn down, cleaned, out of Ironic.
    commit(&site, &documents(nodes - 1, &ironic));
    site.trueup(&["apply", "--yes", "--allow-destroy", "all"], &[])
        .with(0);
    let gone = format!("nodes/m{nodes:03}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    assert!(
        runtime
            .block_on(lab.api(Method::GET, &gone, Value::Null))
            .is_err()
    );
}

#[test]
fn a_site_is_applied_on_ironic_where_only_its_backends_document_differs() {
    apply_on_ironic(4, 4);
}

/// 30 machines; as many as `TRUEUP_TEST_IRONIC_NODES` says where it is set.
#[test]
fn a_group_of_many_machines_is_applied_on_ironic() {
    let nodes = number("TRUEUP_TEST_IRONIC_NODES").unwrap_or(30);
    apply_on_ironic(nodes, 16);
}
