//! Machines that Metal3 moves: BareMetalHosts in a management cluster, driven by the baremetal-operator.
//!
//! A host is an object that other clients may write too, and that its operator reconciles by itself: it continues
//! after failures, and wipes what is deployed as soon as the image is another. So every change is made for
//! the observed version ([`Management`]), a host with another consumer is refused, and an image
//! is changed by a teardown and a deploy only, never in place. Hosts know neither retirement nor
//! maintenance: trueup keeps both in labels and annotations of its own.

mod before;
mod change;
mod firmware;
mod lease;
mod management;
mod manifest;
mod remediation;
pub mod resource;
mod service;
mod settings;
mod state;
mod steps;
mod watch;
mod watcher;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

pub use lease::{Held, Lease, LeaseSettings};
pub use management::{HOST_API, Management};

pub use remediation::{ABORTED, HARD, HOLD, NEEDS_REMEDIATION, STATE};
pub use settings::{Controller, Image, Inspect, Scheme, Settings};
pub use watcher::{WatchListener, Watched, Watcher};

use super::driver::{self, Driver, Result, carry_out};
use super::proof::proven;
use super::provided::{EVERYTHING, Provided};
use super::provisioner::{Provisioner, Roster, Task};
use crate::backend::api_server::{ApiError, again};
use crate::backend::{ActError, BackendContext, Error, Holder, Order, Probe, Secrets};
use crate::design::{HardwareBackend, NodeDesign, NodeName};
use crate::document::Node as Written;
use crate::guard::Guarded;
use crate::identity::{Identity, Proof};
use crate::observed::{
    LearnedHardware, ListedMachine, ObservedNode, ObservedNodes, RemediationSeen,
};
use crate::step::StepKind;
use remediation::Annotations;
use resource::Host;
use state::Able;
use steps::HostSteps;
use watch::Watch;

/// How many hosts are read one by one; more than these, and all of a site, by one list.
const FEW: usize = 8;

/// A management cluster and what a site's design says about its use.
#[derive(Debug)]
pub struct Metal3 {
    settings: Settings,
    management: Arc<Management>,
    watch: Arc<Watch>,
    secrets: Arc<dyn Secrets>,
    roster: Roster,
}

impl Metal3 {
    /// Opens the backend; nothing is asked of the management cluster yet. `written`: if the document
    /// names it.
    ///
    /// # Errors
    ///
    /// A setting does not fit, or there is no such cluster.
    pub fn open(
        site: &Guarded,
        backend: &HardwareBackend,
        written: &Written,
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend, written.mark).map_err(Error::Settings)?;
        let management = Arc::new(Management::open(site.guards(), &settings, context)?);
        let roster = Roster::of(site, ("metal3", "Metal3"), settings::CODE, context);
        Ok(Self {
            settings,
            watch: Arc::new(Watch::new(management.clone())),
            management,
            secrets: context.secrets.clone(),
            roster: roster.map_err(Error::Settings)?,
        })
    }

    /// Whether the site's policy wants the machine cleaned when its system is taken off; absent: it does.
    fn cleans(&self, node: &NodeDesign) -> bool {
        self.roster.automated_clean(node).unwrap_or(true)
    }

    /// Whether a host is of the machine that the document means.
    fn judge(&self, node: &NodeDesign, host: &Host) -> (Identity, Proof) {
        let identity = host.identity();
        let verdict = self.roster.judge(node, &node.identity(), &identity);
        (identity, verdict.into_proof())
    }

    /// Adds how the values of a machine stand to its Hardware documents, if it has any.
    async fn compare(&self, node: &NodeDesign, host: &Host, observed: &mut ObservedNode) {
        let sections = node.hardware_sections();
        let wanted = sections.flat_map(|section| node.hardware(section));
        let wanted: Vec<Arc<str>> = wanted.map(|value| value.name).collect();
        let values = match again(|| self.values(host, &wanted)).await {
            Ok(values) => values,
            // What can be read counts.
            Err(_) => {
                let mut values = Provided::default();
                let read = self.read_values(&mut values, host, &wanted).await;
                values.unread = read.err().map(|error| error.to_string().into());
                values
            }
        };
        observed.fixed = values.fixed(node, "Metal3", None).into();
        observed.compare_hardware(node, &values.seen, values.unread);
    }

    /// The hosts of nodes, by their own names: few one by one, many and all of the site's by one list.
    async fn hosts(&self, nodes: &[Arc<NodeDesign>]) -> Result<HashMap<Arc<str>, Host>, ApiError> {
        let management = &self.management;
        let is_all = nodes.len() > 1 && self.roster.are_all(nodes);
        let found = if nodes.len() <= FEW && !is_all {
            let looks = nodes.iter().map(|node| {
                let name = self.roster.name_of(&node.name);
                again(move || {
                    let name = name.clone();
                    async move { management.host(&name).await }
                })
            });
            let found = futures_util::future::try_join_all(looks).await?;
            found.into_iter().flatten().collect()
        } else {
            again(|| management.hosts()).await?.0
        };
        let by_name = |host: Host| (host.metadata.name.clone(), host);
        Ok(found.into_iter().map(by_name).collect())
    }
}

impl Provisioner for Metal3 {
    type Object = Host;

    fn roster(&self) -> &Roster {
        &self.roster
    }

    async fn find(&self, task: &Task<'_, Self>) -> Result<Option<Host>> {
        let send = || self.management.host(&task.name);
        task.ask("look", send).await
    }

