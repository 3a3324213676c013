//! Bringing a machine to a level, confirmed when it was observed there twice.
//!
//! A controller's "yes" is no proof: it may answer before anything happens, lose what it was asked for,
//! or carry out something older later. So a level (power, a boot override) is read, asked for where it is
//! not as wanted, and read until it is, and still is a settling time later. Asking again is harmless.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::{ActError, Reporter};

/// A request that shows no effect is sent again after this, or after three settling times if longer: some
/// controllers begin anew with each request, so that asking too often would keep them from ever ending.
const REPEAT: Duration = Duration::from_secs(30);
/// The shortest and the longest time between two looks.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The confirmation of a level, by one sample after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// It was not seen yet.
    NotSeen,
    /// Observed once.
    SeenOnce,
    /// Observed twice in a row: confirmed.
    Holds,
    /// Observed, and then lost.
    Left,
}

/// Confirms a level that was observed twice in a row.
#[derive(Debug, Default)]
pub(super) struct Twice {
    was_seen: bool,
}

impl Twice {
    /// Takes a look in: whether the level was there.
    pub(super) fn look(&mut self, is_there: bool) -> Level {
        match (std::mem::replace(&mut self.was_seen, is_there), is_there) {
            (false, false) => Level::NotSeen,
            (false, true) => Level::SeenOnce,
            (true, true) => Level::Holds,
            (true, false) => Level::Left,
        }
    }
}

/// How patiently a level is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<'a> {
    /// The level, for the timeout's message: ``node `n04`: 10.0.0.4:443: power``.
    pub(super) what: &'a str,
    /// How long a controller may take to show what was set.
    pub(super) settling: Duration,
    /// The deadline.
    pub(super) deadline: Instant,
    /// Hears of requests that failed, while they can still succeed.
    pub(super) reporter: Option<&'a Reporter>,
}

impl<'a> Pace<'a> {
    /// Reports a request that failed at once, not only when its time is over.
    pub(super) fn reporting(self, reporter: &'a Reporter) -> Self {
        Self {
            reporter: Some(reporter),
            ..self
        }
    }

    fn report(&self, error: &ActError) {
        if let Some(reporter) = self.reporter {
            reporter.progress(format!("not yet: {error}"));
        }
    }

    /// A deadline after a time from now on.
    pub(super) fn within(what: &'a str, settling: Duration, time: Duration) -> Self {
        // An instant that far away cannot be reached, nor always be told.
        let time = time.min(Duration::from_secs(365 * 24 * 3600));
        Self {
            what,
            settling,
            deadline: Instant::now() + time,
            reporter: None,
        }
    }

    /// The time between two looks.
    pub(super) fn interval(&self) -> Duration {
        self.settling.clamp(INTERVAL.0, INTERVAL.1)
    }

    /// Whether another look would be too late.
    fn is_over(&self) -> bool {
        Instant::now() + self.interval() > self.deadline
    }
}

/// Whether something is at a level now, and still is a settling time later.
///
/// # Errors
///
/// Those of reading it.
pub(super) async fn holds<V, F>(
    wanted: V,
    settling: Duration,
    read: impl Fn() -> F,
) -> Result<bool, ActError>
where
    V: Copy + PartialEq,
    F: Future<Output = Result<V, ActError>>,
{
    let mut level = Twice::default();
    if level.look(read().await? == wanted) == Level::NotSeen {
        return Ok(false);
    }
    sleep(settling).await;
    Ok(level.look(read().await? == wanted) == Level::Holds)
}

