//! The manifests of the service before a real kube-apiserver: each document is one to the server, to the letter.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::Deserialize as _;
use serde_json::Value;

use crate::kubernetes::{Fixture, until};

const MANIFEST: &str = include_str!("../../../deploy/serve.yaml");

/// The account of the service.
const ACCOUNT: &str = "system:serviceaccount:trueup:trueup-serve";

fn documents() -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(MANIFEST);
    let documents = documents.map(|document| Value::deserialize(document).unwrap());
    documents.collect()
}

/// Applies the manifests, as `kubectl apply --server-side` does, which takes no field that the server does not know.
pub(super) async fn apply(fixture: &Fixture) {
    let strict = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("test")
    };
    for document in documents() {
        let kind = document["kind"].as_str().unwrap();
        let version = document["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match document["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(fixture.client.clone(), namespace, &resource),
            None => Api::all_with(fixture.client.clone(), &resource),
        };
        let name = document["metadata"]["name"].as_str().unwrap();
        let applied = api.patch(name, &strict, &Patch::Apply(&document)).await;
        applied.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }
}

/// The kubeconfig of the account of the service.
pub(super) fn kubeconfig(fixture: &Fixture) -> std::path::PathBuf {
    let path = fixture.kubeconfig();
    let admin = "{token: admin-token}";
    let text = std::fs::read_to_string(&path).unwrap();
    let of_account = text.replace(admin, &format!("{{token: admin-token, as: \"{ACCOUNT}\"}}"));
    assert_ne!(of_account, text);
    let path = path.with_file_name("kubeconfig-of-the-service");
    std::fs::write(&path, of_account).unwrap();
    path
}

#[tokio::test]
async fn the_manifests_of_the_service_make_its_pod() {
    let Some(fixture) = Fixture::start("clusters: {kubernetes: {}}").await else {
        return;
    };
    apply(&fixture).await;
    // Again, over what is there.
    apply(&fixture).await;
    let pods: Api<Pod> = Api::namespaced(fixture.client.clone(), "trueup");
    until("the Deployment makes no pod", || async {
        pods.list(&ListParams::default()).await.unwrap().items.len() == 1
    })
    .await;
    let pod = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let spec = pod.spec.unwrap();
    assert_eq!(spec.service_account_name.as_deref(), Some("trueup-serve"));
    let context = spec.security_context.unwrap();
    assert_eq!(context.run_as_non_root, Some(true));
    assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault");
}
