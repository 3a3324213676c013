//! Sees the whole cluster in a few lists, whatever its size.
//!
//! Nodes, attachments, and where a forecast is wanted budgets, volumes and pods: one list each, in pages
//! of 500. Of a pod nothing is kept but what the forecast counts or names.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ListParams;

use super::budget::Exhausted;
use super::forecast::{Budgets, Forecast, LocalClaims};
use super::labels::kept_labels;
use super::names::Names;
use super::object::{Budget, Node, Pod, VolumeAttachment};
use super::{ATTACHMENTS, NODES, PODS, VOLUMES};
use super::{discovery, shutdown};
use crate::backend::api_server::{Connection, Server, Trouble, again};
use crate::backend::{Look, Sight};
use crate::design::NodeName;
use crate::observed::{Attachment, ClusterFacts, ClusterNode, Fact, NodePods};

/// Sees the cluster; what went wrong is in the answer.
pub(super) async fn observe(
    connection: &Connection,
    names: &Names,
    pods_of: &BTreeSet<NodeName>,
    look: Look,
) -> Sight {
    match see(connection, names, pods_of, look).await {
        Ok(sight) => sight,
        Err(trouble) => Sight {
            facts: None,
            nodes: Fact::Unknown(
                format!("cluster `{}`: {trouble}", connection.settings().name).into(),
            ),
            pods: BTreeMap::new(),
            etcd: BTreeMap::new(),
        },
    }
}

async fn see(
    connection: &Connection,
    names: &Names,
    pods_of: &BTreeSet<NodeName>,
    look: Look,
) -> Result<Sight, Trouble> {
    let server = &connection.server().await?;
    if look.named_only {
        return named(server, names, pods_of).await;
    }
    // The first call alone: where nothing answers, it is said once and soon.
    let version = again(|| discovery::version(server)).await?;
    let image = &connection.settings().shutdown_image;
    let (shutdown_daemon_set, mut nodes, attachments, pods) = tokio::try_join!(
        again(|| shutdown::is_applied(server, image)),
        again(|| nodes(server, names)),
        again(|| attachments(server, names)),
        async {
            match look.pods && !pods_of.is_empty() {
                true => again(|| pods(server, names, pods_of)).await,
                false => Ok(BTreeMap::new()),
            }
        },
    )?;
    for (node, attachments) in attachments {
        if let Some(node) = nodes.get_mut(&node) {
            node.attachments = attachments.into_iter().collect();
        }
    }
    Ok(Sight {
        facts: Some(ClusterFacts {
            version: version.into(),
            shutdown_daemon_set,
        }),
        nodes: Fact::Known(nodes),
        pods,
        etcd: BTreeMap::new(),
    })
}

/// Sees some nodes and nothing else: one small call each, one after the other.
async fn named(
    server: &Server,
    names: &Names,
    wanted: &BTreeSet<NodeName>,
) -> Result<Sight, Trouble> {
    let mut nodes = BTreeMap::new();
    for name in wanted {
        let outside = names.outside(name);
        if let Some(node) = again(|| server.get(NODES, &outside)).await? {
            nodes.insert(name.clone(), cluster_node(node));
        }
    }
    Ok(Sight {
        facts: None,
        nodes: Fact::Known(nodes),
        pods: BTreeMap::new(),
        etcd: BTreeMap::new(),
    })
}

async fn nodes(server: &Server, names: &Names) -> Result<BTreeMap<NodeName, ClusterNode>, Trouble> {
    let take = |nodes: &mut BTreeMap<_, _>, node: Node| {
        if let Some(name) = names.inside(&node.metadata.name) {
            nodes.insert(name, cluster_node(node));
        }
    };
    let list = server
        .list(NODES, &ListParams::default(), BTreeMap::new, take)
        .await?;
    Ok(list.0)
}

/// What is kept of a node.
fn cluster_node(node: Node) -> ClusterNode {
    ClusterNode {
        ready: node.status.is_ready(),
        unschedulable: node.spec.unschedulable,
        kept_labels: kept_labels(&node).into(),
        uid: node.metadata.uid,
        cordoned_by: node.metadata.annotations.cordoned_by,
        labels: node.metadata.labels.into_iter().collect(),
        attachments: Vec::new(),
    }
}

async fn attachments(
    server: &Server,
    names: &Names,
) -> Result<BTreeMap<NodeName, BTreeSet<Attachment>>, Trouble> {
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
    names: &Names,
    pods_of: &BTreeSet<NodeName>,
) -> Result<BTreeMap<NodeName, NodePods>, Trouble> {
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
    let fresh = || Forecast::new(pods_of.iter(), &budgets, &claims);
    let take = |forecast: &mut Forecast<'_>, pod: Pod| {
        if let Some(node) = names.inside(&pod.spec.node_name) {
            forecast.take(&node, &pod);
        }
    };
    let parameters = ListParams::default().fields("spec.nodeName!=");
    let (forecast, _) = server.list(PODS, &parameters, fresh, take).await?;
    Ok(forecast.finish())
}

/// The budgets that allow no disruption now, in a namespace or, where it is empty, in all.
pub(super) async fn budgets(server: &Server, namespace: &str) -> Result<Budgets, Trouble> {
    let version = discovery::budgets(server).await?;
    let path = version.collection(namespace);
    let take = |found: &mut Vec<_>, budget: Budget| found.extend(Exhausted::new(budget, version));
    let (found, _) = server
        .list(&path, &ListParams::default(), Vec::new, take)
        .await?;
    Ok(found.into_iter().collect())
}
