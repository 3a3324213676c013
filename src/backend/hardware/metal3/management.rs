//! A management cluster: its hosts, Machines and Metal3Machines, read in pages and changed by patches.
//!
//! Every change names the version that it was made for: a change on top of another client's is
//! refused (409, [`ApiError::is_conflict`]), and the caller observes again. A Secret is written and never
//! read. At most [`AT_ONCE`] requests run at the same time.

use std::sync::Arc;

use kube::api::{DeleteParams, ListParams, Preconditions};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::firmware::POLICIES;
use super::resource::{Host, Machine, Metadata, Metal3Machine, key};
use super::settings::{CODE, Settings};
use crate::backend::api_server::{self, ApiError, Connection, Server, Watch};
use crate::backend::{BackendContext, Error, Secret};
use crate::design::Guards;
use crate::diagnostic::Diagnostic;

/// Most requests to the management cluster at once.
const AT_ONCE: usize = 16;

/// Group and version of hosts.
pub const HOST_API: &str = "metal3.io/v1alpha1";

/// A management cluster, and the namespace in which the hosts are.
#[derive(Debug)]
pub struct Management {
    connection: Connection,
    namespace: Arc<str>,
    turns: Semaphore,
}

impl Management {
    /// The cluster that the settings name; nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// The site's Backends document has no such cluster, or it is a simulated one.
    pub fn open(
        guards: &Guards,
        settings: &Settings,
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let name = &settings.cluster;
        let Some(cluster) = api_server::Settings::read(guards, &name.value) else {
            let message = format!(
                "`clusters` has no `{}` that is the API server of a management cluster",
                name.value
            );
            let diagnostic = Diagnostic::error(CODE, name.mark, message);
            return Err(Error::Settings(Box::new(diagnostic)));
        };
        Ok(Self {
            connection: Connection::new(cluster, context.secrets.clone()),
            namespace: settings.namespace.clone(),
            turns: Semaphore::new(AT_ONCE),
        })
    }

    /// The namespace of the hosts.
    #[must_use]
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// The name of the cluster in the site's documents.
    #[must_use]
    pub fn cluster(&self) -> &Arc<str> {
        &self.connection.settings().name
    }

    pub(super) fn path(&self, api: &str, plural: &str) -> String {
        let group = match api {
            "v1" => "/api/v1".to_owned(),
            api => format!("/apis/{api}"),
        };
        format!("{group}/namespaces/{}/{plural}", self.namespace)
    }

    pub(super) fn host_path(&self) -> String {
        self.path(HOST_API, "baremetalhosts")
    }

    pub(super) fn machine_path(&self) -> String {
        self.path("cluster.x-k8s.io/v1beta2", "machines")
    }

    fn metal3_machine_path(&self) -> String {
        self.path("infrastructure.cluster.x-k8s.io/v1beta2", "metal3machines")
    }

    /// The server, for a watch, which takes no permit.
    pub(super) async fn server(&self) -> Result<Server, ApiError> {
        self.connection.server().await
    }

    /// The server, for one request; the permit is held while it runs.
    async fn turn(&self) -> Result<(Server, SemaphorePermit<'_>), ApiError> {
        let Ok(permit) = self.turns.acquire().await else {
            return Err(ApiError::Unusable("it is closed".to_owned()));
        };
        Ok((self.connection.server().await?, permit))
    }

    async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<(Vec<T>, String), ApiError> {
        let (server, _permit) = self.turn().await?;
        let take = |all: &mut Vec<T>, each: T| all.push(each);
        server
            .list(path, &ListParams::default(), Vec::new, take)
            .await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        let (server, _permit) = self.turn().await?;
        server.get(path, name).await
    }

    async fn change<T: DeserializeOwned>(
        &self,
        path: &str,
        seen: &Metadata,
        mut patch: Value,
    ) -> Result<T, ApiError> {
        patch["metadata"]["resourceVersion"] = json!(seen.resource_version);
        patch["metadata"]["uid"] = json!(seen.uid);
        let (server, _permit) = self.turn().await?;
        server.merge(path, &seen.name, &patch).await
    }

