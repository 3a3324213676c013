//! Drivers of machines and clusters: the only module with addresses and protocols.
//!
//! A backend observes many nodes in one go, and for each kind of step can tell from outside whether
//! it is not begun, under way or done ([`Hardware::probe`]), and carry it out ([`Hardware::act`]).
//! Machines are moved by a [`Hardware`], the cluster that runs on them by a [`Cluster`]; a site's
//! [`Backends`] send each order to whom it is for.

pub mod api_server;
mod clock;
pub mod cluster;
mod console;
mod context;
mod error;
pub mod fence;
pub mod hardware;
pub mod http;
mod looks;
mod masked;
pub mod notify;
mod order;
mod pages;
mod reach;
mod remediation;
pub(crate) mod retry;
mod secret;
mod site;
mod soak;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::design::{ClusterName, NodeDesign, NodeName};
use crate::lifecycle::PowerState;
use crate::observed::{
    ClusterFacts, ClusterNode, EtcdSeen, Fact, LearnedHardware, ListedMachine, ObservedNodes,
    ObservedPods, RemediationSeen,
};
use crate::step::StepKind;

pub use clock::Clock;
pub use console::{Console, RunningConsole};
pub use context::{AppliedAddresses, BackendContext, controller_address};
pub use error::Error;
pub use fence::{Fence, LeaseClock};
pub use hardware::sim::arrived;
pub use hardware::{
    LeaseSettings, WantedImage, WantedImages, WatchListener, Watched, Watcher, address_range,
    clock, declared_duration, longest_request,
};
pub use looks::Looks;
pub use notify::Notifier;
pub use order::{Listener, NOT_BEGUN, Order, Reporter};
pub use reach::{EveryReach, Gate, Reach, ReachEntry, Untrusted, digest as reach_digest};
pub use remediation::{Holder, HostSeen, LiveNode};
pub use secret::{NoSecrets, Plugin, Secret, SecretError, Secrets};
pub use site::{Backends, choose};

/// A future in a box, so that backends can be chosen when the program runs.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The progress of a step, probed from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Nothing was asked for yet; it can be done without harm.
    NotBegun,
    /// It runs; acting again would do it twice, waiting is right.
    UnderWay,
    /// It is done.
    Done,
    /// Undecidable; the text names the evidence to check.
    Ambiguous(Arc<str>),
}

/// Why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// It can pass: timeouts, refused connections, busy answers.
    #[error("{0}")]
    Passing(Arc<str>),
    /// It stays: a rule was broken, the machine said no.
    #[error("{0}")]
    Permanent(Arc<str>),
    /// The answer was lost; what was asked for may have happened.
    #[error("{0}")]
    Ambiguous(Arc<str>),
    /// It was refused before anything was asked for: the machine is what it was.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl ActError {
    /// The same error with another text.
    #[must_use]
    pub fn map(self, text: impl FnOnce(Arc<str>) -> Arc<str>) -> Self {
        match self {
            Self::Passing(old) => Self::Passing(text(old)),
            Self::Permanent(old) => Self::Permanent(text(old)),
            Self::Ambiguous(old) => Self::Ambiguous(text(old)),
            Self::Refused(old) => Self::Refused(text(old)),
        }
    }
}

/// The refusal of a backend that reaches no serial console.
const NO_CONSOLE: &str =
    "this backend shows no serial console of its machines; `redfish` and `ipmi` do";

/// Moves and sees machines.
pub trait Hardware: Send + Sync {
    /// Observes many nodes in one go. The answer holds every node that was requested; one that cannot be observed is
    /// unknown with its reason.
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes>;

