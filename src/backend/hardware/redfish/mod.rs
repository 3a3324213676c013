//! Machines that are driven by their own management controllers, over Redfish (DMTF DSP0266) alone.
//!
//! There is no provisioner: a controller knows whether its machine is on, which drives it has, from
//! where it boots next and how its drives are erased, and nothing else. Provision state, retirement and
//! maintenance are in trueup's records only, so that setting them asks for nothing here, and a machine
//! that is on without a record counts as deployed (`ObservedNode::kept_by_records`).
//!
//! | step | what is done | done is |
//! | --- | --- | --- |
//! | power-on, power-off | asked for if it is not so; off gracefully first | read twice, a settling time apart |
//! | prepare | the machine is the one that is meant, and can boot from where it should; cleaned where planned | observed again |
//! | deploy | RAID volumes where it makes some ([`volumes`]); off, boot override, on, wait | a TCP port, else the override is used up: unverified |
//! | destroy | clean steps, among them SecureErase of each drive, one request each; off | each ended; observed off |
//! | service | updates, pending values, off, on ([`service`]) | all values read again |
//! | rotate-bmc-password | the account's password, changed and tried ([`password`]) | it was accepted |
//! | clean, provide | clean steps: erases, BIOS, comparisons, each once | each ended |
//!
//! Before each step, and in each observation, the machine is proven to be the one that the document means;
//! what is read of its system later must be that machine still, and a link that leads to another system of
//! the controller is refused.
//!
//! A request that must not be repeated is noted before it is sent ([`notes`]), and where its answer was
//! lost, and no task tells of it, it is ambiguous.

mod attributes;
mod bios;
mod boot;
mod boot_order;
mod clean;
mod console;
mod controller;
mod deploy;
mod drive;
mod ending;
mod erase;
mod event_log;
mod evidence;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod inventory;
mod layout;
mod machine;
mod media;
mod network_protocol;
mod notes;
mod password;
mod power;
mod powered;
mod resource;
mod service;
mod session;
mod settings;
mod shapes;
mod task;
#[cfg(test)]
mod tests;
mod values;
mod volumes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::driver::{Driver, Result, StepTarget, carry_out, is_flag};
use super::images::Images;
use super::proof::Evidence;
use super::written::for_node;
use crate::backend::http::{Client, HttpLimits, Trust};
use crate::backend::{
    ActError, BackendContext, Console, Error, Looks, Order, Pending, Probe, Secret, Secrets,
};
use crate::design::{CleaningPolicy, HardwareBackend, NodeDesign, NodeName, Reference, WipePolicy};
use crate::diagnostic::{Diagnostic, Mark, chain};
use crate::guard::Guarded;
use crate::identity::{Registry, Verdict};
use crate::observed::{LearnedHardware, ObservedNode, ObservedNodes};
use crate::step::StepKind;
use crate::threads::lock;

use evidence::Reports;
use machine::{KnownControllers, Machine};
use powered::Power;
use session::SessionPool;
use settings::{Settings, Source};
use shapes::Remembered;

/// Machines that are observed at once.
const AT_ONCE: usize = 64;
/// How long a step may take that has no bound of its own.
const UNBOUNDED: Duration = Duration::from_secs(3600);

/// Machines by their controllers.
#[derive(Debug)]
pub(super) struct Redfish {
    settings: Settings,
    client: Arc<Client>,
    secrets: Arc<dyn Secrets>,
    wipe: WipePolicy,
    cleaning: Vec<CleaningPolicy>,
    images: Images,
    /// Where the systems of machines report.
    reports: Reports,
    /// The password of each controller whose replacement was interrupted that it accepts; `None`: neither.
    taken: Mutex<HashMap<NodeName, Option<Secret>>>,
    /// The nodes without a pending password.
    without_pending: Mutex<HashSet<NodeName>>,
    /// Facts about each controller, so that it is not asked again.
    known: Mutex<KnownControllers>,
    /// Which node is known by what.
    identities: Arc<Registry>,
    looks: Arc<Looks>,
    /// How controllers took what they were asked for.
    remembered: Arc<Remembered>,
    /// Sessions that a run keeps.
    kept: Arc<SessionPool>,
}

