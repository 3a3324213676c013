//! Where secrets come from: the environment, files, and programs that print them.
//!
//! A reference is all that a document holds; what it names is read here, once for each, and goes only to
//! the backend that asked. What cannot be had is told without what was found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::backend::{Secret, SecretError, Secrets};
use crate::design::Reference;

/// The longest secret, in bytes: more than any bundle of certificates.
const LONGEST: usize = 1 << 20;

/// The secrets that this process can reach.
#[derive(Debug)]
pub(super) struct ProcessSecrets {
    root: PathBuf,
    known: Mutex<BTreeMap<Reference, Result<Secret, SecretError>>>,
}

impl ProcessSecrets {
    /// `root`: the root of the repository, from where relative paths are meant.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            known: Mutex::default(),
        }
    }

    fn read(&self, reference: &Reference) -> Result<Vec<u8>, String> {
        match reference {
            Reference::Env(name) => match std::env::var_os(&**name) {
                Some(value) => Ok(value.into_encoded_bytes()),
                None => Err(format!("the environment variable `{name}` is not set")),
            },
            Reference::File(path) => {
                let file = self.root.join(&**path);
                std::fs::read(file).map_err(|error| format!("`{path}` cannot be read: {error}"))
            }
            Reference::Exec(words) => {
                let Some((program, arguments)) = words.split_first() else {
                    return Err("no program is named".to_owned());
                };
                let began = Instant::now();
                let output = Command::new(&**program)
                    .args(arguments.iter().map(|word| &**word))
                    .current_dir(&self.root)
                    .stdin(Stdio::null())
                    .stderr(Stdio::inherit())
                    .output()
                    .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
                let (status, took) = (output.status, began.elapsed());
                ::log::info!("a secret of `{program}`: {status}, in {took:.1?}");
                if output.status.success() {
                    Ok(output.stdout)
                } else {
                    Err(format!("`{program}` failed: {}", output.status))
                }
            }
        }
    }
}

impl Secrets for ProcessSecrets {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(reference) {
            return known.clone();
        }
        let found = self.read(reference).and_then(text).map_err(SecretError);
        known.insert(reference.clone(), found.clone());
        found
    }

    fn path(&self, reference: &Reference) -> Option<PathBuf> {
        match reference {
            Reference::File(path) => Some(self.root.join(&**path)),
            Reference::Env(_) | Reference::Exec(_) => None,
        }
    }
}

/// A secret's text without the line break that editors and programs put at its end.
fn text(bytes: Vec<u8>) -> Result<Secret, String> {
    if bytes.len() > LONGEST {
        return Err(format!("the secret has more than {LONGEST} bytes"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "the secret is no text".to_owned())?;
    while text.ends_with(['\n', '\r']) {
        text.pop();
    }
    if text.is_empty() {
        return Err("the secret is empty".to_owned());
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_kind_of_reference_gives_its_secret_or_says_why_not_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "s3cret\n").unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        std::fs::write(folder.path().join("bytes"), b"s3cret\xff").unwrap();
        let secrets = ProcessSecrets::new(folder.path());
        let exec = |words: &[&str]| Reference::Exec(words.iter().copied().map(Arc::from).collect());
        let table = [
            (Reference::File("password".into()), Ok("s3cret")),
            (exec(&["cat", "password"]), Ok("s3cret")),
            (Reference::File("empty".into()), Err("the secret is empty")),
            (
                Reference::File("bytes".into()),
                Err("the secret is no text"),
            ),
            (
                Reference::File("nowhere".into()),
                Err("`nowhere` cannot be read"),
            ),
            (exec(&["false"]), Err("`false` failed: exit status: 1")),
            (
                exec(&["no-such-program"]),
                Err("`no-such-program` cannot be run"),
            ),
            (
                Reference::Env("TRUEUP_NO_SUCH_VARIABLE".into()),
                Err("`TRUEUP_NO_SUCH_VARIABLE` is not set"),
            ),
        ];
        for (reference, expected) in table {
            let found = secrets.reveal(&reference);
            assert!(!format!("{found:?}{secrets:?}").contains("s3cret"));
            match (found, expected) {
                (Ok(secret), Ok(expected)) => assert_eq!(secret.reveal(), expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected)),
                (found, expected) => panic!("{reference:?}: {found:?} is not {expected:?}"),
            }
        }
    }
}
