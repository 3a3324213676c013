//! Transcripts: pages of prose and console blocks with all that their commands print.
//!
//! Each page of `tests/transcripts` begins in an empty folder. In a block ```` ```console ````, a line that begins
//! with `$ ` is a command, with the lines behind it that begin with `> ` (a here-document); all else up to the next
//! command is its whole output, standard output and standard error, and `-> exit N` where it does not end with 0.
//! What differs from run to run has a placeholder, which a later command may use: `trueup show RUN-1`. What else
//! differs on one page, such as a duration of the real clock, is named there: `<!-- mask "REGEX" as "TEXT" -->`.
//!
//! `TRUEUP_BLESS=1` writes the outputs anew and keeps the prose.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::masks::Numbered;
use super::shell::Shell;
use super::source_files::{root, source_files};

const FENCE: &str = "```";

/// A page as it should be: its prose and its commands, with what they print now.
fn played(page: &str) -> String {
    let mut shell = Shell::new();
    let mut masks = Numbered::default();
    let mut out = String::new();
    let own = own_masks(page);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        if line != "```console" {
            continue;
        }
        loop {
            let line = lines.next().expect("the console block has an end");
            if line == FENCE {
                let _ = writeln!(out, "{line}");
                break;
            }
            // An output, which is printed anew.
            let Some(command) = line.strip_prefix("$ ") else {
                continue;
            };
            let mut command = command.to_owned();
            let _ = writeln!(out, "{line}");
            while let Some(line) = lines.next_if(|line| *line == ">" || line.starts_with("> ")) {
                let _ = writeln!(out, "{line}");
                let _ = write!(command, "\n{}", line[1..].strip_prefix(' ').unwrap_or(""));
            }
            let mut text = printed(&mut shell, &mut masks, &command);
            for (pattern, placeholder) in &own {
                text = pattern.replace_all(&text, *placeholder).into_owned();
            }
            out.push_str(&text);
        }
    }
    out
}

/// The masks that a page names.
fn own_masks(page: &str) -> Vec<(Regex, &str)> {
    let parts = page.lines().filter_map(|line| {
        let named = line.strip_prefix("<!-- mask \"")?.strip_suffix("\" -->")?;
        named.split_once("\" as \"")
    });
    parts
        .map(|(pattern, placeholder)| (Regex::new(pattern).unwrap(), placeholder))
        .collect()
}

/// All that a command prints, masked, with its exit code where that is not 0.
fn printed(shell: &mut Shell, masks: &mut Numbered, command: &str) -> String {
    let (code, text) = shell.run(&masks.unmask(command));
    let text = text.replace(shell.outside().to_str().unwrap(), "DIR");
    let mut text = masks.mask(&text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in text.lines() {
        let is_mark = [FENCE, "$ ", "> ", "-> exit "]
            .iter()
            .any(|mark| line.starts_with(mark));
        assert!(!is_mark, "`{command}` prints a mark of transcripts: {line}");
    }
    if code != 0 {
        let _ = writeln!(text, "-> exit {code}");
    }
    text
}

/// The difference between two texts, as git prints it.
fn difference(shell: &Path, old: &str, new: &str) -> String {
    std::fs::write(shell.join("expected"), old).unwrap();
    std::fs::write(shell.join("printed"), new).unwrap();
    let arguments = ["diff", "--no-index", "--no-color", "expected", "printed"];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(shell)
        .output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

fn check(name: &str) {
    let path = root().join("tests/transcripts").join(format!("{name}.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let played = played(&page);
    if played == page {
        return;
    }
    if std::env::var_os("TRUEUP_BLESS").is_some() {
        std::fs::write(&path, played).unwrap();
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let difference = difference(folder.path(), &page, &played);
    panic!(
        "tests/transcripts/{name}.md prints something else; `TRUEUP_BLESS=1` writes it anew\n{difference}"
    );
}

macro_rules! transcripts {
    ($($name:ident)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

transcripts! {
    first_deploy
    status_nodes_log_show
    validate_errors
    usage_errors
    label_change
    image_change
    network_change
    detailed_exit_codes
    uncommitted_and_intermediate
    protected_node
    removed_node
    adoption
    drift
    groups_with_criteria
    waves_and_budgets
    failed_group
    saved_plan_stale
    approval
    approval_covers
    rego_denial
    maintenance_window
    guards_in_force
    guards_way_back
    interrupted_resumed
    interrupted_aborted
    lock_held
    records_not_pushed
    power
    drain_blocked
    drain_and_uncordon
    teardown
    redeploy_target_revision
    control_plane_redeploy
    etcd_quorum
    retire
    clean_failure
    divided_run
}

#[test]
fn every_transcript_is_run_and_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/transcripts.md")).unwrap();
    let files: BTreeSet<String> = source_files("tests/transcripts", "md")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = LISTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(files, listed);
    for name in &files {
        let link = format!("](../tests/transcripts/{name}.md)");
        assert_eq!(
            index.matches(&link).count(),
            1,
            "{link} in docs/transcripts.md"
        );
    }
}

#[test]
fn a_page_is_played_with_its_prose_kept_and_its_outputs_new() {
    let page = "Prose.\n\n```console\n$ cat > a <<'END'\n> one\n>\n> two\n> END\n$ cat a; echo err >&2; exit 3\nold\n-> exit 1\n```\n\n```yaml\n$ false\n```\n";
    let expected = page.replace("old\n-> exit 1", "one\n\ntwo\nerr\n-> exit 3");
    assert_eq!(played(page), expected);
}

#[test]
fn exit_codes_are_all_shown() {
    let mut shown = BTreeSet::new();
    for path in source_files("tests/transcripts", "md") {
        let page = std::fs::read_to_string(path).unwrap();
        shown.extend(
            page.lines()
                .filter_map(|line| line.strip_prefix("-> exit ")?.parse::<i32>().ok()),
        );
    }
    let wanted: BTreeSet<i32> = (1..=9).chain([64]).collect();
    let missing: Vec<_> = wanted.difference(&shown).collect();
    assert!(missing.is_empty(), "no transcript ends with {missing:?}");
}
