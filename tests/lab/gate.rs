//! The gate before the controllers: counts requests, and kills a process at one of them.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::web::{self, Request};

/// A process that is to be killed at one of its changes.
#[derive(Clone, Copy)]
pub(crate) struct Trap {
    pub(crate) process: u32,
    /// The number of the change, from 0. The first is the first action: a boot override that `prepare` tries before, where
    /// no controller of the make has taken one, does not count.
    pub(crate) change: usize,
    /// Whether the controller carries the change out first.
    pub(crate) is_after: bool,
}

/// The requests for one machine.
#[derive(Default)]
struct Passed {
    requests: usize,
    changes: Vec<String>,
    trap: Option<Trap>,
}

/// A gate, of one site.
#[derive(Clone)]
pub(crate) struct Gate {
    address: SocketAddr,
    passed: Arc<Mutex<Passed>>,
}

impl Gate {
    /// Opens a gate before a server.
    pub(crate) fn open(to: SocketAddr) -> Self {
        let passed: Arc<Mutex<Passed>> = Arc::default();
        let own = passed.clone();
        let address = web::serve(move |request| pass(&request, &own, to));
        Self { address, passed }
    }

    /// The port of it.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Kills a process at a change, counted from now on.
    pub(crate) fn set(&self, trap: Trap) {
        let mut passed = self.passed.lock().unwrap();
        passed.changes.clear();
        passed.trap = Some(trap);
    }

    /// The changes that passed and the number of all requests since the last time.
    pub(crate) fn take(&self) -> (Vec<String>, usize) {
        let mut passed = self.passed.lock().unwrap();
        let all = std::mem::take(&mut *passed);
        (all.changes, all.requests)
    }
}

fn pass(request: &Request, passed: &Mutex<Passed>, to: SocketAddr) -> Vec<u8> {
    let sprung = {
        let mut passed = passed.lock().unwrap();
        passed.requests += 1;
        if request.is_change() {
            let last = request.path.rsplit('/').next().unwrap_or_default();
            let body = String::from_utf8_lossy(&request.body);
            if request.method != "PATCH" || !passed.changes.is_empty() || passed.trap.is_none() {
                let change = format!("{} {last} {body}", request.method);
                passed.changes.push(change);
            }
        }
        let count = passed.changes.len();
        let is_here = |trap: &Trap| request.is_change() && trap.change + 1 == count;
        passed.trap.filter(is_here)
    };
    match sprung {
        Some(trap) if !trap.is_after => {
            kill(trap.process);
            web::answer("503 Service Unavailable", b"")
        }
        Some(trap) => {
            let answer = web::forward(request, to);
            kill(trap.process);
            answer
        }
        None => web::forward(request, to),
    }
}

/// Kills a process without notice.
pub(crate) fn kill(process: u32) {
    let killed = Command::new("kill")
        .args(["-KILL", &process.to_string()])
        .status();
    assert!(killed.unwrap().success(), "process {process}");
}
