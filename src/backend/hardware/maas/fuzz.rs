//! A MAAS that answers anything, for the fuzzers.

use http::StatusCode;

use super::api::Words;
use super::event::{Events, Once, Trace};
use super::machine::{Able, Machine};
use crate::backend::http::{Answer, Dialect};

/// Reads the same bytes as an error, a list of machines, one machine and events.
pub fn answer(data: &[u8]) {
    let no_controls = |text: &str| !text.chars().any(char::is_control);
    for status in [StatusCode::UNAUTHORIZED, StatusCode::CONFLICT] {
        let answer = Answer::invented(status, data);
        let words = Words.words(&answer);
        let text = String::from_utf8_lossy(data);
        let shows = |words: &String| data.len() > 8 && words.contains(&*text);
        assert!(status != StatusCode::UNAUTHORIZED || words.is_some_and(|words| !shows(&words)));
    }
    let answer = Answer::invented(StatusCode::OK, data);
    let machines: Vec<Machine> = answer.json().unwrap_or_default();
    for mut machine in machines.into_iter().chain(answer.json::<Machine>().ok()) {
        machine.complete("trueup", &std::collections::BTreeMap::new());
        let able = Able {
            erases: true,
            spares_disks: false,
            locks: true,
        };
        let seen = machine.observed(able);
        let shown = [seen.retired, seen.maintenance, seen.last_error];
        assert!(shown.iter().flatten().all(|text| no_controls(text)));
        assert!(no_controls(&machine.doing()) && no_controls(&machine.failed()));
    }
    if let Ok(events) = answer.json::<Events>() {
        Trace::of(Once::Release, &events.events, 0);
    }
}
