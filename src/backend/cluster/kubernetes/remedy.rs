//! What a remediation does to a node: looks at it, releases it, and gives it back what the one before carried.
//!
//! A write is confirmed by what the server answers, and made against the version that was seen, so that
//! nobody else's change is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::NODES;
use super::errand::{Errand, Outage, PACE, conflict, count};
use super::labels::OUT_OF_SERVICE;
use super::object::Node;
use super::pods::fate;
use super::volumes::release;
use crate::backend::api_server::{Server, Trouble, or_empty};
use crate::backend::{ActError, LiveNode, Probe};
use crate::remediation::{Backup, Taint};

/// The value and effect with which it is set.
const SHUT_DOWN: (&str, &str) = ("nodeshutdown", "NoExecute");

/// How often a write is tried against what others write at the same time.
const WRITES: u32 = 8;

/// A taint as the server has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "or_empty")]
    key: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    value: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    effect: Arc<str>,
}

/// A node with all that it carries.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) node: Node,
    annotations: BTreeMap<Arc<str>, Arc<str>>,
    taints: Vec<Value>,
}

impl Whole {
    fn of(value: Value) -> Result<Self, Trouble> {
        let unreadable = |error: serde_json::Error| Trouble::Unreadable(error.to_string());
        let annotations = &value["metadata"]["annotations"];
        let annotations = Option::deserialize(annotations).map_err(unreadable)?;
        let taints = value["spec"]["taints"].as_array().cloned();
        Ok(Self {
            annotations: annotations.unwrap_or_default(),
            taints: taints.unwrap_or_default(),
            node: serde_json::from_value(value).map_err(unreadable)?,
        })
    }

    fn is_out_of_service(&self) -> bool {
        self.taints
            .iter()
            .any(|taint| taint["key"] == OUT_OF_SERVICE)
    }

    /// What whoever makes it anew does not bring back.
    pub(super) fn backup(&self) -> Backup {
        let taints: BTreeSet<Taint> = self
            .taints
            .iter()
            .filter_map(|taint| Written::deserialize(taint).ok())
            .map(|taint| Taint {
                key: taint.key,
                value: taint.value,
                effect: taint.effect,
            })
            .collect();
        Backup::of(
            self.node.metadata.labels.clone(),
            self.annotations.clone(),
            taints,
            self.node.spec.unschedulable,
        )
    }
}

/// A node with all that it carries; `None` where there is none.
pub(super) async fn whole(server: &Server, name: &str) -> Result<Option<Whole>, Trouble> {
    let found = server.get::<Value>(NODES, name).await?;
    found.map(Whole::of).transpose()
}

/// The node now; `None` where there is none.
pub(super) async fn live(server: &Server, name: &str) -> Result<Option<LiveNode>, Trouble> {
    let found = whole(server, name).await?;
    Ok(found.map(|whole| LiveNode {
        uid: whole.node.metadata.uid.clone(),
        ready: whole.node.status.is_ready(),
        out_of_service: whole.is_out_of_service(),
        backup: whole.backup(),
    }))
}

