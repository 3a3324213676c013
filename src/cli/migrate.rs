//! `trueup migrate`: the records of a site at the remote, moved to a branch or back.

use clap::Args;

use super::Failure;
use super::apply::process::{ProcessClock, actor};
use super::context::Context;
use super::planning::RemoteArguments;
use crate::record::{Direction, Move};
use crate::report::Visible;
use crate::repository::CommitId;
use crate::run::{Process, migrate};
use crate::workflow::{published_words, signing_site};

/// The branch is named by `trueup.stateBranch` in git's configuration, or by `state_branch` of the Policy at the revision of `--backends-from`.
#[derive(Debug, Args)]
pub(super) struct MigrateCommand {
    /// Move them back from the branch to `refs/trueup`
    #[arg(long)]
    back: bool,
    /// Also put records into the branch that were written to `refs/trueup` since it has some, up to this commit
    #[arg(long, value_name = "COMMIT", conflicts_with = "back")]
    take: Option<CommitId>,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn run(context: &mut Context, command: &MigrateCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = signing_site(&checkout, command.remote.connection(&repository)?)?;
    let direction = match command.back {
        true => Direction::Back,
        false => Direction::ToBranch,
    };
    let (actor, clock) = (actor(&repository)?, ProcessClock::new(context.printer));
    let how = Move {
        direction,
        take: command.take,
    };
    let migration = migrate(Process::new(&site, &actor, &clock), how)?;
    if let Some(published) = &migration.published {
        context.printer.tell(&published_words(published));
    }
    let (name, to) = (&site.name, &migration.to);
    let (name, to) = (Visible(name.as_str()), Visible(to));
    context
        .printer
        .tell(&match (migration.has_records, migration.is_new) {
            (false, _) => {
                format!("Site `{name}` has no records yet; its first run puts them at `{to}`.")
            }
            (true, true) => {
                format!("The records of site `{name}` are at `{to}` of the remote now.")
            }
            (true, false) => {
                format!("The records of site `{name}` are at `{to}` of the remote already.")
            }
        });
    if command.back && migration.has_records {
        context.printer.tell(
            "Every clone that names the branch is refused until it does not: `git config --unset trueup.stateBranch`, and `state_branch` of the Policy.",
        );
    }
    Ok(0)
}
