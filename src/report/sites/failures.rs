//! Sites of which a command made nothing, and why: each is shown once with the sites that have it in common.

use std::fmt::{self, Write};

use serde::Serialize;

use super::common::Common;
use super::{ReportedSite, heading};
use crate::diagnostic::{Diagnostic, Diagnostics, Sources};
use crate::report::diagnostics::{self, Problem, problem, summary};
use crate::report::{Palette, Role, Visible, json};

/// Why a command made nothing of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SiteFailure {
    /// The message.
    pub message: String,
    /// The details, a line each.
    pub details: Vec<String>,
    /// The ways out.
    pub hints: Vec<String>,
}

/// The problems and failures of sites.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) problems: Common<Diagnostic>,
    pub(super) failures: Common<SiteFailure>,
}

#[derive(Serialize)]
struct OfSites<'a, T: Serialize> {
    sites: Vec<&'a str>,
    #[serde(flatten)]
    what: T,
}

#[derive(Serialize)]
struct Failed<'a> {
    failures: Vec<&'a SiteFailure>,
}

#[derive(Serialize)]
struct Broken<'a> {
    diagnostics: Vec<Problem<'a>>,
}

/// The names of sites at some positions.
pub(super) fn names<'s, T>(sites: &'s [(ReportedSite, T)], at: &[u32]) -> Vec<&'s str> {
    let names = at.iter();
    names
        .map(|at| sites[*at as usize].0.name.as_str())
        .collect()
}

impl Failures {
    /// Writes a section for all that the same sites have in common, at most so many of each kind; how many are left out.
    pub(super) fn text<T>(
        &self,
        out: &mut dyn Write,
        sites: &[(ReportedSite, T)],
        sources: &Sources,
        (palette, full, most): (Palette, bool, usize),
    ) -> Result<usize, fmt::Error> {
        let (failures, problems) = (self.failures.sections(), self.problems.sections());
        for section in failures.iter().take(most) {
            heading(out, &names(sites, section.sites), "failed", palette)?;
            for failure in &section.things {
                one(out, failure, palette)?;
            }
        }
        for section in problems.iter().take(most) {
            let mut list: Diagnostics = section.things.iter().copied().cloned().collect();
            list.sort(sources);
            heading(out, &names(sites, section.sites), &summary(&list), palette)?;
            diagnostics::limited(out, &list, sources, (palette, full))?;
        }
        Ok(failures.len().saturating_sub(most) + problems.len().saturating_sub(most))
    }

    /// The fields `failures` and `problems` of a JSON object, each a list with the `sites` that have them.
    pub(super) fn json<T>(
        &self,
        sites: &[(ReportedSite, T)],
        sources: &Sources,
    ) -> Result<String, fmt::Error> {
        let failed = self.failures.sections().into_iter().map(|section| OfSites {
            sites: names(sites, section.sites),
            what: Failed {
                failures: section.things,
            },
        });
        let failed = json::line(&failed.collect::<Vec<_>>())?;
        let sections = self.problems.sections();
        let broken = sections.iter().map(|section| OfSites {
            sites: names(sites, section.sites),
            what: Broken {
                diagnostics: section
                    .things
                    .iter()
                    .map(|each| problem(each, sources))
                    .collect(),
            },
        });
        let broken = json::line(&broken.collect::<Vec<_>>())?;
        Ok(format!("\"failures\":{failed},\n\"problems\":{broken}"))
    }
}

fn one(out: &mut dyn Write, failure: &SiteFailure, palette: Palette) -> fmt::Result {
    let error = palette.paint(Role::Error, "error:");
    writeln!(out, "{error} {}", Visible(&failure.message))?;
    for line in &failure.details {
        writeln!(out, "  {}", Visible(line))?;
    }
    for hint in &failure.hints {
        let head = palette.paint(Role::Hint, "hint:");
        writeln!(out, "{head} {}", Visible(hint))?;
    }
    Ok(())
}
