//! Several sites of one repository: which are meant, and their documents, one batch after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Checkout, Failure, FailureKind};
use crate::repository::{CommitId, Repository, Selection, TouchedFile};
use crate::site::{At, FoundSite, Loader, Location, Settings, Site, locate_all};

/// Files by which it is shown why a site is affected.
const SHOWN: usize = 3;

/// Which sites are meant.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of the repository.
    All,
    /// Those with a file that a commit of a range touches: `REV..REV`, or `NAME=REV..REV` of another repository.
    AffectedBy(String),
}

/// One of several sites.
pub struct SiteOfMany<'a> {
    /// Its name.
    pub name: String,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// The site; or why it cannot be loaded.
    pub checkout: Result<Checkout<'a>, Failure>,
    /// Why it is affected, if that was asked for.
    pub touched: Option<Touched>,
}

impl<'a> SiteOfMany<'a> {
    /// A site that was found at a revision.
    #[must_use]
    pub fn of(repository: &'a Repository, found: &FoundSite, backends_from: Option<&str>) -> Self {
        let located = found.location.as_ref();
        let located = located.map_err(|error| Failure::error(error.to_string()));
        let checkout = |location: &Location| {
            Checkout::of(
                repository,
                location.clone(),
                backends_from.map(str::to_owned),
            )
        };
        Self {
            name: found.name.clone(),
            definition: found.definition.clone(),
            checkout: located.map(checkout),
            touched: None,
        }
    }
}

/// The files of a site that commits touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The first few, each with the newest commit that touches it.
    pub files: Vec<(Arc<str>, CommitId)>,
    /// How many there are.
    pub number: usize,
}

/// The sites that are meant, sorted by name; `backends_from`: as [`Checkout::find`] has it; `judged`: the commit whose documents
/// they are judged by, which has to have the commits of the range.
///
/// # Errors
///
/// There is no site, the range names no commits, or git fails. A site that cannot be located is among the sites.
pub fn sites<'a>(
    repository: &'a Repository,
    scope: &Scope,
    backends_from: Option<&str>,
    judged: Option<CommitId>,
) -> Result<Vec<SiteOfMany<'a>>, Failure> {
    let found = locate_all(repository, At::Worktree)?;
    let reasons = match scope {
        Scope::All => None,
        Scope::AffectedBy(text) => {
            let range = Range::parse(repository, text)?;
            if let Some(judged) = judged.filter(|_| range.name.is_none())
                && !repository.is_ancestor(range.to, judged)?
            {
                let (end, judged) = (range.to.short(), judged.short());
                let message = format!(
                    "`--affected-by {text}` ends at {end}, which is no part of {judged}: its sites would be judged without these commits"
                );
                let hint = format!("`git switch --detach {end}` first, or `--rev {end}`");
                return Err(Failure::new(FailureKind::Usage, message).hint(hint));
            }
            Some(range.reasons(&found)?)
        }
    };
    let mut reasons = reasons.map(Vec::into_iter);
    let sites = found.into_iter().filter_map(|found| {
        let touched = reasons.as_mut().map(|all| all.next().unwrap_or_default());
        if touched.as_ref().is_some_and(|touched| touched.number == 0) {
            return None;
        }
        let located = found.location.map_err(Failure::from);
        let checkout =
            |location| Checkout::of(repository, location, backends_from.map(str::to_owned));
        Some(SiteOfMany {
            name: found.name,
            definition: found.definition,
            checkout: located.map(checkout),
            touched,
        })
    });
    Ok(sites.collect())
}

/// Commits of this repository, or of another one.
struct Range<'a> {
    repository: &'a Repository,
    /// The other repository, if it is not this one.
    name: Option<String>,
    from: CommitId,
    to: CommitId,
}

impl<'a> Range<'a> {
    fn parse(repository: &'a Repository, text: &str) -> Result<Self, Failure> {
        let refused = |why: &str| {
            let message = format!("`--affected-by {text}`: {why}");
            Failure::new(FailureKind::Usage, message)
                .hint("name the commits as git does: `REV..REV`, what comes after the first up to the second")
        };
        let (name, revisions) = match text.split_once('=') {
            Some((name, revisions)) => (Some(name), revisions),
            None => (None, text),
        };
        let Some((from, to)) = revisions.split_once("..") else {
            return Err(refused("this is no range of commits"));
        };
        if to.starts_with('.') || to.contains("..") {
            return Err(refused("a range has two dots and two ends"));
        }
        // A variable of a pipeline that is not set would mean `HEAD..HEAD`: no site.
        if from.is_empty() {
            return Err(refused("the range names no commit in front of the dots"));
        }
        let to = match to {
            "" => "HEAD",
            to => to,
        };
        let Some(name) = name else {
            let resolve = |revision: &str| {
                let resolved = repository.resolve(revision).map_err(Failure::from);
                resolved.map_err(|failure| match repository.is_shallow() {
                    Ok(true) => failure
                        .hint("this clone is shallow: `git fetch --unshallow` fetches its history"),
                    _ => failure,
                })
            };
            return Ok(Self {
                repository,
                name: None,
                from: resolve(from)?,
                to: resolve(to)?,
            });
        };
        let mut others = repository.others().iter();
        let Some(other) = others.find(|other| *other.name == *name) else {
            return Err(refused(&format!(
                "repository `{name}` is not given with `--repository {name}=PATH`"
            )));
        };
        Ok(Self {
            repository,
            name: Some(name.to_owned()),
            from: other.resolve(from)?,
            to: other.resolve(to)?,
        })
    }

