//! The resumption and the end of a run that was interrupted, beside the answers to requests.

use std::sync::Arc;

use super::answer::Refusal;
use super::host::Host;
use super::shared::Shared;
use crate::design::RunId;
use crate::run::Process;
use crate::telemetry::in_same_span;
use crate::workflow::{self, AbortRequest, Failure, signing_site};

/// The end of a run that was interrupted.
#[derive(Clone, Debug)]
pub(super) enum Instead {
    /// It is not resumed, but aborted.
    Abort(RunId),
    /// It is aborted if its resumption is stopped for that.
    AbortIfStopped(RunId),
}

/// Resumes the run that was interrupted, or ends it, on a thread of its own.
///
/// # Errors
///
/// Another action holds the place.
pub(super) fn resume(shared: &Arc<Shared>, instead: Option<Instead>) -> Result<(), Refusal> {
    let resuming = shared.actions.begin_resume()?;
    let worker = shared.clone();
    let work = move || {
        let host = &*worker.host;
        let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &instead {
            Some(Instead::Abort(run)) => abort(host, run),
            Some(Instead::AbortIfStopped(run)) => {
                let noted = resuming.clone();
                let resumed = host.resume(Arc::new(move |stop| noted.begins(stop)));
                match resuming.is_aborted() {
                    true => abort(host, run),
                    false => resumed,
                }
            }
            None => {
                let noted = resuming.clone();
                host.resume(Arc::new(move |stop| noted.begins(stop)))
            }
        }));
        match resumed {
            Ok(Ok(())) => {}
            Ok(Err(failure)) if failure.message.is_empty() => {}
            Ok(Err(failure)) => host.client().tell(&format!("error: {failure}")),
            Err(_) => log::error!("the resumption of a run failed by a defect"),
        }
        worker.actions.end(None);
    };
    let thread = std::thread::Builder::new().name("resume".to_owned());
    if let Err(error) = thread.spawn(in_same_span(work)) {
        log::error!("no thread could be started to resume a run: {error}");
        shared.actions.end(None);
    }
    Ok(())
}

/// Aborts a run that was interrupted.
pub(super) fn abort(host: &dyn Host, run: &RunId) -> Result<(), Failure> {
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let site = signing_site(&checkout, host.connection(&repository)?)?;
    let actor = host.client().actor(&repository)?;
    let clock = host.clock(None);
    let request = AbortRequest {
        client: host.client(),
        checkout: &checkout,
        run,
        take_over_dead: false,
    };
    workflow::abort(Process::new(&site, &actor, clock.timekeeper()), request)?;
    Ok(())
}
