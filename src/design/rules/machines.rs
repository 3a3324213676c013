//! Names, controllers, kernel parameters and boot actions of machines.

use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::read::{Findings, is_blank, items, text, text_of};
use super::super::{BackendKind, HardwareBackend, NodeDesign, NodeName, Section, name_problem};
use super::{Catalog, Design, Documented, check_values, kind};
use crate::diagnostic::{Diagnostic, Mark, some_names};
use crate::document::{Document, Limits, Map, Node, Value, load_values};

/// The longest name of a host with its domain (RFC 1035).
const LONGEST_NAME: usize = 255;

/// The longest part of a name between two dots.
const LONGEST_LABEL: usize = 63;

pub(super) fn check(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    let mut kernels = FxHashSet::default();
    let mut seen = FxHashSet::default();
    for node in site.nodes.values() {
        let Some((document, data)) = catalog.get(kind::NODE, node.name.as_str()) else {
            continue;
        };
        check_name(document, node, catalog, findings);
        check_controller(data, node, site, findings);
        check_names_of(node, catalog, &mut seen, findings);
        check_endpoint(node, &mut seen, findings);
        let platform = node.sections.get(&Section::OperatingSystem);
        let parameters = platform.and_then(|section| section.at(&["platform", "kernel_params"]));
        if let Some(Value::Map(map)) = parameters.map(|node| &node.value)
            && kernels.insert(Arc::as_ptr(map))
        {
            check_huge_pages(map, findings);
        }
    }
    check_case(catalog, site, findings);
    check_primary(catalog, findings);
    check_boot_actions(catalog, site, findings);
}

/// Finds names that differ in case only: DNS takes them for one, and Kubernetes knows the lower one alone.
fn check_case(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    let has_upper = |name: &&NodeName| name.as_str().contains(|c: char| c.is_ascii_uppercase());
    let mut known: FxHashMap<String, &NodeName> = FxHashMap::default();
    for name in site.nodes.keys().filter(has_upper) {
        let lower = name.as_str().to_ascii_lowercase();
        let other = site.nodes.get_key_value(&*lower).map(|(other, _)| other);
        let other = other.or_else(|| known.insert(lower, name));
        let document = |name: &NodeName| catalog.get(kind::NODE, name.as_str());
        if let (Some(other), Some((document, _))) = (other, document(name)) {
            let message =
                format!("`{name}` and `{other}` differ in case only: as host names they are one");
            findings.push(Diagnostic::error(
                "rule-node-name",
                document.name_mark,
                message,
            ));
        }
    }
}

/// The word for all machines where nodes are named, such as in `--allow-redeploy all`.
const ALL_NODES: &str = "all";

fn check_name(
    document: &Document,
    node: &NodeDesign,
    catalog: &Catalog<'_>,
    findings: &mut Findings,
) {
    let name = node.name.as_str();
    let mark = document.name_mark;
    if let Some((code, message, hint)) = name_rule(name) {
        let finding = Diagnostic::error(code, mark, message);
        findings.push(match hint {
            Some(hint) => finding.hint(hint),
            None => finding,
        });
        return;
    }
    let primary = node.sections.get(&Section::Network);
    let primary = primary.and_then(|section| text_of(section.get("primary_network")?));
    let domain = primary
        .and_then(|network| catalog.get(kind::NETWORK, &network))
        .and_then(|(_, data)| text(data.get("dns")?, "domain"));
    let Some(domain) = domain else {
        return;
    };
    let labels = domain.trim_end_matches('.').split('.');
    if let Some(problem) = labels
        .filter(|_| !domain.is_empty())
        .find_map(label_problem)
    {
        let message = format!(
            "`{name}` with its domain `{domain}` is no host name: a part of it is {problem}"
        );
        findings.push(Diagnostic::error("rule-host-name", mark, message));
    } else if name.len() + 1 + domain.len() > LONGEST_NAME {
        let message = format!("`{name}` with its domain is longer than {LONGEST_NAME} characters");
        findings.push(Diagnostic::error("rule-host-name", mark, message));
    }
}

