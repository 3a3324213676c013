//! Shuts the kubelet of a node down: a DaemonSet that does nothing until a node has the label for it.
//!
//! Its pod stops the kubelet through the init system of its host (`nsenter` into the namespaces of
//! process 1), so that it has to be privileged; it has no rights towards the API server. The label is
//! `promenade-decomission: enabled`, spelled as the specification spells it.

use serde_json::{Value, json};

use super::errand::{Errand, Outage, PACE};
use super::labels::{DECOMMISSION, ENABLED};
use super::object::Node;
use crate::backend::api_server::{Server, Trouble};
use crate::backend::{ActError, Probe};

/// Where the DaemonSet is.
const COLLECTION: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";

/// Its name.
const NAME: &str = "trueup-shutdown-kubelet";

/// What its pods do on the host; they then wait, since a pod that ends is started again.
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
pub(super) async fn is_applied(server: &Server, image: &str) -> Result<bool, Trouble> {
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

fn is_marked(node: &Node) -> bool {
    node.metadata
        .labels
        .get(DECOMMISSION)
        .is_some_and(|value| &**value == ENABLED)
}

/// Whether the label is set and the kubelet is silent.
pub(super) async fn probe(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    Ok(match errand.meant_or_gone().await? {
        Ok(node) if is_marked(&node) && !node.status.is_ready() => Probe::Done,
        Ok(node) if is_marked(&node) => Probe::UnderWay,
        Ok(_) => Probe::NotBegun,
        Err(probe) => probe,
    })
}

/// Applies the DaemonSet, sets the label, and waits until the node is not Ready.
pub(super) async fn act(errand: &Errand<'_>) -> Result<(), ActError> {
    let node = errand.present().await?;
    if errand.parameters.node_is_gone {
        return Ok(());
    }
    let image = &errand.shutdown_image;
    let applied = is_applied(&errand.server, image).await;
    if !applied.map_err(|trouble| errand.trouble(trouble))? {
        let manifest = manifest(image);
        let applied = errand
            .server
            .apply::<Value>(COLLECTION, NAME, &manifest)
            .await;
        applied.map_err(|trouble| errand.trouble(trouble))?;
    }
    if !is_marked(&node) {
        let patch = json!({"metadata": {"labels": {DECOMMISSION: ENABLED}}});
        let marked = errand.change(&node, patch).await;
        marked.map_err(|trouble| errand.trouble(trouble))?;
    }
    let mut outage = Outage::none();
    loop {
        match errand.meant().await {
            Err(trouble) => outage.bear(errand, trouble).await?,
            Ok(None) => drop(errand.present().await?),
            Ok(Some(node)) if !node.status.is_ready() => return Ok(()),
            Ok(Some(_)) => {
                outage.ends();
                if errand.is_over() {
                    let text = format!("the node is still Ready after {} s", errand.timeout());
                    let pods = stuck(errand).await;
                    return Err(errand.failure(format!("{text}{pods}")));
                }
                errand.progress("waiting until the kubelet is silent");
                errand.pause(PACE).await;
            }
        }
    }
}

/// What the pod on the node does instead of shutting the kubelet down.
async fn stuck(errand: &Errand<'_>) -> String {
    let Ok((pods, _)) = errand.pods().await else {
        return String::new();
    };
    let is_ours = |name: &str| name.starts_with(NAME);
    match pods.iter().find(|pod| is_ours(&pod.metadata.name)) {
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
    fn what_a_server_adds_is_no_difference_and_what_somebody_changed_is() {
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
