//! The volumes of a node: what is attached to it, and waiting until nothing is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;

use super::ATTACHMENTS;
use super::node_step::{NAMED, NodeStep, Outage, PACE, count};
use super::object::VolumeAttachment;
use crate::backend::ActError;
use crate::backend::api_server::{ApiError, Server};
use crate::backend::retry::waits;
use crate::step::OnDrainTimeout;

/// How often volumes are looked for: each look is a list of all of the cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The volumes that are attached to one node, by name.
pub(super) async fn attached(server: &Server, node: &str) -> Result<BTreeSet<Arc<str>>, ApiError> {
    let take = |all: &mut BTreeSet<_>, each: VolumeAttachment| {
        if &*each.spec.node_name == node {
            all.insert(each.spec.source.persistent_volume_name);
        }
    };
    let list = server
        .list(ATTACHMENTS, &ListParams::default(), BTreeSet::new, take)
        .await?;
    Ok(list.0)
}

/// Waits until no volume is attached to the node.
///
/// Before the machine goes off: a volume that is still attached may be mounted elsewhere only after
/// minutes, or be damaged.
pub(super) async fn release(step: &NodeStep<'_>) -> Result<(), ActError> {
    let mut outage = Outage::none();
    let mut waits = waits(PACE, LONGEST_PAUSE, &step.node);
    loop {
        match attached(&step.server, &step.node).await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(volumes) if volumes.is_empty() => return Ok(()),
            Ok(volumes) => {
                outage.ends();
                let names = volumes.iter().map(|name| &**name).take(NAMED);
                let names = names.collect::<Vec<_>>().join(", ");
                let text = format!("{} still attached", count(volumes.len(), "volume"));
                if step.is_over() {
                    return match step.on_timeout() {
                        OnDrainTimeout::Continue => Ok(()),
                        OnDrainTimeout::Fail | OnDrainTimeout::ForceDelete => {
                            let seconds = step.timeout();
                            Err(step.failure(format!("{text} after {seconds} s: {names}")))
                        }
                    };
                }
                step.progress(format!("{text}: {names}"));
                step.pause(waits.next().unwrap_or(LONGEST_PAUSE)).await;
            }
        }
    }
}
