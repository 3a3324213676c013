//! Deploying over plain Redfish: off, boot override, on, and wait for as much as can be observed.
//!
//! Nothing tells a controller what was installed. A URL at which the new system reports, which did not answer
//! before, proves it; a port that answers after the machine was off proves that a system has come up. Without
//! either the deploy ends unverified, which plan and step say. Until the machine is
//! switched on everything can be done again; after that a crash leaves it ambiguous.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::boot::BootOverride;
use super::machine::Machine;
use super::notes::{Before, Note, RequestState, state};
use super::settings::{Source, field};
use super::time_of;
use crate::backend::hardware::written::for_node;
use crate::backend::http::Request;
use crate::backend::{ActError, Order, Probe};
use crate::design::{NodeDesign, Section};

/// The note before the machine is switched on.
const BOOT: &str = "boot";
/// Between two polls of the port or the override.
const INTERVAL: Duration = Duration::from_secs(5);

/// How far a deploy came: until the machine is to be switched on, everything can be done again.
pub(super) fn probe(order: &Order, node: &NodeDesign) -> Probe {
    if state(&order.notes, BOOT) == RequestState::NotAsked {
        return Probe::NotBegun;
    }
    Probe::Ambiguous(Arc::from(format!(
        "node `{}` was switched on to be deployed, and its progress is unknown: check its console, \
         and whether it is the new system that answers",
        node.name
    )))
}

impl Machine<'_> {
    /// Has it boot into what installs or is its system.
    pub(super) async fn deploy(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let settings = &self.backend.settings;
        let until = Instant::now() + time_of(order);
        let answers_at = match settings.deploy.port {
            Some(port) => Some((self.address(node)?, port)),
            None => None,
        };
        let reports_at = match &settings.deploy.url {
            Some(url) => Some(self.report_url(url, node)?),
            None => None,
        };
        self.switch_off(order, Duration::ZERO).await?;
        if let Some(url) = &reports_at
            && self.has_reported(url).await.is_ok()
        {
            return self.refuse(
                "`deploy.url` reports that the system has come up before it was installed: clear the status of the \
                 previous deploy at that URL first",
            );
        }
        if settings.deploy.from == Source::VirtualMedia {
            order.reporter.progress("inserting the image");
            self.insert(node).await?;
        }
        order.reporter.progress("setting from where it boots");
        let boot_override = self.boot_next(node).await?;
        let note = Note::Asked {
            what: Arc::from(BOOT),
            before: Before::default(),
        };
        self.note(order, note).await?;
        self.switch_on(order).await?;
        if let Some(url) = &reports_at {
            order
                .reporter
                .progress("waiting for the report of the new system");
            self.await_report(url, until).await?;
        }
        self.await_system(
            order,
            answers_at,
            reports_at.is_some(),
            (boot_override, until),
        )
        .await?;
        if boot_override == BootOverride::Continuous {
            self.boot_as_usual().await?;
        }
        // Without port or report it is unknown whether the image is still being read.
        if settings.deploy.is_proven() && settings.deploy.from == Source::VirtualMedia {
            self.eject().await?;
        }
        Ok(())
    }

    /// Waits for the evidence of the new system: at a port, by its report, or by its first boot.
    async fn await_system(
        &self,
        order: &Order,
        answers_at: Option<(Arc<str>, u16)>,
        has_reported: bool,
        (boot_override, until): (BootOverride, Instant),
    ) -> Result<(), ActError> {
        match (answers_at, boot_override) {
            (None, _) if has_reported => {}
            (Some((address, port)), _) => {
                let text =
                    format!("waiting for {address}:{port} (proves that a system answers there)");
                order.reporter.progress(text);
                self.await_port(&address, port, until).await?;
            }
            (None, BootOverride::Once) => {
                order
                    .reporter
                    .progress("waiting until it has booted (unverified)");
                self.await_boot(until).await?;
            }
            (None, BootOverride::No | BootOverride::Continuous) => {
                let time = self.backend.settings.deploy.boot_time;
                order
                    .reporter
                    .progress(format!("{} s to boot (unverified)", time.as_secs()));
                sleep(time.min(until.saturating_duration_since(Instant::now()))).await;
            }
        }
        Ok(())
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

    fn report_url(&self, url: &str, node: &NodeDesign) -> Result<Url, ActError> {
        let url = Url::parse(&for_node(url, node));
        url.map_err(|error| {
            ActError::Permanent(Arc::from(self.about(&format!("`deploy.url`: {error}"))))
        })
    }

    /// Whether the deployed system has reported; neither account nor session goes there.
    async fn has_reported(&self, url: &Url) -> Result<(), ActError> {
        let request = Request::new(&self.subject, Method::GET, url.clone());
        self.backend.client.send(&request).await?;
        Ok(())
    }

    async fn await_report(&self, url: &Url, until: Instant) -> Result<(), ActError> {
        loop {
            let Err(last) = self.has_reported(url).await else {
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

    async fn await_boot(&self, until: Instant) -> Result<(), ActError> {
        loop {
            match self.override_is_used().await {
                Ok(true) => return Ok(()),
                Err(error @ ActError::Permanent(_)) => return Err(error),
                Ok(false) | Err(_) => {}
            }
            let interval = self
                .backend
                .settings
                .settling
                .clamp(Duration::from_millis(200), INTERVAL);
            if Instant::now() + interval > until {
                let text = "it is on, and has not used its boot override in time";
                return Err(ActError::Ambiguous(Arc::from(self.about(text))));
            }
            sleep(interval).await;
        }
    }
}
