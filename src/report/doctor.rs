//! The checks of `trueup doctor`.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{Palette, Role, Visible, json};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// It works, with a risk.
    Warn,
    /// It does not work.
    Fail,
    /// Not checked, since an earlier check failed or nothing is there to check.
    #[serde(rename = "skip")]
    Skipped,
}

impl CheckState {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skipped => "skip",
        }
    }

    fn role(self) -> Role {
        match self {
            Self::Ok => Role::Success,
            Self::Warn => Role::Warning,
            Self::Fail => Role::Error,
            Self::Skipped => Role::Faint,
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject.
    pub check: &'static str,
    /// How it ended.
    pub state: CheckState,
    /// The finding.
    pub found: String,
    /// The next step, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Writes checks as lines.
///
/// # Errors
///
/// Only if `out` fails.
pub fn text(out: &mut dyn Write, checks: &[Check], palette: Palette) -> fmt::Result {
    let widest = checks.iter().map(|check| check.check.len()).max();
    let widest = widest.unwrap_or_default();
    for check in checks {
        let state = palette.paint(check.state.role(), format!("{:<4}", check.state.word()));
        let (name, found) = (check.check, Visible(&check.found));
        writeln!(out, "{state}  {name:<widest$}  {found}")?;
        if let Some(next) = &check.next {
            let arrow = palette.paint(Role::Hint, "next:");
            writeln!(out, "      {:<widest$}  {arrow} {}", "", Visible(next))?;
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (failed, warned) = (count(CheckState::Fail), count(CheckState::Warn));
    writeln!(
        out,
        "{} of {}, {}",
        super::counted(failed, "check failed", "checks failed"),
        checks.len(),
        super::counted(warned, "warning", "warnings")
    )
}

#[derive(Serialize)]
struct Checks<'a> {
    format_version: u32,
    checks: &'a [Check],
}

/// Writes checks as one JSON object: `format_version` and `checks`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn json(out: &mut dyn Write, checks: &[Check]) -> fmt::Result {
    json::pretty(
        out,
        &Checks {
            format_version: 1,
            checks,
        },
    )
}
