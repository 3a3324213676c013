//! `trueup diff`: what changed between two revisions, per document and field.

use clap::{Args, ValueEnum};

use crate::design;
use crate::diff::{self, Along, DocumentDiff, Reached, Revision};
use crate::report;
use crate::report::sites::{Differences, DifferencesForm};
use crate::site::{At, Depth, Detail, Loader, Site};
use crate::workflow::{Scope, SiteOfMany, load_each, revisions};

use super::context::Context;
use super::planning::{RemoteArguments, resolve_to_read};
use super::revision::{ReadArguments, load_sound};
use super::sites::{self, SitesArguments};
use super::{Failure, FailureKind, exit};

#[derive(Debug, Args)]
pub(super) struct DiffCommand {
    /// The two revisions, as `A B` or `A..B`; one alone is compared with the worktree
    #[arg(value_name = "A [B]", num_args = 0..=2)]
    revisions: Vec<String>,
    /// Base revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "committed")]
    base: String,
    /// Target revision
    #[arg(long = "diff", value_name = "R", default_value = "worktree")]
    revision: String,
    /// Compare the rendered documents instead of the written ones
    #[arg(long)]
    rendered: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    sites: SitesArguments,
    /// With several sites, show all that differs, without folding
    #[arg(long)]
    full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
    /// A page for a browser, one file, with both values in two columns.
    Html,
}

impl DiffCommand {
    /// The two words of a range, if that was given.
    fn range(&self) -> Option<(&str, &str)> {
        match &self.revisions[..] {
            [range] => range.split_once(".."),
            _ => None,
        }
    }

    /// The revision that is compared.
    fn before(&self) -> &str {
        let range = self.range().map(|(before, _)| before);
        let word = range.or_else(|| self.revisions.first().map(String::as_str));
        word.filter(|word| !word.is_empty()).unwrap_or(&self.base)
    }

    /// The revision that it is compared with.
    fn after(&self) -> &str {
        let range = self.range().map(|(_, after)| match after {
            "" => "HEAD",
            after => after,
        });
        let word = range.or_else(|| self.revisions.get(1).map(String::as_str));
        word.unwrap_or(&self.revision)
    }
}

pub(super) fn run(context: &mut Context, command: &DiffCommand) -> Result<u8, Failure> {
    if let Some(scope) = command.sites.scope() {
        return several(context, command, &scope);
    }
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let mut loader = Loader::new(&repository);
    let settings = command.read.settings(Depth::Rendered, Detail::Documents);
    let mut load = |word: &str| {
        let at = resolve_to_read(context, &checkout, &RemoteArguments::default(), word)?;
        let location = checkout.location_at(at)?;
        load_sound(context, &mut loader, &location, at, settings)
    };
    let (before, after) = (load(command.before())?, load(command.after())?);
    let difference = compared(command, &before, &after);
    let design = |site: &Site| {
        let rendered = site.rendering.documents.iter();
        let documents: Vec<design::Input<'_>> = rendered
            .map(|rendered| (&*rendered.document, &rendered.data))
            .collect();
        design::build(site.location.site.clone(), &documents).0
    };
    let (old, new) = (design(&before), design(&after));
    let along = match command.rendered {
        true => Along::Rendered,
        false => Along::Edited,
    };
    let revisions = [(&before, &old), (&after, &new)].map(|(site, design)| Revision {
        rendering: &site.rendering,
        design,
    });
    let [from, to] = revisions;
    let reached = &Reached::between(loader.sources(), from, to, along);
    let (printer, sources) = (&context.printer, loader.sources());
    match command.format {
        DiffFormat::Text => {
            printer.stream_text(|out| {
                report::diff::text(out, &difference, sources, reached, printer.out)
            })?;
        }
        DiffFormat::Json => {
            printer.stream(|out| report::diff::json(out, &difference, sources, reached))?;
        }
        DiffFormat::Html => {
            let sides = report::diff::Compared {
                site: after.location.site.as_str(),
                before: command.before(),
                after: command.after(),
                rendered: command.rendered,
            };
            let page = |out: &mut dyn std::fmt::Write| {
                report::diff::html(out, &difference, sources, reached, sides)
            };
            printer.stream(page)?;
        }
    }
    Ok(0)
}

