//! Evidence that a deployed system has come up: its report, a port, its first boot, or only time.
//!
//! Nothing tells a controller what was installed. A URL at which the new system reports, which did not answer before,
//! proves it; a port that answers after the machine was off proves that a system has come up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::{Method, Url};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::boot::BootOverride;
use super::machine::Machine;
use super::settings::{Deploy, field};
use crate::backend::hardware::written::for_node;
use crate::backend::http::{Client, Failure, Request};
use crate::backend::{ActError, Order};
use crate::design::{HardwareBackend, NodeDesign, NodeName, Section};
use crate::guard::Guarded;

/// Between two polls of the port or the override.
const INTERVAL: Duration = Duration::from_secs(5);
/// Reports that are asked for in the same moment.
const AT_ONCE: usize = 16;

/// Where the system of a node shows that it has come up.
pub(super) struct Evidence {
    port: Option<(Arc<str>, u16)>,
    report: Option<Url>,
}

impl Evidence {
    /// Whether it proves anything.
    pub(super) fn is_proof(&self) -> bool {
        self.port.is_some() || self.report.is_some()
    }

    /// Whether a report proves all that is waited for.
    pub(super) fn is_report_alone(&self) -> bool {
        self.port.is_none() && self.report.is_some()
    }
}

/// The addresses at which the systems of a backend report, by node.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<NodeName, Url>);

impl Reports {
    /// Those of all nodes that a backend moves and that report elsewhere than at themselves.
    pub(super) fn of(site: &Guarded, backend: &HardwareBackend, deploy: &Deploy) -> Self {
        let own = site.nodes.values();
        let own = own.filter(|node| std::ptr::eq(site.guards().backend_of(node), backend));
        let reports = own.filter_map(|node| {
            let url = Url::parse(&for_node(deploy.url.as_deref()?, node)).ok()?;
            (!is_of_node(&url, node)).then(|| (node.name.clone(), url))
        });
        Self(reports.collect())
    }

    /// Refuses deploys whose reports are there before anything was done: they are of an earlier deploy, and would
    /// be noticed only when the machines are torn down. A machine that reports itself is asked once it is off.
    ///
    /// # Errors
    ///
    /// For which nodes, and where.
    pub(super) async fn verify(&self, client: &Client, order: &Order) -> Result<(), ActError> {
        let deploys = order.step.given().deploys();
        let named = deploys.iter().filter_map(|node| self.0.get_key_value(node));
        let asked = named.map(|(node, url)| async move {
            let is_there = has_reported(client, &format!("node `{node}`"), url).await;
            is_there.is_ok().then(|| format!("`{node}` at {url}"))
        });
        let asked: Vec<_> = asked.collect();
        let stale: Vec<Option<String>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let stale: Vec<String> = stale.into_iter().flatten().collect();
        if stale.is_empty() {
            return Ok(());
        }
        let text = format!(
            "`deploy.url` reports already, before anything was done, that the new system has come up: {}; clear the \
             status of the previous deploy there first",
            stale.join(", ")
        );
        Err(ActError::Permanent(Arc::from(text)))
    }
}

/// Whether an address is one of the node itself.
fn is_of_node(url: &Url, node: &NodeDesign) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = host.split('.').next().unwrap_or_default();
    name == node.name.as_str() || node.addresses.values().any(|address| **address == *host)
}

/// Whether a deployed system has reported; neither account nor session goes there.
async fn has_reported(client: &Client, subject: &str, url: &Url) -> Result<(), Failure> {
    let request = Request::new(subject, Method::GET, url.clone());
    client.send(&request).await.map(drop)
}

