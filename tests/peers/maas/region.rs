//! A stand-in for the region of MAAS: machines in memory, by the rules of the real one.
//!
//! Time is tokio's: operations take theirs, and end when the region is next asked for anything. It answers as 3.4 or as
//! 3.5, records what it is asked for, and fails as it is told; [`Wrong`] makes it break one rule on purpose, for the
//! tests to notice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answers;
pub(super) use super::harm::{Fault, Wrong};
use super::parts::Parts;
use super::rules::{self, name};
use super::serve::{Answer, Received, Reply, Server};

/// The key of the administrator.
pub(super) const KEY: (&str, &str, &str) = ("Consumer0", "Token0", "S3cret0fTheAdministrator");
/// The key of a plain user.
pub(super) const PLAIN_KEY: (&str, &str, &str) = ("Consumer1", "Token1", "S3cret0fTheUser");

/// Which MAAS it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.4: power runs after the request.
    V34,
    /// 3.5: power runs inside the request.
    V35,
}

/// How long operations take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) commission: Duration,
    pub(super) deploy: Duration,
    pub(super) release: Duration,
    pub(super) erase: Duration,
    /// Until a management controller that does not answer is noticed.
    pub(super) dark: Duration,
}

impl Times {
    /// All of them the same.
    pub(super) fn all(time: Duration) -> Self {
        Self {
            commission: time,
            deploy: time,
            release: time,
            erase: time,
            dark: time,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            commission: seconds(240),
            deploy: seconds(600),
            release: seconds(20),
            erase: seconds(900),
            dark: seconds(30),
        }
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Machine {
    pub(super) id: String,
    pub(super) hostname: String,
    pub(super) status: u8,
    /// Where it was before it was tested or rescued.
    pub(super) before: u8,
    pub(super) message: String,
    pub(super) power: &'static str,
    /// Its power as it is listed, if that is old; a query renews it.
    pub(super) listed: Option<&'static str>,
    pub(super) power_type: String,
    pub(super) owner: Option<String>,
    pub(super) owner_data: BTreeMap<String, String>,
    pub(super) locked: bool,
    pub(super) osystem: String,
    pub(super) series: String,
    pub(super) kernel: String,
    pub(super) tags: BTreeSet<String>,
    pub(super) macs: Vec<String>,
    pub(super) uuid: Option<String>,
    pub(super) layout: Option<String>,
    pub(super) parts: Parts,
    /// Whether it was ever commissioned.
    pub(super) is_known: bool,
    /// Whether its disks hold something.
    pub(super) is_dirty: bool,
    /// Whether its management controller does not answer.
    pub(super) is_dark: bool,
    /// What it does: when it ends, and where.
    pub(super) pending: Option<(Instant, u8)>,
}

impl Machine {
    pub(super) fn new(id: &str, hostname: &str, status: u8) -> Self {
        let is_deployed = matches!(status, 6 | 9 | 11);
        let is_used = !matches!(status, 0 | 3 | 4 | 7 | 8);
        Self {
            id: id.to_owned(),
            hostname: hostname.to_owned(),
            status,
            before: 4,
            message: name(status).to_owned(),
            power: if is_deployed && status != 11 {
                "on"
            } else {
                "off"
            },
            listed: None,
            power_type: "redfish".to_owned(),
            owner: is_used.then(|| "admin".to_owned()),
            owner_data: BTreeMap::new(),
            locked: false,
            osystem: if is_deployed { "ubuntu" } else { "" }.to_owned(),
            series: if is_deployed { "jammy" } else { "" }.to_owned(),
            kernel: String::new(),
            tags: BTreeSet::new(),
            macs: vec![format!("52:54:00:00:{}", mac_of(id))],
            uuid: None,
            layout: None,
            parts: Parts::new(id),
            is_known: !matches!(status, 0..=2),
            is_dirty: is_deployed,
            is_dark: false,
            pending: None,
        }
    }

    /// Gives its first cards other addresses.
    pub(super) fn set_macs(&mut self, macs: Vec<String>) {
        for (interface, mac) in self.parts.interfaces.iter_mut().zip(&macs) {
            interface.mac.clone_from(mac);
        }
        self.macs = macs;
    }

    fn move_to(&mut self, status: u8) {
        self.status = status;
        self.message = name(status).to_owned();
    }
}

/// The end of the MAC address of a machine with this id.
pub(super) fn mac_of(id: &str) -> String {
    let sum: u32 = id
        .bytes()
        .fold(7, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    format!("{:02x}:{:02x}", (sum >> 8) & 0xff, sum & 0xff)
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tag {
    pub(super) comment: String,
    pub(super) kernel_options: String,
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) number: usize,
    pub(super) machine: String,
    pub(super) level: u8,
    pub(super) kind: &'static str,
    pub(super) description: String,
}

pub(super) struct State {
    pub(super) version: Version,
    pub(super) times: Times,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) tags: BTreeMap<String, Tag>,
    pub(super) events: Vec<Event>,
    pub(super) options: BTreeMap<String, Value>,
    /// `METHOD path` or `operation id` of all that came in.
    pub(super) requests: Vec<String>,
    /// Requests that were refused, each with the status of its answer.
    pub(super) refused: Vec<String>,
    /// Operations that had an effect, each with its machine.
    pub(super) effects: Vec<String>,
    /// The forms of releases.
    pub(super) releases: Vec<Vec<(String, String)>>,
    /// Which request fails, counted from 0, and how.
    pub(super) fault: Option<(usize, Fault)>,
    pub(super) wrong: Option<Wrong>,
    /// Whether power actions of other users are under way.
    pub(super) is_busy: bool,
    pub(super) has_rack: bool,
    nonces: BTreeSet<String>,
    pub(super) asks: String,
    /// Machines as they were last listed.
    pub(super) texts: std::cell::RefCell<BTreeMap<String, (Machine, String)>>,
    next_id: usize,
}

/// Shared by its clones.
#[derive(Clone)]
pub(super) struct Region {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
}

impl Region {
    pub(super) fn new(version: Version) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(version))),
            died: Arc::default(),
        }
    }

    /// Forgets everything.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        *state = State::new(state.version);
    }

    pub(super) fn with(self, id: &str, hostname: &str, status: u8) -> Self {
        self.state()
            .machines
            .insert(id.to_owned(), Machine::new(id, hostname, status));
        self
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes a machine behind everybody's back.
    pub(super) fn change(&self, id: &str, change: impl FnOnce(&mut Machine)) {
        change(self.state().machines.get_mut(id).unwrap());
    }

    /// A machine as it is now.
    pub(super) fn machine(&self, id: &str) -> Machine {
        let mut state = self.state();
        state.settle();
        state.machines[id].clone()
    }

    /// Ready when the process that asks has died.
    pub(super) async fn death(&self) {
        self.died.notified().await;
    }

    pub(super) async fn serve(&self) -> Server {
        let region = self.clone();
        Server::start(move |received| region.reply(received)).await
    }

    pub(super) fn reply(&self, received: &Received) -> Reply {
        let mut state = self.state();
        state.settle();
        let count = state.requests.len();
        state.requests.push(answers::line(received));
        let fault = state
            .fault
            .filter(|(at, _)| *at == count)
            .map(|(_, fault)| fault);
        let Some(fault) = fault else {
            let answer = state.answer(received);
            if answer.status >= 400 {
                let line = format!("{} {}", answer.status, answers::line(received));
                state.refused.push(line);
            }
            return Reply::Answer(answer);
        };
        if fault.is_done() {
            state.answer(received);
        }
        match fault {
            Fault::Closed | Fault::Lost => Reply::Closed,
            Fault::DiesBefore | Fault::DiesAfter => {
                self.died.notify_one();
                Reply::Silent
            }
            Fault::Unavailable => Reply::Answer(Answer {
                headers: vec![("retry-after", "10".to_owned())],
                ..answers::text(503, "no rack controller is connected")
            }),
            Fault::Conflict => Reply::Answer(Answer {
                headers: vec![("retry-after", "5".to_owned())],
                ..answers::text(409, "<html><head><title>Conflict</title></head></html>")
            }),
            Fault::Odd(status) => {
                let page = "<html><head><title>Somewhere else</title></head></html>";
                Reply::Answer(answers::text(status, page))
            }
            Fault::Broken => Reply::Answer(answers::text(500, "it broke")),
            Fault::TimedOut => Reply::Answer(answers::text(504, "no answer in time")),
        }
    }
}

