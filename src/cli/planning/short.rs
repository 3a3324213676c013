//! The short way to a plan: of a site that is mostly as it was, only what has changed is loaded.
//!
//! Machines whose files are as they were are known by summaries ([`Kept`]). A plan is made of them like
//! any other, and counts only if every node that it changes was loaded in full; those that were not are
//! loaded then, and the plan is made again. Whatever does not fit is no failure: the long way is gone
//! instead, and finds out what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Ground, NodeRecord, PlanArguments, Sifted, State, allowed_commits, deepen, differing, differs,
    dirty_target, ground, recorded,
};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::revision::{Checkout, tell_warnings};
use crate::design::{Beside, Design, MACHINE, NodeDesign, NodeName};
use crate::diff::{NodeReasons, Revision};
use crate::observed::ObservedNode;
use crate::plan::{self, Base, Plan, Request};
use crate::repository::{CommitId, Tree};
use crate::run::Connection;
use crate::site::{
    At, Depth, Kept, Listing, Loader, Location, Parts, Pieces, Settings, Site, settled_files,
};

/// How often more machines are loaded before everything is.
const ROUNDS: usize = 4;
/// Everything is loaded when more than one file in so many has to be, and more than [`FEW`].
const PART: usize = 16;
const FEW: usize = 64;

/// A site of fewer files of machines is not worth being taken to pieces.
pub(super) const FEWEST: usize = 1000;
/// Files of a piece, at least.
pub(super) const PIECE: usize = 2000;

/// How many of so many are loaded before everything is.
pub(super) fn most_of(count: usize) -> usize {
    (count / PART).max(FEW)
}

/// A site of which only the rest is loaded.
pub(super) struct Prepared<'a> {
    location: Location,
    settings: Settings,
    kept: Kept,
    loader: Loader<'a>,
    listing: Listing,
    /// Files that are loaded before everything is.
    most: usize,
    /// The commit that is checked out, and the site's files in it.
    head: Option<(CommitId, Tree)>,
}

/// A part of a site, among machines that are known by summaries.
pub(super) struct Part {
    parts: Parts,
    site: Site,
    warnings: usize,
}

impl Part {
    pub(super) fn design(&self) -> &Design {
        &self.site.design
    }
}

/// Reads the records, and, where that is the way to go, what has changed of the site; at the same time.
pub(super) fn prepare<'a>(
    context: &Context,
    checkout: &Checkout<'a>,
    arguments: &PlanArguments,
    connection: &Connection<'_>,
) -> Result<(Ground, Option<(Prepared<'a>, Part)>), Failure> {
    let location = checkout.location_at(At::Worktree)?;
    let settings = Settings {
        depth: Depth::Checked,
        allow_missing_sources: arguments.allow_missing_sources,
    };
    let (kept, ground, head) = std::thread::scope(|scope| {
        let ground = scope.spawn(|| ground(context, checkout, connection));
        let head = scope.spawn(|| committed(checkout, &location));
        let kept = kept(checkout, &location, settings);
        (kept, joined(ground), joined(head))
    });
    let (ground, head, mut loader) = (ground?, head?, checkout.loader()?);
    let records = &ground.records;
    let mut found = None;
    if let Some((kept, listing)) = kept? {
        found = Prepared::among(&location, settings, loader, kept, listing, records)?;
        loader = checkout.loader()?;
    }
    if found.is_none()
        && let Some((kept, listing)) = gathered(&mut loader, &location, settings, records)?
    {
        found = Prepared::among(&location, settings, loader, kept, listing, records)?;
    }
    if let Some((prepared, _)) = &mut found {
        prepared.head = head;
    }
    Ok((ground, found))
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The commit that is checked out, and the site's files in it.
fn committed(
    checkout: &Checkout<'_>,
    location: &Location,
) -> Result<Option<(CommitId, Tree)>, Failure> {
    let Some(head) = checkout.repository.head()? else {
        return Ok(None);
    };
    let tree = checkout.repository.tree_at(head, &location.selection)?;
    Ok(Some((head, tree)))
}

/// What is kept of a site, and its files as they are now; `None` where there is nothing to go by.
fn kept(
    checkout: &Checkout<'_>,
    location: &Location,
    settings: Settings,
) -> Result<Option<(Kept, Listing)>, Failure> {
    let Some(kept) = Kept::read(checkout.repository, location, settings) else {
        return Ok(None);
    };
    let listing = Loader::new(checkout.repository).list(location)?;
    Ok(listing.map(|listing| (kept, listing)))
}

/// The same of a site that is taken to pieces.
fn gathered(
    loader: &mut Loader<'_>,
    location: &Location,
    settings: Settings,
    records: &BTreeMap<NodeName, NodeRecord>,
) -> Result<Option<(Kept, Listing)>, Failure> {
    if records.is_empty() {
        return Ok(None);
    }
    // What the design differs from its record is loaded in full, so that nothing would come of it.
    let is_expected = |node: &NodeDesign| {
        records
            .get(&node.name)
            .is_some_and(|record| !differs(record, Some(node)))
    };
    let pieces = Pieces {
        fewest: FEWEST,
        size: PIECE,
        is_expected: &is_expected,
        most: most_of(records.len()),
    };
    Ok(loader.gather(location, settings, pieces)?)
}

/// Keeps what was seen of a machine unless it is settled.
pub(super) fn sieve<'a>(
    design: &'a Design,
    records: &'a BTreeMap<NodeName, NodeRecord>,
) -> impl FnMut(&NodeName, &ObservedNode) -> bool + use<'a> {
    let (mut designs, mut records) = (Beside::of(&design.nodes), Beside::of(records));
    move |name, seen| {
        let name = name.as_str();
        let (Some(after), Some(record)) = (designs.get(name), records.get(name)) else {
            return true;
        };
        !plan::is_settled(design, after, record, seen)
    }
}

