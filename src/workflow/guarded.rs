//! The guards of a run: the one place that decides which revisions decide what may be done, and that puts a site under
//! the guards of them all.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::approvals::Gate;
use super::guard_source::{GuardSource, GuardSources};
use super::rules::RuleSet;
use super::{AS_APPLIED, Checkout, Failure, FailureKind, if_recorded};
use crate::design::{Documented, NodeName};
use crate::diagnostic::short_id;
use crate::guard::{
    self, GuardFiles, Guarded, Machines, MergeFor, OlderRevision, Revisions, Subject,
};
use crate::plan::{Action, GuardBasis, Loosened, Request};
use crate::record::{NodeRecord, SiteAction, SiteState};
use crate::repository::CommitId;
use crate::run::Connection;
use crate::site::{At, Depth, Loader, Location, Settings, Site};

/// The context in which the guards of a run are resolved.
#[derive(Clone, Copy)]
pub(super) struct GuardScope<'a> {
    pub(super) checkout: &'a Checkout<'a>,
    pub(super) connection: &'a Connection<'a>,
    pub(super) request: &'a Request,
    pub(super) state: &'a SiteState,
    pub(super) records: &'a BTreeMap<NodeName, NodeRecord>,
}

/// The guards of a run.
pub(super) struct ResolvedGuards {
    /// The design, and the guards that hold for it.
    pub(super) guarded: Guarded,
    pub(super) gate: Gate,
    /// The rules in Rego that judge its plan.
    pub(super) rules: Vec<RuleSet>,
    /// The rest that its plan is made under.
    pub(super) basis: GuardBasis,
}

