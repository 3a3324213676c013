//! One machine behind its controller: where it is, which of the controller's systems it is.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::Redfish;
use super::controller::{Controller, Own, parts};
use super::drive::Drive;
use super::resource::{Resource, last};
use super::settings::{Scheme, Sessions, parameter};
use super::shapes::Make;
use crate::backend::ActError;
use crate::backend::hardware::terms::Terms;
use crate::backend::hardware::written::{for_node, reference_for, url_host};
use crate::backend::http::{Class, Credentials, Endpoint, Failure, plain};
use crate::design::{BackendKind, NodeDesign, NodeName};
use crate::identity::{Identity, Match, Proof, Shared, Verdict};
use crate::threads::lock;

/// Where systems are, if a service does not say it.
const SYSTEMS: &str = "/redfish/v1/Systems";
/// How long what was read of a machine is of use for a request that is read back.
const RECENT: Duration = Duration::from_millis(500);
/// How long the drives of a machine count as read for observations.
const DRIVES_STAY: Duration = Duration::from_secs(30);
/// Most systems of one controller that are read to find one by name.
const MOST_READ: usize = 100;

/// Facts about controllers, by node, and which node is which system.
#[derive(Debug, Default)]
pub(super) struct KnownControllers {
    nodes: HashMap<NodeName, KnownController>,
    owners: HashMap<(Arc<str>, Vec<String>), NodeName>,
}

/// Facts about a controller.
#[derive(Clone, Debug)]
pub(super) struct KnownController {
    authority: Arc<str>,
    system: Arc<str>,
    systems: Arc<str>,
    sessions: Option<Arc<str>>,
    tasks: Option<Arc<str>>,
    expands: u64,
    /// The MAC addresses of the machine that was proven to be this one without them.
    macs: Option<(Identity, BTreeSet<String>)>,
    /// The virtual drives that take images.
    media: Option<KnownMedia>,
    /// The drives of the machine that it was, and when they were read.
    drives: Option<(Instant, Option<Identity>, Vec<Drive>)>,
    /// The registry of the attributes of its BIOS, by its name.
    terms: Option<(Arc<str>, Arc<Terms>)>,
    /// Its system as it was read last, in which run and when.
    read: Option<(usize, Instant, Resource)>,
    /// How often something of it was changed.
    changes: usize,
}

/// The virtual drives of a machine that take images.
#[derive(Clone, Debug)]
pub(super) struct KnownMedia {
    pub(super) collection: Arc<str>,
    pub(super) drives: Vec<Arc<str>>,
    /// The one that took an image.
    pub(super) took: Option<Arc<str>>,
}

/// A machine that can be asked for something.
pub(super) struct Machine<'a> {
    pub(super) backend: &'a Redfish,
    pub(super) controller: Controller,
    node: NodeName,
    /// ``node `n04` ``, by which what is said about it begins.
    pub(super) subject: Arc<str>,
    /// The path of its system.
    pub(super) system: Arc<str>,
    /// The path of the collection in which its system is.
    systems: Arc<str>,
    /// The path of the task service.
    pub(super) tasks: Option<Arc<str>>,
    /// How deep its controller writes out what is linked.
    pub(super) expands: u64,
    /// The proven identity: each later read of its system must show the same.
    pub(super) identity: Option<Identity>,
    /// Its system as it was read last.
    last: Mutex<Option<(Instant, Resource)>>,
}

/// A machine as it was observed to be.
pub(super) struct Sight {
    pub(super) system: Resource,
    pub(super) identity: Identity,
    pub(super) proof: Proof,
}

