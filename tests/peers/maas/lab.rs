//! The backend against the stand-in, step by step, as a run drives it: probed before what was begun is done again, and
//! opened anew if its process has died.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::given;
use serde_json::{Value, json};
use trueup::backend::{
    ActError, BackendContext, Backends, Hardware, Listener, Order, Pending, Probe, Reporter,
    Secret, SecretError, Secrets, choose,
};
use trueup::design::{NodeName, Reference, RunId, SiteName, build};
use trueup::diagnostic::Sources;
use trueup::document::{LoadSettings, load};
use trueup::guard::Guarded;
use trueup::identity::Registry;
use trueup::observed::ObservedNode;
use trueup::step::{Step, StepId, StepKind};

use super::region::{KEY, Region, mac_of};
use super::serve::Server;

/// Most attempts of one step, those after a death included.
const ATTEMPTS: usize = 8;
/// Between two attempts.
const DELAY: Duration = Duration::from_secs(10);
/// How long a process that resumes the work of another waits for requests that it may have sent.
const LONGEST_REQUEST: Duration = Duration::from_secs(200);

/// The variable that holds the key.
#[derive(Debug)]
struct KeyInVariable;

impl Secrets for KeyInVariable {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        match reference {
            Reference::Env(name) if **name == *"MAAS_API_KEY" => {
                Ok(Secret::new(format!("{}:{}:{}", KEY.0, KEY.1, KEY.2)))
            }
            Reference::Env(name) if **name == *"PLAIN_KEY" => {
                let (consumer, token, secret) = super::region::PLAIN_KEY;
                Ok(Secret::new(format!("{consumer}:{token}:{secret}")))
            }
            Reference::Env(name) if **name == *"BMC_PASSWORD" => {
                Ok(Secret::new("B0ardPassword".to_owned()))
            }
            _ => Err(SecretError("there is no such variable".to_owned())),
        }
    }
}

/// Keeps what a step notes and says.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) notes: Mutex<Vec<Arc<str>>>,
    pub(super) said: Mutex<Vec<Arc<str>>>,
}

impl Listener for Journal {
    fn progress(&self, text: Arc<str>) {
        self.said.lock().unwrap().push(text);
    }

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.notes.lock().unwrap().push(text);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How a step ended that did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It failed.
    Failed(String),
    /// Nothing tells how far it is.
    Undecided(String),
}

/// A site on a stand-in.
pub(super) struct Lab {
    pub(super) region: Region,
    server: Server,
    pub(super) design: Guarded,
    identities: Mutex<Arc<Registry>>,
    run: &'static str,
    /// Those of the process that runs now.
    opened: Mutex<Option<Arc<Backends>>>,
}

/// A design of these nodes, each with what its document says besides; `key`: the variable of the key.
pub(super) fn design(
    (url, key): (&str, &str),
    settings: &str,
    nodes: &[(String, String)],
    more: &str,
) -> Guarded {
    let mut text = format!(
        "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: maas\n    maas: \
         {{endpoint: \"{url}\", api_key: {{env: {key}}}, {settings}}}\n{more}"
    );
    text.extend(nodes.iter().map(|(name, data)| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n"
        )
    }));
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
    Guarded::under_one(&build(SiteName::from("lab"), &documents).0)
}

/// The document of a node that is proven by its MAC address.
pub(super) fn node(name: &str, id: &str, more: &str) -> (String, String) {
    let mac = mac_of(id);
    let data = format!(
        "metadata: {{boot_mac: \"52:54:00:00:{mac}\", tags: [compute], owner_data: {{role: worker}}}}, {more}"
    );
    (name.to_owned(), data)
}

/// What is deployed in most tests.
pub(super) const PLATFORM: &str = "platform: {image: noble, kernel: ga-24.04, kernel_params: {console: ttyS1}}, storage: \
    {physical_devices: {sda: {labels: {bootdrive: 'true'}, partitions: [{name: root, size: '>20g', filesystem: {mountpoint: /}}]}}}";

impl Lab {
    /// A site of the node `n1`, which is the machine `abc001`.
    pub(super) async fn one(region: Region, settings: &str) -> Self {
        Self::of(region, settings, &[node("n1", "abc001", PLATFORM)], "").await
    }

    pub(super) async fn of(
        region: Region,
        settings: &str,
        nodes: &[(String, String)],
        more: &str,
    ) -> Self {
        let server = region.serve().await;
        Self {
            design: design((&server.url, "MAAS_API_KEY"), settings, nodes, more),
            region,
            server,
            identities: Mutex::default(),
            run: "01J00000000000000000000001",
            opened: Mutex::default(),
        }
    }

    /// The same with another design, such as one of another address.
    pub(super) fn designed(self, design: Guarded) -> Self {
        Self {
            design,
            opened: Mutex::default(),
            ..self
        }
    }

    /// The address of the stand-in.
    pub(super) fn url(&self) -> &str {
        &self.server.url
    }

    /// Ends the process that runs now; the next begins with the records alone.
    pub(super) fn restart(&self) {
        *self.opened.lock().unwrap() = None;
    }