/// The longest time for which what a dead process asked for can still come about.
pub(super) fn longest_request(backend: &HardwareBackend) -> Duration {
    match Settings::read(backend) {
        Ok(settings) => settings.longest_request(),
        // Settings that cannot be read are reported when the backend is opened.
        Err(_) => Duration::ZERO,
    }
}

/// The image that a machine boots from.
fn boot_image(settings: &Settings, node: &NodeDesign) -> Option<String> {
    let image = settings.image.as_ref();
    let image = image.filter(|_| settings.deploy.from != Source::Pxe);
    image.map(|image| for_node(image, node))
}

/// The image that each machine of a backend boots from, and whether the machine fetches it, not its controller.
///
/// # Errors
///
/// The settings cannot be read, with their place.
pub(super) fn boot_images(
    backend: &HardwareBackend,
) -> Result<impl Fn(&NodeDesign) -> Option<(String, bool)>, Error> {
    let settings = Settings::read(backend).map_err(Error::Settings)?;
    let is_own = settings.deploy.from == Source::UefiHttp;
    Ok(move |node: &NodeDesign| Some((boot_image(&settings, node)?, is_own)))
}

impl Redfish {
    /// Opens the backend; nothing is asked of any machine.
    pub(super) fn open(
        backend: &HardwareBackend,
        mark: Mark,
        site: &Guarded,
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend).map_err(Error::Settings)?;
        let authorities = settings.authorities.as_ref();
        let at = authorities.map_or(mark, |authorities| authorities.mark);
        let broken = |message: String| {
            let diagnostic = Diagnostic::error("rule-backend-trust", at, message);
            Error::Settings(Box::new(diagnostic))
        };
        let authorities = authorities
            .map(|reference| context.secrets.reveal(&reference.value))
            .transpose()
            .map_err(|error| broken(format!("the certificates to trust cannot be had: {error}")))?;
        let trust = Trust {
            authorities,
            fingerprints: settings.fingerprints.clone(),
            verify: settings.verify,
            identity: None,
            allow_plain_http: site.guards().backends.allow_plain_http,
        };
        let limits = HttpLimits {
            connect: settings.request.min(HttpLimits::default().connect),
            request: settings.request,
            ..HttpLimits::default()
        };
        let client = Client::new(&trust, limits).map_err(|error| broken(chain(&error)))?;
        let images = Images::of(site, backend, |node| {
            boot_image(&settings, node).into_iter().collect()
        });
        Ok(Self {
            reports: Reports::of(site, backend, &settings.deploy),
            settings,
            client: Arc::new(client),
            secrets: context.secrets.clone(),
            wipe: site.guards().policy.wipe,
            images,
            cleaning: site.guards().cleaning.clone(),
            taken: Mutex::default(),
            without_pending: Mutex::default(),
            known: Mutex::default(),
            identities: context.identities.clone(),
            looks: context.looks.clone(),
            remembered: Arc::new(Remembered::of(context.cache.clone(), site.site.as_str())),
            kept: Arc::default(),
        })
    }

    /// Checks without a request to a machine: the account, and the image.
    fn verify_settings(&self) -> Result<()> {
        let refuse = |message: String| Err(ActError::Permanent(Arc::from(message)));
        let deploy = &self.settings.deploy;
        if self.settings.image.is_none() && deploy.from != Source::Pxe {
            return refuse(
                "`hardware.redfish.image` is not set, so there is no image to boot machines from"
                    .to_owned(),
            );
        }
        if let Some(account) = &self.settings.account
            && !is_of_each_node(&account.password)
            && let Err(error) = self.secrets.reveal(&account.password)
        {
            return refuse(format!(
                "the password of the controllers cannot be had: {error}"
            ));
        }
        Ok(())
    }

    async fn look(&self, node: &NodeDesign) -> ObservedNode {
        let looked = async {
            let mut machine = self.reach(node).await?;
            let observed = match machine.prove(node).await {
                Ok(sight) => machine.observed(node, sight).await,
                Err(error) => Err(error),
            };
            machine.controller.log_out().await;
            observed
        };
        match looked.await {
            Ok(observed) => observed,
            Err(error) => ObservedNode::unknown(&error.to_string()),
        }
    }

    async fn learned(&self, node: &NodeDesign) -> Result<LearnedHardware> {
        let mut machine = self.reach(node).await?;
        let learned = match machine.is_meant(node).await {
            Ok(()) => machine.learned().await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        learned
    }

    async fn look_at_all(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        let mut looks: Vec<Pending<'_, (NodeName, Box<ObservedNode>)>> =
            Vec::with_capacity(nodes.len());
        for node in nodes {
            looks.push(Box::pin(async move {
                let seen = Box::new(self.look(node).await);
                self.looks.observed();
                (node.name.clone(), seen)
            }));
        }
        self.looks.ask(nodes.len());
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        looks.collect().await
    }

    /// How far a step is, told by the machine that is meant: `wanted`: how it is to be powered; `None`: by
    /// what was noted that must not be asked for twice.
    async fn probe_machine(
        &self,
        node: &NodeDesign,
        order: &Order,
        wanted: Option<Power>,
    ) -> Result<Probe> {
        let mut machine = self.reach(node).await?;
        let told = match (machine.is_meant(node).await, wanted) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(wanted)) => machine.probe_power(wanted).await,
            (Ok(()), None) if order.step.id.kind == StepKind::Deploy => {
                machine.probe_deploy(order, node).await
            }
            (Ok(()), None) if order.step.id.kind.sets_hardware() => {
                machine.probe_service(order).await
            }
            (Ok(()), None) => machine.probe_once_only(order).await,
        };
        machine.controller.log_out().await;
        told
    }

    /// The policy's priorities of clean steps for a node.
    fn priorities(&self, node: &NodeDesign) -> BTreeMap<Arc<str>, u32> {
        let policy = self.cleaning_of(node);
        policy.map_or_else(BTreeMap::new, |policy| policy.priorities.clone())
    }

    /// The policy of cleaning for a node.
    fn cleaning_of(&self, node: &NodeDesign) -> Option<&CleaningPolicy> {
        self.cleaning.iter().find(|policy| policy.is_about(node))
    }
}

