//! The records of all nodes at a commit of the state, as they were read before.
//!
//! The records of a large site are a hundred megabytes of JSON lines, which git packs. A commit never
//! changes, so what was read of it once is kept in columns. A record with rare fields is kept as JSON
//! beside them.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{NodeRecord, Phase};
use crate::cache::Key;
use crate::cache::columns::{Numbers, Reader, Texts, Writer};
use crate::design::{Digests, NodeName, RunId, Section, SectionDigest};
use crate::repository::{CommitId, Repository};

/// The version of what is kept.
const VERSION: u8 = 3;
/// A number for what is not there.
const NONE: u32 = u32::MAX;

const PHASES: [Phase; 5] = [
    Phase::NotStarted,
    Phase::Prepared,
    Phase::Deployed,
    Phase::Failed,
    Phase::Unknown,
];

/// A record with the fields that nearly all have, and nothing else.
fn plain(
    (node, phase, digest_version): (NodeName, Phase, u32),
    digests: Digests,
    revision: Option<Arc<str>>,
    run: RunId,
) -> NodeRecord {
    NodeRecord {
        node,
        phase,
        digest_version,
        digests,
        revision,
        run,
        retired: None,
        maintenance: None,
        manageable: false,
        last_error: None,
        clean_step: None,
        owed: None,
        remediation: None,
        identity: None,
    }
}

fn key(repository: &Repository, tip: CommitId) -> Key {
    let tip = tip.to_string();
    repository
        .cache()
        .key("records", [&[VERSION][..], tip.as_bytes()])
}

/// Numbers for texts or digests, in the order in which they come.
struct Numbered<T> {
    numbers: FxHashMap<T, u32>,
    all: Vec<T>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Self {
            numbers: FxHashMap::default(),
            all: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.all.push(value);
            self.all.len() as u32 - 1
        })
    }
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
    let mut digests = Numbered::<SectionDigest>::new();
    let (mut runs, mut revisions) = (Numbered::new(), Numbered::new());
    let mut numbers: [Vec<u32>; 5] = Default::default();
    let mut rares = Vec::with_capacity(records.len());
    let mut identities = Vec::with_capacity(records.len());
    for (name, record) in records {
        let mut same = plain(
            (name.clone(), record.phase, record.digest_version),
            record.digests.clone(),
            record.revision.clone(),
            record.run.clone(),
        );
        same.identity.clone_from(&record.identity);
        let identity = record.identity.as_ref().map(serde_json::to_string);
        let Ok(identity) = identity.transpose() else {
            return;
        };
        identities.push(identity.unwrap_or_default());
        let rare = match *record == same {
            true => Ok(String::new()),
            false => serde_json::to_string(record),
        };
        let phase = PHASES.iter().position(|each| *each == record.phase);
        let (Some(phase), Ok(rare), true) = (phase, rare, *name == record.node) else {
            return;
        };
        rares.push(rare);
        let [phases, versions, all, of_revisions, of_runs] = &mut numbers;
        phases.push(phase as u32);
        versions.push(record.digest_version);
        let own = &record.digests;
        all.extend(Section::ALL.iter().map(|section| match own.get(section) {
            Some(digest) => digests.number(*digest),
            None => NONE,
        }));
        of_revisions.push(match &record.revision {
            Some(revision) => revisions.number(&**revision),
            None => NONE,
        });
        of_runs.push(runs.number(record.run.as_str()));
    }
    let mut writer = Writer::new();
    writer.texts(records.keys().map(NodeName::as_str));
    for column in numbers {
        writer.numbers(column);
    }
    writer.texts(rares.iter().map(String::as_str));
    writer.texts(identities.iter().map(String::as_str));
    writer.bytes(digests.all.iter().flat_map(|digest| digest.0).collect());
    for texts in [revisions.all, runs.all] {
        writer.texts(texts);
    }
    repository
        .cache()
        .write(&key(repository, tip), &writer.finish());
}

/// The records of a commit; `None` where they are not kept.
pub(super) fn read(
    repository: &Repository,
    tip: CommitId,
) -> Option<BTreeMap<NodeName, NodeRecord>> {
    let segment = repository.cache().read(&key(repository, tip))?;
    let mut reader = Reader::open(&segment)?;
    let names = reader.texts()?;
    let [phases, versions, digests, of_revisions, of_runs] = [
        reader.numbers()?,
        reader.numbers()?,
        reader.numbers()?,
        reader.numbers()?,
        reader.numbers()?,
    ];
    let rares = reader.texts()?;
    let identities = reader.texts()?;
    let (all_digests, _) = reader.bytes()?.as_chunks();
    let all_revisions: Vec<Arc<str>> = shared(&reader.texts()?)?;
    let all_runs: Vec<Arc<str>> = shared(&reader.texts()?)?;
    let known = |all: &[Arc<str>], column: &Numbers<'_>, at: usize| match column.get(at)? {
        NONE => Some(None),
        number => Some(Some(all.get(number as usize)?.clone())),
    };
    let mut records = Vec::with_capacity(names.len());
    for at in 0..names.len() {
        let node = NodeName::from(names.get(at)?);
        let start = at * Section::ALL.len();
        let mut own = [None; Section::ALL.len()];
        for (digest, at) in own.iter_mut().zip(start..) {
            *digest = match digests.get(at)? {
                NONE => None,
                number => Some(SectionDigest(*all_digests.get(number as usize)?)),
            };
        }
        let record = match rares.get(at)? {
            "" => NodeRecord {
                identity: match identities.get(at)? {
                    "" => None,
                    json => Some(serde_json::from_str(json).ok()?),
                },
                ..plain(
                    (
                        node.clone(),
                        *PHASES.get(phases.get(at)? as usize)?,
                        versions.get(at)?,
                    ),
                    Digests::from(own),
                    known(&all_revisions, &of_revisions, at)?,
                    RunId::from(known(&all_runs, &of_runs, at)??),
                )
            },
            json => serde_json::from_str(json).ok()?,
        };
        records.push((node, record));
    }
    Some(records.into_iter().collect())
}

fn shared(texts: &Texts<'_>) -> Option<Vec<Arc<str>>> {
    (0..texts.len())
        .map(|at| texts.get(at).map(Arc::from))
        .collect()
}
