//! Aborts a run that is divided among workers: first no worker may send anything more.

use std::time::Duration;

use super::known::KnownParts;
use super::refs::{PartRefs, is_moved};
use super::status::{PartState, PartStatus};
use crate::run::abandon::{Aborted, LookAtDeploys};
use crate::run::abort::abort_held;
use crate::run::error::{self, Error};
use crate::run::interrupted::Interrupted;
use crate::run::process::{Held, Process};
use crate::run::session::RENEWAL;

/// How often the parts are asked for again that moved while they were fenced.
const ATTEMPTS: usize = 8;

/// Aborts a run that is divided among workers. Each part that a worker has is fenced, and what that worker may still send is
/// waited for.
///
/// # Errors
///
/// [`Error::NotOfWorkers`]; [`Error::LockHeld`] where another process ends or aborts the run; those of
/// [`abort`](crate::run::abort).
pub fn abort_run(
    process: Process<'_>,
    interrupted: &Interrupted,
    longest_request: Duration,
    look: &LookAtDeploys<'_>,
) -> Result<Aborted, Error> {
    let mut held = super::end::take(process, interrupted)?;
    let fenced = fence(process, interrupted).and_then(|wait| match wait {
        Some(bound) => wait_out(process, interrupted, &mut held, bound + longest_request),
        None => Ok(()),
    });
    if let Err(error) = fenced {
        // The workers have it again; parts that were fenced stay so, and the next abort finds them.
        let _ = super::begin::give(process, &interrupted.record.run, &held, &interrupted.plan);
        return Err(error);
    }
    abort_held(process, &interrupted.record.run, &held, look)
}

/// Takes the next epoch of each part that a worker has. For how long one of them may still send something; `None`: no
/// worker had one.
fn fence(process: Process<'_>, interrupted: &Interrupted) -> Result<Option<Duration>, Error> {
    let (site, run) = (process.site, &interrupted.record.run);
    let refs = PartRefs { site, run };
    let store = site.store()?;
    let base = store
        .read()
        .map_err(error::records("read the records"))?
        .tip;
    let mut known = KnownParts::default();
    let mut longest = None;
    for _ in 0..ATTEMPTS {
        known.update(refs, &refs.list()?, base, None)?;
        let mut is_whole = true;
        for (part, found) in &known.0 {
            let status = &found.status;
            if !status.state.is_open() {
                continue;
            }
            let is_gone = status.holder.is_gone(&process.holder(run));
            let bound = Duration::from_secs(if is_gone { 0 } else { status.bound });
            if status.state == PartState::Running {
                let next = PartStatus {
                    epoch: status.epoch + 1,
                    state: PartState::Fenced,
                    ..status.clone()
                };
                let author = process.signature();
                let commit =
                    next.commit(site.repository, Some(found.commit), (&[], &[]), author)?;
                let commit = store
                    .write_shared(commit)
                    .map_err(error::records("fence the part"))?;
                match refs.replace(part, Some(found.commit), commit) {
                    Err(error) if is_moved(&error) => is_whole = false,
                    other => other?,
                }
            }
            longest = longest.max(Some(bound));
        }
        if is_whole {
            return Ok(longest);
        }
    }
    Err(Error::Moving {
        site: site.name.clone(),
        name: format!("run/{run}"),
    })
}

/// Waits, and renews the lock meanwhile.
fn wait_out(
    process: Process<'_>,
    interrupted: &Interrupted,
    held: &mut Held,
    wait: Duration,
) -> Result<(), Error> {
    let time = process.time;
    if !wait.is_zero() {
        time.explain(&format!(
            "for {} s: so long may a worker of the run that was fenced be sending",
            wait.as_secs()
        ));
    }
    let began = time.monotonic();
    loop {
        let left = wait.saturating_sub(time.monotonic().saturating_sub(began));
        if left.is_zero() {
            return Ok(());
        }
        time.pause(left.min(RENEWAL));
        if time.is_stopped() {
            return Err(Error::Stopped {
                site: process.site.name.clone(),
            });
        }
        let run = &interrupted.record.run;
        *held = process.take(Some(held.lock.id), run, &interrupted.plan)?;
    }
}
