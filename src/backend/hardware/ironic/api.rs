//! The Ironic API: versions, requests, and what its refusals say.
//!
//! One version is agreed on before the first request ([`Api::version`]): the newest that both know, not
//! below [`FLOOR`]. Ironic's error texts are JSON inside JSON; they are dug out for people.

use std::collections::HashMap;
use std::sync::Arc;

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::node::{FIELDS, Node};
use crate::backend::Secret;
pub(super) use crate::backend::hardware::busy::RequestError;
use crate::backend::hardware::poll::Lister;
use crate::backend::http::{
    Answer, Class, Client, Credentials, Dialect, Endpoint, Request, percent_encoded,
};
use crate::backend::pages::Pages;

/// The oldest version that will do: it has the retired flag.
pub(super) const FLOOR: u32 = 61;
/// The newest version that is asked for; later ones have nothing that is used here. Ironic refuses a runbook that services a
/// machine below it, since each runbook says whether a ramdisk is needed.
pub(super) const WANTED: u32 = 108;

const VERSION: &str = "x-openstack-ironic-api-version";
const MAXIMUM: &str = "x-openstack-ironic-api-maximum-version";
const MINIMUM: &str = "x-openstack-ironic-api-minimum-version";

/// Most nodes in one page; Ironic's own default bound.
const PAGE: usize = 1000;

/// Whether Ironic could not do it now, and did nothing: no worker was free, or the node was locked.
pub(super) fn is_busy(error: &RequestError) -> bool {
    let RequestError::Http(failure) = error else {
        return false;
    };
    let is_locked = || {
        failure
            .words()
            .is_some_and(|words| words.contains("locked"))
    };
    match error.status() {
        Some(503) => true,
        Some(409) => is_locked(),
        _ => false,
    }
}

/// The error format of Ironic: `{"error_message": "{\"faultstring\": …}"}`, the inner JSON sometimes
/// of another shape, sometimes plain text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words;

impl Dialect for Words {
    fn words(&self, answer: &Answer) -> Option<String> {
        let outer: Value = serde_json::from_slice(answer.body()).ok()?;
        let message = outer.get("error_message").unwrap_or(&outer);
        let inner = match message {
            Value::String(text) => match serde_json::from_str(text) {
                Ok(inner) => inner,
                Err(_) => return Some(text.clone()),
            },
            other => other.clone(),
        };
        let named = ["faultstring", "description", "message", "title"];
        let found = named.iter().find_map(|name| inner.get(name)?.as_str());
        // Keystone and proxies before Ironic wrap theirs in `error`.
        let wrapped = || inner.pointer("/error/message").and_then(Value::as_str);
        found.or_else(wrapped).map(str::to_owned)
    }

    fn class(&self, answer: &Answer, is_safe: bool) -> Class {
        Class::of_status(answer.status(), is_safe)
    }
}

/// A connection to Ironic.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    endpoint: Endpoint,
    credentials: Option<Credentials>,
    version: OnceCell<String>,
}

#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) nodes: Vec<Node>,
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
struct Ports {
    ports: Vec<Port>,
    next: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Port {
    address: Arc<str>,
    node_uuid: Arc<str>,
}

impl Api {
    pub(super) fn new(
        client: Client,
        endpoint: Endpoint,
        credentials: Option<Credentials>,
    ) -> Self {
        Self {
            client,
            endpoint,
            credentials,
            version: OnceCell::new(),
        }
    }

    /// The host and port of the service.
    pub(super) fn authority(&self) -> &str {
        self.endpoint.authority()
    }

    fn url(&self, path: &str) -> Result<Url, RequestError> {
        let url = self.endpoint.resolve(path);
        url.map_err(|error| RequestError::Stays(error.to_string()))
    }

    /// The version that both know.
    pub(super) async fn version(&self) -> Result<&str, RequestError> {
        let version = self.version.get_or_try_init(|| self.negotiate()).await?;
        Ok(version)
    }

