//! Quirks of controllers as data (`models.json`): each changes the controller of the tests ([`State`]), its requests or its
//! answers.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bmc::{Between, Opening, SYSTEM, State, Versions, link, refusal};
use crate::backend::http::tests::server::{Received, Reply};

/// A manager, in whose place virtual media may be.
const MANAGER: &str = "/redfish/v1/Managers/1";
/// A task that has ended.
const TASK: &str = "/redfish/v1/TaskService/Tasks/own";
/// Where the kinds of reset are told.
const RESETS: &str = "/redfish/v1/Systems/1/ResetActionInfo";
/// How long an image takes to be inserted.
const LATE: Duration = Duration::from_millis(400);
/// How long a controller is away after its first reset.
const AWAY: Duration = Duration::from_millis(700);

/// One behaviour of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Quirk {
    /// A value or a name that it refuses in requests; `System`: each change of its system, which its settings take.
    Refuses(String),
    /// A name without which it refuses a request.
    Demands(String),
    /// The mode in which it boots.
    Mode(String),
    /// A change of the boot without the mode sets another.
    ForgetsMode,
    /// How it tells versions.
    Versions(Versions),
    /// The version is in the body alone.
    VersionInBody,
    /// How it opens sessions.
    Sessions(Opening),
    /// Each session ends after some requests.
    SessionsEndEarly,
    /// How it answers while it switches.
    Between(Between),
    /// A machine that is off takes no override: the status of the refusal.
    BootOnlyWhenOn(u16),
    /// An override is stored, and answered with a refusal.
    RefusalsOfBoot,
    /// A name that is in no answer.
    Hides(String),
    Expands(u64),
    /// Members that are written out have no values.
    ExpandsWithoutValues,
    /// Another system than its own, listed first.
    Neighbour(String),
    MediaAtManager,
    /// A virtual drive that is listed first, and takes no image.
    MediaBefore(String),
    /// Virtual drives have no actions: they are changed.
    MediaByChange,
    /// Only an empty virtual drive takes an image.
    InsistsOnEject,
    /// An empty virtual drive cannot be ejected.
    NothingToEject,
    /// The name of an ejected image stays, and counts as inserted.
    StaleImage,
    /// An image is inserted by a task.
    LateImage,
    /// The kinds of reset that it has; not told where the names are hidden.
    Resets(Vec<String>),
    /// They are told elsewhere.
    ActionInfo,
    /// A reset to the power that it has already is refused with this status.
    RefusesSameReset(u16),
    /// It restarts with the first reset.
    AwayAfterReset,
    /// Changes and resets are tasks.
    Tasks,
    /// Some requests are answered with this status.
    BusyAtTimes(u16),
    /// Some reads are answered with an error.
    ErrorsAtTimes,
}

/// A layer before the controller of the tests.
#[derive(Debug, Default)]
pub(super) struct Layer {
    quirks: Vec<Quirk>,
    asked: usize,
    resets: usize,
    /// The image that is being inserted.
    late: Option<(Instant, String)>,
    /// The image that was inserted last.
    last_image: Option<String>,
    /// Until when it is away.
    away: Option<Instant>,
}

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}

impl State {
    /// Gives it quirks.
    pub(super) fn behaves(&mut self, quirks: &[Quirk]) {
        for quirk in quirks {
            match quirk {
                Quirk::Refuses(name) => self.refuses.push(leaked(name)),
                Quirk::Demands(name) => self.demands.push(leaked(name)),
                Quirk::Neighbour(name) => self.others.push(leaked(name)),
                Quirk::Mode(mode) => self.mode = Some(mode.clone()),
                Quirk::ForgetsMode => self.forgets_mode = true,
                Quirk::Versions(versions) => self.versions = *versions,
                Quirk::Sessions(opening) => self.opening = *opening,
                Quirk::Between(between) => self.between = Some(*between),
                Quirk::Expands(levels) => self.expands = *levels,
                other => self.layer.quirks.push(other.clone()),
            }
        }
    }

