//! Secrets: referred to by documents, revealed only to the backend that needs one, never shown.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::masked;
use crate::design::Reference;

/// A secret's value. It shows itself to nobody: its `Debug` says that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds a secret, which no text from outside shows from then on.
    #[must_use]
    pub fn new(value: String) -> Self {
        masked::remember(&value);
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

/// Resolves references to secrets.
pub trait Secrets: fmt::Debug + Send + Sync {
    /// The secret that a reference names, without a line break at its end. May run a program or read a
    /// file: called when a backend is opened or first used, not for each request.
    ///
    /// # Errors
    ///
    /// The variable is not set, the file cannot be read, the program failed.
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError>;

    /// The same where it may have changed since it was revealed last.
    ///
    /// # Errors
    ///
    /// As for [`Self::reveal`].
    fn reveal_again(&self, reference: &Reference) -> Result<Secret, SecretError> {
        self.reveal(reference)
    }

    /// Where the file lies that a reference names, for who reads more beside it; `None` where it names no file.
    fn path(&self, _: &Reference) -> Option<PathBuf> {
        None
    }

    /// Whether a reference names a file in the checkout, where every change of the design can change it.
    fn is_in_checkout(&self, _: &Reference) -> bool {
        false
    }

    /// Whether a word of a command names a file in the checkout.
    fn is_path_in_checkout(&self, _: &str) -> bool {
        false
    }

    /// Lets programs have variables of the environment beside those that every program gets.
    fn pass_on(&self, _variables: &[Arc<str>]) {}

    /// The variables of the environment that programs do not get.
    fn withheld(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Knows no secrets.
#[derive(Clone, Copy, Debug)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn reveal(&self, _: &Reference) -> Result<Secret, SecretError> {
        Err(SecretError("no secrets are to be had here".to_owned()))
    }
}
