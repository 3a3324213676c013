//! Answers of remotes that are a moment old: a command that asks for the records, the lock and the reservations of a site one
//! after the other opens one connection, and sees them as of one instant.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::ObjectId;
use super::ref_list::RefList;
use crate::threads::lock;

/// How long an answer counts. A process that waits for a change asks less often, and what is pushed is compared by the remote.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer of each remote, by its name; `None`: none is kept, and each question is asked.
#[derive(Default)]
pub(super) struct Answers(Option<Mutex<Known>>);

#[derive(Default)]
struct Known {
    answers: BTreeMap<String, Answer>,
    /// How often all was forgotten: an answer to a question of before is not kept.
    forgotten: u64,
}

/// The moment in which a question is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    forgotten: u64,
}

struct Answer {
    at: Instant,
    names: Vec<String>,
    refs: RefList,
}

impl Answer {
    fn covers(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|asked| match asked.strip_suffix('*') {
                Some(folder) => name.starts_with(folder),
                None => asked == name,
            })
    }
}

impl Answers {
    /// The refs of a remote, if all that is asked for was answered just now.
    pub(super) fn find(&self, remote: &str, names: &[&str]) -> Option<BTreeMap<String, ObjectId>> {
        let known = lock(self.0.as_ref()?);
        let answer = known.answers.get(remote)?;
        let is_known = answer.at.elapsed() < FRESH && names.iter().all(|name| answer.covers(name));
        is_known.then(|| answer.refs.among(names))
    }

    /// None yet, and the last of each remote from now on.
    pub(super) fn kept() -> Self {
        Self(Some(Mutex::default()))
    }

    /// Now, before a question is asked.
    pub(super) fn now(&self) -> Asked {
        Asked {
            at: Instant::now(),
            forgotten: self.0.as_ref().map_or(0, |known| lock(known).forgotten),
        }
    }

    /// Keeps the answer to a question.
    pub(super) fn keep(
        &self,
        remote: &str,
        (asked, names): (Asked, &[&str]),
        refs: &BTreeMap<String, ObjectId>,
    ) {
        let Some(known) = &self.0 else {
            return;
        };
        let answer = Answer {
            at: asked.at,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            refs: RefList::of(refs.clone()),
        };
        let mut known = lock(known);
        if known.forgotten == asked.forgotten {
            known.answers.insert(remote.to_owned(), answer);
        }
    }

    /// Forgets the answers of all remotes: two of them may be the same repository.
    pub(super) fn forget(&self) {
        if let Some(known) = &self.0 {
            let mut known = lock(known);
            known.answers.clear();
            known.forgotten += 1;
        }
    }
}
