//! Columns of text, as wide as their widest cell on a terminal.

use std::fmt::{self, Write};

use super::escape::{visible, width};
use super::{Palette, Role};

/// A table with one line a row.
pub(super) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A cell: harmless text and its role.
pub(super) struct Cell {
    text: String,
    role: Option<Role>,
}

impl Cell {
    /// A text that is not painted.
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self {
            text: visible(text.as_ref()),
            role: None,
        }
    }

    /// A text in a role.
    pub(super) fn in_role(role: Role, text: impl AsRef<str>) -> Self {
        Self {
            role: Some(role),
            ..Self::new(text)
        }
    }

    /// An empty cell.
    pub(super) fn none() -> Self {
        Self::in_role(Role::Faint, "-")
    }

    /// A text, or an empty cell.
    pub(super) fn or_none(text: Option<impl AsRef<str>>) -> Self {
        match text {
            Some(text) if !text.as_ref().is_empty() => Self::new(text),
            _ => Self::none(),
        }
    }
}

impl Table {
    pub(super) fn new(heads: &[&'static str]) -> Self {
        Self {
            heads: heads.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Writes heads and rows; nothing is padded at the end of a line.
    pub(super) fn write(&self, out: &mut dyn Write, palette: Palette) -> fmt::Result {
        let mut widths: Vec<usize> = self.heads.iter().map(|head| width(head)).collect();
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(width(&cell.text));
            }
        }
        let mut pending = 0;
        for (head, most) in self.heads.iter().zip(&widths) {
            write!(out, "{:pending$}{}", "", palette.paint(Role::Strong, head))?;
            pending = most - width(head) + 2;
        }
        writeln!(out)?;
        for row in &self.rows {
            pending = 0;
            for (cell, most) in row.iter().zip(&widths) {
                write!(out, "{:pending$}", "")?;
                match cell.role {
                    Some(role) => write!(out, "{}", palette.paint(role, &cell.text))?,
                    None => write!(out, "{}", cell.text)?,
                }
                pending = most - width(&cell.text) + 2;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
