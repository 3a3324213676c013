//! Shipyard's actions: their names, their policies, and which of trueup's they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::answer::ApiError;
use crate::plan::Action;
use crate::serve::design_ref::DesignRef;
use crate::serve::policy::Operation;
use crate::serve::promenade::node_name;
use crate::serve::query::truth;

/// Most nodes of one action.
const MOST_NODES: usize = 10_000;

/// The largest parameters, in bytes of JSON: the records keep them.
const LARGEST: usize = 64 << 10;

/// The title of most refusals.
pub(super) const UNABLE: &str = "Unable to start action";

/// An action of Shipyard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShipyardAction {
    DeploySite,
    UpdateSite,
    UpdateSoftware,
    RedeployServer,
    RelabelNodes,
    TestSite,
}

impl ShipyardAction {
    const ALL: [Self; 6] = [
        Self::DeploySite,
        Self::UpdateSite,
        Self::UpdateSoftware,
        Self::RedeployServer,
        Self::RelabelNodes,
        Self::TestSite,
    ];

    /// Its name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::DeploySite => "deploy_site",
            Self::UpdateSite => "update_site",
            Self::UpdateSoftware => "update_software",
            Self::RedeployServer => "redeploy_server",
            Self::RelabelNodes => "relabel_nodes",
            Self::TestSite => "test_site",
        }
    }

    /// The action of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.as_str() == name)
    }

    /// Its name for an action of trueup's that no caller of this API asked for.
    pub(super) fn of(action: &str) -> Option<Self> {
        match Action::named(action)? {
            Action::Update => Some(Self::UpdateSite),
            Action::Redeploy => Some(Self::RedeployServer),
            Action::Relabel => Some(Self::RelabelNodes),
            _ => None,
        }
    }

    /// The operation that is authorised.
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::DeploySite => Operation::DeploySite,
            Self::UpdateSite => Operation::UpdateSite,
            Self::UpdateSoftware => Operation::UpdateSoftware,
            Self::RedeployServer => Operation::RedeployServer,
            Self::RelabelNodes => Operation::RelabelNodes,
            Self::TestSite => Operation::TestSite,
        }
    }

    /// Whether it is for nodes that are named.
    const fn has_nodes(self) -> bool {
        matches!(self, Self::RedeployServer | Self::RelabelNodes)
    }

    /// Whether it brings the site to its design, so that commits between the last action and this one count.
    pub(super) const fn is_of_site(self) -> bool {
        matches!(self, Self::DeploySite | Self::UpdateSite)
    }

    /// Trueup's action.
    pub(super) const fn action(self) -> Action {
        match self {
            Self::RedeployServer => Action::Redeploy,
            Self::RelabelNodes => Action::Relabel,
            _ => Action::Update,
        }
    }
}

/// The parameters of an action.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) nodes: BTreeSet<Arc<str>>,
    pub(super) continue_on_fail: bool,
    pub(super) preserve_local_storage: bool,
    pub(super) allow_intermediate_commits: bool,
    pub(super) design: DesignRef,
}

impl Parameters {
    /// Reads them; those that are not known are kept and do nothing, as with Shipyard.
    pub(super) fn read(
        action: ShipyardAction,
        given: &Map<String, Value>,
    ) -> Result<Self, ApiError> {
        if serde_json::to_string(given).map_or(true, |text| text.len() > LARGEST) {
            let text = format!("the parameters are larger than {LARGEST} bytes");
            return Err(ApiError::new(400, UNABLE, text));
        }
        let nodes = match action.has_nodes() {
            true => nodes(given.get("target_nodes"))?,
            false => BTreeSet::new(),
        };
        let design = match (action, given.get("target-revision")) {
            (ShipyardAction::RedeployServer, None) => DesignRef::parse("successful-site-action"),
            (ShipyardAction::RedeployServer, Some(Value::String(word)))
                if matches!(
                    word.as_str(),
                    "committed" | "successful-site-action" | "last-site-action"
                ) =>
            {
                DesignRef::parse(word)
            }
            (ShipyardAction::RedeployServer, Some(_)) => {
                let text = "`target-revision` is `committed`, `successful-site-action` or `last-site-action`";
                return Err(ApiError::new(400, UNABLE, text));
            }
            _ => Ok(DesignRef::default()),
        };
        Ok(Self {
            nodes,
            continue_on_fail: flag(given, "continue-on-fail")?,
            preserve_local_storage: action == ShipyardAction::RedeployServer
                && flag(given, "preserve-local-storage")?,
            allow_intermediate_commits: flag(given, "allow-intermediate-commits")?,
            design: design.map_err(ApiError::from)?,
        })
    }
}