impl State {
    fn new(version: Version) -> Self {
        Self {
            version,
            times: Times::default(),
            machines: BTreeMap::new(),
            tags: BTreeMap::new(),
            events: Vec::new(),
            options: BTreeMap::from([
                ("enable_disk_erasing_on_release".to_owned(), json!(false)),
                ("disk_erase_with_secure_erase".to_owned(), json!(true)),
                ("disk_erase_with_quick_erase".to_owned(), json!(false)),
                ("node_timeout".to_owned(), json!(30)),
            ]),
            requests: Vec::new(),
            refused: Vec::new(),
            effects: Vec::new(),
            releases: Vec::new(),
            fault: None,
            wrong: None,
            is_busy: false,
            has_rack: true,
            nonces: BTreeSet::new(),
            asks: String::new(),
            texts: std::cell::RefCell::default(),
            next_id: 0,
        }
    }

    /// Ends what has had its time.
    pub(super) fn settle(&mut self) {
        let now = Instant::now();
        let due = |machine: &Machine| {
            machine
                .pending
                .filter(|(at, _)| *at <= now)
                .map(|(_, to)| to)
        };
        loop {
            let ready = self
                .machines
                .values()
                .find_map(|machine| Some((machine.id.clone(), due(machine)?)));
            let Some((id, to)) = ready else { return };
            self.arrive(&id, to);
        }
    }

