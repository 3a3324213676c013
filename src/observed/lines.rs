//! Reads a large snapshot file block by block, on several threads, without ever holding all of it.
//!
//! A file that [`to_json`](super::to_json) wrote has one machine a line, then one line for the pods of
//! each, and no line break is in the middle of anything. So a line that is a machine with a comma behind
//! it, after the first line and nothing but such lines, can be read by itself, and so can a line that is
//! pods, after the line that begins them; what is left is a small file of the same form. A file that
//! looks otherwise, or that anything is wrong with, is read as a whole: that says what is wrong.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek};
use std::sync::{Mutex, PoisonError};

use super::alike::Alike;
use super::{Fact, NodePods, Observations, ObservedNode, snapshot};
use crate::design::{NodeName, name_problem};

/// The line behind which pods stand, one machine a line.
const PODS: &[u8] = b",\n\"pods\":{\n";

/// The blocks of a file, each up to the end of a line where there is one.
struct Blocks<R> {
    source: R,
    /// Bytes that are read at once.
    size: usize,
    /// What was read behind the end of the last block.
    rest: Vec<u8>,
    next: usize,
}

impl<R: Read> Blocks<R> {
    /// Reads the next block into a buffer: its number; `None` at the end of the file.
    fn next(&mut self, block: &mut Vec<u8>) -> io::Result<Option<usize>> {
        block.clear();
        block.append(&mut self.rest);
        let read = (&mut self.source)
            .take(self.size as u64)
            .read_to_end(block)?;
        if block.is_empty() {
            return Ok(None);
        }
        if read == self.size {
            // What has no line break in it is no file of lines, and is not read any further this way.
            let Some(end) = memchr::memrchr(b'\n', block) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            self.rest.extend(block.drain(end + 1..));
        }
        self.next += 1;
        Ok(Some(self.next - 1))
    }
}

/// What is in a block, in this order.
#[derive(Default)]
struct Part {
    number: usize,
    machines: Machines,
    /// What is neither machines nor pods.
    between: Vec<u8>,
    pods: Pods,
    /// What is behind the pods.
    rest: Vec<u8>,
}

/// Machines, sorted.
#[derive(Default)]
struct Machines {
    kept: Vec<(NodeName, Box<ObservedNode>)>,
    /// Those of which nothing is kept.
    passed: Vec<NodeName>,
    /// The first and the last of either.
    ends: Option<(NodeName, NodeName)>,
}

/// The pods of machines, sorted; what many have in common is there once.
#[derive(Default)]
struct Pods {
    rows: Vec<(NodeName, usize)>,
    values: Vec<NodePods>,
    last: String,
}

/// What is read of a snapshot file: what is kept of it, and the names of the machines, sorted, of which
/// nothing is.
pub(super) type Sifted = (Observations, Vec<NodeName>);

