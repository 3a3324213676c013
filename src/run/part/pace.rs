//! How often the workers of a run publish: together at most as often as the remote's host takes it.
//!
//! Forges ask for a few pushes a minute. Each worker lists the parts right before it pushes, knows from them when the others
//! have, and waits for its turn; a push that another one has come before is refused, and the parts are listed again. One push of
//! each minute is left to such refusals. The renewals of leases get half of the pushes, so that their interval grows with the
//! number of workers.

use std::time::Duration;

/// The shortest interval of renewals.
const SHORTEST: Duration = Duration::from_secs(60);
/// In how many intervals a lease ends that is not renewed.
const INTERVALS: u32 = 5;
/// The seconds in which pushes are counted: a minute, and what their times are rounded by and one takes longer to arrive than another.
const WINDOW: i64 = 62;
/// The pushes of a begin: the lock, the records, and the lock that is left to the workers.
pub(in crate::run) const PUSHES_OF_BEGIN: usize = 3;
/// The pushes of an end: the lock, the records with the tag, and what is left of the run.
pub(in crate::run) const PUSHES_OF_END: usize = 3;

/// The forges that ask for no more than so many pushes to a repository in a minute, by their hosts. All others take as many
/// as come.
const HOSTS: [(&str, u32); 2] = [
    // Its documentation, "Repository limits".
    ("github.com", 6),
    // The same service for enterprises.
    ("ghe.com", 6),
];

/// The pushes a minute that the host of a remote asks for, by the remote's address without account and form; 0: any number.
#[must_use]
pub fn pushes_per_minute(address: &str) -> u32 {
    let host = address.split(['/', ':']).next().unwrap_or_default();
    let host = host.to_ascii_lowercase();
    let is_of = |name: &str| {
        let before = host.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let row = HOSTS.iter().find(|(name, _)| is_of(name));
    row.map_or(0, |(_, pushes)| *pushes)
}

/// The pushes that a run of so many parts makes at least: each part is taken and given back.
const PUSHES_OF_PART: usize = 2;

/// How long the pushes of a run of so many parts take at least, where so many are made a minute; `None`: as long as they take.
#[must_use]
pub fn time_of_pushes(parts: usize, pushes_per_minute: u32) -> Option<Duration> {
    let limit = u64::from(pushes_per_minute);
    let pushes = PUSHES_OF_BEGIN + PUSHES_OF_PART * parts + PUSHES_OF_END;
    let seconds = u64::try_from(pushes).unwrap_or(u64::MAX).saturating_mul(60);
    Some(Duration::from_secs(seconds.checked_div(limit)?))
}

/// The part of the expected time of a run that its pushes may take: one in so many.
const SHARE_OF_PUSHES: u64 = 20;

/// How many parts a run that takes so long may have, so that its pushes take a twentieth of that at most; one at least.
#[must_use]
pub fn most_parts(expected: Duration, pushes_per_minute: u32) -> usize {
    if pushes_per_minute == 0 {
        return usize::MAX;
    }
    let pushes = expected
        .as_secs()
        .saturating_mul(u64::from(pushes_per_minute))
        / (60 * SHARE_OF_PUSHES);
    let pushes = usize::try_from(pushes).unwrap_or(usize::MAX);
    let of_parts = pushes.saturating_sub(PUSHES_OF_BEGIN + PUSHES_OF_END);
    (of_parts / PUSHES_OF_PART).max(1)
}

/// The pace of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Pace {
    /// Pushes a minute of all workers; 0: without limit.
    pub(in crate::run) pushes_per_minute: u32,
}

impl Pace {
    /// Whether workers may push as often as they like.
    pub(in crate::run) const fn is_unlimited(self) -> bool {
        self.pushes_per_minute == 0
    }

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

    /// The longest time by which workers that wait for the same turn are spread.
    pub(in crate::run) fn spread(self) -> Duration {
        Duration::from_secs(60) / self.pushes_per_minute.max(1)
    }

    /// Whether workers that publish at the same time would come into each other's way, where so many may.
    pub(in crate::run) fn is_crowded(self, now: i64, published: &[i64], workers: usize) -> bool {
        let limit = usize::try_from(self.pushes_per_minute).unwrap_or(usize::MAX);
        // Each but the first may be refused once.
        workers > 1 && counting(now, published).count() + 2 * workers > limit
    }

    /// How many seconds a worker waits, `now`, before it publishes, given when the workers published. Where workers of other hosts
    /// may publish at the same time, it leaves one push to a refusal.
    pub(in crate::run) fn wait_of_worker(
        self,
        now: i64,
        published: &[i64],
        of_one_host: bool,
    ) -> u64 {
        let leaves_one = !of_one_host && self.pushes_per_minute > 1;
        self.wait(now, published, 1 + usize::from(leaves_one))
    }

    /// How many seconds a process waits, `now`, before it pushes so many times, given when the workers published.
    pub(in crate::run) fn wait(self, now: i64, published: &[i64], pushes: usize) -> u64 {
        let Ok(limit) = usize::try_from(self.pushes_per_minute) else {
            return 0;
        };
        let mut recent: Vec<i64> = counting(now, published).collect();
        let others = limit.saturating_sub(pushes.max(1));
        if limit == 0 || recent.len() <= others {
            return 0;
        }
        recent.sort_unstable();
        let first = recent[recent.len() - others - 1];
        u64::try_from(first + WINDOW - now).unwrap_or_default()
    }

