//! The two annotations of metal3-remediation, if the resources of a management cluster hold them.
//!
//! An annotation of its Machine requests remediation, one of its host fences it (power off). The host
//! also carries the state that another process needs: which attempt runs, and the labels and taints of the node
//! that was released. Every write names the observed version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::management::Management;
use super::resource::{Host, Machine, Metal3Machine, key};
use crate::backend::api_server::ApiError;
use crate::backend::retry::waits;
use crate::backend::{ActError, Holder, HostSeen, Pending};
use crate::design::NodeName;
use crate::observed::RemediationSeen;
use crate::remediation::{Backup, HostState, refusal};

/// On a Machine: it needs remediation.
pub const NEEDS_REMEDIATION: &str = "host.metal3.io/external-remediation";

/// The value of [`NEEDS_REMEDIATION`] if trueup asks; only the key counts.
const ASKED_BY: &str = "trueup";

/// On a host: it is fenced (powered off) while it is remediated.
pub const HOLD: &str = "reboot.metal3.io/machine-remediation";

/// The value of [`HOLD`]: the machine has failed, and nothing on it is asked to end.
pub const HARD: &str = r#"{"mode":"hard"}"#;

/// On a host: the running remediation, as JSON.
pub const STATE: &str = "trueup.dev/remediation";

/// On a host: why its remediation was aborted.
pub const ABORTED: &str = "trueup.dev/remediation-given-up";

/// The longest text that is kept on a host, in bytes: all annotations together have 256 KiB.
const LONGEST: usize = 200 << 10;

/// The first and the longest interval between two polls of the power.
const PACE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// The state of a remediation on its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RemediationState {
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<Backup>,
}

impl RemediationState {
    fn of(host: &Host) -> Self {
        let text = host.annotation(STATE);
        let state = text.and_then(|text| serde_json::from_str(text).ok());
        state.unwrap_or_default()
    }
}

/// A host, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Chain<'a> {
    host: &'a Host,
    metal3_machine: Option<&'a Metal3Machine>,
    machine: Option<&'a Machine>,
}

impl Chain<'_> {
    /// The state that decides whether it can be remediated.
    fn state(&self) -> HostState {
        let host = self.host;
        let consumer = host.spec.consumer_ref.as_ref();
        let annotation = self
            .metal3_machine
            .and_then(|machine| machine.metadata.annotations.get(key::HOST));
        let (namespace, name) = match annotation.and_then(|written| written.split_once('/')) {
            Some((namespace, name)) => (Some(namespace), Some(name)),
            None => (None, annotation.map(|written| &**written)),
        };
        let own = &*host.metadata.namespace;
        let is_elsewhere = |other: &str| !other.is_empty() && other != own;
        HostState {
            paused: host.annotation(key::PAUSED).is_some(),
            detached: host.annotation(key::DETACHED).is_some()
                || &*host.status.operational_status == "detached",
            offline: !host.spec.online,
            never_off: host.spec.disable_power_off,
            unused: consumer.is_none() || self.machine.is_none(),
            of_another: consumer.is_some_and(|consumer| &*consumer.kind != "Metal3Machine")
                || name.is_some_and(|name| name != &*host.metadata.name),
            elsewhere: namespace.is_some_and(is_elsewhere)
                || consumer.is_some_and(|consumer| is_elsewhere(&consumer.namespace)),
            not_provisioned: !matches!(
                &*host.status.provisioning.state,
                "provisioned" | "externally provisioned"
            ),
            going: host.metadata.deletion_timestamp.is_some(),
        }
    }

    fn needs_remediation(&self) -> bool {
        let annotations = self.machine.map(|machine| &machine.metadata.annotations);
        annotations.is_some_and(|annotations| annotations.contains_key(NEEDS_REMEDIATION))
    }

    fn seen(&self) -> RemediationSeen {
        let path = |namespace: &str, name: &str| Arc::from(format!("{namespace}/{name}"));
        let host = &self.host.metadata;
        let machine = self.machine.map(|machine| &machine.metadata);
        RemediationSeen {
            machine: machine.map(|machine| path(&machine.namespace, &machine.name)),
            host: path(&host.namespace, &host.name),
            needs_remediation: self.needs_remediation(),
            reboot_annotation: self.host.annotation(HOLD).is_some(),
            under_way: RemediationState::of(self.host) != RemediationState::default(),
            refused: refusal(&self.state()).map(|refused| Arc::from(refused.to_string())),
            unseen: None,
            given_up: self.host.annotation(ABORTED).cloned(),
        }
    }
}

