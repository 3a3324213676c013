//! Holds the changes of all nodes against what must hold for them together.

use super::judge::Judged;
use super::subjects::Subjects;
use super::warnings::Notes;
use super::{Carried, Terms};
use rustc_hash::FxHashSet;

use crate::design::{NodeDesign, NodeName, Share};
use crate::guard::WaveLimits;
use crate::plan::accept::refuse_unmatched;
use crate::plan::action::Action;
use crate::plan::item::Item;
use crate::plan::{PlannedGroup, addresses, breaker, cluster, former, unavailable};

/// The changes as they are planned, and the limits on machines that are out of service together.
pub(super) struct Settled<'a> {
    pub(super) items: Vec<Item<'a>>,
    pub(super) limits: WaveLimits<'a>,
    pub(super) notes: Notes<'a>,
}

impl<'a> Settled<'a> {
    /// Returns the changes that are carried out, by node.
    pub(super) fn carried(&'a self) -> Carried<'a> {
        let is_carried = |item: &&Item<'_>| item.change.blocked.is_none() && !item.work.is_empty();
        let items = self.items.iter().filter(is_carried);
        items.map(|item| (item.subject.name, item)).collect()
    }
}

/// Settles the changes together: proven identities, API servers, etcd quorums, rights, and the limits on
/// machines out of service.
pub(super) fn together<'a>(
    terms: &Terms<'a>,
    judged: Judged<'a>,
    names: impl Iterator<Item = &'a NodeName>,
) -> Settled<'a> {
    let Judged { items, down, notes } = judged;
    let (input, rules, clusters) = (terms.input, &terms.rules, terms.clusters);
    let (guards, leaving) = (input.after.guards(), rules.leaving);
    let facts = input.observations.and_then(|seen| seen.cluster.as_ref());
    let items = items.into_iter().map(|item| rules.prove(item)).collect();
    let items = cluster::leave_to_maintainers(items);
    let items = cluster::keep_api_servers(items, facts, clusters, leaving);
    let (items, after) = clusters.settle(items, leaving, &rules.no_etcd_here);
    let items = clusters.keep_members(items, |name| terms.is_retired(name));
    let items = terms.rules.joins.settle(items);
    let items = cluster::need_rights(items, facts);
    let items = refuse_unmatched(rules, &input.request, items);
    let is_remediation = input.request.action == Action::Remediate;
    let most = match is_remediation {
        true => Some(Share::Machines(rules.remedy.max_at_once)),
        false => terms.options.max_unavailable,
    };
    let machines = items.iter().map(|item: &Item<'_>| item.subject.name);
    let machines: FxHashSet<&NodeName> = machines
        .chain(down.iter().map(|(node, _)| &node.name))
        .collect();
    let left = down.iter().map(|(node, _)| *node);
    let left: Vec<&NodeDesign> = left
        .filter(|node| !input.after.nodes.contains_key(&node.name))
        .collect();
    let limits = WaveLimits::new(guards, most)
        .with_etcd(clusters.places(&after))
        .with_groups(
            terms.groups.iter().map(PlannedGroup::size),
            (&machines, &left),
            input.after,
        );
    let is_missed = |name: &NodeName| !terms.is_retired(name);
    let (items, limits) = match is_remediation {
        true => {
            let limits = limits.without_domains();
            let mut subjects = Subjects::of(input);
            let all = names.map(|name| subjects.get(name));
            let limit = rules.remedy.max_unhealthy;
            let items = breaker::judge(items, all, guards, limit);
            let policy = WaveLimits::new(guards, terms.options.max_unavailable);
            let bounds = (rules.remedy.max_at_once, is_missed);
            (unavailable::restart(items, policy, &down, bounds), limits)
        }
        false => {
            let position = |name: &NodeName| terms.group_of(name).unwrap_or(usize::MAX);
            unavailable::judge(items, limits, &down, (position, is_missed))
        }
    };
    let items = addresses::judge(input, items);
    Settled {
        items: former::judge(input.former, &rules.allow_redeploy, items),
        limits,
        notes,
    }
}
