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
}
