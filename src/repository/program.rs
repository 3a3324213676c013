//! The `git` program: how it is called, and which parts of its messages are passed on.
//!
//! Arguments are a list, never a line for a shell. The variables by which an outer git (a hook, an
//! alias) points to its own repository are taken away, and the messages are kept in English, since
//! some are parsed. Without a terminal nothing is asked, and the program is out of reach of the
//! terminal's Ctrl-C (a checkpoint that is being pushed must arrive). It always has a time limit, and what
//! it has started ends with it.

use std::ffi::OsString;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::{CommitId, Error, Repository};
use crate::threads::lock;

/// Variables that would make git work on another repository than the one it is given.
const FOREIGN: [&str; 12] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// How long git may take for a question about a repository of this machine.
pub(super) const LOCAL: Duration = Duration::from_secs(60);

/// How long a program that was told to end may take to put its files in order.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Whether the program may ask a person, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramTimeout {
    /// A terminal is there: credentials may be asked for. The time to type them is in the limit.
    Attended(Duration),
    /// There is no terminal: nothing is asked.
    Unattended(Duration),
}

impl ProgramTimeout {
    /// How long the program may take.
    pub(super) fn limit(self) -> Duration {
        match self {
            Self::Attended(limit) | Self::Unattended(limit) => limit,
        }
    }
}

/// The variables of a program that is started; absent: those of this process.
pub(super) type Environment = Option<Vec<(OsString, OsString)>>;

/// The result of a call of the program.
pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: String,
    /// Trimmed, without credentials.
    pub(super) stderr: String,
}

/// The lines of a program's message as one, as errors hold it: a line in the middle of a sentence is the rest of
/// the one before.
fn in_one_line(text: &str) -> String {
    let mut all = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let is_rest = line.starts_with(char::is_lowercase) && !begins_message(line);
        all.push_str(match all.chars().next_back() {
            None => "",
            Some('.' | ':' | ',' | ';') => " ",
            Some(_) if is_rest => " ",
            Some(_) => "; ",
        });
        all.push_str(line);
    }
    all
}

/// Whether a line is a message of its own, as git writes them: `fatal: …`, `hint: …`.
fn begins_message(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.ends_with(':')
}

