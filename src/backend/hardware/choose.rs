//! Which backend moves which node, as the site's `trueup/Backends/v1` says.
//!
//! The first override that selects a node counts, else the site's own. Nodes that left the design are
//! sent by the same selectors. A backend that this build does not have is an error with its place,
//! found before anything is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::ipmi::Ipmi;
use super::ironic::Ironic;
use super::maas::{self, Maas};
use super::metal3::Metal3;
use super::ranges::Ranged;
use super::redfish::{self, Redfish};
use super::sim::{self, Settings, Simulators};
use crate::backend::cluster::named::is_real;
use crate::backend::{
    ActError, BackendContext, Clock, Console, Error, Hardware, Holder, Order, Pending, Probe,
};
use crate::design::{BackendKind, Guards, HardwareBackend, NodeDesign, NodeName, Selector};
use crate::document::Node;
use crate::guard::Guarded;
use crate::lifecycle::PowerState;
use crate::observed::{
    Fact, LearnedHardware, ListedMachine, ObservedNode, ObservedNodes, RemediationSeen,
};
use crate::step::StepKind;

/// How time passes for the backends of a design; [`Clock::Real`] if its settings cannot be read,
/// which [`choose`] reports.
#[must_use]
pub fn clock(guards: &Guards) -> Clock {
    let is_virtual = |backend: &HardwareBackend| {
        backend.kind == BackendKind::Sim
            && Settings::read(backend).is_ok_and(|settings| settings.clock == Clock::Virtual)
    };
    if is_real(guards) {
        return Clock::Real;
    }
    let backends = &guards.backends;
    let overrides = backends.overrides.iter().map(|(_, backend)| backend);
    let all = overrides.chain(match backends.hardware.kind {
        BackendKind::None => None,
        _ => Some(&backends.hardware),
    });
    let mut some = false;
    for backend in all {
        some = true;
        if !is_virtual(backend) {
            return Clock::Real;
        }
    }
    if some { Clock::Virtual } else { Clock::Real }
}

/// How long a kind of step takes by the documents: only simulators declare that, and it counts if all machines and
/// clusters of the site are simulated.
#[must_use]
pub fn declared_duration(guards: &Guards, kind: StepKind) -> Option<Duration> {
    let backends = &guards.backends;
    let is_simulated = backends.hardware.kind == BackendKind::Sim
        && backends.overrides.is_empty()
        && !is_real(guards);
    if !is_simulated {
        return None;
    }
    sim::declared_duration(guards, kind)
}

/// The longest time in which one request of a crashed process may still be answered: a process that resumes its work
/// waits it out. The simulator has no requests.
#[must_use]
pub fn longest_request(guards: &Guards) -> Duration {
    /// Where no setting says it.
    const UNSAID: Duration = Duration::from_secs(60);
    let backends = &guards.backends;
    let overrides = backends.overrides.iter().map(|(_, backend)| backend);
    let machines = overrides
        .chain([&backends.hardware])
        .map(|backend| match backend.kind {
            // What a dead process asked of a host is refused as soon as the host has changed.
            BackendKind::Sim | BackendKind::Metal3 | BackendKind::None => Duration::ZERO,
            BackendKind::Redfish => redfish::longest_request(backend),
            BackendKind::Maas => maas::longest_request(backend),
            BackendKind::Ipmi | BackendKind::Ironic => UNSAID,
        });
    let cluster = is_real(guards).then_some(UNSAID);
    machines.chain(cluster).max().unwrap_or_default()
}

/// Opens the backends of a site.
///
/// # Errors
///
/// No document names one, a setting does not fit, this build has no such backend, or the file of the
/// simulated site cannot be used.
pub fn choose(
    site: &Guarded,
    context: &BackendContext,
    simulators: &mut Simulators,
) -> Result<Arc<dyn Hardware>, Error> {
    let backends = &site.guards().backends;
    let Some(data) = &backends.data else {
        return Err(Error::NoBackends);
    };
    let written = data.get("overrides").and_then(Node::as_list);
    let mut written = written
        .unwrap_or_default()
        .iter()
        .filter_map(|each| each.get("hardware"));
    let mut opened: Vec<Arc<dyn Hardware>> = Vec::new();
    let mut overrides = Vec::with_capacity(backends.overrides.len());
    for (selector, backend) in &backends.overrides {
        overrides.push((selector.clone(), opened.len()));
        let written = written.next().unwrap_or(data);
        opened.push(open(backend, written, site, context, simulators)?);
    }
    if backends.hardware.kind == BackendKind::None && overrides.is_empty() {
        return Err(Error::NoBackends);
    }
    let own = match backends.hardware.kind {
        BackendKind::None => None,
        _ => {
            let written = data.get("hardware").unwrap_or(data);
            opened.push(open(
                &backends.hardware,
                written,
                site,
                context,
                simulators,
            )?);
            Some(opened.len() - 1)
        }
    };
    match (own, overrides.is_empty()) {
        (Some(only), true) => Ok(opened.swap_remove(only)),
        _ => Ok(Arc::new(Routes {
            overrides,
            own,
            opened,
        })),
    }
}

/// Opens one backend; `written` is where the document names it.
fn open(
    backend: &HardwareBackend,
    written: &Node,
    site: &Guarded,
    context: &BackendContext,
    simulators: &mut Simulators,
) -> Result<Arc<dyn Hardware>, Error> {
    let opened: Arc<dyn Hardware> = match backend.kind {
        BackendKind::Sim => return Ok(simulators.open(backend)?),
        BackendKind::None => return Err(Error::NoBackends),
        BackendKind::Redfish => Arc::new(Redfish::open(backend, written.mark, site, context)?),
        BackendKind::Ipmi => {
            let about = (site.site.as_str(), site.guards().policy.wipe);
            Arc::new(Ipmi::open(backend, about, context)?)
        }
        BackendKind::Ironic => Arc::new(Ironic::open(site, backend, written, context)?),
        BackendKind::Metal3 => Arc::new(Metal3::open(site, backend, written, context)?),
        BackendKind::Maas => Arc::new(Maas::open(site, backend, written, context)?),
    };
    if sends_credentials(backend) {
        return Ranged::wrap(opened, backend, site.guards(), context);
    }
    Ok(opened)
}

