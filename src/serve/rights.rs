//! The rights of a caller: a role in the whole site, and further ones in parts of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::Role;
use super::answer::Refusal;
use super::policy::{Operation, Reach};
use crate::guard::{WordError, check_word};
use crate::workflow::Failure;

/// The role in the whole site, and those in parts of it, by the words that mean their machines.
///
/// In the settings: the name of a role, or a map such as `{operator: [group:compute, rack:r2]}`. What is bound so reads
/// the whole site.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Given")]
pub struct Rights {
    everywhere: Role,
    parts: BTreeMap<Role, BTreeSet<Arc<str>>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected `viewer`, `operator` or `admin`, or a map of `operator` and `admin` to lists of words such as \
                 `group:compute`, `rack:r2` or a name"
)]
enum Given {
    Role(Role),
    Parts(BTreeMap<Role, BTreeSet<Arc<str>>>),
}

impl TryFrom<Given> for Rights {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        let parts = match given {
            Given::Role(role) => return Ok(Self::everywhere(role)),
            Given::Parts(parts) => parts,
        };
        if parts.contains_key(&Role::Viewer) {
            let text = "`viewer` is not bound to machines: each role reads the whole site";
            return Err(text.to_owned());
        }
        if parts.is_empty() || parts.values().any(BTreeSet::is_empty) {
            let text = "a role that is bound to no machine; `viewer` reads and does nothing else";
            return Err(text.to_owned());
        }
        let words = parts.values().flatten();
        for word in words {
            check_word(word).map_err(|error: WordError| error.to_string())?;
        }
        Ok(Self {
            everywhere: Role::Viewer,
            parts,
        })
    }
}

impl Rights {
    /// A role in the whole site.
    #[must_use]
    pub const fn everywhere(role: Role) -> Self {
        Self {
            everywhere: role,
            parts: BTreeMap::new(),
        }
    }

    /// The rights of a caller to whom several were given; none: it has none at all.
    pub(super) fn all_of<'a>(given: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut given = given.into_iter();
        let mut all = given.next()?.clone();
        for each in given {
            all.everywhere = all.everywhere.max(each.everywhere);
            for (role, words) in &each.parts {
                all.parts
                    .entry(*role)
                    .or_default()
                    .extend(words.iter().cloned());
            }
        }
        Some(all)
    }

    /// The highest role, wherever it is had.
    pub(super) fn highest(&self) -> Role {
        let bound = self.parts.last_key_value().map(|(role, _)| *role);
        bound.map_or(self.everywhere, |role| role.max(self.everywhere))
    }

    /// The words that its parts are named by.
    pub(super) fn words(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parts.values().flatten()
    }

    /// The permission for an operation.
    ///
    /// # Errors
    ///
    /// Nothing of it.
    pub(super) fn permit(&self, operation: Operation) -> Result<Permit, Refusal> {
        let (policy, least) = operation.policy();
        let permit = |parts| Permit {
            policy,
            least,
            parts,
        };
        if self.everywhere >= least {
            return Ok(permit(None));
        }
        let parts: BTreeSet<Arc<str>> = self
            .parts
            .range(least..)
            .flat_map(|(_, words)| words.iter().cloned())
            .collect();
        let lacks = match (operation.reach(), parts.is_empty()) {
            (Reach::Anywhere, false) => return Ok(permit(None)),
            (Reach::Machines, false) => return Ok(permit(Some(parts))),
            (Reach::Site, false) => {
                format!("the caller has it for {} alone", listed(&parts))
            }
            (_, true) => format!("the caller has `{}`", self.highest().as_str()),
        };
        let least = least.as_str();
        Err(Refusal::forbidden(&format!(
            "`{policy}` needs the role `{least}`, and {lacks}"
        )))
    }
}

/// Which machines the words mean that parts of a site are named by.
pub(super) trait Parts {
    /// Whether a word means a node.
    fn means(&self, word: &str, node: &str) -> bool;
}

/// The permission to carry an operation out: on every machine, or on those of some parts of the site.
#[derive(Clone, Debug)]
#[must_use = "a permission may be one for some machines alone"]
pub(super) struct Permit {
    policy: &'static str,
    least: Role,
    /// The words that mean the machines; none: all.
    parts: Option<BTreeSet<Arc<str>>>,
}

