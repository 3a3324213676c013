//! Controls an action: pauses its run, resumes it, or ends it for good.
//!
//! A run that is paused is one that was interrupted: it keeps the site until it is resumed or stopped.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::action::{ActionView, Standing};
use super::answer::{ApiError, Call};
use super::found::plan_of;
use super::read::action_of;
use crate::serve::resume::{Instead, resume};
use crate::serve::shared::Shared;
use crate::serve::work::permits;

/// The control of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Pause,
    Unpause,
    Stop,
}

impl Verb {
    fn named(name: &str) -> Option<Self> {
        match name {
            "pause" => Some(Self::Pause),
            "unpause" => Some(Self::Unpause),
            "stop" => Some(Self::Stop),
            _ => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Stop => "stop",
        }
    }
}

pub(super) async fn control(call: Call) -> Result<Response, ApiError> {
    let word = call.named("verb");
    let verb = Verb::named(word).ok_or_else(|| {
        let text = format!("Unknown control {}", crate::report::Visible(word));
        ApiError::new(404, "Control not supported", text)
    })?;
    let view = action_of(&call).await?;
    permitted(&call, &view).await?;
    log::info!(
        "{} of action {} for {}",
        verb.as_str(),
        view.id,
        call.subject.name
    );
    act(&call.shared, &view, verb)?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Refuses the control of an action that changes machines for which the caller has no permission. Before it has a run,
/// its machines are not known.
async fn permitted(call: &Call, view: &ActionView) -> Result<(), ApiError> {
    let permit = call.permit.clone();
    let Some(run) = view.run.clone().filter(|_| !permit.is_whole()) else {
        return Ok(permit.covers_all()?);
    };
    let judged = call.ask(move |shared| {
        let plan = plan_of(shared, &run)?;
        Ok(permits(shared, &permit, &plan))
    });
    Ok(judged.await??)
}

fn act(shared: &Arc<Shared>, view: &ActionView, verb: Verb) -> Result<(), ApiError> {
    let unable = |why: &str| {
        let title = format!("Unable to {} action", verb.as_str());
        ApiError::new(409, title, why)
    };
    match (verb, view.standing) {
        (Verb::Pause | Verb::Stop, Standing::Running) => {
            let aborts = verb == Verb::Stop;
            let entry = shared.actions.find(&view.id);
            match (entry, shared.actions.resuming()) {
                (Some(entry), _) if entry.progress().ended.is_none() => entry.stop(aborts),
                (_, Some(resuming)) => resuming.stop(aborts),
                _ => return Err(unable("another process carries it out")),
            }
            Ok(())
        }
        (Verb::Unpause | Verb::Stop, Standing::Paused) => {
            let run = view.run.clone();
            let run = run.ok_or_else(|| unable("it has no run"))?;
            let instead = match verb {
                Verb::Stop => Instead::Abort(run),
                _ => Instead::AbortIfStopped(run),
            };
            resume(shared, Some(instead)).map_err(|refusal| unable(&refusal.status().message))
        }
        (Verb::Unpause, _) => Err(unable("it is not paused")),
        (Verb::Pause | Verb::Stop, _) => Err(unable("it is not running")),
    }
}
