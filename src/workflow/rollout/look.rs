//! How a site is, by its lock and its records, and what that makes of its place in a rollout.

use crate::design::RunId;
use crate::document::Instant;
use crate::plan::{RunState, UnfinishedRun};
use crate::record::{Outcome, RunRecord};
use crate::repository::{CommitId, Holder};
use crate::rollout::{SiteProgress, SiteResult};
use crate::run::{self, Connection, Process, SiteRepository};
use crate::workflow::reservations::ReservationRef;
use crate::workflow::{Checkout, Client, Failure, follow};

/// How long a site that another process began counts as begun, if it is not known whether that process is gone.
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
    /// A run that has ended in this clone, and whose end the remote does not have.
    pub(super) unpublished: Option<RunId>,
    /// The newest run.
    pub(super) last: Option<RunRecord>,
    /// Whether that is the last success of the site.
    pub(super) is_success: bool,
    /// The machines that persons work on, if that success left machines.
    pub(super) reserved: Vec<String>,
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
    let site = checkout.site(connection.clone())?;
    let unfinished = run::unfinished_run(&site)?;
    let (actor, clock) = (client.actor(site.repository)?, client.clock());
    let unpublished = run::unpublished(Process::new(&site, &actor, &*clock))?;
    let last = match &state.site.last_run {
        Some(run) => store.run(&state, run)?,
        None => None,
    };
    let success = state.site.last_success.as_ref();
    let is_success =
        success.is_some_and(|success| Some(&success.run) == state.site.last_run.as_ref());
    let has_left = |run: &RunRecord| is_success && !run.unproven.open().is_none();
    let reserved = match last.as_ref().is_some_and(has_left) {
        true => reserved(&site, clock.seconds())?,
        false => Vec::new(),
    };
    Ok(Look::Known(Box::new(KnownSite {
        reserved,
        unfinished,
        unpublished: unpublished.map(|left| left.run),
        last,
        is_success,
    })))
}

