//! A run that has not ended, in words.

use std::fmt::{self, Write};

use super::plan::duration;
use super::{Visible, counted};
use crate::design::{NodeName, RunId};
use crate::diagnostic::chain;
use crate::plan::{RunState, UnfinishedRun};
use crate::run::{Error, OpenParts, Undecided, WaysOut};

/// Nodes that are named.
const NAMED: usize = 3;

/// Renders a run that has not ended: its holder, where and since when, and the commands to resume or abort it.
#[must_use]
pub fn unfinished(run: &UnfinishedRun) -> String {
    let state = run.state.words();
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
        RunState::EndedElsewhere => format!(
            "`trueup log` in that clone publishes them; if it is gone for good, `trueup apply --resume --take-over-dead` resumes run {} here",
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

/// Some names, and how many more there are.
pub fn named<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<&str> = names.take(NAMED).collect();
    format!("{}{more}", named.join(", "))
}

/// Renders the ways out of an interrupted run, a line each: the command, what becomes of which nodes, and how long it takes.
#[must_use]
pub fn ways_out(run: &RunId, found: Result<Option<WaysOut>, Error>) -> Vec<String> {
    match found {
        Ok(Some(ways)) => lines(run, &ways),
        Ok(None) => Vec::new(),
        Err(error) => vec![format!("what it has done is not known: {}", chain(&error))],
    }
}

/// The words for nodes that were not begun, as far as is known, if their run is resumed and if it is aborted.
fn words_of_unbegun(ways: &WaysOut) -> (&'static str, &'static str) {
    match ways.may_be_begun {
        true => (
            "begins @, or finishes what had begun there last",
            "left as before, or as far as they come if they had begun last: @",
        ),
        false => ("begins @", "left as before: @"),
    }
}

/// The words for what an abort leads to.
fn words_of_abort(ways: &WaysOut) -> &'static str {
    match ways.owes_soak {
        true => "nothing more is done, and the next update has the soak first that is owed then",
        false => "nothing more is done",
    }
}

/// The flags that its plan was given, which another plan of the same documents needs again.
fn allowed_anew(ways: &WaysOut) -> Option<String> {
    let given = ways.allowances.join(" ");
    (!given.is_empty())
        .then(|| format!("what it may do is allowed anew, and the run was given `{given}`"))
}

/// Words about some nodes, whose names are in the place of `@`; `None`: there are none.
fn some(list: &[NodeName], text: &str) -> Option<String> {
    let names = named(list.iter().map(NodeName::as_str));
    (!list.is_empty()).then(|| text.replace('@', &names))
}

fn joined(parts: &[Option<String>]) -> String {
    let parts: Vec<String> = parts.iter().flatten().cloned().collect();
    parts.join("; ")
}

fn about(seconds: Option<u64>) -> Option<String> {
    let left = seconds.filter(|seconds| *seconds > 0);
    left.map(|seconds| format!("about {}", duration(seconds)))
}

/// The words for what a run that supersedes it leads to.
fn words_of_supersede(ways: &WaysOut) -> String {
    joined(&[
        Some("aborts it, and applies a new plan of what is committed now".to_owned()),
        some(
            &ways.half_done,
            "@ as found then, once nothing is under way there",
        ),
        some(&ways.failed, "@ again"),
        ways.rebuilding.then(|| {
            "what it had begun to build is built again with `--allow-redeploy NODE` alone, if a system is on it then".to_owned()
        }),
        ways.owes_soak
            .then(|| "first the soak that is owed".to_owned()),
        about(ways.anew).map(|time| format!("at most {time} if the documents are the same")),
        allowed_anew(ways),
    ])
}

fn lines(run: &RunId, ways: &WaysOut) -> Vec<String> {
    let complete = (ways.complete > 0).then(|| {
        let nodes = counted(ways.complete, "node is", "nodes are");
        format!("{nodes} done in any case")
    });
    let (begins, as_before) = words_of_unbegun(ways);
    let resumed = joined(&[
        some(&ways.half_done, "finishes @"),
        some(&ways.not_started, begins),
        some(&ways.failed, "left failed: @"),
        about(ways.resumed),
        allowed_anew(ways).filter(|_| ways.is_of_another_clone),
    ]);
    let is_open = !(ways.half_done.is_empty()
        && ways.not_started.is_empty()
        && ways.failed.is_empty()
        && ways.resumed.unwrap_or_default() == 0);
    let resumed = match is_open {
        true => resumed,
        false => "changes no machine any more, and ends the run".to_owned(),
    };
    let aborted = joined(&[
        Some(words_of_abort(ways).to_owned()),
        some(&ways.half_done, "left as far as they come by themselves: @"),
        some(&ways.failed, "left failed: @"),
        some(&ways.not_started, as_before),
    ]);
    let superseded = words_of_supersede(ways);
    let part = match ways.needs_digest {
        true => format!("`trueup run part {run} PART --plan-digest DIGEST`"),
        false => format!("`trueup run part {run} PART`"),
    };
    let digest = ways.needs_digest.then(|| {
        "DIGEST is what `trueup run begin` printed in the clone that began the run".to_owned()
    });
    let lines = match &ways.parts {
        None => vec![
            format!("`trueup apply --resume`: {resumed}"),
            format!("`trueup abort {run}`: {aborted}"),
            format!("`trueup apply --supersede`: {superseded}"),
        ],
        Some(OpenParts::Unknown) => vec![
            format!("`trueup run status {run}` lists the parts that have not ended"),
            format!("{part} for each of them, then `trueup run end {run}`"),
            format!("`trueup run abort {run}`: nothing more is done"),
        ],
        Some(OpenParts::Known { left, at_work }) => {
            let parts = named(left.iter().map(|part| &**part));
            let carried = match left.is_empty() {
                true => String::new(),
                false => format!("{part} for {parts}, then "),
            };
            let at_work = (!at_work.is_empty()).then(|| {
                let names = named(at_work.iter().map(|part| &**part));
                let are = if at_work.len() == 1 { "is" } else { "are" };
                format!(
                    "{names} {are} with a worker, and {part} takes over what a dead one has left"
                )
            });
            let ended = match left.is_empty() && at_work.is_none() {
                // Whatever has not begun by now is not begun any more.
                true => joined(&[
                    Some("writes its records and its tag".to_owned()),
                    some(&ways.half_done, "left half-done: @"),
                    some(&ways.failed, "left failed: @"),
                    some(&ways.not_started, "left as before: @"),
                ]),
                false => joined(&[at_work, Some(resumed)]),
            };
            vec![
                format!("{carried}`trueup run end {run}`: {ended}"),
                format!("`trueup run abort {run}`: {aborted}"),
            ]
        }
    };
    let undecided = ways.undecided.iter().map(Undecided::words);
    let lines = undecided.chain(lines).chain(digest).chain(complete);
    lines.map(|line| Visible(&line).to_string()).collect()
}

/// Writes the ways out of a run below its report.
///
/// # Errors
///
/// Only if `out` fails.
pub fn ways_out_text(out: &mut dyn Write, ways: &[String]) -> fmt::Result {
    if !ways.is_empty() {
        writeln!(out, "Ways out:")?;
    }
    ways.iter().try_for_each(|way| writeln!(out, "  {way}"))
}
