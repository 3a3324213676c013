//! The sites of a repository.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use super::FORMAT_VERSION;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, counted, json};

/// A site of a repository.
#[derive(Clone, Debug, Serialize)]
pub struct ListedSite {
    /// Its name.
    #[serde(rename = "site")]
    pub name: String,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// Why it cannot be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Writes sites as a table.
///
/// # Errors
///
/// Only if `out` fails.
pub fn list(out: &mut dyn Write, sites: &[ListedSite], palette: Palette) -> fmt::Result {
    let mut table = Table::new(&["SITE", "DEFINITION", "PROBLEM"]);
    for site in sites {
        let problem = site.problem.as_ref();
        table.row(vec![
            Cell::in_role(Role::Strong, site.name.as_str()),
            Cell::new(&*site.definition),
            problem.map_or_else(Cell::none, |text| Cell::in_role(Role::Error, text.as_str())),
        ]);
    }
    table.write(out, palette)?;
    writeln!(out, "{}", counted(sites.len(), "site", "sites"))
}

/// Writes sites as JSON.
///
/// # Errors
///
/// Only if `out` fails.
pub fn list_json(out: &mut dyn Write, sites: &[ListedSite]) -> fmt::Result {
    #[derive(Serialize)]
    struct All<'a> {
        format_version: u32,
        sites: &'a [ListedSite],
    }
    json::pretty(
        out,
        &All {
            format_version: FORMAT_VERSION,
            sites,
        },
    )
}
