//! Names, each its own type, so that a node is never taken for a group.
//!
//! A name is a shared string: cloning it costs a reference. [`NodeName::check`] and its brothers hold
//! what a name may be, since names become parts of step ids, git refs and file names.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name as a shared text.
            #[must_use]
            pub fn shared(&self) -> &Arc<str> {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// A machine: the name of its `drydock/BaremetalNode/v1`, and everywhere else too.
    NodeName
}
name! {
    /// A deployment group of the site's `shipyard/DeploymentStrategy/v1`.
    GroupName
}
name! {
    /// A site: one legal component of a git ref, unique ignoring case.
    SiteName
}
name! {
    /// An etcd cluster of the site's `promenade/EtcdClusters/v1`.
    ClusterName
}
name! {
    /// A run: a ULID, made greater than the one before it.
    RunId
}

/// The problem of a text as a name that becomes part of ids, refs and paths; `None` for a valid one.
///
/// Letters, digits, `.`, `-` and `_` are allowed, at most 255 bytes, beginning with a letter or digit,
/// not ending in `.` or `.lock`, and without `..` (git's rules for a component of a ref).
#[must_use]
pub fn name_problem(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is empty");
    }
    if text.len() > 255 {
        return Some("is longer than 255 bytes");
    }
    if !text.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Some("does not begin with a letter or a digit");
    }
    if text
        .chars()
        .any(|each| !(each.is_ascii_alphanumeric() || matches!(each, '.' | '-' | '_')))
    {
        return Some("has a character other than letters, digits, `.`, `-` and `_`");
    }
    if text.ends_with('.') || text.ends_with(".lock") || text.contains("..") {
        return Some("ends in `.` or `.lock`, or has `..`");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_or_a_path_would_choke_on_are_refused() {
        for good in ["n1", "cab23-r720-12", "node.example.org", "a_b"] {
            assert_eq!(name_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "../x",
            "a/b",
            "-n",
            "a..b",
            "x.lock",
            "a b",
            "a\u{1b}[31m",
            "ü",
        ] {
            assert!(name_problem(bad).is_some(), "{bad}");
        }
    }
}
