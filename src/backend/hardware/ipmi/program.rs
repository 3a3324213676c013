//! The program `ipmitool`: how it is called, and what its words mean.
//!
//! Arguments are a list, never a line for a shell; the password is handed over in the environment, where
//! other users of the machine do not see it. The program is out of reach of the terminal's Ctrl-C, has a
//! time limit and a largest output, and is killed when its caller is gone. `-v` makes it print why
//! a session could not be opened: without it, a wrong password and a missing controller look
//! the same.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::suites::{Suites, TRIED, chosen, is_refused};
use crate::backend::masked::masked;
use crate::backend::{ActError, Console, Secret, fence};

/// The most that is read of each of the program's outputs, in bytes.
const MOST_OUTPUT: u64 = 64 << 10;
/// The most of its words that are passed on, in characters.
const MOST_WORDS: usize = 300;
/// Seconds until a request is sent again, and how often it is.
const RESEND: (&str, &str) = ("3", "4");
/// Longer than the program waits for answers.
const LIMIT: Duration = Duration::from_secs(45);
/// The interface that has cipher suites.
pub(super) const LANPLUS: &str = "lanplus";
/// The longest password of IPMI 2.0, and of 1.5, in bytes.
pub(super) const LONGEST_PASSWORD: (usize, usize) = (20, 16);

/// The error if the program is missing, with how to get it.
pub(super) const NOT_FOUND: &str = "the program `ipmitool` was not found in PATH: install it (most systems have a package `ipmitool`)";

/// A controller and who logs in.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) address: Arc<str>,
    pub(super) port: u16,
    pub(super) interface: &'static str,
    pub(super) cipher_suite: Option<u8>,
    pub(super) username: Arc<str>,
    pub(super) password: Secret,
}

impl Session {
    /// The arguments with which the program reaches it; the password is in the environment.
    fn arguments(&self, suite: Option<u8>) -> Vec<String> {
        let port = self.port.to_string();
        let own = [
            ["-I", self.interface, "-H", &self.address],
            ["-p", &port, "-U", &self.username],
        ];
        let all = own.concat().into_iter();
        let all = all.chain(["-E", "-N", RESEND.0, "-R", RESEND.1]);
        let suite = suite.map(|suite| ["-C".to_owned(), suite.to_string()]);
        let all = all.map(str::to_owned);
        all.chain(suite.into_iter().flatten()).collect()
    }
}

/// The program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: OsString,
    /// The time after which a call is killed.
    pub(super) limit: Duration,
    /// Where programs are looked for.
    pub(super) search_path: Option<OsString>,
    /// The cipher suites that controllers took.
    pub(super) suites: Arc<Suites>,
}

impl Program {
    /// The program as it is found.
    pub(super) fn found_in(search_path: Option<OsString>, suites: Suites) -> Self {
        Self {
            path: OsString::from("ipmitool"),
            limit: LIMIT,
            search_path,
            suites: Arc::new(suites),
        }
    }

    /// Calls it with a request to a controller; gives what it printed.
    ///
    /// # Errors
    ///
    /// As the program failed: what can pass (no answer, busy) is [`ActError::Passing`], what stays (a
    /// wrong password, a privilege that is missing) [`ActError::Permanent`].
    pub(super) async fn ask(
        &self,
        session: &Session,
        request: &[&str],
    ) -> Result<String, ActError> {
        let said = self.call(session, request).await?;
        match said.success {
            true => Ok(said.out),
            false => Err(meaning(session, request, &said.err)),
        }
    }

    /// Calls for a value that not every controller has; `None` if it answers that it has none.
    ///
    /// # Errors
    ///
    /// Those of [`Self::ask`].
    pub(super) async fn ask_if_known(
        &self,
        session: &Session,
        request: &[&str],
    ) -> Result<Option<String>, ActError> {
        let said = self.call(session, request).await?;
        // Some of its refusals are printed if its answers are.
        let is_unknown = |part: &&str| said.err.contains(part) || said.out.contains(part);
        match said.success {
            true => Ok(Some(said.out)),
            false if UNKNOWN.iter().any(is_unknown) => Ok(None),
            false => Err(meaning(session, request, &said.err)),
        }
    }

