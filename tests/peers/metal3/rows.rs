//! Every row of the truth table on a real API server: brought about as it is, then what trueup does.
//!
//! Operator and kubelets are asleep meanwhile, so that every change is trueup's. All three kinds of object are
//! in one store, whose versions say which change came first.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trueup::remediation::{Facts, TABLE, TableAction, action};

use super::lab::{HOLD, Lab, NEEDS, STATE, begin, machines, until};

/// A change of an object, or its end.
#[derive(Clone, Debug)]
struct Change {
    version: u64,
    kind: &'static str,
    object: Value,
    is_gone: bool,
}

type Changes = Arc<Mutex<Vec<Change>>>;

/// Writes down what happens to the objects of a kind from now on.
async fn follow<T>(api: Api<T>, kind: &'static str, changes: &Changes)
where
    T: Clone + std::fmt::Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let list = api.list(&kube::api::ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let changes = changes.clone();
    tokio::spawn(async move {
        let parameters = WatchParams::default().timeout(280);
        let stream = api.watch(&parameters, &version).await.unwrap();
        let mut stream = std::pin::pin!(stream);
        while let Some(Ok(event)) = stream.next().await {
            let (object, is_gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
            };
            let object = serde_json::to_value(object).unwrap();
            if kind == "Node" && !is_gone && !is_of_trueup(&object) {
                continue; // The control plane notes things on nodes when it likes.
            }
            let version = object["metadata"]["resourceVersion"].as_str().unwrap();
            let version = version.parse().unwrap();
            let change = Change {
                version,
                kind,
                object,
                is_gone,
            };
            changes.lock().unwrap().push(change);
        }
    });
}

/// Whether trueup has ever written this object.
fn is_of_trueup(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array();
    let mut managers = managers.into_iter().flatten();
    managers.any(|each| each["manager"] == "trueup")
}

/// The machine that a row is tried with.
fn name_of(facts: Facts) -> String {
    format!("n{}", facts.number() + 1)
}

/// An object without what every write changes, and without trueup's own annotations.
fn rest(object: &Value) -> Value {
    let mut rest = object.clone();
    let metadata = rest["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        for key in [HOLD, STATE, NEEDS] {
            annotations.remove(key);
        }
    }
    if metadata.get("annotations") == Some(&json!({})) {
        metadata.remove("annotations");
    }
    rest
}

fn has(object: &Value, key: &str) -> bool {
    !object["metadata"]["annotations"][key].is_null()
}

