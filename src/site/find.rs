//! Where the documents of a site are, in Pegleg's layout or in one folder.
//!
//! Pegleg: `global/`, `type/<type>/`, `site/<site>/` in one folder, each site with its
//! `site-definition.yaml`. Flat: a folder that holds `site-definition.yaml`. Looked for from the
//! current folder upward; if nothing is found, in the whole repository.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::design::{SiteName, name_problem};
use crate::diagnostic::SourceId;
use crate::document::{Limits, decode, load_values};
use crate::repository::{self, Elsewhere, Entry, Repository, Selection};

use super::{At, Error, Location};

const DEFINITION: &str = "site-definition.yaml";

/// Reads folders and files at one revision.
pub(super) struct View<'a> {
    pub(super) repository: &'a Repository,
    pub(super) at: At,
}

impl View<'_> {
    /// A file as every other of a site is read: by the same rules for links, kinds and sizes.
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let selection = Selection::below([path]);
        let tree = match self.at {
            At::Commit(commit) => self.repository.tree_at(commit, &selection)?,
            At::Worktree => self.repository.worktree(&selection)?,
        };
        if let Some(problem) = tree.problems.into_iter().find(|each| &*each.path == path) {
            return Err(Error::Repository(repository::Error::Unusable {
                path: problem.path.to_string(),
                reason: problem.reason,
            }));
        }
        let Some(entry) = tree.entries.iter().find(|each| &*each.path == path) else {
            return Ok(None);
        };
        self.read(entry).map(Some)
    }

    fn read(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        let limit = Limits::default().file_bytes as u64;
        Ok(self.repository.read(entry, limit)?.bytes)
    }

    pub(super) fn folders(&self, path: &str) -> Result<Vec<String>, Error> {
        match self.at {
            At::Commit(commit) => Ok(self.repository.folders_in(commit, path)?),
            At::Worktree => Ok(self.repository.worktree_folders(path)?),
        }
    }
}

/// The content of a `site-definition.yaml`.
#[derive(Default)]
struct Definition {
    name: Option<String>,
    site_type: Option<String>,
    /// The labels of the document.
    labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The other repositories that hold documents of the site, and at which revisions.
    repositories: Vec<(String, Option<String>)>,
}

