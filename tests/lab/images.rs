//! The server of images, to which machines also report what they do.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::web::{self, Request, answer};

#[derive(Default)]
struct State {
    /// The image that is served for each machine.
    images: HashMap<String, String>,
    /// Machines whose reports are kept back.
    silent: HashSet<String>,
    /// Machines whose discs only the program can have, and no controller.
    broken: HashSet<String>,
    reports: HashSet<String>,
    /// How often a machine came up, by what booted it.
    ups: HashMap<(String, String), usize>,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Images {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Images {
    /// Serves the images of a folder.
    pub(crate) fn serve(folder: &Path) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let (own, folder) = (state.clone(), folder.to_owned());
        let address = web::serve(move |request| reply(&request, &own, &folder));
        Self { address, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// Serves an image for a machine from now on; the report of its last deploy is gone.
    pub(crate) fn give(&self, node: &str, image: &str) {
        self.state(|state| {
            state.images.insert(node.to_owned(), image.to_owned());
            state.reports.remove(node);
            state.silent.remove(node);
            state.broken.remove(node);
        });
    }

    /// Keeps the report of a machine back, or no more.
    pub(crate) fn silence(&self, node: &str, is_silent: bool) {
        self.state(|state| match is_silent {
            true => state.silent.insert(node.to_owned()),
            false => state.silent.remove(node),
        });
    }

    /// Gives no controller the disc of a machine.
    pub(crate) fn break_disc(&self, node: &str) {
        self.state(|state| state.broken.insert(node.to_owned()));
    }

    /// How often a machine came up, from its disk or behind its installer.
    pub(crate) fn ups(&self, node: &str, by: &str) -> usize {
        let key = (node.to_owned(), by.to_owned());
        self.state(|state| state.ups.get(&key).copied().unwrap_or(0))
    }
}

fn reply(request: &Request, state: &Mutex<State>, folder: &Path) -> Vec<u8> {
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    let mut state = state.lock().unwrap();
    let file: Option<PathBuf> = match &parts[..] {
        ["iso", name] => {
            let node = name.trim_end_matches(".iso");
            // A look at the head is the program's own; controllers fetch.
            let is_broken = state.broken.contains(node) && request.method != "HEAD";
            let image = state.images.get(node).filter(|_| !is_broken);
            image.map(|image| folder.join(format!("{image}.iso")))
        }
        ["disk", image] => Some(folder.join(format!("{image}.disk.gz"))),
        ["report", node] if state.reports.contains(*node) && !state.silent.contains(*node) => {
            return answer("200 OK", b"up\n");
        }
        ["events", ..] => return answer("200 OK", b""),
        ["up", node, _, by] => {
            state.reports.insert((*node).to_owned());
            *state
                .ups
                .entry(((*node).to_owned(), (*by).to_owned()))
                .or_default() += 1;
            return answer("200 OK", b"");
        }
        _ => None,
    };
    drop(state);
    match file.and_then(|file| fs::read(file).ok()) {
        Some(_) if request.method == "HEAD" => answer("200 OK", b""),
        Some(bytes) => answer("200 OK", &bytes),
        None => answer("404 Not Found", b""),
    }
}
