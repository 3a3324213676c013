//! Query parameters: each known, at most once, and what it claims to be.

use std::collections::BTreeMap;

use super::answer::Refusal;

/// The longest timeout that is taken, in seconds: thirty days.
const LONGEST: u64 = 30 * 24 * 3600;

/// Which parameter may come again, each with a value of its own.
const REPEATED: &str = "versions";

/// How many notes are wanted, from 0 to 5.
pub(super) const VERBOSITY: &str = "verbosity";

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadParameter {
    /// Its name, as it may be shown.
    pub(super) name: String,
    /// Why not.
    pub(super) problem: ParameterProblem,
}

/// Why a parameter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParameterProblem {
    /// The operation does not know it, but those.
    Unknown(Vec<String>),
    /// It came before.
    Twice,
    /// It has to be something else.
    Not(&'static str),
}

impl BadParameter {
    fn new(name: &str, problem: ParameterProblem) -> Self {
        let name = crate::report::Visible(name).to_string();
        Self { name, problem }
    }
}

impl From<BadParameter> for Refusal {
    fn from(bad: BadParameter) -> Self {
        let name = bad.name;
        Self::bad_request(match bad.problem {
            ParameterProblem::Unknown(known) if known.is_empty() => {
                format!("unknown parameter `{name}`: it takes none")
            }
            ParameterProblem::Unknown(known) => {
                format!("unknown parameter `{name}`: it takes {}", known.join(", "))
            }
            ParameterProblem::Twice => format!("the parameter `{name}` is given twice"),
            ParameterProblem::Not(wanted) => format!("`{name}` must be {wanted}"),
        })
    }
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    /// Reads the parameters that an operation knows.
    pub(super) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, BadParameter> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let bad = |problem| Err(BadParameter::new(&name, problem));
            if !known.contains(&&*name) {
                let known = known.iter().map(|name| (*name).to_owned());
                return bad(ParameterProblem::Unknown(known.collect()));
            }
            let values = found.entry(name.to_string()).or_default();
            if !values.is_empty() && name != REPEATED {
                return bad(ParameterProblem::Twice);
            }
            values.push(value.into_owned());
        }
        let query = Self(found);
        query.verbosity()?;
        Ok(query)
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    /// All that a parameter names, between commas or again.
    pub(super) fn list<'q>(&'q self, name: &str) -> impl Iterator<Item = &'q str> + use<'q> {
        let values = self.0.get(name).into_iter().flatten();
        let words = values.flat_map(|value| value.split(','));
        words.filter(|word| !word.is_empty())
    }

    /// A parameter that is true or false; absent it is false.
    pub(super) fn flag(&self, name: &str) -> Result<bool, BadParameter> {
        let wrong = || BadParameter::new(name, ParameterProblem::Not("`true` or `false`"));
        match self.text(name) {
            None => Ok(false),
            Some(text) => truth(text).ok_or_else(wrong),
        }
    }

    /// How many notes are wanted.
    pub(super) fn verbosity(&self) -> Result<u8, BadParameter> {
        let Some(text) = self.text(VERBOSITY) else {
            return Ok(1);
        };
        let number = text.parse().ok().filter(|number| *number <= 5);
        let wrong = ParameterProblem::Not("a number from 0 to 5");
        number.ok_or_else(|| BadParameter::new(VERBOSITY, wrong))
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

/// A text as true or false.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" | "" | "none" => Some(false),
        _ => None,
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
