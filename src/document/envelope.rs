//! The envelope `{schema, metadata, data}`, as Deckhand's base and metadata schemas have it.
//!
//! Every violation is a diagnostic at the place that is wrong, all of them at once. A document is
//! made of the parts that are sound, as long as it has a name; callers that need sound documents only
//! check the diagnostics.

use std::sync::Arc;

use super::{
    ActionMethod, Document, DocumentId, LayeringAction, LoadSettings, Map, MetadataKind, Node,
    SecretOrigin, Substitution, SubstitutionDestination, SubstitutionSource, Value,
};
use crate::diagnostic::{Diagnostic, Mark, has_password, is_credential};

/// By which a file begins that git has in the place of one that is elsewhere.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/";
const MANAGED: &str = "pegleg/PeglegManagedDocument/v1";
const METADATA: &[&str] = &[
    "schema",
    "name",
    "storagePolicy",
    "layeringDefinition",
    "labels",
    "replacement",
    "substitutions",
];
/// The fields of a document; those behind the third are of documents that another program has rendered.
const ENVELOPE: [&str; 5] = ["schema", "metadata", "data", "id", "status"];
/// Schemas whose documents are control documents where they do not say.
const CONTROL: &[&str] = &[
    "deckhand/LayeringPolicy/",
    "deckhand/DataSchema/",
    "deckhand/ValidationPolicy/",
];

/// Understands the envelope of a document; Pegleg's managed documents are unwrapped.
///
/// The document is `None` if its schema or name cannot be read; there is an error then.
#[must_use]
pub fn from_envelope(raw: Node, settings: &LoadSettings) -> (Option<Document>, Vec<Diagnostic>) {
    let mut reader = Reader {
        flat: settings.flat,
        rendered: settings.rendered,
        blob: settings.blob,
        diagnostics: Vec::new(),
    };
    let document = reader.unwrap(raw, false, settings.limits.depth);
    let document = document.map(|document| match settings.rendered {
        true => document.without_layering(),
        false => document,
    });
    (document, reader.diagnostics)
}

struct Reader {
    flat: bool,
    rendered: bool,
    /// Git's id of the file.
    blob: Option<[u8; 20]>,
    diagnostics: Vec<Diagnostic>,
}

/// The content of `layeringDefinition`.
#[derive(Default)]
struct Layering {
    layer: Option<Arc<str>>,
    is_abstract: bool,
    parent_selector: Option<Map>,
    actions: Vec<LayeringAction>,
}

/// Makes credentials secret that were written as they are. A map that says where one is stays as it is.
fn hide_credentials(node: &mut Node, origin: &SecretOrigin) {
    if !holds_credential(node) {
        return;
    }
    if is_address_with_password(node) {
        node.hide(origin);
        return;
    }
    match &mut node.value {
        Value::Map(map) => {
            for (key, field) in Arc::make_mut(map).iter_mut() {
                match field.node.value {
                    Value::Map(_) => hide_credentials(&mut field.node, origin),
                    Value::Null => {}
                    _ if is_credential(&key.text) || is_address_with_password(&field.node) => {
                        field.node.hide(origin)
                    }
                    _ => hide_credentials(&mut field.node, origin),
                }
            }
        }
        Value::List(list) => {
            let items = Arc::make_mut(list).iter_mut();
            items.for_each(|item| hide_credentials(item, origin));
        }
        _ => {}
    }
}

fn is_address_with_password(node: &Node) -> bool {
    node.as_str().is_some_and(has_password)
}

/// The kinds whose data is secret, whatever their storage policy is: real sites write `cleartext` there.
const SECRET_KINDS: [&str; 4] = [
    "deckhand/CertificateAuthorityKey/",
    "deckhand/CertificateKey/",
    "deckhand/Passphrase/",
    "deckhand/PrivateKey/",
];

/// Whether all data of documents of a schema is secret.
#[must_use]
pub fn is_secret_kind(schema: &str) -> bool {
    SECRET_KINDS.iter().any(|kind| schema.starts_with(kind))
}

fn holds_credential(node: &Node) -> bool {
    match &node.value {
        Value::Map(map) => map.iter().any(|(key, field)| match field.node.value {
            Value::Map(_) | Value::List(_) if holds_credential(&field.node) => true,
            Value::Map(_) | Value::Null => false,
            _ => is_credential(&key.text) || is_address_with_password(&field.node),
        }),
        Value::List(list) => list.iter().any(holds_credential),
        _ => is_address_with_password(node),
    }
}

