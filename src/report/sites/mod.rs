//! Several sites in one report: a table with a line a site, what they have in common once, and a section a site.

mod common;
mod differences;
mod failures;
mod list;
mod plans;
mod validation;

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use super::table::{Cell, Table};
use super::{Palette, Role, Visible, counted};

pub use differences::{Differences, DifferencesForm};
pub use failures::SiteFailure;
pub use list::{ListedSite, list, list_json};
pub use plans::{PlanForm, PlanState, Plans};
pub use validation::{Validated, Validation};

/// The version of the JSON objects about several sites.
pub const FORMAT_VERSION: u32 = 1;

/// Sites whose names are shown where several have something in common, and sections that are shown of sites.
const SHOWN_NAMES: usize = 10;
const SHOWN_SECTIONS: usize = 50;

/// A site in a report about several.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedSite {
    /// Its name.
    #[serde(rename = "site")]
    pub name: String,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// Why it is affected, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected_by: Option<Affected>,
}

/// The touched files of a site.
#[derive(Clone, Debug, Serialize)]
pub struct Affected {
    /// The first few, each with the newest commit that touches it.
    pub files: Vec<AffectedFile>,
    /// How many there are.
    pub number: usize,
}

/// A touched file of a site.
#[derive(Clone, Debug, Serialize)]
pub struct AffectedFile {
    /// Its path.
    pub path: Arc<str>,
    /// The first digits of the newest commit that touches it.
    pub commit: String,
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, file) in self.files.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{} ({})", file.path, file.commit)?;
        }
        match self.number.saturating_sub(self.files.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The beginning of a table of sites: the columns that every command has, then its own, then why each is affected.
struct Columns {
    table: Table,
    is_affected: bool,
}

impl Columns {
    fn new<'s>(sites: impl Iterator<Item = &'s ReportedSite>, own: &[&'static str]) -> Self {
        let mut sites = sites.peekable();
        let is_affected = sites.peek().is_some_and(|site| site.affected_by.is_some());
        let mut heads = vec!["SITE", "STATE"];
        heads.extend(own);
        if is_affected {
            heads.push("AFFECTED BY");
        }
        Self {
            table: Table::new(&heads),
            is_affected,
        }
    }

    fn row(&mut self, site: &ReportedSite, (role, state): (Role, &str), own: Vec<Cell>) {
        let mut cells = vec![Cell::new(&site.name), Cell::in_role(role, state)];
        cells.extend(own);
        if self.is_affected {
            let why = site.affected_by.as_ref().map(ToString::to_string);
            cells.push(Cell::or_none(why));
        }
        self.table.row(cells);
    }
}

/// A number in a table; 0 is nothing.
fn number(number: usize) -> Cell {
    match number {
        0 => Cell::none(),
        _ => Cell::new(number.to_string()),
    }
}

/// The heading of a section about some sites.
fn heading(out: &mut dyn Write, sites: &[&str], about: &str, palette: Palette) -> fmt::Result {
    let text = match sites {
        [site] => format!("Site `{site}`: {about}"),
        _ => {
            let shown = sites.iter().take(SHOWN_NAMES);
            let names: Vec<String> = shown.map(|site| format!("`{site}`")).collect();
            let more = match sites.len() - names.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let number = counted(sites.len(), "site", "sites");
            format!("{number} ({}{more}): {about}", names.join(", "))
        }
    };
    writeln!(out, "\n{}\n", palette.paint(Role::Strong, Visible(&text)))
}

/// The line where no site is meant.
fn nothing(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "No site has a file that these commits touch.")
}

/// The line for sections that are not shown.
fn left_out(out: &mut dyn Write, sections: usize, palette: Palette) -> fmt::Result {
    if sections == 0 {
        return Ok(());
    }
    let more = counted(sections, "more section", "more sections");
    let line = format!("… and {more}; `--full` shows all");
    writeln!(out, "\n{}", palette.paint(Role::Faint, line))
}
