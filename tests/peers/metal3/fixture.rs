//! A management cluster of its own for each test: a real API server with the real CRDs, and the operator.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::mended;
use super::operator::{Operator, hosts};
use crate::harness::shared;
use crate::kubernetes::Fixture;

/// The namespace of the hosts.
pub(crate) const NAMESPACE: &str = "metal3";

/// A management cluster with its operator.
pub(crate) struct Management {
    pub(crate) operator: Operator,
    pub(crate) fixture: Fixture,
}

impl Management {
    /// Starts one; `None`, said loudly, if that cannot be.
    pub(crate) async fn start() -> Option<Self> {
        let definitions = shared("data/metal3/crds")?;
        let assets = mended::assets()?;
        let fixture = Fixture::start_of("clusters: {kubernetes: {}}", Some(assets)).await?;
        let mut files: Vec<_> = std::fs::read_dir(definitions).unwrap().flatten().collect();
        files.sort_by_key(std::fs::DirEntry::file_name);
        for file in files {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let definition: Value = serde_yaml::from_str(&text).unwrap();
            fixture.create(&definition).await;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        fixture.create(&namespace).await;
        for (group, version, kind) in [
            ("metal3.io", "v1alpha1", "BareMetalHost"),
            ("cluster.x-k8s.io", "v1beta2", "Machine"),
            (
                "infrastructure.cluster.x-k8s.io",
                "v1beta2",
                "Metal3Machine",
            ),
        ] {
            served(
                &fixture.client,
                &GroupVersionKind::gvk(group, version, kind),
            )
            .await;
        }
        let operator = Operator::start(&fixture.kubeconfig(), NAMESPACE);
        Some(Self { operator, fixture })
    }

    /// The hosts.
    pub(crate) fn hosts(&self) -> Api<DynamicObject> {
        hosts(self.fixture.client.clone(), NAMESPACE)
    }

    /// A host as it is now; null if there is none.
    pub(crate) async fn host(&self, name: &str) -> Value {
        let host = self.hosts().get_opt(name).await.unwrap();
        host.map_or(Value::Null, |host| serde_json::to_value(host).unwrap())
    }

    /// Changes a host behind trueup's back.
    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let parameters = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Merge(patch);
        self.hosts().patch(name, &parameters, &patch).await.unwrap();
    }

    /// Waits until a host is as wanted; fails the test when it is not within a minute.
    pub(crate) async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        for _ in 0..1200 {
            if holds(&self.host(name).await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name}: {what}: {:#}", self.host(name).await);
    }
}

/// Waits until the server has a kind of resource.
async fn served(client: &Client, kind: &GroupVersionKind) {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(kind));
    for _ in 0..600 {
        if api.list(&ListParams::default()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server never has {kind:?}");
}