    /// Begins with a site whose records know no machine.
    pub(super) fn forget_identities(&self) {
        *self.identities.lock().unwrap() = Arc::default();
        self.restart();
    }

    /// The backends of the process that runs now.
    pub(super) fn backends(&self) -> Arc<Backends> {
        let mut opened = self.opened.lock().unwrap();
        opened.get_or_insert_with(|| self.open()).clone()
    }

    /// What a process has that begins: the records, and nothing else of the one before.
    pub(super) fn open(&self) -> Arc<Backends> {
        let context = BackendContext {
            identities: self.identities.lock().unwrap().clone(),
            ..BackendContext::trusting("unused".into(), Arc::new(KeyInVariable))
        };
        choose(&self.design, &context).unwrap()
    }

    pub(super) fn order(
        &self,
        kind: StepKind,
        node: Option<&str>,
        parameters: Value,
    ) -> (Order, Arc<Journal>) {
        let journal = Arc::new(Journal::default());
        let order = Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from(self.run),
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
            reporter: Reporter::new(journal.clone()),
        };
        (order, journal)
    }

    /// Drives a step as a run does.
    pub(super) async fn drive(
        &self,
        kind: StepKind,
        node: &str,
        parameters: Value,
    ) -> Result<(), Failure> {
        let (mut order, journal) = self.order(kind, Some(node), parameters);
        let mut probes = false;
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            order.notes = journal.notes.lock().unwrap().clone();
            let backends = self.backends();
            let attempt = self.attempt(&backends, &order, probes);
            let ended = tokio::select! {
                ended = attempt => Some(ended),
                () = self.region.death() => None,
            };
            match ended {
                None => {
                    *self.opened.lock().unwrap() = None;
                    tokio::time::sleep(LONGEST_REQUEST).await;
                }
                Some(Ok(())) => return Ok(()),
                Some(Err(Attempt::Ended(failure))) => return Err(failure),
                Some(Err(Attempt::Passing(text))) => last = text,
            }
            probes = true;
            tokio::time::sleep(DELAY).await;
        }
        Err(Failure::Failed(format!("too many attempts: {last}")))
    }

    async fn attempt(
        &self,
        backends: &Backends,
        order: &Order,
        probes: bool,
    ) -> Result<(), Attempt> {
        if probes {
            match backends.probe(order).await {
                Probe::Done => return Ok(()),
                Probe::NotBegun | Probe::UnderWay => {}
                Probe::Ambiguous(why) => return Err(Attempt::of_probe(&why)),
            }
        }
        match backends.act(order).await {
            Ok(()) => Ok(()),
            Err(ActError::Passing(why) | ActError::Ambiguous(why)) => {
                Err(Attempt::Passing(why.to_string()))
            }
            Err(ActError::Permanent(why) | ActError::Refused(why)) => {
                Err(Attempt::Ended(Failure::Failed(why.to_string())))
            }
        }
    }

    /// Does a step once, with so many seconds for it.
    pub(super) async fn acts_within(
        &self,
        seconds: u32,
        kind: StepKind,
        node: &str,
    ) -> Result<(), String> {
        let (mut order, _) = self.order(kind, Some(node), json!({}));
        Arc::make_mut(&mut order.step).timeout = seconds.into();
        let acted = self.backends().act(&order).await;
        acted.map_err(|error| error.to_string())
    }

    /// Drives a step that succeeds.
    pub(super) async fn run(&self, kind: StepKind, node: &str, parameters: Value) {
        let ended = self.drive(kind, node, parameters).await;
        ended.unwrap_or_else(|failure| panic!("{kind}: {failure:?}"));
    }

    /// Drives a step that fails, and gives the reason.
    pub(super) async fn fails(&self, kind: StepKind, node: &str, parameters: Value) -> String {
        match self.drive(kind, node, parameters).await {
            Err(Failure::Failed(why) | Failure::Undecided(why)) => why,
            Ok(()) => panic!("{kind} succeeds"),
        }
    }

    /// What a plan sees of a node.
    pub(super) async fn seen(&self, node: &str) -> ObservedNode {
        let designs = [self.design.nodes[&NodeName::from(node)].clone()];
        let mut seen = self.backends().observe(&designs).await;
        *seen.remove(&NodeName::from(node)).unwrap()
    }

    /// The requests since the last time that changed something.
    pub(super) fn changes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.region.state().requests);
        requests
            .into_iter()
            .filter(|line| !line.starts_with("GET "))
            .collect()
    }
}

/// How one attempt ended that did not succeed.
enum Attempt {
    Passing(String),
    Ended(Failure),
}

impl Attempt {
    /// A probe that could not be made is made again: what is said then is of the transport.
    fn of_probe(why: &str) -> Self {
        let is_transport = ["connection", "503", "500", "504", "409"]
            .iter()
            .any(|each| why.contains(each));
        match is_transport {
            true => Self::Passing(why.to_owned()),
            false => Self::Ended(Failure::Undecided(why.to_owned())),
        }
    }
}

/// A reason, for flags.
pub(super) fn reason(text: &str) -> Value {
    json!({"reason": text})
}
