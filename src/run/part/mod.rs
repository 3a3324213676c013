//! Parts of a run, carried out by workers: processes in clones of their own, at the same time.
//!
//! [`begin`](super::begin) takes the lock for the run, and not for its process. A worker [opens](open_part) a part: it takes the
//! next epoch of the part in a ref that all workers reach, by compare-and-swap, and publishes there what was done. Before
//! each request that changes something its last confirmed publication is younger than a bound; a successor waits until that
//! bound and the longest request are over. [`end_run`] collects what was done into the records, and ends the run;
//! [`abort_run`] takes the epochs of all parts first.

mod abort;
mod begin;
mod collect;
mod end;
mod known;
mod log;
mod open;
mod overview;
mod pace;
mod refs;
mod session;
mod shared_push;
mod status;

pub use abort::abort_run;
pub use begin::{find_named, find_shared, hand_over, leave_to_workers};
pub use end::{Ending, end_run};
pub use log::PartLog;
pub use open::{Opened, OpenedPart, PartRequest, open_part};
pub use overview::{PartOverview, overview};
pub use pace::{most_parts, pushes_per_minute, time_of_pushes};
pub use session::PartSession;
pub use status::PartState;

pub(super) use collect::{collected, plan_of, possibly_begun};
pub(super) use refs::PartRefs;
