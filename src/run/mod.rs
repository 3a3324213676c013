//! A run as git sees it: from the lock to the tag.
//!
//! [`admit`] checks guards before anything is requested; [`begin`] takes the lock, checks that the plan
//! still holds, and writes the first checkpoint; while the dispatcher works, a [`Recorder`] turns its
//! words into records, and [`LeaseHolder::tick`] renews the lock, writes checkpoints and publishes them;
//! [`Session::finish`] writes the end, tags the commit, and publishes all of it at once. A run that was
//! interrupted is [found](find_interrupted), and then [resumed](resume) or [aborted](abort).
//!
//! Everything is written so that a crash between any two writes leaves a state that the next run
//! understands: the lock before the first record, that before the first step, and the tag's words in the
//! records that name it. With a remote nothing counts before it is there: a run whose end could not be
//! published keeps its lock, and the next process in its clone publishes it ([`catch_up`]).

mod abandon;
mod abort;
mod admission;
mod begin;
mod catch_up;
mod checkpoint;
mod durations;
mod effects;
mod ending;
mod error;
mod event;
mod files;
mod finish;
mod git_thread;
mod history;
mod interrupted;
mod kept_guards;
mod known;
mod lease;
mod listener;
mod migrate;
mod node;
mod outcome;
mod owed_records;
mod owed_tags;
mod part;
mod process;
mod progress;
mod publish;
mod recorder;
mod records;
mod resume;
mod session;
mod session_events;
mod site_repository;
mod stop;
mod tag;
mod take_over;
mod time;
mod trial;
mod unfinished;
mod untold;
mod view;
mod vouch;
mod ways_out;

pub use abandon::{Aborted, HalfDone, Inspection, LeaveCordoned, Look, SumUp, Trace};
pub use abort::abort;
pub use admission::{admit, clean};
pub use begin::{Outlook, Proposal, begin, ensure_site_is_free};
pub use catch_up::{Arrears, CaughtUp, Unpublished, catch_up, unpublished};
pub use durations::Durations;
pub use ending::{
    Finished, GroupResult, NodeResult, PodsLeft, RunReport, Undecided, Undrained, pods_left,
};
pub use error::{Error, Kind};
pub use event::{EventKind, GateStage, RunEvent};
pub use files::{KeptJournal, journals};
pub use git_thread::{GitWork, with_heartbeat};
pub use history::{History, intermediate_commits, since_success};
pub use interrupted::{Interrupted, find_interrupted};
pub use known::{OpenSteps, Seen};
pub use lease::{GitTask, GitThread, Lease, LeaseHolder};
pub use listener::RunListener;
pub use migrate::{Migration, migrate};
pub use outcome::NodeOutcome;
pub use owed_records::{OwedRuns, owed_runs};
pub use part::{
    Ending, Opened, OpenedPart, PartLog, PartOverview, PartRequest, PartSession, PartState,
    abort_run, end_run, find_named, find_shared, hand_over, leave_to_workers, most_parts,
    open_part, overview, pushes_per_minute, time_of_pushes,
};
pub use process::{Committer, Process};
pub use progress::{KnownSteps, bring_up_to_date, known_steps};
pub use publish::Publication;
pub use recorder::Recorder;
pub use resume::{Resumption, resume};
pub use session::{ApprovedPlan, Begun, Session};
pub use site_repository::{Connection, SetAside, SiteRepository};
pub use stop::{Stop, StopHandle};
#[cfg(test)]
pub(crate) use tag::tests::run as run_record;
pub use take_over::{TakeOver, Unlock, unlock};
pub use time::{Timekeeper, time_of_id};
pub use trial::{Trial, TrialPush, try_pushes};
pub use unfinished::{
    holder, outcome_now, plan_of_lock, refuse_held, unfinished_run, unfinished_run_known,
};
pub use view::{Completion, Kinds, Left, NodeView, TAKE_OUT, taken_out, tolerated};
pub use vouch::vouch;
pub use ways_out::{OpenParts, WaysOut, is_begun_here, needs_plan_digest};
