//! How a site is, by its lock and its records, and what that makes of its place in a rollout.

use crate::design::RunId;
use crate::plan::{RunState, UnfinishedRun};
use crate::record::{Outcome, RunRecord};
use crate::repository::{CommitId, Holder};
use crate::rollout::{Instant, SiteProgress, SiteResult};
use crate::run::{self, Connection};
use crate::workflow::{Checkout, Client, Failure, follow};

/// How long a site that another process began counts as begun, where it is not known whether that process is gone.
const UNKNOWN_HOLDER: i64 = 600;

/// How a site is.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// It cannot be known: why.
    Unknown(String),
    /// Its lock and records tell it.
    Known(Box<KnownSite>),
}

/// The lock and the records of a site.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownSite {
    pub(super) unfinished: Option<UnfinishedRun>,
    /// The run of its last success, with its commit and its record.
    pub(super) success: Option<(RunId, String, Option<RunRecord>)>,
    /// The newest run.
    pub(super) last: Option<RunRecord>,
}

/// Reads the lock and the records of a site.
pub(super) fn look(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
) -> Look {
    known(client, checkout, connection).unwrap_or_else(|failure| Look::Unknown(failure.message))
}

fn known(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
) -> Result<Look, Failure> {
    let store = follow(client, checkout, connection)?;
    let state = store.read()?;
    let unfinished = run::unfinished_run(&checkout.site(connection.clone())?)?;
    let record = |run: &RunId| store.run(&state, run);
    let success = match &state.site.last_success {
        Some(action) => Some((
            action.run.clone(),
            action.revision.to_string(),
            record(&action.run)?,
        )),
        None => None,
    };
    let last = match &state.site.last_run {
        Some(run) => record(run)?,
        None => None,
    };
    Ok(Look::Known(Box::new(KnownSite {
        unfinished,
        success,
        last,
    })))
}

/// The rollout that a site is judged in.
#[derive(Clone, Copy)]
pub(super) struct Judging<'a> {
    pub(super) site: &'a str,
    pub(super) revision: CommitId,
    /// The soak of its phase, in seconds.
    pub(super) soak: u64,
    pub(super) now: i64,
    pub(super) me: &'a Holder,
}

impl Judging<'_> {
    fn progress(&self, result: SiteResult) -> SiteProgress {
        SiteProgress::new(result, self.revision)
    }

    /// A site that got the revision, by a run where there was something to do.
    pub(super) fn succeeded(&self, run: Option<(&RunId, Option<&RunRecord>)>) -> SiteProgress {
        let record = run.and_then(|(_, record)| record);
        let soak = i64::try_from(self.soak).unwrap_or(i64::MAX);
        SiteProgress {
            run: run.map(|(run, _)| run.clone()),
            ended: Some(Instant(self.now)),
            soak_until: (soak > 0).then(|| Instant(self.now.saturating_add(soak))),
            ..counted(self.progress(SiteResult::Succeeded), record)
        }
    }

    fn failed(&self, record: &RunRecord) -> SiteProgress {
        let how = match record.outcome {
            Outcome::Abandoned => "was aborted",
            Outcome::Running
            | Outcome::Interrupted
            | Outcome::Succeeded
            | Outcome::SucceededWithFailures
            | Outcome::Failed => "made no success of the site",
        };
        let why = format!("run {} {how}", record.run);
        let progress = SiteProgress {
            run: Some(record.run.clone()),
            ended: Some(Instant(self.now)),
            ..counted(self.progress(SiteResult::Failed), Some(record))
        };
        progress.because(&why)
    }

    /// A site in whose way something is.
    pub(super) fn held(&self, run: Option<&RunId>, why: &str) -> SiteProgress {
        let progress = SiteProgress {
            run: run.cloned(),
            ..self.progress(SiteResult::Held)
        };
        progress.because(why)
    }

    /// The progress of a site that is known so far as `entry`, by how it is.
    pub(super) fn judge(&self, entry: Option<&SiteProgress>, look: &Look) -> SiteProgress {
        let result = entry.map_or(SiteResult::Pending, |entry| entry.result);
        let (unfinished, success, last) = match look {
            // The process that is at work knows better.
            Look::Unknown(_) if result == SiteResult::Running && !self.is_gone(entry) => {
                return entry.cloned().unwrap_or_else(|| self.progress(result));
            }
            Look::Unknown(why) => {
                let run = entry.and_then(|entry| entry.run.as_ref());
                return self.held(run, why);
            }
            Look::Known(known) => (&known.unfinished, &known.success, &known.last),
        };
        if let Some(unfinished) = unfinished {
            return self.in_the_way(entry, unfinished);
        }
        let revision = self.revision.to_string();
        let own_run = entry.and_then(|entry| entry.run.as_ref());
        if let Some((run, commit, record)) = success
            && *commit == revision
            && !(result == SiteResult::Failed && own_run == Some(run))
        {
            return self.succeeded(Some((run, record.as_ref())));
        }
        let last = last.as_ref().filter(|last| *last.revision == *revision);
        let begun = entry.and_then(|entry| entry.begun);
        let is_own = |last: &&RunRecord| match result {
            SiteResult::Running => begun.is_some_and(|begun| started(last) >= begun.0),
            SiteResult::Held => own_run == Some(&last.run),
            SiteResult::Pending | SiteResult::Succeeded | SiteResult::Failed => false,
        };
        if let Some(last) = last.filter(is_own) {
            return self.failed(last);
        }
        match (result, entry) {
            (SiteResult::Failed | SiteResult::Succeeded, Some(entry)) => entry.clone(),
            (SiteResult::Running, Some(entry)) if !self.is_gone(Some(entry)) => entry.clone(),
            _ => self.progress(SiteResult::Pending),
        }
    }

    /// Whether the process that began a site is gone, or has shown nothing for so long that it counts as gone: the lock of
    /// the site holds in any case.
    fn is_gone(&self, entry: Option<&SiteProgress>) -> bool {
        let Some(entry) = entry else { return true };
        let is_old = |begun: Instant| self.now.saturating_sub(begun.0) > UNKNOWN_HOLDER;
        let holder = entry.holder.as_ref();
        holder.is_none_or(|holder| holder.is_gone(self.me) || holder.is_same(self.me))
            || entry.begun.is_none_or(is_old)
    }

    /// A site with a run that has not ended.
    fn in_the_way(&self, entry: Option<&SiteProgress>, unfinished: &UnfinishedRun) -> SiteProgress {
        let (run, site) = (&unfinished.run, self.site);
        match (unfinished.state, entry) {
            (RunState::Interrupted, _) => self.held(
                Some(run),
                &format!(
                    "run {run} was interrupted: `trueup apply --resume --site {site}` resumes it, `trueup abort {run} --site {site}` aborts it"
                ),
            ),
            (RunState::EndedElsewhere, _) => self.held(
                Some(run),
                &format!("run {run} has ended in another clone, and its records are not published: `trueup log` there does that"),
            ),
            (RunState::Running, Some(entry))
                if entry.result == SiteResult::Running && !self.is_gone(Some(entry)) =>
            {
                SiteProgress {
                    run: Some(run.clone()),
                    ..entry.clone()
                }
            }
            (RunState::Running, _) => self.held(Some(run), &format!("run {run} is at work")),
        }
    }
}

