//! The region API of MAAS: requests, and what its refusals mean.
//!
//! Every path ends in a slash, an operation stands in the query, and what changes something is sent as a form. A
//! state in which an operation is refused is 409 for most and 400 for some, and the body of a 401 may hold the
//! secret: such a body is never shown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::change::Change;
pub(super) use super::change::{Fields, field};
use super::event::{Event, Events};
use super::machine::Machine;
use super::shown::{BusDevice, Nets};
use super::tag;
use crate::backend::Secret;
pub(super) use crate::backend::hardware::busy::RequestError;
use crate::backend::hardware::poll::Lister;
use crate::backend::http::{
    Answer, Class, Client, Credentials, Dialect, Endpoint, Request, percent_encoded,
};
use crate::threads::lock;

/// The oldest version that will do.
pub(super) const FLOOR: (u32, u32) = (2, 9);
/// Since this version a release runs scripts.
pub(super) const RELEASE_SCRIPTS: (u32, u32) = (3, 5);

/// Most machines that are listed by their ids; more by the list of all.
const FEW: usize = 40;
/// Most events of one machine that are read; MAAS gives no more.
pub(super) const EVENTS: usize = 1000;

/// Whether MAAS could not do it now, and did nothing: another power action runs, no rack controller is connected, or
/// its database had a conflict.
pub(super) fn is_busy(error: &RequestError) -> bool {
    matches!(error, RequestError::Http(failure) if failure.class() == Class::Passing && failure.status().is_some())
}

/// Whether it was refused because of the state of the machine, or what it is.
pub(super) fn is_refusal(error: &RequestError) -> bool {
    matches!(error.status(), Some(400 | 403 | 404 | 409)) && !is_busy(error)
}

/// The error format of MAAS: plain text mostly, JSON by field for forms, pages for what broke.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words;

impl Dialect for Words {
    fn words(&self, answer: &Answer) -> Option<String> {
        let text = String::from_utf8_lossy(answer.body());
        match answer.status().as_u16() {
            // The body of a wrong signature holds the right one.
            401 => return Some(unauthorized(&text).to_owned()),
            403 if text.trim().is_empty() => {
                let text = "the machine is locked, or the user of the key may not do it";
                return Some(text.to_owned());
            }
            _ => {}
        }
        if is_page(answer) {
            return None;
        }
        let fields: Option<BTreeMap<String, Value>> = serde_json::from_slice(answer.body()).ok();
        let Some(fields) = fields else {
            return (!text.trim().is_empty()).then(|| text.into_owned());
        };
        let said = fields.iter().map(|(name, said)| match name.as_str() {
            "__all__" => of_field(said),
            name => format!("{name}: {}", of_field(said)),
        });
        Some(said.collect::<Vec<_>>().join("; "))
    }

    fn class(&self, answer: &Answer, is_safe: bool) -> Class {
        // A conflict of the database, after which everything was rolled back; that of a state has no such header.
        let is_conflict = answer.status().as_u16() == 409 && answer.header("retry-after").is_some();
        match is_conflict {
            true => Class::Passing,
            false => Class::of_status(answer.status(), is_safe),
        }
    }
}

fn is_page(answer: &Answer) -> bool {
    let start = answer
        .body()
        .iter()
        .find(|each| !each.is_ascii_whitespace());
    start == Some(&b'<')
}

fn of_field(said: &Value) -> String {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    match said {
        Value::Array(said) => said.iter().map(text).collect::<Vec<_>>().join(" "),
        other => text(other),
    }
}

/// Why a key was refused, in words of our own.
fn unauthorized(body: &str) -> &'static str {
    const REASONS: &[(&str, &str)] = &[
        (
            "Expired timestamp",
            "the clock of this machine and that of MAAS differ by more than 300 s; `trueup doctor` compares them",
        ),
        ("Invalid signature", "the secret of the API key is wrong"),
        (
            "Invalid access token",
            "MAAS does not know the token of the API key: was it deleted?",
        ),
        ("Nonce already used", "the request was sent twice"),
    ];
    let known = REASONS.iter().find(|(sign, _)| body.contains(sign));
    known.map_or("MAAS does not accept the API key", |(_, reason)| reason)
}

