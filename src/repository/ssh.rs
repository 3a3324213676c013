//! Signatures by SSH keys, in the format that git has for them (SSHSIG).
//!
//! `ssh-keygen` signs and verifies, as it does for git: it has the user's agent and hardware keys, and it is the reference
//! for the format, for the allowed signers and for what a security key asserts. No code of ours touches a private key or
//! judges a signature; all that is read here is which key a signature says that it is of.

use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use data_encoding::{BASE64, BASE64_NOPAD};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::objects::writing;
use super::program::ProgramTimeout;
use super::{Error, Repository};

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// How long a signature may take: a key may have to be touched, or its passphrase typed.
const SIGNING: Duration = Duration::from_secs(120);
/// How long it may take if nothing is asked. The thread that signs renews the lock of its run, too.
const SIGNING_AT_ONCE: Duration = Duration::from_secs(15);
const VERIFYING: Duration = Duration::from_secs(30);

/// A public key, as SSH writes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey {
    kind: String,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// The key of two words, `KEYTYPE` and `KEY` in base64.
    #[must_use]
    pub fn read(kind: &str, key: &str) -> Option<Self> {
        let key = Self::of(BASE64.decode(key.as_bytes()).ok()?)?;
        (key.kind == kind).then_some(key)
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        let (kind, _) = string(&bytes)?;
        let kind = std::str::from_utf8(kind).ok()?.to_owned();
        let is_plain = |each: char| each.is_ascii_alphanumeric() || "-@.".contains(each);
        (kind.chars().all(is_plain) && !kind.is_empty()).then_some(Self { kind, bytes })
    }

    /// Its kind, such as `ssh-ed25519`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// SHA-256 over it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }
}

impl fmt::Display for PublicKey {
    /// Its two words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, BASE64.encode(&self.bytes))
    }
}

impl fmt::Debug for PublicKey {
    /// Its fingerprint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", BASE64_NOPAD.encode(&self.digest()))
    }
}

/// The first string of some bytes, and the rest.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// The key that a signature says that it is of; whether that is so, [`Repository::verify`] finds out.
#[must_use]
pub fn claimed_key(signature: &str) -> Option<PublicKey> {
    let body = signature.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let text: String = body.split_ascii_whitespace().collect();
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    let rest = bytes.strip_prefix(b"SSHSIG\0\0\0\x01")?;
    PublicKey::of(string(rest)?.0.to_vec())
}

/// A key to sign with, as git's `user.signingkey` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// A file: the private key, or the public one of a key in the agent.
    File(PathBuf),
    /// The public key of one in the agent.
    Agent(PublicKey),
}

impl SigningKey {
    /// The key that a word names: a file, or a public key, which may follow `key::`.
    ///
    /// # Errors
    ///
    /// It is no key.
    pub(super) fn named(word: &str) -> Result<Self, Error> {
        let literal = word.strip_prefix("key::");
        if literal.is_none() && !word.starts_with("ssh-") {
            let home = std::env::home_dir();
            let path = match (word.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(word),
            };
            return Ok(Self::File(path));
        }
        let mut words = literal.unwrap_or(word).split_ascii_whitespace();
        let key = words.next().zip(words.next());
        let key = key.and_then(|(kind, key)| PublicKey::read(kind, key));
        key.map(Self::Agent).ok_or_else(|| Error::Broken {
            what: "`user.signingkey`".to_owned(),
            reason: "it is no public key".to_owned(),
        })
    }

    /// Its public key; `None` if no file has it.
    #[must_use]
    pub fn public(&self) -> Option<PublicKey> {
        let path = match self {
            Self::Agent(key) => return Some(key.clone()),
            Self::File(path) => path,
        };
        let read = |path: &Path| {
            let text = super::read_file(path, 1 << 16, super::Links::Followed).ok()?;
            let text = String::from_utf8(text).ok()?;
            let mut words = text.split_ascii_whitespace();
            PublicKey::read(words.next()?, words.next()?)
        };
        let mut beside = path.clone().into_os_string();
        beside.push(".pub");
        read(path).or_else(|| read(Path::new(&beside)))
    }
}

/// The answers that a signature may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// A person, if there is a terminal.
    APerson,
    /// If a passphrase is asked for, there is no signature.
    Nothing,
}

/// A message, and the signature that it is said to have.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The purpose that it was signed for.
    pub namespace: &'a str,
    /// The message.
    pub message: &'a str,
    /// The signature, armored.
    pub signature: &'a str,
    /// When the key has to be valid; `None`: now.
    pub at: Option<Timestamp>,
}

impl Repository {
    /// The key that git signs with (`user.signingkey`), if it signs by SSH keys (`gpg.format`).
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn signing_key(&self) -> Result<Option<SigningKey>, Error> {
        if self.config("gpg.format")?.as_deref() != Some("ssh") {
            return Ok(None);
        }
        let word = self.config("user.signingkey")?;
        word.as_deref().map(SigningKey::named).transpose()
    }