impl<'a> Prepared<'a> {
    /// A site of which something is kept; `None` where too much has changed.
    fn among(
        location: &Location,
        settings: Settings,
        loader: Loader<'a>,
        kept: Kept,
        listing: Listing,
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<Option<(Self, Part)>, Failure> {
        let most = most_of(listing.files.len());
        let mut prepared = Self {
            location: location.clone(),
            settings,
            kept,
            loader,
            listing,
            most,
            head: None,
        };
        let first = prepared.load(&BTreeSet::new(), records)?;
        Ok(first.map(|first| (prepared, first)))
    }

    /// The part with the files of some more machines.
    fn load(
        &mut self,
        wanted: &BTreeSet<NodeName>,
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<Option<Part>, Failure> {
        let (location, listing) = (&self.location, &self.listing);
        let mut records = Beside::of(records);
        let mut known = |name: &str| {
            let (name, record) = records.entry(name)?;
            Some((name.clone(), record.digests.clone()))
        };
        let parts = self.kept.split(listing, wanted, self.most, &mut known);
        let Some(mut parts) = parts else {
            return Ok(None);
        };
        let part =
            self.loader
                .load_part(location, self.settings, listing, &self.kept, &mut parts)?;
        Ok(part.map(|(site, warnings)| Part {
            parts,
            site,
            warnings,
        }))
    }
}

/// What a plan is made from.
pub(super) struct Short<'a> {
    pub(super) context: &'a Context,
    pub(super) checkout: &'a Checkout<'a>,
    pub(super) arguments: &'a PlanArguments,
    pub(super) connection: &'a Connection<'a>,
    pub(super) request: &'a Request,
    pub(super) state: &'a State,
    pub(super) records: &'a BTreeMap<NodeName, NodeRecord>,
    pub(super) seen: &'a Sifted,
}

impl Short<'_> {
    /// The plan; `None` where the long way has to be gone.
    pub(super) fn make(
        &self,
        mut prepared: Prepared<'_>,
        mut part: Part,
    ) -> Result<Option<Plan>, Failure> {
        let most = prepared.most;
        let mut wanted = BTreeSet::new();
        for _ in 0..ROUNDS {
            let Part {
                parts,
                site,
                warnings,
            } = &part;
            let loaded = site.rendering.of_schema(MACHINE).iter();
            let loaded: BTreeSet<&str> = loaded.map(|each| &*each.id().name).collect();
            let is_missing = |name: &NodeName| {
                site.design.nodes.contains_key(name) && !loaded.contains(name.as_str())
            };
            let differing: Vec<_> = differing(self.records, &site.design).collect();
            let names = differing.iter().map(|record| &record.node);
            let mut missing: BTreeSet<NodeName> = names
                .filter(|name| is_missing(name))
                .take(most + 1)
                .cloned()
                .collect();
            let mut plan = None;
            if missing.is_empty() {
                plan = self.plan(&mut prepared, site, parts, &differing)?;
                let Some(plan) = &plan else {
                    return Ok(None);
                };
                let changed = plan.changes.iter().map(|change| &change.node);
                let changed = changed.filter(|name| is_missing(name)).take(most + 1);
                missing.extend(changed.cloned());
            }
            if missing.is_empty() {
                tell_warnings(self.context, *warnings);
                // The process ends soon: taking trees apart node by node would only cost time.
                std::mem::forget((prepared, part));
                return Ok(plan);
            }
            if missing.len() > most {
                return Ok(None);
            }
            wanted.extend(missing);
            let Some(more) = prepared.load(&wanted, self.records)? else {
                return Ok(None);
            };
            part = more;
        }
        Ok(None)
    }

