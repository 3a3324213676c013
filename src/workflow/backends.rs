//! The backends of a site: who may be contacted, and what is said where one refuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Failure, FailureKind};
use crate::backend::{self, Backends, Clock, Reach};
use crate::design::{DIGEST_VERSION, Guards, MergeJoin, NodeDesign, NodeName, Section};
use crate::guard::Guarded;
use crate::identity::Identity;
use crate::record::NodeRecord;
use crate::site::{Loader, Site};

/// Lets the controllers be contacted whose addresses were applied: those of nodes whose designs are as
/// recorded, and those of `applied`, the designs that were applied last of the others.
pub fn allow_applied(
    backends: &backend::BackendContext,
    site: &Guarded,
    records: &BTreeMap<NodeName, NodeRecord>,
    applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
) {
    if Reach::of(site.guards()).is_empty() {
        return;
    }
    let mut nodes = MergeJoin::of(&site.nodes);
    let unmoved = records.iter().filter_map(|(name, record)| {
        let node = nodes.get(name.as_str())?;
        let (section, own) = (&Section::OutOfBand, &node.digests);
        let is_same = record.digest_version == DIGEST_VERSION
            && record.digests.get(section) == own.get(section);
        is_same.then_some(&**node)
    });
    let others = applied.values().map(|node| &**node);
    for node in unmoved.chain(others) {
        backends
            .applied
            .add(node, site.guards().backend_of(node).kind);
    }
}

/// The identities of machines in the records.
pub fn identities(
    records: &BTreeMap<NodeName, NodeRecord>,
) -> impl Iterator<Item = (&str, Identity)> {
    let records = records.iter();
    records.filter_map(|(name, record)| Some((name.as_str(), *record.identity.clone()?)))
}

/// A runtime whose clock is the backends'.
///
/// # Errors
///
/// The system does not let it start.
pub fn runtime(guards: &Guards) -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(backend::clock(guards) == Clock::Virtual)
        .on_thread_unpark(backend::arrived)
        .build()
        .map_err(|error| Failure::error(format!("the runtime could not be started: {error}")))
}

/// Chooses the backends of a site. If its documents are at fault, all of them are loaded to say where.
///
/// # Errors
///
/// Their settings are wrong, or they are not trusted.
pub fn choose(
    loader: &mut Loader<'_>,
    (site, guarded): (&Site, &Guarded),
    backends: &backend::BackendContext,
) -> Result<Arc<Backends>, Failure> {
    let error = match backend::choose(guarded, backends) {
        Ok(chosen) => return Ok(chosen),
        Err(error) => error,
    };
    let whole = match error.diagnostic() {
        Some(_) => loader.load_documents(site)?,
        None => None,
    };
    let found = whole.map(|whole| backend::choose(&guarded.explained_by(&whole.design), backends));
    let found = found.and_then(Result::err);
    Err(backend_failure(&found.unwrap_or(error), loader))
}

/// A failure of choosing backends, with the place of what is refused.
#[must_use]
pub fn backend_failure(error: &backend::Error, loader: &Loader<'_>) -> Failure {
    let mut failure = Failure::from_error(FailureKind::Error, error, None);
    if let backend::Error::Untrusted(untrusted) = error {
        failure.kind = FailureKind::Guard;
        failure.hints.extend(untrusted.hints.iter().cloned());
    }
    if let Some(diagnostic) = error.diagnostic() {
        let place = diagnostic.mark.map(|mark| loader.sources().place(mark));
        failure.message = match place {
            Some(place) => format!("{place}: {}", diagnostic.message),
            None => diagnostic.message.clone(),
        };
        failure.hints.extend(diagnostic.hint.clone());
    }
    if error.diagnostic().is_none() {
        failure.hints.extend(error.hint().map(str::to_owned));
    }
    failure
}
