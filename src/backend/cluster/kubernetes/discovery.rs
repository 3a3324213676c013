//! In which versions a server has what changed its version between 1.20 and today.

use serde::Deserialize;

use super::budget::BudgetVersion;
use crate::backend::api_server::{ApiError, Server};

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    /// Only if it differs from that of the list.
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    text: String,
}

/// The server's version, such as `v1.33.2`.
pub(super) async fn version(server: &Server) -> Result<String, ApiError> {
    server
        .read::<Version>("/version")
        .await
        .map(|version| version.text)
}

impl Group {
    fn has(&self, version: &str) -> bool {
        self.versions.iter().any(|each| each.version == version)
    }
}

/// In which version the server has EndpointSlices; the newer if it has both.
pub(super) async fn slices(server: &Server) -> Result<&'static str, ApiError> {
    let group: Group = server.read("/apis/discovery.k8s.io").await?;
    let versions = ["v1", "v1beta1"].into_iter();
    let mut versions = versions.filter(|version| group.has(version));
    versions.next().ok_or_else(|| {
        ApiError::Unusable("it has no EndpointSlices: neither v1 nor v1beta1".to_owned())
    })
}

/// In which version the server has budgets; the newer if it has both.
pub(super) async fn budgets(server: &Server) -> Result<BudgetVersion, ApiError> {
    let group: Group = server.read("/apis/policy").await?;
    let has = |version: &str| group.has(version);
    if has("v1") {
        Ok(BudgetVersion::V1)
    } else if has("v1beta1") {
        Ok(BudgetVersion::V1Beta1)
    } else {
        let text = "it has no budgets that are known: neither policy/v1 nor policy/v1beta1";
        Err(ApiError::Unusable(text.to_owned()))
    }
}

/// Whether the server has a resource in a group and version, which not all servers have.
pub(super) async fn has_resource(
    server: &Server,
    version: &str,
    name: &str,
) -> Result<bool, ApiError> {
    match server.read::<Resources>(&format!("/apis/{version}")).await {
        Ok(found) => Ok(found.resources.iter().any(|each| each.name == name)),
        Err(error) if error.code() == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The `apiVersion` of an eviction: `policy/v1` since 1.22. Budgets are `v1` since 1.21, so that one does
/// not tell the other.
pub(super) async fn eviction(server: &Server) -> Result<String, ApiError> {
    let core: Resources = server.read("/api/v1").await?;
    let eviction = core
        .resources
        .into_iter()
        .find(|each| each.name == "pods/eviction");
    match eviction {
        Some(eviction) if eviction.version == "v1" => Ok("policy/v1".to_owned()),
        Some(_) => Ok("policy/v1beta1".to_owned()),
        None => Err(ApiError::Unusable("it has no eviction of pods".to_owned())),
    }
}