impl GuardScope<'_> {
    /// Resolves the guards that hold for a site now.
    ///
    /// # Errors
    ///
    /// The documents of a revision cannot be loaded, or have errors.
    pub(super) fn resolve(
        &self,
        loader: &mut Loader<'_>,
        site: &Site,
    ) -> Result<ResolvedGuards, Failure> {
        let repository = self.checkout.repository;
        let sources = self.sources(loader, site)?;
        let own = self.own(site)?;
        let mut basis = self.basis(&sources, own.as_ref())?;
        let gate = Gate::of(repository, &sources, self.checkout.guards()?.is_some())?;
        basis.differ |= gate.signers_changed;
        let mut sets: Vec<RuleSet> = Vec::new();
        for (source, is_in_force) in sources.all() {
            // No rule that is to go keeps itself in force.
            if is_in_force && self.request.action == Action::Guards {
                continue;
            }
            let files = source.rules(repository)?;
            if !files.is_empty() && sets.iter().all(|set| set.files != files) {
                let from = is_in_force.then(|| source.name.clone());
                let files = files.to_vec();
                sets.push(RuleSet { files, from });
            }
        }
        Ok(ResolvedGuards {
            guarded: self.merged(&sources),
            gate,
            rules: sets,
            basis,
        })
    }

    /// The design under the guards of all revisions.
    fn merged(&self, sources: &GuardSources) -> Guarded {
        let newest = &sources.newest.site;
        let older = sources.built.as_ref().or(sources.planned.as_ref());
        let revision = older.and_then(|older| older.commit);
        let revision = revision.map_or_else(String::new, |commit| commit.short());
        let named;
        let nodes = match older {
            Some(older) if self.request.action.has_target_revision() => {
                named = self.named(newest, &older.site);
                Some(&named)
            }
            _ => None,
        };
        let purpose = match self.request.action.is_targeted() {
            true => MergeFor::Action,
            false => MergeFor::Update,
        };
        let in_force = sources.in_force.as_ref();
        Guarded::resolve(&Revisions {
            newest,
            older: older.map(|older| OlderRevision {
                site: &older.site,
                revision: &revision,
                nodes,
            }),
            in_force: in_force.map(|in_force| (&in_force.site, purpose)),
        })
    }

    /// The revisions that have a say.
    fn sources(&self, loader: &mut Loader<'_>, site: &Site) -> Result<GuardSources, Failure> {
        let checkout = self.checkout;
        let protected = checkout.guards()?;
        let head = checkout.head_if_any()?;
        let planned = match site.at {
            At::Worktree => None,
            At::Commit(commit) => Some(commit),
        };
        let other = planned.filter(|planned| head.is_some_and(|head| head != *planned));
        let newest_site;
        let newest = match (other, head) {
            (Some(_), Some(head)) => {
                newest_site = self.newest(loader, head)?;
                &newest_site
            }
            _ => site,
        };
        let source = |name: &str, commit, site| GuardSource {
            name: Arc::from(name),
            commit,
            is_worktree: protected.is_none() && commit == head && planned.is_none(),
            site,
            rules: OnceCell::new(),
        };
        let name = match (&protected, planned) {
            (Some(found), _) => found.revision.to_string(),
            (None, Some(commit)) if other.is_none() => commit.short(),
            (None, Some(_)) => "HEAD".to_owned(),
            (None, None) => "the worktree".to_owned(),
        };
        let commit = protected.as_ref().map(|found| found.commit).or(head);
        let in_force = self.in_force(loader, newest)?;
        let documented = checkout.documented(site)?;
        let other = other.map(|commit| source(&commit.short(), Some(commit), documented));
        let (built, planned) = match self.request.action.has_target_revision() {
            true => (other, None),
            false => (None, other),
        };
        Ok(GuardSources {
            newest: source(&name, commit, checkout.documented(newest)?),
            built,
            planned,
            in_force,
        })
    }

    fn newest(&self, loader: &mut Loader<'_>, head: CommitId) -> Result<Site, Failure> {
        let at = At::Commit(head);
        let location = self.checkout.location_at(at)?;
        // No run has checked them yet, which may follow from them all the same.
        let settings = Settings {
            depth: Depth::Checked,
            ..AS_APPLIED
        };
        let newest = loader.load(&location, at, settings)?;
        match newest.diagnostics.has_errors() {
            false => Ok(newest),
            true => {
                let text = format!(
                    "the documents of commit {} have errors, so the guards that hold now cannot be read",
                    head.short()
                );
                Err(Failure::error(text).hint("`trueup validate` shows them"))
            }
        }
    }

    /// The commit whose guards are in force, if its files are others than those of the newest revision.
    fn in_force(
        &self,
        loader: &mut Loader<'_>,
        newest: &Site,
    ) -> Result<Option<GuardSource>, Failure> {
        let Some(action) = self.state.guards_in_force() else {
            return Ok(None);
        };
        let source = |commit, site: &Site| GuardSource {
            name: Arc::from(self.name_of(action, commit)),
            commit: Some(commit),
            is_worktree: false,
            site: site.documented(),
            rules: OnceCell::new(),
        };
        let commit = if_recorded(self.checkout, self.connection, &action.revision);
        let commit = commit.map_err(|failure| self.unreadable(action, failure))?;
        let Some(commit) = commit else {
            return match action.policy_asks && self.checkout.guards()?.is_none() {
                false => Ok(None),
                true => {
                    let why = "it no longer exists, and may have asked for approvals";
                    Err(self.unreadable(action, Failure::error(why)))
                }
            };
        };
        if action.site_digest == newest.digest {
            // The signers are no document of the site, and may still differ.
            return Ok(Some(source(commit, newest)));
        }
        let location = self.checkout.location_at(At::Commit(commit));
        let location = location.and_then(|location| pinned(location, action));
        let location = location.map_err(|failure| self.unreadable(action, failure))?;
        let loaded = loader.load(&location, At::Commit(commit), AS_APPLIED)?;
        if loaded.diagnostics.has_errors() {
            let text = format!(
                "the documents of {} have errors",
                self.name_of(action, commit)
            );
            return Err(self.unreadable(action, Failure::error(text)));
        }
        Ok(Some(source(commit, &loaded)))
    }

    fn name_of(&self, action: &SiteAction, commit: CommitId) -> String {
        let is_success = self.state.last_success.as_ref() == Some(action)
            || self.state.last_action.as_ref() == Some(action);
        match is_success {
            true => format!("{}, which was applied last", commit.short()),
            false => format!("{}, whose guards are in force", commit.short()),
        }
    }

    /// The failure if the guards that are in force cannot be read.
    fn unreadable(&self, action: &SiteAction, failure: Failure) -> Failure {
        let revision = short_id(&action.revision);
        let text = format!(
            "the guards that are in force, of commit {revision}, cannot be read: {}",
            failure.message
        );
        Failure::new(FailureKind::Guard, text)
            .hint(
                "a clone or a backup that still has the commit can push it: `git push REMOTE COMMIT:refs/heads/NAME`; where \
                 it no longer exists, the guards of a protected revision hold in its place with `--backends-from REVISION`",
            )
    }

    /// The changes to the guards that are in force: of the revision beside them, and of the one that the plan would put in
    /// their place.
    fn basis(
        &self,
        sources: &GuardSources,
        own: Option<&GuardSource>,
    ) -> Result<GuardBasis, Failure> {
        let repository = self.checkout.repository;
        let newest = &sources.newest;
        let own = own.or(sources.planned.as_ref()).unwrap_or(newest);
        let files = newest.files(repository)?;
        let Some(in_force) = &sources.in_force else {
            return Ok(GuardBasis {
                files,
                ..GuardBasis::default()
            });
        };
        let before = in_force.files(repository)?;
        let changes = |source: &GuardSource, files: &GuardFiles| {
            if in_force.site.is_same(&source.site) && before == *files {
                return (false, Vec::new());
            }
            let new = guard::values(&Subject::of(&source.site, files));
            let whole = Subject::of(&in_force.site, &before);
            let old = guard::values(&Subject {
                against: Some(&source.site),
                ..whole
            });
            let whole = guard::values(&whole);
            // A machine that has left the design may still be meant.
            let protected = |site: &Documented| site.guards.policy.protected.clone();
            let meant = protected(&in_force.site) != protected(&source.site);
            (meant || whole != new, guard::weaker(&old, &new))
        };
        let (is_other, weaker) = changes(newest, &files);
        let (differ, loosened) = match std::ptr::eq(own, newest) {
            true => (is_other, weaker.clone()),
            false => changes(own, &own.files(repository)?),
        };
        let loosened = loosened.into_iter().map(|(guard, how)| Loosened {
            guard: Arc::from(guard),
            flag: None,
            how: Arc::from(how),
        });
        Ok(GuardBasis {
            in_force: in_force.commit.map(|commit| Arc::from(commit.to_string())),
            stricter_in_force: weaker
                .into_iter()
                .map(|(guard, _)| Arc::from(guard))
                .collect(),
            differ,
            loosened: loosened.collect(),
            files,
        })
    }

    /// The documents with their own guards, which are in force once a run with them has succeeded, if those of a protected
    /// revision hold in their place.
    fn own(&self, site: &Site) -> Result<Option<GuardSource>, Failure> {
        if self.checkout.guards()?.is_none() {
            return Ok(None);
        }
        let (commit, is_worktree) = match site.at {
            At::Worktree => (self.checkout.head_if_any()?, true),
            At::Commit(commit) => (Some(commit), false),
        };
        Ok(Some(GuardSource {
            name: Arc::from("the documents"),
            commit,
            is_worktree,
            site: site.documented(),
            rules: OnceCell::new(),
        }))
    }

    /// The nodes that words mean now, and those that only the older revision has. What a word does not mean is an error of
    /// the plan.
    fn named(&self, newest: &Documented, older: &Documented) -> BTreeSet<NodeName> {
        let words = &self.request.nodes;
        let machines = Machines::new(newest, &newest.guards.groups, self.records);
        let meant = words.iter().filter_map(|word| machines.meant_by(word).ok());
        let left = words
            .iter()
            .filter_map(|word| older.nodes.get_key_value(&**word));
        let left = left.map(|(name, _)| name);
        meant.flatten().chain(left).cloned().collect()
    }
}

