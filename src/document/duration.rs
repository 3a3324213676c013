//! Durations as documents and flags write them: a number of seconds, or days, hours, minutes and seconds such as `1h30m`.

use std::fmt;
use std::str::FromStr;

use jiff::{Span, SpanRelativeTo};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The longest duration, in seconds: somewhat more than thirty years.
const LONGEST: f64 = 1e9;

/// A duration in seconds. One that was written as a text is not negative; the bounds of a number are its setting's.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(f64);

impl Seconds {
    /// The longest duration in whole seconds.
    pub const MOST_WHOLE: u64 = LONGEST as u64;

    /// The seconds.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The seconds, if they are a whole number, and not negative.
    #[must_use]
    pub fn whole(self) -> Option<u64> {
        let is_whole = self.0.fract() == 0.0 && (0.0..=LONGEST).contains(&self.0);
        is_whole.then_some(self.0 as u64)
    }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a duration is a number of seconds, or days, hours, minutes and seconds such as `30d`, `1h30m`, `5m` or `90s`"
)]
pub struct NotDuration;

impl FromStr for Seconds {
    type Err = NotDuration;

    fn from_str(text: &str) -> Result<Self, NotDuration> {
        let seconds = match text.parse::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => {
                // A day has 24 hours here, and a week seven days.
                let span: Span = text.parse().map_err(|_| NotDuration)?;
                let days = SpanRelativeTo::days_are_24_hours();
                let duration = span.to_duration(days).map_err(|_| NotDuration)?;
                duration.as_secs_f64()
            }
        };
        match (0.0..=LONGEST).contains(&seconds) {
            true => Ok(Self(seconds)),
            false => Err(NotDuration),
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor)
    }
}

struct SecondsVisitor;

impl Visitor<'_> for SecondsVisitor {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of seconds, or a duration such as `5m`")
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Seconds, E> {
        Ok(Seconds(seconds))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Seconds, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Seconds, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_minutes_and_hours_are_read() {
        for (text, expected) in [
            ("90", 90.0),
            ("0", 0.0),
            ("0.25", 0.25),
            ("90s", 90.0),
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("2h", 7200.0),
            ("1m 30s", 90.0),
        ] {
            let read: Seconds = text.parse().unwrap();
            assert_eq!(read.get(), expected, "{text}");
        }
        for wrong in [
            "", "m", "5x", "-5m", "-1", "5m ago", "nan", "inf", "1e12", "1y",
        ] {
            assert_eq!(wrong.parse::<Seconds>(), Err(NotDuration), "{wrong}");
        }
        assert_eq!("1h".parse::<Seconds>().unwrap().whole(), Some(3600));
        assert_eq!("1500ms".parse::<Seconds>().unwrap().whole(), None);
    }
}
