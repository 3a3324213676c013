//! The records of a site, kept on one ref of its repository.
//!
//! `<prefix>/<site>/state` is a line of commits, one for each run and checkpoint, with this tree (at a remote it may be
//! in a branch, see [`Place`]):
//!
//! - `site.json`: the newest run, the last site action and the last success ([`SiteState`]); what it
//!   says counts, and nothing is looked up by listing tags;
//! - `nodes/00` … `nodes/ff`: the records of the nodes;
//! - `durations.jsonl`: how long steps took in past runs, for estimates;
//! - `runs/<run>/run.json`, `plan.json.zz`, `report.json.zz` and `events/000000.jsonl.zz` …: each
//!   run; `.zz` is zlib. Events come in parts, one a checkpoint, so that a checkpoint costs what is new.
//!
//! Records are read at one commit ([`State`]) and written on top of that commit by compare-and-swap: a
//! lost race is an error that changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::error::{Error, failed};
use super::format::{FORMAT_VERSION, SITE};
use super::place::{Place, marked};
use super::signing::{self, Signing};
use super::{NodeRecord, Outcome, Packed, RunRecord, SiteAction, SiteState};
use super::{cached, shard};
use crate::design::{NodeName, RunId, SiteName, name_problem};
use crate::repository::{self, CommitId, NewCommit, Repository, Signature};

const DURATIONS: &str = "durations.jsonl";
const RUNS: &str = "runs";
const RUN: &str = "run.json";
const EVENTS: &str = "events";

/// The records of one site.
#[derive(Clone, Debug)]
pub struct Store<'a> {
    pub(super) repository: &'a Repository,
    pub(super) site: SiteName,
    pub(super) place: Place,
    pub(super) signing: Option<Arc<dyn Signing + 'a>>,
}

/// The records as they were at one moment: all that is read of them belongs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The commit; `None` if nothing was ever recorded.
    pub tip: Option<CommitId>,
    /// The state of the whole site.
    pub site: SiteState,
}

/// A checkpoint that is written, and is not the records yet.
#[derive(Debug)]
pub struct PendingCheckpoint {
    /// The newest commit of the records that it is on top of.
    pub base: Option<CommitId>,
    /// Its own commit.
    pub tip: CommitId,
    /// Why it is not signed, if it should be.
    pub unsigned: Option<String>,
    site: SiteState,
}

/// The content of a checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint<'a> {
    /// The run that writes it.
    pub run: &'a RunRecord,
    /// Records of nodes that have changed; the others stay.
    pub nodes: Vec<&'a NodeRecord>,
    /// Nodes that are not recorded any more.
    pub forgotten: &'a [NodeName],
    /// The plan, if it is not stored yet.
    pub plan: Option<&'a Packed>,
    /// JSON lines of events since the last checkpoint, in parts that follow each other.
    pub events: &'a [Packed],
    /// The report, at the end of the run.
    pub report: Option<&'a Packed>,
    /// The durations of steps in this run and before, if they have changed.
    pub durations: Option<&'a [u8]>,
    /// Author and time.
    pub author: Signature,
}

impl<'a> Checkpoint<'a> {
    /// A checkpoint that writes the record of a run and nothing else.
    #[must_use]
    pub fn of_run(run: &'a RunRecord, author: Signature) -> Self {
        Self {
            run,
            nodes: Vec::new(),
            forgotten: &[],
            plan: None,
            events: &[],
            report: None,
            durations: None,
            author,
        }
    }
}

/// A file of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFile {
    /// The plan that was carried out.
    Plan,
    /// The report at its end.
    Report,
}

impl RunFile {
    fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan.json.zz",
            Self::Report => "report.json.zz",
        }
    }
}

impl<'a> Store<'a> {
    /// The records of a site as this clone has them, whether there are any or not.
    ///
    /// # Errors
    ///
    /// As [`Store::at`]; [`Place::of`].
    pub fn open(repository: &'a Repository, site: &SiteName) -> Result<Self, Error> {
        Self::at(repository, site, Place::of(repository, site, None)?)
    }

    /// The records of a site that are at a place of the remote.
    ///
    /// # Errors
    ///
    /// The name is none for a site, or differs from that of another recorded site in case only.
    pub fn at(repository: &'a Repository, site: &SiteName, place: Place) -> Result<Self, Error> {
        check_name(site.as_str())?;
        let prefix = repository
            .ref_prefix()
            .map_err(failed("find the records"))?;
        let recorded = repository
            .refs(&prefix)
            .map_err(failed("list the recorded sites"))?;
        for name in recorded.keys() {
            let other = name
                .strip_prefix(&prefix)
                .and_then(|rest| rest.trim_start_matches('/').split('/').next())
                .unwrap_or_default();
            if other != site.as_str() && other.eq_ignore_ascii_case(site.as_str()) {
                return Err(Error::SameIgnoringCase {
                    site: site.clone(),
                    other: other.to_owned(),
                });
            }
        }
        Ok(Self {
            repository,
            site: site.clone(),
            place,
            signing: None,
        })
    }

