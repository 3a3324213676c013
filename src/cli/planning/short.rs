//! The short way to a plan: of a site that is mostly as it was, only what has changed is loaded.
//!
//! Machines whose files are as they were are known by summaries ([`Kept`]). A plan is made of them like
//! any other, and counts only if every node that it changes was loaded in full; those that were not are
//! loaded then, and the plan is made again. Whatever does not fit is no failure: the long way is gone
//! instead, and finds out what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    NodeRecord, PlanArguments, State, allowed_commits, deepen, differing, differs, dirty_target,
    recorded,
};
use crate::apply::session::Connection;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::revision::{Checkout, tell_warnings};
use crate::design::{Design, MACHINE, NodeDesign, NodeName};
use crate::diff::{NodeReasons, Revision};
use crate::observed::Observations;
use crate::plan::{self, Base, Plan, Request};
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

/// A site of which only the rest is loaded: what can be found out while what was seen is still being read.
pub(super) struct Prepared<'a> {
    location: Location,
    settings: Settings,
    kept: Kept,
    loader: Loader<'a>,
    listing: Listing,
    /// Files that are loaded before everything is.
    most: usize,
}

/// A part of a site, among machines that are known by summaries.
pub(super) struct Part {
    parts: Parts,
    site: Site,
    warnings: usize,
}

impl<'a> Prepared<'a> {
    /// `None` where the long way has to be gone.
    pub(super) fn find(
        checkout: &Checkout<'a>,
        arguments: &PlanArguments,
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<Option<(Self, Part)>, Failure> {
        let location = checkout.location_at(At::Worktree)?;
        let settings = Settings {
            depth: Depth::Checked,
            allow_missing_sources: arguments.allow_missing_sources,
        };
        let mut loader = Loader::new(checkout.repository);
        if let Some(kept) = Kept::read(checkout.repository, &location, settings)
            && let Some(listing) = loader.list(&location)?
        {
            let found = Self::among(location.clone(), settings, loader, kept, listing)?;
            if found.is_some() {
                return Ok(found);
            }
            loader = Loader::new(checkout.repository);
        }
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
        match loader.gather(&location, settings, pieces)? {
            Some((kept, listing)) => Self::among(location, settings, loader, kept, listing),
            None => Ok(None),
        }
    }

    /// The same with what is kept of the site.
    fn among(
        location: Location,
        settings: Settings,
        loader: Loader<'a>,
        kept: Kept,
        listing: Listing,
    ) -> Result<Option<(Self, Part)>, Failure> {
        let most = most_of(listing.files.len());
        let mut prepared = Self {
            location,
            settings,
            kept,
            loader,
            listing,
            most,
        };
        let first = prepared.load(&BTreeSet::new())?;
        Ok(first.map(|first| (prepared, first)))
    }

    /// The part with the files of some more machines.
    fn load(&mut self, wanted: &BTreeSet<NodeName>) -> Result<Option<Part>, Failure> {
        let Some(mut parts) = self.kept.split(&self.listing, wanted, self.most) else {
            return Ok(None);
        };
        let (location, listing) = (&self.location, &self.listing);
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
    pub(super) observations: Option<&'a Observations>,
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
            let mut missing: BTreeSet<NodeName> = differing(self.records, &site.design)
                .map(|record| &record.node)
                .filter(|name| is_missing(name))
                .take(most + 1)
                .cloned()
                .collect();
            let mut plan = None;
            if missing.is_empty() {
                let Prepared {
                    loader,
                    location,
                    listing,
                    ..
                } = &mut prepared;
                plan = self.plan(loader, location, site, listing, parts)?;
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
            let Some(more) = prepared.load(&wanted)? else {
                return Ok(None);
            };
            part = more;
        }
        Ok(None)
    }

    fn plan(
        &self,
        loader: &mut Loader<'_>,
        location: &Location,
        site: &Site,
        listing: &Listing,
        parts: &Parts,
    ) -> Result<Option<Plan>, Failure> {
        let design = &site.design;
        let old = self.old_sites(loader, listing, parts, design)?;
        let designs: BTreeMap<Arc<str>, Arc<Design>> = old
            .iter()
            .map(|(revision, site)| (revision.clone(), site.design.clone()))
            .collect();
        let head = self.checkout.repository.head()?;
        if let Some(head) = head {
            deepen(self.connection, &self.state.site, head)?;
        }
        let files = listing.files.iter();
        let files = files.map(|file| (&file.path, file.mode, file.blob));
        let dirty = match head {
            Some(head) => {
                let selection = &location.selection;
                self.checkout
                    .repository
                    .differing(head, selection, files)?
                    .into_iter()
                    .map(|file| file.path)
                    .collect()
            }
            None => files.map(|(path, ..)| path.clone()).collect(),
        };
        let options = self.arguments.options(self.context);
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
            observations: self.observations,
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
        design: &Design,
    ) -> Result<BTreeMap<Arc<str>, Site>, Failure> {
        let revisions: BTreeSet<&Arc<str>> = differing(self.records, design)
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
        let settled = settled_files(listing, parts);
        for revision in revisions {
            let commit = recorded(self.checkout, self.connection, revision)?;
            let location = self.checkout.location_at(At::Commit(commit))?;
            let site = loader.load_without(&location, commit, settings, &settled)?;
            sites.insert(revision.clone(), site);
        }
        Ok(sites)
    }
}
