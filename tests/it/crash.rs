//! The program killed at each system call that makes anything last, and gone on with: nothing is lost and
//! nothing happens twice. The same with calls that fail, as on a full or broken disk.
//!
//! `strace` (Linux) kills the real process with a real SIGKILL at the entry of the call, or lets the call fail.
//! Of all places some are taken, spread evenly; `TRUEUP_TEST_CRASHES=all` takes every one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::amount::takes_all;
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::Checkout;
use super::skipped::skipped;

/// Calls that write, make durable, give a name to or take one away.
const CALLS: [&str; 6] = [
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "ftruncate",
    // The last: threads wake each other with it, too, and those calls cannot be let fail.
    "write",
];

/// Places that are tried for each call, unless all are.
const PLACES: usize = 2;

/// A site, and what is done to it.
pub(crate) struct Story {
    before: Fixture,
    pub(crate) command: &'static [&'static str],
}

/// All that must be the same in the end, however often the program died.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// What happened to the machines, and how often.
    ledger: BTreeMap<String, usize>,
    tags: Vec<String>,
    /// What is still to be done.
    changes: BTreeMap<String, String>,
}

fn site(example: &str) -> Fixture {
    let fixture = Fixture::of(Checkout::new(), example);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("site-examples")
        .join(example);
    copy_folder(&folder, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture
}

pub(crate) fn first_apply() -> Story {
    Story {
        before: site("edge"),
        command: &["apply", "--yes"],
    }
}

pub(crate) fn redeploy_of_a_member() -> Story {
    let before = site("control-plane");
    before.run(&["apply", "--yes"]).with(0);
    Story {
        before,
        command: &["apply", "redeploy", "control-1", "--yes"],
    }
}

/// Whether processes can be watched here; said loudly if they cannot.
fn strace_works() -> bool {
    let mut command = Command::new("strace");
    command.args(["--seccomp-bpf", "-f", "-e", "trace=write", "true"]);
    let works = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        skipped("strace is not there or may not watch processes");
    }
    works
}

impl Story {
    /// A copy of the site as it was before.
    pub(crate) fn fixture(&self) -> Fixture {
        let fixture = Fixture::of(Checkout::new(), self.before.site());
        let from = self.before.checkout.path().join(".");
        let copied = Command::new("cp")
            .arg("-a")
            .arg(from)
            .arg(fixture.checkout.path())
            .status();
        assert!(copied.unwrap().success());
        fixture
    }

    pub(crate) fn outcome(fixture: &Fixture) -> Outcome {
        Outcome {
            ledger: fixture.ledger(),
            tags: fixture.tags(),
            changes: fixture.planned(&[]),
        }
    }

    pub(crate) fn unbroken(&self) -> Outcome {
        let fixture = self.fixture();
        fixture.run(self.command).with(0);
        Self::outcome(&fixture)
    }

    /// How often the run makes a call.
    fn count(&self, call: &str) -> usize {
        let fixture = self.fixture();
        let trace = fixture.checkout.outside().join("trace");
        let trace = trace.to_str().unwrap();
        let options = [
            "--seccomp-bpf",
            "-f",
            "-o",
            trace,
            "-e",
            &format!("trace={call}"),
        ];
        under_strace(&fixture, &options, self.command).with(0);
        let text = std::fs::read_to_string(trace).unwrap();
        text.lines()
            .filter(|line| line.contains(&format!(" {call}(")))
            .count()
    }

    /// Goes on until the run has come to its end.
    pub(crate) fn go_on(&self, fixture: &Fixture) {
        for _ in 0..5 {
            let resumed = fixture.run(&["apply", "--resume"]);
            // Its process is gone, on this machine: nothing of it is on its way.
            assert!(!resumed.stderr.contains("waiting for"), "{resumed:?}");
            let nothing = resumed.code == 1 && resumed.stderr.contains("no run of site");
            if nothing && self.is_over(fixture) {
                return;
            }
            let ended = if nothing {
                fixture.run(self.command)
            } else {
                resumed
            };
            if ended.code == 0 {
                return;
            }
        }
        panic!(
            "it does not come to its end: {:?}",
            fixture.run(&["apply", "--resume"])
        );
    }

    /// Whether the run that died had done everything, and there was only nobody left to say so.
    fn is_over(&self, fixture: &Fixture) -> bool {
        let runs = |fixture: &Fixture| {
            let log = fixture.run(&["log", "--format", "json"]).with(0).json();
            log["runs"].as_array().map_or(0, Vec::len)
        };
        runs(fixture) > runs(&self.before)
    }

    /// Tries places of every call, from the first to the last.
    fn at_every_call(&self, calls: &[&str], inject: &str) {
        let expected = self.unbroken();
        let (mut hit, mut tried, mut told) = (0, 0, 0);
        for call in calls {
            let count = self.count(call);
            let places = if takes_all() {
                count
            } else {
                PLACES.min(count)
            };
            for place in (0..places).map(|place| place * count / places + 1) {
                let fixture = self.fixture();
                let options = [
                    "-f",
                    "-o",
                    "/dev/null",
                    "-e",
                    &format!("trace={call}"),
                    "-e",
                    &format!("inject={call}:{inject}:when={place}"),
                ];
                let ended = under_strace(&fixture, &options, self.command);
                assert!(
                    !ended.stderr.contains("panicked"),
                    "{call} {place}: {ended:?}"
                );
                if ended.stderr.contains("failed to write the journal") {
                    told += 1;
                    assert!(
                        ended.stderr.contains("`trueup apply --resume`"),
                        "{ended:?}"
                    );
                }
                // Calls are counted for each thread: the last ones of all may be nobody's.
                tried += 1;
                hit += usize::from(ended.code != 0);
                if ended.code != 0 {
                    self.go_on(&fixture);
                }
                let outcome = Self::outcome(&fixture);
                assert_eq!(outcome, expected, "{inject} at {call} {place}: {ended:?}");
            }
        }
        assert!(
            hit * 3 >= tried,
            "hardly anything was hit: {hit} of {tried}"
        );
        let fails = inject.starts_with("error=");
        assert_eq!(told > 0, fails, "the journal failed {told} times");
    }
}

fn under_strace(fixture: &Fixture, options: &[&str], command: &[&str]) -> Ended {
    let program = fixture.command(command);
    let mut strace = Command::new("strace");
    strace
        .args(options)
        .arg(program.get_program())
        .args(command);
    strace.current_dir(fixture.checkout.path()).env_clear();
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            strace.env(name, value);
        }
    }
    strace.stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn a_first_apply_that_is_killed_anywhere_ends_as_if_it_had_not_been() {
    if strace_works() {
        first_apply().at_every_call(&CALLS, "signal=SIGKILL");
    }
}

#[test]
fn a_redeploy_that_is_killed_anywhere_ends_as_if_it_had_not_been() {
    if strace_works() {
        redeploy_of_a_member().at_every_call(&CALLS, "signal=SIGKILL");
    }
}

#[test]
fn a_disk_that_fails_once_stops_the_run_and_loses_nothing() {
    if strace_works() {
        first_apply().at_every_call(&CALLS[..5], "error=EIO");
    }
}

#[test]
fn a_full_disk_stops_the_run_and_loses_nothing() {
    if strace_works() {
        redeploy_of_a_member().at_every_call(&CALLS[..5], "error=ENOSPC");
    }
}
