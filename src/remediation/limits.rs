//! Limits that keep remediation from doing harm: bounds of every wait, attempts, backoff, and the circuit breaker.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::share::Share;

/// How the scheduler is told that nothing runs on a machine any more.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Its Node is deleted (metal3-remediation).
    #[default]
    DeleteNode,
    /// Its Node is tainted as out of service, until it is Ready again; from Kubernetes 1.28 on.
    OutOfService,
}

impl Release {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeleteNode => "delete-node",
            Self::OutOfService => "out-of-service",
        }
    }

    /// Whether a workload cluster of this version (`v1.33.2`) has it: what counts is the cluster that the
    /// Node is in, not the one in which the hosts are managed.
    #[must_use]
    pub fn is_known_to(self, version: &str) -> bool {
        match self {
            Self::DeleteNode => true,
            Self::OutOfService => {
                let version = version.strip_prefix('v').unwrap_or(version);
                let mut numbers = version.split(['.', '+', '-']).map(str::parse::<u32>);
                match (numbers.next(), numbers.next()) {
                    (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (1, 28),
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The bounds of one remediation. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemediationLimits {
    /// Attempts in all.
    pub attempts: u32,
    /// How long a machine has to go off.
    pub power_off: u64,
    /// How long a machine may take to be on.
    pub power_on: u64,
    /// How long the release of the Node may take.
    pub release: u64,
    /// How long the Node has to be back and Ready, counted from the power-off on, as the clock of an
    /// attempt does.
    pub ready: u64,
    /// How long after the first sample of the power the second is taken, which has to say the same.
    pub settling: u64,
    /// The wait before the second attempt; each further one is twice as long.
    pub backoff: u64,
    /// How the Node is released.
    #[serde(rename = "by")]
    pub method: Release,
}

impl Default for RemediationLimits {
    fn default() -> Self {
        Self {
            attempts: 2,
            power_off: 600,
            power_on: 600,
            release: 300,
            ready: 1200,
            settling: 5,
            backoff: 60,
            method: Release::DeleteNode,
        }
    }
}

/// The longest wait between two attempts.
const LONGEST_BACKOFF: u64 = 3600;

/// The time of one attempt beyond its waits: observations, patches, backup.
const SPARE: u64 = 60;

impl RemediationLimits {
    /// The wait before an attempt, which the second is the first to have.
    #[must_use]
    pub fn backoff_before(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(2).min(32);
        let seconds = match attempt {
            0 | 1 => 0,
            _ => self.backoff.saturating_mul(1 << doublings),
        };
        Duration::from_secs(seconds.min(LONGEST_BACKOFF))
    }

    /// The longest time that a whole remediation can take, in seconds.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let waits = [
            self.power_off,
            self.power_on,
            self.release,
            self.ready,
            SPARE,
        ];
        let attempt = waits
            .iter()
            .fold(0, |sum: u64, wait| sum.saturating_add(*wait));
        let backoffs = (2..=self.attempts.min(64)).map(|each| self.backoff_before(each).as_secs());
        let attempts = attempt.saturating_mul(u64::from(self.attempts));
        backoffs.fold(attempts, u64::saturating_add)
    }
}

/// The decision after an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Another attempt, after this wait.
    Again {
        /// Which.
        attempt: u32,
        /// The wait before it.
        after: Duration,
    },
    /// That was the last one.
    Enough,
}

/// Decides after an attempt that failed. Never another one if the limit is below the number of attempts already made.
#[must_use]
pub fn after_failure(attempt: u32, limits: &RemediationLimits) -> Tried {
    if attempt >= limits.attempts {
        return Tried::Enough;
    }
    let attempt = attempt.saturating_add(1);
    Tried::Again {
        attempt,
        after: limits.backoff_before(attempt),
    }
}

/// How many machines may be unhealthy before none is remediated any more, if neither flag nor policy says
/// otherwise: with more it is not the machines.
pub const MAX_UNHEALTHY: Share = Share::Percent(40);

/// How long machines that came back count as if they were unhealthy still, in seconds, if the policy does not say
/// otherwise: a power feed that comes back tends to go again.
pub const COOLDOWN: u64 = 600;

/// How many machines of a site or of a failure domain are unhealthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyCount {
    /// How many are.
    pub unhealthy: usize,
    /// How many came back so lately that they count, too.
    pub returned: usize,
    /// Of how many.
    pub machines: usize,
}

impl UnhealthyCount {
    /// All that count.
    #[must_use]
    pub const fn counted(self) -> usize {
        self.unhealthy + self.returned
    }
}

/// That too many machines are unhealthy at once, or were a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// How many are unhealthy.
    pub tally: UnhealthyCount,
    /// How many may be.
    pub allowed: usize,
    /// By which limit.
    pub limit: Share,
}

/// The circuit breaker, as a MachineHealthCheck's `maxUnhealthy`. Machines that came back lately count, too.
///
/// # Errors
///
/// More are unhealthy than may be, or were.
pub fn breaker(tally: UnhealthyCount, limit: Share) -> Result<(), Broken> {
    let allowed = limit.of(tally.machines);
    if tally.counted() <= allowed {
        return Ok(());
    }
    Err(Broken {
        tally,
        allowed,
        limit,
    })
}
