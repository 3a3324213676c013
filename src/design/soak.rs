//! The soak behind each wave, in which what a site runs has to stay healthy.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::read::{duration, texts};
use crate::document::Node;

/// The soak behind each wave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoakPolicy {
    /// Its seconds; 0: there is none.
    pub seconds: u64,
    /// The namespaces in which no pod may crash again and again.
    pub namespaces: BTreeSet<Arc<str>>,
}

impl SoakPolicy {
    /// Reads the field of a Policy.
    pub(super) fn read(data: &Node) -> Self {
        let Some(soak) = data.get("soak") else {
            return Self::default();
        };
        Self {
            seconds: duration(soak, "time").unwrap_or_default(),
            namespaces: texts(soak, "namespaces").collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Sources;
    use crate::document::{LoadSettings, load_values};

    fn seconds(time: &str) -> u64 {
        let text = format!("soak: {{time: {time}}}\n");
        let source = Sources::new().add("policy.yaml", text.as_str());
        let (values, _) = load_values(source, &text, &LoadSettings::default().limits);
        SoakPolicy::read(&values[0]).seconds
    }

    #[test]
    fn a_soak_that_is_too_long_is_the_longest_and_not_none() {
        assert_eq!(seconds("30m"), 1800);
        assert_eq!(seconds("60.0"), 60);
        for long in ["4294967296", "18446744073709551617", "9999999h"] {
            assert_eq!(seconds(long), 1_000_000_000, "{long}");
        }
    }
}