    /// The same records, whose commits are signed from now on.
    #[must_use]
    pub fn signed_by(self, signing: Option<Arc<dyn Signing + 'a>>) -> Self {
        Self { signing, ..self }
    }

    /// The repository that holds the records.
    #[must_use]
    pub fn repository(&self) -> &'a Repository {
        self.repository
    }

    /// The site.
    #[must_use]
    pub fn site(&self) -> &SiteName {
        &self.site
    }

    /// The refs that hold the records, here and at the remote.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The records as they are now.
    ///
    /// # Errors
    ///
    /// They cannot be read, or were written by a newer trueup.
    pub fn read(&self) -> Result<State, Error> {
        match self.tip()? {
            Some(tip) => self.read_at(tip),
            None => Ok(State::default()),
        }
    }

    /// The newest commit of the records here.
    pub(super) fn tip(&self) -> Result<Option<CommitId>, Error> {
        let tip = self.repository.read_ref(self.place.own());
        Ok(tip.map_err(failed("read the records"))?.map(CommitId))
    }

    /// The records as a commit of the state has them.
    ///
    /// # Errors
    ///
    /// As [`Store::read`]; [`Error::Moved`] if it is a marker.
    pub fn read_at(&self, tip: CommitId) -> Result<State, Error> {
        let bytes = self.file(tip, SITE)?.ok_or_else(|| Error::Broken {
            path: SITE.to_owned(),
            reason: "not found".to_owned(),
        })?;
        if let Some(to) = marked(&bytes)? {
            return Err(self.moved(&to));
        }
        let site: SiteState = from_json(SITE, &bytes)?;
        if site.format_version > FORMAT_VERSION {
            return Err(Error::NewerFormat {
                site: self.site.clone(),
                found: site.format_version,
                known: FORMAT_VERSION,
            });
        }
        let tip = Some(tip);
        Ok(State { tip, site })
    }

    /// The records of all nodes.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn nodes(&self, state: &State) -> Result<BTreeMap<NodeName, NodeRecord>, Error> {
        match state.tip {
            Some(tip) => {
                if let Some(records) = cached::read(self.repository, tip) {
                    return Ok(records);
                }
                let records = shard::read_all(self.repository, tip)?;
                cached::write(self.repository, tip, &records);
                Ok(records)
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// The record of one node; `None` if it has none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn node(&self, state: &State, node: &NodeName) -> Result<Option<NodeRecord>, Error> {
        match state.tip {
            Some(tip) => shard::read_one(self.repository, tip, node),
            None => Ok(None),
        }
    }

    /// All runs, the oldest first.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub fn runs(&self, state: &State) -> Result<Vec<RunId>, Error> {
        let Some(tip) = state.tip else {
            return Ok(Vec::new());
        };
        let runs = self
            .repository
            .folders_in(tip, RUNS)
            .map_err(failed("list the runs"))?;
        Ok(runs.into_iter().map(RunId::from).collect())
    }

    /// The runs whose records another commit of the state does not have, or has otherwise; the oldest first.
    ///
    /// # Errors
    ///
    /// They cannot be compared.
    pub fn runs_besides(
        &self,
        state: &State,
        other: Option<CommitId>,
    ) -> Result<Vec<RunId>, Error> {
        if state.tip == other {
            return Ok(Vec::new());
        }
        let (Some(tip), Some(other)) = (state.tip, other) else {
            return self.runs(state);
        };
        let mut runs = Vec::new();
        for run in self.runs(state)? {
            let folder = format!("{RUNS}/{run}");
            let entry = |commit| self.repository.entry_at(commit, &folder);
            let comparing = || failed("compare the runs");
            if entry(tip).map_err(comparing())? != entry(other).map_err(comparing())? {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    /// The record of a run; `None` if there is no such run.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn run(&self, state: &State, run: &RunId) -> Result<Option<RunRecord>, Error> {
        let path = path_in(run, RUN)?;
        match self.file_of(state, &path)? {
            Some(bytes) => from_json(&path, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The commits that wrote the newest record of each of some runs, as their messages tell; if that commit has other files of the
    /// run than the records have, `None`: another one has changed them.
    ///
    /// # Errors
    ///
    /// The records cannot be read.
    pub fn newest_commits(
        &self,
        state: &State,
        runs: &[RunId],
    ) -> Result<BTreeMap<RunId, Option<CommitId>>, Error> {
        let mut found = BTreeMap::new();
        let Some(tip) = state.tip else {
            return Ok(found);
        };
        let reading = || failed("read who wrote the records");
        let mut wanted: BTreeSet<&str> = runs.iter().map(RunId::as_str).collect();
        let mut commits = Vec::new();
        let mut visit = |commit: repository::CommitSummary| {
            let subject = commit.subject.rsplit_once(": ");
            let run = subject.and_then(|(words, _)| words.rsplit_once(' '));
            if let Some(run) = run.and_then(|(_, run)| wanted.take(run)) {
                commits.push((RunId::from(run), commit.id));
            }
            match wanted.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        self.repository
            .first_parents(tip, &mut visit)
            .map_err(reading())?;
        for (run, commit) in commits {
            let folder = path_in(&run, "")?;
            let folder = folder.trim_end_matches('/');
            let entry = |commit| self.repository.entry_at(commit, folder).map_err(reading());
            let is_same = entry(commit)? == entry(tip)?;
            found.insert(run, is_same.then_some(commit));
        }
        Ok(found)
    }

    /// The statements of all approvals that runs have begun with, and the runs.
    ///
    /// # Errors
    ///
    /// A record cannot be read.
    pub fn spent_approvals(&self, state: &State) -> Result<BTreeMap<Arc<str>, RunId>, Error> {
        let mut spent = BTreeMap::new();
        for run in self.runs(state)? {
            let Some(record) = self.run(state, &run)? else {
                continue;
            };
            for approval in record.approvals {
                spent.insert(approval.statement, run.clone());
            }
        }
        Ok(spent)
    }

    /// A file of a run as it is stored; `None` if not found.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn packed_file(
        &self,
        state: &State,
        run: &RunId,
        file: RunFile,
    ) -> Result<Option<Packed>, Error> {
        let found = self.file_of(state, &path_in(run, file.name())?)?;
        Ok(found.map(Packed::from_file))
    }

    /// A file of a run, unpacked; `None` if not found.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn run_file(
        &self,
        state: &State,
        run: &RunId,
        file: RunFile,
    ) -> Result<Option<Vec<u8>>, Error> {
        let path = path_in(run, file.name())?;
        match self.file_of(state, &path)? {
            Some(bytes) => Packed::from_file(bytes).unpack(&path).map(Some),
            None => Ok(None),
        }
    }

    /// The recorded durations of steps; `None` if there are none.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn durations(&self, state: &State) -> Result<Option<Vec<u8>>, Error> {
        self.file_of(state, DURATIONS)
    }

    /// The events of a run as JSON lines, those of all its checkpoints.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn events(&self, state: &State, run: &RunId) -> Result<Vec<u8>, Error> {
        let folder = path_in(run, EVENTS)?;
        let mut events = Vec::new();
        let Some(tip) = state.tip else {
            return Ok(events);
        };
        let reading = "read the events of a run";
        let parts = self
            .repository
            .files_in(tip, &folder)
            .map_err(failed(reading))?;
        for (name, blob) in parts {
            let bytes = self.repository.read_blob(blob).map_err(failed(reading))?;
            let part = Packed::from_file(bytes);
            events.extend(part.unpack(&format!("{folder}/{name}"))?);
        }
        Ok(events)
    }

    /// Writes a checkpoint on top of the records that were read, durably.
    ///
    /// # Errors
    ///
    /// [`Error::LostRace`] if another process wrote since: then nothing was changed.
    pub fn checkpoint(&self, state: &State, checkpoint: &Checkpoint<'_>) -> Result<State, Error> {
        self.advance(self.draft(state, checkpoint)?)
    }

    /// Writes a checkpoint durably, but does not make it the records yet: [`Store::advance`] does.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn draft(
        &self,
        state: &State,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<PendingCheckpoint, Error> {
        let run = checkpoint.run;
        let mut records = shard::Changes::new();
        records.extend(checkpoint.forgotten.iter().map(|node| (node, None)));
        let changed = checkpoint.nodes.iter();
        records.extend(changed.map(|record| (&record.node, Some(*record))));
        let files = shard::changed_files(self.repository, state.tip, &records)?;
        drop(records);
        let removed = files.removed.into_iter().map(|path| (path, None));
        let mut changes: BTreeMap<String, Option<Vec<u8>>> = removed.collect();

        let site = state.site.after(run);
        changes.insert(SITE.to_owned(), Some(to_json(SITE, &site)?));
        changes.insert(path_in(&run.run, RUN)?, Some(to_json(RUN, run)?));
        if let Some(plan) = checkpoint.plan {
            let path = path_in(&run.run, RunFile::Plan.name())?;
            changes.insert(path, Some(plan.as_bytes().to_vec()));
        }
        if let Some(report) = checkpoint.report {
            let path = path_in(&run.run, RunFile::Report.name())?;
            changes.insert(path, Some(report.as_bytes().to_vec()));
        }
        if let Some(durations) = checkpoint.durations {
            changes.insert(DURATIONS.to_owned(), Some(durations.to_vec()));
        }
        if !checkpoint.events.is_empty() {
            let folder = path_in(&run.run, EVENTS)?;
            let parts = match state.tip {
                Some(tip) => self
                    .repository
                    .files_in(tip, &folder)
                    .map_err(failed("list the events of a run"))?
                    .len(),
                None => 0,
            };
            for (part, number) in checkpoint.events.iter().zip(parts..) {
                let path = format!("{folder}/{number:06}.jsonl.zz");
                changes.insert(path, Some(part.as_bytes().to_vec()));
            }
        }
        let subject = format!("{} {}: {}", run.action, run.run, run.outcome);
        let commit = NewCommit {
            base: state.tip,
            parents: state.tip.into_iter().collect(),
            changes,
            deflated: files.written,
            author: checkpoint.author.clone(),
            message: self.place.message(&subject),
        };
        // A key that has to be touched is not asked for in the middle of a run.
        let is_turn = checkpoint.plan.is_some() || run.outcome != Outcome::Running;
        let signing = self.signing.as_deref();
        let signing = signing.filter(|signing| is_turn || !signing.is_touched());
        let (tip, unsigned) = self.write_commit(commit, signing);
        Ok(PendingCheckpoint {
            base: state.tip,
            tip: tip.map_err(failed("write the records"))?,
            unsigned,
            site,
        })
    }

    /// Writes a commit that shares the progress of a run with other clones, signed if there is a key that is not touched for
    /// it.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn write_shared(&self, mut commit: NewCommit) -> Result<CommitId, Error> {
        commit.message = self.place.message(&commit.message);
        let writing = || failed("write the progress of a run");
        let signing = self.signing.as_deref();
        let Some(signing) = signing.filter(|signing| signing.has_key() && !signing.is_touched())
        else {
            return self.repository.write_commit(&commit).map_err(writing());
        };
        commit.message += &signing::binding(&self.site, signing.repository());
        let written = self.repository.write_commit_with(&commit, &|text| {
            let signed = signing.sign(text);
            signed
                .map_err(|why| log::warn!("the progress of a run is not signed: {why}"))
                .ok()
        });
        written.map_err(writing())
    }

    /// Writes a commit of the records, signed if there is a key, or without a signature that it should have, and why.
    pub(super) fn write_commit(
        &self,
        mut commit: NewCommit,
        signing: Option<&dyn Signing>,
    ) -> (Result<CommitId, repository::Error>, Option<String>) {
        let Some(signing) = signing.filter(|signing| signing.has_key()) else {
            return (self.repository.write_commit(&commit), None);
        };
        commit.message += &signing::binding(&self.site, signing.repository());
        let commit = &commit;
        if let Some(why) = commit.base.and_then(|base| signing.refusal(base, base)) {
            return (self.repository.write_commit(commit), Some(why));
        }
        let refused = std::cell::Cell::new(None);
        let tip = self.repository.write_commit_with(commit, &|text| {
            let signed = signing.sign(text);
            signed.map_err(|why| refused.set(Some(why))).ok()
        });
        if let Ok(tip) = &tip {
            signing.trust(*tip);
        }
        (tip, refused.take())
    }

    /// Makes a checkpoint the records, durably.
    ///
    /// # Errors
    ///
    /// As [`Store::checkpoint`].
    pub fn advance(&self, draft: PendingCheckpoint) -> Result<State, Error> {
        let before = draft.base.map(|tip| tip.0);
        let moved = self
            .repository
            .update_ref(self.place.own(), before, draft.tip.0);
        match moved {
            Ok(()) => Ok(State {
                tip: Some(draft.tip),
                site: draft.site,
            }),
            Err(repository::Error::RefMoved { .. }) => Err(Error::LostRace {
                site: self.site.clone(),
                by: self.read()?.site.last_run,
            }),
            Err(error) => Err(failed("write the records")(error)),
        }
    }

    fn file(&self, tip: CommitId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        self.repository
            .file_at(tip, path)
            .map_err(failed("read the records"))
    }

    fn file_of(&self, state: &State, path: &str) -> Result<Option<Vec<u8>>, Error> {
        match state.tip {
            Some(tip) => self.file(tip, path),
            None => Ok(None),
        }
    }
}