    /// Calls it with the suite that is set, or that the controller took before; if it refuses that, with others: no session
    /// came about, so that nothing was done. What worked is remembered.
    async fn call(&self, session: &Session, request: &[&str]) -> Result<Said, ActError> {
        if session.cipher_suite.is_some() || session.interface != LANPLUS {
            return self.call_once(session, request, session.cipher_suite).await;
        }
        let (address, port) = (&session.address, session.port);
        let known = self.suites.get(address, port);
        let mut suite = known;
        let mut said = self.call_once(session, request, suite).await?;
        let mut others = TRIED.into_iter().filter(|other| Some(*other) != known);
        while !said.success && is_refused(&said.err) {
            self.suites.refused(address, port);
            let Some(other) = others.next() else {
                return Ok(said);
            };
            suite = Some(other);
            said = self.call_once(session, request, suite).await?;
        }
        if said.success
            && let Some(suite) = suite.or_else(|| chosen(&said.err))
        {
            self.suites.took(address, port, suite);
        }
        Ok(said)
    }

    /// Calls it; gives what it printed, without the password.
    async fn call_once(
        &self,
        session: &Session,
        request: &[&str],
        suite: Option<u8>,
    ) -> Result<Said, ActError> {
        let mut command = self.command();
        // With it, entries of the event log are tables.
        if !matches!(request, ["sel", "list", ..]) {
            command.arg("-v");
        }
        command
            .args(session.arguments(suite))
            .args(request)
            .env("IPMI_PASSWORD", session.password.reveal());
        if !only_reads(request) {
            fence::pass().await;
        }
        let began = Instant::now();
        let said = run(command, self.limit).await;
        log::debug!(
            "{}:{}: ipmitool {}: {}, in {:.1?}",
            session.address,
            session.port,
            request.join(" "),
            match &said {
                Ok(said) if said.success => "done",
                Ok(_) => "refused",
                Err(_) => "no answer",
            },
            began.elapsed()
        );
        let mut said = said?;
        let password = session.password.reveal();
        if !said.success && !password.is_empty() {
            said.err = said.err.replace(password, "(secret)");
        }
        said.out = masked(&said.out).into_owned();
        Ok(said)
    }

    /// The call that shows the serial console of a machine (Serial over LAN), with the suite that its controller took.
    pub(super) fn console(&self, session: &Session) -> Console {
        let known = self.suites.get(&session.address, session.port);
        let mut arguments = session.arguments(session.cipher_suite.or(known));
        arguments.extend(["sol", "activate"].map(str::to_owned));
        let place = format!("{}:{}", session.address, session.port);
        let program = (self.path.clone(), self.search_path.clone());
        Console::by_ipmi(program, arguments, session.password.clone(), &place)
    }

    /// The program with nothing of this process's environment but where programs are found.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear();
        if let Some(path) = &self.search_path {
            command.env("PATH", path);
        }
        command
    }

    /// Sees to it that it is there and runs.
    ///
    /// # Errors
    ///
    /// [`ActError::Permanent`] with how to get it.
    pub(super) async fn verify(&self) -> Result<(), ActError> {
        let mut command = self.command();
        command.arg("-V");
        run(command, self.limit).await.map(|_| ())
    }
}

/// Whether a request changes nothing. What is not known to read is taken for one that writes.
fn only_reads(request: &[&str]) -> bool {
    matches!(
        request,
        ["chassis", "status"]
            | ["chassis", "power", "status"]
            | ["chassis", "bootparam", "get", ..]
            | ["mc", "info" | "guid"]
            | ["fru", ..]
            | ["sel", "time", "get"]
            | ["sel", "list", ..]
    )
}

struct Said {
    success: bool,
    out: String,
    err: String,
}

async fn run(mut command: Command, limit: Duration) -> Result<Said, ActError> {
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ActError::Permanent(Arc::from(NOT_FOUND)),
        _ => ActError::Passing(format!("the program `ipmitool` cannot be started: {error}").into()),
    })?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let whole = async {
        // What says too much is not waited for.
        let (out, err) = tokio::try_join!(read(out), read(err))?;
        let status = child.wait().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(Said {
            success: status.success(),
            out,
            err,
        })
    };
    match timeout(limit, whole).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(problem)) => Err(ActError::Passing(
            format!("the program `ipmitool` {problem}").into(),
        )),
        Err(_) => Err(ActError::Passing(
            format!(
                "the program `ipmitool` did not end within {} s",
                limit.as_secs()
            )
            .into(),
        )),
    }
}

