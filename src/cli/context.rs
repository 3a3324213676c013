//! The context of every command: the folder, the repository, the terminal, the clock.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;

use crate::backend::Looks;
use crate::report::{OfSite, Palette, Role, Visible, Wrapped, of_site};
use crate::repository::{self, OtherRepository, Repository};
use crate::workflow::Checkout;

use super::{ColorChoice, Failure, FailureKind, GlobalArguments, clock, environment, exit, pager};

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// Text on its way to stdout, and why it did not get there.
struct Text<'a> {
    out: BufWriter<io::StdoutLock<'a>>,
    error: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// Where output goes, and how it looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printer {
    /// Colours of stdout.
    pub(super) out: Palette,
    /// Colours of stderr.
    pub(super) err: Palette,
    /// Columns of the terminal that stdout is.
    out_columns: Option<usize>,
    /// Columns of the terminal that stderr is.
    err_columns: Option<usize>,
    /// The site that the operator named: commands that are printed name it, too.
    site: Option<&'static str>,
}

impl Printer {
    pub(super) fn new(choice: ColorChoice) -> Self {
        let colored = |is_terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
            }
        };
        Self {
            out: palette(colored(std::io::stdout().is_terminal())),
            err: palette(colored(std::io::stderr().is_terminal())),
            out_columns: columns(std::io::stdout()),
            err_columns: columns(std::io::stderr()),
            site: None,
        }
    }

    /// Writes the requested output to stdout. A closed pipe (`| head`) is no failure, here and
    /// below.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        pager::begin();
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        unread(written)
    }

    /// Writes what may be long to stdout, as it is made.
    pub(super) fn stream(
        &self,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) -> Result<(), Failure> {
        pager::begin();
        let mut text = Text {
            out: BufWriter::with_capacity(PIECE, std::io::stdout().lock()),
            error: None,
        };
        let written = write(&mut text);
        match (text.error, written) {
            (Some(error), _) => unread(Err(error)),
            (None, written) => {
                written?;
                unread(text.out.flush())
            }
        }
    }

    /// Streams text for people: on a terminal its lines end at words.
    pub(super) fn stream_text(
        &self,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) -> Result<(), Failure> {
        let write = |out: &mut dyn fmt::Write| match self.site {
            Some(site) => {
                let mut text = OfSite::new(out, site);
                write(&mut text)?;
                text.finish()
            }
            None => write(out),
        };
        match self.out_columns {
            Some(columns) => self.stream(|out| {
                let mut text = Wrapped::new(out, columns);
                write(&mut text)?;
                text.finish()
            }),
            None => self.stream(write),
        }
    }

    /// Streams bytes.
    pub(super) fn stream_bytes<T>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> Result<(), Failure> {
        pager::begin();
        let mut out = BufWriter::with_capacity(PIECE, std::io::stdout().lock());
        let written = write(&mut out).and_then(|_| out.flush());
        // What is left in the buffer goes nowhere else.
        let (_, _) = out.into_parts();
        unread(written)
    }

    /// Writes something for people to stderr.
    pub(super) fn tell(&self, text: &str) {
        let text = match self.site {
            Some(site) => of_site(text, site),
            None => Cow::Borrowed(text),
        };
        let text = &*text;
        let mut wrapped = String::new();
        let text = match self
            .err_columns
            .map(|columns| Wrapped::new(&mut wrapped, columns))
        {
            // Writing to memory does not fail.
            Some(mut lines) => {
                let _ = fmt::Write::write_str(&mut lines, text);
                let _ = lines.finish();
                &wrapped
            }
            None => text,
        };
        let mut err = std::io::stderr().lock();
        // A failure here cannot be reported any more.
        let _ = err.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = err.write_all(b"\n");
        }
    }

    /// Asks on a terminal; whether the answer is the one that is wanted, letter by letter.
    pub(super) fn confirms(&self, question: &str, wanted: &str) -> io::Result<bool> {
        self.tell(question);
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer.trim() == wanted)
    }

    /// Shows a failure and gives its exit code.
    pub(super) fn fail(&self, failure: &Failure) -> u8 {
        if !failure.message.is_empty() {
            let mut text = format!(
                "{} {}",
                self.err.paint(Role::Error, "error:"),
                Visible(&failure.message)
            );
            for line in &failure.details {
                text.push_str("\n  ");
                text.push_str(&Visible(line).to_string());
            }
            for hint in &failure.hints {
                text.push_str("\n\n");
                text.push_str(&self.err.paint(Role::Hint, "hint:").to_string());
                text.push(' ');
                text.push_str(&Visible(hint).to_string());
            }
            self.tell(&text);
        }
        exit::code(failure)
    }
}

/// The columns of a stream that is a terminal, if it knows them.
#[cfg(unix)]
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    // Narrower ones tell more of who started the program than of who reads it.
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= 40)
}

#[cfg(not(unix))]
fn columns(_: impl IsTerminal) -> Option<usize> {
    None
}

/// The result of a write to stdout, which may be closed.
fn unread(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Which build this is, so that what another one computed is not taken for ours.
fn program() -> Vec<u8> {
    let file = std::env::current_exe().and_then(|path| path.metadata());
    let file = file.map(|file| (file.len(), file.modified().ok()));
    format!("{} {:?}", env!("CARGO_PKG_VERSION"), file.ok()).into_bytes()
}

/// The name of a site for as long as the process lives: it stands beside each of its printers, and a process has few.
fn kept(site: &str) -> &'static str {
    site.to_owned().leak()
}

fn palette(is_colored: bool) -> Palette {
    if is_colored {
        Palette::Ansi
    } else {
        Palette::Plain
    }
}

