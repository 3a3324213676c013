//! The serial console of a machine, which a program shows on the terminal of its caller.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::process::{Child, Command, Stdio};

use tempfile::TempPath;

use super::Secret;

/// The variable in which the answer to a program's question for a password is.
const ANSWER: &str = "CONSOLE_PASSWORD";

/// How a program gets the password.
enum Password {
    /// In a variable of its environment.
    In(&'static str, Secret),
    /// From a program of its own (`SSH_ASKPASS`).
    Asked(Secret),
    /// It asks the terminal, or needs none.
    Open,
}

/// The call of a program that shows a serial console until its user leaves it.
pub struct Console {
    program: OsString,
    arguments: Vec<String>,
    password: Password,
    search_path: Option<OsString>,
    /// Where it leads to, and how: `10.0.0.5:623 (IPMI)`.
    at: String,
}

impl Console {
    /// Over IPMI (Serial over LAN), by `ipmitool`.
    pub(super) fn by_ipmi(
        (program, search_path): (OsString, Option<OsString>),
        arguments: Vec<String>,
        password: Secret,
        place: &str,
    ) -> Self {
        Self {
            program,
            arguments,
            password: Password::In("IPMI_PASSWORD", password),
            search_path,
            at: format!("{place} (IPMI)"),
        }
    }

    /// Over SSH, by the program `ssh`.
    pub(super) fn by_ssh(
        search_path: Option<OsString>,
        (host, port): (&str, u16),
        account: Option<(&str, Secret)>,
        command: Option<&str>,
    ) -> Self {
        let mut arguments = vec![
            "-tt".to_owned(),
            "-e".to_owned(),
            "~".to_owned(),
            // A controller is known by what it showed first; another key is refused.
            "-o".to_owned(),
            "StrictHostKeyChecking=accept-new".to_owned(),
            // Controllers lock accounts.
            "-o".to_owned(),
            "NumberOfPasswordPrompts=1".to_owned(),
            "-p".to_owned(),
            port.to_string(),
        ];
        let password = match account {
            Some((username, password)) => {
                arguments.extend(["-l".to_owned(), username.to_owned()]);
                Password::Asked(password)
            }
            None => Password::Open,
        };
        arguments.extend(["--".to_owned(), host.to_owned()]);
        arguments.extend(command.map(str::to_owned));
        Self {
            program: OsString::from("ssh"),
            arguments,
            password,
            search_path,
            at: format!("{host}:{port} (SSH)"),
        }
    }

    /// Starts the program on this process's input and errors; `output`: where its output goes.
    ///
    /// # Errors
    ///
    /// It is not found, or cannot be started.
    pub fn start(&self, output: Stdio) -> io::Result<RunningConsole> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdout(output);
        if let Some(path) = &self.search_path {
            command.env("PATH", path);
        }
        let mut answer = None;
        match &self.password {
            Password::In(variable, secret) => {
                command.env(variable, secret.reveal());
            }
            Password::Asked(secret) => {
                let script = answering_script()?;
                command
                    .env("SSH_ASKPASS", &script)
                    .env("SSH_ASKPASS_REQUIRE", "force")
                    .env(ANSWER, secret.reveal());
                answer = Some(script);
            }
            Password::Open => {}
        }
        Ok(RunningConsole {
            child: command.spawn()?,
            _answer: answer,
        })
    }

    /// The program that is started.
    #[must_use]
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

impl fmt::Display for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at)
    }
}

/// A console that is shown.
pub struct RunningConsole {
    /// The program.
    pub child: Child,
    /// The script that answers its question; goes with this.
    _answer: Option<TempPath>,
}

/// A program that prints the password, which is not in it.
fn answering_script() -> io::Result<TempPath> {
    let mut script = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        script.permissions(std::fs::Permissions::from_mode(0o700));
    }
    let mut script = script.tempfile()?;
    writeln!(script, "#!/bin/sh\nprintf '%s\\n' \"${ANSWER}\"")?;
    Ok(script.into_temp_path())
}