/// The rule that a name of a node breaks, whatever its domain: its code, the message and what helps.
fn name_rule(name: &str) -> Option<(&'static str, String, Option<&'static str>)> {
    if let Some(problem) = name_problem(name) {
        let message = format!("the name of a node {problem}");
        let hint = "letters, digits, `.` and `-` make a name";
        return Some(("rule-node-name", message, Some(hint)));
    }
    if name == ALL_NODES {
        let message = format!("a node must not be called `{name}`");
        let hint = "in `--allow-redeploy all` and its like the word means every machine";
        return Some(("rule-node-name", message, Some(hint)));
    }
    let problem = name.split('.').find_map(label_problem)?;
    let message = format!("`{name}` is no host name: a part of it is {problem}");
    let hint = "letters, digits and `-` make each part of the name of a host";
    Some(("rule-host-name", message, Some(hint)))
}

/// The reason why no document may give a node this name.
pub(crate) fn node_name_problem(name: &str) -> Option<String> {
    name_rule(name).map(|(_, message, _)| message)
}

/// The reason why a text is no part of a host name, as the end of a sentence about it.
fn label_problem(label: &str) -> Option<&'static str> {
    let is_bad = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    if label.len() > LONGEST_LABEL {
        Some("longer than 63 characters")
    } else if label.starts_with('-') || label.ends_with('-') || label.is_empty() {
        Some("not begun and ended by a letter or a digit")
    } else if label.contains(is_bad) {
        Some("made of more than letters, digits and `-`")
    } else {
        None
    }
}

/// How a management controller is reached.
const CONTROLLERS: [&str; 4] = ["ipmi", "redfish", "libvirt", "manual"];

/// Warns of primary networks that are unknown: Drydock gives the machines its own domain then.
fn check_primary(catalog: &Catalog<'_>, findings: &mut Findings) {
    let documents = catalog.of(kind::NODE).chain(catalog.of(kind::HOST_PROFILE));
    for (_, data) in documents {
        let named = data.get("primary_network");
        let named = named.filter(|field| {
            let text = field.as_str().unwrap_or_default();
            !text.is_empty() && !text.starts_with('!')
        });
        if let Some(mut finding) = named.and_then(|field| unknown_network(field, catalog)) {
            finding
                .message
                .push_str("; the domain of the machines is `local`");
            findings.push(finding.as_warning());
        }
    }
}

/// The error for an unknown network.
pub(super) fn unknown_network(field: &Node, catalog: &Catalog<'_>) -> Option<Diagnostic> {
    let name = text_of(field)?;
    if catalog.get(kind::NETWORK, &name).is_some() {
        return None;
    }
    if field.is_secret() {
        let message = "there is no such network";
        return Some(Diagnostic::error("reference-network", field.mark, message));
    }
    let message = format!("there is no network `{name}`");
    let finding = Diagnostic::error("reference-network", field.mark, message);
    Some(finding.did_you_mean(&name, catalog.names(kind::NETWORK)))
}

/// The network and the type of the controller of a machine. Machines that inherit them from one
/// profile share one finding.
fn check_names_of(
    node: &NodeDesign,
    catalog: &Catalog<'_>,
    seen: &mut FxHashSet<Mark>,
    findings: &mut Findings,
) {
    let oob = node.sections.get(&Section::OutOfBand);
    let oob = oob.and_then(|section| section.get("oob"));
    let network = oob.and_then(|oob| oob.get("network"));
    if let Some(network) = network.filter(|network| !is_blank(network))
        && seen.insert(network.mark)
        && let Some(finding) = unknown_network(network, catalog)
    {
        findings.push(finding);
    }
    let Some(field) = oob
        .and_then(|oob| oob.get("type"))
        .filter(|field| !is_blank(field))
    else {
        return;
    };
    let Some(kind) = text_of(field) else {
        return;
    };
    if CONTROLLERS.contains(&&*kind) || !seen.insert(field.mark) {
        return;
    }
    let finding = if field.is_secret() {
        Diagnostic::error(
            "rule-controller",
            field.mark,
            "there is no such type of controller",
        )
    } else {
        let message = format!("there is no type of controller `{kind}`");
        Diagnostic::error("rule-controller", field.mark, message).did_you_mean(&kind, CONTROLLERS)
    };
    findings.push(finding.hint("it is one of `ipmi`, `redfish`, `libvirt`, `manual`"));
}