fn started(record: &RunRecord) -> i64 {
    let time = record.started.parse::<jiff::Timestamp>();
    time.map_or(i64::MIN, |time| time.as_second())
}

/// Adds how many nodes a run worked on.
fn counted(progress: SiteProgress, record: Option<&RunRecord>) -> SiteProgress {
    let Some(record) = record else {
        return progress;
    };
    let counts = &record.counts;
    SiteProgress {
        nodes: counts.succeeded + counts.failed + counts.half_done + counts.not_started,
        failed_nodes: counts.failed,
        ..progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_judged_by_its_records_and_never_done_without_them() {
        let me = Holder::this_process("ada", "fleet", "2026-01-01T00:00:00Z");
        let elsewhere = Holder {
            host: "elsewhere".to_owned(),
            ..me.clone()
        };
        let revision: CommitId = "1111111111111111111111111111111111111111".parse().unwrap();
        let at = |now| Judging {
            site: "edge",
            revision,
            soak: 0,
            now,
            me: &me,
        };
        let known = |success: Option<(&str, CommitId)>| {
            let success = success.map(|(run, commit)| (RunId::from(run), commit.to_string(), None));
            Look::Known(Box::new(KnownSite {
                success,
                ..KnownSite::default()
            }))
        };
        let unknown = Look::Unknown("no answer".to_owned());
        let running = SiteProgress {
            begun: Some(Instant(1000)),
            holder: Some(Box::new(elsewhere)),
            ..SiteProgress::new(SiteResult::Running, revision)
        };
        let judged =
            |now, entry: Option<&SiteProgress>, look: &Look| at(now).judge(entry, look).result;
        // Another process may be at work for ten minutes, however the site answers.
        for look in [&known(None), &unknown] {
            assert_eq!(judged(1600, Some(&running), look), SiteResult::Running);
        }
        assert_eq!(
            judged(1601, Some(&running), &known(None)),
            SiteResult::Pending
        );
        assert_eq!(judged(1601, Some(&running), &unknown), SiteResult::Held);
        assert_eq!(judged(0, None, &unknown), SiteResult::Held);
        // A success counts at the revision alone, and not the one that has drifted.
        let other: CommitId = "2222222222222222222222222222222222222222".parse().unwrap();
        let success = known(Some(("R1", revision)));
        assert_eq!(judged(0, None, &success), SiteResult::Succeeded);
        let elsewhen = known(Some(("R1", other)));
        assert_eq!(judged(0, None, &elsewhen), SiteResult::Pending);
        let drifted = SiteProgress {
            run: Some(RunId::from("R1")),
            ..SiteProgress::new(SiteResult::Failed, revision)
        };
        assert_eq!(judged(0, Some(&drifted), &success), SiteResult::Failed);
        let again = known(Some(("R2", revision)));
        assert_eq!(judged(0, Some(&drifted), &again), SiteResult::Succeeded);
    }
}