    async fn prove(&self, node: &NodeDesign, host: &Host) -> Result<(Identity, Proof)> {
        Ok(self.judge(node, host))
    }

    fn not_found(&self, _: &str) -> String {
        "there is no such BareMetalHost".to_owned()
    }
}

impl Driver for Metal3 {
    async fn observe_nodes(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        let hosts = match self.hosts(nodes).await {
            Ok(hosts) => hosts,
            Err(error) => {
                let why = format!("cluster `{}`: {error}", self.management.cluster());
                return driver::unknown(nodes, &why);
            }
        };
        let observed = |node: &Arc<NodeDesign>| {
            let name = self.roster.name_of(&node.name);
            let able = Able {
                cleans: self.cleans(node),
                deploys: self.settings.image.is_some(),
            };
            let observed = match hosts.get(&name) {
                Some(host) => {
                    let (identity, proof) = self.judge(node, host);
                    proven(identity, proof, host.observed(&self.roster.site, able))
                }
                None if self.settings.create => ObservedNode {
                    // It finds its machine by the MAC address of the document.
                    proof: self.roster.proof_before(node, &node.identity()),
                    ..state::not_created(able)
                },
                None => ObservedNode::unknown(&format!(
                    "there is no BareMetalHost {}/{name}, and the settings create none",
                    self.management.namespace()
                )),
            };
            (node.name.clone(), Box::new(observed))
        };
        let mut observed: ObservedNodes = nodes.iter().map(observed).collect();
        let found = |node: &NodeDesign| hosts.get(&self.roster.name_of(&node.name));
        let machines = driver::documented(nodes, &mut observed, found);
        let machines = machines.into_iter();
        let compared = machines.map(|(node, host, observed)| self.compare(node, host, observed));
        // Collected first: what is lazy borrows for too long.
        let compared: Vec<_> = compared.collect();
        let compared = stream::iter(compared).buffer_unordered(FEW);
        compared.collect::<()>().await;
        observed
    }

    async fn take_back_on(&self, order: &Order, node: &NodeDesign) -> Result<Probe> {
        match order.step.id.kind {
            StepKind::Service => HostSteps::new(self, order, node).take_back().await,
            _ => Ok(Probe::NotBegun),
        }
    }

    async fn list_machines(&self) -> Result<Vec<ListedMachine>> {
        let hosts = again(|| self.management.hosts()).await;
        let hosts = hosts.map_err(|error| {
            let text = format!("cluster `{}`: {error}", self.management.cluster());
            ActError::Passing(Arc::from(text))
        })?;
        let listed = hosts.0.into_iter().map(|host| ListedMachine {
            name: host.metadata.name,
            ..ListedMachine::default()
        });
        Ok(listed.collect())
    }

    async fn learn_machine(&self, node: &NodeDesign) -> Result<LearnedHardware> {
        let name = self.roster.name_of(&node.name);
        let refuse =
            |text: &str| ActError::Permanent(format!("node `{}`: {text}", node.name).into());
        let passing = |error: ApiError| ActError::Passing(error.to_string().into());
        let host = again(|| self.management.host(&name))
            .await
            .map_err(passing)?;
        let host = host.ok_or_else(|| refuse(&self.not_found(&name)))?;
        if let (_, Proof::Refused(why)) = self.judge(node, &host) {
            return Err(refuse(&why));
        }
        let all = EVERYTHING.map(Arc::from);
        let values = again(|| self.values(&host, &all)).await.map_err(passing)?;
        Ok(values.learned())
    }

    async fn verify_site(&self, order: &Order) -> Result<()> {
        let management = &self.management;
        let (cluster, namespace) = (management.cluster(), management.namespace());
        let access = management.check_access().await;
        let subject = format!("management cluster `{cluster}`, namespace {namespace}");
        access.map_err(|error| error.into_error(&format!("{subject}: list hosts")))?;
        let mut said = format!("Metal3 in {subject}");
        if !self.settings.controller.verify {
            said.push_str("; the operator does not verify the certificates of controllers");
        }
        order.reporter.progress(said);
        Ok(())
    }

    async fn probe_step(&self, order: &Order, node: &NodeDesign) -> Probe {
        HostSteps::new(self, order, node).probe().await
    }

    async fn act_on(&self, order: &Order, node: &NodeDesign) -> Result<()> {
        let steps = HostSteps::new(self, order, node);
        carry_out(steps, &self.roster.identities, order, node).await
    }

    fn remediation_holder<'a>(&'a self, node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        Some(Box::new(Annotations {
            management: &self.management,
            node: &node.name,
            host: self.roster.name_of(&node.name),
        }))
    }

    async fn observe_remediations(
        &self,
        nodes: &[Arc<NodeDesign>],
    ) -> BTreeMap<NodeName, RemediationSeen> {
        let names = nodes.iter().map(|node| &node.name);
        let of_host = names.map(|name| (self.roster.name_of(name), name.clone()));
        let of_host = of_host.collect();
        let seen = again(|| remediation::remediations(&self.management, &of_host)).await;
        seen.unwrap_or_else(|error| {
            let why = format!("cluster `{}`: {error}", self.management.cluster());
            let unseen = RemediationSeen {
                unseen: Some(why.into()),
                ..RemediationSeen::default()
            };
            let nodes = nodes.iter();
            nodes
                .map(|node| (node.name.clone(), unseen.clone()))
                .collect()
        })
    }
}

#[cfg(test)]
mod tests;
