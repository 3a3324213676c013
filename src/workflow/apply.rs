//! Begins the run of an approved plan, and carries it out.

use super::carry_out::{Caller, Carried, Execution, carry_out};
use super::checking::checked_at_begin;
use super::notices::Notices;
use super::reservations::ReservationRef;
use super::{Clearance, Error};
use crate::design::{Digest, RunId};
use crate::plan::{self, Plan, saved};
use crate::record::{Packed, State, Store, Workers};
use crate::repository::CommitId;
use crate::run::{self, ApprovedPlan, Begun, Process, Proposal, begin, hand_over};

/// A plan as a saved file, packed, which the records and the lock of its run keep.
#[derive(Clone, Debug)]
pub struct PlanFile {
    packed: Packed,
    digest: Digest,
}

impl PlanFile {
    /// The file of a plan.
    ///
    /// # Errors
    ///
    /// The plan cannot be written as a file.
    pub fn of(plan: &Plan) -> std::io::Result<Self> {
        let (packed, digest) = Packed::new(|out| saved::write_to(plan, out))?;
        Ok(Self { packed, digest })
    }

    /// The digest of the plan.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// An approved plan that is to be carried out.
pub struct ApplyRequest<'a> {
    /// The plan, and what it is carried out with.
    pub execution: Execution<'a>,
    /// The plan as a file.
    pub file: &'a PlanFile,
    /// The commit that is applied.
    pub commit: CommitId,
    /// The approvals that the run begins with.
    pub clearance: &'a Clearance,
}

/// Begins the run of a plan and carries it out.
///
/// # Errors
///
/// [`Error::WindowClosed`]; [`Error::Unsound`]; those of [`begin`]; [`Error::Steps`]; those of the end of the run.
pub fn apply<'a>(
    process: Process<'a>,
    request: &ApplyRequest<'a>,
    caller: Caller<'_>,
) -> Result<Carried<'a>, Error> {
    let begun = begin_run(process, request, None)?;
    carry_out(process, begun, &request.execution, caller, false)
}

/// Begins the run of a plan for workers, which carry out its parts; gives its id.
///
/// # Errors
///
/// [`Error::WindowClosed`]; [`Error::Unsound`]; those of [`begin`], and of the lock.
pub fn begin_for_workers(
    process: Process<'_>,
    request: &ApplyRequest<'_>,
    workers: &Workers,
) -> Result<RunId, Error> {
    let begun = begin_run(process, request, Some(workers))?;
    hand_over(&begun.session)?;
    let run = begun.session.run().clone();
    let backends = (request.execution.backends)();
    let notices = Notices::of(
        backends.notifier(),
        request.execution.plan,
        request.commit,
        run.as_str(),
    );
    notices.begins_for_workers(process.time.seconds());
    Ok(run)
}

fn begin_run<'a>(
    process: Process<'a>,
    request: &ApplyRequest<'a>,
    workers: Option<&'a Workers>,
) -> Result<Begun<'a>, Error> {
    let execution = &request.execution;
    execution.time_left(process.time)?;
    checked_at_begin(execution.plan, execution.guarded).map_err(Error::Unsound)?;
    let time_zone = &execution.guarded.guards().policy.time_zone;
    let today = time_zone.day(process.time.seconds());
    let store = Store::open(process.site.repository, &process.site.name)?;
    let proposal = Proposal {
        approved: ApprovedPlan {
            plan: execution.plan,
            plan_file: &request.file.packed,
            commit: request.commit,
            nodes: &execution.guarded.nodes,
        },
        plan_digest: &request.file.digest,
        approvals: &request.clearance.approvals,
        break_glass: request.clearance.break_glass.as_ref(),
        policy_asks: request.clearance.policy_asks,
        workers,
    };
    Ok(begin(process, proposal, &mut |state| {
        stale(process, request, (&store, state), &today)
    })?)
}

/// The parts of a plan that do not hold any more by the newest records and reservations.
fn stale(
    process: Process<'_>,
    request: &ApplyRequest<'_>,
    (store, state): (&Store<'_>, &State),
    today: &str,
) -> Result<Vec<String>, run::Error> {
    let reservations = ReservationRef::of(process.site).holding_at(process.time.seconds());
    // Any of its machines may be reserved; that the remote does not answer makes no plan stale.
    let reservations = reservations.map_err(|failure| run::Error::Reservations {
        reason: failure.message,
    })?;
    let (plan, guarded) = (request.execution.plan, request.execution.guarded);
    let records = store.nodes(state);
    let records = records.map_err(|source| run::Error::Records {
        attempt: "check whether the plan still holds",
        source,
    })?;
    let current = plan::Current {
        site_digest: &plan.target.site_digest,
        guards: guarded.guards(),
        recorded: plan::Recorded {
            base_run: state.site.last_success.as_ref().map(|action| &action.run),
            records: &records,
            reservations: &reservations,
        },
        today,
        observations: None,
    };
    let reasons = plan::stale(plan, &current);
    Ok(reasons.iter().map(ToString::to_string).collect())
}