/// Changes the node that is meant until what is wanted is so; `None` from `change`: it is.
async fn write(
    errand: &Errand<'_>,
    change: impl Fn(&Whole) -> Option<Value>,
) -> Result<(), ActError> {
    let trouble = |trouble| errand.trouble(trouble);
    for _ in 0..WRITES {
        let Some(now) = whole(&errand.server, &errand.node).await.map_err(trouble)? else {
            let text = format!("NotFound: the cluster has no node `{}`", errand.node);
            return Err(ActError::Passing(text.into()));
        };
        let meant = errand.parameters.node_uid.as_ref();
        if meant.is_some_and(|uid| *uid != now.node.metadata.uid) {
            let text = format!("node `{}` was made anew meanwhile", errand.node);
            return Err(ActError::Passing(text.into()));
        }
        let Some(mut patch) = change(&now) else {
            return Ok(());
        };
        patch["metadata"]["uid"] = json!(now.node.metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(now.node.metadata.resource_version);
        match errand.server.merge(NODES, &errand.node, &patch).await {
            Ok(answer) => {
                let answer = Whole::of(answer).map_err(trouble)?;
                if change(&answer).is_none() {
                    return Ok(());
                }
            }
            Err(refused) if refused.code() == Some(409) => {}
            Err(refused) => return Err(trouble(refused)),
        }
        errand.pause(PACE / 4).await;
    }
    let text = format!(
        "node `{}` is changed by others again and again",
        errand.node
    );
    Err(ActError::Passing(text.into()))
}

/// Whether the node is marked.
pub(super) async fn probe_mark(errand: &Errand<'_>, wanted: bool) -> Result<Probe, Trouble> {
    let now = whole(&errand.server, &errand.node).await?;
    Ok(match now {
        Some(now) if now.is_out_of_service() == wanted => Probe::Done,
        _ => Probe::NotBegun,
    })
}

/// Marks the node as out of service, and waits until nothing of it is left: no pod that does not tolerate
/// it, and no volume.
pub(super) async fn set_out_of_service(errand: &Errand<'_>) -> Result<(), ActError> {
    write(errand, |now| {
        if now.is_out_of_service() {
            return None;
        }
        let (value, effect) = SHUT_DOWN;
        let mut taints = now.taints.clone();
        taints.push(json!({"key": OUT_OF_SERVICE, "value": value, "effect": effect}));
        Some(json!({"spec": {"taints": taints}}))
    })
    .await?;
    let mut outage = Outage::none();
    loop {
        match errand.pods().await {
            Err(trouble) => outage.bear(errand, trouble).await?,
            Ok((pods, _)) => {
                outage.ends();
                let left = pods.iter().filter(|pod| fate(pod).leaves()).count();
                if left == 0 {
                    break;
                }
                let text = format!("{} still there", count(left, "pod"));
                if errand.is_over() {
                    return Err(errand.failure(text));
                }
                errand.progress(text);
                errand.pause(PACE).await;
            }
        }
    }
    release(errand).await
}

/// Takes the mark off; only of a node that is Ready.
pub(super) async fn unset_out_of_service(errand: &Errand<'_>) -> Result<(), ActError> {
    let now = errand.present().await?;
    if !now.status.is_ready() {
        return Err(conflict(errand, "it is not Ready"));
    }
    write(errand, |now| {
        let is_other = |taint: &&Value| taint["key"] != OUT_OF_SERVICE;
        let others: Vec<&Value> = now.taints.iter().filter(is_other).collect();
        now.is_out_of_service()
            .then(|| json!({"spec": {"taints": others}}))
    })
    .await
}

/// Whether the node has all that the one before carried.
pub(super) async fn probe_restore(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    let now = whole(&errand.server, &errand.node).await?;
    let backup = errand.parameters.backup.as_deref();
    Ok(match (now, backup) {
        (Some(now), Some(backup)) if !backup.missing_on(&now.backup()).is_empty() => {
            Probe::NotBegun
        }
        (None, Some(_)) => Probe::NotBegun,
        _ => Probe::Done,
    })
}

/// Gives the node what the one before carried and it does not have: existing keys win.
pub(super) async fn restore(errand: &Errand<'_>) -> Result<(), ActError> {
    match errand.parameters.backup.as_deref() {
        Some(backup) => put_back(errand, backup).await,
        None => Ok(()),
    }
}

/// Gives the node what is in a backup and it does not have: existing keys win.
pub(super) async fn put_back(errand: &Errand<'_>, backup: &Backup) -> Result<(), ActError> {
    write(errand, |now| {
        let missing = backup.missing_on(&now.backup());
        if missing.is_empty() {
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("labels".to_owned(), json!(missing.labels));
        metadata.insert("annotations".to_owned(), json!(missing.annotations));
        let mut spec = Map::new();
        if missing.unschedulable {
            spec.insert("unschedulable".to_owned(), json!(true));
        }
        if !missing.taints.is_empty() {
            let mut taints = now.taints.clone();
            taints.extend(missing.taints.iter().map(|taint| json!(taint)));
            spec.insert("taints".to_owned(), json!(taints));
        }
        Some(json!({"metadata": metadata, "spec": spec}))
    })
    .await
}
