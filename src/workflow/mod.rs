//! The workflows of trueup, as functions of typed requests: from a site's documents to a plan, from a plan to machines
//! that are as it says, and what is done about a run that was interrupted.
//!
//! The command line, the watcher and the tests call these, so that all of them go the same way. A workflow reads no
//! flags, no environment, no clock and no terminal of its own: a [`Client`] gives what only a process has, the
//! [`Process`](crate::run::Process) is who works on a site, and the [`RunHost`] drives the steps of a run and hears its events.

mod abort;
mod acting;
mod adopt;
mod airship;
mod apply;
mod approvals;
mod backends;
mod begun_guards;
mod beside;
mod carry_out;
mod checking;
mod checkout;
mod client;
mod collections;
mod compared;
mod consent;
mod earlier;
mod equip;
mod error;
mod etcd;
mod explain;
mod explained_run;
mod failure;
mod former;
mod guard_source;
mod guarded;
mod images;
mod learn;
mod neighbours;
mod notices;
mod outlook;
mod plan;
mod published;
mod ready;
mod recheck;
mod records;
mod refuse_errors;
mod rendered;
mod renewed;
mod reservations;
mod resume;
mod rollout;
mod rules;
mod run_now;
mod run_spans;
mod saved;
mod shared_file;
mod sites;
mod warnings;
mod way_back;
mod windows;
mod workers;
mod write_back;

pub use abort::{AbortRequest, abort, abort_run};
pub use acting::Acting;
pub use adopt::{AdoptionSite, EtcdSeed, found};
pub use airship::{Shipyard, ask_shipyard};
pub use apply::{ApplyRequest, PlanFile, apply, begin_for_workers};
pub use approvals::{
    Approving, Assessment, Clearance, Gate, LONGEST, NAMESPACE, Signer, Statement, UnapprovedRun,
    policy_in_force, recovery_keys, run_signatures, signature_of, signers_out_of_time,
    signers_problems, signing_site,
};
pub use backends::{allow_applied, backend_failure, choose, identities, runtime};
pub use beside::problems_beside;
pub use carry_out::{Caller, Carried, Execution, RunHost, RunLimits, Steps, drive_on};
pub use checking::checked_as_read;
pub use checkout::{AS_APPLIED, Checkout, ProtectedGuards, if_recorded, recorded};
pub use client::{Asking, Client};
pub use collections::{
    BufferMode, CollectionChange, CollectionError, Collections, CommitRequest, Committed,
    Comparison, Problem, Version,
};
pub use compared::applied;
pub use consent::{Consent, Operator, Origin, ensure_admitted, listed};
pub use equip::{Equipped, Purpose, equip, in_history};
pub use error::Error;
pub use etcd::observe_etcd;
pub use explain::{Known, Thing, apply_command, explain};
pub use explained_run::ExplainedRun;
pub use failure::{Failure, FailureKind};
pub use guarded::gate_of;
pub use images::wanted_images;
pub use learn::OneMachine;
pub use outlook::Outlook;
pub use plan::{Observed, PlanRequest, Planned, Planner, commit_of};
pub use published::{RETRY_TAG, unpublished};
pub use ready::ReadyPlan;
pub use recheck::{Rechecked, hold, recheck};
pub use records::{ensure_site_is_free, follow, owed_words, published_words};
pub use refuse_errors::refuse_errors;
pub use rendered::RenderedDesign;
pub use reservations::{ReservationRef, ReservationSite, known_reservations};
pub use resume::{ResumeRequest, left_by_head, resume};
pub use rollout::{
    Called, Drift, FoundRollout, ReadState, RolloutCall, SiteRunner, StateRef, check_rollout_name,
    find_rollout, rollout_names, rollout_problems,
};
pub use rules::{judged, rules};
pub use run_now::{record_now, report_now};
pub use saved::{
    SavedNow, commit_of_saved, is_for_site, not_of_a_day, plan_of, plan_of_run, saved_plan,
    saved_plan_with_file,
};
pub use sites::{Loaded, Revision, Scope, SiteOfMany, Touched, Visit, load_each, revisions, sites};
pub use way_back::{
    FilesBack, commit_way_back, files_back, past_revision, preview_way_back, way_back,
    way_back_subject,
};
pub use windows::{closed_for_saved, closed_now, time_left};
pub use workers::{
    PartEnd, PartOrder, PartSummary, RunEnd, carry_out_part, end_run, vouched, with_commit,
};
pub use write_back::{WriteBack, WrittenField, write_back};
