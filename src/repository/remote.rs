//! The remote: ask, fetch, publish; through the `git` program, or what a [`Transport`] is made of else.
//!
//! Publishing is a compare-and-swap too: every ref is pushed with the value that it must have there
//! now. When a push fails, the remote is asked what its refs are, and that, not the wording of a
//! host's message, tells a lost race from a refusal and from a connection that broke after the push
//! had arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::program::{Output, ProgramTimeout};
use super::ref_list::RefList;
use super::{CommitId, Error, ObjectId, Repository};
use crate::threads::lock;

/// Where copies of the refs of each remote are in a clone, below its name.
pub const REMOTE_COPIES: &str = "refs/trueup-remotes";

/// The refs of branches, of which a push may start a pipeline.
pub const BRANCHES: &str = "refs/heads/";
/// Tells a remote that takes push options (GitLab) to start none.
const SKIP_PIPELINES: &str = "--push-option=ci.skip";

/// The command of git that lists the refs of a remote; all others may change them, or what is known of them.
const ASK: &str = "ls-remote";

/// Refs that are named in one command: its arguments have a limit.
const MOST_NAMED: usize = 500;

/// A remote of a repository.
///
/// All that is asked of it has one time limit together, or, of one that [lasts](Remote::lasting), each
/// question has it.
#[derive(Clone)]
pub struct Remote<'a> {
    repository: &'a Repository,
    name: String,
    way: Way,
    /// How long it was waited for.
    spent: Arc<Mutex<Duration>>,
    lasts: bool,
    /// Whether it was found to take no push options.
    refuses_options: Arc<AtomicBool>,
    /// Commits that it was found not to have.
    gone: Arc<Mutex<BTreeSet<CommitId>>>,
    /// The refs that it had at an instant, which answer what is asked for later.
    listed: Option<Arc<RefList>>,
    /// Folders of objects of other clones, as git takes them, from which refs are published, too.
    objects: Option<String>,
}

/// The files of a commit that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them: these are records.
    Everything,
    /// Documents, rules and links: the rest of a repository may be large.
    Documents,
}

/// How a remote is reached.
#[derive(Clone)]
enum Way {
    /// By the `git` program, as the repository's configuration says.
    Program(ProgramTimeout),
    Transport(Arc<dyn Transport>),
}

/// Another way to a remote than the `git` program: the same questions, within one process.
pub trait Transport: Send + Sync {
    /// All refs of the remote.
    ///
    /// # Errors
    ///
    /// Why it cannot be reached, as git would say it.
    fn refs(&self) -> Result<BTreeMap<String, ObjectId>, String>;

    /// Makes a commit of the remote readable in the repository.
    ///
    /// # Errors
    ///
    /// As [`Transport::refs`].
    fn fetch(&self, into: &Repository, commit: ObjectId) -> Result<(), String>;

    /// Publishes refs, all or none of them.
    ///
    /// # Errors
    ///
    /// Why it did not, as git would say it. What the remote has then is asked for.
    fn push(&self, from: &Repository, updates: &[RefUpdate]) -> Result<(), String>;
}

impl fmt::Debug for Remote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.name)
    }
}

/// One ref that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// Its full name.
    pub name: String,
    /// The value that it must have at the remote; `None`: it must not be there.
    pub old: Option<ObjectId>,
    /// The value that it gets; `None` deletes it.
    pub new: Option<ObjectId>,
}

/// How a push ended that reached the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// All refs have their new values there.
    Published,
    /// A ref has neither its old nor its new value: another process was faster. If the remote takes
    /// pushes as a whole, nothing was changed there.
    LostRace {
        /// The ref.
        name: String,
        /// The expected value.
        expected: Option<ObjectId>,
        /// The actual value.
        found: Option<ObjectId>,
    },
}

impl Repository {
    /// The remote of which this clone has copies of refs, if there is one, also if it is not configured any more.
    ///
    /// # Errors
    ///
    /// The refs cannot be read.
    pub fn copied_remote(&self) -> Result<Option<String>, Error> {
        let copies = self.refs(REMOTE_COPIES)?;
        let mut names = copies.keys().filter_map(|name| {
            let rest = name.strip_prefix(REMOTE_COPIES)?.strip_prefix('/')?;
            Some(rest.split('/').next()?.to_owned())
        });
        Ok(names.next())
    }

