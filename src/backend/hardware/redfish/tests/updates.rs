//! Firmware and attributes of the controller of the tests' own: an UpdateService, pending values, and ways in which both lie.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::bmc::{State, link, refusal};
use super::volumes::Storage;
use crate::backend::http::tests::server::{Received, Reply};

/// How an update or pending values are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dealt {
    /// As they should be.
    Well,
    /// As they should be, and without a task.
    WithoutTask,
    /// Success is reported, and nothing changes.
    Unchanged,
    /// As above the first time, and well the next.
    SecondTry,
    /// The task is gone before its end is known; the value changes, or does not.
    Vanishes,
    VanishesUnchanged,
    /// A failure is reported, and nothing changes; or the value does.
    Fails,
    FailsChanged,
    /// A warning is reported, and the value changes; or does not.
    Warns,
    WarnsUnchanged,
    /// The controller restarts on the way: it is away, and its sessions have ended.
    Restarts,
    /// As above, and the value does not change.
    RestartsUnchanged,
    /// The request is refused.
    Refused,
    /// The task waits for the restart of the machine.
    Waits,
    /// The answer to the request is lost; it was begun, or it was not.
    LosesAnswer,
    LosesRequest,
}

/// The report of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// A task that ends well, with a warning, with a critical message, in another way, or without a state.
    Completed,
    Warned,
    Critical,
    Exception,
    Killed,
    Cancelled,
    WithoutState,
    /// A task that is not found any more: at its end, or at once.
    Gone,
    GoneAtOnce,
    /// A task that cannot be read for a while.
    Unreadable,
    /// A task that waits for the restart of the machine.
    Waits,
    /// No task: what was asked for is done, or accepted.
    Done,
    Accepted,
    /// The answer is lost.
    LosesAnswer,
    /// The controller restarts on the way.
    Restarts,
}

impl Report {
    pub(super) const ALL: [Self; 15] = [
        Self::Completed,
        Self::Warned,
        Self::Critical,
        Self::Exception,
        Self::Killed,
        Self::Cancelled,
        Self::WithoutState,
        Self::Gone,
        Self::GoneAtOnce,
        Self::Unreadable,
        Self::Waits,
        Self::Done,
        Self::Accepted,
        Self::LosesAnswer,
        Self::Restarts,
    ];
}

/// The outcome of an update, whatever is reported of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Changed,
    Unchanged,
    /// Nothing the first time, and what was asked for the next.
    SecondTry,
    /// The version is another one than the one that was asked for, or that of another component changes.
    OtherVersion,
    OtherComponent,
    /// The restart takes the old version back.
    TakenBack,
    /// The component is in the inventory no more.
    Lost,
    /// The new version is shown some readings after the restart only.
    Late,
    /// The new version is shown once after the restart, and then the old one.
    ShownOnce,
    /// The new version is shown each second time after the restart, and nothing changes.
    Flickers,
    /// The version is shown with a word behind it.
    Altered,
}

impl Truth {
    pub(super) const ALL: [Self; 11] = [
        Self::Changed,
        Self::Unchanged,
        Self::SecondTry,
        Self::OtherVersion,
        Self::OtherComponent,
        Self::TakenBack,
        Self::Lost,
        Self::Late,
        Self::ShownOnce,
        Self::Flickers,
        Self::Altered,
    ];
}

/// The firmware and the settings of the machine.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) versions: BTreeMap<&'static str, String>,
    pub(super) attributes: Map<String, Value>,
    pub(super) updates: Dealt,
    /// In the place of that: what is reported, and what comes of it.
    pub(super) lie: Option<(Report, Truth)>,
    /// How often the version was read since the last restart.
    readings: Option<usize>,
    pub(super) pending_values: Dealt,
    /// Pending values are shown as if they were in effect.
    pub(super) shows_pending: bool,
    /// Properties of the UpdateService besides its action.
    pub(super) service: Value,
    /// The volumes of its storage.
    pub(super) storage: Storage,
    /// The network services of the controller, and how changes of them are dealt with.
    pub(super) protocols: Value,
    pub(super) protocol_changes: Dealt,
    /// Its memory, and that after the next restart.
    pub(super) memory_gib: u64,
    pub(super) memory_left_gib: u64,
    /// Bodies of the requests for updates, and of pending values.
    pub(super) asked: Vec<Value>,
    pub(super) patched: Vec<Value>,
    pending: Map<String, Value>,
    /// The component and the version of an update that the next restart brings.
    staged: Option<(&'static str, String)>,
    /// How often its task was read.
    reads: usize,
    /// How many requests it does not answer since it restarts.
    away: usize,
}

