//! `trueup validate`: every document checked, all errors at once.

use std::fmt::Write;

use clap::{Args, ValueEnum};

use crate::diagnostic::Diagnostics;
use crate::report::sites::{Validated, Validation};
use crate::report::{self, counted};
use crate::site::{Depth, Detail, Loader};
use crate::workflow::{Scope, load_each, problems_beside, revisions, rollout_problems};

use super::context::Context;
use super::planning::{RemoteArguments, find_revision};
use super::revision::RevisionArguments;
use super::sites::{self, SitesArguments};
use super::{Failure, FailureKind};

#[derive(Debug, Args)]
pub(super) struct ValidateArguments {
    #[command(flatten)]
    revision: RevisionArguments,
    /// Output format
    #[arg(long, value_enum, default_value_t = ValidateFormat::Text)]
    format: ValidateFormat,
    /// Show every warning, also if many have one code
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    sites: SitesArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ValidateFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
    /// GitHub workflow commands, which put errors on the lines of a pull request.
    Github,
    /// SARIF 2.1.0.
    Sarif,
    /// JUnit XML.
    Junit,
    /// GitLab's code quality report.
    Codequality,
}

pub(super) fn run(context: &mut Context, arguments: &ValidateArguments) -> Result<u8, Failure> {
    if let Some(scope) = arguments.sites.scope() {
        return several(context, arguments, &scope);
    }
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let (at, location) = find_revision(
        context,
        &checkout,
        &RemoteArguments::default(),
        &arguments.revision,
    )?;
    let mut loader = Loader::new(&repository);
    let settings = arguments
        .revision
        .read
        .settings(Depth::Checked, Detail::Warnings);
    let mut site = loader.load(&location, at, settings)?;
    let beside = problems_beside(&repository, &site, context.now());
    site.diagnostics.extend(beside);
    let rollouts = rollout_problems(&repository, site.at, loader.sources_mut())?;
    site.diagnostics.extend(rollouts);
    site.diagnostics.sort(loader.sources());
    let (problems, sources) = (&site.diagnostics, loader.sources());
    let mut out = String::new();
    match arguments.format {
        ValidateFormat::Text => {
            let (palette, full) = (context.printer.out, arguments.full);
            report::diagnostics::text(&mut out, problems, sources, palette, full)?;
            if !problems.has_errors() {
                writeln!(
                    out,
                    "site `{}` is valid: {} in {}, {} rendered; {}, {}",
                    location.site,
                    counted(
                        site.documents.len() + site.unexplained(),
                        "document",
                        "documents"
                    ),
                    counted(site.files.len(), "file", "files"),
                    site.rendering.documents.len() + site.unexplained(),
                    counted(site.design.nodes.len(), "node", "nodes"),
                    counted(site.documented_guards.groups.len(), "group", "groups"),
                )?;
            }
        }
        ValidateFormat::Json => report::diagnostics::json(&mut out, problems, sources)?,
        ValidateFormat::Github => report::diagnostics::github(&mut out, problems, sources)?,
        ValidateFormat::Sarif => report::diagnostics::sarif(&mut out, problems, sources)?,
        ValidateFormat::Junit => report::diagnostics::junit(&mut out, problems, sources)?,
        ValidateFormat::Codequality => {
            report::diagnostics::codequality(&mut out, problems, sources)?;
        }
    }
    context.printer.print(&out)?;
    let has_errors = problems.has_errors();
    // The process ends now: taking a site's trees apart node by node would only cost time.
    std::mem::forget(site);
    std::mem::forget(loader);
    if has_errors {
        Err(Failure::reported(FailureKind::Error))
    } else {
        Ok(0)
    }
}

/// Validates several sites.
fn several(context: &Context, arguments: &ValidateArguments, scope: &Scope) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let sites = sites::find(context, &repository, scope, arguments.revision.word())?;
    let mut loader = Loader::new(&repository);
    let read = arguments.revision.read;
    let settings = read.settings(Depth::Checked, Detail::Warnings);
    let revisions = revisions(&sites, arguments.revision.word());
    let mut validation = Validation::new(sites.iter().map(sites::reported));
    // They are about all sites.
    let rollouts = match revisions.iter().flatten().next() {
        Some((at, _)) => rollout_problems(&repository, *at, loader.sources_mut())?,
        None => Diagnostics::new(),
    };
    load_each(&mut loader, revisions, settings, &mut |at, loaded, _| {
        let (validated, problems) = match loaded {
            Ok(mut site) => {
                let beside = problems_beside(&repository, &site, context.now());
                site.diagnostics.extend(beside);
                site.diagnostics.extend(rollouts.iter().cloned());
                let validated = Validated {
                    documents: site.documents.len() + site.unexplained(),
                    nodes: site.design.nodes.len(),
                    groups: site.documented_guards.groups.len(),
                    ..Validated::default()
                };
                (validated, std::mem::take(&mut site.diagnostics))
            }
            Err(failure) => (Validated::default(), sites::unusable(&sites[at], &failure)),
        };
        validation.add(at, validated, problems);
    });
    let sources = loader.sources();
    let problems = || validation.problems(sources);
    let (palette, full) = (context.printer.out, arguments.full);
    context.printer.stream(|out| match arguments.format {
        ValidateFormat::Text => validation.text(out, sources, palette, full),
        ValidateFormat::Json => validation.json(out, sources),
        ValidateFormat::Github => report::diagnostics::github(out, &problems(), sources),
        ValidateFormat::Sarif => report::diagnostics::sarif(out, &problems(), sources),
        ValidateFormat::Junit => report::diagnostics::junit(out, &problems(), sources),
        ValidateFormat::Codequality => report::diagnostics::codequality(out, &problems(), sources),
    })?;
    // The process ends now: taking the trees of all sites apart would only cost time.
    std::mem::forget(loader);
    match validation.has_errors() {
        true => Err(Failure::reported(FailureKind::Error)),
        false => Ok(0),
    }
}
