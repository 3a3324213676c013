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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