impl StepTarget for Machine<'_> {
    async fn prove(&mut self, node: &NodeDesign) -> Result<Option<Evidence>> {
        let sight = self.prove(node).await?;
        let authority = self.controller.endpoint().authority();
        Ok(Some(Evidence {
            identity: sight.identity,
            proof: sight.proof,
            subject: format!("{}: {authority}", self.subject),
        }))
    }

    async fn act(&self, order: &Order, node: &NodeDesign) -> Result<()> {
        match order.step.id.kind {
            StepKind::PowerOn => {
                self.keep_from_installing(order, node).await?;
                self.switch_on(order, None).await
            }
            StepKind::PowerOff => self.switch_off(order, self.backend.settings.shutdown).await,
            StepKind::Manage => Ok(()),
            StepKind::Prepare => self.prepare(order, node).await,
            StepKind::Provide => self.clean_as_planned(order, node).await,
            StepKind::Deploy => self.deploy(order, node).await,
            StepKind::Destroy => self.destroy(order, node).await,
            StepKind::Clean => self.clean(order, node).await,
            StepKind::Service | StepKind::ServiceLive => self.service(order, node).await,
            StepKind::RotateBmcPassword => self.rotate_password(order, node).await,
            _ => {
                let message = format!("a management controller cannot do `{}`", order.step.id);
                Err(ActError::Permanent(Arc::from(message)))
            }
        }
    }

    async fn logged_since(&self, elapsed: Duration) -> Vec<String> {
        Machine::logged_since(self, elapsed).await
    }

    async fn leave(&mut self) {
        self.controller.log_out().await;
    }
}

impl Driver for Redfish {
    fn makes_raid(&self) -> bool {
        true
    }

    async fn learn_machine(&self, node: &NodeDesign) -> Result<LearnedHardware> {
        self.learned(node).await
    }

    async fn console_of(&self, node: &NodeDesign) -> Result<Console> {
        self.console(node).await
    }

    async fn observe_nodes(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        let mut seen: ObservedNodes = self.look_at_all(nodes).await;
        // Only when all were observed it is known which values several boards share.
        let undecided = |node: &&Arc<NodeDesign>| {
            let verdict = self.identities.judge_again(node.name.as_str());
            matches!(verdict, Some(Verdict::NeedsMacs(proof)) if !proof.is_proven())
        };
        let again: Vec<Arc<NodeDesign>> = nodes.iter().filter(undecided).cloned().collect();
        if !again.is_empty() {
            seen.extend(self.look_at_all(&again).await);
        }
        seen
    }