impl Hardware {
    pub(super) fn new() -> Self {
        let attributes = json!({"Turbo": "Disabled", "NumLock": true, "Cores": 4});
        Self {
            versions: [("bios", "2.4"), ("bmc", "7.0"), ("NIC.1", "21.0")]
                .map(|(name, version)| (name, version.to_owned()))
                .into(),
            attributes: attributes.as_object().unwrap().clone(),
            updates: Dealt::Well,
            lie: None,
            readings: None,
            pending_values: Dealt::Well,
            shows_pending: false,
            service: json!({}),
            storage: Storage::default(),
            protocols: json!({
                "NTP": {"ProtocolEnabled": false, "NTPServers": []},
                "IPMI": {"ProtocolEnabled": true}, "SSH": {"ProtocolEnabled": true}, "HTTP": {"ProtocolEnabled": true},
            }),
            protocol_changes: Dealt::Well,
            memory_gib: 384,
            memory_left_gib: 384,
            asked: Vec::new(),
            patched: Vec::new(),
            pending: Map::new(),
            staged: None,
            reads: 0,
            away: 0,
        }
    }

    /// The machine was switched on: pending values and staged updates come about.
    pub(super) fn is_restarted(&mut self) {
        self.readings = Some(0);
        self.memory_gib = self.memory_left_gib;
        self.storage.is_restarted();
        if let Some((report, truth)) = self.lie {
            if report == Report::Waits {
                self.come_about(truth);
            }
            if truth == Truth::TakenBack {
                self.versions.insert("NIC.1", "21.0".to_owned());
            }
            self.staged = None;
        }
        let pending = std::mem::take(&mut self.pending);
        let takes = match self.pending_values {
            Dealt::Unchanged => false,
            Dealt::SecondTry => self.patched.len() > 1,
            _ => true,
        };
        if takes {
            self.attributes.extend(pending);
        }
        if let Some((name, version)) = self.staged.take() {
            self.versions.insert(name, version);
        }
    }

    /// Answers what is about it; `None`: something else.
    pub(super) fn answer(&mut self, received: &Received, parts: &[&str]) -> Option<Reply> {
        let inventory = "/redfish/v1/UpdateService/FirmwareInventory";
        if let Some(reply) = self.storage.answer(received, parts) {
            return Some(reply);
        }
        Some(match (received.method.as_str(), parts) {
            ("GET", ["Systems", "1", "Bios"]) => {
                let mut shown = self.attributes.clone();
                if self.shows_pending {
                    shown.extend(self.pending.clone());
                }
                let settings = link("/redfish/v1/Systems/1/Bios/Settings");
                Reply::json(
                    200,
                    json!({
                        "Attributes": shown, "AttributeRegistry": "Bios.1",
                        "@Redfish.Settings": {"SettingsObject": settings, "SupportedApplyTimes": ["OnReset"]},
                    }),
                )
            }
            ("GET", ["Systems", "1", "Bios", "Settings"]) => {
                Reply::json(200, json!({ "Attributes": self.pending }))
            }
            ("PATCH", ["Systems", "1", "Bios", "Settings"]) => self.patch(received),
            ("GET", ["Registries", "Bios.1"]) => Reply::json(
                200,
                json!({"Location": [{"Language": "en", "Uri": "/redfish/v1/Registries/Bios.1/file"}]}),
            ),
            ("GET", ["Registries", "Bios.1", "file"]) => {
                let values = json!([{"ValueName": "Enabled"}, {"ValueName": "Disabled"}]);
                let turbo =
                    json!({"AttributeName": "Turbo", "Type": "Enumeration", "Value": values});
                Reply::json(200, json!({"RegistryEntries": {"Attributes": [turbo]}}))
            }
            ("GET", ["Managers", "1"]) => {
                let protocols = link("/redfish/v1/Managers/1/NetworkProtocol");
                let version = &self.versions["bmc"];
                Reply::json(
                    200,
                    json!({"FirmwareVersion": version, "NetworkProtocol": protocols}),
                )
            }
            ("GET", ["Managers", "1", "NetworkProtocol"]) => {
                Reply::json(200, self.protocols.clone())
            }
            ("PATCH", ["Managers", "1", "NetworkProtocol"]) => self.set_protocols(received),
            ("GET", ["UpdateService"]) => {
                let target = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
                let mut service = json!({
                    "FirmwareInventory": link(inventory),
                    "Actions": {"#UpdateService.SimpleUpdate": {"target": target}},
                });
                let more = self.service.as_object().into_iter().flatten();
                for (name, value) in more {
                    service[name] = value.clone();
                }
                Reply::json(200, service)
            }
            ("GET", ["UpdateService", "FirmwareInventory"]) => {
                let is_lost = matches!(self.lie, Some((_, Truth::Lost)));
                let members = match is_lost && !self.asked.is_empty() {
                    true => json!([]),
                    false => json!([link(format!("{inventory}/NIC.1"))]),
                };
                Reply::json(200, json!({ "Members": members }))
            }
            ("GET", ["UpdateService", "FirmwareInventory", "NIC.1"]) => Reply::json(
                200,
                json!({"@odata.id": format!("{inventory}/NIC.1"), "Id": "NIC.1", "Version": self.shown()}),
            ),
            ("POST", ["UpdateService", "Actions", _]) => self.update(&received.body),
            ("GET", ["TaskService", "Tasks"]) if self.reads == 0 && !self.asked.is_empty() => {
                Reply::json(
                    200,
                    json!({"Members": [link("/redfish/v1/TaskService/Tasks/update")]}),
                )
            }
            ("GET", ["TaskService", "Tasks", "update"]) => self.task(),
            _ => return None,
        })
    }

