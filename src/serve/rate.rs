//! The rates of callers: each user of this machine and each address has its own.

use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::listen::Peer;

/// Callers whose rates are remembered before those that are quiet are forgotten.
const REMEMBERED: usize = 4096;

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    #[cfg(unix)]
    User(u32),
    Address(IpAddr),
}

/// The rates of callers.
pub(super) struct Rates(RateLimiter<Source, HashMapStateStore<Source>, DefaultClock>);

impl Rates {
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(per_second);
        Self(RateLimiter::hashmap_with_clock(
            quota,
            DefaultClock::default(),
        ))
    }

    /// Whether one more request is admitted.
    pub(super) fn allow(&self, peer: &Peer) -> bool {
        let source = match peer {
            #[cfg(unix)]
            Peer::Unix { uid } => Source::User(*uid),
            Peer::Tcp { address, .. } => Source::Address(address.ip()),
        };
        if self.0.len() > REMEMBERED {
            self.0.retain_recent();
        }
        self.0.check_key(&source).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_rate_of_its_own() {
        let rates = Rates::new(3);
        let peer = |last: u8| Peer::Tcp {
            address: ([127, 0, 0, last], 5).into(),
            certificate: None,
        };
        let allowed = (0..10).filter(|_| rates.allow(&peer(1))).count();
        assert!((3..10).contains(&allowed), "{allowed}");
        assert!(rates.allow(&peer(2)));
    }
}
