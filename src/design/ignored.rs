//! Changes that a policy leaves as they are: by the paths of their fields, and by node.

use std::sync::Arc;

use regex::Regex;

use super::{NodeDesign, Selector};

/// Bytes of the longest pattern.
const LONGEST: usize = 256;

/// A pattern of the paths of fields (`networks.*.dns`): `*` is one name, `**` any number of them, and all that lies
/// below a field that it matches belongs to it.
#[derive(Clone, Debug)]
pub struct FieldPattern {
    text: Arc<str>,
    paths: Regex,
    /// A second pattern, for a whole path whose names are all parted by dots.
    dotted: Regex,
}

/// A text that is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern of fields is a path such as `networks.*.dns`, of at most 256 bytes")]
pub struct NoPattern;

impl FieldPattern {
    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a field, or what it is in, is meant.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.paths.is_match(path)
            || (path.contains("['")
                && self
                    .dotted
                    .is_match(&path.replace("['", ".").replace("']", "")))
    }
}

impl std::str::FromStr for FieldPattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let is_path = !text.is_empty() && text.len() <= LONGEST;
        // Three stars are no more than two.
        if !is_path || text.starts_with('.') || text.ends_with('.') || text.contains("***") {
            return Err(NoPattern);
        }
        let names = text.split("**").map(|part| {
            let parts = part.split('*').map(regex::escape);
            parts.collect::<Vec<_>>().join(r"[^.\[\]]*")
        });
        let names = names.collect::<Vec<_>>().join(".*");
        let paths = Regex::new(&format!(r"^(?s:{names})(?:[.\[]|$)")).map_err(|_| NoPattern)?;
        let dotted = Regex::new(&format!("^(?s:{names})$")).map_err(|_| NoPattern)?;
        Ok(Self {
            text: text.into(),
            paths,
            dotted,
        })
    }
}

/// An entry of `ignore_changes`.
#[derive(Clone, Debug)]
pub struct IgnoredChanges {
    /// Which nodes; none: all.
    pub selectors: Vec<Selector>,
    /// Which fields.
    pub paths: Vec<FieldPattern>,
    /// Why.
    pub reason: Arc<str>,
}

impl IgnoredChanges {
    /// Whether it is about a node.
    #[must_use]
    pub fn selects(&self, node: &NodeDesign) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|each| each.matches(node))
    }

    /// The pattern that a field matches.
    #[must_use]
    pub fn pattern_of(&self, path: &str) -> Option<&FieldPattern> {
        self.paths.iter().find(|pattern| pattern.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_fields_and_all_that_is_below_them() {
        for (pattern, matches, others) in [
            (
                "networks.*.dns",
                &[
                    "networks.oam.dns",
                    "networks.oam.dns.servers",
                    "networks.x.dns[0]",
                ][..],
                &[
                    "networks.oam.dnssec",
                    "networks.a.b.dns",
                    "networks.dns",
                    "x.networks.oam.dns",
                ][..],
            ),
            (
                "**.servers",
                &["networks.oam.dns.servers", "a.servers"],
                &["servers", "a.servers_2"],
            ),
            ("links", &["links", "links.uplink.mtu"], &["link", "linksx"]),
            ("a[0].b", &["a[0].b", "a[0].b.c"], &["a[1].b", "a0.b"]),
            ("a.*", &["a.b", "a.b[3]", "a.b.c"], &["a", "a[0]"]),
            // A name with dots may be written as plans do, or as any other; a part of it is none.
            (
                "a.b.org/c",
                &["a['b.org/c']", "a.b.org/c"],
                &["a['b.org/c.d']", "a['b.org/cd']"],
            ),
            ("a.b", &["a.b"], &["a['b.org/c']"]),
            ("a['b.org/c']", &["a['b.org/c']"], &["a['b.org/d']"]),
            ("a.**", &["a.b", "a['b.org/c']"], &["a"]),
            ("a.(b|c)+", &["a.(b|c)+"], &["a.b", "a.bc"]),
        ] {
            let pattern: FieldPattern = pattern.parse().unwrap();
            for path in matches {
                assert!(pattern.matches(path), "{} {path}", pattern.as_str());
            }
            for path in others {
                assert!(!pattern.matches(path), "{} {path}", pattern.as_str());
            }
        }
        for text in ["", ".a", "a.", "a.***.b", &"a".repeat(257)] {
            assert_eq!(
                text.parse::<FieldPattern>().err(),
                Some(NoPattern),
                "{text}"
            );
        }
    }
}
