//! The event log of a machine's controller: what it has noted since a step began, for the report of one that failed.
//!
//! It is read after a failure alone, and where it cannot be read the failure is told without it. Its texts are those of a
//! server: masked, on one line, and bounded in number and length.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::machine::Machine;
use super::resource::{Part, Resource};

/// Logs of one machine that are read.
const MOST_LOGS: usize = 4;
/// Entries that are told.
const MOST_ENTRIES: usize = 5;
/// The longest text of an entry, in characters.
const LONGEST: usize = 160;
/// The time that all of it may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How much the clock of a controller may lag behind what it was read as.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

impl Machine<'_> {
    /// The last entries since a time ago, oldest first; empty without any, or if they cannot be read.
    pub(super) async fn logged_since(&self, elapsed: Duration) -> Vec<String> {
        let read = tokio::time::timeout(TIMEOUT, self.read_logs(elapsed)).await;
        let mut found = read.unwrap_or_default();
        found.sort();
        found.dedup();
        let least = found.len().saturating_sub(MOST_ENTRIES);
        found
            .split_off(least)
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    async fn read_logs(&self, elapsed: Duration) -> Vec<(Timestamp, String)> {
        let mut found = Vec::new();
        for log in self.logs().await {
            if let Ok(service) = self.controller.get(&log).await {
                found.extend(self.entries(&service, elapsed).await);
            }
        }
        found
    }

    /// The logs of the system, and those of its manager.
    async fn logs(&self) -> Vec<Arc<str>> {
        let Ok(system) = self.controller.get(&self.system).await else {
            return Vec::new();
        };
        let mut collections: Vec<Arc<str>> = Vec::new();
        collections.extend(system.link("/LogServices").map(Arc::from));
        for manager in system.links("/Links/ManagedBy").iter().take(1) {
            if let Ok(manager) = self.controller.get(manager).await {
                collections.extend(manager.link("/LogServices").map(Arc::from));
            }
        }
        let mut logs = Vec::new();
        for collection in collections {
            logs.extend(
                self.controller
                    .members(&collection)
                    .await
                    .unwrap_or_default(),
            );
        }
        logs.truncate(MOST_LOGS);
        logs
    }

    /// The entries of a log since a time ago, by the clock of the controller.
    async fn entries(&self, service: &Resource, elapsed: Duration) -> Vec<(Timestamp, String)> {
        let now = service.text("/DateTime").and_then(|time| time.parse().ok());
        // Without its clock nothing tells which of the entries are new.
        let Some(now): Option<Timestamp> = now else {
            return Vec::new();
        };
        let ago = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let begin = now
            .checked_sub(ago)
            .and_then(|begin| begin.checked_sub(SLACK))
            .unwrap_or(Timestamp::MIN);
        let Some(path) = service.link("/Entries") else {
            return Vec::new();
        };
        let Ok(page) = self.controller.get(path).await else {
            return Vec::new();
        };
        let mut found = self.new_entries(&page, begin);
        // Some begin with the oldest entry, and the newest are on the last page.
        let count = page.number("/Members@odata.count").unwrap_or(0);
        let shown = page.parts("/Members").len() as u64;
        if found.is_empty() && count > shown && shown > 0 {
            let join = if path.contains('?') { '&' } else { '?' };
            let last = format!("{path}{join}$skip={}", count - shown.min(count));
            if let Ok(page) = self.controller.get(&last).await {
                found = self.new_entries(&page, begin);
            }
        }
        found
    }

    /// The entries of a page that are not older than a time.
    fn new_entries(&self, page: &Resource, begin: Timestamp) -> Vec<(Timestamp, String)> {
        let shown = |text: &str, longest| self.controller.masked(text, longest);
        let entries = page.parts("/Members").into_iter().filter_map(|part| {
            let Part::Whole(entry) = part else {
                return None;
            };
            let created: Timestamp = entry.text("/Created")?.parse().ok()?;
            let text = shown(entry.text("/Message")?, LONGEST);
            let severity = entry.text("/Severity").filter(|severity| *severity != "OK");
            let severity = severity.map(|severity| format!(" ({})", shown(severity, 20)));
            let time = created.strftime("%H:%M:%SZ");
            (created >= begin).then(|| {
                let text = format!("{time} {text}{}", severity.unwrap_or_default());
                (created, text)
            })
        });
        entries.collect()
    }
}
