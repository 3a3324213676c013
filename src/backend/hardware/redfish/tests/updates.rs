//! Firmware and attributes of the controller of the tests' own: an UpdateService, pending values, and ways in which both lie.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::bmc::{State, link, refusal};
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

/// The firmware and the settings of the machine.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) versions: BTreeMap<&'static str, String>,
    pub(super) attributes: Map<String, Value>,
    pub(super) updates: Dealt,
    pub(super) pending_values: Dealt,
    /// Pending values are shown as if they were in effect.
    pub(super) shows_pending: bool,
    /// Properties of the UpdateService besides its action.
    pub(super) service: Value,
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
            pending_values: Dealt::Well,
            shows_pending: false,
            service: json!({}),
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
                Reply::json(200, json!({"FirmwareVersion": self.versions["bmc"]}))
            }
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
            ("GET", ["UpdateService", "FirmwareInventory"]) => Reply::json(
                200,
                json!({"Members": [link(format!("{inventory}/NIC.1"))]}),
            ),
            ("GET", ["UpdateService", "FirmwareInventory", "NIC.1"]) => Reply::json(
                200,
                json!({"@odata.id": format!("{inventory}/NIC.1"), "Id": "NIC.1", "Version": self.versions["NIC.1"]}),
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
