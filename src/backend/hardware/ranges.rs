//! Keeps credentials of controllers inside the address ranges of a site.
//!
//! The address of a controller stands in documents that any pull request may change. If the trusted Backends
//! document lists ranges (`hardware.<kind>.networks`), a controller outside them is not contacted; where
//! it lists none, only addresses of the designs that were applied last are. What is not contacted is
//! unknown, with the reason and the line to add, and everything else continues.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::backend::controller_address;
use crate::backend::http::{PLAIN_HTTP, is_loopback};
use crate::backend::{
    ActError, AppliedAddresses, BackendContext, Console, Error, Hardware, Holder, Order, Pending,
    Probe,
};
use crate::design::{BackendKind, Guards, HardwareBackend, NodeDesign, NodeName};
use crate::diagnostic::Diagnostic;
use crate::document::Node;
use crate::lifecycle::PowerState;
use crate::observed::{
    Fact, LearnedHardware, ListedMachine, ObservedNode, ObservedNodes, RemediationSeen,
};

/// Most controllers that are looked for: a `/20`, which takes minutes where most addresses do not answer.
const MOST_ADDRESSES: usize = 4096;

/// A backend that sends credentials to controllers inside its ranges only.
pub(super) struct Ranged {
    inner: Arc<dyn Hardware>,
    kind: BackendKind,
    /// Address ranges, and hosts by name.
    networks: Vec<Range>,
    applied: Arc<AppliedAddresses>,
    /// Whether controllers are spoken to over plain HTTP, and may not be.
    refuses_plain_http: bool,
}

impl Ranged {
    /// Wraps a backend that sends credentials to controllers, itself or through its provisioner.
    ///
    /// # Errors
    ///
    /// A range is not one, with its place.
    pub(super) fn wrap(
        inner: Arc<dyn Hardware>,
        backend: &HardwareBackend,
        guards: &Guards,
        context: &BackendContext,
    ) -> Result<Arc<dyn Hardware>, Error> {
        let settings = backend.settings.as_ref();
        let scheme = |node: &Node| node.get("scheme").and_then(Node::as_str) == Some("http");
        let controller = settings.and_then(|settings| settings.get("controller"));
        let is_plain = settings.is_some_and(scheme) || controller.is_some_and(scheme);
        Ok(Arc::new(Self {
            inner,
            kind: backend.kind,
            networks: networks(backend)?,
            applied: context.applied.clone(),
            refuses_plain_http: is_plain && !guards.backends.allow_plain_http,
        }))
    }

    /// A controller at each address of the ranges.
    fn addresses(&self) -> Result<Vec<ListedMachine>, ActError> {
        let field = format!("hardware.{}.networks", self.kind.as_str());
        let refuse = |text: String| Err(ActError::Permanent(Arc::from(text)));
        if self.networks.is_empty() {
            return refuse(format!(
                "`{field}` lists no address ranges, so there are no controllers to look for"
            ));
        }
        let mut hosts: Vec<Arc<str>> = Vec::new();
        for range in &self.networks {
            match range {
                Range::Host(name) => hosts.push(Arc::from(&**name)),
                Range::Addresses(network) => {
                    let fits = network
                        .hosts()
                        .take(MOST_ADDRESSES + 1 - hosts.len().min(MOST_ADDRESSES));
                    hosts.extend(fits.map(|address| Arc::from(address.to_string())));
                }
            }
            if hosts.len() > MOST_ADDRESSES {
                return refuse(format!(
                    "`{field}` has more than {MOST_ADDRESSES} addresses; name smaller ranges"
                ));
            }
        }
        let kind: Arc<str> = Arc::from(self.kind.as_str());
        let listed = hosts.into_iter().map(|address| ListedMachine {
            name: Arc::from(address.replace(':', "-")),
            controller: Some((kind.clone(), address)),
            ..ListedMachine::default()
        });
        Ok(listed.collect())
    }

