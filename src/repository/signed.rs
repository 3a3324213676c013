//! Signed commits in git's own format, and the key that git would sign them with.
//!
//! What is signed is the object without its signature, for the purpose `git`: `git verify-commit` and `git verify-tag` verify
//! it by `gpg.ssh.allowedSignersFile` alone.

use std::process::Command;
use std::time::Duration;

use super::ssh::{Asks, SigningKey};
use super::{CommitId, Error, Repository, git};

/// The purpose that git signs for.
pub(super) const NAMESPACE: &str = "git";

/// How long `gpg.ssh.defaultKeyCommand` may take.
const NAMING: Duration = Duration::from_secs(10);

/// A commit as it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCommit {
    /// The signature, armored.
    pub signature: String,
    /// The commit without it.
    pub text: String,
}

impl SignedCommit {
    /// The message of the commit.
    #[must_use]
    pub fn message(&self) -> &str {
        let parts = self.text.split_once("\n\n");
        parts.map_or("", |(_, message)| message)
    }
}

/// The header of a commit that holds a signature.
pub(super) fn header(signature: &str) -> String {
    let lines: Vec<&str> = signature.trim_end().lines().collect();
    format!("gpgsig {}\n", lines.join("\n "))
}

impl Repository {
    /// A commit as it was signed; `None` if it has no signature, or is no text.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn signed_commit(&self, commit: CommitId) -> Result<Option<SignedCommit>, Error> {
        self.with(
            |handle| match handle.extract_signature(&commit.git(), None) {
                Ok((signature, text)) => {
                    let words = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
                    let parts = words(&signature).zip(words(&text));
                    Ok(parts.map(|(signature, text)| SignedCommit { signature, text }))
                }
                Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
                Err(error) => Err(git(format!("read the signature of commit {commit}"))(error)),
            },
        )
    }

    /// The key that runs are signed with: the one that git signs with. `git config trueup.signRuns false` leaves it.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read, or names no key.
    pub fn run_signing_key(&self) -> Result<Option<SigningKey>, Error> {
        let wanted = self.config("trueup.signRuns")?;
        let off = ["false", "no", "off", "0"];
        if wanted.is_some_and(|wanted| off.contains(&wanted.to_lowercase().as_str())) {
            return Ok(None);
        }
        match self.signing_key()? {
            Some(key) => Ok(Some(key)),
            None => self.default_key(),
        }
    }

    /// Signs a commit or a tag as git does, without a question: a run must not wait for an answer.
    ///
    /// # Errors
    ///
    /// [`Error::NotSigned`] with what `ssh-keygen` said.
    pub fn sign_object(&self, key: &SigningKey, text: &str) -> Result<String, Error> {
        self.sign_asking(key, NAMESPACE, text, Asks::Nothing)
    }

    /// The key that `gpg.ssh.defaultKeyCommand` names, if no other one is. It is run only if it is in the
    /// configuration of the user or the system, and not in that of the repository.
    fn default_key(&self) -> Result<Option<SigningKey>, Error> {
        if self.config("gpg.format")?.as_deref() != Some("ssh") {
            return Ok(None);
        }
        let Some(line) = self.own_config("gpg.ssh.defaultkeycommand") else {
            return Ok(None);
        };
        let mut words = line.split_ascii_whitespace();
        let Some(program) = words.next() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(words).current_dir(self.root());
        let failed = |message: String| Error::NotSigned { message };
        let ended = self
            .run_child_with(command, std::process::Stdio::null(), NAMING)
            .map_err(|error| failed(format!("`gpg.ssh.defaultKeyCommand`: {error}")))?;
        let key = ended.stdout.lines().find_map(|line| {
            let key = line.starts_with("ssh-") || line.starts_with("key::");
            key.then(|| SigningKey::named(line).ok()).flatten()
        });
        match key.filter(|_| ended.success == Some(true)) {
            Some(key) => Ok(Some(key)),
            None => Err(failed(
                "`gpg.ssh.defaultKeyCommand` names no key".to_owned(),
            )),
        }
    }

    /// A value of the user's own configuration, or the system's.
    fn own_config(&self, key: &str) -> Option<String> {
        self.configuration().own_value(key).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_in_a_header_goes_on_behind_a_space() {
        assert_eq!(header("a\nb\nc\n"), "gpgsig a\n b\n c\n");
    }

    #[test]
    fn the_message_of_a_commit_stands_behind_its_headers() {
        let commit = |text: &str| SignedCommit {
            signature: String::new(),
            text: text.to_owned(),
        };
        assert_eq!(
            commit("tree 1\nauthor a\n\nfirst\n\nrest\n").message(),
            "first\n\nrest\n"
        );
        assert_eq!(commit("tree 1\n").message(), "");
    }
}