    /// Signs a message for a purpose; gives the signature, armored.
    ///
    /// # Errors
    ///
    /// [`Error::NotSigned`] with what `ssh-keygen` said.
    pub fn sign(&self, key: &SigningKey, namespace: &str, message: &str) -> Result<String, Error> {
        self.sign_asking(key, namespace, message, Asks::APerson)
    }

    /// Signs a message for a purpose, asking a person or not.
    pub(super) fn sign_asking(
        &self,
        key: &SigningKey,
        namespace: &str,
        message: &str,
        asks: Asks,
    ) -> Result<String, Error> {
        let folder = Folder::new()?;
        let file = folder.write("message", message)?;
        let mut command = self.ssh_keygen()?;
        command.args(["-Y", "sign", "-n", namespace, "-f"]);
        match key {
            SigningKey::File(path) => command.arg(path),
            SigningKey::Agent(key) => command
                .arg(folder.write("key.pub", &format!("{key}\n"))?)
                .arg("-U"),
        };
        command.arg(&file);
        let (limit, ended) = match asks {
            Asks::APerson => {
                let timeout = match std::io::stdin().is_terminal() {
                    true => ProgramTimeout::Attended(SIGNING),
                    false => ProgramTimeout::Unattended(SIGNING),
                };
                (SIGNING, self.run_child(command, timeout, SIGNING))
            }
            Asks::Nothing => {
                let limit = SIGNING_AT_ONCE;
                (limit, self.run_silent_child(command, limit))
            }
        };
        let ended = ended.map_err(|source| Error::NoSshKeygen { source })?;
        let signature = super::read_file(
            &folder.0.path().join("message.sig"),
            1 << 16,
            super::Links::Refused,
        );
        match (ended.success, signature.map(String::from_utf8)) {
            (Some(true), Ok(Ok(signature))) => Ok(signature),
            _ => Err(Error::NotSigned {
                message: match ended.success {
                    Some(_) => ended.stderr.trim().to_owned(),
                    None => format!("it took longer than {} s", limit.as_secs()),
                },
            }),
        }
    }

    /// Verifies a signature by one line of allowed signers, whose principal is given; `Some` says why it does not hold.
    ///
    /// # Errors
    ///
    /// `ssh-keygen` cannot be run.
    pub fn verify(
        &self,
        signed: Signed<'_>,
        allowed: &str,
        principal: &str,
    ) -> Result<Option<String>, Error> {
        let folder = Folder::new()?;
        let message = folder.write("message", signed.message)?;
        let mut command = self.ssh_keygen()?;
        command
            .args(["-Y", "verify", "-n", signed.namespace, "-I", principal])
            .arg("-f")
            .arg(folder.write("allowed_signers", &format!("{allowed}\n"))?)
            .arg("-s")
            .arg(folder.write("signature", signed.signature)?);
        if let Some(at) = signed.at {
            command.arg(format!("-Overify-time={}", at.strftime("%Y%m%d%H%M%SZ")));
        }
        let input = std::fs::File::open(&message).map_err(writing(&message))?;
        let ended = self.run_child_with(command, input.into(), VERIFYING);
        let ended = ended.map_err(|source| Error::NoSshKeygen { source })?;
        Ok(match ended.success {
            Some(true) => None,
            Some(false) => {
                let said = ended.stderr.trim();
                let last = said.lines().last().unwrap_or_default();
                Some(last.chars().take(200).collect())
            }
            None => Some("`ssh-keygen` did not end in time".to_owned()),
        })
    }

    fn ssh_keygen(&self) -> Result<Command, Error> {
        let program = self.config("gpg.ssh.program")?;
        Ok(Command::new(program.as_deref().unwrap_or("ssh-keygen")))
    }
}

/// Files for one call of a program, which no other user can read.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Result<Self, Error> {
        let made = tempfile::Builder::new().prefix("trueup-").tempdir();
        made.map(Self).map_err(writing(&std::env::temp_dir()))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).map_err(writing(&path))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_only_where_it_is_of_the_kind_that_stands_before_it() {
        let key = "AAAAC3NzaC1lZDI1NTE5AAAAIJKSEMGnxdB2QI2XAlTKx7TTr0vTMxSG4vWhAQTZSmYz";
        let read = PublicKey::read("ssh-ed25519", key).unwrap();
        assert_eq!(read.to_string(), format!("ssh-ed25519 {key}"));
        assert_eq!(PublicKey::read("ssh-rsa", key), None);
        assert_eq!(PublicKey::read("ssh-ed25519", &key[..12]), None);
        assert_eq!(PublicKey::read("ssh-ed25519", "!"), None);
        assert_eq!(PublicKey::of(vec![255, 255, 255, 255, 1]), None);
        assert_eq!(PublicKey::of(Vec::new()), None);
    }

    #[test]
    fn bytes_that_are_no_signature_name_no_key() {
        for text in [
            String::new(),
            format!("{BEGIN}\n{END}"),
            format!("{BEGIN}\nU1NIU0lH\n{END}"),
            format!("{BEGIN}\nU1NIU0lHAAAAAf////8=\n{END}"),
        ] {
            assert_eq!(claimed_key(&text), None, "{text}");
        }
    }
}