    async fn verify_site(&self, order: &Order) -> Result<()> {
        // A run begins with this.
        self.kept.begin();
        lock(&self.without_pending).clear();
        self.verify_settings()?;
        self.reports.verify(&self.client, order).await?;
        self.images.verify(&self.client, order).await
    }

    /// A controller has no place for flags, and what the records say is available needs nothing but its
    /// clean steps.
    fn is_kept_by_records(&self, order: &Order) -> bool {
        match order.step.id.kind {
            StepKind::Provide => order.step.given().clean_steps().is_empty(),
            kind => is_flag(kind),
        }
    }

    async fn probe_step(&self, order: &Order, node: &NodeDesign) -> Probe {
        match order.step.id.kind {
            kind @ (StepKind::PowerOn | StepKind::PowerOff) => {
                let wanted = match kind {
                    StepKind::PowerOn => Power::On,
                    _ => Power::Off,
                };
                // A failed observation may be repeated: it is a level.
                let told = self.probe_machine(node, order, Some(wanted)).await;
                told.unwrap_or(Probe::NotBegun)
            }
            StepKind::Deploy if !deploy::is_begun(order) => Probe::NotBegun,
            StepKind::Deploy => {
                let told = self.probe_machine(node, order, None).await;
                told.unwrap_or_else(|_| deploy::unknown(node))
            }
            StepKind::RotateBmcPassword => password::probe(self, order, node),
            StepKind::Service | StepKind::ServiceLive => {
                let told = self.probe_machine(node, order, None).await;
                // What was begun is found again by its act: an update that runs is followed.
                told.unwrap_or(match notes::states(&order.notes).is_empty() {
                    true => Probe::NotBegun,
                    false => Probe::UnderWay,
                })
            }
            _ if notes::states(&order.notes).is_empty() => Probe::NotBegun,
            StepKind::Destroy | StepKind::Clean | StepKind::Prepare | StepKind::Provide => {
                let told = self.probe_machine(node, order, None).await;
                told.unwrap_or_else(|error| Probe::Ambiguous(Arc::from(error.to_string())))
            }
            // All else can be repeated without harm.
            _ => Probe::NotBegun,
        }
    }

    /// The boot override and the image of a deploy that was ended without an act. Pending values and updates stay: few
    /// controllers drop what they have taken.
    async fn take_back_on(&self, order: &Order, node: &NodeDesign) -> Result<Probe> {
        match order.step.id.kind {
            StepKind::Deploy => {}
            StepKind::Service | StepKind::ServiceLive => {
                let unread = |why: &str| format!("how far its service is cannot be read: {why}");
                let left = match self.probe_machine(node, order, None).await {
                    Ok(probe @ (Probe::Done | Probe::NotBegun)) => return Ok(probe),
                    // Nothing was asked of it.
                    Err(_) if notes::states(&order.notes).is_empty() => return Ok(Probe::NotBegun),
                    Ok(Probe::UnderWay) => {
                        "its controller may keep the pending values and the updates that it has taken".to_owned()
                    }
                    Ok(Probe::Ambiguous(why)) => unread(&why),
                    Err(error) => unread(&error.to_string()),
                };
                let text = format!("node `{}`: {left}", node.name);
                return Err(ActError::Permanent(Arc::from(text)));
            }
            _ => return Ok(Probe::NotBegun),
        }
        let mut machine = self.reach(node).await?;
        let taken = match machine.is_meant(node).await {
            Ok(()) => machine.take_back(false).await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        taken.map(|()| Probe::NotBegun)
    }

    async fn leave_all(&self) {
        self.remembered.save();
        self.kept.end().await;
        self.looks.leave().await;
    }

    async fn act_on(&self, order: &Order, node: &NodeDesign) -> Result<()> {
        self.kept.begin();
        let machine = self.reach(node).await?;
        carry_out(machine, &self.identities, order, node).await
    }
}

/// The time that a step has, a little less than its bound, so that it can say itself what it waited for.
fn time_of(order: &Order) -> Duration {
    order.time().unwrap_or(UNBOUNDED)
}

/// Whether a reference is another one for each node.
fn is_of_each_node(reference: &Reference) -> bool {
    match reference {
        Reference::Env(text) | Reference::File(text) => text.contains("{node}"),
        Reference::Exec(words) | Reference::Store(words) => {
            words.iter().any(|word| word.contains("{node}"))
        }
    }
}