impl Reader {
    fn unwrap(&mut self, raw: Node, encrypted: bool, levels: usize) -> Option<Document> {
        if raw.get("schema").and_then(Node::as_str) != Some(MANAGED) {
            return self.document(&raw, encrypted);
        }
        let policy = raw.at(&["metadata", "storagePolicy"]);
        let encrypted = encrypted || policy.is_some_and(|policy| !is_cleartext(policy));
        match raw.at(&["data", "managedDocument"]).cloned() {
            Some(inner) if levels > 0 => self.unwrap(inner, encrypted, levels - 1),
            _ => {
                let mark = raw.get("data").map_or(raw.mark, |data| data.mark);
                self.missing(mark, "data.managedDocument");
                None
            }
        }
    }

    fn document(&mut self, raw: &Node, encrypted: bool) -> Option<Document> {
        let Some(envelope) = raw.as_map() else {
            let is_pointer = raw
                .as_str()
                .is_some_and(|text| text.starts_with(LFS_POINTER));
            let what = match is_pointer {
                true => {
                    "a pointer of Git LFS: documents are read as they are committed, so take the file out of `.gitattributes`, and commit its text"
                }
                false => raw.value.type_phrase(),
            };
            let message =
                format!("a document is a map with `schema`, `metadata` and `data`, this is {what}");
            self.error("envelope-wrong-type", raw.mark, message);
            return None;
        };
        let known = if self.rendered { 5 } else { 3 };
        self.only(envelope, &ENVELOPE[..known], "a document");
        let schema = self.text(envelope, raw.mark, "schema", "schema");
        if let Some((text, mark)) = &schema {
            self.check_schema(text, *mark);
        }
        let mut data = self.data(envelope, raw.mark);
        let Some(metadata_node) = envelope.get("metadata") else {
            self.missing(raw.mark, "metadata");
            return None;
        };
        let metadata = self.map(metadata_node, "metadata")?;
        let at = metadata_node.mark;
        let name = self.text(metadata, at, "name", "metadata.name");
        if let Some((text, mark)) = &name {
            self.check_name(text, *mark);
        }
        let (schema, schema_mark) = schema?;
        let kind = self.kind(metadata, at, &schema);
        let is_encrypted = self.storage_policy(metadata, at, kind) || encrypted;
        let layering = self.layering(metadata, at, kind);
        if kind == MetadataKind::Document {
            self.only(metadata, METADATA, "`metadata`");
        }
        let labels = metadata.get("labels");
        let labels = labels.and_then(|labels| self.map(labels, "metadata.labels").cloned());
        let is_replacement = self.boolean(metadata, "replacement", "metadata.replacement");
        let substitutions = self.substitutions(metadata);
        let (name, name_mark) = name?;
        if is_encrypted || is_secret_kind(&schema) {
            data.hide(&SecretOrigin::in_file(self.blob));
        } else if holds_credential(&data) {
            hide_credentials(&mut data, &SecretOrigin::in_file(self.blob));
        }
        Some(Document {
            id: DocumentId { schema, name },
            kind,
            layer: layering.layer,
            is_abstract: layering.is_abstract,
            is_replacement,
            is_encrypted,
            labels: labels.unwrap_or_default(),
            parent_selector: layering.parent_selector,
            actions: layering.actions,
            substitutions,
            metadata: metadata_node.clone(),
            data,
            mark: raw.mark,
            schema_mark,
            name_mark,
        })
    }

    fn data(&mut self, envelope: &Map, mark: Mark) -> Node {
        match envelope.get("data") {
            Some(data) => data.clone(),
            None => {
                self.missing(mark, "data");
                Node::new(Value::Null, mark)
            }
        }
    }

    fn check_schema(&mut self, text: &str, mark: Mark) {
        if !is_schema(text) {
            let message = format!("schema `{text}` is not of the form `namespace/Kind/v1`");
            let diagnostic = Diagnostic::error("envelope-bad-value", mark, message);
            self.diagnostics.push(
                diagnostic.hint("namespace and kind are letters only, the version `v` and digits"),
            );
        }
    }

