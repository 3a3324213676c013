//! The backends that move what runs on the machines: the Kubernetes cluster and the etcd clusters.
//!
//! [`choose`] reads `clusters` of the site's `trueup/Backends/v1` and the site's
//! `promenade/EtcdClusters/v1`, and gives one [`super::Cluster`].

mod kubernetes;

use std::sync::Arc;

use super::{Cluster, Context, Error};
use crate::design::Design;

/// Opens the cluster of a site; `None` where it has none.
///
/// # Errors
///
/// A setting does not fit, a kubeconfig cannot be read, or the simulated site cannot be used.
pub fn choose(design: &Design, context: &Context) -> Result<Option<Arc<dyn Cluster>>, Error> {
    let kubernetes = kubernetes::Kubernetes::open(design, context);
    Ok(kubernetes.map(|cluster| Arc::new(cluster) as Arc<dyn Cluster>))
}

/// Whether a site has a cluster that is no simulation: time passes as it does, and a request of a dead
/// process may still be answered.
#[must_use]
pub fn is_real(design: &Design) -> bool {
    kubernetes::is_named(design)
}