/// The name of the Metal3Machine that uses a host.
fn user(host: &Host) -> Option<&str> {
    let consumer = host.spec.consumer_ref.as_ref()?;
    (&*consumer.kind == "Metal3Machine").then_some(&*consumer.name)
}

/// The name of the Machine that a Metal3Machine is of.
fn owner(machine: &Metal3Machine) -> Option<&str> {
    let owners = machine.metadata.owner_references.iter();
    let mut machines = owners.filter(|owner| &*owner.kind == "Machine");
    machines.next().map(|owner| &*owner.name)
}

/// The reasons for the remediation of hosts, by three lists; `hosts`: nodes by the names of their hosts.
///
/// # Errors
///
/// The cluster cannot be asked.
pub(super) async fn remediations(
    management: &Management,
    nodes: &FxHashMap<Arc<str>, NodeName>,
) -> Result<BTreeMap<NodeName, RemediationSeen>, ApiError> {
    let (hosts, metal3_machines, machines) = tokio::try_join!(
        management.hosts(),
        management.metal3_machines(),
        management.machines()
    )?;
    Ok(chained(nodes, &hosts.0, &metal3_machines.0, &machines.0))
}

/// The reasons for the remediation of nodes, by their hosts and by Machines that have lost theirs.
fn chained(
    nodes: &FxHashMap<Arc<str>, NodeName>,
    hosts: &[Host],
    metal3_machines: &[Metal3Machine],
    machines: &[Machine],
) -> BTreeMap<NodeName, RemediationSeen> {
    let metal3_machines: FxHashMap<&str, &Metal3Machine> = metal3_machines
        .iter()
        .map(|each| (&*each.metadata.name, each))
        .collect();
    let machines: FxHashMap<&str, &Machine> = machines
        .iter()
        .map(|each| (&*each.metadata.name, each))
        .collect();
    let mut reached: FxHashSet<&str> = FxHashSet::default();
    let mut seen: BTreeMap<NodeName, RemediationSeen> = BTreeMap::new();
    for host in hosts {
        let Some(node) = nodes.get(&host.metadata.name) else {
            continue;
        };
        let metal3_machine = user(host).and_then(|name| metal3_machines.get(name).copied());
        let machine = metal3_machine.and_then(owner);
        let chain = Chain {
            host,
            metal3_machine,
            machine: machine.and_then(|name| machines.get(name).copied()),
        };
        reached.extend(chain.machine.map(|machine| &*machine.metadata.name));
        seen.insert(node.clone(), chain.seen());
    }
    for machine in machines.values() {
        let asks = machine.metadata.annotations.contains_key(NEEDS_REMEDIATION);
        if asks && !reached.contains(&*machine.metadata.name) {
            let mut users = metal3_machines.values();
            let user = users.find(|user| owner(user) == Some(&machine.metadata.name));
            if let Some(node) = node_of_lost(machine, user.copied(), nodes) {
                let of_node = seen.entry(node.clone()).or_default();
                lose(of_node, machine);
            }
        }
    }
    seen
}

/// The node of a Machine that no host is used by: by the host that its Metal3Machine names, else by the Node
/// that it names itself.
fn node_of_lost<'n>(
    machine: &Machine,
    metal3_machine: Option<&Metal3Machine>,
    nodes: &'n FxHashMap<Arc<str>, NodeName>,
) -> Option<&'n NodeName> {
    let annotations = metal3_machine.map(|machine| &machine.metadata.annotations);
    let named = annotations.and_then(|annotations| annotations.get(key::HOST));
    let host = named.and_then(|named| named.rsplit('/').next());
    let by_host = host.and_then(|host| nodes.get(host));
    let node = machine.status.node_ref.as_ref();
    let by_node = || {
        nodes
            .values()
            .find(|name| Some(name.as_str()) == node.map(|it| &*it.name))
    };
    by_host.or_else(by_node)
}

/// Says of a node that its Machine asks for remediation, and that its host is not used by it any more.
fn lose(seen: &mut RemediationSeen, machine: &Machine) {
    let path = format!("{}/{}", machine.metadata.namespace, machine.metadata.name);
    seen.refused = Some(Arc::from(format!(
        "Machine `{path}` asks for its remediation, and no BareMetalHost is used by that Machine: its host was \
         deleted, or has lost it (`spec.consumerRef`); needs manual intervention"
    )));
    seen.machine = Some(Arc::from(path));
    seen.needs_remediation = true;
}