    /// Brings about what was asked for, or something else.
    fn come_about(&mut self, truth: Truth) {
        let Some((name, version)) = self.staged.take() else {
            return;
        };
        match truth {
            Truth::Unchanged | Truth::Lost | Truth::ShownOnce | Truth::Flickers => {}
            Truth::SecondTry if self.asked.len() < 2 => {}
            Truth::OtherVersion => drop(self.versions.insert(name, "22.4".to_owned())),
            Truth::OtherComponent => drop(self.versions.insert("bmc", version)),
            Truth::Altered => drop(self.versions.insert(name, format!("{version} (staged)"))),
            _ => drop(self.versions.insert(name, version)),
        }
    }

    /// The version of the NIC as it is shown.
    fn shown(&mut self) -> String {
        let readings = self.readings;
        if let Some(readings) = &mut self.readings {
            *readings += 1;
        }
        match (self.lie, readings) {
            (Some((_, Truth::Late)), Some(0 | 1)) => "21.0".to_owned(),
            (Some((_, Truth::Flickers)), Some(readings)) if readings % 2 == 1 => "22.5".to_owned(),
            (Some((_, Truth::ShownOnce)), Some(0)) => "22.5".to_owned(),
            _ => self.versions["NIC.1"].clone(),
        }
    }

    /// The answer to a request for an update of which `report` is told.
    fn begin(&mut self, (report, truth): (Report, Truth)) -> Reply {
        let task = || {
            vec![(
                "location",
                "/redfish/v1/TaskService/Tasks/update".to_owned(),
            )]
        };
        match report {
            Report::Done | Report::Accepted | Report::LosesAnswer | Report::GoneAtOnce => {
                self.come_about(truth);
            }
            _ => {}
        }
        match report {
            Report::Done => Reply::json(200, json!({})),
            Report::Accepted => Reply::json(202, Value::Null),
            Report::LosesAnswer => Reply::Raw(Vec::new()),
            _ => Reply::Json(202, task(), Value::Null),
        }
    }

    /// The task of an update of which `report` is told.
    fn told(&mut self, (report, truth): (Report, Truth)) -> Reply {
        let target = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
        let task = |state: &str, severity: &str| {
            let message = json!({"Message": "Flash of the component.", "Severity": severity});
            Reply::json(
                200,
                json!({"TaskState": state, "TaskStatus": severity, "Messages": [message], "Payload": {"TargetUri": target}}),
            )
        };
        match report {
            Report::GoneAtOnce => return refusal(404, "There is no such task."),
            Report::Waits => return task("Starting", "OK"),
            Report::Unreadable if self.reads < 4 => return Reply::json(500, json!({})),
            _ if self.reads < 2 => return task("Running", "OK"),
            _ => {}
        }
        self.come_about(truth);
        match report {
            Report::Warned => task("Completed", "Warning"),
            Report::Critical => task("Completed", "Critical"),
            Report::Exception => task("Exception", "Critical"),
            Report::Killed => task("Killed", "OK"),
            Report::Cancelled => task("Cancelled", "OK"),
            Report::WithoutState => Reply::json(200, json!({"Id": "update"})),
            Report::Gone => refusal(404, "There is no such task."),
            Report::Restarts if self.reads == 2 => {
                self.away = 4;
                Reply::Raw(Vec::new())
            }
            _ => task("Completed", "OK"),
        }
    }

