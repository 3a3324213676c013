//! Brings one failed machine back, whatever moves it: looks, asks [`next`](crate::remediation::next) what comes
//! next, does that one thing, and looks again.
//!
//! The notes and the observed state decide alone, so that after a crash anywhere the next process finds
//! everything. The two annotations are held by the resources of Metal3 if the
//! machine has them ([`Holder`]), else by the notes, which the record keeps; power and node are asked for as
//! by any other step, each order named after its attempt.

mod holder;
mod noted;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ActError, Cluster, Hardware, Order, Probe};
use crate::remediation::{Backup, Memory};

pub use holder::{Holder, HostSeen};
use noted::Noted;
use walk::Walk;

/// The Kubernetes node of a machine, as a remediation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Its UID.
    pub uid: Arc<str>,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it is marked as out of service.
    pub out_of_service: bool,
    /// Labels, taints and annotations that a new node would lack.
    pub backup: Backup,
}

/// The memory of a remediation: of an earlier run, and of this one.
fn memory(order: &Order) -> Memory {
    let earlier = order.step.given().remembered().as_deref();
    let earlier = earlier.cloned().unwrap_or_default();
    earlier.with(order.notes.iter().map(|note| &**note))
}

/// The progress of a remediation. It can always be resumed: the next task follows from the observed state.
pub(super) fn probe(order: &Order) -> Probe {
    match order.notes.is_empty() {
        true => Probe::NotBegun,
        false => Probe::UnderWay,
    }
}

/// Brings the machine back, or aborts the remediation.
pub(super) async fn act(
    order: &Order,
    hardware: &dyn Hardware,
    cluster: Option<&dyn Cluster>,
) -> Result<(), ActError> {
    let permanent = |text: &str| ActError::Permanent(Arc::from(text));
    let Some(node) = &order.node else {
        return Err(permanent(
            "only a machine that is in the design can be remediated",
        ));
    };
    let Some(cluster) = cluster.filter(|cluster| cluster.knows_nodes()) else {
        return Err(permanent(
            "this site has no cluster with Kubernetes nodes, so none can be released",
        ));
    };
    let memory = memory(order);
    let limits = *order.step.given().remediation();
    let holder = hardware.holder(node);
    let noted = Noted::new(order, hardware, &memory);
    Walk {
        order,
        node,
        cluster,
        holder: holder.as_deref().unwrap_or(&noted),
        limits: limits.unwrap_or_default(),
        memory,
        seen_off: None,
        is_off: false,
        confirmed: BTreeSet::new(),
    }
    .run()
    .await
}
