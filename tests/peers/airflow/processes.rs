//! The processes of a lab, whoever started them: those that work below its folder.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct ProcessEntry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// Its command line.
    pub(super) words: Vec<String>,
}

impl ProcessEntry {
    /// Reads a process; `None` if it has ended.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let words = std::fs::read(folder.join("cmdline")).ok()?;
        let words = words.split(|byte| *byte == 0);
        Some(Self {
            pid,
            parent: fields.next()?.parse().ok()?,
            words: words
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        })
    }

    /// Whether it is trueup, at work with a command of a run of a site.
    pub(super) fn is_worker(&self, site: &str) -> bool {
        let has = |word: &str| self.words.iter().any(|each| each == word);
        has(&format!("--site={site}")) && has("run")
    }

    /// The arguments behind the word `run`, if it is there.
    pub(super) fn order(&self) -> &[String] {
        let run = self.words.iter().position(|word| word == "run");
        let words = run.map_or(&[][..], |run| &self.words[run..]);
        let end = words.iter().position(String::is_empty);
        &words[..end.unwrap_or(words.len())]
    }
}

/// All processes that work below a folder.
pub(super) fn processes(folder: &Path) -> Vec<ProcessEntry> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_below = |pid: &i32| {
        let place = std::fs::read_link(format!("/proc/{pid}/cwd"));
        place.is_ok_and(|place| place.starts_with(folder))
    };
    pids.filter(is_below)
        .filter_map(ProcessEntry::read)
        .collect()
}

/// Sends a signal; a process that has ended gets none.
pub(super) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}
