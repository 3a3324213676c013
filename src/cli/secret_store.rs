//! The slots of a secret that a program of the operator keeps, and those of either kind of keeper.
//!
//! The program is run with one more word, the name of its task. It has to be done durably when it has ended well, and
//! may be asked for the same again. A new secret goes to it by its standard input, never as an argument.

use std::sync::Arc;

use super::slots::{Slots, new_secret, text};
use crate::backend::Secret;

/// The slots of a secret that can be replaced.
pub(super) enum SecretSlots<'s> {
    /// Those beside a file.
    File(Slots),
    /// Those of a program.
    Program(ProgramSlots<'s>),
}

impl SecretSlots<'_> {
    pub(super) fn pending(&self) -> Result<Option<Secret>, String> {
        match self {
            Self::File(slots) => slots.pending(),
            Self::Program(slots) => slots.pending(),
        }
    }

    pub(super) fn stage(&self, length: usize) -> Result<Secret, String> {
        match self {
            Self::File(slots) => slots.stage(length),
            Self::Program(slots) => slots.stage(length),
        }
    }

    pub(super) fn promote(&self) -> Result<(), String> {
        match self {
            Self::File(slots) => slots.promote(),
            Self::Program(slots) => slots.run("promote", None).map(drop),
        }
    }

    pub(super) fn drop_pending(&self) -> Result<(), String> {
        match self {
            Self::File(slots) => slots.drop_pending(),
            Self::Program(slots) => slots.run("drop", None).map(drop),
        }
    }
}

/// Runs a program by its words, with what it reads, and gives what it prints.
type Run<'s> = dyn Fn(&[Arc<str>], Option<&Secret>) -> Result<Vec<u8>, String> + 's;

/// The slots of a program.
pub(super) struct ProgramSlots<'s> {
    words: &'s [Arc<str>],
    run: Box<Run<'s>>,
}

impl<'s> ProgramSlots<'s> {
    pub(super) fn of(words: &'s [Arc<str>], run: Box<Run<'s>>) -> Self {
        Self { words, run }
    }

    /// The bytes of the current secret.
    pub(super) fn current(&self) -> Result<Vec<u8>, String> {
        self.run("current", None)
    }

    /// The pending secret; a program prints nothing without one.
    fn pending(&self) -> Result<Option<Secret>, String> {
        let bytes = self.run("pending", None)?;
        match bytes.iter().all(|byte| matches!(byte, b'\n' | b'\r')) {
            true => Ok(None),
            false => text(bytes).map(Some),
        }
    }

    /// A new pending secret, which counts once the program shows it.
    fn stage(&self, length: usize) -> Result<Secret, String> {
        let program = self.words.first().map_or("", |word| &**word);
        let new = new_secret(length).map_err(|error| format!("no new secret: {error}"))?;
        let new = Secret::new(new);
        self.run("stage", Some(&new))?;
        match self.pending()?.as_ref() == Some(&new) {
            true => Ok(new),
            false => Err(format!(
                "`{program}` does not show the pending secret that it was given"
            )),
        }
    }

    fn run(&self, verb: &str, input: Option<&Secret>) -> Result<Vec<u8>, String> {
        let words: Vec<Arc<str>> = self.words.iter().cloned().chain([verb.into()]).collect();
        let ran = (self.run)(&words, input);
        ran.map_err(|error| format!("`{verb}`: {error}"))
    }
}
