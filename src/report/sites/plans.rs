//! The plans of several sites.

use std::fmt::{self, Write};

use serde::Serialize;

use super::failures::{Failures, SiteFailure};
use super::{
    Columns, FORMAT_VERSION, ReportedSite, SHOWN_SECTIONS, heading, left_out, nothing, number,
};
use crate::diagnostic::{Diagnostics, Sources};
use crate::plan::{Change, ChangeKind, Plan, saved};
use crate::report::diagnostics::summary;
use crate::report::escape::{markdown_code, markdown_text};
use crate::report::json::{self, Escaped};
use crate::report::plan::{self, Comment, View};
use crate::report::table::Cell;
use crate::report::{Role, counted};

/// Sites in the table of a comment.
const SHOWN_ROWS: usize = 100;
/// Fewer bytes of a comment hold no plan.
const LEAST_BYTES: usize = 2_048;

/// The form of the plans of several sites.
#[derive(Clone, Copy, Debug)]
pub enum PlanForm {
    /// For people.
    Text(View),
    /// For programs.
    Json,
    /// For a pull request, in so many bytes.
    Markdown(usize),
}

/// The state of a site in a report of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// There is no plan: the documents have errors, or something else is wrong.
    Failed,
    /// Something in it is blocked.
    Blocked,
    /// Machines are wiped, or taken away.
    Destructive,
    /// Something is done.
    Changes,
    /// Nothing is done.
    NoChanges,
}

impl PlanState {
    /// The state of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut shown = plan.changes.iter().filter(|change| !change.excluded);
        if plan.is_blocked() {
            Self::Blocked
        } else if shown.clone().any(Change::is_disruptive) {
            Self::Destructive
        } else if shown.any(|change| change.kind != ChangeKind::None) || plan.unfinished.is_some() {
            Self::Changes
        } else {
            Self::NoChanges
        }
    }

    pub(in crate::report) fn shown(self) -> (Role, &'static str) {
        match self {
            Self::Failed => (Role::Error, "failed"),
            Self::Blocked => (Role::Destructive, "blocked"),
            Self::Destructive => (Role::Destructive, "destructive"),
            Self::Changes => (Role::Changed, "changes"),
            Self::NoChanges => (Role::Success, "no changes"),
        }
    }
}

/// The plans of several sites.
#[derive(Debug)]
pub struct Plans {
    form: PlanForm,
    sites: Vec<(ReportedSite, Row)>,
    failures: Failures,
}

/// The plan of a site, written down.
#[derive(Debug)]
struct Row {
    state: PlanState,
    /// The changes in a few words.
    headline: String,
    errors: usize,
    warnings: usize,
    /// The plan in the form of the report.
    text: String,
}

#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    site: &'a ReportedSite,
    state: PlanState,
    errors: usize,
    warnings: usize,
}

impl Plans {
    /// Of these sites, none of which is planned yet.
    #[must_use]
    pub fn new(sites: impl IntoIterator<Item = ReportedSite>, form: PlanForm) -> Self {
        let row = |site| {
            let row = Row {
                state: PlanState::Failed,
                headline: String::new(),
                errors: 0,
                warnings: 0,
                text: String::new(),
            };
            (site, row)
        };
        Self {
            form,
            sites: sites.into_iter().map(row).collect(),
            failures: Failures::default(),
        }
    }

    /// A plan in the form of the report.
    ///
    /// # Errors
    ///
    /// None: it is written into memory.
    pub fn written(&self, plan: &Plan) -> Result<String, fmt::Error> {
        let mut text = String::new();
        match self.form {
            PlanForm::Text(view) => plan::text(&mut text, plan, view)?,
            PlanForm::Markdown(most) => {
                let digest = saved::digest(plan);
                let comment = Comment {
                    max_bytes: most,
                    digest: Some(&digest),
                };
                plan::markdown(&mut text, plan, &comment)?;
            }
            PlanForm::Json => {
                let mut bytes = Vec::new();
                let written = saved::write_to(plan, &mut Escaped::new(&mut bytes));
                written.map_err(|_| fmt::Error)?;
                text = String::from_utf8(bytes).map_err(|_| fmt::Error)?;
            }
        }
        Ok(text)
    }

    /// Adds the plan of the site at a position, as it was written, whose documents have so many warnings.
    pub fn add(&mut self, position: usize, plan: &Plan, warnings: usize, text: String) {
        if let Some((_, row)) = self.sites.get_mut(position) {
            *row = Row {
                state: PlanState::of(plan),
                headline: plan::summary(plan).into_iter().next().unwrap_or_default(),
                errors: 0,
                warnings,
                text,
            };
        }
    }

    /// Adds what is wrong with the documents of the site at a position.
    pub fn add_problems(&mut self, position: usize, problems: Diagnostics) {
        if let Some((_, row)) = self.sites.get_mut(position) {
            (row.errors, row.warnings) = problems.counts();
            row.headline = summary(&problems);
        }
        for problem in problems {
            self.failures.problems.add(position, problem);
        }
    }

    /// Adds why the site at a position has no plan.
    pub fn add_failure(&mut self, position: usize, failure: SiteFailure) {
        if let Some((_, row)) = self.sites.get_mut(position) {
            row.errors = 1;
            row.headline.clone_from(&failure.message);
        }
        self.failures.failures.add(position, failure);
    }

