//! Etcd clusters and who is in them (`promenade/EtcdClusters/v1`).

use std::sync::Arc;

use super::catalog::Catalog;
use super::read::{items, number, text, text_of};
use super::{ClusterName, EtcdCluster, EtcdMember, NodeName, Reference, kind};
use crate::document::{Map, Node, Value};

/// Reads the clusters of all documents.
pub(super) fn read_clusters(catalog: &Catalog<'_>) -> Vec<EtcdCluster> {
    let documents = catalog.of(kind::ETCD_CLUSTERS);
    let clusters = documents.flat_map(|(_, data)| items(data, "clusters"));
    clusters.filter_map(read_cluster).collect()
}

/// The healthy members that a cluster of some size needs to decide anything.
#[must_use]
pub fn quorum(size: usize) -> usize {
    size / 2 + 1
}

fn read_cluster(node: &Node) -> Option<EtcdCluster> {
    let members: Vec<_> = items(node, "members")
        .iter()
        .filter_map(read_member)
        .collect();
    let minimum = node
        .get("thresholds")
        .and_then(|thresholds| number(thresholds, "minimum_healthy"))
        .and_then(|minimum| usize::try_from(minimum).ok());
    let credentials = node.get("credentials");
    let username = credentials.and_then(|all| text(all, "username"));
    let credentials = credentials.and_then(Node::as_map);
    Some(EtcdCluster {
        name: ClusterName::from(text(node, "name")?),
        minimum_healthy: minimum.unwrap_or_else(|| quorum(members.len())),
        members,
        credentials: credentials
            .into_iter()
            .flat_map(Map::iter)
            .filter_map(|(key, field)| Some((key.text.clone(), Reference::read(&field.node)?)))
            .collect(),
        username,
        mark: node.mark,
    })
}

fn read_member(node: &Node) -> Option<EtcdMember> {
    Some(EtcdMember {
        node: NodeName::from(text(node, "node")?),
        name: text(node, "name")?,
        peer_url: text(node, "peer_url")?,
        client_url: text(node, "client_url")?,
    })
}

/// A list of texts, which can always be written.
fn as_json(words: &[Arc<str>]) -> Arc<str> {
    serde_json::to_string(words).unwrap_or_default().into()
}

impl Reference {
    /// Returns which kind of reference it is, and its value; a program with its arguments as JSON.
    #[must_use]
    pub fn kind_and_value(&self) -> (&'static str, Arc<str>) {
        match self {
            Self::Env(name) => ("env", name.clone()),
            Self::File(path) => ("file", path.clone()),
            Self::Exec(words) => ("exec", as_json(words)),
            Self::Store(words) => ("store", as_json(words)),
        }
    }

    /// Reads a reference (`{env: NAME}`, `{file: PATH}`, `{exec: [PROGRAM, ARGUMENT…]}`, `{store: [PROGRAM, ARGUMENT…]}`);
    /// `None` for anything else, a value that stands there itself among them.
    #[must_use]
    pub fn read(node: &Node) -> Option<Self> {
        let map = node.as_map().filter(|map| map.len() == 1)?;
        let (key, field) = map.iter().next()?;
        match (&*key.text, &field.node.value) {
            ("env", Value::String(name)) => Some(Self::Env(name.clone())),
            ("file", Value::String(path)) => Some(Self::File(path.clone())),
            (kind @ ("exec" | "store"), Value::List(words)) => {
                let words: Option<Vec<Arc<str>>> = words.iter().map(text_of).collect();
                let words = words.filter(|words| !words.is_empty())?;
                Some(match kind {
                    "exec" => Self::Exec(words),
                    _ => Self::Store(words),
                })
            }
            _ => None,
        }
    }
}
