//! The proof that a step changes the machine that its document means, for all backends alike.
//!
//! A backend observes what distinguishes the machine behind a controller, or in a provisioner; the
//! [`Registry`] judges it. A machine that is another one is never changed, one that is unverified only
//! where that was allowed.

use std::sync::Arc;

use crate::backend::{ActError, Order};
use crate::design::NodeDesign;
use crate::identity::{self, Identity, Proof, Registry};
use crate::observed::ObservedNode;

/// The observed identity of the machine that a step is to change.
pub(super) struct Evidence {
    pub(super) identity: Identity,
    pub(super) proof: Proof,
    /// By which failures begin.
    pub(super) subject: String,
}

/// Lets a step begin on a machine that was proven, or may be changed without proof; what it is known by
/// from now on is noted first.
///
/// # Errors
///
/// It is another machine, or unverified and not allowed; or the note could not be written.
pub(super) async fn admit(
    registry: &Registry,
    order: &Order,
    node: &NodeDesign,
    evidence: &Evidence,
) -> Result<(), ActError> {
    let Evidence {
        identity: observed,
        proof,
        subject,
    } = evidence;
    let name = node.name.as_str();
    let refuse = |text: String| Err(ActError::Refused(Arc::from(text)));
    match proof {
        Proof::Refused(why) => {
            return refuse(format!(
                "{subject}: {why}; nothing was changed. If its board was replaced, check it and run \
                 `trueup accept {name} --identity`"
            ));
        }
        Proof::Unverified(why) if !registry.allows_unverified(name) => {
            return refuse(format!(
                "{subject}: unverified: {why}; nothing was changed. Name `oob.uuid`, `oob.serial` or \
                 `metadata.boot_mac`, or plan again with `--allow-unverified {name}`"
            ));
        }
        Proof::Unverified(why) => order.reporter.progress(format!("unverified: {why}")),
        Proof::Proven => {}
    }
    match registry.learn(name, &observed.of_boot_interfaces(&node.identity()), proof) {
        Some(learned) => order.reporter.note(identity::note(&learned)).await,
        None => Ok(()),
    }
}

/// A node with what was observed of its machine; nothing else of another machine.
pub(super) fn proven(identity: Identity, proof: Proof, observed: ObservedNode) -> ObservedNode {
    let observed = match &proof {
        Proof::Refused(why) => ObservedNode::refused(why),
        Proof::Proven | Proof::Unverified(_) => observed,
    };
    ObservedNode {
        identity: Some(Box::new(identity)),
        proof,
        ..observed
    }
}
