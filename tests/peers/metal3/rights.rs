//! The rights of `deploy/rbac.yaml` are enough for a watcher, and each of them is needed.

use std::process::{Child, Command, Stdio};

use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};

use super::lab::{Lab, QUICK, begin, kubeconfig_of, site, trueup, until};
use super::{Management, NAMESPACE};
use crate::harness::Ports;

const MANIFEST: &str = include_str!("../../../deploy/rbac.yaml");

pub(super) const ACCOUNT: &str = "system:serviceaccount:metal3:trueup-remediation";

/// One verb on one resource, and where the manifest gives it.
#[derive(Clone, Debug)]
struct Right {
    group: String,
    resource: String,
    verb: String,
    /// The document, and the rule in it.
    place: (usize, usize),
}

impl Right {
    /// As a server says that it is missing.
    fn refusal(&self) -> String {
        let Self {
            group,
            resource,
            verb,
            ..
        } = self;
        format!("cannot {verb} resource \"{resource}\" in API group \"{group}\"")
    }

    /// Whether a text names it as missing: in the server's words, or as a plan does.
    fn is_named(&self, text: &str) -> bool {
        let planned = format!(
            "rights are missing in its Kubernetes cluster: `{} {}",
            self.verb, self.resource
        );
        text.contains(&self.refusal()) || text.contains(&planned)
    }

    /// Only who watches needs it.
    fn is_of_the_watcher(&self) -> bool {
        self.verb == "watch" || self.resource == "leases"
    }
}

/// The manifest; with a suffix, everything that it makes is called otherwise.
pub(super) fn manifest(suffix: &str) -> Vec<Value> {
    let text = MANIFEST.replace(
        "name: trueup-remediation",
        &format!("name: trueup-remediation{suffix}"),
    );
    let documents = text.split("---\n");
    documents
        .map(|text| serde_yaml::from_str(text).unwrap())
        .collect()
}

fn rights(documents: &[Value]) -> Vec<Right> {
    let mut rights = Vec::new();
    for (document, object) in documents.iter().enumerate() {
        let rules = object["rules"].as_array().into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            let texts = |field: &str| {
                let all: Vec<String> = serde_json::from_value(rule[field].clone()).unwrap();
                all
            };
            assert_eq!(texts("apiGroups").len(), 1);
            for resource in texts("resources") {
                rights.extend(texts("verbs").into_iter().map(|verb| Right {
                    group: texts("apiGroups").remove(0),
                    resource: resource.clone(),
                    verb,
                    place: (document, index),
                }));
            }
        }
    }
    rights
}

/// Takes one right away.
fn without(mut documents: Vec<Value>, right: &Right) -> Vec<Value> {
    let (document, index) = right.place;
    let rules = documents[document]["rules"].as_array_mut().unwrap();
    let mut rule = rules.remove(index);
    let resources = rule["resources"].as_array_mut().unwrap();
    if resources.len() > 1 {
        let mut others = rule.clone();
        let is_other = |each: &Value| *each != json!(right.resource);
        others["resources"].as_array_mut().unwrap().retain(is_other);
        rules.push(others);
        rule["resources"] = json!([right.resource]);
    }
    let verbs = rule["verbs"].as_array_mut().unwrap();
    verbs.retain(|verb| *verb != json!(right.verb));
    if !verbs.is_empty() {
        rules.push(rule);
    }
    documents
}

pub(super) async fn create(management: &Management, documents: &[Value]) {
    for document in documents {
        management.fixture.create(document).await;
    }
}

/// The Deployment is one to the server, to the letter, of the account that has the rights, and runs the program
/// as it can be run.
async fn the_deployment_fits(lab: &Lab) {
    let text = include_str!("../../../deploy/deployment.yaml");
    let written: Value = serde_yaml::from_str(text).unwrap();
    let client = lab.management.fixture.client.clone();
    let deployments: kube::Api<Deployment> = kube::Api::namespaced(client, NAMESPACE);
    let strict = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("test")
    };
    let name = written["metadata"]["name"].as_str().unwrap();
    let patch = Patch::Apply(&written);
    let there = deployments.patch(name, &strict, &patch).await.unwrap();
    let pod = there.spec.unwrap().template.spec.unwrap();
    let account = format!(
        "system:serviceaccount:{NAMESPACE}:{}",
        pod.service_account_name.unwrap()
    );
    assert_eq!(account, ACCOUNT);
    let arguments = pod.containers[0].args.clone().unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // If there is no site, that is all that is wrong.
    let nowhere = Command::new(env!("CARGO_BIN_EXE_trueup"))
        .args(&arguments)
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(1), "{nowhere:?}");
}

