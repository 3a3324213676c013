//! Documents of a site that Airship has applied, out of the answers of its services.
//!
//! They are those that Deckhand rendered, so that they need neither layers nor other documents. Only kinds that machines
//! come from are taken, and no secret: a value that an encrypted document has is left out, and named in the guide.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::guide::code;
use crate::diagnostic::{Severity, SourceId, counted, is_credential};
use crate::document::{
    self, Document, Field, LoadSettings, Map, Node, Value, is_secret_kind, write_yaml,
};

/// The kinds that are taken, by the beginning of their schemas, and the file of each.
const FILES: [(&str, &str); 9] = [
    ("drydock/BaremetalNode/", "nodes.yaml"),
    ("drydock/BootAction/", "boot-actions.yaml"),
    ("drydock/HardwareProfile/", "profiles.yaml"),
    ("drydock/HostProfile/", "profiles.yaml"),
    ("drydock/Network", "networks.yaml"),
    ("drydock/Rack/", "region.yaml"),
    ("drydock/Region/", "region.yaml"),
    ("shipyard/DeploymentConfiguration/", "strategy.yaml"),
    ("shipyard/DeploymentStrategy/", "strategy.yaml"),
];

/// A shorter secret is recognised only if it is the whole value: as a part of one it may be a word.
const SHORTEST_PART: usize = 6;

/// Problems of the documents that are listed.
const MOST_PROBLEMS: usize = 20;

/// The answers of Airship about one site.
#[derive(Clone, Debug, Default)]
pub struct AirshipAnswers {
    /// The rendered documents of the last success, as YAML.
    pub documents: String,
    /// Whether secrets are among them, as they are.
    pub has_secrets: bool,
    /// The revision of the last success.
    pub revision: Arc<str>,
    /// The collections that were committed and not applied with success since.
    pub changed: Vec<Arc<str>>,
    /// The state of each machine, as its provisioner has it.
    pub machines: BTreeMap<Arc<str>, Arc<str>>,
}

/// A site out of the answers.
#[derive(Clone, Debug, Default)]
pub struct AirshipSite {
    /// Name and text of each file.
    pub files: Vec<(&'static str, String)>,
    /// How many documents are written.
    pub documents: usize,
    /// Documents that are not, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// The fields that held a secret.
    pub secrets: Vec<String>,
}

/// Makes the files of a site.
///
/// # Errors
///
/// The answer holds no documents that can be read: their problems, a line each.
pub fn airship_site(site: &str, answers: &AirshipAnswers) -> Result<AirshipSite, Vec<String>> {
    let documents = read(&answers.documents)?;
    let (taken, others): (Vec<_>, Vec<_>) = documents
        .iter()
        .partition(|document| file_of(document).is_some());
    let secrets = Secrets::of(&others);
    let mut found = AirshipSite::default();
    let mut texts: BTreeMap<&'static str, String> = BTreeMap::new();
    let mut sorted = taken;
    sorted.sort_by(|one, other| one.id.cmp(&other.id));
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    for document in sorted {
        let Some(file) = file_of(document) else {
            continue;
        };
        let name = format!("{} {}", document.id.schema, document.id.name);
        let mut removed = Removed::default();
        let data = secrets.without(&document.data, "data", &mut removed);
        let refused = match data.as_ref().and_then(Node::as_map) {
            None if !answers.has_secrets && document.is_encrypted => {
                Some("it is encrypted, and the token may not read what is")
            }
            None => Some("its data is no map"),
            Some(_) if document.is_encrypted && !removed.of_document => {
                Some("it is encrypted, and which of its values are secret is not known")
            }
            Some(_) => None,
        };
        if let Some(why) = refused {
            found.left_out.push((name, why));
            continue;
        }
        found
            .secrets
            .extend(removed.fields.iter().map(|path| format!("{name}: {path}")));
        if file == "nodes.yaml" {
            names.insert(document.id.name.clone());
        }
        found.documents += 1;
        let text = texts.entry(file).or_default();
        text.push_str("---\n");
        write_yaml(&written(document, data), true, text);
    }
    if names.is_empty() {
        return Err(vec![
            "no drydock/BaremetalNode among them can be used".to_owned(),
        ]);
    }
    found.files = texts.into_iter().collect();
    let guide = guide(site, answers, &found, (&names, &others));
    found.files.push(("ADOPTED.md", guide));
    Ok(found)
}

fn file_of(document: &Document) -> Option<&'static str> {
    let schema = &*document.id.schema;
    let row = FILES.iter().find(|(kind, _)| schema.starts_with(kind));
    row.map(|(_, file)| *file)
}