/// Holds the annotations of one machine.
pub(super) struct Annotations<'a> {
    pub(super) management: &'a Management,
    pub(super) node: &'a NodeName,
    /// The name of its host.
    pub(super) host: Arc<str>,
}

impl Annotations<'_> {
    fn failure(&self, error: ApiError) -> ActError {
        let (node, host) = (self.node.as_str(), &self.host);
        match error.code() {
            // Another client has changed it: it is observed again.
            Some(409) => ActError::Passing(format!("host `{host}` was changed meanwhile").into()),
            _ => error.into_error(&format!("node `{node}`: host `{host}`: remediation")),
        }
    }

    async fn host(&self) -> Result<Host, ActError> {
        let host = self.management.host(&self.host).await;
        let host = host.map_err(|error| match error.code() {
            // It could be read when this began: a restarted server may not have loaded our rights yet.
            Some(401 | 403) => {
                ActError::Passing(format!("host `{}`: remediation: {error}", self.host).into())
            }
            _ => self.failure(error),
        })?;
        host.ok_or_else(|| ActError::Permanent(format!("host `{}` is gone", self.host).into()))
    }

    /// The Metal3Machine that uses the host, and its Machine.
    async fn users(
        &self,
        host: &Host,
    ) -> Result<(Option<Metal3Machine>, Option<Machine>), ApiError> {
        let Some(name) = user(host) else {
            return Ok((None, None));
        };
        let Some(metal3_machine) = self.management.metal3_machine(name).await? else {
            return Ok((None, None));
        };
        let machine = match owner(&metal3_machine) {
            Some(name) => self.management.machine(name).await?,
            None => None,
        };
        Ok((Some(metal3_machine), machine))
    }

    /// Sets or takes off annotations of the host, if they are not so already.
    async fn annotate(&self, wanted: &[(&str, Option<&str>)]) -> Result<(), ActError> {
        let host = self.host().await?;
        let Some(patch) = missing(&host.metadata.annotations, wanted) else {
            return Ok(());
        };
        let changed = self.management.change_host(&host, patch).await;
        changed.map(drop).map_err(|error| self.failure(error))
    }

    /// Sets or takes off the annotation of the Machine that asks for remediation.
    async fn ask(&self, wanted: Option<&str>) -> Result<(), ActError> {
        let host = self.host().await?;
        let users = self.users(&host).await;
        let (_, machine) = users.map_err(|error| self.failure(error))?;
        let Some(machine) = machine else {
            return match wanted {
                None => Ok(()),
                Some(_) => {
                    let text = format!("host `{}` has no Machine that uses it", self.host);
                    Err(ActError::Permanent(text.into()))
                }
            };
        };
        // An annotation that is there already stays.
        let asks = machine.metadata.annotations.get(NEEDS_REMEDIATION);
        let wanted = [(
            NEEDS_REMEDIATION,
            wanted.map(|wanted| asks.map_or(wanted, |asks| asks)),
        )];
        let Some(patch) = missing(&machine.metadata.annotations, &wanted) else {
            return Ok(());
        };
        let changed = self.management.change_machine(&machine, patch).await;
        changed.map(drop).map_err(|error| self.failure(error))
    }

    async fn persist(&self, change: impl FnOnce(&mut RemediationState)) -> Result<(), ActError> {
        let host = self.host().await?;
        let mut state = RemediationState::of(&host);
        change(&mut state);
        let text = serde_json::to_string(&state).unwrap_or_default();
        if text.len() > LONGEST {
            let text = format!(
                "labels, annotations and taints of its node have {} bytes, and an annotation of a host can hold {LONGEST}",
                text.len()
            );
            return Err(ActError::Permanent(text.into()));
        }
        let text = (state != RemediationState::default()).then_some(&*text);
        let Some(patch) = missing(&host.metadata.annotations, &[(STATE, text)]) else {
            return Ok(());
        };
        let changed = self.management.change_host(&host, patch).await;
        changed.map(drop).map_err(|error| self.failure(error))
    }

    async fn await_power(&self, on: bool, bound: Duration) -> Result<(), ActError> {
        let began = Instant::now();
        let mut waits = waits(PACE[0], PACE[1], &*self.host);
        loop {
            let host = match self.host().await {
                // An absence may pass, or the time is over.
                Err(ActError::Passing(_)) if began.elapsed() < bound => None,
                host => Some(host?),
            };
            if host.is_some_and(|host| host.status.powered_on == on) {
                return Ok(());
            }
            if began.elapsed() >= bound {
                let wanted = if on { "on" } else { "off" };
                let text = format!("it was not seen {wanted} within {} s", bound.as_secs());
                return Err(ActError::Permanent(text.into()));
            }
            let wait = waits.next().unwrap_or(PACE[1]);
            sleep(wait.min(bound.saturating_sub(began.elapsed()))).await;
        }
    }
}

