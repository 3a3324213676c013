//! Machines that Ironic moves: enrol, manage, inspect, clean, deploy, tear down, retire.
//!
//! Ironic takes verbs that it should not take in a state, and refuses some that the specifications
//! promise; so every verb passes trueup's own table ([`crate::lifecycle::step`]) before it is sent, and
//! what Ironic alone would break (a retired machine that becomes available where cleaning is off) is kept
//! here. 202 is acceptance, not success: the node is polled until the operation ended, by one list for
//! all who wait (`poll`). What must happen at most once leaves a marker first (`mark`).

mod api;
mod enrol;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod mark;
mod node;
mod own_steps;
mod raid;
mod service;
mod settings;
mod steps;
mod values;
mod verbs;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;

use api::Api;
pub use settings::Settings;
use settings::{Account, Enrolment};

use super::driver::{self, Driver, Result, carry_out};
use super::images::Images;
use super::poll::Watch;
use super::proof::proven;
use super::provided::EVERYTHING;
use super::provisioner::{Provisioner, Roster, Task};
use crate::backend::http::{Client, Credentials, HttpLimits, Trust};
use crate::backend::{ActError, BackendContext, Error, Order, Probe, Secrets};
use crate::design::{HardwareBackend, NodeDesign, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Node as Written};
use crate::guard::Guarded;
use crate::identity::{Identity, Proof, Verdict};
use crate::observed::{LearnedHardware, ListedMachine, ObservedNode, ObservedNodes};
use crate::step::StepKind;
use node::Node;
use steps::NodeSteps;

/// Most requests to Ironic at once.
const PER_HOST: usize = 16;
/// The largest answer: a page of a thousand nodes with much in their `extra`.
const LARGEST: usize = 64 << 20;

/// An Ironic and what a site's design says about its use.
pub struct Ironic {
    settings: Settings,
    api: Arc<Api>,
    watch: Arc<Watch<Api>>,
    secrets: Arc<dyn Secrets>,
    roster: Roster,
    images: Images,
}

impl Ironic {
    /// Opens the backend; nothing is asked of Ironic yet. `written`: if the document names it.
    ///
    /// # Errors
    ///
    /// A setting does not fit, two machines have one name in Ironic, or a secret cannot be had.
    pub fn open(
        site: &Guarded,
        backend: &HardwareBackend,
        written: &Written,
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend, written.mark).map_err(Error::Settings)?;
        let roster = Roster::of(site, ("ironic", "Ironic"), settings::CODE, context);
        let roster = roster.map_err(Error::Settings)?;
        let secret = |reference: &Marked<Reference>| {
            context.secrets.reveal(&reference.value).map_err(|error| {
                let message = format!("a secret of the backend `ironic` cannot be had: {error}");
                refusal(reference.mark, message)
            })
        };
        let credentials = match &settings.account {
            Account::None => None,
            Account::Basic { username, password } => Some(Credentials::Basic {
                username: username.clone(),
                password: secret(password)?,
            }),
            Account::Token(token) => Some(Credentials::Header {
                name: "x-auth-token",
                value: secret(token)?,
            }),
        };
        let trust = Trust {
            authorities: settings.authorities.as_ref().map(secret).transpose()?,
            verify: settings.verify,
            allow_plain_http: site.guards().backends.allow_plain_http,
            ..Trust::default()
        };
        let limits = HttpLimits {
            request: settings.request_timeout,
            body: LARGEST,
            per_host: PER_HOST,
            ..HttpLimits::default()
        };
        let client = Client::new(&trust, limits)
            .map_err(|error| refusal(written.mark, error.to_string()))?;
        let images = Images::of(site, backend, |node| {
            let image = settings.image.as_ref();
            image.map_or_else(Vec::new, |image| enrol::images(node, image))
        });
        let api = Arc::new(Api::new(client, settings.endpoint.clone(), credentials));
        Ok(Self {
            settings,
            watch: Arc::new(Watch::new(api.clone())),
            api,
            secrets: context.secrets.clone(),
            roster,
            images,
        })
    }

    /// The error for a machine that Ironic does not have and that cannot be enrolled.
    fn not_enrolled(&self, name: &str) -> String {
        let not_found = self.not_found(name);
        format!("{not_found}, and the settings name no `driver` to enrol it with")
    }

    /// The identity of a machine in the document; a node that is named by its UUID is identified by that.
    fn designed(&self, node: &NodeDesign) -> Identity {
        let designed = node.identity();
        match self.roster.names.get(&node.name) {
            Some(name) if uuid::Uuid::try_parse(name).is_ok() => designed.in_provisioner(name),
            _ => designed,
        }
    }

    /// Whether a node of Ironic is of the machine that the document means; `macs`: those of its ports, as
    /// far as they were asked for.
    fn judge(&self, node: &NodeDesign, found: &Node, macs: &[Arc<str>]) -> (Identity, Verdict) {
        let identity = found.identity(macs);
        let verdict = self.roster.judge(node, &self.designed(node), &identity);
        (identity, verdict)
    }

    /// The MAC addresses of all ports, by node, by one list; none if nothing depends on them.
    async fn ports_where_needed<'n>(
        &self,
        nodes: &[Arc<NodeDesign>],
        found: impl Fn(&NodeDesign) -> Option<&'n Node>,
    ) -> HashMap<Arc<str>, Vec<Arc<str>>> {
        for node in nodes {
            if let Some(found) = found(node) {
                self.judge(node, found, &[]);
            }
        }
        let needs = |node: &Arc<NodeDesign>| {
            let verdict = self.roster.identities.judge_again(node.name.as_str());
            found(node).is_some() && matches!(verdict, Some(Verdict::NeedsMacs(_)))
        };
        if !nodes.iter().any(needs) {
            return HashMap::new();
        }
        // What cannot be listed proves nothing.
        self.api.ports(None).await.unwrap_or_default()
    }
}

