//! The way back to a revision: the commit that it is, the runs that it undoes, and what does not return with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::earlier::{earlier, is_successful, newest_runs};
use super::neighbours::sharing;
use super::{AS_APPLIED, Checkout, Failure, FailureKind, plan_of_run, report_now};
use crate::design::{GUARDS, Guards, HardwareSetting, NodeName, RunId, Section};
use crate::document::{self, Document};
use crate::guard::Guarded;
use crate::plan::{Action, Plan, WayBack, WayBackLoss};
use crate::record::{RunRecord, State, Store};
use crate::repository::{BlobId, CommitId, Signature};
use crate::run::{Completion, SiteRepository, unfinished_run};
use crate::site::{At, Detail, Loader, Settings};

/// The largest file of a site that is written back, in bytes.
const LARGEST: u64 = 64 << 20;

/// A revision of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRevision {
    /// Its commit.
    pub commit: CommitId,
    /// The run that is meant, if a run or a tag of one is named: what came after it counts as later.
    run: Option<RunId>,
}

/// The change of files that takes a site back to a revision.
pub struct FilesBack {
    /// The files that differ: as they are at `HEAD`, and as they were.
    files: BTreeMap<Arc<str>, [Option<BlobId>; 2]>,
    /// Files that differ and stay, since they guard the site.
    pub kept: Vec<Arc<str>>,
    /// The other sites that have any of the files that go back.
    pub shared_with: Vec<String>,
}

/// The revision of a word for the past: `successful-site-action~1`, `last-site-action~2`, a run, any revision, or a day or
/// a time, which means the last success until then.
///
/// # Errors
///
/// There is no such run or revision, or several.
pub fn past_revision(
    checkout: &Checkout<'_>,
    store: &Store<'_>,
    state: &State,
    word: &str,
    now: Timestamp,
) -> Result<PastRevision, Failure> {
    let repository = checkout.repository;
    let of_run = |run: &RunRecord| -> Result<PastRevision, Failure> {
        Ok(PastRevision {
            commit: repository.resolve(&run.revision)?,
            run: Some(run.run.clone()),
        })
    };
    let not_found = |text: String| Failure::new(FailureKind::NotFound, text);
    let runs = newest_runs(store, state)?;
    if let Some(run) = earlier(&runs, word)? {
        return of_run(run);
    }
    if asks_reflog(word) {
        let text =
            format!("`{word}` asks the reflog of this clone, which does not know what was applied");
        return Err(Failure::new(FailureKind::Usage, text)
            .hint("a day means the last success until its end: `trueup plan --to 2026-11-22`"));
    }
    let upper = word.to_ascii_uppercase();
    // A shorter text is the beginning of an id of a commit as well.
    let mut meant = runs
        .iter()
        .filter(|run| word.len() >= 8 && run.run.as_str().starts_with(&upper));
    match (meant.next(), meant.next()) {
        (Some(_), Some(_)) => {
            let message = format!("several runs begin with `{word}`");
            Err(Failure::new(FailureKind::Usage, message).hint("give more of the id"))
        }
        (Some(run), None) => of_run(run),
        (None, _) => match (checkout.resolve(word), until(word)) {
            (Ok(At::Commit(commit)), _) => Ok(PastRevision { commit, run: None }),
            (Ok(At::Worktree), _) => {
                let message = "`worktree` is no revision of the past".to_owned();
                Err(Failure::new(FailureKind::Usage, message))
            }
            (Err(failure), None) => Err(failure
                .hint("a day is written `2026-11-22`, a time with its zone: `2026-11-22T18:00Z`")),
            (Err(_), Some((begin, _))) if begin > now => {
                let message =
                    format!("`{word}` is in the future, and the way back leads to the past");
                Err(Failure::new(FailureKind::Usage, message).hint("`trueup log` lists the runs"))
            }
            (Err(_), Some((_, until))) => match last_success(&runs, until) {
                Some(run) => of_run(run),
                None => Err(not_found(format!(
                    "no run of site `{}` had succeeded by {until}",
                    checkout.location.site
                ))
                .hint("`trueup log` lists the runs")),
            },
        },
    }
}

