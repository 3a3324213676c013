//! The file in which a simulated site is kept: the real world, as far as trueup is concerned.
//!
//! JSON, one entry a line after a first line that names the format. Entries are only ever
//! appended, each commit with one write, so that a commit costs the same however large the site is
//! and survives the death of the process at any instant; half a line at the end is what a death left
//! of a write and is dropped. (It need not survive a loss of power: this world lies in one file.)
//! When a file is opened that holds many more entries than machines, it is written anew.
//!
//! Several processes may use one file. Every access takes the file's advisory lock, shared or
//! exclusive, for that instant, and reads first what others have appended. A process that has the file open
//! holds the shared lock of the file `….lock` next to it, and one that writes the file anew the exclusive
//! one. On a file system without locks, none are taken.
//!
//! The world has its own time ([`SiteClock`]). An operation that no process waits for any more, since its run was
//! stopped or aborted, has ended for the second process that observes it: a machine does not stop with the
//! process that asked it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::{memchr, memrchr};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::clock::SiteClock;
use super::ledger::Operation;
use super::machine::Machine;
use super::requests::{Answer, MachineRequest, Requests};
use crate::design::{NodeDesign, NodeName, RunId, name_problem};
use crate::threads;

const FORMAT: &str = "trueup-simulated-site";
const FORMAT_VERSION: u32 = 1;
/// The largest file, and the longest line, in bytes.
const LARGEST_FILE: u64 = 4 << 30;
const LONGEST_LINE: u64 = 64 << 20;
/// Bytes that are read at once.
const BLOCK: u64 = 1 << 20;
/// So many bytes at least are worth a thread.
const WORTH_A_THREAD: usize = 1 << 19;
/// The furthest time and the highest number of an effect.
const FURTHEST: u64 = 1 << 53;
/// A file is written anew when it has more entries than this for each machine, and so many at least.
const ENTRIES_PER_MACHINE: usize = 16;
const ENTRIES: usize = 4096;

/// Why the file of a simulated site cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file system said no.
    #[error("cannot {action}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// Its cause.
        source: io::Error,
    },
    /// The file is something else.
    #[error("this file is no simulated site; nothing was written to it")]
    Foreign,
    /// It was written by another version.
    #[error("the file has format version {0}, and this is a trueup for version {FORMAT_VERSION}")]
    Version(u32),
    /// It is larger than any site.
    #[error("the file has {0} bytes, and a simulated site has at most {LARGEST_FILE}")]
    TooLarge(u64),
    /// A line is no entry.
    #[error("line {line} is no entry of a simulated site: {reason}")]
    Line {
        /// Which, from 1 on.
        line: u64,
        /// Why not.
        reason: String,
    },
}

pub(super) fn io_error(action: &'static str) -> impl Fn(io::Error) -> StateError {
    move |source| StateError::Io { action, source }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    format_version: u32,
}

/// One line. Exactly one of the optional fields is there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    at: u64,
    node: NodeName,
    /// The machine as it is from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<Box<Machine>>,
    /// An operation begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<Box<Operation>>,
    /// The operation ends: the number of its first effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// An effect of the running operation has taken place: the number of its first effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passed: Option<u64>,
    /// The operation is aborted: the number of the first effect that had not taken place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<u64>,
    /// A fault happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Arc<str>>,
    /// Its state was observed at that time: time does not go back behind that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    seen: bool,
    /// Its operation was observed by a process that did not begin it, while no other had the file open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    left: bool,
}

/// The progress of an operation.
#[derive(Clone, Copy)]
enum Course {
    Ended,
    Passed,
    Stopped,
}

impl Entry {
    fn of(at: u64, node: &NodeName) -> Self {
        Self {
            at,
            node: node.clone(),
            machine: None,
            begun: None,
            ended: None,
            passed: None,
            stopped: None,
            fault: None,
            seen: false,
            left: false,
        }
    }
}

/// The length of a line without its end, and its entry.
type Parsed = (usize, Result<Entry, serde_json::Error>);