/// The version of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Major and minor number.
    pub(super) number: (u32, u32),
    /// As MAAS writes it.
    pub(super) text: Arc<str>,
}

/// The user of the key.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct User {
    pub(super) username: Arc<str>,
    #[serde(default)]
    pub(super) is_superuser: bool,
}

/// The facts about a region that count for all machines.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) version: Version,
    pub(super) user: User,
    /// Whether each release erases all disks, whatever it is sent.
    pub(super) always_erases: bool,
}

#[derive(Deserialize)]
struct Image {
    name: Arc<str>,
}

/// A connection to MAAS.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    endpoint: Endpoint,
    credentials: Credentials,
    region: OnceCell<Region>,
    /// The comments of tags of trueup's own, which hold reasons; a tag is called by a digest of its comment.
    reasons: Mutex<BTreeMap<Arc<str>, Arc<str>>>,
    /// The networks of the region.
    nets: Mutex<Option<Arc<Nets>>>,
}

const SUBJECT: &str = "MAAS";

impl Api {
    pub(super) fn new(client: Client, endpoint: Endpoint, credentials: Credentials) -> Self {
        Self {
            client,
            endpoint,
            credentials,
            region: OnceCell::new(),
            reasons: Mutex::default(),
            nets: Mutex::default(),
        }
    }

    /// The host and port of the service.
    pub(super) fn authority(&self) -> &str {
        self.endpoint.authority()
    }

    fn url(&self, path: &str) -> Result<Url, RequestError> {
        let url = self.endpoint.resolve(&format!("api/2.0/{path}"));
        url.map_err(|error| RequestError::Stays(error.to_string()))
    }

    async fn get<T: DeserializeOwned>(&self, subject: &str, path: &str) -> Result<T, RequestError> {
        let request = Request::new(subject, Method::GET, self.url(path)?)
            .credentials(Some(&self.credentials))
            .dialect(&Words)
            .attempts(3);
        Ok(self.client.send(&request).await?.json()?)
    }

    async fn send(
        &self,
        subject: &str,
        method: Method,
        path: &str,
        fields: &Fields<'_>,
        secret: Option<&Secret>,
    ) -> Result<Answer, RequestError> {
        let mut request = Request::new(subject, method, self.url(path)?)
            .credentials(Some(&self.credentials))
            .dialect(&Words)
            .form(fields);
        if let Some(secret) = secret {
            request = request.hide(secret);
        }
        Ok(self.client.send(&request).await?)
    }

    /// The facts that count for all machines; asked for once.
    pub(super) async fn region(&self) -> Result<&Region, RequestError> {
        self.region.get_or_try_init(|| self.read_region()).await
    }

    async fn read_region(&self) -> Result<Region, RequestError> {
        let version = self.read_version().await?;
        let user: User = self.get(SUBJECT, "users/?op=whoami").await?;
        let option = "maas/?op=get_config&name=enable_disk_erasing_on_release";
        let always_erases = self.get::<Value>(SUBJECT, option).await? == Value::Bool(true);
        Ok(Region {
            version,
            user,
            always_erases,
        })
    }

