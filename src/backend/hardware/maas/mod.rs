//! Machines that MAAS moves: commission, deploy, release with erasure, tags, locks.
//!
//! MAAS accepts what it cannot do yet, answers with the state before, deploys if only power was meant, and deletes
//! machines in use; so every request passes trueup's own table of states ([`crate::lifecycle::step`]) first, and what
//! follows it is polled, by one list for all who wait (`poll`). What must not be repeated leaves a note before it is
//! asked for, and is found again among the events of its machine (`event`). What MAAS has no field for is a tag (`tag`).

mod api;
mod change;
mod clean;
mod create;
mod destroy;
mod disks;
mod event;
mod flags;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod layout;
mod machine;
mod ports;
mod prepare;
mod settings;
mod shown;
mod steps;
mod system;
mod tag;
mod verbs;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use api::{Api, RELEASE_SCRIPTS, RequestError};
use machine::{Able, Machine};
pub use settings::{Creation, Erase, Settings};
use steps::MachineSteps;
use system::System;

use super::driver::{self, Driver, Result, carry_out};
use super::poll::Watch;
use super::proof::proven;
use super::provisioner::{Provisioner, Roster, Task};
use crate::backend::http::{Client, Credentials, HttpLimits, OAuthKey, Trust};
use crate::backend::{ActError, BackendContext, Error, Order, Probe, Secrets};
use crate::design::{HardwareBackend, NodeDesign, NodeName, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Node as Written};
use crate::guard::Guarded;
use crate::identity::{Identity, Proof};
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{Fact, ListedMachine, ObservedNode, ObservedNodes};

/// Most requests to MAAS at once: a region answers few of them in the same moment.
const PER_HOST: usize = 8;
/// The largest answer: thousands of machines with all their disks and interfaces.
const LARGEST: usize = 512 << 20;

/// A MAAS and what a site's design says about its use.
#[derive(Debug)]
pub struct Maas {
    settings: Settings,
    api: Arc<Api>,
    watch: Arc<Watch<Api>>,
    secrets: Arc<dyn Secrets>,
    roster: Roster,
    /// The systems of the nodes that the site's design has.
    systems: HashMap<NodeName, System>,
}

