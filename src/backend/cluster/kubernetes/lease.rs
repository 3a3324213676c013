//! The lease on a node by which maintainers take turns: a Lease `node-NAME` in the namespace `medik8s-leases`, as the
//! node maintenance operator and the remediators of medik8s take it.
//!
//! It is taken before a node is drained, renewed while steps work on the node, and released when that is over. A cluster without
//! the namespace has no such maintainers. If the account may not read or write it, that is told, and the drain runs
//! without it. A lease counts until its time is over by the clock here, as its other holders reckon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use kube::api::{DeleteParams, ListParams, Preconditions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_step::NodeStep;
use crate::backend::api_server::{ApiError, Server, or_empty};

const API: &str = "coordination.k8s.io/v1";

/// Where the leases are; the name by which messages call it.
const NAMESPACE: &str = "medik8s-leases";

/// How the holders of trueup begin; the run follows.
const HOLDER: &str = "trueup/";

/// How long a lease counts without a renewal: the machine of a drained node may be serviced for that long.
pub(super) const DURATION: Duration = Duration::from_secs(7200);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lease {
    #[serde(deserialize_with = "or_empty")]
    metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_empty")]
    holder_identity: Arc<str>,
    lease_duration_seconds: Option<u32>,
    #[serde(deserialize_with = "or_empty")]
    renew_time: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    lease_transitions: u32,
}

/// The collection of leases.
fn leases() -> String {
    format!("/apis/{API}/namespaces/{NAMESPACE}/leases")
}

fn name_for(node: &str) -> String {
    format!("node-{node}")
}

impl Spec {
    /// Until when it counts; `None`: it does not.
    fn until(&self) -> Option<Timestamp> {
        let renewed: Timestamp = self.renew_time.parse().ok()?;
        let lasts = i64::from(self.lease_duration_seconds?);
        let until = renewed.checked_add(lasts.seconds());
        Some(until.unwrap_or(Timestamp::MAX))
    }

    /// The other maintainer that holds it, in words.
    fn other(&self, now: Timestamp) -> Option<Arc<str>> {
        let until = self.until().filter(|until| *until >= now)?;
        let is_free = self.holder_identity.is_empty() || self.is_ours();
        (!is_free).then(|| {
            let holder = self
                .holder_identity
                .chars()
                .filter(|each| !each.is_control());
            let holder: String = holder.take(100).collect();
            format!("lease of `{holder}` in `{NAMESPACE}` until {until:.0}").into()
        })
    }

    fn is_ours(&self) -> bool {
        self.holder_identity.starts_with(HOLDER)
    }
}

/// The nodes on which other maintainers hold the lease, by their names in the cluster, each with the lease in words. Where leases
/// cannot be read, the step finds out.
pub(super) async fn of_others(server: &Server) -> BTreeMap<Arc<str>, Arc<str>> {
    let now = Timestamp::now();
    let take = |held: &mut BTreeMap<Arc<str>, Arc<str>>, lease: Lease| {
        let node = lease.metadata.name.strip_prefix("node-").map(Arc::from);
        held.extend(node.zip(lease.spec.other(now)));
    };
    let (path, parameters) = (leases(), ListParams::default());
    match server.list(&path, &parameters, BTreeMap::new, take).await {
        Ok((held, _)) => held,
        Err(error) => {
            log::debug!("leases on nodes cannot be listed: {error}");
            BTreeMap::new()
        }
    }
}

/// Takes the lease on the node of a step, or renews it; the other maintainer that holds it, in words.
pub(super) async fn take(step: &NodeStep<'_>, uid: &str) -> Option<Arc<str>> {
    match try_to_take(step, uid).await {
        Ok(other) => other,
        Err(error) if error.code() == Some(404) => None,
        Err(error) => {
            step.progress(format!(
                "draining without the lease on the node in `{NAMESPACE}`: {error}"
            ));
            None
        }
    }
}