    fn plan(
        &self,
        prepared: &mut Prepared<'_>,
        site: &Site,
        parts: &Parts,
        differing: &[&NodeRecord],
    ) -> Result<Option<Plan>, Failure> {
        let Prepared {
            loader,
            listing,
            head,
            ..
        } = prepared;
        let design = &site.design;
        let old = self.old_sites(loader, listing, parts, differing)?;
        let designs: BTreeMap<Arc<str>, Arc<Design>> = old
            .iter()
            .map(|(revision, site)| (revision.clone(), site.design.clone()))
            .collect();
        let files = listing.files.iter();
        let files = files.map(|file| (&file.path, file.mode, file.blob));
        let (head, dirty) = match head {
            Some((head, committed)) => {
                deepen(self.connection, &self.state.site, *head)?;
                let differing = self.checkout.repository.differing(committed, files);
                let paths = differing.into_iter().map(|file| file.path);
                (Some(*head), paths.collect())
            }
            None => (None, files.map(|(path, ..)| path.clone()).collect()),
        };
        let options = self.arguments.options(self.context, &design.policy);
        let intermediate = match (options.allow_intermediate_commits, head) {
            (true, Some(head)) => allowed_commits(self.checkout, &self.state.site, head)?,
            _ => Vec::new(),
        };
        let revisions: Vec<Revision<'_>> = old
            .values()
            .map(|site| Revision {
                rendering: &site.rendering,
                design: &site.design,
            })
            .collect();
        let now = Revision {
            rendering: &site.rendering,
            design,
        };
        let last_success = self.state.site.last_success.clone();
        let plan = plan::make(&plan::Input {
            request: self.request.clone(),
            target: dirty_target(&listing.digest, dirty, head),
            after: design,
            designs: &designs,
            base: last_success.map(|action| Base {
                run: action.run,
                revision: action.revision,
                site_digest: action.site_digest,
            }),
            records: self.records,
            observations: self.seen.seen.as_ref().and_then(Option::as_ref),
            settled: &self.seen.settled,
            options,
            intermediate_commits: intermediate,
            reasons: &NodeReasons::new(loader.sources(), &revisions, now),
        });
        std::mem::forget(old);
        Ok(plan.ok())
    }

    /// What the nodes that differ from their records were made of.
    fn old_sites(
        &self,
        loader: &mut Loader<'_>,
        listing: &Listing,
        parts: &Parts,
        differing: &[&NodeRecord],
    ) -> Result<BTreeMap<Arc<str>, Site>, Failure> {
        let revisions: BTreeSet<&Arc<str>> = differing
            .iter()
            .filter_map(|record| record.revision.as_ref())
            .collect();
        let mut sites = BTreeMap::new();
        if revisions.is_empty() {
            return Ok(sites);
        }
        let settings = Settings {
            depth: Depth::Typed,
            allow_missing_sources: true,
        };
        let settled = settled_files(listing, &parts.load);
        for revision in revisions {
            let commit = recorded(self.checkout, self.connection, revision)?;
            let location = self.checkout.location_at(At::Commit(commit))?;
            let site = loader.load_without(&location, commit, settings, &settled)?;
            sites.insert(revision.clone(), site);
        }
        Ok(sites)
    }
}
