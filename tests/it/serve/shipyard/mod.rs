//! Shipyard's API, as its client and its command line use it.

mod actions;
mod clones;
mod documents;
mod exchanges;

use serde_json::Value;

use super::{Answer, Service};
use crate::fixture::wait_until;

/// The base of its paths.
const BASE: &str = "/api/v1.0";

/// A document that no node is made of.
pub(super) fn document(name: &str) -> String {
    format!(
        "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: {name}\n  \
         layeringDefinition: {{abstract: false, layer: site}}\n  storagePolicy: cleartext\ndata: hello\n"
    )
}

/// A document that every node is made of.
fn boot_action(name: &str) -> String {
    format!(
        "---\nschema: drydock/BootAction/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: {name}\n  \
         layeringDefinition: {{abstract: false, layer: site}}\n  storagePolicy: cleartext\ndata:\n  signaling: false\n  \
         assets:\n  - {{path: /etc/{name}, type: file, permissions: '644', data_pipeline: [utf8_decode], data: hello}}\n"
    )
}

impl Service {
    /// Gets something of Shipyard's.
    fn shipyard(&self, path: &str) -> Answer {
        self.get(&format!("{BASE}{path}"))
    }

    /// Puts documents into the buffer.
    pub(super) fn put(&self, collection: &str, mode: &str, text: &str) -> Answer {
        let path = format!("{BASE}/configdocs/{collection}?buffermode={mode}&verbosity=1");
        self.request(
            "POST",
            &path,
            &[("Content-Type", "application/x-yaml")],
            text,
        )
    }

    /// Commits the buffer.
    pub(super) fn commit(&self, parameters: &str) -> Answer {
        self.post(&format!("{BASE}/commitconfigdocs?{parameters}"))
    }

    /// Asks for an action.
    fn ask_for(&self, name: &str, parameters: &Value) -> Answer {
        self.ask_with(
            name,
            parameters,
            "allow-intermediate-commits=False&verbosity=1",
        )
    }

    fn ask_with(&self, name: &str, parameters: &Value, query: &str) -> Answer {
        let body = serde_json::json!({"name": name, "parameters": parameters}).to_string();
        let headers = [("Content-Type", "application/json")];
        self.request("POST", &format!("{BASE}/actions?{query}"), &headers, &body)
    }

    /// Begins an action; its id.
    #[track_caller]
    pub(super) fn begin(&self, name: &str, parameters: &Value) -> String {
        let answer = self.ask_for(name, parameters);
        assert_eq!(answer.code, 201, "{answer:?}");
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let location = format!("{BASE}/actions/{id}").to_lowercase();
        assert_eq!(answer.header("location"), Some(location.as_str()));
        id
    }

    pub(super) fn described(&self, id: &str) -> Value {
        self.shipyard(&format!("/actions/{id}")).json()
    }

    pub(super) fn control(&self, id: &str, verb: &str) -> Answer {
        self.post(&format!("{BASE}/actions/{id}/control/{verb}"))
    }

    /// Waits until an action is at a point of its life.
    #[track_caller]
    pub(super) fn wait_for(&self, id: &str, lifecycle: &str) -> Value {
        // An action in real time takes half a minute.
        for _ in 0..2_400 {
            let found = self.described(id);
            if found["action_lifecycle"] == lifecycle {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!(
            "the action does not become {lifecycle}: {}",
            self.described(id)
        );
    }

    /// Waits until a step of an action is in a state.
    #[track_caller]
    pub(super) fn wait_for_step(&self, id: &str, step: &str, state: &str) {
        wait_until(&format!("{step} does not become {state}"), || {
            state_of(&self.described(id), step) == Some(state.to_owned())
        });
    }
}

/// The state of a step of an action.
fn state_of(action: &Value, step: &str) -> Option<String> {
    let steps = action["steps"].as_array()?;
    let step = steps.iter().find(|found| found["id"] == step)?;
    step["state"].as_str().map(str::to_owned)
}

/// The title and the code of an error.
#[track_caller]
fn error(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let text = body["code"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer:?}"));
    assert!(text.starts_with(&answer.code.to_string()), "{answer:?}");
    assert_eq!(body["status"], "Failure", "{answer:?}");
    (answer.code, body["message"].as_str().unwrap().to_owned())
}
