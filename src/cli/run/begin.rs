//! `trueup run begin`: takes the lock for the run, and publishes the plan.

use std::sync::Arc;

use clap::Args;

use super::parts::PartsArguments;
use super::shared::find;
use crate::cli::action::ActionArguments;
use crate::cli::apply::begun::print;
use crate::cli::apply::saved::apply_saved;
use crate::cli::apply::{ApplyCommand, ApplyFormat, ProcessClock, actor, ensure_site_is_free};
use crate::cli::context::Context;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::value::{at_least_one, number};
use crate::cli::{Failure, FailureKind};
use crate::plan::{Parts, saved};
use crate::record::{RunRecord, Workers};
use crate::run::{self, Process, SiteRepository};
use crate::workflow::{saved_plan, signing_site};

/// The longest name of a run.
const LONGEST_NAME: usize = 250;

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct BeginCommand {
    /// The saved plan
    #[arg(value_name = "PLAN")]
    plan: String,
    /// The name of the run for the engine that starts its workers
    #[arg(long, value_name = "NAME", value_parser = name)]
    run: String,
    /// Most nodes of a part [default: as `trueup run parts PLAN` shows]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    nodes_per_part: Option<usize>,
    /// Most pushes a minute of all workers together; 0: without limit [default: what the host of the remote asks for: 6 on GitHub, else without limit]
    #[arg(long, value_name = "N", value_parser = number)]
    pushes_per_minute: Option<u64>,
    /// Allow what the plan allows, if this is its effect, as `plan` and `show` print it
    #[arg(long, value_name = "DIGEST")]
    effect: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ApplyFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// The name of a run, which is in the records.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && !text.chars().any(char::is_control);
    match is_plain && text.len() <= LONGEST_NAME {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "it has 1 to {LONGEST_NAME} characters, none of them a control character"
        )),
    }
}

pub(super) fn run(context: &mut Context, command: &BeginCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = signing_site(&checkout, command.remote.lasting_connection(&repository)?)?;
    let (folder, path) = (context.directory().to_owned(), command.plan.as_ref());
    let reviewed = saved_plan(&folder, path)?;
    if let Some(record) = run::find_shared(&site, &command.run)? {
        return has_begun(context, command, &site, &record, &reviewed);
    }
    let pace = PartsArguments::pace(context, command.pushes_per_minute);
    let parts = PartsArguments::of(command.nodes_per_part).cut(&reviewed, pace);
    let workers = Workers {
        name: Arc::from(command.run.as_str()),
        plan: saved::digest(&reviewed),
        nodes_per_part: parts.nodes_per_part,
        pushes_per_minute: pace,
    };
    let arguments = PlanArguments::of_action(ActionArguments::default(), command.remote.clone());
    let mut apply = ApplyCommand::of(vec![command.plan.clone()], false, arguments);
    apply.effect.clone_from(&command.effect);
    apply.format = command.format;
    apply.workers = Some(workers);
    drop((reviewed, parts));
    let begun = match ensure_site_is_free(context, &apply, &checkout, &site, &|| Ok(())) {
        Ok(_) => apply_saved(context, &apply, &checkout, &site, path),
        Err(failure) => Err(failure),
    };
    let failure = match begun {
        Ok(code) => return Ok(code),
        Err(failure) => failure,
    };
    // A push of one that was killed may have come to its end behind the look above.
    match run::find_shared(&site, &command.run)? {
        Some(record) => {
            let reviewed = saved_plan(&folder, path)?;
            has_begun(context, command, &site, &record, &reviewed)
        }
        None => Err(failure),
    }
}

/// The output if a run with the name has begun before: nothing is to do, if it is of the same plan and has not ended.
fn has_begun(
    context: &Context,
    command: &BeginCommand,
    site: &SiteRepository<'_>,
    record: &RunRecord,
    reviewed: &crate::plan::Plan,
) -> Result<u8, Failure> {
    let workers = record.workers.as_ref();
    if workers.is_none_or(|workers| workers.plan != saved::digest(reviewed)) {
        let text = format!(
            "run {} has begun as `{}`, with another plan",
            record.run, command.run
        );
        return Err(Failure::new(FailureKind::Guard, text).hint("give this run another name"));
    }
    if let (Some(asked), Some(workers)) = (command.nodes_per_part, workers) {
        let cut = Parts::of(reviewed, asked).nodes_per_part;
        if cut != workers.nodes_per_part {
            let text = format!(
                "run {} has begun as `{}`, with parts of at most {} nodes, not {cut}",
                record.run, command.run, workers.nodes_per_part
            );
            let hint = "without `--nodes-per-part` its parts are printed as they are";
            return Err(Failure::new(FailureKind::Guard, text).hint(hint));
        }
    }
    if record.outcome.has_ended() {
        let (run, name, outcome) = (&record.run, &command.run, record.outcome.words());
        let text = format!(
            "run {run}, which began as `{name}`, has ended ({outcome}), and does not begin again"
        );
        return Err(Failure::new(FailureKind::Guard, text).hint("give the new run another name"));
    }
    let (actor, clock) = (actor(site.repository)?, ProcessClock::new(context.printer));
    let found = find(site, &command.run)?;
    let process = Process::new(site, &actor, &clock);
    run::leave_to_workers(process, record, &found.plan)?;
    print(
        context,
        command.format,
        Some((&record.run, &record.plan_digest)),
        true,
    )
}

/// The parts of the plan of a run that has begun.
pub(super) fn parts_of(record: &RunRecord, plan: &crate::plan::Plan) -> Option<Arc<Parts>> {
    let workers = record.workers.as_ref()?;
    Some(Arc::new(Parts::of(plan, workers.nodes_per_part)))
}
