//! How a piece of text is painted, by what it means.
//!
//! Call sites name a [`Role`], never a colour, so that plain and coloured output come out of the same code.
//! Everything stays readable without colour: a role never carries a meaning that the text lacks.

use std::fmt;

use anstyle::{AnsiColor, Style};

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// An error, a failure.
    Error,
    /// A warning.
    Warning,
    /// The way out.
    Hint,
    /// A success.
    Success,
    /// The text that the eye should find first.
    Strong,
    /// The text that matters least.
    Faint,
    /// Something that comes.
    Added,
    /// Something that goes.
    Removed,
    /// Something that changes in place.
    Changed,
    /// Something that destroys data or takes a machine away.
    Destructive,
}

/// Whether text is painted, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Not at all.
    #[default]
    Plain,
    /// With the sixteen colours that every terminal has.
    Ansi,
}

impl Palette {
    /// The text in its role.
    pub fn paint<T>(self, role: Role, text: T) -> Painted<T> {
        Painted {
            style: self.style(role),
            text,
        }
    }

    fn style(self, role: Role) -> Style {
        if self == Self::Plain {
            return Style::new();
        }
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match role {
            Role::Error | Role::Destructive => colour(AnsiColor::Red).bold(),
            Role::Warning => colour(AnsiColor::Yellow).bold(),
            Role::Hint => colour(AnsiColor::Cyan),
            Role::Success | Role::Added => colour(AnsiColor::Green),
            Role::Strong => Style::new().bold(),
            Role::Faint => Style::new().dimmed(),
            Role::Removed => colour(AnsiColor::Red),
            Role::Changed => colour(AnsiColor::Yellow),
        }
    }
}

/// A text with its style; formats as the text, with width and alignment applied to the text alone.
#[derive(Clone, Copy, Debug)]
pub struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.style.render())?;
        self.text.fmt(f)?;
        write!(f, "{}", self.style.render_reset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes_and_painted_text_ends_its_colour() {
        assert_eq!(
            Palette::Plain.paint(Role::Error, "no").to_string(),
            "no".to_owned()
        );
        assert_eq!(
            Palette::Ansi.paint(Role::Added, "yes").to_string(),
            "\u{1b}[32myes\u{1b}[0m"
        );
        assert_eq!(
            format!("{:>4}|", Palette::Plain.paint(Role::Faint, "a")),
            "   a|"
        );
    }
}