    fn check_name(&mut self, text: &str, mark: Mark) {
        if text.chars().any(char::is_control) {
            let message = "`metadata.name` holds a control character";
            self.error("envelope-bad-value", mark, message.to_owned());
        }
    }

    fn kind(&mut self, metadata: &Map, at: Mark, schema: &str) -> MetadataKind {
        let written = match self.flat && !metadata.contains_key("schema") {
            true => None,
            false => self.text(metadata, at, "schema", "metadata.schema"),
        };
        let Some((text, mark)) = written else {
            return match CONTROL.iter().any(|control| schema.starts_with(control)) {
                true => MetadataKind::Control,
                false => MetadataKind::Document,
            };
        };
        let parts = text
            .strip_prefix("metadata/")
            .and_then(|rest| rest.split_once('/'));
        match parts {
            Some(("Document", version)) if is_version(version) => MetadataKind::Document,
            Some(("Control", version)) if is_version(version) => MetadataKind::Control,
            _ => {
                let message = format!(
                    "`metadata.schema` is `{text}`, not `metadata/Document/v1` or `metadata/Control/v1`"
                );
                let diagnostic = Diagnostic::error("envelope-bad-value", mark, message);
                let known = ["metadata/Document/v1", "metadata/Control/v1"];
                self.diagnostics.push(diagnostic.did_you_mean(&text, known));
                MetadataKind::Document
            }
        }
    }

    /// Whether the data is secret; a policy that cannot be read counts as `encrypted`.
    fn storage_policy(&mut self, metadata: &Map, at: Mark, kind: MetadataKind) -> bool {
        let Some(policy) = metadata.get("storagePolicy") else {
            if kind == MetadataKind::Document && !self.flat {
                self.missing(at, "metadata.storagePolicy");
            }
            return false;
        };
        match policy.as_str() {
            Some("cleartext") => false,
            Some("encrypted") => true,
            _ => {
                let message = "`metadata.storagePolicy` is neither `cleartext` nor `encrypted`";
                let diagnostic = Diagnostic::error("envelope-bad-value", policy.mark, message);
                let wrong = policy.as_str().unwrap_or_default();
                self.diagnostics
                    .push(diagnostic.did_you_mean(wrong, ["cleartext", "encrypted"]));
                true
            }
        }
    }

    fn layering(&mut self, metadata: &Map, at: Mark, kind: MetadataKind) -> Layering {
        const PLACE: &str = "metadata.layeringDefinition";
        let is_document = kind == MetadataKind::Document;
        let mut layering = Layering::default();
        let Some(node) = metadata.get("layeringDefinition") else {
            if is_document && self.flat {
                layering.layer = Some(Arc::from("site"));
            } else if is_document {
                self.missing(at, PLACE);
            }
            return layering;
        };
        let Some(map) = self.map(node, PLACE) else {
            return layering;
        };
        if is_document {
            let known = ["layer", "abstract", "parentSelector", "actions"];
            self.only(map, &known, "`metadata.layeringDefinition`");
        }
        if is_document || map.contains_key("layer") {
            let layer = self.text(map, node.mark, "layer", "metadata.layeringDefinition.layer");
            layering.layer = layer.map(|(layer, _)| layer);
        }
        layering.is_abstract =
            self.boolean(map, "abstract", "metadata.layeringDefinition.abstract");
        if let Some(selector) = map.get("parentSelector") {
            let place = "metadata.layeringDefinition.parentSelector";
            layering.parent_selector = self.map(selector, place).cloned();
            if layering.parent_selector.as_ref().is_some_and(Map::is_empty) {
                let message = format!("`{place}` is empty");
                self.error("envelope-bad-value", selector.mark, message);
            }
        }
        if let Some(actions) = map.get("actions") {
            let place = "metadata.layeringDefinition.actions";
            let list = self.list(actions, place);
            layering.actions = list
                .iter()
                .filter_map(|action| self.action(action))
                .collect();
        }
        for (key, other) in [("parentSelector", "actions"), ("actions", "parentSelector")] {
            if let Some(field) = map.field(key)
                && is_document
                && !map.contains_key(other)
            {
                let message = format!("`{key}` needs `{other}` beside it in `{PLACE}`");
                self.error("envelope-missing-field", field.key_mark, message);
            }
        }
        layering
    }

