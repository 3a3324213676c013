//! A run as git sees it: from the lock to the tag.
//!
//! [`admit`] looks at guards before anything is asked; [`begin`] takes the lock, checks that the plan
//! still holds, and writes the first checkpoint; while the dispatcher works, a [`Recorder`] turns its
//! words into records, and [`Session::tick`] renews the lock, writes checkpoints and publishes them;
//! [`Session::finish`] writes the end, tags the commit, and publishes all of it at once. A run that was
//! interrupted is [found](find_interrupted), and then [resumed](resume) or [given up](abort).
//!
//! Everything is written so that a crash between any two writes leaves a state that the next run
//! understands: the lock before the first record, the records before the tag, the tag's bytes before
//! the records that name it.

mod admission;
mod begin;
mod error;
mod files;
mod finish;
mod history;
mod interrupted;
mod keep;
mod node;
mod recorder;
mod site;
mod tag;
mod time;
mod unfinished;

pub use admission::admit;
pub use begin::{Begun, Proposal, begin, look_out};
pub use error::{Error, Kind};
pub use history::{History, intermediate_commits};
pub use interrupted::{
    Aborted, HalfDone, Interrupted, TakeOver, abort, find_interrupted, resume, unlock,
};
pub use keep::{Session, with_heartbeat};
pub use recorder::Recorder;
pub use site::{Actor, Connection, Site};
pub use time::Timekeeper;
pub use unfinished::unfinished_run;