/// The entries of whole lines; of many lines on two threads.
fn parsed(lines: &[u8]) -> Vec<Parsed> {
    let parse = |lines: &[u8]| -> Vec<Parsed> {
        let lines = lines.split_inclusive(|byte| *byte == b'\n');
        let lines = lines.map(|line| &line[..line.len() - 1]);
        lines
            .map(|line| (line.len(), serde_json::from_slice(line)))
            .collect()
    };
    let middle = lines.len() / 2;
    let half = match memchr(b'\n', &lines[middle..]) {
        Some(end) if lines.len() >= WORTH_A_THREAD => middle + end + 1,
        _ => return parse(lines),
    };
    let (first, second) = lines.split_at(half);
    let (mut all, second) = threads::both(|| parse(first), || parse(second));
    all.extend(second);
    all
}

/// All machines, and the file that holds them.
#[derive(Debug)]
pub(super) struct World {
    pub(super) path: PathBuf,
    machines: FxHashMap<NodeName, Box<Machine>>,
    /// The run that asked for the last operation.
    run: Option<RunId>,
    /// The number of the next effect.
    sequence: u64,
    time: Arc<SiteClock>,
    file: Option<File>,
    /// Held as long as the file is open.
    presence: Option<File>,
    /// Where requests are written down, if they are.
    requests: Option<Requests>,
    /// Machines whose operation this process began.
    begun: FxHashSet<NodeName>,
    /// How far the file was read, and how many lines that is.
    offset: u64,
    lines: u64,
}

impl World {
    /// Opens a world; if there is no file, it is made with the first entry.
    pub(super) fn open(path: &Path, time: Arc<SiteClock>) -> Result<Self, StateError> {
        let mut world = Self::new(path, time.clone());
        world.read()?;
        if world.is_long_winded() {
            world = Self::new(path, time);
            write_anew(path)?;
            world.read()?;
        }
        let requests = Requests::open(path);
        world.requests = requests.map_err(io_error("open the file of requests"))?;
        if world.is_alone() {
            let operations = world.machines.values();
            let operations = operations.filter_map(|machine| machine.operation.as_ref());
            let left = operations.filter(|operation| operation.left);
            let over = left.filter_map(|operation| operation.ends).max();
            world.time.not_before(over.unwrap_or_default());
        }
        Ok(world)
    }

    /// Whether no other process has the file open.
    fn is_alone(&self) -> bool {
        let Some(presence) = &self.presence else {
            return true;
        };
        let is_alone = presence.try_lock().is_ok();
        // What was held before is held again, whatever the answer.
        let _ = presence.lock_shared();
        is_alone
    }

    /// Notes the operations among these machines that are left to themselves.
    pub(super) fn leave(&mut self, nodes: &[NodeName]) -> Result<(), StateError> {
        if nodes.is_empty() || !self.is_alone() {
            return Ok(());
        }
        let mut change = self.change()?;
        for node in nodes {
            change.append(Entry {
                left: true,
                ..Entry::of(change.now, node)
            })?;
        }
        change.commit()
    }

    fn new(path: &Path, time: Arc<SiteClock>) -> Self {
        Self {
            path: path.to_owned(),
            machines: FxHashMap::default(),
            run: None,
            sequence: 1,
            time,
            file: None,
            presence: None,
            requests: None,
            begun: FxHashSet::default(),
            offset: 0,
            lines: 0,
        }
    }

    fn is_long_winded(&self) -> bool {
        let enough = self.machines.len().saturating_mul(ENTRIES_PER_MACHINE);
        self.lines > enough.max(ENTRIES) as u64
    }

