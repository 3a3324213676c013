//! How git changes the bytes of a file when it is committed: line ends, keywords, encodings and filters.
//!
//! The configuration says it for all files (`core.autocrlf`), and attributes for some. Which attributes a file has is
//! asked of git, if any file of attributes is there. A filter is a program, which a change of the design may bring:
//! none is run. A filtered file is read as it is, and differs from what is committed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::conversion::{
    Conversion, LineEnds, has_crlf, is_binary, with_line_feeds, without_keyword,
};
use super::program::{LOCAL, ProgramTimeout, variable};
use super::{BlobId, Entry, Error, Repository, blob_id};

/// The attributes that change the bytes of files.
const ATTRIBUTES: [&str; 6] = [
    "text",
    "crlf",
    "eol",
    "ident",
    "filter",
    "working-tree-encoding",
];

impl Repository {
    /// Notes how the bytes of files of the worktree are changed when they are committed.
    pub(super) fn note_conversions(&self, entries: &mut [Entry]) -> Result<(), Error> {
        if !self.has_attributes(entries) {
            return Ok(());
        }
        let places: BTreeSet<&str> = entries.iter().map(Entry::place).collect();
        let mut input = String::new();
        for place in places {
            input.push_str(place);
            input.push('\0');
        }
        let arguments = [&["check-attr", "-z", "--stdin"][..], &ATTRIBUTES].concat();
        let timeout = ProgramTimeout::Unattended(LOCAL);
        let output = self.run_program_with(&arguments, &input, timeout)?;
        if !output.success {
            return Err(Error::Program {
                attempt: "read the attributes of files".to_owned(),
                message: output.stderr,
            });
        }
        let mut fields = output.stdout.split_terminator('\0');
        let mut of_files: FxHashMap<&str, [&str; 6]> = FxHashMap::default();
        while let (Some(path), Some(name), Some(value)) =
            (fields.next(), fields.next(), fields.next())
        {
            let values = of_files.entry(path).or_insert(["unspecified"; 6]);
            if let Some(at) = ATTRIBUTES.iter().position(|each| *each == name) {
                values[at] = value;
            }
        }
        let mut known: FxHashMap<[&str; 6], Arc<Conversion>> = FxHashMap::default();
        for entry in entries.iter_mut().filter(|entry| entry.blob.is_none()) {
            let Some(values) = of_files.get(entry.place()) else {
                continue;
            };
            let conversion = known
                .entry(*values)
                .or_insert_with(|| Arc::new(self.conversion(values)));
            entry.conversion = Some(conversion.clone());
        }
        Ok(())
    }

    /// The conversion of a file with these values of the attributes.
    fn conversion(&self, [text, crlf, eol, ident, filter, encoding]: &[&str; 6]) -> Conversion {
        let text = match *text {
            "unspecified" => crlf,
            text => text,
        };
        let has_eol = matches!(*eol, "lf" | "crlf");
        let line_ends = match text {
            "set" | "input" => LineEnds::Text,
            "unset" => LineEnds::Unchanged,
            "auto" => LineEnds::Guessed,
            _ if has_eol => LineEnds::Text,
            _ => self.line_ends,
        };
        let is_given = |value: &str| !matches!(value, "unspecified" | "unset" | "set");
        let configuration = self.configuration();
        let runs = |name: &str| {
            let commands = ["clean", "process"];
            let mut commands = commands.iter().map(|each| format!("filter.{name}.{each}"));
            commands.any(|key| {
                configuration
                    .value(&key)
                    .is_some_and(|line| !line.is_empty())
            })
        };
        let is_utf_8 = ["utf-8", "utf8"].contains(&&*encoding.to_ascii_lowercase());
        Conversion {
            line_ends,
            has_keyword: *ident == "set",
            filter: match (is_given(filter) && runs(filter), is_given(encoding)) {
                (true, _) => Some(Arc::from(format!("filter `{filter}`"))),
                (_, true) if !is_utf_8 => Some(Arc::from(format!("encoding `{encoding}`"))),
                _ => None,
            },
        }
    }

