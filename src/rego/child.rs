//! The process that evaluates rules: this program itself, by a hidden word, under limits that the system holds.
//!
//! The engine reads a clock or a count between its steps; one call of a function, or one multiplication of large numbers,
//! is a step that takes all memory and time there is. So the process limits itself before it reads
//! anything, and the parent waits for so long, reads so much, and takes every end but an answer for an error.

use std::ffi::OsString;
use std::io::{self, BufRead as _, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::evaluate::{Part, Problem, evaluate};
use super::{Error, LONGEST_MESSAGE, RuleFile};
use crate::plan::Verdicts;

/// The word by which this program becomes the process; no command of the command line.
const WORD: &str = "evaluate-rules";

/// Bytes of memory for the program, the rules and what they make, whatever the size of the input.
const MEMORY: u64 = 256 << 20;
/// Bytes of memory for each byte of the input: its values take 16 times as much, and rules copy parts of them. The
/// largest input has 1.75 GiB.
const MEMORY_OF_BYTE: u64 = 24;
/// Seconds of processor time, whatever the size of the input.
const SECONDS: u64 = 20;
/// Bytes of the input that are worth one more second.
const BYTES_OF_SECOND: u64 = 4 << 20;
/// How many times its processor time the process may last, if others take the processors.
const WAITING: u64 = 3;
/// Open files: its three streams.
const FILES: u64 = 3;
/// Bytes of an answer that are read: some dozens of rules with as many messages as a rule may have.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Bytes that are read of the last words of a process.
const LAST_WORDS: u64 = 4 << 10;

/// The limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// Bytes of address space.
    memory: u64,
    /// Seconds of processor time.
    seconds: u64,
}

impl Limits {
    fn of_input(size: usize) -> Self {
        let size = size as u64;
        Self {
            memory: MEMORY + MEMORY_OF_BYTE * size,
            seconds: SECONDS + size / BYTES_OF_SECOND,
        }
    }

    fn longest_wait(self) -> Duration {
        Duration::from_secs(WAITING * self.seconds)
    }

    /// Holds this process to them. Nothing of it can be lifted again.
    fn apply(self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // If the memory of the whole system or container runs out, this process goes first, not a run.
            let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        }
        // The first limit ends it by a signal that tells of it, the second by one that nothing survives.
        lower(Resource::Cpu, self.seconds, self.seconds + 1)?;
        for (resource, limit) in [
            (Resource::As, self.memory),
            (Resource::Core, 0),
            (Resource::Nofile, FILES),
            (Resource::Fsize, 0),
        ] {
            lower(resource, limit, limit)?;
        }
        Ok(())
    }
}

/// Lowers limits of a resource; if they are lower already, they stay.
fn lower(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let own = getrlimit(resource);
    let least = |limit: u64, own: Option<u64>| Some(own.map_or(limit, |own| own.min(limit)));
    let limits = Rlimit {
        current: least(current, own.current),
        maximum: least(maximum, own.maximum),
    };
    Ok(setrlimit(resource, limits)?)
}

/// A line that the process prints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A part is begun.
    Begun(Part),
    /// The answer.
    Verdicts(Verdicts),
    /// The answer, if there can be no verdicts.
    Problem(Problem),
}

impl Line {
    fn print(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

/// Evaluates rules in place of a command, if the arguments of this process want that; before anything else is done.
#[must_use]
pub fn answer() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let [_, WORD, memory, seconds] = words[..] else {
        return None;
    };
    let limits = Limits {
        memory: memory.parse().ok()?,
        seconds: seconds.parse().ok()?,
    };
    let ended = limits.apply().and_then(|()| answered());
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Reads the rules, a line, and their input, all that follows, and prints the answer.
fn answered() -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let (mut files, mut input) = (String::new(), String::new());
    stdin.read_line(&mut files)?;
    stdin.read_to_string(&mut input)?;
    let files: Vec<RuleFile> = serde_json::from_str(&files)?;
    let mut printed = Ok(());
    let verdicts = evaluate(&files, &input, &mut |part| {
        let line = Line::Begun(part).print(&mut stdout);
        printed = std::mem::replace(&mut printed, Ok(())).and(line);
    });
    printed?;
    match verdicts {
        Ok(verdicts) => Line::Verdicts(verdicts),
        Err(problem) => Line::Problem(problem),
    }
    .print(&mut stdout)
}

/// The program of this process, also if its file was replaced since it was started.
fn program() -> io::Result<std::path::PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe(),
    }
}

