//! The values of one machine, as its controller shows them, to be written as a document.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Checkout, Client, Failure, FailureKind, allow_applied, backend_failure, identities, runtime,
    sound,
};
use crate::backend::{self, Hardware as _};
use crate::design::NodeDesign;
use crate::diagnostic::nearest;
use crate::observed::HardwareSeen;
use crate::record::Store;
use crate::site::{At, Settings};
use crate::telemetry::{Phase, Scope};

/// Reads the firmware, the settings and the parts of a machine; nothing is changed.
///
/// # Errors
///
/// The documents have errors or no such node; its backend is not trusted, or does not show them.
pub fn learn_hardware(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    at: At,
    settings: Settings,
    node: &str,
) -> Result<(Arc<NodeDesign>, HardwareSeen), Failure> {
    let location = checkout.location_at(at)?;
    let mut loader = checkout.loader()?;
    let site = loader.load(&location, at, settings)?;
    let site = sound(client, &loader, settings.depth, site)?;
    let guarded = checkout.guarded(&site)?;
    let Some(design) = guarded.nodes.get(node).cloned() else {
        let failure = Failure::new(FailureKind::NotFound, format!("unknown node `{node}`"));
        let names = guarded.nodes.keys().map(|name| name.as_str());
        return Err(match nearest(node, names) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure,
        });
    };
    let store = Store::open(checkout.repository, &location.site)?;
    let records = store.nodes(&store.read()?)?;
    let context = client.backends(checkout, &location)?;
    allow_applied(&context, &guarded, &records, &BTreeMap::new());
    context.identities.record(identities(&records));
    let backends =
        backend::choose(&guarded, &context).map_err(|error| backend_failure(&error, &loader))?;
    let _observing = Scope::phase(Phase::Observe);
    let runtime = runtime(guarded.guards())?;
    let seen = runtime.block_on(async {
        let seen = backends.learn(&design).await;
        backends.leave().await;
        seen
    });
    let seen = seen.map_err(|error| Failure::error(error.to_string()))?;
    if seen.is_empty() {
        let backend = guarded.guards().backend_of(&design).kind.as_str();
        let text = format!("node `{node}` shows no firmware, settings or parts over `{backend}`");
        let hint = "see docs/firmware.md for what each backend shows of a machine, and from where";
        return Err(Failure::error(text).hint(hint));
    }
    Ok((design, seen))
}