    /// Whether any file of attributes is there that can be about one of these files.
    fn has_attributes(&self, entries: &[Entry]) -> bool {
        let home = || variable(&self.environment, "HOME").map(PathBuf::from);
        let settings = variable(&self.environment, "XDG_CONFIG_HOME");
        let settings = settings.filter(|folder| !folder.is_empty());
        let settings = settings.map(PathBuf::from);
        let settings = settings.or_else(|| home().map(|home| home.join(".config")));
        let own = self.configuration().value("core.attributesfile").is_some();
        let files = [
            Some(self.common_dir.join("info/attributes")),
            Some(PathBuf::from("/etc/gitattributes")),
            settings.map(|folder| folder.join("git/attributes")),
        ];
        if own || files.iter().flatten().any(|file| file.exists()) {
            return true;
        }
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.blob.is_none()) {
            let mut above = Path::new(entry.place()).ancestors().skip(1);
            while above.next().is_some_and(|folder| folders.insert(folder)) {}
        }
        folders
            .iter()
            .any(|folder| self.root.join(folder).join(".gitattributes").exists())
    }

    /// The bytes of a file of the worktree as git would commit them.
    pub(super) fn as_committed(&self, entry: &Entry, bytes: Vec<u8>) -> Vec<u8> {
        let by_configuration = Conversion {
            line_ends: self.line_ends,
            ..Conversion::default()
        };
        let conversion = entry.conversion.as_deref().unwrap_or(&by_configuration);
        let bytes = match conversion.line_ends {
            LineEnds::Unchanged => bytes,
            LineEnds::Guessed if is_binary(&bytes) => bytes,
            LineEnds::Guessed if !has_crlf(&bytes) => bytes,
            // What is committed with CRLF stays so.
            LineEnds::Guessed if self.indexed(entry.place()) == Some(blob_id(&bytes)) => bytes,
            LineEnds::Guessed | LineEnds::Text => with_line_feeds(bytes),
        };
        match conversion.has_keyword {
            true => without_keyword(&bytes).into_owned(),
            false => bytes,
        }
    }

    /// The id that the index has of a file.
    fn indexed(&self, path: &str) -> Option<BlobId> {
        let found = self.with(|handle| {
            let index = handle.index().ok();
            let entry = index.and_then(|index| index.get_path(Path::new(path), 0));
            Ok(entry.map(|entry| entry.id.into()))
        });
        found.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_mean_what_they_mean_to_git() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        repository.configure("filter.known.clean", "cat").unwrap();
        const NONE: &str = "unspecified";
        let kept = (LineEnds::Unchanged, false, None);
        for (values, meant) in [
            ([NONE; 6], kept),
            (
                ["set", NONE, NONE, NONE, NONE, NONE],
                (LineEnds::Text, false, None),
            ),
            (
                [NONE, "input", NONE, NONE, NONE, NONE],
                (LineEnds::Text, false, None),
            ),
            (
                [NONE, NONE, "crlf", NONE, NONE, NONE],
                (LineEnds::Text, false, None),
            ),
            (
                ["auto", NONE, "crlf", NONE, NONE, NONE],
                (LineEnds::Guessed, false, None),
            ),
            (["unset", NONE, "crlf", NONE, NONE, NONE], kept),
            (
                [NONE, NONE, NONE, "set", NONE, NONE],
                (LineEnds::Unchanged, true, None),
            ),
            ([NONE, NONE, NONE, NONE, "unknown", NONE], kept),
            (
                [NONE, NONE, NONE, NONE, "known", NONE],
                (LineEnds::Unchanged, false, Some("filter `known`")),
            ),
            ([NONE, NONE, NONE, NONE, NONE, "UTF-8"], kept),
            (
                [NONE, NONE, NONE, NONE, NONE, "UTF-16"],
                (LineEnds::Unchanged, false, Some("encoding `UTF-16`")),
            ),
        ] {
            let found = repository.conversion(&values);
            let found = (found.line_ends, found.has_keyword, found.filter.as_deref());
            assert_eq!(found, meant, "{values:?}");
        }
    }
}
