//! Identities of machines: no two nodes may name the same.

use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::read::{Findings, is_blank, text_of};
use super::super::{
    BackendKind, Documented, Guards, HardwareBackend, NodeDesign, NodeName, Section,
};
use crate::diagnostic::{Diagnostic, Mark};
use crate::identity;

/// Reads a value in the one form in which it is compared; `None`: a placeholder.
type Read = fn(&str) -> Option<Arc<str>>;

/// The identity values in a document: kind in words, place, and parser.
const VALUES: [(&str, Section, &[&str], Read); 3] = [
    ("UUID", Section::OutOfBand, &["oob", "uuid"], written_uuid),
    (
        "serial number",
        Section::OutOfBand,
        &["oob", "serial"],
        identity::serial,
    ),
    (
        "boot MAC address",
        Section::Inventory,
        &["metadata", "boot_mac"],
        identity::mac,
    ),
];

/// A UUID as a document names it: what a controller shows may be of any form, but a slip of the hand proves nothing.
fn written_uuid(text: &str) -> Option<Arc<str>> {
    let uuid = identity::uuid(text)?;
    let digits = uuid.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = uuid.bytes().filter(|byte| *byte == b'-').count();
    (digits == 32 && digits + dashes == uuid.len()).then_some(uuid)
}

pub(super) fn check(site: &Documented, findings: &mut Findings) {
    let mut values: FxHashMap<(&str, String), (&NodeName, Mark)> = FxHashMap::default();
    let mut controllers: FxHashMap<Controller, (&NodeName, Mark)> = FxHashMap::default();
    for node in site.nodes.values() {
        for (what, section, path, read) in VALUES {
            let field = node.sections.get(&section);
            let field = field.and_then(|fields| fields.at(path));
            let Some((field, text)) = field.and_then(|field| Some((field, text_of(field)?))) else {
                continue;
            };
            if is_blank(field) {
                continue;
            }
            let Some(value) = read(&text) else {
                let message =
                    format!("this {what} proves nothing: many boards carry it, or it is none");
                let finding = Diagnostic::warning("rule-identity-placeholder", field.mark, message);
                findings
                    .push(finding.hint("leave it out, or write the value that the board shows"));
                continue;
            };
            let key = (what, value.to_lowercase());
            if let Some((other, mark)) = values.get(&key) {
                let message = format!("`{other}` and `{}` have the same {what}", node.name);
                let finding = Diagnostic::error("rule-identity-repeated", field.mark, message);
                findings.push(finding.related(*mark, "the other is here"));
            } else {
                values.insert(key, (&node.name, field.mark));
            }
        }
        check_shared(site, node, &mut controllers, findings);
    }
}

/// In the place of a system: whichever of its systems. No system has such a name.
const WHOLE: &str = "/";

/// A management controller, and one of its systems if it has more than one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Controller {
    address: Arc<str>,
    port: Arc<str>,
    system: Option<String>,
}

impl Controller {
    /// The controller that trueup itself asks for a node, and where its document names it.
    fn asked(node: &NodeDesign, backend: &HardwareBackend) -> Option<(Self, Mark)> {
        match backend.kind {
            BackendKind::Redfish | BackendKind::Ipmi => Self::of(node, backend),
            BackendKind::Sim
            | BackendKind::None
            | BackendKind::Ironic
            | BackendKind::Maas
            | BackendKind::Metal3 => None,
        }
    }