    /// Answers as its quirks have it.
    pub(super) fn answer(&mut self, received: &Received) -> Reply {
        let mut layer = std::mem::take(&mut self.layer);
        let reply = layer.answer(self, received);
        self.layer = layer;
        reply
    }
}

impl Layer {
    fn has(&self, quirk: &Quirk) -> bool {
        self.quirks.contains(quirk)
    }

    fn answer(&mut self, state: &mut State, received: &Received) -> Reply {
        if self.quirks.is_empty() {
            return state.answer_plainly(received);
        }
        state.settle();
        self.settle(state);
        match self.before(state, received) {
            Some(reply) => reply,
            None => self.answer_known(state, received),
        }
    }

    fn settle(&mut self, state: &mut State) {
        if self.away.is_some_and(|until| until <= Instant::now()) {
            self.away = None;
        }
        if let Some((at, image)) = self.late.take() {
            match at <= Instant::now() {
                true => state.image = Some(image),
                false => self.late = Some((at, image)),
            }
        }
        self.last_image = state.image.clone().or_else(|| self.last_image.take());
    }

    /// The answer in the place of that of the controller.
    fn before(&mut self, state: &mut State, received: &Received) -> Option<Reply> {
        self.asked += 1;
        let is_each = |count: usize| self.asked.is_multiple_of(count);
        let is_read = received.method == "GET";
        if self.away.is_some() {
            return Some(Reply::Raw(Vec::new()));
        }
        if self.has(&Quirk::SessionsEndEarly) && is_each(9) {
            state.end_sessions();
        }
        for quirk in &self.quirks {
            match quirk {
                Quirk::BusyAtTimes(status) if is_each(7) => {
                    let headers = vec![("retry-after", "1".to_owned())];
                    return Some(Reply::Json(*status, headers, json!({})));
                }
                Quirk::ErrorsAtTimes if is_read && is_each(5) => {
                    return Some(refusal(500, "An internal error."));
                }
                _ => {}
            }
        }
        None
    }

    fn answer_known(&mut self, state: &mut State, received: &Received) -> Reply {
        let mut received = received.clone();
        let path = received.path.trim_end_matches('/').to_owned();
        if self.has(&Quirk::MediaAtManager) {
            let (own, other) = (
                format!("{SYSTEM}/VirtualMedia"),
                format!("{MANAGER}/VirtualMedia"),
            );
            if path.starts_with(&own) {
                return refusal(404, "There is no such resource.");
            }
            received.path = received.path.replace(&other, &own);
        }
        let reply = match (&*received.method, &*path) {
            ("GET", MANAGER) if self.has(&Quirk::MediaAtManager) => self.manager(state, &received),
            ("GET", RESETS) => Reply::json(200, self.resets_told()),
            ("GET", TASK) => {
                Reply::json(200, json!({"TaskState": "Completed", "TaskStatus": "OK"}))
            }
            ("POST", path) if path.ends_with("ComputerSystem.Reset") => {
                self.reset(state, &received)
            }
            (_, path) if path.contains("/VirtualMedia") => self.medium(state, &received),
            ("PATCH", _) => self.change(state, &received),
            _ => state.answer_plainly(&received),
        };
        match reply {
            Reply::Json(200, headers, value) if received.method == "GET" => {
                self.as_told(state, (&received, headers, value))
            }
            reply => reply,
        }
    }

    /// The manager, with its virtual drives.
    fn manager(&self, state: &mut State, received: &Received) -> Reply {
        let own = match state.answer_plainly(received) {
            Reply::Json(200, _, value) => value,
            _ => json!({"Id": "1"}),
        };
        let mut told = own;
        told["VirtualMedia"] = link(format!("{MANAGER}/VirtualMedia"));
        Reply::json(200, told)
    }

    fn resets_told(&self) -> Value {
        let usual = ["On", "ForceOff", "GracefulShutdown"].map(str::to_owned);
        let own = self.own_resets().map_or(&usual[..], |own| own);
        json!({"Id": "ResetActionInfo", "Parameters": [{"Name": "ResetType", "AllowableValues": own}]})
    }

