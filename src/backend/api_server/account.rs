//! The account at an API server: what a kubeconfig's token file or program gives, read within limits.
//!
//! The client library would read such files without a bound and run such programs in the working folder
//! with what it finds there. Here both go through [`Secrets`], like every secret, so that a change of the
//! design cannot put its own in their place, and what they give is masked wherever a server repeats it.

use std::io::IsTerminal as _;
use std::time::Duration;

use data_encoding::BASE64;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

use crate::backend::{Plugin, SecretError, Secrets, masked};
use crate::design::Reference;

/// How long a token from a file is used before the file is read again; a mounted token is renewed long before
/// it expires.
const TOKEN_FILE: Duration = Duration::from_secs(300);

/// How long before its end a credential is renewed.
const MARGIN: Duration = Duration::from_secs(60);

/// The output of a credential program (`client.authentication.k8s.io`).
#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// When the client certificate of a user has expired; `None` if it counts, or there is none.
pub(super) fn expired(user: &AuthInfo, now: Timestamp) -> Option<Timestamp> {
    let written = user.client_certificate_data.as_ref()?;
    let pem = BASE64.decode(written.as_bytes()).ok()?;
    crate::backend::http::expired(&pem, now)
}

/// Puts what the token file or the program of a user gives in the place of its name, and returns until when
/// it counts.
///
/// # Errors
///
/// The file cannot be read, or the program fails or prints something else.
pub(super) fn settle(
    user: &mut AuthInfo,
    secrets: &dyn Secrets,
) -> Result<Option<Timestamp>, SecretError> {
    if let Some(exec) = user.exec.take() {
        return printed(user, &exec, secrets);
    }
    let path = user.token_file.take();
    let (None, Some(path)) = (&user.token, path) else {
        return Ok(None);
    };
    let token = secrets.reveal_again(&Reference::File(path.into()))?;
    user.token = Some(token.reveal().to_owned().into());
    Ok(Some(Timestamp::now() + TOKEN_FILE))
}

fn printed(
    user: &mut AuthInfo,
    exec: &ExecConfig,
    secrets: &dyn Secrets,
) -> Result<Option<Timestamp>, SecretError> {
    let plugin = plugin(exec)?;
    let printed = secrets.run_plugin(&plugin)?;
    // What it printed is not quoted: it may be a token.
    let refuse = |what: &str| {
        SecretError(format!(
            "the kubeconfig's program `{}` {what}",
            plugin.words[0]
        ))
    };
    let printed: Printed =
        serde_json::from_str(printed.reveal()).map_err(|_| refuse("printed no ExecCredential"))?;
    let status = printed
        .status
        .ok_or_else(|| refuse("printed no credential"))?;
    if let Some(token) = status.token {
        masked::remember(&token);
        user.token = Some(token.into());
    }
    if let (Some(certificate), Some(key)) = (status.client_certificate_data, status.client_key_data)
    {
        masked::remember(&key);
        user.client_certificate_data = Some(BASE64.encode(certificate.as_bytes()));
        user.client_key_data = Some(BASE64.encode(key.as_bytes()).into());
    }
    if user.token.is_none() && user.client_certificate_data.is_none() {
        return Err(refuse(
            "printed neither a token nor a certificate with its key",
        ));
    }
    Ok(status.expiration_timestamp.map(|until| until - MARGIN))
}

/// The program of a kubeconfig with all that it is given.
fn plugin(exec: &ExecConfig) -> Result<Plugin, SecretError> {
    let command = exec.command.as_ref();
    let command = command.ok_or_else(|| {
        SecretError("the kubeconfig's user has an `exec` without a command".to_owned())
    })?;
    let may_ask = exec.interactive_mode != Some(ExecInteractiveMode::Never);
    let is_interactive = may_ask && std::io::stdin().is_terminal();
    let mut spec = json!({ "interactive": is_interactive });
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let information = json!({
        "apiVersion": exec.api_version,
        "kind": "ExecCredential",
        "spec": spec,
    });
    let written = exec.env.iter().flatten();
    let written =
        written.filter_map(|each| Some((each.get("name")?.clone(), each.get("value")?.clone())));
    let information = ("KUBERNETES_EXEC_INFO".to_owned(), information.to_string());
    let arguments = exec.args.iter().flatten();
    Ok(Plugin {
        words: [command]
            .into_iter()
            .chain(arguments)
            .map(|word| word.as_str().into())
            .collect(),
        variables: written.chain([information]).collect(),
        is_interactive,
    })
}