/// The address and the port that a document names for the controller of a machine.
fn check_endpoint(node: &NodeDesign, seen: &mut FxHashSet<Mark>, findings: &mut Findings) {
    let oob = node.sections.get(&Section::OutOfBand);
    let Some(oob) = oob.and_then(|section| section.get("oob")) else {
        return;
    };
    for (name, hint) in [
        ("port", "a port is a number from 1 to 65535"),
        (
            "address",
            "an address or a name, without a scheme, a port or a path: `10.0.0.5`, `bmc5.example.org`; `oob.port` names the port",
        ),
    ] {
        let field = oob.get(name).filter(|field| !field.is_null());
        let Some((field, text)) = field.and_then(|field| Some((field, text_of(field)?))) else {
            continue;
        };
        let is_sound = match name {
            "port" => text.parse::<u16>().is_ok_and(|port| port > 0),
            _ => is_host(&text),
        };
        if is_sound || !seen.insert(field.mark) {
            continue;
        }
        let message = format!("`oob.{name}` is none that a controller is reached at");
        findings.push(Diagnostic::error("rule-controller", field.mark, message).hint(hint));
    }
}

/// Whether a text is an address, or a name as DNS has them.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let mut letters = label.chars();
        !label.is_empty()
            && letters.all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    text.parse::<IpAddr>().is_ok() || text.trim_end_matches('.').split('.').all(is_label)
}

/// The fields of a document that the controller of a machine needs, if its backend reaches one.
fn check_controller(data: &Node, node: &NodeDesign, site: &Documented, findings: &mut Findings) {
    let oob = node.sections.get(&Section::OutOfBand);
    let Some(oob) = oob.and_then(|section| section.get("oob")) else {
        return;
    };
    let backend = site.guards.backend_of(node);
    // A simulated machine has no controller.
    if backend.kind == BackendKind::Sim {
        return;
    }
    match oob.get("type").and_then(Node::as_str) {
        Some("ipmi") => check_ipmi(data, node, oob, backend, findings),
        Some("libvirt") => check_libvirt(data, node, oob, findings),
        _ => {}
    }
}

/// Where the type of a controller is written.
fn type_mark(oob: &Node) -> Mark {
    oob.get("type").map_or(oob.mark, |node| node.mark)
}

fn check_ipmi(
    data: &Node,
    node: &NodeDesign,
    oob: &Node,
    backend: &HardwareBackend,
    findings: &mut Findings,
) {
    let mark = type_mark(oob);
    let lacks = |name: &str| oob.get(name).is_none_or(is_blank);
    // What a backend is given, or does not need, the documents need not hold.
    let has_own_credentials = match backend.kind {
        BackendKind::None => true,
        BackendKind::Ipmi | BackendKind::Redfish => {
            let settings = backend.settings.as_ref();
            let given = settings.and_then(|settings| settings.get("credentials"));
            given.is_none()
        }
        _ => false,
    };
    let mut missing = vec!["network"];
    if has_own_credentials {
        missing.extend(["account", "credential"]);
    }
    missing.retain(|name| lacks(name));
    if !missing.is_empty() {
        let fields = some_names(missing.iter().copied());
        let message = format!("IPMI needs {fields} in `oob`");
        findings.push(Diagnostic::error("rule-ipmi", mark, message));
    }
    if !lacks("network") && node.out_of_band.address.is_none() {
        let network = text(oob, "network").unwrap_or_default();
        let message = format!(
            "`{}` has no address on its out-of-band network `{network}`",
            node.name
        );
        let list = data.get("addressing").map_or(node.mark, |list| list.mark);
        findings.push(
            Diagnostic::error("rule-ipmi", list, message)
                .related(mark, "its controller is reached by IPMI"),
        );
    }
}