    /// Lists the machines that there are, described by a document or not; reads only.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    fn list(&self) -> Pending<'_, Result<Vec<ListedMachine>, ActError>> {
        let text = "this backend cannot list machines";
        Box::pin(std::future::ready(Err(ActError::Permanent(text.into()))))
    }

    /// Reads the firmware, the settings and the parts of a machine, all that its controller shows and that is no value of this one
    /// machine (a serial number, a password); reads only.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    fn learn<'a>(
        &'a self,
        _node: &'a NodeDesign,
    ) -> Pending<'a, Result<LearnedHardware, ActError>> {
        let text = "this backend does not show firmware and settings of its machines";
        Box::pin(std::future::ready(Err(ActError::Permanent(text.into()))))
    }

    /// The program that shows the serial console of a machine, once that was proven to be the one that is meant.
    ///
    /// # Errors
    ///
    /// It is another machine, or no console of it can be had.
    fn console<'a>(&'a self, _node: &'a NodeDesign) -> Pending<'a, Result<Console, ActError>> {
        Box::pin(std::future::ready(Err(ActError::Permanent(Arc::from(
            NO_CONSOLE,
        )))))
    }

    /// Tells from outside how far a step is.
    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe>;

    /// Carries a step out and waits for its end. Acting on a step that is under way waits for it.
    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>>;

    /// Takes back what a step has set for its own time, where it is ended without an act: decided or observed to be done,
    /// or its run aborted. Tells how far the step is then: done, or as if it had not begun.
    ///
    /// # Errors
    ///
    /// Something stays that was to be taken back.
    fn take_back<'a>(&'a self, _order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        Box::pin(std::future::ready(Ok(Probe::NotBegun)))
    }

    /// Leaves a node to others that was drained and stays cordoned when its run ends: nothing tells any more that it is worked on.
    /// `order`: its drain. What cannot be written is left out.
    fn leave_cordoned<'a>(&'a self, _order: &'a Order) -> Pending<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Waits for what cancelled steps left to be ended, such as the sessions at controllers; a few seconds at most.
    fn leave(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The power of a machine as its management controller reports it now; `None`: an observation is just that.
    /// A remediation takes a machine for off by it alone.
    fn controller_power<'a>(
        &'a self,
        _node: &'a NodeDesign,
    ) -> Pending<'a, Option<Fact<PowerState>>> {
        Box::pin(std::future::ready(None))
    }

    /// The holder of the annotations of a machine's remediation; `None`: the record holds them, and its power is
    /// asked for as by any other step.
    fn holder<'a>(&'a self, _node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        None
    }

    /// The reasons for remediation of machines, for those that have any beside the record.
    fn remediations<'a>(
        &'a self,
        _nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, RemediationSeen>> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }
}

/// The parts of a cluster to observe; its nodes are always observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Of the nodes, none but those that are named; nothing is asked of the cluster as a whole. For a
    /// step that observes its own node, so that a thousand steps are no thousand lists of all nodes.
    pub named_only: bool,
    /// Pods and budgets, for a forecast.
    pub pods: bool,
    /// The etcd clusters.
    pub etcd: bool,
    /// The reasons for remediation of machines.
    pub remediation: bool,
    /// Whether steps of some kinds are allowed.
    pub rights: Rights,
}

/// Of which kinds of step it is asked whether they are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Of none.
    #[default]
    None,
    /// Of one.
    Of(StepKind),
    /// Of all.
    All,
}

impl Rights {
    /// The kinds.
    pub fn steps(self) -> impl Iterator<Item = StepKind> {
        let all = StepKind::ALL.into_iter();
        all.filter(move |kind| match self {
            Self::None => false,
            Self::Of(one) => *kind == one,
            Self::All => true,
        })
    }
}

impl Look {
    /// Every part.
    pub const ALL: Self = Self {
        named_only: false,
        pods: true,
        etcd: true,
        remediation: true,
        rights: Rights::None,
    };
}

/// The observed state of the cluster.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Facts about the cluster; `None` if it did not answer, or with [`Look::named_only`].
    pub facts: Option<ClusterFacts>,
    /// All its nodes, or those named, by the names that the design has for them.
    pub nodes: Fact<BTreeMap<NodeName, ClusterNode>>,
    /// The pods of the nodes that were asked for, where [`Look::pods`] was.
    pub pods: ObservedPods,
    /// The etcd clusters, where [`Look::etcd`] was asked for.
    pub etcd: BTreeMap<ClusterName, EtcdSeen>,
}

/// Moves and sees the cluster that runs on the machines: Kubernetes nodes and etcd members.
pub trait Cluster: Send + Sync {
    /// Sees the whole cluster in a few calls, never one call a node. `named`: the nodes whose pods
    /// are wanted, where [`Look::pods`] is set, and the only nodes observed with
    /// [`Look::named_only`].
    fn observe<'a>(&'a self, named: &'a BTreeSet<NodeName>, look: Look) -> Pending<'a, Sight>;

    /// Whether it knows the nodes of Kubernetes. An etcd alone does not: what the machines' backends say
    /// of them then counts.
    fn knows_nodes(&self) -> bool {
        true
    }

    /// The Kubernetes node of a machine now, with the state that a remediation stores on it; `None` if not found.
    fn node<'a>(&'a self, _node: &'a NodeName) -> Pending<'a, Result<Option<LiveNode>, ActError>> {
        let text = "this site has no cluster with Kubernetes nodes";
        Box::pin(std::future::ready(Err(ActError::Permanent(text.into()))))
    }

    /// The pods of namespaces that crash again and again, in words, whichever node they run on.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    fn crashing<'a>(
        &'a self,
        _namespaces: &'a [Arc<str>],
    ) -> Pending<'a, Result<Vec<String>, ActError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// As [`Hardware::leave_cordoned`].
    fn leave_cordoned<'a>(&'a self, _order: &'a Order) -> Pending<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Tells from outside how far a step is.
    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe>;

    /// Runs a step and waits for its end. Acting on a running step resumes it.
    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>>;
}
