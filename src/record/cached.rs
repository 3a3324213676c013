//! The records of all nodes at a commit of the state, as they were read before.
//!
//! The records of a large site are a hundred megabytes of JSON lines, which git packs. A commit never
//! changes, so what was read of it once is kept in the cache, with what many records have in common
//! written once. A record with rare fields is kept as its JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NodeRecord, Phase};
use crate::cache::{Key, Numbered};
use crate::design::{Digests, NodeName, RunId, Section, SectionDigest};
use crate::identity::Identity;
use crate::repository::{CommitId, Repository};

/// Rows of a list.
const ROWS: usize = 1 << 12;

/// The records of a commit.
#[derive(Serialize, Deserialize)]
struct CachedRecords<'a> {
    /// In lists of [`ROWS`], which are freed one after the other.
    #[serde(borrow)]
    rows: Vec<Vec<Row<'a>>>,
    /// Digests of sections, one behind the other.
    digests: &'a [u8],
    #[serde(borrow)]
    revisions: Vec<&'a str>,
    #[serde(borrow)]
    runs: Vec<&'a str>,
}

/// A record; what many have is a number.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    node: &'a str,
    phase: Phase,
    digest_version: u32,
    digests: [Option<u32>; Section::ALL.len()],
    revision: Option<u32>,
    run: u32,
    #[serde(borrow)]
    identity: Option<IdentityRow<'a>>,
    /// The whole record, if it has fields that few have.
    rare: Option<Box<str>>,
}

#[derive(Serialize, Deserialize)]
struct IdentityRow<'a> {
    uuid: Option<&'a str>,
    serial: Option<&'a str>,
    provisioner: Option<&'a str>,
    #[serde(borrow)]
    macs: Vec<&'a str>,
    unverified: bool,
}

impl<'a> From<&'a Identity> for IdentityRow<'a> {
    fn from(identity: &'a Identity) -> Self {
        Self {
            uuid: identity.uuid.as_deref(),
            serial: identity.serial.as_deref(),
            provisioner: identity.provisioner.as_deref(),
            macs: identity.macs.iter().map(|mac| &**mac).collect(),
            unverified: identity.unverified,
        }
    }
}

impl From<IdentityRow<'_>> for Identity {
    fn from(row: IdentityRow<'_>) -> Self {
        Self {
            uuid: row.uuid.map(Arc::from),
            serial: row.serial.map(Arc::from),
            provisioner: row.provisioner.map(Arc::from),
            macs: row.macs.into_iter().map(Arc::from).collect(),
            unverified: row.unverified,
        }
    }
}

/// The common values of the records of a commit.
#[derive(Default)]
struct Common<'a> {
    digests: Numbered<SectionDigest>,
    revisions: Numbered<&'a str>,
    runs: Numbered<&'a str>,
}

impl<'a> Common<'a> {
    /// The row of a record; `None` if it cannot be written.
    fn row(&mut self, record: &'a NodeRecord) -> Option<Row<'a>> {
        let rare = match *record == plain(record) {
            true => None,
            false => Some(serde_json::to_string(record).ok()?.into()),
        };
        let mut digests = [None; Section::ALL.len()];
        for (section, digest) in record.digests.iter() {
            digests[section as usize] = Some(self.digests.number(&digest));
        }
        let revision = record.revision.as_deref();
        Some(Row {
            node: record.node.as_str(),
            phase: record.phase,
            digest_version: record.digest_version,
            digests,
            revision: revision.map(|revision| self.revisions.number(&revision)),
            run: self.runs.number(&record.run.as_str()),
            identity: record.identity.as_deref().map(IdentityRow::from),
            rare,
        })
    }
}

/// The same record without the fields that few have.
fn plain(record: &NodeRecord) -> NodeRecord {
    NodeRecord {
        phase: record.phase,
        digest_version: record.digest_version,
        digests: record.digests.clone(),
        revision: record.revision.clone(),
        identity: record.identity.clone(),
        ..NodeRecord::blank(record.node.clone(), record.run.clone())
    }
}

fn key(repository: &Repository, tip: CommitId) -> Key {
    let tip = tip.to_string();
    repository.cache().key("records", [tip.as_bytes()])
}

/// Keeps the records of a commit.
pub(super) fn write(
    repository: &Repository,
    tip: CommitId,
    records: &BTreeMap<NodeName, NodeRecord>,
) {
    if !repository.cache().keeps() {
        return;
    }
    let mut common = Common::default();
    let mut rows = Vec::with_capacity(records.len().div_ceil(ROWS));
    let mut rest = records.values();
    while rest.len() > 0 {
        let list = rest.by_ref().take(ROWS).map(|record| common.row(record));
        let Some(list) = list.collect() else { return };
        rows.push(list);
    }
    let digests = common.digests.into_values();
    let digests: Vec<u8> = digests.into_iter().flat_map(|digest| digest.0).collect();
    let cached = CachedRecords {
        rows,
        digests: &digests,
        revisions: common.revisions.into_values(),
        runs: common.runs.into_values(),
    };
    repository.cache().write(&key(repository, tip), &cached);
}

/// The records of a commit; `None` if they are not kept.
pub(super) fn read(
    repository: &Repository,
    tip: CommitId,
) -> Option<BTreeMap<NodeName, NodeRecord>> {
    let segment = repository.cache().read(&key(repository, tip))?;
    let cached: CachedRecords<'_> = segment.decode()?;
    let (digests, _) = cached.digests.as_chunks();
    let revisions: Vec<Arc<str>> = cached.revisions.into_iter().map(Arc::from).collect();
    let runs: Vec<RunId> = cached.runs.into_iter().map(RunId::from).collect();
    let digest = |number: Option<u32>| match number {
        None => Some(None),
        Some(number) => Some(Some(SectionDigest(*digests.get(number as usize)?))),
    };
    let record = |row: Row<'_>| -> Option<NodeRecord> {
        if let Some(json) = row.rare {
            return serde_json::from_str(&json).ok();
        }
        let mut own = [None; Section::ALL.len()];
        for (own, number) in own.iter_mut().zip(row.digests) {
            *own = digest(number)?;
        }
        let revision = row.revision.map(|number| revisions.get(number as usize));
        Some(NodeRecord {
            phase: row.phase,
            digest_version: row.digest_version,
            digests: Digests::from(own),
            revision: match revision {
                None => None,
                Some(revision) => Some(revision?.clone()),
            },
            identity: row.identity.map(|identity| Box::new(identity.into())),
            ..NodeRecord::blank(
                NodeName::from(row.node),
                runs.get(row.run as usize)?.clone(),
            )
        })
    };
    let mut records = Vec::with_capacity(cached.rows.iter().map(Vec::len).sum());
    for row in cached.rows.into_iter().flatten() {
        let record = record(row)?;
        records.push((record.node.clone(), record));
    }
    Some(records.into_iter().collect())
}
