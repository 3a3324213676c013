//! How often the workers of a run publish: together at most as often as the remote's host takes it.
//!
//! Forges ask for a few pushes a minute. Each worker knows from the parts when the others published last, and waits for its
//! turn. The renewals of leases get half of the pushes, so that their interval grows with the number of workers.

use std::time::Duration;

/// The shortest interval of renewals.
const SHORTEST: Duration = Duration::from_secs(60);
/// In how many intervals a lease ends that is not renewed.
const INTERVALS: u32 = 5;
/// The seconds in which pushes are counted.
const MINUTE: i64 = 60;

/// The pace of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Pace {
    /// Pushes a minute of all workers; 0: without limit.
    pub(in crate::run) pushes_per_minute: u32,
}

impl Pace {
    /// How often one of `workers` workers renews its lease.
    pub(in crate::run) fn interval(self, workers: usize) -> Duration {
        if self.pushes_per_minute == 0 {
            return SHORTEST;
        }
        let workers = u64::try_from(workers.max(1)).unwrap_or(u64::MAX);
        let seconds = workers.saturating_mul(2 * 60) / u64::from(self.pushes_per_minute);
        SHORTEST.max(Duration::from_secs(seconds))
    }

    /// For how long after a renewal a worker may send requests.
    pub(in crate::run) fn bound(interval: Duration) -> Duration {
        interval * INTERVALS
    }

    /// How many seconds a worker waits before it publishes, `now`, given when the workers published.
    pub(in crate::run) fn wait(self, now: i64, published: &[i64]) -> u64 {
        let Ok(limit) = usize::try_from(self.pushes_per_minute) else {
            return 0;
        };
        let mut recent: Vec<i64> = published
            .iter()
            .copied()
            .filter(|at| (0..MINUTE).contains(&(now - at)))
            .collect();
        if limit == 0 || recent.len() < limit {
            return 0;
        }
        recent.sort_unstable();
        let first = recent[recent.len() - limit];
        u64::try_from(first + MINUTE - now).unwrap_or_default()
    }

    /// The times that still count, with `now`.
    pub(in crate::run) fn recent(self, now: i64, published: &[i64]) -> Vec<i64> {
        let recent = published
            .iter()
            .copied()
            .filter(|at| (0..MINUTE).contains(&(now - at)));
        recent.chain([now]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORGE: Pace = Pace {
        pushes_per_minute: 6,
    };

    #[test]
    fn all_renewals_together_take_half_of_the_pushes() {
        for workers in [1usize, 2, 3, 8, 32, 400] {
            let interval = FORGE.interval(workers).as_secs();
            let pushes = workers as u64 * 60;
            assert!(pushes <= 3 * interval, "{workers} workers, {interval} s");
        }
        assert_eq!(FORGE.interval(1), SHORTEST);
        let free = Pace {
            pushes_per_minute: 0,
        };
        assert_eq!((free.interval(400), free.wait(0, &[0; 50])), (SHORTEST, 0));
    }

    #[test]
    fn a_push_waits_until_the_oldest_of_the_last_six_is_a_minute_old() {
        assert_eq!(FORGE.wait(100, &[50, 60, 70, 80, 90]), 0);
        assert_eq!(FORGE.wait(100, &[50, 60, 70, 80, 90, 95]), 10);
        assert_eq!(FORGE.wait(100, &[39, 50, 60, 70, 80, 90, 95]), 10);
        assert_eq!(FORGE.wait(100, &[50, 55, 60, 70, 80, 90, 95]), 15);
        // Another worker's clock may be wrong: what lies in the future does not count.
        assert_eq!(FORGE.wait(100, &[500; 9]), 0);
        assert_eq!(FORGE.recent(100, &[30, 40, 50, 300]), [50, 100]);
    }

    #[test]
    fn simulated_workers_push_at_most_six_times_in_any_minute() {
        let mut published: Vec<i64> = Vec::new();
        for now in 0..600 {
            if FORGE.wait(now, &published) == 0 {
                published.push(now);
            }
            let last = published.iter().filter(|at| now - **at < MINUTE).count();
            assert!(last <= 6, "second {now}");
        }
        assert_eq!(published.len(), 60);
    }
}