    fn arrive(&mut self, id: &str, to: u8) {
        let (times, wrong) = (self.times, self.wrong);
        let machine = self.machines.get_mut(id).unwrap();
        let (at, _) = machine.pending.take().unwrap();
        let from = machine.status;
        // A test ends if the machine was, in rescue too.
        let is_known = rules::may_go(from, to) || (from, to) == (21, 16);
        assert!(is_known, "{from} does not go to {to}");
        match (from, to) {
            (14, 12) => {
                machine.is_dirty &= wrong == Some(Wrong::ErasesNothing);
                machine.move_to(12);
                machine.pending = Some((at + times.release, 4));
            }
            (12, _) => self.released(id),
            (1, 4) => {
                machine.is_known = wrong != Some(Wrong::FindsNoDisks);
                machine.parts.commissioned();
                machine.layout = Some("flat".to_owned());
                machine.owner = None;
                machine.power = "off";
                machine.move_to(4);
            }
            (9, 6) => {
                machine.power = if wrong == Some(Wrong::DeploysOff) {
                    "off"
                } else {
                    "on"
                };
                machine.move_to(6);
            }
            (21, to) => {
                machine.owner = machine.owner.take().filter(|_| matches!(to, 6 | 10));
                machine.move_to(to);
            }
            _ => machine.move_to(to),
        }
        if matches!(to, 2 | 11 | 13 | 15) {
            self.machines.get_mut(id).unwrap().message =
                "the management controller did not answer".to_owned();
            self.event(id, 40, "Marking node failed", "");
        }
        let status = name(self.machines[id].status);
        self.event(id, 20, status, "");
    }

    /// A machine that was released.
    pub(super) fn released(&mut self, id: &str) {
        let machine = self.machines.get_mut(id).unwrap();
        machine.owner = None;
        machine.owner_data.clear();
        machine.osystem.clear();
        machine.series.clear();
        machine.power = "off";
        machine.pending = None;
        machine.move_to(if machine.is_known { 4 } else { 0 });
        machine.message = "Released".to_owned();
    }

    pub(super) fn event(&mut self, id: &str, level: u8, kind: &'static str, description: &str) {
        self.events.push(Event {
            number: self.events.len() + 1,
            machine: id.to_owned(),
            level,
            kind,
            description: description.to_owned(),
        });
    }