    async fn negotiate(&self) -> Result<String, RequestError> {
        let request = Request::new("Ironic", Method::GET, self.url("v1")?)
            .credentials(self.credentials.as_ref())
            .dialect(&Words)
            .attempts(3);
        let answer = self.client.send(&request).await?;
        let minor = |name| answer.header(name)?.strip_prefix("1.")?.parse::<u32>().ok();
        let who = self.authority();
        let (Some(newest), Some(oldest)) = (minor(MAXIMUM), minor(MINIMUM)) else {
            return Err(RequestError::Stays(format!(
                "{who} reports no versions of the Ironic API: is it Ironic?"
            )));
        };
        if newest < FLOOR || oldest > WANTED {
            return Err(RequestError::Stays(format!(
                "Ironic at {who} speaks versions 1.{oldest} to 1.{newest} of its API, and trueup \
                 needs one from 1.{FLOOR} (node retirement) to 1.{WANTED}"
            )));
        }
        Ok(format!("1.{}", newest.min(WANTED)))
    }

    /// Whether the version agreed on is at least this one.
    pub(super) async fn speaks(&self, minor: u32) -> Result<bool, RequestError> {
        let agreed = self.version().await?.strip_prefix("1.");
        Ok(agreed.and_then(|agreed| agreed.parse::<u32>().ok()) >= Some(minor))
    }

