//! `trueup fmt`: the layout of documents, the order of their keys and their indentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::Context;
use super::{Failure, FailureKind};
use crate::design::schema::key_order;
use crate::diagnostic::{Mark, Sources};
use crate::document::{self, Limits, LoadSettings, Unformatted, decode};
use crate::report::{self, Visible, counted};
use crate::repository::{Links, Mode, Repository, Selection, read_file};

#[derive(Debug, Args)]
pub(super) struct FmtCommand {
    /// Files, or folders with all that is below them [default: the files of the site]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write nothing; end with 1 if a file is not formatted
    #[arg(long)]
    check: bool,
    /// Show what is changed in each file; with `--check` what would be
    #[arg(long)]
    diff: bool,
}

/// How many files there are of which kind.
#[derive(Default)]
struct Counts {
    changed: usize,
    same: usize,
    left: usize,
    broken: usize,
    unread: usize,
}

pub(super) fn run(context: &mut Context, command: &FmtCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let mut counts = Counts::default();
    for path in files(context, &repository, &command.paths)? {
        one(context, &repository, &path, command, &mut counts)?;
    }
    let changed = counted(counts.changed, "file", "files");
    let mut told = match (counts.changed, command.check) {
        (0, _) => "nothing to format".to_owned(),
        (_, true) => format!("{changed} would be formatted"),
        (_, false) => format!("{changed} formatted"),
    };
    let (same, left) = (counts.same, counts.left);
    write!(told, "; {same} unchanged, {left} left alone")?;
    context.printer.tell(&told);
    if counts.broken > 0 {
        let broken = counted(counts.broken, "file has errors", "files have errors");
        return Err(Failure::error(broken).hint("`trueup validate` names them"));
    }
    if counts.unread > 0 {
        let unread = counted(counts.unread, "file", "files");
        return Err(Failure::error(format!("{unread} cannot be read")));
    }
    if command.check && counts.changed > 0 {
        let message = match counts.changed {
            1 => "1 file is not formatted".to_owned(),
            count => format!("{count} files are not formatted"),
        };
        return Err(Failure::error(message).hint("the same command without `--check` formats them"));
    }
    Ok(0)
}

/// The files that are meant, by their paths in the repository; those that links lead to are at their own paths.
fn files(
    context: &Context,
    repository: &Repository,
    paths: &[PathBuf],
) -> Result<BTreeSet<String>, Failure> {
    repository.need_worktree()?;
    let mut found = BTreeSet::new();
    let mut list = |selection: &Selection| -> Result<(), Failure> {
        for entry in repository.worktree(selection)?.entries {
            if entry.mode != Mode::Link && entry.place() == &*entry.path && !entry.is_elsewhere() {
                found.insert(entry.path.to_string());
            }
        }
        Ok(())
    };
    if paths.is_empty() {
        list(&context.checkout(repository)?.location.selection)?;
    }
    let mut named = Vec::new();
    for path in paths {
        let refused = |kind, why: &str| {
            let text = format!("`{}` {why}", path.display());
            Err(Failure::new(kind, Visible(&text).to_string()))
        };
        let place = context.directory().join(path);
        let Ok(kind) = place.symlink_metadata() else {
            return refused(FailureKind::NotFound, "is not found");
        };
        if kind.is_symlink() {
            return refused(
                FailureKind::Error,
                "is a link; name the file that it leads to",
            );
        }
        let Some(inside) = inside(repository, &place) else {
            return refused(FailureKind::Usage, "is not in this repository");
        };
        let is_document = inside.ends_with(".yaml") || inside.ends_with(".yml");
        match kind.is_dir() {
            true => list(&Selection::below([inside]))?,
            false if is_document => named.push(inside),
            false => {
                return refused(
                    FailureKind::Usage,
                    "is no file with the ending `.yaml` or `.yml`",
                );
            }
        }
    }
    found.extend(named);
    Ok(found)
}

/// A path of the worktree as one in the repository.
fn inside(repository: &Repository, place: &Path) -> Option<String> {
    let place = place.canonicalize().ok()?;
    let root = repository.root().canonicalize().ok()?;
    let inside = place.strip_prefix(root).ok()?.to_str()?;
    Some(match std::path::MAIN_SEPARATOR {
        '/' => inside.to_owned(),
        separator => inside.replace(separator, "/"),
    })
}

fn one(
    context: &Context,
    repository: &Repository,
    path: &str,
    command: &FmtCommand,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let limits = Limits::default();
    let place = repository.root().join(path);
    let shown = Visible(path);
    let bytes = read_file(&place, limits.file_bytes as u64, Links::Refused);
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) => {
            counts.left += 1;
            counts.unread += 1;
            let line = format!("left alone: {shown}: it cannot be read: {error}");
            context.printer.tell(&line);
            return Ok(());
        }
    };
    let text = decode(path, &bytes, &limits).ok();
    let text = text.filter(|text| text.as_bytes() == bytes);
    let formatted = match &text {
        Some(text) => document::format(text, &limits, &key_order),
        None if bytes.starts_with("\u{feff}".as_bytes()) => {
            Err(Unformatted::whole("it begins with a byte order mark"))
        }
        None => Err(Unformatted::whole("it is no plain text in UTF-8")),
    };
    match (&formatted, &text) {
        (Ok(formatted), Some(text)) if **formatted == **text => counts.same += 1,
        (Ok(formatted), Some(text)) => {
            counts.changed += 1;
            context.printer.print(&format!("{shown}\n"))?;
            if command.diff {
                show(context, path, text, formatted)?;
            }
            if !command.check {
                let written =
                    repository.replace_file(&place, |out| out.write_all(formatted.as_bytes()));
                let unwritten = |error| format!("`{shown}` cannot be written: {error}");
                written.map_err(|error| Failure::error(unwritten(error)))?;
            }
        }
        (Err(left), _) => {
            counts.left += 1;
            counts.broken += usize::from(left.is_broken);
            let line = left
                .line
                .map_or_else(String::new, |line| format!(":{line}"));
            context
                .printer
                .tell(&format!("left alone: {shown}{line}: {left}"));
        }
        (Ok(_), None) => {}
    }
    Ok(())
}

/// Shows what is changed in a text, but for one with a line that holds a secret.
fn show(context: &Context, path: &str, before: &str, after: &str) -> Result<(), Failure> {
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let mut sources = Sources::new();
    let source = sources.add(path, before);
    for (start, end) in document::load(source, before, &settings).secret {
        sources.hide(source, start, end);
    }
    let lines = sources.lines(Mark::new(source, 0), u32::MAX);
    if lines.iter().any(|line| line.text.is_none()) {
        let text = "        its lines are not shown: some hold secrets\n";
        return context.printer.print(text);
    }
    let palette = context.printer.out;
    context
        .printer
        .stream(|out| report::diff::texts(out, before, after, palette))
}
