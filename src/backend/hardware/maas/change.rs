//! One request that changes disks or interfaces of a machine.

use std::borrow::Cow;

use reqwest::Method;

/// Fields of a form.
pub(super) type Fields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// A field of a form.
pub(super) fn field<'a>(
    name: &'a str,
    value: impl Into<Cow<'a, str>>,
) -> (Cow<'a, str>, Cow<'a, str>) {
    (Cow::Borrowed(name), value.into())
}

/// Below which path a part of a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// The machine itself.
    Machine,
    /// Its disks and interfaces.
    Node,
}

impl Area {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Machine => "machines",
            Self::Node => "nodes",
        }
    }
}

/// A request that changes a part of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// In words.
    pub(super) said: String,
    pub(super) method: Method,
    pub(super) area: Area,
    /// The path below that of the machine.
    pub(super) rest: String,
    pub(super) fields: Fields<'static>,
}

impl Change {
    /// A request that makes something or does something.
    pub(super) fn post(
        said: impl Into<String>,
        area: Area,
        rest: impl Into<String>,
        fields: Fields<'static>,
    ) -> Self {
        Self {
            said: said.into(),
            method: Method::POST,
            area,
            rest: rest.into(),
            fields,
        }
    }

    /// Sends it with another method.
    pub(super) fn with(self, method: Method) -> Self {
        Self { method, ..self }
    }
}
