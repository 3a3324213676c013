//! Shuts the kubelet of a node down: a DaemonSet that does nothing until a node has the label for it.
//!
//! Its pod stops the kubelet through the init system of its host (`nsenter` into the namespaces of
//! process 1), so that it has to be privileged; it has no rights towards the API server. The label is
//! `promenade-decomission: enabled`, spelled as the specification spells it.
//!
//! A pod is bound to its node by name, and nothing ends it if no kubelet is left: it would stop the
//! kubelet of the next node with that name. So it goes as soon as the kubelet is silent, label first, and
//! the DaemonSet with it if no other node has the label.

use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::NODES;
use super::endpoints::guard;
use super::labels::{DECOMMISSION, ENABLED};
use super::node_step::{NodeStep, Outage, PACE, count};
use super::object::{Node, Pod};
use super::pods::{controller, delete, name};
use crate::backend::api_server::{ApiError, Server};
use crate::backend::{ActError, Probe};
use crate::observed::PodName;

/// The namespace of the DaemonSet.
pub(super) const NAMESPACE: &str = "kube-system";

/// Where the DaemonSet is.
const COLLECTION: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";

/// Its name.
pub(super) const NAME: &str = "trueup-shutdown-kubelet";

/// The command of its pods on the host; they then wait, since a pod that ends is started again.
const COMMAND: &str = "nsenter --target 1 --mount --uts --ipc --net --pid -- \
    sh -c 'systemctl disable kubelet && systemctl stop kubelet' && sleep 2147483647";

/// The DaemonSet as it should be.
fn manifest(image: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "trueup"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {DECOMMISSION: ENABLED},
                    "tolerations": [{"operator": "Exists"}],
                    "priorityClassName": "system-node-critical",
                    "hostPID": true,
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "shutdown-kubelet",
                        "image": image,
                        "command": ["sh", "-c", COMMAND],
                        "securityContext": {"privileged": true},
                        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                    }],
                },
            },
        },
    })
}

/// Whether the DaemonSet is there and as it should be.
pub(super) async fn is_applied(server: &Server, image: &str) -> Result<bool, ApiError> {
    let found: Option<Value> = server.get(COLLECTION, NAME).await?;
    Ok(found.is_some_and(|found| holds(&found, &manifest(image))))
}

/// Whether a value has all of what is wanted; what the server adds is passed over.
fn holds(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| found.get(key).is_some_and(|found| holds(found, wanted))),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| holds(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

/// Whether a node has the label.
pub(super) fn is_marked(node: &Node) -> bool {
    node.metadata
        .labels
        .get(DECOMMISSION)
        .is_some_and(|value| &**value == ENABLED)
}

/// Whether a pod is one of the DaemonSet's.
fn is_ours(pod: &Pod) -> bool {
    &*pod.metadata.namespace == NAMESPACE
        && controller(pod).is_some_and(|owner| &*owner.kind == "DaemonSet" && &*owner.name == NAME)
}

/// Whether the kubelet is silent, and nothing is left that would silence the next one.
pub(super) async fn probe(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let node = match step.meant_or_gone().await? {
        Ok(node) => node,
        Err(probe) => return Ok(probe),
    };
    Ok(match (is_marked(&node), node.status.is_ready()) {
        (false, true) => Probe::NotBegun,
        (true, _) => Probe::UnderWay,
        (false, false) if step.pods().await?.0.iter().any(is_ours) => Probe::UnderWay,
        (false, false) => Probe::Done,
    })
}

/// Has the kubelet stopped, and takes away what stopped it.
pub(super) async fn act(step: &NodeStep<'_>) -> Result<(), ActError> {
    let node = step.present().await?;
    if *step.given.node_is_gone() {
        return Ok(());
    }
    guard(step, &node).await?;
    if node.status.is_ready() {
        stop(step, &node).await?;
    }
    retire(step).await
}

/// Sets the label, applies the DaemonSet, and waits until the node is not Ready.
async fn stop(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    let error = |error| step.act_error(error);
    // The label first: who takes the DaemonSet away looks for it before and after.
    if !is_marked(node) {
        let patch = json!({"metadata": {"labels": {DECOMMISSION: ENABLED}}});
        step.change(node, patch).await.map_err(error)?;
    }
    apply(step).await.map_err(error)?;
    let mut outage = Outage::none();
    loop {
        let found = async {
            let node = step.meant().await?;
            // Another node's step may have taken it away.
            if node.as_ref().is_some_and(|node| node.status.is_ready()) {
                apply(step).await?;
            }
            Ok(node)
        };
        match found.await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(None) => drop(step.present().await?),
            Ok(Some(node)) if !node.status.is_ready() => return Ok(()),
            Ok(Some(_)) => {
                outage.ends();
                if step.is_over() {
                    let text = format!("the node is still Ready after {} s", step.timeout());
                    let pods = stuck(step).await;
                    return Err(step.failure(format!("{text}{pods}")));
                }
                step.progress("waiting until the kubelet is silent");
                step.pause(PACE).await;
            }
        }
    }
}

