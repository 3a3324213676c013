//! The requests to simulated machines, in a file for tests and people.
//!
//! Where a file `….requests` lies beside the site's when it is opened, each request that changes something is appended
//! to it, one line of JSON each, before it takes effect and while the site is locked: the lines of all processes are in
//! the order in which they came.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{NodeName, RunId};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRequest {
    /// When, in milliseconds of the site's time.
    pub at: u64,
    /// The id of the process that asked.
    pub process: u32,
    /// Its number among the processes that share the site's time; absent if it takes no part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participant: Option<usize>,
    /// The run that asked.
    pub run: RunId,
    /// The step that asked.
    pub step: Arc<str>,
    /// The machine that was asked.
    pub node: NodeName,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It begins to do it.
    Begun,
    /// It is doing it already, for the same step.
    UnderWay,
    /// It has done it already, for the same step.
    Repeated,
    /// Nothing has to be done: it is as asked.
    AtLevel,
    /// It does not.
    Refused,
}

/// The file of requests.
#[derive(Debug)]
pub(super) struct Requests(File);

impl Requests {
    /// Opens the file beside that of a site; `None` if it is missing.
    pub(super) fn open(site: &Path) -> io::Result<Option<Self>> {
        let path = site.with_added_extension("requests");
        match OpenOptions::new().append(true).open(path) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends a request, in one write.
    pub(super) fn note(&self, request: &MachineRequest) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut file = &self.0;
        file.write_all(&line)
    }
}
