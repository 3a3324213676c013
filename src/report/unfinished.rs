//! A run that has not ended, in words.

use super::Visible;
use crate::plan::{RunState, UnfinishedRun};

/// Renders a run that has not ended: its holder, where and since when, and the commands to resume or abort it.
#[must_use]
pub fn unfinished(run: &UnfinishedRun) -> String {
    let state = match run.state {
        RunState::Running => "is running",
        RunState::Interrupted => "was interrupted",
    };
    let actor = run.actor.as_deref().map(|actor| format!(", by {actor}"));
    let host = run.host.as_deref().map(|host| format!(" on {host}"));
    let way_out = match run.state {
        RunState::Running => {
            "its changes are not in the records before it ends, so a plan may miss them".to_owned()
        }
        RunState::Interrupted => format!(
            "`trueup apply --resume` resumes it, `trueup abort {}` aborts it",
            run.run
        ),
    };
    let text = format!(
        "run {} ({}) {state}{}{}, begun {}; {way_out}",
        run.run,
        run.action,
        actor.unwrap_or_default(),
        host.unwrap_or_default(),
        run.started
    );
    Visible(&text).to_string()
}
