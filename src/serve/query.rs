//! Query parameters: each known, at most once, and what it claims to be.

use std::collections::BTreeMap;

use super::answer::Refusal;

/// The longest timeout that is taken, in seconds: thirty days.
const LONGEST: u64 = 30 * 24 * 3600;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the parameters that an operation knows.
    pub(super) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut found = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let listed = match known {
                    [] => "it takes none".to_owned(),
                    known => format!("it takes {}", known.join(", ")),
                };
                let name = crate::report::Visible(&name);
                return Err(Refusal::bad_request(format!(
                    "unknown parameter `{name}`: {listed}"
                )));
            }
            if found.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(Refusal::bad_request(format!(
                    "the parameter `{name}` is given twice"
                )));
            }
        }
        Ok(Self(found))
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A whole number of seconds.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(seconds) if is_number && seconds <= LONGEST => Ok(Some(seconds)),
            _ => Err(Refusal::bad_request(format!(
                "`{name}` must be a whole number of seconds, at most {LONGEST}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_single_and_whole_numbers() {
        let parse = |query: &str| Query::parse(Some(query), &["timeout", "grace-period"]);
        let query = parse("timeout=60&grace-period=%33%30").unwrap();
        assert_eq!(query.seconds("timeout"), Ok(Some(60)));
        assert_eq!(query.seconds("grace-period"), Ok(Some(30)));
        assert_eq!(parse("").unwrap().seconds("timeout"), Ok(None));
        for wrong in ["timeout=1&timeout=1", "time-out=1", "x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "-1",
            "+1",
            "1.5",
            "1h",
            "1e3",
            " 1",
            "99999999999999999999",
            "2592001",
        ] {
            let given = format!("timeout={}", wrong.replace('+', "%2B"));
            let query = parse(&given).unwrap();
            assert!(query.seconds("timeout").is_err(), "{wrong}");
        }
    }
}
