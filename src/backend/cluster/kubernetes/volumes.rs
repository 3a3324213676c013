//! The volumes of a node: what is attached to it, and waiting until nothing is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;

use super::course::Course;
use super::node_step::{NAMED, NodeStep, Outage, PACE, count};
use super::object::{PersistentVolume, VolumeAttachment};
use super::pods::claims_of;
use super::{ATTACHMENTS, VOLUMES};
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

/// The volumes of pods that a drain leaves where they are: such a volume is never detached.
async fn spared(step: &NodeStep<'_>) -> Result<BTreeSet<Arc<str>>, ApiError> {
    let (pods, _) = step.pods().await?;
    let skipped = pods
        .iter()
        .filter(|pod| step.course(pod) == Course::Skipped);
    let claims: BTreeSet<_> = skipped.flat_map(claims_of).collect();
    if claims.is_empty() {
        return Ok(BTreeSet::new());
    }
    let take = |spared: &mut BTreeSet<Arc<str>>, volume: PersistentVolume| {
        let claim = volume.spec.claim_ref;
        if claims.contains(&(claim.namespace, claim.name)) {
            spared.insert(volume.metadata.name);
        }
    };
    let parameters = ListParams::default();
    let list = step.server.list(VOLUMES, &parameters, BTreeSet::new, take);
    Ok(list.await?.0)
}

/// The volumes that a drain waits for.
pub(super) async fn awaited(step: &NodeStep<'_>) -> Result<BTreeSet<Arc<str>>, ApiError> {
    let mut volumes = attached(&step.server, &step.node).await?;
    if !volumes.is_empty() {
        let spared = spared(step).await?;
        volumes.retain(|volume| !spared.contains(volume));
    }
    Ok(volumes)
}

/// Waits until no volume is attached to the node but those of pods that stay.
///
/// Before the machine goes off: a volume that is still attached may be mounted elsewhere only after
/// minutes, or be damaged.
pub(super) async fn release(step: &NodeStep<'_>) -> Result<(), ActError> {
    let mut outage = Outage::none();
    let mut waits = waits(PACE, LONGEST_PAUSE, &step.node);
    loop {
        match awaited(step).await {
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
