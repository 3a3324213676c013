//! The records of all nodes, spread over 256 files.
//!
//! `nodes/00` … `nodes/ff`: a node's file is the first byte of the SHA-256 of its name. Each file is
//! JSON lines, sorted by name. So a change of one node among a hundred thousand writes one file of some
//! hundred lines, and two revisions of the records can be compared with `git diff`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::thread;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::NodeRecord;
use super::error::{Error, failed};
use crate::design::NodeName;
use crate::diagnostic::json_problem;
use crate::repository::{BlobId, CommitId, Deflated, Repository};
use crate::threads::in_parts;

const FOLDER: &str = "nodes";

/// So many records are written on more than one thread.
const WORTH_A_THREAD: usize = 1000;

/// The changed record of a node: a new one, or none.
pub(super) type Changes<'a> = BTreeMap<&'a NodeName, Option<&'a NodeRecord>>;

/// The path of the file that holds a node's record.
fn path_of(node: &NodeName) -> String {
    let byte = Sha256::digest(node.as_str().as_bytes())[0];
    format!("{FOLDER}/{byte:02x}")
}

/// The records of all nodes at a commit of the state.
pub(super) fn read_all(
    repository: &Repository,
    tip: CommitId,
) -> Result<BTreeMap<NodeName, NodeRecord>, Error> {
    let shards: Vec<(String, BlobId)> = repository
        .files_in(tip, FOLDER)
        .map_err(failed("list the records of the nodes"))?
        .into_iter()
        .collect();
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let part = shards.len().div_ceil(threads).max(16);
    let parts = in_parts(shards.chunks(part), |shards| {
        let mut records: Vec<(NodeName, NodeRecord)> = Vec::new();
        for (name, blob) in shards {
            let path = format!("{FOLDER}/{name}");
            let bytes = read(repository, *blob)?;
            for line in lines(&bytes) {
                let mut record = parse(line, &path)?;
                if let Some((_, before)) = records.last() {
                    share(&mut record, before);
                }
                records.push((record.node.clone(), record));
            }
        }
        Ok(records)
    });
    let mut records = Vec::new();
    for part in parts {
        records.append(&mut part?);
    }
    records.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(records.into_iter().collect())
}

/// Lets a record have in common with the one before it what is the same.
fn share(record: &mut NodeRecord, before: &NodeRecord) {
    if record.run == before.run {
        record.run = before.run.clone();
    }
    if record.revision == before.revision {
        record.revision.clone_from(&before.revision);
    }
}

/// The record of one node at a commit of the state.
pub(super) fn read_one(
    repository: &Repository,
    tip: CommitId,
    node: &NodeName,
) -> Result<Option<NodeRecord>, Error> {
    let path = path_of(node);
    let bytes = repository
        .file_at(tip, &path)
        .map_err(failed("read the record of a node"))?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    for line in lines(&bytes) {
        if name_of(line, &path)? == *node {
            return parse(line, &path).map(Some);
        }
    }
    Ok(None)
}

/// The files that the changes touch.
#[derive(Default)]
pub(super) struct Files {
    /// Those of which none of their nodes is left.
    pub(super) removed: Vec<String>,
    /// The others, with their new bytes.
    pub(super) written: BTreeMap<String, Deflated>,
}

/// The files that the changes touch, as they are after them. What all of them would be as text is never in
/// memory at once.
pub(super) fn changed_files(
    repository: &Repository,
    tip: Option<CommitId>,
    changes: &Changes<'_>,
) -> Result<Files, Error> {
    let mut by_file: BTreeMap<String, Changes<'_>> = BTreeMap::new();
    for (node, record) in changes {
        let file = by_file.entry(path_of(node)).or_default();
        file.insert(node, *record);
    }
    let shards = match tip {
        Some(tip) => repository
            .files_in(tip, FOLDER)
            .map_err(failed("list the records of the nodes"))?,
        None => BTreeMap::new(),
    };
    let by_file: Vec<_> = by_file.into_iter().collect();
    let threads = match changes.len() {
        WORTH_A_THREAD.. => thread::available_parallelism().map_or(1, usize::from),
        _ => 1,
    };
    let part = by_file.len().div_ceil(threads.min(8)).max(1);
    let parts = in_parts(by_file.chunks(part), |part| {
        let mut files = Files::default();
        for (path, changes) in part {
            let name = path.rsplit('/').next();
            let before = match name.and_then(|name| shards.get(name)) {
                Some(blob) => read(repository, *blob)?,
                None => Vec::new(),
            };
            let after = changed(path, &before, changes)?;
            if after.is_empty() {
                files.removed.push(path.clone());
            } else {
                let file = Deflated::new(&after).map_err(failed("write the records"))?;
                files.written.insert(path.clone(), file);
            }
        }
        Ok(files)
    });
    let mut files = Files::default();
    for part in parts {
        let part = part?;
        files.removed.extend(part.removed);
        files.written.extend(part.written);
    }
    Ok(files)
}

/// A file after its changes; empty if none of its nodes is left.
fn changed(path: &str, before: &[u8], changes: &Changes<'_>) -> Result<Vec<u8>, Error> {
    // Lines that do not change are carried over as they are.
    let mut after: BTreeMap<NodeName, Cow<'_, [u8]>> = BTreeMap::new();
    for line in lines(before) {
        after.insert(name_of(line, path)?, Cow::Borrowed(line));
    }
    for (node, record) in changes {
        match record {
            Some(record) => {
                let line = serde_json::to_vec(record).map_err(|error| broken(path, &error))?;
                after.insert((*node).clone(), Cow::Owned(line));
            }
            None => {
                after.remove(*node);
            }
        }
    }
    let mut bytes = Vec::with_capacity(after.values().map(|line| line.len() + 1).sum());
    for line in after.values() {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    Ok(bytes)
}

fn read(repository: &Repository, blob: BlobId) -> Result<Vec<u8>, Error> {
    repository
        .read_blob(blob)
        .map_err(failed("read the records of the nodes"))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

fn parse(line: &[u8], path: &str) -> Result<NodeRecord, Error> {
    serde_json::from_slice(line).map_err(|error| broken(path, &error))
}

fn name_of(line: &[u8], path: &str) -> Result<NodeName, Error> {
    #[derive(Deserialize)]
    struct Named {
        node: NodeName,
    }
    let named: Named = serde_json::from_slice(line).map_err(|error| broken(path, &error))?;
    Ok(named.node)
}

fn broken(path: &str, error: &serde_json::Error) -> Error {
    Error::Broken {
        path: path.to_owned(),
        reason: json_problem(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_always_in_the_same_file() {
        assert_eq!(path_of(&NodeName::from("n1")), "nodes/67");
        assert_eq!(
            path_of(&NodeName::from("compute-1")),
            path_of(&"compute-1".into())
        );
    }
}