fn read_definition(bytes: &[u8]) -> Definition {
    let limits = Limits::default();
    let Ok(text) = decode(DEFINITION, bytes, &limits) else {
        return Definition::default();
    };
    let (documents, _) = load_values(SourceId(u32::MAX), &text, &limits);
    let Some(document) = documents.first() else {
        return Definition::default();
    };
    let text = |keys: &[&str]| {
        let node = document.at(keys)?;
        Some(node.as_str()?.to_owned())
    };
    let repositories = document.at(&["data", "repositories"]);
    let repositories = repositories.and_then(|node| node.as_map());
    let repositories = repositories.into_iter().flat_map(|map| map.iter());
    let repositories = repositories.map(|(key, field)| {
        let revision = field.node.get("revision").and_then(|node| node.as_str());
        (key.text.to_string(), revision.map(str::to_owned))
    });
    let labels = document.at(&["metadata", "labels"]);
    let labels = labels.and_then(|node| node.as_map());
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(key, field)| {
        let value = field.node.scalar_text()?;
        Some((key.text.clone(), Arc::from(value.as_ref())))
    });
    Definition {
        labels: labels.collect(),
        name: text(&["metadata", "name"]),
        site_type: text(&["data", "site_type"]),
        repositories: repositories.collect(),
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn parent(folder: &str) -> Option<&str> {
    if folder.is_empty() {
        return None;
    }
    Some(folder.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// The folder that holds `site/`, if a path is a site's folder in Pegleg's layout.
fn pegleg_base(folder: &str) -> Option<&str> {
    let sites = parent(folder)?;
    let name = sites.rsplit_once('/').map_or(sites, |(_, name)| name);
    if name == "site" { parent(sites) } else { None }
}

/// The folder of the types of sites, in Pegleg's layout.
fn types_below(base: &str) -> String {
    join(base, "type")
}

/// The folder of the types of a site; `None` if it is flat.
pub(super) fn types_of(location: &Location) -> Option<String> {
    pegleg_base(parent(&location.definition)?).map(types_below)
}

/// Finds the site that is meant, in the worktree.
///
/// `from` is the current folder as a path in the repository (`""`: its top).
///
/// # Errors
///
/// Not found, or several and none was named, or another definition has its name, or git fails.
pub fn locate(
    repository: &Repository,
    from: &str,
    wanted: Option<&str>,
) -> Result<Location, Error> {
    let view = View {
        repository,
        at: At::Worktree.or_head(repository)?,
    };
    let found = nearest(&view, from, wanted)?;
    match named(&view, &found.site)? {
        definitions if definitions.len() > 1 => Err(Error::RepeatedSite {
            name: found.site.to_string(),
            definitions: definitions.into(),
        }),
        _ => Ok(found),
    }
}

/// Finds the site that [`locate`] has found, at another revision. There its folder tells it from another site of its name,
/// so that a repository that once had two of them can be put in order.
///
/// # Errors
///
/// Not found there, or git fails.
pub fn locate_at(
    repository: &Repository,
    at: At,
    folder: &str,
    site: &SiteName,
) -> Result<Location, Error> {
    nearest(&View { repository, at }, folder, Some(site.as_str())).map_err(|error| match error {
        Error::UnknownSite { wanted, sites } if at != At::Worktree => Error::NotThere {
            site: wanted,
            at: at.to_string(),
            sites,
        },
        other => other,
    })
}

/// The error for a repository without a site.
fn no_site(view: &View<'_>, from: &str) -> Result<Error, Error> {
    let has_branches = || -> Result<bool, Error> {
        let found = ["refs/heads", "refs/remotes"].map(|folder| view.repository.refs(folder));
        let [here, there] = found;
        Ok(!here?.is_empty() || !there?.is_empty())
    };
    Ok(Error::NoSite {
        from: from.to_owned(),
        is_unborn: view.repository.head()?.is_none() && has_branches()?,
    })
}

/// Finds the site that is meant, from a folder upward, then anywhere.
fn nearest(view: &View<'_>, from: &str, wanted: Option<&str>) -> Result<Location, Error> {
    let mut folder = Some(from);
    while let Some(here) = folder {
        let sites = sites_around(view, here)?;
        if !sites.is_empty() {
            match choose(&sites, here, wanted) {
                Err(Error::UnknownSite { .. }) if !here.is_empty() => {}
                chosen => return locate_in(view, &chosen?),
            }
        }
        folder = parent(here);
    }
    let sites = all_sites(view)?;
    if sites.is_empty() {
        return Err(no_site(view, if from.is_empty() { "." } else { from })?);
    }
    locate_in(view, &choose(&sites, "", wanted)?)
}

/// The names of the sites among which one is found from a folder, sorted.
///
/// # Errors
///
/// Git fails.
pub fn site_names(repository: &Repository, at: At, from: &str) -> Result<Vec<String>, Error> {
    let at = at.or_head(repository)?;
    let view = View { repository, at };
    let mut folder = Some(from);
    while let Some(here) = folder {
        let sites = sites_around(&view, here)?;
        if !sites.is_empty() {
            return Ok(sites.into_keys().collect());
        }
        folder = parent(here);
    }
    Ok(all_sites(&view)?.into_keys().collect())
}

/// The folders of the sites that a folder is, or is the base of, by name.
fn sites_around(view: &View<'_>, folder: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut sites = BTreeMap::new();
    if let Some(bytes) = view.file(&join(folder, DEFINITION))? {
        sites.insert(site_name(folder, &bytes), folder.to_owned());
        return Ok(sites);
    }
    let base = join(folder, "site");
    for name in view.folders(&base)? {
        let site = join(&base, &name);
        if view.file(&join(&site, DEFINITION))?.is_some() {
            sites.insert(name, site);
        }
    }
    Ok(sites)
}

fn all_sites(view: &View<'_>) -> Result<BTreeMap<String, String>, Error> {
    let mut sites = BTreeMap::new();
    for entry in definitions(view)? {
        let folder = parent(&entry.path).unwrap_or_default();
        let bytes = view.read(&entry)?;
        sites.insert(site_name(folder, &bytes), folder.to_owned());
    }
    Ok(sites)
}

/// The definitions of the sites of a name, sorted by path.
fn named(view: &View<'_>, site: &SiteName) -> Result<Vec<String>, Error> {
    let mut paths = match view.at {
        At::Worktree => view.repository.worktree_files_called(DEFINITION),
        At::Commit(_) => {
            let entries = definitions(view)?.into_iter();
            entries.map(|entry| entry.path.to_string()).collect()
        }
    };
    paths.retain(|path| {
        // One that cannot be read has the name of its folder, and is of no site that works.
        let bytes = view.file(path).ok().flatten().unwrap_or_default();
        site_name(parent(path).unwrap_or_default(), &bytes) == site.as_str()
    });
    Ok(paths)
}

/// All definitions of sites, sorted by path.
fn definitions(view: &View<'_>) -> Result<Vec<Entry>, Error> {
    let everything = Selection::everything();
    let tree = match view.at {
        At::Worktree => view.repository.worktree(&everything)?,
        At::Commit(commit) => view.repository.tree_at(commit, &everything)?,
    };
    let entries = tree.entries.into_iter();
    Ok(entries
        .filter(|entry| entry.path.rsplit('/').next() == Some(DEFINITION))
        .collect())
}

/// A definition of a site, and where the files of the site are.
#[derive(Debug)]
pub struct FoundSite {
    /// Its name; that of its folder where the definition cannot be read.
    pub name: String,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// The labels of its definition.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Where its files are, or why it cannot be loaded.
    pub location: Result<Location, Error>,
}

/// Finds all sites of a repository, sorted by name and definition. A site that cannot be located is among them.
///
/// # Errors
///
/// There is none, or git fails.
pub fn locate_all(repository: &Repository, at: At) -> Result<Vec<FoundSite>, Error> {
    let at = at.or_head(repository)?;
    let view = View { repository, at };
    let mut all = Vec::new();
    for entry in definitions(&view)? {
        let folder = parent(&entry.path).unwrap_or_default();
        let bytes = view.read(&entry);
        let text = bytes.as_ref().map(Vec::as_slice).unwrap_or_default();
        all.push((site_name(folder, text), entry.path.clone(), bytes));
    }
    if all.is_empty() {
        return Err(no_site(&view, ".")?);
    }
    all.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, path, _) in &all {
        named
            .entry(name.clone())
            .or_default()
            .push(path.to_string());
    }
    let named: BTreeMap<String, Arc<[String]>> = named
        .into_iter()
        .map(|(name, paths)| (name, paths.into()))
        .collect();
    let found = all.into_iter().map(|(name, definition, bytes)| {
        let definitions = &named[&name];
        let folder = parent(&definition).unwrap_or_default();
        let labels = bytes.as_ref().map(|bytes| read_definition(bytes).labels);
        let labels = labels.unwrap_or_default();
        let location = match bytes {
            Err(error) => Err(error),
            Ok(_) if definitions.len() > 1 => Err(Error::RepeatedSite {
                name: name.clone(),
                definitions: definitions.clone(),
            }),
            Ok(bytes) => located(&view, &name, folder, &|| Ok(read_definition(&bytes))),
        };
        FoundSite {
            name,
            definition,
            labels,
            location,
        }
    });
    Ok(found.collect())
}

/// The site of the worktree among whose files those of a folder would be, though it is not the folder of that site itself.
#[must_use]
pub fn site_around(repository: &Repository, folder: &Path) -> Option<FoundSite> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    let rest = folder.strip_prefix(existing).ok()?;
    let folder = existing.canonicalize().ok()?.join(rest);
    let below = folder.strip_prefix(repository.root().canonicalize().ok()?);
    let below = below.ok()?.to_str()?.to_owned();
    // What is hidden is of no site.
    if repository.is_bare() || below.split('/').any(|part| part.starts_with('.')) {
        return None;
    }
    let found = locate_all(repository, At::Worktree).unwrap_or_default();
    found.into_iter().find(|site| {
        let selected = site.location.as_ref().map(|it| it.selection.prefixes());
        parent(&site.definition).unwrap_or_default() != below
            && selected.unwrap_or_default().iter().any(|folder| {
                folder.is_empty()
                    || below
                        .strip_prefix(&**folder)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    })
}

/// Whether the sites of a folder are in Pegleg's layout, whose documents are in layers.
#[must_use]
pub fn is_layered(folder: &str) -> bool {
    pegleg_base(folder).is_some()
}

/// Pegleg's sites are named by their folder, others by their definition.
fn site_name(folder: &str, definition: &[u8]) -> String {
    let last = folder.rsplit_once('/').map_or(folder, |(_, last)| last);
    if pegleg_base(folder).is_some() {
        return last.to_owned();
    }
    let named = read_definition(definition).name;
    named.unwrap_or_else(|| {
        if last.is_empty() {
            "site".to_owned()
        } else {
            last.to_owned()
        }
    })
}

fn choose(
    sites: &BTreeMap<String, String>,
    here: &str,
    wanted: Option<&str>,
) -> Result<(String, String), Error> {
    let names = || sites.keys().cloned().collect();
    match wanted {
        Some(wanted) => match sites.get(wanted) {
            Some(folder) => Ok((wanted.to_owned(), folder.clone())),
            None => Err(Error::UnknownSite {
                wanted: wanted.to_owned(),
                sites: names(),
            }),
        },
        None => {
            let inside = sites.iter().find(|(_, folder)| *folder == here);
            match inside.or_else(|| (sites.len() == 1).then(|| sites.iter().next()).flatten()) {
                Some((name, folder)) => Ok((name.clone(), folder.clone())),
                None => Err(Error::SeveralSites { sites: names() }),
            }
        }
    }
}

fn locate_in(view: &View<'_>, (name, folder): &(String, String)) -> Result<Location, Error> {
    located(view, name, folder, &|| {
        let bytes = view.file(&join(folder, DEFINITION))?;
        Ok(bytes
            .map(|bytes| read_definition(&bytes))
            .unwrap_or_default())
    })
}

/// Where the files of a site are, by its definition.
fn located(
    view: &View<'_>,
    name: &str,
    folder: &str,
    definition: &dyn Fn() -> Result<Definition, Error>,
) -> Result<Location, Error> {
    if let Some(problem) = name_problem(name) {
        return Err(Error::BadName {
            definition: join(folder, DEFINITION),
            name: name.to_owned(),
            problem,
        });
    }
    let path = join(folder, DEFINITION);
    let base = pegleg_base(folder);
    let selection = match base {
        None => Selection::below([folder]).beside(elsewhere(view, name, &[], &[])?),
        Some(base) => {
            let Definition {
                site_type,
                repositories,
                ..
            } = definition()?;
            let mut folders = vec!["global".to_owned(), format!("site/{name}")];
            if let Some(site_type) = site_type
                && name_problem(&site_type).is_none()
            {
                folders.push(format!("type/{site_type}"));
            }
            let own = folders.iter().map(|folder| join(base, folder));
            Selection::below(own).beside(elsewhere(view, name, &repositories, &folders)?)
        }
    };
    Ok(Location {
        site: SiteName::from(name),
        definition: Arc::from(path),
        is_flat: base.is_none(),
        selection,
    })
}

/// The files of the other repositories that were given: those in the same folders, below the top of each.
fn elsewhere(
    view: &View<'_>,
    site: &str,
    named: &[(String, Option<String>)],
    folders: &[String],
) -> Result<Vec<Elsewhere>, Error> {
    let mut selected = Vec::new();
    for other in view.repository.others() {
        let repository = || other.name.to_string();
        let Some((_, revision)) = named.iter().find(|(name, _)| **name == *other.name) else {
            return Err(Error::UnknownRepository {
                site: site.to_owned(),
                repository: repository(),
                known: named.iter().map(|(name, _)| name.clone()).collect(),
            });
        };
        let Some(revision) = other.revision.as_ref().or(revision.as_ref()) else {
            return Err(Error::NoRevision {
                repository: repository(),
            });
        };
        let broken = |source| Error::OtherRepository {
            repository: repository(),
            source,
        };
        let commit = other.resolve(revision).map_err(broken)?;
        let selection = Selection::below(folders);
        let found = other.select(commit, selection).map_err(broken)?;
        selected.push(found.ok_or_else(|| Error::NothingThere {
            repository: repository(),
            revision: revision.clone(),
            folders: folders.to_vec(),
        })?);
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_holds_site_is_the_base_of_peglegs_layout() {
        assert_eq!(pegleg_base("site/north"), Some(""));
        assert_eq!(pegleg_base("airship/site/north"), Some("airship"));
        assert_eq!(pegleg_base("north"), None);
        assert_eq!(pegleg_base(""), None);
        assert_eq!(pegleg_base("sites/north"), None);
    }

    #[test]
    fn a_definition_that_cannot_be_read_says_nothing() {
        let definition = read_definition(b"{{{");
        assert!(definition.name.is_none() && definition.site_type.is_none());
    }
}
