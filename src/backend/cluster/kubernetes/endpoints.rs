//! Which API servers of the cluster are ready, and on which nodes they run.
//!
//! They stand in the EndpointSlices of the service `kubernetes` in the namespace `default`. The last ready
//! one is never taken away: without it the node could neither be brought back nor observed.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::ListParams;
use serde::Deserialize;

use super::discovery;
use super::node_step::{NodeStep, conflict};
use super::object::Node;
use crate::backend::ActError;
use crate::backend::api_server::{ApiError, Server, or_empty};
use crate::guard::{api_servers_left, has_control_plane_label};

/// The label that selects the slices.
const OF_THE_SERVERS: &str = "kubernetes.io/service-name=kubernetes";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Slice {
    #[serde(deserialize_with = "or_empty")]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    #[serde(deserialize_with = "or_empty")]
    addresses: Vec<Arc<str>>,
    #[serde(deserialize_with = "or_empty")]
    conditions: Conditions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    /// Absent: not known, which counts as ready.
    ready: Option<bool>,
}

/// The addresses of the API servers that are ready.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiServers(BTreeSet<Arc<str>>);

impl ApiServers {
    /// Reads them.
    pub(super) async fn of(server: &Server) -> Result<Self, ApiError> {
        let version = discovery::slices(server).await?;
        let path = format!("/apis/discovery.k8s.io/{version}/namespaces/default/endpointslices");
        let parameters = ListParams::default().labels(OF_THE_SERVERS);
        let take = |found: &mut BTreeSet<_>, slice: Slice| {
            let ready = slice.endpoints.into_iter();
            let ready = ready.filter(|endpoint| endpoint.conditions.ready != Some(false));
            found.extend(ready.flat_map(|endpoint| endpoint.addresses));
        };
        let (found, _) = server.list(&path, &parameters, BTreeSet::new, take).await?;
        Ok(Self(found))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many of them run on a node.
    pub(super) fn on(&self, node: &Node) -> usize {
        let addresses = node.status.addresses.iter();
        let here: BTreeSet<&Arc<str>> = addresses.map(|address| &address.address).collect();
        here.into_iter()
            .filter(|address| self.0.contains(*address))
            .count()
    }
}

/// Refuses to take a node away with the last API server that is ready.
pub(super) async fn guard(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    if *step.given.node_is_gone() || !step.given.etcd_given_up().is_empty() {
        return Ok(());
    }
    let is_control = has_control_plane_label(|label| node.metadata.labels.get(label));
    let found = ApiServers::of(&step.server).await;
    let servers = match found {
        Ok(servers) => servers,
        Err(_) if !is_control => return Ok(()),
        Err(error) => return Err(step.act_error(error)),
    };
    let here = servers.on(node);
    match is_control || here > 0 {
        true => api_servers_left(servers.len(), here).map_err(|refusal| conflict(step, refusal)),
        false => Ok(()),
    }
}
