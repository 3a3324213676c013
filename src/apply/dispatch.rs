//! The loop that decides what starts next, and takes in what ended.
//!
//! One turn: decide all that is ready; write the intents of what starts behind the outcomes that made
//! it ready, in one commit; report the ends and the starts; start the runners; wait until
//! something ends; take in everything that has ended by then. So an intent is durable before its step
//! acts, an outcome before what depends on it starts, and one fsync carries as many of them as came
//! together while the last one was being written.

use rustc_hash::FxHashMap;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Duration, Instant};

use super::dispatcher::Dispatcher;
use super::driver::Driver as _;
use super::runner::{End, Runner};
use super::{DispatchRequest, Error};
use crate::journal::StepOutcome;
use crate::run::{EventKind, Finished, RunListener, Stop};

/// How often it is asked whether a step may start, while it may not.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);
/// How often in a row what comes is taken in before it is written down.
const GATHERINGS: usize = 64;

/// Carries a plan out, up to its tag.
///
/// # Errors
///
/// [`Error::Journal`] if what was done could not be written down, [`Error::OtherPlan`],
/// [`Error::NothingToDecide`], [`Error::Plan`].
pub async fn execute(
    work: DispatchRequest<'_>,
    listener: &mut dyn RunListener,
) -> Result<Finished, Error> {
    let mut dispatcher = Dispatcher::new(work)?;
    dispatcher.replay()?;
    dispatcher.run(listener).await
}

/// The runners at work, and the steps that they carry out.
#[derive(Default)]
struct Runners {
    tasks: JoinSet<(usize, End)>,
    steps: FxHashMap<Id, usize>,
}

impl Runners {
    fn spawn(&mut self, runner: Runner) {
        let index = runner.index;
        let handle = self.tasks.spawn(runner.run());
        self.steps.insert(handle.id(), index);
    }

    /// The step of a runner that ended, and how; one that panicked has left its step unknown.
    fn ended(&mut self, ended: Result<(Id, (usize, End)), JoinError>) -> Option<(usize, End)> {
        match ended {
            Ok((id, ended)) => {
                self.steps.remove(&id);
                Some(ended)
            }
            Err(error) => {
                let index = self.steps.remove(&error.id())?;
                let message = "the backend broke off; the request may still be running".into();
                let outcome = StepOutcome::Unknown { message };
                Some((index, End::Outcome(outcome, true)))
            }
        }
    }
}

/// The events of the loop that are no runner's.
struct Stopping {
    stop: Stop,
    /// When the run stops by itself.
    after: Option<Instant>,
    /// When no window is open any more.
    closes: Option<Instant>,
    /// Whether a stop was asked for and told.
    is_told: bool,
    /// Until when what runs is waited for once it is.
    grace_ends: Option<Instant>,
}

impl<'a> Dispatcher<'a> {
    async fn run(mut self, listener: &mut dyn RunListener) -> Result<Finished, Error> {
        let mut runners = Runners::default();
        let mut stopping = Stopping {
            stop: self.work.stop.clone(),
            after: self.work.stop_after.map(|after| self.began + after),
            closes: self.work.closes_after.map(|after| self.began + after),
            is_told: false,
            grace_ends: None,
        };
        loop {
            self.start_ready(&mut runners, &stopping, listener)?;
            if self.schedule.unfinished == 0
                || !self.wait(&mut runners, &mut stopping, listener).await?
            {
                break;
            }
            self.gather(&mut runners).await?;
        }
        // What they have opened is closed as they are dropped, and has to be before the backends are left.
        runners.tasks.shutdown().await;
        self.work.log.commit()?;
        self.leave_cordoned().await;
        self.finish(listener)
    }

    /// Decides all that is ready, makes that durable, tells it, and starts the runners.
    fn start_ready(
        &mut self,
        runners: &mut Runners,
        stopping: &Stopping,
        listener: &mut dyn RunListener,
    ) -> Result<(), Error> {
        self.learn()?;
        self.decide_ready()?;
        self.say_decisions();
        let starting = match stopping.is_told || stopping.stop.is_asked() {
            true => Vec::new(),
            false => self.take_starting()?,
        };
        if self.schedule.unfinished > 0 && !stopping.is_told {
            self.estimate_rest();
        }
        self.work.log.commit()?;
        self.speak(listener);
        for mut runner in starting {
            runner.gate = listener.starting(&self.plan.steps[runner.index].id);
            runners.spawn(runner);
        }
        Ok(())
    }

    /// Waits until something happens, and takes it in; whether the run continues.
    async fn wait(
        &mut self,
        runners: &mut Runners,
        stopping: &mut Stopping,
        listener: &mut dyn RunListener,
    ) -> Result<bool, Error> {
        let (is_told, is_asked) = (stopping.is_told, stopping.stop.is_asked());
        let waits_for_lock = !is_told && !is_asked && self.schedule.has_free_place_for_waiting();
        if runners.tasks.is_empty() && !waits_for_lock && (is_told || !is_asked) {
            return Ok(false);
        }
        let (mut asked, mut immediate) = (stopping.stop.clone(), stopping.stop.clone());
        tokio::select! {
            biased;
            () = immediate.immediately(), if is_told => return Ok(false),
            () = asked.asked(), if !is_told => {
                stopping.grace_ends = self.work.stop_grace.map(|grace| Instant::now() + grace);
                self.stop_asked(stopping, listener);
            }
            () = until(stopping.after), if !is_told && stopping.after.is_some() => {
                stopping.stop.handle().stop();
                stopping.grace_ends = self.work.stop_grace.map(|grace| Instant::now() + grace);
                self.stop_asked(stopping, listener);
            }
            // What runs then is waited for, however long it takes.
            () = until(stopping.closes), if !is_told && stopping.closes.is_some() => {
                stopping.stop.handle().stop();
                self.stop_asked(stopping, listener);
            }
            () = until(stopping.grace_ends), if stopping.grace_ends.is_some() => return Ok(false),
            Some(report) = self.reports_received.recv() => self.reported(report)?,
            Some(ended) = runners.tasks.join_next_with_id(), if !runners.tasks.is_empty() => {
                if let Some((index, end)) = runners.ended(ended) {
                    self.runner_ended(index, end)?;
                }
            }
            () = tokio::time::sleep(LOCK_INTERVAL), if waits_for_lock => {}
        }
        Ok(true)
    }

    /// Takes in all that has come by now. Independent steps are let come to their end first: the
    /// more a commit carries, the fewer there are.
    async fn gather(&mut self, runners: &mut Runners) -> Result<(), Error> {
        for _ in 0..GATHERINGS {
            let mut is_news = false;
            while let Ok(report) = self.reports_received.try_recv() {
                is_news = true;
                self.reported(report)?;
            }
            while let Some(ended) = runners.tasks.try_join_next_with_id() {
                is_news = true;
                if let Some((index, end)) = runners.ended(ended) {
                    self.runner_ended(index, end)?;
                }
            }
            if !is_news {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Takes in that a stop was asked for: nothing new starts from now on.
    fn stop_asked(&mut self, stopping: &mut Stopping, listener: &mut dyn RunListener) {
        let running = self.running.len();
        self.emit(EventKind::Stopping { running });
        self.speak(listener);
        stopping.is_told = true;
    }
}

/// Waits until an instant; forever without one.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
