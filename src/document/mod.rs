//! YAML to documents with identity and provenance.
//!
//! Documents are `{schema, metadata, data}` envelopes. Every value in them remembers where it was
//! written ([`Node::mark`]) and whether it is a secret ([`Node::secret`]); both survive rendering.
//! Scalars resolve as PyYAML's SafeLoader has them, because these documents were written for it.

mod build;
mod canonical;
mod decode;
mod duration;
mod envelope;
#[cfg(test)]
mod envelope_tests;
mod format;
mod hidden;
mod instant;
mod limits;
mod load;
#[cfg(test)]
mod load_tests;
mod positions;
mod scalar;
mod secret;
mod syntax;
mod taken;
mod typed;
#[cfg(test)]
mod typed_tests;
mod unclosed;
mod value;
mod write_json;
mod write_yaml;
#[cfg(test)]
mod write_yaml_tests;

use std::sync::Arc;

use crate::diagnostic::Mark;

pub use build::DUPLICATE_KEY;
pub use canonical::{digest, write_canonical, write_without_secrets};
pub use decode::decode;
pub use duration::{NotDuration, Seconds};
pub use envelope::{from_envelope, is_secret_kind};
pub use format::{ENTRY, KeyOrder, Unformatted, format};
pub use hidden::{has_command_mark, is_command_mark, is_hidden, leading_command};
pub use instant::Instant;
pub use limits::{Limits, LoadSettings, SiteLimits};
pub use load::{LoadedFile, load, load_values};
pub use secret::SecretOrigin;
pub use typed::{Marked, TypeMismatch, from_node};
pub use value::{Entries, Field, Key, KeyKind, Map, Node, REDACTED, Value, python_float};
pub use write_json::{JsonLayout, node_from_json, to_json, write_json, write_json_string};
pub use write_yaml::{inline_text, write_yaml};

/// The identity of a rendered document: schema and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct DocumentId {
    /// For example `drydock/BaremetalNode/v1`.
    pub schema: Arc<str>,
    /// The value of `metadata.name`.
    pub name: Arc<str>,
}

impl std::fmt::Display for DocumentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.schema, self.name)
    }
}

/// The effect of a layering action at its path (Deckhand).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionMethod {
    /// Maps merge deeply, everything else replaces.
    Merge,
    /// The child's value replaces the parent's.
    Replace,
    /// The value at the path is removed.
    Delete,
}

/// One layering action.
#[derive(Clone, Debug)]
pub struct LayeringAction {
    /// The method.
    pub method: ActionMethod,
    /// Where, in the path language of [`crate::render`].
    pub path: Arc<str>,
    /// Where the action was written.
    pub mark: Mark,
}

/// Where a substituted value comes from.
#[derive(Clone, Debug)]
pub struct SubstitutionSource {
    /// Which document.
    pub document: DocumentId,
    /// Where in its data.
    pub path: Arc<str>,
    /// Regular expression that cuts a part out of a string.
    pub pattern: Option<Arc<str>>,
    /// Which group of `pattern` is taken.
    pub match_group: usize,
    /// Where the source was written.
    pub mark: Mark,
    /// Where the name of the document was written.
    pub name_mark: Mark,
    /// Where the path was written.
    pub path_mark: Mark,
}

/// Where a substituted value goes.
#[derive(Clone, Debug)]
pub struct SubstitutionDestination {
    /// Where in the data of the document that holds the substitution.
    pub path: Arc<str>,
    /// The pattern of the parts of the string there that are replaced.
    pub pattern: Option<Arc<str>>,
    /// With `pattern`: replace in all strings below, so many levels deep (−1: all).
    pub recurse_depth: Option<i64>,
    /// Where the destination was written.
    pub mark: Mark,
}

/// One entry of `metadata.substitutions`.
#[derive(Clone, Debug)]
pub struct Substitution {
    /// Where the value comes from.
    pub source: SubstitutionSource,
    /// Where it goes, one or more.
    pub destinations: Vec<SubstitutionDestination>,
}

/// Whether a document takes part in layering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// `metadata/Control/v1`: policies and schemas; no layering.
    Control,
    /// `metadata/Document/v1`.
    Document,
}

/// A document as it was written, its envelope understood.
#[derive(Clone, Debug)]
pub struct Document {
    /// Schema and name.
    pub id: DocumentId,
    /// Whether it takes part in layering.
    pub kind: MetadataKind,
    /// The layer; control documents may have none.
    pub layer: Option<Arc<str>>,
    /// Abstract documents are parents only, and are not part of the result.
    pub is_abstract: bool,
    /// Whether it replaces its parent.
    pub is_replacement: bool,
    /// `storagePolicy: encrypted`: all of `data` is secret.
    pub is_encrypted: bool,
    /// Labels that a child's parent selector is matched with.
    pub labels: Map,
    /// Selects the parent, if there is one.
    pub parent_selector: Option<Map>,
    /// The actions on the parent's data.
    pub actions: Vec<LayeringAction>,
    /// The values to take from other documents.
    pub substitutions: Vec<Substitution>,
    /// `metadata` as it was written.
    pub metadata: Node,
    /// `data` as it was written.
    pub data: Node,
    /// Where the document begins.
    pub mark: Mark,
    /// Where the values of `schema` and `metadata.name` were written.
    pub schema_mark: Mark,
    /// Where the value of `metadata.name` was written.
    pub name_mark: Mark,
}

/// The layer of documents without layering.
const ONE_LAYER: &str = "site";

impl Document {
    /// The document as one that was rendered: it has no parent, takes nothing from others, and is in the layer of all such.
    #[must_use]
    fn without_layering(self) -> Self {
        Self {
            layer: self.layer.map(|_| Arc::from(ONE_LAYER)),
            is_replacement: false,
            parent_selector: None,
            actions: Vec::new(),
            substitutions: Vec::new(),
            ..self
        }
    }

    /// The whole document with other data: schema and metadata as they were written.
    #[must_use]
    pub fn with_data(&self, data: Node) -> Node {
        let mut map = Map::new();
        let schema = Value::String(self.id.schema.clone());
        map.set("schema", Node::new(schema, self.schema_mark));
        map.set("metadata", self.metadata.clone());
        map.set("data", data);
        Node::new(Value::Map(Arc::new(map)), self.mark)
    }
}
