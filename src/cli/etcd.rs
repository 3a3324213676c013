//! `trueup etcd`: how healthy the etcd clusters of the site are, and what each can still lose.

use clap::{Args, ValueEnum};

use crate::design::{EtcdCluster, Guards};
use crate::diagnostic::nearest;
use crate::guard::quorum::{Health, health, problems};
use crate::observed::EtcdSeen;
use crate::report::etcd::{self, Row};
use crate::site::{Depth, Detail};

use super::apply::failed;
use super::context::Context;
use super::revision::ReadArguments;
use super::{Failure, FailureKind};
use crate::step::FailureReason;
use crate::workflow::observe_etcd;

#[derive(Debug, Args)]
pub(super) struct EtcdCommand {
    /// A cluster; none: all
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = EtcdFormat::Text)]
    format: EtcdFormat,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EtcdFormat {
    /// A table for each cluster.
    Text,
    /// Airship's status object.
    Json,
}

pub(super) fn run(context: &mut Context, command: &EtcdCommand) -> Result<u8, Failure> {
    let mut is_printed = false;
    let result = look(context, command, &mut is_printed);
    if let Err(failure) = &result
        && command.format == EtcdFormat::Json
        && !is_printed
    {
        let status = failed(None, failure);
        context.printer.print(&status.to_json()?)?;
    }
    result
}

/// Observes the clusters and prints the result; `is_printed`: some of it is on standard output.
fn look(context: &Context, command: &EtcdCommand, is_printed: &mut bool) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let at = checkout.resolve(&command.rev)?;
    let settings = command.read.settings(Depth::Typed, Detail::Designs);
    let (guards, seen) = observe_etcd(context, &checkout, at, settings, |guards| {
        select(command, guards).map(|_| ())
    })?;
    let clusters = select(command, &guards)?;
    let nothing = EtcdSeen::default();
    let rows: Vec<Row<'_>> = clusters
        .into_iter()
        .map(|cluster| Row {
            cluster,
            seen: seen.get(&cluster.name).unwrap_or(&nothing),
        })
        .collect();
    let mut out = String::new();
    match command.format {
        EtcdFormat::Text => etcd::text(&mut out, &rows, context.printer.out)?,
        EtcdFormat::Json => out = etcd::json(&rows)?,
    }
    *is_printed = true;
    context.printer.print(&out)?;
    let invalid = rows
        .iter()
        .find(|row| health(row.cluster, row.seen, None) == Health::Invalid);
    match invalid {
        Some(row) => Err(Failure::new(
            FailureKind::Failed,
            format!(
                "{}: etcd cluster `{}`: {}",
                FailureReason::EtcdNotAccessible,
                row.cluster.name,
                problems(row.cluster, row.seen, None).join("; ")
            ),
        )),
        None => Ok(0),
    }
}

/// The clusters that are asked for, in the order of the documents.
fn select<'a>(command: &EtcdCommand, guards: &'a Guards) -> Result<Vec<&'a EtcdCluster>, Failure> {
    let all = &guards.etcd_clusters;
    let Some(name) = &command.name else {
        return Ok(all.iter().collect());
    };
    if let Some(found) = all.iter().find(|cluster| cluster.name.as_str() == name) {
        return Ok(vec![found]);
    }
    let text = format!("there is no etcd cluster `{name}`");
    let failure = Failure::new(FailureKind::NotFound, text);
    Err(
        match nearest(name, all.iter().map(|cluster| cluster.name.as_str())) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure,
        },
    )
}
