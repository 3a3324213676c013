//! Answers of a Redfish service: resources, actions, errors, all read leniently.
//!
//! Implementations leave out, rename and mistype; a missing field or one of another type counts as
//! absent. Numbers of members are bounded by the callers.

use std::sync::Arc;

use serde_json::Value;

use crate::backend::http::{Answer, Dialect, Failure};

/// The error format of Redfish.
pub(super) struct Redfish;

impl Dialect for Redfish {
    fn words(&self, answer: &Answer) -> Option<String> {
        let value: Value = answer.json().ok()?;
        words(&value)
    }
}

/// The words of an error: its extended messages, else its own.
fn words(value: &Value) -> Option<String> {
    const MOST: usize = 3;
    let error = value.get("error").unwrap_or(value);
    let extended = error.get("@Message.ExtendedInfo");
    let one = extended.filter(|extended| extended.is_object());
    let many = extended.and_then(Value::as_array);
    let messages = one.into_iter().chain(many.into_iter().flatten());
    let texts: Vec<String> = messages.filter_map(text_of).take(MOST).collect();
    if !texts.is_empty() {
        return Some(texts.join(" "));
    }
    let own = ["message", "code"].into_iter();
    own.filter_map(|name| error.get(name).and_then(Value::as_str))
        .find(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

/// The text of a message; if it has none, the end of its id and its arguments.
fn text_of(message: &Value) -> Option<String> {
    let text = |name: &str| {
        let text = message.get(name).and_then(Value::as_str)?.trim();
        (!text.is_empty()).then_some(text)
    };
    if let Some(own) = text("Message") {
        return Some(own.to_owned());
    }
    let (_, name) = text("MessageId")?.rsplit_once('.')?;
    let arguments = message.get("MessageArgs").and_then(Value::as_array)?;
    let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).take(8).collect();
    (!arguments.is_empty()).then(|| format!("{name}: {}", arguments.join(", ")))
}

/// A resource, or where it is to be read.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Whole(Resource),
    Link(Arc<str>),
}

impl Part {
    /// Where it is.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Whole(resource) => &resource.path,
            Self::Link(path) => path,
        }
    }
}

/// A resource, and its version if the service tells one.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) value: Value,
    /// Where it was read.
    pub(super) path: Arc<str>,
    pub(super) etag: Option<String>,
}

impl Resource {
    /// Reads an answer.
    pub(super) fn read(path: &str, answer: &Answer) -> Result<Self, Failure> {
        let value: Value = answer.json()?;
        let own = value.get("@odata.etag").and_then(Value::as_str);
        let etag = answer.header("etag").or(own).map(str::to_owned);
        Ok(Self {
            path: Arc::from(path),
            etag,
            value,
        })
    }

    /// A text, by JSON pointer; empty ones count as none.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        let text = self.value.pointer(pointer)?.as_str()?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// A whole number, also if it is written as another kind of number.
    pub(super) fn number(&self, pointer: &str) -> Option<u64> {
        let value = self.value.pointer(pointer)?;
        let rounded = || {
            let number = value
                .as_f64()
                .filter(|number| (0.0..1e18).contains(number))?;
            format!("{number:.0}").parse().ok()
        };
        value.as_u64().or_else(rounded)
    }

    pub(super) fn boolean(&self, pointer: &str) -> Option<bool> {
        self.value.pointer(pointer)?.as_bool()
    }

    /// Where a link leads.
    pub(super) fn link(&self, pointer: &str) -> Option<&str> {
        link_of(self.value.pointer(pointer)?)
    }

    /// Where a list of links leads.
    pub(super) fn links(&self, pointer: &str) -> Vec<Arc<str>> {
        let list = self.value.pointer(pointer).and_then(Value::as_array);
        let links = list.into_iter().flatten().filter_map(link_of);
        links.map(Arc::from).collect()
    }

    /// The resources in a list, as far as they are written out there, and links to the others.
    pub(super) fn parts(&self, pointer: &str) -> Vec<Part> {
        let list = self.value.pointer(pointer).and_then(Value::as_array);
        let parts = list.into_iter().flatten().filter_map(|value| {
            let path: Arc<str> = Arc::from(link_of(value)?);
            let etag = value.get("@odata.etag").and_then(Value::as_str);
            Some(match value.get("Id") {
                Some(_) => Part::Whole(Self {
                    value: value.clone(),
                    etag: etag.map(str::to_owned),
                    path,
                }),
                None => Part::Link(path),
            })
        });
        parts.collect()
    }

