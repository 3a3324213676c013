//! `trueup apply --resume`: resumes a run that was interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conclude::{CommandHost, Listening, execution};
use super::operator::CommandOperator;
use super::{ApplyCommand, ProcessClock, actor, ensure_site_is_free, exit_code};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::journal::Decision;
use crate::plan::{Plan, saved};
use crate::record::{SignatureVerdict, Store};
use crate::report::Visible;
use crate::run::{self, Interrupted, Process, SiteRepository, find_interrupted};
use crate::site::At;
use crate::workflow::{
    self, Caller, Checkout, Consent, Purpose, Rechecked, ResumeRequest, equip, hold, plan_of,
    recheck, signature_of,
};

/// Resumes a run that was interrupted; its commit is kept.
pub(in crate::cli) fn resume(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
) -> Result<u8, Failure> {
    let decisions = decisions(&command.decide)?;
    let interrupted = match find_interrupted(site, None) {
        Err(run::Error::NothingInterrupted { site: name }) => {
            return match ensure_site_is_free(context, command, checkout, site, &|| Ok(()))? {
                Some(run) => exit_code(run.outcome),
                None => {
                    let nothing = run::Error::NothingInterrupted { site: name };
                    Err(Failure::from(&nothing))
                }
            };
        }
        other => other?,
    };
    warn_of_signature(context, checkout, site, &interrupted)?;
    if let Some(text) = workflow::left_by_head(checkout, &site.connection, &interrupted)? {
        context.printer.tell(&format!("warning: {text}"));
    }
    let (plan, refused) = plan_to_resume(context, command, checkout, site, &interrupted)?;
    command.arguments.shape_nothing_of(&plan.options)?;
    let equipped = equip(
        context,
        checkout,
        site,
        &interrupted,
        plan,
        Purpose::Act(refused),
    )?;
    if command.arguments.outside_windows {
        equipped.may_leave_windows()?;
    }
    let backends = || equipped.hardware.clone();
    let mut execution = execution(command, &equipped, &backends);
    execution.limits.outside_windows = command.arguments.outside_windows;
    let request = ResumeRequest {
        interrupted: &interrupted,
        execution,
        decisions,
        take_over_dead: command.take_over_dead,
    };
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer).stopped_by(command.hooks.process_stop());
    let mut listening = Listening::new(context, command, &equipped.plan);
    let host = CommandHost::new(command, &clock, &equipped);
    let caller = Caller {
        host: &host,
        events: &mut |_, event| listening.on_event(event),
    };
    let carried = workflow::resume(Process::new(site, &actor, &clock), &request, caller);
    listening.conclude(carried?)
}

/// Warns of records of a run whose signature is bad. If the site takes signed runs only, they are refused later.
fn warn_of_signature(
    context: &Context,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
) -> Result<(), Failure> {
    let run = &interrupted.record.run;
    let store = Store::open(site.repository, &site.name)?;
    let signature = signature_of(checkout, &store, &store.read()?, run)?;
    let bad = signature.filter(|found| found.verdict == SignatureVerdict::Bad);
    if let Some(why) = bad.and_then(|found| found.reason) {
        let text = format!("warning: the signature of run {run} is bad: {why}");
        context.printer.tell(&Visible(&text).to_string());
    }
    Ok(())
}

/// The plan of a run, and the steps that are never begun. In the clone that began it, what it does was agreed to then;
/// in another one it is held to a plan made now.
fn plan_to_resume(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
) -> Result<(Plan, BTreeMap<usize, Arc<str>>), Failure> {
    let mut plan = plan_of(interrupted)?;
    command.note(&plan);
    let is_own = interrupted.noted_plan == Some(saved::digest(&plan));
    let mut rechecked = Rechecked::default();
    if !is_own {
        let consent = Consent {
            client: context,
            operator: &CommandOperator {
                context,
                command,
                is_rehearsed: false,
            },
            checkout,
            site,
            again: "trueup apply --resume",
            repeats_flags: true,
            reviewed: &plan,
            at: At::Commit(interrupted.commit),
            has_begun: true,
        };
        if !command.take_over_dead {
            run::refuse_held(site)?;
        }
        rechecked = recheck(&consent, interrupted)?;
        hold(&mut plan, &mut rechecked);
    }
    Ok((plan, rechecked.refused))
}

pub(in crate::cli) fn decisions(texts: &[String]) -> Result<BTreeMap<Arc<str>, Decision>, Failure> {
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
