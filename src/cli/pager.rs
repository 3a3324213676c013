//! The pager: what a command prints on a terminal is shown by `TRUEUP_PAGER`, else `PAGER`, else `less`, as git does it.
//!
//! It is begun by the first text that is printed, so that it is never in the way of a question or of progress, and from
//! then on it gets stderr, too. Without a terminal, and with `--no-pager`, nothing of it happens.

use std::io::IsTerminal;

/// The variables that name a pager; the first that is set counts.
pub(super) const VARIABLES: [&str; 2] = ["TRUEUP_PAGER", "PAGER"];

/// The pager that is used if no variable names one.
#[cfg(unix)]
const DEFAULT: &str = "less";

/// The command of the pager: nothing if none is wanted, by an empty text or `cat`, or if none is named and the
/// terminal cannot show pages.
#[cfg(unix)]
fn program(variable: impl Fn(&str) -> Option<String>, has_pages: bool) -> Option<String> {
    let named = VARIABLES.iter().find_map(|name| variable(name));
    let program = named.or_else(|| has_pages.then(|| DEFAULT.to_owned()))?;
    let words = program.trim();
    (!words.is_empty() && words != "cat").then(|| words.to_owned())
}

/// Has the output of the command paged from the first text on, where stdout is a terminal.
pub(super) fn want() {
    #[cfg(unix)]
    if std::io::stdout().is_terminal() {
        let read = |name: &str| std::env::var(name).ok();
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let has_rows = size.is_ok_and(|size| size.ws_row > 0);
        let has_pages = has_rows && read("TERM").is_some_and(|term| term != "dumb");
        unix::set(program(read, has_pages));
    }
}

/// Begins the pager, if it is wanted and not at work yet.
pub(super) fn begin() {
    #[cfg(unix)]
    unix::begin();
}

/// Hands the terminal back: waits until the pager is left, if it was begun.
pub(super) fn end() {
    #[cfg(unix)]
    unix::end();
}

#[cfg(unix)]
mod unix {
    use std::io::{IsTerminal, Write as _};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, PoisonError};

    use crate::cli::signals;

    /// A pager at work, and where stdout and stderr went before.
    struct Running {
        child: Child,
        stdout: OwnedFd,
        stderr: Option<OwnedFd>,
        _interrupts: Option<signals::Handler>,
    }

    enum Pager {
        Unwanted,
        Wanted(String),
        Running(Running),
    }

    static PAGER: Mutex<Pager> = Mutex::new(Pager::Unwanted);

    pub(super) fn set(program: Option<String>) {
        let mut pager = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
        *pager = program.map_or(Pager::Unwanted, Pager::Wanted);
    }

    pub(super) fn begin() {
        let mut pager = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Pager::Wanted(program) = &*pager {
            // If it cannot be begun, the text is printed as it would be without.
            *pager = started(program).map_or(Pager::Unwanted, Pager::Running);
        }
    }

    /// The program with its arguments; by a shell if it is more than words.
    fn command(program: &str) -> Command {
        let is_plain = |c: char| c.is_alphanumeric() || " -_+./,:=@%".contains(c);
        let mut words = program.split_whitespace();
        let mut command = match words.next() {
            Some(first) if program.chars().all(is_plain) && !first.contains('=') => {
                let mut command = Command::new(first);
                command.args(words);
                command
            }
            _ => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", program]);
                command
            }
        };
        // As git has them: colours, leave if all fits on one screen, keep the screen.
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command
    }

    fn started(program: &str) -> Option<Running> {
        let stdout = rustix::io::dup(std::io::stdout()).ok()?;
        let stderr = std::io::stderr().is_terminal();
        let stderr = stderr.then(|| rustix::io::dup(std::io::stderr()).ok());
        let stderr = stderr.flatten();
        let mut child = command(program).stdin(Stdio::piped()).spawn().ok()?;
        let pipe = child.stdin.take()?;
        rustix::stdio::dup2_stdout(&pipe).ok()?;
        if stderr.is_some() {
            rustix::stdio::dup2_stderr(&pipe).ok()?;
        }
        Some(Running {
            child,
            stdout,
            stderr,
            // The pager and this program hear Ctrl-C at the same time, and it is meant for the pager.
            _interrupts: signals::leave_interrupts(),
        })
    }

    pub(super) fn end() {
        let mut pager = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
        let Pager::Running(mut running) = std::mem::replace(&mut *pager, Pager::Unwanted) else {
            return;
        };
        // Failures here cannot be reported any more. With these the last ends of the pipe are closed.
        let _ = std::io::stdout().flush();
        let _ = rustix::stdio::dup2_stdout(&running.stdout);
        if let Some(stderr) = &running.stderr {
            let _ = rustix::stdio::dup2_stderr(stderr);
        }
        let _ = running.child.wait();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_pager() {
        let read = |own: Option<&str>, common: Option<&str>, has_pages: bool| {
            let read = |name: &str| match name {
                "TRUEUP_PAGER" => own.map(str::to_owned),
                _ => common.map(str::to_owned),
            };
            program(read, has_pages)
        };
        assert_eq!(read(None, None, true).as_deref(), Some("less"));
        assert_eq!(
            read(None, Some("more -d"), false).as_deref(),
            Some("more -d")
        );
        assert_eq!(
            read(Some("head -3"), Some("more"), true).as_deref(),
            Some("head -3")
        );
        assert_eq!(read(Some(""), Some("more"), true), None);
        assert_eq!(read(None, Some("cat"), true), None);
        assert_eq!(read(None, None, false), None);
    }
}
