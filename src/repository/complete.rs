//! Which objects are here, and those that a partial clone was made without: fetched if a remote may be asked.
//!
//! Such a clone (`--filter=blob:none`, `--filter=tree:0`) has commits without their files. Git fetches an object when it
//! comes to it, one by one; here all of a commit are fetched together, before they are read. libgit2 fetches none.

use git2::ObjectType;
use rustc_hash::FxHashSet;

use super::program::ProgramTimeout;
use super::remote::{Remote, Wanted};
use super::{CommitId, Error, ObjectId, Repository, entry, git};

/// So many files of a commit are looked for one by one before it is asked whether git answers for them.
const LARGE: usize = 256;

/// The objects that git fetches by their ids, as it does it itself for what it misses.
const BY_ID: [&str; 9] = [
    "-c",
    "fetch.negotiationAlgorithm=noop",
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--filter=blob:none",
    "--stdin",
];

impl Remote<'_> {
    /// Fetches the files of a commit that a partial clone was made without.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] with what git said.
    pub fn complete(&self, commit: CommitId, wanted: Wanted) -> Result<(), Error> {
        let Some((promisor, timeout)) = self.promisor() else {
            return Ok(());
        };
        let repository = self.repository();
        let commit = commit.to_string();
        // It fetches the folders that are missing.
        let listing = ["ls-tree", "-r", "-z", "--full-tree", &commit];
        let listed = repository.run_program(&listing, timeout, timeout.limit())?;
        repository.forget_handles();
        if !listed.success {
            return Err(self.unreachable(listed.stderr));
        }
        let mut missing = Vec::new();
        for line in listed.stdout.split_terminator('\0') {
            let Some((kind, path)) = line.split_once('\t') else {
                continue;
            };
            let mut kind = kind.split(' ');
            let (mode, id) = (kind.next(), kind.nth(1));
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_wanted = wanted == Wanted::Everything
                || mode == Some("120000")
                || entry::is_document_name(name)
                || name.ends_with(".rego")
                || name.contains("signers");
            let is_file = mode != Some("160000");
            if let (true, true, Some(Ok(id))) = (is_wanted, is_file, id.map(str::parse))
                && !repository.has(id)?
            {
                missing.push(id);
            }
        }
        self.bring(&promisor, timeout, &missing)
    }

    /// Fetches the folders of the commits from one to another that a partial clone was made without.
    ///
    /// # Errors
    ///
    /// As [`Remote::complete`].
    pub(super) fn complete_folders(&self, from: CommitId, to: CommitId) -> Result<(), Error> {
        let Some((promisor, timeout)) = self.promisor() else {
            return Ok(());
        };
        let (from, to) = (format!("^{from}^@"), to.to_string());
        let listing = [
            "rev-list",
            "--objects",
            "--first-parent",
            "--filter=blob:none",
            "--missing=print",
            &to,
            &from,
        ];
        let repository = self.repository();
        let listed = repository.run_program(&listing, timeout, timeout.limit())?;
        let missing = listed
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix('?'));
        let missing: Vec<ObjectId> = missing.filter_map(|id| id.parse().ok()).collect();
        self.bring(&promisor, timeout, &missing)
    }

    /// Fetches objects by their ids.
    fn bring(
        &self,
        promisor: &str,
        timeout: ProgramTimeout,
        missing: &[ObjectId],
    ) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = missing.iter().map(|id| format!("{id}\n")).collect();
        let arguments = [&BY_ID[..], &["--", promisor]].concat();
        let repository = self.repository();
        let output = repository.run_program_with(&arguments, &ids.concat(), timeout)?;
        repository.forget_handles();
        match output.success {
            true => Ok(()),
            false => Err(self.unreachable(output.stderr)),
        }
    }
}

/// Whether a commit is the one that is checked out, or one before it: git has all that those lead to.
fn is_checked_out(handle: &git2::Repository, commit: git2::Oid) -> bool {
    let head = handle.head().and_then(|head| head.peel_to_commit());
    head.is_ok_and(|head| {
        let is_before = || handle.graph_descendant_of(head.id(), commit);
        head.id() == commit || is_before().unwrap_or(false)
    })
}

/// The objects that an object leads to in this repository, but the history of a commit.
fn leads_to(object: &git2::Object<'_>) -> Vec<(git2::Oid, ObjectType)> {
    if let Some(commit) = object.as_commit() {
        return vec![(commit.tree_id(), ObjectType::Tree)];
    }
    if let Some(tag) = object.as_tag() {
        let kind = tag.target_type().unwrap_or(ObjectType::Commit);
        return vec![(tag.target_id(), kind)];
    }
    let entries = object.as_tree().into_iter().flat_map(git2::Tree::iter);
    let objects = entries.filter_map(|entry| Some((entry.id(), entry.kind()?)));
    let own = objects.filter(|(_, kind)| *kind != ObjectType::Commit);
    own.collect()
}

impl Repository {
    /// Whether an object is in this clone, a commit with its files.
    ///
    /// Git writes what it fetches one by one, the commit first: while another process fetches, and after one that was killed,
    /// a commit may be here of which nothing can be read. In a clone that was made without files, those are asked for later.
    ///
    /// # Errors
    ///
    /// The object database cannot be opened.
    pub fn has(&self, id: ObjectId) -> Result<bool, Error> {
        let is_partial = self.is_partial();
        self.with(|handle| {
            let odb = handle.odb().map_err(git("open the object database"))?;
            if is_partial || !odb.exists(id.git()) {
                return Ok(odb.exists(id.git()));
            }
            let wanted = id.git();
            let (mut left, mut known) = (vec![wanted], FxHashSet::default());
            let mut may_ask = true;
            while let Some(id) = left.pop() {
                let Ok(object) = handle.find_object(id, None) else {
                    return Ok(false);
                };
                let next = leads_to(&object);
                let is_large = known.len() + next.len() > LARGE;
                if is_large && may_ask && is_checked_out(handle, wanted) {
                    return Ok(true);
                }
                may_ask &= !is_large;
                for (id, kind) in next {
                    match kind {
                        _ if !known.insert(id) => {}
                        ObjectType::Blob if !odb.exists(id) => return Ok(false),
                        ObjectType::Blob => {}
                        _ => left.push(id),
                    }
                }
            }
            Ok(true)
        })
    }

    /// Whether this clone was made without some of the objects.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.promisor().is_some()
    }
}
