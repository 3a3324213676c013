//! The text that an approval signs.
//!
//! It names the repository, the site, the effect and the time until which it counts, so that it cannot be used for anything
//! else, and a random number, so that no two approvals are the same.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::design::Ticket;

/// The purpose that git signs commits and tags for.
pub(super) const GIT: &str = "git";

/// The purpose that approvals are signed for.
pub const NAMESPACE: &str = "trueup-approval@v1";

/// The longest time that an approval may count.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 30);

/// How far the clock of an approver may be ahead.
const AHEAD: SignedDuration = SignedDuration::from_mins(10);

const TITLE: &str = "trueup approval, version 1";

/// An approval before it is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The repository, as its remote calls it.
    pub repository: String,
    /// The site.
    pub site: String,
    /// The digest of the plan's effect, all its digits.
    pub effect: String,
    /// The run that it is for, which had begun without: it begins no other.
    pub run: Option<String>,
    /// The ticket of the plan.
    pub ticket: Option<Ticket>,
    /// When it was made.
    pub issued: Timestamp,
    /// Until when it counts.
    pub expires: Timestamp,
    /// A random number.
    pub nonce: String,
}

impl fmt::Display for Statement {
    /// The text that is signed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        for (name, value) in self.fields() {
            writeln!(f, "{name}: {value}")?;
        }
        Ok(())
    }
}

impl Statement {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("repository", self.repository.clone()),
            ("site", self.site.clone()),
            ("effect", format!("sha256:{}", self.effect)),
        ];
        fields.extend(self.run.clone().map(|run| ("run", run)));
        fields.extend(self.ticket.clone().map(|ticket| ("ticket", ticket.into())));
        fields.extend([
            ("issued", self.issued.to_string()),
            ("expires", self.expires.to_string()),
            ("nonce", self.nonce.clone()),
        ]);
        fields
    }

    /// Reads a text that is written as [`Statement`] writes it, byte by byte: nothing else was meant by who signed it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n').peekable();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let mut field = |name: &str| {
            let value = lines.peek()?.strip_prefix(name)?.strip_prefix(": ")?;
            lines.next();
            Some(value)
        };
        let statement = Self {
            repository: field("repository")?.to_owned(),
            site: field("site")?.to_owned(),
            effect: field("effect")?.strip_prefix("sha256:")?.to_owned(),
            run: field("run").map(str::to_owned),
            ticket: match field("ticket") {
                Some(ticket) => Some(ticket.parse().ok()?),
                None => None,
            },
            issued: field("issued")?.parse().ok()?,
            expires: field("expires")?.parse().ok()?,
            nonce: field("nonce")?.to_owned(),
        };
        (statement.to_string() == text).then_some(statement)
    }

    /// Why it does not count now for what needs it at a time, which is now or has passed; `None`: it does.
    #[must_use]
    pub fn untimely(&self, now: Timestamp, needed: Timestamp) -> Option<String> {
        let after = |later: Timestamp, earlier: Timestamp| later.duration_since(earlier);
        if needed >= self.expires || self.issued >= self.expires {
            return Some(format!("it has expired at {}", self.expires));
        }
        if after(self.issued, now) > AHEAD {
            return Some(format!("it was made at {}, which is to come", self.issued));
        }
        (after(self.expires, self.issued) > LONGEST).then(|| {
            let days = LONGEST.as_hours() / 24;
            format!("it counts until {}, longer than {days} days", self.expires)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        Statement {
            repository: "git.example/team/site".to_owned(),
            site: "edge".to_owned(),
            effect: "ab".repeat(32),
            run: None,
            ticket: None,
            issued: "2030-01-01T00:00:00Z".parse().unwrap(),
            expires: "2030-01-08T00:00:00Z".parse().unwrap(),
            nonce: "1f".to_owned(),
        }
    }

    #[test]
    fn a_statement_is_read_as_it_was_written_and_in_no_other_way() {
        let text = statement().to_string();
        assert_eq!(Statement::read(&text), Some(statement()));
        let of_run = Statement {
            run: Some("01J".to_owned()),
            ..statement()
        };
        assert_eq!(Statement::read(&of_run.to_string()), Some(of_run));
        let of_ticket = Statement {
            ticket: Some("OPS-1".parse().unwrap()),
            ..statement()
        };
        let ticket_text = of_ticket.to_string();
        assert_eq!(Statement::read(&ticket_text), Some(of_ticket));
        assert_eq!(
            Statement::read(&ticket_text.replace("OPS-1", "OPS 1")),
            None
        );
        for other in [
            text.replace("repository", "Repository"),
            text.replace("nonce: 1f\n", "nonce: 1f"),
            text.replace("nonce: 1f\n", "nonce: 1f\n\n"),
            text.replace("00:00:00Z", "00:00:00+00:00"),
            text.replace("sha256:", ""),
            text.replace("site: edge\n", "site: edge\nsite: core\n"),
            text.replace('\n', "\r\n"),
            format!("\n{text}"),
            String::new(),
        ] {
            assert_eq!(Statement::read(&other), None, "{other:?}");
        }
    }

    #[test]
    fn an_approval_counts_from_its_making_to_its_end_and_for_a_month_at_most() {
        let untimely =
            |it: Statement, now: &str| it.untimely(now.parse().unwrap(), now.parse().unwrap());
        let counts = |now: &str| untimely(statement(), now).is_none();
        assert!(counts("2030-01-01T00:00:00Z"));
        assert!(counts("2030-01-07T23:59:59Z"));
        assert!(!counts("2030-01-08T00:00:00Z"));
        assert!(
            counts("2029-12-31T23:51:00Z"),
            "a clock may be a little behind"
        );
        assert!(!counts("2029-12-31T23:00:00Z"));
        let endless = Statement {
            expires: "2099-01-01T00:00:00Z".parse().unwrap(),
            ..statement()
        };
        let why = untimely(endless, "2030-01-02T00:00:00Z");
        assert!(why.unwrap().contains("longer than 30 days"));
        // One that is given for a run which has begun holds from then on.
        let later = |needed: &str| {
            let now = "2030-03-01T00:00:00Z".parse().unwrap();
            statement().untimely(now, needed.parse().unwrap())
        };
        assert_eq!(later("2029-12-31T00:00:00Z"), None);
        assert!(
            later("2030-01-09T00:00:00Z").is_some(),
            "it was over before"
        );
        let never = Statement {
            expires: statement().issued,
            ..statement()
        };
        assert!(untimely(never, "2029-12-31T23:59:00Z").is_some());
    }
}