/// Whether a word asks a reflog for a time: it answers with the oldest commit that it has where it does not go back so far.
fn asks_reflog(word: &str) -> bool {
    let Some((_, at)) = word.split_once("@{") else {
        return false;
    };
    let at = at.split_once('}').map_or(at, |(at, _)| at);
    let is_number = at
        .trim_start_matches('-')
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    let is_branch = ["u", "upstream", "push"]
        .iter()
        .any(|each| at.eq_ignore_ascii_case(each));
    !is_number && !is_branch
}

/// The time that a word means, from its beginning to its end: a day in UTC, or one instant.
fn until(word: &str) -> Option<(Timestamp, Timestamp)> {
    if let Ok(time) = word.parse() {
        return Some((time, time));
    }
    // A day without dashes is the beginning of an id of a commit as well, and a time without its zone is no day.
    let is_day = word.len() == "2026-11-22".len() && word.contains('-');
    let day: Date = is_day.then(|| word.parse().ok()).flatten()?;
    let [begin, end] = [day, day.tomorrow().ok()?].map(|day| day.to_zoned(TimeZone::UTC));
    Some((begin.ok()?.timestamp(), end.ok()?.timestamp()))
}

/// The last run of a site that had succeeded by a time.
fn last_success(runs: &[RunRecord], until: Timestamp) -> Option<&RunRecord> {
    let has_ended = |run: &&RunRecord| {
        let ended = run.ended.as_deref().and_then(|ended| ended.parse().ok());
        ended.is_some_and(|ended: Timestamp| ended <= until)
    };
    let succeeded = |run: &&RunRecord| run.tag.is_some() && is_successful(run);
    runs.iter().rev().filter(succeeded).find(has_ended)
}

/// The way back to a commit, of which a plan was made.
///
/// # Errors
///
/// The records cannot be read.
pub fn way_back(
    site: &SiteRepository<'_>,
    (store, state): (&Store<'_>, &State),
    (target, files): (&PastRevision, &FilesBack),
    planned: (&Plan, &Guarded),
) -> Result<WayBack, Failure> {
    let (plan, guarded) = planned;
    let guards = guarded.guards();
    let mut runs = newest_runs(store, state)?;
    let revision = target.commit.to_string();
    let is_meant = |run: &RunRecord| match &target.run {
        Some(meant) => run.run == *meant,
        // What an action on single nodes did at that revision came after the revision was applied.
        None => *run.revision == *revision && Action::named(&run.action) == Some(Action::Update),
    };
    let applied = runs.iter().rposition(is_meant);
    let since = &mut runs[applied.map_or(0, |last| last + 1)..];
    let unfinished = unfinished_run(site)?;
    let mut losses = Vec::new();
    for run in since.iter_mut() {
        let Some(report) = report_now(site, (store, state), run, unfinished.as_ref())? else {
            continue;
        };
        let touched = report
            .nodes
            .iter()
            .filter(|node| node.completion() != Completion::NotStarted);
        let touched: BTreeSet<&NodeName> = touched.map(|node| &node.node).collect();
        let ended = run.ended.clone().unwrap_or_else(|| run.started.clone());
        let by_run = |(node, what): (NodeName, String)| WayBackLoss {
            node,
            what: Arc::from(what),
            run: Some(run.run.clone()),
            at: Some(ended.clone()),
        };
        let done = match plan_of_run(store, state, &run.run) {
            Ok(done) => done,
            Err(failure) => {
                // One of another version, for example: what it has destroyed cannot be told, and is not taken for nothing.
                let what = format!("all that the run may have destroyed: {}", failure.message);
                let all = touched.into_iter().map(|node| (node.clone(), what.clone()));
                losses.extend(all.map(by_run));
                continue;
            }
        };
        let lost = destroyed(&done, guards, |node| touched.contains(node));
        let kept = kept(&done, guarded).filter(|(node, _)| touched.contains(node));
        losses.extend(lost.chain(kept).map(by_run));
    }
    let ahead = destroyed(plan, guards, |_| true);
    losses.extend(ahead.map(|(node, what)| WayBackLoss {
        node,
        what: Arc::from(what),
        run: None,
        at: None,
    }));
    losses.sort();
    Ok(WayBack {
        target: Arc::from(revision),
        undone: since.iter().map(|run| run.run.clone()).collect(),
        was_applied: applied.is_some(),
        losses,
        kept: files.kept.clone(),
        shared_with: files
            .shared_with
            .iter()
            .map(|site| Arc::from(site.as_str()))
            .collect(),
    })
}

/// The losses of some machines by a plan.
fn destroyed<'a>(
    plan: &'a Plan,
    guards: &'a Guards,
    is_meant: impl Fn(&NodeName) -> bool + 'a,
) -> impl Iterator<Item = (NodeName, String)> + 'a {
    let changes = plan.changes.iter();
    let changes = changes.filter(move |change| {
        change.destructive && !change.excluded && !change.shown_only && is_meant(&change.node)
    });
    changes.map(move |change| {
        let mut what = Vec::new();
        if !change.disks.is_empty() {
            what.push(format!(
                "the data of {}, with all local data of pods",
                change.disks.join(", ")
            ));
        }
        what.push("the UID of its Kubernetes node".to_owned());
        let clusters = guards.etcd_clusters.iter();
        let clusters =
            clusters.filter(|cluster| cluster.members.iter().any(|it| it.node == change.node));
        what.extend(clusters.map(|cluster| format!("its member of etcd cluster {}", cluster.name)));
        (change.node.clone(), what.join("; "))
    })
}

