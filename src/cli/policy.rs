//! `trueup policy test`: what the rules of a site say of a saved plan.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::context::Context;
use super::{Failure, FailureKind};
use crate::plan::Verdicts;
use crate::report;
use crate::workflow::{judged, rules, saved_plan};

#[derive(Debug, Args)]
pub(super) struct PolicyCommand {
    /// Task
    #[arg(value_enum)]
    task: PolicyTask,
    /// A plan that `trueup plan -o FILE` saved
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Folder of the repository with the rules
    #[arg(long, value_name = "DIR", default_value = "policies")]
    rules: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = PolicyFormat::Text)]
    format: PolicyFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyTask {
    /// Judge a saved plan by the rules of the worktree; exit code 4 if one denies it.
    Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn run(context: &mut Context, command: &PolicyCommand) -> Result<u8, Failure> {
    let PolicyTask::Test = command.task;
    let repository = context.repository()?;
    let mut plan = saved_plan(context.directory(), &command.plan)?;
    plan.policies = Verdicts::default();
    let rules = rules(&repository, None, &command.rules)?;
    plan.policies = judged(&rules, &plan)?;
    let (printer, verdicts) = (&context.printer, &plan.policies);
    match command.format {
        PolicyFormat::Text => {
            printer.stream_text(|out| report::plan::verdicts(out, verdicts, printer.out))?;
        }
        PolicyFormat::Json => printer.stream(|out| report::plan::verdicts_json(out, verdicts))?,
    }
    match plan.is_denied() {
        true => Err(Failure::reported(FailureKind::Guard)),
        false => Ok(0),
    }
}
