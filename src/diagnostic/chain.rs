//! An error with its causes in one line.

use std::error::Error;

/// An error and its causes, each after a colon; a cause that the text before repeats is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    without_code(text)
}

/// Leaves out the number that Rust puts behind an error of the operating system: its words say the same.
#[must_use]
pub fn without_code(mut text: String) -> String {
    const START: &str = " (os error ";
    while let Some(start) = text.find(START) {
        let number = &text[start + START.len()..];
        let Some(end) = number.find(')') else { break };
        if !number[..end].bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        text.replace_range(start..start + START.len() + end + 1, "");
    }
    text
}

/// The problem of a JSON text without its place, in words that are not of Rust.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "it is cut off".to_owned();
    }
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    if let Some(value) = text.strip_prefix("unknown variant ") {
        return format!("unknown value {value}");
    }
    let Some((found, expected)) = text.split_once(", expected ") else {
        return text.to_owned();
    };
    let is_number = ["u8", "u16", "u32", "u64", "usize", "i32", "i64"].contains(&expected);
    match expected {
        // A list of all fields says less than the one that is wrong.
        _ if expected.starts_with("one of ") && found.starts_with("unknown field") => {
            found.to_owned()
        }
        _ if is_number => format!("{found}, expected a whole number in its range"),
        _ if expected.starts_with("struct ") => format!("{found}, expected a map"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_error_of_the_system_is_left_out() {
        let table = [
            (
                "cannot read `x`: No such file (os error 2); create it",
                "cannot read `x`: No such file; create it",
            ),
            ("a (os error 2): b (os error 13)", "a: b"),
            ("named (os error x)", "named (os error x)"),
            ("open (os error 2", "open (os error 2"),
        ];
        for (text, expected) in table {
            assert_eq!(without_code(text.to_owned()), expected);
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failure {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn failure(text: &'static str, source: Option<Failure>) -> Failure {
        let source = source.map(Box::new);
        Failure { text, source }
    }

    #[test]
    fn each_cause_is_said_once() {
        let broken = failure("broken pipe", None);
        let repeats = failure("cannot be sent: broken pipe", Some(broken));
        let whole = failure("no answer", Some(repeats));
        assert_eq!(chain(&whole), "no answer: cannot be sent: broken pipe");
        assert_eq!(chain(&failure("alone", None)), "alone");
    }

    #[test]
    fn errors_in_json_are_told_without_words_of_rust() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Colour {
            Red,
            Blue,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wall {
            #[expect(dead_code, reason = "only read")]
            colour: Colour,
            #[expect(dead_code, reason = "only read")]
            width: u8,
        }
        let problem = |text: &str| json_problem(&serde_json::from_str::<Wall>(text).unwrap_err());
        for (text, expected) in [
            (
                "{\"colour\":\"rod\"",
                "unknown value `rod`, expected `red` or `blue`",
            ),
            (
                "{\"colr\":1}",
                "unknown field `colr`, expected `colour` or `width`",
            ),
            ("{\"colour\":\"red\"}", "missing field `width`"),
            ("{\"colour\":\"blue\",\"width\":", "it is cut off"),
            (
                "{\"width\":300}",
                "invalid value: integer `300`, expected a whole number in its range",
            ),
            ("[]", "invalid length 0, expected a map"),
        ] {
            assert_eq!(problem(text), expected);
        }
    }
}
