//! Machines that are driven by their own management controllers, over Redfish (DMTF DSP0266) alone.
//!
//! There is no provisioner: a controller knows whether its machine is on, which drives it has, from
//! where it boots next and how its drives are erased, and nothing else. Provision state, retirement and
//! maintenance are in trueup's records only, so that setting them asks for nothing here, and a machine
//! that is on without a record counts as deployed (`ObservedNode::kept_by_records`).
//!
//! | step | what is done | done is |
//! | --- | --- | --- |
//! | power-on, power-off | asked for where it is not so; off gracefully first | read twice, a settling time apart |
//! | prepare | the machine is the one that is meant, and can boot from where it should; cleaned where planned | looked at again |
//! | deploy | off, boot override, on, wait | a TCP port, else the override is used up: unverified |
//! | destroy | clean steps, among them SecureErase of each drive, one request each; off | each ended; seen off |
//! | clean, provide | clean steps: erases, BIOS, comparisons, each once | each ended |
//!
//! Before each step, and in each observation, the machine is proven to be the one that the document means;
//! what is read of its system later must be that machine still, and a link that leads to another system of
//! the controller is refused.
//!
//! What must not be asked for twice is noted before it is asked for ([`notes`]), and where its answer was
//! lost, and no task tells of it, it is ambiguous.

mod bios;
mod boot;
mod clean;
mod controller;
mod deploy;
mod erase;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod inventory;
mod machine;
mod notes;
mod power;
mod resource;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::images::Images;
use super::written::for_node;
use crate::backend::http::{Client, Limits, Trust};
use crate::backend::{ActError, Context, Error, Hardware, Order, Pending, Probe, Secrets};
use crate::design::{
    CleaningPolicy, Design, HardwareBackend, NodeDesign, NodeName, Reference, WipePolicy,
};
use crate::diagnostic::{Diagnostic, Mark, chain};
use crate::identity::{Registry, Verdict};
use crate::observed::ObservedNode;
use crate::step::StepKind;

use machine::{AllKnown, Machine};
use power::Power;
use settings::{Settings, Source};

/// Machines that are looked at in the same moment.
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
    /// What was found out about each controller, so that it is not asked again.
    known: Mutex<AllKnown>,
    /// Which node is known by what.
    identities: Arc<Registry>,
}

/// The longest time for which what a dead process asked for can still come about.
pub(super) fn longest_request(backend: &HardwareBackend) -> Duration {
    match Settings::read(backend) {
        Ok(settings) => settings.longest_request(),
        // Settings that cannot be read are reported when the backend is opened.
        Err(_) => Duration::ZERO,
    }
}

