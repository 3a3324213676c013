//! Machines that the records of a former site have as deployed: under the new name of their site they would be built as new,
//! and without the approvals that the former one asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::allowance::Allowed;
use super::item::Item;
use crate::design::NodeName;

/// A site that no document defines any more, whose records have a machine of another one as deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerSite {
    /// Its name.
    pub name: Arc<str>,
    /// Whether the policy that is in force there asks for approvals.
    pub asks: bool,
}

/// Blocks the changes of machines that a former site has as deployed: if it asks for approvals, whatever is allowed, else what
/// builds one without `--allow-redeploy`.
pub(super) fn judge<'a>(
    former: &BTreeMap<NodeName, FormerSite>,
    allow_redeploy: &Allowed<'_>,
    mut items: Vec<Item<'a>>,
) -> Vec<Item<'a>> {
    if former.is_empty() {
        return items;
    }
    for item in &mut items {
        let is_carried = item.is_carried() && !item.work.is_empty();
        let Some(site) = former.get(item.subject.name).filter(|_| is_carried) else {
            continue;
        };
        let name = &site.name;
        let known = format!(
            "it is deployed by the records of site `{name}`, which no document defines any more"
        );
        if site.asks {
            let why = format!(
                "{known}, under a policy that asks for approvals: give the site that name again; a policy that asks for none is \
                 put in force there first, with the approvals of the one that does"
            );
            item.block(&why, None);
        } else if item.work.is_in_a_group() && !allow_redeploy.contains(item.subject.name) {
            let why = format!("{known}: if it is the same site, give it that name again");
            item.block(&why, Some("--allow-redeploy"));
        }
    }
    items
}