/// Makes a machine what a row says.
async fn bring_about(lab: &Lab, facts: Facts) {
    let name = name_of(facts);
    let merge = PatchParams::default();
    let annotations = json!({STATE: r#"{"attempt":1}"#,
        HOLD: facts.reboot_annotation.then_some(r#"{"mode":"hard"}"#)});
    let patch = json!({"metadata": {"annotations": annotations}});
    lab.management.patch(&name, patch).await;
    let status = Patch::Merge(json!({"status": {"poweredOn": facts.powered_on}}));
    let hosts = lab.management.hosts();
    hosts.patch_status(&name, &merge, &status).await.unwrap();
    if facts.needs_remediation {
        lab.ask(&name).await;
    }
    if !facts.node_ref {
        let nodes = lab.management.fixture.nodes();
        nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

/// What a change makes of a machine: which action of the table it is, if it is one of them.
fn judge(facts: &mut Facts, change: &Change, before: Option<&Value>) -> Option<TableAction> {
    let was = *facts;
    match change.kind {
        "Node" => {
            assert!(change.is_gone, "{was}: a node is changed: {change:?}");
            facts.node_ref = false;
            return Some(TableAction::DeleteNode);
        }
        "Machine" => facts.needs_remediation = has(&change.object, NEEDS),
        _ => facts.reboot_annotation = has(&change.object, HOLD),
    }
    assert!(!change.is_gone);
    assert_eq!(before.map(rest), Some(rest(&change.object)), "{was}");
    match (
        (was.needs_remediation, facts.needs_remediation),
        (was.reboot_annotation, facts.reboot_annotation),
    ) {
        ((true, false), _) => Some(TableAction::RemoveNeedsRemediation),
        (_, (true, false)) => Some(TableAction::RemoveRebootAnnotation),
        (_, (false, true)) => {
            assert!(is_of_trueup(&change.object), "{change:?}");
            Some(TableAction::AddRebootAnnotation)
        }
        ((false, true), _) => panic!("{was}: a machine asks anew"),
        _ => None,
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn every_row_of_the_table_is_acted_on_as_it_says_and_ends_with_a_machine_that_is_back() {
    let policy = "{power_settling: 1, power_off_timeout: 120, power_on_timeout: 120, ready_timeout: 120, \
                  backoff: 1, max_unhealthy: '100%', max_at_once: 16}";
    let Some(lab) = Lab::start(TABLE.len(), policy).await else {
        return;
    };
    let names: Vec<String> = TABLE.iter().map(|row| name_of(row.facts)).collect();
    lab.dead.lock().unwrap().extend(names.iter().cloned());
    until("the nodes are Ready still", async || {
        let nodes = lab
            .management
            .fixture
            .nodes()
            .list(&Default::default())
            .await;
        let is_ready = |node: &Node| {
            let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
            conditions
                .into_iter()
                .flatten()
                .any(|each| each.type_ == "Ready" && each.status == "True")
        };
        !nodes.unwrap().items.iter().any(is_ready)
    })
    .await;
    lab.management.operator.tell(|it| it.asleep = true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    for row in TABLE {
        bring_about(&lab, row.facts).await;
    }

    let plan = lab.trueup(&["plan", "remediate", "--format", "json"]).await;
    let plan = plan.with(0).json();
    for row in TABLE {
        let mut changes = plan["changes"].as_array().unwrap().iter();
        let change = changes.find(|each| each["node"] == name_of(row.facts));
        let reasons = change.unwrap()["reasons"].to_string();
        let words = format!("{}: {}", row.facts.phrase(), row.action);
        assert!(reasons.contains(&words), "{words}: {reasons}");
    }

    let changes = Changes::default();
    let mut objects: BTreeMap<(&str, String), Value> = BTreeMap::new();
    for name in &names {
        let machine = machines(&lab.management).get(&format!("m-{name}")).await;
        let machine = serde_json::to_value(machine.unwrap()).unwrap();
        objects.insert(("Machine", format!("m-{name}")), machine);
        objects.insert(("Host", name.clone()), lab.management.host(name).await);
    }
    follow(lab.management.hosts(), "Host", &changes).await;
    follow(machines(&lab.management), "Machine", &changes).await;
    follow(lab.management.fixture.nodes(), "Node", &changes).await;
    let mut run = begin(
        &lab.site,
        &["apply", "remediate", "--yes", "--parallelism", "16"],
        Stdio::inherit(),
    );
    // What the table makes of all rows where nobody else does anything.
    let mut expected = BTreeMap::new();
    for row in TABLE {
        let (mut facts, mut actions) = (row.facts, Vec::new());
        while action(facts) != TableAction::Nothing {
            let next = action(facts);
            match next {
                TableAction::AddRebootAnnotation => facts.reboot_annotation = true,
                TableAction::DeleteNode => facts.node_ref = false,
                TableAction::RemoveNeedsRemediation => facts.needs_remediation = false,
                TableAction::RemoveRebootAnnotation => facts.reboot_annotation = false,
                TableAction::Nothing => {}
            }
            actions.push(next);
        }
        expected.insert(name_of(row.facts), actions);
    }
    // Those that may delete a node also write down before what it carried.
    let writes = expected.values().map(Vec::len).sum::<usize>() + 1;
    until("what the table says is not done", async || {
        changes.lock().unwrap().len() >= writes
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    run.kill().unwrap();
    run.wait().unwrap();

    let mut all = changes.lock().unwrap().clone();
    all.sort_by_key(|change| change.version);
    let mut facts: BTreeMap<String, Facts> = TABLE
        .iter()
        .map(|row| (name_of(row.facts), row.facts))
        .collect();
    let mut done: BTreeMap<String, Vec<TableAction>> = names
        .iter()
        .map(|name| (name.clone(), Vec::new()))
        .collect();
    for change in &all {
        let name = change.object["metadata"]["name"].as_str().unwrap();
        let machine = name.trim_start_matches("m-");
        let now = facts.get_mut(machine).unwrap();
        let wanted = action(*now);
        let before = objects.insert((change.kind, name.to_owned()), change.object.clone());
        if let Some(acted) = judge(now, change, before.as_ref()) {
            assert_eq!(acted, wanted, "{machine}, now {now}");
            done.get_mut(machine).unwrap().push(acted);
        }
    }
    assert_eq!(done, expected);

    // From every row on, the machine comes back.
    lab.management.operator.tell(|it| it.asleep = false);
    lab.dead.lock().unwrap().clear();
    let more = ["--parallelism", "16"];
    lab.trueup(&[&["apply", "--resume"], &more[..]].concat())
        .await;
    // What others have changed since the first plan was made is planned anew.
    lab.trueup(&[&["apply", "remediate", "--yes"], &more[..]].concat())
        .await
        .with(0);
    for name in &names {
        assert_eq!(lab.annotations(name).await, json!([false, false, false]));
        assert!(lab.management.operator.is_on(name), "{name}");
        assert!(lab.node(name).await.is_some(), "{name}");
    }
}
