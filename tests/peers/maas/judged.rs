//! The stand-in beside what the real region answered, if that data is there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::region::{KEY, Machine, PLAIN_KEY, Region, Version};
use super::rules::{self, STATUSES};
use super::serve::{Received, Reply, pairs};
use crate::harness::shared;

/// The rows of a table with a header.
fn rows(file: &str) -> Option<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(shared(&format!("data/maas/{file}"))?).unwrap();
    // Texts in quotes stand last, and are not compared.
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    Some(text.lines().skip(1).map(row).collect())
}

fn number(name: &str) -> u8 {
    STATUSES.iter().find(|(_, known)| *known == name).unwrap().0
}

/// A request for an operation, as the table names it.
fn request(operation: &str) -> Received {
    let path = |rest: &str| format!("/MAAS/api/2.0/{rest}");
    let (method, rest, query, form) = match operation {
        "allocate" => ("POST", "machines/", "allocate", "system_id=abc001"),
        "release_many" => ("POST", "machines/", "release", "machines=abc001"),
        "release_erase" => ("POST", "machines/abc001/", "release", "erase=true"),
        "set_storage_layout" => (
            "POST",
            "machines/abc001/",
            "set_storage_layout",
            "storage_layout=flat",
        ),
        "set_owner_data" => ("POST", "machines/abc001/", "set_owner_data", "key=value"),
        "accept" => ("POST", "machines/abc001/", "accept", ""),
        "read" => ("GET", "machines/abc001/", "", ""),
        "update" => ("PUT", "machines/abc001/", "", "description=x"),
        "delete" => ("DELETE", "machines/abc001/", "", ""),
        "query_power_state" | "get_curtin_config" => ("GET", "machines/abc001/", operation, ""),
        other => ("POST", "machines/abc001/", other, ""),
    };
    Received {
        method: method.to_owned(),
        path: path(rest),
        query: match query {
            "" => Vec::new(),
            query => pairs(&format!("op={query}")),
        },
        form: pairs(form),
        ..Received::default()
    }
}