/// How a program ended.
pub(super) struct Ended {
    /// Whether it succeeded; `None` if its time was up.
    pub(super) success: Option<bool>,
    took: Duration,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Repository {
    /// The version of the `git` program, such as `2.39.5`.
    ///
    /// # Errors
    ///
    /// It is not found, or does not answer in time.
    pub fn git_version(&self) -> Result<String, Error> {
        let limit = Duration::from_secs(10);
        let output = self.run_program(&["version"], ProgramTimeout::Unattended(limit), limit)?;
        let version = output.stdout.trim().strip_prefix("git version ");
        let version = version.and_then(|rest| rest.split(' ').next());
        Ok(version.unwrap_or("of unknown version").to_owned())
    }

    /// Runs `git` in this repository, for as long as is left of the limit.
    pub(super) fn run_program(
        &self,
        arguments: &[&str],
        timeout: ProgramTimeout,
        left: Duration,
    ) -> Result<Output, Error> {
        self.run_program_with_objects(arguments, timeout, left, None)
    }

    /// The same, with objects of other clones, by the list of their folders.
    pub(super) fn run_program_with_objects(
        &self,
        arguments: &[&str],
        timeout: ProgramTimeout,
        left: Duration,
        objects: Option<&str>,
    ) -> Result<Output, Error> {
        let mut command = self.git();
        command.args(arguments);
        if let ProgramTimeout::Unattended(_) = timeout {
            command.stdin(Stdio::null());
        }
        let more = objects.map(|folders| ("GIT_ALTERNATE_OBJECT_DIRECTORIES", folders));
        let limit = (timeout, left);
        let ended = run_prepared(&self.environment, command, limit, more.as_slice());
        output(ended, arguments, timeout)
    }

    /// Runs `git` in this repository, with a list that it reads.
    pub(super) fn run_program_with(
        &self,
        arguments: &[&str],
        input: &str,
        timeout: ProgramTimeout,
    ) -> Result<Output, Error> {
        let failed = |source| Error::NoGitProgram { source };
        let mut file = tempfile::tempfile().map_err(failed)?;
        file.write_all(input.as_bytes()).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let mut command = self.git();
        command.args(arguments).stdin(Stdio::from(file));
        let limit = (timeout, timeout.limit());
        let ended = run_prepared(&self.environment, command, limit, &[]);
        output(ended, arguments, timeout)
    }

    /// The program for this repository.
    fn git(&self) -> Command {
        let mut command = git(&self.environment);
        // A fetch must not begin to repack what libgit2 has mapped.
        command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
        command.arg("--git-dir").arg(&self.git_dir);
        // If it is told the first, it takes the folder that it is in for the second.
        if !self.is_bare {
            command.arg("--work-tree").arg(&self.root);
        }
        command.current_dir(&self.root);
        command
    }

    /// Runs a program with the environment of this repository, for as long as is left of the limit.
    pub(super) fn run_child(
        &self,
        mut command: Command,
        timeout: ProgramTimeout,
        left: Duration,
    ) -> std::io::Result<Ended> {
        if let ProgramTimeout::Unattended(_) = timeout {
            command.stdin(Stdio::null());
        }
        run_prepared(&self.environment, command, (timeout, left), &[])
    }

    /// Runs a program that is to fail if it would ask for a passphrase: on no terminal, and in no window.
    pub(super) fn run_silent_child(
        &self,
        mut command: Command,
        limit: Duration,
    ) -> std::io::Result<Ended> {
        command.stdin(Stdio::null());
        let timeout = ProgramTimeout::Unattended(limit);
        // The program that is asked for the passphrase gives none.
        let silent = [("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];
        run_prepared(&self.environment, command, (timeout, limit), &silent)
    }

    /// Runs a program that reads some input and asks nothing.
    pub(super) fn run_child_with(
        &self,
        mut command: Command,
        input: Stdio,
        limit: Duration,
    ) -> std::io::Result<Ended> {
        command.stdin(input);
        let timeout = ProgramTimeout::Unattended(limit);
        run_prepared(&self.environment, command, (timeout, limit), &[])
    }

    /// Resolves a revision by the `git` program; it knows more forms than libgit2.
    pub(super) fn resolve_by_program(&self, revision: &str) -> Option<CommitId> {
        let revision = format!("{revision}^{{commit}}");
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &revision,
        ];
        let limit = Duration::from_secs(10);
        let output = self
            .run_program(&arguments, ProgramTimeout::Unattended(limit), limit)
            .ok()?;
        output.stdout.trim().parse().ok()
    }
}

/// A variable of programs that are started.
pub(super) fn variable(environment: &Environment, name: &str) -> Option<OsString> {
    match environment {
        Some(variables) => {
            let found = variables.iter().find(|(each, _)| each == name);
            found.map(|(_, value)| value.clone())
        }
        None => std::env::var_os(name),
    }
}

/// Asks git something in a folder whose repository is not known yet.
pub(super) fn ask(
    folder: &Path,
    arguments: &[&str],
    environment: &Environment,
    limit: Duration,
) -> Result<Output, Error> {
    let mut command = git(environment);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null());
    let timeout = ProgramTimeout::Unattended(limit);
    let ended = run_prepared(environment, command, (timeout, limit), &[]);
    output(ended, arguments, timeout)
}

/// The program, which is to start no monitor of the worktree's files: a change of the design may bring one.
fn git(environment: &Environment) -> Command {
    let mut command = Command::new(found(environment).unwrap_or_else(|| PathBuf::from("git")));
    command.args(["-c", "core.fsmonitor=false"]);
    command
}

/// Where the program is. With an environment of its own a name alone would be looked for by a copy of this process, and a
/// large process is slow to copy.
fn found(environment: &Environment) -> Option<PathBuf> {
    let path = variable(environment, "PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| {
        let program = folder.join("git");
        (folder.is_absolute() && is_executable(&program)).then_some(program)
    })
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(file);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

/// The result of a call, as it ended.
fn output(
    ended: std::io::Result<Ended>,
    arguments: &[&str],
    timeout: ProgramTimeout,
) -> Result<Output, Error> {
    let ended = ended.map_err(|source| Error::NoGitProgram { source })?;
    log::info!(
        "git {}: {}, in {:.1?}",
        without_credentials(&arguments.join(" ")),
        match ended.success {
            Some(true) => "done",
            Some(false) => "refused",
            None => "not done in time",
        },
        ended.took
    );
    let Some(success) = ended.success else {
        return Err(Error::GitTimeout {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            seconds: timeout.limit().as_secs(),
        });
    };
    Ok(Output {
        success,
        stdout: ended.stdout,
        stderr: without_credentials(&in_one_line(&ended.stderr)),
    })
}

fn run_prepared(
    environment: &Environment,
    mut command: Command,
    (timeout, left): (ProgramTimeout, Duration),
    more: &[(&str, &str)],
) -> std::io::Result<Ended> {
    if let Some(variables) = environment {
        command.env_clear().envs(variables.iter().cloned());
    }
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C").envs(more.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let ProgramTimeout::Unattended(_) = timeout {
        command.env("GIT_TERMINAL_PROMPT", "0");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    let began = Instant::now();
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(Gathered::from);
    let stderr = child.stderr.take().map(Gathered::from);
    let success = wait(&mut child, timeout, left)?;
    let text = |gathered: Option<Gathered>| gathered.map(Gathered::text).unwrap_or_default();
    Ok(Ended {
        success,
        took: began.elapsed(),
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

/// Whether the child succeeded; `None` if its time was up, and it is gone with all that it started.
fn wait(
    child: &mut Child,
    timeout: ProgramTimeout,
    left: Duration,
) -> std::io::Result<Option<bool>> {
    if let Some(success) = ended_within(child, left)? {
        return Ok(Some(success));
    }
    let family = Family::of(child, timeout);
    // It takes its lock files away where it is asked to end.
    family.end(false);
    let in_order = ended_within(child, LAST_WORDS);
    family.end(true);
    child.kill()?;
    child.wait()?;
    in_order.map(|_| None)
}

/// Whether the child succeeded; `None` if it still runs after this time.
fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<bool>> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// A child and all that it started.
#[cfg(unix)]
struct Family {
    /// The child's own group, if it has one.
    group: Option<rustix::process::Pid>,
    /// Where it has none, because it must be able to ask on the terminal: each process.
    members: Vec<rustix::process::Pid>,
}

#[cfg(unix)]
impl Family {
    fn of(child: &Child, timeout: ProgramTimeout) -> Self {
        let Some(id) = rustix::process::Pid::from_raw(child.id().cast_signed()) else {
            return Self {
                group: None,
                members: Vec::new(),
            };
        };
        match timeout {
            ProgramTimeout::Unattended(_) => Self {
                group: Some(id),
                members: Vec::new(),
            },
            ProgramTimeout::Attended(_) => {
                let mut members = vec![id];
                let mut at = 0;
                while let Some(parent) = members.get(at) {
                    members.extend(children(*parent));
                    at += 1;
                }
                Self {
                    group: None,
                    members,
                }
            }
        }
    }

    /// Asks all of them to end, or ends them. What is gone already is none of them.
    fn end(&self, at_once: bool) {
        use rustix::process::{Signal, kill_process, kill_process_group};
        let signal = match at_once {
            true => Signal::KILL,
            false => Signal::TERM,
        };
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
        for member in &self.members {
            let _ = kill_process(*member, signal);
        }
    }
}

/// The processes that a process has started, if the system tells.
#[cfg(unix)]
fn children(parent: rustix::process::Pid) -> Vec<rustix::process::Pid> {
    let id = parent.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let ids = list.unwrap_or_default();
    ids.split_whitespace()
        .filter_map(|id| rustix::process::Pid::from_raw(id.parse().ok()?))
        .collect()
}

#[cfg(not(unix))]
struct Family;

#[cfg(not(unix))]
impl Family {
    fn of(_child: &Child, _patience: ProgramTimeout) -> Self {
        Self
    }

    fn end(&self, _at_once: bool) {}
}

/// The text of a stream, read by a thread of its own.
struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

impl Gathered {
    fn from(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = mpsc::channel();
        let sink = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length @ 1..) = stream.read(&mut part) {
                lock(&sink).extend_from_slice(&part[..length]);
            }
            let _ = end.send(());
        });
        Self { bytes, ended }
    }

    /// All of it. A process that git left behind (a shared ssh connection) may hold the stream open;
    /// it is not waited for.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(Duration::from_secs(2));
        let bytes = lock(&self.bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The text without what URLs in it may carry: user and password before `@`, and the query.
pub(super) fn without_credentials(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = url
            .find(|each: char| each.is_whitespace() || matches!(each, '\'' | '"' | '`' | '>'))
            .unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        let (host, path) = url.split_at(url.find('/').unwrap_or(url.len()));
        // A password may hold a slash by mistake: everything up to the last `@` goes.
        let host = match url.rfind('@') {
            Some(at) if at >= host.len() && !host.contains('@') && host.contains(':') => {
                &url[at + 1..]
            }
            _ => {
                clean.push_str(host.rsplit_once('@').map_or(host, |(_, host)| host));
                path
            }
        };
        clean.push_str(host.split_once('?').map_or(host, |(path, _)| path));
        rest = after;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_urls_are_not_passed_on() {
        for (said, shown) in [
            (
                "fatal: unable to access 'https://ada:s3cret@git.example.org/x.git/': 403",
                "fatal: unable to access 'https://git.example.org/x.git/': 403",
            ),
            (
                "https://token@host/a and ssh://git@host:22/b?key=s3cret end",
                "https://host/a and ssh://host:22/b end",
            ),
            ("https://u:p@x/y@h/a", "https://x/y@h/a"),
            ("https://u:pa/ss@host/a", "https://host/a"),
            (
                "no url at all, me@example.org",
                "no url at all, me@example.org",
            ),
        ] {
            assert_eq!(without_credentials(said), shown);
        }
    }

    #[test]
    fn messages_of_many_lines_read_as_sentences() {
        for (text, expected) in [
            ("", ""),
            ("fatal: no\n", "fatal: no"),
            (
                "fatal: 'r.git' is no repository\nfatal: Could not read from remote repository.\n\nPlease make sure you have the \
                 correct access rights\nand the repository exists.\n",
                "fatal: 'r.git' is no repository; fatal: Could not read from remote repository. Please make sure you have the \
                 correct access rights and the repository exists.",
            ),
            (
                "remote: error: hook declined\nerror: failed to push some refs\nhint: fetch first",
                "remote: error: hook declined; error: failed to push some refs; hint: fetch first",
            ),
        ] {
            assert_eq!(in_one_line(text), expected);
        }
    }
}
