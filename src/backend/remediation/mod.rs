//! Brings one failed machine back, whatever moves it: looks, asks [`next`](crate::remediation::next) what comes
//! next, does that one thing, and looks again.
//!
//! Nothing but the notes and what can be seen decides, so that a process that dies anywhere leaves nothing
//! that the next one does not find. The two annotations are held by the resources of Metal3 where the
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
    /// What whoever makes it anew would not bring back.
    pub backup: Backup,
}

/// What is remembered of a remediation: of an earlier run, and of this one.
fn memory(order: &Order) -> Memory {
    let parameters = order.step.parameters.as_deref();
    let earlier = parameters.and_then(|parameters| parameters.remembered.as_deref());
    let earlier = earlier.cloned().unwrap_or_default();
    earlier.with(order.notes.iter().map(|note| &**note))
}

/// How far a remediation is. It can always be gone on with: what comes next is told by looking.
pub(super) fn probe(order: &Order) -> Probe {
    match order.notes.is_empty() {
        true => Probe::NotBegun,
        false => Probe::UnderWay,
    }
}

/// Brings the machine back, or gives it up.
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
            "nobody here knows the nodes of Kubernetes, so that none can be released",
        ));
    };
    let memory = memory(order);
    let limits = order.step.parameters.as_deref();
    let limits = limits.and_then(|parameters| parameters.remediation);
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