/// The patch that makes annotations what is wanted; `None` if they are.
fn missing(
    annotations: &BTreeMap<Arc<str>, Arc<str>>,
    wanted: &[(&str, Option<&str>)],
) -> Option<Value> {
    let differs = |(key, value): &&(&str, Option<&str>)| {
        annotations.get(*key).map(|there| &**there) != *value
    };
    let patch: serde_json::Map<String, Value> = wanted
        .iter()
        .filter(differs)
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    (!patch.is_empty()).then(|| json!({"metadata": {"annotations": patch}}))
}

impl Holder for Annotations<'_> {
    fn look(&self) -> Pending<'_, Result<HostSeen, ActError>> {
        Box::pin(async move {
            let host = self.host().await?;
            let users = self.users(&host).await;
            let (metal3_machine, machine) = users.map_err(|error| self.failure(error))?;
            let chain = Chain {
                host: &host,
                metal3_machine: metal3_machine.as_ref(),
                machine: machine.as_ref(),
            };
            let state = RemediationState::of(&host);
            let refused = refusal(&chain.state());
            Ok(HostSeen {
                powered_on: Ok(host.status.powered_on),
                needs_remediation: chain.needs_remediation(),
                reboot_annotation: host.annotation(HOLD).is_some(),
                refused: refused.map(|refused| Arc::from(refused.to_string())),
                backup: state.backup,
                attempt: state.attempt,
            })
        })
    }

    fn mark(&self, attempt: u32) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move {
            self.ask(Some(ASKED_BY)).await?;
            self.annotate(&[(ABORTED, None)]).await?;
            self.persist(|state| state.attempt = attempt).await
        })
    }

    fn hold(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move { self.annotate(&[(HOLD, Some(HARD))]).await })
    }

    fn await_off(&self, _: u32, bound: Duration) -> Pending<'_, Result<(), ActError>> {
        Box::pin(self.await_power(false, bound))
    }

    fn keep<'a>(&'a self, backup: &'a Backup) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            self.persist(|state| state.backup = Some(backup.clone()))
                .await
        })
    }

    fn unmark(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(self.ask(None))
    }

    fn let_go(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move { self.annotate(&[(HOLD, None)]).await })
    }

    fn await_on(&self, _: u32, bound: Duration) -> Pending<'_, Result<(), ActError>> {
        Box::pin(self.await_power(true, bound))
    }

    fn drop_kept(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move { self.persist(|state| state.backup = None).await })
    }

    fn end<'a>(&'a self, given_up: Option<&'a Arc<str>>) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            // A backup that was not restored stays, for the next attempt.
            self.persist(|state| state.attempt = 0).await?;
            let reason = given_up.map(|reason| &**reason);
            self.annotate(&[(ABORTED, reason)]).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn host(change: impl FnOnce(&mut Value)) -> Host {
        let mut host = json!({"metadata": {"name": "n1", "namespace": "metal3", "annotations": {}},
            "spec": {"online": true, "consumerRef": {"kind": "Metal3Machine", "name": "i1", "namespace": "metal3"}},
            "status": {"poweredOn": true, "provisioning": {"state": "provisioned"}}});
        change(&mut host);
        of(host)
    }

    fn seen(host: &Host, written: &str) -> RemediationSeen {
        let metal3_machine: Metal3Machine =
            of(json!({"metadata": {"name": "i1", "namespace": "metal3",
            "annotations": {"metal3.io/BareMetalHost": written},
            "ownerReferences": [{"kind": "Machine", "name": "m1"}]}}));
        let machine: Machine = of(json!({"metadata": {"name": "m1", "namespace": "metal3",
            "annotations": {NEEDS_REMEDIATION: ""}}}));
        assert_eq!(owner(&metal3_machine), Some("m1"));
        Chain {
            host,
            metal3_machine: Some(&metal3_machine),
            machine: Some(&machine),
        }
        .seen()
    }

    #[test]
    fn a_host_in_use_is_told_with_its_machine_and_what_is_on_both() {
        let told = seen(&host(|_| ()), "metal3/n1");
        assert_eq!(told.machine.as_deref(), Some("metal3/m1"));
        assert!(told.needs_remediation && !told.reboot_annotation && !told.under_way);
        assert_eq!(told.refused, None);
        let held = host(|host| {
            host["metadata"]["annotations"] = json!({HOLD: HARD, STATE: r#"{"attempt":1}"#});
        });
        let told = seen(&held, "metal3/n1");
        assert!(told.reboot_annotation && told.under_way);
    }

    #[test]
    fn each_refusal_is_read_from_the_resources() {
        let refused = |host: &Host, written: &str| seen(host, written).refused.unwrap_or_default();
        let annotated = |key: &str| host(|host| host["metadata"]["annotations"] = json!({key: ""}));
        assert!(refused(&annotated(key::PAUSED), "metal3/n1").contains("paused"));
        assert!(refused(&annotated(key::DETACHED), "metal3/n1").contains("detached"));
        let cases: [(&str, Value, &str); 5] = [
            ("/spec/online", json!(false), "online: false"),
            ("/spec/consumerRef", Value::Null, "no consumer"),
            ("/spec/consumerRef/kind", json!("Other"), "another consumer"),
            (
                "/spec/consumerRef/namespace",
                json!("other"),
                "another namespace",
            ),
            (
                "/status/provisioning/state",
                json!("available"),
                "not provisioned",
            ),
        ];
        for (pointer, value, words) in cases {
            let host = host(|host| *host.pointer_mut(pointer).unwrap() = value);
            let said = refused(&host, "metal3/n1");
            assert!(said.contains(words), "{pointer}: {said}");
        }
        assert!(refused(&host(|_| ()), "other/n1").contains("another namespace"));
        assert!(refused(&host(|_| ()), "metal3/n2").contains("another consumer"));
        let never = host(|host| host["spec"]["disablePowerOff"] = json!(true));
        assert!(refused(&never, "metal3/n1").contains("disablePowerOff"));
    }

    #[test]
    fn only_what_differs_is_patched() {
        let there = [(Arc::from("a"), Arc::from("1"))].into();
        assert_eq!(missing(&there, &[("a", Some("1")), ("b", None)]), None);
        assert_eq!(
            missing(&there, &[("a", None), ("b", Some("2"))]),
            Some(json!({"metadata": {"annotations": {"a": null, "b": "2"}}}))
        );
        let hard: Value = serde_json::from_str(HARD).unwrap();
        assert_eq!(hard, json!({"mode": "hard"}));
        assert_eq!(hard.to_string(), HARD, "canonical");
    }

    #[test]
    fn a_machine_that_its_host_has_lost_is_refused_and_not_passed_over() {
        let nodes = FxHashMap::from_iter([(Arc::from("n1"), NodeName::from("n1"))]);
        let user = |named: &str| -> Metal3Machine {
            of(json!({"metadata": {"name": "i1", "namespace": "metal3",
                "annotations": {"metal3.io/BareMetalHost": named},
                "ownerReferences": [{"kind": "Machine", "name": "m1"}]}}))
        };
        let machine = |asks: Value, node: &str| -> Machine {
            of(
                json!({"metadata": {"name": "m1", "namespace": "metal3", "annotations": asks},
                "status": {"nodeRef": {"name": node}}}),
            )
        };
        let asks = || json!({NEEDS_REMEDIATION: ""});
        let released = host(|host| host["spec"]["consumerRef"] = Value::Null);
        for (hosts, users, node) in [
            (vec![released.clone()], vec![user("metal3/n1")], "elsewhere"),
            (vec![], vec![user("metal3/n1")], "elsewhere"),
            (vec![released.clone()], vec![], "n1"),
            (vec![], vec![], "n1"),
        ] {
            let seen = chained(&nodes, &hosts, &users, &[machine(asks(), node)]);
            let of_node = &seen[&NodeName::from("n1")];
            let refused = of_node.refused.as_deref().unwrap();
            assert!(
                of_node.needs_remediation && refused.contains("has lost it"),
                "{of_node:?}"
            );
            assert_eq!(of_node.machine.as_deref(), Some("metal3/m1"));
        }
        let quiet = chained(
            &nodes,
            &[released],
            &[user("metal3/n1")],
            &[machine(json!({}), "n1")],
        );
        assert!(!quiet[&NodeName::from("n1")].needs_remediation);
        let used = chained(
            &nodes,
            &[host(|_| {})],
            &[user("metal3/n1")],
            &[machine(asks(), "n1")],
        );
        assert_eq!(used[&NodeName::from("n1")].refused, None);
    }
}