    /// A remote by its name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownRemote`] if it is not configured, or would be taken for a flag.
    pub fn remote(&self, name: &str, timeout: ProgramTimeout) -> Result<Remote<'_>, Error> {
        if name.starts_with('-') || !self.remotes()?.iter().any(|known| known == name) {
            return Err(Error::UnknownRemote {
                name: name.to_owned(),
            });
        }
        Ok(Remote {
            repository: self,
            name: name.to_owned(),
            way: Way::Program(timeout),
            spent: Arc::default(),
            lasts: false,
            refuses_options: Arc::default(),
            gone: Arc::default(),
            listed: None,
            objects: None,
        })
    }

    /// A remote that is reached by a transport; `name` is only what it is called.
    #[must_use]
    pub fn remote_through(&self, name: &str, transport: Arc<dyn Transport>) -> Remote<'_> {
        Remote {
            repository: self,
            name: name.to_owned(),
            way: Way::Transport(transport),
            spent: Arc::default(),
            lasts: false,
            refuses_options: Arc::default(),
            gone: Arc::default(),
            listed: None,
            objects: None,
        }
    }
}

impl Remote<'_> {
    /// The same remote for a run that asks it for hours: each question has the time limit for itself.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// The same remote as it is at this instant: its refs are listed once, the records of all sites are fetched at once, and
    /// what is asked for later is answered from these. For a command that only reads.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn listed(mut self) -> Result<Self, Error> {
        self.begin();
        let prefix = self.repository.ref_prefix()?;
        let refs = self.list(&["refs/*"])?;
        let copies = format!("{REMOTE_COPIES}/{}", self.name);
        let is_new = |name: &str, id: ObjectId| -> Result<bool, Error> {
            let site = name.strip_prefix(&*prefix);
            let Some(site) = site.and_then(|rest| rest.strip_suffix("/state")) else {
                return Ok(false);
            };
            Ok(self.repository.read_ref(&format!("{copies}{site}/state"))? != Some(id))
        };
        let mut news = false;
        for (name, id) in &refs {
            news = news || is_new(name, *id)?;
        }
        // By a pattern, since thousands of names are more than a command line takes.
        if news && matches!(self.way, Way::Program(_)) {
            let spec = format!("+{prefix}/*/state:{copies}/*/state");
            self.fetch_specs(&[], &[&spec])?;
        }
        self.listed = Some(Arc::new(RefList::of(refs)));
        Ok(self)
    }

    pub(super) fn repository(&self) -> &Repository {
        self.repository
    }

    /// The remote that promised what a partial clone was made without, and how long it may take; `None` if nothing
    /// was left out.
    pub(super) fn promisor(&self) -> Option<(String, ProgramTimeout)> {
        let Way::Program(timeout) = self.way else {
            return None;
        };
        let promisor = self.repository.promisor()?;
        Some((promisor, timeout))
    }

    /// The other remotes of the clone, for a question that needs no answer: no password is asked for, and none is waited for
    /// long. None of one that is reached by a transport, or that was listed for a command over many sites.
    pub(crate) fn others(&self) -> Result<Vec<Self>, Error> {
        const LIMIT: ProgramTimeout = ProgramTimeout::Unattended(Duration::from_secs(10));
        if matches!(self.way, Way::Transport(_)) || self.listed.is_some() {
            return Ok(Vec::new());
        }
        let names = self.repository.remotes()?.into_iter();
        let others = names.filter(|name| *name != self.name);
        Ok(others
            .filter_map(|name| self.repository.remote(&name, LIMIT).ok())
            .collect())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The refs that it has, by full name: those named, those below a name that ends in `/*`, and those that end like a
    /// name which begins with `*/`.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn ls_remote(&self, names: &[&str]) -> Result<BTreeMap<String, ObjectId>, Error> {
        self.begin();
        self.list(names)
    }

    fn list(&self, names: &[&str]) -> Result<BTreeMap<String, ObjectId>, Error> {
        if let Some(listed) = &self.listed {
            return Ok(listed.among(names));
        }
        // git matches the ends of names.
        let is_asked = |name: &str| {
            names.iter().any(|asked| {
                let (folder, ending) = (asked.strip_suffix('*'), asked.strip_prefix('*'));
                match (folder, ending) {
                    (Some(folder), _) => name.starts_with(folder),
                    (None, Some(ending)) => name.ends_with(ending),
                    (None, None) => *asked == name,
                }
            })
        };
        if let Way::Transport(transport) = &self.way {
            let mut refs = transport.refs().map_err(|why| self.unreachable(why))?;
            refs.retain(|name, _| is_asked(name));
            return Ok(refs);
        }
        if let Some(refs) = self.repository.answers.find(&self.name, names) {
            return Ok(refs);
        }
        let asked = self.repository.answers.now();
        let mut arguments = vec![ASK, "--refs", "--", &self.name];
        arguments.extend(names);
        let output = self.run(&arguments)?;
        if !output.success {
            return Err(self.unreachable(output.stderr));
        }
        let mut refs = BTreeMap::new();
        for line in output.stdout.lines() {
            let Some((id, name)) = line.split_once('\t') else {
                continue;
            };
            if let (true, Ok(id)) = (is_asked(name), id.parse()) {
                refs.insert(name.to_owned(), id);
            }
        }
        self.repository
            .answers
            .keep(&self.name, (asked, names), &refs);
        Ok(refs)
    }

    /// Fetches refs into refs of this clone, whatever those were: (there, here). A missing ref
    /// is an error: ask with [`Remote::ls_remote`] first.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn fetch(&self, refs: &[(&str, &str)]) -> Result<(), Error> {
        if let Some(listed) = &self.listed {
            let is_here = |(there, here): &(&str, &str)| {
                let id = listed.get(there);
                id.is_some() && self.repository.read_ref(here).ok().flatten() == id
            };
            if !self.repository.is_partial() && refs.iter().all(is_here) {
                return Ok(());
            }
        }
        if let Way::Transport(transport) = &self.way {
            let known = transport.refs().map_err(|why| self.unreachable(why))?;
            for (there, here) in refs {
                let missing = || self.unreachable(format!("couldn't find remote ref {there}"));
                let id = *known.get(*there).ok_or_else(missing)?;
                let fetched = transport.fetch(self.repository, id);
                fetched.map_err(|why| self.unreachable(why))?;
                self.repository.set_ref(here, id)?;
            }
            return Ok(());
        }
        self.begin();
        let specs: Vec<String> = refs
            .iter()
            .map(|(there, here)| format!("+{there}:{here}"))
            .collect();
        let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
        self.fetch_specs(&[], &specs)?;
        if self.repository.is_partial() {
            for (_, here) in refs {
                let tip = self.repository.resolve(here)?;
                self.complete(tip, Wanted::Everything)?;
            }
        }
        Ok(())
    }

    /// Fetches a commit with its history, if it is not here yet.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if the remote answers and does not have it any more; [`Error::Unreachable`].
    pub fn fetch_commit(&self, commit: CommitId) -> Result<(), Error> {
        if self.repository.has(commit.0)? {
            return self.complete(commit, Wanted::Documents);
        }
        self.find_commit(commit)?;
        self.complete(commit, Wanted::Documents)
    }

    /// Fetches a commit that is not here.
    fn find_commit(&self, commit: CommitId) -> Result<(), Error> {
        let gone = || Error::Gone {
            commit,
            remote: self.name.clone(),
        };
        if lock(&self.gone).contains(&commit) {
            return Err(gone());
        }
        let by_id = match &self.way {
            Way::Transport(transport) => transport
                .fetch(self.repository, commit.0)
                .map_err(|why| self.unreachable(why)),
            Way::Program(_) => {
                self.begin();
                self.fetch_specs(&[], &[&commit.to_string()])
            }
        };
        let Err(error) = by_id else { return Ok(()) };
        // Not every host gives a commit by its id, and none tells why it does not in words that last: what leads to
        // the commit is fetched, and then it is here, or nowhere.
        match &self.way {
            Way::Transport(transport) => transport.refs().map(drop).map_err(|_| error)?,
            Way::Program(_) if matches!(error, Error::Unreachable { .. }) => {
                self.fetch_branches_and_tags()?;
            }
            Way::Program(_) => return Err(error),
        }
        if self.repository.has(commit.0)? {
            return Ok(());
        }
        lock(&self.gone).insert(commit);
        Err(gone())
    }

    /// Fetches what branches and tags of the remote lead to, as far as it is not here.
    fn fetch_branches_and_tags(&self) -> Result<(), Error> {
        let refs = self.list(&["refs/heads/*", "refs/tags/*"])?;
        let mut missing = Vec::new();
        for (name, id) in &refs {
            if !self.repository.has(*id)? {
                missing.push(name.as_str());
            }
        }
        for some in missing.chunks(MOST_NAMED) {
            self.fetch_specs(&[], some)?;
        }
        Ok(())
    }

    /// Fetches more of a shallow history, until `earlier` is an ancestor of `later` or all of it is here.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn deepen(&self, earlier: CommitId, later: CommitId) -> Result<(), Error> {
        self.begin();
        self.reach(earlier, later)?;
        self.complete_folders(earlier, later)
    }

    fn reach(&self, earlier: CommitId, later: CommitId) -> Result<(), Error> {
        let later_id = later.to_string();
        for depth in ["--deepen=100", "--deepen=1000", "--unshallow"] {
            if !self.repository.is_shallow()? {
                return Ok(());
            }
            match self.repository.is_on_first_parent_line(earlier, later) {
                Err(Error::Shallow { .. }) => {}
                other => return other.map(|_| ()),
            }
            self.fetch_specs(&[depth], &[&later_id])
                .or_else(|_| self.fetch_specs(&[depth], &[]))?;
        }
        Ok(())
    }

    /// Fetches the rest of a history that was cut off.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn unshallow(&self) -> Result<(), Error> {
        match self.repository.is_shallow()? {
            true => {
                self.begin();
                self.fetch_specs(&["--unshallow"], &[])
            }
            false => Ok(()),
        }
    }

    fn fetch_specs(&self, flags: &[&str], specs: &[&str]) -> Result<(), Error> {
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
        ];
        arguments.extend(flags);
        arguments.extend(["--", &self.name]);
        arguments.extend(specs);
        let output = self.run(&arguments)?;
        self.repository.forget_handles();
        if output.success {
            Ok(())
        } else {
            Err(self.unreachable(output.stderr))
        }
    }

    /// Publishes refs, all or none if the remote can do that, else one after the other in the order
    /// given. Safe to repeat: what has arrived before counts as published.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the remote does not take a ref, [`Error::Unreachable`] if it cannot
    /// be asked: then it is not known what arrived.
    pub fn push(&self, updates: &[RefUpdate]) -> Result<PushOutcome, Error> {
        if updates.is_empty() {
            return Ok(PushOutcome::Published);
        }
        self.begin();
        let output = self.try_push(updates, &["--atomic"])?;
        let left = match self.judge(updates, &output)? {
            Verdict::Over(outcome) => return Ok(outcome),
            Verdict::Left(left) => left,
        };
        let not_atomic = output.stderr.contains("does not support --atomic");
        if !not_atomic && left.len() == updates.len() {
            return Err(self.refused(&left, &output));
        }
        if !not_atomic {
            // A part was there before, such as a ref that is gone already: the rest is pushed as a whole.
            let output = self.try_push(&left, &["--atomic"])?;
            return match self.judge(&left, &output)? {
                Verdict::Over(outcome) => Ok(outcome),
                Verdict::Left(left) => Err(self.refused(&left, &output)),
            };
        }
        for update in left {
            let update = [update];
            let output = self.try_push(&update, &[])?;
            match self.judge(&update, &output)? {
                Verdict::Over(PushOutcome::Published) => {}
                Verdict::Over(lost) => return Ok(lost),
                Verdict::Left(left) => return Err(self.refused(&left, &output)),
            }
        }
        Ok(PushOutcome::Published)
    }

    /// The same remote, to which refs of other clones of this machine are published, too, with their folders of objects.
    #[must_use]
    pub fn with_objects_of<'f>(&self, folders: impl IntoIterator<Item = &'f str>) -> Self {
        let folders: Vec<&str> = folders.into_iter().collect();
        Self {
            objects: (!folders.is_empty()).then(|| folders.join(":")),
            ..self.clone()
        }
    }

    /// Whether it is reached by the `git` program, which finds the objects of other clones.
    #[must_use]
    pub const fn is_of_program(&self) -> bool {
        matches!(self.way, Way::Program(_))
    }

    /// Asks whether a push of a ref would reach the remote: git does all but send it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the remote takes no push, with what git said.
    pub fn would_accept(&self, name: &str) -> Result<(), Error> {
        self.begin();
        let spec = format!("HEAD:{name}");
        let output = self.run(&[
            "push",
            "--dry-run",
            "--porcelain",
            "--quiet",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            "--",
            &self.name,
            &spec,
        ])?;
        match output.success {
            true => Ok(()),
            false => Err(self.refused(&[], &output)),
        }
    }

    fn try_push(&self, updates: &[RefUpdate], flags: &[&str]) -> Result<Output, Error> {
        if let Way::Transport(transport) = &self.way {
            let pushed = transport.push(self.repository, updates);
            return Ok(Output {
                success: pushed.is_ok(),
                stdout: String::new(),
                stderr: pushed.err().unwrap_or_default(),
            });
        }
        let shown = |id: Option<ObjectId>| id.map(|id| id.to_string()).unwrap_or_default();
        let leases: Vec<String> = updates
            .iter()
            .map(|update| format!("--force-with-lease={}:{}", update.name, shown(update.old)))
            .collect();
        let specs: Vec<String> = updates
            .iter()
            .map(|update| format!("{}:{}", shown(update.new), update.name))
            .collect();
        // A pipeline that a record in a branch starts would have nothing to do.
        let is_of_branch = |update: &RefUpdate| update.name.starts_with(BRANCHES);
        let mut skips = updates.iter().any(is_of_branch) && !self.refuses_options();
        loop {
            let mut arguments = vec![
                "push",
                "--porcelain",
                "--quiet",
                "--no-verify",
                "--no-follow-tags",
                "--recurse-submodules=no",
            ];
            arguments.extend(flags);
            if skips {
                arguments.push(SKIP_PIPELINES);
            }
            arguments.extend(leases.iter().map(String::as_str));
            arguments.extend(["--", &self.name]);
            arguments.extend(specs.iter().map(String::as_str));
            let output = self.run(&arguments)?;
            if !(skips && output.stderr.contains("does not support push options")) {
                return Ok(output);
            }
            // It was refused here, before anything was sent.
            self.refuses_options.store(true, Ordering::Relaxed);
            skips = false;
        }
    }

    fn refuses_options(&self) -> bool {
        self.refuses_options.load(Ordering::Relaxed)
    }

    /// The result of a push, by the refs of the remote now.
    fn judge(&self, updates: &[RefUpdate], output: &Output) -> Result<Verdict, Error> {
        if output.success {
            return Ok(Verdict::Over(PushOutcome::Published));
        }
        let names: Vec<&str> = updates.iter().map(|update| update.name.as_str()).collect();
        let refs = self
            .list(&names)
            .map_err(|_| self.unreachable(output.stderr.clone()))?;
        let mut left = Vec::new();
        for update in updates {
            let found = refs.get(&update.name).copied();
            if found == update.new {
                continue;
            }
            if found != update.old {
                return Ok(Verdict::Over(PushOutcome::LostRace {
                    name: update.name.clone(),
                    expected: update.old,
                    found,
                }));
            }
            left.push(update.clone());
        }
        Ok(if left.is_empty() {
            Verdict::Over(PushOutcome::Published)
        } else {
            Verdict::Left(left)
        })
    }

    /// The error for refs that the remote, which can be reached, did not take.
    fn refused(&self, left: &[RefUpdate], output: &Output) -> Error {
        // A line of `--porcelain`: flag, `from:to`, and words, with tabs between.
        let rejected = output.stdout.lines().filter_map(|line| {
            let mut parts = line.strip_prefix("!\t")?.splitn(2, '\t');
            let (_, name) = parts.next()?.rsplit_once(':')?;
            Some((name.to_owned(), parts.next()?.to_owned()))
        });
        // The others are refused for the one that is.
        let is_cause = |(_, words): &(String, String)| !words.contains("atomic push failure");
        let mut rejected = rejected.collect::<Vec<_>>();
        rejected.sort_by_key(|each| !is_cause(each));
        let (name, words) = rejected.into_iter().next().unwrap_or_else(|| {
            let name = left.first().map(|update| update.name.clone());
            (name.unwrap_or_default(), String::new())
        });
        let message = [words.as_str(), output.stderr.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        let prefix: Vec<&str> = name.splitn(3, '/').take(2).collect();
        let others = self.list(&[&format!("{}/*", prefix.join("/"))]);
        Error::Refused {
            remote: self.name.clone(),
            takes_such: others.is_ok_and(|others| !others.is_empty()),
            name,
            message,
        }
    }

    /// Begins a question: of a remote that lasts it has the whole time limit.
    fn begin(&self) {
        if self.lasts {
            *self.spent() = Duration::ZERO;
        }
    }

    fn spent(&self) -> std::sync::MutexGuard<'_, Duration> {
        lock(&self.spent)
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, Error> {
        let Way::Program(timeout) = self.way else {
            return Err(self.unreachable("it is not reached by the `git` program".to_owned()));
        };
        let limit = timeout.limit();
        let left = limit.saturating_sub(*self.spent());
        if left.is_zero() {
            return Err(Error::GitTimeout {
                command: arguments.first().copied().unwrap_or_default().to_owned(),
                seconds: limit.as_secs(),
            });
        }
        let began = Instant::now();
        let others = self.objects.as_deref();
        let output = self
            .repository
            .run_program_with_objects(arguments, timeout, left, others);
        if arguments.first() != Some(&ASK) {
            self.repository.answers.forget();
        }
        *self.spent() += began.elapsed();
        output
    }

    pub(super) fn unreachable(&self, message: String) -> Error {
        Error::Unreachable {
            remote: self.name.clone(),
            message,
        }
    }
}

enum Verdict {
    Over(PushOutcome),
    /// These still have their old values.
    Left(Vec<RefUpdate>),
}
