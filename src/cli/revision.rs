//! The words for a revision, and the site that they name.

use std::sync::{Arc, OnceLock};

use clap::Args;

use crate::record::Store;
use crate::report;
use crate::repository::{CommitId, Repository};
use crate::site::{At, Depth, Detail, Guards, Loader, Location, Settings, Site, locate};

use super::context::Context;
use super::{Failure, FailureKind};

/// How documents are read.
#[derive(Debug, Args)]
pub(super) struct ReadArguments {
    /// A substitution whose source is not there is a warning
    #[arg(long)]
    pub(super) allow_missing_sources: bool,
}

impl ReadArguments {
    /// The settings to load a site with.
    pub(super) fn settings(&self, depth: Depth, detail: Detail) -> Settings {
        Settings {
            depth,
            detail,
            allow_missing_sources: self.allow_missing_sources,
        }
    }
}

/// Which documents are read, and how.
#[derive(Debug, Args)]
pub(super) struct RevisionArguments {
    /// Which revision: worktree, committed, successful-site-action, last-site-action, or git's words
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    #[command(flatten)]
    pub(super) read: ReadArguments,
}

impl RevisionArguments {
    /// The revision, and where the site's files are there.
    pub(super) fn find(&self, checkout: &Checkout<'_>) -> Result<(At, Location), Failure> {
        let at = checkout.resolve(&self.rev)?;
        Ok((at, checkout.location_at(at)?))
    }
}

/// A site's state ref, its location and its repository: what a revision word is looked up with.
pub(super) struct Checkout<'a> {
    pub(super) repository: &'a Repository,
    pub(super) location: Location,
    /// The revision from which the operator takes the guards of the site.
    backends_from: Option<String>,
    guards: OnceLock<Option<ProtectedGuards>>,
}

/// The guards of a site at a revision that the operator named.
#[derive(Clone, Debug)]
pub(super) struct ProtectedGuards {
    pub(super) guards: Arc<Guards>,
    pub(super) commit: CommitId,
}

impl<'a> Checkout<'a> {
    /// Finds the site that is meant in the worktree, or at a revision where the worktree has none.
    pub(super) fn find(context: &Context, repository: &'a Repository) -> Result<Self, Failure> {
        let from = context.inside(repository);
        let location = locate(repository, At::Worktree, &from, context.site.as_deref())?;
        Ok(Self {
            repository,
            location,
            backends_from: context.backends_from.clone(),
            guards: OnceLock::new(),
        })
    }

    /// A loader that takes the guards of the site from where the operator wants them taken.
    pub(super) fn loader(&self) -> Result<Loader<'a>, Failure> {
        let guards = self.guards()?.map(|protected| protected.guards);
        Ok(Loader::new(self.repository).with_guards(guards))
    }

    /// The guards at the revision that `--backends-from` names; `None` where it was not given.
    pub(super) fn guards(&self) -> Result<Option<ProtectedGuards>, Failure> {
        if let Some(known) = self.guards.get() {
            return Ok(known.clone());
        }
        let found = match &self.backends_from {
            Some(name) => Some(self.load_guards(name)?),
            None => None,
        };
        Ok(self.guards.get_or_init(|| found).clone())
    }

    fn load_guards(&self, name: &str) -> Result<ProtectedGuards, Failure> {
        let commit = self.protected(name)?;
        let at = At::Commit(commit);
        let location = self.location_at(at)?;
        let settings = Settings {
            depth: Depth::Typed,
            detail: Detail::Documents,
            allow_missing_sources: true,
        };
        let site = Loader::new(self.repository).load(&location, at, settings)?;
        if site.diagnostics.has_errors() {
            let message = format!("the documents at `{name}` (`--backends-from`) have errors");
            let command = format!("`git switch --detach {commit}` and `trueup validate` show them");
            return Err(Failure::error(message).hint(command));
        }
        Ok(ProtectedGuards {
            guards: Arc::new(Guards::of(name, &site)),
            commit,
        })
    }

    /// What `--backends-from` names: a commit by its whole id, a whole ref, or a branch of a remote. No
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
            return Err(unknown(&format!("there is no ref `{full}`")));
        };
        Ok(repository.resolve(&object.to_string())?)
    }

    /// What a revision word names: `worktree`, `committed`, `successful-site-action`,
    /// `last-site-action`, or anything that git resolves.
    pub(super) fn resolve(&self, word: &str) -> Result<At, Failure> {
        Ok(match word {
            "worktree" => At::Worktree,
            "committed" => At::Commit(self.head()?),
            "successful-site-action" | "last-site-action" => {
                let store = Store::open(self.repository, &self.location.site)?;
                let site = store.read()?.site;
                let action = if word == "last-site-action" {
                    site.last_action
                } else {
                    site.last_success
                };
                let Some(action) = action else {
                    return Err(Failure::error(format!(
                        "there is no {word} of site `{}` yet",
                        self.location.site
                    ))
                    .hint("`trueup apply` makes one"));
                };
                At::Commit(self.repository.resolve(&action.revision)?)
            }
            revision => At::Commit(self.repository.resolve(revision)?),
        })
    }

    /// HEAD.
    pub(super) fn head(&self) -> Result<CommitId, Failure> {
        self.repository.head()?.ok_or_else(|| {
            Failure::error("there is no commit yet").hint("commit the site's documents first")
        })
    }

    /// The location of the site at a revision: what its files were there.
    pub(super) fn location_at(&self, at: At) -> Result<Location, Failure> {
        if at == At::Worktree {
            return Ok(self.location.clone());
        }
        let folder = self
            .location
            .definition
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        Ok(locate(
            self.repository,
            at,
            folder,
            Some(self.location.site.as_str()),
        )?)
    }
}

/// Loads a site and refuses it where its documents have errors, which are shown.
pub(super) fn load_sound(
    context: &Context,
    loader: &mut Loader<'_>,
    location: &Location,
    at: At,
    settings: Settings,
) -> Result<Site, Failure> {
    let site = loader.load(location, at, settings)?;
    sound(context, loader, settings.depth, site)
}

/// Refuses a site whose documents have errors, which are shown; says that there are warnings where it was checked.
pub(super) fn sound(
    context: &Context,
    loader: &Loader<'_>,
    depth: Depth,
    site: Site,
) -> Result<Site, Failure> {
    if site.diagnostics.has_errors() {
        let mut text = String::new();
        report::diagnostics::text(
            &mut text,
            &site.diagnostics,
            loader.sources(),
            context.printer.err,
        )?;
        context.printer.tell(&text);
        return Err(Failure::shown(FailureKind::Error));
    }
    if depth == Depth::Checked && site.warnings > 0 {
        context.printer.tell(&format!(
            "{} in the documents; `trueup validate` shows them",
            report::counted(site.warnings, "warning", "warnings")
        ));
    }
    Ok(site)
}