async fn try_to_take(step: &NodeStep<'_>, uid: &str) -> Result<Option<Arc<str>>, ApiError> {
    let (path, name) = (leases(), name_for(&step.node));
    let found: Option<Lease> = step.server.get(&path, &name).await?;
    let now = Timestamp::now();
    let time = format!("{now:.6}");
    let mut spec = json!({
        "holderIdentity": format!("{HOLDER}{}", step.order.run),
        "leaseDurationSeconds": DURATION.as_secs(),
        "renewTime": time,
    });
    // With its node a lease is over, too.
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": step.node, "uid": uid}]);
    let written = match found {
        None => {
            spec["acquireTime"] = json!(time);
            let lease = json!({
                "apiVersion": API,
                "kind": "Lease",
                "metadata": {"name": name, "ownerReferences": owner},
                "spec": spec,
            });
            step.server.create::<Value>(&path, &lease).await
        }
        Some(found) => {
            if let Some(other) = found.spec.other(now) {
                return Ok(Some(other));
            }
            if !found.spec.is_ours() {
                spec["acquireTime"] = json!(time);
                spec["leaseTransitions"] = json!(found.spec.lease_transitions.saturating_add(1));
            }
            let patch = json!({
                "metadata": {
                    "resourceVersion": found.metadata.resource_version,
                    "ownerReferences": owner,
                },
                "spec": spec,
            });
            step.server.merge::<Value>(&path, &name, &patch).await
        }
    };
    match written {
        Ok(_) => Ok(None),
        // Another one was faster.
        Err(error) if error.is_conflict() => {
            let found: Option<Lease> = step.server.get(&path, &name).await?;
            Ok(found.and_then(|found| found.spec.other(now)))
        }
        Err(error) => Err(error),
    }
}

/// Renews the lease on the node of a step, if trueup holds it.
pub(super) async fn renew(step: &NodeStep<'_>) {
    if !matches!(held(step).await, Ok(Some(_))) {
        return;
    }
    let patch = json!({"spec": {"renewTime": format!("{:.6}", Timestamp::now())}});
    let (path, name) = (leases(), name_for(&step.node));
    let renewed = step.server.merge::<Value>(&path, &name, &patch);
    if let Err(error) = renewed.await {
        log::debug!("the lease on `{}` cannot be renewed: {error}", step.node);
    }
}

/// Releases the lease on the node of a step, if trueup holds it. What cannot be released is over after its time.
pub(super) async fn release(step: &NodeStep<'_>) {
    let Ok(Some(ours)) = held(step).await else {
        return;
    };
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: None,
            resource_version: Some(ours.metadata.resource_version),
        }),
        ..DeleteParams::default()
    };
    let (path, name) = (leases(), name_for(&step.node));
    if let Err(error) = step.server.delete(&path, &name, &parameters).await {
        log::debug!("the lease on `{}` cannot be released: {error}", step.node);
    }
}

/// The lease that trueup holds on the node of a step.
async fn held(step: &NodeStep<'_>) -> Result<Option<Lease>, ApiError> {
    let found: Option<Lease> = step.server.get(&leases(), &name_for(&step.node)).await?;
    Ok(found.filter(|found| found.spec.is_ours()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_another_counts_until_its_time_is_over() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let held = |spec: &str| {
            let spec: Spec = serde_json::from_str(spec).unwrap();
            spec.other(now).map(|text| text.to_string())
        };
        let by = |holder: &str, renewed: &str| {
            held(&format!(
                r#"{{"holderIdentity": "{holder}", "leaseDurationSeconds": 3600, "renewTime": "{renewed}"}}"#
            ))
        };
        assert_eq!(
            by("node-maintenance", "2026-11-28T11:30:00.000000Z").as_deref(),
            Some("lease of `node-maintenance` in `medik8s-leases` until 2026-11-28T12:30:00Z")
        );
        assert_eq!(by("node-maintenance", "2026-11-28T10:30:00Z"), None);
        assert_eq!(by("trueup/01M7", "2026-11-28T11:30:00Z"), None);
        assert_eq!(by("", "2026-11-28T11:30:00Z"), None);
        assert_eq!(by("node-maintenance", "soon"), None);
        assert_eq!(held("{}"), None);
        let endless = r#"{"holderIdentity": "a", "leaseDurationSeconds": 4294967295, "renewTime": "9999-12-01T00:00:00Z"}"#;
        assert!(held(endless).is_some());
    }
}