    async fn request<'a>(
        &'a self,
        subject: &'a str,
        method: Method,
        path: &str,
    ) -> Result<Request<'a>, RequestError> {
        let version = self.version().await?;
        Ok(Request::new(subject, method, self.url(path)?)
            .credentials(self.credentials.as_ref())
            .dialect(&Words)
            .header(VERSION, version))
    }

    async fn get<T: DeserializeOwned>(&self, subject: &str, path: &str) -> Result<T, RequestError> {
        let request = self.request(subject, Method::GET, path).await?.attempts(3);
        Ok(self.client.send(&request).await?.json()?)
    }

    /// Something that may not be there.
    async fn find<T: DeserializeOwned>(
        &self,
        subject: &str,
        path: &str,
    ) -> Result<Option<T>, RequestError> {
        match self.get(subject, path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All nodes, in as few requests as Ironic lets them be had.
    async fn all_nodes(&self) -> Result<Vec<Node>, RequestError> {
        let mut all: Vec<Node> = Vec::new();
        let mut path = format!("v1/nodes?limit={PAGE}&fields={FIELDS}");
        let mut pages = Pages::begin();
        loop {
            let mut page: Page = self.get("Ironic", &path).await?;
            let marker = page.next.as_deref().and_then(marker);
            let is_last = page.nodes.is_empty() || marker.is_none();
            all.append(&mut page.nodes);
            match marker {
                Some(marker) if !is_last => {
                    path = format!("v1/nodes?limit={PAGE}&fields={FIELDS}&marker={marker}");
                }
                _ => return Ok(all),
            }
            self.goes_on(&mut pages)?;
        }
    }

    /// Takes in a page behind which there are more.
    fn goes_on(&self, pages: &mut Pages) -> Result<(), RequestError> {
        let on = pages.and_more(0);
        on.map_err(|why| RequestError::Stays(format!("{}: {why}", self.authority())))
    }

    /// One node, if it is known.
    pub(super) async fn node(
        &self,
        subject: &str,
        name: &str,
    ) -> Result<Option<Node>, RequestError> {
        let path = format!("v1/nodes/{}?fields={FIELDS}", segment(name)?);
        self.find(subject, &path).await
    }

    /// The running steps of a node, as far as Ironic shows them; `list`: `clean_steps` or `deploy_steps`.
    pub(super) async fn running_steps(
        &self,
        subject: &str,
        uuid: &str,
        list: &str,
    ) -> Result<Option<Vec<String>>, RequestError> {
        let steps = self.steps_of(subject, uuid, list).await?;
        let name = |step: &Value| {
            let part = |name| step.get(name).and_then(Value::as_str);
            Some(format!("{}.{}", part("interface")?, part("step")?))
        };
        let steps = steps.as_ref().and_then(Value::as_array);
        Ok(steps.map(|steps| steps.iter().filter_map(name).collect()))
    }

    /// The HTTP client; it adds no credentials by itself.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The steps that run in a cleaning of Ironic's own, in their order, as it shows them.
    pub(super) async fn cleaning_steps(
        &self,
        subject: &str,
        uuid: &str,
    ) -> Result<Option<Value>, RequestError> {
        self.steps_of(subject, uuid, "clean_steps").await
    }

    async fn steps_of(
        &self,
        subject: &str,
        uuid: &str,
        list: &str,
    ) -> Result<Option<Value>, RequestError> {
        let path = format!(
            "v1/nodes/{}?fields=provision_state,driver_internal_info",
            segment(uuid)?
        );
        let node: Option<Node> = self.find(subject, &path).await?;
        Ok(node.and_then(|node| node.driver_internal_info.get(list).cloned()))
    }

    /// The inventory of the last inspection of a node.
    pub(super) async fn inventory(&self, subject: &str, uuid: &str) -> Result<Value, RequestError> {
        let path = format!("v1/nodes/{}/inventory", segment(uuid)?);
        let found = self.find(subject, &path).await?;
        Ok(found.unwrap_or_default())
    }

    /// A list that a node has in a resource of its own (`bios`, `firmware`); none if it has no such resource.
    pub(super) async fn part(
        &self,
        subject: &str,
        uuid: &str,
        (part, query): (&str, &str),
    ) -> Result<Vec<Value>, RequestError> {
        let path = format!("v1/nodes/{}/{part}{query}", segment(uuid)?);
        let found: Option<Value> = self.find(subject, &path).await?;
        let list = found.and_then(|mut found| match found.get_mut(part).map(Value::take) {
            Some(Value::Array(list)) => Some(list),
            _ => None,
        });
        Ok(list.unwrap_or_default())
    }

    /// The names of the drivers that are enabled. They are few, and servers before API 1.77 do not list chosen fields of them.
    pub(super) async fn drivers(&self) -> Result<Vec<String>, RequestError> {
        let found: Value = self.get("Ironic", "v1/drivers").await?;
        let drivers = found.get("drivers").and_then(Value::as_array);
        let name = |driver: &Value| driver.get("name")?.as_str().map(str::to_owned);
        Ok(drivers.into_iter().flatten().filter_map(name).collect())
    }

    /// Asks for one node only, to see whether asking is allowed.
    pub(super) async fn check_access(&self) -> Result<(), RequestError> {
        let path = format!("v1/nodes?limit=1&fields={FIELDS}");
        self.get::<Page>("Ironic", &path).await.map(drop)
    }

    /// Whose port has this MAC address, by UUID.
    pub(super) async fn owner_of_port(
        &self,
        subject: &str,
        address: &str,
    ) -> Result<Option<String>, RequestError> {
        let path = format!(
            "v1/ports?address={}&fields=address,node_uuid",
            percent_encoded(address)
        );
        let found: Value = self.get(subject, &path).await?;
        let owner = found.pointer("/ports/0/node_uuid").and_then(Value::as_str);
        Ok(owner.map(str::to_owned))
    }

    /// The MAC addresses of the ports of one node, or of all, by node.
    pub(super) async fn ports(
        &self,
        node: Option<&str>,
    ) -> Result<HashMap<Arc<str>, Vec<Arc<str>>>, RequestError> {
        const FIELDS: &str = "address,node_uuid";
        let mut all: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let of_node = match node {
            Some(node) => format!("&node={}", segment(node)?),
            None => String::new(),
        };
        let first = format!("v1/ports?limit={PAGE}&fields={FIELDS}{of_node}");
        let mut path = first.clone();
        let mut pages = Pages::begin();
        loop {
            let page: Ports = self.get("Ironic", &path).await?;
            let is_last = page.ports.is_empty();
            for port in page.ports {
                all.entry(port.node_uuid).or_default().push(port.address);
            }
            match page.next.as_deref().and_then(marker) {
                Some(marker) if !is_last => path = format!("{first}&marker={marker}"),
                _ => return Ok(all),
            }
            self.goes_on(&mut pages)?;
        }
    }

    /// Sends what changes something. Never repeated by itself.
    async fn change(
        &self,
        subject: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        secret: Option<&Secret>,
    ) -> Result<Answer, RequestError> {
        let mut request = self.request(subject, method, path).await?;
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(secret) = secret {
            request = request.hide(secret);
        }
        Ok(self.client.send(&request).await?)
    }

    /// Enrols a node.
    pub(super) async fn create(
        &self,
        subject: &str,
        body: &Value,
        secret: Option<&Secret>,
    ) -> Result<Node, RequestError> {
        let body = Some(body);
        let answer = self.change(subject, Method::POST, "v1/nodes", body, secret);
        Ok(answer.await?.json()?)
    }

    /// Adds a port.
    pub(super) async fn create_port(
        &self,
        subject: &str,
        uuid: &str,
        address: &str,
    ) -> Result<(), RequestError> {
        let body = json!({"node_uuid": uuid, "address": address});
        let answer = self.change(subject, Method::POST, "v1/ports", Some(&body), None);
        answer.await.map(drop)
    }

    /// Sets the traits of a node.
    pub(super) async fn set_traits(
        &self,
        subject: &str,
        uuid: &str,
        traits: &[Arc<str>],
    ) -> Result<(), RequestError> {
        let path = format!("v1/nodes/{}/traits", segment(uuid)?);
        let body = json!({"traits": traits});
        let answer = self.change(subject, Method::PUT, &path, Some(&body), None);
        answer.await.map(drop)
    }

    /// Changes fields of a node, by JSON Patch, and gives the node as it is then.
    pub(super) async fn patch(
        &self,
        subject: &str,
        uuid: &str,
        operations: &Value,
        secret: Option<&Secret>,
    ) -> Result<Node, RequestError> {
        let path = format!("v1/nodes/{}", segment(uuid)?);
        let body = Some(operations);
        let answer = self.change(subject, Method::PATCH, &path, body, secret);
        Ok(answer.await?.json()?)
    }

    /// Asks for a change of state; `what`: `provision` or `power`. Accepted, not done.
    pub(super) async fn put_state(
        &self,
        subject: &str,
        uuid: &str,
        what: &str,
        body: &Value,
    ) -> Result<(), RequestError> {
        let path = format!("v1/nodes/{}/states/{what}", segment(uuid)?);
        let answer = self.change(subject, Method::PUT, &path, Some(body), None);
        answer.await.map(drop)
    }

    /// Sets maintenance, or takes it off (`None`).
    pub(super) async fn maintain(
        &self,
        subject: &str,
        uuid: &str,
        reason: Option<&str>,
    ) -> Result<(), RequestError> {
        let path = format!("v1/nodes/{}/maintenance", segment(uuid)?);
        let body = reason.map(|reason| json!({"reason": reason}));
        let method = if body.is_some() {
            Method::PUT
        } else {
            Method::DELETE
        };
        let answer = self.change(subject, method, &path, body.as_ref(), None);
        answer.await.map(drop)
    }

    /// Removes a node from Ironic.
    pub(super) async fn remove(&self, subject: &str, uuid: &str) -> Result<(), RequestError> {
        let path = format!("v1/nodes/{}", segment(uuid)?);
        let answer = self.change(subject, Method::DELETE, &path, None, None);
        answer.await.map(drop)
    }
}

impl Lister for Api {
    type Item = Node;

    async fn list(&self, _: Option<&[Arc<str>]>) -> Result<Vec<Node>, Arc<str>> {
        let listed = self.all_nodes().await;
        listed.map_err(|error| Arc::from(error.to_string()))
    }
}

/// The marker in the link to the next page: only that is taken from it, since behind a proxy the rest is
/// often not how the API is reached.
pub(super) fn marker(next: &str) -> Option<String> {
    let query = next.split_once('?')?.1;
    let marker = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("marker="))?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
    (!marker.is_empty() && marker.chars().all(is_plain)).then(|| marker.to_owned())
}

