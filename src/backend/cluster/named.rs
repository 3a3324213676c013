//! Which clusters a design names, and whether they are simulated.

use crate::backend::api_server::Settings;
use crate::design::{BackendKind, Guards};
use crate::document::Node;

/// The name of the cluster in the site's Backends document whose nodes the machines are.
pub(super) const SITE: &str = "kubernetes";

/// Whether a site's cluster is the simulator's: by its kind, or since its machines are simulated and it names no
/// cluster.
pub(super) fn is_simulated(guards: &Guards) -> bool {
    let data = guards.backends.data.as_ref();
    match data.and_then(|data| data.at(&["clusters", "kubernetes"])) {
        Some(named) => named.get("kind").and_then(Node::as_str) == Some("sim"),
        None => guards.backends.hardware.kind == BackendKind::Sim,
    }
}

/// Whether a site has a cluster that is no simulation: time passes as it does, and a request of a dead
/// process may still be answered.
#[must_use]
pub(in crate::backend) fn is_real(guards: &Guards) -> bool {
    Settings::read(guards, SITE).is_some()
        || !guards.etcd_clusters.is_empty() && !is_simulated(guards)
}
