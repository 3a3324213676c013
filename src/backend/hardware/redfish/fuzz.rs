//! A Redfish service that answers anything, for the fuzzers.

use http::StatusCode;
use serde_json::Value;

use super::drive::Drive;
use super::inventory::disk;
use super::powered::power_of;
use super::resource::{Redfish, Resource};
use super::task;
use crate::backend::http::{Answer, Dialect};

/// Takes the first byte for the kind of status and the rest for the body, and reads all that can be read.
pub fn answer(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let status = [StatusCode::OK, StatusCode::ACCEPTED, StatusCode::CONFLICT];
    let status = status[usize::from(*kind) % status.len()];
    let answer = Answer::invented(status, body);
    let words = Redfish.words(&answer);
    assert!(words.is_none_or(|words| !words.trim().is_empty()));
    task::accepted(&answer);
    let Ok(resource) = Resource::read("/redfish/v1/Systems/1", &answer) else {
        return;
    };
    task::task_state(status, Some(&resource));
    power_of(&resource);
    assert!(resource.text("/Id").is_none_or(|text| !text.is_empty()));
    resource.boolean("/Boot/Enabled");
    resource.link("/Storage");
    resource.links("/Members");
    if let Some(reset) = resource.action("ComputerSystem.Reset") {
        reset.allowed("ResetType");
        reset.info();
    }
    let members = resource.value.get("Members").and_then(Value::as_array);
    for member in members.into_iter().flatten() {
        let resource = Resource {
            value: member.clone(),
            path: resource.path.clone(),
            etag: None,
        };
        let drive = Drive {
            name: resource.id().into(),
            resource,
        };
        drive.can_be_erased();
        assert!(drive.is_called(&drive.name));
        disk(&drive);
    }
}