impl Redfish {
    /// Finds a node's controller, logs in and finds its system.
    ///
    /// # Errors
    ///
    /// It has no address or no account that can be had, does not answer, or has no such system.
    pub(super) async fn reach(&self, node: &NodeDesign) -> Result<Machine<'_>, ActError> {
        let subject: Arc<str> = Arc::from(format!("node `{}`", node.name));
        let refuse = |text: String| ActError::Permanent(Arc::from(format!("{subject}: {text}")));
        let endpoint = self.endpoint(node).map_err(refuse)?;
        let account = self.taken_account(node, (&subject, &endpoint)).await?;
        let mut controller = self.controller(&subject, &endpoint, account);
        let found = self.find(&controller, node).await;
        let claimed = found.and_then(|known| {
            let known = known.map_err(refuse)?;
            match self.claim(node, &known) {
                Some(other) => Err(refuse(format!(
                    "its controller and system are those of node `{other}` too: name the system of each in \
                     `oob.system`"
                ))),
                None => Ok(known),
            }
        });
        let known = match claimed {
            Ok(known) => known,
            Err(error) => {
                controller.log_out().await;
                return Err(error);
            }
        };
        controller.keep_to(Own {
            system: known.system.clone(),
            systems: known.systems.clone(),
        });
        Ok(Machine {
            backend: self,
            controller,
            node: node.name.clone(),
            subject,
            system: known.system,
            systems: known.systems,
            tasks: known.tasks,
            expands: known.expands,
            identity: None,
            last: Mutex::default(),
        })
    }

    /// A controller that nothing was asked of yet.
    pub(super) fn controller(
        &self,
        subject: &Arc<str>,
        endpoint: &Endpoint,
        account: Option<Credentials>,
    ) -> Controller {
        let sessions = (self.looks.endings().clone(), self.kept.clone());
        let shared = (self.remembered.clone(), sessions);
        let (client, subject) = (self.client.clone(), subject.clone());
        Controller::new(client, subject, endpoint.clone(), account, shared)
    }

    /// Logs in, and finds the system of a node, from an earlier time if it is known. `Ok(Err(_))`: why it was not found.
    async fn find(
        &self,
        controller: &Controller,
        node: &NodeDesign,
    ) -> Result<Result<KnownController, String>, ActError> {
        let authority = controller.endpoint().authority();
        let known = self
            .known(node)
            .filter(|known| known.authority == *authority);
        if let Some(known) = known {
            controller.log_in(known.sessions.clone()).await?;
            return Ok(Ok(known));
        }
        let root = controller.root().await?;
        let sessions = match self.settings.sessions {
            Sessions::Auto => sessions_of(&root),
            Sessions::Never => None,
        };
        controller.log_in(sessions.clone()).await?;
        let own = parameter(node, "system");
        let general = self.settings.system.as_deref();
        let wanted = own.or_else(|| general.map(|text| for_node(text, node)));
        let found = find_system(controller, &root, wanted.as_deref(), node).await?;
        Ok(found.map(|system| KnownController {
            authority: authority.clone(),
            system,
            systems: Arc::from(root.link("/Systems").unwrap_or(SYSTEMS)),
            sessions,
            tasks: root.link("/Tasks").map(Arc::from),
            expands: root.expands(),
            macs: None,
            media: None,
            drives: None,
            terms: None,
            read: None,
            changes: 0,
        }))
    }

    /// Keeps which system a node is; gives the other node that is the same one.
    fn claim(&self, node: &NodeDesign, known: &KnownController) -> Option<NodeName> {
        let mut all = lock(&self.known);
        let place = (known.authority.clone(), parts(&known.system));
        let owner = all.owners.entry(place).or_insert_with(|| node.name.clone());
        if *owner != node.name {
            return Some(owner.clone());
        }
        // What was learned of it meanwhile stays.
        let is_same = |own: &KnownController| {
            (&own.authority, &own.system) == (&known.authority, &known.system)
        };
        if !all.nodes.get(&node.name).is_some_and(is_same) {
            all.nodes.insert(node.name.clone(), known.clone());
        }
        None
    }

    fn known(&self, node: &NodeDesign) -> Option<KnownController> {
        let known = lock(&self.known);
        known.nodes.get(&node.name).cloned()
    }

    fn endpoint(&self, node: &NodeDesign) -> Result<Endpoint, String> {
        let own = parameter(node, "address");
        let Some(address) = own.as_deref().or(node.out_of_band.address.as_deref()) else {
            let message = "it has no address of a management controller: `oob.network` names a network on \
                           which the node has an address, or `oob.address` says it";
            return Err(message.to_owned());
        };
        let host = url_host(address);
        let scheme = self.settings.scheme;
        let otherwise = BackendKind::Redfish.controller_port(scheme == Scheme::Http);
        let port = parameter(node, "port")
            .or_else(|| {
                self.settings
                    .port
                    .or(otherwise)
                    .map(|port| port.to_string())
            })
            .unwrap_or_default();
        let url = format!("{}://{host}:{port}", scheme.as_str());
        Endpoint::parse(&url).map_err(|error| error.to_string())
    }

    pub(super) fn account(&self, node: &NodeDesign) -> Result<Option<Credentials>, String> {
        let Some(account) = &self.settings.account else {
            return Ok(None);
        };
        let password = self
            .secrets
            .reveal(&reference_for(&account.password, node))
            .map_err(|error| format!("the password of its controller cannot be had: {error}"))?;
        Ok(Some(Credentials::Basic {
            username: account.username.clone(),
            password,
        }))
    }
}

