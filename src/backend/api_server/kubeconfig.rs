//! Kubeconfigs: read within limits, and told by what they lead to.
//!
//! A kubeconfig may name programs, proxies and files, and may lie in a repository that takes pull
//! requests from strangers. Its content is as secret as the tokens in it: an error names the reference and
//! the problem, never the content.

use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER};
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::settings::Settings;
use crate::backend::{Secret, SecretError, Secrets, masked};
use crate::design::Reference;

/// Fields of a user that are rotated, or are secrets.
const ROTATED: [&str; 6] = [
    "client-certificate-data",
    "client-key-data",
    "extensions",
    "password",
    "token",
    "username",
];

/// The field of a cluster that names the certificates of its authority.
const AUTHORITY: &str = "certificate-authority";

/// Where a kubeconfig comes from, and what it holds.
pub(super) enum FoundConfig {
    /// A kubeconfig.
    Config(Box<Kubeconfig>),
    /// None: the account of the pod that trueup runs in, if it runs in one.
    Pod,
}

/// Reads the kubeconfig that settings name; `again`: also if it was read before.
///
/// # Errors
///
/// It cannot be read, or is no kubeconfig; its content is not quoted.
pub(super) fn read(
    settings: &Settings,
    secrets: &dyn Secrets,
    again: bool,
) -> Result<FoundConfig, SecretError> {
    let found = match &settings.kubeconfig {
        Some(reference) => FoundConfig::Config(Box::new(read_referred(reference, secrets, again)?)),
        None => read_own(settings.context.is_some(), secrets)?,
    };
    if let FoundConfig::Config(config) = &found {
        let users = config.auth_infos.iter();
        for user in users.filter_map(|named| named.auth_info.as_ref()) {
            remember_secrets(user);
        }
    }
    Ok(found)
}

/// Makes the token and the password of a user known, which a server may repeat.
fn remember_secrets(user: &AuthInfo) {
    let fields = serde_json::to_value(user).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if let Some(token) = text("token") {
        masked::remember(token);
    }
    if let Some(password) = text("password") {
        let username = text("username").unwrap_or_default();
        masked::remember(password);
        masked::remember(&format!("{username}:{password}"));
    }
}

fn read_referred(
    reference: &Reference,
    secrets: &dyn Secrets,
    again: bool,
) -> Result<Kubeconfig, SecretError> {
    let secret = match again {
        true => secrets.reveal_again(reference),
        false => secrets.reveal(reference),
    };
    let secret =
        secret.map_err(|error| SecretError(format!("the kubeconfig cannot be read: {error}")))?;
    let parsed = Kubeconfig::from_yaml(secret.reveal());
    let mut config = parsed.map_err(|_| {
        let (kind, value) = reference.kind_and_value();
        SecretError(format!(
            "the content of {kind} `{value}` is not a kubeconfig"
        ))
    })?;
    // Paths in a kubeconfig are relative to its folder, which only a file has.
    let path: Option<PathBuf> = secrets.path(reference);
    if let Some(folder) = path.as_deref().and_then(Path::parent) {
        make_absolute(&mut config, folder);
    }
    Ok(config)
}

/// Reads the kubeconfig that kubectl would read.
fn read_own(is_required: bool, secrets: &dyn Secrets) -> Result<FoundConfig, SecretError> {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".kube/config"));
    let paths: Vec<PathBuf> = match &named {
        Some(named) => std::env::split_paths(named).collect(),
        None => home().into_iter().collect(),
    };
    for path in paths {
        let absolute = std::path::absolute(&path).unwrap_or(path);
        let reference = Reference::File(absolute.to_string_lossy().into());
        if let Some(inside) = secrets.path_in_checkout(&reference) {
            return Err(SecretError(format!(
                "the kubeconfig `{inside}` lies in the checkout, where every change of the design can change it; \
                 name it in the Backends document, so that its content is trusted with it"
            )));
        }
    }
    match Kubeconfig::read() {
        Ok(config) => Ok(FoundConfig::Config(Box::new(config))),
        Err(KubeconfigError::FindPath | KubeconfigError::ReadConfig(..)) if !is_required => {
            Ok(FoundConfig::Pod)
        }
        Err(KubeconfigError::ReadConfig(error, path)) => Err(SecretError(format!(
            "the kubeconfig `{}` cannot be read: {error}",
            path.display()
        ))),
        Err(_) => Err(SecretError(
            "`KUBECONFIG` or `~/.kube/config` is not a kubeconfig".to_owned(),
        )),
    }
}