impl Maas {
    /// Opens the backend; nothing is asked of MAAS yet. `written`: if the document names it.
    ///
    /// # Errors
    ///
    /// A setting does not fit, two machines have one name in MAAS, or a secret cannot be had.
    pub fn open(
        site: &Guarded,
        backend: &HardwareBackend,
        written: &Written,
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend, written.mark).map_err(Error::Settings)?;
        let roster = Roster::of(site, ("maas", "MAAS"), settings::CODE, context);
        let roster = roster.map_err(Error::Settings)?;
        let secret = |reference: &Marked<Reference>| {
            context.secrets.reveal(&reference.value).map_err(|error| {
                let message = format!("a secret of the backend `maas` cannot be had: {error}");
                refusal(reference.mark, message)
            })
        };
        let key = OAuthKey::parse(&secret(&settings.api_key)?).ok_or_else(|| {
            let message = "the API key is not of the form `CONSUMER:TOKEN:SECRET`";
            refusal(settings.api_key.mark, message.to_owned())
        })?;
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
            // An unknown version of the API redirects to the user interface.
            redirects: 0,
            ..HttpLimits::default()
        };
        let client = Client::new(&trust, limits)
            .map_err(|error| refusal(written.mark, error.to_string()))?;
        let own = site.nodes.values();
        let own = own.filter(|node| std::ptr::eq(site.guards().backend_of(node), backend));
        let systems = own
            .map(|node| (node.name.clone(), System::of(node)))
            .collect();
        let credentials = Credentials::OAuth(key);
        let api = Arc::new(Api::new(client, settings.endpoint.clone(), credentials));
        Ok(Self {
            watch: Arc::new(Watch::new(api.clone())),
            api,
            secrets: context.secrets.clone(),
            systems,
            settings,
            roster,
        })
    }

    /// The error for a machine that MAAS does not have and that cannot be created.
    fn not_created(&self, name: &str) -> String {
        let not_found = self.not_found(name);
        format!("{not_found}, and the settings name no `power_type` to create it with")
    }

    /// The identity of a machine in the document; a node that is named by its id in MAAS is identified by that.
    fn designed(&self, node: &NodeDesign, machine: Option<&Machine>) -> Identity {
        let designed = node.identity();
        let named = self.roster.names.get(&node.name);
        match (named, machine) {
            (Some(name), Some(machine)) if *name == machine.system_id => {
                designed.in_provisioner(name)
            }
            _ => designed,
        }
    }

    /// Whether a machine of MAAS's is the one that the document means.
    fn judge(&self, node: &NodeDesign, machine: &Machine) -> (Identity, Proof) {
        let identity = machine.identity();
        let designed = self.designed(node, Some(machine));
        let verdict = self.roster.judge(node, &designed, &identity);
        (identity, verdict.into_proof())
    }

    /// The machine of a node, if there is one.
    async fn machine_of(&self, node: &NodeDesign) -> Result<Option<Machine>, Arc<str>> {
        let name = self.roster.name_of(&node.name);
        // By its recorded id, in a list with all others that are waited for.
        let known = self.roster.identities.known(node.name.as_str());
        if let Some(id) = known.and_then(|known| known.provisioner) {
            let round = self.watch.wait_for(&id).next().await;
            round.objects.as_ref().map_err(Arc::clone)?;
            let is_it = |machine: &&Machine| {
                *name == *machine.system_id || poll_name(machine) == Some(&*name)
            };
            if let Some(found) = round.find(&id).filter(is_it) {
                return Ok(Some(found.clone()));
            }
        }
        let round = self.watch.list().await;
        round.objects.as_ref().map_err(Arc::clone)?;
        Ok(round.find(&name).cloned())
    }

    /// The power of a node's machine as its management controller reports it now: what MAAS lists is minutes old.
    async fn power_of(&self, node: &NodeDesign) -> Result<PowerState, Arc<str>> {
        let name = self.roster.name_of(&node.name);
        let machine = self.machine_of(node).await?;
        let machine = machine.ok_or_else(|| Arc::<str>::from(self.not_found(&name)))?;
        if let (_, Proof::Refused(why)) = self.judge(node, &machine) {
            return Err(why);
        }
        let subject = format!("node `{}`: power", node.name);
        let told = self.api.power(&subject, &machine.system_id).await;
        let told = told.map_err(|error| Arc::<str>::from(error.to_string()))?;
        machine::power_of(&told).ok_or_else(|| Arc::from(machine::no_power(&told)))
    }

    /// The system of a node's design.
    fn system(&self, node: &NodeDesign) -> &System {
        static NONE: LazyLock<System> = LazyLock::new(System::default);
        self.systems.get(&node.name).unwrap_or(&NONE)
    }

    /// The facts that decide the capabilities for a node's machine.
    fn able(&self, node: &NodeDesign, region: &api::Region) -> Able {
        let by_policy = self.roster.automated_clean(node).unwrap_or(true);
        let has_script = self.settings.system_disk_script.is_some();
        Able {
            locks: self.settings.lock,
            erases: by_policy || region.always_erases,
            spares_disks: has_script
                && region.version.number >= RELEASE_SCRIPTS
                && !region.always_erases,
        }
    }

    /// The systems of the nodes that a plan deploys.
    fn deployed<'a>(
        &'a self,
        order: &'a Order,
    ) -> impl Iterator<Item = (&'a NodeName, &'a System)> {
        let deploys = order.step.given().deploys();
        deploys
            .iter()
            .filter_map(|node| Some((node, self.systems.get(node)?)))
    }

    /// Refuses networks that MAAS has no subnet of, for the nodes that a plan deploys.
    async fn verify_subnets(&self, order: &Order) -> Result<()> {
        let mut linked = self
            .deployed(order)
            .filter(|(_, each)| !each.ports.is_empty());
        let Some(first) = linked.next() else {
            return Ok(());
        };
        let nets = self.api.read_nets().await?;
        let mut linked = std::iter::once(first).chain(linked);
        let unknown = linked.find_map(|(node, system)| Some((node, system.ports.unknown(&nets)?)));
        match unknown {
            None => Ok(()),
            Some((node, why)) => {
                let text = format!("node `{node}`: {why}");
                Err(ActError::Permanent(Arc::from(text)))
            }
        }
    }

    /// Refuses images that MAAS does not have, for the nodes that a plan deploys.
    async fn verify_images(&self, order: &Order) -> Result<()> {
        let named: Vec<_> = self
            .deployed(order)
            .filter(|(_, system)| system.series.is_some())
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let images = self.api.images().await?;
        for (node, system) in named {
            if !images.iter().any(|image| system.is_image(image)) {
                let series = system.series.as_deref().unwrap_or_default();
                let text = format!(
                    "MAAS has no image `{series}`, which node `{node}` is deployed from; it has: {}",
                    images.join(", ")
                );
                return Err(ActError::Permanent(Arc::from(text)));
            }
        }
        Ok(())
    }
}

