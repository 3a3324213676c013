//! The `git` program: how it is called, and what of its words is passed on.
//!
//! Arguments are a list, never a line for a shell. The variables by which an outer git (a hook, an
//! alias) points to its own repository are taken away, and the messages are kept in English, since
//! some are looked at. Without a terminal nothing is asked, the program is out of reach of the
//! terminal's Ctrl-C (a checkpoint that is being pushed must arrive), and it has a time limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::{CommitId, Error, Repository};

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

/// Whether the program may ask a person, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Somebody sits at a terminal: credentials may be asked for, there is no limit.
    Attended,
    /// Nobody does: nothing is asked, and the program is ended after this time.
    Unattended(Duration),
}

/// What a call of the program left.
pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: String,
    /// Trimmed, without credentials.
    pub(super) stderr: String,
}

impl Repository {
    /// Runs `git` in this repository.
    pub(super) fn run_program(
        &self,
        arguments: &[&str],
        patience: Patience,
    ) -> Result<Output, Error> {
        let mut command = Command::new("git");
        // A fetch must not begin to repack what libgit2 has mapped.
        command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
        command.arg("--git-dir").arg(&self.git_dir);
        command.args(arguments).current_dir(&self.root);
        if let Some(variables) = &self.environment {
            command.env_clear().envs(variables.iter().cloned());
        }
        for variable in FOREIGN {
            command.env_remove(variable);
        }
        command.env("LC_ALL", "C");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Patience::Unattended(_) = patience {
            command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let failed = |source| Error::NoGitProgram { source };
        let began = Instant::now();
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().map(Gathered::from);
        let stderr = child.stderr.take().map(Gathered::from);
        let ended = wait(&mut child, patience).map_err(failed)?;
        log::info!(
            "git {}: {}, in {:.1?}",
            without_credentials(&arguments.join(" ")),
            match ended {
                Some(true) => "done",
                Some(false) => "refused",
                None => "not done in time",
            },
            began.elapsed()
        );
        let Some(success) = ended else {
            return Err(Error::GitTimeout {
                command: arguments.first().copied().unwrap_or_default().to_owned(),
                seconds: match patience {
                    Patience::Unattended(limit) => limit.as_secs(),
                    Patience::Attended => 0,
                },
            });
        };
        let text = |gathered: Option<Gathered>| gathered.map(Gathered::text).unwrap_or_default();
        Ok(Output {
            success,
            stdout: text(stdout),
            stderr: without_credentials(text(stderr).trim()),
        })
    }

    /// What the `git` program resolves a revision to; it knows more forms than libgit2.
    pub(super) fn resolve_by_program(&self, revision: &str) -> Option<CommitId> {
        let revision = format!("{revision}^{{commit}}");
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &revision,
        ];
        let output = self
            .run_program(&arguments, Patience::Unattended(Duration::from_secs(10)))
            .ok()?;
        output.stdout.trim().parse().ok()
    }
}

/// Whether the child succeeded; `None` where its time was up.
fn wait(child: &mut Child, patience: Patience) -> std::io::Result<Option<bool>> {
    let Patience::Unattended(limit) = patience else {
        return child.wait().map(|status| Some(status.success()));
    };
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begun.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What a stream says, read by a thread of its own.
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
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&part[..length]);
            }
            let _ = end.send(());
        });
        Self { bytes, ended }
    }

    /// All of it. A process that git left behind (a shared ssh connection) may hold the stream open;
    /// it is not waited for.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(Duration::from_secs(2));
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
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
}
