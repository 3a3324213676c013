//! The common limit of all checks of a site against its DataSchemas.
//!
//! Each document has a budget of its own ([`super::instance::Budget`]), which ten thousand documents have ten thousand times. So
//! the visits that were taken are summed in the order of the documents, against an allowance that grows with the values that were
//! checked; if the sum is above it, no further document is checked. The cost of a check depends on neither threads nor clocks, and so does the
//! place where they end: threads that were ahead of it have worked in vain.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use super::{Input, STACK, Taken};
use crate::design::kind;
use crate::diagnostic::Diagnostic;
use crate::threads::lock;

/// How many visits the checks of a site may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purse {
    /// Those of any site.
    pub(super) any: u64,
    /// As many more for each value that is checked.
    pub(super) per_value: u64,
    /// The most.
    pub(super) most: u64,
}

impl Purse {
    /// That of every site.
    pub(super) const OF_SITE: Self = Self {
        any: 100_000_000,
        per_value: 200,
        most: 400_000_000,
    };

    fn allows(&self, sum: Sum) -> u64 {
        let more = sum.values.saturating_mul(self.per_value);
        self.any.saturating_add(more).min(self.most)
    }

    /// Whether so much is more than there is.
    fn is_spent(&self, sum: Sum) -> bool {
        sum.visits > self.allows(sum)
    }
}

/// How many documents a thread takes at a time.
const TURN: usize = 16;

/// Below this a thread costs more than it brings.
const FEWEST: usize = 8;

/// The result of the check of a document.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) found: Vec<Diagnostic>,
    taken: Taken,
}

impl Checked {
    /// Adds what one schema took.
    pub(super) fn add(&mut self, taken: Taken) {
        self.taken.visits += taken.visits;
        self.taken.values = self.taken.values.max(taken.values);
    }

    /// The cost of all schemas.
    pub(super) fn taken(&self) -> Taken {
        self.taken
    }
}

/// The visits up to a document.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    visits: u64,
    values: u64,
}

impl Sum {
    fn add(&mut self, taken: Taken) {
        self.visits = self.visits.saturating_add(taken.visits);
        self.values = self.values.saturating_add(taken.values);
    }
}

/// How far all documents are checked from the first one on.
#[derive(Default)]
struct Progress {
    /// The visits of turns that are done, if one before them is not.
    ahead: FxHashMap<usize, Vec<Taken>>,
    /// The first turn that is not done.
    next: usize,
    sum: Sum,
}

impl Progress {
    /// Adds a turn that is done; whether it is known now that all together take too much.
    fn add(&mut self, turn: usize, taken: Vec<Taken>, purse: Purse) -> bool {
        self.ahead.insert(turn, taken);
        while let Some(taken) = self.ahead.remove(&self.next) {
            self.next += 1;
            for each in taken {
                self.sum.add(each);
                if purse.is_spent(self.sum) {
                    return true;
                }
            }
        }
        false
    }
}

/// The results of the documents, in their order, up to the one at which the checks take too much.
pub(super) fn in_turns(
    documents: &[Input<'_>],
    threads: usize,
    purse: Purse,
    check: impl Fn(&Input<'_>) -> Checked + Sync,
) -> Vec<Checked> {
    let turns: Vec<&[Input<'_>]> = documents.chunks(TURN).collect();
    let threads = match documents.len() {
        0 => return Vec::new(),
        few if few < FEWEST => 1,
        _ => threads.max(1).min(turns.len()),
    };
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let progress = Mutex::new(Progress::default());
    let work = || {
        let mut done = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(documents) = turns.get(turn) else {
                break;
            };
            let checked: Vec<Checked> = documents.iter().map(&check).collect();
            let taken = checked.iter().map(|each| each.taken).collect();
            let mut progress = lock(&progress);
            is_over.fetch_or(progress.add(turn, taken, purse), Ordering::Relaxed);
            done.push((turn, checked));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, work)
            })
            .collect();
        let mut done = Vec::with_capacity(turns.len());
        for thread in threads {
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(part)) => done.extend(part),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system has no thread to give.
                Err(_) => done.extend(work()),
            }
        }
        done
    });
    done.sort_by_key(|(turn, _)| *turn);
    let mut sum = Sum::default();
    let mut is_last = false;
    let in_order = done.into_iter().flat_map(|(_, checked)| checked);
    let checked: Vec<Checked> = in_order
        .take_while(|each| {
            let is_before = !is_last;
            sum.add(each.taken);
            is_last |= purse.is_spent(sum);
            is_before
        })
        .collect();
    log::debug!(
        "{} documents checked with {} visits of {} values",
        checked.len(),
        sum.visits,
        sum.values
    );
    checked
}

/// The error if not all documents were checked: it stands at the schema that took most.
pub(super) fn too_costly(
    documents: &[Input<'_>],
    checked: &[Checked],
    purse: Purse,
) -> Option<Diagnostic> {
    let (first, _) = documents.get(checked.len())?;
    let mut sum = Sum::default();
    let mut by_kind: FxHashMap<&str, u64> = FxHashMap::default();
    for ((document, _), each) in documents.iter().zip(checked) {
        sum.add(each.taken);
        *by_kind.entry(&document.id.schema).or_default() += each.taken.visits;
    }
    let most = by_kind
        .iter()
        .max_by_key(|(name, visits)| (**visits, **name));
    let name = most.map_or("", |(name, _)| name);
    let schema = documents.iter().find(|(document, _)| {
        *document.id.schema == *kind::DATA_SCHEMA && *document.id.name == *name
    });
    let mark = schema.map_or(first.name_mark, |(_, data)| data.mark);
    let message = format!(
        "checking the documents of this site against its DataSchemas takes more than {} steps, most of them for `{name}`",
        purse.allows(sum)
    );
    let hint = format!(
        "`{}` and what follows it is not checked; let this schema have fewer alternatives, and patterns without look-around \
         and with fewer repetitions",
        first.id
    );
    Some(Diagnostic::error("schema-too-costly", mark, message).hint(hint))
}

/// Whether a site may have so many documents whose checks take as much.
#[cfg(test)]
pub(super) fn is_enough_for(taken: Taken, documents: u64) -> bool {
    let sum = Sum {
        visits: taken.visits * documents,
        values: taken.values * documents,
    };
    taken.visits > 0 && !Purse::OF_SITE.is_spent(sum)
}
