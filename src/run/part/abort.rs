//! Aborts a run that is divided among workers: first no worker may send anything more.

use std::time::Duration;

use super::known::KnownParts;
use super::refs::PartRefs;
use super::status::{PartState, PartStatus};
use crate::repository::Holder;
use crate::run::abandon::{Aborted, Inspection};
use crate::run::abort::abort_held;
use crate::run::error::{self, Error};
use crate::run::interrupted::Interrupted;
use crate::run::process::{Held, Process};
use crate::run::session::RENEWAL;

/// How often it is checked whether the workers of this machine are gone.
const GLANCE: Duration = Duration::from_secs(1);
/// How often the parts are asked for again that moved while they were fenced.
const ATTEMPTS: usize = 8;

/// Aborts a run that is divided among workers. Each part that a worker has is fenced, and what that worker may still send is
/// waited for.
///
/// # Errors
///
/// [`Error::NotOfWorkers`]; [`Error::LockHeld`] if another process ends or aborts the run; those of
/// [`abort`](crate::run::abort).
pub fn abort_run(
    process: Process<'_>,
    interrupted: &Interrupted,
    longest_request: Duration,
    inspection: Inspection<'_>,
) -> Result<Aborted, Error> {
    let mut held = super::end::take(process, interrupted)?;
    let fenced = fence(process, interrupted)
        .and_then(|fenced| wait_out(process, interrupted, &mut held, (fenced, longest_request)));
    if let Err(error) = fenced {
        // The workers have it again; parts that were fenced stay so, and the next abort finds them.
        let _ = super::begin::give(process, &interrupted.record.run, &held, &interrupted.plan);
        return Err(error);
    }
    abort_held(process, &interrupted.record.run, &held, inspection)
}

/// A worker whose part was fenced.
struct FencedWorker {
    holder: Holder,
    /// For how long it may begin a request, from the time when it was fenced: shorter once its process was found gone.
    bound: Duration,
}

impl FencedWorker {
    /// Notes whether its process is gone, so long after it was fenced: its last request may have begun right before.
    fn observe(&mut self, me: &Holder, since: Duration) {
        if self.bound > since && self.holder.is_gone(me) {
            self.bound = since;
        }
    }
}

/// Takes the next epoch of each part that a worker has.
fn fence(process: Process<'_>, interrupted: &Interrupted) -> Result<Vec<FencedWorker>, Error> {
    let (site, run) = (process.site, &interrupted.record.run);
    let refs = PartRefs { site, run };
    let store = site.store()?;
    let base = store
        .read()
        .map_err(error::records("read the records"))?
        .tip;
    let mut known = KnownParts::default();
    for _ in 0..ATTEMPTS {
        known.update(refs, &refs.list()?, base, None)?;
        let (mut is_whole, mut workers) = (true, Vec::new());
        for (part, found) in &known.0 {
            let status = &found.status;
            if !status.state.is_open() {
                continue;
            }
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
                    Err(error) if error.is_lost_race() => is_whole = false,
                    other => other?,
                }
            }
            workers.push(FencedWorker {
                holder: status.holder.clone(),
                bound: Duration::from_secs(status.bound),
            });
        }
        if is_whole {
            return Ok(workers);
        }
    }
    Err(Error::Moving {
        site: site.name.clone(),
        name: format!("run/{run}"),
    })
}

/// Waits until no worker sends anything any more, and renews the lock meanwhile: until those of this machine are gone, and the
/// bounds of the others are over.
fn wait_out(
    process: Process<'_>,
    interrupted: &Interrupted,
    held: &mut Held,
    (mut workers, longest_request): (Vec<FencedWorker>, Duration),
) -> Result<(), Error> {
    let (time, run) = (process.time, &interrupted.record.run);
    let me = process.holder(run);
    let began = time.monotonic();
    let mut left = || {
        let since = time.monotonic().saturating_sub(began);
        for worker in &mut workers {
            worker.observe(&me, since);
        }
        let bounds = workers.iter().map(|worker| worker.bound + longest_request);
        bounds.max().unwrap_or_default().saturating_sub(since)
    };
    if !left().is_zero() {
        time.explain(&format!(
            "for at most {} s: so long may a worker of the run that was fenced be sending",
            left().as_secs()
        ));
    }
    let mut renewed = began;
    while !left().is_zero() {
        time.pause(left().min(GLANCE));
        if time.is_stopped() {
            return Err(Error::Stopped {
                site: process.site.name.clone(),
            });
        }
        if time.monotonic().saturating_sub(renewed) >= RENEWAL {
            renewed = time.monotonic();
            *held = process.renew(held, &interrupted.plan)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_ends_late_is_waited_for_from_its_end_on() {
        let me = Holder::this_process("ada", "R2", "2026-01-01T00:00:00Z");
        let seconds = Duration::from_secs;
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut worker = FencedWorker {
            holder: Holder {
                pid: child.id(),
                process_start: None,
                ..me.clone()
            },
            bound: seconds(300),
        };
        worker.observe(&me, seconds(99));
        assert_eq!(worker.bound, seconds(300));
        child.kill().unwrap();
        child.wait().unwrap();
        worker.observe(&me, seconds(100));
        assert_eq!(worker.bound, seconds(100));
        // Once it was found gone, the time of that stays.
        worker.observe(&me, seconds(130));
        assert_eq!(worker.bound, seconds(100));
    }
}
