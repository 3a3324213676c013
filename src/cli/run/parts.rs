//! `trueup run parts`: the parts that a saved plan is cut into.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::super::Failure;
use super::super::context::Context;
use super::super::value::{at_least_one, within};
use crate::plan::{Parts, Plan, TASKS_BESIDE};
use crate::report;
use crate::run;
use crate::workflow::saved_plan;

/// The tasks for which parts are cut, if nothing is given.
const TASKS: usize = 400;
/// The fewest tasks: the begin of the run, one part, and its end.
const FEWEST_TASKS: u64 = 3;
/// The most: more than any engine schedules.
const MOST_TASKS: u64 = 1_000_000;

#[derive(Debug, Args)]
pub(in crate::cli) struct PartsCommand {
    /// A plan that `trueup plan -o FILE` saved
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    #[command(flatten)]
    size: PartsArguments,
    /// Output format
    #[arg(long, value_enum, default_value_t = PartsFormat::Text)]
    format: PartsFormat,
}

/// The flags by which a plan is cut.
#[derive(Debug, Clone, Copy, Args)]
pub(in crate::cli) struct PartsArguments {
    /// Most tasks, with the begin and the end of the run: parts get as many nodes as that takes. If the host of the remote
    /// asks for few pushes a minute, there are no more than make pushes for a twentieth of the expected time
    #[arg(long, value_name = "N", default_value_t = TASKS, value_parser = tasks)]
    max_tasks: usize,
    /// Most nodes of a part, whatever `--max-tasks` says [default: as few as that allows]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    nodes_per_part: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartsFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

fn tasks(text: &str) -> Result<usize, String> {
    within(text, &(FEWEST_TASKS..=MOST_TASKS))
}

impl PartsArguments {
    /// The most tasks between the first and the last.
    pub(in crate::cli) fn shares(self) -> usize {
        self.max_tasks.saturating_sub(TASKS_BESIDE)
    }

    /// So many nodes a part, or as few as give no more tasks than an engine takes.
    pub(in crate::cli) const fn of(nodes_per_part: Option<usize>) -> Self {
        Self {
            max_tasks: TASKS,
            nodes_per_part,
        }
    }

    /// How often a minute the processes of a run push: as asked for, or what the host of the remote asks for.
    pub(in crate::cli) fn pace(context: &Context, asked: Option<u64>) -> u32 {
        let of_remote = || {
            let repository = context.repository().ok()?;
            Some(run::pushes_per_minute(&repository.identity().ok()?))
        };
        let asked = asked.map(|pushes| u32::try_from(pushes).unwrap_or(u32::MAX));
        asked.or_else(of_remote).unwrap_or_default()
    }

    /// Tells what the pace of the pushes costs, if there is one.
    pub(in crate::cli) fn tell_cost(context: &Context, parts: &Parts, pushes: u32) {
        if let Some(time) = run::time_of_pushes(parts.parts.len(), pushes) {
            let time = report::plan::rounded(time.as_secs());
            context.printer.tell(&format!(
                "At {pushes} pushes a minute, the pushes of this run take at least {time}; fewer parts (`--max-tasks`, `--nodes-per-part`) take less."
            ));
        }
    }

    /// Cuts a plan: unless a number of nodes was given, into no more parts than the pace of the pushes bears in the expected time.
    pub(in crate::cli) fn cut(self, plan: &Plan, pushes_per_minute: u32) -> Parts {
        if let Some(nodes) = self.nodes_per_part {
            return Parts::of(plan, nodes);
        }
        let expected = plan
            .forecast
            .time
            .map(|time| Duration::from_secs(time.median));
        let most = expected.map_or(usize::MAX, |time| run::most_parts(time, pushes_per_minute));
        Parts::fitting(plan, self.max_tasks.min(most.saturating_add(TASKS_BESIDE)))
    }
}

pub(super) fn run(context: &mut Context, command: &PartsCommand) -> Result<u8, Failure> {
    let plan = saved_plan(context.directory(), &command.plan)?;
    let pace = PartsArguments::pace(context, None);
    let parts = command.size.cut(&plan, pace);
    PartsArguments::tell_cost(context, &parts, pace);
    let printer = &context.printer;
    match command.format {
        PartsFormat::Text => {
            printer.stream_text(|out| report::plan::parts(out, &plan, &parts, printer.out))?;
        }
        PartsFormat::Json => printer.stream(|out| report::plan::parts_json(out, &plan, &parts))?,
    }
    Ok(0)
}