    /// Why a node's controller is not contacted; `None` if it is.
    fn refusal(&self, node: &NodeDesign) -> Option<String> {
        let address = controller_address(node, self.kind)?;
        let parsed = address.parse::<IpAddr>().map(|each| each.to_canonical());
        let field = format!("hardware.{}.networks", self.kind.as_str());
        if self.networks.is_empty() {
            if !self.applied.contains(&address) {
                let network =
                    parsed.map_or_else(|_| "…".to_owned(), |each| around(each).to_string());
                return Some(format!(
                    "its controller {address} is not in the design that was applied last, so no password is \
                     sent there; list the address ranges of the controllers in the site's Backends document, \
                     such as `{field}: [{network}]`"
                ));
            }
        } else if !self.networks.iter().any(|range| range.contains(&address)) {
            return Some(match parsed {
                Ok(address) => format!(
                    "its controller {address} lies outside `{field}`, so no password is sent there; if it is \
                     right, add `{}` to the list",
                    IpNet::from(address)
                ),
                Err(_) => format!(
                    "its controller `{address}` is a name that `{field}` does not list, so no password is sent \
                     there; give its address, or add the name to the list"
                ),
            });
        }
        let is_plain = self.refuses_plain_http && !is_loopback(&address);
        is_plain.then(|| PLAIN_HTTP.to_owned())
    }
}

/// The network around an address, as a proposal.
fn around(address: IpAddr) -> IpNet {
    let length = if address.is_ipv4() { 24 } else { 64 };
    IpNet::new(address, length).map_or_else(|_| IpNet::from(address), |range| range.trunc())
}

/// Where controllers may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Range {
    Addresses(IpNet),
    /// A host, which is resolved as the operator's machine resolves it.
    Host(String),
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let is_name = |part: &str| {
            let is_plain = |each: u8| each.is_ascii_alphanumeric() || each == b'-';
            !part.is_empty() && part.bytes().all(is_plain)
        };
        // A name whose last part is a number would be taken for an address.
        let is_host = text.split('.').all(is_name)
            && !text
                .rsplit('.')
                .next()
                .is_some_and(|last| last.starts_with(|each: char| each.is_ascii_digit()));
        match text.parse() {
            Ok(network) => Some(Self::Addresses(network)),
            Err(_) => is_host.then(|| Self::Host(text.to_ascii_lowercase())),
        }
    }

    fn contains(&self, address: &str) -> bool {
        match self {
            Self::Addresses(network) => address
                .parse::<IpAddr>()
                .is_ok_and(|address| network.contains(&address.to_canonical())),
            Self::Host(name) => address.eq_ignore_ascii_case(name),
        }
    }
}

/// A range of addresses, or a single one, as a person writes it.
#[must_use]
pub fn address_range(text: &str) -> Option<IpNet> {
    let single = || text.parse().map(|address: IpAddr| IpNet::from(address));
    text.parse().or_else(|_| single()).ok()
}

/// The ranges of addresses that a backend's settings list.
///
/// # Errors
///
/// One is none, with its place.
pub(super) fn address_ranges(backend: &HardwareBackend) -> Result<Vec<IpNet>, Error> {
    let ranges = networks(backend)?.into_iter();
    let addresses = ranges.filter_map(|range| match range {
        Range::Addresses(network) => Some(network),
        // A name may lead anywhere.
        Range::Host(_) => None,
    });
    Ok(addresses.collect())
}

/// The ranges that a backend's settings list.
fn networks(backend: &HardwareBackend) -> Result<Vec<Range>, Error> {
    let listed = backend.settings.as_ref();
    let listed = listed.and_then(|settings| settings.get("networks"));
    let read = |item: &Node| {
        let text = item.scalar_text().unwrap_or_default();
        Range::parse(&text).ok_or_else(|| {
            let message = format!("`{text}` is neither an address range nor the name of a host");
            let problem = Diagnostic::error("rule-backend-networks", item.mark, message);
            Error::Settings(Box::new(
                problem.hint("for example `10.23.0.0/16` or `fd00:23::/64`"),
            ))
        })
    };
    listed
        .and_then(Node::as_list)
        .unwrap_or_default()
        .iter()
        .map(read)
        .collect()
}

