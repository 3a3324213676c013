//! Machines that Metal3 moves: BareMetalHosts in a management cluster, driven by the baremetal-operator.
//!
//! A host is an object that others may write too, and that its operator follows by itself: it goes on
//! after failures, and wipes what is deployed as soon as the image is another. So every change is made for
//! the version that was seen ([`Management`]), a host that somebody else uses is left to them, and an image
//! is changed by a teardown and a deploy only, never in place. Hosts know neither retirement nor
//! maintenance: trueup keeps both in labels and annotations of its own.

mod carry;
mod lease;
mod management;
mod manifest;
mod mover;
mod remediation;
pub mod resource;
mod settings;
mod state;
mod watch;
mod watcher;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use lease::{Held, Lease, Tenure};
pub use management::{HOST_API, Management};

pub use remediation::{GIVEN_UP, HARD, HOLD, NEEDS_REMEDIATION, STATE};
pub use settings::{Controller, Image, Inspect, Scheme, Settings};
pub use watcher::{Listener, Watched, Watcher};

use crate::backend::api_server::{Trouble, again};
use crate::backend::hardware::written::names;
use crate::backend::{ActError, Context, Error, Hardware, Holder, Order, Pending, Probe, Secrets};
use crate::design::{CleaningPolicy, Design, HardwareBackend, NodeDesign, NodeName, SiteName};
use crate::document::Node as Written;
use crate::identity::{Identity, Proof, Registry};
use crate::observed::{ObservedNode, RemediationSeen};
use carry::Carrier;
use remediation::Annotations;
use resource::Host;
use state::Able;
use watch::Watch;

/// How many hosts are looked at one by one; more than these by one list.
const FEW: usize = 8;

/// A management cluster and what a site's design says about its use.
#[derive(Debug)]
pub struct Metal3 {
    settings: Settings,
    management: Arc<Management>,
    watch: Arc<Watch>,
    secrets: Arc<dyn Secrets>,
    site: SiteName,
    /// Hosts that are called otherwise than their nodes.
    names: HashMap<NodeName, Arc<str>>,
    policies: Vec<CleaningPolicy>,
    /// Which node is known by what.
    identities: Arc<Registry>,
    /// Nodes that the design has: the host of what left it is deleted when it is torn down.
    designed: BTreeSet<NodeName>,
}

