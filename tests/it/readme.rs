//! What README and docs show is true: every command in them is run, every diagnostic is in the list.
//!
//! A block ```` ```console ```` is a session: each line that begins with `$ ` is run by the shell, in a site that
//! `trueup init` wrote (or in an empty folder where the page runs `trueup init` itself), one page after its own beginning. A
//! comment `# exits N` says which exit code is expected if it is not 0. `$ cargo …` is not run: those
//! lines are the quick start, which is exactly two commands.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::shell::Shell;
use super::source_files::{is_test, root, source_files, without_tests};

/// The quick start.
const CARGO: [&str; 2] = ["cargo run -- demo", "cargo test"];

/// README and every page of docs, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md")];
    paths.extend(source_files("docs", "md"));
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The commands of a page, in their order.
fn commands(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            found.push(command);
        }
    }
    found
}

/// The exit code that a comment at the end of a command asks for.
fn expected_exit(command: &str) -> i32 {
    let comment = command.rsplit_once("# exits ");
    comment.map_or(0, |(_, code)| code.trim().parse().unwrap())
}

#[test]
fn every_command_that_is_shown_does_what_is_said() {
    let mut run_in_all = 0;
    for (path, text) in pages() {
        let commands = commands(&text);
        let mut shell = Shell::new();
        if !commands
            .iter()
            .any(|command| command.starts_with("trueup init"))
        {
            let (code, said) = shell.run("trueup init");
            assert_eq!(code, 0, "{said}");
        }
        for command in commands {
            if command.starts_with("cargo ") {
                continue;
            }
            run_in_all += 1;
            let (code, said) = shell.run(command);
            assert_eq!(
                code,
                expected_exit(command),
                "{}: $ {command}\n{said}",
                path.display()
            );
        }
    }
    assert!(run_in_all > 0, "no command is shown");
}

#[test]
fn the_quick_start_is_two_commands() {
    let pages = pages();
    let shown: Vec<_> = pages
        .iter()
        .flat_map(|(_, text)| commands(text))
        .filter(|command| command.starts_with("cargo "))
        .collect();
    assert_eq!(shown, CARGO);
}

#[test]
fn every_command_in_running_text_is_understood() {
    let mut checked = 0;
    for (path, text) in pages() {
        for span in text.split('`').skip(1).step_by(2) {
            if !span.starts_with("trueup ") || span.contains('\n') {
                continue;
            }
            let command = span.split(" # ").next().unwrap();
            let outcome = trueup::cli::command().try_get_matches_from(command.split_whitespace());
            if let Err(error) = outcome {
                assert!(!error.use_stderr(), "{}: `{span}`\n{error}", path.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 0, "no command is named");
}

#[test]
fn the_table_of_commands_in_the_readme_is_complete() {
    let (_, readme) = pages().remove(0);
    let listed: BTreeSet<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(['`', ' ']).next())
        .collect();
    for command in trueup::cli::command().get_subcommands() {
        let name = command.get_name();
        assert!(
            name == "help" || listed.contains(name),
            "README.md lists no `{name}`"
        );
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for (path, text) in pages() {
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let there = path.parent().unwrap().join(file);
            assert!(there.exists(), "{}: {target}", path.display());
        }
    }
}

/// Every code that the library writes in quotes, tests left out.
fn written_codes() -> BTreeSet<String> {
    let pattern = regex::Regex::new(
        r#""((?:yaml|envelope|schema|render|reference|rule|file)-[a-z0-9.-]{2,})""#,
    )
    .unwrap();
    let paths = source_files("src", "rs");
    let mut found = BTreeSet::new();
    for path in paths.iter().filter(|path| !is_test(path)) {
        let text = std::fs::read_to_string(path).unwrap();
        let codes = pattern.captures_iter(without_tests(&text));
        found.extend(codes.map(|code| code[1].to_owned()));
    }
    found
}

#[test]
fn every_diagnostic_is_documented_once_and_none_that_is_not_there() {
    let text = std::fs::read_to_string(root().join("docs/diagnostics.md")).unwrap();
    let mut documented = BTreeSet::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("| `") else {
            continue;
        };
        let code = rest.split('`').next().unwrap().to_owned();
        assert!(documented.insert(code.clone()), "`{code}` is listed twice");
    }
    let written = written_codes();
    let missing: Vec<_> = written.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "not in docs/diagnostics.md: {missing:?}"
    );
    let gone: Vec<_> = documented.difference(&written).collect();
    assert!(gone.is_empty(), "in docs/diagnostics.md only: {gone:?}");
}

#[test]
fn a_policy_may_silence_each_warning_but_those_of_certificates_and_identities() {
    const NEVER: [&str; 2] = ["rule-identity-placeholder", "rule-tls-unverified"];
    let text = std::fs::read_to_string(root().join("docs/diagnostics.md")).unwrap();
    let rows = text.lines().filter(|line| line.contains("(warning"));
    let warnings = rows.filter_map(|line| line.split('`').nth(1));
    let schema = std::fs::read_to_string(root().join("schemas/trueup.Policy.v1.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let known = schema.pointer("/properties/silence/items/enum");
    let known = known.unwrap().as_array().unwrap();
    let missing: Vec<&str> = warnings
        .filter(|code| !NEVER.contains(code) && !known.iter().any(|each| each == code))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
