//! Reads a large snapshot file block by block, on several threads, without ever holding all of it.
//!
//! A file that [`to_json`](super::to_json) wrote has one machine a line, and no line break is in the
//! middle of anything. So a line that is a machine with a comma behind it, after the first line and
//! nothing but such lines, can be read by itself; what is left is a small file of the same form. A file
//! that looks otherwise, or that anything is wrong with, is read as a whole: that says what is wrong.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek};
use std::sync::{Mutex, PoisonError};

use super::{Fact, Observations, ObservedNode, snapshot};
use crate::design::{NodeName, name_problem};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// The bytes of a block, up to the end of a line where there is one, and the number of the block.
struct Blocks<R> {
    source: R,
    /// What was read behind the end of the last block.
    rest: Vec<u8>,
    next: usize,
}

impl<R: Read> Blocks<R> {
    fn next(&mut self) -> io::Result<Option<(usize, Vec<u8>)>> {
        let mut block = std::mem::take(&mut self.rest);
        let read = (&mut self.source)
            .take(BLOCK as u64)
            .read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(None);
        }
        if read == BLOCK {
            // What has no line break in it is no file of lines, and is not read any further this way.
            let Some(end) = memchr::memrchr(b'\n', &block) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            self.rest = block.split_off(end + 1);
        }
        self.next += 1;
        Ok(Some((self.next - 1, block)))
    }
}

/// What is in a block: machines, and the bytes from the first line on that is none.
struct Part {
    number: usize,
    nodes: Vec<(NodeName, Box<ObservedNode>)>,
    rest: Vec<u8>,
}

/// Reads a snapshot file from its beginning on up to `threads` threads; `None` where it has to be read as
/// a whole.
pub(super) fn read<R: Read + Seek + Send>(
    source: &mut R,
    threads: usize,
) -> io::Result<Option<Observations>> {
    let mut head = vec![0; snapshot::HEAD.len() + 1];
    source.rewind()?;
    match source.read_exact(&mut head) {
        Ok(()) if head.strip_suffix(b"\n") == Some(snapshot::HEAD.as_bytes()) => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => return Ok(None),
    }
    let blocks = Mutex::new(Blocks {
        source,
        rest: Vec::new(),
        next: 0,
    });
    let take = || {
        let mut parts = Vec::new();
        loop {
            let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let next = blocks.next()?;
            drop(blocks);
            match next {
                Some((number, block)) => parts.push(part(number, block)),
                None => return Ok(parts),
            }
        }
    };
    let parts: io::Result<Vec<Vec<Part>>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut parts = vec![take()];
        for other in others {
            match other.join() {
                Ok(more) => parts.push(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts.into_iter().collect()
    });
    let mut parts: Vec<Part> = match parts {
        Ok(parts) => parts.into_iter().flatten().collect(),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
        Err(error) => return Err(error),
    };
    parts.sort_unstable_by_key(|part| part.number);
    Ok(joined(parts))
}

fn part(number: usize, mut block: Vec<u8>) -> Part {
    let mut at = 0;
    // What is no text has no machines.
    let text = std::str::from_utf8(&block).unwrap_or_default();
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let mut nodes: Vec<(NodeName, Box<ObservedNode>)> = Vec::with_capacity(lines);
    for end in memchr::memchr_iter(b'\n', text.as_bytes()) {
        let Some((name, mut node)) = text.get(at..end).and_then(machine) else {
            break;
        };
        if let Some((_, last)) = nodes.last() {
            share(&mut node, last);
        }
        nodes.push((name, node));
        at = end + 1;
    }
    let rest = block.split_off(at);
    Part {
        number,
        nodes,
        rest,
    }
}

/// A machine that others follow: `"name":{…},`.
fn machine(line: &str) -> Option<(NodeName, Box<ObservedNode>)> {
    let entry = line.strip_prefix('"')?.strip_suffix(',')?;
    let (name, node) = entry.split_once("\":")?;
    if name_problem(name).is_some() {
        return None;
    }
    Some((NodeName::from(name), serde_json::from_str(node).ok()?))
}

/// Lets a machine have in common with another one what is the same.
fn share(node: &mut ObservedNode, other: &ObservedNode) {
    if node.clean_steps == other.clean_steps {
        node.clean_steps = other.clean_steps.clone();
    }
    if let (Fact::Known(Some(node)), Fact::Known(Some(other))) = (&mut node.cluster, &other.cluster)
        && node.kept_labels == other.kept_labels
    {
        node.kept_labels = other.kept_labels.clone();
    }
}

/// Puts the parts of a file together; `None` where they are none.
fn joined(parts: Vec<Part>) -> Option<Observations> {
    let mut nodes = Vec::with_capacity(parts.iter().map(|part| part.nodes.len()).sum());
    let mut rest = format!("{}\n", snapshot::HEAD).into_bytes();
    let head = rest.len();
    for part in parts {
        if !part.nodes.is_empty() && rest.len() > head {
            return None;
        }
        nodes.extend(part.nodes);
        rest.extend(part.rest);
    }
    if !nodes.is_empty() && rest.get(head) != Some(&b'"') {
        return None;
    }
    let mut observations = snapshot::read(&rest).ok()?;
    nodes.extend(std::mem::take(&mut observations.nodes));
    let count = nodes.len();
    observations.nodes = nodes.into_iter().collect::<BTreeMap<_, _>>();
    (observations.nodes.len() == count).then_some(observations)
}
