//! How a run ends: its report, its last records, its tag, all published at once, and the lock released.

use std::sync::Arc;

use super::error::{self, Error};
use super::keep::{Session, chain, lock};
use super::recorder::Recorder;
use super::tag::{self, Deed};
use super::time::rfc3339;
use crate::apply::{Event, EventKind, Finished, RunReport};
use crate::record::{Outcome, Packed};
use crate::repository::{self, NewTag, RefUpdate};

impl Session<'_> {
    /// Writes the end of the run: report, records and outcome, then the tag, then both to the remote
    /// together with the release of the lock. A remote that cannot be reached is a warning: everything is
    /// here, and the next run publishes it.
    ///
    /// An interrupted run gets no tag; its lock is released where everybody can see that it was
    /// interrupted, else it stays.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] where somebody else has the site; the records or the tag cannot be written.
    pub fn finish(&self, finished: &Finished) -> Result<RunReport, Error> {
        if self.is_lost() {
            return Err(Error::Fenced {
                run: self.run.clone(),
            });
        }
        let seconds = self.time.seconds();
        let (report, tag) = {
            let mut records = lock(&self.records);
            let past_verification = records.past_verification;
            let run = &mut records.run;
            run.outcome = if finished.interrupted {
                Outcome::Interrupted
            } else {
                finished.outcome
            };
            run.counts = finished.counts;
            run.tag = None;
            let mut new_tag = None;
            if run.outcome != Outcome::Interrupted {
                run.ended = Some(Arc::from(rfc3339(seconds)));
                let deed = Deed {
                    past_verification,
                    is_no_op: tag::is_no_op(self.plan),
                };
                run.tag = tag::name(run, &self.before, deed).map(Arc::from);
                new_tag = tag::tag(run, self.commit, self.actor.at(seconds));
            }
            let report = RunReport {
                run: self.run.clone(),
                outcome: run.outcome,
                groups: finished.groups.clone(),
                nodes: finished.nodes.clone(),
                counts: finished.counts,
                tag: run.tag.clone(),
                next: next(&self.run, run.outcome, finished),
                duration_ms: finished.duration_ms,
            };
            (report, new_tag)
        };
        if let Some(tag) = &tag {
            self.files.intend_tag(tag)?;
        }
        let packed = Packed::new(|out| Ok(serde_json::to_writer(out, &report)?));
        let (packed, ()) = packed.map_err(|error| Error::Broken {
            what: "the report of the run".to_owned(),
            reason: error.to_string(),
        })?;
        self.checkpoint(Some(&packed))?;
        let update = match &tag {
            Some(tag) => Some(self.make(tag)?),
            None => None,
        };
        let is_interrupted = report.outcome == Outcome::Interrupted;
        let is_published = self.close(update)?;
        if is_published && !is_interrupted {
            self.files.remove();
        }
        Ok(report)
    }

    fn make(&self, tag: &NewTag) -> Result<RefUpdate, Error> {
        let id = self
            .site
            .repository
            .create_tag(tag)
            .map_err(error::repository(&self.site.name, "tag the commit"))?;
        Ok(RefUpdate {
            name: tag.ref_name(),
            old: None,
            new: Some(id),
        })
    }

    /// Publishes the end and releases the lock; whether that reached everybody.
    fn close(&self, tag: Option<RefUpdate>) -> Result<bool, Error> {
        let mut renewal = lock(&self.held);
        let mut published = lock(&self.published);
        let held = renewal.held.lock.clone();
        if self.site.audience().is_none() {
            renewal.stop();
            if let Err(error) = self.site.release(&held) {
                self.warn(chain(&error));
            }
            return Ok(true);
        }
        let (state, tip) = {
            let records = lock(&self.records);
            let update = self.store.publication(&records.state, published.tip);
            (update, records.state.tip)
        };
        let release = RefUpdate {
            name: self.site.lock_ref()?,
            old: Some(held.id.0),
            new: None,
        };
        let all: Vec<RefUpdate> = state.into_iter().chain(tag).chain([release]).collect();
        let outcome = match self.site.publish(&all) {
            Err(
                ref error @ Error::Repository {
                    source: repository::Error::Refused { .. },
                    ..
                },
            ) => {
                // One of them is refused: the others are published all the same, in their order.
                self.warn(chain(error));
                let one = |update: &RefUpdate| self.site.publish(std::slice::from_ref(update));
                let mut all_taken = true;
                for update in &all {
                    all_taken &= matches!(one(update), Ok(true));
                }
                Ok((true, all_taken))
            }
            other => other.map(|won| (won, won)),
        };
        renewal.stop();
        match outcome {
            Ok((true, all_taken)) => {
                published.tip = tip;
                self.site
                    .repository
                    .release_lock(self.site.name.as_str(), held.id, None)
                    .map_err(error::repository(&self.site.name, "release the lock"))?;
                Ok(all_taken)
            }
            Ok((false, _)) => Err(Error::Fenced {
                run: self.run.clone(),
            }),
            Err(error) => {
                self.warn(format!(
                    "{}; records and tag are in this clone, and the lock stays until the next run publishes them",
                    chain(&error)
                ));
                Ok(false)
            }
        }
    }
}

impl Recorder<'_, '_> {
    /// [`Session::finish`], and the event of the end for whoever listens; `time` and `elapsed_ms` are
    /// the event's.
    ///
    /// # Errors
    ///
    /// As [`Session::finish`].
    pub fn finish(
        mut self,
        finished: &Finished,
        time: &Arc<str>,
        elapsed_ms: u64,
    ) -> Result<RunReport, Error> {
        let report = self.session.finish(finished);
        self.relay(time, elapsed_ms);
        let report = report?;
        (self.sink)(&Event {
            time: time.clone(),
            elapsed_ms,
            kind: EventKind::RunFinished {
                report: report.clone(),
            },
        });
        Ok(report)
    }
}

/// What to do next, one sentence each.
fn next(run: &crate::design::RunId, outcome: Outcome, finished: &Finished) -> Vec<Arc<str>> {
    let mut next: Vec<String> = Vec::new();
    for (step, evidence) in &finished.undecided {
        next.push(format!(
            "Nobody can tell how far `{step}` came: {evidence}; then `trueup apply --resume --decide {step}=done` or `={}`.",
            "not-begun"
        ));
    }
    for node in &finished.left_cordoned {
        next.push(format!(
            "{node} is left cordoned; `trueup apply uncordon {node}` lets pods be scheduled on it again."
        ));
    }
    match outcome {
        Outcome::Interrupted => next.push(format!(
            "`trueup apply --resume` goes on with run {run}, `trueup abort {run}` gives it up."
        )),
        Outcome::Failed | Outcome::SucceededWithFailures => {
            next.push("`trueup plan` shows what is left.".to_owned());
        }
        Outcome::Succeeded | Outcome::Running | Outcome::Abandoned => {}
    }
    next.into_iter().map(Arc::from).collect()
}
