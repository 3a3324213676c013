//! Rollouts across sites: what may be done now is done, one site after the other, each by an ordinary run.

mod find;
mod look;
mod state_ref;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::look::{Judging, Look, look};
use crate::design::RunId;
use crate::document::Instant;
use crate::plan::RunState;
use crate::record::Unproven;
use crate::repository::{CommitId, Holder, Repository};
use crate::rollout::{Decision, Decree, Phases, RolloutState, SiteProgress, SiteResult, decide};
use crate::run::{Committer, Connection};
use crate::workflow::{Checkout, Client, Failure, FailureKind};

pub use find::{FoundRollout, check_rollout_name, find_rollout, rollout_names, rollout_problems};
pub use state_ref::{ReadState, StateRef};

/// How often a state is written anew that another caller has moved.
const TRIES: usize = 20;

/// Applies and plans the sites of a rollout.
pub trait SiteRunner {
    /// Applies the checked-out revision of a site, as `trueup apply` does: with its lock, guards and approvals. Returns how
    /// many machines are not known to be as designed, if there was nothing to do.
    ///
    /// # Errors
    ///
    /// Those of that command.
    fn apply(&self, site: &str) -> Result<Unproven, Failure>;

    /// Plans sites of a rollout from their observed state: those that are not found as designed, and why.
    ///
    /// # Errors
    ///
    /// Nothing can be planned.
    fn drifted(
        &self,
        found: &FoundRollout,
        sites: &[Arc<str>],
    ) -> Result<BTreeMap<Arc<str>, Drift>, Failure>;

    /// A site of the checkout.
    ///
    /// # Errors
    ///
    /// Not found.
    fn checkout<'a>(&self, repository: &'a Repository, site: &str)
    -> Result<Checkout<'a>, Failure>;

    /// Reports what became of a site.
    fn tell(&self, site: &str, progress: &SiteProgress);
}

/// Why a site is not found as designed after its soak.
#[derive(Clone, Debug)]
pub enum Drift {
    /// Its plan has changes.
    Changes(String),
    /// It cannot be planned, a run is at work, or machines are not observed.
    Unknown(Failure),
}

/// A rollout in the hands of a caller.
pub struct RolloutCall<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The repository.
    pub repository: &'a Repository,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
    /// Applies and plans its sites.
    pub runner: &'a dyn SiteRunner,
    /// The name of the rollout.
    pub name: &'a str,
}

/// How a call ended.
#[derive(Debug)]
pub struct Called {
    /// The rollout.
    pub found: FoundRollout,
    /// Its state.
    pub state: RolloutState,
    /// The next act.
    pub decision: Decision,
    /// The failures of the sites that were held in this call.
    pub failures: Vec<Failure>,
}