impl Metal3 {
    /// Opens the backend; nothing is asked of the management cluster yet. `written`: where the document
    /// names it.
    ///
    /// # Errors
    ///
    /// A setting does not fit, or there is no such cluster.
    pub fn open(
        design: &Design,
        backend: &HardwareBackend,
        written: &Written,
        context: &Context,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend, written.mark).map_err(Error::Settings)?;
        let management = Arc::new(Management::open(design, &settings, context)?);
        let names = names(design, "metal3", "Metal3", settings::CODE).map_err(Error::Settings)?;
        Ok(Self {
            settings,
            watch: Arc::new(Watch::new(management.clone())),
            management,
            secrets: context.secrets.clone(),
            site: design.site.clone(),
            names,
            policies: design.cleaning.clone(),
            identities: context.identities.clone(),
            designed: design.nodes.keys().cloned().collect(),
        })
    }

    fn site(&self) -> &str {
        self.site.as_str()
    }

    /// The name of a node's host.
    fn name_of(&self, node: &NodeName) -> Arc<str> {
        let other = self.names.get(node).cloned();
        other.unwrap_or_else(|| Arc::from(node.as_str()))
    }

    /// Whether the site's policy wants the machine cleaned when its system is taken off; absent: it does.
    fn cleans(&self, node: &NodeDesign) -> bool {
        let policy = self.policies.iter().find(|policy| policy.is_about(node));
        policy.is_none_or(|policy| policy.automated)
    }

    async fn see(&self, nodes: &[Arc<NodeDesign>]) -> BTreeMap<NodeName, ObservedNode> {
        let hosts = match self.hosts(nodes).await {
            Ok(hosts) => hosts,
            Err(trouble) => {
                let why = format!("cluster `{}`: {trouble}", self.management.cluster());
                let unknown = ObservedNode::unknown(&why);
                let each = nodes
                    .iter()
                    .map(|node| (node.name.clone(), unknown.clone()));
                return each.collect();
            }
        };
        let observed = |node: &Arc<NodeDesign>| {
            let name = self.name_of(&node.name);
            let able = Able {
                cleans: self.cleans(node),
                deploys: self.settings.image.is_some(),
            };
            let observed = match hosts.get(&name) {
                Some(host) => self.proven(node, host, host.observed(self.site(), able)),
                None if self.settings.create => ObservedNode {
                    proof: self.proof_before_creation(node),
                    ..state::not_created(able)
                },
                None => ObservedNode::unknown(&format!(
                    "there is no BareMetalHost {}/{name}, and the settings create none",
                    self.management.namespace()
                )),
            };
            (node.name.clone(), observed)
        };
        nodes.iter().map(observed).collect()
    }

    /// Whether a host is of the machine that the document means.
    fn judge(&self, node: &NodeDesign, host: &Host) -> (Identity, Proof) {
        let (name, designed, identity) = (node.name.as_str(), node.identity(), host.identity());
        let verdict = self.identities.judge(name, &designed, &identity);
        self.identities.observe(name, &designed, &identity);
        (identity, verdict.into_proof())
    }

    /// A host that is created finds its machine by the MAC address of the document.
    fn proof_before_creation(&self, node: &NodeDesign) -> Proof {
        let designed = node.identity();
        let expected = Identity {
            macs: designed.macs.clone(),
            ..Identity::default()
        };
        let verdict = self
            .identities
            .judge(node.name.as_str(), &designed, &expected);
        verdict.into_proof()
    }

    fn proven(&self, node: &NodeDesign, host: &Host, observed: ObservedNode) -> ObservedNode {
        let (identity, proof) = self.judge(node, host);
        let observed = match &proof {
            Proof::Refused(why) => ObservedNode::refused(why),
            Proof::Proven | Proof::Unverified(_) => observed,
        };
        ObservedNode {
            identity: Some(Box::new(identity)),
            proof,
            ..observed
        }
    }

    /// The hosts of nodes, by their own names: few one by one, many by one list.
    async fn hosts(&self, nodes: &[Arc<NodeDesign>]) -> Result<HashMap<Arc<str>, Host>, Trouble> {
        let management = &self.management;
        let found = if nodes.len() <= FEW {
            let looks = nodes.iter().map(|node| {
                let name = self.name_of(&node.name);
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

impl Hardware for Metal3 {
    fn holder<'a>(&'a self, node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        Some(Box::new(Annotations {
            management: &self.management,
            node: &node.name,
            host: self.name_of(&node.name),
        }))
    }

    fn remediations<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, RemediationSeen>> {
        Box::pin(async move {
            let of_host = nodes
                .iter()
                .map(|node| (self.name_of(&node.name), node.name.clone()));
            let of_host = of_host.collect();
            let seen = again(|| remediation::remediations(&self.management, &of_host)).await;
            seen.unwrap_or_else(|trouble| {
                let why = format!("cluster `{}`: {trouble}", self.management.cluster());
                let unseen = RemediationSeen {
                    unseen: Some(why.into()),
                    ..RemediationSeen::default()
                };
                let nodes = nodes.iter();
                nodes
                    .map(|node| (node.name.clone(), unseen.clone()))
                    .collect()
            })
        })
    }

    fn observe<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, ObservedNode>> {
        Box::pin(self.see(nodes))
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move {
            match &order.node {
                Some(node) => Carrier::new(self, order, node).probe().await,
                // What is asked for the whole site leaves nothing behind.
                None => Probe::NotBegun,
            }
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            match &order.node {
                Some(node) => Carrier::new(self, order, node).carry_out().await,
                None => carry::for_site(self, order).await,
            }
        })
    }
}

#[cfg(test)]
mod tests;