/// The files of a site as they were when its guards came in force: those of other repositories at their commits of then.
fn pinned(location: Location, action: &SiteAction) -> Result<Location, Failure> {
    if action.repositories.is_empty() {
        return Ok(location);
    }
    let commits = action.repositories.iter();
    let commits = commits.map(|(name, commit)| {
        let id = commit.parse::<CommitId>();
        let id = id.map_err(|_| Failure::error(format!("`{commit}` is no commit of `{name}`")))?;
        Ok((name.clone(), id))
    });
    let commits: Result<BTreeMap<Arc<str>, CommitId>, Failure> = commits.collect();
    let selection = location.selection.pinned(&commits?).map_err(|missing| {
        let names = missing.join(", ");
        let text = format!("they are in repository {names} too, which was not given");
        Failure::error(text)
    })?;
    Ok(Location {
        selection,
        ..location
    })
}

/// The rules about approvals that a plan of the newest documents is held to.
///
/// # Errors
///
/// The documents of a revision cannot be loaded, or have errors.
pub fn gate_of(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    loader: &mut Loader<'_>,
    documents: &Site,
    state: &SiteState,
) -> Result<Gate, Failure> {
    let scope = GuardScope {
        checkout,
        connection,
        request: &Request::default(),
        state,
        records: &BTreeMap::new(),
    };
    Ok(scope.resolve(loader, documents)?.gate)
}