impl<'a> RolloutCall<'a> {
    /// The ref of its state.
    #[must_use]
    pub fn state_ref(&self) -> StateRef<'a> {
        StateRef {
            repository: self.repository,
            connection: self.connection,
            name: self.name,
        }
    }

    fn now(&self) -> i64 {
        self.client.clock().seconds()
    }

    /// The rollout at the revision of its state.
    ///
    /// # Errors
    ///
    /// The commit is nowhere, or its document is another one there.
    pub fn of_state(&self, state: &RolloutState) -> Result<FoundRollout, Failure> {
        let commit: CommitId = state.revision.parse().map_err(|_| {
            Failure::error(format!(
                "the revision of rollout `{}` is no commit",
                self.name
            ))
        })?;
        if let Connection::Shared { remote, .. } = self.connection {
            remote.fetch_commit(commit)?;
        }
        let commit = self.repository.resolve(&commit.to_string())?;
        let found = find_rollout(self.client, self.repository, self.name, commit)?;
        if found.rollout.digest != state.document {
            let message = format!(
                "the state of rollout `{}` is of another document than `{}` at {}",
                self.name,
                found.path,
                commit.short()
            );
            return Err(Failure::error(message).hint(format!(
                "`trueup rollout abort {} --reason REASON` ends it; `trueup rollout next` begins it again",
                self.name
            )));
        }
        Ok(found)
    }

    /// Does what may be done now, and returns. `revision`: the one to begin, if one was given.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, the document has errors, or another revision is checked out.
    pub fn next(&self, revision: Option<&str>) -> Result<Called, Failure> {
        let found = self.begin(revision)?;
        let mut failures = Vec::new();
        let mut tried = BTreeSet::new();
        // A site that was begun in this call may have had its soak in it, too.
        let mut asked: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut settled = false;
        loop {
            let ReadState { seen, state } = self.state_ref().read()?;
            let state = state.ok_or_else(|| self.not_begun())?;
            if *state.revision != found.commit.to_string() {
                let message = format!("rollout `{}` was begun anew by another caller", self.name);
                return Err(Failure::new(FailureKind::Locked, message));
            }
            let is_open = state.paused.is_none() && state.aborted.is_none();
            if is_open && !std::mem::replace(&mut settled, true) {
                self.settle(&found, &state)?;
                continue;
            }
            let decision = decide(&found.phases, &state, &tried, self.now());
            match &decision {
                Decision::Begin(site) => {
                    self.need_checkout(&found)?;
                    let ended = self.one(&found, (seen, state), site)?;
                    if ended.is_lost {
                        continue;
                    }
                    tried.insert(site.clone());
                    failures.extend(ended.failure);
                    if ended.is_interrupted {
                        return self.ended(found, failures, &tried);
                    }
                }
                Decision::Prove(sites) if !sites.iter().all(|site| asked.contains(site)) => {
                    self.need_checkout(&found)?;
                    failures.extend(self.prove(&found, sites)?);
                    // One that cannot be proven now is not asked again in this call.
                    asked.extend(sites.iter().cloned());
                }
                Decision::Prove(_)
                | Decision::Aborted(_)
                | Decision::Paused(_)
                | Decision::Stopped(_)
                | Decision::Soak(_)
                | Decision::Wait(_)
                | Decision::Done => {
                    return Ok(Called {
                        found,
                        state,
                        decision,
                        failures,
                    });
                }
            }
        }
    }

    fn ended(
        &self,
        found: FoundRollout,
        failures: Vec<Failure>,
        tried: &BTreeSet<Arc<str>>,
    ) -> Result<Called, Failure> {
        let state = self
            .state_ref()
            .read()?
            .state
            .ok_or_else(|| self.not_begun())?;
        let decision = decide(&found.phases, &state, tried, self.now());
        Ok(Called {
            found,
            state,
            decision,
            failures,
        })
    }

    /// The failure of a command about a rollout that was not begun.
    #[must_use]
    pub fn not_begun(&self) -> Failure {
        let names = rollout_names(self.repository).unwrap_or_default();
        if !names.iter().any(|name| name == self.name) {
            let message = format!(
                "there is no rollout `{}` at the commit that is checked out",
                self.name
            );
            let near = crate::diagnostic::nearest(self.name, names.iter().map(String::as_str));
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            return Failure::new(FailureKind::NotFound, message).hint_if(hint);
        }
        let message = format!("rollout `{}` was not begun", self.name);
        let hint = format!(
            "`trueup rollout plan {0}` shows what it would do, `trueup rollout next {0}` begins it",
            self.name
        );
        Failure::new(FailureKind::NotFound, message).hint(hint)
    }

    /// The rollout that is under way; begins one that was not begun, or another revision that is asked for after its end.
    fn begin(&self, revision: Option<&str>) -> Result<FoundRollout, Failure> {
        for _ in 0..TRIES {
            let ReadState { seen, state } = self.state_ref().read()?;
            let wanted = match (revision, &state) {
                (None, Some(_)) => None,
                (revision, _) => Some(self.repository.resolve(revision.unwrap_or("HEAD"))?),
            };
            if let Some(state) = &state {
                let is_same = |wanted: CommitId| *state.revision == wanted.to_string();
                let found = self.of_state(state);
                let Some(wanted) =
                    wanted.filter(|wanted| !is_same(*wanted) || state.aborted.is_some())
                else {
                    return found;
                };
                let is_over = state.aborted.is_some()
                    || decide(&found?.phases, state, &BTreeSet::new(), self.now())
                        == Decision::Done;
                if !is_over {
                    return Err(self.under_way(state, wanted));
                }
            }
            let Some(wanted) = wanted else { continue };
            let found = find_rollout(self.client, self.repository, self.name, wanted)?;
            self.need_checkout(&found)?;
            let now = self.now();
            let digest = found.rollout.digest;
            let new = RolloutState::new(self.name, wanted, digest, now);
            let message = format!("begin at {}", wanted.short());
            if self.write(seen, &new, &message)?.is_some() {
                return Ok(found);
            }
        }
        Err(self.too_busy())
    }

    fn under_way(&self, state: &RolloutState, wanted: CommitId) -> Failure {
        let message = format!(
            "rollout `{}` is under way at {}, and `--rev` is {}",
            self.name,
            state.revision.get(..7).unwrap_or_default(),
            wanted.short()
        );
        Failure::new(FailureKind::Guard, message).hint(format!(
            "leave `--rev` out to continue it, or end it with `trueup rollout abort {} --reason REASON`",
            self.name
        ))
    }

    fn too_busy(&self) -> Failure {
        let message = format!(
            "the state of rollout `{}` has moved {TRIES} times",
            self.name
        );
        Failure::new(FailureKind::Locked, message)
            .hint("run the command again when fewer callers are at work")
    }

    /// Sites are planned and applied from the checkout, so that it has to be of the revision of the rollout.
    fn need_checkout(&self, found: &FoundRollout) -> Result<(), Failure> {
        let head = self.repository.head()?;
        if head == Some(found.commit) {
            return Ok(());
        }
        let at = head.map_or_else(|| "no commit".to_owned(), |head| head.short());
        let message = format!(
            "rollout `{}` takes its documents of {}, and {at} is checked out",
            self.name,
            found.commit.short()
        );
        let hint = format!(
            "`git switch --detach {}` checks it out",
            found.commit.short()
        );
        Err(Failure::new(FailureKind::Guard, message).hint(hint))
    }

    fn write(
        &self,
        seen: Option<CommitId>,
        state: &RolloutState,
        message: &str,
    ) -> Result<Option<CommitId>, Failure> {
        let actor: Committer = self.client.actor(self.repository)?;
        self.state_ref()
            .replace(seen, state, (&actor, self.now()), message)
    }

    /// Changes the state, however often another caller moves it meanwhile. `change` gives the message of the commit;
    /// `None`: there is nothing to write.
    ///
    /// # Errors
    ///
    /// It was not begun, or the remote cannot be asked; those of `change`.
    pub fn change(
        &self,
        mut change: impl FnMut(&mut RolloutState) -> Result<Option<String>, Failure>,
    ) -> Result<RolloutState, Failure> {
        for _ in 0..TRIES {
            let ReadState { seen, state } = self.state_ref().read()?;
            let mut state = state.ok_or_else(|| self.not_begun())?;
            let Some(message) = change(&mut state)? else {
                return Ok(state);
            };
            if self.write(seen, &state, &message)?.is_some() {
                return Ok(state);
            }
        }
        Err(self.too_busy())
    }

    /// Takes the true results of sites that were begun, held for a run, or failed: a process may have been killed, and an
    /// operator may have put a site right.
    fn settle(&self, found: &FoundRollout, state: &RolloutState) -> Result<(), Failure> {
        let me = self.me();
        let mut news = BTreeMap::new();
        for (site, entry) in &state.sites {
            if !matches!(entry.result, SiteResult::Running | SiteResult::Failed) {
                continue;
            }
            let look = self.look(site);
            let progress = self.judging(found, site, &me).judge(Some(entry), &look);
            let is_news = progress.result != entry.result || progress.run != entry.run;
            // A failed site that cannot be asked has failed all the same.
            let is_blind = matches!(look, Look::Unknown(_));
            if is_news && !(is_blind && entry.result == SiteResult::Failed) {
                news.insert(site.clone(), (entry.clone(), progress));
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        for (site, (_, progress)) in &news {
            self.runner.tell(site, progress);
        }
        let changed = self.change(|state| {
            for (site, (before, after)) in &news {
                if state.sites.get(site) == Some(before) {
                    state.sites.insert(site.clone(), after.clone());
                }
            }
            state.count_phase(&found.phases);
            Ok(Some("take the results of runs".to_owned()))
        });
        changed.map(drop)
    }

    fn me(&self) -> Holder {
        let who = self.client.actor(self.repository).map(|actor| actor.name);
        let since = Instant(self.now()).to_string();
        Holder::this_process(&who.unwrap_or_default(), self.name, &since).printable()
    }

    fn look(&self, site: &str) -> Look {
        match self.runner.checkout(self.repository, site) {
            Ok(checkout) => look(self.client, &checkout, self.connection),
            Err(failure) => Look::Unknown(failure.message),
        }
    }

    fn judging<'j>(&self, found: &FoundRollout, site: &'j str, me: &'j Holder) -> Judging<'j> {
        Judging {
            site,
            revision: found.commit,
            soak: soak(&found.phases, site),
            now: self.now(),
            me,
        }
    }

    /// Begins a site, if nothing is in its way, and carries its run out.
    fn one(
        &self,
        found: &FoundRollout,
        (seen, mut state): (Option<CommitId>, RolloutState),
        site: &Arc<str>,
    ) -> Result<Tried, Failure> {
        let me = self.me();
        let before = state.sites.get(site).cloned();
        let look = self.look(site);
        let judging = self.judging(found, site, &me);
        let mut progress = judging.judge(before.as_ref(), &look);
        let begins = progress.result == SiteResult::Pending;
        if begins {
            progress = SiteProgress {
                result: SiteResult::Running,
                begun: Some(Instant(self.now())),
                holder: Some(Box::new(me.clone())),
                ..progress
            };
        }
        let failure = (progress.result == SiteResult::Held).then(|| {
            let why = progress.why.as_deref().unwrap_or_default();
            Failure::new(held_kind(&look), format!("site `{site}`: {why}"))
        });
        state.sites.insert(site.clone(), progress.clone());
        state.count_phase(&found.phases);
        let message = format!("{site} {}", progress.result.as_str());
        let is_lost =
            before.as_ref() != Some(&progress) && self.write(seen, &state, &message)?.is_none();
        if is_lost || !begins {
            if !is_lost {
                self.runner.tell(site, &progress);
            }
            return Ok(Tried {
                is_lost,
                is_interrupted: false,
                failure,
            });
        }
        self.runner.tell(site, &progress);
        let applied = self.runner.apply(site);
        let judging = self.judging(found, site, &me);
        let now = self.look(site);
        let is_begun = last_run(&now) != last_run(&look);
        let (ended, failure) = result((&judging, &progress), (&now, is_begun), applied);
        self.runner.tell(site, &ended);
        self.change(|state| {
            state.sites.insert(site.clone(), ended.clone());
            state.count_phase(&found.phases);
            Ok(Some(format!("{site} {}", ended.result.as_str())))
        })?;
        let kind = failure.as_ref().map(|failure| failure.kind);
        Ok(Tried {
            is_lost: false,
            is_interrupted: kind == Some(FailureKind::Interrupted),
            failure,
        })
    }

    /// Looks for drift of sites whose soak is over. Gives why it is not known of some.
    fn prove(&self, found: &FoundRollout, sites: &[Arc<str>]) -> Result<Vec<Failure>, Failure> {
        let drifted = self.runner.drifted(found, sites)?;
        let now = Instant(self.now());
        self.change(|state| {
            for site in sites {
                let Some(entry) = state.sites.get_mut(site) else {
                    continue;
                };
                if entry.result != SiteResult::Succeeded || entry.soaked.is_some() {
                    continue;
                }
                match drifted.get(site) {
                    None => {
                        entry.soaked = Some(now);
                        entry.why = None;
                    }
                    Some(Drift::Changes(what)) => *entry = entry.clone().drifted(what, now),
                    Some(Drift::Unknown(failure)) => {
                        *entry = entry.clone().because(&format!(
                            "whether it has drifted in its soak is not known: {}",
                            failure.message
                        ));
                    }
                }
            }
            state.count_phase(&found.phases);
            Ok(Some("look for drift after the soak".to_owned()))
        })
        .map(|state| {
            for site in sites {
                if let Some(entry) = state.sites.get(site) {
                    self.runner.tell(site, entry);
                }
            }
            let unknown = drifted.into_values().filter_map(|drift| match drift {
                Drift::Unknown(failure) => Some(failure),
                Drift::Changes(_) => None,
            });
            unknown.collect()
        })
    }

    /// Pauses the rollout.
    ///
    /// # Errors
    ///
    /// It was not begun, or has ended.
    pub fn pause(&self, reason: &str) -> Result<RolloutState, Failure> {
        let decree = self.decree(reason)?;
        self.change(|state| {
            self.refuse_aborted(state)?;
            self.refuse_complete(state)?;
            state.paused = Some(decree.clone());
            Ok(Some("pause".to_owned()))
        })
    }

    /// Resumes a paused or stopped rollout: failed sites are begun once more.
    ///
    /// # Errors
    ///
    /// It was not begun, was aborted, or is complete.
    pub fn resume(&self) -> Result<RolloutState, Failure> {
        self.change(|state| {
            self.refuse_aborted(state)?;
            self.refuse_complete(state)?;
            let before = state.clone();
            state.resume();
            Ok((before != *state).then(|| "resume".to_owned()))
        })
    }

    /// Aborts the rollout: no further site is begun.
    ///
    /// # Errors
    ///
    /// It was not begun, or is complete.
    pub fn abort(&self, reason: &str) -> Result<RolloutState, Failure> {
        let decree = self.decree(reason)?;
        self.change(|state| {
            if state.aborted.is_some() {
                return Ok(None);
            }
            self.refuse_complete(state)?;
            state.aborted = Some(decree.clone());
            Ok(Some("abort".to_owned()))
        })
    }

    /// Refuses to change what all sites have; one whose documents are not found any more may be changed all the same.
    fn refuse_complete(&self, state: &RolloutState) -> Result<(), Failure> {
        let found = self.of_state(state).ok();
        let decision =
            found.map(|found| decide(&found.phases, state, &BTreeSet::new(), self.now()));
        match decision {
            Some(Decision::Done) => {
                let message = format!("rollout `{}` is complete: nothing of it is left", self.name);
                Err(Failure::new(FailureKind::Guard, message))
            }
            _ => Ok(()),
        }
    }

    fn refuse_aborted(&self, state: &RolloutState) -> Result<(), Failure> {
        let Some(aborted) = &state.aborted else {
            return Ok(());
        };
        let message = format!(
            "rollout `{}` was aborted by {} at {}: {}",
            self.name, aborted.by, aborted.at, aborted.reason
        );
        Err(Failure::new(FailureKind::Guard, message).hint(format!(
            "`trueup rollout next {} --rev REV` begins it anew",
            self.name
        )))
    }

    fn decree(&self, reason: &str) -> Result<Decree, Failure> {
        let actor = self.client.actor(self.repository)?;
        Ok(Decree::new(reason, &actor.name, Instant(self.now())))
    }
}

/// How the try of a site ended.
struct Tried {
    /// Whether another caller has moved the state: nothing was begun.
    is_lost: bool,
    /// Whether its run was interrupted, as by Ctrl-C: no further site is begun.
    is_interrupted: bool,
    /// Why the site is held.
    failure: Option<Failure>,
}

fn soak(phases: &Phases, site: &str) -> u64 {
    let phase = phases.of(site).and_then(|phase| phases.all.get(phase));
    phase.map_or(0, |phase| phase.soak)
}

/// The kind of the failure of a site that is held before anything was begun.
fn held_kind(look: &Look) -> FailureKind {
    let Look::Known(known) = look else {
        return FailureKind::Error;
    };
    match known.unfinished.as_ref().map(|run| run.state) {
        _ if known.unpublished.is_some() => FailureKind::Unpublished,
        Some(RunState::Interrupted) => FailureKind::Interrupted,
        Some(RunState::Running | RunState::EndedElsewhere) => FailureKind::Locked,
        None => match known.last.as_ref().map(|last| last.unproven) {
            // Its run succeeded, and an operator decides about what that left.
            Some(left) if left.differing > 0 && left.unobserved + left.not_joined == 0 => {
                FailureKind::Guard
            }
            _ => FailureKind::Error,
        },
    }
}

fn last_run(look: &Look) -> Option<&RunId> {
    match look {
        Look::Known(known) => known.last.as_ref().map(|last| &last.run),
        Look::Unknown(_) => None,
    }
}

/// The progress of a site whose run this process has carried out, or was refused. `look`: how it is now, and whether it has
/// a run that it had not before.
fn result(
    (judging, begun): (&Judging<'_>, &SiteProgress),
    (look, has_run): (&Look, bool),
    applied: Result<Unproven, Failure>,
) -> (SiteProgress, Option<Failure>) {
    let by_records = judging.judge(Some(begun), look);
    // Of a run that is not its own, it is not the result.
    let is_own = by_records.result == SiteResult::Held || has_run;
    let (progress, failure) = match (by_records.result, applied) {
        (SiteResult::Held, Ok(_)) => {
            let why = by_records.why.clone().unwrap_or_default();
            let failure = Failure::new(held_kind(look), format!("site `{}`: {why}", judging.site));
            (by_records, Some(failure))
        }
        (SiteResult::Held, Err(failure)) => (by_records, Some(failure)),
        // The remote does not have all of it.
        (_, Err(failure)) if failure.kind == FailureKind::Unpublished => {
            let held = judging.held(last_run(look), &failure.message);
            (held, Some(failure))
        }
        (SiteResult::Succeeded | SiteResult::Failed, _) if is_own => (by_records, None),
        (_, Ok(unproven)) if !unproven.open().is_none() => {
            let words: Vec<String> = unproven.open().words().collect();
            let why = format!("there is nothing to do, and {}", words.join(", "));
            let failure = Failure::error(format!("site `{}`: {why}", judging.site));
            (judging.held(None, &why), Some(failure))
        }
        (_, Ok(_)) => {
            let done = judging.succeeded(None);
            (done.because("there was nothing to do"), None)
        }
        (_, Err(failure)) => {
            let why = match failure.message.is_empty() {
                true => match failure.kind {
                    FailureKind::Guard => "its plan was refused, as shown above",
                    _ => "its documents have errors, which `trueup validate` shows",
                },
                false => &failure.message,
            };
            (judging.held(None, why), Some(failure))
        }
    };
    let outdated = begun.outdated.clone();
    let progress = SiteProgress {
        outdated,
        ..progress
    };
    (progress, failure)
}