    /// For each site, which of its files are touched.
    fn reasons(&self, found: &[FoundSite]) -> Result<Vec<Touched>, Failure> {
        let Some(name) = &self.name else {
            let touched = self.repository.touched_between(self.from, self.to)?;
            let mut files = TouchedFiles::new(touched);
            files.find_linked(self, found)?;
            let reasons = found.iter().map(|site| files.of(site));
            return Ok(reasons.collect());
        };
        let mut others = self.repository.others().iter();
        let other = others.find(|other| *other.name == **name);
        let touched = match other {
            Some(other) => other.touched_between(self.from, self.to)?,
            None => Vec::new(),
        };
        let mut files = TouchedFiles::new(touched);
        let reasons = found.iter().map(|site| files.of_other(site, name));
        Ok(reasons.collect())
    }
}

/// The files that commits touch, and those of each folder of a site.
struct TouchedFiles {
    /// Sorted by path.
    files: Vec<TouchedFile>,
    /// By a folder, and whether it is of a flat site.
    below: FxHashMap<(Arc<str>, bool), Arc<Vec<usize>>>,
    /// By the definition of a site: those that links of it lead to.
    linked: FxHashMap<Arc<str>, Vec<usize>>,
}

impl TouchedFiles {
    fn new(files: Vec<TouchedFile>) -> Self {
        Self {
            files,
            below: FxHashMap::default(),
            linked: FxHashMap::default(),
        }
    }

    fn position(&self, path: &str) -> Option<usize> {
        self.files
            .binary_search_by(|file| (*file.path).cmp(path))
            .ok()
    }

    /// The touched files of a folder, and the touched links that lead into it.
    fn below(&mut self, folder: &Arc<str>, is_flat: bool) -> Arc<Vec<usize>> {
        let key = (folder.clone(), is_flat);
        if let Some(known) = self.below.get(&key) {
            return known.clone();
        }
        let inside = match &**folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let start = self.files.partition_point(|file| *file.path < *inside);
        let from_there = self.files.iter().enumerate().skip(start);
        let inside = from_there.take_while(|(_, file)| file.path.starts_with(&inside));
        let itself = self.position(folder).map(|at| (at, &self.files[at]));
        let selection = Selection::below([folder]);
        let selected = inside.chain(itself).filter(|(_, file)| {
            selection.is_touched(&file.path, file.is_link)
                && !Location::is_left_out(is_flat, &file.path)
        });
        let mut found: Vec<usize> = selected.map(|(at, _)| at).collect();
        let above = folder.match_indices('/').map(|(end, _)| &folder[..end]);
        let links = above.filter_map(|above| self.position(above));
        found.extend(links.filter(|at| self.files[*at].is_link));
        let found = Arc::new(found);
        self.below.insert(key, found.clone());
        found
    }

    /// Finds the touched files that links of the sites lead to, at either end of the range.
    fn find_linked(&mut self, range: &Range<'_>, found: &[FoundSite]) -> Result<(), Failure> {
        if self.files.is_empty() {
            return Ok(());
        }
        let located = || found.iter().filter_map(|site| site.location.as_ref().ok());
        let own = |site: &Location| Selection::below(site.selection.prefixes());
        let selections: Vec<Selection> = located().map(own).collect();
        for revision in [range.from, range.to] {
            let listings = range
                .repository
                .listings(Some(revision), selections.iter())?;
            for (site, selection) in located().zip(&selections) {
                // A site that cannot be listed at an end is affected by what it has at the other.
                let Ok(tree) = range.repository.tree_of(&listings, selection) else {
                    continue;
                };
                let linked = tree
                    .entries
                    .iter()
                    .filter(|entry| entry.place() != &*entry.path);
                let touched = linked.filter_map(|entry| self.position(entry.place()));
                let touched: Vec<usize> = touched.collect();
                if !touched.is_empty() {
                    let known = self.linked.entry(site.definition.clone()).or_default();
                    known.extend(touched);
                }
            }
        }
        Ok(())
    }

