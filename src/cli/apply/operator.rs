//! The operator at the command line: what their flags allow, and how they are asked on a terminal.

use std::io::IsTerminal;

use super::ApplyCommand;
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::plan::{Options, Plan};
use crate::report;
use crate::workflow::{Operator, PlanRequest};

/// The operator who gave a command.
pub(super) struct CommandOperator<'a> {
    pub(super) context: &'a Context,
    pub(super) command: &'a ApplyCommand,
    /// Whether it is only found out what would be refused: an answer that is asked for later is taken for a yes.
    pub(super) is_rehearsed: bool,
}

impl Operator for CommandOperator<'_> {
    fn plan_request_of_saved(&self, saved: &Options, is_confirmed: bool) -> PlanRequest {
        let arguments = &self.command.arguments;
        arguments.plan_request_of_saved(saved, is_confirmed)
    }

    fn pinned(&self) -> Option<&str> {
        self.command.effect.as_deref()
    }

    fn approve(&self, plan: &Plan) -> Result<bool, Failure> {
        if self.is_rehearsed {
            return Ok(self.command.is_asked());
        }
        show(self.context, plan)?;
        if !self.command.is_asked() {
            return Ok(false);
        }
        ask(self.context, plan).map(|()| true)
    }
}

/// Shows what a plan does.
pub(super) fn show(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let mut text = String::new();
    let view = report::plan::View {
        palette: context.printer.err,
        ..Default::default()
    };
    report::plan::text(&mut text, plan, view)?;
    context.printer.tell(&text);
    Ok(())
}

/// The summary of the plan of one site among many.
pub(super) fn brief(plan: &Plan) -> String {
    let lines = report::plan::summary(plan).join("\n  ");
    format!("{}: {lines}", plan.site)
}

/// Asks for approval of what was shown, unless `--yes` gave it.
pub(super) fn confirm(
    context: &Context,
    command: &ApplyCommand,
    plan: &Plan,
) -> Result<(), Failure> {
    if command.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            FailureKind::Usage,
            "stdin is not a terminal, so the plan cannot be approved",
        )
        .hint("pass `--yes`, or apply a plan that was saved with `trueup plan -o FILE`"));
    }
    ask(context, plan)
}

/// Asks on a terminal for consent to guards that become weaker, if no flag has given it and no approvals have to.
pub(super) fn loosens(
    context: &Context,
    command: &ApplyCommand,
    plan: &Plan,
) -> Result<bool, Failure> {
    if !plan.is_refused_for_loosening() || !command.is_asked() {
        return Ok(false);
    }
    let question =
        "\nThe documents make guards weaker. Allow that? Only `loosen` is taken as consent:";
    Ok(context.printer.confirms(question, "loosen")?)
}

/// Asks on a terminal for approval of what was shown.
fn ask(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let scope = report::plan::scope(plan);
    let question = format!("\n{scope}. Carry this plan out? Only `yes` is taken as approval:");
    match context.printer.confirms(&question, "yes")? {
        true => Ok(()),
        false => Err(Failure::error("not approved; nothing was done")),
    }
}
