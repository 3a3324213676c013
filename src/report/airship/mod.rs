//! The status object of Airship's APIs, for scripts that know it (airship-node-teardown).
//!
//! `kind` is always `Status` and `apiVersion` `v1.0`; `status` is `Success` or `Failure` by the reason's
//! code; `details.errorCount` counts the messages that are errors, which a success can have too.

mod ended;

use std::fmt;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use super::json;
use crate::step::FailureReason;

pub use ended::{Heard, of_nothing, of_refusal};

/// Why something ended as it did: a word, and its code in HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The word.
    pub word: &'static str,
    /// The code.
    pub code: u16,
}

impl From<FailureReason> for Reason {
    fn from(reason: FailureReason) -> Self {
        Self {
            word: reason.as_str(),
            code: reason.code(),
        }
    }
}

/// The kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum MessageKind {
    /// A message.
    SimpleMessage,
    /// How healthy something is.
    HealthMessage,
}

/// One entry of `details.messageList`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The text.
    pub message: String,
    /// Whether it is an error.
    pub error: bool,
    /// Its kind.
    pub kind: MessageKind,
    /// The subject: a node, an etcd cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Why.
    pub reason: Reason,
    /// The text, one sentence.
    pub message: String,
    /// Its parts, in the order in which they are to be shown.
    pub messages: Vec<Message>,
}

impl Status {
    /// The object as JSON on one line, with a line break at the end.
    #[must_use]
    pub fn to_line(&self) -> String {
        json::line(self).unwrap_or_default() + "\n"
    }

    /// The object as JSON over several lines, with a line break at the end.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON; it always can.
    pub fn to_json(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        json::pretty(&mut text, self)?;
        Ok(text)
    }

    /// The same, with one more field in its details.
    ///
    /// # Errors
    ///
    /// The field cannot be written as JSON (a map whose keys are no texts).
    pub fn to_json_with<T: Serialize>(
        &self,
        name: &'static str,
        value: &T,
    ) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let object = Object {
            status: self,
            more: Some((name, value)),
        };
        json::pretty(&mut text, &object)?;
        Ok(text)
    }
}

/// A status with one more field in its details.
struct Object<'a, T> {
    status: &'a Status,
    more: Option<(&'static str, &'a T)>,
}

struct Details<'a, T> {
    messages: &'a [Message],
    more: Option<(&'static str, &'a T)>,
}

#[derive(Serialize)]
struct Metadata {}

impl<T: Serialize> Serialize for Details<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let errors = self.messages.iter().filter(|message| message.error);
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("errorCount", &errors.count())?;
        object.serialize_entry("messageList", self.messages)?;
        if let Some((name, value)) = self.more {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

impl<T: Serialize> Serialize for Object<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Reason { word, code } = self.status.reason;
        let mut object = serializer.serialize_struct("Status", 8)?;
        object.serialize_field("kind", "Status")?;
        object.serialize_field("apiVersion", "v1.0")?;
        object.serialize_field("metadata", &Metadata {})?;
        object.serialize_field("status", if code < 400 { "Success" } else { "Failure" })?;
        object.serialize_field("reason", word)?;
        object.serialize_field("message", &self.status.message)?;
        object.serialize_field("code", &code)?;
        let details = Details {
            messages: &self.status.messages,
            more: self.more,
        };
        object.serialize_field("details", &details)?;
        object.end()
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object: Object<'_, ()> = Object {
            status: self,
            more: None,
        };
        object.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_shape_that_scripts_for_airship_know() {
        let status = Status {
            reason: FailureReason::RemoveEtcdError.into(),
            message: "etcd would be lost".to_owned(),
            messages: vec![
                Message {
                    message: "Healthy".to_owned(),
                    error: false,
                    kind: MessageKind::HealthMessage,
                    name: Some("kubernetes".to_owned()),
                },
                Message {
                    message: "no quorum".to_owned(),
                    error: true,
                    kind: MessageKind::SimpleMessage,
                    name: None,
                },
            ],
        };
        insta::assert_snapshot!(status.to_json().unwrap(), @r#"
        {
          "kind": "Status",
          "apiVersion": "v1.0",
          "metadata": {},
          "status": "Failure",
          "reason": "RemoveEtcdError",
          "message": "etcd would be lost",
          "code": 500,
          "details": {
            "errorCount": 1,
            "messageList": [
              {
                "message": "Healthy",
                "error": false,
                "kind": "HealthMessage",
                "name": "kubernetes"
              },
              {
                "message": "no quorum",
                "error": true,
                "kind": "SimpleMessage"
              }
            ]
          }
        }
        "#);
    }

    #[test]
    fn a_reason_below_400_is_a_success() {
        let status = Status {
            reason: FailureReason::Success.into(),
            message: String::new(),
            messages: Vec::new(),
        };
        let json = status.to_json().unwrap();
        assert!(json.contains("\"status\": \"Success\"") && json.contains("\"code\": 200"));
    }
}
