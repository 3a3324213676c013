//! The document of a rollout at a revision, and the sites of its phases there.

use std::sync::Arc;

use crate::design::{ROLLOUT, name_problem};
use crate::diagnostic::{Diagnostic, Diagnostics, Sources};
use crate::document::{Limits, LoadSettings, decode, load};
use crate::repository::{CommitId, Entry, Repository, Selection};
use crate::rollout::{Phases, Rollout, RolloutSite};
use crate::site::{At, FoundSite, locate_all};
use crate::workflow::{Client, Failure, FailureKind};

/// The name of the folders in which the documents of rollouts are.
const FOLDER: &str = "rollouts";

/// A rollout at a revision.
#[derive(Debug)]
pub struct FoundRollout {
    /// Its name.
    pub name: Arc<str>,
    /// The file of its document.
    pub path: Arc<str>,
    /// The revision.
    pub commit: CommitId,
    /// Its document.
    pub rollout: Rollout,
    /// Its phases.
    pub phases: Phases,
    /// The sites of the repository at the revision.
    pub sites: Vec<FoundSite>,
}

/// Refuses a text that cannot be the name of a rollout.
///
/// # Errors
///
/// It cannot.
pub fn check_rollout_name(name: &str) -> Result<(), Failure> {
    let Some(problem) = name_problem(name) else {
        return Ok(());
    };
    let message = format!("`{name}` is no name of a rollout: it {problem}");
    let hint = "name the rollout of `rollouts/NAME.yaml`";
    Err(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// The documents of rollouts at a revision: name and file.
fn documents(repository: &Repository, at: At) -> Result<Vec<(String, Entry)>, Failure> {
    let selection = Selection::everything();
    let tree = match at {
        At::Commit(commit) => repository.tree_at(commit, &selection)?,
        At::Worktree => repository.worktree(&selection)?,
    };
    let named = tree.entries.into_iter().filter_map(|entry| {
        let (folder, file) = entry.path.rsplit_once('/')?;
        let last = folder.rsplit_once('/').map_or(folder, |(_, last)| last);
        let name = file.strip_suffix(".yaml").filter(|_| last == FOLDER)?;
        Some((name.to_owned(), entry))
    });
    Ok(named.collect())
}

/// Returns the names of the rollouts of the commit that is checked out.
///
/// # Errors
///
/// Git fails.
pub fn rollout_names(repository: &Repository) -> Result<Vec<String>, Failure> {
    let Some(head) = repository.head()? else {
        return Ok(Vec::new());
    };
    let all = documents(repository, At::Commit(head))?;
    Ok(all.into_iter().map(|(name, _)| name).collect())
}

/// Finds a rollout at a commit, and the sites of its phases there. Problems of its document are shown.
///
/// # Errors
///
/// There is none, its document has errors, or git fails.
pub fn find_rollout(
    client: &dyn Client,
    repository: &Repository,
    name: &str,
    commit: CommitId,
) -> Result<FoundRollout, Failure> {
    check_rollout_name(name)?;
    let all = documents(repository, At::Commit(commit))?;
    let mut own = all.iter().filter(|(each, _)| each == name);
    let Some((_, entry)) = own.next() else {
        let message = format!("there is no rollout `{name}` at {}", commit.short());
        let near = crate::diagnostic::nearest(name, all.iter().map(|(name, _)| name.as_str()));
        let hint = near.map_or_else(
            || "a rollout is a document `trueup/Rollout/v1` in a file `rollouts/NAME.yaml` of any folder, committed".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
    };
    if let Some((_, other)) = own.next() {
        let message = format!(
            "two files are of a rollout `{name}`: `{}` and `{}`",
            entry.path, other.path
        );
        return Err(Failure::error(message).hint("rename one of the files, and its document"));
    }
    let sites = locate_all(repository, At::Commit(commit))?;
    if sites.iter().any(|site| site.name == FOLDER) {
        let message = "a site is called `rollouts`, and its refs would be among those of rollouts";
        return Err(Failure::error(message).hint("rename the site"));
    }
    let selected = selected(&sites);
    let mut sources = Sources::new();
    let read = read(repository, entry, name, &mut sources)
        .and_then(|rollout| Ok((rollout.phases(&selected)?, rollout)));
    match read {
        Ok((phases, rollout)) => Ok(FoundRollout {
            name: Arc::from(name),
            path: entry.path.clone(),
            commit,
            rollout,
            phases,
            sites,
        }),
        Err(mut problems) => {
            problems.sort(&sources);
            client.show(&problems, &sources);
            Err(Failure::reported(FailureKind::Error))
        }
    }
}

fn selected(sites: &[FoundSite]) -> Vec<RolloutSite> {
    let selected = sites.iter().map(|site| RolloutSite {
        name: Arc::from(site.name.as_str()),
        labels: site.labels.clone(),
    });
    selected.collect()
}

/// All that is wrong with the documents of rollouts at a revision, with which none of them begins.
///
/// # Errors
///
/// The files of the repository cannot be listed.
pub fn rollout_problems(
    repository: &Repository,
    at: At,
    sources: &mut Sources,
) -> Result<Diagnostics, Failure> {
    let mut found = Diagnostics::new();
    let all = documents(repository, at)?;
    if all.is_empty() {
        return Ok(found);
    }
    let sites = selected(&locate_all(repository, at)?);
    for (name, entry) in &all {
        let read = read(repository, entry, name, sources);
        if let Err(problems) = read.and_then(|rollout| rollout.phases(&sites)) {
            found.extend(problems);
        }
    }
    Ok(found)
}

/// Reads the document of a rollout, the only one of its file.
fn read(
    repository: &Repository,
    entry: &Entry,
    name: &str,
    sources: &mut Sources,
) -> Result<Rollout, Diagnostics> {
    let one = |problem: Diagnostic| -> Diagnostics { [problem].into_iter().collect() };
    let path = Some(&*entry.path);
    let limits = Limits::default();
    let content = repository
        .read(entry, limits.file_bytes as u64)
        .map_err(|error| {
            one(Diagnostic::error_in(
                "file-unusable",
                path,
                error.to_string(),
            ))
        })?;
    let text = decode(&entry.path, &content.bytes, &limits).map_err(|problem| one(*problem))?;
    let source = sources.add(entry.path.clone(), text.clone());
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(source, &text, &settings);
    for (start, end) in &file.secret {
        sources.hide(source, *start, *end);
    }
    if file.diagnostics.has_errors() {
        return Err(file.diagnostics);
    }
    let [document] = &file.documents[..] else {
        let message = format!(
            "a file of a rollout has one document, this one has {}",
            file.documents.len()
        );
        return Err(one(Diagnostic::error_in(
            "rule-rollout-file",
            path,
            message,
        )
        .hint("move the other documents to files of their own")));
    };
    if *document.id.schema != *ROLLOUT {
        let message = format!("a document of `rollouts/` is of schema `{ROLLOUT}`");
        let problem = Diagnostic::error("rule-rollout-file", document.schema_mark, message);
        return Err(one(
            problem.hint("move it to another folder, or correct its `schema`")
        ));
    }
    if *document.id.name != *name {
        let message = format!(
            "the document of `{name}.yaml` is of rollout `{}`",
            document.id.name
        );
        let problem = Diagnostic::error("rule-rollout-file", document.name_mark, message);
        return Err(one(
            problem.hint("let the file and its document have the same name")
        ));
    }
    Rollout::read(document)
}
