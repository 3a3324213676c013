//! Machines that Ironic moves: enrol, manage, inspect, clean, deploy, tear down, retire.
//!
//! Ironic takes verbs that it should not take in a state, and refuses some that the specifications
//! promise; so every verb passes trueup's own table ([`crate::lifecycle::step`]) before it is sent, and
//! what Ironic alone would break (a retired machine that becomes available where cleaning is off) is kept
//! here. 202 is acceptance, not success: what was asked for is looked at until it ended, by one list for
//! all who wait (`watch`). What must happen at most once leaves a marker first (`mark`).

mod api;
mod carry;
mod enrol;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod mark;
mod node;
mod settings;
mod steps;
mod verbs;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::Api;
use carry::Carrier;
use settings::Account;
pub use settings::Settings;
use watch::Watch;

use super::images::Images;
use super::written::names;
use crate::backend::http::{Client, Credentials, Limits, Trust};
use crate::backend::{ActError, Context, Error, Hardware, Order, Pending, Probe, Secrets};
use crate::design::{
    CleaningPolicy, Design, HardwareBackend, NodeDesign, NodeName, Reference, Selector,
};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Node as Written};
use crate::identity::{Identity, Proof, Registry, Verdict};
use crate::observed::ObservedNode;

/// Most requests to Ironic at once.
const PER_HOST: usize = 16;
/// The largest answer: a page of a thousand nodes with much in their `extra`.
const LARGEST: usize = 64 << 20;

/// An Ironic and what a site's design says about its use.
pub struct Ironic {
    settings: Settings,
    api: Arc<Api>,
    watch: Arc<Watch>,
    secrets: Arc<dyn Secrets>,
    /// Nodes that are called otherwise in Ironic.
    names: HashMap<NodeName, Arc<str>>,
    policies: Vec<CleaningPolicy>,
    images: Images,
    /// Which node is known by what.
    identities: Arc<Registry>,
    /// Nodes that the design has: what left it is removed from Ironic when it is torn down.
    designed: BTreeSet<NodeName>,
}