    /// Who asks, by the key of the request.
    pub(super) fn authenticate(&mut self, received: &Received) -> Result<(), Answer> {
        let Some(header) = received.headers.get("authorization") else {
            return Err(answers::text(401, "Forbidden"));
        };
        let field = |name: &str| {
            let (_, rest) = header.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let read = |name: &str| field(name).unwrap_or_default();
        let keys = [("admin", KEY), ("user", PLAIN_KEY)];
        let known = keys
            .into_iter()
            .find(|(_, key)| key.0 == read("oauth_consumer_key") && key.1 == read("oauth_token"));
        let Some((user, key)) = known else {
            return Err(answers::text(401, "Authorization Error: Invalid API key."));
        };
        if read("oauth_signature") != format!("%26{}", key.2) {
            let text = format!(
                "Authorization Error: 'Invalid signature. Expected: &{}'",
                key.2
            );
            return Err(answers::text(401, &text));
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let time: u64 = read("oauth_timestamp").parse().unwrap_or(0);
        if time.abs_diff(now) > 300 {
            return Err(answers::text(
                401,
                "Authorization Error: 'Expired timestamp: too far'",
            ));
        }
        let is_new = self.nonces.insert(read("oauth_nonce"));
        if !is_new || self.wrong == Some(Wrong::RefusesNonces) {
            return Err(answers::text(
                401,
                "Authorization Error: 'Nonce already used: x'",
            ));
        }
        user.clone_into(&mut self.asks);
        Ok(())
    }

    /// Whether an operation on a machine is refused, and how.
    pub(super) fn refusal(&self, operation: &str, id: &str) -> Option<Answer> {
        let machine = &self.machines[id];
        let is_admin = self.asks == "admin";
        if !is_admin && rules::OF_ADMINISTRATORS.contains(&operation) {
            return Some(answers::text(403, ""));
        }
        let rule = rules::of(operation)?;
        let is_foreign = machine
            .owner
            .as_deref()
            .is_some_and(|owner| owner != self.asks);
        let is_reading = matches!(
            operation,
            "read" | "query_power_state" | "get_curtin_config"
        );
        if (machine.locked && !rule.despite_lock) || (!is_admin && is_foreign && !is_reading) {
            return Some(answers::text(403, ""));
        }
        if machine.locked && operation == "lock" {
            return Some(answers::text(409, "it is locked already"));
        }
        let is_taken = rule.taken.has(
            machine.status,
            machine.owner.as_deref(),
            &self.asks,
            machine.locked,
        );
        let text = match rule.refusal {
            403 => String::new(),
            400 => json!({"__all__": ["not in this status"]}).to_string(),
            _ => format!("not while it is {}", name(machine.status)),
        };
        (!is_taken).then(|| answers::text(rule.refusal, &text))
    }

    /// Switches a machine for an operation: an error of 3.5, or whether it works.
    fn power(&self, id: &str) -> Result<bool, Answer> {
        if self.is_busy {
            return Err(answers::text(503, "another action is in progress"));
        }
        if !self.has_rack {
            return Err(Answer {
                headers: vec![("retry-after", "10".to_owned())],
                ..answers::text(503, "no rack controller")
            });
        }
        let is_dark = self.machines[id].is_dark;
        match (is_dark, self.version) {
            (true, Version::V35) => Err(answers::text(500, "the power action failed")),
            _ => Ok(!is_dark),
        }
    }

    /// Begins what ends after a time.
    fn begin(
        &mut self,
        id: &str,
        to: u8,
        end: u8,
        failed: u8,
        time: Duration,
    ) -> Result<(), Answer> {
        let works = self.power(id)?;
        let wrong = self.wrong;
        let dark = self.times.dark;
        let machine = self.machines.get_mut(id).unwrap();
        machine.before = machine.status;
        machine.move_to(to);
        let fails = matches!(
            (wrong, to),
            (Some(Wrong::CommissionFails), 1) | (Some(Wrong::DeployFails), 9)
        );
        let now = Instant::now();
        machine.pending = Some(match works && !fails {
            true => (now + time, end),
            false => (now + dark, failed),
        });
        if works {
            machine.power = "on";
        }
        self.event(id, 20, name(to), "");
        Ok(())
    }

    /// Carries an accepted operation out; what it answers shows the machine before its after-effects.
    pub(super) fn operate(
        &mut self,
        operation: &str,
        id: &str,
        received: &Received,
    ) -> Result<Answer, Answer> {
        let times = self.times;
        let comment = received.field("comment").unwrap_or_default().to_owned();
        let said = match comment.as_str() {
            "" => format!("({})", self.asks),
            comment => format!("({}) - {comment}", self.asks),
        };
        let asks = self.asks.clone();
        match operation {
            // The real one finds no image without a rack.
            "commission" if !self.has_rack => {
                return Err(answers::text(400, "no image is available"));
            }
            "commission" => {
                self.begin(id, 1, 4, 2, times.commission)?;
                self.machines.get_mut(id).unwrap().owner = Some(asks);
                self.event(id, 10, "User starting node commissioning", &said);
            }
            "test" => {
                let back = match self.machines[id].status {
                    2 | 22 => 4,
                    status => status,
                };
                self.begin(id, 21, back, 22, times.commission)?;
                self.machines.get_mut(id).unwrap().owner.get_or_insert(asks);
                self.event(id, 10, "User starting node testing", &said);
            }
            "deploy" => self.deploy(id, received, &said)?,
            "release" => return self.release(id, received, &said),
            "abort" => return Ok(self.abort(id, &said)),
            "lock" | "unlock" => {
                let wrong = self.wrong;
                let machine = self.machines.get_mut(id).unwrap();
                machine.locked = match operation {
                    "lock" => wrong != Some(Wrong::LocksNothing),
                    _ => wrong == Some(Wrong::UnlocksNothing),
                };
            }
            "mark_broken" => {
                self.released(id);
                self.machines.get_mut(id).unwrap().move_to(8);
                self.event(id, 10, "User marking node broken", &said);
            }
            "mark_fixed" => self.machines.get_mut(id).unwrap().move_to(4),
            "override_failed_testing" => {
                let machine = self.machines.get_mut(id).unwrap();
                machine.owner = machine.owner.take().filter(|_| !machine.osystem.is_empty());
                machine.move_to(if machine.osystem.is_empty() { 4 } else { 6 });
            }
            "rescue_mode" => {
                self.begin(id, 17, 16, 18, times.release)?;
                self.machines.get_mut(id).unwrap().owner.get_or_insert(asks);
            }
            "exit_rescue_mode" => {
                let back = self.machines[id].before;
                self.begin(id, 19, back, 20, times.release)?;
            }
            "power_on" | "power_off" => {
                return self.switch(id, operation == "power_on", received, &said);
            }
            "set_storage_layout" => return Ok(self.lay_out(id, received)),
            "set_owner_data" => self.set_owner_data(id, received),
            other => {
                return Ok(answers::text(
                    400,
                    &format!("Unrecognised signature: op={other}"),
                ));
            }
        }
        self.effects.push(format!("{operation} {id}"));
        Ok(answers::machine(200, &self.machines[id]))
    }

    fn deploy(&mut self, id: &str, received: &Received, said: &str) -> Result<(), Answer> {
        let series = received
            .field("distro_series")
            .unwrap_or("jammy")
            .to_owned();
        let series = match self.wrong == Some(Wrong::IgnoresSeries) {
            true => "focal".to_owned(),
            false => series,
        };
        let short = series.rsplit('/').next().unwrap().to_owned();
        if !answers::IMAGES.contains(&short.as_str()) {
            let body = json!({"distro_series": ["not a valid series"]});
            return Err(answers::text(400, &body.to_string()));
        }
        if self.wrong == Some(Wrong::DeploysNothing) {
            return Ok(());
        }
        let asks = self.asks.clone();
        self.machines.get_mut(id).unwrap().owner.get_or_insert(asks);
        let time = self.times.deploy;
        if let Err(error) = self.begin(id, 9, 6, 11, time) {
            // It is allocated all the same.
            self.machines.get_mut(id).unwrap().move_to(10);
            if self.version == Version::V34 {
                self.event(id, 10, "User starting deployment", said);
                self.event(
                    id,
                    30,
                    "Failed to query node's BMC",
                    "reverting to ALLOCATED",
                );
            }
            return Err(error);
        }
        let machine = self.machines.get_mut(id).unwrap();
        machine.osystem = "ubuntu".to_owned();
        machine.series = short;
        machine.kernel = received.field("hwe_kernel").unwrap_or_default().to_owned();
        machine.is_dirty = true;
        self.event(id, 10, "User starting deployment", said);
        Ok(())
    }

    fn release(&mut self, id: &str, received: &Received, said: &str) -> Result<Answer, Answer> {
        self.releases.push(received.form.clone());
        let status = self.machines[id].status;
        if matches!(status, 4 | 12) || self.wrong == Some(Wrong::ReleasesNothing) {
            return Ok(answers::machine(200, &self.machines[id]));
        }
        let always = self.options["enable_disk_erasing_on_release"] == json!(true);
        let erases = always
            || received
                .field("erase")
                .is_some_and(|text| matches!(text, "true" | "1"));
        let times = self.times;
        if erases {
            let owner = self.machines[id].owner.clone();
            self.begin(id, 14, 12, 15, times.erase)?;
            self.machines.get_mut(id).unwrap().owner = owner;
            self.event(id, 10, "User erasing disk", said);
            self.effects.push(format!("erase {id}"));
        } else {
            let is_off = self.machines[id].power == "off";
            match is_off {
                true => self.released(id),
                false => self.begin(id, 12, 4, 13, times.release)?,
            }
            self.event(id, 10, "User releasing node", said);
            self.effects.push(format!("release {id}"));
        }
        if let (Some(script), Version::V35) = (received.field("scripts"), self.version) {
            self.effects.push(format!("{script} {id}"));
        }
        Ok(answers::machine(200, &self.machines[id]))
    }

    /// Breaks off what runs: the answer shows the machine as it was.
    fn abort(&mut self, id: &str, said: &str) -> Answer {
        let machine = self.machines.get_mut(id).unwrap();
        let answer = answers::machine(200, machine);
        machine.pending = None;
        let to = match machine.status {
            1 => 0,
            9 => 10,
            14 => 15,
            _ => machine.before,
        };
        if to == 0 || (machine.status == 21 && !matches!(to, 6 | 10)) {
            machine.owner = None;
        }
        machine.move_to(to);
        self.event(id, 10, "User aborting deployment", said);
        self.effects.push(format!("abort {id}"));
        answer
    }

    fn switch(
        &mut self,
        id: &str,
        on: bool,
        received: &Received,
        said: &str,
    ) -> Result<Answer, Answer> {
        if on && self.machines[id].status == 10 {
            self.deploy(id, received, said)?;
            self.effects.push(format!("deploy {id}"));
            return Ok(answers::machine(200, &self.machines[id]));
        }
        let works = self.power(id)?;
        let before = answers::machine(200, &self.machines[id]);
        if works && self.wrong != Some(Wrong::SwitchesNothing) {
            self.machines.get_mut(id).unwrap().power = if on { "on" } else { "off" };
        }
        self.effects
            .push(format!("power_{} {id}", if on { "on" } else { "off" }));
        Ok(before)
    }

    fn lay_out(&mut self, id: &str, received: &Received) -> Answer {
        let Some(layout) = received.field("storage_layout") else {
            return answers::text(
                400,
                &json!({"storage_layout": ["This field is required."]}).to_string(),
            );
        };
        let forgets = self.wrong == Some(Wrong::ForgetsLayout);
        let machine = self.machines.get_mut(id).unwrap();
        let before = machine.parts.clone();
        if let Err(answer) = machine.parts.lay_out(layout, received) {
            machine.parts = before;
            return answer;
        }
        match forgets {
            true => machine.parts = before,
            false => machine.layout = Some(layout.to_owned()),
        }
        self.effects.push(format!("set_storage_layout {id}"));
        answers::machine(200, &self.machines[id])
    }

    fn set_owner_data(&mut self, id: &str, received: &Received) {
        if self.wrong == Some(Wrong::ForgetsOwnerData) {
            return;
        }
        let data = &mut self.machines.get_mut(id).unwrap().owner_data;
        for (key, value) in &received.form {
            match value.as_str() {
                "" => data.remove(key),
                value => data.insert(key.clone(), value.to_owned()),
            };
        }
    }

    /// An id that no machine has.
    pub(super) fn new_id(&mut self) -> String {
        self.next_id += 1;
        format!("new{:03}", self.next_id)
    }
}