/// Whether passwords of controllers are sent to the addresses in the documents: by trueup, or by
/// the provisioner that has them.
fn sends_credentials(backend: &HardwareBackend) -> bool {
    let names = |field: &str| {
        let settings = backend.settings.as_ref();
        settings.is_some_and(|settings| settings.get(field).is_some())
    };
    match backend.kind {
        BackendKind::Redfish | BackendKind::Ipmi | BackendKind::Metal3 => true,
        BackendKind::Ironic => names("driver"),
        BackendKind::Maas => names("power_type"),
        BackendKind::Sim | BackendKind::None => false,
    }
}

/// Sends each node to its backend.
struct Routes {
    overrides: Vec<(Selector, usize)>,
    own: Option<usize>,
    opened: Vec<Arc<dyn Hardware>>,
}

const NO_BACKEND: &str = "no backend for this node: no entry of `overrides` in the Backends document selects it, and it has no \
                      `hardware` for the whole site";

impl Routes {
    fn of(&self, node: &NodeDesign) -> Option<usize> {
        self.overrides
            .iter()
            .find(|(selector, _)| selector.matches(node))
            .map(|(_, backend)| *backend)
            .or(self.own)
    }
}

impl Hardware for Routes {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(async move {
            let mut shares = vec![Vec::new(); self.opened.len()];
            let mut seen = ObservedNodes::new();
            for node in nodes {
                match self.of(node) {
                    Some(backend) => shares[backend].push(node.clone()),
                    None => {
                        let unknown = Box::new(ObservedNode::unknown(NO_BACKEND));
                        seen.insert(node.name.clone(), unknown);
                    }
                }
            }
            let asked = self
                .opened
                .iter()
                .zip(&shares)
                .filter(|(_, share)| !share.is_empty());
            let looks = asked.map(|(backend, share)| backend.observe(share));
            for mut part in futures_util::future::join_all(looks).await {
                seen.append(&mut part);
            }
            seen
        })
    }

    /// Lists the machines of the site's own backend: selectors of the others select nodes that are described.
    fn list(&self) -> Pending<'_, Result<Vec<ListedMachine>, ActError>> {
        match self.own {
            Some(own) => self.opened[own].list(),
            None => Box::pin(async { Err(ActError::Permanent(Arc::from(NO_BACKEND))) }),
        }
    }

    fn controller_power<'a>(
        &'a self,
        node: &'a NodeDesign,
    ) -> Pending<'a, Option<Fact<PowerState>>> {
        match self.of(node) {
            Some(backend) => self.opened[backend].controller_power(node),
            None => Box::pin(std::future::ready(None)),
        }
    }

    fn holder<'a>(&'a self, node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        self.opened[self.of(node)?].holder(node)
    }

    fn remediations<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, RemediationSeen>> {
        Box::pin(async move {
            let mut shares = vec![Vec::new(); self.opened.len()];
            for node in nodes {
                if let Some(backend) = self.of(node) {
                    shares[backend].push(node.clone());
                }
            }
            let asked = self.opened.iter().zip(&shares);
            let asked = asked.filter(|(_, share)| !share.is_empty());
            let looks = asked.map(|(backend, share)| backend.remediations(share));
            let parts = futures_util::future::join_all(looks).await;
            parts.into_iter().flatten().collect()
        })
    }

    fn learn<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<LearnedHardware, ActError>> {
        match self.of(node) {
            Some(backend) => self.opened[backend].learn(node),
            None => Box::pin(async { Err(ActError::Permanent(Arc::from(NO_BACKEND))) }),
        }
    }

    fn console<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<Console, ActError>> {
        match self.of(node) {
            Some(backend) => self.opened[backend].console(node),
            None => Box::pin(async { Err(ActError::Permanent(Arc::from(NO_BACKEND))) }),
        }
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        match &order.node {
            Some(node) => match self.of(node) {
                Some(backend) => self.opened[backend].probe(order),
                None => Box::pin(async { Probe::Ambiguous(Arc::from(NO_BACKEND)) }),
            },
            None => Box::pin(async move {
                let mut all_done = true;
                for backend in &self.opened {
                    match backend.probe(order).await {
                        Probe::Done => {}
                        Probe::NotBegun => all_done = false,
                        other @ (Probe::UnderWay | Probe::Ambiguous(_)) => return other,
                    }
                }
                if all_done {
                    Probe::Done
                } else {
                    Probe::NotBegun
                }
            }),
        }
    }

    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        match order.node.as_ref().and_then(|node| self.of(node)) {
            Some(backend) => self.opened[backend].take_back(order),
            None => Box::pin(std::future::ready(Ok(Probe::NotBegun))),
        }
    }

    fn leave(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let all = self.opened.iter().map(|backend| backend.leave());
            futures_util::future::join_all(all).await;
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        match &order.node {
            Some(node) => match self.of(node) {
                Some(backend) => self.opened[backend].act(order),
                None => Box::pin(async { Err(ActError::Permanent(Arc::from(NO_BACKEND))) }),
            },
            None => Box::pin(async move {
                for backend in &self.opened {
                    backend.act(order).await?;
                }
                Ok(())
            }),
        }
    }
}
