//! The retry policy: waits that double up to a bound, and differ from one who waits to the next.
//!
//! A request that is repeated as it is takes the policy whole, with what passes and how often
//! ([`backon::Retryable`]); a loop that observes between two attempts takes the waits one by one. Time is
//! tokio's, which tests and the simulator hold still.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The waits of one who retries, without end.
pub(crate) type Waits = <ExponentialBuilder as BackoffBuilder>::Backoff;

/// The policy of one who retries: the first wait is between half of `first` and the whole, the next ones
/// twice as long each, up to `longest`. Tasks that begin at once with different keys do not retry
/// together; with the same key, the waits are the same in each run.
pub(super) fn policy(first: Duration, longest: Duration, key: impl Hash) -> ExponentialBuilder {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    // The jitter adds up to as much again.
    ExponentialBuilder::new()
        .with_min_delay(first / 2)
        .with_max_delay(longest / 2)
        .with_jitter()
        .with_jitter_seed(hasher.finish())
        .without_max_times()
}

/// The waits of a policy, for who takes them one by one.
pub(crate) fn waits(first: Duration, longest: Duration, key: impl Hash) -> Waits {
    policy(first, longest, key).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound_and_differ_by_key_only() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        let of = |key: &str| waits(first, longest, key).take(40).collect::<Vec<_>>();
        let one = of("one");
        for (attempt, wait) in one.iter().enumerate() {
            let whole = (first * (1 << attempt.min(10))).min(longest);
            assert!(whole / 2 <= *wait && *wait <= whole, "{attempt}: {wait:?}");
        }
        assert_eq!(one, of("one"));
        assert_ne!(one, of("two"));
    }
}