/// The longest time in which one request may still be answered.
pub(super) fn longest_request(backend: &HardwareBackend) -> Duration {
    let mark = backend.settings.as_ref().map(|settings| settings.mark);
    let settings = mark.and_then(|mark| Settings::read(backend, mark).ok());
    settings.map_or(settings::REQUEST, |settings| settings.request_timeout)
}

fn refusal(mark: Mark, message: String) -> Error {
    Error::Settings(Box::new(Diagnostic::error(settings::CODE, mark, message)))
}

impl Provisioner for Maas {
    type Object = Machine;

    fn roster(&self) -> &Roster {
        &self.roster
    }

    async fn find(&self, task: &Task<'_, Self>) -> Result<Option<Machine>> {
        let found = self.machine_of(task.node).await;
        found.map_err(|why| task.passing(why))
    }

    async fn prove(&self, node: &NodeDesign, machine: &Machine) -> Result<(Identity, Proof)> {
        Ok(self.judge(node, machine))
    }

    fn not_found(&self, name: &str) -> String {
        format!("MAAS has no machine `{name}`")
    }
}

fn poll_name(machine: &Machine) -> Option<&str> {
    super::poll::Listed::name(machine).map(|name| &**name)
}

impl Driver for Maas {
    async fn observe_nodes(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        let region = match self.api.region().await {
            Ok(region) => region,
            Err(error) => return driver::unknown(nodes, &error.to_string()),
        };
        let listed = self.watch.list().await;
        if let Err(why) = &listed.objects {
            return driver::unknown(nodes, why);
        }
        let observed = |node: &Arc<NodeDesign>| {
            let name = self.roster.name_of(&node.name);
            let able = self.able(node, region);
            let observed = match listed.find(&name) {
                Some(machine) => {
                    let (identity, proof) = self.judge(node, machine);
                    proven(identity, proof, machine.observed(able))
                }
                None if self.settings.creation.is_some() => ObservedNode {
                    // It is given the MAC address of the document, by which MAAS finds it.
                    proof: self.roster.proof_before(node, &self.designed(node, None)),
                    ..machine::not_created(able)
                },
                None => ObservedNode::unknown(&self.not_created(&name)),
            };
            let system = self.systems.get(&node.name);
            let deployed = listed
                .find(&name)
                .filter(|_| observed.provision == Fact::Known(ProvisionState::Active));
            let drift = system.zip(deployed);
            let observed = ObservedNode {
                drift: drift.map_or_else(Arc::default, |(system, machine)| system.drift(machine)),
                compared: drift.map_or_else(Arc::default, |(system, _)| system.compared()),
                unsupported: system.map_or_else(Arc::default, |system| system.unsupported.clone()),
                left_out: system.map_or_else(Arc::default, |system| system.left_out.clone()),
                ..observed
            };
            (node.name.clone(), Box::new(observed))
        };
        nodes.iter().map(observed).collect()
    }

    async fn read_controller(&self, node: &NodeDesign) -> Option<Fact<PowerState>> {
        let power = self.power_of(node).await;
        Some(power.map_or_else(Fact::Unknown, Fact::Known))
    }

    async fn list_machines(&self) -> Result<Vec<ListedMachine>> {
        self.watch.list().await.machines()
    }

    async fn verify_site(&self, order: &Order) -> Result<()> {
        let region = self.api.region().await?;
        let (who, version) = (self.api.authority(), &region.version.text);
        let mut said = format!("MAAS {version} at {who}, as `{}`", region.user.username);
        if !self.settings.verify {
            said.push_str("; its certificate is not verified");
        }
        order.reporter.progress(said);
        if !region.user.is_superuser {
            let text = format!(
                "the user `{}` of the API key is no administrator of MAAS at {who}, and only those commission, tag and \
                 delete machines",
                region.user.username
            );
            return Err(ActError::Permanent(Arc::from(text)));
        }
        self.verify_images(order).await?;
        self.verify_subnets(order).await
    }

    async fn probe_step(&self, order: &Order, node: &NodeDesign) -> Probe {
        MachineSteps::new(self, order, node).probe().await
    }

    async fn act_on(&self, order: &Order, node: &NodeDesign) -> Result<()> {
        let steps = MachineSteps::new(self, order, node);
        carry_out(steps, &self.roster.identities, order, node).await
    }
}

impl From<&RequestError> for ActError {
    fn from(error: &RequestError) -> Self {
        error.clone().into()
    }
}