fn check_libvirt(data: &Node, node: &NodeDesign, oob: &Node, findings: &mut Findings) {
    let mark = type_mark(oob);
    let uri = oob.get("libvirt_uri");
    match uri.and_then(Node::as_str) {
        Some(text) if text.starts_with("qemu+ssh://") => {}
        Some(_) => {
            let at = uri.map_or(mark, |node| node.mark);
            let message = "libvirt is reached by `qemu+ssh://` only";
            findings.push(Diagnostic::error("rule-libvirt", at, message));
        }
        None => {
            let message = "libvirt needs a `libvirt_uri` in `oob`";
            findings.push(Diagnostic::error("rule-libvirt", mark, message));
        }
    }
    if data.at(&["metadata", "boot_mac"]).is_none_or(is_blank) {
        let message = format!("`{}` is a libvirt machine without a `boot_mac`", node.name);
        let metadata = data.get("metadata");
        let at = metadata.map_or(node.mark, |metadata| metadata.mark);
        findings.push(Diagnostic::error("rule-libvirt", at, message));
    }
}

fn check_huge_pages(parameters: &Map, findings: &mut Findings) {
    let size = parameters.field("hugepagesz");
    let count = parameters.field("hugepages");
    let (there, missing) = match (size, count) {
        (Some(size), None) => (size, "hugepages"),
        (None, Some(count)) => (count, "hugepagesz"),
        _ => return,
    };
    let message = format!("huge pages need both size and number: `{missing}` is missing");
    findings.push(Diagnostic::error(
        "rule-huge-pages",
        there.key_mark,
        message,
    ));
}

fn check_boot_actions(catalog: &Catalog<'_>, design: &Design, findings: &mut Findings) {
    let mut first: Option<Mark> = None;
    for (document, data) in catalog.of(kind::BOOT_ACTION) {
        first = first.or(Some(document.mark));
        let filters = data.at(&["node_filter", "filter_set"]);
        for filter in filters.and_then(Node::as_list).unwrap_or_default() {
            check_values(filter, design, findings);
        }
        let assets = items(data, "assets").iter();
        for asset in assets.filter(|asset| text(asset, "type").as_deref() == Some("pkg_list")) {
            check_packages(asset, findings);
        }
    }
    let Some(first) = first else {
        return;
    };
    let without: Vec<&str> = design
        .nodes
        .values()
        .filter(|node| {
            let section = node.sections.get(&Section::BootActions);
            section
                .and_then(|section| section.get("boot_actions"))
                .is_none_or(is_blank)
        })
        .map(|node| node.name.as_str())
        .collect();
    if !without.is_empty() {
        let message = format!(
            "no boot action selects {}",
            some_names(without.iter().copied())
        );
        findings.push(Diagnostic::warning("rule-boot-action", first, message));
    }
}

/// A list of packages is a map of names to versions, or the text of one; what a template or a download
/// will make of it cannot be known here.
fn check_packages(asset: &Node, findings: &mut Findings) {
    const CODE: &str = "rule-package-list";
    let made = items(asset, "data_pipeline")
        .iter()
        .any(|step| matches!(step.as_str(), Some("template" | "base64_decode")));
    if made || !asset.get("location").is_none_or(is_blank) {
        return;
    }
    let Some(data) = asset.get("data").filter(|data| !is_blank(data)) else {
        let message = "a list of packages needs `data` or a `location`";
        findings.push(Diagnostic::error(CODE, asset.mark, message));
        return;
    };
    let read = match data.as_str() {
        None => Some(data.clone()),
        Some(written) => {
            let (mut values, problems) = load_values(data.mark.source, written, &Limits::default());
            let is_one = !problems.has_errors() && values.len() == 1;
            values.pop().filter(|_| is_one)
        }
    };
    let Some(packages) = read.as_ref().and_then(Node::as_map) else {
        let message = "this is no map of packages to versions";
        findings.push(Diagnostic::error(CODE, data.mark, message));
        return;
    };
    for (name, field) in packages.iter() {
        let is_version = match &field.node.value {
            Value::Null => true,
            _ => text_of(&field.node).is_some_and(|version| is_version(&version)),
        };
        if !is_version {
            let package = if data.is_secret() {
                "a package"
            } else {
                &*name.text
            };
            let message = format!("the version of `{package}` is no version of a Debian package");
            findings.push(Diagnostic::error(CODE, data.mark, message));
            return;
        }
    }
}

/// `[epoch:]version[-revision]`.
fn is_version(text: &str) -> bool {
    let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '~' | '-');
    epoch.bytes().all(|byte| byte.is_ascii_digit()) && rest.chars().all(fits)
}
