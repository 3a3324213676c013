//! Whether the process that holds a lock is gone, as far as this machine can tell.
//!
//! It can tell only of processes of the same boot of the same machine that it could see: a pid of
//! another container means nothing here. A process is known by its pid and its start time, since pids
//! are used again. If anything is unknown, the holder is taken to be alive.

use std::fs;

use serde::{Deserialize, Serialize};

/// The holder of a lock: a process, a person and a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The person or account.
    pub who: String,
    /// The run that the lock is held for.
    pub run: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// The name of the machine.
    pub host: String,
    /// Changes with every boot; `None` if the system has no such thing.
    pub boot_id: Option<String>,
    /// The space in which `pid` is counted; `None` if the system has no such thing.
    pub pid_namespace: Option<String>,
    /// The space in which `process_start` is counted; `None` if the system has no such thing, or an earlier
    /// version took the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_namespace: Option<String>,
    /// The process.
    pub pid: u32,
    /// When the process started, in the system's own units; `None` if that is not known.
    pub process_start: Option<u64>,
    /// Set if the run has ended and the remote refuses its records: they are in the holder's clone only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Set if the lock is held for a run whose parts are carried out by workers, and not for a process: it has none
    /// that could renew it or that could be gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_workers: bool,
}

impl Holder {
    /// This process as the holder of a lock.
    #[must_use]
    pub fn this_process(who: &str, run: &str, since: &str) -> Self {
        let pid = std::process::id();
        Self {
            who: who.to_owned(),
            run: run.to_owned(),
            since: since.to_owned(),
            host: host().unwrap_or_else(|| "unknown".to_owned()),
            boot_id: boot_id(),
            pid_namespace: namespace("pid"),
            time_namespace: namespace("time"),
            pid,
            process_start: match process(pid) {
                Process::Started(at) => Some(at),
                Process::Gone | Process::Unknown => None,
            },
            ended: false,
            of_workers: false,
        }
    }

    /// Whether this holder is of the same boot of the same machine, and of processes that `me` can see.
    fn is_near(&self, me: &Self) -> bool {
        self.is_on_host_of(me)
            && self.pid_namespace.is_some()
            && self.pid_namespace == me.pid_namespace
    }

    /// Whether this holder is of the same boot of the same machine.
    #[must_use]
    pub fn is_on_host_of(&self, me: &Self) -> bool {
        self.host == me.host && self.boot_id.is_some() && self.boot_id == me.boot_id
    }

    /// Whether this holder is the process of `me`.
    #[must_use]
    pub fn is_same(&self, me: &Self) -> bool {
        !self.of_workers
            && self.is_near(me)
            && self.pid == me.pid
            && self.process_start.is_some()
            && self.process_start == me.process_start
    }

    /// Whether the process of this holder certainly does not run any more, asked by `me`.
    #[must_use]
    pub fn is_gone(&self, me: &Self) -> bool {
        !self.of_workers
            && self.is_near(me)
            && match process(self.pid) {
                Process::Gone => true,
                // The same process has started at another time if another clock is shown.
                Process::Started(_) if self.time_namespace != me.time_namespace => false,
                Process::Started(at) => self.process_start.is_some_and(|start| start != at),
                Process::Unknown => false,
            }
    }

    /// The holder without characters that could steer a terminal: a lock comes from other machines.
    #[must_use]
    pub fn printable(mut self) -> Self {
        for text in [
            &mut self.who,
            &mut self.run,
            &mut self.since,
            &mut self.host,
        ] {
            text.retain(|each| !each.is_control());
        }
        self
    }
}

/// The namespace of a kind that this process is in.
fn namespace(kind: &str) -> Option<String> {
    let target = fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// The name of this machine; `None` if the system does not say it.
pub(super) fn host() -> Option<String> {
    line("/proc/sys/kernel/hostname").or_else(|| line("/etc/hostname"))
}

/// An id that changes with every boot; `None` if the system has none.
pub(super) fn boot_id() -> Option<String> {
    line("/proc/sys/kernel/random/boot_id")
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

enum Process {
    Started(u64),
    Gone,
    Unknown,
}

/// The state of a process on Linux.
fn process(pid: u32) -> Process {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name in brackets may hold anything; the start time is the 20th field after it.
        Ok(stat) => {
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            let mut fields = fields.split_whitespace();
            match fields.next() {
                // It has ended, and its exit code was not collected yet: common in containers.
                Some("Z" | "X") => Process::Gone,
                _ => fields
                    .nth(18)
                    .and_then(|field| field.parse().ok())
                    .map_or(Process::Unknown, Process::Started),
            }
        }
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && fs::exists("/proc/self/stat").unwrap_or(false) =>
        {
            Process::Gone
        }
        Err(_) => Process::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_gone_only_when_that_is_certain() {
        let me = Holder::this_process("ada", "R1", "2026-01-01T00:00:00Z");
        if me.boot_id.is_none() || me.pid_namespace.is_none() {
            assert!(!me.is_gone(&me), "nothing can be told here");
            return;
        }
        assert!(!me.is_gone(&me), "this very process");
        let reused = Holder {
            process_start: me.process_start.map(|start| start + 1),
            ..me.clone()
        };
        assert!(
            reused.is_gone(&me),
            "the pid belongs to another process now"
        );
        let elsewhere = Holder {
            time_namespace: Some("time:[1]".to_owned()),
            ..reused
        };
        assert!(
            !elsewhere.is_gone(&me),
            "the same process, whose start another clock shows"
        );
        let mut child = std::process::Command::new("git")
            .arg("--version")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let unreaped = Holder {
            pid: child.id(),
            process_start: None,
            ..me.clone()
        };
        while !unreaped.is_gone(&me) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        let ended = Holder {
            pid: child.id(),
            process_start: Some(1),
            ..me.clone()
        };
        assert!(ended.is_gone(&me), "the process has ended");
        for (what, other) in [
            (
                "another boot",
                Holder {
                    boot_id: Some("other".to_owned()),
                    ..ended.clone()
                },
            ),
            (
                "an unknown boot",
                Holder {
                    boot_id: None,
                    ..ended.clone()
                },
            ),
            (
                "another machine",
                Holder {
                    host: "other".to_owned(),
                    ..ended.clone()
                },
            ),
            (
                "another container",
                Holder {
                    pid_namespace: Some("pid:[1]".to_owned()),
                    ..ended.clone()
                },
            ),
            (
                "the workers of a run",
                Holder {
                    of_workers: true,
                    ..ended.clone()
                },
            ),
            (
                "an unknown start",
                Holder {
                    process_start: None,
                    ..me.clone()
                },
            ),
        ] {
            assert!(!other.is_gone(&me), "{what}");
        }
    }
}
