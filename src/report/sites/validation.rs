//! The validation of several sites.

use std::fmt::{self, Write};

use serde::Serialize;

use super::common::{Common, Section};
use super::failures::names;
use super::{
    Columns, FORMAT_VERSION, ReportedSite, SHOWN_SECTIONS, heading, left_out, nothing, number,
};
use crate::diagnostic::{Diagnostic, Diagnostics, Sources};
use crate::report::diagnostics::{self, Problem, problem, summary};
use crate::report::{Palette, Role, counted, json};

/// The problems of several sites.
#[derive(Debug, Default)]
pub struct Validation {
    sites: Vec<(ReportedSite, Validated)>,
    problems: Common<Diagnostic>,
}

/// How a site was found.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Validated {
    /// Errors in it, those that other sites have as well among them.
    pub errors: usize,
    /// Warnings in it.
    pub warnings: usize,
    /// Its documents; of a site that could not be loaded there is none, and no node and group.
    pub documents: usize,
    /// Its nodes.
    pub nodes: usize,
    /// Its deployment groups.
    pub groups: usize,
}

#[derive(Serialize)]
struct Report<'a> {
    format_version: u32,
    valid: bool,
    /// Each counted once, however many sites have it.
    errors: usize,
    warnings: usize,
    sites: Vec<One<'a>>,
    /// The problems that the same sites have in common, and those of one site alone.
    problems: Vec<Problems<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    #[serde(flatten)]
    site: &'a ReportedSite,
    valid: bool,
    #[serde(flatten)]
    validated: Validated,
}

#[derive(Serialize)]
struct Problems<'a> {
    sites: Vec<&'a str>,
    diagnostics: Vec<Problem<'a>>,
}

impl Validation {
    /// Of these sites, of which nothing is known yet.
    #[must_use]
    pub fn new(sites: impl IntoIterator<Item = ReportedSite>) -> Self {
        let sites = sites.into_iter();
        Self {
            sites: sites.map(|site| (site, Validated::default())).collect(),
            problems: Common::default(),
        }
    }

    /// Adds what was found in the site at a position.
    pub fn add(&mut self, position: usize, found: Validated, problems: Diagnostics) {
        let (errors, warnings) = problems.counts();
        if let Some((_, validated)) = self.sites.get_mut(position) {
            *validated = Validated {
                errors,
                warnings,
                ..found
            };
        }
        for problem in problems {
            self.problems.add(position, problem);
        }
    }

    /// Whether a site has errors.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.sites.iter().any(|(_, found)| found.errors > 0)
    }

    /// All problems, each once, sorted.
    #[must_use]
    pub fn problems(&self, sources: &Sources) -> Diagnostics {
        let mut all: Diagnostics = self.problems.things().cloned().collect();
        all.sort(sources);
        all
    }

    /// Writes the table, what sites have in common, a section for each site that has problems of its own, and the
    /// counts. Unless they are to be shown in `full`, the first of many are shown, and the others counted.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn text(
        &self,
        out: &mut dyn Write,
        sources: &Sources,
        palette: Palette,
        full: bool,
    ) -> fmt::Result {
        if self.sites.is_empty() {
            return nothing(out);
        }
        let own = ["NODES", "GROUPS", "ERRORS", "WARNINGS"];
        let mut columns = Columns::new(self.sites.iter().map(|(site, _)| site), &own);
        for (site, found) in &self.sites {
            let state = match found.errors {
                0 => (Role::Success, "valid"),
                _ => (Role::Error, "invalid"),
            };
            let counts = [found.nodes, found.groups, found.errors, found.warnings];
            columns.row(site, state, counts.map(number).into());
        }
        columns.table.write(out, palette)?;
        let sections = self.problems.sections();
        let shown = if full { sections.len() } else { SHOWN_SECTIONS };
        for section in sections.iter().take(shown) {
            self.section(out, section, sources, (palette, full))?;
        }
        left_out(out, sections.len().saturating_sub(shown), palette)?;
        let invalid = self.sites.iter().filter(|(_, found)| found.errors > 0);
        let (all, invalid) = (self.sites.len(), invalid.count());
        let problems = self.problems.things().cloned().collect();
        writeln!(
            out,
            "\n{}: {} valid, {invalid} invalid; {}",
            counted(all, "site", "sites"),
            all - invalid,
            summary(&problems),
        )
    }

    fn section(
        &self,
        out: &mut dyn Write,
        section: &Section<'_, Diagnostic>,
        sources: &Sources,
        (palette, full): (Palette, bool),
    ) -> fmt::Result {
        let mut problems: Diagnostics = section.things.iter().copied().cloned().collect();
        problems.sort(sources);
        let names = names(&self.sites, section.sites);
        heading(out, &names, &summary(&problems), palette)?;
        diagnostics::limited(out, &problems, sources, (palette, full))
    }

    /// Writes one JSON object: `format_version`, `valid`, `errors` and `warnings`, `sites`, and `problems`: what the same
    /// `sites` have in common, with their `diagnostics`.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn json(&self, out: &mut dyn Write, sources: &Sources) -> fmt::Result {
        let mut sections = Vec::new();
        for section in self.problems.sections() {
            let mut things = section.things;
            things.sort_by_cached_key(|each| {
                let place = each.mark.map(|mark| sources.place(mark));
                (place, each.code, each.message.clone())
            });
            sections.push((section.sites, things));
        }
        let (errors, warnings) = self.problems(sources).counts();
        let report = Report {
            format_version: FORMAT_VERSION,
            valid: !self.has_errors(),
            errors,
            warnings,
            sites: self
                .sites
                .iter()
                .map(|(site, validated)| One {
                    site,
                    valid: validated.errors == 0,
                    validated: *validated,
                })
                .collect(),
            problems: sections
                .iter()
                .map(|(sites, things)| Problems {
                    sites: names(&self.sites, sites),
                    diagnostics: things.iter().map(|each| problem(each, sources)).collect(),
                })
                .collect(),
        };
        json::pretty(out, &report)
    }
}
