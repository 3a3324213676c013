//! Waits for a node that was made anew, and puts back what the one before carried.

use super::lease;
use super::node_step::{NodeStep, Outage, PACE};
use super::object::Node;
use super::owed::{give_back, set_designed};
use crate::backend::api_server::ApiError;
use crate::backend::{ActError, Probe};

/// Whether the node is there, Ready, and not the old one.
pub(super) async fn probe(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    if *step.given.members_only() {
        return Ok(Probe::Done);
    }
    let waits_for = missing(step, step.look().await?.as_ref());
    // What it carried is put back by acting.
    Ok(waits_for.map_or(Probe::UnderWay, |_| Probe::NotBegun))
}

/// Waits until the node is there, Ready, and not the old one, and puts back what it is owed: the UID of the parameters, if one is
/// given, is that of the node that went.
pub(super) async fn act(step: &NodeStep<'_>) -> Result<(), ActError> {
    if *step.given.members_only() {
        return Ok(());
    }
    let mut outage = Outage::none();
    lease::renew(step).await;
    loop {
        match step.look().await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(node) => {
                outage.ends();
                let Some(missing) = missing(step, node.as_ref()) else {
                    set_designed(step).await?;
                    return give_back(step).await;
                };
                if step.is_over() {
                    let seconds = step.timeout();
                    return Err(step.failure(format!("{missing} after {seconds} s")));
                }
                step.progress(missing);
                step.pause(PACE).await;
            }
        }
    }
}

/// The missing condition.
fn missing(step: &NodeStep<'_>, node: Option<&Node>) -> Option<String> {
    let name = &step.node;
    let Some(node) = node else {
        return Some(format!("node `{name}` is not in the cluster"));
    };
    if step.given.node_uid().as_ref() == Some(&node.metadata.uid) {
        return Some(format!("node `{name}` is still the old one"));
    }
    if node.status.is_ready() {
        return None;
    }
    let message = node
        .status
        .readiness()
        .map_or("", |condition| &*condition.message);
    Some(match message {
        "" => format!("node `{name}` is not Ready"),
        message => format!("node `{name}` is not Ready: {message}"),
    })
}