thread_local! {
    static SIGNED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The same with the key of a user.
fn signed(mut received: Received, key: (&str, &str, &str)) -> Received {
    let nonce = SIGNED.replace(SIGNED.get() + 1);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let header = format!(
        "OAuth oauth_consumer_key=\"{}\", oauth_token=\"{}\", oauth_signature=\"%26{}\", oauth_timestamp=\"{now}\", \
         oauth_nonce=\"{nonce}\"",
        key.0, key.1, key.2
    );
    received.headers.insert("authorization".to_owned(), header);
    received
}

fn status_of(region: &Region, received: Received) -> u16 {
    match region.reply(&signed(received, KEY)) {
        Reply::Answer(answer) => answer.status,
        Reply::Closed | Reply::Silent => panic!("no answer"),
    }
}

/// A machine in a status, as those of the table: with an owner wherever MAAS sets one.
fn machine_in(status: u8) -> Machine {
    Machine::new("abc001", "n1", status)
}

#[tokio::test(start_paused = true)]
async fn each_status_answers_each_operation_as_the_real_one() {
    let Some(rows) = rows("transitions.csv") else {
        return;
    };
    let mut wrong = Vec::new();
    for row in &rows {
        let [status, operation, expected] = &row[..] else {
            panic!("{row:?}")
        };
        let region = Region::new(Version::V34);
        region
            .state()
            .machines
            .insert("abc001".to_owned(), machine_in(number(status)));
        let answered = status_of(&region, request(operation));
        if answered.to_string() != *expected {
            wrong.push(format!(
                "{status} {operation}: {answered}, expected {expected}"
            ));
        }
    }
    assert!(rows.len() > 400 && wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn each_operation_leads_where_the_real_one_does() {
    let Some(rows) = rows("effects.csv") else {
        return;
    };
    let mut wrong = Vec::new();
    for row in &rows {
        let [status, operation, after, owner] = &row[..4] else {
            panic!("{row:?}")
        };
        let region = Region::new(Version::V34);
        region
            .state()
            .machines
            .insert("abc001".to_owned(), machine_in(number(status)));
        status_of(&region, request(operation));
        let state = region.state();
        let found = state.machines.get("abc001");
        let is = found.map_or(("(gone)", ""), |machine| {
            (
                rules::name(machine.status),
                machine.owner.as_deref().unwrap_or_default(),
            )
        });
        if is != (after, owner) {
            wrong.push(format!(
                "{status} {operation}: {is:?}, expected {:?}",
                (after, owner)
            ));
        }
    }
    assert!(rows.len() > 400 && wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_locked_machine_answers_as_the_real_one() {
    let Some(rows) = rows("locked.csv") else {
        return;
    };
    let mut wrong = Vec::new();
    for row in &rows {
        let [status, operation, expected] = &row[..] else {
            panic!("{row:?}")
        };
        let region = Region::new(Version::V34);
        let mut machine = machine_in(number(status));
        machine.locked = true;
        region.state().machines.insert("abc001".to_owned(), machine);
        let answered = status_of(&region, request(operation));
        if answered.to_string() != *expected {
            wrong.push(format!(
                "{status} {operation}: {answered}, expected {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Recorded requests that the stand-in does not answer, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "create with redfish, address as a URL",
        "a defect of the real one: its form breaks",
    ),
    ("create: unknown power type", "it takes any power type"),
    (
        "create: ipmi without address",
        "it takes any power parameters",
    ),
    ("create: bad MAC", "it takes any MAC address"),
    ("create: unknown architecture", "it takes any architecture"),
    ("update: bad value", "it keeps nothing of an update"),
    (
        "power address of another machine, same parameters",
        "a conflict in the database of the real one",
    ),
    ("commission: unknown script", "it has no scripts"),
    ("deploy: kernel too old", "it has no kernels"),
    (
        "allocate, none match by hardware",
        "trueup allocates by the id alone",
    ),
    ("allocate, unknown tag", "trueup allocates by the id alone"),
    (
        "allocate, unknown constraint",
        "trueup allocates by the id alone",
    ),
    ("script results", "it has no scripts"),
    (
        "failed results of current commissioning",
        "it has no scripts",
    ),
];

fn is_left_out(note: &str) -> bool {
    LEFT_OUT.iter().any(|(known, _)| *known == note)
}

/// Fields of a recorded answer that another does not have, or has of another type.
fn unlike(at: &str, recorded: &Value, answered: &Value, wrong: &mut Vec<String>) {
    match (recorded, answered) {
        // Of what can be missing neither tells the type.
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(recorded), Value::Object(answered)) => {
            for (name, value) in recorded {
                match answered.get(name) {
                    Some(own) => unlike(&format!("{at}.{name}"), value, own, wrong),
                    // Keys of people and of machines, not of the answer.
                    None if at.ends_with("owner_data") || at.ends_with("annotations") => {}
                    None => wrong.push(format!("{at}.{name} is missing")),
                }
            }
        }
        (Value::Array(recorded), Value::Array(answered)) => {
            if let (Some(recorded), Some(answered)) = (recorded.first(), answered.first()) {
                unlike(&format!("{at}[]"), recorded, answered, wrong);
            }
        }
        (recorded, answered) => {
            if std::mem::discriminant(recorded) != std::mem::discriminant(answered) {
                wrong.push(format!("{at} is {answered}, and was {recorded}"));
            }
        }
    }
}

/// The key that a recorded request was signed with; `None`: it was not signed.
fn key_of<'a>(asked: &Value, note: &str) -> Option<(&'a str, &'a str, &'a str)> {
    match asked["as"].as_str().unwrap() {
        "admin" => Some(KEY),
        "user" => Some(PLAIN_KEY),
        "none" => None,
        _ => Some(match note {
            "unknown consumer key" => ("Nobody", KEY.1, KEY.2),
            "wrong token secret" => (KEY.0, KEY.1, "wrong"),
            "unknown token key" => (KEY.0, "Nothing", KEY.2),
            _ => KEY,
        }),
    }
}

/// Signs a recorded request as it was signed, by its note.
fn signed_as(received: Received, key: (&str, &str, &str), note: &str) -> Received {
    let mut received = signed(received, key);
    let header = received.headers.get_mut("authorization").unwrap();
    if note.contains("nonce") {
        let (start, _) = header.split_once("oauth_nonce=").unwrap();
        *header = format!("{start}oauth_nonce=\"same-nonce-twice\"");
    }
    if note.contains("timestamp an hour old") {
        *header = header.replace("oauth_timestamp=\"", "oauth_timestamp=\"1");
    }
    received
}

#[test]
fn statuses_go_where_those_of_the_real_one_go() {
    let Some(rows) = rows("node_transitions.csv") else {
        return;
    };
    let known: BTreeSet<(u8, u8)> = rows
        .iter()
        .filter(|row| !row[0].is_empty() && row[0] != "None")
        .map(|row| (number(&row[0]), number(&row[1])))
        .collect();
    let own = rules::TRANSITIONS.iter();
    let own = own.flat_map(|(from, all)| all.iter().map(move |to| (*from, *to)));
    assert_eq!(own.collect::<BTreeSet<_>>(), known);
}

/// Brings the stand-in to where the real region was when it answered: recorded requests stand between events that
/// no request shows.
fn align(region: &Region, exchange: &Value) {
    let body = &exchange["response"]["body"];
    let (Some(id), Some(status)) = (body["system_id"].as_str(), body["status"].as_u64()) else {
        return;
    };
    let mut state = region.state();
    let status = u8::try_from(status).unwrap();
    let hostname = body["hostname"].as_str().unwrap_or(id).to_owned();
    // One that the stand-in created has an id of its own.
    let same = |own: &&Machine| own.id == id || own.hostname == hostname;
    let macs = state
        .machines
        .values()
        .find(same)
        .map(|own| own.macs.clone());
    state
        .machines
        .retain(|own, machine| own == id || machine.hostname != hostname);
    let machine = state
        .machines
        .entry(id.to_owned())
        .or_insert_with(|| Machine::new(id, &hostname, status));
    *machine = Machine {
        tags: machine.tags.clone(),
        owner: body["owner"].as_str().map(str::to_owned),
        locked: body["locked"] == Value::Bool(true),
        ..Machine::new(id, &hostname, status)
    };
    if let Some(macs) = macs {
        machine.set_macs(macs);
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_exchanges_are_answered_with_the_same_status_and_fields() {
    let Some(file) = shared("data/maas/exchanges.jsonl") else {
        return;
    };
    let region = Region::new(Version::V34);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    let mut notes = BTreeSet::new();
    let text = std::fs::read_to_string(file).unwrap();
    let all: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, exchange) in all.iter().enumerate() {
        let note = exchange["note"].as_str().unwrap();
        let asked = &exchange["request"];
        let path = asked["path"].as_str().unwrap();
        let key = key_of(asked, note);
        surround(&region, note);
        let is_read =
            asked["method"] == "GET" && exchange["response"]["body"]["system_id"].is_string();
        if is_read {
            align(&region, exchange);
        }
        if !is_left_out(note) {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let received = Received {
                method: asked["method"].as_str().unwrap().to_owned(),
                path: path.to_owned(),
                query: pairs(query),
                form: form(&asked["form"]),
                ..Received::default()
            };
            let received = match key {
                Some(key) => signed_as(received, key, note),
                None => received,
            };
            let expected = exchange["response"]["status"].as_u64().unwrap();
            let Reply::Answer(answer) = region.reply(&received) else {
                panic!("no answer")
            };
            compared += 1;
            notes.insert(note.to_owned());
            if u64::from(answer.status) != expected {
                wrong.push(format!(
                    "{number} {note}: {}, expected {expected}",
                    answer.status
                ));
            } else if expected == 200 {
                let body = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
                let at = format!("{number} {note}: ");
                unlike(&at, &exchange["response"]["body"], &body, &mut wrong);
            }
        }
        // An abort answers with the state before it.
        if !path.ends_with("?op=abort") {
            align(&region, exchange);
        }
        ended(&region, &all[number + 1..]);
    }
    println!("{compared} of {} exchanges compared", all.len());
    assert_eq!(compared + LEFT_OUT.len(), all.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Statuses of machines that no request shows.
const BEFORE: &[(&str, &str, u8)] = &[
    ("allocate, dry run", "dpttns", 4),
    ("allocate by name", "p6w76r", 4),
    ("rescue mode", "p6w76r", 6),
    ("exit rescue mode again", "p6w76r", 6),
    ("deploy, another power action in progress", "p6w76r", 4),
    ("mark broken, no owner (Ready)", "p6w76r", 4),
];

/// Brings about what stood around an exchange.
fn surround(region: &Region, note: &str) {
    {
        let mut state = region.state();
        state.is_busy = note.contains("another power action");
        state.has_rack = !note.contains("no rack connected");
    }
    if let Some((_, id, status)) = BEFORE.iter().find(|(known, ..)| *known == note) {
        let hostname = region.machine(id).hostname;
        region.change(id, |machine| {
            *machine = Machine::new(id, &hostname, *status)
        });
    }
}

/// The fields of a recorded form.
fn form(written: &Value) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for (name, value) in written.as_object().into_iter().flatten() {
        match value {
            Value::Array(values) => {
                let values = values
                    .iter()
                    .map(|value| value.as_str().unwrap().to_owned());
                fields.extend(values.map(|value| (name.clone(), value)));
            }
            Value::String(text) => fields.push((name.clone(), text.clone())),
            other => fields.push((name.clone(), other.to_string())),
        }
    }
    fields
}

/// Lets what runs end, if the next exchange about the machine shows that it has.
fn ended(region: &Region, next: &[Value]) {
    let ids: Vec<String> = region.state().machines.keys().cloned().collect();
    for id in ids {
        let about = |exchange: &&Value| exchange["request"]["path"].as_str().unwrap().contains(&id);
        let Some(exchange) = next.iter().find(about) else {
            continue;
        };
        let note = exchange["note"].as_str().unwrap();
        let mut hint = STATUSES.iter().filter(|(_, name)| {
            let asks = note.to_ascii_lowercase();
            asks.contains(&format!("from {}", name.to_ascii_lowercase()))
                || asks.contains(&format!("when {}", name.to_ascii_lowercase()))
        });
        if let Some((status, _)) = hint.next_back() {
            region.change(&id, |machine| {
                let owner = machine
                    .owner
                    .clone()
                    .or(Some("admin".to_owned()))
                    .filter(|_| !matches!(status, 0 | 4));
                let tags = machine.tags.clone();
                *machine = Machine {
                    owner,
                    tags,
                    ..Machine::new(&id, &machine.hostname.clone(), *status)
                };
            });
        }
    }
}