    /// Whether it is away since it restarts.
    pub(super) fn is_away(&mut self) -> bool {
        let is_away = self.away > 0;
        self.away = self.away.saturating_sub(1);
        is_away
    }

    fn patch(&mut self, received: &Received) -> Reply {
        if self.pending_values == Dealt::Refused {
            return refusal(400, "Setup is locked by a password.");
        }
        self.patched.push(received.body.clone());
        let attributes = received.body["Attributes"].as_object();
        self.pending.extend(attributes.cloned().unwrap_or_default());
        Reply::json(204, Value::Null)
    }

    fn set_protocols(&mut self, received: &Received) -> Reply {
        if self.protocol_changes == Dealt::Refused {
            return refusal(400, "The property is read-only.");
        }
        self.patched.push(received.body.clone());
        let takes = match self.protocol_changes {
            Dealt::Unchanged => false,
            Dealt::SecondTry => self.patched.len() > 1,
            _ => true,
        };
        for (name, value) in received.body.as_object().into_iter().flatten() {
            let own = self.protocols[name].as_object_mut();
            let value = value.as_object().filter(|_| takes);
            if let (Some(own), Some(value)) = (own, value) {
                own.extend(value.clone());
            }
        }
        match self.protocol_changes {
            Dealt::LosesAnswer if self.patched.len() == 1 => Reply::Raw(Vec::new()),
            _ => Reply::json(204, Value::Null),
        }
    }

    /// The file names component and version: `http://host/bios_2.5.bin`.
    fn update(&mut self, body: &Value) -> Reply {
        if self.updates == Dealt::LosesRequest && self.asked.is_empty() {
            self.asked.push(json!("lost"));
            self.reads = 1;
            return Reply::Raw(Vec::new());
        }
        self.asked.push(body.clone());
        if self.updates == Dealt::Refused {
            return refusal(403, "The image is not signed.");
        }
        let image = body["ImageURI"].as_str().unwrap();
        let file = image.rsplit('/').next().unwrap().trim_end_matches(".bin");
        let (name, version) = file.split_once('_').unwrap();
        let name = *self.versions.keys().find(|known| **known == name).unwrap();
        self.staged = Some((name, version.to_owned()));
        self.reads = 0;
        if let Some(lie) = self.lie {
            return self.begin(lie);
        }
        match self.updates {
            Dealt::WithoutTask => Reply::json(202, Value::Null),
            Dealt::LosesAnswer => Reply::Raw(Vec::new()),
            _ => {
                let task = "/redfish/v1/TaskService/Tasks/update".to_owned();
                Reply::Json(202, vec![("location", task)], Value::Null)
            }
        }
    }

    fn task(&mut self) -> Reply {
        self.reads += 1;
        if let Some(lie) = self.lie {
            return self.told(lie);
        }
        let target = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
        let state = |state: &str, status: &str| {
            let messages = json!([{"Message": "Flash of the component."}]);
            let payload = json!({ "TargetUri": target });
            Reply::json(
                200,
                json!({"TaskState": state, "TaskStatus": status, "Messages": messages, "Payload": payload}),
            )
        };
        if self.updates == Dealt::Waits {
            return state("Starting", "OK");
        }
        if self.reads < 2 {
            return state("Running", "OK");
        }
        let changes = match self.updates {
            Dealt::Unchanged
            | Dealt::VanishesUnchanged
            | Dealt::Fails
            | Dealt::WarnsUnchanged
            | Dealt::RestartsUnchanged => false,
            Dealt::SecondTry => self.asked.len() > 1,
            _ => true,
        };
        if let Some((name, version)) = self.staged.take().filter(|_| changes) {
            self.versions.insert(name, version);
        }
        match self.updates {
            Dealt::Vanishes | Dealt::VanishesUnchanged => refusal(404, "There is no such task."),
            Dealt::Fails | Dealt::FailsChanged => state("Exception", "Critical"),
            Dealt::Warns | Dealt::WarnsUnchanged => state("Completed", "Warning"),
            Dealt::Restarts | Dealt::RestartsUnchanged if self.reads == 2 => {
                self.away = 4;
                Reply::Raw(Vec::new())
            }
            _ => state("Completed", "OK"),
        }
    }
}

impl State {
    /// The machine has firmware and settings that can be changed.
    pub(super) fn hardware(&mut self) -> &mut Hardware {
        // What links them is there with them.
        if self.hardware.is_none() {
            self.values.push(("unused", Value::Null));
        }
        self.hardware.get_or_insert_with(Hardware::new)
    }
}
