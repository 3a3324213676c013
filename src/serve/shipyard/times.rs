//! Times as Shipyard writes them.
//!
//! An id is a ULID, and the time in it is the one at which its action was asked for: every process tells the same.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::run::time_of_id;

/// The forms of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `2026-02-03 04:05:06.789012`.
    Plain,
    /// `2026-02-03 04:05:06.789012+00:00`.
    WithZone,
    /// `2026-02-03T04:05:06.789012Z`.
    Execution,
    /// `2026-02-03T04:05:06.789012`, in the ids of workflows.
    Workflow,
}

/// The time at which an id was made.
pub(super) fn of_id(id: &str) -> Timestamp {
    time_of_id(id).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A time in a form.
pub(super) fn format_time(time: Timestamp, form: Form) -> String {
    let format = match form {
        Form::Plain => "%Y-%m-%d %H:%M:%S%.6f",
        Form::WithZone => "%Y-%m-%d %H:%M:%S%.6f+00:00",
        Form::Execution => "%Y-%m-%dT%H:%M:%S%.6fZ",
        Form::Workflow => "%Y-%m-%dT%H:%M:%S%.6f",
    };
    time.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// A time of an event in a form; as it is where it is none.
pub(super) fn reshown(time: &str, form: Form) -> String {
    let parsed = time.parse::<Timestamp>();
    parsed.map_or_else(|_| time.to_owned(), |time| format_time(time, form))
}

/// A time or a day that a caller gives, in ISO 8601; without a zone it is UTC.
pub(super) fn given(text: &str) -> Option<Timestamp> {
    let utc = |date: jiff::civil::DateTime| date.to_zoned(TimeZone::UTC).ok();
    let day = |date: jiff::civil::Date| utc(date.at(0, 0, 0, 0));
    text.parse::<Timestamp>()
        .ok()
        .or_else(|| Some(utc(text.parse().ok()?)?.timestamp()))
        .or_else(|| Some(day(text.parse().ok()?)?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_forms_that_clients_know() {
        let id = ulid::Ulid::from_parts(1_770_091_506_789, 7).to_string();
        let time = of_id(&id);
        assert_eq!(format_time(time, Form::Plain), "2026-02-03 04:05:06.789000");
        assert_eq!(
            format_time(time, Form::WithZone),
            "2026-02-03 04:05:06.789000+00:00"
        );
        assert_eq!(
            format_time(time, Form::Execution),
            "2026-02-03T04:05:06.789000Z"
        );
        assert_eq!(
            format_time(time, Form::Workflow),
            "2026-02-03T04:05:06.789000"
        );
        assert_eq!(
            reshown("2026-02-03T04:05:06.789Z", Form::WithZone),
            "2026-02-03 04:05:06.789000+00:00"
        );
    }

    #[test]
    fn a_time_that_is_given_may_be_a_day() {
        let shown = |text: &str| given(text).map(|time| time.to_string());
        assert_eq!(shown("2026-02-03").as_deref(), Some("2026-02-03T00:00:00Z"));
        assert_eq!(
            shown("2026-02-03T04:05:06").as_deref(),
            Some("2026-02-03T04:05:06Z")
        );
        assert_eq!(
            shown("2026-02-03T04:05:06+02:00").as_deref(),
            Some("2026-02-03T02:05:06Z")
        );
        assert_eq!(shown("yesterday"), None);
    }
}
