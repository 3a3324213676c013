//! A site in a checkout, and the words for its revisions.

use std::sync::{Arc, OnceLock};

use super::Failure;
use super::earlier::{counted_back, earlier, newest_runs};
use crate::design::{Design, Documented, GuardOrigin, Guards};
use crate::guard::{Guarded, expected_parts};
use crate::record::{Place, Store};
use crate::repository::{self, CommitId, Repository};
use crate::run::{Connection, SiteRepository};
use crate::site::{
    Accept, At, Depth, Detail, GuardDocuments, Loader, Location, Sandbox, Settings, Site, locate,
    locate_at,
};

/// How a revision is read that was checked when it was applied.
pub const AS_APPLIED: Settings = Settings {
    depth: Depth::Typed,
    detail: Detail::Designs,
    accept: Accept {
        missing_sources: true,
        duplicate_keys: true,
    },
};

/// A site's state ref, its location and its repository: what a revision word is looked up with.
pub struct Checkout<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// Where the site is in the worktree.
    pub location: Location,
    /// The revision from which the operator takes the guards of the site.
    backends_from: Option<String>,
    guards: OnceLock<Option<Arc<ProtectedGuards>>>,
    /// The commit in the place of `HEAD`, for a plan of what would be committed.
    previewed: Option<CommitId>,
    /// Where the records of the run under way are, for commands about that run.
    place_of_run: Option<OnceLock<Place>>,
}

/// The guards of a site at a protected revision, which a pull request cannot change.
#[derive(Clone, Debug)]
pub struct ProtectedGuards {
    /// The revision as the operator named it.
    pub revision: Arc<str>,
    /// The commit that they are from.
    pub commit: CommitId,
    /// The guards there.
    pub guards: Arc<Guards>,
    /// The machines there.
    design: Arc<Design>,
    documents: GuardDocuments,
}

impl ProtectedGuards {
    /// A site with these guards in the place of those of its documents, but for its groups and timeouts. What is expected of
    /// a machine there is demanded, too: its documents at hand may expect less.
    fn in_place_of(&self, site: &Site) -> Documented {
        let own = &site.documented_guards;
        let mut guards = Guards {
            groups: own.groups.clone(),
            configuration: own.configuration.clone(),
            from: Some(GuardOrigin {
                revision: self.revision.clone(),
                changed: self.documents.changed(&GuardDocuments::of(site)),
            }),
            ..Guards::clone(&self.guards)
        };
        let protected = Documented {
            design: self.design.clone(),
            guards: self.guards.clone(),
        };
        expected_parts(&mut guards, &site.design, &protected);
        Documented {
            design: site.design.clone(),
            guards: Arc::new(guards),
        }
    }
}

impl<'a> Checkout<'a> {
    /// Finds the site that is meant in the worktree: `from` is a folder in the repository, `site` a name, if one was
    /// given, and `backends_from` the revision from which the operator takes the guards of the site.
    ///
    /// # Errors
    ///
    /// Not found, or several and none was named, or git fails.
    pub fn find(
        repository: &'a Repository,
        from: &str,
        site: Option<&str>,
        backends_from: Option<String>,
    ) -> Result<Self, Failure> {
        let location = locate(repository, from, site)?;
        Ok(Self::of(repository, location, backends_from))
    }

    /// A site of the worktree that was found.
    #[must_use]
    pub fn of(
        repository: &'a Repository,
        location: Location,
        backends_from: Option<String>,
    ) -> Self {
        Self {
            repository,
            location,
            backends_from,
            guards: OnceLock::new(),
            previewed: None,
            place_of_run: None,
        }
    }

    /// This site as it would be with a commit as `HEAD` that nothing leads to yet.
    #[must_use]
    pub fn previewing(&self, commit: CommitId) -> Self {
        let (location, backends_from) = (self.location.clone(), self.backends_from.clone());
        Self {
            previewed: Some(commit),
            ..Self::of(self.repository, location, backends_from)
        }
    }

    /// This checkout for a command about a run under way: its records are where it began, until it has ended.
    #[must_use]
    pub fn of_run(self) -> Self {
        Self {
            place_of_run: Some(OnceLock::new()),
            ..self
        }
    }

