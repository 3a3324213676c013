//! The backends that move what runs on the machines: the Kubernetes cluster and the etcd clusters.
//!
//! [`choose`] reads `clusters` of the site's `trueup/Backends/v1` and the site's
//! `promenade/EtcdClusters/v1`, and gives one [`super::Cluster`]. A site whose machines are simulated
//! has a simulated cluster, etcd included, unless it names a real one.

mod both;
pub mod etcd;
mod kubernetes;
pub(super) mod named;

use std::sync::Arc;

use super::api_server::Connection;
use super::hardware::sim::Simulators;
use super::{BackendContext, Cluster, Error};
use crate::design::Guards;

use both::Both;
use etcd::Etcd;
pub(super) use kubernetes::{NODES, Readiness};
use named::is_simulated;

/// Opens the cluster of a site; `None` if it has none.
///
/// # Errors
///
/// A setting does not fit, a kubeconfig cannot be read, or the simulated site cannot be used.
pub fn choose(
    guards: &Guards,
    context: &BackendContext,
    simulators: &mut Simulators,
) -> Result<Option<Arc<dyn Cluster>>, Error> {
    if is_simulated(guards) {
        return Ok(Some(simulators.cluster()?));
    }
    let kubernetes = kubernetes::Kubernetes::open(guards, context);
    let kubernetes = kubernetes.map(|cluster| Arc::new(cluster) as Arc<dyn Cluster>);
    let etcd = real_etcd(guards, context);
    Ok(match (kubernetes, etcd) {
        (Some(kubernetes), Some(etcd)) => Some(Arc::new(Both { kubernetes, etcd })),
        (one, other) => one.or(other),
    })
}

/// The connection to the cluster whose nodes the machines are; `None` if the site names none, or a simulated one.
pub(super) fn connection(guards: &Guards, context: &BackendContext) -> Option<Connection> {
    kubernetes::connection(guards, context)
}

/// Opens the etcd clusters of a site alone; `None` if it has none.
///
/// # Errors
///
/// The reach of the site is not trusted, or the simulated site cannot be used.
pub fn choose_etcd(
    guards: &Guards,
    context: &BackendContext,
) -> Result<Option<Arc<dyn Cluster>>, Error> {
    context.admit(guards)?;
    if is_simulated(guards) {
        return Ok(Some(Simulators::new(guards, context)?.cluster()?));
    }
    Ok(real_etcd(guards, context))
}

fn real_etcd(guards: &Guards, context: &BackendContext) -> Option<Arc<dyn Cluster>> {
    let clusters = &guards.etcd_clusters;
    (!clusters.is_empty()).then(|| Arc::new(Etcd::new(clusters, &context.secrets)) as _)
}
