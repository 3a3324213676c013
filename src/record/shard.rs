//! The records of all nodes, spread over 256 files.
//!
//! `nodes/00` … `nodes/ff`: a node's file is the first byte of the SHA-256 of its name. Each file is
//! JSON lines, sorted by name. So a change of one node among a hundred thousand writes one file of some
//! hundred lines, and two revisions of the records can be compared with `git diff`.

use std::collections::BTreeMap;
use std::thread;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::NodeRecord;
use super::error::{Error, failed};
use crate::design::NodeName;
use crate::repository::{BlobId, CommitId, Repository};

const FOLDER: &str = "nodes";

/// What becomes of the record of a node: a new one, or none.
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
    let parts: Vec<Result<Vec<NodeRecord>, Error>> = thread::scope(|scope| {
        let readers: Vec<_> = shards
            .chunks(part)
            .map(|shards| {
                scope.spawn(move || {
                    let mut records = Vec::new();
                    for (name, blob) in shards {
                        let path = format!("{FOLDER}/{name}");
                        let bytes = read(repository, *blob)?;
                        for line in lines(&bytes) {
                            records.push(parse(line, &path)?);
                        }
                    }
                    Ok(records)
                })
            })
            .collect();
        readers
            .into_iter()
            .map(|reader| {
                reader.join().unwrap_or_else(|_| {
                    Err(Error::Broken {
                        path: FOLDER.to_owned(),
                        reason: "its reader failed".to_owned(),
                    })
                })
            })
            .collect()
    });
    let mut records = Vec::new();
    for part in parts {
        records.extend(part?);
    }
    records.sort_unstable_by(|one, other| one.node.cmp(&other.node));
    Ok(records
        .into_iter()
        .map(|record| (record.node.clone(), record))
        .collect())
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

/// The files that the changes touch, with their new bytes; `None` where none of its nodes is left.
pub(super) fn changed_files(
    repository: &Repository,
    tip: Option<CommitId>,
    changes: &Changes<'_>,
) -> Result<BTreeMap<String, Option<Vec<u8>>>, Error> {
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
    let mut files = BTreeMap::new();
    for (path, changes) in by_file {
        let before = match path.rsplit('/').next().and_then(|name| shards.get(name)) {
            Some(blob) => read(repository, *blob)?,
            None => Vec::new(),
        };
        // Lines that do not change are carried over as they are.
        let mut after: BTreeMap<NodeName, Vec<u8>> = BTreeMap::new();
        for line in lines(&before) {
            after.insert(name_of(line, &path)?, line.to_vec());
        }
        for (node, record) in changes {
            match record {
                Some(record) => {
                    let line = serde_json::to_vec(record).map_err(|error| broken(&path, &error))?;
                    after.insert(node.clone(), line);
                }
                None => {
                    after.remove(node);
                }
            }
        }
        let mut bytes = Vec::with_capacity(before.len() + 512);
        for line in after.values() {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        files.insert(path, (!bytes.is_empty()).then_some(bytes));
    }
    Ok(files)
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
        reason: error.to_string(),
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
