//! Evictions that are asked for by an object (KEP-4563, EvictionRequest of `lifecycle.k8s.io/v1alpha1`), where the server serves
//! them and the account may create them.
//!
//! A request names a pod and who wants it gone. Responders that the pod or the cluster names release it in their own way, one after
//! the other; the last is the server's own, which uses the eviction API. A request that fails, or that no controller observes,
//! leaves its pod to that API as without it. A request belongs to its pod, and goes with it; those that are left when a drain ends,
//! or when its node is left cordoned, are deleted, which withdraws them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kube::api::{DeleteParams, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::discovery;
use super::node_step::NodeStep;
use crate::backend::api_server::{ApiError, Server, or_empty};
use crate::observed::PodName;

/// The group and version that are known.
const API: &str = "lifecycle.k8s.io/v1alpha1";

/// The requester, and the label by which the requests of trueup are found again.
const REQUESTER: &str = "trueup.dev/drain";

/// The annotation that names the node from which the pod is evicted.
const NODE: &str = "trueup.dev/node";

/// How long a controller may take to observe a request: it does so within a second, and one that is being elected within fifteen.
const UNOBSERVED: Duration = Duration::from_secs(30);

/// How often a request is read.
pub(super) const PACE: Duration = Duration::from_secs(2);

/// How far the request for a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// None was made.
    Not,
    /// It was made then.
    At(Instant),
    /// The pod is left to the eviction API.
    Declined,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is under way; by what the pod is held.
    UnderWay(Arc<str>),
    /// No controller has observed it yet.
    Unobserved,
    /// Nothing comes of it; why.
    Declined(Arc<str>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EvictionRequest {
    #[serde(deserialize_with = "or_empty")]
    metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    name: String,
    #[serde(deserialize_with = "or_empty")]
    namespace: String,
    #[serde(deserialize_with = "or_empty")]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "or_empty")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type", deserialize_with = "or_empty")]
    kind: String,
    #[serde(deserialize_with = "or_empty")]
    status: String,
    #[serde(deserialize_with = "or_empty")]
    message: String,
}

fn collection(namespace: &str) -> String {
    format!("/apis/{API}/namespaces/{namespace}/evictionrequests")
}

fn name_of(pod: &PodName) -> String {
    format!("trueup-{}", pod.uid)
}

/// Whether the server serves requests. If that is not known, it is used without them.
pub(super) async fn are_served(server: &Server) -> bool {
    let served = discovery::has_resource(server, API, "evictionrequests").await;
    served.unwrap_or_else(|error| {
        log::debug!("whether the API server has eviction requests is unknown: {error}");
        false
    })
}

/// Asks for the eviction of a pod, or how far that is.
///
/// # Errors
///
/// The server does not answer for now.
pub(super) async fn ask(
    server: &Server,
    node: &str,
    pod: &PodName,
    is_made: bool,
) -> Result<Progress, ApiError> {
    let path = collection(&pod.namespace);
    if is_made {
        let request: Option<EvictionRequest> = server.get(&path, &name_of(pod)).await?;
        return Ok(match request {
            Some(request) => request.status.progress(),
            None => Progress::Declined(Arc::from("its eviction request was deleted")),
        });
    }
    match server.post(&path, &request(node, pod)).await {
        Ok(()) => Ok(Progress::Unobserved),
        // An answer was lost, or this drain is a second one.
        Err(error) if error.is_conflict() => Ok(Progress::Unobserved),
        Err(error) if error.passes() => Err(error),
        Err(error) => Ok(Progress::Declined(error.to_string().into())),
    }
}

fn request(node: &str, pod: &PodName) -> Value {
    json!({
        "apiVersion": API,
        "kind": "EvictionRequest",
        "metadata": {
            "name": name_of(pod),
            "namespace": pod.namespace,
            "labels": {REQUESTER: "true"},
            "annotations": {NODE: node},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "spec": {
            "intent": "Eviction",
            "requester": REQUESTER,
            "target": {"pod": {"name": pod.name, "uid": pod.uid}},
        },
    })
}

impl Status {
    fn progress(&self) -> Progress {
        let holds = |kind: &str| {
            let mut all = self.conditions.iter();
            all.find(|each| each.kind == kind && each.status == "True")
        };
        if holds("TargetEvicted").is_some() {
            return Progress::UnderWay(Arc::from("its eviction request, which is carried out"));
        }
        if let Some(failed) = holds("Failed") {
            let why = failed.message.chars().filter(|each| !each.is_control());
            let why: String = why.take(200).collect();
            return Progress::Declined(format!("its eviction request has failed: {why}").into());
        }
        match self.observed_generation {
            Some(_) => Progress::UnderWay(Arc::from("its eviction request")),
            None => Progress::Unobserved,
        }
    }
}

impl Requested {
    /// Takes a progress in; what it says of the pod.
    pub(super) fn take(&mut self, progress: Progress) -> Arc<str> {
        let since = match *self {
            Self::At(since) => since,
            Self::Not | Self::Declined => Instant::now(),
        };
        let (next, held) = match progress {
            Progress::UnderWay(held) => (Self::At(since), held),
            Progress::Unobserved if since.elapsed() < UNOBSERVED => {
                (Self::At(since), Arc::from("its eviction request"))
            }
            Progress::Unobserved => {
                let why = "no controller has observed its eviction request";
                (Self::Declined, Arc::from(why))
            }
            Progress::Declined(why) => (Self::Declined, why),
        };
        *self = next;
        held
    }
}

/// Deletes the requests for pods of the node. Where that fails they go with their pods.
pub(super) async fn withdraw(step: &NodeStep<'_>) {
    if !are_served(&step.server).await {
        return;
    }
    let path = format!("/apis/{API}/evictionrequests");
    let ours = ListParams::default().labels(REQUESTER);
    let take = |all: &mut Vec<Metadata>, request: EvictionRequest| {
        let is_of_node = request.metadata.annotations.get(NODE) == Some(&step.node.to_string());
        all.extend(is_of_node.then_some(request.metadata));
    };
    let left = match step.server.list(&path, &ours, Vec::new, take).await {
        Ok((left, _)) => left,
        Err(error) => {
            log::debug!("eviction requests cannot be listed: {error}");
            return;
        }
    };
    let deletions = left.iter().map(|request| async move {
        let path = collection(&request.namespace);
        let parameters = DeleteParams::default();
        let deleted = step.server.delete(&path, &request.name, &parameters).await;
        if let Err(error) = deleted {
            step.progress(format!(
                "its eviction request {} is left: {error}",
                request.name
            ));
        }
    });
    join_all(deletions).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_under_way_until_it_fails_or_nothing_observes_it() {
        let status = |json: Value| -> Progress {
            let request: EvictionRequest = serde_json::from_value(json).unwrap();
            request.status.progress()
        };
        let condition = |kind: &str, holds: &str| {
            json!({"status": {"observedGeneration": 1, "conditions": [
                {"type": kind, "status": holds, "reason": "R", "message": "no responder\u{7} is left"}]}})
        };
        let under_way = Progress::UnderWay(Arc::from("its eviction request"));
        let declined = Arc::from("its eviction request has failed: no responder is left");
        let table = [
            (json!({}), Progress::Unobserved),
            (json!({"status": null}), Progress::Unobserved),
            (
                json!({"status": {"observedGeneration": 1}}),
                under_way.clone(),
            ),
            (condition("Failed", "False"), under_way.clone()),
            (condition("Other", "True"), under_way),
            (condition("Failed", "True"), Progress::Declined(declined)),
            (
                condition("TargetEvicted", "True"),
                Progress::UnderWay(Arc::from("its eviction request, which is carried out")),
            ),
        ];
        for (json, expected) in table {
            assert_eq!(status(json.clone()), expected, "{json}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_controller_observes_in_time_is_left_to_the_eviction_api() {
        let mut requested = Requested::Not;
        let first = Instant::now();
        requested.take(Progress::Unobserved);
        assert_eq!(requested, Requested::At(first));
        tokio::time::advance(UNOBSERVED - PACE).await;
        requested.take(Progress::Unobserved);
        assert_eq!(requested, Requested::At(first));
        // One that was observed takes its time.
        tokio::time::advance(PACE).await;
        requested.take(Progress::UnderWay(Arc::from("it")));
        assert_eq!(requested, Requested::At(first));
        requested.take(Progress::Unobserved);
        assert_eq!(requested, Requested::Declined);
    }
}
