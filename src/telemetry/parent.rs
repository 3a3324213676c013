//! The parent of a trace as W3C's Trace Context names it: in the environment of a command, or in the headers of a request.
//!
//! Both come from others. What is not of the form is ignored, as the recommendation asks, and so is what is too long.

use std::collections::HashMap;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The longest `tracestate` that is passed on, in bytes: what the recommendation asks for at least.
const LONGEST_STATE: usize = 512;

/// The bytes of a `traceparent` of the first version.
const LENGTH: usize = 55;

/// The context below a parent in another process; without one, or if it is not of the form, one without parent.
#[must_use]
pub fn parent(traceparent: Option<&str>, tracestate: Option<&str>) -> Context {
    let none = Context::new();
    let Some(traceparent) = traceparent.filter(|text| is_traceparent(text)) else {
        return none;
    };
    let mut fields = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    if let Some(state) = tracestate.filter(|state| state.len() <= LONGEST_STATE) {
        fields.insert("tracestate".to_owned(), state.to_owned());
    }
    TraceContextPropagator::new().extract_with_context(&none, &fields)
}

/// Whether a text is of the form `VERSION-TRACE-SPAN-FLAGS`; a version to come may have more behind another dash.
fn is_traceparent(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_fine = |(position, byte): (usize, &u8)| match position {
        2 | 35 | 52 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    let has_form = bytes.len() >= LENGTH && bytes[..LENGTH].iter().enumerate().all(is_fine);
    has_form
        && match &bytes[..2] {
            b"ff" => false,
            b"00" => bytes.len() == LENGTH,
            _ => bytes.len() <= LONGEST_STATE && bytes.get(LENGTH).is_none_or(|byte| *byte == b'-'),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::TraceContextExt as _;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn trace(traceparent: &str, tracestate: Option<&str>) -> Option<(String, String)> {
        let context = parent(Some(traceparent), tracestate);
        let span = context.span().span_context().clone();
        span.is_valid()
            .then(|| (span.trace_id().to_string(), span.trace_state().header()))
    }

    #[test]
    fn a_parent_of_the_form_is_taken_and_any_other_ignored() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736".to_owned();
        assert_eq!(trace(GOOD, None), Some((id.clone(), String::new())));
        let state = Some((id.clone(), "a=b".to_owned()));
        assert_eq!(trace(GOOD, Some("a=b")), state);
        let later = format!("cc{}-more", &GOOD[2..]);
        assert_eq!(trace(&later, None), Some((id.clone(), String::new())));
        // The parent counts without the state of other vendors if that is too long or broken.
        let long = format!("a={}", "b".repeat(600));
        for state in [&long, "no pair", "=", "a=\u{1}"] {
            let found = trace(GOOD, Some(state));
            assert_eq!(found.map(|(id, _)| id).as_ref(), Some(&id), "{state:?}");
        }
        let zeros = "0".repeat(32);
        for bad in [
            "",
            "00",
            "00-1-1-01",
            &format!("{GOOD}-more"),
            &format!(" {GOOD}"),
            &GOOD.to_uppercase(),
            &format!("ff{}", &GOOD[2..]),
            &format!("cc{}more", &GOOD[2..]),
            &format!("cc{}-{}", &GOOD[2..], "a".repeat(600)),
            &format!("00-{zeros}-00f067aa0ba902b7-01"),
            &format!("00-{id}-0000000000000000-01"),
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(trace(bad, None), None, "{bad}");
        }
    }
}
