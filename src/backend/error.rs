//! Errors that keep a site from having backends.

use std::path::PathBuf;

use crate::diagnostic::Diagnostic;

/// Why backends cannot be chosen or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No document names the hardware backend.
    #[error("the site has no `trueup/Backends/v1` document, so it names no hardware backend")]
    NoBackends,
    /// A setting of the Backends document is unsupported; with its place.
    #[error("{}", .0.message)]
    Settings(Box<Diagnostic>),
    /// The documents name endpoints or programs that are not trusted.
    #[error(transparent)]
    Untrusted(#[from] super::Untrusted),
    /// The file of the simulated site cannot be used.
    #[error("cannot use the simulated site `{}`", path.display())]
    SimulatedSite {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: super::hardware::sim::StateError,
    },
}

impl Error {
    /// The problem in the documents, with its place, if it is one.
    #[must_use]
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::Settings(diagnostic) => Some(diagnostic),
            Self::NoBackends | Self::Untrusted(_) | Self::SimulatedSite { .. } => None,
        }
    }

    /// The way out, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoBackends => Some(
                "add a document with `schema: trueup/Backends/v1`, `metadata: {name: backends}` and `data: {hardware: {kind: KIND}}`, where `sim` \
                 means simulated machines; if the site had one, `git log --diff-filter=D --name-only` tells what deleted it",
            ),
            Self::Settings(diagnostic) => diagnostic.hint.as_deref(),
            Self::Untrusted(_) => None,
            // The machines in it are as they were: the system does not let it be used.
            Self::SimulatedSite {
                source: super::hardware::sim::StateError::Io { .. },
                ..
            } => None,
            Self::SimulatedSite { .. } => {
                Some("put the file back as it was, or remove it to begin with new machines")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hardware::sim::StateError;
    use super::*;

    #[test]
    fn a_simulated_site_is_to_be_removed_only_where_the_file_itself_is_wrong() {
        let hinted = |source: StateError| {
            let path = PathBuf::from("simulated-site.json");
            Error::SimulatedSite { path, source }.hint().is_some()
        };
        assert!(hinted(StateError::Foreign));
        assert!(!hinted(StateError::Io {
            action: "open the file",
            source: std::io::ErrorKind::PermissionDenied.into(),
        }));
    }
}
