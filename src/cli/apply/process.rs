//! The parts of this process that a run needs: its clocks, its user, its signals, and the kinds of its failures.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::apply;
use crate::backend::LeaseClock;
use crate::cli::Failure;
use crate::cli::clock;
use crate::cli::context::Printer;
use crate::cli::signals::Handler;
use crate::report::Visible;
use crate::repository::Repository;
use crate::run::{self, Committer, Stop, Timekeeper};
use crate::serve::ServiceClock;

/// How often is looked whether a stop was asked for, while something is waited for.
const TICK: Duration = Duration::from_millis(200);

/// The clocks of this process.
pub(in crate::cli) struct ProcessClock {
    begun: Duration,
    printer: Printer,
    stop: Option<Stop>,
}

impl ProcessClock {
    pub(in crate::cli) fn new(printer: Printer) -> Self {
        Self {
            begun: since_boot(),
            printer,
            stop: None,
        }
    }

    /// The same, whose waits end when a stop is asked for.
    pub(in crate::cli) fn stopped_by(mut self, stop: Option<Stop>) -> Self {
        self.stop = stop;
        self
    }
}

/// The time since the system was started, with that in which it was suspended.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

impl Timekeeper for ProcessClock {
    fn seconds(&self) -> i64 {
        clock::now().as_second()
    }

    fn monotonic(&self) -> Duration {
        since_boot().saturating_sub(self.begun)
    }

    fn lease_clock(&self) -> LeaseClock {
        let begun = self.begun;
        Arc::new(move || since_boot().saturating_sub(begun))
    }

    fn pause(&self, time: Duration) {
        let began = self.monotonic();
        loop {
            let left = time.saturating_sub(self.monotonic().saturating_sub(began));
            if left.is_zero() || self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }

    fn explain(&self, waits_for: &str) {
        self.printer
            .tell(&format!("waiting {}", Visible(waits_for)));
    }
}

impl ServiceClock for ProcessClock {
    fn timekeeper(&self) -> &dyn Timekeeper {
        self
    }

    fn events(&self) -> &dyn apply::EventClock {
        self
    }
}

impl apply::EventClock for ProcessClock {
    fn now(&self) -> Arc<str> {
        Arc::from(format!("{:.3}", clock::now()))
    }
}

/// The user of trueup: git's identity, else the account.
pub(in crate::cli) fn actor(repository: &Repository) -> Result<Committer, Failure> {
    let account = || std::env::var("USER").unwrap_or_else(|_| "trueup".to_owned());
    let mail = std::env::var("EMAIL").ok();
    let (name, email) = named(repository)?;
    let email = email.or(mail.filter(|mail| !mail.is_empty()));
    // As git, which then makes none of the account either.
    if (name.is_none() || email.is_none()) && is_set(repository, "user.useConfigOnly")? {
        let text = "git has no name and address for you, and `user.useConfigOnly` says that none are to be made up";
        return Err(Failure::error(text)
            .hint("`git config user.name NAME` and `git config user.email ADDRESS` set them"));
    }
    Ok(Committer {
        name: name.unwrap_or_else(account),
        email: email.unwrap_or_else(|| format!("{}@localhost", account())),
        random: random(),
    })
}

/// Whether a setting of git is on.
fn is_set(repository: &Repository, key: &str) -> Result<bool, Failure> {
    let value = repository.config(key)?.unwrap_or_default();
    let value = value.to_ascii_lowercase();
    Ok(matches!(&*value, "true" | "yes" | "on" | "1"))
}

/// The name and the address that git is given for a committer, in the order in which git looks for them.
pub(in crate::cli) fn named(
    repository: &Repository,
) -> Result<(Option<String>, Option<String>), Failure> {
    let value = |variable: &str, keys: [&str; 2]| -> Result<Option<String>, Failure> {
        let given = std::env::var(variable).ok();
        if let Some(given) = given.filter(|given| !given.is_empty()) {
            return Ok(Some(given));
        }
        for key in keys {
            let found = repository.config(key)?;
            if let Some(found) = found.filter(|found| !found.is_empty()) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    };
    Ok((
        value("GIT_COMMITTER_NAME", ["committer.name", "user.name"])?,
        value("GIT_COMMITTER_EMAIL", ["committer.email", "user.email"])?,
    ))
}

/// A random number.
pub(in crate::cli) fn random() -> u128 {
    // The standard library seeds each of these from the operating system.
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    (half() << 64) | half()
}

/// Turns Ctrl-C and SIGTERM into requests to stop: once gracefully, twice at once.
pub(in crate::cli) async fn listen(stop: run::StopHandle) {
    let handler = Handler::new();
    #[cfg(unix)]
    let mut terminate =
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(terminate) => terminate,
            Err(_) => return,
        };
    loop {
        #[cfg(unix)]
        tokio::select! {
            heard = tokio::signal::ctrl_c() => if heard.is_err() { return },
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
        handler.take();
        stop.stop();
    }
}
