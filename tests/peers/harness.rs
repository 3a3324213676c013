//! Counterparts that live as long as a test: found, started, waited for, killed when dropped.
//!
//! A counterpart is either started by a script of `../shared/peers` ([`Peer::start`]), which leaves the
//! process ids of what it started in files named `pid` or `*.pid` in its folder, or is a program that
//! the test names ([`Peer::program`]). Either way nothing outlives the [`Peer`], also when a test panics.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use trueup::step::{Parameters, StepKind};

use super::skipped::skipped;

/// How long anything on loopback may take to come up or to go away.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Ports in a [`Ports`].
const BLOCK: u16 = 64;

/// A block of free ports on loopback that no other test is given while this one lives.
///
/// Tests run as processes of their own, so that a block is claimed by holding its last port open.
pub(crate) struct Ports {
    first: u16,
    _claim: TcpListener,
}

impl Ports {
    /// The next free block.
    pub(crate) fn claim() -> Self {
        let blocks = (25_600..32_000).step_by(usize::from(BLOCK));
        let count = blocks.len();
        // Where to begin differs from process to process, so that tests seldom try the same block.
        let skip = std::process::id() as usize % count;
        for first in blocks.cycle().skip(skip).take(count) {
            let claim = TcpListener::bind((Ipv4Addr::LOCALHOST, first + BLOCK - 1));
            let is_free = |port: u16| {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
                    && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            };
            if let Ok(claim) = claim
                && (first..first + BLOCK - 1).all(is_free)
            {
                return Self {
                    first,
                    _claim: claim,
                };
            }
        }
        panic!("no block of free ports is left");
    }

    /// The port at a position, from 0 to 62.
    pub(crate) fn at(&self, position: u16) -> u16 {
        assert!(position < BLOCK - 1, "port {position} of the block");
        self.first + position
    }
}

/// Tells that a test is left out; fails it where counterparts are required.
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("TRUEUP_TEST_PEERS").is_none_or(|wanted| wanted != "required"),
        "a counterpart is required: {why}"
    );
    skipped(why);
}

/// A file or folder beside the repository; `None`, said loudly, if it is not there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(path);
    if found.exists() {
        return Some(found);
    }
    skip(&format!("there is no {}", found.display()));
    None
}

/// Waits until no other test runs this script: the first one installs what the script needs, and two that
/// install into the same place at once would spoil it for each other.
pub(crate) fn turn(script: &str) -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{script}.turn"));
    let file = File::create(path).unwrap();
    file.lock().unwrap();
    file
}

/// A folder with modules of npm, which are got once; `None`, said loudly, if they cannot be had.
pub(crate) fn modules(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let folder = cache.join(format!("trueup-{name}"));
    let _turn = turn(name);
    // The packages that are there, so that others are got when a version changes.
    let (ready, wanted) = (folder.join("ready"), packages.join("\n"));
    if std::fs::read_to_string(&ready).is_ok_and(|packages| packages == wanted) {
        return Some(folder);
    }
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("package.json"), "{\"private\": true}\n").unwrap();
    let ended = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .args(packages)
        .current_dir(&folder)
        .output();
    if !ended.is_ok_and(|ended| ended.status.success()) {
        skip(&format!("{} cannot be got from npm", packages.join(", ")));
        return None;
    }
    std::fs::write(&ready, wanted).unwrap();
    Some(folder)
}

/// A counterpart and the folder in which it lives.
pub(crate) struct Peer {
    folder: TempDir,
    ports: Ports,
    said: String,
    child: Option<Child>,
}

impl Peer {
    /// Runs the script `peers/SCRIPT FOLDER ARGUMENT…`, which starts a counterpart and prints if it
    /// answers; `None`, said loudly, if there is no such script or it fails.
    pub(crate) fn start(
        script: &str,
        arguments: impl FnOnce(&Ports) -> Vec<String>,
    ) -> Option<Self> {
        Self::start_with(script, &[], arguments)
    }

    /// The same, with more in the script's environment.
    pub(crate) fn start_with(
        script: &str,
        environment: &[(&str, &Path)],
        arguments: impl FnOnce(&Ports) -> Vec<String>,
    ) -> Option<Self> {
        let path = match found(&shared("peers")?, script) {
            Ok(path) => path,
            Err(why) => {
                skip(&why);
                return None;
            }
        };
        Self::start_by(&path, environment, arguments)
    }

    /// Runs a script that lies beside these tests; it needs those of `../shared/peers` in turn.
    pub(crate) fn start_own(
        script: &str,
        arguments: impl FnOnce(&Ports) -> Vec<String>,
    ) -> Option<Self> {
        shared("peers")?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
        Self::start_by(&folder.join(script), &[], arguments)
    }