/// Reads a snapshot file from its beginning in blocks of `size` bytes on up to `threads` threads; `None` where it has to be read as
/// a whole. `sieve` is asked once for each run of machines that follow each other by name, and then for
/// each of these whether what was seen of it is kept.
pub(super) fn read<R: Read + Seek + Send, K: FnMut(&NodeName, &ObservedNode) -> bool>(
    source: &mut R,
    (size, threads): (usize, usize),
    sieve: impl Fn() -> K + Sync,
) -> io::Result<Option<Sifted>> {
    let mut head = vec![0; snapshot::HEAD.len() + 1];
    source.rewind()?;
    match source.read_exact(&mut head) {
        Ok(()) if head.strip_suffix(b"\n") == Some(snapshot::HEAD.as_bytes()) => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => return Ok(None),
    }
    let blocks = Mutex::new(Blocks {
        source,
        size,
        rest: Vec::new(),
        next: 0,
    });
    let take = || {
        let mut parts = Vec::new();
        let mut alike = Alike::default();
        let mut block = Vec::with_capacity(2 * size);
        loop {
            let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let next = blocks.next(&mut block)?;
            drop(blocks);
            match next {
                Some(number) => parts.push(Part::read(number, &block, &mut alike, sieve())),
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

/// The lines of a text that have an end.
struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    fn peek(&self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        memchr::memchr(b'\n', rest.as_bytes()).map(|end| &rest[..end])
    }

    fn skip(&mut self, line: &str) {
        self.at += line.len() + 1;
    }
}

impl Part {
    fn read(
        number: usize,
        block: &[u8],
        alike: &mut Alike,
        mut keeps: impl FnMut(&NodeName, &ObservedNode) -> bool,
    ) -> Self {
        let (mut machines, mut pods) = (Machines::default(), Pods::default());
        // What is no text has no lines.
        let text = std::str::from_utf8(block).unwrap_or_default();
        let mut lines = Lines { text, at: 0 };
        while let Some(line) = lines.peek()
            && machines.add(line, alike, &mut keeps).is_some()
        {
            lines.skip(line);
        }
        let begin = lines.at;
        while let Some(line) = lines.peek()
            && !Pods::is_row(line)
        {
            lines.skip(line);
        }
        let end = lines.at;
        while let Some(line) = lines.peek()
            && pods.add(line).is_some()
        {
            lines.skip(line);
        }
        Self {
            number,
            machines,
            between: block[begin..end].to_vec(),
            pods,
            rest: block[lines.at..].to_vec(),
        }
    }
}

/// The name and the value of an entry that others follow: `"name":{…},`.
fn entry(line: &str) -> Option<(NodeName, &str)> {
    let entry = line.strip_prefix('"')?.strip_suffix(',')?;
    let (name, value) = entry.split_once("\":")?;
    let is_name = name_problem(name).is_none();
    is_name.then(|| (NodeName::from(name), value))
}

impl Machines {
    /// Adds a line behind the others; `None` where it is none that can be.
    fn add(
        &mut self,
        line: &str,
        alike: &mut Alike,
        keeps: &mut impl FnMut(&NodeName, &ObservedNode) -> bool,
    ) -> Option<()> {
        let (name, text) = entry(line)?;
        let mut node = alike.read(name.as_str(), text)?;
        match &mut self.ends {
            Some((_, last)) if *last >= name => return None,
            Some((_, last)) => *last = name.clone(),
            ends => *ends = Some((name.clone(), name.clone())),
        }
        if !keeps(&name, &node) {
            self.passed.push(name);
            return Some(());
        }
        if let Some((_, last)) = self.kept.last() {
            share(&mut node, last);
        }
        self.kept.push((name, node));
        Some(())
    }
}

impl Pods {
    fn is_row(line: &str) -> bool {
        Self::default().add(line).is_some()
    }

    /// Adds a line behind the others; `None` where it is none that can be.
    fn add(&mut self, line: &str) -> Option<()> {
        let (name, text) = entry(line)?;
        if self.rows.last().is_some_and(|(last, _)| *last >= name) {
            return None;
        }
        if self.values.is_empty() || *text != *self.last {
            self.values.push(serde_json::from_str(text).ok()?);
            text.clone_into(&mut self.last);
        }
        self.rows.push((name, self.values.len() - 1));
        Some(())
    }
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

/// Puts the parts of a file together; `None` where they are none, or not sorted.
fn joined(parts: Vec<Part>) -> Option<Sifted> {
    let mut nodes = Vec::with_capacity(parts.iter().map(|part| part.machines.kept.len()).sum());
    let mut passed = Vec::with_capacity(parts.iter().map(|part| part.machines.passed.len()).sum());
    let mut pods = Vec::new();
    let mut rest = format!("{}\n", snapshot::HEAD).into_bytes();
    let head = rest.len();
    let (mut last, mut last_of_pods, mut pods_at) = (None, None, None);
    for part in parts {
        let Machines {
            kept,
            passed: more,
            ends,
        } = part.machines;
        if let Some((first, end)) = ends {
            if rest.len() > head || last.is_some_and(|last| last >= first) {
                return None;
            }
            last = Some(end);
        }
        nodes.extend(kept);
        passed.extend(more);
        rest.extend(part.between);
        if let Some((first, _)) = part.pods.rows.first() {
            let follows = match pods_at {
                None => rest.ends_with(PODS),
                Some(at) => rest.len() == at,
            };
            if !follows || last_of_pods.as_ref() >= Some(first) {
                return None;
            }
            pods_at = Some(rest.len());
            last_of_pods = part.pods.rows.last().map(|(name, _)| name.clone());
            pods.push(part.pods);
        }
        rest.extend(part.rest);
    }
    // What was taken out had a comma behind it, so that another entry follows.
    let follows = |at: usize| rest.get(at) == Some(&b'"');
    if last.is_some() && !follows(head) || pods_at.is_some_and(|at| !follows(at)) {
        return None;
    }
    let mut observations = snapshot::read(&rest).ok()?;
    let first = observations.nodes.keys().next();
    let first_of_pods = observations.pods.keys().next();
    if first.is_some_and(|first| last.as_ref() >= Some(first))
        || first_of_pods.is_some_and(|first| last_of_pods.as_ref() >= Some(first))
    {
        return None;
    }
    nodes.extend(std::mem::take(&mut observations.nodes));
    observations.nodes = nodes.into_iter().collect::<BTreeMap<_, _>>();
    let is_wanted = |name: &NodeName| passed.binary_search(name).is_err();
    observations.pods.retain(|name, _| is_wanted(name));
    let mut unwanted = passed.iter().peekable();
    for Pods { rows, values, .. } in pods {
        let wanted = rows.into_iter().filter(|(name, _)| {
            while unwanted.next_if(|next| *next < name).is_some() {}
            unwanted.peek() != Some(&name)
        });
        let of_wanted = wanted.map(|(name, value)| (name, values[value].clone()));
        observations.pods.extend(of_wanted);
    }
    Some((observations, passed))
}