/// The values that a plan has set by a service, or volumes that it has made, and for which the revision enforces none: they stay on their machines.
fn kept<'a>(plan: &'a Plan, site: &'a Guarded) -> impl Iterator<Item = (NodeName, String)> + 'a {
    plan.steps.iter().filter_map(|step| {
        let node = step.id.node.as_ref()?;
        let settings = step.given().settings();
        let design = site.nodes.get(node)?;
        let mut enforced = design.hardware(Section::Firmware);
        enforced.extend(design.hardware(Section::Raid));
        let is_enforced = |name: &str| enforced.iter().any(|value| *value.name == *name);
        let stays = settings.iter().filter(|each| !is_enforced(&each.name));
        let stays: Vec<String> = stays
            .map(
                |HardwareSetting {
                     name,
                     before,
                     value,
                 }| match before {
                    Some(before) => format!("{name} stays {value} (before: {before})"),
                    None => format!("{name} stays {value}"),
                },
            )
            .collect();
        let what = format!("{}: that revision enforces no value", stays.join(", "));
        (!stays.is_empty()).then(|| (node.clone(), what))
    })
}

/// Commits the site's files as of a revision on top of `HEAD`; the guards stay as they are now. The commit, and the files that it changes;
/// `None`: the files are the same.
///
/// # Errors
///
/// Files of the site, or the index, have changes that are not committed; a file cannot be written.
pub fn commit_way_back(
    checkout: &Checkout<'_>,
    FilesBack { files, .. }: &FilesBack,
    author: &Signature,
    message: &str,
) -> Result<Option<(CommitId, Vec<String>)>, Failure> {
    let repository = checkout.repository;
    let dirty = repository.dirty(&checkout.location.selection, LARGEST)?;
    if let Some(first) = dirty.first() {
        let message = format!("`{}` has changes that are not committed", first.path);
        return Err(Failure::new(FailureKind::Guard, message).hint("commit or stash them first"));
    }
    if let Some(staged) = repository.staged()? {
        let message = format!("`{staged}` is staged, and would be in the commit");
        return Err(Failure::new(FailureKind::Guard, message)
            .hint("commit it, or `git restore --staged` it, first"));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let mut paths = Vec::with_capacity(files.len());
    for (path, [_, new]) in files {
        let failed = |error: std::io::Error| {
            Failure::error(format!("`{path}` could not be written: {error}"))
        };
        let place = repository.unlinked(&repository.root().join(&**path));
        let place = place.map_err(failed)?;
        match new {
            Some(blob) => {
                let bytes = repository.read_blob(*blob)?;
                if let Some(folder) = place.parent() {
                    std::fs::create_dir_all(folder).map_err(failed)?;
                }
                let written = repository.replace_file(&place, |out| out.write_all(&bytes));
                written.map_err(failed)?;
            }
            None => std::fs::remove_file(&place).map_err(failed)?,
        }
        paths.push(path.to_string());
    }
    let commit = repository.commit_paths(author, message, &paths)?;
    Ok(Some((commit, paths)))
}

/// The commit that the way back would be, which nothing leads to; `HEAD`, if it would change no file.
///
/// # Errors
///
/// Documents cannot be read, or the commit not written.
pub fn preview_way_back(
    checkout: &Checkout<'_>,
    target: CommitId,
    FilesBack { files, .. }: &FilesBack,
    seconds: i64,
) -> Result<CommitId, Failure> {
    let head = checkout.head()?;
    let paths: Vec<Arc<str>> = files.keys().cloned().collect();
    if paths.is_empty() {
        return Ok(head);
    }
    // The commit of `--write` has its author; no reference leads to this one.
    let author = Signature {
        name: "trueup".to_owned(),
        email: "trueup@localhost".to_owned(),
        seconds,
    };
    let (repository, message) = (checkout.repository, way_back_subject(target));
    Ok(repository.commit_as_of(&author, &message, target, &paths)?)
}

/// The first line of the message of a way back.
#[must_use]
pub fn way_back_subject(target: CommitId) -> String {
    format!("Go back to {}", target.short())
}

/// The files of the site that differ between `HEAD` and a revision; its guards stay as they are, unless they are to go back,
/// too.
///
/// # Errors
///
/// Documents cannot be read; a file holds documents that go back beside guards that stay.
pub fn files_back(
    checkout: &Checkout<'_>,
    target: CommitId,
    with_guards: bool,
) -> Result<FilesBack, Failure> {
    let repository = checkout.repository;
    let mut guarding: BTreeMap<Arc<str>, [Vec<[u8; 32]>; 2]> = BTreeMap::new();
    let mut files: BTreeMap<Arc<str>, [Option<BlobId>; 2]> = BTreeMap::new();
    for (side, commit) in [checkout.head()?, target].into_iter().enumerate() {
        let location = checkout.location_at(At::Commit(commit))?;
        let mut loader = checkout.loader()?;
        for entry in loader.tree(&location, At::Commit(commit))?.entries {
            if repository.entry_at(commit, &entry.path)?.is_some() {
                files.entry(entry.path.clone()).or_default()[side] = entry.blob;
            }
        }
        if !with_guards {
            for (path, others) in guard_files(&mut loader, &location, commit)? {
                guarding.entry(path).or_default()[side] = others;
            }
        }
    }
    files.retain(|_, [old, new]| old != new);
    let (stay, files): (BTreeMap<_, _>, BTreeMap<_, _>) = files
        .into_iter()
        .partition(|(path, _)| guarding.contains_key(path));
    let kept: Vec<Arc<str>> = stay.into_keys().collect();
    let is_mixed = |path: &&Arc<str>| guarding[*path][0] != guarding[*path][1];
    let mixed: Vec<String> = kept
        .iter()
        .filter(is_mixed)
        .map(ToString::to_string)
        .collect();
    if !mixed.is_empty() {
        let text = "guards of the site stay as they are, and these files hold other documents beside them that differ:";
        return Err(Failure::new(FailureKind::Guard, text).details(mixed).hint(
            "`--with-guards` takes the guards back, too; or give them a file of their own first",
        ));
    }
    let shared_with = sharing(checkout, files.keys());
    Ok(FilesBack {
        files,
        kept,
        shared_with,
    })
}

/// The files that hold a document which guards the site, each with the digests of its other documents, sorted.
fn guard_files(
    loader: &mut Loader<'_>,
    location: &crate::site::Location,
    commit: CommitId,
) -> Result<BTreeMap<Arc<str>, Vec<[u8; 32]>>, Failure> {
    let settings = Settings {
        detail: Detail::Documents,
        ..AS_APPLIED
    };
    let site = loader.load(location, At::Commit(commit), settings)?;
    let sources = loader.sources();
    let is_guard = |document: &Document| GUARDS.contains(&&*document.id.schema);
    let (guards, others): (Vec<_>, Vec<_>) = site
        .documents
        .iter()
        .partition(|document| is_guard(document));
    let mut files: BTreeMap<Arc<str>, Vec<[u8; 32]>> = guards
        .iter()
        .map(|document| (sources.path(document.mark.source), Vec::new()))
        .collect();
    for document in others {
        if let Some(file) = files.get_mut(&sources.path(document.mark.source)) {
            file.push(document_digest(document));
        }
    }
    files
        .values_mut()
        .for_each(|digests| digests.sort_unstable());
    Ok(files)
}

/// The digest of a document as it was written.
fn document_digest(whole: &Document) -> [u8; 32] {
    let mut all = Sha256::new();
    all.update(whole.id.to_string());
    all.update(document::digest(&whole.metadata));
    all.update(document::digest(&whole.data));
    all.finalize().into()
}
