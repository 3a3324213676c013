//! The way to a cluster's API server, opened when it is first needed.
//!
//! Nothing is asked of the server when a site is opened, so that a server that is down costs nothing to
//! who does not need it, and gives a clear error to who does. All ways of kube to say who one is are
//! there: certificates, tokens, programs, OpenID Connect, proxies.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Mutex;

use super::call::{Server, Trouble};
use super::settings::Settings;
use crate::backend::Secrets;
use crate::design::Reference;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// A cluster that can be reached, or not.
#[derive(Debug)]
pub(in crate::backend) struct Connection {
    settings: Settings,
    secrets: Arc<dyn Secrets>,
    server: Mutex<Option<Server>>,
}

impl Connection {
    /// A way that is not gone yet.
    pub(in crate::backend) fn new(settings: Settings, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            settings,
            secrets,
            server: Mutex::new(None),
        }
    }

    /// How the cluster is reached.
    pub(in crate::backend) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The server; opened again where what it knows of us is no longer valid.
    ///
    /// # Errors
    ///
    /// The kubeconfig cannot be had or used.
    pub(in crate::backend) async fn server(&self) -> Result<Server, Trouble> {
        let mut server = self.server.lock().await;
        if let Some(server) = &*server
            && server.is_valid()
        {
            return Ok(server.clone());
        }
        let config = self
            .config()
            .await
            .map_err(|problem| self.trouble(&problem))?;
        let client = Client::try_from(config).map_err(|error| self.trouble(&chain(&error)))?;
        let opened = Server::new(client, self.settings.name.clone());
        *server = Some(opened.clone());
        Ok(opened)
    }

    fn trouble(&self, problem: &str) -> Trouble {
        Trouble::Unusable(format!(
            "{problem}; see `clusters.{}` of the site's Backends document",
            self.settings.name
        ))
    }

    async fn config(&self) -> Result<Config, String> {
        let options = KubeConfigOptions {
            context: self.settings.context.as_deref().map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = match &self.settings.kubeconfig {
            Some(reference) => {
                let kubeconfig = self.kubeconfig(reference)?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|e| chain(&e))
            }
            // A context is one of a kubeconfig: inside a pod there is none.
            None if options.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .map_err(|error| chain(&error)),
            None => Config::infer().await.map_err(|error| chain(&error)),
        };
        let mut config =
            config.map_err(|problem| format!("its kubeconfig does not fit: {problem}"))?;
        config.connect_timeout = Some(CONNECT);
        // What is tried again, and how often, is each step's to say.
        config.default_retry = false;
        Ok(config)
    }

    fn kubeconfig(&self, reference: &Reference) -> Result<Kubeconfig, String> {
        let read = |kubeconfig: Result<Kubeconfig, _>| {
            kubeconfig.map_err(|error: kube::config::KubeconfigError| {
                format!("its kubeconfig cannot be read: {}", chain(&error))
            })
        };
        // Paths in a kubeconfig are meant from where it lies, which only a file has.
        let path: Option<PathBuf> = self.secrets.path(reference);
        if let Some(path) = path {
            return read(Kubeconfig::read_from(path));
        }
        let secret = self.secrets.reveal(reference);
        let secret = secret.map_err(|error| format!("its kubeconfig cannot be had: {error}"))?;
        read(Kubeconfig::from_yaml(secret.reveal()))
    }
}

/// An error with its causes, those left out that its own text repeats; kube's own words for where in it the
/// error came up (`ServiceError:`) say nothing to anybody else.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    match text
        .strip_prefix("ServiceError: ")
        .or_else(|| text.strip_prefix("HyperError: "))
    {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