/// Runs without approvals that the state names: enough that `status` names each, however many follow on a bad day.
const MOST_BREAK_GLASS: usize = 64;

/// The action of runs that put guards in force and do nothing else.
pub const GUARDS_ACTION: &str = "guards";

impl RunRecord {
    /// Whether it put guards in force, and did nothing else.
    #[must_use]
    pub fn has_put_guards_in_force(&self) -> bool {
        self.outcome == Outcome::Succeeded && &*self.action == GUARDS_ACTION
    }
}

impl SiteState {
    /// The state after a checkpoint of a run.
    ///
    /// A run whose record names a tag is a site action that ended; the tag's name tells success from
    /// failure. So the state and the tags say the same, and a tag that is missing can be made again.
    #[must_use]
    pub fn after(&self, run: &RunRecord) -> Self {
        let mut site = self.clone();
        site.format_version = FORMAT_VERSION;
        if site.last_run.as_ref() < Some(&run.run) {
            site.last_run = Some(run.run.clone());
        }
        match run.tag_owed {
            true => site.tags_owed.insert(run.run.clone()),
            false => site.tags_owed.remove(&run.run),
        };
        if run.break_glass.is_some() && site.break_glass.insert(run.run.clone()) {
            while site.break_glass.len() > MOST_BREAK_GLASS {
                site.break_glass.pop_first();
            }
        }
        let is_newest = |action: &Option<SiteAction>| {
            action.as_ref().is_none_or(|action| action.run <= run.run)
        };
        let action = SiteAction {
            run: run.run.clone(),
            revision: run.revision.clone(),
            site_digest: run.site_digest.clone(),
            repositories: run.repositories.clone(),
            policy_asks: run.policy_asks,
        };
        // The tag of an older run may be settled later than a newer run has ended.
        if let Some(tag) = &run.tag
            && is_newest(&site.last_action)
        {
            if tag.starts_with("site-action-success/") {
                site.last_success = Some(action.clone());
            }
            site.last_action = Some(action.clone());
        }
        if run.has_put_guards_in_force() && is_newest(&site.guards) {
            site.guards = Some(action.clone());
        }
        if site.last_action.is_some() || site.guards.is_some() {
            site.last_partial = None;
        } else if is_newest(&site.last_partial) {
            site.last_partial = Some(action);
        }
        site
    }

