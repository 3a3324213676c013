//! Problems of a site as a whole: names in its definition that were not found, and files of another tool.
//!
//! Nearly everything else that is found in such a site follows from them, and is left out.

use std::sync::Arc;

use super::find::{View, types_of};
use super::wanted::Wanted;
use super::{Error, SiteFile};
use crate::design;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{Document, LoadedFile};
use crate::repository::{Entry, Repository, Tree};

/// Files by which kustomize knows its folders.
const KUSTOMIZE: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The problems of a site, or instead of them those of the site as a whole.
pub(super) fn judged(
    mut found: Diagnostics,
    repository: &Repository,
    wanted: &Wanted<'_>,
    tree: &Tree,
    content: (&[SiteFile], &[Arc<LoadedFile>]),
) -> Result<Diagnostics, Error> {
    let definition = definition(wanted, content);
    found.extend(match definition {
        Some(definition) => other_name(definition, wanted),
        None => no_definition(wanted, content),
    });
    let missing_type = match definition {
        Some(definition) => missing_type(definition, repository, wanted, tree)?,
        None => None,
    };
    if let Some(problem) = missing_type {
        return Ok(instead(found, vec![problem]));
    }
    if !found.has_errors() {
        return Ok(found);
    }
    let has_foreign = found
        .iter()
        .any(|each| each.code.0.starts_with("envelope-"));
    if let Some(path) = kustomization(tree).filter(|_| has_foreign) {
        let message = "this is a file of kustomize, and the documents beside it are not a site's";
        let problem = Diagnostic::error_in("file-other-tool", Some(path), message)
            .hint("documents of a site have `schema`, `metadata` and `data`");
        return Ok([problem].into_iter().collect());
    }
    let repositories = definition.map(|definition| missing_repositories(definition, wanted));
    let repositories = repositories.unwrap_or_default();
    Ok(match repositories.is_empty() || !has_follow_ons(&found) {
        true => found,
        false => instead(found, repositories),
    })
}

/// The problems of the site as a whole, and those that cannot follow from them.
fn instead(found: Diagnostics, problems: Vec<Diagnostic>) -> Diagnostics {
    let own = found.into_iter().filter(|each| !is_follow_on(each));
    problems.into_iter().chain(own).collect()
}

fn has_follow_ons(found: &Diagnostics) -> bool {
    let mut errors = found.iter().filter(|each| each.severity == Severity::Error);
    errors.any(is_follow_on)
}

/// Whether a problem may come from documents that are absent: all but those of one document alone.
fn is_follow_on(problem: &Diagnostic) -> bool {
    let code = problem.code.0;
    !["file-", "yaml-", "envelope-", "schema-"]
        .iter()
        .any(|kind| code.starts_with(kind))
}

/// The document that makes a folder a site.
fn definition<'a>(
    wanted: &Wanted<'_>,
    (files, loaded): (&[SiteFile], &'a [Arc<LoadedFile>]),
) -> Option<&'a Document> {
    let path = &wanted.location.definition;
    let position = files.iter().position(|file| file.path == *path)?;
    let documents = &loaded.get(position)?.documents;
    let mut named = documents
        .iter()
        .filter(|document| *document.id.schema == *design::SITE_DEFINITION);
    named.next().map(|document| &**document)
}

/// The warning for a site whose definition has another name than the site: the records are those of the site's name.
fn other_name(definition: &Document, wanted: &Wanted<'_>) -> Option<Diagnostic> {
    let (name, site) = (&*definition.id.name, wanted.location.site.as_str());
    let message = format!("the definition of site `{site}` has the name `{name}`");
    (name != site).then(|| {
        Diagnostic::warning("reference-site-name", definition.name_mark, message).hint(format!(
            "the site is called as its folder, and so are its records: what was applied as `{name}` is not known of `{site}`"
        ))
    })
}

/// The warning for a site whose definition was read and has no document of it, as an empty file has none.
fn no_definition(
    wanted: &Wanted<'_>,
    (files, loaded): (&[SiteFile], &[Arc<LoadedFile>]),
) -> Option<Diagnostic> {
    let (path, site) = (&wanted.location.definition, &wanted.location.site);
    let position = files.iter().position(|file| file.path == *path)?;
    let is_read = !loaded.get(position)?.diagnostics.has_errors();
    let message = format!("`{path}` has no document `{}`", design::SITE_DEFINITION);
    is_read.then(|| {
        Diagnostic::warning_in("reference-site-name", Some(path), message).hint(format!(
            "the site is called as its folder, `{site}`, and so are its records"
        ))
    })
}

/// The error for a type of site that has no folder.
fn missing_type(
    definition: &Document,
    repository: &Repository,
    wanted: &Wanted<'_>,
    tree: &Tree,
) -> Result<Option<Diagnostic>, Error> {
    let field = definition.data.get("site_type");
    let named = field.and_then(|field| Some((field, field.as_str()?)));
    let (Some((field, name)), Some(types)) = (named, types_of(wanted.location)) else {
        return Ok(None);
    };
    // Most types are there: their folder has files.
    let folder = format!("{types}/{name}/");
    let entries = &tree.entries;
    let first = entries.partition_point(|entry| *entry.path < *folder);
    let mut from_there = entries[first..].iter();
    if from_there
        .next()
        .is_some_and(|entry| entry.path.starts_with(&folder))
    {
        return Ok(None);
    }
    let view = View {
        repository,
        at: wanted.at,
    };
    let known = view.folders(&types)?;
    let is_elsewhere = |entry: &Entry| {
        let path = entry.path.split_once(':');
        let path = path.filter(|_| entry.is_elsewhere());
        path.and_then(|(_, path)| path.strip_prefix("type/")?.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let is_found = !missing_repositories(definition, wanted).is_empty()
        || tree.entries.iter().any(is_elsewhere);
    if is_found || known.iter().any(|known| known == name) {
        return Ok(None);
    }
    let message =
        format!("the type of this site is `{name}`, and there is no folder `{types}/{name}/`");
    let problem = Diagnostic::error("reference-site-type", field.mark, message);
    let problem = problem.did_you_mean(name, known.iter().map(String::as_str));
    Ok(Some(match problem.hint {
        None if !known.is_empty() => problem.hint(format!("the types are {}", known.join(", "))),
        _ => problem,
    }))
}

/// The errors for the other repositories that a site has documents in, and that were not given.
fn missing_repositories(definition: &Document, wanted: &Wanted<'_>) -> Vec<Diagnostic> {
    let given = wanted.location.selection.elsewhere();
    let repositories = definition.data.get("repositories");
    let named = repositories.and_then(|node| node.as_map());
    let named = named.into_iter().flat_map(|map| map.iter());
    let problem = |(name, mark)| {
        let message =
            format!("documents of this site may be in repository `{name}`, which is not read");
        Diagnostic::error("reference-repository", mark, message)
            .hint(format!("`--repository {name}=PATH@REV` reads its documents from a checkout of it; without, names that are missing are looked for in this repository only"))
    };
    named
        .filter(|(key, _)| given.iter().all(|each| *each.name != *key.text))
        .map(|(key, field)| problem((&*key.text, field.key_mark)))
        .collect()
}

fn kustomization(tree: &Tree) -> Option<&str> {
    let is_one = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        KUSTOMIZE.contains(&name)
    };
    let mut paths = tree.entries.iter().map(|entry| &*entry.path);
    paths.find(is_one)
}
