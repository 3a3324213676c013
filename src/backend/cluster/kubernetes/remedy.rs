//! A remediation's requests for a node: get it, release it, and restore labels and taints of the one before.
//!
//! A write is confirmed by the server's answer, and made against the observed version, so that
//! no other actor's change is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::NODES;
use super::labels::OUT_OF_SERVICE;
use super::node_step::{NodeStep, Outage, PACE, conflict, count};
use super::object::Node;
use super::pods::fate;
use super::volumes::release;
use crate::backend::api_server::{ApiError, Server, or_empty};
use crate::backend::{ActError, LiveNode, Probe};
use crate::remediation::{Backup, Taint};
use crate::step::FailureReason;

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
    fn of(value: Value) -> Result<Self, ApiError> {
        let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
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

    /// Labels, taints and annotations that a new node lacks.
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

/// A node with all its fields; `None` if not found.
pub(super) async fn whole(server: &Server, name: &str) -> Result<Option<Whole>, ApiError> {
    let found = server.get::<Value>(NODES, name).await?;
    found.map(Whole::of).transpose()
}

/// The node now; `None` if not found.
pub(super) async fn live(server: &Server, name: &str) -> Result<Option<LiveNode>, ApiError> {
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
    step: &NodeStep<'_>,
    change: impl Fn(&Whole) -> Option<Value>,
) -> Result<(), ActError> {
    let error = |error| step.act_error(error);
    for _ in 0..WRITES {
        let Some(now) = whole(&step.server, &step.node).await.map_err(error)? else {
            let text = format_args!("the cluster has no node `{}`", step.node);
            return Err(ActError::Passing(FailureReason::NotFound.message(text)));
        };
        let meant = step.given.node_uid().as_ref();
        if meant.is_some_and(|uid| *uid != now.node.metadata.uid) {
            let text = format!("node `{}` was made anew meanwhile", step.node);
            return Err(ActError::Passing(text.into()));
        }
        let Some(mut patch) = change(&now) else {
            return Ok(());
        };
        patch["metadata"]["uid"] = json!(now.node.metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(now.node.metadata.resource_version);
        match step.server.merge(NODES, &step.node, &patch).await {
            Ok(answer) => {
                let answer = Whole::of(answer).map_err(error)?;
                if change(&answer).is_none() {
                    return Ok(());
                }
            }
            Err(refused) if refused.code() == Some(409) => {}
            Err(refused) => return Err(error(refused)),
        }
        step.pause(PACE / 4).await;
    }
    let text = format!("node `{}` is changed by others again and again", step.node);
    Err(ActError::Passing(text.into()))
}

/// Whether the node is marked.
pub(super) async fn probe_mark(step: &NodeStep<'_>, wanted: bool) -> Result<Probe, ApiError> {
    let now = whole(&step.server, &step.node).await?;
    Ok(match now {
        Some(now) if now.is_out_of_service() == wanted => Probe::Done,
        _ => Probe::NotBegun,
    })
}

/// Marks the node as out of service, and waits until nothing of it is left: no pod that does not tolerate
/// it, and no volume.
pub(super) async fn set_out_of_service(step: &NodeStep<'_>) -> Result<(), ActError> {
    write(step, |now| {
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
        match step.pods().await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok((pods, _)) => {
                outage.ends();
                let left = pods.iter().filter(|pod| fate(pod).leaves()).count();
                if left == 0 {
                    break;
                }
                let text = format!("{} still there", count(left, "pod"));
                if step.is_over() {
                    return Err(step.failure(text));
                }
                step.progress(text);
                step.pause(PACE).await;
            }
        }
    }
    release(step).await
}

/// Takes the mark off; only of a node that is Ready.
pub(super) async fn unset_out_of_service(step: &NodeStep<'_>) -> Result<(), ActError> {
    let now = step.present().await?;
    if !now.status.is_ready() {
        return Err(conflict(step, "it is not Ready"));
    }
    write(step, |now| {
        let is_other = |taint: &&Value| taint["key"] != OUT_OF_SERVICE;
        let others: Vec<&Value> = now.taints.iter().filter(is_other).collect();
        now.is_out_of_service()
            .then(|| json!({"spec": {"taints": others}}))
    })
    .await
}

/// Whether the node has all that the one before carried.
pub(super) async fn probe_restore(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let now = whole(&step.server, &step.node).await?;
    let backup = step.given.backup().as_deref();
    Ok(match (now, backup) {
        (Some(now), Some(backup)) if !backup.missing_on(&now.backup()).is_empty() => {
            Probe::NotBegun
        }
        (None, Some(_)) => Probe::NotBegun,
        _ => Probe::Done,
    })
}

/// Gives the node what the one before carried and it does not have: existing keys win.
pub(super) async fn restore(step: &NodeStep<'_>) -> Result<(), ActError> {
    match step.given.backup().as_deref() {
        Some(backup) => put_back(step, backup).await,
        None => Ok(()),
    }
}

/// Gives the node what is in a backup and it does not have: existing keys win.
pub(super) async fn put_back(step: &NodeStep<'_>, backup: &Backup) -> Result<(), ActError> {
    write(step, |now| {
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
