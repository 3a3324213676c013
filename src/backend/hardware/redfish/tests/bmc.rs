//! A management controller of the tests' own: it takes its time, keeps sessions and versions, erases
//! drives as tasks, and loses or refuses what it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::password::Changes;
use super::quirks::Layer;
use super::updates::Hardware;
use crate::backend::http::tests::server::{Received, Reply, Server};

/// How a drive answers when it is to erase itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Erase {
    /// It cannot.
    No,
    /// As a task that has to be polled this often.
    Task(usize),
    /// As a task that ends with a warning.
    Warned,
    /// With a plain yes.
    Yes,
    /// It refuses.
    Refuse,
    /// It begins, and the answer is lost.
    LostAnswer,
    /// It does not begin, and no answer comes.
    LostRequest,
}

/// The state of a controller, and its history.
#[derive(Debug)]
pub(super) struct State {
    pub(super) password: Option<String>,
    /// How the password of its account is changed; `None`: it has no accounts.
    pub(super) account: Option<Changes>,
    /// How many wrong passwords it was sent.
    pub(super) wrong: usize,
    pub(super) has_sessions: bool,
    /// How long switching takes.
    pub(super) delay: Duration,
    pub(super) is_on: bool,
    pub(super) pending: Option<(bool, Instant)>,
    /// It does not shut down when asked to.
    pub(super) ignores_shutdown: bool,
    /// The override that it stores when a boot from a source once is requested.
    pub(super) keeps: &'static str,
    pub(super) boot: (String, String),
    /// The mode in which it boots, if it tells that; and whether a change without it sets another.
    pub(super) mode: Option<String>,
    pub(super) forgets_mode: bool,
    /// An override for one boot stays after it.
    pub(super) is_sticky: bool,
    pub(super) image: Option<String>,
    pub(super) drives: Vec<(&'static str, Erase)>,
    pub(super) erased: Vec<&'static str>,
    /// For each task its drive and how often it is to be polled.
    pub(super) tasks: Vec<(&'static str, usize)>,
    /// Its systems besides the one that it is about.
    pub(super) others: Vec<&'static str>,
    pub(super) version: usize,
    /// How many changes are refused since the version is an old one.
    pub(super) moved: usize,
    /// It writes out what is linked, this deep.
    pub(super) expands: u64,
    /// Parts of requests that it refuses, and those that it demands.
    pub(super) refuses: Vec<&'static str>,
    pub(super) demands: Vec<&'static str>,
    /// How it tells versions, and which ones it takes.
    pub(super) versions: Versions,
    /// How it answers reads of its system while it is being switched.
    pub(super) between: Option<Between>,
    /// How many of the next reads it answers with "not now".
    pub(super) busy: usize,
    /// The way in which it opens sessions.
    pub(super) opening: Opening,
    /// Parts of its system that it does not have.
    pub(super) lacks: Vec<&'static str>,
    /// Whether it refuses to be switched on.
    pub(super) stays_off: bool,
    /// The image is shown by the name of its file alone.
    pub(super) shows_file: bool,
    /// Another virtual drive, listed after its own.
    pub(super) other: Option<OtherDrive>,
    /// It calls a machine that is on on its way to that, for ever.
    pub(super) is_never_on: bool,
    /// It lists a system that was switched off, and does not show it.
    pub(super) hides_off: bool,
    /// It accepts a boot override, and stores none.
    pub(super) ignores_boot: bool,
    /// Further resources by their path below the root, which system and root link if there are any.
    pub(super) values: Vec<(&'static str, Value)>,
    /// The entries of its event log, if it has one.
    pub(super) log: Vec<Value>,
    /// Firmware and settings that can be changed ([`State::hardware`]).
    pub(super) hardware: Option<Hardware>,
    /// The layer of its quirks.
    pub(super) layer: Layer,
    was_switched: bool,
    sessions: Vec<String>,
}

/// How a controller tells the versions of its system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Versions {
    /// Strong, and taken as they are.
    Strong,
    /// Weak, and taken as strong ones.
    Weak,
    /// None but any.
    Any,
}

/// A bad answer to a read of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Between {
    /// The power is null.
    Null,
    /// The power is a word of its own.
    Word,
    /// It is not found.
    NotFound,
    /// An error of the server.
    Error,
    /// A page.
    Page,
}

/// How a controller opens sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Opening {
    /// With the place where each is ended.
    Full,
    /// With that place in the body alone.
    WithoutLocation,
    /// Refused with a status.
    Refused(u16),
}

