//! `trueup nodes`: which nodes selectors, groups and flags name, at any revision.

use crate::workflow::{self, Client};
use std::collections::BTreeMap;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::backend::{self, Hardware};
use crate::design::NodeName;
use crate::guard::Guarded;
use crate::lifecycle::{OfferedStep, in_order};
use crate::observed::Fact;
use crate::record::{NodeRecord, Store};
use crate::report::{
    self,
    run::{CleanStepsRow, NodeRow},
};
use crate::site::{Depth, Detail, Loader, Location};

use super::Failure;
use super::context::Context;
use super::planning::{RemoteArguments, find_revision};
use super::revision::{RevisionArguments, load_sound};
use super::selection::SelectionArguments;
use crate::reservation::Reservations;
use crate::workflow::{Checkout, known_reservations};

#[derive(Debug, Args)]
pub(super) struct NodesCommand {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    revision: RevisionArguments,
    /// Ask the machines which clean steps they offer, and show those in the order in which they run
    #[arg(long)]
    clean_steps: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = NodesFormat::Text)]
    format: NodesFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NodesFormat {
    /// A table.
    Text,
    /// For scripts.
    Json,
    /// One name a line.
    Names,
}

pub(super) fn run(context: &mut Context, command: &NodesCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let (at, location) = find_revision(
        context,
        &checkout,
        &RemoteArguments::default(),
        &command.revision,
    )?;
    let mut loader = checkout.loader()?;
    let settings = command
        .revision
        .read
        .settings(Depth::Typed, Detail::Designs);
    let site = load_sound(context, &mut loader, &location, at, settings)?;
    let store = Store::open(&repository, &location.site)?;
    let records = store.nodes(&store.read()?)?;
    let guarded = checkout.guarded(&site)?;
    let today = guarded
        .guards()
        .policy
        .time_zone
        .day(context.now().as_second());
    let selected = command.selection.select(&guarded, &records, &today)?;
    let mut rows = selected.rows;
    let reservations = reservations(context, &checkout);
    for row in &mut rows {
        row.reservation = reservations.of(row.design.name.as_str());
    }
    let printer = &context.printer;
    if command.clean_steps {
        let steps = clean_steps(
            context,
            &checkout,
            (&site.location, &guarded),
            &loader,
            &records,
            &rows,
        )?;
        match command.format {
            NodesFormat::Json => {
                printer.stream(|out| report::run::clean_steps_json(out, &steps))?
            }
            NodesFormat::Text | NodesFormat::Names => {
                printer.stream_text(|out| report::run::clean_steps(out, &steps, printer.out))?;
            }
        }
        return Ok(0);
    }
    match command.format {
        NodesFormat::Text => {
            printer.stream_text(|out| report::run::nodes(out, &rows, printer.out))?;
            if let [first, ..] = selected.left[..] {
                let named = report::named(selected.left.iter().map(|node| node.as_str()));
                printer.tell(&format!(
                    "Recorded, and not in the documents any more: {named}; `trueup status {first}` shows it"
                ));
            }
        }
        NodesFormat::Json => printer.stream(|out| report::run::nodes_json(out, &rows))?,
        NodesFormat::Names => {
            let names = rows.iter().map(|row| row.design.name.as_str());
            printer.stream(|out| report::names(out, names))?;
        }
    }
    Ok(0)
}

/// The machines that persons work on, as this clone knows it.
fn reservations(context: &Context, checkout: &Checkout<'_>) -> Reservations {
    let known = known_reservations(checkout, context.now().as_second());
    known.unwrap_or_else(|failure| {
        let warning = format!("warning: {}", failure.message);
        context.printer.tell(&warning);
        Reservations::default()
    })
}

/// Asks the machines which clean steps they offer, and puts those into the order of the site's policy.
fn clean_steps<'a>(
    context: &Context,
    checkout: &Checkout<'_>,
    (location, site): (&Location, &Guarded),
    loader: &Loader<'_>,
    records: &BTreeMap<NodeName, NodeRecord>,
    rows: &[NodeRow<'a>],
) -> Result<Vec<CleanStepsRow<'a>>, Failure> {
    let runtime = workflow::runtime(site.guards())?;
    let context = context.backends(checkout, location)?;
    workflow::allow_applied(&context, site, records, &BTreeMap::new());
    context.identities.record(workflow::identities(records));
    let backends = backend::choose(site, &context)
        .map_err(|error| workflow::backend_failure(&error, loader))?;
    let nodes: Vec<_> = rows
        .iter()
        .map(|row| Arc::new(row.design.clone()))
        .collect();
    let seen = runtime.block_on(backends.observe(&nodes));
    let none = BTreeMap::new();
    let rows = rows.iter().map(|row| {
        let node = &row.design.name;
        let policy = site.guards().cleaning_of(row.design);
        let priorities = policy.map_or(&none, |policy| &policy.priorities);
        let offered = seen.get(node).map_or(&[][..], |seen| &seen.clean_steps);
        let mut steps = CleanStepsRow {
            node,
            automated: policy.is_none_or(|policy| policy.automated),
            enabled: Vec::new(),
            switched_off: Vec::new(),
            unknown: None,
        };
        if offered.is_empty() {
            let unseen = seen.get(node).and_then(|seen| match &seen.provision {
                Fact::Unknown(reason) => Some(format!("it could not be observed: {reason}")),
                Fact::Known(_) => None,
            });
            let unsaid = || "its provisioner lists the steps only while it cleans".to_owned();
            steps.unknown = Some(unseen.unwrap_or_else(unsaid));
            return steps;
        }
        if seen.get(node).is_some_and(|seen| seen.cleans_itself) {
            // In the order in which its provisioner last ran them.
            steps.enabled = offered.to_vec();
            return steps;
        }
        match in_order(offered, priorities) {
            Ok(enabled) => steps.enabled = enabled,
            Err(tie) => steps.unknown = Some(tie.to_string()),
        }
        let is_off =
            |step: &&OfferedStep| !steps.enabled.iter().any(|each| each.name() == step.name());
        steps.switched_off = offered.iter().filter(is_off).cloned().collect();
        steps
    });
    Ok(rows.collect())
}
