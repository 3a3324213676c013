//! The cipher suites that controllers take, as far as `ipmitool` found them.
//!
//! Without a suite the program asks each controller for those that it has, with each call; some never answer that, which
//! costs ten seconds, and some name one that they then refuse. What worked is remembered, and written down from process to
//! process. It is not trusted: a suite that is refused is forgotten, and found anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::{Cache, Key, Segment};
use crate::threads::lock;

/// The suites that are tried if the one that the program chose is refused: that of today, and that of all controllers.
pub(super) const TRIED: [u8; 2] = [17, 3];
/// The suite that the program takes if a controller does not tell which it has.
const UNTOLD: u8 = 3;
/// Most controllers that are remembered.
const MOST: usize = 100_000;

/// Words of the program about the suite that it takes.
const CHOSEN: &str = "Using best available cipher suite";
/// Words of the program if a controller does not tell its suites.
const NOT_TOLD: &str = "Unable to Get Channel Cipher Suites";
/// Words of a controller that refuses a suite.
const REFUSED: [&str; 4] = [
    "no matching cipher suite",
    "authentication algorithm",
    "integrity algorithm",
    "confidentiality algorithm",
];

/// Suites by controller: its address and port.
#[derive(Debug, Default)]
pub(super) struct Suites {
    all: Mutex<BTreeMap<(Arc<str>, u16), u8>>,
    /// Whether there is more than in the file.
    is_new: AtomicBool,
    file: Option<(Cache, Key)>,
}

impl Suites {
    /// Returns what was found of the controllers of a site.
    pub(super) fn of(cache: &Cache, site: &str) -> Self {
        let key = cache.key("cipher-suites", [site.as_bytes()]);
        let segment = cache.read(&key);
        let written: Option<Vec<(&str, u16, u8)>> = segment.as_ref().and_then(Segment::decode);
        let all = written.into_iter().flatten().take(MOST);
        let all = all.map(|(address, port, suite)| ((Arc::from(address), port), suite));
        Self {
            all: Mutex::new(all.collect()),
            is_new: AtomicBool::new(false),
            file: Some((cache.clone(), key)),
        }
    }

    /// The suite that a controller took last.
    pub(super) fn get(&self, address: &Arc<str>, port: u16) -> Option<u8> {
        lock(&self.all).get(&(address.clone(), port)).copied()
    }

    /// A controller took a suite.
    pub(super) fn took(&self, address: &Arc<str>, port: u16, suite: u8) {
        let before = lock(&self.all).insert((address.clone(), port), suite);
        if before != Some(suite) {
            self.is_new.store(true, Ordering::Relaxed);
            log::info!("{address}:{port}: takes cipher suite {suite} (remembered)");
        }
    }

    /// A controller refused the suite that it took before.
    pub(super) fn refused(&self, address: &Arc<str>, port: u16) {
        let before = lock(&self.all).remove(&(address.clone(), port));
        self.is_new.fetch_or(before.is_some(), Ordering::Relaxed);
    }

    /// Writes what is new into the file. What cannot be written costs the next process some seconds.
    pub(super) fn save(&self) {
        let Some((cache, key)) = &self.file else {
            return;
        };
        if !self.is_new.swap(false, Ordering::Relaxed) {
            return;
        }
        let all = lock(&self.all);
        let written: Vec<(&str, u16, u8)> = all
            .iter()
            .take(MOST)
            .map(|((address, port), suite)| (&**address, *port, *suite))
            .collect();
        cache.write(key, &written);
    }
}

/// The suite that the program chose by itself, in its words; `None`: it does not say.
pub(super) fn chosen(words: &str) -> Option<u8> {
    let named = words.lines().find_map(|line| {
        let number = line.trim().strip_prefix(CHOSEN)?;
        number.trim().parse().ok()
    });
    named.or_else(|| words.contains(NOT_TOLD).then_some(UNTOLD))
}

/// Whether no session came about since the suite was refused: nothing was done.
pub(super) fn is_refused(words: &str) -> bool {
    REFUSED.iter().any(|refused| words.contains(refused))
}
