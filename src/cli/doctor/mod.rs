//! `trueup doctor`: checks git, the records, trust and the backends, each with a next step.
//!
//! What is not trusted is not opened, and nothing is changed. The right to push is tried with refs of its own, which are deleted
//! again, once a push that the remote is told not to carry out was taken.

mod backends;
mod checks;
mod local;
mod notify;
mod pushes;
mod signers;

use clap::{Args, ValueEnum};

use checks::Checks;

use super::context::Context;
use super::planning::RemoteArguments;
use super::{Failure, FailureKind};
use crate::report::doctor::{self, CheckState};

/// The exit code is 0 if no check failed, also with warnings, and 1 if one did.
#[derive(Debug, Args)]
pub(super) struct DoctorCommand {
    /// Output format
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
    format: DoctorFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DoctorFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn run(context: &mut Context, command: &DoctorCommand) -> Result<u8, Failure> {
    let mut checks = Checks::default();
    checks.ok("version", format!("trueup {}", env!("CARGO_PKG_VERSION")));
    if let Some(repository) = local::check(context, &command.remote, &mut checks) {
        backends::check(context, &command.remote, &repository, &mut checks);
    } else {
        for check in ["remote", "site", "trust", "backends"] {
            checks.skip(check, "needs a repository");
        }
    }
    let (printer, checks) = (&context.printer, checks.into_list());
    match command.format {
        DoctorFormat::Text => printer.stream_text(|out| doctor::text(out, &checks, printer.out))?,
        DoctorFormat::Json => printer.stream(|out| doctor::json(out, &checks))?,
    }
    let has_failed = checks.iter().any(|check| check.state == CheckState::Fail);
    match has_failed {
        true => Err(Failure::reported(FailureKind::Error)),
        false => Ok(0),
    }
}
