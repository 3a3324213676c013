//! A saved plan: read, checked against how things stand, and carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ApplyCommand, Task, session_failure, start};
use crate::apply::session::{self, Connection, admit};
use crate::backend::{self, Backends};
use crate::cli::context::Context;
use crate::cli::planning::{self, Opened};
use crate::cli::revision::Checkout;
use crate::cli::{Failure, FailureKind};
use crate::design::{Design, NodeDesign, NodeName};
use crate::observed;
use crate::plan::{Action, Plan, saved};
use crate::record::{NodeRecord, Store};
use crate::repository::{Links, read_file};
use crate::site::{At, Depth, Loader, Settings};

/// Carries a saved plan out, if it still holds.
pub(super) fn apply_saved(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &session::Site<'_>,
    path: &std::path::Path,
) -> Result<u8, Failure> {
    let path = context.directory().join(path);
    let unreadable = |kind, error: &dyn std::fmt::Display| {
        Failure::new(
            kind,
            format!("the plan `{}` cannot be applied: {error}", path.display()),
        )
    };
    let bytes = read_file(&path, observed::LARGEST as u64, Links::Followed);
    let bytes = bytes.map_err(|error| unreadable(FailureKind::Error, &error))?;
    let plan = saved::read(&bytes).map_err(|error| {
        let kind = match error {
            saved::SavedError::Altered { .. } => FailureKind::Stale,
            _ => FailureKind::Error,
        };
        unreadable(kind, &error)
    })?;
    if plan.site != site.name {
        return Err(Failure::new(
            FailureKind::Usage,
            format!(
                "the plan is for site `{}`, not for `{}`",
                plan.site, site.name
            ),
        ));
    }
    // A plan for the site is for whatever commit has its files; one for some nodes is for its own.
    let is_targeted = Action::named(&plan.action).is_some_and(Action::is_targeted);
    let commit = match &plan.target.revision {
        Some(revision) if is_targeted => planning::recorded(checkout, &site.connection, revision)?,
        _ => checkout.head()?,
    };
    let at = At::Commit(commit);
    let location = checkout.location_at(at)?;
    let settings = Settings {
        depth: Depth::Checked,
        allow_missing_sources: true,
    };
    let backends = planning::backend_context(context, checkout, &location)?;
    let (place, records) = ((&location, at), BTreeMap::new());
    let opened = Opened::open(
        context,
        checkout,
        place,
        settings,
        &records,
        Some(&backends),
    )?;
    let (design, digest) = (opened.site.design.clone(), opened.site.digest.clone());
    let store = Store::open(site.repository, &site.name)?;
    planning::follow(context, &store, &site.connection)?;
    let state = store.read()?;
    planning::deepen(&site.connection, &state.site, commit)?;
    admit(
        site,
        &location.selection,
        &state.site,
        &plan,
        commit,
        &digest,
    )
    .map_err(|error| session_failure(&error))?;
    if plan.steps.is_empty() {
        context.printer.tell("Nothing to do.");
        return Ok(0);
    }
    let Equipped {
        applied,
        runtime,
        hardware,
    } = equip(checkout, opened, &store, &plan, site, &backends)?;
    let task = Task {
        plan: &Arc::new(plan),
        design: &design,
        nodes: &design.nodes,
        applied: &applied,
        hardware,
        runtime: &runtime,
    };
    start(context, command, site, commit, &task, Some(&digest))
}

/// What a plan that is at hand is carried out with.
pub(super) struct Equipped {
    pub(super) applied: BTreeMap<NodeName, Arc<NodeDesign>>,
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) hardware: Arc<Backends>,
}

/// Finds what a plan is carried out with. The documents of the site go: a run of a large one needs the room
/// that they take.
pub(super) fn equip(
    checkout: &Checkout<'_>,
    mut opened: Opened<'_>,
    store: &Store<'_>,
    plan: &Plan,
    site: &session::Site<'_>,
    backends: &backend::Context,
) -> Result<Equipped, Failure> {
    let records = store.nodes(&store.read()?)?;
    backends.identities.record(planning::identities(&records));
    let loader = &mut opened.loader;
    let applied = applied_of(checkout, loader, &records, plan, &site.connection)?;
    let design = opened.site.design.clone();
    planning::allow_applied(backends, &design, &records, &applied);
    Ok(Equipped {
        applied,
        runtime: planning::runtime(&design)?,
        hardware: opened.choose(&design, backends)?,
    })
}

/// The designs that were applied last, of the nodes that the plan is about.
fn applied_of(
    checkout: &Checkout<'_>,
    loader: &mut Loader<'_>,
    records: &BTreeMap<NodeName, NodeRecord>,
    plan: &Plan,
    connection: &Connection<'_>,
) -> Result<BTreeMap<NodeName, Arc<NodeDesign>>, Failure> {
    let about: std::collections::BTreeSet<&NodeName> =
        plan.changes.iter().map(|change| &change.node).collect();
    let settings = Settings {
        depth: Depth::Typed,
        allow_missing_sources: true,
    };
    let mut designs: BTreeMap<Arc<str>, Arc<Design>> = BTreeMap::new();
    let mut records = records.clone();
    records.retain(|name, _| about.contains(name));
    for record in records.values() {
        let Some(revision) = &record.revision else {
            continue;
        };
        if !designs.contains_key(revision) {
            let at = At::Commit(planning::recorded(checkout, connection, revision)?);
            let location = checkout.location_at(at)?;
            let site = loader.load(&location, at, settings)?;
            designs.insert(revision.clone(), site.design);
        }
    }
    Ok(planning::applied(&records, &designs))
}
