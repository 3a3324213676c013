//! The rules that a design has to keep, beyond the schemas of its documents.
//!
//! Drydock's own rules come with the number that Drydock gives them, if it has one. Every rule is
//! linear in the values that it reads; values that many nodes share are read once.
//!
//! | code | what | Drydock |
//! | --- | --- | --- |
//! | `rule-unknown-kind` | an unknown kind in a namespace whose kinds are known | |
//! | `rule-node-name` | a name of a node that cannot be part of ids, refs and paths, has a `:`, is `all`, or differs from another one in case only | |
//! | `rule-host-name` | a name that is no host name, or too long with its domain | DD3003 |
//! | `rule-group-name` | a name of a group that cannot be part of ids, refs and paths | |
//! | `rule-group-repeated` | two groups of one name | |
//! | `rule-group-unknown` | a group depends on an unknown one | |
//! | `rule-group-self` | a group depends on itself | |
//! | `rule-group-cycle` | groups depend on each other in a circle | |
//! | `rule-selector-unknown-node` | a selector names an unknown node (warning) | |
//! | `rule-selector-unknown` | a selector has a tag, a label or a rack that no node has (warning) | |
//! | `rule-selector-empty` | a selector means no node (warning) | |
//! | `rule-node-without-group` | nodes that no group selects (warning) | |
//! | `rule-minimum-unreachable` | a group wants more nodes than it has, or than do not retire (warning) | |
//! | `rule-drain-grace` | the grace period of a drain is not less than its timeout | |
//! | `rule-cidr` | no range of addresses | |
//! | `rule-cidr-host-bits` | a range with host bits | DD2006 |
//! | `rule-cidr-overlap` | two networks of one VLAN whose ranges overlap | |
//! | `rule-address` | no address | |
//! | `rule-address-outside` | an address outside its network | DD2002 |
//! | `rule-address-repeated` | one address twice | DD2005 |
//! | `rule-address-gateway` | an address that is a gateway of its network | |
//! | `rule-address-dhcp` | an address in a DHCP range of its network | |
//! | `rule-address-range` | an address in no range of a network that has static ones (warning) | |
//! | `rule-range` | a range that ends before it begins | |
//! | `rule-route-gateway` | a route without a gateway, or with one outside its network | DD2002 |
//! | `rule-mtu` | an MTU that is not between 1280 and 65536, or above that of the link | DD2003 |
//! | `rule-vlan` | a VLAN that is no number from 1 to 4094 | |
//! | `rule-trunking` | networks on a link that cannot be told apart | DD2004 |
//! | `rule-bonding` | bonding options that do not fit the mode | DD1006 |
//! | `rule-network-on-two-links` | a network that is allowed on two links | DD1007 |
//! | `rule-network-not-on-link` | a network of an interface that its link does not allow, or without a link | DD1007 |
//! | `rule-root-missing` | disks without a root partition | DD1001 |
//! | `rule-root-size`, `rule-boot-size` | a partition that is too small, or whose size in bytes is unknown | DD1001 |
//! | `rule-size` | no size | |
//! | `rule-disk-use` | a disk with both partitions and a volume group, or neither | DD2002 |
//! | `rule-partition-use` | a partition with both a file system and a volume group | DD2002 |
//! | `rule-volume-group-unused` | a volume group without a device | DD2002 |
//! | `rule-percent` | parts of more than 99 % | DD2003 |
//! | `rule-mount-point` | one mount point twice | DD2004 |
//! | `rule-huge-pages` | the size of huge pages without their number, or the other way round | DD1008 |
//! | `rule-controller` | a type, an address or a port of a management controller that is none | |
//! | `rule-ipmi` | IPMI without network, address, account or credential | DD4001 |
//! | `rule-libvirt` | libvirt without URI or boot MAC | DD4002 |
//! | `rule-identity-repeated` | two nodes with the same UUID, serial number or boot MAC address | |
//! | `rule-identity-placeholder` | a UUID, serial number or MAC address that many boards carry (warning) | |
//! | `rule-controller-shared` | two nodes on one controller that are not two systems of it | |
//! | `rule-label-key`, `rule-label-value` | what cannot be a label of Kubernetes | |
//! | `rule-label-reserved` | a label that the kubelet sets, or that stops it | |
//! | `rule-boot-action` | nodes without a boot action (warning) | DD4001 |
//! | `rule-package-list` | packages that are no map of names to versions | DD4002 |
//! | `rule-etcd-name` | a name of an etcd cluster that cannot be part of ids, refs and paths | |
//! | `rule-etcd-repeated` | a cluster or a member twice | |
//! | `rule-etcd-place` | a member that is reached at an address, or by the name, of another node than its own | |
//! | `rule-etcd-threshold` | more healthy members wanted than there are | |
//! | `rule-etcd-retired` | retirement leaves an etcd cluster without quorum, or below its minimum | |
//! | `rule-hardware-conflict` | two Hardware documents with different values of one name for a machine | |
//! | `rule-hardware-unused` | a Hardware document that selects no machine, or names an unknown maker or model (warning) | |
//! | `rule-raid-name` | two RAID volumes of a document with one name | |
//! | `rule-raid-drives` | a RAID volume with fewer drives than its level needs, or an odd number where it needs an even one | |
//! | `rule-raid-drive` | a drive in two RAID volumes, or twice in one | |
//! | `rule-raid-controller` | a RAID volume that names its drives, and not their controller | |
//! | `rule-retirement-date` | a day that is not in the calendar | |
//! | `rule-open-field` | a field of adopted machines that was not observed, and that no document fills (warning); one that is open and assumed | |
//! | `rule-cleaning-tie` | two clean steps of one interface with the same priority | |
//! | `rule-ignored-path` | a path of `ignore_changes` that begins with a field of no machine (warning) | |
//! | `rule-window-empty` | a maintenance window without time | |
//! | `rule-backend-settings` | settings of another backend than the one chosen (warning) | |
//! | `rule-simulated-nobody` | a fault or a workload of a simulator for unknown nodes (warning) | |
//! | `rule-backend-name` | two nodes with the same name elsewhere | |
//! | `rule-tls-unverified` | certificates that are not verified (warning) | |
//! | `rule-one-document` | two documents of a kind that a site has one of | |
//! | `reference-rack` | a node stands in an unknown rack, in a site that describes its racks | |
//! | `reference-routing-domain` | a route to a routing domain of no network | |
//! | `reference-volume-group` | a disk or partition in an unknown volume group | |
//! | `reference-etcd-node`, `reference-retired-node`, `reference-backend-node`, `reference-cluster` | a reference to an unknown node or cluster | |
//!
//! DD3001 (image and kernel are there) is asked of the backend when a run begins, not here.