    fn count(&self, state: PlanState) -> usize {
        let sites = self.sites.iter();
        sites.filter(|(_, row)| row.state == state).count()
    }

    /// The counts of sites by their state.
    fn counts(&self) -> String {
        let states = [
            PlanState::Failed,
            PlanState::Blocked,
            PlanState::Destructive,
            PlanState::Changes,
            PlanState::NoChanges,
        ];
        let counted_states = states.iter().filter_map(|state| {
            let number = self.count(*state);
            (number > 0).then(|| format!("{number} {}", state.shown().1))
        });
        let counted_states: Vec<String> = counted_states.collect();
        let all = counted(self.sites.len(), "site", "sites");
        match counted_states.is_empty() {
            true => format!("{all}."),
            false => format!("{all}: {}.", counted_states.join(", ")),
        }
    }

    /// Writes the report in its form.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn write(&self, out: &mut dyn Write, sources: &Sources) -> fmt::Result {
        match self.form {
            PlanForm::Text(view) => self.text(out, sources, view),
            PlanForm::Json => self.json(out, sources),
            PlanForm::Markdown(most) => out.write_str(&self.markdown(most)),
        }
    }

    /// The table, what stands in the way, each once, and a section for each site in which something changes.
    fn text(&self, out: &mut dyn Write, sources: &Sources, view: View) -> fmt::Result {
        let View { palette, full, .. } = view;
        if self.sites.is_empty() {
            return nothing(out);
        }
        let own = ["CHANGES", "ERRORS", "WARNINGS"];
        let mut columns = Columns::new(self.sites.iter().map(|(site, _)| site), &own);
        for (site, row) in &self.sites {
            let own = vec![
                Cell::new(&row.headline),
                number(row.errors),
                number(row.warnings),
            ];
            columns.row(site, row.state.shown(), own);
        }
        columns.table.write(out, palette)?;
        let shown = if full { usize::MAX } else { SHOWN_SECTIONS };
        let most = (palette, full, shown);
        let left = self.failures.text(out, &self.sites, sources, most)?;
        let changing = self
            .sites
            .iter()
            .filter(|(_, row)| !matches!(row.state, PlanState::Failed | PlanState::NoChanges));
        let left = left + changing.clone().count().saturating_sub(shown);
        for (site, row) in changing.take(shown) {
            heading(out, &[&site.name], row.state.shown().1, palette)?;
            out.write_str(&row.text)?;
        }
        left_out(out, left, palette)?;
        writeln!(out, "\n{}", palette.paint(Role::Strong, self.counts()))
    }

    /// One JSON object: `format_version`, `sites`, each with its `plan` as it is saved if there is one, `failures` and
    /// `problems`, each with the `sites` that have them.
    fn json(&self, out: &mut dyn Write, sources: &Sources) -> fmt::Result {
        write!(out, "{{\"format_version\":{FORMAT_VERSION},\"sites\":[")?;
        for (position, (site, row)) in self.sites.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let head = json::line(&Head {
                site,
                state: row.state,
                errors: row.errors,
                warnings: row.warnings,
            })?;
            let head = head.strip_suffix('}').unwrap_or(&head);
            let plan = match row.text.trim_end() {
                "" => "null",
                plan => plan,
            };
            write!(out, "{comma}\n{head},\"plan\":{plan}}}")?;
        }
        let failures = self.failures.json(&self.sites, sources)?;
        writeln!(out, "],\n{failures}}}")
    }

    /// A comment of a pull request: the table, then as many plans as there is space for.
    fn markdown(&self, most: usize) -> String {
        let mut page = format!(
            "<!-- trueup:plan sites -->\n### Plans of {}\n\n**{}**\n\n| site | state | changes |\n| --- | --- | --- |\n",
            counted(self.sites.len(), "site", "sites"),
            markdown_text(&self.counts()),
        );
        let mut rows: Vec<&(ReportedSite, Row)> = self.sites.iter().collect();
        // What a reviewer has to see stands first.
        rows.sort_by_key(|(_, row)| row.state as u8);
        let mut shown = 0;
        for (site, row) in rows.iter().take(SHOWN_ROWS) {
            let line = format!(
                "| {} | {} | {} |\n",
                markdown_code(&site.name),
                row.state.shown().1,
                markdown_text(&row.headline).replace('|', "\\|")
            );
            if page.len() + line.len() > most / 2 {
                break;
            }
            page.push_str(&line);
            shown += 1;
        }
        if shown < rows.len() {
            let _ = writeln!(page, "\n… and {} more in the table", rows.len() - shown);
        }
        let mut left = 0;
        for (_, row) in rows.iter().filter(|(_, row)| !row.text.is_empty()) {
            if row.state == PlanState::NoChanges {
                continue;
            }
            // The marker of a comment about one site would be found in the place of that one.
            let (_, plan) = row.text.split_once('\n').unwrap_or(("", &row.text));
            if page.len() + plan.len() + LEAST_BYTES > most {
                left += 1;
                continue;
            }
            page.push('\n');
            page.push_str(plan);
        }
        if left > 0 {
            let more = counted(left, "more plan", "more plans");
            let _ = writeln!(page, "\n… and {more}: `trueup plan --site NAME` shows one");
        }
        let mut end = most.min(page.len());
        while !page.is_char_boundary(end) {
            end -= 1;
        }
        page.truncate(end);
        page
    }
}
