//! The etcd clusters that a plan touches: who is a member of which, and whether they keep their quorum.

use std::sync::Arc;

use super::subject::Subject;
use crate::design::{ClusterName, Design, EtcdCluster, EtcdMember};
use crate::observed::EtcdSeen;
use crate::step::EtcdRemoval;

/// The members on a node, each with its cluster in the design to be reached; where that does not list
/// it any more, by the design that was last applied.
pub(super) fn members_on<'a>(
    design: &'a Design,
    subject: &Subject<'a>,
) -> Vec<(&'a EtcdCluster, &'a EtcdMember)> {
    let on = |cluster: &'a EtcdCluster| {
        let member = cluster.members.iter().find(|m| m.node == *subject.name);
        member.map(|member| (cluster, member))
    };
    let mut found: Vec<_> = design.etcd_clusters.iter().filter_map(on).collect();
    for (old, member) in subject
        .old
        .into_iter()
        .flat_map(|old| old.etcd_clusters.iter().filter_map(on))
    {
        if found.iter().any(|(cluster, _)| cluster.name == old.name) {
            continue;
        }
        let mut now = design.etcd_clusters.iter();
        found.push((now.find(|now| now.name == old.name).unwrap_or(old), member));
    }
    found
}

/// How a designed member is to be removed; `None` where the cluster has none of that name.
///
/// # Errors
///
/// No member of the cluster answered.
pub(super) fn removal(
    cluster: &ClusterName,
    member: &EtcdMember,
    seen: &EtcdSeen,
) -> Result<Option<EtcdRemoval>, String> {
    let answers = || seen.answers.values().filter_map(|answer| answer.known());
    if answers().next().is_none() {
        return Err(format!("no member of etcd cluster `{cluster}` answered"));
    }
    // Those that decide know best.
    let mut ordered: Vec<_> = answers().collect();
    ordered.sort_by_key(|answer| !answer.decides);
    for answer in ordered {
        let named = |name: &Arc<str>, urls: &[Arc<str>]| {
            *name == member.name || (name.is_empty() && urls.contains(&member.peer_url))
        };
        let mut members = answer.members.iter();
        if let Some(found) = members.find(|each| named(&each.name, &each.peer_urls)) {
            return Ok(Some(EtcdRemoval {
                cluster: cluster.clone(),
                cluster_id: answer.cluster_id.clone(),
                member_id: found.id.clone(),
                name: member.name.clone(),
            }));
        }
        if answer.decides {
            break;
        }
    }
    Ok(None)
}