    /// All hosts, and the version at which they were listed.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn hosts(&self) -> Result<(Vec<Host>, String), ApiError> {
        self.list(&self.host_path()).await
    }

    /// Watches hosts from a version on.
    pub(super) async fn follow_hosts(&self, version: &str) -> Result<Watch<Host>, ApiError> {
        let server = self.connection.server().await?;
        Watch::open(&server, &self.host_path(), None, version).await
    }

    /// Sees whether hosts can be listed.
    pub(super) async fn check_access(&self) -> Result<(), ApiError> {
        let (server, _permit) = self.turn().await?;
        server.peek(&self.host_path()).await
    }

    /// All Machines of Cluster API, and the version at which they were listed.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn machines(&self) -> Result<(Vec<Machine>, String), ApiError> {
        self.list(&self.machine_path()).await
    }

    /// All Metal3Machines, and the version at which they were listed.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn metal3_machines(&self) -> Result<(Vec<Metal3Machine>, String), ApiError> {
        self.list(&self.metal3_machine_path()).await
    }

    /// One host; `None` if not found.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn host(&self, name: &str) -> Result<Option<Host>, ApiError> {
        self.get(&self.host_path(), name).await
    }

    /// One Machine; `None` if not found.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn machine(&self, name: &str) -> Result<Option<Machine>, ApiError> {
        self.get(&self.machine_path(), name).await
    }

    /// One Metal3Machine; `None` if not found.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked.
    pub async fn metal3_machine(&self, name: &str) -> Result<Option<Metal3Machine>, ApiError> {
        self.get(&self.metal3_machine_path(), name).await
    }

    /// Creates a host from its whole manifest.
    ///
    /// # Errors
    ///
    /// There is one already (409), it is refused, or the cluster cannot be asked.
    pub async fn create_host(&self, host: &Value) -> Result<Host, ApiError> {
        let (server, _permit) = self.turn().await?;
        server.create(&self.host_path(), host).await
    }

    /// Changes a host by a JSON merge patch, if it is unchanged since it was observed.
    ///
    /// # Errors
    ///
    /// Another client has changed it ([`ApiError::is_conflict`]), it is refused, or the cluster does not answer.
    pub async fn change_host(&self, seen: &Host, patch: Value) -> Result<Host, ApiError> {
        self.change(&self.host_path(), &seen.metadata, patch).await
    }

    /// Changes a Machine by a JSON merge patch, if it is unchanged since it was observed.
    ///
    /// # Errors
    ///
    /// Another client has changed it ([`ApiError::is_conflict`]), it is refused, or the cluster does not answer.
    pub async fn change_machine(&self, seen: &Machine, patch: Value) -> Result<Machine, ApiError> {
        self.change(&self.machine_path(), &seen.metadata, patch)
            .await
    }

    /// An object that is called like a host and that the operator keeps beside it; `None` if not found, also if the server does
    /// not have the resource.
    pub(super) async fn beside<T: DeserializeOwned>(
        &self,
        resource: &str,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        self.get(&self.path(HOST_API, resource), name).await
    }

    /// Changes such an object by a JSON merge patch, if it is unchanged since it was observed.
    pub(super) async fn change_beside(
        &self,
        resource: &str,
        seen: &Metadata,
        patch: Value,
    ) -> Result<(), ApiError> {
        let path = self.path(HOST_API, resource);
        self.change::<IgnoredAny>(&path, seen, patch)
            .await
            .map(drop)
    }

    /// Deletes such an object, if it is the observed one.
    pub(super) async fn delete_beside(
        &self,
        resource: &str,
        seen: &Metadata,
    ) -> Result<bool, ApiError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(seen.uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let (server, _permit) = self.turn().await?;
        let path = self.path(HOST_API, resource);
        server.delete(&path, &seen.name, &parameters).await
    }

    /// Creates the HostUpdatePolicy of a host, with the marker of the step that makes it.
    pub(super) async fn create_policy(
        &self,
        name: &str,
        marker: &str,
        spec: &Value,
    ) -> Result<(), ApiError> {
        let policy = json!({"apiVersion": HOST_API, "kind": "HostUpdatePolicy",
            "metadata": {"name": name, "annotations": {key::STEP: marker}}, "spec": spec});
        let (server, _permit) = self.turn().await?;
        let path = self.path(HOST_API, POLICIES);
        let created: Result<IgnoredAny, _> = server.create(&path, &policy).await;
        created.map(drop)
    }

    /// Requests the deletion of a host, if it is unchanged since it was observed; whether there was one.
    ///
    /// # Errors
    ///
    /// Another has its name (409), it is refused, or the cluster cannot be asked.
    pub async fn delete_host(&self, seen: &Host) -> Result<bool, ApiError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(seen.metadata.uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let (server, _permit) = self.turn().await?;
        server
            .delete(&self.host_path(), &seen.metadata.name, &parameters)
            .await
    }

    /// Writes a Secret, created or replaced; what it held is never read. `owner`: the host with which it
    /// goes.
    ///
    /// # Errors
    ///
    /// It is refused, or the cluster cannot be asked. The text holds nothing of what was written.
    pub async fn put_secret(
        &self,
        name: &str,
        written: &[(&str, &Secret)],
        owner: Option<&Host>,
    ) -> Result<(), ApiError> {
        let data: Map<String, Value> = written
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value.reveal())))
            .collect();
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": {"environment.metal3.io": "baremetal"}},
            "stringData": data,
        });
        if let Some(owner) = owner {
            secret["metadata"]["ownerReferences"] = json!([{
                "apiVersion": HOST_API,
                "kind": "BareMetalHost",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
            }]);
        }
        let (server, _permit) = self.turn().await?;
        let path = self.path("v1", "secrets");
        match server.apply::<IgnoredAny>(&path, name, &secret).await {
            Ok(_) => Ok(()),
            Err(ApiError::Refused(mut status)) => {
                let repeats = |(_, value): &(&str, &Secret)| {
                    !value.reveal().is_empty() && status.message.contains(value.reveal())
                };
                if written.iter().any(repeats) {
                    "its text is not shown, since it repeats what was written"
                        .clone_into(&mut status.message);
                }
                Err(ApiError::Refused(status))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes a Secret; whether there was one.
    ///
    /// # Errors
    ///
    /// It is refused, or the cluster cannot be asked.
    pub async fn delete_secret(&self, name: &str) -> Result<bool, ApiError> {
        let (server, _permit) = self.turn().await?;
        let path = self.path("v1", "secrets");
        server.delete(&path, name, &DeleteParams::default()).await
    }
}