/// Returns what the context of a kubeconfig leads to, as fields and values: every field of its cluster
/// and user except what is rotated. Authorities and the values of variables stand there as digests.
///
/// # Errors
///
/// The kubeconfig cannot be read, or names a program that lies in the checkout.
pub(in crate::backend) fn kubeconfig_facts(
    settings: &Settings,
    secrets: &dyn Secrets,
) -> Result<Vec<(String, String)>, SecretError> {
    // The program is trusted or not before it is run, and its output is as trusted as it is.
    if let Some(Reference::Exec(_) | Reference::Store(_)) = &settings.kubeconfig {
        return Ok(Vec::new());
    }
    facts(&read(settings, secrets, false)?, settings, secrets)
}

/// Returns the facts of a kubeconfig that was read.
pub(super) fn facts(
    found: &FoundConfig,
    settings: &Settings,
    secrets: &dyn Secrets,
) -> Result<Vec<(String, String)>, SecretError> {
    let mut facts = Vec::new();
    let FoundConfig::Config(config) = found else {
        facts.push(("account".to_owned(), "the pod's own".to_owned()));
        return Ok(facts);
    };
    let (cluster, user) = chosen(config, settings.context.as_deref());
    if user.is_some_and(|user| user.auth_provider.is_some()) {
        return Err(SecretError(
            "the kubeconfig's user has an `auth-provider`, which Kubernetes 1.26 has removed; use `exec`"
                .to_owned(),
        ));
    }
    for program in user.and_then(|user| user.exec.as_ref()).into_iter() {
        let words = program.command.iter().chain(program.args.iter().flatten());
        if let Some(word) = words
            .into_iter()
            .find(|word| secrets.is_path_in_checkout(word))
        {
            return Err(SecretError(format!(
                "the kubeconfig runs `{word}`, which lies in the checkout, where every change of the design \
                 can change it; move the program out of it"
            )));
        }
    }
    let value = |value: Result<Value, serde_json::Error>| value.unwrap_or(Value::Null);
    let mut cluster = cluster.map_or(Value::Null, |cluster| value(serde_json::to_value(cluster)));
    let mut user = user.map_or(Value::Null, |user| value(serde_json::to_value(user)));
    take(&mut cluster, &["extensions"]);
    take(&mut user, &ROTATED);
    if let Some(path) = cluster.get(AUTHORITY).and_then(Value::as_str) {
        let authority = authority(path, secrets)?;
        facts.push((
            format!("cluster.{AUTHORITY} → content"),
            digest(authority.reveal().as_bytes()),
        ));
    }
    for (owner, field) in [(&mut cluster, AUTHORITY), (&mut user, "client-certificate")] {
        tell_of_checkout(owner, field, secrets);
    }
    for field in ["client-key", "tokenFile"] {
        tell_of_checkout(&mut user, field, secrets);
    }
    hash_authority(&mut cluster);
    hash_variables(&mut user);
    leaves("cluster", &cluster, &mut facts);
    leaves("user", &user, &mut facts);
    Ok(facts)
}

/// Returns cluster and user of a context, or of the current one.
fn chosen<'a>(
    config: &'a Kubeconfig,
    context: Option<&str>,
) -> (Option<&'a Cluster>, Option<&'a AuthInfo>) {
    let wanted = context.or(config.current_context.as_deref());
    let named = config
        .contexts
        .iter()
        .find(|each| Some(&*each.name) == wanted);
    let Some(Context { cluster, user, .. }) = named.and_then(|named| named.context.as_ref()) else {
        return (None, None);
    };
    let found = config.clusters.iter().find(|each| each.name == *cluster);
    let users = &mut config.auth_infos.iter();
    let person = users.find(|each| Some(&each.name) == user.as_ref());
    (
        found.and_then(|named| named.cluster.as_ref()),
        person.and_then(|named| named.auth_info.as_ref()),
    )
}