/// The nodes that are meant: a list, or a text with commas.
fn nodes(given: Option<&Value>) -> Result<BTreeSet<Arc<str>>, ApiError> {
    let wrong = || {
        let text =
            "`target_nodes` is a list of the names of nodes, or a text of them with commas between";
        ApiError::new(400, "Invalid target_nodes parameter", text)
    };
    let names: Vec<&str> = match given {
        Some(Value::String(text)) => text.split(',').map(str::trim).collect(),
        Some(Value::Array(names)) => {
            let names = names.iter().map(Value::as_str);
            names.collect::<Option<_>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    if names.is_empty() || names.len() > MOST_NODES {
        return Err(wrong());
    }
    let names = names.into_iter().map(|name| node_name(name).ok());
    names.collect::<Option<_>>().ok_or_else(wrong)
}

/// A parameter that is true or false, as JSON or as a text.
fn flag(given: &Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) => truth(text)
            .ok_or_else(|| ApiError::new(400, UNABLE, format!("`{name}` is `true` or `false`"))),
        Some(_) => Err(ApiError::new(
            400,
            UNABLE,
            format!("`{name}` is `true` or `false`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(action: ShipyardAction, given: Value) -> Result<Parameters, ApiError> {
        Parameters::read(action, given.as_object().unwrap())
    }

    #[test]
    fn nodes_are_a_list_or_a_text_and_never_a_selection() {
        let names = |given: Value| {
            let read = read(
                ShipyardAction::RedeployServer,
                json!({"target_nodes": given}),
            );
            read.ok().map(|read| {
                let nodes: Vec<String> = read.nodes.iter().map(ToString::to_string).collect();
                nodes.join(" ")
            })
        };
        assert_eq!(names(json!("n1,n2")).as_deref(), Some("n1 n2"));
        assert_eq!(names(json!(["n2", "n1"])).as_deref(), Some("n1 n2"));
        for wrong in [
            json!(""),
            json!([]),
            json!(null),
            json!(7),
            json!(["n1", 2]),
            json!("n*"),
            json!("group:x"),
            json!("n1,,n2"),
        ] {
            assert_eq!(names(wrong.clone()), None, "{wrong}");
        }
        assert!(read(ShipyardAction::RelabelNodes, json!({})).is_err());
    }

    #[test]
    fn flags_are_booleans_or_the_texts_that_the_client_sends() {
        let of = |value: Value| {
            let given = json!({"target_nodes": "n1", "preserve-local-storage": value});
            let read = read(ShipyardAction::RedeployServer, given);
            read.ok().map(|read| read.preserve_local_storage)
        };
        assert_eq!(of(json!(true)), Some(true));
        assert_eq!(of(json!("True")), Some(true));
        assert_eq!(of(json!("false")), Some(false));
        assert_eq!(of(json!("maybe")), None);
        assert_eq!(of(json!(3)), None);
        let revision = |word: Value| {
            let given = json!({"target_nodes": "n1", "target-revision": word});
            read(ShipyardAction::RedeployServer, given).is_ok()
        };
        assert!(revision(json!("committed")));
        for wrong in [json!("git:v1"), json!("main"), json!(1)] {
            assert!(!revision(wrong.clone()), "{wrong}");
        }
    }
}