/// One side of the comparison of a site.
enum Side {
    Sound(Box<Site>),
    /// The site has no definition there.
    Absent,
    /// It has errors, which were added to the report.
    Broken,
}

/// Compares two revisions of several sites.
fn several(context: &Context, command: &DiffCommand, scope: &Scope) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let sites = sites::find(context, &repository, scope, command.after())?;
    let form = match command.format {
        DiffFormat::Text => DifferencesForm::Text(context.printer.out, command.full),
        DiffFormat::Json => DifferencesForm::Json,
        DiffFormat::Html => {
            let message = "a page of differences is about one site";
            return Err(
                Failure::new(FailureKind::Usage, message).hint("name the site with `--site`")
            );
        }
    };
    let mut loader = Loader::new(&repository);
    let settings = command.read.settings(Depth::Rendered, Detail::Documents);
    let mut differences = Differences::new(sites.iter().map(sites::reported), form);
    let mut before: Vec<Side> = sites.iter().map(|_| Side::Broken).collect();
    let bases = revisions(&sites, command.before());
    let mut code = 0;
    let absent: Vec<bool> = bases
        .iter()
        .zip(&sites)
        .map(|(base, site)| base.is_err() && is_new(site, command.before()))
        .collect();
    load_each(&mut loader, bases, settings, &mut |at, loaded, _| {
        before[at] = match absent[at] {
            true => Side::Absent,
            false => side(&mut differences, at, loaded, &mut code),
        };
    });
    let targets = revisions(&sites, command.after());
    load_each(&mut loader, targets, settings, &mut |at, loaded, loader| {
        let after = side(&mut differences, at, loaded, &mut code);
        match (std::mem::replace(&mut before[at], Side::Broken), after) {
            (Side::Sound(before), Side::Sound(after)) => {
                let found = compared(command, &before, &after);
                if differences.add(at, &found, loader.sources()).is_err() {
                    code = code.max(1);
                }
            }
            (Side::Absent, Side::Sound(after)) => differences.add_new(at, after.documents.len()),
            _ => {}
        }
    });
    let sources = loader.sources();
    context
        .printer
        .stream(|out| differences.write(out, sources))?;
    std::mem::forget(loader);
    Ok(code)
}

/// One side of a site, as it was loaded. A site with errors, or that could not be loaded, is added to the report.
fn side(
    differences: &mut Differences,
    at: usize,
    loaded: Result<Site, Failure>,
    code: &mut u8,
) -> Side {
    let failure = match loaded {
        Ok(site) if !site.diagnostics.has_errors() => return Side::Sound(Box::new(site)),
        Ok(mut site) => {
            differences.add_problems(at, std::mem::take(&mut site.diagnostics));
            Failure::reported(FailureKind::Error)
        }
        Err(failure) => {
            differences.add_failure(at, sites::failed(failure.clone()));
            failure
        }
    };
    *code = exit::combined(&[*code, exit::code(&failure)].into_iter().collect(), false);
    Side::Broken
}

fn compared(command: &DiffCommand, before: &Site, after: &Site) -> DocumentDiff {
    match command.rendered {
        true => diff::rendered(&before.rendering.documents, &after.rendering.documents),
        false => diff::documents(&before.documents, &after.documents),
    }
}

/// Whether a site has no definition at a revision.
fn is_new(site: &SiteOfMany<'_>, word: &str) -> bool {
    let Ok(checkout) = &site.checkout else {
        return false;
    };
    let Ok(At::Commit(commit)) = checkout.resolve(word) else {
        return false;
    };
    let definition = checkout.repository.file_at(commit, &site.definition);
    matches!(definition, Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        diff: DiffCommand,
    }

    #[test]
    fn two_revisions_are_named_as_git_names_them() {
        for (words, before, after) in [
            (&[][..], "committed", "worktree"),
            (&["HEAD~1"], "HEAD~1", "worktree"),
            (&["v1", "v2"], "v1", "v2"),
            (&["v1..v2"], "v1", "v2"),
            (&["v1.."], "v1", "HEAD"),
            (&["--base", "v1", "--diff", "v2"], "v1", "v2"),
        ] {
            let words = ["diff"].iter().chain(words);
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            assert_eq!((line.diff.before(), line.diff.after()), (before, after));
        }
    }
}
