//! Waits for a node that was made anew, and puts back what the one before carried.

use super::errand::{Errand, Outage, PACE};
use super::object::Node;
use super::owed::{give_back, set_designed};
use crate::backend::api_server::Trouble;
use crate::backend::{ActError, Probe};

/// Whether the node is there, Ready, and not the old one.
pub(super) async fn probe(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    if errand.parameters.members_only {
        return Ok(Probe::Done);
    }
    let waits_for = missing(errand, errand.look().await?.as_ref());
    // What it carried is put back by acting.
    Ok(waits_for.map_or(Probe::UnderWay, |_| Probe::NotBegun))
}

/// Waits until the node is there, Ready, and not the old one, and puts back what it is owed: the UID of the parameters, where one is
/// given, is that of the node that went.
pub(super) async fn act(errand: &Errand<'_>) -> Result<(), ActError> {
    if errand.parameters.members_only {
        return Ok(());
    }
    let mut outage = Outage::none();
    loop {
        match errand.look().await {
            Err(trouble) => outage.bear(errand, trouble).await?,
            Ok(node) => {
                outage.ends();
                let Some(missing) = missing(errand, node.as_ref()) else {
                    set_designed(errand).await?;
                    return give_back(errand).await;
                };
                if errand.is_over() {
                    let seconds = errand.timeout();
                    return Err(errand.failure(format!("{missing} after {seconds} s")));
                }
                errand.progress(missing);
                errand.pause(PACE).await;
            }
        }
    }
}

/// What is still missing.
fn missing(errand: &Errand<'_>, node: Option<&Node>) -> Option<String> {
    let name = &errand.node;
    let Some(node) = node else {
        return Some(format!("node `{name}` is not in the cluster"));
    };
    if errand.parameters.node_uid.as_ref() == Some(&node.metadata.uid) {
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