    async fn read_version(&self) -> Result<Version, RequestError> {
        // No key goes to what may not be MAAS.
        let request = Request::new(SUBJECT, Method::GET, self.url("version/")?)
            .dialect(&Words)
            .attempts(3);
        let told: Value = self.client.send(&request).await?.json()?;
        let text = told
            .get("version")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut numbers = text
            .split(['.', '~', '-', '+'])
            .map_while(|part| part.parse().ok());
        let who = self.authority();
        let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
            return Err(RequestError::Stays(format!(
                "{who} reports no version of MAAS: is it MAAS?"
            )));
        };
        let number = (major, minor);
        if number < FLOOR {
            return Err(RequestError::Stays(format!(
                "MAAS at {who} is {major}.{minor}, and trueup needs {}.{} or later",
                FLOOR.0, FLOOR.1
            )));
        }
        Ok(Version {
            number,
            text: Arc::from(crate::backend::http::plain(text, 40)),
        })
    }

    /// The names of the images that MAAS can deploy.
    pub(super) async fn images(&self) -> Result<Vec<Arc<str>>, RequestError> {
        let images: Vec<Image> = self.get(SUBJECT, "boot-resources/").await?;
        let mut names: Vec<Arc<str>> = images.into_iter().map(|image| image.name).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Machines, all or those of these ids.
    async fn machines(&self, wanted: Option<&[Arc<str>]>) -> Result<Vec<Machine>, RequestError> {
        let user = self.region().await?.user.username.clone();
        let ids = wanted.filter(|ids| ids.len() <= FEW);
        let query = ids.map(|ids| {
            let ids = ids.iter().map(|id| format!("id={}", percent_encoded(id)));
            format!("?{}", ids.collect::<Vec<_>>().join("&"))
        });
        let path = format!("machines/{}", query.unwrap_or_default());
        let mut machines: Vec<Machine> = self.get(SUBJECT, &path).await?;
        let told: Vec<Arc<str>> = machines.iter().flat_map(Machine::own_tags).collect();
        let reasons = self.reasons(&told).await?;
        for machine in &mut machines {
            machine.complete(&user, &reasons);
        }
        Ok(machines)
    }

    /// The comments of tags; tags are listed only if one is not known yet.
    async fn reasons(
        &self,
        tags: &[Arc<str>],
    ) -> Result<BTreeMap<Arc<str>, Arc<str>>, RequestError> {
        let known = || lock(&self.reasons);
        let is_new = tags.iter().any(|tag| !known().contains_key(tag));
        if is_new {
            let listed: Vec<tag::Listed> = self.get(SUBJECT, "tags/").await?;
            let own = listed
                .into_iter()
                .filter(|tag| tag.name.starts_with(tag::PREFIX));
            known().extend(own.map(|tag| (tag.name, tag.comment)));
        }
        Ok(known().clone())
    }

    /// One machine, if it is known.
    pub(super) async fn machine(&self, id: &Arc<str>) -> Result<Option<Machine>, RequestError> {
        let found = self.machines(Some(std::slice::from_ref(id))).await?;
        Ok(found.into_iter().find(|machine| machine.system_id == *id))
    }

    /// Asks for an operation on a machine. Accepted, not done: what the answer shows is the state before.
    pub(super) async fn operate(
        &self,
        subject: &str,
        id: &str,
        operation: &str,
        fields: &Fields<'_>,
    ) -> Result<(), RequestError> {
        let path = format!("machines/{}/?op={operation}", segment(id)?);
        let subject = format!("{subject}: {operation}");
        self.send(&subject, Method::POST, &path, fields, None)
            .await
            .map(drop)
    }

    /// Changes disks or interfaces of a machine.
    pub(super) async fn change(
        &self,
        subject: &str,
        id: &str,
        change: &Change,
    ) -> Result<(), RequestError> {
        let (area, id, rest) = (change.area.as_str(), segment(id)?, &change.rest);
        let path = format!("{area}/{id}/{rest}");
        let subject = format!("{subject}: {}", change.said);
        let method = change.method.clone();
        self.send(&subject, method, &path, &change.fields, None)
            .await
            .map(drop)
    }

    /// The subnets and fabrics of the region, as they were last read.
    pub(super) async fn nets(&self) -> Result<Arc<Nets>, RequestError> {
        let known = self.known_nets().clone();
        match known {
            Some(known) => Ok(known),
            None => self.read_nets().await,
        }
    }

    /// The subnets and fabrics of the region.
    pub(super) async fn read_nets(&self) -> Result<Arc<Nets>, RequestError> {
        let nets = Arc::new(Nets {
            subnets: self.get(SUBJECT, "subnets/").await?,
            fabrics: self.get(SUBJECT, "fabrics/").await?,
        });
        *self.known_nets() = Some(nets.clone());
        Ok(nets)
    }

    fn known_nets(&self) -> MutexGuard<'_, Option<Arc<Nets>>> {
        lock(&self.nets)
    }

    /// The devices on the buses of a machine.
    pub(super) async fn bus_devices(
        &self,
        subject: &str,
        id: &str,
    ) -> Result<Vec<BusDevice>, RequestError> {
        let path = format!("nodes/{}/devices/", segment(id)?);
        self.get(subject, &path).await
    }

    /// Takes one machine for the user of the key; without an id MAAS may take any, or compose a virtual one.
    pub(super) async fn allocate(
        &self,
        subject: &str,
        id: &str,
        comment: &str,
    ) -> Result<(), RequestError> {
        let fields = vec![
            field("system_id", segment(id)?),
            field("agent_name", "trueup"),
            field("comment", comment),
        ];
        let subject = format!("{subject}: allocate");
        let path = "machines/?op=allocate";
        self.send(&subject, Method::POST, path, &fields, None)
            .await
            .map(drop)
    }

    /// Creates a machine.
    pub(super) async fn create(
        &self,
        subject: &str,
        fields: &Fields<'_>,
        secret: Option<&Secret>,
    ) -> Result<Arc<str>, RequestError> {
        let subject = format!("{subject}: create");
        let answer = self
            .send(&subject, Method::POST, "machines/", fields, secret)
            .await?;
        let created: Machine = answer.json()?;
        Ok(created.system_id)
    }

    /// Removes a machine from MAAS.
    pub(super) async fn remove(&self, subject: &str, id: &str) -> Result<(), RequestError> {
        let path = format!("machines/{}/", segment(id)?);
        let request = Request::new(subject, Method::DELETE, self.url(&path)?)
            .credentials(Some(&self.credentials))
            .dialect(&Words);
        self.client.send(&request).await?;
        Ok(())
    }

    /// The power of a machine as its management controller reports it now.
    pub(super) async fn power(&self, subject: &str, id: &str) -> Result<Arc<str>, RequestError> {
        #[derive(Deserialize)]
        struct Power {
            state: Arc<str>,
        }
        let path = format!("machines/{}/?op=query_power_state", segment(id)?);
        let power: Power = self.get(subject, &path).await?;
        Ok(power.state)
    }

    /// Events of a machine, the newest first: those after one, or so many of the newest.
    pub(super) async fn events(
        &self,
        subject: &str,
        id: &str,
        (after, most): (Option<u64>, usize),
    ) -> Result<Vec<Event>, RequestError> {
        let after = after.map(|after| format!("&after={after}"));
        let after = after.unwrap_or_default();
        let id = segment(id)?;
        let path = format!("events/?op=query&id={id}&level=DEBUG&limit={most}{after}");
        let events: Events = self.get(subject, &path).await?;
        Ok(events.events)
    }

    /// Puts a tag on machines or takes it off; the tag is made if it is missing.
    pub(super) async fn tag(
        &self,
        subject: &str,
        tag: &tag::Tag,
        change: tag::Change,
        id: &str,
    ) -> Result<(), RequestError> {
        let name = segment(&tag.name)?;
        let path = format!("tags/{name}/?op=update_nodes");
        let fields = vec![field(change.as_str(), segment(id)?)];
        let subject = format!("{subject}: tag {name}");
        let put = || self.send(&subject, Method::POST, &path, &fields, None);
        let error = match put().await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if error.status() != Some(404) {
            return Err(error);
        }
        if change == tag::Change::Remove {
            return Ok(());
        }
        let fields = vec![
            field("name", name),
            field("comment", &*tag.comment),
            field("kernel_opts", &*tag.kernel_options),
        ];
        match self
            .send(&subject, Method::POST, "tags/", &fields, None)
            .await
        {
            // Another machine's step has just made it.
            Err(error) if error.status() != Some(400) => return Err(error),
            _ => {}
        }
        put().await.map(drop)
    }
}

impl Lister for Api {
    type Item = Machine;

    async fn list(&self, wanted: Option<&[Arc<str>]>) -> Result<Vec<Machine>, Arc<str>> {
        let listed = self.machines(wanted).await;
        listed.map_err(|error| Arc::from(error.to_string()))
    }
}

/// An id or name as one segment of a path.
fn segment(text: &str) -> Result<&str, RequestError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.is_empty() || matches!(text, "." | "..") || !text.chars().all(is_plain) {
        let shown = crate::backend::http::plain(text, 60);
        let text = format!("`{shown}` cannot be the id of a machine or the name of a tag in MAAS");
        return Err(RequestError::Stays(text));
    }
    Ok(text)
}
