//! The two slots of a secret in a file: the current one, and beside it a pending one, `FILE.pending`.
//!
//! A new secret is durable in the pending slot before anything uses it, and takes the place of the current one in one step.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::backend::Secret;
use crate::repository::{Links, read_file};

/// The longest secret, in bytes: more than any bundle of certificates.
pub(super) const LONGEST: u64 = 1 << 20;

/// The letters of new secrets: those that no keyboard of a console moves, and that look like no other.
const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxABCDEFGHJKLMNPQRSTUVWX23456789";

/// The slots of one secret.
pub(super) struct Slots {
    current: PathBuf,
    pending: PathBuf,
}

impl Slots {
    /// The slots of a file, whose path has no links.
    pub(super) fn of(current: PathBuf) -> Self {
        Self {
            pending: beside(&current, ".pending"),
            current,
        }
    }

    /// The pending secret.
    pub(super) fn pending(&self) -> Result<Option<Secret>, String> {
        match self.pending.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(about(&self.pending, &error)),
            Ok(_) => {}
        }
        let bytes = read_file(&self.pending, LONGEST, Links::Refused);
        let bytes = bytes.map_err(|error| about(&self.pending, &error))?;
        text(bytes).map(Some)
    }

    /// Writes a new secret into the pending slot; with the permissions of the current one.
    pub(super) fn stage(&self, length: usize) -> Result<Secret, String> {
        let value = new_secret(length).map_err(|error| about(&self.pending, &error))?;
        let draft = beside(&self.current, ".new");
        let write = || {
            let permissions = self.current.metadata()?.permissions();
            // A draft of a process that was killed is of no use.
            match std::fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&draft)?;
            writeln!(file, "{value}")?;
            file.set_permissions(permissions)?;
            file.sync_all()?;
            std::fs::rename(&draft, &self.pending)?;
            self.sync()
        };
        write().map_err(|error| about(&self.pending, &error))?;
        Ok(Secret::new(value))
    }

    /// Makes the pending secret the current one.
    pub(super) fn promote(&self) -> Result<(), String> {
        let renamed = std::fs::rename(&self.pending, &self.current);
        let renamed = renamed.and_then(|()| self.sync());
        renamed.map_err(|error| about(&self.current, &error))
    }

    /// Drops the pending secret.
    pub(super) fn drop_pending(&self) -> Result<(), String> {
        match std::fs::remove_file(&self.pending) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(about(&self.pending, &error)),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        let folder = self.current.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}

fn about(path: &Path, error: &impl std::fmt::Display) -> String {
    format!("`{}`: {error}", path.display())
}

/// A secret of the system's own randomness, with a letter of each kind that controllers demand.
pub(super) fn new_secret(length: usize) -> std::io::Result<String> {
    let mut random = File::open("/dev/urandom")?;
    loop {
        let mut value = String::with_capacity(length);
        while value.len() < length {
            let mut byte = [0];
            random.read_exact(&mut byte)?;
            // Only whole rounds of the letters count, so that each is as likely as the others.
            let at = usize::from(byte[0]);
            if at < 256 / LETTERS.len() * LETTERS.len() {
                value.push(char::from(LETTERS[at % LETTERS.len()]));
            }
        }
        let has = |is: fn(&char) -> bool| value.chars().any(|letter| is(&letter));
        let has_all = has(char::is_ascii_lowercase)
            && has(char::is_ascii_uppercase)
            && has(char::is_ascii_digit);
        if has_all || length < 3 {
            return Ok(value);
        }
    }
}

/// A secret's text without the line break that editors and programs put at its end.
pub(super) fn text(bytes: Vec<u8>) -> Result<Secret, String> {
    if bytes.len() as u64 > LONGEST {
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
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_secret_is_durable_beside_the_current_one_and_takes_its_place_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n1");
        std::fs::write(&file, "old\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let slots = Slots::of(file.clone());
        assert_eq!(slots.pending(), Ok(None));
        std::fs::write(folder.path().join("n1.new"), "of a killed process").unwrap();
        let staged = slots.stage(20).unwrap();
        let value = staged.reveal().to_owned();
        assert_eq!(value.len(), 20);
        assert!(value.chars().all(|letter| letter.is_ascii_alphanumeric()));
        assert_eq!(slots.pending(), Ok(Some(staged)));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n");
        slots.promote().unwrap();
        assert_eq!(slots.pending(), Ok(None));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), value + "\n");
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(names.count(), 1);
        slots.stage(8).unwrap();
        slots.drop_pending().unwrap();
        slots.drop_pending().unwrap();
        assert_eq!(slots.pending(), Ok(None));
    }

    #[test]
    fn secrets_are_not_alike_and_have_a_letter_of_each_kind() {
        let all: Vec<String> = (0..200).map(|_| new_secret(8).unwrap()).collect();
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for secret in &all {
            assert!(
                secret.chars().any(|letter| letter.is_ascii_digit()),
                "{secret}"
            );
            assert!(
                secret.chars().any(|letter| letter.is_ascii_uppercase()),
                "{secret}"
            );
        }
    }
}
