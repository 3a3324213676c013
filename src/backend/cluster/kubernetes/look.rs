//! Sees the whole cluster in a few lists, whatever its size.
//!
//! Nodes, attachments, and where a forecast is wanted budgets, volumes and pods: one list each, in pages
//! of 500; of few nodes only their own pods are listed. Of a pod nothing is kept but what the forecast counts or names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use kube::api::ListParams;

use super::budget::Exhausted;
use super::endpoints::ApiServers;
use super::forecast::{Budgets, Forecast, LocalClaims, Terms};
use super::labels::kept_labels;
use super::names::Names;
use super::object::{Budget, Node, Pod, VolumeAttachment};
use super::{ATTACHMENTS, Kubernetes, NODES, PODS, VOLUMES};
use super::{conditions, discovery, lease, rights, shutdown};
use crate::backend::api_server::{ApiError, Server, again};
use crate::backend::{Look, Sight};
use crate::design::NodeName;
use crate::observed::{Attachment, ClusterFacts, ClusterNode, Fact, ObservedPods};
use crate::step::StepKind;

/// Up to so many nodes, the pods of each are listed for themselves, and not those of the whole cluster.
const FEW: usize = 20;

/// Sees the cluster; what went wrong is in the answer.
pub(super) async fn observe(
    cluster: &Kubernetes,
    pods_of: &BTreeSet<NodeName>,
    look: Look,
) -> Sight {
    match see(cluster, pods_of, look).await {
        Ok(sight) => sight,
        Err(error) => Sight {
            facts: None,
            nodes: Fact::Unknown(
                format!("cluster `{}`: {error}", cluster.connection.settings().name).into(),
            ),
            pods: BTreeMap::new(),
            etcd: BTreeMap::new(),
        },
    }
}

async fn see(
    cluster: &Kubernetes,
    pods_of: &BTreeSet<NodeName>,
    look: Look,
) -> Result<Sight, ApiError> {
    let (connection, names) = (&cluster.connection, &cluster.names);
    let server = &connection.server().await?;
    if look.named_only {
        return named(server, cluster, pods_of, look).await;
    }
    // The first call alone: if nothing answers, it is said once and soon.
    let version = again(|| discovery::version(server)).await?;
    let image = &connection.settings().shutdown_image;
    let steps: BTreeSet<StepKind> = look.rights.steps().collect();
    let (api_servers, missing_rights) = tokio::join!(
        again(|| ApiServers::of(server)),
        rights::missing(server, &steps)
    );
    // A server that answers by itself, and not from its store, answers nothing of what follows.
    if let Err(error @ ApiError::Unreachable(_)) = api_servers {
        return Err(error);
    }
    let hosts = api_servers.as_ref().ok();
    let daemon_set = async {
        match again(|| shutdown::is_applied(server, image)).await {
            // Steps that need it are blocked by its right, which is among the missing ones.
            Err(error) if error.code() == Some(403) => Ok(false),
            other => other,
        }
    };
    let leases = async { Ok(lease::of_others(server).await) };
    let (leases, shutdown_daemon_set, mut nodes, attachments, pods) = tokio::try_join!(
        leases,
        daemon_set,
        again(|| nodes(server, names, hosts)),
        again(|| attachments(server, names)),
        pods_wanted(server, cluster, pods_of, look),
    )?;
    for (node, lease) in leases {
        let node = names.inside(&node).and_then(|node| nodes.get_mut(&node));
        if let Some(node) = node {
            node.maintenance.get_or_insert(lease);
        }
    }
    for (node, attachments) in attachments {
        if let Some(node) = nodes.get_mut(&node) {
            node.attachments = attachments.into_iter().collect();
        }
    }
    Ok(Sight {
        facts: Some(ClusterFacts {
            version: version.into(),
            shutdown_daemon_set,
            api_servers: Some(match api_servers {
                Ok(servers) => Fact::Known(servers.len()),
                Err(error) => Fact::Unknown(Arc::from(error.to_string())),
            }),
            missing_rights,
        }),
        nodes: Fact::Known(nodes),
        pods,
        etcd: BTreeMap::new(),
    })
}

async fn pods_wanted(
    server: &Server,
    cluster: &Kubernetes,
    pods_of: &BTreeSet<NodeName>,
    look: Look,
) -> Result<ObservedPods, ApiError> {
    match look.pods && !pods_of.is_empty() {
        true => again(|| pods(server, cluster, pods_of)).await,
        false => Ok(BTreeMap::new()),
    }
}