impl Permit {
    /// Refuses machines for which the permission is not given, by the committed design, whichever one a request names.
    pub(super) fn covers<'n, P: Parts>(
        &self,
        nodes: impl IntoIterator<Item = &'n str>,
        site: impl FnOnce() -> Result<Arc<P>, Failure>,
    ) -> Result<(), Refusal> {
        let Some(parts) = &self.parts else {
            return Ok(());
        };
        let site = site()?;
        let is_covered = |node: &str| parts.iter().any(|word| site.means(word, node));
        let mut others = nodes.into_iter().filter(|node| !is_covered(node));
        match others.next() {
            None => Ok(()),
            Some(node) => Err(self.refusal(node, others.count())),
        }
    }

    /// Whether it is for every machine.
    pub(super) fn is_whole(&self) -> bool {
        self.parts.is_none()
    }

    /// Refuses what cannot be told by machines, unless every machine is permitted.
    pub(super) fn covers_all(&self) -> Result<(), Refusal> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(self.refusal("the site", 0)),
        }
    }

    fn refusal(&self, node: &str, further: usize) -> Refusal {
        let more = match further {
            0 => String::new(),
            further => format!(" and {further} more"),
        };
        let words = self.parts.as_ref().map(listed).unwrap_or_default();
        let (policy, least) = (self.policy, self.least.as_str());
        let node = crate::report::Visible(node);
        Refusal::forbidden(&format!(
            "`{policy}` on {node}{more} needs the role `{least}` there, and the caller has it for {words} alone"
        ))
    }
}

fn listed(words: &BTreeSet<Arc<str>>) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(text: &str) -> Result<Rights, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    fn why(permitted: Result<Permit, Refusal>) -> String {
        permitted.unwrap_err().status().message.clone()
    }

    #[test]
    fn a_role_that_is_bound_reads_the_whole_site_and_acts_in_its_parts() {
        let bound = rights("{operator: [rack:r2], admin: [n1]}").unwrap();
        assert!(bound.permit(Operation::ReadSite).unwrap().parts.is_none());
        assert!(bound.permit(Operation::CreatePlan).unwrap().parts.is_none());
        let parts = |operation| listed(&bound.permit(operation).unwrap().parts.unwrap());
        assert_eq!(parts(Operation::Drain), "`n1`, `rack:r2`");
        assert_eq!(parts(Operation::ApplyPlan), "`n1`");
        let refused = why(bound.permit(Operation::CommitConfigdocs));
        assert!(
            refused.ends_with("needs the role `admin`, and the caller has it for `n1` alone"),
            "{refused}"
        );
        let operator = rights("{operator: [rack:r2]}").unwrap();
        let refused = why(operator.permit(Operation::ApplyPlan));
        assert!(refused.ends_with("the caller has `operator`"), "{refused}");
        assert!(operator.permit(Operation::ControlAction).is_err());
    }

    #[test]
    fn several_rights_count_together() {
        let given = ["operator", "{admin: [rack:r1]}", "{admin: [rack:r2]}"].map(rights);
        let given = given.map(Result::unwrap);
        let all = Rights::all_of(&given).unwrap();
        assert!(all.permit(Operation::Drain).unwrap().parts.is_none());
        let applied = all.permit(Operation::ApplyPlan).unwrap();
        assert_eq!(listed(&applied.parts.unwrap()), "`rack:r1`, `rack:r2`");
        assert_eq!(all.highest(), Role::Admin);
        assert_eq!(Rights::all_of([]), None);
    }

    #[test]
    fn rights_that_mean_nothing_or_more_than_they_seem_to_are_refused() {
        for wrong in [
            "owner",
            "{}",
            "{operator: []}",
            "{viewer: [rack:r1]}",
            "{owner: [rack:r1]}",
            "{operator: ['rak:r1']}",
            "{operator: ['n[']}",
            "{operator: ['label:role']}",
            "{operator: ['']}",
            "[operator]",
        ] {
            assert!(rights(wrong).is_err(), "{wrong}");
        }
    }
}