    fn action(&mut self, node: &Node) -> Option<LayeringAction> {
        const METHODS: [&str; 3] = ["merge", "replace", "delete"];
        let map = self.map(node, "actions[]")?;
        self.only(map, &["method", "path"], "an action");
        let method = self.text(map, node.mark, "method", "actions[].method");
        let path = self.text(map, node.mark, "path", "actions[].path");
        let (method, mark) = method?;
        let method = match &*method {
            "merge" => ActionMethod::Merge,
            "replace" => ActionMethod::Replace,
            "delete" => ActionMethod::Delete,
            wrong => {
                let message = format!("`{wrong}` is no layering action");
                let diagnostic = Diagnostic::error("envelope-bad-value", mark, message)
                    .hint("there are `merge`, `replace` and `delete`");
                self.diagnostics
                    .push(diagnostic.did_you_mean(wrong, METHODS));
                return None;
            }
        };
        Some(LayeringAction {
            method,
            path: path?.0,
            mark: node.mark,
        })
    }

    fn substitutions(&mut self, metadata: &Map) -> Vec<Substitution> {
        let Some(node) = metadata.get("substitutions") else {
            return Vec::new();
        };
        match &node.value {
            Value::List(list) => list
                .iter()
                .filter_map(|entry| self.substitution(entry))
                .collect(),
            _ => {
                self.wrong_type(node, "metadata.substitutions", "a list");
                Vec::new()
            }
        }
    }

    fn substitution(&mut self, node: &Node) -> Option<Substitution> {
        let map = self.map(node, "substitutions[]")?;
        self.only(map, &["src", "dest"], "a substitution");
        let source = match map.get("src") {
            Some(source) => self.source(source),
            None => {
                self.missing(node.mark, "substitutions[].src");
                None
            }
        };
        let destinations: Vec<_> = match map.get("dest") {
            None => {
                self.missing(node.mark, "substitutions[].dest");
                Vec::new()
            }
            Some(dest) => {
                let list = match &dest.value {
                    Value::List(_) => self.list(dest, "substitutions[].dest"),
                    _ => std::slice::from_ref(dest),
                };
                list.iter()
                    .filter_map(|dest| self.destination(dest))
                    .collect()
            }
        };
        let source = source?;
        (!destinations.is_empty()).then_some(Substitution {
            source,
            destinations,
        })
    }

    fn source(&mut self, node: &Node) -> Option<SubstitutionSource> {
        let map = self.map(node, "substitutions[].src")?;
        let known = [
            "schema",
            "name",
            "path",
            "pattern",
            "match_group",
            "deepcopy",
        ];
        self.only(map, &known, "a substitution source");
        let schema = self.text(map, node.mark, "schema", "substitutions[].src.schema");
        if let Some((text, mark)) = &schema {
            self.check_schema(text, *mark);
        }
        let name = self.text(map, node.mark, "name", "substitutions[].src.name");
        let path = self.text(map, node.mark, "path", "substitutions[].src.path");
        let pattern = self.optional_text(map, "pattern", "substitutions[].src.pattern");
        self.boolean(map, "deepcopy", "substitutions[].src.deepcopy");
        let match_group = match map.get("match_group") {
            None => 0,
            Some(group) => match group.as_integer().map(usize::try_from) {
                Some(Ok(group)) => group,
                _ => {
                    self.wrong_type(group, "substitutions[].src.match_group", "a number from 0");
                    0
                }
            },
        };
        let (name, name_mark) = name?;
        let (path, path_mark) = path?;
        Some(SubstitutionSource {
            document: DocumentId {
                schema: schema?.0,
                name,
            },
            path,
            pattern,
            match_group,
            mark: node.mark,
            name_mark,
            path_mark,
        })
    }

    fn destination(&mut self, node: &Node) -> Option<SubstitutionDestination> {
        let map = self.map(node, "substitutions[].dest")?;
        self.only(
            map,
            &["path", "pattern", "recurse"],
            "a substitution destination",
        );
        let path = self.text(map, node.mark, "path", "substitutions[].dest.path");
        let pattern = self.optional_text(map, "pattern", "substitutions[].dest.pattern");
        let recurse_depth = map.get("recurse").and_then(|recurse| self.recurse(recurse));
        Some(SubstitutionDestination {
            path: path?.0,
            pattern,
            recurse_depth,
            mark: node.mark,
        })
    }

