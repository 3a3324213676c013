//! Secrets: referred to by documents, revealed only to the backend that needs one, never shown.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::masked;
use crate::design::Reference;

/// A secret's value. Its `Debug` prints only that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds a secret, which no text from outside shows from then on.
    #[must_use]
    pub fn new(value: String) -> Self {
        masked::remember(&value);
        Self(value)
    }

    /// Holds a caller's token for one exchange, which alone masks it: the sender of one must be able neither to fill the
    /// memory of a service nor to choose the texts that are masked elsewhere.
    #[must_use]
    pub fn passing(value: String) -> Self {
        Self(value)
    }

    /// The value, for the request that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why a secret cannot be had; names the reference, never what it gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SecretError(pub String);

/// A program of a kubeconfig that prints a credential.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The program and its arguments.
    pub words: Vec<Arc<str>>,
    /// Variables that it gets besides.
    pub variables: Vec<(String, String)>,
    /// Whether it may ask at the terminal.
    pub is_interactive: bool,
}

/// Resolves references to secrets.
pub trait Secrets: fmt::Debug + Send + Sync {
    /// The secret that a reference names, without a line break at its end. May run a program or read a
    /// file: called when a backend is opened or first used, not for each request.
    ///
    /// # Errors
    ///
    /// The variable is not set, the file cannot be read, the program failed.
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError>;

    /// The same if it may have changed since it was revealed last.
    ///
    /// # Errors
    ///
    /// As for [`Self::reveal`].
    fn reveal_again(&self, reference: &Reference) -> Result<Secret, SecretError> {
        self.reveal(reference)
    }

    /// Why the secret that a reference names cannot be replaced; `None`: it can be.
    fn cannot_be_replaced(&self, _: &Reference) -> Option<String> {
        Some("secrets are only read here".to_owned())
    }

    /// The secret in the pending slot of a reference, if there is one: it may be in use already.
    ///
    /// # Errors
    ///
    /// Whether there is one cannot be read.
    fn pending(&self, _: &Reference) -> Result<Option<Secret>, SecretError> {
        Ok(None)
    }

    /// Writes a new secret of so many characters into the pending slot of a reference, and makes it durable.
    ///
    /// # Errors
    ///
    /// It cannot be replaced, or written.
    fn stage(&self, _: &Reference, _length: usize) -> Result<Secret, SecretError> {
        Err(SecretError("secrets are only read here".to_owned()))
    }

    /// Makes the pending secret of a reference the current one, durably; the old one is gone.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn promote(&self, _: &Reference) -> Result<(), SecretError> {
        Err(SecretError("secrets are only read here".to_owned()))
    }

    /// Drops the pending secret of a reference, which nothing uses.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    fn drop_pending(&self, _: &Reference) -> Result<(), SecretError> {
        Ok(())
    }

    /// Where the file lies that a reference names, for who reads more beside it; `None` if it names no file.
    fn path(&self, _: &Reference) -> Option<PathBuf> {
        None
    }

    /// The path in the checkout of the file that a reference names, where every change of the design can change
    /// it; `None` if it lies elsewhere.
    fn path_in_checkout(&self, _: &Reference) -> Option<String> {
        None
    }

    /// Whether a word of a command names a file in the checkout.
    fn is_path_in_checkout(&self, _: &str) -> bool {
        false
    }

    /// Lets programs have variables of the environment beside those that every program gets.
    fn pass_on(&self, _variables: &[Arc<str>]) {}

    /// Runs the program of a kubeconfig; returns what it prints.
    ///
    /// # Errors
    ///
    /// It lies in the checkout, cannot be run, fails, or does not end in time.
    fn run_plugin(&self, _: &Plugin) -> Result<Secret, SecretError> {
        Err(SecretError("no programs are run here".to_owned()))
    }

    /// Where programs are looked for.
    fn search_path(&self) -> Option<OsString> {
        std::env::var_os("PATH")
    }
}

/// A source without secrets.
#[derive(Clone, Copy, Debug)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn reveal(&self, _: &Reference) -> Result<Secret, SecretError> {
        Err(SecretError("no secrets are to be had here".to_owned()))
    }
}
