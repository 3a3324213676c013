//! Failure domains: the machines of a rack, or those of which a label has one value, fail as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::read::texts;
use super::{NodeDesign, NodeName};
use crate::document::Node;

/// By what machines fail as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureDomain {
    /// Their rack.
    Rack,
    /// The value of a label.
    Label(Arc<str>),
}

/// A word that names no failure domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFailureDomain;

impl FromStr for FailureDomain {
    type Err = NoFailureDomain;

    fn from_str(text: &str) -> Result<Self, NoFailureDomain> {
        match text.strip_prefix("label:") {
            Some(label) if !label.is_empty() => Ok(Self::Label(label.into())),
            None if text == "rack" => Ok(Self::Rack),
            Some(_) | None => Err(NoFailureDomain),
        }
    }
}

impl fmt::Display for FailureDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rack => f.write_str("rack"),
            Self::Label(label) => write!(f, "label:{label}"),
        }
    }
}

impl FailureDomain {
    /// The domain of a machine; `None`: it is in none with others.
    #[must_use]
    pub fn of<'n>(&self, node: &'n NodeDesign) -> Option<&'n Arc<str>> {
        match self {
            Self::Rack => node.rack.as_ref(),
            Self::Label(label) => node.labels.get(label),
        }
    }
}

/// The failure domains of a site: machines out of service together are in one of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDomains {
    /// By what machines fail as one; none: nothing is known of it.
    pub by: BTreeSet<FailureDomain>,
    /// The default of ten machines and a quarter of each group holds beside them, since another revision has none.
    pub with_default_width: bool,
    /// The domains of machines in another revision whose domains hold, too, if they are others than in this one.
    pub elsewhere: BTreeMap<NodeName, BTreeSet<(FailureDomain, Arc<str>)>>,
}

impl FailureDomains {
    /// Reads the field of a Policy. A word that is no domain, which its schema refuses, is left out.
    pub(super) fn read(data: &Node) -> Self {
        let by = texts(data, "failure_domains").filter_map(|text| text.parse().ok());
        Self {
            by: by.collect(),
            ..Self::default()
        }
    }

    /// Whether the default of ten machines and a quarter of each group holds.
    #[must_use]
    pub fn holds_default_width(&self) -> bool {
        self.by.is_empty() || self.with_default_width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_written_as_it_is_read() {
        for text in ["rack", "label:feed", "label:topology.kubernetes.io/zone"] {
            let domain: FailureDomain = text.parse().unwrap();
            assert_eq!(domain.to_string(), text);
        }
        for text in ["", "racks", "label:", "feed"] {
            assert_eq!(text.parse::<FailureDomain>(), Err(NoFailureDomain));
        }
    }
}