/// Waits until something is at a level, and still is a settling time later; asks for nothing. Reading
/// may fail in passing meanwhile.
///
/// # Errors
///
/// It was not observed there in time ([`ActError::Passing`], with the last value), or reading it failed for good.
pub(super) async fn seen<V, F>(
    wanted: V,
    pace: Pace<'_>,
    read: impl Fn() -> F,
) -> Result<(), ActError>
where
    V: Copy + PartialEq + Debug,
    F: Future<Output = Result<V, ActError>>,
{
    loop {
        let mut level = Twice::default();
        let mut last = read().await;
        if level.look(last == Ok(wanted)) == Level::SeenOnce {
            sleep(pace.settling).await;
            last = read().await;
            if level.look(last == Ok(wanted)) == Level::Holds {
                return Ok(());
            }
        }
        if let Err(error @ ActError::Permanent(_)) = last {
            return Err(error);
        }
        if pace.is_over() {
            return Err(too_late(pace.what, wanted, last));
        }
        sleep(pace.interval()).await;
    }
}

/// Brings something to a level: reads it, asks for it if it is not as wanted, and waits until it is
/// observed. An answer that was lost counts as asked; a refusal counts only while the level is not reached.
///
/// # Errors
///
/// The first read failed, the request was refused, or it was not observed there in time ([`ActError::Passing`]).
pub(super) async fn bring<V, F, G>(
    wanted: V,
    pace: Pace<'_>,
    read: impl Fn() -> F,
    ask: impl Fn() -> G,
) -> Result<(), ActError>
where
    V: Copy + PartialEq + Debug,
    F: Future<Output = Result<V, ActError>>,
    G: Future<Output = Result<(), ActError>>,
{
    if holds(wanted, pace.settling, &read).await? {
        return Ok(());
    }
    let repeat = REPEAT.max(pace.settling * 3);
    loop {
        let asked = ask().await;
        if let Err(error @ (ActError::Passing(_) | ActError::Ambiguous(_))) = &asked {
            pace.report(error);
        }
        let refused = matches!(asked, Err(ActError::Permanent(_)));
        let timeout = if refused { Duration::ZERO } else { repeat };
        let round = Pace {
            deadline: (Instant::now() + timeout).min(pace.deadline),
            ..pace
        };
        // What was refused may be so because it is there already.
        let Err(unseen) = seen(wanted, round, &read).await else {
            return Ok(());
        };
        match asked {
            Err(refusal @ ActError::Permanent(_)) => return Err(refusal),
            _ if matches!(unseen, ActError::Permanent(_)) => return Err(unseen),
            Err(error) if pace.is_over() => return Err(error),
            Ok(()) if pace.is_over() => return Err(unseen),
            _ => {}
        }
    }
}

