//! The flags by which a command is about several sites.

use clap::Args;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::report::sites::{Affected, AffectedFile, ReportedSite, SiteFailure};
use crate::repository::Repository;
use crate::workflow::{Checkout, Scope, SiteOfMany, sites};

use super::context::Context;
use super::{Failure, FailureKind};

/// Which sites.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct SitesArguments {
    /// All sites of the repository, in one report
    #[arg(long, conflicts_with = "affected_by")]
    all_sites: bool,
    /// The sites with a file that these commits touch, shared layers and links among them, in one report
    #[arg(long, value_name = "[NAME=]REV..REV")]
    affected_by: Option<String>,
}

impl SitesArguments {
    /// Which sites are meant; `None`: the one of every other command.
    pub(super) fn scope(&self) -> Option<Scope> {
        match &self.affected_by {
            Some(range) => Some(Scope::AffectedBy(range.clone())),
            None => self.all_sites.then_some(Scope::All),
        }
    }
}

/// The sites that are meant, which are judged by the documents of a revision.
pub(super) fn find<'a>(
    context: &Context,
    repository: &'a Repository,
    scope: &Scope,
    revision: &str,
) -> Result<Vec<SiteOfMany<'a>>, Failure> {
    if let Some(site) = &context.site {
        let flag = match scope {
            Scope::All => "--all-sites",
            Scope::AffectedBy(_) => "--affected-by",
        };
        let message = format!("`{flag}` is about several sites, and `--site {site}` about one");
        return Err(Failure::new(FailureKind::Usage, message).hint("leave one of them out"));
    }
    let judged = match revision {
        "worktree" | "committed" => repository.head()?,
        // Each site has its own.
        word if Checkout::is_of_site(word) => None,
        // What it names is told where it is read.
        word => repository.resolve(word).ok(),
    };
    sites(repository, scope, context.backends_from.as_deref(), judged)
}

/// A site as it is reported.
pub(super) fn reported(site: &SiteOfMany<'_>) -> ReportedSite {
    let affected_by = site.touched.as_ref().map(|touched| Affected {
        files: touched
            .files
            .iter()
            .map(|(path, commit)| AffectedFile {
                path: path.clone(),
                commit: commit.short(),
            })
            .collect(),
        number: touched.number,
    });
    ReportedSite {
        name: site.name.clone(),
        definition: site.definition.clone(),
        affected_by,
    }
}

/// A failure of one of several sites.
pub(super) fn failed(failure: Failure) -> SiteFailure {
    SiteFailure {
        message: failure.message,
        details: failure.details,
        hints: failure.hints,
    }
}

/// The problem of a site that cannot be loaded.
pub(super) fn unusable(site: &SiteOfMany<'_>, failure: &Failure) -> Diagnostics {
    let path = Some(&*site.definition);
    let problem = Diagnostic::error_in("file-site-unusable", path, failure.message.clone());
    let problem = match failure.hints.first() {
        Some(hint) => problem.hint(hint.clone()),
        None => problem,
    };
    [problem].into_iter().collect()
}