impl Ironic {
    /// Opens the backend; nothing is asked of Ironic yet. `written`: where the document names it.
    ///
    /// # Errors
    ///
    /// A setting does not fit, two machines have one name in Ironic, or a secret cannot be had.
    pub fn open(
        design: &Design,
        backend: &HardwareBackend,
        written: &Written,
        context: &Context,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend, written.mark).map_err(Error::Settings)?;
        let names = names(design, "ironic", "Ironic", settings::CODE).map_err(Error::Settings)?;
        let secret = |reference: &Marked<Reference>| {
            context.secrets.reveal(&reference.value).map_err(|error| {
                let message = format!("a secret of the backend `ironic` cannot be had: {error}");
                refusal(reference.mark, message)
            })
        };
        let credentials = match &settings.account {
            Account::Nobody => None,
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
            allow_plain_http: design.backends.allow_plain_http,
            ..Trust::default()
        };
        let limits = Limits {
            request: settings.request_timeout,
            body: LARGEST,
            per_host: PER_HOST,
            ..Limits::default()
        };
        let client = Client::new(&trust, limits)
            .map_err(|error| refusal(written.mark, error.to_string()))?;
        let images = Images::of(design, backend, |node| {
            let image = settings.image.as_ref();
            image.map_or_else(Vec::new, |image| enrol::images(node, image))
        });
        let api = Arc::new(Api::new(client, settings.endpoint.clone(), credentials));
        Ok(Self {
            settings,
            watch: Arc::new(Watch::new(api.clone())),
            api,
            secrets: context.secrets.clone(),
            names,
            policies: design.cleaning.clone(),
            images,
            identities: context.identities.clone(),
            designed: design.nodes.keys().cloned().collect(),
        })
    }

    /// The node's name in Ironic.
    fn name_of(&self, node: &NodeName) -> Arc<str> {
        let other = self.names.get(node).cloned();
        other.unwrap_or_else(|| Arc::from(node.as_str()))
    }

    /// Whether the site's policy wants the machine cleaned by itself; absent: as Ironic has it.
    fn automated_clean(&self, node: &NodeDesign) -> Option<bool> {
        let selects = |selector: &Selector| selector.matches(node);
        let mut policies = self.policies.iter();
        let policy = policies
            .find(|policy| policy.selectors.is_empty() || policy.selectors.iter().any(selects));
        policy.map(|policy| policy.automated)
    }

    async fn see(&self, nodes: &[Arc<NodeDesign>]) -> BTreeMap<NodeName, ObservedNode> {
        let listed = self.watch.list().await;
        if let Err(why) = &listed.nodes {
            let unknown = ObservedNode::unknown(why);
            let each = nodes
                .iter()
                .map(|node| (node.name.clone(), unknown.clone()));
            return each.collect();
        }
        let found = |node: &NodeDesign| listed.find(&self.name_of(&node.name));
        let ports = self.ports_where_needed(nodes, found).await;
        let observed = |node: &Arc<NodeDesign>| {
            let name = self.name_of(&node.name);
            let policy = self.automated_clean(node);
            let observed = match found(node) {
                Some(found) => {
                    let cleaned = policy.or(found.automated_clean).unwrap_or(true);
                    let macs = ports.get(&found.uuid).map_or(&[][..], Vec::as_slice);
                    let (identity, verdict) = self.judge(node, found, macs);
                    let proof = verdict.into_proof();
                    let observed = match &proof {
                        Proof::Refused(why) => ObservedNode::refused(why),
                        Proof::Proven | Proof::Unverified(_) => found.observed(cleaned),
                    };
                    ObservedNode {
                        identity: Some(Box::new(identity)),
                        proof,
                        ..observed
                    }
                }
                None if self.settings.enrolment.is_some() => ObservedNode {
                    proof: self.proof_before_enrolment(node),
                    ..node::not_enrolled(policy.unwrap_or(true))
                },
                None => ObservedNode::unknown(&format!(
                    "Ironic has no node `{name}`, and the settings name no `driver` to enrol it with"
                )),
            };
            (node.name.clone(), observed)
        };
        nodes.iter().map(observed).collect()
    }
}

impl Ironic {
    /// What the document names of a machine; a node that is named by its UUID is named by that.
    fn designed(&self, node: &NodeDesign) -> Identity {
        let designed = node.identity();
        match self.names.get(&node.name) {
            Some(name) if uuid::Uuid::try_parse(name).is_ok() => designed.in_provisioner(name),
            _ => designed,
        }
    }

    /// Whether a node of Ironic is of the machine that the document means; `macs`: those of its ports, as
    /// far as they were asked for.
    fn judge(
        &self,
        node: &NodeDesign,
        found: &node::Node,
        macs: &[Arc<str>],
    ) -> (Identity, Verdict) {
        let (name, designed) = (node.name.as_str(), self.designed(node));
        let identity = found.identity(macs);
        let verdict = self.identities.judge(name, &designed, &identity);
        self.identities.observe(name, &designed, &identity);
        (identity, verdict)
    }

    /// A node that is enrolled gets a port with the MAC address of the document, and finds its machine by it.
    fn proof_before_enrolment(&self, node: &NodeDesign) -> Proof {
        let designed = self.designed(node);
        let expected = Identity {
            macs: designed.macs.clone(),
            ..Identity::default()
        };
        let verdict = self
            .identities
            .judge(node.name.as_str(), &designed, &expected);
        verdict.into_proof()
    }

    /// The MAC addresses of all ports, by node, by one list; none where nothing depends on them.
    async fn ports_where_needed<'n>(
        &self,
        nodes: &[Arc<NodeDesign>],
        found: impl Fn(&NodeDesign) -> Option<&'n node::Node>,
    ) -> HashMap<Arc<str>, Vec<Arc<str>>> {
        for node in nodes {
            if let Some(found) = found(node) {
                self.judge(node, found, &[]);
            }
        }
        let needs = |node: &Arc<NodeDesign>| {
            let verdict = self.identities.judge_again(node.name.as_str());
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

impl Hardware for Ironic {
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
