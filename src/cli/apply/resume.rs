//! `trueup apply --resume`: resumes a run that was interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conclude::{CommandHost, Listening, Task, execution};
use super::operator::CommandOperator;
use super::saved::kind_of;
use super::{ApplyCommand, ProcessClock, actor, exit_code, look_out, window};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::design::Design;
use crate::journal::Decision;
use crate::plan::{Plan, RunState, saved};
use crate::record::Store;
use crate::report;
use crate::run::{self, Interrupted, Process, SiteRepository, find_interrupted, unfinished_run};
use crate::site::At;
use crate::workflow::{
    self, Caller, Checkout, Client, Consent, Equipped, Rechecked, ResumeRequest, equip, hold,
    recheck,
};

/// Resumes a run that was interrupted; its commit is kept.
pub(super) fn resume(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
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
    let (plan, refused) = agreed(context, command, checkout, site, &interrupted)?;
    let Loaded { design, equipped } = load(context, command, checkout, site, &interrupted, &plan)?;
    let task = Task {
        plan: &Arc::new(plan),
        design: &design,
        equipped: &equipped,
    };
    let backends = || task.equipped.hardware.clone();
    let request = ResumeRequest {
        interrupted: &interrupted,
        execution: execution(command, &task, &backends, &refused),
        decisions,
        take_over_dead: command.take_over_dead,
    };
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer).stopped_by(command.hooks.process_stop());
    let mut listening = Listening::new(context, command, task.plan);
    let host = CommandHost::new(command, &clock, &task);
    let caller = Caller {
        host: &host,
        events: &mut |_, event| listening.hear(event),
    };
    let carried = workflow::resume(Process::new(site, &actor, &clock), &request, caller);
    listening.conclude(carried?)
}

/// The plan of a run, and the steps that are never begun. In the clone that began it, what it does was agreed to then;
/// in another one it is held to a plan made now.
fn agreed(
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
            operator: &CommandOperator { context, command },
            checkout,
            site,
            again: "trueup apply --resume",
            reviewed: &plan,
            at: At::Commit(interrupted.commit),
        };
        is_not_running(command, site)?;
        rechecked = recheck(&consent, interrupted)?;
        hold(&mut plan, &mut rechecked);
    }
    Ok((plan, rechecked.refused))
}

/// A run whose process may be at work is somebody else's.
fn is_not_running(command: &ApplyCommand, site: &SiteRepository<'_>) -> Result<(), Failure> {
    let unfinished = unfinished_run(site)?;
    match unfinished {
        Some(run) if run.state == RunState::Running && !command.take_over_dead => {
            let way_out = format!(
                "where its process is dead, `--take-over-dead` takes its lock, and `trueup unlock {}` releases it",
                run.run
            );
            Err(Failure::new(FailureKind::Locked, report::unfinished(&run)).hint(way_out))
        }
        _ => Ok(()),
    }
}

/// The documents of a run, and what its plan is carried out with.
struct Loaded {
    design: Arc<Design>,
    equipped: Equipped,
}

fn load(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
    plan: &Plan,
) -> Result<Loaded, Failure> {
    let at = At::Commit(interrupted.commit);
    let location = checkout.location_at(at)?;
    let backends = context.backends(checkout, &location)?;
    let mut loader = checkout.loader()?;
    let documents = loader.load(&location, at, workflow::AS_APPLIED)?;
    let design = documents.design.clone();
    if documents.digest != plan.target.site_digest {
        let (commit, run) = (interrupted.commit.short(), &interrupted.record.run);
        let text =
            format!("commit {commit} of run {run} does not have the files that were planned");
        return Err(Failure::new(FailureKind::Stale, text));
    }
    window::is_open(context, command, &design, plan)?;
    let store = Store::open(site.repository, &site.name)?;
    let equipped = equip(
        (checkout, &mut loader),
        &documents,
        &store,
        plan,
        site,
        &backends,
    )?;
    Ok(Loaded { design, equipped })
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