/// A watcher with a Lease that nobody holds; ends when it is dropped.
struct Watcher {
    child: Child,
    log: std::path::PathBuf,
}

impl Watcher {
    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn watcher(site: &crate::site::Site, more: &[&str]) -> Watcher {
    let log = site.path().join("../").join(format!(
        "{}.log",
        site.path().file_name().unwrap().to_str().unwrap()
    ));
    let file = std::fs::File::create(&log).unwrap();
    let arguments = [&["apply", "remediate", "--watch"], more].concat();
    Watcher {
        child: begin(site, &arguments, Stdio::from(file)),
        log,
    }
}

#[tokio::test]
async fn the_rights_of_the_manifest_are_enough_for_a_watcher() {
    let Some(management) = Management::start().await else {
        return;
    };
    create(&management, &manifest("")).await;
    let kubeconfig = kubeconfig_of(&management, ACCOUNT);
    let lab = Lab::of(management, &kubeconfig, 3, QUICK).await;
    let old = lab.uid("n1").await;
    let ports = Ports::claim();
    let mut child = lab.watcher(ports.at(0));
    lab.ask("n1").await;
    until("n1 is not remediated", async || {
        let node = lab.node("n1").await;
        let is_new = node.is_some_and(|node| node.metadata.uid.as_deref() != Some(&*old));
        is_new && lab.annotations("n1").await == json!([false, false, false])
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    lab.is_healed("n1", &old).await;
    assert_eq!(lab.cycles("n1").0, 1);
    let metrics = super::lab::get(ports.at(0), "/metrics");
    assert!(metrics.is_empty(), "it has ended");
    the_deployment_fits(&lab).await;
}

#[tokio::test]
async fn each_right_of_the_manifest_is_needed_and_is_named_where_it_is_missing() {
    let Some(management) = Management::start().await else {
        return;
    };
    let all = rights(&manifest(""));
    let user = |number: usize| format!("{ACCOUNT}-{number}");
    for (number, right) in all.iter().enumerate() {
        let less = without(manifest(&format!("-{number}")), right);
        create(&management, &less).await;
    }
    let kubeconfig = management.fixture.kubeconfig();
    let lab = Lab::of(management, &kubeconfig, all.len(), QUICK).await;
    let policy = QUICK.replace('{', "{attempts: 1, max_unhealthy: '100%', ");
    let (lab_ref, nodes) = (&lab, all.len());
    let (watching, once): (Vec<_>, Vec<_>) = all
        .iter()
        .enumerate()
        .partition(|(_, right)| right.is_of_the_watcher());
    let run = |(number, right): (usize, &Right)| {
        let (policy, right) = (policy.clone(), right.clone());
        async move {
            let kubeconfig = kubeconfig_of(&lab_ref.management, &user(number));
            let site = site(&kubeconfig, nodes, &policy);
            let node = format!("n{}", number + 1);
            let mut runs = vec![vec!["apply", "remediate", &node, "--yes"]];
            if right.resource.contains("machines") && right.verb == "list" {
                // Nobody may be told that nothing asks where nobody could look.
                runs.push(vec!["plan", "remediate"]);
            }
            for run in runs {
                let ended = trueup(site.clone(), &run).await;
                let said = ended.stdout + &ended.stderr;
                if ended.code == 0 || !right.is_named(&said) {
                    return Some(format!("{right:?}: {run:?}: {} {said}", ended.code));
                }
            }
            None
        }
    };
    let mut unneeded: Vec<String> = futures_util::stream::iter(once)
        .map(run)
        .buffer_unordered(6)
        .filter_map(async |each| each)
        .collect()
        .await;
    for (number, right) in watching {
        let kubeconfig = kubeconfig_of(&lab.management, &user(number));
        let site = site(&kubeconfig, 1, &policy);
        let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> =
            kube::Api::namespaced(lab.management.fixture.client.clone(), NAMESPACE);
        let name = "trueup-remediation";
        let _ = leases.delete(name, &DeleteParams::default()).await;
        if right.resource == "leases" && right.verb == "patch" {
            let free = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}});
            lab.management.fixture.create(&free).await;
        }
        let watcher = watcher(&site, &[]);
        let began = std::time::Instant::now();
        while !watcher.said().contains(&right.refusal()) {
            if began.elapsed().as_secs() > 10 {
                unneeded.push(format!("{right:?}: {}", watcher.said()));
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    assert!(unneeded.is_empty(), "{}", unneeded.join("\n\n"));
}