    /// How deep the service writes resources out if they are only linked, if it is asked to (`$expand`); 0
    /// if it does not.
    pub(super) fn expands(&self) -> u64 {
        let feature = "/ProtocolFeaturesSupported/ExpandQuery";
        let can = |name: &str| self.boolean(&format!("{feature}/{name}")) == Some(true);
        match (can("NoLinks") || can("ExpandAll"), can("Levels")) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => self.number(&format!("{feature}/MaxLevels")).unwrap_or(1),
        }
    }

    /// Texts in a list.
    pub(super) fn texts(&self, pointer: &str) -> Vec<&str> {
        let list = self.value.pointer(pointer).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// An action that it offers (`ComputerSystem.Reset`).
    pub(super) fn action(&self, name: &str) -> Option<ResourceAction> {
        let value = self.value.pointer(&format!("/Actions/#{name}"))?;
        Some(ResourceAction {
            target: Arc::from(value.get("target")?.as_str()?),
            value: value.clone(),
        })
    }

    /// Its name: its id, else the end of its path.
    pub(super) fn id(&self) -> &str {
        self.text("/Id").unwrap_or_else(|| last(&self.path))
    }
}

/// The last part of a path.
pub(super) fn last(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

fn link_of(value: &Value) -> Option<&str> {
    value.get("@odata.id")?.as_str()
}

/// Something that a resource can be asked to do.
#[derive(Clone, Debug)]
pub(super) struct ResourceAction {
    pub(super) target: Arc<str>,
    value: Value,
}

impl ResourceAction {
    /// The values that a parameter may have; `None` if it does not say.
    pub(super) fn allowed(&self, parameter: &str) -> Option<Vec<&str>> {
        let list = self
            .value
            .get(format!("{parameter}@Redfish.AllowableValues"))?;
        let texts = list.as_array()?.iter().filter_map(Value::as_str);
        Some(texts.collect())
    }

    /// The times at which it can take effect; empty if it does not say.
    pub(super) fn apply_times(&self) -> Vec<&str> {
        let listed = self
            .value
            .pointer("/@Redfish.OperationApplyTimeSupport/SupportedValues");
        let texts = listed.and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).collect()
    }

    /// Where it says more about its parameters.
    pub(super) fn info(&self) -> Option<&str> {
        self.value.get("@Redfish.ActionInfo")?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(value: Value) -> Resource {
        Resource {
            value,
            path: Arc::from("/redfish/v1/Systems/1/"),
            etag: None,
        }
    }

    #[test]
    fn an_error_is_told_in_the_services_own_words_wherever_it_has_them() {
        let table = [
            (
                json!({"error": {"code": "Base.1.0.GeneralError", "message": "See ExtendedInfo", "@Message.ExtendedInfo": [
                    {"MessageId": "a", "Message": "The property Boot is read-only."}, {"Message": "Try another."}
                ]}}),
                Some("The property Boot is read-only. Try another."),
            ),
            (
                json!({"error": {"code": "Base.1.0.GeneralError", "message": "Incorrect username or password", "@Message.ExtendedInfo": [{"MessageId": "Base.1.0.GeneralError"}]}}),
                Some("Incorrect username or password"),
            ),
            (
                json!({"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.0.10.PropertyUnknown", "MessageArgs": ["Inserted"]}]}}),
                Some("PropertyUnknown: Inserted"),
            ),
            (
                json!({"error": {"@Message.ExtendedInfo": {"Message": "One alone."}}}),
                Some("One alone."),
            ),
            (
                json!({"@Message.ExtendedInfo": [{"Message": "Bare."}]}),
                Some("Bare."),
            ),
            (
                json!({"error": {"code": "iLO.0.10", "message": ""}}),
                Some("iLO.0.10"),
            ),
            (json!({"error": "text"}), None),
            (json!([]), None),
            (json!(null), None),
        ];
        for (value, expected) in table {
            assert_eq!(words(&value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_mistyped_field_is_absent() {
        let system = resource(json!({
            "Id": 7, "Name": " ", "Size": 4.5e11, "Negative": -1, "Huge": 1e30, "Number": 5,
            "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
            "Chassis": [{"@odata.id": "/c"}, {"@odata.id": 3}, null],
            "Actions": {"#ComputerSystem.Reset": {"target": "/t", "ResetType@Redfish.AllowableValues": ["On", 1, "ForceOff"]}, "#No.Target": {}},
        }));
        assert_eq!((system.id(), system.text("/Name")), ("1", None));
        assert_eq!(system.number("/Size"), Some(450_000_000_000));
        assert_eq!(
            [
                system.number("/Negative"),
                system.number("/Huge"),
                system.number("/Number")
            ],
            [None, None, Some(5)]
        );
        assert_eq!(system.link("/Bios"), Some("/redfish/v1/Systems/1/Bios"));
        assert_eq!(system.links("/Chassis"), [Arc::from("/c")]);
        let reset = system.action("ComputerSystem.Reset").unwrap();
        assert_eq!(
            (&*reset.target, reset.allowed("ResetType")),
            ("/t", Some(vec!["On", "ForceOff"]))
        );
        assert_eq!(reset.allowed("Other"), None);
        assert!(system.action("No.Target").is_none() && system.action("Bios.ResetBios").is_none());
    }
}