fn make_absolute(config: &mut Kubeconfig, folder: &Path) {
    let put = |path: &mut Option<String>| {
        if let Some(text) = path.as_deref().filter(|text| Path::new(text).is_relative()) {
            *path = Some(folder.join(text).to_string_lossy().into_owned());
        }
    };
    let clusters = config.clusters.iter_mut();
    for cluster in clusters.filter_map(|named| named.cluster.as_mut()) {
        put(&mut cluster.certificate_authority);
    }
    let users = config.auth_infos.iter_mut();
    for user in users.filter_map(|named| named.auth_info.as_mut()) {
        put(&mut user.client_certificate);
        put(&mut user.client_key);
        put(&mut user.token_file);
        let exec = user.exec.as_mut().map(|exec| &mut exec.command);
        if let Some(command) = exec
            && command.as_deref().is_some_and(|text| text.contains('/'))
        {
            put(command);
        }
    }
}

fn take(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, _| !fields.contains(&&**name));
    }
}

/// Reads the certificates of a cluster's authority.
fn authority(path: &str, secrets: &dyn Secrets) -> Result<Secret, SecretError> {
    secrets
        .reveal(&Reference::File(path.into()))
        .map_err(|error| {
            SecretError(format!(
                "the certificates of the cluster's authority: {error}"
            ))
        })
}

/// Names a file in the checkout by its path in it, which is the same in every clone.
fn tell_of_checkout(owner: &mut Value, field: &str, secrets: &dyn Secrets) {
    let Some(path) = owner.get_mut(field) else {
        return;
    };
    let reference = Reference::File(path.as_str().unwrap_or_default().into());
    if let Some(inside) = secrets.path_in_checkout(&reference) {
        *path = Value::String(format!("{inside} of the checkout"));
    }
}

/// Puts the content of the files that the chosen cluster and user name into them; tokens are read when
/// they are used ([`super::account`]).
///
/// # Errors
///
/// One cannot be read.
pub(super) fn embed(
    config: &mut Kubeconfig,
    context: Option<&str>,
    secrets: &dyn Secrets,
) -> Result<(), SecretError> {
    let wanted = context.or(config.current_context.as_deref());
    let named = config
        .contexts
        .iter()
        .find(|each| Some(&*each.name) == wanted);
    let Some(context) = named.and_then(|named| named.context.clone()) else {
        return Ok(());
    };
    let mut clusters = config.clusters.iter_mut();
    let cluster = clusters.find(|each| each.name == context.cluster);
    if let Some(cluster) = cluster.and_then(|named| named.cluster.as_mut())
        && let Some(path) = cluster.certificate_authority.take()
        && cluster.certificate_authority_data.is_none()
    {
        let content = authority(&path, secrets)?;
        cluster.certificate_authority_data = Some(encoded(&content));
    }
    let mut users = config.auth_infos.iter_mut();
    let user = users.find(|each| Some(&each.name) == context.user.as_ref());
    let Some(user) = user.and_then(|named| named.auth_info.as_mut()) else {
        return Ok(());
    };
    let read = |path: String| secrets.reveal_again(&Reference::File(path.into()));
    if let Some(path) = user.client_certificate.take()
        && user.client_certificate_data.is_none()
    {
        user.client_certificate_data = Some(encoded(&read(path)?));
    }
    if let Some(path) = user.client_key.take()
        && user.client_key_data.is_none()
    {
        user.client_key_data = Some(encoded(&read(path)?).into());
    }
    Ok(())
}

/// The content of a file as fields of a kubeconfig hold it.
fn encoded(content: &Secret) -> String {
    BASE64.encode(content.reveal().as_bytes())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

fn hashed(bytes: &[u8]) -> Value {
    Value::String(digest(bytes))
}

/// Puts a digest in the place of the certificates of an authority.
fn hash_authority(cluster: &mut Value) {
    const DATA: &str = "certificate-authority-data";
    if let Some(data) = cluster.get_mut(DATA) {
        let text = data.as_str().unwrap_or_default().trim().to_owned();
        let bytes = BASE64.decode(text.as_bytes());
        *data = hashed(&bytes.unwrap_or_else(|_| text.into_bytes()));
    }
}

/// Puts digests in the place of the values that a program is given as variables: they may be secrets.
fn hash_variables(user: &mut Value) {
    let variables = user.pointer_mut("/exec/env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            *value = hashed(value.as_str().unwrap_or_default().as_bytes());
        }
    }
}

fn leaves(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (name, value) in map {
                leaves(&format!("{path}.{name}"), value, found);
            }
        }
        // The order of arguments counts, and a variable belongs to its value.
        Value::Array(items) => {
            for (position, value) in items.iter().enumerate() {
                leaves(&format!("{path}[{position}]"), value, found);
            }
        }
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        other => found.push((path.to_owned(), other.to_string())),
    }
}