mod addresses;
mod clusters;
mod groups;
mod identity;
mod kinds;
mod labels;
mod links;
mod machines;
mod policies;
mod racks;
mod selectors;
mod storage;

pub use storage::Size;

pub(crate) use identity::sharing_controllers;
pub(crate) use labels::RESERVED as RESERVED_LABELS;
pub(crate) use machines::node_name_problem;

use super::catalog::Catalog;
use super::read::Findings;
use super::{Design, Documented, hardware, kind};
use crate::threads;
use selectors::{
    check_attributes, check_names, check_selector, check_selectors, check_values, names_near,
};

/// The rules of so many nodes at least are worth a thread.
const WORTH_A_THREAD: usize = 4096;

/// Checks all rules.
pub(super) fn check(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    let first = |findings: &mut Findings| {
        kinds::check(catalog, findings);
        groups::check(catalog, site, findings);
        addresses::check(catalog, site, findings);
        links::check(catalog, site, findings);
        storage::check(site, findings);
        machines::check(catalog, site, findings);
        hardware::check(catalog, site, findings);
        racks::check(catalog, site, findings);
    };
    let second = || {
        let mut findings = Findings::default();
        identity::check(site, &mut findings);
        labels::check(site, &mut findings);
        clusters::check(catalog, site, &mut findings);
        policies::check(catalog, site, &mut findings);
        findings
    };
    let ((), others) = match site.nodes.len() {
        0..WORTH_A_THREAD => (first(findings), second()),
        _ => threads::both(|| first(findings), second),
    };
    findings.take(others, true);
}

#[cfg(test)]
mod references_tests;
#[cfg(test)]
mod tests;
