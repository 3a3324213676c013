//! Etcd clusters: members that are there, URLs of their own and on their machines, whole credentials, thresholds that can be met, quorum after
//! retirement.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::super::read::{Findings, items, number, text, text_of};
use super::super::{NodeName, name_problem, quorum};
use super::groups::retiring;
use super::{Catalog, Design, Documented, kind, names_near};
use crate::diagnostic::{Diagnostic, Mark, some_names};
use crate::document::Node;

/// The document that describes the machine on which a site begins, and which is no BaremetalNode.
const GENESIS: &str = "promenade/Genesis/v1";

pub(super) fn check(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    let retires = retiring(site);
    let genesis: Vec<Arc<str>> = catalog
        .of(GENESIS)
        .filter_map(|(_, data)| text(data, "hostname"))
        .collect();
    let mut names: BTreeMap<Arc<str>, Mark> = BTreeMap::new();
    let mut urls: BTreeMap<String, Mark> = BTreeMap::new();
    let mut places: Vec<MemberPlace> = Vec::new();
    for (_, data) in catalog.of(kind::ETCD_CLUSTERS) {
        for cluster in items(data, "clusters") {
            once(cluster.get("name"), "etcd cluster", &mut names, findings);
            check_name(cluster, findings);
            check_members(cluster, &genesis, site, findings);
            check_urls(cluster, &mut urls, findings);
            places.extend(member_places(cluster));
            check_credentials(cluster, findings);
            check_threshold(cluster, findings);
            check_quorum(cluster, site, &retires, findings);
        }
    }
    check_places(&places, site, findings);
}

/// Where a member is reached, by a URL of it.
struct MemberPlace {
    node: Arc<str>,
    host: Arc<str>,
    /// The host, if it is an address.
    address: Option<IpAddr>,
    mark: Mark,
}

/// Where the members of a cluster are reached.
fn member_places(cluster: &Node) -> impl Iterator<Item = MemberPlace> {
    let members = items(cluster, "members").iter();
    members.flat_map(|member| {
        let urls = ["peer_url", "client_url"].into_iter();
        urls.filter_map(|field| {
            let url = member.get(field)?;
            let parsed: http::Uri = text_of(url)?.parse().ok()?;
            let host = parsed.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
            Some(MemberPlace {
                node: text(member, "node")?,
                address: host.parse().ok(),
                host: Arc::from(host),
                mark: url.mark,
            })
        })
    })
}

/// A member is reached on its own machine: the one that is taken out of service with it.
fn check_places(places: &[MemberPlace], design: &Design, findings: &mut Findings) {
    let hosts: BTreeSet<IpAddr> = places.iter().filter_map(|place| place.address).collect();
    let mut owners: BTreeMap<IpAddr, Vec<&NodeName>> = BTreeMap::new();
    if !hosts.is_empty() {
        for (name, node) in &design.nodes {
            let of_controller = node.out_of_band.address.iter();
            for address in node.addresses.values().chain(of_controller) {
                if let Some(address) = address.parse().ok().filter(|each| hosts.contains(each)) {
                    owners.entry(address).or_default().push(name);
                }
            }
        }
    }
    for place in places {
        let by_address = place.address.and_then(|address| owners.get(&address));
        let is_own = |owner: &&NodeName| *owner.as_str() == *place.node;
        let (what, owner) = match by_address {
            Some(owners) if owners.iter().any(is_own) => continue,
            Some(owners) => ("an address", owners[0].as_str()),
            None => match named_node(&place.host, design) {
                Some(owner) if *owner.as_str() != *place.node => ("the name", owner.as_str()),
                Some(_) | None => continue,
            },
        };
        let message = format!(
            "`{}` is {what} of `{owner}`, and this member is on `{}`",
            place.host, place.node
        );
        findings.push(Diagnostic::error("rule-etcd-place", place.mark, message));
    }
}

/// The node that a host is called after: `n1`, or `n1.example.org`.
fn named_node<'d>(host: &str, design: &'d Design) -> Option<&'d NodeName> {
    let ends = host.match_indices('.').map(|(end, _)| end);
    let mut names = ends.chain([host.len()]).map(|end| &host[..end]);
    names.find_map(|name| Some(design.nodes.get_key_value(name)?.0))
}

fn check_name(cluster: &Node, findings: &mut Findings) {
    let name = cluster
        .get("name")
        .and_then(|node| Some((node, text_of(node)?)));
    if let Some((node, name)) = name.filter(|(_, name)| !name.is_empty())
        && let Some(problem) = name_problem(&name)
    {
        let message = format!("the name of a cluster {problem}");
        findings.push(Diagnostic::error("rule-etcd-name", node.mark, message));
    }
}

