//! A kill of the process that begins a step, for tests and people.
//!
//! Where a file `….kill` lies beside the site's, the process that begins the first step that it is about is gone at once,
//! with the step under way and without a message; the file goes with it. Documents cannot ask for that: a service that
//! reads them would end.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::design::NodeName;
use crate::step::StepKind;

/// The exit code of a process that SIGKILL has ended, as shells show it.
const KILLED: i32 = 137;

/// The step at which a process is killed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// On which nodes; none: on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Of which kind; absent: of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepKind>,
}

impl Kill {
    /// The file that asks for one, as JSON, in the site in a file.
    #[must_use]
    pub fn file(site: &Path) -> PathBuf {
        site.with_added_extension("kill")
    }

    /// The kill that was asked for; a file that is none of these asks for nothing.
    #[must_use]
    pub fn asked(site: &Path) -> Option<Self> {
        let bytes = std::fs::read(Self::file(site)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Takes it back.
    ///
    /// # Errors
    ///
    /// The file beside the site's cannot be removed.
    pub fn take_back(site: &Path) -> io::Result<()> {
        match std::fs::remove_file(Self::file(site)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn is_about(&self, node: &NodeName, kind: StepKind) -> bool {
        (self.nodes.is_empty() || self.nodes.contains(node))
            && self.step.is_none_or(|step| step == kind)
    }

    /// Ends the process if that was asked for this step, which is under way on one of these nodes.
    pub(super) fn strike<'n>(
        site: &Path,
        nodes: impl IntoIterator<Item = &'n NodeName>,
        kind: StepKind,
    ) {
        let is_due = Self::asked(site)
            .is_some_and(|kill| nodes.into_iter().any(|node| kill.is_about(node, kind)));
        // If it cannot be taken back, each process that resumes the run would end, too.
        if is_due && Self::take_back(site).is_ok() {
            std::process::exit(KILLED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_about_its_nodes_and_its_kind_of_step() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site.json");
        assert_eq!(Kill::asked(&site), None);
        let node = NodeName::from("n1");
        for (nodes, step, strikes) in [
            (vec![], None, true),
            (vec![node.clone()], Some(StepKind::Deploy), true),
            (vec![NodeName::from("n2")], None, false),
            (vec![], Some(StepKind::Drain), false),
        ] {
            let kill = Kill { nodes, step };
            std::fs::write(Kill::file(&site), serde_json::to_vec(&kill).unwrap()).unwrap();
            assert_eq!(Kill::asked(&site).as_ref(), Some(&kill));
            assert_eq!(kill.is_about(&node, StepKind::Deploy), strikes);
        }
        Kill::take_back(&site).unwrap();
        Kill::take_back(&site).unwrap();
        assert_eq!(Kill::asked(&site), None);
        // What is no kill asks for none.
        std::fs::write(Kill::file(&site), "{\"step\": \"dance\"}").unwrap();
        assert_eq!(Kill::asked(&site), None);
    }
}