/// A running controller.
pub(super) struct Bmc {
    pub(super) server: Server,
    state: Arc<Mutex<State>>,
}

pub(super) const SYSTEM: &str = "/redfish/v1/Systems/1";
pub(super) const CONSOLE: &str = "Systems/1/SerialConsole";

impl Bmc {
    pub(super) async fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            password: Some("s3cret".to_owned()),
            account: None,
            wrong: 0,
            has_sessions: true,
            delay: Duration::from_millis(120),
            is_on: false,
            pending: None,
            ignores_shutdown: false,
            keeps: "Once",
            boot: ("Disabled".to_owned(), "None".to_owned()),
            mode: None,
            forgets_mode: false,
            is_sticky: false,
            image: None,
            drives: vec![("D1", Erase::Task(2)), ("D2", Erase::Yes)],
            erased: Vec::new(),
            tasks: Vec::new(),
            others: Vec::new(),
            version: 1,
            moved: 0,
            expands: 0,
            refuses: Vec::new(),
            demands: Vec::new(),
            versions: Versions::Strong,
            between: None,
            busy: 0,
            opening: Opening::Full,
            lacks: Vec::new(),
            stays_off: false,
            shows_file: false,
            other: None,
            is_never_on: false,
            hides_off: false,
            ignores_boot: false,
            values: Vec::new(),
            log: Vec::new(),
            hardware: None,
            layer: Layer::default(),
            was_switched: false,
            sessions: Vec::new(),
        }));
        let handled = state.clone();
        let server = Server::plain(move |received| handled.lock().unwrap().answer(received)).await;
        Self { server, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn port(&self) -> u16 {
        self.server.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// The requests that change something.
    pub(super) fn changes(&self) -> Vec<String> {
        let received = self.server.received.lock().unwrap();
        let changes = received.iter().filter(|each| each.method != "GET");
        changes
            .map(|each| match each.body["ResetType"].as_str() {
                Some(kind) => kind.to_owned(),
                None => each.line().replace(SYSTEM, "~").replace("/redfish/v1", ""),
            })
            .collect()
    }

    pub(super) fn sessions(&self) -> usize {
        self.state().sessions.len()
    }
}

pub(super) fn link(path: impl AsRef<str>) -> Value {
    json!({"@odata.id": path.as_ref()})
}

pub(super) fn refusal(status: u16, text: &str) -> Reply {
    let info = json!([{"MessageId": "Base.1.8.GeneralError", "Message": text}]);
    Reply::json(
        status,
        json!({"error": {"code": "Base.1.8.GeneralError", "message": "See @Message.ExtendedInfo", "@Message.ExtendedInfo": info}}),
    )
}

impl State {
    /// All sessions have ended by themselves.
    pub(super) fn end_sessions(&mut self) {
        self.sessions.clear();
    }

    pub(super) fn settle(&mut self) {
        if let Some((is_on, at)) = self.pending
            && at <= Instant::now()
        {
            self.pending = None;
            if is_on && !self.is_on && self.boot.0 == "Once" {
                self.boot.0 = "Disabled".to_owned();
            }
            if is_on
                && !self.is_on
                && let Some(hardware) = &mut self.hardware
            {
                hardware.is_restarted();
            }
            self.is_on = is_on;
            self.was_switched = true;
        }
    }

    fn is_allowed(&mut self, received: &Received) -> bool {
        let Some(password) = &self.password else {
            return true;
        };
        let token = received.headers.get("x-auth-token");
        if token.is_some_and(|token| self.sessions.contains(token)) {
            return true;
        }
        let Some(basic) = received.headers.get("authorization") else {
            return false;
        };
        let own = BASE64.encode(format!("admin:{password}").as_bytes());
        let is_own = *basic == format!("Basic {own}");
        self.wrong += usize::from(!is_own);
        is_own
    }

    /// Answers as one without quirks.
    pub(super) fn answer_plainly(&mut self, received: &Received) -> Reply {
        self.settle();
        if self.hardware.as_mut().is_some_and(Hardware::is_away) {
            self.end_sessions();
            return Reply::Raw(Vec::new());
        }
        let path = received.path.trim_end_matches('/');
        match (received.method.as_str(), path) {
            ("GET", "/redfish/v1") => return Reply::json(200, self.root()),
            ("POST", "/redfish/v1/SessionService/Sessions") if self.has_sessions => {
                return self.log_in(received);
            }
            _ => {}
        }
        if !self.is_allowed(received) {
            return refusal(401, "There is no valid session.");
        }
        if received.method == "GET" && self.busy > 0 {
            self.busy -= 1;
            return Reply::json(503, json!({}));
        }
        let path = match path.split_once('?') {
            // Its list of firmware is never written out.
            Some((path, _)) if path.ends_with("/FirmwareInventory") => path,
            Some((path, query)) => return self.expanded(path, query),
            None => path,
        };
        let below = path.strip_prefix("/redfish/v1").unwrap_or(path);
        let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
        if let Some(reply) = self.answer_of_parts(received, &parts) {
            return reply;
        }
        match (received.method.as_str(), &parts[..]) {
            ("DELETE", ["SessionService", "Sessions", token]) => {
                self.sessions.retain(|each| each != token);
                Reply::json(204, Value::Null)
            }
            ("GET", ["Systems"]) => {
                let all = self.others.iter().chain([&"1"]);
                let all: Vec<_> = all
                    .map(|id| link(format!("/redfish/v1/Systems/{id}")))
                    .collect();
                Reply::json(
                    200,
                    json!({"Members": all, "Members@odata.count": all.len()}),
                )
            }
            ("GET", ["Systems", "1"]) => self.read_system(),
            ("PATCH", ["Systems", "1", "Settings"]) => self.patch(received),
            ("GET", ["Systems", id]) if self.others.contains(id) => Reply::json(
                200,
                json!({"Id": id, "Name": format!("System {id}"), "UUID": format!("uuid-{id}")}),
            ),
            ("PATCH", ["Systems", "1"]) => self.patch(received),
            ("POST", ["Systems", "1", "Actions", "ComputerSystem.Reset"]) => self.reset(received),
            ("GET", ["Systems", "1", "Storage"]) => Reply::json(
                200,
                json!({"Members": [link(format!("{SYSTEM}/Storage/R0"))]}),
            ),
            ("GET", ["Systems", "1", "Storage", "R0"]) => Reply::json(200, self.storage()),
            ("GET", ["Systems", "1", "Storage", "R0", "Drives", id]) => self.drive(id),
            ("POST", ["Systems", "1", "Storage", "R0", "Drives", id, ..]) => self.erase(id),
            ("GET", ["TaskService"]) => {
                Reply::json(200, json!({"Tasks": link("/redfish/v1/TaskService/Tasks")}))
            }
            ("GET", ["TaskService", "Tasks"]) => {
                let all = 0..self.tasks.len();
                let all: Vec<_> = all
                    .map(|at| link(format!("/redfish/v1/TaskService/Tasks/{at}")))
                    .collect();
                Reply::json(200, json!({"Members": all}))
            }
            ("GET", ["TaskService", "Tasks", at]) => self.task(at),
            ("GET", ["Systems", "1", "EthernetInterfaces"]) => Reply::json(
                200,
                json!({"Members": [link(format!("{SYSTEM}/EthernetInterfaces/1"))]}),
            ),
            ("GET", ["Systems", "1", "EthernetInterfaces", "1"]) => {
                Reply::json(200, json!({"MACAddress": "00:5C:52:00:00:01"}))
            }
            (method, ["Systems", "1", "VirtualMedia", drive @ ..]) => {
                self.answer_of_media(method, drive, received)
            }
            ("GET", path) => {
                let path = path.join("/");
                let found = self.values.iter().find(|(known, _)| *known == path);
                match found {
                    Some((_, value)) => Reply::json(200, value.clone()),
                    None => refusal(404, "There is no such resource."),
                }
            }
            _ => refusal(404, "There is no such resource."),
        }
    }

    fn answer_of_media(&mut self, method: &str, drive: &[&str], received: &Received) -> Reply {
        let other = self.other.as_mut();
        match (method, drive) {
            ("GET", []) => {
                let names = ["EXT1"].into_iter().chain(other.map(|other| other.name));
                let members = names.map(|name| link(format!("{SYSTEM}/VirtualMedia/{name}")));
                Reply::json(200, json!({"Members": members.collect::<Vec<_>>()}))
            }
            (_, ["EXT1", action @ ..]) => self.medium(method, action, &received.body),
            (_, [name, ..]) => match other.filter(|other| other.name == *name) {
                Some(other) => other.answer(method),
                None => refusal(404, "There is no such resource."),
            },
            _ => refusal(404, "There is no such resource."),
        }
    }

    /// Answers what its account, its firmware and its settings have a place for.
    fn answer_of_parts(&mut self, received: &Received, parts: &[&str]) -> Option<Reply> {
        if let ("GET", ["Systems", "1", "LogServices", log @ ..]) = (&*received.method, parts) {
            return self.answer_of_log(log);
        }
        let own = self.hardware.as_mut();
        let reply = own.and_then(|hardware| hardware.answer(received, parts));
        reply.or_else(|| self.answer_of_account(received, parts))
    }

    /// Answers what is read of its event log, if it has one.
    fn answer_of_log(&self, parts: &[&str]) -> Option<Reply> {
        let own = format!("{SYSTEM}/LogServices/Sel");
        let found = match parts {
            _ if self.log.is_empty() => return None,
            [] => json!({"Members": [link(own)]}),
            ["Sel"] => json!({
                "Id": "Sel", "DateTime": "2026-11-27T10:00:00+01:00", "Entries": link(format!("{own}/Entries")),
            }),
            ["Sel", "Entries"] => {
                json!({"Members": self.log, "Members@odata.count": self.log.len()})
            }
            _ => return None,
        };
        Some(Reply::json(200, found))
    }

    fn root(&self) -> Value {
        let mut root = json!({
            "Systems": link("/redfish/v1/Systems"),
            "Tasks": link("/redfish/v1/TaskService"),
        });
        if self.has_sessions {
            root["Links"] = json!({"Sessions": link("/redfish/v1/SessionService/Sessions")});
        }
        if !self.values.is_empty() {
            root["UpdateService"] = link("/redfish/v1/UpdateService");
            root["Registries"] = link("/redfish/v1/Registries");
        }
        if self.account.is_some() {
            root["AccountService"] = link("/redfish/v1/AccountService");
        }
        if self.expands > 0 {
            let how =
                json!({"NoLinks": true, "Levels": self.expands > 1, "MaxLevels": self.expands});
            root["ProtocolFeaturesSupported"] = json!({ "ExpandQuery": how });
        }
        root
    }

    fn log_in(&mut self, received: &Received) -> Reply {
        if let Opening::Refused(status @ (400 | 404 | 405 | 410 | 501)) = self.opening {
            return refusal(status, "There is nothing of that kind.");
        }
        if received.body["UserName"] != "admin"
            || received.body["Password"].as_str() != self.password.as_deref()
        {
            self.wrong += 1;
            let told = received.body["Password"].as_str().unwrap_or_default();
            return refusal(401, &format!("The password {told} of admin is wrong."));
        }
        if let Opening::Refused(status) = self.opening {
            return refusal(status, "No session is free.");
        }
        // A token that is known in this process is masked in what is read.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let token = format!("token-{:04}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.sessions.push(token.clone());
        let place = format!("/redfish/v1/SessionService/Sessions/{token}");
        let mut headers = vec![("x-auth-token", token.clone())];
        if self.opening == Opening::Full {
            headers.push(("location", place.clone()));
        }
        Reply::Json(201, headers, json!({"Id": token, "@odata.id": place}))
    }

    /// Why it refuses a body: a value or a name that it does not take, or one that is missing.
    fn refused(&self, body: &Value) -> Option<Reply> {
        let values: Vec<&str> = body
            .as_object()?
            .values()
            .filter_map(Value::as_str)
            .collect();
        let has = |name: &str| body.get(name).is_some() || values.contains(&name);
        if let Some(name) = self.refuses.iter().find(|name| has(name)) {
            return Some(refusal(400, &format!("The property {name} is not known.")));
        }
        let is_boot = body.get("BootSourceOverrideTarget").is_some();
        let mut demands = self.demands.iter();
        let missing = demands.find(|name| name.starts_with("Boot") == is_boot && !has(name))?;
        Some(refusal(
            400,
            &format!("The parameter {missing} is required."),
        ))
    }

    fn read_system(&self) -> Reply {
        let mut system = self.system();
        if self.hides_off && self.was_switched && !self.is_on {
            return refusal(404, "There is no such resource.");
        }
        if self.is_never_on && self.is_on {
            system["PowerState"] = json!("PoweringOn");
        }
        if self.pending.is_some() {
            match self.between {
                None => {}
                Some(Between::Null) => system["PowerState"] = Value::Null,
                Some(Between::Word) => system["PowerState"] = json!("Resetting"),
                Some(Between::NotFound) => return refusal(404, "There is no such resource."),
                Some(Between::Error) => return refusal(500, "Not ready."),
                Some(Between::Page) => {
                    return Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_vec());
                }
            }
        }
        let etag = match self.versions {
            Versions::Strong | Versions::Any => format!("\"{}\"", self.version),
            Versions::Weak => format!("W/\"{}\"", self.version),
        };
        Reply::Json(200, vec![("etag", etag)], system)
    }

    fn system(&self) -> Value {
        let mut system = json!({
            "@odata.id": SYSTEM, "Id": "1", "Name": "System 1", "UUID": "uuid-1", "SerialNumber": "S-1",
            "Manufacturer": "Example Inc.", "BiosVersion": "2.4", "PowerState": if self.is_on { "On" } else { "Off" },
            "Boot": {
                "BootSourceOverrideEnabled": self.boot.0, "BootSourceOverrideTarget": self.boot.1,
                "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd"],
            },
            "EthernetInterfaces": link(format!("{SYSTEM}/EthernetInterfaces")),
            "Storage": link(format!("{SYSTEM}/Storage")),
            "VirtualMedia": link(format!("{SYSTEM}/VirtualMedia")),
            "Actions": {"#ComputerSystem.Reset": {"target": format!("{SYSTEM}/Actions/ComputerSystem.Reset")}},
        });
        let allowed = json!(["On", "ForceOff", "GracefulShutdown"]);
        system["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = allowed;
        if let Some(hardware) = &self.hardware {
            system["BiosVersion"] = json!(hardware.versions["bios"]);
        }
        if let Some(mode) = &self.mode {
            system["Boot"]["BootSourceOverrideMode"] = json!(mode);
        }
        if !self.values.is_empty() {
            system["Bios"] = link(format!("{SYSTEM}/Bios"));
            system["SecureBoot"] = link(format!("{SYSTEM}/SecureBoot"));
            system["Links"] = json!({"ManagedBy": [link("/redfish/v1/Managers/1")]});
            let mut values = self.values.iter();
            let options = values.find(|(path, _)| *path == "Systems/1/BootOptions");
            if let Some((_, options)) = options {
                system["Boot"]["BootOptions"] = link(format!("{SYSTEM}/BootOptions"));
                system["Boot"]["BootOrder"] = options["order"].clone();
            }
            let console = self.values.iter().find(|each| each.0 == CONSOLE);
            system["SerialConsole"] = console.map_or(Value::Null, |(_, value)| value.clone());
            system["ProcessorSummary"] = json!({"Count": 2});
            let memory = self.hardware.as_ref().map_or(384, |own| own.memory_gib);
            system["MemorySummary"] = json!({"TotalSystemMemoryGiB": memory});
        }
        if !self.log.is_empty() {
            system["LogServices"] = link(format!("{SYSTEM}/LogServices"));
        }
        if let Some(fields) = system.as_object_mut() {
            fields.retain(|name, _| !self.lacks.contains(&name.as_str()));
        }
        if self.refuses.contains(&"System") {
            let settings = link(format!("{SYSTEM}/Settings"));
            system["@Redfish.Settings"] = json!({ "SettingsObject": settings });
        }
        system
    }

    fn patch(&mut self, received: &Received) -> Reply {
        let expected = match self.versions {
            Versions::Strong | Versions::Weak => format!("\"{}\"", self.version),
            Versions::Any => "*".to_owned(),
        };
        let at_settings = received.path.ends_with("/Settings");
        if !at_settings && self.refuses.contains(&"System") {
            return refusal(400, "These properties are moved to the FutureState URI.");
        }
        let named = received.headers.get("if-match");
        if !at_settings && (self.moved > 0 || named != Some(&expected)) {
            self.moved = self.moved.saturating_sub(1);
            self.version += 1;
            return refusal(412, "The resource has changed.");
        }
        let boot = &received.body["Boot"];
        if let Some(refusal) = self.refused(boot) {
            return refusal;
        }
        if self.ignores_boot {
            return Reply::json(204, Value::Null);
        }
        match boot["BootSourceOverrideMode"].as_str() {
            Some(mode) => self.mode = Some(mode.to_owned()),
            None if self.forgets_mode => self.mode = Some("Legacy".to_owned()),
            None => {}
        }
        if let Some(target) = boot["BootSourceOverrideTarget"].as_str() {
            self.boot.1 = target.to_owned();
        }
        if let Some(enabled) = boot["BootSourceOverrideEnabled"].as_str() {
            let kept = if enabled == "Once" {
                self.keeps
            } else {
                enabled
            };
            self.boot.0 = kept.to_owned();
        }
        self.version += 1;
        Reply::json(204, Value::Null)
    }

    fn reset(&mut self, received: &Received) -> Reply {
        if self.stays_off && received.body["ResetType"] == "On" {
            return refusal(400, "The power supply is missing.");
        }
        let wanted = match received.body["ResetType"].as_str() {
            Some("On") => true,
            Some("ForceOff") => false,
            Some("GracefulShutdown") if self.ignores_shutdown => {
                return Reply::json(204, Value::Null);
            }
            Some("GracefulShutdown") => false,
            _ => return refusal(400, "The value of ResetType is not supported."),
        };
        // What is so already changes nothing, also not what is still to come.
        if wanted != self.is_on {
            self.pending = Some((wanted, Instant::now() + self.delay));
        }
        Reply::json(204, Value::Null)
    }

    /// A collection with its members written out, and with two levels their drives too.
    fn expanded(&self, path: &str, query: &str) -> Reply {
        let levels = match query {
            "$expand=." => 1,
            "$expand=.($levels=2)" => 2,
            _ => 99,
        };
        if levels > self.expands {
            return refusal(501, "The query is not supported.");
        }
        let drives = self
            .drives
            .iter()
            .map(|(id, _)| match (levels, self.drive_of(id)) {
                (2, Some(drive)) => drive,
                _ => link(drive_path(id)),
            });
        let storage = format!("{SYSTEM}/Storage");
        let member = if path == storage {
            json!({"@odata.id": format!("{storage}/R0"), "Id": "R0", "Drives": drives.collect::<Vec<_>>()})
        } else if path.ends_with("/VirtualMedia") {
            self.medium_told()
        } else {
            json!({"@odata.id": format!("{path}/1"), "Id": "1", "MACAddress": "00:5C:52:00:00:01"})
        };
        Reply::json(200, json!({ "Members": [member] }))
    }

    /// The virtual drive as it is read.
    fn medium_told(&self) -> Value {
        let path = format!("{SYSTEM}/VirtualMedia/EXT1");
        let action = |name: &str| json!({"target": format!("{path}/Actions/{name}")});
        let image = self.image.as_deref();
        let image = image.map(|image| match self.shows_file {
            true => image.rsplit('/').next().unwrap_or_default(),
            false => image,
        });
        json!({
            "@odata.id": path, "Id": "EXT1",
            "MediaTypes": ["CD", "DVD"], "Image": image, "Inserted": self.image.is_some(),
            "Actions": {"#VirtualMedia.InsertMedia": action("Insert"), "#VirtualMedia.EjectMedia": action("Eject")},
        })
    }

    /// The virtual drive: read, or an action or a change of it.
    fn medium(&mut self, method: &str, action: &[&str], body: &Value) -> Reply {
        let is_insert = match method {
            "GET" => return Reply::json(200, self.medium_told()),
            "PATCH" => body["Image"].is_string(),
            _ => action.last() == Some(&"Insert"),
        };
        if let Some(refusal) = self.refused(body).filter(|_| is_insert) {
            return refusal;
        }
        let image = body["Image"].as_str();
        self.image = image.filter(|_| is_insert).map(str::to_owned);
        Reply::json(204, Value::Null)
    }

    fn drive(&self, id: &str) -> Reply {
        match self.drive_of(id) {
            Some(drive) => Reply::json(200, drive),
            None => refusal(404, "There is no such drive."),
        }
    }

    fn drive_of(&self, id: &str) -> Option<Value> {
        let (id, erase) = self.drives.iter().find(|(name, _)| *name == id)?;
        let mut drive = json!({"@odata.id": drive_path(id), "Id": id, "SerialNumber": format!("serial-{id}"), "CapacityBytes": 480_103_981_056_u64});
        if let Some(hardware) = &self.hardware {
            hardware.storage.show_spare(&mut drive, id);
        }
        if *erase != Erase::No {
            let target = format!("{}/Actions/Drive.SecureErase", drive_path(id));
            drive["Actions"] = json!({"#Drive.SecureErase": {"target": target}});
        }
        Some(drive)
    }

    fn erase(&mut self, id: &str) -> Reply {
        let (id, erase) = *self.drives.iter().find(|(name, _)| *name == id).unwrap();
        let mut begin = |looks| {
            self.tasks.push((id, looks));
            let task = format!("/redfish/v1/TaskService/Tasks/{}", self.tasks.len() - 1);
            Reply::Json(202, vec![("location", task)], Value::Null)
        };
        match erase {
            Erase::Task(looks) => begin(looks),
            Erase::Warned => begin(0),
            Erase::LostAnswer => {
                begin(1);
                Reply::Raw(Vec::new())
            }
            Erase::LostRequest => Reply::Raw(Vec::new()),
            Erase::Yes => {
                self.erased.push(id);
                Reply::json(204, Value::Null)
            }
            Erase::Refuse => refusal(400, "The drive is part of a volume."),
            Erase::No => refusal(404, "There is no such action."),
        }
    }

    fn task(&mut self, at: &str) -> Reply {
        let Some((id, looks)) = at
            .parse::<usize>()
            .ok()
            .and_then(|at| self.tasks.get_mut(at))
        else {
            return refusal(404, "There is no such task.");
        };
        let target = format!("{}/Actions/Drive.SecureErase", drive_path(id));
        let payload = json!({"TargetUri": target});
        if *looks > 0 {
            *looks -= 1;
            return Reply::json(
                200,
                json!({"TaskState": "Running", "PercentComplete": 40, "Payload": payload}),
            );
        }
        let is_warned = self.drives.contains(&(*id, Erase::Warned));
        if !self.erased.contains(id) && !is_warned {
            self.erased.push(id);
        }
        let status = if is_warned { "Warning" } else { "OK" };
        let messages = json!([{"Message": "Two sectors were left out."}]);
        Reply::json(
            200,
            json!({"TaskState": "Completed", "TaskStatus": status, "Messages": messages, "Payload": payload}),
        )
    }
}

/// A virtual drive beside its own, that takes no image.
#[derive(Debug)]
pub(super) struct OtherDrive {
    pub(super) name: &'static str,
    pub(super) image: Option<&'static str>,
    /// Whether what is in cannot be ejected.
    pub(super) keeps: bool,
    /// Whether it cannot be read.
    pub(super) is_broken: bool,
}

impl OtherDrive {
    fn answer(&mut self, method: &str) -> Reply {
        let refused = || refusal(400, "The request cannot be carried out by this drive.");
        match (method, self.image) {
            _ if self.is_broken => refused(),
            ("GET", image) => Reply::json(
                200,
                json!({"Id": self.name, "MediaTypes": ["CD"], "Image": image, "Inserted": image.is_some()}),
            ),
            (_, Some(_)) if !self.keeps => {
                self.image = None;
                Reply::json(204, Value::Null)
            }
            _ => refused(),
        }
    }
}

fn drive_path(id: &str) -> String {
    format!("{SYSTEM}/Storage/R0/Drives/{id}")
}