impl Machine<'_> {
    /// A fact about its controller that an earlier step has found.
    fn fact<T>(&self, read: impl FnOnce(&KnownController) -> Option<T>) -> Option<T> {
        let known = lock(&self.backend.known);
        known.nodes.get(&self.node).and_then(read)
    }

    /// Keeps a fact about its controller for later steps.
    fn learn(&self, change: impl FnOnce(&mut KnownController)) {
        let mut known = lock(&self.backend.known);
        if let Some(known) = known.nodes.get_mut(&self.node) {
            change(known);
        }
    }

    /// Keeps if its virtual drives are.
    pub(super) fn has_media(&self, collection: &Arc<str>, drives: &[Resource]) {
        let media = KnownMedia {
            collection: collection.clone(),
            drives: drives.iter().map(|drive| drive.path.clone()).collect(),
            took: None,
        };
        self.learn(|known| known.media = Some(media));
    }

    /// Keeps that a virtual drive took an image.
    pub(super) fn took_image(&self, drive: &Arc<str>) {
        let drive = drive.clone();
        self.learn(|known| {
            if let Some(media) = &mut known.media {
                media.took = Some(drive);
            }
        });
    }

    /// Its virtual drives, if they were looked for before.
    pub(super) fn known_media(&self) -> Option<KnownMedia> {
        self.fact(|known| known.media.clone())
    }

    /// Its drives as they were read last, if that was a short time ago, of the same machine, and a run is under way, which
    /// observes them before each step. What erases reads them anew.
    pub(super) fn known_drives(&self) -> Option<Vec<Drive>> {
        if !self.backend.kept.is_run() {
            return None;
        }
        let (at, of, drives) = self.fact(|known| known.drives.clone())?;
        (at.elapsed() < DRIVES_STAY && of == self.identity).then_some(drives)
    }

    /// Keeps its drives for the next observations.
    pub(super) fn has_drives(&self, drives: &[Drive]) {
        let read = (Instant::now(), self.identity.clone(), drives.to_vec());
        self.learn(|known| known.drives = Some(read));
    }

    /// The terms of the attributes of its BIOS, where this registry of them was read.
    pub(super) fn known_terms(&self, registry: &str) -> Option<Arc<Terms>> {
        let (name, terms) = self.fact(|known| known.terms.clone())?;
        (*name == *registry).then_some(terms)
    }

    /// Keeps the terms of the attributes of its BIOS.
    pub(super) fn has_terms(&self, registry: &str, terms: &Arc<Terms>) {
        let read = (Arc::from(registry), terms.clone());
        self.learn(|known| known.terms = Some(read));
    }

    /// Reads the machine: the system that was asked for, and the machine that it was proven to be.
    pub(super) async fn read_system(&self) -> Result<Resource, ActError> {
        let begun = self.changed();
        let system = self.controller.get(&self.system).await?;
        self.own(system, begun)
    }

    /// Its system as a step or an observation of this run has read it a moment ago, and nothing has changed it since: the next
    /// one begins with it.
    fn just_read(&self) -> Option<Resource> {
        let now = self.backend.kept.run()?;
        let (run, at, system) = self.fact(|known| known.read.clone())?;
        if run != now || at.elapsed() >= RECENT {
            return None;
        }
        *lock(&self.last) = Some((at, system.clone()));
        Some(system)
    }

    /// How often something of it was changed.
    fn changed(&self) -> usize {
        self.fact(|known| Some(known.changes)).unwrap_or_default()
    }

    /// The resource that was read, if it is of the system and the machine that it should be; `begun`: how often it had been
    /// changed when the read began.
    fn own(&self, system: Resource, begun: usize) -> Result<Resource, ActError> {
        let system = self.is_own(system)?;
        let now = Instant::now();
        *lock(&self.last) = Some((now, system.clone()));
        if let Some(run) = self.backend.kept.run() {
            let read = (run, now, system.clone());
            self.learn(|known| {
                // What was read while it was changed may be older than the change.
                if known.changes == begun {
                    known.read = Some(read);
                }
            });
        }
        Ok(system)
    }

    fn is_own(&self, system: Resource) -> Result<Resource, ActError> {
        if let Some(own) = system.text("/@odata.id")
            && parts(own) != parts(&self.system)
        {
            let own = plain(own, 160);
            return self.refuse(&format!(
                "its controller shows the system {own} in the place of {}: links that lead to another \
                 system are not followed",
                self.system
            ));
        }
        if let Some(proven) = &self.identity
            && let Match::Differs(how) = proven.compare(&identity_of(&system), &Shared::new())
        {
            return self.refuse(&format!("it has become another machine: {how}"));
        }
        Ok(system)
    }

    /// Reads the machine while something of it is waited for: a bad answer can pass then, unless it is about the login or
    /// the identity.
    pub(super) async fn sample(&self) -> Result<Resource, ActError> {
        let meaning = |failure: Failure| match failure.status().map(|status| status.as_u16()) {
            None | Some(401 | 403) => failure,
            Some(_) => failure.meaning(Class::Passing),
        };
        let begun = self.changed();
        let system = self.controller.get(&self.system).await.map_err(meaning)?;
        self.own(system, begun)
    }

    /// Whether its controller lists its system, and does not show it.
    pub(super) async fn is_hidden(&self) -> Result<bool, ActError> {
        if self.controller.get_if_there(&self.system).await?.is_some() {
            return Ok(false);
        }
        let members = self.controller.members(&self.systems).await?;
        let own = parts(&self.system);
        Ok(members.iter().any(|member| parts(member) == own))
    }

    /// Whether its controller has no other system.
    pub(super) async fn is_only_system(&self) -> Result<bool, ActError> {
        let members = self.controller.members(&self.systems).await;
        Ok(members?.len() == 1)
    }

    /// Something of it changes: what was read of it before is of no use any more.
    pub(super) fn changes(&self) {
        *lock(&self.last) = None;
        self.learn(|known| {
            known.read = None;
            known.changes += 1;
        });
    }

    /// The machine as it was read a moment ago, for what decides nothing by itself; else it is read.
    pub(super) async fn recent(&self) -> Result<Resource, ActError> {
        let last = lock(&self.last).clone();
        match last {
            Some((at, system)) if at.elapsed() < RECENT => Ok(system),
            _ => self.sample().await,
        }
    }

    /// The machine as this step has read it last, however long ago, if the step has changed nothing of it since; else it is
    /// read. A change that names an older version of it is refused, and sent again with that of now.
    pub(super) async fn unchanged(&self) -> Result<Resource, ActError> {
        let last = lock(&self.last).clone();
        match last {
            Some((_, system)) => Ok(system),
            None => self.sample().await,
        }
    }

    /// Observes whether it is the machine that the document means. Its MAC addresses are read only if
    /// nothing else decides; if all else proves it, once for as long as it is the same.
    pub(super) async fn prove(&mut self, node: &NodeDesign) -> Result<Sight, ActError> {
        let system = match self.just_read() {
            Some(system) => self.is_own(system)?,
            None => self.read_system().await?,
        };
        let mut identity = identity_of(&system);
        let (registry, name) = (&self.backend.identities, node.name.as_str());
        let designed = node.identity();
        let mut verdict = registry.judge(name, &designed, &identity);
        if matches!(verdict, Verdict::NeedsMacs(_)) {
            let macs = match (&verdict, self.fact(|known| known.macs.clone())) {
                (Verdict::NeedsMacs(Proof::Proven), Some((of, macs))) if of == identity => macs,
                _ => {
                    let macs = verdict.macs_of(self.interfaces(&system).await)?;
                    let found = (identity.clone(), macs.clone());
                    self.learn(|known| known.macs = Some(found));
                    macs
                }
            };
            identity = identity.with_macs(macs.iter().map(|mac| &**mac));
            verdict = registry.judge(name, &designed, &identity);
        }
        registry.observe(name, &designed, &identity);
        self.identity = Some(identity.clone());
        self.controller.is_made(Make::of(&system));
        Ok(Sight {
            system,
            identity,
            proof: verdict.into_proof(),
        })
    }

    /// Refuses another machine than the one that the document means.
    pub(super) async fn is_meant(&mut self, node: &NodeDesign) -> Result<(), ActError> {
        match self.prove(node).await?.proof {
            Proof::Refused(why) => self.refuse(&why),
            Proof::Proven | Proof::Unverified(_) => Ok(()),
        }
    }

    /// Something that cannot be done to this machine.
    pub(super) fn refuse<T>(&self, text: &str) -> Result<T, ActError> {
        Err(self.permanent(text))
    }

    /// The error that something stays as it is.
    pub(super) fn permanent(&self, text: &str) -> ActError {
        ActError::Permanent(Arc::from(self.about(text)))
    }

    /// A sentence about it: the node, its controller, the text.
    pub(super) fn about(&self, text: &str) -> String {
        let authority = self.controller.endpoint().authority();
        format!("{}: {authority}: {text}", self.subject)
    }
}