    fn of(&mut self, site: &FoundSite) -> Touched {
        let (folders, is_flat) = match &site.location {
            Ok(location) => (location.selection.prefixes().to_vec(), location.is_flat),
            // What is known of it is where its definition is.
            Err(_) => (vec![site.definition.clone()], true),
        };
        let linked = self.linked.get(&site.definition).cloned();
        self.shown(&folders, is_flat, linked.unwrap_or_default(), "")
    }

    fn of_other(&mut self, site: &FoundSite, name: &str) -> Touched {
        let Ok(location) = &site.location else {
            return Touched::default();
        };
        let mut elsewhere = location.selection.elsewhere().iter();
        let Some(other) = elsewhere.find(|other| *other.name == *name) else {
            return Touched::default();
        };
        let folders = other.selection.prefixes().to_vec();
        self.shown(&folders, false, Vec::new(), &format!("{name}:"))
    }

    fn shown(
        &mut self,
        folders: &[Arc<str>],
        is_flat: bool,
        linked: Vec<usize>,
        repository: &str,
    ) -> Touched {
        let below: Vec<_> = folders
            .iter()
            .map(|each| self.below(each, is_flat))
            .collect();
        // A link may be above several folders, or lead into one of them.
        let mut all: FxHashSet<usize> = linked.into_iter().collect();
        all.extend(below.iter().flat_map(|each| each.iter().copied()));
        let mut first: Vec<usize> = all.iter().copied().collect();
        first.sort_unstable();
        let files = first.into_iter().take(SHOWN).map(|at| {
            let file = &self.files[at];
            let path = match repository {
                "" => file.path.clone(),
                _ => Arc::from(format!("{repository}{}", file.path)),
            };
            (path, file.commit)
        });
        Touched {
            files: files.collect(),
            number: all.len(),
        }
    }
}

/// The files of a site at a revision.
pub type Revision = Result<(At, Location), Failure>;

/// The same revision of each site.
#[must_use]
pub fn revisions(sites: &[SiteOfMany<'_>], word: &str) -> Vec<Revision> {
    let mut common: Option<(At, Located)> = None;
    let sites = sites.iter().map(|site| {
        let checkout = site.checkout.as_ref().map_err(Clone::clone)?;
        if Checkout::is_of_site(word) {
            let at = checkout.resolve(word)?;
            return Ok((at, checkout.location_at(at)?));
        }
        let (at, located) = match &common {
            Some(common) => common,
            None => {
                let at = checkout.resolve(word)?;
                common.insert((at, located(checkout.repository, at)))
            }
        };
        let location = match located.get(&site.definition) {
            Some(location) if location.site == checkout.location.site => location.clone(),
            _ => checkout.location_at(*at)?,
        };
        Ok((*at, location))
    });
    sites.collect()
}

/// Sites by their definition.
type Located = FxHashMap<Arc<str>, Location>;

/// The sites that are found at a commit; each of the others is looked for alone.
fn located(repository: &Repository, at: At) -> Located {
    if at == At::Worktree {
        return Located::default();
    }
    let found = locate_all(repository, at).unwrap_or_default();
    let found = found.into_iter();
    found
        .filter_map(|site| Some((site.definition, site.location.ok()?)))
        .collect()
}

/// Visits each site: its position, the site or why it cannot be loaded, and the loader, which has the texts.
pub type Visit<'v, 'a> = &'v mut dyn FnMut(usize, Loaded, &mut Loader<'a>);

/// A site that was loaded, or why it cannot be.
pub type Loaded = Result<Site, Failure>;

/// Loads sites, some at a time, and visits each, in no order.
pub fn load_each<'a>(
    loader: &mut Loader<'a>,
    revisions: Vec<Revision>,
    settings: Settings,
    visit: Visit<'_, 'a>,
) {
    let mut located: BTreeMap<At, Vec<(usize, Location)>> = BTreeMap::new();
    for (position, revision) in revisions.into_iter().enumerate() {
        match revision {
            Ok((at, location)) => located.entry(at).or_default().push((position, location)),
            Err(failure) => visit(position, Err(failure), loader),
        }
    }
    for (at, sites) in located {
        if let Err(error) = loader.list_all(sites.iter().map(|(_, site)| site), at) {
            // Each fails as it does alone.
            log::debug!("the sites at {at} are listed one by one: {error}");
        }
        for some in sites.chunks(Loader::TOGETHER) {
            let locations: Vec<&Location> = some.iter().map(|(_, location)| location).collect();
            let loaded = loader.load_all(&locations, at, settings);
            for ((position, _), site) in some.iter().zip(loaded) {
                visit(*position, site.map_err(Failure::from), loader);
            }
        }
    }
}