    /// The times that still count, with `now` if it is pushed now.
    pub(in crate::run) fn recent(self, now: i64, published: &[i64], is_pushed: bool) -> Vec<i64> {
        let now_too = is_pushed.then_some(now);
        counting(now, published).chain(now_too).collect()
    }
}

/// The times that still count.
fn counting(now: i64, published: &[i64]) -> impl Iterator<Item = i64> {
    let times = published.iter().copied();
    times.filter(move |at| (0..WINDOW).contains(&(now - at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_cost_time_only_where_they_are_limited() {
        let minutes = |parts, limit| time_of_pushes(parts, limit).map(|time| time.as_secs() / 60);
        assert_eq!(minutes(340, 6), Some(114));
        assert_eq!(minutes(8, 6), Some(3));
        assert_eq!(minutes(340, 0), None);
    }

    #[test]
    fn there_are_as_many_parts_as_make_pushes_for_a_twentieth_of_the_time() {
        let hours = |hours: u64, limit| most_parts(Duration::from_secs(hours * 3600), limit);
        for (expected, limit, parts) in
            [(0, 6, 1), (1, 6, 6), (5, 6, 42), (24, 6, 213), (1, 60, 87)]
        {
            assert_eq!(
                hours(expected, limit),
                parts,
                "{expected} h, {limit} a minute"
            );
            let share = Duration::from_secs(expected * 3600 / SHARE_OF_PUSHES);
            let pushes = time_of_pushes(parts, limit).unwrap();
            assert!(parts == 1 || pushes <= share, "{pushes:?} of {share:?}");
        }
        assert_eq!(hours(1, 0), usize::MAX);
    }

    const FORGE: Pace = Pace {
        pushes_per_minute: 6,
    };

    #[test]
    fn the_pace_is_that_of_the_host_of_the_remote() {
        for (address, expected) in [
            ("github.com/team/site", 6),
            ("GitHub.com/team/site", 6),
            ("ssh.github.com:443/team/site", 6),
            ("team.ghe.com/team/site", 6),
            ("notgithub.com/team/site", 0),
            ("git.example/github.com/site", 0),
            ("/srv/github.com/site.git", 0),
            ("", 0),
        ] {
            assert_eq!(pushes_per_minute(address), expected, "{address}");
        }
    }

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
        let wait = free.wait(0, &[0; 50], 1);
        assert_eq!((free.interval(400), wait), (SHORTEST, 0));
    }

    #[test]
    fn a_push_waits_until_the_oldest_of_the_last_six_is_a_minute_old() {
        assert_eq!(FORGE.wait(100, &[50, 60, 70, 80, 90], 1), 0);
        assert_eq!(FORGE.wait(100, &[50, 60, 70, 80, 90, 95], 1), 12);
        assert_eq!(FORGE.wait(100, &[37, 50, 60, 70, 80, 90, 95], 1), 12);
        assert_eq!(FORGE.wait(100, &[50, 55, 60, 70, 80, 90, 95], 1), 17);
        // Three pushes wait until three of six are left; more than there may be, until none is.
        assert_eq!(FORGE.wait(100, &[70, 80, 90], 3), 0);
        let wait = |of_one_host| FORGE.wait_of_worker(100, &[60, 70, 80, 90, 95], of_one_host);
        assert_eq!((wait(true), wait(false)), (0, 22));
        assert_eq!(FORGE.wait(100, &[60, 70, 80, 90], 3), 22);
        assert_eq!(FORGE.wait(100, &[60, 70], 9), 32);
        // Another worker's clock may be wrong: what lies in the future does not count.
        assert_eq!(FORGE.wait(100, &[500; 9], 1), 0);
        assert_eq!(FORGE.recent(100, &[30, 38, 50, 300], true), [50, 100]);
        assert_eq!(FORGE.recent(100, &[30, 38, 50, 300], false), [50]);
    }

    #[test]
    fn workers_are_spread_where_all_of_them_could_be_too_many() {
        assert_eq!(FORGE.spread(), Duration::from_secs(10));
        assert!(!FORGE.is_crowded(100, &[90; 9], 1));
        assert!(!FORGE.is_crowded(100, &[30, 90, 95], 2));
        assert!(FORGE.is_crowded(100, &[90, 91, 95], 2));
        assert!(FORGE.is_crowded(100, &[], 4));
    }

    #[test]
    fn simulated_workers_push_five_times_in_any_minute_and_leave_one_to_a_refusal() {
        let mut published: Vec<i64> = Vec::new();
        for now in 0..600 {
            if FORGE.wait_of_worker(now, &published, false) == 0 {
                published.push(now);
            }
            let last = published.iter().filter(|at| now - **at < WINDOW).count();
            assert!(last <= 5, "second {now}");
        }
        assert_eq!(published.len(), 50);
        let shortest = published.windows(6).map(|six| six[5] - six[0]).min();
        assert_eq!(shortest, Some(WINDOW));
    }
}