/// The context of every command.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) printer: Printer,
    pub(super) site: Option<String>,
    /// The revision that the operator takes the guards of the site from.
    pub(super) backends_from: Option<String>,
    /// Other repositories with documents of the site, as they were given.
    others: Vec<String>,
    directory: PathBuf,
    /// The long names of the flags that were given, for a command some of whose flags make no sense beside another.
    given_flags: Vec<String>,
    /// How far an observation is.
    pub(super) looks: Arc<Looks>,
}

/// The last second of a clock that is believed, in the year 9000: times later than that of 9999 cannot be written, and timeouts and the ends
/// of leases are added to it.
const LATEST_CLOCK: u64 = 221_845_392_000;

/// Why nothing can be done at this time of the clock, where it is beyond all times that can be written.
pub(super) fn clock_failure(now: SystemTime) -> Option<Failure> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    if since.as_secs() < LATEST_CLOCK {
        return None;
    }
    let message = format!(
        "the clock of this machine is at {} seconds since 1970, which is after the year 9000",
        since.as_secs()
    );
    let failure = Failure::new(FailureKind::Error, message);
    Some(failure.hint("set the clock (`timedatectl`): runs, leases and approvals are dated by it"))
}

impl Context {
    pub(super) fn new(global: &GlobalArguments) -> Result<Self, Box<(Printer, Failure)>> {
        let printer = Printer {
            site: global.site.as_deref().map(kept),
            ..Printer::new(global.color)
        };
        let here = std::env::current_dir().map_err(|error| {
            Box::new((
                printer,
                Failure::error(format!("there is no current folder: {error}")),
            ))
        })?;
        let directory = match &global.directory {
            Some(directory) => here.join(directory),
            None => here,
        };
        if !directory.is_dir() {
            let message = format!("there is no folder `{}`", directory.display());
            return Err(Box::new((
                printer,
                Failure::new(FailureKind::Usage, message),
            )));
        }
        Ok(Self {
            printer,
            site: global.site.clone(),
            backends_from: global.backends_from.clone(),
            others: global.repository.clone(),
            directory,
            given_flags: Vec::new(),
            looks: Arc::default(),
        })
    }

    /// Notes which flags were given.
    pub(super) fn give_flags(&mut self, flags: Vec<String>) {
        self.given_flags = flags;
    }

    /// The long names of the flags that were given.
    pub(super) fn given_flags(&self) -> &[String] {
        &self.given_flags
    }

    /// The context of a completion, which tells nothing.
    pub(super) fn silent(directory: Option<PathBuf>, site: Option<String>) -> Option<Self> {
        let global = GlobalArguments {
            directory,
            site,
            repository: Vec::new(),
            color: ColorChoice::Never,
            backends_from: None,
            no_pager: true,
            verbose: 0,
        };
        Self::new(&global).ok()
    }

    /// The same, as if started in another folder; with another site, if one is given.
    pub(super) fn in_folder(&self, folder: &Path, site: Option<&str>) -> Self {
        let mut context = self.clone();
        if let Some(site) = site {
            context.site = Some(site.to_owned());
            context.printer.site = Some(kept(site));
        }
        context.directory = folder.to_owned();
        context
    }

    /// The folder that the command runs in.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The repository around the folder.
    pub(super) fn repository(&self) -> Result<Repository, Failure> {
        let repository = self.discover()?.with_cache(&program()).with_answers();
        let variables = environment::for_git(&repository);
        let others = self.other_repositories()?;
        Ok(repository.with_environment(variables).with_others(others))
    }

    fn discover(&self) -> Result<Repository, repository::Error> {
        Repository::discover_with(&self.directory, &environment::for_questions)
    }

    /// The other repositories that were given.
    fn other_repositories(&self) -> Result<Vec<OtherRepository>, Failure> {
        let mut others: Vec<OtherRepository> = Vec::with_capacity(self.others.len());
        for given in &self.others {
            let refused = |why: String| {
                let message = format!("`--repository {given}`: {why}");
                Failure::new(FailureKind::Usage, message)
            };
            let Some((name, place)) = given.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                return Err(refused(
                    "this is not of the form `NAME=PATH@REV`".to_owned(),
                ));
            };
            if others.iter().any(|other| *other.name == *name) {
                return Err(refused(format!("repository `{name}` is given twice")));
            }
            let (path, revision) = match place.rsplit_once('@') {
                Some((path, revision)) if !revision.is_empty() => (path, Some(revision.to_owned())),
                _ => (place, None),
            };
            let path = self.directory.join(path);
            let other = OtherRepository::open(
                Arc::from(name),
                &path,
                revision,
                &environment::for_questions,
            );
            others.push(other.map_err(|error| match error {
                repository::Error::NoRepository { start } => refused(format!(
                    "`{}` is not the top of a git repository",
                    start.display()
                )),
                error => Failure::from(error),
            })?);
        }
        Ok(others)
    }

    /// The repository around the folder, of which git is asked no more than where it is.
    pub(super) fn unattended_repository(&self) -> Option<Repository> {
        let repository = self.discover().ok()?;
        Some(repository.with_cache(&program()))
    }

    /// The site that is meant in the worktree.
    pub(super) fn checkout<'a>(&self, repository: &'a Repository) -> Result<Checkout<'a>, Failure> {
        let from = self.inside(repository);
        let site = self.site.as_deref();
        Checkout::find(repository, &from, site, self.backends_from.clone())
    }

    /// The folder as a path in the repository.
    pub(super) fn inside(&self, repository: &Repository) -> String {
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        canonical(&self.directory)
            .strip_prefix(canonical(repository.root()))
            .map(|path| path.to_string_lossy().replace('\\', "/"))
            .unwrap_or_default()
    }

    /// The time.
    pub(super) fn now(&self) -> Timestamp {
        clock::now()
    }
}
