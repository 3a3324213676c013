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

use crate::folder::folder;

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

/// All that a command prints, masked, with its exit code if that is not 0.
fn printed(shell: &mut Shell, masks: &mut Numbered, command: &str) -> String {
    let (code, text) = shell.run(&masks.unmask(command));
    let text = text.replace(shell.outside().to_str().unwrap(), "DIR");
    let version = concat!("trueup ", env!("CARGO_PKG_VERSION"));
    let text = text.replace(version, "trueup VERSION");
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
    let folder = folder();
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
    rendered_documents
    validate_errors
    machine_twice
    usage_errors
    doctor_checks
    diff_of_revisions
    label_change
    disruption
    rungs
    refused_in_place
    firmware
    live_settings
    raid
    hardware_learned
    formatted
    image_change
    network_change
    removed_node
    drift
    rehearsal
    rollback
    way_back
    written_back
    part_of_a_site
    passwords
    secrets_masked
    adoption
    adopted_documents
    detailed_exit_codes
    groups_with_criteria
    waves_and_budgets
    soak
    canary_and_budget
    failed_group
    succeeded_with_failures
    limit_of_failures
    explain_words
    explain_blocked
    explain_run
    bundle_and_replay
    sandbox
    review_markdown
    saved_plan_stale
    plan_allowances
    plan_forged
    observed_from_a_file
    uncommitted_and_intermediate
    protected_node
    guards_of_a_policy
    rego_denial
    maintenance_window
    guards_in_force
    guards_way_back
    approval
    approval_covers
    break_glass
    broken_part
    reserved_machine
    signed_runs
    trust_needed
    trust_of_a_pull_request
    trust_networks
    trust_plain_http
    trust_file_in_worktree
    interrupted_resumed
    interrupted_twice
    killed_resumed
    resumed_elsewhere
    interrupted_aborted
    gone_machine
    lock_held
    unlock_dead
    records_not_pushed
    records_unpublished
    power
    drain_and_uncordon
    drain_blocked
    teardown
    redeploy_target_revision
    control_plane_redeploy
    etcd_quorum
    retire
    clean_failure
    remediation
    remediation_storm
    divided_run
    worker_killed
    worker_aborted
    many_sites
    records_in_a_branch
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
