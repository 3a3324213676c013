//! How a run ends: its report, its last records, its tag, all published at once, and the lock released.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::error::Error;
use super::publish::{End, Publication};
use super::recorder::Recorder;
use super::records::LiveRecords;
use super::session::Session;
use super::tag::{self, TagFacts};
use super::time::rfc3339;
use crate::design::NodeName;
use crate::plan::Standing;
use crate::record::Phase;
use crate::record::{Outcome, RunRecord, Unproven};
use crate::repository::Holder;
use crate::run::{EventKind, Finished, RunReport};
use crate::threads::lock;

impl Session<'_> {
    /// Writes the end of the run: report, records and outcome, then the tag, then all of it to the remote
    /// together with the release of the lock ([`Session::publication`] holds the result of that).
    ///
    /// An interrupted run gets no tag; its lock is released if the remote shows that it was
    /// interrupted, else it stays.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] if another run has taken the lock; [`Error::Unrecorded`] if the run would have
    /// succeeded and a node has no record; the records or the tag cannot be written.
    pub fn finish(&self, finished: &Finished) -> Result<RunReport, Error> {
        if self.lease.is_lost() {
            return Err(Error::Fenced {
                run: self.run.clone(),
            });
        }
        let seconds = self.process.time.seconds();
        if !finished.interrupted
            && matches!(
                finished.outcome,
                Outcome::Succeeded | Outcome::SucceededWithFailures
            )
        {
            self.check_records(finished)?;
            let renewed = std::mem::take(&mut *lock(&self.renewed));
            lock(&self.records).renew(renewed);
        }
        let unsigned;
        let report = {
            let mut records = lock(&self.records);
            let LiveRecords {
                past_verification,
                earlier_ms,
                ..
            } = *records;
            let LiveRecords {
                run,
                nodes,
                left_pods,
                ..
            } = &mut *records;
            run.outcome = if finished.interrupted {
                Outcome::Interrupted
            } else {
                finished.outcome
            };
            run.counts = finished.counts;
            run.halted.clone_from(&finished.halted);
            run.tag = None;
            run.annotation = None;
            if run.outcome != Outcome::Interrupted {
                run.ended = Some(Arc::from(rfc3339(seconds)));
                let facts = TagFacts {
                    past_verification,
                    is_no_op: tag::is_no_op(self.approved.plan),
                };
                run.tag = tag::name(run, &self.before, facts).map(Arc::from);
                if run.tag.is_some() {
                    let recorded = Unproven::of(nodes.values());
                    run.unproven = Unproven {
                        assumed: recorded.assumed,
                        not_joined: recorded.not_joined,
                        ..self.approved.plan.left_unproven()
                    };
                }
                run.annotation =
                    tag::annotation(run, failed_nodes(finished), self.process.actor.at(seconds));
            }
            unsigned = tag::sign(run, self.process.site.signing.as_deref());
            RunReport {
                duration_ms: run_duration(run, seconds, earlier_ms + finished.duration_ms),
                ..RunReport::new(run, self.approved.plan, finished, left_pods)
            }
        };
        if let Some(why) = unsigned {
            self.lease.warn(format!(
                "the tag of run {} is made without a signature: {why}",
                self.run
            ));
        }
        let packed = report.packed()?;
        self.checkpoint(Some(&packed))?;
        self.close()?;
        Ok(report)
    }

    /// Whether each node that the run has built is in the records as deployed.
    fn check_records(&self, finished: &Finished) -> Result<(), Error> {
        let built: FxHashSet<&NodeName> = self
            .approved
            .plan
            .steps
            .iter()
            .filter(|step| step.id.kind.facts().reaches == Some(Phase::Deployed))
            .filter_map(|step| step.id.node.as_ref())
            .collect();
        let records = lock(&self.records);
        let is_recorded = |node: &NodeName| {
            let record = records.nodes.get(node);
            record.is_some_and(|record| record.is_deployed_by(&self.run))
        };
        let nodes: Vec<NodeName> = finished
            .nodes
            .iter()
            .filter(|result| result.complete && result.standing == Standing::Deployed)
            .filter(|result| built.contains(&result.node) && !is_recorded(&result.node))
            .map(|result| result.node.clone())
            .collect();
        match nodes.is_empty() {
            true => Ok(()),
            false => Err(Error::Unrecorded {
                run: self.run.clone(),
                nodes,
            }),
        }
    }

    /// Publishes the end and releases the lock.
    fn close(&self) -> Result<(), Error> {
        let mut renewal = lock(&self.held);
        let mut published = lock(&self.published);
        let (state, run) = {
            let records = lock(&self.records);
            (records.state.clone(), records.run.clone())
        };
        let end = End {
            run: &run,
            state: &state,
            remote_tip: published.tip,
            lock: Some(renewal.held.lock.id),
            author: self.process.signature(),
        };
        renewal.stop();
        let (publication, state) = self.process.site.publish_end(&self.store, &end)?;
        match &publication {
            Publication::Missing { why } => {
                self.lease.warn(format!(
                    "run {} has ended, and its end could not be published: {why}; records and tag are in this clone, and the lock stays until the next command here publishes them",
                    self.run
                ));
                self.mark_ended(&renewal.held.lock.holder, renewal.held.lock.id);
            }
            Publication::Whole | Publication::TagOwed { .. } => {
                published.tip = state.tip;
                if run.outcome != Outcome::Interrupted {
                    self.files.remove();
                }
            }
        }
        lock(&self.records).state = state;
        *lock(&self.publication) = Some(publication);
        Ok(())
    }

    /// Says in the lock that the run has ended, as far as the remote takes that: no other clone resumes it
    /// at once, though its process is gone.
    fn mark_ended(&self, holder: &Holder, seen: crate::repository::CommitId) {
        let holder = Holder {
            ended: true,
            ..holder.clone()
        };
        let plan = self.approved.plan_file.as_bytes();
        let marked = self.process.take_as(Some(seen), holder, plan);
        if let Err(error) = marked {
            log::info!("the end of the run could not be marked in the lock: {error}");
        }
    }
}

impl Session<'_> {
    /// [`Session::finish`], and the event of the end for the listeners of a recorder; `time` and `elapsed_ms` are the event's.
    /// `ended` adds what became known after the lock was released.
    ///
    /// # Errors
    ///
    /// As [`Session::finish`].
    pub fn finish_heard(
        &self,
        mut recorder: Recorder<'_>,
        finished: &Finished,
        time: &Arc<str>,
        elapsed_ms: u64,
        ended: impl FnOnce(&mut RunReport),
    ) -> Result<RunReport, Error> {
        let report = self.finish(finished);
        recorder.relay(time, elapsed_ms);
        let mut report = report?;
        ended(&mut report);
        let kind = EventKind::RunFinished {
            report: Box::new(report.clone()),
        };
        recorder.tell(time, elapsed_ms, kind);
        Ok(report)
    }
}

/// How long a run took: as long as its processes carried it out; one that workers carried out, since it began.
fn run_duration(run: &RunRecord, now: i64, carried_out_ms: u64) -> u64 {
    let began = run.started.parse::<jiff::Timestamp>();
    match (&run.workers, began) {
        (Some(_), Ok(began)) => {
            let seconds = now.saturating_sub(began.as_second());
            u64::try_from(seconds).unwrap_or_default() * 1000
        }
        _ => carried_out_ms,
    }
}

/// The nodes that failed, by name.
fn failed_nodes(finished: &Finished) -> impl Iterator<Item = &NodeName> {
    let failed = finished.nodes.iter().filter(|node| node.message.is_some());
    failed.map(|node| &node.node)
}