fn read(text: &str) -> Result<Vec<Arc<Document>>, Vec<String>> {
    let settings = LoadSettings {
        rendered: true,
        ..LoadSettings::default()
    };
    let loaded = document::load(SourceId(0), text, &settings);
    let errors = loaded
        .diagnostics
        .iter()
        .filter(|each| each.severity == Severity::Error);
    let problems: Vec<String> = errors
        .take(MOST_PROBLEMS)
        .map(|each| match each.mark {
            Some(mark) => {
                let before = text.get(..mark.offset as usize).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                format!("line {line}: {}", each.message)
            }
            None => each.message.clone(),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(loaded.documents),
        false => Err(problems),
    }
}

/// The document as it is written: what was rendered needs no layering.
fn written(document: &Document, data: Option<Node>) -> Node {
    let map = |fields: Vec<(&str, Node)>| {
        let mut map = Map::new();
        for (key, node) in fields {
            map.set(key, node);
        }
        Node::new(Value::Map(Arc::new(map)), document.mark)
    };
    let text = |text: &Arc<str>| Node::new(Value::String(text.clone()), document.mark);
    map(vec![
        ("schema", text(&document.id.schema)),
        ("metadata", map(vec![("name", text(&document.id.name))])),
        ("data", data.unwrap_or_else(|| map(Vec::new()))),
    ])
}

/// Fields that are left out of a document.
#[derive(Default)]
struct Removed {
    fields: Vec<String>,
    /// Whether one of them had the value of a secret document.
    of_document: bool,
}

impl Removed {
    fn note(&mut self, path: String, of_document: bool) {
        self.fields.push(path);
        self.of_document |= of_document;
    }
}

/// The values of documents that are encrypted, or of a kind that holds secrets alone.
struct Secrets {
    whole: BTreeSet<String>,
    parts: Option<AhoCorasick>,
}

impl Secrets {
    fn of(documents: &[&Arc<Document>]) -> Self {
        let mut whole = BTreeSet::new();
        let is_secret = |document: &&&Arc<Document>| {
            let schema = &*document.id.schema;
            document.is_encrypted || is_secret_kind(schema)
        };
        for document in documents.iter().filter(is_secret) {
            leaves(&document.data, &mut whole);
        }
        let long = whole.iter().filter(|value| value.len() >= SHORTEST_PART);
        let parts = AhoCorasick::new(long).ok();
        Self { whole, parts }
    }

    fn is_secret(&self, text: &str) -> bool {
        let has_part = |parts: &AhoCorasick| parts.is_match(text);
        self.whole.contains(text.trim()) || self.parts.as_ref().is_some_and(has_part)
    }

    /// The value without those that hold a secret, whose paths are noted.
    fn without(&self, node: &Node, path: &str, removed: &mut Removed) -> Option<Node> {
        let value = match &node.value {
            Value::Map(fields) => {
                let mut kept = Map::new();
                for (key, field) in fields.iter() {
                    let path = format!("{path}.{}", key.text);
                    if self.is_secret(&key.text) {
                        removed.note(path, true);
                    } else if let Some(node) = self.without(&field.node, &path, removed) {
                        let is_text = node.as_str().is_some_and(|text| !text.is_empty());
                        match is_text && is_credential(&key.text) {
                            true => removed.note(path, false),
                            false => {
                                let field = Field {
                                    node,
                                    ..field.clone()
                                };
                                kept.insert(key.clone(), field);
                            }
                        }
                    }
                }
                Value::Map(Arc::new(kept))
            }
            Value::List(items) => {
                let items = items.iter().enumerate();
                let kept = items.filter_map(|(index, item)| {
                    self.without(item, &format!("{path}[{index}]"), removed)
                });
                Value::List(Arc::new(kept.collect()))
            }
            scalar => {
                let text = scalar.scalar_text();
                if text.is_some_and(|text| self.is_secret(&text)) {
                    removed.note(path.to_owned(), true);
                    return None;
                }
                scalar.clone()
            }
        };
        Some(Node::new(value, node.mark))
    }
}

/// All texts of a value.
fn leaves(node: &Node, found: &mut BTreeSet<String>) {
    match &node.value {
        Value::Map(fields) => fields
            .iter()
            .for_each(|(_, field)| leaves(&field.node, found)),
        Value::List(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::String(text) if !text.trim().is_empty() => {
            found.insert(text.trim().to_owned());
        }
        _ => {}
    }
}

fn guide(
    site: &str,
    answers: &AirshipAnswers,
    found: &AirshipSite,
    (names, others): (&BTreeSet<Arc<str>>, &[&Arc<Document>]),
) -> String {
    let mut text = format!(
        "# Site {}, taken over from Airship\n\n{} of revision {}, the last one that was applied with success, as \
         they were rendered. Nothing was changed in Airship.\n\n`trueup plan` shows the machines as adoptions. `trueup apply \
         --adopt all` writes their records and changes no machine; what was not compared is recorded as adopted, assumed.\n",
        code(site),
        counted(found.documents, "document", "documents"),
        code(&answers.revision),
    );
    let mut list = |title: &str, about: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n## {title}\n\n{about}\n");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
    };
    list(
        "Secrets",
        "These fields held the value of a secret document, or have the name of a credential, and are left out. Where trueup needs \
         one, its document names it by reference.",
        found.secrets.iter().map(|field| code(field)).collect(),
    );
    list(
        "Left out",
        "Machines may need these; they are to be written by hand.",
        found
            .left_out
            .iter()
            .map(|(name, why)| format!("{}: {why}", code(name)))
            .collect(),
    );
    let is_deployed = |status: &str| status.to_lowercase().starts_with("deployed");
    let machines = answers.machines.iter();
    let without = machines
        .clone()
        .filter(|(name, _)| !names.contains(*name))
        .map(|(name, status)| {
            format!(
                "{}: {}, and no document describes it",
                code(name),
                code(status)
            )
        });
    let not_deployed = machines
        .filter(|(name, status)| names.contains(*name) && !is_deployed(status))
        .map(|(name, status)| {
            format!(
                "{}: {}, so that a plan deploys it",
                code(name),
                code(status)
            )
        });
    list(
        "Machines",
        "As the provisioner of Airship had them.",
        without.chain(not_deployed).collect(),
    );
    list(
        "Not applied",
        "These collections were committed in Airship and not applied with success since. Their changes are not in the documents.",
        answers.changed.iter().map(|name| code(name)).collect(),
    );
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for document in others {
        *kinds.entry(&document.id.schema).or_default() += 1;
    }
    list(
        "Other kinds",
        "No machine comes from these documents, and they are not written.",
        kinds
            .into_iter()
            .map(|(kind, count)| format!("{}: {count}", code(kind)))
            .collect(),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENDERED: &str = "---\n\
        schema: deckhand/Passphrase/v1\nmetadata: {schema: metadata/Document/v1, name: oob, storagePolicy: encrypted, layeringDefinition: {abstract: false, layer: site}}\ndata: hunter2hunter2\nid: 1\nstatus: {bucket: secrets, revision: 7}\n\
        ---\nschema: drydock/HostProfile/v1\nmetadata: {schema: metadata/Document/v1, name: cp, storagePolicy: encrypted, layeringDefinition: {abstract: false, layer: site, parentSelector: {hosttype: cp-global}, actions: [{method: merge, path: .}]}, substitutions: [{src: {schema: deckhand/Passphrase/v1, name: oob, path: .}, dest: {path: .oob.credential}}]}\ndata: {hardware_profile: r720, oob: {type: ipmi, account: root, credential: hunter2hunter2}, platform: {image: xenial, kernel_params: {note: \"pass=hunter2hunter2\"}}}\n\
        ---\nschema: drydock/BaremetalNode/v1\nmetadata: {schema: metadata/Document/v1, name: n1, storagePolicy: cleartext, layeringDefinition: {abstract: false, layer: site}}\ndata: {host_profile: cp, addressing: []}\n\
        ---\nschema: armada/Chart/v1\nmetadata: {schema: metadata/Document/v1, name: ceph, storagePolicy: cleartext, layeringDefinition: {abstract: false, layer: site}}\ndata: {chart_name: ceph}\n";

    fn answers(documents: &str, has_secrets: bool) -> AirshipAnswers {
        AirshipAnswers {
            documents: documents.to_owned(),
            has_secrets,
            revision: Arc::from("7"),
            changed: vec![Arc::from("site")],
            machines: [("n1", "Deployed"), ("n9", "Ready")]
                .map(|(name, status)| (Arc::from(name), Arc::from(status)))
                .into(),
        }
    }

    #[test]
    fn machines_come_without_secrets_and_without_what_only_airship_needs() {
        let site = airship_site("edge", &answers(RENDERED, true)).unwrap();
        let all: String = site.files.iter().map(|(_, text)| text.as_str()).collect();
        assert!(!all.contains("hunter2"), "{all}");
        let names: Vec<&str> = site.files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["nodes.yaml", "profiles.yaml", "ADOPTED.md"]);
        assert_eq!(
            site.secrets,
            [
                "drydock/HostProfile/v1 cp: data.oob.credential",
                "drydock/HostProfile/v1 cp: data.platform.kernel_params.note",
            ]
        );
        let profile = &site.files[1].1;
        assert!(profile.contains("account: root") && !profile.contains("parentSelector"));
        let guide = &site.files[2].1;
        for words in [
            "2 documents of revision `7`",
            "`armada/Chart/v1`: 1",
            "`deckhand/Passphrase/v1`: 1",
            "`n9`: `Ready`, and no document describes it",
            "## Not applied",
        ] {
            assert!(guide.contains(words), "{words} in {guide}");
        }
        assert!(!guide.contains("`n1`: `Deployed`"));
    }

    #[test]
    fn what_is_encrypted_and_not_understood_is_left_out_with_the_reason() {
        let digest = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
        let redacted = RENDERED
            .replace("data: hunter2hunter2", &format!("data: {digest}"))
            .replace("data: {hardware_profile: r720, oob: {type: ipmi, account: root, credential: hunter2hunter2}, platform: {image: xenial, kernel_params: {note: \"pass=hunter2hunter2\"}}}", &format!("data: {digest}"));
        let site = airship_site("edge", &answers(&redacted, false)).unwrap();
        assert_eq!(
            site.left_out,
            [(
                "drydock/HostProfile/v1 cp".to_owned(),
                "it is encrypted, and the token may not read what is"
            )]
        );
        let unknown = RENDERED.replace("data: hunter2hunter2", "data: another");
        let site = airship_site("edge", &answers(&unknown, true)).unwrap();
        assert!(site.left_out[0].1.contains("is not known"));
        // A credential is left out by its name, whatever no document has.
        let clear = unknown.replace(
            "name: cp, storagePolicy: encrypted",
            "name: cp, storagePolicy: cleartext",
        );
        let named = airship_site("edge", &answers(&clear, true)).unwrap();
        assert_eq!(
            named.secrets,
            ["drydock/HostProfile/v1 cp: data.oob.credential"]
        );
        assert!(!site.files.iter().any(|(_, text)| text.contains("hunter2")));
    }

    #[test]
    fn answers_without_machines_or_without_documents_are_refused() {
        let problems = |text: &str| airship_site("edge", &answers(text, true)).unwrap_err();
        assert!(problems("").concat().contains("no drydock/BaremetalNode"));
        assert!(problems("a: [").concat().starts_with("line "));
    }
}