fn refusal(mark: Mark, message: String) -> Error {
    Error::Settings(Box::new(Diagnostic::error(settings::CODE, mark, message)))
}

impl Provisioner for Ironic {
    type Object = Node;

    fn roster(&self) -> &Roster {
        &self.roster
    }

    async fn find(&self, task: &Task<'_, Self>) -> Result<Option<Node>> {
        // What a list does not show, or could not be had, is asked for by itself.
        match self.watch.list().await.find(&task.name) {
            Some(node) => Ok(Some(node.clone())),
            None => Ok(self.api.node(&task.subject, &task.name).await?),
        }
    }

    async fn prove(&self, node: &NodeDesign, found: &Node) -> Result<(Identity, Proof)> {
        if mark::is_being_enrolled(found, &node.name) {
            let ports = self.api.ports(Some(&found.uuid)).await?;
            if ports.is_empty() {
                let proof = self.roster.proof_before(node, &self.designed(node));
                return Ok((Identity::default(), proof));
            }
        }
        let (mut identity, mut verdict) = self.judge(node, found, &[]);
        if matches!(verdict, Verdict::NeedsMacs(_)) {
            let ports = verdict.macs_of(self.api.ports(Some(&found.uuid)).await)?;
            let macs = ports.get(&found.uuid).map_or(&[][..], Vec::as_slice);
            (identity, verdict) = self.judge(node, found, macs);
        }
        Ok((identity, verdict.into_proof()))
    }

    fn not_found(&self, name: &str) -> String {
        format!("Ironic has no node `{name}`")
    }
}

impl Driver for Ironic {
    fn makes_raid(&self) -> bool {
        true
    }