    fn recurse(&mut self, node: &Node) -> Option<i64> {
        let map = self.map(node, "substitutions[].dest.recurse")?;
        self.only(map, &["depth"], "`recurse`");
        let Some(depth) = map.get("depth") else {
            self.missing(node.mark, "substitutions[].dest.recurse.depth");
            return None;
        };
        let number = depth.as_integer().filter(|depth| *depth >= -1);
        if number.is_none() {
            self.wrong_type(
                depth,
                "substitutions[].dest.recurse.depth",
                "a whole number from -1",
            );
        }
        number
    }

    fn error(&mut self, code: &'static str, mark: Mark, message: String) {
        self.diagnostics
            .push(Diagnostic::error(code, mark, message));
    }

    fn missing(&mut self, mark: Mark, place: &str) {
        self.error(
            "envelope-missing-field",
            mark,
            format!("`{place}` is missing"),
        );
    }

    fn wrong_type(&mut self, node: &Node, place: &str, expected: &str) {
        let message = format!(
            "`{place}` must be {expected}, this is {}",
            node.value.type_phrase()
        );
        let mut diagnostic = Diagnostic::error("envelope-wrong-type", node.mark, message);
        let is_scalar = !matches!(node.value, Value::List(_) | Value::Map(_) | Value::Null);
        if expected == "a string" && is_scalar {
            diagnostic = diagnostic.hint("put it in quotes");
        }
        self.diagnostics.push(diagnostic);
    }

    fn only(&mut self, map: &Map, known: &[&str], what: &str) {
        for (key, field) in map.iter() {
            if !known.contains(&&*key.text) {
                let message = format!("`{}` is no field of {what}", key.text);
                let unknown = Diagnostic::error("envelope-unknown-field", field.key_mark, message)
                    .hint(format!("there are `{}`", known.join("`, `")));
                let missing = known.iter().copied().filter(|key| !map.contains_key(key));
                self.diagnostics
                    .push(unknown.did_you_mean(&key.text, missing));
            }
        }
    }

    fn map<'n>(&mut self, node: &'n Node, place: &str) -> Option<&'n Map> {
        if node.as_map().is_none() {
            self.wrong_type(node, place, "a map");
        }
        node.as_map()
    }

    /// A list that must not be empty.
    fn list<'n>(&mut self, node: &'n Node, place: &str) -> &'n [Node] {
        match node.as_list() {
            Some([]) => {
                self.error(
                    "envelope-bad-value",
                    node.mark,
                    format!("`{place}` is empty"),
                );
                &[]
            }
            Some(list) => list,
            None => {
                self.wrong_type(node, place, "a list");
                &[]
            }
        }
    }

    fn text(&mut self, map: &Map, at: Mark, key: &str, place: &str) -> Option<(Arc<str>, Mark)> {
        let Some(node) = map.get(key) else {
            self.missing(at, place);
            return None;
        };
        match &node.value {
            Value::String(text) if text.is_empty() => {
                self.error(
                    "envelope-bad-value",
                    node.mark,
                    format!("`{place}` is empty"),
                );
                None
            }
            Value::String(text) => Some((text.clone(), node.mark)),
            _ => {
                self.wrong_type(node, place, "a string");
                None
            }
        }
    }

    fn optional_text(&mut self, map: &Map, key: &str, place: &str) -> Option<Arc<str>> {
        match &map.get(key)?.value {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.wrong_type(map.get(key)?, place, "a string");
                None
            }
        }
    }

    fn boolean(&mut self, map: &Map, key: &str, place: &str) -> bool {
        let Some(node) = map.get(key) else {
            return false;
        };
        if node.as_bool().is_none() {
            self.wrong_type(node, place, "true or false");
        }
        node.as_bool().unwrap_or(false)
    }
}

fn is_cleartext(policy: &Node) -> bool {
    policy.as_str() == Some("cleartext")
}

/// `^[A-Za-z]+/[A-Za-z]+/v\d+$`.
fn is_schema(text: &str) -> bool {
    let letters = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphabetic());
    let mut parts = text.splitn(3, '/');
    let (namespace, kind, version) = (parts.next(), parts.next(), parts.next());
    namespace.is_some_and(letters) && kind.is_some_and(letters) && version.is_some_and(is_version)
}

fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v');
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}