impl Machine<'_> {
    /// Where the system of a node shows that it has come up.
    pub(super) fn evidence(&self, node: &NodeDesign) -> Result<Evidence, ActError> {
        let deploy = &self.backend.settings.deploy;
        let port = match deploy.port {
            Some(port) => Some((self.address(node)?, port)),
            None => None,
        };
        let report = deploy
            .url
            .as_deref()
            .map(|url| Url::parse(&for_node(url, node)));
        let report = report
            .transpose()
            .map_err(|error| self.permanent(&format!("`deploy.url`: {error}")))?;
        Ok(Evidence { port, report })
    }

    /// Whether the new system has reported.
    pub(super) async fn has_reported(&self, evidence: &Evidence) -> bool {
        match &evidence.report {
            Some(url) => has_reported(&self.backend.client, &self.subject, url)
                .await
                .is_ok(),
            None => false,
        }
    }

    /// Waits for the evidence of the new system: its report, and a port; if there is neither, for its first boot.
    pub(super) async fn await_system(
        &self,
        order: &Order,
        evidence: &Evidence,
        boot_override: BootOverride,
        until: Instant,
    ) -> Result<(), ActError> {
        let progress = |text: String| order.reporter.progress(text);
        if let Some(url) = &evidence.report {
            progress("waiting for the report of the new system".to_owned());
            self.await_report(url, until).await?;
        }
        if let Some((address, port)) = &evidence.port {
            progress(format!(
                "waiting for {address}:{port} (proves that a system answers there)"
            ));
            self.await_port(address, *port, until).await?;
        }
        if evidence.is_proof() {
            return Ok(());
        }
        match boot_override {
            BootOverride::Once => {
                progress("waiting until it has booted (unverified)".to_owned());
                let time = self.backend.settings.deploy.boot_time;
                if !self.await_boot(until.min(Instant::now() + time)).await? {
                    progress(format!(
                        "{} s to boot are over, and its boot override does not show as used (unverified)",
                        time.as_secs()
                    ));
                }
                Ok(())
            }
            BootOverride::No | BootOverride::Continuous | BootOverride::Later => {
                let time = self.backend.settings.deploy.boot_time;
                progress(format!("{} s to boot (unverified)", time.as_secs()));
                sleep(time.min(until.saturating_duration_since(Instant::now()))).await;
                Ok(())
            }
        }
    }

    /// The node's address on its primary network.
    fn address(&self, node: &NodeDesign) -> Result<Arc<str>, ActError> {
        let primary = field(node, Section::Network, &["primary_network"]);
        let network = primary.and_then(|network| network.scalar_text());
        let address = network.and_then(|network| node.addresses.get(&network));
        match address {
            Some(address) => Ok(address.clone()),
            None => self.refuse(
                "`deploy.port` asks for a port, and the node has no fixed address on its primary network",
            ),
        }
    }

    async fn await_report(&self, url: &Url, until: Instant) -> Result<(), ActError> {
        loop {
            let Err(last) = has_reported(&self.backend.client, &self.subject, url).await else {
                return Ok(());
            };
            if Instant::now() + INTERVAL > until {
                let text = format!("the new system has not reported in time: {last}");
                return Err(ActError::Ambiguous(Arc::from(self.about(&text))));
            }
            sleep(INTERVAL).await;
        }
    }

    async fn await_port(&self, address: &str, port: u16, until: Instant) -> Result<(), ActError> {
        loop {
            let last = match timeout(INTERVAL, TcpStream::connect((address, port))).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() + INTERVAL > until {
                let text = format!("{address}:{port} does not answer in time: {last}");
                return Err(ActError::Ambiguous(Arc::from(self.about(&text))));
            }
            sleep(INTERVAL).await;
        }
    }

    /// Waits until its boot override shows as used; `false`: it does not in time, as some controllers never show it.
    async fn await_boot(&self, until: Instant) -> Result<bool, ActError> {
        loop {
            match self.override_is_used().await {
                Ok(true) => return Ok(true),
                Err(error @ ActError::Permanent(_)) => return Err(error),
                Ok(false) | Err(_) => {}
            }
            let interval = self
                .backend
                .settings
                .settling
                .clamp(Duration::from_millis(200), INTERVAL);
            if Instant::now() + interval > until {
                return Ok(false);
            }
            sleep(interval).await;
        }
    }

    /// Waits until the firmware has begun to boot, if the machine shows how far it is.
    pub(super) async fn await_firmware(&self, until: Instant) -> Result<(), ActError> {
        const BOOTS: [&str; 2] = ["OSBootStarted", "OSRunning"];
        loop {
            let system = self.sample().await;
            let state = match &system {
                Ok(system) => match system.text("/BootProgress/LastState") {
                    Some(state) => state,
                    None => return Ok(()),
                },
                Err(ActError::Permanent(_)) => return system.map(drop),
                Err(_) => "",
            };
            if BOOTS.contains(&state) || Instant::now() + INTERVAL > until {
                return Ok(());
            }
            sleep(self.backend.settings.settling.min(INTERVAL)).await;
        }
    }
}
