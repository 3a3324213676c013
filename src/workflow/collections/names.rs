//! The names of collections, which are those of files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CollectionError, Collections};
use crate::repository::{BlobId, CommitId, Mode};
use crate::site::{At, Location};

/// The longest name.
const LONGEST: usize = 100;

/// A file of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CollectionFile {
    pub(super) path: Arc<str>,
    pub(super) blob: BlobId,
    /// It is a file of this repository, and no link.
    pub(super) is_plain: bool,
}

/// The name of the collection of a file: its path in the folder of the site, else in the repository, without its
/// extension, with dots between folders. `None` if the file is none of a collection.
fn name_of(folder: &str, location: &Location, path: &str) -> Option<String> {
    if *location.definition == *path || Location::is_left_out(location.is_flat, path) {
        return None;
    }
    let below = match folder {
        "" => Some(path),
        folder => path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/')),
    };
    let path = below.unwrap_or(path);
    let stem = path.strip_suffix(".yaml").or(path.strip_suffix(".yml"))?;
    Some(stem.replace('/', "."))
}

/// Checks the name of a collection that is put in.
pub(super) fn check_name(name: &str) -> Result<(), CollectionError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = !name.is_empty()
        && name.len() <= LONGEST
        && name.bytes().all(is_plain)
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && name != "site-definition";
    match is_name {
        true => Ok(()),
        false => Err(CollectionError::Refused(format!(
            "a collection is named by letters, digits, `-`, `_` and `.`, at most {LONGEST}, and not `site-definition`"
        ))),
    }
}

impl Collections<'_> {
    /// The files of a commit by their collections.
    pub(super) fn files(
        &self,
        commit: CommitId,
    ) -> Result<BTreeMap<String, Vec<CollectionFile>>, CollectionError> {
        let location = self.checkout.location_at(At::Commit(commit))?;
        let tree = self
            .checkout
            .repository
            .tree_at(commit, &location.selection)?;
        let mut files: BTreeMap<String, Vec<CollectionFile>> = BTreeMap::new();
        for entry in tree.entries {
            let name = name_of(self.folder(), &location, &entry.path);
            let (Some(name), Some(blob)) = (name.filter(|_| !entry.is_elsewhere()), entry.blob)
            else {
                continue;
            };
            let file = CollectionFile {
                is_plain: entry.mode != Mode::Link && entry.place() == &*entry.path,
                path: entry.path,
                blob,
            };
            files.entry(name).or_default().push(file);
        }
        Ok(files)
    }

    /// The file of a collection that is put in: the one that is there, or a new one.
    pub(super) fn file_for(&self, name: &str, at: CommitId) -> Result<String, CollectionError> {
        check_name(name)?;
        let mut files = self.files(at)?;
        match files.remove(name).as_deref() {
            None if self.folder().is_empty() => Ok(format!("{name}.yaml")),
            None => Ok(format!("{}/{name}.yaml", self.folder())),
            Some([file]) if file.is_plain => Ok(file.path.to_string()),
            Some(_) => Err(CollectionError::Refused(format!(
                "the collection `{name}` is several files, or a link: it is changed in git"
            ))),
        }
    }

    /// The names of the collections of some paths.
    pub(super) fn names<'p>(&self, paths: impl IntoIterator<Item = &'p String>) -> Vec<String> {
        let location = &self.checkout.location;
        let names = paths
            .into_iter()
            .filter_map(|path| name_of(self.folder(), location, path));
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Selection;

    #[test]
    fn a_collection_is_named_by_its_file_below_the_folder_of_the_site() {
        let location = |definition: &str| Location {
            site: "edge".into(),
            definition: definition.into(),
            is_flat: true,
            selection: Selection::everything(),
        };
        let flat = location("site-definition.yaml");
        let name = |path: &str| name_of("", &flat, path);
        assert_eq!(name("nodes.yaml").as_deref(), Some("nodes"));
        assert_eq!(name("nodes/control.yml").as_deref(), Some("nodes.control"));
        assert_eq!(name("site-definition.yaml"), None);
        assert_eq!(name("README.md"), None);
        let below = location("site/edge/site-definition.yaml");
        let name = |path: &str| name_of("site/edge", &below, path);
        assert_eq!(name("site/edge/a/b.yaml").as_deref(), Some("a.b"));
        assert_eq!(name("site/edges.yaml").as_deref(), Some("site.edges"));
        assert_eq!(name("global/a.yaml").as_deref(), Some("global.a"));
    }

    #[test]
    fn a_name_leads_to_no_other_folder() {
        for name in ["design", "a.b", "a-b_C.1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(101);
        for name in [
            "",
            "..",
            ".a",
            "a.",
            "a..b",
            "a/b",
            "a\\b",
            "a b",
            "ä",
            "site-definition",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
