//! `trueup reserve` and `trueup release`: a machine that a person works on is left alone by every plan until then.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use super::context::Context;
use super::planning::RemoteArguments;
use super::value::{self, Until};
use super::{Failure, FailureKind};
use crate::design::NodeName;
use crate::document::Instant;
use crate::guard::{Machines, split_words};
use crate::record::Store;
use crate::report::Visible;
use crate::reservation::{MOST_DAYS, Reservation};
use crate::site::{Accept, Depth, Detail, Settings};
use crate::workflow::{Checkout, Client, ReservationSite, refuse_errors};

/// Seconds of a day.
const DAY: i64 = 86_400;

#[derive(Debug, Args)]
pub(super) struct ReserveCommand {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    /// Until when: a time (`2026-11-30T18:00:00Z`), or a duration from now (`4h`); at most 14 days
    #[arg(long, value_name = "T", value_parser = value::until)]
    until: Until,
    /// Why, for those who ask later
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    reason: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReleaseCommand {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn reserve(context: &mut Context, command: &ReserveCommand) -> Result<u8, Failure> {
    let now = Client::clock(context).seconds();
    let until = end(command.until, now)?;
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.remote.lasting_connection(&repository)?;
    let nodes = meant(context, &checkout, &split_words(&command.nodes))?;
    let site = ReservationSite {
        client: &*context,
        checkout: &checkout,
        connection: &connection,
    };
    let Reservation { by, .. } = site.reserve(&nodes, (until, &command.reason))?;
    for node in &nodes {
        context.printer.tell(&format!(
            "Reserved `{node}` for {} until {}: every plan leaves it alone; `trueup release {node}` ends that.",
            Visible(&by),
            Instant(until)
        ));
    }
    Ok(0)
}

pub(super) fn release(context: &mut Context, command: &ReleaseCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.remote.lasting_connection(&repository)?;
    let site = ReservationSite {
        client: &*context,
        checkout: &checkout,
        connection: &connection,
    };
    let now = Client::clock(&*context).seconds();
    // What has left the design, or documents with errors, keep no machine reserved.
    let known = site.state_ref().holding_at(now)?;
    let words = split_words(&command.nodes);
    let (reserved, others): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| known.of(word).is_some());
    let mut nodes: BTreeSet<NodeName> = reserved
        .iter()
        .map(|name| NodeName::from(&**name))
        .collect();
    if !others.is_empty() {
        nodes.extend(meant(context, &checkout, &others)?);
    }
    for (node, before) in site.release(&nodes)? {
        let text = match before {
            None => format!("`{node}` is not reserved."),
            Some(before) => {
                let before = before.to_string();
                format!("Released `{node}`, which was {}.", Visible(&before))
            }
        };
        context.printer.tell(&text);
    }
    Ok(0)
}

/// The time that is meant, which is in the future and not far.
fn end(until: Until, now: i64) -> Result<i64, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let end = match until {
        Until::At(time) => time,
        Until::In(seconds) => now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)),
    };
    if end <= now {
        let message = format!("`--until` is in the past: it is {} now", Instant(now));
        return Err(usage(message));
    }
    if end > now.saturating_add(MOST_DAYS * DAY) {
        let message = format!(
            "`--until` is more than {MOST_DAYS} days from now, the longest that a machine is reserved for"
        );
        return Err(usage(message).hint(
            "reserve it again before it ends, or let a document tell it: NodeRetirement, or `trueup apply maintenance NODE --reason TEXT`",
        ));
    }
    Ok(end)
}

/// The nodes that words mean in the checked-out site.
fn meant(
    context: &Context,
    checkout: &Checkout<'_>,
    words: &[String],
) -> Result<BTreeSet<NodeName>, Failure> {
    let mut loader = checkout.loader()?;
    let settings = Settings {
        depth: Depth::Typed,
        detail: Detail::Designs,
        accept: Accept::default(),
    };
    let at = crate::site::At::Worktree;
    let site = loader.load(&checkout.location, at, settings)?;
    let site = refuse_errors(context, &loader, Depth::Typed, site)?;
    let store = Store::open(checkout.repository, &checkout.location.site)?;
    let records: BTreeMap<_, _> = store.nodes(&store.read()?)?;
    let guarded = checkout.guarded(&site)?;
    let machines = Machines::new(&guarded, &guarded.guards().groups, &records);
    let nodes = machines
        .select(words)
        .map_err(|error| Failure::from(&error))?;
    Ok(nodes.into_iter().cloned().collect())
}