/// Each name once.
fn once(
    node: Option<&Node>,
    what: &str,
    seen: &mut BTreeMap<Arc<str>, Mark>,
    findings: &mut Findings,
) {
    let Some((node, name)) = node.and_then(|node| Some((node, text_of(node)?))) else {
        return;
    };
    if let Some(first) = seen.get(&name) {
        let message = format!("{what} `{name}` is there twice");
        findings.push(
            Diagnostic::error("rule-etcd-repeated", node.mark, message)
                .related(*first, "first here"),
        );
    } else {
        seen.insert(name, node.mark);
    }
}

fn check_members(cluster: &Node, genesis: &[Arc<str>], design: &Design, findings: &mut Findings) {
    let (mut names, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for member in items(cluster, "members") {
        once(member.get("name"), "member", &mut names, findings);
        once(member.get("node"), "node", &mut nodes, findings);
        let Some((node, name)) = member
            .get("node")
            .and_then(|node| Some((node, text_of(node)?)))
        else {
            continue;
        };
        if design.index().position(&name).is_none() && !genesis.contains(&name) {
            let message = format!("there is no node `{name}`");
            findings.push(
                Diagnostic::error("reference-etcd-node", node.mark, message)
                    .did_you_mean(&name, names_near(&name, design)),
            );
        }
    }
}

/// Each URL once, in all clusters: two members cannot be reached in the same place.
fn check_urls(cluster: &Node, seen: &mut BTreeMap<String, Mark>, findings: &mut Findings) {
    let members = items(cluster, "members").iter();
    let urls = members.flat_map(|member| [member.get("peer_url"), member.get("client_url")]);
    for (node, url) in urls
        .flatten()
        .filter_map(|node| Some((node, text_of(node)?)))
    {
        let place = url.trim_end_matches('/').to_ascii_lowercase();
        match seen.get(&place) {
            Some(first) => findings.push(
                Diagnostic::error(
                    "rule-etcd-repeated",
                    node.mark,
                    format!("the URL `{url}` is there twice"),
                )
                .related(*first, "first here"),
            ),
            None => {
                seen.insert(place, node.mark);
            }
        }
    }
}

/// A certificate is nothing without its key, nor a user without a password.
fn check_credentials(cluster: &Node, findings: &mut Findings) {
    let Some(credentials) = cluster.get("credentials") else {
        return;
    };
    for (one, other) in [("cert", "key"), ("username", "password")] {
        let (given, missing) = match (credentials.get(one), credentials.get(other)) {
            (Some(given), None) => (given, other),
            (None, Some(given)) => (given, one),
            _ => continue,
        };
        let message = format!("`{one}` and `{other}` go together, and there is no `{missing}`");
        findings.push(Diagnostic::error(
            "rule-etcd-credentials",
            given.mark,
            message,
        ));
    }
}

fn minimum(cluster: &Node) -> Option<u64> {
    number(cluster.get("thresholds")?, "minimum_healthy")
}

fn check_threshold(cluster: &Node, findings: &mut Findings) {
    let size = items(cluster, "members").len();
    if let Some(wanted) = minimum(cluster)
        && wanted > size as u64
    {
        let field = cluster.at(&["thresholds", "minimum_healthy"]);
        let mark = field.map_or(cluster.mark, |node| node.mark);
        let message = format!("{wanted} healthy members are wanted, and the cluster has {size}");
        findings.push(Diagnostic::error("rule-etcd-threshold", mark, message));
    }
}

/// The members that stay when all that retire are gone, now or on a later day, must still be a quorum.
fn check_quorum(cluster: &Node, site: &Documented, retires: &[bool], findings: &mut Findings) {
    let members = items(cluster, "members");
    let leaving: Vec<Arc<str>> = members
        .iter()
        .filter_map(|member| text(member, "node"))
        .filter(|name| {
            let position = site.index().position(name);
            position.is_some_and(|position| retires[position as usize])
        })
        .collect();
    let staying = members.len() - leaving.len();
    let wanted = quorum(members.len()).max(minimum(cluster).unwrap_or(0) as usize);
    if leaving.is_empty() || staying >= wanted {
        return;
    }
    let name = text(cluster, "name").unwrap_or_default();
    let message = format!(
        "{} retire, which leaves etcd cluster `{name}` with {staying} of {} members, and it needs {wanted}",
        some_names(leaving.iter().map(|name| &**name)),
        members.len()
    );
    let mark = cluster
        .get("members")
        .map_or(cluster.mark, |members| members.mark);
    let entries = site.guards.retirements.iter().filter(|retirement| {
        leaving.iter().any(|name| {
            site.nodes
                .get(&**name)
                .is_some_and(|node| retirement.selector.matches(node))
        })
    });
    let error = Diagnostic::error("rule-etcd-retired", mark, message);
    findings.push(entries.take(3).fold(error, |error, retirement| {
        error.related(retirement.mark, "they retire here")
    }));
}