/// Finds the system that is meant; without a name the only one, else the one that is called like the node.
/// `Ok(Err(_))`: why it was not found.
async fn find_system(
    controller: &Controller,
    root: &Resource,
    wanted: Option<&str>,
    node: &NodeDesign,
) -> Result<Result<Arc<str>, String>, Failure> {
    if let Some(path) = wanted.filter(|wanted| wanted.starts_with('/')) {
        return Ok(Ok(Arc::from(path)));
    }
    let systems = root.link("/Systems").unwrap_or(SYSTEMS);
    if let Some(wanted) = wanted
        && is_one_part(wanted)
    {
        let path = format!("{}/{wanted}", systems.trim_end_matches('/'));
        if let Some(system) = controller.get_if_there(&path).await?
            && is_called(&system, wanted)
            && is_where_it_says(&system)
        {
            return Ok(Ok(system.path));
        }
    }
    let members = controller.members(systems).await?;
    if let ([only], None) = (&members[..], wanted) {
        return Ok(Ok(only.clone()));
    }
    let wanted = wanted.unwrap_or(node.name.as_str());
    let by_path = |path: &&Arc<str>| last(path).eq_ignore_ascii_case(wanted);
    if let Some(path) = members.iter().find(by_path) {
        return Ok(Ok(path.clone()));
    }
    for path in members.iter().take(MOST_READ) {
        let system = controller.get(path).await?;
        if is_called(&system, wanted) {
            return Ok(Ok(path.clone()));
        }
    }
    let wanted = plain(wanted, 80);
    Ok(Err(match members.len() {
        0 => "its controller has no system".to_owned(),
        count if count > MOST_READ => format!(
            "its controller has {count} systems, too many to look for `{wanted}` among them: name it by \
             path or id in `oob.system`"
        ),
        count => format!(
            "its controller has {count} systems, and none has the id, UUID or name `{wanted}`: name it in \
             `oob.system`"
        ),
    }))
}

/// Where a service has sessions opened.
pub(super) fn sessions_of(root: &Resource) -> Option<Arc<str>> {
    let own = root.link("/Links/Sessions").map(Arc::from);
    own.or_else(|| {
        let service = root.link("/SessionService")?.trim_end_matches('/');
        Some(Arc::from(format!("{service}/Sessions")))
    })
}

/// Whether a text can be the last part of a path as it is.
pub(super) fn is_one_part(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !text.is_empty() && text != "." && text != ".." && text.chars().all(fits)
}

/// Whether a system was read from its own path, not by another name for it.
fn is_where_it_says(system: &Resource) -> bool {
    let own = system.text("/@odata.id");
    own.is_none_or(|own| parts(own) == parts(&system.path))
}

/// The identity that a system shows.
fn identity_of(system: &Resource) -> Identity {
    Identity::of(system.text("/UUID"), system.text("/SerialNumber"))
}

fn is_called(system: &Resource, wanted: &str) -> bool {
    ["/Id", "/UUID", "/Name", "/HostName", "/SerialNumber"]
        .into_iter()
        .filter_map(|pointer| system.text(pointer))
        .any(|name| name.eq_ignore_ascii_case(wanted))
}
