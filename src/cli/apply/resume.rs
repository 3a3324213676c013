//! `trueup apply --resume`: resumes a run that was interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::consent::Consent;
use super::recheck::{Rechecked, hold, recheck};
use super::saved::{Equipped, equip, kind_of};
use super::{ApplyCommand, ProcessClock, Task, actor, carry_out, exit_code, look_out, window};
use crate::backend;
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::journal::Decision;
use crate::plan::{Plan, saved};
use crate::record::Store;
use crate::run::{self, Interrupted, Process, Resumption, TakeOver, find_interrupted};
use crate::site::At;
use crate::workflow::Checkout;
use crate::workflow::{self, Caller, Opened};

/// Resumes a run that was interrupted; its commit is kept. In the clone that began it, what it does was agreed to then;
/// in another one it is held to a plan made now.
pub(super) fn resume(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
) -> Result<u8, Failure> {
    let decisions = decisions(&command.decide)?;
    let interrupted = match find_interrupted(site, None) {
        Err(run::Error::NothingInterrupted { site: name }) => {
            return match look_out(context, command, checkout, site)? {
                Some(run) => exit_code(run.outcome),
                None => {
                    let nothing = run::Error::NothingInterrupted { site: name };
                    Err(Failure::from(&nothing))
                }
            };
        }
        other => other?,
    };
    let run = &interrupted.record.run;
    let mut plan = plan_of(&interrupted)?;
    command.note(&plan);
    let at = At::Commit(interrupted.commit);
    let is_own = interrupted.noted_plan == Some(saved::digest(&plan));
    let mut rechecked = Rechecked::default();
    if !is_own {
        let consent = Consent {
            context,
            command,
            checkout,
            site,
            again: "trueup apply --resume",
            reviewed: &plan,
            at,
        };
        rechecked = recheck(&consent, &interrupted)?;
        hold(&mut plan, &mut rechecked);
    }
    let plan = Arc::new(plan);
    let location = checkout.location_at(at)?;
    let backends = context.backends(checkout, &location)?;
    let mut opened = Opened::new(checkout)?;
    let documents = opened.load(&location, at, workflow::AS_APPLIED)?;
    let design = documents.design.clone();
    if documents.digest != plan.target.site_digest {
        let commit = interrupted.commit.short();
        let text =
            format!("commit {commit} of run {run} does not have the files that were planned");
        return Err(Failure::new(FailureKind::Stale, text));
    }
    window::left(context, command, &design, &plan)?;
    let store = Store::open(site.repository, &site.name)?;
    let Equipped {
        applied,
        runtime,
        hardware,
    } = equip((opened, documents), &store, &plan, site, &backends)?;
    let nodes = &design.nodes;
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer).stopped_by(command.hooks.process_stop());
    let how = Resumption {
        decisions,
        take_over: TakeOver {
            dead: command.take_over_dead,
            longest_request: backend::longest_request(&design),
        },
    };
    let begun = run::resume(
        Process::new(site, &actor, &clock),
        &interrupted,
        &plan,
        nodes,
        how,
    )?;
    let task = Task {
        plan: &plan,
        design: &design,
        nodes,
        applied: &applied,
        hardware,
        runtime: &runtime,
        refused: rechecked.refused,
    };
    carry_out(context, command, &task, begun, &clock)
}

/// The plan of a run, as its records have it.
fn plan_of(interrupted: &Interrupted) -> Result<Plan, Failure> {
    let run = &interrupted.record.run;
    saved::read(&interrupted.plan.unpack("plan")?).map_err(|error| {
        let text = format!("the plan of run {run} is broken: {error}");
        Failure::new(kind_of(&error), text).hint(format!(
            "`trueup abort {run}` aborts it, and a new plan does what is left"
        ))
    })
}

fn decisions(texts: &[String]) -> Result<BTreeMap<Arc<str>, Decision>, Failure> {
    let mut decisions = BTreeMap::new();
    for text in texts {
        let decision = match text.rsplit_once('=') {
            Some((step, "done")) => (Arc::from(step), Decision::Done),
            Some((step, "not-begun")) => (Arc::from(step), Decision::NotBegun),
            _ => {
                return Err(Failure::new(
                    FailureKind::Usage,
                    format!("`--decide {text}` is not of the form `STEP=done` or `STEP=not-begun`"),
                ));
            }
        };
        decisions.insert(decision.0, decision.1);
    }
    Ok(decisions)
}