/// The machines of a site that persons work on, each with who does, and how that ends.
fn reserved(site: &SiteRepository<'_>, now: i64) -> Result<Vec<String>, Failure> {
    let reservations = ReservationRef::of(site).holding_at(now)?;
    let reserved = reservations.nodes.iter().map(|(node, reservation)| {
        format!(
            "{node} is {reservation} (`trueup release {node} --site {}` ends that)",
            site.name
        )
    });
    Ok(reserved.collect())
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

    /// A site that got the revision, by a run if there was something to do.
    pub(super) fn succeeded(&self, run: Option<&RunRecord>) -> SiteProgress {
        let soak = i64::try_from(self.soak).unwrap_or(i64::MAX);
        SiteProgress {
            run: run.map(|run| run.run.clone()),
            ended: Some(Instant(self.now)),
            soak_until: (soak > 0).then(|| Instant(self.now.saturating_add(soak))),
            ..counted(self.progress(SiteResult::Succeeded), run)
        }
    }

    fn failed(&self, record: &RunRecord) -> SiteProgress {
        let run = &record.run;
        let why = match record.outcome {
            Outcome::Abandoned => format!("run {run} was aborted"),
            Outcome::SucceededWithFailures => format!("run {run} succeeded with failures"),
            Outcome::Running | Outcome::Interrupted | Outcome::Succeeded | Outcome::Failed => {
                format!("run {run} made no success of the site")
            }
        };
        let progress = SiteProgress {
            run: Some(run.clone()),
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
        SiteProgress {
            outdated: entry.and_then(|entry| entry.outdated.clone()),
            ..self.judged(entry, look)
        }
    }

    fn judged(&self, entry: Option<&SiteProgress>, look: &Look) -> SiteProgress {
        let result = entry.map_or(SiteResult::Pending, |entry| entry.result);
        let known = match look {
            // The process that is at work knows better.
            Look::Unknown(_) if result == SiteResult::Running && !self.is_gone(entry) => {
                return entry.cloned().unwrap_or_else(|| self.progress(result));
            }
            Look::Unknown(why) => {
                let run = entry.and_then(|entry| entry.run.as_ref());
                return self.held(run, why);
            }
            Look::Known(known) => known,
        };
        if let Some(run) = &known.unpublished {
            return self.held(Some(run), &format!("run {run} has ended, and its end is not published: the next command of this clone that asks the remote publishes it, such as `trueup log --site {}`", self.site));
        }
        if let Some(unfinished) = &known.unfinished {
            return self.in_the_way(entry, unfinished);
        }
        // A site is what its newest run has made of it, whatever succeeded before.
        let revision = self.revision.to_string();
        let last = known.last.as_ref();
        let newest = last.filter(|last| *last.revision == *revision);
        let is_own = |last: &&RunRecord| {
            let begun = entry.and_then(|entry| entry.begun);
            match result {
                SiteResult::Running => begun.is_some_and(|begun| started(last) >= begun.0),
                SiteResult::Held => entry.and_then(|entry| entry.run.as_ref()) == Some(&last.run),
                SiteResult::Pending | SiteResult::Succeeded | SiteResult::Failed => false,
            }
        };
        let is_outdated =
            |last: &RunRecord| entry.and_then(|entry| entry.outdated.as_ref()) == Some(&last.run);
        let success = newest.filter(|last| {
            known.is_success && last.outcome == Outcome::Succeeded && !is_outdated(last)
        });
        match (success, newest.filter(is_own)) {
            (Some(success), own) => {
                let open = success.unproven.open();
                if open.is_none() {
                    return self.succeeded(Some(success));
                }
                // Once it was told, an ordinary run finds out.
                if own.is_some() && result == SiteResult::Running {
                    let words: Vec<String> =
                        open.words().chain(known.reserved.iter().cloned()).collect();
                    let run = &success.run;
                    let why = format!("run {run} succeeded, and left {}", words.join(", "));
                    return self.held(Some(run), &why);
                }
            }
            (None, Some(own)) => return self.failed(own),
            (None, None) => {}
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
        nodes: counts.succeeded
            + counts.failed
            + counts.half_done
            + counts.not_started
            + counts.may_be_begun,
        failed_nodes: counts.failed,
        ..progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::record::Unproven;

    #[test]
    #[expect(clippy::too_many_lines, reason = "one site, judged in every state")]
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
        let ended = |outcome, id: &str, revision: CommitId| RunRecord {
            run: RunId::from(id),
            revision: Arc::from(revision.to_string()),
            ..run::run_record(outcome, "update", false)
        };
        let look_of = |last: Option<RunRecord>| {
            let is_success = last
                .as_ref()
                .is_some_and(|last| last.outcome != Outcome::Failed);
            Look::Known(Box::new(KnownSite {
                last,
                is_success,
                ..KnownSite::default()
            }))
        };
        let known = |success: Option<(&str, CommitId)>| {
            look_of(success.map(|(run, commit)| ended(Outcome::Succeeded, run, commit)))
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
        let drifted = at(0).succeeded(Some(&ended(Outcome::Succeeded, "R1", revision)));
        let drifted = drifted.drifted("2 to deploy", Instant(0));
        assert_eq!(judged(0, Some(&drifted), &success), SiteResult::Failed);
        let again = known(Some(("R2", revision)));
        assert_eq!(judged(0, Some(&drifted), &again), SiteResult::Succeeded);
        // Begun once more, it is begun indeed, and the old success does not count in the meantime.
        let anew = SiteProgress {
            outdated: drifted.outdated.clone(),
            ..SiteProgress::new(SiteResult::Pending, revision)
        };
        let begun = at(0).judge(Some(&anew), &success);
        assert_eq!(
            (begun.result, &begun.outdated),
            (SiteResult::Pending, &drifted.outdated)
        );
        assert_eq!(judged(0, Some(&anew), &again), SiteResult::Succeeded);

        // A failure after the success is what counts, and is none of this rollout.
        let later = look_of(Some(ended(Outcome::Failed, "R3", revision)));
        assert_eq!(judged(0, None, &later), SiteResult::Pending);
        let mine = SiteProgress {
            begun: Some(Instant(0)),
            holder: Some(Box::new(me.clone())),
            ..running.clone()
        };
        assert_eq!(judged(0, Some(&mine), &later), SiteResult::Failed);
        let criteria = look_of(Some(ended(Outcome::SucceededWithFailures, "R3", revision)));
        assert_eq!(judged(0, None, &criteria), SiteResult::Pending);
        assert_eq!(judged(0, Some(&mine), &criteria), SiteResult::Failed);
        // What was not observed is held, and found out by the next call.
        let blind = look_of(Some(RunRecord {
            unproven: Unproven {
                unobserved: 2,
                ..Unproven::default()
            },
            ..ended(Outcome::Succeeded, "R3", revision)
        }));
        let held = at(0).judge(Some(&mine), &blind);
        assert_eq!(held.result, SiteResult::Held);
        assert!(
            held.why
                .as_deref()
                .is_some_and(|why| why.contains("2 not observed"))
        );
        assert_eq!(judged(0, Some(&held), &blind), SiteResult::Pending);
        // An end that is in this clone alone proves nothing.
        let unpublished = Look::Known(Box::new(KnownSite {
            unpublished: Some(RunId::from("R3")),
            last: Some(ended(Outcome::Succeeded, "R3", revision)),
            is_success: true,
            ..KnownSite::default()
        }));
        assert_eq!(judged(0, Some(&mine), &unpublished), SiteResult::Held);
    }
}