fn too_late<V: Debug>(what: &str, wanted: V, last: Result<V, ActError>) -> ActError {
    let last = match last {
        Ok(value) => format!("was last {value:?}"),
        Err(error) => format!("cannot be observed: {error}"),
    };
    ActError::Passing(Arc::from(format!(
        "{what} is not {wanted:?} in time, {last}"
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::backend::{Listener, Pending};

    /// A lamp that shows what was asked for some seconds later, as controllers do.
    #[derive(Default)]
    struct Lamp {
        is_on: bool,
        /// The coming value, and when.
        pending: Option<(bool, Instant)>,
        delay: u64,
        /// How many of the next requests are answered and lost.
        lost: usize,
        asked: Vec<&'static str>,
    }

    fn read(lamp: &Mutex<Lamp>) -> Result<bool, ActError> {
        let mut lamp = lamp.lock().unwrap();
        if let Some((value, at)) = lamp.pending
            && at <= Instant::now()
        {
            lamp.is_on = value;
            lamp.pending = None;
        }
        Ok(lamp.is_on)
    }

    fn ask(lamp: &Mutex<Lamp>, value: bool) -> Result<(), ActError> {
        let mut lamp = lamp.lock().unwrap();
        lamp.asked.push(if value { "on" } else { "off" });
        if lamp.lost > 0 {
            lamp.lost -= 1;
        } else if lamp.is_on != value {
            lamp.pending = Some((value, Instant::now() + Duration::from_secs(lamp.delay)));
        }
        Ok(())
    }

    async fn to(
        lamp: &Mutex<Lamp>,
        value: bool,
        settling: u64,
        within: u64,
    ) -> Result<(), ActError> {
        let seconds = Duration::from_secs;
        let pace = Pace::within("the lamp", seconds(settling), seconds(within));
        bring(
            value,
            pace,
            || async { read(lamp) },
            || async { ask(lamp, value) },
        )
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_sent_once_and_waited_for_and_not_at_all_where_there_is_nothing_to_do() {
        let lamp = Mutex::new(Lamp {
            delay: 11,
            ..Lamp::default()
        });
        to(&lamp, true, 5, 100).await.unwrap();
        to(&lamp, true, 5, 100).await.unwrap();
        assert_eq!(lamp.lock().unwrap().asked, ["on"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_answered_and_lost_is_sent_again() {
        let lamp = Mutex::new(Lamp {
            delay: 2,
            lost: 1,
            ..Lamp::default()
        });
        to(&lamp, true, 1, 100).await.unwrap();
        assert_eq!(lamp.lock().unwrap().asked, ["on", "on"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_for_before_and_happens_late_does_not_win() {
        let lamp = Mutex::new(Lamp {
            delay: 8,
            ..Lamp::default()
        });
        ask(&lamp, true).unwrap();
        to(&lamp, false, 10, 100).await.unwrap();
        assert_eq!(lamp.lock().unwrap().asked, ["on", "off"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(read(&lamp), Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_in_time_says_what_was_seen_and_can_pass() {
        let lamp = Mutex::new(Lamp {
            lost: usize::MAX,
            ..Lamp::default()
        });
        let error = to(&lamp, true, 1, 50).await.unwrap_err();
        let text = "the lamp is not true in time, was last false";
        assert_eq!(error, ActError::Passing(Arc::from(text)));
        assert_eq!(lamp.lock().unwrap().asked.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_unless_the_level_is_there_after_all() {
        let refuse = || async { Err(ActError::Permanent(Arc::from("no"))) };
        let pace = || Pace::within("the lamp", Duration::from_secs(1), Duration::from_secs(100));
        let off = || async { Ok(false) };
        let error = bring(true, pace(), off, refuse).await.unwrap_err();
        assert_eq!(error.to_string(), "no");
        let looks = Mutex::new(0);
        let on_later = || async {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            Ok(*looks > 1)
        };
        bring(true, pace(), on_later, refuse).await.unwrap();
    }

    /// Remembers what is told.
    #[derive(Default)]
    struct Heard(Mutex<Vec<Arc<str>>>);

    impl Listener for Heard {
        fn progress(&self, text: Arc<str>) {
            self.0.lock().unwrap().push(text);
        }

        fn note<'a>(&'a self, _text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_failed_is_reported_while_it_can_still_succeed() {
        let heard = Arc::new(Heard::default());
        let reporter = Reporter::new(heard.clone());
        let lamp = Mutex::new(Lamp::default());
        let fail = || async {
            assert!(heard.0.lock().unwrap().len() <= 1);
            Err(ActError::Ambiguous(Arc::from("500: no power supply")))
        };
        let pace = Pace::within("the lamp", Duration::from_secs(1), Duration::from_secs(50));
        let pace = pace.reporting(&reporter);
        bring(true, pace, || async { read(&lamp) }, fail)
            .await
            .unwrap_err();
        let heard = heard.0.lock().unwrap();
        assert_eq!(&*heard[0], "not yet: 500: no power supply");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_seen_at_first_is_not_waited_for() {
        let dead = || async { Err(ActError::Passing(Arc::from("refused"))) };
        let pace = Pace::within("the lamp", Duration::from_secs(1), Duration::from_secs(100));
        let before = Instant::now();
        let error = bring(true, pace, dead, || async { Ok(()) }).await;
        assert_eq!(error.unwrap_err().to_string(), "refused");
        assert_eq!(before, Instant::now());
    }
}
