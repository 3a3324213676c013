//! How long steps took in past runs: the newest values by kind of step and hardware profile.
//!
//! They stand beside the records, in one file of bounded size, so that no plan reads the events of past runs. They are
//! for estimates only: a file that cannot be read counts as none.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{self, Error};
use crate::record::{State, Store};
use crate::step::StepKind;

/// Values that are kept for each kind of step and hardware profile.
const KEPT: usize = 64;
/// Fewer values say too little.
const ENOUGH: usize = 5;
/// A year: no step takes longer, so a longer value is not a duration of one.
const LONGEST: u64 = 366 * 86_400_000;
/// Pairs of kind and profile at most: one more is not kept.
const MOST: usize = 1_000;

/// Recorded durations of steps that succeeded, in milliseconds, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    values: BTreeMap<(StepKind, Arc<str>), Vec<u64>>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Written {
    kind: StepKind,
    /// Empty for steps that have no node in the design.
    hardware_profile: Arc<str>,
    milliseconds: Vec<u64>,
}

impl Durations {
    /// The durations that the records hold.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn read(store: &Store<'_>, state: &State) -> Result<Self, Error> {
        let bytes = store.durations(state);
        let bytes = bytes.map_err(error::records("read the recorded durations"))?;
        Ok(bytes.map_or_else(Self::default, |bytes| Self::parsed(&bytes)))
    }

    /// The values of a kind of step on machines of a hardware profile, if there are enough of them.
    #[must_use]
    pub fn of(&self, kind: StepKind, hardware_profile: &str) -> Option<&[u64]> {
        let values = self.values.get(&(kind, Arc::from(hardware_profile)))?;
        (values.len() >= ENOUGH).then_some(values)
    }

    /// Adds a value.
    pub fn add(&mut self, kind: StepKind, hardware_profile: &Arc<str>, milliseconds: u64) {
        let key = (kind, hardware_profile.clone());
        if self.values.len() >= MOST && !self.values.contains_key(&key) {
            return;
        }
        let values = self.values.entry(key).or_default();
        if values.len() >= KEPT {
            values.remove(0);
        }
        values.push(milliseconds);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// These, and newer ones.
    pub(super) fn with(mut self, newer: &Self) -> Self {
        for ((kind, profile), values) in &newer.values {
            for value in values {
                self.add(*kind, profile, *value);
            }
        }
        self
    }

    fn parsed(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            // A kind that this program does not know is one of a newer one.
            if let Ok(line) = serde_json::from_slice::<Written>(line) {
                let believed = line.milliseconds.into_iter();
                for value in believed.filter(|value| *value <= LONGEST) {
                    all.add(line.kind, &line.hardware_profile, value);
                }
            }
        }
        all
    }

    /// The file: a line of JSON for each kind and profile, sorted.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ((kind, profile), values) in &self.values {
            let line = Written {
                kind: *kind,
                hardware_profile: profile.clone(),
                milliseconds: values.clone(),
            };
            // Writing text and numbers to memory does not fail.
            if serde_json::to_writer(&mut bytes, &line).is_ok() {
                bytes.push(b'\n');
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_values_are_kept_and_few_say_nothing() {
        let profile: Arc<str> = "generic".into();
        let mut old = Durations::default();
        for value in 0..4 {
            old.add(StepKind::Deploy, &profile, value);
        }
        assert_eq!(old.of(StepKind::Deploy, "generic"), None);
        let mut new = Durations::default();
        for value in 4..70 {
            new.add(StepKind::Deploy, &profile, value);
        }
        new.add(StepKind::VerifySite, &"".into(), 7);
        let both = old.with(&new);
        let expected: Vec<u64> = (6..70).collect();
        assert_eq!(both.of(StepKind::Deploy, "generic"), Some(&*expected));
        assert_eq!(both.of(StepKind::Deploy, "other"), None);
        assert_eq!(Durations::parsed(&both.to_bytes()), both);
    }

    #[test]
    fn a_file_that_is_damaged_or_newer_gives_what_can_be_read() {
        let text = "{\"kind\":\"deploy\",\"hardware_profile\":\"a\",\"milliseconds\":[1,2,3,4,5]}\nno JSON\n\
                    {\"kind\":\"teleport\",\"hardware_profile\":\"a\",\"milliseconds\":[1]}\n\
                    {\"kind\":\"prepare\",\"hardware_profile\":\"a\",\"milliseconds\":[-1]}\n\
                    {\"kind\":\"destroy\",\"hardware_profile\":\"a\",\"milliseconds\":[18446744073709551615]}\n";
        let all = Durations::parsed(text.as_bytes());
        assert_eq!(all.of(StepKind::Deploy, "a"), Some(&[1u64, 2, 3, 4, 5][..]));
        assert_eq!(all.values.len(), 1);
        let profiles = (0..2 * MOST).map(|number| Arc::from(format!("p{number}")));
        let mut many = Durations::default();
        profiles.for_each(|profile| many.add(StepKind::Deploy, &profile, 1));
        assert_eq!(many.values.len(), MOST);
    }
}