    /// The machines as they are now, what others did included.
    pub(super) fn view(&mut self) -> Result<View<'_>, StateError> {
        self.read()?;
        let now = self.time.now();
        Ok(View { world: self, now })
    }

    /// Takes in what others did. Time does not begin with this: the file is opened outside of the runtime, whose
    /// clock is another one.
    fn read(&mut self) -> Result<(), StateError> {
        if self.file.is_none() && self.path.exists() {
            self.open_file(false)?;
        }
        if let Some(file) = self.file.take() {
            let read = locked(&file, false).and_then(|()| self.catch_up(&file));
            unlock(&file);
            self.file = Some(file);
            read?;
        }
        Ok(())
    }

    /// The machines as they are now, to be changed; no other process reads or changes them meanwhile.
    pub(super) fn change(&mut self) -> Result<Change<'_>, StateError> {
        if self.file.is_none() {
            self.open_file(true)?;
        }
        let file = self
            .file
            .take()
            .ok_or_else(|| io_error("open the file")(io::ErrorKind::NotFound.into()))?;
        let mut pending = Vec::new();
        let caught_up = locked(&file, true)
            .and_then(|()| self.catch_up(&file))
            .and_then(|end| {
                if end > self.offset {
                    let cut = file.set_len(self.offset);
                    cut.map_err(io_error("drop half a line at the end of the file"))?;
                }
                Ok(())
            });
        if let Err(error) = caught_up {
            unlock(&file);
            self.file = Some(file);
            return Err(error);
        }
        if self.offset == 0 {
            push_line(&mut pending, &header());
        }
        let now = self.time.now();
        Ok(Change {
            world: self,
            file: Some(file),
            now,
            pending,
        })
    }

    fn open_file(&mut self, create: bool) -> Result<(), StateError> {
        if create && let Some(folder) = self.path.parent() {
            let made = std::fs::create_dir_all(folder);
            made.map_err(io_error("make the folder of the file"))?;
        }
        let presence = open_presence(&self.path)?;
        ignore_unsupported(presence.lock_shared()).map_err(io_error("lock the file"))?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(create)
            .open(&self.path)
            .map_err(io_error("open the file"))?;
        self.presence = Some(presence);
        self.file = Some(file);
        Ok(())
    }

    /// Reads what was appended since the last time; gives the length of the file.
    fn catch_up(&mut self, file: &File) -> Result<u64, StateError> {
        let length = file
            .metadata()
            .map_err(io_error("read the size of the file"))?
            .len();
        if length > LARGEST_FILE {
            return Err(StateError::TooLarge(length));
        }
        if length < self.offset {
            // Another file was put in its place.
            self.forget();
        }
        if length == self.offset {
            return Ok(length);
        }
        let mut reader = file;
        reader
            .seek(SeekFrom::Start(self.offset))
            .map_err(io_error("read the file"))?;
        let (mut block, mut waiting) = (Vec::new(), Vec::new());
        loop {
            let mut some = reader.take(BLOCK);
            let read = some.read_to_end(&mut block);
            let read = read.map_err(io_error("read the file"))?;
            let whole = memrchr(b'\n', &block).map_or(0, |last| last + 1);
            let lines = match self.offset {
                0 => self.after_header(&block[..whole])?,
                _ => &block[..whole],
            };
            // What was parsed before happens while the next lines are parsed; without any, nothing waits any more.
            let before = std::mem::take(&mut waiting);
            let (taken, next) = match before.is_empty() || lines.is_empty() {
                true => (self.take_all_in(before), parsed(lines)),
                false => threads::both(|| self.take_all_in(before), || parsed(lines)),
            };
            taken?;
            waiting = next;
            block.drain(..whole);
            if block.len() as u64 >= LONGEST_LINE {
                return Err(self.broken("it is too long"));
            }
            if read == 0 {
                // Half a line: what a death left. A line without an end is no line of ours.
                return match self.offset == 0 && !looks_like_ours(&block) {
                    true => Err(StateError::Foreign),
                    false => Ok(self.offset + block.len() as u64),
                };
            }
        }
    }

    /// Reads the first line; the others.
    fn after_header<'l>(&mut self, lines: &'l [u8]) -> Result<&'l [u8], StateError> {
        let Some(end) = memchr(b'\n', lines) else {
            return Ok(lines);
        };
        read_header(&lines[..end])?;
        self.passed(end);
        Ok(&lines[end + 1..])
    }

    /// Lets entries happen, one after the other.
    fn take_all_in(&mut self, entries: Vec<Parsed>) -> Result<(), StateError> {
        for (length, entry) in entries {
            let entry = entry.map_err(|error| self.broken(&error.to_string()))?;
            self.take_in(entry)?;
            self.passed(length);
        }
        Ok(())
    }

    /// Counts a line of so many bytes.
    fn passed(&mut self, length: usize) {
        self.offset += length as u64 + 1;
        self.lines += 1;
    }

    fn broken(&self, reason: &str) -> StateError {
        StateError::Line {
            line: self.lines + 1,
            reason: reason.to_owned(),
        }
    }

    /// Lets an entry happen.
    fn take_in(&mut self, entry: Entry) -> Result<(), StateError> {
        let Entry {
            at,
            node,
            machine,
            begun,
            ended,
            passed,
            stopped,
            fault,
            seen,
            left,
        } = entry;
        if at > FURTHEST {
            return Err(self.broken("its time is too far away"));
        }
        if let Some(problem) = name_problem(node.as_str()) {
            return Err(self.broken(&format!("the name of its node {problem}")));
        }
        self.time.not_before(at);
        // The progress of the operation, and the number of its first effect; one event at a time.
        let mut courses = [
            (Course::Ended, ended),
            (Course::Passed, passed),
            (Course::Stopped, stopped),
        ]
        .into_iter()
        .filter_map(|(course, first)| Some((course, first?)));
        let course = courses.next();
        if courses.next().is_some() {
            return Err(self.broken("its fields do not fit together"));
        }
        if let Some(mut machine) = machine {
            machine.disks.shrink_to_fit();
            let last = machine.ledger.last();
            if last > FURTHEST || begun.is_some() || course.is_some() || fault.is_some() {
                return Err(self.broken("its fields do not fit together"));
            }
            self.sequence = self.sequence.max(last + 1);
            self.machines.insert(node, machine);
            return Ok(());
        }
        let Some(machine) = self.machines.get_mut(&node) else {
            return Err(self.broken(&format!("there is no machine `{node}` yet")));
        };
        match (begun, course, fault) {
            (Some(mut operation), None, None) if machine.operation.is_none() => {
                // One run asks for many.
                let run = self.run.get_or_insert_with(|| operation.run.clone());
                if *run == operation.run {
                    operation.run = run.clone();
                } else {
                    run.clone_from(&operation.run);
                }
                machine.begin(operation);
            }
            (None, Some((course, first)), None)
                if machine.operation.is_some() && first <= FURTHEST =>
            {
                let next = match course {
                    Course::Ended => machine.finish(&node, at, first),
                    Course::Passed => machine.pass(&node, at, first),
                    Course::Stopped => machine.stop(&node, at, first),
                };
                self.sequence = next.max(self.sequence);
            }
            (None, None, None) if left => {
                if let Some(operation) = &mut machine.operation {
                    operation.left = true;
                }
            }
            (None, None, None) if seen => {}
            (None, None, Some(key)) => {
                let count = machine.faults.entry(key).or_default();
                *count = count.saturating_add(1);
            }
            _ => return Err(self.broken("its fields do not fit together")),
        }
        Ok(())
    }

    /// Forgets everything, to be read again: what is in memory may not be what is in the file.
    fn forget(&mut self) {
        self.machines.clear();
        self.sequence = 1;
        self.offset = 0;
        self.lines = 0;
    }
}

