//! The reach of a site: everything outside the process that its documents let trueup use.
//!
//! Documents can be changed in any pull request, and they name endpoints, address ranges,
//! variables, files and programs. The reach lists them in one canonical form with a digest, so that an
//! operator can trust it once and be asked again when it changes. The list is made fail-closed: every
//! value of the Backends document belongs to it, except those of fields that are known to be harmless
//! ([`HARMLESS`]). The simulator uses nothing and has no reach.

use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::api_server::{self, kubeconfig_facts};
use super::cluster::named::is_real;
use super::{SecretError, Secrets};
use crate::design::{BackendKind, Guards, HardwareBackend, Reference};
use crate::diagnostic::{is_credential, without_credentials};
use crate::document::{Node, REDACTED, Value};

/// Fields that change how long or how carefully something is done, but not what is used for it.
const HARMLESS: [&str; 13] = [
    "boot_time",
    "create",
    "erase",
    "error_limit",
    "inspect",
    "interfaces",
    "operating_system_drive",
    "properties",
    "request_timeout",
    "resource_class",
    "settling_time",
    "shutdown_time",
    "traits",
];

/// One thing that documents let trueup use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct ReachEntry {
    /// The field (`hardware.redfish.credentials.password.env`).
    pub path: Arc<str>,
    /// The field's value.
    pub value: Arc<str>,
}

impl fmt::Display for ReachEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value } = self;
        let words = [
            (".env", "environment variable"),
            (".file", "file"),
            (".exec", "program"),
            (".store", "program"),
        ];
        let referred = words
            .iter()
            .find_map(|(end, word)| Some((path.strip_suffix(end)?, word)));
        match referred {
            Some((path, word)) => write!(f, "{path}: {word} {value}"),
            None => write!(f, "{path}: {}", without_credentials(value)),
        }
    }
}

/// The endpoints, files, variables and programs that a site's documents name.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    entries: Vec<ReachEntry>,
    kubeconfigs: Vec<api_server::Settings>,
    authorities: Vec<(Arc<str>, Reference)>,
}

impl Reach {
    /// Returns the reach of a design.
    #[must_use]
    pub fn of(guards: &Guards) -> Self {
        let mut reach = Self::default();
        let backends = &guards.backends;
        reach.hardware("hardware", &backends.hardware);
        for (position, (_, backend)) in backends.overrides.iter().enumerate() {
            reach.hardware(&format!("overrides[{position}].hardware"), backend);
        }
        reach.clusters(guards);
        if is_real(guards) {
            reach.etcd(guards);
        }
        if let Some(notify) = backends.data.as_ref().and_then(|data| data.get("notify")) {
            reach.leaves("notify", notify);
        }
        if reach.entries.is_empty() {
            return reach;
        }
        if backends.allow_plain_http {
            reach.push("allow_plain_http", "true");
        }
        for name in &backends.exec_environment {
            reach.push("exec_environment", name);
        }
        reach.entries.sort_unstable();
        reach.entries.dedup();
        reach
    }

    /// Whether nothing outside the process is used: all backends are simulators.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that the documents name, sorted.
    #[must_use]
    pub fn entries(&self) -> &[ReachEntry] {
        &self.entries
    }