/// Applies the DaemonSet if it is missing or differs.
async fn apply(step: &NodeStep<'_>) -> Result<(), ApiError> {
    let (server, image) = (&step.server, &step.shutdown_image);
    if !is_applied(server, image).await? {
        let manifest = manifest(image);
        server.apply::<Value>(COLLECTION, NAME, &manifest).await?;
    }
    Ok(())
}

/// Takes the label off, and deletes the DaemonSet's pod on the node: no kubelet is left to end it, and the
/// kubelet of the next node with that name would start it.
pub(super) async fn retire(step: &NodeStep<'_>) -> Result<(), ActError> {
    let mut outage = Outage::none();
    loop {
        match retire_once(step).await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(0) => return Ok(()),
            Ok(left) => {
                outage.ends();
                let text = format!(
                    "{} still there that stopped its kubelet",
                    count(left, "pod")
                );
                if step.is_over() {
                    return Err(step.failure(text));
                }
                step.progress(text);
                step.pause(PACE / 8).await;
            }
        }
    }
}

/// [`retire`], once; how many pods were left before.
async fn retire_once(step: &NodeStep<'_>) -> Result<usize, ApiError> {
    if let Some(node) = step.meant().await?
        && is_marked(&node)
    {
        let patch = json!({"metadata": {"labels": {DECOMMISSION: null}}});
        step.change(&node, patch).await?;
    }
    drop_daemon_set(step).await;
    let (pods, _) = step.pods().await?;
    let left: Vec<PodName> = pods.iter().filter(|pod| is_ours(pod)).map(name).collect();
    for pod in &left {
        delete(&step.server, pod).await?;
    }
    Ok(left.len())
}

/// Deletes the DaemonSet if no node has the label. If that cannot be done it sleeps on, and does
/// no harm.
async fn drop_daemon_set(step: &NodeStep<'_>) {
    let server = &step.server;
    let dropped = async {
        let label = format!("{DECOMMISSION}={ENABLED}");
        let needs = ListParams::default().labels(&label);
        let take = |needed: &mut bool, _: IgnoredAny| *needed = true;
        let (is_needed, _) = server.list(NODES, &needs, || false, take).await?;
        if is_needed {
            return Ok(());
        }
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        server.delete(COLLECTION, NAME, &parameters).await.map(drop)
    };
    let dropped: Result<(), ApiError> = dropped.await;
    if let Err(error) = dropped {
        step.progress(format!("DaemonSet `{NAMESPACE}/{NAME}` stays: {error}"));
    }
}

/// The reason why the pod on the node does not shut the kubelet down.
async fn stuck(step: &NodeStep<'_>) -> String {
    let Ok((pods, _)) = step.pods().await else {
        return String::new();
    };
    match pods.iter().find(|pod| is_ours(pod)) {
        None => format!("; no pod of DaemonSet `kube-system/{NAME}` runs there"),
        Some(pod) => {
            let why = pod.status.waiting().unwrap_or(&pod.status.phase);
            format!("; pod `kube-system/{}` is {why}", pod.metadata.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_set_sleeps_until_a_node_has_the_label_as_the_specification_spells_it() {
        let manifest = manifest("example.org/tools:1");
        let pod = &manifest["spec"]["template"]["spec"];
        assert_eq!(
            pod["nodeSelector"],
            json!({"promenade-decomission": "enabled"})
        );
        assert_eq!(pod["containers"][0]["image"], "example.org/tools:1");
        let command = pod["containers"][0]["command"][2].as_str().unwrap();
        assert!(command.contains("systemctl disable kubelet && systemctl stop kubelet"));
    }

    #[test]
    fn fields_added_by_the_server_are_no_difference_and_changes_by_clients_are() {
        let wanted = manifest("a:1");
        let mut found = wanted.clone();
        found["metadata"]["uid"] = json!("u");
        found["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        found["status"] = json!({"desiredNumberScheduled": 0});
        assert!(holds(&found, &wanted));
        let mut changed = found.clone();
        changed["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        assert!(!holds(&changed, &wanted));
        let mut more = found.clone();
        let containers = &mut more["spec"]["template"]["spec"]["containers"];
        containers
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "other"}));
        assert!(!holds(&more, &wanted));
        assert!(!holds(&found, &manifest("a:2")));
    }
}