/// A consistent view of the world.
pub(super) struct View<'a> {
    world: &'a World,
    /// The world's time.
    pub(super) now: u64,
}

impl View<'_> {
    /// The number of the next effect.
    pub(super) fn sequence(&self) -> u64 {
        self.world.sequence
    }

    /// A machine that something has happened to already.
    pub(super) fn machine(&self, node: &NodeName) -> Option<&Machine> {
        self.world.machines.get(node).map(|machine| &**machine)
    }

    /// Whether another process began the operation of a machine, and it was not observed since.
    pub(super) fn is_of_another(&self, node: &NodeName) -> bool {
        let machine = self.machine(node);
        let operation = machine.and_then(|machine| machine.operation.as_ref());
        operation.is_some_and(|operation| !operation.left) && !self.world.begun.contains(node)
    }

    /// All of them, in no order.
    pub(super) fn machines(&self) -> impl Iterator<Item = (&NodeName, &Machine)> {
        let machines = self.world.machines.iter();
        machines.map(|(node, machine)| (node, &**machine))
    }
}

/// A change of the world; what is not committed does not happen.
pub(super) struct Change<'a> {
    world: &'a mut World,
    file: Option<File>,
    /// The world's time.
    pub(super) now: u64,
    pending: Vec<u8>,
}