    /// The action whose guards are in force: the last one that succeeded with them, or put them in force; if none has
    /// yet, the last that was tried, be it on a part of the site.
    #[must_use]
    pub fn guards_in_force(&self) -> Option<&SiteAction> {
        let succeeded = self.last_success.iter().chain(&self.guards);
        let newest = succeeded.max_by(|one, other| one.run.cmp(&other.run));
        newest
            .or(self.last_action.as_ref())
            .or(self.last_partial.as_ref())
    }

    /// The id for the next run: `candidate` (a fresh ULID), made greater than the newest run if the
    /// clock went back.
    #[must_use]
    pub fn next_run(&self, candidate: ulid::Ulid) -> RunId {
        let last = self
            .last_run
            .as_ref()
            .and_then(|run| ulid::Ulid::from_string(run.as_str()).ok());
        let next = match last {
            Some(last) if last >= candidate => {
                // A random number of its own: records that are set back must not lead to the same id again.
                let later = last.timestamp_ms() + 1;
                let next = ulid::Ulid::from_parts(later, candidate.random());
                // The end of the times of ids is the only one at which it would not be later.
                next.max(ulid::Ulid(last.0.saturating_add(1)))
            }
            _ => candidate,
        };
        RunId::from(next.to_string())
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    match name_problem(name) {
        Some(problem) => Err(Error::BadName {
            name: name.to_owned(),
            problem,
        }),
        None => Ok(()),
    }
}

fn path_in(run: &RunId, file: &str) -> Result<String, Error> {
    check_name(run.as_str())?;
    Ok(format!("{RUNS}/{run}/{file}"))
}

fn broken(path: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::Broken {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn from_json<T: serde::de::DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| broken(path, &error))
}

fn to_json<T: serde::Serialize>(path: &str, value: &T) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| broken(path, &error))?;
    bytes.push(b'\n');
    Ok(bytes)
}
