//! The health of the etcd clusters of a site, as they answer now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Checkout, Client, Failure, backend_failure, refuse_errors, runtime};
use crate::backend::Look;
use crate::backend::cluster::choose_etcd;
use crate::design::{ClusterName, Guards};
use crate::observed::EtcdSeen;
use crate::site::{At, Settings};
use crate::telemetry::{Phase, Scope};

/// Loads a site, and where `check` lets it asks every etcd cluster of its guards.
///
/// # Errors
///
/// That of `check`; the documents have errors, or the backends are not trusted or cannot be opened.
pub fn observe_etcd(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    at: At,
    settings: Settings,
    check: impl FnOnce(&Guards) -> Result<(), Failure>,
) -> Result<(Arc<Guards>, BTreeMap<ClusterName, EtcdSeen>), Failure> {
    let location = checkout.location_at(at)?;
    let mut loader = checkout.loader()?;
    let site = loader.load(&location, at, settings)?;
    let site = refuse_errors(client, &loader, settings.depth, site)?;
    let guards = checkout.documented(&site)?.guards;
    check(&guards)?;
    let backends = client.backends(checkout, &location)?;
    let cluster =
        choose_etcd(&guards, &backends).map_err(|error| backend_failure(&error, &loader))?;
    let look = Look {
        etcd: true,
        ..Look::default()
    };
    let Some(cluster) = cluster else {
        return Ok((guards, BTreeMap::new()));
    };
    let none = BTreeSet::new();
    let _observing = Scope::phase(Phase::Observe);
    let seen = runtime(&guards)?.block_on(cluster.observe(&none, look));
    Ok((guards, seen.etcd))
}