impl Redfish {
    /// Opens the backend; nothing is asked of any machine.
    pub(super) fn open(
        backend: &HardwareBackend,
        mark: Mark,
        design: &Design,
        context: &Context,
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
            allow_plain_http: design.backends.allow_plain_http,
        };
        let limits = Limits {
            connect: settings.request.min(Limits::default().connect),
            request: settings.request,
            ..Limits::default()
        };
        let client = Client::new(&trust, limits).map_err(|error| broken(chain(&error)))?;
        let images = Images::of(design, backend, |node| match &settings.image {
            Some(image) if settings.deploy.from != Source::Pxe => vec![for_node(image, node)],
            _ => Vec::new(),
        });
        Ok(Self {
            settings,
            client: Arc::new(client),
            secrets: context.secrets.clone(),
            wipe: design.policy.wipe,
            images,
            cleaning: design.cleaning.clone(),
            known: Mutex::default(),
            identities: context.identities.clone(),
        })
    }

    async fn carry_out(&self, order: &Order) -> Result<(), ActError> {
        let kind = order.step.id.kind;
        match kind {
            StepKind::VerifySite => {
                self.verify_site()?;
                return self.images.verify(&self.client, order).await;
            }
            // The records keep these; a controller has no place for them.
            StepKind::PrepareSite
            | StepKind::SetRetired
            | StepKind::UnsetRetired
            | StepKind::SetMaintenance
            | StepKind::UnsetMaintenance => return Ok(()),
            // The records say that it is available; without clean steps nothing is asked of it.
            StepKind::Provide if has_no_clean_steps(order) => return Ok(()),
            _ => {}
        }
        let Some(node) = &order.node else {
            let message = format!("`{}` names no node", order.step.id);
            return Err(ActError::Permanent(Arc::from(message)));
        };
        let mut machine = self.reach(node).await?;
        let result = match machine.admit(order, node).await {
            Ok(()) => self.act_on(&machine, order, node).await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        result
    }

    /// Does a step on a machine that was proven to be the one that is meant.
    async fn act_on(
        &self,
        machine: &Machine<'_>,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<(), ActError> {
        match order.step.id.kind {
            StepKind::PowerOn => machine.switch_on(order).await,
            StepKind::PowerOff => machine.switch_off(order, self.settings.shutdown).await,
            StepKind::Manage => Ok(()),
            StepKind::Prepare => machine.prepare(order, node).await,
            StepKind::Provide => machine.clean_as_planned(order, node).await,
            StepKind::Deploy => machine.deploy(order, node).await,
            StepKind::Destroy => machine.destroy(order, node).await,
            StepKind::Clean => machine.clean(order, node).await,
            _ => {
                let message = format!("a management controller cannot do `{}`", order.step.id);
                Err(ActError::Permanent(Arc::from(message)))
            }
        }
    }

    /// What can be told without asking a machine: the account, and what machines boot from.
    fn verify_site(&self) -> Result<(), ActError> {
        let refuse = |message: String| Err(ActError::Permanent(Arc::from(message)));
        let deploy = &self.settings.deploy;
        if self.settings.image.is_none() && deploy.from != Source::Pxe {
            return refuse(
                "`hardware.redfish.image` does not say what machines boot from".to_owned(),
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

    async fn look_at_all(&self, nodes: &[Arc<NodeDesign>]) -> BTreeMap<NodeName, ObservedNode> {
        let mut looks: Vec<Pending<'_, (NodeName, ObservedNode)>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            looks.push(Box::pin(async move {
                (node.name.clone(), self.look(node).await)
            }));
        }
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        looks.collect().await
    }

    async fn tell(&self, order: &Order) -> Probe {
        let Some(node) = &order.node else {
            return Probe::NotBegun;
        };
        match order.step.id.kind {
            kind @ (StepKind::PowerOn | StepKind::PowerOff) => {
                let wanted = match kind {
                    StepKind::PowerOn => Power::On,
                    _ => Power::Off,
                };
                // What cannot be seen may be asked for again: it is a level.
                let told = self.probe_level(node, wanted).await;
                told.unwrap_or(Probe::NotBegun)
            }
            StepKind::Deploy => deploy::probe(order, node),
            _ if notes::standings(&order.notes).is_empty() => Probe::NotBegun,
            StepKind::Destroy | StepKind::Clean | StepKind::Prepare | StepKind::Provide => {
                let told = self.probe_once_only(node, order).await;
                told.unwrap_or_else(|error| Probe::Ambiguous(Arc::from(error.to_string())))
            }
            // All else can be repeated without harm.
            _ => Probe::NotBegun,
        }
    }

    async fn probe_level(&self, node: &NodeDesign, wanted: Power) -> Result<Probe, ActError> {
        let mut machine = self.reach(node).await?;
        let told = match machine.is_meant(node).await {
            Ok(()) => machine.probe_power(wanted).await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        told
    }

    async fn probe_once_only(&self, node: &NodeDesign, order: &Order) -> Result<Probe, ActError> {
        let mut machine = self.reach(node).await?;
        let told = match machine.is_meant(node).await {
            Ok(()) => machine.probe_once_only(order).await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        told
    }

    /// The policy's priorities of clean steps for a node.
    fn priorities(&self, node: &NodeDesign) -> BTreeMap<Arc<str>, u32> {
        let policy = self.cleaning.iter().find(|policy| policy.is_about(node));
        policy.map_or_else(BTreeMap::new, |policy| policy.priorities.clone())
    }
}

impl Hardware for Redfish {
    fn observe<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, ObservedNode>> {
        Box::pin(async move {
            let mut seen: BTreeMap<NodeName, ObservedNode> = self.look_at_all(nodes).await;
            // Only when all were seen it is known which values several boards share.
            let undecided = |node: &&Arc<NodeDesign>| {
                let verdict = self.identities.judge_again(node.name.as_str());
                matches!(verdict, Some(Verdict::NeedsMacs(_)))
            };
            let again: Vec<Arc<NodeDesign>> = nodes.iter().filter(undecided).cloned().collect();
            if !again.is_empty() {
                seen.extend(self.look_at_all(&again).await);
            }
            seen
        })
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(self.tell(order))
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.carry_out(order))
    }
}

/// The time that a step has, a little less than its bound, so that it can say itself what it waited for.
fn time_of(order: &Order) -> Duration {
    match order.step.timeout {
        0 => UNBOUNDED,
        seconds => Duration::from_secs(seconds).mul_f64(0.95),
    }
}

fn has_no_clean_steps(order: &Order) -> bool {
    let parameters = order.step.parameters.as_ref();
    parameters.is_none_or(|parameters| parameters.clean_steps.is_empty())
}

/// Whether a reference is another one for each node.
fn is_of_each_node(reference: &Reference) -> bool {
    match reference {
        Reference::Env(text) | Reference::File(text) => text.contains("{node}"),
        Reference::Exec(words) => words.iter().any(|word| word.contains("{node}")),
    }
}