/// Sees some nodes and their pods, and nothing else: one small call each, one after the other.
async fn named(
    server: &Server,
    cluster: &Kubernetes,
    wanted: &BTreeSet<NodeName>,
    look: Look,
) -> Result<Sight, ApiError> {
    let mut nodes = BTreeMap::new();
    for name in wanted {
        let outside = cluster.names.outside(name);
        if let Some(node) = again(|| server.get(NODES, &outside)).await? {
            nodes.insert(name.clone(), cluster_node(node, None));
        }
    }
    Ok(Sight {
        facts: None,
        nodes: Fact::Known(nodes),
        pods: pods_wanted(server, cluster, wanted, look).await?,
        etcd: BTreeMap::new(),
    })
}

async fn nodes(
    server: &Server,
    names: &Names,
    api_servers: Option<&ApiServers>,
) -> Result<BTreeMap<NodeName, ClusterNode>, ApiError> {
    let take = |nodes: &mut BTreeMap<_, _>, node: Node| {
        if let Some(name) = names.inside(&node.metadata.name) {
            nodes.insert(name, cluster_node(node, api_servers));
        }
    };
    let list = server
        .list(NODES, &ListParams::default(), BTreeMap::new, take)
        .await?;
    Ok(list.0)
}

/// Converts a node, as far as it is stored.
fn cluster_node(node: Node, api_servers: Option<&ApiServers>) -> ClusterNode {
    let cordoned_by = node.cordoned_by().cloned();
    ClusterNode {
        api_servers: api_servers.map_or(0, |servers| servers.on(&node)),
        ready: node.status.is_ready(),
        returned: node.returned(Timestamp::now()),
        unschedulable: node.spec.unschedulable,
        kept_labels: kept_labels(&node).into(),
        uid: node.metadata.uid,
        has_own_conditions: conditions::are_left(&node.status),
        maintenance: conditions::of_others(&node.status),
        cordoned_by,
        labels: node.metadata.labels.into_iter().collect(),
        attachments: Vec::new(),
    }
}

async fn attachments(
    server: &Server,
    names: &Names,
) -> Result<BTreeMap<NodeName, BTreeSet<Attachment>>, ApiError> {
    let take = |all: &mut BTreeMap<_, BTreeSet<_>>, each: VolumeAttachment| {
        if let Some(node) = names.inside(&each.spec.node_name) {
            all.entry(node).or_default().insert(Attachment {
                name: each.metadata.name,
                volume: each.spec.source.persistent_volume_name,
            });
        }
    };
    let list = server
        .list(ATTACHMENTS, &ListParams::default(), BTreeMap::new, take)
        .await?;
    Ok(list.0)
}

async fn pods(
    server: &Server,
    cluster: &Kubernetes,
    pods_of: &BTreeSet<NodeName>,
) -> Result<ObservedPods, ApiError> {
    let names = &cluster.names;
    let rules = &cluster.drain_rules;
    let (budgets, claims) = tokio::try_join!(budgets(server, ""), async {
        let parameters = ListParams::default();
        let list = server.list(
            VOLUMES,
            &parameters,
            LocalClaims::default,
            LocalClaims::take,
        );
        list.await.map(|(claims, _)| claims)
    })?;
    let terms = Terms {
        budgets: &budgets,
        claims: &claims,
        rules,
    };
    let fresh = || Forecast::new(pods_of.iter(), terms);
    let take = |forecast: &mut Forecast<'_>, pod: Pod| {
        if let Some(node) = names.inside(&pod.spec.node_name) {
            forecast.take(&node, &pod);
        }
    };
    if pods_of.len() > FEW {
        let parameters = ListParams::default().fields("spec.nodeName!=");
        let (forecast, _) = server.list(PODS, &parameters, fresh, take).await?;
        return Ok(forecast.finish());
    }
    let of_nodes = pods_of.iter().map(|node| async move {
        let fields = format!("spec.nodeName={}", names.outside(node));
        let parameters = ListParams::default().fields(&fields);
        let alone = || Forecast::new(std::iter::once(node), terms);
        let (forecast, _) = server.list(PODS, &parameters, alone, take).await?;
        Ok(forecast.finish())
    });
    let of_nodes = try_join_all(of_nodes).await?;
    Ok(of_nodes.into_iter().flatten().collect())
}

/// The budgets that allow no disruption now, in a namespace or, if it is empty, in all.
pub(super) async fn budgets(server: &Server, namespace: &str) -> Result<Budgets, ApiError> {
    let version = discovery::budgets(server).await?;
    let path = version.collection(namespace);
    let take = |found: &mut Vec<_>, budget: Budget| found.extend(Exhausted::new(budget, version));
    let (found, _) = server
        .list(&path, &ListParams::default(), Vec::new, take)
        .await?;
    Ok(found.into_iter().collect())
}
