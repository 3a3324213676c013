//! The ticket of a request: the word by which another system knows the work.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The most characters: it stands in a line of a tag.
const MOST_CHARACTERS: usize = 100;

/// A ticket (`OPS-1234`): one word that a line of a tag, a record or a signed text can hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticket(Arc<str>);

impl Ticket {
    /// It as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text is no ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ticket is 1 to {MOST_CHARACTERS} letters, digits and `#./:_-`")]
pub struct NoTicket;

impl FromStr for Ticket {
    type Err = NoTicket;

    fn from_str(text: &str) -> Result<Self, NoTicket> {
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || "#./:_-".contains(char);
        match !text.is_empty() && text.len() <= MOST_CHARACTERS && text.chars().all(is_allowed) {
            true => Ok(Self(Arc::from(text))),
            false => Err(NoTicket),
        }
    }
}

impl TryFrom<String> for Ticket {
    type Error = NoTicket;

    fn try_from(text: String) -> Result<Self, NoTicket> {
        text.parse()
    }
}

impl From<Ticket> for String {
    fn from(ticket: Ticket) -> Self {
        ticket.0.as_ref().into()
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_one_short_word_of_one_line() {
        for text in ["OPS-1234", "#7", "tracker.example:8080/browse/OPS_1"] {
            let ticket: Ticket = text.parse().unwrap();
            let json = serde_json::to_string(&ticket).unwrap();
            assert_eq!(serde_json::from_str::<Ticket>(&json).unwrap(), ticket);
        }
        let long = "x".repeat(MOST_CHARACTERS + 1);
        for text in [
            "",
            "two words",
            "OPS-1\nrun: other",
            "\u{202e}OPS",
            "é",
            &long,
        ] {
            assert_eq!(text.parse::<Ticket>(), Err(NoTicket), "{text:?}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<Ticket>(&json).is_err(), "{text:?}");
        }
    }
}
