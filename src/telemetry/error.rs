//! Errors of the export.

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The library refuses the endpoint. Its error repeats it, and is left out: it may hold a credential.
    #[error("the endpoint cannot be used")]
    Endpoint,
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// No runtime can be started for it.
    #[error("the runtime of the HTTP client cannot be started")]
    Runtime(#[source] std::io::Error),
}
