//! How far the parts of a run are, for people and scripts.

use std::sync::Arc;

use serde::Serialize;

use super::known::KnownParts;
use super::refs::PartRefs;
use super::status::{PartState, progress};
use crate::journal::{Entry, StepOutcome};
use crate::plan::Parts;
use crate::record::RunRecord;
use crate::run::error::{self, Error};
use crate::run::site_repository::SiteRepository;
use crate::run::time::rfc3339;

/// How far a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartOverview {
    /// Its name.
    pub part: Arc<str>,
    /// Its state; `None`: no worker has begun it.
    pub state: Option<PartState>,
    /// How many workers have had it.
    pub epoch: u64,
    /// Its steps.
    pub steps: usize,
    /// Steps that have ended in any way.
    pub ended: usize,
    /// Steps that failed, or whose end is unknown.
    pub failed: usize,
    /// Steps that were skipped, such as those of a group whose gate failed.
    pub skipped: usize,
    /// The account of the worker that has it, or had it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Arc<str>>,
    /// The machine of that worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// When it was published last, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Arc<str>>,
}

/// Looks how far the parts of a run are.
///
/// # Errors
///
/// The records or the remote cannot be read.
pub fn overview(
    site: &SiteRepository<'_>,
    record: &RunRecord,
    parts: &Parts,
) -> Result<Vec<PartOverview>, Error> {
    let store = site.store()?;
    let base = store
        .read()
        .map_err(error::records("read the records"))?
        .tip;
    let refs = PartRefs {
        site,
        run: &record.run,
    };
    let mut known = KnownParts::default();
    known.update(refs, &refs.list()?, base, None)?;
    parts
        .parts
        .iter()
        .map(|part| {
            let mut overview = PartOverview {
                part: part.id.clone(),
                state: None,
                epoch: 0,
                steps: part.steps.len(),
                ended: 0,
                failed: 0,
                skipped: 0,
                who: None,
                host: None,
                published: None,
            };
            let Some(found) = known.0.get(&part.id) else {
                return Ok(overview);
            };
            let (status, commit) = (&found.status, found.commit);
            overview.state = Some(status.state);
            overview.epoch = status.epoch;
            overview.who = Some(Arc::from(status.holder.who.as_str()));
            overview.host = Some(Arc::from(status.holder.host.as_str()));
            let last = status.published.last();
            overview.published = last.map(|at| Arc::from(rfc3339(*at)));
            for entry in progress(site.repository, commit, &[], false)?.entries {
                if let Entry::Ended { outcome, .. } = entry {
                    overview.ended += 1;
                    let failed = matches!(
                        outcome,
                        StepOutcome::Failed { .. } | StepOutcome::Unknown { .. }
                    );
                    overview.failed += usize::from(failed);
                    let skipped = matches!(outcome, StepOutcome::Skipped { .. });
                    overview.skipped += usize::from(skipped);
                }
            }
            Ok(overview)
        })
        .collect()
}