/// A name as one segment of a path. Ironic's names have only letters that need no escape.
fn segment(name: &str) -> Result<&str, RequestError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
    if name.is_empty() || matches!(name, "." | "..") || !name.chars().all(is_plain) {
        return Err(RequestError::Stays(format!(
            "`{name}` cannot be the name of a node in Ironic: letters, digits, `-`, `_`, `.` and `~` can; \
             `names` of the Backends document can give it another one there"
        )));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marker_of_a_link_to_the_next_page_is_followed() {
        let link = "http://elsewhere:1/v1/nodes?sort_key=id&limit=1&marker=005a5f45-6c57-4ddc-b583-5c91930d4b04";
        assert_eq!(
            marker(link).as_deref(),
            Some("005a5f45-6c57-4ddc-b583-5c91930d4b04")
        );
        for link in ["", "http://x/", "?marker=", "?marker=a/../b", "?limit=1"] {
            assert_eq!(marker(link), None, "{link}");
        }
    }

    #[test]
    fn a_name_that_would_be_another_path_is_refused() {
        assert_eq!(segment("n-1.site_a~"), Ok("n-1.site_a~"));
        for name in ["", ".", "..", "a/b", "a?b", "a%2e", "a b", "ä"] {
            assert!(segment(name).is_err(), "{name}");
        }
    }
}
