//! The way to a cluster's API server, opened when it is first needed.
//!
//! Nothing is asked of the server when a site is opened, so that a server that is down costs nothing to
//! who does not need it, and gives a clear error to who does. An account is a certificate, a token, a password,
//! a file or a program.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, KubeconfigError};
use kube::{Client, Config};
use tokio::sync::Mutex;

use super::account;
use super::call::{ApiError, Server, causes};
use super::kubeconfig::{self, FoundConfig};
use super::settings::Settings;
use crate::backend::http::{PLAIN_HTTP, is_loopback};
use crate::backend::{SecretError, Secrets};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// A cluster that can be reached, or not.
#[derive(Debug)]
pub(in crate::backend) struct Connection {
    settings: Settings,
    secrets: Arc<dyn Secrets>,
    server: Mutex<Option<Server>>,
    /// The facts of its kubeconfig at the first read, which were trusted.
    facts: OnceLock<Vec<(String, String)>>,
}

impl Connection {
    /// A way that is not gone yet.
    pub(in crate::backend) fn new(settings: Settings, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            settings,
            secrets,
            server: Mutex::new(None),
            facts: OnceLock::new(),
        }
    }

    /// How the cluster is reached.
    pub(in crate::backend) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The server; opened again if what it knows of us is no longer valid.
    ///
    /// # Errors
    ///
    /// The kubeconfig cannot be had or used.
    pub(in crate::backend) async fn server(&self) -> Result<Server, ApiError> {
        let mut server = self.server.lock().await;
        if let Some(server) = &*server
            && server.is_valid()
        {
            return Ok(server.clone());
        }
        let (config, until) = self
            .config()
            .await
            .map_err(|problem| self.act_error(&problem))?;
        let client = Client::try_from(config).map_err(|error| self.act_error(&causes(&error)))?;
        let opened = Server::new(client, self.settings.name.clone(), until);
        *server = Some(opened.clone());
        Ok(opened)
    }

    fn act_error(&self, problem: &str) -> ApiError {
        ApiError::Unusable(format!(
            "{problem}; see `clusters.{}` of the site's Backends document",
            self.settings.name
        ))
    }

    /// The configuration of a client, and until when its credential counts.
    async fn config(&self) -> Result<(Config, Option<Timestamp>), String> {
        let options = KubeConfigOptions {
            context: self.settings.context.as_deref().map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let (settings, secrets) = (self.settings.clone(), self.secrets.clone());
        // A reference may be a program or a large file.
        let again = self.facts.get().is_some();
        let read = tokio::task::spawn_blocking(move || {
            let found = kubeconfig::read(&settings, &*secrets, again)?;
            let facts = kubeconfig::facts(&found, &settings, &*secrets)?;
            Ok::<_, SecretError>((found, facts))
        });
        let read = read.await.map_err(|error| error.to_string())?;
        let (mut found, facts) = read.map_err(|error| error.to_string())?;
        if *self.facts.get_or_init(|| facts.clone()) != facts {
            return Err(
                "the kubeconfig leads elsewhere than when it was trusted; run the command again"
                    .to_owned(),
            );
        }
        if let FoundConfig::Config(config) = &mut found {
            let context = self.settings.context.as_deref();
            kubeconfig::embed(config, context, &*self.secrets)
                .map_err(|error| error.to_string())?;
        }
        let mut config = match found {
            FoundConfig::Config(config) => Config::from_custom_kubeconfig(*config, &options)
                .await
                .map_err(|error| unusable(&error))?,
            FoundConfig::Pod => Config::incluster().map_err(|error| causes(&error))?,
        };
        self.refuse_plain_http(&config)?;
        config.connect_timeout = Some(CONNECT);
        let agent = HeaderValue::from_static(crate::USER_AGENT);
        config.headers.push((USER_AGENT, agent));
        // Retries are decided by each step.
        config.default_retry = false;
        let secrets = self.secrets.clone();
        let settled = tokio::task::spawn_blocking(move || {
            let until = account::settle(&mut config.auth_info, &*secrets)?;
            Ok::<_, SecretError>((config, until))
        });
        let settled = settled.await.map_err(|error| error.to_string())?;
        let (config, until) = settled.map_err(|error| error.to_string())?;
        match account::expired(&config.auth_info, Timestamp::now()) {
            Some(end) => Err(format!("its client certificate expired at {end}; renew it")),
            None => Ok((config, until)),
        }
    }

    /// Refuses to send credentials over plain HTTP beyond this machine.
    fn refuse_plain_http(&self, config: &Config) -> Result<(), String> {
        let is_plain = config.cluster_url.scheme_str() == Some("http");
        let host = config.cluster_url.host().unwrap_or_default();
        let user = &config.auth_info;
        // A proxy reads what goes through it, wherever the server is.
        let proxy = config.proxy_url.as_ref().and_then(|proxy| proxy.host());
        let is_here = is_loopback(host) && proxy.is_none_or(is_loopback);
        let has_credential = user.token.is_some()
            || user.token_file.is_some()
            || user.password.is_some()
            || user.exec.is_some();
        if is_plain && has_credential && !is_here && !self.settings.allows_plain_http {
            return Err(PLAIN_HTTP.to_owned());
        }
        Ok(())
    }
}

/// Why a kubeconfig cannot be used. What is wrong inside it is named only if that quotes nothing of it.
fn unusable(error: &KubeconfigError) -> String {
    let why = match error {
        KubeconfigError::CurrentContextNotSet => "it has no current context",
        // The name is the document's, or that of the current one.
        KubeconfigError::LoadContext(name) => {
            return format!("the kubeconfig cannot be used: it has no context `{name}`");
        }
        KubeconfigError::LoadClusterOfContext(_) => {
            "its context names a cluster that it does not have"
        }
        KubeconfigError::MissingClusterUrl => "its cluster has no server",
        KubeconfigError::ParseClusterUrl(_) => "the server of its cluster is not a URL",
        KubeconfigError::ParseProxyUrl(_) => "the proxy of its cluster is not a URL",
        KubeconfigError::LoadCertificateAuthority(_) => {
            "the certificates of its authority cannot be read"
        }
        KubeconfigError::LoadClientCertificate(_) => "its client certificate cannot be read",
        KubeconfigError::LoadClientKey(_) => "its client key cannot be read",
        _ => "its content does not fit",
    };
    format!("the kubeconfig cannot be used: {why}")
}
