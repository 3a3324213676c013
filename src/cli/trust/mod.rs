//! `trueup trust`: shows what the documents of a site let trueup use, and records that it is trusted.

mod gate;
mod store;

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::context::Context;
use super::{Failure, FailureKind};
use crate::backend::{Reach, ReachEntry, Secrets, reach_digest};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::report::{self, Visible, counted};
use crate::site::{At, Depth, Loader};
use crate::workflow::Checkout;
use crate::workflow::{AS_APPLIED, Client, refuse_errors};

pub(super) use gate::TrustGate;

#[derive(Debug, Args)]
pub(super) struct TrustCommand {
    /// Revision: worktree, committed, or any revision that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    /// List what is trusted, of all repositories and sites
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// End the trust in this site
    #[arg(long)]
    revoke: bool,
    /// Record it without asking
    #[arg(short, long)]
    yes: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = TrustFormat::Text)]
    format: TrustFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TrustFormat {
    /// Lines.
    Text,
    /// For scripts.
    Json,
}

#[derive(Serialize)]
struct Shown<'a> {
    repository: &'a str,
    site: &'a str,
    digest: String,
    trusted: bool,
    reach: &'a [ReachEntry],
}

pub(super) fn run(context: &mut Context, command: &TrustCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = checkout.location.site.clone();
    let store =
        store::TrustStore::find(&repository, context.directory()).map_err(Failure::error)?;
    let identity = repository.identity()?;
    if command.list {
        return list(context, command, &store);
    }
    if command.revoke {
        let gone = store
            .revoke(&identity, site.as_str())
            .map_err(Failure::error)?;
        context.printer.tell(&format!(
            "Site `{site}` of {identity}: the trust in {} ended.",
            counted(gone, "reach", "reaches")
        ));
        return Ok(0);
    }
    trust(context, command, &checkout)?;
    Ok(0)
}

/// Shows what a revision reaches, and records that it is trusted.
fn trust(
    context: &mut Context,
    command: &TrustCommand,
    checkout: &Checkout<'_>,
) -> Result<(), Failure> {
    let (repository, site) = (checkout.repository, checkout.location.site.as_str());
    let at = checkout.resolve(&command.rev)?;
    let location = checkout.location_at(at)?;
    let mut loader = Loader::new(repository);
    let mut settings = AS_APPLIED;
    if matches!(at, At::Worktree) {
        settings.depth = Depth::Checked;
    }
    let mut loaded = loader.load(&location, at, settings)?;
    let (errors, _) = loaded.diagnostics.counts();
    let mut wrong = loaded
        .diagnostics
        .iter()
        .filter(|each| each.severity == Severity::Error);
    // What is being written is trusted once it is right: repaired, it would be another reach. What only does not
    // fit the other documents reaches as far as before.
    if wrong.all(Diagnostic::is_of_references) && errors > 0 {
        loaded.diagnostics = Diagnostics::new();
        context.printer.tell(&format!(
            "warning: {} in the documents; `trueup validate` shows them",
            counted(errors, "error", "errors")
        ));
    }
    let loaded = refuse_errors(context, &loader, settings.depth, loaded)?;
    let reach = Reach::of(&loaded.documented_guards);
    if reach.is_empty() {
        context.printer.tell(&format!(
            "Site `{site}` uses nothing outside trueup: its backends are simulated, and need no trust."
        ));
        return Ok(());
    }
    let gate = TrustGate::new(repository, context.directory(), site, context.printer, None);
    let backends = context.backends(checkout, &location)?;
    let trusted = gate
        .untrusted(&reach, &*backends.secrets)
        .map_err(Failure::error)?;
    show(
        context,
        command.format,
        checkout,
        &reach,
        &*backends.secrets,
        trusted.is_none(),
    )?;
    if trusted.is_none() {
        context.printer.tell("It is trusted already.");
        return Ok(());
    }
    confirm(context, command)?;
    gate.record(&reach, &*backends.secrets)
        .map_err(Failure::error)?;
    let file = gate.file().map_err(Failure::error)?;
    context
        .printer
        .tell(&format!("Trusted, in `{}`.", file.display()));
    Ok(())
}

fn show(
    context: &Context,
    format: TrustFormat,
    checkout: &Checkout<'_>,
    reach: &Reach,
    secrets: &dyn Secrets,
    trusted: bool,
) -> Result<(), Failure> {
    let (repository, site) = (checkout.repository, checkout.location.site.as_str());
    let resolved = reach.resolved(secrets);
    let entries = resolved.as_deref().unwrap_or_else(|_| reach.entries());
    match format {
        TrustFormat::Text => context
            .printer
            .print(&format!("{}\n", gate::lines(entries)))?,
        TrustFormat::Json => {
            let shown = Shown {
                repository: &repository.identity()?,
                site,
                digest: reach_digest(entries),
                trusted,
                reach: entries,
            };
            context
                .printer
                .stream(|out| report::json::pretty(out, &shown))?;
        }
    }
    if let Err(error) = &resolved {
        context.printer.tell(&format!(
            "warning: {}; it is asked about again when it can be read",
            Visible(&error.to_string())
        ));
    }
    Ok(())
}

fn list(
    context: &Context,
    command: &TrustCommand,
    store: &store::TrustStore,
) -> Result<u8, Failure> {
    let all = store.read().map_err(Failure::error)?;
    if command.format == TrustFormat::Json {
        context
            .printer
            .stream(|out| report::json::pretty(out, &all))?;
        return Ok(0);
    }
    for each in &all {
        context.printer.print(&format!(
            "site `{}` of {}, since {}\n{}\n",
            Visible(&each.site),
            Visible(&each.repository),
            Visible(&each.since),
            gate::lines(&each.reach)
        ))?;
    }
    if all.is_empty() {
        context.printer.tell(&format!(
            "Nothing is trusted in `{}`.",
            store.path().display()
        ));
    }
    Ok(0)
}

fn confirm(context: &Context, command: &TrustCommand) -> Result<(), Failure> {
    if command.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let message = "stdin is not a terminal, so trust cannot be confirmed";
        return Err(Failure::new(FailureKind::Guard, message)
            .hint("pass `--yes` if everything above may be used"));
    }
    let question = "Trust this? Only `yes` is taken as consent:";
    match context.printer.confirms(question, "yes")? {
        true => Ok(()),
        false => Err(Failure::error("not trusted; nothing was recorded")),
    }
}