/// Has rules evaluated by a process of their own.
///
/// # Errors
///
/// It cannot be started, or gives no verdicts.
pub(super) fn ask(files: &[RuleFile], input: &str) -> Result<Verdicts, Error> {
    let limits = Limits::of_input(input.len());
    let mut command = Command::new(program().map_err(Error::Start)?);
    command
        .arg0("trueup")
        .arg(WORD)
        .args([limits.memory.to_string(), limits.seconds.to_string()]);
    let ended = ended(command, limits, files, input).map_err(Error::Start)?;
    ended.verdicts(files, limits)
}

/// How a process ended.
#[derive(Debug)]
struct Ended {
    /// Its end; `None` if it was ended for its time.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Starts a process, hands it the rules and their input, and waits for its end.
fn ended(
    mut command: Command,
    limits: Limits,
    files: &[RuleFile],
    input: &str,
) -> io::Result<Ended> {
    command
        .env_clear()
        // The allocator takes 1 GiB of addresses at a time otherwise, of which the limit would count all.
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A signal from the terminal is for the parent.
    command.process_group(0);
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A process that does not read to the end has ended, and its status is judged.
            let Some(mut stdin) = stdin else { return };
            let _ = serde_json::to_writer(io::BufWriter::new(&stdin), files)
                .map_err(io::Error::from)
                .and_then(|()| stdin.write_all(b"\n"))
                .and_then(|()| stdin.write_all(input.as_bytes()));
        });
        let last_words = scope.spawn(move || read(stderr, LAST_WORDS));
        let (sender, printed) = mpsc::channel();
        scope.spawn(move || {
            // The other end is gone if the time was up.
            let _ = sender.send(read(stdout, LONGEST_ANSWER + 1));
        });
        let printed = printed.recv_timeout(limits.longest_wait());
        let is_done = printed
            .as_ref()
            .is_ok_and(|bytes| bytes.len() as u64 <= LONGEST_ANSWER);
        let status = match is_done {
            true => child.wait()?,
            false => killed(&mut child)?,
        };
        Ok(Ended {
            status: printed.is_ok().then_some(status),
            stdout: printed.unwrap_or_default(),
            stderr: last_words.join().unwrap_or_default(),
        })
    })
}

fn killed(child: &mut Child) -> io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

/// The beginning of a stream, up to its end or so many bytes.
fn read(stream: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before a failure is judged like all that is cut off.
        let _ = stream.take(most).read_to_end(&mut bytes);
    }
    bytes
}

impl Ended {
    /// The verdicts that it gave, and nothing else for verdicts.
    fn verdicts(self, files: &[RuleFile], limits: Limits) -> Result<Verdicts, Error> {
        let is_too_long = self.stdout.len() as u64 > LONGEST_ANSWER;
        let mut lines = self
            .stdout
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .map(serde_json::from_slice::<Line>);
        let mut at = None;
        let last = loop {
            match lines.next() {
                Some(Ok(Line::Begun(part))) => at = Some(part),
                other => break other,
            }
        };
        let is_whole = self.status.is_some_and(|status| status.success())
            && !is_too_long
            && lines.next().is_none();
        match last {
            Some(Ok(Line::Verdicts(verdicts))) if is_whole && is_bounded(&verdicts) => Ok(verdicts),
            Some(Ok(Line::Problem(problem))) if is_whole => Err(Error::Rules(problem)),
            _ => Err(Error::Stopped {
                part: name(at.as_ref(), files),
                why: match is_too_long {
                    true => format!("give more than {} MiB of messages", LONGEST_ANSWER >> 20),
                    false => why(self.status, &self.stderr, limits),
                },
            }),
        }
    }
}

