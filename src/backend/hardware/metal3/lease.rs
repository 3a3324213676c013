//! One active watcher: a Lease of `coordination.k8s.io/v1`, as controllers of Kubernetes hold theirs.
//!
//! A Lease that has not moved for its duration is free, by the clock of the observer: clocks of
//! different machines are never compared. Every write names the observed version, so that of two
//! that take a free one, one wins.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::management::Management;
use crate::backend::api_server::{ApiError, or_empty};

const LEASE_API: &str = "coordination.k8s.io/v1";

/// Name, holder and duration of a Lease.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The name of the Lease.
    pub lease: Arc<str>,
    /// The holder, another one for each process.
    pub identity: Arc<str>,
    /// How long it is valid without a renewal, in whole seconds, at least one.
    pub duration: Duration,
}

impl LeaseSettings {
    /// The interval of renewals, and of the polls of those who wait for it.
    #[must_use]
    pub fn renewal(&self) -> Duration {
        self.duration / 4
    }
}

/// Whether a Lease is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is.
    Ours,
    /// Another watcher holds it.
    Other(Arc<str>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    resource_version: Arc<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_empty")]
    holder_identity: Arc<str>,
    lease_duration_seconds: Option<u64>,
    #[serde(deserialize_with = "or_empty")]
    acquire_time: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    lease_transitions: u64,
}

/// A Lease, and its last observed state.
#[derive(Debug)]
pub struct Lease<'a> {
    management: &'a Management,
    lease_settings: LeaseSettings,
    /// The version that was observed last, and when it was first observed.
    seen: Option<(Arc<str>, Instant)>,
    /// When it was last renewed by us.
    renewed: Option<Instant>,
}

impl<'a> Lease<'a> {
    /// A Lease in the namespace of the hosts; nothing is asked for yet.
    #[must_use]
    pub fn new(management: &'a Management, lease_settings: LeaseSettings) -> Self {
        Self {
            management,
            lease_settings,
            seen: None,
            renewed: None,
        }
    }

    /// Which Lease, and whose.
    #[must_use]
    pub fn settings(&self) -> &LeaseSettings {
        &self.lease_settings
    }

    /// Whether it was ours at the last look, and still holds by our own clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.renewed
            .is_some_and(|renewed| renewed.elapsed() < self.lease_settings.duration)
    }

    /// Takes it if it is free, renews it if it is ours.
    ///
    /// # Errors
    ///
    /// The cluster does not answer, or refuses. A faster watcher is no error.
    pub async fn hold(&mut self) -> Result<Held, ApiError> {
        let asked = Instant::now();
        let server = self.management.server().await?;
        let path = self.management.path(LEASE_API, "leases");
        let found: Option<Written> = server.get(&path, &self.lease_settings.lease).await?;
        let now = format!("{:.6}", jiff::Timestamp::now());
        let Some(found) = found else {
            let lease = json!({
                "apiVersion": LEASE_API,
                "kind": "Lease",
                "metadata": {"name": self.lease_settings.lease},
                "spec": self.spec(&now, &now, 0),
            });
            return match server.create::<Value>(&path, &lease).await {
                Ok(_) => Ok(self.ours(asked)),
                Err(error) if error.code() == Some(409) => Ok(self.lost("another one")),
                Err(error) => Err(error),
            };
        };
        let version = &found.metadata.resource_version;
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != version) {
            self.seen = Some((version.clone(), asked));
        }
        let holder = &found.spec.holder_identity;
        let is_ours = *holder == self.lease_settings.identity;
        let lasts = found.spec.lease_duration_seconds;
        let lasts = lasts.map_or(self.lease_settings.duration, Duration::from_secs);
        let still = self
            .seen
            .as_ref()
            .map_or(Duration::ZERO, |(_, at)| at.elapsed());
        if !is_ours && !holder.is_empty() && still < lasts {
            return Ok(self.lost(&holder.clone()));
        }
        let (since, transitions) = match is_ours {
            true => (&*found.spec.acquire_time, found.spec.lease_transitions),
            false => (&*now, found.spec.lease_transitions.saturating_add(1)),
        };
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": self.spec(since, &now, transitions),
        });
        match server
            .merge::<Value>(&path, &self.lease_settings.lease, &patch)
            .await
        {
            Ok(_) => Ok(self.ours(asked)),
            Err(error) if error.code() == Some(409) => Ok(self.lost("another one")),
            Err(error) => Err(error),
        }
    }

    /// Gives it back, so that another one need not wait until it has run out.
    ///
    /// # Errors
    ///
    /// The cluster cannot be asked, or refuses.
    pub async fn give_back(&mut self) -> Result<(), ApiError> {
        if !self.is_held() {
            return Ok(());
        }
        let server = self.management.server().await?;
        let path = self.management.path(LEASE_API, "leases");
        let found: Option<Written> = server.get(&path, &self.lease_settings.lease).await?;
        let Some(found) =
            found.filter(|found| found.spec.holder_identity == self.lease_settings.identity)
        else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"holderIdentity": null},
        });
        self.renewed = None;
        let given = server
            .merge::<Value>(&path, &self.lease_settings.lease, &patch)
            .await;
        given.map(drop)
    }

    fn spec(&self, since: &str, now: &str, transitions: u64) -> Value {
        json!({
            "holderIdentity": self.lease_settings.identity,
            "leaseDurationSeconds": self.lease_settings.duration.as_secs(),
            "acquireTime": since,
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    }

    /// It holds from the instant at which it was asked for, not from that of the answer.
    fn ours(&mut self, asked: Instant) -> Held {
        self.renewed = Some(asked);
        Held::Ours
    }

    fn lost(&mut self, holder: &str) -> Held {
        self.renewed = None;
        Held::Other(Arc::from(holder))
    }
}