impl Change<'_> {
    /// A machine, which comes into the world now if there was none.
    pub(super) fn machine(&mut self, design: &NodeDesign) -> Result<&Machine, StateError> {
        if !self.world.machines.contains_key(&design.name) {
            self.seed(&design.name, Machine::factory_new(design))?;
        }
        self.known(&design.name)
    }

    /// A machine that is in the world already.
    pub(super) fn known(&self, node: &NodeName) -> Result<&Machine, StateError> {
        let machine = self.world.machines.get(node);
        machine
            .map(|machine| &**machine)
            .ok_or_else(|| self.world.broken("a machine is missing"))
    }

    /// The machines that something has happened to already, in no order.
    pub(super) fn machines(&self) -> impl Iterator<Item = (&NodeName, &Machine)> {
        let machines = self.world.machines.iter();
        machines.map(|(node, machine)| (node, &**machine))
    }

    /// Makes a machine what is given.
    pub(super) fn seed(&mut self, node: &NodeName, machine: Machine) -> Result<(), StateError> {
        self.append(Entry {
            machine: Some(Box::new(machine)),
            ..Entry::of(self.now, node)
        })
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, node: &NodeName, begun: Operation) -> Result<(), StateError> {
        self.world.begun.insert(node.clone());
        self.append(Entry {
            begun: Some(Box::new(begun)),
            ..Entry::of(self.now, node)
        })
    }

    /// Ends the operation of a machine at some time.
    pub(super) fn end(&mut self, node: &NodeName, at: u64) -> Result<(), StateError> {
        self.append(Entry {
            ended: Some(self.world.sequence),
            ..Entry::of(at, node)
        })
    }

    /// Lets what is on the way of an operation take place, up to now.
    pub(super) fn pass(&mut self, node: &NodeName) -> Result<(), StateError> {
        self.append(Entry {
            passed: Some(self.world.sequence),
            ..Entry::of(self.now, node)
        })
    }

    /// Aborts an operation, now.
    pub(super) fn stop(&mut self, node: &NodeName) -> Result<(), StateError> {
        self.append(Entry {
            stopped: Some(self.world.sequence),
            ..Entry::of(self.now, node)
        })
    }

    /// Persists the observed state of a machine now, which may have changed by the passing of time alone.
    pub(super) fn see(&mut self, node: &NodeName) -> Result<(), StateError> {
        self.append(Entry {
            seen: true,
            ..Entry::of(self.now, node)
        })
    }

    /// Counts a fault.
    pub(super) fn count_fault(
        &mut self,
        node: &NodeName,
        key: &Arc<str>,
    ) -> Result<(), StateError> {
        self.append(Entry {
            fault: Some(key.clone()),
            ..Entry::of(self.now, node)
        })
    }

    /// Writes a request down, if that is wanted.
    pub(super) fn note_request(
        &self,
        node: &NodeName,
        (run, step): (&RunId, &str),
        answer: Answer,
    ) -> Result<(), StateError> {
        let Some(requests) = &self.world.requests else {
            return Ok(());
        };
        let noted = requests.note(&MachineRequest {
            at: self.now,
            process: std::process::id(),
            participant: self.world.time.number(),
            run: run.clone(),
            step: Arc::from(step),
            node: node.clone(),
            answer,
        });
        noted.map_err(io_error("write to the file of requests"))
    }

    /// The instant of a time of the world.
    pub(super) fn instant(&mut self, at: u64) -> Instant {
        self.world.time.instant(at)
    }

    fn append(&mut self, entry: Entry) -> Result<(), StateError> {
        push_line(&mut self.pending, &entry);
        self.world.take_in(entry)
    }

    /// Writes all of it, in one piece.
    pub(super) fn commit(mut self) -> Result<(), StateError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        // A first line alone counts as empty: the file begins with its first entry.
        let is_empty = self.pending.is_empty() || self.world.machines.is_empty();
        if !is_empty {
            let mut writer = file;
            if let Err(source) = writer.write_all(&self.pending) {
                // The rest of the change must not be found later.
                let _ = file.set_len(self.world.offset);
                return Err(io_error("write to the file")(source));
            }
            let lines = self.pending.iter().filter(|byte| **byte == b'\n').count();
            self.world.offset += self.pending.len() as u64;
            self.world.lines += lines as u64;
        }
        self.pending.clear();
        Ok(())
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            unlock(&file);
            self.world.file = Some(file);
        }
        if !self.pending.is_empty() {
            self.world.forget();
        }
    }
}