    fn start_by(
        path: &Path,
        environment: &[(&str, &Path)],
        arguments: impl FnOnce(&Ports) -> Vec<String>,
    ) -> Option<Self> {
        let script = path.file_name()?.to_str()?;
        let mut peer = Self::empty();
        // Files, since what the script leaves running may hold its standard error open.
        let (out, err) = (peer.path("script.out"), peer.path("script.err"));
        let mut command = Command::new(path);
        command
            .arg(peer.folder())
            .args(arguments(&peer.ports))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        let status = {
            let _turn = turn(script);
            command.status()
        };
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                skip(&format!("{script} cannot be started: {error}"));
                return None;
            }
        };
        let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        if !status.success() {
            skip(&format!("{script} ends with {status}: {}", read(err)));
            return None;
        }
        peer.said = read(out).trim().to_owned();
        Some(peer)
    }

    /// Starts a program that runs until it is killed; its output is `FOLDER/log`. `None`, said loudly,
    /// if there is no such program.
    pub(crate) fn program(command: impl FnOnce(&Path, &Ports) -> Command) -> Option<Self> {
        let mut peer = Self::empty();
        let mut command = command(peer.folder(), &peer.ports);
        let log = File::create(peer.path("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        match command.spawn() {
            Ok(child) => peer.child = Some(child),
            Err(error) => {
                let name = command.get_program().to_string_lossy();
                skip(&format!("{name} cannot be started: {error}"));
                return None;
            }
        }
        Some(peer)
    }

    fn empty() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            ports: Ports::claim(),
            said: String::new(),
            child: None,
        }
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Its ports.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// What its script printed, trimmed.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Kills the process whose id is in a file of its folder, and waits until it is gone.
    pub(crate) fn kill(&self, pid_file: &str) {
        kill(&self.path(pid_file));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten();
        for file in files.flatten().map(|file| file.path()) {
            if file.extension().or(file.file_name()) == Some("pid".as_ref()) {
                kill(&file);
            }
        }
    }
}

/// Kills the process whose id is in a file, removes the file, and waits until the process is gone.
fn kill(file: &Path) {
    let Ok(pid) = std::fs::read_to_string(file) else {
        return;
    };
    let _ = std::fs::remove_file(file);
    // Anything but a number would be an option of `kill`, or a whole group.
    let Some(pid) = pid.trim().parse::<u32>().ok().filter(|pid| *pid > 1) else {
        return;
    };
    let _ = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    let begun = Instant::now();
    while is_alive(pid) && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs; one that has ended and was not reaped does not.
fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with(['Z', 'X'])
    })
}

/// Waits until something holds; fails the test when it does not within five minutes, which a busy machine may need.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_program_is_gone_when_its_peer_is_dropped_and_so_is_what_it_left_a_pid_of() {
    let peer = Peer::program(|folder, ports| {
        let script = format!(
            "sleep 600 & echo $! > pid; sleep 600 & echo $! > other.pid; echo {} > port; wait",
            ports.at(0)
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder);
        command
    });
    let Some(peer) = peer else { return };
    wait_until("the program writes its port", || {
        std::fs::read_to_string(peer.path("port")).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(peer.said(), "");
    let port = std::fs::read_to_string(peer.path("port")).unwrap();
    assert_eq!(port.trim(), peer.ports().at(0).to_string());
    let read = |name| -> u32 {
        let pid = std::fs::read_to_string(peer.path(name)).unwrap();
        pid.trim().parse().unwrap()
    };
    let (one, other) = (read("pid"), read("other.pid"));
    assert!(is_alive(one) && is_alive(other));
    peer.kill("other.pid");
    assert!(is_alive(one) && !is_alive(other));
    drop(peer);
    assert!(!is_alive(one));
}

#[test]
fn two_tests_are_never_given_the_same_ports() {
    let (one, other) = (Ports::claim(), Ports::claim());
    assert!(one.at(0).abs_diff(other.at(0)) >= BLOCK);
}

/// The path of a script in a folder, or why there is none.
fn found(folder: &Path, script: &str) -> Result<PathBuf, String> {
    let path = folder.join(script);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("there is no {}", path.display())),
    }
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let why = found(folder.path(), "no-such-script.sh").unwrap_err();
    assert!(
        why.starts_with("there is no ") && why.ends_with("no-such-script.sh"),
        "{why}"
    );
}

/// The parameters of a step of a kind, as a plan file has them.
pub(crate) fn given(kind: StepKind, json: &Value) -> Option<Arc<Parameters>> {
    let given = Parameters::read(kind, &json.to_string());
    given
        .unwrap_or_else(|error| panic!("{kind}: {error}"))
        .map(Arc::new)
}
