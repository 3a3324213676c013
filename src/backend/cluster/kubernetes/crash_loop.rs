//! Pods that crash again and again.

use std::sync::Arc;

use kube::api::ListParams;

use super::object::Pod;
use super::pods_in;
use crate::backend::api_server::{ApiError, Server};

/// The reason of a container that is started again later, since it has crashed again and again.
const CRASH_LOOP: &str = "CrashLoopBackOff";

/// Whether a container of a pod waits to be started again.
fn crashes(pod: &Pod) -> bool {
    let status = &pod.status;
    let containers = status.init_container_statuses.iter();
    let states = containers.chain(&status.container_statuses);
    let mut reasons = states.filter_map(|each| each.state.waiting.as_ref());
    reasons.any(|waiting| *waiting.reason == *CRASH_LOOP)
}

/// Those of some namespaces, in words.
pub(super) async fn of(server: &Server, namespaces: &[Arc<str>]) -> Result<Vec<String>, ApiError> {
    let mut found = Vec::new();
    for namespace in namespaces {
        let take = |found: &mut Vec<String>, pod: Pod| {
            if crashes(&pod) {
                found.push(format!("pod `{namespace}/{}`", pod.metadata.name));
            }
        };
        let path = pods_in(namespace);
        let (of_namespace, _) = server
            .list(&path, &ListParams::default(), Vec::new, take)
            .await?;
        found.extend(of_namespace);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_which_a_container_waits_to_be_started_again_crashes() {
        let pod = |status: &str| {
            let text = format!(r#"{{"metadata": {{"name": "front"}}, "status": {status}}}"#);
            crashes(&serde_json::from_str::<Pod>(&text).unwrap())
        };
        let waiting =
            |reason: &str| format!(r#"[{{"state": {{"waiting": {{"reason": "{reason}"}}}}}}]"#);
        let looping = waiting("CrashLoopBackOff");
        assert!(pod(&format!(r#"{{"containerStatuses": {looping}}}"#)));
        assert!(pod(&format!(r#"{{"initContainerStatuses": {looping}}}"#)));
        let creating = waiting("ContainerCreating");
        assert!(!pod(&format!(r#"{{"containerStatuses": {creating}}}"#)));
        assert!(!pod(
            r#"{"containerStatuses": [{"state": {"running": {}}}]}"#
        ));
        assert!(!pod("null"));
    }
}
