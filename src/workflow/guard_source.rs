//! The revisions whose guards hold, and the files that guard a site beside its documents.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::Failure;
use super::approvals::signer_times;
use super::rules::rules;
use crate::design::Documented;
use crate::guard::GuardFiles;
use crate::rego::RuleFile;
use crate::repository::{CommitId, Repository};

/// A revision whose guards hold.
pub(super) struct GuardSource {
    /// Its name in messages.
    pub(super) name: Arc<str>,
    /// The commit that its files are read at.
    pub(super) commit: Option<CommitId>,
    /// Whether the rules in Rego are those of the worktree.
    pub(super) is_worktree: bool,
    /// Its design, and its own guards.
    pub(super) site: Documented,
    /// Its rules in Rego, once they were read.
    pub(super) rules: OnceCell<Vec<RuleFile>>,
}

/// The revisions whose guards hold together.
pub(super) struct GuardSources {
    /// HEAD, the worktree, or the protected revision.
    pub(super) newest: GuardSource,
    /// The revision that the machines of an action are built of, if it is another than HEAD: no guard of it holds.
    pub(super) built: Option<GuardSource>,
    /// The commit of the plan, if it is another than HEAD.
    pub(super) planned: Option<GuardSource>,
    /// The commit whose guards are in force, if it has other files than the newest.
    pub(super) in_force: Option<GuardSource>,
}

impl GuardSources {
    /// All of them, each with whether it is only in force.
    pub(super) fn all(&self) -> impl Iterator<Item = (&GuardSource, bool)> {
        let own = [Some(&self.newest), self.planned.as_ref()];
        let own = own.into_iter().flatten().map(|source| (source, false));
        own.chain(self.in_force.iter().map(|source| (source, true)))
    }
}

impl GuardSource {
    /// Its rules in Rego.
    pub(super) fn rules(&self, repository: &Repository) -> Result<&[RuleFile], Failure> {
        if let Some(known) = self.rules.get() {
            return Ok(known);
        }
        let found = match &self.site.guards.policy.rego {
            None => Vec::new(),
            Some(folder) => {
                let commit = self.commit.filter(|_| !self.is_worktree);
                rules(repository, commit, folder)?
            }
        };
        Ok(self.rules.get_or_init(|| found))
    }

    /// The files that guard beside its documents.
    pub(super) fn files(&self, repository: &Repository) -> Result<GuardFiles, Failure> {
        let files = self.rules(repository)?;
        let policy = &self.site.guards.policy;
        let signers = match policy.asks_for_signatures() {
            true => signer_times(repository, self.commit, policy.allowed_signers()),
            false => BTreeMap::new(),
        };
        let rules = (!files.is_empty()).then(|| {
            let mut hash = Sha256::new();
            for file in files {
                hash.update(file.path.as_bytes());
                hash.update([0]);
                hash.update(meaning(&file.text).as_bytes());
                hash.update([0]);
            }
            Arc::from(HEXLOWER.encode(&hash.finalize()))
        });
        Ok(GuardFiles { rules, signers })
    }
}

/// Rules without comments and blanks. In raw strings both mean something, so that a text with any stays as it is.
fn meaning(text: &str) -> String {
    if text.contains('`') {
        return text.to_owned();
    }
    let lines = text.lines().map(str::trim_end).filter(|line| {
        let text = line.trim_start();
        !text.is_empty() && !text.starts_with('#')
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::meaning;

    #[test]
    fn comments_and_blanks_mean_nothing_but_in_raw_strings() {
        let plain = "package a\n\ndeny if { true } \n# why\n";
        assert_eq!(meaning(plain), meaning("package a\ndeny if { true }"));
        assert_ne!(meaning(plain), meaning("package a\ndeny if { false }"));
        for (one, other) in [
            ("a\n\nb", "a\n \nb"),
            ("a\n#b", "a\n#c"),
            ("a\r\nb", "a\nb"),
        ] {
            let rule = |text: &str| meaning(&format!("x := `{text}`"));
            assert_ne!(rule(one), rule(other), "{one:?}");
        }
    }
}
