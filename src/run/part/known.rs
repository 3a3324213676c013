//! The parts of a run as one process knows them, brought up to date as their refs move.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::refs::{Listed, PartRefs};
use super::status::{PartState, PartStatus, progress};
use crate::journal::Entry;
use crate::plan::{Part, Parts};
use crate::repository::{BlobId, CommitId, Holder};
use crate::run::error::Error;

/// A part, as it was observed last.
#[derive(Clone, Debug)]
pub(in crate::run) struct KnownPart {
    pub(in crate::run) commit: CommitId,
    pub(in crate::run) status: PartStatus,
    /// The chunks of its entries that were read.
    chunks: Vec<BlobId>,
}

/// The parts of a run that have a ref.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct KnownParts(pub(in crate::run) BTreeMap<Arc<str>, KnownPart>);

impl KnownParts {
    /// Takes in what is listed; gives the entries that are new, by part, of all but `own`.
    ///
    /// `base` are the records by whose rules a part has to be signed: one that is not is unknown while it runs, and an error
    /// once it has stopped.
    pub(in crate::run) fn update(
        &mut self,
        refs: PartRefs<'_>,
        listed: &Listed,
        base: Option<CommitId>,
        own: Option<&str>,
    ) -> Result<BTreeMap<Arc<str>, Vec<Entry>>, Error> {
        let mut news = BTreeMap::new();
        let repository = refs.site.repository;
        for (part, commit) in &listed.parts {
            let known = self.0.get(part);
            if known.is_some_and(|known| known.commit == *commit) {
                continue;
            }
            let status = PartStatus::read(repository, (refs.run, part), *commit);
            let status = status.or_else(|error| Err(refs.broken(part, error)?))?;
            let mut chunks = known.map_or_else(Vec::new, |known| known.chunks.clone());
            match refusal(refs, *commit, base) {
                Some(why) if status.state != PartState::Running => {
                    return Err(Error::Untrusted {
                        site: refs.site.name.clone(),
                        why: format!("part `{part}`: {why}"),
                    });
                }
                Some(_) => {}
                None if own == Some(&**part) => {}
                None => {
                    let found = progress(repository, *commit, &chunks, false)?;
                    chunks = found.chunks;
                    news.insert(part.clone(), found.entries);
                }
            }
            let part_now = KnownPart {
                commit: *commit,
                status,
                chunks,
            };
            self.0.insert(part.clone(), part_now);
        }
        self.0.retain(|part, _| listed.parts.contains_key(part));
        Ok(news)
    }

    /// How far a part is; `None`: no worker has begun it.
    pub(in crate::run) fn state(&self, part: &str) -> Option<PartState> {
        self.0.get(part).map(|known| known.status.state)
    }

    /// How many parts are carried out now.
    pub(in crate::run) fn running(&self) -> usize {
        let states = self.0.values().map(|known| known.status.state);
        states.filter(|state| *state == PartState::Running).count()
    }

    /// How many parts are carried out now, or could be.
    pub(in crate::run) fn ready(&self, parts: &Parts) -> usize {
        let has_ended = |part: &Part| self.state(&part.id) == Some(PartState::Ended);
        let is_ready = |part: &&Part| {
            let mut after = part.after.iter().map(|before| &parts.parts[*before]);
            !has_ended(part) && after.all(has_ended)
        };
        parts.parts.iter().filter(is_ready).count()
    }

    /// Whether the workers of all parts are on the machine of `me`.
    pub(in crate::run) fn are_all_on_host_of(&self, me: &Holder) -> bool {
        let mut holders = self.0.values().map(|known| &known.status.holder);
        holders.all(|holder| holder.is_on_host_of(me))
    }

    /// When parts were published lately.
    pub(in crate::run) fn published(&self) -> Vec<i64> {
        let times = self.0.values().flat_map(|known| &known.status.published);
        times.copied().collect()
    }
}

/// Why the progress of a part is not to be taken by the rules of the records at `base`.
fn refusal(refs: PartRefs<'_>, commit: CommitId, base: Option<CommitId>) -> Option<String> {
    let signing = refs.site.signing.as_ref()?;
    signing.refusal(commit, base?)
}
