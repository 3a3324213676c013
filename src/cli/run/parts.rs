//! `trueup run parts`: the parts that a saved plan is cut into.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::Failure;
use super::super::context::Context;
use super::super::value::{at_least_one, within};
use crate::plan::{Parts, Plan};
use crate::report;
use crate::run;
use crate::workflow::saved_plan;

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
    /// Most tasks, with the begin and the end of the run: parts get as many nodes as that takes
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = tasks)]
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
        self.max_tasks.saturating_sub(2)
    }

    /// Tells what the pace of the pushes costs, where the remote's host asks for one.
    pub(in crate::cli) fn tell_cost(context: &Context, parts: &Parts, asked: Option<u64>) {
        let of_remote = || {
            let repository = context.repository().ok()?;
            Some(run::pushes_per_minute(&repository.identity().ok()?))
        };
        let asked = asked.map(|pushes| u32::try_from(pushes).unwrap_or(u32::MAX));
        let pushes = asked.or_else(of_remote).unwrap_or_default();
        if let Some(time) = run::time_of_pushes(parts.parts.len(), pushes) {
            let time = report::plan::rounded(time.as_secs());
            context.printer.tell(&format!(
                "At {pushes} pushes a minute, the pushes of this run take at least {time}; fewer parts (`--max-tasks`) take less."
            ));
        }
    }

    /// Cuts a plan.
    pub(in crate::cli) fn cut(self, plan: &Plan) -> Parts {
        match self.nodes_per_part {
            Some(nodes) => Parts::of(plan, nodes),
            None => Parts::fitting(plan, self.max_tasks),
        }
    }
}

pub(super) fn run(context: &mut Context, command: &PartsCommand) -> Result<u8, Failure> {
    let plan = saved_plan(&context.directory().join(&command.plan))?;
    let parts = command.size.cut(&plan);
    PartsArguments::tell_cost(context, &parts, None);
    let printer = &context.printer;
    match command.format {
        PartsFormat::Text => {
            printer.stream(|out| report::plan::parts(out, &plan, &parts, printer.out))?;
        }
        PartsFormat::Json => printer.stream(|out| report::plan::parts_json(out, &plan, &parts))?,
    }
    Ok(0)
}
