//! The words for a revision, and the site that they name.

use clap::Args;

use crate::site::{Accept, At, Depth, Detail, Loader, Location, Settings, Site};
use crate::workflow::refuse_errors;

use super::Failure;
use super::context::Context;

/// How documents are read.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct ReadArguments {
    /// Make a substitution whose source is not found a warning
    #[arg(long)]
    allow_missing_sources: bool,
    /// Make a key that is twice in a map a warning; the last value counts
    #[arg(long)]
    allow_duplicate_keys: bool,
}

impl ReadArguments {
    /// The defects of documents that are accepted.
    pub(super) fn accept(self) -> Accept {
        Accept {
            missing_sources: self.allow_missing_sources,
            duplicate_keys: self.allow_duplicate_keys,
        }
    }

    /// The settings to load a site with.
    pub(super) fn settings(self, depth: Depth, detail: Detail) -> Settings {
        Settings {
            depth,
            detail,
            accept: self.accept(),
        }
    }
}

/// Which documents are read, and how.
#[derive(Debug, Args)]
pub(super) struct RevisionArguments {
    /// Revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    #[command(flatten)]
    pub(super) read: ReadArguments,
}

impl RevisionArguments {
    /// The revision as it was given.
    pub(super) fn word(&self) -> &str {
        &self.rev
    }
}

/// Loads a site and refuses it if its documents have errors, which are shown.
pub(super) fn load_sound(
    context: &Context,
    loader: &mut Loader<'_>,
    location: &Location,
    at: At,
    settings: Settings,
) -> Result<Site, Failure> {
    let site = loader.load(location, at, settings)?;
    refuse_errors(context, loader, settings.depth, site)
}
