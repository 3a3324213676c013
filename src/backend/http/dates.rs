//! The clocks of servers, as the `Date` of their last answer shows them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::threads::lock;
use reqwest::header::{DATE, HeaderMap};

/// Servers that are remembered; more tell nothing new.
const MOST: usize = 10_000;

/// A server's clock at an instant of this process.
#[derive(Clone, Debug)]
pub struct ServerDate {
    /// The `Date` header as it was sent.
    pub date: Arc<str>,
    /// When it arrived.
    pub at: Instant,
}

static DATES: Mutex<BTreeMap<Arc<str>, ServerDate>> = Mutex::new(BTreeMap::new());

/// Remembers the clock of a server by the headers of an answer.
pub(super) fn note(authority: &Arc<str>, headers: &HeaderMap) {
    let Some(date) = headers.get(DATE).and_then(|date| date.to_str().ok()) else {
        return;
    };
    let mut dates = lock(&DATES);
    if dates.len() < MOST || dates.contains_key(authority) {
        let (date, at) = (Arc::from(date), Instant::now());
        dates.insert(authority.clone(), ServerDate { date, at });
    }
}

/// Returns the clocks of the servers that answered this process, by host and port.
#[must_use]
pub fn server_dates() -> BTreeMap<Arc<str>, ServerDate> {
    lock(&DATES).clone()
}
