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
    /// The problem in the documents, with its place, where it is one.
    #[must_use]
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::Settings(diagnostic) => Some(diagnostic),
            Self::NoBackends | Self::Untrusted(_) | Self::SimulatedSite { .. } => None,
        }
    }

    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoBackends => Some(
                "add a document of the schema `trueup/Backends/v1` with `data: {hardware: {kind: sim}}`",
            ),
            Self::Settings(diagnostic) => diagnostic.hint.as_deref(),
            Self::Untrusted(_) => None,
            Self::SimulatedSite { .. } => {
                Some("put the file back as it was, or remove it to begin with new machines")
            }
        }
    }
}