impl Hardware for Ranged {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(async move {
            let mut observed = ObservedNodes::new();
            let mut inside = Vec::with_capacity(nodes.len());
            for node in nodes {
                match self.refusal(node) {
                    Some(reason) => {
                        let unknown = Box::new(ObservedNode::unknown(&reason));
                        observed.insert(node.name.clone(), unknown);
                    }
                    None => inside.push(node.clone()),
                }
            }
            if !inside.is_empty() {
                observed.append(&mut self.inner.observe(&inside).await);
            }
            observed
        })
    }

    /// Lists what its API lists; of controllers, which list nothing, the addresses of the ranges.
    fn list(&self) -> Pending<'_, Result<Vec<ListedMachine>, ActError>> {
        match self.kind {
            BackendKind::Redfish | BackendKind::Ipmi => {
                Box::pin(std::future::ready(self.addresses()))
            }
            BackendKind::None
            | BackendKind::Sim
            | BackendKind::Ironic
            | BackendKind::Metal3
            | BackendKind::Maas => self.inner.list(),
        }
    }

    fn learn<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<LearnedHardware, ActError>> {
        match self.refusal(node) {
            Some(reason) => Box::pin(std::future::ready(Err(ActError::Permanent(Arc::from(
                reason,
            ))))),
            None => self.inner.learn(node),
        }
    }

    fn console<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<Console, ActError>> {
        match self.refusal(node) {
            Some(reason) => Box::pin(std::future::ready(Err(ActError::Permanent(Arc::from(
                reason,
            ))))),
            None => self.inner.console(node),
        }
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        match order.node.as_ref().and_then(|node| self.refusal(node)) {
            Some(reason) => Box::pin(std::future::ready(Probe::Ambiguous(Arc::from(reason)))),
            None => self.inner.probe(order),
        }
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        match order.node.as_ref().and_then(|node| self.refusal(node)) {
            Some(reason) => Box::pin(std::future::ready(Err(ActError::Permanent(Arc::from(
                reason,
            ))))),
            None => self.inner.act(order),
        }
    }

    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        match order.node.as_ref().and_then(|node| self.refusal(node)) {
            Some(reason) => Box::pin(std::future::ready(Err(ActError::Permanent(Arc::from(
                reason,
            ))))),
            None => self.inner.take_back(order),
        }
    }

    fn leave(&self) -> Pending<'_, ()> {
        self.inner.leave()
    }

    fn controller_power<'a>(
        &'a self,
        node: &'a NodeDesign,
    ) -> Pending<'a, Option<Fact<PowerState>>> {
        match self.refusal(node) {
            Some(reason) => Box::pin(std::future::ready(Some(Fact::Unknown(Arc::from(reason))))),
            None => self.inner.controller_power(node),
        }
    }

    fn holder<'a>(&'a self, node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        match self.refusal(node) {
            Some(_) => None,
            None => self.inner.holder(node),
        }
    }

    fn remediations<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, RemediationSeen>> {
        Box::pin(async move {
            let inside = nodes.iter().filter(|node| self.refusal(node).is_none());
            let inside: Vec<_> = inside.cloned().collect();
            self.inner.remediations(&inside).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_addresses_or_hosts_and_what_looks_like_either_is_neither() {
        let inside = |range: &str, address: &str| Range::parse(range).unwrap().contains(address);
        assert!(inside("10.0.0.0/8", "10.9.8.7"));
        assert!(inside("10.0.0.0/8", "::ffff:10.9.8.7"));
        assert!(inside("fd00::/64", "fd00::7"));
        assert!(inside("bmc-1.example.org", "BMC-1.example.org"));
        for (range, address) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:11.0.0.1"),
            ("10.0.0.0/8", "10.0.0.1.example.org"),
            ("10.0.0.0/8", "0xa.1"),
            ("10.0.0.0/8", "167772161"),
            ("10.0.0.0/8", "10.0.0.1:80@192.0.2.1"),
            ("bmc.example.org", "bmc.example.org.evil.example"),
            ("bmc.example.org", "bmc.example.org:1"),
        ] {
            assert!(!inside(range, address), "{address} in {range}");
        }
        for bad in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0",
            "a/b",
            "",
            "*",
            "0x7f.0x1",
        ] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
    }
}