    /// Everything that the documents name, and what the files among that lead to: the servers,
    /// authorities, proxies and programs of kubeconfigs, and the certificates that are trusted. Tokens
    /// and client certificates are left out, so that they can be rotated. Runs no program.
    ///
    /// # Errors
    ///
    /// A file or variable cannot be read; names the reference.
    pub fn resolved(&self, secrets: &dyn Secrets) -> Result<Vec<ReachEntry>, SecretError> {
        let mut entries = self.entries.clone();
        for settings in &self.kubeconfigs {
            let facts = kubeconfig_facts(settings, secrets)?;
            entries.extend(facts.into_iter().map(|(path, value)| ReachEntry {
                path: Arc::from(format!("clusters.{}.kubeconfig → {path}", settings.name)),
                value: Arc::from(value),
            }));
        }
        for (path, reference) in &self.authorities {
            if secrets.path_in_checkout(reference).is_some() {
                let secret = secrets.reveal(reference)?;
                let digest = Sha256::digest(secret.reveal().as_bytes());
                entries.push(ReachEntry {
                    path: Arc::from(format!("{path} → content")),
                    value: Arc::from(format!("sha256:{}", HEXLOWER.encode(&digest))),
                });
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(entries)
    }

    fn push(&mut self, path: &str, value: &str) {
        self.entries.push(ReachEntry {
            path: Arc::from(path),
            value: Arc::from(value),
        });
    }

    fn hardware(&mut self, path: &str, backend: &HardwareBackend) {
        let kind = backend.kind.as_str();
        match backend.kind {
            BackendKind::Sim | BackendKind::None => return,
            BackendKind::Ipmi => self.push(&format!("{path}.ipmi.exec"), "ipmitool"),
            _ => self.push(&format!("{path}.kind"), kind),
        }
        if let Some(settings) = &backend.settings {
            self.leaves(&format!("{path}.{kind}"), settings);
        }
    }

    fn clusters(&mut self, guards: &Guards) {
        let data = guards.backends.data.as_ref();
        let clusters = data.and_then(|data| data.get("clusters"));
        let Some(clusters) = clusters.and_then(Node::as_map) else {
            return;
        };
        for (name, field) in clusters.iter() {
            let Some(settings) = api_server::Settings::read(guards, &name.text) else {
                continue;
            };
            let path = format!("clusters.{}", name.text);
            self.push(&format!("{path}.kind"), "kubernetes");
            if settings.kubeconfig.is_none() {
                self.push(&format!("{path}.kubeconfig"), "where kubectl looks for it");
            }
            self.leaves(&path, &field.node);
            self.kubeconfigs.push(settings);
        }
    }

    fn etcd(&mut self, guards: &Guards) {
        for cluster in &guards.etcd_clusters {
            let path = format!("etcd.{}", cluster.name);
            for member in &cluster.members {
                self.push(&format!("{path}.client_url"), &member.client_url);
            }
            for (name, reference) in &cluster.credentials {
                let path = format!("{path}.credentials.{name}");
                let (kind, value) = reference.kind_and_value();
                self.push(&format!("{path}.{kind}"), &value);
                if &**name == "ca" {
                    self.authorities.push((Arc::from(path), reference.clone()));
                }
            }
        }
    }

    /// Adds every value below a node, except those of harmless fields.
    fn leaves(&mut self, path: &str, node: &Node) {
        if let Some(reference) = Reference::read(node) {
            let (kind, value) = reference.kind_and_value();
            self.push(&format!("{path}.{kind}"), &value);
            if path.ends_with(".ca") {
                self.authorities.push((Arc::from(path), reference));
            }
            return;
        }
        match &node.value {
            Value::Map(fields) => {
                let fields = fields.iter();
                for (key, field) in fields.filter(|(key, _)| !HARMLESS.contains(&&*key.text)) {
                    let path = format!("{path}.{}", key.text);
                    match is_credential(&key.text) && Reference::read(&field.node).is_none() {
                        // No backend takes one, and it must not be shown here.
                        true => self.push(&path, "written in the document"),
                        false => self.leaves(&path, &field.node),
                    }
                }
            }
            Value::List(items) => {
                for item in items.iter() {
                    self.leaves(path, item);
                }
            }
            _ if node.is_secret() => self.push(path, &told_apart(node)),
            Value::Bool(flag) => self.push(path, if *flag { "true" } else { "false" }),
            _ => {
                if let Some(text) = node.scalar_text() {
                    self.push(path, &text);
                }
            }
        }
    }
}

/// Returns what stands for a value that an encrypted document holds, so that another one shows.
fn told_apart(node: &Node) -> String {
    let origin = node.secret.as_ref();
    let origin = origin.map(|origin| HEXLOWER.encode(origin.sum()));
    format!("{REDACTED} from {}", origin.unwrap_or_default())
}

/// Returns the digest of a sorted list of entries.
#[must_use]
pub fn digest(entries: &[ReachEntry]) -> String {
    let mut hash = Sha256::new();
    hash.update("trueup reach 1\n");
    for ReachEntry { path, value } in entries {
        for text in [path, value] {
            hash.update(text.len().to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Why a reach may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Untrusted {
    /// The entries that are not trusted, by name.
    pub message: String,
    /// The ways out.
    pub hints: Vec<String>,
}

/// Decides whether a reach may be used.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Lets a reach be used, or says why not. Never called with an empty reach.
    ///
    /// # Errors
    ///
    /// It is not trusted by an operator with the right to trust it.
    fn admit(&self, reach: &Reach, secrets: &dyn Secrets) -> Result<(), Untrusted>;
}

/// Lets every reach be used: for tests, and for callers that decided before.
#[derive(Clone, Copy, Debug)]
pub struct EveryReach;

impl Gate for EveryReach {
    fn admit(&self, _: &Reach, _: &dyn Secrets) -> Result<(), Untrusted> {
        Ok(())
    }
}