    /// Returns the controller by which a node is reached, and where its document names it.
    fn of(node: &NodeDesign, backend: &HardwareBackend) -> Option<(Self, Mark)> {
        let oob = node.sections.get(&Section::OutOfBand);
        let oob = oob.and_then(|section| section.get("oob"));
        let own = |name: &str| oob?.get(name).filter(|field| !is_blank(field));
        let setting = |name: &str| backend.settings.as_ref()?.get(name).and_then(text_of);
        let is_redfish = backend.kind == BackendKind::Redfish;
        // IPMI reaches the address on the out-of-band network alone.
        let of = |name: &str| own(name).filter(|_| is_redfish).and_then(text_of);
        let address = of("address").or_else(|| node.out_of_band.address.clone())?;
        // An address has several spellings, and so has a name.
        let address = match address.parse::<IpAddr>() {
            Ok(address) => Arc::from(address.to_string()),
            Err(_) => Arc::from(address.to_ascii_lowercase()),
        };
        let system = of("system").or_else(|| setting("system").filter(|_| is_redfish));
        let system = system.map(|text| {
            let text = text.replace("{node}", node.name.as_str());
            let last = text.trim_end_matches('/').rsplit('/').next();
            last.unwrap_or_default().to_lowercase()
        });
        // Written out or not, the port of its scheme is one port.
        let is_plain = setting("scheme").as_deref() == Some("http");
        let otherwise = backend.kind.controller_port(is_plain);
        let port = own("port").filter(|_| otherwise.is_some());
        let port = port.and_then(text_of).or_else(|| setting("port"));
        let port = port.map_or_else(
            || otherwise.map_or_else(String::new, |port| port.to_string()),
            |port| port.trim_start_matches('0').to_owned(),
        );
        let mut named = ["system", "address"].into_iter().filter_map(own);
        let field = named.next().or(oob);
        let controller = Self {
            address,
            port: Arc::from(port),
            system,
        };
        Some((controller, field.map_or(node.mark, |field| field.mark)))
    }

    fn with_system(&self, system: Option<&str>) -> Self {
        Self {
            system: system.map(str::to_owned),
            ..self.clone()
        }
    }
}

/// The nodes whose controllers have other nodes behind them too, each with one of those.
pub(crate) fn sharing_controllers<'d>(
    nodes: impl Iterator<Item = &'d NodeDesign>,
    guards: &Guards,
) -> FxHashMap<&'d NodeName, &'d NodeName> {
    let mut first: FxHashMap<Controller, &NodeName> = FxHashMap::default();
    let mut sharing = FxHashMap::default();
    for node in nodes {
        let Some((place, _)) = Controller::asked(node, guards.backend_of(node)) else {
            continue;
        };
        match first.entry(place.with_system(None)) {
            Entry::Vacant(entry) => {
                entry.insert(&node.name);
            }
            Entry::Occupied(entry) => {
                sharing.insert(&node.name, *entry.get());
                sharing.entry(*entry.get()).or_insert(&node.name);
            }
        }
    }
    sharing
}

/// Two nodes on one controller are two systems of it; if a node names none, it has the controller alone.
fn check_shared<'d>(
    site: &'d Documented,
    node: &'d NodeDesign,
    controllers: &mut FxHashMap<Controller, (&'d NodeName, Mark)>,
    findings: &mut Findings,
) {
    let backend = site.guards.backend_of(node);
    let Some((place, mark)) = Controller::asked(node, backend) else {
        return;
    };
    let (alone, whole) = (place.with_system(None), place.with_system(Some(WHOLE)));
    let shared = match place.system {
        None => &whole,
        Some(_) => &place,
    };
    let taken = controllers.get(shared).or_else(|| controllers.get(&alone));
    let Some((other, first)) = taken else {
        controllers.entry(whole).or_insert((&node.name, mark));
        controllers.insert(place, (&node.name, mark));
        return;
    };
    let (name, code) = (&node.name, "rule-controller-shared");
    let finding = match backend.kind {
        BackendKind::Redfish => {
            let message = format!(
                "`{other}` and `{name}` are on one controller, and are not two systems of it"
            );
            Diagnostic::error(code, mark, message).hint("name the system of each in `oob.system`")
        }
        _ => {
            let message = format!("`{other}` and `{name}` are reached by one controller");
            Diagnostic::error(code, mark, message)
        }
    };
    findings.push(finding.related(*first, "the other is here"));
}