    async fn observe_nodes(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        let listed = self.watch.list().await;
        if let Err(why) = &listed.objects {
            return driver::unknown(nodes, why);
        }
        let found = |node: &NodeDesign| listed.find(&self.roster.name_of(&node.name));
        let ports = self.ports_where_needed(nodes, found).await;
        let observed = |node: &Arc<NodeDesign>| {
            let policy = self.roster.automated_clean(node);
            let observed = match found(node) {
                Some(found) => {
                    let cleaned = policy.or(found.automated_clean).unwrap_or(true);
                    let macs = ports.get(&found.uuid).map_or(&[][..], Vec::as_slice);
                    let (identity, verdict) = self.judge(node, found, macs);
                    let is_new = macs.is_empty() && mark::is_being_enrolled(found, &node.name);
                    match is_new {
                        // It gets its port, as one that is still to be made.
                        true => ObservedNode {
                            proof: self.roster.proof_before(node, &self.designed(node)),
                            ..found.observed(cleaned)
                        },
                        false => proven(identity, verdict.into_proof(), found.observed(cleaned)),
                    }
                }
                None if self.settings.enrolment.is_some() => ObservedNode {
                    // It gets a port with the MAC address of the document.
                    proof: self.roster.proof_before(node, &self.designed(node)),
                    ..node::not_enrolled(policy.unwrap_or(true))
                },
                None => ObservedNode::unknown(&self.not_enrolled(&self.roster.name_of(&node.name))),
            };
            (node.name.clone(), Box::new(observed))
        };
        let mut observed: ObservedNodes = nodes.iter().map(observed).collect();
        for node in nodes {
            let unsupported = self.unsupported(node, found(node).is_none()).await;
            if let Some(observed) = observed.get_mut(&node.name) {
                observed.unsupported = unsupported;
                if found(node).is_none() {
                    observed.fixed = raid::not_made(node, &node::Node::default()).into();
                }
            }
        }
        let machines = driver::documented(nodes, &mut observed, found);
        self.compare_hardware(machines).await;
        observed
    }

    async fn list_machines(&self) -> Result<Vec<ListedMachine>> {
        let round = self.watch.list().await;
        let mut machines = round.machines()?;
        let mut ports = self.api.ports(None).await?;
        for machine in &mut machines {
            let node = round.find(&machine.name);
            let ports = node.and_then(|node| ports.remove(&node.uuid));
            machine.macs = ports.into_iter().flatten().collect();
        }
        Ok(machines)
    }

    async fn learn_machine(&self, node: &NodeDesign) -> Result<LearnedHardware> {
        let name = self.roster.name_of(&node.name);
        let subject = format!("node `{}`", node.name);
        let found = self.api.node(&subject, &name).await?;
        let refuse = |text: &str| ActError::Permanent(format!("{subject}: {text}").into());
        let found = found.ok_or_else(|| refuse(&self.not_found(&name)))?;
        let (_, proof) = Provisioner::prove(self, node, &found).await?;
        if let Proof::Refused(why) = proof {
            return Err(refuse(&why));
        }
        let all = EVERYTHING.map(Arc::from);
        Ok(self
            .api
            .values(&subject, &found.uuid, &all)
            .await?
            .learned())
    }

    async fn verify_site(&self, order: &Order) -> Result<()> {
        let api = &self.api;
        let version = api.version().await?;
        api.check_access().await?;
        let mut said = format!(
            "Ironic at {}, version {version} of its API",
            api.authority()
        );
        if !self.settings.verify {
            said.push_str("; its certificate is not verified");
        }
        order.reporter.progress(said);
        if let Some(Enrolment { driver, .. }) = &self.settings.enrolment {
            let drivers = api.drivers().await?;
            if !drivers.iter().any(|known| *known == **driver) {
                let known = drivers.join(", ");
                let text = format!("Ironic has no driver `{driver}`; it has: {known}");
                return Err(ActError::Permanent(Arc::from(text)));
            }
        }
        self.images.verify(api.client(), order).await
    }

    async fn probe_step(&self, order: &Order, node: &NodeDesign) -> Probe {
        NodeSteps::new(self, order, node).probe().await
    }

    async fn take_back_on(&self, order: &Order, node: &NodeDesign) -> Result<Probe> {
        match order.step.id.kind {
            StepKind::Service => NodeSteps::new(self, order, node).take_back().await,
            _ => Ok(Probe::NotBegun),
        }
    }

    async fn act_on(&self, order: &Order, node: &NodeDesign) -> Result<()> {
        let steps = NodeSteps::new(self, order, node);
        carry_out(steps, &self.roster.identities, order, node).await
    }
}

#[cfg(test)]
mod tests;
