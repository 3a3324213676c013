//! The intentions of a run and their results, on disk before they count.
//!
//! One append-only file in a directory of its own. It begins with a magic word and the version of the
//! format; then come frames, one for each [`Journal::commit`]: the length of the payload, a CRC-32 of
//! the length, a CRC-32 of the payload (each four bytes, little endian), and the payload, which is one
//! JSON value a line. Entries that were appended are durable once a commit has returned; one commit
//! carries many of them with one fsync. A frame that was being written when the machine went down can
//! only be the last one: it is cut off when the journal is opened. A damaged frame that another one
//! follows is an error, never a cut.

mod entry;
mod file;

use std::path::PathBuf;

pub use entry::{Decision, Entry, Log, Replay, StepOutcome};
pub use file::{FORMAT_VERSION, Journal};
#[cfg(any(test, fuzzing))]
pub(crate) use file::{entries, sealed};

/// Why a journal could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("failed to {what} `{}`", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Its error.
        source: std::io::Error,
    },
    /// There is a journal already.
    #[error("`{}` is there already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It is no journal, or one of another version.
    #[error("`{}` is not a journal of format version {FORMAT_VERSION}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// A durable entry is not readable any more.
    #[error("`{}` is damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged frame begins.
        offset: u64,
    },
    /// An entry could not be written as JSON, or read from it.
    #[error("an entry of the journal cannot be encoded or decoded")]
    Entry(#[source] serde_json::Error),
    /// A commit failed before; what is durable is not known, so nothing more is written.
    #[error("the journal could not be written before")]
    Broken,
}
