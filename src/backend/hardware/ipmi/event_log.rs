//! The event log of a machine's controller (SEL): what it has noted since a step began, for the report of one that failed.
//!
//! It is read after a failure alone, and where it cannot be read the failure is told without it.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Span};

use super::Ipmi;
use super::program::Session;
use crate::backend::ActError;
use crate::backend::http::plain;

/// Entries that are told.
const MOST_ENTRIES: usize = 5;
/// Entries that are read.
const READ: &str = "10";
/// The longest text of an entry, in characters.
const LONGEST: usize = 160;
/// The time that all of it may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How much the clock of a controller may lag behind what it was read as: it counts whole seconds.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

impl Ipmi {
    /// The last entries since a time ago, oldest first; empty without any, or if they cannot be read.
    pub(super) async fn logged_since(&self, session: &Session, elapsed: Duration) -> Vec<String> {
        let read = tokio::time::timeout(TIMEOUT, self.read_log(session, elapsed)).await;
        match read {
            Ok(Ok(entries)) => entries,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    async fn read_log(
        &self,
        session: &Session,
        elapsed: Duration,
    ) -> Result<Vec<String>, ActError> {
        let now = self.ask(session, &["sel", "time", "get"]).await?;
        // Without its clock nothing tells which of the entries are new.
        let Some(now) = time_of(&now) else {
            return Ok(Vec::new());
        };
        let ago = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let ago = ago.checked_add(SLACK).unwrap_or(ago);
        let begin = Span::try_from(ago).ok();
        let begin = begin.and_then(|ago| now.checked_sub(ago).ok());
        let begin = begin.unwrap_or(DateTime::MIN);
        let listed = self.ask(session, &["sel", "list", "last", READ]).await?;
        let mut entries: Vec<String> = listed
            .lines()
            .filter_map(|line| entry(line, begin))
            .collect();
        let least = entries.len().saturating_sub(MOST_ENTRIES);
        Ok(entries.split_off(least))
    }
}

/// The time in a text such as `11/28/2026 05:10:00`, whose year may have two digits.
fn time_of(text: &str) -> Option<DateTime> {
    let mut words = text.split_whitespace();
    let mut parts = words
        .next()?
        .split('/')
        .map(|part| part.parse::<i16>().ok());
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if year < 100 { year + 2000 } else { year };
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let time: Time = words.next()?.parse().ok()?;
    Some(date.ok()?.to_datetime(time))
}

/// An entry in a line without `-v`, such as `1 | 11/28/2026 | 05:10:00 | Power Supply #0x51 | Failure detected | Asserted`,
/// if it is not older than a time.
fn entry(line: &str, begin: DateTime) -> Option<String> {
    let mut fields = line.split('|').map(str::trim);
    let (_, date, time) = (fields.next()?, fields.next()?, fields.next()?);
    let at = time_of(&format!("{date} {time}"))?;
    let (sensor, event) = (fields.next()?, fields.next()?);
    let state = fields.next().filter(|state| !state.is_empty());
    let state = state.map(|state| format!(" ({state})"));
    let event = (!event.is_empty()).then(|| format!(": {event}"));
    let (event, state) = (event.unwrap_or_default(), state.unwrap_or_default());
    let text = format!("{sensor}{event}{state}");
    let time = at.strftime("%H:%M:%S");
    (at >= begin).then(|| format!("{time} {}", plain(&text, LONGEST)))
}