/// Whether messages are as short as the process makes them.
fn is_bounded(verdicts: &Verdicts) -> bool {
    let mut all = verdicts.denied.iter().chain(&verdicts.warned);
    all.all(|verdict| verdict.message.chars().count() <= LONGEST_MESSAGE + 1)
}

/// The name of the part that a process was at, or that of all rules.
fn name(at: Option<&Part>, files: &[RuleFile]) -> String {
    match at {
        Some(Part::Package(package)) => format!("the rules of package `{package}`"),
        Some(Part::File(path)) => format!("the rules in `{path}`"),
        None => {
            let path = files.first().map_or("", |file| &*file.path);
            let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
            format!("the rules in `{folder}`")
        }
    }
}

/// How a process ended that gave no answer, in words.
fn why(status: Option<ExitStatus>, last_words: &[u8], limits: Limits) -> String {
    use std::os::unix::process::ExitStatusExt as _;

    /// Its number on every system that there is a signal for processor time on.
    const SIGXCPU: i32 = 24;

    let says = |words: &str| String::from_utf8_lossy(last_words).contains(words);
    let Some(status) = status else {
        let seconds = limits.longest_wait().as_secs();
        return format!("did not end within {seconds} s");
    };
    match status.signal() {
        _ if says("memory allocation of") => {
            format!("take more than {} MiB of memory", limits.memory >> 20)
        }
        _ if says("has overflowed its stack") => "are nested too deeply".to_owned(),
        Some(SIGXCPU) => format!("take more than {} s of processor time", limits.seconds),
        Some(signal) => format!("could not be evaluated: the process was ended by signal {signal}"),
        None if status.success() => "gave an answer that holds no verdicts".to_owned(),
        None => format!("could not be evaluated: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const LIMITS: Limits = Limits {
        memory: 300 << 20,
        seconds: 21,
    };

    /// The verdicts that a process gives by its end and its output.
    fn taken(
        status: Option<i32>,
        stdout: impl Into<Vec<u8>>,
        stderr: &str,
    ) -> Result<Verdicts, String> {
        let files = [RuleFile {
            path: "site/policies/a.rego".into(),
            text: "package a\n".into(),
        }];
        let ended = Ended {
            status: status.map(ExitStatus::from_raw),
            stdout: stdout.into(),
            stderr: stderr.to_owned().into_bytes(),
        };
        ended
            .verdicts(&files, LIMITS)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn limits_grow_with_the_input() {
        let limits = |size| {
            let limits = Limits::of_input(size);
            (limits.memory >> 20, limits.seconds)
        };
        assert_eq!(limits(1), (256, 20));
        assert_eq!(limits(8 << 20), (448, 22));
        assert_eq!(limits(super::super::LARGEST_INPUT), (1792, 36));
    }

    #[test]
    fn an_answer_is_one_after_an_orderly_end() {
        assert_eq!(
            taken(Some(0), "{\"verdicts\":{}}\n", ""),
            Ok(Verdicts::default())
        );
        let begun = "{\"begun\":{\"file\":\"a.rego\"}}\n{\"begun\":{\"package\":\"a\"}}\n";
        let denied = "{\"verdicts\":{\"denied\":[{\"rule\":\"a.deny\",\"message\":\"no\"}]}}\n";
        let verdicts = taken(Some(0), format!("{begun}{denied}"), "").unwrap();
        assert_eq!(&*verdicts.denied[0].message, "no");
        let problem = "{\"problem\":{\"failed\":{\"package\":\"a\",\"problem\":\"why\"}}}\n";
        assert_eq!(
            taken(Some(0), format!("{begun}{problem}"), "").unwrap_err(),
            "the rules of package `a` cannot be evaluated: why"
        );
    }

    #[test]
    fn every_other_end_is_an_error_and_no_verdicts() {
        let none = "{\"verdicts\":{}}\n";
        let begun = "{\"begun\":{\"package\":\"a\"}}\n";
        let long = "x".repeat(LONGEST_MESSAGE + 2);
        let long = format!(
            "{{\"verdicts\":{{\"warned\":[{{\"rule\":\"a\",\"message\":\"{long}\"}}]}}}}\n"
        );
        let flood = vec![b' '; 1 + usize::try_from(LONGEST_ANSWER).unwrap()];
        let garbage = "gave an answer that holds no verdicts";
        let table: &[(Option<i32>, &[u8], &str, &str)] = &[
            (None, none.as_bytes(), "", "did not end within 63 s"),
            (
                Some(24),
                none.as_bytes(),
                "",
                "take more than 21 s of processor time",
            ),
            (
                Some(6),
                b"",
                "memory allocation of 9 bytes failed",
                "take more than 300 MiB of memory",
            ),
            (
                Some(6),
                b"",
                "thread 'main' has overflowed its stack",
                "are nested too deeply",
            ),
            (Some(9), none.as_bytes(), "", "was ended by signal 9"),
            (Some(11), b"", "", "was ended by signal 11"),
            (Some(1 << 8), none.as_bytes(), "", "exit status: 1"),
            (Some(101 << 8), b"", "panicked", "exit status: 101"),
            (Some(0), b"", "", garbage),
            (Some(0), b"{\"verdicts\":{}}", "", garbage),
            (Some(0), b"no JSON\n{\"verdicts\":{}}\n", "", garbage),
            (
                Some(0),
                b"{\"verdicts\":{}}\n{\"verdicts\":{}}\n",
                "",
                garbage,
            ),
            (Some(0), b"{\"verdicts\":{\"allowed\":[]}}\n", "", garbage),
            (Some(0), b"{}\n", "", garbage),
            (Some(0), b"\xff\n", "", garbage),
            (Some(0), long.as_bytes(), "", garbage),
            (Some(0), &flood, "", "give more than 16 MiB of messages"),
        ];
        for (status, stdout, stderr, expected) in table {
            let problem = taken(*status, *stdout, stderr).unwrap_err();
            assert!(
                problem.starts_with("the rules in `site/policies` "),
                "{problem}"
            );
            assert!(problem.contains(expected), "{expected}: {problem}");
            let stdout = [begun.as_bytes(), stdout].concat();
            let problem = taken(*status, stdout, stderr).unwrap_err();
            assert!(
                problem.starts_with("the rules of package `a` "),
                "{problem}"
            );
            assert!(problem.contains(expected), "{expected}: {problem}");
        }
    }

    /// A process that runs a line of shell in the place of this program.
    fn shell(line: &str, limits: Limits) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        ended(command, limits, &[], "{}").unwrap()
    }

    #[test]
    fn a_process_that_reads_nothing_floods_or_stays_is_ended() {
        let large = " ".repeat(1 << 20);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec /bin/true"]);
        let reads_nothing = ended(command, LIMITS, &[], &large).unwrap();
        assert!(reads_nothing.status.unwrap().success());
        let floods = shell("exec /bin/cat /dev/zero", LIMITS);
        assert_eq!(floods.stdout.len() as u64, LONGEST_ANSWER + 1);
        assert!(!floods.status.unwrap().success());
        let stays = shell(
            "exec /bin/sleep 1000",
            Limits {
                seconds: 0,
                ..LIMITS
            },
        );
        assert_eq!(stays.status, None);
        let environment = ended(Command::new("/usr/bin/env"), LIMITS, &[], "{}").unwrap();
        assert_eq!(environment.stdout, b"MIMALLOC_ARENA_RESERVE=0\n");
    }
}
