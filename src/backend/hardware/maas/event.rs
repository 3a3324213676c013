//! Events of a machine: what tells after a crash whether an operation that must not be repeated was asked for.
//!
//! Before such an operation the newest event is noted durably. MAAS writes an event for each that it accepts, so
//! that a later process finds it among those that came after the noted one, whatever the machine has become since.

use std::sync::Arc;

use serde::Deserialize;

/// Some events.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Events {
    pub(super) events: Vec<Event>,
}

/// An event of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) id: u64,
    /// Its type, in words.
    #[serde(rename = "type")]
    pub(super) kind: Arc<str>,
    pub(super) description: Arc<str>,
}

/// An operation that must not be repeated blindly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    /// Commission the machine.
    Commission,
    /// Test it.
    Test,
    /// Deploy a system on it.
    Deploy,
    /// Take its system off.
    Release,
}

impl Once {
    /// The name of the operation in MAAS.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Commission => "commission",
            Self::Test => "test",
            Self::Deploy => "deploy",
            Self::Release => "release",
        }
    }

    /// The events that an accepted request leaves.
    fn signs(self) -> &'static [&'static str] {
        match self {
            Self::Commission => &["User starting node commissioning"],
            Self::Test => &["User starting node testing"],
            Self::Deploy => &["User starting deployment"],
            Self::Release => &["User releasing node", "User erasing disk"],
        }
    }

    /// The note before a request, followed by the id of the newest event.
    pub(super) fn note(self, newest: u64) -> String {
        format!("{}{newest}", self.prefix())
    }

    fn prefix(self) -> String {
        format!("{} is asked for after event ", self.as_str())
    }

    /// The newest event before the request, if one was noted.
    pub(super) fn noted(self, notes: &[Arc<str>]) -> Option<u64> {
        let prefix = self.prefix();
        notes
            .iter()
            .rev()
            .find_map(|note| note.strip_prefix(&prefix)?.parse().ok())
    }
}

/// The trace of an operation in the events of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// MAAS has not accepted it.
    None,
    /// It was accepted, and MAAS took it back by itself: the machine is what it was.
    Reverted,
    /// It was accepted.
    Accepted,
}

impl Trace {
    /// The trace of an operation in the events of a machine, the newest first, that came after one.
    pub(super) fn of(operation: Once, events: &[Event], after: u64) -> Self {
        let since = events.iter().take_while(|event| event.id > after).count();
        let is_sign = |event: &Event| operation.signs().contains(&&*event.kind);
        let position = events[..since].iter().position(is_sign);
        position.map_or(Self::None, |position| Self::since(&events[..position]))
    }

    /// The trace of an operation by the comment that it was asked for with; `None`: no event has it.
    pub(super) fn of_comment(operation: Once, events: &[Event], comment: &str) -> Option<Self> {
        let is_it = |event: &Event| {
            let is_sign = operation.signs().contains(&&*event.kind);
            is_sign && event.description.ends_with(comment)
        };
        let position = events.iter().position(is_it)?;
        Some(Self::since(&events[..position]))
    }

    /// The trace of an accepted operation, by the events after it.
    fn since(events: &[Event]) -> Self {
        let is_back = |event: &Event| event.description.contains("reverting to");
        match events.iter().any(is_back) {
            true => Self::Reverted,
            false => Self::Accepted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(kinds: &[(u64, &str, &str)]) -> Vec<Event> {
        let event = |(id, kind, description): &(u64, &str, &str)| Event {
            id: *id,
            kind: Arc::from(*kind),
            description: Arc::from(*description),
        };
        kinds.iter().map(event).collect()
    }

    #[test]
    fn only_what_came_after_the_note_tells_of_an_operation() {
        let deploy = (7, "User starting deployment", "(admin)");
        let back = (
            9,
            "Failed to query node's BMC",
            "(admin) - Aborting DEPLOYING and reverting to ALLOCATED.",
        );
        for (listed, after, expected) in [
            (vec![], 0, Trace::None),
            (vec![(8, "Deploying", ""), deploy], 7, Trace::None),
            (vec![(8, "Deploying", ""), deploy], 6, Trace::Accepted),
            (vec![back, (8, "Deploying", ""), deploy], 6, Trace::Reverted),
            (
                vec![(10, "User starting deployment", ""), back, deploy],
                6,
                Trace::Accepted,
            ),
        ] {
            assert_eq!(
                Trace::of(Once::Deploy, &events(&listed), after),
                expected,
                "{listed:?}"
            );
        }
    }

    #[test]
    fn a_comment_tells_of_an_operation_where_there_is_no_note() {
        let release = (7, "User releasing node", "(admin) - trueup R destroy/n1");
        let other = (9, "User releasing node", "(admin) - trueup Q destroy/n1");
        let listed = events(&[other, (8, "Releasing", ""), release]);
        let trace = |comment| Trace::of_comment(Once::Release, &listed, comment);
        assert_eq!(trace("trueup R destroy/n1"), Some(Trace::Accepted));
        assert_eq!(trace("trueup S destroy/n1"), None);
    }

    #[test]
    fn a_note_gives_the_newest_event_back_to_the_operation_that_it_is_of() {
        let notes = [Arc::from("else"), Arc::from(Once::Release.note(41))];
        assert_eq!(Once::Release.noted(&notes), Some(41));
        assert_eq!(Once::Deploy.noted(&notes), None);
    }
}