    /// A loader of the site, whose warnings the Policy that counts silences.
    ///
    /// # Errors
    ///
    /// The guards of the protected revision cannot be loaded.
    pub fn loader(&self) -> Result<Loader<'a>, Failure> {
        let protected = self.guards()?;
        let guards = protected.map(|protected| protected.guards.clone());
        Ok(Loader::new(self.repository).silencing_by(guards))
    }

    /// The documents of a site that was loaded: those of the protected revision guard it, if the operator names one.
    ///
    /// # Errors
    ///
    /// The guards of the protected revision cannot be loaded.
    pub fn documented(&self, site: &Site) -> Result<Documented, Failure> {
        Ok(match self.guards()? {
            Some(protected) => protected.in_place_of(site),
            None => site.documented(),
        })
    }

    /// A site that is only observed, under the guards of its documents.
    ///
    /// # Errors
    ///
    /// The guards of the protected revision cannot be loaded.
    pub fn guarded(&self, site: &Site) -> Result<Guarded, Failure> {
        Ok(Guarded::under_one(&self.documented(site)?))
    }

    /// The guards at the revision that `--backends-from` names; `None` if it was not given.
    ///
    /// # Errors
    ///
    /// It names no protected revision, or the documents there have errors.
    pub fn guards(&self) -> Result<Option<Arc<ProtectedGuards>>, Failure> {
        if let Some(known) = self.guards.get() {
            return Ok(known.clone());
        }
        let found = match &self.backends_from {
            Some(name) => Some(Arc::new(self.load_guards(name)?)),
            None => None,
        };
        Ok(self.guards.get_or_init(|| found).clone())
    }

    fn load_guards(&self, name: &str) -> Result<ProtectedGuards, Failure> {
        let commit = self.protected(name)?;
        let at = At::Commit(commit);
        let location = self.location_at(at)?;
        let settings = Settings {
            detail: Detail::Documents,
            ..AS_APPLIED
        };
        let site = Loader::new(self.repository).load(&location, at, settings)?;
        if site.diagnostics.has_errors() {
            let message = format!("the documents at `{name}` (`--backends-from`) have errors");
            let command = format!("`git switch --detach {commit}` and `trueup validate` show them");
            return Err(Failure::error(message).hint(command));
        }
        Ok(ProtectedGuards {
            revision: Arc::from(name),
            commit,
            documents: GuardDocuments::of(&site),
            design: site.design,
            guards: site.documented_guards,
        })
    }

    /// Checks that the revision of `--backends-from` is here.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn check_protected(&self) -> Result<(), Failure> {
        match &self.backends_from {
            Some(name) => self.protected(name).map(drop),
            None => Ok(()),
        }
    }

    /// The commit that `--backends-from` names: a commit by its whole id, a whole ref, or a branch of a remote. No
    /// other name is looked up, since a tag or branch of the same name could stand before the one meant.
    fn protected(&self, name: &str) -> Result<CommitId, Failure> {
        let repository = self.repository;
        let unknown = |why: &str| {
            Failure::error(format!("`--backends-from {name}`: {why}")).hint(
                "name a commit by its whole id, a whole ref such as `refs/heads/main`, or a branch of a remote \
                 such as `origin/main`; a pipeline may have to fetch it first",
            )
        };
        if name.len() == 40
            && let Ok(commit) = name.parse::<CommitId>()
        {
            return repository
                .resolve(&commit.to_string())
                .map_err(|_| unknown("there is no such commit here"));
        }
        let full = match name.starts_with("refs/") {
            true => name.to_owned(),
            false => format!("refs/remotes/{name}"),
        };
        let found = repository.read_ref(&full).ok().flatten();
        let Some(object) = found else {
            let branch = format!("refs/heads/{name}");
            let failure = unknown(&format!("there is no ref `{full}`"));
            return Err(match repository.read_ref(&branch) {
                Ok(Some(_)) => failure.hint(format!(
                    "`{branch}` is the branch of this clone, which each account that can write here can move"
                )),
                _ => failure,
            });
        };
        Ok(repository.resolve(&object.to_string())?)
    }

    /// Whether a revision word means another commit for each site.
    #[must_use]
    pub fn is_of_site(word: &str) -> bool {
        matches!(word, "successful-site-action" | "last-site-action")
            || counted_back(word).is_some()
    }

    /// The commit of a revision word: `worktree`, `committed`, `successful-site-action`,
    /// `last-site-action`, one of these counted back (`~1`), or anything that git resolves.
    ///
    /// # Errors
    ///
    /// It names none.
    pub fn resolve(&self, word: &str) -> Result<At, Failure> {
        Ok(match word {
            "worktree" => At::Worktree,
            "committed" => At::Commit(self.head()?),
            _ if counted_back(word).is_some() => {
                let store = Store::open(self.repository, &self.location.site)?;
                let runs = newest_runs(&store, &store.read()?)?;
                let run = earlier(&runs, word)?;
                let revision = run.map_or(word, |run| &run.revision);
                At::Commit(self.repository.resolve(revision)?)
            }
            _ if Self::is_of_site(word) => {
                let store = Store::open(self.repository, &self.location.site)?;
                let site = store.read()?.site;
                let action = if word == "last-site-action" {
                    site.last_action
                } else {
                    site.last_success
                };
                let Some(action) = action else {
                    let site = &self.location.site;
                    let missing = match word {
                        "last-site-action" => "nothing was applied to site",
                        _ => "nothing was applied with success to site",
                    };
                    return Err(Failure::error(format!(
                        "{missing} `{site}` yet: there is no `{word}`"
                    ))
                    .hint(
                        "`trueup apply` makes one; `committed` is the commit that is checked out",
                    ));
                };
                At::Commit(self.repository.resolve(&action.revision)?)
            }
            revision => At::Commit(self.repository.resolve(revision)?),
        })
    }

    /// HEAD.
    ///
    /// # Errors
    ///
    /// There is no commit yet.
    pub fn head(&self) -> Result<CommitId, Failure> {
        self.head_if_any()?.ok_or_else(|| {
            Failure::error("there is no commit yet").hint("commit the site's documents first")
        })
    }

    /// HEAD, if there is a commit yet.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn head_if_any(&self) -> Result<Option<CommitId>, Failure> {
        match self.previewed {
            Some(commit) => Ok(Some(commit)),
            None => Ok(self.repository.head()?),
        }
    }

    /// The site with its lock and records, and how these are shared.
    ///
    /// # Errors
    ///
    /// The guards cannot be loaded that name the branch of its records, or what is named is none.
    pub fn site<'s>(&'s self, connection: Connection<'s>) -> Result<SiteRepository<'s>, Failure> {
        let site = &self.location.site;
        // If no remote is asked, it makes no difference.
        let branch = match connection {
            Connection::Shared { .. } => self.state_branch()?,
            Connection::Alone | Connection::Offline => None,
        };
        let place = Place::of(self.repository, site, branch.as_deref())?;
        Ok(SiteRepository {
            repository: self.repository,
            name: site.clone(),
            place: self.where_run_began(place, &connection)?,
            connection,
            signing: None,
        })
    }

    /// The site as it is here, for those that ask no remote. Without a remote, that is all of it.
    ///
    /// # Errors
    ///
    /// As [`site`](Self::site); the configuration of the repository cannot be read.
    pub fn site_here(&self) -> Result<SiteRepository<'_>, Failure> {
        let is_shared =
            Sandbox::of(self.repository)?.is_none() && !self.repository.remotes()?.is_empty();
        self.site(match is_shared {
            true => Connection::Offline,
            false => Connection::Alone,
        })
    }

    /// The place of the records, for commands about a run under way.
    fn where_run_began(&self, place: Place, connection: &Connection<'_>) -> Result<Place, Failure> {
        let (Some(found), Connection::Shared { remote, .. }) = (&self.place_of_run, connection)
        else {
            return Ok(place);
        };
        if let Some(found) = found.get() {
            return Ok(found.clone());
        }
        let site = &self.location.site;
        let lock = format!("{}/{site}/lock", self.repository.ref_prefix()?);
        let place = Store::at(self.repository, site, place)?.place_of_run(remote, &lock)?;
        Ok(found.get_or_init(|| place).clone())
    }

    /// Whether neither git's configuration nor a protected revision can name the branch of the records.
    ///
    /// # Errors
    ///
    /// The configuration of the repository cannot be read.
    pub(super) fn names_no_branch(&self) -> Result<bool, Failure> {
        Ok(self.backends_from.is_none() && self.repository.state_branch()?.is_none())
    }

    /// The branches of records that the Policy at the protected revision names. What the documents under review name
    /// does not count, and where git's configuration names them, nothing is loaded for it.
    fn state_branch(&self) -> Result<Option<Arc<str>>, Failure> {
        if self.backends_from.is_none() || self.repository.state_branch()?.is_some() {
            return Ok(None);
        }
        let guards = self.guards()?;
        Ok(guards.and_then(|found| found.guards.policy.state_branch.clone()))
    }

    /// The location of the site at a revision: what its files were there.
    ///
    /// # Errors
    ///
    /// Not found there.
    pub fn location_at(&self, at: At) -> Result<Location, Failure> {
        if at == At::Worktree {
            return Ok(self.location.clone());
        }
        let folder = self
            .location
            .definition
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        Ok(locate_at(self.repository, at, folder, &self.location.site)?)
    }
}

/// The commit that a record names, fetched if this clone does not have it; `None` if its history was rewritten, and
/// it no longer exists.
///
/// # Errors
///
/// The remote cannot be asked; the clone is shallow, and it may be in the rest of the history.
pub fn if_recorded(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    revision: &str,
) -> Result<Option<CommitId>, Failure> {
    let repository = checkout.repository;
    if let Ok(commit) = revision.parse::<CommitId>() {
        if let Connection::Shared { remote, .. } = connection {
            match remote.fetch_commit(commit) {
                Err(repository::Error::Gone { .. }) => return Ok(None),
                other => other?,
            }
        }
        if !repository.has(commit.0)? && !repository.is_shallow()? {
            return Ok(None);
        }
    }
    Ok(Some(repository.resolve(revision)?))
}

/// The commit that a record names, fetched if this clone does not have it.
///
/// # Errors
///
/// It is nowhere.
pub fn recorded(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    revision: &str,
) -> Result<CommitId, Failure> {
    if let (Connection::Shared { remote, .. }, Ok(commit)) = (connection, revision.parse()) {
        remote.fetch_commit(commit)?;
    }
    Ok(checkout.repository.resolve(revision)?)
}
