//! Exchanges of Shipyard's command line: each request as it sends it, and the fields of the answer that it reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::{Answer, Service, deployed};
use crate::fixture::wait_until;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    command: String,
    method: String,
    path: String,
    content_type: Option<String>,
    body: Option<String>,
    code: u16,
    answer_type: Option<String>,
    #[serde(default)]
    has: BTreeMap<String, Value>,
    text: Option<String>,
}

/// The demand on a field.
enum Wanted<'a> {
    Any,
    Kept(&'a str),
    Awaited(&'a Value),
    Same(&'a Value),
}

fn wanted(value: &Value) -> Wanted<'_> {
    match value.as_object() {
        Some(map) if map.contains_key("any") => Wanted::Any,
        Some(map) if map.contains_key("keep") => Wanted::Kept(map["keep"].as_str().unwrap()),
        Some(map) if map.contains_key("wait") => Wanted::Awaited(&map["wait"]),
        _ => Wanted::Same(value),
    }
}

const MARKER: &str = "6f0c7b1e-3a54-4f3a-9a1e-6d8a53c8b1aa";

fn send(service: &Service, exchange: &Exchange, kept: &BTreeMap<String, String>) -> Answer {
    let path = kept
        .iter()
        .fold(exchange.path.clone(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), value)
        });
    let mut headers = vec![
        ("X-Context-Marker", MARKER),
        ("User-Agent", "python-requests/2.32"),
        ("Accept", "*/*"),
    ];
    headers.extend(
        exchange
            .content_type
            .as_deref()
            .map(|kind| ("Content-Type", kind)),
    );
    let body = exchange.body.as_deref().unwrap_or_default();
    service.request(&exchange.method, &path, &headers, body)
}

#[test]
fn the_exchanges_of_the_command_line_are_as_it_knows_them() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let text = std::fs::read_to_string(format!("{folder}/fixtures/shipyard/exchanges.json"));
    let exchanges: Vec<Exchange> = serde_json::from_str(&text.unwrap()).unwrap();
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let mut kept = BTreeMap::new();
    for exchange in &exchanges {
        let command = &exchange.command;
        let awaited = exchange
            .has
            .iter()
            .find_map(|(field, value)| match wanted(value) {
                Wanted::Awaited(value) => Some((field, value)),
                _ => None,
            });
        if let Some((field, value)) = awaited {
            wait_until(command, || {
                send(&service, exchange, &kept).json().pointer(field) == Some(value)
            });
        }
        let answer = send(&service, exchange, &kept);
        assert_eq!(answer.code, exchange.code, "{command}: {answer:?}");
        let kind = answer.header("content-type").map(str::to_owned);
        assert_eq!(kind, exchange.answer_type, "{command}: {answer:?}");
        let id = answer.header("x-shipyard-req").unwrap_or_default();
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{command}: {answer:?}");
        if let Some(text) = &exchange.text {
            assert!(answer.body.contains(text), "{command}: {answer:?}");
        }
        for (field, value) in &exchange.has {
            let body = answer.json();
            let found = body.pointer(field);
            match wanted(value) {
                Wanted::Any => assert!(
                    found.is_some_and(|found| !found.is_null()),
                    "{command} {field}: {answer:?}"
                ),
                Wanted::Kept(name) => {
                    let found = found
                        .and_then(Value::as_str)
                        .unwrap_or_else(|| panic!("{command} {field}: {answer:?}"));
                    kept.insert(name.to_owned(), found.to_owned());
                }
                Wanted::Awaited(value) => assert_eq!(found, Some(value), "{command} {field}"),
                Wanted::Same(Value::Null) => {
                    assert_eq!(found, None, "{command} {field}: {answer:?}")
                }
                Wanted::Same(value) => {
                    assert_eq!(found, Some(value), "{command} {field}: {answer:?}")
                }
            }
        }
    }
}