fn header() -> Header {
    Header {
        format: FORMAT.to_owned(),
        format_version: FORMAT_VERSION,
    }
}

fn read_header(line: &[u8]) -> Result<(), StateError> {
    let header: Header = serde_json::from_slice(line).map_err(|_| StateError::Foreign)?;
    match (&*header.format, header.format_version) {
        (FORMAT, FORMAT_VERSION) => Ok(()),
        (FORMAT, other) => Err(StateError::Version(other)),
        _ => Err(StateError::Foreign),
    }
}

/// Whether half a first line may be the beginning of ours.
fn looks_like_ours(line: &[u8]) -> bool {
    let mut ours = Vec::new();
    push_line(&mut ours, &header());
    ours.starts_with(line)
}

fn push_line(bytes: &mut Vec<u8>, value: &impl Serialize) {
    // These values have no map whose keys are no texts, which alone could fail.
    if serde_json::to_writer(&mut *bytes, value).is_ok() {
        bytes.push(b'\n');
    }
}

/// Writes a file anew with one entry for each machine, unless another process has it open.
fn write_anew(path: &Path) -> Result<(), StateError> {
    let presence = open_presence(path)?;
    if presence.try_lock().is_err() {
        return Ok(());
    }
    let file = File::open(path).map_err(io_error("open the file"))?;
    let time = SiteClock::alone();
    let mut world = World::new(path, time.clone());
    world.catch_up(&file)?;
    let at = time.start();
    let mut machines: Vec<_> = std::mem::take(&mut world.machines).into_iter().collect();
    machines.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut bytes = Vec::new();
    push_line(&mut bytes, &header());
    for (node, machine) in machines {
        let entry = Entry {
            machine: Some(machine),
            ..Entry::of(at, &node)
        };
        push_line(&mut bytes, &entry);
    }
    let anew = path.with_added_extension("new");
    let written = File::create(&anew).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    written.map_err(io_error("write the file anew"))?;
    std::fs::rename(&anew, path).map_err(io_error("write the file anew"))?;
    unlock(&presence);
    Ok(())
}

fn open_presence(path: &Path) -> Result<File, StateError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.with_added_extension("lock"))
        .map_err(io_error("open the lock beside the file"))
}

fn locked(file: &File, exclusive: bool) -> Result<(), StateError> {
    let result = if exclusive {
        file.lock()
    } else {
        file.lock_shared()
    };
    ignore_unsupported(result).map_err(io_error("lock the file"))
}

fn unlock(file: &File) {
    // An error can only mean that there was no lock.
    let _ = file.unlock();
}

fn ignore_unsupported(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        other => other,
    }
}