    fn own_resets(&self) -> Option<&[String]> {
        self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Resets(kinds) => Some(&kinds[..]),
            _ => None,
        })
    }

    fn reset(&mut self, state: &mut State, received: &Received) -> Reply {
        let kind = received.body["ResetType"].as_str().unwrap_or_default();
        if self
            .own_resets()
            .is_some_and(|own| !own.iter().any(|each| each == kind))
        {
            return refusal(
                400,
                &format!("The value {kind} of ResetType is not supported."),
            );
        }
        let comes = state.pending.map_or(state.is_on, |(is_on, _)| is_on);
        let meant = match kind {
            "PushPowerButton" if comes => "ForceOff",
            "PushPowerButton" | "ForceOn" => "On",
            kind => kind,
        };
        let same = self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::RefusesSameReset(status) => Some(*status),
            _ => None,
        });
        if let Some(status) = same.filter(|_| (meant == "On") == comes) {
            return refusal(status, "The server is in that state already.");
        }
        let mut meant_so = received.clone();
        meant_so.body["ResetType"] = json!(meant);
        let reply = state.answer_plainly(&meant_so);
        self.resets += 1;
        if self.resets == 1 && self.has(&Quirk::AwayAfterReset) {
            self.away = Some(Instant::now() + AWAY);
            state.end_sessions();
        }
        self.accepted(reply)
    }

    /// A change of what is no virtual drive.
    fn change(&self, state: &mut State, received: &Received) -> Reply {
        let is_boot = received.body.get("Boot").is_some();
        let only = self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::BootOnlyWhenOn(status) => Some(*status),
            _ => None,
        });
        if let Some(status) = only.filter(|_| is_boot && !state.is_on) {
            return refusal(status, "This is only possible while the server is on.");
        }
        match state.answer_plainly(received) {
            Reply::Json(204, ..) if is_boot && self.has(&Quirk::RefusalsOfBoot) => refusal(
                400,
                "Unable to set the attribute value because it depends on other attributes.",
            ),
            reply => self.accepted(reply),
        }
    }

    /// How it says that it took something.
    fn accepted(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Json(204, ..) if self.has(&Quirk::Tasks) => task(),
            reply => reply,
        }
    }

    fn medium(&mut self, state: &mut State, received: &Received) -> Reply {
        let is_change = received.method == "PATCH";
        if received.method == "GET" {
            return self
                .other_drive(&received.path)
                .unwrap_or_else(|| state.answer_plainly(received));
        }
        if self.other_drive(&received.path).is_some() {
            return refusal(400, "The request cannot be carried out by this drive.");
        }
        match (is_change, self.has(&Quirk::MediaByChange)) {
            (true, false) => return refusal(405, "The method is not allowed."),
            (false, true) => return refusal(404, "There is no such resource."),
            (true, true) | (false, false) => {}
        }
        let is_insert = received.body["Image"].is_string();
        let is_full = state.image.is_some() || self.late.is_some();
        if is_insert && is_full && self.has(&Quirk::InsistsOnEject) {
            return refusal(400, "The virtual media is in use.");
        }
        if !is_insert && !is_full && self.has(&Quirk::NothingToEject) {
            return refusal(400, "There is no virtual media to eject.");
        }
        let reply = state.answer_plainly(received);
        if !matches!(reply, Reply::Json(204, ..)) {
            return reply;
        }
        if self.has(&Quirk::LateImage) && is_insert {
            self.late = state
                .image
                .take()
                .map(|image| (Instant::now() + LATE, image));
            return task();
        }
        self.accepted(reply)
    }

    /// A virtual drive that takes no image, as it is read.
    fn other_drive(&self, path: &str) -> Option<Reply> {
        let is_it = |quirk: &&Quirk| matches!(quirk, Quirk::MediaBefore(name) if path.contains(&format!("/VirtualMedia/{name}")));
        let Some(Quirk::MediaBefore(name)) = self.quirks.iter().find(is_it) else {
            return None;
        };
        Some(Reply::json(
            200,
            json!({"Id": name, "MediaTypes": ["CD", "DVD"], "Image": null, "Inserted": false}),
        ))
    }

    /// A resource as its quirks have it.
    fn as_told(
        &self,
        state: &State,
        (received, headers, value): (&Received, Vec<(&'static str, String)>, Value),
    ) -> Reply {
        let (mut headers, mut value) = (headers, value);
        let path = received
            .path
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        if path == SYSTEM {
            self.tell_system(&mut value);
        }
        if path.ends_with("/VirtualMedia") {
            self.tell_drives(path, &mut value);
            let members = value["Members"].as_array_mut();
            let written = members
                .into_iter()
                .flatten()
                .filter(|each| each.get("MediaTypes").is_some());
            written.for_each(|drive| self.tell_drive(state, drive));
            if self.has(&Quirk::ExpandsWithoutValues) {
                let members = value["Members"].as_array_mut();
                let written = members
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object_mut);
                let empty = |(name, value): (&String, &mut Value)| match &**name {
                    "@odata.id" | "Id" => {}
                    _ => *value = Value::Null,
                };
                written.for_each(|drive| drive.iter_mut().for_each(empty));
            }
        }
        if path.ends_with("/VirtualMedia/EXT1") {
            self.tell_drive(state, &mut value);
        }
        if self.has(&Quirk::VersionInBody)
            && let Some(at) = headers.iter().position(|(name, _)| *name == "etag")
        {
            value["@odata.etag"] = json!(headers.remove(at).1);
        }
        self.tell(&mut value);
        Reply::Json(200, headers, value)
    }

    fn tell_system(&self, value: &mut Value) {
        if self.has(&Quirk::MediaAtManager)
            && let Some(system) = value.as_object_mut()
        {
            system.remove("VirtualMedia");
            system.insert("Links".to_owned(), json!({"ManagedBy": [link(MANAGER)]}));
        }
        let reset = &mut value["Actions"]["#ComputerSystem.Reset"];
        if let Some(own) = self.own_resets() {
            reset["ResetType@Redfish.AllowableValues"] = json!(own);
        }
        if self.has(&Quirk::ActionInfo)
            && let Some(reset) = reset.as_object_mut()
        {
            reset.remove("ResetType@Redfish.AllowableValues");
            reset.insert("@Redfish.ActionInfo".to_owned(), json!(RESETS));
        }
    }

    fn tell_drives(&self, path: &str, value: &mut Value) {
        let before = self.quirks.iter().filter_map(|quirk| match quirk {
            Quirk::MediaBefore(name) => Some(link(format!("{path}/{name}"))),
            _ => None,
        });
        let own = value["Members"].as_array().cloned().unwrap_or_default();
        value["Members"] = before.chain(own).collect();
    }

    fn tell_drive(&self, state: &State, value: &mut Value) {
        value["ConnectedVia"] = json!(match state.image {
            Some(_) => "URI",
            None => "NotConnected",
        });
        if self.has(&Quirk::StaleImage) && state.image.is_none() && self.last_image.is_some() {
            value["Image"] = json!(self.last_image);
            value["Inserted"] = json!(true);
        }
        if self.has(&Quirk::MediaByChange)
            && let Some(drive) = value.as_object_mut()
        {
            drive.remove("Actions");
        }
    }

    /// Each value as it is told: names that are left out, links in another form.
    fn tell(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !self.has(&Quirk::Hides(name.clone())));
                for (name, value) in fields.iter_mut() {
                    match (&**name, &*value) {
                        ("@odata.id" | "target" | "@Redfish.ActionInfo", Value::String(path)) => {
                            *value = json!(self.link_told(path));
                        }
                        _ => self.tell(value),
                    }
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|each| self.tell(each)),
            _ => {}
        }
    }

    fn link_told(&self, path: &str) -> String {
        match self.has(&Quirk::MediaAtManager) {
            true => path.replace(
                &format!("{SYSTEM}/VirtualMedia"),
                &format!("{MANAGER}/VirtualMedia"),
            ),
            false => path.to_owned(),
        }
    }
}

fn task() -> Reply {
    Reply::Json(
        202,
        vec![("location", TASK.to_owned())],
        json!({"@odata.id": TASK, "TaskState": "Running"}),
    )
}
