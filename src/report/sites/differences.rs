//! The differences between two revisions of several sites: what the same sites have in common is shown once.

use std::fmt::{self, Write};

use serde::Serialize;

use super::common::Common;
use super::failures::{Failures, SiteFailure, names};
use super::{
    Columns, FORMAT_VERSION, ReportedSite, SHOWN_SECTIONS, heading, left_out, nothing, number,
};
use crate::diagnostic::{Diagnostics, Sources};
use crate::diff::DocumentDiff;
use crate::report::diff::{self, Difference};
use crate::report::{Palette, Role, counted, json};

/// The form of the differences of several sites.
#[derive(Clone, Copy, Debug)]
pub enum DifferencesForm {
    /// For people; in full or not.
    Text(Palette, bool),
    /// For programs.
    Json,
}

/// The differences of several sites.
#[derive(Debug)]
pub struct Differences {
    form: DifferencesForm,
    sites: Vec<(ReportedSite, Row)>,
    documents: Common<(Difference, String)>,
    failures: Failures,
}

/// How a site differs.
#[derive(Clone, Copy, Debug, Serialize)]
struct Row {
    state: DifferenceState,
    added: usize,
    removed: usize,
    changed: usize,
    unchanged: usize,
}

/// The state of a site in a report of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum DifferenceState {
    Failed,
    New,
    Changed,
    Unchanged,
}

#[derive(Serialize)]
struct One<'a> {
    #[serde(flatten)]
    site: &'a ReportedSite,
    #[serde(flatten)]
    row: Row,
}

impl Differences {
    /// Of these sites, of which nothing is known yet.
    #[must_use]
    pub fn new(sites: impl IntoIterator<Item = ReportedSite>, form: DifferencesForm) -> Self {
        let row = Row {
            state: DifferenceState::Failed,
            added: 0,
            removed: 0,
            changed: 0,
            unchanged: 0,
        };
        Self {
            form,
            sites: sites.into_iter().map(|site| (site, row)).collect(),
            documents: Common::default(),
            failures: Failures::default(),
        }
    }

    /// Adds how the documents of the site at a position differ.
    ///
    /// # Errors
    ///
    /// A value cannot be written as JSON.
    pub fn add(&mut self, position: usize, found: &DocumentDiff, sources: &Sources) -> fmt::Result {
        let documents = match self.form {
            DifferencesForm::Text(palette, _) => diff::each(found, sources, None, palette)?,
            DifferencesForm::Json => diff::each_as_json(found, sources)?,
        };
        for document in documents {
            self.documents.add(position, document);
        }
        if let Some((_, row)) = self.sites.get_mut(position) {
            *row = Row {
                state: match found.is_empty() {
                    true => DifferenceState::Unchanged,
                    false => DifferenceState::Changed,
                },
                added: found.added.len(),
                removed: found.removed.len(),
                changed: found.changed.len(),
                unchanged: found.unchanged,
            };
        }
        Ok(())
    }

    /// Adds that the site at a position is new; it has so many documents.
    pub fn add_new(&mut self, position: usize, documents: usize) {
        if let Some((_, row)) = self.sites.get_mut(position) {
            row.state = DifferenceState::New;
            row.added = documents;
        }
    }

    /// Adds what is wrong with the documents of the site at a position.
    pub fn add_problems(&mut self, position: usize, problems: Diagnostics) {
        for problem in problems {
            self.failures.problems.add(position, problem);
        }
    }

    /// Adds why the site at a position could not be compared.
    pub fn add_failure(&mut self, position: usize, failure: SiteFailure) {
        self.failures.failures.add(position, failure);
    }

    /// Writes the report in its form.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn write(&self, out: &mut dyn Write, sources: &Sources) -> fmt::Result {
        match self.form {
            DifferencesForm::Text(palette, full) => self.text(out, sources, palette, full),
            DifferencesForm::Json => self.json(out, sources),
        }
    }

    fn text(
        &self,
        out: &mut dyn Write,
        sources: &Sources,
        palette: Palette,
        full: bool,
    ) -> fmt::Result {
        if self.sites.is_empty() {
            return nothing(out);
        }
        let own = ["ADDED", "REMOVED", "CHANGED", "UNCHANGED"];
        let mut columns = Columns::new(self.sites.iter().map(|(site, _)| site), &own);
        for (site, row) in &self.sites {
            let state = match row.state {
                DifferenceState::Failed => (Role::Error, "failed"),
                DifferenceState::New => (Role::Added, "new"),
                DifferenceState::Changed => (Role::Changed, "changed"),
                DifferenceState::Unchanged => (Role::Success, "unchanged"),
            };
            let counts = [row.added, row.removed, row.changed, row.unchanged];
            columns.row(site, state, counts.map(number).into());
        }
        columns.table.write(out, palette)?;
        let most = if full { usize::MAX } else { SHOWN_SECTIONS };
        let shown = (palette, full, most);
        let left = self.failures.text(out, &self.sites, sources, shown)?;
        let sections = self.documents.sections();
        for section in sections.iter().take(most) {
            let about = counted(section.things.len(), "document differs", "documents differ");
            heading(out, &names(&self.sites, section.sites), &about, palette)?;
            for (_, text) in &section.things {
                out.write_str(text)?;
            }
        }
        left_out(out, left + sections.len().saturating_sub(most), palette)?;
        let with = |state| {
            let sites = self.sites.iter();
            sites.filter(|(_, row)| row.state == state).count()
        };
        writeln!(
            out,
            "\n{}: {} failed, {} new, {} changed, {} unchanged.",
            counted(self.sites.len(), "site", "sites"),
            with(DifferenceState::Failed),
            with(DifferenceState::New),
            with(DifferenceState::Changed),
            with(DifferenceState::Unchanged),
        )
    }

    /// One JSON object: `format_version`, `sites`, `differences`, which has what the same `sites` have in common as `added`,
    /// `removed` and `changed`, `failures` and `problems`.
    fn json(&self, out: &mut dyn Write, sources: &Sources) -> fmt::Result {
        let sites = self.sites.iter();
        let sites = sites.map(|(site, row)| One { site, row: *row });
        let sites = json::line(&sites.collect::<Vec<_>>())?;
        write!(
            out,
            "{{\"format_version\":{FORMAT_VERSION},\"sites\":{sites},\n\"differences\":["
        )?;
        for (position, section) in self.documents.sections().iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let of = json::line(&names(&self.sites, section.sites))?;
            write!(out, "{comma}\n{{\"sites\":{of}")?;
            for (name, kind) in [
                ("added", Difference::Added),
                ("removed", Difference::Removed),
                ("changed", Difference::Changed),
            ] {
                let things = section.things.iter().filter(|(each, _)| *each == kind);
                let texts: Vec<&str> = things.map(|(_, text)| text.as_str()).collect();
                write!(out, ",\"{name}\":[{}]", texts.join(","))?;
            }
            out.write_str("}")?;
        }
        let failures = self.failures.json(&self.sites, sources)?;
        writeln!(out, "],\n{failures}}}")
    }
}
