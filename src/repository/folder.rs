//! The files of one folder that are no documents.

use std::sync::Arc;

use super::walk::{Folders, Kind};
use super::{CommitId, Content, Entry, Error, Repository, Selection};

/// Files of one folder at most.
const MOST: usize = 200;

impl Repository {
    /// The files of a folder whose names end in `suffix`, by path, at a commit or in the worktree (`None`); empty if
    /// there is no such folder. Links are left out, and lead nowhere.
    ///
    /// # Errors
    ///
    /// One of them cannot be read or is larger than `limit`, or there are more than two hundred.
    pub fn folder_files(
        &self,
        commit: Option<CommitId>,
        folder: &str,
        suffix: &str,
        limit: u64,
    ) -> Result<Vec<(Arc<str>, Content)>, Error> {
        let list = |folders: &dyn Folders| entries(folders, folder, suffix);
        let mut entries = self.with_folders(commit, &Selection::below([folder]), list)?;
        if entries.len() > MOST {
            return Err(Error::Broken {
                what: format!("`{folder}`"),
                reason: format!("it has more than {MOST} files with the ending `{suffix}`"),
            });
        }
        if commit.is_none() {
            self.note_conversions(&mut entries)?;
        }
        let read = |entry: &Entry| Ok((entry.path.clone(), self.read(entry, limit)?));
        entries.iter().map(read).collect()
    }
}

fn entries(folders: &dyn Folders, folder: &str, suffix: &str) -> Result<Vec<Entry>, Error> {
    let ends = folder.match_indices('/').map(|(end, _)| end);
    for end in ends.chain([folder.len()]) {
        let node = folders.node(&folder[..end])?;
        if node.is_none_or(|node| node.kind != Kind::Folder) {
            return Ok(Vec::new());
        }
    }
    let mut entries = Vec::new();
    for child in folders.children(folder)? {
        if let (Ok(name), Kind::File(mode)) = (String::from_utf8(child.name), child.node.kind)
            && name.ends_with(suffix)
            && !name.starts_with('.')
        {
            entries.push(Entry {
                path: format!("{folder}/{name}").into(),
                mode,
                blob: child.node.blob,
                stamp: None,
                leads_to: None,
                conversion: None,
                elsewhere: None,
            });
        }
    }
    entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}