/// All that a stream says; an error if that is more than is read.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error counts.
        let _ = stream.take(MOST_OUTPUT + 1).read_to_end(&mut bytes).await;
    }
    if bytes.len() as u64 > MOST_OUTPUT {
        return Err("says more than any controller does".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How a controller answers to a request for what it does not have.
const UNKNOWN: [&str; 6] = [
    "Invalid command",
    "Invalid data field",
    "Command not supported",
    "Requested sensor, data, or record not found",
    "Device not present",
    "rsp=0xc",
];

/// Parts of the program's output for each cause of a failure, the text shown instead, and whether it can pass.
const WORDS: &[(&str, &str, bool)] = &[
    (
        "RAKP 2 HMAC is invalid",
        "refuses the password of account `{account}`",
        false,
    ),
    (
        "unauthorized name",
        "does not know the account `{account}`",
        false,
    ),
    (
        "unauthorized role",
        "does not let the account `{account}` in as administrator",
        false,
    ),
    (
        "invalid role",
        "does not let the account `{account}` in as administrator",
        false,
    ),
    ("insufficient resources", "has no session left", true),
    (
        "authentication algorithm",
        "refuses the cipher suite; set `cipher_suite` in Backends to one that it has",
        false,
    ),
    (
        "integrity algorithm",
        "refuses the cipher suite; set `cipher_suite` in Backends to one that it has",
        false,
    ),
    (
        "confidentiality algorithm",
        "refuses the cipher suite; set `cipher_suite` in Backends to one that it has",
        false,
    ),
    (
        "no matching cipher suite",
        "refuses the cipher suite; set `cipher_suite` in Backends to one that it has",
        false,
    ),
    (
        "Insufficient privilege",
        "does not let the account `{account}` do this",
        false,
    ),
    (
        "Password is longer",
        "cannot be given so long a password",
        false,
    ),
    (
        "Could not open socket",
        "has an address that cannot be reached",
        true,
    ),
    (
        "Address lookup for",
        "has an address that names no host",
        false,
    ),
    ("Get Auth Capabilities error", "does not answer", true),
    (
        "Get Channel Authentication Capabilities",
        "does not answer",
        true,
    ),
    (
        "No response from remote controller",
        "does not answer",
        true,
    ),
    ("Node busy", "is busy", true),
    (
        "Command not supported",
        "cannot do this in its present state",
        false,
    ),
    ("Invalid command", "does not know this request", false),
    ("Invalid data field", "does not take this request", false),
];

/// Lines that hold no cause of a failure.
const NOISE: [&str; 7] = [
    "Discovered IPMB address",
    "Error: Unable to establish",
    "Invalid completion code received",
    "Loading IANA PEN Registry",
    "Unable to Get Channel Cipher Suites",
    "Running Get",
    "Using best available cipher suite",
];

fn meaning(session: &Session, request: &[&str], words: &str) -> ActError {
    let request = request.join(" ");
    let who = format!("the controller at {}:{}", session.address, session.port);
    let said = plain(words);
    for (part, meaning, passes) in WORDS {
        if said.contains(part) {
            let meaning = meaning.replace("{account}", &session.username);
            let text = Arc::from(format!("{who} {meaning} (`{request}`)"));
            return if *passes {
                ActError::Passing(text)
            } else {
                ActError::Permanent(text)
            };
        }
    }
    let text = if said.is_empty() {
        format!("{who} does not answer, or does not let the account in (`{request}`)")
    } else {
        format!("{who} did not do `{request}`: {said}")
    };
    ActError::Passing(Arc::from(text))
}

/// The program's words in one line, without noise and without what could steer a terminal.
fn plain(words: &str) -> String {
    let lines = words
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise)));
    let line = lines.collect::<Vec<_>>().join("; ");
    let line = masked(&line);
    let printable = line.chars().filter(|each| !each.is_control());
    printable.take(MOST_WORDS).collect()
}
